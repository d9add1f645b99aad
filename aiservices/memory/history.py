"""A conversation taken apart: what a user said and all that answered it belongs together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..engine.output_format import INSTRUCTIONS_PLACE
from ..engine.pipeline import Answer
from ..engine.plan import Invocation
from ..models.messages import (
    AiMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
    message_from_dict,
    message_to_dict,
)
from ..models.requests import ChatRequest

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


_KEPT = "memory.sent"


def asked_of(invocation: Invocation) -> UserMessage | None:
    """What the user says in a turn, without the place for instructions; None when there is nothing."""
    asked = _users(invocation.request)
    if not asked:
        return None
    last = asked[-1]
    if INSTRUCTIONS_PLACE not in last.text:
        return last
    return replace(last, text=last.text.replace(INSTRUCTIONS_PLACE, "").strip())


def exchange_of(asked: UserMessage | None, answer: Answer) -> Exchange:
    """The question with all that was said after it; it ends with a text, as a conversation does.

    An answer that is the call of a tool is kept as the text of its arguments, and one that is the result of
    a tool as the text of that: a call without a result would be refused by providers in the next call.
    """
    said = answer.said or (answer.reply.message,)
    last = said[-1]
    begun: tuple[Message, ...] = () if asked is None else (asked,)
    if isinstance(last, AiMessage) and last.tool_calls:
        return (*begun, *said[:-1], AiMessage(last.tool_calls[0].arguments))
    if isinstance(last, ToolMessage):
        return (*begun, *said, AiMessage(last.text))
    return (*begun, *said)


class Sent:
    """Notes what the user message of a turn was when it was sent, with all that was put into it."""

    def __init__(self) -> None:
        self.message: UserMessage | None = None  # of the last request; None when none went out
        self._number: int | None = None

    def noting(self, invocation: Invocation) -> Invocation:
        """The turn, with each request noted that goes out for it; a call that waited has noted it before."""
        plan, kept = invocation.plan, invocation.state.kept
        if invocation.is_resumed and _KEPT in kept:
            message = message_from_dict(kept[_KEPT])
            self.message = message if isinstance(message, UserMessage) else None
            return invocation

        def note(request: ChatRequest) -> ChatRequest:
            going = request if plan.transform is None else plan.transform(request)
            self._note(going, invocation)
            return going

        return replace(invocation, plan=plan._replace(transform=note))

    def _note(self, going: ChatRequest, invocation: Invocation) -> None:
        """Note the message in a request; what is said after it to have an answer again is not the user's."""
        asked, wire = _users(going), invocation.state.wire
        # the parts of an answer are asked for without the examples
        examples = 0 if wire is None or not wire.shown else len(invocation.examples)
        if self._number is None:
            self._number = len(asked) - examples
        found = asked[: self._number + examples]
        self.message = found[-1] if found else None
        if self.message is not None:
            invocation.state.kept[_KEPT] = message_to_dict(self.message)


def _users(request: ChatRequest) -> list[UserMessage]:
    return [message for message in request.messages if isinstance(message, UserMessage)]
