"""Describe a service's methods in FastAPI's OpenAPI document, or as plain JSON data.

FastAPI builds the OpenAPI document from pydantic types. The schemas of a ``Contract`` are already complete,
so ``schema_type`` wraps a finished JSON Schema in a class that pydantic copies into the document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from output_parsers.types.node import JsonSchema
from output_parsers.types.target import type_name

from ...service.compile import ReturnShape
from .codec import JsonObject
from .contract import Argument, Contract, Method, event_schema
from .problems import KINDS, PROBLEM_MEDIA_TYPE, Problem

PROBLEM_SCHEMA_NAME = "AiServiceProblem"  # in the components of the document
_DEFS_PREFIX = "#/$defs/"
_RETRY_AFTER = {
    "description": "the seconds after which the same request may succeed",
    "schema": {"type": "integer"},
}
_GENERIC_NAMES = {
    ReturnShape.RESULT: "Result",
    ReturnShape.STREAM: "Stream",
    ReturnShape.ITEMS: "Iterator",
    ReturnShape.TEXT_STREAM: "Iterator",
}


# --- A service as plain JSON ---


def description_of(
    contract: Contract, prefix: str = "", paths: Mapping[str, str] | None = None, *, allow_get: bool = False
) -> JsonObject:
    """Return a description of a service and its methods as JSON data.

    ``contract`` is what ``contract_of`` returns for the interface.
    The keys are ``name``, ``doc`` and ``methods``. Each method has its ``name``, ``doc``, ``signature`` in
    Python syntax, ``path``, HTTP methods (``http``), ``shape`` of the return value, ``arguments`` (``name``,
    ``type``, ``role``, ``required``, ``default`` in Python syntax, ``schema``), the schema of the ``body``
    and ``returns`` (``type``, ``schema``, and for streams the schema of an ``event``). ``prefix``, ``paths``
    and ``allow_get`` are those of the router.
    """
    return {
        "name": contract.name,
        "doc": contract.doc,
        "methods": [
            _method_description(
                method, prefix + (paths or {}).get(method.name, method.path), allow_get=allow_get
            )
            for method in contract.methods.values()
        ],
    }


def _method_description(method: Method, path: str, *, allow_get: bool) -> JsonObject:
    returns = {"type": method.value_codec.name, "schema": method.value_codec.schema}
    # The schema of the value does not describe the body of a streaming response, so the events are added.
    if method.streams:
        returns["event"] = event_schema(method)
    return {
        "name": method.name,
        "doc": method.doc,
        "signature": _signature_text(method),
        "path": path,
        "http": list(method.http_methods(allow_get=allow_get)),
        "shape": method.returns.shape.value,
        "asynchronous": method.returns.is_async,
        "arguments": [_argument_description(argument, method) for argument in method.arguments],
        "body": method.arguments_codec.schema,
        "returns": returns,
    }


def _argument_description(argument: Argument, method: Method) -> JsonObject:
    default = method.signature.parameters[argument.name].default
    return {
        "name": argument.name,
        "type": f"list[{argument.annotation}]" if argument.variadic else argument.annotation,
        "role": None if argument.role is None else argument.role.value,
        "required": argument.required,
        "default": None if argument.required or argument.variadic else repr(default),
        "schema": argument.codec.schema,
    }


def _signature_text(method: Method) -> str:
    """Return a method's signature as Python code, such as ``is_positive(text: str) -> bool``."""
    parameters = []
    for argument in method.arguments:
        star = "*" if argument.variadic else ""
        has_default = not argument.required and not argument.variadic
        default = f" = {method.signature.parameters[argument.name].default!r}" if has_default else ""
        parameters.append(f"{star}{argument.name}: {argument.annotation}{default}")
    prefix = "async " if method.returns.is_async and not method.streams else ""
    return f"{prefix}{method.name}({', '.join(parameters)}) -> {_return_annotation(method)}"


def _return_annotation(method: Method) -> str:
    shape, inner = method.returns.shape, type_name(method.returns.output_type)
    if shape is ReturnShape.VALUE:
        return inner
    inner = f"{inner} | ItemError" if method.returns.keeps_errors else inner
    prefix = "Async" if method.streams and method.returns.is_async else ""
    return f"{prefix}{_GENERIC_NAMES[shape]}[{inner}]"


# --- Parts of the OpenAPI document ---


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
    definitions = schema.pop("$defs", {})

    def inline(part: object) -> Any:
        if isinstance(part, list):
            return [inline(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return inline(definitions[part["$ref"].rpartition("/")[2]])
        return {key: inline(value) for key, value in part.items()}

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


def _with_document_references(body: object, refs: Mapping[str, str], handler: GetJsonSchemaHandler) -> Any:
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
