"""Fake models whose streams send a given sequence of pieces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

from aiservices import AiMessage, Capabilities, ChatReply, ChatRequest, ReplyDelta, Usage


class PiecewiseModel:
    """A fake model that streams each reply in the given pieces.

    Each argument is the list of pieces of one reply. A piece is a text, a delta, or an exception to raise.

    Attributes:
        requests: The requests so far.
        sent_pieces: The number of pieces that were sent.
        closed: The number of streams that were closed.
    """

    name = "piecewise"
    capabilities = Capabilities(json_schema=True)

    def __init__(self, *replies: list[Any], end: ChatReply | None = None, is_complete: bool = True) -> None:
        """Create a model. Unless ``is_complete``, the streams end without the complete reply ``end``."""
        self._replies = list(replies)
        self._end = end
        self._is_complete = is_complete
        self.requests: list[ChatRequest] = []
        self.sent_pieces = 0
        self.closed = 0

    def _deltas(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        self.requests.append(request)
        pieces = self._replies.pop(0)
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
            self.sent_pieces += 1
            yield piece if isinstance(piece, ReplyDelta) else ReplyDelta(piece)
        if self._is_complete:
            text = "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)
            reply = self._end or ChatReply(AiMessage(""), usage=Usage(1, len(pieces)))
            yield ReplyDelta(reply=replace(reply, message=AiMessage(text)))

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        try:
            yield from self._deltas(request)
        finally:
            self.closed += 1

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        try:
            for piece in self._deltas(request):
                await asyncio.sleep(0)
                yield piece
        finally:
            self.closed += 1

    def complete(self, request: ChatRequest) -> ChatReply:
        raise NotImplementedError

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        raise NotImplementedError


class EndlessModel(PiecewiseModel):
    """A fake model that sends the same piece again and again, and never ends its reply."""

    def __init__(self, first: str = "", piece: str = "la ", seconds: float = 0.0) -> None:
        super().__init__()
        self._first, self._piece, self._seconds = first, piece, seconds

    def _deltas(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        self.requests.append(request)
        yield ReplyDelta(self._first)
        while True:
            self.sent_pieces += 1
            time.sleep(self._seconds)
            yield ReplyDelta(self._piece)
