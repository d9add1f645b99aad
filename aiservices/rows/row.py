"""The results of a run over a table, and the conversion of rows to calls of a service method.

A run yields rows with answers, its progress and a summary. Rows are converted to a method's arguments, and
its answers to journal entries and back.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, time
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path, PurePath
from types import UnionType
from typing import Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from output_parsers.parser.type_parser import DEFAULT_REGISTRY, ParserRegistry
from output_parsers.prose.numbers import NumberStyle
from output_parsers.prose.times import DateOrder
from output_parsers.result.errors import OutputParsingError, UnsupportedTypeError
from output_parsers.result.reading import JsonObject, Leniency, dump_json
from output_parsers.types.cited import Cited
from output_parsers.types.decisions import Decision, collect_decisions
from output_parsers.types.target import type_name

from ..decisions.adjustments import answers_of
from ..documents.document import Document, to_json_data
from ..engine.plan import CallPlan
from ..engine.results import Result
from ..interface.parameters import Parameter, Role
from ..interface.templates import Prompt, record_fields
from ..models.errors import (
    AiServiceError,
    DefinitionError,
    DefinitionProblem,
    FinishError,
    InvalidReplyError,
    ModelConnectionError,
    ModelError,
    ModelServerError,
    ModelTimeoutError,
    counted,
)
from ..models.limits import Limits
from ..models.media import Media
from ..models.messages import Usage
from ..remote.codec import ENVELOPE_PATH, JsonCodec, codec_for
from ..service.compile import MethodPlan
from ..service.methods import ServiceMethod, service_method_of
from ..service.signatures import ReturnShape

# --- The results of a run ---


class RowsError(AiServiceError):
    """Raised if ``map_rows`` cannot read a table, cannot write a file, or must stop early."""


class RowError(AiServiceError):
    """The reason why a table row has no answer; ``Row.value`` raises this error.

    Attributes:
        type: The name of the exception, such as "ServiceOutputError".
        message: The exception's message.
    """

    def __init__(self, type: str, message: str) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message


T = TypeVar("T")
_NO_USAGE = Usage()
_DEFAULT_CONCURRENCY = 64


@dataclass(frozen=True, slots=True, repr=False)
class Row(Generic[T]):
    """A table row with the service method's answer or an error.

    Attributes:
        number: The position of the row in the table, from 0.
        key: The value of the key column; None without ``key=``.
        inputs: The columns of the row.
        error: Why the row has no answer; None if it has one.
        usage: The tokens that were used for the row in this run.
        cost: The cost of these tokens; None if no price is known.
        attempts: The number of requests for the row in this run.
        seconds: How long the row took in this run.
        cached: True if nothing was requested for the row in this run, because the answer was known from an
            earlier run or an equal row.
        probabilities: The probabilities of the possible answers, by JSON path, as in ``Result``.
        reviewed: True if a person gave the answer.
    """

    number: int
    key: Any
    inputs: Mapping[str, Any]
    error: RowError | None = None
    usage: Usage = _NO_USAGE
    cost: float | None = None
    attempts: int = 0
    seconds: float = 0.0
    cached: bool = False
    probabilities: Mapping[str, Mapping[Any, float]] = field(default_factory=dict)
    reviewed: bool = False
    _value: Any = None

    @property
    def value(self) -> T:
        """The row's answer; if there is no answer, reading this property raises the row's ``error``."""
        if self.error is not None:
            # A copy, because the traceback refers to the row: a cycle would keep an iterator, and so its run.
            raise RowError(self.error.type, self.error.message)
        value: T = self._value
        return value

    @property
    def is_unanswered(self) -> bool:
        """True if null is the answer because a cell is null (``nulls="null"``); nothing was requested."""
        return (
            self.error is None
            and self._value is None
            and not (self.attempts > 0 or self.cached or self.reviewed)
        )

    def __repr__(self) -> str:
        name = f"number={self.number}" if self.key is None else f"key={self.key!r}"
        answer = f"value={self._value!r}" if self.error is None else f"error={str(self.error)!r}"
        return f"Row({name}, {answer})"


@dataclass(slots=True)
class Progress:
    """The progress of a ``map_rows`` run: counts, time and cost so far.

    Attributes:
        total: The number of rows in the table; None if it is unknown.
        rows: The number of finished rows, including rows of earlier runs.
        errors: The number of them with an error.
        cached: The number of them that were answered by an earlier run or by an equal row.
        changed: The number of rows that had different content in an earlier run and were processed again.
        requests: The number of requests in this run.
        usage: The tokens of this run.
        cost: The cost of these tokens, including only known prices.
        seconds: The duration of this run so far.
        in_batches: The number of requests that are waiting in a provider's batches.
    """

    total: int | None = None
    rows: int = 0
    errors: int = 0
    cached: int = 0
    changed: int = 0
    requests: int = 0
    usage: Usage = _NO_USAGE
    cost: float = 0.0
    seconds: float = 0.0
    in_batches: int = 0

    @property
    def rows_per_second(self) -> float:
        """The number of rows per second in this run, excluding rows that needed no request."""
        return (self.rows - self.cached) / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds until the run ends, based on its speed so far; None if unknown."""
        rate = self.rows / self.seconds if self.seconds else 0.0
        return None if self.total is None or not rate else (self.total - self.rows) / rate

    @property
    def expected_cost(self) -> float | None:
        """The estimated cost of the whole run, based on the rows so far; None if unknown."""
        return None if self.total is None or not self.rows else self.cost * self.total / self.rows

    def __str__(self) -> str:
        rows = counted(self.rows, "row")
        if self.total is not None:
            rows = f"{self.rows:,} of {counted(self.total, 'row')}"
        parts = [rows, f"{self.rows_per_second:,.1f} rows/s"]
        if self.cost:
            expected = self.expected_cost
            parts.append(f"cost {self.cost:.4g}" + ("" if expected is None else f", expected {expected:.4g}"))
        parts.append(counted(self.errors, "error"))
        if self.in_batches:
            parts.append(f"{self.in_batches:,} in batches")
        left = self.seconds_left
        if left is not None:
            parts.append(f"{duration_text(left)} left")
        return ", ".join(parts)


