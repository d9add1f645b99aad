"""Plain dataclasses are built by pydantic-core from exact JSON, exactly as their nodes would build them."""

from __future__ import annotations

import dataclasses
import enum
import json
from abc import ABC
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, make_dataclass
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import pydantic.dataclasses
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from output_parsers import (
    Description,
    Leniency,
    OutputParsingError,
    ParserRegistry,
    TypeParser,
    ValidatorError,
    parser_for,
)
from output_parsers.json.scanner import read_exact
from output_parsers.parser.fast_path import NOT_EXACT
from output_parsers.prose.fillers import is_value
from output_parsers.result.reading import Cursor

pytestmark = pytest.mark.skipif(
    pydantic.VERSION.startswith("2.12."), reason="before pydantic 2.13, types with floats have no fast path"
)
T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"

    @classmethod
    def _missing_(cls, value: object) -> Mood:
        return cls.BAD


@dataclass
class Item:
    name: str
    price: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    items: list[Item]
    first: Item | None
    color: Color
    state: Literal["open", "closed"]
    counts: dict[str, int]
    by_name: dict[str, Item]
    pair: tuple[int, Item]
    others: tuple[Item, ...]
    amount: Annotated[int, Field(ge=0), Description("in euros")]


class Model(BaseModel):
    a: int
    b: list[int] = []


@dataclass
class WithModel:
    model: Model
    models: list[Model]


@dataclass
class Inherited(Item):
    color: Color


def fast_reader(tp: Any, namespace: dict[str, Any] | None = None) -> Callable[[str], Any] | None:
    parser = ParserRegistry().parser_for(tp, namespace=namespace or globals())
    assert isinstance(parser, TypeParser)
    return parser.fast_reader


def read_fast(tp: Any, text: str) -> Any:
    read = fast_reader(tp)
    assert read is not None
    return read(text)


def read_by_nodes(tp: Any, text: str) -> Any:
    return parser_for(tp).node.read(read_exact(text), Cursor(Leniency.NONE))


ITEM = {"name": "x", "price": 1.5}
ORDER = {
    "items": [ITEM, {"name": "y:", "price": 2}],
    "first": None,
    "color": "red",
    "state": "open",
    "counts": {"a": 1},
    "by_name": {"x": ITEM},
    "pair": [1, ITEM],
    "others": [ITEM],
    "amount": 3,
}


@pytest.mark.parametrize(
    ("tp", "data"),
    [
        (Item, ITEM),
        (Order, ORDER),
        (list[Item], [ITEM, ITEM]),
        (dict[str, Item], {"a": ITEM}),
        (Item | None, None),
        (Inherited, {**ITEM, "color": "blue"}),
        (WithModel, {"model": {"a": 1}, "models": [{"a": 2, "b": [1]}]}),
    ],
)
def test_the_fast_path_builds_the_instances_that_the_nodes_build(tp: Any, data: Any) -> None:
    text = json.dumps(data)
    value = read_fast(tp, text)
    assert value == read_by_nodes(tp, text) != NOT_EXACT
    assert type(value) is type(read_by_nodes(tp, text))
    assert getattr(value, "__dict__", None) == getattr(read_by_nodes(tp, text), "__dict__", None)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "x", "price": 1, "other": 1}',
        '{"name": "x", "price": 1, "price": 1}',
        '{"Name": "x", "price": 1}',
        '{"name": "x"}',
        '{"name": "x", "price": "1"}',
        '{"name": "x", "price": NaN}',
        '{"name": 1, "price": 1}',
        '["x", 1]',
        "null",
    ],
)
def test_inexact_json_for_a_dataclass_is_left_to_the_nodes(text: str) -> None:
    assert read_fast(Item, text) is NOT_EXACT


def test_the_missing_hook_of_an_enum_does_not_run_in_a_dataclass() -> None:
    with pytest.raises(OutputParsingError, match=r'^cannot read the text: \$\.mood: expected one of "good"'):
        parser_for(make_dataclass("Day", [("mood", Mood)])).parse('{"mood": "awful"}')


@dataclass
class Default:
    a: int = 1


@dataclass
class DefaultFactory:
    a: list[int] = field(default_factory=list)


@dataclass
class NotInit:
    a: int
    b: int = field(init=False, default=0)


@dataclass
class WithInitVar:
    a: int
    b: InitVar[int]


@dataclass
class WithClassVar:
    a: int
    b: ClassVar[int] = 0


@dataclass
class PostInit:
    a: int

    def __post_init__(self) -> None:
        self.a += 1


