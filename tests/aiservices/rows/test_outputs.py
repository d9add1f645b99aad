"""Outputs hold the input and the answers, and have their names only when they are complete."""

from __future__ import annotations

import csv
import json
import math
import os
import resource
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from output_rows import cells, output_row

from aiservices import DefinitionError
from aiservices.models.errors import MissingExtraError
from aiservices.rows import Row, fields as fields_module
from aiservices.rows.fields import Fields, answer_columns, output_fields
from aiservices.rows.outputs import Output, open_output, to_dataframe
from aiservices.rows.row import RowsError
from aiservices.rows.tables import open_table
from output_parsers import Decision

ENDINGS = ["jsonl", "csv", "parquet", "arrow", "feather"]


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


@dataclass
class Part:
    name: str
    tags: list[str]


@dataclass
class Ticket:
    mood: Mood
    score: int
    amount: Decimal
    due: date | None
    part: Part
    urgent: Decision[bool]


TICKET = Ticket(
    Mood.BAD,
    7,
    Decimal("1.10"),
    date(2024, 1, 2),
    Part("Ann, Bo", ["x"]),
    Decision(True, {True: 0.75, False: 0.25}, source="logprobs"),
)
TABLE = {"id": [1, 2, 3], "text": ["a", "", None]}
ROWS = [{"id": 1, "text": "a"}, {"id": 2, "text": ""}, {"id": 3, "text": None}]


def fields_of(table: Any = TABLE, answer_type: Any = Ticket) -> Fields:
    return output_fields(open_table(table), answer_columns(answer_type))


def write_tickets(path: Path, fields: Fields) -> None:
    with open_output(path, fields) as output:
        assert output.write(cells(fields, ROWS[0], answer=TICKET)) is None
        assert output.write(cells(fields, ROWS[1], error=TimeoutError("too slow"))) == "too slow"
        assert output.write(cells(fields, ROWS[2], answer=TICKET)) is None


EMPTY_ANSWER = dict.fromkeys(["mood", "score", "amount", "due", "part", "urgent"])


