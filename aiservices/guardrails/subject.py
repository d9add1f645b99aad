"""An answer as guards are shown it: its text and its value, and what becomes of it when they rewrite it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from output_parsers.errors import OutputParsingError
from output_parsers.reading import Reading
from output_parsers.same import same

from ..messages import AiMessage, ChatReply, ToolMessage
from ..pipeline import Answer
from ..plan import Turn
from ..strategies import Wire

__all__ = ["text_of", "with_text", "with_value"]


def text_of(answer: Answer, turn: Turn) -> str:
    """What the model wrote: its text, or the arguments of the tool whose call is the answer.

    Where the value is not what the reply says (it is the result of a tool, or was mended, or made by another
    interceptor) it is the value: a str as it is, all else as a model would write it.
    """
    wire = _wire_of(answer, turn)
    if wire is None:
        return _written(answer.value, turn)
    return answer.reply.message.tool_calls[0].arguments if _calls(answer.reply, wire) else answer.reply.text


def with_text(answer: Answer, text: str, turn: Turn) -> Answer:
    """The answer that says ``text`` instead, which is read again. Raises OutputParsingError."""
    wire = _wire_of(answer, turn)
    reply = _saying(answer.reply, text, keeps_call=_calls(answer.reply, wire))
    reading = (wire or turn.plan.wire).read(reply) if _reads(wire, turn) else _read(text, turn)
    return _said(answer, reply, text, reading)


def with_value(answer: Answer, value: Any, turn: Turn) -> Answer:
    """The answer with another value, and its text written anew. Raises ValueError for one of another type."""
    if not _is_like(value, answer.value, turn):
        raise ValueError(f"{value!r} is no value of the method's type")
    text = _written(value, turn)
    return _said(
        answer, _saying(answer.reply, text, keeps_call=False), text, Reading(value, answer.coercions)
    )


def _wire_of(answer: Answer, turn: Turn) -> Wire[Any] | None:
    """The wire that reads the reply as the value; None where the value came about in another way."""
    wire = turn.context.wire
    if wire is None or (answer.said and isinstance(answer.said[-1], ToolMessage)):
        return None
    try:
        return wire if same(wire.read(answer.reply).value, answer.value) else None
    except OutputParsingError:
        return None


def _calls(reply: ChatReply, wire: Wire[Any] | None) -> bool:
    """Whether the answer is the call of a tool."""
    return wire is not None and wire.tooling is not None and bool(reply.message.tool_calls)


def _reads(wire: Wire[Any] | None, turn: Turn) -> bool:
    """Whether a whole reply has to be read, and not a text."""
    return wire is not None or turn.plan.wire.parser is None


def _read(text: str, turn: Turn) -> Reading[Any]:
    parser = turn.plan.wire.parser
    assert parser is not None, "a reply is read where there is none"
    return parser.read(text)


def _written(value: Any, turn: Turn) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (AiMessage, ChatReply)):
        return value.text
    parser = turn.plan.wire.parser
    try:
        return str(value) if parser is None else parser.write(value)
    except ValueError:  # a parser of the user's, whose texts only it knows
        return str(value)


def _is_like(value: Any, before: Any, turn: Turn) -> bool:
    """Whether a value is of the method's type; by its class where the type cannot be written."""
    parser = turn.plan.wire.parser
    if parser is None:
        return type(value) is type(before)
    try:
        parser.write(value)
    except ValueError:
        try:
            parser.write(before)
        except ValueError:
            return type(value) is type(before)
        return False
    return True


def _saying(reply: ChatReply, text: str, *, keeps_call: bool) -> ChatReply:
    """The reply with another text, and nothing left of the first one."""
    calls = reply.message.tool_calls if keeps_call else ()
    message = AiMessage("", (replace(calls[0], arguments=text),)) if calls else AiMessage(text)
    return replace(reply, message=message, raw=None)


def _said(answer: Answer, reply: ChatReply, text: str, reading: Reading[Any]) -> Answer:
    """The answer as if the model had said so."""
    if answer.said and isinstance(answer.said[-1], ToolMessage):  # the result of a tool is the answer
        said = (*answer.said[:-1], replace(answer.said[-1], text=text))
        return replace(answer, value=reading.value, coercions=reading.coercions, said=said)
    said = (*answer.said[:-1], reply.message) if answer.said else ()
    return replace(answer, value=reading.value, reply=reply, coercions=reading.coercions, said=said)
