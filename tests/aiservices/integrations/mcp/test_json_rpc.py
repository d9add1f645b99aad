"""Invalid messages of clients over standard input are read if possible, and otherwise answered."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol

import pytest

pytest.importorskip("mcp")

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from aiservices import AiMessage, ChatReply, ChatRequest, ScriptedChatModel, ToolCall, create, tool
from aiservices.integrations.mcp import ApprovalSettings, mcp_server
from aiservices.integrations.mcp.json_rpc import MessageStream

INFO = {"name": "test", "version": "1"}
START = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": INFO}
CALL = {"name": "echo", "arguments": {"text": "hi"}}


class Desk(Protocol):
    def echo(self, text: str) -> str: ...


@tool(needs_approval=True)
def refund(order: int) -> str:
    """Pay back."""
    return "paid"


def reply(request: ChatRequest) -> str | ChatReply:
    text = request.messages[-1].text
    return ChatReply(AiMessage("", (ToolCall("1", "refund", '{"order": 1}'),))) if text == "refund" else text


def _message(method: str, number: object, params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


async def _talk(*lines: str) -> list[dict[str, Any]]:
    """Send lines to a server, each after the answer to the one before, and return the answers."""
    server = mcp_server(create(Desk, ScriptedChatModel(reply), tools=[refund]), approvals=ApprovalSettings())
    to_server, read = anyio.create_memory_object_stream[Any](1)
    write, from_server = anyio.create_memory_object_stream[Any](1)
    answers = []
    options = server.create_initialization_options()
    stream: Any = MessageStream(read, write)
    async with asyncio.timeout(20), to_server, from_server, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.run(stream, write, options))
        for line in (json.dumps(_message("initialize", 0, START)), *lines):
            try:
                item: Any = SessionMessage(jsonrpc_message_adapter.validate_json(line))
            except ValueError as error:
                item = error
            await to_server.send(item)
            answers.append((await from_server.receive()).message.model_dump())
        running.cancel()
    return answers[1:]


@pytest.mark.parametrize(
    "params",
    [[], "x", 5, [{"name": "echo"}]],
)
def test_an_invalid_request_is_answered(params: object) -> None:
    wrong = json.dumps(_message("tools/call", 7, params))
    first, second = asyncio.run(_talk(wrong, json.dumps(_message("tools/call", 8, CALL))))
    assert (first["id"], first["error"]["code"], first["error"]["message"]) == (7, -32600, "Invalid request")
    assert (second["id"], second["result"]["structuredContent"]) == (8, {"value": "hi"})


def test_half_of_a_surrogate_pair_in_a_request_is_replaced() -> None:
    call = {"name": "echo", "arguments": {"text": "a\ud83d"}}
    (answer,) = asyncio.run(_talk(json.dumps(_message("tools/call", 7, call))))
    assert answer["result"]["structuredContent"] == {"value": "a\ufffd"}


NOT_UNDERSTOOD = "The call that waited cannot be resumed: the client sent an invalid answer to the question"


@pytest.mark.parametrize(
    ("decision", "text"),
    [
        ({"result": {"action": "perhaps"}}, NOT_UNDERSTOOD),
        ({"result": {}}, NOT_UNDERSTOOD),
        (
            {"result": {"action": "accept", "content": {"1": "yes"}}},
            "The call that waited cannot be resumed: the answer has no decision for 1",
        ),
        ({"result": None}, "The answer is not valid JSON-RPC."),
        ({"error": "away"}, "away"),
        ({"error": {"code": "x", "message": "away"}}, "away"),
    ],
)
def test_an_invalid_approval_ends_the_call(decision: dict[str, Any], text: str) -> None:
    call = {"name": "echo", "arguments": {"text": "refund"}}
    asked = json.dumps(_message("tools/call", 7, call))
    decided = json.dumps({"jsonrpc": "2.0", "id": 1, **decision})
    question, answer = asyncio.run(_talk(asked, decided))
    assert (question["method"], question["id"]) == ("elicitation/create", 1)
    assert answer["id"] == 7
    message = answer["error"]["message"] if "error" in answer else answer["result"]["content"][0]["text"]
    assert message == text
