"""Describe the columns of an output table, and convert rows to Arrow columns.

An output table has the input columns, the answer columns and the error. ``answer_columns`` derives an
answer's columns from its type, and ``output_fields`` places them next to the input columns. Parquet and
Arrow columns have these types:

    bool, int, float           bool, int64, double; an int beyond 64 bits is an error of its row
    str, bytes, UUID, paths    string
    Decimal                    decimal128(38, 18); text if a value needs more digits
    date, timedelta            date32, duration("us")
    datetime                   timestamp("us", "UTC"); a value without an offset counts as UTC
    NaiveDatetime              timestamp("us")
    time                       time64("us"); text if a value has an offset
    Enum, Literal              the type of their JSON values: mostly string
    T | None                   the type of T
    list, set, tuple[T, ...]   a list
    tuple[A, B]                a list if the items have one type, else JSON text
    dict[str, T]               a map
    records                    a struct with the JSON keys of the fields
    Decision[T]                a struct of value, probability and source
    Cited[T]                   a struct of value, quote, document, page, start and end
    int | float                double
    other unions, Any          JSON text, and so is a record inside itself

The columns of the input keep the types of their source, if it has types. Otherwise the type follows from the
values: int with float is float if that is exact, and other mixtures are text, with JSON for values that are
not strings. If a type changes after rows were written, the whole file is changed when it is closed.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from pydantic import RootModel
from pydantic_core import to_jsonable_python

from output_parsers.parser.type_parser import DEFAULT_REGISTRY, TypeParser, parser_for
from output_parsers.result.reading import Json, dump_json, non_finite_name
from output_parsers.types.cited import CITED_NODES, PLACE_COLUMNS, Cited, CitedNode
from output_parsers.types.constraints import ConstrainedNode, unwrapped
from output_parsers.types.containers import ListNode, UnionNode
from output_parsers.types.decisions import Decision, DecisionNode, values_with_details
from output_parsers.types.node import Node, RecursiveNode, Storage, walk
from output_parsers.types.records import EnvelopeNode, ObjectNode, RawNode, RootModelNode
from output_parsers.types.scalars import AnyNode, NoneNode

from ..models.errors import DefinitionError, DefinitionProblem
from .row import ARROW_SCALE, JsonNumber, Row, RowsError
from .tables import Table, pyarrow

_PREFIX = "answer_"


# --- The columns of an answer ---

# Facts about the values of a column so far that determine its Arrow type: "long decimal" or "aware time".
Facts: TypeAlias = set[str]
INT64 = range(-(2**63), 2**63)
EXACT_FLOAT = 2**53  # integers up to this are exact as floats
_DURATION = re.compile(r"(-?)P(\d+)DT(\d+)(?:\.(\d{1,6}))?S")


class Shape(NamedTuple):
    """The Arrow type for the values of a Python type, and a function that converts JSON values to it.

    Attributes:
        arrow: Returns the Arrow type, given the facts about the values so far.
        convert: Converts a JSON value that is not null to a Python value for Arrow, and adds to the facts.
            Raises ValueError if the Arrow type cannot hold it.
    """

    arrow: Callable[[Facts], object]
    convert: Callable[[Any, Facts], object]

    def value(self, data: Json, facts: Facts) -> object:
        """Convert a JSON value to a Python value that pyarrow accepts."""
        return None if data is None else self.convert(data, facts)


def _expect(kind: type | tuple[type, ...], data: Json, name: str) -> Json:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise ValueError(f"expected {name}, found {dump_json(data)[:60]}")
    return data


def _to_int(data: Json, facts: Facts) -> int:
    number: int = _expect(int, data, "an integer")
    if number not in INT64:
        raise ValueError(f"the integer {number} has more than 64 bits, which the file cannot hold")
    return number


def _to_float(data: Json, facts: Facts) -> float:
    number = _expect((int, float, Decimal, str), data, "a number")
    value = float(number)  # "NaN" and "Infinity" are texts in JSON
    if isinstance(number, int) and abs(number) > EXACT_FLOAT and int(value) != number:
        raise ValueError(f"the integer {number} is not exact as a float, which the column holds")
    return value


def _to_decimal(data: Json, facts: Facts) -> Decimal:
    number = Decimal(_expect((int, Decimal, str), data, "a number"))
    if not is_short(number):
        facts.add("long decimal")
    return number


def is_short(number: Decimal) -> bool:
    """Return True if a Decimal fits the Arrow type ``decimal128(38, 18)``."""
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -ARROW_SCALE and number.adjusted() < 38 - ARROW_SCALE


def _to_text(data: Json, facts: Facts) -> str:
    text: str = _expect(str, data, "a text")
    text.encode()  # raises ValueError for half of a surrogate pair
    return text


def _to_json_text(data: Json, facts: Facts) -> str:
    return utf8_text(dump_json(data))


def utf8_text(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, with JSON escapes such as ``\\ud800``."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _to_datetime(data: Json, facts: Facts) -> datetime:
    value = datetime.fromisoformat(_expect(str, data, "a date with a time"))
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"the date {data} has a year before 1 or after 9999 in UTC") from None


def _to_time(data: Json, facts: Facts) -> time:
    value = time.fromisoformat(_expect(str, data, "a time"))
    if value.tzinfo is not None:
        facts.add("aware time")
    return value


def _to_duration(data: Json, facts: Facts) -> timedelta:
    match = _DURATION.fullmatch(_expect(str, data, "a duration"))
    if match is None:
        raise ValueError(f"expected a duration, found {data}")
    sign, days, seconds, digits = match.groups()
    value = timedelta(int(days), int(seconds), int((digits or "").ljust(6, "0")))
    if value // timedelta(microseconds=1) not in INT64:
        raise ValueError(f"the duration of {days} days is too long for the file")
    return -value if sign else value


# The shapes of the ``Storage`` kinds without parts.
_SHAPES = {
    "bool": Shape(lambda _: pyarrow().bool_(), lambda data, _: _expect(bool, data, "true or false")),
    "int": Shape(lambda _: pyarrow().int64(), _to_int),
    "float": Shape(lambda _: pyarrow().float64(), _to_float),
    "text": Shape(lambda _: pyarrow().string(), _to_text),
    "json": Shape(lambda _: pyarrow().string(), _to_json_text),
    "null": Shape(lambda _: pyarrow().null(), lambda data, _: _expect(type(None), data, "null")),
    "decimal": Shape(
        lambda facts: (
            pyarrow().string() if "long decimal" in facts else pyarrow().decimal128(38, ARROW_SCALE)
        ),
        _to_decimal,
    ),
    "date": Shape(
        lambda _: pyarrow().date32(), lambda data, _: date.fromisoformat(_expect(str, data, "a date"))
    ),
    "date-time": Shape(lambda _: pyarrow().timestamp("us", "UTC"), _to_datetime),
    "naive-date-time": Shape(
        lambda _: pyarrow().timestamp("us"),
        lambda data, _: datetime.fromisoformat(_expect(str, data, "a date with a time")),
    ),
    "time": Shape(
        lambda facts: pyarrow().string() if "aware time" in facts else pyarrow().time64("us"), _to_time
    ),
    "duration": Shape(lambda _: pyarrow().duration("us"), _to_duration),
}
# All facts that a value of a type can have, for columns whose types are fixed in advance.
ANY_TIMES = frozenset(("aware time",))


def _shape_of(storage: Storage) -> Shape:
    """Return the Shape (Arrow type and conversion function) for values that are stored in a given way."""
    if not storage.parts:
        return _SHAPES[storage.kind]
    parts = {key: _shape_of(part) for key, part in storage.parts}
    if storage.kind == "struct":
        return _struct_shape(parts)
    (part,) = parts.values()
    return {"list": _list_shape, "map": _map_shape, "decision": _decision_shape}[storage.kind](part)


def _list_shape(item: Shape) -> Shape:
    return Shape(
        lambda facts: pyarrow().list_(item.arrow(facts)),
        lambda data, facts: [item.value(one, facts) for one in _expect(list, data, "an array")],
    )


def _map_shape(item: Shape) -> Shape:
    def convert(data: Json, facts: Facts) -> list[tuple[str, object]]:
        pairs = _expect(dict, data, "an object").items()
        return [(_to_text(key, facts), item.value(one, facts)) for key, one in pairs]

    return Shape(lambda facts: pyarrow().map_(pyarrow().string(), item.arrow(facts)), convert)


def _struct_shape(shapes: Mapping[str, Shape]) -> Shape:
    def convert(data: Json, facts: Facts) -> dict[str, object]:
        values = _expect(dict, data, "an object")
        return {key: shape.value(values.get(key), facts) for key, shape in shapes.items()}

    return Shape(
        lambda facts: pyarrow().struct([(key, shape.arrow(facts)) for key, shape in shapes.items()]),
        convert,
    )


def _decision_shape(value: Shape) -> Shape:
    struct = _struct_shape({"value": value, "probability": _SHAPES["float"], "source": _SHAPES["text"]})

    def convert(data: Json, facts: Facts) -> object:
        value, entries = _expect(dict, data, "a decision")["value"], data["probabilities"]
        shares = [(entry["value"], entry["probability"]) for entry in entries]
        if isinstance(value, list):
            own = min((share if one in value else 1 - share for one, share in shares), default=None)
        else:
            own = next((share for one, share in shares if one == value), None)
        return struct.convert({**data, "probability": own}, facts)

    return Shape(struct.arrow, convert)


@dataclass(frozen=True)
class AnswerColumn:
    """An output column for a field of the answer, or for the whole answer.

    Attributes:
        name: The name of the column in outputs.
        key: The JSON key of the field; "" if the column holds the whole answer.
        shape: How its JSON values become Arrow values.
        node: The parser of its type; None for columns that are not a part of the answer's type.
    """

    name: str
    key: str
    shape: Shape = field(repr=False, compare=False)
    _write: Callable[[Any], Json] = field(repr=False, compare=False)
    _has_details: bool = False
    node: Node[object] | None = field(default=None, repr=False, compare=False)

    def to_json(self, value: object) -> Json:
        """Convert a column value to JSON, or raise ValueError if it has the wrong type."""
        if value is None:
            return None
        with values_with_details() if self._has_details else nullcontext():
            return self._write(value)


@dataclass(frozen=True)
class AnswerColumns:
    """The output columns for an answer: one for each field of a record, or one for the whole answer.

    Attributes:
        columns: The columns, in the order of the fields.
    """

    columns: tuple[AnswerColumn, ...]
    _values: Callable[[Any], Mapping[str, object]] = field(repr=False, compare=False)
    _items: _ItemValues | None = field(default=None, repr=False, compare=False)

    def split(self, answer: object) -> dict[str, object]:
        """Split an answer into a dict from column names to values; unset fields become None."""
        return self._named(self._values(answer))

    def rows(self, answer: object) -> Iterator[dict[str, object]]:
        """Split an answer into one dict for each item of the list with ``explode``; else into one dict."""
        values = self._values(answer)
        if self._items is None:
            yield self._named(values)
            return
        for item in _listed(values.get(self._items.key)) or [None]:
            parts = {} if item is None else self._items.values(item)
            yield self._named({**values, **{self._items.key_of(key): part for key, part in parts.items()}})

    def _named(self, values: Mapping[str, object]) -> dict[str, object]:
        return {column.name: values.get(column.key) for column in self.columns}

    def explode(self, name: str) -> AnswerColumns:
        """Return the columns for one output row for each item of the list with the given name.

        Raises ValueError if the answer has no such list.
        """
        chosen = next((column for column in self.columns if column.key == name), None)
        item = None if chosen is None else _item_of(chosen.node)
        if chosen is None or item is None:
            lists = [column.key for column in self.columns if _item_of(column.node) is not None]
            raise ValueError(
                f"explode is {name!r}, but the answer has no list of that name; its lists are: "
                f"{', '.join(lists) or 'none'}"
            )
        of_item = _columns_of(item)
        is_record = of_item.columns[0].node is not item
        items = _ItemValues(name, of_item._values)
        others = {column.name for column in self.columns if column is not chosen}
        new = []
        for column in of_item.columns:
            own = column.name if is_record else name
            new.append(
                replace(column, name=f"{name}_{own}" if own in others else own, key=items.key_of(column.key))
            )
        place = self.columns.index(chosen)
        return AnswerColumns((*self.columns[:place], *new, *self.columns[place + 1 :]), self._values, items)


class _ItemValues(NamedTuple):
    """The list of an answer that is exploded.

    Attributes:
        key: The key of the list in the answer.
        values: Splits an item into its values by key.
    """

    key: str
    values: Callable[[Any], Mapping[str, object]]

    def key_of(self, key: str) -> str:
        return f"{self.key}[].{key}"


def _item_of(node: Node[object] | None) -> Node[object] | None:
    """Return the parser of the items of a list, which may be optional; None if it is not a list."""
    while isinstance(node, (ConstrainedNode, RawNode, RootModelNode, RecursiveNode)):
        (node,) = node.parts
    if isinstance(node, UnionNode):
        members = [one for one in node.options if not isinstance(one, NoneNode)]
        return _item_of(members[0]) if len(members) == 1 else None
    return node.item if isinstance(node, ListNode) else None


def _listed(value: object) -> Any:
    """Return the list in a value, which may be a pydantic RootModel of one."""
    while isinstance(value, RootModel):
        value = value.root
    return value


def answer_columns(answer_type: Any) -> AnswerColumns:
    """Return the output columns for an answer type, such as one column for each field of a record.

    A record has one column for each field, named like its JSON key. A Decision has the columns ``value``,
    ``probability`` and ``source``; a Cited has ``value``, ``quote``, ``document``, ``page``, ``start`` and
    ``end``. Other answers have one column.
    """
    parser = DEFAULT_REGISTRY.parser_for(answer_type)
    node = (parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)).node
    return _columns_of(node.inner if isinstance(node, EnvelopeNode) else node)


def _columns_of(node: Node[object]) -> AnswerColumns:
    record = unwrapped(node)
    if isinstance(record, CitedNode):
        places = [AnswerColumn(name, name, _SHAPES[kind], _same) for name, kind in PLACE_COLUMNS.items()]
        return AnswerColumns((_column("value", record.nodes["value"]), *places), Cited.to_dict)
    if isinstance(record, ObjectNode) and record.spec.fields:
        return _record_columns(record)
    if isinstance(record, DecisionNode):
        value = _column("value", record.value)
        return AnswerColumns(
            (
                value,
                AnswerColumn("probability", "probability", _SHAPES["float"], _same),
                AnswerColumn("source", "source", _SHAPES["text"], _same),
            ),
            lambda decision: {"value": decision.value, **_probability(decision)},
        )
    return AnswerColumns((_column("value", node),), lambda answer: {"value": answer})


def _same(value: object) -> object:
    return value


# What a row needed; each value is of the row whose request was sent.
USAGE_COLUMNS = (
    AnswerColumn("tokens", "tokens", _SHAPES["int"], _same),
    AnswerColumn("cost", "cost", _SHAPES["float"], _same),
    AnswerColumn("attempts", "attempts", _SHAPES["int"], _same),
    AnswerColumn("seconds", "seconds", _SHAPES["float"], _same),
)


def _probability(decision: Decision[object]) -> dict[str, object]:
    probability = decision.probability if decision.probabilities else None
    return {"probability": probability, "source": decision.source}


def _column(key: str, node: Node[object]) -> AnswerColumn:
    has_details = any(isinstance(part, (*CITED_NODES, DecisionNode)) for part in walk(node))
    return AnswerColumn(key, key, _shape_of(node.storage()), node.write, has_details, node)


def _record_columns(record: ObjectNode) -> AnswerColumns:
    keys = {spec.name: spec.keys[0] for spec in record.spec.fields}
    columns = [_column(key, record.nodes[name]) for name, key in keys.items()]
    takes_extra = record.spec.extra == "allow"
    extra = "extra" if "extra" not in keys.values() else "extra_"
    if takes_extra:
        columns.append(AnswerColumn(extra, extra, _SHAPES["json"], AnyNode().write))

    def values(answer: object) -> dict[str, object]:
        by_name = record.field_values(answer)
        by_key = {key: by_name.pop(name, None) for name, key in keys.items()}
        return {**by_key, extra: by_name} if takes_extra and by_name else by_key

    return AnswerColumns(tuple(columns), values)


# --- The columns of an output ---


@dataclass(frozen=True)
class Fields:
    """The columns of an output table: the input columns, the answer columns, and the error.

    Attributes:
        inputs: The columns of the input, in order. If ``inputs_complete`` is false, rows may add more.
        answers: The columns of the answer, with names that the input does not have.
        error: The name of the column with the error of the row, which is null if there is an answer.
        inputs_complete: True if the rows have no columns other than ``inputs``.
        input_types: Returns the known Arrow types of the input columns.
        usage: The columns for the tokens, the cost, the attempts and the seconds of a row, if it has them.
    """

    inputs: tuple[str, ...]
    answers: AnswerColumns
    error: str = "error"
    inputs_complete: bool = True
    input_types: Callable[[], Mapping[str, object]] = field(default=dict, repr=False, compare=False)
    usage: tuple[AnswerColumn, ...] = ()

    @property
    def new_columns(self) -> tuple[AnswerColumn, ...]:
        """The columns with the values of ``Cells.answers``."""
        return (*self.answers.columns, *self.usage)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns known so far, in the order of the output."""
        return (*self.inputs, *(column.name for column in self.new_columns), self.error)

    @property
    def json_names(self) -> frozenset[str]:
        """The names of the answer columns whose values are JSON text."""
        return frozenset(one.name for one in self.answers.columns if one.shape.convert is _to_json_text)

    @property
    def own_names(self) -> frozenset[str]:
        """The names of the output columns that the input does not have."""
        return frozenset(self.columns) - frozenset(self.inputs)

    def rows(self, row: Row[object]) -> list[Cells]:
        """Return the output rows for a row with its answer or error; several if a list is exploded.

        An answer that cannot be written as JSON is an error of the row. Raises RowsError if an unexpected
        input column has the same name as a column that the output adds.
        """
        if self.inputs_complete:
            inputs = {name: row.inputs.get(name) for name in self.inputs}
        else:
            inputs, own_names = {**dict.fromkeys(self.inputs), **row.inputs}, self.own_names
            same = next((name for name in inputs if name in own_names), None)
            if same is not None:
                message = f"the input has a column {same!r}, and the output adds one of that name; "
                message += "rename it, or choose another prefix= or error_column="
                raise RowsError(message)
        usage: list[Json] = []
        if self.usage:
            usage = [row.usage.total_tokens, row.cost, row.attempts, row.seconds]
        nothing: list[Json] = [None] * len(self.answers.columns)
        if row.error is not None:
            return [Cells(inputs, [*nothing, *usage], str(row.error))]
        if row.is_unanswered:
            return [Cells(inputs, [*nothing, *usage], None)]
        columns, cells = self.answers.columns, list[Cells]()
        for parts in self.answers.rows(row.value):
            answers: list[Json] = []
            try:
                for column in columns:
                    answers.append(column.to_json(parts[column.name]))  # noqa: PERF401  # its length is used
            except ValueError as wrong:
                problem = f"column {columns[len(answers)].name}: {wrong}"
                return [Cells(inputs, [*nothing, *usage], problem)]
            cells.append(Cells(inputs, [*answers, *usage], None))
            if self.usage:  # once, so that the sum is correct for the run
                usage = [0, None if row.cost is None else 0.0, 0, 0.0]
        return cells


