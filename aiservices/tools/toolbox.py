"""The tools of a service method, with their limits and the descriptions that the model sees."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple, Protocol, TypeGuard

from output_parsers.parser.type_parser import TypeParser

from ..interface.decorators import MemoryId, ToolContext, UserName
from ..interface.parameters import ToolDefinitionError
from ..models.arguments import checks_arguments, is_at_least, is_positive
from ..models.base import Capabilities, ChatModel
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.requests import ChatOptions, Tooling, ToolSpecification
from .tool import Tool, ToolProvider, ToolSource, tool_methods, tools_of

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # accepted by every provider


@checks_arguments
@dataclass(frozen=True, slots=True)
class ToolLimits:
    """Limits on tool use in one service call: number of calls, concurrency, time and result size.

    Attributes:
        max_rounds: The maximum number of rounds of tool calls.
        max_calls: The maximum number of calls in all rounds.
        max_calls_per_reply: The maximum number of calls in one reply. None sets no limit.
        max_concurrency: The maximum number of calls of one round at the same time.
        timeout: Seconds for each call of a tool that has no timeout of its own. None sets no limit.
        max_characters: The maximum number of characters of a result that the model receives, with a note that
            the rest is missing. The ToolRun contains the whole result. None sets no limit.
        repeated: The maximum number of calls of a tool with the same arguments. The next such call does not
            run, and a message asks the model to use the results that it has; one more raises a
            ToolLimitError. None sets no limit.
    """

    max_rounds: int = 10
    max_calls: int = 50
    max_concurrency: int = 8
    timeout: float | None = None
    max_characters: int | None = 100_000
    max_calls_per_reply: int | None = None
    repeated: int | None = None

    def __post_init__(self) -> None:
        messages = []
        for name in (
            "max_rounds",
            "max_calls",
            "max_calls_per_reply",
            "max_concurrency",
            "max_characters",
            "repeated",
        ):
            value = getattr(self, name)
            if value is not None and not is_at_least(value, 1):
                messages.append(f"{name} is {value!r}; it must be at least 1")
        if self.timeout is not None and not is_positive(self.timeout):
            messages.append(f"timeout is {self.timeout!r}; it must be greater than 0")
        if messages:
            raise DefinitionError([DefinitionProblem("ToolLimits", message) for message in messages])


class OfferedTools(NamedTuple):
    """The tool descriptions to send to a model, and the parsers for the arguments of the model's calls.

    Attributes:
        tooling: The specifications that are sent with the request.
        parsers: The parser of the arguments of each tool, by name.
    """

    tooling: Tooling
    parsers: Mapping[str, TypeParser[dict[str, object]]]


@dataclass(frozen=True, eq=False)
class Toolbox:
    """The tools that the model may call in a service method, and limits on using them.

    Attributes:
        tools: The tools by name.
        providers: Objects that add tools in each call.
        limits: The limits of the tool calls.
        takes_tools: True if each call may bring tools.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict)
    providers: tuple[ToolProvider, ...] = ()
    limits: ToolLimits = ToolLimits()
    takes_tools: bool = False
    _offered: dict[Capabilities, OfferedTools] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def may_start_early(self) -> bool:
        """True if a tool may start before the reply is complete.

        False if one of the tools needs approval or is external.
        """
        return not self.may_wait and any(tool.start_early for tool in self.tools.values())

    @cached_property
    def may_wait(self) -> bool:
        """True if one of the tools needs approval or is external."""
        return any(tool.needs_approval or tool.external for tool in self.tools.values())

    @property
    def is_open(self) -> bool:
        """True if tool providers or single calls may add tools."""
        return self.takes_tools or bool(self.providers)

    @property
    def declared(self) -> tuple[Tool, ...]:
        """The tools that are known before a call."""
        inner = [one.toolbox.declared for one in self.providers if _has_toolbox(one)]
        return (*self.tools.values(), *chain.from_iterable(inner))

    def with_tools(self, tools: Iterable[Tool]) -> Toolbox:
        """Return a copy with additional tools.

        Raises ToolDefinitionError for invalid tool names.
        """
        return Toolbox(_by_name([*self.tools.values(), *tools]), (), self.limits)

    def offered_to(self, capabilities: Capabilities) -> OfferedTools | None:
        """Return the tool descriptions in the form that a model supports; None if there are no tools."""
        if not self.tools:
            return None
        if capabilities not in self._offered:  # setdefault, because two threads may get here
            self._offered.setdefault(capabilities, _offer(self.tools.values(), capabilities))
        return self._offered[capabilities]


