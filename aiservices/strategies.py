"""The ways in which structure is asked for, and which of them suits a model and a type."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from output_parsers.custom import OutputParser
from output_parsers.parser import TypeParser
from output_parsers.reading import Reading
from output_parsers.schema import is_strict

from .messages import ChatReply
from .models.base import Capabilities
from .requests import JsonObjectFormat, JsonSchemaFormat, ResponseFormat
from .strategy import Strategy

__all__ = ["StrategyFault", "Wire", "wire_for", "wire_of_reply"]

T = TypeVar("T")


class StrategyFault(ValueError):  # becomes a Fault once it is known where it stands
    """A strategy was asked for that cannot carry the type, or that the model has not."""


class Wire(NamedTuple, Generic[T]):
    """One type on its way to a model and back, made when a method is planned.

    ``response_format`` and ``instructions`` are what is sent; ``read`` undoes exactly that.
    ``reasons`` says why this strategy was chosen.
    """

    strategy: Strategy
    reasons: tuple[str, ...]
    response_format: ResponseFormat | None
    instructions: str
    read: Callable[[ChatReply], Reading[T]]


def wire_for(
    parser: OutputParser[T], capabilities: Capabilities, asked: Strategy | None, model: str
) -> Wire[T]:
    """The wire of a type for a model. Raises StrategyFault when ``asked`` cannot be had."""
    if parser.schema is None:
        if asked not in (None, Strategy.TEXT, Strategy.PROMPT):
            raise StrategyFault(f"the strategy {asked} asks for structure, and the type is plain text")
        why = "the type is plain text: the reply itself is the value"
        return Wire(Strategy.TEXT, (why,), None, parser.format_instructions(), _reader(parser))
    typed = parser if isinstance(parser, TypeParser) else TypeParser.around(parser)
    if asked is not None:
        return _asked(typed, capabilities, asked, model)
    if not any((capabilities.constrained, capabilities.json_schema, capabilities.json_mode)):
        return _prompt(typed, f"{model} takes neither a JSON Schema nor JSON mode")
    if not (typed.schema or {}):
        return _without_schema(typed, capabilities, model)
    if capabilities.constrained:
        return _grammar(typed, f"{model} constrains its decoding to a JSON Schema")
    if capabilities.json_schema:
        return _json_schema(typed, capabilities, f"{model} takes a JSON Schema")
    return _json_mode(typed, f"{model} takes no JSON Schema, but has JSON mode")


def wire_of_reply(read: Callable[[ChatReply], T]) -> Wire[T]:
    """The wire of a method that hands back the reply itself, or a part of it."""
    why = "the method returns the reply itself"
    return Wire(Strategy.TEXT, (why,), None, "", lambda reply: Reading(read(reply)))


def _without_schema(parser: TypeParser[T], capabilities: Capabilities, model: str) -> Wire[T]:
    why = "the type is any JSON, of which a schema says nothing"
    if capabilities.json_mode and not capabilities.constrained:
        return _json_mode(parser, f"{why}, and {model} has JSON mode")
    return _prompt(parser, why)


def _asked(parser: TypeParser[T], capabilities: Capabilities, asked: Strategy, model: str) -> Wire[T]:
    why = "it was asked for"
    if asked is Strategy.TEXT:
        raise StrategyFault(f"the strategy text is for str; {parser.name} needs structure")
    if asked is Strategy.JSON_SCHEMA and capabilities.json_schema:
        return _json_schema(parser, capabilities, why)
    if asked is Strategy.GRAMMAR and capabilities.constrained:
        return _grammar(parser, why)
    if asked is Strategy.JSON_MODE and capabilities.json_mode:
        return _json_mode(parser, why)
    if asked is Strategy.PROMPT:
        return _prompt(parser, why)
    has = ", ".join(name for name in capabilities.__slots__ if getattr(capabilities, name)) or "none"
    raise StrategyFault(f"the strategy {asked} is not among what {model} can do; its capabilities: {has}")


def _json_schema(parser: TypeParser[T], capabilities: Capabilities, why: str) -> Wire[T]:
    carried = _object_rooted(parser)
    schema = carried.schema or {}
    strict = capabilities.strict_schema and is_strict(schema)
    reasons = [why, *_envelope_reason(parser, carried)]
    if capabilities.strict_schema and not strict:
        reasons.append("the schema says more than strict mode can; it is sent without strict")
    response_format = JsonSchemaFormat(_schema_name(parser.name), schema, strict)
    return Wire(Strategy.JSON_SCHEMA, tuple(reasons), response_format, "", _reader(carried))


def _grammar(parser: TypeParser[T], why: str) -> Wire[T]:
    carried = _object_rooted(parser)
    response_format = JsonSchemaFormat(_schema_name(parser.name), carried.schema or {}, strict=True)
    reasons = (why, "the prompt gets a hint, for the model does not read the schema")
    instructions = f"Reply with JSON only: {carried.hint}"
    return Wire(
        Strategy.GRAMMAR,
        (*reasons, *_envelope_reason(parser, carried)),
        response_format,
        instructions,
        _reader(carried),
    )


def _json_mode(parser: TypeParser[T], why: str) -> Wire[T]:
    carried = _object_rooted(parser)
    reasons = (why, *_envelope_reason(parser, carried))
    return Wire(
        Strategy.JSON_MODE,
        reasons,
        JsonObjectFormat(),
        f"Reply with JSON only: {carried.hint}",
        _reader(carried),
    )


def _prompt(parser: TypeParser[T], why: str) -> Wire[T]:
    return Wire(Strategy.PROMPT, (why,), None, parser.format_instructions(), _reader(parser))


def _object_rooted(parser: TypeParser[T]) -> TypeParser[T]:
    """The parser itself where its schema is an object, else the one of its envelope."""
    return parser if (parser.schema or {}).get("type") == "object" else parser.enveloped()


def _envelope_reason(parser: TypeParser[Any], carried: TypeParser[Any]) -> tuple[str, ...]:
    return () if carried is parser else ("the value travels in an object, under the key 'value'",)


def _schema_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "_", name).strip("_")[:60] or "value"


def _reader(parser: OutputParser[T]) -> Callable[[ChatReply], Reading[T]]:
    if isinstance(parser, TypeParser):
        read = parser.read
        return lambda reply: read(reply.message.text)
    return lambda reply: Reading(parser.parse(reply.message.text))
