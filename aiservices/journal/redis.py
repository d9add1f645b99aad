"""A journal in Redis, which several machines share."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..models.errors import JournalError, import_extra
from .store import START, Entry, Loaded, Status, StoredCall, TakesLease, latest, with_lease

_PREFIX = "aiservices:durable:"
_INDEX = f"{_PREFIX}calls"  # the ids of all calls, by the time of their beginning
# A call is a list, so that it is one key: its first element is the call, and the others are its entries. The
# scripts get the fence that the call must have, or "" for any, and the changes of the call and its entries.
# The server stores the lease as a time of its clock.
_NOW = """
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.rep('0', 6 - #time[2]) .. time[2]
"""
_READ = f"{_NOW}return {{now, redis.call('LRANGE', KEYS[1], 0, -1)}}"
_WRITE = f"""{_NOW}
local text = redis.call('LINDEX', KEYS[1], 0)
if not text then return 0 end
local stored = cjson.decode(text)
if ARGV[1] ~= '' and tostring(stored[9]) ~= ARGV[1] then return 0 end
if ARGV[1] == '' then stored[9] = stored[9] + 1 end
if ARGV[2] ~= '' then stored[2] = ARGV[2] end
if ARGV[3] ~= '' then stored[8] = tonumber(now) + tonumber(ARGV[3]) end
if ARGV[3] ~= '' and tonumber(ARGV[3]) == 0 then stored[7] = '' end
stored[6] = tonumber(ARGV[4])
redis.call('LSET', KEYS[1], 0, cjson.encode(stored))
for index = 5, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[index]) end
return 1
"""
_CREATE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
for index = 1, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[index]) end
return 1
"""
# Replaces the call if it is still the one that was read.
_TAKE = """
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
redis.call('LSET', KEYS[1], 0, ARGV[2])
return 1
"""


class RedisJournalStore:
    """A store for journals in Redis. Needs the extra ``redis``.

    Redis loses the last writes when it is killed, unless it is configured with ``appendfsync always``.

    Args:
        url: The URL of the server, such as "redis://localhost:6379/0".
    """

    blocks = True

    def __init__(self, url: str) -> None:
        self._redis = import_extra("redis", "redis", "Journal")
        self._client = self._redis.Redis.from_url(url, decode_responses=True)
        self._read = self._client.register_script(_READ)
        self._write = self._client.register_script(_WRITE)
        self._create = self._client.register_script(_CREATE)
        self._replace = self._client.register_script(_TAKE)

    def load(self, call: str, /) -> Loaded | None:
        with self._errors("read"):
            now, rows = self._read(keys=[_PREFIX + call])
        return _loaded(rows, float(now)) if rows else None

    def lease(self, new: StoredCall, start: str, statuses: Collection[str], takes: TakesLease, /) -> Loaded:
        key = _PREFIX + new.id
        with self._errors("written"):
            while True:
                now, rows = self._read(keys=[key])
                until = float(now) + new.leased_for
                if not rows:
                    first = Entry(START, start, new.created_at)
                    call = new._replace(leased_for=until)
                    # first, so that a call that is created can always be listed
                    self._client.zadd(_INDEX, {new.id: new.created_at})
                    if self._create(keys=[key], args=[json.dumps(call), json.dumps(first)]):
                        return Loaded(new, [first])
                    continue
                loaded = _loaded(rows, float(now))
                if loaded.call.status not in statuses or not takes(loaded.call):
                    return loaded
                leased = with_lease(new, loaded.call)
                if self._replace(keys=[key], args=[rows[0], json.dumps(leased._replace(leased_for=until))]):
                    return Loaded(leased, loaded.entries)

    def append(
        self,
        call: str,
        fence: int | None,
        entries: Sequence[Entry],
        /,
        *,
        status: Status | None = None,
        leased_for: float | None = None,
    ) -> bool:
        values = ["" if fence is None else fence, status or "", "" if leased_for is None else leased_for]
        args = [*values, time.time(), *map(json.dumps, entries)]
        with self._errors("written"):
            return bool(self._write(keys=[_PREFIX + call], args=args))

    def list(self, statuses: Collection[str], /) -> Sequence[StoredCall]:
        with self._errors("read"):
            ids = self._client.zrange(_INDEX, 0, -1)
            with self._client.pipeline(transaction=False) as pipeline:
                pipeline.time()
                for call in ids:
                    pipeline.lindex(_PREFIX + call, 0)
                (seconds, microseconds), *rows = pipeline.execute()
        calls = [_stored(json.loads(row), seconds + microseconds / 1e6) for row in rows if row]
        return [call for call in calls if call.status in statuses]

    def delete(self, call: str, /) -> None:
        with self._errors("written"):
            self._client.delete(_PREFIX + call)
            self._client.zrem(_INDEX, call)

    def close(self) -> None:
        """Close the connections; the next access opens new ones."""
        self._client.close()

    @contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        try:
            yield
        except self._redis.exceptions.RedisError as error:
            raise JournalError(f"the journal cannot be {done}: {type(error).__name__}: {error}") from error


def _loaded(rows: Sequence[str], now: float) -> Loaded:
    call, *entries = map(json.loads, rows)
    return Loaded(_stored(call, now), latest(entries))


def _stored(row: Sequence[Any], now: float) -> StoredCall:
    return StoredCall._make((*row[:7], row[7] - now, *row[8:]))
