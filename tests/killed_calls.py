"""Kill durable calls at a chosen step, as a process is killed: nothing that follows has an effect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from aiservices import Journal
from aiservices.journal import Entry, JournalStore, Loaded, Status, StoredCall


class Killed(BaseException):
    """The process was killed."""


class Machine:
    """Counts the steps of a process, and kills it at one of them. A step has a moment before and after it."""

    def __init__(self, kill_at: int | None = None) -> None:
        self.kill_at = kill_at
        self.steps = 0
        self.is_dead = False

    def step(self) -> None:
        """Raise Killed if the process is dead, or is killed now."""
        if self.is_dead:
            raise Killed
        if self.steps == self.kill_at:
            self.is_dead = True
            raise Killed
        self.steps += 1

    def do(self, work: Callable[[], Any]) -> Any:
        """Do something that lasts beyond the process; it may be killed before or after."""
        self.step()
        result = work()
        self.step()
        return result


class KillableStore:
    """A store whose accesses are steps of a process."""

    def __init__(self, store: JournalStore, machine: Machine) -> None:
        self._store = store
        self._machine = machine
        self.blocks = store.blocks

    def load(self, call: str, /) -> Loaded | None:
        return self._store.load(call)

    def lease(self, new: StoredCall, start: str, statuses: Collection[str], takes: Any, /) -> Loaded:
        loaded: Loaded = self._machine.do(
            # the process that was killed does not exist any more
            lambda: self._store.lease(new, start, statuses, lambda _: True)
        )
        return loaded

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
        done: bool = self._machine.do(
            lambda: self._store.append(call, fence, entries, status=status, leased_for=leased_for)
        )
        return done

    def list(self, statuses: Collection[str], /) -> Sequence[StoredCall]:
        return self._store.list(statuses)

    def delete(self, call: str, /) -> None:
        self._store.delete(call)

    def close(self) -> None:
        self._store.close()


def journal_of(store: JournalStore, machine: Machine) -> Journal:
    """Return the journal of a process that may be killed."""
    return Journal(KillableStore(store, machine), lease=60.0)
