"""OpenTelemetry spans and metrics for service calls; needs the extra ``otel``."""

from __future__ import annotations

from ...models.errors import import_extra

# The check is here, because this file runs before any module of the package that imports OpenTelemetry.
import_extra("opentelemetry.trace", "otel", "telemetry")

from .instrument import AiServicesInstrumentor, OpenTelemetry  # noqa: E402  # the check is first

__all__ = ["AiServicesInstrumentor", "OpenTelemetry"]
