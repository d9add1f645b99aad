"""The strict-mode converter (codec) for unions, which keeps the union branches distinguishable.

Decoding tries every branch. That is only safe if no encoded value fits two branches that decode it to
different values. A list and a dict, for example, are both sent as arrays, so the dict gets a wrapper::

    branches:     list[int] | dict[str, int]
    schema sent:  {"anyOf": [{"type": "array", "items": {"type": "integer"}},
                             {"type": "object", "properties": {"option_2": {"type": "array", ...}}, ...}]}

``make_union`` builds the codec of a union. ``disambiguate_unions`` adds the wrappers when the whole schema is
known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ..result.reading import Cursor, Json, describe_value
from ..types.node import JsonSchema
from .codec import (
    Codec,
    DecodeCursor,
    EncodingError,
    RefCodec,
    SchemaLocation,
    decode_with_fewest_deviations,
    walk,
)
from .containers import ListCodec, NativeTupleCodec, ObjectCodec, PairsCodec, TupleCodec
from .scalars import (
    AnyCodec,
    ChoiceCodec,
    JsonTextCodec,
    NeverCodec,
    NullableCodec,
    ScalarCodec,
    WrapperCodec,
)


class UnionCodec(Codec):
    """The codec of a union: converts values that fit one of several JSON Schemas (branches) for strict mode.

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
        return frozenset().union(*(branch.kinds for branch in self.branches))

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
        if not isinstance(value, (dict, list)):
            return self._encode_by_branch(value, cursor)
        # In a recursive type each branch calls its inner unions with the same value: without a cache the
        # time would double with every level.
        key = (id(self), id(value))
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
        if not isinstance(value, (dict, list)):
            return self._decode_by_branch(value, cursor)
        key = (id(self), id(value))
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
    """Choose the error to report for a value that fits no union branch: the error of the closest branch.

    It most likely comes from the branch that was meant.
    """
    deepest = max(errors, key=lambda error: len(error.path), default=None)
    if deepest is None or len(deepest.path) <= len(cursor.path):
        return EncodingError(cursor.path, f"it does not fit any branch, found {describe_value(value)}")
    return deepest


def make_union(branches: Sequence[Codec]) -> Codec:
    """Build the strict-mode converter (codec) for a union, after flattening and simplifying it."""
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


def disambiguate_unions(root: Codec) -> list[UnionCodec] | None:
    """Wrap the members of ambiguous unions in objects, and return the unions that were changed.

    Call it when all definitions are known. It begins with the innermost unions. Wrappers with different keys
    have nothing in common, so wrapping every branch of a union is the last resort. Returns None if unions
    are still ambiguous after the last pass.
    """
    changed: list[UnionCodec] = []
    for _ in range(_MAX_PASSES):
        unions = [codec for codec in walk(root) if isinstance(codec, UnionCodec)]
        changed_now = [union for union in reversed(unions) if _wrap_ambiguous_branches(union)]
        if not changed_now:
            return changed
        changed += changed_now
    return None


def _wrap_ambiguous_branches(union: UnionCodec) -> bool:
    """Wrap the branches of a union in JSON objects if it is unclear which branch a reply means.

    Return True if any branch was wrapped.
    """
    distinct: list[Codec] = []
    ambiguous: list[int] = []
    # branches that do not change values come first, so that others get the wrappers
    for index in sorted(range(len(union.branches)), key=lambda i: not is_identity(union.branches[i])):
        branch = union.branches[index]
        if all(decode_alike(branch, other) for other in distinct):
            distinct.append(branch)
        else:
            ambiguous.append(index)
    if ambiguous:
        union.branches = _wrapped(union.branches, ambiguous)
    return bool(ambiguous)


def _wrapped(branches: Sequence[Codec], indexes: list[int]) -> tuple[Codec, ...]:
    """Wrap the given union branches in objects with distinct keys, or all branches if necessary."""
    wrappers = {index: WrapperCodec(branches[index], f"option_{index + 1}") for index in indexes}
    others = [branch for index, branch in enumerate(branches) if index not in wrappers]
    # a branch may itself be an object with the key of a wrapper
    if not all(decode_alike(wrapper, branch) for wrapper in wrappers.values() for branch in others):
        return tuple(WrapperCodec(branch, f"option_{index + 1}") for index, branch in enumerate(branches))
    return tuple(wrappers.get(index, branch) for index, branch in enumerate(branches))


# --- Comparing branches ---

# Pairs of codecs whose comparison has begun. For recursive types they are assumed to be alike: values are
# finite, so a difference appears at another pair.
_Pair = tuple[int, int]


def is_identity(codec: Codec) -> bool:
    """Return True if a converter (codec) leaves every value in a strict-mode reply unchanged."""
    return all(part.is_identity for part in walk(codec))


