"""Parsers for types that are written as one JSON scalar, such as text, numbers and dates.

This module also reads bytes, UUIDs, paths and None, and has ``AnyNode``, which reads any JSON.
"""

from __future__ import annotations

import math
import re
import sys
from abc import abstractmethod
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import hexlify, unhexlify
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path, PurePath
from types import NoneType
from typing import Any, NamedTuple, NoReturn, Self, TypeAlias, TypeVar
from uuid import UUID

from pydantic import JsonValue
from pydantic_core import SchemaValidator, to_json, to_jsonable_python

from ..lazy_regex import lazy_regex
from ..prose import TextParseError, TextReading, strip_wrapping
from ..prose.decimal_signs import DecimalSigns
from ..prose.fillers import find_filler, is_placeholder
from ..prose.harmless import find_unknown_word
from ..prose.numbers import (
    UNCLEAR_GROUP,
    NumberRules,
    NumberStyle,
    find_number,
    read_number,
    unit_kind,
    without_scale,
)
from ..prose.roles import read_explained
from ..prose.times import DateOrder, read_date, read_datetime, read_time, read_timedelta
from ..result.reading import (
    NON_FINITE_RULE,
    NON_FINITE_SCHEMA,
    Cursor,
    Json,
    Leniency,
    UnitCoercion,
    dump_json,
    expected_message,
    is_non_finite,
    non_finite_name,
    parse_non_finite,
)
from .node import ArrayParts, CoreSchema, Definitions, JsonSchema, Node, ObjectParts, with_description
from .target import Target
from .validation import OWN_FUNCTION

T = TypeVar("T")


@lru_cache(maxsize=16)
def _validator_of(kind: str) -> SchemaValidator:
    schema: Any = {"type": kind, "strict": True}
    return SchemaValidator(schema)


def _is_exact_text(kind: str, data: Json) -> bool:
    """Return True if pydantic itself reads a JSON string as a value of one of its types, such as ``uuid``."""
    if not isinstance(data, str):
        return False
    try:
        _validator_of(kind).validate_json(dump_json(data))
    except ValueError:
        return False
    return True


class StringNode(Node[T]):
    """Reads a value that is written as a JSON string, such as bytes, a UUID or a path."""

    prose = True
    json_types = frozenset((str,))
    storage_kind = "text"

    def __init__(
        self,
        kind: str,
        hint: str,
        read: Callable[[str], T],
        schema: JsonSchema,
        find: Callable[[str], str] = str,
    ) -> None:
        self.kind = kind
        self._hint = hint
        self._read = read
        self._find = find  # finds the text of the value in a reply without JSON
        self._schema = schema
        self.any_text = "uuid" not in schema.values()  # nearly every text is a path or bytes

    def schema(self, definitions: Definitions) -> JsonSchema:
        return dict(self._schema)

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return self._hint

    def read(self, data: Json, cursor: Cursor) -> T:
        if not isinstance(data, str):
            raise cursor.failure(f"expected {self.kind}", data)
        try:
            return self._read(data)
        except ValueError as error:
            raise cursor.failure(f"expected {self.kind}", data) from error

    def convert_json(self, data: Json, cursor: Cursor) -> Json:
        kind = "str" if self.any_text else "uuid"
        return data if _is_exact_text(kind, data) else super().convert_json(data, cursor)

    def read_text(self, text: str, cursor: Cursor) -> T:
        try:
            content = self._find(text.strip())
        except ValueError as error:
            raise cursor.failure(expected_message(self.kind, error), text) from error
        if content != text.strip():
            cursor.record("text around the value left out", text, content)
        return self.read(content, cursor)


class BytesEncoding(NamedTuple):
    """The JSON form of a field of bytes, from the setting ``val_json_bytes`` of its class.

    Attributes:
        name: ``base64`` or ``hex``.
    """

    name: str


