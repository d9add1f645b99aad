"""Chat memory: each user has a conversation, which is saved in a file and survives the process."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Protocol

from aiservices import ChatModel, MemoryId, UserMessage, create, system_message
from aiservices.memory import ChatMemory, MessageWindow, SqliteChatMemoryStore

from .program import run


class Guide(Protocol):
    @system_message("You help the visitors of a museum. Answer in one short sentence.")
    def ask(self, visitor: Annotated[str, MemoryId], question: str) -> str: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print answers to two visitors, then an answer after the store was closed and reopened."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "visitors.db")
        with SqliteChatMemoryStore(path) as store:
            guide = create(Guide, model, interceptors=[ChatMemory(MessageWindow(20), store=store)])
            print(guide.ask("ann", "My name is Ann. Where are the Greek vases?"))
            print(guide.ask("ben", "What is my name?"))
        with SqliteChatMemoryStore(path) as store:
            memory = ChatMemory(MessageWindow(20), store=store)
            print(create(Guide, model, interceptors=[memory]).ask("ann", "What is my name?"))
            for message in memory.messages("ann"):
                print(f"  {'ann' if isinstance(message, UserMessage) else 'guide'}: {message.text}")


if __name__ == "__main__":
    run(main)
