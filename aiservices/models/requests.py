"""Requests to chat models, with their messages, options, answer format and tools.

Everything that users may pass as messages is converted here: strings, pairs, and OpenAI or LangChain message
dicts.
"""

from __future__ import annotations

import binascii
import json
import time
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from functools import partial
from hashlib import blake2b
from threading import Lock
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from .arguments import checks_keywords
from .errors import BadRequestError, DefinitionError, DefinitionProblem
from .media import Audio, File, Image, Media
from .messages import (
    AiMessage,
    ChatReply,
    Distribution,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    message_to_dict,
)

if TYPE_CHECKING:
    from output_parsers.parser.type_parser import TypeParser
    from output_parsers.result.reading import Json, JsonObject, Verifier


# A decision endpoint gets a text and a list of questions, and returns a probability for each possible answer.


class AnswerOption(NamedTuple):
    """One possible answer to a question for a decision endpoint.

    Attributes:
        value: The answer as a JSON value: a string, a number, a boolean or null.
        description: What the answer means, for the model; "" if the value says it.
    """

    value: Json
    description: str = ""


class Question(NamedTuple):
    """A question with a fixed set of possible answers.

    Attributes:
        path: The JSON path of the answer in the typed value, such as ``"$.team"``.
        keys: The object keys that lead to the answer; empty if the answer is the whole value.
        kind: "yes_no", "choice" (one of several options) or "scale" (levels from low to high).
        text: The question.
        options: The possible answers. Those of a yes/no question are false and true.
        member: For a list of options with one yes/no question each: the option of this
            question; None for other questions.
    """

    path: str
    keys: tuple[str, ...]
    kind: Literal["yes_no", "choice", "scale"]
    text: str
    options: tuple[AnswerOption, ...]
    member: str | None = None


@dataclass(frozen=True, eq=False)
class DecisionFormat:
    """The response format of a chat request whose answers must be chosen from fixed options.

    Attributes:
        questions: The questions about the messages of the request.
        task: The question of the prompt, which is not part of the last message; "" without one.
    """

    questions: tuple[Question, ...]
    task: str = ""


def decision_reply(
    questions: Sequence[Question],
    answers: Sequence[Sequence[float] | None],
    *,
    usage: Usage | None = None,
    model: str = "",
    id: str = "",
    raw: bytes | None = None,
) -> ChatReply:
    """Create a reply from the probabilities of the answers.

    Its text is JSON with the most likely answers.

    ``answers`` contains, for each question, the probabilities of its options in order, or None if the model
    refused the question. If null is not an option of a refused question, the whole reply is a refusal.
    """
    value: object = None
    refused: list[str] = []
    distributions: dict[str, Distribution] = {}
    for question, probabilities in zip(questions, answers, strict=True):
        answer: object = None
        if probabilities is not None:
            total = sum(probabilities)
            shares = [probability / total for probability in probabilities]
            options = [option.value for option in question.options]
            distributions[question.path] = tuple(zip(options, shares, strict=True))
            answer = options[shares.index(max(shares))]
        elif all(option.value is not None for option in question.options):
            refused.append(question.path)
        value = _with_answer(value, question, answer)
    refusal = f"the model refused to answer {', '.join(refused)}" if refused else None
    message = AiMessage(json.dumps(value, ensure_ascii=False))
    return ChatReply(
        message, usage=usage, model=model, id=id, refusal=refusal, raw=raw, probabilities=distributions
    )


def _with_answer(value: Json, question: Question, answer: Json) -> Json:
    """Store the answer to a question inside a JSON value, and return the changed JSON value."""
    if question.member is not None:
        place = value
        for key in question.keys:
            place = place.get(key) if isinstance(place, Mapping) else None
        members = place if isinstance(place, list) else []
        answer = [*members, question.member] if answer else members
    if not question.keys:
        return answer
    whole: JsonObject = {} if value is None else value
    place = whole
    for key in question.keys[:-1]:
        place = place.setdefault(key, {})
    place[question.keys[-1]] = answer
    return whole


ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


