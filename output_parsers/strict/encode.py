"""Convert a JSON Schema, or the parser of a Python type, for use in a provider's strict mode.

``encode`` returns an ``Encoding``: the schema to send, and functions that translate values. OpenAI, for
example, requires every property, so an optional property becomes nullable::

    schema in:     {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                    "required": ["name"], "additionalProperties": false}
    schema out:    the same with "age": {"anyOf": [{"type": "integer"}, {"type": "null"}], ...} and
                   "required": ["name", "age"]
    model writes:  {"name": "Ada", "age": null}   ->   decoded: {"name": "Ada"}

If a schema cannot be sent without loss, strict mode is not used, and the findings explain why.
``encode_parser`` does the same for the parser of a Python type. Its ``EncodedNode`` also accepts replies that
ignore the encoding.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar

from ..json_schema.document import SchemaDocument, TooComplexError, Work
from ..parser.reply_reader import ReplyReader
from ..parser.type_parser import TypeParser
from ..profiles import Profile
from ..result.errors import USER_CODE_ERRORS, Problem
from ..result.reading import Ambiguity, Cursor, Json, ValidationFailure, describe_value, strict_equal
from ..types.node import (
    Definitions,
    JsonNodes,
    JsonSchema,
    Node,
    WrapperNode,
    closed_object,
    json_node_of,
    schema_of,
    walk as walk_nodes,
    with_description,
)
from ..types.records import EnvelopeNode, ObjectNode
from .build import CodecBuilder, SizeLimits, is_keyword_enforced, keywords_of
from .codec import (
    Codec,
    DecodeCursor,
    DecodeResult,
    DeviationKind,
    EncodingError,
    Finding,
    FindingLog,
    RefCodec,
    SchemaLocation,
    walk,
)
from .containers import ObjectCodec, disambiguate_unions, is_identity
from .scalars import NeverCodec, WrapperCodec
from .schema_queries import exceeded_limits, json_equal, kind_of

# --- Encoding a schema ---


class Encoding(NamedTuple):
    """A JSON Schema converted for a provider's strict mode, with functions that convert values both ways.

    Attributes:
        schema: The schema to send. If the encoding is not ``lossless``, it is the original one.
        identity: True if decoding never changes a value.
        decode: Decodes a value. Raises EncodingError if it does not have the encoded form.
        encode: Encodes a plain value. Raises EncodingError if it does not fit the schema.
        findings: The features that the profile does not support, and how each was replaced.
        lossless: False if strict mode cannot be used. Then nothing is encoded.
        decode_leniently: Decodes what it can and returns all deviations. The cursor says where the value is.
        pair_names: The keys under which undeclared properties of objects are sent as a list of pairs.
    """

    schema: JsonSchema
    identity: bool
    decode: Callable[[Json], Json]
    encode: Callable[[Json], Json]
    findings: tuple[Finding, ...]
    lossless: bool
    decode_leniently: Callable[[Json, Cursor], DecodeResult]
    pair_names: frozenset[str] = frozenset()


def encode(schema: JsonSchema, profile: Profile) -> Encoding:
    """Convert a JSON Schema to one that a provider accepts in strict mode.

    A schema without ``$schema`` is read as draft 2020-12.
    """
    return encode_at(schema, profile, SchemaLocation("#", of_type=False))


def encode_at(schema: JsonSchema, profile: Profile, location: SchemaLocation) -> Encoding:
    """Convert a JSON Schema for a provider's strict mode; problems mention the given location."""
    if is_supported(schema, profile):
        return _unchanged(schema, profile, location)
    return build_encoding(schema, profile, location)


def _unchanged(schema: JsonSchema, profile: Profile, location: SchemaLocation) -> Encoding:
    """Return an Encoding for a JSON Schema that is sent to the provider unchanged.

    Its codecs are built when the first value is encoded or decoded.
    """

    @cache
    def built() -> Encoding:
        return build_encoding(schema, profile, location)

    return Encoding(
        schema,
        identity=True,
        decode=lambda value: built().decode(value),
        encode=lambda value: built().encode(value),
        findings=(),
        lossless=True,
        decode_leniently=lambda value, cursor: built().decode_leniently(value, cursor),
    )


