"""Errors, tool runs and answers as JSON data, as the journals of durable calls store them."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from output_parsers.parser.type_parser import parser_for
from output_parsers.result.errors import OutputParsingError, UnsupportedTypeError
from output_parsers.result.reading import JsonObject, strict_equal
from output_parsers.types.decisions import values_with_details

from ..models import errors as _errors
from ..models.errors import (
    BudgetExceededError,
    ModelError,
    ReplayedError,
    ServiceOutputError,
    Strategy,
    ToolError,
)
from ..models.media import Media
from ..models.messages import (
    ChatReply,
    ToolCall,
    ToolMessage,
    Usage,
    message_from_dict,
    message_to_dict,
    reply_from_json,
    reply_to_json,
)
from ..tools.tool import Tool, ToolRun
from .approval import suspendable_method
from .effects import ReplyBlocked, ReplyStopped
from .plan import Invocation
from .results import Answer, Result, conflicts_to_json
from .tool_execution import ToolInvocation, read_result, written_result

_MODEL_ERRORS = {
    name: cls for name, cls in vars(_errors).items() if isinstance(cls, type) and issubclass(cls, ModelError)
}
_ENDS_OF_GENERATORS = (StopIteration, StopAsyncIteration)
_MODEL_ERROR_FIELDS = ("status", "request_id", "retryable", "retry_after", "body", "remedy")


# --- Errors of requests and of tools ---


def error_to_json(error: Exception) -> dict[str, object]:
    """Return JSON data from which an error can be restored, as far as the engine distinguishes errors."""
    name = next((one.__name__ for one in type(error).__mro__ if one.__name__ in _MODEL_ERRORS), None)
    data: dict[str, object] = {"type": name or type(error).__name__, "text": str(error)}
    if isinstance(error, ModelError):
        data |= {field: getattr(error, field) for field in _MODEL_ERROR_FIELDS if getattr(error, field)}
        if error.refused_options:
            data["refused_options"] = {key: list(one) for key, one in error.refused_options.items()}
    elif isinstance(error, BudgetExceededError):
        data["limit"] = error.limit
    return data


def error_from_json(data: JsonObject) -> Exception:
    """Restore an error from the data of ``error_to_json``."""
    name, text = data["type"], data["text"]
    if name in _MODEL_ERRORS:
        error = _MODEL_ERRORS[name](text)
        for field in _MODEL_ERROR_FIELDS:
            if field in data:
                setattr(error, field, data[field])
        if "refused_options" in data:
            error.refused_options = {key: tuple(one) for key, one in data["refused_options"].items()}
        return error
    if name == "BudgetExceededError":
        return BudgetExceededError(text, limit=data["limit"])
    cls = getattr(builtins, name, None)
    if isinstance(cls, type) and issubclass(cls, Exception) and not issubclass(cls, _ENDS_OF_GENERATORS):
        try:
            restored = cls(text)
        except TypeError:  # it needs other arguments
            return ReplayedError(name, text)
        if str(restored) == text:  # the message of a KeyError has quotes
            return restored
    return ReplayedError(name, text)


def failed_request_to_json(error: Exception) -> dict[str, object]:
    """Return what is recorded about a request without a usable reply.

    A reply that a check or the reader of a stream refused is recorded as a reply: it is refused again.
    """
    if isinstance(error, (ReplyBlocked, ReplyStopped, ServiceOutputError)) and error.reply is not None:
        return {"reply": reply_to_json(error.reply)}
    if isinstance(error, ReplyBlocked):
        return {"blocked": True}
    return {"error": error_to_json(error)}


def reply_of(data: JsonObject) -> ChatReply:
    """Return a recorded reply, or raise the error with which its request failed."""
    if "error" in data:
        raise error_from_json(data["error"])
    if "blocked" in data:
        raise ReplyBlocked(None)
    # the run that received it has paid for it
    return replace(reply_from_json(data["reply"]), usage=Usage(), replayed=True)


# --- Tool runs ---


def tool_run_to_json(run: ToolRun, tool: Tool | None) -> dict[str, object]:
    """Return JSON data of a tool run. A result without a JSON form is left out."""
    data: dict[str, object] = {"message": message_to_dict(run.message), "seconds": run.seconds}
    if run.cut:
        data["cut"] = run.cut
    if run.error is not None:
        is_refused = isinstance(run.error, ToolError) and run.error.call is run.call
        data["error"] = {**error_to_json(run.error), "refused": is_refused}
    elif tool is not None:
        try:
            data["result"] = _written_result(run.result, tool)
        except Exception:  # the writer of a type may raise anything; the text for the model is enough
            pass
    return data


def _written_result(result: object, tool: Tool) -> str:
    value = result.value if isinstance(result, Result) else result
    output_type = _type_of_service(tool)
    if output_type is None:
        return written_result(value, tool)
    text: str = parser_for(output_type).write(value)
    return text


def _type_of_service(tool: Tool) -> Any:
    """Return the type of the answers of a service method that is a tool; None for other tools."""
    method = suspendable_method(tool)
    plan = None if method is None else method.call_plan
    return None if plan is None else plan.output_type


def tool_run_from_json(data: JsonObject, call: ToolInvocation) -> ToolRun:
    """Restore a tool run from the data of ``tool_run_to_json``."""
    message = message_from_dict(data["message"])
    if not isinstance(message, ToolMessage):
        raise ValueError("the message of a tool run must be a ToolMessage")
    error: Exception | None = None
    if "error" in data:
        is_refused = data["error"]["refused"]
        error = ToolError(data["error"]["text"], call=call.call) if is_refused else None
        error = error or error_from_json(data["error"])
    return ToolRun(
        call.call,
        call.arguments,
        None if error is not None else _result_of(data, message, call.tool),
        message.text,
        error,
        data["seconds"],
        data.get("cut", 0),
        tuple(part for part in message.contents if isinstance(part, Media)),
        replayed=True,
    )


def _result_of(data: JsonObject, message: ToolMessage, tool: Tool | None) -> object:
    if "result" not in data or tool is None:
        return message.text
    output_type = _type_of_service(tool)
    try:
        if output_type is not None:
            return parser_for(output_type).restore(data["result"])
        return read_result(data["result"], tool)
    except (OutputParsingError, UnsupportedTypeError, ValueError):  # the return type has changed
        return message.text


# --- Answers ---


def answer_to_json(answer: Answer, invocation: Invocation) -> dict[str, object]:
    """Return JSON data of the answer of a call.

    Raises TypeError if the value has no JSON form from which it can be read again.
    """
    reply = answer.reply
    data: JsonObject = {
        "value": _written_value(answer, invocation),
        "reply": reply_to_json(reply),
        "strategy": answer.strategy,
        # null means the message of the reply
        "messages": [None if one is reply.message else message_to_dict(one) for one in answer.messages],
    }
    if answer.reasons:
        data["reasons"] = answer.reasons
    if answer.tool_runs:
        tools = _tools_of(invocation)
        data["tools"] = [
            {
                "call": [run.call.id, run.call.name, run.call.arguments],
                **tool_run_to_json(run, tools.get(run.name)),
            }
            for run in answer.tool_runs
        ]
        data["by_tool"] = answer.tool_run is not None
    if answer.conflicts:
        data["conflicts"] = conflicts_to_json(answer.conflicts)
    return data


def _tools_of(invocation: Invocation) -> Mapping[str, Tool]:
    toolbox = invocation.known_toolbox
    return {} if toolbox is None else toolbox.tools


_READ = {"read": True}  # a value that can be read from the text of the reply


def _written_value(answer: Answer, invocation: Invocation) -> object:
    value, parser = answer.value, invocation.plan.output_format.parser
    for name, part in (("reply", answer.reply), ("message", answer.reply.message)):
        if value is part:
            return {"part": name}
    text = answer.reply.text
    if type(value) is str and value == text:
        return {"part": "text"}
    if value is None or type(value) in (str, int, bool):
        return {"plain": value}
    if parser is None:
        raise TypeError(f"a value of the type {type(value).__name__} cannot be stored")
    read = None if parser.has_details or not parser.is_pure else parser.fast_reader
    if read is not None and strict_equal(read(_written_text(answer.reply)), value):
        return _READ
    with _details(parser):  # such as the places of quotes
        try:
            return {"text": parser.write(value)}  # which also checks that it is read as the same value
        except ValueError:  # a validator has changed it, for example
            try:
                again = parser.parse(_written_text(answer.reply))
            except OutputParsingError:
                again = None
            if not strict_equal(again, value):
                raise
    return _READ


def _written_text(reply: ChatReply) -> str:
    """Return the text of a reply, or the arguments of the tool call that has the value."""
    calls = reply.message.tool_calls
    return calls[0].arguments if len(calls) == 1 else reply.text


def _details(parser: object) -> AbstractContextManager[None]:
    return values_with_details() if getattr(parser, "has_details", False) else nullcontext()


def answer_from_json(data: JsonObject, invocation: Invocation) -> Answer:
    """Restore the answer of a call, whose reply is marked as replayed and has no usage."""
    reply = reply_of(data)
    value, parser = data["value"], invocation.plan.output_format.parser
    if "plain" in value:
        value = value["plain"]
    elif "part" in value:
        value = {"reply": reply, "message": reply.message, "text": reply.text}[value["part"]]
    elif value == _READ and parser is not None:
        with _details(parser):
            value = parser.parse(_written_text(reply))
    elif parser is None:
        raise TypeError("the stored answer is a value, and the method returns the reply of the model")
    else:
        with _details(parser):
            value = parser.restore(value["text"])
    tools = _tools_of(invocation)
    runs = [_answered_run(one, ToolCall(*one["call"]), tools) for one in data.get("tools", ())]
    messages = data["messages"]
    return Answer(
        value,
        reply,
        (),
        Strategy(data["strategy"]),
        tuple(data.get("reasons", ())),
        tuple([reply.message if one is None else message_from_dict(one) for one in messages]),
        tuple(runs),
        tool_run=runs[-1] if runs and data["by_tool"] else None,
        conflicts=tuple(data.get("conflicts", ())),
    )


def _answered_run(data: JsonObject, call: ToolCall, tools: Mapping[str, Tool]) -> ToolRun:
    message = message_from_dict(data["message"])
    assert isinstance(message, ToolMessage)
    error = error_from_json(data["error"]) if "error" in data else None
    result = None if error is not None else _result_of(data, message, tools.get(call.name))
    seconds, cut = data["seconds"], data.get("cut", 0)
    contents = tuple(part for part in message.contents if isinstance(part, Media))
    return ToolRun(call, None, result, message.text, error, seconds, cut, contents, replayed=True)


_encode = json.JSONEncoder(separators=(",", ":")).encode  # ASCII, because some text cannot be encoded


def to_text(data: object) -> str:
    """Return JSON text for the journal."""
    return _encode(data)
