"""Reads what a pydantic class wraps: the value of a RootModel, the raw JSON of a field with a validator."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from .foreign import problems_of, python_of
from .node import Definitions, JsonSchema, Node
from .reading import Json, Misfit, Place

__all__ = ["RawNode", "RootNode"]


class RawNode(Node[Any]):
    """A field whose JSON goes to a validator of its class as it came."""

    def __init__(self, inner: Node[Any]) -> None:
        self._inner = inner
        self.kind = inner.kind

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self._inner,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return self._inner.schema(definitions)

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return self._inner.hint(within)

    def read(self, found: Json, at: Place) -> Any:
        return python_of(found, at)

    def write(self, value: Any) -> Json:
        return self._inner.write(value)


class RootNode(Node[Any]):
    """A pydantic RootModel: reads what it holds."""

    def __init__(self, cls: type[BaseModel], inner: Node[Any]) -> None:
        self._cls = cls
        self._inner = inner
        self.kind = inner.kind
        self.prose = inner.prose
        self.any_text = inner.any_text

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self._inner,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return self._inner.schema(definitions)

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return self._inner.hint((*within, self)) if self not in within else self._cls.__name__

    def read(self, found: Json, at: Place) -> Any:
        return self.check(self._inner.read(found, at), at)

    def read_text(self, text: str, at: Place) -> Any:
        return self.check(self._inner.read_text(text, at), at)

    def write(self, value: Any) -> Json:
        if not isinstance(value, self._cls):
            raise ValueError(f"expected {self.kind}, found {value!r}")
        model: Any = value
        return self._inner.write(model.root)

    def check(self, value: Any, at: Place) -> Any:
        """The model around a value that was read. Raises Misfit when the model refuses it."""
        try:
            return self._cls.model_validate(value)
        except ValidationError as error:
            raise Misfit(*problems_of(error, at)) from error
