"""Read tables row by row from files, dataframes, query results and iterables.

``open_table`` describes a source, and ``Table.rows`` reads it in batches, as dicts of plain Python values.
Libraries are imported only for sources that need them: pyarrow reads Parquet and Arrow files and Arrow
streams.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from glob import glob
from itertools import chain
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit
from uuid import UUID

from pydantic import BaseModel

from ..models.errors import DefinitionError, DefinitionProblem, import_extra
from .csv_files import USUAL, CsvDialect, csv_dialect, open_text, read_records
from .row import JsonNumber, JsonText, RowsError
from .run_journal import temporary_folder

# --- Reading files ---


class Header(NamedTuple):
    """The column names and Arrow types of a file; empty if the file has no header."""

    columns: tuple[str, ...] = ()
    types: Mapping[str, object] = {}


class FileFormat(NamedTuple):
    """The functions that read one file format."""

    name: str
    header: Callable[[Path], Header]
    rows: Callable[[Path], Iterator[Row]]
    count_rows: Callable[[Path], int | None]
    text_only: bool = False
    notes: Callable[[], str] = str
    semicolons: Callable[[], bool] = bool


class _CsvFiles:
    """Reads CSV files, whose delimiters and encodings are recognized unless they are given."""

    def __init__(self, delimiter: str | None, encoding: str | None) -> None:
        self._delimiter = delimiter
        self._encoding = encoding
        self._dialects: dict[Path, CsvDialect] = {}

    @property
    def format(self) -> FileFormat:
        return FileFormat(
            "CSV",
            self._header,
            self._rows,
            self._count,
            text_only=True,
            notes=self._notes,
            semicolons=lambda: any(one.delimiter == ";" for one in self._dialects.values()),
        )

    def _dialect(self, path: Path) -> CsvDialect:
        dialect = self._dialects.get(path)
        if dialect is None:
            with reading(str(path)):
                dialect = csv_dialect(path, self._encoding, self._delimiter)
            self._dialects[path] = dialect
        return dialect

    def _notes(self) -> str:
        kinds = {dialect: path.name for path, dialect in self._dialects.items()}
        if set(kinds) <= {USUAL}:
            return ""
        if len(kinds) == 1:
            return str(next(iter(kinds)))
        return "; ".join(f"{name}: {dialect}" for dialect, name in kinds.items())

    def _lines(self, path: Path) -> Iterator[tuple[int, list[str]]]:
        """Yield the records of a file with the numbers of their last lines; empty lines are skipped."""
        dialect = self._dialect(path)
        with reading(str(path)), open_text(path, dialect.encoding, newline="") as file:
            if dialect.has_separator_line:
                file.readline()
            yield from read_records(path, file, dialect.delimiter, skipped=int(dialect.has_separator_line))

    def _header(self, path: Path) -> Header:
        lines = self._lines(path)
        _, names = next(lines, (0, []))
        lines.close()  # type: ignore[attr-defined]  # a generator
        if not names:
            raise RowsError(f"{path}: the file is empty; the first line must have the names of the columns")
        return Header(tuple(names))

    def _rows(self, path: Path) -> Iterator[Row]:
        lines = self._lines(path)
        _, names = next(lines)
        for line, record in lines:
            if len(record) != len(names):
                delimiter = {",": "comma", ";": "semicolon", "\t": "tab"}.get(
                    self._dialect(path).delimiter, "delimiter"
                )
                message = (
                    f"{path}, line {line}: the row has {len(record)} fields, but the header has "
                    f"{len(names)}; a field with a {delimiter} or a line break needs quotes"
                )
                raise RowsError(message)
            yield dict(zip(names, record, strict=True))

    def _count(self, path: Path) -> int:
        return sum(1 for _ in self._lines(path)) - 1


def _unique_keys(pairs: list[tuple[str, object]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} occurs twice")
    return row


def _float(text: str) -> float:
    number = float(text)
    return number if repr(number) == text else JsonNumber(text)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_float=_float)


def _jsonl_rows(path: Path) -> Iterator[Row]:
    with reading(str(path)), open_text(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _json_row(line, path, number)


def _json_row(line: str, path: Path, number: int) -> Row:
    try:
        row = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise RowsError(f"{path}, line {number}: {_json_problem(error)}") from error
    if not isinstance(row, dict):
        raise RowsError(f"{path}, line {number}: a row must be a JSON object, found {line.strip()[:60]}")
    return row


def _json_problem(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _jsonl_count(path: Path) -> int:
    with reading(str(path)), open_text(path) as file:
        return sum(1 for line in file if line.strip())


_FIRST_CHUNK = 1 << 16  # characters of a JSON file that are read at once; more if a row is longer


def _json_rows(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSON array without reading the whole file into memory."""
    with reading(str(path)), open_text(path) as file:
        text = file.read(_FIRST_CHUNK).lstrip()
        if not text.startswith("["):
            raise RowsError(
                f"{path}: the file must hold an array of objects; name it .jsonl if each line is one"
            )
        text, number, separator = text[1:], 0, ""
        while True:
            text = text.lstrip()
            more = _FIRST_CHUNK
            while not text and (part := file.read(more)):
                text = part.lstrip()
            if text.startswith("]") and separator != "," and not (text[1:] + file.read()).strip():
                return
            if number and separator != ",":
                if not text.startswith(","):
                    raise RowsError(f"{path}, row {number + 1}: expected a comma or the end of the array")
                text, separator = text[1:], ","
                continue
            while True:
                try:
                    row, end = _DECODER.raw_decode(text)
                    break
                except (ValueError, RecursionError) as error:
                    part = file.read(more)  # the row may be cut off
                    if not part:
                        raise RowsError(f"{path}, row {number + 1}: {_json_problem(error)}") from error
                    text, more = text + part, more * 2
            number, separator, text = number + 1, "", text[end:]
            if not isinstance(row, dict):
                raise RowsError(f"{path}, row {number}: a row must be a JSON object, found {str(row)[:60]}")
            yield row


