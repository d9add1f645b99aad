"""OpenTelemetry spans and metrics for the calls of services. Needs the extra ``otel``."""

from __future__ import annotations

# The check is here, because this file runs before any module of the package that imports OpenTelemetry.
try:
    import opentelemetry.trace  # noqa: F401  # only to report a missing package
except ImportError as error:
    raise ImportError('telemetry needs opentelemetry: pip install "aiservices[otel]"') from error

from .instrument import AiServicesInstrumentor, OpenTelemetry

__all__ = ["AiServicesInstrumentor", "OpenTelemetry"]
