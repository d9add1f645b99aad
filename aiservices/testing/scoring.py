"""What tells how good an answer is."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from output_parsers.result.reading import strict_equal

from ..engine.effects import Flow, Run
from ..engine.results import Result, Shape
from ..models.errors import Attempt, usage_of
from ..models.messages import Usage
from ..service.create import bound_of, is_planned

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Score: TypeAlias = bool | float


class _Nothing(Enum):
    EXPECTED = "nothing expected"

    def __repr__(self) -> str:
        return f"<{self.value}>"


NOTHING: Any = _Nothing.EXPECTED  # of a case that does not say what is expected: None may well be


class Answered(NamedTuple, Generic[T]):
    """What a scorer is shown: the arguments of a call, what was expected of it, and the value it gave."""

    arguments: Mapping[str, Any]
    expected: Any
    value: T

    @property
    def by_name(self) -> dict[str, Any]:
        """All of it by the names that parameters may have: of the arguments, ``expected`` and ``value``.

        There is no ``expected`` where the case says none.
        """
        expected = {} if self.expected is NOTHING else {"expected": self.expected}
        return {**self.arguments, **expected, "value": self.value}


@dataclass(frozen=True)
class Scorer(Generic[T_contra]):
    """Gives a score for an answer: whether it is good, or a number, the higher the better.

    ``function`` takes the arguments that ``choose`` makes of an answer; it may be async, or the method of a
    service.
    """

    name: str
    function: Callable[..., Score | Awaitable[Score]]
    choose: Callable[[Answered[Any]], dict[str, Any]]


def exact(name: str = "exact") -> Scorer[Any]:
    """Whether the value is the expected one, and of its type: 1 is neither True nor 1.0."""
    return Scorer(name, lambda value, expected: strict_equal(value, expected), _both)


def contains(name: str = "contains", *, ignore_case: bool = False) -> Scorer[Any]:
    """Whether the expected text, item or key is in the value; of a list of expected ones, whether all are.

    It fails for a value that is no text, list, tuple, set or mapping.
    """

    def score(value: Any, expected: Any) -> bool:
        if not isinstance(value, Collection):
            raise TypeError(
                f"{name} looks into a text, list, tuple, set or mapping, and the value is of type "
                f"{type(value).__name__}; write scored_by(function)"
            )
        wanted = expected if isinstance(expected, (list, tuple, set, frozenset)) else [expected]
        if ignore_case:
            return all(_folded(one) in _folded(value) for one in wanted)
        return all(one in value for one in wanted)

    return Scorer(name, score, _both)


def close_to(name: str = "close", *, rel: float = 1e-9, abs: float = 0.0) -> Scorer[float]:
    """Whether a number is the expected one but for a relative or an absolute difference, as math.isclose."""
    return Scorer(
        name, lambda value, expected: math.isclose(value, expected, rel_tol=rel, abs_tol=abs), _both
    )


def scored_by(function: Callable[..., Score | Awaitable[Score]], name: str | None = None) -> Scorer[Any]:
    """What a function says, or a judge: the method of a service that returns bool or a number.

    It gets by their names what its parameters ask for: ``value``, ``expected``, and the arguments of the
    case. What a judge spends is counted by itself. Raises TypeError for parameters that go by no name.
    """
    parameters = inspect.signature(function).parameters.values()
    kinds = inspect.Parameter
    if any(one.kind is kinds.POSITIONAL_ONLY for one in parameters):
        raise TypeError(
            f"{_name_of(function)} must take its parameters by name: value, expected, or those of a case"
        )
    takes_all = any(one.kind is kinds.VAR_KEYWORD for one in parameters)
    wanted = {one.name: one.default is kinds.empty for one in parameters if one.kind is not kinds.VAR_KEYWORD}

    def choose(answered: Answered[Any]) -> dict[str, Any]:
        known = answered.by_name
        unknown = [one for one, needed in wanted.items() if needed and one not in known]
        if unknown:
            raise TypeError(
                f"{_name_of(function)} asks for {', '.join(unknown)}; there are {', '.join(known)}"
            )
        return {one: value for one, value in known.items() if takes_all or one in wanted}

    return Scorer(name or _name_of(function), function, choose)


def _both(answered: Answered[Any]) -> dict[str, Any]:
    if answered.expected is NOTHING:
        raise TypeError("the case says nothing that is expected; write Case({…}, expected)")
    return {"value": answered.value, "expected": answered.expected}


def _folded(value: Any) -> Any:
    if isinstance(value, str):
        return value.casefold()
    return [_folded(one) for one in value] if isinstance(value, (list, tuple, set, frozenset)) else value


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


class Spent(NamedTuple):
    """What a call came to, and what it took."""

    value: Any
    error: Exception | None
    attempts: int
    usage: Usage
    seconds: float


def spent_on(method: Callable[..., Any], arguments: Mapping[str, Any]) -> Flow[Spent]:
    """What a call gives and takes, be it of a service or a function.

    Of a function it is known what it took where it gives the Result of a service.
    """
    began, value, failed = time.monotonic(), None, None
    attempts: Sequence[Attempt] = ()
    try:
        if is_planned(method):
            bound = bound_of(method)
            invocation = bound.plan.invocation((), arguments, bound.budget)
            attempts = invocation.state.attempts
            shape, awaited = bound.plan.returns.shape, bound.plan.returns.asynchronous
            value = yield Run(partial(bound.begin, invocation), in_thread=not awaited)
            value = yield Run(partial(_awhole if awaited else _whole, value, shape), in_thread=not awaited)
        else:
            value = yield Run(partial(method, **arguments), in_thread=not waits(method))
            if isinstance(value, Result):  # of a service that it asks
                attempts, value = value.attempts, value.value
    except Exception as error:
        failed = error
    seconds = time.monotonic() - began
    return Spent(value, failed, len(attempts), usage_of(attempts) or Usage(), seconds)


def _whole(value: Any, shape: Shape) -> Any:
    """The value that a method handed back in its own shape."""
    if shape is Shape.STREAM:
        value = value.result()
    if shape is Shape.TEXT_STREAM:
        return "".join(value)
    return list(value) if shape is Shape.ITEMS else _bare(value)


async def _awhole(value: Any, shape: Shape) -> Any:
    if shape is Shape.STREAM:
        value = await value.result()
    if shape in (Shape.TEXT_STREAM, Shape.ITEMS):
        return _whole([piece async for piece in value], shape)
    return _bare(value)


def _bare(value: Any) -> Any:
    return value.value if isinstance(value, Result) else value


def waits(method: Any) -> bool:
    """Whether a call of it is awaited."""
    if is_planned(method):
        return bound_of(method).plan.returns.asynchronous
    return inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(type(method).__call__)


def where_of(method: Any) -> str:
    if is_planned(method):
        plan = bound_of(method).plan
        return f"{plan.where} → {plan.model.name}"
    return getattr(method, "__qualname__", repr(method))
