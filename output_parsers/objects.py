"""Reads records: JSON objects with known keys."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cached_property
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from .errors import REFUSALS, Problem, UnsupportedTypeError
from .fields import FieldSpec, RecordSpec, record_spec
from .foreign import problems_of, python_of
from .json_inside import opened
from .node import Definitions, JsonSchema, Node
from .reading import Json, Misfit, Place, gathered, written
from .scalars import AnyNode
from .schema import described
from .target import Target, type_name
from .wrapped import RawNode, RootNode

__all__ = ["ObjectNode", "object_node", "plain_key"]

Build = Callable[[Target], Node[Any]]


class ObjectNode(Node[Any]):
    """A record: each field read by its node, then the class made from the values."""

    named = True

    def __init__(self, spec: RecordSpec) -> None:
        self.spec = spec
        self.name = spec.cls.__name__
        self.kind = f"an object ({self.name})"
        self.nodes: dict[str, Node[Any]] = {}
        self.descriptions: dict[str, str | None] = {}
        self._by_key = {key: field for field in spec.fields for key in field.keys}
        self._by_plain: dict[str, FieldSpec | None] = {}
        for key, field in self._by_key.items():
            known = self._by_plain.setdefault(plain_key(key), field)
            if known is not field:
                self._by_plain[plain_key(key)] = None

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return self.spec.exact

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return tuple(self.nodes.values())

    def schema(self, definitions: Definitions) -> JsonSchema:
        return definitions.place(self, self.name, self._schema)

    def _schema(self, definitions: Definitions) -> JsonSchema:
        properties = {
            field.keys[0]: described(
                self.nodes[field.name].schema(definitions), self.descriptions[field.name]
            )
            for field in self.spec.fields
        }
        schema: JsonSchema = {
            "type": "object",
            "title": self.name,
            "properties": properties,
            "required": [field.keys[0] for field in self.spec.fields if field.required],
            "additionalProperties": self.spec.extra == "allow",
        }
        return described(schema, self.spec.description)

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        if self in within:
            return self.name
        inside = (*within, self)
        lines = []
        for field in self.spec.fields:
            optional = "" if field.required else "?"
            said = self.descriptions[field.name]
            text = f'"{field.keys[0]}"{optional}: {self.nodes[field.name].hint(inside)}'
            lines.append((text, " ".join(said.split()) if said else ""))
        short = "{" + ", ".join(text for text, _ in lines) + "}"
        if len(short) <= 100 and not any(said for _, said in lines) and "\n" not in short:
            return short
        rows = [f"{text},  // {said}" if said else f"{text}," for text, said in lines]
        return "{\n" + "\n".join("  " + row.replace("\n", "\n  ") for row in rows) + "\n}"

    def read(self, found: Json, at: Place) -> Any:
        found = opened(found, "{", at)
        if not isinstance(found, dict):
            raise at.misfit(f"expected {self.kind}", found)
        if self.spec.reshapes and self.spec.adapter is not None:
            return self._reshaped(self.spec.adapter, found, at)
        return self._read_fields(found, at)

    def _reshaped(self, adapter: TypeAdapter[Any], found: dict[str, Json], at: Place) -> Any:
        """A validator of the class sees the JSON as it came; where that fails, what our reading gives."""
        plain = python_of(found, at)
        before = len(at.ledger)
        try:
            return adapter.validate_json(written(found), strict=True)
        except (ValueError, *REFUSALS):
            pass
        try:
            return self._read_fields(found, at)
        except Misfit as misfit:
            del at.ledger[before:]
            try:
                value = adapter.validate_python(plain)
            except (ValueError, *REFUSALS):
                raise misfit from None
        at.took("converted by its validators", found, value)
        return value

    def _read_fields(self, found: dict[str, Json], at: Place) -> Any:
        given, extra, problems = self._match(found, at)
        values: dict[str, Any] = {}
        misfits = [Misfit(*problems)] if problems else []
        for field in self.spec.fields:
            if field.name not in given:
                if field.required:
                    said = f"the required field {field.keys[0]!r} is missing"
                    misfits.append(Misfit(Problem(at.at(field.keys[0]).path, said)))
                continue
            key, value = given[field.name]
            try:
                read = self.nodes[field.name].read(value, at.at(key))
            except Misfit as misfit:
                misfits.append(misfit)
            else:
                values[field.keys[0] if self.spec.by_key else field.name] = read
        if misfits:
            raise gathered(misfits)
        return self.make({**extra, **values}, found, at)

    def field_of(self, key: str) -> tuple[FieldSpec | None, bool]:
        """The field that a key means, or None, and whether the key is its very name."""
        field = self._by_key.get(key)
        return (self._by_plain.get(plain_key(key)), False) if field is None else (field, True)

    def _match(
        self, found: dict[str, Json], at: Place
    ) -> tuple[dict[str, tuple[str, Json]], dict[str, Json], list[Problem]]:
        """Which key gives which field: by its very name first, then by its name in another case."""
        given: dict[str, tuple[str, Json]] = {}
        problems: list[Problem] = []
        others: list[tuple[str, Json]] = []
        extra: dict[str, Json] = {}
        for key, value in found.items():
            field = self._by_key.get(key)
            if field is None or field.name in given:
                others.append((key, value))
            else:
                given[field.name] = (key, value)
        exactly = set(given)
        for key, value in others:
            field = self._by_plain.get(plain_key(key))
            if field is not None and field.name not in exactly:
                if field.name in given:
                    problems.append(Problem(at.at(key).path, f"another key means {field.keys[0]!r} too"))
                    continue
                at.at(key).took("key in another form", key, field.keys[0])
                given[field.name] = (key, value)
            elif self.spec.extra == "allow":
                extra[key] = AnyNode().read(value, at.at(key))
            elif self.spec.extra == "forbid":
                problems.append(Problem(at.at(key).path, f"{self.name} has no field of this name"))
            else:
                at.at(key).left_out("unknown key left out")
        return given, extra, problems

    def make(self, values: dict[str, Any], found: Json, at: Place) -> Any:
        """The record of values read from ``found``, named as the class takes them. Raises Misfit."""
        try:
            if not self._raw_keys.isdisjoint(values) and self.spec.adapter is not None:
                return self._converted(self.spec.adapter, values, found, at)
            return self.spec.make(values)
        except ValidationError as error:
            raise Misfit(*problems_of(error, at)) from error
        except (ValueError, *REFUSALS) as error:
            raise at.misfit(f"{self.name} refuses the values: {error}", found) from error

    def _converted(self, adapter: TypeAdapter[Any], values: dict[str, Any], found: Json, at: Place) -> Any:
        try:
            return adapter.validate_python(values, strict=True)
        except ValidationError:
            value = self.spec.make(values)
        at.took("converted by its validators", found, value)
        return value

    @cached_property
    def _raw_keys(self) -> frozenset[str]:
        return frozenset(field.keys[0] for field in self.spec.fields if field.raw)

    def write(self, value: Any) -> Json:
        given = self._given(value)
        found = {
            field.keys[0]: self.nodes[field.name].write(given.pop(field.name))
            for field in self.spec.fields
            if field.name in given
        }
        if self.spec.extra == "allow":
            found |= {name: AnyNode().write(other) for name, other in given.items()}
        return found

    def _given(self, value: Any) -> dict[str, Any]:
        """What a record holds, by the names of its fields; what else it holds, by its own."""
        if not isinstance(value, dict if is_typeddict(self.spec.cls) else self.spec.cls):
            raise ValueError(f"expected {self.kind}, found {value!r}")
        if isinstance(value, dict):
            return dict(value)
        struct = getattr(value, "__struct_config__", None)
        tag = {} if struct is None or struct.tag_field is None else {struct.tag_field: struct.tag}
        names = [field.name for field in self.spec.fields if hasattr(value, field.name)]
        more = getattr(value, "__pydantic_extra__", None) or {}
        if self.spec.extra == "allow" and not more:
            more = getattr(value, "__dict__", {})  # where dataclasses of pydantic hold it
        given = {name: getattr(value, name) for name in names}
        if struct is not None:  # what is unset is left out
            given = {name: one for name, one in given.items() if type(one).__name__ != "UnsetType"}
        return {**more, **given, **tag}

    def fixed_keys(self) -> int | None:
        return self._fixed

    @cached_property
    def _fixed(self) -> int | None:
        if self.spec.extra == "allow" or not all(field.required for field in self.spec.fields):
            return None
        below = [node.fixed_keys() for node in self.nodes.values()]
        counts = [count for count in below if count is not None]
        return len(counts) + sum(counts) if len(counts) == len(below) else None

    def count_keys(self, value: Any) -> int:
        if self._fixed is not None:
            return self._fixed
        names = value.model_fields_set  # only pydantic models are exact, and only exact parts are counted
        count = len(names)
        for name, node in self._keyed:
            if name in names:
                count += node.count_keys(getattr(value, name))
        return count

    @cached_property
    def _keyed(self) -> list[tuple[str, Node[Any]]]:
        return [(name, node) for name, node in self.nodes.items() if node.parts]


def plain_key(key: str) -> str:
    """A key without case, accents, spaces and punctuation: firstName, first_name and First Name are one."""
    parts = unicodedata.normalize("NFKD", key).casefold()
    return re.sub(r"[\W_]+", "", "".join(c for c in parts if not unicodedata.combining(c)))


def object_node(target: Target, build: Build, register: Callable[[Node[Any]], None]) -> Node[Any] | None:
    """The node of a record class; None for all others. ``register`` makes the node known to its own parts."""
    try:
        spec = record_spec(target)
    except (NameError, PydanticUserError) as error:
        reason = f"its annotations cannot be resolved ({error})"
        raise UnsupportedTypeError(type_name(target.form), target.path, ["records"], reason) from error
    if spec is None:
        return None
    # importing RootModel itself would make pydantic search every installed package for plugins
    if getattr(spec.cls, "__pydantic_root_model__", False):
        return RootNode(spec.cls, build(target.child(spec.fields[0].form)))
    node = ObjectNode(spec)
    register(node)
    for field in spec.fields:
        below = target.child(field.form, field.name)
        inside = build(below)
        node.nodes[field.name] = RawNode(inside) if field.raw else inside
        node.descriptions[field.name] = below.description or field.description
    return node
