"""Strict-mode converters (codecs) for scalars, enums, optional properties and wrapped values.

Each of them replaces a form that a strict mode cannot express::

    enum member {"x": 1}                   -> the string '{"x": 1}' in an enum of strings
    any JSON value 3.5                     -> the string '3.5'                (JsonTextCodec)
    an optional property that is missing   -> null                            (NullableCodec)
    a branch of a union, or a bare list    -> {"option_1": ...}, {"value": ...}  (WrapperCodec)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property, partial

from ..json.scanner import read_exact
from ..result.reading import Cursor, Json, JsonSyntaxError, describe_value, dump_json
from ..types.node import JsonSchema, closed_object
from ..types.records import normalize_key
from .codec import (
    Codec,
    DecodeCursor,
    DeviationKind,
    EncodingError,
    decode_with_fewest_deviations,
    match_keys,
)
from .schema_queries import KINDS, canonical_json, is_integral, kind_of, violated_keyword

_JSON_OPENINGS = ("{", "[", '"', "'", "`")
_JSON_LITERALS = ("true", "false", "null", "none", "nan")


class ScalarCodec(Codec):
    """The codec for null, a boolean, a number or a string, all sent unchanged.

    Attributes:
        kind: The JSON type, or ``"integer"``.
        keywords: The bounds that are sent with it.
    """

    def __init__(self, kind: str, keywords: Mapping[str, object]) -> None:
        self.kind = kind
        self.keywords = keywords

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("number" if self.kind == "integer" else self.kind,))

    def bare_schema(self) -> JsonSchema:
        return {"type": self.kind, **self.keywords}

    def encode(self, value: Json, cursor: Cursor) -> Json:
        has_type = self._has_type(value)
        violation = violated_keyword(self.keywords, value) if has_type else f"expected {self.kind}"
        if violation:
            raise EncodingError(cursor.path, f"{violation}, found {describe_value(value)}")
        return value

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        if not self._has_type(value):
            cursor.mismatch(f"expected {self.kind}", value, changes_shape=not self._may_be_coerced(value))
        return value

    def _may_be_coerced(self, value: Json) -> bool:
        """Return True if validation may still convert a value of the wrong type, such as ``"3"``.

        For example, a number in a string is read as a number.
        """
        if self.kind == "null":  # "null" and "" are read as null
            return isinstance(value, str) and value.casefold() in _JSON_LITERALS
        return self.kind == "string" or isinstance(value, str) or kind_of(value) in self.kinds

    def _has_type(self, value: Json) -> bool:
        return kind_of(value) in self.kinds and (self.kind != "integer" or is_integral(value))


class ChoiceCodec(Codec):
    """The codec for an enum.

    Members that are objects or arrays are sent as their JSON text.

    Attributes:
        enum_kinds: The JSON types whose enums are sent. For members of other types only the type is sent.
        all_as_text: True if every member is sent as JSON text.
    """

    def __init__(self, values: Sequence[Json], enum_kinds: frozenset[str] = frozenset(KINDS)) -> None:
        self.enum_kinds = enum_kinds
        structured = {dump_json(value) for value in values if isinstance(value, (dict, list))}
        # a string member may equal the JSON text of another member, and must not be confused with it
        self.all_as_text = any(isinstance(value, str) and value in structured for value in values)
        self.is_identity = not structured
        # keyed by type and value, because in Python 1, 1.0 and True are the same key
        self._encoded = {_hashable(self._encode(value)): self._encode(value) for value in values}
        self._plain = {_hashable(self._encode(value)): value for value in values}
        self._keys_by_sorted_text = {
            canonical_json(value): _hashable(self._encode(value))
            for value in values
            if isinstance(value, (dict, list))
        }

    def _key_in_another_order(self, value: Json) -> tuple[str, Json]:
        """Return the key of a member that is an object with the same keys as ``value`` in another order."""
        return self._keys_by_sorted_text.get(canonical_json(value), _hashable(value))

    def _encode(self, value: Json) -> Json:
        return dump_json(value) if self.all_as_text or isinstance(value, (dict, list)) else value

    @property
    def encoded_members(self) -> frozenset[tuple[str, Json]]:
        """The enum values that the provider's schema lists, each with its JSON type."""
        return frozenset(self._encoded)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(kind for kind, _ in self._encoded)

    def bare_schema(self) -> JsonSchema:
        # {"type": "null"} has one value, so it needs no enum
        listed = (self.enum_kinds | ({"integer"} if "number" in self.enum_kinds else set())) - {"null"}
        by_type: dict[str, list[Json]] = {}
        for value in self._encoded.values():
            by_type.setdefault(_schema_type(value), []).append(value)
        schemas = [
            {"type": kind} if kind not in listed else {"type": kind, "enum": values}
            for kind, values in by_type.items()
        ]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def encode(self, value: Json, cursor: Cursor) -> Json:
        is_structured = isinstance(value, (dict, list))
        key = self._key_in_another_order(value) if is_structured else _hashable(self._encode(value))
        # the text of an object is not the object: '{"x": 1}' is not a member if {"x": 1} is
        if key not in self._encoded or kind_of(self._plain[key]) != kind_of(value):
            message = f"expected one of {len(self._encoded)} values, found {describe_value(value)}"
            raise EncodingError(cursor.path, message)
        return self._encoded[key]

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        key = _hashable(value)
        if key not in self._plain and isinstance(value, str) and value[:1] in ("{", "["):
            try:
                key = self._key_in_another_order(read_exact(value))
            except JsonSyntaxError:
                pass
        if key not in self._plain:
            message = f"expected one of {len(self._encoded)} values"
            cursor.mismatch(message, value, changes_shape=not self._resembles_member(value))
            return value
        return value if self.is_identity else self._plain[key]

    def _resembles_member(self, value: Json) -> bool:
        """Return True if a value in a reply is an enum value in other spelling, such as other case."""
        if isinstance(value, (dict, list)):
            return False
        return normalize_key(str(value)) in {normalize_key(str(member)) for _, member in self._encoded}


