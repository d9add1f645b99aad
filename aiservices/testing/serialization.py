"""What a model is asked and answers, as plain JSON without keys: to be kept, and to be known again."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
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
_OF_THE_MOMENT = ("timeout", "extra_headers")  # differ from run to run, or hold credentials
_SECRET_NAME = re.compile(
    r"api[-_]?key|authori[sz]ation|^auth$|password|passwd|secret|credential|cookie"
    r"|^(.*[-_])?(access|bearer|refresh|id|ad|session)?[-_]?token$",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"\bsk-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}"  # a key of OpenAI's; without a digit it is a word
    r"|(?<=\bBearer )[A-Za-z0-9._~+/-]{16,}=*"
    r"|(?<=//)[^/@\s\"]+(?=@)"  # name and password in a URL
    r"|(?<=[?&](?:sig|key)=)[^&\s\"]+|(?<=[?&]token=)[^&\s\"]+|(?<=[?&]api_key=)[^&\s\"]+"
    r"|(?<=[?&]access_token=)[^&\s\"]+|(?<=[?&]X-Amz-Signature=)[^&\s\"]+"
)
_SECRET_SETTING = re.compile(r"(API_KEY|AD_TOKEN|ACCESS_TOKEN|AUTH_TOKEN|SECRET_KEY)$")
_SHORTEST_SECRET = 8  # a shorter one may be a word of the prompt


def request_to_json(request: ChatRequest) -> dict[str, Any]:
    """A request as plain JSON, without headers, timeout and deadline; what is empty is left out."""
    options = {name: value for name, value in asdict(request.options).items() if value is not None}
    for name in _OF_THE_MOMENT:
        options.pop(name, None)
    said: dict[str, Any] = {"messages": [message_to_dict(message) for message in request.messages]}
    if options:
        said["options"] = options
    form = request.response_format
    if isinstance(form, JsonSchemaFormat):
        said["response_format"] = {"name": form.name, "strict": form.strict, "schema": form.schema}
    elif form is not None:
        said["response_format"] = "json_object"
    if request.tooling is not None:
        tools = [asdict(tool) for tool in request.tooling.tools]
        said["tooling"] = {
            "choice": request.tooling.choice,
            "parallel": request.tooling.parallel,
            "tools": tools,
        }
    plain: dict[str, Any] = json.loads(json.dumps(said, default=str))
    return plain


def reply_to_json(reply: ChatReply) -> dict[str, Any]:
    """A reply as plain JSON, but for the bytes that its provider sent."""
    said: dict[str, Any] = {
        "message": message_to_dict(reply.message),
        "finish_reason": str(reply.finish_reason),
        "model": reply.model,
    }
    if reply.usage is not None:
        said["usage"] = asdict(reply.usage)
    if reply.refusal is not None:
        said["refusal"] = reply.refusal
    return said


def reply_from_json(said: Mapping[str, Any]) -> ChatReply:
    """The reply of ``reply_to_json``. Raises ValueError or KeyError for what is none."""
    message = message_from_dict(said["message"])
    if not isinstance(message, AiMessage):
        raise ValueError("the message of a reply is not one of a model")
    usage = said.get("usage")
    return ChatReply(
        message,
        FinishReason(said["finish_reason"]),
        None if usage is None else Usage(**usage),
        said.get("model", ""),
        refusal=said.get("refusal"),
    )


def delta_to_json(delta: ReplyDelta) -> str | dict[str, Any]:
    """A piece of a stream, but for the whole reply that the last one carries; text alone is a string."""
    if not delta.tool_calls and not delta.reasoning:
        return delta.text
    said = {name: value for name, value in (("text", delta.text), ("reasoning", delta.reasoning)) if value}
    return {**said, "tool_calls": [asdict(call) for call in delta.tool_calls]}


def delta_from_json(said: str | Mapping[str, Any]) -> ReplyDelta:
    """The piece of ``delta_to_json``."""
    if isinstance(said, str):
        return ReplyDelta(said)
    calls = tuple(ToolCallDelta(**call) for call in said.get("tool_calls", ()))
    return ReplyDelta(said.get("text", ""), said.get("reasoning", ""), tool_calls=calls)


def without_secrets(said: Any, redact: Callable[[str], str]) -> Any:
    """Plain JSON without what looks like a key: by its name, by its form, or as the environment holds it."""
    if isinstance(said, dict):
        return {
            key: REMOVED
            if isinstance(value, str) and _SECRET_NAME.search(key)
            else without_secrets(value, redact)
            for key, value in said.items()
        }
    if isinstance(said, list):
        return [without_secrets(one, redact) for one in said]
    return redact(_public(said)) if isinstance(said, str) else said


def _public(text: str) -> str:
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST_SECRET and value in text and _SECRET_SETTING.search(name):
            text = text.replace(value, REMOVED)
    return _SECRET_TEXT.sub(REMOVED, text)


def shown(said: Any) -> str:
    """Plain JSON for reading, and for telling whether two are the same."""
    return json.dumps(said, indent=2, ensure_ascii=False, sort_keys=True)


def write_whole(path: Path, text: str) -> None:
    """Put a text in the place of a file, whose folders are made; where that fails, the file is as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{uuid4().hex}")
    try:
        fresh.write_text(text, "utf-8")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
