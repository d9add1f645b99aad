"""Chat models for Claude through Anthropic's Messages API, without Anthropic's SDK."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple, Self

from output_parsers.result.reading import JsonObject

from ...models.arguments import checks_arguments
from ..base import Capabilities
from ..conversation import ConversationRules, arguments_object
from ..errors import ModelError, Remedy
from ..http.api import CallSettings, RequestWriter, has_member, json_request_writer, own_words
from ..http.base import ApiKey, HttpRequest, key_credentials
from ..http.model import check_name
from ..http.replies import (
    ErrorDetails,
    ReportedError,
    StreamReader,
    UnreadableReplyError,
    UnsupportedRequestError,
    call_arguments,
    read_error_details,
    read_tool_call,
    result_part,
)
from ..http.usage import UsageFields, counts_of, finish_reasons, read_finish_reason, read_usage
from ..media import Audio, Image, Media
from ..messages import (
    AiMessage,
    ChatReply,
    Message,
    ReplyDelta,
    ServerToolRun,
    ToolCall,
    ToolMessage,
)
from ..requests import ChatOptions, JsonSchemaFormat, ReasoningEffort, Tooling
from .blocks import (
    BlockChatModel,
    BlockDialect,
    BlockStreamReader,
    ReplyMaker,
    called_tools,
    leading_system,
)

_NO_OPTIONS = ChatOptions()
_KEY_ADVICE = "set ANTHROPIC_API_KEY or pass api_key"
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
FINISH_REASONS = finish_reasons(
    stop="end_turn stop_sequence",
    length="max_tokens model_context_window_exceeded",
    tool_calls="tool_use",
    content_filter="refusal",
    paused="pause_turn",
)
USAGE = UsageFields(
    # the first one does not include the others
    ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    ("output_tokens",),
    ("cache_read_input_tokens",),
    ("output_tokens_details.thinking_tokens",),
    ("cache_creation_input_tokens",),
)
# With this beta, a model leaves out thinking that no longer fits the conversation, instead of refusing
# the request.
_BINDING, _BINDING_BETA = "block_binding", "thinking-binding-controls-2026-08-01"
_DROP_BLOCKS = {"prefix_mismatch_behavior": "drop_block"}


class ClaudeRules(NamedTuple):
    """The features, such as temperature or JSON Schema, that one version of Claude supports in requests.

    Attributes:
        thinking: How thinking is requested: "none" (the model cannot think), "budget" (a number of tokens),
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


@checks_arguments
class AnthropicChatModel(BlockChatModel):
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
        super().__init__(
            model,
            provider="anthropic",
            # the version belongs to the path, and is often written here
            url=url.rstrip("/").removesuffix("/v1"),
            dialect=AnthropicDialect,
            credentials=partial(
                key_credentials,
                api_key=api_key,
                variables=("ANTHROPIC_API_KEY",),
                headers=_HEADERS,
                header="x-api-key",
                advice=_KEY_ADVICE,
            ),
            key_advice=_KEY_ADVICE,
            capabilities=capabilities or claude_capabilities(model),
            options=options,
            log_level=log_level,
        )

    @classmethod
    def named(cls, name: str) -> Self:
        """Return a Claude model by name, hosted by Anthropic or by the server at ANTHROPIC_BASE_URL."""
        return cls(check_name(name, "anthropic:claude-sonnet-5"))


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


_HEADERS = {
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
    "accept": "application/json",
    "user-agent": "aiservices",
}


