"""OpenAiResponsesModel: the requests that it sends to the Responses API, and the replies that it reads."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from loopback import Loopback, error, json_reply
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter
from responses_api import (
    Item,
    function_call,
    message,
    reasoning,
    response,
    response_reply,
    stream_reply,
    usage,
)

from aiservices.models.base import Capabilities, ChatModel
from aiservices.models.errors import BadRequestError
from aiservices.models.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from aiservices.models.openai import OpenAiResponsesModel
from aiservices.models.openai.responses import read_response
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
HI = message("Hi")
SEARCHED = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "q"},
}
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.fixture
def model(loopback: Loopback) -> Iterator[OpenAiResponsesModel]:
    with OpenAiResponsesModel("test-model", base_url=loopback.base_url, api_key=KEY) as made:
        yield made


def test_a_request_without_options_is_the_model_and_the_input_and_is_not_stored(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    loopback.reply(response_reply(HI))
    assert model.complete(HELLO).text == "Hi"
    assert asyncio.run(model.acomplete(HELLO)).text == "Hi"
    for seen in loopback.requests:
        assert seen.path == "/v1/responses"
        assert seen.json == {
            "model": "test-model",
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "input": [{"role": "user", "content": "Hello"}],
        }
        assert seen.headers["content-type"] == "application/json"
        assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert len(loopback.requests) == 2


EVERYTHING = ChatRequest(
    (
        SystemMessage("Be brief."),
        UserMessage('Say "привет" {{it}}'),
        AiMessage("Yes.", reasoning="not sent back"),
        AiMessage("", (ToolCall("call_1", "add", '{"a": 1}'), ToolCall("call_2", "add", '{"a": 2}'))),
        ToolMessage("call_1", "add", "1"),
        ToolMessage("call_2", "add", "2"),
        AiMessage("Once more.", (ToolCall("call_3", "add", "{}"),)),
        ToolMessage("call_3", "add", ""),
        AiMessage(""),
    ),
    ChatOptions(
        model="y",
        temperature=0.5,
        top_p=0.75,
        max_tokens=100,
        reasoning_effort="low",
        timeout=5,
        extra_body={"metadata": {"b": "c"}},
        extra_headers={"X-Trace": "t-1"},
    ),
    JsonSchemaFormat("list[Person]", OBJECT, strict=True),
    Tooling(
        (ToolSpecification("add", "Adds.", OBJECT), ToolSpecification("to be", "", OBJECT, strict=True)),
        choice="to be",
        parallel_calls=False,
    ),
)
EVERYTHING_SENT = {
    "model": "y",
    "temperature": 0.5,
    "top_p": 0.75,
    "max_output_tokens": 100,
    "reasoning": {"effort": "low"},
    "text": {
        "format": {"type": "json_schema", "name": "list_Person_", "schema": OBJECT, "strict": True},
    },
    "tools": [
        {"type": "function", "name": "add", "description": "Adds.", "parameters": OBJECT, "strict": False},
        {"type": "function", "name": "to_be", "description": "", "parameters": OBJECT, "strict": True},
    ],
    "tool_choice": {"type": "function", "name": "to_be"},
    "parallel_tool_calls": False,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "service_tier": "flex",
    "metadata": {"b": "c"},
    "input": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": 'Say "привет" {{it}}'},
        {"role": "assistant", "content": "Yes."},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call", "call_id": "call_2", "name": "add", "arguments": '{"a": 2}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "1"},
        {"type": "function_call_output", "call_id": "call_2", "output": "2"},
        {"role": "assistant", "content": "Once more."},
        {"type": "function_call", "call_id": "call_3", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_3", "output": ""},
    ],
}


def test_every_option_and_kind_of_message_arrives(loopback: Loopback) -> None:
    loopback.reply(response_reply(HI))
    of_model = ChatOptions(temperature=0.1, extra_body={"service_tier": "flex"})
    with OpenAiResponsesModel("x", base_url=loopback.base_url, api_key=KEY, options=of_model) as model:
        model.complete(EVERYTHING)
    (seen,) = loopback.requests
    assert seen.json == EVERYTHING_SENT
    assert seen.headers["x-trace"] == "t-1"


def test_requests_are_valid_for_the_types_of_the_sdk() -> None:
    adapter = TypeAdapter(
        ResponseCreateParamsNonStreaming
    )  # lives on, since lists are checked as they are read
    validated = adapter.validate_python(EVERYTHING_SENT)
    assert {
        **validated,
        "input": [*validated["input"]],
        "tools": [*validated["tools"]],
    } == EVERYTHING_SENT


@pytest.mark.parametrize(("choice", "sent"), [("auto", {}), ("required", {"tool_choice": "required"})])
def test_the_tool_choice_is_sent_only_if_it_is_not_auto(
    loopback: Loopback, model: OpenAiResponsesModel, choice: str, sent: Item
) -> None:
    loopback.reply(response_reply(HI))
    tool = ToolSpecification("f", "d", OBJECT)
    model.complete(ChatRequest.of("x", tooling=Tooling((tool,), choice)))
    assert loopback.requests[0].json == {
        "model": "test-model",
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": OBJECT, "strict": False}
        ],
        **sent,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [{"role": "user", "content": "x"}],
    }


def test_the_metadata_of_a_tool_is_added_to_its_fields(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    loopback.reply(response_reply(HI))
    tool = ToolSpecification("f", "d", OBJECT, metadata={"defer_loading": True, "name": "never sent"})
    model.complete(ChatRequest.of("x", tooling=Tooling((tool,))))
    assert loopback.requests[0].json["tools"] == [
        {
            "defer_loading": True,
            "type": "function",
            "name": "f",
            "description": "d",
            "parameters": OBJECT,
            "strict": False,
        }
    ]


def test_json_mode_is_requested_as_a_json_object(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    loopback.reply(response_reply(message("{}")))
    model.complete(ChatRequest.of("x", response_format=JsonObjectFormat()))
    assert loopback.requests[0].json["text"] == {"format": {"type": "json_object"}}


def test_the_extra_body_adds_to_reasoning_and_text_and_replaces_the_rest(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    loopback.reply(response_reply(HI))
    extra = {
        "reasoning": {"summary": "auto"},
        "text": {"verbosity": "low"},
        "store": True,
        "tool_choice": "none",
    }
    options = ChatOptions(reasoning_effort="high", extra_body=extra)
    model.complete(ChatRequest.of("x", options=options, response_format=JsonObjectFormat()))
    assert loopback.requests[0].json == {
        "model": "test-model",
        "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "store": True,
        "include": ["reasoning.encrypted_content"],
        "tool_choice": "none",
        "input": [{"role": "user", "content": "x"}],
    }


def test_input_in_the_extra_body_replaces_ours(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    loopback.reply(response_reply(HI))
    options = ChatOptions(extra_body={"input": "theirs", "text": {"verbosity": "low"}})
    model.complete(ChatRequest.of("ours", options=options))
    assert loopback.requests[0].json == {
        "model": "test-model",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": "theirs",
        "text": {"verbosity": "low"},
    }


@pytest.mark.parametrize(
    ("request_", "expected_text"),
    [
        (
            ChatRequest.of("x", options=ChatOptions(stop=("END",))),
            "the Responses API has no stop; leave it out of ChatOptions, or use OpenAiChatModel",
        ),
        (
            ChatRequest.of("x", options=ChatOptions(seed=0)),
            "the Responses API has no seed; leave it out of ChatOptions, or use OpenAiChatModel",
        ),
        (
            ChatRequest((UserMessage("x", name="anna"),)),
            "the Responses API has no names of users ('anna'); put the name into the text, "
            "or use OpenAiChatModel",
        ),
    ],
)
def test_settings_that_the_api_does_not_have_are_rejected_and_not_dropped(
    loopback: Loopback, model: OpenAiResponsesModel, request_: ChatRequest, expected_text: str
) -> None:
    expected = f"openai-responses:test-model at {loopback.base_url}: {expected_text}"
    with pytest.raises(BadRequestError) as caught:
        model.complete(request_)
    assert str(caught.value) == expected
    with pytest.raises(BadRequestError) as caught:
        asyncio.run(model.acomplete(request_))
    assert str(caught.value) == expected
    with pytest.raises(BadRequestError) as caught:
        next(model.stream(request_))
    assert str(caught.value) == expected
    assert not caught.value.retryable
    assert loopback.requests == []


def test_options_of_the_model_that_the_api_does_not_have_are_rejected_at_once() -> None:
    with pytest.raises(ValueError, match="seed") as caught:
        OpenAiResponsesModel("m", options=ChatOptions(seed=1))
    assert str(caught.value) == (
        "openai-responses:m: the Responses API has no seed; leave it out of ChatOptions, or use "
        "OpenAiChatModel"
    )


def test_an_empty_tuple_of_stop_texts_is_accepted(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    loopback.reply(response_reply(HI))
    assert model.complete(ChatRequest.of("x", options=ChatOptions(stop=()))).text == "Hi"


def test_a_whole_reply_is_read(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    scripted = response_reply(
        reasoning("First.", "Then."),
        message("Hé", "llo"),
        function_call("call_1", "add", '{"a": 1}'),
        usage=usage(5, 7, cached=3, reasoning_tokens=2),
    )
    loopback.reply(scripted)
    assert model.complete(HELLO) == ChatReply(
        AiMessage("Héllo", (ToolCall("call_1", "add", '{"a": 1}'),), "First.\n\nThen."),
        FinishReason.TOOL_CALLS,
        Usage(input_tokens=5, output_tokens=7, cached_tokens=3, reasoning_tokens=2),
        "test-model-1",
        "resp_1",
        None,
        scripted.body,
    )


@pytest.mark.parametrize(
    ("output", "expected_value"),
    [
        ([message("Hi")], AiMessage("Hi")),
        ([message("a"), message("b")], AiMessage("ab")),
        ([reasoning(), message("a")], AiMessage("a")),
        ([reasoning("S."), message("a")], AiMessage("a", reasoning="S.")),
        ([reasoning(content=["Open."]), message("a")], AiMessage("a", reasoning="Open.")),
        (
            [function_call("c1", "f", "{}"), function_call("c2", "g", "[]")],
            AiMessage("", (ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "[]"))),
        ),
        ([SEARCHED, message("found")], AiMessage("found")),
        ([], AiMessage("")),
    ],
)
def test_output_items_make_one_message_as_the_sdk_reads_them(
    loopback: Loopback, model: OpenAiResponsesModel, output: list[Item], expected_value: AiMessage
) -> None:
    data = response(*output)
    loopback.reply(json_reply(data))
    reply = model.complete(HELLO)
    assert reply.message == expected_value
    assert reply.finish_reason is (
        FinishReason.TOOL_CALLS if expected_value.tool_calls else FinishReason.STOP
    )
    assert Response.model_validate(data).output_text == reply.text


def test_commentary_before_the_answer_is_reasoning(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    loopback.reply(
        response_reply(
            reasoning("S."),
            message("Let me see.", phase="commentary"),
            message('{"a": 1}', phase="final_answer"),
        )
    )
    assert model.complete(HELLO).message == AiMessage('{"a": 1}', reasoning="S.\n\nLet me see.")


def test_a_refusal_is_not_an_answer(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    loopback.reply(response_reply(message(refusal="I cannot help with that.")))
    reply = model.complete(HELLO)
    assert (reply.text, reply.refusal, reply.finish_reason) == (
        "",
        "I cannot help with that.",
        FinishReason.STOP,
    )


@pytest.mark.parametrize(
    ("why", "expected_value"),
    [
        ({"reason": "max_output_tokens"}, FinishReason.LENGTH),
        ({"reason": "content_filter"}, FinishReason.CONTENT_FILTER),
        ({}, FinishReason.OTHER),
        (None, FinishReason.OTHER),
    ],
)
def test_a_truncated_reply_has_the_reason_of_its_end(
    loopback: Loopback, model: OpenAiResponsesModel, why: Item | None, expected_value: FinishReason
) -> None:
    loopback.reply(response_reply(message("Hal"), status="incomplete", incomplete_details=why))
    reply = model.complete(HELLO)
    assert (reply.text, reply.finish_reason) == ("Hal", expected_value)


def test_a_response_with_few_members_is_read(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    expected_text = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    loopback.reply(json_reply({"output": [expected_text]}))
    reply = model.complete(HELLO)
    assert (reply.message, reply.usage, reply.model, reply.id) == (AiMessage("Hi"), None, "", "")
    assert reply.finish_reason is FinishReason.STOP


@pytest.mark.parametrize(
    ("base_url", "of_openai"),
    [("https://name.openai.azure.com/openai/v1/", True), ("http://localhost:8000/v1", False)],
)
def test_its_capabilities_are_those_of_the_endpoint(base_url: str, of_openai: bool) -> None:
    model = OpenAiResponsesModel("m", base_url=base_url)
    expected = Capabilities(
        logprobs=20, json_schema=True, strict_schema=of_openai, json_mode=True, tools=True
    )
    assert model.capabilities == expected
    assert isinstance(model, ChatModel)


def test_azure_finds_the_deployment_in_the_body(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    loopback.reply(response_reply(HI), stream_reply("Ho"))
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", loopback.base_url.removesuffix("/v1"))
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-04-01-preview")
    with OpenAiResponsesModel.azure("my deployment") as model:
        assert model.complete(HELLO).text == "Hi"
        assert [delta.text for delta in model.stream(HELLO)] == ["Ho", ""]
    assert model.name == "azure-responses:my deployment"
    assert [seen.path for seen in loopback.requests] == [
        "/openai/responses?api-version=2025-04-01-preview"
    ] * 2
    assert [seen.json["model"] for seen in loopback.requests] == ["my deployment"] * 2
    assert loopback.requests[0].headers["api-key"] == KEY


def test_an_azure_client_with_a_deployment_sends_responses_requests_beside_it(loopback: Loopback) -> None:
    loopback.reply(response_reply(HI))
    with openai.AzureOpenAI(
        azure_endpoint=loopback.base_url.removesuffix("/v1"),
        azure_deployment="d-1",
        api_key=KEY,
        api_version="preview",
    ) as client:
        OpenAiResponsesModel("d-1", client=client).complete(HELLO)
    assert loopback.requests[0].path == "/openai/responses?api-version=preview"


def test_its_names_end_with_responses(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    loopback.reply(response_reply(HI))
    monkeypatch.setenv("OPENAI_BASE_URL", loopback.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAiResponsesModel.named("some-model") as model:
        assert model.complete(HELLO).text == "Hi"
    assert model.name == "openai-responses:some-model"
    assert repr(model) == f"OpenAiResponsesModel('openai-responses:some-model' at {loopback.base_url})"
    assert OpenAiResponsesModel.ollama("m").name == "ollama-responses:m"
    with pytest.raises(LookupError) as caught:
        OpenAiResponsesModel.named("")
    assert str(caught.value) == (
        '"openai-responses:" does not name a model: write the name after the colon, as in '
        '"openai-responses:NAME"'
    )


def test_creating_a_model_imports_no_sdk_and_needs_no_key() -> None:
    code = (
        "import sys; from aiservices.models.openai import OpenAiResponsesModel as M; "
        "M.named('x').capabilities, M.azure('x').name, repr(M('x', base_url='http://h/v1')); "
        "print([name for name in ('openai', 'httpx', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_a_users_own_clients_are_used_as_they_are_and_left_open(loopback: Loopback) -> None:
    loopback.reply(response_reply(HI))
    client = openai.OpenAI(base_url=loopback.base_url, api_key=KEY, default_headers={"X-Mine": "yes"})
    with client, OpenAiResponsesModel("m", client=client) as model:
        assert model.complete(HELLO).text == "Hi"
        model.close()
        assert not client.is_closed()
    assert loopback.requests[0].headers["x-mine"] == "yes"


def test_requests_and_replies_are_logged_without_keys(
    loopback: Loopback, model: OpenAiResponsesModel, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.reply(response_reply(HI), error(401, "no"), stream_reply("A"))
    caplog.set_level(logging.DEBUG, "aiservices.openai")
    request = ChatRequest.of("Hello", options=ChatOptions(extra_headers={"X-Api-Key": "other-secret"}))
    model.complete(request)
    with pytest.raises(Exception, match="401"):
        model.complete(request)
    list(model.stream(request))
    lines = [r.getMessage() for r in caplog.records if r.name == "aiservices.openai"]
    place = f"openai-responses:test-model at {loopback.base_url}: "
    kinds = ["request", "reply 200", "request", "reply 401", "request", "reply 200", "chunk of a stream"]
    for line, kind in zip(lines, kinds, strict=False):
        assert line.startswith(f"{place}{kind} ")
    assert lines[0].endswith(
        ' {"model":"test-model","store":false,"include":["reasoning.encrypted_content"],'
        '"input":[{"role":"user","content":"Hello"}]}'
    )
    assert "'authorization': '[redacted]'" in lines[0]
    assert json.loads(lines[1][lines[1].index('{"id"') :])["output"] == [HI]
    assert KEY not in caplog.text
    assert "other-secret" not in caplog.text


def test_output_in_other_shapes_is_read_and_an_unknown_status_is_no_complete_answer() -> None:
    def read(**members: Any) -> ChatReply:
        return read_response(json.dumps({"status": "completed", **members}).encode())

    def said(*parts: Any) -> dict[str, Any]:
        return {"type": "message", "content": list(parts)}

    assert read(output=[said({"type": "text", "text": "A"})]).message.text == "A"
    assert read(output=[said({"type": "output_text", "text": None})]).message.text == ""
    assert read(output=[{"type": "message", "content": None}]).message.text == ""
    assert read(output=[], output_text="A").message.text == "A"
    assert read(output=[said({"type": "output_text", "text": "A"})], output_text="A").message.text == "A"
    call = {"type": "function_call", "name": "f", "arguments": {"a": 1}}
    assert read(output=[call]).message.tool_calls == (ToolCall("", "f", '{"a":1}'),)
    whole = [said({"type": "output_text", "text": "A"})]
    reasons = [read(output=whole, status=status).finish_reason for status in ("completed", None, "", "odd")]
    assert reasons == [FinishReason.STOP] * 3 + [FinishReason.OTHER]
