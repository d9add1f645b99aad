"""Converters (codecs) that adapt JSON arrays, objects and unions to providers' strict modes.

Lists and objects with known keys are sent as they are. Two kinds of containers need another form, because
most strict modes support neither positional items nor free keys::

    tuple[int, str]:  [1, "a"]       <->  {"item_0": 1, "item_1": "a"}
    dict[str, int]:   {"a": 1}       <->  [{"key": "a", "value": 1}]

A value of a union is decoded by trying every branch. That is only safe if no encoded value fits two branches
that decode it to different values. A list and a dict, for example, are both sent as arrays, so the dict gets
a wrapper::

    branches:     list[int] | dict[str, int]
    schema sent:  {"anyOf": [{"type": "array", "items": {"type": "integer"}},
                             {"type": "object", "properties": {"option_2": {"type": "array", ...}}, ...}]}

``make_union`` builds the codec of a union. ``disambiguate_unions`` adds the wrappers when the whole schema is
known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from functools import cached_property, partial
from typing import NamedTuple

from ..json_schema.document import Work
from ..result.reading import Cursor, Json, describe_value, dump_json
from ..types.node import JsonSchema, closed_object
from ..types.records import normalize_key
from .codec import (
    ABSENT,
    MORE_THAN_ONE_WAY,
    Codec,
    DecodeCursor,
    DeviationKind,
    EncodingError,
    RefCodec,
    SchemaLocation,
    decode_with_fewest_deviations,
    match_keys,
    walk,
)
from .scalars import (
    AnyCodec,
    ChoiceCodec,
    JsonTextCodec,
    NeverCodec,
    NullableCodec,
    ScalarCodec,
    WrapperCodec,
)
from .schema_queries import violated_keyword

# --- Arrays ---


class ListCodec(Codec):
    """The codec for an array whose items all have the same schema.

    Attributes:
        item: The codec of the items.
        keywords: The bounds of the length that are sent.
    """

    def __init__(self, item: Codec, keywords: Mapping[str, object]) -> None:
        self.item = item
        self.keywords = keywords

    @property
    def parts(self) -> Sequence[Codec]:
        return (self.item,)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("array",))

    def bare_schema(self) -> JsonSchema:
        return {"type": "array", "items": self.item.schema(), **self.keywords}

    def encode(self, value: Json, cursor: Cursor) -> Json:
        items = _array(value, cursor)
        violation = violated_keyword(self.keywords, items)
        if violation:
            raise EncodingError(cursor.path, f"{violation}, found {describe_value(value)}")
        return [self._codec_at(i).encode(item, cursor.child(i)) for i, item in enumerate(items)]

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        items = cursor.parse_json_string(value, "[")
        if not isinstance(items, list):
            cursor.mismatch("expected an array", value, changes_shape=True)
            return value
        return [self._codec_at(i).decode(item, cursor.child(i)) for i, item in enumerate(items)]

    def _codec_at(self, index: int) -> Codec:
        return self.item


class NativeTupleCodec(ListCodec):
    """The codec for a tuple, for providers that support ``prefixItems``.

    Attributes:
        first: The codecs of the positional items. ``item`` is the codec of the items after them.
    """

    def __init__(self, first: Sequence[Codec], rest: Codec, keywords: Mapping[str, object]) -> None:
        super().__init__(rest, keywords)
        self.first = tuple(first)

    @property
    def parts(self) -> Sequence[Codec]:
        return (*self.first, self.item)

    def bare_schema(self) -> JsonSchema:
        rest = False if isinstance(self.item, NeverCodec) else self.item.schema()
        prefix = [codec.schema() for codec in self.first]
        return {"type": "array", "prefixItems": prefix, "items": rest, **self.keywords}

    def _codec_at(self, index: int) -> Codec:
        return self.first[index] if index < len(self.first) else self.item


class TupleCodec(Codec):
    """The codec that sends a tuple as an object with keys such as ``item_0``.

    Attributes:
        items: The codecs of the positional items. Those that may be left out are nullable.
        min_items: The number of items that are required.
        rest: The codec of the items after them, sent as a list under ``rest``. None without such items.
        keys: The keys of the positional items.
    """

    is_identity = False

    def __init__(self, items: Sequence[Codec], min_items: int, rest: Codec) -> None:
        # every key of the object is required, so an item that may be left out is null instead
        self.items = [
            codec if index < min_items else NullableCodec(codec) for index, codec in enumerate(items)
        ]
        self.min_items = min_items
        self.rest = None if isinstance(rest, NeverCodec) else ListCodec(rest, {})
        self.keys = [f"item_{index}" for index in range(len(items))]

    @property
    def parts(self) -> Sequence[Codec]:
        return (*self.items, *(() if self.rest is None else (self.rest,)))

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("object",))

    def bare_schema(self) -> JsonSchema:
        properties = {key: codec.schema() for key, codec in zip(self.keys, self.items, strict=True)}
        return closed_object(properties | ({} if self.rest is None else {"rest": self.rest.schema()}))

    def encode(self, value: Json, cursor: Cursor) -> Json:
        items = _array(value, cursor)
        if len(items) < self.min_items or (self.rest is None and len(items) > len(self.items)):
            message = f"expected {len(self.items)} items, found {describe_value(value)}"
            raise EncodingError(cursor.path, message)
        encoded: dict[str, Json] = {}
        for index, (key, codec) in enumerate(zip(self.keys, self.items, strict=True)):
            has_item = index < len(items)
            encoded[key] = codec.encode(items[index], cursor.child(index)) if has_item else None
        if self.rest is not None:
            encoded["rest"] = self.rest.encode(items[len(self.items) :], cursor)
        return encoded

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        encoded = cursor.parse_json_string(value, "{")
        keys = [*self.keys, *(() if self.rest is None else ("rest",))]
        # models sometimes write the plain form of a tuple, although the schema asks for an object
        if isinstance(encoded, list):
            cursor.unencoded(f"expected an object with {', '.join(keys)}", value)
            return [self._codec_at(i).decode(item, cursor.child(i)) for i, item in enumerate(encoded)]
        if not isinstance(encoded, dict) or (keys and not match_keys(encoded, keys, cursor.trial())):
            cursor.fail(f"expected an object with {', '.join(keys)}", value, DeviationKind.UNKNOWN_FORM)
            return value
        return self._decode_items(match_keys(encoded, keys, cursor, closed=True), cursor)

    def _decode_items(self, members: dict[str, Json], cursor: DecodeCursor) -> Json:
        """Convert an object with keys such as ``item_0``, which the model wrote, to the items of a tuple."""
        items: list[Json] = []
        has_gap = False  # an item was left out, so no further item may follow
        for index, (key, codec) in enumerate(zip(self.keys, self.items, strict=True)):
            child = cursor.encoded_child(key, cursor.plain.child(index))
            if isinstance(codec, NullableCodec) and members.get(key) is None:
                # the schema asks for null here; a missing key has the same meaning
                if key not in members:
                    child.unencoded("it is missing", ABSENT)
                has_gap = True
            elif key not in members:
                child.fail(f"the required key {key!r} is missing", ABSENT)
                items.append(None)
            elif has_gap:
                child.violation("an earlier item is missing", members[key])
            else:
                items.append(codec.decode(members[key], child))
        return items + self._decode_rest(members, cursor, has_gap=has_gap)

    def _decode_rest(self, members: dict[str, Json], cursor: DecodeCursor, *, has_gap: bool) -> list[Json]:
        """Convert the list under the key ``rest`` back to the last items of a tuple."""
        if self.rest is None:
            return []
        child = cursor.encoded_child("rest")
        if "rest" not in members:
            child.unencoded("it is missing", ABSENT)
            return []
        items = child.parse_json_string(members["rest"], "[")
        if not isinstance(items, list):
            child.fail("expected an array", members["rest"])
            return []
        if has_gap and items:
            child.violation("an earlier item is missing", members["rest"])
            return []
        first = len(self.items)
        cursors = [child.encoded_child(i, cursor.plain.child(first + i)) for i in range(len(items))]
        return [
            self.rest.item.decode(item, item_cursor) for item, item_cursor in zip(items, cursors, strict=True)
        ]

    def _codec_at(self, index: int) -> Codec:
        if index < len(self.items):
            codec = self.items[index]
            return codec.unwrapped if isinstance(codec, NullableCodec) else codec
        return AnyCodec() if self.rest is None else self.rest.item


def _array(value: Json, cursor: Cursor) -> list[Json]:
    if not isinstance(value, list):
        raise EncodingError(cursor.path, f"expected an array, found {describe_value(value)}")
    return value


# --- Objects ---

_PAIR_KEYS = ("key", "value")


class PairsCodec(Codec):
    """The codec that sends an object with arbitrary keys as key-value pairs.

    A pair is written as ``{"key": ..., "value": ...}``.

    Attributes:
        key: The codec of the keys.
        value: The codec of the values.
        keywords: The bounds of the length that are sent.
    """

    is_identity = False

    def __init__(self, key: Codec, value: Codec, keywords: Mapping[str, object]) -> None:
        self.key = key
        self.value = value
        self.keywords = keywords

    @property
    def parts(self) -> Sequence[Codec]:
        return (self.key, self.value)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("array",))

    def bare_schema(self) -> JsonSchema:
        pair = closed_object({"key": self.key.schema(), "value": self.value.schema()})
        return {"type": "array", "items": pair, **self.keywords}

    def encode(self, value: Json, cursor: Cursor) -> Json:
        if not isinstance(value, dict):
            raise EncodingError(cursor.path, f"expected an object, found {describe_value(value)}")
        violation = violated_keyword(self.keywords, value)
        if violation:
            raise EncodingError(cursor.path, f"{violation}, found {describe_value(value)}")
        return [self.encode_pair(key, item, cursor.child(key)) for key, item in value.items()]

    def encode_pair(self, key: str, item: Json, cursor: Cursor) -> Json:
        """Convert one property of an object to a key-value pair for strict mode."""
        return {"key": self.key.encode(key, cursor), "value": self.value.encode(item, cursor)}

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        pairs = cursor.parse_json_string(value, "[")
        if isinstance(pairs, dict):
            return self._decode_plain_object(pairs, cursor)
        if not isinstance(pairs, list):
            cursor.fail("expected an array of keys and values", value, DeviationKind.UNKNOWN_FORM)
            return value
        items: dict[str, Json] = {}
        for index, pair in enumerate(pairs):
            child = cursor.encoded_child(index)
            # on a trial first: a wrong pair is one error, and its keys are not recorded as coercions
            members = match_keys(pair, _PAIR_KEYS, child.trial()) if isinstance(pair, dict) else {}
            if set(members) != set(_PAIR_KEYS):
                child.fail("expected an object with key and value", pair)
                continue
            members = match_keys(pair, _PAIR_KEYS, child)
            key = self._decode_key(members["key"], child.encoded_child("key"))
            if key is None:
                continue
            if key in items:
                child.encoded_child("key").violation("the key appears twice", key)
                continue
            item_cursor = child.encoded_child("value", cursor.plain.child(key))
            items[key] = self.value.decode(members["value"], item_cursor)
        return items

    def _decode_key(self, value: Json, cursor: DecodeCursor) -> str | None:
        """Convert the key in a key-value pair of the reply to the original property name.

        Return None if the key is not a string or a number.
        """
        # in a pair a model may write the key of a dict[int, str] as a number
        if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
            cursor.coerced("number as text", value, dump_json(value))
            return dump_json(value)
        if not isinstance(value, str):
            cursor.fail("expected a key in a string", value)
            return None
        key = self.key.decode(value, cursor)
        return key if isinstance(key, str) else value

    def _decode_plain_object(self, members: dict[str, Json], cursor: DecodeCursor) -> Json:
        """Convert a plain object that the model wrote instead of the requested list of key-value pairs."""
        # {"key": ..., "value": ...} is either one pair without the list, or a dict with these two keys
        if {normalize_key(key) for key in members} == set(_PAIR_KEYS):
            cursor.fail(MORE_THAN_ONE_WAY, members, DeviationKind.AMBIGUOUS)
            return members
        cursor.unencoded("expected an array of keys and values", members)
        return {
            key: _decode_plain_value(self.value, item, cursor.child(key)) for key, item in members.items()
        }


def _decode_plain_value(codec: Codec, value: Json, cursor: DecodeCursor) -> Json:
    """Decode the value of a key that the model wrote without the pairs of strict mode.

    Where any JSON is expected, its text is the value itself, and not JSON in a string.
    """
    is_text = isinstance(value, str) and not value.lstrip().startswith(("{", "[", '"'))
    return value if is_text and isinstance(codec, JsonTextCodec) else codec.decode(value, cursor)


class Absence(Enum):
    """The way in which a model omits an optional property: without its key, with null, or not at all."""

    NEVER = "it is required"
    MISSING = "its key is missing"
    NULL = "it is null"


class ObjectProperty(NamedTuple):
    """A declared property of a JSON Schema, with the codec for its value.

    Attributes:
        codec: The codec of its value.
        absence: How the model writes that the property is left out.
    """

    codec: Codec
    absence: Absence

    def marks_absence(self, value: Json) -> bool:
        """Return True if a value in a reply, such as null, means that the property is missing."""
        return value is None and isinstance(self.codec, NullableCodec) and not self.codec.keeps_null


class FreeProperties(NamedTuple):
    """The strict-mode form of an object's undeclared properties: a list of key-value pairs.

    Attributes:
        name: The key under which the model writes them, as a list of pairs.
        pattern: The pattern of their keys. None if any key is allowed.
        pairs: The codec of the list.
    """

    name: str
    pattern: str | None
    pairs: PairsCodec


class ObjectCodec(Codec):
    """The codec for an object with declared properties, and possibly other keys.

    Attributes:
        fields: The known properties by key.
        extras: Where the other properties are sent as pairs.
        rest: The codec of other properties, which are sent unchanged. None if there are no other properties.
    """

    def __init__(
        self, fields: Mapping[str, ObjectProperty], extras: Sequence[FreeProperties], rest: Codec | None
    ) -> None:
        self.fields = dict(fields)
        self.extras = tuple(extras)
        self.rest = rest
        self.is_identity = not extras  # a NullableCodec among the fields has its own is_identity

    @property
    def parts(self) -> Sequence[Codec]:
        rest = () if self.rest is None else (self.rest,)
        return (*(f.codec for f in self.fields.values()), *(extra.pairs for extra in self.extras), *rest)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("object",))

    @property
    def required(self) -> list[str]:
        """The keys that the strict-mode schema of the object requires."""
        own = [key for key, field in self.fields.items() if field.absence is not Absence.MISSING]
        return [*own, *(extra.name for extra in self.extras)]

    def bare_schema(self) -> JsonSchema:
        properties = {key: field.codec.schema() for key, field in self.fields.items()}
        properties |= {extra.name: extra.pairs.schema() for extra in self.extras}
        schema = {**closed_object(properties), "required": self.required}
        if self.rest is not None:
            schema["additionalProperties"] = self.rest.schema() or True  # true is the usual spelling of {}
        return schema

    def encode(self, value: Json, cursor: Cursor) -> Json:
        if not isinstance(value, dict):
            raise EncodingError(cursor.path, f"expected an object, found {describe_value(value)}")
        encoded: dict[str, Json] = {}
        for key, (codec, absence) in self.fields.items():
            if key in value:
                encoded[key] = codec.encode(value[key], cursor.child(key))
            elif absence is Absence.NEVER:
                raise EncodingError(cursor.child(key).path, "the required property is missing")
            elif absence is not Absence.MISSING:
                encoded[key] = None
        others = {key: item for key, item in value.items() if key not in self.fields}
        return {**encoded, **self._encode_others(others, cursor)}

    def _encode_others(self, others: dict[str, Json], cursor: Cursor) -> dict[str, Json]:
        """Convert undeclared properties to lists of key-value pairs for strict mode."""
        if not self.extras:
            if others and self.rest is None:
                raise _unexpected_property(cursor.child(next(iter(others))))
            rest = self.rest or NeverCodec()
            return {key: rest.encode(item, cursor.child(key)) for key, item in others.items()}
        lists: dict[str, list[Json]] = {extra.name: [] for extra in self.extras}
        for key, item in others.items():
            name, pair = self._encode_free_property(key, item, cursor.child(key))
            lists[name].append(pair)
        return dict(lists)

    def _encode_free_property(self, key: str, item: Json, cursor: Cursor) -> tuple[str, Json]:
        """Convert one undeclared property to a key-value pair for strict mode.

        Return the name of the list to which the pair belongs, and the pair.
        """
        last_error = _unexpected_property(cursor)
        for name, pattern, pairs in self.extras:
            if pattern is None or re.search(pattern, key):
                try:  # several patterns may match a key; the value decides
                    return name, pairs.encode_pair(key, item, cursor)
                except EncodingError as error:
                    last_error = error
        raise last_error

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        members = cursor.parse_json_string(value, "{")
        if not isinstance(members, dict):
            cursor.mismatch("expected an object", value, changes_shape=True)
            return value
        decoded: dict[str, Json] = {}
        lists: dict[str, Json] = {}
        for key, item in members.items():
            name = self._name_of(key, members)
            if name in self._pairs_by_name:
                if name != key:
                    cursor.encoded_child(key).coerced("key in another form", key, name)
                if name in lists:
                    cursor.encoded_child(key).fail(f"another key refers to {name!r} too", key)
                lists[name] = item
            elif name is None:
                decoded[key] = self._decode_other(key, item, cursor.child(key))
            else:
                child = cursor.child(key)
                if name != key:
                    child.mismatch(f"expected the key {name!r}", key)
                if not self.fields[name].marks_absence(item):
                    decoded[key] = self.fields[name].codec.decode(item, child)
        self._report_missing(members, lists, cursor)
        # the lists come last, to detect pairs whose key is also a property of the object
        for name, item in lists.items():
            self._decode_list(name, item, decoded, cursor)
        return decoded

    def _name_of(self, key: str, members: dict[str, Json]) -> str | None:
        """Return the declared property that a key in a reply means, ignoring case and punctuation.

        Return None for an unknown key.
        """
        if key in self.fields or key in self._pairs_by_name:
            return key
        name = self._names_by_plain_key.get(normalize_key(key))
        return None if name is None or name in members else name

    @property
    def pair_names(self) -> frozenset[str]:
        """The keys under which other properties are sent as pairs."""
        return frozenset(extra.name for extra in self.extras)

    @cached_property
    def _pairs_by_name(self) -> dict[str, PairsCodec]:
        return {extra.name: extra.pairs for extra in self.extras}

    @cached_property
    def _names_by_plain_key(self) -> dict[str, str | None]:
        names: dict[str, str | None] = {}
        for name in (*self.fields, *self._pairs_by_name):
            plain = normalize_key(name)
            # a spelling that two names have in common is ambiguous
            names[plain] = None if plain in names else name
        return names

    def _report_missing(self, members: dict[str, Json], lists: dict[str, Json], cursor: DecodeCursor) -> None:
        """Report each property that is declared in the JSON Schema but missing in the reply."""
        present = {self._name_of(key, members) for key in members}
        for key, field in self.fields.items():
            if key in present or field.absence is Absence.MISSING:
                continue
            if field.absence is Absence.NEVER:
                cursor.child(key).mismatch("the required property is missing", ABSENT)
            else:
                cursor.child(key).unencoded("it is missing", ABSENT)
        for name in self._pairs_by_name.keys() - lists.keys():
            cursor.encoded_child(name).unencoded("it is missing", ABSENT)

    def _decode_other(self, key: str, item: Json, cursor: DecodeCursor) -> Json:
        """Convert the value of an undeclared property back from strict mode."""
        if self.rest is not None and not isinstance(self.rest, NeverCodec):
            return self.rest.decode(item, cursor)
        # the model may write an undeclared key into the object itself instead of the list of pairs
        for _, pattern, pairs in self.extras:
            if pattern is None or re.search(pattern, key):
                cursor.unencoded("no property of this name is expected", item)
                return _decode_plain_value(pairs.value, item, cursor)
        cursor.mismatch("no property of this name is expected", key)
        return item

    def _decode_list(self, name: str, item: Json, decoded: dict[str, Json], cursor: DecodeCursor) -> None:
        """Convert key-value pairs in the reply to properties of an object."""
        child = cursor.encoded_child(name)
        members = self._pairs_by_name[name].decode(item, child)
        if not isinstance(members, dict):
            child.fail("expected an array of keys and values", item)
            return
        for key, value in members.items():
            if key in decoded or key in self.fields:
                child.violation("the key appears twice", key)
            decoded.setdefault(key, value)


def _unexpected_property(cursor: Cursor) -> EncodingError:
    return EncodingError(cursor.path, "no property of this name is expected")


# --- Unions ---


class UnionCodec(Codec):
    """The codec of a union, whose values fit one of several JSON Schemas (branches).

    Attributes:
        branches: The codecs of the branches.
        location: Where the schema has the union.
    """

    def __init__(self, branches: Sequence[Codec]) -> None:
        self.branches = tuple(branches)
        self.location: SchemaLocation | None = None

    @property
    def parts(self) -> Sequence[Codec]:
        return self.branches

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset().union(*(branch.kinds for branch in _branches(self)))

    @cached_property
    def _has_inner_unions(self) -> bool:
        """True if a branch is a union, so that a value could be tried twice as often on each level."""
        return any(isinstance(_resolved(branch), (UnionCodec, NullableCodec)) for branch in self.branches)

    def bare_schema(self) -> JsonSchema:
        schemas: list[JsonSchema] = []
        for branch in self.branches:
            schema = branch.schema()
            for option in schema["anyOf"] if set(schema) == {"anyOf"} else [schema]:
                if option not in schemas:
                    schemas.append(option)
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def encode(self, value: Json, cursor: Cursor) -> Json:
        """Convert a value for strict mode with the first union branch that accepts the value."""
        if not isinstance(value, (dict, list)) and not self._has_inner_unions:
            return self._encode_by_branch(value, cursor)
        # In a recursive type each branch calls its inner unions with the same value: without a cache the
        # time would double with every level.
        key = (id(self), id(value), cursor.path if self._has_inner_unions else "")
        if key not in cursor.union_cache:
            try:
                cursor.union_cache[key] = (value, self._encode_by_branch(value, cursor), None)
            except EncodingError as error:
                cursor.union_cache[key] = (value, None, error)
        _, encoded, cached_error = cursor.union_cache[key]
        if cached_error is not None:
            raise cached_error
        return encoded

    def _encode_by_branch(self, value: Json, cursor: Cursor) -> Json:
        """Convert a value for strict mode with the first union branch that accepts it, without the cache."""
        errors: list[EncodingError] = []
        for branch in self.branches:
            try:
                return branch.encode(value, cursor)
            except EncodingError as error:
                errors.append(error)
        raise _deepest_error(errors, value, cursor)

    def decode(self, value: Json, cursor: DecodeCursor) -> Json:
        if not isinstance(value, (dict, list)) and not self._has_inner_unions:
            return self._decode_by_branch(value, cursor)
        # the same scalar may be in several places
        key = (id(self), id(value), cursor.encoded.path if self._has_inner_unions else "")
        if key not in cursor.union_cache:
            trial = cursor.trial()
            decoded = self._decode_by_branch(value, trial)
            # the cache holds the value too: while it is alive, no other value gets its id
            cursor.union_cache[key] = (value, decoded, trial.deviations)
        _, decoded, deviations = cursor.union_cache[key]
        cursor.deviations.extend(deviations)
        return decoded

    def _decode_by_branch(self, value: Json, cursor: DecodeCursor) -> Json:
        decoders = [partial(branch.decode, value) for branch in self.branches]
        return decode_with_fewest_deviations(decoders, value, cursor)


def _deepest_error(errors: list[EncodingError], value: Json, cursor: Cursor) -> EncodingError:
    """Return the error of the union branch that a value fits best.

    It most likely comes from the branch that was meant.
    """
    deepest = max(errors, key=lambda error: len(error.path), default=None)
    if deepest is None or len(deepest.path) <= len(cursor.path):
        return EncodingError(cursor.path, f"it does not fit any branch, found {describe_value(value)}")
    return deepest


def make_union(branches: Sequence[Codec]) -> Codec:
    """Build the codec for a union, after flattening and simplifying it."""
    flat: list[Codec] = []
    for branch in branches:
        if isinstance(branch, UnionCodec) and branch.description is None:
            flat += branch.branches
        else:
            flat.append(branch)
    possible = [branch for branch in flat if not isinstance(branch, NeverCodec)]
    # a branch for any JSON includes all others, which would only make values ambiguous
    catch_all = next((branch for branch in possible if _accepts_all(branch)), None)
    if catch_all is not None:
        return catch_all
    if len(possible) < 2:
        return possible[0] if possible else NeverCodec()
    return UnionCodec(possible)


def _accepts_all(codec: Codec) -> bool:
    return isinstance(codec, AnyCodec) or (isinstance(codec, JsonTextCodec) and codec.kinds_inside is None)


_MAX_PASSES = 8  # a wrapper inside a branch may make that branch look like another one


def disambiguate_unions(root: Codec, work: Work) -> list[UnionCodec] | None:
    """Wrap the members of ambiguous unions in objects, and return the unions that were changed.

    Call it when all definitions are known. It begins with the innermost unions. Wrappers with different keys
    have nothing in common, so wrapping every branch of a union is the last resort. Returns None if unions
    are still ambiguous after the last pass. Raises TooComplexError if there are too many branches to compare.
    """
    changed: list[UnionCodec] = []
    for _ in range(_MAX_PASSES):
        unions = [codec for codec in walk(root) if isinstance(codec, UnionCodec)]
        changed_now = [union for union in reversed(unions) if _wrap_ambiguous_branches(union, work)]
        if not changed_now:
            return changed
        changed += changed_now
    return None


def _wrap_ambiguous_branches(union: UnionCodec, work: Work) -> bool:
    """Wrap the branches of a union in JSON objects if it is unclear which branch a reply means.

    Return True if any branch was wrapped.
    """
    distinct: list[Codec] = []
    ambiguous: list[int] = []
    comparison = _Comparison(work)
    # branches that do not change values come first, so that others get the wrappers
    for index in sorted(range(len(union.branches)), key=lambda i: not is_identity(union.branches[i])):
        branch = union.branches[index]
        if all(comparison.decode_alike(branch, other) for other in distinct):
            distinct.append(branch)
        else:
            ambiguous.append(index)
    if ambiguous:
        union.branches = _wrapped(union.branches, ambiguous, work)
    return bool(ambiguous)


def _wrapped(branches: Sequence[Codec], indexes: list[int], work: Work) -> tuple[Codec, ...]:
    """Return union branches wrapped in objects with distinct keys; only some branches, if that is enough."""
    wrappers = {index: WrapperCodec(branches[index], f"option_{index + 1}") for index in indexes}
    others = [branch for index, branch in enumerate(branches) if index not in wrappers]
    # a branch may itself be an object with the key of a wrapper
    pairs = [(wrapper, branch) for wrapper in wrappers.values() for branch in others]
    comparison = _Comparison(work)
    if not all(comparison.decode_alike(wrapper, branch) for wrapper, branch in pairs):
        return tuple(WrapperCodec(branch, f"option_{index + 1}") for index, branch in enumerate(branches))
    return tuple(wrappers.get(index, branch) for index, branch in enumerate(branches))


# --- Comparing branches ---

_Pair = tuple[int, int]


class _Comparison:
    """The results so far of comparing the codecs of a union.

    Attributes:
        begun: Pairs whose comparison has begun. For recursive types they are assumed to be alike: values are
            finite, so a difference appears at another pair.
        overlapping: Pairs that some value may fit both of.
        identities: Whether codecs leave all values unchanged.
    """

    def __init__(self, work: Work) -> None:
        self.begun: set[_Pair] = set()
        self.overlapping: set[_Pair] = set()
        self.identities: dict[int, bool] = {}
        self._work = work

    def decode_alike(self, one: Codec, other: Codec) -> bool:
        """Return True if two codecs give equal values for each reply that both accept."""
        self.begun = set()
        return _decode_alike(one, other, self)

    def are_identities(self, *codecs: Codec) -> bool:
        """Return True if all of the codecs leave values unchanged."""
        for codec in codecs:
            if id(codec) not in self.identities:
                parts = list(walk(codec))
                self._work.spend(_STEPS_OF_A_COMPARISON * len(parts))
                self.identities[id(codec)] = all(part.is_identity for part in parts)
        return all(self.identities[id(codec)] for codec in codecs)

    def count(self) -> None:
        """Count one comparison. Raises TooComplexError if there are too many."""
        self._work.spend(_STEPS_OF_A_COMPARISON)


_STEPS_OF_A_COMPARISON = 15  # of ``Work``


def is_identity(codec: Codec) -> bool:
    """Return True if a converter (codec) leaves every value in a strict-mode reply unchanged."""
    return all(part.is_identity for part in walk(codec))


def _decode_alike(one: Codec, other: Codec, compared: _Comparison) -> bool:
    """Return True if two codecs give equal values for each reply that both accept."""
    compared.count()
    one, other = _resolved(one), _resolved(other)
    pair = (id(one), id(other))
    if pair in compared.begun or one is other or compared.are_identities(one, other):
        return True
    # the pair stays here afterwards: the first difference ends the whole comparison, so it was not this pair
    compared.begun.add(pair)
    lefts, rights = list(_branches(one)), list(_branches(other))
    if len(lefts) > 1 or len(rights) > 1:
        return all(_decode_alike(left, right, compared) for left in lefts for right in rights)
    return _single_branches_decode_alike(lefts[0], rights[0], compared) if lefts and rights else True


def _single_branches_decode_alike(one: Codec, other: Codec, compared: _Comparison) -> bool:
    """Return True if two codecs that are not unions give equal values for each reply that both accept."""
    if (
        one is other
        or compared.are_identities(one, other)
        or _are_disjoint(one, other, frozenset(), compared)
    ):
        return True
    match one, other:
        case JsonTextCodec(), JsonTextCodec():
            return True
        case ChoiceCodec(), ChoiceCodec():
            # a string may be a member of one enum, and the JSON text of a member of the other
            return one.all_as_text == other.all_as_text
        case PairsCodec(), PairsCodec():
            same_keys = _decode_alike(one.key, other.key, compared)
            return same_keys and _decode_alike(one.value, other.value, compared)
        case (NativeTupleCodec(), ListCodec()) | (ListCodec(), NativeTupleCodec()):
            return False  # items differ by position, so the codecs of all positions would have to be compared
        case ListCodec(), ListCodec():
            return _decode_alike(one.item, other.item, compared)
        case WrapperCodec(), WrapperCodec():
            return _decode_alike(one.inner, other.inner, compared)
        case ObjectCodec(), ObjectCodec():
            return _objects_decode_alike(one, other, compared)
    return False


def _objects_decode_alike(one: ObjectCodec, other: ObjectCodec, compared: _Comparison) -> bool:
    """Return True if two codecs give equal values for each object that both accept."""
    if one.rest is not None or other.rest is not None or one.fields.keys() != other.fields.keys():
        return False
    lefts, rights = ({e.name: e.pairs for e in codec.extras} for codec in (one, other))
    if lefts.keys() != rights.keys():
        return False
    # null must mean "left out" in both or in neither
    same_absence = all(
        field.marks_absence(None) == other.fields[key].marks_absence(None)
        for key, field in one.fields.items()
    )
    return (
        same_absence
        and all(
            _decode_alike(field.codec, other.fields[key].codec, compared) for key, field in one.fields.items()
        )
        and all(_decode_alike(pairs, rights[name], compared) for name, pairs in lefts.items())
    )


def _are_disjoint(one: Codec, other: Codec, begun: frozenset[_Pair], comparison: _Comparison) -> bool:
    """Return True if types, keys or enum values show that no JSON value fits both codecs.

    ``begun`` are the pairs around this one, which are assumed to be disjoint.
    """
    comparison.count()
    pair = (id(one), id(other))
    if pair in begun:
        return True
    if pair in comparison.overlapping:
        return False
    are_disjoint = _show_no_overlap(one, other, begun | {pair}, comparison)
    if not are_disjoint:  # the assumptions do not matter, because they could only show the opposite
        comparison.overlapping.add(pair)
    return are_disjoint


def _show_no_overlap(one: Codec, other: Codec, begun: frozenset[_Pair], comparison: _Comparison) -> bool:
    lefts, rights = list(_branches(one)), list(_branches(other))
    if len(lefts) != 1 or len(rights) != 1:
        return all(_are_disjoint(left, right, begun, comparison) for left in lefts for right in rights)
    one, other = lefts[0], rights[0]
    if one.kinds.isdisjoint(other.kinds):
        return True
    if isinstance(one, ChoiceCodec) and isinstance(other, ChoiceCodec):
        return one.encoded_members.isdisjoint(other.encoded_members)
    return _keys_show_no_overlap(one, other, begun, comparison)


def _keys_show_no_overlap(one: Codec, other: Codec, begun: frozenset[_Pair], comparison: _Comparison) -> bool:
    keys1, keys2 = _object_keys(one), _object_keys(other)
    if keys1 is None or keys2 is None:
        return False
    (codecs1, required1, is_open1), (codecs2, required2, is_open2) = keys1, keys2
    # a key that one requires and the other does not allow separates them
    if not (required1 <= codecs2.keys() or is_open2) or not (required2 <= codecs1.keys() or is_open1):
        return True
    return any(
        _are_disjoint(codecs1[key], codecs2[key], begun, comparison)
        for key in required1 & required2
        if key in codecs1 and key in codecs2
    )


def _object_keys(codec: Codec) -> tuple[dict[str, Codec], frozenset[str], bool] | None:
    """Return an object's property codecs, its required keys, and whether other keys are allowed."""
    if isinstance(codec, WrapperCodec):
        return {codec.key: codec.inner}, frozenset((codec.key,)), False
    if isinstance(codec, TupleCodec):
        codecs: dict[str, Codec] = dict(zip(codec.keys, codec.items, strict=True))
        codecs |= {} if codec.rest is None else {"rest": codec.rest}
        return codecs, frozenset(codecs), False
    if isinstance(codec, ObjectCodec):
        codecs = {key: field.codec for key, field in codec.fields.items()}
        codecs |= {extra.name: extra.pairs for extra in codec.extras}
        return codecs, frozenset(codec.required), codec.rest is not None
    return None


def _resolved(codec: Codec) -> Codec:
    """Return the target codec of a reference; other codecs are returned unchanged."""
    while isinstance(codec, RefCodec):
        codec = codec.target
    return codec


def _branches(codec: Codec) -> Iterator[Codec]:
    """List all branches of a union, including the branches of nested and referenced unions, each once."""
    seen: set[int] = set()
    waiting = [codec]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, RefCodec):
            waiting.append(current.target)
        elif isinstance(current, UnionCodec):
            waiting.extend(reversed(current.branches))
        elif isinstance(current, NullableCodec):
            yield _NULL
            waiting.append(current.inner)
        else:
            yield current


_NULL = ScalarCodec("null", {})
