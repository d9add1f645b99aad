"""Stores for conversations: their interface, a store in memory, and functions for all stores."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple, Protocol, runtime_checkable

from ...models.arguments import checks_arguments, is_positive
from ...models.errors import DefinitionError, DefinitionProblem, MemoryConflictError, MemoryStoreError
from ...models.messages import Message, SystemMessage, message_from_dict

# Starts the ids of the conversations in which ChatMemory records which suspended calls were resumed.
RESUMED_PREFIX = "aiservices:resumed:"


class StoredConversation(NamedTuple):
    """The stored messages of a conversation, with a version number to detect conflicting writes.

    Attributes:
        messages: The messages, oldest first.
        version: A number that changes with every write; 0 if nothing is stored.
        is_complete: False if older messages are stored that were not loaded.
    """

    messages: tuple[Message, ...] = ()
    version: int = 0
    is_complete: bool = True


@runtime_checkable
class ChatMemoryStore(Protocol):
    """The interface of stores that keep conversations under their ids.

    The methods must be safe to call from several threads. ``append`` and ``replace`` write all of the
    messages or none of them and return the new version. They write nothing and raise MemoryConflictError if
    the version of the conversation is not ``expected``, the version that ``load`` returned. It is passed by
    name.

    ``load`` may have a parameter ``last: int | None = None``: the number of newest messages to load. Then
    ChatMemory does not read long conversations as a whole. If the newest system message is older than these,
    it is loaded as well and comes first. If messages were left out, ``is_complete`` is False.

    Errors that the methods raise reach the caller as a MemoryStoreError, with the original one as
    ``__cause__``. A store may raise MemoryStoreError itself, to tell whether the error is ``retryable``.

    Async calls run the methods in a thread, because they may block. A store that never waits for input or
    output sets the attribute ``blocks`` to False and is called in the event loop.
    """

    def load(self, conversation: str, /) -> StoredConversation: ...
    def append(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int: ...
    def replace(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int: ...
    def delete(self, conversation: str, /) -> None: ...


def new_version() -> int:
    """Return a new random version number for a stored conversation; every write needs a new one.

    Unlike a counter, a random number does not repeat after a conversation is deleted and created again.
    """
    return secrets.randbits(52) + 1


def check_version(expected: object) -> None:
    """Raise TypeError if the version number for writing a conversation is not an int."""
    # without this, another object would look like a conflict with another writer
    if not isinstance(expected, int) or isinstance(expected, bool):
        raise TypeError(f"expected is {expected!r}; it must be the version of the conversation, an int")


def read_messages(store: object, conversation: str, rows: Iterable[str | bytes]) -> tuple[Message, ...]:
    """Convert stored JSON strings to chat messages, or raise MemoryStoreError if a string is damaged."""
    try:
        messages = []
        for row in rows:
            data = json.loads(row)
            if not isinstance(data, dict):
                raise ValueError("it is not a JSON object")
            messages.append(message_from_dict(data))
        return tuple(messages)
    except Exception as error:  # a damaged row may be any JSON
        name = type(store).__name__
        raise MemoryStoreError(
            f"{name}: the conversation {conversation!r} contains a message that cannot be read: {error!r}; "
            "repair it, or delete the conversation",
            store=name,
            conversation=conversation,
        ) from error


def newest_messages(
    older: Sequence[Message], newest: tuple[Message, ...], version: int, *, is_complete: bool
) -> StoredConversation:
    """Return the newest messages of a conversation, and always its system message."""
    system_messages = [one for one in older if isinstance(one, SystemMessage)]
    if not system_messages or any(isinstance(one, SystemMessage) for one in newest):
        return StoredConversation(newest, version, is_complete)
    return StoredConversation((system_messages[-1], *newest), version, is_complete)


def store_error(
    store: object, action: str, conversation: str, error: Exception, *, retryable: bool | None = None
) -> MemoryStoreError:
    """Convert an exception of a conversation store to a MemoryStoreError.

    Args:
        store: The store.
        action: What it did, such as "read".
        conversation: The id of the conversation; "" for none.
        error: The exception.
        retryable: True if the same call may succeed later. None decides by the type of the exception.
    """
    if retryable is None:
        retryable = isinstance(error, (ConnectionError, TimeoutError, BlockingIOError, InterruptedError))
    name = type(store).__name__
    subject = f"the conversation {conversation!r}" if conversation else "its conversations"
    advice = "make the call again later" if retryable else "check the store and its settings"
    return MemoryStoreError(
        f"{name} could not {action} {subject}: {type(error).__name__}: {error}; {advice}",
        store=name,
        conversation=conversation,
        retryable=retryable,
    )


@contextmanager
def store_errors(
    store: object,
    action: str,
    conversation: str,
    kind: type[Exception],
    is_temporary: Callable[[Exception], bool],
) -> Iterator[None]:
    """Context manager that converts a database library's errors to MemoryStoreError.

    Args:
        store: The store.
        action: What it does, such as "read".
        conversation: The id of the conversation; "" for none.
        kind: The base class of the errors of the library.
        is_temporary: Returns True for an error after which the same call may succeed later.
    """
    try:
        yield
    except kind as error:
        raise store_error(store, action, conversation, error, retryable=is_temporary(error)) from error


_EMPTY = StoredConversation()


class _Conversation:
    """The messages of one conversation in the in-memory store."""

    __slots__ = ("messages", "system", "version")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.system: int | None = None  # the index of the newest system message
        self.version = 0

    def add(self, messages: tuple[Message, ...]) -> None:
        for index, message in enumerate(messages, len(self.messages)):
            if isinstance(message, SystemMessage):
                self.system = index
        self.messages += messages


@checks_arguments
class InMemoryChatMemoryStore:
    """A store that keeps conversations in a dict until they are deleted or the process ends.

    A server should set a limit: otherwise the conversations of all users stay in memory.

    Args:
        max_conversations: The largest number of conversations. When there are more, the one that was not used
            for the longest time is deleted. Set it well above the number of concurrent calls: a call whose
            conversation was deleted during it raises MemoryConflictError.
        expires_after: Seconds after its last use when a conversation is deleted. Records of resumed calls
            are deleted then, too.
    """

    blocks = False

    def __init__(self, *, max_conversations: int | None = None, expires_after: float | None = None) -> None:
        for name, limit in (("max_conversations", max_conversations), ("expires_after", expires_after)):
            if limit is not None and not is_positive(limit):
                problem = f"{name} is {limit!r}; it must be greater than 0"
                raise DefinitionError([DefinitionProblem("InMemoryChatMemoryStore", problem)])
        self._max_conversations = max_conversations
        self._expires_after = expires_after
        self._has_limit = max_conversations is not None or expires_after is not None
        self._conversations: dict[str, _Conversation] = {}
        # when each conversation was used, the one unused for the longest time first; empty without limits
        self._used: OrderedDict[str, float] = OrderedDict()
        # records of resumed calls are not counted, because a call whose record is gone could be resumed again
        self._used_records: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()
        self._versions = count(1)

    def load(self, conversation: str, /, *, last: int | None = None) -> StoredConversation:
        with self._lock:
            if self._has_limit:
                self._delete_expired()
            stored = self._conversations.get(conversation)
            if stored is None:
                return _EMPTY
            if self._has_limit:
                self._mark_used(conversation)
            messages = stored.messages
            if last is None or last >= len(messages):
                return StoredConversation(tuple(messages), stored.version)
            first = len(messages) - last
            older = () if stored.system is None or stored.system >= first else (messages[stored.system],)
            return newest_messages(older, tuple(messages[first:]), stored.version, is_complete=False)

    def append(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        new_messages = tuple(messages)
        with self._lock:
            stored = self._checked(conversation, expected) or _Conversation()
            return self._write(conversation, stored, new_messages)

    def replace(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        new_messages = tuple(messages)
        with self._lock:
            self._checked(conversation, expected)
            return self._write(conversation, _Conversation(), new_messages)

    def delete(self, conversation: str, /) -> None:
        with self._lock:
            self._delete(conversation)

    def conversations(self) -> tuple[str, ...]:
        """Return the ids of all stored conversations, in the order of their creation."""
        with self._lock:
            self._delete_expired()
            return tuple(one for one in self._conversations if not one.startswith(RESUMED_PREFIX))

    def _checked(self, conversation: str, expected: int) -> _Conversation | None:
        if self._has_limit:
            self._delete_expired()
        stored = self._conversations.get(conversation)
        if (0 if stored is None else stored.version) != expected:
            raise MemoryConflictError(conversation)
        return stored

    def _write(self, conversation: str, stored: _Conversation, messages: tuple[Message, ...]) -> int:
        stored.add(messages)
        stored.version = next(self._versions)
        self._conversations[conversation] = stored
        if self._has_limit:
            self._mark_used(conversation)
            if self._max_conversations is not None and len(self._used) > self._max_conversations:
                self._delete(next(iter(self._used)))
        return stored.version

    def _mark_used(self, conversation: str) -> None:
        used = self._used_records if conversation.startswith(RESUMED_PREFIX) else self._used
        used[conversation] = time.monotonic()
        used.move_to_end(conversation)

    def _delete_expired(self) -> None:
        if self._expires_after is None:
            return
        oldest = time.monotonic() - self._expires_after
        for used in (self._used, self._used_records):
            while used and next(iter(used.values())) <= oldest:
                self._delete(next(iter(used)))

    def _delete(self, conversation: str) -> None:
        self._conversations.pop(conversation, None)
        self._used.pop(conversation, None)
        self._used_records.pop(conversation, None)
