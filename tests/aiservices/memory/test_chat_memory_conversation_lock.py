"""Concurrent calls of one conversation run one after another or are refused, and never mix."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    Budget,
    BudgetExceededError,
    ChatReply,
    ChatRequest,
    MemoryId,
    Message,
    ScriptedChatModel,
    UserMessage,
    create,
)
from aiservices.memory import (
    ChatMemory,
    ChatMemoryStore,
    InMemoryChatMemoryStore,
    MemoryBusyError,
    MemoryConflictError,
    MemoryStoreError,
    SqliteChatMemoryStore,
)
from aiservices.memory.chat_memory import ConversationLocks


class Chat(Protocol):
    def chat(self, id: Annotated[str, MemoryId], text: str) -> str: ...
    async def achat(self, id: Annotated[str, MemoryId], text: str) -> str: ...
    def texts(self, id: Annotated[str, MemoryId], text: str) -> Iterator[str]: ...
    def atexts(self, id: Annotated[str, MemoryId], text: str) -> AsyncIterator[str]: ...


class Slow(ScriptedChatModel):
    """A slow model that answers with the last word of the request."""

    def __init__(self, seconds: float = 0.005) -> None:
        super().__init__(lambda request: f"re {request.messages[-1].text}")
        self.seconds = seconds
        self.hold: asyncio.Event | None = None

    def complete(self, request: ChatRequest) -> ChatReply:
        time.sleep(self.seconds)
        return super().complete(request)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        await asyncio.sleep(self.seconds)
        reply = super().complete(request)
        if self.hold is not None:
            await self.hold.wait()
        return reply


@pytest.fixture(params=["in_memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChatMemoryStore]:
    if request.param == "in_memory":
        yield InMemoryChatMemoryStore()
    else:
        with SqliteChatMemoryStore(tmp_path / "memory.db") as made:
            yield made


def check(memory: ChatMemory, model: ScriptedChatModel, texts: list[str]) -> None:
    """Check that each call got all earlier exchanges and nothing of a call that was still running."""
    stored = memory.messages("a")
    questions = [message.text for message in stored[::2]]
    messages: list[Message] = []
    for text in questions:
        messages += [UserMessage(text), AiMessage(f"re {text}")]
    assert (list(stored), sorted(questions)) == (messages, sorted(texts))
    assert [request.messages for request in model.requests] == [
        stored[: 2 * n + 1] for n in range(len(questions))
    ]


TEXTS = [f"{number:02}" for number in range(16)]


def test_threads_take_turns(store: ChatMemoryStore) -> None:
    memory, model = ChatMemory(store=store), Slow()
    chat = create(Chat, model, interceptors=[memory])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: chat.chat("a", text), TEXTS))
    check(memory, model, TEXTS)


def test_tasks_take_turns_in_the_order_in_which_they_come(store: ChatMemoryStore) -> None:
    memory, model = ChatMemory(store=store), Slow()
    chat = create(Chat, model, interceptors=[memory])

    async def scenario() -> None:
        await asyncio.gather(*(chat.achat("a", text) for text in TEXTS))

    asyncio.run(scenario())
    check(memory, model, TEXTS)
    assert [message.text for message in memory.messages("a")[::2]] == TEXTS


def test_threads_and_event_loops_and_streams_take_turns(store: ChatMemoryStore) -> None:
    memory, model = ChatMemory(store=store), Slow()
    chat = create(Chat, model, interceptors=[memory])

    async def both(text: str) -> None:
        async def written() -> None:
            assert [piece async for piece in chat.atexts("a", f"{text}s")] == ["re ", f"{text}s"]

        await asyncio.gather(chat.achat("a", text), written())

    works: list[Callable[[], object]] = []
    for text in TEXTS[:4]:
        works += [
            lambda text=text: asyncio.run(both(text)),  # type: ignore[misc]
            lambda text=text: list(chat.texts("a", f"{text}t")),  # type: ignore[misc]
            lambda text=text: chat.chat("a", f"{text}b"),  # type: ignore[misc]
        ]
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda work: work(), works))
    check(memory, model, [f"{text}{kind}" for text in TEXTS[:4] for kind in ("", "s", "t", "b")])


def test_two_services_with_one_store_take_turns() -> None:
    store, model = InMemoryChatMemoryStore(), Slow()
    memories = [ChatMemory(store=store) for _ in range(2)]
    chats = [create(Chat, model, interceptors=[memory]) for memory in memories]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: chats[int(text) % 2].chat("a", text), TEXTS))
    check(memories[0], model, TEXTS)


def test_other_conversations_do_not_wait() -> None:
    memory, model = ChatMemory(when_busy="refuse"), Slow()
    chat = create(Chat, model, interceptors=[memory])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: chat.chat(text, "x"), TEXTS))
    assert {memory.messages(text) for text in TEXTS} == {(UserMessage("x"), AiMessage("re x"))}


def test_a_second_call_is_refused_if_when_busy_is_refuse() -> None:
    memory, model = ChatMemory(when_busy="refuse"), Slow()
    chat = create(Chat, model, interceptors=[memory])

    async def scenario() -> None:
        model.hold = asyncio.Event()
        first = asyncio.create_task(chat.achat("a", "x"))
        await asyncio.sleep(0.02)
        with pytest.raises(MemoryBusyError) as caught:
            await chat.achat("a", "y")
        assert (str(caught.value), caught.value.conversation, caught.value.attempts) == (
            "the conversation 'Chat/a' is busy: another call uses it; make this call later",
            "Chat/a",
            (),
        )
        model.hold.set()
        await first
        await chat.achat("a", "z")

    asyncio.run(scenario())
    assert [message.text for message in memory.messages("a")] == ["x", "re x", "z", "re z"]


def error_of_waiting_call(memory: ChatMemory, waiting: Callable[[Chat], Any], **settings: Any) -> Any:
    """Return the error of a call that waits for another call of the conversation."""
    model = Slow()
    chat = create(Chat, model, interceptors=[memory], **settings)

    async def scenario() -> Any:
        model.hold = asyncio.Event()
        first = asyncio.create_task(chat.achat("a", "x"))
        await asyncio.sleep(0.02)
        with pytest.raises((MemoryBusyError, BudgetExceededError)) as caught:
            await asyncio.to_thread(waiting, chat)
        model.hold.set()
        await first
        return caught.value

    error = asyncio.run(scenario())
    assert [message.text for message in memory.messages("a")] == ["x", "re x"]
    return error


def test_a_call_waits_at_most_the_seconds_of_its_budget() -> None:
    memory = ChatMemory()
    late = create(Chat, Slow(), interceptors=[memory], budget=Budget(seconds=0.2))
    error = error_of_waiting_call(memory, lambda chat: late.chat("a", "y"))
    assert (error.limit, error.attempts) == ("seconds", ())


def test_a_call_waits_at_most_timeout_seconds() -> None:
    error = error_of_waiting_call(ChatMemory(timeout=0.1), lambda chat: chat.chat("a", "y"))
    assert str(error).startswith("the conversation 'Chat/a' is busy: another call used it for 0.1")
    assert str(error).endswith(" s; raise timeout")


@pytest.mark.parametrize("cancelled", [0, 1])
def test_a_cancelled_call_stores_nothing_and_the_next_call_runs(
    store: ChatMemoryStore, cancelled: int
) -> None:
    memory, model = ChatMemory(store=store), Slow()
    chat = create(Chat, model, interceptors=[memory])

    async def scenario() -> None:
        model.hold = asyncio.Event()
        tasks = [asyncio.create_task(chat.achat("a", text)) for text in "xyz"]
        await asyncio.sleep(0.1)
        tasks[cancelled].cancel()
        model.hold.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [task.cancelled() for task in tasks] == [number == cancelled for number in range(3)]

    asyncio.run(scenario())
    left = [text for number, text in enumerate("xyz") if number != cancelled]
    assert [message.text for message in memory.messages("a")[::2]] == left


class Gated(InMemoryChatMemoryStore):
    """A store whose writes block until an event is set."""

    blocks = True

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.may = threading.Event(), threading.Event()

    def append(self, conversation: str, messages: Any, /, *, expected: int) -> int:
        self.writing.set()
        assert self.may.wait(10)
        return super().append(conversation, messages, expected=expected)


def test_a_call_that_is_cancelled_while_it_writes_is_stored_before_the_next_call_reads() -> None:
    store = Gated()
    memory, model = ChatMemory(store=store), Slow()
    chat = create(Chat, model, interceptors=[memory])

    async def scenario() -> None:
        first = asyncio.create_task(chat.achat("a", "x"))
        await asyncio.to_thread(store.writing.wait, 10)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(chat.achat("a", "y"))
        await asyncio.sleep(0.1)
        assert len(model.requests) == 1
        store.may.set()
        await second

    asyncio.run(scenario())
    check(memory, model, ["x", "y"])


def test_the_last_work_does_not_run_after_the_ticket_was_released() -> None:
    locks, written = ConversationLocks(), []
    ticket = locks.enqueue("a")
    finish = ticket.release_after(lambda: written.append("x"))
    ticket.release()
    assert (finish(), written, locks.queues) == (None, [], {})


def test_an_open_stream_holds_the_lock_of_its_conversation() -> None:
    chat = create(Chat, Slow(), interceptors=[ChatMemory()])
    texts = chat.texts("a", "x")
    next(texts)
    with pytest.raises(MemoryBusyError) as caught:
        chat.chat("a", "y")
    expected = "this call is made inside another call of the same conversation and would wait for itself"
    assert str(caught.value) == f"the conversation 'Chat/a' is busy: {expected}"
    assert list(texts) == ["x"]
    assert chat.chat("a", "y") == "re y"


def test_an_empty_queue_is_deleted() -> None:
    memory = ChatMemory()
    chat = create(Chat, Slow(), interceptors=[memory])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: chat.chat("a", text), TEXTS))
    assert memory._locks.queues == {}


def test_a_write_of_another_process_is_not_overwritten(tmp_path: Path) -> None:
    with SqliteChatMemoryStore(tmp_path / "m.db") as store, SqliteChatMemoryStore(tmp_path / "m.db") as other:
        memory = ChatMemory(store=store)

        def meanwhile(request: ChatRequest) -> str:
            exchange = (UserMessage("o"), AiMessage("1"))
            other.append("Chat/a", exchange, expected=other.load("Chat/a").version)
            return "mine"

        chat = create(Chat, ScriptedChatModel(meanwhile), interceptors=[memory])
        with pytest.raises(MemoryConflictError) as caught:
            chat.chat("a", "x")
        assert (str(caught.value), [one.text for one in caught.value.attempts]) == (
            "another process changed the conversation 'Chat/a' during this call; "
            "the exchange of this call was not stored; make the call again",
            ["mine"],
        )
        assert memory.messages("a") == (UserMessage("o"), AiMessage("1"))


def test_a_store_that_fails_leaves_the_conversation_free() -> None:
    class Failing(InMemoryChatMemoryStore):
        fails = ("load", "append")

        def load(self, conversation: str, /) -> Any:
            if "load" in self.fails:
                raise OSError("no disk")
            return super().load(conversation)

        def append(self, conversation: str, messages: Any, /, *, expected: int) -> int:
            if "append" in self.fails:
                raise OSError("disk full")
            return super().append(conversation, messages, expected=expected)

    store = Failing()
    memory = ChatMemory(store=store, when_busy="refuse")
    chat = create(Chat, Slow(), interceptors=[memory])
    for fails, message in ((("load",), "no disk"), (("append",), "disk full")):
        store.fails = fails  # type: ignore[assignment]
        with pytest.raises(MemoryStoreError) as caught:
            chat.chat("a", "x")
        assert repr(caught.value.__cause__) == f"OSError({message!r})"
    store.fails = ()  # type: ignore[assignment]
    assert chat.chat("a", "y") == "re y"
    assert [message.text for message in memory.messages("a")] == ["y", "re y"]


def test_an_unhashable_store_gets_locks_of_its_own() -> None:
    class Unhashable(InMemoryChatMemoryStore):
        __hash__ = None  # type: ignore[assignment]

    memory, model = ChatMemory(store=Unhashable()), Slow()
    chat = create(Chat, model, interceptors=[memory])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: chat.chat("a", text), TEXTS))
    check(memory, model, TEXTS)
