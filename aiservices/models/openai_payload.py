"""Takes the JSON of an answer apart, and tells an answer from an error and from neither."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

__all__ = ["ReportedError", "UnreadableReplyError", "parse_object"]


class UnreadableReplyError(ValueError):
    """The bytes are no answer of the API that was asked; the message says what is missing."""


class ReportedError(Exception):
    """The provider put an error where an answer should be; ``payload`` is what it said."""

    def __init__(self, payload: Any) -> None:
        super().__init__("the provider reported an error")
        self.payload = payload


def parse_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in ``raw``. Raises UnreadableReplyError, or ReportedError when it is an error."""
    try:
        data = from_json(raw)
    except ValueError:
        raise UnreadableReplyError("it is not JSON") from None
    if not isinstance(data, dict):
        raise UnreadableReplyError("it is no JSON object")
    if data.get("error"):
        raise ReportedError(data["error"])
    if data.get("object") == "error":  # how vLLM reports one
        raise ReportedError(data)
    return data
