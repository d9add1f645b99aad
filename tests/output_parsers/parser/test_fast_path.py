"""The fast path returns the value that the slow path returns, or leaves the text to it."""

from __future__ import annotations

import enum
import json
import random
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import combinations
from typing import Annotated, Any, Literal, NotRequired

import pydantic
import pytest
from growth import process_time
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from typing_extensions import TypeAliasType, TypedDict

from output_parsers import Leniency, ParserRegistry, TypeParser, ValidatorError, parser_for
from output_parsers.parser.fast_path import NOT_EXACT, never_exact
from output_parsers.prose.fillers import is_value

pytestmark = pytest.mark.skipif(
    pydantic.VERSION.startswith("2.12."), reason="before pydantic 2.13, types with floats have no fast path"
)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str = Field(alias="Name")
    price: float
    tags: set[str] = set()


class Order(BaseModel):
    items: list[Item]
    color: Color | None = None
    state: Literal["open", "closed"] = "open"
    counts: dict[str, int] = {}
    pair: tuple[int, str] = (0, "")


class Item2(BaseModel):
    name: str = Field(alias="Name")
    price: float = 0


class Free(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Lax(BaseModel):
    model_config = ConfigDict(strict=False)
    number: int = Field(strict=False)


class Wide(BaseModel):
    model_config = ConfigDict(allow_inf_nan=True)
    a: float
    b: list[float] = []
    c: float = Field(0.0, allow_inf_nan=False)


class Reshaped(BaseModel):
    a: int

    @model_validator(mode="before")
    @classmethod
    def same(cls, data: Any) -> Any:
        return data


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    friend: Cat | None = None


@dataclass
class Bird:
    kind: Literal["bird"]
    eggs: int | str


class UserMessage(TypedDict):
    kind: Literal["user"]
    text: str


class ToolMessage(TypedDict):
    kind: Literal["tool"]
    calls: NotRequired[list[dict[str, Any]]]


Deep = TypeAliasType("Deep", "list[Deep]")


def read_fast(tp: Any, text: str) -> Any:
    fast_reader = parser_for(tp).fast_reader
    assert fast_reader is not None
    return fast_reader(text)


def read_slowly(tp: Any, text: str) -> Any:
    return parser_for(tp).reply_reader.read(text, Leniency.NONE, never_exact).value


@pytest.mark.parametrize(
    ("tp", "has_fast_reader"),
    [
        (int, True),
        (float, True),
        (bool, True),
        (list[int], True),
        (set[str], True),
        (dict[str, float], True),
        (tuple[int, str], True),
        (int | None, True),
        (Literal["a", "b"], True),
        (Color, True),
        (Order, True),
        (Annotated[int, Field(ge=0)], True),
        (Deep, True),
        (list["Item"], False),  # pydantic would look for the name in the wrong place
        (str, False),  # the reply itself
        (int | str, True),
        (list[int | float | str | bool | dict[str, int] | list[int] | None], True),
        (list[Item | Order], True),
        (date | str, True),
        (timedelta | str, False),
        (list[int] | list[str], True),
        (list[int] | list[float], False),
        (list[int] | set[str], False),  # both read an empty list, as different values
        (Item | Item2, False),
        (Cat | Dog | UserMessage, True),
        (UserMessage | ToolMessage, True),
        (int | Literal["a"] | Decimal, False),
        (Decimal, False),
        (date, True),
        (Any, True),
        (Literal[1, 2], False),  # pydantic takes true for 1
        (dict[int, str], False),
        (Free, False),  # pydantic takes NaN for what is not declared
        (Reshaped, True),
        (enum.Enum("Named", "A B"), False),
    ],
)
def test_only_types_that_pydantic_reads_exactly_have_a_fast_reader(tp: Any, has_fast_reader: bool) -> None:
    parser = ParserRegistry().parser_for(tp, namespace=globals())
    assert isinstance(parser, TypeParser)
    assert (parser.fast_reader is not None) is has_fast_reader


@pytest.mark.parametrize(
    ("tp", "text"),
    [
        (dict[str, int], '{"a": 1, "a": 1}'),
        (dict[str, int], '{"a": 1, "\\u0061": 2}'),
        (Item, '{"Name": "x", "price": 1, "price": 1}'),
        (Item, '{"Name": "x", "price": 1, "other": 1}'),
        (Item, '{"Name": "x", "price": "1"}'),
        (Item, '{"name": "x", "price": 1}'),
        (Item, '{"Name": "x", "price": 1,}'),
        (Item, '{"price": 1}'),
        (Item, '{"Name": "x", "price": NaN}'),
        (Item, '{"Name": "x", "price": 1e400}'),
        (list[Item], '[{"Name": "x", "price": -Infinity}]'),
        (Order, '{"items": [{"Name": "x", "price": 1e400}]}'),
        (Lax, '{"number": "1"}'),
        (dict[str, list[Lax]], '{"a": [{"number": true}]}'),
        (Wide, '{"a": NaN}'),
        (Wide, '{"a": 1, "b": [Infinity]}'),
        (Wide, '{"a": 1, "c": -Infinity}'),
        (list[Annotated[float, Field(allow_inf_nan=True)]], "[NaN]"),
        (float, "NaN"),
        (float, "Infinity"),
        (list[float], "[1e400]"),
        (list[float], "[-Infinity]"),
        (int, "1.0"),
        (int, "true"),
        (bool, "1"),
        (Color, '"RED"'),
        (tuple[int, str], "[1]"),
        (list[int], "```\n[1]\n```"),
        (dict[str, str], '{"a": "\ud800"}'),
    ],
)
def test_text_that_is_not_exact_is_left_to_the_slow_path(tp: Any, text: str) -> None:
    assert read_fast(tp, text) is NOT_EXACT


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (dict[str, int], '{"a" : 1, "b"\n:2}', {"a": 1, "b": 2}),
        (dict[str, str], '{"a": "b: c", "d:": "e"}', {"a": "b: c", "d:": "e"}),
        (dict[str, dict[str, int]], '{"a": {"b": 1}, "c": {}}', {"a": {"b": 1}, "c": {}}),
        (list[dict[str, int]], '[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
        (Item, '{"price": 1, "Name": "x:"}', Item(Name="x:", price=1)),
    ],
)
def test_colons_in_strings_and_space_before_colons_do_not_matter(tp: Any, text: str, value: object) -> None:
    assert read_fast(tp, text) == value


