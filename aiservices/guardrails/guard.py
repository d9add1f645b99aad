"""Runs a guard, and knows what it is called and what it is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from ..engine.effects import Emit, Flow, Run
from ..engine.plan import Invocation
from ..interface.parameters import is_async
from ..models.errors import AiServiceError, DefinitionProblem

Where: TypeAlias = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class Passed:
    """It may go on as it is."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """It may go on as ``new``, which the guards after this one are shown."""

    new: Any


@dataclass(frozen=True, slots=True)
class Reprompt:
    """The model is to answer again; it is told ``message`` after its answer, nothing where that is None."""

    reason: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The call ends here, with a GuardrailError."""

    message: str


Verdict: TypeAlias = Passed | Rewritten | Reprompt | Refused


class GuardrailRan(NamedTuple):
    """A guard has given its verdict; an event for listeners."""

    name: str
    where: Where
    verdict: Verdict


_PASSED = Passed()


def passed() -> Verdict:
    """Let it through."""
    return _PASSED


def rewritten(new: Any) -> Verdict:
    """Let something else through in its place."""
    return Rewritten(new)


def retry(reason: str) -> Verdict:
    """Have the model answer the same request again. For the output only."""
    return Reprompt(reason)


def reprompt(message: str) -> Verdict:
    """Have the model answer again, with this message after the rejected answer. For the output only."""
    return Reprompt(message, message)


def refused(message: str) -> Verdict:
    """End the call with a GuardrailError."""
    return Refused(message)


class GuardrailError(AiServiceError):
    """A guard refused what was said, rejected every answer, or failed by itself, as the ``__cause__`` says.

    ``guard`` is its name, ``where`` it stands: at the "input" or the "output". ``reason`` is what it said.
    """

    def __init__(self, message: str, *, guard: str, where: Where, reason: str) -> None:
        super().__init__(message)
        self.guard = guard
        self.where = where
        self.reason = reason


On: TypeAlias = Literal["text", "value"]

# Is shown the text or the value, and the turn; gives a verdict, or in async calls also an awaitable of one.
GuardFunction: TypeAlias = Callable[[Any, Invocation], Verdict | Awaitable[Verdict]]


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard with a name of its own, which says whether it is shown the text of an answer or its value."""

    function: GuardFunction
    name: str = ""
    on: On = "text"

    def __call__(self, subject: Any, invocation: Invocation, /) -> Verdict | Awaitable[Verdict]:
        return self.function(subject, invocation)


def name_of(guard: GuardFunction) -> str:
    """The name of a guard, as errors and events have it."""
    if isinstance(guard, Guard):
        return guard.name or name_of(guard.function)
    return getattr(guard, "__name__", None) or type(guard).__name__


def check_guards(owner: str, guards: Sequence[GuardFunction]) -> list[DefinitionProblem]:
    """What is wrong with the guards that are given."""
    if not guards:
        return [
            DefinitionProblem(
                owner, "no guard is given; pass functions of (subject, turn) that give a verdict"
            )
        ]
    problems = []
    for number, guard in enumerate(guards, 1):
        if not callable(guard):
            said = f"it takes functions of (subject, turn), and number {number} is {guard!r}"
            problems.append(DefinitionProblem(owner, said))
        elif isinstance(guard, Guard) and guard.on not in get_args(On):
            said = f"on is {guard.on!r} for {name_of(guard)}; it must be one of text, value"
            problems.append(DefinitionProblem(owner, said))
    return problems


def awaited(guards: Sequence[GuardFunction]) -> tuple[str, ...]:
    """The guards that are async, in words; ``create`` refuses them for methods that block."""
    return tuple(f"the guard {name_of(guard)}" for guard in guards if is_async(_function_of(guard)))


def judged(guard: GuardFunction, subject: Any, where: Where, invocation: Invocation) -> Flow[Verdict]:
    """The verdict of a guard, told to listeners. Raises GuardrailError where it refuses, or fails itself."""
    name = name_of(guard)
    try:
        verdict = yield _need(guard, name, subject, invocation)
        if not isinstance(verdict, Verdict):
            said = "it must give passed(), rewritten(…), retry(…), reprompt(…) or refused(…)"
            raise TypeError(f"{said}, and gave {verdict!r}")
    except Exception as error:
        raise failed(name, where, invocation, error) from error
    yield Emit(GuardrailRan(name, where, verdict), shown=False)
    if isinstance(verdict, Refused):
        said = f"{invocation.plan.where}: the {where} guard {name} refused: {verdict.message}"
        raise GuardrailError(said, guard=name, where=where, reason=verdict.message)
    return verdict


def failed(name: str, where: Where, invocation: Invocation, error: Exception) -> GuardrailError:
    """What a guard did wrong, as an error of its own."""
    reason = f"{type(error).__name__}: {error}"
    said = f"{invocation.plan.where}: the {where} guard {name} failed: {reason}"
    return GuardrailError(said, guard=name, where=where, reason=reason)


def _need(guard: GuardFunction, name: str, subject: Any, invocation: Invocation) -> Run:
    def judge() -> Any:
        return guard(subject, invocation)

    judge.__qualname__ = name
    return Run(judge, in_thread=not is_async(_function_of(guard)))


def _function_of(guard: GuardFunction) -> GuardFunction:
    return _function_of(guard.function) if isinstance(guard, Guard) else guard
