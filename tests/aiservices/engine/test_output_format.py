"""Structured output uses the most reliable strategy of a model, and envelopes are removed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from aiservices import (
    AiMessage,
    Capabilities,
    ChatReply,
    JsonObjectFormat,
    JsonSchemaFormat,
    Strategy,
    ToolCall,
)
from aiservices.engine.output_format import OutputFormat, reply_format
from aiservices.engine.strategy_selection import StrategyError, select_strategies
from output_parsers import Coercion, OutputParser, OutputParsingError, Problem, Reading, parser_for

NOTHING = Capabilities()
MODE = Capabilities(json_mode=True)
SCHEMA = Capabilities(json_schema=True, json_mode=True)
STRICT = Capabilities(json_schema=True, strict_schema=True, json_mode=True)
GRAMMAR = Capabilities(json_schema=True, json_mode=True, constrained=True)


@dataclass
class Person:
    name: str
    age: int


PERSON_SCHEMA = {
    "type": "object",
    "title": "Person",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def output_format(form: Any, capabilities: Capabilities, asked: Strategy | None = None) -> OutputFormat:
    strategies = select_strategies(parser_for(form), capabilities, asked, "tiny")
    return strategies.output_format(strategies.options[0])


def reply(text: str) -> ChatReply:
    return ChatReply(AiMessage(text))


def schema_sent(output_format: OutputFormat) -> JsonSchemaFormat:
    assert isinstance(output_format.response_format, JsonSchemaFormat)
    return output_format.response_format


@pytest.mark.parametrize(
    ("capabilities", "strategy", "reason"),
    [
        (NOTHING, Strategy.PROMPT, "tiny supports neither JSON Schema nor tools nor JSON mode"),
        (MODE, Strategy.JSON_MODE, "tiny does not support JSON Schema, but has JSON mode"),
        (SCHEMA, Strategy.JSON_SCHEMA, "tiny supports JSON Schema"),
        (STRICT, Strategy.JSON_SCHEMA, "tiny supports JSON Schema"),
        (GRAMMAR, Strategy.GRAMMAR, "tiny constrains its decoding to a JSON Schema"),
    ],
)
def test_the_strategy_follows_from_what_the_model_can_do(
    capabilities: Capabilities, strategy: Strategy, reason: str
) -> None:
    chosen = output_format(Person, capabilities)
    assert (chosen.strategy, chosen.reasons[0]) == (strategy, reason)


@pytest.mark.parametrize("capabilities", [NOTHING, MODE, STRICT, GRAMMAR])
def test_plain_text_is_requested_without_a_schema(capabilities: Capabilities) -> None:
    chosen = output_format(str, capabilities)
    assert (chosen.strategy, chosen.reasons, chosen.response_format, chosen.instructions) == (
        Strategy.TEXT,
        ("the type is plain text: the reply itself is the value",),
        None,
        "",
    )


def test_text_is_the_reply_itself() -> None:
    assert output_format(str, STRICT).read(reply(' "to be" \n')).value == ' "to be" \n'


@pytest.mark.parametrize(
    ("capabilities", "strategy", "reasons"),
    [
        (NOTHING, Strategy.PROMPT, ("tiny supports neither JSON Schema nor tools nor JSON mode",)),
        (
            STRICT,
            Strategy.JSON_MODE,
            (
                "the type is any JSON, which a schema does not restrict, and tiny has JSON mode",
                "the value is sent in an object, under the key 'value'",
            ),
        ),
        (
            Capabilities(json_schema=True),
            Strategy.PROMPT,
            ("the type is any JSON, which a schema does not restrict",),
        ),
        (GRAMMAR, Strategy.PROMPT, ("the type is any JSON, which a schema does not restrict",)),
    ],
)
def test_any_json_is_not_asked_for_by_a_schema(
    capabilities: Capabilities, strategy: Strategy, reasons: tuple[str, ...]
) -> None:
    chosen = output_format(Any, capabilities)
    assert (chosen.strategy, chosen.reasons) == (strategy, reasons)


def test_a_schema_goes_to_a_strict_provider_strictly() -> None:
    chosen = output_format(Person, STRICT)
    sent = schema_sent(chosen)
    assert (sent.name, sent.schema, sent.strict, chosen.instructions, chosen.reasons) == (
        "Person",
        PERSON_SCHEMA,
        True,
        "",
        ("tiny supports JSON Schema",),
    )


def test_a_schema_goes_to_a_provider_that_is_not_strict_without_strict() -> None:
    assert schema_sent(output_format(Person, SCHEMA)).strict is False


def test_unsupported_schemas_are_encoded_for_strict_mode_and_named_in_reasons() -> None:
    chosen = output_format(dict[str, int], STRICT)
    assert (schema_sent(chosen).strict, chosen.reasons) == (
        True,
        ("tiny supports JSON Schema", "dict[str, int]: sent as a list of keys and values"),
    )
    assert chosen.read(reply('{"value": [{"key": "a", "value": 1}]}')) == Reading({"a": 1})


def test_a_value_that_is_shown_while_it_is_written_keeps_its_shape_and_strictness_is_given_up() -> None:
    strategies = select_strategies(parser_for(dict[str, int]), STRICT, None, "tiny", partial_values=True)
    chosen = strategies.output_format(strategies.options[0])
    assert (schema_sent(chosen).strict, chosen.reasons) == (
        False,
        (
            "tiny supports JSON Schema",
            "strict mode would change the shape of the value, which is shown while it is written; "
            "it is sent without strict",
        ),
    )


def test_a_number_travels_to_a_provider_in_an_envelope() -> None:
    chosen = output_format(int, STRICT)
    assert (schema_sent(chosen).schema, chosen.reasons) == (
        {
            "type": "object",
            "properties": {"value": {"type": "integer"}},
            "required": ["value"],
            "additionalProperties": False,
        },
        ("tiny supports JSON Schema", "the value is sent in an object, under the key 'value'"),
    )


@pytest.mark.parametrize("capabilities", [MODE, SCHEMA, STRICT, GRAMMAR])
def test_an_envelope_is_removed_by_the_parser_that_added_it(capabilities: Capabilities) -> None:
    reading = output_format(list[int], capabilities).read(reply('{"value": [1, 2]}'))
    assert (reading.value, reading.coercions) == ([1, 2], ())


@pytest.mark.parametrize("capabilities", [MODE, SCHEMA, STRICT, GRAMMAR])
def test_an_envelope_that_the_model_left_out_is_not_an_error(capabilities: Capabilities) -> None:
    reading = output_format(list[int], capabilities).read(reply("[1, 2]"))
    assert (reading.value, [step.rule for step in reading.coercions]) == ([1, 2], ["envelope left out"])


@pytest.mark.parametrize("capabilities", [NOTHING, MODE, SCHEMA, STRICT, GRAMMAR])
def test_a_record_travels_without_an_envelope(capabilities: Capabilities) -> None:
    reading = output_format(Person, capabilities).read(reply('{"name": "Ann", "age": 42}'))
    assert (reading.value, reading.coercions) == (Person("Ann", 42), ())


def test_a_record_with_one_field_named_value_is_not_mistaken_for_an_envelope() -> None:
    @dataclass
    class Box:
        value: int

    assert output_format(Box, STRICT).read(reply('{"value": 7}')).value == Box(7)


def test_a_list_of_envelopes_is_asked_for_and_read() -> None:
    @dataclass
    class Box:
        value: int

    assert output_format(list[Box], STRICT).read(reply('{"value": [{"value": 7}]}')).value == [Box(7)]


def test_a_grammar_gets_schema_and_a_hint_in_the_prompt() -> None:
    chosen = output_format(int, GRAMMAR)
    sent = schema_sent(chosen)
    assert (sent.strict, sent.schema["required"], chosen.instructions, chosen.reasons) == (
        True,
        ["value"],
        'Reply with JSON only: {"value": integer}',
        (
            "tiny constrains its decoding to a JSON Schema",
            "the value is sent in an object, under the key 'value'",
            "the prompt has a hint, because the model does not see the schema",
        ),
    )


def test_json_mode_says_in_the_prompt_which_json() -> None:
    chosen = output_format(Person, MODE)
    assert (type(chosen.response_format), chosen.instructions, chosen.reasons) == (
        JsonObjectFormat,
        'Reply with JSON only: {"name": string, "age": integer}',
        ("tiny does not support JSON Schema, but has JSON mode",),
    )


def test_the_prompt_alone_has_the_instructions_of_the_parser() -> None:
    chosen = output_format(Person, NOTHING)
    assert (chosen.response_format, chosen.instructions) == (
        None,
        'Reply with JSON only, in this form:\n{"name": string, "age": integer}',
    )


def test_the_prompt_alone_asks_for_a_number_as_it_is() -> None:
    chosen = output_format(int, NOTHING)
    assert (chosen.instructions, chosen.read(reply("7")).coercions) == (
        "Reply with the value only, in this form: integer",
        (),
    )


@pytest.mark.parametrize(
    "asked", [Strategy.JSON_SCHEMA, Strategy.GRAMMAR, Strategy.JSON_MODE, Strategy.PROMPT]
)
def test_a_strategy_that_the_model_has_can_be_asked_for(asked: Strategy) -> None:
    able = Capabilities(json_schema=True, strict_schema=True, json_mode=True, constrained=True)
    chosen = output_format(Person, able, asked)
    assert (chosen.strategy, chosen.reasons[0]) == (asked, "it was requested")


@pytest.mark.parametrize(
    ("asked", "capabilities", "has"),
    [
        (Strategy.JSON_SCHEMA, MODE, "json_mode"),
        (Strategy.GRAMMAR, STRICT, "json_schema, strict_schema, json_mode"),
        (Strategy.JSON_MODE, NOTHING, "none"),
    ],
)
def test_a_strategy_that_the_model_has_not_is_a_problem(
    asked: Strategy, capabilities: Capabilities, has: str
) -> None:
    with pytest.raises(StrategyError) as caught:
        output_format(Person, capabilities, asked)
    assert str(caught.value) == (f"tiny does not support the strategy {asked}; its capabilities: {has}")


@pytest.mark.parametrize("asked", [Strategy.TEXT, Strategy.PROMPT])
def test_text_can_be_asked_for_in_words(asked: Strategy) -> None:
    assert output_format(str, STRICT, asked).strategy is Strategy.TEXT


@pytest.mark.parametrize("asked", [Strategy.JSON_SCHEMA, Strategy.GRAMMAR, Strategy.JSON_MODE])
def test_structure_asked_for_plain_text_is_a_problem(asked: Strategy) -> None:
    with pytest.raises(StrategyError) as caught:
        output_format(str, STRICT, asked)
    assert str(caught.value) == f"the strategy {asked} needs a structured type, and the type is plain text"


def test_text_asked_for_a_type_with_structure_is_a_problem() -> None:
    with pytest.raises(StrategyError) as caught:
        output_format(Person, STRICT, Strategy.TEXT)
    assert str(caught.value) == "the strategy text is for str; Person needs a structured strategy"


@pytest.mark.parametrize(
    ("form", "name"),
    [
        (list[Person], "list_Person"),
        (int | None, "int_None"),
        (dict[str, list[int]], "dict_str_list_int"),
    ],
)
def test_the_name_of_a_schema_is_one_that_providers_take(form: Any, name: str) -> None:
    assert schema_sent(output_format(form, STRICT)).name == name


class Celsius:
    """Reads ``21 °C``."""

    def __init__(self) -> None:
        self.schema = {"type": "string", "pattern": "^-?[0-9]+ °C$"}

    def format_instructions(self) -> str:
        return "degrees, as in 21 °C"

    def parse(self, text: str) -> int:
        number, _, unit = text.partition(" ")
        if unit != "°C":
            raise OutputParsingError(text, [Problem("$", "expected °C")])
        return int(number)


def test_a_parser_of_the_user_with_a_schema_is_sent_in_an_envelope() -> None:
    parser: OutputParser[int] = Celsius()
    strategies = select_strategies(parser, STRICT, None, "tiny")
    chosen = strategies.output_format(strategies.options[0])
    assert (schema_sent(chosen).schema["properties"], chosen.read(reply('{"value": "21 °C"}')).value) == (
        {"value": {"type": "string", "pattern": "^-?[0-9]+ °C$"}},
        21,
    )


def test_problems_of_a_custom_parser_are_reported_with_their_path() -> None:
    strategies = select_strategies(Celsius(), STRICT, None, "tiny")
    chosen = strategies.output_format(strategies.options[0])
    with pytest.raises(OutputParsingError) as caught:
        chosen.read(reply('{"value": "21 °F"}'))
    assert caught.value.problems == (Problem("$.value", "expected °C"),)


def test_a_method_of_the_reply_itself_has_no_instructions() -> None:
    chosen = reply_format(lambda reply: reply.message)
    assert (chosen.strategy, chosen.reasons, chosen.instructions, chosen.read(reply("x")).value) == (
        Strategy.TEXT,
        ("the method returns the reply itself",),
        "",
        AiMessage("x"),
    )


def reply_with_call(text: str) -> ChatReply:
    return ChatReply(AiMessage(text, (ToolCall("c1", "search", "{}"), ToolCall("c2", "search", "{}"))))


@pytest.mark.parametrize("text", ["", "Let me look that up."])
@pytest.mark.parametrize("form", [str, str | None])
def test_a_call_of_a_tool_that_was_not_offered_is_not_an_answer_in_text(form: Any, text: str) -> None:
    with pytest.raises(OutputParsingError) as caught:
        output_format(form, STRICT).read(reply_with_call(text))
    assert caught.value.problems == (
        Problem("$", "expected the answer as text; the model called search, which was not offered"),
    )


@pytest.mark.parametrize("capabilities", [NOTHING, MODE, STRICT, GRAMMAR])
def test_a_call_of_a_tool_that_was_not_offered_is_not_an_answer_in_json(capabilities: Capabilities) -> None:
    chosen = output_format(Person, capabilities)
    with pytest.raises(OutputParsingError) as caught:
        chosen.read(reply_with_call(" "))
    assert caught.value.problems == (
        Problem("$", "expected the answer as text; the model called search, which was not offered"),
    )
    reading = chosen.read(reply_with_call('{"name": "Ann", "age": 3}'))
    assert reading.value == Person("Ann", 3)
    assert reading.coercions == (Coercion("$", "text beside a call of search", "", ""),)
