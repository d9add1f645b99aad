"""Text from a language model → a typed Python value, usable by itself.

Parsers in the manner of other libraries are in ``output_parsers.text`` and ``output_parsers.tool_calls``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .custom import OutputParser
    from .errors import OutputParsingError, Problem, UnsupportedTypeError
    from .integers import Int8, Int16, Int32, Int64
    from .parser import TypeParser
    from .parsing import parse, parser_for, read
    from .partial import (
        ItemError,
        ItemPolicy,
        ItemReader,
        PartialList,
        PartialObject,
        PartialReader,
        Snapshot,
    )
    from .reading import Coercion, Leniency, Reading
    from .registry import ParserFactory, ParserRegistry
    from .target import Description, Target
    from .temporal_text import DateOrder

__all__ = [
    "Coercion",
    "DateOrder",
    "Description",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "ItemError",
    "ItemPolicy",
    "ItemReader",
    "Leniency",
    "OutputParser",
    "OutputParsingError",
    "ParserFactory",
    "ParserRegistry",
    "PartialList",
    "PartialObject",
    "PartialReader",
    "Problem",
    "Reading",
    "Snapshot",
    "Target",
    "TypeParser",
    "UnsupportedTypeError",
    "parse",
    "parser_for",
    "read",
]

# Where each name lives. A module is loaded when the first of its names is asked for.
_HOMES = {
    ".custom": "OutputParser",
    ".errors": "OutputParsingError Problem UnsupportedTypeError",
    ".integers": "Int8 Int16 Int32 Int64",
    ".parser": "TypeParser",
    ".parsing": "parse parser_for read",
    ".partial": "ItemError ItemPolicy ItemReader PartialList PartialObject PartialReader Snapshot",
    ".reading": "Coercion Leniency Reading",
    ".registry": "ParserFactory ParserRegistry",
    ".target": "Description Target",
    ".temporal_text": "DateOrder",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