@dataclass(slots=True)
class Agreement:
    """The agreement of people and the model, for the rows that people reviewed.

    Equal rows count once.

    Attributes:
        rows: The number of rows.
        same: The number of them with the same answer.
        classes: For each answer of people, the number of rows in which the model has it, too, and the number
            of rows. The fields of a record are counted separately, under names such as "team billing".
    """

    rows: int = 0
    same: int = 0
    classes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, name: str, *, is_same: bool) -> None:
        """Count an answer of a person."""
        same, rows = self.classes.get(name, (0, 0))
        self.classes[name] = same + is_same, rows + 1

    def __str__(self) -> str:
        text = f"{self.same:,} of {counted(self.rows, 'answer')}"
        frequent = sorted(self.classes.items(), key=lambda item: -item[1][1])[:_MAX_CLASSES]
        listed = [f"{_short(name)[1:-1]}: {same:,} of {rows:,}" for name, (same, rows) in frequent]
        rest = len(self.classes) - len(frequent)
        return f"{text} ({', '.join([*listed, *([f'{rest:,} others'] if rest else [])])})"


_MAX_CLASSES = 20


@dataclass(slots=True)
class Summary(Progress):
    """The counts, token usage and cost of a ``map_rows`` run.

    Attributes:
        stopped: Why the run ended before the last row; None if all rows were processed.
        read_as: The encoding and the delimiter of CSV files; "" for UTF-8 with commas, and for other tables.
        output: The file with the answers; None if there is none.
        journal: The file with the replies and the finished rows; None if there is none.
        damaged_lines: The number of lines of the journal that could not be read. Their rows were processed
            again.
        unsure: The number of rows in the review file.
        reviewed: The number of rows with the answer of a person.
        agreement: How often people and the model have the same answer; None if no row was compared.
        formulas: The number of cells of a CSV output that a spreadsheet would run as formulas.
        limits_left: What was left of each limit of the budget, by name.
        error_bound: The upper limit of the share of wrong answers among those that are not unsure, from the
            calibration; None without one.
    """

    stopped: str | None = None
    read_as: str = ""
    output: str | None = None
    journal: str | None = None
    damaged_lines: int = 0
    unsure: int = 0
    reviewed: int = 0
    agreement: Agreement | None = None
    formulas: int = 0
    limits_left: Mapping[str, float] = field(default_factory=dict)
    error_bound: float | None = None

    def __str__(self) -> str:
        requested = self.rows - self.cached
        rows = counted(self.rows, "row")
        lines = [
            f"{rows}: {self.rows - self.errors:,} answered, {self.errors:,} with an error",
            f"processed: {requested:,}, known from an earlier run or an equal row: {self.cached:,}",
            f"requests: {self.requests:,}, tokens: {self.usage.input_tokens:,} + {self.usage.output_tokens:,}"
            + (f", cost: {self.cost:.4g}" if self.cost else ""),
            f"time: {duration_text(self.seconds)}, {self.rows_per_second:,.1f} rows/s",
        ]
        if self.changed:
            lines.append(f"sent again because their content changed: {self.changed:,}")
        if self.damaged_lines:
            lines.append(f"damaged lines in the journal: {self.damaged_lines:,}")
        if self.unsure:
            lines.append(f"to review: {self.unsure:,}")
        if self.reviewed:
            lines.append(f"answered by people: {self.reviewed:,}")
        if self.agreement is not None:
            lines.append(f"the model agrees with people in {self.agreement}")
        if self.error_bound is not None:
            lines.append(f"wrong among the sure answers: at most {self.error_bound:.1%}")
        if self.limits_left:
            lines.append(
                "left: " + ", ".join(f"{name} {left:.4g}" for name, left in self.limits_left.items())
            )
        if self.read_as:
            lines.append(f"read as: {self.read_as}")
        if self.output is not None:
            lines.append(f"output: {self.output}")
        if self.formulas:
            cells = counted(self.formulas, "cell")
            lines.append(f"a spreadsheet would run {cells} of the output as formulas; import it as text")
        if self.stopped is not None:
            lines.append(f"stopped: {self.stopped}")
        return "\n".join(lines)


