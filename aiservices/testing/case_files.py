"""Read an evaluation's test cases from CSV, JSONL and YAML files, parsing values as a method's types."""

from __future__ import annotations

import csv
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from output_parsers.parser.type_parser import DEFAULT_REGISTRY, TypeParser
from output_parsers.result.errors import OutputParsingError, Problem, UnsupportedTypeError
from output_parsers.result.reading import Leniency, dump_json
from output_parsers.types.decisions import Decision, Scale
from output_parsers.types.node import OutputParser
from output_parsers.types.target import type_name

from ..interface.parameters import Parameter, Role
from ..models.errors import DefinitionError, DefinitionProblem, import_extra
from ..models.media import Media
from ..models.messages import UserMessage
from ..remote.codec import is_json
from ..service.compile import MethodPlan
from ..service.methods import plan_of
from ..service.signatures import ReturnShape
from .case import Case

_EXPECTED, _NAME, _TAGS = _OWN_FIELDS = ("expected", "case", "tags")
_MAX_PROBLEMS = 20  # the maximum number of problems in one error
_NOT_IN_FILES = (Role.OPTIONS, Role.TOOLS, Role.HISTORY)
_ENVELOPE = "value"


def cases_from(path: str | PathLike[str], method: Callable[..., object]) -> list[Case[Any]]:
    """Read an evaluation's test cases from a CSV, JSONL or YAML file.

    Each row of a CSV file, each object of a JSONL file, and each mapping in the list of a YAML file is a
    case. Its fields are the arguments of the method, and if needed ``expected``, ``case`` (the name of the
    case) and ``tags``. Values are parsed as the method's types, without repairing mistakes.

    In CSV files, a cell is a text, or JSON if the type is not a text. An empty cell is left out if the
    parameter has a default, and an empty ``expected`` is not given. Empty rows are skipped. Tags are
    separated by commas. Images and other media are URLs, or paths relative to the file. For a method that
    returns a Decision, ``expected`` is the right answer. YAML needs the extra ``testing``.

    Args:
        path: The file. Its ending, ``.csv``, ``.jsonl``, ``.yaml`` or ``.yml``, tells the format.
        method: The method of a service that is evaluated.

    Raises:
        DefinitionError: The file cannot be read, or a value does not fit its type. The problems name the line
            and the column or field.
        MissingExtraError: PyYAML is not installed.
    """
    file, plan = Path(path), plan_of(method)
    read = _FORMATS.get(file.suffix.lower())
    if read is None:
        raise _error(str(path), f"the ending must be one of {', '.join(_FORMATS)}")
    reader = _CaseReader(plan, file.parent)
    cases, problems = [], []
    try:
        for record in read(file):
            case, record_problems = reader.read(record)
            problems += [DefinitionProblem(f"{path}, {one.location}", one.message) for one in record_problems]
            cases.append(case)
    except OSError as error:
        raise _error(str(path), f"it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _error(str(path), f"it is not UTF-8 text: {error}") from error
    except _FileError as error:
        location = f"{path}, {error.location}" if error.location else str(path)
        problems.append(DefinitionProblem(location, error.message))
    if not problems and not cases:
        problems = [DefinitionProblem(str(path), "it has no cases")]
    if problems:
        more = len(problems) - _MAX_PROBLEMS
        listed = problems[:_MAX_PROBLEMS]
        if more > 0:
            listed.append(DefinitionProblem(str(path), f"and {more} more problems"))
        raise DefinitionError(listed)
    return cases


def _error(location: str, message: str) -> DefinitionError:
    return DefinitionError([DefinitionProblem(location, message)])


class _FileError(Exception):
    """Raised if a case file is not valid CSV, JSONL or YAML, or has an unexpected structure."""

    def __init__(self, location: str, message: str) -> None:
        super().__init__(message)
        self.location = location
        self.message = message


class _RoleProblem(Exception):
    """Raised for a method parameter that a case file cannot provide, such as a tool context."""


class _Field(NamedTuple):
    """A value in a case file, with its location.

    Attributes:
        value: A string from a CSV file, or JSON data.
        location: Where it is, such as "line 3, column letter".
        is_cell: True if it comes from a CSV file, where all values are strings.
    """

    value: Any
    location: str
    is_cell: bool = False


class _Record(NamedTuple):
    """A test case read from a file: its location, such as "line 3", and its fields."""

    location: str
    fields: Mapping[str, _Field]


# --- Reading fields with the types of the method ---


class _CaseReader:
    """Converts a test case's fields to arguments and an expected value, as a method's types."""

    def __init__(self, plan: MethodPlan, folder: Path) -> None:
        self._qualname = plan.call.qualname
        signature = plan.prompt.signature.parameters
        self._readers: dict[str, Callable[[_Field], object]] = {}
        self._required: set[str] = set()
        problems = []
        for parameter in plan.prompt.parameters:
            declared = signature[parameter.name]
            is_required = declared.default is inspect.Parameter.empty
            if declared.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                continue
            try:
                self._readers[parameter.name] = _parameter_reader(parameter, folder)
            except (UnsupportedTypeError, _RoleProblem) as error:
                if is_required:
                    message = f"the parameter {parameter.name} cannot be read from a file: {error}"
                    problems.append(DefinitionProblem(self._qualname, message))
            if is_required:
                self._required.add(parameter.name)
        if _EXPECTED in self._readers:
            message = f"the parameter {_EXPECTED} has the name of the field for the expected value; rename it"
            problems.append(DefinitionProblem(self._qualname, message))
        if problems:
            raise DefinitionError(problems)
        try:
            self._read_expected = _reader(_expected_type(plan))
        except UnsupportedTypeError as error:
            raise _error(self._qualname, f"expected values cannot be read from a file: {error}") from error
        self._names = [*self._readers, *(name for name in _OWN_FIELDS if name not in self._readers)]

    def _wrong_names(self, record: _Record) -> Iterator[DefinitionProblem]:
        """Yield an error for each unknown and each missing field."""
        for name, field in record.fields.items():
            if name not in self._names:
                yield DefinitionProblem(field.location, self._unknown(name))
        for name in self._readers:
            if name in self._required and name not in record.fields:
                message = f"{name} is missing, a parameter of {self._qualname}"
                yield DefinitionProblem(record.location, message)

    def read(self, record: _Record) -> tuple[Case[object], list[DefinitionProblem]]:
        """Return the test case for a record, and the problems found in its fields."""
        problems = list(self._wrong_names(record))

        def value(name: str, read: Callable[[_Field], object]) -> object:
            field = record.fields[name]
            try:
                return read(field)
            except OutputParsingError as error:
                for problem in error.problems:
                    detail = f", found {problem.found}" if problem.found else ""
                    location = f"{field.location}{problem.path[1:]}"
                    problems.append(DefinitionProblem(location, f"{problem.message}{detail}"))
            except (ValueError, TypeError, OSError) as error:
                problems.append(DefinitionProblem(field.location, str(error)))
            return None

        arguments = {}
        for name, read in self._readers.items():
            field = record.fields.get(name)
            if field is not None and not (field.is_cell and field.value == "" and name not in self._required):
                arguments[name] = value(name, read)
        own: dict[str, Any] = {}
        expected = record.fields.get(_EXPECTED)
        if expected is not None and not (expected.is_cell and expected.value == ""):
            own["expected"] = value(_EXPECTED, self._read_expected)
        for name, attribute, read in ((_NAME, "name", _case_name), (_TAGS, "tags", _case_tags)):
            if name in record.fields and name not in self._readers:
                own[attribute] = value(name, read) or Case.__dataclass_fields__[attribute].default
        return Case(arguments, **own), problems

    def _unknown(self, name: str) -> str:
        close = get_close_matches(name, self._names, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(self._names)}"
        return f"there is no parameter or field {name}; {hint}"


def _case_name(field: _Field) -> str:
    if isinstance(field.value, (str, int)) and not isinstance(field.value, bool):
        return str(field.value)
    raise ValueError(f"expected the name of the case, found {dump_json(field.value)}")


def _case_tags(field: _Field) -> tuple[str, ...]:
    tags = field.value.split(",") if field.is_cell else field.value
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"expected a list of texts, found {dump_json(tags)}")
    return tuple(tag.strip() for tag in tags if tag.strip())


