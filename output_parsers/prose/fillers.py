"""Find texts in JSON that are not values: an ellipsis, "and so on", and placeholders such as ``<capital>``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from ..lazy_regex import join_lines, lazy_regex

# Texts that models write instead of further items.
_GOES_ON = r"""
    etc.|etc|...|....|…|and so on|and so forth|and many more|and more|u. s. w.|u.s.w.|usw.|usw|und so weiter|et cetera|etcetera
    |etcétera|et ainsi de suite|y así sucesivamente|e così via|e assim por diante|ecc.|enz.|enzovoort|osv.|osv|och så vidare
    |itd.|itp.|i tak dalej|atd.|a tak dále|и т. д.|и т.д.|и так далее|і так далі|ve saire|vb.|dan seterusnya|dst.|等|等等|など|등|등등
    |[...]|(...)|<...>
"""
# Texts that may be items if other items are words.
_NO_ITEM_ALONE = frozenset("string str TODO TBD FIXME placeholder".split())
_WORDS = frozenset(form for word in join_lines(_GOES_ON).split("|") for form in (word, word.capitalize()))
# All texts of one kind; ``isdisjoint`` is the fastest check.
FILLERS = _WORDS | _NO_ITEM_ALONE
_TAGS_OF_HTML = (
    "a|abbr|article|aside|audio|b|blockquote|body|br|button|canvas|code|details|div|em|fieldset|figure|footer|form|h[1-6]"
    "|head|header|hr|html|i|iframe|img|input|label|legend|li|link|main|meta|nav|ol|option|p|pre|s|script|section|select"
    "|small|span|strong|style|sub|summary|sup|svg|table|tbody|td|textarea|tfoot|th|thead|title|tr|u|ul|video"
)
_PLACEHOLDER = (
    rf"<(?!(?:{_TAGS_OF_HTML})>)[^\W\d][\w .,'/-]{{2,40}}(?<!/)>|\{{\{{?[^\W\d]\w{{0,40}}\}}\}}?"
    r"|\[(?i:your|insert|enter|the)[ _][\w _-]{1,40}\]"
)
_IS_PLACEHOLDER = lazy_regex(_PLACEHOLDER)
_HAS_PLACEHOLDER = lazy_regex(rf'"(?:{_PLACEHOLDER})"|"([^\W\d]\w*)"\s*:\s*"(?:\[(?i:\1)\]|<(?i:\1)>)"')
_HAS_FILLER = lazy_regex(rf'"(?:{"|".join(map(re.escape, sorted(FILLERS)))})"')
_LETTER = lazy_regex(r"[^\W_]")


def is_placeholder(text: str, key: str = "") -> bool:
    """Return True for a text such as ``<capital>`` or ``{name}``, or the key itself in brackets."""
    if text[:1] not in ("<", "{", "["):
        return False
    return _IS_PLACEHOLDER.fullmatch(text) is not None or text[1:-1].casefold() == key.casefold() != ""


def may_have_placeholder(text: str) -> bool:
    """Return True if a string in JSON may be a placeholder."""
    return _HAS_PLACEHOLDER.search(text) is not None


def may_have_filler(text: str) -> bool:
    """Return True if a string in JSON may be a filler in a list."""
    return _HAS_FILLER.search(text) is not None


def is_value(text: str) -> bool:
    """Return False for a text that only stands for values."""
    return text not in FILLERS and not is_placeholder(text)


def find_filler(items: Collection[Any]) -> str | None:
    """Return a text in a list, in a tuple or among keys that is a filler and not an item, or None.

    ``...`` is an item among other marks, and ``TODO`` among other words.
    """
    for item in items:
        if type(item) is str and not is_value(item):
            if item in _NO_ITEM_ALONE and any(other != item for other in items):
                continue
            if not _LETTER.search(item) and _has_other_marks(item, items):
                continue
            return item
    return None


def _has_other_marks(mark: str, items: Iterable[Any]) -> bool:
    return any(type(item) is str and item != mark and not _LETTER.search(item) for item in items)
