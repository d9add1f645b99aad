"""Requests are made of the forms that users have, and objects that are not part of a request are refused."""

from __future__ import annotations

from typing import Any

import pytest

from aiservices import (
    ChatOptions,
    ChatRequest,
    DefinitionError,
    JsonObjectFormat,
    JsonSchemaFormat,
    ScriptedChatModel,
    SystemMessage,
    Tooling,
    ToolSpecification,
    UserMessage,
)

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORMATS = "a JsonSchemaFormat or a JsonObjectFormat"
FORMAT = {"name": "P", "schema": SCHEMA, "strict": True}


def error_of(**settings: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        ChatRequest.of("q", **settings)
    return str(caught.value)


def test_a_request_is_made_of_message_dicts() -> None:
    request = ChatRequest.of([{"role": "system", "content": "s"}, ("user", "q")], options=ChatOptions(seed=1))
    assert request == ChatRequest((SystemMessage("s"), UserMessage("q")), ChatOptions(seed=1))
    assert ScriptedChatModel(["a"]).complete(request).text == "a"


@pytest.mark.parametrize(
    ("response_format", "strict"),
    [
        ({"type": "json_schema", "json_schema": FORMAT}, True),
        ({"type": "json_schema", **FORMAT}, True),
        ({"type": "json_schema", "json_schema": {"name": "P", "schema": SCHEMA}}, False),
    ],
)
def test_a_response_format_of_openai_keeps_its_schema(response_format: Any, strict: bool) -> None:
    answer_format = ChatRequest.of("q", response_format=response_format).response_format
    assert isinstance(answer_format, JsonSchemaFormat)
    assert (answer_format.name, answer_format.schema, answer_format.strict) == ("P", SCHEMA, strict)


def test_the_response_formats_of_openai_without_a_schema_are_read() -> None:
    json_object = ChatRequest.of("q", response_format={"type": "json_object"}).response_format
    assert isinstance(json_object, JsonObjectFormat)
    assert ChatRequest.of("q", response_format={"type": "text"}).response_format is None


@pytest.mark.parametrize(
    ("response_format", "problem"),
    [
        ("json", "it is str"),
        (dict, "it is type"),
        (SCHEMA, "it is a dict of the type 'object'"),
        ({"schema": SCHEMA}, "it is dict"),
    ],
)
def test_another_response_format_is_refused(response_format: Any, problem: str) -> None:
    expected = f"pass {FORMATS}, or a dict of the type 'json_schema', 'json_object' or 'text'"
    assert error_of(response_format=response_format) == f"ChatRequest, response_format: {problem}; {expected}"


@pytest.mark.parametrize(
    "response_format",
    [
        JsonSchemaFormat("P", {"type": "objekt"}),
        {"type": "json_schema", "json_schema": {"name": "P", "schema": {"type": "objekt"}}},
    ],
)
def test_an_invalid_schema_is_refused(response_format: Any) -> None:
    assert error_of(response_format=response_format).startswith(
        "ChatRequest, response_format: the JSON Schema 'P' is invalid at #/type: 'objekt' is not valid"
    )


SPECIFICATION = ToolSpecification("weather", "Tells it.", SCHEMA)


@pytest.mark.parametrize(
    "tool",
    [
        SPECIFICATION,
        {
            "type": "function",
            "function": {"name": "weather", "description": "Tells it.", "parameters": SCHEMA},
        },
        {"name": "weather", "description": "Tells it.", "input_schema": SCHEMA},
    ],
)
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_tools_becomes_tooling(tool: Any, kind: Any) -> None:
    tooling = ChatRequest.of("q", tooling=kind([tool])).tooling
    assert tooling is not None
    assert tooling.choice == "auto"
    (specification,) = tooling.tools
    assert (specification.name, specification.description) == ("weather", "Tells it.")
    assert (specification.parameters, specification.strict) == (SCHEMA, False)


def test_tooling_is_taken_as_it_is() -> None:
    tooling = Tooling((SPECIFICATION,), "required")
    assert ChatRequest.of("q", tooling=tooling).tooling is tooling


@pytest.mark.parametrize(
    ("tooling", "problem"),
    [
        (5, "it is int; pass a Tooling or a list of tools"),
        ([print], "tool 1 is builtin_function_or_method; pass a ToolSpecification or a dict"),
        ([SPECIFICATION, {"type": "function"}], 'tool 2: a function needs a "name"'),
        ([SCHEMA], "tool 1: it has no name"),
    ],
)
def test_another_tool_is_refused(tooling: Any, problem: str) -> None:
    assert error_of(tooling=tooling) == f"ChatRequest, tooling: {problem}"


def test_all_problems_of_a_request_are_reported_together() -> None:
    with pytest.raises(DefinitionError) as caught:
        ChatRequest.of([("nobody", "q")], tooling=5, response_format="json")  # type: ignore[arg-type]  # wrong on purpose
    assert [problem.location for problem in caught.value.problems] == [
        "ChatRequest, message 1",
        "ChatRequest, tooling",
        "ChatRequest, response_format",
    ]


def test_the_constructors_refuse_dicts() -> None:
    messages = (UserMessage("q"),)
    with pytest.raises(DefinitionError) as caught:
        ChatRequest(messages, response_format={"type": "json_object"})  # type: ignore[arg-type]  # wrong on purpose
    assert str(caught.value) == (
        f"ChatRequest: response_format is dict; pass {FORMATS}, or use ChatRequest.of, which also reads dicts"
    )
    with pytest.raises(DefinitionError) as caught:
        ChatRequest(messages, tooling=[SPECIFICATION])  # type: ignore[arg-type]  # wrong on purpose
    assert str(caught.value) == (
        "ChatRequest: tooling is list; pass a Tooling, or use ChatRequest.of, which also reads dicts"
    )
    with pytest.raises(DefinitionError) as caught:
        Tooling(({"type": "function"},))  # type: ignore[arg-type]  # wrong on purpose
    assert str(caught.value) == "Tooling: tool 1 is dict; pass a ToolSpecification"


def test_options_of_a_wrong_type_are_problems() -> None:
    options: Any = ChatOptions
    wrong = options(
        temperature="a", stop=(1,), seed=True, model=3, extra_body=[], cache="2h", reasoning_effort="huge"
    )
    assert [problem.message for problem in wrong.problems("S")] == [
        "temperature is 'a'; it must be from 0 to 2",
        "stop is (1,); it must be a tuple of texts",
        "model is 3; it must be a text",
        "seed is True; it must be an integer",
        "extra_body is []; it must be a dict",
        "reasoning_effort is 'huge'; it must be one of none, minimal, low, medium, high, xhigh, max",
        "cache is '2h'; it must be one of 5m, 1h",
    ]
    assert options(server_tools=({"type": "web_search"},), seed=1, stop=("a",)).problems("S") == []
