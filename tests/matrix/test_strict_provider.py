"""The provider of the matrix refuses what OpenAI refuses, in its words, and takes what OpenAI takes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from matrix.answering import filled
from matrix.requests_checked import Server, check_messages, check_request
from matrix.strict_provider import Refused, check_schema

TEXT = {"type": "string"}
EVERY_KEY = "'required' is required to be supplied and to be an array including every key in properties."


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nested(levels: int) -> dict[str, Any]:
    return closed(a=nested(levels - 1)) if levels > 1 else closed()


def of(part: Any) -> dict[str, Any]:
    return closed(a=part)


TAKEN = {
    "no properties": closed(),
    "each type": closed(
        s={"type": "string", "pattern": "^a(?:b)?$", "format": "date"},
        i={"type": "integer", "minimum": 1, "maximum": 2, "multipleOf": 1},
        n={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5},
        b={"type": "boolean", "description": "d", "title": "t"},
        z={"type": "null"},
        a={"type": "array", "items": TEXT, "minItems": 0, "maxItems": 3},
    ),
    "types in a list": of({"type": ["string", "null"], "enum": ["a", None]}),
    "const": of({"type": "string", "const": "a"}),
    "union": of({"anyOf": [TEXT, {"type": "null"}], "description": "d"}),
    "recursion at the root": of({"anyOf": [{"$ref": "#"}, {"type": "null"}]}),
    "recursion": {
        **of({"$ref": "#/$defs/A"}),
        "$defs": {"A": closed(next={"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]})},
    },
    "10 levels": nested(10),
    "1000 values": of({"type": "integer", "enum": list(range(1000))}),
}


@pytest.mark.parametrize("schema", TAKEN.values(), ids=TAKEN)
def test_a_schema_of_the_supported_subset_is_taken(schema: Any) -> None:
    check_schema(schema)


REFUSED = {
    "list at the root": (
        {"type": "array", "items": TEXT},
        "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'.",
    ),
    "union at the root": (
        {"anyOf": [closed()]},
        "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.",
    ),
    "union beside the type of the root": (
        {**closed(), "anyOf": [closed()]},
        "In context=(), 'anyOf' is not permitted at the root.",
    ),
    "open object": (
        of({"type": "object", "properties": {}}),
        "In context=('properties', 'a'), 'additionalProperties' is required to be supplied and to be false.",
    ),
    "keys that are data": (
        {"type": "object", "additionalProperties": TEXT},
        "In context=(), 'additionalProperties' is required to be supplied and to be false.",
    ),
    "optional property": ({**closed(a=TEXT), "required": []}, f"In context=(), {EVERY_KEY} Missing 'a'."),
    "required and unknown": (
        {**closed(), "required": ["a"]},
        f"In context=(), {EVERY_KEY} Extra required key 'a' supplied.",
    ),
    "any JSON": (of({}), "In context=('properties', 'a'), schema must have a 'type' key."),
    "boolean schema": (of(True), "In context=('properties', 'a'), True is not of type 'object'."),
    "array of anything": (
        of({"type": "array"}),
        "In context=('properties', 'a'), array schema missing items.",
    ),
    "keyword of no type": (
        of({**TEXT, "minLength": 1}),
        "In context=('properties', 'a'), 'minLength' is not permitted.",
    ),
    "keyword of another type": (
        of({**TEXT, "minimum": 1}),
        "In context=('properties', 'a'), 'minimum' is not permitted.",
    ),
    "tuple": (
        of({"type": "array", "prefixItems": [TEXT], "items": TEXT}),
        "In context=('properties', 'a'), 'prefixItems' is not permitted.",
    ),
    "default": (of({**TEXT, "default": "a"}), "In context=('properties', 'a'), 'default' is not permitted."),
    "composition": (of({"oneOf": [TEXT]}), "In context=('properties', 'a'), schema must have a 'type' key."),
    "words beside a reference": (
        {**of({"$ref": "#/$defs/A", "description": "d"}), "$defs": {"A": TEXT}},
        "In context=('properties', 'a'), $ref cannot have keywords {'description'}.",
    ),
    "reference to nothing": (
        of({"$ref": "#/$defs/A"}),
        "In context=('properties', 'a'), reference '#/$defs/A' leads nowhere.",
    ),
    "format": (of({**TEXT, "format": "uri"}), "In context=('properties', 'a'), 'uri' is not a valid format."),
    "lookaround": (
        of({**TEXT, "pattern": "^(?!a)"}),
        "Invalid JSON schema: regex lookaround is not supported. Found at $.properties.a.pattern.",
    ),
    "no values": (
        of({**TEXT, "enum": []}),
        "In context=('properties', 'a'), [] should be a non-empty array.",
    ),
    "value of another type": (
        of({**TEXT, "enum": ["a", 1]}),
        "In context=('properties', 'a'), enum value 1 does not validate against 'string'.",
    ),
    "definitions inside": (
        of({**closed(), "$defs": {}}),
        "In context=('properties', 'a'), '$defs' is not permitted.",
    ),
    "name of a definition": (
        {**closed(), "$defs": {"A[B]": TEXT}},
        "In context=('$defs',), 'A[B]' is not a valid name.",
    ),
    "11 levels": (nested(11), "11 levels of nesting, when the maximum is 10."),
    "11 levels by references": (
        {**of({"$ref": "#/$defs/A"}), "$defs": {"A": nested(10)}},
        "11 levels of nesting, when the maximum is 10.",
    ),
    "1001 values": (
        of({"type": "integer", "enum": list(range(1001))}),
        "1001 enum values, when the maximum is 1000.",
    ),
    "long values": (
        of({**TEXT, "enum": [f"{number:060}" for number in range(251)]}),
        "15060 characters in an enum, when the maximum is 15000.",
    ),
    "5001 properties": (
        closed(**{f"p{number}": TEXT for number in range(5001)}),
        "5001 object properties, when the maximum is 5000.",
    ),
    "long names": (
        closed(**{f"{'n' * 120}{number}": TEXT for number in range(1000)}),
        "122890 characters of names, enum values and const values, when the maximum is 120000.",
    ),
}


@pytest.mark.parametrize(("schema", "message"), REFUSED.values(), ids=REFUSED)
def test_a_schema_outside_of_the_subset_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(Refused) as caught:
        check_schema(schema)
    assert str(caught.value) == message


def asked(**more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hello"}], **more}


def schema_asked(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, **more}}


def tool(**more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "t", "parameters": closed(), **more}}


BODIES = {
    "unknown argument": (asked(tempreature=1), "Unrecognized request argument supplied: tempreature"),
    "type of an argument": (asked(temperature="1"), "Invalid type for 'temperature': '1'."),
    "no messages": ({"model": "m"}, "you must provide a messages parameter"),
    "options of a stream": (
        asked(stream_options={"include_usage": True}),
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    ),
    "JSON not spoken of": (
        asked(response_format={"type": "json_object"}),
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type "
        "'json_object'.",
    ),
    "form of an answer": (asked(response_format={"type": "xml"}), "Invalid value: 'xml'."),
    "name of a schema": (
        asked(response_format=schema_asked(closed(), name="list[int]")),
        "Invalid 'response_format.json_schema.name': string does not match pattern. Expected a string that "
        "matches the pattern '^[a-zA-Z0-9_-]+$'.",
    ),
    "strict schema": (
        asked(response_format=schema_asked(of({}), strict=True)),
        "Invalid schema for response_format 'n': In context=('properties', 'a'), schema must have a 'type' "
        "key.",
    ),
    "schema of no object": (
        asked(response_format=schema_asked({"type": "array"})),
        "Invalid schema for response_format 'n': schema must be a JSON Schema of 'type: \"object\"', got "
        "'type: \"array\"'.",
    ),
    "strict tool": (
        asked(tools=[tool(parameters=of({}), strict=True)]),
        "Invalid schema for function 't': In context=('properties', 'a'), schema must have a 'type' key.",
    ),
    "long description": (
        asked(tools=[tool(description="d" * 1025)]),
        "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length "
        "1024.",
    ),
    "choice of no tool": (
        asked(tools=[tool()], tool_choice={"type": "function", "function": {"name": "u"}}),
        "Tool choice 'u' not found in 'tools' parameter.",
    ),
    "choice without tools": (
        asked(tool_choice="auto"),
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
    ),
}


@pytest.mark.parametrize(("body", "message"), BODIES.values(), ids=BODIES)
def test_a_body_that_is_wrong_is_refused(body: Any, message: str) -> None:
    with pytest.raises(Refused) as caught:
        check_request(body, Server.STRICT)
    assert str(caught.value) == message


def test_what_is_not_said_to_be_strict_may_be_any_schema_of_an_object() -> None:
    check_request(asked(response_format=schema_asked(of({}))), Server.STRICT)


def test_a_server_that_does_not_know_strict_refuses_it() -> None:
    with pytest.raises(Refused, match=re.escape("'strict' is not supported by this model.")):
        check_request(asked(tools=[tool(strict=True)]), Server.LOOSE)


CALL = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "done"}
USER = {"role": "user", "content": "u"}


def test_a_call_that_is_answered_at_once_is_taken() -> None:
    check_messages([USER, CALLING, ANSWER, USER])


@pytest.mark.parametrize("messages", [[CALLING], [CALLING, USER, ANSWER]], ids=["at the end", "later"])
def test_a_call_that_is_not_answered_at_once_is_refused(messages: list[Any]) -> None:
    with pytest.raises(Refused) as caught:
        check_messages(messages)
    assert str(caught.value) == (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        "'tool_call_id'. The following tool_call_ids did not have response messages: c1"
    )


def test_an_answer_to_no_call_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        check_messages([USER, ANSWER])
    assert str(caught.value) == (
        "Invalid parameter: messages with role 'tool' must be a response to a preceding message with "
        "'tool_calls'."
    )


def test_a_message_without_words_is_refused() -> None:
    with pytest.raises(Refused, match="expected a string, got None"):
        check_messages([{"role": "user", "content": None}])


PAIR = closed(key=TEXT, value={"type": "integer"})


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (closed(value={"type": "integer"}), 7, {"value": 7}),
        (of({"anyOf": [{"type": "integer"}, {"type": "null"}]}), {}, {"a": None}),
        (of({"type": "array", "items": PAIR}), {"a": {"b": 1}}, {"a": [{"key": "b", "value": 1}]}),
        (
            closed(item_0=TEXT, rest={"type": "array", "items": TEXT}),
            ["a", "b"],
            {"item_0": "a", "rest": ["b"]},
        ),
        (of({**TEXT, "description": "as JSON text"}), {"a": [1]}, {"a": "[1]"}),
        (
            of({"anyOf": [closed(value={"type": "null"}), {"type": "null"}]}),
            {"a": None},
            {"a": {"value": None}},
        ),
    ],
)
def test_a_value_is_said_as_a_schema_has_it(schema: Any, value: Any, said: Any) -> None:
    assert filled(schema, value) == said


@pytest.mark.parametrize("value", ["7", 7.5, True, None, [7]])
def test_a_value_that_a_schema_has_no_words_for_is_an_error(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot be said in"):
        filled(of({"type": "integer"}), {"a": value})