# Steps that make a large schema smaller: first long enums are left out, then deep objects.
_SIZE_LIMITS = [
    SizeLimits(),
    *(SizeLimits(max_enum) for max_enum in (250, 50, 10)),
    *(SizeLimits(50, max_depth) for max_depth in (9, 7, 5, 3)),
]


def build_encoding(schema: JsonSchema, profile: Profile, location: SchemaLocation) -> Encoding:
    """Return the Encoding of a JSON Schema, without checking if the schema could be sent unchanged."""
    log, work = FindingLog(), Work()
    # each step builds the codecs again, because a smaller enum or depth changes them everywhere
    for size_limits in _SIZE_LIMITS:
        encoding, log, too_large = _try_encode(schema, profile, location, size_limits, work)
        if encoding is not None:
            return encoding
        if not too_large:
            break
    return Encoding(
        schema,
        identity=True,
        decode=lambda value: value,
        encode=lambda value: value,
        findings=log.findings,
        lossless=False,
        decode_leniently=lambda value, cursor: DecodeResult(value, ()),
    )


def _try_encode(
    schema: JsonSchema, profile: Profile, location: SchemaLocation, size_limits: SizeLimits, work: Work
) -> tuple[Encoding | None, FindingLog, bool]:
    """Convert a JSON Schema for a provider's strict mode.

    Also returns whether the result is too large.

    Returns the encoding or None, the findings, and True if the schema is only too large.
    """
    builder = CodecBuilder(profile, SchemaDocument(schema, work=work), size_limits)
    log = builder.findings
    try:
        # the limits of the profile count what is sent, so they are checked after the encoding
        root = _prepare_root(builder, builder.build_root(location), location, work)
    except RecursionError:
        log.give_up(location, "nesting that is too deep")
        return None, log, False
    except TooComplexError:
        log.give_up(location, "definitions that can be combined in too many ways")
        return None, log, False
    # the schema comes from the user and may be malformed in any way
    except (ValueError, *USER_CODE_ERRORS) as error:
        log.give_up(location, f"an invalid JSON Schema ({type(error).__name__}: {error})")
        return None, log, False
    if not all(finding.lossless for finding in log.findings):
        return None, log, False
    sent = _schema_with_definitions(root)
    exceeded = exceeded_limits(sent, profile.limits)
    for name, limit, count in exceeded:
        log.give_up(location, f"{count} {_LIMITS_IN_WORDS[name]}, but {profile.name} allows {limit}")
    if exceeded:
        return None, log, True
    encoding = Encoding(
        sent,
        identity=is_identity(root),
        decode=_make_decode(root),
        encode=_make_encode(root),
        findings=log.findings,
        lossless=True,
        decode_leniently=_make_lenient_decode(root),
        pair_names=_pair_names(root),
    )
    return encoding, log, False


def _pair_names(root: Codec) -> frozenset[str]:
    """Return the keys under which undeclared properties are sent as pairs, and which no field has."""
    objects = [codec for codec in walk(root) if isinstance(codec, ObjectCodec)]
    fields = {key for codec in objects for key in codec.fields}
    return frozenset(name for codec in objects for name in codec.pair_names) - fields


def _has_pairs(data: Json, names: frozenset[str]) -> bool:
    """Return True if an object in JSON data has a list of pairs under one of the names."""
    waiting: list[Json] = [data]
    while names and waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if any(isinstance(part.get(name), list) and all(map(_is_pair, part[name])) for name in names):
                return True
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return False


def _is_pair(data: Json) -> bool:
    return isinstance(data, dict) and data.keys() == {"key", "value"}


_LIMITS_IN_WORDS = {
    "depth": "levels of objects",
    "properties": "properties",
    "enum_values": "enum values",
    "text": "characters of names and values",
    "optional": "optional properties",
    "unions": "unions",
}


