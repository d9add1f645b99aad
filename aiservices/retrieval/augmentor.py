"""Add retrieved text to the user message (RAG), or let the model find text with a search tool."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import cache
from typing import Annotated, Any, Protocol, cast

from pydantic_core import to_jsonable_python

from output_parsers.types.target import Description

from ..engine.effects import Emit, Flow, Gather, Run
from ..engine.pipeline import Proceed
from ..engine.plan import Invocation
from ..engine.results import Answer
from ..interface.decorators import TemplateSource
from ..interface.parameters import call_problem, function_name, is_async
from ..interface.templates import Prompt, TemplateError, compile_prompt
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import UserMessage
from ..tools.tool import Tool, ToolRun, tool, tools_of
from .content import Content, Query, Retriever, call_effect, call_flow, check_contents, last_user_position
from .query import Fusion, QueryRouter, QueryTransformer, ReciprocalRankFusion, RouteBy, RouteToAll, unchanged

_TEMPLATE = "{{user_message}}\n\nAnswer using the following information:\n{{information}}"
_VARIABLES = frozenset({"user_message", "information", "contents"})


class Injector(Protocol):
    """A function that adds retrieved text to a user message, and returns the new message text."""

    def __call__(self, user_message: str, contents: Sequence[Content], /) -> str: ...


@dataclass(frozen=True, slots=True)
class Injection:
    """Adds retrieved text to a user message with a prompt template.

    Inserted text is never interpreted as a template. Raises DefinitionError if the template is invalid.

    Attributes:
        template: A Jinja template with the variables ``user_message``, ``information`` (the texts of the
            contents, each below its id) and ``contents`` (the list of Content objects).
        metadata: The names of metadata that ``information`` shows beside the id of a content.
    """

    template: str = _TEMPLATE
    metadata: tuple[str, ...] = ()
    _prompt: Prompt | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if self.template == _TEMPLATE:  # importing this module must not import jinja2
            return
        try:
            prompt = compile_prompt(TemplateSource(self.template))
        except TemplateError as error:
            raise DefinitionError([DefinitionProblem("Injection", str(error))]) from error
        unknown = sorted(prompt.variables - _VARIABLES)
        if unknown:
            problem = (
                f"the template uses {{{{{unknown[0]}}}}}; its variables are: {', '.join(sorted(_VARIABLES))}"
            )
            raise DefinitionError([DefinitionProblem("Injection", problem)])
        object.__setattr__(self, "_prompt", prompt)

    def __call__(self, user_message: str, contents: Sequence[Content], /) -> str:
        variables = {
            "user_message": user_message,
            "information": format_contents(contents, self.metadata),
            "contents": list(contents),
        }
        prompt = self._prompt or _default_prompt()
        return prompt.render(variables, "Injection")


@cache
def _default_prompt() -> Prompt:
    return compile_prompt(TemplateSource(_TEMPLATE))


def format_contents(contents: Sequence[Content], metadata: Sequence[str] = ()) -> str:
    """Join retrieved passages into one string for a model, each with its id in brackets before it."""
    return "\n\n".join(_format_content(content, metadata) for content in contents)


def _format_content(content: Content, metadata: Sequence[str]) -> str:
    fields = [f"{name}: {content.metadata[name]}" for name in metadata if name in content.metadata]
    heading = "; ".join([content.id, *fields] if content.id else fields)
    return f"[{heading}]\n{content.text}" if heading else content.text


_STATE_KEY = "retrieval.sources"  # part of stored states, so it must not change
_DEFAULT_FUSION = ReciprocalRankFusion()
_DEFAULT_INJECTION = Injection()


@dataclass(slots=True)
class ContentsRetrieved:
    """An event for streams and listeners: passages were retrieved for a user message.

    The model call follows.

    Attributes:
        contents: The contents, best first.
        invocation: The call; None in a stream.
        seconds: How long it took.
    """

    contents: tuple[Content, ...]
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True, init=False)
class RetrievalAugmentor:
    """Middleware that retrieves text for the user message and adds it to the message (RAG).

    The last user message becomes the query. If no content is found, the message stays unchanged. The contents
    are the ``sources`` of the Result. Interceptors before this one, such as a ChatMemory, see the message
    without the contents. A call that is resumed after an approval keeps the contents that it retrieved
    before.

    Raises DefinitionError if there is no retriever and no ``route``, if there are both, or if a retriever has
    no method ``retrieve``.

    Attributes:
        transform: Converts the query to one or more queries. By default it stays unchanged.
        route: Chooses the retrievers for each query; it may be a plain function. By default all retrievers
            that were passed.
        fuse: Merges the results into one ranking.
        inject: Adds the contents to the user message.
        max_concurrency: How many retrievers run at the same time. None sets no limit.
        async_parts: The names of the async retrievers, for the checks of ``create``.
    """

    transform: QueryTransformer
    route: QueryRouter
    fuse: Fusion
    inject: Injector
    max_concurrency: int | None
    async_parts: tuple[str, ...]

    position_name = "retrieval"

    def __init__(
        self,
        *retrievers: Retriever,
        transform: QueryTransformer = unchanged,
        route: QueryRouter | Callable[[Query], Sequence[Retriever]] | None = None,
        fuse: Fusion = _DEFAULT_FUSION,
        inject: Injector = _DEFAULT_INJECTION,
        max_concurrency: int | None = None,
    ) -> None:
        if bool(retrievers) == (route is not None):
            problem = "pass either retrievers or a route, which has retrievers of its own"
            raise DefinitionError([DefinitionProblem("RetrievalAugmentor", problem)])
        check_retrievers("RetrievalAugmentor", retrievers)
        functions = {"transform": transform, "route": route, "fuse": fuse, "inject": inject}
        expected = {"fuse": ("query", "rankings"), "inject": ("text", "contents")}
        problems = []
        for name, function in functions.items():
            message = None if function is None else call_problem(function, *expected.get(name, ("query",)))
            if message is not None:
                problems.append(DefinitionProblem("RetrievalAugmentor", f"{name} {message}"))
        if problems:
            raise DefinitionError(problems)
        if route is not None and not _is_generator_function(route):
            route = RouteBy(cast("Callable[[Query], Sequence[Retriever]]", route))
        fields = {
            "transform": transform,
            "route": route or RouteToAll(retrievers),
            "fuse": fuse,
            "inject": inject,
            "max_concurrency": max_concurrency,
            "async_parts": tuple(
                _qualname(retriever)
                for retriever in retrievers
                if is_async(getattr(retriever, "retrieve", None))
            ),
        }
        for name, value in fields.items():  # the dataclass is frozen, so fields cannot be assigned
            object.__setattr__(self, name, value)

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        data = invocation.state.interceptor_data
        query = None if invocation.is_resumed else Query.from_invocation(invocation)
        if query is None:  # the request of a resumed call already has the contents
            contents = invocation.stored_data(_STATE_KEY, _contents_from_json) or ()
        else:
            started_at = time.monotonic()
            contents = tuple((yield from self.retrieve(query)))
            data[_STATE_KEY] = [to_jsonable_python(asdict(content), fallback=str) for content in contents]
            yield Emit(ContentsRetrieved(contents, seconds=time.monotonic() - started_at))
        augmented = self._augment(invocation, contents) if contents and query is not None else invocation
        invocation.state.sources += contents
        answer = yield from proceed(augmented)
        return replace(answer, sources=(*answer.sources, *contents)) if contents else answer

    def retrieve(self, query: Query) -> Flow[Sequence[Content]]:
        """Run a search: transform the query, call the retrievers, and return merged results, best first."""
        queries = yield from call_flow(self.transform, query)
        effects: list[Run] = []
        names: list[str] = []
        for one in queries:
            for retriever in (yield from call_flow(self.route, one)):
                names.append(_qualname(retriever))
                effects.append(call_effect(retriever.retrieve, one))
        results: Sequence[object] = (yield Gather(tuple(effects), self.max_concurrency)) if effects else ()
        rankings = [check_contents(contents, name) for contents, name in zip(results, names, strict=True)]
        return check_contents((yield from call_flow(self.fuse, query, rankings)), function_name(self.fuse))

    def _augment(self, invocation: Invocation, contents: Sequence[Content]) -> Invocation:
        """Return a copy of the service call with retrieved text in its last user message."""
        messages = list(invocation.request.messages)
        position = last_user_position(messages)
        assert position is not None, "the query was made from the last user message"
        message = messages[position]
        assert isinstance(message, UserMessage), "last_user_position only returns positions of user messages"
        messages[position] = replace(message, text=self.inject(message.text, contents))
        return replace(invocation, request=replace(invocation.request, messages=tuple(messages)))


def _is_generator_function(function: object) -> bool:
    called = function if inspect.isroutine(function) else type(function).__call__
    return inspect.isgeneratorfunction(called)


def check_retrievers(owner: str, retrievers: Iterable[object]) -> None:
    """Raise DefinitionError for objects that are not retrievers; the message begins with ``owner``."""
    problems = []
    for one in retrievers:
        if isinstance(one, type):
            message = f"{one.__name__} is a class; pass an object of it"
        elif callable(getattr(one, "retrieve", None)):
            problem = call_problem(getattr(one, "retrieve"), "query")  # noqa: B009  # it is not in the type
            if problem is None:
                continue
            message = f"retrieve of {type(one).__name__} {problem}"
        else:
            message = f"{function_name(one)} is not a retriever; it has no method retrieve"
            if hasattr(one, "invoke"):
                message += "; wrap a LangChain retriever: retrieve returns contents_of(it.invoke(query.text))"
        problems.append(DefinitionProblem(owner, message))
    if problems:
        raise DefinitionError(problems)


def _contents_from_json(data: Any) -> tuple[Content, ...]:
    return tuple(Content(**fields) for fields in data)


def _qualname(retriever: Retriever) -> str:
    return f"{type(retriever).__name__}.retrieve"


_NOTHING_FOUND = "Nothing was found."
_QueryText = Annotated[str, Description("what to look for, as a question or in keywords")]


class Excerpts(str):
    """The result that a search tool returns to the model: retrieved passages, each with its id.

    Attributes:
        contents: The contents, best first.
        metadata: The names of the metadata that the model sees besides the ids.
    """

    contents: tuple[Content, ...]
    metadata: tuple[str, ...]

    def __new__(cls, contents: Sequence[Content], metadata: Sequence[str] = ()) -> Excerpts:
        excerpts = super().__new__(cls, format_contents(contents, metadata) or _NOTHING_FOUND)
        excerpts.contents, excerpts.metadata = tuple(contents), tuple(metadata)
        return excerpts

    def __reduce__(self) -> tuple[Any, ...]:  # pickle would otherwise call __new__ with the text
        return Excerpts, (self.contents, self.metadata)


def retriever_tool(
    retriever: Retriever,
    name: str = "search",
    description: str = "Finds passages of text. Each stands below its id in brackets; cite it by that id.",
    *,
    metadata: Sequence[str] = (),
) -> Tool:
    """Create a tool with which a model can search through a retriever.

    The result of the tool is an ``Excerpts``. If the retriever is async, only async methods can use the tool.

    Args:
        retriever: The retriever.
        name: The name of the tool for the model.
        description: Tells the model what the tool does.
        metadata: The names of metadata that the model sees beside the id of a content, such as a page.
    """

    check_retrievers("retriever_tool", [retriever])

    def search(query: _QueryText) -> Excerpts:
        contents: object = retriever.retrieve(Query(query))
        return Excerpts(check_contents(contents, _qualname(retriever)), metadata)

    async def asearch(query: _QueryText) -> Excerpts:
        contents: Any = retriever.retrieve(Query(query))
        return Excerpts(check_contents(await contents, _qualname(retriever)), metadata)

    asynchronous = inspect.iscoroutinefunction(retriever.retrieve)
    [retrieval_tool] = tools_of(tool(name=name, description=description)(asearch if asynchronous else search))
    return retrieval_tool


def contents_by_id(runs: Iterable[ToolRun]) -> dict[str, Content]:
    """Return a dict from ids to the passages that the model found with search tools during a call.

    An answer can cite these ids. ``runs`` is the ``tool_runs`` of a Result.
    """
    results = (run.result.contents for run in runs if isinstance(run.result, Excerpts))
    return {content.key: content for contents in results for content in contents}
