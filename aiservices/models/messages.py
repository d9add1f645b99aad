"""The messages and replies of a conversation with a model, and their conversion to JSON."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import crc32
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields as dataclass_fields, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias, TypeVar

from output_parsers.result.reading import Json, JsonObject

from ..guesses import explains_guesses
from .media import Audio, File, Image, Media, interleave

# Members of a stored message that this version does not know. They are stored again, so that a program with
# an older version loses nothing of what a newer one has stored.
OtherMembers: TypeAlias = tuple[tuple[str, object], ...]


class EncodedOnce:
    """Base class of messages, which keep the JSON that was last written for them.

    It is not one of their fields: it is not compared, copied or stored.

    Attributes:
        encoded: A key of what wrote it, the role, and the JSON values. Unset until a request was written.
    """

    __slots__ = ("encoded",)

    encoded: tuple[str, str, bytes]


@dataclass(frozen=True, slots=True)
class SystemMessage(EncodedOnce):
    """A system message: instructions for the model, usually at the start of a conversation.

    A service method adds at most one, at the beginning. Few-shot examples follow all system messages there.

    Attributes:
        text: The instructions.
        other: Members of a stored message that this version does not know; they are stored again.
    """

    text: str
    other: OtherMembers = field(default=(), compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class UserMessage(EncodedOnce):
    """A message from the user, which may contain images, audio and files.

    Attributes:
        text: The whole text.
        name: The name of the user, if a conversation has several users.
        contents: The images, audio and files. They follow the text, unless ``contents`` also has the pieces
            of the text: then they are sent at their positions between the pieces.
        other: Members of a stored message that this version does not know; they are stored again.
    """

    text: str
    name: str | None = None
    contents: tuple[str | Media, ...] = ()
    other: OtherMembers = field(default=(), compare=False, repr=False, kw_only=True)

    @property
    def parts(self) -> tuple[str | Media, ...]:
        """The text, images and files of the user message in the order in which they are sent.

        Blank text is left out.
        """
        return _parts(self.text, self.contents)


def _parts(text: str, contents: tuple[str | Media, ...]) -> tuple[str | Media, ...]:
    # Line breaks around an image in a template are layout, and some providers reject blank pieces of text.
    pieces = interleave(text, contents)
    trimmed = (part.strip("\n") if isinstance(part, str) else part for part in pieces)
    return tuple(part for part in trimmed if not isinstance(part, str) or part.strip())


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model's request to run a tool.

    Attributes:
        id: The id by which the ``ToolMessage`` with the result refers to the call.
        name: The name of the tool.
        arguments: The arguments as the JSON text that the model wrote; it may be invalid.
        idempotency_key: For a tool with a ToolCall parameter: a text that is the same if a durable call runs
            the same tool call again, and that no other tool call has. Pass it to the service that the tool
            calls. "" elsewhere.
    """

    id: str
    name: str
    arguments: str
    idempotency_key: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ProviderState:
    """A model's message in its provider's own format, which later requests may have to contain.

    Providers ask for these parts again in later requests: encrypted reasoning, signatures, and the results of
    tools that they ran. Only the model class that created the state reads it.

    Attributes:
        provider: The API and its address, as in "anthropic at https://api.anthropic.com".
        model: The model that wrote the message.
        parts: The parts of the message, as JSON values, in the order of the provider.
        checksum: A checksum of the text and the tool calls, to notice that they were edited.
    """

    provider: str
    model: str
    parts: tuple[Json, ...]
    checksum: int


