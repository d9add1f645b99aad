"""Read CSV, JSONL, JSON, Parquet and Arrow files as rows."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from .arrow_batches import BATCH_SIZE, Row, arrow_types, batch_rows, pyarrow, reading
from .errors import RowsError


class Header(NamedTuple):
    """The names and Arrow types of the columns of a file; no names if only its rows have them."""

    columns: tuple[str, ...] = ()
    types: Mapping[str, Any] = {}


class FileFormat(NamedTuple):
    """The functions that read one file format."""

    name: str
    header: Callable[[Path], Header]
    rows: Callable[[Path], Iterator[Row]]
    count_rows: Callable[[Path], int | None]
    text_only: bool = False


def _open_text(path: Path, newline: str | None = None) -> IO[str]:
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    file: IO[str] = opener(path, "rt", encoding="utf-8-sig", newline=newline)
    return file


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a CSV file, each with the number of its last line. Empty lines are left out."""
    # the limit of Python, for the whole process, is smaller than many documents
    csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
    with reading(str(path)), _open_text(path, newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            for record in reader:
                if record:
                    yield reader.line_num, record
        except csv.Error as error:
            raise RowsError(f"{path}, line {reader.line_num}: {error}") from error


def _csv_header(path: Path) -> Header:
    lines = _csv_lines(path)
    _, names = next(lines, (0, []))
    lines.close()  # type: ignore[attr-defined]  # a generator
    if not names:
        raise RowsError(f"{path}: the file is empty; the first line must have the names of the columns")
    return Header(tuple(names))


def _csv_rows(path: Path) -> Iterator[Row]:
    lines = _csv_lines(path)
    _, names = next(lines)
    for line, record in lines:
        if len(record) != len(names):
            message = (
                f"{path}, line {line}: the row has {len(record)} fields, but the header has {len(names)}; a "
                "field with a comma or a line break needs quotes"
            )
            raise RowsError(message)
        yield dict(zip(names, record, strict=True))


def _csv_count(path: Path) -> int:
    return sum(1 for _ in _csv_lines(path)) - 1


def _unique_keys(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} occurs twice")
    return row


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys)


def _jsonl_rows(path: Path) -> Iterator[Row]:
    with reading(str(path)), _open_text(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _json_row(line, path, number)


def _json_row(line: str, path: Path, number: int) -> Row:
    try:
        row = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise RowsError(f"{path}, line {number}: {error}") from error
    if not isinstance(row, dict):
        raise RowsError(f"{path}, line {number}: a row must be a JSON object, found {line.strip()[:60]}")
    return row


def _jsonl_count(path: Path) -> int:
    with reading(str(path)), _open_text(path) as file:
        return sum(1 for line in file if line.strip())


_FIRST_CHUNK = 1 << 16  # characters of a JSON file that are read at once; more if a row is longer


def _json_rows(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSON array, without reading the whole file into memory."""
    with reading(str(path)), _open_text(path) as file:
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
                        raise RowsError(f"{path}, row {number + 1}: {error}") from error
                    text, more = text + part, more * 2
            number, separator, text = number + 1, "", text[end:]
            if not isinstance(row, dict):
                raise RowsError(f"{path}, row {number}: a row must be a JSON object, found {str(row)[:60]}")
            yield row


def _parquet(path: Path) -> Any:
    module = pyarrow("reading Parquet files", "pyarrow.parquet")
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
    """Open an Arrow file, or a file with an Arrow stream, which is called .arrow too."""
    pa = pyarrow("reading Arrow files")
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


_CSV = FileFormat("CSV", _csv_header, _csv_rows, _csv_count, text_only=True)
_JSONL = FileFormat("JSONL", lambda path: Header(), _jsonl_rows, _jsonl_count)
_ARROW = FileFormat("Arrow", _arrow_header, _arrow_rows, _arrow_count)
FORMATS = {
    ".csv": _CSV,
    ".csv.gz": _CSV,
    ".jsonl": _JSONL,
    ".jsonl.gz": _JSONL,
    ".json": FileFormat("JSON", lambda path: Header(), _json_rows, lambda path: None),
    ".parquet": FileFormat("Parquet", _parquet_header, _parquet_rows, _parquet_count),
    ".arrow": _ARROW,
    ".feather": _ARROW,
}
