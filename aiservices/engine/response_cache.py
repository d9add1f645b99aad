"""A cache of model replies, so that a repeated request is not sent to the model again."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from ..models.arguments import checks_arguments, is_positive
from ..models.base import ChatModel, PickledByArguments, unwrap_model
from ..models.errors import AiServiceError, DefinitionError, DefinitionProblem, import_extra
from ..models.http.model import HttpChatModel
from ..models.messages import ChatReply, Usage, reply_from_json, reply_to_json
from ..models.requests import ChatRequest, request_hash
from ..models.sqlite_file import SqliteFile
from .effects import CallModel, Effect, Flow, Gather, Outcome, Run
from .flows import map_effects
from .interceptor import BaseInterceptor, InterceptorKind, Proceed
from .plan import Invocation
from .recorder import RecordedReply
from .results import Answer

_LOGGER = logging.getLogger("aiservices")
_FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS reply (key TEXT PRIMARY KEY, stored_at REAL NOT NULL, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS reply_by_age ON reply (stored_at);
"""
_REMAINING_SHARE = 0.9  # the share of max_bytes that remains when old replies are deleted


@checks_arguments
class ResponseCache(PickledByArguments, BaseInterceptor):
    """A cache of model replies, which answers a repeated request with the stored reply.

    Pass it to ``create`` or ``map_rows``; several services and processes may share it::

        cache = ResponseCache("replies.sqlite", expires=timedelta(days=30))
        desk = create(Desk, "openai:gpt-5-mini", cache=cache)

    A reply is stored when the call has accepted it: it could be read, and the guardrails let it pass. Replies
    to a call that ran tools, and those with a temperature above 0, are not stored. With ``votes``, each
    sample has an entry of its own. A reply from the cache has no tokens and costs nothing, and
    ``Result.cached`` is True.

    Requests are stored only as hashes, but replies as they are, which may be private; see ``encrypt``.

    Args:
        store: The path of an SQLite file, or the URL of a Redis server, such as "redis://localhost:6379/0",
            which needs the extra ``redis``.
        expires: How long a reply is used: seconds or a timedelta; None for ever.
        max_bytes: When the replies take more space than this, the oldest ones are deleted. Only for SQLite:
            Redis has a setting of its own.
        encrypt: A function that encrypts bytes before they are stored; it needs ``decrypt``.
        decrypt: The function that reverses ``encrypt``. An entry that it cannot read is not used.
        namespace: Only caches with the same namespace share replies. Use one for each tenant if the key of a
            model comes from a function.

    If the store fails during a call, this is logged, and the request is sent. Raises DefinitionError if the
    file cannot be opened.
    """

    position_name = InterceptorKind.CACHE

    def __init__(
        self,
        store: str | Path,
        *,
        expires: float | timedelta | None = None,
        max_bytes: int | None = None,
        encrypt: Callable[[bytes], bytes] | None = None,
        decrypt: Callable[[bytes], bytes] | None = None,
        namespace: str = "",
    ) -> None:
        seconds = expires.total_seconds() if isinstance(expires, timedelta) else expires
        problems = []
        if not isinstance(store, (str, Path)):
            problems.append(f"store is {type(store).__name__}; pass the path of a file, or a redis:// URL")
        if seconds is not None and not is_positive(seconds):
            problems.append(f"expires is {expires!r}; it must be greater than 0")
        if max_bytes is not None and not is_positive(max_bytes):
            problems.append(f"max_bytes is {max_bytes!r}; it must be greater than 0")
        if (encrypt is None) != (decrypt is None):
            problems.append("encrypt and decrypt are needed together")
        if problems:
            raise DefinitionError([DefinitionProblem("ResponseCache", problem) for problem in problems])
        self._store: _Store
        if isinstance(store, str) and store.startswith(("redis://", "rediss://", "unix://")):
            if max_bytes is not None:
                message = "Redis limits its memory itself; leave out max_bytes, and set maxmemory of Redis"
                raise DefinitionError([DefinitionProblem("ResponseCache", message)])
            self._store = _RedisStore(store, seconds)
        else:
            self._store = _SqliteStore(Path(store), seconds, max_bytes)
        self._encrypt = encrypt
        self._decrypt = decrypt
        self.namespace = namespace

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        call = _CachedCall(self, self._store.blocks, invocation)
        answer = yield from map_effects(proceed(invocation), call.perform)
        yield from call.store(answer)
        return answer

    def get(self, key: str) -> ChatReply | None:
        """Return the stored reply for a key; None if the reply is missing, expired or damaged."""
        try:
            data = self._store.get(key)
        except self._store.errors as error:
            _LOGGER.warning("the response cache cannot be read, so the request is sent: %s", error)
            return None
        if data is None:
            return None
        try:
            entry = json.loads(data if self._decrypt is None else self._decrypt(data))
            return reply_from_json(entry["reply"]) if entry["format"] == _FORMAT else None
        except Exception:  # an entry of another version or with another password, or a damaged one
            return None

    def put(self, key: str, reply: ChatReply) -> None:
        """Store a reply under a key; log storage errors instead of raising them."""
        data = json.dumps({"format": _FORMAT, "reply": reply_to_json(reply)}, ensure_ascii=False).encode()
        try:
            self._store.put(key, data if self._encrypt is None else self._encrypt(data))
        except self._store.errors as error:
            _LOGGER.warning("the reply is not stored in the response cache: %s", error)

    def clear(self) -> None:
        """Delete all stored replies."""
        self._store.clear()

    def close(self) -> None:
        """Close the cache file or the Redis connection; the next access opens it again."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Request(NamedTuple):
    """A model request and the key under which the cache may have a reply.

    Attributes:
        key: Its key in the cache.
        digest: The hash of the request, without the number of the sample.
    """

    key: str
    digest: str


class _CachedCall:
    """Answers the requests of one service call from the cache, and stores replies of accepted answers."""

    def __init__(self, cache: ResponseCache, blocks: bool, invocation: Invocation) -> None:
        self._cache = cache
        self._blocks = blocks
        self._invocation = invocation
        self._samples: Counter[str] = Counter()
        self._new: list[tuple[_Request, ChatReply]] = []

    def perform(self, effect: Effect) -> Flow[Outcome]:
        """Perform an effect of the service call, taking a model reply from the cache if possible."""
        if isinstance(effect, CallModel) and not isinstance(effect.model, RecordedReply):
            effect, request = yield from self._from_cache(effect)
            outcome = yield effect
            self._remember(request, outcome)
            return outcome
        if isinstance(effect, Gather):
            effects, requests = [], []
            for one in effect.effects:
                prepared, request = (
                    (yield from self._from_cache(one)) if isinstance(one, CallModel) else (one, None)
                )
                effects.append(prepared)
                requests.append(request)
            outcomes = yield effect._replace(effects=tuple(effects))
            for request, outcome in zip(requests, outcomes, strict=True):
                self._remember(request, outcome)
            return outcomes
        return (yield effect)

    def _from_cache(self, effect: CallModel) -> Flow[tuple[CallModel, _Request | None]]:
        """Return an effect that returns the cached reply, or the original effect and its cache key."""
        votes, namespace = bool(self._invocation.plan.decisions.votes), self._cache.namespace
        digest = _digest(effect.model, effect.request, namespace, votes=votes)
        if digest is None:
            return effect, None
        request = _Request(f"{digest}-{self._samples[digest]}", digest)
        self._samples[digest] += 1
        reply: ChatReply | None = yield Run(partial(self._cache.get, request.key), in_thread=self._blocks)
        if reply is None:
            return effect, request
        self._invocation.state.count_requests(-1)  # it was counted, but is not sent
        reply = replace(reply, usage=Usage(), cached=True)
        return effect._replace(model=RecordedReply(effect.model, reply)), None

    def _remember(self, request: _Request | None, reply: ChatReply) -> None:
        if request is not None and not reply.server_tool_runs:
            self._new.append((request, reply))

    def store(self, answer: Answer) -> Flow[None]:
        """Store the reply with the accepted answer; if the answer is a vote, store all its replies."""
        if answer.tool_runs or self._invocation.state.tool_rounds:
            return
        accepted = {request.digest for request, reply in self._new if reply.message is answer.reply.message}
        for request, reply in self._new:
            is_sample = bool(self._invocation.plan.decisions.votes) and request.digest in accepted
            if is_sample or reply.message is answer.reply.message:
                yield Run(partial(self._cache.put, request.key, reply), in_thread=self._blocks)


def _digest(model: ChatModel, request: ChatRequest, namespace: str, *, votes: bool) -> str | None:
    """Return a hash that identifies a model request, or None if the reply must not be cached."""
    inner = unwrap_model(model)
    options = request.options
    if isinstance(inner, HttpChatModel):
        options = options.with_defaults(inner.default_options)
    if options.temperature and not votes:
        return None
    parts: tuple[bytes, ...]
    if isinstance(inner, HttpChatModel):
        try:
            http = inner.http_request(replace(request, repeats="") if request.repeats else request)
        except AiServiceError:  # sending it reports the error
            return None
        destination, headers = inner.destination, http.headers
        parts = (http.path.encode(), http.body)
    else:
        # a model of another class may have attributes that affect its answers in addition to the request
        selecting = [str(getattr(inner, name, "")) for name in ("account", "destination", "default_options")]
        destination, headers = "\0".join(selecting), options.extra_headers or {}
        parts = (request_hash(inner.name, str(getattr(inner, "endpoint", "")), request).encode(),)
    named = sorted((name.lower(), str(value)) for name, value in headers.items())
    hashed = blake2b(digest_size=16)
    for part in (repr((namespace, inner.name, destination, named)).encode(), *parts):
        hashed.update(len(part).to_bytes(8))
        hashed.update(part)
    return hashed.hexdigest()


class _Store(Protocol):
    """The interface of stores that keep cached model replies.

    Attributes:
        blocks: True if an access may take long, so that an event loop must not wait for it.
        errors: What is raised if the store fails.
    """

    blocks: bool
    errors: tuple[type[Exception], ...]

    def get(self, key: str) -> bytes | None: ...
    def put(self, key: str, data: bytes) -> None: ...
    def clear(self) -> None: ...
    def close(self) -> None: ...


class _SqliteStore:
    blocks = False
    errors: tuple[type[Exception], ...] = (sqlite3.Error, OSError)

    def __init__(self, path: Path, expires: float | None, max_bytes: int | None) -> None:
        self._expires = expires
        self._max_bytes = max_bytes
        self._bytes = 0
        try:
            self._file = SqliteFile(path, _SCHEMA)
            self._delete_old()
        except self.errors as error:
            message = f"{str(path)!r} cannot be used as an SQLite file: {error}"
            raise DefinitionError([DefinitionProblem("ResponseCache", message)]) from error

    def get(self, key: str) -> bytes | None:
        since = 0.0 if self._expires is None else time.time() - self._expires
        query = "SELECT data FROM reply WHERE key = ? AND stored_at >= ?"
        with self._file.reading() as connection:
            row = connection.execute(query, (key, since)).fetchone()
        return None if row is None else bytes(row[0])

    def put(self, key: str, data: bytes) -> None:
        with self._file.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO reply VALUES (?, ?, ?)", (key, time.time(), data))
        self._bytes += len(data)
        if self._max_bytes is not None and self._bytes > self._max_bytes:
            self._delete_old()

    def _delete_old(self) -> None:
        """Delete expired replies, and also the oldest ones if the cache is too large."""
        with self._file.writing(erases=True) as connection:
            if self._expires is not None:
                before = time.time() - self._expires
                connection.execute("DELETE FROM reply WHERE stored_at < ?", (before,))
            sizes = connection.execute("SELECT key, length(data) FROM reply ORDER BY stored_at").fetchall()
            self._bytes = sum(size for _, size in sizes)
            if self._max_bytes is None or self._bytes <= self._max_bytes:
                return
            for key, size in sizes:
                if self._bytes <= self._max_bytes * _REMAINING_SHARE:
                    break
                connection.execute("DELETE FROM reply WHERE key = ?", (key,))
                self._bytes -= size

    def clear(self) -> None:
        with self._file.writing(erases=True) as connection:
            connection.execute("DELETE FROM reply")
        self._bytes = 0

    def close(self) -> None:
        self._file.close()


class _RedisStore:
    blocks = True

    def __init__(self, url: str, expires: float | None) -> None:
        package = import_extra("redis", "redis", "ResponseCache")
        self.errors: tuple[type[Exception], ...] = (package.exceptions.RedisError,)
        self._client = package.Redis.from_url(url)
        self._milliseconds = None if expires is None else max(1, round(expires * 1000))

    def get(self, key: str) -> bytes | None:
        data: bytes | None = self._client.get(_redis_key(key))
        return data

    def put(self, key: str, data: bytes) -> None:
        self._client.set(_redis_key(key), data, px=self._milliseconds)

    def clear(self) -> None:
        for key in self._client.scan_iter(match=_redis_key("*"), count=1000):
            self._client.delete(key)

    def close(self) -> None:
        self._client.close()


def _redis_key(key: str) -> str:
    return f"aiservices:reply:{key}"
