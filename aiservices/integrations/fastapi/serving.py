"""A whole application for services: their endpoints, and a description of them for those who build on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from output_parsers.registry import ParserFactory

from .describing import description_of
from .provider import Provider
from .routes import THREADS, check_names, contract_behind, routes_of

__all__ = ["app"]

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
