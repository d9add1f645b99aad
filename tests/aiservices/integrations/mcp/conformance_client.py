"""The client that the conformance suite of MCP starts: a service calls all tools of the server at a URL."""

import json
import sys
from typing import Protocol

from aiservices import AiMessage, ChatReply, ScriptedChatModel, ToolCall, create
from aiservices.integrations.mcp import McpTools


class Clerk(Protocol):
    def answer(self, question: str) -> str: ...


ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}

with McpTools.http(sys.argv[1], ask=lambda question: {}, timeout=20) as server:
    for tool in server.tools():
        call = ToolCall("call_1", tool.name, json.dumps(ARGUMENTS.get(tool.name, {})))
        model = ScriptedChatModel([ChatReply(AiMessage("", (call,))), "done"])
        print(create(Clerk, model, tools=[server]).answer("?"), model.requests[1].messages[-1])
