"""Calls of services as spans and metrics of OpenTelemetry. Needs the extra ``otel``."""

from __future__ import annotations

from .instrument import AiServicesInstrumentor, OpenTelemetry

__all__ = ["AiServicesInstrumentor", "OpenTelemetry"]
