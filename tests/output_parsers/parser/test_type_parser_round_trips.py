"""Values of types of all shapes are read back from JSON in many disguises, or the text is refused."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, make_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Optional
from uuid import UUID

from hypothesis import HealthCheck, assume, given, settings, strategies as st
from pydantic import BaseModel, TypeAdapter, create_model
from typing_extensions import TypedDict

from output_parsers import Leniency, OutputParsingError, ParserRegistry, TypeParser
from output_parsers.prose.fillers import is_value

QUICK = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


class Color(enum.Enum):
    RED = "red"
    DARK_BLUE = "dark-blue"
    NONE = "none"


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Shape:
    """A type, and the values that belong to it."""

    tp: Any
    values: st.SearchStrategy[Any]
    hashable: bool = True


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12).filter(is_value)
SCALARS = [
    Shape(str, WORDS),
    Shape(int, st.integers()),
    Shape(float, st.floats(allow_nan=False, allow_infinity=False)),
    Shape(bool, st.booleans()),
    Shape(Decimal, st.decimals(-(10**9), 10**9, places=3)),
    Shape(Fraction, st.fractions()),
    Shape(date, st.dates()),
    Shape(time, st.times()),
    Shape(datetime, st.datetimes()),
    Shape(timedelta, st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9999))),
    Shape(UUID, st.uuids()),
    Shape(Color, st.sampled_from(Color)),
    Shape(Level, st.sampled_from(Level)),
    Shape(Literal["a", "b c", 1, None], st.sampled_from(["a", "b c", 1, None])),
]
NAMES = ["name", "first_value", "kind", "total"]


def compound(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    return st.one_of(
        inner.map(lambda s: Shape(list[s.tp], st.lists(s.values, max_size=3), False)),  # type: ignore[name-defined]
        inner.filter(lambda s: s.hashable).map(
            lambda s: Shape(frozenset[s.tp], st.frozensets(s.values, max_size=3))  # type: ignore[name-defined]
        ),
        inner.map(
            lambda s: Shape(dict[str, s.tp], st.dictionaries(WORDS, s.values, max_size=3), False)  # type: ignore[name-defined]
        ),
        st.tuples(inner, inner).map(
            lambda p: Shape(tuple[p[0].tp, p[1].tp], st.tuples(p[0].values, p[1].values), False)  # type: ignore[misc]
        ),
        inner.filter(lambda s: s.tp is not Literal["a", "b c", 1, None]).map(
            lambda s: Shape(Optional[s.tp], st.one_of(st.none(), s.values), s.hashable)  # noqa: UP045
        ),
        st.tuples(
            st.sampled_from([as_dataclass, as_typed_dict, as_model]), st.lists(inner, min_size=1, max_size=3)
        ).map(lambda p: p[0](p[1])),
    )


def as_dataclass(parts: list[Shape]) -> Shape:
    cls = make_dataclass("Record", [(n, p.tp) for n, p in zip(NAMES, parts, strict=False)])
    return Shape(cls, st.builds(cls, *(part.values for part in parts)), False)


def as_typed_dict(parts: list[Shape]) -> Shape:
    cls: Any = TypedDict("Table", dict(zip(NAMES, (p.tp for p in parts), strict=False)))  # type: ignore[operator, misc]
    return Shape(cls, st.fixed_dictionaries(dict(zip(NAMES, (p.values for p in parts), strict=False))), False)


def as_model(parts: list[Shape]) -> Shape:
    fields: dict[str, Any] = {n: (p.tp, ...) for n, p in zip(NAMES, parts, strict=False)}
    cls: Any = create_model("Model", **fields)
    named = dict(zip(NAMES, (p.values for p in parts), strict=False))
    return Shape(cls, st.builds(cls, **named), False)


SHAPES = st.recursive(st.sampled_from(SCALARS), compound, max_leaves=5)


@st.composite
def typed_values(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Any, Any]:
    shape = draw(SHAPES)
    return shape.tp, draw(shape.values)


def parser_of(tp: Any) -> TypeParser[Any]:
    parser = ParserRegistry().parser_for(tp)
    assert isinstance(parser, TypeParser)
    return parser


def to_plain_data(value: Any) -> Any:
    """Return the JSON data that a careful writer uses for a value."""
    if isinstance(value, (list, tuple, frozenset)):
        return [to_plain_data(item) for item in value]
    if isinstance(value, dict):
        return {key: to_plain_data(item) for key, item in value.items()}
    if isinstance(value, BaseModel):
        return {name: to_plain_data(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain_data(getattr(value, name)) for name in type(value).__dataclass_fields__}
    if isinstance(value, Level):
        return value.name
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, timedelta):
        return f"P{value.days}DT{value.seconds}.{value.microseconds:06}S"
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return Number(value)
    if isinstance(value, (Fraction, UUID)):
        return str(value)
    return value


class Number(float):
    """A decimal number that must be written with all its digits."""

    def __new__(cls, value: Decimal) -> Number:
        number = super().__new__(cls, value)
        number.text = str(value)
        return number

    text: str


def write_json(value: Any, **options: Any) -> str:
    """Return the JSON text of a value, with all digits of its decimals."""
    numbers: list[str] = []

    def marked(part: Any) -> Any:
        if isinstance(part, Number):
            numbers.append(part.text)
            return f"\ue000{len(numbers) - 1}\ue000"
        if isinstance(part, dict):
            return {key: marked(item) for key, item in part.items()}
        return [marked(item) for item in part] if isinstance(part, list) else part

    text = json.dumps(marked(to_plain_data(value)), ensure_ascii=False, **options)
    for index, number in enumerate(numbers):
        text = text.replace(f'"\ue000{index}\ue000"', number)
    return text


def equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


@QUICK
@given(typed_values())
def test_exact_json_is_read_back_without_coercions(typed: tuple[Any, Any]) -> None:
    tp, value = typed
    assume(tp not in (str, MAY_BE_TEXT))  # a text is its own dress
    reading = parser_of(tp).read(write_json(value), Leniency.NONE)
    assert equal(reading.value, value)
    assert reading.coercions == ()


@QUICK
@given(typed_values())
def test_exact_json_in_an_envelope_is_read_back_without_coercions(typed: tuple[Any, Any]) -> None:
    tp, value = typed
    text = '{"value": ' + write_json(value) + "}"
    reading = parser_of(tp).with_envelope().read(text, Leniency.NONE)
    assert equal(reading.value, value)
    assert reading.coercions == ()


def changed_keys(change: Callable[[str], str]) -> Callable[[Any], Any]:
    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {change(key) if key in NAMES else key: changed(item) for key, item in value.items()}
        return [changed(item) for item in value] if isinstance(value, list) else value

    return changed


def camel(key: str) -> str:
    head, *rest = key.split("_")
    return head + "".join(word.title() for word in rest)


def numbers_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: numbers_as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers_as_text(item) for item in value]
    if isinstance(value, Number):
        return value.text
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def disguised_text(value: Any, change: Callable[[Any], Any]) -> str:
    return write_json(change(to_plain_data(value)))


DISGUISES: dict[str, Callable[[Any], str]] = {
    "indented": lambda value: write_json(value, indent=2),
    "tight": lambda value: write_json(value, separators=(",", ":")),
    "fenced": lambda value: f"```json\n{write_json(value)}\n```",
    "fenced, in prose": lambda value: f"Here you are:\n\n```\n{write_json(value)}\n```\nAnything else?",
    "in prose": lambda value: f"The result is {write_json(value)}.",
    "tagged": lambda value: f"<answer>{write_json(value)}</answer>",
    "reasoned": lambda value: f'<think>Maybe [1] or {{"a": 2}}?</think>\n{write_json(value)}',
    "twice": lambda value: f"```json\n{write_json(value)}\n```\nAgain:\n```json\n{write_json(value)}\n```",
    "camel": lambda value: disguised_text(value, changed_keys(camel)),
    "upper": lambda value: disguised_text(value, changed_keys(str.upper)),
    "spaced": lambda value: disguised_text(value, changed_keys(lambda key: key.replace("_", " ").title())),
    "numbers as text": lambda value: disguised_text(value, numbers_as_text),
    "single quotes": lambda value: repr(to_plain_data(value)),
    "trailing comma": lambda value: write_json(value).replace("]", ",]").replace("}", ",}"),
    "cut off": lambda value: write_json(value)[:-1],
    "cut in half": lambda value: write_json(value)[: len(write_json(value)) // 2],
    "in a text": lambda value: json.dumps(write_json(value)),
}
MAY_BE_TEXT = str | None
LOSSLESS = ["indented", "tight", "fenced", "camel", "upper", "spaced", "reasoned"]
TRUNCATING = ["cut off", "cut in half"]  # which leaves of a number another number


@settings(QUICK, max_examples=400)
@given(typed_values(), st.sampled_from(sorted(DISGUISES)))
def test_a_disguised_value_is_read_back_or_refused_and_never_misread(
    typed: tuple[Any, Any], disguise: str
) -> None:
    tp, value = typed
    assume(tp not in (str, MAY_BE_TEXT))  # a text is its own dress
    assume(disguise not in TRUNCATING or write_json(value)[0] in "[{")
    assume(disguise != "trailing comma" or not re.search(r'"[^"]*[]}][^"]*"', write_json(value)))
    text = DISGUISES[disguise](value)
    assume(disguise != "single quotes" or "\\" not in text)  # what JSON escapes, Python escapes otherwise
    try:
        found = parser_of(tp).parse(text)
    except OutputParsingError:
        return
    assert equal(found, value), text


@st.composite
def records(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Any, Any]:
    kind = draw(st.sampled_from([as_dataclass, as_typed_dict, as_model]))
    shape = kind(draw(st.lists(SHAPES, min_size=1, max_size=3)))
    return shape.tp, draw(shape.values)


@settings(QUICK, max_examples=100)
@given(records(), st.sampled_from(LOSSLESS))
def test_a_record_in_a_common_disguise_is_read_back(typed: tuple[Any, Any], disguise: str) -> None:
    tp, value = typed
    assert equal(parser_of(tp).parse(DISGUISES[disguise](value)), value)


WORDS_OF_JSON = r"""{ } [ ] ( ) " ' : , ` ``` ```json \ \u00 // /* */ <think> </think> <a> </a> null true None
    NaN - 1 1e999 0.5 ½ ٣ name first_value "name": red dark a 1. 2024-01-01 PT1H not or"""
PIECES = st.sampled_from([*WORDS_OF_JSON.split(), " ", "\n", "\ud800", "\0", "- ", "```json\n"])
TEXTS = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=12).map("".join))


@settings(QUICK, max_examples=400)
@given(SHAPES, TEXTS, st.sampled_from(Leniency))
def test_any_text_gives_a_value_of_the_type_or_a_parsing_error(
    shape: Shape, text: str, leniency: Leniency
) -> None:
    try:
        value = parser_of(shape.tp).parse(text, leniency)
    except OutputParsingError:
        return
    TypeAdapter(shape.tp).validate_python(value, strict=True)