def duration_text(seconds: float) -> str:
    """Format a number of seconds for display, such as ``"4.2 s"`` or ``"3 min 20 s"``."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


# --- Binding rows to a method ---


class JsonNumber(float):
    """A number of a JSON file that keeps its digits, as a Decimal needs them."""

    text: str

    def __new__(cls, text: str) -> JsonNumber:
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __reduce__(self) -> tuple[object, ...]:
        return JsonNumber, (self.text,)

    def __str__(self) -> str:
        return self.text


class JsonText(str):
    """JSON in a column of an earlier step, whose answers had no type of Arrow, such as ``int | str``."""

    __slots__ = ()


_SHAPES = {
    ReturnShape.STREAM: "a stream",
    ReturnShape.TEXT_STREAM: "a stream of text",
    ReturnShape.ITEMS: "an iterator",
}


class MappedMethod(NamedTuple):
    """A service method to call for each row of a table, with the columns of its parameters.

    Attributes:
        service_method: The method.
        codec: Converts its values to JSON and back.
        columns: The name of the column for each parameter that is read from the table.
        readers: Functions that convert the value of a column for its parameter.
        bound: The method as the user passed it.
        optional: The parameters with a default, for which a row may have no column.
    """

    service_method: ServiceMethod
    codec: JsonCodec[object]
    columns: Mapping[str, str]
    readers: Mapping[str, Callable[[object], object]]
    bound: object
    optional: frozenset[str] = frozenset()

    @property
    def call(self) -> CallPlan:
        """The service method's models, options and tools."""
        return self.service_method.plan.call

    def concurrency(self, max_concurrency: int | None, limits: Limits | None) -> int:
        """Return how many rows to process at the same time, with the settings of a run.

        By default, as many as the limits or its models allow.
        """
        allowed = [route.model.capabilities.max_concurrency for route in self.call.routes]
        by_models = max([_DEFAULT_CONCURRENCY if one is None else one for one in allowed])
        return max_concurrency or (limits and limits.max_concurrency) or by_models

    @property
    def qualname(self) -> str:
        """The method's name for error messages, in the form ``Service.method``."""
        return self.call.qualname

    def arguments(self, row: Mapping[str, object]) -> dict[str, object]:
        """Return the method's arguments for a table row; raise ValueError for an invalid value."""
        arguments = {}
        for name, column in self.columns.items():
            reader = self.readers.get(name)
            try:
                value = row[column]
            except KeyError:
                if name in self.optional:
                    continue
                raise ValueError(f"the row has no column {column}") from None
            try:
                arguments[name] = value if reader is None else reader(value)
            except NullCellError as error:
                raise NullCellError(f"column {column}: {error}") from None
            except (ValueError, TypeError, OSError) as error:
                raise ValueError(f"column {column}: {error}") from error
        return arguments


