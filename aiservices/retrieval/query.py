"""Rewrite search queries, choose retrievers for them, and merge the results.

Each step is a generator function, like an interceptor, so it can send requests to a model. Steps that ask a
model do so with ``SideQuestion``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar

from ..engine.effects import Flow
from ..interface.decorators import user_message
from ..models.base import ChatModel
from ..models.errors import DefinitionError, DefinitionProblem, check_settings, is_at_least
from ..models.messages import AiMessage, Message, UserMessage
from ..service.structured import SideQuestion
from .content import Content, Query, Retriever, call_effect

T = TypeVar("T")


# --- Transform: one query becomes one or more ---


class QueryTransformer(Protocol):
    """A function that rewrites a search query as one or more queries, for example by asking a model.

    The function can yield effects, such as a model call.
    """

    def __call__(self, query: Query, /) -> Flow[Sequence[Query]]: ...


def unchanged(query: Query, /) -> Flow[Sequence[Query]]:
    """Return the search query unchanged; used if no other query transformer is configured."""
    yield from ()  # makes the function a generator
    return [query]


class _Compressor(Protocol):
    @user_message(
        "Read the conversation between the user and the AI. Then read the new query from the user. Identify "
        "all relevant details, terms and context from both. Reformulate the query into a clear, concise and "
        "self-contained one that is suitable for information retrieval. Write the query and nothing else.\n\n"
        "Conversation:\n{{conversation}}\n\nUser query: {{query}}"
    )
    def compress(self, conversation: str, query: str) -> str: ...


class CompressingQueryTransformer:
    """Lets a model rewrite a question for searching, so that it is clear without the conversation.

    At the start of a conversation the query stays unchanged and the model is not called.
    """

    def __init__(self, model: ChatModel | str | None = None) -> None:
        self._question = SideQuestion(_Compressor, "compress", model)

    def __call__(self, query: Query, /) -> Flow[Sequence[Query]]:
        lines = [line for line in map(_conversation_line, query.history) if line]
        if not lines:
            return [query]
        arguments = {"conversation": "\n".join(lines), "query": query.text}
        text: str = yield from self._question.ask(query.invocation, arguments)
        return [replace(query, text=text.strip())] if text.strip() else [query]


def _conversation_line(message: Message) -> str:
    """Format a message as a line like "User: Hello"; "" for system messages, tool calls and tool results."""
    if isinstance(message, UserMessage):
        return f"User: {message.text}"
    return f"AI: {message.text}" if isinstance(message, AiMessage) and message.text else ""


class _Expander(Protocol):
    @user_message(
        "Write {{count}} different versions of the user query below. Each version is worded differently, "
        "with synonyms or another structure, and all keep the original meaning. They are used to find "
        "relevant documents.\n\nUser query: {{query}}"
    )
    def expand(self, query: str, count: int) -> list[str]: ...


class ExpandingQueryTransformer:
    """Lets a model add ``n`` alternative wordings of a search query."""

    def __init__(self, model: ChatModel | str | None = None, n: int = 3) -> None:
        is_count = isinstance(n, int) and is_at_least(n, 1)
        check_settings("ExpandingQueryTransformer", ("n", n, is_count, "it must be a whole number above 0"))
        self._question = SideQuestion(_Expander, "expand", model)
        self._n = n

    def __call__(self, query: Query, /) -> Flow[Sequence[Query]]:
        arguments = {"query": query.text, "count": self._n}
        texts: list[str] = yield from self._question.ask(query.invocation, arguments)
        versions = dict.fromkeys(text.strip() for text in texts[: self._n])
        return [query, *(replace(query, text=text) for text in versions if text and text != query.text)]


# --- Route: choose the retrievers for a query ---


class QueryRouter(Protocol):
    """A generator function that chooses the retrievers for a search query, possibly by asking a model.

    It can yield effects, such as a model call. If it chooses no retriever, nothing is retrieved for the
    query.
    """

    def __call__(self, query: Query, /) -> Flow[Sequence[Retriever]]: ...


@dataclass(frozen=True, slots=True)
class RouteToAll:
    """Sends every search query to all retrievers.

    Attributes:
        retrievers: The retrievers.
    """

    retrievers: tuple[Retriever, ...]

    def __call__(self, query: Query, /) -> Flow[Sequence[Retriever]]:
        yield from ()
        return self.retrievers


@dataclass(frozen=True, slots=True)
class RouteBy:
    """Calls a user's function to choose the retrievers for a search query.

    Attributes:
        function: Returns the retrievers for a query; must not be async.
    """

    function: Callable[[Query], Sequence[Retriever]]

    def __call__(self, query: Query, /) -> Flow[Sequence[Retriever]]:
        yield from ()
        return self.function(query)


@dataclass(frozen=True, slots=True)
class Route:
    """A retriever with a name and a description, by which a model can choose it for a query.

    Attributes:
        name: The name of the source of information, such as "orders".
        description: What can be found there. The model chooses by it.
        retriever: The retriever.
    """

    name: str
    description: str
    retriever: Retriever


class _Chooser(Protocol[T]):
    @user_message(
        "Choose the sources that are most suitable to find what the user query asks for. Choose none when "
        "no source is.\n\nSources:\n{{sources}}\n\nUser query: {{query}}"
    )
    def choose(self, sources: str, query: str) -> list[T]: ...


class RouteByModel:
    """Lets a model choose which retrievers to search, based on their descriptions.

    Raises DefinitionError if there are no routes or if two routes have the same name.
    """

    def __init__(self, model: ChatModel | str | None, routes: Sequence[Route]) -> None:
        names = tuple(route.name for route in routes)
        if not names or len(set(names)) < len(names):
            problem = f"its routes are {', '.join(names) or 'empty'}; pass at least one, with different names"
            raise DefinitionError([DefinitionProblem("RouteByModel", problem)])
        # the names become the type of the answer, so the model can only choose existing routes
        name_type: Any = Literal[names]
        interface: Any = _Chooser
        self._question = SideQuestion(interface[name_type], "choose", model)
        self._retrievers = {route.name: route.retriever for route in routes}
        self._descriptions = "\n".join(f"- {route.name}: {route.description}" for route in routes)

    def __call__(self, query: Query, /) -> Flow[Sequence[Retriever]]:
        arguments = {"sources": self._descriptions, "query": query.text}
        names: list[str] = yield from self._question.ask(query.invocation, arguments)
        return [self._retrievers[name] for name in dict.fromkeys(names)]


# --- Fuse: several rankings become one ---

Rankings = Sequence[Sequence[Content]]


class Fusion(Protocol):
    """A generator function that merges ranked lists of retrieved passages, possibly by asking a model.

    ``query`` is the original query, before its transformation. There is one ranking for each transformed
    query and retriever. The function can yield effects, such as a model call.
    """

    def __call__(self, query: Query, rankings: Rankings, /) -> Flow[Sequence[Content]]: ...


@dataclass(frozen=True, slots=True)
class ReciprocalRankFusion:
    """Merges ranked search results; a passage's score is the sum of 1 / (k + rank) over all lists.

    A single ranking stays unchanged, including its scores.

    Attributes:
        k: A larger value reduces the advantage of the first ranks.
        max_results: The largest number of contents. None keeps all.
    """

    k: int = 60
    max_results: int | None = None

    def __post_init__(self) -> None:
        has_results = self.max_results is None or is_at_least(self.max_results, 1)
        check_settings(
            "ReciprocalRankFusion",
            ("k", self.k, is_at_least(self.k, 0), "it must be at least 0"),
            ("max_results", self.max_results, has_results, "it must be at least 1, or None"),
        )

    def __call__(self, query: Query, rankings: Rankings, /) -> Flow[Sequence[Content]]:
        yield from ()
        return self.fuse(rankings)[: self.max_results]

    def fuse(self, rankings: Rankings) -> list[Content]:
        """Merge ranked lists of passages into one list without duplicates, best first."""
        non_empty = [ranking for ranking in rankings if ranking]
        if len(non_empty) < 2:
            return _distinct(non_empty)
        scores: dict[str, float] = {}
        for ranking in non_empty:
            for rank, content in enumerate(_distinct([ranking]), 1):
                scores[content.key] = scores.get(content.key, 0.0) + 1 / (self.k + rank)
        scored = [replace(content, score=scores[content.key]) for content in _distinct(non_empty)]
        return sorted(scored, key=lambda content: -(content.score or 0.0))


class ReRanker(Protocol):
    """The interface of reranking models, which score how well retrieved passages answer a query.

    ``scores`` may be async if the service methods are async.
    """

    def scores(
        self, query: Query, contents: Sequence[Content], /
    ) -> Sequence[float] | Awaitable[Sequence[float]]: ...


@dataclass(frozen=True, slots=True)
class ReRank:
    """Merges the passages from several retrievers, ranked by the scores of a reranking model.

    Attributes:
        ranker: Scores the contents.
        max_results: The maximum number of contents. None keeps all.
        min_score: Contents with a smaller score are dropped. None keeps all.
    """

    ranker: ReRanker
    max_results: int | None = None
    min_score: float | None = None

    def __call__(self, query: Query, rankings: Rankings, /) -> Flow[Sequence[Content]]:
        contents = _distinct(rankings)
        if not contents:
            return []
        scores: Sequence[float] = yield call_effect(self.ranker.scores, query, contents)
        if len(scores) != len(contents):
            problem = f"it returned {len(scores)} scores for {len(contents)} contents; return one for each"
            raise DefinitionError([DefinitionProblem(type(self.ranker).__name__, problem)])
        scored = [
            replace(content, score=float(score)) for content, score in zip(contents, scores, strict=True)
        ]
        best_first = sorted(scored, key=lambda content: -(content.score or 0.0))
        minimum = float("-inf") if self.min_score is None else self.min_score
        good = [content for content in best_first if content.score is not None and content.score >= minimum]
        return good[: self.max_results]


def _distinct(rankings: Rankings) -> list[Content]:
    """Return the passages of several ranked lists without duplicates, in order of first occurrence."""
    contents: dict[str, Content] = {}
    for ranking in rankings:
        for content in ranking:
            contents.setdefault(content.key, content)
    return list(contents.values())
