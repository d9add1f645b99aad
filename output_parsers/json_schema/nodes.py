"""Takes a JSON Schema apart into nodes, so that a reply is aligned with it as with any other type."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from decimal import Decimal
from functools import cache
from typing import Any, Literal, cast
from urllib.parse import unquote

from pydantic import TypeAdapter

from ..result.errors import USER_CODE_ERRORS, Problem, UnsupportedTypeError, shorten
from ..result.reading import MAX_FAILURES, Ambiguity, Cursor, Json, ValidationFailure, describe_value
from ..types.choices import BoolNode, ChoiceNode, choice_node
from ..types.constraints import ConstrainedNode
from ..types.containers import DictNode, ListNode
from ..types.node import JsonSchema, Node, RecursiveNode
from ..types.records import Extra, FieldSpec, ObjectNode, RecordSpec, normalize_key
from ..types.scalars import AnyNode, FloatNode, IntNode, NoneNode, NumberNode, TextNode
from ..types.target import Target
from ..types.unions import UnionNode

DATA = frozenset(
    ("enum", "const", "default", "examples", "example")
)  # keywords that hold values, not schemas
MAPS = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
)
NO_ALTERNATIVE = "it fits none of the forms"
_LONGEST = 160  # characters of a message of the package's own
_SHOWN = 20  # members of an enum in a message
_KINDS = {
    "integer": "an integer",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_OF_KIND = ("type", "enum", "const", None)  # keywords that say what kind of value is wanted; None: ``false``
_LIMIT_MESSAGES = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "text matching {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} keys",
    "maxProperties": "at most {} keys",
}


class InvalidSchemaError(UnsupportedTypeError):
    """A JSON Schema that cannot be read; ``path`` is the JSON pointer of what is wrong (``#``: the whole)."""

    def __init__(self, name: str, pointer: str, reason: str) -> None:
        self.type_name = name
        self.path = pointer
        self.tried = ("jsonschema",)
        TypeError.__init__(self, f"the JSON Schema {name!r} is broken at {pointer}: {reason}")


class SchemaCheck:
    """A JSON Schema ready for checking. Raises InvalidSchemaError when the schema itself is broken.

    ``references`` are all its ``$ref``; ``has_ids`` says that some part has an ``$id``, to which they refer.
    Nothing is fetched: a reference that leads out of the schema is a fault of the schema.
    """

    def __init__(self, schema: JsonSchema, name: str) -> None:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft202012Validator, extend, validator_for
        from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
        from referencing.jsonschema import DRAFT202012, specification_with

        self.name = name
        self.references: list[str] = []
        self.has_ids = False
        draft = validator_for(schema, default=Draft202012Validator)
        try:
            draft.check_schema(schema)
        except SchemaError as error:
            reason = shorten(error.message, _LONGEST)
            raise InvalidSchemaError(name, _pointer(error.absolute_path), reason) from error
        dialect = str(draft.META_SCHEMA.get("$schema") or "")
        self._specification: Any = specification_with(dialect, default=DRAFT202012)
        resource = self._specification.create_resource(schema)
        registry: Any = REGISTRY.with_resource(resource.id() or "", resource)
        self._look_up(schema, "#", registry.resolver(resource.id() or ""))
        whole: Any = draft.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
        strict: Any = extend(draft, type_checker=whole)  # type: ignore[no-untyped-call]
        bare = {key: value for key, value in schema.items() if key != "$schema"}  # that would undo ``strict``
        self._exact: Any = strict(bare, registry=registry)
        self._validator: Any = draft(schema, registry=registry)

    def _look_up(self, part: Any, pointer: str, resolver: Any) -> None:
        """Find all references in a part. Raises InvalidSchemaError for one that leads nowhere."""
        if isinstance(part, list):
            for index, item in enumerate(part):
                self._look_up(item, f"{pointer}/{index}", resolver)
        if not isinstance(part, dict):
            return
        inside_one = self._specification.create_resource(part)
        if pointer != "#" and inside_one.id():
            self.has_ids = True
            resolver = resolver.in_subresource(inside_one)
        for key in ("$ref", "$dynamicRef"):
            if isinstance(part.get(key), str):
                self._resolve(part[key], f"{pointer}/{key}", resolver)
        for key, value in part.items():
            if key in MAPS and isinstance(value, dict):
                for name, inside in value.items():
                    self._look_up(inside, f"{pointer}/{_step(key)}/{_step(name)}", resolver)
            elif key not in DATA:
                self._look_up(value, f"{pointer}/{_step(key)}", resolver)

    def _resolve(self, reference: str, pointer: str, resolver: Any) -> None:
        from referencing.exceptions import Unresolvable

        self.references.append(reference)
        try:
            data = resolver.lookup(reference).contents
        except (Unresolvable, ValueError, *USER_CODE_ERRORS) as error:
            reason = f"there is no {shorten(reference)!r} in the schema, and nothing is fetched"
            raise InvalidSchemaError(self.name, pointer, reason) from error
        if not isinstance(data, (dict, bool)):
            raise InvalidSchemaError(self.name, pointer, f"{shorten(reference)!r} is no schema")

    def of(self, part: JsonSchema) -> SchemaCheck:
        """The check of a part of the schema."""
        other = copy(self)
        other._validator = self._validator.evolve(schema=part)
        other._exact = self._exact.evolve(schema=part)
        return other

    def is_valid(self, value: Any) -> bool:
        """Whether a plain value is valid."""
        return self._takes(self._validator, value)

    def is_exact(self, value: Any) -> bool:
        """Whether a valid value has whole numbers written as such wherever the schema wants an integer."""
        return not _has_whole_float(value) or self._takes(self._exact, value)

    @staticmethod
    def _takes(validator: Any, value: Any) -> bool:
        try:
            return bool(validator.is_valid(value))
        except (ValueError, *USER_CODE_ERRORS):  # what the package makes of a number beyond a float
            return False

    def problems(self, value: Any, cursor: Cursor) -> list[Problem]:
        """What is wrong with a plain value, path by path; nothing when it is valid."""
        data: dict[tuple[str, str], Problem] = {}  # one problem may be met on two ways through the schema
        try:
            for error in self._validator.iter_errors(value):
                for problem in _told(error, cursor):
                    data.setdefault((problem.path, problem.message), problem)
                if len(data) >= MAX_FAILURES:
                    break
        except (ValueError, *USER_CODE_ERRORS) as error:
            return [
                Problem(cursor.path, f"the schema cannot be checked here: {shorten(str(error), _LONGEST)}")
            ]
        return list(data.values())


def _has_whole_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_whole_float, value))
    return isinstance(value, float) and value.is_integer()


