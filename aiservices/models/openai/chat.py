"""Says a request in the words of the chat completions API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from pydantic_core import to_json

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
    UserMessage,
)
from ..requests import ChatRequest, JsonSchemaFormat, ResponseFormat, Tooling
from .api_spec import UnsayableError, wire_name
from .client import Place
from .sse import EventReading, UnreadableReplyError, parse_object


def chat_path(place: Place, model: str) -> str:
    """The path below the base URL."""
    # the SDK's Azure client puts the deployment into the path only when it can look into the body,
    # and a body that is already bytes cannot be looked into
    deployment = f"/deployments/{quote(model, safe='')}" if place.azure else ""
    return f"{deployment}/chat/completions"


def chat_body(request: ChatRequest, place: Place) -> dict[str, Any]:
    """All but the messages, a None for what is not asked for."""
    options = request.options
    # OpenAI's own models refuse the older name, and other servers often know only that one
    limit = "max_completion_tokens" if place.of_openai else "max_tokens"
    return {
        "model": options.model,
        "temperature": options.temperature,
        "top_p": options.top_p,
        limit: options.max_tokens,
        "stop": options.stop,
        "seed": options.seed,
        "reasoning_effort": options.reasoning_effort,
        "response_format": _wire_format(request.response_format),
        **_wire_tooling(request.tooling, of_openai=place.of_openai),
    }


def _wire_format(form: ResponseFormat | None) -> dict[str, Any] | None:
    if form is None:
        return None
    if not isinstance(form, JsonSchemaFormat):
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {"name": wire_name(form.name), "schema": form.schema, "strict": form.strict},
    }


def _wire_tooling(tooling: Tooling | None, *, of_openai: bool) -> dict[str, Any]:
    if tooling is None:
        return {}
    tools = [
        {
            "type": "function",
            "function": {
                "name": wire_name(tool.name),
                "description": tool.description,
                "parameters": tool.parameters,
                # servers that do not know the key may refuse it, hence only where it says something
                **({"strict": True} if tool.strict else {}),
            },
        }
        for tool in tooling.tools
    ]
    said: dict[str, Any] = {"tools": tools}
    if tooling.choice == "required":
        said["tool_choice"] = "required"
    elif tooling.choice != "auto":
        said["tool_choice"] = {"type": "function", "function": {"name": wire_name(tooling.choice)}}
    if not tooling.parallel_calls and of_openai:
        said["parallel_tool_calls"] = False
    return said


def chat_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages. Raises UnsayableError when they hold media in a form that the API does not take."""
    return [_wire_message(message) for message in messages]


def _wire_message(message: Message) -> dict[str, Any]:
    if isinstance(message, UserMessage):
        said = [_part(part) for part in message.parts] if message.contents else message.text
        if message.name is None:
            return {"role": "user", "content": said}
        return {"role": "user", "content": said, "name": message.name}
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.text}
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    if not message.tool_calls:
        return {"role": "assistant", "content": message.text}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}


_SOUNDS = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def _part(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, Image):
        detail = {} if part.detail is None else {"detail": part.detail}
        return {"type": "image_url", "image_url": {"url": part.address, **detail}}
    if part.data is None:
        raise UnsayableError(
            f"chat completions do not fetch {part.kind} {part}; "
            f"pass its bytes by {type(part).__name__}.from_bytes"
        )
    if isinstance(part, Audio):
        form = _SOUNDS.get(str(part.media_type))
        if form is None:
            raise UnsayableError(f"chat completions take audio as WAV or MP3, and not {part}")
        return {"type": "input_audio", "input_audio": {"data": part.base64, "format": form}}
    return {"type": "file", "file": {"filename": part.file_name, "file_data": part.address}}


def read_reply(raw: bytes) -> ChatReply:
    """The reply in the bytes of a chat completion. Raises UnreadableReplyError or ReportedError."""
    data = parse_object(raw)
    choices = data.get("choices")
    if not choices:
        raise UnreadableReplyError("it has no choices")
    try:
        choice = choices[0]
        message = choice["message"]
        text, reasoning = text_and_reasoning(message)
        calls = message.get("tool_calls")
        return ChatReply(
            AiMessage(text, _tool_calls(calls) if calls else (), reasoning or None),
            finish_reason(choice.get("finish_reason")),
            usage_of(data.get("usage")),
            data.get("model") or "",
            data.get("id") or "",
            message.get("refusal"),
            raw,
        )
    except (AttributeError, KeyError, TypeError):
        raise UnreadableReplyError("its choices have another shape") from None


