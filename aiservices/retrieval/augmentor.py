"""Add retrieved text to the user message (RAG), or let the model find text with a search tool.

Search queries can be rewritten, sent to selected retrievers, and their results merged. Each of these steps is
a generator function, like an interceptor, so it can send requests to a model. Steps that ask a model do so
with ``SideQuestion``.
"""

from __future__ import annotations

import inspect
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import cache, wraps
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar, cast

from pydantic_core import to_jsonable_python

from output_parsers.result.reading import Json
from output_parsers.types.target import Description

from ..engine.effects import Emit, Flow, Gather, Run
from ..engine.interceptor import BaseInterceptor, InterceptorKind, Proceed
from ..engine.operations import Operation, observed
from ..engine.plan import Invocation
from ..engine.results import Answer
from ..interface.decorators import TemplateSource, user_message
from ..interface.parameters import call_problem, function_name, is_async, is_generator_function
from ..interface.templates import Prompt, TemplateError, compile_prompt, render_value
from ..models.arguments import check_counts, check_settings, checks_arguments, is_at_least
from ..models.base import ChatModel
from ..models.errors import BudgetExceededError, DefinitionError, DefinitionProblem, RetrievalError
from ..models.messages import AiMessage, ChatReply, Message, UserMessage
from ..structured_model import SideQuestion
from ..tools.tool import Tool, ToolRun, tool, tools_of
from .content import (
    Content,
    Query,
    Retriever,
    call_effect,
    call_flow,
    check_contents,
    check_same,
    last_user_position,
    question_text,
)

# --- Rewriting queries and merging results ---


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


@checks_arguments
class CompressingQueryTransformer:
    """Lets a model rewrite a follow-up question as a query that is clear without the conversation.

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
    """Format a user or AI message as a line such as "User: Hello"; return "" for other messages."""
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


@checks_arguments
class ExpandingQueryTransformer:
    """Lets a model add up to ``n`` alternative wordings of a search query."""

    def __init__(self, model: ChatModel | str | None = None, n: int = 3) -> None:
        check_counts("ExpandingQueryTransformer", 1, n=n)
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
    """A retriever with a name and a description that help a model decide when to use the retriever.

    Attributes:
        name: The name of the source of information, such as "orders".
        description: What it contains, so that the model can choose.
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
        name_type: object = Literal[names]
        interface = _Chooser
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


@checks_arguments
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


@checks_arguments
@dataclass(frozen=True, slots=True)
class ReRank:
    """Merges passages from several retrievers, and sorts the passages by a reranking model's scores.

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
            first = contents.setdefault(content.key, content)
            if content is not first:
                check_same(first, content)
    return list(contents.values())


# --- The interceptor ---


_TEMPLATE = "{{user_message}}\n\nAnswer using the following information:\n{{information}}"
_VARIABLES = frozenset({"user_message", "information", "contents"})


class Injector(Protocol):
    """A function that adds retrieved text to a user message, and returns the new message text."""

    def __call__(self, user_message: str, contents: Sequence[Content], /) -> str: ...


@checks_arguments
@dataclass(frozen=True, slots=True)
class Injection:
    """Uses a prompt template to add retrieved text to a user message.

    Inserted text is never interpreted as a template. Raises DefinitionError if the template is invalid.

    Attributes:
        template: A Jinja template with the variables ``user_message``, ``information`` (the texts of the
            contents, each below its id) and ``contents`` (the list of Content objects).
        metadata: The names of metadata that ``information`` shows with the id of a content.
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
    """Join retrieved passages into one string for a model; each passage follows its id in brackets."""
    return "\n\n".join(_format_content(content, metadata) for content in contents)


# The characters that end a line, and a line that looks like the heading of another content
_LINE_END = re.compile("([\r\n\v\f\x1c-\x1e\x85\u2028\u2029])")
_HEADING = re.compile(r"\W*\[[^\]]*\]\W*")


