"""A chat model that tries several models in order until one answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

from .base import Capabilities, ChatModel, PickledByArguments, Rest, find_model, members_of, rests_of
from .errors import ModelError, check_settings, is_at_least, is_positive
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

    With ``rest_after=5``, a member that has failed five times in a row is skipped for ``rest_for`` seconds.
    Then one request tries it, and if that fails, the member rests again. All calls with this object share
    what is known of its members. If all members rest, they are asked as if none did. ``Result.reasons`` names
    skipped members, and the logger ``aiservices`` gets a warning when a rest begins. A request that the model
    refuses because of its content does not count as a failure.

    A member that is a LimitedChatModel, except the last one, does not wait for the end of an outage (status
    503 or 529): the next member is asked at once.

    Without a service, each member is tried once. The request may use only what all members support.

    Example:
        model = FallbackChatModel("openai:gpt-5-mini", "ollama:qwen3")
    """

    def __init__(
        self,
        first: ChatModel | str,
        *others: ChatModel | str,
        unsure: float | Literal["threshold"] | None = None,
        rest_after: int | None = None,
        rest_for: float = 30.0,
    ) -> None:
        is_probability = isinstance(unsure, (int, float)) and 0 < unsure <= 1
        is_unsure = unsure in (None, "threshold") or is_probability
        is_count = rest_after is None or (isinstance(rest_after, int) and is_at_least(rest_after, 1))
        check_settings(
            "FallbackChatModel",
            ("unsure", unsure, is_unsure, 'it must be a probability above 0, at most 1, or "threshold"'),
            ("rest_after", rest_after, is_count, "it must be a whole number above 0, or None"),
            ("rest_for", rest_for, is_positive(rest_for), "it must be greater than 0"),
        )
        self.unsure = unsure
        models = [find_model(model, "FallbackChatModel") for model in (first, *others)]
        # A fallback model among the models is replaced by its members.
        members: list[Any] = [member for model in models for member in members_of(model)]
        old_rests = [rests_of(model).get(id(member)) for model in models for member in members_of(model)]
        for index, member in enumerate(members[:-1]):
            if hasattr(type(member), "failing_at_once"):
                members[index] = member.failing_at_once()
        self._members: tuple[ChatModel, ...] = tuple(members)
        self._rests: dict[int, Rest] = {}
        for member, rest in zip(members, old_rests, strict=True):
            rest = rest if rest_after is None else Rest(member.name, rest_after, rest_for)
            if rest is not None:
                self._rests[id(member)] = rest

    @property
    def members(self) -> tuple[ChatModel, ...]:
        """The chat models, in the order in which they are tried."""
        return self._members

    @property
    def rests(self) -> Mapping[int, Rest]:
        """A dict from the models' ``id`` to their circuit breakers (Rest); empty if there are none."""
        return self._rests

    def _awake_members(self) -> Iterator[ChatModel]:
        """Yield the models that are not resting after failures, or all models if all are resting.

        Each model is checked only when its turn comes, because a check may admit the one trial request after
        a rest.
        """
        has_awake = False
        for member in self._members:
            rest = self._rests.get(id(member))
            if rest is None or rest.admits():
                has_awake = True
                yield member
        if not has_awake:
            yield from self._members

    def _failed(self, member: ChatModel, error: ModelError) -> None:
        rest = self._rests.get(id(member))
        if rest is not None:
            rest.failed(error)

    def _succeeded(self, member: ChatModel) -> None:
        rest = self._rests.get(id(member))
        if rest is not None:
            rest.succeeded()

    @property
    def name(self) -> str:
        """The names of all models to try, separated by vertical bars."""
        return " | ".join(member.name for member in self._members)

    @property
    def capabilities(self) -> Capabilities:
        """The features, such as tool calls, that every one of the models supports."""
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
        last_error: ModelError | None = None
        for member in self._awake_members():
            try:
                reply = member.complete(request)
            # Any other exception is a mistake in the program, which the next model would not correct.
            except ModelError as error:
                last_error = error
                self._failed(member, error)
            else:
                self._succeeded(member)
                return reply
        assert last_error is not None, "there is at least one model"
        raise last_error

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Try the models in turn without blocking; return the first reply, or raise the last error."""
        last_error: ModelError | None = None
        for member in self._awake_members():
            try:
                reply = await member.acomplete(request)
            except ModelError as error:
                last_error = error
                self._failed(member, error)
            else:
                self._succeeded(member)
                return reply
        assert last_error is not None, "there is at least one model"
        raise last_error

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        """Stream the reply of the first model that starts to answer.

        A model that fails before its first piece is skipped. An error after the first piece is raised.
        """
        last_error: ModelError | None = None
        for member in self._awake_members():
            has_started = False
            try:
                with _closing(member.stream(request)) as deltas:
                    for delta in deltas:
                        has_started = True
                        yield delta
                self._succeeded(member)
                return
            except ModelError as error:
                last_error = error
                self._failed(member, error)
                # The pieces of two replies must not be mixed.
                if has_started:
                    raise
        assert last_error is not None, "there is at least one model"
        raise last_error

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        """Asynchronously stream the reply of the first model that starts to answer.

        A model that fails before its first piece is skipped. An error after the first piece is raised.
        """
        last_error: ModelError | None = None
        for member in self._awake_members():
            has_started = False
            try:
                async with _aclosing(member.astream(request)) as deltas:
                    async for delta in deltas:
                        has_started = True
                        yield delta
                self._succeeded(member)
                return
            except ModelError as error:
                last_error = error
                self._failed(member, error)
                if has_started:
                    raise
        assert last_error is not None, "there is at least one model"
        raise last_error


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
