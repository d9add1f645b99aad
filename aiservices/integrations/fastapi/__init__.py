"""Serve a service over HTTP with FastAPI, and call it with a client that has the same interface.

``router`` and ``app`` need the extra ``fastapi``. ``client`` needs httpx2 only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...remote.calls import ApprovalSettings
    from ...remote.contract import Contract, contract_of
    from ...remote.description import description_of
    from ...remote.problems import Problem
    from .remote_client import RemoteServiceError, client
    from .server import Provider, app, provide, router

__all__ = [
    "ApprovalSettings",
    "Contract",
    "Problem",
    "Provider",
    "RemoteServiceError",
    "app",
    "client",
    "contract_of",
    "description_of",
    "provide",
    "router",
]

# Imported on first use: a program that only uses ``client`` must not need FastAPI.
_MODULE_OF_NAME = {
    "ApprovalSettings": "...remote.calls",
    "Contract": "...remote.contract",
    "Problem": "...remote.problems",
    "Provider": ".server",
    "RemoteServiceError": ".remote_client",
    "app": ".server",
    "client": ".remote_client",
    "contract_of": "...remote.contract",
    "description_of": "...remote.description",
    "provide": ".server",
    "router": ".server",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(_MODULE_OF_NAME[name], __name__)
    except ModuleNotFoundError as error:
        if error.name not in ("anyio", "fastapi", "fastapi_offline", "httpx2", "starlette"):
            raise
        from ...models.errors import missing_extra

        raise missing_extra(error.name, "fastapi", name) from None
    value = getattr(module, name)
    globals()[name] = value  # later accesses do not call this function
    return value
