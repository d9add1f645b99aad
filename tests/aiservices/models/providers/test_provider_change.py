"""A conversation continues with another provider, which gets texts and calls but not the state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations
from typing import Annotated, Any, Protocol

import pytest
from loopback import Loopback, Reply, answer, error, json_reply

from aiservices import (
    AnthropicChatModel,
    BedrockChatModel,
    Budget,
    ChatModel,
    FallbackChatModel,
    GeminiChatModel,
    MemoryId,
    OpenAiChatModel,
    OpenAiResponsesModel,
    create,
)
from aiservices.memory import ChatMemory

SECRET = "c2lnbmF0dXJl"  # the signature or the encrypted reasoning of each provider
TEXT = "At nine."


class Chat(Protocol):
    def chat(self, user: Annotated[str, MemoryId], text: str) -> str: ...


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def anthropic(url: str) -> ChatModel:
    return AnthropicChatModel("claude-sonnet-5", base_url=url, api_key="k")


def gemini(url: str) -> ChatModel:
    return GeminiChatModel("gemini-3-pro", base_url=url, api_key="k")


def bedrock(url: str) -> ChatModel:
    return BedrockChatModel("us.anthropic.claude-sonnet-4-6", base_url=url, api_key="k")


def deepseek(url: str) -> ChatModel:
    return OpenAiChatModel("deepseek-chat", provider="deepseek", base_url=url, api_key="k")


def responses(url: str) -> ChatModel:
    return OpenAiResponsesModel("gpt-5", base_url=url, api_key="k")


def replies(model: Any) -> Iterator[Reply]:
    """Yield a call of a tool with reasoning, and an answer with reasoning."""
    city = {"city": "Delft"}
    match model.__name__:
        case "anthropic":
            thinking = {"type": "thinking", "thinking": "Hm.", "signature": SECRET}
            call: Any = {"type": "tool_use", "id": "t1", "name": "weather", "input": city}
            yield json_reply({"content": [thinking, call], "stop_reason": "tool_use"})
            yield json_reply(
                {"content": [thinking, {"type": "text", "text": TEXT}], "stop_reason": "end_turn"}
            )
        case "gemini":
            call = {"functionCall": {"name": "weather", "args": city}, "thoughtSignature": SECRET}
            for part in (call, {"text": TEXT, "thoughtSignature": SECRET}):
                yield json_reply({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]})
        case "bedrock":
            thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": SECRET}}}
            call = {"toolUse": {"toolUseId": "t1", "name": "weather", "input": city}}
            for block, reason in ((call, "tool_use"), ({"text": TEXT}, "end_turn")):
                message = {"role": "assistant", "content": [thought, block]}
                yield json_reply({"output": {"message": message}, "stopReason": reason})
        case "deepseek":
            function = {"name": "weather", "arguments": json.dumps(city)}
            calls = [{"id": "t1", "type": "function", "function": function}]
            yield answer(None, tool_calls=calls, finish_reason="tool_calls", reasoning_content=SECRET)
            yield answer(TEXT, reasoning_content=SECRET)
        case _:
            thought = {"type": "reasoning", "id": "rs_1", "encrypted_content": SECRET, "summary": []}
            call = {
                "type": "function_call",
                "call_id": "t1",
                "name": "weather",
                "arguments": json.dumps(city),
            }
            text = {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": TEXT}],
            }
            yield json_reply({"status": "completed", "output": [thought, call]})
            yield json_reply({"status": "completed", "output": [thought, text]})


MODELS = [anthropic, gemini, bedrock, deepseek, responses]


@pytest.mark.parametrize(("first", "second"), list(permutations(MODELS, 2)))
def test_a_conversation_changes_its_provider_and_returns(first: Any, second: Any) -> None:
    with Loopback() as one, Loopback() as other:
        refused = error(503, "overloaded")
        one.reply(*replies(first), *[refused] * 2, *list(replies(first))[1:])
        other.reply(*replies(second))
        models = FallbackChatModel(first(one.base_url), second(other.base_url))
        budget = Budget(first_wait=0, max_attempts=8)
        chat = create(Chat, models, interceptors=[ChatMemory()], tools=[weather], budget=budget)
        assert chat.chat("ann", "Weather?") == TEXT
        own = json.dumps(one.requests[1].json)
        assert SECRET in own
        answered = len(one.requests)
        assert chat.chat("ann", "And now?") == TEXT  # the first provider is overloaded
        foreign = json.dumps(other.requests[0].json)
        assert SECRET not in foreign
        assert "rain in Delft" in foreign
        assert TEXT in foreign
        assert chat.chat("ann", "Sure?") == TEXT
        last = json.dumps(one.requests[-1].json)
        assert len(one.requests) > answered
        assert last.count("rain in Delft") == 2  # of both providers
        assert last.count(SECRET) == 2  # its own call and its own answer
