"""Call a remote service over HTTP through an object that has the service's interface.

Needs httpx2, but not FastAPI.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from functools import cache, wraps
from inspect import unwrap
from ssl import SSLContext
from types import new_class
from typing import Any, TypedDict, TypeVar, Unpack, get_origin, overload
from weakref import finalize

import httpx2
from pydantic import ValidationError
from pydantic_core import to_json
from typing_extensions import TypeForm

from output_parsers.parser.type_parser import ParserFactory
from output_parsers.result.errors import OutputParsingError, Problem as ParsingProblem
from output_parsers.result.reading import JsonObject, Reading

from ...engine.approval import (
    AlreadyResumedError,
    ApprovalRequiredError,
    Approvals,
    SuspendedCall,
    decisions_for,
)
from ...engine.output_format import OutputFormat
from ...engine.streams import Accepted, AsyncStream, AttemptStarted, Stream
from ...interface.decorators import has_own_init
from ...journal import CallCancelledError, CallChangedError, CallInProgressError, JournalError
from ...models.arguments import check_settings, checks_arguments, is_positive
from ...models.errors import (
    AiServiceError,
    BadRequestError,
    BudgetExceededError,
    ContentFilterError,
    DefinitionError,
    DefinitionProblem,
    InvalidReplyError,
    MemoryBusyError,
    MemoryConflictError,
    MemoryIdError,
    MemoryStoreError,
    ModelConnectionError,
    ModelError,
    ModelServerError,
    ModelTimeoutError,
    ProbabilitiesUnavailableError,
    RateLimitError,
    RefusalError,
    ServiceOutputError,
    Strategy,
    SuspendedCallError,
    TruncatedError,
    hide_library_frames,
)
from ...models.http.base import PerLoop, ReplyTooLargeError
from ...models.http.replies import ServerSentEvent, SseDecoder
from ...models.messages import ChatReply, ReplyDelta, ToolCall
from ...remote.codec import attempts_from_json, read_result
from ...remote.contract import RESUME_PATH, Contract, EventId, EventName, Method, contract_of
from ...remote.problems import ARGUMENTS, PROBLEM_MEDIA_TYPE, Problem
from ...service.signatures import ReturnShape
from ...tools.tool import REMOTE_CALL, REMOTE_RESUME, Denied, ExternalResult

S = TypeVar("S")
T = TypeVar("T")

_DEFAULT_TIMEOUT = 600.0  # seconds; a call may make several slow requests to models
_JSON_HEADERS = {"Content-Type": "application/json", "Accept": f"application/json, {PROBLEM_MEDIA_TYPE}"}
_EVENT_HEADERS = {"Content-Type": "application/json", "Accept": f"text/event-stream, {PROBLEM_MEDIA_TYPE}"}
_TRANSIENT_ERRORS = (httpx2.NetworkError, httpx2.ProxyError, httpx2.RemoteProtocolError)
# The client parses unfinished values itself, so it asks for the text of the model instead of snapshots.
_DELTAS_QUERY = {"events": "deltas"}
_RECONNECT_DELAYS = (0.0, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 8.0)  # seconds; a server may need them to restart


# --- The client object ---


class ClientSettings(TypedDict, total=False):
    """The keyword arguments of the function ``client``, which calls a remote service over HTTP."""

    paths: Mapping[str, str] | None
    omit: Collection[str]
    parsers: Sequence[ParserFactory]
    headers: Mapping[str, str] | None
    timeout: float
    http: httpx2.Client | None
    async_http: httpx2.AsyncClient | None


# The first overload is for classes, the second for protocols and abstract classes, which are not types of
# their instances for mypy, the third for all other type expressions.
@overload
def client(interface: type[S], base_url: str, **settings: Unpack[ClientSettings]) -> S: ...
@overload
def client(interface: Callable[..., S], base_url: str, **settings: Unpack[ClientSettings]) -> S: ...
@overload
def client(interface: TypeForm[S], base_url: str, **settings: Unpack[ClientSettings]) -> S: ...
@checks_arguments
def client(
    interface: Any,
    base_url: str,
    *,
    paths: Mapping[str, str] | None = None,
    omit: Collection[str] = (),
    parsers: Sequence[ParserFactory] = (),
    headers: Mapping[str, str] | None = None,
    timeout: float = _DEFAULT_TIMEOUT,
    http: httpx2.Client | None = None,
    async_http: httpx2.AsyncClient | None = None,
) -> object:
    """Return an object whose methods call a remote service over HTTP.

    Args:
        interface: The Protocol or ABC that the service implements.
        base_url: The address of the service, with the prefix of its router.
        paths: The ``paths`` that were passed to the router.
        omit: The names of parameters that the server sets; the client does not send them.
        parsers: The ``parsers`` that were passed to the router.
        headers: Headers for every request, for example ``Authorization``.
        timeout: The seconds to wait for a connection, for a response, and for each next chunk of a stream.
        http: Your own client for blocking methods, which you must close.
        async_http: Your own client for async methods, which you must close.

    Blocking methods block, async methods are awaited, and streams work as those of a local service. A value
    that does not have its declared type raises ValueError, and arguments that do not fit the signature raise
    TypeError. Other errors have the class that a local service raises, without the text of models; an error
    that has no local class is a RemoteServiceError. Raises DefinitionError with all problems at once.
    """
    check_settings("client", ("timeout", timeout, is_positive(timeout), "it must be greater than 0"))
    cls = get_origin(interface) or interface
    contract = contract_of(interface, parsers=parsers)
    lacks_async_http = http is not None and async_http is None
    problems = [
        DefinitionProblem(contract.name, message)
        for message in _problems_of_settings(contract, paths or {}, omit, lacks_async_http=lacks_async_http)
    ]
    if problems:
        raise DefinitionError(problems)
    transport = Transport(base_url, headers or {}, timeout, http, async_http)

    def fill_namespace(namespace: dict[str, object]) -> None:
        # The class is a subclass of the interface, so that isinstance and methods with a body work.
        namespace["__module__"], namespace["__doc__"] = cls.__module__, cls.__doc__
        if not has_own_init(cls):
            namespace["__init__"] = _init_without_arguments
        for name, method in contract.methods.items():
            path = (paths or {}).get(name, method.path)
            stub = unwrap(getattr(cls, name))
            namespace[name] = _remote_method(stub, method, path, transport, frozenset(omit))

    return new_class(cls.__name__, (cls,), exec_body=fill_namespace)()


def _problems_of_settings(
    contract: Contract, paths: Mapping[str, str], omit: Collection[str], *, lacks_async_http: bool
) -> Iterator[str]:
    methods = contract.methods.values()
    if lacks_async_http and any(method.returns.is_async for method in methods):
        yield "it has async methods, but only http was passed; pass async_http=httpx2.AsyncClient(...) too"
    for name in paths:
        if name not in contract.methods:
            yield f"paths names {name}, which is not a method"
    parameters = {name for method in methods for name in method.signature.parameters}
    for name in omit:
        if name not in parameters:
            yield f"omit names {name}, which is not a parameter of any method"


def _init_without_arguments(self: object) -> None:
    """Do nothing: this is the ``__init__`` method of a generated HTTP client class."""


def _remote_method(
    stub: Callable[..., object], method: Method, path: str, transport: Transport, omit: Collection[str]
) -> object:
    """Return a function that implements an interface method by sending an HTTP request."""
    is_async = method.returns.is_async
    dump_arguments = method.dump_arguments
    send = _sender(method, transport, is_async=is_async)

    def call(self: object, /, *args: object, **kwargs: object) -> object:
        try:
            return send(path, dump_arguments(args, kwargs, omit))
        except AiServiceError as error:
            hide_library_frames(error)
            raise

    async def acall(self: object, /, *args: object, **kwargs: object) -> object:
        try:
            return await send(path, dump_arguments(args, kwargs, omit))
        except AiServiceError as error:
            hide_library_frames(error)
            raise

    def resume(state: SuspendedCall, approvals: Approvals, results: Mapping[str, object]) -> object:
        decided: dict[str, object] = {}
        values: dict[str, object] = {}
        for call_id, decision in decisions_for(state, approvals, results, state.qualname).items():
            if isinstance(decision, ExternalResult):
                values[call_id] = decision.value
            else:
                decided[call_id] = {"reason": decision.reason} if isinstance(decision, Denied) else decision
        try:
            body = to_json({"state": state.to_json(), "approvals": decided, "results": values})
        except ValueError as error:
            raise ValueError(f"{state.qualname}: the results cannot be sent: {error}") from error
        return send(path.rstrip("/") + RESUME_PATH, body.decode())

    def call_as(args: tuple[object, ...], kwargs: Mapping[str, object], *, is_async: bool) -> object:
        transport.check_client(is_async=is_async)
        return _sender(method, transport, is_async=is_async)(path, dump_arguments(args, kwargs, omit))

    function: Any = wraps(stub)(acall if is_async and not method.streams else call)
    function.__isabstractmethod__ = False  # wraps copies it from a method of an ABC
    setattr(function, REMOTE_RESUME, resume)
    setattr(function, REMOTE_CALL, call_as)
    return function


def _sender(method: Method, transport: Transport, *, is_async: bool) -> Callable[[str, str], Any]:
    """Return a function that sends a request body to a path and reads the response."""
    qualname = method.qualname

    def send_blocking(path: str, body: str) -> object:
        return _read_response(method, transport.call(qualname, path, body))

    async def send_async(path: str, body: str) -> object:
        return _read_response(method, await transport.acall(qualname, path, body))

    def send_streaming(path: str, body: str) -> object:
        items = (_aiterate if is_async else _iterate)(method, path, transport, body)
        if method.returns.shape is not ReturnShape.STREAM:
            return items
        stream_class: Any = AsyncStream if is_async else Stream
        return stream_class(items, _unchanged)

    return send_streaming if method.streams else send_async if is_async else send_blocking


def _unchanged(result: T) -> T:
    return result  # the server has sent a complete Result


def _read_response(method: Method, text: str) -> object:
    if method.returns_nothing and not text:
        return None
    try:
        if method.returns.shape is ReturnShape.RESULT:
            return read_result(text, method.result_codec)
        return method.value_codec.restore(text)
    except OutputParsingError as error:
        raise _wrong_response(method, error) from error


def _iterate(method: Method, path: str, transport: Transport, body: str) -> Generator[object, None, None]:
    # Only a Stream has snapshots, which the client computes from the deltas.
    decoder = RemoteEventDecoder(method)
    deltas = method.returns.shape is ReturnShape.STREAM
    with closing(transport.events(method.qualname, path, body, deltas=deltas)) as events:
        for event in events:
            yield from decoder.decode(event)
    decoder.check_complete()


async def _aiterate(
    method: Method, path: str, transport: Transport, body: str
) -> AsyncGenerator[object, None]:
    decoder = RemoteEventDecoder(method)
    deltas = method.returns.shape is ReturnShape.STREAM
    async with aclosing(transport.aevents(method.qualname, path, body, deltas=deltas)) as events:
        async for event in events:
            for item in decoder.decode(event):
                yield item
    decoder.check_complete()


# --- Requests ---


class Transport:
    """Sends a remote client's HTTP requests, with a blocking or an async HTTP client.

    It has one blocking HTTP client, and one async HTTP client per event loop.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        timeout: float,
        http: httpx2.Client | None,
        async_http: httpx2.AsyncClient | None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._json_headers = {**_JSON_HEADERS, **headers}
        self._event_headers = {**_EVENT_HEADERS, **headers}
        self._timeout = timeout
        # An HTTP client that the user passed has its own timeout, which is not known here.
        self._timeout_text = f"within {timeout:g} s" if http is None and async_http is None else "in time"
        self._http = http
        self._async_http = async_http
        self._has_one_client = (http is None) is not (async_http is None)
        self._async_clients = PerLoop(self._new_async_client, httpx2.AsyncClient.aclose, _abandon)

    def check_client(self, *, is_async: bool) -> None:
        """Raise TypeError if the user passed only a blocking HTTP client for an async method, or vice versa.

        A default client must not be used instead, because only the user's client may have the authorization
        headers.
        """
        if self._has_one_client and (self._async_http is None) is is_async:
            needed = "async_http=httpx2.AsyncClient(...)" if is_async else "http=httpx2.Client(...)"
            raise TypeError(f"client() got only the other HTTP client; pass {needed} too")

    def call(self, qualname: str, path: str, body: str) -> str:
        """Send an HTTP request and return the response body, or raise AiServiceError."""
        with self._http_errors(qualname):
            response = self._blocking_client().post(
                self._base_url + path, content=body, headers=self._json_headers
            )
        self._check_status(response, qualname)
        return response.text

    async def acall(self, qualname: str, path: str, body: str) -> str:
        """Send an HTTP request asynchronously and return the response body, or raise AiServiceError."""
        http = await self._async_client()
        with self._http_errors(qualname):
            response = await http.post(self._base_url + path, content=body, headers=self._json_headers)
        self._check_status(response, qualname)
        return response.text

    def events(
        self, qualname: str, path: str, body: str, *, deltas: bool
    ) -> Generator[ServerSentEvent, None, None]:
        """Send an HTTP request and yield the server-sent events of the response, or raise AiServiceError.

        If the connection breaks and the server can continue the stream, it is continued.
        """
        progress = _Progress()
        while True:
            try:
                with (
                    self._http_errors(qualname),
                    self._blocking_client().stream(
                        **self._event_request(path, body, progress.last_id, deltas=deltas)
                    ) as response,
                ):
                    if not response.is_success:
                        response.read()
                    decoder = self._event_decoder(response, qualname)
                    if decoder is not None:
                        for chunk in response.iter_bytes():
                            yield from map(progress.received, decoder.events(chunk))
                if not progress.can_continue or response.status_code == 204:
                    return
            except ModelError as error:
                progress.check(error)
            time.sleep(progress.next_delay(qualname))

    async def aevents(
        self, qualname: str, path: str, body: str, *, deltas: bool
    ) -> AsyncGenerator[ServerSentEvent, None]:
        """Do the same as ``events``, asynchronously."""
        http = await self._async_client()
        progress = _Progress()
        while True:
            try:
                with self._http_errors(qualname):
                    request = self._event_request(path, body, progress.last_id, deltas=deltas)
                    async with http.stream(**request) as response:
                        if not response.is_success:
                            await response.aread()
                        decoder = self._event_decoder(response, qualname)
                        if decoder is not None:
                            async for chunk in response.aiter_bytes():
                                for event in decoder.events(chunk):
                                    yield progress.received(event)
                if not progress.can_continue or response.status_code == 204:
                    return
            except ModelError as error:
                progress.check(error)
            await asyncio.sleep(progress.next_delay(qualname))

    def _event_request(self, path: str, body: str, last_id: str, *, deltas: bool) -> dict[str, Any]:
        return {
            "method": "POST",
            "url": self._base_url + path,
            "content": body,
            "params": _DELTAS_QUERY if deltas else None,
            "headers": {**self._event_headers, "Last-Event-ID": last_id} if last_id else self._event_headers,
        }

    def _event_decoder(self, response: httpx2.Response, qualname: str) -> SseDecoder | None:
        """Return the decoder of a response; None if there is nothing to continue."""
        self._check_status(response, qualname)
        if response.status_code == 204:
            return None
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "text/event-stream":
            raise InvalidReplyError(
                f"{qualname}: {self._base_url} answered with {content_type or 'no content type'} instead of "
                "text/event-stream; check the address and that the service runs"
            )
        return SseDecoder()

    def _blocking_client(self) -> httpx2.Client:
        if self._http is None:
            self._http = http = httpx2.Client(timeout=self._timeout, verify=_ssl_context())
            # Connections are closed when the client object is garbage collected, so users need not close it.
            finalize(self, http.close)
        return self._http

    async def _async_client(self) -> httpx2.AsyncClient:
        return await self._async_clients.get() if self._async_http is None else self._async_http

    def _new_async_client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(timeout=self._timeout, verify=_ssl_context())

    def _check_status(self, response: httpx2.Response, qualname: str) -> None:
        if not response.is_success:
            raise _status_error(response.status_code, response.text, qualname, self._base_url)

    @contextmanager
    def _http_errors(self, qualname: str) -> Generator[None, None, None]:
        """Convert exceptions of the HTTP client in a ``with`` block to errors of models."""
        try:
            yield
        except httpx2.TimeoutException as error:
            message = f"{qualname}: {self._base_url} did not answer {self._timeout_text}"
            raise ModelTimeoutError(message, retryable=True) from error
        except ReplyTooLargeError as error:
            raise InvalidReplyError(f"{qualname}: an event of {self._base_url} is too large") from error
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            message = (
                f"{qualname}: {self._base_url} cannot be reached, or the connection broke: "
                f"{type(error).__name__}; check the address and that the service runs"
            )
            raise ModelConnectionError(message, retryable=isinstance(error, _TRANSIENT_ERRORS)) from error


