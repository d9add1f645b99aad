"""Parsers for tool calls work like those of LangChain, and errors name the call and the path."""

from __future__ import annotations

import json
import types
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given, settings, strategies as st
from openai.types.chat import ChatCompletionMessageFunctionToolCall
from openai.types.responses import ResponseFunctionToolCall
from pydantic import BaseModel, ConfigDict, Field

from aiservices import AiMessage, ChatReply, ToolCall
from output_parsers import Coercion, Leniency, OutputParser, OutputParsingError, UnsupportedTypeError
from output_parsers.backslashes import with_clear_escapes
from output_parsers.tool_calls import (
    JsonOutputKeyToolsParser,
    JsonOutputToolsParser,
    PydanticToolsParser,
    ToolCallLike,
)


@dataclass(frozen=True)
class Call:
    name: str
    arguments: str
    id: str | None = None


class NameCollector(BaseModel):
    """Records the names of everyone and a nickname."""

    names: list[str] = Field(description="all names")
    person: dict[str, int | str] = {}


@dataclass
class Forecast:
    temperature: int
    forecast: Literal["sunny", "rain"]


NAMES = Call("NameCollector", '{"names": ["suz", "jermaine"], "person": {"age": 39}}', "call_1")
WEATHER = Call("Forecast", '{"temperature": 25, "forecast": "sunny"}', "call_2")
CALLS = [NAMES, WEATHER]
NAMES_ARGS = {"names": ["suz", "jermaine"], "person": {"age": 39}}
WEATHER_ARGS = {"temperature": 25, "forecast": "sunny"}
NAMES_VALUE = NameCollector(names=["suz", "jermaine"], person={"age": 39})
WEATHER_VALUE = Forecast(25, "sunny")
TYPED: PydanticToolsParser[list[Any]] = PydanticToolsParser(tools=[NameCollector, Forecast])


@pytest.mark.parametrize(
    ("parser", "value", "value_of_none"),
    [
        (TYPED, [NAMES_VALUE, WEATHER_VALUE], []),
        (PydanticToolsParser([NameCollector, Forecast], first_tool_only=True), NAMES_VALUE, None),
        (
            JsonOutputToolsParser(),
            [{"type": "NameCollector", "args": NAMES_ARGS}, {"type": "Forecast", "args": WEATHER_ARGS}],
            [],
        ),
        (
            JsonOutputToolsParser(return_id=True),
            [
                {"type": "NameCollector", "args": NAMES_ARGS, "id": "call_1"},
                {"type": "Forecast", "args": WEATHER_ARGS, "id": "call_2"},
            ],
            [],
        ),
        (
            JsonOutputToolsParser(first_tool_only=True, return_id=True),
            {"type": "NameCollector", "args": NAMES_ARGS, "id": "call_1"},
            None,
        ),
        (JsonOutputKeyToolsParser(key_name="Forecast"), [WEATHER_ARGS], []),
        (JsonOutputKeyToolsParser("Forecast", first_tool_only=True), WEATHER_ARGS, None),
        (
            JsonOutputKeyToolsParser("Forecast", return_id=True),
            [{"type": "Forecast", "args": WEATHER_ARGS, "id": "call_2"}],
            [],
        ),
        (
            JsonOutputKeyToolsParser("Forecast", first_tool_only=True, return_id=True),
            {"type": "Forecast", "args": WEATHER_ARGS, "id": "call_2"},
            None,
        ),
        (JsonOutputKeyToolsParser("Other"), [], []),
        (JsonOutputKeyToolsParser("Other", first_tool_only=True), None, None),
    ],
)
def test_calls_are_returned_in_the_shape_of_langchain(parser: Any, value: Any, value_of_none: Any) -> None:
    assert parser.parse_calls(CALLS) == value
    assert parser.parse_calls([]) == value_of_none
    written = [{"id": call.id, "name": call.name, "arguments": json.loads(call.arguments)} for call in CALLS]
    assert parser.parse(f"I call:\n```json\n{json.dumps(written)}\n```") == value


