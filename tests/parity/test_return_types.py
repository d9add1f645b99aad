"""Replies as the tests of LangChain4j's output parsers have them, read by a service without JSON Schemas."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Protocol, TypeVar

import pytest
from pydantic import BaseModel, Field

from aiservices import (
    Capabilities,
    Int8,
    Int16,
    Int32,
    Int64,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    create,
)

T = TypeVar("T", covariant=True)


class Asks(Protocol[T]):
    def ask(self, text: str) -> Result[T]: ...


class Priority(Enum):
    HIGH = "HIGH"
    """very urgent"""
    DARK_BLUE = "DARK_BLUE"


@dataclass
class Person:
    name: str
    age: int


class Cat(BaseModel):
    type: Literal["cat"] = "cat"
    name: str
    lives: int


class Dog(BaseModel):
    type: Literal["dog"] = "dog"
    name: str
    breed: str


Pet = Annotated[Cat | Dog, Field(discriminator="type")]
ANN = Person("Ann", 31)


def read(output_type: Any, reply: str) -> Any:
    """Return what a method of a type makes of a reply to the prompt strategy."""
    model = ScriptedChatModel([reply], capabilities=Capabilities())
    return create(Asks[output_type], model, retry=None).ask("x").value


def refusal(output_type: Any, reply: str) -> str:
    with pytest.raises(ServiceOutputError) as caught:
        read(output_type, reply)
    assert caught.value.attempts[0].text == reply
    return str(caught.value)


@pytest.mark.parametrize("reply", ["true", "TRUE", " true ", '{"value": true}', '{"value": "TRUE"}'])
def test_a_boolean_is_read_in_any_case_and_from_an_object_with_a_value(reply: str) -> None:
    assert read(bool, reply) is True
    assert read(bool, reply.lower().replace("true", "false")) is False


@pytest.mark.parametrize("reply", ["yes", "1", "true.", '"true"', '{"value": 1}', "```json\ntrue\n```"])
def test_a_boolean_in_other_words_is_read_too(reply: str) -> None:
    assert read(bool, reply) is True


@pytest.mark.parametrize("reply", ["", "  ", "banana", '{"value": null}', "true or false"])
def test_what_is_not_one_boolean_is_refused(reply: str) -> None:
    assert "expected true or false" in refusal(bool, reply)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("42", 42),
        ("+42", 42),
        ("-42", -42),
        (" 42 ", 42),
        ("42.0", 42),
        ("4.2e1", 42),
        ("٤٢", 42),
        ('{"value": 42}', 42),
        ('{"value": "42"}', 42),
        ("9007199254740993", 2**53 + 1),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1,000", 1000),
        ("```\n42\n```", 42),
    ],
)
def test_an_integer_is_read_exactly(reply: str, value: int) -> None:
    assert read(int, reply) == value


@pytest.mark.parametrize("reply", ["", "42.5", "[42]", "abc", '{"value": 42.5}', '{"value": null}', "1 or 2"])
def test_what_is_not_one_integer_is_refused(reply: str) -> None:
    assert "expected an integer" in refusal(int, reply)


@pytest.mark.parametrize(
    ("sized", "least", "greatest"),
    [
        (Int8, -128, 127),
        (Int16, -32768, 32767),
        (Int32, -(2**31), 2**31 - 1),
        (Int64, -(2**63), 2**63 - 1),
    ],
)
def test_sized_integers_have_the_ranges_of_java(sized: Any, least: int, greatest: int) -> None:
    assert (read(sized, str(least)), read(sized, str(greatest))) == (least, greatest)
    assert "greater than or equal" in refusal(sized, str(least - 1))
    assert "less than or equal" in refusal(sized, str(greatest + 1))


@pytest.mark.parametrize(
    ("reply", "value"),
    [("1.5", 1.5), ("1e3", 1000.0), ("42", 42.0), ('{"value": 1.5}', 1.5), ('{"value": "1.5"}', 1.5)],
)
def test_a_float_is_read(reply: str, value: float) -> None:
    assert read(float, reply) == value


@pytest.mark.parametrize("reply", ["NaN", "Infinity", "0x1p3", "1.5d", "1e400", "1,5", "50%", ""])
def test_what_is_not_clearly_a_finite_float_is_refused(reply: str) -> None:
    assert "expected a number" in refusal(float, reply)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("1e3", "1E+3"),
        ("0.10", "0.10"),
        ('{"value": 0.10000000000000000000000001}', "0.10000000000000000000000001"),
    ],
)
def test_a_decimal_keeps_all_digits(reply: str, value: str) -> None:
    assert str(read(Decimal, reply)) == value


@pytest.mark.parametrize(
    ("output_type", "reply", "value"),
    [
        (date, "1968-07-04", date(1968, 7, 4)),
        (date, '{"value": "1968-07-04"}', date(1968, 7, 4)),
        (time, "23:45", time(23, 45)),
        (time, "23:45:07", time(23, 45, 7)),
        (datetime, "1968-07-04T23:45:00", datetime(1968, 7, 4, 23, 45)),
        (datetime, "1968-07-04T23:45", datetime(1968, 7, 4, 23, 45)),
        (datetime, "1968-07-04 23:45", datetime(1968, 7, 4, 23, 45)),
        (datetime, "1968-07-04T23:45:00Z", datetime(1968, 7, 4, 23, 45, tzinfo=UTC)),
    ],
)
def test_a_date_or_time_is_read(output_type: Any, reply: str, value: object) -> None:
    assert read(output_type, reply) == value


@pytest.mark.parametrize(
    ("output_type", "reply"), [(date, "04.07.1968"), (date, "soon"), (time, "25:00"), (datetime, "")]
)
def test_a_date_that_is_not_clear_is_an_error_of_the_reply(output_type: Any, reply: str) -> None:
    assert "expected a" in refusal(output_type, reply)


@pytest.mark.parametrize(
    "reply",
    [
        "HIGH",
        "high",
        " HIGH ",
        "[HIGH]",
        '["HIGH"]',
        '{"value": "HIGH"}',
        '{"value": ["HIGH"]}',
        '"HIGH"',
        "HIGH.",
        "Priority: HIGH",
        "HIGH - very urgent",
    ],
)
def test_a_member_of_an_enum_is_read(reply: str) -> None:
    assert read(Priority, reply) is Priority.HIGH


@pytest.mark.parametrize("reply", ["DARK_BLUE", "dark_blue", "DARK BLUE", "Dark blue."])
def test_a_member_of_an_enum_with_two_words_is_read(reply: str) -> None:
    assert read(Priority, reply) is Priority.DARK_BLUE


@pytest.mark.parametrize("reply", ["", "PURPLE", "0", "HIGH or DARK_BLUE"])
def test_what_is_not_one_member_of_an_enum_is_refused(reply: str) -> None:
    assert 'expected one of "HIGH", "DARK_BLUE"' in refusal(Priority, reply)


@pytest.mark.parametrize(
    "reply",
    [
        "HIGH\nDARK_BLUE",
        '["HIGH", "DARK_BLUE"]',
        '{"values": ["HIGH", "DARK_BLUE"]}',
        "- HIGH\n- DARK_BLUE",
        "1. HIGH\n2. DARK_BLUE",
        "HIGH, DARK_BLUE",
    ],
)
def test_members_of_an_enum_are_read_from_lines_and_json(reply: str) -> None:
    assert read(list[Priority], reply) == [Priority.HIGH, Priority.DARK_BLUE]
    assert read(set[Priority], reply) == {Priority.HIGH, Priority.DARK_BLUE}


def test_one_wrong_member_refuses_the_whole_list() -> None:
    assert "$[1]" in refusal(list[Priority], "HIGH\nPURPLE")


@pytest.mark.parametrize(
    "reply",
    ["a\nb", '["a", "b"]', '{"values": ["a", "b"]}', "- a\n- b", "1. a\n2. b", '```json\n["a", "b"]\n```'],
)
def test_texts_are_read_from_lines_and_json_without_bullets_and_numbers(reply: str) -> None:
    assert read(list[str], reply) == ["a", "b"]
    assert read(set[str], reply) == {"a", "b"}


@pytest.mark.parametrize("reply", ["[null]", '[{"x": 1}]'])
def test_null_and_objects_are_not_texts(reply: str) -> None:
    assert "$[0]: expected text" in refusal(list[str], reply)


def test_an_empty_reply_is_not_an_empty_list() -> None:
    assert "the reply is empty" in refusal(list[str], "")
    assert read(list[str], "[]") == []


@pytest.mark.parametrize(
    ("output_type", "reply", "value"),
    [
        (list[int], "1\n2", [1, 2]),
        (list[int], '{"values": [1, 2]}', [1, 2]),
        (list[bool], "true\nfalse", [True, False]),
        (list[list[int]], "[[1], [2, 3]]", [[1], [2, 3]]),
        (tuple[int, ...], "[1, 2]", (1, 2)),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (int | None, "null", None),
        (int | None, "5", 5),
        (list[Person], '[{"name": "Ann", "age": 31}]', [ANN]),
        (list[Person], '{"values": [{"name": "Ann", "age": 31}]}', [ANN]),
        (list[Person], '{"name": "Ann", "age": 31}\n{"name": "Bo", "age": 4}', [ANN, Person("Bo", 4)]),
    ],
)
def test_collections_of_any_type_are_read_without_a_schema(output_type: Any, reply: str, value: Any) -> None:
    assert read(output_type, reply) == value


def test_the_values_of_a_map_have_its_type() -> None:
    assert "$.a: expected an integer" in refusal(dict[str, int], '{"a": "x"}')


@pytest.mark.parametrize(
    "reply",
    [
        '{"name": "Ann", "age": 31}',
        'Sure! Here it is: {"name": "Ann", "age": 31} Anything else?',
        '```json\n{"name": "Ann", "age": 31}\n```',
        '<think>{"name": "X", "age": 1}</think>{"name": "Ann", "age": 31}',
        '{"Name": "Ann", "AGE": 31}',
        '{"name": "Ann", "age": "31"}',
        "{'name': 'Ann', 'age': 31,}",
        '{"name": "Ann", "age": 31, "mood": "good"}',
    ],
)
def test_a_record_is_found_in_the_reply(reply: str) -> None:
    assert read(Person, reply) == ANN


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ('{"name": "Ann", "age": 42.7}', "$.age: expected an integer, found 42.7"),
        ('{"name": "Ann", "age": ""}', "$.age: expected an integer"),
        ('{"name": "Ann", "age": null}', "$.age: expected an integer, found null"),
        ('{"name": "Ann"}', "$.age: the required field 'age' is missing"),
        ("{}", "$.name: the required field 'name' is missing"),
        ("null", "expected an object (Person), found null"),
        ('{"name": "Ann", "age": 31', "the JSON is cut off"),
        ('{"name": "Ann", "age": 1} and {"name": "Bo", "age": 2}', "2 different answers"),
        ("", "the reply is empty"),
    ],
)
def test_a_record_is_never_completed_or_guessed(reply: str, problem: str) -> None:
    assert problem in refusal(Person, reply)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"type": "cat", "name": "Tom", "lives": 9}', Cat(name="Tom", lives=9)),
        ('{"value": {"type": "dog", "name": "Rex", "breed": "pug"}}', Dog(name="Rex", breed="pug")),
    ],
)
def test_a_discriminator_chooses_the_class(reply: str, value: Cat | Dog) -> None:
    assert read(Pet, reply) == value


@pytest.mark.parametrize("reply", ['{"type": "cow", "name": "Elsie"}', '{"type": "cat", "name": "Tom"}'])
def test_a_wrong_discriminator_or_a_field_that_is_missing_is_refused(reply: str) -> None:
    assert "$" in refusal(Pet, reply)


def test_lists_of_several_classes_are_read() -> None:
    reply = '[{"type": "cat", "name": "Tom", "lives": 9}, {"type": "dog", "name": "Rex", "breed": "pug"}]'
    assert read(list[Pet], reply) == [Cat(name="Tom", lives=9), Dog(name="Rex", breed="pug")]
