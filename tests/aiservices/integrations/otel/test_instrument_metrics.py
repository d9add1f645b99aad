"""The OpenTelemetry metrics of calls, their attributes and their buckets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any, Protocol

import pytest
from recorded_spans import Recorded

from aiservices import Budget, ChatOptions, ModelServerError, Price, ScriptedChatModel, ToolCall, create
from aiservices.models.messages import AiMessage, ChatReply, FinishReason, Usage
from aiservices.prices import PriceTable

DOWN = ModelServerError("500", status=500, retryable=True)
ANSWER = ChatReply(AiMessage('{"value": 1}'), usage=Usage(12, 3), model="scripted-1")
CALLS = ChatReply(AiMessage("", (ToolCall("c", "half", '{"of": 2}'),)), FinishReason.TOOL_CALLS)
ASKED = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "scripted",
    "gen_ai.request.model": "scripted",
}
ANSWERED = {**ASKED, "gen_ai.response.model": "scripted-1"}
PRICES = PriceTable({"scripted-?": Price(2.0, 8.0)}, currency="EUR", as_of=date(2026, 11, 1))


def half(of: int) -> int:
    """Half of a number."""
    return of // 2


class Counter(Protocol):
    def count(self, text: str) -> int: ...

    def words(self, text: str) -> Iterator[str]: ...


def counter(recorded: Recorded, *script: Any, prices: Any = None, **settings: Any) -> Counter:
    interceptors = [recorded.telemetry(content=False, prices=prices)]
    budget = Budget(max_attempts=9, first_wait=0)
    return create(Counter, ScriptedChatModel(script), interceptors=interceptors, budget=budget, **settings)


def measured(recorded: Recorded) -> dict[str, list[dict[str, Any]]]:
    """Return the attributes of the data points of each recorded metric."""
    return {name: [point for point, _ in points] for name, points in recorded.metrics.items()}


def test_each_request_each_tool_and_each_call_is_measured(recorded: Recorded) -> None:
    counter(recorded, DOWN, CALLS, ANSWER, tools=[half]).count("x")
    tool = {"gen_ai.tool.name": "half", "gen_ai.tool.type": "function", "gen_ai.agent.name": "Counter.count"}
    assert measured(recorded) == {
        "gen_ai.client.operation.duration": [
            {**ASKED, "error.type": "aiservices.models.errors.ModelServerError"},
            ASKED,
            ANSWERED,
        ],
        "gen_ai.execute_tool.duration": [tool],
        "gen_ai.client.token.usage": [
            {**ANSWERED, "gen_ai.token.type": "input"},
            {**ANSWERED, "gen_ai.token.type": "output"},
        ],
        "gen_ai.invoke_agent.duration": [{"gen_ai.agent.name": "Counter.count"}],
    }
    assert [total for _, total in recorded.metrics["gen_ai.client.token.usage"]] == [12, 3]


def test_an_invented_name_of_a_tool_is_not_a_label(recorded: Recorded) -> None:
    names = ["no_such", "half\nforged", "x" * 1000, ""]
    calls = tuple(ToolCall(f"c{place}", name, '{"of": 2}') for place, name in enumerate(names))
    counter(recorded, ChatReply(AiMessage("", calls), FinishReason.TOOL_CALLS), ANSWER, tools=[half]).count(
        "x"
    )
    labels = [labels for data in recorded.metrics.values() for labels, _ in data]
    assert {one.get("gen_ai.tool.name") for one in labels} == {None, "unknown_tool"}
    assert not any(name in str(labels) for name in names[:3])


def test_the_time_to_the_first_chunk_of_a_stream_is_measured(recorded: Recorded) -> None:
    assert list(counter(recorded, "a b").words("x")) == ["a ", "b"]
    streamed = {**ASKED, "gen_ai.response.model": "scripted"}
    assert measured(recorded)["gen_ai.client.operation.time_to_first_chunk"] == [streamed]
    assert measured(recorded)["gen_ai.invoke_workflow.duration"] == [
        {"gen_ai.workflow.name": "Counter.words"}
    ]


def test_a_call_that_failed_is_measured_with_its_error(recorded: Recorded) -> None:
    with pytest.raises(LookupError):
        counter(recorded).count("x")
    assert measured(recorded) == {
        "gen_ai.client.operation.duration": [{**ASKED, "error.type": "LookupError"}],
        "gen_ai.invoke_workflow.duration": [
            {"gen_ai.workflow.name": "Counter.count", "error.type": "LookupError"}
        ],
    }


def test_buckets_are_those_of_the_conventions(recorded: Recorded) -> None:
    counter(recorded, ANSWER).count("x")
    seconds = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
    tokens = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
    assert recorded.boundaries("gen_ai.client.operation.duration") == seconds
    assert recorded.boundaries("gen_ai.client.token.usage") == tokens


def test_with_prices_each_request_has_its_cost(recorded: Recorded) -> None:
    counter(recorded, ANSWER, prices=PRICES).count("x")
    attributes = dict(recorded.named("chat scripted").attributes or {})
    assert (attributes["aiservices.cost"], attributes["aiservices.cost.currency"]) == (0.000048, "EUR")
    assert recorded.metrics["aiservices.client.cost"] == [
        ({**ANSWERED, "aiservices.cost.currency": "EUR"}, 0.000048)
    ]


def test_a_model_without_a_price_has_no_cost_attribute(recorded: Recorded) -> None:
    other = ChatReply(AiMessage("a"), usage=Usage(1, 1), model="unknown")
    unmeasured = ChatReply(AiMessage("a"), model="scripted-1")
    service = counter(recorded, other, unmeasured, prices=PRICES)
    assert [list(service.words("x")), list(service.words("x"))] == [["a"], ["a"]]
    assert "aiservices.client.cost" not in recorded.metrics
    assert not any("aiservices.cost" in (span.attributes or {}) for span in recorded.spans)


def test_an_error_in_a_price_does_not_break_a_call(
    recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Price):
        def of(self, usage: Usage) -> float:
            raise ZeroDivisionError

    prices = PriceTable({"scripted": Broken(1, 1)}, currency="EUR", as_of=date(2026, 11, 1))
    assert counter(recorded, ANSWER, prices=prices).count("x") == 1
    assert caplog.messages == ["telemetry failed"]
    assert recorded.tree == "invoke_workflow Counter.count\n  chat scripted"


def test_the_cost_is_that_of_the_model_in_the_options(recorded: Recorded) -> None:
    table = {"small": Price(1, 1), "large": Price(100, 100)}
    prices = PriceTable(table, currency="EUR", as_of=date(2026, 11, 1))
    model = ScriptedChatModel([ANSWER], name="openai:small")
    interceptors = [recorded.telemetry(prices=prices)]
    create(Counter, model, options=ChatOptions(model="large"), interceptors=interceptors).count("x")
    assert (recorded.named("chat large").attributes or {})["aiservices.cost"] == 0.0015