def _hashable(value: Json) -> tuple[str, Json]:
    kind = kind_of(value)
    return (kind, dump_json(value) if kind in ("array", "object") else value)


def _schema_type(value: Json) -> str:
    kind = kind_of(value)
    return "integer" if kind == "number" and not isinstance(value, (float, Decimal)) else kind


class JsonTextCodec(Codec):
    """The codec that sends a value as JSON text in a string.

    Attributes:
        kinds_inside: The JSON types that the text may contain. None allows all types.
    """

    is_identity = False

    def __init__(self, kinds_inside: frozenset[str] | None = None) -> None:
        self.kinds_inside = kinds_inside

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("string",))

    def bare_schema(self) -> JsonSchema:
        return {"type": "string"}

    def encode(self, value: Json, cursor: Cursor) -> Json:
        if not self._accepts(value):
            message = f"{self._expected_types()}, found {describe_value(value)}"
            raise EncodingError(cursor.path, message)
        return dump_json(value)

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        if not isinstance(value, str):
            # models may write the object itself, because the description of the field asks for any JSON
            return self._keep_plain("expected JSON text in a string", value, cursor)
        try:
            inner = read_exact(value)
        except JsonSyntaxError as error:
            message = f"expected JSON text in a string: {error}"
            if value.strip()[:1] in _JSON_OPENINGS or value.strip().casefold() in _JSON_LITERALS:
                cursor.fail(message, value)  # it looks like JSON, but is broken
                return value
            return self._keep_plain(message, value, cursor)
        if not self._accepts(inner):
            cursor.fail(self._expected_types(), inner)
        return inner

    def _keep_plain(self, message: str, value: Json, cursor: DecodeCursor) -> Json:
        """Accept a value that the model wrote as JSON instead of as a string with JSON text."""
        if self._accepts(value):
            cursor.unencoded(message, value)
        else:
            cursor.fail(message, value, DeviationKind.UNKNOWN_FORM)
        return value

    def _expected_types(self) -> str:
        return f"expected JSON text of one of these types: {', '.join(sorted(self.kinds_inside or KINDS))}"

    def _accepts(self, value: Json) -> bool:
        return self.kinds_inside is None or kind_of(value) in self.kinds_inside


class AnyCodec(Codec):
    """The codec for any JSON value, for providers that accept an empty schema."""

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(KINDS)

    def bare_schema(self) -> JsonSchema:
        return {}

    def encode(self, value: Json, cursor: Cursor) -> Json:
        return value

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        return value


class NeverCodec(Codec):
    """The codec for a JSON Schema that no value can satisfy."""

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset()

    def bare_schema(self) -> JsonSchema:
        return {"type": "null"}  # sent for the items of a list that must be empty

    def encode(self, value: Json, cursor: Cursor) -> Json:
        raise EncodingError(cursor.path, f"no value is allowed here, found {describe_value(value)}")

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        cursor.mismatch("no value is allowed here", value, changes_shape=True)
        return value