class EncodedBytesNode(StringNode[bytes]):
    """Reads bytes that are written as text in base64 or in hexadecimal digits."""

    def __init__(self, encoding: str) -> None:
        self._encode = urlsafe_b64encode if encoding == "base64" else hexlify
        decode = urlsafe_b64decode if encoding == "base64" else unhexlify
        schema = {"type": "string", "description": encoding}
        super().__init__(f"bytes as {encoding}", f"string ({encoding})", decode, schema)

    def write(self, value: object) -> Json:
        if not isinstance(value, bytes):
            raise ValueError(f"expected {self.kind}, found {value!r}")
        return self._encode(value).decode()


_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"


def _read_uuid(text: str) -> UUID:
    """Read a UUID with hyphens, such as ``123e4567-e89b-12d3-a456-426614174000``.

    It may be in braces. ``UUID()`` would also accept a ``urn:`` and missing hyphens.
    """
    if not re.fullmatch(rf"{_UUID}|\{{{_UUID}\}}", text):
        raise ValueError("not a UUID")
    return UUID(text)


def _find_uuid(text: str) -> str:
    """Return the only UUID in a sentence, or the text itself if it contains none."""
    uuids = {match.lower() for match in re.findall(_UUID, text)}
    if not uuids or re.fullmatch(rf"\{{?{_UUID}\}}?", text):
        return text
    if len(uuids) > 1:
        raise ValueError("several UUIDs")
    unknown = find_unknown_word(re.sub(_UUID, " ", text), ("id", "uuid", "guid", "identifier"))
    if unknown:
        raise ValueError(f'"{unknown[:40]}" in the text may change the value')
    return str(uuids.pop())


def _find_path(text: str) -> str:
    """Return a path in a reply, without the quotes around it.

    Raises ValueError for a sentence, which pathlib would accept.
    """
    path = strip_wrapping(text)[0] if text[:1] in "`\"'" else text
    if " " in path and (re.search(r"[.!?]\Z|\s[/\\~]", path) or not re.search(r"[/\\]|\.\w{1,5}\Z", path)):
        raise ValueError("a sentence is not a path")
    return path


def _read_path(cls: type[PurePath]) -> Callable[[str], PurePath]:
    def read(text: str) -> PurePath:
        if not text or "\n" in text or "\0" in text:  # pathlib accepts prose of several lines as a path
            raise ValueError("not a path")
        return cls(text)

    return read


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("text that cannot be encoded") from error


_MOST_DIGITS = 4300  # Python refuses to convert longer integers from and to text
_MOST_BITS = int(_MOST_DIGITS / math.log10(2))


class TextNode(Node[str]):
    """Reads a str from a whole reply or from a JSON string."""

    prose = True
    any_text = True

    kind = "text"
    identity_type = str
    exact = True
    json_types = frozenset((str,))
    partial_text = True
    core_type = "str"
    storage_kind = "text"

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {"type": "string"}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return "string"

    def read(self, data: Json, cursor: Cursor) -> str:
        if isinstance(data, str):
            return data
        if isinstance(data, (int, Decimal)) and not isinstance(data, bool) and not is_non_finite(data):
            if isinstance(data, Decimal) and data.as_tuple().exponent >= 0:  # type: ignore[operator]  # it is finite
                raise cursor.failure("expected text; the digits of a number with an exponent are lost", data)
            # a model may write an identifier or a house number as a number
            cursor.record("number as text", data, str(data))
            return str(data)
        raise cursor.failure("expected text", data)

    def read_text(self, text: str, cursor: Cursor) -> str:
        return text


_NumberReader: TypeAlias = Callable[[str, NumberRules], TextReading[Decimal]]


def _find_explained_number(text: str, rules: NumberRules) -> TextReading[Decimal]:
    return read_explained(text, lambda part: find_number(part, rules))


