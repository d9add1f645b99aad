"""Several models as one: each request goes to the next model if one fails.

A ``CircuitBreaker`` for each model can skip a model that keeps failing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from .arguments import check_settings, checks_arguments, is_count, is_positive
from .base import Capabilities, ChatModel, DecisionLimits, PickledByArguments
from .errors import BadRequestError, ModelError, ProbabilitiesUnavailableError, counted
from .messages import ChatReply
from .registry import find_model
from .requests import ChatRequest
from .wrapper import DelegatingChatModel, RequestFlow, Send


def members_of(model: ChatModel) -> tuple[ChatModel, ...]:
    """Return the models of a FallbackChatModel; for another model, a list with only that model."""
    members: tuple[ChatModel, ...] = getattr(model, "members", ())
    return members or (model,)


def rests_of(model: ChatModel) -> Mapping[int, CircuitBreaker]:
    """Return the circuit breakers of a FallbackChatModel's models, by the ``id`` of the model."""
    return getattr(model, "rests", {})


# These errors are caused by the request, not by the model.
_NOT_COUNTED = (BadRequestError, ProbabilitiesUnavailableError)


class CircuitBreaker:
    """A circuit breaker: after several failures in a row, a model gets no requests for some seconds.

    After that time, one request is admitted. If it succeeds, all are; if it fails, the model rests again. If
    it neither succeeds nor fails within that time, the next request is admitted. It is safe for threads and
    event loops.

    The library purgatory is not used, because it wraps a call and raises an error while the circuit is open.
    Here the next model is chosen before a request, so no attempt is spent. It also has separate breakers for
    blocking and async calls. pybreaker does not support asyncio.
    """

    def __init__(self, name: str, after: int, seconds: float) -> None:
        self._name = name
        self._after = after
        self._seconds = seconds
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0  # a value of time.monotonic()

    def admits(self) -> bool:
        """Return True if a request may be sent now.

        When a rest ends, only one request may be sent first.
        """
        if self._failures < self._after:
            return True
        with self._lock:
            now = time.monotonic()
            if self._failures < self._after:
                return True
            if now < self._until:
                return False
            self._until = now + self._seconds
            return True

    def failed(self, error: ModelError) -> None:
        """Count a failed request, unless the request itself was wrong and not the model."""
        if isinstance(error, _NOT_COUNTED):
            return
        with self._lock:
            self._failures += 1
            if self._failures < self._after:
                return
            self._until = time.monotonic() + self._seconds
            failures = counted(self._failures, "failure")
        logging.getLogger("aiservices").warning(
            "%s rests for %g seconds after %s in a row: %s", self._name, self._seconds, failures, error
        )

    def succeeded(self) -> None:
        """Reset the count of failures after a successful request."""
        if not self._failures:
            return
        with self._lock:
            has_rested, self._failures = self._failures >= self._after, 0
        if has_rested:
            logging.getLogger("aiservices").info("%s answers again", self._name)

    def describe(self) -> str:
        """Return a message that explains why the model currently gets no requests."""
        seconds = max(0.0, self._until - time.monotonic())
        failures = counted(self._failures, "failure")
        return f"{self._name} was skipped: it rests for {seconds:.0f} seconds after {failures} in a row"