def map_method(
    method: object, renamed: Mapping[str, str], *, text_only: bool, semicolons: bool = False
) -> MappedMethod:
    """Check that a service method can be called for each table row, and return a MappedMethod.

    Raises DefinitionError if the method cannot be mapped.

    Args:
        method: The method.
        renamed: The columns with other names than their parameters, by parameter.
        text_only: True for tables in which all values are strings, such as CSV files.
        semicolons: True if such a file is separated by semicolons.
    """
    service_method = service_method_of(method)
    plan = service_method.plan
    messages = list(_problems(service_method))
    names = {parameter.name for parameter in plan.prompt.parameters}
    messages += [
        f"columns names the parameter {name}, which the method does not have"
        for name in renamed
        if name not in names
    ]
    codec = None
    try:
        codec = codec_for(plan.returns.output_type, DEFAULT_REGISTRY)
    except UnsupportedTypeError as error:
        messages.append(f"its values cannot be stored as JSON: {error}")
    if codec is not None and codec.write_problem:
        messages.append(codec.write_problem)
    if messages or codec is None:
        raise DefinitionError([DefinitionProblem(plan.call.qualname, message) for message in messages])
    readers = _readers(plan, text_only=text_only, semicolons=semicolons)
    parameters = plan.prompt.signature.parameters
    columns = {name: renamed.get(name, name) for name in parameters}
    optional = frozenset(
        name for name, one in parameters.items() if one.default is not inspect.Parameter.empty
    )
    return MappedMethod(service_method, codec, columns, readers, method, optional)


def _readers(plan: MethodPlan, *, text_only: bool, semicolons: bool) -> dict[str, Callable[[object], object]]:
    readers = {}
    for parameter in plan.prompt.parameters:
        style = plan.number_style if text_only and not _NUMBERS.isdisjoint(parameter.types) else None
        reader = _reader(parameter, text_only=text_only, semicolons=semicolons, style=style)
        if reader is not None:
            readers[parameter.name] = reader
    return readers


def only_parameter(method: object) -> str | None:
    """Return the only parameter of a method, or the only one without a default; None for several."""
    parameters = service_method_of(method).plan.prompt.signature.parameters
    required = [name for name, one in parameters.items() if one.default is inspect.Parameter.empty]
    names = list(parameters) if len(parameters) == 1 else required
    return names[0] if len(names) == 1 else None


def _problems(service_method: ServiceMethod) -> Iterable[str]:
    plan = service_method.plan
    shape = _SHAPES.get(plan.returns.shape)
    if shape is not None:
        yield f"it returns {shape}; only methods that return a value or a Result can be mapped over rows"
    if service_method.pipeline.has_memory:
        yield "its service has a memory, so rows would depend on earlier ones; create one without a memory"
    toolbox = plan.call.toolbox
    tools = () if toolbox is None else toolbox.declared
    waiting = [one.name for one in tools if one.needs_approval or one.external]
    if waiting:
        yield f"its tools {', '.join(waiting)} need an approval or a result, for which no row can wait"
    for parameter in plan.prompt.parameters:
        if parameter.role is Role.OPTIONS:
            yield f"its parameter {parameter.name} is ChatOptions; set the options by create(…, options=…)"
        if parameter.role is Role.TOOLS:
            yield f"its parameter {parameter.name} takes tools; pass them by create(…, tools=…)"


def with_columns(method: MappedMethod, available: Iterable[str], *, are_all: bool = True) -> MappedMethod:
    """Return a copy of the method without the optional parameters that have no column in the table.

    If ``available`` are not all columns of the table, nothing is removed. Raises DefinitionError if the table
    has no column for a parameter without a default.
    """
    columns = tuple(available)
    missing = [
        (name, column)
        for name, column in method.columns.items()
        if column not in columns and name not in method.optional
    ]
    if missing:
        listed = ", ".join(columns) or "none"
        raise DefinitionError(
            [
                DefinitionProblem(
                    method.qualname,
                    f"the table has no column {column} for the parameter {name}; its columns are: {listed}. "
                    f'Name another one with columns={{"{name}": …}}',
                )
                for name, column in missing
            ]
        )
    if not are_all:
        return method
    return method._replace(
        columns={name: column for name, column in method.columns.items() if column in columns}
    )


def content_id(arguments: Mapping[str, object]) -> str:
    """Return a hash of a call's arguments, which identifies rows with equal arguments."""
    hashed = blake2b(digest_size=16)
    for name, value in arguments.items():
        data = value.encode("utf-8", "surrogatepass") if type(value) is str else _bytes_of(value)
        hashed.update(f"{name}\0{type(value).__name__}\0{len(data)}\0".encode())
        hashed.update(data)
    return hashed.hexdigest()