def _format_content(content: Content, metadata: Sequence[str]) -> str:
    """Write a passage below its id; lines of the passage cannot be taken for the id of another one."""
    fields = [f"{name}: {content.metadata[name]}" for name in metadata if name in content.metadata]
    parts = [content.id, *fields] if content.id else fields
    heading = "; ".join(" ".join(part.split()).translate(_NO_BRACKETS) for part in parts)
    lines = _LINE_END.split(content.text)
    text = "".join(one.replace("[", "\\[", 1) if _HEADING.fullmatch(one) else one for one in lines)
    return f"[{heading}]\n{text}" if heading else text


_NO_BRACKETS = str.maketrans("[]", "()")


# These errors end the call: a limit was reached, or the program is wrong.
_NOT_CAUGHT = (BudgetExceededError, DefinitionError, RetrievalError)


class _Failure(NamedTuple):
    error: Exception


def _caught(effect: Run) -> Run:
    """Return an effect whose outcome is a _Failure if the function of the user fails."""
    function = effect.function

    @wraps(function)
    def call() -> object:
        try:
            return function()
        except _NOT_CAUGHT:
            raise
        except Exception as error:
            return _Failure(error)

    @wraps(function)
    async def acall() -> object:
        try:
            return await function()
        except _NOT_CAUGHT:
            raise
        except Exception as error:
            return _Failure(error)

    return replace(effect, function=call if effect.in_thread else acall)


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


