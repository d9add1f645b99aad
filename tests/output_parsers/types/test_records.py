"""Records of every kind are read field by field; schema, instructions and parser agree on their fields."""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import math
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
    cast,
)

import attrs
import msgspec
import pydantic
import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    field_validator,
    model_validator,
)
from typing_extensions import ReadOnly

from output_parsers import (
    Description,
    Leniency,
    OutputParsingError,
    UnsupportedTypeError,
    parse,
    parser_for,
    read,
)

T = TypeVar("T")


def problem(tp: Any, text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text)
    return "; ".join(map(str, error.value.problems))


def properties(tp: Any) -> dict[str, Any]:
    schema = parser_for(tp).schema
    assert schema is not None
    result: dict[str, Any] = schema["properties"]
    return result


def required(tp: Any) -> list[str]:
    schema = parser_for(tp).schema
    assert schema is not None
    names: list[str] = schema["required"]
    return names


# ── All kinds of records ───────────────────────────────────────────────────────────────────────────


class ModelUser(BaseModel):
    first_name: str
    born: date
    tags: list[str] = Field(default_factory=list)


@dataclass
class DataUser:
    first_name: str
    born: date
    tags: list[str] = field(default_factory=list)


@pydantic.dataclasses.dataclass
class CheckedUser:
    first_name: str
    born: date
    tags: list[str] = field(default_factory=list)


class DictUser(TypedDict):
    first_name: str
    born: date
    tags: NotRequired[list[str]]


class TupleUser(NamedTuple):
    first_name: str
    born: date
    tags: list[str] = []  # noqa: RUF012  # a NamedTuple has no other kind of default


@attrs.define
class AttrsUser:
    first_name: str
    born: date
    tags: list[str] = attrs.field(factory=list)


class StructUser(msgspec.Struct):
    first_name: str
    born: date
    tags: list[str] = msgspec.field(default_factory=list)


USERS = [ModelUser, DataUser, CheckedUser, DictUser, TupleUser, AttrsUser, StructUser]


@pytest.mark.parametrize("cls", USERS)
def test_a_record_is_made_from_its_fields(cls: Any) -> None:
    text = '{"first_name": "Ann", "born": "1968-07-04", "tags": ["a"]}'
    assert parse(cls, text) == cls(first_name="Ann", born=date(1968, 7, 4), tags=["a"])


@pytest.mark.parametrize("cls", USERS)
def test_a_field_with_a_default_may_be_omitted(cls: Any) -> None:
    result = parse(cls, '{"first_name": "Ann", "born": "1968-07-04"}')
    assert result == cls(first_name="Ann", born=date(1968, 7, 4))
    assert required(cls) == ["first_name", "born"]


@pytest.mark.parametrize("cls", USERS)
def test_a_missing_field_and_a_wrong_one_are_both_reported(cls: Any) -> None:
    assert problem(cls, '{"born": "soon"}') == (
        "$.first_name: the required field 'first_name' is missing; "
        '$.born: expected a date (YYYY-MM-DD), found "soon"'
    )


@pytest.mark.parametrize("cls", USERS)
@pytest.mark.parametrize("key", ["firstName", "First Name", "FIRST-NAME", "first_name"])
def test_a_key_in_another_spelling_is_read_as_the_field(cls: Any, key: str) -> None:
    reading = read(cls, f'{{"{key}": "Ann", "born": "1968-07-04"}}')
    assert reading.value == cls(first_name="Ann", born=date(1968, 7, 4))
    steps = [f'$.{key}: key in another form: "{key}" → "first_name"'] if key != "first_name" else []
    assert [str(step).replace('["', ".").replace('"]', "") for step in reading.coercions] == steps


@pytest.mark.parametrize("cls", USERS)
def test_two_keys_for_one_field_are_refused(cls: Any) -> None:
    text = '{"firstName": "Ann", "FirstName": "Bob", "born": "1968-07-04"}'
    assert problem(cls, text) == "$.FirstName: another key refers to 'first_name' too"


