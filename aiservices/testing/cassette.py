"""A chat model that records what another one answers, and replays it without asking."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing, closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import errors
from ..messages import ChatReply, ReplyDelta
from ..models.base import Capabilities, ChatModel, find_model
from ..models.scripted import ScriptedChatModel
from ..requests import ChatRequest
from .cassette_miss import CassetteError, miss
from .cassette_tape import CassetteMode, Exchange, Tape
from .request_json import (
    delta_from_json,
    delta_to_json,
    reply_from_json,
    reply_to_json,
    request_to_json,
    without_secrets,
)

__all__ = ["CassetteChatModel"]

_LONGEST_WAIT = 60.0  # seconds; what asks for more was not asked again
_OF_ERRORS = ("status", "request_id", "retryable", "retry_after", "body")


class CassetteChatModel:
    """Replays the exchanges in the file at ``path``, and records those with ``model`` as ``mode`` says.

    A request is known again by its messages, its options, the form of the answer and the tools. Equal
    requests get what was recorded for them, in its order. Timeouts and headers are neither kept nor compared;
    keys are removed, by their names, their forms, and as the environment has them. ``redact`` is given each
    text before it is kept or compared: it removes what else is secret, or differs from run to run. Replies
    come without ``raw``. ModelErrors are recorded too; what is replayed asks nobody to wait.

    Without a model it only plays, with the name and the capabilities of the one that was recorded. Raises
    CassetteError for a request that is not in the file and not to be recorded, with what differs from the
    nearest one, and for a file that is no cassette. Safe to use from several threads.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: ChatModel | str | None = None,
        *,
        mode: CassetteMode | str = CassetteMode.ONCE,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._begin(Tape(Path(path), CassetteMode(mode)), model, redact)

    def also(self, model: ChatModel | str) -> CassetteChatModel:
        """A cassette of another model, whose exchanges are in the same file."""
        other = CassetteChatModel.__new__(CassetteChatModel)
        other._begin(self._tape, model, self._redact)
        return other

    def _begin(self, tape: Tape, model: ChatModel | str | None, redact: Callable[[str], str]) -> None:
        self._tape, self._redact = tape, redact
        self._model = None if model is None else find_model(model)
        if self._model is None:
            self._name, self._capabilities = self._recorded_model()
        else:
            self._name, self._capabilities = self._model.name, self._model.capabilities
            tape.models[self._name] = asdict(self._capabilities)

    def _recorded_model(self) -> tuple[str, Capabilities]:
        tape, models = self._tape, self._tape.models
        if not tape.plays_only:
            said = f"to record to {tape.path}, pass the model that is to be asked"
            raise CassetteError(f'{said}; with mode="none" none is needed')
        if not models:
            raise CassetteError(miss(tape.path, tape.mode, tape.path.exists(), {}, []))
        if len(models) != 1:
            raise CassetteError(
                f"{tape.path} holds the models {', '.join(models)}; pass the model that is meant"
            )
        ((name, can),) = models.items()
        return name, Capabilities(**can)

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def unplayed(self) -> int:
        """How many recorded exchanges of the file were not asked for so far."""
        return self._tape.unplayed

    def complete(self, request: ChatRequest) -> ChatReply:
        asked = self._asked(request)
        played = self._tape.play(asked)
        if played is not None:
            return self._reply(played)
        with self._recording(asked) as exchange:
            reply = self._asks.complete(request)
            exchange.reply = self._public(reply_to_json(reply))
            return reply

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        asked = self._asked(request)
        played = self._tape.play(asked)
        if played is not None:
            return self._reply(played)
        with self._recording(asked) as exchange:
            reply = await self._asks.acomplete(request)
            exchange.reply = self._public(reply_to_json(reply))
            return reply

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        asked = self._asked(request)
        played = self._tape.play(asked)
        if played is not None:
            yield from self._deltas(played, request)
            return
        with self._recording(asked) as exchange, closing(_generator(self._asks.stream(request))) as deltas:
            for delta in deltas:
                self._keep(exchange, delta)
                yield delta

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        asked = self._asked(request)
        played = self._tape.play(asked)
        if played is not None:
            for delta in self._deltas(played, request):
                yield delta
            return
        with self._recording(asked) as exchange:
            async with aclosing(_agenerator(self._asks.astream(request))) as deltas:
                async for delta in deltas:
                    self._keep(exchange, delta)
                    yield delta

    @property
    def _asks(self) -> ChatModel:
        assert self._model is not None, "what has no model only plays"
        return self._model

    def _asked(self, request: ChatRequest) -> dict[str, Any]:
        asked: dict[str, Any] = self._public({"model": self._name, **request_to_json(request)})
        return asked

    def _public(self, said: Any) -> Any:
        return without_secrets(said, self._redact)

    @contextmanager
    def _recording(self, asked: dict[str, Any]) -> Iterator[Exchange]:
        with self._tape.recording(asked) as exchange:
            try:
                yield exchange
            except errors.ModelError as error:
                told = {name: getattr(error, name) for name in _OF_ERRORS if getattr(error, name) is not None}
                exchange.error = self._public({"type": type(error).__name__, "message": str(error), **told})
                raise

    def _keep(self, exchange: Exchange, delta: ReplyDelta) -> None:
        if delta.reply is not None:
            exchange.reply = self._public(reply_to_json(delta.reply))
        else:
            exchange.pieces.append(self._public(delta_to_json(delta)))

    def _reply(self, exchange: Exchange) -> ChatReply:
        if exchange.error is not None:
            raise _error(exchange.error)
        if exchange.reply is None:
            raise CassetteError(
                f"{self._tape.path}: the stream of this request was left before its end when it was "
                "recorded, and its whole reply is not known; record it anew"
            )
        return reply_from_json(exchange.reply)

    def _deltas(self, exchange: Exchange, request: ChatRequest) -> Iterator[ReplyDelta]:
        if not exchange.pieces and exchange.reply is not None:  # it was recorded as a whole
            yield from ScriptedChatModel([reply_from_json(exchange.reply)]).stream(request)
            return
        for piece in exchange.pieces:
            yield delta_from_json(piece)
        yield ReplyDelta(reply=self._reply(exchange))


def _error(said: Any) -> errors.ModelError:
    """The error that was recorded; one that was asked again after a while may be asked again at once."""
    fields = dict(said)
    kind = getattr(errors, fields.pop("type"), errors.ModelError)
    if fields.get("retryable") and fields.get("retry_after", 0.0) <= _LONGEST_WAIT:
        fields["retry_after"] = 0.0
    error: errors.ModelError = kind(fields.pop("message"), **fields)
    return error


def _generator(deltas: Iterator[ReplyDelta]) -> Generator[ReplyDelta, None, None]:
    """An iterator that can be closed, be it one that cannot."""
    try:
        yield from deltas
    finally:
        close = getattr(deltas, "close", None)
        if close is not None:
            close()


async def _agenerator(deltas: Any) -> AsyncGenerator[ReplyDelta, None]:
    try:
        async for delta in deltas:
            yield delta
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()
