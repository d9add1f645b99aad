"""Asks a model again when its answer cannot be read, with the problems that it has to put right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from output_parsers.errors import Problem

from .errors import DefinitionError, Fault, ServiceOutputError
from .flow import Flow
from .messages import AiMessage, Message, ToolMessage, UserMessage
from .pipeline import Answer, Proceed
from .plan import Turn

__all__ = ["Retry"]

_MOST_PROBLEMS = 20  # that a model is told of at once


@dataclass(frozen=True, slots=True)
class Retry:
    """Asks again when an answer cannot be read as the method's type; the model sees it and its problems.

    ``max_attempts`` is how many answers are asked for, the first included; None: as many as the budget of
    the call permits, which bounds them in any case. An interceptor; ``create(retry=…)`` puts it innermost.
    """

    max_attempts: int | None = None

    def __post_init__(self) -> None:
        if self.max_attempts is not None and self.max_attempts < 1:
            fault = f"max_attempts is {self.max_attempts}; it must be at least 1"
            raise DefinitionError([Fault("Retry", fault)])

    def __call__(self, turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
        asked, made = turn.request, 0
        while True:
            try:
                return (yield from proceed(turn))
            except ServiceOutputError as error:
                made += 1
                if made == self.max_attempts or not turn.context.may_ask_again():
                    raise
                turn = replace(turn, request=asked.plus(*_feedback(turn, error.problems)))


def _feedback(turn: Turn, problems: Sequence[Problem]) -> tuple[Message, ...]:
    """The answer that cannot be read, and what is wrong with it."""
    told = [f"- {problem}" for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        told.append(f"- and {len(problems) - _MOST_PROBLEMS} more")
    said = "\n".join(
        ["That answer cannot be read:", *told, "Answer again in full, with these problems put right."]
    )
    reply = turn.context.attempts[-1].reply
    if reply is None or not (reply.text or reply.message.tool_calls):
        return (UserMessage(said),)
    calls = reply.message.tool_calls
    if not calls:
        return AiMessage(reply.text), UserMessage(said)
    return reply.message, *(ToolMessage(call.id, call.name, said) for call in calls)
