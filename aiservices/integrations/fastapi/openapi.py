"""What the OpenAPI document says of problems: which there may be for a method, and what they look like."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from .contract import Method
from .problems import KINDS, PROBLEM_JSON, Problem

PROBLEM = "AiServiceProblem"  # its name under the components

_RETRY_AFTER = {
    "description": "the seconds after which the same request may succeed",
    "schema": {"type": "integer"},
}


@cache
def problem_schema() -> Mapping[str, Any]:
    """The schema of a problem in one piece."""
    schema = Problem.model_json_schema()
    definitions = schema.pop("$defs", {})

    def whole(part: Any) -> Any:
        if isinstance(part, list):
            return [whole(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return whole(definitions[part["$ref"].rpartition("/")[2]])
        return {key: whole(value) for key, value in part.items()}

    found: Mapping[str, Any] = whole(schema)
    return found


def responses_of(method: Method) -> dict[int | str, dict[str, Any]]:
    """The responses other than the answer, by their status."""
    told: dict[int | str, dict[str, Any]] = {}
    for kind in KINDS:
        known = told.setdefault(kind.status, {"description": "", "content": {PROBLEM_JSON: {}}})
        known["content"][PROBLEM_JSON] = {"schema": {"$ref": f"#/components/schemas/{PROBLEM}"}}
        title = f"{kind.title} (`{kind.type}`)"
        known["description"] = f"{known['description']}; {title}" if known["description"] else title
        if kind.name == "rate-limit":
            known["headers"] = {"Retry-After": _RETRY_AFTER}
    return told


_REFERENCE = "#/$defs/"


class SchemaType:
    """A type that is nothing but its JSON Schema; ``schema_type`` makes classes of it."""

    core: CoreSchema

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return cls.core


def schema_type(
    schema: Mapping[str, Any],
    space: str,
    read: Callable[[Any], Any] | None = None,
    beside: Mapping[str, Any] | None = None,
) -> type[SchemaType]:
    """The type of a schema; values of it are what ``read`` makes of what came, or what came.

    ``space`` keeps the names of its definitions apart from those of others. ``beside`` are schemas that are
    to stand under the components too, by their names.
    """
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    root = {key: value for key, value in schema.items() if key != "$defs"}
    names = {name: _name(space, name, body, definitions) for name, body in definitions.items()}
    parts = [_core(body, names, name) for name, body in definitions.items()]
    parts += [_core(body, {name: f"{name}:1"}, name) for name, body in (beside or {}).items()]
    name = _name(space, root["title"], root, definitions) if _is_named(root) else None
    core = _core(root, names, None, parts=parts, own=name, read=read)
    return type(str(root.get("title", "Schema")), (SchemaType,), {"core": core})


def _is_named(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" and "title" in schema


def _name(space: str, name: str, body: Any, definitions: Mapping[str, Any]) -> str:
    """The name of a definition: one name for one definition, wherever it stands."""
    known = json.dumps([body, definitions], sort_keys=True, default=str).encode()
    return f"{space}.{name}:{int(sha256(known).hexdigest()[:12], 16)}"


def _core(
    body: Any,
    names: Mapping[str, str],
    name: str | None,
    *,
    parts: list[CoreSchema] | None = None,
    own: str | None = None,
    read: Callable[[Any], Any] | None = None,
) -> CoreSchema:
    def js(_: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        if parts:  # they come first: what refers to them knows only their names
            handler(core_schema.definitions_schema(core_schema.any_schema(), parts))
        found: dict[str, Any] = _pointed(body, names, handler)
        return found

    metadata = {"pydantic_js_functions": [js]}
    ref = own if name is None else names[name]
    if read is None:
        return core_schema.any_schema(ref=ref, metadata=metadata)
    return core_schema.no_info_plain_validator_function(read, ref=ref, metadata=metadata)


def _pointed(body: Any, names: Mapping[str, str], handler: GetJsonSchemaHandler) -> Any:
    """A schema whose references go to the definitions of the document."""
    if isinstance(body, dict):
        target = body.get("$ref")
        if isinstance(target, str) and target.startswith(_REFERENCE):
            name = target.removeprefix(_REFERENCE).replace("~1", "/").replace("~0", "~")
            rest = {key: _pointed(value, names, handler) for key, value in body.items() if key != "$ref"}
            return {**rest, **handler(core_schema.definition_reference_schema(names[name]))}
        return {key: _pointed(value, names, handler) for key, value in body.items()}
    return [_pointed(one, names, handler) for one in body] if isinstance(body, list) else body
