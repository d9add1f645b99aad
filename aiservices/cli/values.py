"""Parse command-line arguments, display values, and create placeholders for missing arguments.

Arguments are written as ``text=…``, ``limit:=3`` (JSON), ``letter=@letter.txt`` (a file), ``text=-``
(standard input).
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import to_json

from output_parsers.result.errors import OutputParsingError, shorten

from ..documents.document import Document, to_json_data
from ..interface.parameters import Parameter, Role
from ..interface.templates import field_names, record_prompt, render_value
from ..models.media import Audio, File, Image
from ..models.messages import UserMessage
from ..remote.codec import JsonCodec, is_json
from ..remote.contract import Argument, Method
from ..remote.problems import wrong_parts
from ..service.compile import MethodPlan
from .console import signature_text
from .errors import UsageError, suggestion

# --- Reading arguments ---

_ARGUMENT = re.compile(r"([^\W\d]\w*)(:?=)(.*)", re.DOTALL)
_MAX_VALUE_LENGTH = 60  # characters of a value in an error message


class _RawValue(NamedTuple):
    """An argument value from the command line or a file, before it is parsed.

    Attributes:
        text: The text; "" for a binary file.
        is_json: True if the value follows ``:=`` and must be JSON.
        path: The file, if the value is ``@PATH``.
        is_text: False for a binary file.
    """

    text: str
    is_json: bool
    path: Path | None = None
    is_text: bool = True


def read_arguments(
    argument_texts: Sequence[str], method: Method, *, allow_missing: bool = False
) -> dict[str, object]:
    """Parse command-line arguments as the types of a method's parameters; return a dict of the values.

    Text is used unchanged if the type accepts it, and is read as JSON otherwise. After ``:=`` it is always
    JSON. An argument for a list may occur several times. Raises UsageError with all problems at once; a
    missing argument is a problem unless ``allow_missing``.
    """
    raw_values: dict[str, list[_RawValue]] = {}
    problems: list[str] = []
    if sum(match is not None and match[3] == "-" for match in map(_ARGUMENT.fullmatch, argument_texts)) > 1:
        problems.append("only one argument can be read from standard input")
    parameters = {argument.name: argument for argument in method.arguments}
    for text in argument_texts:
        _add_argument(text, method, parameters, raw_values, problems)
    values: dict[str, object] = {}
    for name, values_of_argument in raw_values.items():
        try:
            if values_of_argument:  # empty if its file could not be read
                values[name] = _value(parameters[name], values_of_argument)
        except (OutputParsingError, ValueError) as error:
            problems.append(_value_problem(parameters[name], values_of_argument, error))
    if not allow_missing:
        problems += _missing_arguments(method, raw_values)
    if problems:
        # Several values of one argument may have the same problem.
        signature = signature_text(method.qualname, method.signature)
        raise UsageError("\n  - ".join([signature, *dict.fromkeys(problems)]))
    return values


def read_cells(cells: Mapping[str, str], method: Method) -> tuple[dict[str, object], list[str]]:
    """Parse a table row's cells as the types of a method's parameters; return values and problems.

    A cell is read like ``NAME=CELL`` on the command line, but only an image, sound or file is read from
    ``@PATH``. An empty cell means the parameter's default, if there is a default.
    """
    values: dict[str, object] = {}
    problems: list[str] = []
    for argument in method.arguments:
        text = cells.get(argument.name, "")
        if not text and not argument.required:
            continue
        is_path = (argument.role is Role.MEDIA or argument.takes_document) and text.startswith("@")
        try:
            raw_value = _load_value(text, is_json=False) if is_path else _RawValue(text, False)
        except OSError as error:
            problems.append(f"{argument.name}: {error.filename} cannot be read: {error.strerror}")
            continue
        try:
            values[argument.name] = _value(argument, [raw_value])
        except (OutputParsingError, ValueError) as error:
            problems.append(_value_problem(argument, [raw_value], error))
    return values, problems


def _add_argument(
    text: str,
    method: Method,
    parameters: Mapping[str, Argument],
    raw_values: dict[str, list[_RawValue]],
    problems: list[str],
) -> None:
    """Store a command-line argument's text, or add an error message to the list of problems."""
    match = _ARGUMENT.fullmatch(text)
    if match is None:
        problems.append(f"{shorten(text, _MAX_VALUE_LENGTH)!r} is not an argument; write NAME=VALUE")
    elif match[1] in method.server_parameters:
        problems.append(f"{match[1]} cannot be passed on the command line, only from Python code")
    elif match[1] not in parameters:
        problems.append(f"there is no parameter {match[1]}{suggestion(match[1], list(parameters))}")
    else:
        try:
            value = _load_value(match[3], is_json=match[2] == ":=")
        except OSError as error:
            raw_values[match[1]] = []
            problems.append(f"{match[1]}: {error.filename} cannot be read: {error.strerror}")
        else:
            raw_values.setdefault(match[1], []).append(value)


