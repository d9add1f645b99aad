"""Split a list in plain text into its items: one item for each line, or items with commas between them.

All lines have a marker of the same kind (``-``, ``1.``, ``(1)``, ``a)``, ``①`` …), or no line has one. A line that
announces a list with markers (``Here are the items:``) and a sentence after such a list are not items. Quotes
around every item are removed. Lists inside of lists are rejected.
"""

from __future__ import annotations

import html
import re
from itertools import pairwise, takewhile
from typing import NamedTuple

from ..lazy_regex import join_lines, lazy_regex
from . import bare_word, words_in
from .announcements import CLOSING
from .roles import Role, role_of


class TextItems(NamedTuple):
    """The items of a list in plain text.

    Attributes:
        items: The texts of the items.
        is_clear: True if the lines are items of a list, and not the sentences of another text.
        has_commas: True if commas separate the items.
    """

    items: list[str]
    is_clear: bool
    has_commas: bool = False


# The kinds of markers. A number or letter is compared with the position of its line.
_MARKERS = (
    lazy_regex(
        r"(?P<indent>[ \t]*)(?:[-*+•‣◦●○▪■▸►·→⇒➤–—]|・)[ \t]*(?<=[ \t・])(?:\[[ xX]\][ \t]+)?(?P<item>\S.*)"
    ),
    lazy_regex(
        r"(?P<indent>[ \t]*)(?:[(\[]?(?P<number>\d{1,4})(?:[.):\]](?=\s)|[、．]|[ \t]+[-–—])|#\d{1,4}[.:]?)[ \t]+(?P<item>\S.*)"
    ),
    lazy_regex(r"(?P<indent>[ \t]*)(?:・|(?P<ideographic>\d{1,3})[、．])[ \t]*(?P<item>\S.*)"),
    lazy_regex(r"(?P<indent>[ \t]*)(?P<chinese>[一二三四五六七八九十])[、.．][ \t]*(?P<item>\S.*)"),
    lazy_regex(r"(?P<indent>[ \t]*)(?P<circled>[①-⑳])[ \t]*(?P<item>\S.*)"),
    lazy_regex(r"(?P<indent>[ \t]*)\(?(?P<letter>[a-zA-Z])[.)][ \t]+(?P<item>\S.*)"),
    lazy_regex(r"(?P<indent>[ \t]*)\(?(?P<roman>[ivx]{1,5}|[IVX]{1,5})[.)][ \t]+(?P<item>\S.*)"),
)
_CHINESE = ("", *"一二三四五六七八九十")
_ROMAN = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii", "xiii", "xiv", "xv")
_QUOTES = (('"', '"'), ("“", "”"), ("`", "`"), ("«", "»"), ("'", "'"))
# One number with thousands separators or a decimal comma, or several numbers without a space.
_ONE_NUMBER_OR_SEVERAL = lazy_regex(
    r"(?<![\d,])(?!\d{3,},\d{4})\d+,\d+(?![\d,])|(?<![\d,])\d{1,3}(?:,\d{3})+(?!\d)"
)
_MAX_ITEM_WORDS = 4
_MAX_ITEM_CHARACTERS = 60
# Markup, punctuation of sentences, and names with a value.
_NOT_AN_ITEM = lazy_regex(r"\s*[#|*_<>{}\[\]=~]|.*[.!?:;]\s*\Z|.*:\s|.*\|")
_REMARK_WORDS = r"""
    sorry|okay|ok|hope|please|retry|cannot|can['’]t|could(?:n['’]t| not)|unable|apologi[sz]e|sure|certainly|of course|here|below|above
    |following|done|that['’]s all|end of|final|thinking|i|i['’](?:m|ll|ve)|me|you|your|there (?:is|are)|nothing|let['’]s|answer|answers|result|results|note
"""
# Words that a model writes if it finds nothing.
_NO_ANSWER_WORDS = r"""
    none|n/a|unknown|no \w+|not (?:mentioned|available|applicable|specified|stated|found|given|provided|listed|known)
    |unspecified|unavailable|missing|error\w*|failed|failure|try again|no|kein\w*|nicht \w+|unbekannt|aucun\w*|inconnu
    |ningun\w*|desconocido|nessun\w*|nenhum\w*|нет|неизвестно|没有.*|沒有.*|未知|无|無|なし|不明|없음
    |etc\.?|and (?:so on|more|others)|\.{3}|…|~~
"""
# Lists that say which of their lines count: check boxes that are empty, crosses, and text that is struck out.
_NOT_CHOSEN = lazy_regex(r"\s*(?:[-*+•]\s+)?(?:\[ \]|[❌✗✘☐⬜🚫]|~~)")
_REMARK = lazy_regex(rf"\b(?:{join_lines(_REMARK_WORDS)})\b", re.IGNORECASE)
_NO_ANSWER = lazy_regex(rf"(?:{join_lines(_NO_ANSWER_WORDS)})(?:\W.*)?", re.IGNORECASE)
_PLACEHOLDER = lazy_regex(
    r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}|\W*(?:todo|tbd|fixme|xxx+|lorem ipsum.*|placeholder)\W*|[^\w<>{}\[\]]{1,3}|.*(?:\.\.\.|…)"
    r"|(?:please|bitte|veuillez|por favor)\b.*|.*[?？]\)?",
    re.IGNORECASE,
)
_END_OF_LABEL = lazy_regex(r"[:：=\d]")
_AROUND_LABEL = " :：-–—$€£¥"
_HEADING = lazy_regex(r"\s*(?:#{1,6} .*|(\*\*|__)[^*_]+\1)\s*")
_EMPHASIS = (("**", "**"), ("__", "__"), ("*", "*"), ("_", "_"))
_ELEMENT = lazy_regex(r"<(item|li|value|entry|element|name|string)>([^<>]+)</\1>")
_SENTENCE = lazy_regex(r"\S+ .*[.!?]\s*\Z")


