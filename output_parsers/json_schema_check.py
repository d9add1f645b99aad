"""Checks plain JSON values against a JSON Schema by the package jsonschema, and says what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any

from .errors import REFUSALS, Problem, UnsupportedTypeError, shorten
from .node import JsonSchema
from .reading import MOST_MISFITS, Place, show

__all__ = ["DATA", "MAPS", "NO_FORM", "InvalidSchemaError", "SchemaCheck"]

DATA = frozenset(
    ("enum", "const", "default", "examples", "example")
)  # keywords that hold values, not schemas
MAPS = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
)
NO_FORM = "it fits none of the forms"
_LONGEST = 160  # characters of a message of the package's own
_SHOWN = 20  # members of an enum in a message
_KINDS = {
    "integer": "an integer",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_OF_KIND = ("type", "enum", "const", None)  # keywords that say what kind of value is wanted; None: ``false``
_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "text matching {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} keys",
    "maxProperties": "at most {} keys",
}


class InvalidSchemaError(UnsupportedTypeError):
    """A JSON Schema that cannot be read; ``path`` is the JSON pointer of what is wrong (``#``: the whole)."""

    def __init__(self, name: str, pointer: str, reason: str) -> None:
        self.type_name = name
        self.path = pointer
        self.tried = ("jsonschema",)
        TypeError.__init__(self, f"the JSON Schema {name!r} is broken at {pointer}: {reason}")


class SchemaCheck:
    """A JSON Schema ready for checking. Raises InvalidSchemaError when the schema itself is broken.

    ``references`` are all its ``$ref``; ``moves`` says that some part has an ``$id``, to which they refer.
    Nothing is fetched: a reference that leads out of the schema is a fault of the schema.
    """

    def __init__(self, schema: JsonSchema, name: str) -> None:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft202012Validator, extend, validator_for
        from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
        from referencing.jsonschema import DRAFT202012, specification_with

        self.name = name
        self.references: list[str] = []
        self.moves = False
        draft = validator_for(schema, default=Draft202012Validator)
        try:
            draft.check_schema(schema)
        except SchemaError as error:
            reason = shorten(error.message, _LONGEST)
            raise InvalidSchemaError(name, _pointer(error.absolute_path), reason) from error
        dialect = str(draft.META_SCHEMA.get("$schema") or "")
        self._specification: Any = specification_with(dialect, default=DRAFT202012)
        resource = self._specification.create_resource(schema)
        registry: Any = REGISTRY.with_resource(resource.id() or "", resource)
        self._look_up(schema, "#", registry.resolver(resource.id() or ""))
        whole: Any = draft.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
        strict: Any = extend(draft, type_checker=whole)  # type: ignore[no-untyped-call]
        bare = {key: value for key, value in schema.items() if key != "$schema"}  # that would undo ``strict``
        self._exact: Any = strict(bare, registry=registry)
        self._validator: Any = draft(schema, registry=registry)

    def _look_up(self, part: Any, pointer: str, resolver: Any) -> None:
        """Find all references in a part. Raises InvalidSchemaError for one that leads nowhere."""
        if isinstance(part, list):
            for index, item in enumerate(part):
                self._look_up(item, f"{pointer}/{index}", resolver)
        if not isinstance(part, dict):
            return
        inside_one = self._specification.create_resource(part)
        if pointer != "#" and inside_one.id():
            self.moves = True
            resolver = resolver.in_subresource(inside_one)
        for key in ("$ref", "$dynamicRef"):
            if isinstance(part.get(key), str):
                self._resolve(part[key], f"{pointer}/{key}", resolver)
        for key, value in part.items():
            if key in MAPS and isinstance(value, dict):
                for name, inside in value.items():
                    self._look_up(inside, f"{pointer}/{_step(key)}/{_step(name)}", resolver)
            elif key not in DATA:
                self._look_up(value, f"{pointer}/{_step(key)}", resolver)

    def _resolve(self, reference: str, pointer: str, resolver: Any) -> None:
        from referencing.exceptions import Unresolvable

        self.references.append(reference)
        try:
            found = resolver.lookup(reference).contents
        except (Unresolvable, ValueError, *REFUSALS) as error:
            reason = f"there is no {shorten(reference)!r} in the schema, and nothing is fetched"
            raise InvalidSchemaError(self.name, pointer, reason) from error
        if not isinstance(found, (dict, bool)):
            raise InvalidSchemaError(self.name, pointer, f"{shorten(reference)!r} is no schema")

    def of(self, part: JsonSchema) -> SchemaCheck:
        """The check of a part of the schema."""
        other = copy(self)
        other._validator = self._validator.evolve(schema=part)
        other._exact = self._exact.evolve(schema=part)
        return other

    def is_valid(self, value: Any) -> bool:
        """Whether a plain value is valid."""
        return self._takes(self._validator, value)

    def is_exact(self, value: Any) -> bool:
        """Whether a valid value has whole numbers written as such wherever the schema wants an integer."""
        return not _has_whole_float(value) or self._takes(self._exact, value)

    @staticmethod
    def _takes(validator: Any, value: Any) -> bool:
        try:
            return bool(validator.is_valid(value))
        except (ValueError, *REFUSALS):  # what the package makes of a number beyond a float
            return False

    def problems(self, value: Any, at: Place) -> list[Problem]:
        """What is wrong with a plain value, path by path; nothing when it is valid."""
        found: dict[tuple[str, str], Problem] = {}  # one problem may be met on two ways through the schema
        try:
            for error in self._validator.iter_errors(value):
                for problem in _told(error, at):
                    found.setdefault((problem.path, problem.message), problem)
                if len(found) >= MOST_MISFITS:
                    break
        except (ValueError, *REFUSALS) as error:
            return [Problem(at.path, f"the schema cannot be checked here: {shorten(str(error), _LONGEST)}")]
        return list(found.values())


def _has_whole_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_whole_float, value))
    return isinstance(value, float) and value.is_integer()


