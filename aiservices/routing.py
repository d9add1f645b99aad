"""Finds how the models of a method are asked for its type, and who reads what they write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from output_parsers.custom import OutputParser
from output_parsers.errors import UnsupportedTypeError
from output_parsers.parser import TypeParser
from output_parsers.registry import ParserRegistry

from .errors import Fault
from .ladder import StrategyFault, ladder_for, ladder_of_one
from .messages import AiMessage, ChatReply
from .models.base import ChatModel, members_of
from .returns import Returns, Shape
from .route import Route
from .strategies import wire_of_reply
from .strategy import Strategy

__all__ = ["parser_of", "routes_of"]

_REPLIES: dict[Any, Callable[[ChatReply], Any]] = {
    ChatReply: lambda reply: reply,
    AiMessage: lambda reply: reply.message,
}


def routes_of(
    returns: Returns,
    parser: OutputParser[Any] | None,
    model: ChatModel | None,
    strategies: tuple[Strategy | None, Strategy | None],
    where: str,
    faults: list[Fault],
) -> tuple[Route, ...]:
    """The models that may be asked, each with the ways to ask it for the type."""
    members = () if model is None else members_of(model)
    if parser is None:
        read = _REPLIES.get(returns.form)
        return () if read is None else tuple(Route(m, ladder_of_one(wire_of_reply(read))) for m in members)
    own, general = strategies
    # what holds for a whole service holds for its methods that need structure
    asked = own or (None if parser.schema is None else general)
    growing = returns.shape in (Shape.ITEMS, Shape.STREAM)
    try:
        ladders = [ladder_for(parser, m.capabilities, asked, m.name, growing=growing) for m in members]
        for ladder in ladders:
            ladder.prepare()
    except (StrategyFault, UnsupportedTypeError) as error:
        faults.append(Fault(where, str(error)))
        return ()
    return tuple(map(Route, members, ladders))


def parser_of(
    returns: Returns, parsers: ParserRegistry, namespace: Mapping[str, Any], where: str, faults: list[Fault]
) -> OutputParser[Any] | None:
    """The parser of what the model is to write; None where it is the reply itself, or nothing reads it."""
    if isinstance(returns.form, type) and returns.form in _REPLIES:
        return None
    try:
        parser = parsers.parser_for(returns.form, namespace=namespace)
        if returns.shape is not Shape.ITEMS:
            return parser
        from output_parsers.partial import ItemPolicy  # few methods hand over items
        from output_parsers.partial.item_list import ItemListParser

        item = parser if isinstance(parser, TypeParser) else TypeParser.around(parser)
        return ItemListParser(item, ItemPolicy.KEEP if returns.keeps_errors else ItemPolicy.RAISE)
    except UnsupportedTypeError as error:
        faults.append(Fault(where, str(error)))
        return None
