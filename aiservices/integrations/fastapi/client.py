"""An interface whose methods are called on another machine: the other end of ``router``."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from functools import cache, wraps
from inspect import unwrap
from ssl import SSLContext
from types import new_class
from typing import Any, TypeVar, get_origin, overload
from weakref import finalize

import httpx2
from httpx2 import ServerSentEvent
from pydantic import ValidationError
from typing_extensions import TypeForm

from output_parsers.parser.registry import ParserFactory
from output_parsers.result.errors import OutputParsingError, Problem as Unfit, Problem as Unread
from output_parsers.result.reading import Reading

from ...engine.output_format import OutputFormat
from ...engine.results import Shape
from ...engine.streams import Accepted, AsyncStream, AttemptStarted, Stream
from ...interface.stubs import has_own_init
from ...models.errors import (
    AiServiceError,
    BadRequestError,
    BudgetExceededError,
    ContentFilterError,
    DefinitionError,
    DefinitionProblem,
    InvalidReplyError,
    ModelConnectionError,
    ModelError,
    ModelServerError,
    ModelTimeoutError,
    RateLimitError,
    RefusalError,
    ServiceOutputError,
    TruncatedError,
)
from ...models.http.base import PerLoop
from ...models.messages import ChatReply, ReplyDelta
from ...models.strategy import Strategy
from .contract import Contract, Method, attempts_of, contract_of, read_result
from .problems import ARGUMENTS, Problem
from .sse import EventName


class RemoteServiceError(AiServiceError):
    """A service elsewhere told a problem that has no error of its own here; ``problem`` is all of it."""

    def __init__(self, message: str, *, problem: Problem) -> None:
        super().__init__(message)
        self.problem = problem


_FINISHES: dict[str, type[RefusalError | TruncatedError | ContentFilterError]] = {
    "refusal": RefusalError,
    "truncated": TruncatedError,
    "content-filter": ContentFilterError,
}
_MODELS: dict[str, type[ModelError]] = {
    "rate-limit": RateLimitError,
    "timeout": ModelTimeoutError,
    "connection": ModelConnectionError,
    "unavailable": ModelServerError,
    "request-refused": BadRequestError,
    "invalid-reply": InvalidReplyError,
    "model": ModelError,
}


def error_of(problem: Problem, where: str) -> AiServiceError:
    """The error that a problem tells of, without the texts of models, which do not leave their service."""
    name = problem.type.rpartition(":")[2]
    error = _made(name, f"{where}: {problem.title}", problem, where)
    error.attempts = attempts_of(problem.attempts)
    return error


def _made(name: str, said: str, problem: Problem, where: str) -> AiServiceError:
    if name == "unreadable-reply":
        return ServiceOutputError(where, "", [Unread("$", problem.title)])
    if name in _FINISHES:
        return _FINISHES[name](said, text="", reason=problem.title)
    if name == "budget":
        return BudgetExceededError(said, limit=problem.limit or "attempts")
    if name in _MODELS:
        wait = problem.retry_after
        return _MODELS[name](said, status=problem.status, retryable=problem.retryable, retry_after=wait)
    if problem.type == ARGUMENTS.type:
        parts = "; ".join(f"{part.path}: {part.message}" for part in problem.problems)
        said = f"{said}: {parts}" if parts else said
    return RemoteServiceError(said, problem=problem)


def error_of_status(status: int, body: str, where: str, address: str) -> AiServiceError:
    """The error of a response that is no success."""
    try:
        return error_of(Problem.model_validate_json(body), where)
    except ValidationError:  # somebody before the service has answered
        said = f"{where}: {address} answered with the status {status}, and no problem that says why"
        if status == 404:
            said += "; check the address and its prefix"
        made: Callable[..., Any] = ModelServerError if status >= 500 else ModelError
        error: AiServiceError = made(said, status=status, retryable=status in (502, 503, 504))
        return error


class Decoder:
    """Turns events into what an iterator gives, or a Stream is made of; ``whole`` once the last has come."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self.whole = False

    def take(self, event: ServerSentEvent) -> Iterator[Any]:
        """What one event tells. Raises the error that ended the stream."""
        try:
            yield from self._taken(event.event, event.data)
        except AiServiceError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise unreadable(self._method, error) from error

    def finish(self) -> None:
        """Raises ModelConnectionError when the last event has not come."""
        if not self.whole:
            said = f"{self._method.where}: the connection broke before the answer was whole"
            raise ModelConnectionError(said, retryable=True)

    def _taken(self, name: str, data: str) -> Iterator[Any]:
        match name:
            case EventName.TEXT | EventName.ITEM:
                yield self._method.value.read(data)
            case EventName.UNFIT:
                yield _unfit(json.loads(data))
            case EventName.ATTEMPT:
                yield self._attempt(json.loads(data))
            case EventName.DELTA:
                yield ReplyDelta(json.loads(data)["text"])
            case EventName.RESULT:
                self.whole = True
                yield Accepted(read_result(data, self._method.result))
            case EventName.END:
                self.whole = True
            case EventName.ERROR:
                raise error_of(Problem.model_validate_json(data), self._method.where)

    def _attempt(self, said: dict[str, Any]) -> AttemptStarted:
        """The beginning of an answer, with the parser that reads it in the form in which it is written."""
        parser = self._method.value.parser
        if said["field"] is not None:
            parser = parser.enveloped(said["field"])
        wire = OutputFormat(Strategy(said["strategy"]), (), parser, _nowhere, shown=said["shown"])
        return AttemptStarted(said["number"], said["model"], wire)


