"""Write rows with uncertain answers to a CSV file, and read the corrections that people add there."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Leniency

from ..engine.probabilities import Adjustment
from ..models.errors import DefinitionError, DefinitionProblem
from ..service.decisions import answers_of
from .binding import MappedMethod, content_id
from .row import Row, RowsError

_INDEX = re.compile(r"\[\d+\]")
_ROW, _ANSWER, _PROBABILITY, _REVIEWED = "row id", "answer", "probability", "reviewed answer"


class Review:
    """Writes the rows with uncertain answers to a CSV file, so that people can correct the answers.

    An answer is uncertain if one of its probabilities is below ``unsure_below``, or below the threshold of
    its calibration.

    Attributes:
        unsure: How many rows were written.
        error_bound: The upper limit of the share of wrong answers among the other rows, as the calibration
            states it; None if it states none.
    """

    def __init__(self, path: Path, method: MappedMethod, unsure_below: float | None) -> None:
        self._path = path
        self._method = method
        self._unsure_below = unsure_below
        self._adjustments: Mapping[str, Adjustment] = method.call.adjustments
        self.unsure = 0
        if unsure_below is None and not self._thresholds():
            message = (
                "review needs to know when an answer is unsure: pass unsure_below=0.9, or create the service "
                "with a calibration or thresholds"
            )
            raise DefinitionError([DefinitionProblem(method.qualname, message)])

    def _thresholds(self) -> dict[str, float]:
        """Return a dict from JSON paths to the minimum probability for accepting the answer there."""
        limits = {path: adjustment.accepted_from for path, adjustment in self._adjustments.items()}
        return {path: limit for path, limit in limits.items() if limit is not None}

    @property
    def error_bound(self) -> float | None:
        """The sum of the error rates that the calibrations state for accepted answers; None if unknown."""
        if self._unsure_below is not None:
            return None
        promised = [
            entry.threshold["error"]
            for adjustment in self._adjustments.values()
            for entry in adjustment.calibrations[:1]
            if entry.threshold is not None and adjustment.threshold is None
        ]
        # The members of a list have adjustments of their own.
        wanted = [one for one in self._adjustments.values() if not one.members or one.threshold is not None]
        return sum(promised) if promised and len(promised) == len(wanted) else None

    @contextmanager
    def open(self, columns: tuple[str, ...]) -> Generator[Review, None, None]:
        """Context manager that opens the review file for a table with the given columns."""
        self.unsure = 0
        partial = self._path.with_name(f"{self._path.name}.partial")
        with partial.open("w", encoding="utf-8", newline="") as file:
            self._writer = csv.writer(file)
            self._writer.writerow([_ROW, *columns, _ANSWER, _PROBABILITY, _REVIEWED])
            self._columns = columns
            self._limits = self._thresholds()
            for member_path, one in answers_of(self._method.service_method.plan).items():
                if one.list_path in self._limits:  # the threshold of a list is for each of its members
                    self._limits.setdefault(member_path, self._limits[one.list_path])
            yield self
        partial.replace(self._path)

    def write(self, row: Row[Any]) -> None:
        """Write a row to the review file if its answer is uncertain."""
        lowest = 1.0
        is_unsure = False
        for path, shares in row.probabilities.items():
            probability = max(shares.values())
            limit = self._unsure_below
            if limit is None:
                limit = self._limits.get(_INDEX.sub("[]", path), 0.0)
            is_unsure = is_unsure or probability < limit
            lowest = min(lowest, probability)
        if not is_unsure or row.reviewed:
            return
        self.unsure += 1
        row_id = content_id(self._method.arguments(row.inputs))
        answer = self._method.codec.write(row.value)
        inputs = [_cell(row.inputs.get(column)) for column in self._columns]
        self._writer.writerow([row_id, *inputs, _plain(answer), f"{lowest:.4f}", ""])


class ReviewedAnswers:
    """The corrected answers that people wrote in a review file, by row content."""

    def __init__(self, answers: Mapping[str, object]) -> None:
        self._answers = answers

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, content: str) -> tuple[Any] | None:
        """Return a person's answer for a row as a one-item tuple, or None if there is no answer."""
        return (self._answers[content],) if content in self._answers else None

    @staticmethod
    def read(path: Path, method: MappedMethod) -> ReviewedAnswers:
        """Read the corrected answers from a review file, skipping rows without a corrected answer."""
        answers: dict[str, object] = {}
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file)
                missing = {_ROW, _REVIEWED} - set(reader.fieldnames or ())
                if missing:
                    raise RowsError(
                        f"{path} is not a file for review: it has no column {', '.join(sorted(missing))}"
                    )
                for line in reader:
                    text = (line[_REVIEWED] or "").strip()
                    if text:
                        answers[line[_ROW]] = _read_answer(text, method, f"{path}, line {reader.line_num}")
        except OSError as error:
            raise RowsError(f"{path} cannot be read: {error.strerror}") from error
        return ReviewedAnswers(answers)


def _read_answer(text: str, method: MappedMethod, place: str) -> object:
    """Parse an answer that a person entered, as JSON or as plain text such as an option's name."""
    for candidate in (text, json.dumps(text)):
        try:
            return method.codec.parser.parse(candidate, Leniency.NONE)
        except OutputParsingError:
            continue
    raise RowsError(f"{place}: {text!r} is not {method.codec.name}")


def _plain(answer: str) -> str:
    """Convert an answer from JSON to text for people: strings without quotes, Decisions as their value."""
    value = json.loads(answer)
    if isinstance(value, dict) and value.keys() >= {"value", "probabilities"}:
        value = value["value"]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
