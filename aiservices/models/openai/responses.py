"""Requests, replies and streams in OpenAI's Responses API format (POST /responses)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from output_parsers.result.reading import JsonObject

from ..conversation import ConversationRules, ConversationWriter, arguments_text
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
    ReportedError,
    StreamReader,
    UnreadableReplyError,
    UnsupportedRequestError,
    call_arguments,
    parse_object,
    read_logprobs,
    read_media,
    read_tool_call,
    result_part,
)
from ..http.usage import UsageFields, finish_reasons, read_finish_reason, read_usage
from ..media import Audio, Image, Media
from ..messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    ReplyDelta,
    ServerToolRun,
    SystemMessage,
    TokenLogprob,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    whole_reply_deltas,
)
from ..requests import ChatOptions, ImageFormat
from .chat import answer_format, tool_members
from .client import Endpoint

_MISSING_OPTIONS = ("stop", "seed")
_REASONING_STATE = "reasoning.encrypted_content"
_WITHOUT_REASONING = ("gpt-4", "gpt-3", "chatgpt")  # these models refuse to include the reasoning
# Words in OpenAI's errors about items that do not fit; the wording may change.
_STATE_ERRORS = (
    "without its required",
    "items are not persisted",
    "invalid_encrypted_content",
    "encrypted content could not be verified",
)
_UNFINISHED = ("queued", "in_progress", "cancelled")
INCOMPLETE_REASONS = finish_reasons(length="max_output_tokens", content_filter="content_filter")
USAGE = UsageFields(
    ("input_tokens",),
    ("output_tokens",),
    ("input_tokens_details.cached_tokens",),
    ("output_tokens_details.reasoning_tokens",),
    ("input_tokens_details.cache_write_tokens",),
)
_IMAGE_TOOL = "image_generation"
_IMAGE_CALL = "image_generation_call"


class ResponsesDialect(ApiDialect):
    """Writes requests and parses replies in the Responses API format of OpenAI and Azure."""

    reply_name = "response of the Responses API"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def check_options(self, options: ChatOptions) -> None:
        for name in _MISSING_OPTIONS:
            if getattr(options, name) not in (None, ()):
                raise UnsupportedRequestError(
                    f"the Responses API has no {name}; leave it out of ChatOptions, or use OpenAiChatModel"
                )

    def request_writer(self, settings: CallSettings) -> RequestWriter:
        refused = settings.refused
        options, notes = accepted_options(settings.options, refused)
        settings.notes.extend(notes)
        effort, response_format = options.reasoning_effort, settings.response_format
        images = response_format if isinstance(response_format, ImageFormat) else None
        server_tools = options.server_tools or ()
        if images and not any(tool.get("type") == _IMAGE_TOOL for tool in server_tools):
            server_tools = (*server_tools, {"type": _IMAGE_TOOL})
        text_format = answer_format(response_format, _flat)
        members: JsonObject = {
            "model": settings.model,  # in Azure, the name of the deployment
            "temperature": options.temperature,
            "top_p": options.top_p,
            "max_output_tokens": options.max_tokens,
            "reasoning": None if effort is None else {"effort": effort},
            "text": None if text_format is None else {"format": text_format},
            "service_tier": options.service_tier,
            **tool_members(
                settings.tooling,
                server_tools,
                RULES,
                sends_parallel="parallel_tool_calls" not in refused,
                nest=_flat,
            ),
            "store": False,  # the default is that the provider keeps the conversation
            "include": [_REASONING_STATE] if _includes_reasoning(settings) else None,
        }
        if settings.logprobs:
            members["include"] = [*(members["include"] or ()), "message.output_text.logprobs"]
            members["top_logprobs"] = settings.logprobs
        if settings.stream:
            members["stream"] = True
        return json_request_writer(
            "/responses",
            members,
            {"input": ConversationWriter(RULES, self._provider, partial(_items, provider=self._provider))},
            options.extra_body,
            merged=("reasoning", "text"),
        )

    def read_reply(self, body: bytes, headers: Mapping[str, str], settings: CallSettings) -> ChatReply:
        return read_response(body, self._provider, tuple(settings.notes))

    def stream_reader(self, headers: Mapping[str, str], settings: CallSettings) -> StreamReader:
        return ResponseStreamReader(self._provider, tuple(settings.notes))

    def remedy(self, error: ModelError, settings: CallSettings, request: HttpRequest) -> Remedy:
        text = own_words(error, request)
        refuses = _REASONING_STATE in text or "encrypted content is not supported" in text
        if refuses and _includes_reasoning(settings):
            error.refused_options = {_REASONING_STATE: ()}
            return "send again"
        if any(words in text for words in _STATE_ERRORS):
            return "drop state"
        error.refused_options = refused_options_of(error, request, text)
        return "send again" if error.refused_options else ""

    @property
    def _provider(self) -> str:
        return f"openai-responses at {self._endpoint.address}"


def _includes_reasoning(settings: CallSettings) -> bool:
    return not settings.model.startswith(_WITHOUT_REASONING) and _REASONING_STATE not in settings.refused


def _flat(kind: str, members: JsonObject) -> JsonObject:
    return {"type": kind, **members}


RULES = ConversationRules(call_ids="(?s).{1,64}", answer_images="own")


def _items(message: Message, provider: str) -> tuple[str, Sequence[object]]:
    """Return the input items of a message, and "" for its role, which the items have."""
    return "", list(_items_of(message, provider))


def _items_of(message: Message, provider: str) -> Iterator[JsonObject]:
    if isinstance(message, ToolMessage):
        output = [result_part(_part, part) for part in message.parts] if message.contents else message.text
        yield {"type": "function_call_output", "call_id": RULES.call_id(message.call_id), "output": output}
    elif isinstance(message, AiMessage):
        parts = message.parts_for(provider)
        if parts is not None:
            images = iter(message.images)
            yield from (_returned_item(item, images) for item in parts)
        elif message.text:
            yield {"role": "assistant", "content": message.text}
        for call in () if parts is not None else message.tool_calls:
            # without the id of the item, which would refer to a stored item and to the reasoning before it
            yield _function_call(
                {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
            )
    elif isinstance(message, SystemMessage):
        # not as `instructions`: JSON mode requires the word JSON in the input, and does not look there
        yield {"role": "system", "content": message.text}
    elif message.name is not None:
        raise UnsupportedRequestError(
            f"the Responses API has no names of users ({message.name!r}); "
            "put the name into the text, or use OpenAiChatModel"
        )
    else:
        content = list(map(_part, message.parts)) if message.contents else message.text
        yield {"role": "user", "content": content}


def _function_call(item: JsonObject) -> JsonObject:
    """Return an item with a tool call whose id, name and arguments the API accepts."""
    return {
        **item,
        "call_id": RULES.call_id(item["call_id"]),
        "name": RULES.tool_name(item["name"]),
        "arguments": arguments_text(item["arguments"]),
    }


def _returned_item(item: JsonObject, images: Iterator[Image]) -> JsonObject:
    """Return an item of an earlier reply as the API takes it back."""
    return _function_call(item) if item.get("type") == "function_call" else _with_image(item, images)


def _with_image(item: JsonObject, images: Iterator[Image]) -> JsonObject:
    """Return a response item with the image data that was left out when the item was stored."""
    if item.get("type") != _IMAGE_CALL or not item.get("result"):
        return item
    image = next(images, None)
    return item if image is None else {**item, "result": image.base64}


def _part(part: str | Media) -> JsonObject:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    if isinstance(part, Image):
        # unlike in chat completions, the detail is required
        return {"type": "input_image", "image_url": part.address, "detail": part.detail or "auto"}
    if isinstance(part, Audio):
        raise UnsupportedRequestError(f"the Responses API does not take audio ({part}); use OpenAiChatModel")
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}
    return {"type": "input_file", "filename": part.file_name, "file_data": part.address}


def read_response(body: bytes, provider: str = "", notes: tuple[str, ...] = ()) -> ChatReply:
    """Convert a complete JSON reply from OpenAI's Responses API to a ChatReply.

    Raises UnreadableReplyError, or ReportedError if the JSON reports an error. ``provider`` is the API with
    its address, for the state of the message. ``notes`` is what was left out of the request.
    """
    return _reply(parse_object(body), provider, body, notes)


def _reply(
    data: JsonObject, provider: str, body: bytes | None = None, notes: tuple[str, ...] = ()
) -> ChatReply:
    status, output = data.get("status"), _output_of(data)
    try:
        message = AiMessage(
            _answer_text(output, data),
            tuple(_tool_call(item) for item in output if item["type"] == "function_call"),
            "\n\n".join(filter(None, _thoughts(output))) or None,
            contents=tuple(_contents(output)),
        )
        model, items = data.get("model") or "", _items_of_state(output)
        if any(_needs_state(item) for item in items):
            message = message.with_state(provider, model, items)
        return ChatReply(
            message,
            _finish_reason(data, message),
            read_usage(data.get("usage"), USAGE),
            model,
            data.get("id") or "",
            "".join(_refusals(output)) or None,
            body,
            (data.get("incomplete_details") or {}).get("reason") or status or "",
            notes,
            tuple(_server_tool_run(item) for item in output if _is_server_tool(item)),
            tuple(_citations(output)),
            tuple(_logprobs(output)),
        )
    except (AttributeError, KeyError, TypeError):
        raise UnreadableReplyError("its output has an unexpected shape") from None


def _output_of(data: JsonObject) -> list[JsonObject]:
    """Return the items of a finished response; raise an error for other responses."""
    status, output = data.get("status"), data.get("output")
    if status == "failed":
        raise ReportedError(data.get("error") or {"message": "the response failed"})
    if not isinstance(output, list):
        raise UnreadableReplyError("it has no output")
    if status in _UNFINISHED:
        raise UnreadableReplyError(f"its status is {status}, and background responses are not supported")
    return output


def _items_of_state(output: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the items of an output that later requests send back."""
    return [
        # the message has the data of images in its contents
        {**item, "result": "contents"} if item["type"] == _IMAGE_CALL and item.get("result") else item
        for item in output
        # without encrypted content, the provider looks for a stored item and does not find it
        if item["type"] != "reasoning" or _has_content(item)
    ]


