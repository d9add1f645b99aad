"""Requests, replies and streams in OpenAI's chat completions format (POST /chat/completions)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import quote

from pydantic_core import to_json

from output_parsers.result.reading import JsonObject

from ..conversation import (
    ConversationRules,
    ConversationWriter,
    arguments_text,
    prepare,
    safe_name,
    system_count,
)
from ..errors import ModelError, Remedy
from ..http.api import (
    ApiDialect,
    CallSettings,
    RequestWriter,
    accepted_options,
    json_request_writer,
    own_words,
    refused_options_of,
)
from ..http.base import HttpRequest
from ..http.replies import (
    EventStreamReader,
    NoChoicesError,
    StreamReader,
    UnreadableReplyError,
    UnsupportedRequestError,
    call_arguments,
    is_json_object,
    parse_object,
    read_logprobs,
    read_tool_call,
)
from ..http.usage import UsageFields, finish_reasons, read_finish_reason, read_usage
from ..media import Audio, Image, Media, read_data_url
from ..messages import (
    AiMessage,
    ChatReply,
    Message,
    ReplyDelta,
    SystemMessage,
    TokenLogprob,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..requests import ImageFormat, JsonSchemaFormat, ResponseFormat, Tooling
from .client import Endpoint

# The members of a message that some service wants back in later requests, those for all services first.
_RETURNED = ("reasoning_details", "extra_content")
_STATE_MEMBERS = (*_RETURNED, "reasoning_content", "reasoning", "thinking_blocks")
_PLAIN_MEMBERS = frozenset(
    ("role", "content", "refusal", "annotations", "tool_calls", "function_call", "audio", "images")
)
# Words in errors about these members.
_STATE_ERRORS = ("reasoning_details", "reasoning_content", "extra_content", "thinking_blocks", "thought_sig")
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
# Gateways pass on the words of the services behind them.
FINISH_REASONS = finish_reasons(
    stop="stop eos eos_token end_turn stop_sequence",
    tool_calls="tool_calls function_call tool_use",
    length="length model_length max_tokens model_context_window_exceeded time_limit repetition_truncation",
    content_filter="content_filter sensitive safety recitation prohibited_content guardrail_intervened "
    "refusal",
    # the answer is incomplete, and a second request may succeed
    malformed="abort error network_error insufficient_system_resource",
)
USAGE = UsageFields(
    ("prompt_tokens",),
    ("completion_tokens",),
    ("prompt_tokens_details.cached_tokens",),
    ("completion_tokens_details.reasoning_tokens",),
    ("prompt_tokens_details.cache_write_tokens",),
)


class ChatDialect(ApiDialect):
    """Writes requests and parses replies in OpenAI's chat completions format, which other servers share."""

    reply_name = "chat completion"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._provider = f"{endpoint.provider} at {endpoint.address}"

    def request_writer(self, settings: CallSettings) -> RequestWriter:
        refused = settings.refused
        options, notes = accepted_options(settings.options, refused)
        settings.notes.extend(notes)
        # the SDK's Azure client adds the deployment to the path only for bodies that are not bytes
        deployment = f"/deployments/{quote(settings.model, safe='')}" if self._endpoint.azure else ""
        # OpenAI's own models reject the older name of the limit, and many other servers support only that one
        is_new_name = self._endpoint.is_openai or "max_tokens" in refused
        limit = "max_completion_tokens" if is_new_name else "max_tokens"
        sends_parallel = self._endpoint.is_openai and "parallel_tool_calls" not in refused
        members: JsonObject = {
            "model": settings.model,
            "temperature": options.temperature,
            "top_p": options.top_p,
            limit: options.max_tokens,
            "stop": options.stop,
            "seed": options.seed,
            "reasoning_effort": options.reasoning_effort,
            "service_tier": options.service_tier,
            "response_format": answer_format(settings.response_format),
            "modalities": ("image", "text") if isinstance(settings.response_format, ImageFormat) else None,
            **self._endpoint.preset.extra_body,
            **tool_members(
                settings.tooling,
                options.server_tools or (),
                self._endpoint.preset.conversation,
                sends_parallel=sends_parallel,
            ),
        }
        if settings.logprobs:
            members |= {"logprobs": True, "top_logprobs": settings.logprobs}
        if settings.stream:
            members |= {"stream": True, "stream_options": {"include_usage": True}}
        return json_request_writer(
            f"{deployment}/chat/completions",
            members,
            {
                "messages": _ChatWriter(self._endpoint, self._provider)
                if options.cache is None or not self._endpoint.preset.cache_marks
                else _MarkingWriter(self._endpoint, self._provider, options.cache)
            },
            options.extra_body,
            merged=tuple(self._endpoint.preset.extra_body),
        )

    def read_reply(self, body: bytes, headers: Mapping[str, str], settings: CallSettings) -> ChatReply:
        return read_chat_completion(body, self._provider, tuple(settings.notes))

    def stream_reader(self, headers: Mapping[str, str], settings: CallSettings) -> StreamReader:
        return ChatStreamReader(self._provider, tuple(settings.notes))

    def remedy(self, error: ModelError, settings: CallSettings, request: HttpRequest) -> Remedy:
        text = own_words(error, request)
        if any(words in text for words in _STATE_ERRORS):
            return "drop state"
        error.refused_options = refused_options_of(error, request, text)
        return "send again" if error.refused_options else ""