def _load_value(text: str, *, is_json: bool) -> _RawValue:
    """Return the text of an argument value, reading it from a file or standard input if requested."""
    if text == "-":
        return _RawValue(sys.stdin.read().removesuffix("\n"), is_json)
    # The escape for a text that starts with @.
    if text.startswith("@@"):
        return _RawValue(text[1:], is_json)
    if not text.startswith("@"):
        return _RawValue(text, is_json)
    path = Path(text[1:]).expanduser()
    try:
        return _RawValue(path.read_text("utf-8").removesuffix("\n"), is_json, path)
    except UnicodeDecodeError:  # a binary file, such as an image
        return _RawValue("", is_json, path, is_text=False)


def _value(argument: Argument, raw_values: list[_RawValue]) -> object:
    """Parse a command-line argument as its parameter's type, or raise OutputParsingError or ValueError."""
    # The type decides between text and JSON: 12 is a text for str and a number for int.
    readings = [_json_readings(argument, raw_value) for raw_value in raw_values]
    as_text, as_json = readings[0]
    if _are_items(argument, raw_values):
        as_text, as_json = (f"[{', '.join(items)}]" for items in zip(*readings, strict=True))
    try:
        return argument.codec.read(as_text)
    except OutputParsingError as error:
        if as_json == as_text or not is_json(as_json):
            raise
        try:
            return argument.codec.read(as_json)
        except OutputParsingError as json_error:
            raise json_error from error


def _are_items(argument: Argument, raw_values: list[_RawValue]) -> bool:
    """Return True if each command-line value of a parameter is a list item, rather than a whole list."""
    schema, first = argument.codec.schema, raw_values[0]
    types = {part.get("type") for part in (schema, *schema.get("anyOf", ()))}
    if len(raw_values) > 1 and not argument.variadic and "array" not in types:
        raise ValueError(f"given {len(raw_values)} times, but only one value is allowed")
    if len(raw_values) > 1 or (argument.variadic and not first.is_json):
        return True
    # A single text is the whole value if it is JSON, or if the type also accepts a string.
    is_whole = first.is_json or "string" in types or first.text.lstrip().startswith("[")
    return "array" in types and not is_whole


def _json_readings(argument: Argument, raw_value: _RawValue) -> tuple[str, str]:
    """Return the two ways to read a command-line value as JSON, such as ``"5"`` (a string) and ``5``."""
    text = raw_value.text
    if argument.role is Role.MEDIA and not raw_value.is_json:
        record = _media_json(raw_value)
        return record, record
    if argument.takes_document and raw_value.path is not None and not raw_value.is_json:
        record = to_json(to_json_data(Document.open(raw_value.path))).decode()
        return record, record
    if not raw_value.is_text:
        raise ValueError(f"{raw_value.path} is not UTF-8 text")
    if raw_value.is_json:
        if not is_json(text):
            raise ValueError(f"the value after := must be JSON, found {shorten(text, _MAX_VALUE_LENGTH)!r}")
        return text, text
    quoted = json.dumps(text, ensure_ascii=False)
    # A parameter of type UserMessage: its text is the message.
    if argument.role is Role.USER_MESSAGE and "string" not in json.dumps(argument.codec.schema.get("type")):
        return f'{{"text": {quoted}}}', text
    return quoted, text


