"""An encoded parser asks for the encoded form and also reads the plain one."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from output_parsers import Coercion, OutputParsingError, ParserRegistry, TypeParser, parser_for
from output_parsers.json_schema.parser import schema_parser
from output_parsers.profiles import LLAMA_CPP, OPENAI
from output_parsers.strict import EncodedNode, encode_parser


class Person(BaseModel):
    name: str = Field(min_length=2)
    tags: dict[str, int]
    nick: str = "joe"


class Plain(BaseModel):
    name: str
    nick: str | None = None
    kids: list[Plain]


@dataclass
class Pair:
    both: tuple[int, str]


def parser_of(form: Any) -> TypeParser[Any]:
    parser = ParserRegistry().parser_for(form)
    assert isinstance(parser, TypeParser)
    return parser


def test_the_encoded_form_is_read_without_coercions() -> None:
    parser, encoding = encode_parser(parser_of(Person), OPENAI)
    reading = parser.read('{"name": "Ann", "tags": [{"key": "a", "value": 1}], "nick": null}')
    assert reading.value == Person(name="Ann", tags={"a": 1})
    assert reading.value.nick == "joe"
    assert reading.coercions == ()
    assert not encoding.identity


def test_the_plain_form_is_read_and_recorded() -> None:
    parser, _ = encode_parser(parser_of(Pair), OPENAI)
    reading = parser.read('{"both": [1, "x"]}')
    assert reading.value == Pair((1, "x"))
    assert reading.coercions == (Coercion("$.both", "encoding left out", "", ""),)


def test_a_reply_in_neither_form_is_an_error() -> None:
    parser, _ = encode_parser(parser_of(Pair), OPENAI)
    with pytest.raises(OutputParsingError) as caught:
        parser.parse('{"both": {"item_0": 1}}')
    assert [str(problem) for problem in caught.value.problems] == [
        "$.both.item_1: the required key 'item_1' is missing"
    ]


def test_the_reader_enforces_keywords_that_are_not_sent() -> None:
    parser, _ = encode_parser(parser_of(Person), OPENAI)
    with pytest.raises(OutputParsingError, match=r"\$\.name: string should have at least 2 characters"):
        parser.parse('{"name": "A", "tags": [], "nick": null}')


def test_a_type_whose_encoding_is_the_identity_keeps_its_fast_reader() -> None:
    parser, encoding = encode_parser(parser_of(Plain), OPENAI)
    assert encoding.identity
    assert not isinstance(parser.node, EncodedNode)
    assert parser.fast_reader is not None
    assert parser.schema is not None
    assert parser.schema["required"] == ["name", "nick", "kids"]
    assert parser.parse('{"name": "a", "nick": null, "kids": []}') == Plain(name="a", kids=[])


def test_a_type_that_is_not_an_object_is_sent_in_an_envelope() -> None:
    parser, encoding = encode_parser(parser_of(list[int]), OPENAI)
    assert encoding.identity
    assert parser.parse('{"value": [1, 2]}') == [1, 2]
    text, _ = encode_parser(parser_of(str), LLAMA_CPP)
    assert text.parse('{"value": "a"}') == "a"


def test_the_hint_shows_the_encoded_form() -> None:
    parser, _ = encode_parser(parser_of(Person), OPENAI)
    assert parser.hint == (
        '{"name": string, "tags": [{"key": string, "value": integer}, ...], "nick": string | null}'
    )


def test_a_parser_is_unchanged_if_strict_mode_is_given_up() -> None:
    class Wide(BaseModel):
        __annotations__ = {f"field_{number}": int for number in range(5001)}

    parser = parser_of(Wide)
    same, encoding = encode_parser(parser, OPENAI)
    assert same is parser
    assert not encoding.lossless


def test_an_encoded_parser_is_not_encoded_again() -> None:
    parser, _ = encode_parser(parser_of(Pair), OPENAI)
    again, encoding = encode_parser(parser, OPENAI)
    assert encoding.identity
    assert again.schema == parser.schema
    assert again.parse(json.dumps({"both": {"item_0": 1, "item_1": "x"}})) == Pair((1, "x"))


def test_using_a_parser_does_not_import_the_strict_package() -> None:
    program = (
        "import sys, output_parsers\n"
        "output_parsers.parser_for(int).parse('1')\n"
        "print([name for name in sys.modules if name.startswith('output_parsers.strict')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


@pytest.mark.parametrize("text", ["hello", "", "5 apples", "[1", "truely"])
def test_plain_text_among_further_properties_is_text_in_both_forms(text: str) -> None:
    parser, _ = encode_parser(parser_for(_Open), OPENAI)
    value = json.dumps(text)
    expected = _Open(name="a", note=text)  # type: ignore[call-arg]  # further properties are allowed
    if text[:1] != "[":
        pairs = f'[{{"key": "note", "value": {value}}}]'
        assert parser.parse(f'{{"name": "a", "additional_properties": {pairs}}}') == expected
    assert parser.parse(f'{{"name": "a", "note": {value}}}') == expected


@pytest.mark.parametrize("text", ["5", "true", "null", "1.5"])
def test_json_text_among_further_properties_is_a_value_in_the_strict_form_only(text: str) -> None:
    parser, _ = encode_parser(parser_for(_Open), OPENAI)
    strict = f'{{"name": "a", "additional_properties": [{{"key": "note", "value": "{text}"}}]}}'
    assert parser.parse(strict).model_extra == {"note": json.loads(text)}
    assert parser.parse(f'{{"name": "a", "note": "{text}"}}').model_extra == {"note": text}


def test_broken_pairs_never_become_a_property() -> None:
    parser, _ = encode_parser(parser_for(_Open), OPENAI)
    with pytest.raises(OutputParsingError):
        parser.parse('{"name": "a", "additional_properties": [{"key": "note", "value": "{1"}]}')
    with pytest.raises(OutputParsingError):
        parser.parse('{"name": 5.5, "additional_properties": [{"key": "k", "value": ""}], "x": ')


def test_a_dict_of_any_json_reads_plain_and_empty_text() -> None:
    parser, _ = encode_parser(parser_for(dict[str, Any]), OPENAI)
    pairs = [{"key": "a", "value": "hello"}, {"key": "b", "value": ""}, {"key": "c", "value": "1"}]
    assert parser.parse(json.dumps({"value": pairs})) == {"a": "hello", "b": "", "c": 1}
    assert parser.parse('{"a": "hello", "b": "", "c": "1"}') == {"a": "hello", "b": "", "c": "1"}


def test_an_object_of_an_enum_may_have_its_keys_in_any_order() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [{"x": 1, "y": 2}, "b"]}}, "required": ["a"]}
    parser, encoding = encode_parser(schema_parser(schema, name="t"), OPENAI)
    assert parser.parse('{"a": "{\\"y\\": 2, \\"x\\": 1}"}') == {"a": {"x": 1, "y": 2}}
    assert encoding.encode({"a": {"y": 2, "x": 1}}) == encoding.encode({"a": {"x": 1, "y": 2}})


@pytest.mark.parametrize(
    ("schema", "reply"),
    [
        ({"minLength": 2}, '"12345"'),
        (
            {"anyOf": [{"type": "object", "properties": {"version": {}}}, {"type": "null"}]},
            '{"version": "1.0"}',
        ),
    ],
)
def test_json_text_in_a_reply_without_the_requested_envelope_is_ambiguous(
    schema: dict[str, Any], reply: str
) -> None:
    parser = encode_parser(schema_parser(schema, name="t"), OPENAI)[0]
    with pytest.raises(OutputParsingError, match="in more than one way: with its encoding and without"):
        parser.parse(reply)
    assert parser.parse(parser.write(json.loads(reply))) == json.loads(reply)
