"""Serve a service's methods over HTTP with FastAPI: ``router``, ``app`` and ``provide``.

Each method becomes a POST route that takes its arguments as a JSON object. With ``allow_get`` it is also a
GET route, if a query string can hold the arguments. Arguments are read and results are written by the codecs
of the ``Contract``, not by pydantic.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from fastapi import APIRouter, Body, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from output_parsers.parser.type_parser import ParserFactory
from output_parsers.result.errors import OutputParsingError, shorten

from ...engine.approval import ExternalResultError
from ...models.arguments import is_at_least, is_count
from ...models.errors import DefinitionError, DefinitionProblem, SuspendedCallError
from ...models.media_policy import MediaPolicy
from ...remote.calls import (
    DEFAULT_MAX_WAITING_CALLS,
    DEFAULT_THREADS,
    LARGE_ARGUMENTS,
    ApprovalSettings,
    ApprovalStates,
    MethodCall,
    ProblemError,
    ResumedCall,
    Threads,
    log_problem,
    read_arguments,
    run_reader,
)
from ...remote.codec import JsonCodec, write_result, write_value
from ...remote.contract import (
    RESUME_PATH,
    Argument,
    Contract,
    Method,
    QueryParameter,
    StreamMode,
    caller_problems,
    contract_of,
    event_schema,
    resume_codec,
    server_argument_problems,
)
from ...remote.description import description_of
from ...remote.problems import (
    WrongPart,
    argument_problem,
    body_too_large_problem,
    headers_too_large_problem,
    http_method_problem,
    not_json_problem,
    suspended_call_problem,
    wrong_parts,
)
from ...remote.request_check import NO_STORE, RequestCheck, host_problems, problem_response
from ...remote.resumable_streams import ResumableStreams
from ...service.methods import is_service_method, service_method_of
from ...service.signatures import ReturnShape
from .openapi import (
    PROBLEM_SCHEMA_NAME,
    error_responses,
    problem_schema,
    query_parameters,
    schema_type,
)
from .responses import (
    LOGGER,
    DocumentedEventStream,
    cancel_on_disconnect,
    json_response,
    stream_method,
    validation_problem,
)

S = TypeVar("S")

DEFAULT_MAX_BODY_SIZE = 5 * 1024 * 1024
MAX_HEADERS_SIZE = 32 * 1024
_DESCRIPTION_PATH = "/services.json"
_CLIENT_CLOSED_REQUEST = 499  # the status of nginx for it; only logs and middleware see the response
# Prefix of server arguments in an endpoint's signature, so that a method may have a parameter named
# "request".
_SERVER_PREFIX = "server_"
_EVENTS_DESCRIPTION = "how an unfinished value is sent"
_EXPECTED = {"integer": "an integer", "number": "a number", "boolean": "true or false"}
_JSON_SCALAR = re.compile(r"true|false|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")


# --- Public functions ---


class Provider(Generic[S]):
    """A FastAPI dependency that returns the same service for every request."""

    def __init__(self, service: S) -> None:
        self.service = service

    async def __call__(self) -> S:  # async, because FastAPI would start a thread for a blocking dependency
        return self.service


def provide(service: S) -> Provider[S]:
    """Return a FastAPI dependency that provides a service to endpoints.

    >>> sentiment = provide(create(SentimentAnalyzer, model))  # doctest: +SKIP
    >>> Analyzer = Annotated[SentimentAnalyzer, Depends(sentiment)]  # doctest: +SKIP

    The service is created when the module is imported, so ``create`` reports problems at once and no request
    waits for it. In tests ``app.dependency_overrides[sentiment] = lambda: FakeAnalyzer()`` replaces it.
    """
    _check_service(service)
    return Provider(service)


def _check_service(service: object, prefix: str = "") -> None:
    """Raise DefinitionError if an object is not a service, or if its URL prefix is invalid."""
    problems = []
    if isinstance(service, type):
        name = service.__name__
        problems.append(f"{name} is an interface; pass the object that create({name}, model) returns")
    elif isinstance(service, (list, tuple, set, str, Mapping)):
        message = "pass one service, or to app a dict of prefixes and services"
        problems.append(f"{type(service).__name__} is not a service; {message}")
    if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
        problems.append(f"the prefix {prefix!r} must start with '/' and not end with it")
    if problems:
        raise DefinitionError([DefinitionProblem("fastapi", message) for message in problems])


def router(
    service: object,
    *,
    interface: object = None,
    prefix: str = "",
    paths: Mapping[str, str] | None = None,
    server_arguments: Mapping[str, Callable[..., object]] | None = None,
    caller_arguments: Collection[str] = (),
    parsers: Sequence[ParserFactory] = (),
    allow_get: bool = False,
    threads: int = DEFAULT_THREADS,
    max_waiting_calls: int = DEFAULT_MAX_WAITING_CALLS,
    max_body_size: int = DEFAULT_MAX_BODY_SIZE,
    approvals: ApprovalSettings | None = None,
    media: MediaPolicy | None = None,
    keep_streams: float | None = None,
    **settings: object,
) -> APIRouter:
    """Create a FastAPI router with one route for each method of a service.

    Args:
        service: A service that ``create`` returned, or the result of ``provide``, which tests can override.
        interface: The Protocol or ABC, if the service is another kind of object.
        prefix: The URL path before the path of each method.
        paths: Other paths for some methods, by method name: ``{"is_positive": "/boolean"}``.
        server_arguments: FastAPI dependencies for parameters that callers must not pass, by parameter name,
            for example the logged-in user.
        caller_arguments: The MemoryId, UserName and CallId parameters that callers may pass. Each can then
            continue every conversation, so they need a dependency in server_arguments otherwise.
        parsers: The parser factories that were passed to ``create``.
        allow_get: True to answer GET as well, if a query string can hold the arguments. Any web page can then
            let the browsers of its visitors call the methods, for example with an image.
        threads: The maximum number of blocking methods of this router at the same time.
        max_waiting_calls: The maximum number of further blocking calls that wait for a thread. Further calls
            get the status 503.
        max_body_size: The maximum number of bytes in the body of a request. Larger ones get the status 413.
        approvals: Lets callers approve tool calls: the problem of a call that waits has the tool calls and a
            signed state, and each method with tools gets an endpoint ``/resume`` that continues it.
            Anyone who can call it can approve. None leaves approvals to the program.
        media: Which images, sounds and files callers may pass; None for all.
        keep_streams: The seconds for which a stream continues, and its events are kept, after its caller has
            lost the connection, so that the caller can continue it with ``Last-Event-ID``. None means 60 for
            durable calls; others end at once, because they cost money and the caller may not come back.
        settings: Other arguments of APIRouter, such as ``tags`` and ``dependencies``.

    A method answers POST with a JSON object of its arguments. Streams are Server-Sent Events. Errors are
    problems (RFC 9457). Raises DefinitionError with all problems at once.
    """
    _check_service(service, prefix)
    provider = service if isinstance(service, Provider) else Provider(service)
    contract = contract_of_provider(provider, interface, parsers, server_arguments or {}, media)
    route_settings = RouteSettings(
        paths or {},
        server_arguments or {},
        allow_get,
        threads,
        max_waiting_calls,
        max_body_size,
        approvals,
        keep_streams,
    )
    _check_settings([(contract, provider)], route_settings, caller_arguments)
    return _routes(contract, provider, route_settings, {"prefix": prefix, **settings})


def app(
    services: object | Mapping[str, object],
    *,
    interface: object = None,
    paths: Mapping[str, str] | None = None,
    server_arguments: Mapping[str, Callable[..., object]] | None = None,
    caller_arguments: Collection[str] = (),
    parsers: Sequence[ParserFactory] = (),
    allow_get: bool = False,
    allowed_hosts: Collection[str] | None = None,
    threads: int = DEFAULT_THREADS,
    max_waiting_calls: int = DEFAULT_MAX_WAITING_CALLS,
    max_body_size: int = DEFAULT_MAX_BODY_SIZE,
    approvals: ApprovalSettings | None = None,
    media: MediaPolicy | None = None,
    keep_streams: float | None = None,
    **settings: object,
) -> FastAPI:
    """Create a FastAPI application that serves one service, or several under different path prefixes.

    >>> app(create(SentimentAnalyzer, model))  # doctest: +SKIP
    >>> app({"/sentiment": analyzer, "/film": expert})  # doctest: +SKIP

    ``/docs`` and ``/openapi.json`` are those of FastAPI, which receives ``settings``. ``/docs`` loads nothing
    from other hosts. ``redoc_url="/redoc"`` adds ReDoc, which loads its logo from elsewhere.
    ``/services.json`` returns a list with the ``description_of`` each service.

    ``allowed_hosts`` are the host names of the application, such as ``"api.example.com"`` or
    ``"*.example.com"``. Requests for other hosts are refused, except for IP addresses and localhost. This
    prevents DNS rebinding, by which a web page reaches a server in the network of its visitor. None allows
    all hosts.

    The other arguments (``interface``, ``paths``, ``server_arguments``, ``caller_arguments``, ``parsers``,
    ``allow_get``, ``threads``, ``max_waiting_calls``, ``max_body_size``, ``approvals``, ``media`` and
    ``keep_streams``) are those of ``router`` and apply to all services; ``threads`` and
    ``max_waiting_calls`` are per service.
    Raises DefinitionError with all problems at once.
    """
    by_prefix = services if isinstance(services, Mapping) else {"": services}
    for prefix, service in by_prefix.items():
        _check_service(service, prefix)
    route_settings = RouteSettings(
        paths or {},
        server_arguments or {},
        allow_get,
        threads,
        max_waiting_calls,
        max_body_size,
        approvals,
        keep_streams,
    )
    providers = [
        service if isinstance(service, Provider) else Provider(service) for service in by_prefix.values()
    ]
    contracts = [
        contract_of_provider(provider, interface, parsers, route_settings.server_arguments, media)
        for provider in providers
    ]
    served = list(zip(contracts, providers, strict=True))
    _check_settings(served, route_settings, caller_arguments, allowed_hosts)
    title = ", ".join(contract.name for contract in contracts)
    # Input and output schemas are equal here. Separate ones would double each component of the document.
    defaults = {"title": title, "separate_input_output_schemas": False, "redoc_url": None}
    application = _new_application({**defaults, **settings})
    for prefix, provider, contract in zip(by_prefix, providers, contracts, strict=True):
        application.include_router(_routes(contract, provider, route_settings, {"prefix": prefix}))
    if allowed_hosts is not None:
        application.add_middleware(RequestCheck, allowed_hosts=allowed_hosts)
    descriptions = [
        description_of(contract, prefix, route_settings.paths, allow_get=allow_get)
        for prefix, contract in zip(by_prefix, contracts, strict=True)
    ]

    @application.get(_DESCRIPTION_PATH, include_in_schema=False)
    async def services_json() -> JSONResponse:
        return JSONResponse(descriptions)

    return application


def _new_application(settings: Mapping[str, Any]) -> FastAPI:
    """Create a FastAPI application whose documentation pages load no scripts from other servers."""
    if None in (settings.get("openapi_url", ""), settings.get("swagger_ui_oauth2_redirect_url", "")):
        return FastAPI(**{**settings, "docs_url": None, "redoc_url": None})
    return FastAPIOffline(**settings)


def contract_of_provider(
    provider: Provider[object],
    interface: object,
    parsers: Sequence[ParserFactory],
    server_arguments: Mapping[str, object],
    media: MediaPolicy | None = None,
) -> Contract:
    """Return the description (Contract) of the service that a FastAPI dependency returns."""
    names = tuple(server_arguments)
    return contract_of(
        interface or type(provider.service), parsers=parsers, server_arguments=names, media=media
    )


class RouteSettings(NamedTuple):
    """The settings of the HTTP endpoints that ``router`` and ``app`` create for a service."""

    paths: Mapping[str, str]
    server_arguments: Mapping[str, Callable[..., object]]
    allow_get: bool = False
    threads: int = DEFAULT_THREADS
    max_waiting_calls: int = DEFAULT_MAX_WAITING_CALLS
    max_body_size: int = DEFAULT_MAX_BODY_SIZE
    approvals: ApprovalSettings | None = None
    keep_streams: float | None = None

    def problems(self) -> Iterator[str]:
        """Yield an error description for each number that is out of its range, and for the approvals."""
        for name, least in {"threads": 1, "max_waiting_calls": 0, "max_body_size": 1}.items():
            if not is_count(getattr(self, name), least):
                yield f"{name} is {getattr(self, name)!r}; it must be at least {least}"
        keep = self.keep_streams
        if keep is not None and not (is_at_least(keep, 0) and math.isfinite(keep)):
            yield f"keep_streams is {keep!r}; it must be 0 or more"
        if self.approvals is not None:
            yield from self.approvals.problems()


def _check_settings(
    served: Sequence[tuple[Contract, Provider[object]]],
    settings: RouteSettings,
    caller_arguments: Collection[str],
    allowed_hosts: Collection[str] | None = None,
) -> None:
    """Raise DefinitionError for invalid HTTP server settings, such as unknown parameter names."""
    paths, server_arguments = settings.paths, settings.server_arguments
    contracts = [contract for contract, _ in served]
    # With several services, a setting applies to every service that has the name.
    methods = [method for contract in contracts for method in contract.methods.values()]
    names = {method.name for method in methods}
    services = ", ".join(contract.name for contract in contracts)
    problems = server_argument_problems(contracts, server_arguments)
    problems += [
        DefinitionProblem(services, f"paths names {name}, which is not a method")
        for name in paths
        if name not in names
    ]
    problems += caller_problems(
        [(contract, provider.service) for contract, provider in served], caller_arguments
    )
    problems += [DefinitionProblem(services, message) for message in settings.problems()]
    problems += host_problems(services, allowed_hosts)
    if problems:
        raise DefinitionError(problems)


# --- Routes ---


def _routes(
    contract: Contract,
    provider: Provider[object],
    settings: RouteSettings,
    router_settings: Mapping[str, Any],
) -> APIRouter:
    api_router = APIRouter(route_class=ServiceRoute, **{"tags": [contract.name], **router_settings})
    threads = Threads(settings.threads, settings.max_waiting_calls)
    streams = ResumableStreams(settings.keep_streams)
    states = None if settings.approvals is None else ApprovalStates(settings.approvals)
    for method in contract.methods.values():
        endpoints = Endpoints(method, provider, settings, threads, streams, states)
        path = settings.paths.get(method.name, method.path)
        _add_routes(api_router, method, path, endpoints, allow_get=settings.allow_get)
    return api_router


def _add_routes(
    api_router: APIRouter, method: Method, path: str, endpoints: Endpoints, *, allow_get: bool
) -> None:
    schema = event_schema(method) if method.streams else method.return_codec.schema
    components = {PROBLEM_SCHEMA_NAME: problem_schema()}
    documentation: dict[str, Any] = {
        "response_model": schema_type(schema, method.service, components=components),
        "response_class": DocumentedEventStream if method.streams else JSONResponse,
        "responses": error_responses(),  # replaces FastAPI's own response for wrong requests
        "summary": method.doc.partition("\n")[0] or method.name.replace("_", " "),
        "description": method.doc or None,
    }
    if method.returns_nothing:
        documentation.update(response_model=None, response_class=Response, status_code=204)
    if method.streams:
        description = "The request has a Last-Event-ID, and the stream has ended or cannot be continued"
        documentation["responses"] = {204: {"description": description}, **documentation["responses"]}
    operation_id, allowed = f"{method.service}.{method.name}", method.http_methods(allow_get=allow_get)
    api_router.add_api_route(
        path,
        endpoints.post(allowed),
        methods=["POST"],
        name=method.name,
        operation_id=operation_id,
        **documentation,
    )
    if endpoints.can_wait_for_approval:
        description = f"Continue a call of {method.name} that waits for the approval of tool calls"
        api_router.add_api_route(
            path.rstrip("/") + RESUME_PATH,
            endpoints.resume(),
            methods=["POST"],
            name=f"{method.name}_resume",
            operation_id=f"{operation_id}.resume",
            **{**documentation, "summary": f"Resume {method.name}", "description": description},
        )
    if "GET" in allowed:
        api_router.add_api_route(
            path,
            endpoints.get(allowed),
            methods=["GET"],
            name=f"{method.name}_get",
            operation_id=f"{operation_id}.get",
            openapi_extra={"parameters": query_parameters(method)},
            **documentation,
        )


class ServiceRoute(APIRoute):
    """A FastAPI route that does not parse the JSON body, and reports errors as JSON (RFC 9457)."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[object, object, Response]]:
        handle = super().get_route_handler()
        qualname = getattr(self.endpoint, "qualname", self.name)
        max_body_size = getattr(self.endpoint, "max_body_size", DEFAULT_MAX_BODY_SIZE)

        async def handler(request: Request) -> Response:
            try:
                text_request = _TextRequest(request.scope, request.receive)
                # Before FastAPI reads it, because FastAPI would turn an error into its own response.
                await text_request.read(max_body_size, qualname)
                return await handle(text_request)
            except ProblemError as error:
                return problem_response(error.problem, error.headers)
            except RequestValidationError as error:
                return problem_response(validation_problem(error, qualname))
            except ClientDisconnect:
                return Response(status_code=_CLIENT_CLOSED_REQUEST)

        return handler

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        # POST and GET are two routes of one path. Each of them alone would list only its own method in Allow.
        if _size_of_headers(scope) > MAX_HEADERS_SIZE:
            await problem_response(headers_too_large_problem(MAX_HEADERS_SIZE))(scope, receive, send)
            return
        allowed: Sequence[str] = getattr(self.endpoint, "allowed", ())
        if allowed and scope["method"] not in (self.methods or ()):
            qualname = getattr(self.endpoint, "qualname", self.name)
            response = problem_response(http_method_problem(allowed, qualname), {"Allow": ", ".join(allowed)})
            await response(scope, receive, send)
            return
        await super().handle(scope, receive, send)


