"""Puts the page on an application: its files, the description of the methods, and a way to try each."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import fields, replace
from functools import partial
from importlib.resources import files
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from output_parsers.parser.registry import ParserFactory
from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Coercion, strict_equal

from ...engine.plan import Invocation
from ...engine.results import Result, Shape
from ...engine.streams import Completed
from ...models.errors import Attempt, usage_of
from ...models.messages import AiMessage, ChatReply, Message, SystemMessage, ToolMessage, Usage, UserMessage
from ...models.requests import ChatOptions
from ...service.create import ServiceMethod, bound_of, is_planned
from ...service.preview import Preview, preview
from ..fastapi.contract import Codec, Contract, Method, attempts_json
from ..fastapi.problems import ProblemError, json_response, problem_told
from ..fastapi.server import (
    EVENT_STREAM,
    Endpoints,
    Provider,
    ServiceRoute,
    called,
    contract_behind,
    description_of,
    pieces_of,
    while_connected,
)
from ..fastapi.sse import EventName, Frame, Growing, Telling, WireChunks, error_frame

INDEX = "index.html"
DESCRIPTION = "services.json"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# nothing from elsewhere, no script or style but those of the files, and no text that becomes markup
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_FOLDER = files("aiservices.page") / "static"


def names_of_files() -> list[str]:
    """The files that the page asks for."""
    found = (file.name for file in _FOLDER.iterdir() if file.is_file())
    return sorted(name for name in found if name != INDEX and name.rpartition(".")[2] in _TYPES)


def file_response(name: str) -> Callable[[], Awaitable[Response]]:
    """An endpoint that sends a file."""
    content = (_FOLDER / name).read_bytes()
    media_type = _TYPES[name.rpartition(".")[2]]

    async def send() -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return send


_NOTHING: Any = object()


class PlaygroundRun:
    """A call of ``function``, to be made once. Of one that ``create`` did not make there is no account.

    ``pieces`` are those that an iterator gave.
    """

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, planned: bool
    ) -> None:
        self._args, self._kwargs = tuple(args), dict(kwargs)
        self._plain = function
        self._bound: ServiceMethod | None = bound_of(function) if planned else None
        self._invocation: Invocation | None = None
        self._came: Any = _NOTHING
        self.pieces: list[Any] = []

    @property
    def function(self) -> Callable[[], Any]:
        """What makes the call, as the method does: blocking, or to be awaited."""
        begin = self._plain if self._bound is None else self._bound.begin
        if not iscoroutinefunction(begin):
            return self._begin

        async def begun() -> Any:
            return await self._begin()

        return begun

    def _begin(self) -> Any:
        if self._bound is None:
            return self._plain(*self._args, **self._kwargs)
        plan, budget, begin = self._bound
        self._invocation = plan.invocation(self._args, self._kwargs, budget)
        return begin(self._invocation)

    def finished(self, came: Any, codec: Codec[Any]) -> str:
        """The JSON of what the call gave. Raises ValueError when it cannot be written."""
        self._came = came
        value = came.value if isinstance(came, Result) else came
        written = codec.write(replace(value, raw=None) if isinstance(value, ChatReply) else value)
        return f'{{"value": {written}}}'

    def account_json(self) -> str:
        """What the call took, as far as it came: ``null`` where that is not known."""
        if self._invocation is None:
            return "null"
        context, wire = self._invocation.state, self._invocation.state.wire
        usage = usage_of(context.attempts) or Usage()
        coercions = self._coercions(self._invocation)
        said = {
            "seconds": self._came.seconds if isinstance(self._came, Result) else context.seconds,
            "strategy": None if wire is None else wire.strategy,
            "reasons": () if wire is None else wire.reasons,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "attempts": _attempts(context.attempts),
            "coercions": None if coercions is None else [step._asdict() for step in coercions],
            "tool_runs": [
                {"name": run.call.name, "arguments": run.call.arguments, "text": run.text}
                for run in context.tool_runs
            ],
        }
        return to_json(said, fallback=str).decode()

    def _coercions(self, invocation: Invocation) -> Sequence[Coercion] | None:
        """The steps that reading the answer took; None where they are not known.

        A method that gives no Result does not tell them. They are those of the last reply, unless another
        value is read from it: then something changed the value, or put it together.
        """
        if isinstance(self._came, Result):
            return self._came.coercions
        attempts, wire = invocation.state.attempts, invocation.state.wire
        reply = attempts[-1].reply if attempts else None
        if reply is None or wire is None or (self._came is _NOTHING and not self.pieces):
            return None
        try:
            reading = wire.read(reply)
        except (OutputParsingError, ValueError):
            return None
        return reading.coercions if strict_equal(reading.value, self._value(invocation)) else None

    def _value(self, invocation: Invocation) -> Any:
        shape = invocation.plan.returns.shape
        if shape is Shape.TEXT_STREAM:
            return "".join(self.pieces)
        return self.pieces if shape is Shape.ITEMS else self._came


def _attempts(made: Sequence[Attempt]) -> list[dict[str, Any]]:
    """The requests to models, with what each of them wrote and why it was rejected."""
    told = []
    for one, said in zip(made, attempts_json(made), strict=True):
        problems = one.error.problems if isinstance(one.error, OutputParsingError) else ()
        calls = () if one.reply is None else one.reply.message.tool_calls
        text = "\n".join((one.text, *(f"{call.name}({call.arguments})" for call in calls))).strip("\n")
        wrong = [{"path": p.path, "message": p.message, "found": p.found} for p in problems]
        told.append({**said.model_dump(mode="json"), "text": text, "problems": wrong})
    return told


_ROLES: dict[type, str] = {
    SystemMessage: "system",
    UserMessage: "user",
    AiMessage: "assistant",
    ToolMessage: "tool",
}
_SECRET = ("extra_headers", "extra_body")  # a key may be in them


def preview_json(preview: Preview) -> str:
    """The JSON text of a preview, without what may hold a key."""
    said = {
        "model": preview.model,
        "strategy": preview.strategy,
        "reasons": preview.reasons,
        "messages": [{"role": _ROLES[type(one)], "parts": _parts(one)} for one in preview.messages],
        "options": _options(preview.options),
        "schema": preview.schema,
        "strict": preview.strict,
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in preview.tools
        ],
    }
    return to_json(said, fallback=str).decode()


def _parts(message: Message) -> list[dict[str, str]]:
    """The texts of a message, and what stands for its media and calls."""
    if isinstance(message, UserMessage):
        return [{"text": part} if isinstance(part, str) else {"media": str(part)} for part in message.parts]
    calls = message.tool_calls if isinstance(message, AiMessage) else ()
    said = [{"call": f"{call.name}({call.arguments})"} for call in calls]
    return [{"text": message.text}, *said] if message.text or not said else said


def _options(options: ChatOptions) -> dict[str, Any]:
    names = [one.name for one in fields(options) if one.name not in _SECRET]
    return {name: value for name in names if (value := getattr(options, name)) is not None}


_STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Runs(Endpoints):
    """Runs the method. The answer is events for every shape: those of the shape, and after ``result`` or
    ``error`` the account of the call with ``end``."""

    async def _answer(
        self, request: Request, service: Any, given: Mapping[str, Any], telling: Telling
    ) -> Response:
        function = getattr(service, self._method.name)
        run = PlaygroundRun(function, *self._method.bound(given), planned=is_planned(function))
        return _Events(_frames(self._method, run, self._room))


class Previews(Endpoints):
    """Tells what the method would send, and asks no model."""

    async def _answer(
        self, request: Request, service: Any, given: Mapping[str, Any], telling: Telling
    ) -> Response:
        args, kwargs = self._method.bound(given)
        function = getattr(service, self._method.name)
        try:
            # what renders a prompt may be code of the user's that blocks
            shown = await run_sync(partial(preview, function, *args, **kwargs), limiter=self._room)
        except Exception as error:
            raise ProblemError(problem_told(error, self._method.where)) from error
        return json_response(preview_json(shown))


class _Events(StreamingResponse):
    """Events that end with their listener: when the page is left, the call is ended."""

    def __init__(self, frames: AsyncGenerator[Frame, None]) -> None:
        self._frames = frames
        super().__init__(
            (frame.wire async for frame in frames), headers=_STREAM_HEADERS, media_type=EVENT_STREAM
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(receive, self.stream_response(send))
        except ClientDisconnect:
            pass  # nobody hears the rest
        finally:
            with anyio.CancelScope(shield=True):
                await self._frames.aclose()


async def _frames(
    method: Method, run: PlaygroundRun, room: anyio.CapacityLimiter
) -> AsyncGenerator[Frame, None]:
    try:
        async with aclosing(_answered(method, run, room)) as frames:
            async for frame in frames:
                yield frame
    except Exception as error:
        yield error_frame(problem_told(error, method.where))
    yield Frame(EventName.END, run.account_json())


async def _answered(
    method: Method, run: PlaygroundRun, room: anyio.CapacityLimiter
) -> AsyncGenerator[Frame, None]:
    came = await called(run.function, [], {}, room)
    if not method.streams:
        yield Frame(EventName.RESULT, run.finished(came, method.value))
        return
    growing = method.returns.shape is Shape.STREAM
    encoder = Growing(method, came, Telling.SNAPSHOTS) if growing else WireChunks(method)
    async with aclosing(pieces_of(came.events() if growing else came, came, room)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completed):
                yield Frame(EventName.RESULT, run.finished(piece.result, method.value))
                continue
            if not growing:
                run.pieces.append(piece)
            for frame in encoder.take(piece):
                yield frame


_BELOW = "_page"
_THREADS = 40
_OTHERS = re.compile(r"\W+")


class _Shown(NamedTuple):
    """A service on the page: under which id, where its endpoints are, and what it has."""

    id: str
    prefix: str
    provider: Provider[Any]
    contract: Contract


def mount(
    app: FastAPI,
    services: object | Mapping[str, object],
    *,
    path: str = "/",
    interface: Any = None,
    filled: Mapping[str, Callable[..., Any]] | None = None,
    parsers: Sequence[ParserFactory] = (),
    dependencies: Sequence[Any] = (),
) -> None:
    """Put a page at ``path`` on which each method can be tried, with its prompt, its schema and its account.

    ``services``, ``interface``, ``filled`` and ``parsers`` are as in ``aiservices.integrations.fastapi.app``;
    what is filled there has to be filled here too, or whoever opens the page may choose it. ``dependencies``
    are those of FastAPI, for all of the page: who may see it. It shows prompts and what models wrote, and
    calls cost what calls cost; so it is for those who build the service.

    All that it needs is served from beside it, and nothing from elsewhere. Raises DefinitionError, and
    ValueError when the application has something else at ``path``.
    """
    base = "/" + path.strip("/")
    base = base if base.endswith("/") else f"{base}/"
    taken = [one for one in app.routes if isinstance(one, APIRoute) and one.path in (base, base.rstrip("/"))]
    if any("GET" in (route.methods or ()) for route in taken):
        raise ValueError(f"the application has something else at {base}; pass another path for the page")
    given = dict(filled or {})
    shown = _shown(services, interface, given, parsers)
    made = APIRouter(route_class=ServiceRoute)
    room = anyio.CapacityLimiter(_THREADS)
    for one in shown:
        for method in one.contract.methods.values():
            below = f"{base}{_BELOW}/{one.id}/{method.name}"
            for name, kind in (("run", Runs), ("preview", Previews)):
                endpoint = kind(method, one.provider, given, room).of_body(("POST",))
                made.add_api_route(f"{below}/{name}", endpoint, methods=["POST"], include_in_schema=False)
    _add_files(made, base, [_described(one, given) for one in shown])
    app.include_router(made, dependencies=list(dependencies))


def _shown(
    services: object | Mapping[str, object],
    interface: Any,
    filled: Mapping[str, Any],
    parsers: Sequence[ParserFactory],
) -> list[_Shown]:
    by_prefix = services if isinstance(services, Mapping) else {"": services}
    found: dict[str, _Shown] = {}
    for prefix, service in by_prefix.items():
        provider = service if isinstance(service, Provider) else Provider(service)
        contract = contract_behind(provider, interface, parsers, filled)
        name = _OTHERS.sub("-", contract.name).strip("-")
        known = f"{name}-{len(found) + 1}" if name in found else name
        found[known] = _Shown(known, prefix, provider, contract)
    return list(found.values())


def _described(shown: _Shown, filled: Mapping[str, Any]) -> dict[str, Any]:
    """What the page is told of a service: its description, and where each method is tried."""
    said = description_of(shown.contract, shown.prefix)
    for method in said["methods"]:
        known = shown.contract.methods[method["name"]]
        below = f"{_BELOW}/{shown.id}/{known.name}"
        planned = is_planned(getattr(shown.provider.service, known.name, None))
        method["run"] = f"{below}/run"
        method["preview"] = f"{below}/preview" if planned else None
        method["missing"] = _missing(known, filled)
    return {**said, "id": shown.id, "prefix": shown.prefix}


def _missing(method: Method, filled: Mapping[str, Any]) -> list[str]:
    """The parameters that no caller gives, and nobody else does: the method cannot be called from here."""
    parameters = method.signature.parameters
    return [
        name
        for name in method.withheld
        if name not in filled and parameters[name].default is parameters[name].empty
    ]


def _add_files(made: APIRouter, base: str, described: list[dict[str, Any]]) -> None:
    async def described_json() -> JSONResponse:
        return JSONResponse(described, headers={"Cache-Control": "no-store"})

    made.add_api_route(f"{base}{_BELOW}/{DESCRIPTION}", described_json, include_in_schema=False)
    made.add_api_route(base, file_response(INDEX), include_in_schema=False)
    for name in names_of_files():
        made.add_api_route(f"{base}{_BELOW}/{name}", file_response(name), include_in_schema=False)
