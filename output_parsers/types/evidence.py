"""Verify cited values: the texts of the call must contain their quotes, and the quotes the values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from ..lazy_regex import lazy_regex
from ..mentions import Mention, dates_in, durations_in, numbers_in, style_of, times_in
from ..prose.numbers import NumberStyle
from ..quotes import MatchKind, QuoteMatch, contains_words, count_words, find_quote
from ..result.reading import Cursor
from .choices import BoolNode, ChoiceNode
from .cited import Cited, Place, Quote
from .constraints import unwrapped
from .containers import DictNode, UnionNode
from .node import Node, RecursiveNode
from .records import ObjectNode
from .scalars import NoneNode, NumberNode

V = TypeVar("V")
Check: TypeAlias = Literal["value", "quote", "off"]
Cite: TypeAlias = Literal["quotes", "lines"]


class SourceDocument(Protocol):
    """A text that may have pages, such as a Document."""

    @property
    def text(self) -> str:
        """The text."""
        ...

    @property
    def offset(self) -> int:
        """The index of the text in the whole document."""
        ...

    def page_at(self, index: int) -> int | None:
        """Return the number of the page with a character, counted from 1; None without pages."""
        ...

    def boxes(self, start: int, end: int) -> Sequence[tuple[Any, ...]]:
        """Return where a part of the text is on the pages."""
        ...


class Sources:
    """The texts that must contain the quotes of an answer, and the quotes found in them.

    Args:
        documents: The documents by their names.
        check: "value" to check quotes and values, "quote" to check quotes, "off" to accept quotes and values
            that are not found.
        lines: The numbered lines, if the model writes their numbers instead of quotes; the first one is 1.
        is_continued: True for a part of a document after the first one. An answer about it may be empty.
        whole: The parser of the answer about the whole document, if the texts are a part of one.
    """

    def __init__(
        self,
        documents: Mapping[str, SourceDocument],
        check: Check = "value",
        lines: Sequence[Place] | None = None,
        *,
        is_continued: bool = False,
        whole: object = None,
    ) -> None:
        self._documents = documents
        self.is_continued = is_continued
        self.whole = whole
        self._lines = lines
        self._check = check
        self._read: dict[str, Cited[object]] = {}

    @property
    def documents(self) -> Mapping[str, SourceDocument]:
        """The documents by their names."""
        return self._documents

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The texts of the documents; or the numbered lines, each with its number."""
        if self._lines is None:
            return [(document.text, "") for document in self._documents.values()]
        numbered = [(self._in_document(line), str(number)) for number, line in enumerate(self._lines, 1)]
        return [(document.text[start:end], number) for (document, start, end), number in numbered]

    def verify(self, cited: Cited[object], node: Node[object] | None, cursor: Cursor) -> None:
        """Add the place of the quote to a value that was read, or raise ValidationFailure.

        ``node`` is the parser of the value, if it has to be checked.
        """
        is_missing = cited.value is None and not cited.quote.strip()
        kind, score, places = "", 1.0, list[Place]()
        if not is_missing:
            kind, score, places = self._find(cited.quote)
        if places:
            checked = False
            if node is not None and self._check == "value":
                checked = self._check_value(cited.value, node, places[0], cursor)
            cited._set(match=kind, score=score, places=tuple(places), value_checked=checked)
            self._set_place(cited, places[0])
        elif self._check != "off" and not is_missing:
            message = "the quote does not occur in the text; copy the words that state the value exactly"
            if self._lines is not None:
                message = (
                    'there are no such lines; write the numbers of lines that follow each other, as in "3-5"'
                )
            raise cursor.failure(message, cited.quote)
        self._read[cursor.path] = cited

    def _find(self, quote: str) -> tuple[str, float, list[Place]]:
        """Return how a quote was found, its score and its places in all documents."""
        if self._lines is not None:
            place = _place_of_lines(quote, self._lines)
            return ("", 1.0, []) if place is None else ("exact", 1.0, [place])
        order: Sequence[MatchKind] = ("exact", "normalized", "aligned")
        matches: list[tuple[int, float, str, QuoteMatch]] = []
        for name, document in self._documents.items():
            match = find_quote(document.text, quote)
            if match is not None:
                matches.append((-order.index(match.kind), match.score, name, match))
        if not matches:
            return "", 1.0, []
        best = max(one[:2] for one in matches)
        places = [
            Place(name, start + self._documents[name].offset, end + self._documents[name].offset)
            for *rank, name, match in matches
            if tuple(rank) == best
            for start, end in match.spans
        ]
        return order[-best[0]], best[1], places

    def _set_place(self, cited: Cited[object], place: Place) -> None:
        document, start, end = self._in_document(place)
        quote = document.text[start:end]
        if isinstance(cited, Quote):
            cited._set(value=quote)
        cited._set(
            quote=quote,
            document=place.document,
            start=place.start,
            end=place.end,
            page=document.page_at(start),
            boxes=tuple(document.boxes(start, end)),
        )

    def _in_document(self, place: Place) -> tuple[SourceDocument, int, int]:
        """Return the document of a place, and its start and end in the text that is searched."""
        document = self._documents[place.document]
        return document, place.start - document.offset, place.end - document.offset

    def _check_value(self, value: object, node: Node[object], place: Place, cursor: Cursor) -> bool:
        """Return True if each part of a value is in its quote, False if this cannot be checked.

        Raise ValidationFailure if a part is not in the quote.
        """
        document, start, end = self._in_document(place)
        evidence = Evidence(document.text, start, end)
        results = []
        for part, options, style in _parts(unwrapped(node), value):
            result = evidence.proves(part, options, style)
            if result is False:
                message = "the quote does not contain the value; correct one of them"
                raise cursor.failure(message, part if part is value else str(part))
            results.append(result)
        return bool(results) and None not in results

    def resolve(self) -> None:
        """Choose the place of a repeated quote that is nearest to the other quotes."""
        unique_places = {path: one.places[0] for path, one in self._read.items() if len(one.places) == 1}
        if self._lines is None:
            self._share_places()
        for path, cited in self._read.items():
            if len(cited.places) > 1 and unique_places:
                place = _nearest(cited.places, path, unique_places)
                if place is not None:
                    cited._set(places=(place,))
                    self._set_place(cited, place)

    def _share_places(self) -> None:
        """Give each quote of a list its own place, if the same words occur as often as they are quoted."""
        groups: dict[tuple[str, tuple[Place, ...]], list[Cited[object]]] = {}
        for path, cited in self._read.items():
            if len(cited.places) > 1:
                groups.setdefault((_INDEX.sub("[]", path), cited.places), []).append(cited)
        for (_, places), group in groups.items():
            if len(group) == len(places):
                for cited, place in zip(group, sorted(places), strict=True):
                    cited._set(places=(place,))
                    self._set_place(cited, place)