def _prepare_root(builder: CodecBuilder, root: Codec, location: SchemaLocation, work: Work) -> Codec:
    """Make the unions in a JSON Schema unambiguous, and wrap its root in an object if necessary."""
    if isinstance(root, NeverCodec):
        builder.findings.give_up(location, "a schema that no value fits")
        return root
    changed_unions = disambiguate_unions(root, work)
    if changed_unions is None:
        builder.findings.give_up(location, "unions whose branches cannot be distinguished")
    for union in changed_unions or ():
        action = "branches that look alike are sent in objects of their own"
        builder.findings.add(union.location or location, "a union", action)
    target = root.target if isinstance(root, RefCodec) else root
    schema = target.bare_schema()
    if builder.profile.object_root and schema.get("type") != "object":
        builder.findings.add(location, "a root that is not an object", "sent in an object under 'value'")
        return WrapperCodec(root)
    if "anyOf" in schema and not builder.profile.any_of_root:
        return WrapperCodec(root)
    return target  # the target and not the reference, because a root must not be a $ref


def _schema_with_definitions(root: Codec) -> JsonSchema:
    """Return the JSON Schema to send to the provider, with its definitions under ``$defs``."""
    schema = root.schema()
    references = {codec.definition.name: codec for codec in walk(root) if isinstance(codec, RefCodec)}
    definitions = {name: codec.target_schema() for name, codec in references.items()}
    return {**schema, "$defs": definitions} if definitions else schema


def _make_lenient_decode(root: Codec) -> Callable[[Json, Cursor], DecodeResult]:
    """Return a function that converts a strict-mode reply back and collects the mistakes in the reply."""

    def decode_leniently(value: Json, cursor: Cursor) -> DecodeResult:
        # the encoded position has its own cursor, so that steps recorded there do not become coercions
        decode_cursor = DecodeCursor(cursor, Cursor(path=cursor.path), {})
        decoded = root.decode(value, decode_cursor)
        return DecodeResult(decoded, decode_cursor.deviations)

    return decode_leniently


def _make_decode(root: Codec) -> Callable[[Json], Json]:
    """Return a function that converts a strict-mode reply back, or that raises EncodingError."""
    decode_leniently = _make_lenient_decode(root)

    def decode(value: Json) -> Json:
        result = _check_depth(decode_leniently, value)
        if result.deviations:
            # a wrong structure explains more than a wrong spelling
            worst = next((one for one in result.deviations if one.changes_shape), result.deviations[0])
            problem = worst.problem
            raise EncodingError(problem.path, str(problem).removeprefix(f"{problem.path}: "))
        return result.value

    return decode


def _make_encode(root: Codec) -> Callable[[Json], Json]:
    """Return a function that converts a value for strict mode, and that checks the way back."""
    decode = _make_decode(root)

    def encode(value: Json) -> Json:
        encoded = _check_depth(root.encode, value)
        decoded = decode(encoded)
        # A missing property may be decoded as null if that is its default, so compare the encoded forms too.
        if not json_equal(decoded, value) and not json_equal(_check_depth(root.encode, decoded), encoded):
            raise EncodingError("$", "decoding the encoded value gives another value")
        return encoded

    return encode


Result = TypeVar("Result")


def _check_depth(translate: Callable[[Json, Cursor], Result], value: Json) -> Result:
    """Call a function with a JSON value.

    Raises EncodingError if the value is nested too deeply.
    """
    try:
        return translate(value, Cursor())
    except RecursionError as error:
        raise EncodingError("$", "it is nested too deeply") from error


# --- Schemas that need no encoding ---

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_REFERENCE = "#/$defs/"
_TYPES = frozenset("object array string integer number boolean null".split())
_OBJECT_KEYWORDS = frozenset("type title description properties required additionalProperties".split())
_UNION_KEYWORDS = frozenset("anyOf description".split())
_SCALAR_KEYWORDS = frozenset(("type", "description"))


