"""Send requests to the HTTP APIs of model providers, and parse the replies and streams."""

from __future__ import annotations

import codecs
import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, NamedTuple, Never, Protocol, TypeAlias, TypeVar

from ..base import Capabilities, ClosedByWith, PickledByArguments, header_listener
from ..errors import BadRequestError, DefinitionError, DefinitionProblem, ModelConnectionError, ModelError
from ..messages import ChatReply, ReplyDelta, Usage
from ..request_checks import REQUEST_CHECKS
from ..requests import ChatOptions, ChatRequest, ImageFormat, check_model_options
from .api import ApiDialect, CallSettings, RefusedOptions, RequestWriter, refused_options_at
from .base import (
    MAX_REPLY_BYTES,
    AsyncResponse,
    Credentials,
    CurlError,
    HttpRequest,
    HttpResponse,
    PerLoop,
    ReplyTooLargeError,
    StatusError,
    SyncResponse,
    TransportError,
    display_url,
    is_secret_header,
)
from .replies import (
    REPLY_ERRORS,
    BrokenStreamError,
    ErrorMapper,
    EventStreamReader,
    StreamReader,
    UnsupportedRequestError,
    WholeReplyReader,
)

if TYPE_CHECKING:
    from .async_client import AsyncHttpClient
    from .sync_client import SyncHttpClient

_MAX_PREPARED = 256  # without a limit, options that are created for each call would fill the memory
_NO_OPTIONS = ChatOptions()
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class HttpClient(Protocol[R_co]):
    """The interface of an HTTP client that sends POST requests to one server.

    The ``post`` method of an asynchronous client returns an awaitable of the response.

    Attributes:
        headers: Sent with every request; read for logs.
        secrets: Texts that error messages must not contain, such as API keys.
        failures: The types of the exceptions that ``post`` and the reading of a response raise.
    """

    @property
    def headers(self) -> Mapping[str, object]: ...
    @property
    def secrets(self) -> tuple[str, ...]: ...
    @property
    def failures(self) -> tuple[type[Exception], ...]: ...
    def post(
        self, request: HttpRequest, timeout: float | None, *, unread: bool, deadline: float | None = None
    ) -> R_co:
        """Send an HTTP POST request and return the response.

        Raises one of the exceptions in ``failures``.

        Args:
            request: The request.
            timeout: The seconds for connecting, and for the whole response; for a stream, for each wait.
            unread: Return before the body is read, as a stream needs.
            deadline: When the whole response must have arrived, in the time of ``time.monotonic()``.
        """
        ...


class ClientSource(Protocol):
    """The interface of objects that create a chat model's HTTP clients when needed, and close them."""

    @property
    def account(self) -> str:
        """A hash of the API key, to tell accounts of a provider apart; "" if the key is unknown."""
        ...

    @property
    def destination(self) -> str:
        """The data that selects the account and the deployment: the URL and the headers of all requests.

        It contains keys.
        """
        ...

    def sync_client(self) -> HttpClient[SyncResponse]:
        """Return the HTTP client for blocking calls."""
        ...

    async def async_client(self) -> HttpClient[Awaitable[AsyncResponse]]:
        """Return the HTTP client for the running event loop."""
        ...

    def close(self) -> None: ...
    async def aclose(self) -> None: ...


