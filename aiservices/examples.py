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

__all__ = ["plan_examples"]


def plan_examples(
    sources: Sequence[ExampleSource],
    signature: inspect.Signature,
    parameters: Sequence[Parameter],
    it: str | None,
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
            _check(source.value, parser)
        except (TypeError, ValueError) as error:
            faults.append(Fault(place, f"its example does not fit: {error}"))
            continue
        said = arguments if it is None else {**arguments, "it": arguments[it]}
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


def _check(value: Any, parser: OutputParser[Any] | None) -> None:
    """Raises ValueError where a model that wrote this value would not be read as having written it."""
    if parser is None:
        raise ValueError("the method hands back the reply itself, of which no example can be shown")
    typed = parser if isinstance(parser, TypeParser) else TypeParser.around(parser)
    typed.write(value)
