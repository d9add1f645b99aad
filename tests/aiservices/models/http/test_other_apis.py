"""``aiservices.models.http`` supports an API that differs from OpenAI's in every respect.

The API of this file has features of the native APIs of Anthropic, Google and Amazon: a system text outside
the messages, the name of the model in the path, another path for streams, a signature over each request, and
binary frames instead of server-sent events.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import struct
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import pytest
from loopback import Loopback, ReceivedRequest, Reply, json_reply

from aiservices import (
    Budget,
    Capabilities,
    ChatOptions,
    InvalidReplyError,
    ModelServerError,
    RateLimitError,
    create,
    system_message,
    user_message,
)
from aiservices.models.http.api import ApiDialect, CallSettings, RequestWriter, json_request_writer
from aiservices.models.http.base import Credentials, HttpRequest
from aiservices.models.http.model import HttpChatModel, HttpClients
from aiservices.models.http.replies import (
    ErrorDetails,
    EventStreamReader,
    JsonObject,
    ReportedError,
    StreamReader,
    UnreadableReplyError,
    parse_object,
)
from aiservices.models.messages import AiMessage, ChatReply, Message, ReplyDelta, SystemMessage
from aiservices.models.requests import JsonSchemaFormat

SECRET = "acme-secret-0123456789"
FRAMES = "application/vnd.acme.frames"


class AcmeDialect(ApiDialect):
    reply_name = "reply of Acme"

    def request_writer(self, settings: CallSettings) -> RequestWriter:
        operation = "converse-stream" if settings.stream else "converse"
        path = f"/model/{quote(settings.model, safe='')}/{operation}?trace=off"
        response_format = settings.response_format
        members = {
            "limits": {"maxTokens": settings.options.max_tokens or 4096},
            "schema": response_format.schema if isinstance(response_format, JsonSchemaFormat) else None,
        }
        write = json_request_writer(
            path, members, {"system": system_text, "messages": turns}, settings.options.extra_body
        )
        accept = FRAMES if settings.stream else "application/json"

        def write_request(messages: Sequence[Message]) -> HttpRequest:
            return write(messages)._replace(headers={"accept": accept})

        return write_request

    def read_reply(self, body: bytes, headers: Mapping[str, str], settings: CallSettings) -> ChatReply:
        text = parse_object(body)["output"]
        return ChatReply(AiMessage(text), model=settings.model, id=headers["x-acme-id"], raw=body)

    def stream_reader(self, headers: Mapping[str, str], settings: CallSettings) -> StreamReader:
        return AcmeStreamReader(settings.model, headers["x-acme-id"])

    def error_details(self, headers: Mapping[str, str], body: str) -> ErrorDetails:
        error = json.loads(body)
        status = {"throttled": 429, "overloaded": 529}.get(error["kind"])
        return ErrorDetails(
            error["message"], status, None, False, headers.get("x-acme-id"), error.get("wait")
        )


def system_text(messages: Sequence[Message]) -> str | None:
    return "\n".join(message.text for message in messages if isinstance(message, SystemMessage)) or None


def turns(messages: Sequence[Message]) -> list[JsonObject]:
    return [{"text": message.text} for message in messages if not isinstance(message, SystemMessage)]


def frame(event: object) -> bytes:
    """Return a frame: the length of the payload, its CRC32, and the payload."""
    payload = json.dumps(event).encode()
    return struct.pack(">II", len(payload), zlib.crc32(payload)) + payload


class FrameDecoder:
    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, chunk: bytes, /) -> list[bytes]:
        self._buffer += chunk
        payloads = []
        while len(self._buffer) >= 8:
            length, checksum = struct.unpack(">II", self._buffer[:8])
            payload = self._buffer[8 : 8 + length]
            if len(payload) < length:
                break
            if zlib.crc32(payload) != checksum:
                raise UnreadableReplyError("a frame has a wrong checksum")
            payloads.append(payload)
            self._buffer = self._buffer[8 + length :]
        return payloads

    def end(self) -> list[bytes]:
        return []


class AcmeStreamReader(EventStreamReader):
    def __init__(self, model: str, reply_id: str) -> None:
        super().__init__(FrameDecoder())
        self._model, self._id = model, reply_id

    @property
    def finished(self) -> bool:
        return self.done

    def _read_event(self, data: JsonObject) -> ReplyDelta | None:
        if "exception" in data:
            raise ReportedError(data["exception"])
        if "stop" in data:
            self.done = True
            return None
        self._texts.append(data["text"])
        return ReplyDelta(data["text"])

    def _last_deltas(self) -> list[ReplyDelta]:
        return [ReplyDelta(reply=ChatReply(AiMessage(self.text), model=self._model, id=self._id))]


def signature(url: str, date: str, body: bytes) -> str:
    signed = f"{url}\n{date}\n{hashlib.sha256(body).hexdigest()}"
    return hmac.new(SECRET.encode(), signed.encode(), "sha256").hexdigest()


def sign(url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
    date = str(time.time_ns())
    return {"X-Acme-Date": date, "Authorization": f"{headers['x-acme-account']} {signature(url, date, body)}"}


class AcmeChatModel(HttpChatModel):
    def __init__(self, model: str, base_url: str) -> None:
        credentials = Credentials(
            {"x-acme-account": "me", "content-type": "application/json"}, (SECRET,), sign
        )
        super().__init__(
            model,
            provider="acme",
            dialect=AcmeDialect(),
            clients=HttpClients(f"acme:{model}", base_url, lambda: credentials),
            address=base_url,
            key_advice="set ACME_SECRET",
            capabilities=Capabilities(json_schema=True),
            options=ChatOptions(timeout=5),
            logger=logging.getLogger("acme"),
        )


@dataclass
class Person:
    name: str
    age: int


class Guide(Protocol):
    @system_message("Answer in {{language}}.")
    @user_message("Greet {{name}}.")
    def greet(self, language: str, name: str) -> str: ...
    @system_message("Answer in {{language}}.")
    @user_message("Greet {{name}}.")
    async def agreet(self, language: str, name: str) -> str: ...
    @system_message("Answer in {{language}}.")
    @user_message("Greet {{name}}.")
    def stream(self, language: str, name: str) -> Iterator[str]: ...
    @system_message("Answer in {{language}}.")
    @user_message("Greet {{name}}.")
    def astream(self, language: str, name: str) -> AsyncIterator[str]: ...
    @user_message("Who is {{name}}?")
    def person(self, name: str) -> Person: ...


async def join(texts: AsyncIterator[str]) -> str:
    return "".join([text async for text in texts])


async def acall_twice(model: AcmeChatModel, call: Callable[[Guide, str], Any]) -> list[str]:
    async with model:
        service = create(Guide, model)
        return [await call(service, "French"), await call(service, "Danish")]


def call_blocking(model: AcmeChatModel) -> list[str]:
    service = create(Guide, model)
    return [service.greet("French", "Ada"), service.greet("Danish", "Ada")]


def call_streaming(model: AcmeChatModel) -> list[str]:
    service = create(Guide, model)
    return ["".join(service.stream("French", "Ada")), "".join(service.stream("Danish", "Ada"))]


def call_async(model: AcmeChatModel) -> list[str]:
    return asyncio.run(acall_twice(model, lambda service, language: service.agreet(language, "Ada")))


def call_async_streaming(model: AcmeChatModel) -> list[str]:
    return asyncio.run(acall_twice(model, lambda service, language: join(service.astream(language, "Ada"))))


def acme_server(received: ReceivedRequest) -> Reply:
    """Reply with the system text and the last message if the signature of the request is valid."""
    url = f"http://{received.headers['host']}{received.path}"
    expected = f"me {signature(url, received.headers['x-acme-date'], received.body)}"
    if received.headers["authorization"] != expected:
        return json_reply({"kind": "denied", "message": "wrong signature"}, status=403)
    text = f"{received.json.get('system')} {received.json['messages'][-1]['text']}"
    if "/converse-stream" not in received.path:
        return json_reply({"output": text}, headers={"x-acme-id": "r-1"})
    whole = b"".join(frame({"text": character}) for character in text) + frame({"stop": "end"})
    chunks = [whole[start : start + 7] for start in range(0, len(whole), 7)]  # frames are cut anywhere
    assert received.headers["accept"] == FRAMES
    return Reply(200, b"", {"content-type": FRAMES, "x-acme-id": "r-1"}, chunks)


@pytest.fixture
def model(loopback: Loopback) -> Iterator[AcmeChatModel]:
    with AcmeChatModel("acme.large:1", loopback.base_url) as model:
        yield model


@pytest.mark.parametrize("call", [call_blocking, call_async, call_streaming, call_async_streaming])
def test_each_call_sends_its_own_system_text_to_a_signed_path_of_the_model(
    loopback: Loopback, model: AcmeChatModel, call: Callable[[AcmeChatModel], list[str]]
) -> None:
    loopback.reply(acme_server)
    assert call(model) == ["Answer in French. Greet Ada.", "Answer in Danish. Greet Ada."]
    operation = "converse-stream" if "streaming" in call.__name__ else "converse"
    assert [(received.path, received.json) for received in loopback.requests] == [
        (
            f"/v1/model/acme.large%3A1/{operation}?trace=off",
            {
                "limits": {"maxTokens": 4096},
                "system": f"Answer in {language}.",
                "messages": [{"text": "Greet Ada."}],
            },
        )
        for language in ("French", "Danish")
    ]
    assert len(model._prepared.cached) == 1  # both calls used the same prepared writer


def test_the_format_the_options_and_their_model_reach_the_dialect(
    loopback: Loopback, model: AcmeChatModel
) -> None:
    loopback.reply(json_reply({"output": '{"name": "Ada", "age": 36}'}, headers={"x-acme-id": "r-1"}))
    settings = ChatOptions(model="acme.small:2", max_tokens=9)
    assert create(Guide, model, options=settings).person("Ada") == Person("Ada", 36)
    received = loopback.requests[0]
    assert received.path == "/v1/model/acme.small%3A2/converse?trace=off"
    assert received.json["limits"] == {"maxTokens": 9}
    assert received.json["schema"]["required"] == ["name", "age"]
    assert "system" not in received.json


@pytest.mark.parametrize("call", [call_blocking, call_async])
def test_a_redirected_request_is_signed_for_its_new_address(
    loopback: Loopback, model: AcmeChatModel, call: Callable[[AcmeChatModel], list[str]]
) -> None:
    def redirect_once(received: ReceivedRequest) -> Reply:
        if received.path.startswith("/v1/"):
            return Reply(307, b"", {"location": received.path.replace("/v1/", "/v2/")})
        return acme_server(received)

    loopback.reply(redirect_once)
    assert call(model) == ["Answer in French. Greet Ada.", "Answer in Danish. Greet Ada."]


def test_an_error_is_read_in_the_format_of_the_provider(loopback: Loopback, model: AcmeChatModel) -> None:
    body = {"kind": "throttled", "message": f"slow down, {SECRET}", "wait": 31}
    loopback.reply(json_reply(body, status=429, headers={"x-acme-id": "r-2"}))
    with pytest.raises(RateLimitError) as caught:
        create(Guide, model, budget=Budget(max_attempts=1)).greet("French", "Ada")
    assert str(caught.value) == (
        f"acme:acme.large:1 at {loopback.base_url}: 429 too many requests: slow down, [redacted]; "
        "wait 31 s or send fewer requests"
    )
    assert (caught.value.request_id, caught.value.retry_after) == ("r-2", 31)


@pytest.mark.parametrize(
    ("last", "error_type", "message"),
    [
        (
            frame({"exception": {"kind": "overloaded", "message": "later"}}),
            ModelServerError,
            "529 the server failed: later; try again later",
        ),
        (
            frame({"text": "x"})[:-1] + b"!",
            InvalidReplyError,
            "the reply is not a reply of Acme: a frame has a wrong checksum; check base_url. It begins: ",
        ),
    ],
    ids=["exception", "checksum"],
)
def test_an_error_within_the_frames_of_a_stream_is_raised(
    loopback: Loopback, model: AcmeChatModel, last: bytes, error_type: type[Exception], message: str
) -> None:
    headers = {"content-type": FRAMES, "x-acme-id": "r-1"}
    loopback.reply(Reply(200, b"", headers, [frame({"text": "Bon"}), last]))
    texts = create(Guide, model, budget=Budget(max_attempts=1)).stream("French", "Ada")
    with pytest.raises(error_type) as caught:
        list(texts)
    assert str(caught.value).startswith(f"acme:acme.large:1 at {loopback.base_url}: {message}")


@pytest.mark.parametrize(
    ("headers", "body", "problem"),
    [
        ({"x-acme-id": "r-1"}, {"text": "Bonjour"}, "it has an unexpected shape (KeyError: 'output')"),
        ({}, {"output": "Bonjour"}, "it has an unexpected shape (KeyError: 'x-acme-id')"),
    ],
    ids=["body", "headers"],
)
@pytest.mark.parametrize("call", [call_blocking, call_async])
def test_a_reply_of_an_unexpected_shape_is_an_invalid_reply(
    loopback: Loopback,
    model: AcmeChatModel,
    call: Callable[[AcmeChatModel], list[str]],
    headers: dict[str, str],
    body: JsonObject,
    problem: str,
) -> None:
    loopback.reply(json_reply(body, headers=headers))
    with pytest.raises(InvalidReplyError) as caught:
        call(model)
    assert str(caught.value) == (
        f"acme:acme.large:1 at {loopback.base_url}: the reply is not a reply of Acme: {problem}; "
        f"check base_url. It begins: {json.dumps(body)!r}"
    )


@pytest.mark.parametrize("call", [call_streaming, call_async_streaming])
def test_a_stream_without_the_expected_headers_is_an_invalid_reply(
    loopback: Loopback, model: AcmeChatModel, call: Callable[[AcmeChatModel], list[str]]
) -> None:
    loopback.reply(Reply(200, b"", {"content-type": FRAMES}, [frame({"text": "Bon"})]))
    with pytest.raises(InvalidReplyError, match="it has an unexpected shape \\(KeyError: 'x-acme-id'\\)"):
        call(model)


def test_the_error_page_of_a_proxy_is_read_as_text(loopback: Loopback, model: AcmeChatModel) -> None:
    loopback.reply(Reply(502, b"<h1>Bad gateway</h1>", {"content-type": "text/html"}))
    with pytest.raises(
        ModelServerError, match="502 the server failed: <h1>Bad gateway</h1>; try again later"
    ):
        create(Guide, model, budget=Budget(max_attempts=1)).greet("French", "Ada")


def test_requests_are_logged_without_signature_and_secret(
    loopback: Loopback, model: AcmeChatModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "acme")
    loopback.reply(acme_server)
    create(Guide, model).greet("French", "Ada")
    lines = [record.getMessage() for record in caplog.records if record.name == "acme"]
    assert [line.partition(": ")[2].split(" ")[0] for line in lines] == ["request", "reply"]
    assert "Answer in French." in lines[0]
    assert loopback.requests[0].headers["authorization"] not in "".join(lines)
    assert SECRET not in "".join(lines)
