"""Parsers that read a model's tool calls as typed values, compatible with LangChain.

They read the calls that a model made through its API, complete or while they are streamed, and also calls
that a model without tool support wrote as text.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from typing import (
    Any,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    cast,
    overload,
)

from .json.calls import call_of
from .json.scanner import read_tolerant
from .parser.reply_reader import calls_in_reply
from .parser.type_parser import TypeParser, parser_for
from .result.errors import OutputParsingError, Problem
from .result.reading import (
    Coercion,
    Json,
    JsonObject,
    JsonSyntaxError,
    Leniency,
    Reading,
    ValidationFailure,
    describe_value,
    dump_json,
)
from .streaming.reader import PartialReader
from .text.simple import TextReply, reply_text
from .types.target import Target

__all__ = [
    "JsonOutputKeyToolsParser",
    "JsonOutputToolsParser",
    "ParsedToolCall",
    "PydanticToolsParser",
    "ToolCallLike",
]


R_co = TypeVar("R_co", covariant=True)


class ToolCallLike(Protocol):
    """Protocol for tool calls with an id, a name and arguments as JSON text."""

    @property
    def id(self) -> str | None:
        """The id of the tool call, to which the tool's result refers."""
        ...

    @property
    def name(self) -> str:
        """The name of the tool that the model calls."""
        ...

    @property
    def arguments(self) -> str:
        """The arguments of the tool call as JSON text, exactly as the model wrote them."""
        ...


class SdkToolCall(Protocol):
    """Protocol for OpenAI SDK tool calls, whose name and arguments are in ``function``."""

    @property
    def id(self) -> str | None:
        """The id of the tool call, to which the tool's result refers."""
        ...

    @property
    def function(self) -> object:
        """The object that contains the name and the arguments of a tool call."""
        ...


class MessageWithCalls(Protocol):
    """Protocol for model messages that may have tool calls, such as ``aiservices.AiMessage``."""

    @property
    def tool_calls(self) -> Sequence[object] | None:
        """The tool calls of the message."""
        ...


class ReplyWithCalls(Protocol):
    """Protocol for replies whose message may have tool calls, such as ``aiservices.ChatReply``."""

    @property
    def message(self) -> MessageWithCalls:
        """The message of the reply, which may have tool calls."""
        ...


ToolCallsInput: TypeAlias = (
    Iterable[ToolCallLike | SdkToolCall | Mapping[str, Any]] | MessageWithCalls | ReplyWithCalls
)


@dataclass(frozen=True)
class AnyToolCall:
    """A tool call that a model wrote as text, with any tool name and any arguments.

    Attributes:
        name: The name of the tool.
        arguments: The arguments of the call.
        id: The id of the call, if the model wrote one.
    """

    name: str
    arguments: JsonObject
    id: str | None = None


