"""Chat models for Claude through Anthropic's Messages API, without Anthropic's SDK."""

from __future__ import annotations

import logging
import os
import re
from binascii import crc32
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, Self

from pydantic_core import from_json, to_json

from ..base import Capabilities
from ..errors import AuthenticationError, ModelError, Remedy
from ..http.api import (
    ApiDialect,
    CallSettings,
    RequestWriter,
    has_member,
    json_request_writer,
    refused_options_at,
    safe_name,
)
from ..http.base import ApiKey, Credentials, HttpRequest, display_url, key_function_credentials
from ..http.model import HttpChatModel, HttpClients
from ..http.replies import (
    ErrorDetails,
    EventStreamReader,
    JsonObject,
    ReportedError,
    StreamReader,
    UnreadableReplyError,
    UnsupportedRequestError,
    WholeReplyReader,
    parse_object,
    read_error_details,
)
from ..http.usage import UsageFields, counts_of, read_finish_reason, read_usage
from ..media import Audio, Image, Media
from ..messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    ReplyDelta,
    ServerToolRun,
    SystemMessage,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    UserMessage,
)
from ..requests import ChatOptions, JsonSchemaFormat, ReasoningEffort, Tooling

_LOGGER = logging.getLogger("aiservices.anthropic")
_NO_OPTIONS = ChatOptions()
_API_VERSION = "2023-06-01"
_KEY_ADVICE = "set ANTHROPIC_API_KEY or pass api_key"
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
_MIN_BUDGET = 1024  # tokens of thinking
_ROOM_FOR_ANSWER = 4096  # tokens, in addition to those for thinking
_THINKING_BUDGETS: dict[ReasoningEffort, int] = {
    "minimal": _MIN_BUDGET,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 32_000,
}
FINISH_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.CONTENT_FILTER,
    "pause_turn": FinishReason.PAUSED,
}
USAGE = UsageFields(
    # the first one does not include the others
    ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    ("output_tokens",),
    ("cache_read_input_tokens",),
    ("output_tokens_details.thinking_tokens",),
    ("cache_creation_input_tokens",),
)
# With this beta, a model leaves out thinking that does not fit the conversation any more, instead of refusing
# the request.
_BINDING, _BINDING_BETA = "block_binding", "thinking-binding-controls-2026-08-01"
_DROP_BLOCKS = {"prefix_mismatch_behavior": "drop_block"}
# Words in Anthropic's errors about thinking that does not fit the conversation; they may change.
_STATE_ERRORS = (
    "invalid `signature` in `thinking` block",
    "bound to a different conversation",
    "`thinking` or `redacted_thinking`",
    "cannot be modified",
)


class ClaudeRules(NamedTuple):
    """The features, such as temperature or JSON Schema, that one version of Claude supports in requests.

    Attributes:
        thinking: How thinking is asked for: "none" (the model cannot think), "budget" (a number of tokens),
            "adaptive" (the model decides), or "always" (it cannot be switched off).
        efforts: The efforts that the model accepts; empty if it has no such setting.
        sampling: True if it accepts a temperature.
        forced_tools: True if it can be made to call a tool.
        structured: True if it takes a JSON Schema for its answer.
        max_tokens: The limit of the answer, if the options have none; the API requires one.
        system_anywhere: True if it takes system messages between other messages.
        binds_thinking: True if it refuses thinking after a part of the conversation before it has changed.
    """

    thinking: str = "always"
    efforts: tuple[str, ...] = ("low", "medium", "high", "xhigh", "max")
    sampling: bool = False
    forced_tools: bool = False
    structured: bool = True
    max_tokens: int = 16_384
    system_anywhere: bool = True
    binds_thinking: bool = False


_NEWEST = ClaudeRules(binds_thinking=True)  # for models that this version does not know


