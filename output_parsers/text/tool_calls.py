"""What the parsers of tool calls share: which calls are read, how, and where in them a fault is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from typing import (
    Any,
    Generic,
    Literal,
    NotRequired,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    cast,
    overload,
)

from ..json.reader import read_tolerant
from ..json.result import JsonSyntaxError
from ..parser.registry import parser_for
from ..parser.type_parser import TypeParser
from ..result.errors import OutputParsingError, Problem
from ..result.reading import Coercion, Leniency, Reading, ValidationFailure, describe_value
from ..streaming.reader import PartialReader
from ..types.target import Target

R_co = TypeVar("R_co", covariant=True)


class ToolCallLike(Protocol):
    """A model's wish to have a tool run; ``arguments`` is the JSON text as the model wrote it."""

    @property
    def id(self) -> str | None: ...
    @property
    def name(self) -> str: ...
    @property
    def arguments(self) -> str: ...


@dataclass(frozen=True)
class AnyToolCall:
    """A call of any tool that is written as text."""

    name: str
    arguments: dict[str, Any]
    id: str | None = None


@dataclass(frozen=True, init=False)
class ToolCallsParser(ABC, Generic[R_co]):
    """A parser of tool calls; as an OutputParser it reads calls that a model without tools wrote as text."""

    first_tool_only: bool
    _parsers: Mapping[str, TypeParser[Any]] = field(repr=False, compare=False)
    _others: TypeParser[Any] | None = field(repr=False, compare=False)
    _written: TypeParser[Any] = field(repr=False, compare=False)
    _written_or_one: TypeParser[Any] = field(repr=False, compare=False)

    def _set(
        self,
        output_type: Any,
        parsers: Mapping[str, TypeParser[Any]],
        others: TypeParser[Any] | None,
        **options: Any,
    ) -> None:
        """Fix the form of a written call, and the parsers of arguments: by tool, and of all other tools."""
        several = cast(Any, list)[output_type]
        written = {
            "_written": parser_for(several),
            "_written_or_one": parser_for(cast(Any, Union)[several, output_type]),
        }
        for name, value in {"_parsers": parsers, "_others": others, **written, **options}.items():
            object.__setattr__(self, name, value)

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of tool calls written as text: an array of objects with name and arguments."""
        return self._written.schema

    def format_instructions(self) -> str:
        """What a prompt must say so that a model without tools of its own writes its calls as text."""
        return self._written.format_instructions()

    def parse(self, text: str) -> R_co:
        """The value of tool calls written as text: one object with name and arguments, or an array of them.

        Raises OutputParsingError, and nothing else, when the text is unfit.
        """
        try:
            found = self._written_or_one.parse(text)
        except OutputParsingError as error:
            self._blame_names(text, error)
            raise
        calls = [call for call in (found if isinstance(found, list) else [found]) if self._wants(call.name)]
        return self._result([self._shown(call.name, call.id, call.arguments) for call in calls])

    def _blame_names(self, text: str, error: OutputParsingError) -> None:
        """Raise a plainer error where the fault of a text is that it calls tools that are not there."""
        if self._others is not None:
            return
        try:
            found = parser_for(cast(Any, list[AnyToolCall] | AnyToolCall)).parse(text)
        except OutputParsingError:
            return
        calls = found if isinstance(found, list) else [found]
        unknown = [
            self._no_such_tool(call.name, index)
            for index, call in enumerate(calls)
            if call.name not in self._parsers
        ]
        if unknown:
            raise OutputParsingError(text, unknown) from error

    def _no_such_tool(self, name: str, index: int) -> Problem:
        message = f"there is no such tool; the tools are: {', '.join(self._parsers)}"
        return Problem(f"$[{index}].name", message, describe_value(name))

    def parse_calls(self, calls: Iterable[ToolCallLike], *, partial: bool = False) -> R_co:
        """The value of the calls that a model made; with ``partial`` some may still be being written.

        Of a call that is not complete, plain arguments are given as far as they have come: strings grow, all
        else appears when it is complete, and nothing is taken back. A call of a type is left out until then.

        Raises OutputParsingError, and nothing else, when a call is unfit: its text holds the calls, and the
        path of a problem is ``$[index].name`` or ``$[index].arguments…``.
        """
        return self.read_calls(calls, partial=partial).value

    def read_calls(
        self, calls: Iterable[ToolCallLike], *, partial: bool = False, leniency: Leniency = Leniency.SAFE
    ) -> Reading[R_co]:
        """As ``parse_calls``, with the steps away from the exact texts that reading took."""
        every = list(calls)
        wanted = [(index, call) for index, call in enumerate(every) if self._wants(call.name)]
        values: list[Any] = []
        ledger: list[Coercion] = []
        faults: list[ValidationFailure] = []
        for index, call in wanted[:1] if self.first_tool_only else wanted:
            if partial and not _is_complete(call.arguments):
                if self._others is not None:
                    so_far = _so_far(self._others, call.arguments, leniency)
                    values.append(self._shown(call.name, call.id, so_far))
                continue
            try:
                reading = self._read_call(call, index, leniency)
            except ValidationFailure as fault:
                faults.append(fault)
            else:
                values.append(self._shown(call.name, call.id, reading.value))
                ledger += reading.coercions
        if faults:
            text = "\n".join(f"{call.name}({call.arguments})" for call in every)
            problems = [problem for fault in faults for problem in fault.problems]
            raise OutputParsingError(text, problems) from faults[0]
        return Reading(self._result(values), tuple(ledger))

    def _read_call(self, call: ToolCallLike, index: int, leniency: Leniency) -> Reading[Any]:
        parser = self._parsers.get(call.name, self._others)
        if parser is None:
            raise ValidationFailure(self._no_such_tool(call.name, index))
        path = f"$[{index}].arguments"
        try:
            reading = parser.read(_given(call.arguments), leniency)
        except OutputParsingError as error:
            raise ValidationFailure(*(replace(p, path=path + p.path[1:]) for p in error.problems)) from error
        steps = [step._replace(path=path + step.path[1:]) for step in reading.coercions]
        return Reading(reading.value, tuple(steps))

    def _wants(self, name: str) -> bool:
        """Whether calls of this tool are read."""
        return True

    @abstractmethod
    def _shown(self, name: str, id: str | None, args: Any) -> Any:
        """What one call becomes in the value."""

    def _result(self, values: list[Any]) -> R_co:
        first = values[0] if values else None
        return cast(R_co, first if self.first_tool_only else values)


def call_type(name: Any, arguments: Any) -> type:
    """The type of a call that is written as text; ``name`` is the type of its name."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("name", name),
        ("arguments", arguments),
        ("id", cast(Any, str | None), None),
    ]
    return make_dataclass("ToolCall", fields, frozen=True)


