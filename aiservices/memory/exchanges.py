"""A conversation taken apart: what a user said and all that answered it belongs together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ..messages import AiMessage, Message, SystemMessage, ToolMessage, UserMessage

__all__ = ["Exchange", "exchanges_of", "flat", "is_whole", "system_of"]

# A user message, rounds of tool calls with their results, and the answer. It is kept or left out as one, so
# that no model is shown the result of a tool without its call, or an answer without its question.
Exchange: TypeAlias = tuple[Message, ...]


def system_of(messages: Iterable[Message]) -> SystemMessage | None:
    """The newest system message; None where there is none."""
    found = None
    for message in messages:
        if isinstance(message, SystemMessage):
            found = message
    return found


def exchanges_of(messages: Iterable[Message]) -> tuple[Exchange, ...]:
    """The whole exchanges of a conversation, oldest first.

    What is no part of one is left out, since providers refuse a conversation that holds it: an answer to
    nothing, a call without its result, a question that was never answered. System messages are not in them.
    """
    begun: list[list[Message]] = []
    for message in messages:
        if isinstance(message, UserMessage):
            begun.append([message])
        elif begun and not isinstance(message, SystemMessage):
            begun[-1].append(message)
    return tuple(exchange for exchange in map(tuple, begun) if is_whole(exchange))


def is_whole(exchange: Sequence[Message]) -> bool:
    """Whether messages are one exchange: a user, (an AI with calls, all of their results)*, an AI."""
    if not exchange or not isinstance(exchange[0], UserMessage):
        return False
    waiting: list[str] = []
    answered = False
    for message in exchange[1:]:
        if answered:
            return False
        if isinstance(message, ToolMessage) and message.call_id in waiting:
            waiting.remove(message.call_id)
        elif isinstance(message, AiMessage) and not waiting:
            waiting = [call.id for call in message.tool_calls]
            answered = not waiting
        else:
            return False
    return answered


def flat(exchanges: Iterable[Exchange]) -> tuple[Message, ...]:
    """The messages of exchanges, one after the other."""
    return tuple(message for exchange in exchanges for message in exchange)
