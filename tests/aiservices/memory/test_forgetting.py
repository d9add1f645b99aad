"""What is forgotten is gone: from running calls, from files, and from what a window drops."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest

from aiservices import ChatReply, MemoryId, ScriptedChatModel, ToolCall, create
from aiservices.engine.response_cache import ResponseCache
from aiservices.memory import (
    ChatMemory,
    InMemoryChatMemoryStore,
    MessageWindow,
    SqliteChatMemoryStore,
    SummarizingWindow,
    TokenWindow,
)
from aiservices.models.errors import ModelServerError
from aiservices.models.messages import AiMessage, Message, ToolMessage, UserMessage

SECRET = "the planted secret"


class Chat(Protocol):
    def chat(self, user: Annotated[str, MemoryId], text: str) -> str: ...


class AsyncChat(Protocol):
    async def chat(self, user: Annotated[str, MemoryId], text: str) -> str: ...


STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: InMemoryChatMemoryStore(),
    "SQLite": lambda path: SqliteChatMemoryStore(path / "memory.db"),
}


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
@pytest.mark.parametrize("earlier", [0, 1])
def test_a_running_call_does_not_store_what_was_forgotten(
    make: Callable[[Path], Any], earlier: int, tmp_path: Path
) -> None:
    memory = ChatMemory(store=make(tmp_path))

    def reply(request: Any) -> str:
        if request.messages[-1].text == "last":
            memory.forget("ann")
        return "answer"

    service = create(Chat, ScriptedChatModel(reply), interceptors=[memory])
    for _ in range(earlier):
        service.chat("ann", "first")
    assert service.chat("ann", "last") == "answer"
    assert memory.messages("ann") == ()
    service.chat("ann", "new")
    assert len(memory.messages("ann")) == 2


def test_a_running_async_call_does_not_store_what_was_forgotten() -> None:
    memory = ChatMemory()
    started, go_on = threading.Event(), threading.Event()

    def reply(request: Any) -> str:
        started.set()
        go_on.wait(10)
        return "answer"

    service = create(AsyncChat, ScriptedChatModel(reply), interceptors=[memory])
    thread = threading.Thread(target=lambda: asyncio.run(service.chat("ann", "x")))
    thread.start()
    assert started.wait(10)
    memory.forget("ann")
    go_on.set()
    thread.join(10)
    assert memory.messages("ann") == ()


def _files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_forgotten_text_is_not_in_the_files_while_the_store_is_open(tmp_path: Path) -> None:
    store = SqliteChatMemoryStore(tmp_path / "memory.db")
    store.append("other", [UserMessage("kept")], expected=0)
    for number in range(50):
        version = store.append(f"{SECRET} {number}", [UserMessage(SECRET * 100)], expected=0)
        store.replace(f"{SECRET} {number}", [UserMessage("short")], expected=version)
    assert SECRET.encode() in _files(tmp_path)  # the ids
    for number in range(50):
        store.delete(f"{SECRET} {number}")
    assert SECRET.encode() not in _files(tmp_path)
    assert b"kept" in _files(tmp_path)
    store.close()


def test_text_is_erased_when_the_last_reader_is_done(tmp_path: Path) -> None:
    store, other = (SqliteChatMemoryStore(tmp_path / "memory.db") for _ in range(2))
    store.append("ann", [UserMessage(SECRET)], expected=0)
    with other._file.reading() as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM chat_memory").fetchall()
        store.delete("ann")
        connection.execute("COMMIT")
    store.append("bob", [UserMessage("x")], expected=0)
    assert SECRET.encode() not in _files(tmp_path)


def test_a_cleared_cache_is_not_in_the_files(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")

    class Plain(Protocol):
        def ask(self, text: str) -> str: ...

    create(Plain, ScriptedChatModel([SECRET]), interceptors=[cache]).ask("x")
    assert SECRET.encode() in _files(tmp_path)
    cache.clear()
    assert SECRET.encode() not in _files(tmp_path)


def _large(rounds: int, size: int = 1) -> list[Message]:
    messages: list[Message] = [UserMessage("question")]
    for number in range(rounds):
        call = ToolCall(str(number), "look", "{}")
        messages += [AiMessage("", (call,)), ToolMessage(str(number), "look", "found" * size)]
    return [*messages, AiMessage("answer")]


@pytest.mark.parametrize(
    ("window", "messages"),
    [
        (MessageWindow(40), _large(36)),
        (MessageWindow(4), _large(3)),
        (TokenWindow(200), _large(1, 1000)),
        (SummarizingWindow(ScriptedChatModel([]), window=MessageWindow(6)), _large(9)),
    ],
)
def test_an_exchange_larger_than_the_window_keeps_its_question_and_answer(
    window: Any, messages: list[Message], caplog: pytest.LogCaptureFixture
) -> None:
    store, model = InMemoryChatMemoryStore(), ScriptedChatModel(["next"])
    store.append("Chat/ann", messages, expected=0)
    with caplog.at_level(logging.WARNING, "aiservices"):
        create(Chat, model, interceptors=[ChatMemory(window, store=store)]).chat("ann", "then?")
    assert [message.text for message in model.requests[0].messages] == ["question", "answer", "then?"]
    assert "its tool calls are left out" in caplog.text
    assert len(store.load("Chat/ann").messages) == len(messages) + 2


def test_a_window_that_leaves_out_exchanges_says_so(caplog: pytest.LogCaptureFixture) -> None:
    service = create(Chat, ScriptedChatModel(["a"] * 4), interceptors=[ChatMemory(MessageWindow(4))])
    with caplog.at_level(logging.INFO, "aiservices"):
        for _ in range(4):
            service.chat("ann", "x")
    assert "Chat.chat: the window leaves out 2 of 3 exchanges" in caplog.text


def test_a_summarizer_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: Any) -> ChatReply:
        raise ModelServerError("no summary")

    window = SummarizingWindow(ScriptedChatModel(fail), window=MessageWindow(4), keep=MessageWindow(2))
    service = create(Chat, ScriptedChatModel(["a"] * 4), interceptors=[ChatMemory(window)])
    with caplog.at_level(logging.WARNING, "aiservices"):
        for _ in range(4):
            service.chat("ann", "x")
    assert "the conversation could not be summarized: no summary" in caplog.text


def test_an_int_and_its_text_are_two_conversations() -> None:
    class Either(Protocol):
        def chat(self, user: Annotated[int | str, MemoryId], text: str) -> str: ...

    memory = ChatMemory()
    service = create(Either, ScriptedChatModel(["a", "b", "c"]), interceptors=[memory])
    for memory_id in (1, "1", "int:1"):
        service.chat(memory_id, "x")
    assert [len(memory.messages(one)) for one in (1, "1", "int:1")] == [2, 2, 2]