def is_supported(schema: JsonSchema | bool, profile: Profile) -> bool:
    """Return True if a JSON Schema can be sent to the provider unchanged.

    This is a quick check for the usual schemas of records. It returns False for anything it does not know.
    """
    if not isinstance(schema, dict):
        return False
    root = {key: value for key, value in schema.items() if key != "$defs"}
    definitions = schema.get("$defs", {})
    if root.get("type") != "object" and (profile.object_root or "type" not in root):
        return False
    if not isinstance(definitions, dict) or not all(map(_is_definition, definitions.items())):
        return False
    check = _SupportCheck(profile, definitions)
    parts = (root, *definitions.values())
    return all(map(check.is_supported, parts)) and not exceeded_limits(schema, profile.limits)


def _is_definition(item: tuple[str, object]) -> bool:
    name, part = item
    return bool(_NAME.fullmatch(name)) and isinstance(part, dict) and "type" in part


class _SupportCheck:
    """Checks which parts of a JSON Schema can be sent to a provider unchanged."""

    def __init__(self, profile: Profile, definitions: JsonSchema) -> None:
        self._profile = profile
        self._definitions = definitions

    def is_supported(self, part: object) -> bool:
        """Return True if a part of the JSON Schema can be sent to the provider unchanged."""
        if not isinstance(part, dict):
            return False
        if "$ref" in part:
            return self._is_supported_reference(part)
        # an empty description would be removed
        if "description" in part and not str(part["description"]).strip():
            return False
        if "anyOf" in part:
            return part.keys() <= _UNION_KEYWORDS and self._are_supported_options(part["anyOf"])
        kind = part.get("type")
        if not isinstance(kind, str) or kind not in _TYPES:
            return False
        if kind == "object":
            return self._is_closed_object(part)
        if kind == "array" and not self.is_supported(part.get("items")):
            return False
        keywords = part.keys() - _SCALAR_KEYWORDS - ({"items"} if kind == "array" else set())
        if "enum" in keywords:
            return keywords == {"enum"} and self._is_supported_enum(kind, part["enum"])
        bounds = keywords_of(kind)
        return all(
            keyword in bounds and is_keyword_enforced(self._profile, kind, keyword, part)
            for keyword in keywords
        )

    def _is_supported_reference(self, part: JsonSchema) -> bool:
        """Return True if a ``$ref`` points to a definition, so that it can be sent unchanged."""
        reference = part["$ref"]
        return (
            len(part) == 1
            and self._profile.recursion
            and isinstance(reference, str)
            and reference.startswith(_REFERENCE)
            and reference.removeprefix(_REFERENCE) in self._definitions
        )

    def _are_supported_options(self, options: object) -> bool:
        """Return True if the options of an anyOf can be sent to the provider unchanged."""
        if not isinstance(options, list) or len(options) < 2:
            return False
        # nested and repeated options would be merged
        is_flat = all(isinstance(option, dict) and "anyOf" not in option for option in options)
        return (
            is_flat
            and all(option not in options[:index] for index, option in enumerate(options))
            and all(map(self.is_supported, options))
        )

    def _is_supported_enum(self, kind: str, values: object) -> bool:
        """Return True if the provider supports an enum, whose values must have one JSON type."""
        enum_kind = "number" if kind == "integer" else kind
        limit = self._profile.limits.long_enum
        return (
            isinstance(values, list)
            and 0 < len(values) <= (limit or len(values))
            and enum_kind in self._profile.enum_kinds
            and all(kind_of(value) == enum_kind for value in values)
            and (kind != "integer" or all(isinstance(value, int) for value in values))
        )

    def _is_closed_object(self, part: JsonSchema) -> bool:
        """Return True if an object schema forbids undeclared keys, so that it can be sent unchanged.

        It must also require the keys that the provider wants to be required.
        """
        properties, required = part.get("properties"), part.get("required")
        if not isinstance(properties, dict) or not isinstance(required, list):
            return False
        all_required = set(required) == set(properties)
        return (
            part.keys() <= _OBJECT_KEYWORDS
            and part.get("additionalProperties") is False
            and (all_required or (not self._profile.all_required and set(required) <= set(properties)))
            and all(map(self.is_supported, properties.values()))
        )


