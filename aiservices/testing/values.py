"""Makes up JSON values that fit a JSON Schema."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from itertools import product
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Json, dump_json, strict_equal
from output_parsers.strict import EncodedNode
from output_parsers.types.node import schema_of
from output_parsers.types.records import EnvelopeNode

_MORE = 3  # how many more than the least of a repetition
_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_- "
_OF_CLASS = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_WORD": "abcdefghijklmnopqrstuvwxyz0123456789_",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": "abcdefghijklmnopqrstuvwxyz -",
    "CATEGORY_NOT_WORD": " -.,",
    "CATEGORY_NOT_SPACE": "abcdefghijklmnopqrstuvwxyz0123456789",
}


def text_like(pattern: str, dice: random.Random) -> str:
    """A short text in which ``re.search`` finds the pattern, or nearly so: who needs it checks it.

    Looking around and conditions are not followed. Raises re.error for what is no pattern.
    """
    # the tree that re itself compiles from; Hypothesis reads the same one
    tree = re._parser.parse(pattern)  # type: ignore[attr-defined]
    return _Writer(dice).written(tree)


class _Writer:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._groups: dict[int, str] = {}
        self._writes: dict[str, Callable[[Any], str]] = {
            "LITERAL": chr,
            "NOT_LITERAL": lambda code: self._other_than({chr(code)}),
            "ANY": lambda _: self._dice.choice(_PLAIN),
            "IN": self._member,
            "MAX_REPEAT": self._repeated,
            "MIN_REPEAT": self._repeated,
            "POSSESSIVE_REPEAT": self._repeated,
            "SUBPATTERN": self._group,
            "ATOMIC_GROUP": self.written,
            "BRANCH": lambda found: self.written(self._dice.choice(found[1])),
            "GROUPREF": lambda number: self._groups.get(number, ""),
        }

    def written(self, tree: Any) -> str:
        return "".join(self._one(str(kind), found) for kind, found in tree)

    def _one(self, kind: str, found: Any) -> str:
        write = self._writes.get(kind)
        return "" if write is None else write(found)  # an anchor, or what looks around

    def _repeated(self, found: Any) -> str:
        least, most, inner = found
        times = self._dice.randint(int(least), min(int(most), int(least) + _MORE))
        return "".join(self.written(inner) for _ in range(times))

    def _group(self, found: Any) -> str:
        number, *_, inner = found
        said = self.written(inner)
        if number is not None:
            self._groups[number] = said
        return said

    def _member(self, found: Any) -> str:
        kinds = [(str(kind), inner) for kind, inner in found]
        if kinds[0][0] == "NEGATE":
            return self._other_than(
                {letter for kind, inner in kinds[1:] for letter in self._letters(kind, inner)}
            )
        return self._dice.choice(self._letters(*self._dice.choice(kinds)))

    def _letters(self, kind: str, found: Any) -> str:
        if kind == "LITERAL":
            return chr(found)
        if kind == "RANGE":
            low, high = found
            return "".join(map(chr, range(low, min(high, low + 200) + 1)))
        return _OF_CLASS.get(str(found), _PLAIN)

    def _other_than(self, letters: set[str]) -> str:
        return self._dice.choice([letter for letter in _PLAIN if letter not in letters] or ["é"])


T = TypeVar("T")
_WORDS = """amber basil cedar delta ember fjord grove haven inlet jasmine kernel lemon meadow nectar orchid
pebble quartz river saffron timber umbra velvet willow yarrow zephyr""".split()


class Source(Protocol):
    """Makes choices. A bound that is None is none; both ends of a range belong to it.

    ``reject`` is told that a choice led to nothing; it may raise whatever ends the attempt.
    """

    def integer(self, low: int | None, high: int | None) -> int: ...
    def number(self, low: float | None, high: float | None) -> float: ...
    def one_of(self, options: Sequence[T]) -> T: ...
    def size(self, least: int, most: int | None) -> int: ...
    def text(self, least: int, most: int | None) -> str: ...
    def matching(self, pattern: str) -> str: ...
    def reject(self) -> None: ...


class Dice:
    """Chooses by a seed: the same seed gives the same values in every process. Values are small and plain."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int | None, high: int | None) -> int:
        if low is None:
            low = 0 if high is None or high >= 0 else high - 100
        return self._random.randint(low, low + 100 if high is None else high)

    def number(self, low: float | None, high: float | None) -> float:
        if low is None:
            low = 0.0 if high is None or high >= 0 else high - 100.0
        high = low + 100.0 if high is None else high
        found = self._random.uniform(low, high)
        rounded = round(found, 2)
        return rounded if low <= rounded <= high else found

    def one_of(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def size(self, least: int, most: int | None) -> int:
        if most is None:
            return self._random.randint(max(least, 1), max(least, 1) + 2)
        return self._random.randint(least, min(most, least + 3))

    def text(self, least: int, most: int | None) -> str:
        words = [self._random.choice(_WORDS) for _ in range(self._random.randint(1, 3))]
        while len(" ".join(words)) < least:
            words.append(self._random.choice(_WORDS))
        said = " ".join(words)
        return said if most is None or len(said) <= most else said[:most].replace(" ", "-")

    def matching(self, pattern: str) -> str:
        return text_like(pattern, self._random)

    def reject(self) -> None:
        """The next choices differ, so there is nothing to be done."""


_DAYS = (date(1970, 1, 1).toordinal(), date(2069, 12, 31).toordinal())
_SECONDS = 24 * 60 * 60
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _date(source: Source) -> date:
    return date.fromordinal(source.integer(*_DAYS))


def _time(source: Source) -> time:
    return (datetime.min + timedelta(seconds=source.integer(0, _SECONDS - 1))).time()


def _duration(source: Source) -> str:
    minutes = source.integer(0, 7 * 24 * 60)
    return f"P{minutes // 1440}DT{minutes % 1440 // 60}H{minutes % 60}M"


def _name(source: Source) -> str:
    return "".join(source.one_of(_LETTERS) for _ in range(source.integer(3, 8)))


FORMATS: dict[str | None, Callable[[Source], str]] = {
    "date": lambda source: _date(source).isoformat(),
    "time": lambda source: _time(source).isoformat(),
    "date-time": lambda source: datetime.combine(_date(source), _time(source)).isoformat(),
    "duration": _duration,
    "uuid": lambda source: str(UUID(int=source.integer(0, 2**128 - 1), version=4)),
    "email": lambda source: f"{_name(source)}@example.com",
    "name-email": lambda source: f"{_name(source)}@example.com",
    "hostname": lambda source: f"{_name(source)}.example.com",
    "uri": lambda source: f"https://example.com/{_name(source)}",
    "ipv4": lambda source: str(IPv4Address(source.integer(0, 2**32 - 1))),
    "ipv6": lambda source: str(IPv6Address(source.integer(0, 2**128 - 1))),
    "path": lambda source: f"{_name(source)}/{_name(source)}",
    "file-path": lambda source: f"{_name(source)}/{_name(source)}",
    "directory-path": _name,
    "integer": lambda source: str(source.integer(0, 1_000)),
    "fraction": lambda source: f"{source.integer(0, 100)}/{source.integer(1, 100)}",
    "json-string": lambda source: str(source.integer(0, 100)),
}


_DEEPEST = 3  # levels below which the shortest way to an end is taken
_ENDLESS = 1_000
_TRIES = 20
_KINDS = {
    "properties": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "pattern": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
}


class TextValues(NamedTuple):
    """What a schema does not say: the form of keys and of texts, by its name in FORMATS; None is any text."""

    keys: str | None = None
    others: str | None = None


PLAIN = TextValues()


def json_for(schema: Mapping[str, Any], source: Source, texts: TextValues = PLAIN) -> Json:
    """A JSON value that fits the schema, by the choices of the source.

    It knows the keywords that say what a value is made of (draft 2020-12), and leaves those alone that only
    forbid, as ``not``: who needs to be sure reads the value.
    """
    return _Maker(schema, source, texts).value(schema, 0)


class _Maker:
    def __init__(self, root: Mapping[str, Any], source: Source, texts: TextValues) -> None:
        self._root = root
        self._source = source
        self._texts = texts

    def value(self, schema: Any, depth: int) -> Json:
        schema = self._resolved(schema)
        if not isinstance(schema, Mapping):  # true: whatever there is
            schema = {}
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._source.one_of(schema["enum"])
        options = schema.get("anyOf") or schema.get("oneOf")
        if options:
            rest = {key: said for key, said in schema.items() if key not in ("anyOf", "oneOf", "$defs")}
            return self.value(_both(self._chosen(options, depth), rest), depth)
        if "allOf" in schema:
            whole = {key: said for key, said in schema.items() if key != "allOf"}
            for part in schema["allOf"]:
                whole = _both(self._resolved(part), whole)
            return self.value(whole, depth)
        return self._of_kind(self._kind(schema, depth), schema, depth)

    def _resolved(self, schema: Any) -> Any:
        while isinstance(schema, Mapping) and "$ref" in schema:
            found: Any = self._root
            for step in schema["$ref"].removeprefix("#").strip("/").split("/"):
                found = found[step.replace("~1", "/").replace("~0", "~")] if step else found
            schema = _both(found, {key: said for key, said in schema.items() if key != "$ref"})
        return schema

    def _chosen(self, options: list[Any], depth: int) -> Any:
        if depth < _DEEPEST:
            return self._resolved(self._source.one_of(options))
        return self._resolved(min(options, key=lambda option: self._height(option, ())))

    def _kind(self, schema: Mapping[str, Any], depth: int) -> str:
        said = schema.get("type") or next((kind for key, kind in _KINDS.items() if key in schema), None)
        if said is None:
            return self._source.one_of(("string", "integer", "boolean", "null"))
        return said if isinstance(said, str) else self._source.one_of(said)

    def _of_kind(self, kind: str, schema: Mapping[str, Any], depth: int) -> Json:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        if kind == "string":
            return self._string(schema)
        if kind in ("integer", "number"):
            return self._number(schema, whole=kind == "integer")
        return None if kind == "null" else self._source.one_of((True, False))

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Json]:
        required = set(schema.get("required", ()))
        found = {
            key: self.value(below, depth + 1)
            for key, below in schema.get("properties", {}).items()
            if key in required or (depth < _DEEPEST and self._source.one_of((True, False)))
        }
        others = schema.get("additionalProperties", not found)
        least = schema.get("minProperties", 0) - len(found)
        if others is False or ("properties" in schema and least <= 0):
            return found
        size = len(found) + self._size(max(least, 0), schema.get("maxProperties"), depth)
        for _ in range(size + _TRIES):  # a key may come twice
            if len(found) == size:
                break
            found[self._key(schema)] = self.value(others, depth + 1)
        self._enough(len(found), schema.get("minProperties", 0))
        return found

    def _key(self, schema: Mapping[str, Any]) -> str:
        names = schema.get("propertyNames")
        if names:
            return str(self.value({"type": "string", **names}, _DEEPEST))
        return (
            self._source.text(1, 12) if self._texts.keys is None else FORMATS[self._texts.keys](self._source)
        )

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Json]:
        first = schema.get("prefixItems", [])
        found = [self.value(below, depth + 1) for below in first]
        rest = schema.get("items", not first)
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if rest is False or (first and least <= len(first) and most in (None, len(first))):
            return found
        size = self._size(max(least - len(found), 0), None if most is None else most - len(found), depth)
        tries = size + _TRIES if schema.get("uniqueItems") else size
        seen: set[str] = set()
        while size > 0 and tries > 0:
            item, tries = self.value(rest, depth + 1), tries - 1
            text = json.dumps(item, sort_keys=True, default=str)
            if not (schema.get("uniqueItems") and text in seen):
                seen.add(text)
                found.append(item)
                size -= 1
        self._enough(len(found), least)
        return found

    def _enough(self, found: int, least: int) -> None:
        if found < least:
            self._source.reject()

    def _size(self, least: int, most: int | None, depth: int) -> int:
        return least if depth >= _DEEPEST else self._source.size(least, most)

    def _string(self, schema: Mapping[str, Any]) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if "pattern" in schema:
            said = ""
            for _ in range(_TRIES):
                said = self._source.matching(schema["pattern"])
                if least <= len(said) <= (len(said) if most is None else most):
                    return said
            self._source.reject()
            return said
        make = FORMATS.get(schema.get("format", self._texts.others))
        return self._source.text(least, most) if make is None else make(self._source)

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> int | float | Decimal:
        low, high = _bounds(schema)
        step = schema.get("multipleOf")
        if step is not None:
            factor = Decimal(str(step))
            least = None if low is None else math.ceil(Decimal(str(low)) / factor)
            most = None if high is None else math.floor(Decimal(str(high)) / factor)
            product = factor * self._source.integer(least, most)
            return int(product) if whole or product == int(product) else product
        if whole:
            return self._source.integer(
                None if low is None else math.ceil(low), None if high is None else math.floor(high)
            )
        return self._source.number(low, high)

    def _height(self, schema: Any, within: tuple[int, ...]) -> int:
        """How many levels the smallest value of a schema has at least."""
        schema = self._resolved(schema)
        if not isinstance(schema, Mapping) or len(within) > 40:
            return 0 if not isinstance(schema, Mapping) else _ENDLESS
        key = id(schema.get("properties") or schema.get("anyOf") or schema.get("items") or schema)
        if key in within:
            return _ENDLESS
        inside = (*within, key)
        options = schema.get("anyOf") or schema.get("oneOf")
        if options:
            return min(self._height(option, inside) for option in options)
        below = [
            schema.get("properties", {})[key]
            for key in schema.get("required", ())
            if key in schema.get("properties", {})
        ]
        below += schema.get("prefixItems", [])
        if schema.get("minItems", 0) and "items" in schema:
            below.append(schema["items"])
        return 1 + max((self._height(one, inside) for one in below), default=0)


