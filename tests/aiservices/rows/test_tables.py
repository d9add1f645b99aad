"""open_table: each kind of source gives the same rows of plain Python values, and mistakes are explained."""

from __future__ import annotations

import csv
import gzip
import json
import math
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import duckdb
import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import sqlalchemy
from hypothesis import given, strategies as st
from pydantic import BaseModel

from aiservices import DefinitionError
from aiservices.models.errors import MissingExtraError
from aiservices.rows.row import RowsError
from aiservices.rows.tables import Table, open_table

ROWS = [{"id": 1, "text": "good"}, {"id": 2, "text": None}]
ACCEPTED = (
    "pass the path or the URL of a CSV, JSONL, JSON, Parquet or Arrow file, a folder or pattern of such "
    "files, a dataframe, a query result, a dict of columns, or an iterable of dicts, records or values"
)


def read(source: Any, names: Any = None) -> list[dict[str, Any]]:
    return list(open_table(source, names).rows())


def definition_error(source: Any, names: Any = None) -> str:
    with pytest.raises(DefinitionError) as caught:
        open_table(source, names)
    return str(caught.value)


def rows_error(source: Any, names: Any = None) -> str:
    with pytest.raises(RowsError) as caught:
        read(source, names)
    return str(caught.value)


def described(table: Table) -> tuple[object, ...]:
    return table.columns, table.count, table.kind, table.text_only, table.is_one_shot


# --- iterables ----------------------------------------------------------------------------------------------


@dataclass
class Review:
    id: int
    text: str | None


class ReviewTuple(NamedTuple):
    id: int
    text: str | None


class ReviewModel(BaseModel):
    id: int
    text: str | None


@attrs.define
class ReviewAttrs:
    id: int
    text: str | None


class ReviewStruct(msgspec.Struct):
    id: int
    text: str | None


@pytest.mark.parametrize("make", [Review, ReviewTuple, ReviewModel, ReviewAttrs, ReviewStruct, dict])
def test_a_list_of_records_has_their_fields_as_columns(make: Callable[..., Any]) -> None:
    source = [make(**row) for row in ROWS]
    table = open_table(source)
    assert described(table) == (("id", "text"), 2, "iterable", False, False)
    assert list(table.rows()) == list(table.rows()) == ROWS
    assert table.source is source
    assert table.types == {}


def test_the_rows_of_sqlite_are_rows() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        cursor = connection.execute("select 1 as id, 'good' as text union select 2, null")
        assert read(cursor) == ROWS


def test_plain_tuples_are_rows_if_names_are_given() -> None:
    table = open_table([(1, "good"), [2, None]], names=["id", "text"])
    assert described(table) == (("id", "text"), 2, "iterable", False, False)
    assert list(table.rows()) == ROWS


def test_rows_with_different_keys_have_all_of_them_as_columns() -> None:
    table = open_table([{"id": 1}, {"id": 2, "text": "good"}])
    assert table.columns == ("id", "text")
    assert list(table.rows()) == [{"id": 1}, {"id": 2, "text": "good"}]


def test_an_empty_list_is_a_table_without_known_columns() -> None:
    assert described(open_table([])) == ((), 0, "iterable", False, False)


def test_the_rows_of_a_generator_can_be_read_once() -> None:
    table = open_table(dict(row) for row in ROWS)
    assert described(table) == ((), None, "iterable", False, True)
    assert list(table.rows()) == ROWS
    with pytest.raises(RowsError) as caught:
        table.rows()
    assert str(caught.value) == (
        "the rows of an iterator can be read only once, and they were; pass a list or a file"
    )


def test_an_iterable_that_starts_again_can_be_read_again() -> None:
    class Source:
        def __iter__(self) -> Iterator[dict[str, Any]]:
            return iter(ROWS)

    table = open_table(Source())
    assert described(table) == ((), None, "iterable", False, False)
    assert list(table.rows()) == list(table.rows()) == ROWS


def test_a_dict_of_columns_is_a_table() -> None:
    table = open_table({"id": np.array([1, 2]), "text": ["good", None]})
    assert described(table) == (("id", "text"), 2, "iterable", False, False)
    assert list(table.rows()) == ROWS
    assert type(next(table.rows())["id"]) is int


