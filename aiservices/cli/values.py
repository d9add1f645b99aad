"""Reads arguments as they are typed: ``text=…``, ``limit:=3``, ``letter=@letter.txt``, ``text=-``."""

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

from output_parsers.parser.registry import DEFAULT_REGISTRY
from output_parsers.result.errors import OutputParsingError, shorten

from ..engine.plan import MethodPlan
from ..engine.results import Result
from ..integrations.fastapi.contract import Argument, Codec, Method, codec_for, write_result
from ..integrations.fastapi.problems import parts_of
from ..interface.parameters import Parameter, Role
from ..interface.rendering import render_value
from ..interface.templates import field_names, record_prompt
from ..models.media import Audio, File, Image
from ..models.messages import UserMessage
from .console import signature_text
from .services import Mistake, meant

_TYPED = re.compile(r"([^\W\d]\w*)(:?=)(.*)", re.DOTALL)
_SHOWN = 60  # characters of a value in a message


class _Given(NamedTuple):
    """One value as it was typed, or read from a file: as text, or as JSON and nothing else."""

    text: str
    is_json: bool
    path: Path | None = None
    is_text: bool = True


def read_arguments(typed: Sequence[str], method: Method, *, partly: bool = False) -> dict[str, Any]:
    """The arguments by name, each read as the type of its parameter.

    Where a text is of that type it is the value; else it is read as JSON, as it is after ``:=``. A parameter
    that takes several may be given several times. Raises Mistake with all that is wrong at once; that one is
    missing is wrong unless they are wanted ``partly``.
    """
    given: dict[str, list[_Given]] = {}
    problems: list[str] = []
    if sum(match is not None and match[3] == "-" for match in map(_TYPED.fullmatch, typed)) > 1:
        problems.append("standard input can be read for one argument only")
    known = {argument.name: argument for argument in method.arguments}
    for text in typed:
        _sort_in(text, method, known, given, problems)
    values: dict[str, Any] = {}
    for name, texts in given.items():
        try:
            if texts:  # else its file could not be read
                values[name] = _value(known[name], texts)
        except (OutputParsingError, ValueError) as error:
            problems.append(_told(known[name], texts, error))
    if not partly:
        problems += _missing(method, given)
    if problems:
        raise Mistake("\n  - ".join([signature_text(method.where, method.signature), *dict.fromkeys(problems)]))
    return values


def _sort_in(
    text: str,
    method: Method,
    known: Mapping[str, Argument],
    given: dict[str, list[_Given]],
    problems: list[str],
) -> None:
    """Put what was typed to its parameter."""
    match = _TYPED.fullmatch(text)
    if match is None:
        problems.append(f"{shorten(text, _SHOWN)!r} is no argument; write NAME=VALUE")
    elif match[1] in method.withheld:
        problems.append(f"{match[1]} is a value of the program, which cannot be typed")
    elif match[1] not in known:
        problems.append(f"there is no parameter {match[1]}{meant(match[1], list(known))}")
    else:
        try:
            loaded = _loaded(match[3], is_json=match[2] == ":=")
        except OSError as error:
            given[match[1]] = []
            problems.append(f"{match[1]}: {error.filename} cannot be read: {error.strerror}")
        else:
            given.setdefault(match[1], []).append(loaded)


def _loaded(text: str, *, is_json: bool) -> _Given:
    """A value with the content of the file that it names, without the newline at its end."""
    if text == "-":
        return _Given(sys.stdin.read().removesuffix("\n"), is_json)
    if text.startswith("@@"):
        return _Given(text[1:], is_json)
    if not text.startswith("@"):
        return _Given(text, is_json)
    path = Path(text[1:]).expanduser()
    try:
        return _Given(path.read_text("utf-8").removesuffix("\n"), is_json, path)
    except UnicodeDecodeError:  # an image, say
        return _Given("", is_json, path, is_text=False)


def _value(argument: Argument, given: list[_Given]) -> Any:
    """The value of one parameter. Raises OutputParsingError when there is none, and ValueError."""
    forms = [_forms(argument, one) for one in given]
    as_text, as_json = forms[0]
    if _is_list_of(argument, given):
        as_text, as_json = (f"[{', '.join(items)}]" for items in zip(*forms, strict=True))
    try:
        return argument.codec.read(as_text)
    except OutputParsingError as error:
        if as_json == as_text or not _is_json(as_json):
            raise
        return _read_json(argument, as_json, error)


