"""What an iterator gives of a synthesis: the answers of its parts, or the answer to its last question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args, get_origin

from output_parsers.target import type_name

from ..errors import DefinitionError, Fault
from ..pieces import Items, Pieces, Texts
from ..plan import Turn
from .modes import Mode, PartAnswered

__all__ = ["Iterated", "Shown", "iterated"]


class Iterated(NamedTuple):
    """What is made of the turn of the last question, and the form in which that is asked."""

    pieces: Callable[[Turn], Pieces]
    form: Any


def iterated(mode: Mode, form: Any) -> Iterated:
    """How the answer of a mode is given piece by piece. Raises DefinitionError where it has no pieces."""
    if form is str or mode is Mode.ACCUMULATE:
        return Iterated(Texts, form)
    if get_origin(form) is list:
        return Iterated(Items, Iterator[get_args(form)[0]])  # type: ignore[misc]
    said = f"{type_name(form)} is neither text nor a list, of which there are pieces; take stream"
    raise DefinitionError([Fault("Synthesizer.iterate", said)])


class Shown:
    """The pieces of one synthesis; those of its last question once that ``begins``."""

    def __init__(self, pieces: Callable[[Turn], Pieces]) -> None:
        self._made = pieces
        self._pieces: Pieces | None = None

    def begins(self, turn: Turn) -> None:
        self._pieces = self._made(turn)

    def take(self, event: Any) -> Iterator[Any]:
        if type(event) is PartAnswered:
            yield event.value
        elif self._pieces is not None:
            yield from self._pieces.take(event)
