"""The quick check for supported schemas agrees with building their codecs."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from output_parsers import ParserRegistry, TypeParser
from output_parsers.profiles import ANTHROPIC, OPENAI, PROFILES, Profile
from output_parsers.strict import EncodingError, encode_parser
from output_parsers.strict.codec import SchemaLocation
from output_parsers.strict.encode import build_encoding, is_supported


class Size(Enum):
    S = "s"
    L = "l"


class Address(BaseModel):
    street: str
    number: Annotated[int, Field(ge=1)]


class Person(BaseModel):
    """A person."""

    name: str
    size: Size
    homes: list[Address]
    nick: str | None
    boss: Person | None


class Short(BaseModel):
    name: str = Field(min_length=2)
    kind: Literal["a"]


FORMS = [
    int,
    str,
    bool,
    float,
    list[int],
    Size,
    Address,
    Person,
    list[Person],
    int | str,
    Short,
    dict[str, int],
]


def schema_of(form: Any, profile: Profile) -> Any:
    parser = ParserRegistry().parser_for(form)
    assert isinstance(parser, TypeParser)
    return encode_parser(parser.with_envelope(), profile)[1].schema


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_supported_schema_is_sent_unchanged_by_its_codecs_too(form: Any, profile: Profile) -> None:
    schema = schema_of(form, profile)
    if is_supported(schema, profile):
        encoding = build_encoding(schema, profile, SchemaLocation("#", of_type=False))
        assert (encoding.schema, encoding.identity, encoding.lossless, encoding.findings) == (
            schema,
            True,
            True,
            (),
        )


def test_closed_records_are_supported() -> None:
    assert [form for form in FORMS if not is_supported(schema_of(form, OPENAI), OPENAI)] == []
    assert not is_supported(schema_of(Person, OPENAI), ANTHROPIC)  # it supports neither recursion nor bounds


def test_values_of_a_supported_schema_are_checked() -> None:
    parser = ParserRegistry().parser_for(Address)
    assert isinstance(parser, TypeParser)
    encoding = encode_parser(parser, OPENAI)[1]
    value = {"street": "a", "number": 1}
    assert encoding.encode(value) == encoding.decode(value) == value
    with pytest.raises(EncodingError) as caught:
        encoding.encode({"street": "a", "number": 0})
    assert str(caught.value) == "$.number: expected at least 1, found 0"
