"""The protocol of what keeps conversations, and the error when two calls write over each other."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ..errors import AiServiceError
from ..message_json import message_from_dict
from ..messages import Message

__all__ = ["ChatMemoryStore", "MemoryConflictError", "Stored", "fresh_version", "message_of"]


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