@dataclass(frozen=True, init=False)
class ToolCallsParser(ABC, Generic[R_co]):
    """Base class of the parsers that convert a model's tool calls to Python values.

    ``parse_calls`` and ``read_calls`` parse calls that a model made through its API. ``parse`` parses calls
    that a model without tool support wrote as text, so that these parsers are OutputParsers too.

    Attributes:
        first_tool_only: True to return only the first call, or None if there are no calls. Otherwise the
            value is a list of all calls.
    """

    first_tool_only: bool
    _parsers: Mapping[str, TypeParser[object]] = field(repr=False, compare=False)
    _others: TypeParser[object] | None = field(repr=False, compare=False)
    _written: TypeParser[object] = field(repr=False, compare=False)
    _written_or_one: TypeParser[Any] = field(repr=False, compare=False)

    def _set(
        self,
        output_type: object,
        parsers: Mapping[str, TypeParser[object]],
        others: TypeParser[object] | None,
        **options: object,
    ) -> None:
        """Set the parser for the arguments of each tool.

        ``output_type`` is the type of a call that is written as text. ``others`` is the parser for tools that
        are not in ``parsers``; None makes their calls an error.
        """
        # The prompt asks for an array, but a single call without an array is accepted too.
        several = cast(Any, list)[output_type]
        written = {
            "_written": parser_for(several),
            "_written_or_one": parser_for(cast(Any, Union)[several, output_type]),
        }
        for name, value in {"_parsers": parsers, "_others": others, **written, **options}.items():
            object.__setattr__(self, name, value)

    @property
    def schema(self) -> Mapping[str, Json] | None:
        """The JSON Schema of tool calls written as text: an array of objects with name and arguments."""
        return self._written.schema

    def format_instructions(self) -> str:
        """Return prompt instructions for models without tool support, to write tool calls as text."""
        return self._written.format_instructions()

    def parse(self, text: str | TextReply) -> R_co:
        """Parse tool calls that a model wrote as text: one JSON object with name and arguments, or an array.

        If ``text`` is a reply object with tool calls, these calls are parsed, otherwise its text.

        Raises OutputParsingError if the calls do not fit, and TypeError for an object without text.
        """
        if not isinstance(text, str) and _calls_of_message(text):
            return self.parse_calls(cast(MessageWithCalls, text))
        text = reply_text(text, self)
        try:
            one_or_more = self._written_or_one.parse(text)
        except OutputParsingError as error:
            self._check_names(text, error)
            written = self._written_calls(text)
            if not written:
                raise
            return self.parse_calls(written)
        every = one_or_more if isinstance(one_or_more, list) else [one_or_more]
        calls = [call for call in every if self._wants(call.name)]
        return self._result([self._call_value(call.name, call.id, call.arguments) for call in calls])

    @staticmethod
    def _written_calls(text: str) -> list[Mapping[str, Any]]:
        """Return the calls in a text in the format of a model family; [] if it has none."""
        try:
            written = calls_in_reply(text)
        except ValidationFailure as failure:
            raise OutputParsingError(text, failure.problems) from failure
        if written is None or written.text[: written.start].strip() or written.text[written.end :].strip():
            return []
        calls = list(filter(None, map(call_of, written.calls)))
        texts = [one if isinstance(one := call.arguments, str) else dump_json(one) for call in calls]
        return [{"name": call.name, "arguments": text} for call, text in zip(calls, texts, strict=True)]

    def _check_names(self, text: str, error: OutputParsingError) -> None:
        """Raise an error that lists the unknown tool names, if they are the reason why parsing failed."""
        if self._others is not None:  # any tool is allowed
            return
        # Parsed again without the types of the tools, to see if the names of the tools are the problem.
        try:
            one_or_more = parser_for(cast(Any, list[AnyToolCall] | AnyToolCall)).parse(text)
        except OutputParsingError:
            return
        calls = one_or_more if isinstance(one_or_more, list) else [one_or_more]
        problems = [
            self._unknown_tool(call.name, index)
            for index, call in enumerate(calls)
            if call.name not in self._parsers
        ]
        if problems:
            raise OutputParsingError(text, problems) from error

    def _unknown_tool(self, name: str, index: int) -> Problem:
        message = f"unknown tool; the tools are: {', '.join(self._parsers)}"
        return Problem(f"$[{index}].name", message, describe_value(name))

    def parse_calls(self, calls: ToolCallsInput, *, partial: bool = False) -> R_co:
        """Parse the tool calls in a model's API response, and return them as typed values.

        ``calls`` are the tool calls of this library, of the OpenAI SDK (Chat Completions or Responses), or of
        LangChain, as objects or dicts. A message or a reply with such calls may be passed instead.

        With ``partial`` a call may be incomplete, because the model is still writing it. Plain arguments are
        then returned as far as they are certain: strings grow, and other values appear when they are
        complete. A call that becomes a value of a type is omitted until it is complete.

        Raises OutputParsingError if a call does not fit. The text of the error contains the calls; the path
        of a problem is ``$[index].name`` or ``$[index].arguments…``. Raises TypeError for other objects.
        """
        return self.read_calls(calls, partial=partial).value

    def read_calls(
        self, calls: ToolCallsInput, *, partial: bool = False, leniency: Leniency = Leniency.SAFE
    ) -> Reading[R_co]:
        """Parse the tool calls in a model's API response; return typed values with the conversions made."""
        every = tool_calls_of(calls)
        selected = [(index, call) for index, call in enumerate(every) if self._wants(call.name)]
        values: list[object] = []
        coercions: list[Coercion] = []
        failures: list[ValidationFailure] = []
        # Problems of all calls are collected, so that a repair prompt can name them at once.
        for index, call in selected[:1] if self.first_tool_only else selected:
            if partial and not _is_complete(call.arguments):
                # Plain arguments may be incomplete, but a value of a type needs all of its fields.
                if self._others is not None:
                    certain = _certain_arguments(self._others, call.arguments, leniency)
                    values.append(self._call_value(call.name, call.id, certain))
                continue
            try:
                reading = self._read_call(call, index, leniency)
            except ValidationFailure as error:
                failures.append(error)
            else:
                values.append(self._call_value(call.name, call.id, reading.value))
                coercions += reading.coercions
        if failures:
            text = "\n".join(f"{call.name}({call.arguments})" for call in every)
            problems = [problem for error in failures for problem in error.problems]
            raise OutputParsingError(text, problems) from failures[0]
        return Reading(self._result(values), tuple(coercions))

    def _read_call(self, call: PlainToolCall, index: int, leniency: Leniency) -> Reading[object]:
        parser = self._parsers.get(call.name, self._others)
        if parser is None:
            raise ValidationFailure(self._unknown_tool(call.name, index))
        path = f"$[{index}].arguments"  # the paths of the parser begin at the arguments
        try:
            reading = parser.read(_arguments_or_empty(call.arguments), leniency)
        except OutputParsingError as error:
            raise ValidationFailure(*(replace(p, path=path + p.path[1:]) for p in error.problems)) from error
        coercions = [coercion._replace(path=path + coercion.path[1:]) for coercion in reading.coercions]
        return Reading(reading.value, tuple(coercions))

    def _wants(self, name: str) -> bool:
        """Return True if this parser handles calls of the tool with the given name."""
        return True

    @abstractmethod
    def _call_value(self, name: str, id: str | None, args: object) -> object:
        """Convert a tool call to the value that the parser returns."""

    def _result(self, values: list[object]) -> R_co:
        first = values[0] if values else None
        return cast(R_co, first if self.first_tool_only else values)


