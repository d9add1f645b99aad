"""Values of every return type are equal after they were written as JSON and read back."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Protocol, TypeVar
from uuid import UUID

import attrs
import msgspec
import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    RootModel,
    SecretStr,
    create_model,
    model_validator,
)
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from aiservices import (
    AiMessage,
    ChatReply,
    DefinitionError,
    Int8,
    ScriptedChatModel,
    Usage,
    create,
    user_message,
)
from aiservices.integrations.fastapi import app, client
from aiservices.integrations.mcp import mcp_server
from aiservices.remote.codec import codec_for
from aiservices.rows import as_udf, map_rows
from output_parsers import OutputParsingError, parse
from output_parsers.parser.type_parser import DEFAULT_REGISTRY
from output_parsers.result.reading import strict_equal

T = TypeVar("T")
UserId = NewType("UserId", int)


class Colour(Enum):
    RED = "red"
    GREEN = 2


class Size(IntEnum):
    SMALL = 1


class Mood(StrEnum):
    GOOD = "good"


class Rights(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Tree:
    name: str
    kids: list[Tree] = field(default_factory=list)


class Point(NamedTuple):
    x: int
    y: Decimal


class Film(TypedDict):
    title: str
    year: int


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)

    first_name: str
    birth_date: date | None = None


class Box(BaseModel, Generic[T]):
    inside: T


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str]


@attrs.define
class Coin:
    side: str


class Note(msgspec.Struct):
    text: str
    at: datetime


VALUES: list[tuple[Any, Any]] = [
    (list[str], ["a", "...", "TODO", "etc."]),
    (list[str], ["string"]),
    (dict[str, str], {"name": "<name>", "city": "{city}"}),
    (dict[str, list[str]], {"a": ["…"]}),
    (bool, True),
    (int, 10**40),
    (Int8, -128),
    (float, 0.1),
    (float, 1e300),
    (Decimal, Decimal("1.50")),
    (Decimal, Decimal("12345678901234567890.123456789012345678")),
    (Fraction, Fraction(1, 3)),
    (str, 'a "quoted"\nline, \u2028 and 张艺谋 🙂'),
    (str, "42"),
    (str, ""),
    (bytes, b"abc"),
    (date, date(1968, 7, 4)),
    (time, time(23, 45)),
    (datetime, datetime(1968, 7, 4, 23, 45, tzinfo=UTC)),
    (timedelta, timedelta(days=1, seconds=3)),
    (UUID, UUID(int=7)),
    (Path, Path("a/b")),
    (Colour, Colour.RED),
    (Colour, Colour.GREEN),
    (Size, Size.SMALL),
    (Mood, Mood.GOOD),
    (Rights, Rights.READ | Rights.WRITE),
    (Literal["x", 1], 1),
    (list[int], [1, 2]),
    (set[str], {"a", "b"}),
    (frozenset[int], frozenset({1})),
    (tuple[int, str], (1, "a")),
    (tuple[date, ...], (date(2020, 1, 1),)),
    (dict[str, Decimal], {"value": Decimal("1.0")}),
    (dict[int, str], {1: "a"}),
    (dict[str, dict[str, int]], {"value": {"value": 1}}),
    (Film, {"title": "Hero", "year": 2002}),
    (Point, Point(1, Decimal("2.5"))),
    (Tree, Tree("a", [Tree("b"), Tree("c", [Tree("d")])])),
    (Camel, Camel(first_name="Ann", birth_date=date(2000, 2, 29))),
    (Coin, Coin("head")),
    (Note, Note("n", datetime(2020, 1, 1))),
    (Box[list[int]], Box[list[int]](inside=[1])),
    (RootModel[list[int]], RootModel[list[int]]([1, 2])),
    (Cat | Dog, Dog(tricks=["sit"])),
    (Annotated[Cat | Dog, Field(discriminator="kind")], Cat(lives=9)),
    (int | None, None),
    (str | None, "null"),
    (int | str, "42"),
    (int | str, 42),
    (UserId, UserId(3)),
    (Any, {"a": [1, "x", None, True]}),
    (AiMessage, AiMessage("hello")),
    (ChatReply, ChatReply(AiMessage("hello"), usage=Usage(1, 2), model="m")),
]


def names() -> list[str]:
    return [f"{getattr(form, '__name__', form)}-{index}" for index, (form, _) in enumerate(VALUES)]


@pytest.fixture(scope="module")
def round_trip() -> Callable[[Any, Any], Any]:
    """Return a function that writes a value with the codec of its type and reads it back."""
    from aiservices.remote.codec import codec_for

    def echo(form: Any, value: Any) -> Any:
        codec = codec_for(form, DEFAULT_REGISTRY)
        text = codec.write(value)
        assert "\n" not in text  # the data of an event must be one line
        return codec.read(text)

    return echo


@pytest.mark.parametrize(("form", "value"), VALUES, ids=names())
def test_a_value_survives_a_round_trip(form: Any, value: Any, round_trip: Callable[[Any, Any], Any]) -> None:
    assert strict_equal(round_trip(form, value), value)


def test_the_fast_text_of_a_value_is_read_as_the_same_value() -> None:
    wrong = []
    for form, value in VALUES:
        codec = codec_for(form, DEFAULT_REGISTRY)
        for _ in range(2):  # the second time, it is known whether pydantic can write the type
            again = codec.read(codec.write_any(value))
            # equal sets may be written in another order
            if codec.write(again) != codec.write(value) and not strict_equal(again, value):
                wrong.append((form, value, again))
    assert wrong == []


def test_every_type_survives_a_round_trip_through_a_server(serve: Callable[[Any], str]) -> None:
    space: dict[str, Any] = {"__module__": __name__}
    for index, (form, _) in enumerate(VALUES):

        def stub(self: Any, value: Any) -> Any: ...

        stub.__annotations__ = {"value": form, "return": form}
        stub.__name__ = f"m{index}"
        space[stub.__name__] = stub
    interface: Any = type(Protocol)("Echo", (Protocol,), space)

    class Echo:
        def __getattr__(self, name: str) -> Callable[[Any], Any]:
            return lambda value: value

    remote = client(interface, serve(app(Echo(), interface=interface)), timeout=20)
    wrong = [
        form
        for index, (form, value) in enumerate(VALUES)
        if not strict_equal(getattr(remote, f"m{index}")(value), value)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (int, '"42"'),
        (int, "1.0"),
        (int, "1, 2"),
        (int, '1, "more": 2'),
        (int, "1}"),
        (str, "text"),
        (Film, '{"title": "Hero", "year": 2002, "more": 1}'),
        (list[int], "[1, 2"),
        (bool, "yes"),
        (date, "2020-01-01"),
    ],
)
def test_inexact_json_is_rejected(form: Any, text: str) -> None:
    from aiservices.remote.codec import codec_for

    with pytest.raises(OutputParsingError):
        codec_for(form, DEFAULT_REGISTRY).read(text)


def test_the_path_of_a_problem_does_not_contain_the_envelope() -> None:
    from aiservices.remote.codec import codec_for

    with pytest.raises(OutputParsingError) as caught:
        codec_for(list[int], DEFAULT_REGISTRY).read('[1, "x"]')
    assert [str(problem) for problem in caught.value.problems] == ['$[1]: expected an integer, found "x"']


class Discounted(BaseModel):
    discount: Annotated[float, AfterValidator(lambda percent: percent / 100)]


class Doubled(RootModel[Annotated[int, AfterValidator(lambda number: number * 2)]]):
    pass


class Tagged(BaseModel):
    tags: Annotated[str, AfterValidator(lambda text: text.split(","))]
    of: Discounted | Doubled | None = None


class Later(BaseModel):
    year: int = Field(alias="Year")

    @model_validator(mode="after")
    def next(self) -> Later:
        self.year += 1
        return self


class Earlier(BaseModel):
    year: int

    @model_validator(mode="before")
    @classmethod
    def previous(cls, data: dict[str, int]) -> dict[str, int]:
        return {"year": data["year"] - 1}


@dataclass
class Grown:
    size: int

    def __post_init__(self) -> None:
        self.size += 1


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Discounted, '{"discount": 50}'),
        (list[Doubled], "[1, 2]"),
        (dict[str, Doubled | str], '{"a": 1, "b": "x"}'),
        (Tagged, '{"tags": "a,b", "of": {"discount": 50}}'),
        (Tagged, '{"tags": "a", "of": 4}'),
        (Later, '{"Year": 2000}'),
        (Earlier, '{"year": 2000}'),
        (Grown | None, '{"size": 1}'),
        (Annotated[int, AfterValidator(lambda number: -number)], "5"),
    ],
)
def test_a_value_that_its_validators_would_change_again_is_restored(form: Any, text: str) -> None:
    from aiservices.remote.codec import codec_for

    codec = codec_for(form, DEFAULT_REGISTRY)
    value = parse(form, text)
    written = codec.write(value)
    assert strict_equal(codec.restore(written), value)
    with pytest.raises(ValueError, match=r"is read as|cannot be written|expected"):
        codec.write_argument(value)


def _changed(value: Any) -> Any:
    """Change a value again each time, to one of the same type."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float, Decimal)):
        return value * 2
    if isinstance(value, str):
        return value + "!"
    if isinstance(value, list):
        return value + value[:1]
    return {f"{key}!": item for key, item in value.items()}


