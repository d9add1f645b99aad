"""A chat model that tries several models in order until one answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Literal

from .base import Capabilities, ChatModel, PickledByArguments, find_model, members_of
from .errors import DefinitionError, DefinitionProblem, ModelError
from .messages import ChatReply, ReplyDelta
from .requests import ChatRequest


class FallbackChatModel(PickledByArguments):
    """A chat model that sends each request to several models in turn until one answers.

    ``first`` and ``others`` are models or names of models. Raises DefinitionError if a name is unknown.

    In a service, each member is used with the strategy that suits it best, and all members share one budget.
    If a member fails, the next one is used at once. If all have failed, those with temporary errors
    are tried again after a wait. A reply that does not match the return type is not a failure of the model:
    the same model is asked again, with a list of the problems.

    With ``unsure=0.9``, a service also asks the next member if an answer of a bool, Enum or Literal has a
    probability below 0.9. With ``unsure="threshold"``, the limit of each answer is its threshold, from
    ``create(thresholds=…)`` or the calibration of the model. If that member fails, the unsure answer is used.
    A member that gives no probabilities is never unsure.

    Without a service, each member is tried once. The request may use only what all members support.

    Example:
        model = FallbackChatModel("openai:gpt-5-mini", "ollama:qwen3")
    """

    def __init__(
        self,
        first: ChatModel | str,
        *others: ChatModel | str,
        unsure: float | Literal["threshold"] | None = None,
    ) -> None:
        is_probability = isinstance(unsure, (int, float)) and 0 < unsure <= 1
        if unsure not in (None, "threshold") and not is_probability:
            message = f'unsure is {unsure!r}; it must be a probability above 0, at most 1, or "threshold"'
            raise DefinitionError([DefinitionProblem("FallbackChatModel", message)])
        self.unsure = unsure
        models = [find_model(model, "FallbackChatModel") for model in (first, *others)]
        # A fallback model among the models is replaced by its members.
        self._members = tuple(member for model in models for member in members_of(model))

    @property
    def members(self) -> tuple[ChatModel, ...]:
        """The chat models, in the order in which they are tried."""
        return self._members

    @property
    def name(self) -> str:
        """The names of all models to try, separated by vertical bars."""
        return " | ".join(member.name for member in self._members)

    @property
    def capabilities(self) -> Capabilities:
        """The features, such as tool calls, that all of the models to try support."""
        capabilities = [member.capabilities for member in self._members]
        return Capabilities(
            json_schema=all(one.json_schema for one in capabilities),
            strict_schema=all(one.strict_schema for one in capabilities),
            json_mode=all(one.json_mode for one in capabilities),
            constrained=all(one.constrained for one in capabilities),
            tools=all(one.tools for one in capabilities),
            logprobs=min(one.logprobs for one in capabilities),
            # Only a default: a service plans each member with its own capabilities.
            profile=capabilities[0].profile,
        )

    def complete(self, request: ChatRequest) -> ChatReply:
        """Try the models in turn; return the first reply, or raise the last error if all fail."""
        for member in self._members[:-1]:
            try:
                return member.complete(request)
            # Any other exception is a mistake in the program, which the next model would not correct.
            except ModelError:
                continue
        return self._members[-1].complete(request)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Try the models in turn without blocking; return the first reply, or raise the last error."""
        for member in self._members[:-1]:
            try:
                return await member.acomplete(request)
            except ModelError:
                continue
        return await self._members[-1].acomplete(request)

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        """Stream the reply of the first model that starts to answer.

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
        """Stream the reply of the first model that starts to answer, for async callers.

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
    """Context manager that closes a streamed reply, which ends the model request."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "close", None)
        if close is not None:
            close()


@asynccontextmanager
async def _aclosing(deltas: AsyncIterator[ReplyDelta]) -> AsyncIterator[AsyncIterator[ReplyDelta]]:
    """Async context manager that closes a streamed reply, which ends the model request."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()
