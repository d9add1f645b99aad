"""Chat models for Amazon Bedrock, called through the Converse API with signed requests."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import NamedTuple, Self
from urllib.parse import quote, urlsplit
from zlib import crc32

from pydantic_core import from_json, to_json

from output_parsers.result.reading import JsonObject

from ...models.arguments import checks_arguments
from ..base import Capabilities
from ..conversation import ConversationRules, arguments_object, safe_name
from ..errors import AuthenticationError
from ..http.api import CallSettings, RequestWriter, json_request_writer
from ..http.base import (
    MAX_REPLY_BYTES,
    ApiKey,
    Credentials,
    ReplyTooLargeError,
    key_function_credentials,
)
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
from ..http.usage import UsageFields, finish_reasons, read_finish_reason, read_usage
from ..media import Audio, Image, Media
from ..messages import (
    AiMessage,
    ChatReply,
    Message,
    ReplyDelta,
    ServerToolRun,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ..requests import ChatOptions, JsonSchemaFormat, Tooling
from .anthropic import RequestParts as ClaudeRequestParts, claude_rules
from .blocks import (
    BlockChatModel,
    BlockDialect,
    BlockStreamReader,
    ReplyMaker,
    called_tools,
    leading_system,
)

_NO_OPTIONS = ChatOptions()
_KEY_ADVICE = (
    "set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or install botocore, "
    "which finds credentials in profiles and roles"
)
FINISH_REASONS = finish_reasons(
    stop="end_turn stop_sequence",
    length="max_tokens model_context_window_exceeded",
    tool_calls="tool_use",
    content_filter="guardrail_intervened content_filtered",
    malformed="malformed_tool_use malformed_model_output",
)
USAGE = UsageFields(
    # the first one does not include the others
    ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
    ("outputTokens",),
    ("cacheReadInputTokens",),
    (),
    ("cacheWriteInputTokens",),
)
# The status that belongs to an error within a stream.
_STATUS_OF_EXCEPTION = {
    "throttlingException": 429,
    "validationException": 400,
    "modelStreamErrorException": 424,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
}
_IMAGE_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_VIDEO_FORMATS = {
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/x-matroska": "mkv",
    "video/webm": "webm",
    "video/mpeg": "mpeg",
    "video/3gpp": "three_gp",
}
_FILE_FORMATS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}


class AwsKeys(NamedTuple):
    """The AWS credentials for signing requests to Amazon.

    Attributes:
        access_key: The id of the access key.
        secret_key: The secret access key.
        session_token: The token of temporary credentials; None for permanent ones.
    """

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return "AwsKeys(...)"


@checks_arguments
class BedrockChatModel(BlockChatModel):
    """An Amazon Bedrock chat model, called through the Converse API.

    Its name in ``create`` is ``"bedrock:MODEL-ID"``, as in ``"bedrock:us.anthropic.claude-sonnet-4-6"``.
    Creating a model opens no connection and needs no key, and boto3 is not used. Claude's thinking is kept in
    ``AiMessage.state`` and sent back, as the API requires.

    Args:
        model: The id of the model or of an inference profile.
        region: The region; by default AWS_REGION or AWS_DEFAULT_REGION, or "us-east-1".
        base_url: The URL of the server; by default AWS_ENDPOINT_URL_BEDROCK_RUNTIME, or the region's server.
        api_key: A Bedrock API key, or a function that returns it for each request, which may be
            asynchronous; by default AWS_BEARER_TOKEN_BEDROCK.
        keys: Returns the credentials for signing; by default those of the environment, or those that botocore
            finds if it is installed.
        options: Options for all requests; those of a request have priority.
        capabilities: The features that the model supports, if those that its name implies are wrong.
        log_level: The level at which requests and replies are logged, without keys.
    """

    def __init__(
        self,
        model: str,
        *,
        region: str | None = None,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        keys: Callable[[], AwsKeys] | None = None,
        options: ChatOptions = _NO_OPTIONS,
        capabilities: Capabilities | None = None,
        log_level: int = logging.DEBUG,
    ) -> None:
        region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        url = (
            base_url
            or os.environ.get("AWS_ENDPOINT_URL_BEDROCK_RUNTIME")
            or (f"https://bedrock-runtime.{region}.amazonaws.com")
        )
        super().__init__(
            model,
            provider="bedrock",
            url=url,
            dialect=ConverseDialect,
            credentials=partial(_credentials, region=region, api_key=api_key, keys=keys),
            key_advice=_KEY_ADVICE,
            capabilities=capabilities or bedrock_capabilities(model),
            options=options,
            log_level=log_level,
        )

    @classmethod
    def named(cls, name: str) -> Self:
        """Return an Amazon Bedrock chat model by its id, in the region that AWS_REGION names."""
        return cls(check_name(name, "bedrock:us.amazon.nova-2-lite-v1:0"))


def bedrock_capabilities(model: str) -> Capabilities:
    """Look up which features, such as tools and JSON Schema, an Amazon Bedrock model supports."""
    if "anthropic." not in model:
        return Capabilities(tools=True, profile="anthropic")
    rules = claude_rules(model)
    # Sonnet 5.5 has structured output at Anthropic, but not at Amazon.
    structured = rules.structured and "sonnet-5-5" not in model
    return Capabilities(
        json_schema=structured,
        strict_schema=structured,
        requires_strict=True,
        tools=True,
        profile="anthropic",
    )


def _credentials(
    model_name: str, region: str, api_key: ApiKey | None, keys: Callable[[], AwsKeys] | None
) -> Credentials:
    headers = {"content-type": "application/json", "user-agent": "aiservices"}
    if callable(api_key):
        return key_function_credentials(api_key, headers, "authorization", "Bearer ", model_name)
    key = api_key or (os.environ.get("AWS_BEARER_TOKEN_BEDROCK") if keys is None else None)
    if key:
        return Credentials({**headers, "authorization": f"Bearer {key}"}, (key,))
    find_keys = keys or _key_finder(model_name)
    secrets = tuple(text for text in find_keys()[1:] if text)

    def sign(url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        return signature_headers(url, body, find_keys(), region, datetime.now(UTC))

    return Credentials(headers, secrets, sign)


def _key_finder(model_name: str) -> Callable[[], AwsKeys]:
    """Return a function that finds AWS credentials in the environment or with botocore.

    The function raises AuthenticationError if it finds no credentials. Credentials from botocore are cached,
    because finding them may take a request to another server; botocore renews credentials that expire.
    """
    credentials = None

    def find_keys() -> AwsKeys:
        nonlocal credentials
        access_key, secret_key = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
        if access_key and secret_key:
            return AwsKeys(access_key, secret_key, os.environ.get("AWS_SESSION_TOKEN"))
        if credentials is None:
            try:
                credentials = import_module("botocore.session").get_session().get_credentials()
            except ImportError:
                pass
        if credentials is None:
            raise AuthenticationError(f"{model_name}: there are no credentials; {_KEY_ADVICE}")
        frozen = credentials.get_frozen_credentials()
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token)

    return find_keys


def signature_headers(url: str, body: bytes, keys: AwsKeys, region: str, now: datetime) -> dict[str, str]:
    """Return the HTTP headers that sign a POST request to Bedrock (AWS Signature Version 4)."""
    parts, moment = urlsplit(url), now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{region}/bedrock/aws4_request"
    headers = {"host": parts.netloc, "x-amz-date": moment}
    if keys.session_token:
        headers["x-amz-security-token"] = keys.session_token
    names = ";".join(sorted(headers))
    # the path is encoded once more than in the URL, so %3A becomes %253A
    canonical = "\n".join(
        (
            "POST",
            quote(parts.path, safe="/-_.~"),
            parts.query,
            *(f"{name}:{headers[name]}" for name in sorted(headers)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{keys.secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    del headers["host"]  # the client sends it anyway
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


class ConverseDialect(BlockDialect):
    """Writes requests and parses replies in Amazon Bedrock's Converse API format."""

    api = "bedrock"
    api_name = "the Converse API"
    reply_name = "response of the Converse API"
    rules = ConversationRules(call_ids="[a-zA-Z0-9_-]{1,64}", system="apart")
    state_errors = ("signature", "`thinking` or `redacted_thinking`", "cannot be modified")

    def request_writer(self, settings: CallSettings) -> RequestWriter:
        options, parts = settings.options, _RequestParts(settings, settings.refused)
        settings.notes.extend(parts.notes)
        settings.refusable.update({name: name.replace("_", "") for name in parts.sent})
        inference = {
            "maxTokens": parts.max_tokens,
            "stopSequences": options.stop,
            "temperature": parts.sampling.get("temperature"),
            "topP": parts.sampling.get("top_p"),
        }
        members: JsonObject = {
            "inferenceConfig": {name: value for name, value in inference.items() if value is not None}
            or None,
            "outputConfig": _output_config(settings),
            "additionalModelRequestFields": parts.model_fields or None,
            "serviceTier": None if options.service_tier is None else {"type": options.service_tier},
        }
        cache_point = parts.cache_point
        # Claude also accepts a message of the model at the start
        starts_with_user = "anthropic." not in settings.model
        write_messages = self.writer(replace(self.rules, starts_with_user=starts_with_user))
        message_members: dict[str, Callable[[Sequence[Message]], object]] = {
            "system": partial(_system, instructions=parts.instructions, cache_point=cache_point),
            "messages": write_messages
            if cache_point is None
            else lambda messages: self._with_cache_point(write_messages(messages), messages, cache_point),
        }
        if parts.tools is None:
            message_members["toolConfig"] = self._tools_of_history
        else:
            members["toolConfig"] = parts.tools
        method = "converse-stream" if settings.stream else "converse"
        return json_request_writer(
            f"/model/{quote(settings.model, safe='')}/{method}",
            members,
            message_members,
            options.extra_body,
            merged=("inferenceConfig", "additionalModelRequestFields"),
        )

    def error_details(self, headers: Mapping[str, str], body: str) -> ErrorDetails:
        details = read_error_details(headers, body)
        kind = headers.get("x-amzn-errortype", "").partition(":")[0]
        message = f"{kind}: {details.message}" if kind and details.message else details.message or kind
        return details._replace(
            message=message, request_id=headers.get("x-amzn-requestid") or details.request_id
        )

    def _event_reader(self, reply: ReplyMaker) -> StreamReader:
        return ConverseStreamReader(reply)

    def _reply(
        self, settings: CallSettings, headers: Mapping[str, str], data: JsonObject, body: bytes | None = None
    ) -> ChatReply:
        try:
            blocks = data["output"]["message"]["content"]
            stop_reason = data.get("stopReason") or ""
            return ChatReply(
                read_blocks(blocks, self._provider, settings.model),
                read_finish_reason(stop_reason, FINISH_REASONS),
                read_usage(data.get("usage"), USAGE),
                settings.model,
                headers.get("x-amzn-requestid", ""),
                None,
                body,
                stop_reason,
                tuple(settings.notes),
                _server_tool_runs(blocks),
                tuple(_citations(blocks)),
            )
        except (AttributeError, KeyError, TypeError):
            raise UnreadableReplyError("its output has an unexpected shape") from None

    def _with_cache_point(
        self, written: bytes, messages: Sequence[Message], cache_point: JsonObject
    ) -> bytes:
        """Add a cache point to the last of the written messages if it is the user's."""
        last = messages[-1]
        if isinstance(last, AiMessage) or not written.endswith(b"]}]"):
            return written
        # the API refuses a cache point right behind a document
        if isinstance(last, UserMessage) and "document" in self._user(last)[-1]:
            return written
        return b"%s,%s]}]" % (written[:-3], to_json(cache_point))

    def _tools_of_history(self, messages: Sequence[Message]) -> JsonObject | None:
        """Return declarations of tools called in earlier messages; the API rejects undeclared tools."""
        names = map(self.rules.tool_name, called_tools(messages))
        tools = [{"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}} for name in names]
        return {"tools": tools} if tools else None

    def _call(self, call: ToolCall) -> JsonObject:
        use = {"toolUseId": self.rules.call_id(call.id), "name": self.rules.tool_name(call.name)}
        return {"toolUse": {**use, "input": arguments_object(call.arguments)}}

    def _result(self, message: ToolMessage) -> list[JsonObject]:
        content = [result_part(self._block, part) for part in message.parts] or [{"text": "(empty)"}]
        result: JsonObject = {"toolUseId": self.rules.call_id(message.call_id), "content": content}
        if message.failed:
            result["status"] = "error"
        return [{"toolResult": result}]

    def _user(self, message: UserMessage) -> list[JsonObject]:
        blocks = super()._user(message)
        if not any("text" in block for block in blocks):  # the API requires text with documents
            blocks.append({"text": "See the attached document."})
        return blocks

    def _block(self, part: str | Media) -> JsonObject:
        if isinstance(part, str):
            return {"text": part}
        if part.data is None:
            raise UnsupportedRequestError(
                f"the Converse API does not fetch {part.kind} {part}; "
                f"pass its bytes with {type(part).__name__}.from_bytes"
            )
        kind = str(part.media_type)
        if isinstance(part, Audio):
            return {"audio": {"format": kind.rpartition("/")[2], "source": {"bytes": part.base64}}}
        if kind in _VIDEO_FORMATS:
            return {"video": {"format": _VIDEO_FORMATS[kind], "source": {"bytes": part.base64}}}
        formats = _IMAGE_FORMATS if isinstance(part, Image) else _FILE_FORMATS
        if kind not in formats:
            raise UnsupportedRequestError(f"the Converse API takes {', '.join(formats.values())}, not {part}")
        if isinstance(part, Image):
            return {"image": {"format": formats[kind], "source": {"bytes": part.base64}}}
        # letters, digits, single blanks and some signs
        name = " ".join("".join(c if c.isalnum() else " " for c in part.name or "").split()) or "document"
        return {"document": {"format": formats[kind], "name": name, "source": {"bytes": part.base64}}}


_tool_name = ConverseDialect.rules.tool_name


class _RequestParts:
    """Translates a request's options and tools for one Bedrock model.

    Options that the model rejects are left out.

    Attributes:
        max_tokens: The limit of the reply.
        sampling: ``temperature`` and ``top_p``, as sent.
        model_fields: The members that only one company's models support.
        tools: The member toolConfig.
        cache_point: The block behind which the provider caches the request; None for no cache.
        instructions: Text added to the system prompt when the API cannot enforce the choice.
        notes: What was left out.
        sent: The names of the options that were sent and that a model may refuse.
    """

    def __init__(self, settings: CallSettings, refused: Collection[str]) -> None:
        options = settings.options
        self.model_fields: JsonObject = {}
        notes: list[str] = []
        is_claude = "anthropic." in settings.model
        set_options = self._set_claude_options if is_claude else self._set_other_options
        choice, self.sent = set_options(settings, refused, notes)
        if options.seed is not None:
            notes.append("seed was left out: the Converse API has none")
        self.cache_point: JsonObject | None = None
        if options.cache is not None and (is_claude or "amazon.nova" in settings.model):
            self.cache_point = {"cachePoint": {"type": "default", "ttl": options.cache}}
        elif options.cache is not None:
            notes.append("cache was left out: only Claude and Nova have it in the Converse API")
        self.tools = _tool_config(settings.tooling, options.server_tools or (), choice, notes)
        # Nova does not accept a cache point after tools
        if self.tools is not None and self.cache_point is not None and is_claude:
            self.tools["tools"] = [*self.tools["tools"], self.cache_point]
        self.notes = tuple(notes)

    def _set_claude_options(
        self, settings: CallSettings, refused: Collection[str], notes: list[str]
    ) -> tuple[JsonObject, Collection[str]]:
        """Set what is sent to Claude; return the choice of tools and the names of what may be refused."""
        claude = ClaudeRequestParts(settings, refused)
        self.max_tokens: int | None = claude.max_tokens
        self.sampling, self.instructions = claude.sampling, claude.instructions
        if claude.thinking is not None:
            self.model_fields["thinking"] = claude.thinking
        if claude.output_config is not None and "effort" in claude.output_config:
            self.model_fields["output_config"] = {"effort": claude.output_config["effort"]}
        notes += [note for note in claude.notes if not note.startswith("seed")]
        return claude.tools.get("tool_choice") or {"type": "auto"}, claude.sent

    def _set_other_options(
        self, settings: CallSettings, refused: Collection[str], notes: list[str]
    ) -> tuple[JsonObject, Collection[str]]:
        """Set what is sent to other models, as for Claude."""
        options = settings.options
        self.max_tokens, self.instructions = options.max_tokens, ""
        values = {"temperature": options.temperature, "top_p": options.top_p}
        self.sampling = {
            name: value for name, value in values.items() if value is not None and name not in refused
        }
        effort = options.reasoning_effort
        if effort is not None and "reasoning_effort" not in refused:
            self.model_fields |= _reasoning_fields(settings.model, effort, notes)
        choice = _choice(settings.tooling, refused)
        sent = {*self.sampling, *self.model_fields}
        if choice["type"] != "auto":
            sent.add("tool_choice")
        notes += [f"{name} was left out: the model refuses it" for name in sorted(refused)]
        return choice, sent


def _reasoning_fields(model: str, effort: str, notes: list[str]) -> JsonObject:
    if effort == "none":
        return {}
    level = {"minimal": "low", "xhigh": "high", "max": "high"}.get(effort, effort)
    if "gpt-oss" in model:
        return {"reasoning_effort": level}
    if "qwen" in model:
        return {"reasoning_config": "low" if level == "low" else "high"}
    notes.append("reasoning_effort was left out: this model's format for it is unknown")
    return {}


def _choice(tooling: Tooling | None, refused: Collection[str]) -> JsonObject:
    choice = "auto" if tooling is None else tooling.choice
    if choice in ("auto", "none"):
        return {"type": choice}
    if "tool_choice" in refused:
        return {"type": "auto"}
    return {"type": "any"} if choice == "required" else {"type": "tool", "name": _tool_name(choice)}


def _tool_config(
    tooling: Tooling | None,
    server_tools: Sequence[Mapping[str, object]],
    choice: JsonObject,
    notes: list[str],
) -> JsonObject | None:
    if tooling is None:
        return {"tools": server_tools} if server_tools else None
    tools: list[Mapping[str, object]] = [
        {
            "toolSpec": {
                **tool.metadata,
                "name": _tool_name(tool.name),
                **({"description": tool.description} if tool.description else {}),  # it must not be empty
                "inputSchema": {"json": tool.parameters},
                **({"strict": True} if tool.strict else {}),
            }
        }
        for tool in tooling.tools
    ]
    config: JsonObject = {"tools": [*tools, *server_tools]}
    kind = choice["type"]
    if kind == "none":
        notes.append('tool_choice "none" was left out: the Converse API does not support it')
    elif kind != "auto":
        config["toolChoice"] = {kind: {"name": choice["name"]} if kind == "tool" else {}}
    return config


def _output_config(settings: CallSettings) -> JsonObject | None:
    answer_format = settings.response_format
    if answer_format is None:
        return None
    if not isinstance(answer_format, JsonSchemaFormat):
        raise UnsupportedRequestError("the Converse API has no JSON mode; pass a JSON Schema or a tool")
    schema = {"name": safe_name(answer_format.name), "schema": to_json(answer_format.schema).decode()}
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}


def _system(
    messages: Sequence[Message], instructions: str, cache_point: JsonObject | None
) -> list[JsonObject] | None:
    texts = (*leading_system(messages), instructions)
    blocks: list[JsonObject] = [{"text": text} for text in texts if text.strip()]
    if blocks and cache_point is not None:
        blocks.append(cache_point)
    return blocks or None


def _tool_call(use: JsonObject) -> ToolCall:
    return read_tool_call(use.get("toolUseId"), use["name"], call_arguments(use.get("input")) or "{}")


def _as_sent(block: JsonObject) -> JsonObject:
    """Return a block as it is sent back: the input of a call must be an object."""
    use = block.get("toolUse")
    if use is None or isinstance(use.get("input"), dict):
        return block
    return {"toolUse": {**use, "input": arguments_object(call_arguments(use.get("input")))}}


def read_blocks(blocks: Sequence[JsonObject], provider: str, model: str) -> AiMessage:
    """Convert the content of a Bedrock reply to an AiMessage, with data to send back later."""
    texts, thoughts, calls = [], [], []
    needs_state = False
    for block in blocks:
        if "text" in block:
            texts.append(block["text"])
        elif "citationsContent" in block:  # text with its sources
            needs_state = True
            texts += [one["text"] for one in block["citationsContent"].get("content") or () if "text" in one]
        elif "toolUse" in block and not _is_server_tool(block):
            calls.append(_tool_call(block["toolUse"]))
        else:
            needs_state = True
            thoughts.append(
                ((block.get("reasoningContent") or {}).get("reasoningText") or {}).get("text") or ""
            )
    message = AiMessage("".join(texts), tuple(calls), "\n\n".join(filter(None, thoughts)) or None)
    if needs_state or len(texts) > 1:
        return message.with_state(provider, model, [*map(_as_sent, blocks)])
    return message


def _is_server_tool(block: JsonObject) -> bool:
    """Return True if the provider itself runs the called tool, such as Nova's code interpreter."""
    return bool(block["toolUse"].get("type") == "server_tool_use")


def _server_tool_runs(blocks: Sequence[JsonObject]) -> tuple[ServerToolRun, ...]:
    results = {
        block["toolResult"]["toolUseId"]: block["toolResult"].get("content")
        for block in blocks
        if "toolResult" in block
    }
    uses = [block["toolUse"] for block in blocks if "toolUse" in block and _is_server_tool(block)]
    return tuple(ServerToolRun(use["name"], use.get("input"), results.get(use["toolUseId"])) for use in uses)


def _citations(blocks: Sequence[JsonObject]) -> Iterator[JsonObject]:
    for block in blocks:
        yield from (block.get("citationsContent") or {}).get("citations") or ()


class FrameDecoder:
    """Decodes Amazon's binary event streams into the type and the JSON of each event.

    Each frame has its length, the length of its headers and a checksum of both, then the headers, the payload
    and a checksum of the whole frame. Raises UnreadableReplyError for a damaged frame.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes, /) -> list[bytes]:
        self._buffer += chunk
        events = []
        start, buffer = 0, self._buffer
        while len(buffer) - start >= 12:
            size, headers_size, checksum = struct.unpack_from(">III", buffer, start)
            if crc32(buffer[start : start + 8]) != checksum:
                raise UnreadableReplyError("a frame of the stream is damaged")
            if size > MAX_REPLY_BYTES:
                raise ReplyTooLargeError
            if len(buffer) - start < size:
                break
            frame = bytes(buffer[start : start + size])
            if crc32(frame[:-4]) != struct.unpack(">I", frame[-4:])[0]:
                raise UnreadableReplyError("a frame of the stream is damaged")
            events.append(_event_json(_headers(frame[12 : 12 + headers_size]), frame[12 + headers_size : -4]))
            start += size
        del buffer[:start]
        return events

    def end(self) -> list[bytes]:
        """Return an empty list: an incomplete event at the end of the stream is discarded."""
        return []


def _headers(data: bytes) -> dict[str, str]:
    """Parse the headers of an event in Amazon's binary stream, whose values must all be strings."""
    headers, position = {}, 0
    while position < len(data):
        end = position + 1 + data[position]
        name, kind = data[position + 1 : end].decode(), data[end]
        if kind != 7:  # text
            raise UnreadableReplyError("a frame of the stream has a header of an unknown type")
        size = int.from_bytes(data[end + 1 : end + 3], "big")
        headers[name] = data[end + 3 : end + 3 + size].decode()
        position = end + 3 + size
    return headers


def _event_json(headers: Mapping[str, str], payload: bytes) -> bytes:
    if headers.get(":message-type") in ("exception", "error"):
        kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
        try:
            message = from_json(payload).get("message", "")
        except (ValueError, AttributeError):
            message = headers.get(":error-message", "")
        code = str(_STATUS_OF_EXCEPTION.get(kind, 500))
        return to_json({"error": {"message": f"{kind}: {message}", "code": code}})
    return b"{%b:%b}" % (to_json(headers.get(":event-type", "")), payload)


class ConverseStreamReader(BlockStreamReader):
    """Parses one streamed reply from Bedrock's Converse API."""

    def __init__(self, reply: ReplyMaker) -> None:
        super().__init__(reply, FrameDecoder())
        self._citations: dict[int, list[JsonObject]] = {}
        self._stop_reason: str | None = None
        self._usage: JsonObject | None = None

    @property
    def finished(self) -> bool:
        return self._stop_reason is not None

    def _last_deltas(self) -> list[ReplyDelta]:
        data = {
            "output": {"message": {"content": self._complete_blocks()}},
            "stopReason": self._stop_reason,
            "usage": self._usage,
        }
        return [ReplyDelta(reply=self._make_reply(data))]

    def _complete_block(self, index: int) -> JsonObject:
        block = self._blocks[index]
        if index in self._citations:
            return {"citationsContent": {"content": [block], "citations": self._citations[index]}}
        if "toolUse" not in block:
            return block
        arguments = self._arguments(index, is_cut_off=self._stop_reason == "max_tokens")
        return {"toolUse": {**block["toolUse"], "input": arguments}}

    def _tool_call(self, block: JsonObject) -> ToolCall:
        return _tool_call(block["toolUse"])

    def _read_event(self, data: JsonObject) -> ReplyDelta | None:
        for kind, event in data.items():
            match kind:
                case "contentBlockStart":
                    return self._start_block(event["contentBlockIndex"], event["start"])
                case "contentBlockDelta":
                    return self._read_delta(self._place(event["contentBlockIndex"]), event["delta"])
                case "contentBlockStop":
                    place = self._place(event.get("contentBlockIndex", 0))
                    return self._end_call(place) if place in self._call_indexes else None
                case "messageStop":
                    self._stop_reason = event["stopReason"]
                case "metadata":  # the last event
                    self._usage = event.get("usage")
                    self.done = self.finished
                case _:
                    if kind in _STATUS_OF_EXCEPTION:
                        raise ReportedError({**event, "code": str(_STATUS_OF_EXCEPTION[kind])})
        return None

    def _start_block(self, index: int, start: JsonObject) -> ReplyDelta | None:
        if "toolResult" in start:  # the result of a tool that the provider runs
            self._blocks[self._new_place(index)] = {"toolResult": {**start["toolResult"], "content": []}}
        if "toolUse" not in start:
            return None
        place = self._new_place(index)
        self._blocks[place], self._pieces[place] = {"toolUse": dict(start["toolUse"])}, []
        is_server_tool = _is_server_tool(self._blocks[place])
        return None if is_server_tool else self._start_call(place, start["toolUse"]["name"])

    def _read_delta(self, index: int, delta: JsonObject) -> ReplyDelta | None:
        if "text" in delta:
            block = self._blocks.setdefault(index, {"text": ""})
            block["text"] += delta["text"]
            return self._add_text(delta["text"])
        if "toolUse" in delta:
            name = self._blocks[index]["toolUse"]["name"]
            return self._add_arguments(index, name, delta["toolUse"]["input"])
        if "toolResult" in delta:
            self._blocks[index]["toolResult"]["content"] += delta["toolResult"]
        elif "citation" in delta:
            self._citations.setdefault(index, []).append(delta["citation"])
        if "reasoningContent" in delta:
            return self._read_reasoning(index, delta["reasoningContent"])
        return None

    def _read_reasoning(self, index: int, piece: JsonObject) -> ReplyDelta | None:
        content = self._blocks.setdefault(index, {"reasoningContent": {}})["reasoningContent"]
        if "redactedContent" in piece:
            content["redactedContent"] = content.get("redactedContent", "") + piece["redactedContent"]
            return None
        reasoning = content.setdefault("reasoningText", {"text": ""})
        for name in ("text", "signature"):
            if name in piece:
                reasoning[name] = reasoning.get(name, "") + piece[name]
        return ReplyDelta(reasoning=piece["text"]) if piece.get("text") else None