def _nested(kind: str, members: JsonObject) -> JsonObject:
    """Return a part of a request as chat completions nest it; the Responses API has one level less."""
    return {"type": kind, kind: members}


# Returns a part of a request of a kind with its members, in the format of one of the two APIs.
Nest: TypeAlias = Callable[[str, JsonObject], JsonObject]


def answer_format(response_format: ResponseFormat | None, nest: Nest = _nested) -> JsonObject | None:
    """Return the format of the answer for one of OpenAI's APIs; None for free text and images."""
    if response_format is None or isinstance(response_format, ImageFormat):
        return None
    if not isinstance(response_format, JsonSchemaFormat):
        return {"type": "json_object"}
    name, schema, strict = safe_name(response_format.name), response_format.schema, response_format.strict
    return nest("json_schema", {"name": name, "schema": schema, "strict": strict})


def tool_members(
    tooling: Tooling | None,
    server_tools: Sequence[Mapping[str, object]],
    rules: ConversationRules,
    *,
    sends_parallel: bool,
    nest: Nest = _nested,
) -> JsonObject:
    """Return the members of a request with the tools and the choice among them."""
    if tooling is None:
        return {"tools": server_tools} if server_tools else {}
    tools: list[Mapping[str, object]] = []
    for tool in tooling.tools:
        declaration: JsonObject = {
            "name": rules.tool_name(tool.name),
            "description": tool.description,
            "parameters": tool.parameters,
        }
        # The default of the Responses API is true, and would change a schema that is not strict. For chat
        # completions it is false, and a server may reject a member that it does not support.
        if tool.strict or nest is not _nested:
            declaration["strict"] = tool.strict
        tools.append({**tool.metadata, **nest("function", declaration)})
    members: JsonObject = {"tools": [*tools, *server_tools]}
    if tooling.choice in ("required", "none"):
        members["tool_choice"] = tooling.choice
    elif tooling.choice != "auto":
        members["tool_choice"] = nest("function", {"name": rules.tool_name(tooling.choice)})
    if not tooling.parallel_calls and sends_parallel:
        members["parallel_tool_calls"] = False
    return members