def test_numpy_and_pandas_scalars_in_rows_become_plain_values() -> None:
    row = {
        "int": np.int64(1),
        "float": np.float64("nan"),
        "array": np.array([1.5, 2]),
        "nested": {"x": [np.bool_(True)]},
        "day": np.datetime64("2024-01-02T03:04:05.123456789", "ns"),
        "length": np.timedelta64(1500, "ms"),
        "stamp": pd.Timestamp("2024-01-02"),
        "delta": pd.Timedelta("1s"),
        "missing": [pd.NA, pd.NaT],
        "series": pd.Series([1, 2]),
        "scalar": pa.scalar(3),
    }
    (read_row,) = read([row])
    assert math.isnan(read_row.pop("float"))
    assert read_row == {
        "int": 1,
        "array": [1.5, 2.0],
        "nested": {"x": [True]},
        "day": datetime(2024, 1, 2, 3, 4, 5, 123456),
        "length": timedelta(milliseconds=1500),
        "stamp": datetime(2024, 1, 2),
        "delta": timedelta(seconds=1),
        "missing": [None, None],
        "series": [1, 2],
        "scalar": 3,
    }
    assert [type(value) for value in read_row["array"]] == [float, float]
    assert (type(read_row["stamp"]), type(read_row["delta"])) == (datetime, timedelta)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (5, f"table: the int 5 is not a table; {ACCEPTED}"),
        (None, f"table: the NoneType None is not a table; {ACCEPTED}"),
        (b"id", f"table: the bytes b'id' is not a table; {ACCEPTED}"),
        (
            ReviewModel(id=1, text="a"),
            f"table: the ReviewModel ReviewModel(id=1, text='a') is not a table; {ACCEPTED}",
        ),
        (
            {"id": 1, "text": "good"},
            "table: the value of 'id' in the dict is not a list; pass a list of dicts, or a dict with a list "
            "of values for each column",
        ),
        ({}, "table: the table has no columns"),
        (
            {"id": [1, 2], "text": ["a"]},
            "table: the columns have different numbers of values: id has 2, text has 1",
        ),
        ({1: [1]}, "table: the column name 1 is not a text; rename the column"),
        (
            ["good", "bad"],
            "table: row 1: values without names are for methods with one parameter; pass dicts, or a column "
            'as {"text": [...]}',
        ),
        (
            [{"id": 1}, (2,)],
            'table: row 2: it is a tuple without names; pass names=("id", "text"), or rows that are dicts',
        ),
        ([{" ": 1}], "table: column 1 has no name; give each column a name"),
        (
            pd.Series([1]),
            "table: values without names are for methods with one parameter; pass dicts, or a column as "
            '{"text": [...]}',
        ),
        (
            pl.Series([1]),
            "table: values without names are for methods with one parameter; pass dicts, or a column as "
            '{"text": [...]}',
        ),
    ],
)
def test_an_object_that_is_not_a_table_is_an_error_with_what_to_pass(source: Any, message: str) -> None:
    assert definition_error(source) == message


def test_names_are_checked() -> None:
    assert (
        definition_error([(1,)], ["id", "id"]) == "table: two columns have the name 'id'; rename one of them"
    )
    assert definition_error([(1,)], ["id", "text"]) == "table: row 1: it has 1 values, but there are 2 names"
    message = "table: names= is only for rows that are tuples or lists; leave it out"
    assert definition_error("rows.csv", ["id"]) == definition_error({"id": [1]}, ["id"]) == message
    assert definition_error(pd.DataFrame({"id": [1]}), ["id"]) == message


def test_a_bad_row_of_a_generator_is_an_error_when_it_is_read() -> None:
    assert rows_error(iter([{"id": 1}, {5}])) == (
        'row 2: the set {5} is not a row; pass dicts or records, or a column as {"text": [...]}'
    )


# --- files --------------------------------------------------------------------------------------------------

