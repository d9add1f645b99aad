"""A FallbackChatModel without a service: each member is tried once, and the last error is raised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import fields
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
from aiservices.models.base import DecisionLimits
from aiservices.models.fallback import COMMON

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
def test_members_after_the_first_that_answers_are_not_called(kind: str) -> None:
    members = [member(ModelError("a"), name="a"), member("hello", name="b"), member(name="c")]
    assert KINDS[kind](FallbackChatModel(*members)).text == "hello"
    assert [len(one.requests) for one in members] == [1, 1, 0]
    assert members[1].requests == [REQUEST]


@every_kind
def test_if_all_members_fail_the_error_of_the_last_is_raised(kind: str) -> None:
    members = [member(RateLimitError("first")), member(ModelServerError("last"))]
    with pytest.raises(ModelServerError, match=r"^last$"):
        KINDS[kind](FallbackChatModel(*members))
    assert [len(one.requests) for one in members] == [1, 1]


@every_kind
def test_only_model_errors_lead_to_the_next_member(kind: str) -> None:
    members = [member(ZeroDivisionError("ours")), member("hello")]
    with pytest.raises(ZeroDivisionError, match=r"^ours$"):
        KINDS[kind](FallbackChatModel(*members))
    assert members[1].requests == []


def test_one_model_is_enough() -> None:
    assert FallbackChatModel(member("hello")).complete(REQUEST).text == "hello"


def test_a_fallback_is_a_chat_model() -> None:
    assert isinstance(FallbackChatModel(member()), ChatModel)


def test_its_name_consists_of_the_names_of_its_members() -> None:
    assert FallbackChatModel(member(name="a"), member(name="b")).name == "a | b"


def test_a_fallback_in_a_fallback_is_replaced_by_its_members() -> None:
    a, b, c = (member(name=name) for name in "abc")
    assert FallbackChatModel(FallbackChatModel(a, b), c).members == (a, b, c)


def test_its_capabilities_are_those_that_all_members_have() -> None:
    both = Capabilities(json_schema=True, tools=True, json_mode=True, strict_schema=True, profile="gemini")
    one = Capabilities(json_schema=True, tools=False, json_mode=True, constrained=True)
    model = FallbackChatModel(member(capabilities=both), member(capabilities=one))
    assert model.capabilities == Capabilities(json_schema=True, json_mode=True, profile="gemini")


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ({"requires_strict": True}, {}, {"requires_strict": True}),
        ({"image_output": True}, {"image_output": True}, {"image_output": True}),
        ({"image_output": True}, {}, {}),
        ({"schema_with_tools": False}, {}, {"schema_with_tools": False}),
        ({"continues_replies": True}, {"continues_replies": True}, {"continues_replies": True}),
        ({"logprobs": 5}, {"logprobs": 20}, {"logprobs": 5}),
        ({"decisions": DecisionLimits()}, {}, {}),
        (
            {"decisions": DecisionLimits(options=5)},
            {"decisions": DecisionLimits(questions=1)},
            {"decisions": DecisionLimits(questions=1, options=5)},
        ),
    ],
)
def test_a_request_fits_all_members(one: Any, other: Any, both: Any) -> None:
    model = FallbackChatModel(*(member(capabilities=Capabilities(**fields)) for fields in (one, other)))
    assert model.capabilities == Capabilities(**both)


def test_each_field_of_capabilities_has_a_rule_for_several_models() -> None:
    assert [*COMMON] == [field.name for field in fields(Capabilities)]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nope:x", "the model 'nope:x' is unknown: write PROVIDER:NAME"),
        (
            5,
            "int is not a ChatModel; pass one. It needs name, capabilities, complete, acomplete, stream and "
            "astream",
        ),
        (ScriptedChatModel, "ScriptedChatModel is a class; pass an object of it"),
    ],
)
def test_an_argument_that_is_not_a_model_is_a_definition_error(model: Any, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        FallbackChatModel(member(), model)
    assert str(caught.value).startswith(f"FallbackChatModel: {message}")


class BreakingModel:
    """A model whose stream yields one piece and then fails."""

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
def test_a_stream_that_breaks_after_its_first_piece_is_not_repeated(kind: str) -> None:
    """The caller would get the pieces of two replies."""
    other = member("whole")
    with pytest.raises(ModelError, match=r"^broken$"):
        KINDS[kind](FallbackChatModel(BreakingModel(), other))
    assert other.requests == []


class EndlessModel(BreakingModel):
    """A model with an endless stream that counts the open requests."""

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
    model = EndlessModel()
    # This reference keeps the stream alive, so that garbage collection cannot close it.
    stream = model.stream(REQUEST)
    model.stream = lambda request: stream  # type: ignore[method-assign]
    deltas = FallbackChatModel(model).stream(REQUEST)
    assert next(deltas) == ReplyDelta("more")
    deltas.close()
    assert model.open == 0


def test_closing_an_async_stream_ends_the_request_at_once() -> None:
    model = EndlessModel()

    async def begin_and_close() -> int:
        deltas = FallbackChatModel(model).astream(REQUEST)
        assert await anext(deltas) == ReplyDelta("more")
        await deltas.aclose()
        return model.open

    assert asyncio.run(begin_and_close()) == 0


class IteratorModel(BreakingModel):
    """A model whose streams are iterators without a close method."""

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
    assert KINDS[kind](FallbackChatModel(IteratorModel())).text == "a"
