"""A fake chat model that answers with generated values, and generated arguments for service methods."""

from __future__ import annotations

import inspect
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_type_hints
from uuid import UUID

from output_parsers import UnsupportedTypeError, parser_for
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.reading import dump_json
from output_parsers.types.decisions import Decision, collect_decisions
from output_parsers.types.evidence import Sources
from output_parsers.types.target import type_name

from ..decisions.answers import answer_leaves
from ..interface.parameters import Parameter, Role
from ..models.arguments import checks_arguments
from ..models.base import Capabilities
from ..models.errors import DefinitionError, DefinitionProblem, require_extra
from ..models.media import Image
from ..models.messages import (
    AiMessage,
    ChatReply,
    Distribution,
    FinishReason,
    Message,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..models.requests import ChatRequest, ImageFormat, JsonObjectFormat, JsonSchemaFormat, ToolSpecification
from ..models.scripted import ScriptedChatModel
from ..service.methods import plan_of
from .cassette import canonical_json, request_to_json
from .citations import about_part, nothing_of, with_quotes, with_short_lists
from .values import Choices, SeededChoices, json_value_for, value_and_text_for, value_for

_CAPABILITIES = Capabilities(
    json_schema=True, strict_schema=True, json_mode=True, tools=True, logprobs=20, image_output=True
)
_PIXEL = Image.from_bytes(  # a PNG file
    b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
    )
)
_PROBABILITY = 0.9  # of a made-up answer


