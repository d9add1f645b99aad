"""One request to a server of OpenAI's APIs: what is the same whether it blocks, waits or streams."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ModelError
from ..messages import ChatReply, ReplyDelta
from ..requests import ChatRequest
from .openai_body import BodyWriter, PreparedBody
from .openai_channels import Channel
from .openai_dialect import Dialect
from .openai_errors import Blame
from .openai_events import BrokenStreamError, EventReading
from .openai_log import WireLog, is_secret
from .openai_payload import ReportedError, UnreadableReplyError
from .openai_place import Place

__all__ = ["Call", "Caller"]


@dataclass(frozen=True, slots=True)
class Caller:
    """What the calls of one model have in common."""

    dialect: Dialect
    place: Place
    bodies: BodyWriter
    log: WireLog

    def named(self, model: str) -> str:
        """A model as whoever asks for it by a string writes it."""
        return f"{self.place.provider}{self.dialect.suffix}:{model}"

    def where(self, model: str) -> str:
        """A model and its address, as messages and logs name them."""
        return f"{self.named(model)} at {self.place.shown}"

    def call(self, channel: Channel, request: ChatRequest, *, stream: bool) -> Call:
        """The call of a request over a channel; BadRequestError if it cannot be written."""
        try:
            prepared = self.bodies.prepare(request, stream=stream)
            body = prepared.with_messages(request.messages)
        except ValueError as error:
            raise Blame(self.where(self.bodies.model)).unwritable(error) from error
        call = Call(self, channel, prepared, body, stream)
        if self.log.on:
            self.log.request(call.where, {**channel.headers, **call.extra_headers}, body)
        return call


@dataclass(frozen=True, slots=True)
class Call:
    """A request that is ready to be sent, and the reading of what comes back."""

    caller: Caller
    channel: Channel
    prepared: PreparedBody
    body: bytes
    stream: bool

    @property
    def where(self) -> str:
        return self.caller.where(self.prepared.model)

    @property
    def extra_headers(self) -> Mapping[str, str]:
        return self.prepared.options.extra_headers or {}

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        return self.channel.failures

    def send(self, *, unread: bool = False) -> Any:
        """The response as it came; on an asynchronous channel, an awaitable of it.

        Of a stream, or where it is to be left ``unread``, only the beginning has been read.
        """
        prepared = self.prepared
        path = self.caller.dialect.path(self.caller.place, prepared.model)
        return self.channel.post(
            path, self.body, self.extra_headers, prepared.options.timeout, unread=self.stream or unread
        )

    def read_by(self, deadline: float, response: Any) -> bytes:
        """All of a response that was left unread. Raises ModelTimeoutError where it takes too long.

        The timeouts of HTTP libraries are those of single waits, which a server that sends a little at a time
        never exceeds.
        """
        pieces = []
        try:
            for piece in response.iter_bytes():
                pieces.append(piece)
                if time.monotonic() > deadline:
                    raise self._blame().too_late()
        finally:
            response.close()
        return b"".join(pieces)

    def read(self, response: Any, raw: bytes) -> ChatReply:
        """The reply in a response that is whole; ``raw`` is all of it."""
        if self.caller.log.on:
            self.caller.log.reply(self.where, response.status_code, response.headers, raw)
        try:
            return self.caller.dialect.read(raw)
        except (UnreadableReplyError, ReportedError) as error:
            raise self._blame().unreadable(error, raw) from error

    def reading(self, response: Any) -> EventReading:
        """The reading of a response that has just begun."""
        if self.caller.log.on:
            self.caller.log.reply(self.where, response.status_code, response.headers, b"")
        return self.caller.dialect.reading(whole="json" in response.headers.get("content-type", ""))

    def feed(self, reading: EventReading, chunk: bytes) -> list[ReplyDelta]:
        if self.caller.log.on:
            self.caller.log.piece(self.where, chunk)
        try:
            return reading.feed(chunk)
        except (UnreadableReplyError, ReportedError) as error:
            raise self._blame().unreadable(error, chunk) from error

    def end(self, reading: EventReading) -> list[ReplyDelta]:
        try:
            return reading.end()
        except BrokenStreamError:
            raise self._blame().broken_stream(reading.text) from None
        except (UnreadableReplyError, ReportedError) as error:
            raise self._blame().unreadable(error, reading.seen) from error

    def lost(self, reading: EventReading, error: Exception) -> None:
        """Raises what a lost connection means, unless the answer had come whole before."""
        if not reading.finished:
            failure = self.failure(error)
            failure.body = reading.text
            raise failure from error

    def failure(self, error: Exception) -> ModelError:
        if self.caller.log.on and (response := getattr(error, "response", None)) is not None:
            self.caller.log.reply(self.where, response.status_code, response.headers, response.content)
        return self._blame().failure(error)

    def _blame(self) -> Blame:
        keys = [value for name, value in self.extra_headers.items() if is_secret(name)]
        key = self.channel.key
        return Blame(
            self.where,
            tuple(secret for secret in (key, *keys) if isinstance(secret, str)),
            self.caller.place.key_advice,
            self.prepared.options.timeout,
            self.caller.dialect.form,
        )
