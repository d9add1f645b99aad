"""Says in patterns what the formats of times let run on: a weak model writes fractions without an end."""

from __future__ import annotations

from typing import Any

__all__ = ["bounded"]

_DATE = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
# RFC 3339 demands an offset, which a text seldom tells; forced to write one, a model writes "Z" for anything.
_REST = r"(\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
_PATTERNS = {"time": f"^{_TIME}{_REST}$", "date-time": f"^{_DATE}T{_TIME}{_REST}$"}
_VALUES = ("const", "default", "enum", "examples")


def bounded(schema: Any) -> Any:
    """The schema with a pattern in place of ``"format": "time"`` and ``"date-time"``, wherever they stand."""
    if isinstance(schema, list):
        return [bounded(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: part if key in _VALUES else bounded(part) for key, part in schema.items()}
    form = schema.get("format")
    if isinstance(form, str) and form in _PATTERNS and "pattern" not in schema:
        del inner["format"]
        inner["pattern"] = _PATTERNS[form]
    return inner
