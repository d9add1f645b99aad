"""Checks the body of a chat completion request: known keys, their types, and their combinations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any

from equivalence.strict_schema_check import RequestRejected, check_schema, is_name
from jsonschema import Draft202012Validator, SchemaError

__all__ = ["Server", "check_messages", "check_request"]

MAX_TOOLS = 128
MAX_DESCRIPTION = 1024


class Server(Enum):
    """The kinds of server, which treat ``strict`` differently.

    Attributes:
        STRICT: Like OpenAI. A schema that is sent as strict must be in the strict subset.
        LOOSE: Rejects ``strict``.
        GRAMMAR: Like llama.cpp. Enforces any schema and ignores ``strict``.
    """

    STRICT = "strict"
    LOOSE = "loose"
    GRAMMAR = "grammar"


def check_request(body: Any, server: Server) -> None:
    """Raise RequestRejected, with the message of OpenAI, if the server does not accept a body."""
    if not isinstance(body, dict):
        raise RequestRejected("We could not parse the JSON body of your request.")
    for name, value in body.items():
        check = _TOP.get(name)
        if check is None:
            raise RequestRejected(f"Unrecognized request argument supplied: {name}", name)
        if not check(value):
            raise RequestRejected(f"Invalid type for '{name}': {value!r}.", name)
    for name in ("model", "messages"):
        if name not in body:
            raise RequestRejected(f"you must provide a {name} parameter", name)
    check_messages(body["messages"])
    schemas = _Schemas(server)
    if "response_format" in body:
        _check_format(body["response_format"], body["messages"], schemas)
    _check_tools(body, schemas)
    if "stream_options" in body and body.get("stream") is not True:
        raise RequestRejected("The 'stream_options' parameter is only allowed when 'stream' is enabled.")


def _number(least: float, most: float) -> Callable[[Any], bool]:
    return lambda value: type(value) in (int, float) and least <= value <= most


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _count(value: Any) -> bool:
    return type(value) is int and value > 0


_TOP: Mapping[str, Callable[[Any], bool]] = {
    "model": _text,
    "messages": lambda value: isinstance(value, list) and bool(value),
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "max_tokens": _count,
    "max_completion_tokens": _count,
    "stop": lambda value: _text(value) or (isinstance(value, list) and all(map(_text, value))),
    "seed": lambda value: type(value) is int,
    "reasoning_effort": _text,
    "response_format": lambda value: isinstance(value, dict),
    "tools": lambda value: isinstance(value, list) and 0 < len(value) <= MAX_TOOLS,
    "tool_choice": lambda value: isinstance(value, (str, dict)),
    "parallel_tool_calls": lambda value: isinstance(value, bool),
    "stream": lambda value: isinstance(value, bool),
    "stream_options": lambda value: isinstance(value, dict) and set(value) <= {"include_usage"},
}


class _Schemas:
    """Checks the schemas of one request."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def check(self, schema: Any, *, strict: object, what: str, param: str, code: str) -> None:
        if not isinstance(strict, (bool, type(None))):
            raise RequestRejected(f"Invalid type for 'strict': {strict!r}.", param)
        prefix = f"Invalid schema for {what}: "
        try:
            if strict and self._server is Server.LOOSE:
                raise RequestRejected("'strict' is not supported by this model.")
            if strict and self._server is Server.STRICT:
                check_schema(schema)
            _check_draft(json.dumps(schema))
            kind = schema.get("type") if isinstance(schema, dict) else None
            if kind != "object" and self._server is not Server.GRAMMAR:
                raise RequestRejected(
                    f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
                )
        except RequestRejected as rejection:
            raise RequestRejected(f"{prefix}{rejection}", param, code) from rejection
        except SchemaError as error:
            raise RequestRejected(f"{prefix}{error.message}", param, code) from error


@cache  # slower than the rest of the request
def _check_draft(schema: str) -> None:
    Draft202012Validator.check_schema(json.loads(schema))


def _check_format(form: Mapping[str, Any], messages: list[Any], schemas: _Schemas) -> None:
    kind = form.get("type")
    if kind == "json_schema":
        _only(form, "response_format", "type", "json_schema")
        inner = form.get("json_schema")
        if not isinstance(inner, dict):
            raise RequestRejected(
                "Missing required parameter: 'response_format.json_schema'.", "response_format"
            )
        _only(inner, "response_format.json_schema", "name", "schema", "strict", "description")
        _named(inner.get("name"), "response_format.json_schema.name")
        schemas.check(
            inner.get("schema"),
            strict=inner.get("strict"),
            what=f"response_format '{inner['name']}'",
            param="response_format",
            code="invalid_json_schema",
        )
    elif kind in ("json_object", "text"):
        _only(form, "response_format", "type")
        if kind == "json_object" and "json" not in str(messages).lower():
            raise RequestRejected(
                "'messages' must contain the word 'json' in some form, to use 'response_format' of type "
                "'json_object'.",
                "messages",
            )
    else:
        raise RequestRejected(f"Invalid value: {kind!r}.", "response_format.type")


