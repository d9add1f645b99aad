"""Reading text as a type in one call."""

from __future__ import annotations

from typing import TypeVar, cast

from typing_extensions import TypeForm

from .parser import TypeParser
from .reading import Leniency, Reading
from .registry import DEFAULT_REGISTRY

__all__ = ["parse", "parser_for", "read"]

T = TypeVar("T")


def parser_for(form: TypeForm[T]) -> TypeParser[T]:
    """The parser for a type, made once. Raises UnsupportedTypeError when nothing reads the type."""
    return cast(TypeParser[T], DEFAULT_REGISTRY.parser_for(form))


def parse(form: TypeForm[T], text: str, *, leniency: Leniency = Leniency.SAFE) -> T:
    """The value of type ``form`` that ``text`` stands for.

    Raises OutputParsingError, and nothing else, when the text is unfit, and UnsupportedTypeError when
    nothing reads the type.
    """
    return parser_for(form).parse(text, leniency)


def read(form: TypeForm[T], text: str, *, leniency: Leniency = Leniency.SAFE) -> Reading[T]:
    """As ``parse``, with the steps away from the exact text that reading took."""
    return parser_for(form).read(text, leniency)