@dataclass
class InheritedPostInit(PostInit):
    b: int


@dataclass
class OwnInit:
    a: int

    def __init__(self, a: int) -> None:
        self.a = a + 1


@dataclass(init=False)
class NoInit:
    a: int


@dataclass
class OwnNew:
    a: int

    def __new__(cls, *args: object, **options: object) -> OwnNew:
        return super().__new__(cls)


@dataclass
class OwnSetattr:
    a: int

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value + 1)


@dataclass
class OwnGetattribute:
    a: int

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


class Doubled:
    """A descriptor without a default, so that its field is required."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            raise AttributeError(self.name)
        return getattr(instance, self.name)

    def __set__(self, instance: Any, value: int) -> None:
        setattr(instance, self.name, value * 2)


@dataclass
class WithDescriptor:
    a: int = Doubled()  # type: ignore[assignment]  # dataclasses asks the descriptor for a default


@dataclass
class Abstract(ABC):
    a: int


@dataclass
class Box(Generic[T]):
    value: T


@dataclass
class Failing(ValueError):
    a: int


class NotDecorated(Item):
    pass


@dataclass
class Tree:
    children: list[Tree]


@pydantic.dataclasses.dataclass
class OfPydantic:
    a: int


class Holder(BaseModel):
    item: Item


@pytest.mark.parametrize(
    ("tp", "data"),
    [
        (Default, {}),
        (Default, {"a": 2}),
        (DefaultFactory, {}),
        (DefaultFactory, {"a": [1, 2]}),
        (NotInit, {"a": 1}),
        (WithInitVar, {"a": 1, "b": 2}),
        (WithClassVar, {"a": 1}),
        (PostInit, {"a": 1}),
        (InheritedPostInit, {"a": 1, "b": 2}),
        (OwnInit, {"a": 1}),
        (OwnNew, {"a": 1}),
        (OwnSetattr, {"a": 1}),
        (OwnGetattribute, {"a": 1}),
        (WithDescriptor, {"a": 1}),
        (Abstract, {"a": 1}),
        (Box[int], {"value": 1}),
        (NotDecorated, ITEM),
        (Failing, {"a": 1}),
        (list[Default], [{}, {"a": 2}]),
        (make_dataclass("WithPostInitBelow", [("a", PostInit)]), {"a": {"a": 1}}),
        (make_dataclass("WithDefaultsBelow", [("a", list[Default])]), {"a": [{}, {"a": 1}]}),
    ],
)
def test_the_fast_path_calls_the_constructor_of_a_dataclass_with_defaults_or_code(tp: Any, data: Any) -> None:
    value, expected = read_fast(tp, json.dumps(data)), read_by_nodes(tp, json.dumps(data))
    assert (type(value), repr(value)) == (type(expected), repr(expected))
    assert getattr(value, "__dict__", None) == getattr(expected, "__dict__", None)


def test_a_dataclass_that_cannot_be_created_is_left_to_the_nodes() -> None:
    assert read_fast(NoInit, '{"a": 1}') is NOT_EXACT


@pytest.mark.parametrize(
    "tp",
    [
        Tree,
        OfPydantic,
        Holder,
        make_dataclass("WithUnion", [("a", bytes | str)]),
        make_dataclass("WithMissingHook", [("a", Mood)]),
    ],
)
def test_a_dataclass_with_fields_of_another_kind_is_left_to_the_nodes(tp: Any) -> None:
    assert fast_reader(tp) is None


@pytest.mark.parametrize(
    ("tp", "values"),
    [(PostInit, {"a": 2}), (OwnInit, {"a": 2}), (OwnSetattr, {"a": 2}), (WithDescriptor, {"a": 2})],
)
def test_code_of_a_dataclass_runs_as_in_its_constructor(tp: Any, values: dict[str, int]) -> None:
    assert vars(parser_for(tp).parse('{"a": 1}')) in (values, {"_a": 2})


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (ValueError("odd"), OutputParsingError, "Odd refuses the values: odd"),
        (KeyError("odd"), ValidatorError, "a validator of Odd failed with KeyError: 'odd'"),
    ],
)
def test_only_a_value_error_in_post_init_is_a_problem_of_the_reply(
    error: Exception, raised: type[Exception], message: str
) -> None:
    def fail(self: object) -> None:
        raise error

    tp = make_dataclass("Odd", [("a", int)], namespace={"__post_init__": fail})
    with pytest.raises(raised, match=message):
        parser_for(tp).parse('{"a": 1}')


def test_a_foreign_error_in_post_init_is_not_swallowed() -> None:
    def fail(self: object) -> None:
        raise OSError("disk")

    tp = make_dataclass("Odd", [("a", int)], namespace={"__post_init__": fail})
    with pytest.raises(OSError, match="disk"):
        parser_for(tp).parse('{"a": 1}')


def test_aliases_validators_and_configurations_of_pydantic_have_no_effect_on_a_plain_dataclass() -> None:
    @dataclass
    class Odd:
        __pydantic_config__: ClassVar[ConfigDict]
        a: Annotated[str, Field(alias="b")]

        @field_validator("a")
        @classmethod
        def upper(cls, value: str) -> str:
            return value.upper()

    Odd.__pydantic_config__ = ConfigDict(extra="forbid", str_to_upper=True)
    parser = parser_for(Odd)
    assert parser.parse('{"a": "x"}').a == "x"
    with pytest.raises(OutputParsingError):
        parser.parse('{"b": "x"}')


def test_names_in_annotations_mean_what_the_namespace_says() -> None:
    @dataclass
    class Inner:
        a: int

    Local = dataclass(type("Local", (), {"__annotations__": {"item": "Item", "inner": "Inner"}}))
    read = fast_reader(Local, {"Item": Inner, "Inner": Item})
    assert read is not None
    value = read('{"item": {"a": 1}, "inner": {"name": "x", "price": 1}}')
    assert (value.item, value.inner) == (Inner(1), Item("x", 1.0))


class Shout:
    schema = None

    def format_instructions(self) -> str:
        return ""

    def parse(self, text: str) -> str:
        return text.upper()


def test_a_field_with_a_parser_of_the_user_is_left_to_the_nodes() -> None:
    registry = ParserRegistry((lambda target, _: Shout() if target.type is str else None,))
    parser = registry.parser_for(Item)
    assert isinstance(parser, TypeParser)
    assert parser.fast_reader is None
    assert parser.parse('{"name": "x", "price": 1}') == Item("X", 1.0)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5).filter(is_value)
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, TEXT),
    (bool, st.booleans()),
    (Color, st.sampled_from(["red", "blue"])),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (type(None), st.none()),
    (Annotated[int, Field(ge=0)], st.integers()),
]
NOISE = st.one_of(st.none(), st.booleans(), st.integers(), TEXT, st.just([]), st.just({}))
Typed = tuple[Any, st.SearchStrategy[Any]]


def containers(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.one_of(
        inner.map(lambda p: (list[p[0]], st.lists(p[1], max_size=2))),  # type: ignore[name-defined]  # at runtime
        inner.map(lambda p: (dict[str, p[0]], st.dictionaries(TEXT, p[1], max_size=2))),  # type: ignore[name-defined]  # at runtime
        inner.map(lambda p: (p[0] | None, st.none() | p[1])),
        st.tuples(inner, inner).map(
            lambda p: (tuple[p[0][0], p[1][0]], st.tuples(p[0][1], p[1][1]).map(list))
        ),  # type: ignore[misc]  # at runtime
        records(inner),
    )


@st.composite
def records(draw: Any, inner: st.SearchStrategy[Typed]) -> Typed:
    parts = draw(st.lists(inner, min_size=1, max_size=3))
    options = draw(st.fixed_dictionaries({key: st.booleans() for key in ("frozen", "slots", "kw_only")}))
    cls = make_dataclass(
        "Record", [(name, tp) for name, (tp, _) in zip("abc", parts, strict=False)], **options
    )
    return cls, st.fixed_dictionaries({name: values for name, (_, values) in zip("abc", parts, strict=False)})


TYPES = records(st.recursive(st.sampled_from(SCALARS), containers, max_leaves=5))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_fast_path_and_the_nodes_agree_on_any_plain_dataclass(data: st.DataObject) -> None:
    tp, values = data.draw(TYPES)
    value = data.draw(values)
    if data.draw(st.booleans()):  # an unknown key, or a value of any other type
        value = {**value, data.draw(st.sampled_from(["a", "A", "x"])): data.draw(NOISE)}
    text = json.dumps(value)
    read = parser_for(tp).fast_reader
    assert read is not None
    fast = read(text)
    if fast is NOT_EXACT:
        return
    slow = read_by_nodes(tp, text)
    assert (fast, repr(fast)) == (slow, repr(slow))
    assert [list(vars(each)) for each in (fast, slow) if hasattr(each, "__dict__")] in (
        [],
        [[part.name for part in dataclasses.fields(tp)]] * 2,
    )
