"""Token counts and finish reasons are read in one way for all APIs."""

from __future__ import annotations

from typing import Any

import pytest

from aiservices.models.http.usage import UsageFields, read_finish_reason, read_usage
from aiservices.models.messages import AiMessage, FinishReason, ToolCall, Usage
from aiservices.models.openai import chat, responses
from aiservices.models.providers import anthropic, bedrock, gemini

FIELDS = UsageFields(("in", "read"), ("out",), ("read",), ("details.thoughts",), ("written",))


def test_the_counts_of_a_group_are_added_up() -> None:
    counts = {"in": 3, "read": 2, "out": 7, "details": {"thoughts": 5}, "written": 1}
    assert read_usage(counts, FIELDS) == Usage(5, 7, 2, 5, 1)


@pytest.mark.parametrize("usage", [None, {}, [], "none", 3])
def test_a_reply_without_counts_has_no_usage(usage: Any) -> None:
    assert read_usage(usage, FIELDS) is None


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        ("3", 3),
        (3.0, 3),
        ("many", 0),
        (None, 0),
        (True, 0),
        ([3], 0),
        ({"count": 3}, 0),
        (float("inf"), 0),
        ("nan", 0),
        (10**30, 0),
        ("-3", 0),
    ],
)
def test_an_odd_count_is_a_number_or_0_and_never_an_error(count: Any, expected: int) -> None:
    assert read_usage({"in": count, "out": 4}, FIELDS) == Usage(expected, 4)
    assert read_usage({"in": 1, "details": count}, FIELDS) == Usage(1)


@pytest.mark.parametrize("word", ["stop", "STOP", "Stop"])
def test_the_case_of_a_finish_reason_does_not_matter(word: str) -> None:
    assert read_finish_reason(word, chat.FINISH_REASONS) is FinishReason.STOP


def test_a_reply_without_a_finish_reason_is_complete_and_an_unknown_word_is_other() -> None:
    assert read_finish_reason(None, chat.FINISH_REASONS) is FinishReason.STOP
    assert read_finish_reason("", chat.FINISH_REASONS) is FinishReason.STOP
    assert read_finish_reason("tired", chat.FINISH_REASONS) is FinishReason.OTHER
    assert read_finish_reason(7, chat.FINISH_REASONS) is FinishReason.OTHER


def test_a_complete_message_with_tool_calls_ends_with_tool_calls() -> None:
    calls = AiMessage("", (ToolCall("1", "f", "{}"),))
    assert read_finish_reason("stop", gemini.FINISH_REASONS, calls) is FinishReason.TOOL_CALLS
    assert read_finish_reason("max_tokens", gemini.FINISH_REASONS, calls) is FinishReason.LENGTH


def test_the_tables_are_in_lower_case() -> None:
    tables = (
        chat.FINISH_REASONS,
        responses.INCOMPLETE_REASONS,
        anthropic.FINISH_REASONS,
        gemini.FINISH_REASONS,
        bedrock.FINISH_REASONS,
    )
    assert [word for table in tables for word in table if word != word.lower()] == []


@pytest.mark.parametrize(
    "word", ["time_limit", "repetition_truncation", "MAX_TOKENS", "model_length", "length"]
)
def test_words_of_gateways_for_a_cut_off_reply_are_known(word: str) -> None:
    assert read_finish_reason(word, chat.FINISH_REASONS) is FinishReason.LENGTH


@pytest.mark.parametrize("word", ["SAFETY", "guardrail_intervened", "content_filter"])
def test_words_of_gateways_for_a_filtered_reply_are_known(word: str) -> None:
    assert read_finish_reason(word, chat.FINISH_REASONS) is FinishReason.CONTENT_FILTER
