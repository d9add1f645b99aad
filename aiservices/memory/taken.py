"""What of a call is kept: the question as it was asked, what was said with tools, and the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..messages import AiMessage, Message, ToolMessage, UserMessage
from ..pipeline import Answer
from ..plan import Turn
from ..requests import ChatRequest
from ..strategies import INSTRUCTIONS_PLACE
from .exchanges import Exchange

__all__ = ["Sent", "asked_of", "exchange_of"]


def asked_of(turn: Turn) -> UserMessage | None:
    """What the user says in a turn, without the place for instructions; None when there is nothing."""
    asked = _users(turn.request)
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
        self._requests: list[ChatRequest] = []

    def noting(self, turn: Turn) -> Turn:
        """The turn, with each request noted that goes out for it."""
        plan = turn.plan
        return replace(turn, plan=plan._replace(transform=self._with(plan.transform)))

    def message(self) -> UserMessage | None:
        """The message as the model saw it that answered; None when no request went out.

        What a retry says after it is no message of the user: in the first request, there is none of that.
        """
        if not self._requests:
            return None
        number = len(_users(self._requests[0]))
        asked = _users(self._requests[-1])[:number]
        return asked[-1] if asked else None

    def _with(
        self, transform: Callable[[ChatRequest], ChatRequest] | None
    ) -> Callable[[ChatRequest], ChatRequest]:
        def note(request: ChatRequest) -> ChatRequest:
            going = request if transform is None else transform(request)
            self._requests.append(going)
            return going

        return note


def _users(request: ChatRequest) -> list[UserMessage]:
    return [message for message in request.messages if isinstance(message, UserMessage)]