def _step(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _pointer(steps: Iterable[str | int]) -> str:
    return "/".join(["#", *(_step(str(step)) for step in steps)])


def _told(error: Any, root: Cursor) -> Iterator[Problem]:
    """The problems that one error of the package stands for; its path begins at ``root``."""
    cursor = root
    for step in error.absolute_path:
        cursor = cursor.child(step)
    keyword, said, value = error.validator, error.validator_value, error.instance
    if keyword == "required" and isinstance(said, list):
        for key in said:
            if key not in value:
                yield Problem(cursor.child(key).path, f"the required field {key!r} is missing")
    elif keyword == "additionalProperties" and said is False:
        for key in value:
            if _is_extra(key, error.schema):
                yield Problem(
                    cursor.child(key).path, "the schema has no field of this name", describe_value(value[key])
                )
    elif keyword in ("anyOf", "oneOf"):
        yield from _told_of_forms(error, root, cursor)
    else:
        yield Problem(cursor.path, _message(keyword, said, error), describe_value(value))


def _is_extra(key: str, schema: JsonSchema) -> bool:
    patterns = schema.get("patternProperties", {})
    return key not in schema.get("properties", {}) and not any(re.search(p, key) for p in patterns)


def _told_of_forms(error: Any, root: Cursor, cursor: Cursor) -> Iterator[Problem]:
    """Of several forms the faults of the one that came nearest, where one did."""
    if not error.context:
        said = "it fits more than one of the forms of which one is wanted"
        yield Problem(cursor.path, said, describe_value(error.instance))
        return
    forms: dict[int, list[Any]] = {}
    for fault in error.context:
        forms.setdefault(fault.relative_schema_path[0], []).append(fault)
    nearest = _nearest(list(forms.values()))
    if nearest is None:
        yield Problem(cursor.path, _forms_wanted(error.validator_value), describe_value(error.instance))
        return
    for fault in nearest:
        yield from _told(fault, root)


def _nearest(forms: list[list[Any]]) -> list[Any] | None:
    """The faults of the form whose faults lie deepest and are fewest, or that alone takes such values."""
    deeper = [faults for faults in forms if any(fault.relative_path for fault in faults)]
    if deeper:
        return min(deeper, key=len)
    same_kind = [faults for faults in forms if all(fault.validator not in _OF_KIND for fault in faults)]
    return same_kind[0] if len(same_kind) == 1 else None


def _forms_wanted(forms: list[Any]) -> str:
    kinds = [form.get("type") if isinstance(form, dict) else None for form in forms]
    known = [_KINDS[kind] for kind in kinds if isinstance(kind, str) and kind in _KINDS]
    return f"expected {' or '.join(known)}" if len(known) == len(kinds) else NO_ALTERNATIVE


def _message(keyword: Any, said: Any, error: Any) -> str:
    if keyword == "type":
        kinds = said if isinstance(said, list) else [said]
        return f"expected {' or '.join(_KINDS.get(kind, str(kind)) for kind in kinds)}"
    if keyword in ("enum", "const"):
        members = said if keyword == "enum" else [said]
        shown = ", ".join(shorten(json.dumps(member, ensure_ascii=False), 60) for member in members[:_SHOWN])
        return f"expected {'one of ' if len(members) > 1 else ''}{shown}"
    if keyword in _LIMIT_MESSAGES and not isinstance(said, bool):
        return "expected " + _LIMIT_MESSAGES[keyword].format(said).replace(" 1 items", " 1 item")
    if keyword == "uniqueItems":
        return "expected no item twice"
    if keyword == "not":
        return "it is what the schema excludes"
    return "nothing may stand here" if keyword is None else shorten(error.message, _LONGEST)


_OF_NUMBER = frozenset("minimum exclusiveMinimum maximum exclusiveMaximum multipleOf".split())
_LIMITS = {
    "integer": _OF_NUMBER,
    "number": _OF_NUMBER,
    "string": frozenset(("minLength", "maxLength", "pattern")),
    "array": frozenset(("minItems", "maxItems", "uniqueItems")),
    "object": frozenset(("minProperties", "maxProperties")),
}
# What a hint says, and what only comments on the schema; with any other keyword the schema is shown itself.
_SAID = frozenset.union(*_LIMITS.values()) - {"uniqueItems"} | frozenset(
    "type properties required additionalProperties items enum const anyOf oneOf $ref format description "
    "title default examples $defs definitions $schema $id $comment deprecated readOnly writeOnly".split()
)
_ANNOTATIONS = frozenset("description title default examples $comment deprecated $defs definitions".split())


Align = Callable[[Json, Cursor], Any]


@cache
def any_adapter() -> TypeAdapter[Any]:
    """What stands where a node wants pydantic's checks, and jsonschema does them."""
    return TypeAdapter(Any)


def plain_json(data: Json, cursor: Cursor) -> Any:
    """A JSON value as json.loads gives it, but that a whole number is never rounded.

    Raises Misfit for a number beyond a float.
    """
    if isinstance(data, dict):
        return {key: plain_json(value, cursor.child(key)) for key, value in data.items()}
    if isinstance(data, list):
        return [plain_json(value, cursor.child(index)) for index, value in enumerate(data)]
    return _plain_number(data, cursor) if isinstance(data, Decimal) else data


def _plain_number(data: Decimal, cursor: Cursor) -> int | float:
    number = FloatNode().convert(data, cursor)
    if number.is_integer() and Decimal(repr(number)) != data == data.to_integral_value():
        return int(data)
    return number


def valid_or_aligned(check: SchemaCheck, align: Align, data: Json, cursor: Cursor) -> Any:
    """What is valid as it stands, and all else as ``align`` reads it.

    A valid 3.0 in the place of an integer becomes one, where aligning does not fail.
    """
    plain = plain_json(data, cursor)
    if not check.is_valid(plain):
        return align(data, cursor)
    if check.is_exact(plain):
        return plain
    before = len(cursor.coercions)
    try:
        return align(data, cursor)
    except ValidationFailure:
        del cursor.coercions[before:]
        return plain


class JsonNode(AnyNode):
    """What is not aligned, for its schema says more than nodes do; the whole is checked in the end."""

    any_text = True  # a text is JSON too, so that the lines of a reply are items only by a guess

    def read(self, data: Json, cursor: Cursor) -> Any:
        return plain_json(data, cursor)


class JsonNumberNode(NumberNode[int | float]):
    """A number, whole where it is written so."""

    kind = "a number"

    def convert(self, number: int | Decimal, cursor: Cursor) -> int | float:
        if isinstance(number, int):
            return number
        return int(number) if number.as_tuple().exponent == 0 else _plain_number(number, cursor)


class FormatNode(TextNode):
    """Text of some format, which stays text."""

    def __init__(self, form: str) -> None:
        self._form = form

    def hint(self, enclosing: tuple[Node[Any], ...] = ()) -> str:
        return f"string ({self._form})"


class EnumNode(ChoiceNode[Any]):
    """One of the scalars of an enum; a member as it stands is that member, whatever others are called."""

    def __init__(self, values: list[Any]) -> None:
        node = choice_node(Target(cast(Any, Literal)[tuple(values)]))
        assert isinstance(node, ChoiceNode), "a Literal is read as a choice"
        super().__init__("enum", node.choices.choices, exact=False)
        self._values = values

    def read(self, data: Json, cursor: Cursor) -> Any:
        plain = plain_json(data, cursor)
        if any(_equal(value, plain) for value in self._values):
            return plain
        return super().read(data, cursor)


def _equal(one: Any, other: Any) -> bool:
    """Whether two scalars are one in JSON, where 1 is 1.0 and not true."""
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


class PropertiesNode(ObjectNode):
    """An object with known properties.

    Where others are allowed too, a key in another form may be one of them: it is taken for a property only
    when that is required and missing.
    """

    def __init__(self, name: str, fields: tuple[FieldSpec, ...], extra: Extra) -> None:
        super().__init__(RecordSpec(type(name or "the object", (dict,), {}), fields, dict, extra=extra))
        self.kind = f"an object ({name})" if name else "an object"
        if extra == "allow":
            for field in fields:
                if not field.required:
                    self._by_normalized_key[normalize_key(field.name)] = None


class AlternativesNode(UnionNode):
    """One of several forms. What is valid as it stands is not held against each of them."""

    def __init__(self, options: tuple[Node[Any], ...], check: SchemaCheck) -> None:
        super().__init__(options, None)
        self.exact = False
        self._check = check

    def read(self, data: Json, cursor: Cursor) -> Any:
        return valid_or_aligned(self._check, self._aligned, data, cursor)

    def _aligned(self, data: Json, cursor: Cursor) -> Any:
        try:
            return super().read(data, cursor)
        except Ambiguity:
            raise
        except ValidationFailure as failure:  # a limit of one form tells more than that no form fits
            problems = self._check.problems(plain_json(data, cursor), cursor)
            deeper = any(problem.path != cursor.path for problem in failure.problems)
            if deeper or not problems or problems[0].message == NO_ALTERNATIVE:
                raise
            raise ValidationFailure(*problems) from failure


class LimitsNode(ConstrainedNode):
    """A part whose values must hold the limits of its schema: lengths, bounds, a pattern."""

    def __init__(self, inner: Node[Any], limits: JsonSchema, check: SchemaCheck) -> None:
        shown = {key: limit for key, limit in limits.items() if not isinstance(limit, bool)}
        super().__init__(inner, any_adapter(), shown)
        self.exact = False
        self._check = check.of(limits)

    def check(self, value: Any, cursor: Cursor) -> Any:
        problems = self._check.problems(value, cursor)
        if problems:
            raise ValidationFailure(*problems)
        return value


class SchemaTree:
    """The nodes of one schema. ``said`` tells whether their hint says all that the schema does."""

    def __init__(self, schema: JsonSchema, check: SchemaCheck, name: str) -> None:
        self.said = True
        self._schema = schema
        self._check = check
        self._name = name
        self._built: dict[str, Node[Any]] = {}
        self._open: dict[str, RecursiveNode[Any]] = {}
        self.root = self._referred("#", frozenset())

    def target(self, reference: str) -> Any:
        """The part of the schema at a JSON pointer; None for references of other kinds."""
        if not re.match(r"#(?:/|\Z)", reference) or self._check.has_ids:
            return None
        part: Any = self._schema
        for step in unquote(reference).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            part = part[int(name)] if isinstance(part, list) else part[name]
        return part

    def _referred(self, reference: str, here: frozenset[str]) -> Node[Any]:
        """The node of another part. ``here`` holds the references that led to this place in the value."""
        if reference in here:
            raise InvalidSchemaError(self._check.name, reference, "it refers only to itself")
        if reference in self._built or reference in self._open:
            return self._built.get(reference) or self._open[reference]
        part = self._schema if reference == "#" else self.target(reference)
        if part is None:
            return self._unsaid()
        name = self._name if reference == "#" else reference.rpartition("/")[2]
        shared: RecursiveNode[Any] = RecursiveNode(_bare(name) or "the value")
        self._open[reference] = shared
        shared.node = self._built[reference] = self._node(part, here | {reference}, name)
        del self._open[reference]
        return shared.node

    def _unsaid(self) -> Node[Any]:
        self.said = False
        return JsonNode()

    def _node(self, schema: Any, here: frozenset[str] = frozenset(), name: str = "") -> Node[Any]:
        if not isinstance(schema, dict):  # true or false
            return JsonNode() if schema is True else self._unsaid()
        self.said &= schema.keys() <= _SAID
        if "$ref" in schema:
            self.said &= not (schema.keys() - _ANNOTATIONS - {"$ref", "$schema", "$id"})
            return self._referred(schema["$ref"], here)
        if "const" in schema or "enum" in schema:
            return self._choice([schema["const"]] if "const" in schema else schema["enum"], schema)
        kinds = schema.get("type") or next((kind for key, kind in _IMPLIED if key in schema), None)
        if isinstance(kinds, list) and len(kinds) > 1:
            options = (self._of_kind(kind, schema, name) for kind in kinds)
            return AlternativesNode(tuple(options), self._check.of(schema))
        if kinds:
            return self._of_kind(kinds if isinstance(kinds, str) else kinds[0], schema, name)
        return self._combined(schema, here, name)

    def _combined(self, schema: JsonSchema, here: frozenset[str], name: str) -> Node[Any]:
        forms = schema.get("anyOf") or schema.get("oneOf")
        every = schema.get("allOf", ())
        if forms and not every:
            options = tuple(self._node(form, here, name) for form in forms)
            return options[0] if len(options) == 1 else AlternativesNode(options, self._check.of(schema))
        if len(every) == 1 and not forms:
            return self._node(every[0], here, name)
        return JsonNode() if not schema.keys() - _ANNOTATIONS else self._unsaid()

    def _choice(self, values: list[Any], schema: JsonSchema) -> Node[Any]:
        if any(isinstance(value, (dict, list)) for value in values) or not values:
            return self._unsaid()
        scalars = [value for value in values if value is not None]
        if not scalars:
            return NoneNode()
        node = EnumNode(scalars)
        return node if None not in values else AlternativesNode((node, NoneNode()), self._check.of(schema))

    def _of_kind(self, kind: str, schema: JsonSchema, name: str) -> Node[Any]:
        node = self._without_limits(kind, schema, name)
        limits = {key: schema[key] for key in _LIMITS.get(kind, ()) if key in schema}
        return LimitsNode(node, limits, self._check) if limits else node

    def _without_limits(self, kind: str, schema: JsonSchema, name: str) -> Node[Any]:
        if kind == "string" and isinstance(schema.get("format"), str):
            return FormatNode(schema["format"])
        if kind == "array":
            items = schema.get("items", True)
            self.said &= not isinstance(items, list)
            alike = isinstance(items, dict) and "prefixItems" not in schema
            return ListNode(self._node(items) if alike else JsonNode(), list, exact=False)
        if kind == "object":
            return self._object(schema, name)
        make = _SCALARS.get(kind)
        return make() if make is not None else self._unsaid()

    def _object(self, schema: JsonSchema, name: str) -> Node[Any]:
        properties: Mapping[str, Any] = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        if not properties and others is not False:
            alike = isinstance(others, dict) and "patternProperties" not in schema
            return DictNode(TextNode(), self._node(others) if alike else JsonNode(), dict)
        self.said &= not isinstance(others, dict)
        required = schema.get("required")
        names = frozenset(required if isinstance(required, list) else ())
        fields = tuple(FieldSpec(key, (key,), Any, key in names) for key in properties)
        closed = others is False and "patternProperties" not in schema
        title = schema.get("title")
        node = PropertiesNode(_bare(title or name), fields, "forbid" if closed else "allow")
        for key, part in properties.items():
            node.nodes[key] = self._node(part)
            node.descriptions[key] = part.get("description") if isinstance(part, dict) else None
        return node


_IMPLIED = (("properties", "object"), ("items", "array"), ("prefixItems", "array"))
_SCALARS: dict[str, type[Node[Any]]] = {
    "string": TextNode,
    "integer": IntNode,
    "number": JsonNumberNode,
    "boolean": BoolNode,
    "null": NoneNode,
}


def _bare(name: str) -> str:
    """A name that a class may have."""
    return re.sub(r"\W+", " ", name).strip()[:60]
