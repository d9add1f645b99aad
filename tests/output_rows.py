"""Rows with an answer or an error, and the values that an output has of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiservices.rows import Row
from aiservices.rows.fields import Cells, Fields


def output_row(inputs: Mapping[str, Any], answer: Any = None, error: Any = None) -> Row[Any]:
    """Return a row as if it had been known from an earlier run."""
    return Row(0, None, inputs, error, cached=True, _value=answer)


def cells(fields: Fields, inputs: Mapping[str, Any], answer: Any = None, error: Any = None) -> Cells:
    """Return the only output row of a row."""
    (values,) = fields.rows(output_row(inputs, answer, error))
    return values
