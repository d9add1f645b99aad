"""Generate values that fit the type of a parser, a JSON Schema or a regular expression.

All values are built from the choices of a ``Choices`` object: ``SeededChoices`` here, or Hypothesis (in the
module ``hypothesis_values``). The parts, from top to bottom: values for a parser, JSON values for a schema,
strings for JSON Schema formats, the choices, strings that match a pattern.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from itertools import product
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast
from uuid import UUID
from weakref import WeakKeyDictionary

from output_parsers.json_schema.document import referenced_part
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Json, dump_json, strict_equal
from output_parsers.strict import EncodedNode
from output_parsers.types.node import schema_of, walk
from output_parsers.types.records import EnvelopeNode

T = TypeVar("T")
JsonSchema: TypeAlias = Mapping[str, Json]
AnyParser: TypeAlias = TypeParser[Any]


class Choices(Protocol):
    """The interface of random sources for generated values: numbers, strings and choices.

    Ranges include both bounds; a bound of None means unbounded.
    """

    def integer(self, low: int | None, high: int | None) -> int: ...
    def number(self, low: float | None, high: float | None) -> float: ...
    def one_of(self, options: Sequence[T]) -> T: ...
    def size(self, least: int, most: int | None) -> int: ...
    def text(self, least: int, most: int | None) -> str: ...
    def matching(self, pattern: str) -> str: ...
    def reject(self) -> None:
        """Discard the choices made so far, because they led to an invalid value."""


# --- Values for a parser ---

_ATTEMPTS = 200
_ATTEMPTS_PER_FORMAT = 3


class TextFormats(NamedTuple):
    """The formats, such as "date", for generated strings whose JSON Schema has no format.

    Attributes:
        keys: The format of the keys of an object, a key of ``FORMATS``. None means any string.
        others: The format of all other strings.
        examples: The texts for strings that have no format, or one that is not in ``FORMATS``.
    """

    keys: str | None = None
    others: str | None = None
    examples: tuple[str, ...] = ()


_ANY_TEXT = TextFormats()
# A schema cannot say that the keys of dict[int, …] are numbers, or what a custom validator accepts. The right
# format is found by trial, once for each parser.
_CANDIDATE_FORMATS = (None, "integer", "date", "date-time", "time", "uuid", "uri", "email")
_FORMATS_OF_PARSERS: WeakKeyDictionary[AnyParser, TextFormats] = WeakKeyDictionary()


class ValueAndText(NamedTuple):
    """A generated value, and the reply text that a parser converts to this value.

    Attributes:
        value: The value.
        text: The reply text, in the form that the parser asks a model for.
    """

    value: object
    text: str


def value_for(parser: TypeParser[T], choices: Choices) -> T:
    """Generate a value that a parser accepts.

    Raises LookupError if no value is found.
    """
    return cast(T, value_and_text_for(parser, choices).value)


def value_and_text_for(parser: AnyParser, choices: Choices) -> ValueAndText:
    """Generate a value that a parser accepts, and the reply text that the parser converts to it.

    Raises LookupError if no value is found after many attempts.
    """
    plain = _without_encoding(parser)
    formats = _formats_for(parser, plain)
    message = ""
    for _ in range(_ATTEMPTS):
        try:
            return _attempt(parser, plain, choices, formats)
        except (OutputParsingError, ValueError) as error:
            message = str(error)
            choices.reject()
    raise LookupError(
        f"no value of {parser.name} was found in {_ATTEMPTS} attempts; the last one gave: {message}; "
        "pass a value in FakeChatModel(values={…})"
    )


def _attempt(parser: AnyParser, plain: AnyParser, choices: Choices, formats: TextFormats) -> ValueAndText:
    """Generate a value with its reply text, and check that the parser reads the value from the text.

    Raises OutputParsingError or ValueError if the parser does not accept it.
    """
    json_value = json_value_for(schema_of(plain.node), choices, formats)
    is_plain_text = plain.plain_text and isinstance(json_value, str)
    text = cast(str, json_value) if is_plain_text else dump_json(json_value)
    value = plain.parse(text)
    try:
        return ValueAndText(value, parser.write(value))
    except ValueError:  # a custom parser may read values that it cannot write
        if not strict_equal(parser.parse(text), value):
            raise
        return ValueAndText(value, text)


def _formats_for(parser: AnyParser, plain: AnyParser) -> TextFormats:
    """Return the formats, such as "date", of which a parser accepts an example string.

    The formats are determined with seeded choices, so that the result is the same for all ``Choices``.
    """
    formats = _FORMATS_OF_PARSERS.get(parser)
    if formats is None:
        examples = tuple(text for node in walk(plain.node) for text in node.examples)
        candidates = (
            TextFormats(keys, others, examples) for others, keys in product(_CANDIDATE_FORMATS, repeat=2)
        )
        accepted = (candidate for candidate in candidates if _is_accepted(parser, plain, candidate))
        formats = _FORMATS_OF_PARSERS[parser] = next(accepted, _ANY_TEXT)
    return formats


def _is_accepted(parser: AnyParser, plain: AnyParser, formats: TextFormats) -> bool:
    for seed in range(_ATTEMPTS_PER_FORMAT):
        try:
            _attempt(parser, plain, SeededChoices(str(seed)), formats)
        except (OutputParsingError, ValueError):
            continue
        return True
    return False


def _without_encoding(parser: TypeParser[T]) -> TypeParser[T]:
    """Return a type's parser without the changes for strict mode and without wrapper objects."""
    node = parser.node
    while isinstance(node, (EncodedNode, EnvelopeNode)):
        node = node.inner
    return parser if node is parser.node else TypeParser(parser.target, node)


