"""Messages as JSON: every message survives the round trip, and other JSON is an error."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from aiservices import AiMessage, Image, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
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


@pytest.mark.parametrize(
    "data",
    [
        {"type": "user", "text": "x", "colour": 1},
        {"type": "ai", "text": "x", "tool_calls": (), "phase": {"name": "final"}},
        {"type": "ai", "text": "x", "state": {"version": 2, "blob": "abc"}},
        {"type": "ai", "text": "x", "state": "abc"},
    ],
)
def test_members_of_newer_versions_are_kept(data: Any) -> None:
    expected = {name: value for name, value in data.items() if value != ()}
    assert json.loads(json.dumps(message_to_dict(message_from_dict(data)))) == expected


def test_the_state_of_a_provider_is_stored_but_neither_compared_nor_shown() -> None:
    call = ToolCall("c1", "add", "{}")
    message = AiMessage("x", (call,)).with_state("acme at https://acme", "m1", [{"signature": "abc"}])
    stored = message_from_dict(json.loads(json.dumps(message_to_dict(message))))
    assert isinstance(stored, AiMessage)
    assert stored.state == message.state
    assert stored.parts_for("acme at https://acme") == ({"signature": "abc"},)
    assert message == AiMessage("x", (call,))
    assert hash(message) == hash(AiMessage("x", (call,)))
    assert "abc" not in repr(message)


@pytest.mark.parametrize(
    "edit",
    [
        {"text": "y"},
        {"text": ""},
        {"tool_calls": ()},
        {"tool_calls": (ToolCall("c2", "add", "{}"),)},
        {"tool_calls": (ToolCall("c1", "add", "{} "),)},
        {"tool_calls": (ToolCall("c1", "add", "{}"), ToolCall("c2", "add", "{}"))},
    ],
)
def test_an_edited_message_has_no_parts_for_its_provider(edit: dict[str, Any]) -> None:
    message = AiMessage("x", (ToolCall("c1", "add", "{}"),)).with_state("acme", "m1", [1])
    assert replace(message, reasoning="other").parts_for("acme") == (1,)
    assert replace(message, **edit).parts_for("acme") is None
    assert message.parts_for("another") is None


def test_a_failed_result_with_an_image_is_stored() -> None:
    image = Image.from_bytes(b"\x89PNG", "image/png")
    message = ToolMessage("c1", "draw", "no ink", (image,), failed=True)
    data = json.loads(json.dumps(message_to_dict(message)))
    assert data["failed"] is True
    assert message_from_dict(data) == message
    assert message.parts == ("no ink", image)


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