CSV = 'id,text\n1,"a, ""b""\nc"\n\n2,\n'
CSV_ROWS = [{"id": "1", "text": 'a, "b"\nc'}, {"id": "2", "text": ""}]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_csv_file_has_texts(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text(CSV, encoding)
    table = open_table(path)
    assert described(table) == (("id", "text"), 2, "file", True, False)
    assert list(table.rows()) == list(table.rows()) == read(str(path)) == CSV_ROWS


def test_a_csv_file_may_be_compressed_and_have_long_fields(tmp_path: Path) -> None:
    path = tmp_path / "reviews.CSV.gz"
    long = "word " * 100_000
    with gzip.open(path, "wt", newline="") as file:
        csv.writer(file).writerows([["text"], [long]])
    assert read(path) == [{"text": long}]
    assert open_table(path).count == 1


def test_a_compressed_file_that_is_cut_off_or_damaged_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl.gz"
    data = gzip.compress(b'{"id": 1}\n' * 10_000)
    for broken in (data[:-10], data[:30] + b"\xff" * 10 + data[40:], b"id,text"):
        path.write_bytes(broken)
        assert rows_error(path).startswith(f"{path} cannot be read: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; the first line must have the names of the columns"),
        (b"id,id\n", "two columns have the name 'id'; rename one of them"),
        (b"id,,text\n", "column 2 has no name; give each column a name"),
        (
            b"id,text\n" + b"2,b\n" * 10_000 + b"\xff\x00",
            "the file is not UTF-8 text (invalid start byte), and its encoding cannot be recognized; pass "
            'encoding=, such as encoding="cp1251", or convert it to UTF-8',
        ),
        (
            b"id,t\xe9\xfc\xf6xt\n",
            "the file is not UTF-8 text (invalid continuation byte), and its encoding cannot be recognized; "
            'pass encoding=, such as encoding="cp1251", or convert it to UTF-8',
        ),
    ],
)
def test_a_csv_file_with_a_bad_header_is_a_definition_error(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "reviews.csv"
    path.write_bytes(content)
    assert definition_error(path) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            b"2,b,c",
            ", line 3: the row has 3 fields, but the header has 2; "
            "a field with a comma or a line break needs quotes",
        ),
        (
            b"2",
            ", line 3: the row has 1 fields, but the header has 2; "
            "a field with a comma or a line break needs quotes",
        ),
        (b'2,"b', ", line 3: unexpected end of data"),
        (b'2,"b"c', ", line 3: ',' expected after '\"'"),
    ],
)
def test_a_bad_line_of_a_csv_file_is_an_error_with_its_number(
    tmp_path: Path, line: bytes, message: str
) -> None:
    path = tmp_path / "reviews.csv"
    path.write_bytes(b"id,text\n1,a\n" + line)
    assert rows_error(path) == f"{path}{message}"


