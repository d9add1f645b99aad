"""Score the answers in an evaluation, and measure the tokens and time of each call."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from output_parsers import Decision
from output_parsers.result.reading import strict_equal

from ..engine.effects import Flow, Run
from ..engine.operations import Operation, observed
from ..engine.plan import Invocation
from ..engine.results import Result
from ..interface.parameters import function_name, is_async as is_async_function
from ..models.arguments import check_settings, checks_arguments
from ..models.errors import Attempt, DefinitionError, DefinitionProblem, usage_of
from ..models.messages import Usage
from ..service.methods import is_service_method, service_method_of
from ..service.signatures import ReturnShape

if TYPE_CHECKING:
    from ..retrieval.retrievers import EmbeddingModel
from .case import NOT_GIVEN

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Score: TypeAlias = bool | float


class Verdict(NamedTuple):
    """A score with its reason, which a scorer may return.

    Attributes:
        score: True, False or a number.
        reason: Why, for the report.
    """

    score: Score
    reason: str = ""


class ScorerInput(NamedTuple, Generic[T]):
    """A scorer's input: a test case, and the value that the evaluated method returned for it.

    Attributes:
        arguments: The arguments of the call, by parameter name.
        expected: The expected value of the case. ``named_values`` leaves it out if the case has none.
        value: The value that the method returned.
    """

    arguments: Mapping[str, Any]
    expected: Any
    value: T

    @property
    def named_values(self) -> dict[str, object]:
        """Return a dict of all arguments that a scorer may take, such as ``value`` and ``expected``.

        They are ``value``, ``expected`` and the arguments of the case.
        """
        expected = {} if self.expected is NOT_GIVEN else {"expected": self.expected}
        return {**self.arguments, **expected, "value": self.value}


@dataclass(frozen=True)
class Scorer(Generic[T_contra]):
    """A named function that scores each answer with True or False, or a number.

    Attributes:
        name: The scorer's name in the report.
        function: Returns the score, or a Verdict with its reason. It may be async, or a method of a service.
        select_arguments: Returns the keyword arguments of ``function`` for an answer. Raises TypeError if the
            case lacks a value that ``function`` needs.
        is_rate: True if the scores are bools, False if they are numbers; None if unknown in advance.
        lower_is_better: True for an error or a loss, where ``Report.compare`` treats higher scores as worse.
    """

    name: str
    function: Callable[..., Score | Verdict | Awaitable[Score | Verdict]]
    select_arguments: Callable[[ScorerInput[object]], dict[str, object]]
    is_rate: bool | None = None
    lower_is_better: bool = False


@checks_arguments
def exact(name: str = "exact") -> Scorer[Any]:
    """Return a scorer that checks if an answer equals the expected value, including its type.

    1 does not equal True or 1.0. ``name`` is the name of the scorer in reports.
    """
    return Scorer(
        name, lambda value, expected: strict_equal(value, expected), _value_and_expected, is_rate=True
    )


@checks_arguments
def contains(name: str = "contains", *, ignore_case: bool = False) -> Scorer[Any]:
    """Return a scorer that checks if an answer contains the expected string, item or key.

    If several are expected (a list, tuple or set), the value must contain all of them. The scorer fails with
    TypeError for a value that is not a string, list, tuple, set or mapping. ``name`` is the name of the
    scorer in reports, and with ``ignore_case`` upper and lower case are the same.
    """

    def score(value: object, expected: object) -> bool:
        if not isinstance(value, Collection):
            raise TypeError(
                f"{name} looks into a text, list, tuple, set or mapping, and the value is of type "
                f"{type(value).__name__}; write scored_by(function)"
            )
        items = expected if isinstance(expected, (list, tuple, set, frozenset)) else [expected]
        if ignore_case:
            return all(_casefolded(item) in _casefolded(value) for item in items)
        return all(item in value for item in items)

    return Scorer(name, score, _value_and_expected, is_rate=True)


@checks_arguments
def close_to(name: str = "close", *, rel: float = 1e-9, abs: float = 0.0) -> Scorer[float]:
    """Return a scorer that checks if a number in an answer is close to the expected number.

    ``rel`` and ``abs`` are the relative and absolute tolerances of ``math.isclose``. ``name`` is the name of
    the scorer in reports.
    """

    def score(value: float, expected: float) -> bool:
        return math.isclose(value, expected, rel_tol=rel, abs_tol=abs)

    return Scorer(name, score, _value_and_expected, is_rate=True)


@checks_arguments
def similar(model: EmbeddingModel, at_least: float | None = 0.8, name: str = "similar") -> Scorer[str]:
    """Return a scorer that checks if an answer means the same as the expected text, by comparing embeddings.

    It compares the cosine similarity of the two vectors, from -1 to 1, with ``at_least``; None makes the
    similarity itself the score. How much similarity is enough depends on the model. ``embed`` of the model
    may be async. ``name`` is the name of the scorer in reports.
    """
    is_threshold = at_least is None or (
        isinstance(at_least, (int, float)) and not isinstance(at_least, bool) and -1 <= at_least <= 1
    )
    check_settings(
        "similar",
        ("model", model, callable(getattr(model, "embed", None)), "pass an EmbeddingModel"),
        ("at_least", at_least, is_threshold, "it must be a number from -1 to 1, or None"),
    )

    def texts_of(value: object, expected: object) -> list[str]:
        for text in (value, expected):
            if not isinstance(text, str):
                kind = type(text).__name__
                raise TypeError(f"{name} compares texts, and found a value of type {kind}")
        return [str(value), str(expected)]

    def embed(texts: list[str]) -> Any:
        return observed(Operation("embeddings", model, texts), model.embed)(texts)

    def score_of(vectors: Any) -> Score:
        cosine = _cosine(*([float(number) for number in vector] for vector in vectors))
        return cosine if at_least is None else cosine >= at_least

    def score(value: object, expected: object) -> Score:
        return score_of(embed(texts_of(value, expected)))

    async def ascore(value: object, expected: object) -> Score:
        return score_of(await embed(texts_of(value, expected)))

    function = ascore if inspect.iscoroutinefunction(model.embed) else score
    return Scorer(name, function, _value_and_expected, is_rate=at_least is not None)


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine similarity of two vectors; raise ValueError if it is undefined."""
    product = math.fsum(a * b for a, b in zip(first, second, strict=True))
    lengths = math.hypot(*first) * math.hypot(*second)
    if not lengths or not math.isfinite(lengths):
        raise ValueError("the embedding model returned a vector of zeros, or one that is not finite")
    return max(-1.0, min(1.0, product / lengths))