def work_of(method: MappedMethod) -> JsonObject:
    """Return a dict of all settings that affect a method's answers, to detect changes between two runs."""
    service_method, call = method.service_method, method.call
    prompt = service_method.plan.prompt
    system = prompt.system
    tools = {} if call.toolbox is None else call.toolbox.tools
    options = {name: value for name, value in _options(call).items() if value is not None}
    return {
        "method": method.qualname,
        "prompt": "" if prompt.user is None else prompt.user.source,
        "system message": system.source if isinstance(system, Prompt) else _name(system),
        "examples": _hash([[repr(example.values), repr(example.value)] for example in prompt.examples]),
        "type": type_name(service_method.plan.returns.output_type),
        "schema": _hash(method.codec.schema),
        "models": [route.model.name for route in call.routes],
        "options": options,
        "tools": {name: _hash([tool.description, tool.arguments.schema]) for name, tool in tools.items()},
        "interceptors": [_name(one) for one in service_method.pipeline.interceptors],
        "parameters": list(method.columns),  # a column may have another name in the next run
        "votes": call.decisions.votes,
        "calibration": _hash({path: repr(one) for path, one in call.decisions.adjustments.items()}),
    }


def _options(call: CallPlan) -> dict[str, object]:
    names = [name for name in call.options.__dataclass_fields__ if name not in ("timeout", "extra_headers")]
    return {name: to_jsonable_python(getattr(call.options, name), fallback=repr) for name in names}


def _hash(data: object) -> str:
    text = json.dumps(data, sort_keys=True, default=repr)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _name(value: object) -> str:
    return "" if value is None else getattr(value, "__qualname__", type(value).__qualname__)


def _bytes_of(value: object) -> bytes:
    if isinstance(value, Media):
        return f"{value.url}\0{value.media_type}\0".encode() + (value.data or b"")
    if is_dataclass(value) and not isinstance(value, type):
        value = [type(value).__qualname__, value]
    try:
        plain = to_jsonable_python(value, bytes_mode="base64", fallback=_plain)
    except ValueError as error:
        raise RowsError(
            f"a value of the type {type(value).__name__} cannot be compared with other rows"
        ) from error
    return json.dumps(plain, sort_keys=True).encode()


def _plain(value: object) -> object:
    if isinstance(value, Media):
        return [value.url, value.media_type, value.base64]
    if isinstance(value, Document):
        return [value.name, value.text]
    if isinstance(value, Cited):
        return value.to_dict()
    if isinstance(value, PurePath):
        return str(value)
    if type(value).__name__ == "UnsetType":  # of msgspec
        return ["unset"]
    parts = record_fields(value)  # of attrs and msgspec
    if parts is not None:
        return [type(value).__qualname__, parts]
    raise ValueError(f"{type(value).__name__} has no JSON form")


class NullCellError(ValueError):
    """Raised if a cell is null although its parameter is not optional."""


def _reader(
    parameter: Parameter, *, text_only: bool, semicolons: bool, style: NumberStyle | None
) -> Callable[[object], object] | None:
    """Return a function that checks a cell and converts it to a parameter's type; None if not needed."""
    media = [one for one in parameter.parts if isinstance(one, type) and issubclass(one, Media)]
    if parameter.role is Role.MEDIA and media:
        return lambda value: _read_media(media[0], value)
    if parameter.hint is None:
        return None
    try:
        codec = codec_for(parameter.hint, ParserRegistry((), style) if style else DEFAULT_REGISTRY)
    except UnsupportedTypeError:  # the objects of an iterable are passed on
        return None
    return _CellReader(parameter, codec, text_only=text_only, semicolons=semicolons, style=style).read