class _ChatWriter(ConversationWriter):
    """Writes the messages of conversations in the format of chat completions.

    Args:
        endpoint: The server.
        provider: The server, as in the state of its messages.
    """

    def __init__(self, endpoint: Endpoint, provider: str) -> None:
        variant = f"{endpoint.preset.returned} {endpoint.preset.requires_reasoning}"
        super().__init__(endpoint.preset.conversation, provider, self._values, variant=variant)
        self._endpoint = endpoint

    def _values(self, message: Message) -> tuple[str, tuple[JsonObject]]:
        if isinstance(message, UserMessage):
            content = list(map(_part, message.parts)) if message.contents else message.text
            members: JsonObject = {"role": "user", "content": content}
            if message.name is not None:
                members["name"] = message.name
        elif isinstance(message, SystemMessage):
            members = {"role": "system", "content": message.text}
        elif isinstance(message, ToolMessage):
            call_id = self._rules.call_id(message.call_id)
            members = {"role": "tool", "tool_call_id": call_id, "content": message.text}
        else:
            members = self._answer(message)
        return "", (members,)

    def _answer(self, message: AiMessage) -> JsonObject:
        members: JsonObject = {"role": "assistant", "content": message.text}
        if message.tool_calls:
            # null is the content of a message that only calls tools
            members = {**members, "content": message.text or None, "tool_calls": self._calls(message)}
        parts = message.parts_for(self._provider)
        if parts is not None:
            members |= _returned_members(parts[0], members, self._endpoint.preset.returned)
        if self._endpoint.preset.requires_reasoning and message.tool_calls:
            members.setdefault("reasoning_content", "")
        return members

    def _calls(self, message: AiMessage) -> list[JsonObject]:
        rules = self._rules
        return [
            {
                "id": rules.call_id(call.id),
                "type": "function",
                "function": {
                    "name": rules.tool_name(call.name),
                    "arguments": arguments_text(call.arguments),
                },
            }
            for call in message.tool_calls
        ]


class _MarkingWriter(_ChatWriter):
    """Marks where the server should end what it caches: the system messages at the start, and all messages.

    Args:
        endpoint: The server.
        provider: The server, as in the state of its messages.
        lifetime: How long the server should keep the cache.
    """

    def __init__(self, endpoint: Endpoint, provider: str, lifetime: str) -> None:
        super().__init__(endpoint, provider)
        self._mark = {"type": "ephemeral", **({} if lifetime == "5m" else {"ttl": lifetime})}

    def __call__(self, messages: Sequence[Message]) -> bytes:
        if not self.follows_rules(messages, set()):
            messages = prepare(messages, self._rules, self._provider)
        ends = (system_count(messages) - 1, len(messages) - 1)
        return b"[%s]" % b",".join(
            [
                self._marked(message) if index in ends else self.encode(message)[2]
                for index, message in enumerate(messages)
            ]
        )

    def _marked(self, message: Message) -> bytes:
        """Return the JSON of a message with ``cache_control`` at the end of its content, if it has any."""
        (members,) = self._values(message)[1]
        content = members["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) and content else content
        if parts and isinstance(parts, list):
            members["content"] = [*parts[:-1], {**parts[-1], "cache_control": self._mark}]
        return to_json(members)


def _returned_members(state: JsonObject, members: JsonObject, names: Sequence[str]) -> JsonObject:
    """Return fields of an earlier model message that the provider needs again, such as its reasoning."""
    returned = {name: state[name] for name in (*_RETURNED, *names) if name in state}
    extra = state.get("extra_content_of_calls")  # of Gemini, through a server that speaks OpenAI's API
    if extra:
        calls = members["tool_calls"]
        returned["tool_calls"] = [
            call if one is None else {**call, "extra_content": one}
            for call, one in zip(calls, extra, strict=True)
        ]
    return returned


def _with_state(
    message: AiMessage, data: JsonObject, calls: Sequence[JsonObject], provider: str, model: str
) -> AiMessage:
    """Return a copy of a model's message that also stores fields which the provider may need again."""
    state = {name: data[name] for name in _STATE_MEMBERS if data.get(name)}
    if isinstance(data.get("content"), list):
        state["content"] = data["content"]
    extra = [call.get("extra_content") for call in calls]
    if any(extra):
        state["extra_content_of_calls"] = extra
    return message.with_state(provider, model, [state]) if state else message


def _part(part: str | Media) -> JsonObject:
    """Convert a text, image or file part of a user message to JSON for the chat completions API.

    Raises UnsupportedRequestError for unsupported media.
    """
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, Image):
        detail = {} if part.detail is None else {"detail": part.detail}
        return {"type": "image_url", "image_url": {"url": part.address, **detail}}
    if part.data is None:
        raise UnsupportedRequestError(
            f"the chat completions API does not fetch {part.kind} {part}; "
            f"pass its bytes with {type(part).__name__}.from_bytes"
        )
    if isinstance(part, Audio):
        audio_format = _AUDIO_FORMATS.get(str(part.media_type))
        if audio_format is None:
            raise UnsupportedRequestError(
                f"the chat completions API takes audio as WAV or MP3 only, not {part}"
            )
        return {"type": "input_audio", "input_audio": {"data": part.base64, "format": audio_format}}
    return {"type": "file", "file": {"filename": part.file_name, "file_data": part.address}}


