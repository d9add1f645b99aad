"""An MCP server for the tests: ``python mcp_server.py`` speaks over stdio, with a port over HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import AssistantMessage, UserMessage
from pydantic import BaseModel, Field

server = MCPServer("tests", log_level="ERROR")


class Weather(BaseModel):
    city: str
    degrees: float


@server.tool()
def weather(city: Annotated[str, Field(min_length=2, description="name of a city")]) -> Weather:
    """Tells the weather."""
    return Weather(city=city, degrees=21.5)


@server.tool(structured_output=False)
def joined(words: list[str], by: str = " ") -> str:
    """Joins words to a text."""
    return by.join(words)


@server.tool(structured_output=False)
def drawn() -> list[str | Image]:
    """Draws a cat."""
    return ["A cat.", Image(data=b"GIF89a", format="gif")]


@server.tool(structured_output=False)
def nothing() -> None:
    """Does nothing."""


@server.tool()
def broken() -> str:
    """Fails on every call."""
    raise ToolError("the shelf is empty")


@server.tool()
async def slow() -> str:
    """Waits for a minute."""
    await asyncio.sleep(60)
    return "late"


@server.tool()
def deadly() -> str:
    """Ends the process of the server."""
    os._exit(3)


@server.tool(structured_output=False)
def add_tool() -> str:
    """Adds a tool to the server."""

    def new_tool() -> str:
        """Returns 42."""
        return "42"

    server.add_tool(new_tool, structured_output=False)
    return "Added."


@server.tool(structured_output=False)
def number() -> str:
    """Returns the id of the server process."""
    return str(os.getpid())


@server.tool(name="env.value", structured_output=False)
def env_value(variable: str) -> str:
    """Returns the value of an environment variable."""
    return os.environ.get(variable, "unset")


@server.tool(structured_output=False)
def caller(context: Context) -> str:
    """Returns the header x-caller of the HTTP request."""
    headers = context.headers or {}
    return headers.get("x-caller", "unknown")


@server.resource("notes://today", description="What is to be done today")
def notes() -> str:
    return "Water the plants."


@server.resource("notes://{day}", description="What was done on a day")
def notes_of(day: str) -> str:
    return f"Rested on {day}."


@server.resource("pictures://cat", mime_type="image/gif")
def cat() -> bytes:
    return b"GIF89a"


@server.prompt()
def review(text: str) -> list[UserMessage | AssistantMessage]:
    """Asks for a review."""
    return [UserMessage(f"Review this: {text}"), AssistantMessage("With pleasure.")]


if __name__ == "__main__":
    if sys.argv[1:] == ["silent"]:
        sys.stdin.read()
    elif sys.argv[1:]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
