"""SummarizingWindow summarizes old exchanges with one more request of the same call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    AiServiceError,
    Budget,
    BudgetExceededError,
    ChatReply,
    FinishReason,
    Message,
    ModelServerError,
    Price,
    Result,
    ScriptedChatModel,
    SharedBudget,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    create,
)
from aiservices.memory import ChatMemory, InMemoryChatMemoryStore, MessageWindow, SummarizingWindow
from aiservices.models.media import Image


class Chat(Protocol):
    def chat(self, text: str) -> Result[str]: ...
    async def achat(self, text: str) -> Result[str]: ...
    def texts(self, text: str) -> Iterator[str]: ...


OLD: tuple[Message, ...] = (
    UserMessage("I am Ann", "ann", (Image.from_url("https://a.b/ann.png"),)),
    AiMessage("", (ToolCall("1", "look", '{"who": "Ann"}'),)),
    ToolMessage("1", "look", "a teacher"),
    AiMessage("hello, teacher"),
)
NEW: tuple[Message, ...] = (UserMessage("x"), AiMessage("1"))
SUMMARY: tuple[Message, ...] = (
    UserMessage("This is a summary of what we said before:\n\nAnn teaches."),
    AiMessage("Thank you. I go on from there."),
)
TRANSCRIPT = (
    "User ann: I am Ann [image/png, https://a.b/ann.png]\n"
    'Assistant called look: {"who": "Ann"}\nResult of look: a teacher\n'
    "Assistant: hello, teacher"
)


def remembering(writer: ScriptedChatModel, *, forget: bool = False, **settings: Any) -> ChatMemory:
    store = InMemoryChatMemoryStore()
    store.append("Chat", (*OLD, *NEW), expected=0)
    window = SummarizingWindow(writer, window=MessageWindow(5), keep=MessageWindow(3), **settings)
    return ChatMemory(window, store=store, forget_evicted=forget)


def test_a_summary_replaces_the_exchanges_that_it_summarizes() -> None:
    writer, model = ScriptedChatModel([" Ann teaches.\n"]), ScriptedChatModel(["2"])
    memory = remembering(writer, instructions="Sum up.")
    create(Chat, model, interceptors=[memory]).chat("y")
    assert writer.requests[0].messages == (SystemMessage("Sum up."), UserMessage(TRANSCRIPT))
    assert model.requests[0].messages == (*SUMMARY, *NEW, UserMessage("y"))
    assert memory.messages() == (*SUMMARY, *NEW, UserMessage("y"), AiMessage("2"))


def test_a_conversation_that_fits_is_not_summarized() -> None:
    writer = ScriptedChatModel([])
    memory = ChatMemory(SummarizingWindow(writer))
    create(Chat, ScriptedChatModel(["1"]), interceptors=[memory]).chat("x")
    assert (memory.messages(), writer.requests) == (NEW, [])


def test_a_keep_that_exceeds_the_window_is_limited_by_it() -> None:
    store = InMemoryChatMemoryStore()
    store.append("Chat", (*OLD, *NEW), expected=0)
    writer, model = ScriptedChatModel(["Ann teaches."]), ScriptedChatModel(["2"])
    window = SummarizingWindow(writer, window=MessageWindow(5), keep=MessageWindow(99))
    create(Chat, model, interceptors=[ChatMemory(window, store=store)]).chat("y")
    assert model.requests[0].messages == (*SUMMARY, *NEW, UserMessage("y"))


def test_a_summary_is_in_the_attempts_but_does_not_count_against_max_attempts() -> None:
    writer = ScriptedChatModel(["Ann teaches."], name="writer")
    service = create(
        Chat, ScriptedChatModel(["2"]), interceptors=[remembering(writer)], budget=Budget(max_attempts=1)
    )
    result = service.chat("y")
    assert [(one.model, one.text) for one in result.attempts] == [
        ("writer", "Ann teaches."),
        ("scripted", "2"),
    ]
    spent = [one.reply.usage for one in result.attempts if one.reply is not None]
    assert result.usage == (spent[0] or Usage()) + (spent[1] or Usage())


def test_a_shared_budget_counts_the_request_of_a_summary() -> None:
    memory = remembering(ScriptedChatModel(["Ann teaches."]))
    with SharedBudget() as spent:
        create(Chat, ScriptedChatModel(["2"]), interceptors=[memory]).chat("y")
    assert spent.requests == 2


def test_a_summary_works_in_async_calls_and_is_not_shown_by_streams() -> None:
    writer = ScriptedChatModel(lambda request: "Ann teaches.")
    memory = remembering(writer)
    assert list(create(Chat, ScriptedChatModel(["to be"]), interceptors=[memory]).texts("y")) == ["to ", "be"]
    assert memory.messages()[:2] == SUMMARY
    memory = remembering(writer)
    assert asyncio.run(create(Chat, ScriptedChatModel(["2"]), interceptors=[memory]).achat("y")).value == "2"
    assert memory.messages()[:2] == SUMMARY


@pytest.mark.parametrize(
    "reply",
    [
        ModelServerError("500", status=500),
        ChatReply(AiMessage("no"), refusal="no"),
        ChatReply(AiMessage("Ann t"), FinishReason.LENGTH),
        " ",
    ],
)
def test_a_failed_summary_does_not_fail_the_call_or_lose_messages(reply: Any) -> None:
    model = ScriptedChatModel(["2"])
    memory = remembering(ScriptedChatModel([reply]), forget=True)
    result = create(Chat, model, interceptors=[memory]).chat("y")
    assert (result.value, len(result.attempts)) == ("2", 2)
    assert model.requests[0].messages == (*NEW, UserMessage("y"))
    assert memory.messages() == (*OLD, *NEW, UserMessage("y"), AiMessage("2"))


def test_a_failed_call_keeps_the_exchanges_that_were_summarized() -> None:
    memory = remembering(ScriptedChatModel(["Ann teaches."]))
    service = create(Chat, ScriptedChatModel([ModelServerError("500")]), interceptors=[memory])
    with pytest.raises(AiServiceError) as caught:
        service.chat("y")
    assert memory.messages() == (*OLD, *NEW)
    assert [one.text for one in caught.value.attempts] == ["Ann teaches.", ""]


def test_no_summary_is_requested_after_the_end_of_the_budget() -> None:
    writer, model = ScriptedChatModel(["Ann teaches."]), ScriptedChatModel(["2"])
    store = InMemoryChatMemoryStore()
    store.append("Chat", (*OLD, *NEW), expected=0)

    class Late(InMemoryChatMemoryStore):
        def load(self, conversation: str, /) -> Any:
            import time

            time.sleep(0.05)
            return store.load(conversation)

    window = SummarizingWindow(writer, window=MessageWindow(5))
    service = create(
        Chat, model, interceptors=[ChatMemory(window, store=Late())], budget=Budget(seconds=0.01)
    )
    with pytest.raises(BudgetExceededError) as caught:
        service.chat("y")
    assert (caught.value.limit, writer.requests, model.requests) == ("seconds", [], [])


def test_a_summary_request_ends_with_the_seconds_of_the_budget() -> None:
    writer = ScriptedChatModel(["Ann teaches."])
    service = create(
        Chat, ScriptedChatModel(["2"]), interceptors=[remembering(writer)], budget=Budget(seconds=500)
    )
    service.chat("y")
    (request,) = writer.requests
    assert request.deadline is not None
    assert 400 < request.deadline - time.monotonic() <= 500


def test_a_budget_of_money_has_to_know_the_price_of_a_summary() -> None:
    writer = ScriptedChatModel(["Ann teaches."], name="writer")
    budget = Budget(money=1, prices={"scripted": Price(1, 1)})
    service = create(Chat, ScriptedChatModel(["2"]), interceptors=[remembering(writer)], budget=budget)
    with pytest.raises(AiServiceError) as caught:
        service.chat("y")
    assert str(caught.value) == "Chat.chat: the budget limits money, but its prices do not name writer"
