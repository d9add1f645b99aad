"""Windows select the newest complete exchanges that fit a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pytest
from hypothesis import given, strategies as st

from aiservices import (
    AiMessage,
    ChatReply,
    DefinitionError,
    FinishReason,
    Message,
    ScriptedChatModel,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
)
from aiservices.memory import (
    ChatMemory,
    InMemoryChatMemoryStore,
    MessageWindow,
    SummarizingWindow,
    TokenWindow,
    Window,
    estimate_tokens,
)
from aiservices.memory.windows import split_exchanges
from aiservices.models.media import Image

CALLS = AiMessage("", (ToolCall("1", "look", "{}"), ToolCall("2", "look", "{}")))
ROUND = (CALLS, ToolMessage("1", "look", "a"), ToolMessage("2", "look", "b"))
PLAIN: tuple[Message, ...] = (UserMessage("x"), AiMessage("1"))
WITH_TOOLS: tuple[Message, ...] = (UserMessage("y"), *ROUND, AiMessage("2"))


class Chat(Protocol):
    def chat(self, text: str) -> str: ...


def is_valid(messages: Sequence[Message]) -> bool:
    """Return True if providers accept the order of the messages."""
    rest = [*messages]
    if rest and isinstance(rest[0], SystemMessage):
        rest.pop(0)
    while rest:
        if not isinstance(rest.pop(0), UserMessage):
            return False
        while rest and isinstance(rest[0], AiMessage) and rest[0].tool_calls:
            calls = rest.pop(0)
            assert isinstance(calls, AiMessage)
            results, rest = rest[: len(calls.tool_calls)], rest[len(calls.tool_calls) :]
            ids = sorted(one.call_id for one in results if isinstance(one, ToolMessage))
            if ids != sorted(call.id for call in calls.tool_calls):
                return False
        if rest and not isinstance(rest.pop(0), AiMessage):
            return False
    return True


@pytest.mark.parametrize(
    ("room", "remaining"),
    [
        (1, ()),
        (2, ()),
        (3, (WITH_TOOLS[0], WITH_TOOLS[-1])),
        (5, (WITH_TOOLS[0], WITH_TOOLS[-1])),
        (6, WITH_TOOLS),
        (7, WITH_TOOLS),
        (8, (*PLAIN, *WITH_TOOLS)),
        (99, (*PLAIN, *WITH_TOOLS)),
    ],
)
def test_calls_and_their_results_leave_the_window_together(room: int, remaining: tuple[Message, ...]) -> None:
    store = InMemoryChatMemoryStore()
    store.append("Chat", (*PLAIN, *WITH_TOOLS), expected=0)
    model = ScriptedChatModel(["3"])
    create(Chat, model, interceptors=[ChatMemory(MessageWindow(room), store=store)]).chat("z")
    assert model.requests[0].messages == (*remaining, UserMessage("z"))


def test_the_system_message_counts_and_stays() -> None:
    store = InMemoryChatMemoryStore()
    store.append("Chat", (*PLAIN, *PLAIN), expected=0)
    model = ScriptedChatModel(["3"])
    memory = ChatMemory(MessageWindow(4), store=store)
    create(Chat, model, interceptors=[memory], system_message="S").chat("z")
    assert model.requests[0].messages == (SystemMessage("S"), *PLAIN, UserMessage("z"))


def test_tokens_are_counted_by_count_tokens() -> None:
    store = InMemoryChatMemoryStore()
    store.append("Chat", (*PLAIN, *PLAIN, *PLAIN), expected=0)
    model = ScriptedChatModel(["3"])
    window = TokenWindow(5, lambda message: len(message.text))
    create(Chat, model, interceptors=[ChatMemory(window, store=store)]).chat("z")
    assert model.requests[0].messages == (*PLAIN, *PLAIN, UserMessage("z"))


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage(""), 4),
        (UserMessage("hello"), 6),
        (UserMessage("hello", contents=(Image.from_url("https://a.b/c.png"), "hello")), 1006),
        (UserMessage("张三今年30岁"), 10),
        (AiMessage("", (ToolCall("1", "look", '{"a": 1}'),)), 7),
    ],
)
def test_tokens_are_estimated(message: Message, tokens: int) -> None:
    assert estimate_tokens(message) == tokens


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: MessageWindow(0), "MessageWindow: max_messages is 0; it must be at least 1"),
        (lambda: TokenWindow(-1), "TokenWindow: max_tokens is -1; it must be at least 1"),
    ],
)
def test_a_window_with_a_limit_below_1_is_a_definition_error(make: Any, expected: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        make()
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    "broken",
    [
        (AiMessage("hello"),),
        (ToolMessage("1", "look", "a"),),
        (UserMessage("unanswered"),),
        (UserMessage("x"), CALLS),
        (UserMessage("x"), CALLS, ROUND[1]),
        (UserMessage("x"), CALLS, ROUND[1], AiMessage("1")),
        (UserMessage("x"), ROUND[1], AiMessage("1")),
        (UserMessage("x"), AiMessage("1"), AiMessage("2")),
        (UserMessage("x"), CALLS, ROUND[1], ROUND[1], AiMessage("1")),
    ],
)
def test_incomplete_exchanges_are_not_sent(broken: tuple[Message, ...]) -> None:
    assert split_exchanges((*broken, *PLAIN)) == (PLAIN,)
    assert split_exchanges((*WITH_TOOLS, *broken))[1:] == ()


MESSAGES = st.lists(
    st.one_of(
        st.just(SystemMessage("s")),
        st.just(UserMessage("u")),
        st.just(AiMessage("a")),
        st.just(CALLS),
        st.sampled_from(ROUND[1:]),
    ),
    max_size=20,
)
WINDOWS = st.one_of(
    st.builds(MessageWindow, st.integers(1, 12)),
    st.builds(TokenWindow, st.integers(1, 60)),
    st.builds(
        lambda within, keep: SummarizingWindow(
            ScriptedChatModel(lambda request: "s"), window=MessageWindow(within), keep=MessageWindow(keep)
        ),
        st.integers(1, 12),
        st.integers(1, 12),
    ),
)


@given(st.lists(st.integers(0, 3), max_size=12), WINDOWS, st.booleans(), st.booleans())
def test_any_calls_with_tool_rounds_leave_a_valid_conversation(
    rounds: list[int], window: Window, forget: bool, system: bool
) -> None:
    store = InMemoryChatMemoryStore()
    script: list[Any] = []
    for number in rounds:
        script += [ChatReply(CALLS, FinishReason.TOOL_CALLS)] * number + ["done"]
    model = ScriptedChatModel(script)
    memory = ChatMemory(window, store=store, forget_evicted=forget)
    chat = create(Chat, model, tools=[look], interceptors=[memory], system_message="S" if system else None)
    for number in range(len(rounds)):
        chat.chat(f"turn {number}")
        assert is_valid(store.load("Chat").messages)
    assert all(is_valid(request.messages) for request in model.requests)
    assert all(isinstance(request.messages[0], SystemMessage) is system for request in model.requests)


@given(MESSAGES, WINDOWS)
def test_requests_are_valid_whatever_the_store_contains(stored: list[Message], window: Window) -> None:
    store = InMemoryChatMemoryStore()
    store.append("Chat", stored, expected=0)
    model = ScriptedChatModel(["done"])
    create(Chat, model, interceptors=[ChatMemory(window, store=store)]).chat("now")
    assert is_valid(model.requests[0].messages)
    assert model.requests[0].messages[-1] == UserMessage("now")


def look() -> str:
    """Look around."""
    return "nothing"
