"""The parameters of a method: which are data for the prompt, and which have a role of their own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Annotated, Any, NamedTuple, NotRequired, Union, get_origin, get_type_hints

from pydantic_core import to_json

from output_parsers.types.target import Description, Target

from ..models.media import Audio, File, Image
from ..models.messages import UserMessage
from ..models.requests import ChatOptions
from .decorators import History, MemoryId, ToolContext, UserName


class Role(Enum):
    """What a parameter is, other than data for the templates."""

    MEMORY_ID = "MemoryId"
    USER_NAME = "UserName"
    HISTORY = "History"
    TOOL_CONTEXT = "ToolContext"
    USER_MESSAGE = "UserMessage"
    OPTIONS = "ChatOptions"
    MEDIA = "media"


_MARKERS: dict[Any, Role] = {
    MemoryId: Role.MEMORY_ID,
    UserName: Role.USER_NAME,
    History: Role.HISTORY,
    ToolContext: Role.TOOL_CONTEXT,
    UserMessage: Role.USER_MESSAGE,
}
_MEDIA = frozenset((Image, Audio, File))
_LISTS = (list, tuple, Sequence, Collection, Iterable)


class RoleError(TypeError):  # becomes a Fault once it is known where it stands
    """Parameters with two roles, or roles that two parameters have; each of its ``args`` is one fault."""


class Parameter(NamedTuple):
    """One parameter after ``self``; ``types`` are the classes its annotation names, unions taken apart."""

    name: str
    role: Role | None
    types: tuple[Any, ...]


def method_parameters(signature: inspect.Signature, hints: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """The parameters of a method but for its first. Raises RoleError."""
    problems = []
    found = []
    for name in list(signature.parameters)[1:]:
        roles = _roles(hints.get(name))
        if len(roles) > 1:
            both = " and ".join(role.value for role in roles)
            problems.append(f"the parameter {name} has two roles: {both}; it can have one")
        if Role.MEDIA in roles:
            problems.extend(_media_faults(name, hints[name], signature.parameters[name].kind))
        found.append(Parameter(name, roles[0] if roles else None, _types(hints.get(name))))
    for role in Role:
        holders = [parameter.name for parameter in found if parameter.role is role]
        if len(holders) > 1 and role not in (Role.TOOL_CONTEXT, Role.MEDIA):
            problems.append(f"the parameters {' and '.join(holders)} have the same role, {role.value}")
    if problems:
        raise RoleError(*problems)
    return tuple(found)


def _roles(hint: Any) -> list[Role]:
    marks = [item if isinstance(item, type) else type(item) for item in _metadata(hint)]
    roles = [_MARKERS[mark] for mark in marks if mark in _MARKERS]
    types = _types(hint)
    if ChatOptions in types:
        roles.append(Role.OPTIONS)
    if UserMessage in types and Role.USER_MESSAGE not in roles:
        roles.append(Role.USER_MESSAGE)
    if not _MEDIA.isdisjoint(_parts(hint)):
        roles.append(Role.MEDIA)
    return roles


def _parts(hint: Any) -> Iterator[Any]:
    """The types in a hint; those that are taken apart no further are given with what is inside of them."""
    for target in _members(hint):
        if target.origin is Union:
            continue
        if target.origin not in _LISTS or not target.args:
            yield target.type
        for arg in target.args:
            origin = get_origin(arg)  # an alias may stand for itself, and is left alone
            if isinstance(arg, type) or isinstance(origin, type) or origin is Union:
                yield from _parts(arg)


def _media_faults(name: str, hint: Any, kind: Any) -> Iterator[str]:
    if kind is inspect.Parameter.VAR_KEYWORD:
        yield f"the parameter **{name} takes media by any name; name each one, or take *{name}"
    if not all(part is None or part in _MEDIA for part in _parts(hint)):
        forms = "an Image, Audio or File, a list of them, or None"
        yield f"the parameter {name} takes media and something else; it can take {forms}"


def _members(hint: Any) -> tuple[Target, ...]:
    """A type without aliases and Annotated; of a union, each member."""
    target = Target.of(hint)
    if target.origin is not Union:
        return (target,)
    return (target, *(member for arg in target.args for member in _members(arg)))


def _metadata(hint: Any) -> tuple[Any, ...]:
    """What Annotated holds, in a member of a union too: ``Annotated[str, UserName] | None``."""
    return tuple(item for target in _members(hint) for item in target.metadata)


def _types(hint: Any) -> tuple[Any, ...]:
    return tuple(target.type for target in _members(hint) if target.origin is not Union)


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


class ToolDefinitionError(TypeError):  # becomes a Fault once it is known where it stands
    """A function that cannot be a tool."""


def unwrapped(function: Any) -> Any:
    """The function itself, without partials and decorators around it."""
    while True:
        inner = function.func if isinstance(function, partial) else inspect.unwrap(function)
        if inner is function:
            return function
        function = inner


def function_name(function: Any) -> str:
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


def tool_parameters(
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
            raise ToolDefinitionError(
                f"the tool {name} has the parameter {parameter}; a model gives arguments by name"
            )
        if parameter.name in bound:
            continue
        if parameter.name not in hints:
            raise ToolDefinitionError(
                f"the tool {name} does not say of what type its parameter {parameter.name} is"
            )
        marks = list(_marks(hints[parameter.name]))
        role = next((mark for mark in marks if mark in _INJECTED), None)
        if role is not None:
            injected[parameter.name] = role
        elif not any(mark in _OF_A_CALL for mark in marks):
            fields[parameter.name] = _described(hints[parameter.name], parameter, told.get(parameter.name))
        elif parameter.default is parameter.empty:
            said = f"the tool {name} needs {parameter.name}, which no tool is given; give it a default"
            raise ToolDefinitionError(said)
    return fields, injected


def _signature(function: Any, name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(f"the tool {name} does not say what its parameters are: {error}") from error


def _hints(function: Any, name: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(target, localns=dict(namespace), include_extras=True)
    except Exception as error:  # a string annotation may hold any expression
        raise ToolDefinitionError(f"an annotation of the tool {name} cannot be resolved: {error}") from error


def _marks(hint: Any) -> Iterator[type]:
    """What a type is, and what it is marked with; of a union, that of each member."""
    target = Target.of(hint)
    yield from (mark if isinstance(mark, type) else type(mark) for mark in target.metadata)
    if target.origin is Union:
        for member in target.args:
            yield from _marks(member)
    elif isinstance(target.type, type):
        yield target.type


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