def _step(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _pointer(steps: Iterable[str | int]) -> str:
    return "/".join(["#", *(_step(str(step)) for step in steps)])


def _told(error: Any, root: Place) -> Iterator[Problem]:
    """The problems that one error of the package stands for; its path begins at ``root``."""
    at = root
    for step in error.absolute_path:
        at = at.at(step)
    keyword, said, value = error.validator, error.validator_value, error.instance
    if keyword == "required" and isinstance(said, list):
        for key in said:
            if key not in value:
                yield Problem(at.at(key).path, f"the required field {key!r} is missing")
    elif keyword == "additionalProperties" and said is False:
        for key in value:
            if _is_extra(key, error.schema):
                yield Problem(at.at(key).path, "the schema has no field of this name", show(value[key]))
    elif keyword in ("anyOf", "oneOf"):
        yield from _told_of_forms(error, root, at)
    else:
        yield Problem(at.path, _message(keyword, said, error), show(value))


def _is_extra(key: str, schema: JsonSchema) -> bool:
    patterns = schema.get("patternProperties", {})
    return key not in schema.get("properties", {}) and not any(re.search(p, key) for p in patterns)


def _told_of_forms(error: Any, root: Place, at: Place) -> Iterator[Problem]:
    """Of several forms the faults of the one that came nearest, where one did."""
    if not error.context:
        said = "it fits more than one of the forms of which one is wanted"
        yield Problem(at.path, said, show(error.instance))
        return
    forms: dict[int, list[Any]] = {}
    for fault in error.context:
        forms.setdefault(fault.relative_schema_path[0], []).append(fault)
    nearest = _nearest(list(forms.values()))
    if nearest is None:
        yield Problem(at.path, _forms_wanted(error.validator_value), show(error.instance))
        return
    for fault in nearest:
        yield from _told(fault, root)


def _nearest(forms: list[list[Any]]) -> list[Any] | None:
    """The faults of the form whose faults lie deepest and are fewest, or that alone takes such values."""
    deeper = [faults for faults in forms if any(fault.relative_path for fault in faults)]
    if deeper:
        return min(deeper, key=len)
    same_kind = [faults for faults in forms if all(fault.validator not in _OF_KIND for fault in faults)]
    return same_kind[0] if len(same_kind) == 1 else None


def _forms_wanted(forms: list[Any]) -> str:
    kinds = [form.get("type") if isinstance(form, dict) else None for form in forms]
    known = [_KINDS[kind] for kind in kinds if isinstance(kind, str) and kind in _KINDS]
    return f"expected {' or '.join(known)}" if len(known) == len(kinds) else NO_FORM


def _message(keyword: Any, said: Any, error: Any) -> str:
    if keyword == "type":
        kinds = said if isinstance(said, list) else [said]
        return f"expected {' or '.join(_KINDS.get(kind, str(kind)) for kind in kinds)}"
    if keyword in ("enum", "const"):
        members = said if keyword == "enum" else [said]
        shown = ", ".join(shorten(json.dumps(member, ensure_ascii=False), 60) for member in members[:_SHOWN])
        return f"expected {'one of ' if len(members) > 1 else ''}{shown}"
    if keyword in _LIMITS and not isinstance(said, bool):
        return "expected " + _LIMITS[keyword].format(said).replace(" 1 items", " 1 item")
    if keyword == "uniqueItems":
        return "expected no item twice"
    if keyword == "not":
        return "it is what the schema excludes"
    return "nothing may stand here" if keyword is None else shorten(error.message, _LONGEST)
