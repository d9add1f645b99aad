"""Reads dates, times, both together, and spans of time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from .found import Found, Unreadable
from .late_pattern import late
from .node import Definitions, JsonSchema, Node
from .reading import Json, Place, expected
from .target import Target
from .temporal_text import DateOrder, read_date, read_datetime, read_time, read_timedelta

__all__ = ["temporal_node"]

T = TypeVar("T")


class TemporalNode(Node[T]):
    """A point or a span of time, written in ISO 8601 or in words."""

    prose = True

    def __init__(self, kind: str, hint: str, form: str, reader: Callable[[str], Found[T]]) -> None:
        self.kind = kind
        self._hint = hint
        self._form = form
        self._reader = reader

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {"type": "string", "format": self._form}

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return self._hint

    def read(self, found: Json, at: Place) -> T:
        if isinstance(found, dict):
            return self._read_parts(found, at)
        if not isinstance(found, str):
            raise at.misfit(f"expected {self.kind}", found)
        exact = _EXACT.get(self._form)
        if exact is not None and exact[0].fullmatch(found):
            try:
                value: T = exact[1](found)
                return value
            except ValueError:  # the reader knows what is wrong with it
                pass
        try:
            reading = self._reader(found)
        except Unreadable as error:
            raise at.misfit(expected(self.kind, error), found) from error
        if reading.rule is not None:
            at.took(reading.rule, found, reading.value)
        return reading.value

    def read_text(self, text: str, at: Place) -> T:
        return self.read(text, at)

    def write(self, value: Any) -> Json:
        if not isinstance(value, timedelta):
            return super().write(value)
        away = abs(value)  # pydantic would write years, which have no fixed length
        seconds = away.seconds + Decimal(away.microseconds) / 1_000_000
        return f"{'-' if value != away else ''}P{away.days}DT{seconds:f}S"

    def _read_parts(self, found: dict[str, Json], at: Place) -> T:
        """``{"year": 1968, "month": 7, "day": 4}``, as models write a date that they were shown as fields."""
        names = _PARTS.get(self._form)
        required = names[:3] if names and names[0] == "year" else ("hour", "minute")
        whole = all(isinstance(v, int) and not isinstance(v, (bool, Decimal)) for v in found.values())
        if names is None or not whole or not set(required) <= set(found) <= set(names):
            raise at.misfit(f"expected {self.kind}", found)
        parts = [f"{found.get(name, 0):0{4 if name == 'year' else 2}d}" for name in names]
        text = "T".join(filter(None, ("-".join(parts[:-3]), ":".join(parts[-3:]))))
        if self._form == "date":
            text = "-".join(parts)
        try:
            value = self._reader(text).value
        except Unreadable as error:
            raise at.misfit(expected(self.kind, error), found) from error
        at.took("assembled from its parts", found, value)
        return value


# What most models write, read at once; all else is looked at word by word.
_EXACT: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    "date": (late(r"\d{4}-\d\d-\d\d", re.ASCII), date.fromisoformat),
    "time": (late(r"\d\d:\d\d:\d\d", re.ASCII), time.fromisoformat),
    "date-time": (late(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII), datetime.fromisoformat),
}
_PARTS: dict[str, tuple[str, ...]] = {
    "date": ("year", "month", "day"),
    "time": ("hour", "minute", "second"),
    "date-time": ("year", "month", "day", "hour", "minute", "second"),
}


def temporal_node(target: Target) -> Node[Any] | None:
    """The node of a temporal type; None for all others. A DateOrder in Annotated tells what 01/02/2024 is."""
    order = next((item for item in target.metadata if isinstance(item, DateOrder)), None)
    form = target.form
    if form is datetime:
        return TemporalNode(
            "a date with a time (YYYY-MM-DDTHH:MM:SS)",
            '"YYYY-MM-DDTHH:MM:SS"',
            "date-time",
            lambda text: read_datetime(text, order),
        )
    if form is date:
        return TemporalNode(
            "a date (YYYY-MM-DD)", '"YYYY-MM-DD"', "date", lambda text: read_date(text, order)
        )
    if form is time:
        return TemporalNode("a time (HH:MM:SS)", '"HH:MM:SS"', "time", read_time)
    if form is timedelta:
        hint = '"ISO 8601 duration, such as PT1H30M"'
        return TemporalNode("a duration (ISO 8601)", hint, "duration", read_timedelta)
    return None
