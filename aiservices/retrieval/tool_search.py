"""``ToolSearch``, which shows a model only the tools that the model has found with a search tool."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast

from output_parsers.result.errors import shorten
from output_parsers.types.decisions import Decision

from ..engine.plan import Invocation
from ..interface.decorators import user_message
from ..interface.parameters import ToolDefinitionError, call_problem, is_async
from ..models.arguments import check_settings, checks_arguments, is_at_least
from ..models.base import ChatModel
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.fallback import members_of
from ..models.messages import ToolMessage
from ..models.registry import find_model
from ..service.create import create
from ..tools.tool import Tool, ToolProvider, ToolSource, tools_of
from ..tools.toolbox import Toolbox, ToolLimits, is_dynamic, make_toolbox, provider_tools
from .content import Content, Query, check_contents

_DESCRIPTION = (
    "Finds tools by what they do. If none of your tools fits the task, call this one first; afterwards you "
    "can call the tools that it found."
)
_NO_RESULTS = "No tool was found. Describe in other words what the tool should do."
_LONGEST_SUMMARY = 200  # characters of a description in the result; the tool itself has the full text


class ToolRetriever(Protocol):
    """A retriever to which tool descriptions can be added, such as an ``EmbeddingRetriever``."""

    def add(self, contents: Sequence[Content], /) -> object: ...
    def retrieve(self, query: Query, /) -> Sequence[Content] | Awaitable[Sequence[Content]]: ...


# Returns the names of the tools that fit a query, best first.
ToolSelector: TypeAlias = Callable[[str, Sequence[Tool]], Iterable[str] | Awaitable[Iterable[str]]]


@checks_arguments
class ToolSearch:
    """Hides tools from the model until the model finds them with a search tool.

    Pass it as one of the tools, as in ``create(tools=[ToolSearch([…])])``. A tool that was found stays
    available while the search result is in the conversation: also after an approval, and in later calls if a
    ChatMemory keeps the result. Raises DefinitionError for invalid settings, and for two tools with the same
    name.

    Args:
        tools: Functions, objects with ``@tool`` methods, and providers such as ``McpTools``.
        limit: The largest number of tools that one search finds.
        always: The names of tools that the model always sees.
        by: How tools are searched: None by the words of their names and descriptions; a retriever that is
            used for nothing else, and is filled with the descriptions, such as ``EmbeddingRetriever(model)``;
            a model that chooses among the descriptions; or a function of the query and the tools that returns
            names, best first. Async retrievers and functions are for async methods.
        name: The name of the search tool.
        description: The description of the search tool. It may say what the tools are about.
    """

    dynamic = True

    def __init__(
        self,
        tools: Sequence[ToolSource],
        *,
        limit: int = 5,
        always: Sequence[str] = (),
        by: ToolRetriever | ToolSelector | ChatModel | str | None = None,
        name: str = "search_tools",
        description: str = _DESCRIPTION,
    ) -> None:
        problem = _problem_of(by)
        check_settings(
            "ToolSearch",
            ("limit", limit, is_at_least(limit, 1), "it must be at least 1"),
            ("always", always, not isinstance(always, str), "pass a list of names"),
            ("by", by, problem is None, str(problem)),
        )
        self.limit, self.by = limit, by
        self._always = tuple(always)
        self._is_async = is_async(getattr(by, "retrieve", by))
        [tool] = tools_of(_SearchOfCall(self, Toolbox()).search)
        self._search_tool = replace(tool, name=name, description=description, asynchronous=self._is_async)
        self._texts: dict[str, str] = {}  # the texts in the retriever, by tool name
        self._lock = Lock()
        try:
            # All that may be offered, for the checks of ``create``.
            self.toolbox = make_toolbox([self._search_tool, *tools], ToolLimits())
            self._check_always(self.toolbox.tools)
        except ToolDefinitionError as error:
            raise DefinitionError([DefinitionProblem("ToolSearch", str(error))]) from error

    def tools(self, invocation: Invocation) -> list[Tool] | Awaitable[list[Tool]]:
        """Return the search tool and the tools that the model has found so far.

        Returns an awaitable of the list if an async method has tool providers.
        """
        search, is_new = self._search_of(invocation)
        providers = [one for one in self.toolbox.providers if is_new or is_dynamic(one)]
        if invocation.plan.is_async and providers:
            return self._acollect(search, providers, invocation)
        for provider in providers:
            search.add(provider, provider.tools(invocation))
        return self._visible(search, invocation)

    async def _acollect(
        self, search: _SearchOfCall, providers: Sequence[ToolProvider], invocation: Invocation
    ) -> list[Tool]:
        for provider in providers:
            provided: object = await asyncio.to_thread(provider.tools, invocation)
            search.add(provider, await provided if inspect.isawaitable(provided) else provided)
        return self._visible(search, invocation)

    def _search_of(self, invocation: Invocation) -> tuple[_SearchOfCall, bool]:
        """Return a service call's tool search state, and True if the state is new."""
        provided = invocation.state.provided_tools
        tool = None if provided is None else provided.toolbox.tools.get(self._search_tool.name)
        search = None if tool is None else getattr(tool.function, "__self__", None)
        if isinstance(search, _SearchOfCall) and search.owner is self:
            return search, False
        return _SearchOfCall(self, self.toolbox), True

    def _visible(self, search: _SearchOfCall, invocation: Invocation) -> list[Tool]:
        self._check_always(search.toolbox.tools)
        tools = {tool.name: tool for tool in search.candidates}
        names = dict.fromkeys((*self._always, *_tool_names_in_results(self._search_tool.name, invocation)))
        function = search.asearch if self._is_async else search.search
        search_tool = replace(self._search_tool, function=function)
        return [search_tool, *(tools[name] for name in names if name in tools)]

    def _check_always(self, tools: Mapping[str, Tool]) -> None:
        unknown = [name for name in self._always if name not in tools]
        # A provider may have them, or get them later.
        if unknown and (tools is not self.toolbox.tools or not self.toolbox.providers):
            names = ", ".join(name for name in tools if name != self._search_tool.name)
            raise ToolDefinitionError(
                f"always names {', '.join(map(str, unknown))}; the tools are: {names or 'none'}"
            )

    def fill(self, retriever: ToolRetriever, tools: Iterable[Tool]) -> None:
        """Add the descriptions of new or changed tools to the given retriever."""
        with self._lock:
            new = {tool.name: _text_of(tool) for tool in tools}
            new = {name: text for name, text in new.items() if self._texts.get(name) != text}
            if new:
                retriever.add([Content(text, id=name) for name, text in new.items()])
                self._texts |= new