@checks_arguments
class FallbackChatModel(DelegatingChatModel, PickledByArguments):
    """A chat model that sends each request to several models in turn until one answers.

    ``first`` and ``others`` are models or names of models. Raises DefinitionError if a name is unknown.

    In a service, each member is used with the strategy that suits it best, and all members share one budget.
    If a member fails, the next one is used at once. If all have failed, those with temporary errors
    are tried again after a wait. A reply that does not match the return type is not a failure of the model:
    the same model gets another request, with a list of the problems.

    With ``unsure=0.9``, a service also asks the next member if an answer of a bool, Enum or Literal has a
    probability below 0.9. With ``unsure="threshold"``, the limit of each answer is its threshold, from
    ``create(thresholds=…)`` or the calibration of the model. If that member fails, the unsure answer is used.
    A member that gives no probabilities is never unsure.

    With ``rest_after=5``, a member that has failed five times in a row is skipped for ``rest_for`` seconds.
    Then one request tries it, and if that fails, the member rests again. All calls with this object share
    the state of its members. If every circuit is open, all members are tried. ``Result.reasons`` names
    skipped members, and the logger ``aiservices`` gets a warning when a rest begins. A request that the model
    refuses because of its content does not count as a failure.

    A member that is a LimitedChatModel, except the last one, does not wait for the end of an outage (status
    503 or 529): the next member is tried at once.

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
        has_count = rest_after is None or is_count(rest_after, 1)
        check_settings(
            "FallbackChatModel",
            ("unsure", unsure, is_unsure, 'it must be a probability above 0, at most 1, or "threshold"'),
            ("rest_after", rest_after, has_count, "it must be a whole number above 0, or None"),
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
        self._rests: dict[int, CircuitBreaker] = {}
        for member, rest in zip(members, old_rests, strict=True):
            rest = rest if rest_after is None else CircuitBreaker(member.name, rest_after, rest_for)
            if rest is not None:
                self._rests[id(member)] = rest

    @property
    def members(self) -> tuple[ChatModel, ...]:
        """The chat models, in the order in which they are tried."""
        return self._members

    @property
    def rests(self) -> Mapping[int, CircuitBreaker]:
        """The circuit breakers of the models, by the ``id`` of the model; may be empty."""
        return self._rests

    def _awake_members(self) -> Iterator[ChatModel]:
        """Yield the models that are not skipped after failures; all models if all are skipped.

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
    def inner_models(self) -> tuple[ChatModel, ...]:
        return self._members

    @property
    def capabilities(self) -> Capabilities:
        """The features, such as tool calls, that every one of the models supports."""
        members = [member.capabilities for member in self._members]
        return Capabilities(
            **{name: rule([getattr(one, name) for one in members]) for name, rule in COMMON.items()}
        )

    def request_flow(self, request: ChatRequest, *, streamed: bool) -> RequestFlow:
        """Try the models in turn, and return the first reply.

        Raises the last error if all models fail, and the error of a model that fails after the first piece
        of a streamed reply.
        """
        last_error: ModelError | None = None
        for member in self._awake_members():
            send = Send(member, request)
            try:
                reply: ChatReply = yield send
            # Any other exception is a mistake in the program, which the next model would not correct.
            except ModelError as error:
                last_error = error
                self._failed(member, error)
                if send.has_started:
                    raise
            else:
                self._succeeded(member)
                return reply
        assert last_error is not None, "there is at least one model"
        raise last_error


def _first(values: Sequence[object]) -> object:
    # Only a default: a service plans each member with its own capabilities.
    return values[0]


def _common_limits(values: Sequence[DecisionLimits | None]) -> DecisionLimits | None:
    """Return the strictest limits of decision endpoints; None if one of the models writes text."""
    limits = [one for one in values if one is not None]
    if len(limits) < len(values):
        return None
    return DecisionLimits(
        questions=min(one.questions for one in limits),
        options=min(one.options for one in limits),
        levels=min(one.levels for one in limits),
    )


def smallest(values: Sequence[int | None]) -> int | None:
    """Return the smallest of several limits; None if all are None."""
    return min([one for one in values if one is not None], default=None)


# What several models support together, by the field of Capabilities.
COMMON: dict[str, Callable[[Sequence[Any]], Any]] = {
    "json_schema": all,
    "strict_schema": all,
    "requires_strict": any,
    "json_mode": all,
    "constrained": all,
    "tools": all,
    "schema_with_tools": all,
    "profile": _first,
    "logprobs": min,
    "decisions": _common_limits,
    "continues_replies": all,
    "image_output": all,
    "max_concurrency": smallest,
}
