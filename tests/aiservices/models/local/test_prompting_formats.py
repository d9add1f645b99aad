"""Time formats of a JSON Schema become patterns in which the offset is optional."""

import re
from typing import Any

import pytest

from aiservices.models.local.prompting import with_time_patterns

TIME = with_time_patterns({"type": "string", "format": "time"})["pattern"]
DATE_TIME = with_time_patterns({"type": "string", "format": "date-time"})["pattern"]


@pytest.mark.parametrize("text", ["23:45:00", "00:00:00.5", "09:30:00Z", "09:30:00.000001+05:30"])
def test_a_time_fits(text: str) -> None:
    assert re.search(TIME, text)
    assert re.search(DATE_TIME, f"1968-07-04T{text}")


@pytest.mark.parametrize("text", ["23:45", "24:00:00", "23:60:00", "19:00:00.0000000", "19:00:00+25:00"])
def test_a_wrong_or_too_long_time_does_not_fit(text: str) -> None:
    assert not re.search(TIME, text)
    assert not re.search(DATE_TIME, f"1968-07-04T{text}")


def test_formats_are_replaced_at_all_depths_in_a_copy() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"format": {"type": "string", "format": "time", "description": "when"}},
        "anyOf": [{"items": {"type": "string", "format": "date-time"}}],
    }
    assert with_time_patterns(schema) == {
        "type": "object",
        "properties": {"format": {"type": "string", "pattern": TIME, "description": "when"}},
        "anyOf": [{"items": {"type": "string", "pattern": DATE_TIME}}],
    }
    assert schema["properties"]["format"]["format"] == "time"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "format": "date"},
        {"type": "string", "format": "time", "pattern": "^1"},
        {"enum": [{"format": "time"}]},
        True,
    ],
)
def test_other_schemas_are_unchanged(schema: Any) -> None:
    assert with_time_patterns(schema) == schema
