"""Conversation stores that fail, that grow, and whose processes are killed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

import pytest

from aiservices import (
    AiMessage,
    AiServiceError,
    Budget,
    BudgetExceededError,
    Capabilities,
    ChatReply,
    ChatRequest,
    MemoryId,
    Message,
    ModelServerError,
    ReplyDelta,
    ScriptedChatModel,
    SystemMessage,
    Usage,
    UserMessage,
    create,
)
from aiservices.memory import (
    ChatMemory,
    ChatMemoryStore,
    InMemoryChatMemoryStore,
    MemoryConflictError,
    MemoryIdError,
    MemoryStoreError,
    MessageWindow,
    RedisChatMemoryStore,
    SqlAlchemyChatMemoryStore,
    SqliteChatMemoryStore,
    StoredConversation,
    TokenWindow,
)
from aiservices.memory.windows import join_exchanges, split_exchanges

TEN_TOKENS = Usage(4, 6)


class Chat(Protocol):
    def chat(self, id: Annotated[str, MemoryId], text: str) -> str: ...


class AsyncChat(Protocol):
    async def chat(self, id: Annotated[str, MemoryId], text: str) -> str: ...


def reply(request: Any) -> ChatReply:
    return ChatReply(AiMessage(f"re {request.messages[-1].text}"), usage=TEN_TOKENS)


def service(store: ChatMemoryStore, **settings: Any) -> Chat:
    return create(Chat, ScriptedChatModel(reply), interceptors=[ChatMemory(store=store)], **settings)


def call(memory: ChatMemory, model: ScriptedChatModel, *, is_async: bool, **settings: Any) -> str:
    if is_async:
        return asyncio.run(create(AsyncChat, model, interceptors=[memory], **settings).chat("ann", "hi"))
    return create(Chat, model, interceptors=[memory], **settings).chat("ann", "hi")


class Failing(InMemoryChatMemoryStore):
    """A store of a user whose methods raise an error."""

    def __init__(self, error: Exception, *methods: str) -> None:
        super().__init__()
        self.error, self.methods = error, methods

    def load(self, conversation: str, /, *, last: int | None = None) -> StoredConversation:
        if "load" in self.methods:
            raise self.error
        return super().load(conversation, last=last)

    def append(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        if "append" in self.methods:
            raise self.error
        return super().append(conversation, messages, expected=expected)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "retryable"),
    [(OSError(28, "disk full"), False), (ConnectionResetError("gone"), True), (KeyError("x"), False)],
)
def test_what_a_store_raises_is_the_cause_of_a_memory_store_error(
    error: Exception, retryable: bool, is_async: bool
) -> None:
    memory = ChatMemory(store=Failing(error, "load"), namespace="a")
    with pytest.raises(AiServiceError) as caught:
        call(memory, ScriptedChatModel(reply), is_async=is_async)
    failure = caught.value
    assert isinstance(failure, MemoryStoreError)
    assert (failure.store, failure.conversation, failure.retryable) == ("Failing", "a/ann", retryable)
    assert (failure.__cause__, failure.reply, failure.value, failure.attempts) == (error, None, None, ())
    advice = "make the call again later" if retryable else "check the store and its settings"
    problem = f"{type(error).__name__}: {error}; {advice}"
    assert str(failure) == f"Failing could not read the conversation 'a/ann': {problem}"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", [OSError(28, "disk full"), MemoryConflictError("ann")])
def test_an_answer_that_cannot_be_saved_is_on_the_error(error: Exception, is_async: bool) -> None:
    memory = ChatMemory(store=Failing(error, "append"))
    with pytest.raises((MemoryStoreError, MemoryConflictError)) as caught:
        call(memory, ScriptedChatModel(reply), is_async=is_async)
    assert (caught.value.value, caught.value.usage) == ("re hi", TEN_TOKENS)
    assert caught.value.reply is not None
    assert caught.value.reply.text == "re hi"
    assert isinstance(caught.value, type(error)) or caught.value.__cause__ is error


def test_a_locked_sqlite_database_is_a_retryable_error(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with SqliteChatMemoryStore(path, timeout=0.01) as store, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(MemoryStoreError) as caught:
            service(store).chat("ann", "hi")
        assert str(caught.value) == (
            "SqliteChatMemoryStore could not write the conversation 'Chat/ann': OperationalError: "
            "database is locked; make the call again later"
        )
        assert (caught.value.retryable, caught.value.value) == (True, "re hi")
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        other.rollback()
        assert service(store).chat("ann", "hi") == "re hi"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("UPDATE chat_memory SET message = '{'", "contains a message that cannot be read: JSONDecodeError("),
        ("UPDATE chat_memory SET message = '[1]'", "ValueError('it is not a JSON object'); repair it"),
        ("""UPDATE chat_memory SET message = '{"type": "nope"}'""", "unknown type of message: 'nope'"),
        ("DROP TABLE chat_memory", "OperationalError: no such table: chat_memory; check the store and its"),
    ],
)
def test_a_damaged_sqlite_database_is_not_retryable(sql: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with SqliteChatMemoryStore(path) as store, closing(sqlite3.connect(path)) as other:
        service(store).chat("ann", "hi")
        other.execute(sql)
        other.commit()
        for read in (lambda: service(store).chat("ann", "hi"), lambda: store.load("Chat/ann")):
            with pytest.raises(MemoryStoreError) as caught:
                read()
            assert message in str(caught.value)
            assert not caught.value.retryable


def test_a_redis_server_that_is_not_reachable_is_a_retryable_error() -> None:
    pytest.importorskip("redis")
    with pytest.raises(MemoryStoreError) as caught:
        service(RedisChatMemoryStore("redis://127.0.0.1:1/0")).chat("ann", "hi")
    assert (caught.value.retryable, caught.value.conversation) == (True, "Chat/ann")
    assert type(caught.value.__cause__).__module__ == "redis.exceptions"


def test_a_missing_table_of_sqlalchemy_is_not_retryable(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    store = SqlAlchemyChatMemoryStore(f"sqlite:///{tmp_path}/m.db")
    with closing(sqlite3.connect(tmp_path / "m.db")) as other, closing(store):
        other.execute("DROP TABLE chat_memory_messages")
        other.commit()
        with pytest.raises(MemoryStoreError) as caught:
            service(store).chat("ann", "hi")
    assert not caught.value.retryable


def test_a_folder_that_does_not_exist_is_a_memory_store_error(tmp_path: Path) -> None:
    with pytest.raises(MemoryStoreError) as caught:
        SqliteChatMemoryStore(tmp_path / "none" / "m.db")
    assert str(caught.value) == (
        "SqliteChatMemoryStore could not open its conversations: OperationalError: "
        "unable to open database file; check the store and its settings"
    )


def test_messages_and_forget_raise_memory_store_errors() -> None:
    memory = ChatMemory(store=Failing(OSError("no disk"), "load"), namespace="a")
    with pytest.raises(MemoryStoreError, match="could not read the conversation 'a/ann': OSError: no disk"):
        memory.messages("ann")


# --- Long conversations ---


class Counting:
    """A store that counts the messages that it loads."""

    blocks = False

    def __init__(self, store: Any) -> None:
        self.store, self.loaded = store, 0
        self.append, self.replace, self.delete = store.append, store.replace, store.delete

    def load(self, conversation: str, /, *, last: int | None = None) -> StoredConversation:
        stored: StoredConversation = self.store.load(conversation, last=last)
        self.loaded += len(stored.messages)
        return stored


@pytest.mark.parametrize("window", [MessageWindow(40), TokenWindow(1000)])
def test_a_call_loads_what_its_window_needs(opened: Callable[[], Any], window: Any) -> None:
    loaded, sent = [], []
    for exchanges in (720, 2880):
        store = Counting(opened())
        messages = [one for n in range(exchanges) for one in (UserMessage(f"q{n:4}"), AiMessage(f"a{n:4}"))]
        store.append(f"Chat/{exchanges}", messages, expected=0)
        model = ScriptedChatModel(reply)
        create(Chat, model, interceptors=[ChatMemory(window, store=store)]).chat(str(exchanges), "hi")
        loaded.append(store.loaded)
        sent.append(len(model.requests[0].messages))
    assert loaded[0] == loaded[1] < 700
    assert sent[0] == sent[1] >= 39


def test_the_tail_has_the_newest_system_message(opened: Callable[[], Any]) -> None:
    store = opened()
    texts = [UserMessage(str(number)) for number in range(10)]
    version = store.append("a", [SystemMessage("old"), SystemMessage("new"), *texts], expected=0)
    assert store.load("a", last=2) == StoredConversation((SystemMessage("new"), *texts[-2:]), version, False)
    assert store.load("a", last=12).is_complete
    assert not store.load("a", last=11).is_complete
    version = store.append("a", [SystemMessage("newest"), UserMessage("x")], expected=version)
    assert store.load("a", last=1).messages == (SystemMessage("newest"), UserMessage("x"))
    assert store.load("a", last=2).messages == (SystemMessage("newest"), UserMessage("x"))
    store.replace("a", texts, expected=version)
    assert store.load("a", last=1).messages == (texts[-1],)
    assert store.load("b", last=1) == StoredConversation()


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_a_window_selects_from_the_tail_what_it_selects_from_the_whole(size: int) -> None:
    # exchanges with incomplete ones between them, which a window does not count
    chance, messages = random.Random(size), [SystemMessage("rules")]
    for number in range(200):
        messages += [UserMessage(f"q{number}")] * chance.choice([1, 1, size * 3])
        messages += [AiMessage(f"a{number}")] * chance.choice([1, 1, 0])

    class Whole(InMemoryChatMemoryStore):
        def load(self, conversation: str, /) -> StoredConversation:  # type: ignore[override]
            return super().load(conversation)

    requests = []
    for store in (InMemoryChatMemoryStore(), Whole()):
        store.append("Chat/a", messages, expected=0)
        model = ScriptedChatModel(reply)
        create(Chat, model, interceptors=[ChatMemory(MessageWindow(size), store=store)]).chat("a", "hi")
        requests.append(model.requests[0].messages)
    assert requests[0] == requests[1]
    assert requests[0][0] == SystemMessage("rules")


def test_evicted_exchanges_are_forgotten_though_they_were_not_loaded() -> None:
    store = InMemoryChatMemoryStore()
    messages = [one for n in range(500) for one in (UserMessage(f"q{n}"), AiMessage(f"a{n}"))]
    store.append("Chat/a", messages, expected=0)
    memory = ChatMemory(MessageWindow(5), store=store, forget_evicted=True)
    create(Chat, ScriptedChatModel(reply), interceptors=[memory]).chat("a", "hi")
    assert [one.text for one in memory.messages("a")] == ["q498", "a498", "q499", "a499", "hi", "re hi"]


# --- Limits ---


def test_the_conversation_that_was_unused_for_the_longest_time_is_deleted() -> None:
    store = InMemoryChatMemoryStore(max_conversations=2)
    chat = service(store)
    for user in ("ann", "ben", "ann", "cleo"):
        chat.chat(user, "hi")
    assert store.conversations() == ("Chat/ann", "Chat/cleo")
    store.append("aiservices:resumed:1", [UserMessage("x")], expected=0)
    assert store.conversations() == ("Chat/ann", "Chat/cleo")


def test_conversations_expire_some_time_after_their_last_use() -> None:
    store = InMemoryChatMemoryStore(expires_after=0.05)
    store.append("a", [UserMessage("x")], expected=0)
    while store.load("a").version:  # each look is a use
        time.sleep(0.1)
    assert store.conversations() == ()


@pytest.mark.parametrize("setting", ["max_conversations", "expires_after"])
def test_a_limit_of_zero_is_refused(setting: str) -> None:
    with pytest.raises(
        ValueError, match=f"^InMemoryChatMemoryStore: {setting} is 0; it must be greater than 0$"
    ):
        InMemoryChatMemoryStore(**{setting: 0})


def test_a_long_memory_id_is_refused() -> None:
    chat = service(InMemoryChatMemoryStore())
    assert chat.chat("x" * 256, "hi") == "re hi"
    with pytest.raises(MemoryIdError) as caught:
        chat.chat("x" * 257, "hi")
    assert str(caught.value) == "Chat.chat: the memory id has 257 characters; it may have at most 256"


# --- Time ---


@pytest.mark.parametrize("is_async", [False, True])
def test_the_budget_limits_the_wait_for_a_busy_conversation(is_async: bool) -> None:
    started, finish = threading.Event(), threading.Event()

    def slow(request: Any) -> ChatReply:
        started.set()
        assert finish.wait(60)
        return reply(request)

    memory = ChatMemory(namespace="a")
    holder = create(Chat, ScriptedChatModel(slow), interceptors=[memory])
    thread = threading.Thread(target=holder.chat, args=("ann", "first"))
    thread.start()
    assert started.wait(60)
    model, budget, began = ScriptedChatModel(reply), Budget(seconds=0.2), time.monotonic()
    try:
        with pytest.raises(BudgetExceededError, match="seconds passed"):
            call(memory, model, is_async=is_async, budget=budget)
        assert 0.2 <= time.monotonic() - began < 20
    finally:
        finish.set()
        thread.join()
    assert (model.requests, len(memory.messages("ann"))) == ([], 2)


@pytest.mark.parametrize("is_async", [False, True])
def test_the_budget_is_checked_when_a_slow_store_returns(is_async: bool) -> None:
    class Slow(InMemoryChatMemoryStore):
        def load(self, conversation: str, /, *, last: int | None = None) -> StoredConversation:
            time.sleep(0.1)
            return super().load(conversation, last=last)

    model, memory, budget = ScriptedChatModel(reply), ChatMemory(store=Slow()), Budget(seconds=0.05)
    with pytest.raises(BudgetExceededError, match="seconds passed"):
        call(memory, model, is_async=is_async, budget=budget)
    assert list(model.requests) == []


# --- Permissions ---


def test_sqlite_files_are_created_for_their_owner_only(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        with SqliteChatMemoryStore(tmp_path / "m.db") as store:
            service(store).chat("ann", "hi")
            files = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(mask)
    assert files == {"m.db": 0o600, "m.db-wal": 0o600, "m.db-shm": 0o600}


# --- Killed processes ---


def figures_of_kills(kind: str, address: str, kills: int) -> dict[str, Any]:
    """Kill processes while they write to a store, and return what was counted afterwards."""
    root = Path(__file__).parents[2]
    program = [sys.executable, str(root / "tests/attacks/kill_memory_writers.py"), kind, address, str(kills)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


@pytest.fixture(params=["sqlite", "redis"])
def writers(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, str]:
    """The kind of a store, and its address."""
    kind = request.param
    return kind, str(tmp_path / "m.db") if kind == "sqlite" else request.getfixturevalue("redis_url")


def test_killed_writers_lose_no_acknowledged_exchange_and_leave_no_lock(writers: tuple[str, str]) -> None:
    check_kills(*writers, kills=40)


def test_many_killed_writers_lose_no_acknowledged_exchange(
    writers: tuple[str, str], campaign: Iterable[int]
) -> None:
    for _ in campaign:
        check_kills(*writers, kills=200)


def check_kills(kind: str, address: str, kills: int) -> None:
    figures = figures_of_kills(kind, address, kills)
    names = ("lost", "stored twice", "incomplete", "damaged")
    assert {name: figures[name] for name in names} == dict.fromkeys(names, 0)
    assert 0 <= figures["stored but not acknowledged"] <= kills
    assert figures["next calls"] == kills / 4
    assert figures["longest next call"] < 15  # SQLite would wait 30 seconds for a lock


# --- Many calls that fail, are cancelled or are closed ---


class FaultyModel:
    """A model that waits for a moment, fails at random, and repeats its input."""

    name = "faulty"
    capabilities = Capabilities()

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def complete(self, request: ChatRequest) -> ChatReply:
        if self._chance.random() < 0.1:
            raise ModelServerError("faulty: the server failed")
        return ChatReply(AiMessage(f"re {request.messages[-1].text}"))

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        for _ in range(self._chance.randrange(4)):
            await asyncio.sleep(0)
        return self.complete(request)

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        reply = self.complete(request)
        yield from (ReplyDelta(word) for word in reply.text.split(" "))
        yield ReplyDelta(reply=reply)

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        for delta in self.stream(request):
            await asyncio.sleep(0)
            yield delta


class FaultyStore(InMemoryChatMemoryStore):
    """A store that fails at random before it reads or writes."""

    def __init__(self, chance: random.Random, *, blocks: bool) -> None:
        super().__init__()
        self._chance, self.blocks = chance, blocks

    def load(self, conversation: str, /, *, last: int | None = None) -> StoredConversation:
        self._fail_at_random()
        return super().load(conversation, last=last)

    def append(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        self._fail_at_random()
        return super().append(conversation, messages, expected=expected)

    def _fail_at_random(self) -> None:
        if self._chance.random() < 0.05:
            raise self._chance.choice([ConnectionResetError("gone"), OSError("disk full"), KeyError("x")])


class Streams(Protocol):
    def chat(self, id: Annotated[str, MemoryId], text: str) -> AsyncIterator[str]: ...


CONVERSATIONS = 400


class FaultyCalls:
    """Calls of all kinds in the same conversations, with random faults, cancellations and closes."""

    def __init__(self, *, blocks: bool) -> None:
        self.chance = random.Random(7)
        self.store = FaultyStore(self.chance, blocks=blocks)
        self.memory = ChatMemory(MessageWindow(6), store=self.store, namespace="a")
        model, interceptors = FaultyModel(self.chance), [self.memory]
        self.blocking = create(Chat, model, interceptors=interceptors)
        self.awaited = create(AsyncChat, model, interceptors=interceptors)
        self.streams = create(Streams, model, interceptors=interceptors)
        self.pool = ThreadPoolExecutor(4)
        self.confirmed: list[str] = []
        self.failed: set[str] = set()
        self.unknown: set[str] = set()  # a cancelled call may have been stored

    async def read(self, id: str, text: str, pieces: int | None) -> None:
        async with aclosing(cast(AsyncGenerator[str, None], self.streams.chat(id, text))) as stream:
            async for _ in stream:
                if pieces is not None and (pieces := pieces - 1) < 0:
                    raise asyncio.CancelledError

    async def make_call(self, number: int) -> None:
        text, id = f"call {number}", str(self.chance.randrange(CONVERSATIONS))
        kind, cancels = self.chance.randrange(4), self.chance.random() < 0.2
        if kind == 0:
            work: Any = asyncio.get_running_loop().run_in_executor(self.pool, self.blocking.chat, id, text)
            cancels = False  # a thread cannot be cancelled
        elif kind == 1:
            work = self.read(id, text, self.chance.randrange(3) if cancels else None)
        else:
            work = self.awaited.chat(id, text)
        task = asyncio.ensure_future(work)
        if cancels and kind != 1:
            for _ in range(self.chance.randrange(8)):
                await asyncio.sleep(0)
            task.cancel()
        try:
            await task
            self.confirmed.append(text)
        except AiServiceError:
            self.failed.add(text)
        except asyncio.CancelledError:
            self.unknown.add(text)

    async def make_calls(self, calls: int) -> None:
        numbers = iter(range(calls))

        async def work() -> None:
            for number in numbers:
                await self.make_call(number)

        with self.pool:
            await asyncio.gather(*(work() for _ in range(32)))
            await asyncio.get_running_loop().shutdown_default_executor()
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("blocks", [False, True])
def test_faults_cancellations_and_closes_lose_hang_and_leak_nothing(blocks: bool) -> None:
    check_faulty_calls(2_000, blocks=blocks)


@pytest.mark.parametrize("blocks", [False, True])
def test_many_faults_cancellations_and_closes_lose_nothing(blocks: bool, campaign: Iterable[int]) -> None:
    for _ in campaign:
        check_faulty_calls(5_000, blocks=blocks)


def check_faulty_calls(calls: int, *, blocks: bool) -> None:
    threads = threading.active_count()
    run = FaultyCalls(blocks=blocks)
    asyncio.run(run.make_calls(calls))
    load = InMemoryChatMemoryStore.load  # without faults
    stored: list[str] = []
    for number in range(CONVERSATIONS):
        messages = load(run.store, f"a/{number}").messages
        exchanges = split_exchanges(messages)
        assert join_exchanges(exchanges) == messages
        assert all(answer.text == f"re {question.text}" for question, answer in exchanges)
        stored += [exchange[0].text for exchange in exchanges]
    assert len(stored) == len(set(stored))
    assert set(run.confirmed) <= set(stored) <= set(run.confirmed) | run.unknown
    assert len(run.confirmed) + len(run.failed) + len(run.unknown) == calls
    assert min(len(run.confirmed), len(run.failed), len(run.unknown)) > calls / 50
    assert run.memory._locks.queues == {}
    assert threading.active_count() <= threads
