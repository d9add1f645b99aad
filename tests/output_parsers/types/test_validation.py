"""The value of JSON that fits, and the number of runs of each validator, are those of pydantic."""

from __future__ import annotations

import dataclasses
import json
import timeit
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    PlainValidator,
    RootModel,
    TypeAdapter,
    WrapValidator,
    create_model,
)
from pydantic.types import Base64Bytes
from pydantic_core import core_schema
from validator_cases import (
    FIELDS,
    RUNS,
    Point,
    ValidatorCase,
    case_of,
    combinations,
    count,
    pass_on,
    wrap_same,
)

from output_parsers import Description, Leniency, OutputParsingError, parse, parser_for, read
from output_parsers.result.reading import strict_equal


def difference(case: ValidatorCase) -> str | None:
    """Return how parsing differs from pydantic, or None."""
    RUNS.clear()
    try:
        expected: Any = TypeAdapter(case.type).validate_json(case.text)
    except (ValueError, TypeError):
        return None
    runs = RUNS.copy()
    RUNS.clear()
    try:
        value = parse(case.type, case.text)
    except OutputParsingError as error:
        return f"{case.name}: {error}"
    if not strict_equal(value, expected):
        return f"{case.name}: {value!r} instead of {expected!r}"
    return None if runs == RUNS else f"{case.name}: {RUNS} instead of {runs}"


def differences(every: int) -> tuple[int, list[str]]:
    """Compare every such case; return how many were compared, and what differs."""
    chosen = list(combinations())[::every]
    return len(chosen), [text for one in chosen if (text := difference(case_of(one))) is not None]


def test_values_and_runs_of_validators_are_those_of_pydantic() -> None:
    number, different = differences(every=433)  # a prime, so that all kinds are met
    assert number > 200
    assert different == []


@pytest.mark.slow
def test_values_and_runs_of_validators_are_those_of_pydantic_in_thousands_of_types() -> None:
    number, different = differences(every=19)
    assert number > 4000
    assert different == []


# The same values in other JSON.
CONVERTED = {
    "int": '"50"',
    "float": '"2.5"',
    "bool": '"yes"',
    "date": '"29 February 2024"',
    "Enum": '"RED"',
    "list": '["1", 2]',
    "dict": '{"a": "1"}',
    "tuple": '["1", "a"]',
    "model": '{"X": "3"}',
}


def test_pydantic_validates_converted_json_as_if_the_model_had_written_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = [
        one
        for one in combinations()
        if one[0] in CONVERTED and one[2] != "union" and one[1] in ("After", "field after", "model after")
    ][::19]
    different = []
    for one in chosen:
        exact = case_of(one)
        with monkeypatch.context() as patch:
            patch.setitem(FIELDS, one[0], (FIELDS[one[0]][0], CONVERTED[one[0]]))
            text = case_of(one).text
        RUNS.clear()
        expected, runs = TypeAdapter[Any](exact.type).validate_json(exact.text), RUNS.copy()
        RUNS.clear()
        value = parse(exact.type, text)
        if not strict_equal(value, expected) or runs != RUNS:
            different.append(exact.name)
    assert len(chosen) > 50
    assert different == []


class Invoice(BaseModel):
    total: Decimal
    amount: Annotated[int, AfterValidator(count)]


@pytest.mark.parametrize(
    "text",
    [
        '{"total": 10.00, "amount": 5}',
        '{"total": "10.00", "amount": 5}',
        '{"total": 10.00, "amount": "5"}',
        '{"Total": 10.00, "amount": 5, "unknown": 1}',
        'Here it is: {"total": 10.00, "amount": 5}',
        '```json\n{"total": 10.00, "amount": 5,}\n```',
    ],
)
def test_a_validator_runs_once_for_converted_and_repaired_json(text: str) -> None:
    RUNS.clear()
    invoice = parse(Invoice, text)
    assert (invoice.amount, str(invoice.total)) == (("run", 5), "10.00")
    assert RUNS == {"validator": 1}


def refuse(value: object) -> object:
    RUNS["refused"] += 1
    raise ValueError("it is refused")


@pytest.mark.parametrize("other", [int, Decimal])
def test_a_validator_that_refuses_a_value_runs_once(other: Any) -> None:
    record: Any = create_model(
        "Record", field=(Annotated[int, AfterValidator(refuse)], ...), other=(other, ...)
    )
    RUNS.clear()
    with pytest.raises(OutputParsingError) as error:
        parse(record, '{"field": 5, "other": 1}')
    assert list(map(str, error.value.problems)) == ["$.field: value error, it is refused, found 5"]
    assert RUNS == {"refused": 1}


def german(value: Any) -> str:
    day, month, year = value.split(".")
    return f"{year}-{month}-{day}"


class Dated(BaseModel):
    day: Annotated[date, BeforeValidator(german)]


def test_a_validator_that_fails_for_json_of_another_type_refuses_it() -> None:
    reading = read(Dated, '{"day": "04.07.1968"}', leniency=Leniency.NONE)
    assert reading.value == Dated.model_construct(day=date(1968, 7, 4))
    assert [step.rule for step in reading.coercions] == ["converted by its validators"]
    with pytest.raises(OutputParsingError) as error:
        parse(Dated, '{"day": 5}')
    assert list(map(str, error.value.problems)) == [
        "$: Dated refuses the value: 'int' object has no attribute 'split', found an object with day"
    ]