def _given(arguments: str) -> str:
    """The arguments, or none where a call of a tool without parameters says nothing."""
    return "{}" if arguments.strip() in ("", "null") else arguments


def _is_complete(arguments: str) -> bool:
    text = arguments.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return False
    try:
        return read_tolerant(text).end == len(text)
    except JsonSyntaxError:
        return False


def _so_far(parser: TypeParser[Any], arguments: str, leniency: Leniency) -> dict[str, Any]:
    """What is certain of arguments that are still being written; none where nothing is."""
    reader: PartialReader[Any] = PartialReader(parser, leniency=leniency)
    reader.feed(arguments)
    shown = reader.snapshot().to_python()
    return shown if isinstance(shown, dict) else {}


T = TypeVar("T")
Args: TypeAlias = dict[str, Any]


class ParsedToolCall(TypedDict):
    """A tool call in LangChain's shape: the tool's name, its arguments, and the id where it was asked for."""

    type: str
    args: Args
    id: NotRequired[str | None]


@dataclass(frozen=True, init=False)
class PydanticToolsParser(ToolCallsParser[R_co]):
    """Tool calls as values of the types of the tools, as LangChain's.

    >>> class Add(BaseModel):
    ...     a: int
    >>> PydanticToolsParser(tools=[Add]).parse_calls([ToolCall("call_1", "Add", '{"a": "1"}')])
    [Add(a=1)]

    A tool is a pydantic model, a dataclass, a TypedDict or any other type that is written as an object; its
    name is the title in the model's configuration or the name of the type. A call of another tool is an
    error. ``first_tool_only``: the value of the first call, None when there is none; the others are not read.
    With ``partial`` a call that is not complete is left out, for there is no value of its type yet.

    Raises ValueError when there are no tools or two of one name, UnsupportedTypeError when nothing reads one.
    """

    tools: tuple[Any, ...]

    @overload
    def __init__(
        self: PydanticToolsParser[list[T]], tools: Sequence[type[T]], first_tool_only: Literal[False] = False
    ) -> None: ...
    @overload
    def __init__(
        self: PydanticToolsParser[T | None], tools: Sequence[type[T]], first_tool_only: Literal[True]
    ) -> None: ...
    def __init__(self, tools: Sequence[type[Any]], first_tool_only: bool = False) -> None:
        if not tools:
            raise ValueError("PydanticToolsParser needs at least one tool")
        parsers = {_tool_name(tool): parser_for(tool) for tool in tools}
        if len(parsers) < len(tools):
            raise ValueError(f"two tools have one name: {', '.join(map(_tool_name, tools))}")
        forms = [call_type(cast(Any, Literal)[_tool_name(tool)], tool) for tool in tools]
        output_type = cast(Any, Union)[tuple(forms)]
        self._set(output_type, parsers, None, tools=tuple(tools), first_tool_only=first_tool_only)

    def _shown(self, name: str, id: str | None, args: Any) -> Any:
        return args


