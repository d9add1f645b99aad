"""Check that conversations are written as requests that follow the rules of each provider's API."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

from aiservices import (
    AnthropicChatModel,
    BedrockChatModel,
    ChatRequest,
    GeminiChatModel,
    OpenAiChatModel,
    OpenAiResponsesModel,
    UserMessage,
)
from aiservices.models.http.model import HttpChatModel
from aiservices.models.messages import Message

URL = "http://localhost:1/v1"


def body(model: HttpChatModel, messages: list[Message]) -> Any:
    """Return the JSON of a request with these messages."""
    return json.loads(model.http_request(ChatRequest(tuple(messages))).body)


def check_anthropic(messages: list[Message]) -> None:
    for name in ("claude-opus-5-5", "claude-3-5-sonnet"):
        model = AnthropicChatModel(name, base_url=URL, api_key="k")
        written = body(model, messages)["messages"]
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
    model = BedrockChatModel("us.amazon.nova-2-lite-v1:0", base_url=URL, api_key="k")
    written = body(model, messages)["messages"]
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
        written = body(GeminiChatModel(name, base_url=URL, api_key="k"), messages)["contents"]
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


def check_chat(
    messages: list[Message],
    provider: str = "openai",
    base_url: str = "https://api.openai.com/v1",
    call_ids: str = r"(?s).{1,40}",
    alternates: bool = False,
) -> None:
    model = OpenAiChatModel("m", provider=provider, base_url=base_url, api_key="k")
    written = body(model, messages)["messages"]
    pending: list[str] = []
    all_ids: list[str] = []
    for message in written:
        if message["role"] == "tool":
            pending.remove(message["tool_call_id"])
            continue
        assert pending == []
        for call in message.get("tool_calls") or ():
            assert re.fullmatch(call_ids, call["id"])
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            pending.append(call["id"])
        all_ids += pending
        assert message["content"] or pending
    assert pending == []
    assert len(set(all_ids)) == len(all_ids)
    if alternates:
        roles = [message["role"] for message in written if message["role"] != "tool"]
        conversation = roles[1:] if roles[0] == "system" else roles
        assert conversation[0] == "user"
        assert "system" not in conversation
        assert ("user", "user") not in pairwise(conversation)


def check_mistral(messages: list[Message]) -> None:
    check_chat(messages, "mistral", URL, r"[a-zA-Z0-9]{9}", alternates=True)


def check_vllm(messages: list[Message]) -> None:
    check_chat(messages, "vllm", URL, r"(?s).+", alternates=True)


def check_responses(messages: list[Message]) -> None:
    unnamed = [replace(one, name=None) if isinstance(one, UserMessage) else one for one in messages]
    pending: list[str] = []
    model = OpenAiResponsesModel("m", base_url=URL, api_key="k")
    for item in body(model, unnamed)["input"]:
        if item.get("type") == "function_call":
            assert re.fullmatch(r"(?s).{1,64}", item["call_id"])
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", item["name"])
            assert isinstance(json.loads(item["arguments"]), dict)
            pending.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            pending.remove(item["call_id"])
        elif item.get("role") != "assistant" and item.get("type") != "reasoning":
            # two answers in a row may both have calls, and text and reasoning before them
            assert pending == []
    assert pending == []


# The APIs as the states of their messages name them.
STATES = {
    "anthropic": "anthropic at http://localhost:1",
    "gemini": f"gemini at {URL}",
    "bedrock": f"bedrock at {URL}",
    "openai": "openai at https://api.openai.com/v1",
    "responses": f"openai-responses at {URL}",
}
CHECKS = {
    "anthropic": check_anthropic,
    "gemini": check_gemini,
    "bedrock": check_bedrock,
    "openai": check_chat,
    "mistral": check_mistral,
    "vllm": check_vllm,
    "responses": check_responses,
}
