"""An OpenTelemetry SDK that records spans and metrics in memory, and shows its spans as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from aiservices.integrations.otel import OpenTelemetry


class Recorded:
    """Records the spans, metrics and events that are written to its providers."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meter_provider = MeterProvider([self._reader])
        self.tracer = self.tracer_provider.get_tracer("test")
        self._events = InMemoryLogRecordExporter()
        self.logger_provider = LoggerProvider()
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self._events))

    def telemetry(self, **settings: Any) -> OpenTelemetry:
        return OpenTelemetry(**self.providers, **settings)

    @property
    def providers(self) -> dict[str, Any]:
        names = ("tracer_provider", "meter_provider", "logger_provider")
        return {name: getattr(self, name) for name in names}

    @property
    def events(self) -> list[tuple[str | None, dict[str, Any], int | None]]:
        """The name, the attributes and the id of the span of each event."""
        records = [data.log_record for data in self._events.get_finished_logs()]
        return [(one.event_name, dict(one.attributes or {}), one.span_id) for one in records]

    @property
    def spans(self) -> list[ReadableSpan]:
        """All spans in the order in which they began."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> ReadableSpan:
        """The only span with this name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    @property
    def tree(self) -> str:
        """The names of all spans as an indented tree. A failed span is followed by the type of its error."""
        return "\n".join(line for root in self._below(None) for line in self._lines(root))

    def _below(self, parent: ReadableSpan | None) -> list[ReadableSpan]:
        above = parent and parent.context.span_id
        return [span for span in self.spans if (span.parent and span.parent.span_id) == above]

    def _lines(self, span: ReadableSpan) -> Iterator[str]:
        error = (span.attributes or {}).get("error.type")
        yield span.name if error is None else f"{span.name} ! {str(error).rpartition('.')[2]}"
        below = self._below(span)
        yield from (f"  {line}" for one in below for line in self._lines(one))

    @property
    def metrics(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """The data points of each metric: their attributes and the sum of the recorded values."""
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: [
                (dict(point.attributes or {}), getattr(point, "sum", getattr(point, "value", None)))
                for point in metric.data.data_points
            ]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def boundaries(self, name: str) -> tuple[float, ...]:
        """The buckets of a histogram."""
        data: Any = self._reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        (histogram,) = [metric for metric in metrics if metric.name == name]
        return tuple(histogram.data.data_points[0].explicit_bounds)
