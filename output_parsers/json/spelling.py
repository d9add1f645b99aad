"""Rewrite JSON whose signs are spelled in another way: escaped, full-width, doubled, or as entities of HTML.

A text is rewritten only if that makes it exact JSON.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable

from ..lazy_regex import lazy_regex
from ..result.reading import JsonSyntaxError, ValidationFailure
from .scanner import read_exact

OTHER_SIGNS = "JSON in other signs"
# a string that is not closed is matched to its end, so that the time is linear
_STRING_OR_SIGN = lazy_regex(
    r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[｛｝［］：，]|(?<![\w.])\.(?=[0-9])', re.DOTALL
)
_SIGNS = {"｛": "{", "｝": "}", "［": "[", "］": "]", "：": ":", "，": ",", ".": "0."}
_BARE_QUOTE = lazy_regex(r'(?<!\\)"')
_LOW_QUOTED = lazy_regex(r'„([^„“”"\\\n]*+)[“”]')


def respelled(text: str) -> str | None:
    """Return a text as exact JSON if only its signs are spelled in another way, or None."""
    if text[:1] not in ("{", "[", "｛", "［"):
        return None
    for rewrite in _REWRITES:
        other = rewrite(text)
        if other is not None and other != text:
            try:
                read_exact(other)
            except (JsonSyntaxError, ValidationFailure, RecursionError):
                continue
            return other
    return None


def _without_escapes(text: str) -> str | None:
    r"""Return the JSON in ``{\"name\": \"Ann\"}``, which is escaped like a string."""
    if '\\"' not in text or _BARE_QUOTE.search(text):
        return None
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return None


def _without_entities(text: str) -> str | None:
    return html.unescape(text) if "&quot;" in text and '"' not in text else None


def _without_outer_braces(text: str) -> str | None:
    return text[1:-1] if text.startswith("{{") and text.endswith("}}") else None


def _without_doubled_braces(text: str) -> str | None:
    """Return the JSON in ``{{"a": {{"b": 1}}}}``, whose braces are doubled as in templates."""
    return text.replace("{{", "{").replace("}}", "}") if text.startswith("{{") else None


def _with_usual_signs(text: str) -> str:
    """Return JSON with ASCII signs instead of full-width ones, and with the zeros before decimal points."""
    return _STRING_OR_SIGN.sub(lambda match: _SIGNS.get(match[0], match[0]), text)


def _with_usual_quotes(text: str) -> str:
    return _LOW_QUOTED.sub(r'"\1"', text)


_REWRITES: tuple[Callable[[str], str | None], ...] = (
    _without_escapes,
    _without_entities,
    _without_outer_braces,
    _without_doubled_braces,
    _with_usual_signs,
    _with_usual_quotes,
)
