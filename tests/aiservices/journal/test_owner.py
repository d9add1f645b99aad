"""Whether the owner of a durable call still works on it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aiservices import CallInProgressError, Journal, JournalStore, StoredCall
from aiservices.journal import sqlite
from aiservices.journal.owner import BOOT, is_dead, process_name
from tests.aiservices.journal.test_store import START, store
from tests.conversation_stores import redis_url

__all__ = ["redis_url", "store"]
OWNED = StoredCall("x", "running", "Desk.refund", "", 1.0, 1.0)
on_linux = pytest.mark.skipif(not BOOT, reason="it needs the files of Linux about processes")


@pytest.fixture
def taken(store: JournalStore) -> Journal:
    """A journal that owns the call x and does not renew its lease."""
    journal = Journal(store, lease=60.0)
    journal.lease(OWNED, START)
    journal._leases.clear()
    return journal


@pytest.mark.parametrize("hours", [-48, -1, 1, 48])
def test_a_wall_clock_that_is_set_does_not_end_a_lease(
    taken: Journal, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + hours * 3600)
    with pytest.raises(CallInProgressError):
        Journal(taken.store).lease(OWNED, START)


@on_linux
def test_a_lease_that_nobody_renews_ends_by_the_monotonic_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = Journal(tmp_path / "calls.db", lease=60.0).lease(OWNED, START).call.fence
    now = time.monotonic()
    monkeypatch.setattr(sqlite, "_now", lambda: now + 59)
    with pytest.raises(CallInProgressError):
        Journal(tmp_path / "calls.db").lease(OWNED, START)
    monkeypatch.setattr(sqlite, "_now", lambda: now + 61)
    assert Journal(tmp_path / "calls.db").lease(OWNED, START).call.fence == fence + 1


@on_linux
def test_a_call_from_before_the_machine_was_started_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "calls.db")
    fence = journal.lease(OWNED, START).call.fence
    monkeypatch.setattr(sqlite, "BOOT", "another boot")
    monkeypatch.setattr(sqlite, "is_of_other_boot", lambda owner: BOOT in owner)
    assert journal.is_interrupted(journal.list("running")[0])
    assert journal.lease(OWNED, START).call.fence == fence + 1


def test_a_process_that_exists_is_not_dead_and_one_that_ended_is() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = process_name().split("/")
    owner[3] = str(child.pid)
    if BOOT:
        owner[4] = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        assert not is_dead("/".join(owner) + "#1")
    child.kill()
    if BOOT:
        while b") Z" not in Path(f"/proc/{child.pid}/stat").read_bytes():
            time.sleep(0.001)
        assert is_dead("/".join(owner) + "#1")  # a zombie, because no process has waited for it
    child.communicate()
    assert is_dead("/".join(owner) + "#1")


@on_linux
def test_another_process_with_the_same_number_is_not_the_owner() -> None:
    owner = process_name().split("/")
    assert not is_dead(f"{process_name()}#1")
    assert is_dead("/".join([*owner[:4], "17"]) + "#1")


@pytest.mark.parametrize("part", range(3))
def test_processes_of_other_machines_are_not_known_to_be_dead(part: int) -> None:
    owner = process_name().split("/")
    owner[part] += "x"
    owner[4] = "17"
    assert not is_dead("/".join(owner) + "#1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it needs fork")
def test_a_forked_process_has_a_name_of_its_own() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, process_name().encode())
        os._exit(0)
    os.waitpid(child, 0)
    name = os.read(reading, 1000).decode()
    assert name != process_name()
    assert is_dead(f"{name}#1")
