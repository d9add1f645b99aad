"""Text from a language model → a typed Python value, usable by itself."""

from .custom import OutputParser
from .errors import OutputParsingError, Problem, UnsupportedTypeError
from .integers import Int8, Int16, Int32, Int64
from .parse import parse, parser_for, read
from .parser import TypeParser
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
    "Leniency",
    "OutputParser",
    "OutputParsingError",
    "ParserFactory",
    "ParserRegistry",
    "Problem",
    "Reading",
    "Target",
    "TypeParser",
    "UnsupportedTypeError",
    "parse",
    "parser_for",
    "read",
]