def text_and_reasoning(message: dict[str, Any]) -> tuple[str, str]:
    """What a message or a delta says and thinks; compatible servers name the latter in two ways.

    Content is a text, null, or a list of parts, some of which may be thoughts.
    """
    content = message.get("content")
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    if content is None:
        return "", reasoning
    if isinstance(content, str):
        return content, reasoning
    texts = [part.get("text") or "" for part in content if part.get("type") == "text"]
    thoughts = [
        piece.get("text") or ""
        for part in content
        if part.get("type") == "thinking"
        for piece in part["thinking"]
    ]
    return "".join(texts), "".join(thoughts) or reasoning


def _tool_calls(calls: list[dict[str, Any]]) -> tuple[ToolCall, ...]:
    functions = [(call.get("id") or "", call["function"]) for call in calls if "function" in call]
    return tuple(ToolCall(id, made["name"], _arguments(made.get("arguments"))) for id, made in functions)


def _arguments(arguments: Any) -> str:
    # some servers send the object itself instead of its text
    return arguments if isinstance(arguments, str) else to_json(arguments or {}).decode()


def finish_reason(said: str | None) -> FinishReason:
    """OTHER for what is unknown or not said."""
    try:
        return FinishReason(said) if said else FinishReason.OTHER
    except ValueError:
        return FinishReason.OTHER


def usage_of(usage: dict[str, Any] | None) -> Usage | None:
    """None when the provider counted nothing; missing counts are 0."""
    if not usage:
        return None
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Usage(
        usage.get("prompt_tokens") or 0,
        usage.get("completion_tokens") or 0,
        prompt.get("cached_tokens") or 0,
        completion.get("reasoning_tokens") or 0,
    )


class ChatReading(EventReading):
    """What has been read of one chat completion."""

    def __init__(self, *, whole: bool = False) -> None:
        super().__init__(whole=whole)
        self._thoughts: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._model = self._id = ""
        self._answered = False

    @property
    def finished(self) -> bool:
        return self._reason is not None or self.done

    def _last(self) -> list[ReplyDelta]:
        if not self._answered:
            raise UnreadableReplyError("it has no choices")
        return [ReplyDelta(reply=self._reply())]

    def _read_whole(self) -> ChatReply:
        return read_reply(self.seen)

    def _take(self, data: dict[str, Any]) -> ReplyDelta | None:
        self._model = self._model or data.get("model") or ""
        self._id = self._id or data.get("id") or ""
        self._usage = usage_of(data.get("usage")) or self._usage
        choices = data.get("choices")
        if not choices:  # the event with the usage has none
            return None
        choice = choices[0]
        if choice.get("index"):  # another choice than the first, asked for with extra_body
            return None
        self._answered = True
        self._reason = choice.get("finish_reason") or self._reason
        delta = choice.get("delta") or {}
        if delta.get("refusal"):
            self._refusals.append(delta["refusal"])
        calls = delta.get("tool_calls")
        pieces = tuple(map(self._take_call, calls)) if calls else ()
        text, reasoning = text_and_reasoning(delta)
        if not text and not reasoning and not pieces:
            return None
        self._texts.append(text)
        self._thoughts.append(reasoning)
        return ReplyDelta(text, reasoning, tool_calls=pieces)

    def _take_call(self, call: dict[str, Any]) -> ToolCallDelta:
        # a piece without an index begins a call when it has an id, and goes on with the last one when not
        index = call.get("index")
        if index is None:
            index = len(self._calls) if call.get("id") or not self._calls else len(self._calls) - 1
        if index not in self._places:
            self._places[index] = len(self._calls)
            self._calls.append({"id": "", "name": "", "arguments": []})
        place = self._places[index]
        made = self._calls[place]
        function = call.get("function") or {}
        written = function.get("arguments") or ""
        made["id"] = made["id"] or call.get("id") or ""
        made["name"] += function.get("name") or ""
        made["arguments"].append(written)
        return ToolCallDelta(place, made["name"], written)

    def _reply(self) -> ChatReply:
        calls = tuple(ToolCall(call["id"], call["name"], "".join(call["arguments"])) for call in self._calls)
        message = AiMessage(self.text, calls, "".join(self._thoughts) or None)
        refusal = "".join(self._refusals) or None
        return ChatReply(message, finish_reason(self._reason), self._usage, self._model, self._id, refusal)