@checks_arguments
class FakeChatModel(ScriptedChatModel):
    """A fake chat model that answers each request with a generated, valid value of the expected type.

    The answer goes through the whole pipeline: it is written in the format that the strategy requests and
    parsed by the service. A request gets the same answer for the same ``seed`` in every process and in any
    order. The model records its ``requests``.

    Arguments:
        seed: Selects the made-up values.
        values: The value to answer with instead of a made-up one, by a method such as ``"Desk.ticket"`` or by
            a return type. A method takes precedence over its type.
        calls: The names of the tools to call before answering, one call each, in this order; "all" calls all
            tools of the request. Their arguments are made up.
        draw: ``st.data().draw`` of Hypothesis, which then chooses the values.
        capabilities: What the model supports, which selects the strategy.
        name: The name of the model.

    Cited values are values of the documents of the call, with their words as quotes.

    A call raises LookupError if no valid value is found, or if a tool of ``calls`` is not in the request. A
    request without a parser is answered by its JSON schema. A value that the method cannot return raises
    DefinitionError.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        values: Mapping[Any, Any] | None = None,
        calls: Sequence[str] | Literal["all"] = (),
        draw: Callable[..., object] | None = None,
        capabilities: Capabilities = _CAPABILITIES,
        name: str = "fake",
    ) -> None:
        if draw is not None:
            require_extra("hypothesis", "testing", "FakeChatModel(draw=…)")
        problems = [
            DefinitionProblem("FakeChatModel", f'values has the key {key!r}; write it as in "Desk.ticket"')
            for key in (values if isinstance(values, Mapping) else {})
            if isinstance(key, str) and "." not in key
        ]
        if not isinstance(values or {}, Mapping):
            message = f"values is {type(values).__name__}; pass a dict from methods or types to values"
            problems.append(DefinitionProblem("FakeChatModel", message))
        if calls != "all" and (isinstance(calls, str) or not isinstance(calls, Sequence)):
            message = f'calls is {calls!r}; pass a list of names of tools, or "all"'
            problems.append(DefinitionProblem("FakeChatModel", message))
        if not isinstance(capabilities, Capabilities):
            message = f"capabilities is {type(capabilities).__name__}; pass a Capabilities"
            problems.append(DefinitionProblem("FakeChatModel", message))
        if problems:
            raise DefinitionError(problems)
        super().__init__(self._reply, capabilities=capabilities, name=name)
        self._seed = seed
        self._values = dict(values or {})
        self._used: set[object] = set()
        self._calls = calls
        self._draw = draw

    @classmethod
    def named(cls, name: str) -> FakeChatModel:
        """Return the fake chat model for the model name ``"fake"``."""
        if name:
            raise LookupError(f'"fake:{name}" is not a model: write "fake", or pass FakeChatModel(…)')
        return cls()

    @property
    def unused_values(self) -> list[Any]:
        """The keys of ``values`` that no request has used yet, such as a misspelt ``"Desk.tickt"``."""
        return [key for key in self._values if key not in self._used]

    def _reply(self, request: ChatRequest) -> ChatReply:
        choices = self._choices(request)
        call = self._next_call(request, choices)
        if call is not None:
            return self._chat_reply(request, AiMessage("", (call,)))
        if isinstance(request.response_format, ImageFormat):
            return self._chat_reply(request, AiMessage("", contents=self._images(request)))
        with collect_decisions() as decisions:
            text = self._text(request, choices)
        tool = _output_tool(request)
        if tool is None:
            reply = self._chat_reply(request, AiMessage(text))
            return replace(reply, probabilities=_probabilities(request, text, decisions))
        return self._chat_reply(request, AiMessage("", (ToolCall(_call_id(request), tool.name, text),)))

    def _choices(self, request: ChatRequest) -> Choices:
        if self._draw is None:
            return SeededChoices(f"{self._seed}:{canonical_json(request_to_json(request))}")
        from .hypothesis_values import HypothesisChoices

        return HypothesisChoices(self._draw)

    def _next_call(self, request: ChatRequest, choices: Choices) -> ToolCall | None:
        """Return the fake model's next generated tool call, or None after enough tool calls."""
        output_tool = _output_tool(request)
        offered = {} if request.tooling is None else {tool.name: tool for tool in request.tooling.tools}
        names = [name for name in offered if output_tool is None or name != output_tool.name]
        if self._calls != "all":
            names = list(self._calls) if offered else []
        # A tool of the list that already has a result in the messages is done. The list may repeat a name.
        called = _called_tools(request.messages)
        for name in names:
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

    def _images(self, request: ChatRequest) -> tuple[Image, ...]:
        """Return an answer's images: those in ``values`` for the method, or a single one-pixel image."""
        value = self._values.get(request.qualname, self._values.get(Image, _PIXEL))
        images = value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(image, Image) for image in images):
            location = f"FakeChatModel(values={{{request.qualname!r}: …}})"
            raise DefinitionError([DefinitionProblem(location, "the method returns images; pass an Image")])
        return tuple(images)

    def _text(self, request: ChatRequest, choices: Choices) -> str:
        """Return an answer. Only the first part of a document has made-up values: others might differ."""
        parser, sources = request.parser, request.sources
        if not isinstance(sources, Sources) or not isinstance(sources.whole, TypeParser):
            return self._whole_text(request, choices)
        assert isinstance(parser, TypeParser), "as that of the whole answer"
        whole = replace(request, parser=sources.whole)
        has_quotes = self._key(whole) is not None and parser.has_citations
        if sources.is_continued and not has_quotes:
            return nothing_of(parser)
        text = self._whole_text(whole, choices)
        return about_part(parser, text, sources) if has_quotes else text

    def _whole_text(self, request: ChatRequest, choices: Choices) -> str:
        parser, key = request.parser, self._key(request)
        if key is not None:
            self._used.add(key)
            return self._write(self._values[key], key, parser)
        if parser is not None:
            text = value_and_text_for(parser, choices).text
            if not isinstance(request.sources, Sources):
                return text
            if request.sources.whole is not None:
                text = with_short_lists(parser, text)
            return with_quotes(parser, text, request.sources, choices)
        schema = _schema_of(request)
        if schema is not None and not all(isinstance(one, str) for one in self._values):
            raise LookupError(
                f"{self.name} has values by type, but the request does not say which type its answer has; "
                "code that builds a new request must keep its parser"
            )
        return choices.text(1, None) if schema is None else dump_json(json_value_for(schema, choices))

    def _key(self, request: ChatRequest) -> object:
        """Return the key of ``values`` (a method name or type) that fits a request, or None."""
        if request.qualname in self._values:
            return request.qualname
        try:
            has_type = request.parser is not None and request.parser.target.type in self._values
        except TypeError:  # an unhashable type cannot be a key of the mapping
            return None
        return request.parser.target.type if has_type and request.parser is not None else None

    def _write(self, value: object, key: object, parser: TypeParser[object] | None) -> str:
        """Return the text that a model would write for a value of ``values``.

        Raises DefinitionError if the value does not fit.
        """
        name = repr(key) if isinstance(key, str) else type_name(key)
        location = f"FakeChatModel(values={{{name}: …}})"
        if parser is None:
            if isinstance(value, str):
                return value
            message = f"the method returns the reply of the model; pass a text, not {type(value).__name__}"
            raise DefinitionError([DefinitionProblem(location, message)])
        try:
            return parser.write(value)
        except ValueError as error:
            raise DefinitionError([DefinitionProblem(location, str(error))]) from None

    def _chat_reply(self, request: ChatRequest, message: AiMessage) -> ChatReply:
        # One token per word: tests of budgets and prices need counts that depend on the texts.
        input_tokens = sum(len(sent.text.split()) for sent in request.messages)
        written_texts = (message.text, *(call.arguments for call in message.tool_calls))
        output_tokens = sum(len(text.split()) for text in written_texts)
        finish = FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP
        return ChatReply(message, finish, Usage(input_tokens, output_tokens), self.name)