# --- Encoding a parser ---

T = TypeVar("T")


def encode_parser(parser: TypeParser[T], profile: Profile) -> tuple[TypeParser[T], Encoding]:
    """Adapt the parser of a type to a provider's strict mode.

    Returns the new parser, and the conversion of its JSON Schema.

    A type that is not an object is put into an envelope first if the profile requires an object. So is plain
    text, because a JSON string differs from the text. If strict mode cannot be used, the same parser is
    returned.
    """
    inner_parser, schema = parser, schema_with_defaults(parser.node)
    if parser.plain_text or (profile.object_root and not _is_record(schema)):
        inner_parser = parser.with_envelope()
        # $defs must be at the root, so a schema that has them is generated again with the envelope
        can_be_nested = "$defs" not in schema
        schema = (
            closed_object({"value": schema}) if can_be_nested else schema_with_defaults(inner_parser.node)
        )
    schema = with_description(schema, parser.target.description)
    encoding = encode_at(schema, profile, SchemaLocation(parser.name, of_type=True))
    return (EncodedParser(inner_parser, encoding) if encoding.lossless else parser), encoding


def _is_record(schema: JsonSchema) -> bool:
    """Return True if a JSON Schema describes an object with declared properties."""
    return schema.get("type") == "object" and "properties" in schema


class EncodedParser(TypeParser[T]):
    """A parser for a Python type, adapted to a JSON Schema that a provider's strict mode supports."""

    def __init__(self, parser: TypeParser[T], encoding: Encoding) -> None:
        if encoding.identity:  # nothing is encoded, so read with the parser's own envelope
            node, field = parser._value_node, parser._field
        else:
            node, field = EncodedNode(parser.node, encoding), None
        super().__init__(parser.target, node, field=field, leniency=parser.leniency)
        # what may stand around a value, or in place of a list, is that of the type, encoded or not
        if not (encoding.identity or _may_be_pairs(parser.node)):
            self.reply_reader = ReplyReader(
                self.node, parser._value_node, parser._field, parser.target, is_plain_text=False
            )
        self._encoding = encoding

    @property
    def schema(self) -> JsonSchema | None:
        """The JSON Schema that is sent to the provider."""
        return self._encoding.schema


def _may_be_pairs(node: Node[object]) -> bool:
    """Return True if a record in a type has no declared fields, so that it is sent as a list of pairs.

    In its place, a list of one object is one pair, and not a list around the record.
    """
    records = [part.spec for part in walk_nodes(node) if isinstance(part, ObjectNode)]
    return any(record.extra == "allow" and not record.fields for record in records)


