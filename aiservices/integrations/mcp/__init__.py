"""Let services use the tools of MCP (Model Context Protocol) servers; needs the extra ``mcp``."""

from __future__ import annotations

from .connection import McpServerError
from .tools import McpTools

__all__ = ["McpServerError", "McpTools"]