class JsonText(bytes):
    """The unparsed body of a request whose Content-Type is JSON."""


class _TextRequest(Request):
    """An HTTP request with a limited body size, whose JSON body is not parsed but returned as text.

    ``json.loads`` would round numbers that the codec reads exactly.
    """

    async def read(self, max_size: int, qualname: str) -> None:
        """Read an HTTP request's body, or raise ProblemError if it is larger than ``max_size`` bytes."""
        declared_size = self.headers.get("content-length", "")
        if declared_size.isdecimal() and int(declared_size) > max_size:
            raise ProblemError(body_too_large_problem(max_size, qualname))
        chunks, size = [], 0
        async for chunk in self.stream():
            size += len(chunk)
            if size > max_size:
                # The body may be endless, so the server must not wait for its end. HTTP/2 has no such header.
                is_http_1 = self.scope.get("http_version", "1.1").startswith("1")
                headers = {"Connection": "close"} if is_http_1 else {}
                raise ProblemError(body_too_large_problem(max_size, qualname), headers)
            chunks.append(chunk)
        self._content = b"".join(chunks)

    async def body(self) -> bytes:
        return self._content

    async def json(self) -> JsonText:
        return JsonText(self._content)


def _size_of_headers(scope: Scope) -> int:
    """Return the size in bytes of an HTTP request's headers and URL."""
    size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    for name, value in scope["headers"]:
        size += len(name) + len(value)
    return size


