"""How a union is written: its branches side by side, those apart that could be taken for one another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..node import JsonSchema
from ..reading import Json, Place, show
from .boxes import BoxCode
from .code import Code, walk
from .finding import EncodingFault
from .leaves import AnyCode, NeverCode, TextCode
from .notes import Where
from .overlap import BranchesCode, clear, is_plain
from .undo import Spot, likeliest

__all__ = ["UnionCode", "told_apart", "union_of"]


class UnionCode(BranchesCode):
    """One of several branches."""

    def __init__(self, branches: Sequence[Code]) -> None:
        self.branches = tuple(branches)
        self.plain = True
        self.at: Where | None = None

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

    def encode(self, value: Json, at: Place) -> Json:
        """The value encoded by the first branch that it fits."""
        if not isinstance(value, (dict, list)):
            return self._encoded(value, at)
        # branches that hold this union again would ask it once each, and each level below twice as often
        key = (id(self), id(value))
        if key not in at.known:
            try:
                at.known[key] = (value, self._encoded(value, at), None)
            except EncodingFault as fault:
                at.known[key] = (value, None, fault)
        _, outcome, refusal = at.known[key]
        if refusal is not None:
            raise refusal
        return outcome

    def _encoded(self, value: Json, at: Place) -> Json:
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
        if key not in at.known:
            trial = at.apart()
            undone = self._undone(value, trial)
            at.known[key] = (value, undone, trial.steps)
        _, undone, steps = at.known[key]
        at.steps.extend(steps)
        return undone

    def _undone(self, value: Json, at: Spot) -> Json:
        return likeliest([partial(branch.undo, value) for branch in self.branches], value, at)


def _nearest(faults: list[EncodingFault], value: Json, at: Place) -> EncodingFault:
    """The fault that lies deepest: that of the branch which was meant, as like as not."""
    deepest = max(faults, key=lambda fault: len(fault.path), default=None)
    if deepest is None or len(deepest.path) <= len(at.path):
        return EncodingFault(at.path, f"it fits no branch, found {show(value)}")
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
