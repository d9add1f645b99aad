"""Describes a service for a program: the methods, their arguments and answers, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from output_parsers.target import type_name

from ...returns import Shape
from .contract import Argument, Contract, Method
from .events import event_schema
from .queries import allowed_of

__all__ = ["description_of"]

_SHAPES = {
    Shape.RESULT: "Result",
    Shape.STREAM: "Stream",
    Shape.ITEMS: "Iterator",
    Shape.TEXT_STREAM: "Iterator",
}


def description_of(
    contract: Contract, prefix: str = "", paths: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A service as plain JSON.

    It has the ``name``, the ``doc`` and the ``methods``, each with its ``name``, ``doc``, ``signature`` as it
    would be written in Python, ``path``, the HTTP methods in ``http``, the ``shape`` of its answer, its
    ``arguments`` (``name``, ``type``, ``role``, ``required``, ``default`` as Python writes it, ``schema``),
    and ``returns`` (``type``, ``schema``, and for streams that of an ``event``).
    """
    return {
        "name": contract.name,
        "doc": contract.doc,
        "methods": [
            _method(method, prefix + (paths or {}).get(method.name, method.path))
            for method in contract.methods.values()
        ],
    }


def _method(method: Method, path: str) -> dict[str, Any]:
    returns = {"type": method.value.name, "schema": method.value.schema}
    if method.streams:
        returns["event"] = event_schema(method)
    return {
        "name": method.name,
        "doc": method.doc,
        "signature": _signature(method),
        "path": path,
        "http": list(allowed_of(method)),
        "shape": method.returns.shape.value,
        "asynchronous": method.returns.asynchronous,
        "arguments": [_argument(argument, method) for argument in method.arguments],
        "body": method.body.schema,
        "returns": returns,
    }


def _argument(argument: Argument, method: Method) -> dict[str, Any]:
    default = method.signature.parameters[argument.name].default
    return {
        "name": argument.name,
        "type": f"list[{argument.declared}]" if argument.many else argument.declared,
        "role": None if argument.role is None else argument.role.value,
        "required": argument.required,
        "default": None if argument.required or argument.many else repr(default),
        "schema": argument.codec.schema,
    }


def _signature(method: Method) -> str:
    """A method as it is written: ``is_positive(text: str) -> bool``."""
    parameters = []
    for argument in method.arguments:
        said = method.signature.parameters[argument.name]
        star = "*" if argument.many else ""
        default = "" if argument.required or argument.many else f" = {said.default!r}"
        parameters.append(f"{star}{argument.name}: {argument.declared}{default}")
    awaited = "async " if method.returns.asynchronous and not method.streams else ""
    return f"{awaited}{method.name}({', '.join(parameters)}) -> {_returned(method)}"


def _returned(method: Method) -> str:
    """What a method returns, as it is written."""
    shape, inner = method.returns.shape, type_name(method.returns.form)
    if shape is Shape.VALUE:
        return inner
    inner = f"{inner} | ItemError" if method.returns.keeps_errors else inner
    kind = "Async" if method.streams and method.returns.asynchronous else ""
    return f"{kind}{_SHAPES[shape]}[{inner}]"
