"""Recorded replies of providers, sent by a local server: we read the same as the provider's own SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from loopback import Loopback, Reply

from aiservices import ChatModel, ChatRequest, ModelError, OpenAiChatModel, OpenAiResponsesModel, Price
from aiservices.models.http.model import HttpChatModel
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


# Given a server's address, opens a reader that asks it with a provider's SDK.
Reader = Callable[[str], AbstractContextManager[Callable[[Any], Reading]]]


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
    api: str, make_model: Callable[[str], ChatModel], make_reader: Reader
) -> tuple[int, list[str]]:
    """Return how many replies both read the same, and a line for each of the others."""
    same, different = 0, []
    reply = Reply()
    with (
        Loopback().reply(lambda request: reply) as server,
        closing(make_model(server.base_url)) as model,
        make_reader(server.base_url) as read,
    ):
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


@contextmanager
def read_with_anthropic(url: str) -> Iterator[Callable[[Any], Reading]]:
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

    with closing(client):
        yield read


@contextmanager
def read_with_genai(url: str) -> Iterator[Callable[[Any], Reading]]:
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

    with closing(client):
        yield read


@contextmanager
def read_with_boto(url: str) -> Iterator[Callable[[Any], Reading]]:
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
        uses = [block["toolUse"] for block in blocks if "toolUse" in block]
        thoughts = [b["reasoningContent"].get("reasoningText", {}) for b in blocks if "reasoningContent" in b]
        cached = usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)
        return Reading(
            "".join(block["text"] for block in blocks if "text" in block),
            tuple((use["name"], use["input"]) for use in uses if use.get("type") != "server_tool_use"),
            "\n\n".join(thought["text"] for thought in thoughts if thought.get("text")),
            usage["inputTokens"] + cached,
            usage["outputTokens"],
        )

    with closing(client):
        yield read


@contextmanager
def read_with_openai_chat(url: str) -> Iterator[Callable[[Any], Reading]]:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)

    def read(exchange: Any) -> Reading:
        arguments: Any = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
        if is_stream(exchange):
            return read_chunks(list(client.chat.completions.create(**arguments, stream=True)))
        completion = client.chat.completions.create(**arguments)
        message, usage = completion.choices[0].message, completion.usage
        calls = message.tool_calls or ()
        return Reading(
            text_of(message.content),
            tuple((call.function.name, json.loads(call.function.arguments or "{}")) for call in calls),
            reasoning_of(message, message.content),
            usage.prompt_tokens if usage else 0,
            usage.completion_tokens if usage else 0,
        )

    with closing(client):
        yield read


def read_chunks(chunks: list[Any]) -> Reading:
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices[:1]]
    calls: dict[int, list[str]] = {}
    for delta in deltas:
        for call in delta.tool_calls or ():
            made = calls.setdefault(call.index, ["", ""])
            made[0] = call.function.name or made[0]
            made[1] += call.function.arguments or ""
    usages = [chunk.usage for chunk in chunks if chunk.usage]
    return Reading(
        "".join(text_of(delta.content) for delta in deltas),
        tuple((name, json.loads(arguments or "{}")) for name, arguments in calls.values()),
        "".join(reasoning_of(delta, delta.content) for delta in deltas),
        usages[-1].prompt_tokens if usages else 0,
        usages[-1].completion_tokens if usages else 0,
    )


def text_of(content: Any) -> str:
    """Return the text of a message; Mistral sends a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def reasoning_of(message: Any, content: Any) -> str:
    """Return the reasoning of a message, which each service has under another name."""
    if isinstance(content, list):
        thoughts = [part["thinking"] for part in content if part["type"] == "thinking"]
        return "".join(part["text"] for thought in thoughts for part in thought if "text" in part)
    extra = message.model_extra or {}
    return extra.get("reasoning_content") or extra.get("reasoning") or ""


@contextmanager
def read_with_openai_responses(url: str) -> Iterator[Callable[[Any], Reading]]:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)

    def read(exchange: Any) -> Reading:
        response: Any
        if is_stream(exchange):
            events = list(client.responses.create(model="m", input="Hello", stream=True))
            response = events[-1].response
        else:
            response = client.responses.create(model="m", input="Hello")
        items, usage = response.output, response.usage
        texts = [part.text for item in items if is_answer(item) for part in item.content]
        thoughts = [part.text for item in items if not is_answer(item) for part in thought_parts(item)]
        calls = [item for item in items if item.type == "function_call"]
        return Reading(
            "".join(texts),
            tuple((call.name, json.loads(call.arguments or "{}")) for call in calls),
            "\n\n".join(thoughts),
            usage.input_tokens if usage else 0,
            usage.output_tokens if usage else 0,
        )

    with closing(client):
        yield read


def is_answer(item: Any) -> bool:
    """Return True for text for the user; a commentary is what the model thinks between its tool calls."""
    return item.type == "message" and getattr(item, "phase", None) != "commentary"


def thought_parts(item: Any) -> list[Any]:
    if item.type == "message":
        return item.content
    if item.type == "reasoning":
        return [*(item.summary or ()), *(getattr(item, "content", None) or ())]
    return []


def test_chat_completions_are_read_as_the_sdk_reads_them() -> None:
    same, different = differences(
        "openai-chat", lambda url: OpenAiChatModel("m", base_url=url, api_key="k"), read_with_openai_chat
    )
    assert (same, different) == (224, [])


def test_responses_are_read_as_the_sdk_reads_them() -> None:
    same, different = differences(
        "openai-responses",
        lambda url: OpenAiResponsesModel("m", base_url=url, api_key="k"),
        read_with_openai_responses,
    )
    without_output = [line for line in different if "InvalidReplyError" in line]
    assert (same, len(without_output), different) == (138, 4, without_output)  # started in the background


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


def test_the_recorded_usage_has_no_negative_price() -> None:
    makers: dict[str, Callable[[str], HttpChatModel]] = {
        "openai-chat": lambda url: OpenAiChatModel("m", base_url=url, api_key="k"),
        "openai-responses": lambda url: OpenAiResponsesModel("m", base_url=url, api_key="k"),
        "anthropic-messages": lambda url: AnthropicChatModel("m", base_url=url, api_key="k"),
        "google-generate": lambda url: GeminiChatModel("m", base_url=url, api_key="k"),
        "bedrock-converse": lambda url: BedrockChatModel("m", base_url=url, keys=lambda: AwsKeys("a", "s")),
    }
    price = Price(input=1.0, output=2.0, cached=0.1, cache_write=1.25)
    counted, cached, too_many = 0, 0, []
    for api, make in makers.items():
        model = make("http://127.0.0.1:9")
        for exchange in exchanges(api):
            if exchange["status"] != 200 or is_stream(exchange):
                continue
            usage = model.usage_from(served(exchange).body)
            if usage is None:
                continue
            counted += 1
            parts = usage.cached_tokens + usage.cache_write_tokens
            cached += parts > 0
            if parts > usage.input_tokens:
                too_many.append(exchange["id"])
            else:
                assert price.of(usage) >= 0
            assert usage.reasoning_tokens <= usage.output_tokens
    assert (counted > 500, cached > 40, too_many) == (True, True, [])