@dataclass(frozen=True, init=False)
class JsonOutputToolsParser(ToolCallsParser[R_co]):
    """Tool calls as ``{"type": name, "args": {…}}``, with ``return_id`` also ``"id"``, as LangChain's.

    >>> parser = JsonOutputToolsParser()
    >>> parser.parse_calls([ToolCall("call_1", "add", '{"a": 1}')])
    [{'type': 'add', 'args': {'a': 1}}]

    With ``partial`` the arguments of a call grow while it is written, so each chunk of a stream shows more:

    >>> parser.parse_calls([ToolCall("call_1", "say", '{"to": "Ann", "text": "Good mor')], partial=True)
    [{'type': 'say', 'args': {'to': 'Ann', 'text': 'Good mor'}}]

    ``first_tool_only``: the first call, None when there is none; the others are not read.
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

    def _shown(self, name: str, id: str | None, args: Any) -> Any:
        return {"type": name, "args": args, "id": id} if self.return_id else {"type": name, "args": args}


@dataclass(frozen=True, init=False)
class JsonOutputKeyToolsParser(ToolCallsParser[R_co]):
    """The arguments of the calls of one tool, ``key_name``, as LangChain's; with ``return_id`` whole calls.

    >>> JsonOutputKeyToolsParser("add").parse_calls([ToolCall("call_1", "add", '{"a": 1}')])
    [{'a': 1}]

    Calls of other tools are not read. ``first_tool_only``: the first of its calls, None when there is none.
    With ``partial`` the arguments of a call grow while it is written, as with JsonOutputToolsParser.
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

    def _shown(self, name: str, id: str | None, args: Any) -> Any:
        return {"type": name, "args": args, "id": id} if self.return_id else args


def _tool_name(tool: Any) -> str:
    title = getattr(tool, "model_config", {}).get("title")
    return title if isinstance(title, str) else Target.of(tool).name