@explains_guesses(
    content="text", role="isinstance(message, AiMessage)", function_call="tool_calls", thinking="reasoning"
)
@dataclass(frozen=True, slots=True)
class AiMessage(EncodedOnce):
    """A message that the model wrote, with text, tool calls or both.

    Attributes:
        text: The text; "" if the model only calls tools.
        tool_calls: The tools that the model wants to run before it answers.
        reasoning: The text of the model's reasoning, if the provider returns it.
        state: What the provider needs back in later requests, such as encrypted reasoning; None if nothing.
            Messages with different states are equal.
        contents: The images, audio and files that the model made, as in a ``UserMessage``.
        other: Members of a stored message that this version does not know; they are stored again.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    state: ProviderState | None = field(default=None, compare=False, repr=False)
    contents: tuple[str | Media, ...] = field(default=(), kw_only=True)
    other: OtherMembers = field(default=(), compare=False, repr=False, kw_only=True)

    @property
    def parts(self) -> tuple[str | Media, ...]:
        """The text, images and files of the model's message in the order in which the model made them."""
        return _parts(self.text, self.contents)

    @property
    def images(self) -> tuple[Image, ...]:
        """The images that the model made."""
        return tuple([part for part in self.contents if isinstance(part, Image)])

    def with_state(self, provider: str, model: str, parts: Sequence[object]) -> AiMessage:
        """Return a copy of the message with ``state`` set to the provider's original message parts."""
        return replace(self, state=ProviderState(provider, model, tuple(parts), _checksum(self)))

    def plus(self, continuation: AiMessage) -> AiMessage:
        """Return this model message joined with a message that continues it."""
        reasoning = "\n\n".join(filter(None, (self.reasoning, continuation.reasoning))) or None
        calls = (*self.tool_calls, *continuation.tool_calls)
        contents: tuple[str | Media, ...] = ()
        if self.contents or continuation.contents:
            contents = (*self.parts, *continuation.parts)
        message = AiMessage(self.text + continuation.text, calls, reasoning, contents=contents)
        last = continuation.state
        if last is None or (parts := self.parts_for(last.provider)) is None:
            return message
        return message.with_state(last.provider, last.model, (*parts, *last.parts))

    def parts_for(self, provider: str) -> tuple[Json, ...] | None:
        """Return the message in a provider's own format if that provider wrote it, else None.

        It is also None if the text or the tool calls were edited, because providers refuse parts that do not
        fit the message.
        """
        state = self.state
        if state is None or state.provider != provider or state.checksum != _checksum(self):
            return None
        return state.parts


def _checksum(message: AiMessage) -> int:
    calls = [text for call in message.tool_calls for text in (call.id, call.name, call.arguments)]
    return crc32("\0".join([message.text, *calls]).encode(errors="surrogatepass"))


@dataclass(frozen=True, slots=True)
class ToolMessage(EncodedOnce):
    """A message with the result of a tool call.

    Attributes:
        call_id: The id of the ``ToolCall`` in the message before.
        name: The name of the tool.
        text: The result, or a message about an error.
        failed: True if the tool failed, so that the text is about an error.
        contents: Images, audio and files of the result, as in a ``UserMessage``.
        other: Members of a stored message that this version does not know; they are stored again.
    """

    call_id: str
    name: str
    text: str
    failed: bool = field(default=False, kw_only=True)
    contents: tuple[str | Media, ...] = ()
    other: OtherMembers = field(default=(), compare=False, repr=False, kw_only=True)

    @property
    def parts(self) -> tuple[str | Media, ...]:
        """The text, images and files of a tool's result in the order in which they are sent."""
        return _parts(self.text, self.contents)


Message: TypeAlias = SystemMessage | UserMessage | AiMessage | ToolMessage


# For estimates: English has 4 to 5 characters per token in current tokenizers, Chinese 1 to 1.5.
CHARACTERS_PER_TOKEN = 4