@cache
def _ssl_context() -> SSLContext:
    """Return the HTTP client's default TLS settings.

    The settings are loaded once, because loading the certificates blocks the event loop.
    """
    return httpx2.create_ssl_context()


def _abandon(client: httpx2.AsyncClient) -> None:
    """Do nothing, because the sockets of an HTTP client are closed when its event loop is closed."""


# --- Events ---


class _Progress:
    """The events of a stream that a client has received, and its attempts to continue the stream."""

    def __init__(self) -> None:
        self.last_id = ""  # the id of a stream that can be continued
        self.can_continue = False
        self._delays = iter(_RECONNECT_DELAYS)

    def received(self, event: ServerSentEvent) -> ServerSentEvent:
        """Remember an event, and return it."""
        event_id = EventId.parse(event.id)
        if event_id is not None:
            self.last_id, self.can_continue = event.id, not event_id.is_last
            self._delays = iter(_RECONNECT_DELAYS)
        return event

    def check(self, error: ModelError) -> None:
        """Raise an error after which the stream cannot be continued."""
        if not (self.can_continue and error.retryable):
            raise error

    def next_delay(self, qualname: str) -> float:
        """Return the seconds to wait before the stream is continued; raise an error if it is given up."""
        delay = next(self._delays, None)
        if delay is None:
            raise ModelConnectionError(
                f"{qualname}: the connection broke and could not be opened again", retryable=True
            )
        return delay


