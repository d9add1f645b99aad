"""JSON Schemas as documents: plain copies of what users pass, walking, references and drafts.

``plain_document`` makes a copy of a dict that other modules can rely on. ``SchemaDocument`` resolves
references, and rewrites older drafts as draft 2020-12. ``children`` yields the schemas inside a schema, and
``at_pointer`` the part at a JSON pointer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from urllib.parse import unquote, urldefrag, urljoin

from ..result.errors import UnsupportedTypeError, shorten
from ..result.reading import Json
from ..types.node import JsonSchema

# Keywords that hold values and not schemas.
DATA = frozenset(("enum", "const", "default", "examples", "example"))
# Keywords that hold a schema for each of several names.
MAPS = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
)
_LISTS_OF_SCHEMAS = frozenset("allOf anyOf oneOf prefixItems".split())
_SCHEMAS = frozenset(
    "items additionalItems additionalProperties contains propertyNames not if then else "
    "unevaluatedItems unevaluatedProperties contentSchema".split()
)
ANNOTATIONS = frozenset(
    "title description default examples $comment deprecated readOnly writeOnly $schema $id id $anchor $defs "
    "definitions discriminator example nullable $vocabulary $dynamicAnchor $recursiveAnchor".split()
)
EXTERNAL = "x-external-reference"  # the keyword that replaces a reference to another document
MAX_PARTS = 10_000  # the maximum number of objects and arrays in a JSON Schema
_MAX_DEPTH = 100  # of the objects and arrays in a JSON Schema
_NEWER_THAN_4 = frozenset("const contains propertyNames if then else examples $id".split())
_NEWER_THAN_7 = frozenset(
    "prefixItems dependentRequired dependentSchemas unevaluatedItems unevaluatedProperties minContains "
    "maxContains $defs $anchor $dynamicRef $recursiveRef".split()
)
_DRAFTS = {3: "draft-03", 4: "draft-04", 6: "draft-06", 7: "draft-07", 2019: "2019-09", 2020: "2020-12"}


class InvalidSchemaError(UnsupportedTypeError):
    """Raised if a JSON Schema is invalid or refers to another document.

    Attributes:
        type_name: The name of the schema.
        path: The JSON pointer of the invalid part; ``#`` is the whole schema.
        tried: Always ``("jsonschema",)``.
    """

    def __init__(self, name: str, pointer: str, reason: str) -> None:
        self.type_name = name
        self.path = pointer
        self.tried = ("jsonschema",)
        TypeError.__init__(self, f"the JSON Schema {name!r} is invalid at {pointer}: {reason}")


class TooComplexError(ValueError):
    """Raised if converting a JSON Schema takes too many steps, because its definitions are combined."""


class Work:
    """Limits the steps of a conversion whose time may grow exponentially with the size of a JSON Schema."""

    def __init__(self, steps: int = 4_000_000) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Count steps. Raises TooComplexError if there are too many."""
        self._left -= steps
        if self._left < 0:
            raise TooComplexError("its definitions can be combined in too many ways")


# --- Pointers and walking ---


def escape_pointer(key: str) -> str:
    """Escape a key of a JSON Schema for a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def to_pointer(steps: Iterable[str | int]) -> str:
    """Join keys and indexes to a JSON pointer such as ``#/properties/a``."""
    return "/".join(["#", *(escape_pointer(str(step)) for step in steps)])


def at_pointer(root: object, pointer: str) -> object:
    """Return the part of a JSON Schema at a JSON pointer such as ``#/$defs/Person``.

    Raises LookupError, ValueError or TypeError if it does not exist.
    """
    part: object = root
    for step in pointer.split("/")[1:]:
        part = _part_at(part, step)
    return part


def _part_at(part: Json, step: str) -> object:
    """Return what one step of a JSON pointer leads to."""
    key = step.replace("~1", "/").replace("~0", "~")
    return part[int(key)] if isinstance(part, list) else part[key]


def referenced_part(root: object, reference: object) -> object:
    """Return the part of a JSON Schema that a ``$ref`` by a JSON pointer leads to.

    Return None if the reference leads to another document, to an anchor or nowhere.
    """
    if not isinstance(reference, str) or not re.match(r"#(?:/|\Z)", reference):
        return None
    try:
        return at_pointer(root, unquote(reference))
    except (LookupError, ValueError, TypeError):
        return None