@pytest.mark.parametrize("name", ["reviews.jsonl", "reviews.jsonl.gz"])
def test_a_jsonl_file_has_json_values(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows = [*ROWS, {"id": 3, "tags": ["é", {"x": 1.5}]}]
    text = "\ufeff" + "\n\n".join(json.dumps(row) for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    table = open_table(path)
    assert described(table) == ((), 3, "file", False, False)
    assert list(table.rows()) == rows


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 1', "Expecting ',' delimiter: line 1 column 9 (char 8)"),
        ("[1]", "a row must be a JSON object, found [1]"),
        ('{"id": 1, "id": 2}', "the key 'id' occurs twice"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_a_bad_line_of_a_jsonl_file_is_an_error_with_its_number(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "reviews.jsonl"
    path.write_text(f'{{"id": 0}}\n{line}')
    assert rows_error(path).startswith(f"{path}, line 2: {message}")


@pytest.mark.parametrize("indent", [None, 1])
def test_a_json_file_has_an_array_of_objects(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "reviews.json"
    rows = [{"id": number, "text": "long " * (number % 7) * 9_000, "list": [{}]} for number in range(30)]
    path.write_text(json.dumps(rows, indent=indent))
    table = open_table(path)
    assert described(table) == ((), None, "file", False, False)
    assert list(table.rows()) == rows


@pytest.mark.parametrize("text", ["[]", " [ ] \n"])
def test_a_json_file_may_have_no_rows(tmp_path: Path, text: str) -> None:
    path = tmp_path / "reviews.json"
    path.write_text(text)
    assert read(path) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": 1}', ": the file must hold an array of objects; name it .jsonl if each line is one"),
        ("", ": the file must hold an array of objects; name it .jsonl if each line is one"),
        ('[{"id": 1}, 5]', ", row 2: a row must be a JSON object, found 5"),
        ('[{"id": 1} {"id": 2}]', ", row 2: expected a comma or the end of the array"),
        ('[{"id": 1}] x', ", row 2: expected a comma or the end of the array"),
        ('[{"id": 1}', ", row 2: expected a comma or the end of the array"),
        ('[{"id": 1},]', ", row 2: Expecting value: line 1 column 1 (char 0)"),
        ('[{"id": }]', ", row 1: Expecting value: line 1 column 8 (char 7)"),
    ],
)
def test_a_bad_json_file_is_an_error_with_the_number_of_the_row(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "reviews.json"
    path.write_text(text)
    assert rows_error(path) == f"{path}{message}"


TYPED = pa.table(
    {
        "int": pa.array([1, None], pa.int32()),
        "float": [1.5, math.inf],
        "text": pa.array(["a", None], pa.large_string()),
        "category": pa.array(["x", None]).dictionary_encode(),
        "moment": pa.array([datetime(2024, 1, 2, 3, 4, 5, 678), None], pa.timestamp("ns")),
        "utc": pa.array([datetime(2024, 1, 2, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "day": [date(2024, 1, 2), None],
        "time": pa.array([time(1, 2, 3), None], pa.time64("ns")),
        "length": pa.array([timedelta(seconds=1), None], pa.duration("ns")),
        "amount": [Decimal("1.10"), None],
        "bytes": [b"\xff", None],
        "list": [["a"], None],
        "record": pa.array(
            [{"x": 1, "when": datetime(2024, 1, 2)}, None],
            pa.struct([("x", pa.int8()), ("when", pa.timestamp("ns"))]),
        ),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "null": pa.nulls(2),
    }
)
TYPED_ROWS: list[dict[str, Any]] = [
    {
        "int": 1,
        "float": 1.5,
        "text": "a",
        "category": "x",
        "moment": datetime(2024, 1, 2, 3, 4, 5, 678),
        "utc": datetime(2024, 1, 2, tzinfo=UTC),
        "day": date(2024, 1, 2),
        "time": time(1, 2, 3),
        "length": timedelta(seconds=1),
        "amount": Decimal("1.10"),
        "bytes": b"\xff",
        "list": ["a"],
        "record": {"x": 1, "when": datetime(2024, 1, 2)},
        "map": {"k": 1},
        "null": None,
    },
    {name: math.inf if name == "float" else None for name in TYPED.column_names},
]


def write_stream(table: Any, path: Path) -> None:
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("table.parquet", pq.write_table),
        ("table.feather", pa.feather.write_feather),
        (
            "table.arrow",
            lambda table, path: pa.feather.write_feather(table, path, compression="uncompressed"),
        ),
        ("table.arrow", write_stream),
    ],
)
def test_parquet_and_arrow_files_have_typed_values(
    tmp_path: Path, name: str, write: Callable[[Any, Path], None]
) -> None:
    path = tmp_path / name
    write(TYPED, path)
    table = open_table(path)
    assert described(table) == (tuple(TYPED.column_names), 2, "file", False, False)
    rows = list(table.rows())
    assert rows == list(table.rows()) == TYPED_ROWS
    assert [type(value) for value in rows[0].values()] == [type(value) for value in TYPED_ROWS[0].values()]
    assert table.types["int"] == pa.int32()
    assert str(table.types["category"]) == "string"
    assert "null" not in table.types


def test_a_large_parquet_file_is_read_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"id": range(2_500)}), path)
    assert read(path) == [{"id": number} for number in range(2_500)]


@pytest.mark.parametrize("name", ["table.parquet", "table.arrow"])
def test_a_broken_binary_file_is_a_definition_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"id,text\n1,a\n" * 10)
    assert definition_error(path).startswith(f"{path}: cannot be read: ")


def test_a_map_with_a_repeated_key_is_an_error() -> None:
    repeated = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    assert rows_error(pa.table({"map": repeated})).startswith("the Table cannot be read: ")


def test_a_folder_and_a_pattern_are_read_in_the_order_of_the_names(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "_SUCCESS", ".hidden.csv"):
        (tmp_path / name).write_text(f"name,id\n{name},1\n" if name != "b.csv" else "id,name\n2,b.csv\n")
    for source in (tmp_path, f"{tmp_path}/[ab].csv"):
        table = open_table(source)
        assert described(table) == (("name", "id"), 2, "file", True, False)
        assert list(table.rows()) == [{"name": "a.csv", "id": "1"}, {"name": "b.csv", "id": "2"}]


def test_a_column_with_different_types_in_the_files_of_a_folder_has_no_type(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [2], "x": ["1"]}), tmp_path / "b.parquet")
    table = open_table(tmp_path)
    assert table.types == {"id": pa.int64()}
    assert list(table.rows()) == [{"id": 1, "x": 1}, {"id": 2, "x": "1"}]


