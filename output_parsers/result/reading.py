"""What was read, and every step away from the exact text that it took."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from .errors import Problem, shorten

T = TypeVar("T")
_LONGEST_KEY = 60  # characters of a key that are shown

# What a JSON text holds: null, booleans, exact numbers (int, or Decimal where the text has a fraction or
# an exponent: never a double), strings, arrays, objects.
Json: TypeAlias = Any


class Leniency(Enum):
    """How far from the exact text a reading may go.

    NONE: the reply is the value and nothing else. SAFE: steps that keep the meaning (a fence, prose
    around the answer, ``"RED."`` for RED, ``"42"`` for 42). ALL: also steps that guess (``42.7`` for an int).
    """

    NONE = 0
    SAFE = 1
    ALL = 2


class Coercion(NamedTuple):
    """One step away from the exact text: where (JSON path), which rule, what stood there, what was read."""

    path: str
    rule: str
    before: str
    after: str

    def __str__(self) -> str:
        change = f": {self.before} → {self.after}" if self.before or self.after else ""
        return f"{self.path}: {self.rule}{change}"


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """A value read from text, with the steps that reading it took (none when the text was exact)."""

    value: T
    coercions: tuple[Coercion, ...] = ()


class ValidationFailure(
    Exception
):  # it never leaves the package: it is how one reading gives way to the next
    """A text or JSON value does not fit a type; ``problems`` says why, path by path."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


class Ambiguity(ValidationFailure):  # a misfit too
    """A text or JSON value fits in more than one way, with different values."""


MAX_FAILURES = 100  # of the parts of one value; what does not fit so often is something else


def combine_failures(misfits: Sequence[ValidationFailure]) -> ValidationFailure:
    """The misfits of the parts of one value as its own."""
    problems = (problem for misfit in misfits for problem in misfit.problems)
    only_ambiguous = all(isinstance(misfit, Ambiguity) for misfit in misfits)
    return Ambiguity(*problems) if only_ambiguous else ValidationFailure(*problems)


class Cursor:
    """Where in the reply a reader stands, how lenient it may be, and the steps taken so far.

    All places of one attempt share one ledger, so that an attempt that fails can be undone by cutting
    the ledger back to its former length; and what unions found out, so that none is asked twice. A
    place knows the one above it and its own key: its path is written only when something is said of it.
    """

    __slots__ = ("_above", "_step", "coercions", "leniency", "union_cache")

    def __init__(self, leniency: Leniency = Leniency.SAFE, path: str = "$") -> None:
        self.leniency = leniency
        self.coercions: list[Coercion] = []
        self.union_cache: dict[Any, Any] = {}
        self._above: Cursor | None = None
        self._step: str | int = path

    def child(self, key: str | int) -> Cursor:
        """The place of an item or a field below this one."""
        below = Cursor.__new__(Cursor)
        below.leniency = self.leniency
        below.coercions = self.coercions
        below.union_cache = self.union_cache
        below._above = self
        below._step = key
        return below

    @property
    def path(self) -> str:
        """The JSON path: ``$.people[0]["first name"]``."""
        steps: list[str] = []
        place = self
        while place._above is not None:
            steps.append(_written_step(place._step))
            place = place._above
        return str(place._step) + "".join(reversed(steps))

    def record(self, rule: str, before: Json, after: object, *, guess: bool = False) -> None:
        """Record a step. Raises Misfit where the leniency does not permit it."""
        allowed = Leniency.ALL if guess else Leniency.SAFE
        if self.leniency.value < allowed.value:
            raise self.failure(f"{rule} is not permitted with Leniency.{self.leniency.name}", before)
        self.coercions.append(Coercion(self.path, rule, describe_value(before), describe_value(after)))

    def record_dropped(self, rule: str) -> None:
        """Record that something beside the value was passed over. Raises Misfit as ``record`` does."""
        if self.leniency is Leniency.NONE:
            raise ValidationFailure(Problem(self.path, f"{rule} is not permitted with Leniency.NONE"))
        self.coercions.append(Coercion(self.path, rule, "", ""))

    def failure(self, message: str, found: Json) -> ValidationFailure:
        """The error that says what was expected here and what was found."""
        return ValidationFailure(Problem(self.path, message, describe_value(found)))


