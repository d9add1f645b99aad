"""A chat model that answers with made-up values, and made-up arguments for the methods of a service."""

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
from ..service.methods import plan_of
from .serialization import canonical_json, request_to_json
from .values import Choices, SeededChoices, json_value_for, value_and_text_for, value_for

_CAPABILITIES = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True)


class FakeChatModel(ScriptedChatModel):
    """A chat model that answers each request with a made-up, valid value of the expected type.

    The answer goes through the whole pipeline: it is written as the strategy asks for it and parsed by the
    service. A request gets the same answer for the same ``seed`` in every process and in any order. The model
    records its ``requests``.

    Arguments:
        seed: Selects the made-up values.
        values: For a return type, the value to answer with instead of a made-up one.
        calls: The names of the tools to call before answering, one call each, in this order; "all" calls all
            tools of the request. Their arguments are made up.
        draw: ``st.data().draw`` of Hypothesis, which then chooses the values.
        capabilities: What the model supports, which selects the strategy.
        name: The name of the model.

    A call raises LookupError if no valid value is found, or if a tool of ``calls`` is not in the request. A
    request without a parser is answered by its JSON schema.
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
        choices = self._choices(request)
        call = self._next_call(request, choices)
        if call is not None:
            return self._chat_reply(request, AiMessage("", (call,)))
        text = self._text(request, choices)
        tool = _output_tool(request)
        if tool is None:
            return self._chat_reply(request, AiMessage(text))
        return self._chat_reply(request, AiMessage("", (ToolCall(_call_id(request), tool.name, text),)))

    def _choices(self, request: ChatRequest) -> Choices:
        if self._draw is None:
            return SeededChoices(f"{self._seed}:{canonical_json(request_to_json(request))}")
        try:
            from .hypothesis_values import HypothesisChoices
        except ModuleNotFoundError as error:
            if error.name != "hypothesis":
                raise
            message = 'FakeChatModel(draw=…) needs hypothesis: pip install "aiservices[testing]"'
            raise ImportError(message) from error
        return HypothesisChoices(self._draw)

    def _next_call(self, request: ChatRequest, choices: Choices) -> ToolCall | None:
        """Return the next made-up tool call of the fake model, or None if it made enough tool calls."""
        output_tool = _output_tool(request)
        offered = {} if request.tooling is None else {tool.name: tool for tool in request.tooling.tools}
        wanted = [name for name in offered if output_tool is None or name != output_tool.name]
        if self._calls != "all":
            wanted = list(self._calls) if offered else []
        # A tool of the list that already has a result in the messages is done. The list may repeat a name.
        called = [message.name for message in request.messages if isinstance(message, ToolMessage)]
        for name in wanted:
            if name in called:
                called.remove(name)
                continue
            if name not in offered:
                raise LookupError(
                    f"{self.name} should call the tool {name}, which the request does not offer; "
                    f"it offers {', '.join(offered)}"
                )
            arguments = json_value_for(offered[name].parameters, choices)
            return ToolCall(_call_id(request), name, dump_json(arguments))
        return None

    def _text(self, request: ChatRequest, choices: Choices) -> str:
        parser = request.parser
        if parser is not None:
            value = _given_value(self._values, parser)
            return value_and_text_for(parser, choices).text if value is None else parser.write(value)
        schema = _schema_of(request)
        if self._values and schema is not None:
            raise LookupError(
                f"{self.name} has values by type, but the request does not say which type its answer has; "
                "code that builds a new request must keep its parser"
            )
        return choices.text(1, None) if schema is None else dump_json(json_value_for(schema, choices))

    def _chat_reply(self, request: ChatRequest, message: AiMessage) -> ChatReply:
        # One token per word: tests of budgets and prices need counts that depend on the texts.
        input_tokens = sum(len(sent.text.split()) for sent in request.messages)
        written_texts = (message.text, *(call.arguments for call in message.tool_calls))
        output_tokens = sum(len(text.split()) for text in written_texts)
        finish = FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP
        return ChatReply(message, finish, Usage(input_tokens, output_tokens), self.name)


def _given_value(values: Mapping[Any, object], parser: TypeParser[Any]) -> Any:
    try:
        return values.get(parser.target.type)
    except TypeError:  # an unhashable type cannot be a key of the mapping
        return None


def _output_tool(request: ChatRequest) -> ToolSpecification | None:
    """Return the tool with which a model gives its final answer, or None if the answer is plain text."""
    tooling = request.tooling
    if tooling is None or request.response_format is not None or tooling.choice == "auto":
        return None
    if tooling.choice == "required":  # the output tool comes after all others
        return tooling.tools[-1]
    return next(tool for tool in tooling.tools if tool.name == tooling.choice)


def _schema_of(request: ChatRequest) -> Mapping[str, Any] | None:
    response_format = request.response_format
    if isinstance(response_format, JsonSchemaFormat):
        return response_format.schema
    if isinstance(response_format, JsonObjectFormat):
        return {"type": "object"}
    tool = _output_tool(request)
    return None if tool is None else tool.parameters


def _call_id(request: ChatRequest) -> str:
    return f"call_{len(request.messages)}"


_SAMPLES_BY_ROLE: dict[Role, object] = {Role.HISTORY: (), Role.TOOL_CONTEXT: None, Role.OPTIONS: None}


def sample_arguments(method: object) -> dict[str, Any]:
    """Return made-up arguments for the parameters of a service method that have no default.

    A text parameter gets ``<name>``, another one a value of its type. Raises TypeError for a parameter whose
    type is unknown or unsupported.
    """
    plan = plan_of(method)
    required = {
        name
        for name, parameter in plan.prompt.signature.parameters.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    }
    # The plan has only the roles of parameters; values need their full types.
    hints = _type_hints(method)
    return {
        p.name: _sample(p, hints, plan.call.qualname) for p in plan.prompt.parameters if p.name in required
    }


def _type_hints(method: Any) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.unwrap(method), include_extras=True)
    except NameError:  # an annotation names a local of a function that has returned
        return {}


def _sample(parameter: Parameter, hints: dict[str, Any], qualname: str) -> Any:
    name, role = parameter.name, parameter.role
    if role in _SAMPLES_BY_ROLE:
        return _SAMPLES_BY_ROLE[role]
    if role is Role.USER_MESSAGE:
        return UserMessage(f"<{name}>")
    if role in (Role.MEMORY_ID, Role.USER_NAME) or str in parameter.types:
        return f"<{name}>"
    try:
        if role is Role.MEDIA or name not in hints:
            raise UnsupportedTypeError(name, "", [], "")
        parser = parser_for(hints[name])
        typed = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)
        return value_for(typed, SeededChoices(name))
    except (UnsupportedTypeError, LookupError) as error:
        method = qualname.rpartition(".")[2]
        raise TypeError(
            f"{qualname}: no argument can be made up for {name}; give the arguments: "
            f"golden(service, {method}={{{name!r}: …}})"
        ) from error
