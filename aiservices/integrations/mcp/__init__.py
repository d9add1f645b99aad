"""Tools of MCP servers (Model Context Protocol) for services. Opening a server needs the extra ``mcp``."""

from __future__ import annotations

from .connection import McpServerError
from .tools import McpTools

__all__ = ["McpServerError", "McpTools"]
