"""NaN and the infinities, which JSON has not: how they are written, and which types ask for them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from pydantic.fields import FieldInfo

from .late_pattern import late

__all__ = ["NON_FINITE", "NOT_JSON", "allows_non_finite", "is_non_finite", "name_of", "named"]

NOT_JSON = "NaN or Infinity without quotes"  # the rule by which one is read that stands as a number does
NON_FINITE = {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}
# As JavaScript, Python and pandas write them.
_NAME = late(r"(?P<sign>[+-]?)(?:(?P<nan>NaN|nan)|Infinity|inf)")


def named(text: str) -> Decimal | None:
    """NaN or the infinity whose name a text is; None for all others."""
    name = _NAME.fullmatch(text)
    if name is None:
        return None
    return Decimal("NaN") if name["nan"] else Decimal(f"{name['sign']}Infinity")


def is_non_finite(found: object) -> bool:
    """Whether a JSON value stood as NaN or Infinity in the text."""
    return isinstance(found, Decimal) and not found.is_finite()


def name_of(value: float) -> str | None:
    """The text that JSON has for a float that is not finite; None for all others."""
    if math.isfinite(value):
        return None
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def allows_non_finite(metadata: Iterable[Any]) -> bool | None:
    """What is said of ``allow_inf_nan`` in what Annotated holds, nearest to the use; None when nothing is."""
    said = None
    for item in metadata:
        for part in item.metadata if isinstance(item, FieldInfo) else (item,):
            allowed = getattr(part, "allow_inf_nan", None)
            said = allowed if isinstance(allowed, bool) else said
    return said
