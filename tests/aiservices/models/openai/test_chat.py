"""OpenAiChatModel: the requests that it sends, the replies that it reads, and the clients that it uses."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import openai
import pytest
from loopback import Loopback, NetworkBlockedError, answer, error, json_reply, stream_reply

from aiservices.models.base import Capabilities, ChatModel
from aiservices.models.errors import DefinitionError, RateLimitError
from aiservices.models.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    SystemMessage,
    ToolCall,
    Usage,
    UserMessage,
)
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.openai.client import Endpoint
from aiservices.models.registry import find_model
from aiservices.models.requests import (
    ChatOptions,
    ChatRequest,
    JsonObjectFormat,
    JsonSchemaFormat,
    Tooling,
    ToolSpecification,
)

KEY = "sk-test-0123456789"
HELLO = ChatRequest.of("Hello")


@pytest.fixture
def model(loopback: Loopback) -> Iterator[OpenAiChatModel]:
    with OpenAiChatModel("test-model", base_url=loopback.base_url, api_key=KEY) as made:
        yield made


def test_a_request_without_options_is_the_model_and_the_messages(
    loopback: Loopback, model: OpenAiChatModel
) -> None:
    loopback.reply(answer("Hi"))
    model.complete(HELLO)
    (seen,) = loopback.requests
    assert seen.path == "/v1/chat/completions"
    assert seen.json == {"model": "test-model", "messages": [{"role": "user", "content": "Hello"}]}
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["authorization"] == f"Bearer {KEY}"


def test_every_option_and_kind_of_message_arrives(loopback: Loopback) -> None:
    loopback.reply(answer("Hi"))
    schema = {"type": "object", "properties": {"имя": {"type": "string"}}}
    of_model = ChatOptions(temperature=0.1, seed=7, extra_body={"a": 1, "top_p": 0.25})
    with OpenAiChatModel("x", base_url=loopback.base_url, api_key=KEY, options=of_model) as model:
        model.complete(
            ChatRequest(
                (
                    SystemMessage("Be brief."),
                    UserMessage('Say "привет" {{it}}', name="anna"),
                    AiMessage("Yes."),
                    AiMessage("", (ToolCall("call_1", "add", '{"a": 1}'),), reasoning="not sent back"),
                ),
                ChatOptions(
                    model="y",
                    temperature=0.5,
                    top_p=0.75,
                    max_tokens=100,
                    stop=("END", "STOP"),
                    reasoning_effort="low",
                    timeout=5,
                    extra_body={"b": {"c": None}},
                    extra_headers={"X-Trace": "t-1"},
                ),
                JsonSchemaFormat("person", schema, strict=True),
            )
        )
    (seen,) = loopback.requests
    assert seen.json == {
        "model": "y",
        "temperature": 0.5,
        "top_p": 0.25,
        "max_tokens": 100,
        "stop": ["END", "STOP"],
        "seed": 7,
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "person", "schema": schema, "strict": True},
        },
        "a": 1,
        "b": {"c": None},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": 'Say "привет" {{it}}', "name": "anna"},
            {"role": "assistant", "content": "Yes."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
                ],
            },
        ],
    }
    assert seen.headers["x-trace"] == "t-1"


def test_json_mode_is_requested_as_a_json_object(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(answer("{}"))
    model.complete(ChatRequest.of("x", response_format=JsonObjectFormat()))
    assert loopback.requests[0].json["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    ("name", "sent"),
    [("list[Person]", "list_Person_"), ("", "answer"), ("é" * 70, "_" * 64), ("a-B_9", "a-B_9")],
)
def test_a_schema_gets_a_name_that_the_provider_takes(
    loopback: Loopback, model: OpenAiChatModel, name: str, sent: str
) -> None:
    loopback.reply(answer("{}"))
    model.complete(ChatRequest.of("x", response_format=JsonSchemaFormat(name, {})))
    form = {"type": "json_schema", "json_schema": {"name": sent, "schema": {}, "strict": False}}
    assert loopback.requests[0].json["response_format"] == form


def test_read_only_mappings_are_sent_like_any_other(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(answer("{}"))
    frozen = MappingProxyType({"inner": MappingProxyType({"a": (1, 2)})})
    model.complete(ChatRequest.of("x", options=ChatOptions(extra_body=frozen)))
    assert loopback.requests[0].json["inner"] == {"a": [1, 2]}


def test_messages_in_the_extra_body_replace_ours(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(answer("Hi"))
    expected_text = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
    model.complete(ChatRequest.of("x", options=ChatOptions(extra_body={"messages": expected_text})))
    assert (
        loopback.requests[0].body
        == json.dumps({"model": "test-model", "messages": expected_text}, separators=(",", ":")).encode()
    )


def body_of(model: OpenAiChatModel, request: ChatRequest, *, stream: bool = False) -> Any:
    """Return the body that the model would send."""
    call = model._start(model._clients.sync_client(), request, stream=stream)
    return json.loads(call.request.body)


def test_a_prepared_request_is_never_used_for_other_options(model: OpenAiChatModel) -> None:
    messages = [{"role": "user", "content": "x"}]
    for seed in range(600):  # far more than are cached; the ids of collected options are used again meanwhile
        request = ChatRequest.of("x", options=ChatOptions(seed=seed))
        body = {"model": "test-model", "seed": seed, "messages": messages}
        streaming = {"stream": True, "stream_options": {"include_usage": True}}
        assert body_of(model, request) == body_of(model, request) == body
        assert body_of(model, request, stream=True) == {**body, **streaming}
    assert len(model._prepared.cached) == 256


@pytest.mark.parametrize(
    ("base_url", "of_openai"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://name.openai.azure.com/openai/v1/", True),
        ("https://models.inference.ai.azure.com", True),
        ("https://openrouter.ai/api/v1", False),
        ("https://api.openai.com.evil.example/v1", False),
        ("http://localhost:8000/v1", False),
    ],
)
def test_openais_own_models_get_the_newer_limit_and_strict_schemas(base_url: str, of_openai: bool) -> None:
    model = OpenAiChatModel("m", base_url=base_url, api_key=KEY)
    limit = "max_completion_tokens" if of_openai else "max_tokens"
    body = body_of(model, ChatRequest.of("x", options=ChatOptions(max_tokens=9)))
    assert body == {"model": "m", limit: 9, "messages": [{"role": "user", "content": "x"}]}
    assert model.capabilities == Capabilities(
        logprobs=20, json_schema=True, strict_schema=of_openai, json_mode=True, tools=True
    )


def test_a_whole_reply_is_read(loopback: Loopback, model: OpenAiChatModel) -> None:
    function = {"name": "add", "arguments": '{"a": 1}'}
    scripted = answer(
        "Hi",
        usage={
            "prompt_tokens": 5,
            "completion_tokens": 7,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        finish_reason="tool_calls",
        reasoning_content="Hm.",
        tool_calls=[{"id": "call_1", "type": "function", "function": function}],
    )
    loopback.reply(scripted)
    assert model.complete(HELLO) == ChatReply(
        AiMessage("Hi", (ToolCall("call_1", "add", '{"a": 1}'),), "Hm."),
        FinishReason.TOOL_CALLS,
        Usage(input_tokens=5, output_tokens=7, cached_tokens=3, reasoning_tokens=2),
        "test-model-1",
        "chatcmpl-1",
        None,
        scripted.body,
    )


def test_a_refusal_is_not_an_answer(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(answer(None, refusal="I cannot help with that."))
    reply = model.complete(HELLO)
    assert (reply.text, reply.refusal) == ("", "I cannot help with that.")


@pytest.mark.parametrize(
    ("expected_text", "expected_value"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("tired", FinishReason.OTHER),
        (None, FinishReason.STOP),
    ],
)
def test_a_finish_reason_is_known_or_other_and_a_missing_one_means_complete(
    loopback: Loopback, model: OpenAiChatModel, expected_text: str | None, expected_value: FinishReason
) -> None:
    loopback.reply(answer("Hi", finish_reason=expected_text))
    assert model.complete(HELLO).finish_reason is expected_value


@pytest.mark.parametrize(
    ("message", "expected_value"),
    [
        ({"content": None}, AiMessage("")),
        ({}, AiMessage("")),
        ({"content": "a", "reasoning": "b"}, AiMessage("a", reasoning="b")),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, AiMessage("ab")),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "t"}]},
                    {"type": "text", "text": "a"},
                ]
            },
            AiMessage("a", reasoning="t"),
        ),
        (
            {
                "content": "",
                "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}, {"custom": {}}],
            },
            AiMessage("", (ToolCall("", "f", '{"a":1}'),)),
        ),
        ({"content": "a", "tool_calls": None}, AiMessage("a")),
    ],
)
def test_replies_of_compatible_servers_are_read(
    loopback: Loopback, model: OpenAiChatModel, message: dict[str, Any], expected_value: AiMessage
) -> None:
    loopback.reply(json_reply({"choices": [{"message": message, "finish_reason": "stop"}]}))
    reply = model.complete(HELLO)
    assert (reply.message, reply.usage, reply.model, reply.id) == (expected_value, None, "", "")


def test_async_use_works_in_two_event_loops_one_after_the_other(
    loopback: Loopback, model: OpenAiChatModel
) -> None:
    loopback.reply(answer("one"), answer("two"))
    assert asyncio.run(model.acomplete(HELLO)).text == "one"
    assert asyncio.run(model.acomplete(HELLO)).text == "two"
    gc.collect()  # a connection that was left open would warn now
    assert not len(model._clients._async_clients)


def test_one_event_loop_has_one_client_until_the_model_is_closed(
    loopback: Loopback, model: OpenAiChatModel
) -> None:
    loopback.reply(answer("Hi"))

    async def ask_often() -> None:
        await asyncio.gather(*(model.acomplete(HELLO) for _ in range(5)))
        held = await model._clients.async_client()
        async with model:
            await model.acomplete(HELLO)
        assert not len(model._clients._async_clients)
        assert (await model.acomplete(HELLO)).text == "Hi"
        assert await model._clients.async_client() is not held

    asyncio.run(ask_often())
    assert len(loopback.requests) == 7


def test_the_client_of_a_loop_that_was_closed_without_shutdown_is_removed(
    loopback: Loopback, model: OpenAiChatModel
) -> None:
    loopback.reply(answer("Hi"))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(model._clients.async_client())
    loop.close()
    assert len(model._clients._async_clients) == 1
    assert asyncio.run(model.acomplete(HELLO)).text == "Hi"
    assert not len(model._clients._async_clients)


def test_a_closed_model_opens_a_new_connection_when_asked_again(
    loopback: Loopback, model: OpenAiChatModel
) -> None:
    loopback.reply(answer("Hi"))
    model.complete(HELLO)
    model.complete(HELLO)
    assert len(loopback.connections) == 1
    model.close()
    model.close()
    assert model.complete(HELLO).text == "Hi"


def test_eight_threads_share_one_client(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(lambda seen: answer(seen.json["messages"][0]["content"]))

    def ask(number: int) -> tuple[str, int]:
        return model.complete(ChatRequest.of(f"n{number}")).text, id(model._clients.sync_client())

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(80)))
    assert [text for text, _ in answers] == [f"n{number}" for number in range(80)]
    assert len({channel for _, channel in answers}) == 1
    assert len(loopback.requests) == 80


def test_a_users_own_clients_are_used_as_they_are_and_left_open(loopback: Loopback) -> None:
    loopback.reply(answer("Hi"), error(429, "slow down"))
    client = openai.OpenAI(
        base_url=loopback.base_url, api_key=KEY, max_retries=5, default_headers={"X-Mine": "yes"}
    )
    with client, OpenAiChatModel("m", client=client) as model:
        assert model.complete(HELLO).text == "Hi"
        with pytest.raises(RateLimitError):
            model.complete(HELLO)
        model.close()
        assert not client.is_closed()
        assert client.max_retries == 5
    assert [seen.headers["x-mine"] for seen in loopback.requests] == ["yes", "yes"]


def test_a_users_own_async_client_is_used(loopback: Loopback) -> None:
    loopback.reply(answer("Hi"))

    async def ask() -> str:
        async with openai.AsyncOpenAI(base_url=loopback.base_url, api_key=KEY) as client:
            return (await OpenAiChatModel("m", async_client=client).acomplete(HELLO)).text

    assert asyncio.run(ask()) == "Hi"


def test_a_client_of_one_kind_is_not_used_for_calls_of_the_other_kind(loopback: Loopback) -> None:
    client = openai.OpenAI(base_url=loopback.base_url, api_key=KEY)
    with client, pytest.raises(DefinitionError) as caught:
        asyncio.run(OpenAiChatModel("m", client=client).acomplete(HELLO))
    assert str(caught.value) == (
        "openai:m: client was passed, but this call needs async_client; pass "
        "async_client=AsyncOpenAI(...) too"
    )
    async_client = openai.AsyncOpenAI(base_url=loopback.base_url, api_key=KEY)
    with pytest.raises(DefinitionError) as caught:
        OpenAiChatModel("m", async_client=async_client).complete(HELLO)
    assert (
        str(caught.value)
        == "openai:m: async_client was passed, but this call needs client; pass client=OpenAI(...) too"
    )
    asyncio.run(async_client.close())


def test_azure_takes_its_settings_from_the_environment(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback.reply(answer("Hi"), answer("Ho"), stream_reply(["Hu"]))
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", loopback.base_url.removesuffix("/v1"))
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    with OpenAiChatModel.azure("my deployment") as model:
        assert model.complete(ChatRequest.of("x", options=ChatOptions(max_tokens=5))).text == "Hi"
        assert asyncio.run(model.acomplete(HELLO)).text == "Ho"
        assert [delta.text for delta in model.stream(HELLO)] == ["Hu", ""]
    assert model.name == "azure:my deployment"
    assert model.capabilities == Capabilities(
        logprobs=20, json_schema=True, strict_schema=True, json_mode=True, tools=True
    )
    path = "/openai/deployments/my%20deployment/chat/completions?api-version=2024-10-21"
    assert [seen.path for seen in loopback.requests] == [path] * 3
    assert loopback.requests[0].headers["api-key"] == KEY
    assert loopback.requests[0].json == {
        "model": "my deployment",
        "max_completion_tokens": 5,
        "messages": [{"role": "user", "content": "x"}],
    }


def test_azure_accepts_an_address_and_a_key(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    loopback.reply(answer("Hi"))
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    with OpenAiChatModel("d", provider="azure", base_url=loopback.base_url, api_key=KEY) as model:
        assert model.complete(HELLO).text == "Hi"
    assert loopback.requests[0].path == "/v1/deployments/d/chat/completions?api-version=2024-10-21"


def test_an_azure_client_with_a_deployment_sends_requests_to_it(loopback: Loopback) -> None:
    loopback.reply(answer("Hi"))
    with openai.AzureOpenAI(
        azure_endpoint=loopback.base_url.removesuffix("/v1"),
        azure_deployment="d-1",
        api_key=KEY,
        api_version="2024-10-21",
    ) as client:
        OpenAiChatModel("m", client=client).complete(HELLO)
    assert loopback.requests[0].path == "/openai/deployments/d-1/chat/completions?api-version=2024-10-21"


def test_an_azure_client_without_a_deployment_gets_the_models_name(loopback: Loopback) -> None:
    loopback.reply(answer("Hi"))
    with openai.AzureOpenAI(
        azure_endpoint=loopback.base_url.removesuffix("/v1"), api_key=KEY, api_version="2024-10-21"
    ) as client:
        model = OpenAiChatModel("m", client=client)
        model.complete(HELLO)
    assert model.name == "azure:m"
    assert loopback.requests[0].path == "/openai/deployments/m/chat/completions?api-version=2024-10-21"


def test_requests_for_ollama_go_to_its_host_and_need_no_key(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback.reply(answer("Hi"))
    monkeypatch.setenv("OLLAMA_HOST", f"0.0.0.0:{loopback.port}")
    with OpenAiChatModel.ollama("llama3.2:1b") as model:
        assert model.complete(HELLO).text == "Hi"
    assert model.name == "ollama:llama3.2:1b"
    assert model.capabilities == Capabilities(logprobs=20, json_schema=True, json_mode=True, tools=True)
    assert loopback.requests[0].headers["authorization"] == "Bearer ollama"


@pytest.mark.parametrize(
    ("host", "base_url"),
    [
        ("", "http://localhost:11434/v1"),
        ("box", "http://box:11434/v1"),
        ("10.0.0.5:8080", "http://10.0.0.5:8080/v1"),
        (":8080", "http://localhost:8080/v1"),
        ("[::]:8080", "http://[::1]:8080/v1"),
        ("http://box", "http://box:80/v1"),
        ("https://box/ollama/", "https://box:443/ollama/v1"),
    ],
)
def test_ollamas_host_is_read_as_ollama_reads_it(
    monkeypatch: pytest.MonkeyPatch, host: str, base_url: str
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert Endpoint.of_provider("ollama", None).base_url == base_url


def test_a_name_finds_the_model(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    loopback.reply(answer("Hi"))
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = find_model("openai:some-model")
    assert isinstance(model, OpenAiChatModel)
    assert isinstance(model, ChatModel)
    assert model.name == "openai:some-model"
    assert repr(model) == f"OpenAiChatModel('openai:some-model' at {loopback.base_url})"
    assert model.complete(HELLO).text == "Hi"
    model.close()


@pytest.mark.parametrize("provider", ["openai", "azure", "ollama"])
def test_a_provider_without_a_name_says_how_to_write_it(provider: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        find_model(f"{provider}:")
    assert str(caught.value) == (
        f'model: "{provider}:" does not name a model: write the name after the colon, as in "{provider}:NAME"'
    )


def test_a_base_url_without_a_scheme_is_rejected_at_once() -> None:
    with pytest.raises(ValueError, match="base_url") as caught:
        OpenAiChatModel("m", base_url="localhost:8000")
    assert str(caught.value) == (
        'openai: base_url must begin with http:// or https://, as in "http://localhost:8000/v1"'
    )


@pytest.mark.parametrize(
    "base_url", ["http://", "http://h:port", "http://h:99999/v1", "http://a b", "http://[x"]
)
def test_an_invalid_base_url_is_rejected_at_once(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url") as caught:
        OpenAiChatModel("m", base_url=base_url)
    assert str(caught.value) == 'openai: base_url must be a URL with a host, as in "http://localhost:8000/v1"'


@pytest.mark.parametrize(
    ("url", "expected_text"),
    [
        ("box:8000", "OPENAI_BASE_URL must begin with http:// or https://"),
        ("http://", "OPENAI_BASE_URL must be a URL with a host"),
    ],
)
def test_an_invalid_url_in_the_environment_is_reported_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, url: str, expected_text: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ValueError, match="OPENAI_BASE_URL") as caught:
        Endpoint.of_provider("openai", None)
    assert str(caught.value) == f'openai: {expected_text}, as in "http://localhost:8000/v1"'


@pytest.mark.parametrize("host", ["box:port", "[x", "ftp://box", "a b", "://box", "box:99999"])
def test_an_invalid_ollama_host_is_reported_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(ValueError, match="OLLAMA_HOST") as caught:
        Endpoint.of_provider("ollama", None)
    assert str(caught.value) == (
        "ollama: OLLAMA_HOST must be a host, optionally with http:// or https:// and a port, "
        'as in "box:11434"'
    )


def test_users_can_override_the_capabilities_of_a_server() -> None:
    mine = Capabilities(json_mode=True)
    assert OpenAiChatModel("m", capabilities=mine).capabilities is mine


def test_credentials_in_the_url_of_a_client_are_not_shown() -> None:
    with openai.OpenAI(base_url="http://user:secret@127.0.0.1:9/v1?key=secret", api_key=KEY) as client:
        assert Endpoint.of_client(client).address == "http://127.0.0.1:9/v1"


def test_creating_a_model_imports_no_sdk_and_needs_no_key() -> None:
    code = (
        "import sys; from aiservices.models.openai import OpenAiChatModel as M; "
        "M.named('x').capabilities, M.azure('x').name, repr(M.ollama('x')); "
        "print([name for name in ('openai', 'httpx', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_requests_and_replies_are_logged_without_keys(
    loopback: Loopback, model: OpenAiChatModel, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.reply(answer("Hi"), error(401, "no"), stream_reply(["A"]))
    caplog.set_level(logging.DEBUG, "aiservices.openai")
    headers = {"X-Api-Key": "other-secret", "X-Trace": "t-1"}
    request = ChatRequest.of("Hello", options=ChatOptions(extra_headers=headers, extra_body={"key": "kept"}))
    model.complete(request)
    with pytest.raises(Exception, match="401"):
        model.complete(request)
    list(model.stream(request))
    lines = [r.getMessage() for r in caplog.records if r.name == "aiservices.openai"]
    place = f"openai:test-model at {loopback.base_url}: "
    kinds = ["request", "reply 200", "request", "reply 401", "request", "reply 200", "chunk of a stream"]
    for line, kind in zip(lines, [*kinds, kinds[-1], kinds[-1]], strict=False):
        assert line.startswith(f"{place}{kind} ")
    assert lines[0].endswith(
        ' {"model":"test-model","key":"kept","messages":[{"role":"user","content":"Hello"}]}'
    )
    assert "'authorization': '[redacted]'" in lines[0]
    assert "'X-Api-Key': '[redacted]', 'X-Trace': 't-1'" in lines[0]
    assert lines[1].endswith('"finish_reason": "stop"}]}')
    assert lines[3].endswith('{"error": {"message": "no", "code": null}}')
    assert KEY not in caplog.text
    assert "other-secret" not in caplog.text


def test_nothing_is_logged_at_info_unless_requested(
    loopback: Loopback, model: OpenAiChatModel, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.reply(answer("Hi"))
    caplog.set_level(logging.INFO, "aiservices.openai")
    model.complete(HELLO)
    assert [r for r in caplog.records if r.name == "aiservices.openai"] == []
    with OpenAiChatModel("m", base_url=loopback.base_url, api_key=KEY, log_level=logging.INFO) as loud:
        loud.complete(HELLO)
    assert [r.levelname for r in caplog.records if r.name == "aiservices.openai"] == ["INFO", "INFO"]


def test_tests_cannot_reach_the_network() -> None:
    with pytest.raises(NetworkBlockedError) as caught:
        socket.getaddrinfo("api.openai.com", 443)
    assert str(caught.value) == (
        "a test tried to reach api.openai.com; tests may only use the loopback interface"
    )
    with socket.socket() as out, pytest.raises(NetworkBlockedError):
        out.connect(("192.0.2.1", 80))
    one, two = socket.socketpair()  # AF_UNIX
    one.close()
    two.close()


def test_the_metadata_of_a_tool_is_added_to_its_fields(loopback: Loopback) -> None:
    loopback.reply(answer("Hi"))
    cached = {"cache_control": {"type": "ephemeral"}}
    tool = ToolSpecification("f", "d", {"type": "object"}, metadata=cached)
    with OpenAiChatModel("x", base_url=loopback.base_url, api_key="k") as model:
        model.complete(ChatRequest.of("x", tooling=Tooling((tool,))))
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    assert loopback.requests[0].json["tools"] == [{**cached, "type": "function", "function": function}]


def test_a_client_of_the_wrong_kind_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        OpenAiChatModel("m", client=openai.AsyncOpenAI(api_key="k"), async_client=3)  # type: ignore[arg-type]
    assert [problem.message for problem in caught.value.problems] == [
        "client is AsyncOpenAI; pass it as async_client",
        "async_client is int; pass AsyncOpenAI(…) of the openai SDK",
    ]
