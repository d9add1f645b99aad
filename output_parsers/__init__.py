"""Read text from a language model as a typed Python value.

This package works without ``aiservices``. Parsers with the interfaces of LangChain and AgentScope are in
``output_parsers.text`` and ``output_parsers.tool_calls``.
"""

from __future__ import annotations

from typing import Any

# The module of each public name. It is imported when the name is first used, so that declaring an interface
# does not import the code that calls models. ``__init__.pyi`` tells type checkers the same.
_NAMES = {
    ".parser.registry": "ParserFactory ParserRegistry parse parser_for read",
    ".parser.type_parser": "TypeParser",
    ".prose.times": "DateOrder",
    ".result.errors": "OutputParsingError Problem UnsupportedTypeError",
    ".result.reading": "Coercion Leniency Reading",
    ".streaming": "ItemError ItemPolicy ItemReader PartialList PartialObject PartialReader Snapshot",
    ".types.node": "OutputParser",
    ".types.target": "Description Int8 Int16 Int32 Int64 Target",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]  # it reads __init__.pyi


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