@pytest.mark.parametrize("cls", USERS)
def test_an_unknown_key_is_dropped_and_recorded(cls: Any) -> None:
    reading = read(cls, '{"first_name": "Ann", "born": "1968-07-04", "x": 1}')
    assert reading.value == cls(first_name="Ann", born=date(1968, 7, 4))
    assert list(map(str, reading.coercions)) == ["$.x: unknown key left out"]
    with pytest.raises(OutputParsingError, match=r"\$\.x: unknown key left out is not permitted"):
        parse(cls, '{"first_name": "Ann", "born": "1968-07-04", "x": 1}', leniency=Leniency.NONE)


@pytest.mark.parametrize("cls", USERS)
@pytest.mark.parametrize(
    ("text", "result"), [("[]", "an array of 0"), ("7", "7"), ("null", "null"), ('"Ann"', '"Ann"')]
)
def test_json_that_is_not_an_object_is_refused(cls: Any, text: str, result: str) -> None:
    assert problem(cls, text) == f"$: expected an object ({cls.__name__}), found {result}"


@pytest.mark.parametrize("cls", USERS)
def test_schema_and_hint_describe_every_kind_of_record_in_the_same_way(cls: Any) -> None:
    assert parser_for(cls).schema == {
        "type": "object",
        "title": cls.__name__,
        "properties": {
            "first_name": {"type": "string"},
            "born": {"type": "string", "format": "date"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["first_name", "born"],
        "additionalProperties": False,
    }
    assert parser_for(cls).hint == '{"first_name": string, "born": "YYYY-MM-DD", "tags"?: [string, ...]}'


# ── pydantic ────────────────────────────────────────────────────────────────────────────────────────


class Aliased(BaseModel):
    name: str = Field(alias="fullName")
    age: int = Field(validation_alias=AliasChoices("years", "age_in_years"))


def test_an_alias_is_the_key_in_schemas_and_in_replies() -> None:
    assert list(properties(Aliased)) == ["fullName", "years"]
    result = parse(Aliased, '{"fullName": "Ann", "age_in_years": 3}')
    assert (result.name, result.age) == ("Ann", 3)


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(alias="fullName")


def test_a_model_that_is_populated_by_name_accepts_both_names() -> None:
    assert parse(ByName, '{"name": "Ann"}').name == "Ann"
    assert parse(ByName, '{"fullName": "Ann"}').name == "Ann"
    assert list(properties(ByName)) == ["fullName"]


class OnlyByName(BaseModel):
    model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)
    name: str = Field(alias="fullName")


def test_a_model_that_is_read_only_by_name_shows_its_names() -> None:
    assert list(properties(OnlyByName)) == ["name"]
    assert parse(OnlyByName, '{"name": "Ann"}').name == "Ann"


class ByPath(BaseModel):
    city: str = Field(validation_alias=AliasPath("address", "city"))


def test_a_field_with_a_path_as_alias_makes_the_type_unsupported() -> None:
    with pytest.raises(UnsupportedTypeError) as error:
        parser_for(ByPath)
    assert str(error.value) == (
        "no parser reads ByPath: its field 'city' has an alias that is a path into other fields; "
        "tried: records. "
        "Use a type that one of them reads, or add a ParserFactory for it"
    )


class Secretive(ModelUser):
    kept: int = Field(exclude=True)
    shared: ClassVar[int] = 1
    _private: int = PrivateAttr(default=2)


def test_a_model_shows_inherited_and_excluded_fields_but_not_private_ones() -> None:
    assert list(properties(Secretive)) == ["first_name", "born", "tags", "kept"]
    assert parse(Secretive, '{"first_name": "A", "born": "1968-07-04", "kept": 5}').kept == 5


class Forbidding(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


def test_a_model_that_forbids_unknown_keys_refuses_them() -> None:
    assert problem(Forbidding, '{"a": 1, "b": 2}') == "$.b: Forbidding has no field of this name"


class Allowing(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


@pytest.mark.parametrize("text", ['{"a": 1, "b": [0.5]}', '```json\n{"a": 1, "b": [0.5]}\n```'])
def test_a_model_that_allows_unknown_keys_keeps_them_as_plain_json(text: str) -> None:
    result = parse(Allowing, text)
    assert result.model_extra == {"b": [0.5]}
    assert type(result.model_extra["b"][0]) is float


def test_an_unknown_key_beyond_a_float_is_refused() -> None:
    assert problem(Allowing, '{"a": 1, "b": 1e400}') == (
        "$.b: expected a number that a float can hold, found 1E+400"
    )


class Checked(BaseModel):
    low: int
    high: int

    @field_validator("low")
    @classmethod
    def positive(cls, value: int) -> int:
        if value < 0:
            raise ValueError("must not be negative")
        return value

    @model_validator(mode="after")
    def ordered(self) -> Checked:
        if self.low > self.high:
            raise AssertionError("low is above high")
        return self


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"low": -1, "high": 2}', "$.low: value error, must not be negative, found -1"),
        (
            '{"low": 3, "high": 2}',
            "$: assertion failed, low is above high, found an object with low, high",
        ),
    ],
)
def test_the_error_of_a_field_validator_becomes_a_problem_with_the_path_of_the_field(
    text: str, message: str
) -> None:
    assert problem(Checked, text) == message