# --- JSON values for a schema ---

_MAX_DEPTH = 3  # below this level the smallest possible value is chosen, so that recursive types end
_INFINITE = 1_000  # the height of a schema that has no finite value
_RETRIES = 20
_TYPE_OF_KEYWORD = {
    "properties": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "pattern": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
}


def json_value_for(schema: JsonSchema, choices: Choices, formats: TextFormats = _ANY_TEXT) -> Json:
    """Generate a JSON value that is valid under a JSON Schema (draft 2020-12).

    Keywords that only exclude values, such as ``not``, are ignored: parse the value to be sure that it is
    valid.
    """
    return _SchemaValues(schema, choices, formats).value(schema, 0)


class _SchemaValues:
    """Generates JSON values for a JSON Schema and the schemas nested in it."""

    def __init__(self, root: JsonSchema, choices: Choices, formats: TextFormats) -> None:
        self._root = root
        self._choices = choices
        self._formats = formats

    def value(self, schema: object, depth: int) -> Json:
        schema = self._resolve(schema)
        if not isinstance(schema, Mapping):  # the schema true accepts every value
            schema = {}
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._choices.one_of(schema["enum"])
        options = schema.get("anyOf") or schema.get("oneOf")
        if options:
            rest = _without(schema, "anyOf", "oneOf", "$defs")
            return self.value(_merge(self._choose(options, depth), rest), depth)
        if "allOf" in schema:
            whole = _without(schema, "allOf")
            for part in schema["allOf"]:
                whole = _merge(self._resolve(part), whole)
            return self.value(whole, depth)
        return self._of_type(self._type(schema, depth), schema, depth)

    def _resolve(self, schema: object) -> object:
        """Follow the ``$ref`` of a JSON Schema, if it has one, and return the schema found there."""
        while isinstance(schema, Mapping) and "$ref" in schema:
            schema = _merge(referenced_part(self._root, schema["$ref"]), _without(schema, "$ref"))
        return schema

    def _choose(self, options: list[object], depth: int) -> object:
        if depth < _MAX_DEPTH:
            return self._resolve(self._choices.one_of(options))
        return self._resolve(min(options, key=lambda option: self._height(option, ())))

    def _type(self, schema: JsonSchema, depth: int) -> str:
        implied = (name for keyword, name in _TYPE_OF_KEYWORD.items() if keyword in schema)
        declared = schema.get("type") or next(implied, None)
        if declared is None:
            return self._choices.one_of(("string", "integer", "boolean", "null"))
        return declared if isinstance(declared, str) else self._choices.one_of(declared)

    def _of_type(self, type_name: str, schema: JsonSchema, depth: int) -> Json:
        if type_name == "object":
            return self._object(schema, depth)
        if type_name == "array":
            return self._array(schema, depth)
        if type_name == "string":
            return self._string(schema)
        if type_name in ("integer", "number"):
            return self._number(schema, whole=type_name == "integer")
        return None if type_name == "null" else self._choices.one_of((True, False))

    def _object(self, schema: JsonSchema, depth: int) -> dict[str, Json]:
        required = set(schema.get("required", ()))
        members = {
            key: self.value(member, depth + 1)
            for key, member in schema.get("properties", {}).items()
            if key in required or (depth < _MAX_DEPTH and self._choices.one_of((True, False)))
        }
        others = schema.get("additionalProperties", not members)
        # Without "properties" the object is a mapping: by default its values may be anything.
        least = schema.get("minProperties", 0) - len(members)
        if others is False or ("properties" in schema and least <= 0):
            return members
        size = len(members) + self._size(max(least, 0), schema.get("maxProperties"), depth)
        for _ in range(size + _RETRIES):  # the same key may be chosen twice
            if len(members) == size:
                break
            members[self._key(schema)] = self.value(others, depth + 1)
        self._reject_if_too_few(len(members), schema.get("minProperties", 0))
        return members

    def _key(self, schema: JsonSchema) -> str:
        names = schema.get("propertyNames")
        if names:
            return str(self.value({"type": "string", **names}, _MAX_DEPTH))
        key_format = self._formats.keys
        return self._choices.text(1, 12) if key_format is None else FORMATS[key_format](self._choices)

    def _array(self, schema: JsonSchema, depth: int) -> list[Json]:
        first = schema.get("prefixItems", [])
        items = [self.value(item, depth + 1) for item in first]
        rest = schema.get("items", not first)
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if rest is False or (first and least <= len(first) and most in (None, len(first))):
            return items
        size = self._size(max(least - len(items), 0), None if most is None else most - len(items), depth)
        retries = size + _RETRIES if schema.get("uniqueItems") else size
        seen: set[str] = set()
        while size > 0 and retries > 0:
            item, retries = self.value(rest, depth + 1), retries - 1
            # Items may be unhashable: uniqueness is decided by their JSON text.
            text = json.dumps(item, sort_keys=True, default=str)
            if not (schema.get("uniqueItems") and text in seen):
                seen.add(text)
                items.append(item)
                size -= 1
        self._reject_if_too_few(len(items), least)
        return items

    def _reject_if_too_few(self, count: int, least: int) -> None:
        if count < least:
            self._choices.reject()

    def _size(self, least: int, most: int | None, depth: int) -> int:
        return least if depth >= _MAX_DEPTH else self._choices.size(least, most)

    def _string(self, schema: JsonSchema) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if "pattern" in schema:
            text = ""
            for _ in range(_RETRIES):
                text = self._choices.matching(schema["pattern"])
                if least <= len(text) <= (len(text) if most is None else most):
                    return text
            self._choices.reject()
            return text
        make = FORMATS.get(schema.get("format", self._formats.others))
        if make is None and self._formats.examples:
            return self._choices.one_of(self._formats.examples)
        return self._choices.text(least, most) if make is None else make(self._choices)

    def _number(self, schema: JsonSchema, *, whole: bool) -> int | float | Decimal:
        low, high = _bounds(schema)
        step = schema.get("multipleOf")
        if step is not None:
            # Decimal arithmetic: with floats, 3 * 0.1 would not be a multiple of 0.1.
            factor = Decimal(str(step))
            least = None if low is None else math.ceil(Decimal(str(low)) / factor)
            most = None if high is None else math.floor(Decimal(str(high)) / factor)
            multiple = factor * self._choices.integer(least, most)
            return int(multiple) if whole or multiple == int(multiple) else multiple
        if whole:
            return self._choices.integer(
                None if low is None else math.ceil(low), None if high is None else math.floor(high)
            )
        return self._choices.number(low, high)

    def _height(self, schema: object, enclosing: tuple[int, ...]) -> int:
        """Return the nesting depth of the smallest value that a JSON Schema allows.

        ``enclosing`` identifies the schemas around this one; one that contains itself has no finite value.
        """
        schema = self._resolve(schema)
        if not isinstance(schema, Mapping):
            return 0
        # Resolving a reference makes a new dict, so that the id of an inner part identifies the schema.
        key = id(schema.get("properties") or schema.get("anyOf") or schema.get("items") or schema)
        if key in enclosing or len(enclosing) > 40:
            return _INFINITE
        inside = (*enclosing, key)
        options = schema.get("anyOf") or schema.get("oneOf")
        if options:
            return min(self._height(option, inside) for option in options)
        properties = schema.get("properties", {})
        parts = [properties[name] for name in schema.get("required", ()) if name in properties]
        parts += schema.get("prefixItems", [])
        if schema.get("minItems", 0) and "items" in schema:
            parts.append(schema["items"])
        return 1 + max((self._height(part, inside) for part in parts), default=0)