def _expected_type(plan: MethodPlan) -> object:
    """Return the type of the expected values of a method.

    It is the answer type, with plain values in place of Decisions.
    """
    returns = plan.returns
    tp: Any = returns.output_type
    while get_origin(tp) is Annotated:
        inner = get_args(tp)[0]
        if get_origin(inner) not in (Annotated, Decision, Scale):
            break
        tp = inner
    if get_origin(tp) in (Decision, Scale):
        (tp,) = get_args(tp)
    return list[tp] if returns.shape is ReturnShape.ITEMS else tp


def _parameter_reader(parameter: Parameter, folder: Path) -> Callable[[_Field], object]:
    if parameter.role in _NOT_IN_FILES:
        raise _RoleProblem(f"it is {parameter.role}, which only Python code can pass")
    if parameter.role is Role.MEDIA:
        (cls,) = dict.fromkeys(
            one for one in parameter.parts if isinstance(one, type) and issubclass(one, Media)
        )
        is_list = not any(one is cls for one in parameter.types)
        return lambda field: _read_media(field, cls, folder, is_list=is_list)
    if UserMessage in parameter.types:
        read_text = _reader(str)
        return lambda field: UserMessage(read_text(field))
    return _reader(str if parameter.hint is None else parameter.hint)


def _read_media(field: _Field, cls: type[Media], folder: Path, *, is_list: bool) -> object:
    value = field.value
    if is_list:
        values = [one.strip() for one in value.split(",")] if field.is_cell else value
        if not isinstance(values, list):
            raise ValueError(f"expected a list of paths and URLs, found {dump_json(values)}")
        return [_read_media(field._replace(value=one), cls, folder, is_list=False) for one in values]
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected a path or a URL, found {dump_json(value)}")
    if value.startswith(("http://", "https://", "data:")):
        return cls.from_url(value)
    return cls.from_path(folder / value)


