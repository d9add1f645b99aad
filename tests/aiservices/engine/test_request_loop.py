"""The requests that are sent until a model gives a reply that can be used."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import pytest

from aiservices import AiMessage, Budget, ChatReply, Result, ScriptedChatModel, create, user_message
from aiservices.engine.streams import ReplyReceived
from aiservices.models.errors import AttemptPurpose, FinishError, ModelError, TruncatedError
from aiservices.models.messages import FinishReason, Usage


class Desk(Protocol):
    @user_message("Answer: {{text}}")
    def answer(self, text: str) -> Result[str]: ...


def part(text: str, finish_reason: FinishReason) -> ChatReply:
    return ChatReply(AiMessage(text), finish_reason)


def desk(model: ScriptedChatModel, attempts: int = 3) -> Desk:
    return create(Desk, model, budget=Budget(max_attempts=attempts))


def test_a_paused_reply_is_continued_and_its_parts_are_joined() -> None:
    model = ScriptedChatModel([part("one ", FinishReason.PAUSED), part("two", FinishReason.STOP)])
    result = desk(model, attempts=1).answer("x")
    assert result.value == "one two"
    assert [attempt.purpose for attempt in result.attempts] == [
        AttemptPurpose.TOOL_ROUND,
        AttemptPurpose.ANSWER,
    ]
    assert model.requests[1].messages[-1] == AiMessage("one ")


def test_a_continued_reply_that_is_cut_off_fails_with_the_whole_text() -> None:
    model = ScriptedChatModel([part("one ", FinishReason.PAUSED), part("two", FinishReason.LENGTH)])
    with pytest.raises(TruncatedError) as caught:
        desk(model).answer("x")
    assert caught.value.text == "one two"


def test_a_reply_is_continued_at_most_ten_times() -> None:
    model = ScriptedChatModel([part("x", FinishReason.PAUSED)] * 12)
    with pytest.raises(FinishError) as caught:
        desk(model).answer("x")
    assert len(model.requests) == 11
    assert caught.value.text == "x" * 11


def test_a_malformed_tool_call_is_requested_once_more() -> None:
    model = ScriptedChatModel([part("", FinishReason.MALFORMED), part("done", FinishReason.STOP)])
    assert desk(model).answer("x").value == "done"


def test_a_second_malformed_tool_call_ends_the_call() -> None:
    model = ScriptedChatModel([part("", FinishReason.MALFORMED)] * 3)
    with pytest.raises(FinishError):
        desk(model).answer("x")
    assert len(model.requests) == 2


def test_a_failure_with_a_remedy_does_not_count_as_a_failure_of_the_model() -> None:
    stale = ModelError("the connection was closed")
    stale.remedy = "send again"
    model = ScriptedChatModel([stale, "done"])
    result = desk(model).answer("x")
    assert result.value == "done"
    assert [attempt.error for attempt in result.attempts] == [stale, None]


def test_a_request_is_sent_again_with_less_at_most_ten_times() -> None:
    failures = [ModelError(f"member {number} is not supported", status=400) for number in range(12)]
    for failure in failures:
        failure.remedy = "send again"
    model = ScriptedChatModel([*failures, "done"])
    with pytest.raises(ModelError) as caught:
        desk(model).answer("x")
    assert caught.value is failures[10]
    assert len(model.requests) == 11


def test_only_the_refused_request_and_no_earlier_one_is_marked_as_refused() -> None:
    stale = ModelError("the connection was closed")
    stale.remedy = "send again"
    model = ScriptedChatModel([part("one ", FinishReason.PAUSED), stale, "two"])
    result = desk(model, attempts=1).answer("x")
    assert [attempt.purpose for attempt in result.attempts] == [
        AttemptPurpose.TOOL_ROUND,
        AttemptPurpose.REFUSED,
        AttemptPurpose.ANSWER,
    ]


def test_messages_are_sent_without_a_state_that_the_provider_refuses_and_later_ones_with_it() -> None:
    refused = ModelError("the signature is not valid", status=400)
    refused.remedy = "drop state"
    first, second = (
        ChatReply(AiMessage(text).with_state("p", "m", ["signature"]), FinishReason.PAUSED)
        for text in ("one ", "two ")
    )
    model = ScriptedChatModel([first, refused, second, "three"])
    assert desk(model).answer("x").value == "one two three"
    states = [
        [message.state is not None for message in request.messages if isinstance(message, AiMessage)]
        for request in model.requests
    ]
    assert states == [[], [True], [False], [False, True]]


def test_a_provider_that_refuses_a_state_that_was_not_sent_is_not_asked_again() -> None:
    refused = ModelError("the signature is not valid", status=400)
    refused.remedy = "drop state"
    model = ScriptedChatModel([refused, "two"])
    with pytest.raises(ModelError) as caught:
        desk(model).answer("x")
    assert caught.value is refused
    assert len(model.requests) == 1


def test_listeners_receive_token_counts_that_are_possible() -> None:
    impossible = replace(part("done", FinishReason.STOP), usage=Usage(5, -3))
    events: list[object] = []
    model = ScriptedChatModel([impossible])
    result = create(Desk, model, listeners=[events.append]).answer("x")
    received = [event.reply.usage for event in events if isinstance(event, ReplyReceived)]
    assert received == [result.usage] == [Usage(5, 0)]