@checks_arguments
def brier(name: str = "brier") -> Scorer[Decision[Any]]:
    """Return a scorer for the Brier score, the squared error of the probabilities in a Decision.

    The score ranges from 0 (certain and right) to 1 (certain and wrong). For a list, it is the mean over the
    members. ``name`` is the name of the scorer in reports.
    """

    def score(value: Decision[object], expected: Any) -> float:
        shares = _probabilities_of(value, expected)
        if value.is_list:
            return fmean((share - (1.0 if one in expected else 0.0)) ** 2 for one, share in shares.items())
        squares = [(share - (1.0 if answer == expected else 0.0)) ** 2 for answer, share in shares.items()]
        return sum(squares) / 2

    return Scorer(name, score, _value_and_expected, is_rate=False, lower_is_better=True)


@checks_arguments
def log_loss(name: str = "log loss") -> Scorer[Decision[Any]]:
    """Return a scorer for a Decision's log loss: the negative logarithm of the correct answer's probability.

    The score is 0 for a certain and right answer, and grows with the certainty of a wrong answer. For a list,
    it is the mean over the members. ``name`` is the name of the scorer in reports.
    """

    def score(value: Decision[object], expected: Any) -> float:
        shares = _probabilities_of(value, expected)
        if value.is_list:
            rights = [share if one in expected else 1 - share for one, share in shares.items()]
        else:
            rights = [shares[expected]]
        return fmean(-math.log(max(share, 1e-6)) for share in rights)

    return Scorer(name, score, _value_and_expected, is_rate=False, lower_is_better=True)


def _probabilities_of(value: object, expected: Any) -> Mapping[object, float]:
    """Return the probabilities of a Decision.

    Raises TypeError or ValueError if it cannot be scored.
    """
    if not isinstance(value, Decision) or not value.probabilities:
        raise TypeError(f"the method returned {value!r}; it must return a Decision with probabilities")
    if value.is_list and (isinstance(expected, str) or not isinstance(expected, Collection)):
        raise TypeError(f"the method returned {value!r}, and the expected answer {expected!r} is not a list")
    for answer in expected if value.is_list else [expected]:
        if answer not in value.probabilities:
            raise ValueError(f"{answer!r} is not one of the answers {list(value.probabilities)}")
    return value.probabilities


