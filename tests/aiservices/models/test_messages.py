"""Options, usage, requests and messages."""

from __future__ import annotations

import dataclasses
import math

import pytest

from aiservices import (
    AiMessage,
    ChatOptions,
    ChatReply,
    ChatRequest,
    DefinitionProblem,
    FinishReason,
    JsonObjectFormat,
    SystemMessage,
    Usage,
    UserMessage,
)


def test_defaults_are_used_for_options_that_are_not_set() -> None:
    options = ChatOptions(temperature=0.0, seed=7)
    defaults = ChatOptions(temperature=1.0, max_tokens=5)
    assert options.with_defaults(defaults) == ChatOptions(temperature=0.0, max_tokens=5, seed=7)


def test_without_defaults_options_are_unchanged() -> None:
    options = ChatOptions(seed=1)
    assert options.with_defaults(None) is options


def test_with_empty_defaults_options_are_unchanged() -> None:
    options = ChatOptions(seed=1)
    assert options.with_defaults(ChatOptions()) is options


def test_extra_body_and_headers_are_merged_key_by_key() -> None:
    options = ChatOptions(extra_body={"a": 1, "b": 2}, extra_headers={"x": "option"})
    defaults = ChatOptions(extra_body={"b": 3, "c": 4}, extra_headers={"x": "default", "y": "default"})
    assert options.with_defaults(defaults) == ChatOptions(
        extra_body={"a": 1, "b": 2, "c": 4}, extra_headers={"x": "option", "y": "default"}
    )


def test_an_extra_body_in_the_defaults_is_used() -> None:
    defaults = ChatOptions(extra_body={"a": 1})
    assert ChatOptions(seed=1).with_defaults(defaults) == ChatOptions(seed=1, extra_body={"a": 1})


def test_options_within_their_ranges_have_no_problems() -> None:
    assert ChatOptions(temperature=2.0, top_p=0.0, max_tokens=1, timeout=0.1).problems("here") == []


def test_each_option_out_of_range_is_a_problem() -> None:
    assert ChatOptions(temperature=2.5, top_p=-0.1, max_tokens=0, timeout=-1.0).problems("here") == [
        DefinitionProblem("here", "temperature is 2.5; it must be from 0 to 2"),
        DefinitionProblem("here", "top_p is -0.1; it must be from 0 to 1"),
        DefinitionProblem("here", "max_tokens is 0; it must be an integer greater than 0"),
        DefinitionProblem("here", "timeout is -1.0; it must be greater than 0"),
    ]


def test_a_temperature_of_nan_is_a_problem() -> None:
    assert ChatOptions(temperature=math.nan).problems("here") == [
        DefinitionProblem("here", "temperature is nan; it must be from 0 to 2")
    ]


def test_an_option_of_a_wrong_type_is_a_problem() -> None:
    assert ChatOptions(temperature="hot", max_tokens="many", stop="END").problems("here") == [  # type: ignore[arg-type]
        DefinitionProblem("here", "temperature is 'hot'; it must be from 0 to 2"),
        DefinitionProblem("here", "max_tokens is 'many'; it must be an integer greater than 0"),
        DefinitionProblem("here", "stop is 'END'; it must be a tuple of texts, as in ('END',)"),
    ]


def test_usage_adds_up_field_by_field() -> None:
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)


def test_total_tokens_are_input_and_output() -> None:
    assert Usage(1, 2, 3, 4).total_tokens == 3


def test_a_request_of_a_text_is_one_user_message() -> None:
    assert ChatRequest.of("hello") == ChatRequest((UserMessage("hello"),))


def test_a_request_of_messages_keeps_them_and_takes_settings() -> None:
    messages = [SystemMessage("be brief"), UserMessage("hello")]
    assert ChatRequest.of(messages, options=ChatOptions(seed=1)) == ChatRequest(
        tuple(messages), ChatOptions(seed=1)
    )


def test_messages_are_added_to_a_copy_of_a_request() -> None:
    request = ChatRequest.of("hello")
    more = request.plus(AiMessage("hi"), UserMessage("how are you?"))
    assert (request, more) == (
        ChatRequest.of("hello"),
        ChatRequest((UserMessage("hello"), AiMessage("hi"), UserMessage("how are you?"))),
    )


def test_a_request_has_a_response_format() -> None:
    response_format = JsonObjectFormat()
    assert ChatRequest.of("hello", response_format=response_format).response_format is response_format


def test_the_text_of_a_reply_is_that_of_its_message() -> None:
    reply = ChatReply(AiMessage("hi"))
    assert (reply.text, reply.finish_reason, reply.usage) == ("hi", FinishReason.STOP, None)


def test_messages_cannot_be_changed() -> None:
    message = UserMessage("hello")
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.text = "bye"  # type: ignore[misc]
