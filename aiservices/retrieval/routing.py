"""Says which retrievers a query goes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from ..declare import user_message
from ..errors import DefinitionError, Fault
from ..flow import Flow
from ..models.base import ChatModel
from .aside import Question
from .content import Query, Retriever

__all__ = ["QueryRouter", "RouteBy", "RouteByModel", "RouteToAll", "Source"]

T = TypeVar("T")


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
class Source:
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

    def __init__(self, model: ChatModel | str | None, sources: Sequence[Source]) -> None:
        names = tuple(source.name for source in sources)
        if not names or len(set(names)) < len(names):
            given = ", ".join(names) or "none"
            said = f"its sources are {given}; it takes one at least, and each has a name of its own"
            raise DefinitionError([Fault("RouteByModel", said)])
        form: Any = Literal[names]
        interface: Any = _Choosing
        self._question = Question(interface[form], "chosen", model)
        self._sources = {source.name: source.retriever for source in sources}
        self._described = "\n".join(f"- {source.name}: {source.description}" for source in sources)

    def __call__(self, query: Query, /) -> Flow[Sequence[Retriever]]:
        given = {"sources": self._described, "query": query.text}
        names: list[str] = yield from self._question.ask(query.turn, given)
        return [self._sources[name] for name in dict.fromkeys(names)]
