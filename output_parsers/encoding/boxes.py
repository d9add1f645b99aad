"""A value alone in an object, under one key: where a profile or its own null leaves it no other place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

from ..node import JsonSchema
from ..objects import plain_key
from ..reading import Json, Place
from .code import Code
from .undo import Spot, keyed, likeliest

__all__ = ["BoxCode", "NullableCode", "closed_object", "nullable"]


class BoxCode(Code):
    """``{"value": …}``."""

    plain = False

    def __init__(self, inner: Code, key: str = "value") -> None:
        self.inner = inner
        self.key = key

    @property
    def parts(self) -> Sequence[Code]:
        return (self.inner,)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("object",))

    def bare_schema(self) -> JsonSchema:
        return closed_object({self.key: self.inner.schema()})

    def encode(self, value: Json, at: Place) -> Json:
        return {self.key: self.inner.encode(value, at)}

    def undo(self, value: Json, at: Spot) -> Json:
        found = at.apart().opened(value, "{")
        if not isinstance(found, dict) or [plain_key(key) for key in found] != [plain_key(self.key)]:
            return self._without(value, at)
        trial = at.apart()
        inside = self._inside(value, trial)
        content = trial.under(self.key).written.path
        if not any(step.heavy and step.written.path == content for step in trial.steps):
            at.steps.extend(trial.steps)
            return inside
        # what is in it is of another shape: what has this one key may be the value itself, without its box
        return likeliest([partial(self._inside, value), partial(self._without, value)], value, at)

    def _inside(self, value: Json, at: Spot) -> Json:
        given = keyed(at.opened(value, "{"), [self.key], at)
        return self.inner.undo(given[self.key], at.under(self.key))

    def _without(self, value: Json, at: Spot) -> Json:
        at.left_plain(f"expected an object with {self.key!r} alone", value)
        return self.inner.undo(value, at)


def closed_object(properties: dict[str, JsonSchema]) -> JsonSchema:
    """The schema of an object with all of these keys and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nullable(schema: JsonSchema) -> JsonSchema:
    """A schema that takes null too; what is said of the value is said of both."""
    null = {"type": "null"}
    description = schema.get("description")
    said = {} if description is None else {"description": description}
    rest = {key: value for key, value in schema.items() if key != "description"}
    options = rest["anyOf"] if set(rest) == {"anyOf"} else [rest]
    return {"anyOf": [*options, *([] if null in options else [null])], **said}


class NullableCode(Code):
    """A value, or null where it is left out: what stands in a place that must not be empty.

    A value that may be null itself stands in a box, so that null says one thing; but with
    ``null_default`` to be null and to be left out is the same, and null stays null.
    """

    def __init__(self, value: Code, *, null_default: bool = False) -> None:
        self._value = value
        self._null_default = null_default

    @property
    def bare(self) -> Code:
        """The code of what is there, as it is where nothing may be left out."""
        return self._value

    @cached_property
    def inner(self) -> Code:
        """The code of what is there; known when all definitions are."""
        return BoxCode(self._value) if "null" in self._value.kinds and not self.keeps_null else self._value

    @cached_property
    def keeps_null(self) -> bool:
        """Whether null is a value, and not the sign that there is none."""
        return self._null_default and "null" in self._value.kinds

    @property
    def plain(self) -> bool:  # type: ignore[override]
        return self.keeps_null

    @property
    def parts(self) -> Sequence[Code]:
        return (self.inner,)

    @property
    def kinds(self) -> frozenset[str]:
        return self.inner.kinds | {"null"}

    def bare_schema(self) -> JsonSchema:
        return nullable(self.inner.schema())

    def encode(self, value: Json, at: Place) -> Json:
        return self.inner.encode(value, at)

    def undo(self, value: Json, at: Spot) -> Json:
        return self.inner.undo(value, at)
