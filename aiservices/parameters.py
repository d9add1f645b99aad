"""The parameters of a method: which are data for the prompt, and which have a role of their own."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Union, get_origin

from output_parsers.target import Target

from .contents import Audio, File, Image
from .declare import History, MemoryId, ToolContext, UserName
from .messages import UserMessage
from .requests import ChatOptions

__all__ = ["Parameter", "Role", "RoleFault", "parameters_of"]


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


class RoleFault(TypeError):  # becomes a Fault once it is known where it stands
    """Parameters with two roles, or roles that two parameters have; each of its ``args`` is one fault."""


class Parameter(NamedTuple):
    """One parameter after ``self``; ``types`` are the classes its annotation names, unions taken apart."""

    name: str
    role: Role | None
    types: tuple[Any, ...]


def parameters_of(signature: inspect.Signature, hints: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """The parameters of a method but for its first. Raises RoleFault."""
    faults = []
    found = []
    for name in list(signature.parameters)[1:]:
        roles = _roles(hints.get(name))
        if len(roles) > 1:
            both = " and ".join(role.value for role in roles)
            faults.append(f"the parameter {name} has two roles: {both}; it can have one")
        if Role.MEDIA in roles:
            faults.extend(_media_faults(name, hints[name], signature.parameters[name].kind))
        found.append(Parameter(name, roles[0] if roles else None, _types(hints.get(name))))
    for role in Role:
        holders = [parameter.name for parameter in found if parameter.role is role]
        if len(holders) > 1 and role not in (Role.TOOL_CONTEXT, Role.MEDIA):
            faults.append(f"the parameters {' and '.join(holders)} have the same role, {role.value}")
    if faults:
        raise RoleFault(*faults)
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
            yield target.form
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
    return tuple(target.form for target in _members(hint) if target.origin is not Union)