def read_chat_completion(body: bytes, provider: str = "", notes: tuple[str, ...] = ()) -> ChatReply:
    """Convert a complete JSON reply from the chat completions API to a ChatReply.

    Raises UnreadableReplyError, or ReportedError if the JSON reports an error. ``provider`` is the service
    with its address, for the state of the message. ``notes`` is what was left out of the request.
    """
    data = parse_object(body)
    choices = data.get("choices")
    if choices == []:
        raise NoChoicesError
    if not choices:
        raise UnreadableReplyError("it has no choices")
    try:
        choice = choices[0]
        model = data.get("model") or ""
        message, word = choice["message"], str(choice.get("finish_reason") or "")
        text, reasoning, refusal = _contents(message)
        calls = message.get("tool_calls") or ()
        contents = _images(message.get("images") or ())
        ai_message = AiMessage(text, _tool_calls(calls), reasoning or None, contents=contents)
        if message.keys() - _PLAIN_MEMBERS or calls or not isinstance(message.get("content"), str):
            ai_message = _with_state(ai_message, message, calls, provider, model)
        return ChatReply(
            ai_message,
            read_finish_reason(word, FINISH_REASONS),
            read_usage(data.get("usage"), USAGE),
            model,
            data.get("id") or "",
            refusal,
            body,
            word,
            notes,
            citations=tuple(message.get("annotations") or ()),
            logprobs=_logprobs(choice),
        )
    except (AttributeError, KeyError, TypeError):
        raise UnreadableReplyError("its choices have an unexpected shape") from None


def _logprobs(choice: JsonObject) -> tuple[TokenLogprob, ...]:
    logprobs = choice.get("logprobs")
    return read_logprobs(logprobs.get("content")) if logprobs else ()


def _image(url: str) -> Image:
    # a wrong media type must not discard an answer that was paid for
    return Image(*read_data_url(url)) if url.startswith("data:") else Image.from_url(url)


def _images(images: Sequence[JsonObject]) -> tuple[Image, ...]:
    """Convert the image URLs in a message from OpenRouter or a similar gateway to Image objects."""
    try:
        return tuple([_image(image["image_url"]["url"]) for image in images])
    except ValueError as error:
        raise UnreadableReplyError(f"it has an image that cannot be read: {error}") from None


_TEXT_PARTS = ("text", "output_text", None)


def _contents(message: JsonObject) -> tuple[str, str, str | None]:
    """Return the answer text, the reasoning text and the refusal of a model's message or streamed part.

    Compatible servers name the reasoning in two ways. The content is a string, null, or a list of parts, some
    of which may be reasoning or a refusal.
    """
    content, refusal = message.get("content"), message.get("refusal") or None
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    if content is None:
        return "", reasoning, refusal
    if isinstance(content, str):
        return content, reasoning, refusal
    text, thoughts, refused = _parts_of(content)
    return text, thoughts or reasoning, refusal or refused or None