@dataclass(frozen=True, slots=True)
class ProvidedTools:
    """The tools that the tool providers have returned so far in one call.

    Attributes:
        base: The toolbox with the providers.
        names: For each provider, the names of its tools so far.
        toolbox: The tools of ``base`` and of all providers.
    """

    base: Toolbox
    names: tuple[frozenset[str], ...]
    toolbox: Toolbox


def plan_toolbox(
    sources: Sequence[ToolSource],
    limits: ToolLimits,
    parameter_names: Collection[str],
    role_names: Mapping[type, str],
    models: Iterable[ChatModel],
    *,
    is_async: bool,
    qualname: str,
    problems: list[DefinitionProblem],
    namespace: Mapping[str, object] | None = None,
    takes_tools: bool = False,
) -> Toolbox | None:
    """Collect the tools of a service method, and report an error for each invalid tool.

    Returns None if there are no tools, unless ``takes_tools``: then each call may bring some. ``namespace``
    contains local names that string annotations may use.
    """
    if not sources and not takes_tools:
        return None
    try:
        toolbox = make_toolbox(sources, limits, namespace, takes_tools=takes_tools)
    except ToolDefinitionError as error:
        problems.append(DefinitionProblem(qualname, str(error)))
        return None
    problems += [
        DefinitionProblem(qualname, f"{model.name} does not support tools; remove them or use another model")
        for model in models
        if not model.capabilities.tools
    ]
    problems += toolbox_problems(toolbox, parameter_names, role_names, is_async=is_async, qualname=qualname)
    return toolbox


def toolbox_problems(
    toolbox: Toolbox,
    parameter_names: Collection[str],
    role_names: Mapping[type, str],
    *,
    is_async: bool,
    qualname: str,
) -> list[DefinitionProblem]:
    """Return an error for each tool and each provider that a service method cannot use."""
    problems: list[DefinitionProblem] = []
    if not is_async:
        problems += [
            DefinitionProblem(
                qualname, f"{type(provider).__name__}.tools is async; only async methods can await it"
            )
            for provider in toolbox.providers
            if inspect.iscoroutinefunction(provider.tools)
        ]
    for tool in toolbox.tools.values():
        problems += tool_problems(tool, parameter_names, role_names, is_async=is_async, qualname=qualname)
    for provider in toolbox.providers:
        if _has_toolbox(provider):
            problems += toolbox_problems(
                provider.toolbox, parameter_names, role_names, is_async=is_async, qualname=qualname
            )
    return problems


def make_toolbox(
    sources: Sequence[ToolSource],
    limits: ToolLimits,
    namespace: Mapping[str, object] | None = None,
    base: Toolbox | None = None,
    *,
    takes_tools: bool = False,
) -> Toolbox:
    """Collect the tools that the model may call: functions, ``@tool`` methods and tool providers.

    The result has the tools of ``base``, too. Raises ToolDefinitionError if a model cannot call one of the
    tools.
    """
    providers = tuple(source for source in sources if _is_provider(source))
    others = [source for source in sources if not _is_provider(source)]
    tools = [tool for source in others for tool in tools_of(source, namespace)]
    if base is not None:
        tools, providers = [*base.tools.values(), *tools], (*base.providers, *providers)
    return Toolbox(_by_name(tools), providers, limits, takes_tools)


def tool_problems(
    tool: Tool,
    parameter_names: Collection[str],
    role_names: Mapping[type, str],
    *,
    is_async: bool,
    qualname: str,
) -> Iterator[DefinitionProblem]:
    """Yield an error for each reason why a service method cannot use a tool.

    The method has parameters with the names ``parameter_names``; ``role_names`` names those that are the
    memory id or the name of the user.
    """
    if not is_async:
        for part in (part for one in tool.interceptors for part in getattr(one, "async_parts", ())):
            message = f"{part} of the tool {tool.name} is async; only async methods can await it"
            yield DefinitionProblem(qualname, message)
    missing = [n for n, role in tool.injected.items() if role is ToolContext and n not in parameter_names]
    if missing:
        message = (
            f"the tool {tool.name} needs {', '.join(missing)}, and the method has no such parameter; add "
            f"{missing[0]}: Annotated[…, ToolContext]"
        )
        yield DefinitionProblem(qualname, message)
    for role in dict.fromkeys(tool.injected.values()):
        if role in (MemoryId, UserName) and role not in role_names:
            message = (
                f"the tool {tool.name} needs a {role.__name__}, and the method has no such parameter; add one"
            )
            yield DefinitionProblem(qualname, message)


