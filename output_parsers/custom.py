"""The protocol of a parser, and a parser of the user's own inside a larger type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from .errors import OutputParsingError, Problem
from .node import Definitions, JsonSchema, Node
from .non_finite import is_non_finite
from .reading import Json, Misfit, Place, written

__all__ = ["CustomNode", "OutputParser"]

T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class OutputParser(Protocol[T_co]):
    """Text from a model → a typed value.

    ``schema`` is the JSON Schema of what a model is to write; None when plain text is wanted.
    ``format_instructions`` says the same in words for a prompt; "" when anything goes. ``parse`` raises
    OutputParsingError, and nothing else, when a text is unfit.
    """

    @property
    def schema(self) -> Mapping[str, Any] | None: ...
    def format_instructions(self) -> str: ...
    def parse(self, text: str) -> T_co: ...


class CustomNode(Node[Any]):
    """A part that a user's parser reads: JSON strings as their text, all else as JSON text."""

    prose = True

    def __init__(self, name: str, parser: OutputParser[Any]) -> None:
        self._parser = parser
        self.kind = f"a value for {name}"

    def schema(self, definitions: Definitions) -> JsonSchema:
        return dict(self._parser.schema or {"type": "string"})

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        said = " ".join(self._parser.format_instructions().split())
        return f"string ({said})" if said else "string"

    def read(self, found: Json, at: Place) -> Any:
        if is_non_finite(found):  # its text would be a word
            raise at.misfit(f"expected {self.kind}", found)
        text = found if isinstance(found, str) else written(found)
        try:
            return self._parser.parse(text)
        except OutputParsingError as error:
            raise Misfit(
                *(Problem(at.path + p.path[1:], p.message, p.found) for p in error.problems)
            ) from error

    def read_text(self, text: str, at: Place) -> Any:
        return self.read(text, at)