class Split(BaseModel):
    tags: list[str]
    day: date = date(2000, 1, 1)

    @field_validator("tags", mode="before")
    @classmethod
    def split(cls, value: object) -> object:
        return value.split(",") if isinstance(value, str) else value

    @field_validator("day", mode="before")
    @classmethod
    def german(cls, value: object) -> object:
        return datetime.strptime(str(value), "%d.%m.%Y").date()


@pytest.mark.parametrize("text", ['{"tags": "a,b"}', '```json\n{"tags": "a,b"}\n```', '{"Tags": ["a", "b"]}'])
def test_a_before_validator_receives_the_json_from_prose_and_fences_too(text: str) -> None:
    assert parse(Split, text) == Split(tags=["a", "b"])


def test_a_before_validator_never_receives_a_converted_value() -> None:
    assert parse(Split, '```json\n{"tags": "a", "day": "04.07.1968"}\n```').day == date(1968, 7, 4)


def test_a_field_with_a_before_validator_is_described_by_its_type() -> None:
    assert properties(Split)["tags"] == {"type": "array", "items": {"type": "string"}}
    assert parser_for(Split).hint == '{"tags": [string, ...], "day"?: "YYYY-MM-DD"}'


class Loose(BaseModel):
    count: int
    price: Decimal

    @field_validator("count", "price", mode="before")
    @classmethod
    def bare(cls, value: object) -> object:
        return value.strip("~ ") if isinstance(value, str) else value


def test_a_conversion_by_pydantic_after_a_validator_is_recorded() -> None:
    reading = read(Loose, '{"count": "~3", "price": 0.1000000000000000055}')
    assert reading.value == Loose(count=3, price=Decimal("0.1000000000000000055"))
    assert [step.rule for step in reading.coercions] == ["converted by its validators"]


class Whole(BaseModel):
    first: str
    last: str = ""

    @model_validator(mode="before")
    @classmethod
    def split(cls, data: Any) -> Any:
        if "full" in data:
            first, last = data["full"].split()
            return {"first": first, "last": last}
        return data


@pytest.mark.parametrize(
    "text", ['{"full": "A B"}', '```json\n{"full": "A B"}\n```', '{"First": "A", "Last": "B"}']
)
def test_a_before_validator_of_the_model_receives_the_json_object(text: str) -> None:
    assert parse(Whole, text) == Whole(first="A", last="B")


def test_a_model_that_no_validator_can_repair_reports_what_the_validator_refuses() -> None:
    assert problem(Whole, '{"full": 7}') == (
        "$: Whole refuses the value: 'int' object has no attribute 'split', found an object with full"
    )


class LooseWhole(BaseModel):
    count: int

    @model_validator(mode="before")
    @classmethod
    def inner(cls, data: Any) -> Any:
        return data["data"]


def test_a_conversion_by_pydantic_after_a_model_validator_is_recorded() -> None:
    reading = read(LooseWhole, '{"data": {"count": "3"}}')
    assert reading.value.count == 3
    assert list(map(str, reading.coercions)) == [
        "$: converted by its validators: an object with data → count=3"
    ]


class Box(BaseModel, Generic[T]):
    content: T
    inner: Box[T] | None = None


