"""What a guard is: its verdicts, its errors and events, and how one is run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from ..engine.effects import Emit, Flow, Run
from ..engine.plan import Invocation
from ..interface.parameters import is_async
from ..models.errors import AiServiceError, DefinitionProblem

Stage: TypeAlias = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class Passed:
    """The verdict that the text or value is accepted unchanged."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The verdict that replaces the text or value.

    Attributes:
        new: The replacement, which the next guards check.
    """

    new: Any


@dataclass(frozen=True, slots=True)
class Reprompt:
    """The verdict that the model must answer again.

    Attributes:
        reason: Why the answer was rejected, for errors and logs.
        message: A user message that the model gets after its rejected answer. None repeats the request
            unchanged.
    """

    reason: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The verdict that ends the call with a GuardrailError.

    Attributes:
        message: Why the text or value was refused.
    """

    message: str


Verdict: TypeAlias = Passed | Rewritten | Reprompt | Refused
_PASSED = Passed()


def passed() -> Verdict:
    """Accept the text or value unchanged."""
    return _PASSED


def rewritten(new: Any) -> Verdict:
    """Replace the text or value."""
    return Rewritten(new)


def retry(reason: str) -> Verdict:
    """Send the same request to the model again. For output guards only."""
    return Reprompt(reason)


def reprompt(message: str) -> Verdict:
    """Send the rejected answer and this message to the model, which answers again. For output guards only."""
    return Reprompt(message, message)


def refused(message: str) -> Verdict:
    """End the call with a GuardrailError."""
    return Refused(message)


class GuardrailRan(NamedTuple):
    """An event for listeners: a guard returned a verdict.

    Attributes:
        name: The name of the guard.
        stage: "input" or "output".
        verdict: What the guard returned.
    """

    name: str
    stage: Stage
    verdict: Verdict


class GuardrailError(AiServiceError):
    """A guard refused an input or output, rejected every answer, or raised an exception (the ``__cause__``).

    Attributes:
        guard: The name of the guard.
        stage: "input" or "output".
        reason: The message of the guard's verdict, or the text of its exception.
    """

    def __init__(self, message: str, *, guard: str, stage: Stage, reason: str) -> None:
        super().__init__(message)
        self.guard = guard
        self.stage = stage
        self.reason = reason


Subject: TypeAlias = Literal["text", "value"]

# Gets the text or the value, and the invocation of the method; returns a verdict, or in async calls an
# awaitable of one. Any, because the type of the value depends on the method.
GuardFunction: TypeAlias = Callable[[Any, Invocation], Verdict | Awaitable[Verdict]]


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard function with a name and a fixed subject.

    Attributes:
        function: Gets the text or the value, and the invocation; returns a verdict.
        name: The name in errors and events. By default the name of the function.
        on: "text" to check what the model wrote, "value" to check the typed value.
    """

    function: GuardFunction
    name: str = ""
    on: Subject = "text"

    def __call__(self, subject: Any, invocation: Invocation, /) -> Verdict | Awaitable[Verdict]:
        return self.function(subject, invocation)


def guard_name(guard: GuardFunction) -> str:
    """Return the name of a guard for errors and events."""
    if isinstance(guard, Guard):
        return guard.name or guard_name(guard.function)
    return getattr(guard, "__name__", None) or type(guard).__name__


def guard_problems(owner: str, guards: Sequence[GuardFunction]) -> list[DefinitionProblem]:
    """Return the problems of the guards that were passed to InputGuardrails or OutputGuardrails."""
    if not guards:
        message = "no guard was passed; pass functions of (subject, invocation) that return a verdict"
        return [DefinitionProblem(owner, message)]
    problems = []
    for number, guard in enumerate(guards, 1):
        if not callable(guard):
            message = f"guards must be functions of (subject, invocation), but number {number} is {guard!r}"
            problems.append(DefinitionProblem(owner, message))
        elif isinstance(guard, Guard) and guard.on not in get_args(Subject):
            message = f"on is {guard.on!r} for {guard_name(guard)}; it must be one of text, value"
            problems.append(DefinitionProblem(owner, message))
    return problems


def describe_async_guards(guards: Sequence[GuardFunction]) -> tuple[str, ...]:
    """Return a description of each async guard. ``create`` rejects them for blocking methods."""
    return tuple(f"the guard {guard_name(guard)}" for guard in guards if is_async(_function_of(guard)))


def run_guard(guard: GuardFunction, subject: Any, stage: Stage, invocation: Invocation) -> Flow[Verdict]:
    """Run a guard, report its verdict to listeners, and return the verdict.

    Raises GuardrailError if the guard refuses, raises, or returns something other than a verdict.
    """
    name = guard_name(guard)
    try:
        verdict = yield _call_effect(guard, name, subject, invocation)
        if not isinstance(verdict, Verdict):
            expected = "it must return passed(), rewritten(…), retry(…), reprompt(…) or refused(…)"
            raise TypeError(f"{expected}, but it returned {verdict!r}")
    except Exception as error:
        raise guard_failure(name, stage, invocation, error) from error
    yield Emit(GuardrailRan(name, stage, verdict), shown=False)
    if isinstance(verdict, Refused):
        message = f"{invocation.plan.qualname}: the {stage} guard {name} refused: {verdict.message}"
        raise GuardrailError(message, guard=name, stage=stage, reason=verdict.message)
    return verdict


def guard_failure(name: str, stage: Stage, invocation: Invocation, error: Exception) -> GuardrailError:
    """Return a GuardrailError that reports an exception of a guard."""
    reason = f"{type(error).__name__}: {error}"
    message = f"{invocation.plan.qualname}: the {stage} guard {name} failed: {reason}"
    return GuardrailError(message, guard=name, stage=stage, reason=reason)


def _call_effect(guard: GuardFunction, name: str, subject: Any, invocation: Invocation) -> Run:
    def call_guard() -> Verdict | Awaitable[Verdict]:
        return guard(subject, invocation)

    call_guard.__qualname__ = name  # errors of the drivers name the function by it
    return Run(call_guard, in_thread=not is_async(_function_of(guard)))


def _function_of(guard: GuardFunction) -> GuardFunction:
    return _function_of(guard.function) if isinstance(guard, Guard) else guard
