"""The tools of an MCP server of another project, mcp-server-time, which converts times between time zones."""

from __future__ import annotations

import json
import sys
from typing import Protocol

from aiservices import (
    AiMessage,
    ChatModel,
    ChatReply,
    Result,
    ScriptedChatModel,
    ToolCall,
    create,
    system_message,
)
from aiservices.integrations.mcp import McpTools


class Planner(Protocol):
    @system_message("You plan calls between offices. Convert times with your tools.")
    def plan(self, request: str) -> Result[str]: ...


def scripted() -> ScriptedChatModel:
    """Return a scripted model that converts one time."""
    arguments = {"source_timezone": "Asia/Tokyo", "time": "09:00", "target_timezone": "Asia/Kolkata"}
    call = ToolCall("call_1", "time_convert_time", json.dumps(arguments))
    return ScriptedChatModel([ChatReply(AiMessage("", (call,))), "Call at 5:30 in India."])


def main(model: ChatModel | str | None = None) -> None:
    """Print what the server answers, and the plan. Without a model, a scripted one answers."""
    with McpTools.stdio(sys.executable, ["-m", "mcp_server_time"], prefix="time_") as time:
        result = create(Planner, model or scripted(), tools=[time]).plan("Nine o'clock in Tokyo, with India.")
    for run in result.tool_runs:
        answer = json.loads(run.text)
        print(f"{run.name}: {answer['source']['timezone']} {answer['time_difference']}")
    print(result.value)


if __name__ == "__main__":
    main()