def test_a_generic_model_resolves_its_type_variables_and_references_to_itself() -> None:
    result = parse(Box[int], '```json\n{"content": "1", "inner": {"content": 2}}\n```')
    assert result == Box[int](content=1, inner=Box[int](content=2))
    assert problem(Box[int], '{"content": "x"}') == '$.content: expected an integer, found "x"'


Number = TypeVar("Number", bound=int)


@dataclass
class Held(Generic[Number]):
    count: Number


@dataclass
class Shelf(Generic[T]):
    box: Box[T]
    bare: Held
    sizes: list[int]
    thing: T


def test_type_variables_are_replaced_everywhere_in_a_type() -> None:
    text = '{"box": {"content": 1}, "bare": {"count": 1}, "sizes": [1], "thing": 2}'
    assert problem(Shelf[int], text.replace("2", '"y"')) == '$.thing: expected an integer, found "y"'
    assert problem(Shelf[int], text.replace('content": 1', 'content": "y"')) == (
        '$.box.content: expected an integer, found "y"'
    )


class Tags(RootModel[list[str]]):
    pass


class Percent(RootModel[Annotated[int, Field(ge=0, le=100)]]):
    pass


class Tree(RootModel[dict[str, "Tree"]]):
    pass


def test_a_root_model_reads_its_wrapped_value() -> None:
    assert parse(Tags, '["a"]') == Tags(["a"])
    assert parse(Percent, "forty two") == Percent(42)
    assert parse(Tree, '{"a": {"b": {}}}') == Tree({"a": Tree({"b": Tree({})})})


def test_a_root_model_shows_and_enforces_the_constraints_of_its_root() -> None:
    assert parser_for(Percent).schema == {"type": "integer", "minimum": 0, "maximum": 100}
    assert problem(Percent, "101") == "$: input should be less than or equal to 100, found 101"


class CheckedTags(RootModel[list[str]]):
    @model_validator(mode="after")
    def some(self) -> CheckedTags:
        if not self.root:
            raise ValueError("no tags")
        return self


def test_the_error_of_a_root_model_becomes_a_problem() -> None:
    assert problem(CheckedTags, "[]") == "$: value error, no tags, found an array of 0"


@pydantic.dataclasses.dataclass(config=ConfigDict(extra="forbid"))
class CheckedPoint:
    x: Annotated[int, Field(ge=0, alias="X")]
    y: int = field(init=False, default=3)


def test_aliases_constraints_and_config_of_a_pydantic_dataclass_are_honored() -> None:
    assert parse(CheckedPoint, '{"X": 1}') == CheckedPoint(X=1)  # type: ignore[call-arg]
    assert list(properties(CheckedPoint)) == ["X"]
    assert problem(CheckedPoint, '{"X": -1}') == "$.X: input should be greater than or equal to 0, found -1"
    assert problem(CheckedPoint, '{"X": 1, "z": 1}') == "$.z: CheckedPoint has no field of this name"


# ── dataclass ───────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Base:
    a: int
    shared: ClassVar[int] = 7


@dataclass
class Derived(Base):
    scale: InitVar[int]
    made: int = field(init=False)
    _: KW_ONLY
    named: str = "x"

    def __post_init__(self, scale: int) -> None:
        self.made = self.a * scale


def test_a_dataclass_has_inherited_init_only_and_keyword_fields() -> None:
    result = parse(Derived, '{"a": 2, "scale": 3, "named": "y"}')
    assert (result.a, result.made, result.named) == (2, 6, "y")
    assert list(properties(Derived)) == ["a", "scale", "named"]
    assert required(Derived) == ["a", "scale"]


@dataclass
class Cell(Generic[T]):
    content: T
    more: list[Cell[T]] = field(default_factory=list)


@dataclass
class IntCell(Cell[int]):
    unit: str = ""


@pytest.mark.parametrize("cls", [Cell[int], IntCell])
def test_a_generic_dataclass_resolves_its_type_variables(cls: Any) -> None:
    assert parse(cls, '{"content": 1, "more": [{"content": "2"}]}') == (getattr(cls, "__origin__", cls))(
        1, [Cell(2)]
    )
    assert problem(cls, '{"content": 1, "more": [{"content": "x"}]}') == (
        '$.more[0].content: expected an integer, found "x"'
    )


