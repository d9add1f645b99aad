"""A run works on as many rows as its caller takes, and ends if too many of them fail."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    BadRequestError,
    Budget,
    ChatReply,
    ChatRequest,
    ModelServerError,
    Price,
    ScriptedChatModel,
    Usage,
    create,
)
from aiservices.rows import RowsError, map_rows
from aiservices.rows.row import RowError
from aiservices.rows.runner import RowFailure


class Desk(Protocol):
    async def answer(self, text: str) -> str: ...


class BlockingDesk(Protocol):
    def answer(self, text: str) -> str: ...


class AnsweringModel(ScriptedChatModel):
    """Answers with the text of the request, once ``before`` has returned for it."""

    def __init__(self, before: Callable[[str], Any] = lambda text: None) -> None:
        super().__init__([])
        self._before = before
        self.asked: list[str] = []

    async def acomplete(self, request: ChatRequest) -> Any:
        text = request.messages[-1].text
        self.asked.append(text)
        await asyncio.sleep(0)
        waiting = self._before(text)
        if waiting is not None:
            await waiting
        return ScriptedChatModel([text]).complete(request)


def table(count: int) -> list[dict[str, Any]]:
    return [{"text": str(number)} for number in range(count)]


def test_a_run_is_no_further_ahead_of_its_caller_than_twice_its_concurrency() -> None:
    model = AnsweringModel()
    rows = map_rows(create(Desk, model).answer, table(1000), max_concurrency=3)

    async def take(count: int) -> list[int]:
        asked = []
        async for _ in rows:
            while len(model.asked) < 6 + len(asked):
                await asyncio.sleep(0.001)
            for _ in range(30):
                await asyncio.sleep(0.001)
            asked.append(len(model.asked))
            if len(asked) == count:
                break
        return asked

    assert asyncio.run(take(3)) == [6, 7, 8]


def test_an_equal_row_waits_for_the_answer_of_the_first_one() -> None:
    async def answered() -> None:
        await asyncio.sleep(0.01)

    model = AnsweringModel(lambda text: answered())
    rows = map_rows(create(Desk, model).answer, [{"text": "a"}] * 3, max_concurrency=3, ordered=True)
    assert [(row.number, row.value) for row in rows] == [(0, "a"), (1, "a"), (2, "a")]
    assert model.asked == ["a"]


def test_rows_in_order_do_not_wait_for_an_earlier_one_that_is_slow() -> None:
    def before(text: str) -> Any:
        if text == "0":
            return wait_for_others()
        return None

    async def wait_for_others() -> None:
        for _ in itertools.takewhile(lambda _: len(model.asked) < 100, range(5000)):
            await asyncio.sleep(0.001)
        numbers.append(len(model.asked))

    numbers: list[int] = []
    model = AnsweringModel(before)
    rows = map_rows(create(Desk, model).answer, table(200), max_concurrency=2, ordered=True)
    assert [row.value for row in rows] == [str(number) for number in range(200)]
    assert numbers[0] >= 100


def test_a_run_goes_on_while_no_more_than_the_allowed_share_of_its_rows_fails() -> None:
    def before(text: str) -> None:
        if int(text) % 2:
            raise BadRequestError("no", status=413)

    service = create(Desk, AnsweringModel(before), retry=None)
    summary = map_rows(service.answer, table(120), max_concurrency=1, max_failures=0.5).run()
    assert (summary.rows, summary.errors) == (120, 60)
    with pytest.raises(RowsError, match=r"more than max_failures=0\.49"):
        map_rows(service.answer, table(120), max_concurrency=1, max_failures=0.49).run()


def test_without_prices_of_the_run_a_row_costs_what_the_budget_of_its_service_says() -> None:
    model = ScriptedChatModel(lambda request: ChatReply(AiMessage("x"), usage=Usage(1, 2)))
    prices = {"scripted": Price(1e6, 1e6)}
    service = create(BlockingDesk, model, budget=Budget(prices=prices))
    for budget, cost in ((None, 3.0), (Budget(prices={"scripted": Price(2e6, 2e6)}), 6.0)):
        rows = map_rows(service.answer, table(1), budget=budget)
        assert ([row.cost for row in rows], rows.summary.cost) == ([cost], cost)


def test_each_limit_of_a_budget_ends_a_run() -> None:
    prices = {"scripted": Price(1e6, 1e6)}
    for limits in (Budget(requests=5), Budget(tokens=15), Budget(money=15.0, prices=prices)):
        model = ScriptedChatModel(lambda request: ChatReply(AiMessage("x"), usage=Usage(1, 2)))
        rows = map_rows(create(BlockingDesk, model).answer, table(20), budget=limits, max_concurrency=1)
        with pytest.raises(RowsError, match=r"stopped after 5 rows\. .* the budget of the run is used up"):
            rows.run()
        assert len(model.requests) == 5


def test_a_row_waits_before_a_failed_request_is_sent_again() -> None:
    busy = ModelServerError("busy", status=503, retryable=True, retry_after=0.05)
    times: list[float] = []

    def reply(request: ChatRequest) -> str:
        times.append(time.monotonic())
        if len(times) == 1:
            raise busy
        return "x"

    service = create(BlockingDesk, ScriptedChatModel(reply))
    assert [row.value for row in map_rows(service.answer, table(1))] == ["x"]
    assert times[1] - times[0] > 0.04


def test_a_row_without_an_answer_that_has_changed_since_the_run_is_an_error() -> None:
    changing: list[dict[str, Any]] = [{"text": None}, {"text": "b"}]
    rows = map_rows(create(Desk, AnsweringModel()).answer, changing, max_failures=1.0)
    assert rows.run().errors == 1
    changing[0]["text"] = "a"
    with pytest.raises(RowsError, match="row 0 changed during the run"):
        list(rows)


def test_an_error_in_another_process_is_general_if_its_type_is() -> None:
    errors = [RowError("ModelServerError", "busy"), RowError("ValueError", "no"), BadRequestError("no")]
    assert [RowFailure.of(error).is_general for error in errors] == [True, False, False]
