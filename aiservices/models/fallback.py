"""A chat model that tries several models in order until one of them answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager

from .base import Capabilities, ChatModel, find_model, members_of
from .errors import ModelError
from .messages import ChatReply, ReplyDelta
from .requests import ChatRequest


class FallbackChatModel:
    """A chat model that sends each request to several models in turn until one of them answers.

    ``first`` and ``others`` are models or names of models. Raises DefinitionError if a name is unknown.

    In a service, each member is used with the strategy that suits it best, and all members share one budget.
    If a member fails, the next one is used at once. If all have failed, those with temporary errors
    are tried again after a wait. A reply that does not match the return type is not a failure of the model:
    the same model is asked again, with a list of the problems.

    Without a service, each member is tried once. The request may use only what all members support.

    Example:
        model = FallbackChatModel("openai:gpt-5-mini", "ollama:qwen3")
    """

    def __init__(self, first: ChatModel | str, *others: ChatModel | str) -> None:
        models = [find_model(model, "FallbackChatModel") for model in (first, *others)]
        # A fallback model among the models is replaced by its members.
        self._members = tuple(member for model in models for member in members_of(model))

    @property
    def members(self) -> tuple[ChatModel, ...]:
        """The chat models that are tried one after the other, in this order."""
        return self._members

    @property
    def name(self) -> str:
        """The names of all models that are tried in turn, separated by vertical bars."""
        return " | ".join(member.name for member in self._members)

    @property
    def capabilities(self) -> Capabilities:
        """The features that every one of the models tried in turn supports, such as tool calls."""
        capabilities = [member.capabilities for member in self._members]
        return Capabilities(
            json_schema=all(one.json_schema for one in capabilities),
            strict_schema=all(one.strict_schema for one in capabilities),
            json_mode=all(one.json_mode for one in capabilities),
            constrained=all(one.constrained for one in capabilities),
            tools=all(one.tools for one in capabilities),
            # Only a default: a service plans each member with its own capabilities.
            profile=capabilities[0].profile,
        )

    def complete(self, request: ChatRequest) -> ChatReply:
        """Try the models in turn; return the first reply, or raise the last error if all models fail."""
        for member in self._members[:-1]:
            try:
                return member.complete(request)
            # Any other exception is a mistake in the program, which the next model would not correct.
            except ModelError:
                continue
        return self._members[-1].complete(request)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Try the models in turn, asynchronously; return the first reply, or raise the last error."""
        for member in self._members[:-1]:
            try:
                return await member.acomplete(request)
            except ModelError:
                continue
        return await self._members[-1].acomplete(request)

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        """Yield the pieces of the reply from the first model that starts to answer.

        A model that fails before its first piece is skipped. An error after the first piece is raised.
        """
        for member in self._members:
            has_started = False
            try:
                with _closing(member.stream(request)) as deltas:
                    for delta in deltas:
                        has_started = True
                        yield delta
                return
            except ModelError:
                # The pieces of two replies must not be mixed.
                if has_started or member is self._members[-1]:
                    raise

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        """Yield the pieces of the reply from the first model that starts to answer, asynchronously.

        A model that fails before its first piece is skipped. An error after the first piece is raised.
        """
        for member in self._members:
            has_started = False
            try:
                async with _aclosing(member.astream(request)) as deltas:
                    async for delta in deltas:
                        has_started = True
                        yield delta
                return
            except ModelError:
                if has_started or member is self._members[-1]:
                    raise


# Not contextlib.closing: the stream of a user's model may be an iterator without a close method.
@contextmanager
def _closing(deltas: Iterator[ReplyDelta]) -> Iterator[Iterator[ReplyDelta]]:
    """Context manager that closes the stream of a model's reply and so ends the request."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "close", None)
        if close is not None:
            close()


@asynccontextmanager
async def _aclosing(deltas: AsyncIterator[ReplyDelta]) -> AsyncIterator[AsyncIterator[ReplyDelta]]:
    """Async context manager that closes the stream of a model's reply and so ends the request."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()
