"""All stores store messages completely and lose no write."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aiservices import AiMessage, AiServiceError, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from aiservices.memory import (
    ChatMemoryStore,
    InMemoryChatMemoryStore,
    MemoryConflictError,
    RedisChatMemoryStore,
    SqlAlchemyChatMemoryStore,
    SqliteChatMemoryStore,
    StoredConversation,
)
from aiservices.models.media import Image
from aiservices.models.messages import messages_from_json, messages_to_json

Opened = Callable[[], ChatMemoryStore]
X: tuple[Message, ...] = (UserMessage("x"), AiMessage("1"))
ALL: tuple[Message, ...] = (
    SystemMessage("s"),
    UserMessage("张三 {{x}} 'quoted' \n\u0000", "ann"),
    AiMessage("", (ToolCall("1", "look", '{"a": "é"}'),), "thinking"),
    ToolMessage("1", "look", ""),
    AiMessage("🙂"),
    UserMessage("see", contents=(Image.from_bytes(b"\x89PNG\r\n\x1a\n"), "see")),
)


class Breaking(tuple[Message, ...]):
    """A list of messages that raises an error when its second message is read."""

    def __iter__(self) -> Iterator[Message]:
        yield self[0]
        raise ZeroDivisionError


CONFLICT = (
    "another process changed the conversation 'a' during this call; "
    "the exchange of this call was not stored; make the call again"
)


def test_an_unknown_conversation_is_empty(opened: Opened) -> None:
    assert opened().load("a") == StoredConversation((), 0)


def test_messages_of_every_kind_are_stored_unchanged(opened: Opened) -> None:
    version = opened().append("a", ALL, expected=0)
    assert opened().load("a") == StoredConversation(ALL, version)


def test_half_a_surrogate_pair_is_stored(opened: Opened) -> None:
    messages = (UserMessage("x\ud83d", name="é\udc00"), AiMessage("é \\ud800 \ude00"))
    version = opened().append("a", messages, expected=0)
    assert opened().load("a") == StoredConversation(messages, version)
    assert messages_from_json(messages_to_json(messages).encode().decode()) == [*messages]


def test_messages_are_added_at_the_end_and_give_a_new_version(opened: Opened) -> None:
    store = opened()
    first = store.append("a", X, expected=0)
    second = store.append("a", ALL, expected=first)
    assert store.load("a") == StoredConversation((*X, *ALL), second)
    assert len({0, first, second}) == 3


def test_conversations_are_separate(opened: Opened) -> None:
    store = opened()
    store.append("a", X, expected=0)
    store.append("A", ALL, expected=0)
    assert (store.load("a").messages, store.load("A").messages) == (X, ALL)


def test_a_write_with_an_old_version_is_refused_and_stores_nothing(opened: Opened) -> None:
    store, other = opened(), opened()
    first = store.append("a", X, expected=0)
    second = other.append("a", X, expected=first)
    for write in (store.append, store.replace):
        for old in (0, first):
            with pytest.raises(MemoryConflictError) as caught:
                write("a", ALL, expected=old)
            assert (str(caught.value), caught.value.conversation) == (CONFLICT, "a")
    assert store.load("a") == StoredConversation((*X, *X), second)


def test_replace_removes_the_old_messages(opened: Opened) -> None:
    store = opened()
    version = store.replace("a", ALL, expected=store.append("a", (*X, *X), expected=0))
    assert store.load("a") == StoredConversation(ALL, version)


def test_a_deleted_conversation_is_gone_and_its_version_is_not_reused(opened: Opened) -> None:
    store = opened()
    old = store.append("a", X, expected=0)
    store.delete("a")
    assert store.load("a") == StoredConversation((), 0)
    with pytest.raises(MemoryConflictError):
        store.append("a", X, expected=old)
    assert store.append("a", X, expected=0) != old
    store.delete("unknown")


def test_concurrent_writes_are_stored_or_raise_a_conflict(opened: Opened) -> None:
    stores = [opened() for _ in range(4)]

    def write(number: int) -> int:
        store, refused = stores[number % 4], 0
        while True:
            try:
                exchange = (UserMessage(str(number)), AiMessage(str(number)))
                store.append("a", exchange, expected=store.load("a").version)
            except MemoryConflictError:
                refused += 1
            else:
                return refused

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(24)))
    texts = [message.text for message in stores[0].load("a").messages]
    assert texts[::2] == texts[1::2]
    assert sorted(map(int, texts[::2])) == list(range(24))


def test_the_conversations_of_a_store_can_be_listed(tmp_path: Path) -> None:
    with SqliteChatMemoryStore(tmp_path / "m.db") as sqlite:
        for store in (InMemoryChatMemoryStore(), sqlite):
            store.append("b", X, expected=0)
            store.append("a", X, expected=0)
            store.append("b", X, expected=store.load("b").version)
            assert store.conversations() == ("b", "a")


def test_a_file_is_read_by_a_later_process(tmp_path: Path) -> None:
    with SqliteChatMemoryStore(tmp_path / "m.db") as store:
        version = store.append("a", X, expected=0)
    with SqliteChatMemoryStore(tmp_path / "m.db") as store:
        assert store.load("a") == StoredConversation(X, version)
        store.close()
        assert store.load("a") == StoredConversation(X, version)


def test_a_file_has_one_json_row_per_message(tmp_path: Path) -> None:
    with SqliteChatMemoryStore(tmp_path / "m.db") as store:
        store.append("a", X, expected=0)
    connection = sqlite3.connect(tmp_path / "m.db")
    rows = connection.execute("SELECT conversation, message FROM chat_memory ORDER BY number").fetchall()
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    connection.close()
    assert (rows, mode) == (
        [("a", '{"type": "user", "text": "x"}'), ("a", '{"type": "ai", "text": "1"}')],
        "wal",
    )


def test_a_write_that_fails_halfway_stores_nothing(opened: Opened) -> None:
    store = opened()
    version = store.append("a", X, expected=0)
    for write in (store.append, store.replace):
        with pytest.raises(ZeroDivisionError):
            write("a", Breaking(X), expected=version)
    assert store.load("a") == StoredConversation(X, version)
    store.append("a", X, expected=version)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # threads of other tests may still run
def test_a_fork_opens_the_file_for_itself(tmp_path: Path) -> None:
    with SqliteChatMemoryStore(tmp_path / "m.db") as store:
        version = store.append("a", X, expected=0)
        child = os.fork()
        if not child:
            try:
                store.append("a", X, expected=version)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert store.load("a").messages == (*X, *X)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: RedisChatMemoryStore("redis://localhost"),
            'RedisChatMemoryStore needs the package redis: pip install "aiservices[redis]"',
        ),
        (
            lambda: SqlAlchemyChatMemoryStore("sqlite://"),
            'SqlAlchemyChatMemoryStore needs the package sqlalchemy: pip install "aiservices[sqlalchemy]"',
        ),
    ],
)
def test_a_missing_extra_is_named(
    make: Callable[[], object], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("redis", "sqlalchemy"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError) as caught:
        make()
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "firebird+nodriver://localhost/db",
            "SqlAlchemyChatMemoryStore: SQLAlchemy cannot use the scheme 'firebird+nodriver' of the URL; "
            'write it as in "postgresql+psycopg://user@host/database"',
        ),
        (
            "mysql+mysqldb://localhost/db",
            "SqlAlchemyChatMemoryStore needs the package mysqlclient for mysql+mysqldb URLs: "
            'pip install mysqlclient, or let the URL name another driver, as in "mysql+pymysql://…"',
        ),
    ],
)
def test_a_database_without_a_driver_is_named(
    url: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sqlalchemy", reason="the extra sqlalchemy is not installed")
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    with pytest.raises(AiServiceError) as caught:
        SqlAlchemyChatMemoryStore(url)
    assert str(caught.value) == expected


def test_a_conversation_in_redis_expires(redis_url: str, tmp_path: Path) -> None:
    import redis

    with redis.Redis.from_url(redis_url) as client:
        store = RedisChatMemoryStore(client, prefix=f"{tmp_path}:", expires_after=60)
        store.append("a", X, expected=0)
        assert 50 < int(client.ttl(f"{tmp_path}:a")) <= 60


@pytest.mark.parametrize("expected", [True, None, [UserMessage("x")], "1"])
def test_an_expected_version_of_another_type_is_a_type_error(opened: Opened, expected: Any) -> None:
    store = opened()
    for write in (store.append, store.replace):
        with pytest.raises(TypeError) as caught:
            write("a", X, expected=expected)
        assert str(caught.value) == (
            f"expected is {expected!r}; it must be the version of the conversation, an int"
        )
    assert store.load("a") == StoredConversation((), 0)