def _is_list_of(argument: Argument, given: list[_Given]) -> bool:
    """Whether what was given are the items of a list, and not the value itself."""
    schema, one = argument.codec.schema, given[0]
    types = {part.get("type") for part in (schema, *schema.get("anyOf", ()))}
    if len(given) > 1 and not argument.many and "array" not in types:
        raise ValueError(f"it is given {len(given)} times, and takes one value")
    if len(given) > 1 or (argument.many and not one.is_json):
        return True
    whole = one.is_json or "string" in types or one.text.lstrip().startswith("[")
    return "array" in types and not whole


def _read_json(argument: Argument, text: str, error: OutputParsingError) -> Any:
    try:
        return argument.codec.read(text)
    except OutputParsingError as other:
        raise other from error


def _forms(argument: Argument, given: _Given) -> tuple[str, str]:
    """A value as the JSON of a text, and as the JSON that it may be itself."""
    if argument.role is Role.MEDIA and not given.is_json:
        record = _media(given)
        return record, record
    if not given.is_text:
        raise ValueError(f"{given.path} is no text in UTF-8")
    if given.is_json:
        if not _is_json(given.text):
            raise ValueError(f"what follows := must be JSON, found {shorten(given.text, _SHOWN)!r}")
        return given.text, given.text
    quoted = json.dumps(given.text, ensure_ascii=False)
    if argument.role is Role.USER_MESSAGE and "string" not in json.dumps(argument.codec.schema.get("type")):
        return f'{{"text": {quoted}}}', given.text
    return quoted, given.text


def _media(given: _Given) -> str:
    """An image, sound or file as the JSON that stands for it."""
    if given.path is not None:
        media = File.from_path(given.path)
        return json.dumps({"data": media.base64, "media_type": media.media_type, "name": media.name})
    if not given.text.startswith(("http://", "https://", "data:")):
        raise ValueError(f"write @PATH of a file or its URL, found {shorten(given.text, _SHOWN)!r}")
    known = File.from_url(given.text)
    return json.dumps({"url": given.text, "media_type": known.media_type, "name": known.name})


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _told(argument: Argument, given: Sequence[_Given], error: ValueError) -> str:
    if not isinstance(error, OutputParsingError):
        return f"{argument.name}: {error}"
    problems = [
        f"{part.path}: {part.message}{f', found {part.found}' if part.found else ''}"
        for part in parts_of(error, argument.name)
    ]
    kinds = json.dumps(argument.codec.schema)
    wanted = ('"object"' in kinds or '"array"' in kinds) and not all(_is_json(one.text) for one in given)
    hint = "; write it as JSON" if wanted else ""
    return "; ".join(problems) + hint


def _kind(argument: Argument) -> str:
    return "@PATH or URL" if argument.role is Role.MEDIA else argument.codec.name


def _missing(method: Method, given: Mapping[str, Any]) -> list[str]:
    problems = [
        f"{one.name} is missing: {one.name}=… ({_kind(one)})"
        for one in method.arguments
        if one.required and one.name not in given
    ]
    parameters = method.signature.parameters
    withheld = [name for name in method.withheld if parameters[name].default is parameters[name].empty]
    return problems + [f"{name} is a value of the program, which cannot be typed" for name in withheld]


