"""``lint`` reports the unsupported features of each field, and how they are handled."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from output_parsers import ParserRegistry
from output_parsers.lint import Finding, lint
from output_parsers.profiles import ANTHROPIC, OPENAI, PROFILES


class Address(BaseModel):
    zip: str = Field(min_length=3)


class Person(BaseModel):
    name: str
    home: Address
    tags: dict[str, int]
    at: tuple[int, int]
    data: Any
    nick: str = "joe"


PERSON_FINDINGS = [
    Finding("Address.zip", "minLength", "not sent; enforced when read"),
    Finding("Person.tags", "additional properties", "sent as a list of keys and values"),
    Finding("Person.at", "items by position", "sent as an object with item_0 and so on"),
    Finding("Person.data", "any JSON", "sent as JSON text in a string"),
    Finding("Person.nick", "an optional property", "sent as required; null where it is left out"),
]


def test_the_findings_of_a_type_name_its_fields() -> None:
    assert lint(Person) == PERSON_FINDINGS


def test_lint_accepts_a_parser_and_the_name_of_a_profile() -> None:
    assert lint(ParserRegistry().parser_for(Person), "openai") == PERSON_FINDINGS


def test_the_findings_of_a_schema_name_its_parts() -> None:
    schema = {"type": "object", "properties": {"a/b": {"not": {}}}, "additionalProperties": False}
    assert lint(schema)[0] == Finding("#/properties/a~1b", "not", "not sent; enforced when read")


def test_a_supported_type_has_no_findings() -> None:
    assert lint(list[int]) == []


def test_a_finding_is_written_as_a_line() -> None:
    assert str(lint(dict[str, int], OPENAI)[0]) == (
        "dict[str, int]: additional properties: sent as a list of keys and values"
    )


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_no_profile_gives_strict_mode_up_for_the_type(profile: Any) -> None:
    assert all(finding.lossless for finding in lint(Person, profile))


def test_too_many_optional_fields_give_strict_mode_up() -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"type": "null"} for n in range(25)}}
    closed = {**wide, "additionalProperties": False}
    assert lint(closed, ANTHROPIC) == [
        Finding("#", "25 optional properties, but anthropic allows 24", "strict mode is given up", False)
    ]


def test_an_unknown_profile_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no profile named 'opena'") as caught:
        lint(int, "opena")
    assert str(caught.value) == (
        "there is no profile named 'opena'; the profiles are: openai, gemini, anthropic, llama.cpp, vllm"
    )