@checks_arguments
def scored_by(
    function: Callable[..., Score | Verdict | Awaitable[Score | Verdict]], name: str | None = None
) -> Scorer[Any]:
    """Return a scorer that calls a function, or a service method in which a model judges the answer.

    The function receives the values that its parameters name: ``value``, ``expected``, or an argument of the
    case. It returns a bool, a number or a Verdict with its reason. The report counts the tokens of a judge
    separately. Raises DefinitionError if the function has positional-only parameters.
    """
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.POSITIONAL_ONLY for parameter in parameters):
        message = "it must take its parameters by name: value, expected, or those of a case"
        raise DefinitionError([DefinitionProblem(function_name(function), message)])
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    is_required = {
        parameter.name: parameter.default is parameter.empty
        for parameter in parameters
        if parameter.kind is not parameter.VAR_KEYWORD
    }

    def select_arguments(scorer_input: ScorerInput[object]) -> dict[str, object]:
        available = scorer_input.named_values
        missing = [key for key, required in is_required.items() if required and key not in available]
        if missing:
            raise TypeError(
                f"{function_name(function)} asks for {', '.join(missing)}; there are {', '.join(available)}"
            )
        return {key: value for key, value in available.items() if takes_all or key in is_required}

    return Scorer(name or function_name(function), function, select_arguments)


def _value_and_expected(scorer_input: ScorerInput[object]) -> dict[str, object]:
    if scorer_input.expected is NOT_GIVEN:
        raise TypeError("the case has no expected value; write Case({…}, expected)")
    return {"value": scorer_input.value, "expected": scorer_input.expected}


def _casefolded(value: object) -> Any:
    if isinstance(value, str):
        return value.casefold()
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_casefolded(item) for item in value]
    return value


class MeasuredCall(NamedTuple):
    """The result or error of one call, with its model requests, tokens and time.

    Attributes:
        value: The returned value; None if the call failed.
        error: The exception that the call raised, or None.
        attempts: The number of requests that were sent to a model.
        usage: The tokens of these requests.
        seconds: The wall time of the call.
        trace: The TracedCall of telemetry; None if the call is not traced.
    """

    value: Any
    error: Exception | None
    attempts: int
    usage: Usage
    seconds: float
    trace: Any = None


def measure_call(method: Callable[..., object], arguments: Mapping[str, object]) -> Flow[MeasuredCall]:
    """Call a service method or function, and return a MeasuredCall with its value or error.

    The attempts of a plain function are known only if it returns the ``Result`` of a service method.
    """
    started, value, error = time.monotonic(), None, None
    attempts: Sequence[Attempt] = ()
    invocation: Invocation | None = None
    try:
        if is_service_method(method):
            bound = service_method_of(method)
            # The call runs on an invocation of our own: its attempts can be read even if the call fails.
            invocation = bound.plan.invocation((), arguments, bound.budget)
            attempts = invocation.state.attempts
            shape, is_awaited = bound.plan.returns.shape, bound.plan.returns.is_async
            value = yield Run(partial(bound.start, invocation), in_thread=not is_awaited)
            consume = _consume_async if is_awaited else _consume
            value = yield Run(partial(consume, value, shape), in_thread=not is_awaited)
        else:
            value = yield Run(partial(method, **arguments), in_thread=not is_async(method))
            if isinstance(value, Result):
                attempts, value = value.attempts, value.value
    except Exception as raised:
        error = raised
    seconds = time.monotonic() - started
    trace = None if invocation is None else invocation.state.trace
    return MeasuredCall(value, error, len(attempts), usage_of(attempts) or Usage(), seconds, trace)


def _consume(returned: Any, shape: ReturnShape) -> object:
    """Return a service call's value, reading a stream to its end."""
    if shape is ReturnShape.STREAM:
        returned = returned.result()
    if shape is ReturnShape.TEXT_STREAM:
        return "".join(returned)
    return list(returned) if shape is ReturnShape.ITEMS else _without_result(returned)


async def _consume_async(returned: Any, shape: ReturnShape) -> object:
    if shape is ReturnShape.STREAM:
        returned = await returned.result()
    if shape in (ReturnShape.TEXT_STREAM, ReturnShape.ITEMS):
        return _consume([piece async for piece in returned], shape)
    return _without_result(returned)


def _without_result(value: object) -> object:
    return value.value if isinstance(value, Result) else value


def is_async(method: object) -> bool:
    """Return True if a method's call must be awaited or iterated with ``async for``."""
    if is_service_method(method):
        return service_method_of(method).plan.returns.is_async
    return is_async_function(method)


def title_of(method: object) -> str:
    """Return an evaluation report's title, such as ``Service.method → model``."""
    if is_service_method(method):
        plan = service_method_of(method).plan.call
        return f"{plan.qualname} → {plan.model.name}"
    return getattr(method, "__qualname__", repr(method))