def for_people(value: Any, codec: Codec[Any], *, indent: int | None = 2) -> str:
    """A value as a prompt would show it; records and lists as JSON over several lines, or in one.

    Raises ValueError when it cannot be written.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    text = codec.write(value)
    return _indented(text, indent) if text.startswith(("{", "[")) else render_value(value)


def _indented(text: str, indent: int | None) -> str:
    """JSON laid out for reading, with each number as it was written."""
    mark = os.urandom(8).hex()
    numbers: list[str] = []

    def kept(number: str) -> str:
        numbers.append(number)
        return f"{mark}:{len(numbers) - 1}"

    laid_out = json.dumps(json.loads(text, parse_float=kept), indent=indent, ensure_ascii=False)
    for at, number in enumerate(numbers):
        laid_out = laid_out.replace(f'"{mark}:{at}"', number, 1)
    return laid_out


def account_of(result: Result[Any]) -> dict[str, Any]:
    """The account of a call as JSON holds it."""
    plain = Result(
        result.reply.text,
        result.reply,
        result.strategy,
        result.coercions,
        result.attempts,
        result.seconds,
        result.reasons,
        result.tool_runs,
        result.sources,
    )
    account: dict[str, Any] = json.loads(write_result(plain, codec_for(str, DEFAULT_REGISTRY)))["account"]
    return account


def account_text(account: dict[str, Any]) -> str:
    """The account of a call in lines: how it was asked, each request, what was read with leniency, tools."""
    lines = [f"strategy: {account['strategy']} ({'; '.join(account['reasons'])})"]
    for number, attempt in enumerate(account["attempts"], 1):
        ended = f", {attempt['error']}" if attempt["error"] else ""
        lines.append(
            f"attempt {number}: {attempt['model']}, {attempt['seconds']:.2f} s, "
            f"{_tokens(attempt['usage'])}{ended}"
        )
    for step in account["coercions"]:
        changed = f": {step['before']} → {step['after']}" if step["before"] or step["after"] else ""
        lines.append(f"coercion: {step['path']}: {step['rule']}{changed}")
    lines += [
        f"tool: {run['name']}({run['arguments']}) → {run['text']}, {run['seconds']:.2f} s"
        for run in account["tool_runs"]
    ]
    lines.append(f"in all: {account['seconds']:.2f} s, {_tokens(account['usage'])}")
    return "\n".join(lines)


def _tokens(usage: dict[str, int] | None) -> str:
    return "tokens unknown" if usage is None else f"{usage['input_tokens']} + {usage['output_tokens']} tokens"


_NOWHERE = "https://placeholder.invalid"


class _Placeholder:
    """Stands for a value of any type: what a template asks of it is a placeholder again."""

    unsafe_callable = alters_data = False  # jinja2's sandbox asks before it calls

    def __init__(self, name: str, shown: str = "") -> None:
        self._name = name
        self._shown = shown or f"{{{{{name}}}}}"

    def __str__(self) -> str:
        return self._shown

    def __call__(self, *args: object) -> _Placeholder:
        return _Placeholder(f"{self._name}({', '.join(map(repr, args))})")

    def __getattr__(self, name: str) -> _Placeholder:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Placeholder(f"{self._name}.{name}")

    def __getitem__(self, key: Any) -> _Placeholder:
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


_MEDIA: dict[Any, type[Image | Audio | File]] = {
    Image: _ImagePlaceholder,
    Audio: _AudioPlaceholder,
    File: _FilePlaceholder,
}


def placeholders_for(
    plan: MethodPlan, given: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """The arguments of a call that shows its prompt, and whether there is a placeholder among them.

    Those ``given`` are taken, and those left out that have a default.
    """
    parameters = {parameter.name: parameter for parameter in plan.parameters}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    stands_for_something = False
    for name, said in plan.signature.parameters.items():
        if said.kind is said.VAR_KEYWORD:
            continue
        if name in given:
            value = given[name]
        elif said.default is not inspect.Parameter.empty:
            value = said.default
        else:
            stands_for_something = True
            value = _stand_in(parameters[name])
            value = [value] if said.kind is said.VAR_POSITIONAL else value
        if said.kind is said.VAR_POSITIONAL:
            args += value
        elif said.kind is said.KEYWORD_ONLY:
            kwargs[name] = value
        else:
            args.append(value)
    return tuple(args), kwargs, stands_for_something


def _stand_in(parameter: Parameter) -> Any:
    name, written = parameter.name, f"{{{{{parameter.name}}}}}"
    match parameter.role:
        case Role.HISTORY:
            return (UserMessage(written),)
        case Role.USER_MESSAGE if str not in parameter.types:
            return UserMessage(written)
        case Role.OPTIONS | Role.TOOL_CONTEXT:
            return None
        case Role.USER_MESSAGE | Role.USER_NAME | Role.MEMORY_ID:
            return written
        case Role.MEDIA:
            kind = next((_MEDIA[one] for one in parameter.types if one in _MEDIA), None)
            one = (kind or _ImagePlaceholder)(None, None, _NOWHERE, name)
            return one if kind else [one]
    return _of_record(parameter) or _Placeholder(name)


def _of_record(parameter: Parameter) -> _Placeholder | None:
    """For a structured prompt, its template with placeholders for its fields."""
    for cls in parameter.types:
        prompt = record_prompt(cls) if isinstance(cls, type) else None
        if prompt is not None:
            fields = {name: _Placeholder(f"{parameter.name}.{name}") for name in field_names(cls)}
            return _Placeholder(parameter.name, prompt.render(fields, cls.__name__))
    return None