class PlainToolCall(NamedTuple):
    """The id, name and arguments of a tool call, independent of the library that made the object.

    Attributes:
        id: The id of the call, if there is one.
        name: The name of the tool.
        arguments: The JSON text of the arguments.
    """

    id: str | None
    name: str
    arguments: str


_CALL_FORMS = "pass tool calls of aiservices, of the OpenAI SDK or of LangChain, or a message that has them"


def tool_calls_of(calls: ToolCallsInput) -> list[PlainToolCall]:
    """Convert tool calls of any supported library, such as OpenAI's SDK, to PlainToolCall objects.

    Raises TypeError for objects that are not tool calls.
    """
    of_message = _calls_of_message(calls)
    items = calls if of_message is None else of_message
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise TypeError(f"got {type(items).__name__}; {_CALL_FORMS}")
    return [_plain_call(call, index) for index, call in enumerate(items)]


def _calls_of_message(message: object) -> Sequence[object] | None:
    """Return the tool calls of a message or reply, or None for an object that is neither."""
    inner = _member(message, "message") or message
    if isinstance(inner, Mapping):
        is_message = "tool_calls" in inner or "role" in inner
    else:
        is_message = hasattr(inner, "tool_calls")
    return (_member(inner, "tool_calls") or ()) if is_message else None


def _plain_call(call: object, index: int) -> PlainToolCall:
    # Chat Completions has the name and the arguments in a function. LangChain calls the arguments args, and
    # Anthropic input. The Responses API also has an id of the item, which is not the id of the call.
    function = _member(call, "function") or call
    id, name = _member(call, "call_id") or _member(call, "id"), _member(function, "name")
    arguments = [value for key in _ARGUMENTS if (value := _member(function, key)) is not None]
    if not isinstance(name, str) or not isinstance(id, (str, type(None))) or len(arguments) > 1:
        raise TypeError(f"call {index + 1} is {type(call).__name__} without a name or an id; {_CALL_FORMS}")
    text = arguments[0] if arguments else ""
    return PlainToolCall(id, name, text if isinstance(text, str) else json.dumps(text, ensure_ascii=False))