def _parts_of(content: Sequence[JsonObject]) -> tuple[str, str, str]:
    texts = [part.get("text") or "" for part in content if part.get("type") in _TEXT_PARTS]
    thoughts = [
        piece.get("text") or ""
        for part in content
        if part.get("type") == "thinking"
        for piece in part["thinking"]
    ]
    return "".join(texts), "".join(thoughts), "".join(part.get("refusal") or "" for part in content)


def _tool_calls(calls: Sequence[JsonObject]) -> tuple[ToolCall, ...]:
    tool_calls = []
    for call in calls:
        if "function" in call:
            function = call["function"]
            arguments = function.get("arguments")
            arguments = "" if arguments == "" else call_arguments(arguments) or "{}"
            tool_calls.append(read_tool_call(call.get("id"), function["name"], arguments))
    return tuple(tool_calls)


def _calls_of(collected: Sequence[JsonObject]) -> tuple[ToolCall, ...]:
    return tuple([read_tool_call(call["id"], call["name"], "".join(call["arguments"])) for call in collected])


class ChatStreamReader(EventStreamReader):
    """Parses one streamed reply from the chat completions API.

    Args:
        provider: The service with its address, for the state of the message.
        notes: What was left out of the request.
    """

    def __init__(self, provider: str = "", notes: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._provider = provider
        self._notes = notes
        self._state: JsonObject = {}
        self._thoughts: list[str] = []
        self._refusals: list[str] = []
        self._images: list[JsonObject] = []
        self._citations: list[JsonObject] = []
        self._calls: list[JsonObject] = []
        self._positions: dict[int, int] = {}  # positions in _calls, by the index that the provider sent
        self._finish_reason: str | None = None
        self._usage: Usage | None = None
        self._model = self._id = ""
        self._has_choices = False
        self._logprobs: list[TokenLogprob] = []

    @property
    def finished(self) -> bool:
        return self._finish_reason is not None or self.done

    def _last_deltas(self) -> list[ReplyDelta]:
        if not self._has_choices:
            raise UnreadableReplyError("it has no choices")
        thoughts, contents = "".join(self._thoughts) or None, _images(self._images)
        message = AiMessage(self.text, _calls_of(self._calls), thoughts, contents=contents)
        if self._state or self._calls:
            message = _with_state(message, self._state, self._calls, self._provider, self._model)
        finish_reason = read_finish_reason(self._finish_reason, FINISH_REASONS)
        refusal = "".join(self._refusals) or None
        reply = ChatReply(
            message,
            finish_reason,
            self._usage,
            self._model,
            self._id,
            refusal,
            stop_reason=self._finish_reason or "",
            notes=self._notes,
            citations=tuple(self._citations),
            logprobs=tuple(self._logprobs),
        )
        return [ReplyDelta(reply=reply)]

    def _read_event(self, data: JsonObject) -> ReplyDelta | None:
        self._model = self._model or data.get("model") or ""
        self._id = self._id or data.get("id") or ""
        if data.get("usage"):
            self._usage = read_usage(data["usage"], USAGE)
        choices = data.get("choices")
        if not choices:  # the event with the usage has none
            return None
        choice = choices[0]
        if choice.get("index"):  # a further choice, which a user requested with extra_body
            return None
        self._has_choices = True
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        if choice.get("logprobs"):
            self._logprobs += _logprobs(choice)
        return self._read_delta(choice.get("delta") or {})

    def _read_delta(self, delta: JsonObject) -> ReplyDelta | None:
        if delta.keys() - _PLAIN_MEMBERS or isinstance(delta.get("content"), list):
            self._keep_state(delta)
        self._images += delta.get("images") or ()
        self._citations += delta.get("annotations") or ()
        calls = delta.get("tool_calls")
        call_deltas = tuple(self._read_calls(calls)) if calls else ()
        text, reasoning, refusal = _contents(delta)
        if refusal:
            self._refusals.append(refusal)
        if not text and not reasoning and not call_deltas:
            return None
        self._thoughts.append(reasoning)
        return ReplyDelta(text, reasoning, tool_calls=call_deltas)

    def _keep_state(self, delta: JsonObject) -> None:
        """Collect streamed fields that the provider may need again in later requests."""
        for name in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(name), str):
                self._state[name] = self._state.get(name, "") + delta[name]
        if isinstance(delta.get("content"), list):
            self._state.setdefault("content", []).extend(delta["content"])
        for piece in delta.get("reasoning_details") or ():
            details = self._state.setdefault("reasoning_details", [])
            index = piece.get("index")
            same = next((one for one in details if index is not None and one.get("index") == index), None)
            if same is None:
                details.append(dict(piece))
            else:
                for name, value in piece.items():
                    is_text = name in ("text", "summary", "data") and isinstance(same.get(name), str)
                    same[name] = same[name] + value if is_text and value else value or same.get(name)

    def _read_calls(self, calls: Sequence[JsonObject]) -> Iterator[ToolCallDelta]:
        for call in calls:
            count = len(self._calls)
            delta = self._read_call(call)
            if len(self._calls) > count > 0:
                yield from self._completed_call(count - 1)  # complete, because the next one has begun
            yield delta

    def _completed_call(self, position: int) -> Iterator[ToolCallDelta]:
        """Yield one delta with the whole tool call if its arguments are complete JSON."""
        (call,) = _calls_of(self._calls[position : position + 1])
        if is_json_object(call.arguments):
            yield ToolCallDelta(position, call.name, "", call)

    def _read_call(self, call: JsonObject) -> ToolCallDelta:
        function = call.get("function") or {}
        name, arguments = function.get("name") or "", call_arguments(function.get("arguments"))
        position = self._position_of(call, name, may_begin=bool(name) and arguments[:1] in ("", "{"))
        collected = self._calls[position]
        collected["id"] = collected["id"] or call.get("id") or ""
        if name != collected["name"] and not collected["arguments"]:  # some repeat the name in each piece
            collected["name"] += name
        if name and arguments[:1] == "{" and arguments == _complete_arguments(collected):
            arguments = ""  # the whole call is repeated
        if arguments:
            collected["arguments"].append(arguments)
        if call.get("extra_content"):
            collected["extra_content"] = call["extra_content"]
        return ToolCallDelta(position, collected["name"], arguments)

    def _position_of(self, call: JsonObject, name: str, *, may_begin: bool) -> int:
        """Return the position of the call that a piece belongs to; a new one if the piece begins a call.

        Not all servers number the calls: a new id begins a call, and a repeated one continues it.
        """
        index, call_id = call.get("index"), call.get("id") or ""
        if index is None or not (index in self._positions or call_id or name):
            last = self._position_without_index(call_id)
        else:
            last = self._positions.get(index)
        if last is not None:
            collected = self._calls[last]
            is_other = call_id and collected["id"] and call_id != collected["id"]
            if not is_other and (call_id or not may_begin or not _complete_arguments(collected)):
                return last
        self._calls.append({"id": "", "name": "", "arguments": []})
        position = len(self._calls) - 1
        if index is not None:
            self._positions[index] = position
        return position

    def _position_without_index(self, call_id: str) -> int | None:
        same = (place for place, one in enumerate(self._calls) if call_id and one["id"] == call_id)
        return next(same, len(self._calls) - 1 if self._calls else None)


def _complete_arguments(collected: JsonObject) -> str:
    """Return the arguments of a streamed call if they are a complete JSON object; else ""."""
    pieces = collected["arguments"]
    if not pieces or not pieces[-1].rstrip().endswith("}"):  # joining all pieces takes long
        return ""
    arguments = "".join(pieces)
    return arguments if is_json_object(arguments) else ""
