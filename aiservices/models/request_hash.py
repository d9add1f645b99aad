"""A hash of a chat request, which is the same for equal requests in all processes."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import asdict, fields
from hashlib import blake2b
from threading import Lock
from typing import Any

from .messages import UserMessage, message_to_dict
from .questions import DecisionFormat
from .requests import ChatOptions, ChatRequest, JsonSchemaFormat, Tooling

_NOT_HASHED = (
    "raw_events",
    "timeout",
    "extra_headers",
)  # they do not change the reply, or contain credentials
_MAX_REMEMBERED = 256
# The digests of options, formats and tools, by the identity of the object, which is kept alive here.
_digests: OrderedDict[int, tuple[object, bytes]] = OrderedDict()
_lock = Lock()


def request_hash(model: str, address: str, request: ChatRequest) -> str:
    """Return a hash of everything that determines the reply to a chat request: 32 hexadecimal digits.

    ``model`` is the name of the model and ``address`` that of its server. The timeout, the deadline and HTTP
    headers are not part of the hash.
    """
    hashed = blake2b(digest_size=16)
    for text in (model, address):
        _add(hashed, text.encode())
    for part in (request.options, request.response_format, request.tooling):
        hashed.update(_digest(part))
    hashed.update(request.logprobs.to_bytes(4))
    for message in request.messages:
        if type(message) is UserMessage and not (message.contents or message.name or message.other):
            hashed.update(b"u")
            _add(hashed, message.text.encode("utf-8", "surrogatepass"))
        else:
            hashed.update(b"m")
            _add(hashed, _json(message_to_dict(message)))
    return hashed.hexdigest()


def _add(hashed: Any, data: bytes) -> None:
    hashed.update(len(data).to_bytes(8))  # so that the borders between two texts count
    hashed.update(data)


def _digest(part: object) -> bytes:
    """Return the digest of options, a response format or tools."""
    found = _digests.get(id(part))
    if found is not None and found[0] is part:
        return found[1]
    digest = blake2b(_json(_plain(part)), digest_size=16).digest()
    with _lock:
        _digests[id(part)] = (part, digest)
        if len(_digests) > _MAX_REMEMBERED:
            _digests.popitem(last=False)
    return digest


def _plain(part: object) -> Any:
    match part:
        case None:
            return None
        case ChatOptions():
            names = [field.name for field in fields(part) if field.name not in _NOT_HASHED]
            values = {name: getattr(part, name) for name in names}
            return ["options", {name: value for name, value in values.items() if value is not None}]
        case JsonSchemaFormat():
            return ["schema", part.name, part.schema, part.strict]
        case DecisionFormat():
            return ["questions", part.task, [question._asdict() for question in part.questions]]
        case Tooling():
            return ["tools", part.choice, part.parallel_calls, [asdict(tool) for tool in part.tools]]
        case _:
            return [type(part).__name__]


def _json(data: object) -> bytes:
    return json.dumps(data, sort_keys=True, default=repr).encode()
