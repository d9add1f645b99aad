"""The tools of a method: found when it is planned, told to each model in the form that it takes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

from output_parsers.parser.type_parser import TypeParser

from ..interface.parameters import ToolFault
from ..models.base import Capabilities, ChatModel
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.requests import Tooling, ToolSpecification
from .tool import Tool, ToolProvider, ToolSource, tool_methods, tools_of

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider takes for one


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """How far a model may go with its tools in one call.

    ``rounds``: how often it may call tools and go on; ``calls``: how many calls in all; ``parallel``: how
    many of them run side by side; ``timeout``: seconds for one that says nothing else. ``characters``: how
    much of the text of one result the model is told; it is also told that there was more, and the ToolRun
    has the whole result. None sets no limit to the last two.
    """

    rounds: int = 10
    calls: int = 50
    parallel: int = 8
    timeout: float | None = None
    characters: int | None = 100_000

    def __post_init__(self) -> None:
        counted = {"rounds": self.rounds, "calls": self.calls, "parallel": self.parallel}
        if self.characters is not None:
            counted["characters"] = self.characters
        problems = [
            DefinitionProblem("ToolLimits", f"{name} is {value}; it must be at least 1")
            for name, value in counted.items()
            if value < 1
        ]
        if self.timeout is not None and not self.timeout > 0:
            problems.append(
                DefinitionProblem("ToolLimits", f"timeout is {self.timeout}; it must be greater than 0")
            )
        if problems:
            raise DefinitionError(problems)


class Offered(NamedTuple):
    """Tools as one model is told of them, and who reads the arguments of each."""

    tooling: Tooling
    readers: Mapping[str, TypeParser[dict[str, Any]]]


@dataclass(frozen=True, eq=False)
class Toolbox:
    """The tools of one method, and those who say for each call which there are besides."""

    tools: Mapping[str, Tool] = field(default_factory=dict)
    providers: tuple[ToolProvider, ...] = ()
    limits: ToolLimits = ToolLimits()
    _told: dict[Capabilities, Offered] = field(default_factory=dict, init=False, repr=False)

    def with_tools(self, more: Iterable[Tool]) -> Toolbox:
        """The same with further tools. Raises ToolFault where a name is taken, or none."""
        return Toolbox(_by_name([*self.tools.values(), *more]), (), self.limits)

    def offered(self, capabilities: Capabilities) -> Offered | None:
        """The tools for a model that can do so much; None where there are none."""
        if not self.tools:
            return None
        if capabilities not in self._told:
            self._told.setdefault(capabilities, _offered(self.tools.values(), capabilities))
        return self._told[capabilities]


def _offered(tools: Iterable[Tool], capabilities: Capabilities) -> Offered:
    profile = capabilities.profile if capabilities.strict_schema else None
    told = [_told(tool.name, tool.description, tool.arguments, profile) for tool in tools]
    readers = {specification.name: reader for specification, reader in told}
    return Offered(Tooling(tuple(specification for specification, _ in told)), readers)


@lru_cache(maxsize=1024)  # the tools of providers are in another toolbox at each call
def _told(
    name: str, description: str, arguments: TypeParser[dict[str, Any]], profile: str | None
) -> tuple[ToolSpecification, TypeParser[dict[str, Any]]]:
    """A tool as a model is told of it, and who reads its arguments; strict where the profile permits it."""
    parser, schema, strict = arguments, arguments.schema or {}, False
    if profile is not None:
        from output_parsers.strict import encode_parser  # not every model has a strict mode
        from output_parsers.strict.profiles import PROFILES

        made, encoding = encode_parser(arguments, PROFILES[profile])
        if encoding.lossless:
            parser, schema, strict = made, encoding.schema, True
    return ToolSpecification(name, description, _bare(schema), strict=strict), parser


def _bare(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the arguments without the name that was made for it."""
    return {key: value for key, value in schema.items() if key != "title"}


def toolbox_of(
    sources: Sequence[ToolSource], limits: ToolLimits, namespace: Mapping[str, Any] | None = None
) -> Toolbox:
    """The toolbox of what was given for tools. Raises ToolFault with what is wrong with one.

    ``namespace`` holds local names that string annotations may use.
    """
    providers = tuple(source for source in sources if _provides(source))
    others = [source for source in sources if not _provides(source)]
    found = [tool for source in others for tool in tools_of(source, namespace)]
    return Toolbox(_by_name(found), providers, limits)


def _provides(source: ToolSource) -> TypeGuard[ToolProvider]:
    """Whether it is asked for its tools at each call; what has tools of its own may call one so."""
    if isinstance(source, type) or not callable(getattr(source, "tools", None)):
        return False
    return not tool_methods(source)


def plan_toolbox(
    sources: Sequence[ToolSource],
    limits: ToolLimits,
    names: Collection[str],
    models: Iterable[ChatModel],
    *,
    asynchronous: bool,
    where: str,
    problems: list[DefinitionProblem],
    namespace: Mapping[str, Any] | None = None,
) -> Toolbox | None:
    """The toolbox of a method; None where it has no tools. What is wrong goes to ``problems``."""
    if not sources:
        return None
    try:
        toolbox = toolbox_of(sources, limits, namespace)
    except ToolFault as error:
        problems.append(DefinitionProblem(where, str(error)))
        return None
    problems += [
        DefinitionProblem(where, f"{model.name} calls no tools; give it none, or take another model")
        for model in models
        if not model.capabilities.tools
    ]
    if not asynchronous:
        problems += [
            DefinitionProblem(
                where, f"{type(provider).__name__}.tools is async; only async methods can ask it"
            )
            for provider in toolbox.providers
            if inspect.iscoroutinefunction(provider.tools)
        ]
    for tool in toolbox.tools.values():
        problems += tool_problems(tool, names, asynchronous=asynchronous, where=where)
    return toolbox


def tool_problems(
    tool: Tool, names: Collection[str], *, asynchronous: bool, where: str
) -> Iterator[DefinitionProblem]:
    """What keeps a method, with parameters of such names, from calling a tool."""
    if tool.asynchronous and not asynchronous:
        yield DefinitionProblem(where, f"the tool {tool.name} is async; only async methods can call it")
    missing = [name for name in tool.injected if name not in names]
    if missing:
        said = f"the tool {tool.name} needs {', '.join(missing)}, and the method has no such parameter"
        yield DefinitionProblem(where, said)


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        if not _NAME.fullmatch(tool.name):
            said = "a name is 1 to 64 of the characters a-z, A-Z, 0-9, _ and -"
            raise ToolFault(f"no provider takes {tool.name!r} as the name of a tool; {said}")
        if tool.name in found:
            raise ToolFault(f"two tools have the name {tool.name}; give one of them another")
        found[tool.name] = tool
    return found
