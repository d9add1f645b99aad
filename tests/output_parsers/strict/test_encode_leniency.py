"""A reply in the encoded form is read as leniently as a plain one, and never as another value."""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from output_parsers import Leniency, OutputParsingError, ParserRegistry, TypeParser
from output_parsers.profiles import OPENAI
from output_parsers.strict import encode_parser


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: str
    age: int
    tags: dict[str, int] = {}


class Known(BaseModel):
    nick: str | None = "joe"
    tags: dict[str, int] = {}


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int
    at: tuple[int, str]


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: dict[str, str]
    at: tuple[int, str]


class Wrapper(BaseModel):
    value: int


class Holder(BaseModel):
    inside: Wrapper | None = Wrapper(value=3)


class Shelf(BaseModel):
    top: Wrapper | None = None
    rest: list[Wrapper] = []


class Free(BaseModel):
    model_config = ConfigDict(extra="allow")


class Counted(BaseModel):
    names: ClassVar[list[str]] = []
    name: str
    size: int = 1

    @field_validator("name")
    @classmethod
    def check(cls, name: str) -> str:
        cls.names.append(name)
        if len(name) > 2:
            raise ValueError("it must be shorter")
        return name


class Loose(BaseModel):
    color: Color
    rooms: dict[int, str]
    data: Any


def parser_of(form: Any) -> TypeParser[Any]:
    parser = ParserRegistry().parser_for(form)
    assert isinstance(parser, TypeParser)
    return encode_parser(parser, OPENAI)[0]


PAIRS = '[{"key": "x", "value": 1}]'
ANN = Person(name="A", age=42, tags={"x": 1})


@pytest.mark.parametrize(
    ("form", "text", "value", "coercions"),
    [
        (Person, f'{{"name": "A", "age": "42", "tags": {PAIRS}}}', ANN, ["$.age: number as text"]),
        (Person, f'{{"Name": "A", "age": 42, "tags": {PAIRS}}}', ANN, ["$.Name: key in another form"]),
        (
            Person,
            '{"name": "A", "age": 42, "tags": [{"Key": "x", "value": "1"}]}',
            ANN,
            ["$.tags: key in another form", "$.tags.x: number as text"],
        ),
        (Person, '{"name": "A", "age": 42, "tags": {"x": 1}}', ANN, ["$.tags: encoding left out"]),
        (
            list[Cat | Dog],
            '{"value": [{"kind": "Cat", "lives": "9", "at": {"item_0": "1", "item_1": "b"}}]}',
            [Cat(kind="cat", lives=9, at=(1, "b"))],
            [
                "$.value[0].kind: case or punctuation",
                "$.value[0].lives: number as text",
                "$.value[0].at[0]: number as text",
            ],
        ),
        (
            list[Cat | Dog],
            '[{"kind": "dog", "tricks": [{"key": "a", "value": "b"}], "at": [1, "b"]}]',
            [Dog(kind="dog", tricks={"a": "b"}, at=(1, "b"))],
            ["$.value[0].at: encoding left out", "$: envelope left out"],
        ),
        (Holder, '{"inside": {"value": {"value": 1}}}', Holder(inside=Wrapper(value=1)), []),
        (
            Holder,
            '{"inside": {"value": 1}}',
            Holder(inside=Wrapper(value=1)),
            ["$.inside: encoding left out"],
        ),
        (Holder, '{"inside": {"value": null}}', Holder(inside=None), []),
        (
            Loose,
            '{"color": "Red", "rooms": [{"key": 1, "value": "a"}], "data": "hello"}',
            Loose(color=Color.RED, rooms={1: "a"}, data="hello"),
            ["$.rooms: number as text", "$.data: encoding left out", "$.color: case or punctuation"],
        ),
    ],
)
def test_a_deviation_is_read_and_recorded(form: Any, text: str, value: Any, coercions: list[str]) -> None:
    reading = parser_of(form).read(text)
    assert reading.value == value
    assert [f"{step.path}: {step.rule}" for step in reading.coercions] == coercions


