"""The results of a run over a table: rows with answers, the progress, and a summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..models.errors import AiServiceError, counted
from ..models.messages import Usage


class RowsError(AiServiceError):
    """Raised when a table, an output or a journal cannot be read or written, or a run must stop."""


class RowError(AiServiceError):
    """The error of a row that has no answer.

    Attributes:
        type: The name of the exception, such as "ServiceOutputError".
        message: The exception's message.
    """

    def __init__(self, type: str, message: str) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message


T = TypeVar("T")
_NO_USAGE = Usage()


@dataclass(frozen=True, slots=True, repr=False)
class Row(Generic[T]):
    """A table row with the service method's answer or an error.

    Attributes:
        number: The position of the row in the table, from 0.
        key: The value of the key column; None without ``key=``.
        inputs: The columns of the row.
        error: Why the row has no answer; None if it has one.
        usage: The tokens that were used for the row in this run.
        cost: The cost of these tokens; None if no price is known.
        attempts: How many requests were sent for the row in this run.
        seconds: How long the row took in this run.
        cached: True if nothing was requested for the row in this run, because the answer was known from an
            earlier run or an equal row.
        probabilities: The probabilities of the possible answers, by JSON path, as in ``Result``.
        reviewed: True if a person gave the answer.
    """

    number: int
    key: Any
    inputs: Mapping[str, Any]
    error: RowError | None = None
    usage: Usage = _NO_USAGE
    cost: float | None = None
    attempts: int = 0
    seconds: float = 0.0
    cached: bool = False
    probabilities: Mapping[str, Mapping[Any, float]] = field(default_factory=dict)
    reviewed: bool = False
    _value: Any = None

    @property
    def value(self) -> T:
        """The row's answer; if there is no answer, reading this property raises the row's ``error``."""
        if self.error is not None:
            raise self.error
        value: T = self._value
        return value

    def __repr__(self) -> str:
        name = f"number={self.number}" if self.key is None else f"key={self.key!r}"
        answer = f"value={self._value!r}" if self.error is None else f"error={str(self.error)!r}"
        return f"Row({name}, {answer})"


@dataclass(slots=True)
class Progress:
    """The progress of a run over a table: counts, time and cost so far.

    Attributes:
        total: The number of rows in the table; None if it is unknown.
        rows: How many rows are finished, including rows of earlier runs.
        errors: How many of them have an error.
        cached: How many of them were answered without a request: by an earlier run or by an equal row.
        changed: How many rows had different content in an earlier run and were processed again.
        requests: How many requests were sent in this run.
        usage: The tokens of this run.
        cost: The cost of these tokens, including only known prices.
        seconds: The duration of this run so far.
        in_batches: How many requests are waiting in a provider's batches.
    """

    total: int | None = None
    rows: int = 0
    errors: int = 0
    cached: int = 0
    changed: int = 0
    requests: int = 0
    usage: Usage = _NO_USAGE
    cost: float = 0.0
    seconds: float = 0.0
    in_batches: int = 0

    @property
    def rows_per_second(self) -> float:
        """The number of rows per second in this run, excluding rows that needed no request."""
        return (self.rows - self.cached) / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds until the run ends, based on its speed so far; None if unknown."""
        rate = self.rows / self.seconds if self.seconds else 0.0
        return None if self.total is None or not rate else (self.total - self.rows) / rate

    @property
    def expected_cost(self) -> float | None:
        """The estimated cost of the whole run, based on the rows so far; None if unknown."""
        return None if self.total is None or not self.rows else self.cost * self.total / self.rows

    def __str__(self) -> str:
        rows = counted(self.rows, "row")
        if self.total is not None:
            rows = f"{self.rows:,} of {counted(self.total, 'row')}"
        parts = [rows, f"{self.rows_per_second:,.1f} rows/s"]
        if self.cost:
            expected = self.expected_cost
            parts.append(f"cost {self.cost:.4g}" + ("" if expected is None else f", expected {expected:.4g}"))
        parts.append(counted(self.errors, "error"))
        if self.in_batches:
            parts.append(f"{self.in_batches:,} in batches")
        left = self.seconds_left
        if left is not None:
            parts.append(f"{duration_text(left)} left")
        return ", ".join(parts)


@dataclass(slots=True)
class Summary(Progress):
    """The counts, token usage and cost of a run over a table.

    Attributes:
        stopped: Why the run ended before the last row; None if all rows were processed.
        output: The file with the answers; None if there is none.
        journal: The file with the replies and the finished rows; None if there is none.
        damaged_lines: How many lines of the journal could not be read. Their rows were processed again.
        unsure: How many rows were written to the review file.
        limits_left: What was left of each limit of the budget, by name.
        error_bound: The upper limit of the share of wrong answers among those that are not unsure, from the
            calibration; None without one.
    """

    stopped: str | None = None
    output: str | None = None
    journal: str | None = None
    damaged_lines: int = 0
    unsure: int = 0
    limits_left: Mapping[str, float] = field(default_factory=dict)
    error_bound: float | None = None

    def __str__(self) -> str:
        requested = self.rows - self.cached
        rows = counted(self.rows, "row")
        lines = [
            f"{rows}: {self.rows - self.errors:,} answered, {self.errors:,} with an error",
            f"asked: {requested:,}, known from an earlier run or an equal row: {self.cached:,}",
            f"requests: {self.requests:,}, tokens: {self.usage.input_tokens:,} + {self.usage.output_tokens:,}"
            + (f", cost: {self.cost:.4g}" if self.cost else ""),
            f"time: {duration_text(self.seconds)}, {self.rows_per_second:,.1f} rows/s",
        ]
        if self.changed:
            lines.append(f"asked again because their content changed: {self.changed:,}")
        if self.damaged_lines:
            lines.append(f"damaged lines in the journal: {self.damaged_lines:,}")
        if self.unsure:
            lines.append(f"to review: {self.unsure:,}")
        if self.error_bound is not None:
            lines.append(f"wrong among the sure answers: at most {self.error_bound:.1%}")
        if self.limits_left:
            lines.append(
                "left: " + ", ".join(f"{name} {left:.4g}" for name, left in self.limits_left.items())
            )
        if self.output is not None:
            lines.append(f"output: {self.output}")
        if self.stopped is not None:
            lines.append(f"stopped: {self.stopped}")
        return "\n".join(lines)


def duration_text(seconds: float) -> str:
    """Format a number of seconds for display, such as ``"4.2 s"`` or ``"3 min 20 s"``."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
