"""Asks models of OpenAI, Azure, Ollama and every server that speaks their chat completions."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..base import Capabilities
from ..errors import ModelError
from ..messages import ChatReply, ReplyDelta
from ..requests import ChatOptions, ChatRequest
from .api_spec import BodyWriter, Dialect, PreparedBody
from .chat import ChatReading, chat_body, chat_messages, chat_path, read_reply
from .client import Channel, Channels, Place, Provider, place_at, place_of
from .errors import Blame
from .responses import ResponseReading, read_response, responses_body, responses_items, responses_path
from .sse import BrokenStreamError, EventReading, ReportedError, UnreadableReplyError

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

_LOGGER = logging.getLogger("aiservices.openai")
_SECRET_ENDINGS = ("authorization", "key", "token", "secret", "cookie")


def is_secret(header: str) -> bool:
    """Whether a header holds something that nobody else may see."""
    return header.lower().endswith(_SECRET_ENDINGS)


class WireLog:
    """Writes to the logger "aiservices.openai" at one level; ``on`` tells whether anybody listens."""

    def __init__(self, level: int) -> None:
        self._level = level

    @property
    def on(self) -> bool:
        return _LOGGER.isEnabledFor(self._level)

    def request(self, where: str, headers: Mapping[str, object], body: bytes) -> None:
        _LOGGER.log(self._level, "%s: request %s %s", where, _shown(headers), _text(body))

    def reply(self, where: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
        _LOGGER.log(self._level, "%s: reply %d %s %s", where, status, _shown(headers), _text(body))

    def piece(self, where: str, chunk: bytes) -> None:
        _LOGGER.log(self._level, "%s: piece of a stream %s", where, _text(chunk))


def _text(body: bytes) -> str:
    return body.decode(errors="replace")


def _shown(headers: Mapping[str, object]) -> dict[str, str]:
    # the SDK marks headers that it leaves out with values that are no texts
    texts = {name: value for name, value in headers.items() if isinstance(value, str)}
    return {name: "[redacted]" if is_secret(name) else value for name, value in texts.items()}


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


_NO_OPTIONS = ChatOptions()


class OpenAiModel:
    """What every chat model by an API of OpenAI's does; a subclass names its dialect, and its promises.

    Creating one opens nothing: connections are made at the first request. The SDK makes them for Azure and
    for a client that is given, which stays as it is and stays the caller's. Raises ValueError when
    ``base_url`` is no URL, or ``options`` hold what the dialect lacks.
    """

    _dialect: ClassVar[Dialect]

    def __init__(
        self,
        model: str,
        *,
        provider: Provider = "openai",
        base_url: str | None = None,
        api_key: str | None = None,
        client: OpenAI | None = None,
        async_client: AsyncOpenAI | None = None,
        options: ChatOptions = _NO_OPTIONS,
        capabilities: Capabilities | None = None,
        log_level: int = logging.DEBUG,
    ) -> None:
        given = client or async_client
        self._place = place_at(provider, base_url) if given is None else place_of(given)
        if self._place.provider == "ollama":
            api_key = api_key or "ollama"  # the SDK wants one, Ollama does not look at it
        self._capabilities = capabilities or self._place.capabilities
        bodies = BodyWriter(self._dialect, model, options, self._place)
        self._caller = Caller(self._dialect, self._place, bodies, WireLog(log_level))
        self._channels = Channels(self.name, self._place, api_key, client, async_client)

    @classmethod
    def named(cls, name: str) -> Self:
        """A model of OpenAI; OPENAI_BASE_URL may name another server."""
        return cls(cls._some(name, "openai"))

    @classmethod
    def azure(cls, name: str) -> Self:
        """A deployment of Azure's; address, version and key come from the environment."""
        return cls(cls._some(name, "azure"), provider="azure")

    @classmethod
    def ollama(cls, name: str) -> Self:
        """A model of Ollama's; OLLAMA_HOST may name another host."""
        return cls(cls._some(name, "ollama"), provider="ollama")

    @classmethod
    def _some(cls, name: str, provider: str) -> str:
        if not name:
            asked = provider + cls._dialect.suffix
            raise LookupError(
                f'"{asked}:" names no model: write the name after the colon, as in "{asked}:NAME"'
            )
        return name

    @property
    def name(self) -> str:
        return self._caller.named(self._caller.bodies.model)

    @property
    def endpoint(self) -> str:
        """Where requests go, without credentials: what the place refuses is remembered under it."""
        return self._place.shown

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r} at {self._place.shown})"

    def complete(self, request: ChatRequest) -> ChatReply:
        call = self._caller.call(self._channels.blocking(), request, stream=False)
        deadline = request.deadline
        try:
            response = call.send(unread=deadline is not None)
            raw = response.content if deadline is None else call.read_by(deadline, response)
        except call.failures as error:
            raise call.failure(error) from error
        return call.read(response, raw)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        call = self._caller.call(await self._channels.of_this_loop(), request, stream=False)
        try:
            response = await call.send()
        except call.failures as error:
            raise call.failure(error) from error
        return call.read(response, response.content)

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        call = self._caller.call(self._channels.blocking(), request, stream=True)
        try:
            response = call.send()
        except call.failures as error:
            raise call.failure(error) from error
        try:
            reading = call.reading(response)
            try:
                for chunk in response.iter_bytes():
                    for delta in call.feed(reading, chunk):
                        yield delta
                    if reading.done:
                        break
            except call.failures as error:
                call.lost(reading, error)
            for delta in call.end(reading):
                yield delta
        finally:
            response.close()

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        call = self._caller.call(await self._channels.of_this_loop(), request, stream=True)
        try:
            response = await call.send()
        except call.failures as error:
            raise call.failure(error) from error
        try:
            reading = call.reading(response)
            try:
                async for chunk in response.aiter_bytes():
                    for delta in call.feed(reading, chunk):
                        yield delta
                    if reading.done:
                        break
            except call.failures as error:
                call.lost(reading, error)
            for delta in call.end(reading):
                yield delta
        finally:
            await response.aclose()

    def close(self) -> None:
        """Lets go of the connections that this model opened; a later request opens new ones."""
        self._channels.close()

    async def aclose(self) -> None:
        """As close, and also those of the running event loop; another loop's go when that loop ends."""
        await self._channels.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class OpenAiChatModel(OpenAiModel):
    """A chat model of OpenAI's, Azure's, Ollama's or a compatible server, by the API of chat completions.

    ``"openai:NAME"``, ``"azure:DEPLOYMENT"`` and ``"ollama:NAME"`` stand for one.
    Creating one opens nothing and needs no key: the SDK is imported and the client made at the first
    request. Every call makes one HTTP request; the SDK's own retries are off. ``timeout`` bounds each
    wait for the server, as the SDK has it. ``max_tokens`` is sent as ``max_completion_tokens`` to
    api.openai.com and Azure, and as ``max_tokens`` to other servers; ``extra_body`` overrides both.

    ``client`` and ``async_client`` are used as they are, but for their retries, and are not closed.
    ``capabilities`` are by default those of OpenAI for api.openai.com and Azure; of other servers it
    is assumed that they take a JSON schema, but not that they know its strict form. Requests and
    replies go to the logger "aiservices.openai" at ``log_level``, without keys.
    """

    _dialect = Dialect(
        api="the chat completions API",
        form="chat completion",
        suffix="",
        path=chat_path,
        body=chat_body,
        streaming={"stream": True, "stream_options": {"include_usage": True}},
        said_as="messages",
        said=chat_messages,
        read=read_reply,
        reading=ChatReading,
    )


