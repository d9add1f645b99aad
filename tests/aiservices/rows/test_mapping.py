"""map_rows calls a method for each row, keeps what is finished, and ends when going on makes no sense."""

from __future__ import annotations

import asyncio
import csv
import gc
import json
import math
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Annotated, Any, Protocol

import attrs
import msgspec
import pandas
import polars
import pyarrow
import pytest
from pydantic import BaseModel, StringConstraints

from aiservices import (
    AiMessage,
    AuthenticationError,
    BadRequestError,
    Budget,
    Capabilities,
    ChatOptions,
    ChatReply,
    ChatRequest,
    Decision,
    DefinitionError,
    Image,
    InvalidReplyError,
    MemoryId,
    Price,
    RateLimitError,
    Result,
    ScriptedChatModel,
    SharedBudget,
    Stream,
    TokenLogprob,
    create,
    tool,
    user_message,
)
from aiservices.memory import ChatMemory
from aiservices.rows import Row, RowsError, amap_rows, estimate, map_rows
from aiservices.rows.mapping import Rows, RowSettings, job_for
from aiservices.rows.row import RowError
from aiservices.testing import FakeChatModel


@dataclass
class Ticket:
    team: str
    urgent: bool


class Desk(Protocol):
    @user_message("Which team answers this? {{text}} ({{lang}})")
    def ticket(self, text: str, lang: str = "en") -> Ticket: ...

    @user_message("Which team answers this? {{text}}")
    async def later(self, text: str) -> Result[Ticket]: ...

    @user_message("Is this a question? {{text}}")
    def is_question(self, text: str) -> Decision[bool]: ...


class Model(ScriptedChatModel):
    """Answers with a ticket for the team named in the text, and counts its requests for each."""

    def __init__(self, *errors: Exception) -> None:
        self.asked: list[str] = []
        self._errors = list(errors)
        super().__init__(self.answer)

    def answer(self, request: ChatRequest) -> str:
        text = request.messages[-1].text
        self.asked.append(text.partition("? ")[2].partition(" (")[0])
        if "fail" in text:
            raise BadRequestError("no", status=413)
        if self._errors:
            raise self._errors.pop(0)
        return json.dumps({"team": self.asked[-1], "urgent": True})


LOGPROBS = Capabilities(json_schema=True, logprobs=20)


def probably(probability: float) -> ChatReply:
    """A reply with a probability for true."""
    shares = ((b"true", math.log(probability)), (b"false", math.log(1 - probability)))
    tokens = (TokenLogprob(b'{"value": ', 0.0), TokenLogprob(*shares[0], shares), TokenLogprob(b"}", 0.0))
    return ChatReply(AiMessage('{"value": true}'), logprobs=tokens, model="scripted")


def table(*texts: str) -> list[dict[str, Any]]:
    return [{"id": number, "text": text} for number, text in enumerate(texts)]


def teams(rows: Any) -> list[str]:
    return sorted(row.value.team for row in rows)


def test_each_row_gets_the_answer_of_the_method() -> None:
    model = Model()
    rows = map_rows(create(Desk, model).ticket, table("a", "b"), key="id")
    found = sorted(rows, key=lambda row: row.number)
    assert [(row.key, row.value, row.error, row.attempts) for row in found] == [
        (0, Ticket("a", True), None, 1),
        (1, Ticket("b", True), None, 1),
    ]
    assert found[0].inputs == {"id": 0, "text": "a"}
    assert found[0].usage.output_tokens > 0
    assert (rows.summary.rows, rows.summary.errors, rows.summary.requests) == (2, 0, 2)


def test_async_methods_and_results_work_and_so_does_async_iteration() -> None:
    async def run() -> list[Row[Ticket]]:
        return [row async for row in amap_rows(create(Desk, Model()).later, table("a", "b"))]

    assert teams(asyncio.run(run())) == ["a", "b"]
    assert teams(map_rows(create(Desk, Model()).later, table("a"))) == ["a"]


def test_rows_work_inside_a_running_event_loop() -> None:
    async def run() -> list[str]:
        return teams(map_rows(create(Desk, Model()).ticket, table("a")))

    assert asyncio.run(run()) == ["a"]


def test_await_processes_all_rows(tmp_path: Path) -> None:
    async def run() -> int:
        rows = await amap_rows(create(Desk, Model()).ticket, table("a", "b"), to=tmp_path / "out.jsonl")
        return rows.summary.rows

    assert asyncio.run(run()) == 2
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["team"] for line in lines] == ["a", "b"]


@attrs.define
class Parcel:
    weight: int


class Struct(msgspec.Struct):
    weight: int
    limit: int | msgspec.UnsetType = msgspec.UNSET


class Weighs(Protocol):
    def parcel(self, parcel: Parcel | Struct | PurePath) -> str: ...


def test_equal_rows_of_any_class_are_asked_once() -> None:
    model = ScriptedChatModel(lambda request: "ok")
    parcels = [Parcel(1), Parcel(2), Parcel(1), Struct(1), Struct(1, 3), Struct(1), PurePath("a")]
    rows = map_rows(create(Weighs, model).parcel, [{"parcel": parcel} for parcel in parcels])
    assert [row.value for row in rows] == ["ok"] * 7
    assert len(model.requests) == 5


