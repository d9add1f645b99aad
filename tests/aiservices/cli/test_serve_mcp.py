"""The command mcp: arguments of the program, and errors before the server starts."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp_types import CallToolResult

from aiservices.cli.serve import McpSettings, server_of

from .conftest import CommandRun

CHAT = """
from typing import Annotated, Protocol
from aiservices import MemoryId, ScriptedChatModel, create
from aiservices.memory import ChatMemory

class Chat(Protocol):
    def chat(self, text: str, customer: Annotated[int, MemoryId]) -> str:
        '''Talk.'''

def echo(request):
    return " | ".join(one.text for one in request.messages)

class Plain(Protocol):
    def chat(self, text: str) -> str: ...

def chat():
    return create(Chat, ScriptedChatModel(echo), interceptors=[ChatMemory()])

def shared():
    return create(Plain, ScriptedChatModel(echo), interceptors=[ChatMemory()])
"""


@pytest.fixture
def folder(run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "talk.py").write_text(CHAT, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def called(settings: McpSettings, *calls: dict[str, Any]) -> list[CallToolResult]:
    async def talk() -> list[CallToolResult]:
        async with Client(server_of(settings)) as client:
            return [await client.call_tool("chat", arguments) for arguments in calls]

    return asyncio.run(talk())


def settings(*arguments: str, session: tuple[str, ...] = (), caller: tuple[str, ...] = ()) -> McpSettings:
    return McpSettings("talk:chat", None, arguments, session, caller)


def test_the_user_of_the_command_sets_arguments(folder: Path) -> None:
    results = called(settings("customer=7"), {"text": "a"}, {"text": "b"})
    assert [one.structured_content["value"] for one in results] == ["a", "a | a | b"]
    (refused,) = called(settings("customer=7"), {"text": "a", "customer": 8})
    assert refused.is_error


def test_the_client_may_choose_an_argument(folder: Path) -> None:
    results = called(
        settings(caller=("customer",)), {"text": "a", "customer": 1}, {"text": "b", "customer": 2}
    )
    assert [one.structured_content["value"] for one in results] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["talk:chat"],
            "customer says who the caller is; set it with --argument customer=…, or with --session-argument "
            "customer for a conversation of each client, or let the client choose with --caller-argument "
            "customer",
        ),
        (
            ["talk:chat", "--argument", "custmer=7"],
            "no method of Chat has a parameter custmer; did you mean customer?",
        ),
        (
            ["talk:chat", "--session-argument", "id"],
            "no method of Chat has a parameter id; there are: text, customer",
        ),
        (["talk:chat", "--argument", "customer=x"], "customer: expected an integer, found"),
        (
            ["talk:chat", "--argument", "customer=1", "--session-argument", "customer"],
            "customer is set more than once",
        ),
        (["talk:chat.chat"], "only a whole service can be served: omit .chat"),
        (["talk:shared"], "all callers would share one conversation"),
    ],
)
def test_a_wrong_command_ends_with_an_error(
    folder: Path, run: CommandRun, arguments: list[str], message: str
) -> None:
    result = run("mcp", *arguments)
    assert result.code == 2
    assert message in " ".join(result.err.split())


def test_without_the_package_the_error_names_the_extra(
    folder: Path, run: CommandRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = run("mcp", "talk:chat")
    assert (result.code, " ".join(result.err.split())) == (
        1,
        'error: mcp needs the package mcp, which is not installed: pip install "aiservices[cli,mcp]"',
    )
