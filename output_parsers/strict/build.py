"""Build codecs, which convert values between a JSON Schema and a provider's strict mode.

``CodecBuilder`` takes a schema apart and chooses a codec for each part. A keyword that the profile does not
enforce is not sent: it becomes a remark in the description for the model, and a finding for the user::

    {"type": "array", "items": {"type": "integer"}, "uniqueItems": true}
    -> sent as {"type": "array", "items": {"type": "integer"}, "description": "no item twice"}

The functions below the class build the codecs of one JSON type each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..json_schema.document import ANNOTATIONS, EXTERNAL, SchemaDocument
from ..profiles import Profile
from ..result.errors import shorten
from ..types.constraints import CONSTRAINTS_IN_WORDS
from ..types.node import JsonSchema
from .codec import ENFORCED_LATER, Codec, Definition, FindingLog, RefCodec, SchemaLocation
from .containers import (
    Absence,
    FreeProperties,
    ListCodec,
    NativeTupleCodec,
    ObjectCodec,
    ObjectProperty,
    PairsCodec,
    TupleCodec,
    UnionCodec,
    make_union,
)
from .scalars import AnyCodec, ChoiceCodec, JsonTextCodec, NeverCodec, NullableCodec, ScalarCodec
from .schema_queries import (
    KINDS,
    MergedSchema,
    canonical_json,
    close_unevaluated,
    contains_reference,
    describes_shape,
    intersect,
    is_enforceable_pattern,
    is_regex,
    kind_of,
    kind_order,
    kinds_of,
    merge_constraints,
    property_schema,
    reference_name,
    sole_reference,
)

_STEPS_OF_A_PART = 50  # of ``Work``
_MAX_ALTERNATIVES = 16  # a product of several unions with more branches is not built
_OBJECT_KEYWORDS = frozenset(
    "properties patternProperties additionalProperties required propertyNames minProperties maxProperties "
    "dependencies dependentRequired dependentSchemas unevaluatedProperties".split()
)
_ARRAY_KEYWORDS = frozenset(
    "items prefixItems minItems maxItems uniqueItems contains minContains maxContains "
    "unevaluatedItems".split()
)
_NEVER_SENT = frozenset(
    "not if then else dependencies dependentRequired dependentSchemas unevaluatedProperties unevaluatedItems "
    "$dynamicRef $recursiveRef".split()
)


class SizeLimits(NamedTuple):
    """Limits on enum size and nesting depth that make a JSON Schema small enough for a provider.

    Attributes:
        max_enum: Enums with more values are not sent. None sends all.
        max_depth: Objects nested this deeply are sent as JSON text. None sends all as they are.
    """

    max_enum: int | None = None
    max_depth: int | None = None


class CodecBuilder:
    """Builds a codec for each part of a JSON Schema.

    Attributes:
        profile: What the provider supports.
        findings: What had to be changed so far.
        size_limits: What is left out to make the schema smaller.
    """

    def __init__(self, profile: Profile, document: SchemaDocument, size_limits: SizeLimits) -> None:
        self.profile = profile
        self.findings = FindingLog()
        self.size_limits = size_limits
        self._document = document
        self._definitions: dict[str, Definition] = {}
        self._names: set[str] = set()
        # definitions that are being built, with no object or array between them and the current part
        self._open_definitions: list[str] = []

    def build_root(self, location: SchemaLocation) -> Codec:
        """Build the codec for the whole JSON Schema."""
        return self._build(self._document.schema("#"), location)

    def build_nested(self, schema: JsonSchema | bool, location: SchemaLocation) -> Codec:
        """Build the codec for a schema nested in an object or an array."""
        # a recursive type is only finite if its recursion passes through an object or an array
        open_definitions, self._open_definitions = self._open_definitions, []
        try:
            return self._build(schema, location)
        finally:
            self._open_definitions = open_definitions

    def _build(self, schema: JsonSchema | bool, location: SchemaLocation) -> Codec:
        """Build the codec for a schema, including the definitions it refers to."""
        self._document.work.spend(_STEPS_OF_A_PART)
        pointer = sole_reference(schema)
        if pointer is not None:
            return self._build_reference(pointer, schema, location)
        if contains_reference(schema):
            # a schema with a reference and other keywords may be recursive, so it becomes a definition too
            name, text = reference_name(schema) or "Part", canonical_json(schema)
            self._document.work.spend(len(text))
            return self._build_definition(text, name, schema, location)
        return self._build_merged(schema, location)

    def _build_reference(self, pointer: str, schema: JsonSchema | bool, location: SchemaLocation) -> Codec:
        """Build the codec for a JSON Schema that is only a ``$ref``."""
        name = pointer.rpartition("/")[2].lstrip("#") or "Root"
        target_location = location if location.of_type else location._replace(path=pointer)
        codec = self._build_definition(pointer, name, self._document.schema(pointer), target_location)
        if isinstance(schema, dict) and "description" in schema and isinstance(codec, RefCodec):
            codec.description = schema["description"]
        return codec

    def _build_definition(
        self, key: str, name: str, schema: JsonSchema | bool, location: SchemaLocation
    ) -> Codec:
        """Return the codec for a definition under ``$defs``; build it if missing."""
        definition = self._definitions.get(key)
        if definition is None:
            definition = self._definitions[key] = Definition(self._free_name(name))
            self._open_definitions.append(key)
            definition.codec = self._build_merged(schema, location)
            if key in self._open_definitions:
                self._open_definitions.remove(key)
        elif definition.codec is None and key in self._open_definitions:
            self.findings.give_up(location, "a reference that leads back to itself")
            return NeverCodec()
        elif definition.codec is None and not self.profile.recursion:
            self.findings.add(location, "recursion", "sent as JSON text")
            return self.any_json(location, [])
        # a NeverCodec is returned itself, because its parents check for it and leave it out
        return definition.codec if isinstance(definition.codec, NeverCodec) else RefCodec(definition)

    def _free_name(self, name: str) -> str:
        bare = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "Part"
        free, number = bare, 2
        while free in self._names:
            free, number = f"{bare}{number}", number + 1
        self._names.add(free)
        return free

    def _build_merged(self, schema: JsonSchema | bool, location: SchemaLocation) -> Codec:
        """Build the codec for a schema after merging all schemas it refers to."""
        merged = merge_constraints(schema, self._document)
        if merged.never:
            return NeverCodec()
        if EXTERNAL in merged.plain:
            self.findings.give_up(location, f"a reference out of the document ({merged.plain[EXTERNAL]})")
            return self.any_json(location, [])
        remarks = [f"all values of {keyword} apply" for keyword in merged.unmerged]
        for keyword in merged.unmerged:
            self.findings.add(location, keyword, ENFORCED_LATER)
        if not merged.choices:  # otherwise each branch may evaluate properties
            return self._build_flat(close_unevaluated(merged.plain), remarks, location)
        return self._build_with_choices(merged, remarks, location)

    def _build_with_choices(
        self, merged: MergedSchema, remarks: list[str], location: SchemaLocation
    ) -> Codec:
        """Build the codec for a JSON Schema with anyOf or oneOf.

        It is a union of the options, each merged with the other keywords of the schema.
        """
        base = {key: value for key, value in merged.plain.items() if key not in ANNOTATIONS}
        # a property that one branch does not evaluate may be evaluated by another
        base.pop("unevaluatedProperties", None)
        options: list[JsonSchema | bool] = [base]
        is_union = False
        for choice in merged.choices:
            too_many = len(options) * len(choice) > _MAX_ALTERNATIVES and (is_union or base)
            # options such as {"required": ["a"]} are conditions; as branches they would accept any JSON
            if too_many or not any(isinstance(option, dict) and describes_shape(option) for option in choice):
                remarks.append(describe_keyword("anyOf", list(choice)))
                self.findings.add(location, "anyOf", ENFORCED_LATER)
            else:
                options = [self._intersect(left, right) for left in options for right in choice]
                is_union = True
        if not is_union:
            return self._build_flat(merged.plain, remarks, location)
        codec = make_union([self._build(option, location) for option in options])
        if isinstance(codec, UnionCodec):
            codec.location = location
            codec.description = add_remarks(merged.plain.get("description"), remarks)
        return codec

    def _intersect(self, base: Any, option: JsonSchema | bool) -> JsonSchema | bool:
        """Combine a JSON Schema with one option of its anyOf into a schema that requires both.

        An option that already implies the type of the base is returned unchanged.
        """
        if isinstance(base, dict) and base.keys() <= {"type"} and isinstance(option, dict):
            kinds = merge_constraints(option, self._document).plain.get("type")
            if not base or (kinds is not None and kinds_of(kinds) <= kinds_of(base["type"])):
                return option
        return intersect(base, option)

    def _build_flat(self, schema: JsonSchema, remarks: list[str], location: SchemaLocation) -> Codec:
        """Build the codec for a schema without references, allOf, anyOf or oneOf."""
        for keyword in sorted(_NEVER_SENT & schema.keys()):
            remarks.append(describe_keyword(keyword, schema[keyword]))
            self.findings.add(location, keyword, ENFORCED_LATER)
        if "enum" in schema or "const" in schema:
            codec = build_choice(self, schema, remarks, location)
            if codec is not None:
                return codec
        if "type" not in schema:
            return self._build_untyped(schema, remarks, location)
        kinds = sorted(kinds_of(schema["type"]), key=kind_order)
        return self._build_kinds(kinds, schema, remarks, location)

    def _build_untyped(self, schema: JsonSchema, remarks: list[str], location: SchemaLocation) -> Codec:
        """Build the codec for a JSON Schema without the keyword ``type``."""
        structured = [
            kind
            for kind, keywords in (("object", _OBJECT_KEYWORDS), ("array", _ARRAY_KEYWORDS))
            if keywords & schema.keys()
        ]
        if not structured:
            keywords = {key: value for key, value in schema.items() if key not in ANNOTATIONS | _NEVER_SENT}
            for keyword in sorted(keywords):
                remarks.append(describe_keyword(keyword, keywords[keyword]))
                self.findings.add(location, keyword, ENFORCED_LATER)
            return self.any_json(location, remarks, schema)
        # keywords of objects constrain objects only: without "type", all other types are still allowed
        others = [kind for kind in KINDS if kind not in structured]
        if self.profile.any_json:
            return self._build_kinds([*structured, *others], schema, remarks, location)
        text = JsonTextCodec(frozenset(others))
        text.description = f"{' or '.join(others)}, written as JSON text in this string"
        action = f"values of other types than {' and '.join(structured)} are sent as JSON text"
        self.findings.add(location, "no type", action)
        return self._build_kinds(structured, schema, remarks, location, text)

    def _build_kinds(
        self,
        kinds: list[str],
        schema: JsonSchema,
        remarks: list[str],
        location: SchemaLocation,
        *more: Codec,
    ) -> Codec:
        """Build the codec for values of several JSON types, such as string or null.

        ``more`` are codecs for further alternatives.
        """
        if len(kinds) == 1 and not more:
            return self._build_kind(kinds[0], schema, remarks, location)
        bare = {key: value for key, value in schema.items() if key != "description"}
        codec = make_union([*(self._build_kind(kind, bare, [], location) for kind in kinds), *more])
        if isinstance(codec, UnionCodec):
            codec.location = location
            codec.description = add_remarks(schema.get("description"), remarks)
        return codec

    def _build_kind(
        self, kind: str, schema: JsonSchema, remarks: list[str], location: SchemaLocation
    ) -> Codec:
        """Build the codec for a value of one JSON type."""
        max_depth = self.size_limits.max_depth
        if max_depth is not None and location.depth >= max_depth and kind in ("object", "array"):
            self.findings.add(location, "deep nesting", "sent as JSON text")
            return self.any_json(location, remarks, schema)
        # each type gets its own copy of the remarks, because the functions append to it
        if kind == "object":
            return build_object(self, schema, list(remarks), location)
        if kind == "array":
            return build_array(self, schema, list(remarks), location)
        return build_scalar(self, kind, schema, list(remarks), location)

    def any_json(
        self, location: SchemaLocation, remarks: list[str], schema: JsonSchema | None = None
    ) -> Codec:
        """Build the codec for arbitrary JSON values."""
        description = (schema or {}).get("description")
        if self.profile.any_json:
            codec: Codec = AnyCodec()
            codec.description = add_remarks(description, remarks)
            return codec
        self.findings.add(location, "any JSON", "sent as JSON text in a string")
        codec = JsonTextCodec()
        codec.description = add_remarks(description, [_ANY_JSON_REMARK, *remarks])
        return codec


# --- Remarks for the model ---

_WORDS = {
    **CONSTRAINTS_IN_WORDS,
    "format": "format {}",
    "required": "required: {}",
    "not": "not {}",
    "propertyNames": "each key: {}",
    "contains": "with an item that is {}",
    "enum": "one of {}",
    "const": "{}",
}
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_ANY_JSON_REMARK = "any JSON value, written as JSON text in this string"
_PAIRS_REMARK = "as a list of keys and values, each key once"
_TUPLE_REMARK = "items by their position"
_MAX_REMARK = 300  # characters; a longer constraint does not help a model


def describe_keyword(keyword: str, value: object) -> str:
    """Describe a JSON Schema keyword and its value in words, for example ``"at most 3 items"``."""
    if keyword == "uniqueItems":
        return "no item twice"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    words = _WORDS.get(keyword, keyword + ": {}").format(shorten(text, _MAX_REMARK))
    return words.removesuffix("s") if value == 1 and keyword in _COUNTS else words


def add_remarks(description: object, remarks: Iterable[str]) -> str | None:
    """Append remarks in parentheses to the description in a JSON Schema.

    Return None without a description and remarks.
    """
    text = "; ".join(remarks)
    if not isinstance(description, str) or not description.strip():
        return text or None
    return f"{description} ({text})" if text else description


def _null_remark(default: object, *, has_default: bool) -> str:
    """Return a remark for a property's description that says what null means."""
    if not has_default:
        return "null: left out"
    return f"null: left out, which means {shorten(json.dumps(default, ensure_ascii=False, default=str))}"


