"""Describe a service's methods in FastAPI's OpenAPI document.

FastAPI builds the OpenAPI document from pydantic types. The schemas of a ``Contract`` are already complete,
so ``schema_type`` wraps a finished JSON Schema in a class that pydantic copies into the document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from output_parsers.json_schema.document import referenced_part
from output_parsers.result.reading import Json, JsonObject
from output_parsers.types.node import JsonSchema

from ...remote.contract import Method
from ...remote.problems import KINDS, PROBLEM_MEDIA_TYPE, Problem

PROBLEM_SCHEMA_NAME = "AiServiceProblem"  # in the components of the document
_DEFS_PREFIX = "#/$defs/"
_RETRY_AFTER = {
    "description": "the seconds after which the same request may succeed",
    "schema": {"type": "integer"},
}


def query_parameters(method: Method) -> list[JsonObject]:
    """Return the OpenAPI descriptions of the query parameters of a service method's GET endpoint."""
    return [
        {
            "name": parameter.name,
            "in": "query",
            "required": parameter.required,
            "schema": parameter.schema,
        }
        for parameter in method.query_parameters or ()
    ]


def error_responses() -> dict[int | str, JsonObject]:
    """Return a dict from HTTP statuses to the OpenAPI descriptions of the error responses."""
    responses: dict[int | str, JsonObject] = {}
    # Several kinds share a status, and OpenAPI has one description for each status.
    for kind in KINDS:
        response = responses.setdefault(kind.status, {"description": "", "content": {}})
        reference = {"$ref": f"#/components/schemas/{PROBLEM_SCHEMA_NAME}"}
        response["content"][PROBLEM_MEDIA_TYPE] = {"schema": reference}
        title = f"{kind.title} (`{kind.type}`)"
        response["description"] = f"{response['description']}; {title}" if response["description"] else title
        if kind.status in (409, 429, 503):
            response["headers"] = {"Retry-After": _RETRY_AFTER}
    return responses


@cache
def problem_schema() -> JsonSchema:
    """Return the JSON Schema of an error response, with all ``$ref`` references resolved."""
    schema = Problem.model_json_schema()

    def inline(part: Json) -> Json:
        if isinstance(part, list):
            return [inline(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return inline(referenced_part(schema, part["$ref"]))
        return {key: inline(value) for key, value in part.items() if key != "$defs"}

    inlined: JsonSchema = inline(schema)
    return inlined


class SchemaType:
    """Base class for types with a custom JSON Schema in FastAPI's OpenAPI document."""

    core: CoreSchema

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return cls.core


def schema_type(
    schema: JsonSchema,
    service: str,
    validate: Callable[[object], object] | None = None,
    components: Mapping[str, JsonSchema] | None = None,
) -> type[SchemaType]:
    """Create a type that FastAPI's OpenAPI document describes by the given JSON Schema.

    ``service`` distinguishes definitions with the same name in different services. ``validate`` converts the
    values; without it every value is accepted. ``components`` maps the names of further schemas to add to the
    document to these schemas.
    """
    definitions: Mapping[str, object] = schema.get("$defs", {})
    root = {key: value for key, value in schema.items() if key != "$defs"}
    refs = {name: _core_ref(service, name, body, definitions) for name, body in definitions.items()}
    # Pydantic adds a definition to the document only if it meets a schema with its reference.
    parts = [_core_schema(body, refs, refs[name]) for name, body in definitions.items()]
    parts += [_core_schema(body, {}, f"{name}:1") for name, body in (components or {}).items()]
    # A root object with a title becomes a component of its own, instead of a copy at each use.
    is_named = root.get("type") == "object" and "title" in root
    ref = _core_ref(service, root["title"], root, definitions) if is_named else None
    core = _core_schema(root, refs, ref, parts=parts, validate=validate)
    return type(str(root.get("title", "Schema")), (SchemaType,), {"core": core})


def _core_ref(service: str, name: str, body: object, definitions: Mapping[str, object]) -> str:
    """Return a key for a JSON Schema definition; equal definitions have equal keys.

    Pydantic merges definitions with the same reference, and numbers definitions with the same name but
    different references. With the hash, equal definitions of several methods become one component.
    """
    text = json.dumps([body, definitions], sort_keys=True, default=str).encode()
    return f"{service}.{name}:{int(sha256(text).hexdigest()[:12], 16)}"


def _core_schema(
    body: object,
    refs: Mapping[str, str],
    ref: str | None,
    *,
    parts: list[CoreSchema] | None = None,
    validate: Callable[[object], object] | None = None,
) -> CoreSchema:
    def json_schema(_: CoreSchema, handler: GetJsonSchemaHandler) -> JsonObject:
        if parts:  # register the definitions first: the references in the body are looked up by name
            handler(core_schema.definitions_schema(core_schema.any_schema(), parts))
        schema: JsonObject = _with_document_references(body, refs, handler)
        return schema

    metadata = {"pydantic_js_functions": [json_schema]}
    if validate is None:
        return core_schema.any_schema(ref=ref, metadata=metadata)
    return core_schema.no_info_plain_validator_function(validate, ref=ref, metadata=metadata)


def _with_document_references(body: Json, refs: Mapping[str, str], handler: GetJsonSchemaHandler) -> Json:
    """Rewrite each ``$ref`` to ``$defs`` as a reference to the OpenAPI document's ``components``."""
    if isinstance(body, list):
        return [_with_document_references(item, refs, handler) for item in body]
    if not isinstance(body, dict):
        return body
    target = body.get("$ref")
    if not (isinstance(target, str) and target.startswith(_DEFS_PREFIX)):
        return {key: _with_document_references(value, refs, handler) for key, value in body.items()}
    name = target.removeprefix(_DEFS_PREFIX).replace("~1", "/").replace("~0", "~")  # JSON pointer escapes
    others = {
        key: _with_document_references(value, refs, handler) for key, value in body.items() if key != "$ref"
    }
    return {**others, **handler(core_schema.definition_reference_schema(refs[name]))}
