"""Images, audio and files: the JSON that each API gets, and the errors for unsupported ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

import pytest
from loopback import Loopback, answer
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter
from responses_api import message, response_reply

from aiservices import BadRequestError, create, user_message
from aiservices.models.local.prompting import chat_body
from aiservices.models.media import Audio, File, Image, Media
from aiservices.models.messages import SystemMessage, UserMessage
from aiservices.models.openai import OpenAiChatModel, OpenAiResponsesModel
from aiservices.models.requests import ChatOptions, ChatRequest

KEY = "sk-test-0123456789"
CAT = Image.from_bytes(b"\x89PNG\r\n\x1a\n")
CAT_URL = "data:image/png;base64,iVBORw0KGgo="
DOG = Image.from_url("https://a.example/dog.png").with_detail("low")
VOICE = Audio.from_bytes(b"RIFF\x00\x00\x00\x00WAVE")
SONG = Audio.from_bytes(b"ID3\x04", name="song.mp3")
PAPER = File.from_bytes(b"%PDF-1.7", name="paper.pdf")
NOTES = File.from_bytes(b"a", "text/plain")
PDF_URL = "data:application/pdf;base64,JVBERi0xLjc="


class Looker(Protocol):
    @user_message("Compare {{a}} with {{b}}, {{name}}.")
    def compare(self, a: Image, b: Image, name: str) -> str: ...

    @user_message("What is in it?")
    def read(self, paper: File, *more: File | Image | Audio) -> str: ...

    def legs(self, image: Image) -> int: ...


@pytest.fixture
def chat(loopback: Loopback) -> Iterator[OpenAiChatModel]:
    with OpenAiChatModel("test-model", base_url=loopback.base_url, api_key=KEY) as made:
        yield made


@pytest.fixture
def responses(loopback: Loopback) -> Iterator[OpenAiResponsesModel]:
    with OpenAiResponsesModel("test-model", base_url=loopback.base_url, api_key=KEY) as made:
        yield made


def test_chat_completions_get_text_and_images_in_their_order(
    loopback: Loopback, chat: OpenAiChatModel
) -> None:
    loopback.reply(answer("Two animals."))
    assert create(Looker, chat).compare(CAT, DOG, "Ada") == "Two animals."
    (seen,) = loopback.requests
    assert seen.json == {
        "model": "test-model",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Compare "},
                    {"type": "image_url", "image_url": {"url": CAT_URL}},
                    {"type": "text", "text": " with "},
                    {
                        "type": "image_url",
                        "image_url": {"url": "https://a.example/dog.png", "detail": "low"},
                    },
                    {"type": "text", "text": ", Ada."},
                ],
            }
        ],
    }
    TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(seen.json)


def test_chat_completions_get_audio_and_files(loopback: Loopback, chat: OpenAiChatModel) -> None:
    loopback.reply(answer("A song."))
    create(Looker, chat).read(PAPER, VOICE, SONG, NOTES)
    (seen,) = loopback.requests
    assert seen.json == {
        "model": "test-model",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is in it?"},
                    {"type": "file", "file": {"filename": "paper.pdf", "file_data": PDF_URL}},
                    {"type": "input_audio", "input_audio": {"data": "UklGRgAAAABXQVZF", "format": "wav"}},
                    {"type": "input_audio", "input_audio": {"data": "SUQzBA==", "format": "mp3"}},
                    {
                        "type": "file",
                        "file": {"filename": "file.txt", "file_data": "data:text/plain;base64,YQ=="},
                    },
                ],
            }
        ],
    }
    TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(seen.json)


def test_the_responses_api_gets_text_images_and_files(
    loopback: Loopback, responses: OpenAiResponsesModel
) -> None:
    loopback.reply(response_reply(message("Hi")))
    service = create(Looker, responses)
    service.compare(CAT, DOG, "Ada")
    service.read(PAPER, File.from_url("https://a.example/b.pdf"))
    assert [seen.json for seen in loopback.requests] == [
        {
            "model": "test-model",
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Compare "},
                        {"type": "input_image", "image_url": CAT_URL, "detail": "auto"},
                        {"type": "input_text", "text": " with "},
                        {"type": "input_image", "image_url": "https://a.example/dog.png", "detail": "low"},
                        {"type": "input_text", "text": ", Ada."},
                    ],
                }
            ],
        },
        {
            "model": "test-model",
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is in it?"},
                        {"type": "input_file", "filename": "paper.pdf", "file_data": PDF_URL},
                        {"type": "input_file", "file_url": "https://a.example/b.pdf"},
                    ],
                }
            ],
        },
    ]
    for seen in loopback.requests:
        TypeAdapter(ResponseCreateParamsNonStreaming).validate_python(seen.json)


def test_an_image_alone_is_the_message_of_a_typed_method(loopback: Loopback, chat: OpenAiChatModel) -> None:
    loopback.reply(answer('{"value": 4}'))
    assert create(Looker, chat).legs(CAT) == 4
    (seen,) = loopback.requests
    assert seen.json["messages"] == [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": CAT_URL}}]}
    ]


def test_a_named_user_may_show_an_image(loopback: Loopback, chat: OpenAiChatModel) -> None:
    loopback.reply(answer("Hi"))
    chat.complete(ChatRequest.of([UserMessage("Look", "Ada", (CAT,))]))
    (expected_text,) = loopback.requests[0].json["messages"]
    assert (expected_text["name"], len(expected_text["content"])) == ("Ada", 2)


@pytest.mark.parametrize(
    ("media", "expected_text"),
    [
        (
            Audio.from_url("https://a.example/b.wav"),
            "the chat completions API does not fetch audio [audio/wav, https://a.example/b.wav]; "
            "pass its bytes with Audio.from_bytes",
        ),
        (
            File.from_url("https://a.example/b.pdf?key=secret"),
            "the chat completions API does not fetch a file [application/pdf, https://a.example/b.pdf]; "
            "pass its bytes with File.from_bytes",
        ),
        (
            Audio.from_bytes(b"fLaC"),
            "the chat completions API takes audio as WAV or MP3 only, not [audio/flac, 4 bytes]",
        ),
    ],
)
def test_media_that_chat_completions_do_not_accept_are_not_sent(
    loopback: Loopback, chat: OpenAiChatModel, media: Media, expected_text: str
) -> None:
    with pytest.raises(BadRequestError) as caught:
        chat.complete(ChatRequest.of([UserMessage("Well?", contents=(media,))]))
    assert str(caught.value) == f"openai:test-model at {loopback.base_url}: {expected_text}"
    assert loopback.requests == []


def test_the_responses_api_does_not_accept_audio(loopback: Loopback, responses: OpenAiResponsesModel) -> None:
    with pytest.raises(BadRequestError) as caught:
        create(Looker, responses).read(PAPER, VOICE)
    assert str(caught.value) == (
        f"openai-responses:test-model at {loopback.base_url}: "
        "the Responses API does not take audio ([audio/wav, 12 bytes]); use OpenAiChatModel"
    )
    assert loopback.requests == []


def test_the_embedded_model_refuses_media() -> None:
    request = ChatRequest.of([SystemMessage("Be brief."), UserMessage("Look", contents=("Look", CAT))])
    with pytest.raises(BadRequestError) as caught:
        chat_body(request, ChatOptions(), "")
    assert str(caught.value) == (
        "the embedded model reads only text, but the message contains an image [image/png, 8 bytes]: "
        'leave it out, or use another model, as in create(..., model="openai:NAME")'
    )


def test_a_large_image_is_sent_completely_and_quickly(loopback: Loopback, chat: OpenAiChatModel) -> None:
    loopback.reply(answer("Hi"))
    image = Image.from_bytes(bytes(5_000_000), "image/png")
    began = time.monotonic()
    chat.complete(ChatRequest.of([UserMessage("Look", contents=(image,))]))
    assert time.monotonic() - began < 10
    (part,) = [
        part for part in loopback.requests[0].json["messages"][0]["content"] if part["type"] == "image_url"
    ]
    assert Image.from_url(part["image_url"]["url"]) == image