class WrapperCodec(Codec):
    """The codec that wraps a value in an object, such as ``{"value": ...}``.

    Attributes:
        inner: The codec of the value.
        key: The only key of the object.
    """

    is_identity = False

    def __init__(self, inner: Codec, key: str = "value") -> None:
        self.inner = inner
        self.key = key

    @property
    def parts(self) -> Sequence[Codec]:
        return (self.inner,)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("object",))

    def bare_schema(self) -> JsonSchema:
        return closed_object({self.key: self.inner.schema()})

    def encode(self, value: Json, cursor: Cursor) -> Json:
        return {self.key: self.inner.encode(value, cursor)}

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        # on a trial: nothing may be recorded until the form of the value is known
        wrapper = cursor.trial().parse_json_string(value, "{")
        if not isinstance(wrapper, dict) or [normalize_key(key) for key in wrapper] != [
            normalize_key(self.key)
        ]:
            return self._decode_without_wrapper(value, cursor)
        trial = cursor.trial()
        decoded = self._decode_wrapped(value, trial)
        path = trial.encoded_child(self.key).encoded.path
        if not any(step.changes_shape and step.encoded.path == path for step in trial.deviations):
            cursor.deviations.extend(trial.deviations)
            return decoded
        # the content has another shape: an object with this one key may be the value itself, not wrapped
        decoders = [partial(self._decode_wrapped, value), partial(self._decode_without_wrapper, value)]
        return decode_with_fewest_deviations(decoders, value, cursor)

    def _decode_wrapped(self, value: Json, cursor: DecodeCursor) -> Json:
        members = match_keys(cursor.parse_json_string(value, "{"), [self.key], cursor)
        return self.inner.decode(members[self.key], cursor.encoded_child(self.key))

    def _decode_without_wrapper(self, value: Json, cursor: DecodeCursor) -> Json:
        cursor.unencoded(f"expected an object with only the key {self.key!r}", value)
        return self.inner.decode(value, cursor)


class NullableCodec(Codec):
    """The codec for an optional property, which is sent as null if omitted.

    A value that may itself be null is wrapped, so that null has one meaning only::

        int | None, may be left out:  left out -> null;  None -> {"value": null};  3 -> {"value": 3}

    With ``null_default`` the default of the value is null. Then "left out" and null mean the same, and
    nothing is wrapped.
    """

    def __init__(self, value: Codec, *, null_default: bool = False) -> None:
        self._value = value
        self._null_default = null_default

    @property
    def unwrapped(self) -> Codec:
        """The codec of the property's value, without the wrapper object that may be around it."""
        return self._value

    # Cached properties and not fields, because the codec of a reference is built after this codec.

    @cached_property
    def inner(self) -> Codec:
        """The codec for the value of an optional property.

        Use it only when all definitions are known.
        """
        return (
            WrapperCodec(self._value) if "null" in self._value.kinds and not self.keeps_null else self._value
        )

    @cached_property
    def keeps_null(self) -> bool:
        """True if null is an ordinary value of the optional property, False if null means "omitted"."""
        return self._null_default and "null" in self._value.kinds

    @property
    def is_identity(self) -> bool:  # type: ignore[override]  # known only when all definitions are
        return self.keeps_null

    @property
    def parts(self) -> Sequence[Codec]:
        return (self.inner,)

    @property
    def kinds(self) -> frozenset[str]:
        return self.inner.kinds | {"null"}

    def bare_schema(self) -> JsonSchema:
        return nullable(self.inner.schema())

    def encode(self, value: Json, cursor: Cursor) -> Json:
        return self.inner.encode(value, cursor)

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        return self.inner.decode(value, cursor)


def nullable(schema: JsonSchema) -> JsonSchema:
    """Return a JSON Schema that accepts null in addition to the values of another schema.

    The description of the other schema becomes the description of the result.
    """
    null = {"type": "null"}
    description = schema.get("description")
    annotation = {} if description is None else {"description": description}
    inner = {key: value for key, value in schema.items() if key != "description"}
    options = inner["anyOf"] if set(inner) == {"anyOf"} else [inner]
    return {"anyOf": [*options, *([] if null in options else [null])], **annotation}
