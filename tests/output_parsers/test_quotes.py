"""Quotes are found in texts, although they may differ in typography or letters, but never in numbers."""

from __future__ import annotations

import pydoc_data.topics
import random
import re
import time
import unicodedata

import pytest

from output_parsers.mentions import dates_in, durations_in, numbers_in, times_in
from output_parsers.quotes import QuoteIndex, QuoteMatch, contains_words, find_quote

TEXT = "\n\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))[:300_000]
INDEX = QuoteIndex(TEXT)
WORDS = [match.span() for match in re.finditer(r"\S+", TEXT)]


def passage(source: random.Random, least: int = 6, most: int = 30) -> str:
    first = source.randrange(len(WORDS) - most)
    return TEXT[WORDS[first][0] : WORDS[first + source.randint(least, most)][1]]


@pytest.mark.parametrize(
    ("text", "quote", "kind", "found"),
    [
        ("He paid 5 euros.", "paid 5 euros", "exact", "paid 5 euros"),
        ("He paid\n  5 euros.", "paid 5 euros", "normalized", "paid\n  5 euros"),
        ("the con-\ntract ends", "The contract ends", "normalized", "the con-\ntract ends"),
        ("a long-term lease", "a longterm lease", "normalized", "a long-term lease"),
        ("“It’s fine” – he said", '"It\'s fine" - he said', "normalized", "It’s fine” – he said"),
        ("the oﬃce is ﬁne", "the office is fine", "normalized", "the oﬃce is ﬁne"),
        ("cafe\u0301 noir", "café noir", "normalized", "cafe\u0301 noir"),
        ("so\u00adft hy\u200bphen", "soft hyphen", "normalized", "so\u00adft hy\u200bphen"),
        ("the ten\u00adant pays", "the tenant pays", "normalized", "the ten\u00adant pays"),
        ("İstanbul ofisi", "istanbul ofisi", "normalized", "İstanbul ofisi"),
        ("STRASSE und Straße", "straße und strasse", "normalized", "STRASSE und Straße"),
        ("契約は東京\n都で終わる。", "東京都で終わる", "normalized", "東京\n都で終わる"),
        ("the tenant shall pay the rent monthly", "the tenant shail pay the rent monthly", "aligned", None),
    ],
)
def test_the_quote_is_the_part_of_the_text(text: str, quote: str, kind: str, found: str | None) -> None:
    match = find_quote(text, quote)
    assert match is not None
    assert match.kind == kind
    ((start, end),) = match.spans
    assert text[start:end] == (text if found is None else found)


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("He paid 15 euros", "5 euros"),
        ("He paid 5.50 euros", "He paid 5"),
        ("It was -5 degrees", "5 degrees"),
        ("10² apples", "102 apples"),
        ("2½ apples", "212 apples"),
        ("unable to pay", "able to pay"),
        ("the tenant shall pay 500 euros each month", "the tenant shall pay 600 euros each month"),
        ("the tenant shall pay 500 euros each month", "the tenant shall pay five euros each month"),
        ("the tenant shall pay six euros each month", "the tenant shall pay five euros each month"),
        ("der Mieter zahlt sechs Euro in jedem Monat", "der Mieter zahlt fünf Euro in jedem Monat"),
        (
            "see the rules of Section IV for all of these cases",
            "see the rules of Section VI for all of these cases",
        ),
        (
            "er zahlt fünfundzwanzig Euro in jedem Monat an ihn",
            "er zahlt fünfundvierzig Euro in jedem Monat an ihn",
        ),
        ("it falls from - 5 to the lowest of all values", "it falls from 5 to the lowest of all values"),
        ("she paid € 5 for each of the seats in it", "she paid $ 5 for each of the seats in it"),
        ("a share of 5 % in all of the new funds", "a share of 5 ‰ in all of the new funds"),
        ("half of the sum is paid on the first day", "quarter of the sum is paid on the first day"),
        ("the lease ends in June of that same year", "the lease ends in July of that same year"),
        ("the tenant shall not pay the rent monthly", "the tenant shall pay the rent monthly"),
        ("the tenant shall pay 500 euros each month", "the tenant shall pay euros each month"),
        ("1 2", "12"),
        ("text", ""),
        ("text", " “” "),
    ],
)
def test_other_words_and_numbers_are_not_found(text: str, quote: str) -> None:
    assert find_quote(text, quote) is None