@explains_guesses(
    **dict.fromkeys(("prompt_tokens", "request_tokens"), "input_tokens"),
    **dict.fromkeys(("completion_tokens", "response_tokens"), "output_tokens"),
)
@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts of one or more model requests.

    Attributes:
        input_tokens: The tokens of the messages and of everything else that was sent, cached ones included.
        output_tokens: The tokens that the model generated, reasoning included.
        cached_tokens: The part of ``input_tokens`` that the provider read from its prompt cache.
        reasoning_tokens: The part of ``output_tokens`` that was spent on reasoning.
        cache_write_tokens: The part of ``input_tokens`` that the provider wrote to its prompt cache.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """The sum of the input and output tokens of the model requests."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


class FinishReason(StrEnum):
    """The reason why the model stopped generating.

    STOP: the answer is complete. LENGTH: a token limit was reached. TOOL_CALLS: the model calls tools.
    CONTENT_FILTER: the filter of the provider stopped the answer. PAUSED: the provider paused its own tools,
    and continues when it gets the message back. MALFORMED: the provider could not read a tool call of the
    model. OTHER: the provider gave another reason.
    """

    # The values, except OTHER, are those of the Chat Completions API.
    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    PAUSED = "paused"
    MALFORMED = "malformed"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ServerToolRun:
    """The record of a tool that the provider ran for the model, such as a web search.

    Attributes:
        name: The name of the tool, as the provider gives it.
        input: What the model passed to the tool, as JSON; None if the provider does not say.
        output: The result, as JSON; None if the provider does not say.
    """

    name: str
    input: Json = None
    output: Json = None


# The possible answers to a question as JSON values, each with its probability.
Distribution: TypeAlias = tuple[tuple[object, float], ...]


class TokenLogprob(NamedTuple):
    """A token of a reply with its log probability, and the most likely tokens at its position.

    Attributes:
        token: The bytes of the token; a token may be a part of a character.
        logprob: The natural logarithm of its probability.
        alternatives: The most likely tokens at this place with their log probabilities.
    """

    token: bytes
    logprob: float
    alternatives: tuple[tuple[bytes, float], ...] = ()


@explains_guesses(
    **dict.fromkeys(("content", "output_text"), "text"), choices="message", tool_calls="message.tool_calls"
)
@dataclass(frozen=True, slots=True)
class ChatReply:
    """A model's complete reply to one request.

    Attributes:
        message: The message of the model.
        finish_reason: Why the model stopped generating.
        usage: The number of tokens; None if the provider did not report it.
        model: The model that answered, by the name that the provider gave.
        id: The id that the provider gave the reply; "" if none.
        refusal: The text with which the model refused to answer; None if it did not refuse.
        raw: The JSON body of the response, as bytes; None if the provider does not answer with JSON.
        stop_reason: Why the model stopped, in the word of the provider; "" if it did not say.
        notes: What was left out of the request because the model does not support it.
        server_tool_runs: The tools that the provider ran, such as a web search.
        citations: The sources that the model cites, as JSON objects in the format of the provider.
        logprobs: The tokens of the text with their log probabilities, if the request asked for them.
        probabilities: The probabilities from a decision endpoint, by the JSON path of the answer; None for
            other models.
        cached: True if the reply comes from a response cache and not from the model.
        replayed: True if an earlier run of the durable call has received it.
    """

    message: AiMessage
    finish_reason: FinishReason = FinishReason.STOP
    usage: Usage | None = None
    model: str = ""
    id: str = ""
    refusal: str | None = None
    raw: bytes | None = None
    stop_reason: str = field(default="", compare=False)
    notes: tuple[str, ...] = ()
    server_tool_runs: tuple[ServerToolRun, ...] = ()
    citations: tuple[Mapping[str, Json], ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    probabilities: Mapping[str, Distribution] | None = None
    cached: bool = field(default=False, compare=False)
    replayed: bool = field(default=False, compare=False)

    @property
    def text(self) -> str:
        """The text of the model's message in this reply."""
        return self.message.text


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A part of a tool call in a streamed reply.

    Attributes:
        index: The position of the call among the tool calls of the reply, from 0.
        name: The name of the tool.
        arguments: The text that was added to the arguments.
        call: The whole call, in the part that completes it; None in all others. A call that is complete only
            at the end of the reply may have no such part.
    """

    index: int
    name: str
    arguments: str
    call: ToolCall | None = None


class ReplyDelta(NamedTuple):
    """A part of a streamed reply.

    Attributes:
        text: The text that was added to the message.
        reasoning: The text that was added to the reasoning.
        reply: The complete reply, in the last delta of a stream; None in all others.
        tool_calls: The pieces that were added to tool calls.
        raw: The JSON of the provider's event from which this part was read, with
            ``ChatOptions(raw_events=True)``; None otherwise. Events that add nothing have a delta with only
            this.
    """

    text: str = ""
    reasoning: str = ""
    reply: ChatReply | None = None
    tool_calls: tuple[ToolCallDelta, ...] = ()
    raw: bytes | None = None


def whole_reply_deltas(reply: ChatReply) -> list[ReplyDelta]:
    """Split a complete model reply into the parts that a streamed reply would have."""
    calls = reply.message.tool_calls
    call_deltas = [ToolCallDelta(index, call.name, call.arguments, call) for index, call in enumerate(calls)]
    return [
        ReplyDelta(reply.text, reply.message.reasoning or "", tool_calls=tuple(call_deltas)),
        ReplyDelta(reply=reply),
    ]


# Messages as JSON. Memory stores, suspended calls and cassettes save messages in this form, so a change must
# keep the old form readable.

_STATE_VERSION = 1
_NOT_TEXT = ("tool_calls", "contents", "state", "other")
_TextFields = TypeVar("_TextFields", Message, ToolCall)
_MESSAGE_TYPES: dict[str, type[Message]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "ai": AiMessage,
    "tool": ToolMessage,
}
_EMPTY = (None, (), False)
_TYPE_NAMES = {cls: name for name, cls in _MESSAGE_TYPES.items()}
_MEDIA_TYPES: dict[str, type[Media]] = {"image": Image, "audio": Audio, "file": File}


def messages_to_json(messages: Iterable[Message]) -> str:
    """Convert chat messages to JSON text."""
    return f"[{', '.join(map(message_to_json, messages))}]"


def message_to_json(message: Message) -> str:
    """Convert a chat message to JSON text that can be written as UTF-8."""
    # Stored conversations stay readable in any script, and shorter, without escapes. Half a surrogate pair,
    # which a reply may contain, is escaped.
    text = json.dumps(message_to_dict(message), ensure_ascii=False)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def messages_from_json(text: str) -> list[Message]:
    """Parse chat messages from JSON text, or raise ValueError if it is invalid.

    The text must come from ``messages_to_json``.
    """
    data = json.loads(text)
    if not isinstance(data, list):
        raise ValueError(f"messages must be a JSON array, not {type(data).__name__}")
    return [message_from_dict(item) for item in data]


def message_to_dict(message: Message) -> JsonObject:
    """Convert a chat message to a dict with its ``type`` and its non-empty fields."""
    # Not asdict, which would also convert images and files to dictionaries, with bytes as values.
    fields = message.__dataclass_fields__
    data = {name: value for name in fields if (value := getattr(message, name)) not in _EMPTY}
    data.pop("other", None)
    if "contents" in data and not isinstance(message, SystemMessage):
        data["contents"] = [
            part if isinstance(part, str) else _media_to_dict(part) for part in message.contents
        ]
    if isinstance(message, AiMessage):
        if message.tool_calls:
            data["tool_calls"] = tuple(
                {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
            )
        if message.state is not None:
            data["state"] = _state_to_dict(message.state)
    return {"type": _TYPE_NAMES[type(message)], **data, **dict(message.other)}


def _contents_from_list(parts: Iterable[object]) -> tuple[str | Media, ...]:
    return tuple(part if isinstance(part, str) else _media_from_dict(part) for part in parts)


def message_from_dict(data: Mapping[str, Json]) -> Message:
    """Convert a dict from ``message_to_dict`` back to a chat message, or raise ValueError.

    ``data`` is such a dict, as ``message_to_dict`` returns it. Unknown members are kept in ``other``.
    """
    fields = dict(data) if isinstance(data, Mapping) else {}
    name = fields.pop("type", None)
    cls = _MESSAGE_TYPES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(f"unknown type of message: {name!r}")
    names = cls.__dataclass_fields__.keys() - {"other"}
    unknown = {key: fields.pop(key) for key in fields.keys() - names}
    if "state" in fields:
        state = _state_from_dict(fields["state"])
        if state is None:  # a newer version wrote it
            unknown["state"] = fields.pop("state")
        else:
            fields["state"] = state
    if unknown:
        fields["other"] = tuple(unknown.items())
    for field_name in ("contents", "tool_calls"):
        if not isinstance(fields.get(field_name, ()), (list, tuple)):
            raise ValueError(f"{field_name} of a message is {fields[field_name]!r}; it must be a list")
    if "contents" in fields:
        fields["contents"] = _contents_from_list(fields["contents"])
    try:
        if "tool_calls" in fields:
            fields["tool_calls"] = tuple(_checked_texts(ToolCall(**call)) for call in fields["tool_calls"])
        return _checked_texts(cls(**fields))
    except TypeError as error:
        raise ValueError(f"wrong fields in a message of the type {name}: {error}") from error


def _checked_texts(value: _TextFields) -> _TextFields:
    """Return a message or tool call unchanged if its text fields are strings, else raise TypeError.

    Raises TypeError if one of its text fields is not a string.
    """
    # Dataclasses do not check types, and a wrong type here would fail much later, in a request.
    for one in dataclass_fields(value):
        content = getattr(value, one.name)
        is_omitted = one.default is None and content is None
        if one.name == "failed":
            if not isinstance(content, bool):
                raise TypeError(f"failed is {content!r}; it must be true or false")
        elif one.name not in _NOT_TEXT and not isinstance(content, str) and not is_omitted:
            raise TypeError(f"{one.name} is {content!r}; it must be text")
    return value


def _state_to_dict(state: ProviderState) -> dict[str, object]:
    return {"version": _STATE_VERSION, **{name: getattr(state, name) for name in state.__dataclass_fields__}}


def _state_from_dict(data: object) -> ProviderState | None:
    """Convert a stored dict to a ProviderState; return None if its version is unknown."""
    if not isinstance(data, Mapping) or data.get("version") != _STATE_VERSION:
        return None
    provider, model, parts, checksum = (data.get(name) for name in ("provider", "model", "parts", "checksum"))
    if not (
        isinstance(provider, str)
        and isinstance(model, str)
        and isinstance(parts, (list, tuple))
        and isinstance(checksum, int)
    ):
        return None
    return ProviderState(provider, model, tuple(parts), checksum)


def _media_to_dict(media: Media) -> dict[str, object]:
    """Convert an image, audio or file in a message to a dict for JSON, with base64 data."""
    fields = {"media_type": media.media_type, "url": media.url, "name": media.name}
    if media.data is not None:
        fields["data"] = media.base64
    if isinstance(media, Image):
        fields["detail"] = media.detail
    set_fields = {name: value for name, value in fields.items() if value is not None}
    return {"type": type(media).__name__.lower(), **set_fields}


def _media_from_dict(data: object) -> Media:
    """Convert a dict to an image, audio or file in a message, or raise ValueError."""
    fields = dict(data) if isinstance(data, Mapping) else {}
    name = fields.pop("type", None)
    cls = _MEDIA_TYPES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(f"unknown type of content in a message: {name!r}")
    if "data" in fields:
        # Without validate=True, b64decode ignores characters that are not base64.
        fields["data"] = b64decode(fields["data"], validate=True)
    try:
        return cls(**fields)
    except TypeError as error:
        raise ValueError(f"wrong fields in a content of the type {name}: {error}") from error


# --- Replies as JSON, for cassettes, journals and caches ---


_USAGE_FIELDS = tuple(one.name for one in dataclass_fields(Usage))


def reply_to_json(reply: ChatReply) -> dict[str, object]:
    """Convert a model reply to JSON data, without the provider's raw response."""
    data: dict[str, object] = {
        "message": message_to_dict(reply.message),
        "finish_reason": str(reply.finish_reason),
        "model": reply.model,
    }
    for name in ("id", "stop_reason"):
        if getattr(reply, name):
            data[name] = getattr(reply, name)
    if reply.notes:
        data["notes"] = list(reply.notes)
    if reply.citations:
        data["citations"] = [dict(citation) for citation in reply.citations]
    if reply.server_tool_runs:
        data["server_tool_runs"] = [[run.name, run.input, run.output] for run in reply.server_tool_runs]
    if reply.usage is not None:
        usage = reply.usage
        data["usage"] = {name: getattr(usage, name) for name in _USAGE_FIELDS}
    if reply.refusal is not None:
        data["refusal"] = reply.refusal
    if reply.logprobs:
        data["logprobs"] = [
            {
                "text": _token_text(token.token),
                "logprob": token.logprob,
                "alternatives": [[_token_text(text), logprob] for text, logprob in token.alternatives],
            }
            for token in reply.logprobs
        ]
    if reply.probabilities:
        data["probabilities"] = dict(reply.probabilities)
    return data


