"""Writes a value in the form that a JSON Schema asks for, as a model with constrained decoding does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from equivalence.strict_schema_check import resolve
from jsonschema import Draft202012Validator

__all__ = ["ABSENT", "fit_to_schema"]

Json = Any
ABSENT = object()  # represents a property that the value leaves out


class Fit(NamedTuple):
    """A value in the form of a schema. ``cost`` is how much it differs from the original value."""

    cost: int
    value: Json


def fit_to_schema(schema: Any, value: Json) -> Json:
    """Return a value in the form that a schema asks for. Raises ValueError if there is no such form.

    It looks only at the structure: a dict may become a list of keys and values, a list an object of its
    items, a value an object around it, a missing value null, and any value its JSON text.
    """
    return json.loads(_written(json.dumps(schema), json.dumps(value)))


@cache  # each type is needed many times
def _written(schema_text: str, value_text: str) -> str:
    schema, value = json.loads(schema_text), json.loads(value_text)
    fit = _Fitting(schema).fit(schema, value)
    if fit is None:
        raise ValueError(f"{value!r} does not fit {schema!r}")
    Draft202012Validator(schema).validate(fit.value)
    return json.dumps(fit.value)


class _Fitting:
    def __init__(self, root: Any) -> None:
        self._root = root

    def fit(self, schema: Any, value: Json) -> Fit | None:
        """Return the nearest form of a value. None if the schema has none."""
        if schema is True or schema == {}:
            return None if value is ABSENT else Fit(0, value)
        if schema is False:
            return None
        if "$ref" in schema:
            return self.fit(resolve(self._root, schema["$ref"]), value)
        if "anyOf" in schema:
            return self._of_union(schema["anyOf"], value)
        if "enum" in schema or "const" in schema:
            return self._of_choice(schema, value)
        kinds = schema.get("type")
        fits = [self._of_kind(kind, schema, value) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
        return _nearest(fits)

    def _of_union(self, branches: list[Any], value: Json) -> Fit | None:
        fits = [self.fit(branch, value) for branch in branches]
        wrapped = [fit for fit in fits if fit is not None and isinstance(fit.value, dict)]
        # if null can be wrapped, a bare null means that there is no value
        return wrapped[0] if value is None and wrapped else _nearest(fits)

    def _of_choice(self, schema: Mapping[str, Any], value: Json) -> Fit | None:
        for choice in schema.get("enum") or [schema["const"]]:
            if type(choice) is type(value) and choice == value:
                return Fit(0, choice)
        for choice in schema.get("enum", []):
            if isinstance(choice, str) and value is not ABSENT and _text_of(choice) == value:
                return Fit(1, choice)
        return None

    def _of_kind(self, kind: str, schema: Mapping[str, Any], value: Json) -> Fit | None:
        if kind == "null":
            return Fit(0 if value is None else 1, None) if value in (None, ABSENT) else None
        if kind == "object":
            return _nearest(
                [self._record(schema, value), self._tuple(schema, value), self._wrapper(schema, value)]
            )
        if value is ABSENT:
            return None
        if kind == "array":
            return self._pairs(schema, value) if isinstance(value, dict) else self._list(schema, value)
        if kind == "string":
            return _string(schema, value)
        if kind == "boolean":
            return Fit(0, value) if isinstance(value, bool) else None
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        fits = number and (kind == "number" or value == int(value)) and _within(schema, value)
        return Fit(0, value) if fits else None

    def _record(self, schema: Mapping[str, Any], value: Json) -> Fit | None:
        """Fit a record. Unknown keys may go to a list of keys and values."""
        if not isinstance(value, dict):
            return None
        properties = schema.get("properties", {})
        others = {key: item for key, item in value.items() if key not in properties}
        fits: dict[str, Fit | None] = {}
        for key, below in properties.items():
            if key in value:
                fits[key] = self.fit(below, value[key])
            elif key in schema.get("required", ()):
                fits[key] = self.fit(below, ABSENT)
                if fits[key] is None:
                    pairs = below.get("type") == "array"
                    fits[key], others = (self._pairs(below, others), {}) if pairs else (None, others)
        for key, item in others.items():
            fits[key] = self.fit(schema.get("additionalProperties", True), item)
        return _together(dict, fits, 0)

    def _tuple(self, schema: Mapping[str, Any], value: Json) -> Fit | None:
        """Fit a list to an object with the keys ``item_0`` and so on, and ``rest``."""
        properties = schema.get("properties", {})
        keys = [key for key in properties if re.fullmatch(r"item_\d+", key)]
        if not isinstance(value, list) or not keys or set(properties) - {*keys, "rest"}:
            return None
        if len(value) > len(keys) and "rest" not in properties:
            return None
        items = [*value, *[ABSENT] * (len(keys) - len(value))]
        fits = {key: self.fit(properties[key], item) for key, item in zip(keys, items, strict=False)}
        if "rest" in properties:
            fits["rest"] = self.fit(properties["rest"], value[len(keys) :])
        return _together(dict, fits, 2)

    def _wrapper(self, schema: Mapping[str, Any], value: Json) -> Fit | None:
        """Fit a value to an object around it."""
        properties = schema.get("properties", {})
        if len(properties) != 1 or value is ABSENT:
            return None
        ((key, below),) = properties.items()
        if not re.fullmatch(r"value|option_\d+", key):
            return None
        return _together(dict, {key: self.fit(below, value)}, 3)

    def _list(self, schema: Mapping[str, Any], value: Json) -> Fit | None:
        if not isinstance(value, list):
            return None
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return None
        first = schema.get("prefixItems", [])
        items = [*first, *[schema.get("items", True)] * (len(value) - len(first))]
        fits = {str(at): self.fit(below, item) for at, (below, item) in enumerate(zip(items, value))}  # noqa: B905
        return _together(lambda parts: list(parts.values()), fits, 0)

    def _pairs(self, schema: Mapping[str, Any], value: dict[str, Json]) -> Fit | None:
        """Fit a dict to a list of its keys and values."""
        pair = schema.get("items", {})
        pair = resolve(self._root, pair["$ref"]) if isinstance(pair, dict) and "$ref" in pair else pair
        if not isinstance(pair, dict) or list(pair.get("properties", ())) != ["key", "value"]:
            return None
        fits = {key: self._record(pair, {"key": key, "value": item}) for key, item in value.items()}
        is_described = "keys and values" in schema.get("description", "")
        return _together(lambda parts: list(parts.values()), fits, 2 if is_described else 12)


def _together(make: Callable[[dict[str, Json]], Json], fits: dict[str, Fit | None], cost: int) -> Fit | None:
    parts = {key: fit for key, fit in fits.items() if fit is not None}
    if len(parts) != len(fits):
        return None
    total = cost + sum(fit.cost for fit in parts.values())
    return Fit(total, make({key: fit.value for key, fit in parts.items()}))


def _nearest(fits: list[Fit | None]) -> Fit | None:
    return min((fit for fit in fits if fit is not None), key=lambda fit: fit.cost, default=None)


def _string(schema: Mapping[str, Any], value: Json) -> Fit | None:
    if "JSON text" in schema.get("description", ""):
        return Fit(20, json.dumps(value, ensure_ascii=False))
    fits = isinstance(value, str) and re.search(schema.get("pattern", ""), value)
    return Fit(0, value) if fits else None


def _within(schema: Mapping[str, Any], value: float) -> bool:
    return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))


def _text_of(choice: str) -> Json:
    try:
        return json.loads(choice)
    except ValueError:
        return ABSENT
