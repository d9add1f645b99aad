"""Keeps conversations in this process, and no longer than it lives."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import count

from ..messages import Message
from .store import MemoryConflictError, Stored

__all__ = ["InMemoryChatMemoryStore"]

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
