"""Tools over HTTP: the requests to both APIs of OpenAI, and how their tool calls are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Protocol

import pytest
from loopback import DONE, Loopback, Reply, answer, delta, error, json_reply, sse
from responses_api import (
    arguments_delta,
    end_event,
    function_call,
    item_added,
    item_done,
    message,
    response,
    response_reply,
    start_events,
    text_delta,
)

from aiservices import (
    AsyncStream,
    BadRequestError,
    Budget,
    Capabilities,
    ModelError,
    OpenAiChatModel,
    OpenAiResponsesModel,
    Result,
    Stream,
    ToolContext,
    TruncatedError,
    create,
)
from aiservices.tools.tool import tool

KEY = "sk-test-0123456789"
STRICT = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True)
TOOLS_ONLY = Capabilities(tools=True)


class Weather(Protocol):
    def ask(self, text: str, user: Annotated[str, ToolContext] = "ann-7") -> str: ...

    async def aask(self, text: str, user: Annotated[str, ToolContext] = "ann-7") -> str: ...

    def stream(self, text: str, user: Annotated[str, ToolContext] = "ann-7") -> Stream[str]: ...

    def astream(self, text: str, user: Annotated[str, ToolContext] = "ann-7") -> AsyncStream[str]: ...

    def degrees(self, text: str, user: Annotated[str, ToolContext] = "ann-7") -> Result[int]: ...


@tool
def forecast(city: str, user: Annotated[str, ToolContext], days: int = 1) -> dict[str, Any]:
    """Tells the weather of the next days.

    Args:
        city: The city, in English.
    """
    return {"city": city, "days": days, "°C": 21}


PROPERTIES = {"city": {"type": "string", "description": "The city, in English."}}
LENIENT = {
    "type": "object",
    "properties": {**PROPERTIES, "days": {"type": "integer", "description": "Default: 1"}},
    "required": ["city"],
    "additionalProperties": False,
}


def chat_call(*calls: tuple[str, str], finish_reason: str = "tool_calls", text: str | None = None) -> Reply:
    made = [
        {"id": id, "type": "function", "function": {"name": "forecast", "arguments": arguments}}
        for id, arguments in calls
    ]
    return answer(text, finish_reason=finish_reason, tool_calls=made)


def chat_stream(*calls: tuple[str, str]) -> Reply:
    chunks = []
    for index, (id, arguments) in enumerate(calls):
        head = {
            "index": index,
            "id": id,
            "type": "function",
            "function": {"name": "forecast", "arguments": ""},
        }
        chunks.append(delta(tool_calls=[head]))
        pieces = (arguments[:5], arguments[5:])
        chunks += [delta(tool_calls=[{"index": index, "function": {"arguments": one}}]) for one in pieces]
    return sse(*chunks, delta("tool_calls"), DONE)


def chat_text(text: str) -> Reply:
    return sse(delta(content=text), delta("stop"), DONE)


def responses_stream(*calls: tuple[str, str]) -> Reply:
    items = [function_call(id, "forecast", arguments) for id, arguments in calls]
    chunks = []
    for index, item in enumerate(items):
        chunks += [
            item_added(index, {**item, "arguments": ""}),
            arguments_delta(item["arguments"], index),
            item_done(index, item),
        ]
    return sse(start_events(), *chunks, end_event(response(*items)))


def responses_text(text: str) -> Reply:
    whole = message(text)
    return sse(
        start_events(),
        item_added(0, message()),
        text_delta(text),
        item_done(0, whole),
        end_event(response(whole)),
    )


ROME, OSTIA = '{"city": "Rome"}', '{"city": "Ostia", "days": 3}'
TWO = (("call_a", ROME), ("call_b", OSTIA))


@pytest.fixture
def chat(loopback: Loopback) -> Iterator[OpenAiChatModel]:
    with OpenAiChatModel("m", base_url=loopback.base_url, api_key=KEY, capabilities=STRICT) as made:
        yield made


@pytest.fixture
def responses(loopback: Loopback) -> Iterator[OpenAiResponsesModel]:
    with OpenAiResponsesModel("m", base_url=loopback.base_url, api_key=KEY, capabilities=STRICT) as made:
        yield made


def service(model: Any) -> Weather:
    return create(Weather, model, tools=[forecast], budget=Budget(first_wait=0))


async def awaited(given: Any) -> Any:
    return await given


def run(coroutine: Any) -> Any:
    import asyncio

    return asyncio.run(coroutine)


BLOCKING: dict[str, Callable[[Weather], str]] = {
    "blocking": lambda one: one.ask("Weather?"),
    "async": lambda one: run(awaited(one.aask("Weather?"))),
}
STREAMED: dict[str, Callable[[Weather], str]] = {
    "stream": lambda one: one.stream("Weather?").result().value,
    "async stream": lambda one: run(awaited(one.astream("Weather?").result())).value,
}


def strict_parameters(tools: Any) -> Any:
    """Return the parameters of the tool in a request, and check that they are in strict mode."""
    parameters = tools["parameters"]
    assert parameters["additionalProperties"] is False
    assert parameters["required"] == ["city", "days"]
    assert set(parameters) == {"type", "properties", "required", "additionalProperties"}
    assert parameters["properties"]["city"] == PROPERTIES["city"]
    return parameters


def assert_chat_rounds(loopback: Loopback, **streaming: Any) -> None:
    first, second = (seen.json for seen in loopback.requests)
    parameters = strict_parameters(first["tools"][0]["function"])
    function = {
        "name": "forecast",
        "description": "Tells the weather of the next days.",
        "parameters": parameters,
        "strict": True,
    }
    assert first == {
        "model": "m",
        "tools": [{"type": "function", "function": function}],
        **streaming,
        "messages": [{"role": "user", "content": "Weather?"}],
    }
    calls = [
        {"id": id, "type": "function", "function": {"name": "forecast", "arguments": arguments}}
        for id, arguments in TWO
    ]
    assert second == {
        **first,
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_a", "content": '{"city":"Rome","days":1,"°C":21}'},
            {"role": "tool", "tool_call_id": "call_b", "content": '{"city":"Ostia","days":3,"°C":21}'},
        ],
    }
    assert all(b"ann-7" not in seen.body for seen in loopback.requests)


@pytest.mark.parametrize("kind", BLOCKING)
def test_chat_completions_get_the_tools_and_their_results(
    loopback: Loopback, chat: OpenAiChatModel, kind: str
) -> None:
    loopback.reply(chat_call(*TWO), answer("Warm."))
    assert BLOCKING[kind](service(chat)) == "Warm."
    assert_chat_rounds(loopback)


@pytest.mark.parametrize("kind", STREAMED)
def test_a_stream_of_chat_completions_runs_tools(
    loopback: Loopback, chat: OpenAiChatModel, kind: str
) -> None:
    loopback.reply(chat_stream(*TWO), chat_text("Warm."))
    assert STREAMED[kind](service(chat)) == "Warm."
    assert_chat_rounds(loopback, stream=True, stream_options={"include_usage": True})


def assert_responses_rounds(loopback: Loopback, **streaming: Any) -> None:
    first, second = (seen.json for seen in loopback.requests)
    (told,) = first["tools"]
    assert first == {
        "model": "m",
        "tools": [
            {
                "type": "function",
                "name": "forecast",
                "description": "Tells the weather of the next days.",
                "parameters": strict_parameters(told),
                "strict": True,
            }
        ],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        **streaming,
        "input": [{"role": "user", "content": "Weather?"}],
    }
    calls = [
        {"type": "function_call", "call_id": id, "name": "forecast", "arguments": arguments}
        for id, arguments in TWO
    ]
    outputs = [
        {"type": "function_call_output", "call_id": "call_a", "output": '{"city":"Rome","days":1,"°C":21}'},
        {"type": "function_call_output", "call_id": "call_b", "output": '{"city":"Ostia","days":3,"°C":21}'},
    ]
    assert second == {**first, "input": [{"role": "user", "content": "Weather?"}, *calls, *outputs]}
    assert all(b"ann-7" not in seen.body for seen in loopback.requests)


@pytest.mark.parametrize("kind", BLOCKING)
def test_responses_get_the_tools_and_their_results(
    loopback: Loopback, responses: OpenAiResponsesModel, kind: str
) -> None:
    calls = [function_call(id, "forecast", arguments) for id, arguments in TWO]
    loopback.reply(response_reply(*calls), response_reply(message("Warm.")))
    assert BLOCKING[kind](service(responses)) == "Warm."
    assert_responses_rounds(loopback)


@pytest.mark.parametrize("kind", STREAMED)
def test_a_stream_of_responses_runs_tools(
    loopback: Loopback, responses: OpenAiResponsesModel, kind: str
) -> None:
    loopback.reply(responses_stream(*TWO), responses_text("Warm."))
    assert STREAMED[kind](service(responses)) == "Warm."
    assert_responses_rounds(loopback, stream=True)


def test_strict_is_not_sent_to_a_server_without_strict_mode(loopback: Loopback) -> None:
    loopback.reply(chat_call(("call_a", ROME)), answer("Warm."))
    with OpenAiChatModel("m", base_url=loopback.base_url, api_key=KEY, capabilities=TOOLS_ONLY) as model:
        assert service(model).ask("Weather?") == "Warm."
    (told,) = loopback.requests[0].json["tools"]
    assert told["function"] == {
        "name": "forecast",
        "description": "Tells the weather of the next days.",
        "parameters": LENIENT,
    }


def test_the_tool_of_the_answer_is_sent_next_to_the_others(loopback: Loopback) -> None:
    value = {"id": "v", "type": "function", "function": {"name": "int", "arguments": '{"value": 21}'}}
    both = answer(None, finish_reason="tool_calls", tool_calls=[value])
    loopback.reply(chat_call(("call_a", ROME)), both)
    with OpenAiChatModel("m", base_url=loopback.base_url, api_key=KEY, capabilities=TOOLS_ONLY) as model:
        assert service(model).degrees("Weather?").value == 21
    first, second = (seen.json for seen in loopback.requests)
    assert [one["function"]["name"] for one in first["tools"]] == ["forecast", "int"]
    assert (first["tool_choice"], "parallel_tool_calls" in first) == ("required", False)
    assert [said["role"] for said in second["messages"]] == ["user", "assistant", "tool"]


def test_a_native_schema_is_sent_next_to_the_tools(loopback: Loopback, chat: OpenAiChatModel) -> None:
    loopback.reply(chat_call(("call_a", ROME)), answer('{"value": 21}'))
    assert service(chat).degrees("Weather?").value == 21
    for seen in loopback.requests:
        assert seen.json["response_format"]["json_schema"]["strict"] is True
        assert "tool_choice" not in seen.json


@pytest.mark.parametrize("ids", [("", ""), ("call_a", "call_a")])
def test_calls_without_ids_of_their_own_are_sent_back_with_some(
    loopback: Loopback, chat: OpenAiChatModel, ids: tuple[str, str]
) -> None:
    loopback.reply(chat_call((ids[0], ROME), (ids[1], OSTIA)), answer("Warm."))
    assert service(chat).ask("Weather?") == "Warm."
    _, said, *told = loopback.requests[1].json["messages"]
    sent = [call["id"] for call in said["tool_calls"]]
    assert (len(set(sent)), all(sent)) == (2, True)
    assert [one["tool_call_id"] for one in told] == sent


def test_arguments_that_a_server_sends_as_an_object_are_read(
    loopback: Loopback, chat: OpenAiChatModel
) -> None:
    function = {"name": "forecast", "arguments": {"city": "Rome", "days": None}}
    call = {"id": "call_a", "type": "function", "function": function}
    loopback.reply(answer(None, finish_reason="tool_calls", tool_calls=[call]), answer("Warm."))
    assert service(chat).ask("Weather?") == "Warm."
    assert loopback.requests[1].json["messages"][-1]["content"] == '{"city":"Rome","days":1,"°C":21}'


def test_calls_that_were_cut_off_are_not_run(loopback: Loopback, chat: OpenAiChatModel) -> None:
    loopback.reply(chat_call(("call_a", ROME), finish_reason="length"))
    with pytest.raises(TruncatedError):
        service(chat).ask("Weather?")
    assert len(loopback.requests) == 1


def test_a_server_that_finishes_calls_with_stop_has_them_run(
    loopback: Loopback, chat: OpenAiChatModel
) -> None:
    loopback.reply(chat_call(("call_a", ROME), finish_reason="stop", text="I look."), answer("Warm."))
    assert service(chat).ask("Weather?") == "Warm."
    assert loopback.requests[1].json["messages"][1]["content"] == "I look."


def test_the_error_of_a_server_without_tools_is_raised(loopback: Loopback, chat: OpenAiChatModel) -> None:
    loopback.reply(error(400, "this model does not support tools"))
    with pytest.raises(BadRequestError, match="this model does not support tools"):
        service(chat).ask("Weather?")


def test_a_server_that_refuses_strict_tools_is_asked_without(
    loopback: Loopback, chat: OpenAiChatModel
) -> None:
    def strict_or_not(seen: Any) -> Reply:
        if any(one["function"].get("strict") for one in seen.json["tools"]):
            return json_reply(
                {"error": {"message": "Unknown parameter: tools[0].function.strict"}}, status=400
            )
        return answer("Warm.")

    loopback.reply(strict_or_not)
    assert service(chat).ask("Weather?") == "Warm."


def test_a_failure_after_tools_is_made_up_for(loopback: Loopback, chat: OpenAiChatModel) -> None:
    loopback.reply(chat_call(("call_a", ROME)), error(500, "down"), answer("Warm."))
    assert service(chat).ask("Weather?") == "Warm."
    assert loopback.requests[1].body == loopback.requests[2].body


def test_a_stream_that_breaks_in_a_call_runs_nothing(loopback: Loopback, chat: OpenAiChatModel) -> None:
    head = {"index": 0, "id": "a", "type": "function", "function": {"name": "forecast", "arguments": ROME}}
    loopback.reply(sse(delta(tool_calls=[head]), cut_off=True))
    with pytest.raises(ModelError):
        service(chat).stream("Weather?").result()
    assert all(len(seen.json["messages"]) == 1 for seen in loopback.requests)
