"""Conversation stores: their protocol, a store that keeps conversations in memory, and shared functions."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple, Protocol, runtime_checkable

from ...models.errors import MemoryConflictError
from ...models.messages import Message, message_from_dict

# Starts the ids of the conversations in which ChatMemory records which suspended calls were resumed.
RESUMED_PREFIX = "aiservices:resumed:"


class StoredConversation(NamedTuple):
    """The messages of a conversation in a store, and their version.

    Attributes:
        messages: All messages, oldest first.
        version: A number that changes with every write; 0 if nothing is stored.
    """

    messages: tuple[Message, ...] = ()
    version: int = 0


@runtime_checkable
class ChatMemoryStore(Protocol):
    """A store of conversations by their ids. Its methods must be safe to call from several threads.

    ``append`` and ``replace`` write all of the messages or none of them and return the new version. They
    write nothing and raise MemoryConflictError if the version of the conversation is not ``expected``, the
    version that ``load`` returned. It is passed by name.

    Async calls run the methods in a thread, because they may block. A store that never waits for input or
    output sets the attribute ``blocks`` to False and is called in the event loop.
    """

    def load(self, conversation: str, /) -> StoredConversation: ...
    def append(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int: ...
    def replace(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int: ...
    def delete(self, conversation: str, /) -> None: ...


def new_version() -> int:
    """Return a random version number for a conversation.

    A random number differs from the one of a conversation that was deleted and created again.
    """
    return secrets.randbits(52) + 1


def check_version(expected: object) -> None:
    """Raise TypeError if the expected version of a conversation is not an int."""
    # without this, another object would look like a conflict with another writer
    if not isinstance(expected, int) or isinstance(expected, bool):
        raise TypeError(f"expected is {expected!r}; it must be the version of the conversation, an int")


def stored_message(data: object, conversation: str) -> Message:
    """Convert a stored JSON value to a message. Raises ValueError if it is not a message."""
    if not isinstance(data, dict):
        raise ValueError(
            f"the conversation {conversation!r} contains an entry that is not a message: {data!r}"
        )
    return message_from_dict(data)


_EMPTY = StoredConversation()


class InMemoryChatMemoryStore:
    """A store that keeps conversations in a dict until they are deleted or the process ends."""

    blocks = False

    def __init__(self) -> None:
        self._conversations: dict[str, StoredConversation] = {}
        self._lock = threading.Lock()
        self._versions = count(1)

    def load(self, conversation: str, /) -> StoredConversation:
        return self._conversations.get(conversation, _EMPTY)

    def append(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        with self._lock:
            stored = self._checked(conversation, expected)
            return self._write(conversation, (*stored.messages, *messages))

    def replace(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        with self._lock:
            self._checked(conversation, expected)
            return self._write(conversation, tuple(messages))

    def delete(self, conversation: str, /) -> None:
        with self._lock:
            self._conversations.pop(conversation, None)

    def conversations(self) -> tuple[str, ...]:
        """Return the ids of all stored conversations, in the order of their creation."""
        with self._lock:
            return tuple(one for one in self._conversations if not one.startswith(RESUMED_PREFIX))

    def _checked(self, conversation: str, expected: int) -> StoredConversation:
        stored = self._conversations.get(conversation, _EMPTY)
        if stored.version != expected:
            raise MemoryConflictError(conversation)
        return stored

    def _write(self, conversation: str, messages: tuple[Message, ...]) -> int:
        version = next(self._versions)
        self._conversations[conversation] = StoredConversation(messages, version)
        return version
