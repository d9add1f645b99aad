"""A fake chat model for tests and experiments, which returns replies from a script."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TypeAlias

from .base import Capabilities
from .errors import DefinitionError, DefinitionProblem
from .messages import AiMessage, ChatReply, ReplyDelta, ToolCallDelta, Usage
from .requests import ChatRequest

ScriptedReply: TypeAlias = str | ChatReply | Exception
_CAPABILITIES = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True)
# A word with the white space after it, so the pieces of a stream together are the whole text.
_WORD = re.compile(r"\S+\s*|\s+")


class ScriptedChatModel:
    """A fake chat model for tests, which returns the next reply of a script and records each request.

    Args:
        script: The replies in their order, or a function from a request to a reply. A reply is a text, a
            ChatReply, or an exception, which is raised.
        capabilities: What the model claims to support; by default all but constrained decoding.
        name: The name of the model.

    Streams yield a reply word by word. Usage is counted in words. It is safe to use from several threads.
    A request after the last reply raises LookupError. Raises DefinitionError if the script is a single text.

    Attributes:
        requests: The requests so far.

    Example:
        model = ScriptedChatModel(["Hello!", RateLimitError("slow down", retryable=True)])
    """

    def __init__(
        self,
        script: Iterable[ScriptedReply] | Callable[[ChatRequest], ScriptedReply],
        *,
        capabilities: Capabilities = _CAPABILITIES,
        name: str = "scripted",
    ) -> None:
        if isinstance(script, str):
            # A string is an iterable of strings, so each of its characters would be a reply.
            message = f"the script is a text; pass a list of replies, as in ScriptedChatModel([{script!r}])"
            raise DefinitionError([DefinitionProblem("ScriptedChatModel", message)])
        self._script = script if callable(script) else iter(list(script))
        self._capabilities = capabilities
        self._name = name
        self._lock = threading.Lock()
        self.requests: list[ChatRequest] = []

    @property
    def name(self) -> str:
        """The name of this fake model, as in errors and logs."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """The features that this fake model claims to support, such as tool calls."""
        return self._capabilities

    def complete(self, request: ChatRequest) -> ChatReply:
        """Record a chat request, and return the next reply of the script; an exception in it is raised."""
        with self._lock:
            self.requests.append(request)
            request_count = len(self.requests)
            reply = None if callable(self._script) else next(self._script, None)
        if callable(self._script):
            # Called without the lock, so that a script may block until another request arrives.
            reply = self._script(request)
        if reply is None:
            raise LookupError(f"the script of {self._name} is at its end after {request_count - 1} replies")
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, ChatReply):
            return reply
        input_words = sum(len(message.text.split()) for message in request.messages)
        usage = Usage(input_words, len(reply.split()))
        return ChatReply(AiMessage(reply), usage=usage, model=self._name)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Record a chat request, and return the next reply of the script, for async callers."""
        return self.complete(request)

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        """Yield the next reply of the script word by word: first its text, then its tool calls."""
        reply = self.complete(request)
        for word in _WORD.findall(reply.text):
            yield ReplyDelta(word)
        for index, call in enumerate(reply.message.tool_calls):
            for word in _WORD.findall(call.arguments):
                yield ReplyDelta(tool_calls=(ToolCallDelta(index, call.name, word),))
        yield ReplyDelta(reply=reply)

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        """Yield the next reply of the script word by word, for async callers."""
        for delta in self.stream(request):
            yield delta
