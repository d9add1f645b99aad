"""Merge the answers about the parts of a document into one value, by its type and by declared rules."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from keyword import iskeyword
from numbers import Number
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypeAlias, TypeVar, Union
from unicodedata import normalize

from pydantic import BaseModel
from typing_extensions import TypedDict

from output_parsers.result.errors import Problem
from output_parsers.types.cited import Cited, CitedText
from output_parsers.types.records import FieldSpec, RecordSpec, record_spec
from output_parsers.types.target import Description, Target, type_name

from ..interface.templates import record_fields
from ..models.errors import AiServiceError
from .splitting import DocumentPart

T = TypeVar("T")
# Chooses one of several values that parts have for the same field.
Rule: TypeAlias = Callable[[Sequence[Any]], Any]


class Conflict(NamedTuple):
    """Different values of parts of a document for the same field.

    Attributes:
        path: The field, such as "amount" or "duties.due" for a field of the items of a list; "" for the
            whole answer.
        values: The values, in the order of the document. Those that are Cited have their quotes.
        chosen: The value that the rule of the field has chosen; None if it chose none.
    """

    path: str
    values: tuple[Any, ...]
    chosen: Any = None


class MergeConflictError(AiServiceError, ValueError):
    """Raised when the parts of a document have different values for a field that must have one.

    Attributes:
        conflicts: The conflicts.
    """

    def __init__(self, qualname: str, conflicts: Sequence[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        fields = "; ".join(f"{one.path or 'the answer'}: {_listed(one.values)}" for one in conflicts)
        super().__init__(
            f"{qualname}: the parts of the document differ in {fields}. Choose with a rule, as in "
            + ("merge=first" if conflicts[0].path == "" else f'merge={{"{conflicts[0].path}": first}}')
        )
        self._arguments = (qualname, self.conflicts)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._arguments, self.__dict__


def _listed(values: Iterable[object]) -> str:
    return " or ".join(repr(value) for value in values)


# --- Rules ---


def one_of(values: Sequence[T]) -> T:
    """The default rule: ``values`` that differ are a MergeConflictError."""
    return values[0]


def first(values: Sequence[T]) -> T:
    """Rule that chooses the first of the ``values``, in the order of the document."""
    return values[0]


def latest(values: Sequence[T]) -> T:
    """Rule that chooses the last of the ``values``, in the order of the document."""
    return values[-1]


def vote(values: Sequence[T]) -> T:
    """Rule that chooses the most frequent of the ``values``; a tie is a MergeConflictError."""
    ranked = Counter(map(_key, values)).most_common(2)
    if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
        raise _UndecidedError
    return next(value for value in values if _key(value) == ranked[0][0])


class _UndecidedError(Exception):
    """Raised by a rule that cannot choose."""


class By(NamedTuple):
    """The rule that ``by`` returns.

    Attributes:
        fields: The fields that say which items of a list are the same.
    """

    fields: tuple[str, ...]

    def key(self, item: object) -> tuple[object, ...]:
        """Return a key that is equal for items that are the same."""
        fields = fields_of(_bare(item)) or {}
        return tuple(_key(fields.get(name)) for name in self.fields)


def by(*fields: str) -> By:
    """Rule for a list of records: items that are equal in these ``fields`` are merged by field.

    Items in which all of these fields are None stay unchanged.
    """
    return By(fields)


Rules: TypeAlias = Mapping[str, "Rule | By"]


# --- Types ---


class Shape(NamedTuple):
    """The rule for merging values of a type.

    Attributes:
        kind: A record is merged by field, a list by item, a map by key, and any other type as one value.
        tp: The type, without None.
        spec: The fields of a record.
        is_optional: True if the value may be None.
    """

    kind: Literal["record", "list", "map", "value"]
    tp: object
    spec: RecordSpec | None = None
    is_optional: bool = False


_LISTS = (list, tuple, set, frozenset, Sequence)


def shape_of(tp: object, enclosing: tuple[type, ...] = ()) -> Shape:
    """Return how values of a type are merged. A record inside of itself is merged as one value."""
    target = Target.of(tp)
    if target.origin is Union:
        members = [one for one in target.args if one not in (None, NoneType)]
        if len(members) == 1:
            return shape_of(members[0], enclosing)._replace(is_optional=True)
        return Shape("value", tp, is_optional=len(members) < len(target.args))
    if target.origin in _LISTS and (target.origin is not tuple or target.args[1:] == (...,)):
        return Shape("list", tp)
    if target.origin in (dict, Mapping):
        return Shape("map", tp)
    cls = target.origin or target.type
    spec = (
        record_spec(target)
        if isinstance(cls, type) and cls not in (*enclosing, CitedText) and not _is_cited(cls)
        else None
    )
    return Shape("value" if spec is None else "record", tp, spec, tp in (None, NoneType, Any))


def _is_cited(cls: type) -> bool:
    return issubclass(cls, Cited)


_PART = "_is_part"  # marks the classes of answers about parts


def part_type(tp: object, enclosing: tuple[type, ...] = ()) -> object:
    """Return the type of an answer about a part, whose fields are optional."""
    shape = shape_of(tp, enclosing)
    if shape.spec is None:
        return tp if shape.kind in ("list", "map") else Union[tp, None]  # noqa: UP007  # known at run time only
    spec = shape.spec
    fields = {field.keys[0]: _part_field(field, (*enclosing, spec.cls)) for field in spec.fields}
    name = type_name(spec.cls)
    if not all(one.isidentifier() and not iskeyword(one) for one in fields):  # keys of a TypedDict
        optional = {key: NotRequired[one] for key, one in fields.items()}
        return TypedDict(name, optional)  # type: ignore[operator]  # known at run time only
    part_class = dataclasses.make_dataclass(
        name, [(key, one, dataclasses.field(default=None)) for key, one in fields.items()]
    )
    setattr(part_class, _PART, True)
    if spec.description:
        part_class.__doc__ = spec.description
    return part_class


def _part_field(field: FieldSpec, enclosing: tuple[type, ...]) -> object:
    tp: object = Union[part_type(field.type, enclosing), None]  # noqa: UP007
    return tp if field.description is None else Annotated[tp, Description(field.description)]


def rule_problems(tp: object, rules: Rules) -> Iterator[str]:
    """Yield the problems of the rules for a type."""
    shapes = dict(_paths(tp, "", ()))
    for path, rule in rules.items():
        shape = shapes.get(path) or _shape_of_key(path, shapes)
        if shape is None:
            names = ", ".join(name for name in shapes if name) or "none"
            yield f"merge has a rule for {path!r}, which is not a field; they are: {names}"
        elif isinstance(rule, By):
            if not _has_fields(shape, rule.fields):
                yield f"merge={{{path!r}: by(…)}} needs a list of records with the fields that are named"
        elif not callable(rule):
            kind = type(rule).__name__
            yield f"the rule for {path!r} has the type {kind}; pass first, latest, vote or by(…)"
    if Target.of(tp).type in (str, CitedText) and "" not in rules:
        yield "texts about parts cannot be merged; return a record or a list, or pass merge=FUNCTION"


def _shape_of_key(path: str, shapes: Mapping[str, Shape]) -> Shape | None:
    """Return the shape of the values of a dict's key; None if the path does not lead to one."""
    maps = [_child(name, "") for name, shape in shapes.items() if shape.kind == "map"]
    return Shape("value", Any) if any(map(path.startswith, maps)) else None


