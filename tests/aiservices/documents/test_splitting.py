"""Documents are split at headings, pages, paragraphs, sentences and words, and nothing of them is lost."""

from __future__ import annotations

import itertools
import pickle
import time

import pytest
from hypothesis import given, strategies as st

from aiservices import DefinitionError, Document
from aiservices.documents import Page, Split
from aiservices.documents.splitting import count_tokens


@given(
    st.text(alphabet="ab é日\n .#", max_size=300),
    st.integers(1, 40).flatmap(lambda tokens: st.tuples(st.just(tokens), st.integers(0, tokens // 2))),
)
def test_parts_cover_the_document_and_fit(text: str, sizes: tuple[int, int]) -> None:
    split = Split(*sizes)
    parts = split.parts(Document(text))
    assert [part.number for part in parts] == list(range(1, len(parts) + 1))
    assert parts[0].offset == 0
    assert parts[-1].offset + len(parts[-1].text) == len(text)
    for part, following in itertools.pairwise(parts):
        assert part.offset < following.offset <= part.offset + len(part.text)
    for part in parts:
        assert part.text == text[part.offset : part.offset + len(part.text)]
        assert count_tokens(part.text) <= split.tokens or len(part.text) == 1


def ends(text: str, tokens: int, *pages: int) -> list[str]:
    """Return the last words of the parts of a text without overlap."""
    starts = [*pages, len(text)]
    document = Document(text, pages=[Page(*one) for one in itertools.pairwise(starts)])
    return [part.text.split()[-1] for part in Split(tokens, 0).parts(document)]


def test_parts_end_at_the_best_border_of_their_second_half() -> None:
    words = "one two three four. five six seven eight nine ten eleven"
    assert ends(words, 8) == ["four.", "ten", "eleven"]
    assert ends(words.replace("six ", "six\n\n"), 8) == ["six", "eleven"]
    assert ends(words.replace("two ", "two\n# "), 8)[0] == "four."  # the heading is in the first half
    assert ends(words.replace("five ", "\n\nfive\n# "), 8)[0] == "five"
    assert ends(words, 8, 0, words.index("six")) == ["five", "eleven"]
    assert ends("x" * 10, 1) == ["xxxx", "xxxx", "xx"]
    assert ends("日本語。中文字", 5) == ["日本語。", "中文字"]


def test_the_overlap_begins_with_a_sentence() -> None:
    text = "First sentence is here. Second one is here. Third one is here. Fourth one."
    first, second = Split(15, 5).parts(Document(text))
    assert first.text == "First sentence is here. Second one is here. "
    assert second.text == "Second one is here. Third one is here. Fourth one."
    assert first.overlaps(second)


def test_a_part_says_where_it_is() -> None:
    text = "# Rent\n\nPay 900.\n\nOn time.\n\n3.2 Notice Period\n\nThree months.\n\nThe end."
    pages = [Page(0, 29), Page(29, len(text))]
    parts = Split(8, 0).parts(Document(text, "lease.pdf", pages))
    assert [part.context for part in parts] == [
        "Part 1 of 3 of lease.pdf, page 1, in the section 'Rent'.",
        "Part 2 of 3 of lease.pdf, page 2, in the section '3.2 Notice Period'.",
        "Part 3 of 3 of lease.pdf, page 2, in the section '3.2 Notice Period'.",
    ]
    assert Split().parts(Document("a"))[0].context == "Part 1 of 1."
    copied = pickle.loads(pickle.dumps(parts[1]))
    assert (copied, copied.offset, copied.context) == (parts[1], parts[1].offset, parts[1].context)


def test_splitting_a_long_document_takes_linear_time() -> None:
    for text in ("A sentence of some words. " * 40_000, "x" * 1_000_000, "日本" * 300_000):
        began = time.process_time()
        Split().parts(Document(text))
        assert time.process_time() - began < 1


def test_wrong_sizes_are_an_error() -> None:
    for wrong, problem in (
        ({"tokens": 0}, "tokens is 0; it must be a whole number of at least 1"),
        ({"tokens": "5"}, "tokens is '5'; it must be a whole number"),
        ({"tokens": 10.5, "overlap": 0}, "tokens is 10.5; it must be"),
        ({"tokens": True, "overlap": 0}, "tokens is True; it must be"),
        ({"tokens": float("nan")}, "tokens is nan; it must be"),
        ({"tokens": None}, "tokens is None; it must be"),
        ({"tokens": 10, "overlap": 6}, "overlap is 6; it must be .* at least 0, and at most half of tokens"),
        ({"overlap": -1}, "overlap is -1; it must be"),
        ({"overlap": "1"}, "overlap is '1'; it must be"),
        ({"overlap": 0.5}, "overlap is 0.5; it must be"),
        ({"overlap": False}, "overlap is False; it must be"),
        ({"max_concurrency": 0}, "max_concurrency is 0; it must be"),
        ({"max_concurrency": "2"}, "max_concurrency is '2'; it must be"),
        ({"carry": 5}, r"carry is \(5,\); pass names of fields"),
        ({"carry": [None]}, r"carry is \(None,\); pass names of fields"),
        ({"count_tokens": 5}, "count_tokens is 5; pass a function"),
    ):
        with pytest.raises(DefinitionError, match=problem):
            Split(**wrong)  # type: ignore[arg-type]
