"""Other types that pydantic knows are read strictly; conversions by their validators are recorded."""

from __future__ import annotations

from collections import deque
from datetime import date
from decimal import Decimal
from ipaddress import IPv4Address
from typing import Annotated, Any

import pytest
from pydantic import AnyUrl, BaseModel, BeforeValidator, EmailStr, HttpUrl, Json, PlainValidator, SecretStr
from pydantic.types import Base64Bytes
from pydantic_core import CoreSchema, core_schema

from output_parsers import OutputParsingError, Reading, UnsupportedTypeError, parse, parser_for, read


def problem(tp: Any, text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text)
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (AnyUrl, "https://a.b/c", AnyUrl("https://a.b/c")),
        (HttpUrl, '"https://a.b"', HttpUrl("https://a.b")),
        (IPv4Address, "127.0.0.1", IPv4Address("127.0.0.1")),
        (SecretStr, "abc", SecretStr("abc")),
        (deque[int], "[1, 2]", deque([1, 2])),
        (Base64Bytes, "aGk=", b"hi"),
        (Json[list[int]], '"[1]"', [1]),
        (list[HttpUrl], '["https://a.b"]', [HttpUrl("https://a.b")]),
    ],
)
def test_a_pydantic_type_is_read(tp: Any, text: str, value: object) -> None:
    assert parse(tp, text) == value


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (HttpUrl, "ftp://x", "$: URL scheme should be 'http' or 'https', found \"ftp://x\""),
        (IPv4Address, "x", "$: value error, Expected 4 octets in 'x', found \"x\""),
        (deque[int], '[1, "2"]', '$[1]: input should be a valid integer, found "2"'),
        (deque[float], "[1e400]", "$[0]: expected a number that a float can hold, found 1E+400"),
        (SecretStr, "7", "$: input should be a valid string, found 7"),
    ],
)
def test_no_conversion_goes_unrecorded(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text) == message


def halved(value: Any) -> Any:
    return value / 2


def german(value: Any) -> Any:
    day, month, year = value.split(".")
    return f"{year}-{month}-{day}"


def test_a_before_validator_receives_the_json() -> None:
    reading = read(list[Annotated[int, BeforeValidator(lambda value: value + 1)]], "[1]")
    assert reading.value == [2]
    assert reading.coercions == ()


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (Annotated[date, BeforeValidator(german)], '"04.07.1968"', date(1968, 7, 4)),
        (Annotated[int, BeforeValidator(int)], '"7"', 7),
    ],
)
def test_a_conversion_after_a_validator_is_recorded(tp: Any, text: str, value: object) -> None:
    reading = read(tp, text)
    assert reading.value == value
    assert [step.rule for step in reading.coercions] == ["converted by its validators"]


def test_a_validator_that_runs_before_a_decimal_gets_all_its_digits() -> None:
    reading = read(Annotated[Decimal, BeforeValidator(str)], "0.1000000000000000055")
    assert reading == Reading(Decimal("0.1000000000000000055"))


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (
            Annotated[date, BeforeValidator(german)],
            '"soon"',
            '$: value error, not enough values to unpack (expected 3, got 1), found "soon"',
        ),
        (Annotated[float, BeforeValidator(halved)], '"x"', "$: float refuses the value: "),
        (Annotated[int, BeforeValidator(str)], '"x"', "$: input should be a valid integer, unable to parse"),
        (Annotated[int, PlainValidator(lambda value: 1 // value)], "0", "$: int refuses the value: "),
    ],
)
def test_the_error_of_a_validator_becomes_a_problem(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text).startswith(message)


class Inner(BaseModel):
    x: int


class Outer(BaseModel):
    first: Inner
    second: Inner


def test_the_schema_of_a_pydantic_type_includes_its_definitions() -> None:
    tp = list[Annotated[Outer, BeforeValidator(lambda value: value)]]
    assert parser_for(tp).schema == {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"first": {"$ref": "#/$defs/Inner"}, "second": {"$ref": "#/$defs/Inner"}},
            "required": ["first", "second"],
        },
        "$defs": {
            "Inner": {
                "type": "object",
                "title": "Inner",
                "properties": {"x": {"title": "X", "type": "integer"}},
                "required": ["x"],
            }
        },
    }


def test_the_hint_names_the_type_and_its_format() -> None:
    assert parser_for(HttpUrl).hint == '"HttpUrl (uri)"'
    assert parser_for(deque[int]).hint == "deque[int] (array)"


def test_a_type_whose_package_is_missing_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("email-validator is not installed")

    monkeypatch.setattr("pydantic.networks.import_email_validator", missing)
    with pytest.raises(UnsupportedTypeError) as error:
        parser_for(list[EmailStr])
    assert str(error.value) == (
        "no parser reads EmailStr (in list[EmailStr]): email-validator is not installed; tried: pydantic. "
        "Use a type that one of them reads, or add a ParserFactory for it"
    )


class Celsius:
    """A class of the user that pydantic knows only by its hook."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius) and self.degrees == other.degrees

    def __str__(self) -> str:
        return "warm"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls,
            core_schema.float_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda one: one.degrees),
        )


def test_a_class_with_a_hook_of_pydantic_is_written_as_the_hook_says() -> None:
    parser = parser_for(Celsius)
    assert parser.write(Celsius(21.5)) == "21.5"
    assert parser.parse("21.5") == Celsius(21.5)