@pytest.mark.parametrize(
    ("form", "text", "problems"),
    [
        (
            Person,
            '{"age": "x", "tags": [{"key": "x", "value": "y"}, {"key": "x", "value": 1}, {"key": "z"}]}',
            [
                '$.tags[1].key: the key appears twice, found "x"',
                "$.tags[2]: expected an object with key and value, found an object with key",
                "$.name: the required field 'name' is missing",
                '$.age: expected an integer, found "x"',
                '$.tags.x: expected an integer, found "y"',
            ],
        ),
        (
            Person,
            '{"name": "A", "age": 42, "tags": 5}',
            ["$.tags: expected an array of keys and values, found 5"],
        ),
        (
            Person,
            '{"name": "A", "age": 42, "tags": {"key": "a", "value": 1}}',
            ["$.tags: it can be read in more than one way, found an object with key, value"],
        ),
        (
            Known,
            '{"nick": null, "tags": {"x": 1}}',
            [
                "$: it can be read in more than one way: with its encoding and without, "
                "found an object with nick, tags"
            ],
        ),
        (
            Loose,
            '{"color": "RED", "rooms": [], "data": "{\\"a\\""}',
            [
                "$.data: expected JSON text in a string: this is not exact JSON: "
                'Expecting \':\' delimiter (at character 4), found "{"a""'
            ],
        ),
        (
            tuple[int, str],
            '{"value": {"item_0": 1, "item_2": "a"}}',
            [
                '$.value.item_2: no item of this name is expected, found "a"',
                "$.value.item_1: the required key 'item_1' is missing",
            ],
        ),
    ],
)
def test_all_problems_are_reported_together_with_their_paths(
    form: Any, text: str, problems: list[str]
) -> None:
    with pytest.raises(OutputParsingError) as caught:
        parser_of(form).parse(text)
    assert [str(problem) for problem in caught.value.problems] == problems


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f'[{{"name": "A", "age": 42, "tags": {PAIRS}}}]', ANN),
        (f'{{"Person": {{"name": "A", "age": 42, "tags": {PAIRS}}}}}', ANN),
        ('Person(name="A", age=42, tags={"x": 1})', ANN),
        ('[TOOL_CALLS]Person[ARGS]{"name": "A", "age": 42, "tags": {"x": 1}}', ANN),
        (
            "Shelf(top={'value': 1}, rest=[{'value': 2}])",
            Shelf(top=Wrapper(value=1), rest=[Wrapper(value=2)]),
        ),
    ],
)
def test_a_record_may_be_written_as_for_its_own_parser(text: str, value: Any) -> None:
    assert parser_of(type(value)).parse(text) == value


@pytest.mark.parametrize("key", ["items", "results", "Person"])
def test_a_list_of_records_may_be_written_as_for_its_own_parser(key: str) -> None:
    record = '{"name": "A", "age": 42, "tags": {"x": 1}}'
    for text in (
        f'{{"{key}": [{record}]}}',
        record,
        f'<tool_call>{{"name": "Person", "arguments": {record}}}',
    ):
        assert parser_of(list[Person]).parse(text) == [ANN]


def test_one_pair_of_a_record_of_any_keys_is_not_taken_for_a_list_around_the_record() -> None:
    for form in (Free, Free | None):
        assert parser_of(form).parse('[{"key": "a", "value": "1"}]') == Free(a=1)  # type: ignore[call-arg]


def test_a_reply_that_ignores_the_encoding_is_validated_once() -> None:
    Counted.names.clear()
    assert parser_of(Counted).parse('[{"name": "A"}]').name == "A"
    with pytest.raises(OutputParsingError, match="shorter"):
        parser_of(Counted).parse('{"Counted": {"name": "ABC", "size": 5}}')
    assert Counted.names == ["A", "ABC"]


def test_without_leniency_only_the_encoded_form_is_read() -> None:
    parser = parser_of(Person)
    assert parser.parse(f'{{"name": "A", "age": 42, "tags": {PAIRS}}}', Leniency.NONE) == ANN
    with pytest.raises(OutputParsingError) as caught:
        parser.parse('{"name": "A", "age": 42, "tags": {"x": 1}}', Leniency.NONE)
    assert [str(problem) for problem in caught.value.problems] == [
        "$.tags: encoding left out is not permitted with Leniency.NONE"
    ]