def followed(root: object, part: Json) -> Json:
    """Follow the ``$ref`` of a schema inside ``root``; other keywords of the schema apply, too.

    Return the schema itself if it has no reference, or one that cannot be followed.
    """
    seen: set[str] = set()
    while isinstance(part, Mapping) and isinstance(part.get("$ref"), str) and part["$ref"] not in seen:
        target = referenced_part(root, part["$ref"])
        if not isinstance(target, Mapping):
            return part if target is None else target
        seen.add(part["$ref"])
        part = {**target, **{key: value for key, value in part.items() if key != "$ref"}}
    return part


def children(node: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the schemas nested directly in a JSON Schema, each with its relative JSON pointer."""
    for key, value in node.items():
        if key in MAPS and isinstance(value, dict):
            for name, part in value.items():
                yield f"{key}/{escape_pointer(name)}", part
        elif isinstance(value, list) and (key in _LISTS_OF_SCHEMAS or key == "items"):
            for index, part in enumerate(value):
                yield f"{key}/{index}", part
        elif key in _SCHEMAS:
            yield key, value


def all_schemas(root: object) -> Iterator[JsonSchema]:
    """Yield a JSON Schema and all schemas inside it, but not those behind references."""
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting.extend(child for _, child in children(part))


# --- Plain copies ---


def plain_document(schema: Mapping[str, object], name: str) -> JsonSchema:
    """Copy a JSON Schema as plain dicts and lists, with the keywords that count in its draft.

    Only the root keeps ``$schema``, and up to draft 7 only annotations are kept next to a ``$ref``. Draft 3
    is rewritten as draft 4.

    Raises InvalidSchemaError if it is too large, nested too deeply, or mixes drafts.
    """
    if not isinstance(schema, Mapping):
        raise InvalidSchemaError(name, "#", f"a mapping is expected, not {type(schema).__name__}")
    plain: JsonSchema = _plain(schema, name)
    if "$schema" in plain and not isinstance(plain["$schema"], str):
        raise InvalidSchemaError(name, "#/$schema", "it must be the address of a draft")
    declared: dict[int, str] = {}
    _take_drafts(plain, "#", name, declared)
    if declared:
        (draft,) = declared
        plain["$schema"] = declared[draft]
    draft = draft_of(plain)
    if draft == 3:
        plain = {**_without_draft_3(plain), "$schema": "http://json-schema.org/draft-04/schema#"}
    if draft <= 7:
        _drop_what_the_draft_ignores(plain, max(draft, 4), is_root=True)
    return plain


def _plain(schema: Mapping[str, object], name: str) -> JsonSchema:
    size = 0

    def copy(part: Json, depth: int) -> Json:
        nonlocal size
        if not isinstance(part, (Mapping, list, tuple)):
            return part
        size += 1
        if size > MAX_PARTS:
            raise InvalidSchemaError(name, "#", f"it has more than {MAX_PARTS:,} objects and arrays")
        if depth > _MAX_DEPTH:
            raise InvalidSchemaError(name, "#", f"it is nested deeper than {_MAX_DEPTH} levels")
        if isinstance(part, Mapping):
            return {_text_key(key, name): copy(value, depth + 1) for key, value in part.items()}
        return [copy(item, depth + 1) for item in part]

    plain: JsonSchema = copy(schema, 1)
    return plain


def _text_key(key: object, name: str) -> str:
    if not isinstance(key, str):
        raise InvalidSchemaError(name, "#", f"the key {shorten(repr(key))} is not text")
    return key


def _values(part: JsonSchema) -> Iterator[tuple[str, object]]:
    """Yield everything in a schema that may be a schema, also in keywords that JSON Schema does not know."""
    for key, value in part.items():
        if key in MAPS and isinstance(value, dict):
            for name, inside in value.items():
                yield f"{escape_pointer(key)}/{escape_pointer(name)}", inside
        elif key not in DATA:
            yield escape_pointer(key), value


def _take_drafts(part: object, pointer: str, name: str, declared: dict[int, str]) -> None:
    """Remove each ``$schema`` from a JSON Schema, and collect those of known drafts; remove meaningless ids.

    Raises InvalidSchemaError if two parts have different drafts.
    """
    if isinstance(part, list):
        for index, item in enumerate(part):
            _take_drafts(item, f"{pointer}/{index}", name, declared)
    if not isinstance(part, dict):
        return
    if isinstance(part.get("$id"), str) and part["$id"].startswith("#/"):  # the address, repeated
        del part["$id"]
    if "additionalProperties" in part:  # in this case no property is unevaluated
        part.pop("unevaluatedProperties", None)
    address = part.pop("$schema") if isinstance(part.get("$schema"), str) else None
    draft = next((draft for draft, text in _DRAFTS.items() if address and text in address), None)
    if draft is not None:
        declared.setdefault(draft, str(address))
        if len(declared) > 1:
            first, second = declared.values()
            reason = f"this part has another draft than the whole: {shorten(second)!r} and {shorten(first)!r}"
            raise InvalidSchemaError(name, pointer, reason)
    for step, inside in _values(part):
        _take_drafts(inside, f"{pointer}/{step}", name, declared)


def _drop_what_the_draft_ignores(part: object, draft: int, *, is_root: bool = False) -> None:
    """Remove other keywords next to a ``$ref``, and keywords that are newer than the draft."""
    if isinstance(part, list):
        for item in part:
            _drop_what_the_draft_ignores(item, draft)
    if not isinstance(part, dict):
        return
    ignored = (_NEWER_THAN_7 | (_NEWER_THAN_4 if draft <= 4 else frozenset())) - ANNOTATIONS
    if isinstance(part.get("$ref"), str):
        # other parts may refer to what is in keywords that JSON Schema does not know
        others = (part.keys() - KEYWORDS) | (ANNOTATIONS if is_root else ANNOTATIONS - _IDS)
        ignored = frozenset(part.keys() - others - {"$ref"})
    for key in ignored & part.keys():
        del part[key]
    for _, inside in _values(part):
        _drop_what_the_draft_ignores(inside, draft)


_IDS = frozenset(("id", "$id"))


# Keywords whose misspelling changes which values are valid; of all drafts since 3.
ASSERTIONS = MAPS | frozenset(
    "type enum const required items prefixItems additionalItems additionalProperties propertyNames contains "
    "minContains maxContains minItems maxItems uniqueItems minProperties maxProperties minLength maxLength "
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf pattern format anyOf oneOf allOf not if "
    "then else dependentRequired unevaluatedItems unevaluatedProperties $ref $dynamicRef "
    "$recursiveRef".split()
)
# With the annotations of JSON Schema and of OpenAPI, which are not misspelt keywords.
KEYWORDS = (
    ASSERTIONS
    | ANNOTATIONS
    | frozenset("comment xml externalDocs contentEncoding contentMediaType contentSchema".split())
)


def _without_draft_3(part: Json) -> Json:
    """Rewrite a JSON Schema of draft 3 as draft 4."""
    if isinstance(part, list):
        return [_without_draft_3(item) for item in part]
    if not isinstance(part, dict):
        return part
    schema: JsonSchema = {
        key: {name: _without_draft_3(inside) for name, inside in value.items()}
        if key in MAPS and isinstance(value, dict)
        else value
        if key in DATA
        else _without_draft_3(value)
        for key, value in part.items()
    }
    _move_required(part, schema)
    if "divisibleBy" in schema:
        schema["multipleOf"] = schema.pop("divisibleBy")
    bases = schema.pop("extends", [])
    all_of = bases if isinstance(bases, list) else [bases]
    if "disallow" in schema:
        schema["not"] = _kinds_of_draft_3(schema.pop("disallow"))
    kinds = _kinds_of_draft_3(schema.pop("type", "any"))
    if kinds.keys() <= {"type"}:
        schema |= kinds
    else:
        all_of.append(kinds)
    return {**schema, "allOf": all_of} if all_of else schema


def _move_required(part: JsonSchema, schema: JsonSchema) -> None:
    """Write the required properties, and dependencies on them, as lists, as draft 4 does."""
    if isinstance(schema.get("required"), bool):  # its parent has it in a list
        del schema["required"]
    properties = part["properties"] if isinstance(part.get("properties"), dict) else {}
    required = [
        key for key, one in properties.items() if isinstance(one, dict) and one.get("required") is True
    ]
    if required:
        schema["required"] = required
    dependencies = schema.get("dependencies")
    for key, value in dependencies.items() if isinstance(dependencies, dict) else ():
        if isinstance(value, str):
            schema["dependencies"][key] = [value]


def _kinds_of_draft_3(kinds: object) -> JsonSchema:
    """Return the schema for the types of draft 3, which may include schemas and "any"."""
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "any" in kinds:
        return {}
    if all(isinstance(kind, str) for kind in kinds):
        return {"type": kinds[0] if len(kinds) == 1 else kinds}
    return {"anyOf": [{"type": kind} if isinstance(kind, str) else kind for kind in kinds]}


def moved_references(part: Json, root: str) -> Json:
    """Rewrite each ``$ref`` to a JSON pointer for the schema's new place at the JSON pointer ``root``."""
    if isinstance(part, list):
        return [moved_references(item, root) for item in part]
    if not isinstance(part, dict):
        return part
    moved: JsonSchema = {}
    for key, value in part.items():
        if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
            moved[key] = f"{root}{value[1:]}"
        elif key in MAPS and isinstance(value, dict):
            moved[key] = {name: moved_references(inside, root) for name, inside in value.items()}
        else:
            moved[key] = value if key in DATA else moved_references(value, root)
    return moved


def is_multiple(value: float | Decimal, divisor: float | Decimal) -> bool:
    """Return True if a number is a multiple of another one in decimal notation, as 0.3 is of 0.1.

    The time does not depend on their exponents.
    """
    if isinstance(value, int) and isinstance(divisor, int):
        return value % divisor == 0
    number, number_exponent = _digits(value)
    unit, unit_exponent = _digits(divisor)
    exponent = number_exponent - unit_exponent
    if exponent >= 0:
        return number * pow(10, exponent, unit) % unit == 0
    # a number that is not zero has fewer trailing zeros than binary digits
    return number == 0 or (-exponent <= number.bit_length() and number % (unit * 10**-exponent) == 0)


def _digits(number: float | Decimal) -> tuple[int, int]:
    if isinstance(number, int):
        return abs(number), 0
    _, digits, exponent = Decimal(str(number)).as_tuple()
    return int("".join(map(str, digits))), int(exponent)


# --- Drafts ---


class SchemaDocument:
    """A JSON Schema whose parts can be looked up by JSON pointer, such as ``#/$defs/Person``.

    Attributes:
        draft: The number of its draft: 3, 4, 6, 7, or a year such as 2020.
        work: Counts the steps of converting it.
    """

    def __init__(self, raw: JsonSchema | bool, draft: int | None = None, work: Work | None = None) -> None:
        self._raw = raw
        self.work = work or Work()
        self.draft = draft or draft_of(raw)
        self._modernized: dict[str, JsonSchema | bool] = {}

    def schema(self, pointer: str) -> JsonSchema | bool:
        """Return the part of the JSON Schema at a JSON pointer, rewritten as draft 2020-12.

        The references in the result are JSON pointers.
        """
        if pointer not in self._modernized:
            node, base = self._lookup(pointer)
            self._modernized[pointer] = self._modernize(node, base)
        return self._modernized[pointer]

    @cached_property
    def _pointers_by_uri(self) -> dict[str, str]:
        """The JSON pointer of each part of the JSON Schema that has a URI or an anchor."""
        pointers = {"": "#"}
        for pointer, base, anchor in self._identified_parts(self._raw, "#", ""):
            pointers.setdefault(f"{base}#{anchor}" if anchor else base, pointer)
        return pointers

    def _lookup(self, pointer: str) -> tuple[object, str]:
        """Return the value at a JSON pointer, and the base URI of the references inside it."""
        node: object = self._raw
        base = self._base_uri(node, "")
        for step in pointer.split("/")[1:]:
            node = _part_at(node, step)
            base = self._base_uri(node, base)
        return node, base

    def _base_uri(self, node: object, base: str) -> str:
        own = node.get("id" if self.draft <= 4 else "$id") if isinstance(node, dict) else None
        if not isinstance(own, str) or own.startswith("#"):
            return base
        return urldefrag(urljoin(base, own)).url

    def _identified_parts(self, node: object, pointer: str, base: str) -> Iterator[tuple[str, str, str]]:
        """Yield the JSON pointer, the base URI and the anchor of each subschema that has an id."""
        if not isinstance(node, dict):
            return
        own_base = self._base_uri(node, base)
        if own_base != base:
            yield pointer, own_base, ""
        own = node.get("id" if self.draft <= 4 else "$id")
        # before draft 2019-09 an anchor was written as {"$id": "#name"}
        anchors = [own[1:] if isinstance(own, str) and own.startswith("#") else None]
        for anchor in (*anchors, node.get("$anchor"), node.get("$dynamicAnchor")):
            if isinstance(anchor, str) and anchor:
                yield pointer, own_base, anchor
        for step, child in children(node):
            yield from self._identified_parts(child, f"{pointer}/{step}", own_base)

    def _resolve(self, reference: str, base: str) -> str | None:
        """Return the JSON pointer that a ``$ref`` leads to; None if it leads outside the document."""
        uri, fragment = urldefrag(urljoin(base, reference) if reference[:1] != "#" else base + reference)
        start = self._pointers_by_uri.get(uri)
        if start is None:
            return None
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):  # an anchor
            return self._pointers_by_uri.get(f"{uri}#{fragment}")
        pointer = start + fragment
        try:
            node, _ = self._lookup(pointer)
        except (KeyError, IndexError, ValueError, TypeError):
            return None
        return pointer if isinstance(node, (dict, bool)) else None

    def _modernize(self, node: Json, base: str) -> Json:
        """Rewrite a JSON Schema as draft 2020-12, with JSON pointers as its references."""
        if not isinstance(node, dict):
            return node
        base = self._base_uri(node, base)
        schema = {
            key: self._modernize_value(key, value, base)
            for key, value in node.items()
            if self._is_keyword(key)
        }
        reference = node.get("$ref")
        if isinstance(reference, str):
            target = self._resolve(reference, base)
            resolved = {EXTERNAL: reference} if target is None else {"$ref": target}
            if self.draft <= 7:  # up to draft 7 a $ref hides all other keywords of its schema
                return {key: value for key, value in schema.items() if key in ANNOTATIONS} | resolved
            del schema["$ref"]
            return schema | resolved
        if not isinstance(schema.get("required", []), list):  # draft 3 has a boolean in the property itself
            del schema["required"]
        return _modernize_arrays(with_numeric_bounds(schema))

    def _modernize_value(self, key: str, value: object, base: str) -> object:
        if key in MAPS and isinstance(value, dict):
            return {name: self._modernize(part, base) for name, part in value.items()}
        if (key in _LISTS_OF_SCHEMAS or key == "items") and isinstance(value, list):
            return [self._modernize(part, base) for part in value]
        return self._modernize(value, base) if key in _SCHEMAS else value

    def _is_keyword(self, key: str) -> bool:
        """Return True if the JSON Schema draft that the schema uses, such as draft 7, has the keyword."""
        if self.draft <= 4 and key in _NEWER_THAN_4:
            return False
        # $defs is accepted in all drafts, because generators mix it with older ones
        return self.draft > 7 or key not in _NEWER_THAN_7 or key == "$defs"