@checks_keywords
@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of a request to a chat model, such as its temperature and timeout.

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
        cache: How long the provider should keep the beginning of the request in its prompt cache; None for
            its default.
        server_tools: Tools that the provider runs, such as a web search, as the provider documents them.
        service_tier: The tier of the provider that handles the request, as the provider documents it.
        tool_choice: Whether the model must call a tool in the first round of a call: "auto" (the model
            decides), "required", "none", or the name of the tool. In later rounds the model decides. It is an
            option of services, methods and calls; a ChatRequest has a Tooling instead.
        probabilities: True to request the probabilities of each bool, Enum and Literal in the answer, which
            are in ``Result.probabilities``. They are always requested for a Decision.
        raw_events: True to get the events of streams as the provider sent them, in ``ReplyDelta.raw``.
        unknown_finish: "raise" for a TruncatedError if a reply of text ends for a reason that the API is not
            known to have. By default a note in ``Result.reasons`` says so. For other return types it is
            always an error.
        timeout: The seconds for connecting, and for the whole reply; for a stream, for each wait.
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
    reasoning_effort: ReasoningEffort | None = None
    cache: Literal["5m", "1h"] | None = None
    server_tools: tuple[Mapping[str, object], ...] | None = None
    service_tier: str | None = None
    tool_choice: str | None = None
    probabilities: bool | None = None
    raw_events: bool | None = None
    unknown_finish: Literal["note", "raise"] | None = None
    timeout: float | None = None
    extra_body: Mapping[str, object] | None = None
    extra_headers: Mapping[str, str] | None = None

    def with_defaults(self, defaults: ChatOptions | None) -> ChatOptions:
        """Return options in which each unset option has its value from ``defaults``."""
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
        """Return an error description for each invalid option, such as a temperature of 3.

        ``location`` says where the options are set.
        """
        problems = []
        for name, (is_valid, expected) in _OPTION_CHECKS.items():
            value = getattr(self, name)
            if value is not None and not is_valid(value):
                # Each character of a stop text would be a stop text of its own.
                advice = f", as in ({value!r},)" if name == "stop" and isinstance(value, str) else ""
                message = f"{name} is {value!r}; it must be {expected}{advice}"
                problems.append(DefinitionProblem(location, message))
        return problems


def check_model_options(options: ChatOptions) -> None:
    """Raise BadRequestError if ``tool_choice`` is set in options that are passed directly to a model."""
    if options.tool_choice is not None:
        raise BadRequestError(
            "tool_choice is an option of services, methods and calls; pass Tooling(tools, choice) in the "
            "request of a model"
        )


def _is_sequence_of(value: object, cls: type) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return False
    return all(isinstance(item, cls) for item in value)


