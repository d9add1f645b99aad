"""The base class of parsers for Python types, which also write values and generate JSON Schemas.

This file also builds the JSON Schema of a whole type from its nodes, and has the protocol and the node for
parsers that users write themselves.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from pydantic_core import to_jsonable_python

from ..result.errors import USER_CODE_ERRORS, OutputParsingError, Problem
from ..result.reading import Cursor, Json, ValidationFailure, dump_json, is_non_finite

T_co = TypeVar("T_co", covariant=True)
JsonSchema: TypeAlias = dict[str, Any]
CoreSchema: TypeAlias = dict[str, Any]
_TENTH = Decimal("0.1")


class Storage(NamedTuple):
    """The storage of the values of a type in a table with typed columns, such as a Parquet file.

    Attributes:
        kind: ``bool``, ``int``, ``float``, ``decimal``, ``text``, ``null``, ``date``, ``date-time``,
            ``naive-date-time``, ``time``, ``duration``, ``list``, ``map``, ``struct``, ``decision``, or
            ``json`` for all others.
        parts: The storage of the items of a list, of the values of a map or decision, or of each field of a
            struct, with its key.
    """

    kind: str
    parts: tuple[tuple[str, Storage], ...] = ()


def storage_kind_of(schema: Mapping[str, object]) -> str:
    """Return the kind of storage for the values of a JSON Schema, based on its JSON type."""
    kinds = {"string": "text", "integer": "int", "number": "float", "boolean": "bool"}
    return kinds.get(str(schema.get("type")), "json")


class ArrayParts(NamedTuple):
    """The functions that read the items of a JSON array one by one, as they arrive in a stream.

    Attributes:
        first: The parsers of the first items, as in a tuple.
        rest: The parser of all further items; None if there may be none.
        make: Creates the value from the items. Raises ValidationFailure.
    """

    first: tuple[Node[object], ...]
    rest: Node[object] | None
    make: Callable[[list[object], Cursor], object]


class ObjectParts(NamedTuple):
    """The functions that read the members of a JSON object one by one, as they arrive in a stream.

    The object may have any keys.

    Attributes:
        value: The parser of the values.
        read_key: Converts a key. Raises ValidationFailure.
        make: Creates the value from the converted keys and values.
    """

    value: Node[object]
    read_key: Callable[[str, Cursor], object]
    make: Callable[[dict[object, object]], object]


class Node(ABC, Generic[T_co]):
    """Parses and writes the values of one Python type, and describes the type as a JSON Schema.

    A type is analyzed once, into a tree of nodes: ``list[int]`` is a ListNode that contains an IntNode. Its
    JSON Schema, its hint for prompts, and the reading and writing of values all come from this tree.

    Attributes:
        kind: What is expected, in words for error messages (``an integer``).
        exact: pydantic-core's strict JSON mode reads the same values as ``read``, if that also holds for all
            ``parts``.
        prose: A whole reply in prose can be read as a value.
        any_text: Any text can be read as a value.
        named: The schema is a definition with a name if the type contains it twice.
        pydantic_reads_json: pydantic can read the JSON of the type, if that also holds for all ``parts``.
        identity_type: JSON values of this type are read unchanged; None for no type.
        runs_user_code: Reading may call a validator that the user wrote, apart from those of ``parts``.
        json_types: The types of JSON values that are read without a conversion; None if any may be.
        partial_text: A string may be shown while it is being written.
        core_type: The type of the pydantic-core schema, if the type is all that it needs.
        storage_kind: The kind of the ``storage``, if that has no parts.
        examples: Texts that are values of the type, for generated values; for types whose JSON Schema does
            not say which texts they read.
        part_descriptions: The explanations of the ``parts`` for the model, in their order; empty if no part
            has one.
    """

    kind: str
    exact: bool = False
    prose: bool = False
    any_text: bool = False
    named: bool = False
    pydantic_reads_json: bool = True
    identity_type: type | None = None
    runs_user_code: bool = False
    json_types: frozenset[type] | None = None
    partial_text: bool = False
    core_type: str = ""
    storage_kind: str = "json"
    examples: tuple[str, ...] = ()
    part_descriptions: tuple[str | None, ...] = ()

    @property
    def parts(self) -> tuple[Node[object], ...]:
        """The parsers of the types inside this type: those of its items, fields or union members."""
        return ()

    def parts_of(self, data: Json) -> dict[Any, Node[object]]:
        """Return the parsers of the items or members of JSON data, by their index or key."""
        return {}

    @abstractmethod
    def schema(self, definitions: Definitions) -> JsonSchema:
        """Return the JSON Schema of the type that this parser reads.

        The schemas of classes that the type uses twice go to ``definitions``.
        """

    @abstractmethod
    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        """Return a short description of the type for prompts, such as ``{"name": string}``.

        ``enclosing`` are the nodes around this one; a recursive type writes only its name inside itself.
        """

    def part_schemas(self, definitions: Definitions) -> list[JsonSchema]:
        """Return the JSON Schemas of a type's items, fields or union members, with their descriptions."""
        return [
            with_description(part.schema(definitions), description)
            for part, description in zip_longest(self.parts, self.part_descriptions)
        ]

    def part_hints(self, enclosing: tuple[Node[object], ...]) -> list[str]:
        """Describe a type's items, fields or union members in the short notation of prompts."""
        return [
            described_hint(part.hint((*enclosing, self)), description)
            for part, description in zip_longest(self.parts, self.part_descriptions)
        ]

    @abstractmethod
    def read(self, data: Json, cursor: Cursor) -> T_co:
        """Convert a JSON value to a value of the Python type, such as ``{"name": "Ann"}`` to a ``Person``.

        Raises ValidationFailure if it does not fit. Every conversion is recorded in ``cursor``, which also
        knows the path of ``data`` in the reply.
        """

    def read_text(self, text: str, cursor: Cursor) -> T_co:
        """Convert a whole reply in prose to a value of the Python type.

        Raises ValidationFailure if the reply does not fit.
        """
        raise cursor.failure(f"expected {self.kind}", text)

    def json_node(self, built: JsonNodes) -> Node[Json]:
        """Return a node that reads the same JSON, but returns the JSON that pydantic reads as the value.

        It runs no validators. ``built`` are the nodes for the types around this one; see ``json_node_of``.
        """
        return JsonLeafNode(self) if self.identity_type is None else self

    def convert_json(self, data: Json, cursor: Cursor) -> Json:
        """Return JSON that pydantic reads as ``read`` reads ``data``: the data itself if it fits.

        It has no Decimals, which Python's JSON encoder cannot write. Raises ValidationFailure if the data
        does not fit, and records conversions as ``read`` does.
        """
        before = len(cursor.coercions)
        value = self.read(data, cursor)
        return data if len(cursor.coercions) == before else plain_json(value)

    def write(self, value: object) -> Json:
        """Convert a value of the Python type to the JSON value that represents it.

        Raises ValueError if JSON cannot represent it. The type of ``value`` is not fully checked:
        TypeParser.write reads the result back and compares.
        """
        try:
            plain = value if isinstance(value, Decimal) else plain_json(value)
            return _with_decimals(plain)
        except USER_CODE_ERRORS as error:  # raised by the ``__str__`` of a user's class, for instance
            raise ValueError(f"expected {self.kind}, found {type(value).__name__}") from error

    @property
    def brackets(self) -> str:
        """The opening brackets of the JSON objects and arrays that may be a value."""
        types = self.json_types
        return "{[" if types is None else "{" * (dict in types) + "[" * (list in types)

    def array_parts(self) -> ArrayParts | None:
        """Return how streamed JSON arrays are read item by item; None if they are read as a whole."""
        return None

    def object_parts(self) -> ObjectParts | None:
        """Return how streamed JSON objects with any keys are read; None if they are read as a whole."""
        return None

    def core_schema(self) -> CoreSchema:
        """Return a pydantic-core schema that accepts the same valid JSON as ``read``, if ``exact`` is true.

        Raises TypeError if such a schema does not exist, for instance for a recursive type.
        """
        if not self.core_type:
            raise TypeError(f"no pydantic-core schema is built for {type(self).__name__}")
        return {"type": self.core_type}

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        """Return how the values are stored in a table with typed columns.

        ``enclosing`` are the nodes around this one; a recursive type is JSON inside itself.
        """
        return Storage(self.storage_kind)

    def count_keys(self, value: object) -> int:
        """Count the object keys in the JSON of a value, to detect unknown and repeated keys in a reply.

        The fast path compares this number with the number of keys in the text.
        """
        return 0

    def fixed_keys(self) -> int | None:
        """Return how many object keys each value of the type has in JSON, or None if the number varies.

        It is 0 for a record that the fast path creates with ``make``, because its keys are counted then.
        """
        return None if self.parts else 0