class AnthropicDialect(BlockDialect):
    """Writes requests and parses replies in Anthropic's Messages API format."""

    api = "anthropic"
    api_name = "Anthropic's API"
    reply_name = "message of the Messages API"
    rules = ConversationRules(call_ids="[a-zA-Z0-9_-]{1,64}", system="apart", starts_with_user=True)
    state_errors = (
        "invalid `signature` in `thinking` block",
        "bound to a different conversation",
        "`thinking` or `redacted_thinking`",
        "cannot be modified",
    )

    def check_options(self, options: ChatOptions) -> None:
        if options.temperature is not None and options.temperature > 1:
            raise UnsupportedRequestError(
                f"temperature is {options.temperature:g}; Anthropic's API takes values from 0 to 1"
            )

    def request_writer(self, settings: CallSettings) -> RequestWriter:
        options, parts = settings.options, RequestParts(settings, settings.refused)
        settings.notes.extend(parts.notes)
        settings.refusable.update({name: name.replace("_", "") for name in parts.sent})
        members: JsonObject = {
            "model": settings.model,
            "max_tokens": parts.max_tokens,
            **parts.sampling,
            "stop_sequences": options.stop,
            "thinking": parts.thinking,
            "output_config": parts.output_config,
            "service_tier": options.service_tier,
            **parts.tools,
        }
        if options.cache is not None:
            members["cache_control"] = {"type": "ephemeral", "ttl": options.cache}
        if settings.stream:
            members["stream"] = True
        rules = replace(self.rules, system="before answers") if parts.rules.system_anywhere else self.rules
        message_members: dict[str, Callable[[Sequence[Message]], object]] = {
            "system": partial(_system, instructions=parts.instructions),
            "messages": self.writer(rules),
        }
        if "tools" not in members:
            message_members["tools"] = self._tools_of_history
        write = json_request_writer("/v1/messages", members, message_members, options.extra_body)
        if not parts.binds_thinking:
            return write
        members = {
            **members,
            "thinking": {**(parts.thinking or {"type": "adaptive"}), _BINDING: _DROP_BLOCKS},
        }
        write_bound = json_request_writer("/v1/messages", members, message_members, options.extra_body)

        def write_request(messages: Sequence[Message]) -> HttpRequest:
            if not any(isinstance(one, AiMessage) and one.state is not None for one in messages):
                return write(messages)
            return write_bound(messages)._replace(headers={"anthropic-beta": _BINDING_BETA})

        return write_request

    def remedy(self, error: ModelError, settings: CallSettings, request: HttpRequest) -> Remedy:
        text = own_words(error, request)
        is_binding = (_BINDING in text or _BINDING_BETA in text) and has_member(request, _BINDING)
        if is_binding and not any(words in text for words in self.state_errors):
            error.refused_options = {_BINDING: ()}
            return "send again"
        return super().remedy(error, settings, request)

    def error_details(self, headers: Mapping[str, str], body: str) -> ErrorDetails:
        details = read_error_details(headers, body)
        return details._replace(request_id=headers.get("request-id") or details.request_id)

    def _event_reader(self, reply: ReplyMaker) -> StreamReader:
        return MessageStreamReader(reply)

    def _reply(
        self, settings: CallSettings, headers: Mapping[str, str], data: JsonObject, body: bytes | None = None
    ) -> ChatReply:
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
                (*settings.notes, *_dropped_thinking(data)),
                _server_tool_runs(blocks),
                tuple(citation for block in blocks for citation in block.get("citations") or ()),
            )
        except (AttributeError, KeyError, TypeError):
            raise UnreadableReplyError("its content has an unexpected shape") from None

    def _tools_of_history(self, messages: Sequence[Message]) -> list[JsonObject] | None:
        """Return declarations of tools called in earlier messages; the API rejects undeclared tools."""
        names = map(self.rules.tool_name, called_tools(messages))
        return [
            {"name": name, "description": "", "input_schema": {"type": "object"}} for name in names
        ] or None

    def _call(self, call: ToolCall) -> JsonObject:
        return {
            "type": "tool_use",
            "id": self.rules.call_id(call.id),
            "name": self.rules.tool_name(call.name),
            "input": arguments_object(call.arguments),
        }

    def _result(self, message: ToolMessage) -> list[JsonObject]:
        result: JsonObject = {"type": "tool_result", "tool_use_id": self.rules.call_id(message.call_id)}
        content = [result_part(self._block, part) for part in message.parts]
        if len(content) == 1 and not message.contents:
            result["content"] = message.text
        elif content:  # the API refuses an empty list
            result["content"] = content
        if message.failed:
            result["is_error"] = True
        return [result]

    def _block(self, part: str | Media) -> JsonObject:
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
            source: JsonObject = {"type": "text", "media_type": "text/plain", "data": text}
            return {"type": "document", "source": source, **title}
        if part.data is not None and kind != "application/pdf":
            raise UnsupportedRequestError(f"Anthropic's API takes PDF and text files only, not {part}")
        return {"type": "document", "source": _source(part), **title}


_tool_name = AnthropicDialect.rules.tool_name


