"""Search text for words and patterns, in whatever form their characters are written.

A text is searched in several forms: as it is written, with compatibility characters, upper case and
invisible characters folded, and with the escapes of JSON resolved. Each form knows where its characters are
in the text, so that matches can be masked there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..models.errors import DefinitionError, DefinitionProblem
from ..spaceless_scripts import SPACELESS


class TextForm(NamedTuple):
    """One form of a text, with the place of each of its characters in the text.

    Attributes:
        text: The characters of this form.
        starts: For each of them, where the characters of the original text that it stands for start.
        ends: For each of them, where they end.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def span(self, match: re.Match[str]) -> tuple[int, int]:
        """Return the start and the end of a match in the original text."""
        return self.starts[match.start()], self.ends[match.end() - 1]


def folded_forms(text: str) -> Iterator[TextForm]:
    """Yield the forms of a text in which words and phrases are searched.

    Their characters are in NFKC and in lower case, and each run of white space is one space. Invisible
    characters are left out, and in a form of its own they separate words: models read them in both ways.
    """
    for form in _unescaped_forms(text):
        yield _folded(form, lower=True)
        if any(map(_is_invisible, form.text)):
            yield _folded(form, lower=True, shows_invisible=True)


def _pattern_forms(text: str) -> Iterator[TextForm]:
    """Yield the forms of a text in which the regular expressions of users are searched."""
    for form in _unescaped_forms(text):
        yield form
        if not form.text.isascii() or _CONTROLS_IN.search(form.text):
            yield _folded(form, lower=False)


# The escapes of JSON. A text may contain JSON that contains JSON.
_ESCAPE = re.compile(
    r'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt])'
)
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_MAX_NESTING = 3


def _unescaped_forms(text: str) -> Iterator[TextForm]:
    form = TextForm(text, range(len(text)), range(1, len(text) + 1))
    yield form
    for _ in range(_MAX_NESTING):
        if "\\" not in form.text or _ESCAPE.search(form.text) is None:
            return
        form = _unescaped(form)
        yield form


def _unescaped(form: TextForm) -> TextForm:
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    end = 0
    for match in _ESCAPE.finditer(form.text):
        start = match.start()
        pieces += (form.text[end:start], _character(match.group()))
        starts += form.starts[end:start]
        starts.append(form.starts[start])
        ends += form.ends[end:start]
        end = match.end()
        ends.append(form.ends[end - 1])
    return TextForm(
        "".join((*pieces, form.text[end:])), (*starts, *form.starts[end:]), (*ends, *form.ends[end:])
    )


def _character(escape: str) -> str:
    if escape[1] != "u":
        return _CONTROLS.get(escape[1], escape[1])
    units = bytes.fromhex(escape.replace("\\u", ""))
    return units.decode("utf-16-be", "surrogatepass")


_MAX_CLUSTER = 16  # normalization takes quadratic time for many marks on one character
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\uffa0")
_VARIATION_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_CONTROLS_IN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_JOINS = re.compile(
    "[\u1160-\u11ff\ud7b0-\ud7ff\uff9e-\uffdc]"
)  # parts of syllables and of half-width letters
_SPACES, _WHITE_SPACE = re.compile(r"\s{2}"), re.compile(r"\s")
_TAGS = range(0xE0020, 0xE007F)  # invisible copies of the ASCII characters, which models can read


def _is_invisible(character: str) -> bool:
    if character.isascii():
        return _CONTROLS_IN.match(character) is not None
    if character in _INVISIBLE or unicodedata.category(character) in ("Cf", "Cc", "Cs"):
        return True
    return any(ord(character) in selectors for selectors in _VARIATION_SELECTORS)


def _folded(form: TextForm, *, lower: bool, shows_invisible: bool = False) -> TextForm:
    """Return another form of a text, with each character folded together with the marks after it."""
    text, starts, ends = form
    if text.isascii() and not _CONTROLS_IN.search(text) and not (lower and _SPACES.search(text)):
        return TextForm(_WHITE_SPACE.sub(" ", text.lower()), starts, ends) if lower else form
    characters: list[str] = []
    new_starts: list[int] = []
    new_ends: list[int] = []
    position, length = 0, len(text)
    while position < length:
        end = position + 1
        while end < length and end - position < _MAX_CLUSTER and _continues(text[end]):
            end += 1
        for character in _fold(text[position:end], lower, shows_invisible):
            if lower and character.isspace():
                if characters and characters[-1] == " ":
                    new_ends[-1] = ends[end - 1]
                    continue
                character = " "
            characters.append(character)
            new_starts.append(starts[position])
            new_ends.append(ends[end - 1])
        position = end
    return TextForm("".join(characters), new_starts, new_ends)


