"""Lets Hypothesis choose the values: edges first, and shrunk when a test fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import reject, strategies as st
from typing_extensions import TypeForm

from output_parsers import parser_for
from output_parsers.parser.type_parser import TypeParser

from .values import Source, value_of

T = TypeVar("T")
_MORE = 5  # items beyond the least


class Drawn:
    """A Source that draws its choices in a test of Hypothesis."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def integer(self, low: int | None, high: int | None) -> int:
        return self._int(st.integers(low, high))

    def number(self, low: float | None, high: float | None) -> float:
        number: float = self._draw(st.floats(low, high, allow_nan=False, allow_infinity=False))
        return number

    def one_of(self, options: Sequence[T]) -> T:
        chosen: T = self._draw(st.sampled_from(options))
        return chosen

    def size(self, least: int, most: int | None) -> int:
        return self._int(st.integers(least, least + _MORE if most is None else min(most, least + _MORE)))

    def text(self, least: int, most: int | None) -> str:
        letters = st.characters(exclude_categories=["Cs"])  # half a character is no text
        said: str = self._draw(st.text(letters, min_size=least, max_size=most))
        return said

    def matching(self, pattern: str) -> str:
        said: str = self._draw(st.from_regex(pattern))
        return said

    def reject(self) -> None:
        reject()

    def _int(self, strategy: st.SearchStrategy[int]) -> int:
        number: int = self._draw(strategy)
        return number


def strategy_of(form: TypeForm[T] | TypeParser[T]) -> st.SearchStrategy[T]:
    """Values of a type that a model could answer with, those that Hypothesis finds interesting.

    Each one is read from a JSON text by the parser of the type. Raises UnsupportedTypeError for a type that
    no parser reads.
    """
    parser: Any = form if isinstance(form, TypeParser) else parser_for(form)
    typed: TypeParser[T] = parser if isinstance(parser, TypeParser) else TypeParser.around(parser)

    @st.composite
    def values(draw: Callable[[st.SearchStrategy[Any]], Any]) -> T:
        source: Source = Drawn(draw)
        return value_of(typed, source)

    return values()
