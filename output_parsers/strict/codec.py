"""What every part of an encoding can do: show its schema, and bring a value there and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from ..json.reader import read_exact
from ..json.result import JsonSyntaxError
from ..result.errors import Problem
from ..result.reading import Cursor, Json, describe_value
from ..types.node import JsonSchema, described
from ..types.records import plain_key
from .schema_queries import same_json

NOTHING: Json = object()  # what is found where nothing stands
MORE_THAN_ONE_WAY = "it can be read in more than one way"


class Kind(Enum):
    """What becomes of a value that is not in the form that was asked for."""

    LEAF = "it is left to the reader of the type"
    NOTED = "it is read, and the step noted"
    PLAIN = "it stands there without its encoding, and that is noted"
    FOREIGN = "it is in neither form: left as it is, for the reader may know better"
    FAULT = "it cannot be undone"
    DOUBT = "it can be undone in more than one way"


class Step(NamedTuple):
    """One departure: where it stands in the plain value and in the written one, what, and what was found.

    ``rule``, ``before`` and ``after`` are for the ledger; ``heavy`` says that a part has another shape.
    """

    kind: Kind
    plain: Cursor
    written: Cursor
    message: str
    found: Json
    heavy: bool
    rule: str = "encoding left out"
    before: Json = None
    after: Json = None

    @property
    def problem(self) -> Problem:
        return Problem(self.written.path, self.message, "" if self.found is NOTHING else describe_value(self.found))

    def note(self) -> None:
        """Tell the ledger. Raises Misfit where the leniency does not permit it."""
        if self.kind is Kind.NOTED and self.rule != "unknown key left out":
            self.plain.record(self.rule, self.before, self.after)
        elif self.kind in (Kind.NOTED, Kind.PLAIN, Kind.FOREIGN):
            self.plain.record_dropped(self.rule)


class Undone(NamedTuple):
    """A value without its encoding, what could not be undone left as it is; and the steps on the way."""

    value: Json
    steps: Sequence[Step]

    def of(self, *kinds: Kind) -> list[Step]:
        return [step for step in self.steps if step.kind in kinds]

    def problems(self, said: Sequence[Problem]) -> list[Problem]:
        """All that is wrong: the faults of structure, and what the reader says of the rest."""
        faults = self.of(Kind.FAULT, Kind.DOUBT)
        untouched = self.of(Kind.FOREIGN)
        foreign = [step for step in untouched if any(_within(p.path, step.plain.path) for p in said)]
        at = {step.plain.path for step in faults}
        above = [step.plain.path for step in foreign]
        rest = [p for p in said if p.path not in at and not any(_within(p.path, path) for path in above)]
        return list(dict.fromkeys([*(step.problem for step in (*faults, *foreign)), *rest]))


def _within(path: str, above: str) -> bool:
    return path == above or (path.startswith(above) and path[len(above)] in ".[")


class Spot:
    """Where undoing stands: its place in the plain value and in the written one, and the steps so far."""

    __slots__ = ("plain", "steps", "union_cache", "written")

    def __init__(self, plain: Cursor, written: Cursor, known: dict[Any, Any]) -> None:
        self.plain = plain
        self.written = written
        self.union_cache = known  # what unions found out, so that none is asked twice
        self.steps: list[Step] = []

    def child(self, key: str | int) -> Spot:
        """The spot of a part that has the same key in both values."""
        return self.under(key, self.plain.child(key))

    def under(self, key: str | int, plain: Cursor | None = None) -> Spot:
        """The spot of a part that has a key in the written value alone, or another place in the plain one."""
        below = Spot(self.plain if plain is None else plain, self.written.child(key), self.union_cache)
        below.steps = self.steps
        return below

    def apart(self) -> Spot:
        """The same spot with steps of its own."""
        return Spot(self.plain, self.written, self.union_cache)

    def leaf(self, message: str, found: Json, *, heavy: bool = False) -> None:
        heavy = heavy or isinstance(found, (dict, list))
        self.steps.append(Step(Kind.LEAF, self.plain, self.written, message, found, heavy))

    def left_plain(self, message: str, found: Json) -> None:
        self.steps.append(Step(Kind.PLAIN, self.plain, self.written, message, found, heavy=False))

    def fails(self, message: str, found: Json, kind: Kind = Kind.FAULT) -> None:
        self.steps.append(Step(kind, self.plain, self.written, message, found, heavy=True))

    def noted(self, rule: str, before: Json, after: Json) -> None:
        step = Step(Kind.NOTED, self.plain, self.written, rule, before, False, rule, before, after)
        self.steps.append(step)

    def opened(self, found: Json, opening: str) -> Json:
        """The JSON inside a string that begins with this bracket; all else as it is."""
        if not isinstance(found, str) or not found.lstrip().startswith(opening):
            return found
        try:
            inside = read_exact(found.strip())
        except JsonSyntaxError:
            return found
        self.noted("JSON inside a string", found, inside)
        return inside


def keyed(found: dict[str, Json], names: Sequence[str], at: Spot, *, alone: bool = False) -> dict[str, Json]:
    """What stands under each of the names, be it in another form.

    What has another key is left out; ``alone`` makes a fault of it.
    """
    given = {name: found[name] for name in names if name in found}
    for key, item in found.items():
        if key in names:
            continue
        meant = [name for name in names if plain_key(name) == plain_key(key)]
        if not meant and alone:
            at.under(key).fails("no item of this name is expected", item)
        elif not meant:
            at.under(key).noted("unknown key left out", item, "")
        elif len(meant) > 1 or meant[0] in given:
            at.under(key).fails(f"another key means {meant[0]!r} too", key)
        else:
            at.under(key).noted("key in another form", key, meant[0])
            given[meant[0]] = item
    return given


def likeliest(ways: Sequence[Callable[[Spot], Json]], found: Json, at: Spot) -> Json:
    """What the way gives that takes the fewest steps; two that differ are a doubt."""
    tries: list[tuple[tuple[int, int], list[Step], Json]] = []
    for way in ways:
        spot = at.apart()
        value = way(spot)
        heavy = sum(step.heavy for step in spot.steps)
        tries.append(((heavy, len(spot.steps) - heavy), spot.steps, value))
    least = min(rank for rank, _, _ in tries)
    best = [(steps, value) for rank, steps, value in tries if rank == least]
    if least[0]:  # none fits: that one was meant, as like as not, whose faults lie deepest
        best.sort(key=lambda one: max(len(step.written.path) for step in one[0] if step.heavy), reverse=True)
    steps, value = best[0]
    at.steps.extend(steps)
    if not all(same_json(value, other) for _, other in best[1:]):
        if least[0]:
            if not any(step.kind is Kind.FAULT for step in steps):
                at.fails("it fits no branch", found)
        else:
            exact = not any(least)
            at.fails(MORE_THAN_ONE_WAY if exact else "no branch is plainly meant", found, Kind.DOUBT)
    return value


class Code(ABC):
    """One part of a schema: the schema that is sent for it, and the way of its values there and back.

    ``plain`` says that decoding changes nothing, provided that it is so for all ``parts``; ``kinds`` what
    kinds of JSON stand for its values when encoded.
    """

    plain: bool = True
    description: str | None = None
    title: str | None = None

    @property
    def parts(self) -> Sequence[Code]:
        return ()

    @property
    @abstractmethod
    def kinds(self) -> frozenset[str]:
        """The kinds of JSON that its encoded values are."""

    @abstractmethod
    def bare_schema(self) -> JsonSchema:
        """The schema that is sent, without its description."""

    @abstractmethod
    def encode(self, value: Json, at: Cursor) -> Json:
        """A plain value as a model would write it. Raises EncodingFault where it does not fit."""

    @abstractmethod
    def undo(self, value: Json, at: Spot) -> Json:
        """The plain value of an encoded one; what cannot be undone stays as it is, with a step."""

    def schema(self) -> JsonSchema:
        """The schema that is sent."""
        schema = self.bare_schema()
        if self.title and schema.get("type") == "object":
            schema = {"type": "object", "title": self.title, **schema}
        return described(schema, self.description)


class Definition:
    """A named part; its code is known when it has been taken apart."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.code: Code | None = None


