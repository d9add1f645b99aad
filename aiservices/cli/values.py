"""Values on the command line: reading arguments, displaying values, placeholders for missing arguments.

Arguments are typed as ``text=…``, ``limit:=3`` (JSON), ``letter=@letter.txt`` (a file), ``text=-`` (standard
input).
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

from output_parsers.result.errors import OutputParsingError, shorten

from ..integrations.fastapi.codec import JsonCodec
from ..integrations.fastapi.contract import Argument, Method
from ..integrations.fastapi.problems import wrong_parts
from ..interface.parameters import Parameter, Role
from ..interface.templates import field_names, record_prompt, render_value
from ..models.media import Audio, File, Image
from ..models.messages import UserMessage
from ..service.compile import MethodPlan
from .console import signature_text
from .errors import UsageError, suggestion

# --- Reading arguments ---

_ARGUMENT = re.compile(r"([^\W\d]\w*)(:?=)(.*)", re.DOTALL)
_MAX_VALUE_LENGTH = 60  # characters of a value in an error message


class _TypedValue(NamedTuple):
    """One value as it was typed, or as it was read from a file.

    Attributes:
        text: The text; "" for a binary file.
        is_json: True if the value was typed after ``:=`` and must be JSON.
        path: The file that was named with ``@``.
        is_text: False for a binary file.
    """

    text: str
    is_json: bool
    path: Path | None = None
    is_text: bool = True


def read_arguments(typed: Sequence[str], method: Method, *, allow_missing: bool = False) -> dict[str, Any]:
    """Return the arguments by name, each read as the type of its parameter.

    A text is used as it is if the type accepts it; otherwise it is read as JSON. After ``:=`` it is always
    JSON. An argument for a list may be given several times. Raises UsageError with all problems at once; a
    missing argument is a problem unless ``allow_missing``.
    """
    given: dict[str, list[_TypedValue]] = {}
    problems: list[str] = []
    if sum(match is not None and match[3] == "-" for match in map(_ARGUMENT.fullmatch, typed)) > 1:
        problems.append("only one argument can be read from standard input")
    known = {argument.name: argument for argument in method.arguments}
    for text in typed:
        _add_argument(text, method, known, given, problems)
    values: dict[str, Any] = {}
    for name, typed_values in given.items():
        try:
            if typed_values:  # empty if its file could not be read
                values[name] = _value(known[name], typed_values)
        except (OutputParsingError, ValueError) as error:
            problems.append(_value_problem(known[name], typed_values, error))
    if not allow_missing:
        problems += _missing(method, given)
    if problems:
        # The same problem may be found for each of several values.
        signature = signature_text(method.qualname, method.signature)
        raise UsageError("\n  - ".join([signature, *dict.fromkeys(problems)]))
    return values


def _add_argument(
    text: str,
    method: Method,
    known: Mapping[str, Argument],
    given: dict[str, list[_TypedValue]],
    problems: list[str],
) -> None:
    """Add one typed argument to ``given``, or a message to ``problems``."""
    match = _ARGUMENT.fullmatch(text)
    if match is None:
        problems.append(f"{shorten(text, _MAX_VALUE_LENGTH)!r} is not an argument; write NAME=VALUE")
    elif match[1] in method.server_parameters:
        problems.append(f"{match[1]} must be a value of the program, which cannot be typed")
    elif match[1] not in known:
        problems.append(f"there is no parameter {match[1]}{suggestion(match[1], list(known))}")
    else:
        try:
            value = _load_value(match[3], is_json=match[2] == ":=")
        except OSError as error:
            given[match[1]] = []
            problems.append(f"{match[1]}: {error.filename} cannot be read: {error.strerror}")
        else:
            given.setdefault(match[1], []).append(value)


def _load_value(text: str, *, is_json: bool) -> _TypedValue:
    """Read standard input or the file that a value names, without the newline at its end."""
    if text == "-":
        return _TypedValue(sys.stdin.read().removesuffix("\n"), is_json)
    if text.startswith("@@"):
        return _TypedValue(text[1:], is_json)
    if not text.startswith("@"):
        return _TypedValue(text, is_json)
    path = Path(text[1:]).expanduser()
    try:
        return _TypedValue(path.read_text("utf-8").removesuffix("\n"), is_json, path)
    except UnicodeDecodeError:  # a binary file, such as an image
        return _TypedValue("", is_json, path, is_text=False)


def _value(argument: Argument, given: list[_TypedValue]) -> Any:
    """Return the value of one parameter. Raises OutputParsingError or ValueError if the type rejects it."""
    readings = [_json_readings(argument, value) for value in given]
    as_text, as_json = readings[0]
    if _are_items(argument, given):
        as_text, as_json = (f"[{', '.join(items)}]" for items in zip(*readings, strict=True))
    try:
        return argument.codec.read(as_text)
    except OutputParsingError as error:
        if as_json == as_text or not _is_json(as_json):
            raise
        try:
            return argument.codec.read(as_json)
        except OutputParsingError as json_error:
            raise json_error from error


def _are_items(argument: Argument, given: list[_TypedValue]) -> bool:
    """Return True if the values are items of a list, False if there is one whole value."""
    schema, first = argument.codec.schema, given[0]
    types = {part.get("type") for part in (schema, *schema.get("anyOf", ()))}
    if len(given) > 1 and not argument.variadic and "array" not in types:
        raise ValueError(f"it is given {len(given)} times, but takes one value")
    if len(given) > 1 or (argument.variadic and not first.is_json):
        return True
    is_whole = first.is_json or "string" in types or first.text.lstrip().startswith("[")
    return "array" in types and not is_whole


def _json_readings(argument: Argument, given: _TypedValue) -> tuple[str, str]:
    """Return the two ways to read a value, as JSON: as a JSON string with its text, and as typed JSON."""
    if argument.role is Role.MEDIA and not given.is_json:
        record = _media_json(given)
        return record, record
    if not given.is_text:
        raise ValueError(f"{given.path} is not UTF-8 text")
    if given.is_json:
        if not _is_json(given.text):
            raise ValueError(
                f"the value after := must be JSON, found {shorten(given.text, _MAX_VALUE_LENGTH)!r}"
            )
        return given.text, given.text
    quoted = json.dumps(given.text, ensure_ascii=False)
    # A parameter of type UserMessage: its text is the message.
    if argument.role is Role.USER_MESSAGE and "string" not in json.dumps(argument.codec.schema.get("type")):
        return f'{{"text": {quoted}}}', given.text
    return quoted, given.text


def _media_json(given: _TypedValue) -> str:
    """Return the JSON object for an image, sound or file that is given as a path or URL."""
    if given.path is not None:
        media = File.from_path(given.path)
        return json.dumps({"data": media.base64, "media_type": media.media_type, "name": media.name})
    if not given.text.startswith(("http://", "https://", "data:")):
        raise ValueError(
            f"write @PATH of a file or its URL, found {shorten(given.text, _MAX_VALUE_LENGTH)!r}"
        )
    linked = File.from_url(given.text)
    return json.dumps({"url": given.text, "media_type": linked.media_type, "name": linked.name})


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _value_problem(argument: Argument, given: Sequence[_TypedValue], error: ValueError) -> str:
    if not isinstance(error, OutputParsingError):
        return f"{argument.name}: {error}"
    problems = [
        f"{part.path}: {part.message}{f', found {part.found}' if part.found else ''}"
        for part in wrong_parts(error, argument.name)
    ]
    # A hint for records and lists that were typed as plain text.
    schema = json.dumps(argument.codec.schema)
    needs_json = ('"object"' in schema or '"array"' in schema) and not all(
        _is_json(one.text) for one in given
    )
    return "; ".join(problems) + ("; write it as JSON" if needs_json else "")


def _missing(method: Method, given: Mapping[str, object]) -> list[str]:
    problems = [
        f"{argument.name} is missing: {argument.name}=… ({_value_syntax(argument)})"
        for argument in method.arguments
        if argument.required and argument.name not in given
    ]
    return problems + [
        f"{name} must be a value of the program, which cannot be typed" for name in method.missing_parameters
    ]


def _value_syntax(argument: Argument) -> str:
    return "@PATH or URL" if argument.role is Role.MEDIA else argument.codec.name


# --- Displaying values ---


def display_text(value: object, codec: JsonCodec[Any], *, indent: int | None = 2) -> str:
    """Return a value as text for people: as in a prompt, but records and lists as JSON.

    ``indent=None`` puts the JSON on one line. Raises ValueError if the value cannot be written.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    text = codec.write(value)
    return _indent_json(text, indent) if text.startswith(("{", "[")) else render_value(value)