def test_all_places_of_a_quote_are_found() -> None:
    assert find_quote("a cat, a cat and acat", "a cat") == QuoteMatch("exact", 1.0, ((0, 5), (7, 12)))


def test_words_are_contained_in_any_typography_but_not_in_parts() -> None:
    assert contains_words("signed by ACME, Corp.\nand Bob", "Acme Corp")
    assert not contains_words("signed by ACME Corporation", "Acme Corp")
    assert not contains_words("anything", "...")


def test_passages_are_found_where_they_are_whatever_the_typography() -> None:
    source = random.Random(1)
    for _ in range(80):
        quote = passage(source)
        changed = " ".join(quote.replace('"', "“").replace("'", "’").split()).upper()
        match = INDEX.find(changed)
        assert match is not None, quote
        expected = " ".join(quote.split()).casefold()
        assert all(" ".join(TEXT[a:b].split()).casefold() in expected for a, b in match.spans)


def test_passages_with_another_number_are_not_found() -> None:
    source = random.Random(2)
    tried = 0
    while tried < 80:
        quote = passage(source)
        digits = [match.start() for match in re.finditer(r"\d", quote)]
        if digits:
            place = source.choice(digits)
            other = source.choice([digit for digit in "0123456789" if digit != quote[place]])
            changed = quote[:place] + other + quote[place + 1 :]
            match = INDEX.find(changed)
            found = set() if match is None else {TEXT[start:end] for start, end in match.spans}
            numbers = {tuple(re.findall(r"\d+", one)) for one in found}
            assert numbers <= {tuple(re.findall(r"\d+", changed))}, (quote, changed, found)
            tried += 1


def test_words_in_any_order_are_not_found() -> None:
    source = random.Random(3)
    words = TEXT.split()
    found = [INDEX.find(" ".join(source.sample(words, source.randint(6, 20)))) for _ in range(100)]
    assert not any(match is not None and match.kind == "aligned" for match in found)


def test_the_time_to_find_quotes_is_linear_in_the_length_of_the_text() -> None:
    def seconds(copies: int) -> float:
        text = " ".join(TEXT[:20_000].replace("the ", f"the{number} ") for number in range(copies))
        started = time.process_time()
        QuoteIndex(text).find("one quote that the text does not contain in any of its many places")
        return time.process_time() - started

    seconds(1)
    assert seconds(16) < 12 * seconds(4)


@pytest.mark.parametrize("text", ["1 ", "a-\n", "one ", "a1.", "(1", "東", "5 days "])
def test_no_text_takes_more_than_linear_time(text: str) -> None:
    def seconds(length: int) -> float:
        long = (text * length)[:length]
        started = time.process_time()
        QuoteIndex(long).find("one quote that the text does not contain")
        QuoteIndex(long).find(f"{long[: length // 2]} x")
        for find in (numbers_in, dates_in, times_in, durations_in):
            list(find(long))  # type: ignore[arg-type]
        return time.process_time() - started

    seconds(100)
    assert seconds(12_000) < 8 * seconds(3_000) + 0.1


def test_letters_that_are_composed_of_several_characters_are_found() -> None:
    for text in ("한국어 문장", "がくせい パン", "Việt Nam", "أحمد آب", "ऩ क़लम", "ொ கொ"):
        composed, decomposed = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
        for one, other in ((composed, decomposed), (decomposed, composed)):
            match = find_quote(f"A {one} b", other)
            assert match is not None, text
            assert match.spans == ((2, 2 + len(one)),)