@checks_arguments
@dataclass(frozen=True, slots=True, init=False)
class RetrievalAugmentor(BaseInterceptor):
    """Interceptor that retrieves text for the user message and adds it to the message (RAG).

    The query is what the caller asks: the arguments in the user message without the words of its template. If
    no content is found, the message stays unchanged, or ``when_empty`` is the answer. The contents
    are the ``sources`` of the Result. Interceptors before this one, such as a ChatMemory, see the message
    without the contents. A call that is resumed after an approval keeps the contents that it retrieved
    before.

    A step that fails raises RetrievalError; ``on_error="skip"`` continues without it.

    Raises DefinitionError unless there are either retrievers or a ``route``, and if a retriever has no method
    ``retrieve``.

    Attributes:
        transform: Converts the query to one or more queries. By default it stays unchanged.
        route: Chooses the retrievers for each query; it may be a plain function. By default all retrievers
            that were passed.
        fuse: Merges the results into one ranking.
        inject: Adds the contents to the user message.
        max_concurrency: The maximum number of retrievers at the same time. None sets no limit.
        query: The name of the parameter that is the query; or a function of the invocation that returns the
            text to search for.
        on_error: "raise" for a RetrievalError if a step fails. With "skip" a failed retriever finds nothing,
            a failed rewriter leaves the query as it is, a failed router chooses no retriever, and a failed
            re-ranker is replaced by ReciprocalRankFusion; each is logged as a warning.
        when_empty: The answer if nothing is found, of the type of the method; no request is sent. By
            default the model answers without sources.
        async_parts: The names of the async retrievers, for the checks of ``create``.
    """

    transform: QueryTransformer
    route: QueryRouter
    fuse: Fusion
    inject: Injector
    max_concurrency: int | None
    query: str | Callable[[Invocation], str] | None
    on_error: Literal["raise", "skip"]
    when_empty: Any
    async_parts: tuple[str, ...]

    position_name = InterceptorKind.RETRIEVAL

    def __init__(
        self,
        *retrievers: Retriever,
        transform: QueryTransformer = unchanged,
        route: QueryRouter | Callable[[Query], Sequence[Retriever]] | None = None,
        fuse: Fusion = _DEFAULT_FUSION,
        inject: Injector = _DEFAULT_INJECTION,
        max_concurrency: int | None = None,
        query: str | Callable[[Invocation], str] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        when_empty: object = None,
    ) -> None:
        check_counts("RetrievalAugmentor", 1, max_concurrency=max_concurrency)
        check_settings(
            "RetrievalAugmentor",
            ("on_error", on_error, on_error in ("raise", "skip"), "it must be one of raise, skip"),
            (
                "query",
                query,
                query is None or isinstance(query, str) or callable(query),
                "pass the name of a parameter, or a function of the invocation",
            ),
        )
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
        if route is not None and not is_generator_function(route):
            route = RouteBy(cast("Callable[[Query], Sequence[Retriever]]", route))
        fields = {
            "transform": transform,
            "route": route or RouteToAll(retrievers),
            "fuse": fuse,
            "inject": inject,
            "max_concurrency": max_concurrency,
            "query": query,
            "on_error": on_error,
            "when_empty": when_empty,
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
        query = None if invocation.is_resumed else self._query_of(invocation)
        if query is None:  # the request of a resumed call already has the contents
            contents = invocation.stored_data(_STATE_KEY, _contents_from_json) or ()
        else:
            started_at = time.monotonic()
            contents = tuple((yield from self.retrieve(query)))
            data[_STATE_KEY] = [to_jsonable_python(asdict(content), fallback=str) for content in contents]
            yield Emit(ContentsRetrieved(contents, seconds=time.monotonic() - started_at))
        augmented = self._augment(invocation, contents) if contents and query is not None else invocation
        invocation.state.sources += contents
        if self.when_empty is not None and query is not None and not contents:
            return self._answer_when_empty(invocation)
        answer = yield from proceed(augmented)
        return replace(answer, sources=(*answer.sources, *contents)) if contents else answer

    def retrieve(self, query: Query) -> Flow[Sequence[Content]]:
        """Run a search: transform the query, call the retrievers, and return merged results, best first."""
        unchanged_queries: Sequence[Query] = (query,)
        queries = yield from self._step(self.transform, (query,), unchanged_queries)
        effects: list[Run] = []
        names: list[str] = []
        for one in queries:
            no_retrievers: Sequence[Retriever] = ()
            for retriever in (yield from self._step(self.route, (one,), no_retrievers)):
                names.append(_qualname(retriever))
                search = Operation("retrieval", retriever, one.text)
                effects.append(_caught(call_effect(retriever.retrieve, one, operation=search)))
        results: Sequence[object] = (yield Gather(tuple(effects), self.max_concurrency)) if effects else ()
        rankings = [self._ranking(result, name) for result, name in zip(results, names, strict=True)]
        fused: Sequence[Content] | None = yield from self._step(self.fuse, (query, rankings), None)
        if fused is None:
            try:
                fused = yield from _DEFAULT_FUSION(query, rankings)
            except ValueError as error:  # an id with two meanings is an error that no later step can correct
                raise RetrievalError(str(error), step="fuse") from error
        return check_contents(fused, function_name(self.fuse))

    def _query_of(self, invocation: Invocation) -> Query | None:
        query = Query.from_invocation(invocation)
        if query is None or self.query is None:
            return query
        if callable(self.query):
            text: object = self.query(invocation)
        elif self.query in invocation.plan.question_names:
            text = question_text(invocation, (self.query,))
        elif self.query in invocation.arguments:
            text = render_value(invocation.arguments[self.query])
        else:
            names = ", ".join(invocation.arguments) or "none"
            message = f"query names the parameter {self.query!r}, and the parameters are: {names}"
            raise DefinitionError([DefinitionProblem(invocation.qualname, f"RetrievalAugmentor: {message}")])
        if not isinstance(text, str):
            raise TypeError(
                f"{function_name(self.query)} returned {type(text).__name__}; it must return a str"
            )
        return replace(query, text=text)

    def _step(self, function: Callable[..., Flow[T]], arguments: tuple[object, ...], otherwise: T) -> Flow[T]:
        """Run a step of the search; return its result, or ``otherwise`` if it fails and may be skipped."""
        flow = call_flow(function, *arguments)
        try:
            return (yield from flow)
        except _NOT_CAUGHT:
            raise
        except Exception as error:
            self._failed(function_name(function), error)
            return otherwise

    def _ranking(self, result: object, name: str) -> tuple[Content, ...]:
        if isinstance(result, _Failure):
            self._failed(name, result.error)
            return ()
        return check_contents(result, name)

    def _failed(self, step: str, error: Exception) -> None:
        """Log the failure of a step that is skipped, or raise a RetrievalError for it."""
        message = f"{step} failed: {type(error).__name__}: {error}"
        if self.on_error == "raise":
            raise RetrievalError(message, step=step) from error
        logging.getLogger("aiservices").warning("retrieval continues without a step: %s", message)

    def _answer_when_empty(self, invocation: Invocation) -> Answer:
        """Return the answer for a call for which nothing was found."""
        value, parser = self.when_empty, invocation.plan.output_format.parser
        try:
            text = str(value) if parser is None else parser.write(value)
        except ValueError as error:
            problem = f"when_empty of RetrievalAugmentor does not fit the type of the method: {error}"
            raise DefinitionError([DefinitionProblem(invocation.qualname, problem)]) from error
        message = AiMessage(text)
        return Answer(value, ChatReply(message), (), messages=(message,))

    def _augment(self, invocation: Invocation, contents: Sequence[Content]) -> Invocation:
        """Return a copy of the service call with retrieved text in its last user message."""
        messages = list(invocation.request.messages)
        position = last_user_position(messages)
        assert position is not None, "the query was made from the last user message"
        message = messages[position]
        assert isinstance(message, UserMessage), "last_user_position only returns positions of user messages"
        messages[position] = replace(message, text=self.inject(message.text, contents))
        return replace(invocation, request=replace(invocation.request, messages=tuple(messages)))


def check_retrievers(owner: str, retrievers: Iterable[object]) -> None:
    """Raise DefinitionError if any of the objects is not a retriever.

    The error message begins with ``owner``.
    """
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


def _contents_from_json(data: Json) -> tuple[Content, ...]:
    return tuple(Content(**fields) for fields in data)


def _qualname(retriever: Retriever) -> str:
    return f"{type(retriever).__name__}.retrieve"


_NO_RESULTS = "Nothing was found."
_QueryText = Annotated[str, Description("what to look for, as a question or in keywords")]


class Excerpts(str):
    """The result that a search tool returns to the model: retrieved passages, each with its id.

    Attributes:
        contents: The contents, best first.
        metadata: The names of the metadata that the model sees in addition to the ids.
    """

    contents: tuple[Content, ...]
    metadata: tuple[str, ...]

    def __new__(cls, contents: Sequence[Content], metadata: Sequence[str] = ()) -> Excerpts:
        excerpts = super().__new__(cls, format_contents(contents, metadata) or _NO_RESULTS)
        excerpts.contents, excerpts.metadata = tuple(contents), tuple(metadata)
        return excerpts

    def __reduce__(self) -> tuple[object, ...]:  # pickle would otherwise call __new__ with the text
        return Excerpts, (self.contents, self.metadata)


def retriever_tool(
    retriever: Retriever,
    name: str = "search",
    description: str = "Finds passages of text. Each stands below its id in brackets; cite it by that id.",
    *,
    metadata: Sequence[str] = (),
) -> Tool:
    """Create a tool that lets a model search with the given retriever.

    The result of the tool is an ``Excerpts``. If the retriever is async, only async methods can use the tool.

    Args:
        retriever: The retriever.
        name: The name of the tool for the model.
        description: Tells the model what the tool does.
        metadata: The names of metadata that the model sees with the id of a content, such as a page.
    """

    check_retrievers("retriever_tool", [retriever])

    def searching(query: str) -> Callable[[Query], object]:
        return observed(Operation("retrieval", retriever, query), retriever.retrieve)

    def search(query: _QueryText) -> Excerpts:
        contents: object = searching(query)(Query(query))
        return Excerpts(check_contents(contents, _qualname(retriever)), metadata)

    async def asearch(query: _QueryText) -> Excerpts:
        contents: Any = searching(query)(Query(query))
        return Excerpts(check_contents(await contents, _qualname(retriever)), metadata)

    asynchronous = inspect.iscoroutinefunction(retriever.retrieve)
    [retrieval_tool] = tools_of(tool(name=name, description=description)(asearch if asynchronous else search))
    return retrieval_tool


def contents_by_id(runs: Iterable[ToolRun]) -> dict[str, Content]:
    """Return a dict from passage ids to the passages that search tools found during a call.

    An answer can cite these ids. ``runs`` is the ``tool_runs`` of a Result. Raises ValueError if two texts of
    different documents have the same id, so that a citation has two meanings.
    """
    results = [run.result.contents for run in runs if isinstance(run.result, Excerpts)]
    return {content.key: content for content in _distinct(results)}