def _in_range(value: object, low: float, high: float) -> bool:
    # Written so that nan, which compares false with everything, is out of range too.
    return isinstance(value, (int, float)) and low <= value <= high


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _is_count(value: object) -> bool:
    return isinstance(value, int) and _is_positive(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_dict(value: object) -> bool:
    return isinstance(value, Mapping)


def _choice_of(*allowed: str) -> tuple[Callable[[object], bool], str]:
    return lambda value: value in allowed, f"one of {', '.join(allowed)}"


# For each option: whether a value is valid, and what it must be.
_OPTION_CHECKS: dict[str, tuple[Callable[[object], bool], str]] = {
    "temperature": (partial(_in_range, low=0, high=2), "from 0 to 2"),
    "top_p": (partial(_in_range, low=0, high=1), "from 0 to 1"),
    "max_tokens": (_is_count, "an integer greater than 0"),
    "timeout": (_is_positive, "greater than 0"),
    "probabilities": (_is_bool, "True or False"),
    "raw_events": (_is_bool, "True or False"),
    "stop": (partial(_is_sequence_of, cls=str), "a tuple of texts"),
    "model": (_is_text, "a text"),
    "service_tier": (_is_text, "a text"),
    "tool_choice": (_is_text, "a text"),
    "seed": (lambda value: isinstance(value, int) and not isinstance(value, bool), "an integer"),
    "extra_body": (_is_dict, "a dict"),
    "extra_headers": (_is_dict, "a dict"),
    "reasoning_effort": _choice_of(*get_args(ReasoningEffort)),
    "cache": _choice_of("5m", "1h"),
    "unknown_finish": _choice_of("note", "raise"),
    "server_tools": (partial(_is_sequence_of, cls=Mapping), "a tuple of dicts"),
}


# eq=False here and below: a schema is a large dictionary without a hash, so objects are compared by identity.
@dataclass(frozen=True, eq=False)
class JsonSchemaFormat:
    """A response format that asks the chat model for JSON matching a JSON Schema.

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
    """A response format that asks the chat model for any JSON object ("JSON mode")."""


@dataclass(frozen=True, eq=False)
class ImageFormat:
    """A response format that asks the chat model for images, returned in ``AiMessage.contents``."""


ResponseFormat: TypeAlias = JsonSchemaFormat | JsonObjectFormat | ImageFormat | DecisionFormat


@dataclass(frozen=True, eq=False)
class ToolSpecification:
    """The name, description and parameters of a tool, as they are sent to the model.

    Attributes:
        name: The name by which the model calls the tool.
        description: What the tool does and when to use it.
        parameters: The JSON Schema of the arguments, which describes an object.
        strict: True if the provider should enforce the schema.
        metadata: Further fields of the tool in the request, as the provider documents them.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    _: KW_ONLY
    strict: bool = False
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Tooling:
    """The tools that a model may call, and settings such as whether the model must call a tool.

    Attributes:
        tools: The tools that the model may call.
        choice: "auto" (the model decides), "required" (it must call some tool), "none" (it must not call
            any), or the name of the tool that it must call.
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


class WaitingTime:
    """The time that the requests of a call have waited for their turn; a context manager around each wait.

    Waits at the same time count once. It is safe for threads.

    Args:
        outer: The waiting time of the call to which the request belongs, or of an outer call; it is measured,
            too.
    """

    def __init__(self, outer: WaitingTime | None = None) -> None:
        self._outer = outer
        self._lock = Lock()
        self._waiting, self._since, self._total = 0, 0.0, 0.0

    @property
    def seconds(self) -> float:
        """The seconds so far, including a wait that has not ended."""
        with self._lock:
            return self._total + (time.monotonic() - self._since if self._waiting else 0.0)

    def __enter__(self) -> None:
        if self._outer is not None:
            self._outer.__enter__()
        with self._lock:
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._waiting -= 1
            if not self._waiting:
                self._total += time.monotonic() - self._since
        if self._outer is not None:
            self._outer.__exit__()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request to a chat model: messages, options, answer format and tools.

    ``ChatRequest.of`` creates a request from strings and dicts.

    Attributes:
        messages: The conversation; the model answers its last message.
        options: The options. A model adds its own for those that are not set.
        response_format: The format of the answer; if None, the answer is free text.
        tooling: The tools that the model may call; None if there are none.
        deadline: When the answer must be complete, in the time of ``time.monotonic()``; it comes from the
            budget of the call. None if there is no deadline.
        logprobs: The number of most likely tokens that the reply should list for each of its tokens; 0 for a
            reply without log probabilities.
        parser: The parser that will read the answer, if it is known. A fake model in a test uses it to write
            an answer that the parser accepts.
        qualname: The service method, as ``"Service.method"``, for fake models; "" without one.
        sources: The texts that the quotes of the answer must come from, for fake models; None if it has no
            quotes.
        refused_options: The options that the model has refused in this call, each with the values that it
            accepts instead, if any. A model leaves them out, and remembers them if that succeeds.
        repeats: An id that a request shares with its repetitions after a lost reply, for models that send an
            idempotency key; "" for other models.
        waiting: Measures how long the request waits for its turn, which is not time of the call and moves the
            deadline; None if nothing limits the time.
    """

    messages: tuple[Message, ...]
    options: ChatOptions = ChatOptions()
    response_format: ResponseFormat | None = None
    tooling: Tooling | None = None
    deadline: float | None = None
    logprobs: int = 0
    # Excluded from comparison: requests with equal contents are equal, whichever parser reads the answer.
    parser: TypeParser[object] | None = field(default=None, compare=False, repr=False)
    qualname: str = field(default="", compare=False, repr=False)
    sources: Verifier | None = field(default=None, compare=False, repr=False)
    refused_options: Mapping[str, tuple[str, ...]] | None = field(default=None, compare=False, repr=False)
    repeats: str = field(default="", compare=False, repr=False)
    waiting: WaitingTime | None = field(default=None, compare=False, repr=False)

    def plus(self, *messages: Message) -> ChatRequest:
        """Return a copy of the chat request with additional messages at the end."""
        return replace(self, messages=self.messages + messages)

    def __post_init__(self) -> None:
        # An object of another type would be left out of the request, or fail in the middle of a call.
        if not isinstance(
            self.response_format,
            (JsonSchemaFormat, JsonObjectFormat, ImageFormat, DecisionFormat, NoneType),
        ):
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
        response_format: ResponseFormat | Mapping[str, object] | None = None,
        tooling: Tooling | Sequence[ToolSpecification | Mapping[str, object]] | None = None,
        deadline: float | None = None,
        parser: TypeParser[object] | None = None,
    ) -> ChatRequest:
        """Create a chat request from a string, message objects, or dicts in OpenAI's API format.

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
        return ChatRequest(request_messages, options, answer_format, tools, deadline, parser=parser)


_FORMATS = "a JsonSchemaFormat or a JsonObjectFormat"


def _to_tooling(tooling: object) -> Tooling:
    """Convert a list of tool descriptions, such as dicts in OpenAI's format, to a Tooling object.

    Raises ValueError for an invalid description.
    """
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
    """Convert a dict in OpenAI's response format to an object such as JsonSchemaFormat.

    Raises ValueError for an invalid format.
    """
    if isinstance(response_format, (JsonObjectFormat, ImageFormat)):
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


# A text is a user message; a pair or a dict has a role and a content.
MessageInput: TypeAlias = str | Message | Sequence[Message | tuple[str, str] | Mapping[str, object]]
_FORMS = "a message, a pair of role and text, or a dict with role and content"


def to_messages(value: MessageInput, location: str, problems: list[DefinitionProblem]) -> tuple[Message, ...]:
    """Convert a string or a list of messages to Message objects; add errors to ``problems``."""
    if isinstance(value, str):
        return (UserMessage(value),)
    if isinstance(value, Message):
        return (value,)
    messages = list_to_messages(value, location, problems)
    if not messages and not problems:
        problems.append(DefinitionProblem(location, "the input is empty; pass at least one message"))
    return messages


def list_to_messages(
    value: Iterable[object], location: str, problems: list[DefinitionProblem]
) -> tuple[Message, ...]:
    """Convert dicts and ``(role, text)`` pairs to Message objects; add errors to ``problems``."""
    # Strings, bytes and mappings can be iterated over, but their items are not messages.
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        expected = f"pass a text, a message, or a list in which each item is {_FORMS}"
        problems.append(DefinitionProblem(location, f"the input is {type(value).__name__}; {expected}"))
        return ()
    messages: list[Message] = []
    tool_names: dict[str, str] = {}  # by the id of the call, because the dict of a result has only the id
    for number, item in enumerate(value, 1):
        try:
            message = _to_message(item, tool_names)
        except (ValueError, TypeError) as error:
            problems.append(DefinitionProblem(f"{location}, message {number}", str(error)))
            continue
        messages.append(message)
        if isinstance(message, AiMessage):
            tool_names |= {call.id: call.name for call in message.tool_calls}
    return tuple(messages)


def _to_message(item: object, tool_names: Mapping[str, str]) -> Message:
    """Convert a dict or a ``(role, text)`` pair to a chat message, or raise ValueError."""
    if isinstance(item, Message):
        return item
    fields: Mapping[str, object]
    if isinstance(item, Mapping):
        fields = item
    elif isinstance(item, (tuple, list)) and len(item) == 2:
        fields = {"role": item[0], "content": item[1]}
    else:
        raise ValueError(f"it is {type(item).__name__}; it must be {_FORMS}")
    role = fields.get("role", fields.get("type"))  # LangChain writes the role as the type
    read = _READERS.get(role) if isinstance(role, str) else None
    if read is None:
        raise ValueError(f"the role {role!r} is unknown; use one of: {', '.join(_READERS)}")
    return read(fields, tool_names)


def _read_system(fields: Mapping[str, object], _: Mapping[str, str]) -> Message:
    return SystemMessage(_text(fields.get("content")))


def _read_user(fields: Mapping[str, object], _: Mapping[str, str]) -> Message:
    parts, name = _parts(fields.get("content")), fields.get("name")
    if not isinstance(name, (str, type(None))):
        raise ValueError(f"its name is {type(name).__name__}; it must be text")
    text = "".join(part for part in parts if isinstance(part, str))
    return UserMessage(text, name, tuple(parts) if len(parts) > 1 or parts[:1] != [text] else ())


def _read_assistant(fields: Mapping[str, object], _: Mapping[str, str]) -> Message:
    if fields.get("function_call") is not None:
        raise ValueError("function_call is the older form of a tool call; write it in tool_calls")
    calls, content = fields.get("tool_calls"), fields.get("content")
    if content is None:
        content = fields.get("refusal") or ("" if calls else None)
    return AiMessage(_text(content), _tool_calls(calls) if calls else ())


def _read_tool(fields: Mapping[str, object], tool_names: Mapping[str, str]) -> Message:
    call_id = fields.get("tool_call_id")
    if not isinstance(call_id, str):
        raise ValueError("a result of a tool needs the tool_call_id of its call")
    name = fields.get("name") or tool_names.get(call_id)
    if not isinstance(name, str):
        raise ValueError(f"no message before it has the tool call {call_id!r}; add that message, or a name")
    return ToolMessage(call_id, name, _text(fields.get("content")))


_READERS: dict[str, Callable[[Mapping[str, object], Mapping[str, str]], Message]] = {
    # "developer" is the name in newer APIs of OpenAI, "human" and "ai" are the names in LangChain.
    "system": _read_system,
    "developer": _read_system,
    "user": _read_user,
    "human": _read_user,
    "assistant": _read_assistant,
    "ai": _read_assistant,
    "tool": _read_tool,
}


def _tool_calls(calls: Json) -> tuple[ToolCall, ...]:
    from output_parsers.tool_calls import tool_calls_of

    return tuple(ToolCall(call.id or "", call.name, call.arguments) for call in tool_calls_of(calls))


# --- Contents of messages ---


def _text(content: object) -> str:
    """Return a message's content as one string, or raise ValueError if it contains media."""
    parts = _parts(content)
    media = [part for part in parts if not isinstance(part, str)]
    if media:
        raise ValueError(f"its content has {media[0].kind}; only messages of users may have media")
    return "".join(map(str, parts))


