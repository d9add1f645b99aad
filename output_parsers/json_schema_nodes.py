"""Takes a JSON Schema apart into nodes, so that a reply is aligned with it as with any other type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Literal, cast
from urllib.parse import unquote

from pydantic import TypeAdapter

from .choices import BoolNode, ChoiceNode, choice_node
from .constraints import ConstrainedNode
from .fields import Extra, FieldSpec, RecordSpec
from .json_schema_check import NO_FORM, InvalidSchemaError, SchemaCheck
from .mappings import DictNode
from .node import JsonSchema, Node, Shared
from .objects import ObjectNode, plain_key
from .reading import Ambiguity, Json, Misfit, Place
from .scalars import AnyNode, FloatNode, IntNode, NoneNode, NumberNode, TextNode
from .sequences import ListNode
from .target import Target
from .unions import UnionNode

__all__ = ["SchemaTree", "anything", "plain_json", "valid_or_aligned"]

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


Align = Callable[[Json, Place], Any]


@cache
def anything() -> TypeAdapter[Any]:
    """What stands where a node wants pydantic's checks, and jsonschema does them."""
    return TypeAdapter(Any)


def plain_json(found: Json, at: Place) -> Any:
    """A JSON value as json.loads gives it, but that a whole number is never rounded.

    Raises Misfit for a number beyond a float.
    """
    if isinstance(found, dict):
        return {key: plain_json(value, at.at(key)) for key, value in found.items()}
    if isinstance(found, list):
        return [plain_json(value, at.at(index)) for index, value in enumerate(found)]
    return _plain_number(found, at) if isinstance(found, Decimal) else found


def _plain_number(found: Decimal, at: Place) -> int | float:
    number = FloatNode().convert(found, at)
    if number.is_integer() and Decimal(repr(number)) != found == found.to_integral_value():
        return int(found)
    return number


def valid_or_aligned(check: SchemaCheck, align: Align, found: Json, at: Place) -> Any:
    """What is valid as it stands, and all else as ``align`` reads it.

    A valid 3.0 in the place of an integer becomes one, where aligning does not fail.
    """
    plain = plain_json(found, at)
    if not check.is_valid(plain):
        return align(found, at)
    if check.is_exact(plain):
        return plain
    before = len(at.ledger)
    try:
        return align(found, at)
    except Misfit:
        del at.ledger[before:]
        return plain


class JsonNode(AnyNode):
    """What is not aligned, for its schema says more than nodes do; the whole is checked in the end."""

    any_text = True  # a text is JSON too, so that the lines of a reply are items only by a guess

    def read(self, found: Json, at: Place) -> Any:
        return plain_json(found, at)


class JsonNumberNode(NumberNode[int | float]):
    """A number, whole where it is written so."""

    kind = "a number"

    def convert(self, number: int | Decimal, at: Place) -> int | float:
        if isinstance(number, int):
            return number
        return int(number) if number.as_tuple().exponent == 0 else _plain_number(number, at)


class FormatNode(TextNode):
    """Text of some format, which stays text."""

    def __init__(self, form: str) -> None:
        self._form = form

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return f"string ({self._form})"


class EnumNode(ChoiceNode[Any]):
    """One of the scalars of an enum; a member as it stands is that member, whatever others are called."""

    def __init__(self, values: list[Any]) -> None:
        node = choice_node(Target(cast(Any, Literal)[tuple(values)]))
        assert isinstance(node, ChoiceNode), "a Literal is read as a choice"
        super().__init__("enum", node.choices.choices, exact=False)
        self._values = values

    def read(self, found: Json, at: Place) -> Any:
        plain = plain_json(found, at)
        if any(_equal(value, plain) for value in self._values):
            return plain
        return super().read(found, at)


def _equal(one: Any, other: Any) -> bool:
    """Whether two scalars are one in JSON, where 1 is 1.0 and not true."""
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


