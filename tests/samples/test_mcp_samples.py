"""The samples of MCP: the support agent with the official client, and the server of another project."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters

from aiservices import ScriptedChatModel
from samples import mcp_support

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
