"""Reads an answer that came as the call of a tool whose arguments are the value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from output_parsers.errors import OutputParsingError, Problem
from output_parsers.parser import TypeParser
from output_parsers.reading import Coercion, Reading
from output_parsers.same import same

from .messages import ChatReply, ToolCall

__all__ = ["tool_reader"]

T = TypeVar("T")


def tool_reader(parser: TypeParser[T], name: str) -> Callable[[ChatReply], Reading[T]]:
    """The reading of the calls of the tool ``name``.

    Several calls that give the same value are one; a model that answers in text instead is understood, and
    both are noted. Raises OutputParsingError.
    """

    def read(reply: ChatReply) -> Reading[T]:
        calls = reply.message.tool_calls
        if len(calls) == 1 and calls[0].name == name:
            return parser.read(calls[0].arguments)
        if not calls:
            reading = parser.read(reply.message.text)
            return _noted(reading, f"text instead of a call of {name}")
        return _of_several(parser, calls, name)

    return read


def _of_several(parser: TypeParser[T], calls: tuple[ToolCall, ...], name: str) -> Reading[T]:
    text = "\n".join(call.arguments for call in calls)
    others = [call.name for call in calls if call.name != name]
    if others:
        said = f"expected a call of {name} and no other; the model called {', '.join(others)}"
        raise OutputParsingError(text, [Problem("$", said)])
    first, *rest = (parser.read(call.arguments) for call in calls)
    if not all(same(first.value, other.value) for other in rest):
        said = f"expected one call of {name}; the model called it {len(calls)} times with different answers"
        raise OutputParsingError(text, [Problem("$", said)])
    return _noted(first, f"{len(calls)} equal calls of {name}")


def _noted(reading: Reading[T], rule: str) -> Reading[T]:
    return replace(reading, coercions=(Coercion("$", rule, "", ""), *reading.coercions))
