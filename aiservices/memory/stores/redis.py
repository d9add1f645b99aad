"""A conversation store in Redis: one list per conversation, one Lua script per write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ...models.errors import MemoryConflictError
from ...models.messages import Message, message_to_dict
from . import StoredConversation, check_version, new_version, stored_message

# The first element of the list is the version. So one key holds the whole conversation: a Redis cluster
# stores it on one node, and it expires as a whole.
_WRITE = """
if (redis.call('LINDEX', KEYS[1], 0) or '0') ~= ARGV[1] then return 0 end
if ARGV[3] == 'replace' then redis.call('DEL', KEYS[1]) end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('RPUSH', KEYS[1], ARGV[2])
else redis.call('LSET', KEYS[1], 0, ARGV[2]) end
for index = 5, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[index]) end
if ARGV[4] ~= '0' then redis.call('EXPIRE', KEYS[1], ARGV[4]) end
return 1
"""


class RedisChatMemoryStore:
    """A store that keeps conversations in Redis. Needs the extra ``redis``.

    Args:
        url: The URL of the server, such as "redis://localhost:6379/0", or a ``redis.Redis`` client.
        prefix: The key of a conversation is this prefix followed by its id.
        expires_after: Seconds without a new message after which Redis deletes a conversation. None keeps it.
    """

    def __init__(
        self, url: str | Any, *, prefix: str = "aiservices:memory:", expires_after: int | None = None
    ) -> None:
        self._client: Any = _redis().Redis.from_url(url) if isinstance(url, str) else url
        self._prefix = prefix
        self._expires_after = expires_after or 0
        self._script = self._client.register_script(_WRITE)

    def load(self, conversation: str, /) -> StoredConversation:
        elements = self._client.lrange(self._key(conversation), 0, -1)
        if not elements:
            return StoredConversation()
        version, *rows = elements
        messages = tuple(stored_message(json.loads(row), conversation) for row in rows)
        return StoredConversation(messages, int(version))

    def append(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        return self._write("append", conversation, expected, messages)

    def replace(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        return self._write("replace", conversation, expected, messages)

    def delete(self, conversation: str, /) -> None:
        self._client.delete(self._key(conversation))

    def close(self) -> None:
        """Close the connections to Redis. The next call of the store opens new ones."""
        self._client.close()

    def _write(self, operation: str, conversation: str, expected: int, messages: Sequence[Message]) -> int:
        version = new_version()
        rows = [json.dumps(message_to_dict(message), ensure_ascii=False) for message in messages]
        arguments = [expected, version, operation, self._expires_after, *rows]
        if not self._script(keys=[self._key(conversation)], args=arguments):
            raise MemoryConflictError(conversation)
        return version

    def _key(self, conversation: str) -> str:
        return f"{self._prefix}{conversation}"


def _redis() -> Any:
    try:
        return import_module("redis")
    except ImportError as error:
        raise ImportError(
            'RedisChatMemoryStore needs the package redis: pip install "aiservices[redis]"'
        ) from error
