"""The routes of a service: one for each method, with the types of its arguments and its answer."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Generic, TypeVar

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter, Body, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from output_parsers.parser.registry import ParserFactory
from output_parsers.result.errors import OutputParsingError, shorten
from output_parsers.types.target import type_name

from ...engine.results import Shape
from ...models.errors import DefinitionError, DefinitionProblem
from ...models.messages import ChatReply
from .contract import Argument, Contract, Method, contract_of, write_result
from .openapi import PROBLEM, problem_schema, responses_of, schema_type
from .problems import (
    JsonText,
    ProblemError,
    WrongPart,
    json_response,
    not_json,
    of_arguments,
    parts_of,
    problem_response,
    problem_told,
    unfit_request,
    wrong_arguments,
)
from .sse import Encoder, EventName, Frame, Growing, Telling, WireChunks, error_frame, event_schema

T = TypeVar("T")
_END: Any = object()


async def called(
    function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], room: anyio.CapacityLimiter
) -> Any:
    """What a method gives. A blocking one runs in a thread, of which as many run as there is ``room``."""
    if asyncio.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    # A thread cannot be stopped: where the client is gone, it goes on to its end unheard.
    return await run_sync(partial(function, *args, **kwargs), abandon_on_cancel=True, limiter=room)


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` gives. When the client goes away before, it is cancelled, and ClientDisconnect raised.

    The body of the request has been read: what ``receive`` gives next is that the client has gone.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for one in (task, gone):
            if not one.done():
                one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    if (await receive())[
        "type"
    ] != "http.disconnect":  # of a server that says something else nothing is known
        await asyncio.get_running_loop().create_future()


async def pieces_of(iterator: Any, source: Any, room: anyio.CapacityLimiter) -> AsyncGenerator[Any, None]:
    """What an iterator gives, blocking or async; ``source``, which it is of, is closed whatever happens."""
    asynchronous = hasattr(iterator, "__aiter__")
    try:
        if asynchronous:
            async for piece in iterator:
                yield piece
        else:
            given: Iterator[Any] = iter(iterator)
            while (piece := await _to_the_end(run_sync(next, given, _END, limiter=room))) is not _END:
                yield piece
    finally:
        with anyio.CancelScope(shield=True):
            if asynchronous and hasattr(source, "aclose"):
                await source.aclose()
            elif hasattr(source, "close"):  # a list has nothing to close
                await run_sync(source.close, limiter=room)


async def _to_the_end(step: Coroutine[Any, Any, T]) -> T:
    """What a step in a thread gives. Cancelled, it is waited for: what it works at cannot be closed yet."""
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


_EXPECTED = {"integer": "an integer", "number": "a number", "boolean": "true or false"}
_JSON = re.compile(r"true|false|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_KINDS = ("string", "integer", "number", "boolean")


def is_simple(method: Method) -> bool:
    """Whether each argument is a text, a number, a yes or no, or several of one of them."""
    return all(_kind(_inside(argument)) is not None for argument in method.arguments)


def allowed_of(method: Method) -> tuple[str, ...]:
    """The HTTP methods that it answers."""
    return ("POST", "GET") if is_simple(method) else ("POST",)


def query_parameters(method: Method) -> list[dict[str, Any]]:
    """The parameters as the OpenAPI document has them."""
    return [
        {"name": one.name, "in": "query", "required": one.required, "schema": _shown(one)}
        for one in method.arguments
    ]


def query_arguments(request: Request, method: Method) -> dict[str, Any]:
    """The arguments by name. Raises ProblemError with all that do not fit."""
    given = request.query_params
    known = {argument.name: argument for argument in method.arguments}
    parts = [
        WrongPart(path=f"$.{name}", message="there is no such argument")
        for name in given
        if name not in known
    ]
    found: dict[str, Any] = {}
    for name, argument in known.items():
        texts = given.getlist(name)
        if not texts:
            if argument.required:
                parts.append(WrongPart(path=f"$.{name}", message="it is missing"))
        elif len(texts) > 1 and not _is_list(argument):
            parts.append(WrongPart(path=f"$.{name}", message=f"it is given {len(texts)} times"))
        else:
            try:
                found[name] = argument.codec.read(_json_of(texts, argument))
            except OutputParsingError as error:
                parts += _wrong(texts, argument, error)
    if parts:
        raise ProblemError(wrong_arguments(parts, method.where))
    return found


def _wrong(texts: list[str], argument: Argument, error: OutputParsingError) -> list[WrongPart]:
    """What is wrong with the texts of one argument."""
    path, kind = f"$.{argument.name}", _kind(_inside(argument))
    if kind == "string" or all(_JSON.fullmatch(text) for text in texts):
        return parts_of(error, path)
    odd = next(text for text in texts if not _JSON.fullmatch(text))
    return [WrongPart(path=path, message=f"expected {_EXPECTED[str(kind)]}", found=shorten(odd, 60))]


def _json_of(texts: list[str], argument: Argument) -> str:
    """The JSON that the texts of a query stand for: strings are written without quotes."""
    quoted = _kind(_inside(argument)) == "string"
    written = [json.dumps(text, ensure_ascii=False) if quoted else text for text in texts]
    return f"[{', '.join(written)}]" if _is_list(argument) else written[0]


def _is_list(argument: Argument) -> bool:
    return argument.codec.schema.get("type") == "array"


def _shown(argument: Argument) -> Mapping[str, Any]:
    """The schema of a parameter: null has no form in a query, and a parameter may be left out instead."""
    return argument.codec.schema if _is_list(argument) else _inside(argument)


def _inside(argument: Argument) -> Mapping[str, Any]:
    """The schema of the value itself: of an item of a list, of one that may be left out."""
    schema = argument.codec.schema
    if _is_list(argument):
        items: Mapping[str, Any] = schema.get("items") or {}
        return items
    members = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return members[0] if len(members) == 1 and not argument.required else schema


def _kind(schema: Mapping[str, Any]) -> str | None:
    kind = schema.get("type")
    return kind if kind in _KINDS and isinstance(kind, str) else None


S = TypeVar("S")


class Provider(Generic[S]):
    """Gives one service to all requests: ``Annotated[Service, Depends(provider)]``."""

    def __init__(self, service: S) -> None:
        self.service = service

    async def __call__(self) -> S:  # async, for FastAPI runs what blocks in a thread
        return self.service


def provide(service: S) -> Provider[S]:
    """A dependency that gives a service, made by ``create`` or by hand.

    >>> sentiment = provide(create(SentimentAnalyzer, model))  # doctest: +SKIP
    >>> Analyzer = Annotated[SentimentAnalyzer, Depends(sentiment)]  # doctest: +SKIP

    ``create`` tells all problems when the module is loaded, and no request waits for it. In tests
    ``app.dependency_overrides[sentiment] = lambda: FakeAnalyzer()`` puts another one in its place.
    """
    return Provider(service)


EVENT_STREAM = "text/event-stream"
_PING = b": ping\n\n"
_PING_SECONDS = 15.0  # proxies give up connections on which nothing is said
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(JSONResponse):
    """What the OpenAPI document takes a response with events for: it has a schema, that of one event."""

    media_type = EVENT_STREAM


class _Events(StreamingResponse):
    """A response with events, which ends its source when the client is gone."""

    def __init__(self, sent: AsyncGenerator[bytes, None], frames: AsyncGenerator[Frame, None]) -> None:
        super().__init__(sent, headers=_HEADERS, media_type=EVENT_STREAM)
        self._sources = (sent, frames)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(receive, self.stream_response(send))
        except ClientDisconnect:
            pass  # nobody hears the rest
        finally:
            with anyio.CancelScope(shield=True):
                for source in self._sources:  # the second is not closed by a first that has not begun
                    await source.aclose()
        if self.background is not None:
            await self.background()


async def streamed(
    request: Request,
    method: Method,
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    telling: Telling,
    room: anyio.CapacityLimiter,
) -> Response:
    """The events of a call. What fails before there is anything to show is raised."""
    frames = _frames(method, function, args, kwargs, telling, room)
    try:
        first = await while_connected(request.receive, _first(frames))
    except BaseException:
        with anyio.CancelScope(shield=True):
            await frames.aclose()
        raise
    return _Events(_sent(method, first, frames), frames)


async def _frames(
    method: Method,
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    telling: Telling,
    room: anyio.CapacityLimiter,
) -> AsyncGenerator[Frame, None]:
    waits = method.returns.asynchronous
    stream = function(*args, **kwargs) if waits else await called(function, args, kwargs, room)
    growing = method.returns.shape is Shape.STREAM
    encoder: Encoder = Growing(method, stream, telling) if growing else WireChunks(method)
    iterator = stream.events() if growing else stream
    pieces = pieces_of(iterator, stream, room)
    try:
        async for piece in pieces:
            for frame in encoder.take(piece):
                yield frame
        for frame in encoder.end():
            yield frame
    finally:
        await pieces.aclose()


async def _first(frames: AsyncGenerator[Frame, None]) -> list[Frame]:
    """The events up to the first one that shows something."""
    first = []
    async for frame in frames:
        first.append(frame)
        if frame.name is not EventName.ATTEMPT:
            break
    return first


async def _sent(
    method: Method, first: list[Frame], frames: AsyncGenerator[Frame, None]
) -> AsyncGenerator[bytes, None]:
    """All events as bytes; where the model takes its time, a ping keeps the connection."""
    waiting: asyncio.Future[Frame | None] | None = None
    try:
        for frame in first:
            yield frame.wire
        while True:
            waiting = waiting or asyncio.ensure_future(anext(frames, None))
            done, _ = await asyncio.wait((waiting,), timeout=_PING_SECONDS)
            if not done:
                yield _PING
                continue
            next_frame, waiting = waiting.result(), None
            if next_frame is None:
                return
            yield next_frame.wire
    except Exception as error:
        yield error_frame(problem_told(error, method.where)).wire
    finally:
        with anyio.CancelScope(shield=True):
            if waiting is not None and not waiting.done():
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            await frames.aclose()


_FILLED = "filled_"  # so that a parameter may be called request


class Endpoints:
    """What one method does for a request. ``filled`` are the dependencies of what callers do not give.

    Each endpoint knows the HTTP methods that are ``allowed`` at its path, the other one's among them.
    """

    def __init__(
        self,
        method: Method,
        provider: Provider[Any],
        filled: Mapping[str, Callable[..., Any]],
        room: anyio.CapacityLimiter,
    ) -> None:
        self._method = method
        self._provider = provider
        self._filled = {name: filled[name] for name in method.withheld if name in filled}
        self._room = room

    def of_body(self, allowed: Sequence[str]) -> Callable[..., Any]:
        """The endpoint that takes its arguments as a JSON object."""

        async def endpoint(request: Request, given: Any, service: Any, **more: Any) -> Response:
            telling = more.pop("events", Telling.SNAPSHOTS)
            return await self._answer(request, service, {**given, **_named(more)}, telling)

        body = schema_type(self._method.body.schema, self._method.service, self._read)
        parameters: dict[str, Any] = {"given": Annotated[body, Body()]}
        if self._method.returns.shape is Shape.STREAM:
            parameters["events"] = Annotated[Telling, Query(description="how it is told while it grows")]
        return self._signed(endpoint, parameters, allowed)

    def of_query(self, allowed: Sequence[str]) -> Callable[..., Any]:
        """The endpoint that takes its arguments from the query."""

        async def endpoint(request: Request, service: Any, **more: Any) -> Response:
            given = query_arguments(request, self._method)
            await request.body()  # after it comes only that the client has gone
            return await self._answer(request, service, {**given, **_named(more)}, Telling.SNAPSHOTS)

        return self._signed(endpoint, {}, allowed)

    def _read(self, body: Any) -> dict[str, Any]:
        """The arguments of a body. Raises ProblemError."""
        where = self._method.where
        if not isinstance(body, JsonText):
            raise ProblemError(not_json(where))
        try:
            return self._method.body.read(body.decode())
        except OutputParsingError as error:
            raise ProblemError(of_arguments(error, where)) from error
        except UnicodeDecodeError as error:
            raise ProblemError(not_json(where)) from error

    async def _answer(
        self, request: Request, service: Any, given: Mapping[str, Any], telling: Telling
    ) -> Response:
        """The answer to a call. Raises ProblemError."""
        method, room = self._method, self._room
        args, kwargs = method.bound(given)
        function = getattr(service, method.name)
        try:
            if method.streams:
                return await streamed(request, method, function, args, kwargs, telling, room)
            value = await while_connected(request.receive, called(function, args, kwargs, room))
            return json_response(_written(method, value))
        except ClientDisconnect:
            raise
        except Exception as error:
            raise ProblemError(problem_told(error, method.where)) from error

    def _signed(
        self, endpoint: Any, parameters: Mapping[str, Any], allowed: Sequence[str]
    ) -> Callable[..., Any]:
        """An endpoint with the signature by which FastAPI gives it what it needs."""
        hints: dict[str, Any] = {
            "request": Request,
            **parameters,
            "service": Annotated[Any, Depends(self._provider)],
            **{f"{_FILLED}{name}": Annotated[Any, Depends(given)] for name, given in self._filled.items()},
        }
        kind, defaults = inspect.Parameter.KEYWORD_ONLY, {"events": Telling.SNAPSHOTS}
        endpoint.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    name, kind, default=defaults.get(name, inspect.Parameter.empty), annotation=hint
                )
                for name, hint in hints.items()
            ]
        )
        endpoint.__name__ = self._method.name
        endpoint.where = self._method.where
        endpoint.allowed = allowed
        signed: Callable[..., Any] = endpoint
        return signed


def _named(filled: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(_FILLED): value for name, value in filled.items()}


def _written(method: Method, value: Any) -> str:
    if method.returns.shape is Shape.RESULT:
        return write_result(value, method.value)
    return method.value.write(replace(value, raw=None) if isinstance(value, ChatReply) else value)


THREADS = 40
_GONE = 499  # what nobody hears: the client closed the connection


def router(
    service: object,
    *,
    interface: Any = None,
    prefix: str = "",
    paths: Mapping[str, str] | None = None,
    filled: Mapping[str, Callable[..., Any]] | None = None,
    parsers: Sequence[ParserFactory] = (),
    threads: int = THREADS,
    **settings: Any,
) -> APIRouter:
    """The endpoints of a service, as ``app.include_router`` takes them.

    ``service`` is what ``create`` made, or the ``provide`` of it, which tests can override. For an object of
    another kind say its ``interface``. ``paths`` gives methods another path than their name, as in
    ``{"is_positive": "/boolean"}``. ``filled`` names parameters that callers do not give, with the dependency
    of FastAPI that gives each: the user who is logged in, say. ``parsers`` are those that ``create`` was
    given. Blocking methods run in ``threads`` of their own. ``settings`` are those of APIRouter: ``tags``,
    ``dependencies`` and so on.

    A method answers POST with a JSON object of its arguments, and GET where all of them are simple. Streams
    are Server-Sent Events; errors are problems (RFC 9457). Raises DefinitionError with all problems at once.
    """
    provider = service if isinstance(service, Provider) else Provider(service)
    contract = contract_behind(provider, interface, parsers, filled or {})
    check_names([contract], paths or {}, filled or {})
    return routes_of(contract, provider, paths or {}, filled or {}, threads, {"prefix": prefix, **settings})


def contract_behind(
    provider: Provider[Any], interface: Any, parsers: Sequence[ParserFactory], filled: Mapping[str, Any]
) -> Contract:
    """The contract of a service, by its interface or what it is made of."""
    return contract_of(interface or type(provider.service), parsers=parsers, filled=tuple(filled))


def check_names(
    contracts: Sequence[Contract], paths: Mapping[str, str], filled: Mapping[str, Callable[..., Any]]
) -> None:
    """Raises DefinitionError for parameters that nobody gives a value, and for names that no method has."""
    methods = [method for contract in contracts for method in contract.methods.values()]
    parameters = {name for method in methods for name in method.withheld}
    names = {method.name for method in methods}
    where = ", ".join(contract.name for contract in contracts)
    unknown = [f"filled names {name}, which no method has" for name in filled if name not in parameters]
    unknown += [f"paths names {name}, which is no method of it" for name in paths if name not in names]
    problems = [fault for method in methods for fault in _unfilled(method, filled)]
    problems += [DefinitionProblem(where, said) for said in unknown]
    if problems:
        raise DefinitionError(problems)


def _unfilled(method: Method, filled: Mapping[str, Any]) -> list[DefinitionProblem]:
    said = "a caller does not give it, and nobody else does; name a dependency for it in filled"
    return [
        DefinitionProblem(method.where, f"the parameter {name}: {said}")
        for name in method.withheld
        if name not in filled and method.signature.parameters[name].default is inspect.Parameter.empty
    ]


def routes_of(
    contract: Contract,
    provider: Provider[Any],
    paths: Mapping[str, str],
    filled: Mapping[str, Callable[..., Any]],
    threads: int,
    settings: Mapping[str, Any],
) -> APIRouter:
    """The endpoints of a contract, whose names have been checked."""
    made = APIRouter(route_class=ServiceRoute, **{"tags": [contract.name], **settings})
    room = anyio.CapacityLimiter(threads)
    for method in contract.methods.values():
        endpoints = Endpoints(method, provider, filled, room)
        _add(made, method, paths.get(method.name, method.path), endpoints)
    return made


class ServiceRoute(APIRoute):
    """A route whose arguments are read from the text of the body, and whose errors are problems."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        where = getattr(self.endpoint, "where", self.name)

        async def handler(request: Request) -> Response:
            try:
                return await handle(_TextRequest(request.scope, request.receive))
            except ProblemError as error:
                return problem_response(error.problem)
            except RequestValidationError as error:
                return problem_response(unfit_request(error, where))
            except ClientDisconnect:
                return Response(status_code=_GONE)

        return handler

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed: Sequence[str] = getattr(self.endpoint, "allowed", ())
        if allowed and scope["method"] not in (self.methods or ()):
            raise HTTPException(
                405, headers={"Allow": ", ".join(allowed)}
            )  # the other route of its path has one
        await super().handle(scope, receive, send)


