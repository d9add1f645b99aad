"""Where telemetry goes: a tracer, the instruments, and what may be written."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.trace import Span, Status, StatusCode

from ..errors import Attempt, ModelError
from ..messages import ChatReply, Usage
from . import otel_names as names
from .otel_content import captures_content, writable

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from ..prices import Prices

__all__ = ["Attached", "Attributes", "Signals", "fail", "harmless", "type_of", "usage_attributes"]

Attributes = dict[str, str | bool | int | float | tuple[str, ...]]


class Signals:
    """Spans, metrics and what they may hold; made once, holds nothing of a call."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        content: bool | None,
        prices: Prices | None,
    ) -> None:
        this = (__name__.rpartition(".")[0] + ".otel", version("aiservices"))
        self.tracer = trace.get_tracer(*this, tracer_provider)
        meter = metrics.get_meter(*this, meter_provider)
        self.content = captures_content() if content is None else content
        self._prices = prices
        self.tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
        )
        self.money = meter.create_counter(names.COST_METRIC, "{money}", "What requests cost.")
        durations = (
            (names.OPERATION_DURATION, "Duration of a request to a model.", names.REQUEST_BUCKETS),
            (names.FIRST_CHUNK_DURATION, "Time to the first chunk of a stream.", names.REQUEST_BUCKETS),
            (names.TOOL_DURATION, "Duration of a tool.", names.REQUEST_BUCKETS),
            (names.AGENT_DURATION, "Duration of a method with tools.", names.AGENT_BUCKETS),
            (names.WORKFLOW_DURATION, "Duration of a method without tools.", names.WORKFLOW_BUCKETS),
        )
        self.seconds = {
            name: meter.create_histogram(name, "s", about, explicit_bucket_boundaries_advisory=buckets)
            for name, about, buckets in durations
        }

    def cost(self, reply: ChatReply, name: str) -> tuple[float, str] | None:
        """What a reply cost, and in which currency; None where no price of its model is known."""
        if self._prices is None:
            return None
        cost = self._prices.cost([Attempt(name, reply, None, 0.0)])
        return None if cost is None else (cost, self._prices.currency)

    def count(self, usage: Usage, asked: Mapping[str, str | int], context: Context) -> None:
        """Record the tokens of a reply."""
        for kind, number in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            self.tokens.record(number, {**asked, names.TOKEN_TYPE: kind}, context)


@contextmanager
def harmless() -> Iterator[None]:
    """Log what goes wrong with telemetry, so that it breaks no call."""
    try:
        yield
    except Exception:
        logging.getLogger("aiservices").exception("telemetry failed")


class Attached:
    """Makes a context the current one of this thread or task; may be entered again once it was left."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = contexts.attach(self._context)

    def __exit__(self, *_: object) -> None:
        contexts.detach(self._token)


def usage_attributes(usage: Usage) -> Attributes:
    """Tokens; of those that not all providers report, only what there was."""
    shown: Attributes = {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
    }
    if usage.cached_tokens:
        shown[names.CACHED_TOKENS] = usage.cached_tokens
    if usage.reasoning_tokens:
        shown[names.REASONING_TOKENS] = usage.reasoning_tokens
    return shown


def type_of(error: BaseException) -> str:
    """The type of an error as OpenTelemetry names exceptions."""
    cls = type(error)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def fail(span: Span, error: BaseException, *, content: bool) -> None:
    """Note an error. Its text may quote what was said, hence it is content."""
    span.set_attribute(names.ERROR_TYPE, type_of(error))
    if isinstance(error, ModelError) and error.status is not None:
        span.set_attribute(names.HTTP_STATUS, error.status)
    span.set_status(Status(StatusCode.ERROR, writable(str(error)) if content else None))
