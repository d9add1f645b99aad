"""Tests of tools that return images and other media, and of ToolAnswer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from loopback import Loopback, answer, json_reply
from pydantic import BaseModel

from aiservices import (
    AiMessage,
    ChatReply,
    Image,
    OpenAiChatModel,
    OpenAiResponsesModel,
    Result,
    ScriptedChatModel,
    ToolAnswer,
    ToolCall,
    ToolLimits,
    ToolMessage,
    create,
    user_message,
)

PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")
OTHER = Image.from_url("https://example.com/a.png")


class Asks(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> Result[str]: ...


@dataclass
class Card:
    title: str
    picture: Image


class Album(BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    cards: list[Card]


def message_of(result: Any) -> ToolMessage:
    def see() -> Any:
        """Look."""
        return result

    call = ChatReply(AiMessage("", (ToolCall("c1", "see", "{}"),)))
    model = ScriptedChatModel([call, "Seen."])
    given = create(Asks, model, tools=[see]).ask("x")
    assert given.tool_runs[0].result is result
    message = model.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    return message


@pytest.mark.parametrize(
    ("result", "text", "contents"),
    [
        (PICTURE, "[image 1]", (PICTURE,)),
        (["two", PICTURE, OTHER], '["two","[image 1]","[image 2]"]', (PICTURE, OTHER)),
        (Card("Rome", PICTURE), '{"title":"Rome","picture":"[image 1]"}', (PICTURE,)),
        ({"a": (1, PICTURE)}, '{"a":[1,"[image 1]"]}', (PICTURE,)),
        (
            Album(cards=[Card("Rome", PICTURE)]),
            '{"cards":[{"title":"Rome","picture":"[image 1]"}]}',
            (PICTURE,),
        ),
        (["no", 1, None], '["no",1,null]', ()),
    ],
)
def test_media_in_a_result_reach_the_model_as_media(
    result: Any, text: str, contents: tuple[Any, ...]
) -> None:
    message = message_of(result)
    assert (message.text, message.contents) == (text, contents)


def test_an_answer_has_text_for_the_model_and_data_for_the_program() -> None:
    def search(query: str) -> ToolAnswer:
        """Search."""
        return ToolAnswer("2 rows", [PICTURE], data=[1, 2])

    call = ChatReply(AiMessage("", (ToolCall("c1", "search", '{"query": "x"}'),)))
    model = ScriptedChatModel([call, "Found."])
    result = create(Asks, model, tools=[search]).ask("x")
    assert result.tool_runs[0].result == [1, 2]
    assert model.requests[1].messages[-1] == ToolMessage("c1", "search", "2 rows", (PICTURE,))


def test_the_limit_of_characters_counts_the_text_only() -> None:
    def see() -> Any:
        """Look."""
        return [PICTURE, "x" * 50]

    call = ChatReply(AiMessage("", (ToolCall("c1", "see", "{}"),)))
    model = ScriptedChatModel([call, "Seen."])
    create(Asks, model, tools=[see], tool_limits=ToolLimits(max_characters=20)).ask("x")
    message = model.requests[1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert message.contents == (PICTURE,)
    assert message.text.startswith('["[image 1]","xxxxxx')
    assert "The result is cut here" in message.text


def test_chat_completions_get_the_image_after_the_round(loopback: Loopback) -> None:
    def see() -> Any:
        """Look."""
        return PICTURE

    def count() -> int:
        """Count."""
        return 2

    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in ("see", "count")
    ]
    loopback.reply(answer(None, tool_calls=calls, finish_reason="tool_calls"), answer("Seen."))
    model = OpenAiChatModel("m", base_url=loopback.base_url, api_key="k")
    create(Asks, model, tools=[see, count]).ask("x")
    *_, first, second, after = loopback.requests[1].json["messages"]
    assert [(one["role"], one["content"]) for one in (first, second)] == [
        ("tool", "[image 1]"),
        ("tool", "2"),
    ]
    assert after == {
        "role": "user",
        "content": [
            {"type": "text", "text": "From the result of the tool see:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ],
    }


def test_the_responses_api_gets_the_image_in_the_result(loopback: Loopback) -> None:
    def see() -> Any:
        """Look."""
        return PICTURE

    call = {"type": "function_call", "call_id": "c1", "name": "see", "arguments": "{}"}
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Seen."}]}
    made: Callable[[Any], Any] = lambda item: json_reply({"id": "r", "status": "completed", "output": [item]})  # noqa: E731
    loopback.reply(made(call), made(text))
    model = OpenAiResponsesModel("m", base_url=loopback.base_url, api_key="k")
    create(Asks, model, tools=[see]).ask("x")
    output = loopback.requests[1].json["input"][-1]["output"]
    assert [part["type"] for part in output] == ["input_text", "input_image"]
