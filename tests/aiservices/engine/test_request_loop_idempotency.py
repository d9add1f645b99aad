"""A request that is sent again because no reply arrived has the same idempotency key, and no other has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, Protocol

import pytest
from loopback import Loopback, answer, error, reset_reply, stream_reply

from aiservices import (
    AsyncStream,
    Budget,
    Decision,
    LimitedChatModel,
    OpenAiChatModel,
    ResponseCache,
    Retry,
    Stream,
    create,
    user_message,
)
from aiservices.models.presets import PRESETS, Preset

KEY = "idempotency-key"
ONCE = Budget(max_attempts=4, first_wait=0.0)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, loopback: Loopback) -> Iterator[OpenAiChatModel]:
    monkeypatch.setitem(PRESETS, "careful", Preset(base_url="", idempotency_header="Idempotency-Key"))
    with OpenAiChatModel("m", provider="careful", base_url=loopback.base_url, api_key="k") as made:
        yield made


class Desk(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> int: ...

    @user_message("{{text}}")
    async def aask(self, text: str) -> int: ...

    @user_message("{{text}}")
    def stream(self, text: str) -> Stream[int]: ...

    @user_message("{{text}}")
    def astream(self, text: str) -> AsyncStream[int]: ...

    @user_message("{{text}}")
    def chooses(self, text: str) -> Decision[Literal["a", "b"]]: ...


async def _aresult(stream: AsyncStream[int]) -> int:
    return (await stream.result()).value


KINDS: dict[str, Callable[[Desk], int]] = {
    "blocking": lambda desk: desk.ask("x"),
    "async": lambda desk: asyncio.run(desk.aask("x")),  # type: ignore[arg-type]
    "stream": lambda desk: desk.stream("x").result().value,
    "async stream": lambda desk: asyncio.run(_aresult(desk.astream("x"))),
}


def keys(loopback: Loopback) -> list[str | None]:
    return [request.headers.get(KEY) for request in loopback.requests]


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_request_has_the_same_key_and_other_calls_have_others(
    kind: str, model: OpenAiChatModel, loopback: Loopback
) -> None:
    good = stream_reply(["4", "2"]) if "stream" in kind else answer("42")
    loopback.reply(error(503, "no"), reset_reply(), good, error(500, "no"), good)
    desk = create(Desk, model, budget=ONCE)
    assert [KINDS[kind](desk), KINDS[kind](desk)] == [42, 42]
    first, second = keys(loopback)[:3], keys(loopback)[3:]
    assert len(set(first)) == len(set(second)) == 1
    assert first[0]
    assert second[0]
    assert first[0] != second[0]


def test_an_answer_that_is_requested_again_has_another_key(
    model: OpenAiChatModel, loopback: Loopback
) -> None:
    loopback.reply(answer("many"), answer("42"))
    assert create(Desk, model, retry=Retry()).ask("x") == 42
    assert len(set(keys(loopback))) == 2


def test_samples_of_one_request_are_not_repetitions(model: OpenAiChatModel, loopback: Loopback) -> None:
    loopback.reply(lambda request: answer('"a"'))
    create(Desk, model, votes=3).chooses("x")
    assert len(loopback.requests) >= 3
    named = [key for key in keys(loopback) if key]
    assert len(named) == len(set(named))


def test_a_limiter_repeats_the_request_with_its_key(model: OpenAiChatModel, loopback: Loopback) -> None:
    loopback.reply(error(429, "slow"), answer("42"))
    assert create(Desk, LimitedChatModel(model)).ask("x") == 42
    assert len(set(keys(loopback))) == 1
    assert keys(loopback)[0]


def test_the_key_does_not_keep_a_reply_from_the_cache(
    model: OpenAiChatModel, loopback: Loopback, tmp_path: Path
) -> None:
    loopback.reply(answer("42"))
    with ResponseCache(tmp_path / "c.sqlite") as cache:
        desk = create(Desk, model, cache=cache)
        assert [desk.ask("x"), desk.ask("x")] == [42, 42]
    assert len(loopback.requests) == 1


def test_a_service_that_takes_no_key_gets_none(loopback: Loopback) -> None:
    loopback.reply(answer("42"))
    with OpenAiChatModel("m", base_url=loopback.base_url, api_key="k") as model:
        create(Desk, model).ask("x")
    assert keys(loopback) == [None]