_INDEX = lazy_regex(r"\[\d+\]")
_LINE_NUMBERS = lazy_regex(r"\s*\[?(\d{1,7})\]?(?:\s*[-–,]\s*\[?(\d{1,7})\]?)?\s*")


def _place_of_lines(numbers: str, lines: Sequence[Place]) -> Place | None:
    """Return the place of numbered lines such as "3-5"; None if there are no such lines."""
    match = _LINE_NUMBERS.fullmatch(numbers)
    if match is None:
        return None
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last <= len(lines) or lines[first - 1].document != lines[last - 1].document:
        return None
    return Place(lines[first - 1].document, lines[first - 1].start, lines[last - 1].end)


def _nearest(places: Sequence[Place], path: str, unique_places: Mapping[str, Place]) -> Place | None:
    """Return the place that is nearest to the quotes of the same record; None if two are equally near."""
    steps = path.replace("[", ".[").split(".")

    def shared(other: str) -> int:
        pairs = zip(steps, other.replace("[", ".[").split("."), strict=False)
        return next((count for count, (one, two) in enumerate(pairs) if one != two), len(steps))

    most = max(map(shared, unique_places))
    neighbours = [place for other, place in unique_places.items() if shared(other) == most]

    def distance(place: Place) -> float:
        gaps = [
            max(other.start - place.end, place.start - other.end, 0)
            for other in neighbours
            if other.document == place.document
        ]
        return sum(gaps) / len(gaps) if gaps else math.inf

    first, second = sorted(places, key=distance)[:2]
    return first if distance(first) < distance(second) else None


_WINDOW = 60  # characters around a quote that may belong to a number at its border
_YES_NO = {
    True: ("yes", "true", "ja", "oui", "sí", "sì", "sim"),
    False: ("no", "false", "nein", "non", "não", "nee"),
}


