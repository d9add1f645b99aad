"""The samples of MCP: the support agent with the official client, and the server of another project."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters

from aiservices import AiMessage, ChatReply, ScriptedChatModel, ToolCall
from samples import mcp_support, mcp_time

ROOT = Path(__file__).parents[2]
Printed = pytest.CaptureFixture[str]


def test_the_support_agent_over_mcp(capsys: Printed) -> None:
    mcp_support.main()
    assert capsys.readouterr().out == (
        "write(message)\n"
        "ann: The lamp of order 17 flickers.\n"
        "  warranty: Your desk lamp is under warranty. Shall I refund it?\n"
        "ann: Then I would like my money back.\n"
        '  Approval required:\n- refund({"number": 17})\n'
        "  refund: The 40 euros for your lamp are on their way.\n"
    )


def test_a_failing_model_is_an_error_for_the_client(capsys: Printed) -> None:
    mcp_support.main(ScriptedChatModel(["?"] * 6))
    assert capsys.readouterr().out.count("  error: The model's reply cannot be read") == 2


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_starts_the_support_agent_as_a_process(mode: str) -> None:
    arguments = ["-m", "aiservices", "mcp", "samples.mcp_support:desk", "--argument", "customer=ann"]
    command = StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT)

    async def talk() -> list[str]:
        async with Client(command, mode=mode, elicitation_callback=mcp_support.ask_user) as client:
            messages = ("The lamp of order 17 flickers.", "Then I would like my money back.")
            results = [await client.call_tool("write", {"message": message}) for message in messages]
        return [result.structured_content["text"] for result in results]

    assert asyncio.run(talk()) == [
        "Your desk lamp is under warranty. Shall I refund it?",
        "The 40 euros for your lamp are on their way.",
    ]


def test_the_server_of_another_project_converts_times(capsys: Printed) -> None:
    pytest.importorskip("mcp_server_time")
    mcp_time.main()
    assert capsys.readouterr().out == "time_convert_time: Asia/Tokyo -3.5h\nCall at 5:30 in India.\n"


def test_the_model_is_told_the_errors_of_the_server_of_another_project() -> None:
    pytest.importorskip("mcp_server_time")
    call = ToolCall("call_1", "time_get_current_time", '{"timezone": "Mars/Phobos"}')
    model = ScriptedChatModel([ChatReply(AiMessage("", (call,))), "There is no such office."])
    with pytest.raises(ValueError, match="Expecting value"):  # the sample expects JSON
        mcp_time.main(model)
    assert "Mars/Phobos" in model.requests[1].messages[-1].text
    tooling = model.requests[0].tooling
    assert tooling is not None
    assert [tool.name for tool in tooling.tools] == ["time_get_current_time", "time_convert_time"]
