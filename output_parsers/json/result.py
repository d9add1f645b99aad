"""What reading JSON gives: a value with the tolerances it took, or a fault that says where and why."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from ..result.lazy_regex import lazy_regex
from ..result.reading import Json

# Deeper than any answer a type asks for, and shallow enough for the recursive readers that come after.
DEPTH = 500


class JsonSyntaxError(ValueError):
    """A text cannot be read as JSON: why, and at which character.

    ``truncated`` is true where the text ends before its value does, so that more text could mend it.
    """

    def __init__(self, message: str, position: int, *, truncated: bool = False) -> None:
        super().__init__(f"{message} (at character {position})")
        self.message = message
        self.position = position
        self.truncated = truncated


class Repair(NamedTuple):
    """One tolerance that a reading used, and the character where it was first needed."""

    rule: str
    position: int


class ParsedJson(NamedTuple):
    """A JSON value read from a text, the tolerances it took (none: exact JSON), the index after its end."""

    value: Json
    repairs: tuple[Repair, ...]
    end: int


class RepairLog:
    """The tolerances that a reading has used so far, each once."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}

    def note(self, rule: str, position: int) -> None:
        """Record that a tolerance was used, if it is the first time."""
        self._first.setdefault(rule, position)

    def first(self, rule: str) -> int:
        """Where a tolerance was first used, or -1."""
        return self._first.get(rule, -1)

    def as_tuple(self) -> tuple[Repair, ...]:
        """The tolerances in the order in which they were first used."""
        return tuple(Repair(rule, position) for rule, position in self._first.items())


def truncation_error(what: str, position: int) -> JsonSyntaxError:
    """The fault of a text that ends inside the array, object or string that begins at ``position``."""
    message = f"the text is cut off: the {what} that begins here is not closed"
    return JsonSyntaxError(message, position, truncated=True)


def nesting_error(position: int) -> JsonSyntaxError:
    """The fault of a text that is nested beyond DEPTH."""
    return JsonSyntaxError(f"nested deeper than {DEPTH} levels", position)


def surrogate_error(position: int) -> JsonSyntaxError:
    """The fault of half a surrogate pair: a string with it cannot be encoded, so it is of no use."""
    return JsonSyntaxError("half a surrogate pair is not a character", position)


def add_field(fields: dict[str, Json], key: str, value: Json, position: int) -> None:
    """Add a field. A key that stands twice is harmless with equal values; with others it is a JsonSyntaxError."""
    if key in fields and not _same(fields[key], value):
        raise JsonSyntaxError(f'the key "{key}" stands twice with different values', position)
    fields[key] = value


def _same(one: Json, other: Json) -> bool:
    """Equality that keeps ``1``, ``1.0`` and ``true`` apart, without recursion."""
    pairs: list[tuple[Json, Json]] = [(one, other)]
    while pairs:
        a, b = pairs.pop()
        if type(a) is not type(b):
            return False
        if isinstance(a, dict):
            if a.keys() != b.keys():
                return False
            pairs += _zip(a.values(), (b[key] for key in a))
        elif isinstance(a, list):
            if len(a) != len(b):
                return False
            pairs += _zip(a, b)
        elif a != b:
            return False
    return True


def _zip(some: Iterable[Json], others: Iterable[Json]) -> list[tuple[Json, Json]]:
    return list(zip(some, others, strict=True))


NON_FINITE_RULE = "NaN or Infinity without quotes"  # the rule by which one is read that stands as a number does
NON_FINITE_SCHEMA = {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}
# As JavaScript, Python and pandas write them.
_NAME = lazy_regex(r"(?P<sign>[+-]?)(?:(?P<nan>NaN|nan)|Infinity|inf)")


def parse_non_finite(text: str) -> Decimal | None:
    """NaN or the infinity whose name a text is; None for all others."""
    name = _NAME.fullmatch(text)
    if name is None:
        return None
    return Decimal("NaN") if name["nan"] else Decimal(f"{name['sign']}Infinity")


def is_non_finite(found: object) -> bool:
    """Whether a JSON value stood as NaN or Infinity in the text."""
    return isinstance(found, Decimal) and not found.is_finite()


def non_finite_name(value: float) -> str | None:
    """The text that JSON has for a float that is not finite; None for all others."""
    if math.isfinite(value):
        return None
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def allow_inf_nan_setting(metadata: Iterable[Any]) -> bool | None:
    """What is said of ``allow_inf_nan`` in what Annotated holds, nearest to the use; None when nothing is."""
    said = None
    for item in metadata:
        for part in item.metadata if isinstance(item, FieldInfo) else (item,):
            allowed = getattr(part, "allow_inf_nan", None)
            said = allowed if isinstance(allowed, bool) else said
    return said
