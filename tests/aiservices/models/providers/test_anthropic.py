"""Tests of AnthropicChatModel against a local server that answers like Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import pytest
from loopback import Loopback, ReceivedRequest, Reply, error, event, json_reply, sse

from aiservices import (
    AiMessage,
    AnthropicChatModel,
    ApprovalRequiredError,
    Audio,
    AuthenticationError,
    BadRequestError,
    Budget,
    ChatOptions,
    ChatRequest,
    File,
    Image,
    MemoryId,
    ModelConnectionError,
    ModelNotFoundError,
    ModelServerError,
    RateLimitError,
    RefusalError,
    Result,
    Stream,
    SuspendedCall,
    SystemMessage,
    ToolCall,
    Tooling,
    ToolMessage,
    ToolSpecification,
    Usage,
    UserMessage,
    create,
    resume,
    tool,
    user_message,
)
from aiservices.memory import ChatMemory, MessageWindow
from aiservices.models.messages import message_from_dict, message_to_dict

KEY = "sk-ant-secret"
THINKING = {"type": "thinking", "thinking": "Rain comes from the west.", "signature": "c2ln"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Delft"}}


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


def said(*blocks: Any, stop_reason: str = "end_turn", **members: Any) -> Reply:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    usage = {"input_tokens": 10, "output_tokens": 5}
    return json_reply(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5",
            "content": content,
            "stop_reason": stop_reason,
            "usage": usage,
            **members,
        }
    )


def refused(status: int, message: str, kind: str = "invalid_request_error") -> Reply:
    return json_reply({"type": "error", "error": {"type": kind, "message": message}}, status=status)


def model_at(server: Loopback, name: str = "claude-sonnet-5", **settings: Any) -> AnthropicChatModel:
    return AnthropicChatModel(name, base_url=server.base_url, api_key=KEY, **settings)


def asks(server: Loopback, name: str = "claude-sonnet-5", **settings: Any) -> Asks:
    budget = settings.pop("budget", Budget(first_wait=0))
    return create(Asks, model_at(server, name), budget=budget, **settings)


def test_a_call_sends_the_key_and_the_version_of_the_api(loopback: Loopback) -> None:
    loopback.reply(said("Hello."))
    result = asks(loopback, system_message="Be brief.").ask("Hi")
    assert (result.value, result.usage, result.model) == ("Hello.", Usage(10, 5), "claude-sonnet-5")
    (request,) = loopback.requests
    assert request.path == "/v1/messages"
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert request.json == {
        "model": "claude-sonnet-5",
        "max_tokens": 16384,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }


def test_a_typed_answer_is_asked_for_with_its_schema(loopback: Loopback) -> None:
    loopback.reply(said('{"name": "Ann", "age": 31}'))
    assert asks(loopback).person("Who?") == Person("Ann", 31)
    sent = loopback.requests[0].json["output_config"]["format"]
    assert (sent["type"], sent["schema"]["required"]) == ("json_schema", ["name", "age"])
    assert sent["schema"]["additionalProperties"] is False


def test_a_schema_that_is_too_complex_is_asked_for_by_a_tool_of_this_method_only(loopback: Loopback) -> None:
    answer = {"type": "tool_use", "id": "t", "name": "Person", "input": {"name": "Ann", "age": 31}}
    by_tool = said(answer, stop_reason="tool_use")
    loopback.reply(
        refused(400, "Schema is too complex for compilation."), by_tool, by_tool, said('{"value": 7}')
    )
    service = create(Two, model_at(loopback), budget=Budget(first_wait=0))
    assert [service.person("Who?"), service.person("Who?")] == [Person("Ann", 31)] * 2
    assert ["tools" in request.json for request in loopback.requests] == [False, True, True]
    assert service.number("How many?") == 7
    assert "output_config" in loopback.requests[-1].json


def test_an_older_model_gives_a_typed_answer_by_a_tool(loopback: Loopback) -> None:
    answer = {"type": "tool_use", "id": "t", "name": "Person", "input": {"name": "Ann", "age": 31}}
    loopback.reply(said(answer, stop_reason="tool_use"))
    assert asks(loopback, "claude-3-5-sonnet-latest").person("Who?") == Person("Ann", 31)
    body = loopback.requests[0].json
    assert body["tool_choice"] == {"type": "tool", "name": "Person", "disable_parallel_tool_use": True}
    assert [one["name"] for one in body["tools"]] == ["Person"]


def test_thinking_is_sent_back_unchanged_with_the_results_of_tools(loopback: Loopback) -> None:
    loopback.reply(said(THINKING, CALL, stop_reason="tool_use"), said("It rains."))
    result = asks(loopback, tools=[weather], options=ChatOptions(reasoning_effort="low")).ask("Weather?")
    assert result.value == "It rains."
    first, second = (request.json for request in loopback.requests)
    assert (first["thinking"], first["output_config"]) == ({"type": "adaptive"}, {"effort": "low"})
    assert second["messages"][1] == {"role": "assistant", "content": [THINKING, CALL]}
    assert second["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain in Delft"}
    ]
    assert result.attempts[0].reply is not None
    assert result.attempts[0].reply.message.reasoning == "Rain comes from the west."


def test_a_failed_tool_is_marked_as_failed(loopback: Loopback) -> None:
    def weather(city: str) -> str:
        """The weather of a city."""
        raise OSError("down")

    loopback.reply(said(CALL, stop_reason="tool_use"), said("Unknown."))
    asks(loopback, tools=[weather]).ask("Weather?")
    (result,) = loopback.requests[1].json["messages"][2]["content"]
    assert result["is_error"] is True


def test_a_memory_keeps_thinking(loopback: Loopback) -> None:
    class Chat(Protocol):
        def chat(self, user: Annotated[str, MemoryId], text: str) -> str: ...

    loopback.reply(said(THINKING, "At nine."), said("Yes."))
    chat = create(Chat, model_at(loopback), interceptors=[ChatMemory()])
    chat.chat("ann", "When?")
    chat.chat("ann", "Sure?")
    assert loopback.requests[1].json["messages"][1]["content"] == [
        THINKING,
        {"type": "text", "text": "At nine."},
    ]


def test_a_call_that_waits_for_approval_keeps_thinking(loopback: Loopback) -> None:
    loopback.reply(said(THINKING, CALL, stop_reason="tool_use"), said("It rains."))

    @tool(name="weather", needs_approval=True)
    def asked_weather(city: str) -> str:
        """The weather of a city."""
        return weather(city)

    service = asks(loopback, tools=[asked_weather])
    with pytest.raises(ApprovalRequiredError) as caught:
        service.ask("Weather?")
    state = SuspendedCall.from_json(caught.value.state.to_json())
    assert resume(service.ask, state, True).value == "It rains."
    assert loopback.requests[1].json["messages"][1]["content"] == [THINKING, CALL]


def test_thinking_that_the_provider_refuses_is_left_out_once(loopback: Loopback) -> None:
    loopback.reply(
        said(THINKING, CALL, stop_reason="tool_use"),
        refused(400, "messages.1.content.0: Invalid `signature` in `thinking` block"),
        said("It rains."),
    )
    result = asks(loopback, tools=[weather]).ask("Weather?")
    assert (result.value, len(result.attempts)) == ("It rains.", 3)
    assert loopback.requests[2].json["messages"][1]["content"] == [CALL]


BOUND = "claude-opus-5-5"
NO_BETA = "thinking.adaptive.block_binding: Extra inputs are not permitted"


class Two(Protocol):
    @user_message("{{text}}")
    def person(self, text: str) -> Person: ...

    @user_message("{{text}}")
    def number(self, text: str) -> int: ...


class Chats(Protocol):
    def chat(self, user: Annotated[str, MemoryId], text: str) -> Result[str]: ...


def strict_server(accepts_beta: bool) -> Callable[[ReceivedRequest], Reply]:
    """Answer like a model that binds thinking to the conversation before it."""

    def reply(request: ReceivedRequest) -> Reply:
        body, beta = request.json, request.headers.get("anthropic-beta", "")
        binding = (body.get("thinking") or {}).get("block_binding")
        if binding is not None and not (accepts_beta and beta == "thinking-binding-controls-2026-08-01"):
            return refused(400, NO_BETA)
        first = body["messages"][0]["content"][0]["text"]
        has_thinking = any(
            block["type"] == "thinking" for message in body["messages"] for block in message["content"]
        )
        dropped: list[Any] = []
        if has_thinking and first != "one":
            if binding != {"prefix_mismatch_behavior": "drop_block"}:
                return refused(400, "messages.1.content.0: Invalid `signature` in `thinking` block.")
            dropped = [{"type": "thinking_dropped", "path": "messages.1.content.0"}]
        return said(THINKING, "Yes.", input_transformations=dropped)

    return reply


def test_a_model_leaves_out_thinking_after_the_memory_has_dropped_messages(loopback: Loopback) -> None:
    loopback.reply(strict_server(accepts_beta=True))
    chat = create(Chats, model_at(loopback, BOUND), interceptors=[ChatMemory(MessageWindow(4))])
    results = [chat.chat("ann", text) for text in ("one", "two", "three", "four")]
    note = "earlier reasoning was left out: the conversation before it has changed"
    assert [note in result.reasons for result in results] == [False, False, True, True]
    assert [request.json.get("thinking", {}).get("type") for request in loopback.requests] == [
        None,  # nothing to leave out
        "adaptive",
        "adaptive",
        "adaptive",
    ]


def test_a_server_without_that_beta_gets_requests_without_thinking(loopback: Loopback) -> None:
    loopback.reply(strict_server(accepts_beta=False))
    settings: Any = {"interceptors": [ChatMemory(MessageWindow(4))], "budget": Budget(first_wait=0)}
    chat = create(Chats, model_at(loopback, BOUND), **settings)
    assert [len(chat.chat("ann", text).attempts) for text in ("one", "two", "three")] == [1, 2, 2]
    assert "block_binding" not in json.dumps(loopback.requests[-1].json)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("claude-sonnet-4-5", ChatOptions()),
        ("claude-mythos-5-1", ChatOptions()),
        (BOUND, ChatOptions(extra_headers={"Anthropic-Beta": "context-1m-2025-08-07"})),
    ],
)
def test_the_beta_is_only_used_where_it_applies(loopback: Loopback, model: str, options: ChatOptions) -> None:
    loopback.reply(said("Yes."))
    earlier = AiMessage("At nine.").with_state(f"anthropic at {loopback.base_url[:-3]}", model, [THINKING])
    messages = (UserMessage("When?"), earlier, UserMessage("Sure?"))
    model_at(loopback, model).complete(ChatRequest(messages, options))
    (request,) = loopback.requests
    assert "thinking" not in request.json
    assert request.headers.get("anthropic-beta", "") == (options.extra_headers or {}).get(
        "Anthropic-Beta", ""
    )


def test_a_pause_is_continued(loopback: Loopback) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "rain"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "https://a.example"}]}
    loopback.reply(said("I look. ", search, found, stop_reason="pause_turn"), said("It rains."))
    options = ChatOptions(server_tools=({"type": "web_search_20250305", "name": "web_search"},))
    result = asks(loopback, options=options).ask("Weather?")
    assert result.value == "I look. It rains."
    assert [(run.name, run.input, run.output) for run in result.server_tool_runs] == [
        ("web_search", {"query": "rain"}, [{"url": "https://a.example"}])
    ]
    second = loopback.requests[1].json["messages"]
    assert second[-1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "I look. "}, search, found],
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("required", {"type": "any"}),
        ("weather", {"type": "tool", "name": "weather"}),
        ("none", {"type": "none"}),
    ],
)
def test_the_choice_of_tools(loopback: Loopback, choice: str, sent: Any) -> None:
    loopback.reply(said("Yes."))
    tooling = Tooling((ToolSpecification("weather", "The weather.", {"type": "object"}),), choice)
    model_at(loopback).complete(ChatRequest.of("x", tooling=tooling))
    assert loopback.requests[0].json.get("tool_choice") == sent


def test_a_model_that_cannot_be_made_to_call_a_tool_is_asked_to(loopback: Loopback) -> None:
    loopback.reply(said("Yes."))
    tooling = Tooling((ToolSpecification("weather", "The weather.", {"type": "object"}),), "required")
    reply = model_at(loopback, "claude-opus-6").complete(ChatRequest.of("x", tooling=tooling))
    body = loopback.requests[0].json
    assert body["system"] == "Do not answer with text. Always answer by calling one of the tools."
    assert reply.notes == (
        "the model cannot be forced to call one of the tools, so the system message asks for it",
    )


def test_an_option_that_the_model_refuses_is_left_out_from_then_on(loopback: Loopback) -> None:
    loopback.reply(refused(400, "temperature: this model does not support it"), said("Yes."), said("Yes."))
    service = asks(loopback, "claude-sonnet-4-5", options=ChatOptions(temperature=0.5))
    result = service.ask("x")
    assert "temperature was left out: the model refuses it" in result.reasons
    service.ask("y")
    assert ["temperature" in request.json for request in loopback.requests] == [True, False, False]


def test_messages_of_all_kinds(loopback: Loopback) -> None:
    loopback.reply(said("Yes."))
    picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")
    letter = File.from_bytes(b"text", "text/plain", name="a.txt")
    request = ChatRequest(
        (
            SystemMessage("Be brief."),
            UserMessage("What?", contents=(picture, "What?", letter)),
            AiMessage("", (ToolCall("id|1", "look up", "{}"), ToolCall("b", "see", '{"x": 1}'))),
            ToolMessage("b", "see", "seen", ("seen", picture)),
            ToolMessage("id|1", "look up", "done"),
            UserMessage("More", name="ann"),
        )
    )
    model_at(loopback).complete(request)
    user, answer, results = loopback.requests[0].json["messages"]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    assert [block["type"] for block in user["content"]] == ["image", "text", "document"]
    assert user["content"][0] == image
    first, second = answer["content"]
    assert (first["name"], second["input"]) == ("look_up", {"x": 1})
    assert first["id"] == results["content"][1]["tool_use_id"]
    assert set(first["id"]) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert results["content"][0]["content"] == [{"type": "text", "text": "seen"}, image]
    assert [block.get("text") for block in results["content"][2:]] == ["ann:", "More"]
    assert [tool["name"] for tool in loopback.requests[0].json["tools"]] == ["look_up", "see"]


def test_sound_is_refused_before_anything_is_sent(loopback: Loopback) -> None:
    request = ChatRequest((UserMessage("", contents=(Audio.from_bytes(b"RIFF", "audio/wav"),)),))
    with pytest.raises(BadRequestError, match="does not take audio"):
        model_at(loopback).complete(request)
    assert loopback.requests == []


def test_sound_in_the_result_of_a_tool_becomes_a_note(loopback: Loopback) -> None:
    loopback.reply(said("Yes."))
    sound = Audio.from_bytes(b"RIFF", "audio/wav")
    answer = AiMessage("", (ToolCall("a", "listen", "{}"),))
    result = ToolMessage("a", "listen", "heard", (sound,))
    model_at(loopback).complete(ChatRequest((UserMessage("?"), answer, result)))
    (block,) = loopback.requests[0].json["messages"][-1]["content"]
    assert [part["text"] for part in block["content"]] == [
        "heard",
        "[left out, because this model cannot read it: audio/wav, 4 bytes]",
    ]


def stream_of(*events: dict[str, Any], cut_off: bool = False) -> Reply:
    return sse(*map(event, events), cut_off=cut_off)


START = {
    "type": "message_start",
    "message": {"id": "m", "model": "claude-sonnet-5", "usage": {"input_tokens": 9}},
}
TEXT_START = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}


def text_delta(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


STOP = (
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
)


def test_a_stream_arrives_piece_by_piece(loopback: Loopback) -> None:
    loopback.reply(
        stream_of(START, {"type": "ping"}, TEXT_START, text_delta("Hel"), text_delta("lo."), *STOP)
    )
    stream = asks(loopback).stream("x")
    assert [snapshot.value for snapshot in stream][-1] == "Hello."
    assert stream.result().usage == Usage(9, 4)
    assert loopback.requests[0].json["stream"] is True


def test_a_streamed_tool_call_keeps_thinking(loopback: Loopback) -> None:
    def delta(index: int, **members: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": members}

    loopback.reply(
        stream_of(
            START,
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "thinking", "thinking": "", "signature": ""},
            },
            delta(0, type="thinking_delta", thinking="Rain comes "),
            delta(0, type="thinking_delta", thinking="from the west."),
            delta(0, type="signature_delta", signature="c2ln"),
            {"type": "content_block_start", "index": 1, "content_block": {**CALL, "input": {}}},
            delta(1, type="input_json_delta", partial_json='{"city": '),
            delta(1, type="input_json_delta", partial_json='"Delft"}'),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ),
        stream_of(START, TEXT_START, text_delta("It rains."), *STOP),
    )
    stream = asks(loopback, tools=[weather]).stream("x")
    assert stream.result().value == "It rains."
    assert loopback.requests[1].json["messages"][1]["content"] == [THINKING, CALL]


def block_events(*blocks: dict[str, Any], index: int = 0) -> tuple[dict[str, Any], ...]:
    """Return the events of blocks that all have the same index, and whose inputs are texts."""
    events: list[dict[str, Any]] = []
    for block in blocks:
        text = block.pop("json", None)
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        if text is not None:
            delta = {"type": "input_json_delta", "partial_json": text}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    return START, *events, *STOP[1:]


def called(call_id: str, text: str) -> dict[str, Any]:
    return {**CALL, "id": call_id, "input": {}, "json": text}


def test_blocks_with_the_same_index_are_all_read(loopback: Loopback) -> None:
    texts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo."}]
    calls = [called("t1", '{"city": "Delft"}'), called("t2", '{"city": "Bonn"}')]
    loopback.reply(stream_of(*block_events(*texts, *calls)))
    (*_, last) = model_at(loopback).stream(ChatRequest.of("x"))
    assert last.reply is not None
    assert last.reply.text == "Hello."
    assert [call.arguments for call in last.reply.message.tool_calls] == [
        '{"city":"Delft"}',
        '{"city":"Bonn"}',
    ]


@pytest.mark.parametrize("text", ['{"city": ', "[1]", "Delft", '"a"'])
def test_a_streamed_call_with_other_arguments_than_an_object_is_told_to_the_model(
    loopback: Loopback, text: str
) -> None:
    thinking = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}  # so that the blocks are sent back
    loopback.reply(
        stream_of(*block_events(thinking, called("t1", text))),
        stream_of(START, TEXT_START, text_delta("It rains."), *STOP),
    )
    assert asks(loopback, tools=[weather]).stream("x").result().value == "It rains."
    _, answer, results = loopback.requests[1].json["messages"]
    assert isinstance(answer["content"][1]["input"], dict)
    assert results["content"][0]["is_error"] is True


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (stream_of(START, TEXT_START, text_delta("Hel"), cut_off=True), ModelConnectionError),
        (
            stream_of(
                START,
                TEXT_START,
                text_delta("Hel"),
                {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            ),
            ModelServerError,
        ),
    ],
)
def test_a_stream_that_breaks_is_an_error(
    loopback: Loopback, reply: Reply, expected: type[Exception]
) -> None:
    loopback.reply(reply)
    deltas = iter(model_at(loopback).stream(ChatRequest.of("x")))
    assert next(deltas).text == "Hel"
    with pytest.raises(expected):
        list(deltas)


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (400, "invalid_request_error", BadRequestError),
        (401, "authentication_error", AuthenticationError),
        (403, "permission_error", AuthenticationError),
        (404, "not_found_error", ModelNotFoundError),
        (429, "rate_limit_error", RateLimitError),
        (500, "api_error", ModelServerError),
        (529, "overloaded_error", ModelServerError),
    ],
)
def test_each_error_has_its_class(
    loopback: Loopback, status: int, kind: str, expected: type[Exception]
) -> None:
    loopback.reply(refused(status, "It did not work.", kind))
    with pytest.raises(expected) as caught:
        model_at(loopback).complete(ChatRequest.of("x"))
    assert "It did not work." in str(caught.value)
    assert KEY not in str(caught.value)


def test_an_overloaded_server_is_asked_again(loopback: Loopback) -> None:
    loopback.reply(refused(529, "Overloaded", "overloaded_error"), said("Yes."))
    assert asks(loopback).ask("x").value == "Yes."


def test_a_refusal_has_its_category(loopback: Loopback) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "I cannot help with that."}
    loopback.reply(said("", stop_reason="refusal", stop_details=details))
    with pytest.raises(RefusalError, match="cyber: I cannot help with that"):
        asks(loopback).ask("x")


def test_a_missing_key_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    model = AnthropicChatModel("claude-sonnet-5")
    with pytest.raises(AuthenticationError, match="set ANTHROPIC_API_KEY"):
        model.complete(ChatRequest.of("x"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert KEY not in repr(AnthropicChatModel("claude-sonnet-5"))


def test_cached_tokens_are_part_of_the_input(loopback: Loopback) -> None:
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 50,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 4},
    }
    loopback.reply(said("Yes.", usage=usage))
    result = asks(loopback, options=ChatOptions(cache="1h")).ask("x")
    assert result.usage == Usage(153, 7, 50, 4, 100)
    assert loopback.requests[0].json["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_the_reply_of_another_server_is_unreadable(loopback: Loopback) -> None:
    loopback.reply(json_reply({"choices": []}))
    with pytest.raises(Exception, match="has no content"):
        model_at(loopback).complete(ChatRequest.of("x"))
    loopback.reply(error(400, "no"))


def test_state_is_json_in_a_store() -> None:
    message = AiMessage("x").with_state("anthropic at https://a", "m", [THINKING])
    data = json.loads(json.dumps(message_to_dict(message)))
    restored = message_from_dict(data)
    assert isinstance(restored, AiMessage)
    assert restored.parts_for("anthropic at https://a") == (THINKING,)
    assert restored.parts_for("anthropic at https://b") is None
