"""Says a request in the words of the Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..media import Audio, Image, Media
from ..messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    ReplyDelta,
    SystemMessage,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    Usage,
)
from ..requests import ChatRequest, JsonSchemaFormat, ResponseFormat, Tooling
from .api_spec import UnsayableError, wire_name
from .client import Place
from .sse import EventReading, ReportedError, UnreadableReplyError, at_once, parse_object


def responses_path(place: Place, model: str) -> str:
    """The path below the base URL; Azure too finds the deployment in the body here."""
    return "/responses"


def responses_body(request: ChatRequest, place: Place) -> dict[str, Any]:
    """All but the messages, a None for what is not asked for."""
    options = request.options
    effort, form = options.reasoning_effort, request.response_format
    return {
        "model": options.model,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "max_output_tokens": options.max_tokens,
        "reasoning": None if effort is None else {"effort": effort},
        "text": None if form is None else {"format": _wire_format(form)},
        **(_wire_tooling(request.tooling) if request.tooling is not None else {}),
        "store": False,  # left out, it would mean that the provider keeps what was said
    }


def _wire_format(form: ResponseFormat) -> dict[str, Any]:
    if not isinstance(form, JsonSchemaFormat):
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "name": wire_name(form.name),
        "schema": form.schema,
        "strict": form.strict,
    }


def _wire_tooling(tooling: Tooling) -> dict[str, Any]:
    tools = [
        {
            "type": "function",
            "name": wire_name(tool.name),
            "description": tool.description,
            "parameters": tool.parameters,
            # left out, it would mean true here, and change a schema that is not strict
            "strict": tool.strict,
        }
        for tool in tooling.tools
    ]
    said: dict[str, Any] = {"tools": tools}
    if tooling.choice == "required":
        said["tool_choice"] = "required"
    elif tooling.choice != "auto":
        said["tool_choice"] = {"type": "function", "name": wire_name(tooling.choice)}
    if not tooling.parallel_calls:
        said["parallel_tool_calls"] = False
    return said


def responses_items(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The items of ``input``. Raises UnsayableError when a user has a name, or says something by audio."""
    return [item for message in messages for item in _items(message)]