class Evidence:
    """The numbers, dates and words in a quote.

    Args:
        text: The text of the document.
        start: Where the quote begins.
        end: Where it ends.
    """

    def __init__(self, text: str, start: int, end: int) -> None:
        offset = max(0, start - _WINDOW)
        self._window = text[offset : end + _WINDOW]
        self._start, self._end = start - offset, end - offset
        self._quote = text[start:end]
        self._text = text

    def _inside(self, mentions: Iterable[Mention[V]]) -> Iterator[Mention[V]]:
        """Yield the mentions in the quote, without numbers that continue outside of it."""
        for mention in mentions:
            end = mention.end - (self._window[mention.end - 1] == ".")  # of an abbreviation, or the sentence
            if mention.start >= self._start and end <= self._end:
                yield mention

    def _mentioned(self, mentions: Iterable[Mention[V]]) -> Iterator[V]:
        for mention in self._inside(mentions):
            yield from mention.values

    def proves(
        self, value: object, options: Sequence[object] = (), style: NumberStyle | None = None
    ) -> bool | None:
        """Return True if the quote contains a value, False if it does not, None if this cannot be checked.

        ``options`` are all values that are possible, and ``style`` is the declared form of numbers.
        """
        if options:
            return self._names(value, options)
        if isinstance(value, (int, float, Decimal, Fraction)):
            return self._has_number(value, style)
        if isinstance(value, (date, time)):
            return self._has_time(value)
        if isinstance(value, timedelta):
            mentions = list(self._inside(durations_in(self._window, style or style_of(self._text))))
            if any(value in mention.values for mention in mentions):
                return True
            return None if any(value in mention.possible for mention in mentions) else False
        if isinstance(value, str):
            if value.strip() and not any(character.isalnum() for character in value):
                return value.strip() in self._quote  # such as a check mark
            return self._has_text(value)
        return None

    def _has_text(self, value: str) -> bool:
        """Return True if a text occurs in the quote, and a number at its end does not continue there."""
        if not contains_words(self._quote, value):
            return self._has_same(value)
        text, changed = self._quote, [one for one in self._inside(numbers_in(self._window)) if one.is_changed]
        for mention in changed:
            start, end = mention.start - self._start, mention.end - self._start
            text = f"{text[:start]}{'|' * (end - start)}{text[end:]}"
        if contains_words(text, value):
            return True
        last = [one for one in numbers_in(value) if one.end == len(value.rstrip(" ."))]
        return not last or any(last[-1].values & one.values for one in changed)

    def _has_number(self, value: float | Decimal | Fraction, style: NumberStyle | None) -> bool | None:
        style = style or style_of(self._text)
        mentions = list(self._inside(numbers_in(self._window, style, whole=isinstance(value, int))))
        if any(_equal(value, number) for mention in mentions for number in mention.values):
            return True
        is_possible = any(_equal(value, number) for mention in mentions for number in mention.possible)
        return None if is_possible else False

    def _has_time(self, value: date | time) -> bool | None:
        if isinstance(value, datetime):
            return self._has_time(value.date()) and self._has_time(value.timetz())
        if isinstance(value, date):
            return value in set(self._mentioned(dates_in(self._window)))
        times = list(self._mentioned(times_in(self._window)))
        if not times and value.replace(tzinfo=None) == time():  # no time, or midnight in words
            return None
        # a zone may be stated elsewhere
        return any(value.replace(tzinfo=None) == one.replace(tzinfo=None) for one in times)

    def _has_same(self, text: str) -> bool:
        """Return True if a text is a number or a date, and the quote has it in another form."""
        by_date = self._same_mention(text, dates_in)
        return bool(self._same_mention(text, _amounts_in) if by_date is None else by_date)

    def _same_mention(self, text: str, mentions: Callable[[str], Iterator[Mention[V]]]) -> bool | None:
        """Return True if the quote contains the value of a text; None if the text is not a single mention."""
        for mention in mentions(text):
            if not text[: mention.start].strip() and not text[mention.end :].strip():
                in_quote = [value for one in self._inside(mentions(self._window)) for value in one.values]
                return not mention.values.isdisjoint(in_quote)
        return None

    def _names(self, value: object, options: Sequence[object]) -> bool | None:
        """Return True if the quote names an option, False if it names only others, None if it names none."""
        pairs = [(option, label) for option in options for label in dict.fromkeys(_labels(option))]
        # "not paid" does not name "paid" if both are options
        counts = count_words(self._quote, [label for _, label in pairs])
        named = [
            option
            for (option, label), count in zip(pairs, counts, strict=True)
            if (count if _is_plain(label) else self._is_answer(label))
        ]
        if not named:
            return None
        return any(type(option) is type(value) and option == value for option in named)

    def _is_answer(self, label: str) -> bool:
        """Return True if a word such as "no" is the answer; "no later than" does not say no."""
        before, _, last = self._quote.rstrip(" .!;").casefold().rpartition(label)
        return not last and (not before.strip() or before.rstrip()[-1:] in ":=?-–—\t|")