class ServiceCall(NamedTuple):
    """An HTTP request for a service method, with its arguments.

    Attributes:
        request: The HTTP request.
        service: The service.
        values: The arguments, by the names of the parameters.
        mode: What a stream sends.
        is_large: True if rendering the prompt may take long.
    """

    request: Request
    service: object
    values: Mapping[str, object]
    mode: StreamMode = StreamMode.SNAPSHOTS
    is_large: bool = False


class Endpoints:
    """Creates the FastAPI endpoint functions for one service method.

    Each endpoint function has an attribute ``allowed`` with all HTTP methods of its path, ``qualname`` and
    ``max_body_size``.
    """

    def __init__(
        self,
        method: Method,
        provider: Provider[object],
        settings: RouteSettings,
        threads: Threads,
        streams: ResumableStreams,
        states: ApprovalStates | None = None,
    ) -> None:
        self._method = method
        self._provider = provider
        self._server_arguments = {
            name: settings.server_arguments[name]
            for name in method.server_parameters
            if name in settings.server_arguments
        }
        self._max_body_size = settings.max_body_size
        self._threads = threads
        self._streams = streams
        self._states = states

    @property
    def resumed_call(self) -> type[ResumedCall]:
        """The class of calls that continue after an approval."""
        return ResumedCall

    @property
    def can_wait_for_approval(self) -> bool:
        """True if the service method has tools and HTTP clients may approve tool calls."""
        if self._states is None:
            return False
        function = getattr(self._provider.service, self._method.name, None)
        # A service that replaces this one later, or wraps it, may have tools.
        return not is_service_method(function) or service_method_of(function).plan.call.toolbox is not None

    def post(self, allowed: Sequence[str]) -> Callable[..., Awaitable[Response]]:
        """Return the POST endpoint of a service method, which reads the arguments from the JSON body."""

        async def endpoint(
            request: Request,
            arguments: JsonText,
            service: object,
            events: StreamMode = StreamMode.SNAPSHOTS,
            **others: object,
        ) -> Response:
            is_large = len(arguments) > LARGE_ARGUMENTS
            read = partial(self._read, arguments, self._method.arguments_codec)
            values = await run_reader(read, is_large=is_large)
            values.update(_without_prefix(others))
            return await self._respond(ServiceCall(request, service, values, events, is_large))

        body = schema_type(self._method.arguments_codec.schema, self._method.service, self._json_text)
        parameters: dict[str, object] = {"arguments": Annotated[body, Body()]}
        if self._method.returns.shape is ReturnShape.STREAM:
            parameters["events"] = Annotated[StreamMode, Query(description=_EVENTS_DESCRIPTION)]
        return self._with_signature(endpoint, parameters, allowed)

    def get(self, allowed: Sequence[str]) -> Callable[..., Awaitable[Response]]:
        """Return the GET endpoint of a service method, which reads the arguments from the query string."""

        async def endpoint(request: Request, service: object, **others: object) -> Response:
            is_large = len(request.url.query) > LARGE_ARGUMENTS
            read = partial(_query_arguments, request, self._method)
            arguments = await run_reader(read, is_large=is_large)
            values = {**arguments, **_without_prefix(others)}
            return await self._respond(ServiceCall(request, service, values, is_large=is_large))

        return self._with_signature(endpoint, {}, allowed)

    def resume(self) -> Callable[..., Awaitable[Response]]:
        """Return the POST endpoint that continues a call whose tool calls were approved or rejected."""
        codec = resume_codec(self._method)

        async def endpoint(
            request: Request,
            arguments: JsonText,
            service: object,
            events: StreamMode = StreamMode.SNAPSHOTS,
            **others: object,
        ) -> Response:
            function = getattr(service, self._method.name)
            values = _without_prefix(others)
            is_large = len(arguments) > LARGE_ARGUMENTS
            read = partial(self._resumed_call, codec, arguments, function, values)
            call = await run_reader(read, is_large=is_large)
            return await self._run(request, call, events, is_large=is_large)

        body = schema_type(codec.schema, self._method.service, self._json_text)
        parameters: dict[str, object] = {"arguments": Annotated[body, Body()]}
        if self._method.returns.shape is ReturnShape.STREAM:
            parameters["events"] = Annotated[StreamMode, Query(description=_EVENTS_DESCRIPTION)]
        return self._with_signature(endpoint, parameters, ("POST",))

    def _resumed_call(
        self,
        codec: JsonCodec[dict[str, object]],
        body: JsonText,
        function: Callable[..., object],
        server_arguments: Mapping[str, object],
    ) -> ResumedCall:
        """Return the suspended call that an HTTP request continues, or raise ProblemError."""
        qualname = self._method.qualname
        values = self._read(body, codec)
        states: Any = self._states
        try:
            state = states.read(values["state"])
            approvals, results = values.get("approvals", {}), values.get("results", {})
            return self.resumed_call(function, state, approvals, states, server_arguments, results)
        except SuspendedCallError as error:
            raise ProblemError(suspended_call_problem(str(error), qualname)) from error
        except ValueError as error:
            path = "$.results" if isinstance(error, ExternalResultError) else "$.approvals"
            part = WrongPart(path=path, message=str(error))
            raise ProblemError(argument_problem([part], qualname)) from error
        except Exception as error:
            raise ProblemError(log_problem(error, qualname, LOGGER)) from error

    def _json_text(self, body: object) -> JsonText:
        """Return an HTTP request's body as text, or raise ProblemError if it is not sent as JSON."""
        if not isinstance(body, JsonText):
            raise ProblemError(not_json_problem(self._method.qualname))
        return body

    def _read(self, body: JsonText, codec: JsonCodec[dict[str, object]]) -> dict[str, Any]:
        """Parse the arguments of a service method from the JSON request body, or raise ProblemError."""
        qualname = self._method.qualname
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise ProblemError(not_json_problem(qualname)) from error
        return read_arguments(codec, text, qualname)

    async def _respond(self, call: ServiceCall) -> Response:
        """Call the service method and return the HTTP response, or raise ProblemError if the call fails."""
        method = self._method
        args, kwargs = method.bind_arguments(call.values)
        method_call = MethodCall(getattr(call.service, method.name), args, kwargs)
        return await self._run(call.request, method_call, call.mode, is_large=call.is_large)

    async def _run(self, request: Request, call: MethodCall, mode: StreamMode, *, is_large: bool) -> Response:
        method, states = self._method, self._states
        try:
            if method.streams:
                return await stream_method(
                    request, method, call, mode, self._threads, self._streams, states, is_large=is_large
                )
            running = call.run(method.qualname, self._threads, is_large=is_large)
            value = await cancel_on_disconnect(request.receive, running)
            if method.returns_nothing:
                return Response(status_code=204, headers=NO_STORE)
            return json_response(_write(method, value))
        except (ClientDisconnect, ProblemError):
            raise
        except Exception as error:
            raise ProblemError(log_problem(error, method.qualname, LOGGER, states)) from error

    def _with_signature(
        self, endpoint: Any, parameters: Mapping[str, object], allowed: Sequence[str]
    ) -> Callable[..., Awaitable[Response]]:
        """Set an endpoint's signature, in which FastAPI finds the parameters and dependencies."""
        hints: dict[str, object] = {
            "request": Request,
            **parameters,
            "service": Annotated[object, Depends(self._provider)],
            **{
                f"{_SERVER_PREFIX}{name}": Annotated[object, Depends(dependency)]
                for name, dependency in self._server_arguments.items()
            },
        }
        defaults = {"events": StreamMode.SNAPSHOTS}
        endpoint.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=defaults.get(name, inspect.Parameter.empty),
                    annotation=hint,
                )
                for name, hint in hints.items()
            ]
        )
        endpoint.__name__ = self._method.name
        # ServiceRoute reads these attributes.
        endpoint.qualname = self._method.qualname
        endpoint.allowed = allowed
        endpoint.max_body_size = self._max_body_size
        signed: Callable[..., Awaitable[Response]] = endpoint
        return signed