@lru_cache(maxsize=256)
def claude_rules(model: str) -> ClaudeRules:
    """Look up which request features, such as temperature, a Claude model supports."""
    name = model.lower()
    newer = re.search(r"(opus|sonnet|haiku|fable|mythos)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)", name)
    if newer is None:
        older = re.search(r"claude-(\d)(?:-(\d))?", name)  # claude-3-5-sonnet
        if older is None:
            return _NEWEST
        version = int(older[1]), int(older[2] or 0)
        thinking = "budget" if version >= (3, 7) else "none"
        limit = 8192 if version >= (3, 5) else 4096
        return ClaudeRules(thinking, (), True, True, False, limit, False)
    family, version = newer[1], (int(newer[2]), int(newer[3] or 0))
    if version < (4, 5):
        return ClaudeRules("budget", (), True, True, (family, version) == ("opus", (4, 1)), 16_384, False)
    if version == (4, 5):
        efforts = ("low", "medium", "high") if family == "opus" else ()
        return ClaudeRules("budget", efforts, True, True, system_anywhere=False)
    if version == (4, 6):
        return ClaudeRules("adaptive", ("low", "medium", "high", "max"), True, True, system_anywhere=False)
    if family in ("fable", "mythos"):
        is_first = version < (5, 1)
        return ClaudeRules("always", forced_tools=is_first, binds_thinking=family == "fable" and not is_first)
    if version <= (5, 0):
        return ClaudeRules("adaptive", forced_tools=True)
    return _NEWEST


