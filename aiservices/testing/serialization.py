"""Convert model requests and replies to JSON data without secrets, and convert replies back.

Cassettes and the seeds of fake answers are made from this JSON. Also writes files atomically.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..models.messages import ReplyDelta, ToolCallDelta, message_to_dict
from ..models.questions import DecisionFormat
from ..models.requests import ChatRequest, ImageFormat, JsonSchemaFormat

REMOVED = "(removed)"
_NOT_RECORDED = ("timeout", "extra_headers")  # they differ from run to run, or contain credentials
_SECRET_NAME = re.compile(
    r"api[-_]?key|authori[sz]ation|^auth$|password|passwd|secret|credential|cookie"
    r"|^(.*[-_])?(access|bearer|refresh|id|ad|session)?[-_]?token$",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"\bsk-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}"  # an OpenAI key; without a digit it is a word
    r"|(?<=\bBearer )[A-Za-z0-9._~+/-]{16,}=*"
    r"|(?<=//)[^/@\s\"]+(?=@)"  # user name and password in a URL
    r"|(?<=[?&](?:sig|key)=)[^&\s\"]+|(?<=[?&]token=)[^&\s\"]+|(?<=[?&]api_key=)[^&\s\"]+"
    r"|(?<=[?&]access_token=)[^&\s\"]+|(?<=[?&]X-Amz-Signature=)[^&\s\"]+"
)
_SECRET_VARIABLE = re.compile(r"(API_KEY|AD_TOKEN|ACCESS_TOKEN|AUTH_TOKEN|SECRET_KEY)$")
_MIN_SECRET_LENGTH = 8  # a shorter value may be a word of the prompt


def request_to_json(request: ChatRequest) -> dict[str, Any]:
    """Convert a model request to JSON data, without headers, timeout, deadline and empty fields."""
    options = {name: value for name, value in asdict(request.options).items() if value is not None}
    for name in _NOT_RECORDED:
        options.pop(name, None)
    data: dict[str, Any] = {"messages": [message_to_dict(message) for message in request.messages]}
    if options:
        data["options"] = options
    response_format = request.response_format
    if isinstance(response_format, JsonSchemaFormat):
        data["response_format"] = {
            "name": response_format.name,
            "strict": response_format.strict,
            "schema": response_format.schema,
        }
    elif isinstance(response_format, DecisionFormat):
        questions = [question._asdict() for question in response_format.questions]
        data["response_format"] = {"task": response_format.task, "questions": questions}
    elif response_format is not None:
        is_image = isinstance(response_format, ImageFormat)
        data["response_format"] = "images" if is_image else "json_object"
    if request.logprobs:
        data["logprobs"] = request.logprobs
    if request.tooling is not None:
        data["tooling"] = {
            "choice": request.tooling.choice,
            "parallel": request.tooling.parallel_calls,
            "tools": [asdict(tool) for tool in request.tooling.tools],
        }
    # The round trip turns tuples into lists: a request compares equal to one that was read from a file.
    plain: dict[str, Any] = json.loads(json.dumps(data, default=str))
    return plain


def delta_to_json(delta: ReplyDelta) -> str | dict[str, Any]:
    """Convert one chunk of a streamed model reply to JSON data.

    The whole reply that the last chunk carries is left out.

    A delta that has only text becomes a string.
    """
    if not delta.tool_calls and not delta.reasoning:
        return delta.text
    data = {name: value for name, value in (("text", delta.text), ("reasoning", delta.reasoning)) if value}
    return {**data, "tool_calls": [asdict(call) for call in delta.tool_calls]}


def delta_from_json(data: str | Mapping[str, Any]) -> ReplyDelta:
    """Convert JSON data back to a chunk of a streamed model reply."""
    if isinstance(data, str):
        return ReplyDelta(data)
    calls = tuple(ToolCallDelta(**call) for call in data.get("tool_calls", ()))
    return ReplyDelta(data.get("text", ""), data.get("reasoning", ""), tool_calls=calls)


def without_secrets(data: object, redact: Callable[[str], str]) -> Any:
    """Replace secrets in JSON data by "(removed)".

    A secret is recognized by its key, by its form, or because an environment variable such as
    ``…_API_KEY`` has it as its value. Then ``redact`` is applied to each text.
    """
    if isinstance(data, dict):
        return {
            key: REMOVED
            if isinstance(value, str) and _SECRET_NAME.search(key)
            else without_secrets(value, redact)
            for key, value in data.items()
        }
    if isinstance(data, list):
        return [without_secrets(item, redact) for item in data]
    return redact(_text_without_secrets(data)) if isinstance(data, str) else data


def _text_without_secrets(text: str) -> str:
    for name, value in os.environ.items():
        if len(value) >= _MIN_SECRET_LENGTH and value in text and _SECRET_VARIABLE.search(name):
            text = text.replace(value, REMOVED)
    return _SECRET_TEXT.sub(REMOVED, text)


def canonical_json(data: object) -> str:
    """Convert JSON data to an indented text with sorted keys, which is the same for equal data."""
    return json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True)


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically, so that the old file remains if writing fails; create missing folders.

    A new file gets permissions for its owner only, because it contains prompts. An existing file keeps its
    permissions.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid4().hex}")
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        with suppress(FileNotFoundError):
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
