"""Checks the keywords of a scalar or an array that are sent with it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from ..reading import Json

__all__ = ["breaks", "is_integral", "sendable_pattern"]

_BOUNDS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (operator.ge, "at least"),
    "exclusiveMinimum": (operator.gt, "more than"),
    "maximum": (operator.le, "at most"),
    "exclusiveMaximum": (operator.lt, "less than"),
}
_SIZES: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minLength": (operator.ge, "at least {} characters"),
    "maxLength": (operator.le, "at most {} characters"),
    "minItems": (operator.ge, "at least {} items"),
    "maxItems": (operator.le, "at most {} items"),
}
# what regular-expression engines that write as they go leave out: looking around, and looking back
_LOOKS = re.compile(r"\(\?(?:[=!]|<[=!])|\\[1-9]|\\k<|\\[bBpP]")


def breaks(keywords: Mapping[str, Any], value: Json) -> str | None:
    """What the first keyword that does not hold of a value asks for; None when all hold."""
    for keyword, bound in keywords.items():
        if keyword in _BOUNDS:
            holds, words = _BOUNDS[keyword]
            if not holds(_exact(value), _exact(bound)):
                return f"expected {words} {bound}"
        elif keyword in _SIZES:
            fits, words = _SIZES[keyword]
            if not fits(len(value), bound):
                return f"expected {words.format(bound)}"
        elif keyword == "multipleOf" and _exact(value) % _exact(bound):
            return f"expected a multiple of {bound}"
        elif keyword == "pattern" and not re.search(bound, value):
            return f"expected text that matches {bound}"
    return None


def is_integral(value: Json) -> bool:
    """Whether a number is whole, however it is written."""
    if isinstance(value, Decimal):  # whose // fails where the quotient has too many digits
        return bool(value == value.to_integral_value())
    return isinstance(value, int) or float(value).is_integer()


def sendable_pattern(pattern: str, *, whole: bool) -> bool:
    """Whether a pattern can be enforced while a text is written, and be checked here."""
    if _LOOKS.search(pattern) or (whole and not (pattern.startswith("^") and pattern.endswith("$"))):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError):
        return False
    return True


def _exact(number: Any) -> Decimal:
    return Decimal(str(number))