class AnthropicChatModel(HttpChatModel):
    """A chat model for Claude, which calls Anthropic's Messages API.

    Its name in ``create`` is ``"anthropic:NAME"``, as in ``"anthropic:claude-sonnet-5"``. Creating a model
    opens no connection and needs no key, and Anthropic's SDK is not used. The model's thinking is kept in
    ``AiMessage.state`` and sent back, as the API requires. Options that the model refuses, such as a
    temperature, are left out, and ``Result.reasons`` says so. The API requires a limit of tokens: without
    ``max_tokens`` it is 16,384 (4,096 or 8,192 for Claude 3).

    Args:
        model: The name of the model.
        base_url: The URL of the server; by default ANTHROPIC_BASE_URL, or Anthropic's server.
        api_key: The key, or a function that returns it for each request, which may be asynchronous; by
            default ANTHROPIC_API_KEY.
        options: Options for all requests; those of a request have priority. ``extra_headers`` may have
            ``anthropic-beta``.
        capabilities: The features that the model supports, if those that its name implies are wrong.
        log_level: The level at which requests and replies are logged, without keys.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        options: ChatOptions = _NO_OPTIONS,
        capabilities: Capabilities | None = None,
        log_level: int = logging.DEBUG,
    ) -> None:
        url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com"
        url = url.rstrip("/").removesuffix("/v1")  # which belongs to the path, and is often written here
        address, name = display_url(url), f"anthropic:{model}"
        super().__init__(
            model,
            provider="anthropic",
            dialect=AnthropicDialect(f"anthropic at {address}"),
            clients=HttpClients(name, url, partial(_credentials, name, api_key)),
            address=address,
            key_advice=_KEY_ADVICE,
            capabilities=capabilities or claude_capabilities(model),
            options=options,
            logger=_LOGGER,
            log_level=log_level,
        )

    @classmethod
    def named(cls, name: str) -> Self:
        """Return a Claude model by name, hosted by Anthropic or by the server at ANTHROPIC_BASE_URL."""
        if not name:
            message = '"anthropic:" does not name a model: write the name after the colon'
            raise LookupError(f'{message}, as in "anthropic:claude-sonnet-5"')
        return cls(name)


def claude_capabilities(model: str) -> Capabilities:
    """Look up which features, such as tools and JSON Schema, a Claude model supports."""
    structured = claude_rules(model).structured
    return Capabilities(
        json_schema=structured,
        strict_schema=structured,
        requires_strict=True,
        tools=True,
        profile="anthropic",
    )


def _credentials(model_name: str, api_key: ApiKey | None) -> Credentials:
    headers = {
        "anthropic-version": _API_VERSION,
        "content-type": "application/json",
        "accept": "application/json",
        "user-agent": "aiservices",
    }
    if callable(api_key):
        return key_function_credentials(api_key, headers, "x-api-key", "", model_name)
    key = os.environ.get("ANTHROPIC_API_KEY", "") if api_key is None else api_key
    if not key.strip():
        raise AuthenticationError(f"{model_name}: there is no API key; {_KEY_ADVICE}")
    return Credentials({**headers, "x-api-key": key}, (key,))


class AnthropicDialect(ApiDialect):
    """Writes requests and parses replies in Anthropic's Messages API format.

    Args:
        provider: The API and its address, to recognize the state of messages that came from there.
        path: The path of the requests.
        members: Further members of the body of every request.
    """

    reply_name = "message of the Messages API"

    def __init__(
        self, provider: str, path: str = "/v1/messages", members: Mapping[str, object] | None = None
    ) -> None:
        self._provider = provider
        self._path = path
        self._members = members or {}
        self._refused = refused_options_at(provider)

    def check_options(self, options: ChatOptions) -> None:
        if options.temperature is not None and options.temperature > 1:
            raise UnsupportedRequestError(
                f"temperature is {options.temperature:g}; Anthropic's API takes values from 0 to 1"
            )

    def request_writer(self, settings: CallSettings) -> RequestWriter:
        options, parts = settings.options, RequestParts(settings, self._refused.get(settings.model, {}))
        members: JsonObject = {
            "model": settings.model,
            "max_tokens": parts.max_tokens,
            **parts.sampling,
            "stop_sequences": options.stop,
            "thinking": parts.thinking,
            "output_config": parts.output_config,
            "service_tier": options.service_tier,
            **parts.tools,
            **self._members,
        }
        if options.cache is not None:
            members["cache_control"] = {"type": "ephemeral", "ttl": options.cache}
        if settings.stream:
            members["stream"] = True
        message_members: dict[str, Callable[[Sequence[Message]], object]] = {
            "system": partial(_system, instructions=parts.instructions),
            "messages": partial(
                write_messages, provider=self._provider, system_anywhere=parts.rules.system_anywhere
            ),
        }
        if "tools" not in members:
            message_members["tools"] = _tools_of_history
        write = json_request_writer(self._path, members, message_members, options.extra_body)
        if not parts.binds_thinking:
            return write
        members = {
            **members,
            "thinking": {**(parts.thinking or {"type": "adaptive"}), _BINDING: _DROP_BLOCKS},
        }
        write_bound = json_request_writer(self._path, members, message_members, options.extra_body)

        def write_request(messages: Sequence[Message]) -> HttpRequest:
            if not any(isinstance(one, AiMessage) and one.state is not None for one in messages):
                return write(messages)
            return write_bound(messages)._replace(headers={"anthropic-beta": _BINDING_BETA})

        return write_request

    def read_reply(self, body: bytes, headers: Mapping[str, str], settings: CallSettings) -> ChatReply:
        return self._read(settings, body)

    def stream_reader(self, headers: Mapping[str, str], settings: CallSettings) -> StreamReader:
        if "json" in headers.get("content-type", ""):
            return WholeReplyReader(partial(self._read, settings))
        return MessageStreamReader(partial(self._reply, settings))

    def remedy(self, error: ModelError, settings: CallSettings, request: HttpRequest) -> Remedy:
        text = (error.body or str(error)).lower()
        if any(words in text for words in _STATE_ERRORS):
            return "drop state"
        if (_BINDING in text or _BINDING_BETA in text) and has_member(request, _BINDING):
            self._refused.setdefault(settings.model, {})[_BINDING] = ()
            return "send again"
        # another call may have learned it meanwhile, so the names in this request count
        names = [
            name for name in RequestParts(settings, ()).sent if name in text and has_member(request, name)
        ]
        self._refused.setdefault(settings.model, {}).update(dict.fromkeys(names, ()))
        return "send again" if names else ""

    def error_details(self, headers: Mapping[str, str], body: str) -> ErrorDetails:
        details = read_error_details(headers, body)
        return details._replace(request_id=headers.get("request-id") or details.request_id)

    def _read(self, settings: CallSettings, body: bytes) -> ChatReply:
        return self._reply(settings, parse_object(body), body)

    def _reply(self, settings: CallSettings, data: JsonObject, body: bytes | None = None) -> ChatReply:
        blocks = data.get("content")
        if data.get("type") == "error":
            raise ReportedError(data.get("error") or {})
        if not isinstance(blocks, list):
            raise UnreadableReplyError("it has no content")
        try:
            message = read_blocks(blocks, self._provider, data.get("model") or settings.model)
            return ChatReply(
                message,
                read_finish_reason(data.get("stop_reason"), FINISH_REASONS),
                read_usage(data.get("usage"), USAGE),
                data.get("model") or "",
                data.get("id") or "",
                _refusal(data, message),
                body,
                data.get("stop_reason") or "",
                (
                    *RequestParts(settings, self._refused.get(settings.model, {})).notes,
                    *_dropped_thinking(data),
                ),
                _server_tool_runs(blocks),
                tuple(citation for block in blocks for citation in block.get("citations") or ()),
            )
        except (AttributeError, KeyError, TypeError):
            raise UnreadableReplyError("its content has an unexpected shape") from None


class RequestParts:
    """Translates a request's options and tools for one version of Claude.

    Options that this version rejects are left out.

    Args:
        settings: The settings of the request.
        refused: The names of options that the model has refused before.

    Attributes:
        rules: What the model accepts.
        max_tokens: The limit of the reply, thinking included.
        sampling: The temperature and its like.
        thinking: How the model should think; None for its default.
        output_config: The effort and the JSON Schema of the answer.
        tools: The tools and the choice among them.
        instructions: What the system text has to say, because the model cannot be made to do it.
        notes: What was left out, for ``Result.reasons``.
        binds_thinking: True to ask the model to leave out thinking that does not fit any more.
        sent: The names of the options that were sent and that a model may refuse, as the API names them.
    """

    def __init__(self, settings: CallSettings, refused: Collection[str]) -> None:
        self._settings, self._refused = settings, refused
        self.rules = rules = claude_rules(settings.model)
        self._notes: list[str] = []
        self.instructions = ""
        options = settings.options
        self.max_tokens = options.max_tokens or rules.max_tokens
        self.thinking, effort = self._thinking_and_effort(options.reasoning_effort)
        self.output_config = self._output_config(effort)
        self.sampling = self._sampling(options)
        self.tools = self._tools(settings.tooling)
        if options.seed is not None:
            self._notes.append("seed was left out: Anthropic's API has none")
        self.notes = tuple(self._notes)
        headers = {name.lower(): value for name, value in (options.extra_headers or {}).items()}
        # headers of the user replace ours, and the member is an error without the beta
        has_beta = _BINDING_BETA in headers.get("anthropic-beta", _BINDING_BETA)
        self.binds_thinking = rules.binds_thinking and _BINDING not in refused and has_beta
        chosen = {
            "thinking": self.thinking,
            "effort": effort,
            "tool_choice": self.tools.get("tool_choice"),
            "service_tier": options.service_tier,
            **self.sampling,
        }
        self.sent = {name for name, value in chosen.items() if value is not None}

    def _accepts(self, name: str, accepted: bool, reason: str = "the model refuses it") -> bool:
        if accepted and name not in self._refused:
            return True
        self._notes.append(f"{name} was left out: {reason}")
        return False

    def _thinking_and_effort(self, effort: ReasoningEffort | None) -> tuple[JsonObject | None, str | None]:
        if effort is None:
            return None, None
        rules = self.rules
        if rules.thinking == "none":
            self._accepts("reasoning_effort", False, "the model does not reason")
            return None, None
        if rules.thinking == "budget":
            return self._budgeted_thinking(effort), None
        if effort == "none":
            if rules.thinking == "always":
                self._accepts("reasoning_effort", False, "the model always reasons")
                return None, None
            return ({"type": "disabled"} if self._accepts("thinking", True) else None), None
        highest = "xhigh" if "xhigh" in rules.efforts else "max"
        wanted = {"minimal": "low", "xhigh": highest}.get(effort, effort)
        thinking = {"type": "adaptive"} if self._accepts("thinking", True) else None
        return thinking, wanted if self._accepts("effort", wanted in rules.efforts) else None

    def _budgeted_thinking(self, effort: ReasoningEffort) -> JsonObject | None:
        if effort == "none" or not self._accepts("thinking", True):
            return None
        budget = _THINKING_BUDGETS[effort]
        if self._settings.options.max_tokens is None:
            self.max_tokens = max(self.max_tokens, budget + _ROOM_FOR_ANSWER)
        elif self.max_tokens <= _MIN_BUDGET:
            self._accepts("reasoning_effort", False, f"max_tokens must be more than {_MIN_BUDGET}")
            return None
        else:
            budget = max(_MIN_BUDGET, min(budget, self.max_tokens // 2))
        return {"type": "enabled", "budget_tokens": budget}

    def _output_config(self, effort: str | None) -> JsonObject | None:
        config: JsonObject = {} if effort is None else {"effort": effort}
        answer_format = self._settings.response_format
        if isinstance(answer_format, JsonSchemaFormat):
            config["format"] = {"type": "json_schema", "schema": answer_format.schema}
        elif answer_format is not None:
            raise UnsupportedRequestError("Anthropic's API has no JSON mode; pass a JSON Schema or a tool")
        return config or None

    def _sampling(self, options: ChatOptions) -> JsonObject:
        thinks = self.thinking is not None and self.thinking["type"] != "disabled"
        reason = "it cannot be combined with reasoning" if thinks else "the model refuses it"
        values = {"temperature": options.temperature, "top_p": options.top_p}
        return {
            name: value
            for name, value in values.items()
            if value is not None and self._accepts(name, self.rules.sampling and not thinks, reason)
        }

    def _tools(self, tooling: Tooling | None) -> JsonObject:
        server_tools = self._settings.options.server_tools or ()
        if tooling is None:
            return {"tools": server_tools} if server_tools else {}
        tools = [
            {
                **tool.metadata,
                "name": safe_name(tool.name),
                "description": tool.description,
                "input_schema": tool.parameters,
                **({"strict": True} if tool.strict else {}),
            }
            for tool in tooling.tools
        ]
        choice: JsonObject = {"type": tooling.choice}
        if tooling.choice not in ("auto", "none"):
            choice = self._forced_choice(tooling.choice)
        if not tooling.parallel_calls and tooling.choice != "none":
            choice["disable_parallel_tool_use"] = True
        return {
            "tools": [*tools, *server_tools],
            "tool_choice": None if choice == {"type": "auto"} else choice,
        }

    def _forced_choice(self, choice: str) -> JsonObject:
        is_forced = self.rules.forced_tools and "tool_choice" not in self._refused
        if is_forced and (self.thinking is None or self.thinking["type"] != "enabled"):
            return {"type": "any"} if choice == "required" else {"type": "tool", "name": safe_name(choice)}
        what = "one of the tools" if choice == "required" else f"the tool {safe_name(choice)}"
        self.instructions = f"Do not answer with text. Always answer by calling {what}."
        self._notes.append(f"the model cannot be forced to call {what}, so the system message asks for it")
        return {"type": "auto"}


def _system(messages: Sequence[Message], instructions: str) -> str | None:
    """Join the leading system messages and extra instructions; return None if all are blank."""
    texts = []
    for message in messages:
        if not isinstance(message, SystemMessage):
            break
        texts.append(message.text)
    texts.append(instructions)
    return "\n\n".join(text for text in texts if text.strip()) or None


def _tools_of_history(messages: Sequence[Message]) -> list[JsonObject] | None:
    """Return declarations of tools called in earlier messages; the API rejects undeclared tools.

    Returns None if the earlier messages call no tools.
    """
    answers = [message for message in messages if isinstance(message, AiMessage)]
    names = {call.name for answer in answers for call in answer.tool_calls}
    return [
        {"name": safe_name(name), "description": "", "input_schema": {"type": "object"}}
        for name in sorted(names)
    ] or None


def write_messages(messages: Sequence[Message], *, provider: str, system_anywhere: bool) -> list[JsonObject]:
    """Convert chat messages to Anthropic's API format, merging consecutive messages with the same role."""
    written: list[JsonObject] = []
    start = next((i for i, one in enumerate(messages) if not isinstance(one, SystemMessage)), len(messages))
    for index, message in enumerate(messages[start:], start):
        if isinstance(message, SystemMessage):
            follows = messages[index + 1] if index + 1 < len(messages) else None
            # it may stand before an answer of the model, or at the end
            as_system = system_anywhere and (follows is None or isinstance(follows, AiMessage)) and written
            role, blocks = ("system" if as_system else "user"), [{"type": "text", "text": message.text}]
        elif isinstance(message, AiMessage):
            parts = message.parts_for(provider)
            role, blocks = "assistant", list(parts) if parts is not None else _assistant_blocks(message)
        elif isinstance(message, ToolMessage):
            role, blocks = "user", [_tool_result(message)]
        else:
            role, blocks = "user", _user_blocks(message)
        if not blocks:
            continue
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    for one in written:
        if one["role"] == "user":  # results come first; sorting keeps the order otherwise
            one["content"].sort(key=lambda block: block["type"] != "tool_result")
    return written


