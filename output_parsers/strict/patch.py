"""Has only those parts of a reply written anew that do not fit their types."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import unquote

from ..json_schema.parser import schema_parser
from ..parser.extract import strip_reasoning
from ..parser.registry import DEFAULT_REGISTRY
from ..parser.type_parser import TypeParser
from ..result.errors import Problem, UnsupportedTypeError
from ..result.reading import Cursor, Json, Reading, ValidationFailure, dump_json
from ..types.containers import opened
from ..types.node import Definitions, JsonSchema, Node, described, schema_of
from ..types.records import plain_key
from ..types.target import Target
from . import Finding, encode, encoded
from .encode import EncodedNode
from .profiles import OPENAI, PROFILES, Profile

T = TypeVar("T")
_STEP = re.compile(r"\.([^\W\d]\w*)|\[(\d+)\]|\[(\"(?:[^\"\\]|\\.)*\")\]")
Path = tuple[str | int, ...]
_MOST_REFERENCES = 100  # one after the other, which no schema needs that is not a circle


class Patch(NamedTuple, Generic[T]):
    """A reply with parts to be replaced. ``parts`` reads the new ones: an object with a key for each."""

    parts: TypeParser[Any]
    places: dict[str, Path]
    found: Json
    whole: TypeParser[T]

    @property
    def paths(self) -> list[str]:
        """The JSON paths of the parts."""
        return [_told(path) for path in self.places.values()]

    def text(self, parts: dict[str, Json]) -> str:
        """The reply with its parts replaced, as JSON."""
        found = self.found
        for name, path in self.places.items():
            found = _replaced(found, path, parts[name])
        return dump_json(found)

    def read(self, parts: dict[str, Json]) -> Reading[T]:
        """The value of the reply with its parts replaced. Raises OutputParsingError."""
        return self.whole.read(self.text(parts))


def patch_for(parser: TypeParser[T], text: str, problems: Sequence[Problem]) -> Patch[T] | None:
    """The patch that puts ``problems`` of a reply right; None where all of it has to be written anew."""
    found = _json_of(parser, text)
    if not isinstance(found, (dict, list)):
        return None
    plain = _plain(parser)
    schema = schema_of(plain.node)
    paths = {path for problem in problems if (path := _path(problem.path)) is not None}
    wanted: dict[Path, JsonSchema] = {}
    for path in sorted(paths, key=len):
        path, part = _part(schema, found, path)
        if not path:
            return None
        if not any(path[: len(above)] == above for above in wanted):
            wanted[path] = part
    if not wanted or len(paths) < len({problem.path for problem in problems}):
        return None
    places = {_name(path): path for path in wanted}
    if len(places) < len(wanted):
        return None
    try:
        return Patch(_parser(schema, wanted), places, found, plain)
    except UnsupportedTypeError:  # the schema of a part refers to what only the whole one has
        return None


class PartsNode(Node[dict[str, Json]]):
    """The parts as they are written, to the last digit: whether they fit is seen in the whole."""

    def __init__(self, names: Sequence[str], shown: TypeParser[Any]) -> None:
        self.kind = f"an object with {', '.join(names)}"
        self._names = {plain_key(name): name for name in names}
        self._shown = shown

    def schema(self, definitions: Definitions) -> JsonSchema:
        schema = dict(self._shown.schema or {})
        definitions.schemas.update(schema.pop("$defs", {}))
        return schema

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return self._shown.hint

    def read(self, found: Json, at: Cursor) -> dict[str, Json]:
        found = opened(found, "{", at)
        if not isinstance(found, dict):
            raise at.failure(f"expected {self.kind}", found)
        parts: dict[str, Json] = {}
        for key, value in found.items():
            name = key if key in self._names.values() else self._names.get(plain_key(key))
            if name is None:
                at.child(key).record_dropped("unknown key left out")
            elif name in parts:
                raise at.child(key).failure("expected each key once; another key means the same", key)
            else:
                parts[name] = value
        missing = [name for name in self._names.values() if name not in parts]
        if missing:
            raise ValidationFailure(*(Problem(at.child(name).path, "this part is missing") for name in missing))
        return parts


def _plain(parser: TypeParser[T]) -> TypeParser[T]:
    """The parser of the type in its own form."""
    node = parser.node
    return TypeParser(parser.target, node.inner) if isinstance(node, EncodedNode) else parser


def _json_of(parser: TypeParser[Any], text: str) -> Json:
    """The one JSON value in a reply, in the form that the type itself has; None where there is none."""
    try:
        reply = strip_reasoning(text, Cursor())
        whole = reply.whole()
        candidates = [whole] if whole is not None else reply.candidates()
        node = parser.node
        if len(candidates) != 1:
            return None
        value = candidates[0].value
        if not isinstance(node, EncodedNode):
            return value
        undone = node.encoding.undo(value, Cursor())
        return None if undone.problems(()) else undone.value
    except (ValidationFailure, ValueError, RecursionError):
        return None


def _path(path: str) -> Path | None:
    """The steps of a JSON path as ``Problem`` has it; None where a key was too long to be told whole."""
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or " ... " in step[0]:
            return None
        name, index, key = step.groups()
        steps.append(name or (int(index) if index else json.loads(key)))
        at = step.end()
    return tuple(steps)


def _part(schema: JsonSchema, found: Json, path: Path) -> tuple[Path, JsonSchema]:
    """The schema of the part at a path, or of the nearest one around it that can be told."""
    part, at = schema, found
    for depth, step in enumerate(path):
        below = _below(_resolved(schema, part), step)
        last = depth == len(path) - 1
        there = _has(at, step)
        if below is None or not (there or (last and isinstance(at, dict) and isinstance(step, str))):
            return path[:depth], part
        part, at = below, _at(at, step) if there else None
    return path, part


def _has(found: Json, step: str | int) -> bool:
    if isinstance(found, dict):
        return step in found
    return isinstance(found, list) and isinstance(step, int) and step < len(found)


def _at(found: Any, step: str | int) -> Json:
    return found[step]


def _resolved(root: JsonSchema, part: JsonSchema) -> JsonSchema:
    """A schema without a reference around it; of null and another, the other."""
    for _ in range(_MOST_REFERENCES):
        options = [one for one in part.get("anyOf", ()) if one != {"type": "null"}]
        if "$ref" in part:
            part = _target(root, part["$ref"])
        elif len(options) == 1:
            part = options[0]
        else:
            return part
    return {}


def _target(root: JsonSchema, reference: str) -> JsonSchema:
    """What a reference leads to inside of its schema; nothing where it leads elsewhere."""
    part: Any = root
    start, _, pointer = reference.partition("#")
    for step in unquote(pointer).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        part = part.get(key) if isinstance(part, dict) else None
    return part if isinstance(part, dict) and not start and pointer[:1] in ("", "/") else {}


def _below(part: JsonSchema, step: str | int) -> JsonSchema | None:
    if isinstance(step, str):
        known: JsonSchema | None = part.get("properties", {}).get(step)
        others = part.get("additionalProperties")
        return known if known is not None else others if isinstance(others, dict) else None
    first = part.get("prefixItems", ())
    items = first[step] if step < len(first) else part.get("items")
    return items if isinstance(items, dict) else None


def _name(path: Path) -> str:
    return re.sub(r"\W+", "_", "_".join(map(str, path))).strip("_") or "part"


def _parser(schema: JsonSchema, wanted: dict[Path, JsonSchema]) -> TypeParser[Any]:
    parts: JsonSchema = {
        "type": "object",
        "properties": {
            _name(path): described(part, f"the part at {_told(path)}") for path, part in wanted.items()
        },
        "required": [_name(path) for path in wanted],
        "additionalProperties": False,
    }
    if "$defs" in schema:
        parts["$defs"] = schema["$defs"]
    shown = schema_parser(parts, name="parts")
    return TypeParser(Target(Any, alias="parts"), PartsNode(list(parts["properties"]), shown))


def _told(path: Path) -> str:
    place = Cursor()
    for step in path:
        place = place.child(step)
    return place.path


def _replaced(found: Json, path: Path, part: Json) -> Json:
    if not path:
        return part
    step, *rest = path
    if isinstance(found, dict):
        return {**found, step: _replaced(found.get(step), tuple(rest), part)}
    assert isinstance(step, int), "only items of a list are known by a number"
    return [*found[:step], _replaced(found[step], tuple(rest), part), *found[step + 1 :]]


def lint(form_or_schema: Any, profile: Profile | str = OPENAI) -> list[Finding]:
    """What of a Python type, a TypeParser or a JSON Schema (a dict) a profile does not say by itself.

    A finding that is not ``lossless`` means that strict mode is given up. Raises UnsupportedTypeError
    for a type that nothing reads, and ValueError for a profile that is not known.
    """
    if isinstance(profile, str):
        if profile not in PROFILES:
            raise ValueError(f"no profile is named {profile!r}; there are: {', '.join(PROFILES)}")
        profile = PROFILES[profile]
    if isinstance(form_or_schema, dict):
        return list(encode(form_or_schema, profile).findings)
    parser = form_or_schema
    if not isinstance(parser, TypeParser):
        parser = DEFAULT_REGISTRY.parser_for(form_or_schema)
    if not isinstance(parser, TypeParser):
        return list(encode(dict(parser.schema or {"type": "string"}), profile).findings)
    return list(encoded(parser, profile)[1].findings)