_ARGUMENTS = ("arguments", "args", "input")


def _member(owner: object, key: str) -> Any:
    return owner.get(key) if isinstance(owner, Mapping) else getattr(owner, key, None)


def call_type(name: object, arguments: object) -> type:
    """Create a dataclass for tool calls that a model wrote as text: ``name``, ``arguments`` and ``id``."""
    fields: list[tuple[str, object] | tuple[str, object, object]] = [
        ("name", name),
        ("arguments", arguments),
        ("id", str | None, None),
    ]
    return make_dataclass("ToolCall", fields, frozen=True)


def _arguments_or_empty(arguments: str) -> str:
    """Return a tool call's JSON arguments, or ``"{}"`` if they are empty or null."""
    # Models write "" or null for tools without parameters.
    return "{}" if arguments.strip() in ("", "null") else arguments


def _is_complete(arguments: str) -> bool:
    """Return True if the arguments of a tool call are a complete JSON object."""
    # The cheap check comes first, because this runs for each chunk of a stream.
    text = arguments.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return False
    try:
        return read_tolerant(text).end == len(text)
    except JsonSyntaxError:
        return False


def _certain_arguments(parser: TypeParser[object], arguments: str, leniency: Leniency) -> dict[str, object]:
    """Parse the part of a streamed tool call's arguments that later chunks cannot change."""
    reader: PartialReader[object] = PartialReader(parser, leniency=leniency)
    reader.feed(arguments)
    arguments_so_far = reader.snapshot().to_python()
    return arguments_so_far if isinstance(arguments_so_far, dict) else {}


T = TypeVar("T")
Args: TypeAlias = JsonObject


class ParsedToolCall(TypedDict):
    """A tool call as a dict with the keys that LangChain uses.

    Attributes:
        type: The name of the tool.
        args: The arguments.
        id: The id of the call. The key exists only with ``return_id``.
    """

    type: str
    args: Args
    id: NotRequired[str | None]


@dataclass(frozen=True, init=False)
class PydanticToolsParser(ToolCallsParser[R_co]):
    """Parses tool calls to typed values, like LangChain's PydanticToolsParser.

    >>> class Add(BaseModel):
    ...     a: int
    >>> PydanticToolsParser(tools=[Add]).parse_calls([ToolCall("call_1", "Add", '{"a": "1"}')])
    [Add(a=1)]

    A tool is a pydantic model, a dataclass, a TypedDict or another type that is written as an object. Its
    name is the title in the model's configuration, or the name of the type. A call of another tool is an
    error. With ``partial``, an incomplete call is omitted, because its type has no value for it yet.

    Raises ValueError if there are no tools or two tools with the same name, and UnsupportedTypeError if no
    parser can read a tool.

    Attributes:
        tools: The types.
        first_tool_only: True to return only the first call, or None if there are no calls. Other
            calls are not parsed then.
    """

    tools: tuple[object, ...]

    @overload
    def __init__(
        self: PydanticToolsParser[list[T]], tools: Sequence[type[T]], first_tool_only: Literal[False] = False
    ) -> None: ...
    @overload
    def __init__(
        self: PydanticToolsParser[T | None], tools: Sequence[type[T]], first_tool_only: Literal[True]
    ) -> None: ...
    def __init__(self, tools: Sequence[type[object]], first_tool_only: bool = False) -> None:
        if not tools:
            raise ValueError("PydanticToolsParser needs at least one tool")
        parsers = {_tool_name(tool): parser_for(tool) for tool in tools}
        if len(parsers) < len(tools):
            raise ValueError(f"two tools have the same name: {', '.join(map(_tool_name, tools))}")
        # The name is a Literal, so that it is the tag by which the union finds the right type.
        call_types = [call_type(cast(Any, Literal)[_tool_name(tool)], tool) for tool in tools]
        output_type = cast(Any, Union)[tuple(call_types)]
        self._set(output_type, parsers, None, tools=tuple(tools), first_tool_only=first_tool_only)

    def _call_value(self, name: str, id: str | None, args: object) -> object:
        return args


