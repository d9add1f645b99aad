"""The stage ``accuracy``: how many answers of a model are right, by strategy and with or without examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from aiservices import AiServiceError, ChatModel, ChatOptions, Strategy, create

from .accuracy_cases import ACCURACY_CASES
from .accuracy_methods import Methods, MethodsWithExamples

STRATEGIES = (Strategy.GRAMMAR, Strategy.JSON_MODE, Strategy.PROMPT)
_OPTIONS = ChatOptions(max_tokens=256)  # much longer than any right answer
_INTERFACES: tuple[tuple[str, type[Any]], ...] = (("none", Methods), ("two", MethodsWithExamples))
_HEAD = (
    "strategy",
    "examples",
    "right",
    "wrong value",
    "error",
    "right type, if no error",
    "retried",
    "seconds per call",
)


@dataclass(frozen=True, slots=True)
class AnsweredCase:
    """One input of the accuracy stage with the answer of the model.

    Attributes:
        method: The name of the method.
        text: The input.
        expected: The right answer.
        value: The answer, or the error that was raised.
        typed: True if ``value`` has the return type of the method.
        attempts: The number of requests.
        seconds: The wall time of the call.
    """

    method: str
    text: str
    expected: Any
    value: Any
    typed: bool
    attempts: int
    seconds: float

    @property
    def right(self) -> bool:
        return self.typed and type(self.value) is type(self.expected) and bool(self.value == self.expected)

    @property
    def failed(self) -> bool:
        return isinstance(self.value, AiServiceError)


@dataclass(frozen=True, slots=True)
class Score:
    """All answers of the accuracy stage for one strategy, with or without examples.

    Attributes:
        strategy: The strategy.
        examples: "none" or "two".
        answers: The answers.
    """

    strategy: Strategy
    examples: str
    answers: Sequence[AnsweredCase]

    @property
    def right(self) -> int:
        return sum(answer.right for answer in self.answers)

    @property
    def failed(self) -> int:
        return sum(answer.failed for answer in self.answers)

    @property
    def typed(self) -> int:
        return sum(answer.typed for answer in self.answers)

    @property
    def retried(self) -> int:
        return sum(answer.attempts > 1 for answer in self.answers)

    @property
    def seconds(self) -> float:
        return sum(answer.seconds for answer in self.answers) / len(self.answers)

    def cells(self) -> tuple[str, ...]:
        total = len(self.answers)
        without_error = total - self.failed
        return (
            str(self.strategy),
            self.examples,
            f"{self.right} / {total}",
            str(without_error - self.right),
            str(self.failed),
            f"{self.typed} / {without_error}",
            str(self.retried),
            f"{self.seconds:.1f}",
        )


@dataclass(frozen=True, slots=True)
class Scores:
    """The results of the accuracy stage.

    Attributes:
        model: The name of the model.
        scores: One score for each strategy, with and without examples.
        name: The name of the stage.
    """

    model: str
    scores: Sequence[Score]
    name: str = "accuracy"

    def as_data(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "scores": [
                {
                    "strategy": str(score.strategy),
                    "examples": score.examples,
                    "asked": len(score.answers),
                    "right": score.right,
                    "errors": score.failed,
                    "typed": score.typed,
                    "asked_again": score.retried,
                    "by_method": self._by_method(score),
                    "not_right": [
                        {"method": one.method, "text": one.text, "answer": repr(one.value)}
                        for one in score.answers
                        if not one.right
                    ],
                }
                for score in self.scores
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of the tables of the accuracy stage."""
        yield f"{self.name} of {self.model}: right answers of those asked"
        yield from _table([_HEAD, *(score.cells() for score in self.scores)])
        yield ""
        methods = list(dict.fromkeys(one.method for score in self.scores for one in score.answers))
        columns = [f"{score.strategy}, {score.examples}" for score in self.scores]
        by_method = [self._by_method(score) for score in self.scores]
        yield from _table(
            [("method", *columns), *((name, *(one[name] for one in by_method)) for name in methods)]
        )
        yield ""

    @staticmethod
    def _by_method(score: Score) -> dict[str, str]:
        names = dict.fromkeys(answer.method for answer in score.answers)
        answers = {name: [one for one in score.answers if one.method == name] for name in names}
        return {name: f"{sum(a.right for a in group)} / {len(group)}" for name, group in answers.items()}


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  " + "  ".join(cells).rstrip()


def run(
    model: ChatModel | str,
    *,
    strategies: Sequence[Strategy] = STRATEGIES,
    cases: Mapping[str, Mapping[str, Any]] = ACCURACY_CASES,
    progress: Callable[[str], None] = print,
) -> Scores:
    """Call all methods of the accuracy stage with all strategies.

    ``progress`` is called with a line after each strategy.
    """
    scores = []
    for strategy in strategies:
        for examples, interface in _INTERFACES:
            service = create(interface, model, strategy=strategy, options=_OPTIONS)
            answered = [
                _answer(service, method, text, expected)
                for method, answers in cases.items()
                for text, expected in answers.items()
            ]
            scores.append(Score(strategy, examples, answered))
            seconds = sum(answer.seconds for answer in answered)
            progress(
                f"  {strategy}, examples: {examples}: {scores[-1].right} of {len(answered)}, {seconds:.0f} s"
            )
    return Scores(model if isinstance(model, str) else model.name, scores)


def _answer(service: Any, method: str, text: str, expected: Any) -> AnsweredCase:
    started = perf_counter()
    try:
        result = getattr(service, method)(text)
    except AiServiceError as error:
        attempts = getattr(error, "attempts", ())
        return AnsweredCase(method, text, expected, error, False, len(attempts), perf_counter() - started)
    value, attempts = result.value, result.attempts
    typed = has_method_type(method, value)
    return AnsweredCase(method, text, expected, value, typed, len(attempts), perf_counter() - started)


def has_method_type(method: str, value: Any) -> bool:
    """Return True if pydantic, in strict mode, accepts the value for the return type of the method."""
    tp = get_args(get_type_hints(getattr(Methods, method))["return"])[0]
    try:
        TypeAdapter(tp).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True
