"""OpenTelemetry: the spans of a call as a tree, and a log line for the call."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Protocol

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from aiservices import (
    AiMessage,
    Budget,
    ChatModel,
    ChatReply,
    ModelServerError,
    Price,
    ScriptedChatModel,
    ToolCall,
    create,
    user_message,
)
from aiservices.call_log import log_calls
from aiservices.integrations.otel import OpenTelemetry
from aiservices.prices import PriceTable

PRICES = PriceTable({"scripted": Price(input=2.0, output=8.0)}, currency="EUR", as_of=date(2026, 11, 1))
ATTRIBUTES = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "aiservices.cost", "error.type")


def in_stock(item: str) -> int:
    """Return how many pieces of an item are in stock."""
    return {"pears": 12, "plums": 0}[item]


class Clerk(Protocol):
    @user_message("Which of these can I buy? {{items}}")
    def available(self, items: list[str]) -> list[str]: ...


def scripted() -> ScriptedChatModel:
    """Return a scripted model that fails, calls a tool twice, and gives a wrong and a right answer."""
    calls = tuple(ToolCall(item, "in_stock", f'{{"item": "{item}"}}') for item in ("pears", "plums"))
    down = ModelServerError("overloaded", status=503, retryable=True)
    return ScriptedChatModel([down, ChatReply(AiMessage("", calls)), "Pears.", '{"value": ["pears"]}'])


def main(model: ChatModel | str | None = None) -> None:
    """Print the telemetry spans of a call. Without a model, a scripted one answers."""
    logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("aiservices").setLevel(logging.INFO)
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = OpenTelemetry(tracer_provider=provider, prices=PRICES)
    clerk = create(
        Clerk,
        model or scripted(),
        tools=[in_stock],
        interceptors=[telemetry],
        listeners=[log_calls],
        budget=Budget(first_wait=0),
    )
    print(", ".join(clerk.available(["pears", "plums"])))
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
    print("\n".join(tree(spans, None)))


def tree(spans: Sequence[ReadableSpan], parent: int | None) -> Iterator[str]:
    """Yield a line for each span below a parent span, with its attributes and events."""
    for span in spans:
        if (span.parent and span.parent.span_id) == parent:
            attributes = ", ".join(
                f"{name}={value!r}" for name, value in (span.attributes or {}).items() if name in ATTRIBUTES
            )
            yield f"{span.name}  {attributes}".rstrip()
            yield from (f"   {event.name}" for event in span.events)
            children = tree(spans, span.context.span_id) if span.context else ()
            yield from (f"   {line}" for line in children)


if __name__ == "__main__":
    main()
