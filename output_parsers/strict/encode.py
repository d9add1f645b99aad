"""Encodes a whole JSON Schema for a profile, and gives up where it cannot be kept."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

from ..parser.type_parser import TypeParser
from ..result.errors import USER_CODE_ERRORS, Problem
from ..result.reading import Ambiguity, Cursor, Json, ValidationFailure, describe_value, strict_equal
from ..types.node import Definitions, JsonSchema, Node, described
from ..types.records import EnvelopeNode, ObjectNode
from .build import Builder, Thrift, is_sent, keywords_of
from .codec import Code, EncodingFault, Finding, Kind, Notes, RefCode, Spot, Undone, Where, walk
from .profiles import Profile
from .scalars import BoxCode, NeverCode, closed_object
from .schema_queries import Document, exceeded, kind_of, same_json
from .unions import is_plain, told_apart

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
        strict_equal = set(required) == set(properties)
        return (
            part.keys() <= _OF_OBJECTS
            and part.get("additionalProperties") is False
            and (strict_equal or (not self._profile.all_required and set(required) <= set(properties)))
            and all(map(self.says, properties.values()))
        )


_OF_LEAVES = frozenset(("type", "description"))


Result = TypeVar("Result")

# What is saved first where a schema is too large: long enums, then what lies deep.
_THRIFTS = [
    Thrift(),
    *(Thrift(most) for most in (250, 50, 10)),
    *(Thrift(50, deepest) for deepest in (9, 7, 5, 3)),
]


class Encoding(NamedTuple):
    """A schema as a profile can say it, and the way of its values there and back.

    ``identity`` says that decoding changes nothing, for any value; ``fits`` is False where strict mode has
    to be given up: then the schema is the one that was given, and nothing is encoded. ``decode`` and
    ``encode`` raise EncodingFault for a value that does not fit; ``undo`` decodes what it can, and tells the
    rest.
    """

    schema: JsonSchema
    identity: bool
    decode: Callable[[Json], Json]
    encode: Callable[[Json], Json]
    findings: tuple[Finding, ...]
    fits: bool
    undo: Callable[[Json, Cursor], Undone]


def encode(schema: JsonSchema, profile: Profile) -> Encoding:
    """The encoding of a JSON Schema of any draft; what it says of itself by ``$schema``, else 2020-12."""
    return encode_at(schema, profile, Where("#", named=False))


def encode_at(schema: JsonSchema, profile: Profile, at: Where) -> Encoding:
    """The encoding of a schema whose findings are told from a place on."""
    if says(schema, profile):
        return _as_it_stands(schema, profile, at)
    return taken_apart(schema, profile, at)


def _as_it_stands(schema: JsonSchema, profile: Profile, at: Where) -> Encoding:
    """The encoding of a schema that a profile can say: it is taken apart when a value is to be checked."""

    @cache
    def made() -> Encoding:
        return taken_apart(schema, profile, at)

    return Encoding(
        schema,
        True,
        lambda value: made().decode(value),
        lambda value: made().encode(value),
        (),
        True,
        lambda value, at: made().undo(value, at),
    )


def taken_apart(schema: JsonSchema, profile: Profile, at: Where) -> Encoding:
    """The encoding of a schema that may say more than the profile can."""
    notes = Notes()
    for thrift in _THRIFTS:
        encoding, notes, too_large = _attempt(schema, profile, at, thrift)
        if encoding is not None:
            return encoding
        if not too_large:
            break
    return Encoding(schema, True, _as_it_is, _as_it_is, notes.findings, False, _nothing_undone)


def _attempt(
    schema: JsonSchema, profile: Profile, at: Where, thrift: Thrift
) -> tuple[Encoding | None, Notes, bool]:
    """The encoding if there is one, what was found, and whether it failed for its size alone."""
    builder = Builder(profile, Document(schema), thrift)
    try:
        root = _rooted(builder, builder.root(at), at)
    except RecursionError:
        builder.notes.give_up(at, "nesting beyond all measure")
        return None, builder.notes, False
    except (ValueError, *USER_CODE_ERRORS) as error:  # whoever wrote a schema may have written something else
        builder.notes.give_up(at, f"what is no JSON Schema ({type(error).__name__}: {error})")
        return None, builder.notes, False
    if not all(finding.lossless for finding in builder.notes.findings):
        return None, builder.notes, False
    sent = _sent(root)
    faults = exceeded(sent, profile.limits)
    for name, limit, count in faults:
        builder.notes.give_up(at, f"{count} {_MEASURES[name]}, where {profile.name} takes {limit}")
    if faults:
        return None, builder.notes, True
    found = builder.notes.findings
    whole = Encoding(sent, is_plain(root), _decoder(root), _encoder(root), found, True, _undoer(root))
    return whole, builder.notes, False


_MEASURES = {
    "depth": "levels of objects",
    "properties": "properties",
    "enum_values": "enum values",
    "text": "characters of names and values",
    "optional": "optional properties",
    "unions": "unions",
}


def _rooted(builder: Builder, root: Code, at: Where) -> Code:
    if isinstance(root, NeverCode):
        builder.notes.give_up(at, "a schema that nothing fits")
        return root
    apart = told_apart(root)
    if apart is None:
        builder.notes.give_up(at, "unions in which branches cannot be told apart")
    for union in apart or ():
        done = "branches that look alike are sent in objects of their own"
        builder.notes.note(union.child or at, "a union", done)
    target = root.target if isinstance(root, RefCode) else root
    shown = target.bare_schema()
    if builder.profile.object_root and shown.get("type") != "object":
        builder.notes.note(at, "a root that is no object", "sent in an object under 'value'")
        return BoxCode(root)
    if "anyOf" in shown and not builder.profile.any_of_root:
        return BoxCode(root)
    return target


def _sent(root: Code) -> JsonSchema:
    schema = root.schema()
    definitions = {
        code.definition.name: code.target_schema() for code in walk(root) if isinstance(code, RefCode)
    }
    return {**schema, "$defs": definitions} if definitions else schema


def _undoer(root: Code) -> Callable[[Json, Cursor], Undone]:
    def undo(value: Json, at: Cursor) -> Undone:
        spot = Spot(at, Cursor(path=at.path), {})
        undone = root.undo(value, spot)
        return Undone(undone, spot.steps)

    return undo


def _decoder(root: Code) -> Callable[[Json], Json]:
    undo = _undoer(root)

    def decode(value: Json) -> Json:
        undone = _within_depth(undo, value)
        if undone.steps:
            step = next((step for step in undone.steps if step.heavy), undone.steps[0])
            problem = step.problem
            raise EncodingFault(problem.path, str(problem).removeprefix(f"{problem.path}: "))
        return undone.value

    return decode


def _encoder(root: Code) -> Callable[[Json], Json]:
    decode = _decoder(root)

    def encode(value: Json) -> Json:
        encoded = _within_depth(root.encode, value)
        back = decode(encoded)
        # what is left out may come back as null, where the schema says that this is the same
        if not same_json(back, value) and not same_json(_within_depth(root.encode, back), encoded):
            raise EncodingFault("$", "it does not come back as it was")
        return encoded

    return encode


def _within_depth(bring: Callable[[Json, Cursor], Result], value: Json) -> Result:
    try:
        return bring(value, Cursor())
    except RecursionError as error:
        raise EncodingFault("$", "it is nested too deeply") from error


def _as_it_is(value: Json) -> Json:
    return value


def _nothing_undone(value: Json, at: Cursor) -> Undone:
    return Undone(value, ())


_NONE = object()


def schema_with_defaults(node: Node[Any]) -> JsonSchema:
    """The JSON Schema of a whole type as ``schema_of`` gives it, with ``default`` where a field has one."""
    first = _Definitions()
    root = node.schema(first)
    if not first.repeated and not first.schemas:
        return root
    definitions = _Definitions(frozenset(first.repeated))
    root = node.schema(definitions)
    if set(root) == {"$ref"}:
        root = dict(definitions.schemas[root["$ref"].rpartition("/")[2]])
    return {**root, "$defs": definitions.schemas}


class _Definitions(Definitions):
    """Named schemas, those of records with their defaults."""

    def place(self, node: Node[Any], name: str, build: Any) -> JsonSchema:
        if not isinstance(node, ObjectNode):
            return super().place(node, name, build)

        def with_defaults(definitions: Definitions) -> JsonSchema:
            schema: JsonSchema = build(definitions)
            return _with_defaults(schema, node)

        return super().place(node, name, with_defaults)


def _with_defaults(schema: JsonSchema, node: ObjectNode) -> JsonSchema:
    properties = dict(schema["properties"])
    for field in node.spec.fields:
        default = _NONE if field.required else _default(node.spec.cls, field.name)
        if default is not _NONE:
            below = properties[field.keys[0]]
            below = {"anyOf": [below]} if "$ref" in below else below
            properties[field.keys[0]] = {**below, "default": default}
    return {**schema, "properties": properties}


def _default(cls: Any, name: str) -> Any:
    """The default of a field as JSON; none where it is made anew each time, or is no plain JSON."""
    found: Any = _NONE
    fields = getattr(cls, "__pydantic_fields__", None)
    if fields is not None and name in fields:
        found = fields[name].default
    elif dataclasses.is_dataclass(cls):
        found = next((field.default for field in dataclasses.fields(cls) if field.name == name), _NONE)
    elif hasattr(cls, "_field_defaults"):
        found = cls._field_defaults.get(name, _NONE)
    elif hasattr(cls, "__attrs_attrs__"):
        found = next((a.default for a in cls.__attrs_attrs__ if a.name == name), _NONE)
    elif hasattr(cls, "__struct_fields__"):
        names = cls.__struct_fields__[len(cls.__struct_fields__) - len(cls.__struct_defaults__) :]
        found = dict(zip(names, cls.__struct_defaults__, strict=True)).get(name, _NONE)
    return found if found is None or type(found) in (bool, int, float, str) else _NONE


_ANY = "any JSON"


def hint_of(schema: JsonSchema) -> str:
    """A short description of a schema for a prompt; what refers to itself goes by its name."""
    return _hint(schema, schema.get("$defs", {}), frozenset())


def _hint(schema: Any, definitions: dict[str, JsonSchema], within: frozenset[str]) -> str:
    if not isinstance(schema, dict) or not schema:
        return _ANY
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return name if name in within else _hint(definitions[name], definitions, within | {name})
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_hint(option, definitions, within) for option in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if schema.get("type") == "object":
        return _object_hint(schema, definitions, within)
    if schema.get("type") == "array":
        first = [_hint(item, definitions, within) for item in schema.get("prefixItems", ())]
        rest = schema.get("items", True)
        more = [] if rest is False else [_hint(rest, definitions, within), "..."]
        return f"[{', '.join([*first, *more])}]"
    return str(schema.get("type", _ANY))


def _object_hint(schema: JsonSchema, definitions: dict[str, JsonSchema], within: frozenset[str]) -> str:
    required = schema.get("required", ())
    parts = [
        f'"{key}"{"" if key in required else "?"}: {_hint(below, definitions, within)}'
        for key, below in schema.get("properties", {}).items()
    ]
    rest = schema.get("additionalProperties", False)
    if rest is not False:
        parts.append(f"string: {_hint(rest, definitions, within)}, ...")
    return "{" + ", ".join(parts) + "}"


T = TypeVar("T")


class EncodedNode(Node[T]):
    """A value in its encoded form; a model that leaves the encoding out is understood."""

    def __init__(self, inner: Node[T], encoding: Encoding) -> None:
        self.inner = inner
        self.encoding = encoding
        self.kind = inner.kind
        self.prose = inner.prose

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self.inner,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        schema = dict(self.encoding.schema)
        definitions.schemas.update(schema.pop("$defs", {}))
        return schema

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return hint_of(self.encoding.schema)

    def read(self, found: Json, at: Cursor) -> T:
        field = self._missing_envelope(found)
        undone = self.encoding.undo(found if field is None else {field: found}, at)
        doubts = undone.of(Kind.DOUBT)
        if doubts:
            raise Ambiguity(*(step.problem for step in doubts))
        before = len(at.coercions)
        try:
            value = self._read_undone(undone, at)
        except ValidationFailure as misfit:
            del at.coercions[before:]
            return self._read_plain(found, at, misfit)
        if undone.of(Kind.PLAIN, Kind.FOREIGN) and not same_json(undone.value, found):
            self._agrees(value, found, at)
        if field is not None:
            at.record("envelope left out", found, value)
        return value

    def _missing_envelope(self, found: Json) -> str | None:
        """The field of the envelope that a reply lacks; None where it has one, or needs none."""
        inner = self.inner
        if not isinstance(inner, EnvelopeNode) or (isinstance(found, dict) and set(found) == {inner.field}):
            return None
        return inner.field

    def _read_undone(self, undone: Undone, at: Cursor) -> T:
        """The value of a reply without its encoding. Raises Misfit with all that is wrong."""
        for step in undone.steps:
            step.note()
        try:
            value = self.inner.read(undone.value, at)
        except ValidationFailure as misfit:
            problems = undone.problems(misfit.problems)
            raise type(misfit)(*problems) from misfit
        faults = undone.problems(())
        if faults:
            raise ValidationFailure(*faults)
        return value

    def _read_plain(self, found: Json, at: Cursor, misfit: ValidationFailure) -> T:
        """The value of a reply in the form that the type has without the encoding."""
        before = len(at.coercions)
        try:
            value = self.inner.read(found, at)
            at.record("encoding left out", found, value)
        except ValidationFailure:
            del at.coercions[before:]
            raise misfit from None
        return value

    def _agrees(self, value: T, found: Json, at: Cursor) -> None:
        """Raise Ambiguity when a reply that leaves some of the encoding out has another value without it."""
        try:
            other = self.inner.read(found, Cursor(at.leniency, at.path))
        except ValidationFailure:
            return
        if not strict_equal(other, value):
            message = "it can be read in more than one way: with its encoding and without"
            raise Ambiguity(Problem(at.path, message, describe_value(found)))

    def write(self, value: Any) -> Json:
        return self.encoding.encode(self.inner.write(value))

    def read_text(self, text: str, at: Cursor) -> T:
        value = self.inner.read_text(text, at)
        at.record("encoding left out", text, value)
        return value


class EncodedParser(TypeParser[T]):
    """A parser that asks for the encoded form of its type. Where that is plain, it reads as before."""

    def __init__(self, parser: TypeParser[T], encoding: Encoding) -> None:
        plain = parser.node if encoding.identity else EncodedNode(parser.node, encoding)
        super().__init__(parser._target, parser._node if encoding.identity else plain, field=None)
        if encoding.identity:
            self._read_node = plain
            self._field = parser._field
        self._encoding = encoding

    @property
    def schema(self) -> JsonSchema | None:
        """The JSON Schema of what a model is to write."""
        return self._encoding.schema


def encoded(parser: TypeParser[T], profile: Profile) -> tuple[TypeParser[T], Encoding]:
    """A parser of the same type whose schema is one that the profile can say, and the encoding.

    A type that is no object is put into an envelope first, where the profile wants an object; so is text,
    which in JSON is not what it is by itself. Where strict mode has to be given up, the parser is the one
    that was given.
    """
    carried, schema = parser, schema_with_defaults(parser.node)
    if parser.plain_text or (profile.object_root and not _is_record(schema)):
        carried = parser.enveloped()
        inside = "$defs" not in schema
        schema = closed_object({"value": schema}) if inside else schema_with_defaults(carried.node)
    schema = described(schema, parser.target.description)
    encoding = encode_at(schema, profile, Where(parser.name, named=True))
    return (EncodedParser(carried, encoding) if encoding.fits else parser), encoding


def _is_record(schema: JsonSchema) -> bool:
    """Whether a schema is of an object with keys of its own, the rest of which stay objects."""
    return schema.get("type") == "object" and "properties" in schema
