"""The tools of a method: found when it is planned, told to each model in the form that it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from output_parsers.parser import TypeParser

from .errors import Fault
from .models.base import Capabilities, ChatModel
from .requests import Tooling, ToolSpecification
from .tools import Tool, ToolFault, ToolProvider, ToolSource, tools_of

__all__ = ["ToolLimits", "Toolbox", "plan_toolbox", "toolbox_of"]


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """How far a model may go with its tools in one call.

    ``rounds``: how often it may call tools and go on; ``calls``: how many calls in all; ``parallel``: how
    many of them run side by side; ``timeout``: seconds for one that says nothing else.
    """

    rounds: int = 10
    calls: int = 50
    parallel: int = 8
    timeout: float | None = None


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

    def with_tools(self, more: Iterable[Tool]) -> Toolbox:
        """The same with further tools. Raises ToolFault where two have the same name."""
        return Toolbox(_by_name([*self.tools.values(), *more]), (), self.limits)

    def offered(self, capabilities: Capabilities) -> Offered | None:
        """The tools for a model that can do so much; None where there are none."""
        return _offered(self, capabilities) if self.tools else None


@lru_cache(maxsize=256)
def _offered(toolbox: Toolbox, capabilities: Capabilities) -> Offered:
    specifications = []
    readers: dict[str, TypeParser[dict[str, Any]]] = {}
    for tool in toolbox.tools.values():
        parser, schema, strict = tool.arguments, tool.arguments.schema or {}, False
        if capabilities.strict_schema:
            from output_parsers.encoding import encoded  # not every model has a strict mode
            from output_parsers.profiles import PROFILES

            made, encoding = encoded(tool.arguments, PROFILES[capabilities.profile])
            if encoding.fits:
                parser, schema, strict = made, encoding.schema, True
        readers[tool.name] = parser
        specifications.append(ToolSpecification(tool.name, tool.description, _bare(schema), strict))
    return Offered(Tooling(tuple(specifications)), readers)


def _bare(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the arguments without the name that was made for it."""
    return {key: value for key, value in schema.items() if key != "title"}


def toolbox_of(sources: Sequence[ToolSource], limits: ToolLimits) -> Toolbox:
    """The toolbox of what was given for tools. Raises ToolFault with what is wrong with one."""
    providers = tuple(
        source for source in sources if isinstance(source, ToolProvider) and not isinstance(source, type)
    )
    others = [source for source in sources if not isinstance(source, ToolProvider)]
    return Toolbox(_by_name([found for source in others for found in tools_of(source)]), providers, limits)


def plan_toolbox(
    sources: Sequence[ToolSource],
    limits: ToolLimits,
    names: Iterable[str],
    models: Iterable[ChatModel],
    *,
    asynchronous: bool,
    where: str,
    faults: list[Fault],
) -> Toolbox | None:
    """The toolbox of a method; None where it has no tools. What is wrong goes to ``faults``."""
    if not sources:
        return None
    try:
        toolbox = toolbox_of(sources, limits)
    except ToolFault as error:
        faults.append(Fault(where, str(error)))
        return None
    faults += [
        Fault(where, f"{model.name} calls no tools; give it none, or take another model")
        for model in models
        if not model.capabilities.tools
    ]
    for tool in toolbox.tools.values():
        if tool.asynchronous and not asynchronous:
            faults.append(Fault(where, f"the tool {tool.name} is async; only async methods can call it"))
        missing = [name for name in tool.injected if name not in names]
        if missing:
            said = f"the tool {tool.name} needs {', '.join(missing)}, and the method has no such parameter"
            faults.append(Fault(where, said))
    return toolbox


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in found:
            raise ToolFault(f"two tools have the name {tool.name}; give one of them another")
        found[tool.name] = tool
    return found