def test_a_string_that_looks_like_a_key_is_not_counted() -> None:
    assert read_fast(dict[str, str], json.dumps({"a": '"b": 1'})) == {"a": '"b": 1'}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(is_value)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ITEMS = st.builds(
    lambda name, price, tags: {"Name": name, "price": price, **({"tags": tags} if tags else {})},
    TEXT,
    FLOATS,
    st.lists(TEXT, max_size=3, unique=True),
)
ORDERS = st.fixed_dictionaries(
    {"items": st.lists(ITEMS, max_size=3)},
    optional={
        "color": st.sampled_from([None, "red", "blue"]),
        "state": st.sampled_from(["open", "closed"]),
        "counts": st.dictionaries(TEXT, st.integers(), max_size=3),
        "pair": st.tuples(st.integers(), TEXT).map(list),
    },
)


@settings(max_examples=150, deadline=None)
@given(ORDERS, st.booleans(), st.sampled_from([None, 1]))
def test_both_paths_return_the_same_value(order: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(order, ensure_ascii=ascii_only, indent=indent)
    short, long = read_fast(Order, text), read_slowly(Order, text)
    assert long == Order.model_validate(order)
    assert short is NOT_EXACT or short == long
    assert short is NOT_EXACT or [type(item.price) for item in short.items] == [float] * len(short.items)


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), FLOATS, TEXT)
JSON = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3))
)
TYPES = st.sampled_from(
    [
        int,
        float,
        bool,
        Color,
        list[int],
        list[float],
        dict[str, int],
        Item | None,
        tuple[int, str],
        Literal["a"],
    ]
)


@settings(max_examples=300, deadline=None)
@given(TYPES, JSON.map(json.dumps))
def test_the_fast_path_refuses_everything_that_the_slow_path_refuses(tp: Any, text: str) -> None:
    value = read_fast(tp, text)
    if value is not NOT_EXACT:
        found = read_slowly(tp, text)
        assert (found, type(found)) == (value, type(value))


def test_an_envelope_has_a_fast_reader_too() -> None:
    parser: TypeParser[list[int]] = parser_for(list[int]).with_envelope()
    fast_reader = parser.fast_reader
    assert fast_reader is not None
    assert fast_reader('{"value": [1]}') == [1]
    for text in ('{"value": [1], "value": [1]}', '{"value": [1], "x": 1}', "[1]", '{"value": ["1"]}'):
        assert fast_reader(text) is NOT_EXACT


class Strict(BaseModel):
    a: int

    @model_validator(mode="after")
    def never(self) -> Strict:
        raise KeyError("broken")