def _tool_call(item: JsonObject) -> ToolCall:
    return read_tool_call(item.get("call_id"), item["name"], call_arguments(item.get("arguments")))


def _contents(output: Sequence[JsonObject]) -> Iterator[Media]:
    for item in output:
        if item["type"] == _IMAGE_CALL and item.get("result"):
            output_format = item.get("output_format")
            yield read_media(item["result"], output_format and f"image/{output_format}")


def _has_content(item: JsonObject) -> bool:
    return bool(item.get("encrypted_content") or item.get("content"))


def _needs_state(item: JsonObject) -> bool:
    """Return True if a part of a reply, such as reasoning, must be stored unchanged for later requests."""
    if item["type"] == "message":
        return item.get("phase") is not None or any(part.get("annotations") for part in _parts(item))
    return item["type"] != "function_call" or item.get("namespace") is not None


def _is_server_tool(item: JsonObject) -> bool:
    kind: str = item["type"]
    return kind.endswith("_call") and kind != "function_call"


def _server_tool_run(item: JsonObject) -> ServerToolRun:
    """Convert a response item to a ServerToolRun: a tool run by the provider, with input and output."""
    inputs = (item.get(name) for name in ("arguments", "action", "queries", "code"))
    results = (item.get(name) for name in ("output", "results", "outputs"))
    name = item["type"].removesuffix("_call")
    return ServerToolRun(name, next(filter(None, inputs), None), next(filter(None, results), None))


