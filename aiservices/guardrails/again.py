"""Asks again after an answer that a guard rejected, and keeps that answer out of what was said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..messages import AiMessage, Message, ToolMessage, UserMessage
from ..pipeline import Answer
from ..plan import Turn
from .asked import Told

__all__ = ["asked_again", "without_answer"]


def without_answer(said: Sequence[Message]) -> tuple[Message, ...]:
    """The rounds of tools before an answer, without it; a result that is the answer goes with its round."""
    if not said:
        return ()
    answers = [at for at, message in enumerate(said) if isinstance(message, AiMessage)]
    return tuple(said[: answers[-1]]) if answers else ()


def asked_again(turn: Turn, since: int, answer: Answer, text: str, message: str | None) -> Turn:
    """The turn that has an answer given again: after what was said with tools, which do not run again.

    ``since`` is how much of that is in the request by now. With a message the model is shown its answer, and
    told that; ``text`` is what the answer says.
    """
    before = without_answer(answer.said)[since:]
    told = () if message is None else _rejected(answer, text, Told(message))
    return replace(turn, request=turn.request.plus(*before, *told))


def _rejected(answer: Answer, text: str, told: str) -> tuple[Message, ...]:
    """The answer, and what is said of it."""
    said = answer.said
    if said and isinstance(said[-1], ToolMessage):
        return (*said[len(without_answer(said)) :], UserMessage(told))
    calls = answer.reply.message.tool_calls
    if calls and calls[0].arguments == text:
        shown = AiMessage(answer.reply.text, calls)
        return (shown, *(ToolMessage(call.id, call.name, told) for call in calls))
    return (AiMessage(text), UserMessage(told)) if text else (UserMessage(told),)