def _probabilities(
    request: ChatRequest, text: str, decisions: Sequence[Decision[object]]
) -> dict[str, Distribution] | None:
    """Return the probabilities in configured decisions, and 0.9 for each generated answer."""
    if request.parser is None or not request.logprobs:
        return None
    # The text is written and then read again, each in the order of the decisions in the value.
    without_path = [decision for decision in decisions if not decision.path]
    by_path = dict(zip(dict.fromkeys(one.path for one in decisions if one.path), without_path, strict=False))
    distributions: dict[str, Distribution] = {}
    for leaf in answer_leaves(request.parser.node, text):
        written = text[leaf.start : leaf.end]
        rest = round(1 - _PROBABILITY, 9) / (len(leaf.options) - 1)
        shares: Mapping[object, float] = {
            value: _PROBABILITY if written in (data, dump_json(data)) else rest
            for data, value in leaf.options
        }
        decision = by_path.get(leaf.path if leaf.list_path is None else leaf.list_path)
        if decision is not None and decision.probabilities:
            shares = decision.probabilities
            if leaf.list_path is not None:
                applies = shares.get(leaf.member, 0.0)
                shares = {False: 1 - applies, True: applies}
        distributions[leaf.path] = tuple((data, shares.get(value, 0.0)) for data, value in leaf.options)
    return distributions


def _output_tool(request: ChatRequest) -> ToolSpecification | None:
    """Return the tool that gives the model's final answer, or None if the answer is text."""
    tooling = request.tooling
    if tooling is None or request.response_format is not None or tooling.choice == "auto":
        return None
    if tooling.choice == "required":  # the output tool comes after all others
        return tooling.tools[-1]
    return next(tool for tool in tooling.tools if tool.name == tooling.choice)


def _schema_of(request: ChatRequest) -> Mapping[str, object] | None:
    response_format = request.response_format
    if isinstance(response_format, JsonSchemaFormat):
        return response_format.schema
    if isinstance(response_format, JsonObjectFormat):
        return {"type": "object"}
    tool = _output_tool(request)
    return None if tool is None else tool.parameters


def _call_id(request: ChatRequest) -> str:
    return f"call_{len(request.messages)}"


_SAMPLES_BY_ROLE: dict[Role, object] = {
    Role.HISTORY: (),
    Role.TOOL_CONTEXT: None,
    Role.TOOLS: None,
    Role.OPTIONS: None,
}


def sample_arguments(method: object) -> dict[str, object]:
    """Generate arguments for a service method's parameters that have no default.

    A string parameter gets ``<name>``, and any other parameter a value of its type. Raises TypeError for a
    parameter whose type is unknown or unsupported.
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


def _type_hints(method: Any) -> dict[str, object]:
    try:
        return get_type_hints(inspect.unwrap(method), include_extras=True)
    except NameError:  # an annotation names a local of a function that has returned
        return {}


def _sample(parameter: Parameter, hints: dict[str, Any], qualname: str) -> object:
    name, role = parameter.name, parameter.role
    if role is not None and role in _SAMPLES_BY_ROLE:
        return _SAMPLES_BY_ROLE[role]
    if role is Role.USER_MESSAGE:
        return UserMessage(f"<{name}>")
    is_text_id = role is Role.MEMORY_ID and issubclass(parameter.types[0], (str, int, UUID))
    if is_text_id or role in (Role.USER_NAME, Role.CALL_ID) or str in parameter.types:
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


def _called_tools(messages: Sequence[Message]) -> list[str]:
    """Return the names of the tools with a result since the last message of the user."""
    users = [n for n, message in enumerate(messages) if isinstance(message, UserMessage)]
    recent = messages[users[-1] :] if users else messages
    return [message.name for message in recent if isinstance(message, ToolMessage)]