def plain_json(value: object) -> Json:
    """Return a value as plain JSON: lists and dicts of texts, numbers, booleans and null."""
    plain: Json = to_jsonable_python(value, fallback=_plain)
    return plain


def _plain(value: object) -> object:
    """Return what pydantic-core does not convert; older versions leave out deques."""
    return list(value) if isinstance(value, deque) else str(value)


def _with_decimals(data: object) -> Json:
    """Convert floats in JSON data to exact decimals, as if the data had been parsed from text."""
    if isinstance(data, float):
        number = Decimal(repr(data))
        # 1e16 is Decimal("1E+16"), but a decimal without a fraction would be written as an integer
        return number.quantize(_TENTH) if number.as_tuple().exponent == 0 else number
    if isinstance(data, dict):
        return {key: _with_decimals(value) for key, value in data.items()}
    return [_with_decimals(item) for item in data] if isinstance(data, list) else data


JsonNodes: TypeAlias = "dict[Node[object], Node[Json]]"


class WrapperNode(Node[T_co]):
    """Base class of parsers that do more with the value that another parser reads.

    Attributes:
        inner: The other parser.
    """

    def __init__(self, inner: Node[Any]) -> None:
        self.inner = inner
        self.kind = inner.kind
        self.prose = inner.prose
        self.any_text = inner.any_text

    @property
    def parts(self) -> tuple[Node[object], ...]:
        return (self.inner,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return self.inner.schema(definitions)

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return self.inner.hint(enclosing)

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        return self.inner.storage(enclosing)

    def write(self, value: object) -> Json:
        return self.inner.write(value)


class JsonLeafNode(WrapperNode[Json]):
    """Reads a value that has no parts, and returns it as the JSON that pydantic reads."""

    @property
    def parts(self) -> tuple[Node[object], ...]:
        return ()

    def read(self, data: Json, cursor: Cursor) -> Json:
        return self.inner.convert_json(data, cursor)

    def read_text(self, text: str, cursor: Cursor) -> Json:
        return plain_json(self.inner.read_text(text, cursor))


def json_node_of(node: Node[object], built: JsonNodes) -> Node[Json]:
    """Return the node that converts JSON for pydantic (``Node.json_node``), once for each node.

    ``built`` has the nodes so far, so that this ends for recursive types.
    """
    if node not in built:
        placeholder: RecursiveNode[Json] = RecursiveNode("")
        built[node] = placeholder
        placeholder.node = built[node] = node.json_node(built)
    return built[node]


class RecursiveNode(Node[T_co]):
    """A placeholder for a recursive type inside its own definition; it delegates to the type's parser.

    Attributes:
        name: The name of the type, for hints and schema definitions.
        node: The node of the type; None only while that node is being built.
    """

    kind = "a value"
    exact = True  # the target, which is among the parts, decides

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node[T_co] | None = None

    @property
    def target(self) -> Node[T_co]:
        """The recursive type's actual parser, to which this placeholder delegates."""
        assert self.node is not None, "a recursive type is used before its node is built"
        return self.node

    @property
    def any_text(self) -> bool:  # type: ignore[override]  # a property in place of an attribute
        return self.target.any_text

    @property
    def json_types(self) -> frozenset[type] | None:  # type: ignore[override]  # a property in place of an attribute
        return None if self.node is None else self.node.json_types

    @property
    def parts(self) -> tuple[Node[object], ...]:
        return (self.target,)

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        return Storage("json") if self in enclosing else self.target.storage((*enclosing, self))

    def schema(self, definitions: Definitions) -> JsonSchema:
        if self.target.named:
            return self.target.schema(definitions)
        return definitions.define(self.target, self.name, self.target.schema)

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return self.name if self.target in enclosing else self.target.hint(enclosing)

    def read(self, data: Json, cursor: Cursor) -> T_co:
        return self.target.read(data, cursor)

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return json_node_of(self.target, built)

    def write(self, value: object) -> Json:
        return self.target.write(value)

    def count_keys(self, value: object) -> int:
        return self.target.count_keys(value)


SchemaBuilder: TypeAlias = "Callable[[Definitions], JsonSchema]"


class Definitions:
    """Collects the ``$defs`` of a JSON Schema: types that are recursive or occur several times.

    A schema is built in two passes. The first finds the nodes that repeat, the second defines these by name.

    Attributes:
        named: The nodes whose schemas are defined by name; empty in the first pass.
        schemas: The definitions so far, by name.
        repeated: The nodes that the first pass met more than once.
    """

    def __init__(self, named: frozenset[Node[object]] = frozenset()) -> None:
        self.named = named
        self.schemas: dict[str, JsonSchema] = {}
        self.repeated: set[Node[object]] = set()
        self._names: dict[Node[object], str] = {}
        self._seen: set[Node[object]] = set()

    def define(self, node: Node[object], name: str, build: SchemaBuilder) -> JsonSchema:
        """Return a type's JSON Schema, or a ``$ref`` if the schema is a definition under ``$defs``."""
        if node not in self.named:
            if node in self._seen:
                self.repeated.add(node)
                return {}  # this happens only in the first pass, whose schema is discarded
            self._seen.add(node)
            return build(self)
        if node not in self._names:
            self._names[node] = self._free_name(name)
            self.schemas[self._names[node]] = {}  # reserves the name while its own schema refers to it
            self.schemas[self._names[node]] = build(self)
        return {"$ref": f"#/$defs/{self._names[node]}"}

    def _free_name(self, name: str) -> str:
        bare = re.sub(r"\W+", "_", name).rstrip("_")  # providers reject brackets in a name
        free, number = bare, 2
        while free in self.schemas:
            free, number = f"{bare}{number}", number + 1
        return free


def walk(node: Node[object]) -> Iterator[Node[object]]:
    """Yield the parser of a type and the parsers of all types nested in it, each once.

    This ends for recursive types too.
    """
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting.extend(current.parts)


def schema_of(node: Node[object], make_definitions: type[Definitions] = Definitions) -> JsonSchema:
    """Return the JSON Schema (draft 2020-12) of the type that a parser reads.

    A class that the type uses twice, or that contains itself, is defined once under ``$defs``. The root is
    never a reference, because providers reject that.
    """
    first = make_definitions()
    root = node.schema(first)
    if not first.repeated and not first.schemas:
        return root
    definitions = make_definitions(frozenset(first.repeated))
    root = node.schema(definitions)
    name = root["$ref"].removeprefix("#/$defs/") if set(root) == {"$ref"} else None
    if name in definitions.schemas:  # not a reference to a part of a definition
        named: object = definitions.schemas[name]  # may be true or false
        root = dict(named) if isinstance(named, dict) else {"allOf": [named]}
    return {**root, "$defs": definitions.schemas}


def with_description(schema: JsonSchema, description: str | None) -> JsonSchema:
    """Return a JSON Schema with a description added.

    A reference is wrapped in ``anyOf``, because strict modes reject other keywords next to ``$ref``.
    """
    if not description:
        return schema
    if "$ref" in schema:
        return {"anyOf": [schema], "description": description}
    inner = schema.get("description")
    both = f"{description} ({inner})" if inner and inner != description else description
    return {**schema, "description": both}


def described_hint(hint: str, description: str | None) -> str:
    """Add a description in parentheses to a short type notation for a prompt: ``int (in metres)``."""
    text = " ".join((description or "").split())
    return f"{hint} ({text})" if text else hint


_STRICT_KEYWORDS = frozenset(
    "type properties required additionalProperties items enum const anyOf description title $ref $defs "
    "pattern format multipleOf maximum exclusiveMaximum minimum exclusiveMinimum minItems maxItems".split()
)
_STRICT_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())