def test_columns_can_have_other_names() -> None:
    rows = map_rows(create(Desk, Model()).ticket, [{"body": "a"}], columns={"text": "body"})
    assert teams(rows) == ["a"]


@pytest.mark.parametrize(
    ("rows", "settings", "expected"),
    [
        (
            [{"body": "a"}],
            {},
            "Desk.ticket: the table has no column text for the parameter text; its columns are: body. Name "
            'another one with columns={"text": …}',
        ),
        (
            [{"text": "a"}],
            {"key": "id"},
            "Desk.ticket: the table has no column id, which is the key; its columns are: text",
        ),
        (
            [{"text": "a"}],
            {"columns": {"txt": "text"}},
            "Desk.ticket: columns names the parameter txt, which the method does not have",
        ),
        (
            [{"text": "a"}],
            {"max_concurrency": 0},
            "Desk.ticket: max_concurrency is 0; it must be a whole number of at least 1",
        ),
        ([{"text": "a"}], {"row_timeout": -1}, "Desk.ticket: row_timeout is -1; it must be greater than 0"),
        ([{"text": "a"}], {"max_failures": 5}, "Desk.ticket: max_failures is 5; it must be between 0 and 1"),
        (
            [{"text": "a"}],
            {"budget": Budget(max_attempts=9)},
            "Desk.ticket: the budget of a run limits money, tokens, requests and seconds; max_attempts is "
            "set by create(…, budget=…)",
        ),
        (
            [{"text": "a"}],
            {"progress": "yes"},
            "map_rows: progress is 'yes'; pass True, False or a function that receives the progress",
        ),
        ([{"text": "a"}], {"limits": 5}, "Desk.ticket: limits is int; pass Limits(…)"),
        (
            [{"text": "a"}],
            {"engine": "batch"},
            "Desk.ticket: engine is 'batch'; pass BatchEngine(), RayEngine() or SparkEngine()",
        ),
        ([{"text": "a"}], {"to": 5}, "Desk.ticket: to is 5; pass the path of a file"),
    ],
)
def test_mistakes_are_found_before_the_first_request(rows: Any, settings: Any, expected: str) -> None:
    model = Model()
    with pytest.raises(DefinitionError) as caught:
        map_rows(create(Desk, model).ticket, rows, **settings)
    assert str(caught.value) == expected
    assert model.asked == []


def test_help_lists_the_settings() -> None:
    described = map_rows.__doc__ or ""
    assert all(f"\n        {name}: " in described for name in RowSettings.__annotations__)


def test_an_unknown_setting_is_an_error_that_names_a_similar_one() -> None:
    with pytest.raises(
        TypeError, match=r"map_rows\(\) got an unexpected keyword argument 'colums'; did you mean 'columns'"
    ):
        map_rows(create(Desk, Model()).ticket, [], colums={})  # type: ignore[call-overload]


class Unmapped(Protocol):
    @user_message("{{text}}")
    def stream(self, text: str) -> Stream[Ticket]: ...

    @user_message("{{text}}")
    def with_options(self, text: str, options: ChatOptions) -> Ticket: ...

    @user_message("{{text}}")
    def remembers(self, text: str, user: Annotated[str, MemoryId]) -> Ticket: ...


def test_methods_that_cannot_be_mapped_are_refused() -> None:
    service = create(Unmapped, Model(), interceptors=[ChatMemory()])
    with pytest.raises(
        DefinitionError, match="it returns a stream; only methods that return a value or a Result"
    ):
        map_rows(service.stream, table("a"))
    with pytest.raises(DefinitionError, match="its parameter options is ChatOptions"):
        map_rows(service.with_options, table("a"))
    with pytest.raises(DefinitionError, match="its service has a memory"):
        map_rows(service.remembers, table("a"))

    @tool(needs_approval=True)
    def refund(amount: int) -> str:
        """Refund an amount."""
        return "done"

    with pytest.raises(DefinitionError, match="its tools refund need an approval"):
        map_rows(create(Desk, Model(), tools=[refund]).ticket, table("a"))
    with pytest.raises(TypeError, match="is not a method of a service"):
        map_rows(len, table("a"))


def test_an_error_of_one_row_does_not_end_the_run() -> None:
    rows = sorted(map_rows(create(Desk, Model()).ticket, table("a", "fail", "b")), key=lambda row: row.number)
    assert [row.error is None for row in rows] == [True, False, True]
    error = rows[1].error
    assert error is not None
    assert error.type == "BadRequestError"
    with pytest.raises(type(error), match="BadRequestError: no"):
        print(rows[1].value)


def test_equal_rows_are_asked_once() -> None:
    model = Model()
    rows = map_rows(create(Desk, model).ticket, table("a", "b", "a", "a"), key="id", max_concurrency=4)
    assert teams(rows) == ["a", "a", "a", "b"]
    assert sorted(model.asked) == ["a", "b"]
    assert rows.summary.cached == 2


