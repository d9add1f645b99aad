"""Builds values from the containers of a growing text, member by member.

The scanner produces ``Container`` objects, which hold the closed members as text. A builder reads them when
a snapshot is looked at: ``ObjectBuilder`` for a record or a dict, ``ListBuilder`` for a list, ``JsonBuilder``
for values that are read only when the container is closed::

    text so far: {"name": "Ada", "tags": ["a       for a record with the fields name and tags
    ObjectBuilder: has read name                  ListBuilder for tags: has read nothing, "a" may still grow

Which builder a type needs is decided in ``factory``.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from ..json.result import JsonSyntaxError, add_field
from ..parser.fast_path import NOT_EXACT
from ..result.reading import Cursor, Json, ValidationFailure
from ..types.node import Node
from .tokens import StringPrefix
from .views import NO_TAIL, ListStore, ObjectStore, PartialList, PartialObject, Tail

# --- what the scanner produces


class Member(NamedTuple):
    """A closed member that is not part of a run of exact JSON.

    Attributes:
        key: Its key, "" in a list.
        value: Its value.
        is_unreadable: True if it is a string that cannot be read. ``value`` is the part that was shown.
    """

    key: str
    value: Json
    is_unreadable: bool


class Container:
    """An object or array of the text, with its closed members.

    Attributes:
        bracket: The opening bracket.
        closer: The closing bracket.
        key: The key under which it stands in its parent.
        start: Its position in the whole text.
        end: The position after it, -1 while it is open.
        parts: Its closed members in the order of the text: runs of exact JSON as text, single members, and
            containers. Parts are only added.
        builder: Reads the parts. It is set when somebody looks at the value.
        sizes: How many members the builder shows after 0, 1, 2 ... parts, as far as it has read them.
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
    """The state of the scan of a growing JSON text at one moment.

    Attributes:
        stack: The open containers, each with the number of its parts.
        key: The key of the string that is being written.
        text: The string that is being written, if the scanner reads it piece by piece.
        partial_member: Otherwise the match of PARTIAL_MEMBER for the member that is being written.
    """

    stack: list[tuple[Container, int]]
    key: str = ""
    text: StringPrefix | None = None
    partial_member: re.Match[str] | None = None


def exact_json(container: Container) -> str | None:
    """Return the JSON text of a closed container. None if one of its members is not exact JSON."""
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


# numbers stay exact, because the type may be Decimal; pairs, because a key may be repeated
_ITEMS = json.JSONDecoder(parse_float=Decimal)
_MEMBERS = json.JSONDecoder(parse_float=Decimal, object_pairs_hook=list)


def decode_items(run: str) -> list[Json]:
    """Decode a run of array items that are exact JSON."""
    items: list[Json] = _ITEMS.raw_decode("[" + run.rstrip(" \t\r\n,") + "]")[0]
    return items


# --- builders

ReadExact: TypeAlias = Callable[[str], object]  # reads a text of exact JSON, or returns NOT_EXACT
INVALID = object()  # the result of a builder whose members do not fit the type
IGNORED = object()  # the result of a builder for a member that the type does not have


class MemberSpec(NamedTuple):
    """How an object's member or a list's item is read and shown.

    Attributes:
        node: Reads the value.
        identity_type: The type of JSON values that the node returns unchanged. None if there is none.
        read_exact: Reads the exact text of a container, or returns NOT_EXACT. None if it always would.
        make_builder: Makes the builder for a container, from its bracket and the cursor of the reply.
        shows_partial_text: True if a string is shown while it is being written.
        name: The name of the field, or the key of a dict.
        is_exact_key: True if the key in the text is the name of the field, False for another spelling.
        is_hidden: True if the value is shown only with the whole object, because its class may change it.
    """

    node: Node[Any]
    identity_type: type | None
    read_exact: ReadExact | None
    make_builder: Callable[[str, Cursor], Builder]
    shows_partial_text: bool
    name: object = None
    is_exact_key: bool = True
    is_hidden: bool = False


class Builder:
    """Builds the value of one container from its members, in the order of the text.

    This class ignores all members: it is used where the type has no such member.

    Attributes:
        returns_json: True if ``build`` returns a JSON value, which the parent still has to read.
    """

    returns_json = False

    def start_member(self, key: str) -> None:
        """Begin the next member of the container, with its key."""

    def add_value(self, value: Json) -> None:
        """Add the JSON value of the next member."""

    def add_members(self, members: list[tuple[str, Json]]) -> None:
        """Add several members that follow one another."""
        for key, value in members:
            self.start_member(key)
            self.add_value(value)

    def add_unreadable(self, visible_text: str) -> None:
        """Add a string that cannot be read. ``visible_text`` is the part that was shown."""

    def child_builder(self, bracket: str) -> Builder:
        """Return a builder for the next member, which is a container."""
        return _IGNORING

    def add_exact(self, container: Container) -> bool:
        """Add the next member, a closed container, by reading its text at once.

        Returns False if that is not possible.
        """
        return False

    def add_built(self, child: Builder) -> None:
        """Add the next member, a closed container that its own builder has read."""

    def build(self) -> object:
        """Return the value of the container, now that it is closed. May be INVALID or IGNORED."""
        return IGNORED

    @property
    def size(self) -> int:
        """The number of members that snapshots show. Negative if not even the container is shown."""
        return 0

    def member_spec(self, key: str, index: int) -> MemberSpec | None:
        """Return how a member that is being written is shown. None to hide it."""
        return None

    def view(self, size: int, tail: Tail) -> object:
        """Return a view of the first ``size`` members and the one that is being written. None for nothing."""
        return None


