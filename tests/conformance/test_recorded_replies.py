"""Recorded replies of providers, sent by a local server: we read the same as the provider's own SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from loopback import Loopback, Reply

from aiservices import ChatModel, ChatRequest, ModelError
from aiservices.models.messages import ChatReply
from aiservices.models.providers.anthropic import AnthropicChatModel
from aiservices.models.providers.bedrock import AwsKeys, BedrockChatModel
from aiservices.models.providers.gemini import GeminiChatModel

EXCHANGES = Path(__file__).parents[3] / "shared" / "recorded" / "exchanges.jsonl"
pytestmark = pytest.mark.skipif(not EXCHANGES.exists(), reason="the recorded exchanges are not here")


class Reading(NamedTuple):
    """What a reply says, in terms that all APIs share."""

    text: str
    calls: tuple[tuple[str, Any], ...]
    reasoning: str
    input_tokens: int
    output_tokens: int


def exchanges(api: str) -> Iterator[dict[str, Any]]:
    for line in EXCHANGES.read_text().splitlines():
        exchange = json.loads(line)
        if exchange["api"] == api:
            yield exchange


def served(exchange: dict[str, Any]) -> Reply:
    response = exchange["response"]
    body = response if isinstance(response, str) else json.dumps(response)
    return Reply(exchange["status"], body.encode(), {"content-type": exchange["content_type"]})


def is_stream(exchange: dict[str, Any]) -> bool:
    return "event-stream" in exchange["content_type"]


def our_reading(model: ChatModel, exchange: dict[str, Any]) -> Reading:
    request = ChatRequest.of("Hello")
    reply: ChatReply | None
    if is_stream(exchange):
        deltas = list(model.stream(request))
        reply = deltas[-1].reply
        assert reply is not None
        assert "".join(delta.text for delta in deltas) == reply.text
    else:
        reply = model.complete(request)
    usage = reply.usage
    calls = tuple((call.name, json.loads(call.arguments or "{}")) for call in reply.message.tool_calls)
    return Reading(
        reply.text,
        calls,
        reply.message.reasoning or "",
        0 if usage is None else usage.input_tokens,
        0 if usage is None else usage.output_tokens,
    )


def differences(
    api: str, make_model: Callable[[str], ChatModel], make_reader: Callable[[str], Callable[[Any], Reading]]
) -> tuple[int, list[str]]:
    """Return how many replies both read the same, and a line for each of the others."""
    same, different = 0, []
    reply = Reply()
    with Loopback().reply(lambda request: reply) as server:
        model, read = make_model(server.base_url), make_reader(server.base_url)
        for exchange in exchanges(api):
            if exchange["status"] != 200:
                continue
            reply = served(exchange)
            ours: Reading | str
            theirs: Reading | str
            try:
                ours = our_reading(model, exchange)
            except ModelError as error:
                ours = type(error).__name__
            try:
                theirs = read(exchange)
            except Exception as error:
                theirs = type(error).__name__
            if ours == theirs or (isinstance(ours, str) and isinstance(theirs, str)):
                same += 1
            else:
                different.append(f"{exchange['id']}: {ours} instead of {theirs}")
    return same, different


def read_with_anthropic(url: str) -> Callable[[Any], Reading]:
    anthropic = pytest.importorskip("anthropic")
    client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)

    def read(exchange: Any) -> Reading:
        arguments: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
        if is_stream(exchange):
            with client.messages.stream(**arguments) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(**arguments)
        usage = message.usage
        cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
        return Reading(
            "".join(block.text for block in message.content if block.type == "text"),
            tuple((block.name, block.input) for block in message.content if block.type == "tool_use"),
            "\n\n".join(b.thinking for b in message.content if b.type == "thinking" and b.thinking),
            usage.input_tokens + cached,
            usage.output_tokens,
        )

    return read


def read_with_genai(url: str) -> Callable[[Any], Reading]:
    genai = pytest.importorskip("google.genai")
    client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url, api_version="v1"))

    def read(exchange: Any) -> Reading:
        if is_stream(exchange):
            responses = list(client.models.generate_content_stream(model="m", contents="Hello"))
        else:
            responses = [client.models.generate_content(model="m", contents="Hello")]
        parts = [
            part
            for response in responses
            for candidate in (response.candidates or [])[:1]
            for part in (candidate.content.parts if candidate.content else None) or []
        ]
        counts: dict[str, int] = {}
        for response in responses:
            usage = response.usage_metadata
            counts |= {} if usage is None else usage.model_dump(exclude_none=True)
        given = counts.get("prompt_token_count", 0) + counts.get("tool_use_prompt_token_count", 0)
        written = counts.get("candidates_token_count", 0) + counts.get("thoughts_token_count", 0)
        return Reading(
            "".join(part.text for part in parts if part.text and not part.thought),
            tuple(
                (one.function_call.name, one.function_call.args or {}) for one in parts if one.function_call
            ),
            "".join(part.text for part in parts if part.text and part.thought),
            given,
            written,
        )

    return read


def read_with_boto(url: str) -> Callable[[Any], Reading]:
    boto3 = pytest.importorskip("boto3", reason="boto3, which needs python-dateutil<3, is not installed")
    client = boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="s",
    )

    def read(exchange: Any) -> Reading:
        messages = [{"role": "user", "content": [{"text": "Hello"}]}]
        response = client.converse(modelId="m", messages=messages)
        blocks, usage = response["output"]["message"]["content"], response["usage"]
        thoughts = [b["reasoningContent"].get("reasoningText", {}) for b in blocks if "reasoningContent" in b]
        cached = usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)
        return Reading(
            "".join(block["text"] for block in blocks if "text" in block),
            tuple((b["toolUse"]["name"], b["toolUse"]["input"]) for b in blocks if "toolUse" in b),
            "\n\n".join(thought["text"] for thought in thoughts if thought.get("text")),
            usage["inputTokens"] + cached,
            usage["outputTokens"],
        )

    return read


def test_anthropic_replies_are_read_as_the_sdk_reads_them() -> None:
    same, different = differences(
        "anthropic-messages",
        lambda url: AnthropicChatModel("m", base_url=url, api_key="k"),
        read_with_anthropic,
    )
    assert (same, different) == (137, [])


def test_gemini_replies_are_read_as_the_sdk_reads_them() -> None:
    same, different = differences(
        "google-generate", lambda url: GeminiChatModel("m", base_url=url, api_key="k"), read_with_genai
    )
    assert (same, different) == (120, [])


def test_bedrock_replies_are_read_as_the_sdk_reads_them() -> None:
    same, different = differences(
        "bedrock-converse",
        lambda url: BedrockChatModel("m", base_url=url, keys=lambda: AwsKeys("a", "s")),
        read_with_boto,
    )
    assert (same, different) == (60, [])
