"""The sample of Claude's web search sends the reasoning back, and prints searches and sources."""

from __future__ import annotations

from typing import Any

import pytest
from loopback import Loopback, json_reply

from aiservices import AnthropicChatModel
from samples import claude_web_search

THINKING = {"type": "thinking", "thinking": "I have to look.", "signature": "c2lnbmVk"}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "Vermeer Delft"}}
RESULTS = {
    "type": "web_search_tool_result",
    "tool_use_id": "s1",
    "content": [
        {"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "e"}
    ],
}
CITATION = {
    "type": "web_search_result_location",
    "url": "https://a.example",
    "title": "A",
    "cited_text": "2007",
}


def reply(*content: dict[str, Any], cached: int) -> Any:
    return json_reply(
        {
            "type": "message",
            "id": "msg_1",
            "model": "claude-sonnet-5",
            "content": list(content),
            "stop_reason": "end_turn",
            "usage": {
                "input_tokens": 10,
                "cache_read_input_tokens": cached,
                "cache_creation_input_tokens": 100,
                "output_tokens": 20,
            },
        }
    )


def test_answers_are_printed_with_reasoning_searches_and_sources(
    loopback: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    first = (THINKING, SEARCH, RESULTS, {"type": "text", "text": "In 2007.", "citations": [CITATION]})
    loopback.reply(reply(*first, cached=0), reply({"type": "text", "text": "12 euros."}, cached=100))
    claude_web_search.main(AnthropicChatModel("claude-sonnet-5", base_url=loopback.base_url, api_key="k"))
    assert capsys.readouterr().out == (
        "In 2007.\n"
        "  reasoning: I have to look.\n"
        "  web_search: {'query': 'Vermeer Delft'}\n"
        "  source: A, https://a.example\n"
        "  110 tokens of input, 0 of them from the cache\n"
        "12 euros.\n"
        "  reasoning: None\n"
        "  210 tokens of input, 100 of them from the cache\n"
    )
    one, two = (request.json for request in loopback.requests)
    assert one["tools"] == [claude_web_search.WEB_SEARCH]
    assert one["output_config"] == {"effort": "high"}
    assert one["cache_control"] == {"type": "ephemeral", "ttl": "5m"}
    assert two["messages"][0] == one["messages"][0]  # so the cache is valid
    assert two["messages"][1] == {"role": "assistant", "content": list(first)}


def test_without_a_key_the_request_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    claude_web_search.main()
    assert capsys.readouterr().out == (
        "Researcher.answer → anthropic:claude-sonnet-5\n"
        "strategy: text (the type is plain text: the reply itself is the value)\n\n"
        "[user]\n"
        "When was the Vermeer museum in Delft opened? Answer in one sentence.\n\n"
        "reasoning: high, tools: ({'type': 'web_search_20250305', 'name': 'web_search', 'max_uses': 3},)\n"
    )