@dataclass
class Span:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")
        _ = 1 / self.high


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"low": 2, "high": 1}', "$: Span refuses the values: low is above high"),
        ('{"low": 0, "high": 0}', "$: Span refuses the values: division by zero"),
    ],
)
def test_the_error_of_a_dataclass_becomes_a_problem(text: str, message: str) -> None:
    assert problem(Span, text) == f"{message}, found an object with low, high"


def test_a_dataclass_made_at_run_time_is_read() -> None:
    cls: Any = dataclasses.make_dataclass("Made", [("a", int), ("b", "str", "x")])
    assert parse(cls, '{"a": 1}') == cls(1)


# ── TypedDict and NamedTuple ────────────────────────────────────────────────────────────────────────


class Partly(TypedDict, total=False):
    a: int
    b: Required[int]


class Extended(Partly):
    c: ReadOnly[int]
    d: NotRequired[Annotated[int, Description("in metres")]]


def test_the_required_keys_of_a_typed_dict_are_known_if_its_annotations_are_strings() -> None:
    assert required(Partly) == ["b"]
    assert required(Extended) == ["b", "c"]
    assert parse(Extended, '{"b": 1, "c": 2}') == {"b": 1, "c": 2}
    assert properties(Extended)["d"] == {"type": "integer", "description": "in metres"}


class Pair(TypedDict, Generic[T]):
    left: T
    right: T


class IntPair(Pair[int]):
    """Two numbers."""

    name: str


def test_a_typed_dict_that_inherits_from_a_generic_one_resolves_its_types() -> None:
    assert parse(Pair[int], '{"left": 1, "right": 2}') == {"left": 1, "right": 2}
    assert problem(IntPair, '{"left": "x", "right": 2, "name": "n"}') == (
        '$.left: expected an integer, found "x"'
    )


def test_a_typed_dict_is_described_by_its_docstring() -> None:
    assert parser_for(IntPair).schema == {
        "type": "object",
        "title": "IntPair",
        "properties": {"left": {"type": "integer"}, "right": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["left", "right", "name"],
        "additionalProperties": False,
        "description": "Two numbers.",
    }


class Both(NamedTuple, Generic[T]):
    one: T
    other: T


def test_a_generic_named_tuple_resolves_its_types() -> None:
    assert parse(Both[int], '{"one": 1, "other": "2"}') == Both(1, 2)


def test_a_named_tuple_without_annotations_accepts_any_json() -> None:
    Point = collections.namedtuple("Point", "x y", defaults=[5])
    assert parse(Point, '{"x": 0.5}') == Point(0.5, 5)


# ── attrs and msgspec ───────────────────────────────────────────────────────────────────────────────


@attrs.define
class Account:
    _owner: str
    balance: int = attrs.field(validator=attrs.validators.ge(0))
    cents: int = attrs.field(default=0, converter=abs, alias="minor")
    made: int = attrs.field(init=False, default=1)


def test_private_names_validators_and_converters_of_an_attrs_class_are_honored() -> None:
    assert parse(Account, '{"owner": "Ann", "balance": 1, "cents": -5}') == Account("Ann", 1, 5)
    assert list(properties(Account)) == ["_owner", "balance", "cents"]
    assert problem(Account, '{"_owner": "Ann", "balance": -1}') == (
        "$.balance: input should be greater than or equal to 0, found -1"
    )


def test_an_attribute_without_a_type_accepts_any_json() -> None:
    @attrs.define(auto_attribs=False)
    class Untyped:
        a = attrs.field()

    assert parse(Untyped, '{"a": [1]}') == Untyped([1])


class Renamed(msgspec.Struct, rename="camel", tag=True, forbid_unknown_fields=True):
    first_name: str
    age: Annotated[int, msgspec.Meta(ge=0, description="in years")] = 0


def test_names_tag_and_constraints_of_a_struct_are_honored() -> None:
    assert parse(Renamed, '{"type": "Renamed", "firstName": "Ann"}') == Renamed("Ann")
    assert properties(Renamed) == {
        "type": {"type": "string", "const": "Renamed"},
        "firstName": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "description": "in years"},
    }
    assert problem(Renamed, '{"type": "Renamed", "firstName": "Ann", "age": -1, "x": 1}') == (
        "$.x: Renamed has no field of this name; $.age: input should be greater than or equal to 0, found -1"
    )


