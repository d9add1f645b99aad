"""Has a model answer with the help of what is found for the question."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Protocol

from pydantic_core import to_jsonable_python

from output_parsers.types.target import Description

from ..engine.effects import Emit, Flow, Gather, Run
from ..engine.pipeline import Answer, Proceed
from ..engine.plan import Invocation
from ..engine.tool_execution import ToolRun
from ..interface.decorators import TemplateSource
from ..interface.parameters import is_async, name_of
from ..interface.templates import Prompt, TemplateFault, compile_prompt
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import UserMessage
from ..tools.tool import Tool, tool, tools_of
from .content import Content, Query, Retriever, checked, doing, flowing, last_said
from .query import Fusion, QueryRouter, QueryTransformer, ReciprocalRankFusion, RouteToAll, unchanged

_TEMPLATE = "{{user_message}}\n\nAnswer using the following information:\n{{information}}"
_KNOWN = frozenset({"user_message", "information", "contents"})


class Injector(Protocol):
    """Gives the text of the user message with the contents in it; there is at least one."""

    def __call__(self, user_message: str, contents: Sequence[Content], /) -> str: ...


@dataclass(frozen=True, slots=True)
class Injection:
    """Renders a template of ``user_message``, ``information`` (the contents, listed) and ``contents``.

    The list has each content below its id and its ``metadata`` of these names. What is rendered into the
    template is never read as one. Raises DefinitionError when the template has a fault.
    """

    template: str = _TEMPLATE
    metadata: tuple[str, ...] = ()
    _prompt: Prompt = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            prompt = compile_prompt(TemplateSource(self.template))
        except TemplateFault as error:
            raise DefinitionError([DefinitionProblem("Injection", str(error))]) from error
        unknown = sorted(prompt.variables - _KNOWN)
        if unknown:
            said = f"its template names {{{{{unknown[0]}}}}}, but knows: {', '.join(sorted(_KNOWN))}"
            raise DefinitionError([DefinitionProblem("Injection", said)])
        object.__setattr__(self, "_prompt", prompt)

    def __call__(self, user_message: str, contents: Sequence[Content], /) -> str:
        given = {
            "user_message": user_message,
            "information": listed(contents, self.metadata),
            "contents": list(contents),
        }
        return self._prompt.render(given, "Injection")


def listed(contents: Sequence[Content], metadata: Sequence[str] = ()) -> str:
    """Contents as a model reads them: each below its id, with an empty line between."""
    return "\n\n".join(_listed(content, metadata) for content in contents)


def _listed(content: Content, metadata: Sequence[str]) -> str:
    known = [f"{name}: {content.metadata[name]}" for name in metadata if name in content.metadata]
    head = "; ".join([content.id, *known] if content.id else known)
    return f"[{head}]\n{content.text}" if head else content.text


_KEPT = "retrieval.sources"
_FUSION = ReciprocalRankFusion()
_INJECTION = Injection()


class ContentsRetrieved(NamedTuple):
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

    position_name = "retrieval"

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
            raise DefinitionError([DefinitionProblem("RetrievalAugmentor", said)])
        problems = [
            DefinitionProblem(
                "RetrievalAugmentor", f"{name_of(one)} is no retriever: it has no method retrieve"
            )
            for one in retrievers
            if not callable(getattr(one, "retrieve", None))
        ]
        if problems:
            raise DefinitionError(problems)
        parts: dict[str, Any] = {"transform": transform, "route": route or RouteToAll(retrievers)}
        awaits = tuple(
            f"{type(one).__name__}.retrieve" for one in retrievers if is_async(getattr(one, "retrieve", None))
        )
        parts |= {"fuse": fuse, "inject": inject, "at_once": at_once, "awaits": awaits}
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        kept = invocation.state.kept
        query = None if invocation.is_resumed else Query.of(invocation)
        if query is None:  # what was found before the call waited is in its request
            contents = tuple(Content(**found) for found in kept.get(_KEPT, ()))
        else:
            contents = tuple((yield from self.retrieved(query)))
            kept[_KEPT] = [to_jsonable_python(asdict(content), fallback=str) for content in contents]
            yield Emit(ContentsRetrieved(contents))
        augmented = self._augmented(invocation, contents) if contents and query is not None else invocation
        answer = yield from proceed(augmented)
        return replace(answer, sources=(*answer.sources, *contents)) if contents else answer

    def retrieved(self, query: Query) -> Flow[Sequence[Content]]:
        """What is found for a query, the best first."""
        queries = yield from flowing(self.transform, query)
        needs: list[Run] = []
        names: list[str] = []
        for one in queries:
            for retriever in (yield from flowing(self.route, one)):
                names.append(f"{type(retriever).__name__}.retrieve")
                needs.append(doing(retriever.retrieve, one))
        found: Sequence[Any] = (yield Gather(tuple(needs), self.at_once)) if needs else ()
        rankings = [checked(contents, name) for contents, name in zip(found, names, strict=True)]
        return checked((yield from flowing(self.fuse, query, rankings)), name_of(self.fuse))

    def _augmented(self, invocation: Invocation, contents: Sequence[Content]) -> Invocation:
        messages = list(invocation.request.messages)
        at = last_said(messages)
        assert at is not None, "there is a user message that was looked for"
        said = messages[at]
        assert isinstance(said, UserMessage), "that is what was looked for"
        messages[at] = replace(said, text=self.inject(said.text, contents))
        return replace(invocation, request=replace(invocation.request, messages=tuple(messages)))


_NOTHING = "Nothing was found."
_Looked = Annotated[str, Description("what to look for, as a question or in keywords")]


class Excerpts(str):
    """What a retriever's tool found, as the model reads it: each text below its id. ``contents`` has all."""

    contents: tuple[Content, ...]

    def __new__(cls, contents: Sequence[Content]) -> Excerpts:
        made = super().__new__(cls, listed(contents) or _NOTHING)
        made.contents = tuple(contents)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Excerpts, (self.contents,)


def retriever_tool(
    retriever: Retriever,
    name: str = "search",
    description: str = "Finds passages of text. Each stands below its id in brackets; cite it by that id.",
) -> Tool:
    """A tool that looks for what the model asks; its result is ``Excerpts``.

    Only async methods can call that of a retriever which is async.
    """

    giver = f"{type(retriever).__name__}.retrieve"

    def search(query: _Looked) -> Excerpts:
        return Excerpts(checked(retriever.retrieve(Query(query)), giver))

    async def asearch(query: _Looked) -> Excerpts:
        found: Any = retriever.retrieve(Query(query))
        return Excerpts(checked(await found, giver))

    asynchronous = inspect.iscoroutinefunction(retriever.retrieve)
    [made] = tools_of(tool(name=name, description=description)(asearch if asynchronous else search))
    return made


def contents_by_id(runs: Iterable[ToolRun]) -> dict[str, Content]:
    """All that the tools of a call found, by id: what an answer can cite."""
    found = (run.result.contents for run in runs if isinstance(run.result, Excerpts))
    return {content.key: content for contents in found for content in contents}
