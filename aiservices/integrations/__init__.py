"""Integrations with FastAPI, MCP, OpenTelemetry and DBOS."""

from __future__ import annotations
