"""Messages as JSON: every message survives the round trip, and other JSON is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from aiservices import AiMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from aiservices.models.messages import (
    message_from_dict,
    message_to_dict,
    messages_from_json,
    messages_to_json,
)

texts = st.text(max_size=40)
messages = st.one_of(
    st.builds(SystemMessage, texts),
    st.builds(UserMessage, texts, st.none() | texts),
    st.builds(
        AiMessage,
        texts,
        st.lists(st.builds(ToolCall, texts, texts, texts), max_size=3).map(tuple),
        st.none() | texts,
    ),
    st.builds(ToolMessage, texts, texts, texts),
)


@given(st.lists(messages, max_size=5))
def test_messages_survive_a_round_trip_through_json(messages: list[Message]) -> None:
    assert messages_from_json(messages_to_json(messages)) == messages


@given(messages)
def test_a_message_from_json_has_the_same_types_and_hash(message: Message) -> None:
    read = message_from_dict(json.loads(json.dumps(message_to_dict(message))))
    assert (type(read), hash(read)) == (type(message), hash(message))
    if isinstance(read, AiMessage):
        assert all(type(call) is ToolCall for call in read.tool_calls)


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (SystemMessage("Be brief."), {"type": "system", "text": "Be brief."}),
        (UserMessage("Hi"), {"type": "user", "text": "Hi"}),
        (UserMessage("", "ann"), {"type": "user", "text": "", "name": "ann"}),
        (AiMessage(""), {"type": "ai", "text": ""}),
        (
            AiMessage("I add.", (ToolCall("c1", "add", "{}"),), "thought"),
            {
                "type": "ai",
                "text": "I add.",
                "tool_calls": ({"id": "c1", "name": "add", "arguments": "{}"},),
                "reasoning": "thought",
            },
        ),
        (ToolMessage("c1", "add", "3"), {"type": "tool", "call_id": "c1", "name": "add", "text": "3"}),
    ],
)
def test_the_json_of_a_message_has_its_type_and_the_fields_that_are_set(message: Message, data: Any) -> None:
    assert message_to_dict(message) == data
    assert message_from_dict(data) == message


def test_message_from_dict_does_not_change_its_argument() -> None:
    data = message_to_dict(AiMessage("", (ToolCall("c1", "add", "{}"),)))
    before = json.dumps(data)
    message_from_dict(data)
    assert json.dumps(data) == before


def test_text_in_any_script_is_written_without_escapes() -> None:
    assert messages_to_json([UserMessage("张三 €")]) == '[{"type": "user", "text": "张三 €"}]'


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({}, "unknown type of message: None"),
        ({"type": "bot", "text": "x"}, "unknown type of message: 'bot'"),
        ({"type": [], "text": "x"}, "unknown type of message: []"),
        (
            {"type": "user", "text": "x", "colour": 1},
            "wrong fields in a message of the type user: "
            "UserMessage.__init__() got an unexpected keyword argument 'colour'",
        ),
        (
            {"type": "tool", "text": "x"},
            "wrong fields in a message of the type tool: "
            "ToolMessage.__init__() missing 2 required positional arguments: 'call_id' and 'name'",
        ),
    ],
)
def test_the_error_for_a_wrong_dict_has_the_reason(data: Any, error: str) -> None:
    with pytest.raises(ValueError, match="message") as caught:
        message_from_dict(data)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    "data",
    [
        {"type": "ai", "text": "", "tool_calls": [{"id": "c1"}]},
        {"type": "ai", "text": "", "tool_calls": [5]},
        {"type": "ai", "text": "", "tool_calls": 5},
        {"type": "ai", "text": "", "tool_calls": ["text"]},
        {"type": "user", "text": 5},
        {"type": "tool", "call_id": None, "name": "x", "text": "x"},
        {"type": "ai", "text": None},
    ],
)
def test_fields_of_a_wrong_type_are_a_value_error(data: Any) -> None:
    with pytest.raises(ValueError, match="message"):
        message_from_dict(data)


@pytest.mark.parametrize("text", ["", "{", "5", "null", '"text"', "[5]", '["text"]', '{"type": "user"}'])
def test_text_without_messages_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # each has another message
        messages_from_json(text)