def _reader(tp: Any) -> Callable[[_Field], Any]:
    """Return a function that parses a field as a value of a type, without repairing mistakes."""
    parser: OutputParser[object] = DEFAULT_REGISTRY.parser_for(tp)
    typed = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser, type_name(tp))
    # The parser of str accepts any text as it is. Inside an object every value must be JSON.
    enveloped = typed.with_envelope(_ENVELOPE)
    is_text = typed.node.any_text

    def read_json(text: str) -> object:
        try:
            return enveloped.parse(f'{{"{_ENVELOPE}": {text}}}', Leniency.NONE)
        except OutputParsingError as error:
            problems = [
                Problem(
                    problem.path.replace(f"$.{_ENVELOPE}", "$", 1),
                    problem.message.replace(" is not permitted with Leniency.NONE", " is not accepted"),
                    problem.found,
                )
                for problem in error.problems
            ]
            raise OutputParsingError(text, problems) from error

    def read(field: _Field) -> object:
        if not field.is_cell:
            return read_json(dump_json(field.value))
        quoted = json.dumps(field.value)
        if is_text or not is_json(field.value):
            return read_json(quoted)
        # as JSON, such as 12 or [1, 2]; else as a text, such as the member "1" of an Enum
        try:
            return read_json(field.value)
        except OutputParsingError:
            try:
                return read_json(quoted)
            except OutputParsingError:
                pass
            raise

    return read


# --- The file formats ---


