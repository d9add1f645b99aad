"""Writes the grammar of a reply: JSON of a schema, calls of the tools that are offered, or one of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiservices.requests import ToolSpecification

from .formats import bounded
from .telling import ANSWER, CALL

__all__ = ["ANY_OBJECT", "Form", "grammar_of_calls", "grammar_of_schema", "schema_of"]

# llguidance, not the converter behind response_format: it writes JSON on one line, so a model cannot pad
# it (half the tokens, measured), and it enforces ranges, patterns, tuples and maxProperties.
_HEAD = "%llguidance {}\n"
_LAYOUT = {"whitespace_flexible": False, "key_separator": ": ", "item_separator": ", ", "lenient": True}
_TEXT = r"/(.|\n)+/"
# A small model may write the same call again and again, to the limit of its tokens.
_MOST_CALLS = 4
ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Form:
    """What a reply may be.

    ``response_format`` is the form of the answer as llama.cpp is told of it, None for free text; ``tools``
    are those that are offered, several of them in one reply where ``parallel``; ``calls`` and ``answers``
    say whether the reply may be calls, and whether it may be an answer.
    """

    response_format: Mapping[str, Any] | None = None
    tools: tuple[ToolSpecification, ...] = ()
    parallel: bool = True
    calls: bool = True
    answers: bool = True

    @property
    def key(self) -> str:
        """The same for forms that are constrained in the same way."""
        tools = [[tool.name, tool.parameters] for tool in self.tools]
        return json.dumps([self.response_format, tools, self.parallel, self.calls, self.answers])


def schema_of(response_format: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the answer."""
    schema: Mapping[str, Any] = response_format.get("json_schema", {}).get("schema", ANY_OBJECT)
    return schema


def grammar_of_schema(schema: Mapping[str, Any]) -> str:
    """The grammar of an answer that is JSON and nothing else."""
    return f"{_HEAD}start: {_json(schema)}"


def grammar_of_calls(form: Form, arguments: Callable[[ToolSpecification], Mapping[str, Any]]) -> str:
    """The grammar of calls, or an answer where one is allowed; ``arguments`` gives the schema of a tool's."""
    names = [f"tool{number}" for number in range(len(form.tools))]
    several = rf' ("\n" call){{0,{_MOST_CALLS - 1}}}' if form.parallel else ""
    starts = [start for start, may in (("calls", form.calls), ("answer", form.answers)) if may]
    rules = [f"start: {' | '.join(starts)}", f"calls: call{several}", f"call: {' | '.join(names)}"]
    for name, tool in zip(names, form.tools, strict=True):
        opening = f'{CALL}{{"name": {json.dumps(tool.name)}, "arguments": '
        rules.append(f'{name}: {json.dumps(opening)} {_json(arguments(tool))} "}}"')
    if form.answers:
        answer = _TEXT if form.response_format is None else _json(schema_of(form.response_format))
        rules.append(f"answer: {json.dumps(ANSWER)} {answer}")
    return _HEAD + "\n".join(rules)


def _json(schema: Mapping[str, Any]) -> str:
    return "%json " + json.dumps({**bounded(schema), "x-guidance": _LAYOUT})
