"""Makes of what a user said the queries that are looked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar

from ..engine.budget import Budget
from ..engine.effects import Effect, Emit, Flow, asked_as_a_whole, through
from ..engine.pipeline import Pipeline
from ..engine.plan import Invocation, MethodPlan
from ..engine.retry import Retry
from ..interface.decorators import user_message
from ..models.base import ChatModel
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import AiMessage, Message, UserMessage
from ..service.create import create, plan_of
from .content import Content, Query, Retriever, doing

T = TypeVar("T")
_PIPELINE = Pipeline([Retry()])


class Question:
    """One method of an interface, to be asked from inside of another call.

    Its requests are in the account of that call and count against its seconds, tokens and money, but not as
    attempts at the answer; streams show nothing of them. Raises DefinitionError, as ``create`` does.
    """

    def __init__(self, interface: Any, method: str, model: ChatModel | str | None) -> None:
        self._plan: MethodPlan = plan_of(getattr(create(interface, model), method))

    def ask(self, invocation: Invocation | None, arguments: Mapping[str, Any]) -> Flow[Any]:
        """The value that the model answers with. Without a turn, the account is one of its own."""
        begun = self._plan.invocation((), arguments, Budget())
        if invocation is not None:
            begun = replace(begun, state=invocation.state)
        context, before = begun.state, len(begun.state.attempts)
        try:
            answer = yield from aside(_PIPELINE.flow(begun))
        finally:
            context.aside += len(context.attempts) - before
        return answer.value


def aside(flow: Flow[T]) -> Flow[T]:
    """The same flow, of which a stream shows nothing: listeners alone are told of its events."""
    return through(flow, _quietly)


def _quietly(need: Effect) -> Flow[Any]:
    if isinstance(need, Emit):
        need = need._replace(shown=False)
    return (yield from asked_as_a_whole(need))


class QueryTransformer(Protocol):
    """Makes one or more queries of one, as a flow: what it needs done it yields."""

    def __call__(self, query: Query, /) -> Flow[Sequence[Query]]: ...


def unchanged(query: Query, /) -> Flow[Sequence[Query]]:
    """The query as it is."""
    yield from ()
    return [query]


class _Compressing(Protocol):
    @user_message(
        "Read the conversation between the user and the AI. Then read the new query from the user. Identify "
        "all relevant details, terms and context from both. Reformulate the query into a clear, concise and "
        "self-contained one that is suitable for information retrieval. Write the query and nothing else.\n\n"
        "Conversation:\n{{conversation}}\n\nUser query: {{query}}"
    )
    def compressed(self, conversation: str, query: str) -> str: ...


class CompressingQueryTransformer:
    """Has a model put what was said before and the question into one query that can be understood alone.

    Where nothing was said before, the query stays as it is and no model is asked.
    """

    def __init__(self, model: ChatModel | str | None = None) -> None:
        self._question = Question(_Compressing, "compressed", model)

    def __call__(self, query: Query, /) -> Flow[Sequence[Query]]:
        said = [line for line in map(_line, query.history) if line]
        if not said:
            return [query]
        given = {"conversation": "\n".join(said), "query": query.text}
        text: str = yield from self._question.ask(query.invocation, given)
        return [replace(query, text=text.strip())] if text.strip() else [query]


class _Expanding(Protocol):
    @user_message(
        "Write {{count}} different versions of the user query below. Each version is worded differently, "
        "with synonyms or another structure, and all keep the original meaning. They are used to find "
        "relevant documents.\n\nUser query: {{query}}"
    )
    def expanded(self, query: str, count: int) -> list[str]: ...


class ExpandingQueryTransformer:
    """Has a model word the query in ``n`` other ways, which are looked for besides it."""

    def __init__(self, model: ChatModel | str | None = None, n: int = 3) -> None:
        self._question = Question(_Expanding, "expanded", model)
        self._n = n

    def __call__(self, query: Query, /) -> Flow[Sequence[Query]]:
        given = {"query": query.text, "count": self._n}
        texts: list[str] = yield from self._question.ask(query.invocation, given)
        others = dict.fromkeys(text.strip() for text in texts[: self._n])
        return [query, *(replace(query, text=text) for text in others if text and text != query.text)]


def _line(message: Message) -> str:
    """A message as a line of the conversation; "" for what neither side said."""
    if isinstance(message, UserMessage):
        return f"User: {message.text}"
    return f"AI: {message.text}" if isinstance(message, AiMessage) and message.text else ""


class QueryRouter(Protocol):
    """Chooses the retrievers for a query, as a flow. None of them: nothing is retrieved for it."""

    def __call__(self, query: Query, /) -> Flow[Sequence[Retriever]]: ...


@dataclass(frozen=True, slots=True)
class RouteToAll:
    """Every query goes to each of the retrievers."""

    retrievers: tuple[Retriever, ...]

    def __call__(self, query: Query, /) -> Flow[Sequence[Retriever]]:
        yield from ()
        return self.retrievers


@dataclass(frozen=True, slots=True)
class RouteBy:
    """A function says where a query goes."""

    function: Callable[[Query], Sequence[Retriever]]

    def __call__(self, query: Query, /) -> Flow[Sequence[Retriever]]:
        yield from ()
        return self.function(query)


@dataclass(frozen=True, slots=True)
class Route:
    """A retriever, with the name and the description by which a model chooses it."""

    name: str
    description: str
    retriever: Retriever


class _Choosing(Protocol[T]):
    @user_message(
        "Choose the sources that are most suitable to find what the user query asks for. Choose none when "
        "no source is.\n\nSources:\n{{sources}}\n\nUser query: {{query}}"
    )
    def chosen(self, sources: str, query: str) -> list[T]: ...


class RouteByModel:
    """A model chooses among sources by their descriptions. Raises DefinitionError when there are none."""

    def __init__(self, model: ChatModel | str | None, sources: Sequence[Route]) -> None:
        names = tuple(source.name for source in sources)
        if not names or len(set(names)) < len(names):
            given = ", ".join(names) or "none"
            said = f"its sources are {given}; it takes one at least, and each has a name of its own"
            raise DefinitionError([DefinitionProblem("RouteByModel", said)])
        form: Any = Literal[names]
        interface: Any = _Choosing
        self._question = Question(interface[form], "chosen", model)
        self._sources = {source.name: source.retriever for source in sources}
        self._described = "\n".join(f"- {source.name}: {source.description}" for source in sources)

    def __call__(self, query: Query, /) -> Flow[Sequence[Retriever]]:
        given = {"sources": self._described, "query": query.text}
        names: list[str] = yield from self._question.ask(query.invocation, given)
        return [self._sources[name] for name in dict.fromkeys(names)]


Rankings = Sequence[Sequence[Content]]


class Fusion(Protocol):
    """Makes one list, the best first, as a flow. ``query`` is the one that the user asked."""

    def __call__(self, query: Query, rankings: Rankings, /) -> Flow[Sequence[Content]]: ...


@dataclass(frozen=True, slots=True)
class ReciprocalRankFusion:
    """Ranks a content by the sum of 1 / (k + its rank) over all lists that it is in.

    One list alone stays as it is, with its scores. ``limit`` is how many contents are kept.
    """

    k: int = 60
    limit: int | None = None

    def __call__(self, query: Query, rankings: Rankings, /) -> Flow[Sequence[Content]]:
        yield from ()
        return self.fused(rankings)[: self.limit]

    def fused(self, rankings: Rankings) -> list[Content]:
        """All contents, each once."""
        filled = [ranking for ranking in rankings if ranking]
        if len(filled) < 2:
            return _distinct(filled)
        scores: dict[str, float] = {}
        for ranking in filled:
            for rank, content in enumerate(_distinct([ranking]), 1):
                scores[content.key] = scores.get(content.key, 0.0) + 1 / (self.k + rank)
        found = [replace(content, score=scores[content.key]) for content in _distinct(filled)]
        return sorted(found, key=lambda content: -(content.score or 0.0))


class ReRanker(Protocol):
    """Says how well each of the contents answers the query, the higher the better. It may be async."""

    def scores(
        self, query: Query, contents: Sequence[Content], /
    ) -> Sequence[float] | Awaitable[Sequence[float]]: ...


@dataclass(frozen=True, slots=True)
class ReRank:
    """Ranks the contents by the scores of a re-ranker; those below ``at_least`` are left out."""

    ranker: ReRanker
    limit: int | None = None
    at_least: float | None = None

    def __call__(self, query: Query, rankings: Rankings, /) -> Flow[Sequence[Content]]:
        contents = _distinct(rankings)
        if not contents:
            return []
        scores: Sequence[float] = yield doing(self.ranker.scores, query, contents)
        if len(scores) != len(contents):
            said = f"it gave {len(scores)} scores for {len(contents)} contents; it must give one for each"
            raise DefinitionError([DefinitionProblem(type(self.ranker).__name__, said)])
        scored = [replace(one, score=float(score)) for one, score in zip(contents, scores, strict=True)]
        best = sorted(scored, key=lambda content: -(content.score or 0.0))
        least = float("-inf") if self.at_least is None else self.at_least
        return [one for one in best if one.score is not None and one.score >= least][: self.limit]


def _distinct(rankings: Rankings) -> list[Content]:
    """Each content once, where it was found first."""
    found: dict[str, Content] = {}
    for ranking in rankings:
        for content in ranking:
            found.setdefault(content.key, content)
    return list(found.values())
