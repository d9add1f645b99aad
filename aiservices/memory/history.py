"""Split a conversation into exchanges, each from a user message to the model's final answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..engine.output_format import INSTRUCTIONS_MARK
from ..engine.plan import Invocation
from ..engine.results import Answer
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
from ..models.strategy import Strategy

# A user message, rounds of tool calls with their results, and the answer. Memory keeps or drops an exchange
# as a whole: providers reject a tool result without its call, and an answer without its question.
Exchange: TypeAlias = tuple[Message, ...]


def last_system_message(messages: Iterable[Message]) -> SystemMessage | None:
    """Return the last system message of a conversation, or None if it has no system message."""
    last = None
    for message in messages:
        if isinstance(message, SystemMessage):
            last = message
    return last


def split_exchanges(messages: Iterable[Message]) -> tuple[Exchange, ...]:
    """Split a conversation into exchanges, each from a user message to the model's final answer.

    Incomplete exchanges are dropped, because providers reject a conversation that contains a tool call
    without its result or a question without an answer. System messages are dropped as well.
    """
    groups: list[list[Message]] = []
    for message in messages:
        if isinstance(message, UserMessage):
            groups.append([message])
        elif groups and not isinstance(message, SystemMessage):
            groups[-1].append(message)
    return tuple(exchange for exchange in map(tuple, groups) if is_complete(exchange))


def is_complete(exchange: Sequence[Message]) -> bool:
    """Return True if messages start with a user message, end with the final answer, and have no gaps.

    That is a user message, any number of tool rounds with all their results, and an AI message.
    """
    if not exchange or not isinstance(exchange[0], UserMessage):
        return False
    open_call_ids: list[str] = []
    answered = False
    for message in exchange[1:]:
        if answered:
            return False
        if isinstance(message, ToolMessage) and message.call_id in open_call_ids:
            open_call_ids.remove(message.call_id)
        elif isinstance(message, AiMessage) and not open_call_ids:
            open_call_ids = [call.id for call in message.tool_calls]
            answered = not open_call_ids
        else:
            return False
    return answered


def join_exchanges(exchanges: Iterable[Exchange]) -> tuple[Message, ...]:
    """Join exchanges (user messages with their answers) into one sequence of messages."""
    return tuple(message for exchange in exchanges for message in exchange)


def user_message_from_dict(data: Mapping[str, Any]) -> UserMessage:
    """Convert a stored dict to a UserMessage, or raise ValueError if it is another kind of message."""
    message = message_from_dict(data)
    if not isinstance(message, UserMessage):
        raise ValueError("it is not a user message")
    return message


def user_message_of(invocation: Invocation) -> UserMessage | None:
    """Return the last user message of a chat request, without the instructions about the answer format."""
    messages = _user_messages(invocation.request)
    if not messages:
        return None
    last = messages[-1]
    if INSTRUCTIONS_MARK not in last.text:
        return last
    return replace(last, text=last.text.replace(INSTRUCTIONS_MARK, "").strip())


def exchange_of(user_message: UserMessage | None, answer: Answer) -> Exchange:
    """Return the messages of a finished call to save in the memory, from the user message to the answer.

    An answer that is a tool call is recorded as the text of its arguments, and an answer that is the result
    of a tool as the text of that result. Otherwise providers would reject the conversation in the next call,
    since the last tool call has no result or no reply.
    """
    messages = answer.messages or (answer.reply.message,)
    last = messages[-1]
    question: tuple[Message, ...] = () if user_message is None else (user_message,)
    if isinstance(last, AiMessage) and last.tool_calls:
        by_tool = answer.strategy is Strategy.OUTPUT_TOOL or not last.text
        return (*question, *messages[:-1], AiMessage(last.tool_calls[0].arguments if by_tool else last.text))
    if answer.tool_run is None:
        return (*question, *messages)
    call_id = answer.tool_run.call.id
    # not the text of the run, because an interceptor may have replaced it in the message
    results = (one for one in messages if isinstance(one, ToolMessage) and one.call_id == call_id)
    return (*question, *messages, *(AiMessage(one.text) for one in results))


_STATE_KEY = "memory.sent"  # part of stored states, so it must not change


class SentMessageRecorder:
    """Records the user message as it is sent to the model, with retrieved texts and format instructions."""

    def __init__(self) -> None:
        self.message: UserMessage | None = None  # of the last request; None before the first request
        self._user_messages: int | None = None  # in the first request, without those of the examples

    def watch(self, invocation: Invocation) -> Invocation:
        """Return a copy of a service call that records the user message before each chat request is sent.

        A call that is resumed after an approval gets the message that was recorded before it waited.
        """
        if invocation.is_resumed and _STATE_KEY in invocation.state.interceptor_data:
            self.message = invocation.stored_data(_STATE_KEY, user_message_from_dict)
            return invocation

        def record(request: ChatRequest) -> ChatRequest:
            self._record(request, invocation)
            return request

        return invocation.with_request_hook(record)

    def _record(self, request: ChatRequest, invocation: Invocation) -> None:
        """Record the user message of a chat request that is about to be sent to the model.

        Later requests of the call may have more user messages, which report the problems of a rejected
        answer. The number of user messages in the first request shows which one the user wrote.
        """
        messages, output_format = _user_messages(request), invocation.state.output_format
        # a request that repairs single fields of an answer is sent without the few-shot examples
        examples = 0 if output_format is None or not output_format.is_streamed else len(invocation.examples)
        if self._user_messages is None:
            self._user_messages = len(messages) - examples
        first_messages = messages[: self._user_messages + examples]
        self.message = first_messages[-1] if first_messages else None
        if self.message is not None:
            invocation.state.interceptor_data[_STATE_KEY] = message_to_dict(self.message)


def _user_messages(request: ChatRequest) -> list[UserMessage]:
    return [message for message in request.messages if isinstance(message, UserMessage)]