class RemoteEventDecoder:
    """Converts a remote streaming method's server-sent events to list items or stream events."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._is_complete = False

    def decode(self, event: ServerSentEvent) -> Iterator[object]:
        """Yield the items in a server-sent event, or raise the error that the event reports."""
        try:
            yield from self._decode(event.name, event.data.decode(errors="replace"))
        # The error of an error event must not be converted to InvalidReplyError below.
        except AiServiceError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise _wrong_response(self._method, error) from error

    def check_complete(self) -> None:
        """Raise ModelConnectionError if a stream of server-sent events ended before its last event."""
        if not self._is_complete:
            message = f"{self._method.qualname}: the connection broke before the answer was complete"
            raise ModelConnectionError(message, retryable=True)

    def _decode(self, name: str, data: str) -> Iterator[object]:
        match name:
            case EventName.TEXT | EventName.ITEM:
                yield self._method.value_codec.restore(data)
            case EventName.UNFIT:
                yield _item_error(json.loads(data))
            case EventName.ATTEMPT:
                yield self._attempt_started(json.loads(data))
            case EventName.DELTA:
                yield ReplyDelta(json.loads(data)["text"])
            case EventName.RESULT:
                self._is_complete = True
                yield Accepted(read_result(data, self._method.result_codec))
            case EventName.END:
                self._is_complete = True
            # An unknown event has no case and is ignored, so that a newer server can add events.
            case EventName.ERROR:
                raise _error_of_problem(Problem.model_validate_json(data), self._method.qualname)

    def _attempt_started(self, data: JsonObject) -> AttemptStarted:
        """Return the stream event for a new model request, and start parsing its reply from the beginning."""
        parser = self._method.value_codec.parser
        if data["field"] is not None:  # the model writes the value as the only field of an object
            parser = parser.with_envelope(data["field"])
        output_format = OutputFormat(
            Strategy(data["strategy"]), (), parser, _cannot_read, is_streamed=data["shown"]
        )
        return AttemptStarted(data["number"], data["model"], output_format)


def _cannot_read(reply: ChatReply) -> Reading[object]:
    # The stream itself never reads a reply, but code that consumes its events can: event.output_format.read.
    raise AiServiceError("replies cannot be read on the client: the server sends the result")


def _item_error(data: JsonObject) -> object:
    from output_parsers.streaming import ItemError  # late: most services do not stream items

    problems = tuple(ParsingProblem(**problem) for problem in data["problems"])
    return ItemError(data["index"], data["text"], problems)


# --- Errors ---


class RemoteServiceError(AiServiceError):
    """Raised for a remote service's error if no more specific exception class exists.

    Attributes:
        problem: The problem that the service sent; None if something else answered, for example the login of
            the application or a proxy.
        status: The HTTP status of the response.
        body: The text of a response without a problem; "" otherwise.
    """

    def __init__(self, message: str, *, problem: Problem | None, status: int, body: str = "") -> None:
        super().__init__(message)
        self.problem = problem
        self.status = status
        self.body = body


# Keyed by the last part of a problem's ``type``, such as ``refusal`` in ``urn:aiservices:refusal``.
_FINISH_ERRORS: dict[str, type[RefusalError | TruncatedError | ContentFilterError]] = {
    "refusal": RefusalError,
    "truncated": TruncatedError,
    "content-filter": ContentFilterError,
}
_MODEL_ERRORS: dict[str, type[ModelError]] = {
    "rate-limit": RateLimitError,
    "timeout": ModelTimeoutError,
    "connection": ModelConnectionError,
    "unavailable": ModelServerError,
    "request-refused": BadRequestError,
    "invalid-reply": InvalidReplyError,
    "no-probabilities": ProbabilitiesUnavailableError,
    "model": ModelError,
}


# The ids of the conversation and of the state are known only to the service.
_ERRORS_WITH_ID: dict[str, Callable[[Problem], AiServiceError]] = {
    "already-resumed": lambda problem: AlreadyResumedError("", ""),
    "call-in-progress": lambda problem: CallInProgressError(""),
    "call-changed": lambda problem: CallChangedError("", ()),
    "call-cancelled": lambda problem: CallCancelledError(""),
    "journal": lambda problem: JournalError(""),
    "memory-busy": lambda problem: MemoryBusyError("", ""),
    "memory-conflict": lambda problem: MemoryConflictError(""),
    "memory-id": lambda problem: MemoryIdError(),
    "memory-store": lambda problem: MemoryStoreError(
        "", store="", conversation="", retryable=problem.retryable
    ),
}


def _error_of_problem(problem: Problem, qualname: str) -> AiServiceError:
    """Return the exception for a JSON error in a remote service's response."""
    error = _new_error(problem, f"{qualname}: {problem.title}", qualname)
    error.attempts = attempts_from_json(problem.attempts)
    return error


