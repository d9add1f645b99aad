"""Review of uncertain answers by people: write a CSV file for them, and read what they have entered.

The file can be edited with a spreadsheet or a dataframe: it may be sorted, have other columns, another
separator or another encoding. What people answered is stored in the journal of the run.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Leniency
from output_parsers.types.decisions import DecisionNode
from output_parsers.types.records import EnvelopeNode

from ..atomic_file import write_atomically
from ..decisions.adjustments import answers_of
from ..decisions.calibration import Adjustment
from ..models.errors import DefinitionError, DefinitionProblem, counted
from ..text_encoding import marked_encoding
from .csv_files import DELIMITERS, SEPARATOR_LINE, read_records
from .fields import utf8_text
from .outputs import is_formula
from .row import Agreement, MappedMethod, Row, RowsError, content_id

if TYPE_CHECKING:  # few answers are cited
    from ..documents.highlighting import Highlighted

_INDEX = re.compile(r"\[\d+\]")
_ROW, _ANSWER, _PROBABILITY, _REVIEWED = "row id", "answer", "probability", "reviewed answer"
_OWN_NAMES = frozenset({_ROW, _ANSWER, _PROBABILITY, _REVIEWED})
_ID_PREFIX = "row-"  # so that programs do not read an id such as 12e45 as a number
_ID = re.compile(r"(?:row-)?([0-9a-f]{32})")
_MAX_LISTED = 20

# --- Cells that a spreadsheet would run ---


def _escaped(text: str) -> str:
    """Return a cell with an apostrophe before what a spreadsheet would run as a formula."""
    return f"'{text}" if is_formula(text.lstrip("'")) else text


def _unescaped(text: str) -> str:
    return text[1:] if text.startswith("'") and is_formula(text.lstrip("'")) else text


# --- Writing ---


class Review:
    """Writes the rows with uncertain answers to a CSV file, so that people can correct the answers.

    An answer is uncertain if one of its probabilities is below ``unsure_below``, or below the threshold of
    its calibration.

    Attributes:
        path: The file.
        unsure: The number of rows that were written.
        error_bound: The upper limit of the share of wrong answers among the other rows, as the calibration
            states it; None if it states none.
    """

    def __init__(self, path: Path, method: MappedMethod, unsure_below: float | None) -> None:
        self.path = path
        self._method = method
        self._unsure_below = unsure_below
        self._adjustments: Mapping[str, Adjustment] = method.call.decisions.adjustments
        self.unsure = 0
        if unsure_below is None and not self._thresholds():
            message = (
                "review needs to know when an answer is unsure: pass unsure_below=0.9, or create the service "
                "with a calibration or thresholds"
            )
            raise DefinitionError([DefinitionProblem(method.qualname, message)])

    def _thresholds(self) -> dict[str, float]:
        """Return a dict from JSON paths to the lowest probability at which an answer is accepted."""
        limits = {path: adjustment.accepted_from for path, adjustment in self._adjustments.items()}
        return {path: limit for path, limit in limits.items() if limit is not None}

    @property
    def error_bound(self) -> float | None:
        """The maximum share of wrong answers among those not written to the file; None if unknown."""
        if self._unsure_below is not None:
            return None
        promised = [
            entry.threshold["error"]
            for adjustment in self._adjustments.values()
            for entry in adjustment.calibrations[:1]
            if entry.threshold is not None and adjustment.threshold is None
        ]
        # The members of a list have adjustments of their own.
        decided = [one for one in self._adjustments.values() if not one.members or one.threshold is not None]
        return sum(promised) if promised and len(promised) == len(decided) else None

    def check_unread(self, stored: Mapping[str, str]) -> None:
        """Raise RowsError if the file has answers by people that the journal does not have.

        They would be lost when the file is written again.

        Args:
            stored: The JSON of the answers that the journal has, by row id.
        """
        if not self.path.exists():
            return
        try:
            answers = read_reviewed(self.path, self._method)
        except _NoReviewError:
            return
        unread = sum(stored.get(row) != self._method.codec.write(answer) for row, answer in answers.items())
        if unread:
            raise RowsError(
                f"{self.path} has {counted(unread, 'answer')} by people that would be lost; pass "
                f'reviewed="{self.path}" too, or choose another file for review='
            )

    @contextmanager
    def open(self, columns: tuple[str, ...]) -> Generator[Review, None, None]:
        """Context manager that opens the review file for a table with the given columns."""
        self.unsure = 0
        with _new_file(self.path) as write:
            self._write_record = write
            write([_ROW, *_display_names(columns), _ANSWER, _PROBABILITY, _REVIEWED])
            self._columns = columns
            self._cited: list[Highlighted] = []
            self._limits = self._thresholds()
            for member_path, one in answers_of(self._method.service_method.plan.call).items():
                if one.list_path in self._limits:  # the threshold of a list is for each of its members
                    self._limits.setdefault(member_path, self._limits[one.list_path])
            yield self
        if self._cited:
            from ..documents.highlighting import highlight_all

            write_atomically(
                self.path.with_suffix(".quotes.html"), highlight_all(self._cited, self.path.name)
            )

    def write(self, row: Row[object]) -> None:
        """Write a row to the review file if its answer is uncertain."""
        lowest = 1.0
        is_unsure = False
        for path, shares in row.probabilities.items():
            probability = max(shares.values())
            limit = self._unsure_below
            if limit is None:
                limit = self._limits.get(_INDEX.sub("[]", path), 0.0)
            is_unsure = is_unsure or probability < limit
            lowest = min(lowest, probability)
        if not is_unsure or row.reviewed:
            return
        self.unsure += 1
        answer = _display_text(json.loads(self._method.codec.write(row.value)))
        inputs = [_cell(row.inputs.get(column)) for column in self._columns]
        row_id = _row_id(self._method, row)
        self._write_record([row_id, *inputs, answer, f"{lowest:.4f}", ""])
        if self._method.service_method.plan.call.check is not None:
            from ..documents.highlighting import Highlighted  # few answers are cited
            from ..engine.citations import documents_among

            documents = documents_among(self._method.arguments(row.inputs))
            self._cited.append(Highlighted(row_id, documents, row.value))


def write_for_labels(
    path: Path, method: MappedMethod, columns: Sequence[str], rows: Sequence[Row[object]]
) -> None:
    """Write rows to a review file without answers, which must not influence the person who labels them."""
    different: dict[str, Row[object]] = {}  # equal rows need one label
    for row in rows:
        different.setdefault(_row_id(method, row), row)
    with _new_file(path) as write:
        write([_ROW, *_display_names(columns), _REVIEWED])
        for row_id, row in different.items():
            write([row_id, *(_cell(row.inputs.get(column)) for column in columns), ""])


def _row_id(method: MappedMethod, row: Row[object]) -> str:
    return f"{_ID_PREFIX}{content_id(method.arguments(row.inputs))}"


def _display_names(columns: Sequence[str]) -> list[str]:
    return [f"input {name}" if _plain_name(name) in _OWN_NAMES else name for name in columns]


@contextmanager
def _new_file(path: Path) -> Iterator[Callable[[Sequence[str]], object]]:
    """Context manager that writes a CSV file: yields a function that writes a record.

    The file gets its name when it is complete; after an error it does not exist. Raises RowsError if it
    cannot be created.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = partial.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise RowsError(f"{path} cannot be written: {error}") from error
    try:
        with opened as file:
            writer = csv.writer(file)
            yield lambda cells: writer.writerow([utf8_text(_escaped(cell)) for cell in cells])
        _complete(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _complete(partial: Path, path: Path) -> None:
    """Give a complete file its name, and a byte order mark that tells spreadsheets that it is UTF-8."""
    data = partial.read_bytes()
    if not data.isascii():
        partial.write_bytes(codecs.BOM_UTF8 + data)
    partial.replace(path)


def _display_text(data: object) -> str:
    """Convert an answer from JSON data to readable text, for example a string without quotes."""
    data = _without_probabilities(data)
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


def _without_probabilities(data: object) -> object:
    if isinstance(data, list):
        return [_without_probabilities(one) for one in data]
    if not isinstance(data, dict):
        return data
    if data.keys() >= {"value", "probabilities"}:
        return _without_probabilities(data["value"])
    return {key: _without_probabilities(one) for key, one in data.items()}


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


# --- Reading ---


class _NoReviewError(RowsError):
    """Raised if a file does not have the columns of a review file."""


def read_reviewed(path: Path, method: MappedMethod) -> dict[str, object]:
    """Read the answers that people have entered into a review file, by row id.

    Rows without an answer are skipped. All cells that cannot be read are reported together.
    """
    text, is_encoding_known = _text_of(path)
    delimiter, names, records = _records(path, text)
    row_column, answer_column = names.index(_ROW), names.index(_REVIEWED)
    reader = _AnswerReader(method, decimal_separator="," if delimiter == ";" else ".")
    answers: dict[str, tuple[int, str]] = {}
    values: dict[str, object] = {}
    problems: list[str] = []
    for line, record in records:
        cells = [*record, *[""] * (len(names) - len(record))]
        row, cell = _unescaped(cells[row_column].strip()), _unescaped(cells[answer_column].strip()).strip()
        if not cell:
            continue
        match = _ID.fullmatch(row)
        if match is None:
            problems.append(f"line {line}: {row!r} is not a row id; the ids of the file must not be changed")
            continue
        if not (is_encoding_known or cell.isascii() or reader.has_options):
            problems.append(f"line {line}: {cell!r} has letters in an unknown encoding; save it as CSV UTF-8")
            continue
        earlier_line, earlier = answers.setdefault(match[1], (line, cell))
        try:
            value = reader.read(cell)
        except ValueError as error:
            problems.append(f"line {line}: {error}")
            continue
        if match[1] in values and method.codec.write(values[match[1]]) != method.codec.write(value):
            problems.append(
                f"line {line}: {cell!r} is not {earlier!r}, the answer to the same row in line {earlier_line}"
            )
        values[match[1]] = value
    if problems:
        raise RowsError(_all(path, problems))
    return values


def _all(path: Path, problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return f"{path}, {problems[0]}"
    rest = len(problems) - _MAX_LISTED
    listed = [*problems[:_MAX_LISTED], *([f"and {rest:,} more"] if rest > 0 else [])]
    return f"{path}: {len(problems):,} cells cannot be read:\n  - " + "\n  - ".join(listed)


def _text_of(path: Path) -> tuple[str, bool]:
    """Return the text of a file, and whether its encoding is known: UTF-8 or UTF-16.

    Other files are read as Windows-1252. In another encoding, only the letters beyond ASCII are wrong.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RowsError(f"{path} cannot be read: {error.strerror}") from error
    if data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise RowsError(f"{path} is a workbook; save the sheet as a CSV file")
    encoding = marked_encoding(data)
    if encoding is None and b"\0" in data[:4]:  # the name of a column, in ASCII
        encoding = "utf-16-be" if b"\0" in data[:1] else "utf-16-le"
    try:
        return data.decode(encoding or "utf-8-sig"), True
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace"), False


def _records(path: Path, text: str) -> tuple[str, list[str], Iterator[tuple[int, list[str]]]]:
    """Return the delimiter of a review file, the names of its columns, and the records with their lines.

    The names are in the form of ``_plain_name``.
    """
    separator_line = SEPARATOR_LINE.match(text)
    body = text if separator_line is None else text[separator_line.end() :]
    skipped = int(separator_line is not None)
    for delimiter in DELIMITERS:
        records = read_records(path, io.StringIO(body, newline=""), delimiter, skipped=skipped, strict=False)
        try:
            _, header = next(records, (0, []))
        except RowsError:
            continue
        names = [_plain_name(_unescaped(name)) for name in header]
        if _ROW not in names or _REVIEWED not in names:
            continue
        for name in (_ROW, _REVIEWED):
            if names.count(name) > 1:
                raise RowsError(f"{path} has two columns {name}; remove one of them")
        return delimiter, names, records
    names = [_plain_name(name) for name in re.split(f"[{DELIMITERS}]", body.partition("\n")[0])]
    missing = [name for name in (_ROW, _REVIEWED) if name not in names]
    raise _NoReviewError(f"{path} is not a file for review: it has no column {', '.join(missing)}")


def _plain_name(name: str) -> str:
    return re.sub(r"[\s_]+", " ", name.strip()).casefold()


# A number with a decimal separator, or an integer in a column of floats.
_DECIMAL = re.compile(r"([+-]?\d+)([.,])(\d+)((?:[eE][+-]?\d+)?)")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3})+(?:[.,]\d+)?")


class _AnswerReader:
    """Reads answers that people have entered into cells.

    Attributes:
        has_options: True if the answer is one of several options.
    """

    def __init__(self, method: MappedMethod, *, decimal_separator: str) -> None:
        self._parser = method.codec.parser
        self._separator = decimal_separator
        answers = answers_of(method.service_method.plan.call).get("$")
        self._options: list[object] = [] if answers is None else [data for data, _ in answers.options]
        self.has_options = bool(self._options)
        self._expected = _expected(self._parser, method.codec.name)

    def read(self, cell: str) -> object:
        """Return the answer in a cell, or raise ValueError that says what to write."""
        for leniency, text in self._candidates(cell):
            try:
                return self._parser.parse(text, leniency)
            except OutputParsingError:
                continue
        raise ValueError(f"{cell!r} is not {self._expected}")

    def _candidates(self, cell: str) -> Iterator[tuple[Leniency, str]]:
        """Yield the texts that a cell may mean; a number with two meanings is only text."""
        number = self._number_in(cell)
        is_text_only = number is None and (_DECIMAL.fullmatch(cell) or _GROUPED.fullmatch(cell))
        if not is_text_only:
            yield Leniency.NONE, cell
        yield Leniency.NONE, json.dumps(cell)
        if number is not None:
            yield Leniency.NONE, number
            yield Leniency.NONE, json.dumps(number)
            same = [one for one in self._options if isinstance(one, str) and _number(one) == float(number)]
            if len(same) == 1:  # a spreadsheet makes 1 of "01"
                yield Leniency.NONE, json.dumps(same[0])
            yield Leniency.SAFE, number  # 1 for true
        elif not is_text_only:
            yield Leniency.SAFE, cell  # "yes" for true, another case, a date with the name of its month

    def _number_in(self, cell: str) -> str | None:
        """Return the number in a cell with a decimal point; None unless exactly one is possible."""
        match = _DECIMAL.fullmatch(cell)
        if match is None:
            return cell.removeprefix("+") if cell.lstrip("+-").isdecimal() else None
        whole, separator, digits, exponent = match.groups()
        if len(digits) == 3 and separator != self._separator and not exponent:
            return None
        digits = digits.rstrip("0")
        return (f"{whole}.{digits}{exponent}" if digits else whole + exponent).removeprefix("+")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _expected(parser: TypeParser[object], name: str) -> str:
    """Return the name of the type of an answer, and what to write for it."""
    node = parser.node
    while isinstance(node, (EnvelopeNode, DecisionNode)):
        node = node.inner if isinstance(node, EnvelopeNode) else node.value
    hint = " ".join(node.hint().split())
    return f"{name}; write {hint if len(hint) <= 300 else f'{hint[:299]}…'}"


# --- Agreement of people and the model ---


def compare(agreement: Agreement, method: MappedMethod, answer: object, reply: str) -> None:
    """Count a row: compare the answer of a person with the JSON of the answer of the model."""
    own = _without_probabilities(json.loads(method.codec.write(answer)))
    # the JSON of the journal may have another form
    other = _without_probabilities(json.loads(method.codec.write(method.codec.restore(reply))))
    agreement.rows += 1
    agreement.same += own == other
    if isinstance(own, dict) and isinstance(other, dict):
        fields = [path[2:] for path in answers_of(method.service_method.plan.call) if path.startswith("$.")]
        for name in fields:
            if name in own and name in other:
                agreement.add(f"{name} {_display_text(own[name])}", is_same=own[name] == other[name])
    else:
        agreement.add(_display_text(own), is_same=own == other)
