"""Convert rows to columns of Arrow tables, and infer the types of columns that have none."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from pydantic_core import to_jsonable_python

from output_parsers.json.result import non_finite_name
from output_parsers.parser.registry import parser_for
from output_parsers.result.reading import Json

from .fields import DECIMAL_SCALE, EXACT_FLOAT, INT64, Facts, Fields, Shape, is_short, pyarrow, utf8_text

BATCH_ROWS = 10_000  # the rows of a row group in Parquet
_BATCH_CHARACTERS = 1 << 26  # rows with long texts are written earlier


# --- Values of the input ---


_JSON_TYPES = frozenset({str, int, bool, type(None)})
_DURATIONS = parser_for(timedelta).node


def json_value(value: object) -> Any:
    """Convert an input value to JSON data; values that JSON cannot represent become strings."""
    if type(value) in _JSON_TYPES:
        return value
    if type(value) is timedelta:
        return _DURATIONS.write(value)  # pydantic would write years, which have no fixed length
    return _finite(to_jsonable_python(value, fallback=str, bytes_mode="base64"))


def _finite(data: object) -> object:
    """Replace NaN and infinities, which JSON cannot represent, with their names."""
    if isinstance(data, float):
        return non_finite_name(data) or data
    if isinstance(data, dict):
        return {key: _finite(item) for key, item in data.items()}
    return [_finite(item) for item in data] if isinstance(data, list) else data


def _as_text(value: object) -> str:
    """Convert a value to text: dates to ISO 8601, and other values to JSON."""
    if type(value) is str:
        return value
    if isinstance(value, (list, tuple)):
        data = [json_value(_without_spelling(item)) for item in value]
    else:
        data = json_value(_without_spelling(value))
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


def _without_spelling(value: object) -> object:
    """Convert equal values to the same form, such as 1.10 and 1.1, or one time in two time zones.

    A value's text must not depend on whether the value was previously stored in a column of another type.
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        with suppress(OverflowError):
            return value.astimezone(UTC)
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_FLOAT:
        return value if str(value) == "-0.0" else int(value)
    if isinstance(value, Decimal) and is_short(value):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return value


def fit(value: Any, tp: Any) -> Any:
    """Convert a Python value to a value that pyarrow accepts for the given Arrow type."""
    if value is None:
        return None
    kinds = pyarrow().types
    if kinds.is_string(tp) or kinds.is_large_string(tp):
        return utf8_text(_as_text(value))
    if kinds.is_floating(tp):
        return float(value)
    if kinds.is_map(tp):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(fit(key, tp.key_type), fit(one, tp.item_type)) for key, one in pairs]
    if kinds.is_struct(tp):
        return {part.name: fit(value.get(part.name), part.type) for part in tp}
    if kinds.is_list(tp) or kinds.is_large_list(tp) or kinds.is_fixed_size_list(tp):
        return [fit(one, tp.value_type) for one in value]
    return value


# What the values of a column are: a name, or ("list", kind of the items). "str" is text as it is, and "text"
# is a mixture, written as text.
_Kind: TypeAlias = "str | tuple[str, str]"
_KINDS: dict[type, str] = {type(None): "null", bool: "bool", float: "float", str: "str", bytes: "bytes"}


def _kind_of(value: Any) -> _Kind:
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind
    if type(value) is int:
        if abs(value) <= EXACT_FLOAT:
            return "int"
        return "long" if value in INT64 else "text"
    if type(value) is datetime:
        return _datetime_kind(value)
    if type(value) is date:
        return "date"
    if type(value) is time:
        return "time" if value.tzinfo is None else "text"
    if type(value) is timedelta:
        return "duration" if value // timedelta(microseconds=1) in INT64 else "text"
    if type(value) is Decimal:
        return "decimal" if is_short(value) else "text"
    if type(value) in (list, tuple):
        item: _Kind = "null"
        for one in value:
            item = _joined(item, _kind_of(one))
        return ("list", item) if isinstance(item, str) and item != "text" else "text"
    return "text"


def _datetime_kind(value: datetime) -> str:
    if value.tzinfo is None:
        return "naive"
    try:
        value.astimezone(UTC)
    except OverflowError:  # in UTC it is in the year 0 or 10000
        return "text"
    return "aware"


