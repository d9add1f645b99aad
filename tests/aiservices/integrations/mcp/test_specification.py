"""The messages of the command ``mcp``, line by line, fit the types of both versions of the specification.

The types are those that the package ``mcp_types`` generates from the published JSON Schemas.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[4]
SERVICE = """
from dataclasses import dataclass
from typing import Iterator, Protocol
from aiservices import AiMessage, ChatReply, ScriptedChatModel, ToolCall, ToolMessage, create, tool

@dataclass
class Person:
    name: str
    age: int

class Desk(Protocol):
    '''Answers letters.'''
    def person(self, letter: str) -> Person: ...
    def words(self, letter: str) -> Iterator[str]: ...
    def answer(self, letter: str) -> str: ...

@tool(needs_approval=True)
def refund(order: int) -> str:
    return f"paid {order}"

def reply(request):
    letter, last = request.messages[0].text, request.messages[-1]
    print("a line on standard output, which belongs to the protocol")
    if isinstance(last, ToolMessage):
        return last.text
    if "refund" in letter:
        return ChatReply(AiMessage("", (ToolCall("call_1", "refund", '{"order": 17}'),)))
    return "one two" if "words" in letter else '{"name": "Ann", "age": 31}'

desk = create(Desk, ScriptedChatModel(reply), tools=[refund])
"""
OLD, NEW = "2025-11-25", "2026-07-28"
INFO = {"name": "test", "version": "1"}
FORM = {"elicitation": {"form": {}}}


class Wire:
    """The process of a server, and the lines to and from it.

    Attributes:
        version: The version of the protocol.
    """

    def __init__(self, process: subprocess.Popen[str], version: str) -> None:
        self._process = process
        self.version = version
        self._types = importlib.import_module(f"mcp_types._v{version.replace('-', '_')}")
        self._number = 0

    def send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        message: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert message["jsonrpc"] == "2.0"
        return message

    def request(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        if self.version == NEW:
            meta = {
                "io.modelcontextprotocol/protocolVersion": NEW,
                "io.modelcontextprotocol/clientInfo": INFO,
                "io.modelcontextprotocol/clientCapabilities": FORM,
            }
            params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        self.send({"id": self._number, "method": method, "params": params})
        return self._number

    def result(self, method: str, params: dict[str, Any], type_name: str) -> dict[str, Any]:
        number = self.request(method, params)
        message = self.receive()
        assert (message["id"], "error" in message) == (number, False), message
        return self.checked(message["result"], type_name)

    def checked(self, part: dict[str, Any], type_name: str) -> dict[str, Any]:
        """Assert that a part of a message has the type, and nothing that the type does not have."""
        model = getattr(self._types, type_name).model_validate(part)
        assert model.model_dump(by_alias=True, mode="json", exclude_unset=True) == part
        return part


@pytest.fixture(scope="module", params=[OLD, NEW])
def wire(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(SERVICE, "utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "aiservices", "mcp", "shop:desk"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
    )
    wire = Wire(process, request.param)
    if wire.version == OLD:
        params = {"protocolVersion": OLD, "capabilities": FORM, "clientInfo": INFO}
        assert wire.result("initialize", params, "InitializeResult")["protocolVersion"] == OLD
        wire.send({"method": "notifications/initialized"})
    else:
        assert wire.result("server/discover", {}, "DiscoverResult")["supportedVersions"] == [NEW]
    yield wire
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(20) == 0
    assert process.stdout is not None
    process.stdout.close()


def test_the_lists_fit_their_types(wire: Wire) -> None:
    tools = wire.result("tools/list", {}, "ListToolsResult")["tools"]
    assert [tool["name"] for tool in tools] == ["person", "words", "answer"]
    for tool in tools:
        for name in ("inputSchema", "outputSchema"):
            assert tool[name]["type"] == "object"
            Draft202012Validator.check_schema(tool[name])
    prompts = wire.result("prompts/list", {}, "ListPromptsResult")["prompts"]
    assert [prompt["name"] for prompt in prompts] == ["person", "words", "answer"]
    shown = wire.result("prompts/get", {"name": "words", "arguments": {"letter": "x"}}, "GetPromptResult")
    assert shown["messages"] == [{"role": "user", "content": {"type": "text", "text": "x"}}]


def test_results_fit_their_types_and_output_schemas(wire: Wire) -> None:
    tools = wire.result("tools/list", {}, "ListToolsResult")["tools"]
    for tool in tools[:2]:
        params = {"name": tool["name"], "arguments": {"letter": tool["name"]}}
        result = wire.result("tools/call", params, "CallToolResult")
        Draft202012Validator(tool["outputSchema"]).validate(result["structuredContent"])
        assert result["content"][0]["type"] == "text"


def test_errors_fit_their_types(wire: Wire) -> None:
    result = wire.result("tools/call", {"name": "person", "arguments": {}}, "CallToolResult")
    assert (result["isError"], "structuredContent" in result) == (True, False)
    wire.request("tools/call", {"name": "unknown", "arguments": {}})
    message = wire.checked(wire.receive(), "JSONRPCErrorResponse")
    assert message["error"]["code"] == -32602


def test_progress_fits_its_type_and_increases(wire: Wire) -> None:
    params = {"name": "words", "arguments": {"letter": "words"}, "_meta": {"progressToken": "p"}}
    wire.request("tools/call", params)
    messages = [wire.receive() for _ in range(3)]
    assert [one.get("method") for one in messages] == ["notifications/progress"] * 2 + [None]
    parts = [wire.checked(one["params"], "ProgressNotificationParams") for one in messages[:2]]
    assert [(one["progressToken"], one["progress"], one["message"]) for one in parts] == [
        ("p", 1, "one "),
        ("p", 2, "two"),
    ]


def test_the_question_for_an_approval_fits_its_type(wire: Wire) -> None:
    call = {"name": "answer", "arguments": {"letter": "refund"}}
    decision = {"action": "accept", "content": {"call_1": True}}
    if wire.version == OLD:
        wire.request("tools/call", call)
        question = wire.receive()
        wire.checked({key: question[key] for key in ("id", "jsonrpc", "method", "params")}, "ElicitRequest")
        wire.send({"id": question["id"], "result": decision})
        result = wire.checked(wire.receive()["result"], "CallToolResult")
    else:
        waiting = wire.result("tools/call", call, "InputRequiredResult")
        assert waiting["resultType"] == "input_required"
        call |= {"inputResponses": {"approval": decision}, "requestState": waiting["requestState"]}
        result = wire.result("tools/call", call, "CallToolResult")
    assert result["structuredContent"] == {"value": "paid 17"}
