"""Keyword retrieval with BM25: finds contents that share words with a query, rare words count most."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import Any, TypeAlias

from ..models.errors import DefinitionError, DefinitionProblem
from .content import Content, Query, import_extra
from .vectors import MetadataFilter, matches_filter

Tokenizer: TypeAlias = Callable[[str], Sequence[str]]
Stemmer: TypeAlias = Callable[[list[str]], Sequence[str]]


class KeywordRetriever:
    """Finds the contents that share words with a query, scored by BM25. Needs bm25s.

    Used together with an EmbeddingRetriever it finds names, numbers and terms that mean nothing to an
    embedding model. Add the same contents with the same ids to both, then the fusion merges their results.

    Scores are greater than 0 and comparable only between results of the same query. The contents are held in
    this process. The retriever may be used from several threads.

    Args:
        max_results: The largest number of contents for a query.
        words: The language of the texts, such as "english", whose stop words are ignored; or a function that
            returns the words of a text. Languages without spaces between words need a function.
        stem: A function that reduces words to their stems, such as ``Stemmer.Stemmer("english").stemWords``
            of PyStemmer. It is called from several threads.
        filter: The values that the metadata of results must have, or a function that returns them for a
            query.

    Raises:
        DefinitionError: if bm25s has no stop words for the language.
    """

    def __init__(
        self,
        *,
        max_results: int = 4,
        words: str | Tokenizer = "english",
        stem: Stemmer | None = None,
        filter: MetadataFilter | None = None,
    ) -> None:
        self._max_results = max_results
        self._tokenize: Tokenizer = _tokenizer_for(words) if isinstance(words, str) else words
        self._stem = stem
        self._filter = filter
        # Replaced as a whole by each change, so searches need no lock.
        self._documents = _Documents()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._documents.contents)

    def add(self, contents: Sequence[Content]) -> None:
        """Add contents; a content with the same id is replaced. The next query rebuilds the whole index."""
        new = {content.key: content for content in contents}
        words = {key: self._words(content.text) for key, content in new.items()}
        with self._lock:
            old = self._documents
            self._documents = _Documents({**old.contents, **new}, {**old.words, **words})

    def remove(self, ids: Sequence[str]) -> None:
        """Remove the contents with these ids. Unknown ids are ignored."""
        removed = set(ids)
        with self._lock:
            old = self._documents
            contents = {key: content for key, content in old.contents.items() if key not in removed}
            self._documents = _Documents(contents, {key: old.words[key] for key in contents})

    def retrieve(self, query: Query, /) -> list[Content]:
        """Return the contents that share words with the query, best first, each with its BM25 score."""
        metadata = self._filter(query) if callable(self._filter) else self._filter
        # filtered lazily after the ranking: the scores of BM25 depend on all contents
        ranking = self._documents.rank(self._words(query.text))
        results = (content for content in ranking if matches_filter(content, metadata or {}))
        return list(islice(results, self._max_results))

    def _words(self, text: str) -> list[str]:
        words = list(self._tokenize(text))
        return words if self._stem is None else list(self._stem(words))


@dataclass(frozen=True, eq=False)
class _Documents:
    """Contents and their words by key, and the index that is built from the words on first use."""

    contents: Mapping[str, Content] = field(default_factory=dict)
    words: Mapping[str, list[str]] = field(default_factory=dict)

    @cached_property
    def index(self) -> Any:
        """The BM25 index, or None if no content has a word: bm25s cannot index an empty vocabulary."""
        if not any(self.words.values()):
            return None
        index = import_extra("bm25s", "retrieval").BM25()
        index.index(list(self.words.values()), show_progress=False)
        return index

    def rank(self, words: list[str]) -> Iterator[Content]:
        """Yield the contents that contain some of the words, best first, with their scores."""
        if self.index is None or not words:
            return
        scores = self.index.get_scores(words)
        contents = list(self.contents.values())
        for index in (-scores).argsort(kind="stable"):
            if scores[index] <= 0:
                return
            yield replace(contents[index], score=float(scores[index]))


def _tokenizer_for(language: str) -> Tokenizer:
    """Return a function that returns the lower-case words of a text without the stop words of a language."""
    bm25s = import_extra("bm25s", "retrieval")

    def tokenize(text: str) -> Sequence[str]:
        [words] = bm25s.tokenize(
            [unicodedata.normalize("NFKC", text)],
            token_pattern=r"\w+",  # the default pattern of bm25s ignores words of one character, such as "5"
            stopwords=language,
            return_ids=False,
            show_progress=False,
        )
        return list(words)

    try:
        tokenize("")
    except ValueError as error:
        problem = (
            f"bm25s has no stop words for the language {language!r}; pass one of its languages, such as "
            "'english', or a function that returns the words of a text"
        )
        raise DefinitionError([DefinitionProblem("KeywordRetriever", problem)]) from error
    return tokenize
