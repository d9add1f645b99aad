"""Retrieval by words: contents that have those of a query are found, rare words counting most (BM25)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import Any, TypeAlias

from .content import Content, Query, needed
from .vectors import Where, fits

Words: TypeAlias = Callable[[str], Sequence[str]]
Stem: TypeAlias = Callable[[list[str]], Sequence[str]]


@dataclass(frozen=True, eq=False)
class _Kept:
    """Contents and the words of each, by their keys."""

    contents: Mapping[str, Content] = field(default_factory=dict)
    words: Mapping[str, list[str]] = field(default_factory=dict)

    @cached_property
    def index(self) -> Any:
        """Made when it is first asked for; None where no content has a word."""
        if not any(self.words.values()):
            return None
        index = needed("bm25s", "retrieval").BM25()
        index.index(list(self.words.values()), show_progress=False)
        return index

    def ranked(self, words: list[str]) -> Iterator[Content]:
        """The contents with some of the words, the best first, each with its score."""
        if self.index is None or not words:
            return
        scores = self.index.get_scores(words)
        contents = list(self.contents.values())
        for at in (-scores).argsort(kind="stable"):
            if scores[at] <= 0:
                return
            yield replace(contents[at], score=float(scores[at]))


class KeywordRetriever:
    """Finds the contents that share words with a query: at most ``limit``, each with its BM25 as its score.

    Beside an EmbeddingRetriever it finds names, numbers and terms that say nothing to an embedding model.
    Give both the same contents, as those with one id become one when they are fused. A score is above 0,
    and to be compared with others of the same query only.

    ``words`` is the language of the texts, whose stop words are left out, or a function that gives the words
    of a text; a language that is written without spaces needs one. ``stem`` makes stems of words, as
    ``Stemmer.Stemmer("english").stemWords`` of PyStemmer does; it is called from the threads that retrieve.
    ``where`` is that of EmbeddingRetriever. The contents are kept in this process; safe to use from several
    threads. Needs bm25s. Raises ValueError for a language that bm25s does not know.
    """

    def __init__(
        self,
        *,
        limit: int = 4,
        words: str | Words = "english",
        stem: Stem | None = None,
        where: Where | None = None,
    ) -> None:
        self._limit = limit
        self._split: Words = _words_in(words) if isinstance(words, str) else words
        self._stem = stem
        self._where = where
        self._kept = _Kept()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept.contents)

    def add(self, contents: Sequence[Content]) -> None:
        """Keep contents; one that has the id of one that is kept takes its place.

        The next query waits until all that are kept are indexed anew.
        """
        new = {content.key: content for content in contents}
        words = {key: self._words(content.text) for key, content in new.items()}
        with self._lock:
            self._kept = _Kept({**self._kept.contents, **new}, {**self._kept.words, **words})

    def remove(self, ids: Sequence[str]) -> None:
        """Forget the contents with these ids; those that are not kept are passed over."""
        gone = set(ids)
        with self._lock:
            left = {key: content for key, content in self._kept.contents.items() if key not in gone}
            self._kept = _Kept(left, {key: self._kept.words[key] for key in left})

    def retrieve(self, query: Query, /) -> list[Content]:
        """The contents with words of the query, the best first; none where no content has one."""
        where = self._where(query) if callable(self._where) else self._where
        ranked = self._kept.ranked(self._words(query.text))
        return list(islice((one for one in ranked if fits(one, where or {})), self._limit))

    def _words(self, text: str) -> list[str]:
        words = list(self._split(text))
        return words if self._stem is None else list(self._stem(words))


def _words_in(language: str) -> Words:
    """Gives the words of a text in lower case, without the stop words of a language."""
    bm25s = needed("bm25s", "retrieval")

    def words(text: str) -> Sequence[str]:
        [found] = bm25s.tokenize(
            [unicodedata.normalize("NFKC", text)],
            token_pattern=r"\w+",  # that of bm25s leaves out words of one sign, such as 5
            stopwords=language,
            return_ids=False,
            show_progress=False,
        )
        return list(found)

    try:
        words("")
    except ValueError as error:
        said = f"bm25s knows no stop words for the language {language!r}; give a function that splits a text"
        raise ValueError(
            f"KeywordRetriever: {said} into words, or one of its languages, as english"
        ) from error
    return words
