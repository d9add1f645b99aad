"""map_rows sends its requests to the batch services of providers, and loses and repeats nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import pytest
from batch_desk import MODELS, Desk, MakeModel, Person, answer, table
from batch_server import BatchServer, Faults

from aiservices import Budget, DefinitionError, Price, ScriptedChatModel, create
from aiservices.rows import BatchEngine, Row, RowsError, estimate, map_rows

FAST = BatchEngine(poll=0.01)


def people(rows: list[Row[Person]]) -> dict[Any, Person]:
    return {row.key: row.value for row in rows}


EXPECTED = {number: Person(f"P{number}", number) for number in range(20)}


@pytest.fixture(params=MODELS)
def make_model(request: pytest.FixtureRequest) -> MakeModel:
    return MODELS[request.param]


def test_rows_are_answered_by_batches(make_model: MakeModel, tmp_path: Path) -> None:
    with BatchServer(answer) as server:
        desk = create(Desk, make_model(server.url))
        rows = map_rows(desk.person, table(20), key="id", journal=tmp_path / "journal", engine=FAST)
        assert people(list(rows)) == EXPECTED
        assert server.direct == []
        assert (len(server.batches), set(server.paid.values())) == (1, {1})
        assert (rows.summary.rows, rows.summary.requests, rows.summary.usage.input_tokens) == (20, 20, 200)
        assert server.files == {}
        assert len(server.deleted) == (2 if server.uploads else 1)  # of OpenAI: requests and responses
    assert list((tmp_path / "journal.batches").iterdir()) == []


def run(
    desk: Desk, journal: Path, rows: int = 20, engine: BatchEngine = FAST, **settings: Any
) -> tuple[dict[Any, Person], Any]:
    found = map_rows(desk.person, table(rows), key="id", journal=journal, engine=engine, **settings)
    return people(list(found)), found.summary


FAULTS = {
    "expired requests": Faults(expired=0.4),
    "passing errors": Faults(errors=0.4),
    "files that are found late": Faults(late_files=2),
    "too many requests in all batches": Faults(max_waiting=7),
    "a connection that ends after a batch was created": Faults(lost_answers=1),
    "a busy service": Faults(busy=3),
    "files that cannot be deleted": Faults(keeps=True),
    "lines that are no responses": Faults(
        odd_lines=(
            "",
            "[]",
            "null",
            "1",
            '"a"',
            "{}",
            "<html>",
            '{"custom_id": 1}',
            '{"custom_id": "no", "result": null}',
        )
    ),
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=list(FAULTS))
def test_nothing_is_lost_or_paid_twice(make_model: MakeModel, tmp_path: Path, faults: Faults) -> None:
    with BatchServer(answer, Faults(**vars(faults))) as server:
        engine = BatchEngine(poll=0.01, max_waves=50)
        found, _ = run(create(Desk, make_model(server.url)), tmp_path / "journal", engine=engine)
        assert found == EXPECTED
        assert (set(server.paid.values()), server.direct) == ({1}, [])


@pytest.mark.parametrize("size", [500, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_table_may_have_more_rows_than_are_in_work_at_once(size: int, tmp_path: Path) -> None:
    faults = Faults(expired=0.02, errors=0.02, refused="P7 ", max_waiting=size * 4 // 5)
    with BatchServer(answer, faults) as server:
        desk = create(Desk, MODELS["openai"](server.url), budget=Budget(max_attempts=1))
        engine = BatchEngine(poll=0.01, max_waves=50, max_requests=size * 3 // 5)
        rows = list(map_rows(desk.person, table(size), key="id", journal=tmp_path / "j", engine=engine))
        errors = {row.key for row in rows if row.error is not None}
        ages = {row.key: row.value.age for row in rows if row.error is None}
    assert errors == {7}
    assert ages == {number: number for number in range(size) if number != 7}
    assert (set(server.paid.values()), server.direct) == ({1}, [])


def test_equal_rows_are_in_one_batch_each_without_dedupe(tmp_path: Path) -> None:
    with BatchServer(answer) as server:
        equal = [{"text": "P1 is 1"}] * 3
        engine = BatchEngine(poll=0.01)
        method = create(Desk, MODELS["openai"](server.url)).person
        rows = map_rows(method, equal, journal=tmp_path / "journal", engine=engine, dedupe=False)
        assert [row.value for row in rows] == [Person("P1", 1)] * 3
        assert [len(batch.requests) for batch in server.batches.values()] == [3]


def test_what_asks_again_is_in_the_next_batch(make_model: MakeModel, tmp_path: Path) -> None:
    asked: list[str] = []

    def shy(prompt: str) -> str:
        asked.append(prompt)
        return "I do not know." if len(asked) <= 3 else '{"name": "Ann", "age": 42}'

    with BatchServer(shy) as server:
        rows = list(
            map_rows(
                create(Desk, make_model(server.url)).person,
                table(5),
                journal=tmp_path / "journal",
                engine=FAST,
            )
        )
        assert [row.value for row in rows] == [Person("Ann", 42)] * 5
        assert sorted(row.attempts for row in rows) == [1, 1, 2, 2, 2]
        assert [len(batch.requests) for batch in server.batches.values()] == [5, 3]


def test_a_refused_request_is_an_error_of_its_row(make_model: MakeModel, tmp_path: Path) -> None:
    with BatchServer(answer, Faults(refused="P7 ")) as server:
        rows = list(
            map_rows(
                create(Desk, make_model(server.url), budget=Budget(max_attempts=1)).person,
                table(20),
                journal=tmp_path / "journal",
                engine=FAST,
            )
        )
    (wrong,) = [row for row in rows if row.error is not None]
    assert wrong.error is not None
    assert (wrong.number, wrong.error.type) == (7, "BadRequestError")
    assert "the text is not allowed" in wrong.error.message


def test_an_error_of_all_requests_ends_the_run_and_is_not_kept(make_model: MakeModel, tmp_path: Path) -> None:
    with BatchServer(answer, Faults(denied="P7 ")) as server:
        desk = create(Desk, make_model(server.url))
        with pytest.raises(RowsError, match=r"AuthenticationError: .*the key is wrong"):
            run(desk, tmp_path / "journal")
        server.faults.denied = ""
        found, summary = run(desk, tmp_path / "journal")
        assert (found, set(server.paid.values()), summary.requests) == (EXPECTED, {1}, 1)


def test_responses_that_stay_missing_are_not_paid_again(tmp_path: Path) -> None:
    with BatchServer(answer, Faults(late_files=10**6)) as server:
        server.file_misses["file-0"] = 10**6  # the file of the requests is visible
        desk = create(Desk, MODELS["openai"](server.url))
        with pytest.raises(RowsError, match=r"batch_0 has no file of responses yet, .* 20 of its requests"):
            run(desk, tmp_path / "journal")
        server.faults.late_files = 0
        found, _ = run(desk, tmp_path / "journal")
        assert (found, len(server.batches), set(server.paid.values())) == (EXPECTED, 1, {1})


def test_a_second_run_goes_on_with_the_batches_of_the_first(make_model: MakeModel, tmp_path: Path) -> None:
    with BatchServer(answer, Faults(polls=10**6)) as server:
        desk = create(Desk, make_model(server.url))
        budget = Budget(seconds=0.2)
        with pytest.raises(RowsError, match="the batches that were submitted are not lost"):
            run(desk, tmp_path / "journal", budget=budget)
        server.faults.polls = 0
        found, summary = run(desk, tmp_path / "journal")
        assert found == EXPECTED
        assert (len(server.batches), set(server.paid.values()), summary.requests) == (1, {1}, 0)


def test_after_a_deadline_the_rows_are_asked_directly(make_model: MakeModel, tmp_path: Path) -> None:
    with BatchServer(answer, Faults(polls=10**6)) as server:
        engine = BatchEngine(poll=0.01, direct_after=0.7)  # a busy machine needs time to submit them
        found, _ = run(create(Desk, make_model(server.url)), tmp_path / "journal", engine=engine)
        assert found == EXPECTED
        assert (len(server.direct), len(server.cancelled), server.paid) == (20, 1, {})
    assert list((tmp_path / "journal.batches").iterdir()) == []


def test_after_the_last_wave_the_rows_are_asked_directly(make_model: MakeModel, tmp_path: Path) -> None:
    with BatchServer(answer, Faults(expired=1.0)) as server:
        engine = BatchEngine(poll=0.01, max_waves=2)
        found, _ = run(create(Desk, make_model(server.url)), tmp_path / "journal", engine=engine)
        assert found == EXPECTED
        assert (len(server.direct), len(server.batches)) == (20, 2)


def test_a_batch_costs_half(make_model: MakeModel, tmp_path: Path) -> None:
    prices = {"gpt-x": Price(1e6, 1e6), "claude-x": Price(1e6, 1e6), "gemini-x": Price(1e6, 1e6)}
    with BatchServer(answer) as server:
        rows = map_rows(
            create(Desk, make_model(server.url)).person,
            table(2),
            journal=tmp_path / "journal",
            engine=FAST,
            budget=Budget(money=1e9, prices=prices),
        )
        assert [row.cost for row in rows] == [6.0, 6.0]
        assert rows.summary.cost == 12.0


def test_an_estimate_of_batches_has_half_the_price_and_no_time(tmp_path: Path) -> None:
    with BatchServer(answer) as server:
        name = "openai:gpt-x"
        desk = create(Desk, MODELS["openai"](server.url))
        budget = Budget(prices={name: Price(input=1.0, output=1.0)})
        settings: Any = {"journal": tmp_path / "j", "budget": budget, "sample": 5}
        direct = estimate(desk.person, table(20), **settings)
        batches = estimate(desk.person, table(20), **settings | {"engine": FAST, "journal": tmp_path / "k"})
    assert direct.cost is not None
    assert batches.cost is not None
    assert batches.cost.expected == direct.cost.expected / 2
    assert batches.seconds is None
    assert str(batches).endswith("time: up to a day, often within an hour")


def test_the_budget_limits_what_is_in_batches(make_model: MakeModel, tmp_path: Path) -> None:
    with BatchServer(answer) as server:
        engine = BatchEngine(poll=0.01, max_requests=5)
        desk = create(Desk, make_model(server.url))
        with pytest.raises(RowsError, match="12 of 12 requests sent"):
            run(desk, tmp_path / "journal", engine=engine, budget=Budget(requests=12))
        assert sum(server.paid.values()) == 12
        found, summary = run(desk, tmp_path / "journal", engine=engine)
        assert (found, summary.requests, set(server.paid.values())) == (EXPECTED, 8, {1})


def test_a_batch_has_at_most_so_many_requests(make_model: MakeModel, tmp_path: Path) -> None:
    with BatchServer(answer) as server:
        run(
            create(Desk, make_model(server.url)),
            tmp_path / "journal",
            engine=BatchEngine(poll=0.01, max_requests=8),
        )
        assert sorted(len(batch.requests) for batch in server.batches.values()) == [4, 8, 8]


def test_equal_rows_are_one_request(make_model: MakeModel, tmp_path: Path) -> None:
    with BatchServer(answer) as server:
        rows = map_rows(
            create(Desk, make_model(server.url)).person,
            [{"text": "Ann is 42"}] * 5,
            journal=tmp_path / "journal",
            engine=FAST,
        )
        assert [row.value for row in rows] == [Person("Ann", 42)] * 5
        assert sum(server.paid.values()) == 1


def test_a_batch_that_the_provider_forgot_is_an_error(make_model: MakeModel, tmp_path: Path) -> None:
    with BatchServer(answer, Faults(polls=10**6)) as server:
        desk = create(Desk, make_model(server.url))
        with pytest.raises(RowsError):
            run(desk, tmp_path / "journal", budget=Budget(seconds=0.2))
        server.batches.clear()
        with pytest.raises(RowsError, match=r"no longer knows the batch .* \(.*\); delete .*\.json to send"):
            run(desk, tmp_path / "journal")
        for path in (tmp_path / "journal.batches").glob("*.json"):
            path.unlink()
        server.faults.polls = 0
        assert run(desk, tmp_path / "journal")[0] == EXPECTED


def test_an_output_is_written(make_model: MakeModel, tmp_path: Path) -> None:
    with BatchServer(answer) as server:
        map_rows(
            create(Desk, make_model(server.url)).person, table(3), to=tmp_path / "out.jsonl", engine=FAST
        )
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["age"] for line in lines] == [0, 1, 2]


def test_settings_that_do_not_fit_are_definition_errors(tmp_path: Path) -> None:
    class Clerk(Protocol):
        def person(self, text: str) -> Person: ...

    def weather(city: str) -> str:
        """The weather in a city."""
        return city

    model = MODELS["openai"]("http://127.0.0.1:9")
    journal = tmp_path / "journal"
    with pytest.raises(DefinitionError, match="scripted has no batch service"):
        map_rows(create(Clerk, ScriptedChatModel([])).person, table(1), journal=journal, engine=FAST)
    with pytest.raises(DefinitionError, match="needs a journal"):
        map_rows(create(Clerk, model).person, table(1), engine=FAST)
    with pytest.raises(DefinitionError, match="leave out ordered=True"):
        map_rows(create(Clerk, model).person, table(1), journal=journal, engine=FAST, ordered=True)
    with pytest.raises(DefinitionError, match="it has tools"):
        map_rows(create(Clerk, model, tools=[weather]).person, table(1), journal=journal, engine=FAST)
    with pytest.raises(DefinitionError, match=r"(?s)poll is 0; .*discount is 2"):
        BatchEngine(poll=0, discount=2)
