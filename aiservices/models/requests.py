"""Requests to models: messages, options, answer format and tools.

It also converts the input of ``structured()`` to messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .errors import DefinitionProblem
from .messages import AiMessage, Message, SystemMessage, UserMessage

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


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request to a model.

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

    @staticmethod
    def of(messages: str | Sequence[Message], **settings: Any) -> ChatRequest:
        """Create a request from messages or from the text of a user message.

        ``settings`` are the other fields of the request.
        """
        if isinstance(messages, str):
            messages = (UserMessage(messages),)
        return ChatRequest(tuple(messages), **settings)


# What a caller of structured() may pass: a text is a user message; a pair or a dict has a role and a text.
MessageInput: TypeAlias = str | Message | Sequence[Message | tuple[str, str] | Mapping[str, Any]]

_ROLES: dict[str, type[SystemMessage | UserMessage | AiMessage]] = {
    # "developer" is the name in newer APIs of OpenAI, "human" and "ai" are the names in LangChain.
    "system": SystemMessage,
    "developer": SystemMessage,
    "user": UserMessage,
    "human": UserMessage,
    "assistant": AiMessage,
    "ai": AiMessage,
}
_MESSAGE_FORMS = "a message, a pair of role and text, or a dict with role and content"


def to_messages(value: MessageInput, location: str, problems: list[DefinitionProblem]) -> tuple[Message, ...]:
    """Convert the input of ``structured()`` to messages, and add a problem for each invalid item."""
    if isinstance(value, str):
        return (UserMessage(value),)
    if isinstance(value, Message):
        return (value,)
    # Bytes and mappings can be iterated over, but their items are not messages.
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        expected = f"pass a text, a message, or a list in which each item is {_MESSAGE_FORMS}"
        problems.append(DefinitionProblem(location, f"the input is {type(value).__name__}; {expected}"))
        return ()
    messages = []
    for number, item in enumerate(value, 1):
        message = _to_message(item, f"{location}, message {number}", problems)
        if message is not None:
            messages.append(message)
    if not messages and not problems:
        problems.append(DefinitionProblem(location, "the input is empty; pass at least one message"))
    return tuple(messages)


def _to_message(item: object, location: str, problems: list[DefinitionProblem]) -> Message | None:
    """Convert one item of a list to a message. Add problems and return None if it is not a message."""
    if isinstance(item, Message):
        return item
    role: object
    text: object
    if isinstance(item, Mapping):
        role, text = item.get("role"), item.get("content")
    elif isinstance(item, (tuple, list)) and len(item) == 2:
        role, text = item
    else:
        problems.append(
            DefinitionProblem(location, f"it is {type(item).__name__}; it must be {_MESSAGE_FORMS}")
        )
        return None
    cls = _ROLES.get(role) if isinstance(role, str) else None
    if cls is None:
        problems.append(
            DefinitionProblem(location, f"the role {role!r} is unknown; use one of: {', '.join(_ROLES)}")
        )
    if not isinstance(text, str):
        problems.append(DefinitionProblem(location, f"its content is {type(text).__name__}; it must be text"))
        return None
    return None if cls is None else cls(text)