@pytest.mark.parametrize("arguments", ["", " ", "null", "{}"])
def test_a_call_without_arguments_has_an_empty_dict(arguments: str) -> None:
    assert JsonOutputToolsParser().parse_calls([Call("now", arguments)]) == [{"type": "now", "args": {}}]


def test_arguments_are_read_leniently_and_every_coercion_is_recorded() -> None:
    call = Call("Forecast", "{'temperature': '25', 'forecast': 'Sunny',}")
    reading = TYPED.read_calls([NAMES, call])
    assert reading.value == [NAMES_VALUE, WEATHER_VALUE]
    assert reading.coercions == (
        Coercion("$[1].arguments", "single-quoted string", "", ""),
        Coercion("$[1].arguments", "trailing comma", "", ""),
        Coercion("$[1].arguments.temperature", "number as text", '"25"', "25"),
        Coercion("$[1].arguments.forecast", "case or punctuation", '"Sunny"', '"sunny"'),
    )
    with pytest.raises(OutputParsingError, match=r"not permitted with Leniency\.NONE"):
        TYPED.read_calls([call], leniency=Leniency.NONE)


def test_every_problem_of_every_call_is_reported_with_its_path() -> None:
    calls = [
        Call("NameCollector", '{"names": [1, {}]}'),
        Call("Weather", "{}"),
        Call("Forecast", '{"temperature": 25, "forecast": "snow"}'),
        Call("Forecast", '{"temperature": 25'),
    ]
    with pytest.raises(OutputParsingError) as error:
        TYPED.parse_calls(calls)
    assert error.value.text == "\n".join(f"{call.name}({call.arguments})" for call in calls)
    assert [problem.path for problem in error.value.problems] == [
        "$[0].arguments.names[1]",
        "$[1].name",
        "$[2].arguments.forecast",
        "$[3].arguments",
    ]
    assert str(error.value.problems[1]) == (
        '$[1].name: unknown tool; the tools are: NameCollector, Forecast, found "Weather"'
    )


def test_a_written_call_of_an_unknown_tool_lists_the_tools() -> None:
    text = '[{"name": "Forecast", "arguments": {}}, {"name": "Weather", "arguments": {}}]'
    with pytest.raises(OutputParsingError) as error:
        TYPED.parse(text)
    assert str(error.value) == (
        "cannot read the text: $[1].name: unknown tool; the tools are: NameCollector, Forecast, "
        f'found "Weather" (the text: {text!r})'
    )


def test_a_single_call_as_text_needs_no_array() -> None:
    assert TYPED.parse(f'{{"name": "Forecast", "arguments": {WEATHER.arguments}}}') == [WEATHER_VALUE]
    assert JsonOutputToolsParser(return_id=True).parse('{"name": "now", "arguments": {}}') == [
        {"type": "now", "args": {}, "id": None}
    ]
    with pytest.raises(OutputParsingError, match="the required field 'temperature' is missing"):
        TYPED.parse('{"name": "Forecast", "arguments": {}}')
    with pytest.raises(OutputParsingError, match="cannot read the text"):
        TYPED.parse("I call nothing.")


