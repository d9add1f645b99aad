"""The routes of a service: one for each method, with the types of its arguments and its answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import anyio
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from output_parsers.registry import ParserFactory

from ...errors import DefinitionError, Fault
from ...returns import Shape
from .answers import JsonText, ProblemError, problem_response, unfit_request
from .contract import Contract, Method, contract_of
from .documents import PROBLEM, problem_schema, responses_of
from .endpoints import Endpoints
from .events import event_schema
from .provider import Provider
from .queries import allowed_of, query_parameters
from .schemas import schema_type
from .streaming import EventStream

__all__ = ["THREADS", "ServiceRoute", "check_names", "contract_behind", "router", "routes_of"]

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
    are Server-Sent Events; errors are problems (RFC 9457). Raises DefinitionError with all faults at once.
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
    faults = [fault for method in methods for fault in _unfilled(method, filled)]
    faults += [Fault(where, said) for said in unknown]
    if faults:
        raise DefinitionError(faults)


def _unfilled(method: Method, filled: Mapping[str, Any]) -> list[Fault]:
    said = "a caller does not give it, and nobody else does; name a dependency for it in filled"
    return [
        Fault(method.where, f"the parameter {name}: {said}")
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