class Limited(msgspec.Struct):
    name: str
    due: int | msgspec.UnsetType
    limit: int | msgspec.UnsetType = msgspec.UNSET
    rate: Annotated[int, msgspec.Meta(ge=0)] | msgspec.UnsetType | None = msgspec.UNSET


def test_a_field_of_a_struct_may_be_unset() -> None:
    assert parse(Limited, '{"name": "a", "due": 1}') == Limited("a", 1)
    assert parse(Limited, '{"name": "a", "limit": 3, "rate": null, "due": 1}') == Limited("a", 1, 3, None)
    assert parser_for(Limited).schema == {
        "type": "object",
        "title": "Limited",
        "properties": {
            "name": {"type": "string"},
            "due": {"type": "integer"},
            "limit": {"type": "integer"},
            "rate": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        },
        "required": ["name", "due"],
        "additionalProperties": False,
    }
    assert problem(Limited, '{"name": "a", "limit": null, "due": 1}') == (
        "$.limit: expected an integer, found null"
    )


class Wide(BaseModel):
    """Asks for NaN and Infinity."""

    model_config = ConfigDict(allow_inf_nan=True)
    a: float
    b: dict[str, list[float]] = {}
    c: float | None = Field(None, ge=0)
    d: float = Field(0.0, allow_inf_nan=False)


class Wider(Wide):
    e: float = 0.0


@pydantic.dataclasses.dataclass(config=ConfigDict(allow_inf_nan=True))
class Spread:
    a: float


class Narrow(BaseModel):
    a: float


NAMES = {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}


@pytest.mark.parametrize("name", ["Infinity", '"Infinity"'])
def test_a_class_may_allow_infinite_floats(name: str) -> None:
    assert parse(Wide, f'{{"a": {name}, "b": {{"x": [{name}]}}, "c": {name}}}') == Wide(
        a=math.inf, b={"x": [math.inf]}, c=math.inf
    )
    assert parse(Wider, f'{{"a": 1, "e": {name}}}') == Wider(a=1, e=math.inf)
    assert parse(Spread, f'{{"a": {name}}}') == Spread(math.inf)
    result = name if name == "Infinity" else '"Infinity"'
    assert problem(Narrow, f'{{"a": {name}}}') == f"$.a: expected a number, found {result}"
    assert problem(Wide, f'{{"a": 1, "d": {name}}}') == f"$.d: expected a number, found {result}"


def test_the_schema_of_such_a_class_names_the_infinite_values() -> None:
    assert properties(Wide) == {
        "a": {"anyOf": [{"type": "number"}, NAMES]},
        "b": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"anyOf": [{"type": "number"}, NAMES]}},
        },
        "c": {"anyOf": [{"anyOf": [{"type": "number", "minimum": 0}, NAMES]}, {"type": "null"}]},
        "d": {"type": "number"},
    }


# ── Descriptions ────────────────────────────────────────────────────────────────────────────────────


class Unit(enum.Enum):
    METRE = "m"
    """the SI unit"""
    FOOT = "ft"


@dataclass
class Described:
    """A body."""

    height: Annotated[int, Description("in metres")]
    mass: int
    """in kilograms"""
    age: int = field(metadata={"description": "in years"})
    unit: Unit = Unit.METRE
    """of the height"""


class DescribedModel(BaseModel):
    """A body."""

    height: int = Field(description="in metres")
    mass: int
    """in kilograms"""
    unit: Unit = Field(Unit.METRE, description="of the height")


@dataclass
class Further(Described):
    extra: int = 0
    """more"""


def test_a_field_is_described_by_annotation_metadata_or_docstring() -> None:
    unit = {"type": "string", "enum": ["m", "ft"], "description": "of the height (m: the SI unit)"}
    assert properties(Described) == {
        "height": {"type": "integer", "description": "in metres"},
        "mass": {"type": "integer", "description": "in kilograms"},
        "age": {"type": "integer", "description": "in years"},
        "unit": unit,
    }
    assert properties(DescribedModel) == {
        "height": {"type": "integer", "description": "in metres"},
        "mass": {"type": "integer", "description": "in kilograms"},
        "unit": unit,
    }