class NumberNode(Node[T]):
    """Reads a number from a JSON number, or from text that contains exactly one number.

    Attributes:
        json_type: The type in the JSON Schema.
    """

    prose = True
    json_types: frozenset[type] | None = frozenset((int, Decimal))
    json_type = "number"
    rules = NumberRules()

    def with_rules(self, style: NumberStyle | None) -> Self:
        """Set the decimal point of numbers in text, and return the node."""
        self.rules = self.rules._replace(style=style, is_count=self.json_type == "integer")
        return self

    def schema(self, definitions: Definitions) -> JsonSchema:
        style = self.rules.style
        schema: JsonSchema = {"type": self.json_type}
        return schema if style is None else with_description(schema, f"In text with a {style.value}")

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return self.json_type

    @abstractmethod
    def convert(self, number: int | Decimal, cursor: Cursor) -> T:
        """Convert an exact number to a number type such as int or Decimal.

        Raises ValidationFailure if the type cannot hold it.
        """

    def read(self, data: Json, cursor: Cursor) -> T:
        if isinstance(data, (int, Decimal)) and not isinstance(data, bool) and not is_non_finite(data):
            if isinstance(data, Decimal):  # a JSON number such as 1.000 is ambiguous, too
                self.check_text(data, str(data), cursor)
            return self.convert(data, cursor)
        if isinstance(data, str):
            return self._read_number(data, read_number, cursor)
        raise cursor.failure(f"expected {self.kind}", data)

    def read_text(self, text: str, cursor: Cursor) -> T:
        return self._read_number(text, _find_explained_number, cursor)

    def check_text(self, number: Decimal, text: str, cursor: Cursor) -> None:
        """Raise ValidationFailure if the text of a number is ambiguous, such as 1.000."""

    def _read_number(self, text: str, reader: _NumberReader, cursor: Cursor) -> T:
        words = frozenset(re.findall(r"[^\W_]+|%", cursor.declaration.casefold()))
        rules = self.rules._replace(words=words)
        if rules.style is None and UNCLEAR_GROUP.search(text):
            rules = rules._replace(usual_style=(cursor.signs or DecimalSigns(text)).find(text))
        try:
            data = reader(without_scale(text, self.rules.highest), rules)
        except TextParseError as error:
            raise cursor.failure(expected_message(self.kind, error), text) from error
        if self.rules.style is None:
            self.check_text(data.value, text, cursor)
        value = self.convert(data.value, cursor)
        cursor.record(data.rule or "number as text", text, value)
        if data.unit is not None:
            cursor.note_unit(data.unit)
        return value


def refuse_mixed_units(
    cursor: Cursor, before: int, items: Sequence[object] = (), *, is_table: bool = False
) -> None:
    """Raise ValidationFailure if the numbers of a value have different units.

    ``before`` is the number of coercions before the value was read. ``items`` are those of a list, which
    must all have the same unit, or the values of a table, which may be of several kinds. Elsewhere only units
    of the same kind are compared, such as km and miles.
    """
    units = [one.unit for one in cursor.coercions[before:] if isinstance(one, UnitCoercion)]
    by_kind: dict[str, str] = {}
    for unit in units:
        first = by_kind.setdefault(unit_kind(unit), unit)
        if first != unit:
            raise cursor.failure(f"some numbers are in {first} and others in {unit}", list(items) or units)
    numbers = [item for item in items if isinstance(item, (int, float, Decimal, Fraction))]
    if is_table and len(by_kind) > 1:
        return
    if numbers and units and (len(by_kind) > 1 or len(numbers) != len(units)):
        raise cursor.failure(f"only some of the numbers are in {units[0]}", list(items))


def refuse_fillers(items: Sequence[Any], cursor: Cursor) -> None:
    """Raise ValidationFailure for a list of texts with an item such as ``...`` or ``<capital>``.

    With Leniency.NONE the texts are data of a program, where these are values.
    """
    filler = None if cursor.leniency is Leniency.NONE else find_filler(items)
    if filler is not None:
        raise cursor.failure("an item is not a value; write all items and nothing else", filler)


