"""A fixture with a new OpenTelemetry SDK for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from recorded_spans import Recorded


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    recorded = Recorded()
    yield recorded
    recorded.tracer_provider.shutdown()
    recorded.meter_provider.shutdown()
