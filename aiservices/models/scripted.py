"""A fake chat model that replies according to a script, for tests and experiments."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TypeAlias

from .arguments import checks_arguments
from .base import Capabilities, PickledByArguments
from .errors import DefinitionError, DefinitionProblem
from .messages import AiMessage, ChatReply, ReplyDelta, ToolCallDelta, Usage
from .requests import ChatRequest

ScriptedReply: TypeAlias = str | ChatReply | Exception
_CAPABILITIES = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True, logprobs=20)
# A word with the white space after it, so the pieces of a stream together are the whole text.
_WORD = re.compile(r"\S+\s*|\s+")


@checks_arguments
class ScriptedChatModel(PickledByArguments):
    """A fake chat model for tests, which returns scripted replies in order and records each request.

    Args:
        script: The replies in their order, or a function from a request to a reply. A reply is a string,
            a ChatReply, or an exception, which is raised.
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
        if not callable(script):
            script = list(script)
            problems = [
                DefinitionProblem("ScriptedChatModel", f"reply {number} is {_not_a_reply(reply)}")
                for number, reply in enumerate(script, 1)
                if not isinstance(reply, (str, ChatReply, Exception))
            ]
            if problems:
                raise DefinitionError(problems)
        self._script = script if callable(script) else iter(script)
        self._capabilities = capabilities
        self._name = name
        self._lock = threading.Lock()
        self.requests: list[ChatRequest] = []

    @property
    def name(self) -> str:
        """The name of this fake model in errors and logs."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """The features that this fake model claims to support, such as tool calls."""
        return self._capabilities

    def complete(self, request: ChatRequest) -> ChatReply:
        """Record a chat request, then return the scripted reply or raise the scripted exception."""
        with self._lock:
            self.requests.append(request)
            request_count = len(self.requests)
            reply = None if callable(self._script) else next(self._script, None)
        if callable(self._script):
            # Called without the lock, so that a script may block until another request arrives.
            reply = self._script(request)
        if reply is None:
            raise LookupError(f"the script of {self._name} has no reply to request {request_count}")
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, ChatReply):
            return reply
        if not isinstance(reply, str):
            message = f"the script returned {_not_a_reply(reply)}"
            raise DefinitionError([DefinitionProblem("ScriptedChatModel", message)])
        input_words = sum(len(message.text.split()) for message in request.messages)
        usage = Usage(input_words, len(reply.split()))
        return ChatReply(AiMessage(reply), usage=usage, model=self._name)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Record a chat request, and return the scripted reply; async version of ``complete``."""
        return self.complete(request)

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        """Stream the next scripted reply word by word: first its text, then its tool calls."""
        reply = self.complete(request)
        for word in _WORD.findall(reply.text):
            yield ReplyDelta(word)
        for index, call in enumerate(reply.message.tool_calls):
            *words, last = _WORD.findall(call.arguments) or [""]
            for word in words:
                yield ReplyDelta(tool_calls=(ToolCallDelta(index, call.name, word),))
            yield ReplyDelta(tool_calls=(ToolCallDelta(index, call.name, last, call),))
        yield ReplyDelta(reply=reply)

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        """Stream the next scripted reply word by word; async version of ``stream``."""
        for delta in self.stream(request):
            yield delta


def _not_a_reply(reply: object) -> str:
    """Return text for an error message: the type of an invalid scripted reply, and what to pass instead."""
    kind = type(reply).__name__
    if isinstance(reply, AiMessage):
        return f"{kind}; pass ChatReply(message)"
    return f"{kind}; pass a text as the model writes it, such as JSON, a ChatReply or an exception"