def _digits(value: object) -> object:
    """Return a value with its types and digits, which equal numbers may not share."""
    if isinstance(value, BaseModel):
        return type(value), {name: _digits(part) for name, part in value}
    if isinstance(value, dict):
        return {key: _digits(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [_digits(part) for part in value]
    return _digits(vars(value)) if is_dataclass(value) else repr(value)


_VALUES: list[tuple[Any, list[str]]] = [
    (Decimal, '1.50 10.00 1e3 0.0 -5 100 123456789012345678901234567890.10 1e-7 -0.50 "2.50"'.split()),
    (float, "1.0 1e3 1e300 0.1 -0.0 10 1e16 1e-7".split()),
    (int, "0 -7 9007199254740993 123456789012345678901234567890".split()),
    (str, '"1.50" "1e3" "" "-0" "null"'.split()),
    (Decimal | str, '1.50 10.00 "1.50" "a"'.split()),
    (Decimal | None, "1.50 10.00 null".split()),
    (int | Decimal, "1.50 10".split()),
    (float | str, '1.0 1e3 "1.0"'.split()),
    (Any, '1.0 1 1.50 "1.50" [1.0,{"a":2.50}] 1e3 -0.0'.split()),
    (list[Decimal], "[1.50,2,10.00] []".split()),
    (dict[str, Decimal], ['{"a":1.50,"b":10.00}']),
    (dict[str, float], ['{"a":1.0,"b":1e3}']),
]


def test_restored_values_have_the_digits_of_the_written_ones() -> None:
    restored = 0
    for (form, texts), change in product(_VALUES, (_changed, lambda value: value)):
        field: Any = Annotated[form, AfterValidator(change)]
        model = create_model("Model", x=(field, ...), y=(Decimal, ...))
        typed_dict: Any = TypedDict("Dict", {"x": field})  # type: ignore[misc]
        forms = {
            "%s": field,
            "[%s]": list[field],
            '{"k":%s}': dict[str, field],
            '{"x":%s,"y":3.10}': model | int,
            '{"x":%s}': typed_dict,
            "[%s,2.00]": tuple[field, Decimal],
            '{"m":[{"x":%s,"y":3.10}]}': create_model("Outer", m=(list[model], ...)),  # type: ignore[valid-type]
            "%s ": RootModel[field],
        }
        for (pattern, tp), text in product(forms.items(), texts):
            codec, value = codec_for(tp, DEFAULT_REGISTRY), parse(tp, pattern % text)
            assert _digits(codec.restore(codec.write(value))) == _digits(value), (tp, text)
            restored += 1
    assert restored > 600


class Login(BaseModel):
    password: SecretStr


def test_a_secret_is_refused_before_it_is_paid_for() -> None:
    class Desk(Protocol):
        @user_message("{{text}}")
        def login(self, text: str) -> list[Login]: ...

    model = ScriptedChatModel(['[{"password": "x"}]'])
    desk = create(Desk, model)
    message = "the values of list[Login] cannot be written, because pydantic masks the secrets in them"
    serving: list[Callable[[], object]] = [
        lambda: app(desk),
        lambda: mcp_server(desk),
        lambda: map_rows(desk.login, [{"text": "t"}]),
        lambda: as_udf(desk.login),
    ]
    for serve in serving:
        with pytest.raises(DefinitionError, match=re.escape(message)):
            serve()
    assert model.requests == []
    assert desk.login("t")[0].password.get_secret_value() == "x"


def test_rows_have_values_that_their_validators_would_change_again(tmp_path: Path) -> None:
    class Desk(Protocol):
        @user_message("{{text}}")
        def discount(self, text: str) -> Discounted: ...

    model = ScriptedChatModel([f'{{"discount": {number}}}' for number in (50, 100)])
    settings: Any = {"key": "text", "to": tmp_path / "o.jsonl", "max_concurrency": 1}
    for _ in range(2):  # the second time from the journal
        rows = map_rows(create(Desk, model).discount, [{"text": "a"}, {"text": "b"}], **settings)
        assert [row.value.discount for row in rows] == [0.5, 1.0]
    assert '"discount": 0.5' in (tmp_path / "o.jsonl").read_text()


def test_a_text_with_json_is_written_as_such() -> None:
    from aiservices.remote.codec import codec_for

    codec = codec_for(Json[list[int]], DEFAULT_REGISTRY)
    assert codec.write([1]) == '"[1]"'
    assert codec.read('"[1]"') == [1]
