"""ScriptedChatModel says what it is told to, in every way of asking, and keeps what it was sent."""

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


def test_requests_are_kept_in_order() -> None:
    model = ScriptedChatModel(["one", "two"])
    requests = [ChatRequest.of("first"), ChatRequest.of("second")]
    for request in requests:
        model.complete(request)
    assert model.requests == requests


def test_usage_is_counted_in_words_and_the_model_named() -> None:
    reply = ScriptedChatModel(["to be sure"], name="parrot").complete(ChatRequest.of("is it so"))
    assert reply == ChatReply(AiMessage("to be sure"), usage=Usage(3, 3), model="parrot")


def test_a_whole_reply_is_given_as_it_is() -> None:
    reply = ChatReply(AiMessage("cut"), FinishReason.LENGTH)
    assert ScriptedChatModel([reply]).complete(ChatRequest.of("?")) is reply


def test_an_exception_is_raised() -> None:
    error = ModelServerError("500")
    with pytest.raises(ModelServerError) as caught:
        ScriptedChatModel([error]).complete(ChatRequest.of("?"))
    assert caught.value is error


def test_a_function_makes_the_reply_from_the_request() -> None:
    model = ScriptedChatModel(lambda request: request.messages[0].text.upper())
    assert model.complete(ChatRequest.of("hush")).text == "HUSH"


def test_a_function_may_ask_the_same_model() -> None:
    def script(request: ChatRequest) -> str:
        said = request.messages[0].text
        return said if said == "inner" else model.complete(ChatRequest.of("inner")).text

    model = ScriptedChatModel(script)
    assert model.complete(ChatRequest.of("outer")).text == "inner"


def test_the_end_of_a_script_is_told() -> None:
    model = ScriptedChatModel(["only"], name="parrot")
    model.complete(ChatRequest.of("?"))
    with pytest.raises(LookupError) as caught:
        model.complete(ChatRequest.of("?"))
    assert str(caught.value) == "the script of parrot is at its end after 1 replies"


def test_an_awaited_reply_is_the_same() -> None:
    model = ScriptedChatModel(["one"])
    assert asyncio.run(model.acomplete(ChatRequest.of("?"))).text == "one"


def test_a_stream_gives_the_reply_word_by_word_and_whole_at_last() -> None:
    model = ScriptedChatModel(["  to be  sure"])
    *pieces, last = model.stream(ChatRequest.of("?"))
    assert [piece.text for piece in pieces] == ["  ", "to ", "be  ", "sure"]
    assert last == ReplyDelta(
        reply=ChatReply(AiMessage("  to be  sure"), usage=Usage(1, 3), model="scripted")
    )


def test_an_async_stream_gives_the_same() -> None:
    async def texts() -> list[str]:
        return [delta.text async for delta in ScriptedChatModel(["to be"]).astream(ChatRequest.of("?"))]

    assert asyncio.run(texts()) == ["to ", "be", ""]


def test_without_a_say_it_can_be_asked_for_json_in_every_way_but_grammar() -> None:
    assert ScriptedChatModel([]).capabilities == Capabilities(
        json_schema=True, strict_schema=True, json_mode=True, tools=True
    )


def test_capabilities_and_name_can_be_set() -> None:
    model = ScriptedChatModel([], capabilities=Capabilities(constrained=True), name="tiny")
    assert (model.capabilities, model.name) == (Capabilities(constrained=True), "tiny")


def test_each_reply_is_given_once_to_many_threads() -> None:
    model = ScriptedChatModel([str(number) for number in range(200)])
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: model.complete(ChatRequest.of("?")).text, range(200)))
    assert sorted(replies, key=int) == [str(number) for number in range(200)]