def _media_json(raw_value: _RawValue) -> str:
    """Return JSON text for an image, sound or file, given its path or URL."""
    text = raw_value.text
    if raw_value.path is not None:
        media = File.from_path(raw_value.path)
        return json.dumps({"data": media.base64, "media_type": media.media_type, "name": media.name})
    if not text.startswith(("http://", "https://", "data:")):
        raise ValueError(f"expected @PATH or a URL, found {shorten(text, _MAX_VALUE_LENGTH)!r}")
    linked = File.from_url(text)
    return json.dumps({"url": text, "media_type": linked.media_type, "name": linked.name})


def _value_problem(argument: Argument, raw_values: Sequence[_RawValue], error: ValueError) -> str:
    if not isinstance(error, OutputParsingError):
        return f"{argument.name}: {error}"
    problems = map(str, wrong_parts(error, argument.name))
    # Records and lists that were written as plain text get a hint.
    schema = json.dumps(argument.codec.schema)
    needs_json = ('"object"' in schema or '"array"' in schema) and not all(
        is_json(raw_value.text) for raw_value in raw_values
    )
    return "; ".join(problems) + ("; write it as JSON" if needs_json else "")


def _missing_arguments(method: Method, raw_values: Mapping[str, object]) -> list[str]:
    problems = [
        f"{argument.name} is missing: {argument.name}=… ({_value_syntax(argument)})"
        for argument in method.arguments
        if argument.required and argument.name not in raw_values
    ]
    return problems + [
        f"{name} cannot be passed on the command line, only from Python code"
        for name in method.missing_parameters
    ]


def _value_syntax(argument: Argument) -> str:
    if argument.takes_document:
        return "@PATH or text"
    return "@PATH or URL" if argument.role is Role.MEDIA else argument.codec.name


# --- Displaying values ---