def _without(schema: JsonSchema, *keywords: str) -> dict[str, object]:
    return {keyword: value for keyword, value in schema.items() if keyword not in keywords}


def _merge(one: object, other: JsonSchema) -> Json:
    """Combine the keywords and properties of two JSON Schemas into one schema."""
    if not isinstance(one, Mapping):
        return other or one
    merged = {**other, **one}
    if "properties" in one and "properties" in other:
        merged["properties"] = {**other["properties"], **one["properties"]}
        merged["required"] = [*other.get("required", ()), *one.get("required", ())]
    return merged


def _bounds(schema: JsonSchema) -> tuple[Any, Any]:
    """Return the smallest and largest number that a JSON Schema allows; None means no limit."""
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


# --- Texts for the formats of JSON Schema ---

_DAYS = (date(1970, 1, 1).toordinal(), date(2069, 12, 31).toordinal())
_SECONDS_PER_DAY = 24 * 60 * 60
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _date(choices: Choices) -> date:
    return date.fromordinal(choices.integer(*_DAYS))


def _time(choices: Choices) -> time:
    return (datetime.min + timedelta(seconds=choices.integer(0, _SECONDS_PER_DAY - 1))).time()


def _duration(choices: Choices) -> str:
    minutes = choices.integer(0, 7 * 24 * 60)
    return f"P{minutes // 1440}DT{minutes % 1440 // 60}H{minutes % 60}M"


