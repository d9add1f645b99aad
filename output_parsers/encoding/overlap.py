"""Whether one encoded value may belong to two branches of a union, and mean different things there."""

from __future__ import annotations

from collections.abc import Iterator

from .arrays import ListCode, NativeTupleCode, TupleCode
from .boxes import BoxCode, NullableCode
from .code import Code, RefCode, walk
from .leaves import ChoiceCode, ScalarCode, TextCode
from .objects import ObjectCode
from .pairs import PairsCode

__all__ = ["BranchesCode", "clear", "is_plain"]

# Pairs that are being compared. What is assumed of them holds below them too, since values are finite.
_Open = frozenset[tuple[int, int]]


class BranchesCode(Code):
    """What has branches, each of which an encoded value may belong to."""

    branches: tuple[Code, ...]


def is_plain(code: Code) -> bool:
    """Whether decoding changes nothing."""
    return all(part.plain for part in walk(code))


def clear(one: Code, other: Code, within: _Open = frozenset()) -> bool:
    """Whether what fits both means the same in both, whatever it is."""
    pair = (id(one), id(other))
    if pair in within or one is other or (is_plain(one) and is_plain(other)):
        return True
    within = within | {pair}
    lefts, rights = list(_branches(one)), list(_branches(other))
    if len(lefts) > 1 or len(rights) > 1:
        return all(clear(left, right, within) for left in lefts for right in rights)
    return _clear(lefts[0], rights[0], within) if lefts and rights else True


def _clear(one: Code, other: Code, within: _Open) -> bool:
    if one is other or (is_plain(one) and is_plain(other)) or _disjoint(one, other, frozenset()):
        return True
    if isinstance(one, TextCode) and isinstance(other, TextCode):
        return True
    if isinstance(one, ChoiceCode) and isinstance(other, ChoiceCode):
        return one.all_as_text == other.all_as_text
    if isinstance(one, PairsCode) and isinstance(other, PairsCode):
        return clear(one.key, other.key, within) and clear(one.value, other.value, within)
    if isinstance(one, ListCode) and isinstance(other, ListCode):
        tuples = isinstance(one, NativeTupleCode) or isinstance(other, NativeTupleCode)
        return not tuples and clear(one.item, other.item, within)
    if isinstance(one, BoxCode) and isinstance(other, BoxCode):
        return clear(one.inner, other.inner, within)
    if isinstance(one, ObjectCode) and isinstance(other, ObjectCode):
        return _clear_objects(one, other, within)
    return False


def _clear_objects(one: ObjectCode, other: ObjectCode, within: _Open) -> bool:
    if one.rest is not None or other.rest is not None or one.fields.keys() != other.fields.keys():
        return False
    lefts, rights = ({e.name: e.pairs for e in code.extras} for code in (one, other))
    if lefts.keys() != rights.keys():
        return False
    same_absence = all(
        field.left_out(None) == other.fields[key].left_out(None) for key, field in one.fields.items()
    )
    return (
        same_absence
        and all(clear(field.code, other.fields[key].code, within) for key, field in one.fields.items())
        and all(clear(pairs, rights[name], within) for name, pairs in lefts.items())
    )


def _disjoint(one: Code, other: Code, within: _Open) -> bool:
    """Whether nothing fits both, as far as kinds, keys and choices tell."""
    pair = (id(one), id(other))
    if pair in within:
        return True
    within = within | {pair}
    lefts, rights = list(_branches(one)), list(_branches(other))
    if len(lefts) != 1 or len(rights) != 1:
        return all(_disjoint(left, right, within) for left in lefts for right in rights)
    one, other = lefts[0], rights[0]
    if one.kinds.isdisjoint(other.kinds):
        return True
    if isinstance(one, ChoiceCode) and isinstance(other, ChoiceCode):
        return one.shown.isdisjoint(other.shown)
    keys, others = _keys(one), _keys(other)
    if keys is None or others is None:
        return False
    (known, needed, is_open), (known2, needed2, is_open2) = keys, others
    if not (needed <= known2.keys() or is_open2) or not (needed2 <= known.keys() or is_open):
        return True
    return any(
        _disjoint(known[key], known2[key], within)
        for key in needed & needed2
        if key in known and key in known2
    )


def _keys(code: Code) -> tuple[dict[str, Code], frozenset[str], bool] | None:
    """The codes of an encoded object by key, the keys that it must have, and whether it takes others."""
    if isinstance(code, BoxCode):
        return {code.key: code.inner}, frozenset((code.key,)), False
    if isinstance(code, TupleCode):
        known: dict[str, Code] = dict(zip(code.keys, code.items, strict=True))
        known |= {} if code.rest is None else {"rest": code.rest}
        return known, frozenset(known), False
    if isinstance(code, ObjectCode):
        known = {key: field.code for key, field in code.fields.items()}
        known |= {extra.name: extra.pairs for extra in code.extras}
        return known, frozenset(code.required), code.rest is not None
    return None


def _branches(code: Code) -> Iterator[Code]:
    if isinstance(code, RefCode):
        yield from _branches(code.target)
    elif isinstance(code, BranchesCode):
        for branch in code.branches:
            yield from _branches(branch)
    elif isinstance(code, NullableCode):
        yield ScalarCode("null", {})
        yield from _branches(code.inner)
    else:
        yield code