class _SearchOfCall:
    """The tools and search functions of a ToolSearch in one service call.

    Attributes:
        owner: The ToolSearch.
        toolbox: The search tool and the tools that can be found.
    """

    def __init__(self, owner: ToolSearch, toolbox: Toolbox) -> None:
        self.owner = owner
        self.toolbox = toolbox
        self._names: dict[int, set[str]] = {}  # the names of each provider's tools, by its id

    @property
    def candidates(self) -> list[Tool]:
        """The tools that the model can find."""
        return list(self.toolbox.tools.values())[1:]  # the first one is the search tool

    def add(self, provider: ToolProvider, provided: object) -> None:
        """Add the tools that a tool provider returned, except for tools that were added before.

        Raises ToolDefinitionError for two tools with the same name.
        """
        names = self._names.setdefault(id(provider), set())
        new = [tool for tool in provider_tools(provider, provided) if tool.name not in names]
        if new:
            self.toolbox = self.toolbox.with_tools(new)
            names |= {tool.name for tool in new}

    def search(self, query: str) -> list[dict[str, str]] | str:
        """Search for tools, and return the names and descriptions of those found.

        Args:
            query: what the tool should do, in a few words
        """
        by: Any = self.owner.by
        tools = self.candidates
        if by is None:
            return self._result(_by_words(query, tools))
        if isinstance(by, (str, ChatModel)):
            return self._result(_by_model(query, tools, by, self.owner.limit))
        if not hasattr(by, "retrieve"):
            return self._result(by(query, tools))
        self.owner.fill(by, tools)
        return self._result(_ids(by.retrieve(Query(query)), by))

    async def asearch(self, query: str) -> list[dict[str, str]] | str:
        """Search for tools with an async retriever or function."""
        by: Any = self.owner.by
        if not hasattr(by, "retrieve"):
            return self._result(await by(query, self.candidates))
        await asyncio.to_thread(self.owner.fill, by, self.candidates)
        return self._result(_ids(await by.retrieve(Query(query)), by))

    def _result(self, names: Any) -> list[dict[str, str]] | str:
        """Convert the names of the found tools to the search tool's result for the model.

        ``_tool_names_in_results`` parses this format.
        """
        tools = {tool.name: tool for tool in self.candidates}
        unknown = [name for name in names if not isinstance(name, str)]
        if unknown:
            raise TypeError(f"the search returned {unknown[0]!r}; it must return the names of tools")
        matches = [tools[name] for name in dict.fromkeys(names) if name in tools]
        return [
            {"name": tool.name, "description": shorten(tool.description, _LONGEST_SUMMARY)}
            for tool in matches[: self.owner.limit]
        ] or _NO_RESULTS


