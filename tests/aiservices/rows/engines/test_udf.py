"""A service method as a function over Arrow data, for Ray Data and dataframes of Spark."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest
from engine_desk import Clock, Desk, LoggingModel, asked, table
from pydantic import AwareDatetime, NaiveDatetime

from aiservices import (
    AuthenticationError,
    Budget,
    Decision,
    DefinitionError,
    Limits,
    create,
    user_message,
)
from aiservices.models.requests import ChatRequest
from aiservices.models.scripted import ScriptedChatModel
from aiservices.rows import RowsError, as_udf, map_rows
from aiservices.testing import FakeChatModel

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: install the extra tables of aiservices")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
pytest.importorskip("cloudpickle", reason="cloudpickle is not installed: install the extra ray of aiservices")


@dataclass
class Line:
    text: str
    amount: Decimal


@dataclass
class Ticket:
    kind: Literal["bug", "wish"]
    due: date
    at: datetime
    lines: list[Line]
    tags: dict[str, int]
    note: str | None
    code: int | str


class Tickets(Protocol):
    @user_message("Sort {{text}}")
    def ticket(self, text: str) -> Ticket: ...

    @user_message("Sort {{text}}")
    def kind(self, text: str) -> Decision[Literal["bug", "wish"]]: ...


TYPES = {
    "kind": pa.string(),
    "due": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "lines": pa.list_(pa.struct([("text", pa.string()), ("amount", pa.decimal128(38, 18))])),
    "tags": pa.map_(pa.string(), pa.int64()),
    "note": pa.string(),
    "code": pa.string(),
}
INPUT = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "text": ["a", "b", "a"]})


def test_the_answers_are_columns_with_the_types_of_the_return_type() -> None:
    desk = create(Tickets, FakeChatModel(1))
    udf = as_udf(desk.ticket)
    result = udf(INPUT)
    assert result.schema == udf.schema(INPUT.schema)
    assert dict(zip(result.schema.names, result.schema.types, strict=True)) == {
        "id": pa.int32(),
        "text": pa.string(),
        **TYPES,
        "error": pa.string(),
    }
    first, second, third = result.to_pylist()
    assert first["error"] is None
    assert {**first, "id": 3} == third
    expected = desk.ticket("b")
    assert (second["kind"], second["due"]) == (expected.kind, expected.due)
    assert second["at"] == expected.at.replace(tzinfo=UTC)
    assert [one["amount"] for one in second["lines"]] == [one.amount for one in expected.lines]
    assert dict(second["tags"]) == expected.tags


def test_batches_are_answered_one_after_another() -> None:
    udf = as_udf(create(Tickets, FakeChatModel(1)).kind)
    batches = udf(iter(INPUT.to_batches(max_chunksize=1)))
    assert [batch.column("id").to_pylist() for batch in batches] == [[1], [2], [3]]


def test_a_decision_has_a_column_with_its_probability() -> None:
    result = as_udf(create(Tickets, FakeChatModel(1)).kind)(INPUT)
    assert result.schema.names == ["id", "text", "value", "probability", "source", "error"]
    assert result.column("probability").to_pylist() == [0.9, 0.9, 0.9]


def test_a_column_of_the_input_is_kept_beside_an_answer_of_the_same_name() -> None:
    source = INPUT.append_column("value", pa.array(["x", "y", "z"]))
    result = as_udf(create(Tickets, FakeChatModel(1)).kind)(source)
    assert result.column("value").to_pylist() == ["x", "y", "z"]
    assert "answer_value" in result.schema.names


def test_equal_rows_are_asked_once_and_an_error_is_in_its_row(tmp_path: Path) -> None:
    desk = create(Desk, LoggingModel(str(tmp_path / "log")))
    source = pa.table({"text": ["text 1", "text 9", "text 1", None]})
    result = as_udf(desk.team)(source).to_pylist()
    assert [row["value"] for row in result] == [1, None, 1, None]
    assert [row["error"] for row in result[:3]] == [None, "ValueError: no answer for this row", None]
    assert result[3]["error"] is not None
    assert len([number for _, number in asked(tmp_path / "log") if number == "1"]) == 1


@pytest.mark.parametrize(
    ("form", "reply", "tp", "value"),
    [
        (time, "10:00:00+02:00", pa.string(), "10:00:00+02:00"),
        (
            AwareDatetime,
            "2026-01-01T10:00:00Z",
            pa.timestamp("us", "UTC"),
            datetime(2026, 1, 1, 10, tzinfo=UTC),
        ),
        (NaiveDatetime | None, "2026-01-01T10:00:00", pa.timestamp("us"), datetime(2026, 1, 1, 10)),
    ],
)
def test_times_with_and_without_an_offset_have_columns(form: Any, reply: Any, tp: Any, value: Any) -> None:
    class Clock(Protocol):
        @user_message("When? {{text}}")
        def at(self, text: str) -> form: ...

    model = ScriptedChatModel(lambda request: json.dumps({"value": reply}))
    table = as_udf(create(Clock, model).at)(INPUT)
    assert table.schema.field("value").type == tp
    assert table.to_pylist()[0] == {"id": 1, "text": "a", "value": value, "error": None}


def test_a_value_that_the_column_cannot_hold_is_an_error_of_its_row() -> None:
    class Shop(Protocol):
        @user_message("How much? {{text}}")
        def price(self, text: str) -> Decimal: ...

    model = ScriptedChatModel(lambda request: f'{{"value": 0.{"1" * 40}}}')
    (row, *_) = as_udf(create(Shop, model).price)(INPUT).to_pylist()
    assert row["value"] is None
    assert re.match(r"column value: Decimal.* does not fit decimal128\(38, 18\)", row["error"])


@pytest.mark.parametrize("text", ["2026-01-01T10:00:00+02:00", "2026-01-01T08:00:00Z", "2026-01-01T08:00:00"])
def test_moments_are_in_utc(text: str, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, 8, tzinfo=UTC)
    for name, answer, expected in (("at", f'"{text}"', moment), ("all", f'["{text}", null]', [moment, None])):
        method = getattr(create(Clock, ScriptedChatModel(lambda _, a=answer: f'{{"value": {a}}}')), name)
        column = as_udf(method)(INPUT).column("value")
        map_rows(method, INPUT, to=tmp_path / f"{name}.parquet")
        stored = pq.read_table(tmp_path / f"{name}.parquet").column("value")
        assert column.type == stored.type
        assert column.to_pylist() == stored.to_pylist() == [expected] * 3


def test_null_cells_are_errors_or_have_null_as_their_answer(tmp_path: Path) -> None:
    desk = create(Desk, LoggingModel(str(tmp_path / "log")))
    source = pa.table({"text": ["text 1", None]})
    for nulls, error in (("error", "ValueError: column text: the cell is empty"), ("null", None)):
        first, second = as_udf(desk.team, nulls=nulls)(source).to_pylist()  # type: ignore[typeddict-item]
        assert (first["value"], first["error"], second["value"]) == (1, None, None)
        assert second["error"] is None if error is None else second["error"].startswith(error)
    assert {number for _, number in asked(tmp_path / "log")} == {"1"}
    with pytest.raises(DefinitionError, match='nulls is 1; it must be "error" or "null"'):
        as_udf(desk.team, nulls=1)  # type: ignore[arg-type]


def test_a_batch_that_is_processed_again_asks_for_nothing(tmp_path: Path) -> None:
    source = pa.Table.from_pylist([row for row in table(30) if row["id"] % 10 != 9])
    results = []
    for _ in range(2):
        desk = create(Desk, LoggingModel(str(tmp_path / "log")))
        results.append(as_udf(desk.team, journal=tmp_path / "journal")(source))
        assert len(asked(tmp_path / "log")) == 27
    assert results[0] == results[1]


def test_another_prompt_is_asked_again(tmp_path: Path) -> None:
    class Other(Protocol):
        @user_message("Another question: {{text}}")
        def team(self, text: str) -> int: ...

    source, log = pa.Table.from_pylist(table(5)), tmp_path / "log"
    for interface in (Desk, Other):
        desk: Any = create(interface, LoggingModel(str(log)))
        as_udf(desk.team, journal=tmp_path / "journal")(source)
    assert len(asked(log)) == 10


def test_limits_and_a_budget_hold(tmp_path: Path) -> None:
    desk = create(Desk, LoggingModel(str(tmp_path / "log")))
    udf = as_udf(desk.team, limits=Limits(max_concurrency=2), budget=Budget(requests=5))
    with pytest.raises(RowsError, match=r"no other row can succeed: .*5 of 5 requests sent"):
        udf(pa.Table.from_pylist(table(20)))
    assert len(asked(tmp_path / "log")) == 5


class WrongKeyModel(LoggingModel):
    async def acomplete(self, request: ChatRequest) -> Any:
        raise AuthenticationError("the key is wrong", retryable=False, status=401)


def test_an_error_of_all_rows_ends_the_job(tmp_path: Path) -> None:
    desk = create(Desk, WrongKeyModel(str(tmp_path / "log")))
    with pytest.raises(RowsError, match=r"Desk.team: no other row can succeed: .*the key is wrong"):
        as_udf(desk.team)(pa.Table.from_pylist(table(20)))


def test_a_udf_is_pickled_small(tmp_path: Path) -> None:
    udf = as_udf(create(Desk, LoggingModel(str(tmp_path / "log"))).team)
    data = pickle.dumps(udf)
    assert len(data) < 3000
    assert pickle.loads(data)(pa.Table.from_pylist(table(2))).column("value").to_pylist() == [0, 1]
    assert udf.__name__ == "Desk.team"
    assert repr(udf) == "<as_udf of Desk.team>"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: as_udf(m, columns={"other": "x"}), "columns names the parameter other"),
        (lambda m: as_udf(m, max_concurrency=0), "max_concurrency is 0"),
        (lambda m: as_udf(m, row_timeout=-1), "row_timeout is -1"),
        (lambda m: as_udf(m, limits=3), "limits is int; pass a Limits"),
        (lambda m: as_udf(m)(pa.table({"other": ["a"]})), "the table has no column text"),
    ],
)
def test_wrong_arguments_are_explained(make: Callable[[Any], object], message: str, tmp_path: Path) -> None:
    desk = create(Desk, LoggingModel(str(tmp_path / "log")))
    with pytest.raises(DefinitionError, match=message):
        make(desk.team)


@pytest.mark.engines
@pytest.mark.filterwarnings("ignore")
def test_ray_data_runs_a_udf(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed: make test-engines installs it")
    program = (
        "import ray, sys; ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False);"
        "from engine_desk import *; from aiservices.rows import as_udf;"
        "desk = create(Desk, LoggingModel(sys.argv[1])); "
        "rows = [one for one in table(40) if one['id'] % 10 != 9]; udf = as_udf(desk.team);"
        "data = ray.data.from_items(rows).map_batches(udf, batch_format='pyarrow', batch_size=10);"
        "print(sorted(row['value'] for row in data.take_all()))"
    )
    assert run_program(program, tmp_path) == str([number for number in range(40) if number % 10 != 9])
    assert len(asked(tmp_path / "log")) == 36


@pytest.mark.engines
@pytest.mark.filterwarnings("ignore")
def test_spark_has_moments_in_the_input_and_in_the_answer(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: make test-engines installs it")
    program = (
        "import sys; from engine_desk import *; from aiservices.rows import as_udf;"
        "from aiservices.testing import FakeChatModel; spark = spark_session();"
        "spark.conf.set('spark.sql.session.timeZone', 'Europe/Berlin');"
        "udf = as_udf(create(Clock, FakeChatModel(values={datetime: datetime(2026, 1, 1, 8)})).at);"
        "frame = spark.sql(\"select 'a' as text, timestamp'2026-01-01 09:30:00' as at\");"
        "answers = frame.mapInArrow(udf, udf.spark_schema(frame));"
        "print(answers.selectExpr('cast(at as string)', 'cast(value as string)').collect())"
    )
    assert run_program(program, tmp_path) == "[Row(at='2026-01-01 09:30:00', value='2026-01-01 09:00:00')]"


@pytest.mark.engines
@pytest.mark.filterwarnings("ignore")
def test_spark_runs_a_udf(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: make test-engines installs it")
    program = (
        "import sys; from engine_desk import *; from aiservices.rows import as_udf;"
        "spark = spark_session();"
        "desk = create(Desk, LoggingModel(sys.argv[1])); udf = as_udf(desk.team);"
        "frame = spark.createDataFrame([one for one in table(40) if one['id'] % 10 != 9]);"
        "answers = frame.mapInArrow(udf, udf.spark_schema(frame));"
        "print(sorted(row['value'] for row in answers.collect()))"
    )
    assert run_program(program, tmp_path) == str([number for number in range(40) if number % 10 != 9])
    assert len(asked(tmp_path / "log")) == 36


def run_program(program: str, folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", program, str(folder / "log")]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()[-1]