def _name(choices: Choices) -> str:
    return "".join(choices.one_of(_LETTERS) for _ in range(choices.integer(3, 8)))


# The keys are values of the keyword ``format``, of which some are formats that only our own parsers write.
FORMATS: dict[str | None, Callable[[Choices], str]] = {
    "date": lambda choices: _date(choices).isoformat(),
    "time": lambda choices: _time(choices).isoformat(),
    "date-time": lambda choices: datetime.combine(_date(choices), _time(choices)).isoformat(),
    "duration": _duration,
    "uuid": lambda choices: str(UUID(int=choices.integer(0, 2**128 - 1), version=4)),
    "email": lambda choices: f"{_name(choices)}@example.com",
    "name-email": lambda choices: f"{_name(choices)}@example.com",
    "hostname": lambda choices: f"{_name(choices)}.example.com",
    "uri": lambda choices: f"https://example.com/{_name(choices)}",
    "ipv4": lambda choices: str(IPv4Address(choices.integer(0, 2**32 - 1))),
    "ipv6": lambda choices: str(IPv6Address(choices.integer(0, 2**128 - 1))),
    "path": lambda choices: f"{_name(choices)}/{_name(choices)}",
    "file-path": lambda choices: f"{_name(choices)}/{_name(choices)}",
    "directory-path": _name,
    "integer": lambda choices: str(choices.integer(0, 1_000)),
    "json-string": lambda choices: str(choices.integer(0, 100)),
}


# --- The choices ---

