"""Serve a service over HTTP with FastAPI, and call it with a client that has the same interface.

``router`` and ``app`` need the extra ``fastapi``. ``client`` needs httpx2 only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy_names import lazy_names

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
__getattr__ = lazy_names(
    __name__,
    {
        "...remote.calls": "ApprovalSettings",
        "...remote.contract": "Contract contract_of",
        "...remote.description": "description_of",
        "...remote.problems": "Problem",
        ".remote_client": "RemoteServiceError client",
        ".server": "Provider app provide router",
    },
    dict.fromkeys(("anyio", "fastapi", "fastapi_offline", "httpx2", "starlette"), "fastapi"),
)
