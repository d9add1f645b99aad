"""Finds what the references of a JSON Schema mean, and writes all drafts as the present one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from ..node import JsonSchema

__all__ = ["ANNOTATIONS", "EXTERNAL", "Document"]

ANNOTATIONS = frozenset(
    "title description default examples $comment deprecated readOnly writeOnly $schema $id id $anchor $defs "
    "definitions discriminator example nullable $vocabulary $dynamicAnchor $recursiveAnchor".split()
)
EXTERNAL = "x-external-reference"  # stands for a reference that leads out of the document
_MAPS = frozenset("properties patternProperties $defs definitions dependentSchemas dependencies".split())
_LISTS = frozenset("allOf anyOf oneOf prefixItems".split())
_SCHEMAS = frozenset(
    "items additionalItems additionalProperties contains propertyNames not if then else "
    "unevaluatedItems unevaluatedProperties contentSchema".split()
)
_NEWER_THAN_4 = frozenset("const contains propertyNames if then else examples $id".split())
_NEWER_THAN_7 = frozenset(
    "prefixItems dependentRequired dependentSchemas unevaluatedItems unevaluatedProperties minContains "
    "maxContains $defs $anchor $dynamicRef $recursiveRef".split()
)


class Document:
    """One JSON Schema, whose parts go by their JSON pointers (``#`` is the root)."""

    def __init__(self, raw: JsonSchema | bool, draft: int | None = None) -> None:
        self._raw = raw
        self.draft = draft or _draft(raw)
        self._known: dict[str, JsonSchema | bool] = {}

    @cached_property
    def _ids(self) -> dict[str, str]:
        """The pointers of what has a URI or an anchor of its own."""
        ids = {"": "#"}
        for pointer, base, anchor in self._identified(self._raw, "#", ""):
            ids.setdefault(f"{base}#{anchor}" if anchor else base, pointer)
        return ids

    def schema(self, pointer: str) -> JsonSchema | bool:
        """The schema at a pointer, in the words of draft 2020-12, its references written as pointers."""
        if pointer not in self._known:
            node, base = self._at(pointer)
            self._known[pointer] = self._modern(node, base)
        return self._known[pointer]

    def _at(self, pointer: str) -> tuple[Any, str]:
        """What stands at a pointer, and the URI that references in it start from."""
        node: Any = self._raw
        base = self._base(node, "")
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            node = node[int(key)] if isinstance(node, list) else node[key]
            base = self._base(node, base)
        return node, base

    def _base(self, node: Any, base: str) -> str:
        own = node.get("id" if self.draft <= 4 else "$id") if isinstance(node, dict) else None
        if not isinstance(own, str) or own.startswith("#"):
            return base
        return urldefrag(urljoin(base, own)).url

    def _identified(self, node: Any, pointer: str, base: str) -> Iterator[tuple[str, str, str]]:
        if not isinstance(node, dict):
            return
        within = self._base(node, base)
        if within != base:
            yield pointer, within, ""
        own = node.get("id" if self.draft <= 4 else "$id")
        anchors = [own[1:] if isinstance(own, str) and own.startswith("#") else None]
        for anchor in (*anchors, node.get("$anchor"), node.get("$dynamicAnchor")):
            if isinstance(anchor, str) and anchor:
                yield pointer, within, anchor
        for step, child in _below(node):
            yield from self._identified(child, f"{pointer}/{step}", within)

    def _target(self, reference: str, base: str) -> str | None:
        """The pointer that a reference means; None where it leads out of the document."""
        uri, fragment = urldefrag(urljoin(base, reference) if reference[:1] != "#" else base + reference)
        start = self._ids.get(uri)
        if start is None:
            return None
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._ids.get(f"{uri}#{fragment}")
        pointer = start + fragment
        try:
            node, _ = self._at(pointer)
        except (KeyError, IndexError, ValueError, TypeError):
            return None
        return pointer if isinstance(node, (dict, bool)) else None

    def _modern(self, node: Any, base: str) -> Any:
        if not isinstance(node, dict):
            return node
        base = self._base(node, base)
        schema = {key: self._modern_part(key, value, base) for key, value in node.items() if self._means(key)}
        reference = node.get("$ref")
        if isinstance(reference, str):
            target = self._target(reference, base)
            meant = {EXTERNAL: reference} if target is None else {"$ref": target}
            if self.draft <= 7:
                return {key: value for key, value in schema.items() if key in ANNOTATIONS} | meant
            del schema["$ref"]
            return schema | meant
        if not isinstance(schema.get("required", []), list):  # draft 3 says it of the property itself
            del schema["required"]
        return _modern_arrays(_modern_bounds(schema))

    def _modern_part(self, key: str, value: Any, base: str) -> Any:
        if key in _MAPS and isinstance(value, dict):
            return {name: self._modern(part, base) for name, part in value.items()}
        if (key in _LISTS or key == "items") and isinstance(value, list):
            return [self._modern(part, base) for part in value]
        return self._modern(value, base) if key in _SCHEMAS else value

    def _means(self, key: str) -> bool:
        """Whether a keyword has a meaning in the draft of the document."""
        if self.draft <= 4 and key in _NEWER_THAN_4:
            return False
        return self.draft > 7 or key not in _NEWER_THAN_7 or key == "$defs"


def _draft(raw: JsonSchema | bool) -> int:
    said = raw.get("$schema") if isinstance(raw, dict) else None
    for draft in (3, 4, 6, 7):
        if isinstance(said, str) and f"draft-0{draft}/" in said:
            return draft
    return 2020


def _modern_bounds(schema: JsonSchema) -> JsonSchema:
    """Draft 4 says by a boolean that a bound is exclusive."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        said = schema.get(exclusive)
        if isinstance(said, bool):
            rest = {key: value for key, value in schema.items() if key != exclusive}
            if said and bound in rest:
                rest[exclusive] = rest.pop(bound)
            schema = rest
    return schema


def _modern_arrays(schema: JsonSchema) -> JsonSchema:
    """Tuples were lists under ``items``, with what follows them under ``additionalItems``."""
    rest = {key: value for key, value in schema.items() if key != "additionalItems"}
    if isinstance(schema.get("items"), list):
        rest["prefixItems"] = rest.pop("items")
        if "additionalItems" in schema:
            rest["items"] = schema["additionalItems"]
    return rest


def _below(node: JsonSchema) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if key in _MAPS and isinstance(value, dict):
            for name, part in value.items():
                yield f"{key}/{name.replace('~', '~0').replace('/', '~1')}", part
        elif isinstance(value, list) and (key in _LISTS or key == "items"):
            for index, part in enumerate(value):
                yield f"{key}/{index}", part
        elif key in _SCHEMAS:
            yield key, value
