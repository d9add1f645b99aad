"""Find out whether the numbers of a text have a decimal point or a decimal comma.

``1.500`` and ``2,750`` alone do not show it. Other numbers of the text do, such as ``1.234,50``, and its words say
which sign is usual in their language.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..lazy_regex import lazy_regex
from .harmless import counts_of_common_words
from .numbers import NumberStyle

_GROUPED_POINT = r"[1-9]\d{0,2}(?:,\d{3})+\.\d|[1-9]\d{0,2}(?:,\d{3}){2,}(?![\d,])"
_GROUPED_COMMA = r"[1-9]\d{0,2}(?:\.\d{3})+,\d|[1-9]\d{0,2}(?:\.\d{3}){2,}(?![\d.])"
SIGN_OF_DECIMALS = lazy_regex(
    rf"(?<![\d.,])(?:(?P<point>{_GROUPED_POINT})|(?P<comma>{_GROUPED_COMMA})"
    r"|(?P<cents>\d+\.\d\d)(?![\d.])|(?P<decimals>\d+,\d{1,2})(?![\d,]))"
)
MAX_CHARACTERS = 200_000  # of a text in which numbers are searched
_MAX_CHARACTERS_OF_WORDS = 5000
_MOST_UNREAD = 1000  # parts of a reply that are kept until a number needs them
_FEWEST_WORDS = 2  # of a line, in its language; fewer may be a part of a name, as in Rio de Janeiro
_POINT, _COMMA = NumberStyle.POINT, NumberStyle.COMMA
_STYLE_OF_GROUP = {"point": _POINT, "comma": _COMMA, "cents": _POINT, "decimals": _COMMA}


class DecimalSigns:
    """What the numbers and the words of a reply say about its decimal sign.

    The numbers of JSON say nothing, because they always have a point; the texts in it count.

    Args:
        reply: The text of a reply, or its JSON.
    """

    def __init__(self, reply: object = "") -> None:
        self._unread = [reply]
        self._certain: set[NumberStyle] = set()  # from numbers with two different signs
        self._probable: set[NumberStyle] = (
            set()
        )  # from numbers such as 12.50, which may be a time or a version
        self._lines: Counter[NumberStyle] = Counter()  # by the usual sign of their language
        self._last: frozenset[NumberStyle] | None = None  # the signs when the last number was read

    def add(self, reply: object) -> bool:
        """Add a part of a reply. Return False if numbers that were read before have another sign now."""
        self._unread.append(reply)
        if self._last is None and len(self._unread) < _MOST_UNREAD:
            return True
        signs = self._signs()
        return self._last in (None, signs)

    def find(self, text: str) -> NumberStyle | None:
        """Return the decimal sign of a number in a text: a point if nothing shows another one; None if it is unclear."""
        self._last = signs = self._signs()
        if not (self._certain or self._probable):  # words alone do not decide it
            english, other = counts_of_common_words(text[:_MAX_CHARACTERS_OF_WORDS])
            is_other = other > english or _COMMA in signs
            return None if is_other else _POINT
        return None if len(signs) > 1 else next(iter(signs))

    def _signs(self) -> frozenset[NumberStyle]:
        """Return the signs that the numbers and the words show."""
        for text in _texts_in(self._unread):
            self._read(text)
        if self._certain:
            return frozenset(self._certain)
        lines = self._lines
        words = (_COMMA,) if lines[_COMMA] > lines[_POINT] else (_POINT,) if lines[_POINT] else ()
        return frozenset((*self._probable, *words))

    def _read(self, text: str) -> None:
        for match in SIGN_OF_DECIMALS.finditer(text, 0, MAX_CHARACTERS):
            kind = str(match.lastgroup)
            signs = self._certain if kind in ("point", "comma") else self._probable
            signs.add(_STYLE_OF_GROUP[kind])
        for line in text[:_MAX_CHARACTERS_OF_WORDS].splitlines():
            words = [word for word in line.split() if not word[0].isupper()]  # names have no language
            english, other = counts_of_common_words(" ".join(words))
            if abs(english - other) >= _FEWEST_WORDS:
                self._lines[_POINT if english > other else _COMMA] += 1


def _texts_in(parts: list[object]) -> Iterator[str]:
    """Yield the texts in JSON, and remove them from the list."""
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            parts += part.values()
        elif isinstance(part, list):
            parts += part
