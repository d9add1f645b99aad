"""An OpenTelemetry collector receives the spans and metrics of a call over OTLP."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from loopback import Loopback, ReceivedRequest, Reply

from aiservices import ScriptedChatModel, create
from aiservices.integrations.otel import OpenTelemetry

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the OTLP exporter is not installed")

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


class Counter(Protocol):
    def count(self, text: str) -> int: ...


def body_of(seen: ReceivedRequest) -> bytes:
    return gzip.decompress(seen.body) if seen.headers.get("content-encoding") == "gzip" else seen.body


@pytest.fixture
def collected(loopback: Loopback) -> Iterator[tuple[Any, Any]]:
    """Tracer and meter providers that export to a local collector."""
    loopback.reply(Reply(200, b"", {"content-type": "application/x-protobuf"}))
    address = f"http://127.0.0.1:{loopback.port}"
    tracer_provider = TracerProvider()
    tracer_provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
    exporter = OTLPMetricExporter(f"{address}/v1/metrics")
    meter_provider = MeterProvider([PeriodicExportingMetricReader(exporter, 60_000)])
    yield tracer_provider, meter_provider
    tracer_provider.shutdown()
    meter_provider.shutdown()


def test_a_collector_receives_spans_and_metrics(loopback: Loopback, collected: tuple[Any, Any]) -> None:
    tracer_provider, meter_provider = collected
    telemetry = OpenTelemetry(tracer_provider=tracer_provider, meter_provider=meter_provider)
    create(Counter, ScriptedChatModel(['{"value": 1}']), interceptors=[telemetry]).count("x")
    assert tracer_provider.force_flush()
    assert meter_provider.force_flush()
    by_path = {seen.path: body_of(seen) for seen in loopback.requests}
    traces = ExportTraceServiceRequest.FromString(by_path["/v1/traces"])
    (scope,) = traces.resource_spans[0].scope_spans
    request, call = scope.spans
    assert (scope.scope.name, request.name, call.name) == (
        "aiservices.integrations.otel",
        "chat scripted",
        "invoke_workflow Counter.count",
    )
    assert (request.parent_span_id, request.trace_id) == (call.span_id, call.trace_id)
    attributes = {one.key: one.value.string_value for one in request.attributes if one.value.string_value}
    assert attributes["gen_ai.request.model"] == "scripted"
    metrics = ExportMetricsServiceRequest.FromString(by_path["/v1/metrics"])
    assert sorted(metric.name for metric in metrics.resource_metrics[0].scope_metrics[0].metrics) == [
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "gen_ai.invoke_workflow.duration",
    ]
