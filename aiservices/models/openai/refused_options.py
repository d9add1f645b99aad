"""Options that models with OpenAI's APIs refuse, such as a temperature, so that requests leave them out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from ..errors import ModelError
from ..http.api import RefusedOptions, has_member
from ..http.base import HttpRequest
from ..requests import ChatOptions, ReasoningEffort

# The options, with their names in the requests of both APIs. `stop` is not among them: without it, the answer
# would be another one.
_MEMBERS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "reasoning_effort": "effort",  # the last part of `reasoning.effort` and of `reasoning_effort`
    "service_tier": "service_tier",
    "parallel_tool_calls": "parallel_tool_calls",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_completion_tokens",
}
_EFFORTS: tuple[str, ...] = get_args(ReasoningEffort)
_REFUSAL = re.compile(
    r"support|unknown|unrecogni|unexpected|not permitted|not allowed|extra inputs|only the default"
)
_PARAMETER = re.compile(r'"param"\s*:\s*"([^"]*)"')
# The engine handles refusals of these.
_OF_STRATEGIES = re.compile(r"tool_choice|response_format|json_schema|text\.format")
_VALUES = re.compile(r"(?:(?:supported|allowed) values|must be one of|expected one of)(.{0,300})", re.S)


def learn_refusal(error: ModelError, request: HttpRequest, model: str, refused: RefusedOptions) -> bool:
    """Remember the options that a model refused in a request; return False if the error names none.

    Only an error that says that an option is not supported counts. One about a wrong value, such as a
    temperature of 5, is the error of the caller.
    """
    text = (error.body or str(error)).lower()
    if not _REFUSAL.search(text):
        return False
    parameter = _PARAMETER.search(text)
    if parameter is not None:
        named = {parameter[1].replace("reasoning.", "reasoning_")}
    elif _OF_STRATEGIES.search(text):
        return False
    else:
        named = set(re.findall(r"[a-z_]+", text.replace("reasoning.", "reasoning_")))
    names = [name for name, member in _MEMBERS.items() if name in named and _sends(request, member)]
    for name in names:
        values: tuple[str, ...] = ()
        if name == "reasoning_effort" and (listed := _VALUES.search(text)) is not None:
            words = re.findall(r"[a-z]+", listed[1])
            values = tuple(effort for effort in _EFFORTS if effort in words)
        refused.setdefault(model, {})[name] = values
    return bool(names)


def _sends(request: HttpRequest, member: str) -> bool:
    return has_member(request, member) or (member == "effort" and has_member(request, "reasoning_effort"))


def accepted_options(
    options: ChatOptions, refused: Mapping[str, tuple[str, ...]]
) -> tuple[ChatOptions, tuple[str, ...]]:
    """Return options without those that the model refuses, and what was changed, for ``Result.reasons``."""
    changes: dict[str, str | None] = {}
    notes = []
    for name, values in refused.items():
        value = getattr(options, name, None)
        if value is None or value in values or name == "max_tokens":  # the limit has another name then
            continue
        if values:
            changes[name] = _nearest_effort(value, values)
            accepted = ", ".join(values)
            notes.append(f"{name} was {changes[name]} instead of {value}: the model accepts {accepted}")
        else:
            changes[name] = None
            notes.append(f"{name} was left out: the model refuses it")
    return (replace(options, **changes) if changes else options), tuple(notes)  # type: ignore[arg-type]


def _nearest_effort(effort: str, accepted: tuple[str, ...]) -> str:
    """Return the highest accepted effort up to the requested one, else the lowest."""
    lower = [one for one in accepted if _EFFORTS.index(one) <= _EFFORTS.index(effort)]
    return lower[-1] if lower else accepted[0]