def _joined(one: _Kind, other: _Kind) -> _Kind:
    """Return the column type that fits values of both given types, such as float for int and float."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    if {one, other} == {"int", "long"}:
        return "long"
    if {one, other} == {"int", "float"}:
        return "float"
    if isinstance(one, tuple) and isinstance(other, tuple):
        item = _joined(one[1], other[1])
        return ("list", item) if isinstance(item, str) and item != "text" else "text"
    return "text"


def _kind_type(kind: _Kind) -> object:
    pa = pyarrow()
    if isinstance(kind, tuple):
        return pa.list_(_kind_type(kind[1]))
    return {
        "null": pa.null(),
        "bool": pa.bool_(),
        "int": pa.int64(),
        "long": pa.int64(),
        "float": pa.float64(),
        "decimal": pa.decimal128(38, DECIMAL_SCALE),
        "bytes": pa.binary(),
        "date": pa.date32(),
        "naive": pa.timestamp("us"),
        "aware": pa.timestamp("us", "UTC"),
        "time": pa.time64("us"),
        "duration": pa.duration("us"),
    }.get(kind, pa.string())


# --- Columns of Arrow data ---


class _Column(ABC):
    """Collects the values of a column, and converts them to Arrow arrays."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    @abstractmethod
    def array(self) -> Any:
        """Return the collected values as an Arrow array, and empty the column."""


class _UntypedColumn(_Column):
    """An input column whose type is inferred from its values."""

    def __init__(self) -> None:
        super().__init__()
        self.kind: _Kind = "null"

    def array(self) -> Any:
        values, self.values = self.values, []
        for value in values:
            self.kind = _joined(self.kind, _kind_of(value))
        tp = _kind_type(self.kind)
        return pyarrow().array([fit(value, tp) for value in values], tp)


class _TypedColumn(_Column):
    """A column with a known Arrow type, which changes if a value does not fit."""

    def __init__(self, tp: object) -> None:
        super().__init__()
        self.type = tp
        self._untyped: _UntypedColumn | None = None
        self._was_used = False

    def array(self) -> Any:
        values, self.values = self.values, []
        pa = pyarrow()
        if self._untyped is None:
            try:
                array = pa.array([fit(value, self.type) for value in values], self.type)
                self._was_used = self._was_used or bool(values)
                return array
            except (ValueError, TypeError, AttributeError, OverflowError, NotImplementedError):
                self._untyped = _UntypedColumn()
                self._untyped.kind = "text" if self._was_used else "null"
        self._untyped.values = values
        return self._untyped.array()


class _AnswerArrays(_Column):
    """An output column for one part of the answer, with the Arrow type of that part."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.facts: Facts = set()

    def array(self) -> Any:
        values, self.values = self.values, []
        tp = self.shape.arrow(self.facts)
        return pyarrow().array([fit(value, tp) for value in values] if self.facts else values, tp)


class Cells(NamedTuple):
    """A row's values to write: inputs, the answer as JSON values, and the error."""

    number: int | None
    inputs: dict[str, Any]
    answers: list[Json]
    error: str | None


class ArrowRows:
    """Collects rows, and converts them to Arrow tables."""

    def __init__(self, fields: Fields, can_write: Callable[[Any], bool] = lambda tp: True) -> None:
        pa = pyarrow()
        self._fields = fields
        self._types = {name: tp for name, tp in fields.input_types().items() if can_write(tp)}
        self._number = _TypedColumn(pa.int64())
        self._error = _TypedColumn(pa.string())
        self._answers = [_AnswerArrays(column.shape) for column in fields.answers.columns]
        self._inputs: dict[str, _Column] = {}
        self.count = 0
        self._characters = 0
        for name in fields.inputs:
            self._add_input(name)

    @property
    def is_full(self) -> bool:
        return self.count >= BATCH_ROWS or self._characters >= _BATCH_CHARACTERS

    def _add_input(self, name: str) -> None:
        tp = self._types.get(name)
        self._inputs[name] = column = _UntypedColumn() if tp is None else _TypedColumn(tp)
        column.values = [None] * self.count

    def add(self, row: Cells) -> str | None:
        """Add a row, and return an error if, for example, Arrow cannot represent the answer."""
        values, error = [], row.error
        try:
            for column, data in zip(self._answers, row.answers, strict=True):
                values.append(column.shape.value(data, column.facts))
        except ValueError as problem:
            name = self._fields.answers.columns[len(values)].name
            values, error = [None] * len(self._answers), f"column {name}: {problem}"
        for column, value in zip(self._answers, values, strict=True):
            column.values.append(value)
        for name in row.inputs:
            if name not in self._inputs:
                self._add_input(name)
        for name, input_column in self._inputs.items():
            value = row.inputs.get(name)
            input_column.values.append(value)
            if isinstance(value, (str, bytes)):
                self._characters += len(value)
        self._number.values.append(row.number)
        self._error.values.append(error)
        self.count += 1
        return error

    def table(self) -> Any:
        """Return the collected rows as an Arrow table, and remove them from this object."""
        columns: dict[str, object] = {}
        if self._fields.number is not None:
            columns[self._fields.number] = self._number.array()
        self._number.values = []
        for name, column in self._inputs.items():
            columns[name] = column.array()
        for answer, column in zip(self._fields.answers.columns, self._answers, strict=True):
            columns[answer.name] = column.array()
        columns[self._fields.error] = self._error.array()
        self.count = self._characters = 0
        return pyarrow().table(columns)