def test_equal_rows_are_asked_each_without_dedupe(tmp_path: Path) -> None:
    model, to = Model(), tmp_path / "out.jsonl"
    desk = create(Desk, model)
    for _ in range(2):  # the second run finds all of them
        rows = map_rows(desk.ticket, [{"text": "a"}, {"text": "a"}], dedupe=False, to=to)
        assert teams(rows) == ["a", "a"]
    assert model.asked == ["a", "a"]


def test_the_order_of_the_table_can_be_kept() -> None:
    class Slow(Model):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            if "slow" in request.messages[-1].text:
                await asyncio.sleep(0.05)
            return self.complete(request)

    texts = ["slow", *"abcdef"]
    rows = map_rows(create(Desk, Slow()).ticket, table(*texts), ordered=True)
    assert [row.value.team for row in rows] == texts
    assert [row.value.team for row in map_rows(create(Desk, Slow()).ticket, table(*texts))][-1] == "slow"


def test_a_run_in_the_order_of_the_table_ends_although_its_first_row_stops_it() -> None:
    class Refusing(Model):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            if "slow" in request.messages[-1].text:
                while len(self.asked) < 999:  # as many rows as may be ahead
                    await asyncio.sleep(0.001)
                raise AuthenticationError("wrong key", status=401)
            return self.complete(request)

    texts = ["slow", *map(str, range(1100))]
    with pytest.raises(RowsError, match="wrong key"):
        map_rows(create(Desk, Refusing()).ticket, table(*texts), ordered=True).run()