def _has_fields(shape: Shape, names: Sequence[str]) -> bool:
    """Return True if a type is a list of records that have the fields."""
    if shape.kind != "list" or not names:
        return False
    spec = shape_of(_unquoted(Target.of(shape.tp).args[0])).spec
    return spec is not None and {field.name for field in spec.fields}.issuperset(names)


def _unquoted(tp: object) -> object:
    """Return T for ``Cited[T]``."""
    target = Target.of(tp)
    cls = target.origin or target.type
    return target.args[0] if isinstance(cls, type) and _is_cited(cls) and target.args else tp


def _paths(tp: object, path: str, enclosing: tuple[type, ...]) -> Iterator[tuple[str, Shape]]:
    shape = shape_of(tp, enclosing)
    yield path, shape
    if shape.kind == "list":
        item = shape_of(_unquoted(Target.of(shape.tp).args[0]), enclosing)
        if item.spec is not None:
            yield from _field_paths(item.spec, path, enclosing)
    elif shape.spec is not None:
        yield from _field_paths(shape.spec, path, enclosing)


def _field_paths(spec: RecordSpec, path: str, enclosing: tuple[type, ...]) -> Iterator[tuple[str, Shape]]:
    for field in spec.fields:
        yield from _paths(field.type, _child(path, field.name), (*enclosing, spec.cls))


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# --- Values ---


def _bare(value: Any) -> object:
    return value.value if _is_cited(type(value)) else value


