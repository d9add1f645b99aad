"""Reads dicts: keys and values of one type each."""

from __future__ import annotations

import collections
import collections.abc
from collections.abc import Callable
from typing import Any

from .json_inside import opened
from .node import Definitions, JsonSchema, Node
from .reading import Json, Misfit, Place
from .scalars import TextNode
from .target import Target

__all__ = ["mapping_node"]

_MAPPINGS = {dict, collections.OrderedDict, collections.abc.Mapping, collections.abc.MutableMapping}


class DictNode(Node[dict[Any, Any]]):
    """A JSON object whose keys are data."""

    kind = "an object"

    def __init__(self, key: Node[Any], value: Node[Any], make: Callable[[Any], Any]) -> None:
        self.key = key
        self.value = value
        self._make = make
        self.exact = isinstance(key, TextNode) and make is dict

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self.key, self.value)

    def schema(self, definitions: Definitions) -> JsonSchema:
        schema: JsonSchema = {"type": "object", "additionalProperties": self.value.schema(definitions)}
        keys = self.key.schema(definitions)
        if "enum" in keys or "const" in keys:
            schema["propertyNames"] = {"enum": keys.get("enum") or [keys["const"]]}
        return schema

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        inside = (*within, self)
        return f"{{{self.key.hint(inside)}: {self.value.hint(inside)}, ...}}"

    def read(self, found: Json, at: Place) -> dict[Any, Any]:
        found = opened(found, "{", at)
        if not isinstance(found, dict):
            raise at.misfit("expected an object", found)
        pairs: dict[Any, Any] = {}
        misfits: list[Misfit] = []
        for key, value in found.items():
            below = at.at(key)
            try:
                name = self._read_key(key, below)
                if name in pairs:
                    raise below.misfit("expected each key once; another key means the same", key)
                pairs[name] = self.value.read(value, below)
            except Misfit as misfit:
                misfits.append(misfit)
        if misfits:
            raise Misfit(*(problem for misfit in misfits for problem in misfit.problems))
        return pairs if self._make is dict else self._make(pairs)

    def _read_key(self, key: str, at: Place) -> Any:
        """JSON keys are always text, so that a number read from digits is no step away from it."""
        scratch = Place(at.leniency, at.path)
        name = self.key.read(key, scratch)
        if any(step.rule != "number as text" for step in scratch.ledger):
            raise at.misfit(f"expected a key that is {self.key.kind}", key)
        try:
            hash(name)
        except TypeError as error:
            raise at.misfit(f"expected a key that a dict can hold: {error}", key) from error
        return name

    def count_keys(self, value: Any) -> int:
        return len(value) + sum(map(self.value.count_keys, value.values()))


def mapping_node(target: Target, build: Callable[[Target], Node[Any]]) -> Node[Any] | None:
    """The node of a dict; None for all others. Without arguments: text to any JSON."""
    if target.origin not in _MAPPINGS:
        return None
    key, value = target.args or (str, Any)
    make = collections.OrderedDict if target.origin is collections.OrderedDict else dict
    return DictNode(build(target.child(key)), build(target.child(value)), make)
