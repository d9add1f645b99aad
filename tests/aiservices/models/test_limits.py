"""LimitedChatModel stays within the limits of the user, and finds out those of the server."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import pytest
from virtual_time import VirtualTime, virtual_time

from aiservices import (
    AiMessage,
    Budget,
    ChatModel,
    ChatReply,
    ChatRequest,
    DefinitionError,
    FallbackChatModel,
    LimitedChatModel,
    Limits,
    ModelTimeoutError,
    OpenAiChatModel,
    RateLimitError,
    ScriptedChatModel,
    create,
    user_message,
)
from aiservices.models.limits import Limiter, limiter_for
from aiservices.models.messages import ReplyDelta

HELLO = ChatRequest.of("Hello")
ANTHROPIC = "anthropic-ratelimit-requests"
HI = ChatReply(AiMessage("Hi"))


@pytest.fixture
def clock() -> Iterator[VirtualTime]:
    with virtual_time() as clock:
        yield clock


class Server(ScriptedChatModel):
    """A model whose server accepts a request only if ``accepts`` says so, and answers after a delay."""

    def __init__(
        self, accepts: Callable[[Server], bool], *, delay: float = 0.02, retry_after: float | None = None
    ) -> None:
        super().__init__([])
        self.in_flight = self.most_in_flight = self.refused = 0
        self.accepted: list[float] = []
        self._accepts = accepts
        self._delay = delay
        self._retry_after = retry_after
        self._lock = threading.Lock()
        self._random = random.Random(1)

    def _enter(self) -> None:
        with self._lock:
            self.in_flight += 1
            self.most_in_flight = max(self.in_flight, self.most_in_flight)
            if not self._accepts(self):
                self.refused += 1
                self.in_flight -= 1
                raise RateLimitError("slow down", status=429, retryable=True, retry_after=self._retry_after)
            self.accepted.append(time.monotonic())

    def complete(self, request: ChatRequest) -> ChatReply:
        self._enter()
        time.sleep(self._delay)
        self.in_flight -= 1
        return HI

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        self._enter()
        await asyncio.sleep(self._delay * self._random.uniform(0.8, 1.2))
        self.in_flight -= 1
        return HI

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        self._enter()
        try:
            for piece in "Hi":
                await asyncio.sleep(self._delay)
                yield ReplyDelta(piece)
            yield ReplyDelta(reply=HI)
        finally:
            self.in_flight -= 1


class Bucket:
    """A server's limit per time: it refills evenly, and holds some requests for bursts."""

    def __init__(self, per_second: float, burst: float = 5) -> None:
        self.per_second, self.burst = per_second, burst
        self._left, self._at = burst, time.monotonic()

    def __call__(self, server: Server) -> bool:
        now = time.monotonic()
        self._left = min(self.burst, self._left + (now - self._at) * self.per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Window:
    """A server's limit per window of time; windows start at fixed times."""

    def __init__(self, requests: int, seconds: float) -> None:
        self._requests, self._seconds = requests, seconds
        self._started_at, self._count = time.monotonic(), 0

    def __call__(self, server: Server) -> bool:
        now = time.monotonic()
        if now - self._started_at > self._seconds:
            self._started_at, self._count = now, 0
        self._count += 1
        return self._count <= self._requests


async def ask_for(seconds: float, model: ChatModel, workers: int = 32) -> None:
    end = time.monotonic() + seconds

    async def work() -> None:
        while time.monotonic() < end:
            await model.acomplete(HELLO)

    await asyncio.gather(*(work() for _ in range(workers)))


def measure(clock: VirtualTime, server: Server, seconds: float, since: float) -> tuple[float, float]:
    """Return the accepted requests per second after the time for learning, and the share that was refused."""
    start = time.monotonic()
    limited = LimitedChatModel(server)

    async def run() -> int:
        await ask_for(since, limited)
        refused = server.refused
        await ask_for(seconds - since, limited)
        return server.refused - refused

    refused = clock.run(run())
    accepted = [one for one in server.accepted if start + since <= one <= start + seconds]
    return len(accepted) / (seconds - since), refused / (refused + len(accepted))


@pytest.mark.parametrize("retry_after", [None, 0.1])
def test_a_limit_per_time_is_found(clock: VirtualTime, retry_after: float | None) -> None:
    rate, refused = measure(clock, Server(Bucket(100), retry_after=retry_after), 9.0, 6.0)
    assert 75 <= rate <= 105
    assert refused < 0.05


def test_a_limit_per_window_is_found(clock: VirtualTime) -> None:
    rate, refused = measure(clock, Server(Window(100, 1.0)), 9.0, 6.0)
    assert 70 <= rate <= 102
    assert refused < 0.06


def test_a_limit_of_requests_in_flight_is_found(clock: VirtualTime) -> None:
    server = Server(lambda one: one.in_flight <= 10)
    rate, refused = measure(clock, server, 3.0, 1.0)
    assert rate >= 0.75 * 10 / 0.022
    assert refused < 0.02


def test_without_a_limit_the_requests_in_flight_grow(clock: VirtualTime) -> None:
    server = Server(lambda one: True)
    limited = LimitedChatModel(server)

    async def run() -> None:
        async with asyncio.timeout(20):
            while server.most_in_flight < 100:
                await ask_for(0.5, limited, workers=100)

    clock.run(run())
    assert server.refused == 0


def test_a_limit_that_changes_is_followed(clock: VirtualTime) -> None:
    bucket = Bucket(150)
    server = Server(bucket)
    limited = LimitedChatModel(server)

    async def run() -> tuple[int, int]:
        await ask_for(2.0, limited)
        bucket.per_second = 50
        await ask_for(1.5, limited)
        accepted, refused = len(server.accepted), server.refused
        await ask_for(2.0, limited)
        return len(server.accepted) - accepted, server.refused - refused

    accepted, refused = clock.run(run())
    assert accepted >= 60
    assert refused <= 12


def test_an_outage_does_not_slow_down_for_long(clock: VirtualTime) -> None:
    began = time.monotonic()
    server = Server(lambda one: not 1.0 < time.monotonic() - began < 1.5)
    limited = LimitedChatModel(server)

    async def run() -> int:
        await ask_for(2.5, limited, workers=20)
        accepted = len(server.accepted)
        await ask_for(1.0, limited, workers=20)
        return len(server.accepted) - accepted

    assert clock.run(run()) > 200
    assert server.refused < 80


def test_the_limits_of_the_user_are_kept(clock: VirtualTime) -> None:
    server = Server(lambda one: True, delay=0.001)
    limited = LimitedChatModel(server, Limits(requests_per_minute=1200))
    began = time.monotonic()
    clock.run(ask_for(1.5, limited))
    assert len(server.accepted) <= 20 * (time.monotonic() - began) + 3
    assert len(server.accepted) >= 22
    few = Server(lambda one: True)
    clock.run(ask_for(0.3, LimitedChatModel(few, Limits(max_concurrency=3))))
    assert few.most_in_flight == 3


def test_tokens_per_minute_are_kept_by_the_usage_of_replies(clock: VirtualTime) -> None:
    model = ScriptedChatModel(lambda request: "word " * 100)  # about 125 tokens
    limited = LimitedChatModel(model, Limits(tokens_per_minute=60_000))  # 1,000 in a second

    async def run() -> int:
        replies = [await limited.acomplete(HELLO) for _ in range(120)]
        return sum(reply.usage.total_tokens for reply in replies if reply.usage is not None)

    began = time.monotonic()
    used = clock.run(run())
    assert 900 < used / (time.monotonic() - began) < 1_050


def test_blocking_calls_and_several_event_loops_share_the_limits() -> None:
    server = Server(lambda one: True)
    models = [LimitedChatModel(server, Limits(max_concurrency=4)) for _ in range(3)]

    def block() -> None:
        for _ in range(5):
            models[0].complete(HELLO)

    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(block) for _ in range(4)]
        jobs += [pool.submit(lambda one=one: asyncio.run(ask_for(0.2, one, 5))) for one in models[1:]]  # type: ignore[misc]
        for job in jobs:
            job.result()
    assert server.most_in_flight == 4
    assert limiter_for(server).in_flight == 0