def _citations(output: list[JsonObject]) -> Iterator[JsonObject]:
    for item in output:
        if item["type"] == "message":
            yield from (one for part in _parts(item) for one in part.get("annotations") or ())


def _is_commentary(item: JsonObject) -> bool:
    """Return True if a message of the Responses API is an intermediate comment instead of the answer."""
    return item["type"] == "message" and item.get("phase") == "commentary"


def _parts(item: JsonObject) -> Sequence[JsonObject]:
    return item["content"] or ()  # may be null


def _answer_parts(output: Sequence[JsonObject]) -> Iterator[JsonObject]:
    for item in output:
        if item["type"] == "message" and not _is_commentary(item):
            yield from _parts(item)


def _text_of(part: JsonObject) -> str:
    return (part.get("text") or "") if part["type"] in ("output_text", "text") else ""


def _texts(output: Sequence[JsonObject]) -> Iterator[str]:
    yield from map(_text_of, _answer_parts(output))


def _answer_text(output: Sequence[JsonObject], data: JsonObject) -> str:
    # some servers have only the text that the SDK of OpenAI adds
    return "".join(_texts(output)) if output else data.get("output_text") or ""


def _refusals(output: Sequence[JsonObject]) -> Iterator[str]:
    yield from (part.get("refusal") or "" for part in _answer_parts(output) if part["type"] == "refusal")