def refuse_placeholders(texts: Mapping[Any, Any], cursor: Cursor) -> None:
    """Raise ValidationFailure for an object with a text such as ``<capital>``, as refuse_fillers does."""
    if cursor.leniency is Leniency.NONE:
        return
    for key, text in texts.items():
        if is_placeholder(text, str(key)):
            raise cursor.child(str(key)).failure("expected a value, not a placeholder", text)


class IntNode(NumberNode[int]):
    """Reads an int, and rejects numbers with a fraction.

    With Leniency.ALL the fraction is cut off instead.
    """

    kind = "an integer"
    json_type = "integer"
    identity_type = int
    exact = True
    json_types = frozenset((int,))
    core_type = storage_kind = "int"

    def check_text(self, number: Decimal, text: str, cursor: Cursor) -> None:
        # 1.000 is a thousand in many languages
        if number.as_tuple().exponent == -3 and number == int(number):
            raise cursor.failure("expected an integer; this may be thousands or a fraction", text)

    def convert(self, number: int | Decimal, cursor: Cursor) -> int:
        if isinstance(number, int):
            if number.bit_length() > _MOST_BITS:
                raise cursor.failure("expected an integer of a sensible size", number)
            return number
        # 1e400 is infinity for most readers of JSON, and the integer of 1e1000000000 would fill the memory
        if not number.is_finite() or number.adjusted() > sys.float_info.max_10_exp:
            raise cursor.failure("expected an integer of a sensible size", number)
        whole = int(number)
        if whole != number:
            if cursor.leniency is not Leniency.ALL:
                raise cursor.failure("expected an integer", number)
            cursor.record("fraction cut off", number, whole, guess=True)
        elif number.as_tuple().exponent != 0:
            cursor.record("whole number written with a fraction", number, whole)
        return whole


class FloatNode(NumberNode[float]):
    """Reads a float from a number in JSON or in text.

    Attributes:
        finite: NaN and infinities are errors. Otherwise they are written as strings, because JSON cannot
            express them.
    """

    kind = "a number"
    exact = True
    finite = True
    core_type = storage_kind = "float"

    @property
    def json_types(self) -> frozenset[type] | None:  # type: ignore[override]  # a property in place of an attribute
        return NumberNode.json_types if self.finite else None

    def schema(self, definitions: Definitions) -> JsonSchema:
        number = super().schema(definitions)
        return number if self.finite else {"anyOf": [number, dict(NON_FINITE_SCHEMA)]}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return "number" if self.finite else 'number | "NaN" | "Infinity" | "-Infinity"'

    def read(self, data: Json, cursor: Cursor) -> float:
        if not self.finite and is_non_finite(data):
            return float(data)
        number = parse_non_finite(data) if isinstance(data, str) and not self.finite else None
        if number is None:
            return super().read(data, cursor)
        value = float(number)
        if data != non_finite_name(value):
            cursor.record("another name of NaN or Infinity", data, value)
        return value

    def read_text(self, text: str, cursor: Cursor) -> float:
        number = None if self.finite else parse_non_finite(text.strip())
        if number is None:
            return super().read_text(text, cursor)
        cursor.record(NON_FINITE_RULE, text, number)
        return float(number)

    def write(self, value: object) -> Json:
        name = non_finite_name(value) if isinstance(value, float) and not self.finite else None
        return super().write(value) if name is None else name

    def convert_json(self, data: Json, cursor: Cursor) -> Json:
        return data if type(data) is int else self.read(data, cursor)

    def convert(self, number: int | Decimal, cursor: Cursor) -> float:
        if is_non_finite(number):
            raise cursor.failure("expected a finite number", number)
        # float() raises OverflowError for a large int, but returns infinity for a large Decimal
        try:
            value = float(number)
        except OverflowError:
            value = math.inf
        if math.isinf(value):
            raise cursor.failure("expected a number that a float can hold", number)
        return value


