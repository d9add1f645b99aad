"""Check that conversations are written as requests that follow the rules of each provider's API."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

from aiservices import UserMessage
from aiservices.models.messages import Message
from aiservices.models.openai import chat, responses
from aiservices.models.openai.client import Endpoint
from aiservices.models.providers import anthropic, bedrock, gemini


def check_anthropic(messages: list[Message]) -> None:
    for anywhere in (True, False):
        written = anthropic.write_messages(messages, provider="anthropic", system_anywhere=anywhere)
        check_blocks(
            written,
            uses=lambda block: block["id"] if block["type"] == "tool_use" else None,
            results=lambda block: block["tool_use_id"] if block["type"] == "tool_result" else None,
        )
        for message in written:
            for block in message["content"]:
                assert block["type"] != "text" or block["text"].strip()
                if block["type"] == "tool_use":
                    assert re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"])
                    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["name"])


def check_bedrock(messages: list[Message]) -> None:
    written = bedrock.write_messages(messages, provider="bedrock")
    check_blocks(
        written,
        uses=lambda block: block["toolUse"]["toolUseId"] if "toolUse" in block else None,
        results=lambda block: block["toolResult"]["toolUseId"] if "toolResult" in block else None,
    )
    for message in written:
        for block in message["content"]:
            assert block.get("text", "x").strip()
            if "toolUse" in block:
                assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["toolUse"]["toolUseId"])


def check_blocks(written: list[Any], uses: Any, results: Any) -> None:
    """Check that roles alternate, and that each tool call has its result first in the message after it."""
    roles = [message["role"] for message in written if message["role"] != "system"]
    assert roles[0] == "user"
    assert all(one != next_one for one, next_one in pairwise(roles))
    pending: list[str] = []
    for message in written:
        content = message["content"]
        assert content
        given = [one for block in content if (one := results(block)) is not None]
        assert [results(block) for block in content[: len(given)]] == given
        assert sorted(given) == sorted(pending)
        assert len(set(given)) == len(given)
        pending = [one for block in content if (one := uses(block)) is not None]
    assert pending == []


def check_gemini(messages: list[Message]) -> None:
    for name in ("gemini-3-pro", "gemini-2.5-flash"):
        written = gemini.write_contents(messages, provider="gemini", rules=gemini.gemini_rules(name))
        assert written[0]["role"] == "user"
        pending = 0
        for before, content in zip([None, *written], written, strict=False):
            assert before is None or before["role"] != content["role"]
            assert content["parts"]
            responses = sum("functionResponse" in part for part in content["parts"])
            assert responses == pending
            pending = sum("functionCall" in part for part in content["parts"])
            calls = [part for part in content["parts"] if "functionCall" in part]
            if name == "gemini-3-pro" and calls:  # the first call of a step needs a signature
                assert calls[0].get("thoughtSignature")
        assert pending == 0


def check_openai(messages: list[Message]) -> None:
    written = chat._messages(messages, "openai", Endpoint("openai", "https://api.openai.com/v1"))
    pending: list[str] = []
    for message in written:
        if message["role"] == "tool":
            pending.remove(message["tool_call_id"])
            continue
        assert pending == []
        pending = [call["id"] for call in message.get("tool_calls") or ()]
        assert message["content"] or pending
    assert pending == []


def check_responses(messages: list[Message]) -> None:
    unnamed = [replace(one, name=None) if isinstance(one, UserMessage) else one for one in messages]
    pending: list[str] = []
    for item in responses._items(unnamed, "responses"):
        if item.get("type") == "function_call":
            pending.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            pending.remove(item["call_id"])
        else:
            assert pending == []
    assert pending == []


CHECKS = {
    "anthropic": check_anthropic,
    "gemini": check_gemini,
    "bedrock": check_bedrock,
    "openai": check_openai,
    "responses": check_responses,
}