def _amounts_in(text: str) -> Iterator[Mention[Decimal]]:
    """Yield the numbers in a text, without codes such as 007, which is not the same text as 7."""
    for mention in numbers_in(text):
        if text[mention.start] != "0" or not text[mention.start + 1 : mention.start + 2].isdecimal():
            yield mention


def _is_plain(label: str) -> bool:
    return label not in _YES_NO[True] + _YES_NO[False] or label in ("true", "false")


def _labels(option: object) -> Iterator[str]:
    if isinstance(option, bool):
        yield from _YES_NO[option]
    elif isinstance(option, Enum):
        yield option.name.replace("_", " ")
        if isinstance(option.value, str):
            yield option.value.replace("_", " ")
    elif option is not None:
        yield str(option).replace("_", " ")


def _equal(value: float | Decimal | Fraction, number: Decimal) -> bool:
    if isinstance(value, float):
        return math.isclose(value, float(number), rel_tol=1e-12)
    if isinstance(value, Fraction):
        return value == Fraction(number) or math.isclose(value, number, rel_tol=1e-12)
    return value == number


def _choices_of(node: Node[object], value: object) -> Sequence[object] | None:
    """Return the options of a choice; None for a value that is not a choice."""
    if isinstance(node, BoolNode) or (isinstance(value, bool) and not isinstance(node, ChoiceNode)):
        return (True, False)
    if isinstance(node, ChoiceNode):
        return [one.value for one in node.choices.choices]
    return list(type(value)) if isinstance(value, Enum) else None


_Part: TypeAlias = tuple[object, Sequence[object], NumberStyle | None]


def _parts(node: Node[object], value: object) -> Iterator[_Part]:
    """Yield the parts that a quote must contain, with the options of choices and the style of numbers."""
    node = unwrapped(node.target if isinstance(node, RecursiveNode) else node)
    if value is None or isinstance(value, Cited):
        return
    choices = _choices_of(node, value)
    children = None if choices is not None else _children(node, value)
    if children is None:
        yield value, choices or (), node.rules.style if isinstance(node, NumberNode) else None
    if isinstance(node, DictNode) and isinstance(value, Mapping):
        yield from _keys(node, value)
    for part, one in children or ():
        yield from _parts(part, one)


def _keys(node: DictNode, value: Mapping[Any, object]) -> Iterator[_Part]:
    """Yield the keys of a dict; a text may be a name that the model gave, so the quote need not have it."""
    for key in value:
        yield key, _choices_of(unwrapped(node.key), key) or ((key,) if isinstance(key, str) else ()), None


def _children(node: Node[object], value: object) -> Iterable[tuple[Node[object], object]] | None:
    """Return the parts of a value with their nodes; None for a value that has no parts."""
    if isinstance(node, UnionNode):
        options = [option for option in node.options if not isinstance(option, NoneNode)]
        return [(options[0] if len(options) == 1 else _fitting(options, value), value)]
    if isinstance(node, ObjectNode):
        try:
            values = node.field_values(value)
        except ValueError:  # of another member of a union
            return ()
        return [(part, values.get(name)) for name, part in node.nodes.items()]
    if isinstance(value, Mapping):
        return [(node.parts[-1] if node.parts else node, one) for one in value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = node.parts or (node,)
        return [(parts[min(index, len(parts) - 1)], one) for index, one in enumerate(value)]
    return None


def _fitting(options: Sequence[Node[object]], value: object) -> Node[object]:
    """Return the member of a union that a value belongs to."""
    for option in options:
        bare = unwrapped(option)
        if isinstance(bare, ObjectNode) and isinstance(bare.spec.cls, type):
            try:
                bare.field_values(value)
            except (ValueError, TypeError):
                continue
            return bare
        if isinstance(bare, ChoiceNode) and value in [one.value for one in bare.choices.choices]:
            return bare
    return next(
        (one for one in options if not isinstance(unwrapped(one), (ObjectNode, ChoiceNode))), options[0]
    )