class DecimalNode(NumberNode[Decimal]):
    """Reads a Decimal, keeping every digit that the model wrote."""

    kind = "a decimal number"
    storage_kind = "decimal"

    def convert(self, number: int | Decimal, cursor: Cursor) -> Decimal:
        return Decimal(number)

    def convert_json(self, data: Json, cursor: Cursor) -> Json:
        if self.rules.style is None and _is_exact_text("decimal", data):
            return data
        value = super().convert_json(data, cursor)
        return str(value) if isinstance(value, Decimal) else value  # pydantic rounds JSON numbers


class FractionNode(NumberNode[Fraction]):
    """Reads a Fraction, written as the string ``"numerator/denominator"``."""

    kind = "a fraction"
    json_type = "string"
    json_types = frozenset((str, int, Decimal))
    storage_kind = "text"
    examples = ("1/2", "3/4", "22/7", "5")
    # The digits are limited because int() takes quadratic time.
    _RATIO = re.compile(r"\s*([+-]?\d{1,2000})(?:\s*/\s*(\d{1,2000}))?\s*")

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return '"numerator/denominator"'

    def read(self, data: Json, cursor: Cursor) -> Fraction:
        ratio = self._RATIO.fullmatch(data) if isinstance(data, str) else None
        if ratio is None:
            return super().read(data, cursor)
        denominator = int(ratio[2] or 1)
        if denominator == 0:
            raise cursor.failure("expected a fraction; its denominator is 0", data)
        return Fraction(int(ratio[1]), denominator)

    def read_text(self, text: str, cursor: Cursor) -> Fraction:
        return self.read(text, cursor) if self._RATIO.fullmatch(text) else super().read_text(text, cursor)

    def convert(self, number: int | Decimal, cursor: Cursor) -> Fraction:
        # 1e1000000000 is a short text whose numerator would fill the memory
        if isinstance(number, Decimal) and abs(number.adjusted()) > _MOST_DIGITS:
            raise cursor.failure("expected a fraction of a sensible size", number)
        return Fraction(number)

    def convert_json(self, data: Json, cursor: Cursor) -> Json:
        return data if isinstance(data, str) and self._RATIO.fullmatch(data) else str(self.read(data, cursor))


class NoneNode(Node[None]):
    """Reads None from the JSON value null."""

    prose = True
    kind = "null"
    identity_type = NoneType
    exact = True
    json_types = frozenset((NoneType,))
    core_type = "none"
    storage_kind = "null"

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {"type": "null"}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return "null"

    def read(self, data: Json, cursor: Cursor) -> None:
        if data is None:
            return
        if not isinstance(data, str) or data.strip().casefold() not in ("null", "none", "nil", "n/a"):
            raise cursor.failure("expected null", data)
        cursor.record("null as text", data, None)

    def read_text(self, text: str, cursor: Cursor) -> None:
        self.read(text, cursor)


class AnyNode(Node[object]):
    """Reads any JSON value; numbers become int or float."""

    kind = "JSON"
    exact = True
    partial_text = True
    core_type = "any"

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return "any JSON"

    def read(self, data: Json, cursor: Cursor) -> object:
        if isinstance(data, dict):
            return {
                key: value if type(value) in _NEEDS_NO_READING else self.read(value, cursor.child(key))
                for key, value in data.items()
            }
        if isinstance(data, list):
            return [
                value if type(value) in _NEEDS_NO_READING else self.read(value, cursor.child(index))
                for index, value in enumerate(data)
            ]
        if isinstance(data, Decimal):
            return FloatNode().convert(data, cursor)
        return data

    def convert_json(self, data: Json, cursor: Cursor) -> Json:
        return self.read(data, cursor)

    def read_text(self, text: str, cursor: Cursor) -> object:
        raise cursor.failure("expected JSON", text)

    def array_parts(self) -> ArrayParts:
        return ArrayParts((), self, lambda items, cursor: items)

    def object_parts(self) -> ObjectParts:
        return ObjectParts(self, lambda key, cursor: key, lambda values: values)

    def fixed_keys(self) -> int | None:
        return None

    def count_keys(self, value: object) -> int:
        if type(value) not in _COUNTED:
            return 0
        if type(value) is dict and _COUNTED.isdisjoint(map(type, value.values())):
            return len(value)
        try:  # pydantic-core writes JSON faster than Python walks through it
            text = to_json(value, inf_nan_mode="constants")
        except ValueError:
            text = b"\\"
        for sign in _NOT_COUNTED:  # not any(…): this runs for each value
            if sign in text:
                break
        else:
            return text.count(b'":')
        return _count_keys(value)


