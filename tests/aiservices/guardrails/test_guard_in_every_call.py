"""Guards work in every kind of call; streams show nothing that is rewritten or refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from aiservices import (
    AsyncStream,
    AttemptStarted,
    ModelServerError,
    ReplyDelta,
    ScriptedChatModel,
    Stream,
    create,
)
from aiservices.guardrails import (
    GuardrailError,
    InputGuardrails,
    OutputGuardrails,
    forbidden,
    masked,
    reprompt,
    retry,
)


@dataclass
class Note:
    text: str


class Kinds(Protocol):
    def blocking(self, about: str) -> list[Note]: ...

    async def asynchronous(self, about: str) -> list[Note]: ...

    def items(self, about: str) -> Iterator[Note]: ...

    def aitems(self, about: str) -> AsyncIterator[Note]: ...

    def growing(self, about: str) -> Stream[list[Note]]: ...

    def agrowing(self, about: str) -> AsyncStream[list[Note]]: ...

    def texts(self, about: str) -> Iterator[str]: ...

    def atexts(self, about: str) -> AsyncIterator[str]: ...


class AsyncKinds(Protocol):
    async def asynchronous(self, about: str) -> list[Note]: ...

    def aitems(self, about: str) -> AsyncIterator[Note]: ...

    def agrowing(self, about: str) -> AsyncStream[list[Note]]: ...

    def atexts(self, about: str) -> AsyncIterator[str]: ...


async def gathered(pieces: AsyncIterator[Any]) -> list[Any]:
    return [piece async for piece in pieces]


async def agrown(stream: AsyncStream[Any]) -> list[Any]:
    return [event async for event in stream.events()]


# Each function returns everything that a caller gets.
TYPED: dict[str, Callable[[Kinds], list[Any]]] = {
    "blocking": lambda kinds: [kinds.blocking("x")],
    "async": lambda kinds: [asyncio.run(kinds.asynchronous("x"))],
    "Iterator[Item]": lambda kinds: list(kinds.items("x")),
    "AsyncIterator[Item]": lambda kinds: asyncio.run(gathered(kinds.aitems("x"))),
    "Stream": lambda kinds: list(kinds.growing("x").events()),
    "AsyncStream": lambda kinds: asyncio.run(agrown(kinds.agrowing("x"))),
}
TEXT: dict[str, Callable[[Kinds], list[Any]]] = {
    "Iterator[str]": lambda kinds: list(kinds.texts("x")),
    "AsyncIterator[str]": lambda kinds: asyncio.run(gathered(kinds.atexts("x"))),
}
CALLS = {**TYPED, **TEXT}
REPLY = '{"value": [{"text": "the SECRET plan"}, {"text": "tea"}]}'
GOOD = '{"value": [{"text": "tea"}]}'
every_kind = pytest.mark.parametrize("kind", CALLS)


def values_of(kind: str, handed: list[Any]) -> Any:
    """Make a call of one kind, such as blocking or streaming, and return its final value."""
    if "Stream" in kind:
        return handed[-1].result.value
    return handed[0] if kind in ("blocking", "async") else handed


@every_kind
def test_the_text_before_a_rewrite_is_never_shown(kind: str) -> None:
    kinds = create(Kinds, ScriptedChatModel([REPLY]), interceptors=[OutputGuardrails(masked("SECRET"))])
    handed = CALLS[kind](kinds)
    streamed_events = [event for event in handed if not hasattr(event, "result")]
    assert "SECRET" not in repr(streamed_events)
    assert not any(isinstance(event, ReplyDelta) for event in handed)
    expected: Any = [Note("the *** plan"), Note("tea")]
    assert values_of(kind, handed) == ([REPLY.replace("SECRET", "***")] if kind in TEXT else expected)


@every_kind
def test_nothing_of_a_refused_answer_is_shown(kind: str) -> None:
    guards = OutputGuardrails(forbidden("secret"))
    kinds = create(Kinds, ScriptedChatModel([REPLY]), interceptors=[guards])
    with pytest.raises(GuardrailError) as caught:
        CALLS[kind](kinds)
    where = caught.value.qualname
    assert (str(caught.value), len(caught.value.attempts)) == (
        f"{where}: the output guard forbidden refused: the text contains 'SECRET', which is forbidden",
        1,
    )


@pytest.mark.parametrize("pieces", [Kinds.items, Kinds.texts, Kinds.growing])
def test_a_refused_stream_yields_nothing(pieces: Any) -> None:
    kinds = create(Kinds, ScriptedChatModel([REPLY]), interceptors=[OutputGuardrails(forbidden("secret"))])
    seen: list[Any] = []
    with pytest.raises(GuardrailError):
        seen.extend(getattr(kinds, pieces.__name__)("x"))
    assert seen == []


def test_a_refused_stream_only_emits_that_the_attempt_started() -> None:
    kinds = create(Kinds, ScriptedChatModel([REPLY]), interceptors=[OutputGuardrails(forbidden("secret"))])
    stream, events = kinds.growing("x"), []
    with pytest.raises(GuardrailError):
        events.extend(stream.events())
    assert ([type(event) for event in events], stream.snapshot.value) == ([AttemptStarted], None)


@every_kind
def test_an_answer_is_requested_again_until_it_passes(kind: str) -> None:
    model = ScriptedChatModel([REPLY, GOOD])
    guards = OutputGuardrails(forbidden("secret", otherwise=reprompt))
    handed = CALLS[kind](create(Kinds, model, interceptors=[guards]))
    assert values_of(kind, handed) == ([GOOD] if kind in TEXT else [Note("tea")])
    assert [(type(message).__name__, message.text) for message in model.requests[1].messages[1:]] == [
        ("AiMessage", REPLY),
        ("UserMessage", "the text contains 'SECRET', which is forbidden"),
    ]


@every_kind
def test_a_model_that_fails_when_it_is_asked_again_ends_the_call(kind: str) -> None:
    model = ScriptedChatModel([REPLY, ModelServerError("500")])
    guards = OutputGuardrails(forbidden("secret", otherwise=reprompt))
    with pytest.raises(ModelServerError) as caught:
        CALLS[kind](create(Kinds, model, interceptors=[guards]))
    assert str(caught.value) == "500"
    assert [(attempt.text, attempt.error) for attempt in caught.value.attempts] == [
        (REPLY, None),
        ("", caught.value),
    ]


@every_kind
def test_input_guards_refuse_before_the_model_is_called(kind: str) -> None:
    model = ScriptedChatModel([])
    kinds = create(Kinds, model, interceptors=[InputGuardrails(forbidden("x"))])
    with pytest.raises(GuardrailError, match="the input guard forbidden refused: the text contains 'x'"):
        CALLS[kind](kinds)
    assert model.requests == []


@every_kind
def test_input_guards_rewrite_the_user_message(kind: str) -> None:
    model = ScriptedChatModel([GOOD])
    handed = CALLS[kind](create(Kinds, model, interceptors=[InputGuardrails(masked("x", by="y"))]))
    assert model.requests[0].messages[0].text == "y"
    assert values_of(kind, handed) == (handed if kind in TEXT else [Note("tea")])


def test_input_guards_do_not_hold_back_streams() -> None:
    kinds = create(Kinds, ScriptedChatModel(["to be"]), interceptors=[InputGuardrails(masked("secret"))])
    assert list(kinds.texts("x")) == ["to ", "be"]


@every_kind
def test_a_retry_repeats_the_same_request(kind: str) -> None:
    model = ScriptedChatModel([REPLY, GOOD])
    guards = OutputGuardrails(forbidden("secret", otherwise=retry))
    handed = CALLS[kind](create(Kinds, model, interceptors=[guards]))
    assert values_of(kind, handed) == ([GOOD] if kind in TEXT else [Note("tea")])
    assert model.requests[0] == model.requests[1]


@pytest.mark.parametrize("kind", ["async", "AsyncIterator[Item]", "AsyncStream", "AsyncIterator[str]"])
def test_a_guard_may_be_async_in_async_calls(kind: str) -> None:
    async def hide(text: str, invocation: Any) -> Any:
        await asyncio.sleep(0)
        return masked("SECRET")(text, invocation)

    guards = [InputGuardrails(hide), OutputGuardrails(hide)]
    service: Any = create(AsyncKinds, ScriptedChatModel([REPLY]), interceptors=guards)
    handed = CALLS[kind](service)
    expected: Any = [Note("the *** plan"), Note("tea")]
    assert values_of(kind, handed) == ([REPLY.replace("SECRET", "***")] if kind in TEXT else expected)


@pytest.mark.parametrize("kind", ["blocking", "Iterator[Item]", "Stream", "Iterator[str]"])
def test_a_guard_that_returns_an_awaitable_is_an_error_in_blocking_calls(kind: str) -> None:
    async def later() -> Any:
        raise NotImplementedError

    def hide(text: str, invocation: Any) -> Any:
        return later()

    kinds = create(Kinds, ScriptedChatModel([REPLY]), interceptors=[OutputGuardrails(hide)])
    with pytest.raises(GuardrailError) as caught:
        CALLS[kind](kinds)
    assert str(caught.value).partition(": ")[2] == (
        "the output guard hide failed: TypeError: hide is async and cannot run in a blocking call: "
        "use async def"
    )
