"""Values of all kinds of types survive encoding, writing and reading."""

from __future__ import annotations

import enum
import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Union

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pydantic import BaseModel, Field, create_model
from typing_extensions import TypedDict

from output_parsers import OutputParsingError, ParserRegistry, TypeParser
from output_parsers.profiles import OPENAI, PROFILES, Profile
from output_parsers.prose.fillers import is_value
from output_parsers.strict import encode_parser

_spec = importlib.util.spec_from_file_location("strict_subset", Path(__file__).with_name("strict_subset.py"))
assert _spec is not None
assert _spec.loader is not None
strict_subset = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(strict_subset)

QUICK = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


class Size(enum.Enum):
    S = "s"
    L = "l"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Tree(BaseModel):
    name: str
    kids: list[Tree] = []
    by_name: dict[str, Tree] = {}
    above: Tree | None = None


class Settings(BaseModel, extra="allow"):
    volume: int = Field(default=3, ge=0, le=11)
    nick: str | None = "joe"
    tags: dict[str, int] = {}


class Patch(TypedDict):
    name: NotRequired[str | None]
    ages: NotRequired[list[int]]


class Point(NamedTuple):
    x: int
    label: str = "here"


@dataclass(frozen=True)
class Cat:
    kind: Literal["cat"]
    lives: int = 9
    owner: str | None = None


@dataclass(frozen=True)
class Dog:
    kind: Literal["dog"]
    tricks: tuple[str, ...] = ()
    rank: tuple[int, Size] | None = field(default=None)