def _parquet(path: Path) -> Any:
    module = pyarrow("pyarrow.parquet", "reading Parquet files")
    with reading(str(path)):
        return module.ParquetFile(path)


def _parquet_header(path: Path) -> Header:
    with _parquet(path) as file:
        return Header(tuple(file.schema_arrow.names), arrow_types(file.schema_arrow))


def _parquet_rows(path: Path) -> Iterator[Row]:
    with _parquet(path) as file:
        yield from batch_rows(file.iter_batches(batch_size=BATCH_SIZE), str(path))


def _parquet_count(path: Path) -> int:
    with _parquet(path) as file:
        return int(file.metadata.num_rows)


@contextmanager
def _arrow_file(path: Path) -> Iterator[Any]:
    """Yield the record batches of an Arrow file in the file format or the stream format."""
    pa = pyarrow(feature="reading Arrow files")
    with reading(str(path)), pa.memory_map(str(path)) as source:
        try:
            reader = pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            reader = pa.ipc.open_stream(source)
        yield reader


def _arrow_header(path: Path) -> Header:
    with _arrow_file(path) as reader:
        return Header(tuple(reader.schema.names), arrow_types(reader.schema))


def _arrow_rows(path: Path) -> Iterator[Row]:
    with _arrow_file(path) as reader:
        yield from batch_rows(_record_batches(reader), str(path))


def _record_batches(reader: Any) -> Iterator[Any]:
    if hasattr(reader, "num_record_batches"):
        return (reader.get_batch(index) for index in range(reader.num_record_batches))
    return iter(reader)


def _arrow_count(path: Path) -> int:
    with _arrow_file(path) as reader:
        return sum(batch.num_rows for batch in _record_batches(reader))


_JSONL = FileFormat("JSONL", lambda path: Header(), _jsonl_rows, _jsonl_count)
_ARROW = FileFormat("Arrow", _arrow_header, _arrow_rows, _arrow_count)
_CSV = _CsvFiles(None, None).format
FORMATS = {
    ".csv": _CSV,
    ".csv.gz": _CSV,
    ".tsv": _CSV,
    ".tsv.gz": _CSV,
    ".jsonl": _JSONL,
    ".jsonl.gz": _JSONL,
    ".json": FileFormat("JSON", lambda path: Header(), _json_rows, lambda path: None),
    ".parquet": FileFormat("Parquet", _parquet_header, _parquet_rows, _parquet_count),
    ".arrow": _ARROW,
    ".feather": _ARROW,
}


TableKind: TypeAlias = Literal["pandas", "polars", "pyarrow", "duckdb", "file", "iterable"]

_ACCEPTED = (
    "pass the path or the URL of a CSV, JSONL, JSON, Parquet or Arrow file, a folder or pattern of such "
    "files, a dataframe, a query result, a dict of columns, or an iterable of dicts, records or values"
)


