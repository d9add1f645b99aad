"""Describe a service and its methods as plain JSON data."""

from __future__ import annotations

from collections.abc import Mapping

from output_parsers.result.reading import JsonObject
from output_parsers.types.target import type_name

from ..service.signatures import ReturnShape
from .contract import Argument, Contract, Method, event_schema

_GENERIC_NAMES = {
    ReturnShape.RESULT: "Result",
    ReturnShape.STREAM: "Stream",
    ReturnShape.ITEMS: "Iterator",
    ReturnShape.TEXT_STREAM: "Iterator",
}


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
