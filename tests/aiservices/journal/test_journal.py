"""Journals renew the leases of their calls, and refuse what they cannot do."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from aiservices import CallInProgressError, DefinitionError, Journal, JournalError, StoredCall
from aiservices.journal import Entry, Status
from aiservices.journal.owner import process_name
from aiservices.journal.sqlite import SqliteJournalStore

NEW = StoredCall("x", "running", "Desk.refund", "", 1.0, 1.0)


class RenewedStore(SqliteJournalStore):
    """A store that tells when a lease is renewed, and whose first renewals fail."""

    def __init__(self, path: Path, failures: int = 0) -> None:
        super().__init__(path)
        self.renewed = Event()
        self.seconds_left: list[float] = []
        self._failures = failures

    def append(
        self,
        call: str,
        fence: int | None,
        entries: Sequence[Entry],
        /,
        *,
        status: Status | None = None,
        leased_for: float | None = None,
    ) -> bool:
        if leased_for and self._failures:
            self._failures -= 1
            raise OSError("the disk is full")
        if leased_for:
            loaded = self.load(call)
            self.seconds_left.append(0.0 if loaded is None else loaded.call.leased_for)
        kept = super().append(call, fence, entries, status=status, leased_for=leased_for)
        if leased_for and kept:
            self.renewed.set()
        return kept

    def wait(self) -> None:
        self.renewed.clear()
        assert self.renewed.wait(5)


def renewer(journal: Journal) -> Thread:
    assert journal._renewer is not None
    return journal._renewer


def ends(thread: Thread) -> bool:
    thread.join(5)
    return not thread.is_alive()


def test_a_lease_is_renewed_until_its_call_is_released_waits_or_ends(tmp_path: Path) -> None:
    store = RenewedStore(tmp_path / "calls.db")
    journal = Journal(store, lease=0.03)
    for status in (None, "suspended", "failed", "completed"):
        call = journal.lease(NEW, "{}", ("running", "failed", "suspended")).call
        store.wait()
        journal.append(call, [Entry("a", "1")], status="running")
        journal.append(call, [Entry("b", "2")])
        store.wait()
        thread = renewer(journal)
        if status is None:
            journal.release(call)
        else:
            journal.append(call, (), status=status)  # type: ignore[arg-type]
        assert ends(thread), status
        stored = journal.list()[0]
        assert (stored.status, stored.owner, journal._renewer) == (status or "running", "", None)


def test_a_lease_that_was_taken_away_is_not_renewed(tmp_path: Path) -> None:
    store = RenewedStore(tmp_path / "calls.db")
    journal = Journal(store, lease=0.03)
    journal.lease(NEW, "{}")
    store.wait()
    Journal(store).cancel("x")
    assert ends(renewer(journal))
    assert [(call.status, call.owner) for call in journal.list()] == [("cancelled", "")]


def test_a_lease_is_renewed_after_an_error_of_the_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = RenewedStore(tmp_path / "calls.db", failures=2)
    journal = Journal(store, lease=0.03)
    with caplog.at_level(logging.WARNING, "aiservices"):
        call = journal.lease(NEW, "{}").call
        store.wait()
    journal.release(call)
    message = ("aiservices", "the leases of durable calls were not renewed: the disk is full")
    assert [(record.name, record.getMessage()) for record in caplog.records] == [message, message]


def test_a_lease_is_renewed_before_it_ends(tmp_path: Path) -> None:
    store = RenewedStore(tmp_path / "calls.db")
    with Journal(store, lease=0.9) as journal:
        call = journal.lease(NEW, "{}").call
        store.wait()
        journal.release(call)
    assert store.seconds_left[0] > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_process_renews_its_own_leases_and_not_those_of_its_parent(tmp_path: Path) -> None:
    store = RenewedStore(tmp_path / "calls.db")
    with Journal(store, lease=60) as journal:
        call = journal.lease(NEW, "{}").call
        with journal._lock:  # as if a thread that the child does not have used the leases
            child = os.fork()
        if child == 0:
            status = 1
            try:
                journal.lease_seconds = 0.03
                journal.lease(NEW._replace(id="y"), "{}")
                store.wait()
                status = 0 if {key for key, _ in journal._leases} == {"y"} else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        journal.release(call)


def test_the_thread_that_renews_leases_ends_with_its_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "calls.db", lease=0.03)
    journal.lease(NEW, "{}")
    thread = renewer(journal)
    del journal
    gc.collect()
    assert ends(thread)


def test_a_second_owner_is_told_which_process_has_the_call(tmp_path: Path) -> None:
    with Journal(tmp_path / "calls.db") as journal:
        journal.lease(NEW, "{}")
        with pytest.raises(CallInProgressError) as caught:
            journal.lease(NEW, "{}")
    assert str(caught.value) == f"the call 'x' of Desk.refund is in progress in {process_name()}"


def test_only_a_call_that_exists_and_is_not_completed_can_be_cancelled(tmp_path: Path) -> None:
    with Journal(tmp_path / "calls.db") as journal:
        with pytest.raises(JournalError) as caught:
            journal.cancel("x")
        assert str(caught.value) == "the call 'x' does not exist, so it cannot be cancelled"
        journal.append(journal.lease(NEW, "{}").call, (), status="completed")
        with pytest.raises(JournalError) as caught:
            journal.cancel("x")
        assert str(caught.value) == "the call 'x' is completed, so it cannot be cancelled"
        assert [call.status for call in journal.list()] == ["completed"]


class Half:
    def load(self, call: str) -> None: ...


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"store": ""}, "store is ''; pass the path of a file"),
        ({"store": "sqlite:///"}, "store is 'sqlite:///'; pass the path of a file"),
        ({"store": Half()}, "store is Half; pass the path of a file, or a JournalStore"),
        ({"synchronous": "OFF"}, "synchronous is 'OFF'; it must be NORMAL or FULL"),
        ({"lease": 0}, "lease is 0; it must be greater than 0"),
        ({"lease": "1"}, "lease is '1'; it must be a number, without quotes: 1"),
    ],
)
def test_wrong_settings_are_definition_errors(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DefinitionError) as caught:
        Journal(**{"store": tmp_path / "calls.db", **settings})
    assert str(caught.value) == f"Journal: {message}"


def test_the_url_of_an_sqlite_file_needs_no_sqlalchemy(tmp_path: Path) -> None:
    with Journal(f"sqlite:///{tmp_path / 'calls.db'}") as journal:
        assert type(journal.store) is SqliteJournalStore
    assert (tmp_path / "calls.db").exists()


def test_synchronous_is_a_setting_of_the_sqlite_connection(tmp_path: Path) -> None:
    numbers = []
    for synchronous in ("NORMAL", "FULL"):
        with Journal(tmp_path / "calls.db", synchronous=synchronous) as journal:  # type: ignore[arg-type]
            assert isinstance(journal.store, SqliteJournalStore)
            journal.list()
            connection = journal.store._file._connection
            assert connection is not None
            numbers += connection.execute("PRAGMA synchronous").fetchone()
        assert journal.store._file._connection is None  # the end of the block closes it
    assert numbers == [1, 2]
