"""Puts the page on an application: its files, the description of the methods, and a way to try each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import anyio
from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from output_parsers.registry import ParserFactory

from ..integrations.fastapi.contract import Contract, Method
from ..integrations.fastapi.describing import description_of
from ..integrations.fastapi.provider import Provider
from ..integrations.fastapi.routes import ServiceRoute, contract_behind
from ..methods import is_planned
from .files import DESCRIPTION, INDEX, file_response, names_of_files
from .trying import Previews, Runs

__all__ = ["mount"]

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
