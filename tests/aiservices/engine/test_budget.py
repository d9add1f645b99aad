"""A budget is validated, limits what a call spends, and sets the waits between requests."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, Protocol

import pytest
from loopback import DONE, Loopback, answer, delta, error, sse, stream_reply

from aiservices import (
    AiMessage,
    AsyncStream,
    Attempt,
    Budget,
    BudgetExceededError,
    Capabilities,
    ChatOptions,
    ChatReply,
    ChatRequest,
    DefinitionError,
    ModelError,
    ModelServerError,
    ModelTimeoutError,
    OpenAiChatModel,
    Price,
    RateLimitError,
    Result,
    ScriptedChatModel,
    Stream,
    Usage,
    create,
)
from aiservices.engine.model_route import ModelFailover, ModelRoute
from aiservices.engine.strategy_selection import select_strategies
from aiservices.interceptors import Answer, CallState, Flow, Invocation, Proceed
from output_parsers import parser_for

FAILED = Attempt("m", None, ModelServerError("500"), 0.0)
PASSING = ModelServerError("500", retryable=True)
ROUTE = ModelRoute(ScriptedChatModel([]), select_strategies(parser_for(str), Capabilities(), None, "m"))


def wait_after(state: CallState, error: ModelError, failures: int = 1) -> float | None:
    """Return the seconds before a call sends the next request to its only model."""
    failover = ModelFailover([ROUTE], state.budget, None)
    failover.current.failures = failures - 1
    return failover.after_failure(error, may_retry=state.may_retry(), seconds_left=state.seconds_left)


def test_a_budget_within_its_limits_is_accepted() -> None:
    budget = Budget(max_attempts=1, seconds=0.1, first_wait=0)
    assert (budget.max_attempts, budget.seconds, budget.first_wait) == (1, 0.1, 0)


def test_every_wrong_limit_is_reported_with_the_others() -> None:
    with pytest.raises(DefinitionError) as caught:
        Budget(max_attempts=0, seconds=0, first_wait=-1)
    assert str(caught.value) == (
        "3 problems:\n"
        "  - Budget: max_attempts is 0; it must be at least 1\n"
        "  - Budget: seconds is 0; it must be greater than 0\n"
        "  - Budget: first_wait is -1; it must not be negative"
    )


def test_the_first_wait_is_the_budgets_with_jitter() -> None:
    state = CallState(Budget(first_wait=4.0), attempts=[FAILED])
    wait = wait_after(state, PASSING, 1)
    assert wait is not None
    assert 3.0 <= wait <= 4.0


def test_each_wait_is_twice_the_one_before() -> None:
    state = CallState(Budget(max_attempts=9, first_wait=4.0), attempts=[FAILED, FAILED])
    wait = wait_after(state, PASSING, 2)
    assert wait is not None
    assert 6.0 <= wait <= 8.0


def test_a_wait_does_not_grow_without_end() -> None:
    state = CallState(Budget(max_attempts=99, first_wait=4.0), attempts=[FAILED] * 20)
    wait = wait_after(state, PASSING, 20)
    assert wait is not None
    assert 22.5 <= wait <= 30.0


def test_the_requested_wait_of_the_provider_is_kept_exactly() -> None:
    state = CallState(Budget(first_wait=0), attempts=[FAILED])
    assert wait_after(state, RateLimitError("429", retryable=True, retry_after=12.5)) == 12.5


def test_a_wait_beyond_a_minute_is_not_waited() -> None:
    state = CallState(Budget(), attempts=[FAILED])
    assert wait_after(state, RateLimitError("429", retryable=True, retry_after=61.0)) is None


def test_an_error_that_will_not_pass_is_not_retried() -> None:
    state = CallState(Budget(), attempts=[FAILED])
    assert wait_after(state, ModelServerError("500"), 1) is None


def test_no_more_attempts_are_made_than_the_budget_has() -> None:
    state = CallState(Budget(max_attempts=2), attempts=[FAILED, FAILED])
    assert wait_after(state, PASSING, 1) is None


def test_a_wait_that_outlasts_the_seconds_is_not_begun() -> None:
    state = CallState(Budget(seconds=5.0), attempts=[FAILED])
    assert wait_after(state, RateLimitError("429", retryable=True, retry_after=6.0)) is None


def test_no_answer_is_requested_again_after_text_was_yielded() -> None:
    state = CallState(Budget(), attempts=[FAILED], text_streamed=True)
    assert wait_after(state, PASSING, 1) is None


def test_a_budget_without_seconds_never_ends() -> None:
    assert CallState(Budget()).seconds_left is None


def test_seconds_are_counted_from_the_beginning_of_the_call() -> None:
    state = CallState(Budget(seconds=100.0))
    state.started_at -= 30.0
    assert (round(state.seconds), round(state.seconds_left or 0)) == (30, 70)


# tokens, money and seconds of a call

HI = ChatReply(AiMessage("hi"), usage=Usage(6, 4), model="m-1-2026")
GPT = {"m": Price(input=1.0, output=10.0)}


class Chat(Protocol):
    def chat(self, text: str) -> Result[str]: ...

    async def achat(self, text: str) -> Result[str]: ...

    def grow(self, text: str) -> Stream[str]: ...

    def agrow(self, text: str) -> AsyncStream[str]: ...

    def tuned(self, text: str, options: ChatOptions) -> Result[str]: ...


async def result_of(stream: AsyncStream[str]) -> Result[str]:
    return await stream.result()


CALLS: dict[str, Callable[[Chat], Result[str]]] = {
    "blocking": lambda service: service.chat("x"),
    "async": lambda service: asyncio.run(service.achat("x")),
    "stream": lambda service: service.grow("x").result(),
    "async stream": lambda service: asyncio.run(result_of(service.agrow("x"))),
}
every_kind = pytest.mark.parametrize("kind", CALLS)


def twice(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
    """An interceptor that rejects the first answer and requests another one."""
    yield from proceed(invocation)
    return (yield from proceed(invocation))


def asking_twice(kind: str, budget: Budget, *replies: ChatReply) -> tuple[BudgetExceededError, int]:
    """Return the error of a call that wants two requests, and how many it made."""
    model = ScriptedChatModel(replies or [HI] * 9, name="openai:m")
    with pytest.raises(BudgetExceededError) as caught:
        CALLS[kind](create(Chat, model, interceptors=[twice], budget=budget))
    return caught.value, len(model.requests)


@every_kind
def test_a_reply_that_goes_beyond_the_tokens_is_used(kind: str) -> None:
    result = CALLS[kind](create(Chat, ScriptedChatModel([HI]), budget=Budget(tokens=1)))
    assert (result.value, result.usage) == ("hi", Usage(6, 4))


@every_kind
def test_no_request_is_made_when_the_tokens_are_used_up(kind: str) -> None:
    error, made = asking_twice(kind, Budget(tokens=10))
    assert (str(error), error.limit, error.usage, [attempt.text for attempt in error.attempts], made) == (
        "budget exceeded: 10 of 10 tokens used; raise Budget(tokens=…)",
        "tokens",
        Usage(6, 4),
        ["hi"],
        1,
    )


@every_kind
def test_requests_are_made_while_there_are_tokens_left(kind: str) -> None:
    service = create(Chat, ScriptedChatModel([HI] * 2), interceptors=[twice], budget=Budget(tokens=11))
    assert CALLS[kind](service).usage == Usage(12, 8)


@every_kind
def test_no_request_is_made_when_the_money_is_spent(kind: str) -> None:
    error, made = asking_twice(kind, Budget(money=0.00004, prices=GPT))
    assert (str(error), error.limit, made) == (
        "budget exceeded: 4.6e-05 of 4e-05 spent; raise Budget(money=…)",
        "money",
        1,
    )


@every_kind
def test_no_request_is_made_when_the_attempts_are(kind: str) -> None:
    error, made = asking_twice(kind, Budget(max_attempts=1))
    assert (str(error), error.limit, made) == (
        "budget exceeded: 1 of 1 attempts used; raise Budget(max_attempts=…)",
        "max_attempts",
        1,
    )


@every_kind
def test_no_request_is_made_when_the_seconds_have_passed(kind: str) -> None:
    def late(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        answer = yield from proceed(invocation)
        invocation.state.started_at -= 10
        return answer

    model = ScriptedChatModel([HI] * 9)
    service = create(Chat, model, interceptors=[twice, late], budget=Budget(seconds=5))
    with pytest.raises(BudgetExceededError) as caught:
        CALLS[kind](service)
    assert (str(caught.value), caught.value.limit, len(model.requests)) == (
        "budget exceeded: 10.0 of 5 seconds passed; raise Budget(seconds=…)",
        "seconds",
        1,
    )


def test_each_call_has_the_whole_budget() -> None:
    service = create(Chat, ScriptedChatModel([HI] * 3), budget=Budget(max_attempts=1, tokens=1))
    assert [service.chat("x").value for _ in range(3)] == ["hi"] * 3


def test_the_tokens_of_a_reply_without_usage_are_estimated() -> None:
    silent = ChatReply(AiMessage("hi"))
    service = create(Chat, ScriptedChatModel([silent] * 2), interceptors=[twice], budget=Budget(tokens=100))
    assert service.chat("x").usage == Usage()
    service = create(Chat, ScriptedChatModel([silent] * 2), interceptors=[twice], budget=Budget(tokens=1))
    with pytest.raises(BudgetExceededError, match="tokens used") as caught:
        service.chat("x")
    assert (len(caught.value.attempts), caught.value.usage) == (1, None)


def test_the_cost_of_a_reply_without_usage_is_estimated() -> None:
    state = CallState(Budget(money=1, prices=GPT))
    reply = ChatReply(AiMessage("x" * 4_000))
    state.add_attempt(Attempt(next(iter(GPT)), reply, None, 0.1), ChatRequest.of("x" * 400))
    assert state.tokens == 1_100
    assert state.money == next(iter(GPT.values())).of(Usage(100, 1_000))


def test_a_failed_request_costs_nothing_that_is_known() -> None:
    state = CallState(Budget(tokens=1, money=1, prices=GPT), attempts=[FAILED])
    assert (state.tokens, state.money, state.exceeded()) == (0, 0.0, None)


@every_kind
def test_a_failed_request_is_not_made_again_when_the_tokens_are_used_up(kind: str) -> None:
    model = ScriptedChatModel([HI, PASSING, HI])
    service = create(
        Chat, model, interceptors=[twice], budget=Budget(max_attempts=9, tokens=11, first_wait=0)
    )
    assert CALLS[kind](service).usage == Usage(12, 8)
    model = ScriptedChatModel([HI, PASSING, HI])
    service = create(
        Chat, model, interceptors=[twice], budget=Budget(max_attempts=2, tokens=11, first_wait=0)
    )
    with pytest.raises(ModelServerError) as caught:
        CALLS[kind](service)
    assert (caught.value.usage, len(model.requests)) == (Usage(6, 4), 2)


# prices


def test_a_price_is_for_a_million_tokens() -> None:
    assert Price(2.0, 8.0).of(Usage(1_000_000, 500_000)) == 6.0


def test_cached_tokens_cost_what_they_cost() -> None:
    usage = Usage(1_000_000, 0, cached_tokens=400_000)
    assert [Price(2.0, 8.0, cached=0.5).of(usage), Price(2.0, 8.0).of(usage)] == [1.4, 2.0]


def test_cached_tokens_may_cost_nothing() -> None:
    assert Price(2.0, 8.0, cached=0.0).of(Usage(1_000_000, 0, cached_tokens=1_000_000)) == 0.0


@pytest.mark.parametrize("name", ["m-1-2026", "openai:m", "m"])
def test_a_model_goes_by_its_providers_name_and_by_the_one_it_is_asked_for(name: str) -> None:
    state = CallState(
        Budget(money=1, prices={name: Price(1.0, 1.0)}), attempts=[Attempt("openai:m", HI, None, 0.0)]
    )
    assert state.money == pytest.approx(10 / 1_000_000)


def test_the_name_that_the_provider_gave_comes_first() -> None:
    prices = {"m": Price(5.0, 5.0), "m-1-2026": Price(1.0, 1.0)}
    state = CallState(Budget(money=1, prices=prices), attempts=[Attempt("openai:m", HI, None, 0.0)])
    assert state.money == pytest.approx(10 / 1_000_000)


def test_the_replies_of_several_models_cost_each_their_own() -> None:
    prices = {"a": Price(1.0, 1.0), "b": Price(100.0, 100.0)}
    attempts = [Attempt(name, replace(HI, model=""), None, 0.0) for name in ("a", "b", "a")]
    state = CallState(Budget(money=1, prices=prices), attempts=attempts)
    assert state.money == pytest.approx(1020 / 1_000_000)


def test_another_model_in_the_options_costs_its_own_price() -> None:
    prices = {"big": Price(1_000_000.0, 1_000_000.0), "small": Price(1.0, 1.0)}
    model = ScriptedChatModel([replace(HI, model="small-2026-01-01")] * 2, name="openai:big")
    service = create(Chat, model, interceptors=[twice], budget=Budget(money=1, prices=prices))
    result = service.tuned("x", ChatOptions(model="small"))
    assert [attempt.model for attempt in result.attempts] == ["openai:small", "openai:small"]


def test_money_for_another_model_in_the_options_without_a_price_is_a_definition_error() -> None:
    model = ScriptedChatModel([HI], name="openai:big")
    service = create(Chat, model, budget=Budget(money=1, prices={"big": Price(1.0, 1.0)}))
    with pytest.raises(DefinitionError, match="openai:small"):
        service.tuned("x", ChatOptions(model="small"))
    assert model.requests == []


def test_money_without_prices_is_a_problem() -> None:
    with pytest.raises(DefinitionError) as caught:
        Budget(tokens=0, money=-1)
    assert str(caught.value) == (
        "3 problems:\n"
        "  - Budget: tokens is 0; it must be greater than 0\n"
        "  - Budget: money is -1; it must be greater than 0\n"
        "  - Budget: money is limited, but prices is empty; give the price of each model"
    )


def test_money_for_a_model_without_a_price_is_a_problem_of_the_service() -> None:
    model = ScriptedChatModel([HI], name="openai:other")
    with pytest.raises(DefinitionError) as caught:
        create(Chat, model, budget=Budget(money=1, prices=GPT))
    assert "openai:other" in str(caught.value)


@pytest.mark.parametrize("name", ["seconds", "money", "first_wait"])
def test_a_limit_that_is_not_a_number_is_a_problem(name: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Budget(prices=GPT, **{name: math.nan})  # type: ignore[arg-type]
    assert str(caught.value) == f"Budget: {name} is nan; it must be a number"


# seconds while a request runs


@every_kind
def test_a_request_that_times_out_with_the_budget_is_an_exceeded_budget(kind: str) -> None:
    def slow(request: ChatRequest) -> Exception:
        assert request.deadline is not None
        time.sleep(max(request.deadline - time.monotonic(), 0) + 0.002)
        return ModelTimeoutError("too late", retryable=True)

    service = create(Chat, ScriptedChatModel(slow), budget=Budget(seconds=0.03))
    with pytest.raises(BudgetExceededError) as caught:
        CALLS[kind](service)
    assert (caught.value.limit, len(caught.value.attempts), str(caught.value.__cause__)) == (
        "seconds",
        1,
        "too late",
    )


@every_kind
def test_a_reply_after_the_end_of_the_seconds_is_an_exceeded_budget(kind: str) -> None:
    def slow(request: ChatRequest) -> str:
        assert request.deadline is not None
        time.sleep(max(request.deadline - time.monotonic(), 0) + 0.002)
        return "too late"

    service = create(Chat, ScriptedChatModel(slow), budget=Budget(seconds=0.03))
    with pytest.raises(BudgetExceededError) as caught:
        CALLS[kind](service)
    assert (caught.value.limit, len(caught.value.attempts)) == ("seconds", 1)


def warm(loopback: Loopback) -> OpenAiChatModel:
    """Return a model whose SDK is already imported, because the import takes longer than these budgets."""
    with Loopback() as other:
        other.reply(answer("hi"))
        with OpenAiChatModel("m", base_url=other.base_url, api_key="k") as first:
            create(Chat, first).chat("x")
            asyncio.run(create(Chat, first).achat("x"))
    return OpenAiChatModel("m", base_url=loopback.base_url, api_key="k")


@every_kind
def test_a_server_that_does_not_answer_ends_with_the_seconds(loopback: Loopback, kind: str) -> None:
    never = threading.Event()
    model = warm(loopback)
    loopback.reply(replace(answer("hi"), wait_for=never))
    began = time.monotonic()
    with pytest.raises(BudgetExceededError) as caught:
        CALLS[kind](create(Chat, model, budget=Budget(seconds=0.5, first_wait=0)))
    took = time.monotonic() - began
    never.set()
    model.close()
    assert (caught.value.limit, len(loopback.requests), took < 5) == ("seconds", 1, True)


class Dripping(list[bytes]):
    """The chunks of an answer that takes five seconds, with a short wait before each chunk."""

    def __iter__(self) -> Iterator[bytes]:
        for chunk in super().__iter__():
            time.sleep(0.02)
            yield chunk


@every_kind
def test_a_server_that_drips_ends_with_the_seconds(loopback: Loopback, kind: str) -> None:
    if "stream" in kind:
        chunks = [delta(content="la ")] * 250
        dripped = replace(sse(), chunks=Dripping([*chunks, delta("stop"), DONE]))
    else:
        whole = answer("la " * 600)
        body = whole.body
        dripped = replace(whole, chunks=Dripping(body[at : at + 8] for at in range(0, len(body), 8)))
    model = warm(loopback)
    loopback.reply(dripped)
    began = time.monotonic()
    with pytest.raises(BudgetExceededError) as caught:
        CALLS[kind](create(Chat, model, budget=Budget(seconds=0.2, first_wait=0)))
    took = time.monotonic() - began
    model.close()
    assert (caught.value.limit, took < 3) == ("seconds", True)


@every_kind
def test_the_requested_wait_of_the_server_is_kept(loopback: Loopback, kind: str) -> None:
    loopback.reply(
        error(429, "slow down", headers={"retry-after-ms": "120"}),
        stream_reply(["hi"]) if "stream" in kind else answer("hi"),
    )
    model = OpenAiChatModel("m", base_url=loopback.base_url, api_key="k")
    result = CALLS[kind](create(Chat, model, budget=Budget(first_wait=0)))
    model.close()
    assert (result.value, result.seconds >= 0.12, len(loopback.requests)) == ("hi", True, 2)


@every_kind
def test_a_wait_that_the_server_asks_for_beyond_the_seconds_is_not_begun(
    loopback: Loopback, kind: str
) -> None:
    loopback.reply(error(429, "slow down", headers={"retry-after": "20"}))
    model = OpenAiChatModel("m", base_url=loopback.base_url, api_key="k")
    began = time.monotonic()
    with pytest.raises(RateLimitError) as caught:
        CALLS[kind](create(Chat, model, budget=Budget(seconds=10)))
    model.close()
    assert (time.monotonic() - began < 5, len(loopback.requests), caught.value.retry_after) == (True, 1, 20.0)


async def cancel_once_asked(loopback: Loopback, call: Coroutine[Any, Any, object]) -> None:
    """Cancel a call shortly after its request has reached the server."""
    task = asyncio.create_task(call)
    while not loopback.requests:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_call_leaves_no_open_connection(loopback: Loopback) -> None:
    answered = threading.Event()
    loopback.reply(replace(answer("hi"), wait_for=answered))

    async def cancelled() -> bool:
        async with OpenAiChatModel("m", base_url=loopback.base_url, api_key="k") as model:
            await cancel_once_asked(loopback, create(Chat, model).achat("x"))
            answered.set()  # the server answers into a connection that must be closed by now
            for _ in range(200):
                if not loopback.connections:
                    break
                await asyncio.sleep(0.01)
            return not loopback.connections

    assert asyncio.run(cancelled())
    assert len(loopback.requests) == 1


def test_a_call_that_is_cancelled_while_it_waits_makes_no_further_request(loopback: Loopback) -> None:
    loopback.reply(error(429, "slow down", headers={"retry-after": "5"}))

    async def cancelled() -> None:
        async with OpenAiChatModel("m", base_url=loopback.base_url, api_key="k") as model:
            await cancel_once_asked(loopback, create(Chat, model).achat("x"))

    asyncio.run(cancelled())
    assert len(loopback.requests) == 1


def test_time_that_ran_out_in_the_last_attempt_is_the_limit_that_is_named() -> None:
    state = CallState(Budget(max_attempts=2, seconds=0.1), attempts=[FAILED, FAILED])
    state.started_at -= 1
    error = state.exceeded()
    assert error is not None
    assert error.limit == "seconds"


def test_an_attempt_has_the_usage_of_its_reply() -> None:
    replied = Attempt("m", ChatReply(AiMessage("x"), usage=Usage(3, 4)), None, 0.1)
    assert (replied.usage, FAILED.usage) == (Usage(3, 4), None)