def _continues(character: str) -> bool:
    """Return True if a character belongs to the one before it, as an accent or a vowel of Hangul does."""
    if character.isascii():
        return _CONTROLS_IN.match(character) is not None
    return (
        unicodedata.combining(character) > 0
        or _JOINS.match(character) is not None
        or _is_invisible(character)
    )


@lru_cache(8192)
def _fold(cluster: str, lower: bool, shows_invisible: bool) -> str:
    if len(cluster) == 1 and cluster.isascii() and not _is_invisible(cluster):
        return cluster.lower() if lower else cluster
    visible = "".join(
        _shown(character) * shows_invisible if _is_invisible(character) else character
        for character in cluster
    )
    composed = unicodedata.normalize("NFKC", visible)
    return unicodedata.normalize("NFKC", composed.casefold()) if lower else composed


def _shown(invisible: str) -> str:
    return chr(ord(invisible) - 0xE0000) if ord(invisible) in _TAGS else " "


# --- Words and patterns ---

_LETTER = rf"[^\W_{SPACELESS}]"  # of a word that spaces or punctuation separate from others
_STARTS_WITH_LETTER, _ENDS_WITH_LETTER = re.compile(_LETTER), re.compile(_LETTER + r"\Z")


class TextPatterns:
    """Words and regular expressions that are searched in texts.

    Words are found as whole words, except in scripts without spaces between words. Upper case, compatibility
    forms, invisible characters and the escapes of JSON do not hide them.
    """

    def __init__(self, owner: str, words: Sequence[str | re.Pattern[str]]) -> None:
        if not words or not all(words):
            problem = (
                "one of the words and patterns is empty" if words else "pass at least one word or pattern"
            )
            raise DefinitionError([DefinitionProblem(owner, problem)])
        self._patterns = [word for word in words if isinstance(word, re.Pattern)]
        expressions = [_word_expression(word, owner) for word in words if isinstance(word, str)]
        self._words = re.compile("|".join(expressions)) if expressions else None

    def find(self, text: str) -> str | None:
        """Return what the text contains, for a message; None if it contains no word and no pattern.

        The text of a pattern may be a secret, such as a card number, so the pattern itself is named.
        """
        for start, end, pattern in self._matches(text):
            return repr(text[start:end]) if pattern is None else f"a match of {pattern.pattern!r}"
        return None

    def mask(self, text: str, by: str) -> str:
        """Return the text with each word and each match of a pattern replaced."""
        pieces: list[str] = []
        position = 0
        for start, end, _ in sorted(self._matches(text), key=lambda match: match[:2]):
            if start >= position:
                pieces += (text[position:start], by)
            position = max(position, end)
        return "".join((*pieces, text[position:]))

    def _matches(self, text: str) -> Iterator[tuple[int, int, re.Pattern[str] | None]]:
        """Yield the start and the end of each match in the text, and its pattern; None for a word."""
        if self._words is not None:
            yield from ((*span, None) for span in _spans(self._words, folded_forms(text)))
        for pattern in self._patterns:
            yield from ((*span, pattern) for span in _spans(pattern, _pattern_forms(text)))


def _spans(pattern: re.Pattern[str], forms: Iterable[TextForm]) -> Iterator[tuple[int, int]]:
    for form in forms:
        for match in pattern.finditer(form.text):
            if match.group():
                yield form.span(match)


def _word_expression(word: str, owner: str) -> str:
    text = next(folded_forms(word)).text
    if not text:
        problem = f"the word {word!r} has no visible character"
        raise DefinitionError([DefinitionProblem(owner, problem)])
    before = rf"(?<!{_LETTER})" if _STARTS_WITH_LETTER.match(text) else ""
    after = rf"(?!{_LETTER})" if _ENDS_WITH_LETTER.search(text) else ""
    return f"{before}{re.escape(text)}{after}"
