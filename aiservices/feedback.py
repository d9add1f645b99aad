"""Words to a model about an answer of its own that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

from output_parsers.errors import Problem

from .messages import AiMessage, Message, ToolMessage, UserMessage
from .plan import Turn

__all__ = ["feedback", "told"]

_MOST_PROBLEMS = 20  # that a model is told of at once


def told(problems: Sequence[Problem], wish: str) -> str:
    """What is wrong with an answer, and what to do, as the model is told."""
    told = [f"- {problem}" for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        told.append(f"- and {len(problems) - _MOST_PROBLEMS} more")
    return "\n".join(["That answer cannot be read:", *told, wish])


def feedback(turn: Turn, said: str) -> tuple[Message, ...]:
    """The last answer, and what is said of it."""
    reply = turn.context.attempts[-1].reply
    if reply is None or not (reply.text or reply.message.tool_calls):
        return (UserMessage(said),)
    calls = reply.message.tool_calls
    if not calls:
        return AiMessage(reply.text), UserMessage(said)
    return reply.message, *(ToolMessage(call.id, call.name, said) for call in calls)