class _CellReader:
    """Checks the cells of a column by the annotation of a parameter, and converts them to its type."""

    def __init__(
        self,
        parameter: Parameter,
        codec: JsonCodec[object],
        *,
        text_only: bool,
        semicolons: bool,
        style: NumberStyle | None,
    ) -> None:
        self._codec = codec
        self._name = type_name(parameter.hint)
        self._is_text = not {str, Document}.isdisjoint(parameter.types)
        self._has_documents = Document in parameter.parts
        self._text_only = text_only
        has_style = style is not None or _has_style(parameter.hint)
        self._is_styled = text_only and not self._is_text and has_style
        self._is_number = not _NUMBERS.isdisjoint(parameter.types)
        # Spreadsheets use semicolons where numbers have a decimal comma.
        self._is_comma_possible = semicolons and not self._is_text and not self._is_styled
        self._is_bool = bool in parameter.types
        classes = [one for one in parameter.types if isinstance(one, type)]
        self._records = tuple(one for one in classes if _is_record(one) or one is Document)
        hints = get_args(parameter.hint) if isinstance(parameter.hint, UnionType) else (parameter.hint,)
        # A cell that has one of these types exactly needs no other check.
        self._plain = frozenset(hints) if _PLAIN_HINTS.issuperset(hints) else frozenset()
        self._accepts_null = self._reads("null")

    def _reads(self, text: str) -> bool:
        try:
            self._codec.read(text)
        except OutputParsingError:
            return False
        return True

    def read(self, value: object) -> object:
        """Return a cell as a value of the parameter's type, or raise ValueError."""
        if type(value) is JsonText:
            return self._answered(value)
        is_empty = value == "" if type(value) is str else value is None
        if type(value) in self._plain and not (is_empty and self._text_only) and value == value:
            return value
        if self._is_missing(value):
            return self._null()
        if isinstance(value, self._records):
            return value
        if type(value) is Decimal and value.is_finite() and value.as_tuple().exponent == -ARROW_SCALE:
            value = Decimal(f"{value:f}".rstrip("0").rstrip("."))  # the zeros are those of the column
        if self._has_documents:  # texts and dicts have the type, too, but are read
            return self._converted(_document_data(value))
        return value if self._has_type(value) else self._converted(value)

    def _answered(self, text: JsonText) -> object:
        """Return the answer of an earlier step, or its JSON if the parameter is another text."""
        with suppress(OutputParsingError):
            return self._codec.read(text)  # with all digits of its numbers
        try:
            return self.read(json.loads(text))
        except ValueError:
            if self._is_text:
                return str(text)
            raise

    def _has_type(self, value: object) -> bool:
        if self._text_only and isinstance(value, str) and not self._is_text:
            return False
        try:
            self._codec.write(value)
        except ValueError:
            return False
        return True

    def _converted(self, value: object) -> object:
        problems: list[str] = []
        self._check_point(value)
        for text in self._json_texts(value):
            try:
                if self._is_styled:
                    return self._codec.parser.parse(text, Leniency.SAFE)
                return self._codec.read(text)
            except OutputParsingError as error:
                problems += [one.message for one in error.problems]
        if self._text_only and self._is_bool and isinstance(value, str):
            word = value.partition(".")[0] if _WHOLE.fullmatch(value) else value
            with suppress(OutputParsingError):
                return self._codec.parser.parse(word, Leniency.SAFE)  # TRUE, yes, 1
        if self._text_only and not self._is_text and str(value).strip().casefold() in _NULL_WORDS:
            return self._null()
        raise ValueError(f"{_short(value)} is not {self._name}{self._reason(value, problems)}")

    def _reason(self, value: object, problems: Iterable[str]) -> str:
        """Return why a cell is not read, or what to do; "" if it has another type."""
        is_plain_number = self._is_number and not self._is_styled
        if is_plain_number and isinstance(value, str) and _WITH_COMMA.fullmatch(value):
            return f"; {self._advice()}"
        return next((f": {one}" for one in problems if one.startswith(_BROKEN_CONSTRAINTS)), "")

    def _advice(self) -> str:
        return f"annotate it as Annotated[{self._name}, NumberStyle.COMMA], or with NumberStyle.POINT"

    def _check_point(self, value: object) -> None:
        """Raise ValueError for a number whose point may be a decimal point or a thousands separator."""
        if self._is_comma_possible and isinstance(value, str) and _POINT_OR_GROUP.fullmatch(value):
            raise ValueError(
                f"{value!r} may be {value.replace('.', '')} in a file with semicolons; {self._advice()}"
            )

    def _null(self) -> object:
        if not self._accepts_null:
            raise NullCellError(
                f"the cell is empty (null), but the parameter is {self._name}; annotate it as "
                f'{self._name} | None, or pass nulls="null" to have null as the answer'
            )
        return self._codec.read("null")

    def _is_missing(self, value: object) -> bool:
        if isinstance(value, float):
            return value != value
        return value is None or (self._text_only and value == "" and not self._is_text)

    def _json_texts(self, value: object) -> Iterator[str]:
        """Yield the JSON texts that a cell may mean."""
        if isinstance(value, str):
            if self._text_only and not self._is_text and not self._is_styled:
                yield value  # JSON, such as 12 or [1, 2]
                if _WHOLE.fullmatch(value):
                    yield value.partition(".")[0]  # of a column of integers with nulls, in pandas
            yield json.dumps(value)  # a text, such as a date or the member of an Enum
            return
        if isinstance(value, Decimal) or _has_long_number(value):
            yield dump_json(_with_decimals(value))
        with suppress(ValueError):
            yield json.dumps(to_jsonable_python(value, fallback=_plain))  # bytes are text in UTF-8
        if isinstance(value, float) and value.is_integer():  # a column of integers with nulls, in pandas
            yield str(int(value))
        if isinstance(value, datetime) and value.time() == time() and value.tzinfo is None:
            yield json.dumps(value.date().isoformat())  # pandas has no dates