def _items(message: Message) -> Iterator[dict[str, Any]]:
    if isinstance(message, ToolMessage):
        yield {"type": "function_call_output", "call_id": message.call_id, "output": message.text}
    elif isinstance(message, AiMessage):
        if message.text or not message.tool_calls:
            yield {"role": "assistant", "content": message.text}
        for call in message.tool_calls:
            # without the id of the item, which would refer to a stored one and to the reasoning before it
            yield {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
    elif isinstance(message, SystemMessage):
        # not as `instructions`: JSON mode wants the word JSON in the input, and does not look there
        yield {"role": "system", "content": message.text}
    elif message.name is not None:
        raise UnsayableError(
            f"the Responses API has no names of users ({message.name!r}); "
            "put the name into the text, or use OpenAiChatModel"
        )
    else:
        said = [_part(part) for part in message.parts] if message.contents else message.text
        yield {"role": "user", "content": said}


def _part(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": part.address, "detail": part.detail or "auto"}
    if isinstance(part, Audio):
        raise UnsayableError(f"the Responses API takes no audio ({part}); use OpenAiChatModel")
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}
    return {"type": "input_file", "filename": part.file_name, "file_data": part.address}


_NOT_YET = ("queued", "in_progress", "cancelled")
_CUT_OFF = {"max_output_tokens": FinishReason.LENGTH, "content_filter": FinishReason.CONTENT_FILTER}


def read_response(raw: bytes) -> ChatReply:
    """The reply in the bytes of a response. Raises UnreadableReplyError or ReportedError."""
    return reply_of(parse_object(raw), raw)


def reply_of(data: dict[str, Any], raw: bytes | None = None) -> ChatReply:
    """The reply in a response. Raises UnreadableReplyError, or ReportedError when it failed."""
    status, output = data.get("status"), data.get("output")
    if status == "failed":
        raise ReportedError(data.get("error") or {"message": "the response failed"})
    if not isinstance(output, list):
        raise UnreadableReplyError("it has no output")
    if status in _NOT_YET:
        raise UnreadableReplyError(f"it is {status}, and an answer in the background is not waited for")
    try:
        message = AiMessage(
            "".join(_texts(output, "output_text", "text")),
            tuple(_call(item) for item in output if item["type"] == "function_call"),
            "\n\n".join(filter(None, _thoughts(output))) or None,
        )
        return ChatReply(
            message,
            _finish_reason(data, message),
            _usage_of(data.get("usage")),
            data.get("model") or "",
            data.get("id") or "",
            "".join(_texts(output, "refusal", "refusal")) or None,
            raw,
        )
    except (AttributeError, KeyError, TypeError):
        raise UnreadableReplyError("its output has another shape") from None


def is_aside(item: dict[str, Any]) -> bool:
    """Whether an item is a message that the model writes on its way, and no answer."""
    return item["type"] == "message" and item.get("phase") == "commentary"


def _texts(output: list[dict[str, Any]], kind: str, key: str) -> Iterator[str]:
    for item in output:
        if item["type"] == "message" and not is_aside(item):
            yield from (part[key] for part in item["content"] if part["type"] == kind)


def _thoughts(output: list[dict[str, Any]]) -> Iterator[str]:
    for item in output:
        if is_aside(item):
            yield from (part["text"] for part in item["content"] if part["type"] == "output_text")
        elif item["type"] == "reasoning":  # models whose thoughts are open give them as content
            yield from (part["text"] for part in [*(item.get("summary") or ()), *(item.get("content") or ())])


def _call(item: dict[str, Any]) -> ToolCall:
    return ToolCall(item["call_id"], item["name"], item["arguments"])


def _finish_reason(data: dict[str, Any], message: AiMessage) -> FinishReason:
    if data.get("status") == "incomplete":
        why = (data.get("incomplete_details") or {}).get("reason") or ""
        return _CUT_OFF.get(why, FinishReason.OTHER)
    return FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP


def _usage_of(usage: dict[str, Any] | None) -> Usage | None:
    """None when the provider counted nothing; missing counts are 0."""
    if not usage:
        return None
    return Usage(
        usage.get("input_tokens") or 0,
        usage.get("output_tokens") or 0,
        (usage.get("input_tokens_details") or {}).get("cached_tokens") or 0,
        (usage.get("output_tokens_details") or {}).get("reasoning_tokens") or 0,
    )


class ResponseReading(EventReading):
    """What has been read of one response. The event that ends it brings the whole of it once more."""

    def __init__(self, *, whole: bool = False) -> None:
        super().__init__(whole=whole)
        self._reply: ChatReply | None = None
        self._items: dict[int, dict[str, Any]] = {}
        self._calls: dict[int, ToolCallDelta] = {}
        self._asides: set[int] = set()
        self._thought: tuple[object, ...] | None = None
        self._told = False

    @property
    def finished(self) -> bool:
        return self._reply is not None

    def _last(self) -> list[ReplyDelta]:
        assert self._reply is not None
        first, last = at_once(self._reply)
        # a server may send the end alone, without pieces before it
        return [last] if self._told or first == ReplyDelta() else [first, last]

    def _read_whole(self) -> ChatReply:
        return read_response(self.seen)

    def _take(self, data: dict[str, Any]) -> ReplyDelta | None:
        delta = self._delta(data)
        self._told = self._told or delta is not None
        return delta

    def _delta(self, data: dict[str, Any]) -> ReplyDelta | None:
        match data.get("type"):
            case "response.output_text.delta":
                return self._write(data)
            case "response.function_call_arguments.delta":
                return self._call_on(data)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._think(data)
            case "response.output_item.added":
                return self._begin(data["output_index"], data["item"])
            case "response.output_item.done":
                self._items[data["output_index"]] = data["item"]
            case "response.completed" | "response.incomplete" | "response.failed" as ended:
                self._end(data["response"], ended.removeprefix("response."))
            case "error":
                raise ReportedError({"message": data.get("message"), "code": data.get("code")})
            case _:  # most events tell what is known already, and new kinds of them come with time
                pass
        return None

    def _write(self, data: dict[str, Any]) -> ReplyDelta | None:
        if data.get("output_index") in self._asides:
            return self._think(data)
        if not data["delta"]:
            return None
        self._texts.append(data["delta"])
        return ReplyDelta(data["delta"])

    def _think(self, data: dict[str, Any]) -> ReplyDelta | None:
        if not data["delta"]:
            return None
        before = self._thought
        self._thought = tuple(data.get(key) for key in ("output_index", "summary_index", "content_index"))
        # as the parts are joined in the whole reply
        return ReplyDelta(reasoning=("" if before in (None, self._thought) else "\n\n") + data["delta"])

    def _begin(self, index: int, item: dict[str, Any]) -> ReplyDelta | None:
        if is_aside(item):
            self._asides.add(index)
        if item["type"] != "function_call":
            return None
        call = ToolCallDelta(len(self._calls), item["name"], item.get("arguments") or "")
        self._calls[index] = call
        return ReplyDelta(tool_calls=(call,))

    def _call_on(self, data: dict[str, Any]) -> ReplyDelta | None:
        call = self._calls.get(data["output_index"])
        if call is None:  # what is called is told by the end
            return None
        return ReplyDelta(tool_calls=(ToolCallDelta(call.index, call.name, data["delta"]),))

    def _end(self, response: dict[str, Any], ended: str) -> None:
        # some servers leave the output out at the end, since all of its items have been sent
        output = response.get("output") or [item for _, item in sorted(self._items.items())]
        self._reply = reply_of({"status": ended, **response, "output": output})
        self.done = True