def reply_from_json(data: Mapping[str, Json]) -> ChatReply:
    """Convert JSON data back to a model reply, or raise ValueError or KeyError for wrong data."""
    message = message_from_dict(data["message"])
    if not isinstance(message, AiMessage):
        raise ValueError("the message of a reply must be an AiMessage")
    usage = data.get("usage")
    return ChatReply(
        message,
        FinishReason(data["finish_reason"]),
        None if usage is None else Usage(**usage),
        data.get("model", ""),
        data.get("id", ""),
        stop_reason=data.get("stop_reason", ""),
        notes=tuple(data.get("notes", ())),
        server_tool_runs=tuple(ServerToolRun(*one) for one in data.get("server_tool_runs", ())),
        citations=tuple(data.get("citations", ())),
        refusal=data.get("refusal"),
        logprobs=tuple(map(_logprob_from_json, data.get("logprobs", ()))),
        probabilities={
            path: tuple((value, float(share)) for value, share in shares)
            for path, shares in data["probabilities"].items()
        }
        if "probabilities" in data
        else None,
    )


def _logprob_from_json(data: JsonObject) -> TokenLogprob:
    alternatives = [(text.encode("latin-1"), logprob) for text, logprob in data["alternatives"]]
    return TokenLogprob(data["text"].encode("latin-1"), data["logprob"], tuple(alternatives))


def _token_text(token: bytes) -> str:
    return token.decode("latin-1")  # a token may be a part of a character, so UTF-8 cannot always decode it
