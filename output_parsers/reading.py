"""What was read, and every step away from the exact text that it took."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from .errors import Problem, shorten

__all__ = [
    "MOST_MISFITS",
    "Ambiguity",
    "Coercion",
    "Json",
    "Leniency",
    "Misfit",
    "Place",
    "Reading",
    "expected",
    "gathered",
    "show",
    "written",
]

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


class Misfit(Exception):  # it never leaves the package: it is how one reading gives way to the next
    """A text or JSON value does not fit a type; ``problems`` says why, path by path."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


class Ambiguity(Misfit):  # a misfit too
    """A text or JSON value fits in more than one way, with different values."""


MOST_MISFITS = 100  # of the parts of one value; what does not fit so often is something else


def gathered(misfits: Sequence[Misfit]) -> Misfit:
    """The misfits of the parts of one value as its own."""
    problems = (problem for misfit in misfits for problem in misfit.problems)
    only_ambiguous = all(isinstance(misfit, Ambiguity) for misfit in misfits)
    return Ambiguity(*problems) if only_ambiguous else Misfit(*problems)


class Place:
    """Where in the reply a reader stands, how lenient it may be, and the steps taken so far.

    All places of one attempt share one ledger, so that an attempt that fails can be undone by cutting
    the ledger back to its former length; and what unions found out, so that none is asked twice. A
    place knows the one above it and its own key: its path is written only when something is said of it.
    """

    __slots__ = ("_above", "_step", "known", "ledger", "leniency")

    def __init__(self, leniency: Leniency = Leniency.SAFE, path: str = "$") -> None:
        self.leniency = leniency
        self.ledger: list[Coercion] = []
        self.known: dict[Any, Any] = {}
        self._above: Place | None = None
        self._step: str | int = path

    def at(self, key: str | int) -> Place:
        """The place of an item or a field below this one."""
        below = Place.__new__(Place)
        below.leniency = self.leniency
        below.ledger = self.ledger
        below.known = self.known
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

    def took(self, rule: str, before: Json, after: object, *, guess: bool = False) -> None:
        """Record a step. Raises Misfit where the leniency does not permit it."""
        allowed = Leniency.ALL if guess else Leniency.SAFE
        if self.leniency.value < allowed.value:
            raise self.misfit(f"{rule} is not permitted with Leniency.{self.leniency.name}", before)
        self.ledger.append(Coercion(self.path, rule, show(before), show(after)))

    def left_out(self, rule: str) -> None:
        """Record that something beside the value was passed over. Raises Misfit as ``took`` does."""
        if self.leniency is Leniency.NONE:
            raise Misfit(Problem(self.path, f"{rule} is not permitted with Leniency.NONE"))
        self.ledger.append(Coercion(self.path, rule, "", ""))

    def misfit(self, message: str, found: Json) -> Misfit:
        """The error that says what was expected here and what was found."""
        return Misfit(Problem(self.path, message, show(found)))


def _written_step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    name = shorten(key, _LONGEST_KEY)
    return f".{name}" if name.isidentifier() else f"[{json.dumps(name, ensure_ascii=False)}]"


def written(found: Json) -> str:
    """The JSON text of a JSON value, its numbers digit by digit."""
    if isinstance(found, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {written(value)}" for key, value in found.items()) + "}"
    if isinstance(found, list):
        return f"[{', '.join(map(written, found))}]"
    return str(found) if isinstance(found, Decimal) else json.dumps(found, ensure_ascii=False)


def show(value: object, limit: int = 60) -> str:
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


def expected(kind: str, error: Exception) -> str:
    """What was expected, and what more an error says of the text."""
    detail = str(error)
    return f"expected {kind}" if detail.startswith("expected") else f"expected {kind}: {detail}"