def test_inherited_fields_keep_their_descriptions() -> None:
    assert properties(Further) == {
        **properties(Described),
        "extra": {"type": "integer", "description": "more"},
    }


def test_a_record_is_described_by_its_own_docstring_only() -> None:
    assert (parser_for(Described).schema or {})["description"] == "A body."
    assert "description" not in (parser_for(Further).schema or {})


# ── Types that are not supported ────────────────────────────────────────────────────────────────────


@dataclass
class Unresolved:
    a: Nowhere  # type: ignore[name-defined]  # noqa: F821


def test_an_unknown_name_in_an_annotation_makes_the_type_unsupported() -> None:
    with pytest.raises(UnsupportedTypeError) as error:
        parser_for(list[Unresolved])
    assert str(error.value) == (
        "no parser reads Unresolved (in list[Unresolved]): its annotations cannot be resolved "
        "(name 'Nowhere' is not defined); tried: records. "
        "Use a type that one of them reads, or add a ParserFactory for it"
    )


@dataclass
class Cloud:
    fog: int
    fóg: int


def test_a_key_that_could_mean_two_fields_is_read_as_neither() -> None:
    assert problem(Cloud, '{"FOG": 1, "fóg": 2}') == "$.fog: the required field 'fog' is missing"


@dataclass
class Defaults:
    name: str = ""
    limit: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


class OptionalKeys(TypedDict, total=False):
    a: int
    b: str


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (
            Defaults,
            '{"nme": "Bob", "limit": 50}',
            "$.nme: Defaults has no field of this name; did you mean 'name'?",
        ),
        (Defaults, '{"naem": "Bob"}', "$.naem: Defaults has no field of this name; did you mean 'name'?"),
        (
            Defaults,
            '{"lim": 5, "name": "x"}',
            "$.lim: Defaults has no field of this name; did you mean 'limit'?",
        ),
        (
            Defaults,
            '{"error": "I cannot do that"}',
            "$: the object has none of the keys of Defaults (name, limit, extra), found an object with error",
        ),
        (
            OptionalKeys,
            '{"error": "no"}',
            "$: the object has none of the keys of OptionalKeys (a, b), found an object with error",
        ),
        (
            Defaults,
            '{"wrong": {"name": "x"}}',
            "$: the object has none of the keys of Defaults (name, limit, extra), found an object with wrong",
        ),
    ],
)
def test_a_key_that_may_be_misspelt_is_a_problem(tp: Any, text: str, message: str) -> None:
    with pytest.raises(OutputParsingError) as caught:
        read(tp, text)
    assert "; ".join(map(str, caught.value.problems)) == message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", Defaults()),
        ('{"name": "x", "comment": "unrelated"}', Defaults("x")),
        ('{"name": "x", "limi": null}', Defaults("x")),
        ('{"name": "x", "limit": 1, "limits": 2}', Defaults("x", 1)),
    ],
)
def test_an_unknown_key_that_no_field_lacks_is_left_out(text: str, value: Defaults) -> None:
    assert read(Defaults, text).value == value


@dataclass
class Trip:
    date: str | None = None
    kind: str | None = None
    size: str | None = None
    score: float | None = None
    genre: str | None = None
    rating: float | None = None
    paid: bool = False
    age: int | None = None
    tags: list[str] = field(default_factory=list)
    end: str | None = None
    title: str | None = None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state", "TX"),
        ("rate", "0.19"),
        ("site", "Oslo"),
        ("source", "mail"),
        ("ranking", 12),
        ("tax_id", "DE1"),
        ("image", "a.png"),
        ("stars", ["a"]),
        ("send", True),
        ("time", "10:00"),
        ("explanation", "…"),
    ],
)
def test_another_word_is_not_a_misspelt_key(key: str, value: object) -> None:
    assert read(Trip, json.dumps({"paid": False, key: value})).value == Trip()