class _TextRequest(Request):
    """A request whose JSON is its text: who reads it as a type reads numbers to their last digit."""

    async def json(self) -> Any:
        return JsonText(await self.body())


def _add(made: APIRouter, method: Method, path: str, endpoints: Endpoints) -> None:
    answer = method.result if method.returns.shape is Shape.RESULT else method.value
    schema = event_schema(method) if method.streams else answer.schema
    said: dict[str, Any] = {
        "response_model": schema_type(schema, method.service, beside={PROBLEM: problem_schema()}),
        "response_class": EventStream if method.streams else JSONResponse,
        "responses": responses_of(method),
        "summary": method.doc.partition("\n")[0] or method.name.replace("_", " "),
        "description": method.doc or None,
    }
    operation, allowed = f"{method.service}.{method.name}", allowed_of(method)
    posted: dict[str, Any] = {"methods": ["POST"], "name": method.name, "operation_id": operation}
    made.add_api_route(path, endpoints.of_body(allowed), **posted, **said)
    if "GET" in allowed:
        got: dict[str, Any] = {
            "methods": ["GET"],
            "name": f"{method.name}_get",
            "operation_id": f"{operation}.get",
        }
        extra = {"parameters": query_parameters(method)}
        made.add_api_route(path, endpoints.of_query(allowed), openapi_extra=extra, **got, **said)


