"""Choose how to build values from streamed JSON, and create read-only views of unfinished values.

A value is shown early only if nothing that follows can change it. A list of integers, for example, is built
item by item. A union of two records without a tag is built only when it is complete, because its last key
may decide which record it is. An enum member is not shown while it is being written, because only the whole
string is a member.

``BuilderFactory`` makes these decisions once for each type. ``make_view`` combines the builders of the open
containers with the string that is being written::

    text so far:  {"name": "Ada", "tags": ["x", "y      view: {"name": "Ada", "tags": ["x", "y"]}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, TypeAlias

from pydantic_core import SchemaValidator, core_schema

from ..json.scanner import read_exact
from ..parser.fast_path import NOT_EXACT, compile_fast_reader
from ..result.errors import USER_CODE_ERRORS, ValidatorError
from ..result.reading import Cursor, Json, JsonSyntaxError, Leniency, ValidationFailure
from ..types.constraints import ConstrainedNode, ValidatedNode
from ..types.containers import UnionNode
from ..types.node import ArrayParts, Node, ObjectParts, RecursiveNode
from ..types.records import EnvelopeNode, ObjectNode, RootModelNode
from ..types.scalars import AnyNode, TextNode
from ..types.validation import runs_validators
from .builders import (
    HIDDEN,
    INVALID,
    NO_TAIL,
    Builder,
    JsonBuilder,
    LazyList,
    LazyObject,
    ListBuilder,
    ListPlan,
    MemberBuilder,
    MemberSpec,
    ObjectBuilder,
    ObjectPlan,
    ReadExact,
    ScanState,
    Tail,
    build_parts,
)
from .tokens import StringPrefix, partial_string

TypeNode: TypeAlias = Node[object]  # a node of any type
Check = Callable[[Any, Cursor], object]
MakeBuilder = Callable[[Cursor], Builder]


@lru_cache(maxsize=256)
def factory_for(node: TypeNode) -> BuilderFactory:
    """Return the cached factory that creates builders for streamed values of a type."""
    return BuilderFactory(node)


class BuilderFactory:
    """Creates the builders that convert streamed replies to values of one type.

    Attributes:
        root: The node of the type.
        root_brackets: The brackets with which a reply may begin.
    """

    def __init__(self, root: TypeNode) -> None:
        self.root = root
        # Filled on demand: a recursive type would expand forever, and most replies use few of its parts.
        self._makers: dict[tuple[TypeNode, str], MakeBuilder] = {}
        self._exact_readers: dict[TypeNode, ReadExact | None] = {}
        inner = root.inner if isinstance(root, EnvelopeNode) else root
        accepted = (bracket for bracket in "{[" if accepts_bracket(inner, bracket))
        self.root_brackets = frozenset(accepted) | ({"{"} if isinstance(root, EnvelopeNode) else set())

    def builder(self, node: TypeNode, bracket: str, cursor: Cursor) -> Builder:
        """Create a builder for a streamed object or array.

        ``bracket`` is ``{`` for an object and ``[`` for an array.
        """
        make = self._makers.get((node, bracket))
        if make is None:
            make = self._makers[node, bracket] = self._maker(node, bracket, ())
        return make(cursor)

    def spec(
        self, node: TypeNode, name: object = None, *, is_exact_key: bool = True, is_hidden: bool = False
    ) -> MemberSpec:
        """Return the rules for validating and showing streamed fields or items that have the given type."""
        return MemberSpec(
            node,
            resolve_recursive(node).identity_type,
            self._exact_reader(node),
            partial(self.builder, node),
            shows_partial_text(node) and not is_hidden,
            name,
            is_exact_key,
            is_hidden,
        )

    def _exact_reader(self, node: TypeNode) -> ReadExact | None:
        """Return a function that parses the complete JSON of a value at once; None for types without one."""
        record = resolve_recursive(node)
        if isinstance(record, AnyNode):
            return partial(_read_exact, record)
        if not isinstance(record, ObjectNode):
            return None
        validates = runs_validators(record)

        def read(text: str) -> object:
            # Compiling is slow, so it waits for the first complete record.
            if record not in self._exact_readers:
                reader = compile_fast_reader(record.spec.cls, record)
                # ``make`` would run the validators of the fields on values that have passed them
                self._exact_readers[record] = reader or (partial(_read_exact, record) if validates else None)
            reader = self._exact_readers[record]
            try:
                return NOT_EXACT if reader is None else reader(text)
            except (ValidationFailure, ValidatorError):
                return NOT_EXACT

        return read

    def _maker(self, node: TypeNode, bracket: str, checks: tuple[Check, ...]) -> MakeBuilder:
        """Return a function that creates builders for streamed values of a type.

        ``checks`` are constraints that are applied to the values that are built.
        """
        if isinstance(node, EnvelopeNode):
            if bracket == "{":
                return partial(EnvelopeBuilder, self, node)
            return self._maker(node.inner, bracket, checks)
        if isinstance(node, RecursiveNode):
            return self._maker(node.target, bracket, checks)
        # Constraints are checked when the container is complete, unless they convert the value.
        is_converted = isinstance(node, ValidatedNode) or node.runs_user_code
        if isinstance(node, (RootModelNode, ConstrainedNode)) and not is_converted:
            return self._maker(node.parts[0], bracket, (node.check, *checks))
        if isinstance(node, UnionNode):
            return self._union_maker(node, bracket, checks)
        if bracket == "[" and (array := node.array_parts()) is not None:
            return partial(ListBuilder, self._list_plan(array, checks))
        if bracket == "{" and (members := node.object_parts()) is not None:
            return partial(ObjectBuilder, self._dict_plan(members, checks))
        if bracket == "{" and isinstance(node, ObjectNode) and not node.spec.sees_whole_object:
            return partial(ObjectBuilder, self._record_plan(node, checks))
        return lambda cursor: JsonBuilder(bracket)

    def _union_maker(self, node: UnionNode, bracket: str, checks: tuple[Check, ...]) -> MakeBuilder:
        """Return a function that creates builders for streamed values of a union type."""
        options = [option for option in node.options if accepts_bracket(option, bracket)]
        if len(options) == 1:
            return self._maker(options[0], bracket, checks)
        # The tag decides between several options. Without a tag, only the complete value can decide.
        if bracket == "{" and not checks and node.tag_keys():
            return partial(TaggedUnionBuilder, self, node)
        return lambda cursor: JsonBuilder(bracket)

    def _list_plan(self, parts: ArrayParts, checks: tuple[Check, ...]) -> ListPlan:
        """Return the plan (ListPlan) for building lists, sets or tuples from streamed JSON arrays."""

        def make(items: list[object], cursor: Cursor) -> object:
            return _apply(checks, parts.make(items, cursor), cursor)

        rest = None if parts.rest is None else self.spec(parts.rest)
        return ListPlan(tuple(map(self.spec, parts.first)), rest, make)

    def _dict_plan(self, parts: ObjectParts, checks: tuple[Check, ...]) -> ObjectPlan:
        """Return the plan (ObjectPlan) for building dicts from streamed JSON objects."""
        value_spec = self.spec(parts.value)[:5]

        def find_spec(key: str, cursor: Cursor) -> MemberSpec | None:
            try:
                return MemberSpec(*value_spec, parts.read_key(key, cursor))
            except ValidationFailure:
                return None

        def make(values: dict[object, object], _: dict[str, Json], cursor: Cursor) -> object:
            return _apply(checks, parts.make(values), cursor)

        return ObjectPlan(None, {}, find_spec, make, extra="forbid")

    def _record_plan(self, node: ObjectNode, checks: tuple[Check, ...]) -> ObjectPlan:
        """Return the plan (ObjectPlan) for building instances of a record class, such as a dataclass."""
        record, nodes = node.spec, node.nodes
        # The validator of a field may change its value, so the text of the field is not shown.
        hidden = validated_fields(node)
        names = tuple(field.name for field in record.fields)
        validates = node.runs_user_code
        specs = {
            key: self.spec(nodes[field.name], field.name, is_hidden=field.name in hidden)
            for field in record.fields
            for key in field.keys
        }
        inexact_specs = {
            name: self.spec(nodes[name], name, is_exact_key=False, is_hidden=name in hidden) for name in names
        }
        required = {field.name for field in record.fields if field.required}
        keys = [(field.name, field.keys[0] if record.by_key else field.name) for field in record.fields]

        def find_spec(key: str, cursor: Cursor) -> MemberSpec | None:
            field, _ = node.field_for_key(key)
            return None if field is None else inexact_specs[field.name]

        def make(values: dict[object, object], extras: dict[str, Json], cursor: Cursor) -> object:
            if not required <= values.keys():
                raise cursor.failure("a required field is missing", {})
            if validates:  # the parser of the complete reply runs the validators of the class
                raise cursor.failure("the value is not exact", {})
            arguments = {key: values[name] for name, key in keys if name in values}
            if extras:
                arguments = {
                    **{key: AnyNode().read(value, cursor) for key, value in extras.items()},
                    **arguments,
                }
            return _apply(checks, node.make(arguments, {}, cursor), cursor)

        return ObjectPlan(
            names, specs, find_spec, make, record.extra, field_validator(node) if hidden else None
        )


def _read_exact(node: TypeNode, text: str) -> object:
    try:
        return node.read(read_exact(text), Cursor(Leniency.NONE))
    except (JsonSyntaxError, ValidationFailure, RecursionError):
        return NOT_EXACT


def _apply(checks: tuple[Check, ...], value: object, cursor: Cursor) -> object:
    for check in checks:
        value = check(value, cursor)
    return value


# --- Builders that choose another builder ---


class TaggedUnionBuilder(Builder):
    """Builds a streamed object of a tagged union as soon as the tag field has arrived.

    Snapshots show nothing of the object before that.
    """

    def __init__(self, factory: BuilderFactory, union: UnionNode, cursor: Cursor) -> None:
        self._factory = factory
        self._union = union
        self._cursor = cursor
        self._builder: Builder = JsonBuilder("{")  # until the class is known
        self._tag_keys = union.tag_keys()

    @property
    def returns_json(self) -> bool:  # type: ignore[override]  # it changes when the class is known
        return self._builder.returns_json

    def start_member(self, key: str) -> None:
        self._builder.start_member(key)

    def add_value(self, value: Json) -> None:
        self._builder.add_value(value)
        if self._tag_keys and isinstance(self._builder, JsonBuilder):
            self._choose(self._builder)

    def _choose(self, members: JsonBuilder) -> None:
        """Choose the class by its tag, and pass the fields read so far to the builder of the class."""
        while self._tag_keys and self._tag_keys[0] in members.fields:
            tag = self._tag_keys.pop(0)
            options = self._union.options_by_tag({tag: members.fields[tag]}, self._cursor)
            # A repeated key with another value makes the object invalid. The parser of complete replies
            # reports that later.
            if options is not None and members.build() is not INVALID:
                self._tag_keys.clear()
                self._builder = self._factory.builder(options[0], "{", self._cursor)
                for key, value in members.fields.items():
                    self._builder.start_member(key)
                    self._builder.add_value(value)

    def child_builder(self, bracket: str) -> Builder:
        return self._builder.child_builder(bracket)

    def add_unreadable(self, visible_text: str) -> None:
        self._builder.add_unreadable(visible_text)

    def add_built(self, child: Builder) -> None:
        self._builder.add_built(child)

    def build(self) -> object:
        return self._builder.build()

    @property
    def size(self) -> int:
        return -1 if isinstance(self._builder, JsonBuilder) else self._builder.size

    def member_spec(self, key: str, index: int) -> MemberSpec | None:
        return self._builder.member_spec(key, index)

    def view(self, size: int, tail: Tail) -> object:
        return None if size == -1 else self._builder.view(size, tail)


class EnvelopeBuilder(Builder):
    """Builds a streamed value that may be wrapped in an object such as ``{"value": ...}``.

    The first key shows whether the value is wrapped.
    """

    def __init__(self, factory: BuilderFactory, node: EnvelopeNode[object], cursor: Cursor) -> None:
        self._factory = factory
        self._node = node
        self._cursor = cursor
        self._builder: Builder | None = None

    def _choose(self, key: str = "") -> Builder:
        """Choose the builder by the first key: for the value, or for an object around the value."""
        if self._builder is None:
            inner = self._node.inner
            if key == self._node.field:
                self._builder = _EnvelopeFieldBuilder(self._cursor, key, self._factory.spec(inner))
            else:
                self._builder = self._factory.builder(inner, "{", self._cursor)
        return self._builder

    @property
    def returns_json(self) -> bool:  # type: ignore[override]  # it is known after the first key
        return self._choose().returns_json

    def start_member(self, key: str) -> None:
        self._choose(key).start_member(key)

    def add_value(self, value: Json) -> None:
        self._choose().add_value(value)

    def add_unreadable(self, visible_text: str) -> None:
        self._choose().add_unreadable(visible_text)

    def child_builder(self, bracket: str) -> Builder:
        return self._choose().child_builder(bracket)

    def add_built(self, child: Builder) -> None:
        self._choose().add_built(child)

    def build(self) -> object:
        return self._choose().build()

    @property
    def size(self) -> int:
        return 0 if self._builder is None else self._builder.size

    def member_spec(self, key: str, index: int) -> MemberSpec | None:
        return self._choose(key).member_spec(key, index)

    def view(self, size: int, tail: Tail) -> object:
        return None if self._builder is None else self._builder.view(size, tail)


class _EnvelopeFieldBuilder(MemberBuilder):
    """Builds the value inside a streamed wrapper object such as ``{"value": 5}``."""

    def __init__(self, cursor: Cursor, key: str, value_spec: MemberSpec) -> None:
        self._cursor = cursor
        self._key = key
        self._value_spec = value_spec
        self._value: object = INVALID

    def start_member(self, key: str) -> None:
        self._is_invalid |= key != self._key
        self._spec = self._value_spec if self._value is INVALID and key == self._key else None

    def _show(self, value: object, *, is_valid: bool) -> None:
        self._value = value
        self._is_invalid |= not is_valid

    def build(self) -> object:
        return INVALID if self._is_invalid else self._value

    @property
    def size(self) -> int:
        return int(self._value is not INVALID)

    def member_spec(self, key: str, index: int) -> MemberSpec | None:
        return self._value_spec if key == self._key else None

    def view(self, size: int, tail: Tail) -> object:
        return self._value if size else tail[1]


# --- Views ---

# A builder, the number of members that it shows, and its name in its parent.
_Level: TypeAlias = tuple[Builder, int, object]


def make_view(state: ScanState, factory: BuilderFactory, cursor: Cursor) -> object:
    """Return a read-only view of the reply streamed so far; None if there is nothing to show yet.

    The view of a list or a record is built only when it is accessed.
    """
    if not state.stack:
        return None
    container, _ = state.stack[0]
    builder = container.builder
    if builder is None:
        builder = container.builder = factory.builder(factory.root, container.bracket, cursor)
    if type(builder) is ObjectBuilder:
        return LazyObject(partial(_build_view, state, cursor))
    if type(builder) is ListBuilder:
        return LazyList(partial(_build_view, state, cursor))
    return _build_view(state, cursor)  # the other builders may have nothing to show


def _build_view(state: ScanState, cursor: Cursor) -> Any:
    levels = _visible_levels(state, cursor)
    tail = _string_being_written(state, levels[-1]) if len(levels) == len(state.stack) else NO_TAIL
    # From the inside out, because a view contains the view of the member that is being written.
    for builder, size, name in reversed(levels):
        tail = (name, builder.view(size, tail))
    return tail[1]


def _visible_levels(state: ScanState, cursor: Cursor) -> list[_Level]:
    """Return the visible unclosed objects and arrays in a streamed reply, the outermost first."""
    levels: list[_Level] = []
    for container, count in state.stack:
        name = None
        builder = container.builder
        if levels:
            parent, size, _ = levels[-1]
            spec = parent.member_spec(container.key, size)
            if spec is None:
                break
            name = spec.name
            if builder is None:
                builder = container.builder = spec.make_builder(container.bracket, cursor)
        assert builder is not None, "the outermost container has no builder"
        # The parts are built already if a later snapshot was accessed first.
        if len(container.sizes) <= count:
            build_parts(container, count)
        levels.append((builder, container.sizes[count], name))
    return levels


def _string_being_written(state: ScanState, level: _Level) -> Tail:
    """Return the field name and the partial text of the string that is currently being streamed."""
    text: StringPrefix | str | None
    if state.text is not None:
        key, text = state.key, state.text
    elif state.partial_member is not None:
        key, text = partial_string(state.partial_member)
    else:
        return NO_TAIL
    builder, size, _ = level
    spec = None if text is None else builder.member_spec(key, size)
    return (spec.name, text) if spec is not None and spec.shows_partial_text else NO_TAIL


# --- Questions about nodes ---

_ENVELOPE_KEYS = ("value", "items")  # keys of an object around a list, rather than of an item of the list
_TEXT_SETTINGS = ("str_strip_whitespace", "str_to_lower", "str_to_upper")


def resolve_recursive(node: TypeNode) -> TypeNode:
    """Replace the placeholder of a recursive type with the actual parser; return other parsers unchanged."""
    while isinstance(node, RecursiveNode):
        node = node.target
    return node


def shows_partial_text(node: TypeNode) -> bool:
    """Return True if users may see a string of this type while it is still being streamed."""
    node = resolve_recursive(node)
    if not isinstance(node, UnionNode):
        return node.partial_text
    options = [resolve_recursive(option) for option in node.options]
    # each JSON string is read as text if the other options read none without a conversion
    others = [option.json_types for option in options if not isinstance(option, TextNode)]
    return len(others) < len(options) and all(types is not None and str not in types for types in others)


def _distinct_options(union: UnionNode) -> Iterator[TypeNode]:
    """Yield the distinct members of a union type, including those of nested unions."""
    seen: set[int] = set()
    waiting: list[TypeNode] = [union]
    while waiting:
        node = resolve_recursive(waiting.pop())
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, UnionNode):
            waiting.extend(node.options)
        else:
            yield node


def accepts_bracket(node: TypeNode, bracket: str) -> bool:
    """Return True if JSON that begins with the given bracket can be a value of this type."""
    node = resolve_recursive(node)
    if isinstance(node, (RootModelNode, ConstrainedNode)):
        return accepts_bracket(node.parts[0], bracket)
    if isinstance(node, UnionNode):
        return any(accepts_bracket(option, bracket) for option in _distinct_options(node))
    return bracket in node.brackets


def validated_fields(node: ObjectNode) -> frozenset[str]:
    """Return the fields that a pydantic validator or a setting like ``str_to_lower`` may change."""
    config = getattr(node.spec.cls, "model_config", None) or {}
    if any(config.get(name) for name in _TEXT_SETTINGS):
        return frozenset(node.nodes)
    decorators = getattr(node.spec.cls, "__pydantic_decorators__", None)
    validators = decorators.field_validators.values() if decorators else ()
    names = {name for validator in validators for name in validator.info.fields}
    return frozenset(node.nodes if "*" in names else names)


def field_validator(
    node: ObjectNode,
) -> Callable[[object, object, Mapping[object, object]], object] | None:
    """Return a function that runs the validators of one field of a pydantic class.

    See ``ObjectPlan.validate``. Returns None for classes whose fields cannot be validated one by one.
    """
    validator = None if node.spec.adapter is None else _fields_validator(node.spec.adapter.core_schema)
    if validator is None:
        return None
    names = list(node.nodes)
    with_info = _validators_with_info(node)

    def validate(name: object, value: object, fields: Mapping[object, object]) -> object:
        # pydantic passes the fields that are declared before this one, so they have to be known.
        earlier = names[: names.index(str(name))]
        if name in with_info and not fields.keys() >= set(earlier):
            return HIDDEN
        data = {other: fields[other] for other in earlier if other in fields}
        try:
            values: Any = validator.validate_assignment(data, str(name), value)
        except (ValueError, *USER_CODE_ERRORS):
            return HIDDEN  # the parser of the complete reply reports it
        return values[0][name]  # the other parts of the tuple are the extra fields and the names of those set

    return validate


def _fields_validator(schema: Any) -> SchemaValidator | None:
    """Return a validator for the fields of a pydantic class, without the validators of the whole object."""
    definitions: list[Any] = []
    config = None
    while schema["type"] not in ("model-fields", "dataclass-args"):
        if schema["type"] == "definition-ref":
            reference = schema["schema_ref"]
            schema = next(one for one in definitions if one["ref"] == reference)
            continue
        definitions = schema.get("definitions", definitions)
        config = schema.get("config", config)
        if "schema" not in schema:
            return None
        schema = schema["schema"]
    if definitions:
        schema = core_schema.definitions_schema(schema, definitions)
    return SchemaValidator(schema, config)


def _validators_with_info(node: ObjectNode) -> frozenset[str]:
    """Return the names of fields whose validators depend on earlier fields."""
    names: set[str] = set()
    decorators = getattr(node.spec.cls, "__pydantic_decorators__", None)
    for validator in decorators.field_validators.values() if decorators else ():
        try:
            count = len(inspect.signature(validator.func).parameters)
        except ValueError:  # a function written in C
            count = 1
        if count > (2 if validator.info.mode == "wrap" else 1):
            names.update(node.nodes if "*" in validator.info.fields else validator.info.fields)
    return frozenset(names)


def may_have_key(node: TypeNode, key: str) -> bool:
    """Return True if a JSON object of this type may have the given key."""
    node = resolve_recursive(node)
    if isinstance(node, UnionNode):
        return any(may_have_key(option, key) for option in _distinct_options(node))
    if isinstance(node, ObjectNode):
        return node.field_for_key(key)[0] is not None
    return accepts_bracket(node, "{") and key not in _ENVELOPE_KEYS