def _check_tools(body: Mapping[str, Any], schemas: _Schemas) -> None:
    tools = body.get("tools", [])
    names = [_tool(tool, f"tools[{index}]", schemas) for index, tool in enumerate(tools)]
    if len(set(names)) != len(names):
        raise RequestRejected("Tool names must be unique.", "tools")
    for name in ("tool_choice", "parallel_tool_calls"):
        if name in body and not tools:
            raise RequestRejected(
                f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
            )
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, str):
        if choice not in ("none", "auto", "required"):
            raise RequestRejected(f"Invalid value: {choice!r}.", "tool_choice")
        return
    _only(choice, "tool_choice", "type", "function")
    function = choice.get("function")
    if choice.get("type") != "function" or not isinstance(function, dict):
        raise RequestRejected("Missing required parameter: 'tool_choice.function'.", "tool_choice")
    _only(function, "tool_choice.function", "name")
    if function.get("name") not in names:
        raise RequestRejected(
            f"Tool choice '{function.get('name')}' not found in 'tools' parameter.", "tool_choice"
        )


def _tool(tool: Any, at: str, schemas: _Schemas) -> str:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise RequestRejected(f"Missing required parameter: '{at}.type'.", at)
    _only(tool, at, "type", "function")
    function = tool.get("function")
    if not isinstance(function, dict):
        raise RequestRejected(f"Missing required parameter: '{at}.function'.", at)
    _only(function, f"{at}.function", "name", "description", "parameters", "strict")
    name = _named(function.get("name"), f"{at}.function.name")
    description = function.get("description", "")
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION:
        raise RequestRejected(
            f"Invalid '{at}.function.description': string too long. Expected a string with maximum length "
            f"{MAX_DESCRIPTION}.",
            at,
        )
    schemas.check(
        function.get("parameters", {"type": "object", "properties": {}}),
        strict=function.get("strict"),
        what=f"function '{name}'",
        param=f"{at}.function.parameters",
        code="invalid_function_parameters",
    )
    return name


def check_messages(messages: list[Any]) -> None:
    """Raise RequestRejected if the messages have an invalid form or order.

    Each tool call must be answered immediately, and only tool calls may be answered.
    """
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        at = f"messages[{index}]"
        if not isinstance(message, dict):
            raise RequestRejected(f"Invalid type for '{at}'.", at)
        role = message.get("role")
        if open_calls and role != "tool":
            break
        if role == "tool":
            _only(message, at, "role", "content", "tool_call_id")
            if message.get("tool_call_id") not in open_calls:
                raise RequestRejected(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding message "
                    "with 'tool_calls'.",
                    at,
                )
            open_calls.remove(message["tool_call_id"])
            _content(message, at)
        elif role == "assistant":
            _only(message, at, "role", "content", "tool_calls", "name", "refusal")
            open_calls = _calls(message, at)
        elif role in ("system", "developer", "user"):
            _only(message, at, "role", "content", "name")
            _content(message, at)
        else:
            raise RequestRejected(f"Invalid value: {role!r}.", f"{at}.role")
    if open_calls:
        raise RequestRejected(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(open_calls)}",
            "messages",
        )


def _calls(message: Mapping[str, Any], at: str) -> list[str]:
    if "tool_calls" not in message:
        _content(message, at)
        return []
    calls = message["tool_calls"]
    if not isinstance(calls, list) or not calls:
        raise RequestRejected(f"Invalid '{at}.tool_calls': empty array.", at)
    if not isinstance(message.get("content"), (str, type(None))):
        raise RequestRejected(f"Invalid type for '{at}.content'.", at)
    for call in calls:
        _only(call, f"{at}.tool_calls", "id", "type", "function")
        function = call.get("function")
        if call.get("type") != "function" or not _text(call.get("id")) or not isinstance(function, dict):
            raise RequestRejected(f"Invalid '{at}.tool_calls'.", at)
        _only(function, f"{at}.tool_calls.function", "name", "arguments")
        _named(function.get("name"), f"{at}.tool_calls.function.name")
        if not isinstance(function.get("arguments"), str):
            raise RequestRejected(
                f"Invalid type for '{at}.tool_calls.function.arguments': expected a string.", at
            )
    ids = [call["id"] for call in calls]
    if len(set(ids)) != len(ids):
        raise RequestRejected(f"Duplicate ids in '{at}.tool_calls'.", at)
    return ids


def _content(message: Mapping[str, Any], at: str) -> None:
    if not isinstance(message.get("content"), str):
        raise RequestRejected(
            f"Invalid value for 'content': expected a string, got {message.get('content')!r}.", at
        )


def _only(given: Mapping[str, Any], at: str, *known: str) -> None:
    for name in given:
        if name not in known:
            raise RequestRejected(f"Unknown parameter: '{at}.{name}'.", f"{at}.{name}")


def _named(name: Any, at: str) -> str:
    if not is_name(name):
        raise RequestRejected(
            f"Invalid '{at}': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            at,
        )
    return str(name)