def _parts(content: object) -> list[str | Media]:
    """Convert a message's content to a list of strings and media; adjacent strings become one string."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, (list, tuple)):
        kind = type(content).__name__
        raise ValueError(f"its content is {kind}; it must be text or a list of parts")
    if not content:
        raise ValueError("its content is an empty list; it must have at least one part")
    parts: list[str | Media] = []
    for number, item in enumerate(content, 1):
        try:
            part = _part(item)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"part {number} of its content: {reason}") from error
        if parts and isinstance(part, str) and isinstance(parts[-1], str):
            parts[-1] += f"\n{part}"
        else:
            parts.append(part)
    return parts


_MEDIA: dict[str, type[Media]] = {"image": Image, "audio": Audio, "file": File}


def _langchain_media(media: type[Image | Audio | File], part: Mapping[str, Json]) -> Media:
    if "url" in part:
        return media.from_url(part["url"], part.get("mime_type"))
    data = part["base64"] if "base64" in part else part["data"]
    return media.from_bytes(_decode(data), part.get("mime_type"), name=part.get("filename"))


def _part(part: Json) -> str | Media:
    """Convert a part of a message's content, such as ``{"type": "text", …}``, to a string or media."""
    if isinstance(part, (str, Image, Audio, File)):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    match kind:
        case "text" | "input_text" | "output_text" | "refusal":
            text = part["refusal" if kind == "refusal" else "text"]
            if not isinstance(text, str):
                raise ValueError(f"its text is {type(text).__name__}; it must be text")
            return text
        case "image_url" | "input_image":
            # In Chat Completions the address is in an object; in the Responses API it is the value itself.
            image = part["image_url"]
            options = image if isinstance(image, Mapping) else {**part, "url": image}
            detail, url_image = options.get("detail"), Image.from_url(options["url"])
            return url_image if detail is None else url_image.with_detail(detail)
        case "input_audio":
            audio = part["input_audio"]
            return Audio.from_bytes(_decode(audio["data"]), f"audio/{audio['format']}")
        case "file" if isinstance(part.get("file"), Mapping):
            return _file(part["file"])
        case "input_file":
            return File.from_url(part["file_url"]) if "file_url" in part else _file(part)
        case "image" | "audio" | "file" if {"url", "base64", "data"} & part.keys():  # of LangChain
            return _langchain_media(_MEDIA[kind], part)
    raise ValueError(f"{kind!r} is not a known type; use text, image_url, input_audio or file")