def _written_step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    name = shorten(key, _LONGEST_KEY)
    return f".{name}" if name.isidentifier() else f"[{json.dumps(name, ensure_ascii=False)}]"


def dump_json(found: Json) -> str:
    """The JSON text of a JSON value, its numbers digit by digit."""
    if isinstance(found, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {dump_json(value)}" for key, value in found.items()) + "}"
    if isinstance(found, list):
        return f"[{', '.join(map(dump_json, found))}]"
    return str(found) if isinstance(found, Decimal) else json.dumps(found, ensure_ascii=False)


def describe_value(value: object, limit: int = 60) -> str:
    """A short text for a JSON value or a value read from one."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{shorten(value, limit)}"'
    if isinstance(value, dict):
        keys = ", ".join(shorten(str(key), _LONGEST_KEY) for key in list(value)[:6])
        return f"an object with {keys}" if value else "an empty object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    try:
        return shorten(str(value), limit)
    except ValueError:  # an int of more digits than str() converts
        return "a very long number"


def expected_message(kind: str, error: Exception) -> str:
    """What was expected, and what more an error says of the text."""
    detail = str(error)
    return f"expected {kind}" if detail.startswith("expected") else f"expected {kind}: {detail}"


_NOTHING = object()


def strict_equal(one: Any, other: Any) -> bool:
    """Stricter than ``==``, which holds True and 1 for equal, inside of lists and records too.

    Records are compared by their fields, whatever their classes say of equality; so are other objects whose
    classes say nothing of it, by their attributes.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(strict_equal, one, other))
    if isinstance(one, dict):
        return _same_members(one, other) and all(strict_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, (set, frozenset)):
        return _same_members(dict.fromkeys(one), dict.fromkeys(other))
    names = _names(type(one))
    if names is None:
        if any("__eq__" in vars(cls) for cls in type(one).__mro__[:-1]):  # all but object
            return bool(one == other) or bool(one != one and other != other)  # NaN equals nothing
        return hasattr(one, "__dict__") and strict_equal(one.__dict__, other.__dict__)
    more = getattr(one, "__pydantic_extra__", None), getattr(other, "__pydantic_extra__", None)
    return strict_equal(*more) and all(
        strict_equal(getattr(one, name, _NOTHING), getattr(other, name, _NOTHING)) for name in names
    )


def first_difference(one: Any, other: Any, path: str = "$") -> tuple[str, Any, Any]:
    """The path of the first part in which two values of one form are not the same, and both parts."""
    for step, part, counterpart in _parts(one, other):
        if not strict_equal(part, counterpart):
            return first_difference(part, counterpart, path + step)
    return path, one, other


def _parts(one: Any, other: Any) -> list[tuple[str, Any, Any]]:
    if type(one) is not type(other):
        return []
    if isinstance(one, (list, tuple)) and len(one) == len(other):
        return [(f"[{index}]", *pair) for index, pair in enumerate(zip(one, other, strict=True))]
    if isinstance(one, dict) and one.keys() == other.keys():
        return [(f"[{key!r}]", value, other[key]) for key, value in one.items()]
    names = _names(type(one)) or ()
    return [(f".{name}", getattr(one, name, _NOTHING), getattr(other, name, _NOTHING)) for name in names]


def _same_members(one: Mapping[Any, None], other: Mapping[Any, None]) -> bool:
    """Whether two sets, or the keys of two dicts, hold the same."""
    if one.keys() != other.keys():
        return False
    known = {key: key for key in other}
    return all(strict_equal(key, known[key]) for key in one)


def _names(cls: Any) -> Sequence[str] | None:
    """The fields of a record class; None for all others."""
    for attribute in ("__pydantic_fields__", "__dataclass_fields__", "__struct_fields__"):
        names = getattr(cls, attribute, None)
        if names is not None:
            return tuple(names)
    known = getattr(cls, "__attrs_attrs__", None)
    return None if known is None else [field.name for field in known]
