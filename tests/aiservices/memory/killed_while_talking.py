"""A program that makes calls in one conversation until its process is killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Protocol

from aiservices import (
    AiMessage,
    ChatReply,
    ChatRequest,
    FinishReason,
    Message,
    ScriptedChatModel,
    ToolCall,
    UserMessage,
    create,
)
from aiservices.memory import ChatMemory, MessageWindow, SqliteChatMemoryStore


class Chat(Protocol):
    def chat(self, text: str) -> str: ...


def look() -> str:
    """Look around."""
    return "nothing " * 50


def reply(request: ChatRequest) -> ChatReply:
    """Return a reply with tool calls twice, then a reply with text."""
    since = [message for message in request.messages if isinstance(message, UserMessage)][-1]
    rounds = (len(request.messages) - request.messages.index(since) - 1) // 3
    if rounds < 2:
        calls = (ToolCall(f"{rounds}a", "look", "{}"), ToolCall(f"{rounds}b", "look", "{}"))
        return ChatReply(AiMessage("", calls), FinishReason.TOOL_CALLS)
    return ChatReply(AiMessage(f"re {since.text}"))


class Fragile(SqliteChatMemoryStore):
    """A store whose process is killed during a write, after a part of the messages was written."""

    def append(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        return super().append(conversation, Deadly(messages), expected=expected)


class Deadly(list[Message]):
    """A list of messages that kills the process when its sixth message is read."""

    def __iter__(self) -> Iterator[Message]:
        for number, message in enumerate(super().__iter__()):
            if number == 5 and "turn 3" in self[0].text:
                os.kill(os.getpid(), signal.SIGKILL)
            yield message


def main(path: str, first: int, *, fragile: bool) -> None:
    store = (Fragile if fragile else SqliteChatMemoryStore)(path)
    memory = ChatMemory(MessageWindow(30), store=store)
    chat = create(Chat, ScriptedChatModel(reply), tools=[look], interceptors=[memory])
    for number in range(first, sys.maxsize):
        chat.chat(f"turn {number}")
        print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), fragile="fragile" in sys.argv)
