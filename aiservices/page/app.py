"""Add the playground, a web page for trying out services, to a FastAPI application.

The page consists of the files in ``static``, a JSON description of the services, and two endpoints for each
method: ``run`` calls the method and streams the outcome with the call's details, and ``preview`` returns the
request that the method would send to the model.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import fields, replace
from functools import cached_property, partial
from secrets import token_urlsafe
from typing import Any, NamedTuple

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from output_parsers.parser.type_parser import ParserFactory
from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Coercion, JsonObject, strict_equal

from ..engine.budget import SharedBudget
from ..engine.plan import Invocation
from ..engine.results import Result
from ..engine.streams import Completed
from ..integrations.fastapi.responses import LOGGER, Report, json_response, stream_events
from ..integrations.fastapi.server import (
    DEFAULT_MAX_BODY_SIZE,
    Endpoints,
    Provider,
    RouteSettings,
    ServiceCall,
    ServiceRoute,
    contract_of_provider,
)
from ..models.errors import (
    AuthenticationError,
    DefinitionError,
    DefinitionProblem,
    sent_requests,
    total_usage,
    usage_of,
)
from ..models.media_policy import MediaPolicy
from ..models.messages import AiMessage, ChatReply, Message, Usage, UserMessage
from ..models.requests import ChatOptions
from ..remote.calls import (
    ApprovalSettings,
    ApprovalStates,
    MethodCall,
    ProblemError,
    ResumedCall,
    Threads,
    iterate,
    log_problem,
)
from ..remote.codec import JsonCodec
from ..remote.contract import (
    Contract,
    EventName,
    ItemEncoder,
    Method,
    SseEvent,
    StreamEncoder,
    StreamMode,
    caller_problems,
    error_event,
)
from ..remote.description import description_of
from ..remote.problems import problem_of
from ..remote.request_check import RequestCheck, host_problems
from ..remote.resumable_streams import ResumableStreams
from ..service.methods import Preview, is_service_method, preview
from ..service.signatures import ReturnShape
from .call_tree import ROLES, STATIC, CallTree, Step

_SUBPATH = "_page"  # everything but the page itself is below it
_INDEX = "index.html"
_DESCRIPTION = "services.json"
_MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# The page shows text that models wrote. The policy allows only its own scripts and styles, no connections to
# other hosts, and no conversion of text to HTML (trusted types).
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_FILE_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_NOT_WORD = re.compile(r"\W+")
_UNSET: object = object()
_SECRET_OPTIONS = ("extra_headers", "extra_body")  # they may contain an API key


# --- Mounting ---


class _PlaygroundService(NamedTuple):
    """A service in the playground, with its id in URLs and descriptions of its methods."""

    id: str
    prefix: str
    provider: Provider[object]
    contract: Contract


def mount(
    app: FastAPI,
    services: object | Mapping[str, object],
    *,
    path: str = "/",
    interface: object = None,
    server_arguments: Mapping[str, Callable[..., object]] | None = None,
    caller_arguments: Collection[str] = (),
    parsers: Sequence[ParserFactory] = (),
    allowed_hosts: Collection[str] | None = None,
    max_body_size: int = DEFAULT_MAX_BODY_SIZE,
    media: MediaPolicy | None = None,
    approvals: ApprovalSettings | None = None,
    dependencies: Sequence[Any] = (),
) -> None:
    """Add a web page for calling services' methods to a FastAPI application.

    The page shows each call's prompt, schema, value and details.

    Args:
        app: The application.
        services: One service, or several by their path prefixes, as for the function ``app``.
        path: The URL path of the page.
        interface: The Protocol or ABC, if the services are other kinds of objects.
        server_arguments: As for the router. Without them a visitor of the page chooses these values.
        caller_arguments: As for the router.
        parsers: The parser factories that were passed to ``create``.
        allowed_hosts: The host names under which the page is available, as for the function ``app``.
        max_body_size: As for the function ``router``.
        media: As for the function ``router``.
        approvals: If set, visitors of the page can approve and deny tool calls, and give the results of
            external tools, as callers can with the ``approvals`` of the function ``router``.
        dependencies: FastAPI dependencies of all routes of the page, for example to check who may see it.

    The page is for the developers of a service: it shows prompts and replies, and each call costs money. It
    loads nothing from other hosts, and web pages of other origins cannot use it. Raises DefinitionError for
    problems of the interface and of the memory, as for the router, and ValueError if the application already
    has a page at ``path``.
    """
    # The page refers to its files by relative URLs, which need the slash at the end.
    base = "/" + path.strip("/")
    base = base if base.endswith("/") else f"{base}/"
    _check_path(app, base)
    server_arguments = dict(server_arguments or {})
    page_services = _page_services(services, interface, server_arguments, parsers, media)
    problems = caller_problems(
        [(one.contract, one.provider.service) for one in page_services], caller_arguments
    )
    problems += host_problems("mount", allowed_hosts)
    settings = RouteSettings({}, server_arguments, max_body_size=max_body_size, approvals=approvals)
    problems += [DefinitionProblem("mount", message) for message in settings.problems()]
    if problems:
        raise DefinitionError(problems)
    router = APIRouter(route_class=_page_route_class(allowed_hosts))
    threads = Threads(settings.threads, settings.max_waiting_calls)
    streams = ResumableStreams(settings.keep_streams)
    states = None if approvals is None else ApprovalStates(approvals)
    for service in page_services:
        for method in service.contract.methods.values():
            run = RunEndpoints(method, service.provider, settings, threads, streams, states)
            preview = PreviewEndpoints(method, service.provider, settings, threads, streams)
            endpoints = {"run": run.post(("POST",)), "preview": preview.post(("POST",))}
            if states is not None:
                endpoints["resume"] = run.resume()
            for name, endpoint in endpoints.items():
                method_path = f"{base}{_SUBPATH}/{service.id}/{method.name}/{name}"
                router.add_api_route(method_path, endpoint, methods=["POST"], include_in_schema=False)
    router.add_api_route(f"{base}{_SUBPATH}/quotes/{{id}}", _QUOTE_PAGES.send, include_in_schema=False)
    _add_files(router, base, [_page_description(service, server_arguments) for service in page_services])
    app.include_router(router, dependencies=list(dependencies))


def _check_path(app: FastAPI, base: str) -> None:
    """Raise ValueError if an application already has a page at a path."""
    routes = [one for one in app.routes if isinstance(one, APIRoute) and one.path.rstrip("/") == base[:-1]]
    if any("GET" in (route.methods or ()) for route in routes):
        message = f"the application already has a route for GET {base}; pass another path for the page"
        raise ValueError(message)


def _page_route_class(allowed_hosts: Collection[str] | None) -> type[ServiceRoute]:
    """Return a FastAPI route class for the playground that rejects requests from other origins."""

    class PageRoute(ServiceRoute):
        """A FastAPI route that serves the playground and checks each request's origin.

        The application's other routes are not checked.
        """

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            check = RequestCheck(super().handle, allowed_hosts=allowed_hosts, same_origin=True)
            await check(scope, receive, send)

    return PageRoute


def _page_services(
    services: object | Mapping[str, object],
    interface: object,
    server_arguments: Mapping[str, object],
    parsers: Sequence[ParserFactory],
    media: MediaPolicy | None,
) -> list[_PlaygroundService]:
    by_prefix = services if isinstance(services, Mapping) else {"": services}
    by_id: dict[str, _PlaygroundService] = {}
    for prefix, service in by_prefix.items():
        provider = service if isinstance(service, Provider) else Provider(service)
        contract = contract_of_provider(provider, interface, parsers, server_arguments, media)
        name = _NOT_WORD.sub("-", contract.name).strip("-")
        # Two services of one interface have the same name.
        service_id = f"{name}-{len(by_id) + 1}" if name in by_id else name
        by_id[service_id] = _PlaygroundService(service_id, prefix, provider, contract)
    return list(by_id.values())


def _page_description(service: _PlaygroundService, server_arguments: Mapping[str, object]) -> JsonObject:
    """Describe a service as JSON for the web page, with the URLs for calling and previewing its methods."""
    description = description_of(service.contract, service.prefix)
    for method_description in description["methods"]:
        method = service.contract.methods[method_description["name"]]
        method_path = f"{_SUBPATH}/{service.id}/{method.name}"
        has_preview = is_service_method(getattr(service.provider.service, method.name, None))
        method_description["run"] = f"{method_path}/run"
        method_description["resume"] = f"{method_path}/resume"
        method_description["preview"] = f"{method_path}/preview" if has_preview else None
        method_description["missing"] = [
            name for name in method.missing_parameters if name not in server_arguments
        ]
    return {**description, "id": service.id, "prefix": service.prefix}


def _add_files(router: APIRouter, base: str, descriptions: list[JsonObject]) -> None:
    async def services_json() -> JSONResponse:
        return JSONResponse(descriptions, headers={"Cache-Control": "no-store"})

    router.add_api_route(f"{base}{_SUBPATH}/{_DESCRIPTION}", services_json, include_in_schema=False)
    router.add_api_route(base, _file_endpoint(_INDEX), include_in_schema=False)
    for name in sorted(file.name for file in STATIC.iterdir() if file.is_file()):
        if name != _INDEX and name.rpartition(".")[2] in _MEDIA_TYPES:
            router.add_api_route(f"{base}{_SUBPATH}/{name}", _file_endpoint(name), include_in_schema=False)


def _file_endpoint(name: str) -> Callable[[], Awaitable[Response]]:
    # Read once, because the files are small and never change while the program runs.
    content = (STATIC / name).read_bytes()
    media_type = _MEDIA_TYPES[name.rpartition(".")[2]]

    async def send_file() -> Response:
        return Response(content, media_type=media_type, headers=_FILE_HEADERS)

    return send_file


class _QuotePages:
    """The latest pages with the texts of calls in which the quotes of their answers are marked."""

    def __init__(self) -> None:
        self._pages: dict[str, str] = {}

    def add(self, html: str) -> str:
        """Keep a page, and return its id."""
        id = token_urlsafe()
        self._pages[id] = html
        while len(self._pages) > _MOST_QUOTE_PAGES:
            del self._pages[next(iter(self._pages))]
        return id

    async def send(self, id: str) -> Response:
        """Return a page, which has no scripts and loads nothing."""
        html = self._pages.get(id)
        if html is None:
            return Response(
                "This page is no longer available; run the call again.", 404, media_type="text/plain"
            )
        return Response(html, media_type="text/html", headers=_FILE_HEADERS | _QUOTE_PAGE_HEADERS)


_QUOTE_PAGES = _QuotePages()  # of all playgrounds; their ids cannot be guessed
_MOST_QUOTE_PAGES = 8
_QUOTE_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


# --- Running a method ---


class RunEndpoints(Endpoints):
    """FastAPI endpoints through which a web page calls service methods and receives the answers.

    The last event is ``end`` with the call's details; it follows ``result`` or ``error``.
    """

    @property
    def resumed_call(self) -> type[ResumedCall]:
        return ResumedRun

    async def _respond(self, call: ServiceCall) -> Response:
        args, kwargs = self._method.bind_arguments(call.values)
        run = PlaygroundRun(getattr(call.service, self._method.name), args, kwargs)
        return await self._run(call.request, run, call.mode, is_large=call.is_large)

    async def _run(self, request: Request, call: MethodCall, mode: StreamMode, *, is_large: bool) -> Response:
        method = self._method

        def start(run: MethodCall) -> AsyncGenerator[SseEvent, None]:
            assert isinstance(run, PlaygroundRun)
            return _run_events(method, run, self._threads, report, is_large=is_large)

        def report(error: Exception) -> SseEvent:
            problem = log_problem(error, method.qualname, LOGGER, self._states)
            if isinstance(error, AuthenticationError) and error.status is None:  # a key is missing
                problem = problem.model_copy(update={"detail": str(error)})
            return error_event(problem)

        return await stream_events(
            request, call, method.qualname, start, report, self._streams, last_events=(EventName.END,)
        )


async def _run_events(
    method: Method, run: PlaygroundRun, threads: Threads, report: Report, *, is_large: bool
) -> AsyncGenerator[SseEvent, None]:
    """Yield the events of a call from the web page: each step as it happens, then the outcome."""
    events: asyncio.Queue[SseEvent | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def send(event: SseEvent | None) -> None:  # also from the threads of calls
        loop.call_soon_threadsafe(events.put_nowait, event)

    task = asyncio.create_task(_send_events(method, run, threads, report, send, is_large=is_large))
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((task,))


async def _send_events(
    method: Method,
    run: PlaygroundRun,
    threads: Threads,
    report: Report,
    send: Callable[[SseEvent | None], None],
    *,
    is_large: bool,
) -> None:
    try:
        tree = _PageTree(send)
        try:
            with SharedBudget(listeners=[tree]):
                async with aclosing(_answer_events(method, run, threads, is_large=is_large)) as events:
                    async for event in events:
                        send(event)
        except ProblemError as error:
            send(error_event(error.problem))
        except Exception as error:
            send(report(error))
        send(SseEvent(EventName.END, run.account_json()))
    finally:
        send(None)


class _PageTree(CallTree):
    """A call tree that sends each step to the web page, without the messages of exceptions."""

    def __init__(self, send: Callable[[SseEvent], None]) -> None:
        super().__init__()
        self._send = send

    def _step_changed(self, step: Step) -> None:
        self._send(SseEvent(EventName.STEP, step.to_json()))

    def _error_text(self, error: BaseException) -> str:
        return problem_of(error, "").title if isinstance(error, Exception) else type(error).__name__


async def _answer_events(
    method: Method, run: PlaygroundRun, threads: Threads, *, is_large: bool
) -> AsyncGenerator[SseEvent, None]:
    outcome = await run.run(method.qualname, threads, is_large=is_large)
    if not method.streams:
        yield SseEvent(EventName.RESULT, run.result_json(outcome, method.value_codec))
        return
    is_stream = method.returns.shape is ReturnShape.STREAM
    encoder = StreamEncoder(method, outcome, StreamMode.SNAPSHOTS) if is_stream else ItemEncoder(method)
    iterator = outcome.events() if is_stream else outcome
    async with aclosing(iterate(iterator, outcome, threads.limiter)) as items:
        async for item in items:
            # The encoder would write the Result with its account, which this page gets from account_json.
            if isinstance(item, Completed):
                yield SseEvent(EventName.RESULT, run.result_json(item.result, method.value_codec))
                continue
            if not is_stream:
                run.items.append(item)
            for event in encoder.encode(item):
                yield event


class PlaygroundRun(MethodCall):
    """A service method call made from the playground page, with its result and details.

    Details are available only for methods of a service that ``create`` returned.

    Attributes:
        items: The items that the function yielded, if it returned an iterator.
    """

    _outcome: object = _UNSET

    @cached_property
    def items(self) -> list[Any]:
        return []

    def result_json(self, outcome: object, codec: JsonCodec[object]) -> str:
        """Return a service call's result as JSON text, and store it to show the details later.

        Raises ValueError if the value cannot be converted.
        """
        self._outcome = outcome
        value = outcome.value if isinstance(outcome, Result) else outcome
        # The raw response of the provider may hold anything, so a ChatReply is sent without it.
        text = codec.write(replace(value, raw=None) if isinstance(value, ChatReply) else value)
        return f'{{"value": {text}}}'

    def account_json(self) -> str:
        """Return a service call's details, such as tokens, as JSON text; ``null`` without details.

        Failed calls have details, too.
        """
        if self.invocation is None:
            return "null"
        state, output_format = self.invocation.state, self.invocation.state.output_format
        usage = total_usage(usage_of(state.attempts), state.inner_calls()) or Usage()
        coercions = self._coercions(self.invocation)
        account = {
            "seconds": self._outcome.seconds if isinstance(self._outcome, Result) else state.seconds,
            "strategy": None if output_format is None else output_format.strategy,
            "reasons": () if output_format is None else output_format.reasons,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "cost": state.cost,
            "attempts": sent_requests(state.attempts),
            "coercions": None if coercions is None else [coercion._asdict() for coercion in coercions],
            "quotes": self._quotes_path(self.invocation),
        }
        return to_json(account, fallback=str).decode()

    def _quotes_path(self, invocation: Invocation) -> str | None:
        """Return the path of a page with the texts of the call and their quotes; None without quotes."""
        if invocation.plan.check is None or (self._outcome is _UNSET and not self.items):
            return None
        from ..documents.document import Document  # few answers are cited
        from ..documents.highlighting import highlight
        from ..engine.citations import documents_of

        value = self._value(invocation)
        sources = documents_of(invocation).items()
        documents = [Document(one.text, name, one.pages) for name, one in sources]
        html = highlight(documents, value.value if isinstance(value, Result) else value)
        return f"{_SUBPATH}/quotes/{_QUOTE_PAGES.add(html)}"

    def _coercions(self, invocation: Invocation) -> Sequence[Coercion] | None:
        """Return the changes that the parser made to the model's reply, or None if they are unknown.

        Only a Result records these changes. For other return types the last reply is parsed again. If that
        gives a different value, an interceptor changed the value or combined several replies, and the changes
        are unknown.
        """
        if isinstance(self._outcome, Result):
            return self._outcome.coercions
        attempts, output_format = invocation.state.attempts, invocation.state.output_format
        reply = attempts[-1].reply if attempts else None
        if reply is None or output_format is None or (self._outcome is _UNSET and not self.items):
            return None
        try:
            reading = output_format.read(reply)
        except (OutputParsingError, ValueError):
            return None
        return reading.coercions if strict_equal(reading.value, self._value(invocation)) else None

    def _value(self, invocation: Invocation) -> object:
        shape = None if self._service_method is None else self._service_method.plan.returns.shape
        if shape is ReturnShape.TEXT_STREAM:
            return "".join(self.items)
        return self.items if shape is ReturnShape.ITEMS else self._outcome


class ResumedRun(PlaygroundRun, ResumedCall):
    """A call that continues after its tool calls were approved or rejected on the page."""

    def start(self) -> object:
        self.invocation = self._suspended_invocation()  # with the listener that sends its steps to the page
        return super().start()


# --- Previewing a method ---


class PreviewEndpoints(Endpoints):
    """FastAPI endpoints that show the model request of a service method without sending it."""

    async def _respond(self, call: ServiceCall) -> Response:
        args, kwargs = self._method.bind_arguments(call.values)
        function = getattr(call.service, self._method.name)
        try:
            # In a thread, since a prompt may be rendered by blocking code of the user.
            render = partial(preview, function, *args, **kwargs)
            result = await run_sync(render, limiter=self._threads.limiter)
        except Exception as error:
            raise ProblemError(log_problem(error, self._method.qualname, LOGGER)) from error
        return json_response(preview_json(result))


def preview_json(preview: Preview) -> str:
    """Return a model request as JSON text for preview, without options that may contain an API key."""
    options = {
        field.name: value
        for field in fields(ChatOptions)
        if field.name not in _SECRET_OPTIONS and (value := getattr(preview.options, field.name)) is not None
    }
    data = {
        "model": preview.model,
        "strategy": preview.strategy,
        "reasons": preview.reasons,
        "messages": [
            {"role": ROLES[type(message)], "parts": _message_parts(message)} for message in preview.messages
        ],
        "options": options,
        "schema": preview.schema,
        "strict": preview.strict,
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in preview.tools
        ],
    }
    return to_json(data, fallback=str).decode()


def _message_parts(message: Message) -> list[dict[str, str]]:
    """Return the text parts of a message, and descriptions of its media and tool calls."""
    if isinstance(message, UserMessage):
        return [{"text": part} if isinstance(part, str) else {"media": str(part)} for part in message.parts]
    tool_calls = message.tool_calls if isinstance(message, AiMessage) else ()
    parts = [{"call": f"{call.name}({call.arguments})"} for call in tool_calls]
    return [{"text": message.text}, *parts] if message.text or not parts else parts
