"""The span and the metrics of a run over the rows of a table."""

from __future__ import annotations

from typing import Protocol

import pytest
from recorded_spans import Recorded

from aiservices import AuthenticationError, ScriptedChatModel, create
from aiservices.integrations.otel import AiServicesInstrumentor
from aiservices.rows import RowsError, map_rows

TEXTS = [{"text": text} for text in ("a", "b", "a")]


class Judge(Protocol):
    def is_good(self, text: str) -> bool: ...


def test_the_calls_are_children_of_the_span_of_the_run(recorded: Recorded) -> None:
    model = ScriptedChatModel(["true", "maybe", "maybe", "maybe"])
    judge = create(Judge, model, interceptors=[recorded.telemetry(content=False)])
    map_rows(judge.is_good, TEXTS, max_concurrency=1).run()
    run = recorded.named("map_rows Judge.is_good")
    assert [line for line in recorded.tree.splitlines() if not line.startswith("    ")] == [
        "map_rows Judge.is_good",
        "  invoke_workflow Judge.is_good",
        "  invoke_workflow Judge.is_good ! ServiceOutputError",
    ]
    attributes = dict(run.attributes or {})
    assert {name: attributes[name] for name in attributes if name.startswith("aiservices.")} == {
        "aiservices.rows.count": 3,
        "aiservices.rows.errors": 1,
        "aiservices.rows.cached": 1,
        "aiservices.cost": 0.0,
    }


def test_rows_are_counted_by_their_outcome(recorded: Recorded) -> None:
    judge = create(
        Judge,
        ScriptedChatModel(["true", "maybe", "maybe", "maybe"]),
        interceptors=[recorded.telemetry(content=False)],
    )
    map_rows(judge.is_good, TEXTS, max_concurrency=1).run()
    name = {"gen_ai.workflow.name": "Judge.is_good"}
    assert recorded.metrics["aiservices.rows"] == [
        ({**name, "aiservices.row.outcome": outcome}, 1) for outcome in ("answered", "error", "cached")
    ]


def test_a_run_that_stops_has_a_span_with_the_error(recorded: Recorded) -> None:
    AiServicesInstrumentor().instrument(tracer_provider=recorded.tracer_provider)
    try:
        judge = create(Judge, ScriptedChatModel([AuthenticationError("no key")]))
        with pytest.raises(RowsError):
            map_rows(judge.is_good, TEXTS, max_concurrency=1).run()
    finally:
        AiServicesInstrumentor().uninstrument()
    attributes = recorded.named("map_rows Judge.is_good").attributes
    assert attributes is not None
    assert str(attributes["error.type"]).endswith("AuthenticationError")
