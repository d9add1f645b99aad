"""The formats of times are bounded where a reply is constrained, and a time need not have an offset."""

import re
from typing import Any

import pytest

from aiservices.models.local.prompting import with_time_patterns

TIME = with_time_patterns({"type": "string", "format": "time"})["pattern"]
MOMENT = with_time_patterns({"type": "string", "format": "date-time"})["pattern"]


@pytest.mark.parametrize("text", ["23:45:00", "00:00:00.5", "09:30:00Z", "09:30:00.000001+05:30"])
def test_a_time_fits(text: str) -> None:
    assert re.search(TIME, text)
    assert re.search(MOMENT, f"1968-07-04T{text}")


@pytest.mark.parametrize("text", ["23:45", "24:00:00", "23:60:00", "19:00:00.0000000", "19:00:00+25:00"])
def test_what_is_no_time_or_runs_on_does_not_fit(text: str) -> None:
    assert not re.search(TIME, text)
    assert not re.search(MOMENT, f"1968-07-04T{text}")


def test_formats_are_found_wherever_they_stand_and_the_schema_is_left_as_it_was() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"format": {"type": "string", "format": "time", "description": "when"}},
        "anyOf": [{"items": {"type": "string", "format": "date-time"}}],
    }
    assert with_time_patterns(schema) == {
        "type": "object",
        "properties": {"format": {"type": "string", "pattern": TIME, "description": "when"}},
        "anyOf": [{"items": {"type": "string", "pattern": MOMENT}}],
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
def test_all_else_stays_as_it_is(schema: Any) -> None:
    assert with_time_patterns(schema) == schema
