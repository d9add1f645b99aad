"""Functions that a model may call: what it is told of them, and how its arguments reach them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, overload, runtime_checkable

from typing_extensions import TypedDict

from output_parsers.parser.registry import parser_for
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import UnsupportedTypeError

from ..interface.parameters import (
    ToolFault,
    inside_of,
    is_async,
    name_of,
    summary_of,
    tool_parameters_of as parameters_of,
)

F = TypeVar("F", bound=Callable[..., Any])
# Who reads those that the model writes, and the roles of those that it never sees.
Parameters: TypeAlias = tuple[TypeParser[dict[str, Any]], Mapping[str, type]]
_ATTRIBUTE = "__aiservices_tool__"


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


class ToolDeclaration(NamedTuple):
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
    """Says for each call which tools there are. ``invocation`` is the call, as interceptors see it."""

    def tools(self, invocation: Any) -> Iterable[ToolSource]: ...


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
    """Make a function or a method a tool; it comes back unchanged, a method of an object as a partial of it.

    A plain function is a tool without it too.

    The model is told of it by its ``name`` (by default that of the function), its ``description`` (by default
    the docstring) and its parameters: their types, defaults, and what ``Description``, ``Field`` or the
    docstring (a line ``name: text``) says of them. ``timeout`` is in seconds. With ``needs_approval`` a call
    waits for somebody to approve it.
    """
    said = ToolDeclaration(name, description, ReturnBehavior(return_behavior), timeout, needs_approval)

    def decorate(decorated: Any) -> Any:
        try:
            setattr(_holder(decorated), _ATTRIBUTE, said)
        except AttributeError:  # a method of an object holds nothing of its own
            decorated = partial(decorated)
            setattr(decorated, _ATTRIBUTE, said)
        return decorated

    return decorate if function is None else decorate(function)


def _holder(decorated: Any) -> Any:
    """What keeps what is said of a function: of a static or a class method the function inside."""
    return decorated.__func__ if isinstance(decorated, (staticmethod, classmethod)) else decorated


def tools_of(source: ToolSource, namespace: Mapping[str, Any] | None = None) -> list[Tool]:
    """The tools that a function or an object has. Raises ToolFault when it has none, or one that cannot be.

    ``namespace`` holds local names that string annotations may use.
    """
    if isinstance(source, Tool):
        return [source]
    if isinstance(source, type):
        raise ToolFault(f"{source.__name__} is a class; pass an object of it, or its methods")
    if inspect.isroutine(source) or isinstance(source, partial):
        return [_tool(source, namespace or {})]
    found = tool_methods(source)
    if found:
        return [_tool(method, namespace or {}) for method in found]
    if callable(source):
        return [_tool(source, namespace or {})]
    raise ToolFault(f"{type(source).__name__} has no tools: decorate its methods with @tool")


def tool_methods(source: object) -> list[Callable[..., Any]]:
    """The methods of an object that are decorated."""
    cls = type(source)
    names = [name for name in dir(cls) if _declared(getattr(cls, name, None)) is not None]
    return [method for name in names if callable(method := getattr(source, name))]


def _declared(function: object) -> ToolDeclaration | None:
    said = getattr(function, _ATTRIBUTE, None)
    return said if isinstance(said, ToolDeclaration) else None


def _tool(function: Any, namespace: Mapping[str, Any]) -> Tool:
    inner = inside_of(function)
    said = _declared(function) or _declared(inner) or ToolDeclaration()
    name = str(said.name or name_of(inner))
    if said.timeout is not None and said.timeout <= 0:
        raise ToolFault(f"the timeout of the tool {name} is {said.timeout:g}; it must be greater than 0")
    docs = inspect.getdoc(inner) or ""
    # what providers give is the same function in each call, or a method of another object
    plain = getattr(function, "__func__", function)
    if function is inner and type(plain) is FunctionType and not plain.__closure__ and not namespace:
        arguments, injected = _known_parameters(plain, plain is not function, name, docs)
    else:
        arguments, injected = _parameters(function, inner, name, docs, namespace)
    return Tool(
        name=name,
        description=said.description or summary_of(docs) or name,
        function=function,
        arguments=arguments,
        injected=injected,
        asynchronous=is_async(function) or is_async(inner),  # decorators may hide it
        return_behavior=said.return_behavior,
        timeout=said.timeout,
        needs_approval=said.needs_approval,
    )


@lru_cache(maxsize=1024)
def _known_parameters(function: FunctionType, bound: bool, name: str, docs: str) -> Parameters:
    """The parameters of a function without a closure, which holds nothing of a call and so may be kept."""
    called = MethodType(function, function) if bound else function  # whose method it is does not matter
    return _parameters(called, called, name, docs, {})


def _parameters(function: Any, inner: Any, name: str, docs: str, namespace: Mapping[str, Any]) -> Parameters:
    try:
        fields, injected = parameters_of(function, inner, name, docs, namespace)
        return parser_for(_record(f"{name}_arguments", fields)), injected
    except UnsupportedTypeError as error:
        raise ToolFault(f"the tool {name}: {error}") from error


def _record(name: str, fields: dict[str, Any]) -> Any:
    return TypedDict(name, fields)  # type: ignore[operator]  # its fields are known when the tool is
