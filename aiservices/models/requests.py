"""Requests to models: messages, options, answer format and tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .errors import DefinitionError, DefinitionProblem
from .message_input import MessageInput, to_messages
from .messages import Message

if TYPE_CHECKING:
    from output_parsers.parser.type_parser import TypeParser


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of a request to a model, such as its temperature and timeout.

    Options can be set on the model, the service, the method and the call. None means that an option is not
    set at this level. For each field, the value nearest to the call is used.

    Attributes:
        model: Another model of the same provider.
        temperature: The randomness of the answer, from 0 to 2.
        top_p: The probability mass from which tokens are sampled, from 0 to 1.
        max_tokens: The largest number of tokens that the model may generate.
        stop: Texts at which the model stops generating.
        seed: The seed of the sampling, for providers that support it.
        reasoning_effort: How much a reasoning model reasons before it answers.
        timeout: The seconds to wait for the server: to connect, and for each part of the response.
        extra_body: Further fields for the body of the HTTP request, as the provider documents them. Fields
            that are set at several levels are merged by key.
        extra_headers: Further HTTP headers, merged in the same way.
    """

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    timeout: float | None = None
    extra_body: Mapping[str, Any] | None = None
    extra_headers: Mapping[str, str] | None = None

    def with_defaults(self, defaults: ChatOptions | None) -> ChatOptions:
        """Return these options, with the values of ``defaults`` for those that are not set."""
        # The usual case, without a copy: this runs in every call.
        if defaults is None or defaults == ChatOptions():
            return self
        merged: dict[str, Any] = {}
        for option in fields(self):
            value, default = getattr(self, option.name), getattr(defaults, option.name)
            if isinstance(value, Mapping) and isinstance(default, Mapping):
                merged[option.name] = {**default, **value}
            else:
                merged[option.name] = default if value is None else value
        return ChatOptions(**merged)

    def problems(self, location: str) -> list[DefinitionProblem]:
        """Return a problem for each option with an invalid value; ``location`` says where it is set."""
        problems = []
        ranges = (("temperature", 0.0, 2.0), ("top_p", 0.0, 1.0))
        for name, low, high in ranges:
            value = getattr(self, name)
            # Written so that nan, which compares false with everything, is out of range too.
            if value is not None and not (isinstance(value, (int, float)) and low <= value <= high):
                message = f"{name} is {value!r}; it must be from {low:g} to {high:g}"
                problems.append(DefinitionProblem(location, message))
        for name in ("max_tokens", "timeout"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and value > 0):
                problems.append(
                    DefinitionProblem(location, f"{name} is {value!r}; it must be greater than 0")
                )
        if isinstance(self.stop, str):
            # Without this, each of its characters would be a stop text.
            message = f"stop is {self.stop!r}; it must be a tuple of texts, as in ({self.stop!r},)"
            problems.append(DefinitionProblem(location, message))
        return problems


# eq=False here and below: a schema is a large dictionary without a hash, so objects are compared by identity.
@dataclass(frozen=True, eq=False)
class JsonSchemaFormat:
    """The response format of an answer in JSON that matches a JSON Schema.

    Attributes:
        name: A name for the schema; providers require one.
        schema: The JSON Schema.
        strict: True if the provider should enforce the schema.
    """

    name: str
    schema: Mapping[str, Any]
    _: KW_ONLY
    strict: bool = False


@dataclass(frozen=True, eq=False)
class JsonObjectFormat:
    """The response format of an answer that is any JSON object ("JSON mode")."""


ResponseFormat: TypeAlias = JsonSchemaFormat | JsonObjectFormat