def test_files_of_a_folder_that_do_not_fit_together_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n")
    (tmp_path / "b.csv").write_text("id,body\n")
    assert definition_error(tmp_path) == (
        f"{tmp_path}/b.csv: its columns are id, body, but those of a.csv are id, text; the files of a table "
        "need the same columns"
    )
    (tmp_path / "b.csv").unlink()
    (tmp_path / "b.jsonl").write_text("")
    assert definition_error(tmp_path) == (
        f"{tmp_path}: the files have different formats: a.csv is CSV, b.jsonl is JSONL; "
        "pass files of one format"
    )


def test_a_path_that_is_not_a_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    assert definition_error(tmp_path / "notes.txt") == (
        f"{tmp_path}/notes.txt: the file has an unknown ending; use one of .csv, .csv.gz, .tsv, .tsv.gz, "
        ".jsonl, .jsonl.gz, .json, .parquet, .arrow, .feather"
    )
    (tmp_path / "notes.txt").unlink()
    assert definition_error(tmp_path) == f"{tmp_path}: the folder has no files; {ACCEPTED}"
    assert definition_error("missing.csv") == f"table: 'missing.csv' is not a file; {ACCEPTED}"
    assert definition_error("missing-*.csv") == f"table: 'missing-*.csv' is not a file; {ACCEPTED}"
    assert definition_error("good\0") == f"table: 'good\\x00' is not a file; {ACCEPTED}"
    text = "The food was good, but the service was slow and the bill was wrong. " * 100
    assert definition_error(text) == f"table: {text[:57] + '...'!r} is not a file; {ACCEPTED}"


def test_a_file_that_disappears_is_an_error_of_the_data(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text(CSV)
    table = open_table(path)
    path.unlink()
    with pytest.raises(RowsError, match=r"cannot be read: .* No such file or directory"):
        list(table.rows())


CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=5))
def test_what_the_csv_module_writes_is_read_again(
    tmp_path_factory: Any, records: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("a", "b"), *records])
    assert read(path) == [{"a": a, "b": b} for a, b in records]
    assert open_table(path).count == len(records)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.text(max_size=3), JSON, max_size=3), max_size=4), st.sampled_from([None, 2])
)
def test_what_the_json_module_writes_is_read_again(
    tmp_path_factory: Any, rows: list[dict[str, Any]], indent: int | None
) -> None:
    folder = tmp_path_factory.mktemp("json")
    (folder / "table.json").write_text(json.dumps(rows, indent=indent))
    (folder / "table.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert read(folder / "table.json") == read(folder / "table.jsonl") == rows


# --- dataframes and query results ---------------------------------------------------------------------------


def test_a_pandas_dataframe_has_plain_values_and_none_for_missing_ones() -> None:
    frame = pd.DataFrame(
        {
            "int": [1, 2],
            "nullable": pd.array([1, None], dtype="Int64"),
            "float": [1.5, None],
            "text": ["a", None],
            "moment": pd.to_datetime(["2024-01-02T03:04:05", None]),
            "length": pd.to_timedelta([1, None], unit="s"),
            "category": pd.Categorical(["x", None]),
            "object": [{"k": np.float32(1)}, np.array([1, 2])],
            "month": pd.period_range("2024", periods=2, freq="M"),
        },
        index=[7, 7],
    )
    table = open_table(frame)
    assert described(table) == (tuple(frame.columns), 2, "pandas", False, False)
    rows = list(table.rows())
    assert rows == [
        {
            "int": 1,
            "nullable": 1,
            "float": 1.5,
            "text": "a",
            "moment": datetime(2024, 1, 2, 3, 4, 5),
            "length": timedelta(seconds=1),
            "category": "x",
            "object": {"k": 1.0},
            "month": "2024-01",
        },
        {
            "int": 2,
            **dict.fromkeys(["nullable", "float", "text", "moment", "length", "category"]),
            "object": [1, 2],
            "month": "2024-02",
        },
    ]
    plain = [int, int, float, str, datetime, timedelta, str, dict, str]
    assert [type(value) for value in rows[0].values()] == plain
    assert {name: str(table.types.get(name)) for name in ("int", "nullable", "float", "object")} == {
        "int": "int64",
        "nullable": "int64",
        "float": "double",
        "object": "None",
    }


def test_a_dtype_that_arrow_does_not_have_has_no_type() -> None:
    table = open_table(pd.DataFrame({"id": [1], "number": [1j]}))
    assert table.types == {"id": pa.int64()}
    assert list(table.rows()) == [{"id": 1, "number": 1j}]


def test_rows_may_be_left_unread() -> None:
    with duckdb.connect() as connection:
        for source in (
            pl.LazyFrame({"id": range(10_000)}),
            connection.sql("select range as id from range(10000)"),
            pa.table({"id": range(10_000)}),
        ):
            table = open_table(source)
            for _ in range(2):
                assert next(table.rows()) == {"id": 0}
            assert len(list(table.rows())) == 10_000


def test_a_large_dataframe_is_read_in_batches() -> None:
    assert read(pd.DataFrame({"id": range(2_500)})) == [{"id": number} for number in range(2_500)]
    assert read(pl.LazyFrame({"id": range(2_500)})) == [{"id": number} for number in range(2_500)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["id", "id"], "the DataFrame: two columns have the name 'id'; rename one of them"),
        ([0, 1], "the DataFrame: the column name 0 is not a text; rename the column"),
    ],
)
def test_a_pandas_dataframe_with_bad_column_names_is_an_error(columns: list[Any], message: str) -> None:
    assert definition_error(pd.DataFrame([[1, 2]], columns=columns)) == message


