"""Write rows with answers to JSONL, CSV, Parquet and Arrow files, and to dataframes.

The module ``fields`` defines the columns' types.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from glob import escape
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Self

from output_parsers.result.reading import Json, dump_json

from ..models.errors import DefinitionError, DefinitionProblem, import_extra
from .fields import (
    BATCH_ROWS,
    ArrowRows,
    Cells,
    Fields,
    fit,
    json_value,
    utf8_text,
)
from .row import Row, RowsError
from .tables import Table, pyarrow

# --- Outputs ---


class Output(ABC):
    """An output file for rows, which has a temporary name until it is complete.

    Until ``close``, the rows are in files whose names start with the output's name followed by ``.partial``.
    At the end of a ``with`` block, the output is closed, or removed if there was an error.

    Attributes:
        path: The file.
        fields: The columns.
        formulas: The number of cells that a spreadsheet would run as formulas.
    """

    def __init__(self, path: Path, fields: Fields) -> None:
        self.path = path
        self.fields = fields
        self.formulas = 0
        self._partial = path.with_name(f"{path.name}.partial")

    def write(self, row: Cells) -> str | None:
        """Write one output row, and return the row's error message, or None if there is no error.

        A value of the answer that the file cannot hold, such as an integer beyond 64 bits in Parquet, is an
        error of the row: its answer is null then.

        Raises RowsError if the file cannot be written.
        """
        try:
            return self._write(row)
        except OSError as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Complete the file and give it its final name, or raise RowsError."""
        try:
            self._finish()
            with open(self._partial, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(self._partial, self.path)
        except OSError as error:
            raise self._failure(error) from error

    def abort(self) -> None:
        """Delete the incomplete file; an older complete file with the same name is kept."""
        with suppress(OSError, ValueError):
            self._stop()
        _remove_partial(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.abort()
            return
        try:
            self.close()
        except BaseException:
            self.abort()
            raise

    def _failure(self, error: OSError) -> RowsError:
        return RowsError(f"{self.path} cannot be written: {error}")

    @abstractmethod
    def _write(self, cells: Cells) -> str | None:
        """Write the values of a row, and return the row's error message or None."""

    @abstractmethod
    def _finish(self) -> None:
        """Write the remaining rows to the partial file, and close it."""

    @abstractmethod
    def _stop(self) -> None:
        """Close all open files without completing them."""


def _remove_partial(path: Path) -> None:
    """Delete an output's incomplete files, including those of a killed process."""
    for part in path.parent.glob(f"{escape(path.name)}.partial*"):
        part.unlink(missing_ok=True)


class _JsonlOutput(Output):
    """Writes one JSON object for each row."""

    def __init__(self, path: Path, fields: Fields) -> None:
        super().__init__(path, fields)
        self._file: IO[str] = open(self._partial, "w", encoding="utf-8", newline="\n")  # noqa: SIM115

    def _write(self, cells: Cells) -> str | None:
        self._file.write(utf8_text(dump_json(self._object(cells))) + "\n")
        return cells.error

    def _object(self, cells: Cells) -> dict[str, Json]:
        names = [column.name for column in self.fields.new_columns]
        return {
            **{name: _input_json(value) for name, value in cells.inputs.items()},
            **dict(zip(names, cells.answers, strict=True)),
            self.fields.error: cells.error,
        }

    def _finish(self) -> None:
        self._file.close()

    def _stop(self) -> None:
        self._file.close()


def _input_json(value: object) -> Json:
    """Convert an input value to JSON data, in which a Decimal is a number with all its digits."""
    if type(value) is Decimal and value.is_finite():
        return value
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return [_input_json(item) for item in value]
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {key: _input_json(item) for key, item in value.items()}
    data: Json = json_value(value)
    return data


class _CsvOutput(_JsonlOutput):
    """Writes CSV with a header; null becomes an empty field, and an empty string becomes ``""``.

    Lists, objects and numbers are written as JSON. If the columns are not known before all rows are written,
    the rows are kept as JSON until then.
    """

    def __init__(self, path: Path, fields: Fields) -> None:
        super().__init__(path, fields)
        self._columns = dict.fromkeys(fields.inputs)
        if fields.inputs_complete:
            self._write_record(self._file, fields.columns)

    def _write(self, cells: Cells) -> str | None:
        values = self._object(cells)
        if self.fields.inputs_complete:
            self._write_record(self._file, values.values())
        else:
            self._columns |= dict.fromkeys(cells.inputs)
            self._file.write(utf8_text(dump_json(values)) + "\n")
        return cells.error

    def _write_record(self, file: IO[str], values: Iterable[Json]) -> None:
        cells = list(values)
        self.formulas += sum(is_formula(cell) for cell in cells if type(cell) is str)
        file.write(",".join(map(_csv_field, cells)) + "\n")

    def _finish(self) -> None:
        super()._finish()
        if self.fields.inputs_complete:
            return
        rows = self._partial.with_name(f"{self._partial.name}.rows")
        os.replace(self._partial, rows)
        names = replace(self.fields, inputs=tuple(self._columns)).columns
        with (
            open(rows, encoding="utf-8") as source,
            open(self._partial, "w", encoding="utf-8", newline="\n") as target,
        ):
            self._write_record(target, names)
            for line in source:
                values = json.loads(line, parse_float=Decimal)
                self._write_record(target, (values.get(name) for name in names))
        rows.unlink()


def is_formula(text: str) -> bool:
    """Return True if a spreadsheet would run a cell as a formula; signed numbers are not formulas."""
    if not text or text[0] not in "=+-@\t\r":
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def _csv_field(data: Json) -> str:
    # The csv module writes null and "" in the same way before Python 3.12.
    if data is None:
        return ""
    text = data if isinstance(data, str) else dump_json(data)
    if not text or re.search(r'[,"\r\n]|^\s|\s$', text):
        text = '"' + text.replace('"', '""') + '"'
    return utf8_text(text)


class _ArrowOutput(Output):
    """Writes Parquet or Arrow files, in batches.

    Rows whose columns or types differ from the previous rows are written to another part. ``close`` then
    converts all parts to the final types.
    """

    def __init__(self, path: Path, fields: Fields) -> None:
        super().__init__(path, fields)
        self._rows = ArrowRows(fields, self._can_write)
        self._writer: Any = None
        self._schema: object = None
        self._parts: list[Path] = []
        self._flush()  # creates the file, so that an unwritable folder is an error at once

    def _write(self, cells: Cells) -> str | None:
        error = self._rows.add(cells)
        if self._rows.is_full:
            self._flush()
        return error

    def _flush(self) -> None:
        table = self._rows.table()
        if self._writer is not None and table.schema != self._schema:
            self._end_part()
        if self._writer is None:
            self._schema = table.schema
            self._writer = self._open(self._partial)
        self._writer.write_table(table, BATCH_ROWS)

    def _open(self, path: Path) -> object:
        if self.path.suffix.lower() == ".parquet":
            return pyarrow("pyarrow.parquet").ParquetWriter(path, self._schema)
        return pyarrow().ipc.new_file(str(path), self._schema)

    def _can_write(self, tp: object) -> bool:
        """Return True if the format of the output file can store the given Arrow type.

        Parquet does not support all types.
        """
        if self.path.suffix.lower() != ".parquet":
            return True
        try:
            table = pyarrow().table({"column": pyarrow().array([], tp)})
            pyarrow("pyarrow.parquet").write_table(table, BytesIO())
        except (ValueError, TypeError, NotImplementedError):
            return False
        return True

    def _end_part(self) -> None:
        self._stop()
        part = self._partial.with_name(f"{self._partial.name}.{len(self._parts)}")
        os.replace(self._partial, part)
        self._parts.append(part)

    def _finish(self) -> None:
        if self._rows.count:
            self._flush()
        if not self._parts:
            self._stop()
            return
        self._end_part()
        self._writer = self._open(self._partial)
        for part in self._parts:
            for batch in self._batches(part):
                self._writer.write_table(_with_schema(batch, self._schema), BATCH_ROWS)
        self._stop()
        for part in self._parts:
            part.unlink()

    def _batches(self, path: Path) -> Iterator[object]:
        if self.path.suffix.lower() == ".parquet":
            with pyarrow("pyarrow.parquet").ParquetFile(path) as file:
                yield from file.iter_batches(BATCH_ROWS)
        else:
            pa = pyarrow()
            with pa.memory_map(str(path)) as source:
                reader = pa.ipc.open_file(source)
                yield from map(reader.get_batch, range(reader.num_record_batches))

    def _stop(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _with_schema(batch: Any, schema: Any) -> object:
    """Convert a record batch to a table with the given schema, which has more columns or wider types."""
    pa = pyarrow()
    columns = []
    for one in schema:
        if one.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, one.type))
            continue
        column = batch.column(one.name)
        if column.type != one.type:
            values = column.to_pylist(maps_as_pydicts="strict")
            column = pa.array([fit(value, one.type) for value in values], one.type)
        columns.append(column)
    return pa.table(columns, schema=schema)


_OUTPUTS: dict[str, type[Output]] = {
    ".jsonl": _JsonlOutput,
    ".csv": _CsvOutput,
    ".parquet": _ArrowOutput,
    ".arrow": _ArrowOutput,
    ".feather": _ArrowOutput,
}


def open_output(path: str | os.PathLike[str], fields: Fields) -> Output:
    """Open an output file in the format of its extension, such as ``.csv`` or ``.parquet``.

    The extensions are .jsonl, .csv, .parquet, .arrow and .feather.

    Raises DefinitionError if the file cannot be created or has another ending, and MissingExtraError if
    pyarrow is missing.
    """
    path = Path(path)
    output = _output_class(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder")
        _remove_partial(path)
        return output(path, fields)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        raise DefinitionError([DefinitionProblem("the output", message)]) from error


def check_output(path: Path) -> None:
    """Raise DefinitionError if a path has an unsupported extension, or if its folder does not exist."""
    if issubclass(_output_class(path), _ArrowOutput):
        pyarrow()
    if not path.parent.is_dir():
        message = f"{path} cannot be written: the folder {path.parent} does not exist"
        raise DefinitionError([DefinitionProblem("the output", message)])


def _output_class(path: Path) -> type[Output]:
    output = _OUTPUTS.get(path.suffix.lower())
    if output is None:
        message = f"{path.name!r} has an unknown ending; use one of {', '.join(_OUTPUTS)}"
        raise DefinitionError([DefinitionProblem("the output", message)])
    return output


# --- Dataframes ---


def _check_count(count: int | None, rows_used: int, limit: int | None) -> None:
    if count is not None and rows_used != (count if limit is None else min(count, limit)):
        raise RowsError(f"there are {rows_used} rows with answers for the {count} rows of the table")


def to_dataframe(table: Table, rows: Iterable[Row[Any]], fields: Fields, limit: int | None = None) -> object:
    """Return a dataframe of the same kind as the input, with additional columns for the answer and the error.

    A pandas index is kept. A LazyFrame gives a DataFrame. Files, iterables and other Arrow objects give a
    pyarrow Table.

    Args:
        table: The input.
        rows: The rows of the input with their answers, in the same order.
        fields: The columns.
        limit: The maximum number of rows that were processed, from the start of the input.

    Raises RowsError if there is not one row for each row of the input.
    """
    collected, places = ArrowRows(fields), array("q")
    for place, row in enumerate(rows):
        for cells in fields.rows(row):
            collected.add(cells)
            places.append(place)
    result = collected.table()
    source = table.source
    if table.kind == "polars" and not hasattr(source, "height"):
        source = source.collect()
    is_arrow = type(source).__module__.startswith("pyarrow") and hasattr(source, "take")
    if table.kind in ("pandas", "polars") or is_arrow:
        count = table.count if is_arrow else len(source)
        _check_count(count, places[-1] + 1 if places else 0, limit)
        if len(places) != count:
            source = _rows_at(table.kind, source, places)
        new = result.select([name for name in fields.columns if name in fields.own_names])
        return _with_new_columns(table.kind, source, new)
    if table.kind == "duckdb":
        # DuckDB finds the variable; the relation belongs to the connection of the source then
        return source.query("aiservices_rows", "SELECT * FROM result")
    return result


def select_rows(table: Table, fields: Fields, rows: Iterable[Row[object]], numbers: array[int]) -> object:
    """Return some rows of the input as a dataframe of its kind, with its columns.

    Args:
        table: The input.
        fields: The columns.
        rows: The rows.
        numbers: Their numbers, in order.
    """
    source = table.source
    if table.kind == "polars" and not hasattr(source, "height"):
        source = source.collect()
    if table.kind in ("pandas", "polars"):
        return _rows_at(table.kind, source, numbers)
    collected = ArrowRows(fields)
    for row in rows:
        nothing = [None] * len(fields.new_columns)
        collected.add(Cells({name: row.inputs.get(name) for name in fields.inputs}, [*nothing], None))
    selected = collected.table().select(list(fields.inputs))
    if table.kind == "duckdb":
        return import_extra("duckdb", "tables", "a DuckDB relation").from_arrow(selected)
    return selected


def _rows_at(kind: str, source: Any, places: array[int]) -> object:
    """Return the rows of a dataframe at the given places, which may occur several times."""
    if kind == "pandas":
        return source.iloc[list(places)]
    return source[list(places)] if kind == "polars" else source.take(pyarrow().array(places))


def _with_new_columns(kind: str, source: Any, new: Any) -> object:
    """Return a copy of a dataframe with additional columns."""
    if kind == "pandas":
        frame = source.copy(deep=False)
        for name in new.column_names:
            frame[name] = _pandas_column(new.column(name), frame.index)
        return frame
    if kind == "polars":
        return source.with_columns(import_extra("polars", "tables", "a polars DataFrame").from_arrow(new))
    if hasattr(source, "to_table"):  # a dataset
        source = source.to_table()
    elif isinstance(source, pyarrow().RecordBatch):
        source = pyarrow().Table.from_batches([source])
    for name in new.column_names:
        source = source.append_column(name, new.column(name))
    return source


def _pandas_column(column: Any, index: object) -> object:
    """Convert an Arrow column to a pandas Series in which integers stay integers despite missing values."""
    pandas = import_extra("pandas", "tables", "a pandas DataFrame")
    types = pyarrow().types
    if types.is_nested(column.type):
        values = column.to_pylist(maps_as_pydicts="strict")
        return pandas.Series(values, index=index, dtype=object)
    dtype = None
    if column.null_count and types.is_integer(column.type):
        dtype = "Int64"  # the default would make floats of integers
    elif column.null_count and types.is_boolean(column.type):
        dtype = "boolean"
    if dtype is not None:
        return pandas.Series(column.to_pylist(), index=index, dtype=dtype)
    return column.to_pandas().set_axis(index)
