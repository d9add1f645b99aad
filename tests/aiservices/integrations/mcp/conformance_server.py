"""The server that the conformance suite of MCP tests, at a port: a service whose methods are its tools."""

import sys
from collections.abc import Iterator
from typing import Protocol

import uvicorn
from starlette.applications import Starlette

from aiservices import (
    AiMessage,
    Audio,
    ChatReply,
    File,
    Image,
    ScriptedChatModel,
    ToolCall,
    create,
    tool,
    user_message,
)
from aiservices.integrations.mcp import ApprovalSettings, mount_mcp

PICTURE = Image(b"\x89PNG\r\n\x1a\n", "image/png")
SOUND = Audio(b"RIFF\x00\x00\x00\x00WAVE", "audio/wav")
NOTES = File(b"This is an embedded resource content.", "text/plain", name="notes.txt")


@tool(needs_approval=True)
def ask(message: str) -> str:
    """Ask the user."""
    return "approved"


class Service(Protocol):
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

    def test_elicitation(self, message: str) -> str:
        """Call a tool that needs an approval."""
        ...

    @user_message("This is a simple prompt for testing.")
    def test_simple_prompt(self) -> str:
        """Offer a prompt."""
        ...

    @user_message("Prompt with arguments: arg1='{{arg1}}', arg2='{{arg2}}'")
    def test_prompt_with_arguments(self, arg1: str, arg2: str) -> str:
        """Offer a prompt with arguments."""
        ...

    @user_message("Please analyze the image above.")
    def test_prompt_with_image(self, picture: Image) -> str:
        """Offer a prompt with an image."""
        ...

    @user_message("Please process the embedded resource above: {{resourceUri}}")
    def test_prompt_with_embedded_resource(self, resourceUri: str, notes: File) -> str:
        """Offer a prompt with a file."""
        ...


class Tester(Service, Protocol):
    """Answers the questions of the suite, and returns media."""

    def test_image_content(self) -> Image:
        """Return an image."""
        ...

    def test_audio_content(self) -> Audio:
        """Return a sound."""
        ...

    def test_embedded_resource(self) -> File:
        """Return a file."""
        ...

    def test_multiple_content_types(self) -> list[str | Image | File]:
        """Return a text, an image and a file."""
        ...


class Desk:
    """A service with methods that call no model."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __getattr__(self, name: str) -> object:
        return getattr(self._service, name)

    def test_image_content(self) -> Image:
        return PICTURE

    def test_audio_content(self) -> Audio:
        return SOUND

    def test_embedded_resource(self) -> File:
        return NOTES

    def test_multiple_content_types(self) -> list[str | Image | File]:
        return ["Multiple content types test:", PICTURE, NOTES]


def reply(request: object) -> object:
    text = request.messages[-1].text
    if text == "Please provide your information":
        return ChatReply(AiMessage("", (ToolCall("call_1", "ask", '{"message": "?"}'),)))
    return {"simple": "This is a simple text response for testing."}.get(text, text)


app = Starlette()
mount_mcp(
    app,
    Desk(create(Service, ScriptedChatModel(reply), tools=[ask])),
    interface=Tester,
    prompts=True,
    approvals=ApprovalSettings(),
    server_arguments={"picture": lambda request: PICTURE, "notes": lambda request: NOTES},
)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
