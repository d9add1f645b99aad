"""ScriptedChatModel returns its script from all methods and records the requests."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from aiservices import (
    AiMessage,
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    DefinitionError,
    FinishReason,
    ModelServerError,
    ReplyDelta,
    ScriptedChatModel,
    Usage,
)


def test_it_is_a_chat_model() -> None:
    assert isinstance(ScriptedChatModel([]), ChatModel)


def test_replies_come_in_order() -> None:
    model = ScriptedChatModel(["one", "two"])
    assert [model.complete(ChatRequest.of("?")).text for _ in range(2)] == ["one", "two"]


def test_requests_are_recorded_in_order() -> None:
    model = ScriptedChatModel(["one", "two"])
    requests = [ChatRequest.of("first"), ChatRequest.of("second")]
    for request in requests:
        model.complete(request)
    assert model.requests == requests


def test_a_reply_has_its_usage_in_words_and_the_name_of_the_model() -> None:
    reply = ScriptedChatModel(["to be sure"], name="parrot").complete(ChatRequest.of("is it so"))
    assert reply == ChatReply(AiMessage("to be sure"), usage=Usage(3, 3), model="parrot")


def test_a_chat_reply_is_returned_unchanged() -> None:
    reply = ChatReply(AiMessage("cut"), FinishReason.LENGTH)
    assert ScriptedChatModel([reply]).complete(ChatRequest.of("?")) is reply


def test_an_exception_is_raised() -> None:
    error = ModelServerError("500")
    with pytest.raises(ModelServerError) as caught:
        ScriptedChatModel([error]).complete(ChatRequest.of("?"))
    assert caught.value is error


def test_a_function_returns_the_reply_to_a_request() -> None:
    model = ScriptedChatModel(lambda request: request.messages[0].text.upper())
    assert model.complete(ChatRequest.of("hush")).text == "HUSH"


def test_a_function_may_call_the_same_model() -> None:
    def script(request: ChatRequest) -> str:
        text = request.messages[0].text
        return text if text == "inner" else model.complete(ChatRequest.of("inner")).text

    model = ScriptedChatModel(script)
    assert model.complete(ChatRequest.of("outer")).text == "inner"


def test_a_request_after_the_last_reply_is_a_lookup_error() -> None:
    model = ScriptedChatModel(["only"], name="parrot")
    model.complete(ChatRequest.of("?"))
    with pytest.raises(LookupError) as caught:
        model.complete(ChatRequest.of("?"))
    assert str(caught.value) == "the script of parrot has no reply to request 2"


def test_a_text_instead_of_a_list_of_replies_is_an_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        ScriptedChatModel("hello")
    assert str(caught.value) == (
        "ScriptedChatModel: the script is a text; pass a list of replies, as in ScriptedChatModel(['hello'])"
    )


def test_an_awaited_reply_is_the_same() -> None:
    model = ScriptedChatModel(["one"])
    assert asyncio.run(model.acomplete(ChatRequest.of("?"))).text == "one"


def test_a_stream_yields_words_and_then_the_complete_reply() -> None:
    model = ScriptedChatModel(["  to be  sure"])
    *pieces, last = model.stream(ChatRequest.of("?"))
    assert [piece.text for piece in pieces] == ["  ", "to ", "be  ", "sure"]
    assert last == ReplyDelta(
        reply=ChatReply(AiMessage("  to be  sure"), usage=Usage(1, 3), model="scripted")
    )


def test_an_async_stream_yields_the_same() -> None:
    async def texts() -> list[str]:
        return [delta.text async for delta in ScriptedChatModel(["to be"]).astream(ChatRequest.of("?"))]

    assert asyncio.run(texts()) == ["to ", "be", ""]


def test_by_default_it_has_all_capabilities_but_constrained() -> None:
    assert ScriptedChatModel([]).capabilities == Capabilities(
        json_schema=True, strict_schema=True, json_mode=True, tools=True, logprobs=20
    )


def test_capabilities_and_name_can_be_set() -> None:
    model = ScriptedChatModel([], capabilities=Capabilities(constrained=True), name="tiny")
    assert (model.capabilities, model.name) == (Capabilities(constrained=True), "tiny")


def test_many_threads_get_each_reply_once() -> None:
    model = ScriptedChatModel([str(number) for number in range(200)])
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: model.complete(ChatRequest.of("?")).text, range(200)))
    assert sorted(replies, key=int) == [str(number) for number in range(200)]


def test_a_script_of_other_objects_is_a_definition_error() -> None:
    expected = "pass a text as the model writes it, such as JSON, a ChatReply or an exception"
    with pytest.raises(DefinitionError) as caught:
        ScriptedChatModel(["a", 3, AiMessage("b")])  # type: ignore[list-item]
    assert str(caught.value) == (
        f"2 problems:\n  - ScriptedChatModel: reply 2 is int; {expected}\n"
        "  - ScriptedChatModel: reply 3 is AiMessage; pass ChatReply(message)"
    )
    with pytest.raises(DefinitionError, match="ScriptedChatModel: the script returned dict; pass a text"):
        ScriptedChatModel(lambda request: {}).complete(ChatRequest.of("x"))  # type: ignore[arg-type, return-value]
