"""Media and messages are written as JSON, and their types are components of the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel

from aiservices import (
    AiMessage,
    Audio,
    File,
    History,
    Image,
    Message,
    ScriptedChatModel,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
    user_message,
)
from aiservices.integrations.fastapi import app, router
from aiservices.remote.codec import codec_for, from_json_records, json_type, to_json_records
from output_parsers.parser.type_parser import DEFAULT_REGISTRY

PNG = Image.from_bytes(b"\x89PNG\r\n\x1a\nx", name="x.png").with_detail("low")
SAID: list[tuple[Any, Any]] = [
    (Image, PNG),
    (Image, Image.from_url("https://example.org/cat.jpg")),
    (Audio, Audio.from_bytes(b"ID3xyz")),
    (File, File.from_bytes(b"%PDF-1", name="a.pdf")),
    (list[Image], [PNG, PNG]),
    (Image | None, None),
    (tuple[Image, ...], (PNG,)),
    (Message, UserMessage("a", "ann", ("a", PNG))),
    (
        list[Message],
        [UserMessage("a"), AiMessage("b", (ToolCall("1", "f", "{}"),)), ToolMessage("1", "f", "c")],
    ),
    (str | UserMessage, UserMessage("a")),
    (str | UserMessage, "a"),
    (Annotated[list[Message], History], []),
]


@pytest.mark.parametrize(("form", "value"), SAID)
def test_media_and_messages_survive_a_round_trip(form: Any, value: Any) -> None:
    codec = codec_for(json_type(form), DEFAULT_REGISTRY)
    assert from_json_records(codec.read(codec.write(to_json_records(value)))) == value


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        *[(form, value) for form, value in SAID if type(value) in (Image, Audio, File)],
        (list[Image], [PNG, PNG]),
        (list[str | Image | File], ["a", PNG, File.from_bytes(b"%PDF-\xff", name="a.pdf")]),
        (tuple[str, Image], ("a", PNG)),
        (Image | None, PNG),
        (Image | None, None),
        (Annotated[Audio, "a sound"], Audio.from_bytes(b"ID3\xff")),
    ],
)
def test_returned_media_survive_a_round_trip(returned: Any, value: Any) -> None:
    codec = codec_for(returned, DEFAULT_REGISTRY)
    assert codec.read(codec.write(value)) == value


def test_a_system_message_is_not_sent() -> None:
    with pytest.raises(ValueError, match="leave them out of the history"):
        to_json_records([SystemMessage("x")])


class Eye(Protocol):
    @user_message("What is in {{picture}}?")
    def look(self, picture: Image) -> str: ...


@pytest.mark.parametrize(
    "picture",
    [
        {},
        {"data": "not base 64", "media_type": "image/png"},
        {"data": "eA==", "media_type": "text/plain"},
        {"url": "file:///etc/passwd"},
        {"url": "https://example.org/a.png", "data": "eA==", "media_type": "image/png"},
    ],
)
def test_an_invalid_image_is_reported_with_its_path(picture: dict[str, str]) -> None:
    http = TestClient(app(create(Eye, ScriptedChatModel([]))))
    answer = http.post("/look", json={"picture": picture})
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["path"] == "$.picture"


def test_a_data_url_becomes_its_bytes() -> None:
    model = ScriptedChatModel(["a cat"])
    http = TestClient(app(create(Eye, model)))
    url = "data:image/png;base64,iVBORw0KGgo="
    assert http.post("/look", json={"picture": {"url": url}}).json() == "a cat"
    message = model.requests[0].messages[-1]
    assert isinstance(message, UserMessage)
    assert Image.from_url(url) in message.contents


class Person(BaseModel):
    name: str


class Namesakes(Protocol):
    @user_message("{{it}}")
    def first(self, it: str) -> Person: ...


def test_types_of_the_same_name_have_different_components() -> None:
    own = FastAPI()
    other = type("Person", (BaseModel,), {"__annotations__": {"age": int}, "__module__": "elsewhere"})
    own.include_router(router(create(Namesakes, ScriptedChatModel([]))))
    own.add_api_route("/other", lambda: None, response_model=other)
    document = own.openapi()
    components = document["components"]["schemas"]

    def properties_of(path: str, method: str) -> Any:
        schema = document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
        return list(components[schema["$ref"].rpartition("/")[2]]["properties"])

    assert properties_of("/first", "post") == ["name"]
    assert properties_of("/other", "get") == ["age"]
