"""The JSON parser's results and errors, and functions for NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from ..result.lazy_regex import lazy_regex
from ..result.reading import Json

# The deepest nesting that is accepted. It is deeper than any realistic answer, and shallow enough for the
# recursive functions that validate the value afterwards.
DEPTH = 500


class JsonSyntaxError(ValueError):
    """Raised if text cannot be parsed as JSON.

    Attributes:
        message: What is wrong.
        position: The index of the wrong character.
        truncated: True if the text ends inside a value, so that more text could complete it.
    """

    def __init__(self, message: str, position: int, *, truncated: bool = False) -> None:
        super().__init__(f"{message} (at character {position})")
        self.message = message
        self.position = position
        self.truncated = truncated


class Repair(NamedTuple):
    """A syntax mistake in JSON that the parser repaired, such as a trailing comma.

    Attributes:
        rule: The name of the deviation, such as ``trailing comma``.
        position: The index of the character where it first occurred.
    """

    rule: str
    position: int


# The position where each repair rule was first needed. It is filled with setdefault.
RepairLog: TypeAlias = dict[str, int]


class ParsedJson(NamedTuple):
    """A parsed JSON value, with the repairs that were needed to parse it.

    Attributes:
        value: The value.
        repairs: The tolerated deviations in the order of their first use; empty for exact JSON.
        end: The index after the last character of the value.
    """

    value: Json
    repairs: tuple[Repair, ...]
    end: int


def truncation_error(kind: str, position: int) -> JsonSyntaxError:
    """Return the error for JSON text that is cut off inside an array, object or string."""
    message = f"the text is cut off: the {kind} that begins here is not closed"
    return JsonSyntaxError(message, position, truncated=True)


def nesting_error(position: int) -> JsonSyntaxError:
    """Return the error for JSON that is nested deeper than the parser allows."""
    return JsonSyntaxError(f"nested deeper than {DEPTH} levels", position)


def surrogate_error(position: int) -> JsonSyntaxError:
    """Return the error for an incomplete surrogate pair in JSON: an escape such as ``\\ud83d`` alone."""
    return JsonSyntaxError("half a surrogate pair is not a character", position)


def add_field(fields: dict[str, Json], key: str, value: Json, position: int) -> None:
    """Add a field to a parsed JSON object, or raise JsonSyntaxError if the key already has another value."""
    if key in fields and not _json_equal(fields[key], value):
        raise JsonSyntaxError(f'the key "{key}" appears twice with different values', position)
    fields[key] = value


def _json_equal(one: Json, other: Json) -> bool:
    """Return True if two JSON values are equal, treating ``1``, ``1.0`` and ``true`` as different values."""
    # Without recursion, because 500 levels would come near the recursion limit of Python.
    pairs: list[tuple[Json, Json]] = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, dict):
            if left.keys() != right.keys():
                return False
            pairs += _zip(left.values(), (right[key] for key in left))
        elif isinstance(left, list):
            if len(left) != len(right):
                return False
            pairs += _zip(left, right)
        elif left != right:
            return False
    return True


def _zip(left: Iterable[Json], right: Iterable[Json]) -> list[tuple[Json, Json]]:
    return list(zip(left, right, strict=True))


# JSON has no numbers for NaN and infinity. A schema describes them as the strings that pydantic writes.
NON_FINITE_RULE = "NaN or Infinity without quotes"
NON_FINITE_SCHEMA = {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}
# The spellings of JavaScript, Python and pandas.
_NON_FINITE_NAME = lazy_regex(r"(?P<sign>[+-]?)(?:(?P<nan>NaN|nan)|Infinity|inf)")


def parse_non_finite(text: str) -> Decimal | None:
    """Parse ``NaN``, ``Infinity`` or a similar name as a float; return None for other text."""
    name = _NON_FINITE_NAME.fullmatch(text)
    if name is None:
        return None
    return Decimal("NaN") if name["nan"] else Decimal(f"{name['sign']}Infinity")


def is_non_finite(value: object) -> bool:
    """Return True if a parsed JSON value is NaN or an infinity."""
    return isinstance(value, Decimal) and not value.is_finite()


def non_finite_name(value: float) -> str | None:
    """Return the name, such as ``"-Infinity"``, of a float that JSON cannot represent, else None."""
    if math.isfinite(value):
        return None
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
