"""Writes methods as they are declared, for people."""

from __future__ import annotations

import inspect
from typing import Any

from output_parsers.target import type_name

__all__ = ["counted", "signature_text"]

_STARS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def signature_text(where: str, signature: inspect.Signature) -> str:
    """``Service.method(text: str, limit: int = 3) -> bool``, with the types as they are written."""
    parts, starred = [], False
    for parameter in signature.parameters.values():
        star = _STARS.get(parameter.kind, "")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or parameter.kind in (parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY)
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(f"{star}{parameter.name}: {_written(parameter.annotation)}{default}")
    return f"{where}({', '.join(parts)}) -> {_written(signature.return_annotation)}"


def _written(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else type_name(annotation)


def counted(number: int, thing: str) -> str:
    """``1 method``, ``2 methods``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
