"""Says in words what is not sent as a keyword."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..constraints import CONSTRAINTS_IN_WORDS
from ..errors import shorten

__all__ = ["ANY_TEXT", "PAIRS", "TUPLE", "in_words", "left_out", "said"]

_WORDS = {
    **CONSTRAINTS_IN_WORDS,
    "format": "format {}",
    "required": "required: {}",
    "not": "not {}",
    "propertyNames": "each key: {}",
    "contains": "with an item that is {}",
    "enum": "one of {}",
    "const": "{}",
}
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
ANY_TEXT = "any JSON value, written as JSON text in this string"
PAIRS = "as a list of keys and values, each key once"
TUPLE = "items by their position"
_LONGEST = 300  # characters of one constraint; what is longer tells a model nothing more


def in_words(keyword: str, value: Any) -> str:
    """A keyword and its value in words."""
    if keyword == "uniqueItems":
        return "no item twice"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    words = _WORDS.get(keyword, keyword + ": {}").format(shorten(text, _LONGEST))
    return words.removesuffix("s") if value == 1 and keyword in _COUNTS else words


def left_out(default: Any, *, has_default: bool) -> str:
    """What null means where a property need not be given."""
    if not has_default:
        return "null: left out"
    return f"null: left out, which means {shorten(json.dumps(default, ensure_ascii=False, default=str))}"


def said(description: object, words: Iterable[str]) -> str | None:
    """A description with further words; None where nothing is said."""
    text = "; ".join(words)
    if not isinstance(description, str) or not description.strip():
        return text or None
    return f"{description} ({text})" if text else description