class FieldsNode(ObjectNode):
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
                    self._by_plain[plain_key(field.name)] = None


class FormsNode(UnionNode):
    """One of several forms. What is valid as it stands is not held against each of them."""

    def __init__(self, options: tuple[Node[Any], ...], check: SchemaCheck) -> None:
        super().__init__(options, None)
        self.exact = False
        self._check = check

    def read(self, found: Json, at: Place) -> Any:
        return valid_or_aligned(self._check, self._aligned, found, at)

    def _aligned(self, found: Json, at: Place) -> Any:
        try:
            return super().read(found, at)
        except Ambiguity:
            raise
        except Misfit as misfit:  # a limit of one form tells more than that no form fits
            problems = self._check.problems(plain_json(found, at), at)
            deeper = any(problem.path != at.path for problem in misfit.problems)
            if deeper or not problems or problems[0].message == NO_FORM:
                raise
            raise Misfit(*problems) from misfit


class LimitedNode(ConstrainedNode):
    """A part whose values must hold the limits of its schema: lengths, bounds, a pattern."""

    def __init__(self, inner: Node[Any], limits: JsonSchema, check: SchemaCheck) -> None:
        shown = {key: limit for key, limit in limits.items() if not isinstance(limit, bool)}
        super().__init__(inner, anything(), shown)
        self.exact = False
        self._check = check.of(limits)

    def check(self, value: Any, at: Place) -> Any:
        problems = self._check.problems(value, at)
        if problems:
            raise Misfit(*problems)
        return value


class SchemaTree:
    """The nodes of one schema. ``said`` tells whether their hint says all that the schema does."""

    def __init__(self, schema: JsonSchema, check: SchemaCheck, name: str) -> None:
        self.said = True
        self._schema = schema
        self._check = check
        self._name = name
        self._built: dict[str, Node[Any]] = {}
        self._open: dict[str, Shared[Any]] = {}
        self.root = self._referred("#", frozenset())

    def target(self, reference: str) -> Any:
        """The part of the schema at a JSON pointer; None for references of other kinds."""
        if not re.match(r"#(?:/|\Z)", reference) or self._check.moves:
            return None
        part: Any = self._schema
        for step in unquote(reference).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            part = part[int(name)] if isinstance(part, list) else part[name]
        return part

    def _referred(self, reference: str, here: frozenset[str]) -> Node[Any]:
        """The node of another part. ``here`` holds the references that led to this place in the value."""
        if reference in here:
            raise InvalidSchemaError(self._check.name, reference, "it stands for itself")
        if reference in self._built or reference in self._open:
            return self._built.get(reference) or self._open[reference]
        part = self._schema if reference == "#" else self.target(reference)
        if part is None:
            return self._unsaid()
        name = self._name if reference == "#" else reference.rpartition("/")[2]
        shared: Shared[Any] = Shared(_bare(name) or "the value")
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
            return FormsNode(tuple(options), self._check.of(schema))
        if kinds:
            return self._of_kind(kinds if isinstance(kinds, str) else kinds[0], schema, name)
        return self._combined(schema, here, name)

    def _combined(self, schema: JsonSchema, here: frozenset[str], name: str) -> Node[Any]:
        forms = schema.get("anyOf") or schema.get("oneOf")
        every = schema.get("allOf", ())
        if forms and not every:
            options = tuple(self._node(form, here, name) for form in forms)
            return options[0] if len(options) == 1 else FormsNode(options, self._check.of(schema))
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
        return node if None not in values else FormsNode((node, NoneNode()), self._check.of(schema))

    def _of_kind(self, kind: str, schema: JsonSchema, name: str) -> Node[Any]:
        node = self._without_limits(kind, schema, name)
        limits = {key: schema[key] for key in _LIMITS.get(kind, ()) if key in schema}
        return LimitedNode(node, limits, self._check) if limits else node

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
        node = FieldsNode(_bare(title or name), fields, "forbid" if closed else "allow")
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
