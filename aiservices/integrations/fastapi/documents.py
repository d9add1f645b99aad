"""What the OpenAPI document says of problems: which there may be for a method, and what they look like."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from .answers import PROBLEM_JSON
from .contract import Method
from .problems import KINDS, Problem

__all__ = ["PROBLEM", "problem_schema", "responses_of"]

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