class RefCode(Code):
    """A part that is written once, under a name."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition

    @property
    def parts(self) -> Sequence[Code]:
        assert self.definition.code is not None, "a definition is used before it is taken apart"
        return (self.definition.code,)

    @property
    def target(self) -> Code:
        """What stands under the name, be it through further names."""
        code: Code | None = self
        while isinstance(code, RefCode):
            code = code.definition.code
        assert code is not None, "a definition is used before it is taken apart"
        return code

    @property
    def kinds(self) -> frozenset[str]:
        return self.target.kinds

    def target_schema(self) -> JsonSchema:
        """The schema that is sent under the name."""
        assert self.definition.code is not None, "a definition is used before it is taken apart"
        return self.definition.code.schema()

    def bare_schema(self) -> JsonSchema:
        return {"$ref": f"#/$defs/{self.definition.name}"}

    def encode(self, value: Json, at: Cursor) -> Json:
        return self.target.encode(value, at)

    def undo(self, value: Json, at: Spot) -> Json:
        return self.target.undo(value, at)


def walk(code: Code) -> Iterator[Code]:
    """A code and all its parts, each once."""
    seen: set[int] = set()
    waiting = [code]
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting.extend(current.parts)


class Finding(NamedTuple):
    """Where a schema says more than the profile can, what it says, and what is done about it.

    ``path`` names the field of a Python type (``Person.tags``), or is a JSON pointer into a bare schema.
    ``lossless`` is False where strict mode has to be given up.
    """

    path: str
    what: str
    done: str
    lossless: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.what}: {self.done}"


class EncodingFault(ValueError):
    """A JSON value does not fit an encoding. ``path`` is its JSON path (``$`` is the root)."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(path, message)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


ENFORCED_LATER = "not sent; enforced when read"
GIVEN_UP = "strict mode is given up"


class Where(NamedTuple):
    """A place in a schema: its path as a user would name it, and how many objects it is inside of.

    ``named`` says that the schema is of a Python type, whose objects bear the names of classes.
    """

    path: str
    named: bool
    depth: int = 0

    def property(self, key: str, title: object) -> Where:
        """The place of a property of the object that is here."""
        if self.named:  # what has no name is an envelope, of which its user knows nothing
            path = f"{title}.{key}" if isinstance(title, str) else self.path
            return Where(path, True, self.depth + 1)
        step = key.replace("~", "~0").replace("/", "~1")
        return Where(f"{self.path}/properties/{step}", False, self.depth + 1)

    def below(self, *steps: str | int) -> Where:
        """The place of another part of what is here; of a type the same, for it has no name."""
        if self.named:
            return self
        return self._replace(path="/".join([self.path, *map(str, steps)]))

    def deeper(self) -> Where:
        return self._replace(depth=self.depth + 1)


class Notes:
    """The findings so far, each once."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    def note(self, at: Where, what: str, done: str) -> None:
        """What a schema says at a place, and what is done about it."""
        self._found.setdefault(Finding(at.path, what, done))

    def give_up(self, at: Where, what: str) -> None:
        """That a schema cannot be kept at all."""
        self._found.setdefault(Finding(at.path, what, GIVEN_UP, lossless=False))

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self._found)
