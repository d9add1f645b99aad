"""Integrations with FastAPI, MCP and OpenTelemetry, and a web page for trying services."""

from __future__ import annotations
