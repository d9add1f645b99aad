"""Arguments in the query of a GET request, for methods all of whose arguments are simple."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fastapi import Request

from output_parsers.errors import OutputParsingError, shorten

from .answers import ProblemError
from .contract import Argument, Method
from .problems import WrongPart, parts_of, wrong_arguments

__all__ = ["allowed_of", "query_arguments", "query_parameters"]

_EXPECTED = {"integer": "an integer", "number": "a number", "boolean": "true or false"}
_JSON = re.compile(r"true|false|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_KINDS = ("string", "integer", "number", "boolean")


def is_simple(method: Method) -> bool:
    """Whether each argument is a text, a number, a yes or no, or several of one of them."""
    return all(_kind(_inside(argument)) is not None for argument in method.arguments)


def allowed_of(method: Method) -> tuple[str, ...]:
    """The HTTP methods that it answers."""
    return ("POST", "GET") if is_simple(method) else ("POST",)


def query_parameters(method: Method) -> list[dict[str, Any]]:
    """The parameters as the OpenAPI document has them."""
    return [
        {"name": one.name, "in": "query", "required": one.required, "schema": _shown(one)}
        for one in method.arguments
    ]


def query_arguments(request: Request, method: Method) -> dict[str, Any]:
    """The arguments by name. Raises ProblemError with all that do not fit."""
    given = request.query_params
    known = {argument.name: argument for argument in method.arguments}
    parts = [
        WrongPart(path=f"$.{name}", message="there is no such argument")
        for name in given
        if name not in known
    ]
    found: dict[str, Any] = {}
    for name, argument in known.items():
        texts = given.getlist(name)
        if not texts:
            if argument.required:
                parts.append(WrongPart(path=f"$.{name}", message="it is missing"))
        elif len(texts) > 1 and not _is_list(argument):
            parts.append(WrongPart(path=f"$.{name}", message=f"it is given {len(texts)} times"))
        else:
            try:
                found[name] = argument.codec.read(_json_of(texts, argument))
            except OutputParsingError as error:
                parts += _wrong(texts, argument, error)
    if parts:
        raise ProblemError(wrong_arguments(parts, method.where))
    return found


def _wrong(texts: list[str], argument: Argument, error: OutputParsingError) -> list[WrongPart]:
    """What is wrong with the texts of one argument."""
    path, kind = f"$.{argument.name}", _kind(_inside(argument))
    if kind == "string" or all(_JSON.fullmatch(text) for text in texts):
        return parts_of(error, path)
    odd = next(text for text in texts if not _JSON.fullmatch(text))
    return [WrongPart(path=path, message=f"expected {_EXPECTED[str(kind)]}", found=shorten(odd, 60))]


def _json_of(texts: list[str], argument: Argument) -> str:
    """The JSON that the texts of a query stand for: strings are written without quotes."""
    quoted = _kind(_inside(argument)) == "string"
    written = [json.dumps(text, ensure_ascii=False) if quoted else text for text in texts]
    return f"[{', '.join(written)}]" if _is_list(argument) else written[0]


def _is_list(argument: Argument) -> bool:
    return argument.codec.schema.get("type") == "array"


def _shown(argument: Argument) -> Mapping[str, Any]:
    """The schema of a parameter: null has no form in a query, and a parameter may be left out instead."""
    return argument.codec.schema if _is_list(argument) else _inside(argument)


def _inside(argument: Argument) -> Mapping[str, Any]:
    """The schema of the value itself: of an item of a list, of one that may be left out."""
    schema = argument.codec.schema
    if _is_list(argument):
        items: Mapping[str, Any] = schema.get("items") or {}
        return items
    members = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return members[0] if len(members) == 1 and not argument.required else schema


def _kind(schema: Mapping[str, Any]) -> str | None:
    kind = schema.get("type")
    return kind if kind in _KINDS and isinstance(kind, str) else None
