"""The entries of finished rows in the journal: written from a result, and read as a row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from output_parsers.result.errors import OutputParsingError
from output_parsers.types.decisions import Decision, collect_decisions

from ..engine.results import Result
from ..integrations.fastapi.codec import ENVELOPE_PATH
from ..models.messages import Usage
from ..service.calibration import answers_of
from .binding import MappedMethod
from .errors import RowError, RowsError
from .row import Row

_INDEX = re.compile(r"\[\d+\]")
_USAGE_FIELDS = tuple(field.name for field in fields(Usage))


def done_entry(
    method: MappedMethod, result: Result[Any], usage: Usage | None, cost: float | None, attempts: int
) -> dict[str, Any]:
    """Return the journal entry for a row that has been answered."""
    # The JSON of the value is stored as a text, so that numbers keep all their digits.
    entry: dict[str, Any] = {"value": method.codec.write(result.value), **_counts(usage, cost, attempts)}
    if result.probabilities:
        entry["probabilities"] = {
            path: [[_label(value), share] for value, share in shares.items()]
            for path, shares in result.probabilities.items()
        }
    return entry


def error_entry(error: Exception, usage: Usage | None, cost: float | None, attempts: int) -> dict[str, Any]:
    """Return what the journal stores of a row with an error."""
    named = error if isinstance(error, RowError) else RowError(type(error).__name__, str(error))
    return {"error": {"type": named.type, "message": named.message}, **_counts(usage, cost, attempts)}


def _counts(usage: Usage | None, cost: float | None, attempts: int) -> dict[str, Any]:
    counts: dict[str, Any] = {"attempts": attempts}
    if usage is not None:
        used = {name: getattr(usage, name) for name in _USAGE_FIELDS}
        counts["usage"] = {name: count for name, count in used.items() if count}
    if cost is not None:
        counts["cost"] = cost
    return counts


def _label(value: object) -> str:
    return repr(value)


class EntryReader:
    """Reads the entries of finished rows of one method."""

    def __init__(self, method: MappedMethod) -> None:
        self._method = method
        # The possible answers at each JSON path, by the text that the journal has of them.
        self._answers = {
            path: {_label(value): value for _, value in options}
            for path, (options, *_) in answers_of(method.service_method.plan).items()
        }

    def row(self, number: int, key: Any, inputs: Mapping[str, Any], entry: Mapping[str, Any]) -> Row[Any]:
        """Create a row from a journal entry, written for this row before or for a row with equal content."""
        return self._row(number, key, inputs, entry, cached=True)

    def new(
        self, number: int, key: Any, inputs: Mapping[str, Any], entry: Mapping[str, Any], seconds: float
    ) -> Row[Any]:
        """Return the row for a journal entry of this run, as opposed to an earlier one."""
        return self._row(number, key, inputs, entry, cached=False, seconds=seconds)

    def answered(
        self, number: int, key: Any, inputs: Mapping[str, Any], entry: Mapping[str, Any], result: Result[Any]
    ) -> Row[Any]:
        """Return the row for an answer of this run."""
        usage = Usage(**entry.get("usage", {}))
        return Row(
            number,
            key,
            inputs,
            None,
            usage,
            entry.get("cost"),
            entry["attempts"],
            result.seconds,
            cached=result.cached,
            probabilities=result.probabilities,
            _value=result.value,
        )

    def _row(
        self,
        number: int,
        key: object,
        inputs: Mapping[str, Any],
        entry: Mapping[str, Any],
        *,
        cached: bool,
        seconds: float = 0.0,
    ) -> Row[Any]:
        error, value = entry.get("error"), None
        if error is None:
            try:
                with collect_decisions() as decisions:
                    value = self._method.codec.read(entry["value"])
            except OutputParsingError as problem:
                raise RowsError(
                    f"the journal has a value that does not fit the return type: {problem}"
                ) from problem
            for decision in decisions:
                self._set_threshold(decision)
        return Row(
            number,
            key,
            inputs,
            None if error is None else RowError(error["type"], error["message"]),
            Usage() if cached else Usage(**entry.get("usage", {})),
            0.0 if cached else entry.get("cost"),
            0 if cached else entry["attempts"],
            seconds,
            cached=cached,
            probabilities=self._probabilities(entry.get("probabilities", {})),
            _value=value,
        )

    def _set_threshold(self, decision: Decision[Any]) -> None:
        """Give a decision that was read the threshold of its method, for ``at()``."""
        path = _INDEX.sub("[]", decision.path.replace(ENVELOPE_PATH, "$", 1))
        adjustment = self._method.call.adjustments.get(path)
        if adjustment is None or not decision.probabilities:
            return
        decision.complete(
            decision.probabilities,
            decision.source,
            decision.seen,
            calibrated=decision.calibrated,
            threshold=adjustment.accepted_from,
        )

    def _probabilities(self, stored: Mapping[str, Any]) -> dict[str, dict[Any, float]]:
        found = {}
        for path, shares in stored.items():
            answers = self._answers.get(_INDEX.sub("[]", path), {})
            found[path] = {answers.get(label, label): share for label, share in shares}
        return found
