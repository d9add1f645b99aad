"""Says of the nodes of a type what a growing text may show of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from ..json.reader import read_exact
from ..json.result import JsonSyntaxError
from ..parser.fast_path import NOT_EXACT, compile_fast_reader
from ..result.reading import Cursor, Json, Leniency, ValidationFailure
from ..types.choices import BoolNode, ChoiceNode, FlagNode
from ..types.constraints import ConstrainedNode
from ..types.containers import DictNode, ListNode, TupleNode
from ..types.node import Node, Shared
from ..types.records import EnvelopeNode, ObjectNode, RootNode
from ..types.scalars import (
    AnyNode,
    DecimalNode,
    FloatNode,
    IntNode,
    NoneNode,
    NumberNode,
    StringFormNode,
    TemporalNode,
    TextNode,
)
from ..types.unions import UnionNode
from .builders import UNFIT, Frame, JsonFrame, ListFrame, MemberFrame, Moment, ObjectFrame, Slot, settle
from .tokens import TextSoFar, cut_string
from .views import NO_TAIL, LateList, LateObject, ObjectStore, Tail

_NO_CONTAINER = (TextNode, NumberNode, NoneNode, StringFormNode, ChoiceNode)
_NO_ARRAY = (ObjectNode, DictNode, TemporalNode)
_NO_OBJECT = (ListNode, TupleNode, FlagNode)
# Members of a union that give way to text wherever JSON has a string.
_NO_STRING = (NoneNode, IntNode, FloatNode, DecimalNode, BoolNode, ObjectNode, DictNode, ListNode, TupleNode)
_ENVELOPES = ("value", "items")  # keys that stand around a list rather than in one of its items
_AS_IS: dict[type, type] = {TextNode: str, AnyNode: str, IntNode: int, BoolNode: bool}
_CHANGES_TEXT = ("str_strip_whitespace", "str_to_lower", "str_to_upper")


def as_is(node: Node[Any]) -> type | None:
    """The type of JSON that a node reads as just what it is; None when there is none."""
    return _AS_IS.get(type(target_of(node)))


def grows(node: Node[Any]) -> bool:
    """Whether a string of this type means, while it is written, what its beginning says."""
    if isinstance(node, Shared):
        return grows(node.target)
    if isinstance(node, UnionNode):
        return any(isinstance(target_of(option), TextNode) for option in node.options) and all(
            isinstance(target_of(option), (TextNode, *_NO_STRING)) for option in node.options
        )
    return isinstance(node, (TextNode, AnyNode))


def takes(node: Node[Any], bracket: str) -> bool:
    """Whether a container that begins with this bracket may be of this type."""
    node = target_of(node)
    if isinstance(node, (RootNode, ConstrainedNode)):
        return takes(node.parts[0], bracket)
    if isinstance(node, UnionNode):
        return any(takes(option, bracket) for option in node.options)
    return not isinstance(node, (*_NO_CONTAINER, *(_NO_OBJECT if bracket == "{" else _NO_ARRAY)))


def target_of(node: Node[Any]) -> Node[Any]:
    """The node itself, where another one stands for it in a recursive type."""
    while isinstance(node, Shared):
        node = node.target
    return node


def changes_whole(node: ObjectNode) -> bool:
    """Whether the class may make other text of what its fields read."""
    config: Any = getattr(node.spec.cls, "model_config", None) or {}
    return node.spec.reshapes or any(config.get(name) for name in _CHANGES_TEXT)


def changed_fields(node: ObjectNode) -> frozenset[str]:
    """The fields that a validator of their class sees, and may change."""
    decorators = getattr(node.spec.cls, "__pydantic_decorators__", None)
    validators = decorators.field_validators.values() if decorators else ()
    named = {name for validator in validators for name in validator.info.fields}
    return frozenset(node.nodes if "*" in named else named)


def knows(node: Node[Any], key: str) -> bool:
    """Whether an object of this type may well have the key."""
    node = target_of(node)
    if isinstance(node, UnionNode):
        return any(knows(option, key) for option in node.options)
    if isinstance(node, ObjectNode):
        return node.field_of(key)[0] is not None
    return takes(node, "{") and key not in _ENVELOPES


Check = Callable[[Any, Cursor], Any]
Opener = Callable[[], Frame]


class Shapes:
    """The frames for the containers of one type. What is said of a node is found out once."""

    def __init__(self, leniency: Leniency) -> None:
        self.place = Cursor(leniency)
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
                self._readers[record] = compile_fast_reader(record.spec.cls, record)
            reader = self._readers[record]
            return NOT_EXACT if reader is None else reader(text)

        return clean

    def _clean_any(self, text: str) -> Any:
        try:
            return AnyNode().read(read_exact(text), self.place)
        except (JsonSyntaxError, ValidationFailure, RecursionError):
            return NOT_EXACT

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
                    raise place.failure(f"expected {node.kind}", items)
                return _checked(tuple(items), checks, place)

            return lambda: ListFrame(place, slots, None, make_tuple)
        make_list: Callable[[Any], Any] = node.make if isinstance(node, ListNode) else list

        def make(items: list[Any]) -> Any:
            try:
                value = make_list(items)
            except TypeError as error:
                raise place.failure("expected items that a set can hold", items) from error
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
            except ValidationFailure:
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
                raise place.failure("a required field is missing", {})
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


def _checked(value: Any, checks: tuple[Check, ...], place: Cursor) -> Any:
    for check in checks:
        value = check(value, place)
    return value


class EnvelopeFrame(Frame):
    """``{"value": …}``, or the object without it: its first key tells."""

    def __init__(self, shapes: Shapes, node: EnvelopeNode[Any]) -> None:
        self._shapes = shapes
        self._node = node
        self._frame: Frame | None = None

    def _inside(self, key: str = "") -> Frame:
        if self._frame is None:
            inner = self._node.inner
            if key == self._node.field:
                self._frame = _BoxFrame(self._shapes.place, key, self._shapes.slot(inner))
            else:
                self._frame = self._shapes.open(inner, "{")
        return self._frame

    @property
    def unread(self) -> bool:  # type: ignore[override]
        return self._inside().unread

    def key(self, key: str) -> None:
        self._inside(key).key(key)

    def take(self, found: Json) -> None:
        self._inside().take(found)

    def fail(self, shown: str) -> None:
        self._inside().fail(shown)

    def open(self, bracket: str) -> Frame:
        return self._inside().open(bracket)

    def adopt(self, child: Frame) -> None:
        self._inside().adopt(child)

    def close(self) -> Any:
        return self._inside().close()

    @property
    def size(self) -> int:
        return 0 if self._frame is None else self._frame.size

    def peek(self, key: str, index: int) -> Slot | None:
        return self._inside(key).peek(key, index)

    def view(self, size: int, tail: Tail) -> Any:
        return None if self._frame is None else self._frame.view(size, tail)


class _BoxFrame(MemberFrame):
    """An object of one key that stands for the value under it."""

    def __init__(self, place: Cursor, key: str, slot: Slot) -> None:
        super().__init__(place)
        self._key = key
        self._only = slot
        self._value: Any = UNFIT

    def key(self, key: str) -> None:
        self._unfit |= key != self._key
        self._slot = self._only if self._value is UNFIT and key == self._key else None

    def _add(self, value: Any, *, fits: bool) -> None:
        self._value = value
        self._unfit |= not fits

    def close(self) -> Any:
        return UNFIT if self._unfit else self._value

    @property
    def size(self) -> int:
        return int(self._value is not UNFIT)

    def peek(self, key: str, index: int) -> Slot | None:
        return self._only if key == self._key else None

    def view(self, size: int, tail: Tail) -> Any:
        return self._value if size else tail[1]


_Level: TypeAlias = tuple[Frame, int, Any]  # how much of it is shown, and its name in what is around it


class Root:
    """The outermost part of a type, which says what a reply may begin with and how it is shown."""

    def __init__(self, node: Node[Any], leniency: Leniency) -> None:
        self._node = node
        self._shapes = Shapes(leniency)

    def suits(self, bracket: str) -> bool:
        """Whether the answer may begin with this bracket."""
        node = self._node
        if not isinstance(node, EnvelopeNode):
            return takes(node, bracket)
        return bracket == "{" or takes(node.inner, bracket)

    def view(self, moment: Moment) -> Any:
        """What the reply shows at a moment; None: nothing. What it shows is built when it is looked into."""
        if not moment.spine:
            return None
        container, _ = moment.spine[0]
        frame = container.frame or container.read_with(self._open(container.bracket))
        if type(frame) is ObjectFrame:
            return LateObject(partial(self._built, moment))
        return LateList(partial(self._built, moment)) if type(frame) is ListFrame else self._built(moment)

    def _built(self, moment: Moment) -> Any:
        levels = self._levels(moment)
        tail = _being_written(moment, levels[-1]) if len(levels) == len(moment.spine) else NO_TAIL
        for frame, size, name in reversed(levels):
            tail = (name, frame.view(size, tail))
        return tail[1]

    def _levels(self, moment: Moment) -> list[_Level]:
        """The open containers, from the outermost one down to where nothing more is shown."""
        levels: list[_Level] = []
        slot: Slot | None = None
        for container, count in moment.spine:
            if levels:
                around, size, _ = levels[-1]
                slot = around.peek(container.key, size)
                if slot is None:
                    break
            frame = container.frame
            if frame is None:
                bracket = container.bracket
                frame = container.read_with(self._open(bracket) if slot is None else slot.open(bracket))
            if len(container.sizes) <= count:
                settle(container, count)
            levels.append((frame, container.sizes[count], None if slot is None else slot.name))
        return levels

    def _open(self, bracket: str) -> Frame:
        node = self._node
        if not isinstance(node, EnvelopeNode):
            return self._shapes.open(node, bracket)
        if bracket == "{":
            return EnvelopeFrame(self._shapes, node)
        return self._shapes.open(node.inner, bracket)


def _being_written(moment: Moment, level: _Level) -> Tail:
    """What is shown of the string that is being written in the innermost open container."""
    shown: TextSoFar | str | None
    if moment.text is not None:
        key, shown = moment.key, moment.text
    elif moment.cut is not None:
        key, shown = cut_string(moment.cut)
    else:
        return NO_TAIL
    frame, size, _ = level
    slot = None if shown is None else frame.peek(key, size)
    return (slot.name, shown) if slot is not None and slot.grows else NO_TAIL
