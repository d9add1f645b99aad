"""Find a quote in a text, although the quote may differ in typography or in single letters.

``find_quote`` looks for the exact words, then for the same words in another typography, then for the most
similar passage. Numbers must always be the same, and a match never begins or ends inside a word or a number.
"""

from __future__ import annotations

import unicodedata
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from .lazy_regex import lazy_regex
from .number_words import NUMBER_WORDS

MatchKind: TypeAlias = Literal["exact", "normalized", "aligned"]
Span: TypeAlias = tuple[int, int]

THRESHOLD = 0.8  # the least score of an aligned quote
_MAX_PLACES = 100  # of one quote; a quote with more places is too common to locate
# Scripts without spaces between words: each of their characters is a word of its own here.
_SPACELESS = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_SPACELESS_CHARACTER = lazy_regex(f"[{_SPACELESS}]")
_HYPHENS = "-\u2010\u2011\u00ad"
# A word. One that is hyphenated at the end of a line includes its second half.
_TOKEN = lazy_regex(
    rf"[{_SPACELESS}][\u3099\u309a]?|[^\s{_SPACELESS}]+"
    rf"(?:(?<=[^\W\d_][{_HYPHENS}])[ \t]*\r?\n\s*(?=[^\W\d_])[^\s{_SPACELESS}]+)*"
)
# The parts of a word that are normalized together: a hyphen between letters, or a letter with its accents.
_MARKS = (
    r"\u0300-\u036f\u0653-\u0655\u093c\u09be\u09d7\u0b3e\u0b56\u0b57\u0bbe\u0bd7\u0c56"
    r"\u0cc2\u0cd5\u0cd6\u3099\u309a"
)
_SYLLABLE = r"[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?"  # of Korean, in its letters
_UNIT = lazy_regex(rf"(?P<hyphen>(?<=[^\W\d_])[{_HYPHENS}]\s*(?=[^\W\d_]))|\S[{_MARKS}]+|{_SYLLABLE}|(?s:.)")
_LETTERS = lazy_regex(r"[^\W\d_]+")
_TYPOGRAPHY = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\uff0d", "-")
    | dict.fromkeys("“”„‟«»″＂", '"')
    | dict.fromkeys("‘’‚‛′`´‹›＇", "'")
    | dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff\u200e\u200f\u202a\u202b\u202c\u202d\u202e", "")
)
_WRAPPING = " \t\r\n\"'“”„‘’«»`…"
_EDGES = ".,;:!?()[]{}\"'<>*_|/\\"
_DIGITS = frozenset("0123456789")
_SEPARATORS = ".,:/'’-–"  # inside numbers, dates and times
# Words that reverse a sentence: an aligned quote must not add or lose one.
_NEGATIONS = frozenset(
    "not no never none neither nor without except unless cannot nicht kein keine keinen keiner nie niemals"
    " ohne ne pas non jamais sans aucun aucune nunca sin não sem nem mai senza geen niet nooit zonder nie bez"
    " не нет ни без никогда inte ingen ikke ei değil".split()
)
# The names of months and weekdays are parts of dates. "May" and "March" have other meanings.
_DATE_WORDS = frozenset(
    "january february april june july august september october november december monday tuesday wednesday"
    " thursday friday saturday sunday first third fourth fifth sixth seventh eighth ninth tenth dozen"
    " half quarter twice thrice double triple % ‰".split()
)
# Roman numbers. Those in small letters may be a misread "is" or "it" in a quote, unless they are in brackets.
_ROMAN_NUMBER = lazy_regex(r"\b[IVX]{2,}\b|(?<=\()[ivx]{2,}(?=\))")
_ROMAN = frozenset("ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii xviii xix xx".split())
# Parts of number words that are written together, as in "fünfundzwanzig" and "vijfentwintig".
_COMPOUND = lazy_regex(
    r"zwanzig|drei(?:ß|ss)ig|vierzig|fünfzig|sechzig|siebzig|achtzig|neunzig|hundert|tausend|und(?:zehn|elf|zwölf)"
    r"|twintig|dertig|veertig|vijftig|zestig|zeventig|tachtig|negentig|honderd|duizend"
    r"|(?:vent|trent|quarant|cinquant|sessant|settant|ottant|novant)[io]?(?:uno|due|tre|quattro|cinque|sei|sette|otto|nove)"
)
_REVERSING = frozenset("un in im il ir dis non mis anti".split())  # prefixes that reverse a word
_NUMBER_WORDS = NUMBER_WORDS | _DATE_WORDS


