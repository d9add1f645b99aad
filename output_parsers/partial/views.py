"""Read-only views of objects and lists that are still being written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast, overload

from pydantic_core import to_jsonable_python

__all__ = [
    "NO_TAIL",
    "ListStore",
    "ObjectStore",
    "PartialList",
    "PartialObject",
    "Size",
    "Tail",
    "TextSoFar",
    "no_tail",
    "plain",
]

Size: TypeAlias = int | Callable[[], int]  # how many members are shown; or what finds it out
Tail: TypeAlias = tuple[Any, Any]  # the name of the member that is being written, and what it shows, or None
NO_TAIL: Tail = (None, None)


def no_tail() -> Tail:
    """What a container shows beside its members when it is closed."""
    return NO_TAIL


class TextSoFar:
    """A growing string at one moment: the first pieces of a list that others go on filling."""

    __slots__ = ("_count", "_pieces")

    def __init__(self, pieces: list[str], count: int) -> None:
        self._pieces = pieces
        self._count = count

    def join(self) -> str:
        return "".join(self._pieces[: self._count])


class ObjectStore:
    """The members of one object in the order in which they were closed. Members are only ever added.

    ``fields`` holds the names that the object can have, None when any name will do; ``unfit`` those
    whose value stays as it was shown, for what it became does not fit.
    """

    __slots__ = ("fields", "places", "unfit", "values")

    def __init__(self, fields: Collection[str] | None) -> None:
        self.fields = fields
        self.places: dict[Any, int] = {}
        self.values: list[Any] = []
        self.unfit: set[Any] = set()

    def add(self, name: Any, value: Any) -> None:
        self.places[name] = len(self.values)
        self.values.append(value)


class PartialObject:
    """An object of which only a part has been written, as it was when the snapshot was taken.

    Members go by the names of their fields: ``view.name`` gives None while nothing of the field is there,
    ``view["name"]`` raises KeyError then. A field that is called ``keys`` or ``done`` is reached as an item.
    """

    __slots__ = ("_count", "_name", "_store", "_tail")

    def __init__(self, store: ObjectStore, size: Size, tail: Callable[[], Tail]) -> None:
        self._store = store
        self._count = size
        self._name: Any = None
        self._tail: Any = tail

    def _closed(self) -> int:
        """How many members were closed; they are read now, when somebody looks for the first time."""
        if not isinstance(self._count, int):
            self._count = self._count()
        return self._count

    def _written(self) -> Any:
        """What is shown of the member that is being written; None: there is none, or nothing to show."""
        if callable(self._tail):
            count = self._closed()
            self._name, self._tail = cast("Callable[[], Tail]", self._tail)()
            if self._store.places.get(self._name, count) < count:
                self._tail = None  # the same key again: the first value stays
        return self._tail

    def __getitem__(self, name: Any) -> Any:
        count = self._closed()
        place = self._store.places.get(name, count)
        if place < count:
            return self._store.values[place]
        tail = self._written()
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
        count = self._closed()
        names = [name for name, place in self._store.places.items() if place < count]
        return names if self._written() is None else [*names, self._name]

    def done(self, name: Any) -> bool:
        """Whether the value of a field is complete."""
        count = self._closed()
        return self._store.places.get(name, count) < count and name not in self._store.unfit

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        return self._closed() + (self._written() is not None)

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (PartialObject, Mapping)):
            return NotImplemented
        return len(self) == len(other) and all(key in other and self[key] == other[key] for key in self)

    __hash__ = None  # type: ignore[assignment]  # what it is equal to has no hash either

    def __repr__(self) -> str:
        return f"PartialObject({{{', '.join(f'{key!r}: {self[key]!r}' for key in self)}}})"


class ListStore:
    """The items of one list. Items are only ever added; ``unfit`` holds places as in ObjectStore."""

    __slots__ = ("items", "unfit")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.unfit: set[int] = set()


class PartialList(Sequence[Any]):
    """A list of which only a part has been written, as it was when the snapshot was taken."""

    __slots__ = ("_count", "_store", "_tail")

    def __init__(self, store: ListStore, size: Size, tail: Callable[[], Tail]) -> None:
        self._store = store
        self._count = size
        self._tail: Any = tail

    def _closed(self) -> int:
        if not isinstance(self._count, int):
            self._count = self._count()
        return self._count

    def _written(self) -> Any:
        if callable(self._tail):
            self._tail = cast("Callable[[], Tail]", self._tail)()[1]
        return self._tail

    def __len__(self) -> int:
        return self._closed() + (self._written() is not None)

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
        if place < self._closed():
            return self._store.items[place]
        tail = self._written()
        if isinstance(tail, TextSoFar):
            tail = self._tail = tail.join()
        return tail

    def done(self, index: int) -> bool:
        """Whether an item is complete."""
        place = index + len(self) if index < 0 else index
        return 0 <= place < self._closed() and place not in self._store.unfit

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (PartialList, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # what it is equal to has no hash either

    def __repr__(self) -> str:
        return f"PartialList([{', '.join(map(repr, self))}])"


def plain(shown: Any) -> Any:
    """What is shown as dicts, lists, strings, numbers, booleans and None, as JSON is made of."""
    if isinstance(shown, PartialObject):
        return {_plain_key(key): plain(shown[key]) for key in shown}
    if isinstance(shown, PartialList):
        return [plain(item) for item in shown]
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
