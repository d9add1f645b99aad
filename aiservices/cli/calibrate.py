"""The command ``calibrate``, which adjusts a method's probabilities with labelled examples in a CSV file."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from output_parsers.result.errors import shorten

from ..decisions.adjustments import answers_of
from ..decisions.calibrate import Calibrated, calibrate as calibrate_method
from ..decisions.calibration import Calibration
from ..remote.contract import Method, contract_of
from ..service.methods import service_method_of
from ..testing.case import Case
from .console import count_text, print_text
from .errors import CommandFailedError, UsageError, suggestion
from .services import find_target, make_service, selected_methods
from .values import read_cells

_DELIMITERS = (",", ";", "\t")
_MAX_PROBLEMS = 10  # wrong rows in an error message
_MAX_VALUE_LENGTH = 60  # characters of a value in an error message
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")
_NO_ANSWER = "it does not return a Decision, bool, Enum or Literal, so there is nothing to calibrate"

# The possible answers: the JSON value of each, and the value.
Options: TypeAlias = tuple[tuple[object, object], ...]


def calibrate(
    target_name: str,
    model: str | None,
    cases: str,
    expected: str,
    out: str,
    *,
    error: float,
    confidence: float,
    as_json: bool,
) -> None:
    """Calibrate a method's probabilities with labelled rows of a CSV file; print and save the result.

    Raises UsageError, DefinitionError, and CommandFailedError if the file cannot be written.
    """
    target = find_target(target_name)
    service = make_service(target, model)
    names = selected_methods(target, service)
    methods = {name: service_method_of(getattr(service, name)) for name in names}
    answers = {name: answers_of(one.plan.call) for name, one in methods.items()}
    if len(names) > 1:
        candidates = [name for name in names if answers[name]]
        hint = f"name one as {target_name}.METHOD: {', '.join(candidates)}" if candidates else _NO_ANSWER
        raise UsageError(f"{target_name} has several methods; {hint}")
    (name,) = names
    method = contract_of(target.interface_of(service)).methods[name]
    if not answers[name]:
        raise UsageError(f"{method.qualname}: {_NO_ANSWER}")
    labels = {
        f"{expected}{path.removeprefix('$')}": _Label(path, options)
        for path, (options, *_) in answers[name].items()
        if options and "[]" not in path
    }
    if not labels:
        raise UsageError(f"{method.qualname}: answers in a list cannot be calibrated")
    labelled = _read_cases(Path(cases), method, labels)
    _check_output(Path(out))
    calibrated = calibrate_method(getattr(service, name), labelled, error=error, confidence=confidence)
    if as_json:
        print(json.dumps(_json_of(calibrated, out), ensure_ascii=False))
    else:
        print_text(str(calibrated))
    try:
        calibrated.write(out)
    except OSError as failure:
        raise CommandFailedError(f"{out} cannot be written: {failure.strerror}") from failure
    if not as_json:
        print_text(f"\nwritten to {out}")


def _check_output(path: Path) -> None:
    """Raise an error if the output file cannot be written; called before any request is sent."""
    if not path.parent.is_dir():
        raise UsageError(f"--out: the folder {path.parent} does not exist")
    if path.exists():
        Calibration.read(path)


def _json_of(calibrated: Calibrated, out: str) -> dict[str, object]:
    entries = [asdict(entry) for entry in calibrated.calibration.entries]
    return {"calibrations": entries, "failed": [str(one) for one in calibrated.failed], "file": out}


# --- Reading the examples ---


class _Label(NamedTuple):
    """A CSV column with the correct answers to one question of the service method.

    Attributes:
        path: The JSON path of the answer in the value.
        options: The possible answers.
    """

    path: str
    options: Options

    def read(self, text: str) -> object:
        """Return the answer in a table cell, or raise ValueError if the text is not a possible answer."""
        for normalize in (str, str.casefold):  # a spreadsheet writes TRUE
            matches = [
                value for data, value in self.options if normalize(text) in map(normalize, _forms(data))
            ]
            if len(matches) == 1:
                return matches[0]
        valid = ", ".join(_forms(data)[0] for data, _ in self.options)
        raise ValueError(f"is {shorten(text, _MAX_VALUE_LENGTH)!r}; it must be one of: {valid}")


def _forms(data: object) -> tuple[str, ...]:
    """Return the texts by which a CSV cell can name an answer, with the preferred text first."""
    if isinstance(data, bool):
        return _TRUE if data else _FALSE
    if data is None:
        return ("null", "none")
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return text, json.dumps(data, ensure_ascii=False)


def _read_labels(cells: Mapping[str, str], labels: Mapping[str, _Label], problems: list[str]) -> object:
    """Return the expected answer of a row, and add the mistakes in its labels to ``problems``."""
    expected: object = {}
    for column, label in labels.items():
        text = cells[column].strip()
        if not text:
            continue
        try:
            expected = _with_label(expected, label.path, label.read(text))
        except ValueError as error:
            problems.append(f"{column} {error}")
    if not problems and expected == {}:
        problems.append(f"{' and '.join(labels)} is empty")
    return expected


def _wrong_rows(path: Path, problems: Sequence[str]) -> UsageError:
    more = len(problems) - _MAX_PROBLEMS
    listed = [*problems[:_MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
    return UsageError("\n  - ".join([f"{path}: {count_text(len(problems), 'problem')}", *listed]))


def _read_cases(path: Path, method: Method, labels: Mapping[str, _Label]) -> list[Case[object]]:
    """Read a CSV file as test cases, or raise a UsageError that lists all mistakes in columns and rows."""
    columns, rows = _read_table(path)
    problems = list(_column_problems(columns, method, labels))
    if problems:
        raise UsageError("\n  - ".join([f"{path}: the columns are {', '.join(columns)}", *problems]))
    label_columns = [name for name in columns if name in labels]
    cases: list[Case[object]] = []
    for number, row in rows:
        if len(row) != len(columns):
            problems.append(f"row {number}: it has {count_text(len(row), 'cell')}, not {len(columns)}")
            continue
        cells = dict(zip(columns, row, strict=True))
        values, row_problems = read_cells(cells, method)
        expected = _read_labels(cells, {name: labels[name] for name in label_columns}, row_problems)
        problems += [f"row {number}: {problem}" for problem in row_problems]
        cases.append(Case(method.bind_arguments(values)[1], expected, str(number)))
    if not cases and not problems:
        raise UsageError(f"{path} has no rows below the names of the columns")
    if problems:
        raise _wrong_rows(path, problems)
    used = {*labels, *(argument.name for argument in method.arguments)}
    unused = [name for name in columns if name not in used]
    if unused:
        print_text(f"columns that are not used: {', '.join(unused)}", file=sys.stderr)
    return cases


def _read_table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return a CSV file's column names and its rows as pairs of row number and cells."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            # Spreadsheets write semicolons where the comma is the decimal sign.
            delimiter = max(_DELIMITERS, key=first.count)
            rows = list(csv.reader(file, delimiter=delimiter, strict=True))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text; save it as CSV with the encoding UTF-8") from error
    except csv.Error as error:
        raise UsageError(f"{path} is not a CSV file: {error}") from error
    if not rows:
        raise UsageError(f"{path} is empty; its first row must have the names of the columns")
    columns = [name.strip() for name in rows[0]]
    return columns, [(number, row) for number, row in enumerate(rows[1:], 2) if any(row)]


def _column_problems(columns: Sequence[str], method: Method, labels: Mapping[str, _Label]) -> Iterator[str]:
    parameters = {argument.name: argument for argument in method.arguments}
    for name in dict.fromkeys(name for name in columns if columns.count(name) > 1):
        yield f"{name} occurs {columns.count(name)} times"
    for name in [name for name in labels if name in parameters]:
        yield f"{name} is also a parameter; name the column of the right answer with --expected"
    for name, argument in parameters.items():
        if argument.variadic and name in columns:
            yield f"*{name} cannot be a column"
        elif argument.required and name not in columns:
            yield f"the column {name} is missing, a parameter of {method.qualname}"
    for name in method.missing_parameters:
        yield f"{name} cannot be passed from a file, only from Python code"
    if not labels.keys() & set(columns):
        names = " or ".join(labels)
        yield f"the column {names} with the right answer is missing{_other_label(columns, parameters)}"


def _other_label(columns: Sequence[str], parameters: Mapping[str, object]) -> str:
    """Return the end of an error message, which suggests the column that contains the answers."""
    others = [name for name in columns if name and name not in parameters]
    return f"; name it with --expected{suggestion('expected', others)}" if others else ""


def _with_label(expected: Any, path: str, value: object) -> object:
    """Add a correct answer to the expected value, at a JSON path such as ``$.ticket.urgent``."""
    names = path.split(".")[1:]
    if not names:
        return value
    fields = expected
    for name in names[:-1]:
        fields = fields.setdefault(name, {})
    fields[names[-1]] = value
    return expected