def split_items(text: str, own_words: frozenset[str] = frozenset()) -> TextItems | None:
    """Split a text into list items at line ends or commas; return None if it is not clearly one list.

    ``1,234`` is rejected, because it may be one item or two. ``own_words`` are the words of the declaration, which
    may be in the line before the list.
    """
    elements = _in_elements(text)
    if elements:
        return None if any(map(_is_no_item, elements)) else TextItems(elements, is_clear=True)
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or any(map(_NOT_CHOSEN.match, lines)):
        return None
    marked = _without_remarks(lines, own_words)
    for kind in _MARKERS:
        items = _marked_items(marked, kind)
        if items is not None:
            return TextItems(_without_quotes(items, (*_QUOTES, *_EMPHASIS)), is_clear=len(items) > 1)
    if any(map(_has_marker, lines)):
        return None
    if len(lines) == 1:
        return _split_at_commas(lines[0], own_words)
    items = _without_commas([line.strip() for line in lines])
    bare = _without_quotes(items)
    is_clear = bare is not items or not any(map(_is_remark, items))
    return None if any(map(_NO_ANSWER.fullmatch, items)) else TextItems(bare, is_clear)


def is_label_of_total(label: str, declaration: str) -> bool:
    """Return True for the label of a row that is the total of the others, if the declaration has no such word."""
    word = "_".join(bare_word(label.strip(_AROUND_LABEL)).replace("-", " ").split())
    return word in words_in("labels of totals") and word not in map(bare_word, declaration.split())


def ends_with_total(items: list[str], declaration: str) -> bool:
    """Return True if the last of several items is the total of the others: ``Total: 2``."""
    number = _END_OF_LABEL.search(items[-1]) if len(items) > 1 else None
    return number is not None and is_label_of_total(items[-1][: number.start()], declaration)


def _in_elements(text: str) -> list[str]:
    """Return the texts of XML elements with one name, ``<item>a</item><item>b</item>``; [] for other text."""
    elements = _ELEMENT.findall(text)
    is_list = len(elements) > 1 and not _ELEMENT.sub("", text).strip()
    return (
        [html.unescape(item.strip()) for _, item in elements] if is_list and len(dict(elements)) == 1 else []
    )


def _has_marker(line: str) -> bool:
    return any(kind.fullmatch(line) for kind in _MARKERS)


def _without_commas(items: list[str]) -> list[str]:
    """Return the items without the commas that separate them at the ends of the lines."""
    separated = len(items) > 1 and all(item.endswith(",") for item in items[:-1])
    return [item.rstrip(",") for item in items] if separated else items


