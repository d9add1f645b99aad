"""How fast quotes are found in long texts, and which wrong quotes and values are accepted.

``python -m benchmarks.quotes [COUNT] [--peers DIR]`` measures the times on texts of 10 KB to 10 MB, and the
rates on COUNT wrong quotes of each kind (20,000 by default). The texts are Python's documentation and the
licenses of Debian. With ``--peers``, the directory of an installed langextract, its aligner is measured too.
"""

from __future__ import annotations

import argparse
import pydoc_data.topics
import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from output_parsers.number_words import NUMBER_WORDS
from output_parsers.quotes import QuoteIndex
from output_parsers.types.evidence import Evidence

_LICENSES = Path("/usr/share/common-licenses")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_OTHER_WORDS = "harbour velvet Lisbon quickly Marta orchard seventyfold".split()
_OCR = {"m": "rn", "l": "i", "e": "c", "h": "b", "n": "u", "t": "f", "i": "l", "a": "o"}


class Passages:
    """Draws quotes from a text.

    Args:
        text: The text.
        seed: The seed of the random numbers.
    """

    def __init__(self, text: str, seed: int = 1) -> None:
        self.text = text
        self.random = Random(seed)
        self.words = [match.span() for match in re.finditer(r"\S+", text)]
        self.followers: dict[str, list[str]] = {}
        plain = text.split()
        for word, following in pairwise(plain):
            self.followers.setdefault(word, []).append(following)
        self.plain = plain
        self.runs = set(zip(plain, plain[1:], plain[2:], plain[3:], strict=False))

    def draw(self) -> str:
        """Return a passage of 6 to 30 words, most of which are letters."""
        while True:
            first = self.random.randrange(len(self.words) - 30)
            last = first + self.random.randint(6, 30)
            passage = self.text[self.words[first][0] : self.words[last][1]]
            if sum(character.isalpha() or character.isspace() for character in passage) > 0.85 * len(passage):
                return passage

    def invented(self) -> str:
        """Return words that mostly do not occur in the text in this order, shuffled or by a Markov chain."""
        while True:
            words = self._chain()
            runs = list(zip(words, words[1:], words[2:], words[3:], strict=False))
            if sum(run in self.runs for run in runs) < 0.5 * len(runs):
                return " ".join(words)

    def _chain(self) -> list[str]:
        length = self.random.randint(6, 30)
        if self.random.random() < 0.5:
            return self.random.sample(self.plain, length)
        words = [self.random.choice(self.plain)]
        while len(words) < length:
            words.append(self.random.choice(self.followers.get(words[-1], self.plain)))
        return words

    def other_number(self) -> str:
        """Return a passage in which a number, in digits or words, is another one."""
        while True:
            quote = self.draw()
            numbers = [
                match
                for match in re.finditer(r"\d+|[a-z]+", quote)
                if match[0].isdigit() or match[0] in NUMBER_WORDS
            ]
            if numbers:
                match = self.random.choice(numbers)
                others = (
                    [str(self.random.randint(0, 9999))] if match[0].isdigit() else ["two", "nine", "forty"]
                )
                other = self.random.choice([one for one in others if one != match[0]] or ["77"])
                return quote[: match.start()] + other + quote[match.end() :]

    def other_word(self) -> tuple[str, str]:
        """Return a passage in which a word is another one, and that word."""
        words = self.draw().split()
        word = self.random.choice(_OTHER_WORDS)
        words[self.random.randrange(len(words))] = word
        return " ".join(words), word

    def other_typography(self) -> str:
        """Return a passage with other quotes, dashes, white space and case."""
        text = self.draw().replace('"', "“").replace("'", "’").replace("-", "\u2011")
        return "  ".join(text.upper().split())

    def other_letters(self, share: float) -> str:
        """Return a passage in which a share of the letters is misread, and no digits."""
        return re.sub(r"\S+", lambda word: self._misread(word[0], share), self.draw())

    def _misread(self, word: str, share: float) -> str:
        if any(letter.isdigit() for letter in word):
            return word
        return "".join(
            _OCR.get(letter, self.random.choice(_LETTERS))
            if letter.isalpha() and self.random.random() < share
            else letter
            for letter in word
        )

    def hyphenated(self) -> str:
        """Return a passage in which words are divided at the ends of lines."""
        words = [
            f"{word[:4]}-\n{word[4:]}" if len(word) > 8 and word.isalpha() else word
            for word in self.draw().split()
        ]
        return " ".join(words)


def long_text() -> str:
    """Return the text of Python's documentation and of Debian's licenses."""
    topics = pydoc_data.topics.topics
    licenses = sorted(_LICENSES.glob("*")) if _LICENSES.exists() else []
    texts = [topics[name] for name in sorted(topics)]
    return "\n\n".join([*texts, *(path.read_text("utf-8", "replace") for path in licenses)])


def _of_size(text: str, size: int) -> str:
    """Return a text of a size; each copy has words of its own."""
    pieces, length, copy = [], 0, 0
    while length < size:
        piece = text if copy == 0 else re.sub(r"\b(\w{6,})\b", rf"\1{_LETTERS[copy % 26]}", text)
        pieces.append(piece)
        length, copy = length + len(piece), copy + 1
    return "".join(pieces)[:size]


