"""Text from a language model → a typed Python value, usable by itself.

Parsers in the manner of other libraries are in ``output_parsers.text`` and ``output_parsers.tool_calls``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .custom import OutputParser
from .errors import OutputParsingError, Problem, UnsupportedTypeError
from .integers import Int8, Int16, Int32, Int64
from .parse import parse, parser_for, read
from .parser import TypeParser
from .reading import Coercion, Leniency, Reading
from .registry import ParserFactory, ParserRegistry
from .target import Description, Target
from .temporal_text import DateOrder

if TYPE_CHECKING:
    from .partial import (
        ItemError,
        ItemPolicy,
        ItemReader,
        PartialList,
        PartialObject,
        PartialReader,
        Snapshot,
    )

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

# Reading while a reply is written is loaded when it is asked for: most replies come whole.
_OF_PARTIAL = frozenset(
    ("ItemError", "ItemPolicy", "ItemReader", "PartialList", "PartialObject", "PartialReader", "Snapshot")
)


def __getattr__(name: str) -> Any:
    if name not in _OF_PARTIAL:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module("output_parsers.partial"), name)
    globals()[name] = value
    return value
