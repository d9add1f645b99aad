"""Repair an invalid reply by asking the model to rewrite only the parts that do not fit their types.

For a large reply with one wrong field it is cheaper to ask for that field than for the whole reply again::

    reply:      {"people": [{"name": "Ann", "age": "old"}, ...]}     problem at $.people[0].age
    request:    {"people_0_age": <integer>}                          Patch.parts reads {"people_0_age": 31}
    result:     {"people": [{"name": "Ann", "age": 31}, ...]}        Patch.read inserts the new part
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from .json.scanner import parse_json_string
from .json_schema.document import referenced_part
from .json_schema.parser import schema_parser
from .parser.extract import strip_reasoning
from .parser.type_parser import TypeParser
from .result.errors import Problem, UnsupportedTypeError
from .result.reading import Cursor, Json, Reading, ValidationFailure, dump_json
from .strict.encode import EncodedNode
from .types.node import Definitions, JsonSchema, Node, closed_object, schema_of, with_description
from .types.records import normalize_key
from .types.target import Target

T = TypeVar("T")
Path = tuple[str | int, ...]
_STEP = re.compile(r"\.([^\W\d]\w*)|\[(\d+)\]|\[(\"(?:[^\"\\]|\\.)*\")\]")
_MAX_REFERENCES = 100  # a longer chain of references must be a cycle


class Patch(NamedTuple, Generic[T]):
    """The parts of a reply that the model must rewrite, and the parser for the new parts.

    Attributes:
        parts: The parser of the new parts: an object with one key for each.
        paths_by_name: Where each part belongs, by its key in that object.
        original: The JSON value of the reply.
        whole: The parser of the whole reply.
    """

    parts: TypeParser[object]
    paths_by_name: dict[str, Path]
    original: Json
    whole: TypeParser[T]

    @property
    def paths(self) -> list[str]:
        """The JSON paths of the parts to replace in the reply, such as ``$.people[0].age``."""
        return [_json_path(path) for path in self.paths_by_name.values()]

    def text(self, parts: dict[str, Json]) -> str:
        """Return the JSON text of the repaired reply, in which the new parts replace the old ones."""
        value = self.original
        for name, path in self.paths_by_name.items():
            value = _replace(value, path, parts[name])
        return dump_json(value)

    def read(self, parts: dict[str, Json]) -> Reading[T]:
        """Parse the repaired reply, in which the new parts replace the old ones.

        Raises OutputParsingError if the result does not fit the type.
        """
        return self.whole.read(self.text(parts))


def patch_for(parser: TypeParser[T], text: str, problems: Sequence[Problem]) -> Patch[T] | None:
    """Plan which parts of an invalid reply the model must rewrite; return None if it must rewrite all."""
    original = _json_of(parser, text)
    if not isinstance(original, (dict, list)):
        return None
    plain = _plain_parser(parser)
    schema = schema_of(plain.node)
    paths = {path for problem in problems if (path := _parse_path(problem.path)) is not None}
    if len(paths) < len({problem.path for problem in problems}):  # some path could not be parsed
        return None
    schemas: dict[Path, JsonSchema] = {}
    # shorter paths first: a part inside another requested part is not requested separately
    for problem_path in sorted(paths, key=len):
        path, part_schema = _part_schema(schema, original, problem_path)
        if not path:
            return None
        if not any(path[: len(ancestor)] == ancestor for ancestor in schemas):
            schemas[path] = part_schema
    paths_by_name = {_name(path): path for path in schemas}
    if not schemas or len(paths_by_name) < len(schemas):  # two paths got the same name
        return None
    try:
        return Patch(_parts_parser(schema, schemas), paths_by_name, original, plain)
    except UnsupportedTypeError:  # a part has a reference that only the whole schema can resolve
        return None


class PartsNode(Node[dict[str, Json]]):
    """Reads the rewritten parts of an invalid reply as plain JSON.

    Their types are checked later, in the whole reply.
    """

    def __init__(self, names: Sequence[str], described_by: TypeParser[object]) -> None:
        self.kind = f"an object with {', '.join(names)}"
        self._names = {normalize_key(name): name for name in names}
        self._described_by = described_by  # the source of the schema and the hint

    def schema(self, definitions: Definitions) -> JsonSchema:
        schema = dict(self._described_by.schema or {})
        definitions.schemas.update(schema.pop("$defs", {}))
        return schema

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return self._described_by.hint

    def read(self, data: Json, cursor: Cursor) -> dict[str, Json]:
        if isinstance(data, str):
            data = parse_json_string(data, "{", cursor)
        if not isinstance(data, dict):
            raise cursor.failure(f"expected {self.kind}", data)
        parts: dict[str, Json] = {}
        for key, value in data.items():
            name = key if key in self._names.values() else self._names.get(normalize_key(key))
            if name is None:
                cursor.child(key).record_dropped("unknown key left out")
            elif name in parts:
                message = "expected each key once; another key is read as the same key"
                raise cursor.child(key).failure(message, key)
            else:
                parts[name] = value
        missing = [name for name in self._names.values() if name not in parts]
        if missing:
            problems = (Problem(cursor.child(name).path, "this part is missing") for name in missing)
            raise ValidationFailure(*problems)
        return parts


def _plain_parser(parser: TypeParser[T]) -> TypeParser[T]:
    """Return the parser of a type with its original JSON Schema, before changes for strict mode."""
    node = parser.node
    if not isinstance(node, EncodedNode):
        return parser
    return TypeParser(parser.target, node.inner, leniency=parser.leniency)


def _json_of(parser: TypeParser[Any], text: str) -> Json:
    """Return the only JSON value in a reply, converted back from strict mode if necessary.

    Return None if the reply does not have exactly one JSON value.
    """
    try:
        reply = strip_reasoning(text, Cursor())
        whole = reply.read_whole()
        candidates = [whole] if whole is not None else reply.find_candidates()
        node = parser.node
        if len(candidates) != 1:
            return None
        value = candidates[0].value
        if not isinstance(node, EncodedNode):
            return value
        # the paths of problems refer to the plain form, so the reply is repaired in that form
        result = node.encoding.decode_leniently(value, Cursor())
        return None if result.problems(()) else result.value
    except (ValidationFailure, ValueError, RecursionError):
        return None


def _parse_path(path: str) -> Path | None:
    """Split a JSON path such as ``$.people[0].age`` into its keys and indexes.

    Return None if the path contains a shortened key.
    """
    steps: list[str | int] = []
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None or " ... " in step[0]:
            return None
        name, index, key = step.groups()
        steps.append(name or (int(index) if index else json.loads(key)))
        position = step.end()
    return tuple(steps)


def _part_schema(schema: JsonSchema, reply: Json, path: Path) -> tuple[Path, JsonSchema]:
    """Return the path and JSON Schema of the smallest part of a reply that contains the invalid value."""
    part: JsonSchema = schema
    # the schema and the reply are followed together, because both must have the path
    value: Json = reply
    for depth, step in enumerate(path):
        child_schema = _child_schema(_resolve(schema, part), step)
        exists = _has_child(value, step)
        may_be_added = depth == len(path) - 1 and isinstance(value, dict) and isinstance(step, str)
        if child_schema is None or not (exists or may_be_added):
            return path[:depth], part
        part, value = child_schema, value[step] if exists else None
    return path, part


def _has_child(value: Json, step: str | int) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and step < len(value)


def _resolve(root: JsonSchema, part: JsonSchema) -> JsonSchema:
    """Resolve a ``$ref``, and return the other schema for a union of one schema and null."""
    for _ in range(_MAX_REFERENCES):
        options = [option for option in part.get("anyOf", ()) if option != {"type": "null"}]
        if "$ref" in part:
            target = referenced_part(root, part["$ref"])
            part = target if isinstance(target, dict) else {}
        elif len(options) == 1:
            part = options[0]
        else:
            return part
    return {}


def _child_schema(part: JsonSchema, step: str | int) -> JsonSchema | None:
    """Return the JSON Schema for one key of an object or one index of an array.

    Return None if the schema does not declare it.
    """
    if isinstance(step, str):
        member: JsonSchema | None = part.get("properties", {}).get(step)
        others = part.get("additionalProperties")
        return member if member is not None else others if isinstance(others, dict) else None
    prefix = part.get("prefixItems", ())
    items = prefix[step] if step < len(prefix) else part.get("items")
    return items if isinstance(items, dict) else None


def _name(path: Path) -> str:
    return re.sub(r"\W+", "_", "_".join(map(str, path))).strip("_") or "part"


def _parts_parser(schema: JsonSchema, schemas: dict[Path, JsonSchema]) -> TypeParser[object]:
    """Return a parser for the JSON object in which the model sends the rewritten parts of a reply."""
    parts = closed_object(
        {
            _name(path): with_description(part, f"the part at {_json_path(path)}")
            for path, part in schemas.items()
        }
    )
    if "$defs" in schema:
        parts["$defs"] = schema["$defs"]
    described_by = schema_parser(parts, name="parts")
    return TypeParser(Target(Any, alias="parts"), PartsNode(list(parts["properties"]), described_by))


def _json_path(path: Path) -> str:
    cursor = Cursor()
    for step in path:
        cursor = cursor.child(step)
    return cursor.path


def _replace(value: Json, path: Path, part: Json) -> Json:
    """Return a copy of a JSON value in which the part at the given path is replaced."""
    if not path:
        return part
    step, *rest = path
    if isinstance(value, dict):
        return {**value, step: _replace(value.get(step), tuple(rest), part)}
    assert isinstance(step, int), "items of a list have a number in the path"
    return [*value[:step], _replace(value[step], tuple(rest), part), *value[step + 1 :]]