class Twice:
    """Metadata that pydantic asks for the schema of a type."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(count, handler(source))


class Length:
    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_plain_validator_function(len)


@dataclasses.dataclass
class WithHooks:
    count: Annotated[int, Twice()]
    length: Annotated[int, Length()]
    price: Decimal


def test_metadata_that_makes_a_schema_is_used_in_a_dataclass() -> None:
    record = parse(WithHooks, '{"count": "5", "length": "abc", "price": 1.50}')
    assert record == WithHooks(("run", 5), 3, Decimal("1.50"))  # type: ignore[arg-type]  # of the validator


class Encoded(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    file: bytes = Field(description="the picture")
    price: Decimal


def test_bytes_are_read_and_written_in_the_encoding_of_their_class() -> None:
    text = '{"file": "__5oZWxsbw==", "price": 1.50}'
    value = parse(Encoded, text)
    assert value == Encoded.model_validate_json(text)
    assert parser_for(Encoded).write(value) == text
    schema = parser_for(Encoded).schema or {}
    assert schema["properties"]["file"] == {"type": "string", "description": "the picture (base64)"}


@dataclasses.dataclass
class Files:
    one: Base64Bytes
    other: Json[list[int]]


def test_base64_and_json_in_text_are_decoded_once() -> None:
    parser = parser_for(Files)
    assert parser.parse('{"one": "YUdWc2JHOD0=", "other": "[1]"}') == Files(b"aGVsbG8=", [1])
    assert (parser.schema or {})["properties"]["one"] == {"type": "string", "description": "base64"}


@dataclasses.dataclass
class Chain:
    value: int
    next: Annotated[Chain, Description("the rest")] | None = None


class ChainModel(BaseModel):
    value: int
    next: Annotated[ChainModel, Description("the rest")] | None = None


@pytest.mark.parametrize("chain", [Chain, ChainModel])
def test_a_described_recursive_type_is_read(chain: Any) -> None:
    value = parse(Annotated[chain, Description("a chain")], '{"value": 1, "next": {"value": 2}}')
    assert value == chain(value=1, next=chain(value=2))


class Cat(BaseModel):
    kind: Literal["cat"]
    count: Annotated[int, AfterValidator(count)]


class Dog(BaseModel):
    kind: Literal["dog"]
    count: Annotated[int, AfterValidator(count)]
    price: Decimal = Decimal(1)


class Pets(RootModel[list[Cat | Dog]]): ...


@dataclasses.dataclass
class Home:
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    others: dict[str, Cat | Dog]
    price: Decimal


class Street(BaseModel):
    model_config = ConfigDict(extra="allow")
    home: Home
    pets: Pets


_CAT, _DOG = '{"kind": "cat", "count": 1}', '{"kind": "dog", "count": 1, "price": 1.50}'
_HOME = f'{{"pet": {_CAT}, "others": {{"a": {_DOG}}}, "price": 1.50}}'


@pytest.mark.parametrize(
    ("tp", "text"),
    [
        (Cat | Dog, _DOG),
        (Cat | str, '"x"'),
        (list[Cat | Dog], f"[{_CAT}, {_DOG}]"),
        (Pets, f"[{_CAT}, {_DOG}]"),
        (Home, _HOME),
        (Home | Cat, _HOME),
        (Street, f'{{"home": {_HOME}, "pets": [{_DOG}], "other": [1.5]}}'),
        (Annotated[Home, AfterValidator(count)], _HOME),
        (Annotated[int, AfterValidator(count)] | Annotated[float, AfterValidator(count)], "5"),
        (dict[Annotated[str, AfterValidator(count)], int], '{"a": 1}'),
    ],
)
def test_nested_types_are_read_as_by_pydantic(tp: Any, text: str) -> None:
    assert difference(ValidatorCase("nested", tp, text)) is None


def test_a_wide_dataclass_takes_linear_time() -> None:
    seconds = []
    for width in (250, 2000):
        record = dataclasses.make_dataclass("Wide", [(f"field_{number}", int) for number in range(width)])
        text = json.dumps({f"field_{number}": number for number in range(width)})
        parser = parser_for(record)
        assert parser.parse(text) == record(*range(width))
        seconds.append(min(timeit.repeat(partial(parser.parse, text), number=1, repeat=5)))
    assert seconds[1] < 24 * seconds[0]


def test_validators_of_a_reply_that_is_not_json_run_once_and_get_the_array_in_it() -> None:
    runs: list[object] = []

    def split(value: object) -> object:
        runs.append(value)
        return value.split(",") if isinstance(value, str) else value

    def mark(value: object) -> str:
        runs.append(value)
        return f"<{value}>"

    items: Any = Annotated[list[str], BeforeValidator(split)]
    text: Any = Annotated[str, PlainValidator(mark)]
    cases = [
        (items, "a,b", ["a", "b"]),
        (items, 'Here it is:\n```json\n["a"]\n```', ["a"]),
        (items, "red [dark],blue", ["red [dark]", "blue"]),
        (text, "two words", "<two words>"),
    ]
    for form, reply, expected in cases:
        for tp in (form, form | None, form | bool):
            runs.clear()
            assert parse(tp, reply) == expected
            assert len(runs) == 1


def test_base64_with_a_validator_is_written_as_base64() -> None:
    for validator in (AfterValidator(pass_on), BeforeValidator(pass_on), WrapValidator(wrap_same)):
        parser: Any = parser_for(list[Annotated[Base64Bytes, validator]])  # type: ignore[valid-type]
        assert parser.write([b"hello"]) == '["aGVsbG8="]'


def test_a_validator_may_change_a_part_of_a_record_with_defaults_to_another_type() -> None:
    """The keys of the changed value were counted, which failed as if the validator had a mistake."""
    inner: Any = Annotated[dict[str, Point], AfterValidator(count)]
    record = dataclasses.make_dataclass("Record", [("what", list[inner] | None, None), ("more", str, "a")])
    assert parse(record, '{"what": [{"a": {"x": 1}}]}').what == [("run", {"a": Point(x=1)})]
