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
    r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[｛｝［］：，、；;,]|[−－](?=[0-9])|(?<![\w.])\.(?=[0-9])|(?<=[0-9])\.(?=\s*+[,\]}])',
    re.DOTALL,
)
_SIGNS = dict(zip("｛｝［］：，、；;−－", "{}[]:,,,,--", strict=True))
_SEPARATORS = frozenset(",，、；;")
_BETWEEN_DIGITS = lazy_regex(r"[0-9][,，、][0-9]")
_BARE_QUOTE = lazy_regex(r'(?<!\\)"')
_OTHER_QUOTED = lazy_regex(
    r'„([^„“”"\\\n]*+)[“”]|«[ \u00a0]?([^«»"\\\n]*?)[ \u00a0]?»|「([^「」"\\\n]*+)」|『([^『』"\\\n]*+)』'
)
_LATEX = lazy_regex(
    r"\$\$?([^$]+)\$\$?|\\{1,2}\[(.+)\\{1,2}\]|\\{1,2}\((.+)\\{1,2}\)"
    r"|\\{1,2}(?:boxed|text|mathrm)\{(.+)\}",
    re.DOTALL,
)
_MAX_LAYERS = 4


def respelled(text: str) -> str | None:
    """Return a text as exact JSON if only its signs are spelled in another way, or None."""
    bare = _without_latex(text)
    if bare[:1] not in ("{", "[", "｛", "［", '"'):
        return None
    for other in (bare, *(rewrite(bare) for rewrite in _REWRITES)):
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


def _with_usual_signs(text: str) -> str | None:
    """Return JSON with ASCII signs instead of full-width ones, and with the zeros beside decimal points.

    Return None for two kinds of separators, of which one may be a decimal comma or end a row: ``[1,5; 2,5]``.
    """
    separators = _SEPARATORS.intersection(match[0] for match in _STRING_OR_SIGN.finditer(text))
    if len(separators) > 1 and (not separators.isdisjoint(";；") or _BETWEEN_DIGITS.search(text)):
        return None

    def usual(match: re.Match[str]) -> str:
        if match[0] != ".":
            return _SIGNS.get(match[0], match[0])
        return ".0" if text[match.start() - 1].isdigit() else "0."

    return _STRING_OR_SIGN.sub(usual, text)


def _with_usual_quotes(text: str) -> str:
    return _OTHER_QUOTED.sub(lambda match: f'"{"".join(filter(None, match.groups()))}"', text)


def _in_brackets(text: str) -> str | None:
    """Return strings with commas between them as an array."""
    return f"[{text}]" if text.startswith('"') and "," in text else None


def _without_latex(text: str) -> str:
    for _ in range(_MAX_LAYERS):
        match = _LATEX.fullmatch(text)
        text = next(filter(None, match.groups())).strip() if match else text
    return text


_REWRITES: tuple[Callable[[str], str | None], ...] = (
    _without_escapes,
    _without_entities,
    _without_outer_braces,
    _without_doubled_braces,
    _with_usual_signs,
    _with_usual_quotes,
    _in_brackets,
)
