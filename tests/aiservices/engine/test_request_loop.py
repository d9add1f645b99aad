"""The requests that are sent until a model gives a reply that can be used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Protocol

import pytest
from piecewise_model import PiecewiseModel

from aiservices import (
    AiMessage,
    Budget,
    ChatReply,
    ChatRequest,
    Result,
    ScriptedChatModel,
    create,
    user_message,
)
from aiservices.engine.streams import ReplyReceived
from aiservices.interceptors import Answer, Flow, Invocation, Proceed
from aiservices.models.errors import (
    AttemptPurpose,
    FinishError,
    ModelError,
    ModelServerError,
    ServiceOutputError,
    TruncatedError,
)
from aiservices.models.messages import FinishReason, Usage


class Desk(Protocol):
    @user_message("Answer: {{text}}")
    def answer(self, text: str) -> Result[str]: ...


def part(text: str, finish_reason: FinishReason) -> ChatReply:
    return ChatReply(AiMessage(text), finish_reason)


def desk(model: ScriptedChatModel, attempts: int = 3) -> Desk:
    return create(Desk, model, budget=Budget(max_attempts=attempts))


def test_a_paused_reply_is_continued_and_its_parts_are_joined() -> None:
    failure = ModelServerError("busy", retryable=True)
    model = ScriptedChatModel([failure, part("one ", FinishReason.PAUSED), part("two", FinishReason.STOP)])
    result = create(Desk, model, budget=Budget(max_attempts=2, first_wait=0)).answer("x")
    assert result.value == "one two"
    assert [attempt.purpose for attempt in result.attempts] == [
        AttemptPurpose.ANSWER,
        AttemptPurpose.TOOL_ROUND,
        AttemptPurpose.ANSWER,
    ]
    assert model.requests[2].messages[-1] == AiMessage("one ")


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


def test_a_request_leaves_out_all_options_that_were_refused_until_the_model_replies() -> None:
    failures = []
    for name in ("seed", "top_p"):
        failure = ModelError(f"{name} is not supported", status=400)
        failure.remedy, failure.refused_options = "send again", {name: ("1",)}
        failures.append(failure)
    model = ScriptedChatModel([*failures, part("one ", FinishReason.PAUSED), "two"])
    assert desk(model).answer("x").value == "one two"
    seed, both = {"seed": ("1",)}, {"seed": ("1",), "top_p": ("1",)}
    assert [request.refused_options or {} for request in model.requests] == [{}, seed, both, {}]


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
    for earlier in ([], [part("one ", FinishReason.PAUSED)]):
        model = ScriptedChatModel([*earlier, refused, "two"])
        with pytest.raises(ModelError) as caught:
            desk(model).answer("x")
        assert caught.value is refused
        assert len(model.requests) == len(earlier) + 1


def test_a_request_of_a_cancelled_call_is_an_attempt_whose_error_has_the_cancellation_as_its_cause() -> None:
    class Waiting(PiecewiseModel):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            raise asyncio.CancelledError("by the user")

    class AsyncDesk(Protocol):
        async def answer(self, text: str) -> str: ...

    errors: list[Exception | None] = []

    def watch(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        try:
            return (yield from proceed(invocation))
        finally:
            errors.extend(attempt.error for attempt in invocation.state.attempts)

    service = create(AsyncDesk, Waiting(), interceptors=[watch])
    with pytest.raises(asyncio.CancelledError) as caught:
        asyncio.run(service.answer("x"))
    assert [str(error) for error in errors] == ["piecewise: the call ended before the reply was complete"]
    assert errors[0] is not None
    assert errors[0].__cause__ is caught.value


@pytest.mark.parametrize("budget", [Budget(), Budget(tokens=1000)])
def test_a_stream_with_an_invalid_item_is_read_to_its_end_only_if_a_budget_counts_its_tokens(
    budget: Budget,
) -> None:
    class Numbers(Protocol):
        def count(self, text: str) -> Iterator[int]: ...

        def acount(self, text: str) -> AsyncIterator[int]: ...

    async def collect(numbers: AsyncIterator[int]) -> list[int]:
        return [number async for number in numbers]

    calls: list[Callable[[Numbers], list[int]]] = [
        lambda service: list(service.count("x")),
        lambda service: asyncio.run(collect(service.acount("x"))),
    ]
    for call in calls:
        model = PiecewiseModel(['{"items": [1, ', '"x", ', *["3, "] * 9, "3]}"])
        with pytest.raises(ServiceOutputError) as caught:
            call(create(Numbers, model, budget=budget))
        assert (model.sent_pieces, caught.value.usage) == ((12, Usage(1, 12)) if budget.tokens else (3, None))
        assert 0 <= caught.value.attempts[0].seconds < 60


def test_listeners_receive_token_counts_that_are_possible() -> None:
    impossible = replace(part("done", FinishReason.STOP), usage=Usage(5, -3))
    events: list[object] = []
    model = ScriptedChatModel([impossible])
    result = create(Desk, model, listeners=[events.append]).answer("x")
    received = [event.reply.usage for event in events if isinstance(event, ReplyReceived)]
    assert received == [result.usage] == [Usage(5, 0)]