def _assistant_blocks(message: AiMessage) -> list[JsonObject]:
    blocks: list[JsonObject] = [{"type": "text", "text": message.text}] if message.text.strip() else []
    for call in message.tool_calls:
        block = {"type": "tool_use", "id": safe_call_id(call.id), "name": safe_name(call.name)}
        blocks.append({**block, "input": arguments_object(call.arguments)})
    return blocks


def arguments_object(arguments: str) -> JsonObject:
    """Parse the arguments of a tool call as a JSON object.

    Other text is put into an object.
    """
    try:
        value = from_json(arguments or "{}")
    except ValueError:
        value = arguments
    return value if isinstance(value, dict) else {"arguments": value}


def safe_call_id(call_id: str) -> str:
    """Return the id of a tool call in the form that Anthropic's API requires.

    Other providers may use longer ids and other characters. Different ids stay different.
    """
    safe = _NOT_IN_IDS.sub("_", call_id)
    if safe == call_id and 0 < len(safe) <= 64:
        return safe
    return f"{safe[:55]}_{crc32(call_id.encode()):08x}"


def _tool_result(message: ToolMessage) -> JsonObject:
    result: JsonObject = {"type": "tool_result", "tool_use_id": safe_call_id(message.call_id)}
    content = [_block(part) for part in message.parts]
    if len(content) == 1 and not message.contents:
        result["content"] = message.text
    elif content:  # the API refuses an empty list
        result["content"] = content
    if message.failed:
        result["is_error"] = True
    return result