class QuoteMatch(NamedTuple):
    """The places where a quote occurs in a text.

    Attributes:
        kind: How it was found: "exact", "normalized" (the same words in another typography) or "aligned"
            (similar words, with the same numbers).
        score: How similar the words are, from 0 to 1; below 1 only for "aligned".
        spans: The start and end of each place. There are several if the same words occur several times.
    """

    kind: MatchKind
    score: float
    spans: tuple[Span, ...]


def find_quote(text: str, quote: str) -> QuoteMatch | None:
    """Return where a quote occurs in a text, or None if it does not occur.

    The indexes of the latest texts are cached.
    """
    return index_of(text).find(quote)


@lru_cache(maxsize=32)
def index_of(text: str) -> QuoteIndex:
    """Return the index of a text; those of the latest texts are cached."""
    return QuoteIndex(text)


class QuoteIndex:
    """Finds quotes in one text; each part of the index is built when it is first needed.

    Attributes:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, quote: str) -> QuoteMatch | None:
        """Return where a quote occurs in the text, or None if it does not occur."""
        return self.find_exact(quote) or self.find_normalized(quote) or self.find_aligned(quote)

    def find_exact(self, quote: str) -> QuoteMatch | None:
        """Return where the exact characters of a quote occur in the text."""
        quote = quote.strip()
        return self._match("exact", quote, _occurrences(self.text, quote, partial(_is_cut, self.text)))

    def find_normalized(self, quote: str) -> QuoteMatch | None:
        """Return where the words of a quote occur in the text, in any typography."""
        folded = _folded(quote.strip(_WRAPPING))
        if not folded.strip("."):
            return None
        normalized = self._normalized
        places = _occurrences(normalized.text, folded, self._has_cut)
        return self._match("normalized", folded, map(normalized.span, places))

    def _match(self, kind: MatchKind, quote: str, places: Iterator[Span]) -> QuoteMatch | None:
        spans = tuple(islice(places, _MAX_PLACES)) if quote else ()
        return QuoteMatch(kind, 1.0, spans) if spans else None

    def _has_cut(self, start: int, end: int) -> bool:
        return _is_cut(self.text, *self._normalized.span((start, end)))

    @cached_property
    def _normalized(self) -> _Normalized:
        return _Normalized(self.text)

    @cached_property
    def _words(self) -> _Words:
        return _Words(self._normalized.pieces)

    def find_aligned(self, quote: str) -> QuoteMatch | None:
        """Return the passage that is most similar to a quote, if it is similar enough and has its numbers."""
        words = [word for _, word in _cores(_pieces(quote.strip(_WRAPPING)))]
        if len(words) > _LONGEST_QUOTE:
            return None
        # A quote of signs, such as a table, has too few words to be distinguished from another one.
        if 2 * sum(map(len, words)) < sum(map(len, quote.split())):
            return None
        roman = {number.casefold() for number in _ROMAN_NUMBER.findall(quote)}
        scored_spans: list[tuple[float, Span]] = []
        enough = 0.0
        for votes, start, end in self._words.candidates(words):
            if votes < enough:
                continue
            aligned = _align(words, self._words.words[start:end], self._words.places, roman)
            if aligned is not None and aligned[0] >= THRESHOLD:
                score, first, last = aligned
                scored_spans.append(
                    (score, self._normalized.tokens(self._words, start + first, start + last))
                )
                enough = votes if score > 0.97 else 0.8 * votes
        if not scored_spans:
            return None
        best = max(score for score, _ in scored_spans)
        return QuoteMatch(
            "aligned", best, tuple(dict.fromkeys(span for score, span in scored_spans if score == best))
        )


def _occurrences(text: str, part: str, is_cut: Callable[[int, int], bool]) -> Iterator[Span]:
    """Yield each place of a part of a text that begins and ends between words."""
    start = text.find(part)
    while start >= 0 and part:
        end = start + len(part)
        cut = is_cut(start, end)
        if not cut:
            yield start, end
        start = text.find(part, start + 1 if cut else end)


def _is_cut(text: str, start: int, end: int) -> bool:
    """Return True if a part of a text begins or ends inside a word or a number."""
    if _joins(text, start) or _joins(text, end):
        return True
    before = text[max(0, start - 2) : start]
    # a sign before the first number belongs to it, as in "from -5"; a hyphen after a word does not
    return text[start] in _DIGITS and before[-1:] in tuple("-−+") and not before[:-1].isalnum()


def _joins(text: str, position: int) -> bool:
    """Return True if the characters around a position belong to one word or one number."""
    if not 0 < position < len(text):
        return False
    left, right = text[position - 1], text[position]
    if left.isalnum() and right.isalnum():
        return not (_SPACELESS_CHARACTER.match(left) or _SPACELESS_CHARACTER.match(right))
    if right in _SEPARATORS and left.isdecimal():
        return text[position + 1 : position + 2].isdecimal()
    return left in _SEPARATORS and right.isdecimal() and text[max(0, position - 2) : position - 1].isdecimal()


# --- Typography ---


def _folded(text: str) -> str:
    """Return a text in a form without differences of typography, case, white space and hyphens."""
    return "".join(_pieces(text)).strip()


def _pieces(text: str) -> list[str]:
    return [_piece(token[0]) for token in _TOKEN.finditer(text)]


@lru_cache(maxsize=200_000)
def _piece(token: str) -> str:
    """Return the normalized form of a word, after a space unless its script has none."""
    if token.isascii() and token.isalnum():
        return f" {token.lower()}"
    word = "".join(piece for piece, _, _ in _units(token))
    return word if not word or _SPACELESS_CHARACTER.match(token) else f" {word}"


def _units(token: str) -> Iterator[tuple[str, int, int]]:
    """Yield the normalized characters of a word, each with its start and end in the word."""
    # "two-year" must not become another word that hides the number
    hyphen = "-" if not NUMBER_WORDS.isdisjoint(_LETTERS.findall(token.casefold())) else ""
    for unit in _UNIT.finditer(token):
        is_hyphen = unit["hyphen"] and "\u00ad" not in unit[0]  # a soft hyphen is not seen
        yield hyphen if is_hyphen else "" if unit["hyphen"] else _fold(unit[0]), unit.start(), unit.end()


@lru_cache(maxsize=10_000)
def _fold(unit: str) -> str:
    """Return the normalized form of a character with its accents."""
    # Compatibility would turn 10² into 102, and ½ into 1⁄2.
    form: Literal["NFC", "NFKC"] = "NFC" if unicodedata.category(unit[0]) == "No" else "NFKC"
    folded = unicodedata.normalize(form, unit).translate(_TYPOGRAPHY).casefold()
    return folded.replace("i\u0307", "i")  # of the capital letter of Turkish


def contains_words(text: str, part: str) -> bool:
    """Return True if a text contains the words of another text in their order, in any typography."""
    return count_words(text, [part])[0] > 0


def count_words(text: str, parts: Sequence[str]) -> list[int]:
    """Return how often a text contains each part, apart from places where it belongs to a longer part."""
    # "x ≥ 5" is not "x ≤ 5"; but words without such signs may occur next to them
    signed = [not _COMPARISONS.isdisjoint(part) for part in parts]
    keys = [(has_signs, _plain_words(part, has_signs)) for has_signs, part in zip(signed, parts, strict=True)]
    rests = {has_signs: f" {_plain_words(text, has_signs)} " for has_signs in (False, True)}
    counts = {}
    for has_signs, words in sorted(set(keys), key=lambda key: -len(key[1])):
        counts[has_signs, words] = rests[has_signs].count(f" {words} ") if words else 0
        rests = {signs: rest.replace(f" {words} ", "  ") for signs, rest in rests.items()}
    return [counts[key] for key in keys]


_COMPARISONS = frozenset("<>=≤≥≠")


def _plain_words(text: str, has_signs: bool = False) -> str:
    """Return the normalized words of a text without punctuation, and the comparisons if they are wanted."""
    words = []
    for piece in _pieces(text):
        if has_signs:
            words += [sign for sign in piece if sign in _COMPARISONS]
        words.append(_core(piece))
    return " ".join(filter(None, words))


class _Normalized:
    """A text in normalized form, with the positions of its words in both forms.

    Attributes:
        pieces: The normalized words.
        text: All of them in one string.
    """

    def __init__(self, original: str) -> None:
        self._original = original
        self._starts = array("L")  # of the words in the original
        self._ends = array("L")
        self._piece_starts = array("L")  # of the words in the normalized text
        self.pieces: list[str] = []
        position = 0
        for token in _TOKEN.finditer(original):
            piece = _piece(token[0])
            self.pieces.append(piece)
            self._starts.append(token.start())
            self._ends.append(token.end())
            self._piece_starts.append(position)
            position += len(piece)
        self.text = "".join(self.pieces)

    def span(self, place: Span) -> Span:
        """Return the place in the original of a place in the normalized text."""
        return self._original_of(place[0])[0], self._original_of(place[1] - 1)[1]

    def _original_of(self, position: int) -> Span:
        """Return the start and end in the original of one normalized character."""
        # the last word that begins there: words that are only marks without width are empty
        index = bisect_right(self._piece_starts, position) - 1
        start, end = self._starts[index], self._ends[index]
        offset = position - self._piece_starts[index] - self.pieces[index].startswith(" ")
        word = self._original[start:end]
        for piece, first, last in _units(word):
            offset -= len(piece)
            if offset < 0:
                return start + first, start + last
        return end, end

    def tokens(self, words: _Words, first: int, last: int) -> Span:
        """Return the place in the original from one of the words to another one."""
        return self._starts[words.tokens[first]], self._ends[words.tokens[last]]


# --- Alignment ---


_MAX_POSTINGS = 4000  # places of one word that are tried
_RARE = 400  # places of a word up to which it is rare
_LONGEST_QUOTE = 200  # words; longer ones must have the same words
_LONGEST_WORD = 60  # letters; longer ones are addresses or data, and must be equal
_SEEDS, _FEW_SEEDS = 12, 5
_CANDIDATES = 6
_FEW_WORDS = 7  # quotes with fewer words must have all words of the passage, except for single letters


class _Words:
    """The words of a text without punctuation, and the places of each.

    Attributes:
        words: The normalized words.
        tokens: The index of each word among the pieces of the normalized text.
        places: The indices of each word.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self.words: list[str] = []
        self.tokens = array("L")
        self.places: dict[str, array[int]] = {}
        for index, word in _cores(pieces):
            places = self.places.get(word)
            if places is None:
                places = self.places[word] = array("L")
            places.append(len(self.words))
            self.words.append(word)
            self.tokens.append(index)

    def _rarest(self, words: Sequence[str]) -> list[tuple[array[int], int]]:
        """Return the places of the rarest of the words, which vote for where a quote begins."""
        places = [(self.places[word], index) for index, word in enumerate(words) if word in self.places]
        places.sort(key=lambda one: len(one[0]))
        seeds = [one for one in places[:_SEEDS] if len(one[0]) <= _RARE]
        if len(seeds) < _FEW_SEEDS:
            seeds = places[:_FEW_SEEDS]
        return seeds

    def candidates(self, words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """Yield the ranges of words in which a passage like the given words may be, most likely first.

        Each is the number of words in its favour, its start and its end.
        """
        seeds = self._rarest(words)
        width = max(4, len(words) // 4)
        votes: Counter[int] = Counter()
        for positions, index in seeds:
            votes.update({(position - index) // width for position in positions[:_MAX_POSTINGS]})
        # a passage may be at the border of two ranges
        sums = {one: votes[one] + votes[one + 1] for bucket in votes for one in (bucket - 1, bucket)}
        best: list[int] = []
        most = max(_CANDIDATES, 150 // max(len(words), 1))
        for bucket in sorted(sums, key=lambda bucket: -sums[bucket])[: 3 * most]:
            least = max(0.34 * len(seeds), 0.7 * sums[best[0]] if best else 0)
            if sums[bucket] >= least and bucket - 1 not in best and bucket + 1 not in best:
                best.append(bucket)
        slack = 2 + len(words) // 6
        for bucket in best[:most]:
            start = bucket * width
            end = min(len(self.words), start + 2 * width + len(words) + slack)
            yield sums[bucket], max(0, start - slack), end


_SIGNS = frozenset("- + ± < > ≤ ≥ = ~ $ € £ ¥ % ‰".split())


def _cores(pieces: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the normalized words without the punctuation around them, each with its index.

    A sign before a number belongs to it.
    """
    sign = ""
    for index, piece in enumerate(pieces):
        word = _core(piece)
        if word:
            yield index, sign + word if sign and _has_digit(word) else word
            sign = ""
        else:
            sign = piece.strip()
            if sign in ("%", "‰"):
                yield index, sign
            sign = sign if sign in _SIGNS else ""


@lru_cache(maxsize=200_000)
def _core(piece: str) -> str:
    """Return a normalized word without the punctuation around it; signs and percents stay at numbers."""
    word = piece.strip().strip(_EDGES)
    if any(sign.isalnum() for sign in word):
        return word if word[0] != "-" or _is_number(word) else word.strip("-" + _EDGES)
    return ""


@lru_cache(maxsize=50_000)
def _is_number(word: str) -> bool:
    if word in _NUMBER_WORDS or _has_digit(word) or _COMPOUND.search(word):
        return True
    return not _NUMBER_WORDS.isdisjoint(_LETTERS.findall(word))


@lru_cache(maxsize=50_000)
def _has_digit(word: str) -> bool:
    return any(sign.isnumeric() for sign in word)


def _align(
    quote: Sequence[str], passage: Sequence[str], text_words: Container[str], roman: Container[str]
) -> tuple[float, int, int] | None:
    """Return the score, the first and the last word of the part of a passage that is most like a quote.

    Return None if numbers or negations differ. ``text_words`` are the words of the text: a word may be a
    misread "not" or "two" only if it is not one of them. ``roman`` are the Roman numbers of the quote.
    """
    columns = len(passage)
    # best[j]: (gain, start) of the best alignment of the quote so far that ends before passage[j]
    steps: list[list[int]] = []
    best: list[float] = [0.0] * (columns + 1)
    for word in quote:
        loss, is_essential = -0.5 * len(word), _is_essential(word) and (word not in _ROMAN or word in roman)
        row, step = [best[0] + loss], [1]
        for column, other in enumerate(passage):
            gain, kind = best[column + 1] + loss, 1
            if (left := row[column] - 0.5 * len(other)) > gain:
                gain, kind = left, 2
            if word == other:
                same = best[column] + len(word)
            else:
                share = _similarity(word, other)
                if share and (is_essential or (word in text_words and _is_essential(other))):
                    share = 0.0
                same = best[column] + share * len(word) if share else gain - 1
            if same >= gain:
                gain, kind = same, 0
            row.append(gain)
            step.append(kind)
        best = row
        steps.append(step)
    end = max(range(columns + 1), key=best.__getitem__)
    return _trace(quote, passage, steps, roman, end)


def _trace(
    quote: Sequence[str],
    passage: Sequence[str],
    steps: Sequence[Sequence[int]],
    roman: Container[str],
    column: int,
) -> tuple[float, int, int] | None:
    """Follow the best alignment backwards; return its score, its first and its last word."""
    matched, total, last, first, row = 0.0, 0, -1, -1, len(quote)
    lost, added = 0, 0  # words that only the quote or only the passage has
    gaps: list[str] = []  # words of the passage since the last word that belongs to the quote
    while row:
        step = steps[row - 1][column]
        if step == 0:
            row, column = row - 1, column - 1
            word, other = quote[row], passage[column]
            share = 1.0 if word == other else _similarity(word, other)
            matched += share * (len(word) + len(other))
            first, last = column, last if last >= 0 else column
            total += len(word) + len(other) + sum(map(len, gaps))
            if any(map(_is_essential, gaps)):
                return None
            added += len(gaps)
            gaps = []
        elif step == 1:
            row -= 1
            if _is_essential(quote[row]) and (quote[row] not in _ROMAN or quote[row] in roman):
                return None
            total += len(quote[row])
            lost += 1
        else:
            column -= 1
            if last >= 0:
                gaps.append(passage[column])
    # In a short quote, a single replaced word changes the meaning.
    most = -(-len(quote) // 8) if len(quote) >= _FEW_WORDS else 0
    return None if last < 0 or max(lost, added) > most else (matched / total, first, last)


def _is_essential(word: str) -> bool:
    """Return True for a number or a negation, which an aligned quote must not add or lose."""
    return _is_number(word) or word in _NEGATIONS or word in _ROMAN


@lru_cache(maxsize=100_000)
def _similarity(one: str, other: str) -> float:
    """Return how similar two different words are, from 0.5 to 1; 0 if they are less similar.

    A number is like no other number.
    """
    longer, shorter = max(len(one), len(other)), min(len(one), len(other))
    if longer > _LONGEST_WORD:
        return 0.0
    least = 0.5 if longer <= 5 else 0.6 if longer <= 8 else 0.75
    if shorter < least * longer or longer < 2 or _has_digit(one) or _has_digit(other):
        return 0.0
    if _is_number(one) and _is_number(other):
        return 0.0
    if max(one, other, key=len).removesuffix(min(one, other, key=len)) in _REVERSING:
        return 0.0
    # letters that only one of them has need a change each
    letters, others = _letter_set(one), _letter_set(other)
    if max((letters & ~others).bit_count(), (others & ~letters).bit_count()) > (1 - least) * longer:
        return 0.0
    share = 1 - _distance(one, other) / longer
    return share if share >= least else 0.0


@lru_cache(maxsize=50_000)
def _letter_set(word: str) -> int:
    """Return the letters of a word as a set of bits."""
    bits = 0
    for letter in word:
        bits |= 1 << ord(letter) % 64
    return bits


def _distance(one: str, other: str) -> int:
    """Return how many letters must be changed, added or removed to make one word of another."""
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, 1):
        diagonal, row[0] = row[0], number
        for column, sign in enumerate(other, 1):
            diagonal, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, diagonal + (letter != sign)),
            )
    return row[-1]