def _without_prefix(values: Mapping[str, object]) -> dict[str, object]:
    return {name.removeprefix(_SERVER_PREFIX): value for name, value in values.items()}


def _write(method: Method, value: Any) -> str:
    if method.returns.shape is ReturnShape.RESULT:
        return write_result(value, method.value_codec)
    return write_value(value, method.value_codec)


# --- Arguments in a query string ---


def _query_arguments(request: Request, method: Method) -> dict[str, object]:
    """Parse a service method's arguments from the query string, or raise ProblemError with all mistakes."""
    query = request.query_params
    names = {argument.name for argument in method.arguments}
    names |= {parameter.name for parameter in method.query_parameters or ()}
    parts = [
        WrongPart(path=f"$.{name}", message="there is no such argument")
        for name in query
        if name not in names
    ]
    values: dict[str, object] = {}
    for argument in method.arguments:
        wrong_values: list[WrongPart] = []
        text, path = _json_of_argument(query, argument, wrong_values)
        if text is not None and not wrong_values:
            try:
                values[argument.name] = argument.codec.read(text)
            except OutputParsingError as error:
                wrong_values = wrong_parts(error, path)
        parts += wrong_values
    if parts:
        raise ProblemError(argument_problem(parts, method.qualname))
    return values


def _json_of_argument(
    query: QueryParams, argument: Argument, wrong_values: list[WrongPart]
) -> tuple[str | None, str]:
    """Return an argument from a query string as JSON text, with its JSON path for error messages.

    The text is None if the argument is not in the query string.
    """
    parameters = argument.query_parameters or ()
    path = f"$.{argument.name}"
    present = [parameter for parameter in parameters if parameter.name in query]
    if not any(parameter.is_field for parameter in parameters):
        if not present and argument.required:
            wrong_values.append(WrongPart(path=path, message="it is missing"))
        return _json_of_query(query, present[0], wrong_values) if present else None, path
    if argument.name in query:
        if present or len(query.getlist(argument.name)) > 1:
            message = "given more than once; pass its fields, or one value with its JSON"
            wrong_values.append(WrongPart(path=path, message=message))
        return query[argument.name], path
    return _json_of_fields(query, argument, wrong_values)


