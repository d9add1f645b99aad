"""What all stores of journals have in common."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiservices.journal import CONTINUABLE, Entry, Journal, JournalStore, StoredCall
from aiservices.journal.sql import SqlAlchemyJournalStore
from aiservices.journal.store import STATUSES
from tests.conversation_stores import redis_url

__all__ = ["redis_url"]


@pytest.fixture(params=["sqlite", "sqlalchemy", "postgresql", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JournalStore]:
    url = str(tmp_path / "calls.db")
    if request.param == "postgresql":
        url = os.environ.get("TEST_POSTGRESQL", "")
        if not url:
            pytest.skip("TEST_POSTGRESQL is not the URL of a database")
    elif request.param == "redis":
        url = request.getfixturevalue("redis_url")
    made = Journal(url).store
    if request.param == "sqlalchemy":
        made = SqlAlchemyJournalStore(f"sqlite:///{tmp_path / 'alchemy.db'}")
    for call in made.list(STATUSES):
        made.delete(call.id)
    yield made
    made.close()


def new(call: str, owner: str = "a", **changes: Any) -> StoredCall:
    return StoredCall(call, "running", "Desk.refund", "Ann", 1.5, 1.5, owner, 10.0)._replace(**changes)


START = '{"é": 1}'


def never(_: StoredCall) -> bool:
    return False


def always(_: StoredCall) -> bool:
    return True


def test_a_new_call_is_created_with_its_start(store: JournalStore) -> None:
    assert store.load("x") is None
    loaded = store.lease(new("x"), START, CONTINUABLE, never)
    assert loaded == (new("x"), [Entry("start", START, 1.5)])
    stored = store.load("x")
    assert stored is not None
    assert 9 < stored.call.leased_for <= 10
    assert (stored.call._replace(leased_for=10.0), stored.entries) == loaded


def test_a_call_has_one_owner(store: JournalStore) -> None:
    store.lease(new("x"), START, CONTINUABLE, never)
    assert store.lease(new("x", "b"), "", CONTINUABLE, never).call.owner == "a"
    taken = store.lease(new("x", "b", leased_for=20.0), "", CONTINUABLE, always).call
    assert (taken.owner, round(taken.leased_for), taken.fence) == ("b", 20, 1)
    assert store.append("x", 0, [Entry("k", "1")]) is False
    assert store.append("x", 1, [Entry("k", "2")]) is True
    loaded = store.load("x")
    assert loaded is not None
    assert [entry.key for entry in loaded.entries] == ["start", "k"]
    assert loaded.entries[1].data == "2"


def test_only_calls_with_one_of_the_statuses_get_an_owner(store: JournalStore) -> None:
    store.lease(new("x"), START, CONTINUABLE, never)
    assert store.append("x", 0, (), status="completed", leased_for=0.0)
    loaded = store.lease(new("x", "b"), "", CONTINUABLE, always)
    assert (loaded.call.status, loaded.call.owner, loaded.call.fence) == ("completed", "", 0)
    assert store.lease(new("x", "b"), "", ["completed"], always).call.status == "running"


def test_an_entry_replaces_the_one_with_its_key_and_is_the_last(store: JournalStore) -> None:
    store.lease(new("x"), START, CONTINUABLE, never)
    store.append("x", 0, [Entry("a", "1", 2.0), Entry("b", "1", 2.0)])
    store.append("x", 0, [Entry("a", "2", 3.0)])
    store.append("x", 0, [Entry("c", "1", 2.0)])
    store.append("x", 0, [Entry("c", "")])
    loaded = store.load("x")
    assert loaded is not None
    assert loaded.entries[1:] == [Entry("b", "1", 2.0), Entry("a", "2", 3.0)]


def test_writing_without_a_fence_takes_the_call_from_its_owner(store: JournalStore) -> None:
    store.lease(new("x"), START, CONTINUABLE, never)
    assert store.append("x", None, (), status="cancelled", leased_for=0.0)
    assert store.append("x", 0, [Entry("k", "1")]) is False
    loaded = store.load("x")
    assert loaded is not None
    assert (loaded.call.status, loaded.call.owner) == ("cancelled", "")


def test_a_call_that_does_not_exist_is_not_written(store: JournalStore) -> None:
    assert store.append("x", 0, [Entry("k", "1")]) is False
    assert store.append("x", None, [Entry("k", "1")]) is False
    assert store.load("x") is None


def test_calls_are_listed_by_status_the_oldest_first(store: JournalStore) -> None:
    for number, call in enumerate("cab"):
        store.lease(new(call, created_at=float(number)), START, CONTINUABLE, never)
    store.append("a", 0, (), status="failed", leased_for=0.0)
    assert [call.id for call in store.list(["running", "failed"])] == ["c", "a", "b"]
    assert [call.id for call in store.list(["failed"])] == ["a"]
    store.delete("c")
    assert [call.id for call in store.list(["running", "failed"])] == ["a", "b"]
    assert store.load("c") is None


def test_of_many_threads_one_becomes_the_owner(store: JournalStore) -> None:
    owners: list[str] = []
    barrier = threading.Barrier(8)

    def take(name: str) -> None:
        barrier.wait()
        loaded = store.lease(new("x", name), START, CONTINUABLE, lambda call: not call.owner)
        owners.append(loaded.call.owner)

    threads = [threading.Thread(target=take, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(owners) == 8
    assert len(set(owners)) == 1


def test_a_call_without_an_owner_is_interrupted_and_one_with_an_owner_is_not(store: JournalStore) -> None:
    journal = Journal(store)
    loaded = journal.lease(new("x"), START)
    assert [journal.is_interrupted(call) for call in journal.list()] == [False]
    journal.release(loaded.call)
    assert [journal.is_interrupted(call) for call in journal.list()] == [True]
    store.append("x", None, (), status="suspended")
    assert [journal.is_interrupted(call) for call in journal.list()] == [False]


def test_an_unknown_status_is_refused(store: JournalStore) -> None:
    with pytest.raises(ValueError, match="'interrupted' is not a status of a call; use running, suspended,"):
        Journal(store).list("interrupted")  # type: ignore[arg-type]