@pytest.mark.parametrize(
    "spelling", ["same", "relative", "symbolic link", "hard link", "in a folder", "review"]
)
def test_the_table_is_never_overwritten(
    spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    table, to = folder / "t.csv", folder / "t.csv"
    table.write_text("text\na\nb\n")
    monkeypatch.chdir(folder)
    source: str | Path = table
    settings: dict[str, Any] = {"limit": 1}
    if spelling == "relative":
        to = Path("../data/t.csv")
    elif spelling in ("symbolic link", "hard link"):
        to = tmp_path / "link.csv"
        (to.symlink_to if spelling == "symbolic link" else to.hardlink_to)(table)
    elif spelling == "in a folder":
        source = folder
    elif spelling == "review":
        settings |= {"review": to, "unsure_below": 0.9}
        to = folder / "new.csv"
    model = Model()
    with pytest.raises(DefinitionError, match=r"a file of the table, which would be lost; choose another"):
        map_rows(create(Desk, model).ticket, source, to=to, **settings)
    assert (table.read_text(), model.asked) == ("text\na\nb\n", [])


def test_an_output_among_the_files_of_the_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("text\na\n")
    model = Model()
    service = create(Desk, model)
    for source, to in (
        (tmp_path / "in", tmp_path / "in" / "out.csv"),
        (str(tmp_path / "in" / "*.csv"), tmp_path / "in" / "out.csv"),
        (str(tmp_path / "**" / "*.csv"), tmp_path / "in" / "out.csv"),
    ):
        with pytest.raises(DefinitionError, match="which the next call would read as a part of the table"):
            map_rows(service.ticket, source, to=to)
    for to in (tmp_path / "out.csv", tmp_path / "in" / "out.jsonl"):
        for _ in range(2):
            assert len(map_rows(service.ticket, str(tmp_path / "in" / "*.csv"), to=to)) == 1


def test_two_outputs_need_two_files(tmp_path: Path) -> None:
    settings: Any = {"to": tmp_path / "o.csv", "journal": tmp_path / ".." / tmp_path.name / "o.csv"}
    with pytest.raises(DefinitionError, match="journal and to are the same file"):
        map_rows(create(Desk, Model()).ticket, table("a"), **settings)


class WatchedTable:
    """A table that notes whether the journal is open while its rows are read to be written."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.is_left = threading.Event()
        self.is_open: list[bool] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number in range(3):
            if number and threading.current_thread().name.startswith("asyncio_"):  # the thread that writes
                self.is_left.wait(5)
                time.sleep(0.1)
                self.is_open.append(self.is_locked())
            yield {"text": str(number)}

    def is_locked(self) -> bool:
        import fcntl

        with self.journal.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_the_journal_is_open_until_the_thread_that_writes_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    to = tmp_path / "out.jsonl"
    watched = WatchedTable(tmp_path / "out.jsonl.journal")
    desk = create(Desk, Model())
    rows = iter(Rows(job_for(desk.ticket, watched, {"to": to})))
    for _ in range(3):
        next(rows)
    time.sleep(0.1)  # the rows are being written
    threading.Timer(0.05, watched.is_left.set).start()
    rows.close()
    assert watched.is_open == [True]  # it ended at the next row
    gc.collect()
    assert caplog.messages == []  # such as "Task exception was never retrieved"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl.journal"]
    assert len(list(map_rows(desk.ticket, watched, to=to))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("way", ["break", "exception", "cancellation", "async break"])
def test_a_run_can_be_left_at_any_time(way: str, tmp_path: Path) -> None:
    """A fault here ends the process; pytest shows the threads then."""
    desk, chance = create(Desk, Model()), random.Random(0)

    async def run(journal: Path) -> None:
        async def read() -> None:
            async for _ in Rows(job_for(desk.ticket, table(*"abc"), {"to": journal})):
                if way == "async break" and chance.random() < 0.5:
                    break

        task = asyncio.create_task(read())
        await asyncio.sleep(chance.random() * 0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for number in range(500):
        to = tmp_path / f"{number}.jsonl"
        if way in ("cancellation", "async break"):
            asyncio.run(run(to))
            continue
        with suppress(KeyError):
            for row in Rows(job_for(desk.ticket, table(*"abc"), {"to": to})):
                if row.number == number % 3:
                    if way == "exception":
                        raise KeyError
                    break


def test_an_error_of_a_row_that_is_not_caught_ends_the_run(tmp_path: Path) -> None:
    desk, to = create(Desk, Model()), tmp_path / "journal"
    texts = ["fail", *map(str, range(1000))]
    gc.disable()  # the iterator must not be part of a cycle
    try:
        with suppress(RowError):
            [row.value for row in map_rows(desk.ticket, table(*texts), journal=to, ordered=True)]
        assert map_rows(desk.ticket, table(*texts), journal=to).run().rows == 1001
    finally:
        gc.enable()


def test_a_second_run_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    model, to = Model(), tmp_path / "out.jsonl"
    desk = create(Desk, model)
    map_rows(desk.ticket, table("a", "b"), key="id", to=to, limit=1)
    rows = map_rows(desk.ticket, table("a", "b", "c"), key="id", to=to)
    assert model.asked == ["a", "b", "c"]
    assert (rows.summary.rows, rows.summary.cached) == (3, 1)
    map_rows(desk.ticket, table("a", "b"), key="id", to=to, restart=True)
    assert sorted(model.asked[3:]) == ["a", "b"]


def test_a_row_with_the_same_key_and_other_content_is_asked_again(tmp_path: Path) -> None:
    model, to = Model(), tmp_path / "out.jsonl"
    desk = create(Desk, model)
    map_rows(desk.ticket, table("a", "b"), key="id", to=to)
    rows = map_rows(desk.ticket, table("a", "changed"), key="id", to=to)
    assert (model.asked[2:], rows.summary.changed) == (["changed"], 1)


def test_other_work_with_the_same_output_is_refused(tmp_path: Path) -> None:
    to = tmp_path / "out.jsonl"
    map_rows(create(Desk, Model()).ticket, table("a"), to=to)
    with pytest.raises(RowsError) as caught:
        map_rows(create(Desk, Model(), options=ChatOptions(temperature=0.5)).ticket, table("a"), to=to)
    assert str(caught.value) == (
        f"{to}.journal was written with other settings: options was {{}} and is {{'temperature': 0.5}}. Pass "
        "restart=True to process all rows again, or choose another output"
    )


def test_a_column_may_have_another_name_in_the_next_run(tmp_path: Path) -> None:
    model, to = Model(), tmp_path / "out.jsonl"
    desk = create(Desk, model)
    map_rows(desk.ticket, table("a"), to=to)
    rows = [{"id": 0, "body": "a"}, {"id": 1, "body": "b"}]
    map_rows(desk.ticket, rows, to=to, columns={"text": "body"})
    assert model.asked == ["a", "b"]


def test_failed_rows_can_be_asked_again(tmp_path: Path) -> None:
    to = tmp_path / "out.jsonl"
    model = Model(BadRequestError("busy", status=413))
    desk = create(Desk, model)
    assert map_rows(desk.ticket, table("a", "b"), to=to).summary.errors == 1
    assert map_rows(desk.ticket, table("a", "b"), to=to).summary.errors == 1
    assert len(model.asked) == 2
    assert map_rows(desk.ticket, table("a", "b"), to=to, retry_failed=True).summary.errors == 0
    assert len(model.asked) == 3


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([1, 2, 1], "rows 0 and 2 have the same key 1 in column id; each row needs its own"),
        ([1, None], "row 1 has no value in the key column id"),
    ],
)
def test_keys_are_checked_before_the_first_request(ids: list[Any], expected: str) -> None:
    model = Model()
    rows = [{"id": one, "text": str(number)} for number, one in enumerate(ids)]
    with pytest.raises(RowsError, match=expected):
        map_rows(create(Desk, model).ticket, iter(rows), key="id").run()
    assert model.asked == []


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationError("wrong key", status=401),
        RateLimitError("insufficient_quota", status=429, retryable=False),
    ],
)
def test_errors_after_which_no_row_can_succeed_end_the_run(error: Exception, tmp_path: Path) -> None:
    model, to = Model(), tmp_path / "out.jsonl"
    desk = create(Desk, model)
    map_rows(desk.ticket, table("a"), to=to, max_concurrency=1)
    model._errors.append(error)
    with pytest.raises(RowsError) as caught:
        map_rows(desk.ticket, table("a", "b", "c", "d"), to=to, max_concurrency=1)
    message = str(caught.value)
    assert message.startswith(
        f"Desk.ticket: the run stopped after 1 row; their answers are in {to}.journal. The reason: no other "
        f"row can succeed. {type(error).__name__}: "
    )
    assert message.endswith("When it is removed, the same call processes only the other rows")
    assert model.asked == ["a", "b"]
    map_rows(desk.ticket, table("a", "b", "c", "d"), to=to)
    assert sorted(model.asked[2:]) == ["b", "c", "d"]


class Broken(Model):
    """A model whose replies have no valid form, or cannot be read, until it is repaired."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def answer(self, request: ChatRequest) -> str:
        answer = super().answer(request)
        if self.kind == "unreadable":
            return "no ticket"
        if self.kind == "invalid":
            raise InvalidReplyError("not JSON")
        return answer


def test_the_same_error_of_the_provider_in_all_first_rows_ends_the_run() -> None:
    model, texts = Broken("invalid"), [f"fail {n}" for n in range(40)]
    with pytest.raises(RowsError) as caught:
        map_rows(create(Desk, model, retry=None).ticket, table(*map(str, range(40))), max_concurrency=1).run()
    assert (
        "The reason: the first 5 rows have the same error; to continue, pass max_failures=1.0. Invalid"
        in str(caught.value)
    )
    assert len(model.asked) == 5
    desk = create(Desk, Broken("invalid"), retry=None)
    assert map_rows(desk.ticket, table(*map(str, range(60))), max_failures=1.0).run().errors == 60
    # rows that are refused for their content say nothing about the others
    assert map_rows(create(Desk, Model()).ticket, table(*texts), max_concurrency=1).run().errors == 40


def test_a_spent_budget_ends_a_run_and_says_how_to_go_on(tmp_path: Path) -> None:
    desk, to = create(Desk, Model()), tmp_path / "out.jsonl"
    texts = table(*map(str, range(30)))
    with pytest.raises(RowsError) as caught:
        map_rows(desk.ticket, texts, to=to, budget=Budget(requests=10), max_failures=1.0)
    assert str(caught.value).endswith(
        "The reason: BudgetExceededError: the budget of the run is used up: 10 of 10 requests sent; raise "
        "budget=Budget(requests=…). With a new budget, the same call processes only the other rows"
    )
    rows = map_rows(desk.ticket, texts)
    with (
        pytest.raises(RowsError, match=r"raise SharedBudget\(requests=…\).*nothing is stored"),
        SharedBudget(requests=10),
    ):
        rows.run()
    assert 0 < rows.run().cached < 20  # the object keeps what was answered


def test_a_run_that_stopped_asks_again_when_the_model_is_repaired(tmp_path: Path) -> None:
    model, to = Broken("unreadable"), tmp_path / "out.jsonl"
    desk = create(Desk, model)
    texts = [str(number) for number in range(120)]
    with pytest.raises(RowsError, match=r"100% of 50 rows have an error, more than max_failures=0\.5"):
        map_rows(desk.ticket, table(*texts), to=to)
    model.kind, model.asked = "", []
    rows = map_rows(desk.ticket, table(*texts), to=to)
    assert (rows.summary.rows, rows.summary.errors) == (120, 0)
    assert rows.summary.requests == len(model.asked)


def test_recorded_replies_that_cannot_be_read_are_not_used_again(tmp_path: Path) -> None:
    model, to = Broken("unreadable"), tmp_path / "out.jsonl"
    desk = create(Desk, model)
    assert map_rows(desk.ticket, table("a"), to=to).summary.errors == 1
    journal = tmp_path / "out.jsonl.journal"
    lines = [line for line in journal.read_bytes().splitlines(keepends=True) if b'"done"' not in line]
    journal.write_bytes(b"".join(lines))  # as if the process had been killed before the row was finished
    model.kind, model.asked = "", []
    rows = map_rows(desk.ticket, table("a"), to=to)
    assert (rows.summary.errors, rows.summary.requests, len(model.asked)) == (0, 1, 1)


def test_reading_a_finished_run_sends_and_changes_nothing(tmp_path: Path) -> None:
    model, to = Broken("unreadable"), tmp_path / "out.jsonl"
    rows = map_rows(create(Desk, model).ticket, table("a", "b", "fail"), to=to, retry_failed=True)
    summary, asked, written = str(rows.summary), len(model.asked), to.stat().st_mtime_ns
    assert [row.error is None for row in rows] == [False, False, False]
    assert (str(rows.summary), len(model.asked), to.stat().st_mtime_ns) == (summary, asked, written)


def test_too_many_failed_rows_end_the_run() -> None:
    texts = [f"fail {number}" if number % 3 else f"{number}" for number in range(200)]
    with pytest.raises(RowsError, match="the run stopped after"):
        map_rows(create(Desk, Model()).ticket, table(*texts), max_concurrency=2).run()
    summary = map_rows(create(Desk, Model()).ticket, table(*texts), max_failures=0.9).run()
    assert (summary.rows, summary.errors) == (200, 133)


def test_the_budget_of_a_run_is_exceeded_by_no_more_than_the_requests_in_flight(tmp_path: Path) -> None:
    model = Model()
    budget = Budget(requests=10)
    with pytest.raises(RowsError, match=r"BudgetExceededError: .*10 of 10 requests sent"):
        map_rows(
            create(Desk, model).ticket, table(*map(str, range(50))), budget=budget, max_concurrency=3
        ).run()
    assert 10 <= len(model.asked) <= 13
    prices = {"scripted": Price(1e6, 1e6)}
    rows = map_rows(create(Desk, Model()).ticket, table("a", "b"), budget=Budget(money=1e9, prices=prices))
    assert rows.run().limits_left["money"] < 1e9
    assert rows.summary.cost > 0


def test_a_row_that_takes_too_long_has_an_error_and_holds_up_no_other() -> None:
    class Slow(Model):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            if "slow" in request.messages[-1].text:
                await asyncio.sleep(30)
            return self.complete(request)

    rows = map_rows(create(Desk, Slow()).ticket, table("slow", *"abc"), row_timeout=0.2)
    by_number = {row.number: row for row in rows}
    assert str(by_number[0].error) == "TimeoutError: the row has no answer after 0.2 seconds"
    assert teams([by_number[number] for number in (1, 2, 3)]) == ["a", "b", "c"]


def test_an_iteration_can_be_ended_early() -> None:
    model = Model()
    for row in map_rows(create(Desk, model).ticket, table(*map(str, range(10_000)))):
        assert row.value
        break
    assert len(model.asked) < 5_000


def test_a_row_that_was_interrupted_gets_its_recorded_replies_again(tmp_path: Path) -> None:
    """The first reply cannot be read; the process ends before the second arrives."""

    replies = iter(["no ticket", KeyboardInterrupt()])

    def first(request: ChatRequest) -> str:
        reply = next(replies)
        if isinstance(reply, BaseException):
            raise AuthenticationError("stop", status=401)
        return reply

    asked: list[int] = []

    def second(request: ChatRequest) -> str:
        asked.append(len(request.messages))
        return '{"team": "a", "urgent": false}'

    to = tmp_path / "out.jsonl"
    with pytest.raises(RowsError):
        map_rows(create(Desk, ScriptedChatModel(first)).ticket, table("a"), to=to)
    rows = list(map_rows(create(Desk, ScriptedChatModel(second)).ticket, table("a"), to=to))
    assert rows[0].value == Ticket("a", False)
    assert asked == [3]  # the question, the first reply and its problems: the first request is not sent again


def test_probabilities_are_kept_in_the_journal(tmp_path: Path) -> None:
    to = tmp_path / "out.jsonl"
    model = FakeChatModel(values={Decision[bool]: Decision(True, {True: 0.8, False: 0.2})})
    desk = create(Desk, model)
    (first,) = map_rows(desk.is_question, [{"text": "Why?"}], journal=to)
    (second,) = map_rows(desk.is_question, [{"text": "Why?"}], journal=to)
    assert (first.cached, second.cached) == (False, True)
    assert first.value == second.value
    assert (
        first.probabilities
        == second.probabilities
        == {"$": {True: pytest.approx(0.8), False: pytest.approx(0.2)}}
    )


class Part(BaseModel):
    name: str
    size: int = 1


@dataclass
class Order:
    parts: list[Part]
    named: dict[str, Part | None]


class Shop(Protocol):
    @user_message("{{text}}")
    def order(self, text: str) -> Order: ...


def test_the_journal_knows_which_fields_of_a_model_were_set(tmp_path: Path) -> None:
    reply = '{"parts": [{"name": "a"}, {"name": "b", "size": 1}], "named": {"x": {"name": "c"}, "y": null}}'
    shop, to = create(Shop, ScriptedChatModel(lambda request: reply)), tmp_path / "journal"
    for _ in range(2):
        (row,) = map_rows(shop.order, [{"text": "a"}], journal=to)
        models = [*row.value.parts, row.value.named["x"]]
        assert [sorted(one.model_fields_set) for one in models] == [["name"], ["name", "size"], ["name"]]


class Pictures(Protocol):
    @user_message("Which team?")
    def team(self, picture: Image) -> str: ...


def test_images_are_read_from_paths_and_bytes(tmp_path: Path) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(20)
    (tmp_path / "a.png").write_bytes(png)
    model = ScriptedChatModel(lambda request: "ok")
    rows = [{"picture": str(tmp_path / "a.png")}, {"picture": png + b"2"}, {"picture": "missing.png"}]
    found = sorted(map_rows(create(Pictures, model).team, rows), key=lambda row: row.number)
    assert [row.error is None for row in found] == [True, True, False]
    assert "column picture: an image cannot be read: there is no file 'missing.png'" in str(found[2].error)


def test_texts_of_a_csv_file_are_converted_for_their_parameters(tmp_path: Path) -> None:
    class Level(Enum):
        LOW = "low"
        HIGH = "high"

    seen: list[Any] = []

    class Typed(Protocol):
        @user_message("{{count + 1}} {{level.name}} {{day.year if day else 'none'}}")
        def text(self, count: int, level: Level, day: date | None = None) -> str: ...

    (tmp_path / "in.csv").write_text("count,level,day\n41,high,2026-11-23\n7,low,\nx,low,\n")

    def answer(request: ChatRequest) -> str:
        seen.append(request.messages[-1].text)
        return "ok"

    service = create(Typed, ScriptedChatModel(answer))
    rows = sorted(map_rows(service.text, tmp_path / "in.csv"), key=lambda row: row.number)
    assert sorted(seen) == ["42 HIGH 2026", "8 LOW none"]
    assert str(rows[2].error) == "ValueError: column count: 'x' is not int"


class Cells(Protocol):
    @user_message("{{text}} {{size}} {{price}} {{day}} {{note}} {{code}}")
    def read(
        self,
        text: str,
        size: int = 0,
        price: Decimal = Decimal(0),
        day: date = date(2026, 1, 1),
        note: str | None = None,
        code: Annotated[str, StringConstraints(pattern="^[A-Z]+$")] = "A",
    ) -> Ticket: ...


def kinds_of_tables(cells: dict[str, Any], folder: Path) -> dict[str, Any]:
    (folder / "in.jsonl").write_text(json.dumps(cells, default=str) + "\n")
    with (folder / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(cells), ["" if one is None else one for one in cells.values()]])
    columns = {name: [value] for name, value in cells.items()}
    return {
        "dicts": [cells],
        "JSONL": folder / "in.jsonl",
        "CSV": folder / "in.csv",
        "Arrow": pyarrow.table(columns),
        "pandas": pandas.DataFrame(columns),
        "polars": polars.DataFrame(columns),
    }


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"text": "a", "size": 2.5}, "column size: {} is not int"),
        ({"text": "a", "size": "maybe"}, "column size: 'maybe' is not int"),
        ({"text": "a", "size": None}, "column size: the cell is empty (null), but the parameter is int; "),
        ({"text": "a", "size": math.nan}, "column size: "),
        ({"text": "a", "code": "b1"}, "column code: 'b1' is not "),
        ({"text": "a", "day": "2026-02-30"}, "column day: '2026-02-30' is not date"),
    ],
)
def test_cells_of_all_tables_are_checked_by_the_annotation(
    cells: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    model = Model()
    for kind, source in kinds_of_tables(cells, tmp_path).items():
        if kind in ("JSONL", "CSV") and cells.get("size") != cells.get("size"):
            continue  # they have no NaN
        (row,) = map_rows(create(Cells, model).read, source)
        assert row.error is not None
        found = "'2.5'" if kind == "CSV" else "2.5"
        assert row.error.message.startswith(expected.format(found)), kind
    assert model.asked == []


def test_cells_of_all_tables_are_converted_by_the_annotation(tmp_path: Path) -> None:
    cells = {"text": "a", "size": 2, "price": 1.25, "day": "2026-02-28", "note": None, "code": "B"}
    for kind, source in kinds_of_tables(cells, tmp_path).items():
        model = ScriptedChatModel(['{"team": "a", "urgent": true}'])
        (row,) = map_rows(create(Cells, model).read, source)
        assert row.error is None, kind
        note = "" if kind == "CSV" else "None"
        prompt = model.requests[0].messages[-1].text
        assert prompt.partition("\n")[0].replace("none", "None") == f"a 2 1.25 2026-02-28 {note} B", kind


def test_bytes_are_text_only_if_they_are_utf8() -> None:
    good, bad = "für".encode(), b"\xff"
    frames = [
        [{"text": good}, {"text": bad}],
        pyarrow.table({"text": pyarrow.array([good, bad], pyarrow.binary())}),
        polars.DataFrame({"text": [good, bad]}),
        pandas.DataFrame({"text": [good, bad]}),
    ]
    for table in frames:
        model = Model()
        rows = sorted(map_rows(create(Cells, model).read, table), key=lambda row: row.number)
        errors = [row.error and row.error.message for row in rows]
        assert errors == [None, "column text: b'\\xff' is not str"]
        assert [request.messages[-1].text.split()[0] for request in model.requests] == ["für"]


def test_half_of_a_surrogate_pair_may_be_in_a_key(tmp_path: Path) -> None:
    rows = [{"text": "a", "id": "\ud800"}, {"text": "b", "id": "\ud801"}]
    to = tmp_path / "out.jsonl"
    for requests in (2, 0):
        made = map_rows(create(Desk, Model()).ticket, rows, key="id", to=to)
        assert (made.summary.requests, made.summary.errors) == (requests, 0)


def test_numbers_of_json_keep_their_digits(tmp_path: Path) -> None:
    model = ScriptedChatModel(['{"team": "a", "urgent": true}'])
    (tmp_path / "in.jsonl").write_text('{"text": "a", "price": 12345678901234567.10}\n')
    (row,) = map_rows(create(Cells, model).read, tmp_path / "in.jsonl")
    assert row.error is None
    assert "12345678901234567.10" in model.requests[0].messages[-1].text
    (tmp_path / "in.jsonl").write_text('{"text": "a", "weight": 1.50, "sizes": [2.0e3]}\n')
    found = map_rows(
        create(Desk, Model()).ticket, tmp_path / "in.jsonl", columns={"lang": "text"}
    ).dataframe()
    assert found.select(["weight", "sizes"]).to_pylist() == [{"weight": 1.5, "sizes": [2000.0]}]


def test_numbers_in_lists_and_objects_of_json_keep_their_digits(tmp_path: Path) -> None:
    class Prices(Protocol):
        @user_message("{{prices}}")
        def sum(self, prices: list[dict[str, Decimal]]) -> str: ...

    model = ScriptedChatModel(["a"])
    (tmp_path / "in.jsonl").write_text('{"prices": [{"a": 12345678901234567.10, "b": 2, "c": 0.5}]}\n')
    (row,) = map_rows(create(Prices, model).sum, tmp_path / "in.jsonl")
    assert row.error is None
    assert "12345678901234567.10" in model.requests[0].messages[-1].text


def test_whole_numbers_and_days_of_pandas_columns_fit_int_and_date() -> None:
    frame = pandas.DataFrame(
        {"text": ["a", "b"], "size": [2, None], "day": pandas.to_datetime(["2026-02-28", "2026-03-01"])}
    )
    rows = sorted(map_rows(create(Cells, Model()).read, frame), key=lambda row: row.number)
    assert [row.error is None for row in rows] == [True, False]


def test_a_null_cell_can_have_null_as_its_answer(tmp_path: Path) -> None:
    model, to = Model(), tmp_path / "out.jsonl"
    frame = pandas.DataFrame({"text": ["a", None, math.nan]})
    rows = map_rows(create(Desk, model).ticket, frame, to=to, nulls="null")
    assert (rows.summary.errors, rows.summary.requests, len(model.asked)) == (0, 1, 1)
    lines = [json.loads(line) for line in to.read_text().splitlines()]
    assert [(line["team"], line["urgent"], line["error"]) for line in lines] == [
        ("a", True, None),
        (None, None, None),
        (None, None, None),
    ]
    assert rows.dataframe()["team"].isna().tolist() == [False, True, True]
    with pytest.raises(DefinitionError, match='nulls is \'skip\'; it must be "error" or "null"'):
        map_rows(create(Desk, model).ticket, frame, nulls="skip")  # type: ignore[call-overload]


def test_the_progress_goes_to_a_function() -> None:
    seen: list[str] = []
    map_rows(create(Desk, Model()).ticket, table("a", "b"), progress=lambda one: seen.append(str(one))).run()
    assert seen[-1].startswith("2 of 2 rows, ")


def test_an_estimate_gives_ranges_and_its_rows_are_not_asked_again(tmp_path: Path) -> None:
    model, to = Model(), tmp_path / "out.jsonl"
    desk = create(Desk, model)
    rows = table(*[str(number % 80) for number in range(100)])
    budget = Budget(money=1e9, prices={"scripted": Price(1.0, 2.0)})
    found = estimate(desk.ticket, rows, sample=40, to=to, budget=budget)
    assert (found.rows, found.to_ask, found.sample, len(model.asked)) == (100, 80, 40, 40)
    assert found.requests == (80, 80, 80)
    assert found.cost is not None
    assert found.output_tokens.low <= found.output_tokens.expected <= found.output_tokens.high
    assert not to.exists()
    map_rows(desk.ticket, rows, to=to)
    assert len(model.asked) == 80


def test_unsure_answers_are_reviewed_by_people_whose_answers_are_used(tmp_path: Path) -> None:
    to, review = tmp_path / "out.csv", tmp_path / "review.csv"
    model = ScriptedChatModel(
        lambda request: probably(0.6 if "odd" in request.messages[-1].text else 0.95), capabilities=LOGPROBS
    )
    desk = create(Desk, model, thresholds={"is_question": 0.9})
    rows = map_rows(desk.is_question, table("a", "odd", "odd", "b"), key="id", to=to, review=review)
    assert rows.summary.unsure == 2
    assert [row.value.at() for row in rows] == [True, None, None, True]  # read from the journal
    lines = review.read_text().splitlines()
    assert lines[0] == "row id,id,text,answer,probability,reviewed answer"
    assert lines[1].split(",")[1:] == ["1", "odd", "true", "0.6000", ""]
    review.write_text("\n".join([lines[0], f"{lines[1]}false", lines[2]]))
    again = map_rows(desk.is_question, table("a", "odd", "odd", "b"), key="id", to=to, reviewed=review)
    assert [(row.value.value, row.reviewed) for row in again][:2] == [(True, False), (False, True)]
    assert "1,odd,false," in to.read_text()
    review.write_text(f"{lines[0]}\n{lines[1]}perhaps\n")
    with pytest.raises(RowsError, match=r"review.csv, line 2: 'perhaps' is not "):
        map_rows(desk.is_question, table("a"), reviewed=review)


def test_more_concurrency_than_rows_may_be_ahead() -> None:
    desk = create(Desk, FakeChatModel(0))
    table = [{"text": str(number)} for number in range(3)]
    assert [row.number for row in map_rows(desk.ticket, table, ordered=True, max_concurrency=1500)] == [
        0,
        1,
        2,
    ]
