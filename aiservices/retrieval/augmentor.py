"""Has a model answer with the help of what is found for the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python

from ..errors import DefinitionError, Fault
from ..flow import All, Do, Emit, Flow
from ..messages import UserMessage
from ..pipeline import Answer, Proceed
from ..plan import Turn
from ..tool_parameters import is_async, name_of
from .content import Content, Query, Retriever, checked, last_said
from .doing import doing, flowing
from .fusing import Fusion, ReciprocalRankFusion
from .injecting import Injection, Injector
from .routing import QueryRouter, RouteToAll
from .transforming import QueryTransformer, unchanged

__all__ = ["RetrievalAugmentor", "Retrieved"]

_KEPT = "retrieval.sources"
_FUSION = ReciprocalRankFusion()
_INJECTION = Injection()


class Retrieved(NamedTuple):
    """What was found for a call, before its model is asked: an event of its stream."""

    contents: tuple[Content, ...]


@dataclass(frozen=True, slots=True, init=False)
class RetrievalAugmentor:
    """Finds contents for the last user message and puts them into it: an interceptor.

    The message becomes queries (``transform``), each goes to retrievers (``route``; by default to all that
    were given), what they find becomes one list (``fuse``), and that is put into the message (``inject``).
    Where nothing is found the message stays as it is. The contents are the ``sources`` of the Result.
    Retrievers run side by side, ``at_once`` of them at one time. An interceptor outside of this one, such as
    a memory, sees the message without the contents. A call that goes on after an approval has them already.
    Raises DefinitionError where it has no retriever and no route, or both, or a retriever that is none.
    """

    transform: QueryTransformer
    route: QueryRouter
    fuse: Fusion
    inject: Injector
    at_once: int | None
    awaits: tuple[str, ...]

    stands_as = "retrieval"

    def __init__(
        self,
        *retrievers: Retriever,
        transform: QueryTransformer = unchanged,
        route: QueryRouter | None = None,
        fuse: Fusion = _FUSION,
        inject: Injector = _INJECTION,
        at_once: int | None = None,
    ) -> None:
        if bool(retrievers) == (route is not None):
            said = "it takes retrievers, or a route that knows its own: one of them"
            raise DefinitionError([Fault("RetrievalAugmentor", said)])
        faults = [
            Fault("RetrievalAugmentor", f"{name_of(one)} is no retriever: it has no method retrieve")
            for one in retrievers
            if not callable(getattr(one, "retrieve", None))
        ]
        if faults:
            raise DefinitionError(faults)
        parts: dict[str, Any] = {"transform": transform, "route": route or RouteToAll(retrievers)}
        awaits = tuple(
            f"{type(one).__name__}.retrieve" for one in retrievers if is_async(getattr(one, "retrieve", None))
        )
        parts |= {"fuse": fuse, "inject": inject, "at_once": at_once, "awaits": awaits}
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def __call__(self, turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
        kept = turn.context.kept
        query = None if turn.goes_on else Query.of(turn)
        if query is None:  # what was found before the call waited is in its request
            contents = tuple(Content(**found) for found in kept.get(_KEPT, ()))
        else:
            contents = tuple((yield from self.retrieved(query)))
            kept[_KEPT] = [to_jsonable_python(asdict(content), fallback=str) for content in contents]
            yield Emit(Retrieved(contents))
        augmented = self._augmented(turn, contents) if contents and query is not None else turn
        answer = yield from proceed(augmented)
        return replace(answer, sources=(*answer.sources, *contents)) if contents else answer

    def retrieved(self, query: Query) -> Flow[Sequence[Content]]:
        """What is found for a query, the best first."""
        queries = yield from flowing(self.transform, query)
        needs: list[Do] = []
        names: list[str] = []
        for one in queries:
            for retriever in (yield from flowing(self.route, one)):
                names.append(f"{type(retriever).__name__}.retrieve")
                needs.append(doing(retriever.retrieve, one))
        found: Sequence[Any] = (yield All(tuple(needs), self.at_once)) if needs else ()
        rankings = [checked(contents, name) for contents, name in zip(found, names, strict=True)]
        return checked((yield from flowing(self.fuse, query, rankings)), name_of(self.fuse))

    def _augmented(self, turn: Turn, contents: Sequence[Content]) -> Turn:
        messages = list(turn.request.messages)
        at = last_said(messages)
        assert at is not None, "there is a user message that was looked for"
        said = messages[at]
        assert isinstance(said, UserMessage), "that is what was looked for"
        messages[at] = replace(said, text=self.inject(said.text, contents))
        return replace(turn, request=replace(turn.request, messages=tuple(messages)))