def _indent_json(text: str, indent: int | None) -> str:
    """Indent JSON text and keep each number as it is written, for example 1.50."""
    # json.loads would turn 1.50 into 1.5. A marker with random digits stands in for each such number.
    marker = os.urandom(8).hex()
    numbers: list[str] = []

    def replace_by_marker(number: str) -> str:
        numbers.append(number)
        return f"{marker}:{len(numbers) - 1}"

    indented = json.dumps(json.loads(text, parse_float=replace_by_marker), indent=indent, ensure_ascii=False)
    for position, number in enumerate(numbers):
        indented = indented.replace(f'"{marker}:{position}"', number, 1)
    return indented


# --- Placeholders for arguments that are not given ---

_PLACEHOLDER_URL = "https://placeholder.invalid"


class _Placeholder:
    """Stands for a value of any type in a template: its attributes, items and calls are placeholders, too."""

    unsafe_callable = alters_data = False  # the sandbox of Jinja reads these before a call

    def __init__(self, name: str, text: str = "") -> None:
        self._name = name
        self._text = text or f"{{{{{name}}}}}"

    def __str__(self) -> str:
        return self._text

    def __call__(self, *args: object) -> _Placeholder:
        return _Placeholder(f"{self._name}({', '.join(map(repr, args))})")

    def __getattr__(self, name: str) -> _Placeholder:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Placeholder(f"{self._name}.{name}")

    def __getitem__(self, key: object) -> _Placeholder:
        return _Placeholder(f"{self._name}[{key!r}]")

    def __iter__(self) -> Iterator[_Placeholder]:
        yield self

    def __len__(self) -> int:
        return 1


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


