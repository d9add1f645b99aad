"""Read messages of JSON-RPC that the package mcp refuses, so that no request waits for an answer forever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from ...models.http.replies import UnreadableReplyError, parse_invalid_unicode

INVALID_ANSWER = "The answer is not valid JSON-RPC."


class MessageStream:
    """A stream of messages, in which invalid ones are read if possible.

    Args:
        stream: The stream of the package mcp, which contains invalid messages as exceptions.
        answers: A stream for errors that answer invalid requests; None to skip these requests.
    """

    def __init__(self, stream: Any, answers: Any = None) -> None:
        self._stream = stream
        self._answers = answers

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    async def __aenter__(self) -> MessageStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> bool | None:
        ended: bool | None = await self._stream.__aexit__(*details)
        return ended

    def __aiter__(self) -> MessageStream:
        return self

    async def __anext__(self) -> object:
        item = await self._stream.__anext__()
        if not isinstance(item, ValidationError):
            return item
        members = _members_in(item)
        request_id = members.get("id")
        if not isinstance(request_id, (int, str)):
            return item
        if "method" not in members:
            return SessionMessage(jsonrpc_message_adapter.validate_python(valid_answer(members, request_id)))
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_python(members))
        except ValidationError:
            if self._answers is not None:
                details = ErrorData(code=INVALID_REQUEST, message="Invalid request")
                answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=details)
                await self._answers.send(SessionMessage(answer))
            return item


def _members_in(error: ValidationError) -> Mapping[str, object]:
    """Return the members of an invalid message, or no members if it is not an object."""
    inputs = [one["input"] for one in error.errors(include_url=False)]
    whole = json_of(inputs[0].encode()) if isinstance(inputs[0], str) else None
    return next((one for one in (whole, *inputs) if isinstance(one, Mapping) and "id" in one), {})


def valid_answer(body: object, request_id: object) -> dict[str, object]:
    """Return an answer as a valid message: a result or an error."""
    members = members_of(body)
    answer, result, error = {"jsonrpc": "2.0", "id": request_id}, members.get("result"), members.get("error")
    if isinstance(result, Mapping) and not error:
        return {**answer, "result": result}
    details = {"message": error} if isinstance(error, str) else members_of(error)
    code, message = details.get("code"), details.get("message")
    valid = {
        "code": code if isinstance(code, int) else INTERNAL_ERROR,
        "message": message if isinstance(message, str) else INVALID_ANSWER,
    }
    return {**answer, "error": {**details, **valid}}


def json_of(body: bytes) -> object:
    """Parse JSON; invalid Unicode becomes replacement characters. Returns None for other text."""
    try:
        return from_json(body)
    except ValueError:
        try:
            return parse_invalid_unicode(body, "it")
        except UnreadableReplyError:
            return None


def members_of(value: object) -> Mapping[str, object]:
    """Return a value if it is a JSON object, otherwise an object without members."""
    return value if isinstance(value, Mapping) else {}