def _user_blocks(message: UserMessage) -> list[JsonObject]:
    blocks = [_block(part) for part in message.parts]
    if not blocks:
        raise UnsupportedRequestError("a user message is blank, and Anthropic's API refuses blank messages")
    if message.name is not None:
        blocks.insert(0, {"type": "text", "text": f"{message.name}:"})
    return blocks


def _block(part: str | Media) -> JsonObject:
    """Convert text, an image or a file to Anthropic's format, or raise UnsupportedRequestError."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, Audio):
        raise UnsupportedRequestError(f"Anthropic's API does not take audio ({part})")
    if isinstance(part, Image):
        return {"type": "image", "source": _source(part)}
    title = {} if part.name is None else {"title": part.name}
    kind = str(part.media_type)
    if part.data is not None and kind.startswith("text/"):
        text = part.data.decode(errors="replace")
        return {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": text},
            **title,
        }
    if part.data is not None and kind != "application/pdf":
        raise UnsupportedRequestError(f"Anthropic's API takes PDF and text files only, not {part}")
    return {"type": "document", "source": _source(part), **title}


def _source(media: Media) -> JsonObject:
    if media.data is None:
        return {"type": "url", "url": media.url}
    return {"type": "base64", "media_type": str(media.media_type), "data": media.base64}


def _tool_call(block: JsonObject) -> ToolCall:
    return ToolCall(block["id"], block["name"], to_json(block["input"]).decode())


def read_blocks(blocks: Sequence[JsonObject], provider: str, model: str) -> AiMessage:
    """Convert the content of an Anthropic reply to an AiMessage, with data to send back later."""
    texts, thoughts, calls = [], [], []
    needs_state = False
    for block in blocks:
        kind = block["type"]
        if kind == "text":
            texts.append(block["text"])
            needs_state = needs_state or bool(block.get("citations"))
        elif kind == "tool_use":
            calls.append(_tool_call(block))
        else:
            needs_state = True
            if kind == "thinking" and block["thinking"]:
                thoughts.append(block["thinking"])
    message = AiMessage("".join(texts), tuple(calls), "\n\n".join(thoughts) or None)
    return message.with_state(provider, model, blocks) if needs_state or len(texts) > 1 else message


def _refusal(data: JsonObject, message: AiMessage) -> str | None:
    if data.get("stop_reason") != "refusal":
        return None
    details = data.get("stop_details") or {}
    words = (details.get("category"), details.get("explanation") or message.text)
    return ": ".join(word for word in words if word) or "the model declined to answer"


def _dropped_thinking(data: JsonObject) -> Iterator[str]:
    """Yield a note if Claude dropped thinking blocks because the messages before them have changed."""
    changes = data.get("input_transformations") or ()
    if any(change.get("type") == "thinking_dropped" for change in changes):
        yield "earlier reasoning was left out: the conversation before it has changed"


def _server_tool_runs(blocks: Sequence[JsonObject]) -> tuple[ServerToolRun, ...]:
    results = {block["tool_use_id"]: block.get("content") for block in blocks if "tool_use_id" in block}
    return tuple(
        ServerToolRun(block["name"], block.get("input"), results.get(block["id"]))
        for block in blocks
        if block["type"] in ("server_tool_use", "mcp_tool_use")
    )


class MessageStreamReader(EventStreamReader):
    """Parses one streamed reply from Anthropic's Messages API.

    Args:
        reply: Converts the whole message, as in a reply that is not streamed.
    """

    def __init__(self, reply: Callable[[JsonObject], ChatReply]) -> None:
        super().__init__()
        self._make_reply = reply
        self._message: JsonObject = {}
        self._blocks: dict[int, JsonObject] = {}
        self._pieces: dict[int, list[str]] = {}  # of the block's text, thinking or input
        self._call_indexes: dict[int, int] = {}

    @property
    def finished(self) -> bool:
        return self.done

    def _last_deltas(self) -> list[ReplyDelta]:
        blocks = [self._complete_block(index) for index in sorted(self._blocks)]
        return [ReplyDelta(reply=self._make_reply({**self._message, "content": blocks}))]

    def _complete_block(self, index: int) -> JsonObject:
        block, text = self._blocks[index], "".join(self._pieces[index])
        kind = block["type"]
        if kind in ("text", "thinking"):
            return {**block, kind: block[kind] + text}
        if not text:
            return block
        try:
            return {**block, "input": from_json(text)}
        except ValueError:
            if self._message.get("stop_reason") == "max_tokens":  # the reply was cut off
                return block
            raise UnreadableReplyError("the arguments of a tool call are not JSON") from None

    def _read_event(self, data: JsonObject) -> ReplyDelta | None:
        match data["type"]:
            case "message_start":
                self._message = dict(data["message"])
            case "content_block_start":
                return self._start_block(data["index"], data["content_block"])
            case "content_block_delta":
                return self._read_delta(data["index"], data["delta"])
            case "content_block_stop" if data.get("index") in self._call_indexes:
                return self._end_call(data["index"])
            case "message_delta":
                self._message |= data["delta"]
                usage = self._message["usage"] = counts_of(self._message.get("usage"))
                counts = counts_of(data.get("usage")).items()  # cumulative
                usage.update({name: count for name, count in counts if count is not None})
            case "message_stop":
                self.done = True
            case "error":
                raise ReportedError(data.get("error") or {})
            case _:  # pings and the ends of other blocks say nothing, and new types are added over time
                pass
        return None

    def _start_block(self, index: int, block: JsonObject) -> ReplyDelta | None:
        self._blocks[index], self._pieces[index] = dict(block), []
        if block["type"] == "tool_use":
            call = self._call_indexes[index] = len(self._call_indexes)
            return ReplyDelta(tool_calls=(ToolCallDelta(call, block["name"], ""),))
        return self._text_delta(index, block["type"], block.get("text") or "")

    def _read_delta(self, index: int, delta: JsonObject) -> ReplyDelta | None:
        block = self._blocks[index]
        match delta["type"]:
            case "text_delta":
                self._pieces[index].append(delta["text"])
                return self._text_delta(index, "text", delta["text"])
            case "thinking_delta":
                self._pieces[index].append(delta["thinking"])
                return ReplyDelta(reasoning=delta["thinking"]) if delta["thinking"] else None
            case "input_json_delta":
                self._pieces[index].append(delta["partial_json"])
                if index not in self._call_indexes or not delta["partial_json"]:
                    return None
                call = ToolCallDelta(self._call_indexes[index], block["name"], delta["partial_json"])
                return ReplyDelta(tool_calls=(call,))
            case "signature_delta":
                block["signature"] = block.get("signature", "") + delta["signature"]
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            case _:  # new types are added over time
                pass
        return None

    def _end_call(self, index: int) -> ReplyDelta | None:
        try:
            call = _tool_call(self._complete_block(index))
        except UnreadableReplyError:  # the reply was cut off here, or is wrong: its end decides
            return None
        return ReplyDelta(tool_calls=(ToolCallDelta(self._call_indexes[index], call.name, "", call),))

    def _text_delta(self, index: int, kind: str, text: str) -> ReplyDelta | None:
        if kind != "text" or not text:
            return None
        self._texts.append(text)
        return ReplyDelta(text)