_SHAPES = {
    Shape.RESULT: "Result",
    Shape.STREAM: "Stream",
    Shape.ITEMS: "Iterator",
    Shape.TEXT_STREAM: "Iterator",
}


def description_of(
    contract: Contract, prefix: str = "", paths: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A service as plain JSON.

    It has the ``name``, the ``doc`` and the ``methods``, each with its ``name``, ``doc``, ``signature`` as it
    would be written in Python, ``path``, the HTTP methods in ``http``, the ``shape`` of its answer, its
    ``arguments`` (``name``, ``type``, ``role``, ``required``, ``default`` as Python writes it, ``schema``),
    and ``returns`` (``type``, ``schema``, and for streams that of an ``event``).
    """
    return {
        "name": contract.name,
        "doc": contract.doc,
        "methods": [
            _method(method, prefix + (paths or {}).get(method.name, method.path))
            for method in contract.methods.values()
        ],
    }


def _method(method: Method, path: str) -> dict[str, Any]:
    returns = {"type": method.value.name, "schema": method.value.schema}
    if method.streams:
        returns["event"] = event_schema(method)
    return {
        "name": method.name,
        "doc": method.doc,
        "signature": _signature(method),
        "path": path,
        "http": list(allowed_of(method)),
        "shape": method.returns.shape.value,
        "asynchronous": method.returns.asynchronous,
        "arguments": [_argument(argument, method) for argument in method.arguments],
        "body": method.body.schema,
        "returns": returns,
    }


def _argument(argument: Argument, method: Method) -> dict[str, Any]:
    default = method.signature.parameters[argument.name].default
    return {
        "name": argument.name,
        "type": f"list[{argument.declared}]" if argument.many else argument.declared,
        "role": None if argument.role is None else argument.role.value,
        "required": argument.required,
        "default": None if argument.required or argument.many else repr(default),
        "schema": argument.codec.schema,
    }


def _signature(method: Method) -> str:
    """A method as it is written: ``is_positive(text: str) -> bool``."""
    parameters = []
    for argument in method.arguments:
        said = method.signature.parameters[argument.name]
        star = "*" if argument.many else ""
        default = "" if argument.required or argument.many else f" = {said.default!r}"
        parameters.append(f"{star}{argument.name}: {argument.declared}{default}")
    awaited = "async " if method.returns.asynchronous and not method.streams else ""
    return f"{awaited}{method.name}({', '.join(parameters)}) -> {_returned(method)}"


def _returned(method: Method) -> str:
    """What a method returns, as it is written."""
    shape, inner = method.returns.shape, type_name(method.returns.form)
    if shape is Shape.VALUE:
        return inner
    inner = f"{inner} | ItemError" if method.returns.keeps_errors else inner
    kind = "Async" if method.streams and method.returns.asynchronous else ""
    return f"{kind}{_SHAPES[shape]}[{inner}]"


_DESCRIPTION = "/services.json"


def app(
    services: object | Mapping[str, object],
    *,
    interface: Any = None,
    paths: Mapping[str, str] | None = None,
    filled: Mapping[str, Callable[..., Any]] | None = None,
    parsers: Sequence[ParserFactory] = (),
    threads: int = THREADS,
    **settings: Any,
) -> FastAPI:
    """An application with the endpoints of a service, or of several by their prefixes.

    >>> app(create(SentimentAnalyzer, model))  # doctest: +SKIP
    >>> app({"/sentiment": analyzer, "/film": expert})  # doctest: +SKIP

    ``/docs`` and ``/openapi.json`` are those of FastAPI, to which ``settings`` go; ``/services.json`` is what
    ``description_of`` tells of each service. All else is as in ``router``, for all services: ``paths`` and
    ``filled`` name what one of them has, ``threads`` are those of each. Raises DefinitionError.
    """
    by_prefix = services if isinstance(services, Mapping) else {"": services}
    known, given = paths or {}, filled or {}
    providers = [one if isinstance(one, Provider) else Provider(one) for one in by_prefix.values()]
    contracts = [contract_behind(provider, interface, parsers, given) for provider in providers]
    check_names(contracts, known, given)
    title = ", ".join(contract.name for contract in contracts)
    made = FastAPI(**{"title": title, "separate_input_output_schemas": False, **settings})
    for prefix, provider, contract in zip(by_prefix, providers, contracts, strict=True):
        made.include_router(routes_of(contract, provider, known, given, threads, {"prefix": prefix}))
    described = [
        description_of(contract, prefix, known) for prefix, contract in zip(by_prefix, contracts, strict=True)
    ]

    @made.get(_DESCRIPTION, include_in_schema=False)
    async def services_json() -> JSONResponse:
        return JSONResponse(described)

    return made
