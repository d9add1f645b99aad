"""The data of the benchmarks as plain Python values, without imports of other packages."""

from __future__ import annotations

import json
from typing import Any

PERSON: dict[str, Any] = {"name": "Grace Hopper", "age": 45, "height": 1.68, "married": True}
PROSE_BEFORE = "Of course. This is what I found in the text:"
PROSE_AFTER = "Tell me when anything else is of interest."
_TOWNS = ("Delft", "Ghent", "Lucca", "Porto", "Tartu", "Turku", "York")
_DAYS = 28


def record(number: int) -> dict[str, Any]:
    """Return the data of one customer, with a nested record and a list."""
    town = _TOWNS[number % len(_TOWNS)]
    return {
        "id": number,
        "name": f"Customer number {number}",
        "email": f"c{number}@shop.example",
        "active": number % 4 != 0,
        "score": round(number * 1.75 + 0.25, 2),
        "tags": [f"group{number % 6}", f"since{1990 + number % 30}"],
        "address": {
            "street": f"{number} Canal Street",
            "city": town,
            "zip": f"{town[:2].upper()}{number:04d}",
        },
    }


def event(number: int) -> dict[str, Any]:
    """Return the data of one event with dates."""
    day = f"2026-{number % 12 + 1:02d}-{number % _DAYS + 1:02d}"
    return {
        "title": f"Event number {number}",
        "day": day,
        "begins": f"{day}T{number % 24:02d}:30:00",
        "seats": number % 90 + 10,
    }


def records_data(size: int, make: Any = record) -> list[dict[str, Any]]:
    """Return as many records as give a JSON text of about ``size`` characters."""
    records: list[dict[str, Any]] = []
    length = 0
    while length < size:
        records.append(make(len(records)))
        length += len(json.dumps(records[-1], separators=(",", ":"))) + 1
    return records


def records_text(size: int, make: Any = record, *, indent: int | None = None) -> str:
    """Return a JSON object of about ``size`` characters with a list of records."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps({"records": records_data(size, make)}, separators=separators, indent=indent)


def in_fence(text: str) -> str:
    """Return a JSON text as chat models often send it: in a Markdown fence between prose."""
    return f"{PROSE_BEFORE}\n\n```json\n{text}\n```\n\n{PROSE_AFTER}"
