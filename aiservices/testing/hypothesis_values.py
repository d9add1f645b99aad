"""Let the testing library Hypothesis choose generated values: edge cases first, and simplified failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from hypothesis import reject, strategies as st
from typing_extensions import TypeForm

from output_parsers import parser_for
from output_parsers.parser.type_parser import TypeParser

from .values import value_for

T = TypeVar("T")
_EXTRA_ITEMS = 5


class HypothesisChoices:
    """Lets the testing library Hypothesis make the random choices when values are generated.

    ``draw`` is the function that Hypothesis passes to a composite strategy, or ``st.data().draw``.
    """

    def __init__(self, draw: Callable[[st.SearchStrategy[object]], object]) -> None:
        self._draw = draw

    def integer(self, low: int | None, high: int | None) -> int:
        return cast(int, self._draw(st.integers(low, high)))

    def number(self, low: float | None, high: float | None) -> float:
        return cast(float, self._draw(st.floats(low, high, allow_nan=False, allow_infinity=False)))

    def one_of(self, options: Sequence[T]) -> T:
        return cast(T, self._draw(st.sampled_from(options)))

    def size(self, least: int, most: int | None) -> int:
        largest = least + _EXTRA_ITEMS
        return self.integer(least, largest if most is None else min(most, largest))

    def text(self, least: int, most: int | None) -> str:
        characters = st.characters(exclude_categories=["Cs"])  # lone surrogates cannot be written as UTF-8
        return cast(str, self._draw(st.text(characters, min_size=least, max_size=most)))

    def matching(self, pattern: str) -> str:
        return cast(str, self._draw(st.from_regex(pattern)))

    def reject(self) -> None:
        reject()


def strategy_of(output_type: TypeForm[T] | TypeParser[T]) -> st.SearchStrategy[T]:
    """Return a Hypothesis strategy that generates values of a return type.

    Each value is parsed from JSON text by the type's parser. ``output_type`` is the type, or its parser.
    Raises UnsupportedTypeError for a type that has no parser.

        @given(strategy_of(Ticket))
        def test_every_ticket_has_a_title(ticket): ...
    """
    parser = output_type if isinstance(output_type, TypeParser) else parser_for(output_type)
    typed: TypeParser[T] = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)

    @st.composite
    def values(draw: Callable[[st.SearchStrategy[object]], object]) -> T:
        return value_for(typed, HypothesisChoices(draw))

    return values()