def _both(one: Any, other: Mapping[str, Any]) -> Any:
    """A schema with what is said beside it; objects are put together."""
    if not isinstance(one, Mapping):
        return other or one
    joined = {**other, **one}
    if "properties" in one and "properties" in other:
        joined["properties"] = {**other["properties"], **one["properties"]}
        joined["required"] = [*other.get("required", ()), *one.get("required", ())]
    return joined


def _bounds(schema: Mapping[str, Any]) -> tuple[Any, Any]:
    """The least and the greatest number, both permitted."""
    whole = schema.get("type") == "integer"
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if above is not None:
        above = math.floor(above) + 1 if whole else math.nextafter(above, math.inf)
        low = above if low is None else max(low, above)
    if below is not None:
        below = math.ceil(below) - 1 if whole else math.nextafter(below, -math.inf)
        high = below if high is None else min(high, below)
    return low, high


_TYPED_TRIES = 200
_TRIES_EACH = 3
# No schema says that the keys of dict[int, …] are numbers, or of which form a text is that a validator takes.
_FORMS = (None, "integer", "fraction", "date", "date-time", "time", "uuid", "uri", "email")
_TEXTS: WeakKeyDictionary[TypeParser[Any], TextValues] = WeakKeyDictionary()


class Written(NamedTuple):
    """A value, and the text that is read as it."""

    value: Any
    text: str