@dataclass(frozen=True, eq=False)
class Table:
    """A readable table, such as a file, a dataframe or a list of dicts.

    Attributes:
        columns: The names of the columns; empty if they are unknown until the rows are read.
        kind: What the source is. Objects with an Arrow stream of their own are "pyarrow".
        source: The object that was passed to ``open_table``.
        text_only: True if all values are strings, as in CSV files.
        is_one_shot: True if the rows can be read only once, as with a generator.
        files: The files that the rows are read from, if the source names them.
        read_as: The encoding and the delimiter of CSV files; "" for UTF-8 with commas, and for other tables.
        json_columns: The columns of an earlier step whose answers are JSON text.
        semicolons: True for CSV files that are separated by semicolons.
        may_have_more: True if ``columns`` are those of the first row, and later rows may have others.
    """

    columns: tuple[str, ...]
    kind: TableKind
    source: Any
    _read: Callable[[], Iterator[Row]] = field(repr=False)
    _count: Callable[[], int | None] = field(default=lambda: None, repr=False)
    _types: Callable[[], Mapping[str, object]] = field(default=dict, repr=False)
    text_only: bool = False
    is_one_shot: bool = False
    files: tuple[Path, ...] = ()
    read_as: str = ""
    json_columns: frozenset[str] = frozenset()
    semicolons: bool = False
    may_have_more: bool = False

    @cached_property
    def count(self) -> int | None:
        """The number of rows; None if counting would require reading the whole table.

        The lines of CSV and JSONL files are counted on first use.
        """
        return self._count()

    @cached_property
    def types(self) -> Mapping[str, object]:
        """A dict from column names to Arrow types, if the source has types."""
        return self._types()

    def rows(self) -> Iterator[Row]:
        """Yield the rows from the start of the table, reading them in batches.

        Raises RowsError if the rows of a one-shot source are read twice.
        """
        return map(self._with_json, self._read()) if self.json_columns else self._read()

    def _with_json(self, row: Row) -> Row:
        for name in self.json_columns & row.keys():
            row[name] = JsonText(row[name]) if isinstance(row[name], str) else row[name]
        return row


