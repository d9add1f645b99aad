"""AiServicesInstrumentor traces all services of a process between instrument and uninstrument."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from recorded_spans import Recorded

from aiservices import ScriptedChatModel, create
from aiservices.engine.pipeline import GLOBAL_INTERCEPTORS
from aiservices.integrations.otel import AiServicesInstrumentor

TREE = "invoke_workflow Counter.count\n  chat scripted"


class Counter(Protocol):
    def count(self, text: str) -> int: ...


def counter(**settings: Any) -> Counter:
    return create(Counter, ScriptedChatModel(lambda request: '{"value": 1}'), **settings)


@pytest.fixture
def instrumentor() -> Iterator[AiServicesInstrumentor]:
    instrumentor = AiServicesInstrumentor()
    yield instrumentor
    instrumentor.uninstrument()


def instrument(instrumentor: AiServicesInstrumentor, recorded: Recorded) -> None:
    providers: Any = {"tracer_provider": recorded.tracer_provider, "meter_provider": recorded.meter_provider}
    instrumentor.instrument(**providers, skip_dep_check=True)


def test_existing_services_are_traced_too(instrumentor: AiServicesInstrumentor, recorded: Recorded) -> None:
    service = counter()
    instrument(instrumentor, recorded)
    service.count("x")
    assert recorded.tree == TREE
    instrumentor.uninstrument()
    service.count("x")
    assert recorded.tree == TREE


def test_a_call_with_both_interceptors_has_one_span(
    instrumentor: AiServicesInstrumentor, recorded: Recorded
) -> None:
    instrument(instrumentor, recorded)
    counter(interceptors=[recorded.telemetry()]).count("x")
    assert recorded.tree == TREE


def test_a_second_instrument_call_replaces_the_first(
    instrumentor: AiServicesInstrumentor, recorded: Recorded
) -> None:
    first = Recorded()
    instrument(instrumentor, first)
    instrument(AiServicesInstrumentor(), recorded)
    counter().count("x")
    assert (first.tree, recorded.tree) == ("", TREE)
    AiServicesInstrumentor().uninstrument()
    assert GLOBAL_INTERCEPTORS == []
    counter().count("x")
    assert recorded.tree == TREE


def test_without_opentelemetry_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    monkeypatch.delitem(sys.modules, "aiservices.integrations.otel")
    with pytest.raises(ImportError) as caught:
        import aiservices.integrations.otel  # noqa: F401
    assert str(caught.value) == 'telemetry needs the package opentelemetry: pip install "aiservices[otel]"'
