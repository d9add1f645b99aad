"""Keeps conversations in Redis: one list a conversation, one script a write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ...models.messages import Message, message_to_dict
from . import MemoryConflictError, Stored, fresh_version, message_of

# The first member of the list is the version, so that one key holds all of a conversation: a cluster keeps it
# in one place, and it expires as a whole.
_WRITE = """
if (redis.call('LINDEX', KEYS[1], 0) or '0') ~= ARGV[1] then return 0 end
if ARGV[3] == 'replace' then redis.call('DEL', KEYS[1]) end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('RPUSH', KEYS[1], ARGV[2])
else redis.call('LSET', KEYS[1], 0, ARGV[2]) end
for at = 5, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[at]) end
if ARGV[4] ~= '0' then redis.call('EXPIRE', KEYS[1], ARGV[4]) end
return 1
"""


class RedisChatMemoryStore:
    """Keeps conversations in the Redis at ``url``, or of a ``redis.Redis`` that is given in its place.

    The keys are ``prefix`` and the id. ``expires`` is after how many seconds without a new message a
    conversation is forgotten; None keeps it. Needs the extra ``redis``.
    """

    def __init__(
        self, url: str | Any, *, prefix: str = "aiservices:memory:", expires: int | None = None
    ) -> None:
        self._client: Any = _redis().Redis.from_url(url) if isinstance(url, str) else url
        self._prefix = prefix
        self._expires = expires or 0
        self._script = self._client.register_script(_WRITE)

    def load(self, conversation: str, /) -> Stored:
        kept = self._client.lrange(self._key(conversation), 0, -1)
        if not kept:
            return Stored()
        version, *said = kept
        return Stored(tuple(message_of(json.loads(one), conversation) for one in said), int(version))

    def append(self, conversation: str, expected: int, messages: Sequence[Message], /) -> int:
        return self._write("append", conversation, expected, messages)

    def replace(self, conversation: str, expected: int, messages: Sequence[Message], /) -> int:
        return self._write("replace", conversation, expected, messages)

    def delete(self, conversation: str, /) -> None:
        self._client.delete(self._key(conversation))

    def close(self) -> None:
        """Close the connections of the client. A later call opens new ones."""
        self._client.close()

    def _write(self, how: str, conversation: str, expected: int, messages: Sequence[Message]) -> int:
        version = fresh_version()
        said = [json.dumps(message_to_dict(message), ensure_ascii=False) for message in messages]
        given = [expected, version, how, self._expires, *said]
        if not self._script(keys=[self._key(conversation)], args=given):
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
