"""Read-only views of objects and lists that are still being written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, overload

from pydantic_core import to_jsonable_python

from .tokens import TextSoFar

Tail: TypeAlias = tuple[Any, Any]  # the name of the member that is being written, and what it shows, or None
NO_TAIL: Tail = (None, None)
_SCALARS = frozenset((str, int, float, bool, type(None)))


class ObjectStore:
    """The members of one object in the order in which they were closed. Members are only ever added.

    ``fields`` holds the names that the object can have, None when any name will do; ``unfit`` those
    whose value stays as it was shown, for what it became does not fit.
    """

    __slots__ = ("_plain", "fields", "places", "unfit", "values")

    def __init__(self, fields: Collection[str] | None) -> None:
        self.fields = fields
        self.places: dict[Any, int] = {}
        self.values: list[Any] = []
        self.unfit: set[Any] = set()
        self._plain: list[tuple[str, Any]] = []

    def add(self, name: Any, value: Any) -> None:
        self.places[name] = len(self.values)
        self.values.append(value)

    def plain(self, count: int) -> dict[str, Any]:
        """The first ``count`` members as plain data, which is made of each member once."""
        told = len(self._plain)
        if told < count:
            members = zip(islice(self.places, told, count), self.values[told:count], strict=True)
            self._plain += [(_plain_key(name), plain(value)) for name, value in members]
        return dict(self._plain[:count])


class PartialObject:
    """An object of which only a part has been written, as it was when the snapshot was taken.

    Members go by the names of their fields: ``view.name`` gives None while nothing of the field is there,
    ``view["name"]`` raises KeyError then. A field that is called ``keys`` or ``done`` is reached as an item.
    """

    __slots__ = ("_count", "_name", "_store", "_tail")

    def __init__(self, store: ObjectStore, size: int, tail: Tail) -> None:
        self._store = store
        self._count = size
        self._name, self._tail = tail
        if store.places.get(self._name, size) < size:
            self._tail = None  # the same key again: the first value stays

    def __getitem__(self, name: Any) -> Any:
        place = self._store.places.get(name, self._count)
        if place < self._count:
            return self._store.values[place]
        tail = self._tail
        if tail is None or name != self._name:
            raise KeyError(name)
        if isinstance(tail, TextSoFar):
            tail = self._tail = tail.join()
        return tail

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # no field is meant: copy and pickle ask for such names
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            fields = self._store.fields
            if fields is None or name in fields:
                return None
        raise AttributeError(f"there is no field {name!r}; the fields are: {', '.join(fields)}")

    def keys(self) -> list[Any]:
        """The names of what is shown, in the order of the text."""
        names = list(islice(self._store.places, self._count))
        return names if self._tail is None else [*names, self._name]

    def done(self, name: Any) -> bool:
        """Whether the value of a field is complete."""
        return self._store.places.get(name, self._count) < self._count and name not in self._store.unfit

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        return self._count + (self._tail is not None)

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (PartialObject, Mapping)):
            return NotImplemented
        return len(self) == len(other) and all(key in other and self[key] == other[key] for key in self)

    def _plain(self) -> dict[str, Any]:
        members = self._store.plain(self._count)
        if self._tail is not None:
            members[_plain_key(self._name)] = plain(self[self._name])
        return members

    __hash__ = None  # type: ignore[assignment]  # what it is equal to has no hash either

    def __repr__(self) -> str:
        return f"PartialObject({{{', '.join(f'{key!r}: {self[key]!r}' for key in self)}}})"


class ListStore:
    """The items of one list. Items are only ever added; ``unfit`` holds places as in ObjectStore."""

    __slots__ = ("_plain", "items", "unfit")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.unfit: set[int] = set()
        self._plain: list[Any] = []

    def plain(self, count: int) -> list[Any]:
        """The first ``count`` items as plain data, which is made of each item once."""
        told = len(self._plain)
        if told < count:
            self._plain += map(plain, self.items[told:count])
        return self._plain[:count]


class PartialList(Sequence[Any]):
    """A list of which only a part has been written, as it was when the snapshot was taken."""

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
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"there is no item {index} yet")
        if place < self._count:
            return self._store.items[place]
        tail = self._tail
        if isinstance(tail, TextSoFar):
            tail = self._tail = tail.join()
        return tail

    def done(self, index: int) -> bool:
        """Whether an item is complete."""
        place = index + len(self) if index < 0 else index
        return 0 <= place < self._count and place not in self._store.unfit

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (PartialList, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def _plain(self) -> list[Any]:
        items = self._store.plain(self._count)
        if self._tail is not None:
            items.append(plain(self[self._count]))
        return items

    __hash__ = None  # type: ignore[assignment]  # what it is equal to has no hash either

    def __repr__(self) -> str:
        return f"PartialList([{', '.join(map(repr, self))}])"


def plain(shown: Any) -> Any:
    """What is shown as dicts, lists, strings, numbers, booleans and None, as JSON is made of."""
    kind = type(shown)
    if kind in _SCALARS:
        return shown
    if issubclass(kind, (PartialObject, PartialList)):
        return shown._plain()
    return to_jsonable_python(shown, by_alias=False, fallback=_members)


def _plain_key(key: Any) -> str:
    if isinstance(key, str) and type(key) is str:
        return key
    return str(next(iter(to_jsonable_python({key: None}, fallback=str))))


def _members(value: Any) -> Any:
    """What pydantic does not take apart: instances of attrs classes and Structs by field, else text."""
    cls = type(value)
    names = getattr(cls, "__struct_fields__", None)
    if names is None and hasattr(cls, "__attrs_attrs__"):
        names = [attribute.name for attribute in cls.__attrs_attrs__]
    return str(value) if names is None else {name: plain(getattr(value, name)) for name in names}


class LateObject(PartialObject):
    """A view of an object; ``look`` builds the one that it is to be."""

    __slots__ = ("_look",)

    def __init__(self, look: Callable[[], PartialObject]) -> None:
        self._look = look

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_OBJECTS:
            return super().__getattr__(name)
        built = self._look()
        self._store, self._count, self._name, self._tail = (
            built._store,
            built._count,
            built._name,
            built._tail,
        )
        return getattr(self, name)


class LateList(PartialList):
    """A view of a list; ``look`` builds the one that it is to be."""

    __slots__ = ("_look",)

    def __init__(self, look: Callable[[], PartialList]) -> None:
        self._look = look

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_LISTS:
            raise AttributeError(name)
        built = self._look()
        self._store, self._count, self._tail = built._store, built._count, built._tail
        return getattr(self, name)


_OF_OBJECTS = frozenset(PartialObject.__slots__)
_OF_LISTS = frozenset(PartialList.__slots__)