class EncodedNode(WrapperNode[T]):
    """Reads replies in the form of either the strict-mode schema or the type's original schema.

    Attributes:
        inner: The node of the type.
        encoding: The encoding of its schema.
    """

    inner: Node[T]

    def __init__(self, inner: Node[T], encoding: Encoding) -> None:
        super().__init__(inner)
        self.encoding = encoding

    def schema(self, definitions: Definitions) -> JsonSchema:
        schema = dict(self.encoding.schema)
        definitions.schemas.update(schema.pop("$defs", {}))
        return schema

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return schema_hint(self.encoding.schema)

    def read(self, data: Json, cursor: Cursor) -> T:
        missing_field = self._missing_envelope(data)
        wrapped = data if missing_field is None else {missing_field: data}
        result = self.encoding.decode_leniently(wrapped, cursor)
        # an ambiguous reply is not passed to the node of the type, which would choose one of the values
        ambiguities = result.of_kind(DeviationKind.AMBIGUOUS)
        if ambiguities:
            raise Ambiguity(*(deviation.problem for deviation in ambiguities))
        before = len(cursor.coercions)
        try:
            value = self._read_decoded(result, cursor)
        except ValidationFailure as failure:
            del cursor.coercions[before:]  # recorded by the attempt that failed
            is_same = not result.deviations and json_equal(result.value, data)  # it would fail again
            # a type with any key would keep the pairs
            if is_same or _has_pairs(data, self.encoding.pair_names):
                raise
            return self._read_unencoded(data, cursor, failure)
        is_plain = missing_field is not None or result.of_kind(
            DeviationKind.UNENCODED, DeviationKind.UNKNOWN_FORM
        )
        is_encoded = not is_plain or _has_pairs(data, self.encoding.pair_names)
        if not is_encoded and not json_equal(result.value, wrapped):
            self._check_unambiguous(result.value, wrapped, describe_value(data), cursor)
        if missing_field is not None:
            cursor.record("envelope left out", data, value)
        return value

    def _missing_envelope(self, reply: Json) -> str | None:
        """Return the key of the wrapper object that a reply lacks, such as ``"value"``, or None."""
        inner = self.inner
        if not isinstance(inner, EnvelopeNode) or (isinstance(reply, dict) and set(reply) == {inner.field}):
            return None
        return inner.field

    def _read_decoded(self, result: DecodeResult, cursor: Cursor) -> T:
        """Validate a reply that was converted back from strict mode, and return the typed value.

        Raises ValidationFailure with all problems of the reply.
        """
        for deviation in result.deviations:
            deviation.record()
        try:
            value = self.inner.read(result.value, cursor)
        except ValidationFailure as failure:
            raise type(failure)(*result.problems(failure.problems)) from failure
        problems = result.problems(())
        if problems:
            raise ValidationFailure(*problems)
        return value

    def _read_unencoded(self, reply: Json, cursor: Cursor, failure: ValidationFailure) -> T:
        """Read a reply that follows the original JSON Schema instead of the strict-mode schema.

        If this is not possible, raises ``failure``, which explains why the decoded reply does not fit.
        """
        before = len(cursor.coercions)
        try:
            value = self.inner.read(reply, cursor)
            cursor.record("encoding left out", reply, value)
        except ValidationFailure:
            del cursor.coercions[before:]
            raise failure from None
        return value

    def _check_unambiguous(self, decoded: Json, reply: Json, reply_text: str, cursor: Cursor) -> None:
        """Raise Ambiguity if the reply, read without the strict-mode encoding, gives a different value."""
        try:
            values = [
                self._json_node.read(data, Cursor(cursor.leniency, cursor.path)) for data in (decoded, reply)
            ]
        except ValidationFailure:
            return
        if not strict_equal(*values):
            message = "it can be read in more than one way: with its encoding and without"
            raise Ambiguity(Problem(cursor.path, message, reply_text))

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return EncodedNode(json_node_of(self.inner, built), self.encoding)

    @cached_property
    def _json_node(self) -> Node[Json]:
        return json_node_of(self.inner, {})  # runs no validators

    def write(self, value: object) -> Json:
        return self.encoding.encode(self.inner.write(value))

    def read_text(self, text: str, cursor: Cursor) -> T:
        value = self.inner.read_text(text, cursor)
        cursor.record("encoding left out", text, value)
        return value


# --- Schemas with defaults ---

_NO_DEFAULT = object()


def schema_with_defaults(node: Node[object]) -> JsonSchema:
    """Return the JSON Schema of a type, including the default values of its fields."""
    return schema_of(node, _DefinitionsWithDefaults)


class _DefinitionsWithDefaults(Definitions):
    """Collects the ``$defs`` of a JSON Schema, including the default values of fields."""

    def define(self, node: Node[object], name: str, build: Any) -> JsonSchema:
        if not isinstance(node, ObjectNode):
            return super().define(node, name, build)

        def build_with_defaults(definitions: Definitions) -> JsonSchema:
            schema: JsonSchema = build(definitions)
            return _add_defaults(schema, node)

        return super().define(node, name, build_with_defaults)


