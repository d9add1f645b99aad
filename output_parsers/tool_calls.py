"""Reads a model's tool calls as typed values, as LangChain's tool parsers do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, TypeVar, Union, cast, overload

from .parsing import parser_for
from .target import Target
from .text.calls import AnyCall, CallsParser, R_co, ToolCallLike, call_form

__all__ = [
    "JsonOutputKeyToolsParser",
    "JsonOutputToolsParser",
    "ParsedToolCall",
    "PydanticToolsParser",
    "ToolCallLike",
]

T = TypeVar("T")
Args: TypeAlias = dict[str, Any]


class ParsedToolCall(TypedDict):
    """A tool call in LangChain's shape: the tool's name, its arguments, and the id where it was asked for."""

    type: str
    args: Args
    id: NotRequired[str | None]


@dataclass(frozen=True, init=False)
class PydanticToolsParser(CallsParser[R_co]):
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
        forms = [call_form(cast(Any, Literal)[_tool_name(tool)], tool) for tool in tools]
        form = cast(Any, Union)[tuple(forms)]
        self._set(form, parsers, None, tools=tuple(tools), first_tool_only=first_tool_only)

    def _shown(self, name: str, id: str | None, args: Any) -> Any:
        return args


@dataclass(frozen=True, init=False)
class JsonOutputToolsParser(CallsParser[R_co]):
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
        self._set(AnyCall, {}, parser_for(Args), first_tool_only=first_tool_only, return_id=return_id)

    def _shown(self, name: str, id: str | None, args: Any) -> Any:
        return {"type": name, "args": args, "id": id} if self.return_id else {"type": name, "args": args}


@dataclass(frozen=True, init=False)
class JsonOutputKeyToolsParser(CallsParser[R_co]):
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
        self._set(AnyCall, {}, parser_for(Args), **options)

    def _wants(self, name: str) -> bool:
        return name == self.key_name

    def _shown(self, name: str, id: str | None, args: Any) -> Any:
        return {"type": name, "args": args, "id": id} if self.return_id else args


def _tool_name(tool: Any) -> str:
    title = getattr(tool, "model_config", {}).get("title")
    return title if isinstance(title, str) else Target.of(tool).name
