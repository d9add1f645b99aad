"""Functions that a model may call: what it is told of them, and how its arguments reach them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import (
    Annotated,
    Any,
    NotRequired,
    Protocol,
    TypeAlias,
    TypeVar,
    get_origin,
    get_type_hints,
    overload,
    runtime_checkable,
)

from typing_extensions import TypedDict

from output_parsers.errors import UnsupportedTypeError
from output_parsers.parse import parser_for
from output_parsers.parser import TypeParser
from output_parsers.target import Description, Target

from .declare import MemoryId, ToolContext, UserName

__all__ = [
    "ReturnBehavior",
    "Tool",
    "ToolException",
    "ToolFault",
    "ToolProvider",
    "ToolSource",
    "tool",
    "tools_of",
]

F = TypeVar("F", bound=Callable[..., Any])
_ATTRIBUTE = "__aiservices_tool__"
_INJECTED = (ToolContext, MemoryId, UserName)
_SECTIONS = re.compile(r"^\s*(?:Args|Arguments|Parameters|Returns|Raises|:param|:return)", re.MULTILINE)
_PARAMETER = r"^\s*(?::param (?:[\w.\[\]]+ )?(\w+):|(\w+)(?: \([^)]*\))?:)[ \t]*(\S.*)$"
_LISTED = re.compile(_PARAMETER, re.MULTILINE)


class ReturnBehavior(StrEnum):
    """Where the result of a tool goes.

    TO_LLM: to the model, which answers with its help. IMMEDIATE: it is the answer of the method, when no tool
    that was called beside it goes to the model. IMMEDIATE_IF_LAST: it is the answer when it is the last of
    the tools that were called at once.
    """

    TO_LLM = "to_llm"
    IMMEDIATE = "immediate"
    IMMEDIATE_IF_LAST = "immediate_if_last"


class ToolException(Exception):
    """Raised by a tool to tell the model something. The text of no other error is shown to the model."""


class ToolFault(TypeError):  # becomes a Fault once it is known where it stands
    """A function that cannot be a tool."""


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """What ``@tool`` said."""

    name: str | None = None
    description: str | None = None
    return_behavior: ReturnBehavior = ReturnBehavior.TO_LLM
    timeout: float | None = None
    needs_approval: bool = False


@dataclass(frozen=True, eq=False)
class Tool:
    """A function that a model may call.

    ``arguments`` reads what the model writes, as a dict by parameter; ``injected`` are the parameters that
    the model never sees, each with its role. ``asynchronous``: the function is a coroutine function.
    """

    name: str
    description: str
    function: Callable[..., Any]
    arguments: TypeParser[dict[str, Any]]
    injected: Mapping[str, type] = field(default_factory=dict)
    asynchronous: bool = False
    return_behavior: ReturnBehavior = ReturnBehavior.TO_LLM
    timeout: float | None = None
    needs_approval: bool = False


@runtime_checkable
class ToolProvider(Protocol):
    """Says for each call which tools there are. ``turn`` is the call, as interceptors see it."""

    def tools(self, turn: Any) -> Iterable[ToolSource]: ...


# A function, a Tool, an object with methods that are tools, or a provider.
ToolSource: TypeAlias = Callable[..., Any] | Tool | ToolProvider | object


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = ...,
    description: str | None = ...,
    return_behavior: ReturnBehavior | str = ...,
    timeout: float | None = ...,
    needs_approval: bool = ...,
) -> Callable[[F], F]: ...
def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    return_behavior: ReturnBehavior | str = ReturnBehavior.TO_LLM,
    timeout: float | None = None,
    needs_approval: bool = False,
) -> Any:
    """Make a function or a method a tool; it comes back unchanged. A plain function is one without it too.

    The model is told of it by its ``name`` (by default that of the function), its ``description`` (by default
    the docstring) and its parameters: their types, defaults, and what ``Description``, ``Field`` or the
    docstring (a line ``name: text``) says of them. ``timeout`` is in seconds. With ``needs_approval`` a call
    waits for somebody to approve it.
    """
    said = ToolDeclaration(name, description, ReturnBehavior(return_behavior), timeout, needs_approval)

    def decorate(decorated: Any) -> Any:
        setattr(decorated, _ATTRIBUTE, said)
        return decorated

    return decorate if function is None else decorate(function)


def tools_of(source: ToolSource, namespace: Mapping[str, Any] | None = None) -> list[Tool]:
    """The tools that a function or an object has. Raises ToolFault when it has none, or one that cannot be.

    ``namespace`` holds local names that string annotations may use.
    """
    if isinstance(source, Tool):
        return [source]
    if isinstance(source, type):
        raise ToolFault(f"{source.__name__} is a class; pass an object of it, or its methods")
    if inspect.isroutine(source):
        return [_tool(source, namespace or {})]
    found = [
        method
        for attribute in dir(type(source))
        if hasattr(getattr(type(source), attribute, None), _ATTRIBUTE)
        and callable(method := getattr(source, attribute))
    ]
    if found:
        return [_tool(method, namespace or {}) for method in found]
    if callable(source):
        return [_tool(source, namespace or {})]
    raise ToolFault(f"{type(source).__name__} has no tools: decorate its methods with @tool")


def _tool(function: Any, namespace: Mapping[str, Any]) -> Tool:
    said: ToolDeclaration = getattr(function, _ATTRIBUTE, None) or ToolDeclaration()
    name = str(said.name or getattr(function, "__name__", type(function).__name__))
    docs = inspect.getdoc(function) or ""
    hints = _hints(function, name, namespace)
    fields: dict[str, Any] = {}
    injected: dict[str, type] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolFault(f"the tool {name} has the parameter {parameter}; a model gives arguments by name")
        hint = hints.get(parameter.name, Any)
        role = _role(hint)
        if role is not None:
            injected[parameter.name] = role
            continue
        if parameter.name not in hints:
            raise ToolFault(f"the tool {name} does not say of what type its parameter {parameter.name} is")
        fields[parameter.name] = _described(hint, parameter, docs)
    made = _record(f"{name}_arguments", fields)
    try:
        arguments: TypeParser[dict[str, Any]] = parser_for(made)
    except UnsupportedTypeError as error:
        raise ToolFault(f"the tool {name}: {error}") from error
    return Tool(
        name,
        said.description or _summary(docs) or name,
        function,
        arguments,
        injected,
        inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(function),
        said.return_behavior,
        said.timeout,
        said.needs_approval,
    )


def _record(name: str, fields: dict[str, Any]) -> Any:
    return TypedDict(name, fields)  # type: ignore[operator]  # its fields are known when the tool is


def _hints(function: Any, name: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    target = inspect.unwrap(function)
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return get_type_hints(target, localns=dict(namespace), include_extras=True)
    except Exception as error:  # a string annotation may hold any expression
        raise ToolFault(f"an annotation of the tool {name} cannot be resolved: {error}") from error


def _role(hint: Any) -> type | None:
    """The role of a parameter that the model never sees."""
    if get_origin(hint) is not Annotated:
        return None
    marks = [mark if isinstance(mark, type) else type(mark) for mark in hint.__metadata__]
    return next((mark for mark in marks if mark in _INJECTED), None)


def _described(hint: Any, parameter: inspect.Parameter, docs: str) -> Any:
    """The type of an argument with what is said of it; one with a default may be left out."""
    told = {first or second: text.strip() for first, second, text in _LISTED.findall(docs)}
    if parameter.name in told and Target.of(hint).description is None:
        hint = Annotated[hint, Description(told[parameter.name])]
    return hint if parameter.default is parameter.empty else NotRequired[hint]


def _summary(docs: str) -> str:
    """A docstring without what it says of single parameters and of the result."""
    text = re.split(
        r"^\s*(?:Args|Arguments|Parameters|Returns|Raises|:param|:return)", docs, flags=re.MULTILINE
    )[0]
    return text.strip()