_WORDS = """amber basil cedar delta ember fjord grove haven inlet jasmine kernel lemon meadow nectar orchid
pebble quartz river saffron timber umbra velvet willow yarrow zephyr""".split()


class SeededChoices:
    """A random source with a seed, which gives small values that are the same in every process."""

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
        number = self._random.uniform(low, high)
        # Two digits read well in tests, unless the range is narrower than that.
        rounded = round(number, 2)
        return rounded if low <= rounded <= high else number

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
        text = " ".join(words)
        return text if most is None or len(text) <= most else text[:most].replace(" ", "-")

    def matching(self, pattern: str) -> str:
        return text_matching(pattern, self._random)

    def reject(self) -> None:
        """Do nothing after an invalid generated value, because the next random choices differ anyway."""


# --- Texts for a pattern ---

_EXTRA_REPETITIONS = 3
_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_- "
_CHARACTERS_OF_CATEGORY = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_WORD": "abcdefghijklmnopqrstuvwxyz0123456789_",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": "abcdefghijklmnopqrstuvwxyz -",
    "CATEGORY_NOT_WORD": " -.,",
    "CATEGORY_NOT_SPACE": "abcdefghijklmnopqrstuvwxyz0123456789",
}


def text_matching(pattern: str, rng: random.Random) -> str:
    """Generate a short string that is likely to match a regular expression.

    Lookarounds and conditional groups are ignored, so the caller must check the string. Raises re.error for
    an invalid pattern.
    """
    # re has no public syntax tree. Hypothesis reads this private one, too.
    tree = re._parser.parse(pattern)  # type: ignore[attr-defined]  # private, absent from the stubs
    return _PatternWriter(rng).text(tree)


class _PatternWriter:
    """Generates a string that matches a parsed regular expression."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._groups: dict[int, str] = {}
        self._writers: dict[str, Callable[[Any], str]] = {
            "LITERAL": chr,
            "NOT_LITERAL": lambda code: self._other_than({chr(code)}),
            "ANY": lambda _: self._rng.choice(_CHARACTERS),
            "IN": self._character_in,
            "MAX_REPEAT": self._repetition,
            "MIN_REPEAT": self._repetition,
            "POSSESSIVE_REPEAT": self._repetition,
            "SUBPATTERN": self._group,
            "ATOMIC_GROUP": self.text,
            "BRANCH": lambda operand: self.text(self._rng.choice(operand[1])),
            "GROUPREF": lambda number: self._groups.get(number, ""),
        }

    def text(self, tree: Iterable[tuple[object, object]]) -> str:
        return "".join(self._item(str(opcode), operand) for opcode, operand in tree)

    def _item(self, opcode: str, operand: object) -> str:
        write = self._writers.get(opcode)
        return "" if write is None else write(operand)  # anchors and lookarounds add no characters

    def _repetition(self, operand: Any) -> str:
        least, most, inner = operand
        times = self._rng.randint(int(least), min(int(most), int(least) + _EXTRA_REPETITIONS))
        return "".join(self.text(inner) for _ in range(times))

    def _group(self, operand: Any) -> str:
        number, *_, inner = operand
        text = self.text(inner)
        if number is not None:
            self._groups[number] = text
        return text

    def _character_in(self, operand: Any) -> str:
        members = [(str(opcode), inner) for opcode, inner in operand]
        if members[0][0] == "NEGATE":
            excluded = {letter for opcode, inner in members[1:] for letter in self._characters(opcode, inner)}
            return self._other_than(excluded)
        return self._rng.choice(self._characters(*self._rng.choice(members)))

    def _characters(self, opcode: str, operand: Any) -> str:
        if opcode == "LITERAL":
            return chr(operand)
        if opcode == "RANGE":
            low, high = operand
            # A range may span all of Unicode; its first characters are enough.
            return "".join(map(chr, range(low, min(high, low + 200) + 1)))
        return _CHARACTERS_OF_CATEGORY.get(str(operand), _CHARACTERS)

    def _other_than(self, excluded: set[str]) -> str:
        return self._rng.choice([letter for letter in _CHARACTERS if letter not in excluded] or ["é"])
