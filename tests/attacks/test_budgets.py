"""Servers whose replies do not fit, call tools for ever, or report wrong token counts, against a Budget."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol, cast

import pytest
from loopback import DONE, Loopback, ReceivedRequest, Reply, Script, answer, delta, error, sse, usage_event

from aiservices import (
    AiServiceError,
    Budget,
    BudgetExceededError,
    CallCompleted,
    CallStarted,
    FallbackChatModel,
    Price,
    Result,
    Retry,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    Tool,
    ToolLimits,
    create,
    tool,
    user_message,
)
from aiservices.guardrails import InputGuardrails, OutputGuardrails
from aiservices.interceptors import Invocation, Run
from aiservices.memory import ChatMemory, InMemoryChatMemoryStore
from aiservices.models.errors import AttemptPurpose
from aiservices.models.openai import OpenAiChatModel
from aiservices.moderation import Moderation, ModerationResult
from aiservices.retrieval import RetrievalAugmentor

TOKENS_PER_REPLY = 100
USAGE = {"prompt_tokens": 60, "completion_tokens": 40}


@dataclass
class Item:
    name: str
    count: int


class Writer(Protocol):
    @user_message("List the items.")
    def whole(self) -> list[Item]: ...

    @user_message("List the items.")
    def items(self) -> Iterator[Item]: ...

    @user_message("List the items.")
    def stream(self) -> Stream[list[Item]]: ...

    @user_message("List the items.")
    def result(self) -> Result[list[Item]]: ...

    @user_message("List the items.")
    async def whole_async(self) -> list[Item]: ...

    @user_message("List the items.")
    def items_async(self) -> AsyncIterator[Item]: ...


@tool
def look_up(what: str) -> str:
    """Look something up."""
    return what


async def collect(items: AsyncIterator[Item]) -> list[Item]:
    return [item async for item in items]


CALLS: dict[str, Callable[[Writer], object]] = {
    "whole": lambda writer: writer.whole(),
    "items": lambda writer: list(writer.items()),
    "stream": lambda writer: list(writer.stream()),
    "result": lambda writer: writer.result(),
    "whole_async": lambda writer: asyncio.run(writer.whole_async()),
    "items_async": lambda writer: asyncio.run(collect(writer.items_async())),
}
ITEM_CALLS = ("items", "items_async")

BAD_ITEMS = '{"value": [{"name": "a", "count": "many"}, {"name": "b", "count": 2}]}'
GOOD_THEN_BAD = '{"value": [{"name": "a", "count": 1}, {"name": "b", "count": "many"}]}'
GOOD_ITEMS = '{"value": [{"name": "a", "count": 1}]}'
TOOL_CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"what": "x"}'}}


def is_streamed(request: ReceivedRequest) -> bool:
    return bool(request.json.get("stream"))


def text_reply(text: str, usage: dict[str, Any] | None = USAGE, *, pieces: int = 4) -> Script:
    """Return a script with a reply, streamed in small pieces if the request asks for a stream."""

    def script(request: ReceivedRequest) -> Reply:
        if not is_streamed(request):
            return answer(text, usage=usage)
        step = max(1, len(text) // pieces)
        parts = [delta(content=text[start : start + step]) for start in range(0, len(text), step)]
        counts = [] if usage is None else [usage_event(**usage)]
        return sse(*parts, delta("stop"), *counts, DONE)

    return script


def tool_reply(request: ReceivedRequest) -> Reply:
    if not is_streamed(request):
        return answer(None, usage=USAGE, finish_reason="tool_calls", tool_calls=[TOOL_CALL])
    calls = [{"index": 0, **TOOL_CALL}]
    return sse(delta(tool_calls=calls), delta("tool_calls"), usage_event(**USAGE), DONE)


def cut_off(request: ReceivedRequest) -> Reply:
    if not is_streamed(request):
        return error(503, "busy")
    return sse(delta(content='{"value": ['), cut_off=True)


def alternate(*scripts: Script) -> Callable[[], Script]:
    """Return a maker of scripts that answer the first request with the first script, and so on in circles."""

    def make() -> Script:
        count = iter(range(1_000_000))

        def script(request: ReceivedRequest) -> Reply:
            chosen = scripts[next(count) % len(scripts)]
            return chosen if isinstance(chosen, Reply) else chosen(request)

        return script

    return make


def model_of(server: Loopback, name: str = "m") -> OpenAiChatModel:
    return OpenAiChatModel(name, base_url=server.base_url, api_key="k")


def outcome(call: Callable[[Writer], object], writer: Writer) -> AiServiceError | None:
    try:
        call(writer)
    except AiServiceError as raised:
        return raised
    return None


@pytest.mark.parametrize("kind", CALLS)
def test_items_that_do_not_fit_are_not_requested_beyond_the_tokens(kind: str) -> None:
    with Loopback().reply(text_reply(BAD_ITEMS)) as server, model_of(server) as model:
        writer = create(Writer, model, budget=Budget(max_attempts=6, tokens=150))
        raised = outcome(CALLS[kind], writer)
    assert isinstance(raised, ServiceOutputError)
    assert len(server.requests) == 2
    assert raised.usage is not None
    assert raised.usage.total_tokens == 200


@pytest.mark.parametrize("kind", CALLS)
def test_items_that_do_not_fit_are_not_requested_beyond_the_money(kind: str) -> None:
    budget = Budget(max_attempts=6, money=0.15, prices={"m": Price(input=1000.0, output=1000.0)})
    with Loopback().reply(text_reply(BAD_ITEMS)) as server, model_of(server) as model:
        raised = outcome(CALLS[kind], create(Writer, model, budget=budget))
    assert isinstance(raised, ServiceOutputError)
    assert len(server.requests) == 2


@pytest.mark.parametrize("kind", ITEM_CALLS)
def test_an_item_that_does_not_fit_after_others_still_counts(kind: str) -> None:
    with Loopback().reply(text_reply(GOOD_THEN_BAD)) as server, model_of(server) as model:
        raised = outcome(CALLS[kind], create(Writer, model, budget=Budget(tokens=1000)))
    assert isinstance(raised, ServiceOutputError)
    assert raised.usage is not None
    assert raised.usage.total_tokens == TOKENS_PER_REPLY


@pytest.mark.parametrize("kind", ITEM_CALLS)
def test_a_stream_that_never_ends_after_a_bad_item_is_read_on_for_a_bounded_amount(kind: str) -> None:
    def endless(request: ReceivedRequest) -> Reply:
        text = delta(content=BAD_ITEMS)
        filler = delta(content="x" * 10_000)
        return sse(text, *[filler] * 1000, delta("stop"), usage_event(**USAGE), DONE)

    with Loopback().reply(endless) as server, model_of(server) as model:
        raised = outcome(CALLS[kind], create(Writer, model, budget=Budget(max_attempts=3, tokens=1000)))
        assert isinstance(raised, ServiceOutputError)
        assert raised.usage is None  # what was read on is estimated, but not reported as usage
        assert len(server.requests) == 1
        assert "; no further request: budget exceeded: " in str(raised)


@pytest.mark.parametrize("kind", ITEM_CALLS)
def test_a_stream_that_is_cut_off_after_a_bad_item_keeps_the_error_of_the_item(kind: str) -> None:
    def cut(request: ReceivedRequest) -> Reply:
        return sse(delta(content=BAD_ITEMS), delta(content="more"), cut_off=True)

    with Loopback().reply(cut) as server, model_of(server) as model:
        raised = outcome(CALLS[kind], create(Writer, model, budget=Budget(max_attempts=2, tokens=1000)))
    assert isinstance(raised, ServiceOutputError)
    assert "$.value[0].count" in str(raised) or "$[0].count" in str(raised)
    assert len(server.requests) == len(raised.attempts) == 2


@pytest.mark.parametrize("kind", CALLS)
def test_replies_without_usage_count_by_an_estimate(kind: str) -> None:
    # The request and the reply have more than 40 characters each, so more than 20 tokens are estimated.
    with Loopback().reply(text_reply(BAD_ITEMS, usage=None)) as server, model_of(server) as model:
        raised = outcome(CALLS[kind], create(Writer, model, budget=Budget(max_attempts=6, tokens=20)))
    assert isinstance(raised, ServiceOutputError)
    assert len(server.requests) == 1
    assert raised.usage is None


@pytest.mark.parametrize("kind", CALLS)
def test_negative_usage_counts_as_zero_and_is_logged_once(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    usage = {"prompt_tokens": -500 - list(CALLS).index(kind), "completion_tokens": 100}
    with Loopback().reply(text_reply(BAD_ITEMS, usage)) as server, model_of(server, f"n-{kind}") as model:
        writer = create(Writer, model, budget=Budget(max_attempts=6, tokens=150))
        with caplog.at_level(logging.WARNING, "aiservices"):
            raised = outcome(CALLS[kind], writer)
    assert isinstance(raised, ServiceOutputError)
    assert len(server.requests) == 2
    assert raised.usage is not None
    assert raised.usage.total_tokens == 200
    assert [record.getMessage() for record in caplog.records] == [
        f"a provider reported impossible token counts: {usage}"
    ]


def test_token_counts_that_are_texts_are_read() -> None:
    usage = {"prompt_tokens": "60", "completion_tokens": "40"}
    with Loopback().reply(text_reply(GOOD_ITEMS, usage)) as server, model_of(server, "texts") as model:
        result = create(Writer, model).result()
    assert result.value == [Item("a", 1)]
    assert result.usage.total_tokens == TOKENS_PER_REPLY


def test_more_cached_tokens_than_input_tokens_do_not_lower_the_cost() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 90,
        "prompt_tokens_details": {"cached_tokens": 1_000_000},
    }
    prices = {"m": Price(input=1000.0, output=1000.0, cached=0.0)}
    with Loopback().reply(text_reply(BAD_ITEMS, usage)) as server, model_of(server) as model:
        budget = Budget(max_attempts=6, money=0.08, prices=prices)
        assert outcome(CALLS["whole"], create(Writer, model, budget=budget)) is not None
    assert len(server.requests) == 1


BEHAVIOURS: dict[str, Callable[[], Script]] = {
    "good": alternate(text_reply(GOOD_ITEMS)),
    "bad item": alternate(text_reply(BAD_ITEMS)),
    "good, then bad item": alternate(text_reply(GOOD_THEN_BAD)),
    "tools for ever": alternate(tool_reply),
    "tools and bad items": alternate(tool_reply, text_reply(BAD_ITEMS)),
    "bad items and tools": alternate(text_reply(BAD_ITEMS), tool_reply),
    "server errors": alternate(error(503, "busy")),
    "errors and bad items": alternate(error(503, "busy"), text_reply(BAD_ITEMS)),
    "cut off": alternate(cut_off),
    "permanent error": alternate(error(401, "no")),
    "bad items in one piece": alternate(text_reply(BAD_ITEMS, pieces=1)),
}
RETRIES: dict[str, Retry | None] = {"whole": Retry(), "fields": Retry(mode="fields"), "none": None}
PRICES = {"m": Price(1000.0, 1000.0), "m2": Price(1000.0, 1000.0)}
BUDGETS = {
    "one attempt": Budget(max_attempts=1, first_wait=0.0),
    "three attempts": Budget(max_attempts=3, first_wait=0.0),
    "150 tokens": Budget(max_attempts=6, tokens=150, first_wait=0.0),
    "250 tokens": Budget(max_attempts=6, tokens=250, first_wait=0.0),
    "0.15 money": Budget(max_attempts=6, money=0.15, prices=PRICES, first_wait=0.0),
    "seconds": Budget(max_attempts=4, seconds=30, tokens=350, first_wait=0.0),
}
MAX_ROUNDS = 4
GRID = list(product(CALLS, BEHAVIOURS, RETRIES, BUDGETS, (False, True)))


def check_limits(kind: str, behaviour: str, retry: str, budget_name: str, *, has_fallback: bool) -> None:
    """Make one call, and check what arrived at the server against the budget and the error."""
    budget = BUDGETS[budget_name]
    with (
        Loopback().reply(BEHAVIOURS[behaviour]()) as server,
        model_of(server) as first,
        model_of(server, "m2") as second,
    ):
        writer = create(
            Writer,
            FallbackChatModel(first, second) if has_fallback else first,
            tools=[look_up],
            tool_limits=ToolLimits(max_rounds=MAX_ROUNDS),
            budget=budget,
            retry=RETRIES[retry],
        )
        raised = outcome(CALLS[kind], writer)
    requests = len(server.requests)
    assert requests <= budget.max_attempts + MAX_ROUNDS + 1
    if raised is None:
        assert requests >= 1
        return
    assert len(raised.attempts) == requests
    answers = [one for one in raised.attempts if one.purpose is AttemptPurpose.ANSWER]
    assert len(answers) <= budget.max_attempts
    tokens = 0 if raised.usage is None else raised.usage.total_tokens
    limit = budget.tokens if budget.money is None else 150
    if limit is not None:
        assert tokens < limit + TOKENS_PER_REPLY
    if "error" not in behaviour and behaviour != "cut off" and limit is not None:
        assert tokens == requests * TOKENS_PER_REPLY


# One in 23 covers each behaviour with each kind; 23 has no factor in common with the sizes of the grid.
@pytest.mark.parametrize(("kind", "behaviour", "retry", "budget", "has_fallback"), GRID[::23])
def test_limits_hold(kind: str, behaviour: str, retry: str, budget: str, has_fallback: bool) -> None:
    check_limits(kind, behaviour, retry, budget, has_fallback=has_fallback)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_limits_hold_in_the_whole_grid(kind: str, behaviour: str) -> None:
    for retry, budget, has_fallback in product(RETRIES, BUDGETS, (False, True)):
        check_limits(kind, behaviour, retry, budget, has_fallback=has_fallback)


def test_the_requests_of_tool_rounds_are_not_attempts() -> None:
    limits = ToolLimits(max_rounds=3)
    with Loopback().reply(tool_reply) as server, model_of(server) as model:
        writer = create(Writer, model, tools=[look_up], tool_limits=limits, budget=Budget(max_attempts=1))
        assert outcome(CALLS["whole"], writer) is not None
    assert len(server.requests) == 4  # the fourth asks for a round beyond the limit


def test_repaired_fields_and_tool_calls_in_turn_keep_the_attempts() -> None:
    script = alternate(tool_reply, text_reply(BAD_ITEMS))()
    with Loopback().reply(script) as server, model_of(server) as model:
        budget = Budget(max_attempts=5)
        writer = create(Writer, model, tools=[look_up], retry=Retry(mode="fields"), budget=budget)
        raised = outcome(CALLS["whole"], writer)
    assert isinstance(raised, ServiceOutputError)
    assert type(raised) is ServiceOutputError
    answers = [one for one in raised.attempts if one.purpose is AttemptPurpose.ANSWER]
    rounds = [one for one in raised.attempts if one.purpose is AttemptPurpose.TOOL_ROUND]
    assert len(answers) == 5
    assert len(server.requests) == len(answers) + len(rounds)


SECONDS = Budget(max_attempts=3, seconds=0.5, first_wait=8.0)
MUCH_LONGER = 8.0  # seconds that each slow part takes when nothing ends it


@tool(name="look_up")
async def slow_look_up(what: str) -> str:
    """Look something up."""
    await asyncio.sleep(MUCH_LONGER)
    return what


SLOW_PARTS: dict[str, Script] = {
    "an async tool": tool_reply,
    "the wait before a retry": error(503, "busy"),
    "a long Retry-After": error(429, "busy", headers={"retry-after": "8"}),
}


@pytest.mark.parametrize("part", SLOW_PARTS)
@pytest.mark.parametrize("kind", ["whole_async", "items_async"])
def test_a_budget_in_seconds_ends_a_call_with_a_slow_part(part: str, kind: str) -> None:
    with Loopback().reply(SLOW_PARTS[part]) as server, model_of(server) as model:
        tools = [slow_look_up] if part == "an async tool" else []

        class AsyncWriter(Protocol):
            @user_message("List the items.")
            async def whole_async(self) -> list[Item]: ...

            @user_message("List the items.")
            def items_async(self) -> AsyncIterator[Item]: ...

        writer = create(AsyncWriter, model, tools=tools, budget=SECONDS)
        start = time.monotonic()
        raised = outcome(CALLS[kind], cast("Writer", writer))
        # 0.3 s are promised; a loaded machine may need more, but far less than the slow part
        assert time.monotonic() - start < MUCH_LONGER / 3
    assert raised is not None
    assert len(server.requests) == 1


@pytest.mark.parametrize("part", ["the wait before a retry", "a long Retry-After"])
@pytest.mark.parametrize("kind", ["whole", "items", "stream"])
def test_a_budget_in_seconds_ends_a_blocking_call_that_would_wait(part: str, kind: str) -> None:
    with Loopback().reply(SLOW_PARTS[part]) as server, model_of(server) as model:
        start = time.monotonic()
        assert outcome(CALLS[kind], create(Writer, model, budget=SECONDS)) is not None
        assert time.monotonic() - start < MUCH_LONGER / 3
    assert len(server.requests) == 1


# --- Code of the user that takes long ---


def slow(*_: object) -> Any:
    time.sleep(2 * 0.2)


async def aslow(*_: object) -> Any:
    await asyncio.sleep(MUCH_LONGER)


class Waiting:
    """An interceptor that waits before or after the model call, and cleans up in any case."""

    def __init__(self, before: Callable[[], Any], after: Callable[[], Any]) -> None:
        self.before, self.after, self.cleaned_up = before, after, 0

    def __call__(self, invocation: Invocation, proceed: Any) -> Any:
        try:
            yield Run(self.before)
            answer = yield from proceed(invocation)
            yield Run(self.after)
            return answer
        finally:
            yield Run(self.clean_up)

    async def clean_up(self) -> None:
        await asyncio.sleep(0)
        self.cleaned_up += 1


class SlowStore(InMemoryChatMemoryStore):
    def load(self, conversation: str, /, *, last: int | None = None) -> Any:
        time.sleep(1)
        return super().load(conversation, last=last)


class SlowRetriever:
    async def retrieve(self, query: object) -> list[Any]:
        await aslow()
        return []


class SlowModerator:
    async def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
        await aslow()
        return []


class SlowProvider:
    async def tools(self, invocation: Invocation) -> list[Tool]:
        await aslow()
        return []


async def listen_until_the_call_started(event: object) -> None:
    if isinstance(event, CallStarted):
        await aslow()


SLOW_CODE: dict[str, Callable[[], dict[str, Any]]] = {
    "an interceptor before": lambda: {"interceptors": [Waiting(aslow, lambda: None)]},
    "an interceptor after": lambda: {"interceptors": [Waiting(lambda: None, aslow)]},
    "an input guard": lambda: {"interceptors": [InputGuardrails(aslow)]},
    "a moderator": lambda: {"interceptors": [Moderation(SlowModerator())]},
    "an output guard": lambda: {"interceptors": [OutputGuardrails(aslow)]},
    "a retriever": lambda: {"interceptors": [RetrievalAugmentor(SlowRetriever())]},
    "a store in a thread": lambda: {"interceptors": [ChatMemory(store=SlowStore())]},
    "a provider of tools": lambda: {"tools": [SlowProvider()]},
    "a listener": lambda: {"listeners": [listen_until_the_call_started]},
}


class Talk(Protocol):
    @user_message("Talk about {{topic}}.")
    async def text(self, topic: str) -> str: ...

    @user_message("Talk about {{topic}}.")
    def texts(self, topic: str) -> AsyncIterator[str]: ...


async def text_of(talk: Talk) -> str:
    return await talk.text("rain")


async def texts_of(talk: Talk) -> str:
    return "".join([piece async for piece in talk.texts("rain")])


@pytest.mark.parametrize("call", [text_of, texts_of])
def test_a_budget_in_seconds_ends_async_code_of_the_user(call: Callable[[Talk], Any]) -> None:
    async def seconds(settings: dict[str, Any]) -> float:
        talk = create(Talk, ScriptedChatModel(lambda request: "It rains."), budget=SECONDS, **settings)
        start = time.monotonic()
        with pytest.raises(BudgetExceededError, match=r"of 0.5 seconds passed") as raised:
            await call(talk)
        assert raised.value.limit == "seconds"
        for interceptor in settings.get("interceptors", ()):
            if isinstance(interceptor, Waiting):
                assert interceptor.cleaned_up == 1
        return time.monotonic() - start

    async def seconds_of_all() -> dict[str, float]:
        spent = await asyncio.gather(*(seconds(make()) for make in SLOW_CODE.values()))
        return dict(zip(SLOW_CODE, spent, strict=True))

    spent = asyncio.run(seconds_of_all())
    assert {part: time for part, time in spent.items() if time >= MUCH_LONGER / 3} == {}


def test_a_listener_that_never_returns_does_not_lose_the_answer() -> None:
    async def listen(event: object) -> None:
        if isinstance(event, CallCompleted):
            await aslow()

    talk = create(Talk, ScriptedChatModel(["It rains."]), budget=SECONDS, listeners=[listen])
    start = time.monotonic()
    assert asyncio.run(text_of(talk)) == "It rains."
    assert time.monotonic() - start < MUCH_LONGER / 3


def test_clean_up_that_never_returns_is_ended() -> None:
    waiting = Waiting(aslow, aslow)
    waiting.clean_up = aslow  # type: ignore[method-assign]
    talk = create(Talk, ScriptedChatModel([]), budget=SECONDS, interceptors=[waiting])
    start = time.monotonic()
    with pytest.raises(BudgetExceededError):
        asyncio.run(text_of(talk))
    assert time.monotonic() - start < MUCH_LONGER / 3


def test_an_exchange_is_saved_although_the_time_is_up() -> None:
    class SavesSlowly(InMemoryChatMemoryStore):
        def append(self, conversation: str, messages: Any, /, *, expected: int) -> int:
            time.sleep(0.4)
            return super().append(conversation, messages, expected=expected)

    memory = ChatMemory(store=SavesSlowly(), namespace="")
    budget = Budget(seconds=0.2)
    talk = create(Talk, ScriptedChatModel(["It rains."]), budget=budget, interceptors=[memory])
    assert asyncio.run(text_of(talk)) == "It rains."
    assert len(memory.messages()) == 2


def test_a_blocking_call_checks_the_time_when_code_of_the_user_returns() -> None:
    class Blocking(Protocol):
        @user_message("Talk about {{topic}}.")
        def text(self, topic: str) -> str: ...

    for interceptor in (Waiting(slow, slow), InputGuardrails(slow), OutputGuardrails(slow)):
        if isinstance(interceptor, Waiting):
            interceptor.clean_up = lambda: None  # type: ignore[assignment, method-assign, return-value]
        model = ScriptedChatModel(["It rains."])
        talk = create(Blocking, model, budget=Budget(seconds=0.2), interceptors=[interceptor])
        with pytest.raises(BudgetExceededError, match=r"of 0.2 seconds passed"):
            talk.text("rain")


def test_a_timeout_error_of_an_interceptor_is_not_the_end_of_the_budget() -> None:
    def fail() -> None:
        raise TimeoutError("the directory does not answer")

    talk = create(Talk, ScriptedChatModel([]), budget=Budget(seconds=60), interceptors=[Waiting(fail, fail)])
    with pytest.raises(TimeoutError, match="the directory does not answer"):
        asyncio.run(text_of(talk))