def _nowhere(reply: ChatReply) -> Reading[Any]:
    raise NotImplementedError("a reply is read where the service runs")


def _unfit(said: dict[str, Any]) -> Any:
    from output_parsers.streaming import ItemError

    return ItemError(said["index"], said["text"], tuple(Unfit(**problem) for problem in said["problems"]))


def unreadable(method: Method, error: Exception) -> InvalidReplyError:
    """The error of an answer that is not what the interface says: the service may have another version."""
    why = (
        "; ".join(map(str, error.problems)) if isinstance(error, OutputParsingError) else type(error).__name__
    )
    said = f"{method.where}: the service answered with something that is no {method.value.name}: {why}"
    return InvalidReplyError(said)


_LARGEST_EVENT = 64 * 1024 * 1024  # bytes; a value with files in it comes as one event
_JSON = {"Content-Type": "application/json", "Accept": "application/json, application/problem+json"}
_EVENTS = {"Content-Type": "application/json", "Accept": "text/event-stream, application/problem+json"}
_PASSING = (httpx2.NetworkError, httpx2.ProxyError, httpx2.RemoteProtocolError)  # the others come again
_DELTAS = {"events": "deltas"}


class Transport:
    """The way to the methods of one service: a client that blocks, and one for each event loop."""

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        timeout: float,
        http: httpx2.Client | None,
        async_http: httpx2.AsyncClient | None,
    ) -> None:
        self._base = base_url.rstrip("/")
        self._headers = dict(headers)
        self._timeout = timeout
        self._within = f"within {timeout:g} s" if http is None and async_http is None else "in time"
        self._http = http
        self._async_http = async_http
        self._made = PerLoop(self._new, httpx2.AsyncClient.aclose, _abandon)

    def call(self, where: str, path: str, body: str) -> str:
        """The answer of a method. Raises AiServiceError."""
        with self._faults(where):
            answer = self._blocking().post(self._url(path), content=body, headers={**_JSON, **self._headers})
        return self._checked(answer, where)

    async def acall(self, where: str, path: str, body: str) -> str:
        """As ``call``, awaited."""
        http = await self._waiting()
        with self._faults(where):
            answer = await http.post(self._url(path), content=body, headers={**_JSON, **self._headers})
        return self._checked(answer, where)

    def events(
        self, where: str, path: str, body: str, *, growing: bool
    ) -> Generator[httpx2.ServerSentEvent, None, None]:
        """The events of a method. Raises AiServiceError."""
        params, headers = _DELTAS if growing else None, {**_EVENTS, **self._headers}
        http, url = self._blocking(), self._url(path)
        with (
            self._faults(where),
            http.sse(
                url,
                method="POST",
                content=body,
                params=params,
                headers=headers,
                max_event_size=_LARGEST_EVENT,
            ) as source,
        ):
            if not source.response.is_success:
                source.response.read()
                self._checked(source.response, where)
            yield from source

    async def aevents(
        self, where: str, path: str, body: str, *, growing: bool
    ) -> AsyncGenerator[httpx2.ServerSentEvent, None]:
        """As ``events``, for an event loop."""
        params, headers = _DELTAS if growing else None, {**_EVENTS, **self._headers}
        http, url = await self._waiting(), self._url(path)
        with self._faults(where):
            async with http.sse(
                url,
                method="POST",
                content=body,
                params=params,
                headers=headers,
                max_event_size=_LARGEST_EVENT,
            ) as source:
                if not source.response.is_success:
                    await source.response.aread()
                    self._checked(source.response, where)
                async for event in source:
                    yield event

    def _url(self, path: str) -> str:
        return self._base + path

    def _new(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(timeout=self._timeout, verify=_trust())

    def _blocking(self) -> httpx2.Client:
        if self._http is None:
            self._http = made = httpx2.Client(timeout=self._timeout, verify=_trust())
            finalize(self, made.close)
        return self._http

    async def _waiting(self) -> httpx2.AsyncClient:
        return await self._made.get() if self._async_http is None else self._async_http

    def _checked(self, answer: httpx2.Response, where: str) -> str:
        if not answer.is_success:
            raise error_of_status(answer.status_code, answer.text, where, self._base)
        return answer.text

    @contextmanager
    def _faults(self, where: str) -> Generator[None, None, None]:
        """What goes wrong on the way, as the errors of a model that is not reached."""
        try:
            yield
        except httpx2.TimeoutException as error:
            said = f"{where}: {self._base} did not answer {self._within}"
            raise ModelTimeoutError(said, retryable=True) from error
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            said = (
                f"{where}: {self._base} cannot be reached, or the connection broke: {type(error).__name__}; "
                "check the address and that the service runs"
            )
            raise ModelConnectionError(said, retryable=isinstance(error, _PASSING)) from error


@cache
def _trust() -> SSLContext:
    """Whom to trust; it takes long to load, and an event loop would stand still for each of its clients."""
    return httpx2.create_ssl_context()


def _abandon(client: httpx2.AsyncClient) -> None:
    """Nothing can be done for it: it closes with the sockets of its loop."""


S = TypeVar("S")
_TIMEOUT = 600.0


@overload
def client(
    interface: type[S],
    base_url: str,
    *,
    paths: Mapping[str, str] | None = ...,
    omit: Collection[str] = ...,
    parsers: Sequence[ParserFactory] = ...,
    headers: Mapping[str, str] | None = ...,
    timeout: float = ...,
    http: httpx2.Client | None = ...,
    async_http: httpx2.AsyncClient | None = ...,
) -> S: ...
@overload
def client(
    interface: Callable[..., S],
    base_url: str,
    *,
    paths: Mapping[str, str] | None = ...,
    omit: Collection[str] = ...,
    parsers: Sequence[ParserFactory] = ...,
    headers: Mapping[str, str] | None = ...,
    timeout: float = ...,
    http: httpx2.Client | None = ...,
    async_http: httpx2.AsyncClient | None = ...,
) -> S: ...
@overload
def client(
    interface: TypeForm[S],
    base_url: str,
    *,
    paths: Mapping[str, str] | None = ...,
    omit: Collection[str] = ...,
    parsers: Sequence[ParserFactory] = ...,
    headers: Mapping[str, str] | None = ...,
    timeout: float = ...,
    http: httpx2.Client | None = ...,
    async_http: httpx2.AsyncClient | None = ...,
) -> S: ...
def client(
    interface: Any,
    base_url: str,
    *,
    paths: Mapping[str, str] | None = None,
    omit: Collection[str] = (),
    parsers: Sequence[ParserFactory] = (),
    headers: Mapping[str, str] | None = None,
    timeout: float = _TIMEOUT,
    http: httpx2.Client | None = None,
    async_http: httpx2.AsyncClient | None = None,
) -> Any:
    """An object of ``interface`` whose methods are those of a service at ``base_url``, prefix included.

    ``paths`` and ``parsers`` are those of the ``router`` there; ``omit`` names the parameters that it fills
    by itself, which are then not sent. ``headers`` go with each request, ``timeout`` is in seconds for each
    wait. ``http`` and ``async_http`` are clients of one's own; those are closed by whoever made them.

    Blocking methods block, async ones are awaited, and streams are as those of a local service. Arguments
    have to be of the types that are declared: ValueError tells of others, TypeError of those that do not fit
    the signature. Errors are those of a local service as far as they can be told, without any text of a
    model; RemoteServiceError is all else. Raises DefinitionError with all problems at once.
    """
    cls = get_origin(interface) or interface
    contract = contract_of(interface, parsers=parsers)
    half = http is not None and async_http is None
    problems = [
        DefinitionProblem(contract.name, said) for said in _wrong(contract, paths or {}, omit, half=half)
    ]
    if problems:
        raise DefinitionError(problems)
    transport = Transport(base_url, headers or {}, timeout, http, async_http)

    def body(namespace: dict[str, Any]) -> None:
        namespace["__module__"], namespace["__doc__"] = cls.__module__, cls.__doc__
        if not has_own_init(cls):
            namespace["__init__"] = _no_arguments
        for name, method in contract.methods.items():
            path = (paths or {}).get(name, method.path)
            namespace[name] = _method(unwrap(getattr(cls, name)), method, path, transport, frozenset(omit))

    return new_class(cls.__name__, (cls,), exec_body=body)()


def _wrong(
    contract: Contract, paths: Mapping[str, str], omit: Collection[str], *, half: bool
) -> Iterator[str]:
    """What was given and cannot be meant."""
    methods = contract.methods.values()
    if half and any(method.returns.asynchronous for method in methods):
        yield "it has async methods, and http is given alone; pass async_http=httpx2.AsyncClient(...) too"
    for name in paths:
        if name not in contract.methods:
            yield f"paths names {name}, which is no method of it"
    parameters = {name for method in methods for name in method.signature.parameters}
    for name in omit:
        if name not in parameters:
            yield f"omit names {name}, which no method has"


def _no_arguments(self: object) -> None:
    """It holds nothing but the way to the service."""


def _method(stub: Any, method: Method, path: str, transport: Transport, omit: Collection[str]) -> Any:
    """The function that stands in for a stub."""
    asynchronous = method.returns.asynchronous
    where, written = method.where, method.written

    def call(self: object, /, *args: Any, **kwargs: Any) -> Any:
        return _answer(method, transport.call(where, path, written(args, kwargs, omit)))

    async def acall(self: object, /, *args: Any, **kwargs: Any) -> Any:
        return _answer(method, await transport.acall(where, path, written(args, kwargs, omit)))

    def stream(self: object, /, *args: Any, **kwargs: Any) -> Any:
        body = written(args, kwargs, omit)
        given = (_apieces if asynchronous else _pieces)(method, path, transport, body)
        if method.returns.shape is not Shape.STREAM:
            return given
        made: Any = AsyncStream if asynchronous else Stream
        return made(given, _itself)

    made: Any = wraps(stub)(stream if method.streams else acall if asynchronous else call)
    made.__isabstractmethod__ = False
    return made


def _itself(result: Any) -> Any:
    return result


def _answer(method: Method, text: str) -> Any:
    try:
        return (
            read_result(text, method.result)
            if method.returns.shape is Shape.RESULT
            else method.value.read(text)
        )
    except OutputParsingError as error:
        raise unreadable(method, error) from error


def _pieces(method: Method, path: str, transport: Transport, body: str) -> Generator[Any, None, None]:
    decoder = Decoder(method)
    growing = method.returns.shape is Shape.STREAM
    with closing(transport.events(method.where, path, body, growing=growing)) as events:
        for event in events:
            yield from decoder.take(event)
    decoder.finish()


async def _apieces(method: Method, path: str, transport: Transport, body: str) -> AsyncGenerator[Any, None]:
    decoder = Decoder(method)
    growing = method.returns.shape is Shape.STREAM
    async with aclosing(transport.aevents(method.where, path, body, growing=growing)) as events:
        async for event in events:
            for piece in decoder.take(event):
                yield piece
    decoder.finish()