def draft_of(raw: object) -> int:
    """Return the number of the draft that ``$schema`` names: 3, 4, 6, 7, or 2020 for all others."""
    address = raw.get("$schema") if isinstance(raw, Mapping) else None
    for draft in (3, 4, 6, 7):
        if isinstance(address, str) and f"{_DRAFTS[draft]}/" in address:
            return draft
    return 2020


def with_numeric_bounds(schema: JsonSchema) -> JsonSchema:
    """Rewrite the boolean ``exclusiveMinimum`` of JSON Schema draft 4 as a number.

    For example, ``{"minimum": 3, "exclusiveMinimum": true}`` becomes ``{"exclusiveMinimum": 3}``. The same
    applies to ``exclusiveMaximum``.
    """
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        value = schema.get(exclusive)
        if isinstance(value, bool):
            rest = {key: value for key, value in schema.items() if key != exclusive}
            if value and bound in rest:
                rest[exclusive] = rest.pop(bound)
            schema = rest
    return schema


def _modernize_arrays(schema: JsonSchema) -> JsonSchema:
    """Rewrite the array keywords of older JSON Schema drafts as ``prefixItems`` and ``items``.

    A list under ``items`` becomes ``prefixItems``, and ``additionalItems`` becomes ``items``.
    """
    rest = {key: value for key, value in schema.items() if key != "additionalItems"}
    if isinstance(schema.get("items"), list):
        rest["prefixItems"] = rest.pop("items")
        if "additionalItems" in schema:
            rest["items"] = schema["additionalItems"]
    return rest
