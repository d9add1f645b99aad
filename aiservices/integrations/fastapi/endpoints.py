"""The functions behind the routes: a request read, the method called, its answer written."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import anyio
from fastapi import Body, Depends, Query, Request, Response
from starlette.requests import ClientDisconnect

from output_parsers.errors import OutputParsingError

from ...messages import ChatReply
from ...returns import Shape
from .account import write_result
from .answers import JsonText, ProblemError, json_response, problem_told
from .calling import called, while_connected
from .contract import Method
from .events import Telling
from .problems import not_json, of_arguments
from .provider import Provider
from .queries import query_arguments
from .schemas import schema_type
from .streaming import streamed

__all__ = ["Endpoints"]

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
