"""Says in what one API of OpenAI differs from the next: the path, the body, and the reading of what comes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from pydantic_core import to_json

from ..messages import ChatReply, Message
from ..requests import ChatOptions, ChatRequest
from .client import Place
from .sse import EventReading


class UnsayableError(ValueError):
    """The request asks for what the API has no words for; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """An API, as the machinery of a model uses it.

    ``api`` and ``form`` name it and its answer in messages, ``suffix`` is what its models' names have
    after the provider's. ``path`` gives the path below the base URL for a model. ``body`` writes all of
    a request but its messages, a None for what is not asked for; it is given the effective options, with
    the model. ``streaming`` is what a streamed request says too. ``said`` writes the messages, and
    ``said_as`` is where they go. ``read`` and ``reading`` read a whole answer and a streamed one.
    ``lacks`` are the options that the API does not have; ``merged`` are the members of the body whose
    own members ``extra_body`` replaces one by one instead of all together.
    """

    api: str
    form: str
    suffix: str
    path: Callable[[Place, str], str]
    body: Callable[[ChatRequest, Place], dict[str, Any]]
    streaming: Mapping[str, Any]
    said_as: str
    said: Callable[[Sequence[Message]], list[dict[str, Any]]]
    read: Callable[[bytes], ChatReply]
    reading: type[EventReading]
    lacks: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()

    def check(self, options: ChatOptions) -> None:
        """Raises UnsayableError when an option is set that the API does not have."""
        for name in self.lacks:
            if getattr(options, name) not in (None, ()):
                raise UnsayableError(
                    f"{self.api} has no {name}; leave it out of ChatOptions, or use OpenAiChatModel"
                )


_PREPARED_AT_MOST = 256
_NO_NAME_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class PreparedBody:
    """The part of a request's body that stays the same from call to call.

    ``options`` are the effective ones, ``model`` the one asked, ``constant`` the JSON object of all
    but the messages, ``whole`` whether it brings messages of its own.
    """

    dialect: Dialect
    options: ChatOptions
    model: str
    constant: bytes
    whole: bool
    kept: tuple[object, object, object]

    def with_messages(self, messages: Sequence[Message]) -> bytes:
        """The whole body. Raises ValueError when a text has no JSON form, or a message no words."""
        if self.whole:
            return self.constant
        said = to_json(self.dialect.said(messages))
        return b'%s,"%s":%s}' % (self.constant[:-1], self.dialect.said_as.encode(), said)


class BodyWriter:
    """Prepares the constant part once for each set of options, response format and tools, known by identity.

    An entry keeps the objects alive, so that their ids cannot come to stand for others.
    """

    def __init__(self, dialect: Dialect, model: str, options: ChatOptions, place: Place) -> None:
        dialect.check(options)
        self.model = model
        self._dialect = dialect
        self._options = options
        self._place = place
        self._prepared: dict[tuple[int, int, int, bool], PreparedBody] = {}
        self._lock = Lock()

    def prepare(self, request: ChatRequest, *, stream: bool) -> PreparedBody:
        """Raises ValueError when an option or a schema has no JSON form, or the API lacks an option."""
        key = (id(request.options), id(request.response_format), id(request.tooling), stream)
        found = self._prepared.get(key)
        if found is None:
            found = self._write(request, stream)
            with self._lock:
                if len(self._prepared) >= _PREPARED_AT_MOST:
                    del self._prepared[next(iter(self._prepared))]
                self._prepared[key] = found
        return found

    def _write(self, request: ChatRequest, stream: bool) -> PreparedBody:
        options = request.options.with_defaults(self._options)
        self._dialect.check(options)
        model = options.model or self.model
        asked = replace(request, options=replace(options, model=model))
        body = {**self._dialect.body(asked, self._place), **(self._dialect.streaming if stream else {})}
        body = {name: value for name, value in body.items() if value is not None}
        for name, value in (options.extra_body or {}).items():
            ours = body.get(name) if name in self._dialect.merged else None
            if isinstance(ours, Mapping) and isinstance(value, Mapping):
                value = {**ours, **value}
            body[name] = value
        constant = to_json(body, fallback=_plain)
        kept = (request.options, request.response_format, request.tooling)
        return PreparedBody(self._dialect, options, model, constant, self._dialect.said_as in body, kept)


def _plain(value: Any) -> Any:
    # a read-only mapping, for one, is none of the types that have a JSON form by themselves
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"{type(value).__name__} has no JSON form")


def wire_name(name: str) -> str:
    """A name of a schema or a tool with no other characters than OpenAI takes, 64 of them at most."""
    return _NO_NAME_CHARACTER.sub("_", name)[:64] or "answer"