def _problem_of(by: object) -> str | None:
    """Return an error message if an object cannot be used to search tools; otherwise return None."""
    if by is None or isinstance(by, (str, ChatModel)):
        return None
    if isinstance(by, type):
        return "it is a class; pass an object of it"
    if callable(getattr(by, "retrieve", None)):
        return None if callable(getattr(by, "add", None)) else "it has no method add for the descriptions"
    return call_problem(by, "query", "tools")


def _tool_names_in_results(search_tool: str, invocation: Invocation) -> list[str]:
    """Return the names of all tools in the search results of the conversation so far."""
    names: list[str] = []
    for message in (*invocation.request.messages, *invocation.state.tool_messages):
        if isinstance(message, ToolMessage) and message.name == search_tool and message.text[:1] == "[":
            try:
                names += [str(one["name"]) for one in json.loads(message.text)]
            except (ValueError, TypeError, KeyError):  # the result was truncated or rewritten
                continue
    return names


def _ids(contents: object, retriever: object) -> list[str]:
    checked = check_contents(contents, f"{type(retriever).__name__}.retrieve")
    return [content.id for content in checked]


def _text_of(tool: Tool) -> str:
    """Return the text by which a tool is searched: its name, description and parameters."""
    properties = (tool.arguments.schema or {}).get("properties", {})
    parameters = [
        f"{name.replace('_', ' ')}: {one.get('description', '')}" for name, one in properties.items()
    ]
    return "\n".join([" ".join(_words(tool.name)), tool.description, *parameters])


# --- Searching by words ---

_WORD = re.compile(r"[^\W_]+")
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SATURATION, _LENGTH_WEIGHT = 1.2, 0.75  # the usual parameters of BM25


def _words(text: str) -> list[str]:
    """Split text or a name into lower-case singular words: ``openIssues`` gives ``open`` and ``issue``."""
    words = _WORD.findall(_CAMEL_CASE.sub(" ", text))
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in map(str.casefold, words)]


def _by_words(query: str, tools: Sequence[Tool]) -> list[str]:
    """Return the names of the tools that share words with a query, ranked with BM25."""
    # The name counts twice: it is short, and chosen to say what the tool does.
    counts = [Counter(_words(f"{tool.name} {_text_of(tool)}")) for tool in tools]
    lengths = [count.total() for count in counts]
    average = sum(lengths) / max(1, len(lengths))
    scores = [0.0] * len(tools)
    for word in set(_words(query)):
        matches = sum(word in count for count in counts)
        weight = math.log(1 + (len(tools) - matches + 0.5) / (matches + 0.5))
        for index, count in enumerate(counts):
            if word in count:
                length = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * lengths[index] / average
                frequency = count[word]
                scores[index] += weight * frequency * (_SATURATION + 1) / (frequency + _SATURATION * length)
    ranking = sorted(range(len(tools)), key=lambda index: -scores[index])
    return [tools[index].name for index in ranking if scores[index] > 0]


# --- Searching by a model ---


N = TypeVar("N")


class _Chooser(Protocol[N]):
    @user_message(
        "Which of these tools are useful for the task? Name at most {{limit}}, the most useful one first.\n\n"
        "Task: {{task}}\n\nTools:\n{{tools}}"
    )
    def choose(self, task: str, tools: str, limit: int) -> list[N]: ...


class _Judge(Protocol[N]):
    @user_message("Is this tool useful for the task?\n\nTask: {{task}}\n\nTools:\n{{tools}}")
    def judge(self, task: str, tools: str) -> Decision[list[N]]: ...


def _by_model(query: str, tools: Sequence[Tool], model: ChatModel | str, limit: int) -> list[str]:
    """Return the names of the tools that a model chooses for a query, best first."""
    # the names become the type of the answer, so the model can only choose existing tools
    names: object = Literal[tuple(tool.name for tool in tools)]
    lines = "\n".join(f"- {tool.name}: {shorten(tool.description, _LONGEST_SUMMARY)}" for tool in tools)
    chat_model = find_model(model, "ToolSearch")
    if any(member.capabilities.decisions is None for member in members_of(chat_model)):
        chooser: _Chooser[str] = create(cast("Any", _Chooser)[names], chat_model)
        return chooser.choose(query, lines, limit)
    judge: _Judge[str] = create(cast("Any", _Judge)[names], chat_model)
    decision = judge.judge(query, lines)
    shares = cast("Mapping[str, float]", decision.probabilities)
    return sorted(decision.value, key=lambda name: -shares[name])
