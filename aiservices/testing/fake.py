"""A chat model that answers every request with a made-up value of the right type."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_type_hints

from output_parsers import UnsupportedTypeError, parser_for
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.reading import dump_json

from ..interface.parameters import Parameter, Role
from ..models.base import Capabilities
from ..models.messages import AiMessage, ChatReply, FinishReason, ToolCall, ToolMessage, Usage, UserMessage
from ..models.requests import ChatRequest, JsonObjectFormat, JsonSchemaFormat, ToolSpecification
from ..models.scripted import ScriptedChatModel
from ..service.create import plan_of
from .serialization import request_to_json, shown
from .values import Dice, Source, json_for, value_of, written_by

_CAPABILITIES = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True)


class FakeChatModel(ScriptedChatModel):
    """Answers with a valid value of whatever type a method has, and keeps the ``requests`` that it was sent.

    The same request gets the same answer for the same ``seed``, in every process and in any order. ``values``
    gives for a return type the value to answer with, where one that is made up will not do. ``calls`` names
    the tools to call before answering, each once and one after the other; "all" stands for all that are
    offered. Their arguments are made up too. With ``draw``, that of ``hypothesis.strategies.data()``,
    Hypothesis chooses the values.

    The text goes the whole way: it is written as the strategy asks for it, and read by the service. Raises
    LookupError when no value is found that the type accepts, or a tool of ``calls`` is not offered; a request
    that does not tell of its type is answered by its schema.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        values: Mapping[Any, Any] | None = None,
        calls: Sequence[str] | Literal["all"] = (),
        draw: Callable[..., Any] | None = None,
        capabilities: Capabilities = _CAPABILITIES,
        name: str = "fake",
    ) -> None:
        super().__init__(self._reply, capabilities=capabilities, name=name)
        self._seed = seed
        self._values = dict(values or {})
        self._calls = calls
        self._draw = draw

    def _reply(self, request: ChatRequest) -> ChatReply:
        source = self._source(request)
        call = self._next_call(request, source)
        if call is not None:
            return self._told(request, AiMessage("", (call,)))
        text = self._text(request, source)
        tool = _answer_tool(request)
        if tool is None:
            return self._told(request, AiMessage(text))
        return self._told(request, AiMessage("", (ToolCall(_id(request), tool.name, text),)))

    def _source(self, request: ChatRequest) -> Source:
        if self._draw is None:
            return Dice(f"{self._seed}:{shown(request_to_json(request))}")
        try:
            from .hypothesis_values import Drawn
        except ModuleNotFoundError as error:
            if error.name != "hypothesis":
                raise
            said = 'FakeChatModel(draw=…) needs hypothesis: pip install "aiservices[testing]"'
            raise ImportError(said) from error
        return Drawn(self._draw)

    def _next_call(self, request: ChatRequest, source: Source) -> ToolCall | None:
        """The call of a tool that is still to be made; None when it is time for the answer."""
        answer = _answer_tool(request)
        offered = {} if request.tooling is None else {tool.name: tool for tool in request.tooling.tools}
        wanted = [name for name in offered if answer is None or name != answer.name]
        if self._calls != "all":
            wanted = list(self._calls) if offered else []
        called = [said.name for said in request.messages if isinstance(said, ToolMessage)]
        for name in wanted:
            if name in called:
                called.remove(name)
                continue
            if name not in offered:
                raise LookupError(f"{self.name} is to call the tool {name}; offered are {', '.join(offered)}")
            return ToolCall(_id(request), name, dump_json(json_for(offered[name].parameters, source)))
        return None

    def _text(self, request: ChatRequest, source: Source) -> str:
        parser = request.parser
        if parser is not None:
            known = _known(self._values, parser)
            return written_by(parser, source).text if known is None else parser.write(known)
        schema = _schema_of(request)
        if self._values and schema is not None:
            raise LookupError(
                f"{self.name} has values by type, and the request does not tell of which type its answer is; "
                "a transform that makes requests anew is to keep their parser"
            )
        return source.text(1, None) if schema is None else dump_json(json_for(schema, source))

    def _told(self, request: ChatRequest, message: AiMessage) -> ChatReply:
        asked = sum(len(said.text.split()) for said in request.messages)
        answered = sum(
            len(text.split()) for text in (message.text, *(c.arguments for c in message.tool_calls))
        )
        finish = FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP
        return ChatReply(message, finish, Usage(asked, answered), self.name)


def _known(values: Mapping[Any, Any], parser: TypeParser[Any]) -> Any:
    try:
        return values.get(parser.target.form)
    except TypeError:  # a type that cannot be a key
        return None


def _answer_tool(request: ChatRequest) -> ToolSpecification | None:
    """The tool whose arguments are the answer; None where it is not given so."""
    tooling = request.tooling
    if tooling is None or request.response_format is not None or tooling.choice == "auto":
        return None
    if tooling.choice == "required":  # the one that gives the answer stands behind all others
        return tooling.tools[-1]
    return next(tool for tool in tooling.tools if tool.name == tooling.choice)


def _schema_of(request: ChatRequest) -> Mapping[str, Any] | None:
    form = request.response_format
    if isinstance(form, JsonSchemaFormat):
        return form.schema
    if isinstance(form, JsonObjectFormat):
        return {"type": "object"}
    tool = _answer_tool(request)
    return None if tool is None else tool.parameters


def _id(request: ChatRequest) -> str:
    return f"call_{len(request.messages)}"


_OF_ROLES: dict[Role, Any] = {Role.HISTORY: (), Role.TOOL_CONTEXT: None, Role.OPTIONS: None}


def samples_for(method: Any) -> dict[str, Any]:
    """An argument for each parameter without a default: ``<name>`` for text, else a value of its type.

    Raises TypeError, with what to do, for a parameter whose type is not known well enough.
    """
    plan = plan_of(method)
    needed = {
        name
        for name, parameter in plan.signature.parameters.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    }
    hints = _hints(method)
    return {p.name: _sample(p, hints, plan.where) for p in plan.parameters if p.name in needed}


def _hints(method: Any) -> dict[str, Any]:
    stub = inspect.unwrap(method)
    try:
        return get_type_hints(stub, include_extras=True)
    except NameError:  # a name of the function around it, which is known no more
        return {}


def _sample(parameter: Parameter, hints: dict[str, Any], where: str) -> Any:
    name, role = parameter.name, parameter.role
    if role in _OF_ROLES:
        return _OF_ROLES[role]
    if role is Role.USER_MESSAGE:
        return UserMessage(f"<{name}>")
    if role in (Role.MEMORY_ID, Role.USER_NAME) or str in parameter.types:
        return f"<{name}>"
    try:
        if role is Role.MEDIA or name not in hints:
            raise UnsupportedTypeError(name, "", [], "")
        parser = parser_for(hints[name])
        return value_of(parser if isinstance(parser, TypeParser) else TypeParser.around(parser), Dice(name))
    except (UnsupportedTypeError, LookupError) as error:
        method = where.rpartition(".")[2]
        raise TypeError(
            f"{where}: nothing is known to pass for {name}; give the arguments: "
            f"golden(service, {method}={{{name!r}: …}})"
        ) from error
