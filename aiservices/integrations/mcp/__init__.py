"""Use the tools of MCP (Model Context Protocol) servers in services, and offer services as MCP servers.

``McpTools`` lets services use MCP servers. ``mcp_server`` and ``mount_mcp`` make an MCP server of a service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy_names import lazy_names

if TYPE_CHECKING:
    from ...remote.calls import ApprovalSettings
    from .connection import McpQuestion, McpServerError
    from .server import mcp_server, mount_mcp, session_id
    from .tools import McpTools

__all__ = [
    "ApprovalSettings",
    "McpQuestion",
    "McpServerError",
    "McpTools",
    "mcp_server",
    "mount_mcp",
    "session_id",
]

# Imported on first use: a program that only uses McpTools does not need the server's packages, and without
# the extra the error names its command.
__getattr__ = lazy_names(
    __name__,
    {
        "...remote.calls": "ApprovalSettings",
        ".connection": "McpQuestion McpServerError",
        ".server": "mcp_server mount_mcp session_id",
        ".tools": "McpTools",
    },
    dict.fromkeys(("anyio", "mcp", "mcp_types", "starlette"), "mcp"),
)