def output_fields(
    table: Table,
    answers: AnswerColumns,
    *,
    prefix: str = "",
    error_column: str | None = None,
    usage: bool = False,
) -> Fields:
    """Choose the columns of an output table, and rename new columns that clash with input columns.

    All new columns begin with ``prefix``, and the error is in ``error_column``. Without a prefix, a column
    with the name of an input column gets the prefix ``answer_``.

    Raises DefinitionError if a name still occurs twice.
    """
    used = set(table.columns)
    error_name = _free_name(error_column or f"{prefix}error", used, is_fixed=bool(prefix or error_column))

    def renamed(columns: tuple[AnswerColumn, ...]) -> tuple[AnswerColumn, ...]:
        names = (_free_name(f"{prefix}{column.name}", used, is_fixed=bool(prefix)) for column in columns)
        return tuple([replace(column, name=name) for column, name in zip(columns, names, strict=True)])

    return Fields(
        table.columns,
        replace(answers, columns=renamed(answers.columns)),
        error_name,
        bool(table.columns) and not table.may_have_more,
        lambda: table.types,
        renamed(USAGE_COLUMNS) if usage else (),
    )


def _free_name(name: str, used: set[str], *, is_fixed: bool) -> str:
    """Return an unused column name, and mark it as used.

    Unless it is fixed, it gets the prefix ``answer_`` if necessary.
    """
    new = name if is_fixed or name not in used else f"{_PREFIX}{name}"
    if new in used:
        names = repr(name) if is_fixed else f"{name!r} and {new!r}"
        exist = f"the column {names} exists" if is_fixed else f"the columns {names} exist"
        message = f"{exist} already; choose another prefix= or error_column=, or rename a column of the input"
        raise DefinitionError([DefinitionProblem("the output", message)])
    used.add(new)
    return new


