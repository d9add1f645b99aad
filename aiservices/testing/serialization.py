"""Convert model requests and replies to plain JSON without secrets, and replies back.

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

from ..models.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    ReplyDelta,
    ToolCallDelta,
    Usage,
    message_from_dict,
    message_to_dict,
)
from ..models.requests import ChatRequest, JsonSchemaFormat

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
    """Return a request as plain JSON, without headers, timeout, deadline and empty fields."""
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
    elif response_format is not None:
        data["response_format"] = "json_object"
    if request.tooling is not None:
        data["tooling"] = {
            "choice": request.tooling.choice,
            "parallel": request.tooling.parallel_calls,
            "tools": [asdict(tool) for tool in request.tooling.tools],
        }
    # The round trip turns tuples into lists: a request compares equal to one that was read from a file.
    plain: dict[str, Any] = json.loads(json.dumps(data, default=str))
    return plain


def reply_to_json(reply: ChatReply) -> dict[str, Any]:
    """Return a reply as plain JSON, without the raw response of its provider."""
    data: dict[str, Any] = {
        "message": message_to_dict(reply.message),
        "finish_reason": str(reply.finish_reason),
        "model": reply.model,
    }
    if reply.usage is not None:
        data["usage"] = asdict(reply.usage)
    if reply.refusal is not None:
        data["refusal"] = reply.refusal
    return data


def reply_from_json(data: Mapping[str, Any]) -> ChatReply:
    """Return the model reply that was saved as plain JSON, or raise ValueError or KeyError for wrong data."""
    message = message_from_dict(data["message"])
    if not isinstance(message, AiMessage):
        raise ValueError("the message of a reply must be an AiMessage")
    usage = data.get("usage")
    return ChatReply(
        message,
        FinishReason(data["finish_reason"]),
        None if usage is None else Usage(**usage),
        data.get("model", ""),
        refusal=data.get("refusal"),
    )


def delta_to_json(delta: ReplyDelta) -> str | dict[str, Any]:
    """Return one chunk of a streamed model reply as plain JSON for a recording.

    The whole reply that the last chunk carries is left out.

    A delta that has only text becomes a string.
    """
    if not delta.tool_calls and not delta.reasoning:
        return delta.text
    data = {name: value for name, value in (("text", delta.text), ("reasoning", delta.reasoning)) if value}
    return {**data, "tool_calls": [asdict(call) for call in delta.tool_calls]}


def delta_from_json(data: str | Mapping[str, Any]) -> ReplyDelta:
    """Return the chunk of a streamed model reply that was recorded as plain JSON."""
    if isinstance(data, str):
        return ReplyDelta(data)
    calls = tuple(ToolCallDelta(**call) for call in data.get("tool_calls", ()))
    return ReplyDelta(data.get("text", ""), data.get("reasoning", ""), tool_calls=calls)


def without_secrets(data: object, redact: Callable[[str], str]) -> Any:
    """Return plain JSON data with secrets replaced by "(removed)".

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
    """Return plain JSON as an indented text with sorted keys. Equal data has equal text."""
    return json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True)


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically: if writing fails, the old file remains. Creates missing folders.

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