def test_partial_reading_omits_values_of_incomplete_calls() -> None:
    begun = Call("Forecast", '{"temperature": 25, "fore')
    assert TYPED.parse_calls([NAMES, begun], partial=True) == [NAMES_VALUE]
    first = PydanticToolsParser([NameCollector, Forecast], first_tool_only=True)
    assert first.parse_calls([begun, NAMES], partial=True) is None
    with pytest.raises(OutputParsingError, match="the JSON is cut off"):
        TYPED.parse_calls([NAMES, begun])
    with pytest.raises(OutputParsingError, match="unknown tool"):
        TYPED.parse_calls([Call("Weather", "{}")], partial=True)


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ("", {}),
        ("nul", {}),
        ("{", {}),
        ('{"names', {}),
        ('{"names": ["su', {"names": ["su"]}),
        ('{"names": ["suz", "jer', {"names": ["suz", "jer"]}),
        ('{"names": ["suz"], "person": {"age": 3', {"names": ["suz"], "person": {}}),
        ('{"names": ["suz"], "person": {"age": 39}', {"names": ["suz"], "person": {"age": 39}}),
        ("{'names': ['su", {"names": ["su"]}),
        ('{"degrees": 2.5, "wet": true, "wind": null, "', {"degrees": 2.5, "wet": True, "wind": None}),
    ],
)
def test_plain_arguments_grow_while_the_model_writes_a_call(arguments: str, args: dict[str, Any]) -> None:
    calls = [WEATHER, Call("NameCollector", arguments, "call_3")]
    done = {"type": "Forecast", "args": WEATHER_ARGS}
    begun = {"type": "NameCollector", "args": args}
    assert JsonOutputToolsParser().parse_calls(calls, partial=True) == [done, begun]
    assert JsonOutputToolsParser(return_id=True).parse_calls(calls, partial=True) == [
        {**done, "id": "call_2"},
        {**begun, "id": "call_3"},
    ]
    key = "NameCollector"
    assert JsonOutputKeyToolsParser(key).parse_calls(calls, partial=True) == [args]
    assert JsonOutputKeyToolsParser(key, first_tool_only=True).parse_calls(calls, partial=True) == args
    assert JsonOutputKeyToolsParser(key, first_tool_only=True).parse_calls([], partial=True) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ARGS = st.dictionaries(st.text(max_size=5), VALUES, max_size=3)


