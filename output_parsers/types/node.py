"""What every part of a type can do: show its schema, hint at its form, and read a value."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from pydantic_core import to_jsonable_python

from ..json.result import is_non_finite
from ..result.errors import USER_CODE_ERRORS, OutputParsingError, Problem
from ..result.reading import Cursor, Json, ValidationFailure, dump_json

T = TypeVar("T")
JsonSchema = dict[str, Any]
_TENTH = Decimal("0.1")


class Node(ABC, Generic[T]):
    """One part of a type, taken apart once. All that is said of the type comes from its nodes.

    ``kind`` says in words what is expected (``an integer``); ``exact`` whether pydantic-core's strict
    reading of JSON gives just what ``read`` gives, provided that it is so for all ``parts``;
    ``prose`` whether a whole reply in prose may stand for a value; ``any_text`` whether any text at all
    does; ``named`` whether its schema goes by a name where it stands twice.
    """

    kind: str
    exact: bool = False
    prose: bool = False
    any_text: bool = False
    named: bool = False

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return ()

    @abstractmethod
    def schema(self, definitions: Definitions) -> JsonSchema:
        """The JSON Schema of this part."""

    @abstractmethod
    def hint(self, enclosing: tuple[Node[Any], ...] = ()) -> str:
        """A short description for a prompt, in the manner of TypeScript. ``enclosing`` holds the open parts."""

    @abstractmethod
    def read(self, data: Json, cursor: Cursor) -> T:
        """The value that a JSON value stands for. Raises Misfit when it stands for none."""

    def read_text(self, text: str, cursor: Cursor) -> T:
        """The value that a whole reply in prose stands for. Raises Misfit when it stands for none."""
        raise cursor.failure(f"expected {self.kind}", text)

    def write(self, value: Any) -> Json:
        """The JSON value that is read as ``value``. Raises ValueError for what has no JSON form.

        It is not checked in full that ``value`` is of the type: whoever writes reads it again.
        """
        try:
            return _exact(value if isinstance(value, Decimal) else to_jsonable_python(value, fallback=str))
        except USER_CODE_ERRORS as error:  # whatever is asked for its text may refuse
            raise ValueError(f"expected {self.kind}, found {type(value).__name__}") from error

    def count_keys(self, value: Any) -> int:
        """How many JSON keys an exact text of this value has."""
        return 0

    def fixed_keys(self) -> int | None:
        """That number where it is the same for all values, else None."""
        return None if self.parts else 0


def _exact(data: Any) -> Json:
    """A Python value of JSON with its floats as decimals, as all JSON has them here."""
    if isinstance(data, float):
        number = Decimal(repr(data))
        return number.quantize(_TENTH) if number.as_tuple().exponent == 0 else number  # not to be an integer
    if isinstance(data, dict):
        return {key: _exact(value) for key, value in data.items()}
    return [_exact(item) for item in data] if isinstance(data, list) else data


class RecursiveNode(Node[T]):
    """Stands for a part that is being taken apart already: the way round in a recursive type."""

    kind = "a value"
    exact = True  # it adds nothing to what its target says of itself

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node[T] | None = None

    @property
    def target(self) -> Node[T]:
        assert self.node is not None, "a recursive part is used before it is taken apart"
        return self.node

    @property
    def any_text(self) -> bool:  # type: ignore[override]
        return self.target.any_text

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self.target,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        if self.target.named:
            return self.target.schema(definitions)
        return definitions.define(self.target, self.name, self.target.schema)

    def hint(self, enclosing: tuple[Node[Any], ...] = ()) -> str:
        return self.name if self.target in enclosing else self.target.hint(enclosing)

    def read(self, data: Json, cursor: Cursor) -> T:
        return self.target.read(data, cursor)

    def write(self, value: Any) -> Json:
        return self.target.write(value)

    def count_keys(self, value: Any) -> int:
        return self.target.count_keys(value)


class Definitions:
    """The named schemas of one whole schema: what is used twice, or inside itself, is written once."""

    def __init__(self, named: frozenset[Node[Any]] = frozenset()) -> None:
        self.named = named
        self.schemas: dict[str, JsonSchema] = {}
        self.repeated: set[Node[Any]] = set()
        self._names: dict[Node[Any], str] = {}
        self._seen: set[Node[Any]] = set()

    def define(self, node: Node[Any], name: str, build: Any) -> JsonSchema:
        """The schema of an object: in place, or as a reference to its definition."""
        if node not in self.named:
            if node in self._seen:
                self.repeated.add(node)
                return {}  # only in the pass that finds what repeats
            self._seen.add(node)
            in_place: JsonSchema = build(self)
            return in_place
        if node not in self._names:
            self._names[node] = self._free_name(name)
            self.schemas[self._names[node]] = {}
            self.schemas[self._names[node]] = build(self)
        return {"$ref": f"#/$defs/{self._names[node]}"}

    def _free_name(self, name: str) -> str:
        bare = re.sub(r"\W+", "_", name).rstrip("_")  # providers take no brackets in a name
        free, number = bare, 2
        while free in self.schemas:
            free, number = f"{bare}{number}", number + 1
        return free


def walk(node: Node[Any]) -> Iterator[Node[Any]]:
    """A node and all its parts, each once."""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting.extend(current.parts)


def schema_of(node: Node[Any]) -> JsonSchema:
    """The JSON Schema (draft 2020-12) of a type. Its root is never a reference, as providers demand.

    What stands in the type twice, or in itself, is written once under ``$defs``.
    """
    first = Definitions()
    root = node.schema(first)
    if not first.repeated and not first.schemas:
        return root
    definitions = Definitions(frozenset(first.repeated))
    root = node.schema(definitions)
    if set(root) == {"$ref"}:
        root = dict(definitions.schemas[root["$ref"].rpartition("/")[2]])
    return {**root, "$defs": definitions.schemas}


def with_description(schema: JsonSchema, description: str | None) -> JsonSchema:
    """A schema with a description; a reference is wrapped, for strict modes permit it no neighbours."""
    if not description:
        return schema
    if "$ref" in schema:
        return {"anyOf": [schema], "description": description}
    inner = schema.get("description")
    both = f"{description} ({inner})" if inner and inner != description else description
    return {**schema, "description": both}


_STRICT_KEYWORDS = frozenset(
    "type properties required additionalProperties items enum const anyOf description title $ref $defs "
    "pattern format multipleOf maximum exclusiveMaximum minimum exclusiveMinimum minItems maxItems".split()
)
_STRICT_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())


def is_strict(schema: JsonSchema) -> bool:
    """Whether a schema lies in the subset that OpenAI's strict mode enforces.

    Every object closed with all its properties required, and no keyword outside the list in OpenAI's
    guide "Structured model outputs", section "Supported schemas".
    """
    return schema.get("type") == "object" and _is_strict(schema)


def _is_strict(schema: Any) -> bool:
    if not isinstance(schema, dict) or not schema or not schema.keys() <= _STRICT_KEYWORDS:
        return False
    if schema.get("format", "date") not in _STRICT_FORMATS:
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties)
    ):
        return False
    below = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    return all(map(_is_strict, [*below, schema["items"]] if "items" in schema else below))


T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class OutputParser(Protocol[T_co]):
    """Text from a model → a typed value.

    ``schema`` is the JSON Schema of what a model is to write; None when plain text is wanted.
    ``format_instructions`` says the same in words for a prompt; "" when anything goes. ``parse`` raises
    OutputParsingError, and nothing else, when a text is unfit.
    """

    @property
    def schema(self) -> Mapping[str, Any] | None: ...
    def format_instructions(self) -> str: ...
    def parse(self, text: str) -> T_co: ...


class CustomNode(Node[Any]):
    """A part that a user's parser reads: JSON strings as their text, all else as JSON text."""

    prose = True

    def __init__(self, name: str, parser: OutputParser[Any]) -> None:
        self._parser = parser
        self.kind = f"a value for {name}"

    def schema(self, definitions: Definitions) -> JsonSchema:
        return dict(self._parser.schema or {"type": "string"})

    def hint(self, enclosing: tuple[Node[Any], ...] = ()) -> str:
        said = " ".join(self._parser.format_instructions().split())
        return f"string ({said})" if said else "string"

    def read(self, data: Json, cursor: Cursor) -> Any:
        if is_non_finite(data):  # its text would be a word
            raise cursor.failure(f"expected {self.kind}", data)
        text = data if isinstance(data, str) else dump_json(data)
        try:
            return self._parser.parse(text)
        except OutputParsingError as error:
            raise ValidationFailure(
                *(Problem(cursor.path + p.path[1:], p.message, p.found) for p in error.problems)
            ) from error

    def read_text(self, text: str, cursor: Cursor) -> Any:
        return self.read(text, cursor)
