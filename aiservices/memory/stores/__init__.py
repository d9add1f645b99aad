"""The protocol of what keeps conversations, and the error when two calls write over each other."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple, Protocol, runtime_checkable

from ...models.errors import AiServiceError
from ...models.messages import Message, message_from_dict

__all__ = [
    "ChatMemoryStore",
    "InMemoryChatMemoryStore",
    "MemoryConflictError",
    "Stored",
    "fresh_version",
    "message_of",
]


class Stored(NamedTuple):
    """A conversation as a store has it. ``version`` is another after each write; 0 when nothing is kept."""

    messages: tuple[Message, ...] = ()
    version: int = 0


@runtime_checkable
class ChatMemoryStore(Protocol):
    """Keeps conversations, each under its id. Its methods block, and are called from several threads.

    ``append`` and ``replace`` write all of the messages or none, and give the new version. They raise
    MemoryConflictError, and write nothing, when the conversation is not of the version ``expected`` any
    more. A store that answers from memory alone has a false attribute ``blocks``; it is called within the
    event loop, and others in a thread.
    """

    def load(self, conversation: str, /) -> Stored: ...
    def append(self, conversation: str, expected: int, messages: Sequence[Message], /) -> int: ...
    def replace(self, conversation: str, expected: int, messages: Sequence[Message], /) -> int: ...
    def delete(self, conversation: str, /) -> None: ...


class MemoryConflictError(AiServiceError):
    """Somebody else wrote to a conversation while a call was made in it; what this call said is not kept.

    Where the call had an answer, it is the last of the ``attempts``. ``conversation`` is the id.
    """

    def __init__(self, conversation: str) -> None:
        super().__init__(
            f"the conversation {conversation!r} was changed by another process while this call was made; "
            "nothing was written over it; make the call again"
        )
        self.conversation = conversation


def fresh_version() -> int:
    """A version that no conversation had before, also when it was deleted and begun anew."""
    return secrets.randbits(52) + 1


def message_of(said: object, conversation: str) -> Message:
    """A message as it was kept. Raises ValueError for what is none."""
    if not isinstance(said, dict):
        raise ValueError(f"the conversation {conversation!r} holds what is no message: {said!r}")
    return message_from_dict(said)


_NOTHING = Stored()


class InMemoryChatMemoryStore:
    """Keeps conversations in a dict. They stay until they are deleted, or the process ends."""

    blocks = False

    def __init__(self) -> None:
        self._kept: dict[str, Stored] = {}
        self._lock = threading.Lock()
        self._versions = count(1)

    def load(self, conversation: str, /) -> Stored:
        return self._kept.get(conversation, _NOTHING)

    def append(self, conversation: str, expected: int, messages: Sequence[Message], /) -> int:
        with self._lock:
            known = self._expected(conversation, expected)
            return self._keep(conversation, (*known.messages, *messages))

    def replace(self, conversation: str, expected: int, messages: Sequence[Message], /) -> int:
        with self._lock:
            self._expected(conversation, expected)
            return self._keep(conversation, tuple(messages))

    def delete(self, conversation: str, /) -> None:
        with self._lock:
            self._kept.pop(conversation, None)

    def conversations(self) -> tuple[str, ...]:
        """The ids of all conversations, in the order in which they began."""
        with self._lock:
            return tuple(self._kept)

    def _expected(self, conversation: str, expected: int) -> Stored:
        known = self._kept.get(conversation, _NOTHING)
        if known.version != expected:
            raise MemoryConflictError(conversation)
        return known

    def _keep(self, conversation: str, messages: tuple[Message, ...]) -> int:
        version = next(self._versions)
        self._kept[conversation] = Stored(messages, version)
        return version
