"""Tests of GeminiChatModel against a local server that answers like Google's method generateContent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from loopback import Loopback, Reply, event, json_reply, sse

from aiservices import (
    AuthenticationError,
    BadRequestError,
    Budget,
    ChatOptions,
    ChatRequest,
    ContentFilterError,
    DefinitionError,
    GeminiChatModel,
    Image,
    ModelConnectionError,
    ModelServerError,
    RateLimitError,
    Result,
    Stream,
    ToolMessage,
    Usage,
    UserMessage,
    create,
    user_message,
)
from aiservices.models.messages import AiMessage, ToolCall

KEY = "google-secret"
CALL = {
    "functionCall": {"id": "c1", "name": "weather", "args": {"city": "Delft"}},
    "thoughtSignature": "c2lnbmF0dXJl",
}


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


def body_of(*parts: Any, finish: str | None = "STOP", **members: Any) -> dict[str, Any]:
    content = [{"text": part} if isinstance(part, str) else part for part in parts]
    candidate = {"content": {"role": "model", "parts": content}, "finishReason": finish}
    usage = {
        "promptTokenCount": 10,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 3,
        "totalTokenCount": 18,
    }
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-3-pro", **members}


def said(*parts: Any, **members: Any) -> Reply:
    return json_reply(body_of(*parts, **members))


def refused(status: int, message: str, details: Any = ()) -> Reply:
    error = {"code": status, "message": message, "status": "X", "details": details}
    return json_reply({"error": error}, status=status)


def model_at(server: Loopback, name: str = "gemini-3-pro", **settings: Any) -> GeminiChatModel:
    return GeminiChatModel(name, base_url=server.base_url, api_key=KEY, **settings)


def asks(server: Loopback, name: str = "gemini-3-pro", **settings: Any) -> Asks:
    return create(Asks, model_at(server, name), budget=Budget(first_wait=0), **settings)


def test_a_call_sends_the_key_in_a_header(loopback: Loopback) -> None:
    loopback.reply(said("Hello."))
    result = asks(loopback, system_message="Be brief.", options=ChatOptions(temperature=0.5)).ask("Hi")
    assert (result.value, result.usage) == ("Hello.", Usage(10, 8, 0, 3))
    (request,) = loopback.requests
    assert request.path.endswith("/models/gemini-3-pro:generateContent")
    assert request.headers["x-goog-api-key"] == KEY
    assert request.json == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "generationConfig": {"temperature": 0.5},
    }


def test_a_typed_answer_is_asked_for_with_its_schema(loopback: Loopback) -> None:
    loopback.reply(said('{"name": "Ann", "age": 31}'))
    assert asks(loopback).person("Who?") == Person("Ann", 31)
    config = loopback.requests[0].json["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["required"] == ["name", "age"]


def test_signatures_are_sent_back_with_the_results_of_tools(loopback: Loopback) -> None:
    loopback.reply(said({"text": "Hm.", "thought": True}, CALL), said("It rains."))
    result = asks(loopback, tools=[weather], options=ChatOptions(reasoning_effort="low")).ask("Weather?")
    assert result.value == "It rains."
    first, second = (request.json for request in loopback.requests)
    assert first["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "low", "includeThoughts": True}
    assert second["contents"][1] == {"role": "model", "parts": [{"text": "Hm.", "thought": True}, CALL]}
    assert second["contents"][2]["parts"] == [
        {"functionResponse": {"id": "c1", "name": "weather", "response": {"output": "rain in Delft"}}}
    ]


def test_a_failed_tool_and_an_image_of_a_tool(loopback: Loopback) -> None:
    loopback.reply(said("Yes."))
    picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")
    calls = (ToolCall("a", "see", "{}"), ToolCall("b", "do", "{}"))
    request = ChatRequest(
        (
            UserMessage("Look"),
            AiMessage("", calls),
            ToolMessage("a", "see", "seen", ("seen", picture)),
            ToolMessage("b", "do", "it broke", failed=True),
        )
    )
    model_at(loopback).complete(request)
    seen, done = loopback.requests[0].json["contents"][2]["parts"]
    assert seen["functionResponse"]["parts"] == [
        {"inlineData": {"data": "iVBORw0KGgo=", "mimeType": "image/png"}}
    ]
    assert done["functionResponse"]["response"] == {"error": "it broke"}


def test_a_malformed_call_is_repeated_once(loopback: Loopback) -> None:
    loopback.reply(said(finish="MALFORMED_FUNCTION_CALL"), said("It rains."))
    assert asks(loopback, tools=[weather]).ask("Weather?").value == "It rains."
    assert loopback.requests[0].json == loopback.requests[1].json


def test_a_blocked_prompt_is_a_content_filter_error(loopback: Loopback) -> None:
    loopback.reply(json_reply({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}))
    with pytest.raises(ContentFilterError):
        asks(loopback).ask("x")


def test_a_stream_arrives_piece_by_piece(loopback: Loopback) -> None:
    loopback.reply(sse(event(body_of("Hel", finish=None)), event(body_of("lo."))))
    stream = asks(loopback).stream("x")
    assert stream.result().value == "Hello."
    assert "streamGenerateContent" in loopback.requests[0].path


def test_only_the_first_of_several_candidates_is_read(loopback: Loopback) -> None:
    other = body_of("No.")
    other["candidates"][0]["index"] = 1
    loopback.reply(sse(event(body_of("Hel", finish=None)), event(other), event(body_of("lo."))))
    assert asks(loopback).stream("x").result().value == "Hello."


def test_a_stream_without_an_end_is_an_error(loopback: Loopback) -> None:
    loopback.reply(sse(event(body_of("Hel", finish=None))))
    deltas = iter(model_at(loopback).stream(ChatRequest.of("x")))
    assert next(deltas).text == "Hel"
    with pytest.raises(ModelConnectionError):
        list(deltas)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, BadRequestError),
        (403, AuthenticationError),
        (429, RateLimitError),
        (503, ModelServerError),
    ],
)
def test_each_error_has_its_class(loopback: Loopback, status: int, expected: type[Exception]) -> None:
    loopback.reply(refused(status, "It did not work."))
    with pytest.raises(expected, match="It did not work") as caught:
        model_at(loopback).complete(ChatRequest.of("x"))
    assert KEY not in str(caught.value)


def test_the_wait_is_read_from_the_body(loopback: Loopback) -> None:
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s"}
    loopback.reply(refused(429, "Slow down.", [retry]), said("Yes."))
    result = asks(loopback).ask("x")
    error = result.attempts[0].error
    assert isinstance(error, RateLimitError)
    assert error.retry_after == 0.01


def test_a_token_is_fetched_for_each_request(loopback: Loopback) -> None:
    tokens = iter(["one", "two"])
    loopback.reply(said("Yes."))
    model = GeminiChatModel("gemini-3-pro", base_url=loopback.base_url, token=lambda: next(tokens))
    for _ in range(2):
        model.complete(ChatRequest.of("x"))
    assert [request.headers["authorization"] for request in loopback.requests] == ["Bearer one", "Bearer two"]


def test_vertex_needs_a_project(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DefinitionError, match="set GOOGLE_CLOUD_PROJECT"):
        create(Asks, "google-vertex:gemini-3-pro")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p1")
    model = GeminiChatModel.vertex("gemini-3-pro", location="europe-west4", token=lambda: "t")
    assert model.name == "google-vertex:gemini-3-pro"
    address = "europe-west4-aiplatform.googleapis.com/v1/projects/p1/locations/europe-west4/publishers/google"
    assert address in repr(model)


def test_a_missing_key_is_explained() -> None:
    with pytest.raises(AuthenticationError, match="GEMINI_API_KEY"):
        GeminiChatModel("gemini-3-pro").complete(ChatRequest.of("x"))


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_that_google_cuts_off_is_continued_with_its_token(
    loopback: Loopback, streamed: bool
) -> None:
    def reply(body: dict[str, Any], **members: str) -> Reply:
        body["candidates"][0] |= members
        return sse(event(body)) if streamed else json_reply(body)

    loopback.reply(
        reply(body_of("A", finish="CONTINUATION"), continuationToken="dG9rMQ=="),
        reply(body_of("B", finish="CONTINUATION"), continuationToken="dG9rMg=="),
        reply(body_of("C")),
    )
    service = asks(loopback)
    result = service.stream("Hi").result() if streamed else service.ask("Hi")
    assert result.value == "ABC"
    first, second, third = (request.json for request in loopback.requests)
    assert [body.pop("continuationToken", None) for body in (second, third)] == ["dG9rMQ==", "dG9rMg=="]
    assert first == second == third  # the token stands for what was written
