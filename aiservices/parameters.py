"""The parameters of a method: which are data for the prompt, and which have a role of their own."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from .declare import History, MemoryId, ToolContext, UserName
from .messages import ChatOptions, UserMessage

__all__ = ["Parameter", "Role", "RoleFault", "parameters_of"]


class Role(Enum):
    """What a parameter is, other than data for the templates."""

    MEMORY_ID = "MemoryId"
    USER_NAME = "UserName"
    HISTORY = "History"
    TOOL_CONTEXT = "ToolContext"
    USER_MESSAGE = "UserMessage"
    OPTIONS = "ChatOptions"


_MARKERS: dict[Any, Role] = {
    MemoryId: Role.MEMORY_ID,
    UserName: Role.USER_NAME,
    History: Role.HISTORY,
    ToolContext: Role.TOOL_CONTEXT,
    UserMessage: Role.USER_MESSAGE,
}


class RoleFault(TypeError):  # becomes a Fault once it is known where it stands
    """Parameters with two roles, or roles that two parameters have; each of its ``args`` is one fault."""


@dataclass(frozen=True, slots=True)
class Parameter:
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
        found.append(Parameter(name, roles[0] if roles else None, _types(hints.get(name))))
    for role in Role:
        holders = [parameter.name for parameter in found if parameter.role is role]
        if len(holders) > 1 and role is not Role.TOOL_CONTEXT:
            faults.append(f"the parameters {' and '.join(holders)} have the same role, {role.value}")
    if faults:
        raise RoleFault(*faults)
    return tuple(found)


def _roles(hint: Any) -> list[Role]:
    marks = [item if isinstance(item, type) else type(item) for item in _metadata(hint)]
    roles = [_MARKERS[mark] for mark in marks if mark in _MARKERS]
    return [*roles, Role.OPTIONS] if ChatOptions in _types(hint) else roles


def _metadata(hint: Any) -> tuple[Any, ...]:
    """What Annotated holds, in a member of a union too: ``Annotated[str, UserName] | None``."""
    if get_origin(hint) is Annotated:
        return tuple(hint.__metadata__)
    if get_origin(hint) in (Union, UnionType):
        return tuple(item for member in get_args(hint) for item in _metadata(member))
    return ()


def _types(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        return tuple(inner for argument in get_args(hint) for inner in _types(argument))
    return (hint,)