def closed_object(properties: dict[str, JsonSchema], required: Sequence[str] | None = None) -> JsonSchema:
    """Return the JSON Schema of an object that has no other properties; by default, all are required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }


def is_strict(schema: JsonSchema) -> bool:
    """Return True if OpenAI's strict mode supports a JSON Schema unchanged.

    Every object must forbid additional properties and require all declared ones, and every keyword must be in
    the list of OpenAI's guide "Structured model outputs", section "Supported schemas".
    """
    return schema.get("type") == "object" and _is_strict(schema)


def _is_strict(schema: object) -> bool:
    # an empty schema means any JSON, which strict mode cannot enforce
    if not isinstance(schema, dict) or not schema or not schema.keys() <= _STRICT_KEYWORDS:
        return False
    if schema.get("format", "date") not in _STRICT_FORMATS:
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties)
    ):
        return False
    subschemas = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    return all(map(_is_strict, [*subschemas, schema["items"]] if "items" in schema else subschemas))


@runtime_checkable
class OutputParser(Protocol[T_co]):
    """Protocol for objects that convert a model's reply to a typed value.

    Any object with these three members is an output parser; no base class is needed.
    """

    @property
    def schema(self) -> Mapping[str, Json] | None:
        """The JSON Schema that the model's reply must follow; None if the reply is plain text."""
        ...

    def format_instructions(self) -> str:
        """Return prompt instructions that describe the reply format; "" if any text is accepted."""
        ...

    def parse(self, text: str) -> T_co:
        """Convert a model's reply to a value of the parser's type.

        Raises OutputParsingError, and no other error, if the text does not fit.
        """
        ...


class CustomNode(Node[Any]):
    """Reads a value with a user-written output parser.

    The parser receives the content of a JSON string, and any other JSON value as its JSON text.
    """

    prose = True
    pydantic_reads_json = False

    def __init__(self, name: str, parser: OutputParser[object]) -> None:
        self._parser = parser
        self.kind = f"a value for {name}"

    def schema(self, definitions: Definitions) -> JsonSchema:
        return dict(self._parser.schema or {"type": "string"})

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        instructions = " ".join(self._parser.format_instructions().split())
        return f"string ({instructions})" if instructions else "string"

    def read(self, data: Json, cursor: Cursor) -> object:
        if is_non_finite(data):  # its text would be the word NaN, which the parser could mistake for content
            raise cursor.failure(f"expected {self.kind}", data)
        text = data if isinstance(data, str) else dump_json(data)
        try:
            return self._parser.parse(text)
        except OutputParsingError as error:
            raise ValidationFailure(
                *(Problem(cursor.path + p.path[1:], p.message, p.found) for p in error.problems)
            ) from error

    def read_text(self, text: str, cursor: Cursor) -> object:
        return self.read(text, cursor)

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        return Storage(storage_kind_of(self.schema(Definitions())))
