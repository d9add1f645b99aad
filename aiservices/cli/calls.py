"""The commands ``calls``: list, show, answer, cancel and delete the durable calls of a journal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..engine.durable import suspension_of
from ..journal import Journal, Loaded, StoredCall
from ..service.recovery import decide
from .errors import UsageError


def open_journal(store: str) -> Journal:
    """Open an existing journal; raise UsageError if the file does not exist."""
    if "://" not in store and not Path(store).exists():
        raise UsageError(f"the journal {store} does not exist")
    return Journal(store)


def list_calls(store: str, statuses: Sequence[str], *, as_json: bool) -> None:
    """Print the calls of a journal, the oldest first."""
    with open_journal(store) as journal:
        stored_statuses: list[Any] = ["running" if one == "interrupted" else one for one in statuses]
        for stored in journal.list(*stored_statuses):
            call = _with_status(journal, stored)
            if not statuses or call.status in statuses:
                print(json.dumps(call._asdict(), ensure_ascii=False) if as_json else _line(call))


def show_call(store: str, call_id: str, *, as_json: bool) -> None:
    """Print the records of a call, and what it waits for."""
    with open_journal(store) as journal:
        loaded = _loaded(journal, call_id)
        loaded = loaded._replace(call=_with_status(journal, loaded.call))
    if as_json:
        entries = [{**entry._asdict(), "data": json.loads(entry.data)} for entry in loaded.entries]
        print(json.dumps({**loaded.call._asdict(), "entries": entries}, ensure_ascii=False, indent=2))
        return
    print(_line(loaded.call))
    for entry in loaded.entries:
        print(f"{_time(entry.at)}  {entry.key}  {len(entry.data)} characters")
    if loaded.call.status == "suspended":
        print(suspension_of(loaded))
        for pending in suspension_of(loaded).calls:
            print(f"  {pending.id}: {pending.name}({pending.arguments})")


def answer_call(store: str, call_id: str, approved: bool | None, results: Sequence[str]) -> None:
    """Record the decision about a suspended call; the next ``recover`` continues it."""
    with open_journal(store) as journal:
        _loaded(journal, call_id)
        values = dict([_result(text) for text in results])
        if approved is None and not values:
            raise UsageError("pass --approve or --deny, or --result ID=JSON")
        decide(
            journal,
            call_id,
            {} if approved is None else _approvals(journal, call_id, approved, values),
            results=values,
        )
    print(f"{call_id} continues with the next call of recover, or when the program makes the same call again")


def _approvals(journal: Journal, call_id: str, approved: bool, results: dict[str, object]) -> dict[str, bool]:
    waiting = suspension_of(_loaded(journal, call_id)).calls
    return {call.id: approved for call in waiting if call.id not in results}


def _result(text: str) -> tuple[str, object]:
    call_id, equals, value = text.partition("=")
    try:
        return call_id, json.loads(value)
    except ValueError as error:
        if not equals:
            raise UsageError(f"--result {text}: write ID=JSON") from error
        return call_id, value


def cancel_call(store: str, call_id: str) -> None:
    """End a call, so that it cannot be continued."""
    with open_journal(store) as journal:
        _loaded(journal, call_id)
        journal.cancel(call_id)


def forget_call(store: str, call_id: str) -> None:
    """Delete a call with all its records."""
    with open_journal(store) as journal:
        _loaded(journal, call_id)
        journal.delete(call_id)


def _loaded(journal: Journal, call_id: str) -> Loaded:
    loaded = journal.load(call_id)
    if loaded is None:
        raise UsageError(f"the journal has no call {call_id}")
    return loaded


def _with_status(journal: Journal, call: StoredCall) -> StoredCall:
    """Return a call as it is shown: with the status "interrupted" if it runs and no process works on it."""
    interrupted: Any = "interrupted"
    return call._replace(status=interrupted) if journal.is_interrupted(call) else call


def _line(call: StoredCall) -> str:
    return f"{call.id}  {call.status}  {call.method}  {_time(call.created_at)}  {call.user}".rstrip()


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds")