def display_text(value: object, codec: JsonCodec[object], *, indent: int | None = 2) -> str:
    """Convert a value to readable text: records and lists as JSON, other values as they appear in prompts.

    ``indent=None`` puts the JSON on one line. Raises ValueError if the value cannot be written.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    text = codec.write(value)
    return _indent_json(text, indent) if text.startswith(("{", "[")) else render_value(value)


def _indent_json(text: str, indent: int | None) -> str:
    """Indent JSON text, keeping the spelling of each number, such as 1.50."""
    # json.loads would turn 1.50 into 1.5. A marker with random digits replaces such numbers until the end.
    marker = os.urandom(8).hex()
    numbers: list[str] = []

    def replace_by_marker(number: str) -> str:
        numbers.append(number)
        return f"{marker}:{len(numbers) - 1}"

    indented = json.dumps(json.loads(text, parse_float=replace_by_marker), indent=indent, ensure_ascii=False)
    for position, number in enumerate(numbers):
        indented = indented.replace(f'"{marker}:{position}"', number, 1)
    return indented


# --- Placeholders for missing arguments ---

# The domain .invalid never resolves (RFC 2606), and media need a URL or data.
_PLACEHOLDER_URL = "https://placeholder.invalid"


class _Placeholder:
    """Represents a missing value in a prompt template; its attributes and items are placeholders, too."""

    unsafe_callable = alters_data = False  # the sandbox of Jinja reads these before a call

    def __init__(self, name: str, text: str = "") -> None:
        self._name = name
        self._text = text or f"{{{{{name}}}}}"

    def __str__(self) -> str:
        return self._text

    def __call__(self, *args: object) -> _Placeholder:
        return _Placeholder(f"{self._name}({', '.join(map(repr, args))})")

    def __getattr__(self, name: str) -> _Placeholder:
        # Jinja and copy look up special methods. A placeholder must not pretend to have them.
        if name.startswith("_"):
            raise AttributeError(name)
        return _Placeholder(f"{self._name}.{name}")

    def __getitem__(self, key: object) -> _Placeholder:
        return _Placeholder(f"{self._name}[{key!r}]")

    # A loop in the template runs once, so that its body appears in the preview.
    def __iter__(self) -> Iterator[_Placeholder]:
        yield self

    def __len__(self) -> int:
        return 1


# Media are checked by their class, so their placeholders must be subclasses of it. Errors name the class.
class _ImagePlaceholder(Image):
    def __str__(self) -> str:
        return f"{{{{{self.name}}}}}"


class _AudioPlaceholder(Audio):
    def __str__(self) -> str:
        return f"{{{{{self.name}}}}}"


class _FilePlaceholder(File):
    def __str__(self) -> str:
        return f"{{{{{self.name}}}}}"


_MEDIA_PLACEHOLDERS: dict[object, type[Image | Audio | File]] = {
    Image: _ImagePlaceholder,
    Audio: _AudioPlaceholder,
    File: _FilePlaceholder,
}
_ImagePlaceholder.__name__, _AudioPlaceholder.__name__, _FilePlaceholder.__name__ = "Image", "Audio", "File"


def placeholder_arguments(
    plan: MethodPlan, supplied: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object], bool]:
    """Return arguments for previewing a prompt, and True if any of them are placeholders.

    ``supplied`` maps argument names to values. Every other parameter gets its default, or a placeholder if it
    has no default.
    """
    parameters = {parameter.name: parameter for parameter in plan.prompt.parameters}
    args: list[object] = []
    kwargs: dict[str, object] = {}
    has_placeholders = False
    for name, parameter in plan.prompt.signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:  # no template can name its values
            continue
        if name in supplied:
            value: Any = supplied[name]
        elif parameter.default is not inspect.Parameter.empty:
            value = parameter.default
        else:
            has_placeholders = True
            value = _placeholder_for(parameters[name])
            value = [value] if parameter.kind is parameter.VAR_POSITIONAL else value
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[name] = value
        else:
            args.append(value)
    return tuple(args), kwargs, has_placeholders


def _placeholder_for(parameter: Parameter) -> object:
    name, text = parameter.name, f"{{{{{parameter.name}}}}}"
    match parameter.role:
        case Role.HISTORY:
            return (UserMessage(text),)
        case Role.USER_MESSAGE if str not in parameter.types:
            return UserMessage(text)
        case Role.OPTIONS | Role.TOOL_CONTEXT | Role.TOOLS:
            return None
        case Role.USER_MESSAGE | Role.USER_NAME | Role.MEMORY_ID | Role.CALL_ID:
            return text
        case Role.MEDIA:
            types = [_MEDIA_PLACEHOLDERS[tp] for tp in parameter.types if tp in _MEDIA_PLACEHOLDERS]
            media = (types[0] if types else _ImagePlaceholder)(None, None, _PLACEHOLDER_URL, name)
            return media if types else [media]
    return _structured_prompt_placeholder(parameter) or _Placeholder(name)


def _structured_prompt_placeholder(parameter: Parameter) -> _Placeholder | None:
    """Render a ``@structured_prompt`` class with placeholders for fields; return None for other classes."""
    for cls in parameter.types:
        prompt = record_prompt(cls) if isinstance(cls, type) else None
        if prompt is not None:
            fields = {name: _Placeholder(f"{parameter.name}.{name}") for name in field_names(cls)}
            return _Placeholder(parameter.name, prompt.render(fields, cls.__name__))
    return None