# --- Scalars and enums ---

_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_KEYWORDS_BY_KIND = {
    "integer": (*_BOUNDS, "multipleOf"),
    "number": (*_BOUNDS, "multipleOf"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
}


def build_scalar(
    builder: CodecBuilder, kind: str, schema: JsonSchema, remarks: list[str], location: SchemaLocation
) -> Codec:
    """Build the codec for null, a boolean, a number or a string."""
    keywords = _sent_keywords(builder, kind, schema, remarks, location)
    codec = ScalarCodec(kind, keywords)
    codec.description = add_remarks(schema.get("description"), remarks)
    return codec


def _sent_keywords(
    builder: CodecBuilder, kind: str, schema: JsonSchema, remarks: list[str], location: SchemaLocation
) -> dict[str, object]:
    """Return the keywords of a JSON Schema that the provider enforces in strict mode.

    The other keywords are described in ``remarks``.
    """
    keywords: dict[str, object] = {}
    for keyword in _KEYWORDS_BY_KIND.get(kind, ()):
        if keyword not in schema:
            continue
        if is_keyword_enforced(builder.profile, kind, keyword, schema):
            keywords[keyword] = schema[keyword]
        else:
            remarks.append(describe_keyword(keyword, schema[keyword]))
            feature = f"format {schema[keyword]!r}" if keyword == "format" else keyword
            builder.findings.add(location, feature, ENFORCED_LATER)
    return keywords


def keywords_of(kind: str) -> tuple[str, ...]:
    """Return the JSON Schema keywords that apply to a JSON type, such as ``minItems`` for arrays."""
    return _KEYWORDS_BY_KIND.get(kind, ())


def is_keyword_enforced(profile: Profile, kind: str, keyword: str, schema: JsonSchema) -> bool:
    """Return True if a provider's strict mode enforces a JSON Schema keyword."""
    value = schema[keyword]
    if keyword not in profile.keywords:
        return False
    if keyword in _BOUNDS and kind == "number":
        return profile.bounds_of_numbers
    if keyword == "format":
        return value in profile.formats
    if keyword == "pattern":
        return is_enforceable_pattern(value, whole=profile.whole_patterns)
    if keyword in ("minLength", "maxLength"):  # grammars enforce either the length or the form of a text
        return "pattern" not in schema and "format" not in schema
    if keyword == "minItems" and profile.max_min_items is not None:
        return bool(value <= profile.max_min_items)
    return True


def _enum_values(schema: JsonSchema) -> list[object]:
    """Return the values that an enum or a const allows, of the types that the schema allows."""
    values = [schema["const"]] if "const" in schema else schema["enum"]
    if "const" in schema and "enum" in schema:
        values = [value for value in values if value in schema["enum"]]
    kinds = schema.get("type")
    if kinds is None:
        return values
    allowed_kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    return [value for value in values if _has_kind(value, allowed_kinds)]


def build_choice(
    builder: CodecBuilder, schema: JsonSchema, remarks: list[str], location: SchemaLocation
) -> Codec | None:
    """Build the codec for an enum or a const.

    Return None if the enum has too many values to send.
    """
    values = _enum_values(schema)
    if not values:
        return NeverCodec()
    if _is_too_long(builder, values):
        builder.findings.add(location, f"an enum of {len(values)} values", ENFORCED_LATER)
        remarks.append(describe_keyword("enum", values))
        return None
    if any(isinstance(value, (dict, list)) for value in values):
        builder.findings.add(location, "an enum of objects or arrays", "sent as their JSON text")
    # Gemini has no enum of booleans: the type is sent, and the remark names the value
    if any(isinstance(value, bool) for value in values) and "boolean" not in builder.profile.enum_kinds:
        builder.findings.add(location, "an enum of booleans", ENFORCED_LATER)
        remarks.append(describe_keyword("enum", values))
    codec = ChoiceCodec(values, builder.profile.enum_kinds)
    codec.description = add_remarks(schema.get("description"), remarks)
    return codec


def _is_too_long(builder: CodecBuilder, values: list[object]) -> bool:
    """Return True if an enum has more values than the provider or the size limits allow."""
    limits, max_enum = builder.profile.limits, builder.size_limits.max_enum
    if max_enum is not None and len(values) > max_enum:
        return True
    if limits.long_enum is None or limits.long_enum_text is None or len(values) <= limits.long_enum:
        return False
    return sum(len(value) for value in values if isinstance(value, str)) > limits.long_enum_text


def _has_kind(value: Any, kinds: set[str]) -> bool:
    kind = kind_of(value)
    return (
        kind in kinds or (kind == "number" and "integer" in kinds and value == value // 1) or "any" in kinds
    )


# --- Arrays ---

_CHECKED_LATER = ("uniqueItems", "contains", "minContains", "maxContains")


def build_array(
    builder: CodecBuilder, schema: JsonSchema, remarks: list[str], location: SchemaLocation
) -> Codec:
    """Build the codec for a JSON array.

    An array is a tuple if its items have different schemas by position.
    """
    for keyword in _CHECKED_LATER:
        if keyword in schema and schema[keyword] is not False:
            remarks.append(describe_keyword(keyword, schema[keyword]))
            builder.findings.add(location, keyword, ENFORCED_LATER)
    prefix = schema.get("prefixItems", [])
    if prefix:
        codec = _build_tuple(builder, schema, prefix, remarks, location)
    else:
        item = builder.build_nested(schema.get("items", True), location.subschema("items").deeper())
        if isinstance(item, NeverCodec):
            schema = {**schema, "maxItems": 0}
        codec = ListCodec(item, _sent_keywords(builder, "array", schema, remarks, location))
    codec.description = add_remarks(schema.get("description"), remarks)
    return codec


def _build_tuple(
    builder: CodecBuilder,
    schema: JsonSchema,
    prefix: list[Any],
    remarks: list[str],
    location: SchemaLocation,
) -> Codec:
    """Build the codec for an array that has one schema for each position."""
    max_items = schema.get("maxItems")
    # items beyond maxItems cannot occur
    prefix = prefix if max_items is None else prefix[: int(max_items)]
    first: list[Codec] = []
    rest: Codec | None = NeverCodec() if max_items is not None and max_items <= len(prefix) else None
    for index, item in enumerate(prefix):
        codec = builder.build_nested(item, location.subschema("prefixItems", index).deeper())
        if isinstance(codec, NeverCodec):  # no value fits this position, so the array ends before it
            rest = codec
            break
        first.append(codec)
    if rest is None:
        rest = builder.build_nested(schema.get("items", True), location.subschema("items").deeper())
    if "prefixItems" in builder.profile.keywords:
        return NativeTupleCodec(first, rest, _sent_keywords(builder, "array", schema, remarks, location))
    min_items = schema.get("minItems", 0)
    longer = [keyword for keyword in ("minItems", "maxItems") if schema.get(keyword, 0) > len(first)]
    remarks.extend(describe_keyword(keyword, schema[keyword]) for keyword in longer)
    builder.findings.add(location, "items by position", "sent as an object with item_0 and so on")
    remarks.append(_TUPLE_REMARK)
    return TupleCodec(first, min(int(min_items), len(first)), rest)


# --- Objects ---

# With these keywords, {"key": null} and {} may differ in more than the value of the key.
_SENSITIVE_TO_ABSENCE = frozenset(
    "minProperties maxProperties dependencies dependentRequired dependentSchemas not if".split()
)


def build_object(
    builder: CodecBuilder, schema: JsonSchema, remarks: list[str], location: SchemaLocation
) -> Codec:
    """Build the codec for an object.

    The object can have declared keys, arbitrary keys or both.
    """
    fields = _build_fields(builder, schema, location)
    if fields is None:
        return NeverCodec()
    if not builder.profile.closed_objects:
        codec: Codec = _build_open_object(builder, schema, fields, remarks, location)
    else:
        extras = _build_free_properties(builder, schema, set(fields), remarks, location)
        # a dict is sent as the list itself, not as an object around it
        only_pairs = len(extras) == 1 and not fields
        codec = extras[0].pairs if only_pairs else ObjectCodec(fields, extras, None)
        if only_pairs:
            remarks.insert(0, _PAIRS_REMARK)
        _add_counts(builder, schema, codec, remarks, location)
    codec.title = schema.get("title") if "title" in builder.profile.keywords else None
    codec.description = add_remarks(schema.get("description"), remarks)
    return codec


def _add_counts(
    builder: CodecBuilder, schema: JsonSchema, codec: Codec, remarks: list[str], location: SchemaLocation
) -> None:
    """Enforce ``minProperties`` and ``maxProperties`` if possible; otherwise describe them in words.

    For a dict that is sent as a list of pairs, they become bounds on the number of items.
    """
    key_bounds = {"minItems": "minProperties", "maxItems": "maxProperties"}
    if isinstance(codec, PairsCodec):
        counts = {of_items: schema[of_keys] for of_items, of_keys in key_bounds.items() if of_keys in schema}
        codec.keywords = _sent_keywords(builder, "array", counts, remarks, location)
        return
    for keyword in key_bounds.values():
        if keyword in schema:
            remarks.append(describe_keyword(keyword, schema[keyword]))
            builder.findings.add(location, keyword, ENFORCED_LATER)


def _build_fields(
    builder: CodecBuilder, schema: JsonSchema, location: SchemaLocation
) -> dict[str, ObjectProperty] | None:
    """Build one codec for each property that a JSON Schema declares.

    Return None if no value fits a required property.
    """
    required = set(schema.get("required", ()))
    fields: dict[str, ObjectProperty] = {}
    for key in dict.fromkeys([*schema.get("properties", {}), *schema.get("required", ())]):
        value_schema = property_schema(schema, key)
        property_location = location.property(key, schema.get("title"))
        codec = builder.build_nested(value_schema, property_location)
        if isinstance(codec, NeverCodec):
            if key in required:  # required, but no value fits it: no object is valid
                return None
        elif key in required:
            fields[key] = ObjectProperty(codec, Absence.NEVER)
        elif not builder.profile.all_required:
            fields[key] = ObjectProperty(codec, Absence.MISSING)
        else:
            null_may_be_absence = _SENSITIVE_TO_ABSENCE.isdisjoint(schema)
            nullable = _build_nullable(
                builder, value_schema, codec, property_location, null_may_be_absence=null_may_be_absence
            )
            fields[key] = ObjectProperty(nullable, Absence.NULL)
    return fields


def _build_nullable(
    builder: CodecBuilder,
    schema: JsonSchema | bool,
    codec: Codec,
    location: SchemaLocation,
    *,
    null_may_be_absence: bool,
) -> Codec:
    """Build the codec for an optional property, which is sent as null if missing.

    If the default is null and ``null_may_be_absence`` is true, null and a missing property are treated alike.
    """
    has_default = isinstance(schema, dict) and "default" in schema
    default: object = schema["default"] if isinstance(schema, dict) and has_default else None
    null_default = null_may_be_absence and has_default and default is None
    nullable = NullableCodec(codec, null_default=null_default)
    if not null_default:
        nullable.description = _null_remark(default, has_default=has_default)
    action = "sent as required; null where it is left out"
    if null_default and not location.of_type:  # the reader of a Python type fills in the default itself
        action += ", which is its default, and comes back as null"
    builder.findings.add(location, "an optional property", action)
    return nullable


def _build_free_properties(
    builder: CodecBuilder,
    schema: JsonSchema,
    names: set[str],
    remarks: list[str],
    location: SchemaLocation,
) -> list[FreeProperties]:
    """Build codecs that send undeclared properties as key-value pairs.

    There is one list for each key pattern, and one for all other keys.
    """
    extras: list[FreeProperties] = []
    patterns = schema.get("patternProperties", {})
    schemas = [*patterns.items(), (None, schema.get("additionalProperties", True))]
    for pattern, value_schema in schemas:
        steps = ("additionalProperties",) if pattern is None else ("patternProperties", pattern)
        # two objects deeper: the list of pairs puts an object around each value
        value = builder.build_nested(value_schema, location.subschema(*steps).deeper().deeper())
        if isinstance(value, NeverCodec):
            continue
        name = _free_key("additional_properties" if pattern is None else "matching_properties", names)
        # a pattern that Python cannot compile is treated like one that matches every key
        checkable = pattern if pattern is None or is_regex(pattern) else None
        pairs = PairsCodec(_build_key(builder, schema, pattern, remarks, location), value, {})
        pairs.description = _PAIRS_REMARK if pattern is None else f"{_PAIRS_REMARK}; keys match {pattern}"
        extras.append(FreeProperties(name, checkable, pairs))
        feature = "additional properties" if pattern is None else f"keys that match {pattern}"
        builder.findings.add(location, feature, "sent as a list of keys and values")
    return extras


def _free_key(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    names.add(name)
    return name


def _build_key(
    builder: CodecBuilder,
    schema: JsonSchema,
    pattern: str | None,
    remarks: list[str],
    location: SchemaLocation,
) -> Codec:
    """Build the codec for the keys of undeclared properties.

    It is the codec for a string that satisfies ``propertyNames``, or that matches a pattern.
    """
    key_schema = schema.get("propertyNames", True)
    if key_schema is True or key_schema == {}:
        keywords = {"pattern": pattern} if pattern else {}
        return ScalarCodec("string", _sent_keywords(builder, "string", keywords, [], location))
    codec = builder.build_nested(key_schema, location.subschema("propertyNames"))
    if isinstance(codec, ScalarCodec) and codec.kind == "string":
        return codec
    if isinstance(codec, ChoiceCodec) and codec.is_identity and codec.kinds == {"string"}:
        return codec  # the keys of a dict[Literal["a", "b"], int]
    remarks.append(describe_keyword("propertyNames", key_schema))
    builder.findings.add(location, "propertyNames", ENFORCED_LATER)
    return ScalarCodec("string", {})


def _build_open_object(
    builder: CodecBuilder,
    schema: JsonSchema,
    fields: dict[str, ObjectProperty],
    remarks: list[str],
    location: SchemaLocation,
) -> ObjectCodec:
    """Build the codec for an object, for providers that support arbitrary keys."""
    schemas = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties", True)]
    value_location = location.subschema("additionalProperties").deeper()
    others = [builder.build_nested(other, value_location) for other in schemas]
    for keyword in ("patternProperties", "propertyNames", "minProperties", "maxProperties"):
        if schema.get(keyword):
            remarks.append(describe_keyword(keyword, schema[keyword]))
            builder.findings.add(location, keyword, ENFORCED_LATER)
    rest = make_union(others)
    return ObjectCodec(fields, (), None if isinstance(rest, NeverCodec) else rest)
