"""Decides, from the nodes of a type, how the parts of a growing text are read and shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..clean import NOT_CLEAN, clean_reader
from ..constraints import ConstrainedNode
from ..json_reader import read_exact
from ..json_text import JsonFault
from ..mappings import DictNode
from ..node import Node, Shared
from ..objects import ObjectNode
from ..reading import Json, Leniency, Misfit, Place
from ..scalars import AnyNode
from ..sequences import ListNode, TupleNode
from ..unions import UnionNode
from ..wrapped import RootNode
from .frames import UNFIT, Frame, JsonFrame, Slot
from .kinds import as_is, changed_fields, changes_whole, grows, takes, target_of
from .members import ListFrame, ObjectFrame
from .views import ObjectStore, Tail

__all__ = ["Shapes"]

Check = Callable[[Any, Place], Any]
Opener = Callable[[], Frame]


class Shapes:
    """The frames for the containers of one type. What is said of a node is found out once."""

    def __init__(self, leniency: Leniency) -> None:
        self.place = Place(leniency)
        self._openers: dict[tuple[Node[Any], str], Opener] = {}
        self._readers: dict[Node[Any], Callable[[str], Any] | None] = {}

    def open(self, node: Node[Any], bracket: str) -> Frame:
        """The frame for a container of a node that begins with a bracket."""
        opener = self._openers.get((node, bracket))
        if opener is None:
            opener = self._openers[node, bracket] = self._opener(node, bracket, ())
        return opener()

    def slot(self, node: Node[Any], name: Any = None, *, exact: bool = True, hidden: bool = False) -> Slot:
        """The slot of a value that a node reads."""
        return Slot(
            node,
            as_is(node),
            self._clean(node),
            lambda bracket: self.open(node, bracket),
            grows(node) and not hidden,
            name,
            exact,
            hidden,
        )

    def _clean(self, node: Node[Any]) -> Callable[[str], Any] | None:
        record = target_of(node)
        if isinstance(record, AnyNode):
            return self._clean_any
        if not isinstance(record, ObjectNode):
            return None

        def clean(text: str) -> Any:
            if record not in self._readers:  # built for the first record that is closed, for it takes long
                self._readers[record] = clean_reader(record.spec.cls, record)
            reader = self._readers[record]
            return NOT_CLEAN if reader is None else reader(text)

        return clean

    def _clean_any(self, text: str) -> Any:
        try:
            return AnyNode().read(read_exact(text), self.place)
        except (JsonFault, Misfit, RecursionError):
            return NOT_CLEAN

    def _opener(self, node: Node[Any], bracket: str, checks: tuple[Check, ...]) -> Opener:
        if isinstance(node, Shared):
            return self._opener(node.target, bracket, checks)
        if isinstance(node, RootNode) or (isinstance(node, ConstrainedNode) and not node.converts):
            return self._opener(node.parts[0], bracket, (node.check, *checks))
        if isinstance(node, UnionNode):
            return self._union_opener(node, bracket, checks)
        if bracket == "[" and isinstance(node, (ListNode, TupleNode, AnyNode)):
            return self._list_opener(node, checks)
        if bracket == "{" and isinstance(node, (DictNode, AnyNode)):
            return self._dict_opener(node, checks)
        if bracket == "{" and isinstance(node, ObjectNode) and not changes_whole(node):
            return self._record_opener(node, checks)
        return lambda: JsonFrame(bracket)

    def _union_opener(self, node: UnionNode, bracket: str, checks: tuple[Check, ...]) -> Opener:
        able = [option for option in node.options if takes(option, bracket)]
        if len(able) == 1:
            return self._opener(able[0], bracket, checks)
        if bracket == "{" and not checks and node.tags():
            return lambda: TaggedFrame(self, node)
        return lambda: JsonFrame(bracket)

    def _list_opener(self, node: Node[Any], checks: tuple[Check, ...]) -> Opener:
        place = self.place
        if isinstance(node, TupleNode):
            slots = tuple(map(self.slot, node.items))

            def make_tuple(items: list[Any]) -> Any:
                if len(items) != len(slots):
                    raise place.misfit(f"expected {node.kind}", items)
                return _checked(tuple(items), checks, place)

            return lambda: ListFrame(place, slots, None, make_tuple)
        make_list: Callable[[Any], Any] = node.make if isinstance(node, ListNode) else list

        def make(items: list[Any]) -> Any:
            try:
                value = make_list(items)
            except TypeError as error:
                raise place.misfit("expected items that a set can hold", items) from error
            return _checked(value, checks, place)

        slot = self.slot(node.item if isinstance(node, ListNode) else node)
        return lambda: ListFrame(place, (), slot, make)

    def _dict_opener(self, node: Node[Any], checks: tuple[Check, ...]) -> Opener:
        place = self.place
        way = self.slot(node.value if isinstance(node, DictNode) else node)[:5]

        def slot_of(key: str) -> Slot | None:
            if not isinstance(node, DictNode):
                return Slot(*way, key)
            try:
                return Slot(*way, node.read_key(key, place))
            except Misfit:
                return None

        def make(values: dict[Any, Any], _: dict[str, Json]) -> Any:
            value = node.make(values) if isinstance(node, DictNode) else values
            return _checked(value, checks, place)

        return lambda: ObjectFrame(place, ObjectStore(None), slot_of, make, extra="forbid")

    def _record_opener(self, node: ObjectNode, checks: tuple[Check, ...]) -> Opener:
        place, spec, parts = self.place, node.spec, node.nodes
        hidden = changed_fields(node)
        names = tuple(field.name for field in spec.fields)
        exact = {
            key: self.slot(parts[field.name], field.name, hidden=field.name in hidden)
            for field in spec.fields
            for key in field.keys
        }
        inexact = {name: self.slot(parts[name], name, exact=False, hidden=name in hidden) for name in names}

        def slot_of(key: str) -> Slot | None:
            slot = exact.get(key)
            if slot is not None:
                return slot
            field, _ = node.field_of(key)
            return None if field is None else inexact[field.name]

        required = {field.name for field in spec.fields if field.required}
        given_as = [(field.name, field.keys[0] if spec.by_key else field.name) for field in spec.fields]

        def make(values: dict[Any, Any], others: dict[str, Json]) -> Any:
            if not required <= values.keys():
                raise place.misfit("a required field is missing", {})
            given = {key: values[name] for name, key in given_as if name in values}
            if others:
                given = {**{key: AnyNode().read(found, place) for key, found in others.items()}, **given}
            return _checked(node.make(given, {}, place), checks, place)

        return lambda: ObjectFrame(place, ObjectStore(names), slot_of, make, extra=spec.extra)


class TaggedFrame(Frame):
    """An object of one of several classes: nothing is shown of it until its tag says of which."""

    def __init__(self, shapes: Shapes, union: UnionNode) -> None:
        self._shapes = shapes
        self._union = union
        self._frame: Frame = JsonFrame("{")
        self._tags = union.tags()

    @property
    def unread(self) -> bool:  # type: ignore[override]
        return self._frame.unread

    def key(self, key: str) -> None:
        self._frame.key(key)

    def take(self, found: Json) -> None:
        self._frame.take(found)
        if self._tags and isinstance(self._frame, JsonFrame):
            self._decide(self._frame)

    def _decide(self, so_far: JsonFrame) -> None:
        while self._tags and self._tags[0] in so_far.fields:
            tag = self._tags.pop(0)
            chosen = self._union.tagged({tag: so_far.fields[tag]}, self._shapes.place)
            if chosen is not None and so_far.close() is not UNFIT:
                self._tags.clear()
                self._frame = self._shapes.open(chosen[0], "{")
                for key, found in so_far.fields.items():
                    self._frame.key(key)
                    self._frame.take(found)

    def open(self, bracket: str) -> Frame:
        return self._frame.open(bracket)

    def fail(self, shown: str) -> None:
        self._frame.fail(shown)

    def adopt(self, child: Frame) -> None:
        self._frame.adopt(child)

    def close(self) -> Any:
        return self._frame.close()

    @property
    def size(self) -> int:
        return -1 if isinstance(self._frame, JsonFrame) else self._frame.size

    def peek(self, key: str, index: int) -> Slot | None:
        return self._frame.peek(key, index)

    def view(self, size: int, tail: Tail) -> Any:
        return None if size == -1 else self._frame.view(size, tail)


def _checked(value: Any, checks: tuple[Check, ...], place: Place) -> Any:
    for check in checks:
        value = check(value, place)
    return value