def test_a_refused_request_is_sent_again_without_using_an_attempt() -> None:
    replies: list[Any] = [RateLimitError("slow", status=429, retryable=True, retry_after=0.01)] * 4 + ["Hi"]

    class Greeter(Protocol):
        @user_message("Greet")
        def greet(self) -> str: ...

    model = ScriptedChatModel(replies)
    greeter = create(Greeter, model, budget=Budget(max_attempts=1), limits=Limits())
    assert greeter.greet() == "Hi"
    assert len(model.requests) == 5


def test_a_used_up_quota_and_other_errors_are_raised_at_once() -> None:
    quota = RateLimitError("insufficient_quota", status=429, retryable=False)
    model = ScriptedChatModel([quota, "Hi"])
    with pytest.raises(RateLimitError, match="insufficient_quota"):
        LimitedChatModel(model).complete(HELLO)
    assert len(model.requests) == 1


def test_the_error_is_raised_when_the_time_is_up() -> None:
    server = Server(lambda one: False)
    limited = LimitedChatModel(server, Limits(max_wait=0.3))
    with pytest.raises(RateLimitError, match=r"slow down; waited 0\.\d seconds for its turn"):
        limited.complete(HELLO)
    slow = LimitedChatModel(Server(lambda one: True), Limits(requests_per_minute=1, max_wait=0.1))
    slow.complete(HELLO)
    with pytest.raises(ModelTimeoutError, match=r"the limits did not allow the request within 0\.1 seconds"):
        slow.complete(HELLO)