def _count_keys(value: object) -> int:
    """Return how many keys the objects in a value have; raise ValueError for a number that is not finite."""
    keys, waiting = 0, [value]
    for part in waiting:  # grows while its items are read
        if type(part) is dict:
            keys += len(part)
            waiting.extend([item for item in part.values() if type(item) in _COUNTED])
        elif type(part) is float:
            if not math.isfinite(part):  # pydantic-core reads 1e400 as infinity
                raise ValueError("a number that is not finite")
        elif isinstance(part, (list, tuple)):
            waiting.extend([item for item in part if type(item) in _COUNTED])
    return keys


# A backslash may hide a quote, Infinity and NaN may be numbers, and a text may begin with a colon.
_NOT_COUNTED = (b"\\", b"Inf", b"NaN", b'{":', b'[":', b',":', b':":')
_COUNTED = frozenset((dict, list, tuple, float))
_NEEDS_NO_READING = frozenset((str, int, bool, type(None)))


_DATE_PATTERN = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DIGITS = lazy_regex(r"[-+]?[\d.]+")
# How times may be written in addition to their exact formats. Other texts with a date or time are not read as
# one if they may also be text (``date | str``).
_NEARLY_EXACT = {"time": r"[0-9]{1,2}:[0-9:.,Z+ \-]+", "date-time": rf"{_DATE_PATTERN}[T ][0-9:.,Z+ \-]+"}


def text_or_formats_schema(formats: list[object], kinds: Iterable[str]) -> CoreSchema:
    """Return the pydantic-core schema of a union of text and other types that are written as text.

    ``formats`` are the schemas of the other types, such as dates and enums, which come first. ``kinds`` are
    the formats of dates and times among them. Validating raises LookupError for texts that only the nodes
    read.
    """
    others = formats[0] if len(formats) == 1 else {"type": "union", "choices": formats}
    patterns = "|".join(_NEARLY_EXACT[kind] for kind in kinds if kind in _NEARLY_EXACT)
    text = {"type": "str", "strict": True}
    nearly = {"type": "function-after", "function": {"type": "no-info", "function": _leave_to_nodes}}
    inexact = [{**nearly, "schema": {**text, "pattern": f"^(?:{patterns})$"}}] if patterns else []
    return {"type": "union", "mode": "left_to_right", "choices": [others, *inexact, text]}


def _leave_to_nodes(text: str) -> NoReturn:
    raise LookupError(text)