def decode_alike(one: Codec, other: Codec, compared: set[_Pair] | None = None) -> bool:
    """Return True if two strict-mode converters (codecs) give equal values for each reply that fits both."""
    compared = set() if compared is None else compared
    one, other = _resolved(one), _resolved(other)
    pair = (id(one), id(other))
    if pair in compared or one is other or (is_identity(one) and is_identity(other)):
        return True
    # the pair stays here afterwards: the first difference ends the whole comparison, so it was not this pair
    compared.add(pair)
    lefts, rights = list(_branches(one)), list(_branches(other))
    if len(lefts) > 1 or len(rights) > 1:
        return all(decode_alike(left, right, compared) for left in lefts for right in rights)
    return _single_branches_decode_alike(lefts[0], rights[0], compared) if lefts and rights else True


def _single_branches_decode_alike(one: Codec, other: Codec, compared: set[_Pair]) -> bool:
    """Return True if two codecs, neither for a union, give the same value for each reply that fits both."""
    if one is other or (is_identity(one) and is_identity(other)) or _are_disjoint(one, other, frozenset()):
        return True
    if isinstance(one, JsonTextCodec) and isinstance(other, JsonTextCodec):
        return True
    # a string may be a member of one enum, and the JSON text of a member of the other
    if isinstance(one, ChoiceCodec) and isinstance(other, ChoiceCodec):
        return one.all_as_text == other.all_as_text
    if isinstance(one, PairsCodec) and isinstance(other, PairsCodec):
        return decode_alike(one.key, other.key, compared) and decode_alike(one.value, other.value, compared)
    if isinstance(one, ListCodec) and isinstance(other, ListCodec):
        # items of tuples differ by position, so the codecs of all positions would have to be compared
        tuples = isinstance(one, NativeTupleCodec) or isinstance(other, NativeTupleCodec)
        return not tuples and decode_alike(one.item, other.item, compared)
    if isinstance(one, WrapperCodec) and isinstance(other, WrapperCodec):
        return decode_alike(one.inner, other.inner, compared)
    if isinstance(one, ObjectCodec) and isinstance(other, ObjectCodec):
        return _objects_decode_alike(one, other, compared)
    return False


def _objects_decode_alike(one: ObjectCodec, other: ObjectCodec, compared: set[_Pair]) -> bool:
    """Return True if two converters (codecs) give equal results for every object that both accept."""
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
            decode_alike(field.codec, other.fields[key].codec, compared) for key, field in one.fields.items()
        )
        and all(decode_alike(pairs, rights[name], compared) for name, pairs in lefts.items())
    )


def _are_disjoint(one: Codec, other: Codec, compared: frozenset[_Pair]) -> bool:
    """Return True if types, keys or enum values prove that no JSON value fits two codecs at once."""
    pair = (id(one), id(other))
    if pair in compared:
        return True
    compared = compared | {pair}
    lefts, rights = list(_branches(one)), list(_branches(other))
    if len(lefts) != 1 or len(rights) != 1:
        return all(_are_disjoint(left, right, compared) for left in lefts for right in rights)
    one, other = lefts[0], rights[0]
    if one.kinds.isdisjoint(other.kinds):
        return True
    if isinstance(one, ChoiceCodec) and isinstance(other, ChoiceCodec):
        return one.encoded_members.isdisjoint(other.encoded_members)
    keys1, keys2 = _object_keys(one), _object_keys(other)
    if keys1 is None or keys2 is None:
        return False
    (codecs1, required1, is_open1), (codecs2, required2, is_open2) = keys1, keys2
    # a key that one requires and the other does not allow separates them
    if not (required1 <= codecs2.keys() or is_open2) or not (required2 <= codecs1.keys() or is_open1):
        return True
    return any(
        _are_disjoint(codecs1[key], codecs2[key], compared)
        for key in required1 & required2
        if key in codecs1 and key in codecs2
    )


def _object_keys(codec: Codec) -> tuple[dict[str, Codec], frozenset[str], bool] | None:
    """Return the codecs of an object's properties, its required keys, and True if other keys are allowed."""
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
    """Return the codec that a reference stands for; other codecs are returned unchanged."""
    while isinstance(codec, RefCodec):
        codec = codec.target
    return codec


def _branches(codec: Codec) -> Iterator[Codec]:
    """List all branches of a union, including the branches of nested and referenced unions."""
    if isinstance(codec, RefCodec):
        yield from _branches(codec.target)
    elif isinstance(codec, UnionCodec):
        for branch in codec.branches:
            yield from _branches(branch)
    elif isinstance(codec, NullableCodec):
        yield ScalarCodec("null", {})
        yield from _branches(codec.inner)
    else:
        yield codec
