"""Finds out in one look whether a profile says a schema just as it stands, as it does of most types."""

from __future__ import annotations

import re
from typing import Any

from ..node import JsonSchema
from ..profiles import Profile
from .build_scalars import is_sent, keywords_of
from .kinds import kind_of
from .limits import exceeded

__all__ = ["says"]

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_REFERENCE = "#/$defs/"
_KINDS = frozenset("object array string integer number boolean null".split())
_OF_OBJECTS = frozenset("type title description properties required additionalProperties".split())
_OF_UNIONS = frozenset("anyOf description".split())


def says(schema: JsonSchema | bool, profile: Profile) -> bool:
    """Whether a schema can be sent as it is, decoding changes nothing, and there is nothing to be told.

    Of what it is not sure it says no.
    """
    if not isinstance(schema, dict):
        return False
    root = {key: value for key, value in schema.items() if key != "$defs"}
    definitions = schema.get("$defs", {})
    if root.get("type") != "object" and (profile.object_root or "type" not in root):
        return False
    if not isinstance(definitions, dict) or not all(map(_is_definition, definitions.items())):
        return False
    look = _Look(profile, definitions)
    return all(map(look.says, (root, *definitions.values()))) and not exceeded(schema, profile.limits)


def _is_definition(named: tuple[str, Any]) -> bool:
    name, part = named
    return bool(_NAME.fullmatch(name)) and isinstance(part, dict) and "type" in part


class _Look:
    """One look at a schema, with the definitions that its parts may refer to."""

    def __init__(self, profile: Profile, definitions: JsonSchema) -> None:
        self._profile = profile
        self._definitions = definitions

    def says(self, part: Any) -> bool:
        if not isinstance(part, dict):
            return False
        if "$ref" in part:
            return self._refers(part)
        if "description" in part and not str(part["description"]).strip():
            return False
        if "anyOf" in part:
            return part.keys() <= _OF_UNIONS and self._chooses(part["anyOf"])
        kind = part.get("type")
        if not isinstance(kind, str) or kind not in _KINDS:
            return False
        if kind == "object":
            return self._is_closed(part)
        if kind == "array" and not self.says(part.get("items")):
            return False
        own = part.keys() - {"type", "description", "items"} if kind == "array" else part.keys() - _OF_LEAVES
        if "enum" in own:
            return own == {"enum"} and self._lists(kind, part["enum"])
        known = keywords_of(kind)
        return all(keyword in known and is_sent(self._profile, kind, keyword, part) for keyword in own)

    def _refers(self, part: JsonSchema) -> bool:
        reference = part["$ref"]
        return (
            len(part) == 1
            and self._profile.recursion
            and isinstance(reference, str)
            and reference.startswith(_REFERENCE)
            and reference.removeprefix(_REFERENCE) in self._definitions
        )

    def _chooses(self, options: Any) -> bool:
        if not isinstance(options, list) or len(options) < 2:
            return False
        plain = all(isinstance(option, dict) and "anyOf" not in option for option in options)
        return (
            plain
            and all(option not in options[:at] for at, option in enumerate(options))
            and all(map(self.says, options))
        )

    def _lists(self, kind: str, values: Any) -> bool:
        of_kind = "number" if kind == "integer" else kind
        limit = self._profile.limits.long_enum
        return (
            isinstance(values, list)
            and 0 < len(values) <= (limit or len(values))
            and of_kind in self._profile.enum_kinds
            and all(kind_of(value) == of_kind for value in values)
            and (kind != "integer" or all(isinstance(value, int) for value in values))
        )

    def _is_closed(self, part: JsonSchema) -> bool:
        """Whether it is an object with these keys alone, required as the profile wants them."""
        properties, required = part.get("properties"), part.get("required")
        if not isinstance(properties, dict) or not isinstance(required, list):
            return False
        same = set(required) == set(properties)
        return (
            part.keys() <= _OF_OBJECTS
            and part.get("additionalProperties") is False
            and (same or (not self._profile.all_required and set(required) <= set(properties)))
            and all(map(self.says, properties.values()))
        )


_OF_LEAVES = frozenset(("type", "description"))
