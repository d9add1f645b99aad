"""Read-only views of objects and lists that are still being written.

All snapshots of one value share a store, to which members are only added. A view consists of a store and
the number of members that it shows, so a snapshot of a large value is as cheap as one of a small value::

    store: {"name": "Ada", "age": 36}      a view of 1 member: PartialObject({'name': 'Ada'})

``LazyObject`` and ``LazyList`` are views that parse the text only when they are accessed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, overload

from pydantic_core import to_jsonable_python

from ..result.reading import Json
from ..types.decisions import Decision
from .tokens import StringPrefix

# The name of the member that is being written, and its value so far. The value is None if the member cannot
# be shown yet.
Tail: TypeAlias = tuple[object, object]
NO_TAIL: Tail = (None, None)
_SCALARS = frozenset((str, int, float, bool, type(None)))


class ObjectStore:
    """The complete fields of an object that is still being streamed; fields are only added.

    Attributes:
        fields: The names that members can have; None if any name is possible.
        positions: The position of each member, by name.
        values: The values of the members.
        invalid: The names of members that do not fit their types. Their visible part stays visible.
    """

    __slots__ = ("_plain", "fields", "invalid", "positions", "values")

    def __init__(self, fields: Collection[str] | None) -> None:
        self.fields = fields
        self.positions: dict[object, int] = {}
        self.values: list[object] = []
        self.invalid: set[object] = set()
        self._plain: list[tuple[str, Json]] = []

    def add(self, name: object, value: object) -> None:
        """Add a complete field of an object that is still being streamed."""
        self.positions[name] = len(self.values)
        self.values.append(value)

    def plain(self, count: int) -> dict[str, Json]:
        """Return the first ``count`` fields of a partly streamed object as plain JSON data.

        Each field is converted only once.
        """
        converted = len(self._plain)
        if converted < count:
            members = zip(islice(self.positions, converted, count), self.values[converted:count], strict=True)
            self._plain += [(_plain_key(name), plain(value)) for name, value in members]
        return dict(self._plain[:count])


class PartialObject:
    """A read-only view of an object that is still being written.

    It shows the object as it was when the snapshot was taken.
    ``view.name`` is None and ``view["name"]`` raises KeyError while the field has no value yet. Use
    ``view["keys"]`` for fields that are named like a method: ``keys``, ``done``.
    """

    __slots__ = ("_count", "_name", "_store", "_tail")

    def __init__(self, store: ObjectStore, size: int, tail: Tail) -> None:
        self._store = store
        self._count = size
        self._name, self._tail = tail
        if store.positions.get(self._name, size) < size:
            self._tail = None  # a repeated key, so the first value stays

    def __getitem__(self, name: object) -> Any:
        position = self._store.positions.get(name, self._count)
        if position < self._count:
            return self._store.values[position]
        tail = self._tail
        if tail is None or name != self._name:
            raise KeyError(name)
        if isinstance(tail, StringPrefix):
            tail = self._tail = tail.join()  # joined only once, on first access
        return tail

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            # Not a field. The modules copy and pickle look for such names.
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            fields = self._store.fields
            if fields is None or name in fields:
                return None
        raise AttributeError(f"there is no field {name!r}; the fields are: {', '.join(fields)}")

    def keys(self) -> list[Any]:
        """Return the names of the fields that are complete so far, in the order of the streamed text."""
        names = list(islice(self._store.positions, self._count))
        return names if self._tail is None else [*names, self._name]

    def done(self, name: object) -> bool:
        """Return True if a field has been received completely from the stream."""
        store = self._store
        return store.positions.get(name, self._count) < self._count and name not in store.invalid

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        return self._count + (self._tail is not None)

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (PartialObject, Mapping)):
            return NotImplemented
        # A view equals a dict with the same members, so that tests and callers can compare them.
        return len(self) == len(other) and all(key in other and self[key] == other[key] for key in self)

    def _plain(self) -> dict[str, Json]:
        members = self._store.plain(self._count)
        if self._tail is not None:
            members[_plain_key(self._name)] = plain(self[self._name])
        return members

    __hash__ = None  # type: ignore[assignment]  # it equals dicts, which have no hash either

    def __repr__(self) -> str:
        return f"PartialObject({{{', '.join(f'{key!r}: {self[key]!r}' for key in self)}}})"


class ListStore:
    """The complete items of a list that is still being streamed; items are only added.

    Attributes:
        items: The items.
        invalid: The positions of items that do not fit their types. Their visible part stays visible.
    """

    __slots__ = ("_plain", "invalid", "items")

    def __init__(self) -> None:
        self.items: list[object] = []
        self.invalid: set[int] = set()
        self._plain: list[Json] = []

    def plain(self, count: int) -> list[Json]:
        """Return the first ``count`` items of a partly streamed list as plain JSON data.

        Each item is converted only once.
        """
        converted = len(self._plain)
        if converted < count:
            self._plain += map(plain, self.items[converted:count])
        return self._plain[:count]


class PartialList(Sequence[Any]):
    """A read-only view of a list that is still being written.

    It shows the list as it was when the snapshot was taken.
    """

    __slots__ = ("_count", "_store", "_tail")

    def __init__(self, store: ListStore, size: int, tail: Tail) -> None:
        self._store = store
        self._count = size
        self._tail = tail[1]

    def __len__(self) -> int:
        return self._count + (self._tail is not None)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"there is no item {index} yet")
        if position < self._count:
            return self._store.items[position]
        tail = self._tail
        if isinstance(tail, StringPrefix):
            tail = self._tail = tail.join()
        return tail

    def done(self, index: int) -> bool:
        """Return True if the list item at the given index is complete."""
        position = index + len(self) if index < 0 else index
        return 0 <= position < self._count and position not in self._store.invalid

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (PartialList, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def _plain(self) -> list[Json]:
        items = self._store.plain(self._count)
        if self._tail is not None:
            items.append(plain(self[self._count]))
        return items

    __hash__ = None  # type: ignore[assignment]  # it equals lists, which have no hash either

    def __repr__(self) -> str:
        return f"PartialList([{', '.join(map(repr, self))}])"


class LazyObject(PartialObject):
    """A read-only view of a partly streamed object; the view is computed at the first access.

    Most snapshots of a stream are never accessed, or only the last one is.
    """

    __slots__ = ("_build",)

    def __init__(self, build: Callable[[], PartialObject]) -> None:
        self._build = build

    def __getattr__(self, name: str) -> Any:
        # Python calls this for the slots of the base class as long as they are not set.
        if name not in _OBJECT_SLOTS:
            return super().__getattr__(name)
        view = self._build()
        self._store, self._count, self._name, self._tail = view._store, view._count, view._name, view._tail
        return getattr(self, name)


class LazyList(PartialList):
    """A read-only view of a partly streamed list that is computed when it is first accessed."""

    __slots__ = ("_build",)

    def __init__(self, build: Callable[[], PartialList]) -> None:
        self._build = build

    def __getattr__(self, name: str) -> Any:
        if name not in _LIST_SLOTS:
            raise AttributeError(name)
        view = self._build()
        self._store, self._count, self._tail = view._store, view._count, view._tail
        return getattr(self, name)


_OBJECT_SLOTS = frozenset(PartialObject.__slots__)
_LIST_SLOTS = frozenset(PartialList.__slots__)


def plain(value: object) -> Json:
    """Convert a view of a partly streamed value, or any other value, to dicts, lists and scalars."""
    cls = type(value)
    if cls in _SCALARS:
        return value
    if isinstance(value, (PartialObject, PartialList)):
        return value._plain()
    return to_jsonable_python(value, by_alias=False, fallback=_plain_fields)


def _plain_key(key: object) -> str:
    if isinstance(key, str) and type(key) is str:  # an enum may be an instance of str, too
        return key
    return str(next(iter(to_jsonable_python({key: None}, fallback=str))))


def _plain_fields(value: object) -> Json:
    """Convert an attrs or msgspec instance to a dict of its fields, and other objects to text."""
    if isinstance(value, Decision):  # its probabilities are known at the end
        return plain(value.value)
    cls: Any = type(value)
    names = getattr(cls, "__struct_fields__", None)
    if names is None and hasattr(cls, "__attrs_attrs__"):
        names = [attribute.name for attribute in cls.__attrs_attrs__]
    return str(value) if names is None else {name: plain(getattr(value, name)) for name in names}