@dataclass(frozen=True)
class Shape:
    """A type, and the values that belong to it."""

    form: Any
    values: st.SearchStrategy[Any]


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6).filter(is_value)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
TREES = st.recursive(
    st.builds(Tree, name=WORDS),
    lambda inner: st.builds(
        Tree,
        name=WORDS,
        kids=st.lists(inner, max_size=2),
        by_name=st.dictionaries(WORDS, inner, max_size=2),
        above=inner,
    ),
    max_leaves=4,
)
EXTRA = st.dictionaries(st.sampled_from(["one", "two", "additional_properties_"]), ANY_JSON, max_size=2)
LEAVES = [
    Shape(str, WORDS),
    Shape(int, st.integers()),
    Shape(float, st.floats(allow_nan=False, allow_infinity=False)),
    Shape(bool, st.booleans()),
    Shape(date, st.dates()),
    Shape(Size, st.sampled_from(Size)),
    Shape(Level, st.sampled_from(Level)),
    Shape(Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    Shape(Any, ANY_JSON),
    Shape(dict[str, Any], st.dictionaries(WORDS, ANY_JSON, max_size=2)),
    Shape(dict[int, str], st.dictionaries(st.integers(), WORDS, max_size=2)),
    Shape(
        dict[Literal["a", "b"], int], st.dictionaries(st.sampled_from(["a", "b"]), st.integers(), max_size=2)
    ),
    Shape(Annotated[int, Field(ge=1, multiple_of=2)], st.integers(1, 50).map(lambda n: n * 2)),
    Shape(Annotated[str, Field(min_length=1, pattern="^a+$")], st.integers(1, 9).map(lambda n: "a" * n)),
    Shape(Annotated[list[int], Field(min_length=1)], st.lists(st.integers(), min_size=1, max_size=3)),
    Shape(Point, st.builds(Point, st.integers(), WORDS)),
    Shape(Tree, TREES),
    Shape(
        Settings,
        st.builds(
            lambda extra, **known: Settings(**known, **extra),
            EXTRA,
            volume=st.integers(0, 11),
            nick=st.none() | WORDS,
        ),
    ),
    Shape(
        Patch,
        st.fixed_dictionaries(
            {}, optional={"name": st.none() | WORDS, "ages": st.lists(st.integers(), max_size=2)}
        ),
    ),
    Shape(
        Union[Cat, Dog],  # noqa: UP007
        st.builds(Cat, st.just("cat"), st.integers(), st.none() | WORDS)
        | st.builds(Dog, st.just("dog"), st.lists(WORDS, max_size=2).map(tuple)),
    ),
    Shape(Union[int, list[int], dict[str, int]], st.integers() | st.lists(st.integers(), max_size=2)),  # noqa: UP007
]


def compound(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    return st.one_of(
        inner.map(lambda s: Shape(list[s.form], st.lists(s.values, max_size=2))),  # type: ignore[name-defined]
        inner.map(lambda s: Shape(dict[str, s.form], st.dictionaries(WORDS, s.values, max_size=2))),  # type: ignore[name-defined]
        st.tuples(inner, inner).map(
            lambda p: Shape(tuple[p[0].form, p[1].form], st.tuples(p[0].values, p[1].values))  # type: ignore[misc]
        ),
        inner.filter(lambda s: s.form is not Any).map(
            lambda s: Shape(Optional[s.form], st.none() | s.values)  # noqa: UP045
        ),
        st.lists(inner, min_size=1, max_size=3).map(as_model),
    )


def as_model(parts: list[Shape]) -> Shape:
    names = ["name", "first_value", "kind"]
    fields: dict[str, Any] = {n: (p.form, ...) for n, p in zip(names, parts, strict=False)}
    fields["later"] = (Optional[parts[0].form], None)  # noqa: UP045
    cls: Any = create_model("Model", **fields)
    named = {n: p.values for n, p in zip(names, parts, strict=False)}
    return Shape(cls, st.builds(cls, **named, later=st.none() | parts[0].values))


SHAPES = st.recursive(st.sampled_from(LEAVES), compound, max_leaves=4)


@st.composite
def typed_values(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Any, Any]:
    shape = draw(SHAPES)
    return shape.form, draw(shape.values)


def parser_of(form: Any) -> TypeParser[Any]:
    parser = ParserRegistry().parser_for(form)
    assert isinstance(parser, TypeParser)
    return parser


def plain(value: Any) -> Any:
    """Return the JSON of a value without any encoding."""
    if isinstance(value, BaseModel):
        return {name: plain(item) for name, item in value}
    if hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in type(value).__dataclass_fields__}
    if isinstance(value, Level):
        return value.name
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value


def plain_reply(form: Any, value: Any, profile: Profile) -> Any:
    """Return the plain JSON of a value, in an envelope if the profile requires an object."""
    parser = parser_of(form)
    bare = parser.plain_text or (profile.object_root and "properties" not in (parser.schema or {}))
    return {"value": plain(value)} if bare else plain(value)


@QUICK
@given(typed_values())
def test_an_encoded_value_is_read_back(typed: tuple[Any, Any]) -> None:
    form, value = typed
    parser, encoding = encode_parser(parser_of(form), OPENAI)
    assert encoding.lossless
    assert strict_subset.problems_of(encoding.schema) == []
    assert parser.schema == encoding.schema
    text = json.dumps(encoding.encode(plain_reply(form, value, OPENAI)))
    reading = parser.read(text)
    assert reading.value == value
    assert type(reading.value) is type(value)
    assert not any(step.rule == "encoding left out" for step in reading.coercions)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
@settings(QUICK, max_examples=80)
@given(typed_values())
def test_an_encoded_value_is_read_back_for_each_profile(profile: Profile, typed: tuple[Any, Any]) -> None:
    form, value = typed
    parser, encoding = encode_parser(parser_of(form), profile)
    if not encoding.lossless:
        assert any(not finding.lossless for finding in encoding.findings)
        return
    assert set(keywords_of(encoding.schema)) <= profile.keywords
    text = json.dumps(encoding.encode(plain_reply(form, value, profile)))
    assert parser.read(text).value == value


def keywords_of(schema: Any) -> list[str]:
    if not isinstance(schema, dict):
        return []
    below = [
        *schema.get("anyOf", []),
        *schema.get("prefixItems", []),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    below += [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    return [*schema, *(keyword for part in below for keyword in keywords_of(part))]


@QUICK
@given(typed_values())
def test_a_plain_reply_is_read_as_its_value_or_refused(typed: tuple[Any, Any]) -> None:
    form, value = typed
    parser, encoding = encode_parser(parser_of(form), OPENAI)
    try:
        reading = parser.read(json.dumps(plain(value)))
    except OutputParsingError:
        return
    if encoding.identity or any(step.rule == "encoding left out" for step in reading.coercions):
        assert reading.value == value


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
@pytest.mark.parametrize("shape", LEAVES, ids=lambda shape: str(shape.form))
def test_each_type_keeps_strict_mode(shape: Shape, profile: Profile) -> None:
    encoding = encode_parser(parser_of(shape.form), profile)[1]
    assert [str(finding) for finding in encoding.findings if not finding.lossless] == []
    assert encoding.lossless