def placeholder_arguments(
    plan: MethodPlan, given: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """Return positional and keyword arguments for a preview, and True if some are placeholders.

    A parameter that is not ``given`` gets its default, or else a placeholder.
    """
    planned = {parameter.name: parameter for parameter in plan.prompt.parameters}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    has_placeholders = False
    for name, parameter in plan.prompt.signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:  # no template can name its values
            continue
        if name in given:
            value = given[name]
        elif parameter.default is not inspect.Parameter.empty:
            value = parameter.default
        else:
            has_placeholders = True
            value = _placeholder_for(planned[name])
            value = [value] if parameter.kind is parameter.VAR_POSITIONAL else value
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[name] = value
        else:
            args.append(value)
    return tuple(args), kwargs, has_placeholders


def _placeholder_for(parameter: Parameter) -> Any:
    name, text = parameter.name, f"{{{{{parameter.name}}}}}"
    match parameter.role:
        case Role.HISTORY:
            return (UserMessage(text),)
        case Role.USER_MESSAGE if str not in parameter.types:
            return UserMessage(text)
        case Role.OPTIONS | Role.TOOL_CONTEXT:
            return None
        case Role.USER_MESSAGE | Role.USER_NAME | Role.MEMORY_ID:
            return text
        case Role.MEDIA:
            types = [_MEDIA_PLACEHOLDERS[tp] for tp in parameter.types if tp in _MEDIA_PLACEHOLDERS]
            media = (types[0] if types else _ImagePlaceholder)(None, None, _PLACEHOLDER_URL, name)
            return media if types else [media]
    return _structured_prompt_placeholder(parameter) or _Placeholder(name)


def _structured_prompt_placeholder(parameter: Parameter) -> _Placeholder | None:
    """Return the template of a structured prompt with placeholders for its fields; None for other types."""
    for cls in parameter.types:
        prompt = record_prompt(cls) if isinstance(cls, type) else None
        if prompt is not None:
            fields = {name: _Placeholder(f"{parameter.name}.{name}") for name in field_names(cls)}
            return _Placeholder(parameter.name, prompt.render(fields, cls.__name__))
    return None