def test_a_programming_error_in_a_validator_is_not_a_problem_of_the_reply() -> None:
    with pytest.raises(ValidatorError) as error:
        parser_for(Strict).parse('{"a": 1}')
    assert str(error.value) == (
        "a validator of Strict failed with KeyError: 'broken'. "
        "Correct it, or raise ValueError for a value that it refuses"
    )
    assert isinstance(error.value.__cause__, KeyError)


_MIXED = list[int | float | str | bool | dict[str, int] | list[int] | None]


@pytest.mark.parametrize(
    ("tp", "text"),
    [
        (_MIXED, '[1, 1.0, 2e3, "1", true, null, {"a": 1}, {}, [1], [], 123456789012345678901234567890]'),
        (list[float | str], '[1, 1.5, "1"]'),
        (list[Item | Order], '[{"Name": "a", "price": 1}, {"items": []}]'),
        (list[Item | Order], '[{"Name": "a", "price": 1, "tags": ["x"]}]'),
        (list[date | int], '["2024-05-06", 20240506]'),
        (
            dict[str, Any],
            '{"a": 1.0, "b": [1e5, {"c": "x:"}], "e": -0.0, "f": 0.123456789012345678}',
        ),
    ],
)
def test_a_union_or_any_json_is_read_as_by_the_nodes(tp: Any, text: str) -> None:
    value = read_fast(tp, text)
    assert repr(value) == repr(read_slowly(tp, text))


_TIMES = ["2024-05-01", "10:30:00", "2024-05-01T10:30:00Z"]
_NEARLY_TIMES = [
    "", "RED", "Red", "red.", "2024-02-30", " 2024-05-01", "2024-05-01\n", "- 2024-05-01",
    "Answer: 2024-05-01", "2024-05-01.",
    "2024-05-01 10:30", "2024-05-01T10:30", "10:30", "T10:30", "14h30", "5 May 2024",
    "\uff12\uff10\uff12\uff14-05-01", "2024", "20240501", "room 12-3", "12-3", "+1 555:00", "a: b",
]  # fmt: skip
_MEMBERS: list[Any] = [
    Cat, Dog, Bird, UserMessage, ToolMessage, Color, Literal["cat", "a"],
    int, float, str, bool, date, datetime, time, date | datetime, Color | time,
    list[int], list[str], list[Cat], set[int], tuple[str, ...], tuple[int, int],
    dict[str, int], dict[str, str], dict[str, list[int]], dict[str, Cat],
]  # fmt: skip


def test_each_pair_of_types_is_read_as_by_the_nodes() -> None:
    generator = random.Random(0)

    def value(depth: int = 0) -> object:
        kind = generator.randrange(5 if depth < 3 else 3)
        if kind < 3:
            return generator.choice([1, 0, 2.5, "a", "red", "cat", True, None, *_TIMES, *_NEARLY_TIMES])
        if kind == 3:
            return [value(depth + 1) for _ in range(generator.randrange(3))]
        names = generator.sample(["lives", "friend", "eggs", "text", "calls", "a"], generator.randrange(3))
        kinds = {"kind": generator.choice(["cat", "dog", "bird", "user", "tool", 1])}
        return (kinds if generator.random() < 0.8 else {}) | {name: value(depth + 1) for name in names}

    read = 0
    for one, other in combinations(_MEMBERS, 2):
        parser = parser_for(list[one | other])  # type: ignore[valid-type]
        for _ in range(60 if parser.fast_reader else 0):
            text = json.dumps([value() for _ in range(generator.randrange(3))])
            fast = read_fast(parser.target.annotated, text)
            if fast is not NOT_EXACT:
                read += text != "[]"
                assert repr(fast) == repr(read_slowly(parser.target.annotated, text)), (one, other, text)
    assert read > 600


@pytest.mark.parametrize(
    ("tp", "text"),
    [
        (_MIXED, '[{"a": 1, "a": 1}]'),
        (_MIXED, "[1e400]"),
        (_MIXED, '[["1"]]'),
        (list[Item | Order], '[{"Name": "a", "price": 1, "other": 1}]'),
        (list[Item | Order], '[{"Name": "a", "price": 1, "items": []}]'),
        (dict[str, Any], '{"a": {"b": 1, "b": 2}}'),
        (dict[str, Any], '{"a": [1e400]}'),
        (dict[str, Any], '{"a": NaN}'),
    ],
)
def test_a_union_or_any_json_that_is_not_exact_is_left_to_the_nodes(tp: Any, text: str) -> None:
    assert read_fast(tp, text) is NOT_EXACT


class Message(BaseModel):
    role: Literal["user", "assistant"]
    content: str | list[dict[str, Any]] | None = None
    data: dict[str, Any] = {}