def _csv_records(path: Path) -> Iterator[_Record]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        names: list[str] = []
        line = 1
        try:
            for cells in reader:
                start, line = line, reader.line_num + 1  # a cell may have line breaks
                if not any(cells):
                    continue
                if not names:
                    names = _checked_names([name.strip() for name in cells], start)
                    continue
                if len(cells) != len(names):
                    message = f"it has {len(cells)} cells, and the first line has {len(names)}"
                    raise _FileError(f"line {start}", message)
                yield _Record(
                    f"line {start}",
                    {
                        name: _Field(cell, f"line {start}, column {name}", is_cell=True)
                        for name, cell in zip(names, cells, strict=True)
                    },
                )
        except csv.Error as error:
            raise _FileError(f"line {reader.line_num}", str(error)) from error


def _checked_names(names: Sequence[str], line: int) -> list[str]:
    for name in names:
        if not name:
            raise _FileError(f"line {line}", "a column has no name")
        if names.count(name) > 1:
            raise _FileError(f"line {line}", f"the column {name} occurs twice")
    return list(names)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)} occurs twice")
    return data


def _jsonl_records(path: Path) -> Iterator[_Record]:
    decoder = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_float=Decimal)
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            location = f"line {number}"
            try:
                data = decoder.decode(line)
            except json.JSONDecodeError as error:
                raise _FileError(f"{location}, column {error.colno}", error.msg) from error
            except (ValueError, RecursionError) as error:
                raise _FileError(location, str(error)) from error
            if not isinstance(data, dict):
                raise _FileError(location, f"a case must be a JSON object, found {line.strip()[:60]}")
            yield _Record(
                location, {name: _Field(value, f"{location}, {name}") for name, value in data.items()}
            )


def _yaml_records(path: Path) -> Iterator[_Record]:
    yaml = import_extra("yaml", "testing", "reading YAML")

    with path.open(encoding="utf-8-sig") as file:
        loader = yaml.SafeLoader(file)
        # Dates stay texts, which the types of the method read.
        loader.yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
            for first, resolvers in loader.yaml_implicit_resolvers.items()
        }
        try:
            root = loader.get_single_node()
            if root is None:
                return
            if not isinstance(root, yaml.SequenceNode):
                raise _FileError(_position(root), "the file must be a list of cases")
            for node in root.value:
                location = _position(node)
                if not isinstance(node, yaml.MappingNode):
                    raise _FileError(location, "a case must be a mapping of names to values")
                fields: dict[str, _Field] = {}
                for key, value in node.value:
                    name = str(loader.construct_object(key))
                    if name in fields:
                        raise _FileError(_position(key), f"the key {name} occurs twice")
                    data = loader.construct_object(value, deep=True)
                    fields[name] = _Field(_json_data(data, value), f"{_position(value)}, {name}")
                yield _Record(location, fields)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            location = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
            raise _FileError(location, str(error.problem)) from error
        except yaml.YAMLError as error:
            raise _FileError("", str(error)) from error
        finally:
            loader.dispose()


def _position(node: Any) -> str:
    return f"line {node.start_mark.line + 1}, column {node.start_mark.column + 1}"


def _json_data(data: object, node: object) -> object:
    """Return a YAML node's data if JSON can represent it; otherwise raise an error."""
    if isinstance(data, dict):
        if not all(isinstance(key, str) for key in data):
            raise _FileError(_position(node), "the keys of a mapping must be texts; write them in quotes")
        return {key: _json_data(value, node) for key, value in data.items()}
    if isinstance(data, list):
        return [_json_data(value, node) for value in data]
    if data is None or isinstance(data, (str, bool, int, float)):
        return data
    raise _FileError(_position(node), f"a value of the type {type(data).__name__} has no JSON form")


_FORMATS: dict[str, Callable[[Path], Iterator[_Record]]] = {
    ".csv": _csv_records,
    ".jsonl": _jsonl_records,
    ".yaml": _yaml_records,
    ".yml": _yaml_records,
}