def _has_long_number(data: object) -> bool:
    """Return True for data of a JSON file with numbers that floats cannot represent exactly."""
    if isinstance(data, (dict, list)):
        return any(map(_has_long_number, data.values() if isinstance(data, dict) else data))
    return isinstance(data, JsonNumber)


def _with_decimals(data: object) -> object:
    if isinstance(data, dict):
        return {key: _with_decimals(one) for key, one in data.items()}
    if isinstance(data, list):
        return [_with_decimals(one) for one in data]
    return Decimal(data.text) if isinstance(data, JsonNumber) else data


def _has_style(hint: object) -> bool:
    """Return True for an annotation that says how numbers or dates are written as text."""
    arguments = get_args(hint)
    if get_origin(hint) in (UnionType, Union):
        return any(map(_has_style, arguments))
    return any(isinstance(one, (NumberStyle, DateOrder)) for one in arguments)


ARROW_SCALE = 18  # the decimal places of the columns with Decimals that the outputs have
_BROKEN_CONSTRAINTS = ("input should be", "string should", "list should", "value error")
_NUMBERS = frozenset({int, float, Decimal})
_WITH_COMMA = re.compile(r"\s*[-+]?\d[\d.,' ]*,\d+(?:\.\d+)?\s*")
_WHOLE = re.compile(r"-?\d+\.0+")
_POINT_OR_GROUP = re.compile(r"\s*-?[1-9]\d{0,2}\.\d{3}\s*")
# What programs write for null in columns that are not text.
_NULL_WORDS = frozenset({"nan", "null", "none", "na", "n/a", "nat", "<na>"})
_PLAIN_HINTS = frozenset({str, int, float, bool, type(None)})


def _document_data(value: object) -> object:
    """Return a cell with JSON data instead of documents and of the paths of their files."""
    if isinstance(value, (Document, PurePath)):
        return to_json_data(value if isinstance(value, Document) else Document.open(value))
    if isinstance(value, dict):
        return {key: _document_data(one) for key, one in value.items()}
    return [_document_data(one) for one in value] if isinstance(value, (list, tuple)) else value


def _is_record(cls: type) -> bool:
    names = ("__pydantic_fields__", "__attrs_attrs__", "__struct_fields__")
    return is_dataclass(cls) or any(hasattr(cls, name) for name in names)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:99]}…"


def _read_media(cls: type[Media], value: object) -> object:
    match value:
        case list() | tuple():
            return [_read_media(cls, one) for one in value]
        case bytes() | bytearray() | memoryview():
            return cls.from_bytes(bytes(value))
        case str() if value.startswith(("http://", "https://", "data:")):
            return cls.from_url(value)
        case str() | Path():
            return cls.from_path(value)
        case _:
            return value


# --- The entries of finished rows in the journal ---

_INDEX = re.compile(r"\[\d+\]")
_USAGE_FIELDS = tuple(field.name for field in fields(Usage))


def done_entry(
    method: MappedMethod, result: Result[object], usage: Usage | None, cost: float | None, attempts: int
) -> JsonObject:
    """Return the journal entry for a row that has been answered."""
    # The JSON of the value is stored as a text, so that numbers keep all their digits.
    entry: dict[str, object] = {
        "value": method.codec.write_any(result.value),
        **_counts(usage, cost, attempts),
    }
    unset = list(_unset_fields(result.value))
    if unset:
        entry["unset"] = unset
    if result.probabilities:
        entry["probabilities"] = {
            path: [[_label(value), share] for value, share in shares.items()]
            for path, shares in result.probabilities.items()
        }
    return entry


def error_entry(error: Exception, usage: Usage | None, cost: float | None, attempts: int) -> JsonObject:
    """Return the journal entry for a row that ended with an error."""
    named = error if isinstance(error, RowError) else RowError(type(error).__name__, str(error))
    entry = {"error": {"type": named.type, "message": named.message}, **_counts(usage, cost, attempts)}
    return {**entry, "permanent": True} if is_permanent(error) else entry


def _unset_fields(value: object, path: tuple[str | int, ...] = ()) -> Iterator[list[object]]:
    """Yield the place of each pydantic model in a value, and its fields that have their defaults."""
    parts: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, BaseModel):
        names = type(value).model_fields
        unset = [name for name in names if name not in value.model_fields_set]
        if unset:
            yield [path, unset]
        parts = [(name, getattr(value, name)) for name in names]
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [(one.name, getattr(value, one.name)) for one in fields(value)]
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    elif isinstance(value, dict):
        parts = [(key, part) for key, part in value.items() if isinstance(key, str)]
    for step, part in parts:
        yield from _unset_fields(part, (*path, step))