_IGNORING = Builder()


class JsonBuilder(Builder):
    """Collects a container as plain JSON, for types whose value is shown only when it is complete.

    Attributes:
        fields: The members of an object.
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
    """A builder that reads and shows its members one by one."""

    _cursor: Cursor
    _spec: MemberSpec | None = None  # of the next member
    _is_invalid = False

    @abstractmethod
    def _show(self, value: object, *, is_valid: bool) -> None:
        """Show the value of the next member. It is never taken back."""

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
            if spec.shows_partial_text and isinstance(value, str):  # it was shown while it was being written
                self._show(value, is_valid=False)
            return
        # one cursor serves all members, so nothing may be left in it
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
            # what was shown of it while it was open stays visible
            self._is_invalid = True
            view = child.view(child.size, NO_TAIL)
            if view is not None:
                self._show(view, is_valid=False)
        elif child.returns_json:
            self.add_value(value)
        else:
            self._show(value, is_valid=True)


class ObjectPlan(NamedTuple):
    """How the objects of one type are built.

    Attributes:
        fields: The names of the fields. None if any key is possible.
        specs: The specs of the usual keys.
        find_spec: Finds the spec of another key. Returns None if the type has no such member.
        make: Makes the value from the members by name and the members without a spec. Raises
            ValidationFailure.
        extra: What to do with members that have no spec: ``"ignore"``, ``"forbid"`` or ``"allow"``.
    """

    fields: Collection[str] | None
    specs: Mapping[str, MemberSpec]
    find_spec: Callable[[str, Cursor], MemberSpec | None]
    make: Callable[[dict[object, object], dict[str, Json], Cursor], object]
    extra: str


class ObjectBuilder(MemberBuilder):
    """Builds a record, a dict, or any JSON object."""

    def __init__(self, plan: ObjectPlan, cursor: Cursor) -> None:
        self._cursor = cursor
        self._plan = plan
        self._store = ObjectStore(plan.fields)
        self._extras: dict[str, Json] = {}
        self._hidden: dict[object, object] = {}
        self._extra_key: str | None = None  # the key of the next member, if it has no spec
        self._inexact: set[object] = set()  # the names of members whose key was spelled differently

    def start_member(self, key: str) -> None:
        plan = self._plan
        spec = plan.specs.get(key) or plan.find_spec(key, self._cursor)
        self._extra_key = None
        if spec is None:
            self._extra_key = key
            self._is_invalid |= plan.extra == "forbid"
        elif spec.name in self._store.positions or spec.name in self._hidden:
            # The first value stays. The reader of the whole text prefers the exact name of a field to
            # another spelling, so an exact name that comes second would change what was shown.
            self._is_invalid |= spec.is_exact_key and spec.name in self._inexact
            spec = None
        elif not spec.is_exact_key:
            self._inexact.add(spec.name)
        self._spec = spec

    def add_members(self, members: list[tuple[str, Json]]) -> None:
        store, specs, find_spec, cursor = self._store, self._plan.specs, self._plan.find_spec, self._cursor
        for key, value in members:  # the innermost loop of most streams
            spec = specs.get(key) or find_spec(key, cursor)
            if (
                spec is not None  # the usual member: the two steps below would do the same, more slowly
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
            self._hidden[spec.name] = value
            return
        if not is_valid:
            self._store.invalid.add(spec.name)
        self._store.add(spec.name, value)

    def build(self) -> object:
        if self._is_invalid:
            return INVALID
        values = dict(zip(self._store.positions, self._store.values, strict=True))
        values.update(self._hidden)
        try:
            return self._plan.make(values, self._extras, self._cursor)
        except (ValidationFailure, RecursionError):
            return INVALID

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
    """How the arrays of one type are built.

    Attributes:
        first: The specs of the positional items.
        rest: The spec of all other items. None if there are none.
        make: Makes the value from the items. Raises ValidationFailure.
    """

    first: tuple[MemberSpec, ...]
    rest: MemberSpec | None
    make: Callable[[list[object], Cursor], object]


class ListBuilder(MemberBuilder):
    """Builds a list, a set, a tuple, or any JSON array."""

    def __init__(self, plan: ListPlan, cursor: Cursor) -> None:
        self._cursor = cursor
        self._plan = plan
        self._store = ListStore()
        self._count = 0  # of the items so far, also those that are not shown

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


# --- giving the parts of containers to their builders


def build_parts(container: Container, count: int) -> None:
    """Let the builder of a container read its first ``count`` parts, if it has not read them yet.

    Closed containers in it are read from their text, or built by builders of their own.
    """
    # a stack instead of recursion, because the containers may be nested deeply
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
    """Give parts of a container to its builder.

    Returns a closed container that must be built first, or None when all parts are read.
    """
    builder, sizes = _builder_of(container), container.sizes
    if not sizes:
        sizes.append(builder.size)
    # one size for each part that the builder has, and one for none
    for part in container.parts[len(sizes) - 1 : count]:
        if isinstance(part, str):
            if container.bracket == "{":
                builder.add_members(_MEMBERS.raw_decode("{" + part.rstrip(" \t\r\n,") + "}")[0])
            else:
                builder.add_members([("", item) for item in decode_items(part)])
        else:
            builder.start_member(part.key)
            if isinstance(part, Container):
                if part.builder is None and not builder.add_exact(part):
                    part.builder = builder.child_builder(part.bracket)
                if part.builder is not None:  # it was viewed while still open, or cannot be read in one step
                    return part
            elif part.is_unreadable:
                builder.add_unreadable(str(part.value))
            else:
                builder.add_value(part.value)
        sizes.append(builder.size)
    return None
