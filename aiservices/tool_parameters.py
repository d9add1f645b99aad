"""Takes a function apart that is to be a tool: its name, its parameters, and what is said of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, NotRequired, Union, get_type_hints

from pydantic_core import to_json

from output_parsers.target import Description, Target

from .declare import History, MemoryId, ToolContext, UserName
from .requests import ChatOptions

__all__ = ["ToolFault", "inside_of", "is_async", "name_of", "parameters_of", "summary_of"]

_INJECTED = (ToolContext, MemoryId, UserName)
_OF_A_CALL = (History, ChatOptions)  # what is neither the model's to say nor a tool's to be given
_SECTIONS = re.compile(
    r"^[ \t]*(?:(?:Args|Arguments|Parameters|Returns|Raises|Yields)[ \t]*(?::|\n[ \t]*---)"
    r"|:(?:param|returns?)\b)",
    re.MULTILINE,
)
_PARAMETER = re.compile(
    r"[ \t]*(?::param (?:\S+ )?(\w+):|(\w+)(?: \([^)]*\))?:(?=.*\S)|(\w+) : .*$)[ \t]*(.*)"
)


class ToolFault(TypeError):  # becomes a Fault once it is known where it stands
    """A function that cannot be a tool."""


def inside_of(function: Any) -> Any:
    """The function itself, without partials and decorators around it."""
    while True:
        inner = function.func if isinstance(function, partial) else inspect.unwrap(function)
        if inner is function:
            return function
        function = inner


def name_of(function: Any) -> str:
    """The name of a function, or of the class of an object that is called."""
    said = getattr(function, "__name__", "__call__")
    return said if said != "__call__" else type(getattr(function, "__self__", function)).__name__


def is_async(function: Any) -> bool:
    """Whether a function, a partial of one or an object that is called has to be awaited for certain."""
    called = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def summary_of(docs: str) -> str:
    """A docstring without what it says of single parameters and of the result."""
    return _SECTIONS.split(docs, maxsplit=1)[0].strip()


def parameters_of(
    function: Any, inner: Any, name: str, docs: str, namespace: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, type]]:
    """The types of the parameters that the model sees, and the roles of those that it does not."""
    hints = _hints(inner, name, namespace)
    bound = function.keywords if isinstance(function, partial) else {}
    told = dict(_told(docs))
    fields: dict[str, Any] = {}
    injected: dict[str, type] = {}
    for parameter in _signature(function, name).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolFault(f"the tool {name} has the parameter {parameter}; a model gives arguments by name")
        if parameter.name in bound:
            continue
        if parameter.name not in hints:
            raise ToolFault(f"the tool {name} does not say of what type its parameter {parameter.name} is")
        marks = list(_marks(hints[parameter.name]))
        role = next((mark for mark in marks if mark in _INJECTED), None)
        if role is not None:
            injected[parameter.name] = role
        elif not any(mark in _OF_A_CALL for mark in marks):
            fields[parameter.name] = _described(hints[parameter.name], parameter, told.get(parameter.name))
        elif parameter.default is parameter.empty:
            said = f"the tool {name} needs {parameter.name}, which no tool is given; give it a default"
            raise ToolFault(said)
    return fields, injected


def _signature(function: Any, name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ToolFault(f"the tool {name} does not say what its parameters are: {error}") from error


def _hints(function: Any, name: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(target, localns=dict(namespace), include_extras=True)
    except Exception as error:  # a string annotation may hold any expression
        raise ToolFault(f"an annotation of the tool {name} cannot be resolved: {error}") from error


def _marks(hint: Any) -> Iterator[type]:
    """What a type is, and what it is marked with; of a union, that of each member."""
    target = Target.of(hint)
    yield from (mark if isinstance(mark, type) else type(mark) for mark in target.metadata)
    if target.origin is Union:
        for member in target.args:
            yield from _marks(member)
    elif isinstance(target.form, type):
        yield target.form


def _described(hint: Any, parameter: inspect.Parameter, told: str | None) -> Any:
    """The type of an argument with what is said of it; one with a default may be left out."""
    said = Target.of(hint).description or told
    default = parameter.default
    if default is parameter.empty:
        return hint if said is None else Annotated[hint, Description(said)]
    if isinstance(default, (str, int, float)):
        default = f"Default: {to_json(default).decode()}"
        said = f"{said.rstrip('.')}. {default}" if said else default
    return NotRequired[hint if said is None else Annotated[hint, Description(said)]]


def _told(docs: str) -> Iterator[tuple[str, str]]:
    """What a docstring says of parameters, in the styles of Google, NumPy and Sphinx."""
    name, indent, said = "", 0, ""
    for line in docs.splitlines():
        found, deep = _PARAMETER.match(line), len(line) - len(line.lstrip())
        if name and line.strip() and deep > indent:
            said = f"{said} {line.strip()}".strip()
            continue
        yield name, said
        name, indent, said = "", 0, ""
        if found is not None:
            name, indent, said = found[1] or found[2] or found[3], deep, found[4].strip()
    yield name, said