def test_a_polars_dataframe_keeps_nan_and_has_categories_as_texts() -> None:
    columns = {
        "int": [1, None],
        "float": [1.5, math.nan],
        "category": pl.Series(["x", None], dtype=pl.Categorical),
        "record": [{"x": [1]}, None],
        "length": [timedelta(seconds=1), None],
        "amount": [Decimal("1.10"), None],
    }
    frame = pl.DataFrame(columns)
    for source, count in ((frame, 2), (frame.lazy(), None)):
        table = open_table(source)
        assert described(table) == (tuple(columns), count, "polars", False, False)
        first, second = table.rows()
        assert first == {
            "int": 1,
            "float": 1.5,
            "category": "x",
            "record": {"x": [1]},
            "length": timedelta(seconds=1),
            "amount": Decimal("1.10"),
        }
        assert math.isnan(second.pop("float"))
        assert set(second.values()) == {None}
        assert list(map(str, table.types.values())) == [
            "int64",
            "double",
            "large_string",
            "struct<x: large_list<item: int64>>",
            "duration[us]",
            "decimal128(38, 2)",
        ]


def test_a_polars_column_of_objects_has_no_type() -> None:
    table = open_table(pl.DataFrame({"id": [1], "any": pl.Series([{1, 2}], dtype=pl.Object)}))
    assert list(table.rows()) == [{"id": 1, "any": {1, 2}}]
    assert table.types == {"id": pa.int64()}


def test_a_pyarrow_table_can_be_read_again() -> None:
    for source in (TYPED, TYPED.to_batches()[0]):
        table = open_table(source)
        assert described(table) == (tuple(TYPED.column_names), 2, "pyarrow", False, False)
        assert list(table.rows()) == list(table.rows()) == TYPED_ROWS


def test_a_record_batch_reader_can_be_read_once() -> None:
    table = open_table(TYPED.to_reader())
    assert described(table) == (tuple(TYPED.column_names), None, "pyarrow", False, True)
    assert list(table.rows()) == TYPED_ROWS
    with pytest.raises(RowsError, match="the rows of a RecordBatchReader can be read only once"):
        table.rows()


def test_a_dataset_is_read_in_order(tmp_path: Path) -> None:
    for start in (0, 3_000):
        pq.write_table(pa.table({"id": range(start, start + 3_000)}), tmp_path / f"{start}.parquet")
    table = open_table(pyarrow.dataset.dataset(tmp_path))
    assert described(table) == (("id",), 6_000, "pyarrow", False, False)
    assert [row["id"] for row in table.rows()] == list(range(6_000))


