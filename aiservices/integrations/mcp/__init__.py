"""The tools of MCP servers (Model Context Protocol) as tools of a service. Needs the extra ``mcp``."""

from __future__ import annotations

from .connection import McpServerError
from .tools import McpTools

__all__ = ["McpServerError", "McpTools"]
