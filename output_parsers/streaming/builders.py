"""Build Python values from JSON that is still being streamed, one field or item at a time.

The scanner produces ``Container`` objects, which hold the complete members as text. A builder reads them
when the value of a snapshot is accessed: ``ObjectBuilder`` for a record or a dict, ``ListBuilder`` for a
list, ``JsonBuilder`` for values that are validated only when their closing bracket has arrived::

    text so far: {"name": "Ada", "tags": ["a       for a record with the fields name and tags
    ObjectBuilder: has read name                  ListBuilder for tags: has read nothing, "a" may still grow

The module ``factory`` decides which builder a type needs.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, overload

from pydantic_core import to_jsonable_python

from ..backslashes import with_lost_backslashes
from ..parser.fast_path import NOT_EXACT
from ..result.reading import Cursor, Json, JsonSyntaxError, ValidationFailure, add_field
from ..types.decisions import Decision
from ..types.node import Node
from .tokens import StringPrefix

# --- Views of unfinished objects and lists ---

# All snapshots of one value share a store, to which members are only added. A view consists of a store and
# the number of members that it shows, so a snapshot of a large value is as cheap as one of a small value::
#
#     store: {"name": "Ada", "age": 36}      a view of 1 member: PartialObject({'name': 'Ada'})
#
# ``LazyObject`` and ``LazyList`` are views that parse the text only when they are accessed.

# The name of the member that is being written, and its value so far. The value is None if the member cannot
# be shown yet.
Tail: TypeAlias = tuple[object, object]
NO_TAIL: Tail = (None, None)
_SCALARS = frozenset((str, int, float, bool, type(None)))


@dataclass(slots=True, eq=False)
class ObjectStore:
    """The complete fields of an object that is still being streamed.

    Attributes:
        fields: The names that members can have; None if any name is possible.
        positions: The position of each member, by name.
        values: The values of the members.
        invalid: The names of members that do not fit their types. Their visible part stays visible.
    """

    fields: Collection[str] | None
    positions: dict[object, int] = field(default_factory=dict)
    values: list[object] = field(default_factory=list)
    invalid: set[object] = field(default_factory=set)
    _plain: list[tuple[str, Json]] = field(default_factory=list)

    def add(self, name: object, value: object) -> None:
        """Add a complete field of an object that is still being streamed."""
        self.positions[name] = len(self.values)
        self.values.append(value)

    def plain(self, count: int) -> dict[str, Json]:
        """Return the first ``count`` fields of the object as plain JSON data.

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
            self._check_field(name)
        return None

    def _check_field(self, name: object) -> None:
        """Raise AttributeError if the class of the object has no field of this name."""
        fields = self._store.fields
        if fields is not None and name not in fields:
            raise AttributeError(f"there is no field {name!r}; the fields are: {', '.join(fields)}")

    def keys(self) -> list[Any]:
        """Return the names of the fields that have a value so far, in the order of the streamed text.

        A string that is still being written counts as a value.
        """
        names = list(islice(self._store.positions, self._count))
        return names if self._tail is None else [*names, self._name]

    def done(self, name: object) -> bool:
        """Return True if a field of the streamed object is complete; raise AttributeError for other names."""
        store = self._store
        position = store.positions.get(name)
        if position is None:
            self._check_field(name)
            return False
        return position < self._count and name not in store.invalid

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
    """The complete items of a list that is still being streamed.

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
        """Return the first ``count`` items of the list as plain JSON data.

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

    Programs often access only the last snapshot of a stream, or none.
    """

    __slots__ = ("_build",)

    def __init__(self, build: Callable[[], PartialObject]) -> None:
        self._build = build

    def __getattr__(self, name: str) -> object:
        # Python calls this for the slots of the base class as long as they are not set.
        if name not in _OBJECT_SLOTS:
            return super().__getattr__(name)
        view = self._build()
        self._store, self._count, self._name, self._tail = view._store, view._count, view._name, view._tail
        return getattr(self, name)


class LazyList(PartialList):
    """A read-only view of a partly streamed list; the view is computed at the first access."""

    __slots__ = ("_build",)

    def __init__(self, build: Callable[[], PartialList]) -> None:
        self._build = build

    def __getattr__(self, name: str) -> object:
        if name not in _LIST_SLOTS:
            raise AttributeError(name)
        view = self._build()
        self._store, self._count, self._tail = view._store, view._count, view._tail
        return getattr(self, name)


_OBJECT_SLOTS = frozenset(PartialObject.__slots__)
_LIST_SLOTS = frozenset(PartialList.__slots__)


def plain(value: object) -> Json:
    """Convert a partly streamed value to dicts, lists and scalars."""
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


# --- What the scanner produces ---


class Member(NamedTuple):
    """One complete field or array item of JSON that is still being streamed.

    Consecutive members that are exact JSON are kept together as text instead.

    Attributes:
        key: The key of the field, "" for an item.
        value: The JSON value.
        is_unreadable: True for a string that cannot be decoded. ``value`` is the part that snapshots show.
    """

    key: str
    value: Json
    is_unreadable: bool


class Container:
    """A JSON object or array in a streamed reply, with its complete fields or items.

    Attributes:
        bracket: The opening bracket.
        closer: The closing bracket.
        key: Its key in the parent object. It is not used if the parent is an array.
        start: The position of the opening bracket in the whole text.
        end: The position after the closing bracket; -1 while the container is open.
        parts: The complete members in the order of the text: runs of exact JSON as text, single members, and
            containers. Parts are only added.
        builder: The builder that reads the parts. It is created when a snapshot is first accessed.
        sizes: The number of visible members after 0, 1, 2 ... parts, for the parts that were read.
    """

    __slots__ = ("bracket", "builder", "closer", "end", "key", "parts", "sizes", "start")

    def __init__(self, bracket: str, key: str, start: int) -> None:
        self.bracket = bracket
        self.closer = "}" if bracket == "{" else "]"
        self.key = key
        self.start = start
        self.end = -1
        self.parts: list[Part] = []
        self.builder: Builder | None = None
        self.sizes: list[int] = []


Part: TypeAlias = str | Member | Container


class ScanState(NamedTuple):
    """The progress of scanning streamed JSON: the unclosed objects and arrays, and the unfinished string.

    Attributes:
        stack: The open containers, each with the number of its parts.
        key: The key of the string that is being written.
        text: The string that is being written, if the scanner reads it piece by piece.
        partial_member: The match of PARTIAL_MEMBER for a short member that is being written, otherwise.
    """

    stack: list[tuple[Container, int]]
    key: str = ""
    text: StringPrefix | None = None
    partial_member: re.Match[str] | None = None


def exact_json(container: Container) -> str | None:
    """Return the text of a streamed JSON object or array if it is complete and valid, else None."""
    members = []
    for part in container.parts:
        if isinstance(part, str):
            members.append(part.rstrip(" \t\r\n,"))
            continue
        inner = exact_json(part) if isinstance(part, Container) else None
        if inner is None:
            return None
        members.append(f"{json.dumps(part.key)}:{inner}" if container.bracket == "{" else inner)
    return f"{container.bracket}{','.join(members)}{container.closer}"


# Decimal keeps numbers exact, because the type may be Decimal. Objects become pairs, because a key may be
# repeated.
_ITEMS = json.JSONDecoder(parse_float=Decimal)
_MEMBERS = json.JSONDecoder(parse_float=Decimal, object_pairs_hook=list)


def decode_items(run: str) -> list[Json]:
    """Decode the JSON text of several consecutive array items."""
    items: list[Json] = _ITEMS.raw_decode("[" + with_lost_backslashes(run.rstrip(" \t\r\n,")) + "]")[0]
    return items


# --- Builders ---

ReadExact: TypeAlias = Callable[[str], object]  # reads a text of exact JSON, or returns NOT_EXACT
INVALID = object()  # the result of a builder whose members do not fit the type
HIDDEN = object()  # the result of validating a field that must not be shown yet
IGNORED = object()  # the result of a builder for a member that the type does not have


class MemberSpec(NamedTuple):
    """The rules to validate a field or item of streamed JSON, and to show it while it is unfinished.

    Attributes:
        node: The node that validates the JSON value.
        identity_type: The type of JSON values that the node returns unchanged; None if it always converts.
        read_exact: A function that parses the exact text of a container in one step, or returns NOT_EXACT.
            None if the type has no such function.
        make_builder: A function that creates the builder for a container from its bracket and a cursor.
        shows_partial_text: True if a string is shown while it is being written.
        name: The name of the field, or the key of a dict.
        is_exact_key: True if the key in the text is the name of the field, False for another spelling.
        is_hidden: True if the value is shown only when it is complete and ``ObjectPlan.validate`` has run
            the validators of its class, which may change it.
    """

    node: Node[object]
    identity_type: type | None
    read_exact: ReadExact | None
    make_builder: Callable[[str, Cursor], Builder]
    shows_partial_text: bool
    name: object = None
    is_exact_key: bool = True
    is_hidden: bool = False


class Builder:
    """Base class of builders, which create Python values from streamed JSON objects or arrays.

    The methods are called for each member in the order of the text. This class itself ignores all members.
    It is used for a field that the type does not have.

    Attributes:
        returns_json: True if ``build`` returns plain JSON, which the parent builder still has to validate.
    """

    returns_json = False

    def start_member(self, key: str) -> None:
        """Start the next object field or array item; builders of arrays ignore ``key``."""

    def add_value(self, value: Json) -> None:
        """Add a complete JSON value as the next field or item of the object or array being built."""

    def add_members(self, members: list[tuple[str, Json]]) -> None:
        """Add several complete fields or array items of streamed JSON, as pairs of key and value."""
        for key, value in members:
            self.start_member(key)
            self.add_value(value)

    def add_unreadable(self, visible_text: str) -> None:
        """Add a string that cannot be decoded.

        Partial values show ``visible_text`` in its place.
        """

    def child_builder(self, bracket: str) -> Builder:
        """Return a builder for a nested JSON object or array, which is the next field or item."""
        return _IGNORING

    def add_exact(self, container: Container) -> bool:
        """Add a complete nested object or array by parsing its text in one step, if that is possible.

        Returns False if that is not possible.
        """
        return False

    def add_built(self, child: Builder) -> None:
        """Add the value that another builder made from a nested JSON object or array."""

    def build(self) -> object:
        """Return the finished Python value.

        Returns a marker object if the value is invalid or ignored.
        """
        return IGNORED

    @property
    def size(self) -> int:
        """The number of fields or items that users can see; negative if nothing may be shown."""
        return 0

    def member_spec(self, key: str, index: int) -> MemberSpec | None:
        """Return the rules for showing an incomplete field or item; None if it must stay hidden."""
        return None

    def view(self, size: int, tail: Tail) -> object:
        """Return a read-only view of a partly streamed object or array; None if nothing may be shown."""
        return None


_IGNORING = Builder()


class JsonBuilder(Builder):
    """Collects a streamed object or array as plain JSON, for types that are validated only at the end.

    Attributes:
        fields: The members so far, if the container is an object.
    """

    returns_json = True

    def __init__(self, bracket: str) -> None:
        self.fields: dict[str, Json] = {}
        self._items: list[Json] | None = [] if bracket == "[" else None
        self._key = ""
        self._is_invalid = False

    def start_member(self, key: str) -> None:
        self._key = key

    def add_value(self, value: Json) -> None:
        if self._items is not None:
            self._items.append(value)
            return
        try:
            add_field(self.fields, self._key, value, 0)
        except JsonSyntaxError:  # a repeated key with another value
            self._is_invalid = True

    def add_unreadable(self, visible_text: str) -> None:
        self._is_invalid = True

    def child_builder(self, bracket: str) -> Builder:
        return JsonBuilder(bracket)

    def add_built(self, child: Builder) -> None:
        value = child.build()
        if value is INVALID:
            self._is_invalid = True
        else:
            self.add_value(value)

    def build(self) -> Json:
        if self._is_invalid:
            return INVALID
        return self.fields if self._items is None else self._items


class MemberBuilder(Builder, ABC):
    """Base class of builders that validate fields and items one by one, each as soon as it is complete."""

    _cursor: Cursor
    _spec: MemberSpec | None = None  # the spec of the next member
    _is_invalid = False

    @abstractmethod
    def _show(self, value: object, *, is_valid: bool) -> None:
        """Add a complete field or item to the partial value that users see during streaming."""

    def add_value(self, value: Json) -> None:
        spec = self._spec
        if spec is None:
            return
        if type(value) is spec.identity_type:  # not isinstance: True is an instance of int
            self._show(value, is_valid=True)
            return
        cursor = self._cursor
        try:
            result = spec.node.read(value, cursor)
        except (ValidationFailure, RecursionError):
            self._is_invalid = True
            # A snapshot may have shown the beginning of the text, so the text stays visible.
            if spec.shows_partial_text and isinstance(value, str):
                self._show(value, is_valid=False)
            return
        # One cursor serves all members, so the records of this member are removed.
        if cursor.coercions:
            cursor.coercions.clear()
        if cursor.union_cache:
            cursor.union_cache.clear()
        self._show(result, is_valid=True)

    def add_unreadable(self, visible_text: str) -> None:
        self._is_invalid = True
        if self._spec is not None and self._spec.shows_partial_text:
            self._show(visible_text, is_valid=False)

    def child_builder(self, bracket: str) -> Builder:
        return _IGNORING if self._spec is None else self._spec.make_builder(bracket, self._cursor)

    def add_exact(self, container: Container) -> bool:
        spec = self._spec
        if spec is None or spec.read_exact is None:
            return False
        text = exact_json(container)
        value = NOT_EXACT if text is None else spec.read_exact(text)
        if value is not NOT_EXACT:
            self._show(value, is_valid=True)
        return value is not NOT_EXACT

    def add_built(self, child: Builder) -> None:
        value = child.build()
        if value is IGNORED:
            return
        if value is INVALID:
            # Earlier snapshots showed a part of the value, so that part stays visible.
            self._is_invalid = True
            view = child.view(child.size, NO_TAIL)
            if view is not None:
                self._show(view, is_valid=False)
        elif child.returns_json:
            self.add_value(value)
        else:
            self._show(value, is_valid=True)


class ObjectPlan(NamedTuple):
    """Describes how streamed JSON objects become instances of one class, or dicts.

    Attributes:
        fields: The names of the fields; None if any key is possible.
        specs: The specs of the fields by their exact keys.
        find_spec: A function that finds the spec for any other key. It returns None if the type has no such
            member.
        make: A function that makes the value from the members with a spec by name, and the members without
            a spec by key. It raises ValidationFailure.
        extra: What to do with members that have no spec: ``"ignore"``, ``"forbid"`` or ``"allow"``.
        validate: A function that runs the validators of one hidden field, from its name, its value and the
            visible values by name. It returns HIDDEN if it cannot know the value yet. None without
            validators.
    """

    fields: Collection[str] | None
    specs: Mapping[str, MemberSpec]
    find_spec: Callable[[str, Cursor], MemberSpec | None]
    make: Callable[[dict[object, object], dict[str, Json], Cursor], object]
    extra: str
    validate: Callable[[object, object, Mapping[object, object]], object] | None = None


class ObjectBuilder(MemberBuilder):
    """Builds an instance of a record class, or a dict, from a streamed JSON object."""

    def __init__(self, plan: ObjectPlan, cursor: Cursor) -> None:
        self._cursor = cursor
        self._plan = plan
        self._store = ObjectStore(plan.fields)
        self._extras: dict[str, Json] = {}
        self._hidden: dict[object, object] = {}
        self._extra_key: str | None = None  # the key of the next member, if it has no spec
        self._inexact: set[object] = set()  # the names of the members whose key was spelled differently

    def start_member(self, key: str) -> None:
        plan = self._plan
        spec = plan.specs.get(key) or plan.find_spec(key, self._cursor)
        self._extra_key = None
        if spec is None:
            self._extra_key = key
            self._is_invalid |= plan.extra == "forbid"
        elif spec.name in self._store.positions or spec.name in self._hidden:
            # The first value stays. The parser of complete replies prefers the exact name of a field to
            # another spelling, so an exact name that comes second would change a value that is visible.
            self._is_invalid |= spec.is_exact_key and spec.name in self._inexact
            spec = None
        elif not spec.is_exact_key:
            self._inexact.add(spec.name)
        self._spec = spec

    def add_members(self, members: list[tuple[str, Json]]) -> None:
        store, specs, find_spec, cursor = self._store, self._plan.specs, self._plan.find_spec, self._cursor
        # This is the innermost loop of most streams, so the usual member is added without further calls.
        for key, value in members:
            spec = specs.get(key) or find_spec(key, cursor)
            if (
                spec is not None
                and type(value) is spec.identity_type
                and spec.is_exact_key
                and not spec.is_hidden
                and spec.name not in store.positions
            ):
                store.add(spec.name, value)
            else:
                self.start_member(key)
                self.add_value(value)

    def add_value(self, value: Json) -> None:
        if self._extra_key is not None and self._plan.extra == "allow":
            self._extras[self._extra_key] = value
        else:
            super().add_value(value)

    def child_builder(self, bracket: str) -> Builder:
        if self._extra_key is not None and self._plan.extra == "allow":
            return JsonBuilder(bracket)
        return super().child_builder(bracket)

    def add_built(self, child: Builder) -> None:
        if self._extra_key is not None and child.returns_json:
            value = child.build()
            self._is_invalid |= value is INVALID
            self._extras[self._extra_key] = value
        else:
            super().add_built(child)

    def _show(self, value: object, *, is_valid: bool) -> None:
        spec = self._spec
        if spec is None:
            return
        if spec.is_hidden:
            self._hidden[spec.name] = value  # ``make`` runs the validators again, on this value
            if self._plan.validate is None or not is_valid:
                return
            value = self._plan.validate(spec.name, value, self._values())
            if value is HIDDEN:
                return
        if not is_valid:
            self._store.invalid.add(spec.name)
        self._store.add(spec.name, value)

    def build(self) -> object:
        if self._is_invalid:
            return INVALID
        values = {**self._values(), **self._hidden}
        try:
            return self._plan.make(values, self._extras, self._cursor)
        except (ValidationFailure, RecursionError):
            return INVALID

    def _values(self) -> dict[object, object]:
        """Return the complete fields of a streamed JSON object as a dict."""
        return dict(zip(self._store.positions, self._store.values, strict=True))

    @property
    def size(self) -> int:
        return len(self._store.values)

    def member_spec(self, key: str, index: int) -> MemberSpec | None:
        plan = self._plan
        spec = plan.specs.get(key) or plan.find_spec(key, self._cursor)
        return None if spec is None or spec.is_hidden else spec

    def view(self, size: int, tail: Tail) -> PartialObject:
        return PartialObject(self._store, size, tail)


class ListPlan(NamedTuple):
    """Describes how streamed JSON arrays become lists, sets or tuples of one type.

    Attributes:
        first: The specs of the first items, as in a tuple.
        rest: The spec of all further items; None if there may be none.
        make: A function that makes the value from the items. It raises ValidationFailure.
    """

    first: tuple[MemberSpec, ...]
    rest: MemberSpec | None
    make: Callable[[list[object], Cursor], object]


class ListBuilder(MemberBuilder):
    """Builds a list, a set or a tuple from a streamed JSON array."""

    def __init__(self, plan: ListPlan, cursor: Cursor) -> None:
        self._cursor = cursor
        self._plan = plan
        self._store = ListStore()
        self._count = 0  # the number of items so far, including hidden ones

    def start_member(self, key: str) -> None:
        self._spec = self.member_spec(key, self._count)
        self._is_invalid |= self._spec is None
        self._count += 1

    def _show(self, value: object, *, is_valid: bool) -> None:
        if not is_valid:
            self._store.invalid.add(len(self._store.items))
        self._store.items.append(value)

    def build(self) -> object:
        if self._is_invalid:
            return INVALID
        try:
            return self._plan.make(self._store.items[:], self._cursor)  # a copy: views share the items
        except (ValidationFailure, RecursionError):
            return INVALID

    @property
    def size(self) -> int:
        return len(self._store.items)

    def member_spec(self, key: str, index: int) -> MemberSpec | None:
        first = self._plan.first
        return first[index] if index < len(first) else self._plan.rest

    def view(self, size: int, tail: Tail) -> PartialList:
        return PartialList(self._store, size, tail)


# --- Passing the parts of containers to their builders ---


def build_parts(container: Container, count: int) -> None:
    """Build Python values from the first ``count`` fields or items of a streamed object or array.

    Complete containers inside it are parsed from their text, or built by their own builders.
    """
    # A stack instead of recursion, because the containers may be nested deeply.
    pending = [(container, count)]
    while pending:
        current, count = pending[-1]
        nested = _add_parts(current, count)
        if nested is not None:
            pending.append((nested, 0 if nested.builder is _IGNORING else len(nested.parts)))
            continue
        pending.pop()
        if pending:
            parent = pending[-1][0]
            parent_builder = _builder_of(parent)
            parent_builder.add_built(_builder_of(current))
            parent.sizes.append(parent_builder.size)


def _builder_of(container: Container) -> Builder:
    assert container.builder is not None, "a container is built before it has a builder"
    return container.builder


def _add_parts(container: Container, count: int) -> Container | None:
    """Pass new fields or items to a builder, up to the first nested value that is not built yet.

    Returns the nested container, or None when the first ``count`` parts are read.
    """
    builder, sizes = _builder_of(container), container.sizes
    if not sizes:
        sizes.append(builder.size)
    # ``sizes`` has one entry for each part that the builder has read, and one for the empty container.
    for part in container.parts[len(sizes) - 1 : count]:
        if isinstance(part, str):
            if container.bracket == "{":
                fields = with_lost_backslashes(part.rstrip(" \t\r\n,"))
                builder.add_members(_MEMBERS.raw_decode("{" + fields + "}")[0])
            else:
                builder.add_members([("", item) for item in decode_items(part)])
        else:
            builder.start_member(part.key)
            if isinstance(part, Container):
                if part.builder is None and not builder.add_exact(part):
                    part.builder = builder.child_builder(part.bracket)
                # A builder exists if a snapshot showed the open container, or if its text is not exact.
                if part.builder is not None:
                    return part
            elif part.is_unreadable:
                builder.add_unreadable(str(part.value))
            else:
                builder.add_value(part.value)
        sizes.append(builder.size)
    return None
