"""A chat model that says what it is told to: for tests and for trying things out."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TypeAlias

from .base import Capabilities
from .messages import AiMessage, ChatReply, ReplyDelta, ToolCallDelta, Usage
from .requests import ChatRequest

ScriptedReply: TypeAlias = str | ChatReply | Exception
_CAPABILITIES = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True)
_PIECES = re.compile(r"\S+\s*|\s+")


class ScriptedChatModel:
    """Gives the replies of a script, one a request, in order; and keeps the ``requests`` that it was sent.

    ``script`` is the replies, or a function from the request to a reply. A reply is a text, a whole
    ChatReply, or an exception to raise. When the script is at its end, LookupError is raised. A stream
    gives a reply word by word. Usage is counted in words. Safe to use from several threads.
    """

    def __init__(
        self,
        script: Iterable[ScriptedReply] | Callable[[ChatRequest], ScriptedReply],
        *,
        capabilities: Capabilities = _CAPABILITIES,
        name: str = "scripted",
    ) -> None:
        self._script = script if callable(script) else iter(list(script))
        self._capabilities = capabilities
        self._name = name
        self._lock = threading.Lock()
        self.requests: list[ChatRequest] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def complete(self, request: ChatRequest) -> ChatReply:
        with self._lock:
            self.requests.append(request)
            made = len(self.requests)
            reply = None if callable(self._script) else next(self._script, None)
        if callable(self._script):
            reply = self._script(request)
        if reply is None:
            raise LookupError(f"the script of {self._name} is at its end after {made - 1} replies")
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, ChatReply):
            return reply
        said = sum(len(message.text.split()) for message in request.messages)
        return ChatReply(AiMessage(reply), usage=Usage(said, len(reply.split())), model=self._name)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        return self.complete(request)

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        reply = self.complete(request)
        for piece in _PIECES.findall(reply.text):
            yield ReplyDelta(piece)
        for index, call in enumerate(reply.message.tool_calls):
            for piece in _PIECES.findall(call.arguments):
                yield ReplyDelta(tool_calls=(ToolCallDelta(index, call.name, piece),))
        yield ReplyDelta(reply=reply)

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        for delta in self.stream(request):
            yield delta
