"""A model with canned HTTP responses: its calls send nothing over the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiservices import OpenAiChatModel, create

from . import server
from .clerk import KEY, Clerk

_UNUSED_URL = "http://127.0.0.1:9/v1"


@dataclass(frozen=True, slots=True)
class _Response:
    pieces: tuple[bytes, ...]
    headers: Mapping[str, str]
    status_code: int = 200

    @property
    def content(self) -> bytes:
        return self.pieces[0]

    def iter_bytes(self) -> Iterator[bytes]:
        return iter(self.pieces)

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Client:
    """An HTTP client that returns the same response for every request."""

    response: _Response
    headers: Mapping[str, str]
    secrets: tuple[str, ...] = (KEY,)
    failures: tuple[type[Exception], ...] = (OSError,)

    def sync_client(self) -> _Client:
        return self

    def post(self, *_: object, **__: object) -> _Response:
        return self.response


def canned_service(request: dict[str, Any]) -> Clerk:
    """Return the service with a model that gives the same canned reply to each request."""
    if request.get("stream"):
        response = _Response(tuple(server.events(request)), {"content-type": "text/event-stream"})
    else:
        response = _Response((server.completion(request),), {"content-type": "application/json"})
    model = OpenAiChatModel(request["model"], base_url=_UNUSED_URL, api_key=KEY)
    model._clients = _Client(response, {})  # type: ignore[assignment]
    return create(Clerk, model)