def _json_of_fields(
    query: QueryParams, argument: Argument, wrong_values: list[WrongPart]
) -> tuple[str | None, str]:
    """Return an argument whose fields are parameters of a query string, with its JSON path."""
    parameters = argument.query_parameters or ()
    present = [parameter for parameter in parameters if parameter.name in query]
    missing = [one.name for one in parameters if one.required and one.name not in query]
    wrong_values += [WrongPart(path=f"$.{name}", message="it is missing") for name in missing]
    if not present and not argument.required:
        return None, f"$.{argument.name}"
    fields = (f"{json.dumps(field.name)}: {_json_of_query(query, field, wrong_values)}" for field in present)
    return f"{{{', '.join(fields)}}}", "$"


def _json_of_query(query: QueryParams, parameter: QueryParameter, wrong_values: list[WrongPart]) -> str:
    """Convert a query parameter's values to JSON text, and add an error for each invalid value.

    Strings are quoted. If a list has only one value, this value may be the JSON text of the whole list.
    """
    path, texts = f"$.{parameter.name}", query.getlist(parameter.name)
    if len(texts) == 1 and parameter.is_list and _is_json_array(texts[0]):
        return texts[0]
    if len(texts) > 1 and not parameter.is_list:
        message = f"given {len(texts)} times, but only one value is allowed"
        wrong_values.append(WrongPart(path=path, message=message))
    is_string = parameter.scalar_type == "string"
    # Other text could change the JSON around it.
    wrong_text = next((text for text in texts if not is_string and not _JSON_SCALAR.fullmatch(text)), None)
    if wrong_text is not None:
        message = f"expected {_EXPECTED[parameter.scalar_type]}"
        wrong_values.append(WrongPart(path=path, message=message, found=shorten(wrong_text, 60)))
    items = [json.dumps(text, ensure_ascii=False) if is_string else text for text in texts]
    return f"[{', '.join(items)}]" if parameter.is_list else items[0]


def _is_json_array(text: str) -> bool:
    try:
        return text.lstrip().startswith("[") and isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False