def _add_defaults(schema: JsonSchema, node: ObjectNode) -> JsonSchema:
    """Add the default values of fields to the JSON Schema of a record class."""
    properties = dict(schema["properties"])
    for field in node.spec.fields:
        default = _NO_DEFAULT if field.required else _field_default(node.spec.cls, field.name)
        if default is not _NO_DEFAULT:
            property_schema = properties[field.keys[0]]
            # older drafts and some providers ignore keywords next to a $ref
            if "$ref" in property_schema:
                property_schema = {"anyOf": [property_schema]}
            properties[field.keys[0]] = {**property_schema, "default": default}
    return {**schema, "properties": properties}


def _field_default(cls: Any, name: str) -> object:
    """Return a field's default value for a JSON Schema, if it is a string, number, boolean or null."""
    default: object = _NO_DEFAULT
    fields = getattr(cls, "__pydantic_fields__", None)
    if fields is not None and name in fields:
        default = fields[name].default
    elif dataclasses.is_dataclass(cls):
        default = next(
            (field.default for field in dataclasses.fields(cls) if field.name == name), _NO_DEFAULT
        )
    elif hasattr(cls, "_field_defaults"):
        default = cls._field_defaults.get(name, _NO_DEFAULT)
    elif hasattr(cls, "__attrs_attrs__"):
        default = next((a.default for a in cls.__attrs_attrs__ if a.name == name), _NO_DEFAULT)
    elif hasattr(cls, "__struct_fields__"):
        # msgspec lists the defaults of the last fields only, as the fields with defaults come last
        names = cls.__struct_fields__[len(cls.__struct_fields__) - len(cls.__struct_defaults__) :]
        default = dict(zip(names, cls.__struct_defaults__, strict=True)).get(name, _NO_DEFAULT)
    return default if default is None or type(default) in (bool, int, float, str) else _NO_DEFAULT


# --- Hints ---

_ANY = "any JSON"
_MAX_DEFINITIONS_IN_HINT = 1_000


def schema_hint(schema: JsonSchema) -> str:
    """Describe a JSON Schema briefly in a prompt, for example as ``{"name": string, "age"?: integer}``.

    Inside itself, a recursive definition is written as its name. So are definitions in a hint that is long.
    """
    return _hint(schema, _Definitions(schema.get("$defs", {})), frozenset())


class _Definitions:
    """The definitions of a schema, of which a hint shows a limited number."""

    def __init__(self, definitions: dict[str, JsonSchema]) -> None:
        self._definitions = definitions
        self._left = _MAX_DEFINITIONS_IN_HINT

    def take(self, name: str) -> JsonSchema | None:
        """Return a definition to show, or None if the hint has shown enough of them."""
        self._left -= 1
        return self._definitions[name] if self._left >= 0 else None


def _hint(schema: object, definitions: _Definitions, entered: frozenset[str]) -> str:
    """Describe one part of a JSON Schema in a prompt, in a short notation similar to TypeScript."""
    if not isinstance(schema, dict) or not schema:
        return _ANY
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        target = None if name in entered else definitions.take(name)
        return name if target is None else _hint(target, definitions, entered | {name})
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_hint(option, definitions, entered) for option in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if schema.get("type") == "object":
        return _object_hint(schema, definitions, entered)
    if schema.get("type") == "array":
        first = [_hint(item, definitions, entered) for item in schema.get("prefixItems", ())]
        rest = schema.get("items", True)
        more = [] if rest is False else [_hint(rest, definitions, entered), "..."]
        return f"[{', '.join([*first, *more])}]"
    return str(schema.get("type", _ANY))


def _object_hint(schema: JsonSchema, definitions: _Definitions, entered: frozenset[str]) -> str:
    required = schema.get("required", ())
    parts = [
        f'"{key}"{"" if key in required else "?"}: {_hint(part, definitions, entered)}'
        for key, part in schema.get("properties", {}).items()
    ]
    rest = schema.get("additionalProperties", False)
    if rest is not False:
        parts.append(f"string: {_hint(rest, definitions, entered)}, ...")
    return "{" + ", ".join(parts) + "}"
