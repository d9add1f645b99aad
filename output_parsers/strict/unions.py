"""How a union is written: its branches side by side, those apart that could be taken for one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ..result.reading import Cursor, Json, describe_value
from ..types.node import JsonSchema
from .codec import Code, EncodingFault, RefCode, Spot, Where, likeliest, walk
from .containers import ListCode, NativeTupleCode, ObjectCode, PairsCode, TupleCode
from .scalars import AnyCode, BoxCode, ChoiceCode, NeverCode, NullableCode, ScalarCode, TextCode

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


class UnionCode(BranchesCode):
    """One of several branches."""

    def __init__(self, branches: Sequence[Code]) -> None:
        self.branches = tuple(branches)
        self.plain = True
        self.child: Where | None = None

    @property
    def parts(self) -> Sequence[Code]:
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

    def encode(self, value: Json, at: Cursor) -> Json:
        """The value encoded by the first branch that it fits."""
        if not isinstance(value, (dict, list)):
            return self._encoded(value, at)
        # branches that hold this union again would ask it once each, and each level below twice as often
        key = (id(self), id(value))
        if key not in at.union_cache:
            try:
                at.union_cache[key] = (value, self._encoded(value, at), None)
            except EncodingFault as fault:
                at.union_cache[key] = (value, None, fault)
        _, outcome, refusal = at.union_cache[key]
        if refusal is not None:
            raise refusal
        return outcome

    def _encoded(self, value: Json, at: Cursor) -> Json:
        faults: list[EncodingFault] = []
        for branch in self.branches:
            try:
                return branch.encode(value, at)
            except EncodingFault as fault:
                faults.append(fault)
        raise _nearest(faults, value, at)

    def undo(self, value: Json, at: Spot) -> Json:
        if not isinstance(value, (dict, list)):
            return self._undone(value, at)
        key = (id(self), id(value))
        if key not in at.union_cache:
            trial = at.apart()
            undone = self._undone(value, trial)
            at.union_cache[key] = (value, undone, trial.steps)
        _, undone, steps = at.union_cache[key]
        at.steps.extend(steps)
        return undone

    def _undone(self, value: Json, at: Spot) -> Json:
        return likeliest([partial(branch.undo, value) for branch in self.branches], value, at)


def _nearest(faults: list[EncodingFault], value: Json, at: Cursor) -> EncodingFault:
    """The fault that lies deepest: that of the branch which was meant, as like as not."""
    deepest = max(faults, key=lambda fault: len(fault.path), default=None)
    if deepest is None or len(deepest.path) <= len(at.path):
        return EncodingFault(at.path, f"it fits no branch, found {describe_value(value)}")
    return deepest


def union_of(branches: Sequence[Code]) -> Code:
    """The code of a union of these; one that nothing fits is none of them, any JSON is all of them."""
    flat: list[Code] = []
    for branch in branches:
        if isinstance(branch, UnionCode) and branch.description is None:
            flat += branch.branches
        else:
            flat.append(branch)
    left = [branch for branch in flat if not isinstance(branch, NeverCode)]
    wide = next((branch for branch in left if _takes_all(branch)), None)
    if wide is not None:
        return wide
    if len(left) < 2:
        return left[0] if left else NeverCode()
    return UnionCode(left)


def _takes_all(code: Code) -> bool:
    return isinstance(code, AnyCode) or (isinstance(code, TextCode) and code.only is None)


_MOST_ROUNDS = 8  # a box inside of a branch may make that branch look like another


def told_apart(root: Code) -> list[UnionCode] | None:
    """Put branches that could be taken for one another into boxes of their own; the unions that have some.

    It waits until all definitions are known, and begins with what lies deepest. Boxes with different keys
    have nothing in common; the last resort is to put each branch into one. None where there is no end to it.
    """
    changed: list[UnionCode] = []
    for _ in range(_MOST_ROUNDS):
        unions = [code for code in walk(root) if isinstance(code, UnionCode)]
        now = [union for union in reversed(unions) if _told_apart(union)]
        if not now:
            return changed
        changed += now
    return None


def _told_apart(union: UnionCode) -> bool:
    """Put those branches of one union into boxes that could be taken for others; whether there were any."""
    kept: list[Code] = []
    boxed: list[int] = []
    for index in sorted(range(len(union.branches)), key=lambda i: not is_plain(union.branches[i])):
        branch = union.branches[index]
        if all(clear(branch, other) for other in kept):
            kept.append(branch)
        else:
            boxed.append(index)
    if boxed:
        union.branches = _boxed(union.branches, boxed)
    return bool(boxed)


def _boxed(branches: Sequence[Code], boxed: list[int]) -> tuple[Code, ...]:
    boxes = {index: BoxCode(branches[index], f"option_{index + 1}") for index in boxed}
    kept = [branch for index, branch in enumerate(branches) if index not in boxes]
    if not all(clear(box, branch) for box in boxes.values() for branch in kept):
        return tuple(BoxCode(branch, f"option_{index + 1}") for index, branch in enumerate(branches))
    return tuple(boxes.get(index, branch) for index, branch in enumerate(branches))
