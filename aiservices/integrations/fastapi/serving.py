"""A whole application for services: their endpoints, and a description of them for those who build on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from output_parsers.registry import ParserFactory

from .describing import description_of
from .provider import Provider
from .routes import contract_behind, router

__all__ = ["app"]

_DESCRIPTION = "/services.json"


def app(
    services: object | Mapping[str, object],
    *,
    interface: Any = None,
    paths: Mapping[str, str] | None = None,
    filled: Mapping[str, Callable[..., Any]] | None = None,
    parsers: Sequence[ParserFactory] = (),
    **settings: Any,
) -> FastAPI:
    """An application with the endpoints of a service, or of several by their prefixes.

    >>> app(create(SentimentAnalyzer, model))  # doctest: +SKIP
    >>> app({"/sentiment": analyzer, "/film": expert})  # doctest: +SKIP

    ``/docs`` and ``/openapi.json`` are those of FastAPI, to which ``settings`` go; ``/services.json`` is what
    ``description_of`` tells of each service. All else is as in ``router``. Raises DefinitionError.
    """
    by_prefix = services if isinstance(services, Mapping) else {"": services}
    given = filled or {}
    providers = {
        prefix: one if isinstance(one, Provider) else Provider(one) for prefix, one in by_prefix.items()
    }
    contracts = {
        prefix: contract_behind(provider, interface, parsers, given) for prefix, provider in providers.items()
    }
    title = ", ".join(contract.name for contract in contracts.values())
    made = FastAPI(**{"title": title, "separate_input_output_schemas": False, **settings})
    described = [description_of(contract, prefix, paths) for prefix, contract in contracts.items()]
    for prefix, provider in providers.items():
        made.include_router(
            router(provider, interface=interface, prefix=prefix, paths=paths, filled=given, parsers=parsers)
        )

    @made.get(_DESCRIPTION, include_in_schema=False)
    async def services_json() -> JSONResponse:
        return JSONResponse(described)

    return made
