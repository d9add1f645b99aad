"""Writes values for people and for programs."""

from __future__ import annotations

import json
import os
from enum import Enum
from typing import Any

from output_parsers.registry import DEFAULT_REGISTRY

from ..integrations.fastapi.account import write_result
from ..integrations.fastapi.values import Codec, codec_for
from ..render import render_value
from ..returns import Result

__all__ = ["account_of", "account_text", "for_people"]


def for_people(value: Any, codec: Codec[Any], *, indent: int | None = 2) -> str:
    """A value as a prompt would show it; records and lists as JSON over several lines, or in one.

    Raises ValueError when it cannot be written.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    text = codec.write(value)
    return _indented(text, indent) if text.startswith(("{", "[")) else render_value(value)


def _indented(text: str, indent: int | None) -> str:
    """JSON laid out for reading, with each number as it was written."""
    mark = os.urandom(8).hex()
    numbers: list[str] = []

    def kept(number: str) -> str:
        numbers.append(number)
        return f"{mark}:{len(numbers) - 1}"

    laid_out = json.dumps(json.loads(text, parse_float=kept), indent=indent, ensure_ascii=False)
    for at, number in enumerate(numbers):
        laid_out = laid_out.replace(f'"{mark}:{at}"', number, 1)
    return laid_out


def account_of(result: Result[Any]) -> dict[str, Any]:
    """The account of a call as JSON holds it."""
    plain = Result(
        result.reply.text,
        result.reply,
        result.strategy,
        result.coercions,
        result.attempts,
        result.seconds,
        result.reasons,
        result.tool_runs,
        result.sources,
    )
    account: dict[str, Any] = json.loads(write_result(plain, codec_for(str, DEFAULT_REGISTRY)))["account"]
    return account


def account_text(account: dict[str, Any]) -> str:
    """The account of a call in lines: how it was asked, each request, what was read with leniency, tools."""
    lines = [f"strategy: {account['strategy']} ({'; '.join(account['reasons'])})"]
    for number, attempt in enumerate(account["attempts"], 1):
        ended = f", {attempt['error']}" if attempt["error"] else ""
        lines.append(
            f"attempt {number}: {attempt['model']}, {attempt['seconds']:.2f} s, "
            f"{_tokens(attempt['usage'])}{ended}"
        )
    for step in account["coercions"]:
        changed = f": {step['before']} → {step['after']}" if step["before"] or step["after"] else ""
        lines.append(f"coercion: {step['path']}: {step['rule']}{changed}")
    lines += [
        f"tool: {run['name']}({run['arguments']}) → {run['text']}, {run['seconds']:.2f} s"
        for run in account["tool_runs"]
    ]
    lines.append(f"in all: {account['seconds']:.2f} s, {_tokens(account['usage'])}")
    return "\n".join(lines)


def _tokens(usage: dict[str, int] | None) -> str:
    return "tokens unknown" if usage is None else f"{usage['input_tokens']} + {usage['output_tokens']} tokens"
