"""Records of all kinds, with defaults and dates: the fast path and the nodes give the same values."""

from __future__ import annotations

import json
from dataclasses import field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any, NamedTuple, NotRequired

import attrs
import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict

from output_parsers import Leniency, TypeParser, parser_for
from output_parsers.json.scanner import read_exact
from output_parsers.parser.fast_path import NOT_EXACT
from output_parsers.result.reading import Cursor, strict_equal

NO_DEFAULT = object()
Field = tuple[str, Any, object]  # the name, the type and the default
FIELDS: list[tuple[Any, object, st.SearchStrategy[Any]]] = [
    (int, 7, st.integers(-9, 9)),
    (str, "none: yet", st.sampled_from(["", "a: b", "x"])),
    (bool, True, st.booleans()),
    (list[int], [], st.lists(st.integers(0, 9), max_size=2)),
    (dict[str, int], {}, st.dictionaries(st.sampled_from(["a", "b", "x"]), st.integers(0, 9), max_size=2)),
    (int | None, None, st.none() | st.integers(0, 9)),
    (date, date(2024, 2, 29), st.dates().map(date.isoformat)),
    (
        datetime,
        datetime(2024, 2, 29),
        st.datetimes(timezones=st.sampled_from([None, UTC, timezone(timedelta(hours=-5))])).map(
            datetime.isoformat
        ),
    ),
    (time, time(), st.times().map(time.isoformat)),
]


def dataclass_of(name: str, fields: list[Field]) -> Any:
    def specify(default: Any) -> Any:
        return field(kw_only=True) if default is NO_DEFAULT else field(default_factory=lambda: default)

    return make_dataclass(name, [(key, tp, specify(default)) for key, tp, default in fields])


def attrs_class_of(name: str, fields: list[Field]) -> Any:
    def specify(tp: Any, default: Any) -> Any:
        if default is NO_DEFAULT:
            return attrs.field(type=tp, kw_only=True)
        return attrs.field(type=tp, kw_only=True, factory=lambda: default)

    return attrs.make_class(name, {f"_{key}": specify(tp, default) for key, tp, default in fields})


def struct_of(name: str, fields: list[Field]) -> Any:
    specs = [
        (key, tp) if default is NO_DEFAULT else (key, tp, msgspec.field(default_factory=lambda d=default: d))
        for key, tp, default in fields
    ]
    return msgspec.defstruct(name, specs, kw_only=True, rename="camel")


def typed_dict_of(name: str, fields: list[Field]) -> Any:
    parts = {key: tp if default is NO_DEFAULT else NotRequired[tp] for key, tp, default in fields}
    return TypedDict(name, parts)  # type: ignore[operator]  # its name and fields are known only at runtime


def model_of(name: str, fields: list[Field]) -> Any:
    parts: dict[str, Any] = {
        key: (tp, ... if default is NO_DEFAULT else default) for key, tp, default in fields
    }
    return create_model(name, **parts)


MAKERS = [dataclass_of, attrs_class_of, struct_of, typed_dict_of, model_of]


@st.composite
def records(draw: Any, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """Draw a record class, and a strategy for the JSON data of its instances."""
    make = draw(st.sampled_from(MAKERS))
    fields: list[Field] = []
    strategies: dict[str, st.SearchStrategy[Any]] = {}
    for name in ("one", "two_words", "three")[: draw(st.integers(1, 3))]:
        tp, default, strategy = draw(st.sampled_from(FIELDS))
        if depth and make is not model_of and draw(st.booleans()):
            tp, strategy = draw(records(depth - 1))
            default = NO_DEFAULT
            if draw(st.booleans()):
                tp, default, strategy = list[tp], [], st.lists(strategy, max_size=2)  # type: ignore[valid-type]  # at runtime
        fields.append((name, tp, draw(st.sampled_from([default, NO_DEFAULT]))))
        strategies[name] = strategy
    cls = make("Record", fields)
    required, optional = {}, {}
    for spec in parser_for(cls).node.spec.fields:
        (required if spec.required else optional)[spec.keys[0]] = strategies[spec.name.removeprefix("_")]
    return cls, st.fixed_dictionaries(required, optional=optional)


def read_by_nodes(tp: Any, text: str) -> Any:
    return parser_for(tp).node.read(read_exact(text), Cursor(Leniency.NONE))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_both_paths_create_the_same_record(data: st.DataObject) -> None:
    cls, values = data.draw(records())
    text = json.dumps(data.draw(values))
    read = parser_for(cls).fast_reader
    assert read is not None
    fast, slow = read(text), read_by_nodes(cls, text)
    assert strict_equal(fast, slow)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_repeated_key_is_left_to_the_nodes(data: st.DataObject) -> None:
    cls, values = data.draw(records())
    text = json.dumps(data.draw(values.filter(bool)))
    read = parser_for(cls).fast_reader
    assert read is not None
    assert read("{" + text[1:-1] + ", " + text[1:-1] + "}") is NOT_EXACT


class Place(NamedTuple):
    city: str
    zip: str | None = None
    opened: date | None = None


class Trip(NamedTuple):
    start: Place
    stops: tuple[Place, ...]


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (
            {"start": {"city": "York"}, "stops": [{"city": "Oslo", "zip": "1", "opened": "2024-02-29"}]},
            Trip(Place("York"), (Place("Oslo", "1", date(2024, 2, 29)),)),
        ),
        ({"start": {"city": "a:", "zip": None}, "stops": []}, Trip(Place("a:"), ())),
    ],
)
def test_named_tuples_have_a_fast_path(data: Any, value: Trip) -> None:
    read = parser_for(Trip).fast_reader
    assert read is not None
    assert read(json.dumps(data)) == value == read_by_nodes(Trip, json.dumps(data))


class Dates(BaseModel):
    day: date
    moment: datetime | None = None


@pytest.mark.parametrize(
    "text",
    [
        '{"day": "2024-02-30"}',
        '{"day": "20240229"}',
        '{"day": "1709164800"}',
        '{"day": 1709164800}',
        '{"day": "2024-02-29T00:00:00"}',
        '{"day": "2024-02-29", "moment": "2024-02-29"}',
        '{"day": "2024-02-29", "moment": "2024-02-29T24:00:00"}',
        '{"day": "2024-02-29", "moment": "2024-02-29 10:00:00"}',
        '{"day": "2024-02-29", "moment": "2024-02-29T10:00:00+24:00"}',
        '{"day": "2024-02-29", "moment": 1709164800.5}',
    ],
)
def test_a_date_in_any_other_format_is_left_to_the_nodes(text: str) -> None:
    read = parser_for(Dates).fast_reader
    assert read is not None
    assert read(text) is NOT_EXACT


@pytest.mark.parametrize(
    "text",
    ["10:30:00", "10:30:00.5", "10:30:00.123456Z", "23:59:59+05:30", "00:00:00-00:00"],
)
def test_the_usual_formats_of_a_datetime_have_a_fast_path(text: str) -> None:
    read = parser_for(datetime).fast_reader
    assert read is not None
    reply = f'"2024-02-29T{text}"'
    assert read(reply) == datetime.fromisoformat(f"2024-02-29T{text}")
    assert repr(read(reply)) == repr(read_by_nodes(datetime, reply))


def test_a_date_with_constraints_is_left_to_the_nodes() -> None:
    from pydantic import PastDate

    parser = parser_for(create_model("Birth", day=(PastDate, ...)))
    assert isinstance(parser, TypeParser)
    assert parser.fast_reader is None