class ArrowStream:
    """A dataframe of another library: all that is known of it is its Arrow stream."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


class Interchange:
    """A dataframe of another library: all that is known of it is the interchange protocol."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
        return pa.table({"id": [1, 2], "text": ["good", None]}).__dataframe__()


def test_any_object_with_an_arrow_stream_is_a_table() -> None:
    table = open_table(ArrowStream(pa.table({"id": [1, 2], "text": ["good", None]})))
    assert described(table) == (("id", "text"), None, "pyarrow", False, False)
    assert list(table.rows()) == list(table.rows()) == ROWS
    assert definition_error(ArrowStream(pa.chunked_array([[1]]))).startswith(
        "table: the Arrow stream of the ArrowStream is not a table: "
    )


def test_any_object_with_the_interchange_protocol_is_a_table() -> None:
    table = open_table(Interchange())
    assert described(table) == (("id", "text"), 2, "pyarrow", False, False)
    assert list(table.rows()) == ROWS


def test_an_array_is_not_a_table() -> None:
    assert definition_error(pa.array([1])).startswith("table: values without names are for methods with one")


def test_a_duckdb_relation_can_be_read_again() -> None:
    with duckdb.connect() as connection:
        connection.sql("create table reviews as select * from (values (1, 'good'), (2, null)) t(id, text)")
        table = open_table(connection.sql("select * from reviews"))
        assert described(table) == (("id", "text"), None, "duckdb", False, False)
        assert list(table.rows()) == list(table.rows()) == ROWS
        assert table.types == {"id": pa.int32(), "text": pa.string()}


def test_a_sqlalchemy_result_can_be_read_once() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection:
        query = sqlalchemy.text("select 1 as id, 'good' as count")
        table = open_table(connection.execute(query))
        assert described(table) == (("id", "count"), None, "iterable", False, True)
        assert list(table.rows()) == [{"id": 1, "count": "good"}]
        with pytest.raises(RowsError, match="the rows of a SQL result can be read only once"):
            table.rows()
        assert read(connection.execute(query).all()) == [{"id": 1, "count": "good"}]
        assert read(connection.execute(query).mappings()) == [{"id": 1, "count": "good"}]
    engine.dispose()


VALUES = st.fixed_dictionaries(
    {
        "int": st.none() | st.integers(-(2**63), 2**63 - 1),
        "float": st.none() | st.floats(allow_nan=False),
        "text": st.none() | CELLS,
        "moment": st.none() | st.datetimes(),
        "list": st.none() | st.lists(st.integers(0, 9), max_size=3),
    }
)
SCHEMA = pa.schema(
    {
        "int": pa.int64(),
        "float": pa.float64(),
        "text": pa.string(),
        "moment": pa.timestamp("us"),
        "list": pa.list_(pa.int64()),
    }
)


@given(st.lists(VALUES, max_size=5))
def test_arrow_polars_and_duckdb_give_the_values_that_were_put_in(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    assert read(table) == rows
    assert read(pl.from_arrow(table)) == rows
    with duckdb.connect() as connection:
        assert read(connection.from_arrow(table)) == rows


# --- imports ------------------------------------------------------------------------------------------------


def test_reading_text_files_imports_no_table_library(tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text(CSV)
    program = f"""
import sys
import aiservices.rows.outputs
from aiservices.rows.tables import open_table
table = open_table({str(tmp_path / "reviews.csv")!r})
assert len(list(table.rows())) == table.count == 2
libraries = {{"pyarrow", "pandas", "polars", "duckdb", "sqlalchemy", "tqdm", "numpy"}}
assert not libraries & set(sys.modules), libraries & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(("protocol", "package"), [("https", "httpx2"), ("s3", "fsspec")])
def test_without_its_package_a_table_at_a_url_is_an_error(
    protocol: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as caught:
        open_table(f"{protocol}://host/table.csv")
    assert str(caught.value) == (
        f'a table at {protocol}:// needs the package {package}: pip install "aiservices[tables]"'
    )


def test_without_pyarrow_a_parquet_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"id": [1]}), path)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError) as caught:
        open_table(path)
    assert str(caught.value) == (
        'reading Parquet files needs the package pyarrow: pip install "aiservices[tables]"'
    )
