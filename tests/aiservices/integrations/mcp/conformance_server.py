"""The server that the conformance suite of MCP tests, at a port: a service whose methods are its tools."""

import sys
from collections.abc import Iterator
from typing import Protocol

import uvicorn
from starlette.applications import Starlette

from aiservices import ScriptedChatModel, create, user_message
from aiservices.integrations.mcp import mount_mcp


class Tester(Protocol):
    """Answers the questions of the suite."""

    @user_message("simple")
    def test_simple_text(self) -> str:
        """Return a text."""
        ...

    @user_message("fail")
    def test_error_handling(self) -> int:
        """Fail."""
        ...

    @user_message("one two three")
    def test_tool_with_progress(self) -> Iterator[str]:
        """Report progress."""
        ...

    @user_message("This is a simple prompt for testing.")
    def test_simple_prompt(self) -> str:
        """Offer a prompt."""
        ...

    @user_message("Prompt with arguments: arg1='{{arg1}}', arg2='{{arg2}}'")
    def test_prompt_with_arguments(self, arg1: str, arg2: str) -> str:
        """Offer a prompt with arguments."""
        ...


def reply(request: object) -> str:
    text = request.messages[-1].text
    return {"simple": "This is a simple text response for testing."}.get(text, text)


app = Starlette()
mount_mcp(app, create(Tester, ScriptedChatModel(reply)), prompts=True)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
