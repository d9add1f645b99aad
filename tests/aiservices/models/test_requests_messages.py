"""Texts, pairs and the message dicts of OpenAI and LangChain become messages; other objects are problems."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageFunctionToolCall

from aiservices import (
    AiMessage,
    Audio,
    DefinitionProblem,
    File,
    Image,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from aiservices.models.requests import list_to_messages, to_messages

PNG = b"\x89PNG\r\n\x1a\n0"
WAV = b"RIFF0000WAVE"
PDF = b"%PDF-1.7"
URL = "https://example.com/cat.png"


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def converted(*items: Any) -> tuple[Message, ...]:
    problems: list[DefinitionProblem] = []
    messages = to_messages(items, "here", problems)
    assert problems == []
    return messages


def problems_of(*items: Any) -> list[str]:
    problems: list[DefinitionProblem] = []
    assert to_messages(items, "here", problems) == ()
    return [str(problem) for problem in problems]


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
TOOL_CALL = ToolCall("c1", "weather", '{"city": "Rome"}')


@pytest.mark.parametrize(
    "call",
    [
        CALL,
        ChatCompletionMessageFunctionToolCall.model_validate(CALL),
        {"name": "weather", "args": {"city": "Rome"}, "id": "c1", "type": "tool_call"},
        TOOL_CALL,
    ],
)
def test_a_conversation_with_tool_calls_is_converted(call: Any) -> None:
    assert converted(
        {"role": "developer", "content": [text("s"), text("t")]},
        {"role": "user", "content": "q", "name": "Ann"},
        {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None},
        {"role": "tool", "tool_call_id": "c1", "content": [text("20 degrees")]},
        {"role": "assistant", "content": "It is warm.", "tool_calls": None},
    ) == (
        SystemMessage("s\nt"),
        UserMessage("q", "Ann"),
        AiMessage("", (TOOL_CALL,)),
        ToolMessage("c1", "weather", "20 degrees"),
        AiMessage("It is warm."),
    )


def test_langchain_writes_the_role_as_the_type() -> None:
    assert converted({"type": "human", "content": "q"}, {"type": "ai", "content": "a"}) == (
        UserMessage("q"),
        AiMessage("a"),
    )


def test_the_name_of_a_tool_comes_from_the_call_or_from_the_message() -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "20"}
    assert converted({**result, "name": "weather"}) == (ToolMessage("c1", "weather", "20"),)
    assert converted(AiMessage("", (TOOL_CALL,)), result)[1] == ToolMessage("c1", "weather", "20")
    assert problems_of(result) == [
        "here, message 1: no message before it has the tool call 'c1'; add that message, or a name"
    ]


def test_a_refusal_is_the_text_of_a_message() -> None:
    message = {"role": "assistant", "content": None, "refusal": "I will not."}
    assert converted(message) == (AiMessage("I will not."),)


@pytest.mark.parametrize(
    ("part", "media"),
    [
        ({"type": "image_url", "image_url": {"url": URL}}, Image.from_url(URL)),
        ({"type": "image_url", "image_url": URL}, Image.from_url(URL)),
        (
            {"type": "image_url", "image_url": {"url": URL, "detail": "low"}},
            Image.from_url(URL).with_detail("low"),
        ),
        (
            {"type": "input_image", "image_url": URL, "detail": "high"},
            Image.from_url(URL).with_detail("high"),
        ),
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64(PNG)}"}},
            Image.from_bytes(PNG),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": base64(WAV), "format": "wav"}},
            Audio.from_bytes(WAV),
        ),
        (
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{base64(PDF)}"},
            },
            File.from_bytes(PDF, name="a.pdf"),
        ),
        ({"type": "input_file", "file_url": "https://x.org/a.pdf"}, File.from_url("https://x.org/a.pdf")),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": base64(PDF)},
            File.from_bytes(PDF, name="a.pdf"),
        ),
        ({"type": "image", "url": URL}, Image.from_url(URL)),
        ({"type": "image", "base64": base64(PNG), "mime_type": "image/png"}, Image.from_bytes(PNG)),
        (
            {"type": "file", "source_type": "base64", "data": base64(PDF), "mime_type": "application/pdf"},
            File.from_bytes(PDF),
        ),
        (Image.from_bytes(PNG), Image.from_bytes(PNG)),
    ],
)
def test_media_stay_between_the_texts(part: Any, media: Any) -> None:
    assert converted(user(text("a"), text("b"), part, text("c"))) == (
        UserMessage("a\nbc", contents=("a\nb", media, "c")),
    )
    assert converted(user(part)) == (UserMessage("", contents=(media,)),)


def test_parts_that_are_only_text_are_one_text() -> None:
    assert converted(user(text("a"), {"type": "input_text", "text": "b"}, "c")) == (UserMessage("a\nb\nc"),)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (user(), "its content is an empty list; it must have at least one part"),
        (user(text("a"), {"type": "text"}), "part 2 of its content: it lacks 'text'"),
        (user(text(5)), "part 1 of its content: its text is int; it must be text"),  # type: ignore[arg-type]  # wrong on purpose
        (
            user({"type": "video", "url": "x"}),
            "part 1 of its content: 'video' is not a known type; use text, image_url, input_audio or file",
        ),
        (
            user(5),
            "part 1 of its content: 'int' is not a known type; use text, image_url, input_audio or file",
        ),
        (
            user({"type": "input_audio", "input_audio": {"data": "%", "format": "wav"}}),
            "part 1 of its content: its data is not base64: Only base64 data is allowed",
        ),
        (
            user({"type": "file", "file": {"file_id": "file-1"}}),
            "part 1 of its content: it has no file_data; files that were uploaded before cannot be used",
        ),
        (
            {"role": "system", "content": [{"type": "image_url", "image_url": URL}]},
            "its content has an image; only messages of users may have media",
        ),
        ({"role": "user", "content": "q", "name": 5}, "its name is int; it must be text"),
        ({"role": "assistant"}, "its content is NoneType; it must be text or a list of parts"),
        (
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            "function_call is the older form of a tool call; write it in tool_calls",
        ),
        (
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
            "call 1 is dict without a name or an id; pass tool calls of aiservices, of the OpenAI SDK or of "
            "LangChain, or a message that has them",
        ),
    ],
)
def test_a_dict_that_is_not_a_message_is_a_problem(message: Any, problem: str) -> None:
    assert problems_of(message) == [f"here, message 1: {problem}"]


def test_a_text_is_not_a_list_of_messages() -> None:
    problems: list[DefinitionProblem] = []
    assert list_to_messages("hi", "here", problems) == ()
    assert [str(problem) for problem in problems] == [
        "here: the input is str; pass a text, a message, or a list in which each item is a message, "
        "a pair of role and text, or a dict with role and content"
    ]