# --- Converting rows to Arrow columns ---


BATCH_ROWS = 10_000  # the rows of a row group in Parquet
_BATCH_CHARACTERS = 1 << 26  # rows with long texts are written earlier


# --- Values of the input ---


_JSON_TYPES = frozenset({str, int, bool, type(None)})
_DURATIONS = parser_for(timedelta).node


def json_value(value: object) -> Json:
    """Convert an input value to JSON data; values that JSON cannot represent become strings."""
    if type(value) in _JSON_TYPES:
        return value
    if type(value) is timedelta:
        return _DURATIONS.write(value)  # pydantic would write years, which have no fixed length
    return _finite(to_jsonable_python(value, fallback=str, bytes_mode="base64"))


def _finite(data: object) -> object:
    """Replace NaN and infinities, which JSON cannot represent, with strings such as ``"NaN"``."""
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
    """Normalize a value so that equal values, such as 1.10 and 1.1, are written in the same way.

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


def fit(value: Any, tp: Any) -> object:
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


# What the values of a column are: a kind of ``Storage``, or ("list", kind of the items). "str" is text as it
# is, "text" is a mixture, written as text, and "long" are integers that a float may not hold exactly.
_Kind: TypeAlias = "str | tuple[str, str]"


def _datetime_kind(value: datetime) -> str:
    if value.tzinfo is None:
        return "naive-date-time"
    try:
        value.astimezone(UTC)
    except OverflowError:  # in UTC it is in the year 0 or 10000
        return "text"
    return "date-time"


def _list_kind(value: Sequence[object]) -> _Kind:
    item: _Kind = "null"
    for one in value:
        item = _joined(item, _kind_of(one))
    return ("list", item) if isinstance(item, str) and item != "text" else "text"


# The kinds of the values of a type, or a function that returns the kind of one value.
_KINDS: dict[type, str | Callable[[Any], _Kind]] = {
    type(None): "null",
    bool: "bool",
    int: lambda value: "int" if abs(value) <= EXACT_FLOAT else "long" if value in INT64 else "text",
    float: "float",
    JsonNumber: "float",
    Decimal: lambda value: "decimal" if is_short(value) else "text",
    str: "str",
    bytes: "bytes",
    date: "date",
    datetime: _datetime_kind,
    time: lambda value: "time" if value.tzinfo is None else "text",
    timedelta: lambda value: "duration" if value // timedelta(microseconds=1) in INT64 else "text",
    list: _list_kind,
    tuple: _list_kind,
}


def _kind_of(value: object) -> _Kind:
    kind = _KINDS.get(type(value), "text")
    return kind if isinstance(kind, str) else kind(value)


def _joined(one: _Kind, other: _Kind) -> _Kind:
    """Return a column type for values of both given types, such as ``float`` for ``int`` and ``float``."""
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
    if isinstance(kind, tuple):
        return pyarrow().list_(_kind_type(kind[1]))
    if kind == "bytes":
        return pyarrow().binary()
    return _SHAPES.get("int" if kind == "long" else kind, _SHAPES["text"]).arrow(set())


# --- Columns of Arrow data ---


class _Column(ABC):
    """Collects the values of a column, and converts them to Arrow arrays."""

    def __init__(self) -> None:
        self.values: list[object] = []

    @abstractmethod
    def array(self) -> object:
        """Return the collected values as an Arrow array, and empty the column."""


class _UntypedColumn(_Column):
    """An input column whose type is inferred from its values."""

    def __init__(self) -> None:
        super().__init__()
        self.kind: _Kind = "null"

    def array(self) -> object:
        values, self.values = self.values, []
        for value in values:
            self.kind = _joined(self.kind, _kind_of(value))
        tp = _kind_type(self.kind)
        return pyarrow().array([fit(value, tp) for value in values], tp)


class _TypedColumn(_Column):
    """A column with a given Arrow type; the type changes if a value does not fit."""

    def __init__(self, tp: object) -> None:
        super().__init__()
        self.type = tp
        self._untyped: _UntypedColumn | None = None
        self._was_used = False

    def array(self) -> object:
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
    """An output column with the values of one answer field, or of the whole answer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.facts: Facts = set()

    def array(self) -> object:
        values, self.values = self.values, []
        tp = self.shape.arrow(self.facts)
        return pyarrow().array([fit(value, tp) for value in values] if self.facts else values, tp)


