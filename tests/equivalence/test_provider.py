"""The provider of the matrix accepts and rejects the same requests as OpenAI, with the same messages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from equivalence.request_check import Server, check_messages, check_request
from equivalence.schema_fit import fit_to_schema
from equivalence.strict_schema_check import RequestRejected, check_schema

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


ACCEPTED = {
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


@pytest.mark.parametrize("schema", ACCEPTED.values(), ids=ACCEPTED)
def test_a_schema_in_the_supported_subset_is_accepted(schema: Any) -> None:
    check_schema(schema)


REJECTED = {
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


@pytest.mark.parametrize(("schema", "message"), REJECTED.values(), ids=REJECTED)
def test_a_schema_outside_of_the_subset_is_rejected(schema: Any, message: str) -> None:
    with pytest.raises(RequestRejected) as caught:
        check_schema(schema)
    assert str(caught.value) == message


def request(**more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hello"}], **more}


def response_format(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, **more}}


def tool(**more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "t", "parameters": closed(), **more}}


BODIES = {
    "unknown argument": (request(tempreature=1), "Unrecognized request argument supplied: tempreature"),
    "type of an argument": (request(temperature="1"), "Invalid type for 'temperature': '1'."),
    "no messages": ({"model": "m"}, "you must provide a messages parameter"),
    "options of a stream": (
        request(stream_options={"include_usage": True}),
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    ),
    "JSON not spoken of": (
        request(response_format={"type": "json_object"}),
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type "
        "'json_object'.",
    ),
    "form of an answer": (request(response_format={"type": "xml"}), "Invalid value: 'xml'."),
    "name of a schema": (
        request(response_format=response_format(closed(), name="list[int]")),
        "Invalid 'response_format.json_schema.name': string does not match pattern. Expected a string that "
        "matches the pattern '^[a-zA-Z0-9_-]+$'.",
    ),
    "strict schema": (
        request(response_format=response_format(of({}), strict=True)),
        "Invalid schema for response_format 'n': In context=('properties', 'a'), schema must have a 'type' "
        "key.",
    ),
    "schema of no object": (
        request(response_format=response_format({"type": "array"})),
        "Invalid schema for response_format 'n': schema must be a JSON Schema of 'type: \"object\"', got "
        "'type: \"array\"'.",
    ),
    "strict tool": (
        request(tools=[tool(parameters=of({}), strict=True)]),
        "Invalid schema for function 't': In context=('properties', 'a'), schema must have a 'type' key.",
    ),
    "long description": (
        request(tools=[tool(description="d" * 1025)]),
        "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length "
        "1024.",
    ),
    "choice of no tool": (
        request(tools=[tool()], tool_choice={"type": "function", "function": {"name": "u"}}),
        "Tool choice 'u' not found in 'tools' parameter.",
    ),
    "choice without tools": (
        request(tool_choice="auto"),
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
    ),
}


@pytest.mark.parametrize(("body", "message"), BODIES.values(), ids=BODIES)
def test_an_invalid_body_is_rejected(body: Any, message: str) -> None:
    with pytest.raises(RequestRejected) as caught:
        check_request(body, Server.STRICT)
    assert str(caught.value) == message


def test_a_schema_that_is_not_strict_may_use_any_keyword() -> None:
    check_request(request(response_format=response_format(of({}))), Server.STRICT)


def test_a_server_without_strict_mode_rejects_it() -> None:
    with pytest.raises(RequestRejected, match=re.escape("'strict' is not supported by this model.")):
        check_request(request(tools=[tool(strict=True)]), Server.LOOSE)


CALL = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "done"}
USER = {"role": "user", "content": "u"}


def test_a_tool_call_that_is_answered_immediately_is_accepted() -> None:
    check_messages([USER, CALLING, ANSWER, USER])


@pytest.mark.parametrize("messages", [[CALLING], [CALLING, USER, ANSWER]], ids=["at the end", "later"])
def test_a_tool_call_that_is_not_answered_immediately_is_rejected(messages: list[Any]) -> None:
    with pytest.raises(RequestRejected) as caught:
        check_messages(messages)
    assert str(caught.value) == (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        "'tool_call_id'. The following tool_call_ids did not have response messages: c1"
    )


def test_a_tool_result_without_a_call_is_rejected() -> None:
    with pytest.raises(RequestRejected) as caught:
        check_messages([USER, ANSWER])
    assert str(caught.value) == (
        "Invalid parameter: messages with role 'tool' must be a response to a preceding message with "
        "'tool_calls'."
    )


def test_a_message_without_content_is_rejected() -> None:
    with pytest.raises(RequestRejected, match="expected a string, got None"):
        check_messages([{"role": "user", "content": None}])


PAIR = closed(key=TEXT, value={"type": "integer"})


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
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
def test_a_value_is_fitted_to_a_schema(schema: Any, value: Any, expected: Any) -> None:
    assert fit_to_schema(schema, value) == expected


@pytest.mark.parametrize("value", ["7", 7.5, True, None, [7]])
def test_a_value_that_does_not_fit_a_schema_is_an_error(value: Any) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        fit_to_schema(of({"type": "integer"}), {"a": value})