def _milliseconds(find: Callable[[str], object], quotes: list[str]) -> list[float]:
    times = []
    for quote in quotes:
        started = time.process_time()
        find(quote)
        times.append((time.process_time() - started) * 1000)
    return sorted(times)


def times(text: str, sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)) -> Iterator[str]:
    """Yield a line for each size of text: the time of its index, and of each kind of quote."""
    yield "| characters | index | exact | other typography | other letters |\n|---:|---:|---:|---:|---:|"
    for size in sizes:
        long = _of_size(text, size)
        passages = Passages(long)
        index = QuoteIndex(long)
        started = time.process_time()
        index.find("words that this text does not have")
        seconds = time.process_time() - started
        cells = []
        for find, draw in (
            (index.find_exact, passages.draw),
            (index.find, passages.other_typography),
            (index.find, lambda passages=passages: passages.other_letters(0.04)),
        ):
            spent = _milliseconds(find, [draw() for _ in range(200)])
            cells.append(f"{median(spent):.2f} ms (95 %: {spent[190]:.2f})")
        yield f"| {size:,} | {seconds:.2f} s | {' | '.join(cells)} |"


def rates(text: str, count: int) -> Iterator[str]:
    """Yield a line for each kind of quote: how many are found of ``count`` wrong ones, or a tenth as many."""
    index, passages = QuoteIndex(text), Passages(text, seed=2)
    yield "| quotes | found |\n|---|---:|"

    def line(name: str, found: int, total: int) -> str:
        return f"| {name} | {found:,} of {total:,} ({found / max(total, 1):.2%}) |"

    kinds: list[tuple[str, Callable[[], str]]] = [
        ("exact", passages.draw),
        ("other typography", passages.other_typography),
        ("hyphenated at the ends of lines", passages.hyphenated),
        ("2 % of the letters misread", lambda: passages.other_letters(0.02)),
        ("5 % of the letters misread", lambda: passages.other_letters(0.05)),
    ]
    for name, draw in kinds:
        yield line(name, sum(index.find(draw()) is not None for _ in range(count // 10)), count // 10)
    yield line("invented", sum(_is_invented(index, passages.invented()) for _ in range(count)), count)
    wrong = sum(_has_other_number(index, passages.other_number()) for _ in range(count))
    yield line("another number", wrong, count)
    accepted = found = 0
    for _ in range(count // 2):
        quote, word = passages.other_word()
        match = index.find(quote)
        if match is not None:
            found += 1
            accepted += Evidence(text, *match.spans[0]).proves(word) is True
    yield line("another word", found, count // 2)
    yield line("– of these, wrong value accepted", accepted, found)


def _is_invented(index: QuoteIndex, quote: str) -> bool:
    """Return True if an invented quote is found whose words do not occur in the text by chance."""
    match = index.find(quote)
    return match is not None and match.kind == "aligned"


def _has_other_number(index: QuoteIndex, quote: str) -> bool:
    """Return True if a quote is found whose numbers are not those of the text."""
    match = index.find(quote)
    if match is None:
        return False
    texts = [index.text[start:end] for start, end in match.spans]
    return all(_numbers(one) != _numbers(quote) for one in texts)


def _numbers(text: str) -> list[str]:
    return [one for one in re.findall(r"\d+|[a-z]+", text.casefold()) if one.isdigit() or one in NUMBER_WORDS]


def peer_times(text: str, directory: str) -> Iterator[str]:
    """Yield lines with the times of langextract's aligner and ours, for 20 extractions at once."""
    sys.path.insert(0, directory)
    from langextract import data, resolver  # type: ignore[import-not-found]

    yield "| characters | langextract, per quote | ours, per quote | langextract found | ours found |"
    yield "|---:|---:|---:|---:|---:|"
    for size in (10_000, 50_000, 200_000):
        part = text[:size]
        passages = Passages(part)
        quotes = [" ".join(passages.other_letters(0.02).split()) for _ in range(20)]
        aligner: Any = resolver.WordAligner()
        theirs = [[data.Extraction("quote", quote) for quote in quotes]]
        started = time.process_time()
        aligned = list(aligner.align_extractions(theirs, part))
        their_time = (time.process_time() - started) * 1000 / len(quotes)
        their_count = sum(one.char_interval is not None for group in aligned for one in group)
        started = time.process_time()
        index = QuoteIndex(part)
        our_count = sum(index.find(quote) is not None for quote in quotes)
        our_time = (time.process_time() - started) * 1000 / len(quotes)
        cells = f"{their_time:.1f} ms | {our_time:.2f} ms | {their_count} of 20 | {our_count} of 20"
        yield f"| {size:,} | {cells} |"


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(prog="benchmarks.quotes")
    parser.add_argument("count", nargs="?", type=int, default=20_000, help="quotes of each kind")
    parser.add_argument("--peers", help="the directory in which langextract is installed")
    options = parser.parse_args()
    text = long_text()
    parts = [times(text), rates(text, options.count)]
    if options.peers:
        parts.append(peer_times(text, options.peers))
    for part in parts:
        for one in part:
            print(one, flush=True)
        print()


if __name__ == "__main__":
    main()
