"""Convert a model's reply to JSON data and back: for cassettes, journals and the response cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from .messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    TokenLogprob,
    Usage,
    message_from_dict,
    message_to_dict,
)


def reply_to_json(reply: ChatReply) -> dict[str, Any]:
    """Convert a model reply to JSON data, without the provider's raw response."""
    data: dict[str, Any] = {
        "message": message_to_dict(reply.message),
        "finish_reason": str(reply.finish_reason),
        "model": reply.model,
    }
    for name in ("id", "stop_reason"):
        if getattr(reply, name):
            data[name] = getattr(reply, name)
    if reply.notes:
        data["notes"] = list(reply.notes)
    if reply.citations:
        data["citations"] = [dict(citation) for citation in reply.citations]
    if reply.usage is not None:
        data["usage"] = asdict(reply.usage)
    if reply.refusal is not None:
        data["refusal"] = reply.refusal
    if reply.logprobs:
        data["logprobs"] = [
            {
                "text": _token_text(token.token),
                "logprob": token.logprob,
                "alternatives": [[_token_text(text), logprob] for text, logprob in token.alternatives],
            }
            for token in reply.logprobs
        ]
    if reply.probabilities:
        data["probabilities"] = dict(reply.probabilities)
    return data


def reply_from_json(data: Mapping[str, Any]) -> ChatReply:
    """Convert JSON data back to a model reply, or raise ValueError or KeyError for wrong data."""
    message = message_from_dict(data["message"])
    if not isinstance(message, AiMessage):
        raise ValueError("the message of a reply must be an AiMessage")
    usage = data.get("usage")
    return ChatReply(
        message,
        FinishReason(data["finish_reason"]),
        None if usage is None else Usage(**usage),
        data.get("model", ""),
        data.get("id", ""),
        stop_reason=data.get("stop_reason", ""),
        notes=tuple(data.get("notes", ())),
        citations=tuple(data.get("citations", ())),
        refusal=data.get("refusal"),
        logprobs=tuple(map(_logprob_from_json, data.get("logprobs", ()))),
        probabilities={
            path: tuple((value, float(share)) for value, share in shares)
            for path, shares in data["probabilities"].items()
        }
        if "probabilities" in data
        else None,
    )


def _logprob_from_json(data: Mapping[str, Any]) -> TokenLogprob:
    alternatives = [(text.encode("latin-1"), logprob) for text, logprob in data["alternatives"]]
    return TokenLogprob(data["text"].encode("latin-1"), data["logprob"], tuple(alternatives))


def _token_text(token: bytes) -> str:
    return token.decode("latin-1")  # a token may be a part of a character, so UTF-8 cannot always decode it