@dataclass(frozen=True, init=False)
class JsonOutputToolsParser(ToolCallsParser[R_co]):
    """Parses tool calls to dicts, like LangChain's JsonOutputToolsParser.

    >>> parser = JsonOutputToolsParser()
    >>> parser.parse_calls([ToolCall("call_1", "add", '{"a": 1}')])
    [{'type': 'add', 'args': {'a': 1}}]

    With ``partial``, the arguments of a call grow while the model writes them:

    >>> parser.parse_calls([ToolCall("call_1", "say", '{"to": "Ann", "text": "Good mor')], partial=True)
    [{'type': 'say', 'args': {'to': 'Ann', 'text': 'Good mor'}}]

    Attributes:
        first_tool_only: True if the value is the first call, or None if there are no calls. Other calls are
            not parsed then.
        return_id: True if each dict also has the ``"id"`` of the call.
    """

    return_id: bool

    @overload
    def __init__(
        self: JsonOutputToolsParser[list[ParsedToolCall]],
        first_tool_only: Literal[False] = False,
        return_id: bool = False,
    ) -> None: ...
    @overload
    def __init__(
        self: JsonOutputToolsParser[ParsedToolCall | None],
        first_tool_only: Literal[True],
        return_id: bool = False,
    ) -> None: ...
    def __init__(self, first_tool_only: bool = False, return_id: bool = False) -> None:
        self._set(AnyToolCall, {}, parser_for(Args), first_tool_only=first_tool_only, return_id=return_id)

    def _call_value(self, name: str, id: str | None, args: object) -> object:
        return {"type": name, "args": args, "id": id} if self.return_id else {"type": name, "args": args}


@dataclass(frozen=True, init=False)
class JsonOutputKeyToolsParser(ToolCallsParser[R_co]):
    """Parses the arguments of one tool's calls, like LangChain's JsonOutputKeyToolsParser.

    >>> JsonOutputKeyToolsParser("add").parse_calls([ToolCall("call_1", "add", '{"a": 1}')])
    [{'a': 1}]

    Calls of other tools are not read. With ``partial``, the arguments of a call grow while the model writes
    them.

    Attributes:
        key_name: The name of the tool.
        first_tool_only: True to return only the first call, or None if there are no calls.
        return_id: True if the values are dicts with type, args and id. Otherwise they are the arguments.
    """

    key_name: str
    return_id: bool

    @overload
    def __init__(
        self: JsonOutputKeyToolsParser[list[Args]],
        key_name: str,
        first_tool_only: Literal[False] = False,
        return_id: Literal[False] = False,
    ) -> None: ...
    @overload
    def __init__(
        self: JsonOutputKeyToolsParser[Args | None],
        key_name: str,
        first_tool_only: Literal[True],
        return_id: Literal[False] = False,
    ) -> None: ...
    @overload
    def __init__(
        self: JsonOutputKeyToolsParser[list[ParsedToolCall]],
        key_name: str,
        first_tool_only: Literal[False] = False,
        *,
        return_id: Literal[True],
    ) -> None: ...
    @overload
    def __init__(
        self: JsonOutputKeyToolsParser[ParsedToolCall | None],
        key_name: str,
        first_tool_only: Literal[True],
        return_id: Literal[True],
    ) -> None: ...
    def __init__(self, key_name: str, first_tool_only: bool = False, return_id: bool = False) -> None:
        options = {"key_name": key_name, "first_tool_only": first_tool_only, "return_id": return_id}
        self._set(AnyToolCall, {}, parser_for(Args), **options)

    def _wants(self, name: str) -> bool:
        return name == self.key_name

    def _call_value(self, name: str, id: str | None, args: object) -> object:
        return {"type": name, "args": args, "id": id} if self.return_id else args


def _tool_name(tool: object) -> str:
    title = getattr(tool, "model_config", {}).get("title")
    return title if isinstance(title, str) else Target.of(tool).name
