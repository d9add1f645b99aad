"""Damages replies of providers at random, and reads them with the models in all four kinds of calls.

The replies are those of ``tests/http_faults`` and, with ``--exchanges``, recorded ones: a file of JSON lines
with ``api``, ``status``, ``content_type`` and ``response``.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from http_faults.dialects import DIALECTS, Dialect, json_bytes

from aiservices import (
    AiServiceError,
    AsyncStream,
    Budget,
    ModelError,
    Stream,
    ToolLimits,
    create,
    user_message,
)
from aiservices.models.http.base import StatusError
from aiservices.models.http.model import HttpChatModel
from aiservices.models.messages import ChatReply, ReplyDelta, Usage
from aiservices.models.requests import ChatRequest

_APIS = {
    "openai-chat": "chat",
    "openai-responses": "Responses",
    "anthropic-messages": "Anthropic",
    "google-generate": "Gemini",
    "bedrock-converse": "Bedrock",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    2.5,
    10**30,
    -(10**400),
    "",
    "x",
    "\x1b[31m\r\nforged",
    "\ud800",
    "\x00",
    "3",
    "9" * 5000,
    [],
    {},
    [None],
    [[]],
    {"": None},
    {"text": {"text": 1}},
]
_DEEP = "five thousand lists in each other"
_REQUEST = ChatRequest.of("Hello")


@dataclass(frozen=True)
class Reply:
    """A response of a provider: its status, content type and bytes."""

    dialect: Dialect
    body: bytes
    status: int = 200
    content_type: str = "application/json"

    @property
    def headers(self) -> Mapping[str, str]:
        return {"content-type": self.content_type}

    @property
    def is_stream(self) -> bool:
        return "stream" in self.content_type


class _Response:
    def __init__(self, reply: Reply, pieces: Iterable[bytes]) -> None:
        self.status_code, self.headers, self.content = reply.status, reply.headers, reply.body
        self.text = reply.body.decode(errors="replace")
        self._pieces = pieces

    def iter_bytes(self) -> Iterator[bytes]:
        yield from self._pieces

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    def close(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


@dataclass
class _Client:
    """An HTTP client, and the source of it, that gives one response to all requests."""

    reply: Reply
    size: int
    headers: Mapping[str, object] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    failures: tuple[type[Exception], ...] = (StatusError,)
    account: str = ""
    destination: str = ""
    is_async: bool = False

    def sync_client(self) -> Any:
        self.is_async = False
        return self

    async def async_client(self) -> Any:
        self.is_async = True
        return self

    def post(self, *_: object, **__: object) -> Any:
        return self._apost() if self.is_async else self._post()

    async def _apost(self) -> _Response:
        return self._post()

    def _post(self) -> _Response:
        body, size = self.reply.body, self.size
        response = _Response(self.reply, [body[at : at + size] for at in range(0, len(body), size)])
        if self.reply.status >= 300:
            raise StatusError(response)
        return response

    def close(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


def _weather(city: str) -> str:
    """Return the weather of a city."""
    return f"sunny in {city}"


class _Error(NamedTuple):
    kind: type[AiServiceError]
    message: str


class _Blocking(Protocol):
    @user_message("Hello")
    def text(self) -> str: ...

    @user_message("Hello")
    def numbers(self) -> dict[str, int]: ...

    @user_message("Hello")
    def stream(self) -> Stream[dict[str, int]]: ...


class _Async(Protocol):
    @user_message("Hello")
    async def text(self) -> str: ...

    @user_message("Hello")
    async def numbers(self) -> dict[str, int]: ...

    @user_message("Hello")
    def stream(self) -> AsyncStream[dict[str, int]]: ...


# --- Damage ---


def damaged(reply: Reply, rng: random.Random) -> Reply:
    """Return a reply with up to four faults."""
    for _ in range(rng.randint(1, 4)):
        reply = rng.choice(_DAMAGES)(reply, rng)
    if rng.random() < 0.02:
        reply = replace(
            reply, status=rng.choice((400, 401, 402, 404, 408, 409, 413, 422, 429, 500, 503, 529))
        )
    return reply


def _json(reply: Reply, rng: random.Random) -> Reply:
    """Change the JSON of a reply, or of some events of a stream."""
    if not reply.is_stream:
        return replace(reply, body=_change_text(reply.body, rng))
    if reply.dialect.name == "Bedrock":
        events = [_damage(json.loads(json.dumps(one)), rng) for one in reply.dialect.events]
        return replace(reply, body=_encoded(reply.dialect, events) or reply.body)
    lines = reply.body.split(b"\n")
    data = [index for index, line in enumerate(lines) if line.startswith(b"data:")]
    for index in rng.sample(data, min(len(data), rng.randint(1, 3))):
        lines[index] = b"data: " + _change_text(lines[index][5:].strip(), rng)
    if rng.random() < 0.3 and data:  # an event twice, or none at all
        index = rng.choice(data)
        lines[index : index + 1] = rng.choice(([], [lines[index], b"", lines[index]]))
    return replace(reply, body=b"\n".join(lines))


def _encoded(dialect: Dialect, events: Iterable[Any]) -> bytes | None:
    try:
        return dialect.stream(list(events))
    except (AttributeError, TypeError, ValueError):
        return None


def _change_text(text: bytes, rng: random.Random) -> bytes:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # it is damaged already
        return text
    return json.dumps(_damage(value, rng)).replace(f'"{_DEEP}"', "[" * 5000 + "]" * 5000).encode()


def _damage(value: Any, rng: random.Random) -> Any:
    """Return JSON with one place changed."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        match rng.randrange(12):
            case 0:
                del value[key]
            case 1:
                moved = value.pop(key)
                value[rng.choice([*value, ""])] = moved
            case 2:
                value[key] = [value[key], value[key]]
            case _:
                value[key] = _damage(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.85:
        index = rng.randrange(len(value))
        match rng.randrange(8):
            case 0:
                del value[index]
            case 1:
                value.insert(index, value[index])
            case _:
                value[index] = _damage(value[index], rng)
        return value
    match rng.randrange(6):
        case 0:
            return [value]
        case 1:
            return {"value": value}
        case 2 if isinstance(value, str):
            return value[: rng.randrange(len(value) + 1)]
        case 3 if isinstance(value, str):
            return value + rng.choice(("\x00", "\r\n", "\x1b[2J", "\ud83d", "\u2028", "\ufeff"))
        case 4:
            return rng.choice(([[[value]]], _DEEP))
        case _:
            return rng.choice(_ODD)


def _truncate(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, body=reply.body[: rng.randrange(len(reply.body) + 1)])


def _bytes(reply: Reply, rng: random.Random) -> Reply:
    body, at = bytearray(reply.body), rng.randrange(len(reply.body) + 1)
    odd = (b"\xff", b"\x00", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b'"', b"}", b"\n\n", b"data: {}\n\n")
    body[at : at + rng.choice((0, 1, 5))] = rng.choice(odd)
    return replace(reply, body=bytes(body))


def _encoding(reply: Reply, rng: random.Random) -> Reply:
    text = reply.body.decode(errors="replace")
    return replace(
        reply, body=text.encode(rng.choice(("utf-16", "utf-32", "latin-1", "utf-8-sig")), "replace")
    )


def _double(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, body=reply.body + rng.choice((b"", b"\n", b" ")) + reply.body)


def _kind(reply: Reply, rng: random.Random) -> Reply:
    kinds = ("text/html", "", "application/json", "text/event-stream")
    return replace(reply, content_type=rng.choice(kinds))


_DAMAGES: list[Callable[[Reply, random.Random], Reply]] = [
    *[_json] * 12,
    _truncate,
    _bytes,
    _bytes,
    _encoding,
    _double,
    _kind,
]


# --- Replies to damage ---


def own_replies() -> list[Reply]:
    """Return whole and streamed replies of all dialects."""
    replies = []
    for dialect in DIALECTS:
        replies.append(Reply(dialect, dialect.body))
        replies.append(Reply(dialect, dialect.stream(), content_type=dialect.stream_type))
        replies.append(Reply(dialect, json_bytes(dialect.error("no")), status=400))
    return replies


@cache
def recorded_replies(path: Path) -> tuple[Reply, ...]:
    """Return the replies in a file of recorded exchanges."""
    dialects = {dialect.name: dialect for dialect in DIALECTS}
    replies = []
    for line in path.read_text("utf-8").splitlines():
        exchange = json.loads(line)
        name, response = _APIS.get(exchange["api"]), exchange["response"]
        if name is not None and response:
            body = response.encode(errors="replace") if isinstance(response, str) else json_bytes(response)
            kind = exchange["content_type"] or "application/json"
            replies.append(Reply(dialects[name], body, exchange["status"], kind))
    return tuple(replies)


# --- Reading them ---


def check(reply: Reply, rng: random.Random) -> None:
    """Read a reply in all kinds of calls, which must agree, and give only documented errors."""
    model = reply.dialect.model("http://localhost:1", "sk-test")
    model._clients = _Client(reply, rng.choice((1, 7, 100_000)) if len(reply.body) < 2000 else 4096)
    if reply.is_stream:
        whole = _outcome(lambda: _last(model.stream(_REQUEST)))
        other = _aoutcome(lambda: _alast(model.astream(_REQUEST)))
        assert whole == asyncio.run(other), "streams differ"
    else:
        whole = _outcome(lambda: model.complete(_REQUEST))
        other = _aoutcome(lambda: model.acomplete(_REQUEST))
        assert whole == asyncio.run(other), "calls differ"
    _check_service(model)


def _check_service(model: HttpChatModel) -> None:
    budget = Budget(max_attempts=2, first_wait=0.0)
    limits = ToolLimits(max_rounds=1)
    blocking = create(_Blocking, model, budget=budget, tools=[_weather], tool_limits=limits)
    service = create(_Async, model, budget=budget, tools=[_weather], tool_limits=limits)
    calls: list[tuple[Callable[[], Any], Callable[[], Awaitable[Any]]]] = [
        (blocking.text, service.text),
        (blocking.numbers, service.numbers),
        (lambda: blocking.stream().result().value, lambda: _result(service)),
    ]
    for call, other in calls:
        outcome, async_outcome = _outcome(call), asyncio.run(_aoutcome(other))
        if isinstance(outcome, _Error) and isinstance(async_outcome, _Error):
            # A refusal that the first call has learned may change the text of the second.
            outcome, async_outcome = _Error(outcome.kind, ""), _Error(async_outcome.kind, "")
        assert outcome == async_outcome, "services differ"


async def _result(service: _Async) -> Any:
    return (await service.stream().result()).value


def _last(deltas: Iterator[ReplyDelta]) -> ChatReply | None:
    reply = None
    for delta in deltas:
        reply = delta.reply
    return reply


async def _alast(deltas: AsyncIterator[ReplyDelta]) -> ChatReply | None:
    reply = None
    async for delta in deltas:
        reply = delta.reply
    return reply


def _outcome(call: Callable[[], Any]) -> object:
    try:
        return _value(call())
    except AiServiceError as error:
        return _error(error)


async def _aoutcome(call: Callable[[], Awaitable[Any]]) -> object:
    try:
        return _value(await call())
    except AiServiceError as error:
        return _error(error)


def _value(value: Any) -> object:
    if isinstance(value, ChatReply):
        _check_usage(value.usage)
        for call in value.message.tool_calls:
            assert isinstance(call.id, str)
            assert isinstance(call.name, str)
            assert isinstance(call.arguments, str)
        assert isinstance(value.text, str)
        return value.text, value.usage, value.finish_reason, [one.name for one in value.message.tool_calls]
    return value


def _check_usage(usage: Usage | None) -> None:
    for count in () if usage is None else astuple(usage):
        assert type(count) is int
        assert 0 <= count < 2**53


def _error(error: AiServiceError) -> object:
    assert not (isinstance(error, ModelError) and _CONTROL.search(str(error))), repr(str(error))
    for attempt in error.attempts:
        if attempt.reply is not None:
            _check_usage(attempt.reply.usage)
    return _Error(type(error), str(error))
