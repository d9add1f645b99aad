"""Makes up arguments for a method, so that its prompt can be shown."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

from output_parsers import UnsupportedTypeError, parser_for
from output_parsers.parser import TypeParser

from ..messages import UserMessage
from ..parameters import Parameter, Role
from ..service import plan_of
from .source import Dice
from .typed_values import value_of

__all__ = ["samples_for"]

_OF_ROLES: dict[Role, Any] = {Role.HISTORY: (), Role.TOOL_CONTEXT: None, Role.OPTIONS: None}


def samples_for(method: Any) -> dict[str, Any]:
    """An argument for each parameter without a default: ``<name>`` for text, else a value of its type.

    Raises TypeError, with what to do, for a parameter whose type is not known well enough.
    """
    plan = plan_of(method)
    needed = {
        name
        for name, parameter in plan.signature.parameters.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    }
    hints = _hints(method)
    return {p.name: _sample(p, hints, plan.where) for p in plan.parameters if p.name in needed}


def _hints(method: Any) -> dict[str, Any]:
    stub = inspect.unwrap(method)
    try:
        return get_type_hints(stub, include_extras=True)
    except NameError:  # a name of the function around it, which is known no more
        return {}


def _sample(parameter: Parameter, hints: dict[str, Any], where: str) -> Any:
    name, role = parameter.name, parameter.role
    if role in _OF_ROLES:
        return _OF_ROLES[role]
    if role is Role.USER_MESSAGE:
        return UserMessage(f"<{name}>")
    if role in (Role.MEMORY_ID, Role.USER_NAME) or str in parameter.types:
        return f"<{name}>"
    try:
        if role is Role.MEDIA or name not in hints:
            raise UnsupportedTypeError(name, "", [], "")
        parser = parser_for(hints[name])
        return value_of(parser if isinstance(parser, TypeParser) else TypeParser.around(parser), Dice(name))
    except (UnsupportedTypeError, LookupError) as error:
        method = where.rpartition(".")[2]
        raise TypeError(
            f"{where}: nothing is known to pass for {name}; give the arguments: "
            f"golden(service, {method}={{{name!r}: …}})"
        ) from error