def _file(fields: Mapping[str, Json]) -> File:
    """Convert a file dict in OpenAI's message format to a File object."""
    if "file_data" not in fields:
        raise ValueError("it has no file_data; files that were uploaded before cannot be used")
    data, name = fields["file_data"], fields.get("filename")
    file = File.from_url(data) if data.startswith("data:") else File.from_bytes(_decode(data), name=name)
    return File(file.data, file.media_type, file.url, name)


def _decode(data: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError(f"its data is not base64: {error}") from error


# --- The hash of a request ---

_NOT_HASHED = (
    "raw_events",
    "unknown_finish",
    "timeout",
    "extra_headers",
)  # they do not change the reply, or contain credentials
_MAX_REMEMBERED = 256
# The digests of options, formats and tools, by the identity of the object, which is kept alive here.
_digests: OrderedDict[int, tuple[object, bytes]] = OrderedDict()
_lock = Lock()


def request_hash(model: str, address: str, request: ChatRequest) -> str:
    """Return a 32-digit hexadecimal hash of everything that determines the reply to a chat request.

    ``model`` is the name of the model, and ``address`` its server. The timeout, the deadline and HTTP
    headers are not part of the hash.
    """
    hashed = blake2b(digest_size=16)
    for text in (model, address):
        _add(hashed, text.encode())
    for part in (request.options, request.response_format, request.tooling):
        hashed.update(_digest(part))
    hashed.update(request.logprobs.to_bytes(4))
    for message in request.messages:
        if type(message) is UserMessage and not (message.contents or message.name or message.other):
            hashed.update(b"u")
            _add(hashed, message.text.encode("utf-8", "surrogatepass"))
        else:
            hashed.update(b"m")
            _add(hashed, _json(message_to_dict(message)))
    return hashed.hexdigest()


def _add(hashed: blake2b, data: bytes) -> None:
    hashed.update(len(data).to_bytes(8))  # with the length, so that ("ab", "c") and ("a", "bc") differ
    hashed.update(data)


def _digest(part: object) -> bytes:
    """Return the hash of a request's options, response format or tools, and cache the hash."""
    cached = _digests.get(id(part))
    if cached is not None and cached[0] is part:
        return cached[1]
    digest = blake2b(_json(_plain(part)), digest_size=16).digest()
    with _lock:
        _digests[id(part)] = (part, digest)
        if len(_digests) > _MAX_REMEMBERED:
            _digests.popitem(last=False)
    return digest


def _plain(part: object) -> object:
    match part:
        case None:
            return None
        case ChatOptions():
            names = [field.name for field in fields(part) if field.name not in _NOT_HASHED]
            values = {name: getattr(part, name) for name in names}
            return ["options", {name: value for name, value in values.items() if value is not None}]
        case JsonSchemaFormat():
            return ["schema", part.name, part.schema, part.strict]
        case DecisionFormat():
            return ["questions", part.task, [question._asdict() for question in part.questions]]
        case Tooling():
            return ["tools", part.choice, part.parallel_calls, [asdict(tool) for tool in part.tools]]
        case _:
            return [type(part).__name__]


def _json(data: object) -> bytes:
    return json.dumps(data, sort_keys=True, default=repr).encode()