def test_a_cancelled_call_gives_its_place_to_the_next(clock: VirtualTime) -> None:
    server = Server(lambda one: True, delay=0.05)
    limited = LimitedChatModel(server, Limits(max_concurrency=1))

    async def run() -> None:
        running = asyncio.create_task(limited.acomplete(HELLO))
        waiting = [asyncio.create_task(limited.acomplete(HELLO)) for _ in range(3)]
        await asyncio.sleep(0.01)
        running.cancel()
        waiting[0].cancel()
        await asyncio.gather(running, *waiting, return_exceptions=True)

    clock.run(asyncio.wait_for(run(), 5))
    assert limiter_for(server).in_flight == 0
    assert len(server.accepted) == 3


def test_a_stream_holds_its_place_until_its_end(clock: VirtualTime) -> None:
    server = Server(lambda one: True)
    limited = LimitedChatModel(server, Limits(max_concurrency=1))

    async def read() -> str:
        return "".join([delta.text async for delta in limited.astream(HELLO)])

    async def run() -> list[str]:
        return await asyncio.gather(*(read() for _ in range(4)))

    assert clock.run(run()) == ["Hi"] * 4
    assert server.most_in_flight == 1
    model = ScriptedChatModel(["Hello"])
    blocking = LimitedChatModel(model)
    next(blocking.stream(HELLO))
    assert limiter_for(model).in_flight == 0  # the generator was closed


def test_each_member_of_a_fallback_model_has_its_own_limiter() -> None:
    first, second = ScriptedChatModel(["a"]), ScriptedChatModel(["b"])
    limited = LimitedChatModel(FallbackChatModel(first, second, unsure=0.9), Limits(max_concurrency=2))
    assert [type(member) for member in limited.members] == [LimitedChatModel] * 2
    assert limited.unsure == 0.9
    assert limiter_for(first) is not limiter_for(second)


def test_more_limits_leave_those_that_a_model_has() -> None:
    own, further = Limits(requests_per_minute=7, max_concurrency=2), Limits(max_concurrency=5)
    first, second = (LimitedChatModel(ScriptedChatModel(["a"]), own) for _ in range(2))
    limited = LimitedChatModel(FallbackChatModel(first, second), further)
    for model in (LimitedChatModel(first, further), *limited.members):
        assert isinstance(model, LimitedChatModel)
        assert model.capabilities.max_concurrency == 2
        assert model.limiter._bounds == [own, further]


def test_models_with_the_same_address_and_key_share_a_limiter() -> None:
    def model(key: str, url: str = "http://127.0.0.1:9/v1") -> OpenAiChatModel:
        return OpenAiChatModel("m", base_url=url, api_key=key)

    assert limiter_for(model("key-one")) is limiter_for(model("key-one"))
    assert limiter_for(model("key-one")) is not limiter_for(model("key-two"))
    assert limiter_for(model("key-one")) is not limiter_for(model("key-one", "http://127.0.0.1:8/v1"))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "200ms"}, 0.2),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m0.5s"}, 60.5),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "1m0s"}, 0),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2020-01-01T00:00:00Z",
            },
            0,
        ),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}, 0),
    ],
)
def test_rate_limit_headers_are_obeyed(headers: dict[str, str], seconds: float) -> None:
    limiter = Limiter()
    before = time.monotonic()
    limiter.read_headers(headers)
    after = time.monotonic()
    if seconds:
        assert before + seconds - 0.01 <= limiter._capacity.pause_until <= after + seconds + 0.01
    else:
        assert limiter._capacity.pause_until <= after


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"requests_per_minute": 0}, "Limits: requests_per_minute is 0; it must be greater than 0"),
        ({"max_concurrency": 1.5}, "Limits: max_concurrency is 1.5; it must be a whole number"),
        ({"max_wait": None}, "Limits: max_wait is None; it must be a number"),
    ],
)
def test_wrong_limits_are_refused(settings: Any, expected: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Limits(**settings)
    assert str(caught.value) == expected
    with pytest.raises(DefinitionError, match="limits is int; pass Limits"):
        LimitedChatModel(ScriptedChatModel([]), 3)  # type: ignore[arg-type]