def _ratio_to_pydantic(tp: Any, data: object) -> float:
    """Return how many times as long as pydantic a parser takes to read exact JSON."""
    text, validate, parser = json.dumps(data), TypeAdapter(tp).validate_json, parser_for(tp)
    parser.parse("{}" if text[0] == "{" else "[]")
    times = [(process_time(parser.parse, text), process_time(validate, text)) for _ in range(8)]
    own, other = map(min, zip(*times, strict=True))  # other programs may run at the same time
    return own / other


def test_unions_and_any_json_take_little_longer_than_with_pydantic() -> None:
    texts = [*_TIMES, "word", "10 words", "room 12b"] * 1_000
    for tp in (list[date | str], list[str | datetime | None], list[time | date | str], list[Color | str]):
        assert _ratio_to_pydantic(tp, texts) <= 8, tp
    numbers = [1, "a", None, 2.5, True] * 4_000
    for tp in (list[int | str | float | bool | None], list[int | list[int] | str | float | bool | None]):
        assert _ratio_to_pydantic(tp, numbers) <= 8, tp
    assert _ratio_to_pydantic(dict[str, Any], {f"key {i}": {"a": [i, None, "a"]} for i in range(4_000)}) <= 3
    assert _ratio_to_pydantic(dict[str, list[str]], {"a": ['say "x": y' * 20] * 100}) <= 30
    message = {"role": "user", "content": [{"type": "text", "text": "hello"}], "data": {"a": {"b": [1.5]}}}
    assert _ratio_to_pydantic(list[Message], [message] * 2_000) <= 4


def test_keys_that_are_repeated_in_any_json_are_counted_whatever_its_texts_are() -> None:
    for data in (
        '{"a": "\\":", "b": 1, "b": 1}',
        '{"\\\\": 1, "\\\\": 1}',
        '{"a": "Inf NaN", "a": "Inf NaN"}',
    ):
        assert read_fast(dict[str, Any], data) is NOT_EXACT
    for value in ({"a:": "b: c", "\\": {"NaN": "Infinity"}}, {"": {"": [{}, {"a:": '"'}]}}):
        assert read_fast(dict[str, Any], json.dumps(value)) == value


def test_colons_and_quotes_in_texts_are_not_taken_for_keys() -> None:
    parts = ["", ":", "a", '"', "\\", '": ', ":b", '\\"', " :", '"x" : 1, "x": 2', "\n"]
    generator = random.Random(0)
    for _ in range(2_000):
        texts = ["".join(generator.choices(parts, k=generator.randrange(5))) for _ in range(4)]
        value = {texts[0]: texts[1], "b" + texts[2]: [texts[3], {texts[1]: 1}]}
        for separator in (": ", ":", " :"):
            text = json.dumps(value, separators=(", ", separator))
            assert read_fast(dict[str, Any], text) == value
            repeated = f'{text[:-1]}, "b": 1, "b"{separator} 1}}'
            assert read_fast(dict[str, Any], repeated) is NOT_EXACT


class Question(BaseModel):
    role: Literal["user"]
    text: str
    name: str | None = None


class Reply(BaseModel):
    role: Literal["assistant"]
    text: str
    data: dict[str, Any] = {}


def test_a_repeated_key_is_found_wherever_colons_and_spaces_are() -> None:
    """Keys are counted by the quotes before colons, unless a space is between them."""
    chosen = random.Random(5)
    reader = parser_for(list[Question | Reply]).fast_reader
    assert reader is not None
    texts = ["a", "a: b", ":", '":', ' ":', '\\":', "x\\", "\\", '"a": 1', "t\n:"]
    outcomes = set()
    for _ in range(3000):
        records = []
        repeated = False
        for _ in range(chosen.randint(1, 3)):
            role = chosen.choice(["user", "assistant"])
            pairs = [("role", role), ("text", chosen.choice(texts))]
            if role == "user" and chosen.random() < 0.5:
                pairs.append(("name", chosen.choice(texts)))
            if role == "assistant" and chosen.random() < 0.5:
                pairs.append(("data", {chosen.choice(texts): chosen.choice(texts)}))
            if chosen.random() < 0.2:
                pairs.append(("text", chosen.choice(texts)))
                repeated = True
            colon = lambda: chosen.choice([":", ": ", ": ", " :", "\n: "])  # noqa: E731
            body = ", ".join(f"{json.dumps(key)}{colon()}{json.dumps(value)}" for key, value in pairs)
            records.append(f"{{{body}}}")
        text = f"[{', '.join(records)}]"
        is_exact = reader(text) is not NOT_EXACT
        assert is_exact is not repeated, text
        outcomes.add(is_exact)
    assert outcomes == {True, False}