def _logprobs(output: list[JsonObject]) -> Iterator[TokenLogprob]:
    for part in _answer_parts(output):
        yield from read_logprobs(part.get("logprobs"))


def _thoughts(output: list[JsonObject]) -> Iterator[str]:
    for item in output:
        if _is_commentary(item):
            yield from map(_text_of, _parts(item))
        elif item["type"] == "reasoning":
            # most models send a summary of their reasoning; models with open weights send its content
            yield from (part["text"] for part in [*(item.get("summary") or ()), *(item.get("content") or ())])


def _finish_reason(data: JsonObject, message: AiMessage) -> FinishReason:
    if data.get("status") == "incomplete":
        # without a reason, it is still incomplete
        reason = (data.get("incomplete_details") or {}).get("reason") or "unknown"
        return read_finish_reason(reason, INCOMPLETE_REASONS)
    status = data.get("status")
    unknown = "" if status in (None, "completed") else str(status)
    return read_finish_reason(unknown, INCOMPLETE_REASONS, message)


def _identity(item: JsonObject) -> object:
    return item.get("call_id") or item.get("id")


class ResponseStreamReader(EventStreamReader):
    """Parses one streamed reply from OpenAI's Responses API.

    The last event of the stream repeats the whole response.

    Args:
        provider: The API with its address, for the state of the message.
        notes: What was left out of the request.
    """

    def __init__(self, provider: str = "", notes: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._provider = provider
        self._notes = notes
        self._reply: ChatReply | None = None
        self._items: dict[int, JsonObject] = {}  # those that are complete replace those that have begun
        self._places: dict[int, int] = {}  # where an item is in _items, if another one had its index before
        self._pieces: dict[int, list[str]] = {}  # the texts or arguments of items, by the index of the item
        self._ended: set[int] = set()
        self._refusals: list[str] = []
        self._calls: dict[int, ToolCallDelta] = {}
        self._commentary: set[int] = set()
        self._reasoning_part: tuple[object, ...] | None = None
        self._has_deltas = False

    @property
    def finished(self) -> bool:
        return self._reply is not None

    def _last_deltas(self) -> list[ReplyDelta]:
        assert self._reply is not None
        first, last = whole_reply_deltas(self._reply)
        # a server may send the last event only, without deltas before it
        return [last] if self._has_deltas or first == ReplyDelta() else [first, last]

    def _read_event(self, data: JsonObject) -> ReplyDelta | None:
        delta = self._delta(data)
        self._has_deltas = self._has_deltas or delta is not None
        return delta

    def _delta(self, data: JsonObject) -> ReplyDelta | None:
        match data.get("type"):
            case "response.output_text.delta":
                return self._read_text(data)
            case "response.output_text.done":  # some servers send no deltas
                return None if self._has_delta(data) else self._read_text({**data, "delta": data["text"]})
            case "response.function_call_arguments.delta":
                return self._read_arguments(data)
            case "response.function_call_arguments.done":
                done = {**data, "delta": call_arguments(data.get("arguments"))}
                return None if self._has_delta(data) else self._read_arguments(done)
            case "response.refusal.delta":
                self._refusals.append(data["delta"])
            case "response.refusal.done":
                self._refusals = self._refusals or [data["refusal"]]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._read_reasoning(data)
            case "response.output_item.added":
                return self._begin_item(data["output_index"], data["item"])
            case "response.output_item.done":
                return self._end_item(data["output_index"], data["item"])
            case "response.completed" | "response.incomplete" | "response.failed" as event_type:
                self._read_last(data["response"], event_type.removeprefix("response."))
            case "error":
                raise ReportedError({"message": data.get("message"), "code": data.get("code")})
            case _:  # most events repeat what other events contain, and new types are added over time
                pass
        return None

    def _place(self, data: JsonObject) -> int:
        index: int = data.get("output_index", 0)
        return self._places.get(index, index)

    def _has_delta(self, data: JsonObject) -> bool:
        """Return True if earlier events contained the text or the arguments that an event repeats."""
        place = self._place(data)
        if data.get("output_index") in self._commentary:  # its deltas are reasoning, and not stored
            return True
        has_begun_with_all = place in self._calls and self._calls[place].arguments != ""
        return has_begun_with_all or place in self._pieces or place in self._ended

    def _place_of(self, index: int, item: JsonObject, *, is_new: bool) -> int:
        """Return the key of an item in ``_items``; some servers give all items the same index."""
        place = self._places.get(index, index)
        earlier = self._items.get(place)
        may_differ = is_new or place in self._ended
        if earlier is not None and may_differ and _identity(earlier) != _identity(item):
            place = self._places[index] = max(self._items) + 1000
        return place

    def _read_text(self, data: JsonObject) -> ReplyDelta | None:
        if data.get("output_index") in self._commentary:
            return self._read_reasoning(data)
        if not data["delta"]:
            return None
        self._pieces.setdefault(self._place(data), []).append(data["delta"])
        return ReplyDelta(data["delta"])

    def _read_reasoning(self, data: JsonObject) -> ReplyDelta | None:
        if not data["delta"]:
            return None
        previous = self._reasoning_part
        self._reasoning_part = tuple(
            data.get(name) for name in ("output_index", "summary_index", "content_index")
        )
        # parts are joined by a blank line, as in the whole reply
        separator = "" if previous in (None, self._reasoning_part) else "\n\n"
        return ReplyDelta(reasoning=separator + data["delta"])

    def _begin_item(self, index: int, item: JsonObject) -> ReplyDelta | None:
        if _is_commentary(item):
            self._commentary.add(index)
        if item["type"] != "function_call":
            return None
        place = self._place_of(index, item, is_new=True)
        self._items[place] = item
        call = ToolCallDelta(len(self._calls), item["name"], call_arguments(item.get("arguments")))
        self._calls[place] = call
        return ReplyDelta(tool_calls=(call,))

    def _end_item(self, index: int, item: JsonObject) -> ReplyDelta | None:
        place = self._place_of(index, item, is_new=False)
        self._items[place] = item
        self._ended.add(place)
        self._pieces.pop(place, None)
        begun = self._calls.get(place)
        if begun is None or item.get("status", "completed") != "completed":
            return None
        call = _tool_call(item)
        return ReplyDelta(tool_calls=(ToolCallDelta(begun.index, call.name, "", call),))

    def _read_arguments(self, data: JsonObject) -> ReplyDelta | None:
        place = self._place(data)
        call = self._calls.get(place)
        if call is None:  # only the last event contains the name of the tool
            return None
        self._pieces.setdefault(place, []).append(data["delta"])
        return ReplyDelta(tool_calls=(ToolCallDelta(call.index, call.name, data["delta"]),))

    def _streamed_output(self) -> list[JsonObject]:
        """Return the output as the events before the last one had it, in whole items or in pieces."""
        items = dict(self._items)
        for index, pieces in self._pieces.items():
            text, call = "".join(pieces), items.get(index)
            if call is not None:
                items[index] = {**call, "arguments": call_arguments(call.get("arguments")) + text}
            else:
                items[index] = {"type": "message", "content": [{"type": "output_text", "text": text}]}
        output = [items[index] for index in sorted(items)]
        if self._refusals and not any(_refusals(output)):
            part = {"type": "refusal", "refusal": "".join(self._refusals)}
            output.append({"type": "message", "content": [part]})
        return output

    def _read_last(self, response: JsonObject, status: str) -> None:
        # some servers leave out the output at the end, since all of it has been sent
        output = response.get("output") or self._streamed_output()
        self._reply = _reply(
            {"status": status, **response, "output": output}, self._provider, None, self._notes
        )
        self.done = True
