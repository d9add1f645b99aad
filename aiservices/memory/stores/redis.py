"""A store for conversations in Redis, with one list per conversation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from ...models.arguments import check_counts, checks_arguments
from ...models.errors import MemoryConflictError, import_extra
from ...models.messages import Message, SystemMessage, message_to_json
from . import (
    StoredConversation,
    check_version,
    new_version,
    newest_messages,
    read_messages,
    store_error,
    store_errors,
)

# The first element of the list is the version and, after a colon, the position of the newest system message
# (0 for none). So one key holds the whole conversation: a Redis cluster stores it on one node, and it expires
# as a whole. Lists of older versions have no position and are loaded as a whole.
_WRITE = """
local length = redis.call('LLEN', KEYS[1])
local version, system = '0', '0'
if length > 0 then version, system = string.match(redis.call('LINDEX', KEYS[1], 0), '^(%d+):?(%d*)$') end
if version == ARGV[2] then return 1 end  -- the client sent this write again after a lost connection
if version ~= ARGV[1] then return 0 end
if ARGV[3] == 'replace' then
    redis.call('DEL', KEYS[1])
    length, system = 0, '0'
end
if ARGV[5] ~= '0' then system = string.format('%d', math.max(length - 1, 0) + tonumber(ARGV[5])) end
local header = ARGV[2]
if system ~= '' then header = header .. ':' .. system end
if length == 0 then redis.call('RPUSH', KEYS[1], header)
else redis.call('LSET', KEYS[1], 0, header) end
for index = 6, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[index]) end
if ARGV[4] ~= '0' then redis.call('EXPIRE', KEYS[1], ARGV[4]) end
return 1
"""
# Returns the header, whether all messages follow, the newest system message if it is older, and the messages.
_LOAD_LAST = """
local length, last = redis.call('LLEN', KEYS[1]), tonumber(ARGV[1])
if length == 0 then return {} end
local header = redis.call('LINDEX', KEYS[1], 0)
local system = string.match(header, ':(%d+)$')
if length - 1 <= last or not system then return {header, 1, {}, redis.call('LRANGE', KEYS[1], 1, -1)} end
local older = {}
if tonumber(system) > 0 and tonumber(system) < length - last then
    older = {redis.call('LINDEX', KEYS[1], system)}
end
return {header, 0, older, redis.call('LRANGE', KEYS[1], -last, -1)}
"""


@checks_arguments
class RedisChatMemoryStore:
    """A store for conversations in Redis (needs the extra ``redis`` of this package).

    Args:
        url: The URL of the server, such as "redis://localhost:6379/0", or a ``redis.Redis`` client.
        prefix: The key of a conversation is this prefix followed by its id.
        expires_after: Seconds without a new message after which Redis deletes a conversation. None keeps it.
    """

    def __init__(
        self, url: str | Any, *, prefix: str = "aiservices:memory:", expires_after: int | None = None
    ) -> None:
        check_counts("RedisChatMemoryStore", 1, expires_after=expires_after)
        package = import_extra("redis", "redis", "RedisChatMemoryStore")
        self._exceptions = package.exceptions
        self._client = package.Redis.from_url(url) if isinstance(url, str) else url
        self._prefix = prefix
        self._expires_after = expires_after or 0
        self._write_script = self._client.register_script(_WRITE)
        self._load_script = self._client.register_script(_LOAD_LAST)

    def load(self, conversation: str, /, *, last: int | None = None) -> StoredConversation:
        key = self._key(conversation)
        with self._errors("read", conversation):
            if last is None:
                header, *rows = self._client.lrange(key, 0, -1) or (b"0",)
                is_complete, older = True, []
            else:
                loaded = self._load_script(keys=[key], args=[last])
                header, is_complete, older, rows = loaded or (b"0", True, [], [])
        version = _version_of(self, conversation, header)
        messages = read_messages(self, conversation, rows)
        older_messages = read_messages(self, conversation, older)
        return newest_messages(older_messages, messages, version, is_complete=bool(is_complete))

    def append(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        return self._write("append", conversation, expected, messages)

    def replace(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        return self._write("replace", conversation, expected, messages)

    def delete(self, conversation: str, /) -> None:
        with self._errors("delete", conversation):
            self._client.delete(self._key(conversation))

    def close(self) -> None:
        """Close the connections to Redis; the next read or write opens new ones."""
        self._client.close()

    def _write(self, operation: str, conversation: str, expected: int, messages: Sequence[Message]) -> int:
        version = new_version()
        rows, system = [], 0  # the position of the newest system message among the new messages
        for position, message in enumerate(messages, 1):
            rows.append(message_to_json(message))
            if isinstance(message, SystemMessage):
                system = position
        arguments = [expected, version, operation, self._expires_after, system, *rows]
        with self._errors("write", conversation):
            is_written = self._write_script(keys=[self._key(conversation)], args=arguments)
        if not is_written:
            raise MemoryConflictError(conversation)
        return version

    def _errors(self, action: str, conversation: str) -> AbstractContextManager[None]:
        return store_errors(self, action, conversation, self._exceptions.RedisError, self._is_temporary)

    def _is_temporary(self, error: Exception) -> bool:
        """Return True if Redis cannot be reached at the moment, so that a retry may help."""
        package = self._exceptions
        refused = (package.AuthenticationError, package.AuthorizationError)
        return isinstance(error, (package.ConnectionError, package.TimeoutError)) and not isinstance(
            error, refused
        )

    def _key(self, conversation: str) -> str:
        return f"{self._prefix}{conversation}"


def _version_of(store: object, conversation: str, header: bytes | str) -> int:
    text = header.decode("utf-8", "replace") if isinstance(header, bytes) else header
    try:
        return int(text.partition(":")[0])
    except ValueError as error:
        raise store_error(store, "read", conversation, error, retryable=False) from error
