"""The support agent as an MCP server, used by the official client of MCP.

``aiservices mcp samples.mcp_support:desk --argument customer=ann`` serves it over standard input and output.
"""

from __future__ import annotations

import asyncio

from mcp import Client
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult, TextContent

from aiservices import ChatModel, ScriptedChatModel, create
from aiservices.integrations.mcp import ApprovalSettings, mcp_server
from aiservices.memory import ChatMemory

from .support_agent import Support, Topic, answer, order, refund, tool_call, warranty


def scripted() -> ScriptedChatModel:
    """Return a scripted model for a conversation with two messages."""
    return ScriptedChatModel(
        [
            tool_call("order", 17),
            tool_call("warranty", 17),
            answer("Your desk lamp is under warranty. Shall I refund it?", Topic.WARRANTY),
            tool_call("refund", 17),
            answer("The 40 euros for your lamp are on their way.", Topic.REFUND),
        ]
    )


def desk(model: ChatModel | str | None = None) -> Support:
    """Return the support service. Without a model, a scripted one answers."""
    memory = ChatMemory()
    return create(Support, model or scripted(), tools=[order, warranty, refund], interceptors=[memory])


async def ask_user(context: object, params: ElicitRequestParams) -> ElicitResult:
    """Answer a question of the server, as the user of the client would."""
    assert isinstance(params, ElicitRequestFormParams)
    print(f"  {params.message}")
    return ElicitResult(action="accept", content=dict.fromkeys(params.requested_schema["properties"], True))


async def talk(model: ChatModel | str | None = None) -> None:
    """Use the server as an MCP client."""
    # The customer comes from the program: the client neither sees nor sends it.
    server = mcp_server(
        desk(model), server_arguments={"customer": lambda request: "ann"}, approvals=ApprovalSettings()
    )
    async with Client(server, elicitation_callback=ask_user) as client:
        for tool in (await client.list_tools()).tools:
            print(f"{tool.name}({', '.join(tool.input_schema['properties'])})")
        for message in ("The lamp of order 17 flickers.", "Then I would like my money back."):
            print(f"ann: {message}")
            result = await client.call_tool("write", {"message": message})
            if result.is_error:
                print("  error:", *[block.text for block in result.content if isinstance(block, TextContent)])
            else:
                reply = result.structured_content
                print(f"  {reply['topic']}: {reply['text']}")


def main(model: ChatModel | str | None = None) -> None:
    """Print what a client of MCP sees of the support agent. Without a model, a scripted one answers."""
    asyncio.run(talk(model))


if __name__ == "__main__":
    main()
