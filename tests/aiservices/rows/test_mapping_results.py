"""map_rows and amap_rows return the same object, from which the rows of a run can be read again and again."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas
import pytest

from aiservices import (
    BadRequestError,
    Budget,
    ChatRequest,
    Price,
    ResponseCache,
    ScriptedChatModel,
    create,
    user_message,
)
from aiservices.rows import Row, Rows, RowsError, amap_rows, map_rows


@dataclass
class Ticket:
    team: str
    urgent: bool


class Desk(Protocol):
    @user_message("Which team answers this? {{text}}")
    def ticket(self, text: str) -> Ticket: ...


def model() -> ScriptedChatModel:
    def answer(request: ChatRequest) -> str:
        text = request.messages[-1].text.partition("? ")[2]
        if "fail" in text:
            raise BadRequestError("no", status=413)
        return json.dumps({"team": text, "urgent": True})

    return ScriptedChatModel(answer)


TEXTS = ("a", "fail", "b", "a", None, "c")
SETTINGS: dict[str, Any] = {"budget": Budget(money=1e9, prices={"scripted": Price(1.0, 1.0)})}


def table(*texts: object) -> list[dict[str, Any]]:
    return [{"id": number, "text": text} for number, text in enumerate(texts)]


def blocking(*args: Any, **settings: Any) -> Rows[Any]:
    rows = map_rows(*args, **settings)
    rows.run()
    return rows


def awaited(*args: Any, **settings: Any) -> Rows[Any]:
    async def run() -> Rows[Any]:
        return await amap_rows(*args, **settings)

    return asyncio.run(run())


BOTH = pytest.mark.parametrize("run", [blocking, awaited])


def in_order(rows: Iterator[Row[Any]] | list[Row[Any]]) -> list[tuple[Any, ...]]:
    def parts(row: Row[Any]) -> tuple[Any, ...]:
        outcome = row.value if row.error is None else str(row.error)
        numbers = (row.usage, row.cost, row.attempts, row.seconds, row.cached, row.reviewed)
        return row.number, row.key, row.inputs, outcome, *numbers, row.probabilities

    return [parts(row) for row in sorted(rows, key=lambda row: row.number)]


@BOTH
def test_both_functions_return_the_same_object(run: Callable[..., Rows[Any]], tmp_path: Path) -> None:
    for settings in ({}, {"to": tmp_path / f"{run.__name__}.jsonl"}, {"key": "id"}):
        rows = run(create(Desk, model()).ticket, table(*TEXTS), **SETTINGS, **settings)
        assert type(rows) is Rows
        assert (len(rows), rows.summary.rows, rows.summary.errors) == (6, 6, 2)
        assert (rows[0].value, rows[-1].value.team, rows[3].cached) == (Ticket("a", True), "c", True)
        assert [row.number for row in rows[1:4]] == [1, 2, 3]
        assert list(rows.dataframe().column("team").to_pylist()) == ["a", None, "b", "a", None, "c"]
        assert [row.number for row in rows] == [0, 1, 2, 3, 4, 5]


def test_a_second_iteration_gives_the_numbers_of_the_run() -> None:
    rows = map_rows(create(Desk, model()).ticket, table(*TEXTS), nulls="null", **SETTINGS)
    first = in_order(list(rows))
    summary = str(rows.summary)
    assert [one[6] for one in first] == [1, 1, 1, 0, 0, 1]  # the attempts
    assert in_order(list(rows)) == first == in_order(rows[:])
    assert str(rows.summary) == summary
    assert first[0][5] > 0  # the cost


def test_answers_of_a_response_cache_stay_cached_when_they_are_read_again(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    desk = create(Desk, model())
    map_rows(desk.ticket, table("a"), cache=cache).run()
    rows = map_rows(desk.ticket, table("a"), cache=cache)
    first = in_order(list(rows))
    assert (first[0][8], in_order(list(rows))) == (True, first)


def test_answers_of_people_are_read_again(tmp_path: Path) -> None:
    desk = create(Desk, model())
    review = tmp_path / "review.csv"
    map_rows(desk.ticket, table("a", "b"), review=review, unsure_below=0.9).run()
    rows = map_rows(desk.ticket, table("a", "b"), reviewed=review)
    assert in_order(list(rows)) == in_order(list(rows))


def test_other_runs_do_not_change_what_is_read_again(tmp_path: Path) -> None:
    desk, journal = create(Desk, model()), tmp_path / "journal"
    rows = map_rows(desk.ticket, table("a", "b"), journal=journal)
    first = in_order(list(rows))
    map_rows(desk.ticket, table("b", "c", "d"), journal=journal).run()
    assert in_order(list(rows)) == first
    journal.unlink()
    with pytest.raises(RowsError, match=r"the journal .* cannot be opened: No such file"):
        list(rows)


def test_a_generator_is_processed_once_and_read_again() -> None:
    rows = map_rows(create(Desk, model()).ticket, iter(table("a", "b", "c")))
    with pytest.raises(TypeError, match="the number of rows is not known before they are processed"):
        len(rows)
    assert len(list(rows)) == 3
    assert (len(rows), rows[2].value.team, [row.value.team for row in rows]) == (3, "c", ["a", "b", "c"])


def test_the_number_of_rows_is_known_before_they_are_processed() -> None:
    scripted = model()
    rows = map_rows(create(Desk, scripted).ticket, table(*"abcde"), limit=3)
    assert (len(rows), scripted.requests) == (3, [])
    assert (rows[-1].value.team, len(rows)) == ("c", 3)
    with pytest.raises(IndexError, match="there is no row 3; there are 3 rows"):
        rows[3]


def test_an_index_reads_only_a_part_of_many_rows() -> None:
    rows = map_rows(create(Desk, model()).ticket, table(*map(str, range(2500))))
    rows.run()
    assert [rows[number].value.team for number in (0, 999, 1000, 2499, -1)] == [
        "0",
        "999",
        "1000",
        "2499",
        "2499",
    ]
    assert [row.value.team for row in rows[2499:0:-1249]] == ["2499", "1250", "1"]


def test_a_notebook_shows_the_summary_and_the_first_rows_without_a_request() -> None:
    scripted = model()
    rows = map_rows(create(Desk, scripted).ticket, table("<b>a</b>", *"fail b c d e f g h i j k".split()))
    assert rows._repr_html_() == "<p>&lt;Rows of Desk.ticket, not processed yet&gt;</p>"
    assert scripted.requests == []
    rows.run()
    page = rows._repr_html_()
    assert "12 rows: 11 answered, 1 with an error" in page
    assert "<th>id</th><th>text</th><th>team</th><th>urgent</th><th>error</th>" in page
    assert "<td>0</td><td>&lt;b&gt;a&lt;/b&gt;</td><td>&lt;b&gt;a&lt;/b&gt;</td><td>true</td>" in page
    assert page.count("<tr>") == 11
    assert repr(rows) == "<Rows of Desk.ticket: 12 rows, 1 error>"


def test_a_dataframe_can_be_made_in_an_event_loop() -> None:
    async def run() -> Any:
        return (
            await amap_rows(create(Desk, model()).ticket, pandas.DataFrame({"text": ["a", "b"]}))
        ).dataframe()

    assert list(asyncio.run(run()).team) == ["a", "b"]


def test_a_limit_ends_an_iterator_without_an_end() -> None:
    endless = ({"text": str(number)} for number in itertools.count())
    rows = map_rows(create(Desk, model()).ticket, endless, limit=3)
    assert [row.value.team for row in sorted(rows, key=lambda row: row.number)] == ["0", "1", "2"]
    assert len(rows) == 3


def test_rows_after_the_limit_are_not_read(tmp_path: Path) -> None:
    path, desk = tmp_path / "t.csv", create(Desk, model())
    path.write_text("id,text\n1,a\n2,b\n3\n")
    for key in (None, "id"):
        assert len(map_rows(desk.ticket, path, key=key, limit=2, to=tmp_path / f"{key}.jsonl")) == 2
    with pytest.raises(RowsError, match="line 4: the row has 1 fields, but the header has 2"):
        map_rows(desk.ticket, path).run()
