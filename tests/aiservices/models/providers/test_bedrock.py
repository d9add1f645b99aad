"""Tests of BedrockChatModel against a local server that answers like the Converse API."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

import pytest
from loopback import Loopback, Reply, amazon_event, amazon_stream, json_reply

from aiservices import (
    AuthenticationError,
    BadRequestError,
    BedrockChatModel,
    Budget,
    ChatOptions,
    ChatRequest,
    File,
    ModelConnectionError,
    ModelError,
    ModelServerError,
    RateLimitError,
    Result,
    Stream,
    Usage,
    UserMessage,
    create,
    user_message,
)
from aiservices.models.providers.bedrock import AwsKeys, signature_headers

REASONING = {"reasoningContent": {"reasoningText": {"text": "Rain comes.", "signature": "c2ln"}}}
CALL = {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Delft"}}}
CLAUDE = "us.anthropic.claude-sonnet-4-6"


@dataclass
class Person:
    name: str
    age: int


class Asks(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> Result[str]: ...

    @user_message("{{text}}")
    def person(self, text: str) -> Person: ...

    @user_message("{{text}}")
    def stream(self, text: str) -> Stream[str]: ...


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def said(*blocks: Any, stop: str = "end_turn") -> Reply:
    content = [{"text": block} if isinstance(block, str) else block for block in blocks]
    message = {"role": "assistant", "content": content}
    usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cacheReadInputTokens": 4}
    return json_reply({"output": {"message": message}, "stopReason": stop, "usage": usage})


def model_at(server: Loopback, name: str = CLAUDE, **settings: Any) -> BedrockChatModel:
    return BedrockChatModel(name, base_url=server.base_url, api_key="aws-secret", **settings)


def asks(server: Loopback, name: str = CLAUDE, **settings: Any) -> Asks:
    return create(Asks, model_at(server, name), budget=Budget(first_wait=0), **settings)


def test_a_call(loopback: Loopback) -> None:
    loopback.reply(said("Hello."))
    result = asks(loopback, system_message="Be brief.").ask("Hi")
    assert (result.value, result.usage) == ("Hello.", Usage(14, 5, 4))
    (request,) = loopback.requests
    assert request.path.endswith(f"/model/{CLAUDE}/converse")
    assert request.headers["authorization"] == "Bearer aws-secret"
    assert request.json["system"] == [{"text": "Be brief."}]
    assert request.json["messages"] == [{"role": "user", "content": [{"text": "Hi"}]}]


def test_a_typed_answer_of_claude_is_asked_for_with_its_schema(loopback: Loopback) -> None:
    loopback.reply(said('{"name": "Ann", "age": 31}'))
    assert asks(loopback).person("Who?") == Person("Ann", 31)
    sent = loopback.requests[0].json["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert json.loads(sent["schema"])["required"] == ["name", "age"]


def test_other_models_give_a_typed_answer_by_a_tool(loopback: Loopback) -> None:
    answer = {"toolUse": {"toolUseId": "t", "name": "Person", "input": {"name": "Ann", "age": 31}}}
    loopback.reply(said(answer, stop="tool_use"))
    assert asks(loopback, "us.amazon.nova-2-lite-v1:0").person("Who?") == Person("Ann", 31)
    (request,) = loopback.requests
    assert request.json["toolConfig"]["toolChoice"] == {"tool": {"name": "Person"}}
    assert "us.amazon.nova-2-lite-v1%3A0" in request.path


def test_reasoning_is_sent_back_with_the_results_of_tools(loopback: Loopback) -> None:
    loopback.reply(said(REASONING, CALL, stop="tool_use"), said("It rains."))
    result = asks(loopback, tools=[weather]).ask("Weather?")
    assert result.value == "It rains."
    messages = loopback.requests[1].json["messages"]
    assert messages[1]["content"] == [REASONING, CALL]
    assert messages[2]["content"] == [
        {"toolResult": {"toolUseId": "t1", "content": [{"text": "rain in Delft"}]}}
    ]


def test_a_file_of_an_unknown_type_is_refused_before_anything_is_sent(loopback: Loopback) -> None:
    file = File.from_bytes(b"x", "application/zip", name="a.zip")
    with pytest.raises(BadRequestError, match="takes pdf"):
        model_at(loopback).complete(ChatRequest((UserMessage("x", contents=("x", file)),)))
    assert loopback.requests == []


def test_the_name_of_a_file_is_cleaned(loopback: Loopback) -> None:
    loopback.reply(said("Yes."))
    file = File.from_bytes(b"%PDF", "application/pdf", name="my_file (1).pdf")
    model_at(loopback).complete(ChatRequest((UserMessage("", contents=(file,)),)))
    content = loopback.requests[0].json["messages"][0]["content"]
    assert content[0]["document"]["name"] == "my file 1 pdf"
    assert content[1] == {"text": "See the attached document."}


# --- Streams of binary frames


def text(value: str) -> bytes:
    return amazon_event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": value}})


END = (
    amazon_event("messageStop", {"stopReason": "end_turn"}),
    amazon_event("metadata", {"usage": {"inputTokens": 9, "outputTokens": 4, "totalTokens": 13}}),
)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_stream_of_amazon_stream(loopback: Loopback, size: int) -> None:
    data = b"".join((amazon_event("messageStart", {"role": "assistant"}), text("Hel"), text("lo."), *END))
    loopback.reply(amazon_stream(*[data[start : start + size] for start in range(0, len(data), size)]))
    stream = asks(loopback).stream("x")
    result = stream.result()
    assert (result.value, result.usage) == ("Hello.", Usage(9, 4))
    assert loopback.requests[0].path.endswith("/converse-stream")


def test_streamed_calls_with_the_same_index_or_with_arguments_that_are_no_object(loopback: Loopback) -> None:
    place = {"contentBlockIndex": 0}
    events = []
    for call_id, piece in (("t1", '{"city": "Bonn"}'), ("t2", '{"city": ')):
        start = {"toolUse": {"toolUseId": call_id, "name": "weather"}}
        events += [
            amazon_event("contentBlockStart", {**place, "start": start}),
            amazon_event("contentBlockDelta", {**place, "delta": {"toolUse": {"input": piece}}}),
            amazon_event("contentBlockStop", place),
        ]
    loopback.reply(amazon_stream(*events, *END), amazon_stream(text("It rains."), *END))
    assert asks(loopback, tools=[weather]).stream("x").result().value == "It rains."
    _, answer, results = loopback.requests[1].json["messages"]
    inputs = [block["toolUse"]["input"] for block in answer["content"]]
    assert inputs == [{"city": "Bonn"}, {"arguments": '{"city": '}]
    assert [block["toolResult"].get("status") for block in results["content"]] == [None, "error"]


def test_a_streamed_tool_call(loopback: Loopback) -> None:
    start = {"toolUse": {"toolUseId": "t1", "name": "weather"}}
    place = {"contentBlockIndex": 0}
    pieces = [{"toolUse": {"input": piece}} for piece in ('{"city": ', '"Delft"}')]
    loopback.reply(
        amazon_stream(
            amazon_event("contentBlockStart", {**place, "start": start}),
            *[amazon_event("contentBlockDelta", {**place, "delta": piece}) for piece in pieces],
            amazon_event("messageStop", {"stopReason": "tool_use"}),
            amazon_event("metadata", {"usage": {"inputTokens": 9, "outputTokens": 4}}),
        ),
        amazon_stream(text("It rains."), *END),
    )
    assert asks(loopback, tools=[weather]).stream("x").result().value == "It rains."
    assert loopback.requests[1].json["messages"][1]["content"] == [CALL]


def test_a_damaged_frame_is_an_error(loopback: Loopback) -> None:
    damaged = bytearray(text("lo."))
    damaged[-6] ^= 1
    loopback.reply(amazon_stream(text("Hel"), bytes(damaged), *END))
    deltas = iter(model_at(loopback).stream(ChatRequest.of("x")))
    assert next(deltas).text == "Hel"
    with pytest.raises(ModelError, match="a frame of the stream is damaged"):
        list(deltas)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("throttlingException", RateLimitError),
        ("internalServerException", ModelServerError),
        ("validationException", BadRequestError),
        ("modelStreamErrorException", ModelServerError),
    ],
)
def test_an_exception_in_a_stream(loopback: Loopback, kind: str, expected: type[Exception]) -> None:
    loopback.reply(
        amazon_stream(text("Hel"), amazon_event(kind, {"message": "It broke."}, message_type="exception"))
    )
    deltas = iter(model_at(loopback).stream(ChatRequest.of("x")))
    assert next(deltas).text == "Hel"
    with pytest.raises(expected, match="It broke"):
        list(deltas)


def test_a_stream_without_an_end_is_an_error(loopback: Loopback) -> None:
    loopback.reply(amazon_stream(text("Hel"), cut_off=True))
    deltas = iter(model_at(loopback).stream(ChatRequest.of("x")))
    assert next(deltas).text == "Hel"
    with pytest.raises(ModelConnectionError):
        list(deltas)


# --- Credentials


def test_the_signature_is_the_one_that_botocore_computes() -> None:
    # computed with botocore 1.44.5: SigV4Auth for the service "bedrock"
    headers = signature_headers(
        "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.amazon.nova-2-lite-v1%3A0/converse",
        b'{"messages":[]}',
        AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "token"),
        "us-east-1",
        datetime(2026, 11, 20, 12, 0, tzinfo=UTC),
    )
    assert headers["x-amz-date"] == "20261120T120000Z"
    assert headers["x-amz-security-token"] == "token"
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261120/us-east-1/bedrock/aws4_request, "
        "SignedHeaders=host;x-amz-date;x-amz-security-token, "
        "Signature=f8d636b8db386f81bb01c47102708857b8408ea2f66425b72d020e645dd50db4"
    )


def test_keys_of_the_environment_sign_each_request(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    loopback.reply(said("Yes."))
    model = BedrockChatModel(CLAUDE, base_url=loopback.base_url, region="eu-west-1")
    model.complete(ChatRequest.of("x"))
    signed = loopback.requests[0].headers["authorization"]
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/bedrock/aws4_request" in signed
    assert "very-secret" not in repr(model) + signed


def test_credentials_of_botocore_are_searched_once(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = 0

    class Session:
        def get_credentials(self) -> object:
            nonlocal searches
            searches += 1
            keys = SimpleNamespace(access_key="AKIDEXAMPLE", secret_key="very-secret", token="the-token")
            return SimpleNamespace(get_frozen_credentials=lambda: keys)

    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setitem(sys.modules, "botocore", ModuleType("botocore"))
    monkeypatch.setitem(sys.modules, "botocore.session", SimpleNamespace(get_session=Session))
    loopback.reply(said("Yes."))
    model = BedrockChatModel(CLAUDE, base_url=loopback.base_url)
    for _ in range(2):
        model.complete(ChatRequest.of("x"))
    assert [request.headers["x-amz-security-token"] for request in loopback.requests] == ["the-token"] * 2
    assert searches == 1


def test_missing_credentials_are_explained() -> None:
    with pytest.raises(AuthenticationError, match="AWS_BEARER_TOKEN_BEDROCK"):
        BedrockChatModel(CLAUDE).complete(ChatRequest.of("x"))


def test_an_error_has_its_kind_and_the_id_of_the_request(loopback: Loopback) -> None:
    kind = {"x-amzn-errortype": "ThrottlingException:http://x", "x-amzn-requestid": "r-1"}
    loopback.reply(json_reply({"message": "Too many requests."}, status=429, headers=kind))
    with pytest.raises(RateLimitError, match=r"ThrottlingException: Too many requests") as caught:
        model_at(loopback, options=ChatOptions(max_tokens=10)).complete(ChatRequest.of("x"))
    assert caught.value.request_id == "r-1"


NOVA = "us.amazon.nova-2-lite-v1:0"
INTERPRETER = {
    "toolUse": {
        "toolUseId": "s1",
        "name": "nova_code_interpreter",
        "input": {"snippet": "6 * 7"},
        "type": "server_tool_use",
    }
}
OUTPUT = {
    "toolResult": {
        "toolUseId": "s1",
        "content": [{"json": {"stdOut": "42"}}],
        "status": "success",
        "type": "nova_code_interpreter_result",
    }
}


def test_a_tool_that_amazon_runs_is_not_called_again(loopback: Loopback) -> None:
    loopback.reply(said(INTERPRETER, OUTPUT, CALL, stop="tool_use"), said("It is 42, and rain."))
    options = ChatOptions(server_tools=({"systemTool": {"name": "nova_code_interpreter"}},))
    result = asks(loopback, NOVA, tools=[weather], options=options).ask("6 times 7? Weather?")
    assert result.value == "It is 42, and rain."
    (run,) = result.server_tool_runs
    assert (run.name, run.input) == ("nova_code_interpreter", {"snippet": "6 * 7"})
    assert run.output == [{"json": {"stdOut": "42"}}]
    second = loopback.requests[1].json["messages"]
    assert second[1]["content"] == [INTERPRETER, OUTPUT, CALL]
    assert [block["toolResult"]["toolUseId"] for block in second[2]["content"]] == ["t1"]


def test_a_streamed_tool_that_amazon_runs_is_not_called_again(loopback: Loopback) -> None:
    def block(index: int, start: Any, *deltas: Any) -> Iterator[bytes]:
        yield amazon_event("contentBlockStart", {"contentBlockIndex": index, "start": start})
        for one in deltas:
            yield amazon_event("contentBlockDelta", {"contentBlockIndex": index, "delta": one})

    use = {"toolUse": {name: INTERPRETER["toolUse"][name] for name in ("toolUseId", "name", "type")}}
    end = {name: OUTPUT["toolResult"][name] for name in ("toolUseId", "status", "type")}
    loopback.reply(
        amazon_stream(
            *block(0, use, {"toolUse": {"input": '{"snippet": "6 * 7"}'}}),
            *block(1, {"toolResult": end}, {"toolResult": OUTPUT["toolResult"]["content"]}),
            amazon_event("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"text": "It is 42."}}),
            *END,
        )
    )
    result = asks(loopback, NOVA).stream("6 times 7?").result()
    assert result.value == "It is 42."
    (run,) = result.server_tool_runs
    assert (run.input, run.output) == ({"snippet": "6 * 7"}, [{"json": {"stdOut": "42"}}])


def test_the_text_of_citations_is_part_of_the_answer(loopback: Loopback) -> None:
    source = {"title": "letter.pdf", "sourceContent": [{"text": "page 2"}]}
    cited = {"citationsContent": {"content": [{"text": "at nine."}], "citations": [source]}}
    loopback.reply(
        said("We open ", cited),
        amazon_stream(
            text("We open at nine."),
            amazon_event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"citation": source}}),
            *END,
        ),
    )
    result = asks(loopback).ask("When?")
    assert (result.value, result.reply.citations) == ("We open at nine.", (source,))
    streamed = asks(loopback).stream("When?").result()
    assert (streamed.value, streamed.reply.citations) == ("We open at nine.", (source,))


def test_the_beginning_of_a_conversation_is_cached(loopback: Loopback) -> None:
    loopback.reply(said("Yes."))
    mark = {"cachePoint": {"type": "default", "ttl": "1h"}}
    settings: Any = {"tools": [weather], "options": ChatOptions(cache="1h"), "system_message": "Be brief."}
    asks(loopback, **settings).ask("x")
    body = loopback.requests[0].json
    assert body["system"] == [{"text": "Be brief."}, mark]
    assert body["messages"][-1]["content"] == [{"text": "x"}, mark]
    assert body["toolConfig"]["tools"][-1] == mark
    asks(loopback, NOVA, **settings).ask("x")  # which takes none behind tools
    body = loopback.requests[1].json
    assert body["messages"][-1]["content"] == [{"text": "x"}, mark]
    assert [*body["toolConfig"]["tools"][-1]] == ["toolSpec"]
    result = asks(loopback, "openai.gpt-oss-120b-1:0", **settings).ask("x")
    assert "cachePoint" not in json.dumps(loopback.requests[2].json)
    assert "cache was left out: only Claude and Nova have it in the Converse API" in result.reasons


def test_no_cache_point_follows_a_document(loopback: Loopback) -> None:
    loopback.reply(said("Yes."))
    letter = File.from_bytes(b"%PDF-1.4", "application/pdf")
    request = ChatRequest((UserMessage("Read it.", contents=("Read it.", letter)),), ChatOptions(cache="5m"))
    model_at(loopback).complete(request)
    assert [*loopback.requests[0].json["messages"][0]["content"][-1]] == ["document"]


def test_a_video_is_sent_with_its_format(loopback: Loopback) -> None:
    loopback.reply(said("A cat."))
    film = File.from_bytes(b"film", "video/quicktime")
    model_at(loopback, NOVA).complete(ChatRequest((UserMessage("What?", contents=(film,)),)))
    assert loopback.requests[0].json["messages"][0]["content"][1] == {
        "video": {"format": "mov", "source": {"bytes": "ZmlsbQ=="}}
    }
