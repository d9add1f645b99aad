"""Columns of the input without types get the type that all their values have, in any batches."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from output_rows import cells

from aiservices.rows import fields as fields_module
from aiservices.rows.fields import answer_columns, output_fields
from aiservices.rows.outputs import open_output
from aiservices.rows.tables import open_table

BIG = 2**53 + 1


class Mood(Enum):
    GOOD = "good"


def written(values: list[Any], path: Path) -> Any:
    """Write a column of values to a file, and return its type and the values that are read again."""
    fields = output_fields(open_table({"x": [None]}), answer_columns(int))
    with open_output(path, fields) as output:
        for value in values:
            assert output.write(cells(fields, {"x": value}, answer=1)) is None
    table = open_table(path)
    assert [row["value"] for row in table.rows()] == [1] * len(values)
    return str(table.types.get("x", "null")), [row["x"] for row in table.rows()]


@pytest.mark.parametrize(
    ("values", "arrow", "read"),
    [
        ([None, None], "null", None),
        ([None, True], "bool", None),
        ([1, None, BIG], "int64", None),
        ([1, 1.5], "double", [1.0, 1.5]),
        ([1.5, math.inf], "double", None),
        ([BIG, 1.5], "string", ["9007199254740993", "1.5"]),
        ([1, 2**63], "string", ["1", "9223372036854775808"]),
        ([True, 1], "string", ["true", "1"]),
        ([1, "a", None], "string", ["1", "a", None]),
        ([Decimal("1.10"), Decimal(2)], "decimal128(38, 18)", None),
        ([Decimal("1e-30"), Decimal("1.10")], "string", ["1E-30", "1.1"]),
        ([b"\xff"], "binary", None),
        ([b"a", "b"], "string", ["YQ==", "b"]),
        ([date(2024, 1, 2)], "date32[day]", None),
        ([date(2024, 1, 2), datetime(2024, 1, 2)], "string", ["2024-01-02", "2024-01-02T00:00:00"]),
        ([datetime(2024, 1, 2)], "timestamp[us]", None),
        ([datetime(2024, 1, 2, tzinfo=UTC)], "timestamp[us, tz=UTC]", None),
        (
            [datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))],
            "string",
            ["0001-01-01T00:00:00+01:00"],
        ),
        ([time(1, 2)], "time64[us]", None),
        ([time(1, 2, tzinfo=UTC)], "string", ["01:02:00Z"]),
        ([timedelta(seconds=1)], "duration[us]", None),
        ([timedelta.max], "string", ["P999999999DT86399.999999S"]),
        ([[1], [], None, [2.5]], "list<item: double>", [[1.0], [], None, [2.5]]),
        ([[], None], "list<item: null>", None),
        ([("a", None)], "list<item: string>", [["a", None]]),
        ([[1, "a"]], "string", ['[1, "a"]']),
        ([[1], ["a"]], "string", ["[1]", '["a"]']),
        ([[[1]]], "string", ["[[1]]"]),
        ([[1], 2], "string", ["[1]", "2"]),
        ([{"a": [1, "é"]}], "string", ['{"a": [1, "é"]}']),
        ([Mood.GOOD, UUID(int=1)], "string", ["good", "00000000-0000-0000-0000-000000000001"]),
        (["a\ud800"], "string", ["a\\ud800"]),
    ],
)
def test_a_column_has_the_type_of_its_values(
    tmp_path: Path, values: list[Any], arrow: str, read: list[Any] | None
) -> None:
    assert written(values, tmp_path / "out.parquet") == (arrow, values if read is None else read)


def test_nan_stays_nan(tmp_path: Path) -> None:
    arrow, (first, second) = written([math.nan, None], tmp_path / "out.parquet")
    assert arrow == "double"
    assert math.isnan(first)
    assert second is None


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**53 - 1, 2**53 + 2)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.decimals(allow_nan=False, allow_infinity=False, places=2)
    | st.datetimes()
    | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))]))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.binary(max_size=2)
)
VALUES = (
    SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=1), st.integers(), max_size=1)
)
FEW_KINDS = st.lists(
    st.sampled_from(["int", "float", "null", "text", "list"]), min_size=1, max_size=2
).flatmap(
    lambda kinds: st.lists(
        st.one_of(
            *[
                {
                    "int": st.integers(-(2**54), 2**54),
                    "float": st.floats(allow_nan=False),
                    "null": st.none(),
                    "text": st.text(max_size=2),
                    "list": st.lists(st.integers(0, 2), max_size=2),
                }[kind]
                for kind in kinds
            ]
        ),
        max_size=6,
    )
)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@given(values=st.lists(VALUES, max_size=6) | FEW_KINDS)
def test_the_size_of_batches_changes_neither_types_nor_values(
    tmp_path_factory: Any, ending: str, values: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("out")
    whole = written(values, folder / f"whole.{ending}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fields_module, "BATCH_ROWS", 1)
        assert written(values, folder / f"parts.{ending}") == whole
    assert len(list(folder.iterdir())) == 2


def test_a_typed_column_becomes_text_if_a_value_does_not_fit(tmp_path: Path) -> None:
    table = open_table(pa.table({"x": pa.array([1], pa.int8())}))
    fields = output_fields(table, answer_columns(int))
    for batch_rows, values, expected in (
        (10, [1, 2], ("int8", [1, 2])),
        (10, [1, 300], ("int64", [1, 300])),
        (1, [1, 300], ("string", ["1", "300"])),
        (10, [1, "a"], ("string", ["1", "a"])),
    ):
        path = tmp_path / "out.parquet"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fields_module, "BATCH_ROWS", batch_rows)
            with open_output(path, fields) as output:
                for value in values:
                    output.write(cells(fields, {"x": value}, answer=1))
        read = open_table(path)
        assert (str(read.types["x"]), [row["x"] for row in read.rows()]) == expected


def test_rows_with_long_texts_are_written_in_small_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields_module, "_BATCH_CHARACTERS", 100)
    path = tmp_path / "out.arrow"
    fields = output_fields(open_table({"x": [""]}), answer_columns(int))
    with open_output(path, fields) as output:
        for _ in range(4):
            output.write(cells(fields, {"x": "a" * 60}, answer=1))
    with pa.ipc.open_file(str(path)) as reader:
        batches = [reader.get_batch(index).num_rows for index in range(reader.num_record_batches)]
    assert [size for size in batches if size] == [2, 2]
