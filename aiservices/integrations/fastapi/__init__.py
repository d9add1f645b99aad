"""Services over HTTP: endpoints of FastAPI for those that call, and a client that is the same interface.

``router`` and ``app`` need the extra ``fastapi``; ``client`` needs ``httpx2`` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import RemoteServiceError, client
    from .contract import Contract, contract_of
    from .problems import Problem
    from .server import Provider, app, description_of, provide, router

__all__ = [
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

# Loaded when they are asked for: a machine that calls has no need of what serves.
_LATE = {
    "Contract": "contract",
    "Problem": "problems",
    "Provider": "server",
    "RemoteServiceError": "client",
    "app": "server",
    "client": "client",
    "contract_of": "contract",
    "description_of": "server",
    "provide": "server",
    "router": "server",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(f"{__name__}.{_LATE[name]}")
    except ModuleNotFoundError as error:
        if error.name not in ("anyio", "fastapi", "httpx2", "starlette"):
            raise
        raise ImportError(f'{name} needs {error.name}: pip install "aiservices[fastapi]"') from error
    value = getattr(module, name)
    globals()[name] = value
    return value