def _mark_unset(value: Any, unset: Iterable[tuple[Iterable[str | int], Iterable[str]]]) -> None:
    """Mark fields of pydantic models as not set, because their JSON has all fields."""
    for path, names in unset:
        model = value
        for step in path:
            is_container = isinstance(model, (list, tuple, dict))
            model = model[step] if is_container else getattr(model, str(step))
        model.__pydantic_fields_set__.difference_update(names)


# Errors of the provider or of the connection to it; another request may succeed.
_TRANSIENT = (InvalidReplyError, ModelConnectionError, ModelServerError, ModelTimeoutError)


def is_permanent(error: Exception) -> bool:
    """Return True for an error that would occur again, such as a refusal of the content."""
    if isinstance(error, ModelError):
        return not error.retryable and not isinstance(error, _TRANSIENT)
    return isinstance(error, FinishError)


def _counts(usage: Usage | None, cost: float | None, attempts: int) -> dict[str, object]:
    counts: dict[str, object] = {"attempts": attempts}
    if usage is not None:
        used = {name: getattr(usage, name) for name in _USAGE_FIELDS}
        counts["usage"] = {name: count for name, count in used.items() if count}
    if cost is not None:
        counts["cost"] = cost
    return counts


def _label(value: object) -> str:
    return repr(value)


class EntryReader:
    """Converts journal entries of finished rows to Row objects with typed answers."""

    def __init__(self, method: MappedMethod) -> None:
        self._method = method
        # The possible answers at each JSON path, by their text in the journal.
        self._answers = {
            path: {_label(value): value for _, value in options}
            for path, (options, *_) in answers_of(method.service_method.plan.call).items()
        }

    def row(self, number: int, key: object, inputs: Mapping[str, object], entry: JsonObject) -> Row[object]:
        """Return a Row with the answer or error of a stored journal entry, marked as cached."""
        return self._row(number, key, inputs, entry, cached=True)

    def new(
        self, number: int, key: object, inputs: Mapping[str, object], entry: JsonObject, seconds: float
    ) -> Row[object]:
        """Return a Row with the answer or error of a journal entry that was just written."""
        return self._row(number, key, inputs, entry, cached=False, seconds=seconds)

    def answered(
        self,
        number: int,
        key: object,
        inputs: Mapping[str, object],
        entry: JsonObject,
        result: Result[object],
    ) -> Row[object]:
        """Return a Row with the answer of a service call that has just ended."""
        usage = Usage(**entry.get("usage", {}))
        return Row(
            number,
            key,
            inputs,
            None,
            usage,
            entry.get("cost"),
            entry["attempts"],
            result.seconds,
            cached=result.cached,
            probabilities=result.probabilities,
            _value=result.value,
        )

    def _row(
        self,
        number: int,
        key: object,
        inputs: Mapping[str, object],
        entry: JsonObject,
        *,
        cached: bool,
        seconds: float = 0.0,
    ) -> Row[object]:
        error, value = entry.get("error"), None
        if error is None:
            try:
                with collect_decisions() as decisions:
                    value = self._method.codec.restore(entry["value"])
            except OutputParsingError as problem:
                raise RowsError(
                    f"the journal has a value that does not fit the return type: {problem}"
                ) from problem
            _mark_unset(value, entry.get("unset", ()))
            for decision in decisions:
                self._set_threshold(decision)
        return Row(
            number,
            key,
            inputs,
            None if error is None else RowError(error["type"], error["message"]),
            Usage() if cached else Usage(**entry.get("usage", {})),
            0.0 if cached else entry.get("cost"),
            0 if cached else entry["attempts"],
            seconds,
            cached=cached,
            probabilities=self._probabilities(entry.get("probabilities", {})),
            _value=value,
        )

    def _set_threshold(self, decision: Decision[object]) -> None:
        """Set the probability threshold of a Decision that was read from the journal.

        Its method ``at()`` uses the threshold.
        """
        path = _INDEX.sub("[]", decision.path.replace(ENVELOPE_PATH, "$", 1))
        adjustment = self._method.call.decisions.adjustments.get(path)
        if adjustment is None or not decision.probabilities:
            return
        decision.complete(
            decision.probabilities,
            decision.source,
            decision.seen,
            calibrated=decision.calibrated,
            threshold=adjustment.accepted_from,
        )

    def _probabilities(self, stored: JsonObject) -> dict[str, dict[object, float]]:
        probabilities = {}
        for path, shares in stored.items():
            answers = self._answers.get(_INDEX.sub("[]", path), {})
            probabilities[path] = {answers.get(label, label): share for label, share in shares}
        return probabilities
