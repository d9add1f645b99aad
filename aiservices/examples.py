"""Checks the examples of a method, and readies them to be shown."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from output_parsers.custom import OutputParser
from output_parsers.parser import TypeParser

from .declare import ExampleSource
from .errors import Fault
from .parameters import Parameter, Role
from .plan import Example
from .strategies import INSTRUCTIONS_PLACE
from .wording import Wording

__all__ = ["plan_examples"]


def plan_examples(
    sources: Sequence[ExampleSource],
    signature: inspect.Signature,
    parameters: Sequence[Parameter],
    wording: Wording,
    parser: OutputParser[Any] | None,
    where: str,
    faults: list[Fault],
) -> tuple[Example, ...]:
    """The examples of a method; what is wrong with one goes to ``faults``."""
    found = []
    for number, source in enumerate(sources, 1):
        place = where if len(sources) == 1 else f"{where}, example {number}"
        try:
            arguments = _bound(source, signature, parameters)
            _check_shown({p.name: arguments.get(p.name) for p in parameters if p.role}, wording)
            _check(source.value, parser)
        except (TypeError, ValueError) as error:
            faults.append(Fault(place, f"its example does not fit: {error}"))
            continue
        said = arguments if wording.it is None else {**arguments, "it": arguments[wording.it]}
        found.append(Example({**said, "format_instructions": INSTRUCTIONS_PLACE}, source.value))
    return tuple(found)


def _bound(
    source: ExampleSource, signature: inspect.Signature, parameters: Sequence[Parameter]
) -> dict[str, Any]:
    """The arguments by name; those of a role that templates may show are given by it. Raises TypeError."""
    with_role = {p.name: p.role for p in parameters if p.role not in (None, Role.USER_MESSAGE)}
    told = [
        p.replace(kind=p.KEYWORD_ONLY, default=None) if name in with_role else p
        for name, p in signature.parameters.items()
        if with_role.get(name) in (None, Role.USER_NAME, Role.MEMORY_ID)
    ]
    told.sort(key=lambda p: p.kind)
    bound = signature.replace(parameters=told).bind(*source.args, **source.kwargs)
    bound.apply_defaults()
    return {**dict.fromkeys(with_role), **bound.arguments}


def _check_shown(roles: dict[str, Any], wording: Wording) -> None:
    """Raises TypeError where the prompt shows an argument with a role that the example does not give."""
    shown = () if wording.user is None else wording.user.variables
    missing = [name for name, value in roles.items() if value is None and name in shown]
    if missing:
        raise TypeError(f"the prompt shows {', '.join(missing)}, which it does not give")


def _check(value: Any, parser: OutputParser[Any] | None) -> None:
    """Raises ValueError where a model that wrote this value would not be read as having written it."""
    if parser is None:
        raise ValueError("the method hands back the reply itself, of which no example can be shown")
    typed = parser if isinstance(parser, TypeParser) else TypeParser.around(parser)
    typed.write(value)