class TemporalNode(Node[T]):
    """Reads a date, time, datetime or timedelta, written in ISO 8601 or in words."""

    prose = True
    json_types = frozenset((str,))

    @property
    def brackets(self) -> str:
        return "{"  # its parts

    def __init__(self, kind: str, hint: str, format: str, reader: Callable[[str], TextReading[T]]) -> None:
        self.kind = kind
        self._hint = hint
        self.format = self.storage_kind = format
        self.exact = format in EXACT_FORMATS
        self._reader = reader

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {"type": "string", "format": self.format}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return self._hint

    def read(self, data: Json, cursor: Cursor) -> T:
        if isinstance(data, dict):
            return self._read_parts(data, cursor)
        if not isinstance(data, str):
            raise cursor.failure(f"expected {self.kind}", data)
        exact = EXACT_FORMATS.get(self.format)
        if exact is not None and exact.regex.fullmatch(data):
            try:
                value: T = exact.parse(data)
                return value
            except ValueError:  # the reader below explains what is wrong
                pass
        before = len(cursor.coercions)
        read = self._read_with(self._reader, data, cursor)
        pattern = _NEARLY_EXACT.get(self.format, "")
        if exact is not None and len(cursor.coercions) == before and not re.fullmatch(pattern, data):
            cursor.record("text around the value left out", data, read)
        return read

    def _read_with(self, reader: Callable[[str], TextReading[T]], text: str, cursor: Cursor) -> T:
        try:
            reading = reader(text)
        except TextParseError as error:
            raise cursor.failure(expected_message(self.kind, error), text) from error
        if reading.rule is not None:
            cursor.record(reading.rule, text, reading.value)
        return reading.value

    def convert_json(self, data: Json, cursor: Cursor) -> Json:
        # pydantic also takes digits alone, for the seconds since 1970
        kind = self.format.replace("-", "").replace("duration", "timedelta")
        is_date = kind == "datetime" and ":" not in str(data)  # pydantic would add midnight
        if not is_date and not _DIGITS.fullmatch(str(data)) and _is_exact_text(kind, data):
            return data
        return to_jsonable_python(self.read(data, cursor))

    def read_text(self, text: str, cursor: Cursor) -> T:
        exact = EXACT_FORMATS.get(self.format)
        if exact is not None and exact.regex.fullmatch(text):
            return self.read(text, cursor)
        return self._read_with(partial(read_explained, read=self._reader), text, cursor)

    def core_schema(self) -> CoreSchema:
        return EXACT_FORMATS[self.format].core_schema()

    def write(self, value: object) -> Json:
        if not isinstance(value, timedelta):
            return super().write(value)
        length = abs(value)  # pydantic would write years, which have no fixed length
        seconds = length.seconds + Decimal(length.microseconds) / 1_000_000
        return f"{'-' if value != length else ''}P{length.days}DT{seconds:f}S"

    def _read_parts(self, data: dict[str, Json], cursor: Cursor) -> T:
        """Read a date or time from an object such as ``{"year": 1968, "month": 7, "day": 4}``."""
        names = _PARTS.get(self.format)
        # A date needs all its parts, and a time only the hour and the minute.
        required = names[:3] if names and names[0] == "year" else ("hour", "minute")
        whole = all(isinstance(v, int) and not isinstance(v, (bool, Decimal)) for v in data.values())
        if names is None or not whole or not set(required) <= set(data) <= set(names):
            raise cursor.failure(f"expected {self.kind}", data)
        parts = [f"{data.get(name, 0):0{4 if name == 'year' else 2}d}" for name in names]
        text = "T".join(filter(None, ("-".join(parts[:-3]), ":".join(parts[-3:]))))
        if self.format == "date":
            text = "-".join(parts)
        try:
            value = self._reader(text).value
        except TextParseError as error:
            raise cursor.failure(expected_message(self.kind, error), data) from error
        cursor.record("assembled from its parts", data, value)
        return value


class ExactFormat(NamedTuple):
    """A date or time format: a regular expression that recognizes it, and a function that parses it.

    Attributes:
        pattern: The regular expression of the format, which both Python and pydantic-core understand.
        regex: The same, compiled.
        parse: Converts text to a value. Raises ValueError for impossible values, such as February 30.
    """

    pattern: str
    regex: re.Pattern[str]
    parse: Callable[[str], Any]

    @staticmethod
    def of(pattern: str, parse: Callable[[str], Any]) -> ExactFormat:
        """Create a date or time format from a regular expression and a function that parses its matches."""
        return ExactFormat(pattern, lazy_regex(pattern), parse)

    def core_schema(self) -> CoreSchema:
        """Return the pydantic-core schema of this format.

        pydantic's own schemas also accept other formats and numbers, and have another class for time zones.
        """
        text = {"type": "str", "pattern": f"^(?:{self.pattern})$", "strict": True}
        parse = {"type": "no-info", "function": self.parse}
        return {"type": "function-after", "function": parse, "schema": text, "metadata": OWN_FUNCTION}


