"""Read CSV files with any delimiter and encoding, which are recognized from the content.

``aiservices.text_encoding`` recognizes the encoding. The delimiter is a comma, a semicolon, a tab or a
vertical bar, whichever divides all records into as many fields as the header. A file that cannot be
recognized raises an error that names the setting.
"""

from __future__ import annotations

import csv
import gzip
import io
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from ..text_encoding import recognized_encoding
from .row import RowsError

_LOGGER = logging.getLogger("aiservices")
_CHUNK = 1 << 20
_SAMPLE = 1 << 16  # characters that are searched for the delimiter
DELIMITERS = ",;\t|"
_DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n")  # for Excel


class CsvDialect(NamedTuple):
    """The format of a CSV file.

    Attributes:
        encoding: The encoding, as Python calls it.
        delimiter: The character between two fields.
        has_separator_line: True if the first line is ``sep=;``, which is not a record.
    """

    encoding: str
    delimiter: str
    has_separator_line: bool = False

    def __str__(self) -> str:
        name = "UTF-8" if self.encoding == "utf-8-sig" else self.encoding
        return f"{name}, separated by {_DELIMITER_NAMES.get(self.delimiter, repr(self.delimiter))}"


USUAL = CsvDialect("utf-8-sig", ",")


def csv_dialect(path: Path, encoding: str | None = None, delimiter: str | None = None) -> CsvDialect:
    """Recognize how a CSV file is written, unless the encoding or the delimiter is given.

    Raises RowsError if it cannot be recognized.
    """
    encoding = encoding or _encoding(path)
    with open_text(path, encoding, newline="") as file:
        sample = file.read(_SAMPLE)
        is_cut = len(sample) == _SAMPLE
    separator_line = SEPARATOR_LINE.match(sample)
    if separator_line is not None:
        return CsvDialect(encoding, delimiter or separator_line[1], True)
    return CsvDialect(encoding, delimiter or _delimiter(path, sample, is_cut=is_cut))


def open_text(path: Path, encoding: str = "utf-8-sig", newline: str | None = None) -> IO[str]:
    """Open a text file, which may be compressed with gzip."""
    return io.TextIOWrapper(_open_bytes(path), encoding=encoding, newline=newline)


def read_records(
    path: Path, lines: Iterable[str], delimiter: str, *, skipped: int = 0, strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a CSV file with the numbers of their last lines; empty lines are left out.

    ``lines`` begin after the ``skipped`` first lines of the file. Raises RowsError for a wrong record.
    """
    # the limit of Python, for the whole process, is smaller than many documents
    csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
    reader = csv.reader(lines, strict=strict, delimiter=delimiter)
    try:
        for record in reader:
            if record:
                yield reader.line_num + skipped, record
    except csv.Error as error:
        raise RowsError(f"{path}, line {reader.line_num + skipped}: {error}") from error


def _open_bytes(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def _chunks(path: Path) -> Iterator[bytes]:
    with _open_bytes(path) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _encoding(path: Path) -> str:
    try:
        encoding = recognized_encoding(lambda: _chunks(path))
    except UnicodeDecodeError as error:
        raise RowsError(
            f"{path}: the file is not UTF-8 text ({error.reason}), and its encoding cannot be "
            'recognized; pass encoding=, such as encoding="cp1251", or convert it to UTF-8'
        ) from error
    if encoding == "cp1252":
        _LOGGER.warning("%s is not UTF-8 text; it is read as Windows-1252. Pass encoding= for another", path)
    return encoding


def _delimiter(path: Path, sample: str, *, is_cut: bool) -> str:
    sizes = {one: _field_counts(sample, one, is_cut=is_cut) for one in DELIMITERS}
    candidates = {one: counts for one, counts in sizes.items() if counts and counts[0] > 1}
    regular = [one for one, counts in candidates.items() if set(counts) == {counts[0]}]
    if len(regular) > 1:
        names = " or ".join(_DELIMITER_NAMES[one] for one in regular)
        raise RowsError(f"{path}: the fields may be separated by {names}; pass delimiter=")
    if regular:
        return regular[0]
    return max(candidates, key=lambda one: candidates[one][0], default=",")


def _field_counts(sample: str, delimiter: str, *, is_cut: bool) -> list[int]:
    """Return the number of fields of each record; an empty list if the delimiter does not fit the text."""
    counts: list[int] = []
    try:
        records = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, strict=True)
        counts.extend(len(record) for record in records if record)  # those before an error are kept
    except csv.Error as error:
        if not is_cut or "unexpected end" not in str(error):
            return counts[:1] if counts and counts[0] > 1 else []
        return counts
    return counts[:-1] if is_cut and len(counts) > 1 else counts
