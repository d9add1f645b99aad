"""Use the tools of MCP (Model Context Protocol) servers in services, and offer services as MCP servers.

``McpTools`` lets services use MCP servers. ``mcp_server`` and ``mount_mcp`` make an MCP server of a service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .connection import McpQuestion, McpServerError
from .tools import McpTools

if TYPE_CHECKING:
    from ...remote.calls import ApprovalSettings
    from .server import mcp_server, mount_mcp, session_id

__all__ = [
    "ApprovalSettings",
    "McpQuestion",
    "McpServerError",
    "McpTools",
    "mcp_server",
    "mount_mcp",
    "session_id",
]

# Imported on first use: a program that only uses McpTools does not need the server's packages.
_MODULE_OF_NAME = {
    "ApprovalSettings": "...remote.calls",
    "mcp_server": ".server",
    "mount_mcp": ".server",
    "session_id": ".server",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(_MODULE_OF_NAME[name], __name__)
    except ModuleNotFoundError as error:
        if error.name not in ("anyio", "mcp", "mcp_types", "starlette"):
            raise
        from ...models.errors import missing_extra

        raise missing_extra(error.name, "mcp", name) from None
    value = getattr(module, name)
    globals()[name] = value  # later accesses do not call this function
    return value
