"""Integrations with FastAPI, MCP and OpenTelemetry."""

from __future__ import annotations