def grew(before: Any, now: Any) -> bool:
    """Return True if a partial value still contains everything that it contained before."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(key in now and grew(before[key], now[key]) for key in before)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) <= len(now) and all(map(grew, before, now))
    if isinstance(before, str) and isinstance(now, str):
        return now.startswith(before)
    return type(before) is type(now) and bool(before == now)


@settings(max_examples=50, deadline=None)
@given(ARGS, st.booleans())
def test_growing_arguments_never_change_what_they_showed(args: dict[str, Any], ascii_only: bool) -> None:
    parser = JsonOutputKeyToolsParser("f", first_tool_only=True)
    text = with_clear_escapes(json.dumps(args, ensure_ascii=ascii_only))
    arguments: Any = {}
    for end in range(len(text) + 1):
        before, arguments = arguments, parser.parse_calls([Call("f", text[:end])], partial=True)
        assert grew(before, arguments)
    assert arguments == args


class Noted(BaseModel):
    notes: dict[str, Any]


@settings(max_examples=25, deadline=None)
@given(ARGS, st.booleans())
def test_the_beginning_of_a_call_is_never_read_as_a_complete_call(
    args: dict[str, Any], ascii_only: bool
) -> None:
    parser = PydanticToolsParser([Noted], first_tool_only=True)
    text = with_clear_escapes(json.dumps({"notes": args}, ensure_ascii=ascii_only))
    assert parser.parse_calls([Call("Noted", text)], partial=True) == Noted(notes=args)
    for end in range(len(text)):
        assert parser.parse_calls([Call("Noted", text[:end])], partial=True) is None


@given(st.text() | st.text(st.sampled_from('{}[]":,a1 \n\\')))
def test_any_arguments_give_a_value_or_a_parsing_error(text: str) -> None:
    call = Call("Forecast", text)
    for read in (
        lambda: TYPED.parse_calls([call]),
        lambda: TYPED.parse_calls([call], partial=True),
        lambda: JsonOutputToolsParser().parse_calls([call]),
        lambda: TYPED.parse(text),
        lambda: JsonOutputToolsParser().parse(text),
    ):
        seen = text
        try:
            read()
        except OutputParsingError as error:
            seen = error.text
        assert text in seen


class Titled(BaseModel):
    model_config = ConfigDict(title="add_numbers")
    a: int


def test_a_tool_is_named_by_its_title_or_its_type() -> None:
    assert PydanticToolsParser([Titled]).parse_calls([Call("add_numbers", '{"a": 1}')]) == [Titled(a=1)]


def test_ambiguous_and_unsupported_tools_raise_an_error_at_creation() -> None:
    with pytest.raises(ValueError, match=r"^PydanticToolsParser needs at least one tool$"):
        PydanticToolsParser([])
    with pytest.raises(ValueError, match=r"^two tools have the same name: Forecast, Forecast$"):
        PydanticToolsParser([Forecast, Forecast])
    with pytest.raises(UnsupportedTypeError):
        PydanticToolsParser([types.FunctionType])


def test_the_instructions_tell_a_model_without_tools_how_to_write_a_call() -> None:
    parser: OutputParser[Any] = PydanticToolsParser([Forecast])
    message = parser.format_instructions()
    assert '"name": "Forecast"' in message
    assert '"arguments": {"temperature": integer, "forecast": "sunny" | "rain"}' in message
    assert parser.schema is not None
    assert parser.schema["type"] == "array"


RAW = {"id": "c1", "type": "function", "function": {"name": "A", "arguments": '{"x": 1}'}}
OTHER_FORMS: dict[str, Any] = {
    "Chat Completions, dict": RAW,
    "Chat Completions, object": ChatCompletionMessageFunctionToolCall.model_validate(RAW),
    "Responses, dict": {
        "type": "function_call",
        "id": "fc_9",
        "call_id": "c1",
        "name": "A",
        "arguments": '{"x": 1}',
    },
    "Responses, object": ResponseFunctionToolCall(
        type="function_call", id="fc_9", call_id="c1", name="A", arguments='{"x": 1}'
    ),
    "LangChain": {"name": "A", "args": {"x": 1}, "id": "c1", "type": "tool_call"},
    "Anthropic": {"type": "tool_use", "id": "c1", "name": "A", "input": {"x": 1}},
    "aiservices": ToolCall("c1", "A", '{"x": 1}'),
}


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_the_tool_calls_of_other_libraries_are_parsed_with_their_ids(form: str) -> None:
    parser = JsonOutputToolsParser(return_id=True)
    assert parser.parse_calls([OTHER_FORMS[form]]) == [{"type": "A", "args": {"x": 1}, "id": "c1"}]


def test_a_function_call_of_the_legacy_api_has_no_id() -> None:
    call = {"name": "A", "arguments": '{"x": 1}'}
    expected = [{"type": "A", "args": {"x": 1}, "id": None}]
    assert JsonOutputToolsParser(return_id=True).parse_calls([call]) == expected


MESSAGE = AiMessage("", (ToolCall("c1", "A", '{"x": 1}'),))


@pytest.mark.parametrize(
    "message",
    [MESSAGE, ChatReply(MESSAGE), {"role": "assistant", "content": None, "tool_calls": [RAW]}],
)
def test_the_calls_of_a_message_are_parsed(message: Any) -> None:
    parser = JsonOutputKeyToolsParser("A")
    assert parser.parse_calls(message) == [{"x": 1}]


def test_a_message_with_calls_and_one_with_text_are_parsed() -> None:
    parser = JsonOutputKeyToolsParser("A")
    assert parser.parse(MESSAGE) == [{"x": 1}]
    assert parser.parse(ChatReply(AiMessage('{"name": "A", "arguments": {"x": 2}}'))) == [{"x": 2}]
    assert parser.parse_calls(AiMessage("no calls")) == []


FORMS = "pass tool calls of aiservices, of the OpenAI SDK or of LangChain, or a message that has them"


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ("x", f"got str; {FORMS}"),
        (RAW, f"got dict; {FORMS}"),
        ([5], f"call 1 is int without a name or an id; {FORMS}"),
        ([RAW, {"id": "c", "arguments": "{}"}], f"call 2 is dict without a name or an id; {FORMS}"),
    ],
)
def test_other_objects_are_a_type_error(calls: Any, message: str) -> None:
    with pytest.raises(TypeError) as error:
        JsonOutputToolsParser().parse_calls(calls)
    assert str(error.value) == message


def test_the_tool_calls_of_a_service_can_be_parsed() -> None:
    call: ToolCallLike = ToolCall("call_2", WEATHER.name, WEATHER.arguments)
    assert TYPED.parse_calls([call]) == [WEATHER_VALUE]
