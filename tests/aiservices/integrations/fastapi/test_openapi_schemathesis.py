"""Requests that schemathesis generates get responses that conform to the OpenAPI document."""

from __future__ import annotations

import pytest

schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, settings  # noqa: E402
from schemathesis import Case  # noqa: E402

from samples.service.__main__ import application  # noqa: E402
from samples.service.scripted import scripted  # noqa: E402

SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", application(scripted()))


@pytest.mark.filterwarnings("default")
@SCHEMA.parametrize()
@settings(
    max_examples=12,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
def test_every_response_conforms_to_the_openapi_document(case: Case) -> None:
    case.call_and_validate()
