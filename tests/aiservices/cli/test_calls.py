"""The commands for durable calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Protocol

import pytest

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    CallId,
    ChatReply,
    Durable,
    Journal,
    ScriptedChatModel,
    ToolCall,
    create,
    recover,
    tool,
    user_message,
)
from aiservices.journal import StoredCall
from aiservices.journal.owner import BOOT

from .conftest import CommandRun


class Desk(Protocol):
    @user_message("Refund {{order}}.")
    def refund(self, order: str, call_id: Annotated[str, CallId]) -> str: ...


@tool(needs_approval=True)
def pay(euros: int) -> str:
    """Pay."""
    return "paid"


def test_a_suspended_call_is_listed_shown_answered_and_deleted(tmp_path: Path, run: CommandRun) -> None:
    path = tmp_path / "calls.db"
    journal = Journal(path)
    model = ScriptedChatModel([ChatReply(AiMessage("", (ToolCall("c", "pay", '{"euros": 3}'),))), "done"])
    desk = create(Desk, model, tools=[pay], interceptors=[Durable(journal)])
    with pytest.raises(ApprovalRequiredError):
        desk.refund("17", call_id="a")
    listed = run("calls", "list", str(path), "--json").out
    assert (json.loads(listed)["id"], json.loads(listed)["status"]) == ("a", "suspended")
    assert run("calls", "list", str(path), "--status", "failed").out == ""
    shown = run("calls", "show", str(path), "a").out
    assert '  c: pay({"euros": 3})' in shown.splitlines()
    assert "request:0:Desk.refund:0" in shown
    assert run("calls", "resume", str(path), "a").code == 2
    assert run("calls", "resume", str(path), "a", "--approve").code == 0
    listed = run("calls", "list", str(path), "--status", "interrupted", "--json").out
    assert (json.loads(listed)["id"], json.loads(listed)["status"]) == ("a", "interrupted")
    assert run("calls", "list", str(path), "--status", "running").out == ""
    assert [one.value for one in recover(journal, [desk])] == ["done"]
    assert run("calls", "cancel", str(path), "a").code == 1
    assert run("calls", "forget", str(path), "a").code == 0
    assert run("calls", "list", str(path)).out == ""
    assert run("calls", "show", str(path), "a").code == 2
    assert run("calls", "list", str(tmp_path / "other.db")).code == 2
    assert not (tmp_path / "other.db").exists()


@pytest.mark.skipif(not BOOT, reason="it needs the files of Linux about processes")
def test_calls_from_before_the_machine_was_started_are_listed_as_json(
    tmp_path: Path, run: CommandRun
) -> None:
    path = tmp_path / "calls.db"
    with Journal(path) as journal:
        call = StoredCall("a", "running", "Desk.refund", "", 0.0, 0.0, "host/another boot/1/2/3#1", 60.0)
        journal.store.lease(call, "{}", (), lambda _: False)
    for status in ("running", "interrupted"):
        listed = run("calls", "list", str(path), "--status", status, "--json").out
        assert "Infinity" not in listed  # which is not JSON
        assert not listed or json.loads(listed)["status"] == status
    assert json.loads(run("calls", "list", str(path), "--json").out)["leased_for"] < 0