# not 24:00:00, which fromisoformat accepts in some versions of Python
_TIME_PATTERN = r"(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2})?"
EXACT_FORMATS: dict[str, ExactFormat] = {
    "date": ExactFormat.of(_DATE_PATTERN, date.fromisoformat),
    "time": ExactFormat.of(_TIME_PATTERN, time.fromisoformat),
    "date-time": ExactFormat.of(f"{_DATE_PATTERN}T{_TIME_PATTERN}", datetime.fromisoformat),
}
_PARTS: dict[str, tuple[str, ...]] = {
    "date": ("year", "month", "day"),
    "time": ("hour", "minute", "second"),
    "date-time": ("year", "month", "day", "hour", "minute", "second"),
}


def _bytes_node(target: Target) -> Node[bytes]:
    encoding = next((item.name for item in target.metadata if isinstance(item, BytesEncoding)), None)
    if encoding is not None:
        return EncodedBytesNode(encoding)
    return StringNode("text for bytes", "string", _encode, {"type": "string"})


def _uuid_node(target: Target) -> Node[UUID]:
    return StringNode("a UUID", '"UUID"', _read_uuid, {"type": "string", "format": "uuid"}, _find_uuid)


def _path_node(target: Target) -> Node[PurePath]:
    cls = Path if target.type is Path else target.type
    return StringNode("a path", '"path"', _read_path(cls), {"type": "string", "format": "path"}, _find_path)


def _datetime_node(target: Target) -> Node[datetime]:
    form, reader = "YYYY-MM-DDTHH:MM:SS", partial(read_datetime, order=_order_of(target))
    return TemporalNode(f"a date with a time ({form})", f'"{form}"', "date-time", reader)


def _date_node(target: Target) -> Node[date]:
    reader = partial(read_date, order=_order_of(target))
    return TemporalNode("a date (YYYY-MM-DD)", '"YYYY-MM-DD"', "date", reader)


def _order_of(target: Target) -> DateOrder | None:
    """Return the DateOrder in Annotated, which decides whether 01/02/2024 is in January or in February."""
    return next((item for item in target.metadata if isinstance(item, DateOrder)), None)


_DURATION_HINT = '"ISO 8601 duration, such as PT1H30M"'
# The parsers of the scalar types, each from the type with its metadata.
_SCALARS: dict[object, Callable[[Target], Node[object]]] = {
    str: lambda _: TextNode(),
    int: lambda _: IntNode(),
    float: lambda _: FloatNode(),
    Decimal: lambda _: DecimalNode(),
    Fraction: lambda _: FractionNode(),
    None: lambda _: NoneNode(),
    Any: lambda _: AnyNode(),
    JsonValue: lambda _: AnyNode(),
    object: lambda _: AnyNode(),
    bytes: _bytes_node,
    UUID: _uuid_node,
    date: _date_node,
    datetime: _datetime_node,
    time: lambda _: TemporalNode("a time (HH:MM:SS)", '"HH:MM:SS"', "time", read_time),
    timedelta: lambda _: TemporalNode("a duration (ISO 8601)", _DURATION_HINT, "duration", read_timedelta),
}


def scalar_node(target: Target, style: NumberStyle | None = None) -> Node[object] | None:
    """Return the parser for a scalar type such as str, int or date, or None for other types.

    A NumberStyle in Annotated, or else ``style``, decides whether 1,234 is a thousand or has three decimals.
    """
    tp = target.type
    make = _path_node if isinstance(tp, type) and issubclass(tp, PurePath) else _SCALARS.get(tp)
    node = None if make is None else make(target)
    if isinstance(node, NumberNode):
        styles = (item for item in target.metadata if isinstance(item, NumberStyle))
        return node.with_rules(next(styles, style))
    return node