class RequestParts:
    """Translates a request's options and tools for one version of Claude.

    Options that this version rejects are left out.

    Args:
        settings: The settings of the request.
        refused: The names of options that the model has refused before.

    Attributes:
        rules: What the model accepts.
        max_tokens: The limit of the reply, thinking included.
        sampling: ``temperature`` and ``top_p``, as sent.
        thinking: How the model should think; None for its default.
        output_config: The effort and the JSON Schema of the answer.
        tools: The tools and the choice among them.
        instructions: Text added to the system prompt when the API cannot enforce the choice.
        notes: What was left out, for ``Result.reasons``.
        binds_thinking: True to ask the model to leave out thinking that no longer fits.
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
        level = {"minimal": "low", "xhigh": highest}.get(effort, effort)
        thinking = {"type": "adaptive"} if self._accepts("thinking", True) else None
        return thinking, level if self._accepts("effort", level in rules.efforts) else None

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
                "name": _tool_name(tool.name),
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
            return {"type": "any"} if choice == "required" else {"type": "tool", "name": _tool_name(choice)}
        what = "one of the tools" if choice == "required" else f"the tool {_tool_name(choice)}"
        self.instructions = f"Do not answer with text. Always answer by calling {what}."
        self._notes.append(f"the model cannot be forced to call {what}, so the system message asks for it")
        return {"type": "auto"}


def _system(messages: Sequence[Message], instructions: str) -> str | None:
    """Join the leading system messages and extra instructions; return None if all are blank."""
    return "\n\n".join(filter(str.strip, (*leading_system(messages), instructions))) or None


def _source(media: Media) -> JsonObject:
    if media.data is None:
        return {"type": "url", "url": media.url}
    return {"type": "base64", "media_type": str(media.media_type), "data": media.base64}


def _tool_call(block: JsonObject) -> ToolCall:
    return read_tool_call(block.get("id"), block["name"], call_arguments(block.get("input")) or "{}")


def _as_sent(block: JsonObject) -> JsonObject:
    """Return a block as it is sent back: the input of a call must be an object."""
    if block["type"] != "tool_use" or isinstance(block.get("input"), dict):
        return block
    return {**block, "input": arguments_object(call_arguments(block.get("input")))}


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
    if needs_state or len(texts) > 1:
        return message.with_state(provider, model, [*map(_as_sent, blocks)])
    return message


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


class MessageStreamReader(BlockStreamReader):
    """Parses one streamed reply from Anthropic's Messages API."""

    def __init__(self, reply: ReplyMaker) -> None:
        super().__init__(reply)
        self._message: JsonObject = {}

    @property
    def finished(self) -> bool:
        return self.done or self._message.get("stop_reason") is not None

    def _last_deltas(self) -> list[ReplyDelta]:
        return [ReplyDelta(reply=self._make_reply({**self._message, "content": self._complete_blocks()}))]

    def _complete_block(self, index: int) -> JsonObject:
        block, pieces = self._blocks[index], self._pieces[index]
        kind = block["type"]
        if kind in ("text", "thinking"):
            return {**block, kind: block[kind] + "".join(pieces)}
        if not any(pieces):
            return block
        is_cut_off = self._message.get("stop_reason") == "max_tokens"
        return {**block, "input": self._arguments(index, is_cut_off=is_cut_off)}

    def _tool_call(self, block: JsonObject) -> ToolCall:
        return _tool_call(block)

    def _read_event(self, data: JsonObject) -> ReplyDelta | None:
        match data["type"]:
            case "message_start":
                self._message = dict(data["message"])
            case "content_block_start":
                return self._start_block(data["index"], data["content_block"])
            case "content_block_delta":
                return self._read_delta(self._place(data["index"]), data["delta"])
            case "content_block_stop" if self._place(data.get("index", 0)) in self._call_indexes:
                return self._end_call(self._place(data["index"]))
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
        place = self._new_place(index)
        self._blocks[place], self._pieces[place] = dict(block), []
        if block["type"] == "tool_use":
            return self._start_call(place, block["name"])
        return self._add_text(block["text"]) if block["type"] == "text" else None

    def _read_delta(self, index: int, delta: JsonObject) -> ReplyDelta | None:
        block = self._blocks[index]
        match delta["type"]:
            case "text_delta":
                self._pieces[index].append(delta["text"])
                return self._add_text(delta["text"]) if block["type"] == "text" else None
            case "thinking_delta":
                self._pieces[index].append(delta["thinking"])
                return ReplyDelta(reasoning=delta["thinking"]) if delta["thinking"] else None
            case "input_json_delta":
                return self._add_arguments(index, block.get("name") or "", delta["partial_json"])
            case "signature_delta":
                block["signature"] = block.get("signature", "") + delta["signature"]
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            case _:  # new types are added over time
                pass
        return None