def fields_of(value: object) -> Mapping[str, object] | None:
    """Return the fields of a record with their values as they are; None for other values."""
    if isinstance(value, type):
        return None
    return dict(value) if isinstance(value, BaseModel) else record_fields(value)


def _key(value: object) -> object:
    """Return a key that is equal for equal values; texts may differ in case and white space."""
    value = _bare(value)
    if isinstance(value, str):
        return " ".join(normalize("NFC", value).split()).casefold()
    if isinstance(value, Number) and not isinstance(value, bool):
        return value
    fields = fields_of(value)
    if fields is not None:
        return type(value).__name__, tuple((name, _key(one)) for name, one in fields.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    if isinstance(value, (set, frozenset)):
        return frozenset(map(_key, value))
    return type(value).__name__, repr(value)


def _quotes(value: Any) -> Iterator[tuple[str, int, int]]:
    """Yield the document, the start and the end of each quote in a value."""
    if _is_cited(type(value)):
        if value.start is not None:
            yield value.document, value.start, value.end
        value = value.value
    fields = fields_of(value)
    parts = fields.values() if fields is not None else value if isinstance(value, (list, tuple)) else ()
    for part in parts:
        yield from _quotes(part)


class PartValue(NamedTuple):
    """The value of one part of a document.

    Attributes:
        part: The part.
        value: The value.
    """

    part: DocumentPart
    value: Any


_NOTHING: object = object()


class Merger:
    """Merges values about the parts of a document.

    Args:
        rules: The rules by the paths of fields.

    Attributes:
        conflicts: The fields in which parts differ.
        undecided: The conflicts for which no value could be chosen.
        problems: Fields without a value, and values that do not fit together.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.conflicts: list[Conflict] = []
        self.undecided: list[Conflict] = []
        self.problems: list[Problem] = []

    def merge(self, tp: object, values: Sequence[PartValue]) -> object:
        """Return the value of a type; it is not complete if there are ``undecided`` or ``problems`` then."""
        merged = self._merge(shape_of(tp), values, "", ())
        if merged is _NOTHING:
            merged = None
            if not shape_of(tp).is_optional:
                self.problems.append(Problem("$", "no part of the document has a value"))
        return merged

    def _merge(
        self, shape: Shape, values: Sequence[PartValue], path: str, enclosing: tuple[type, ...]
    ) -> object:
        present = [one for one in values if one.value is not None]
        if shape.spec is not None and shape.is_optional:
            present = [one for one in present if _has_values(one.value)]
        rule = self._rules.get(path)
        if not present:
            return _NOTHING
        if rule is not None and not isinstance(rule, By) and shape.kind != "record":
            return self._choose(present, path)
        if shape.spec is not None:
            return self._record(shape.spec, present, path, enclosing)
        if shape.kind == "list":
            return self._list(shape, present, path, rule)
        if shape.kind == "map":
            return self._map(shape, present, path, enclosing)
        return self._choose(present, path)

    def _record(
        self, spec: RecordSpec, values: Sequence[PartValue], path: str, enclosing: tuple[type, ...]
    ) -> object:
        fields: dict[str, object] = {}
        count = len(self.problems) + len(self.undecided)
        for field in spec.fields:
            shape = shape_of(field.type, (*enclosing, spec.cls))
            child = _child(path, field.name)
            ones = [PartValue(one.part, _field_of(one.value, field)) for one in values]
            merged = self._merge(shape, ones, child, (*enclosing, spec.cls))
            if merged is _NOTHING and field.required:
                merged = None
                if not shape.is_optional:
                    problem = Problem(f"$.{child}", "no part of the document has a value")
                    self.problems.append(problem)
            if merged is not _NOTHING:
                fields[field.keys[0] if spec.by_key else field.name] = merged
        if len(self.problems) + len(self.undecided) > count:
            return None
        try:
            return spec.make(fields)
        except (ValueError, TypeError, AssertionError) as error:
            self.problems.append(
                Problem(f"$.{path}" if path else "$", f"the merged values do not fit: {error}")
            )
            return None

    def _choose(self, values: Sequence[PartValue], path: str) -> object:
        plain_values = [one.value for one in values]
        rule: Any = self._rules.get(path, one_of)
        distinct = {_key(value): value for value in reversed(plain_values)}
        if len(distinct) == 1 and rule in (one_of, first, latest, vote):
            return plain_values[0]
        try:
            chosen = None if rule is one_of else rule(plain_values)
            is_decided = rule is not one_of
        except _UndecidedError:
            chosen, is_decided = None, False
        if len(distinct) > 1:
            conflict = Conflict(path, tuple(reversed(distinct.values())), chosen)
            self.conflicts.append(conflict)
            if not is_decided:
                self.undecided.append(conflict)
        return chosen

    def _map(
        self, shape: Shape, values: Sequence[PartValue], path: str, enclosing: tuple[type, ...]
    ) -> object:
        types = Target.of(shape.tp).args
        of_value = shape_of(types[1], enclosing) if len(types) > 1 else Shape("value", Any)
        if of_value.spec is not None:  # the model wrote it as a whole
            of_value = Shape("value", of_value.tp)
        by_key: dict[object, list[PartValue]] = {}
        for one in values:
            for key, value in one.value.items():
                by_key.setdefault(key, []).append(PartValue(one.part, value))
        merged = {
            key: self._merge(of_value, ones, _child(path, str(key)), enclosing)
            for key, ones in by_key.items()
        }
        return {key: None if value is _NOTHING else value for key, value in merged.items()}

    def _list(self, shape: Shape, values: Sequence[PartValue], path: str, rule: object) -> object:
        items = [PartValue(one.part, item) for one in values for item in one.value]
        merged = self._by_key(rule, items, path) if isinstance(rule, By) else _without_repetitions(items)
        kind = type(values[0].value)
        return kind(merged)

    def _by_key(self, rule: By, items: Sequence[PartValue], path: str) -> list[object]:
        groups: dict[Any, list[PartValue]] = {}
        for item in items:
            groups.setdefault(rule.key(item.value), []).append(item)
        merged: list[object] = []
        for key, group in groups.items():
            if set(key) == {_key(None)}:  # nothing says that they are the same
                merged += _without_repetitions(group)
            else:
                merged.append(self._same_item(group, path))
        return merged

    def _same_item(self, group: Sequence[PartValue], path: str) -> object:
        """Merge records that are the same item of a list."""
        item = group[0].value
        if len({_key(one.value) for one in group}) == 1:
            return item
        bare = _bare(item)
        spec = record_spec(Target.of(type(bare)))
        if spec is None:
            return self._choose(group, path)
        values = [PartValue(one.part, _bare(one.value)) for one in group]
        merged = self._record(spec, values, path, ())
        if bare is item:
            return merged
        cited = copy.copy(item)
        object.__setattr__(cited, "value", merged)
        return cited


def _has_values(record: object) -> bool:
    """Return True if a field of a record has a value that is not empty."""
    empty: tuple[object, ...] = (None, [], {}, (), set())
    return any(value not in empty for value in (fields_of(record) or {}).values())


def _field_of(record: object, field: FieldSpec) -> object:
    """Return the value of a field. Records about parts have the keys that the model sees."""
    is_part = isinstance(record, dict) or hasattr(record, _PART)
    return (fields_of(record) or {}).get(field.keys[0] if is_part else field.name)


class _Item(NamedTuple):
    """An item of a merged list.

    Attributes:
        item: The item, with its part.
        quotes: The places of its quotes.
        parts: The parts in which it was found, each at most once.
    """

    item: PartValue
    quotes: list[tuple[str, int, int]]
    parts: list[DocumentPart]


def _without_repetitions(items: Sequence[PartValue]) -> list[object]:
    """Return the items of all parts without those that were found again in the overlap of two parts."""
    distinct: list[_Item] = []
    candidates: dict[object, deque[_Item]] = {}  # by key, in overlapping parts
    for item in items:
        quotes, same = list(_quotes(item.value)), candidates.setdefault(_key(item.value), deque())
        while same and not same[0].item.part.overlaps(item.part):
            same.popleft()
        for earlier in same:
            if earlier.item.part is item.part:  # and so are those that follow
                same.append(_Item(item, quotes, [item.part]))
                distinct.append(same[-1])
                break
            if item.part is not earlier.parts[-1] and _have_same_place(earlier.quotes, quotes):
                earlier.parts.append(item.part)
                break
        else:
            same.append(_Item(item, quotes, [item.part]))
            distinct.append(same[-1])
    return [one.item.value for one in distinct]


def _have_same_place(quotes: list[tuple[str, int, int]], others: list[tuple[str, int, int]]) -> bool:
    """Return True if quotes overlap; items without quotes may have the same place."""
    if not quotes or not others:
        return True
    return any(
        name == other and start < other_end and other_start < end
        for name, start, end in quotes
        for other, other_start, other_end in others
    )
