"""A value inside an object under one key: what a provider that takes only objects is asked for."""

from __future__ import annotations

from typing import Any, TypeVar

from .node import Definitions, JsonSchema, Node
from .reading import Json, Place

__all__ = ["EnvelopeNode"]

T = TypeVar("T")


class EnvelopeNode(Node[T]):
    """``{"value": …}``; a model that leaves the envelope out is understood."""

    def __init__(self, field: str, inner: Node[T]) -> None:
        self.field = field
        self.inner = inner
        self.kind = f"an object with {field!r}"
        self.exact = inner.exact
        self.prose = inner.prose

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self.inner,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {
            "type": "object",
            "properties": {self.field: self.inner.schema(definitions)},
            "required": [self.field],
            "additionalProperties": False,
        }

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return f'{{"{self.field}": {self.inner.hint((*within, self))}}}'

    def read(self, found: Json, at: Place) -> T:
        if isinstance(found, dict) and set(found) == {self.field}:
            return self.inner.read(found[self.field], at.at(self.field))
        value = self.inner.read(found, at)
        at.took("envelope left out", found, value)
        return value

    def write(self, value: Any) -> Json:
        return {self.field: self.inner.write(value)}

    def read_text(self, text: str, at: Place) -> T:
        value = self.inner.read_text(text, at)
        at.took("envelope left out", text, value)
        return value