def _new_approval_error(problem: Problem, state: str, message: str, qualname: str) -> AiServiceError:
    try:
        suspended = SuspendedCall.from_json(state, verify=False)
    except SuspendedCallError as error:
        return InvalidReplyError(f"{message}, and its state cannot be read: {error}")
    calls = [(ToolCall(one.id, one.name, one.arguments), one.external) for one in problem.calls]
    to_approve = tuple(call for call, is_external in calls if not is_external)
    external = tuple(call for call, is_external in calls if is_external)
    return ApprovalRequiredError(qualname, to_approve, suspended, external)


def _new_error(problem: Problem, message: str, qualname: str) -> AiServiceError:
    name = problem.type.rpartition(":")[2]
    if name == "unreadable-reply":
        return ServiceOutputError(qualname, "", [ParsingProblem("$", problem.title)])
    if name in _FINISH_ERRORS:
        return _FINISH_ERRORS[name](message, text="", reason=problem.title)
    if name == "budget":
        return BudgetExceededError(message, limit=problem.limit or "max_attempts")
    if name in _ERRORS_WITH_ID:
        error = _ERRORS_WITH_ID[name](problem)
        error.args = (message,)
        return error
    if name == "approval-required" and problem.state:
        return _new_approval_error(problem, problem.state, message, qualname)
    if name == "suspended-call":
        return SuspendedCallError(f"{message}: {problem.detail}" if problem.detail else message)
    if name in _MODEL_ERRORS:
        return _MODEL_ERRORS[name](
            message, status=problem.status, retryable=problem.retryable, retry_after=problem.retry_after
        )
    if problem.type == ARGUMENTS.type:
        parts = "; ".join(f"{part.path}: {part.message}" for part in problem.problems)
        message = f"{message}: {parts}" if parts else message
    return RemoteServiceError(message, problem=problem, status=problem.status)


def _status_error(status: int, body: str, qualname: str, address: str) -> AiServiceError:
    """Return the exception for a response with an HTTP error status."""
    try:
        return _error_of_problem(Problem.model_validate_json(body), qualname)
    except ValidationError:  # a proxy answered, or another application
        message = f"{qualname}: {address} answered with the status {status}, without a problem that says why"
        if status == 404:
            message += "; check the address and its prefix"
        if status >= 500:
            return ModelServerError(message, status=status, retryable=status in (502, 503, 504))
        return RemoteServiceError(message, problem=None, status=status, body=body)


def _wrong_response(method: Method, error: Exception) -> InvalidReplyError:
    """Return the exception for a response that does not fit the return type of the remote method.

    The server may run another version of the interface.
    """
    reason = (
        "; ".join(map(str, error.problems)) if isinstance(error, OutputParsingError) else type(error).__name__
    )
    codec_name = method.value_codec.name
    return InvalidReplyError(
        f"{method.qualname}: the response of the service cannot be read as {codec_name}: {reason}"
    )
