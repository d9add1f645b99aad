"""Convert a language model's reply to a typed Python value.

``parse`` returns the value, and ``read`` also returns the conversions and repairs that were needed.
``parser_for`` returns the parser for a type. ``PartialReader`` reads a value while the model writes it, and
``ItemReader`` reads a list item by item. ``ParserRegistry`` adds parsers for other types.

This package does not need ``aiservices``. Parsers with the interfaces of LangChain and AgentScope are in
``output_parsers.text`` and ``output_parsers.tool_calls``.
"""

from __future__ import annotations

# The module of each public name. A module is imported when one of its names is first used, which keeps the
# import of this package fast. ``__init__.pyi`` lists the same names for type checkers.
_NAMES = {
    ".parser.type_parser": "ParserFactory ParserRegistry TypeParser parse parser_for read",
    ".prose.numbers": "NumberStyle",
    ".prose.times": "DateOrder",
    ".result.errors": "OutputParsingError Problem UnsupportedTypeError ValidatorError",
    ".result.reading": "Coercion Leniency Reading",
    ".streaming": "ItemError ItemPolicy ItemReader PartialList PartialObject PartialReader Snapshot",
    ".types.cited": "Cited CitedSentence CitedText Quote",
    ".types.decisions": "Decision Scale",
    ".types.node": "OutputParser",
    ".types.target": "Description Int16 Int32 Int64 Int8 Target",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]  # names are in the .pyi


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