def _without_remarks(lines: list[str], own_words: frozenset[str]) -> list[str]:
    """Return the lines of a list with markers, without the text around it; [] if that text may deny it."""
    start = next((number for number, line in enumerate(lines) if _has_marker(line)), len(lines))
    end = start + len(list(takewhile(_has_marker, lines[start:])))
    before, items, after = (_joined(lines[:start]), _joined(lines[start:end]), _joined(lines[end:]))
    if not items or end - start == len(lines):
        return lines
    if before and not before.rstrip(" *_\n").endswith((":", "：")):
        if _HEADING.fullmatch(before) is None:
            return []
        before = f"{before.strip(' #*_')}:\n".replace("\n:", ":")
    if after and not all(_SENTENCE.fullmatch(line) or CLOSING.match(line) for line in lines[end:]):
        return []
    text = before + items + after
    role = role_of(
        text, len(before), len(before) + len(items), own_words=lambda: words_in("nouns") | own_words
    ).role
    return lines[start:end] if role in (Role.UNSAID, Role.ANSWER) else []


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _marked_items(lines: list[str], kind: re.Pattern[str]) -> list[str] | None:
    """Return the texts of lines with markers; None if a marker or an indentation is out of order."""
    matches = [match for line in lines if (match := kind.fullmatch(line)) is not None]
    if not matches or len(matches) < len(lines):
        return None
    width = len(matches[0]["indent"].expandtabs(4))
    items = []
    for position, match in enumerate(matches, 1):
        if len(match["indent"].expandtabs(4)) > width + 1:
            return None  # a list inside of the list
        if not _is_at(match.groupdict(), position):
            return None
        items.append(match["item"].strip())
    if not _are_in_order(matches):
        return None
    if any(map(_is_no_item, items)) and not all(item.isdigit() for item in items):
        return None
    return _without_commas(items)


def _is_no_item(item: str) -> bool:
    return _NO_ANSWER.fullmatch(item) is not None or _PLACEHOLDER.fullmatch(item) is not None


def _are_in_order(matches: list[re.Match[str]]) -> bool:
    """Return False if the numbers of lines skip or repeat one, as in "7. Symphony, 9. Symphony"."""
    numbers = [int(number) for match in matches if (number := match.groupdict().get("number"))]
    return all(two == one + 1 for one, two in pairwise(numbers))


def _is_at(groups: dict[str, str], position: int) -> bool:
    """Return True if the letter or Roman number of a marker matches its position in the list."""
    if groups.get("letter"):
        return groups["letter"].lower() == chr(ord("a") + position - 1)
    if groups.get("roman"):
        return position < len(_ROMAN) and groups["roman"].lower() == _ROMAN[position]
    if groups.get("chinese"):
        return position < len(_CHINESE) and groups["chinese"] == _CHINESE[position]
    if groups.get("circled"):
        return groups["circled"] == chr(ord("①") + position - 1)
    return True


# "The numbers are 3, 5 and 7."
_NUMBERS = lazy_regex(r"([^\d:]{1,60}) are ((?:-?\d+(?:\.\d+)?(?:, and |, | and |(?=\.?\Z))){2,})\.?")
_AND = lazy_regex(",? and ")
_LEAD = lazy_regex(r"[^,:：]{1,60}[:：]\s+(?=\S)")


def _split_at_commas(line: str, own_words: frozenset[str]) -> TextItems | None:
    sentence = _NUMBERS.fullmatch(line)
    line = f"{sentence[1]}: {_AND.sub(', ', sentence[2])}" if sentence else line
    lead = _LEAD.match(line)
    if lead is not None:
        role = role_of(line, lead.end(), len(line), own_words=lambda: words_in("nouns") | own_words).role
        line = line[lead.end() :] if role in (Role.UNSAID, Role.ANSWER) else line
    parts = [part.strip() for part in line.split(",")]
    if len(parts) < 2 or not all(parts) or _ONE_NUMBER_OR_SEVERAL.search(line):
        return None
    return TextItems(_without_quotes(parts), is_clear=False, has_commas=True)


def _without_quotes(items: list[str], quotes: tuple[tuple[str, str], ...] = _QUOTES) -> list[str]:
    """Return the items without the quotes, if all of them are quoted; else the same list."""
    stripped = [item.rstrip(",") for item in items]
    for opening, closing in quotes:
        if all(
            len(item) > 2 * len(opening) and item.startswith(opening) and item.endswith(closing)
            for item in stripped
        ):
            bare = [item[len(opening) : -len(closing)] for item in stripped]
            if not any(opening in item or closing in item for item in bare):
                return bare
    return items


def _is_remark(line: str) -> bool:
    """Return True if a line may be a sentence about the list and not one of its items."""
    return (
        len(line) > _MAX_ITEM_CHARACTERS
        or len(line.split()) > _MAX_ITEM_WORDS
        or _NOT_AN_ITEM.match(line) is not None
        or _REMARK.search(line) is not None
    )