class HttpClients:
    """The HTTP clients of one chat model: one for all blocking calls, and one for each event loop.

    They use libcurl and not the SDK of a provider.

    Args:
        model_name: The name of the model in error messages.
        base_url: The URL below which all requests go.
        credentials: Returns the credentials when a client is created. It raises AuthenticationError without
            credentials, so a model can be created without a key.

    Attributes:
        model_name: The name of the model.
        address: The base URL without credentials and query.
    """

    def __init__(self, model_name: str, base_url: str, credentials: Callable[[], Credentials]) -> None:
        self.model_name = model_name
        self.address = display_url(base_url)
        self._base_url = base_url
        self._credentials = credentials
        self._sync_client: SyncHttpClient | None = None
        self._async_clients: PerLoop[AsyncHttpClient] = PerLoop(
            self._make_async, lambda client: client.close(), lambda client: client.abandon()
        )
        self._lock = Lock()

    @property
    def account(self) -> str:
        """A hash of the API key, or "" if the key is missing or supplied by a function."""
        try:
            secrets = self._credentials().secrets
        except ModelError:  # the first request reports it
            return ""
        return hashlib.blake2b("\0".join(secrets).encode(), digest_size=8).hexdigest() if secrets else ""

    @property
    def destination(self) -> str:
        """The whole URL and the headers of all requests, without those that a function returns."""
        try:
            headers = self._credentials().headers
        except ModelError:  # the first request reports it
            headers = {}
        return repr((self._base_url, sorted(headers.items())))

    def sync_client(self) -> HttpClient[SyncResponse]:
        """Return the HTTP client for blocking calls.

        Raises ModelConnectionError if it cannot be created.
        """
        for check in REQUEST_CHECKS:
            check(self.model_name, self.address)
        client = self._sync_client
        if client is None:
            # without the lock, because a process that is forked here would wait for it forever
            new_client = self._make_sync()
            with self._lock:
                client = self._sync_client = self._sync_client or new_client
        return client

    async def async_client(self) -> HttpClient[Awaitable[AsyncResponse]]:
        """Return the HTTP client for the running event loop, or raise ModelConnectionError."""
        for check in REQUEST_CHECKS:
            check(self.model_name, self.address)
        return await self._async_clients.get()

    def close(self) -> None:
        """Close the HTTP client for blocking calls; a later request creates a new one."""
        with self._lock:
            client, self._sync_client = self._sync_client, None
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the HTTP clients for blocking calls and for the running event loop."""
        self.close()
        await self._async_clients.aclose()

    def _make_sync(self) -> SyncHttpClient:
        from .sync_client import SyncHttpClient  # late, because libcurl is not needed to declare a service

        try:
            return SyncHttpClient(self._base_url, self._credentials())
        except TransportError as error:
            raise ModelConnectionError(f"{self.model_name}: {error}") from error

    def _make_async(self) -> AsyncHttpClient:
        from .async_client import AsyncHttpClient  # late, because libcurl is not needed to declare a service

        try:
            return AsyncHttpClient(self._base_url, self._credentials())
        except TransportError as error:
            raise ModelConnectionError(f"{self.model_name}: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class _PreparedCall:
    """The parts of chat requests that are cached: everything except the messages.

    Attributes:
        settings: All parts of the requests except the messages.
        write: Writes the request for the messages of a call.
        call_options: The options of the call, without those of the model. The cache key contains their id, so
            this reference keeps them alive. The settings keep the response format and the tools alive.
    """

    settings: CallSettings
    write: RequestWriter
    call_options: ChatOptions


_Key: TypeAlias = tuple[int, int, int, int, bool]


class _PreparedCalls:
    """The prepared calls of a model, by the identities of what they were prepared for.

    Attributes:
        cached: The calls, the oldest first.
        refused: The options that the server refused, by models.
    """

    def __init__(
        self, model: str, options: ChatOptions, dialect: ApiDialect, refused: RefusedOptions
    ) -> None:
        self.cached: dict[_Key, _PreparedCall] = {}
        self.refused = refused
        self._model = model
        self._options = options
        self._dialect = dialect
        self._lock = Lock()

    def prepare(self, key: _Key, request: ChatRequest, capabilities: Capabilities) -> _PreparedCall:
        """Prepare a call, and remember it for further requests with the same objects."""
        options = request.options.with_defaults(self._options)
        check_model_options(options)
        model = options.model or self._model
        settings = CallSettings(
            model,
            replace(options, model=model),
            request.response_format,
            request.tooling,
            key[-1],
            request.logprobs,
            refused={**self.refused.get(model, {}), **(request.refused_options or {})},
        )
        if isinstance(settings.response_format, ImageFormat) and not capabilities.image_output:
            raise UnsupportedRequestError(
                "the model does not answer with images; if it does, pass Capabilities(image_output=True)"
            )
        self._dialect.check_options(settings.options)
        prepared = _PreparedCall(settings, self._dialect.request_writer(settings), request.options)
        if request.refused_options:  # only this call knows them so far
            return prepared
        with self._lock:  # two threads may prepare the same call, but must not remove the same entry
            if len(self.cached) >= _MAX_PREPARED:
                del self.cached[next(iter(self.cached))]  # the oldest: a dict keeps the order
            self.cached[key] = prepared
        return prepared


class HttpChatModel(PickledByArguments, ClosedByWith):
    """A chat model that is called through a provider's HTTP API.

    A provider's model class gives it the dialect of the API and a source of HTTP clients. Every call makes
    one HTTP request: retries belong to the budget of the call, which only the caller knows. Creating a model
    opens no connection. Raises DefinitionError if the API does not support one of the options.

    Args:
        model: The name of the model, as the provider knows it.
        provider: The part before the colon in the names of such models, as in ``"openai:gpt-5"``.
        dialect: Writes requests and reads replies.
        clients: Creates the HTTP clients.
        address: The URL of the server, without credentials.
        key_advice: How to set a key, for error messages, as in ``"set OPENAI_API_KEY or pass api_key"``.
        capabilities: The features that the model supports.
        options: Options for all requests; those of a request win.
        logger: Requests and replies go to this logger, without keys.
        log_level: The level of these log messages.
        address_setting: The parameter or environment variable with the server's address, for messages.
        start_advice: How to start the server, for messages, if it runs on the user's machine.

    Attributes:
        name: The name of the model with its provider.
        capabilities: The features that the model supports.
        has_own_clients: True if the model creates its HTTP clients itself instead of using an SDK.
        idempotency_header: The header for a key by which the server recognizes a request that is sent again;
            "" for none. The key is a hash of the request and of the call, so only a repetition has the same.
    """

    idempotency_header = ""

    def __init__(
        self,
        model: str,
        *,
        provider: str,
        dialect: ApiDialect,
        clients: ClientSource,
        address: str,
        key_advice: str,
        capabilities: Capabilities,
        options: ChatOptions = _NO_OPTIONS,
        logger: logging.Logger,
        log_level: int = logging.DEBUG,
        address_setting: str = "base_url",
        start_advice: str = "",
    ) -> None:
        options = options or _NO_OPTIONS
        self.name = f"{provider}:{model}"
        self.capabilities = capabilities
        self._model = model
        self._provider = provider
        self._dialect = dialect
        self._clients = clients
        self.has_own_clients = isinstance(clients, HttpClients)
        self._address = address
        self._key_advice = key_advice
        self._address_setting = address_setting
        self._start_advice = start_advice
        self._options = options
        self._logger = logger
        self._log_level = log_level
        refused = refused_options_at(f"{type(dialect).__qualname__} at {address}")
        self._prepared = _PreparedCalls(model, options, dialect, refused)
        try:
            dialect.check_options(options)
        except UnsupportedRequestError as error:
            raise DefinitionError([DefinitionProblem(self.name, str(error))]) from None

    @property
    def endpoint(self) -> str:
        """The URL of the model's server, without credentials.

        The engine remembers for each URL which features the server rejected.
        """
        return self._address

    @property
    def default_options(self) -> ChatOptions:
        """The options of the model for all requests; the options of a request take precedence."""
        return self._options

    @property
    def account(self) -> str:
        """A hash of the API key; models with the same hash and server share rate limits.

        It is "" if the key is unknown.
        """
        return self._clients.account

    @property
    def destination(self) -> str:
        """The data that selects the account and the deployment at the server. It contains keys."""
        return self._clients.destination

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r} at {self.endpoint})"

    def complete(self, request: ChatRequest) -> ChatReply:
        """Send a chat request and return the reply, or raise a ModelError."""
        call = self._start(self._clients.sync_client(), request, stream=False)
        try:
            response = call.post(unread=False)
            body = response.content
        except call.client.failures as error:
            raise call.failure(error) from _origin(error)
        return call.read(response, body)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Send a chat request and return the reply without blocking the event loop, or raise a ModelError."""
        call = self._start(await self._clients.async_client(), request, stream=False)
        try:
            response = await call.post(unread=False)
        except call.client.failures as error:
            raise call.failure(error) from _origin(error)
        return call.read(response, response.content)

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        """Send a chat request and yield the pieces of the reply as they arrive, or raise a ModelError."""
        call = self._start(self._clients.sync_client(), request, stream=True)
        try:
            response = call.post(unread=True)
        # read only after an exception, because the SDK must search for its exception types
        except call.client.failures as error:
            raise call.failure(error) from _origin(error)
        try:
            call.start_stream(response)
            try:
                for chunk in response.iter_bytes():
                    for delta in call.feed(chunk):
                        yield delta
                    if call.reader.done:  # a server may keep the connection open after the end of the reply
                        break
            except call.client.failures as error:
                call.raise_unless_finished(error)
            for delta in call.end():
                yield delta
        finally:
            response.close()

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        """Send a chat request and yield the pieces of the reply; async version of ``stream``."""
        call = self._start(await self._clients.async_client(), request, stream=True)
        try:
            response = await call.post(unread=True)
        except call.client.failures as error:
            raise call.failure(error) from _origin(error)
        try:
            call.start_stream(response)
            try:
                async for chunk in response.aiter_bytes():
                    for delta in call.feed(chunk):
                        yield delta
                    if call.reader.done:
                        break
            except call.client.failures as error:
                call.raise_unless_finished(error)
            for delta in call.end():
                yield delta
        finally:
            await response.aclose()

    def http_request(self, request: ChatRequest, *, stream: bool = False) -> HttpRequest:
        """Return the HTTP request that would be sent for a chat request, without credentials.

        Nothing is sent, and no key is needed. Raises BadRequestError if the API does not support something.
        """
        return self._write(request, stream=stream)[1]

    async def aread(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        """Send any HTTP request to this model's server, and yield the pieces of the response.

        The credentials of the model are sent with it. Raises a ModelError for an error status, and if the
        connection fails.
        """
        client = await self._clients.async_client()
        try:
            response = await client.post(request, None, unread=True)
            try:
                async for piece in response.aiter_bytes():
                    yield piece
            finally:
                await response.aclose()
        except client.failures as error:
            raise self._errors_for(client).from_exception(error) from _origin(error)

    def reply_from(
        self, request: ChatRequest, status: int, body: bytes, headers: Mapping[str, str] = _NO_HEADERS
    ) -> ChatReply:
        """Convert an HTTP response received elsewhere, such as from a batch API, to a ChatReply.

        Raises a ModelError for an error status, and for a body that is not a reply.
        """
        prepared, http_request = self._write(request, stream=False)
        response = StoredResponse(status, headers, body)
        call = _Call(self, _NoClient(), prepared.settings, http_request, None, logs=False)
        if status >= 300:
            error = StatusError(response)
            raise call.failure(error) from _origin(error)
        return call.read(response, body)

    def usage_from(self, body: bytes) -> Usage | None:
        """Return the token counts in the body of an HTTP response, or None if the body has no counts."""
        settings = CallSettings(self._model, self._options, None, None, stream=False)
        try:
            return self._dialect.read_reply(body, _NO_HEADERS, settings).usage
        except REPLY_ERRORS:
            return None

    def request_url(self, path: str) -> str:
        """Return the full URL for a path on the model's server."""
        return f"{self.endpoint}/{path.lstrip('/')}"

    def close(self) -> None:
        """Close the HTTP connections that this model opened; a later request opens new ones."""
        self._clients.close()

    async def aclose(self) -> None:
        """Close the model's HTTP connections for blocking calls and for the running event loop.

        Those of another event loop are closed when that loop ends.
        """
        await self._clients.aclose()

    def _start(self, client: HttpClient[R], request: ChatRequest, *, stream: bool) -> _Call[R]:
        """Create the ``_Call`` object that can send a chat request, but do not send the request.

        Raises BadRequestError for unsupported features.
        """
        prepared, http_request = self._write(request, stream=stream)
        logs = self._logger.isEnabledFor(self._log_level)
        call = _Call(self, client, prepared.settings, http_request, request.deadline, logs)
        call.refused_options = request.refused_options
        if logs:
            headers = _loggable({**client.headers, **http_request.headers})
            call.log("request %s %s", headers, http_request.body.decode(errors="replace"))
        return call

    def _write(self, request: ChatRequest, *, stream: bool) -> tuple[_PreparedCall, HttpRequest]:
        # The objects are compared by identity, which is much faster than by value. An entry keeps them alive,
        # so other objects cannot get the same ids.
        key = (
            id(request.options),
            id(request.response_format),
            id(request.tooling),
            request.logprobs,
            stream,
        )
        try:
            cached = None if request.refused_options else self._prepared.cached.get(key)
            prepared = cached or self._prepared.prepare(key, request, self.capabilities)
            http_request = prepared.write(request.messages)
        except ValueError as error:  # pydantic_core raises a subclass for texts that are not valid Unicode
            raise ErrorMapper(model_label(self)).invalid_request(error) from error
        extra_headers = prepared.settings.options.extra_headers
        if request.repeats and self.idempotency_header:
            hashed = hashlib.blake2b(http_request.body, digest_size=16)
            hashed.update(f"{request.repeats} {http_request.path} {stream}".encode())
            extra_headers = {self.idempotency_header: hashed.hexdigest(), **(extra_headers or {})}
        if extra_headers:
            http_request = http_request._replace(headers={**http_request.headers, **extra_headers})
        return prepared, http_request

    def _errors_for(
        self,
        client: HttpClient[object],
        settings: CallSettings | None = None,
        secrets: Sequence[str] = (),
    ) -> ErrorMapper:
        """Return the mapper for the errors of a request; ``secrets`` are those that only this request has."""
        return ErrorMapper(
            model_label(self, None if settings is None else settings.model),
            (*client.secrets, *secrets),
            self._key_advice,
            None if settings is None else settings.options.timeout,
            self._dialect.reply_name,
            self._dialect.error_details,
            self._address_setting,
            self._start_advice,
        )


def model_label(model: HttpChatModel, name: str | None = None) -> str:
    """Return a model's name, or the one in a request, with its URL, for error messages and logs."""
    return f"{model._provider}:{name or model._model} at {model.endpoint}"


@dataclass(slots=True, eq=False)
class _Call(Generic[R]):
    """One HTTP request to a chat model, with the methods that send it and parse the response.

    Attributes:
        model: The model that is called.
        client: The HTTP client to send the request with.
        settings: All parts of the request except its messages.
        request: The HTTP request.
        deadline: When the reply must be complete, in the time of ``time.monotonic()``, or None.
        logs: True if requests and replies are logged.
        reader: Parses the stream, if the reply is streamed.
        headers: The headers of the streamed response.
        start: The first bytes of a stream, as long as they are too few to know what the server sends; None
            once it is known.
        blanks: The number of bytes of white space before them.
        refused_options: The options that the request leaves out although the model is not yet known to refuse
            them.
    """

    model: HttpChatModel
    client: HttpClient[R]
    settings: CallSettings
    request: HttpRequest
    deadline: float | None
    logs: bool
    reader: StreamReader = field(init=False, repr=False)
    headers: Mapping[str, str] = field(init=False, repr=False)
    start: bytes | None = None
    blanks: int = 0
    refused_options: Mapping[str, tuple[str, ...]] | None = None

    def post(self, *, unread: bool) -> R:
        """Send the HTTP request and return the response.

        With ``unread=True``, the body has not been read yet.
        """
        timeout = self.settings.options.timeout
        return self.client.post(self.request, timeout, unread=unread, deadline=self.deadline)

    def read(self, response: HttpResponse, body: bytes) -> ChatReply:
        """Convert the body of an HTTP response to the reply of the model."""
        if self.logs or header_listener.get() is not None:
            self._note_response(response, body)
        try:
            reply = self.model._dialect.read_reply(body, response.headers, self.settings)
            if self.refused_options:
                self.learn_refusals()
            return reply
        except REPLY_ERRORS as error:
            if not body.strip():
                raise self._errors().empty_reply() from None
            raise self._unusable(error, body) from error

    def start_stream(self, response: HttpResponse) -> None:
        """Create the parser that converts a streamed HTTP response to parts of the model's reply."""
        if self.logs or header_listener.get() is not None:
            self._note_response(response, b"")
        try:
            self.reader = self.model._dialect.stream_reader(response.headers, self.settings)
        except REPLY_ERRORS as error:
            raise self._errors().unusable_reply(error, b"") from error
        if isinstance(self.reader, EventStreamReader):
            self.reader.keeps_events = bool(self.settings.options.raw_events)
            self.headers, self.start = response.headers, b""

    def feed(self, chunk: bytes) -> Generator[ReplyDelta, None, None]:
        """Parse a chunk of a streamed HTTP response, and yield the new parts of the model's reply."""
        if self.logs:
            self.log("chunk of a stream %s", chunk.decode(errors="replace"))
        try:
            if self.start is not None:
                chunk = self._choose_reader(self.start + chunk)
            yield from self.reader.feed(chunk)
        except ReplyTooLargeError as error:
            raise self._errors().from_exception(error) from None
        except REPLY_ERRORS as error:
            raise self._unusable(error, chunk) from error

    def _choose_reader(self, start: bytes) -> bytes:
        """Replace the parser if the server sends a whole reply instead of a stream of events.

        ``start`` are the first bytes of the response. Returns the bytes to parse, or b"" if they are too few.
        """
        is_bom = codecs.BOM_UTF8.startswith(start)
        text = b"" if is_bom else start.removeprefix(codecs.BOM_UTF8).lstrip()
        if not text:
            self.start = start.strip()
            self.blanks += len(start)
            if self.blanks > MAX_REPLY_BYTES:
                raise ReplyTooLargeError
            return b""
        self.start = None
        reader, headers = self.reader, self.headers
        if isinstance(reader, EventStreamReader) and reader.sends_whole_reply(
            text, headers.get("content-type", "")
        ):
            read = self.model._dialect.read_reply
            self.reader = WholeReplyReader(lambda body: read(body, headers, self.settings))
        return start

    def end(self) -> list[ReplyDelta]:
        """Return the last parts of the model's reply after the end of the streamed HTTP response."""
        reader = self.reader
        try:
            deltas = reader.end()
            if self.refused_options:
                self.learn_refusals()
            return deltas
        except BrokenStreamError:
            raise self._errors().broken_stream(reader.text) from None
        except REPLY_ERRORS as error:
            raise self._errors().unusable_reply(error, reader.body) from error

    def learn_refusals(self) -> None:
        """Remember the options that the model refused, after a request without them has succeeded."""
        model = self.model
        model._prepared.refused.setdefault(self.settings.model, {}).update(self.refused_options or {})
        model._prepared.cached.clear()  # requests prepared earlier contain the refused options

    def raise_unless_finished(self, error: Exception) -> None:
        """Raise a ModelError for a broken connection if the streamed reply is not complete."""
        if not self.reader.finished:
            failure = self.failure(error)
            failure.body = self.reader.text
            raise failure from _origin(error)

    def failure(self, error: Exception) -> ModelError:
        """Convert an exception of the HTTP client to a ModelError about this model."""
        if self.logs and (response := getattr(error, "response", None)) is not None:
            self._log_response(response, response.content)
        return self._with_remedy(self._errors().from_exception(error))

    def _unusable(self, error: Exception, body: bytes) -> ModelError:
        return self._with_remedy(self._errors().unusable_reply(error, body))

    def _with_remedy(self, error: ModelError) -> ModelError:
        if isinstance(error, BadRequestError):
            error.remedy = self.model._dialect.remedy(error, self.settings, self.request)
            if error.remedy == "send again":
                self.model._prepared.cached.clear()  # requests prepared earlier contain the refused option
        return error

    def log(self, message: str, *values: object) -> None:
        """Log a message that starts with the model's name and URL, with secrets removed."""
        model = self.model
        redacted = self._errors().redacted
        texts = (redacted(str(value)) for value in values)
        model._logger.log(model._log_level, f"%s: {message}", model_label(model, self.settings.model), *texts)

    def _note_response(self, response: HttpResponse, body: bytes) -> None:
        if self.logs:
            self._log_response(response, body)
        listener = header_listener.get()
        if listener is not None:
            listener(response.headers)

    def _log_response(self, response: HttpResponse, body: bytes) -> None:
        text = body.decode(errors="replace")
        self.log("reply %s %s %s", response.status_code, _loggable(response.headers), text)

    def _errors(self) -> ErrorMapper:
        secrets = [value for name, value in self.request.headers.items() if is_secret_header(name)]
        return self.model._errors_for(self.client, self.settings, secrets)


def check_name(name: str, example: str) -> str:
    """Return the name of a model after the colon, or raise LookupError if it is empty."""
    if not name:  # find_model converts the error to a DefinitionError with the location
        prefix = example.partition(":")[0]
        raise LookupError(
            f'"{prefix}:" does not name a model: write the name after the colon, as in "{example}"'
        )
    return name


class StoredResponse(NamedTuple):
    """An HTTP response that was received earlier, for example from a batch."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        """The body of the stored HTTP response, decoded as UTF-8; invalid bytes are replaced."""
        return self.content.decode(errors="replace")


class _NoClient:
    """A placeholder for the HTTP client, used when a reply is read from a stored response."""

    headers: Mapping[str, object] = MappingProxyType({})
    secrets: tuple[str, ...] = ()
    failures: tuple[type[Exception], ...] = ()

    def post(
        self, request: HttpRequest, timeout: float | None, *, unread: bool, deadline: float | None = None
    ) -> Never:
        """Raise AssertionError, because a stored response needs no request."""
        raise AssertionError("a stored response needs no request")


def _origin(error: Exception) -> BaseException:
    return error.origin if isinstance(error, CurlError) else error


def _loggable(headers: Mapping[str, object]) -> dict[str, str]:
    # the SDK marks headers that it omits with objects that are not strings
    texts = {name: value for name, value in headers.items() if isinstance(value, str)}
    return {name: "[redacted]" if is_secret_header(name) else value for name, value in texts.items()}
