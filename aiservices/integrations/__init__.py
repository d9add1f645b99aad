"""Connections to other systems: FastAPI, MCP, OpenTelemetry, logging and prices."""

from __future__ import annotations