def value_of(parser: TypeParser[T], source: Source) -> T:
    """A value that the parser reads. Raises LookupError when none was found that it accepts."""
    value: T = written_by(parser, source).value
    return value


def written_by(parser: TypeParser[Any], source: Source) -> Written:
    """A value by the choices of the source, and its text in the form that the parser asks for.

    Raises LookupError when none was found that it accepts.
    """
    plain = _plain(parser)
    texts = _texts_for(parser, plain)
    said = ""
    for _ in range(_TYPED_TRIES):
        try:
            return _tried(parser, plain, source, texts)
        except (OutputParsingError, ValueError) as error:
            said = str(error)
            source.reject()
    raise LookupError(
        f"no value of {parser.name} was found in {_TYPED_TRIES} attempts, the last of which gave: {said}; "
        "name one in FakeChatModel(values={…})"
    )


def _tried(parser: TypeParser[Any], plain: TypeParser[Any], source: Source, texts: TextValues) -> Written:
    """A value and its text. Raises OutputParsingError or ValueError where what was drawn is no value."""
    drawn = json_for(schema_of(plain.node), source, texts)
    text = drawn if plain.plain_text and isinstance(drawn, str) else dump_json(drawn)
    value = plain.parse(text)
    try:
        return Written(value, parser.write(value))
    except ValueError:  # a parser of the user's reads, and does not write
        if not strict_equal(parser.parse(text), value):
            raise
        return Written(value, text)


def _texts_for(parser: TypeParser[Any], plain: TypeParser[Any]) -> TextValues:
    """The form of texts that the type accepts: found once, by dice, so that all sources get the same."""
    known = _TEXTS.get(parser)
    if known is None:
        known = _TEXTS[parser] = next(
            (
                texts
                for others, keys in product(_FORMS, _FORMS)
                if _takes(parser, plain, texts := TextValues(keys, others))
            ),
            PLAIN,
        )
    return known


def _takes(parser: TypeParser[Any], plain: TypeParser[Any], texts: TextValues) -> bool:
    for number in range(_TRIES_EACH):
        try:
            _tried(parser, plain, Dice(str(number)), texts)
        except (OutputParsingError, ValueError):
            continue
        return True
    return False


def _plain(parser: TypeParser[Any]) -> TypeParser[Any]:
    """The parser of the same value without its envelope and its encoding, whose schema says more of it."""
    node = parser.node
    while isinstance(node, (EncodedNode, EnvelopeNode)):
        node = node.inner
    return parser if node is parser.node else TypeParser(parser.target, node)