class Cells(NamedTuple):
    """The values of an output row: the input values, the answer and usage as JSON values, and the error."""

    inputs: Mapping[str, object]
    answers: list[Json]
    error: str | None


class ArrowRows:
    """Collects rows, and converts them to Arrow tables."""

    def __init__(self, fields: Fields, can_write: Callable[[Any], bool] = lambda tp: True) -> None:
        self._fields = fields
        self._types = {name: tp for name, tp in fields.input_types().items() if can_write(tp)}
        self._error = _TypedColumn(pyarrow().string())
        self._answers = [_AnswerArrays(column.shape) for column in fields.new_columns]
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
        """Add a row, and return the row's error message, or None if there is no error.

        An answer that Arrow cannot represent is an error.
        """
        values, error = [], row.error
        try:
            for column, data in zip(self._answers, row.answers, strict=True):
                values.append(column.shape.value(data, column.facts))
        except ValueError as problem:
            name, count = self._fields.new_columns[len(values)].name, len(self._fields.answers.columns)
            values, error = [*[None] * count, *row.answers[count:]], f"column {name}: {problem}"
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
        self._error.values.append(error)
        self.count += 1
        return error

    def table(self) -> Any:
        """Return the collected rows as an Arrow table, and remove them from this object."""
        columns: dict[str, object] = {}
        for name, column in self._inputs.items():
            columns[name] = column.array()
        for answer, column in zip(self._fields.new_columns, self._answers, strict=True):
            columns[answer.name] = column.array()
        columns[self._fields.error] = self._error.array()
        self.count = self._characters = 0
        return pyarrow().table(columns)