class OpenAiResponsesModel(OpenAiModel):
    """A chat model of OpenAI's or Azure's, by the Responses API (POST /responses).

    ``"openai-responses:NAME"`` and ``"azure-responses:DEPLOYMENT"`` stand for one. All that is said of
    creating, clients, capabilities, timeouts and logs in ``OpenAiChatModel`` holds here too.

    The provider is asked to keep nothing: ``store`` is false unless ``extra_body`` says otherwise, and
    every request brings the whole conversation, the system message as the first item of ``input``.
    ``include`` is not sent, since models that do not reason refuse it; reasoning is not sent back, so a
    model thinks anew after each tool call. ``AiMessage.reasoning`` holds the summaries of it, which OpenAI
    writes when ``extra_body={"reasoning": {"summary": "auto"}}`` asks for them, and what a model says on
    its way to the answer (the phase "commentary"). The members of ``reasoning`` and ``text`` in
    ``extra_body`` are put beside those of ``reasoning_effort`` and the response format.

    The API has neither ``stop`` nor ``seed``, and no names of users. A request with one of them is a
    BadRequestError and is not sent; in ``options`` they are a ValueError.
    """

    _dialect = Dialect(
        api="the Responses API",
        form="response of the Responses API",
        suffix="-responses",
        path=responses_path,
        body=responses_body,
        streaming={"stream": True},
        said_as="input",
        said=responses_items,
        read=read_response,
        reading=ResponseReading,
        lacks=("stop", "seed"),
        merged=("reasoning", "text"),
    )
