"""What every part of an encoding can do: show its schema, and bring a value there and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from ..node import JsonSchema
from ..reading import Json, Place
from ..schema import described
from .undo import Spot

__all__ = ["Code", "Definition", "RefCode", "walk"]


class Code(ABC):
    """One part of a schema: the schema that is sent for it, and the way of its values there and back.

    ``plain`` says that decoding changes nothing, provided that it is so for all ``parts``; ``kinds`` what
    kinds of JSON stand for its values when encoded.
    """

    plain: bool = True
    description: str | None = None
    title: str | None = None

    @property
    def parts(self) -> Sequence[Code]:
        return ()

    @property
    @abstractmethod
    def kinds(self) -> frozenset[str]:
        """The kinds of JSON that its encoded values are."""

    @abstractmethod
    def bare_schema(self) -> JsonSchema:
        """The schema that is sent, without its description."""

    @abstractmethod
    def encode(self, value: Json, at: Place) -> Json:
        """A plain value as a model would write it. Raises EncodingFault where it does not fit."""

    @abstractmethod
    def undo(self, value: Json, at: Spot) -> Json:
        """The plain value of an encoded one; what cannot be undone stays as it is, with a step."""

    def schema(self) -> JsonSchema:
        """The schema that is sent."""
        schema = self.bare_schema()
        if self.title and schema.get("type") == "object":
            schema = {"type": "object", "title": self.title, **schema}
        return described(schema, self.description)


class Definition:
    """A named part; its code is known when it has been taken apart."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.code: Code | None = None


class RefCode(Code):
    """A part that is written once, under a name."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition

    @property
    def parts(self) -> Sequence[Code]:
        assert self.definition.code is not None, "a definition is used before it is taken apart"
        return (self.definition.code,)

    @property
    def target(self) -> Code:
        """What stands under the name, be it through further names."""
        code: Code | None = self
        while isinstance(code, RefCode):
            code = code.definition.code
        assert code is not None, "a definition is used before it is taken apart"
        return code

    @property
    def kinds(self) -> frozenset[str]:
        return self.target.kinds

    def target_schema(self) -> JsonSchema:
        """The schema that is sent under the name."""
        assert self.definition.code is not None, "a definition is used before it is taken apart"
        return self.definition.code.schema()

    def bare_schema(self) -> JsonSchema:
        return {"$ref": f"#/$defs/{self.definition.name}"}

    def encode(self, value: Json, at: Place) -> Json:
        return self.target.encode(value, at)

    def undo(self, value: Json, at: Spot) -> Json:
        return self.target.undo(value, at)


def walk(code: Code) -> Iterator[Code]:
    """A code and all its parts, each once."""
    seen: set[int] = set()
    waiting = [code]
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting.extend(current.parts)
