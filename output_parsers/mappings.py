"""Reads dicts: keys and values of one type each."""

from __future__ import annotations

import collections
import collections.abc
from collections.abc import Callable
from typing import Any

from .json_inside import opened
from .json_reader import read_exact
from .json_text import JsonFault
from .node import Definitions, JsonSchema, Node
from .reading import MOST_MISFITS, Json, Leniency, Misfit, Place, gathered, written
from .scalars import TextNode
from .target import Target

__all__ = ["DictNode", "mapping_node"]

_MAPPINGS = {dict, collections.OrderedDict, collections.abc.Mapping, collections.abc.MutableMapping}


class DictNode(Node[dict[Any, Any]]):
    """A JSON object whose keys are data."""

    kind = "an object"

    def __init__(self, key: Node[Any], value: Node[Any], make: Callable[[Any], Any]) -> None:
        self.key = key
        self.value = value
        self.make = make
        self.exact = isinstance(key, TextNode) and make is dict

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self.key, self.value)

    def schema(self, definitions: Definitions) -> JsonSchema:
        schema: JsonSchema = {"type": "object", "additionalProperties": self.value.schema(definitions)}
        keys = self.key.schema(definitions)
        if "enum" in keys or "const" in keys:
            values = keys.get("enum") or [keys["const"]]
            schema["propertyNames"] = {"enum": [v if isinstance(v, str) else written(v) for v in values]}
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
                name = self.read_key(key, below)
                if name in pairs:
                    raise below.misfit("expected each key once; another key means the same", key)
                pairs[name] = self.value.read(value, below)
            except Misfit as misfit:
                misfits.append(misfit)
                if len(misfits) == MOST_MISFITS:
                    break
        if misfits:
            raise gathered(misfits)
        return pairs if self.make is dict else self.make(pairs)

    def read_key(self, key: str, at: Place) -> Any:
        """JSON keys are always text, so that a number read from digits is no step away from it."""
        for found in _meanings(key):
            scratch = Place(Leniency.SAFE, at.path)
            try:
                name = self.key.read(found, scratch)
            except Misfit:
                continue
            if any(step.rule not in _NO_STEPS for step in scratch.ledger):
                continue
            try:
                hash(name)
            except TypeError as error:
                raise at.misfit(f"expected a key that a dict can hold: {error}", key) from error
            return name
        raise at.misfit(f"expected a key that is {self.key.kind}", key)

    def write(self, value: Any) -> Json:
        if not isinstance(value, collections.abc.Mapping):
            raise ValueError(f"expected {self.kind}, found {value!r}")
        return {self._written_key(key): self.value.write(one) for key, one in value.items()}

    def _written_key(self, key: Any) -> str:
        found = self.key.write(key)
        return found if isinstance(found, str) else written(found)

    def count_keys(self, value: Any) -> int:
        return len(value) + sum(map(self.value.count_keys, value.values()))


_NO_STEPS = ("number as text", "text for a value that is none", "member by its value")


def _meanings(key: str) -> list[Json]:
    """A key as it is, and as the JSON scalar that it says."""
    try:
        scalar = read_exact(key)
    except JsonFault:
        return [key]
    return [key] if isinstance(scalar, (str, list, dict)) else [key, scalar]


def mapping_node(target: Target, build: Callable[[Target], Node[Any]]) -> Node[Any] | None:
    """The node of a dict; None for all others. Without arguments: text to any JSON."""
    if target.origin not in _MAPPINGS:
        return None
    key, value = target.args or (str, Any)
    make = collections.OrderedDict if target.origin is collections.OrderedDict else dict
    return DictNode(build(target.child(key)), build(target.child(value)), make)