@dataclass(frozen=True, eq=False)
class ToolSpecification:
    """The description of a tool for the model.

    Attributes:
        name: The name by which the model calls the tool.
        description: What the tool does and when to use it.
        parameters: The JSON Schema of the arguments, which describes an object.
        strict: True if the provider should enforce the schema.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    _: KW_ONLY
    strict: bool = False


@dataclass(frozen=True, eq=False)
class Tooling:
    """The tools that the model may call, and the rules for calling them.

    Attributes:
        tools: The tools that the model may call.
        choice: "auto" (the model decides), "required" (it must call some tool), or the name of the tool that
            it must call.
        parallel_calls: True if a reply may contain several tool calls.
    """

    tools: tuple[ToolSpecification, ...]
    choice: str = "auto"
    _: KW_ONLY
    parallel_calls: bool = True

    def __post_init__(self) -> None:
        for number, tool in enumerate(self.tools, 1):
            if not isinstance(tool, ToolSpecification):
                message = f"tool {number} is {type(tool).__name__}; pass a ToolSpecification"
                raise DefinitionError([DefinitionProblem("Tooling", message)])


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request to a model. ``ChatRequest.of`` creates it from texts and dicts.

    Attributes:
        messages: The conversation; the model answers its last message.
        options: The options. A model adds its own for those that are not set.
        response_format: The format of the answer; if None, the answer is free text.
        tooling: The tools that the model may call; None if there are none.
        deadline: When the answer must be complete, in the time of ``time.monotonic()``; it comes from the
            budget of the call. None if there is no deadline.
        parser: The parser that will read the answer, if it is known. A fake model in a test uses it to write
            an answer that the parser accepts.
    """

    messages: tuple[Message, ...]
    options: ChatOptions = ChatOptions()
    response_format: ResponseFormat | None = None
    tooling: Tooling | None = None
    deadline: float | None = None
    # Excluded from comparison: requests with equal contents are equal, whichever parser reads the answer.
    parser: TypeParser[Any] | None = field(default=None, compare=False, repr=False)

    def plus(self, *messages: Message) -> ChatRequest:
        """Return a copy of the request with messages added at the end."""
        return replace(self, messages=self.messages + messages)

    def __post_init__(self) -> None:
        # An object of another type would be left out of the request, or fail in the middle of a call.
        if not isinstance(self.response_format, (JsonSchemaFormat, JsonObjectFormat, NoneType)):
            message = f"response_format is {type(self.response_format).__name__}; pass {_FORMATS}"
        elif not isinstance(self.tooling, (Tooling, NoneType)):
            message = f"tooling is {type(self.tooling).__name__}; pass a Tooling"
        else:
            return
        message += ", or use ChatRequest.of, which also reads dicts"
        raise DefinitionError([DefinitionProblem("ChatRequest", message)])

    @staticmethod
    def of(
        messages: MessageInput,
        *,
        options: ChatOptions = ChatOptions(),
        response_format: ResponseFormat | Mapping[str, Any] | None = None,
        tooling: Tooling | Sequence[ToolSpecification | Mapping[str, Any]] | None = None,
        deadline: float | None = None,
        parser: TypeParser[Any] | None = None,
    ) -> ChatRequest:
        """Create a request from the forms that users have: texts, and the dicts of OpenAI's API.

        Args:
            messages: The text of a user message, or a list of messages, of pairs of role and text, and of the
                message dicts of OpenAI and LangChain.
            options: The options.
            response_format: The format of the answer, also as the dict that OpenAI's API takes.
            tooling: The tools, also as a list of specifications and of the dicts of OpenAI or Anthropic.
            deadline: When the answer must be complete, in the time of ``time.monotonic()``.
            parser: The parser that will read the answer.

        Raises DefinitionError with all problems of the messages, the tools and the format, such as an invalid
        JSON Schema.
        """
        problems: list[DefinitionProblem] = []
        request_messages = to_messages(messages, "ChatRequest", problems)
        tools = answer_format = None
        try:
            tools = None if tooling is None else _to_tooling(tooling)
        except (ValueError, TypeError) as error:
            problems.append(DefinitionProblem("ChatRequest, tooling", str(error)))
        try:
            answer_format = None if response_format is None else _to_response_format(response_format)
        except (ValueError, TypeError) as error:
            problems.append(DefinitionProblem("ChatRequest, response_format", str(error)))
        if problems:
            raise DefinitionError(problems)
        return ChatRequest(request_messages, options, answer_format, tools, deadline, parser)


_FORMATS = "a JsonSchemaFormat or a JsonObjectFormat"


def _to_tooling(tooling: object) -> Tooling:
    """Convert a list of tools to Tooling. Raises ValueError if one of them is not a tool."""
    if isinstance(tooling, Tooling):
        return tooling
    if not isinstance(tooling, (list, tuple)):
        raise ValueError(f"it is {type(tooling).__name__}; pass a Tooling or a list of tools")
    return Tooling(tuple(_to_tool(tool, number) for number, tool in enumerate(tooling, 1)))


def _to_tool(tool: object, number: int) -> ToolSpecification:
    if isinstance(tool, ToolSpecification):
        return tool
    if not isinstance(tool, Mapping):
        raise ValueError(f"tool {number} is {type(tool).__name__}; pass a ToolSpecification or a dict")
    from output_parsers.json_schema.parser import check_schema, named_schema

    try:
        name, description, parameters, strict = named_schema(tool)
        if not name:
            raise ValueError("it has no name")
        check_schema(parameters, name)
    except (ValueError, TypeError) as error:
        raise ValueError(f"tool {number}: {error}") from error
    return ToolSpecification(name, description or "", parameters, strict=bool(strict))


def _to_response_format(response_format: object) -> ResponseFormat | None:
    """Convert the response format of OpenAI's API. Raises ValueError for another object."""
    if isinstance(response_format, JsonObjectFormat):
        return response_format
    from output_parsers.json_schema.parser import check_schema, named_schema

    if isinstance(response_format, JsonSchemaFormat):
        check_schema(response_format.schema, response_format.name)
        return response_format
    kind = response_format.get("type") if isinstance(response_format, Mapping) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return JsonObjectFormat()
    if not isinstance(response_format, Mapping) or kind != "json_schema":
        kind = type(response_format).__name__ if kind is None else f"a dict of the type {kind!r}"
        raise ValueError(
            f"it is {kind}; pass {_FORMATS}, or a dict of the type 'json_schema', 'json_object' or 'text'"
        )
    name, _, schema, strict = named_schema(response_format)
    check_schema(schema, name)
    return JsonSchemaFormat(name, schema, strict=bool(strict))