@pytest.mark.parametrize(
    ("key", "value", "field_name"),
    [
        ("dtae", "2024", "date"),
        ("scores", {"a": 1}, "score"),
        ("ratng", 3, "rating"),
        ("tag", "a", "tags"),
        ("titel", "x", "title"),
    ],
)
def test_a_misspelt_plural_or_shortened_key_is_a_problem(key: str, value: object, field_name: str) -> None:
    with pytest.raises(OutputParsingError) as caught:
        read(Trip, json.dumps({"paid": False, key: value}))
    message = f"$.{key}: Trip has no field of this name; did you mean {field_name!r}?"
    assert [str(problem) for problem in caught.value.problems] == [message]


@pytest.mark.parametrize("key", ["result", "Answer", "data"])
def test_an_object_in_an_envelope_is_read(key: str) -> None:
    reading = read(Defaults, json.dumps({key: {"name": "x", "limit": 3}}))
    assert reading.value == Defaults("x", 3)
    assert [str(step) for step in reading.coercions] == [f"$.{key}: object in an envelope"]


@dataclasses.dataclass
class Member:
    name: str
    age: int
    joined: date | None = None


@pytest.mark.parametrize(
    "text",
    [
        "name: Ann\nage: 31",
        "Name: Ann\nAge: 31 years",
        "- **name:** Ann\n- **age:** 31",
        "Here are the details:\nName: Ann\nAge: 31",
        '```yaml\nname: "Ann"\nage: 31\n```',
    ],
)
def test_lines_of_keys_and_values_are_a_record(text: str) -> None:
    reading = read(Member, text)
    assert reading.value == Member("Ann", 31)
    assert "lines of keys and values" in [step.rule for step in reading.coercions]


@pytest.mark.parametrize(
    "text",
    [
        "name: Ann",
        "name: Ann\nage: unknown",
        "```json\n```",
        "name: Ann\nage: 31\nThis is wrong.",
        "name: Ann\nage: 31\nage: 32",
        "name: Ann\nage: 31\nnote: this is wrong",
        "Example:\nname: Ann\nage: 31",
        "Here are the details of an example:\nname: Ann\nage: 31",
    ],
)
def test_other_lines_are_not_a_record(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(Member, text)


def test_a_line_that_says_that_there_is_no_value_is_none() -> None:
    @dataclasses.dataclass
    class Contact:
        name: str
        age: int
        email: str | None = "unset"

    assert parse(Contact, "Name: Ann\nAge: 31\nEmail: N/A") == Contact("Ann", 31, None)


# ── What a field's text and a table say ─────────────────────────────


@dataclass
class Patient:
    name: str
    age: int


def test_an_age_in_months_is_not_a_number_of_years() -> None:
    @dataclass
    class Baby:
        name: str
        age: Annotated[int, Field(description="age in months")]

    for age in ("18 months", "5 weeks", "3 days"):
        assert "expected an integer" in problem(Patient, json.dumps({"name": "Ann", "age": age}))
    assert parse(Patient, '{"name": "Ann", "age": "18 years"}') == Patient("Ann", 18)
    assert parse(Baby, '{"name": "Ann", "age": "18 months"}') == Baby("Ann", 18)


def test_the_emphasis_of_a_cell_is_not_part_of_its_value() -> None:
    for cell in ("**Ann**", "*Ann*", "__Ann__", "`Ann`", "Ann"):
        assert parse(Patient, f"| Name | Age |\n|---|---|\n| {cell} | **31** |") == Patient("Ann", 31)


def test_a_record_beside_an_error_is_not_an_answer() -> None:
    @dataclass
    class Person:
        name: str
        age: int

    for error in (
        '"error": "could not extract the person"',
        '"errors": ["no person"]',
        '"error": {"code": 5}',
        '"ok": false',
        '"success": false',
        '"status": "failed"',
    ):
        text = f'{{"name": "ERROR", "age": -1, {error}}}'
        for type_, whole in [(Person, text), (list[Person], f"[{text}]"), (Person | None, text)]:
            with pytest.raises(OutputParsingError, match="there is no answer"):
                parse(cast(Any, type_), whole)
    for harmless in ('"error": null', '"error": "none"', '"errors": []', '"ok": true', '"status": "active"'):
        assert parse(Person, f'{{"name": "Ann", "age": 3, {harmless}}}') == Person("Ann", 3)
