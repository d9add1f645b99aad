"""A FallbackChatModel asked by itself: each member once, in their order, and the last error is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from aiservices import (
    AiMessage,
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    DefinitionError,
    FallbackChatModel,
    ModelError,
    ModelServerError,
    RateLimitError,
    ReplyDelta,
    ScriptedChatModel,
    UserMessage,
)

REQUEST = ChatRequest((UserMessage("x"),))


def member(*replies: Any, name: str = "m", capabilities: Capabilities | None = None) -> ScriptedChatModel:
    return ScriptedChatModel(replies, name=name, capabilities=capabilities or Capabilities())


async def astreamed(model: ChatModel) -> ChatReply:
    last = None
    async for delta in model.astream(REQUEST):
        last = delta.reply
    assert last is not None
    return last


def streamed(model: ChatModel) -> ChatReply:
    last = [delta.reply for delta in model.stream(REQUEST)][-1]
    assert last is not None
    return last


KINDS: dict[str, Callable[[ChatModel], ChatReply]] = {
    "complete": lambda model: model.complete(REQUEST),
    "acomplete": lambda model: asyncio.run(model.acomplete(REQUEST)),  # type: ignore[arg-type]
    "stream": streamed,
    "astream": lambda model: asyncio.run(astreamed(model)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_the_first_member_that_answers_is_the_last_to_be_asked(kind: str) -> None:
    members = [member(ModelError("a"), name="a"), member("hello", name="b"), member(name="c")]
    assert KINDS[kind](FallbackChatModel(*members)).text == "hello"
    assert [len(one.requests) for one in members] == [1, 1, 0]
    assert members[1].requests == [REQUEST]


@every_kind
def test_when_all_fail_the_error_is_that_of_the_last(kind: str) -> None:
    members = [member(RateLimitError("first")), member(ModelServerError("last"))]
    with pytest.raises(ModelServerError, match=r"^last$"):
        KINDS[kind](FallbackChatModel(*members))
    assert [len(one.requests) for one in members] == [1, 1]


@every_kind
def test_an_error_that_is_not_the_models_is_not_passed_over(kind: str) -> None:
    members = [member(ZeroDivisionError("ours")), member("hello")]
    with pytest.raises(ZeroDivisionError, match=r"^ours$"):
        KINDS[kind](FallbackChatModel(*members))
    assert members[1].requests == []


def test_one_model_is_enough() -> None:
    assert FallbackChatModel(member("hello")).complete(REQUEST).text == "hello"


def test_a_fallback_is_a_chat_model() -> None:
    assert isinstance(FallbackChatModel(member()), ChatModel)


def test_its_name_is_those_of_its_members() -> None:
    assert FallbackChatModel(member(name="a"), member(name="b")).name == "a | b"


def test_a_fallback_in_a_fallback_stands_for_its_members() -> None:
    a, b, c = (member(name=name) for name in "abc")
    assert FallbackChatModel(FallbackChatModel(a, b), c).members == (a, b, c)


def test_it_can_what_all_can() -> None:
    both = Capabilities(json_schema=True, tools=True, json_mode=True, strict_schema=True, profile="gemini")
    one = Capabilities(json_schema=True, tools=False, json_mode=True, constrained=True)
    model = FallbackChatModel(member(capabilities=both), member(capabilities=one))
    assert model.capabilities == Capabilities(json_schema=True, json_mode=True, profile="gemini")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("nope:x", "the model 'nope:x' is unknown: its provider must be one of "),
        (5, "int is not a ChatModel: it needs name, capabilities, complete, acomplete, stream and astream"),
        (ScriptedChatModel, "ScriptedChatModel is a class; pass an object of it"),
    ],
)
def test_what_stands_for_no_model_is_told(model: Any, said: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        FallbackChatModel(member(), model)
    assert str(caught.value).startswith(f"FallbackChatModel: {said}")


class Breaking:
    """Streams a piece, and breaks."""

    name = "breaking"
    capabilities = Capabilities()

    def __init__(self) -> None:
        self.open = 0

    def complete(self, request: ChatRequest) -> ChatReply:
        raise ModelError("broken")

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        raise ModelError("broken")

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        yield ReplyDelta("half")
        raise ModelError("broken")

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        yield ReplyDelta("half")
        raise ModelError("broken")


@pytest.mark.parametrize("kind", ["stream", "astream"])
def test_a_stream_that_breaks_is_not_begun_anew_by_another(kind: str) -> None:
    """The pieces of two answers would stand one after the other."""
    other = member("whole")
    with pytest.raises(ModelError, match=r"^broken$"):
        KINDS[kind](FallbackChatModel(Breaking(), other))
    assert other.requests == []


class Held(Breaking):
    """Streams without an end, and knows whether the request is still running."""

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        self.open += 1
        try:
            while True:
                yield ReplyDelta("more")
        finally:
            self.open -= 1

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        self.open += 1
        try:
            while True:
                yield ReplyDelta("more")
        finally:
            self.open -= 1


def test_closing_a_stream_ends_the_request() -> None:
    held = Held()
    kept = held.stream(REQUEST)  # that nobody else refers to it is not what ends it
    held.stream = lambda request: kept  # type: ignore[method-assign]
    deltas = FallbackChatModel(held).stream(REQUEST)
    assert next(deltas) == ReplyDelta("more")
    deltas.close()
    assert held.open == 0


def test_closing_an_async_stream_ends_the_request_at_once() -> None:
    held = Held()

    async def begin_and_close() -> int:
        deltas = FallbackChatModel(held).astream(REQUEST)
        assert await anext(deltas) == ReplyDelta("more")
        await deltas.aclose()
        return held.open

    assert asyncio.run(begin_and_close()) == 0


class Listed(Breaking):
    """A stream need not be a generator."""

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        return iter([ReplyDelta("a"), ReplyDelta(reply=ChatReply(AiMessage("a")))])

    def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        return ReplyPieces(self.stream(request))


class ReplyPieces:
    def __init__(self, deltas: Iterator[ReplyDelta]) -> None:
        self._deltas = deltas

    def __aiter__(self) -> ReplyPieces:
        return self

    async def __anext__(self) -> ReplyDelta:
        for delta in self._deltas:
            return delta
        raise StopAsyncIteration


@pytest.mark.parametrize("kind", ["stream", "astream"])
def test_a_stream_that_cannot_be_closed_is_read_to_its_end(kind: str) -> None:
    assert KINDS[kind](FallbackChatModel(Listed())).text == "a"
