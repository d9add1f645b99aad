"""Collect tools from tool providers before a call's first request, and more tools before later requests.

A provider is an object such as ``McpTools``, whose tools are only known when a call is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from functools import partial

from ..interface.parameters import ToolDefinitionError
from ..models.errors import DefinitionError, DefinitionProblem
from ..tools.tool import Tool
from ..tools.toolbox import ProvidedTools, Toolbox, is_dynamic, provider_tools, tool_problems
from .effects import Flow, Run
from .plan import Invocation


def current_toolbox(base: Toolbox, invocation: Invocation) -> Flow[Toolbox]:
    """Return the tools for the next request of a call, asking the tool providers in ``base`` if necessary.

    Each provider is asked before the first request. Providers with ``dynamic = True`` are asked again before
    each later one: their new tools are added, and a tool with a known name stays unchanged. Raises
    DefinitionError for invalid tools.
    """
    state = invocation.state
    earlier = state.provided_tools
    if earlier is None or earlier.base is not base:
        without_providers = Toolbox(base.tools, (), base.limits)
        earlier = ProvidedTools(base, (frozenset(),) * len(base.providers), without_providers)
        is_first = True
    else:
        is_first = False
    names, added = list(earlier.names), list[Tool]()
    for index, provider in enumerate(base.providers):
        if is_first or is_dynamic(provider):
            in_thread = not inspect.iscoroutinefunction(provider.tools)
            try:
                provided = yield Run(partial(provider.tools, invocation), in_thread=in_thread)
                tools = provider_tools(provider, provided)
            except ToolDefinitionError as error:
                raise DefinitionError([DefinitionProblem(invocation.plan.qualname, str(error))]) from error
            new = [tool for tool in tools if tool.name not in names[index]]
            names[index] |= {tool.name for tool in new}
            added += new
    if added or is_first:
        toolbox = _extended(earlier.toolbox, added, invocation) if added else earlier.toolbox
        state.provided_tools = earlier = ProvidedTools(base, tuple(names), toolbox)
    return earlier.toolbox


def _extended(toolbox: Toolbox, tools: list[Tool], invocation: Invocation) -> Toolbox:
    try:
        extended = toolbox.with_tools(tools)
    except ToolDefinitionError as error:
        raise DefinitionError([DefinitionProblem(invocation.plan.qualname, str(error))]) from error
    problems = list(_problems(tools, invocation))
    if problems:
        raise DefinitionError(problems)
    return extended


def _problems(tools: Iterable[Tool], invocation: Invocation) -> Iterator[DefinitionProblem]:
    plan = invocation.plan
    parameters = {**invocation.arguments, **invocation.tool_context}
    for tool in tools:
        yield from tool_problems(
            tool, parameters, plan.role_names, is_async=plan.is_async, qualname=plan.qualname
        )
        if any(tool.name in route.strategies.output_tool_names() for route in plan.routes):
            message = f"the tool {tool.name} has the name of the tool that gives the answer; rename it"
            yield DefinitionProblem(plan.qualname, message)