def open_table(
    source: object,
    names: Sequence[str] | None = None,
    *,
    column: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Table:
    """Return a Table for a source, such as a file or a dataframe, without reading its rows.

    Args:
        source: A path, a URL, a dataframe, a query result, a dict of columns, a list of values, or an
            iterable of dicts, dataclasses, NamedTuples, pydantic models or tuples.
        names: The names of the columns, if the rows are plain tuples or lists.
        column: The name of the column of a list of values, and of a Series without a name.
        delimiter: The delimiter of CSV files; recognized by default.
        encoding: The encoding of CSV files; recognized by default.

    Raises DefinitionError if the source is not a table, and MissingExtraError if reading it needs a package
    that is not installed.
    """
    _check_csv_settings(delimiter, encoding)
    if is_series(source) or _is_arrow_column(source):
        source, names = _frame_of(source, names, column), None
    if (delimiter or encoding) and not isinstance(source, (str, PathLike)):
        raise _wrong("table", "delimiter= and encoding= are only for CSV files; leave them out")
    if names is not None:
        names = tuple(names)
        _check_names(names, "table")
        if isinstance(source, (str, Mapping, PathLike)) or _foreign_table(source) is not None:
            raise _wrong("table", "names= is only for rows that are tuples or lists; leave it out")
        return _iterable(source, names, column)
    if isinstance(source, (str, PathLike)):
        return _files(source, delimiter, encoding)
    if isinstance(source, Mapping):
        return _dict_of_columns(source)
    return _foreign_table(source) or _iterable(source, None, column)


def _check_csv_settings(delimiter: str | None, encoding: str | None) -> None:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise _wrong("table", f'delimiter is {delimiter!r}; pass one character, such as ";"')
    try:
        "".encode(encoding or "utf-8")
    except LookupError:
        raise _wrong("table", f'encoding is {encoding!r}; pass one of Python, such as "cp1251"') from None


def is_series(source: object) -> bool:
    """Return True for one column of a dataframe of pandas or polars."""
    return _is_in(source, "pandas", "Series") or _is_in(source, "polars", "Series")


def _is_arrow_column(source: Any) -> bool:
    """Return True for an array of pyarrow whose values are not records."""
    is_array = _is_in(source, "pyarrow", "Array") or _is_in(source, "pyarrow", "ChunkedArray")
    return is_array and not pyarrow().types.is_struct(source.type)


def _frame_of(series: Any, names: Sequence[str] | None, column: str | None) -> object:
    """Return a dataframe with a Series, or an array of pyarrow, as its only column."""
    own = getattr(series, "name", None)
    own = own if isinstance(own, str) and own else column  # in a table without a header it is a number
    name = names[0] if names is not None and len(names) == 1 else own
    if name is None:
        raise _wrong("table", _SEVERAL_PARAMETERS)
    return series.to_frame(name) if is_series(series) else pyarrow().table({name: series})


def _wrong(location: str, message: str) -> DefinitionError:
    return DefinitionError([DefinitionProblem(location, message)])


def _check_names(names: Sequence[object], location: str) -> None:
    """Raise DefinitionError unless there are column names and all of them are distinct strings."""
    if not names:
        raise _wrong(location, "the table has no columns")
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise _wrong(location, f"the column name {name!r} is not a text; rename the column")
        if not name.strip():
            raise _wrong(location, f"column {index + 1} has no name; give each column a name")
        if name in names[:index]:
            raise _wrong(location, f"two columns have the name {name!r}; rename one of them")


def _once(read: Callable[[], Iterator[Row]], what: str) -> Callable[[], Iterator[Row]]:
    """Return a function that yields the rows on the first call and raises RowsError on later calls."""
    uses: list[None] = []

    def read_once() -> Iterator[Row]:
        if uses:
            message = f"the rows of {what} can be read only once, and they were; pass a list or a file"
            raise RowsError(message)
        uses.append(None)
        return read()

    return read_once


# --- Plain Python values ---

_PLAIN_TYPES = frozenset({str, int, bool, type(None), bytes, date, datetime, time, timedelta, Decimal})


def _plain_pandas(value: Any) -> object:
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(value, datetime):
        return value.to_pydatetime(warn=False)  # type: ignore[attr-defined]  # a Timestamp
    if isinstance(value, timedelta):
        return value.to_pytimedelta()  # type: ignore[attr-defined]  # a Timedelta
    return _plain(value.tolist()) if hasattr(value, "tolist") else str(value)  # a Series; a Period


def _plain(value: Any, *, nan_is_missing: bool = False) -> object:
    """Convert numpy, pandas and pyarrow values to plain Python values, also inside lists and dicts."""
    kind = type(value)
    if kind in _PLAIN_TYPES:
        return value
    if kind is float:
        return None if nan_is_missing and value != value else value
    if kind is list:
        return [_plain(item, nan_is_missing=nan_is_missing) for item in value]
    if kind is dict:
        return {key: _plain(item, nan_is_missing=nan_is_missing) for key, item in value.items()}
    package = kind.__module__.partition(".")[0]
    if package == "numpy" and hasattr(value, "dtype"):
        if value.dtype.kind in "mM":  # nanoseconds would become plain integers
            value = value.astype(f"{value.dtype.kind}8[us]")
        return _plain(value.tolist(), nan_is_missing=nan_is_missing)
    if package == "pandas":
        return _plain_pandas(value)
    if package == "pyarrow" and hasattr(value, "as_py"):
        return _plain(value.as_py())
    return value


# --- Iterables and dicts of columns ---


def _iterable(source: object, names: tuple[str, ...] | None, column: str | None = None) -> Table:
    if isinstance(source, (bytes, bytearray, BaseModel)) or not isinstance(source, Iterable):
        raise _wrong("table", f"{_described(source)} is not a table; {_ACCEPTED}")
    own_column = names[0] if names is not None and len(names) == 1 else column

    def record(item: object) -> Mapping[str, object]:
        if not _is_value(item):
            return _record(item, names)
        if own_column is None:
            raise ValueError(_SEVERAL_PARAMETERS)
        return {own_column: item}

    def records() -> Iterator[Mapping[str, object]]:
        for number, item in enumerate(source, 1):
            try:
                row = record(item)
            except ValueError as error:
                raise RowsError(f"row {number}: {error}") from None
            yield row

    def read() -> Iterator[Row]:
        for row in records():
            yield {name: _plain(value) for name, value in row.items()}

    if iter(source) is source:
        return Table(names or (), "iterable", source, _once(read, "an iterator"), is_one_shot=True)
    columns: dict[str, None] = {}
    if isinstance(source, Sequence):  # it is in memory, so mistakes in its rows are found at once
        try:
            for row in records():
                columns |= dict.fromkeys(row)
        except RowsError as error:
            raise _wrong("table", str(error)) from None
        if columns:
            _check_names(tuple(columns), "table")
    count = len(source) if isinstance(source, Sized) else None
    return Table(names or tuple(columns), "iterable", source, read, lambda: count)


_SEVERAL_PARAMETERS = (
    'values without names are for methods with one parameter; pass dicts, or a column as {"text": [...]}'
)
_VALUE_TYPES = (str, bytes, int, float, Decimal, date, time, timedelta, Path, UUID, type(None))


def _is_value(item: object) -> bool:
    """Return True for the cell of a table with only one column."""
    is_scalar = hasattr(type(item), "as_py") and not hasattr(item, "keys")  # of pyarrow
    is_scalar = is_scalar or (hasattr(type(item), "dtype") and getattr(item, "ndim", 1) == 0)  # of numpy
    return is_scalar or isinstance(item, _VALUE_TYPES)


def _named(item: Sequence[object], names: tuple[str, ...] | None) -> Mapping[str, object]:
    if names is None:
        kind = type(item).__name__
        raise ValueError(f'it is a {kind} without names; pass names=("id", "text"), or rows that are dicts')
    if len(item) != len(names):
        raise ValueError(f"it has {len(item)} values, but there are {len(names)} names")
    return dict(zip(names, item, strict=True))


def _record(item: Any, names: tuple[str, ...] | None) -> Mapping[str, object]:
    """Convert the object of one row to a mapping.

    Raises ValueError if it cannot be a row.
    """
    cls: object = type(item)
    if isinstance(item, Mapping):
        return item
    if isinstance(item, BaseModel):
        return dict(item)
    if is_dataclass(cls):
        return {one.name: getattr(item, one.name) for one in fields(item)}
    if hasattr(cls, "_fields"):  # NamedTuples and the rows of SQLAlchemy
        return dict(zip(item._fields, item, strict=True))
    if hasattr(cls, "__struct_fields__"):  # msgspec
        return {name: getattr(item, name) for name in item.__struct_fields__}
    if hasattr(cls, "__attrs_attrs__"):
        return {attribute.name: getattr(item, attribute.name) for attribute in cls.__attrs_attrs__}
    if hasattr(cls, "keys") and hasattr(cls, "__getitem__"):  # sqlite3.Row and other objects like dicts
        return {name: item[name] for name in item.keys()}  # noqa: SIM118
    if isinstance(item, (tuple, list)):
        return _named(item, names)
    message = f'{_described(item)} is not a row; pass dicts or records, or a column as {{"text": [...]}}'
    raise ValueError(message)


def _described(value: object) -> str:
    text = repr(value)
    name = type(value).__name__
    return f"the {name} {text if len(text) <= 60 else f'{text[:57]}...'}"


def _dict_of_columns(source: Mapping[str, Sequence[object]]) -> Table:
    scalar = next((name for name, values in source.items() if not _is_column(values)), None)
    if scalar is not None:
        message = (
            f"the value of {scalar!r} in the dict is not a list; pass a list of dicts, or a dict with a list "
            "of values for each column"
        )
        raise _wrong("table", message)
    _check_names(tuple(source), "table")
    lengths = {name: len(values) for name, values in source.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise _wrong("table", f"the columns have different numbers of values: {sizes}")

    def read() -> Iterator[Row]:
        for values in zip(*source.values(), strict=True):
            yield dict(zip(source, map(_plain, values), strict=True))

    return Table(tuple(source), "iterable", source, read, lambda: next(iter(lengths.values())))


def _is_column(values: object) -> bool:
    """Return True for an ordered collection of values, such as a list, an array or a Series."""
    if isinstance(values, (str, bytes, bytearray, Mapping)):
        return False
    return isinstance(values, Sequence) or (hasattr(values, "__len__") and hasattr(values, "__getitem__"))


# --- Dataframes and query results ---


def _foreign_table(source: object) -> Table | None:
    """Return a Table for a dataframe, an Arrow object or a query result; None for other objects."""
    if _is_in(source, "pandas", "DataFrame"):
        return _pandas(source)
    if _is_in(source, "polars", "DataFrame"):
        return _polars(source)
    if _is_in(source, "polars", "LazyFrame"):
        return _polars_lazy(source)
    if _is_in(source, "duckdb", "DuckDBPyRelation"):
        return _duckdb(source)
    if _is_sqlalchemy_result(source):
        return _sqlalchemy(source)
    return _arrow(source)


def _is_in(source: object, package: str, name: str) -> bool:
    """Return True if an object is an instance of a package's named class, without importing the package."""
    cls = getattr(sys.modules.get(package), name, None)
    return isinstance(cls, type) and isinstance(source, cls)


def _pandas(frame: Any) -> Table:
    columns = tuple(frame.columns)
    _check_names(columns, "the DataFrame")

    def read() -> Iterator[Row]:
        for start in range(0, len(frame), BATCH_SIZE):
            batch = frame.iloc[start : start + BATCH_SIZE]
            values = [[_plain(v, nan_is_missing=True) for v in batch[name].tolist()] for name in columns]
            for row in zip(*values, strict=True):
                yield dict(zip(columns, row, strict=True))

    def types() -> Mapping[str, object]:
        schema = pyarrow(feature="the types of a DataFrame").Schema
        arrow: dict[str, object] = {}
        for name in columns:
            with suppress(ValueError, TypeError, NotImplementedError):  # a dtype that Arrow does not have
                # without rows: the values of a column of objects may have any type
                arrow |= arrow_types(schema.from_pandas(frame[[name]].head(0), preserve_index=False))
        return arrow

    return Table(columns, "pandas", frame, read, lambda: len(frame), types)


def _polars(frame: Any) -> Table:
    columns = tuple(frame.columns)
    _check_names(columns, "the DataFrame")

    def read() -> Iterator[Row]:
        rows: Iterator[Row] = frame.iter_rows(named=True, buffer_size=BATCH_SIZE)
        return rows

    return Table(columns, "polars", frame, read, lambda: len(frame), lambda: _polars_types(frame.head(0)))


def _polars_lazy(frame: Any) -> Table:
    schema = frame.collect_schema()
    columns = tuple(schema)
    _check_names(columns, "the LazyFrame")

    def read() -> Iterator[Row]:
        if hasattr(frame, "collect_batches"):
            for batch in frame.collect_batches(chunk_size=BATCH_SIZE, maintain_order=True):
                yield from batch.iter_rows(named=True)
        else:
            yield from frame.collect().iter_rows(named=True, buffer_size=BATCH_SIZE)

    return Table(columns, "polars", frame, read, _types=lambda: _polars_types(schema.to_frame()))


def _polars_types(frame: Any) -> Mapping[str, object]:
    pyarrow(feature="the types of a polars dataframe")
    arrow: dict[str, object] = {}
    for name, dtype in frame.schema.items():
        with suppress(ValueError, TypeError, NotImplementedError):  # a type that Arrow does not have
            if str(dtype) != "Object":
                arrow |= arrow_types(frame.select(name).to_arrow().schema)
    return arrow


def _duckdb(relation: Any) -> Table:
    columns = tuple(relation.columns)
    _check_names(columns, "the DuckDB relation")
    pyarrow(feature="reading a DuckDB relation")

    def read() -> Iterator[Row]:
        open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        yield from batch_rows(open_reader(BATCH_SIZE), "the DuckDB relation")

    def types() -> Mapping[str, object]:
        return arrow_types(pyarrow(feature="DuckDB").table(relation.limit(0)).schema)

    return Table(columns, "duckdb", relation, read, _types=types)


def _is_sqlalchemy_result(source: object) -> bool:
    names = [(cls.__module__.partition(".")[0], cls.__name__) for cls in type(source).__mro__]
    return ("sqlalchemy", "Result") in names


def _sqlalchemy(result: Any) -> Table:
    columns = tuple(result.keys())
    _check_names(columns, "the SQL result")

    def read() -> Iterator[Row]:
        return (dict(zip(columns, row, strict=True)) for row in result)

    return Table(columns, "iterable", result, _once(read, "a SQL result"), is_one_shot=True)


def _arrow(source: Any) -> Table | None:
    """Return a Table for an object that can export Arrow data; otherwise return None."""
    name = f"the {type(source).__name__}"
    if hasattr(source, "get_fragments") and hasattr(source, "scanner"):  # a dataset

        def read() -> Iterator[Row]:
            # the defaults read many files and batches in advance
            batches = source.to_batches(batch_size=BATCH_SIZE, batch_readahead=2, fragment_readahead=1)
            return batch_rows(batches, name)

        return _arrow_table(source, source.schema, read, source.count_rows)
    if hasattr(source, "read_next_batch") and hasattr(source, "schema"):
        read = _once(lambda: batch_rows(source, name), "a RecordBatchReader")
        return _arrow_table(source, source.schema, read, is_one_shot=True)
    if hasattr(source, "__arrow_c_stream__"):
        return _arrow_stream(source, name)
    if hasattr(source, "__arrow_c_array__") or hasattr(source, "__dataframe__"):
        pa = pyarrow(feature=f"reading {name}")
        try:
            if hasattr(source, "__arrow_c_array__"):
                table = pa.Table.from_batches([pa.record_batch(source)])
            else:
                table = pyarrow("pyarrow.interchange", f"reading {name}").from_dataframe(source)
        except (ValueError, TypeError, RuntimeError) as error:
            raise _wrong("table", f"{name} is not a table: {error}") from error
        return _arrow_table(
            source, table.schema, lambda: batch_rows(table.to_batches(), name), lambda: len(table)
        )
    return None


def _arrow_stream(source: object, name: str) -> Table:
    pa = pyarrow(feature=f"reading {name}")
    try:
        schema = pa.RecordBatchReader.from_stream(source).schema
    except (ValueError, TypeError) as error:
        raise _wrong("table", f"the Arrow stream of {name} is not a table: {error}") from error

    def read() -> Iterator[Row]:
        return batch_rows(pa.RecordBatchReader.from_stream(source), name)

    count = getattr(source, "num_rows", None)
    return _arrow_table(source, schema, read, lambda: count if isinstance(count, int) else None)


def _arrow_table(
    source: object,
    schema: Any,
    read: Callable[[], Iterator[Row]],
    count: Callable[[], int | None] = lambda: None,
    *,
    is_one_shot: bool = False,
) -> Table:
    columns = tuple(schema.names)
    _check_names(columns, f"the {type(source).__name__}")
    return Table(
        columns, "pyarrow", source, read, count, lambda: arrow_types(schema), is_one_shot=is_one_shot
    )


# --- Finding the files of a path, folder or pattern ---


def _checked_headers(file_format: FileFormat, paths: Sequence[Path]) -> list[Header]:
    """Return the headers of the files of a table, which must have the same columns."""
    headers = [_checked_header(file_format, path) for path in paths]
    for path, header in zip(paths, headers, strict=True):
        if set(header.columns) != set(headers[0].columns):
            message = (
                f"its columns are {', '.join(header.columns)}, but those of {paths[0].name} are "
                f"{', '.join(headers[0].columns)}; the files of a table need the same columns"
            )
            raise _wrong(str(path), message)
    return headers


def _files(source: str | PathLike[str], delimiter: str | None, encoding: str | None) -> Table:
    copies = None
    if isinstance(source, str) and _PROTOCOL.match(source):
        copies = _Copies(source)
    paths = copies.paths if copies is not None else _paths(source)
    csv_format = _CsvFiles(delimiter, encoding).format
    formats = [csv_format if one is _CSV else one for one in map(_format_of, paths)]
    if (delimiter or encoding) and csv_format not in formats:
        raise _wrong(str(source), "delimiter= and encoding= are only for CSV files; leave them out")
    other = next((index for index, one in enumerate(formats) if one is not formats[0]), None)
    if other is not None:
        message = (
            f"the files have different formats: {paths[0].name} is {formats[0].name}, {paths[other].name} is "
            f"{formats[other].name}; pass files of one format"
        )
        raise _wrong(str(source), message)
    file_format = formats[0]
    headers = _checked_headers(file_format, paths)
    # a column with different types in different files gets a type that fits all its values
    types = {
        name: tp
        for name, tp in headers[0].types.items()
        if all(header.types.get(name) == tp for header in headers)
    }

    def count() -> int | None:
        counts = [file_format.count_rows(path) for path in paths]
        return None if None in counts else sum(number for number in counts if number is not None)

    return Table(
        headers[0].columns,
        "file",
        source,
        lambda: _rows_of(file_format, paths, copies),
        count,
        lambda: types,
        text_only=file_format.text_only,
        files=tuple(paths),
        read_as=file_format.notes(),
        semicolons=file_format.semicolons(),
    )


def _rows_of(file_format: FileFormat, paths: Sequence[Path], copies: object) -> Iterator[Row]:
    """Yield the rows of several files; ``copies`` is kept, because the files are deleted with it."""
    yield from chain.from_iterable(map(file_format.rows, paths))
    del copies


_PROTOCOL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:::[A-Za-z][A-Za-z0-9+.-]*)*://")


class _Copies:
    """Copies of the files at a URL, in a folder that is deleted with this object.

    Attributes:
        paths: The copies.
    """

    def __init__(self, url: str) -> None:
        protocol = url.partition("://")[0].lower()
        is_web = protocol in ("http", "https")
        library = import_extra("httpx2" if is_web else "fsspec", "tables", f"a table at {protocol}://")
        folder = temporary_folder(self)
        try:
            if is_web:
                name = PurePosixPath(unquote(urlsplit(url).path)).name
                self.paths = [folder / (name or "table")]
                _download(library, url, self.paths[0])
                return
            system, path = library.core.url_to_fs(url)
            names = sorted(self._names(system, path))
            if not names:
                raise FileNotFoundError(f"there are no files at {url}")
            self.paths = [folder / f"{index}-{PurePosixPath(name).name}" for index, name in enumerate(names)]
            for name, copy in zip(names, self.paths, strict=True):
                system.get_file(name, str(copy))
        except ImportError as error:  # of the protocol
            raise _wrong("table", f"{url} cannot be read: {error}") from error
        except Exception as error:  # each protocol has its own errors
            raise _wrong("table", f"{url} cannot be read: {type(error).__name__}: {error}") from error

    @staticmethod
    def _names(system: Any, path: str) -> list[str]:
        """List the files at a path, in a folder, or of a pattern."""
        if any(character in path for character in "*?["):
            return [name for name in system.glob(path) if not system.isdir(name)]
        if not system.isdir(path):
            return [path]
        infos = system.ls(path, detail=True)
        files = [info["name"] for info in infos if info["type"] == "file"]
        return [name for name in files if PurePosixPath(name).name[:1] not in ("", ".", "_")]


def _download(httpx2: Any, url: str, path: Path) -> None:
    with httpx2.stream("GET", url, follow_redirects=True) as response, path.open("wb") as file:
        response.raise_for_status()
        for part in response.iter_bytes():
            file.write(part)


def _paths(source: str | PathLike[str]) -> list[Path]:
    """List the files matching a path, a folder or a glob pattern, sorted by name."""
    text = str(source)
    paths: list[Path] = []
    is_folder = False
    try:
        path = Path(source)
        is_folder = path.is_dir()
        if path.is_file():
            paths = [path]
        elif is_folder:
            # other programs put marker files such as _SUCCESS next to the data
            paths = sorted(p for p in path.iterdir() if p.is_file() and p.name[0] not in "._")
        elif any(character in text for character in "*?["):
            paths = sorted(p for p in map(Path, glob(text, recursive=True)) if p.is_file())
    except (OSError, ValueError):  # a text that is too long for a path, or has a null character
        pass
    if paths:
        return paths
    if is_folder:
        raise _wrong(text, f"the folder has no files; {_ACCEPTED}")
    raise _wrong("table", f"{text if len(text) <= 60 else f'{text[:57]}...'!r} is not a file; {_ACCEPTED}")


def _format_of(path: Path) -> FileFormat:
    name = path.name.lower()
    ending = next((ending for ending in FORMATS if name.endswith(ending)), None)
    if ending is None:
        message = f"the file has an unknown ending; use one of {', '.join(FORMATS)}"
        raise _wrong(str(path), message)
    return FORMATS[ending]


def _checked_header(file_format: FileFormat, path: Path) -> Header:
    try:
        header = file_format.header(path)
    except RowsError as error:
        raise _wrong(str(path), str(error).removeprefix(f"{path}: ").removeprefix(f"{path} ")) from error
    if header.columns:
        _check_names(header.columns, str(path))
    return header


# --- Arrow data ---


Row: TypeAlias = dict[str, object]

BATCH_SIZE = 1_000  # rows; small, because a row may hold whole documents


def pyarrow(module: str = "pyarrow", feature: str = "writing Arrow data") -> Any:
    """Import pyarrow or one of its modules; raise MissingExtraError if it is not installed."""
    return import_extra(module, "tables", feature)


def arrow_types(schema: Any) -> dict[str, object]:
    """Return a dict from a schema's column names to their Arrow types.

    Dictionary-encoded columns have the type of their values. Columns that are always null have no type.
    """
    types = {column.name: _value_type(column.type) for column in schema}
    return {name: tp for name, tp in types.items() if str(tp) != "null"}


def _value_type(tp: Any) -> object:
    """Replace dictionary and view types inside an Arrow type, such as ``string_view`` with ``string``."""
    kinds = pyarrow(feature="Arrow types").types
    if kinds.is_dictionary(tp) or kinds.is_run_end_encoded(tp):
        return _value_type(tp.value_type)
    if kinds.is_string_view(tp):
        return pyarrow(feature="Arrow types").string()
    if kinds.is_binary_view(tp):
        return pyarrow(feature="Arrow types").binary()
    return _with_parts(tp, _value_type)


def _microseconds(tp: Any) -> object:
    """Replace nanoseconds in an Arrow type with microseconds, the finest unit in Python."""
    pa = pyarrow(feature="Arrow types")
    kinds = pa.types
    if getattr(tp, "unit", None) == "ns":
        if kinds.is_timestamp(tp):
            return pa.timestamp("us", tp.tz)
        return pa.duration("us") if kinds.is_duration(tp) else pa.time64("us")
    if kinds.is_dictionary(tp):
        value = _microseconds(tp.value_type)
        return tp if value == tp.value_type else value
    return _with_parts(tp, _microseconds)


def _with_parts(tp: Any, change: Callable[[Any], object]) -> object:
    """Apply a function to the inner types of an Arrow struct, map or list type; return the new type."""
    pa = pyarrow(feature="Arrow types")
    kinds = pa.types
    if kinds.is_struct(tp):
        return pa.struct([part.with_type(change(part.type)) for part in tp])
    if kinds.is_map(tp):
        return pa.map_(change(tp.key_type), change(tp.item_type))
    if kinds.is_fixed_size_list(tp):
        return pa.list_(change(tp.value_type), tp.list_size)
    if kinds.is_large_list(tp):
        return pa.large_list(change(tp.value_type))
    return pa.list_(change(tp.value_type)) if kinds.is_list(tp) else tp


def batch_rows(batches: Iterable[Any], location: str) -> Iterator[Row]:
    """Yield the rows of Arrow record batches as dicts of Python values."""
    with reading(location):
        for large in batches:
            for start in range(0, large.num_rows, BATCH_SIZE):
                batch = large.slice(start, BATCH_SIZE)
                columns = map(_python_values, batch.columns)
                for values in zip(*columns, strict=True):
                    yield dict(zip(batch.schema.names, values, strict=True))


def _python_values(column: Any) -> list[object]:
    readable = _microseconds(column.type)  # pyarrow gives nanoseconds as objects of pandas
    if readable != column.type:
        column = column.cast(readable, safe=False)  # digits below a microsecond are cut off
    values: list[object] = column.to_pylist(maps_as_pydicts="strict")
    return values


@contextmanager
def reading(location: str) -> Iterator[None]:
    """Context manager that converts errors while reading a table to a RowsError that names the table."""
    try:
        yield
    except UnicodeDecodeError as error:
        name = {"utf-8": "UTF-8"}.get(error.encoding, error.encoding)
        message = f"{location}: the file is not {name} text ({error.reason}); convert it to UTF-8"
        raise RowsError(message) from error
    # pyarrow's errors are among these; KeyError: a map that has a key twice
    except (OSError, EOFError, ValueError, KeyError, OverflowError, NotImplementedError, zlib.error) as error:
        raise RowsError(f"{location} cannot be read: {error}") from error
