"""Waiting for a place at a model is not time of a call or of a row, wherever the limit was given."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import pytest
from virtual_time import virtual_time

from aiservices import (
    AiMessage,
    Budget,
    BudgetExceededError,
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
    FallbackChatModel,
    LimitedChatModel,
    Limits,
    RateLimitError,
    ScriptedChatModel,
    Stream,
    ToolCall,
    create,
    tool,
    user_message,
)
from aiservices.models.messages import ReplyDelta
from aiservices.rows import map_rows
from aiservices.rows.row import map_method
from aiservices.structured_model import structured

ONE_PLACE = Limits(max_concurrency=1)
ANSWER = ChatReply(AiMessage("fine"))


class Slow(ScriptedChatModel):
    """A model that needs 0.1 seconds for a reply, and notes how many requests it gets at once."""

    seconds = 0.1

    def __init__(self, *, max_concurrency: int | None = None) -> None:
        super().__init__([], capabilities=Capabilities(max_concurrency=max_concurrency))
        self.in_flight = self.most_in_flight = 0

    def _enter(self) -> None:
        self.in_flight += 1
        self.most_in_flight = max(self.in_flight, self.most_in_flight)

    def complete(self, request: ChatRequest) -> ChatReply:
        self._enter()
        time.sleep(self.seconds)
        self.in_flight -= 1
        return ANSWER

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        self._enter()
        await asyncio.sleep(self.seconds)
        self.in_flight -= 1
        return ANSWER

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        yield ReplyDelta("fi")
        yield ReplyDelta("ne")
        yield ReplyDelta(reply=self.complete(request))

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        yield ReplyDelta("fi")
        yield ReplyDelta("ne")
        yield ReplyDelta(reply=await self.acomplete(request))


class Blocking(Protocol):
    @user_message("{{text}}")
    def label(self, text: str) -> str: ...


class Async(Protocol):
    @user_message("{{text}}")
    async def label(self, text: str) -> str: ...


class Streamed(Protocol):
    @user_message("{{text}}")
    def label(self, text: str) -> Stream[str]: ...


# Where the limit may be given: a function of the model returns the model and the settings of the service.
PLACES: dict[str, Callable[[], tuple[ChatModel, dict[str, Any]]]] = {
    "a capability": lambda: (Slow(max_concurrency=1), {}),
    "a capability of a member": lambda: (FallbackChatModel(Slow(max_concurrency=1), Slow()), {}),
    "LimitedChatModel": lambda: (LimitedChatModel(Slow(), ONE_PLACE), {}),
    "two limits around one model": lambda: (
        LimitedChatModel(LimitedChatModel(Slow(max_concurrency=1), ONE_PLACE), ONE_PLACE),
        {"limits": Limits(max_concurrency=2)},
    ),
    "the service": lambda: (Slow(), {"limits": ONE_PLACE}),
    "a rate": lambda: (Slow(), {"limits": Limits(requests_per_minute=600)}),
}


# In real time, all requests together need longer than the limit, and one far less, also on a busy machine.
TEXTS = [str(number) for number in range(16)]
LIMIT = 1.2


def test_waiting_does_not_count_for_a_blocking_call() -> None:
    model, settings = PLACES["a capability of a member"]()
    desk = create(Blocking, model, budget=Budget(seconds=LIMIT), **settings)
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(desk.label, TEXTS)) == ["fine"] * 16


@pytest.mark.parametrize("place", PLACES)
def test_waiting_does_not_count_for_an_async_call(place: str) -> None:
    model, settings = PLACES[place]()
    desk = create(Async, model, budget=Budget(seconds=0.3), **settings)

    async def calls() -> list[str]:
        return await asyncio.gather(*map(desk.label, "abcde"))

    with virtual_time() as clock:
        assert clock.run(calls()) == ["fine"] * 5


def test_waiting_does_not_count_for_a_stream() -> None:
    model, settings = PLACES["LimitedChatModel"]()
    desk = create(Streamed, model, budget=Budget(seconds=LIMIT), **settings)
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda text: desk.label(text).result().value, TEXTS)) == ["fine"] * 16


def test_waiting_does_not_count_for_a_row() -> None:
    model, settings = PLACES["LimitedChatModel"]()
    desk = create(Async, model, **settings)
    rows = [{"text": text} for text in TEXTS]
    answers = [row.value for row in map_rows(desk.label, rows, row_timeout=LIMIT, max_concurrency=64)]
    assert answers == ["fine"] * 16


def test_rows_wait_for_the_rate_that_map_rows_was_given() -> None:
    desk = create(Async, Slow())
    rows = [{"text": text} for text in TEXTS]
    limits = Limits(requests_per_minute=600)
    answers = [row.value for row in map_rows(desk.label, rows, row_timeout=LIMIT, limits=limits)]
    assert answers == ["fine"] * 16


def test_rows_are_processed_as_many_at_a_time_as_the_model_answers() -> None:
    desk = map_method(create(Async, Slow(max_concurrency=3)).label, {}, text_only=False)
    assert desk.concurrency(None, None) == 3
    assert desk.concurrency(None, Limits(max_concurrency=2)) == 2
    assert desk.concurrency(5, None) == 5
    limited = create(Async, FallbackChatModel(Slow(), Slow()), limits=ONE_PLACE)
    assert map_method(limited.label, {}, text_only=False).concurrency(None, None) == 1
    assert map_method(create(Async, Slow()).label, {}, text_only=False).concurrency(None, None) == 64


def test_a_model_gets_no_more_requests_at_once_than_it_answers() -> None:
    for count in (1, 3):
        model = Slow(max_concurrency=count)
        desk, typed = create(Async, model), structured(model, str)

        async def calls(desk: Async = desk, typed: Any = typed) -> None:
            await asyncio.gather(*map(desk.label, "abcde"), *map(typed.ainvoke, "abcde"))

        with virtual_time() as clock:
            clock.run(calls())
        assert model.most_in_flight == count


def test_a_reply_that_takes_too_long_ends_the_call_after_a_wait_too() -> None:
    model = Slow(max_concurrency=1)
    desk = create(Async, model, budget=Budget(seconds=0.3))

    async def calls() -> list[Any]:
        first = asyncio.create_task(desk.label("a"))
        await asyncio.sleep(0)
        model.seconds = 5.0
        started_at = time.monotonic()
        second = await asyncio.gather(desk.label("b"), return_exceptions=True)
        return [await first, second[0], time.monotonic() - started_at]

    with virtual_time() as clock:
        first, second, seconds = clock.run(calls())
    assert first == "fine"
    assert isinstance(second, BudgetExceededError)
    passed = "0.3 of 0.3 seconds passed, after 0.1 in a queue"
    assert str(second) == f"budget exceeded: {passed}; raise Budget(seconds=…)"
    assert 0.35 < seconds < 0.5


@pytest.mark.parametrize("is_async", [True, False])
def test_waiting_of_an_inner_call_does_not_count_for_the_call_whose_tool_makes_it(is_async: bool) -> None:
    model = Slow(max_concurrency=1)
    model.seconds = 0.3
    inner = create(Blocking, model)

    @tool
    def look(text: str) -> str:
        """Look."""
        return inner.label(text)

    asks = AiMessage("", (ToolCall("1", "look", '{"text": "a"}'),))
    outer_model = ScriptedChatModel([ChatReply(asks), "done"])
    busy = threading.Thread(target=lambda: [inner.label(str(number)) for number in range(4)])
    busy.start()
    time.sleep(0.02)
    try:
        if is_async:
            desk = create(Async, outer_model, tools=[look], budget=Budget(seconds=1.0))
            assert asyncio.run(desk.label("x")) == "done"
        else:
            other = create(Blocking, outer_model, tools=[look], budget=Budget(seconds=1.0))
            assert other.label("x") == "done"
    finally:
        busy.join()


class Refusing(ScriptedChatModel):
    """A model that asks to send each request again at once."""

    def __init__(self, retry_after: float | None, status: int) -> None:
        super().__init__([])
        self.sent: list[float] = []
        self._retry_after = retry_after
        self._status = status

    def complete(self, request: ChatRequest) -> ChatReply:
        self.sent.append(time.monotonic())
        raise RateLimitError("no", status=self._status, retryable=True, retry_after=self._retry_after)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        await asyncio.sleep(0.001)
        return self.complete(request)


@pytest.mark.parametrize("status", [429, 503, 529])
@pytest.mark.parametrize("retry_after", [0.0, 0.001, -1.0, None])
def test_a_server_that_asks_to_send_at_once_gets_few_requests_until_max_wait(
    retry_after: float | None, status: int
) -> None:
    model = Refusing(retry_after, status)
    limited = LimitedChatModel(model, Limits(max_wait=10))

    async def calls() -> None:
        outcomes = await asyncio.gather(
            *(limited.acomplete(ChatRequest.of("x")) for _ in range(8)), return_exceptions=True
        )
        assert {type(one) for one in outcomes} == {RateLimitError}

    with virtual_time() as clock:
        started_at = clock.now
        clock.run(calls())
        assert clock.now - started_at < 11
    assert len(model.sent) < 100


def test_a_call_pauses_before_it_sends_again_what_the_server_wants_at_once() -> None:
    model = Refusing(0.0, 429)
    with virtual_time(), pytest.raises(RateLimitError):
        create(Blocking, model).label("x")
    pauses = [later - earlier for earlier, later in zip(model.sent, model.sent[1:], strict=False)]
    assert len(pauses) == 2
    assert min(pauses) >= 0.09
