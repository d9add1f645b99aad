"""Search text for words and patterns, in whatever form their characters are written.

A text is searched in several forms: as it is written, with compatibility characters, lookalikes, upper case
and invisible characters folded, with escapes resolved (JSON, HTML and URLs), and without markup inside of
words. Each form knows where its characters are in the text, so that matches can be masked there.
"""

from __future__ import annotations

import html
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..models.errors import DefinitionError, DefinitionProblem
from ..spaceless_scripts import SPACELESS


class TextForm(NamedTuple):
    """One form of a text, with the position of each of its characters in the original.

    Attributes:
        text: The characters of this form.
        starts: For each of them, where its characters begin in the original text.
        ends: For each of them, where its characters end in the original text.
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
    for form in _decoded_forms(text):
        yield _folded(form, lower=True)
        for latin in _latin_form(_folded(form, lower=False)):  # capitals look like other letters: Ν, ν
            yield _folded(latin, lower=True)
        if any(map(_is_invisible, form.text)):
            yield _folded(form, lower=True, shows_invisible=True)


def _pattern_forms(text: str) -> Iterator[TextForm]:
    """Yield the forms of a text in which the regular expressions of users are searched."""
    for form in _decoded_forms(text):
        yield form
        if not form.text.isascii() or _CONTROLS_IN.search(form.text):
            yield (folded := _folded(form, lower=False))
            yield from _latin_form(folded)


# The escapes of JSON and other languages, of HTML and of URLs. A text may contain JSON that contains JSON.
_HEX = "[0-9a-fA-F]"
_ESCAPE = re.compile(
    rf"\\(?:u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}|u{_HEX}{{4}}|u\{{{_HEX}{{1,6}}\}}|U00{_HEX}{{6}}"
    rf"|x{_HEX}{{2}}|[\"\\/bfnrt])"
    rf"|&(?:#[0-9]{{1,7}};?|#[xX]{_HEX}{{1,6}};?|[A-Za-z][A-Za-z0-9]{{1,31}};)"
    rf"|%[0-7]{_HEX}|%[c-dC-D]{_HEX}%[89abAB]{_HEX}|%[eE]{_HEX}(?:%[89abAB]{_HEX}){{2}}"
    rf"|%[fF][0-4](?:%[89abAB]{_HEX}){{3}}"
)
_ESCAPE_SIGNS = re.compile(r"[\\&%]")
# Marks of Markdown and HTML inside of a word, which a reader does not see.
_MARKS = r"(?:\*{1,3}|_{2,3}|~~|`|<[^<>\n]{0,99}>){1,3}"
_MARKUP = re.compile(rf"(?<=\w){_MARKS}(?=[^\W\d_])|(?<=[^\W\d_]){_MARKS}(?=\w)")
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_MAX_NESTING = 3


def _decoded_forms(text: str) -> Iterator[TextForm]:
    """Yield a text as it is, and with its escapes resolved; each also without markup inside of words."""
    form = TextForm(text, range(len(text)), range(1, len(text) + 1))
    for nesting in range(_MAX_NESTING + 1):
        if nesting:
            if _ESCAPE_SIGNS.search(form.text) is None or _ESCAPE.search(form.text) is None:
                return
            form = _replaced(form, _ESCAPE, _character)
        yield form
        if _MARKUP.search(form.text) is not None:
            yield _replaced(form, _MARKUP, lambda mark: "")


def _replaced(form: TextForm, pattern: re.Pattern[str], function: Callable[[str], str]) -> TextForm:
    """Return a form in which each match of a pattern is replaced by what a function returns for it."""
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    end = 0
    for match in pattern.finditer(form.text):
        start, new = match.start(), function(match.group())
        pieces += (form.text[end:start], new)
        starts += form.starts[end:start]
        starts += [form.starts[start]] * len(new)
        ends += form.ends[end:start]
        end = match.end()
        ends += [form.ends[end - 1]] * len(new)
    return TextForm(
        "".join((*pieces, form.text[end:])), (*starts, *form.starts[end:]), (*ends, *form.ends[end:])
    )


def _character(escape: str) -> str:
    if escape[0] == "&":
        return html.unescape(escape)
    if escape[0] == "%":
        return bytes.fromhex(escape.replace("%", "")).decode("utf-8", "replace")
    if escape[1] not in "uUx":
        return _CONTROLS.get(escape[1], escape[1])
    if escape[1] == "u" and "{" not in escape:
        units = bytes.fromhex(escape.replace("\\u", ""))
        return units.decode("utf-16-be", "surrogatepass")
    number = int(escape[2:].strip("{}"), 16)
    return chr(number) if number <= sys.maxunicode else escape


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
        or unicodedata.category(character) == "Me"
        or _JOINS.match(character) is not None
        or _is_invisible(character)
    )


@lru_cache(8192)
def _fold(cluster: str, lower: bool, shows_invisible: bool) -> str:
    if len(cluster) == 1 and cluster.isascii() and not _is_invisible(cluster):
        return cluster.lower() if lower else cluster
    visible = "".join(
        _visible_character(character) * shows_invisible if _is_invisible(character) else character
        for character in cluster
    )
    composed = "".join(map(_plain, unicodedata.normalize("NFKC", visible)))
    if len(composed) > 1 and all(map(_is_mark, composed[1:])):
        base = unicodedata.normalize("NFD", composed)[0]
        composed = base if base.isascii() else composed  # marks that are part of no letter
    return unicodedata.normalize("NFKC", composed.casefold()) if lower else composed


def _visible_character(invisible: str) -> str:
    return chr(ord(invisible) - 0xE0000) if ord(invisible) in _TAGS else " "


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me")


# Styled letters that Unicode does not fold.
_STYLED = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢɑɡ", "abcdefghijklmnoprstuvwyzag", strict=True))
_STYLED |= {chr(start + place): chr(97 + place) for start in (0x1F150, 0x1F170) for place in range(26)}
# Letters of Cyrillic, Greek and Armenian, and of Turkish, that look like other letters.
_LOOKALIKES = dict(
    zip(
        "аеорсухіјѕһԁԛԝѵӏкмтнвαορνικχγυτεηωβμζօսոհցı",
        "aeopcyxijshdqwvlkmthbaopvikxyutenwbmzounhgi",
        strict=True,
    )
)
_CAPITALS = {other.upper(): latin.upper() for other, latin in _LOOKALIKES.items() if other != "ı"}
_TO_LATIN = str.maketrans(_LOOKALIKES | _CAPITALS | {"Η": "H", "Ν": "N", "Υ": "Y"})
_WORD = re.compile(r"[^\W_]+")


def _plain(character: str) -> str:
    """Return a letter without its style, and a digit of any script as an ASCII digit."""
    number = unicodedata.decimal(character, None)
    return _STYLED.get(character, character) if number is None else str(number)


def _latin_form(form: TextForm) -> Iterator[TextForm]:
    """Yield the form with lookalikes as Latin letters in words that also have Latin letters or digits."""
    if form.text.isascii():
        return

    def latin(word: str) -> str:
        return word.translate(_TO_LATIN) if any(map(str.isascii, word)) else word

    text = _WORD.sub(lambda match: latin(match.group()), form.text)
    if text != form.text:
        yield form._replace(text=text)


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