def test_a_jsonl_file_has_an_object_for_each_row(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    write_tickets(path, fields_of())
    decision = {
        "value": True,
        "probabilities": [{"value": True, "probability": 0.75}, {"value": False, "probability": 0.25}],
        "source": "logprobs",
        "calibrated": False,
        "seen": 1.0,
    }
    answer = {
        "mood": "bad",
        "score": 7,
        "amount": 1.1,
        "due": "2024-01-02",
        "part": {"name": "Ann, Bo", "tags": ["x"]},
        "urgent": decision,
    }
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {**ROWS[0], **answer, "error": None},
        {**ROWS[1], **EMPTY_ANSWER, "error": "too slow"},
        {**ROWS[2], **answer, "error": None},
    ]
    assert '"amount": 1.10,' in path.read_text()
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_a_csv_file_distinguishes_null_from_an_empty_text(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    fields = fields_of(answer_type=Part)
    with open_output(path, fields) as output:
        for row, answer in zip(ROWS, [Part("Ann, Bo", ["x"]), Part(' "\n', []), Part("", [])], strict=True):
            output.write(cells(fields, row, answer=answer))
        output.write(cells(fields, {"id": 4, "text": "-"}, error="bad,\r\n"))
    assert path.read_bytes().decode() == (
        'id,text,name,tags,error\n1,a,"Ann, Bo","[""x""]",\n2,""," ""\n",[],\n3,,"",[],\n4,-,,,"bad,\r\n"\n'
    )
    with duckdb.connect() as connection:
        source = f"read_csv('{path}', header=true, allow_quoted_nulls=false)"
        rows = connection.execute(f"select text, name from {source}").fetchall()
    assert rows == [("a", "Ann, Bo"), ("", ' "\n'), (None, ""), ("-", None)]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_parquet_and_arrow_files_have_typed_columns(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    write_tickets(path, fields_of())
    table = open_table(path)
    assert {name: str(tp) for name, tp in table.types.items()} == {
        "id": "int64",
        "text": "string",
        "mood": "string",
        "score": "int64",
        "amount": "decimal128(38, 18)",
        "due": "date32[day]",
        "part": "struct<name: string, tags: list<item: string>>",
        "urgent": "struct<value: bool, probability: double, source: string>",
        "error": "string",
    }
    answer = {
        "mood": "bad",
        "score": 7,
        "amount": Decimal("1.10"),
        "due": date(2024, 1, 2),
        "part": {"name": "Ann, Bo", "tags": ["x"]},
        "urgent": {"value": True, "probability": 0.75, "source": "logprobs"},
    }
    assert list(table.rows()) == [
        {**ROWS[0], **answer, "error": None},
        {**ROWS[1], **EMPTY_ANSWER, "error": "too slow"},
        {**ROWS[2], **answer, "error": None},
    ]
    assert os.listdir(tmp_path) == [path.name]


def test_polars_and_duckdb_read_the_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    write_tickets(path, fields_of())
    assert pl.read_parquet(path)["part"].to_list()[0] == {"name": "Ann, Bo", "tags": ["x"]}
    with duckdb.connect() as connection:
        found = connection.execute(f"select part.name, urgent.probability, amount from '{path}'").fetchall()
    assert found[0] == ("Ann, Bo", 0.75, Decimal("1.100000000000000000"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_output_without_rows_is_a_complete_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    open_output(path, fields_of()).close()
    assert list(open_table(path).rows()) == []
    if ending != "jsonl":
        assert open_table(path).columns == fields_of().columns


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_an_integer_beyond_64_bits_is_an_error_of_its_row_alone(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    fields = fields_of(answer_type=int)
    message = (
        "column value: the integer 9223372036854775808 has more than 64 bits, which the file cannot hold"
    )
    with open_output(path, fields) as output:
        results = [output.write(cells(fields, ROWS[0], answer=number)) for number in (1, 2**63, -(2**63))]
    assert results == [None, message, None]
    assert [(row["value"], row["error"]) for row in open_table(path).rows()] == [
        (1, None),
        (None, message),
        (-(2**63), None),
    ]


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_answer_of_the_wrong_type_is_an_error_of_its_row(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    fields = fields_of(answer_type=Mood)
    with open_output(path, fields) as output:
        row = cells(fields, ROWS[0], answer=5)
        assert output.write(row) == 'column value: expected one of "good", "bad", found 5'


@pytest.mark.parametrize("ending", ENDINGS)
def test_columns_may_appear_in_later_rows(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields_module, "BATCH_ROWS", 1)
    path = tmp_path / f"out.{ending}"
    source = [{"id": 1}, {"id": 2, "text": "b, c"}, {"text": "", "id": None}]
    fields = fields_of(iter(source), Part)
    with open_output(path, fields) as output:
        for row in source:
            output.write(cells(fields, row, answer=Part("é\ud800", []) if row["id"] == 3 else Part("é", [])))
    rows = list(open_table(path).rows())
    if ending == "csv":
        assert path.read_text("utf-8") == ('id,text,name,tags,error\n1,,é,[],\n2,"b, c",é,[],\n,"",é,[],\n')
    else:
        answer = {"name": "é", "tags": [], "error": None}
        assert [{**dict.fromkeys(["id", "text"]), **row} for row in rows] == [
            {"id": 1, "text": None, **answer},
            {"id": 2, "text": "b, c", **answer},
            {"id": None, "text": "", **answer},
        ]
        if ending != "jsonl":
            assert list(rows[0]) == ["id", "text", "name", "tags", "error"]
    assert os.listdir(tmp_path) == [path.name]


def test_the_types_of_an_answer_may_change_after_rows_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields_module, "BATCH_ROWS", 1)
    answers = [None, Decimal("1.50"), Decimal("1e-19"), None]
    for ending in ("parquet", "arrow"):
        path = tmp_path / f"out.{ending}"
        fields = fields_of(answer_type=list[Decimal | None])
        with open_output(path, fields) as output:
            for answer in answers:
                output.write(cells(fields, ROWS[0], answer=[answer]))
        table = open_table(path)
        assert str(table.types["value"]) == "list<item: string>"
        assert [row["value"] for row in table.rows()] == [
            [None],
            ["1.5"],
            ["1E-19"],
            [None],
        ]
    assert sorted(os.listdir(tmp_path)) == ["out.arrow", "out.parquet"]


def test_a_null_column_gets_its_type_from_a_late_row(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    fields = fields_of({"id": [1], "note": [None]}, int)
    count = 2 * fields_module.BATCH_ROWS + 1
    with open_output(path, fields) as output:
        for number in range(count):
            output.write(cells(fields, {"id": number, "note": None if number < count - 1 else 1.5}, answer=1))
    with pq.ParquetFile(path) as file:
        assert str(file.schema_arrow.field("note").type) == "double"
        rows = [file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)]
        assert rows == [fields_module.BATCH_ROWS, fields_module.BATCH_ROWS, 1]
        assert file.read(["note"]).column(0).drop_null().to_pylist() == [1.5]


# --- files that are not complete ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_output_that_is_aborted_leaves_the_older_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    path.write_text("older")
    (tmp_path / "other.partial").write_text("other")
    (tmp_path / f"out.{ending}.partial.3").write_text("of a process that was killed")
    fields = fields_of(answer_type=int)
    with suppress(ZeroDivisionError), open_output(path, fields) as output:
        output.write(cells(fields, ROWS[0], answer=1))
        assert (tmp_path / f"out.{ending}.partial").exists()
        raise ZeroDivisionError
    assert sorted(os.listdir(tmp_path)) == ["other.partial", path.name]
    assert path.read_text() == "older"
    with open_output(path, fields) as output:
        assert path.read_text() == "older"
    assert path.read_bytes() != b"older"


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_full_disk_is_an_error_that_leaves_no_file(tmp_path: Path, ending: str) -> None:
    program = f"""
import resource, signal
from aiservices.rows.row import RowsError
from aiservices.rows.fields import Cells
from aiservices.rows.fields import answer_columns, output_fields
from aiservices.rows.outputs import open_output
from aiservices.rows.tables import open_table
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
table = open_table({{"id": [1]}})
fields = output_fields(table, answer_columns(str))
try:
    with open_output({str(tmp_path / f"out.{ending}")!r}, fields) as output:
        for number in range(20_000):
            output.write(Cells({{"id": number}}, [f"{{number * 7919 % 10007:0>40}}"], None))
except RowsError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.startswith(f"{tmp_path}/out.{ending} cannot be written: [Errno 27] ")
    assert done.stderr == ""
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "out.txt",
            "the output: 'out.txt' has an unknown ending; use one of .jsonl, .csv, .parquet, .arrow, "
            ".feather",
        ),
        ("missing/out.csv", "the output: {path} cannot be written: No such file or directory"),
        ("folder.csv", "the output: {path} cannot be written: {path} is a folder"),
    ],
)
def test_an_output_that_cannot_be_created_is_a_definition_error(
    tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DefinitionError) as caught:
        open_output(tmp_path / name, fields_of())
    assert str(caught.value) == message.format(path=tmp_path / name)


def test_without_pyarrow_a_parquet_output_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError) as caught:
        open_output(tmp_path / "out.parquet", fields_of())
    assert str(caught.value) == (
        'writing Arrow data needs the package pyarrow: pip install "aiservices[tables]"'
    )


@pytest.mark.slow
def test_a_million_rows_need_constant_memory(tmp_path: Path) -> None:
    fields = fields_of({"id": [1], "text": ["a"]}, Part)
    answer = Part("Ann", ["x"])
    with open_output(tmp_path / "out.parquet", fields) as output:
        for number in range(1_000_000):
            if number == 100_000:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            output.write(cells(fields, {"id": number, "text": "some text"}, answer=answer))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 50_000  # kilobytes


# --- what is written is read again --------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
TYPED = st.fixed_dictionaries(
    {
        "int": st.none() | st.integers(-(2**63), 2**63 - 1),
        "float": st.none() | st.floats(allow_nan=False),
        "text": st.none() | TEXTS,
        "day": st.none() | st.dates(),
        "moment": st.none() | st.datetimes(),
        "clock": st.none() | st.times(),
        "length": st.none() | st.timedeltas(timedelta(-1000), timedelta(1000)),
        "amount": st.none() | st.decimals(-1000, 1000, places=2),
        "list": st.none() | st.lists(st.none() | TEXTS, max_size=3),
        "record": st.none() | st.fixed_dictionaries({"x": st.none() | st.booleans()}),
    }
)
SCHEMA = pa.schema(
    {
        "int": pa.int64(),
        "float": pa.float64(),
        "text": pa.large_string(),
        "day": pa.date32(),
        "moment": pa.timestamp("us"),
        "clock": pa.time64("us"),
        "length": pa.duration("us"),
        "amount": pa.decimal128(10, 2),
        "list": pa.large_list(pa.string()),
        "record": pa.struct({"x": pa.bool_()}),
    }
)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@given(rows=st.lists(TYPED, max_size=4))
def test_a_typed_table_is_equal_after_it_was_written(
    tmp_path_factory: Any, ending: str, rows: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("out") / f"out.{ending}"
    source = open_table(pa.Table.from_pylist(rows, SCHEMA))
    fields = output_fields(source, answer_columns(int))
    with open_output(path, fields) as output:
        for row in source.rows():
            output.write(cells(fields, row, answer=1))
    table = open_table(path)
    assert [{name: row[name] for name in SCHEMA.names} for row in table.rows()] == rows
    assert {name: str(table.types[name]).replace("element", "item") for name in SCHEMA.names} == {
        part.name: str(part.type).replace("element", "item") for part in SCHEMA
    }


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_column_with_a_rare_arrow_type_can_be_written(tmp_path: Path, ending: str) -> None:
    source = pa.table(
        {
            "view": pa.array(["a"], pa.string_view()),
            "interval": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
            "uuid": pa.array([UUID(int=1)], pa.uuid()),
            "half": pa.array([1.5], pa.float16()),
            "wide": pa.array([Decimal("1.5")], pa.decimal256(60, 1)),
            "seconds": pa.array([datetime(2024, 1, 2)], pa.timestamp("s")),
            "fixed": pa.array([[1, 2]], pa.list_(pa.int8(), 2)),
            "runs": pa.RunEndEncodedArray.from_arrays([1], ["a"]),
        }
    )
    table = open_table(source)
    fields = output_fields(table, answer_columns(int))
    path = tmp_path / f"out.{ending}"
    with open_output(path, fields) as output:
        for row in table.rows():
            output.write(cells(fields, row, answer=1))
    (read,) = open_table(path).rows()
    assert read == {
        "view": "a",
        "interval": "[1, 2, 3]" if ending == "parquet" else (1, 2, 3),
        "uuid": UUID(int=1),
        "half": 1.5,
        "wide": Decimal("1.5"),
        "seconds": datetime(2024, 1, 2),
        "fixed": [1, 2],
        "runs": "a",
        "value": 1,
        "error": None,
    }


@given(rows=st.lists(st.tuples(st.none() | TEXTS, st.none() | TEXTS), max_size=4))
def test_texts_in_csv_are_read_again(
    tmp_path_factory: Any, rows: list[tuple[str | None, str | None]]
) -> None:
    path = tmp_path_factory.mktemp("out") / "out.csv"
    fields = fields_of({"a": []}, str | None)
    with open_output(path, fields) as output:
        for a, value in rows:
            output.write(cells(fields, {"a": a}, answer=value))
    with open(path, encoding="utf-8", newline="") as file:
        records = list(csv.reader(file, strict=True))
    assert records == [["a", "value", "error"], *([a or "", value or "", ""] for a, value in rows)]
    assert [(row["a"], row["value"]) for row in open_table(path).rows()] == [
        (a or "", value or "") for a, value in rows
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda part: st.lists(part, max_size=2) | st.dictionaries(st.text(max_size=2), part, max_size=2),
    max_leaves=4,
)


@given(rows=st.lists(st.tuples(JSON, JSON), max_size=4))
def test_json_values_are_read_again(tmp_path_factory: Any, rows: list[tuple[Any, Any]]) -> None:
    path = tmp_path_factory.mktemp("out") / "out.jsonl"
    fields = fields_of({"a": []}, Any)
    with open_output(path, fields) as output:
        for a, value in rows:
            output.write(cells(fields, {"a": finite(a)}, answer=finite(value)))
    assert [(row["a"], row["value"]) for row in open_table(path).rows()] == [
        (finite(a), finite(value)) for a, value in rows
    ]


def finite(value: Any) -> Any:
    """Replace infinities, which JSON does not have."""
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and math.isinf(value) else value


def test_decimals_of_the_input_are_numbers_with_all_their_digits(tmp_path: Path) -> None:
    amount, path = Decimal("1234567890123456789.10"), tmp_path / "out.jsonl"
    row = {"amount": amount, "parts": [amount, None], "named": {"a": amount}, "nan": Decimal("NaN")}
    number = str(amount)
    fields = fields_of([row], Decimal)
    with open_output(path, fields) as output:
        output.write(cells(fields, row, answer=amount))
    assert path.read_text() == (
        f'{{"amount": {number}, "parts": [{number}, null], "named": {{"a": {number}}}, "nan": "NaN", '
        f'"value": {number}, "error": null}}\n'
    )
    (read,) = open_table(path).rows()
    assert str(read["amount"]) == str(amount)


def test_values_of_the_input_that_json_does_not_have_are_texts(tmp_path: Path) -> None:
    row = {
        "nan": math.nan,
        "bytes": b"\xff",
        "moment": datetime(2024, 1, 2, tzinfo=UTC),
        "clock": time(1, 2),
        "length": timedelta(days=400),
        "mood": Mood.GOOD,
        "part": Part("a", []),
        "half": "\ud800",
    }
    path = tmp_path / "out.jsonl"
    fields = fields_of([row], int)
    with open_output(path, fields) as output:
        output.write(cells(fields, row, answer=1))
    (read,) = open_table(path).rows()
    assert read == {
        "nan": "NaN",
        "bytes": "_w==",
        "moment": "2024-01-02T00:00:00Z",
        "clock": "01:02:00",
        "length": "P400DT0S",
        "mood": "good",
        "part": {"name": "a", "tags": []},
        "half": "\ud800",
        "value": 1,
        "error": None,
    }


# --- dataframes ---------------------------------------------------------------------------------------------


@dataclass
class Rating:
    score: int
    tags: list[str]
    sure: bool
    day: date
    text: str


RATING = Rating(2**53 + 1, ["x"], True, date(2024, 1, 2), "a")
PLAIN = {
    "score": 2**53 + 1,
    "tags": ["x"],
    "sure": True,
    "day": date(2024, 1, 2),
    "answer_text": "a",
    "error": None,
}
FAILED = {**dict.fromkeys(PLAIN), "error": "bad"}


def ratings(count: int = 3) -> list[Row[Any]]:
    """Return rows of TABLE with answers; the second has an error."""
    rows = [dict(zip(TABLE, values, strict=True)) for values in zip(*TABLE.values(), strict=True)]
    return [
        output_row(row, **({"error": "bad"} if number == 1 else {"answer": RATING}))
        for number, row in enumerate(rows[:count])
    ]


def test_a_pandas_dataframe_keeps_its_index_and_types() -> None:
    frame = pd.DataFrame(TABLE, index=[7, 7, 8]).astype({"text": "category"})
    table = open_table(frame)
    fields = output_fields(table, answer_columns(Rating))
    result = to_dataframe(table, ratings(), fields)
    assert list(frame.columns) == ["id", "text"]
    assert list(result.index) == [7, 7, 8]
    pd.testing.assert_frame_equal(result[["id", "text"]], frame)
    assert list(result.columns) == ["id", "text", *PLAIN]
    assert {name: str(dtype) for name, dtype in result.dtypes.items()} == {
        "id": "int64",
        "text": "category",
        "score": "Int64",
        "tags": "object",
        "sure": "boolean",
        "day": "object",
        "answer_text": "str",
        "error": "str",
    }
    read = list(open_table(result).rows())
    assert [{name: row[name] for name in PLAIN} for row in read] == [PLAIN, FAILED, PLAIN]


def test_a_pandas_dataframe_without_missing_values_has_plain_types() -> None:
    table = open_table(pd.DataFrame({"id": [1]}))
    fields = output_fields(table, answer_columns(Rating))
    result = to_dataframe(table, [output_row({"id": 1}, answer=RATING)], fields)
    assert [str(result.dtypes[name]) for name in ("score", "sure")] == ["int64", "bool"]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_polars_dataframe_gets_the_new_columns(lazy: bool) -> None:
    frame = pl.DataFrame(TABLE)
    table = open_table(frame.lazy() if lazy else frame)
    fields = output_fields(table, answer_columns(Rating))
    result = to_dataframe(table, ratings(), fields)
    assert isinstance(result, pl.DataFrame)
    assert result.select("id", "text").equals(frame)
    assert result.select(list(PLAIN)).to_dicts() == [PLAIN, FAILED, PLAIN]


def test_a_pyarrow_table_gets_the_new_columns() -> None:
    source = pa.table({"id": pa.array([1, 2, 3], pa.int8()), "text": TABLE["text"]})
    for arrow in (source, source.to_batches()[0]):
        table = open_table(arrow)
        fields = output_fields(table, answer_columns(Rating))
        result = to_dataframe(table, ratings(), fields)
        assert isinstance(result, pa.Table)
        assert result.select(["id", "text"]).equals(source)
        assert result.select(list(PLAIN)).to_pylist() == [PLAIN, FAILED, PLAIN]


def test_other_tables_give_dataframes_of_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(TABLE), path)
    for source in (TABLE, path, pa.table(TABLE).to_reader()):
        table = open_table(source)
        fields = output_fields(table, answer_columns(Rating))
        result = to_dataframe(table, ratings(), fields)
        assert isinstance(result, pa.Table)
        assert result.select(["id", "text"]).equals(pa.table(TABLE))
        assert result.select(list(PLAIN)).to_pylist() == [PLAIN, FAILED, PLAIN]


def test_a_duckdb_relation_gives_a_relation() -> None:
    with duckdb.connect() as connection:
        table = open_table(connection.from_arrow(pa.table(TABLE)))
        fields = output_fields(table, answer_columns(Rating))
        result = to_dataframe(table, ratings(), fields)
        assert isinstance(result, duckdb.DuckDBPyRelation)
        assert result.columns == ["id", "text", *PLAIN]
        assert [row[0] for row in result.fetchall()] == [1, 2, 3]
        connection.execute("CREATE TABLE names AS SELECT 2 AS id, 'Bo' AS name")
        joined = connection.sql("SELECT name FROM result JOIN names USING (id)")
        assert joined.fetchall() == [("Bo",)]  # it belongs to the connection of the input


def test_missing_rows_are_an_error() -> None:
    table = open_table(pd.DataFrame(TABLE))
    fields = output_fields(table, answer_columns(Rating))
    with pytest.raises(RowsError) as caught:
        to_dataframe(table, ratings(2), fields)
    assert str(caught.value) == "there are 2 rows with answers for the 3 rows of the table"


def test_an_output_has_its_path_and_fields(tmp_path: Path) -> None:
    fields = fields_of()
    output: Output = open_output(str(tmp_path / "out.csv"), fields)
    assert (output.path, output.fields) == (tmp_path / "out.csv", fields)
    output.abort()
    output.abort()
    assert os.listdir(tmp_path) == []