def tool_choice_problems(
    options: ChatOptions, toolbox: Toolbox | None, qualname: str
) -> list[DefinitionProblem]:
    """Return an error if the tool choice in the options is impossible with the tools of a method."""
    choice = options.tool_choice
    names = () if toolbox is None else tuple(toolbox.tools)
    if choice is None or (toolbox is not None and toolbox.is_open and choice not in names):
        return []
    if choice in ("auto", "none", "required"):
        if choice in names:
            message = f"tool_choice is {choice!r}, which is also the name of a tool; rename the tool"
        elif choice == "required" and not names:
            message = "tool_choice is 'required', and there are no tools"
        else:
            return []
    elif choice in names:
        return []
    else:
        allowed = ", ".join(("auto", "required", "none", *names))
        message = f"tool_choice is {choice!r}; it must be one of {allowed}"
    return [DefinitionProblem(qualname, message)]


def provider_tools(provider: ToolProvider, provided: object) -> list[Tool]:
    """Convert the tools that a tool provider returned to a list.

    Raises ToolDefinitionError for invalid tools.
    """
    if isinstance(provided, str) or not isinstance(provided, Iterable):
        kind = type(provided).__name__
        raise ToolDefinitionError(
            f"{type(provider).__name__}.tools returned {kind}; it must return a list of tools"
        )
    sources: list[ToolSource] = list(provided)
    return [tool for source in sources for tool in tools_of(source)]


def is_dynamic(provider: ToolProvider) -> bool:
    """Return True if a provider's tools are fetched before each request instead of once per call."""
    return bool(getattr(provider, "dynamic", False))


class _ProviderWithToolbox(ToolProvider, Protocol):
    """The interface of tool providers that have tools before the call, such as a ToolSearch."""

    toolbox: Toolbox


def _has_toolbox(provider: ToolProvider) -> TypeGuard[_ProviderWithToolbox]:
    return isinstance(getattr(provider, "toolbox", None), Toolbox)


def _is_provider(source: ToolSource) -> TypeGuard[ToolProvider]:
    # An object with ``@tool`` methods may have one that is called "tools".
    if isinstance(source, type) or not callable(getattr(source, "tools", None)):
        return False
    return not tool_methods(source)


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    by_name: dict[str, Tool] = {}
    for tool in tools:
        if not _NAME.fullmatch(tool.name):
            raise ToolDefinitionError(
                f"{tool.name!r} is not a valid tool name; use 1 to 64 characters of a-z, A-Z, 0-9, _ and -"
            )
        if tool.name in by_name:
            raise ToolDefinitionError(
                f"two tools are called {tool.name}; "
                "rename one of them with tool(name=…) or McpTools(prefix=…)"
            )
        by_name[tool.name] = tool
    return by_name


def _offer(tools: Iterable[Tool], capabilities: Capabilities) -> OfferedTools:
    profile = capabilities.profile if capabilities.strict_schema else None
    specifications, parsers = [], {}
    for tool in tools:
        specification, parser = _specify(tool.name, tool.description, tool.arguments, profile)
        if tool.metadata:
            specification = replace(specification, metadata=tool.metadata)
        specifications.append(specification)
        parsers[tool.name] = parser
    return OfferedTools(Tooling(tuple(specifications)), parsers)


@lru_cache(maxsize=1024)  # the tools of providers are in a new toolbox in each call
def _specify(
    name: str, description: str, arguments: TypeParser[dict[str, object]], profile: str | None
) -> tuple[ToolSpecification, TypeParser[dict[str, object]]]:
    """Return the description of a tool for the model, and the parser for the tool's arguments."""
    parser, schema, strict = arguments, arguments.schema or {}, False
    if profile is not None:
        from output_parsers.profiles import PROFILES
        from output_parsers.strict import encode_parser  # not every model has a strict mode

        strict_parser, encoding = encode_parser(arguments, PROFILES[profile])
        if encoding.lossless:
            parser, schema, strict = strict_parser, encoding.schema, True
    # The title is the name of the TypedDict that was made for the arguments.
    parameters = {key: value for key, value in schema.items() if key != "title"}
    return ToolSpecification(name, description, parameters, strict=strict), parser
