"""Chat models for Gemini through Google's own API (AI Studio and Vertex AI), without Google's SDK."""

from __future__ import annotations

import logging
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from importlib import import_module
from typing import NamedTuple, Self
from urllib.parse import quote

from pydantic_core import from_json, to_json

from output_parsers.result.reading import JsonObject

from ...models.arguments import checks_arguments
from ..base import Capabilities
from ..conversation import ConversationRules, arguments_object
from ..errors import AuthenticationError, DefinitionError, DefinitionProblem, install_command
from ..http.api import CallSettings, RequestWriter, json_request_writer
from ..http.base import ApiKey, Credentials, KeyFunction, key_credentials, key_function_credentials
from ..http.model import check_name
from ..http.replies import (
    ErrorDetails,
    EventStreamReader,
    StreamReader,
    UnreadableReplyError,
    read_error_details,
    read_media,
    read_tool_call,
)
from ..http.usage import UsageFields, counts_of, finish_reasons, read_finish_reason, read_usage
from ..media import Media
from ..messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    ReplyDelta,
    ServerToolRun,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    UserMessage,
)
from ..requests import ChatOptions, ImageFormat, JsonSchemaFormat, ReasoningEffort, Tooling
from .blocks import BlockChatModel, BlockDialect, ReplyMaker, leading_system

_NO_OPTIONS = ChatOptions()
_KEY_ADVICE = "set GEMINI_API_KEY or GOOGLE_API_KEY, or pass api_key"
_VERTEX_ADVICE = (
    f"pass token, or sign in with gcloud auth application-default login after {install_command('vertex')}"
)
_VERTEX_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_CONTINUATION = "continuationToken"
_DATA = "inlineData"  # images and other media in the content of a message
_MADE_UP_ID = "no_id_"  # of calls for which Gemini sent no id; such ids are not sent back
# What Google documents for calls of tools that have no signature, because another model made them.
_NO_SIGNATURE = b64encode(b"skip_thought_signature_validator").decode()
_THINKING_BUDGETS: dict[ReasoningEffort, int] = {
    "none": 0,
    "minimal": 512,
    "low": 1024,
    "medium": 8192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
FINISH_REASONS = finish_reasons(
    stop="stop",
    length="max_tokens",
    paused="continuation",
    content_filter="safety recitation blocklist prohibited_content spii model_armor language image_safety "
    "image_prohibited_content image_recitation image_other",
    malformed="malformed_function_call unexpected_tool_call too_many_tool_calls missing_thought_signature "
    "malformed_response",
)
USAGE = UsageFields(
    ("promptTokenCount", "toolUsePromptTokenCount"),
    ("candidatesTokenCount", "thoughtsTokenCount"),
    ("cachedContentTokenCount",),
    ("thoughtsTokenCount",),
)


class GeminiRules(NamedTuple):
    """The features, such as reasoning or JSON Schema, that one version of Gemini supports in requests.

    Attributes:
        thinking: How reasoning is requested: "none" (the model does not reason), "budget" (a number of
            tokens) or "level" (a word).
        can_stop_thinking: True if reasoning can be switched off.
        minimal_level: True if the model has the level "minimal".
        schema_with_tools: True if an answer can have a JSON Schema while tools are offered.
        signatures: True if the model requires the signatures of its calls of tools.
    """

    thinking: str = "level"
    can_stop_thinking: bool = False
    minimal_level: bool = True
    schema_with_tools: bool = True
    signatures: bool = True


@lru_cache(maxsize=256)
def gemini_rules(model: str) -> GeminiRules:
    """Look up which request features, such as reasoning, a Gemini model supports."""
    match = re.search(r"gemini-(\d)(?:\.(\d))?(-pro)?", model.lower())
    if match is None:
        return GeminiRules()
    version, is_pro = (int(match[1]), int(match[2] or 0)), match[3] is not None
    if version < (2, 5):
        return GeminiRules("none", False, False, False, False)
    if version < (3, 0):
        return GeminiRules("budget", not is_pro, False, False, False)
    return GeminiRules(minimal_level=not is_pro and version != (3, 7))


@checks_arguments
class GeminiChatModel(BlockChatModel):
    """A chat model for Gemini, which calls Google's own API in AI Studio or on Vertex AI.

    Its names in ``create`` are ``"google:NAME"`` (or ``"gemini:NAME"``) and ``"google-vertex:NAME"``.
    Creating a model opens no connection and needs no key, and Google's SDK is not used. The signatures that
    Gemini adds to its messages are kept in ``AiMessage.state`` and sent back, as the API requires.

    Args:
        model: The name of the model.
        base_url: The URL of the server; by default GEMINI_BASE_URL, or the server of AI Studio.
        api_key: The key of AI Studio, or a function that returns it for each request, which may be
            asynchronous; by default GEMINI_API_KEY or GOOGLE_API_KEY.
        token: Returns an access token for Vertex AI; it may be asynchronous. It is called for every request,
            so it should keep the token until it expires.
        options: Options for all requests; those of a request have priority.
        capabilities: The features that the model supports, if those that its name implies are wrong.
        log_level: The level at which requests and replies are logged, without keys.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        token: KeyFunction | None = None,
        options: ChatOptions = _NO_OPTIONS,
        capabilities: Capabilities | None = None,
        log_level: int = logging.DEBUG,
    ) -> None:
        url = (
            base_url
            or os.environ.get("GEMINI_BASE_URL")
            or "https://generativelanguage.googleapis.com/v1beta"
        )
        is_vertex = token is not None
        super().__init__(
            model,
            provider="google-vertex" if is_vertex else "google",
            url=url,
            dialect=GeminiDialect,
            credentials=partial(_credentials, api_key=api_key, token=token),
            key_advice=_VERTEX_ADVICE if is_vertex else _KEY_ADVICE,
            capabilities=capabilities or gemini_capabilities(model),
            options=options,
            log_level=log_level,
        )

    @classmethod
    def named(cls, name: str) -> Self:
        """Return a Gemini model by name, hosted in AI Studio or by the server at GEMINI_BASE_URL."""
        return cls(check_name(name, "google:gemini-3-pro"))

    @classmethod
    def vertex(
        cls,
        name: str,
        *,
        project: str | None = None,
        location: str | None = None,
        token: KeyFunction | None = None,
        options: ChatOptions = _NO_OPTIONS,
        capabilities: Capabilities | None = None,
    ) -> Self:
        """Return a Gemini model on Vertex AI.

        Args:
            name: The name of the model.
            project: The Google Cloud project; by default GOOGLE_CLOUD_PROJECT.
            location: The region; by default GOOGLE_CLOUD_LOCATION, or "global".
            token: Returns an access token; by default, google-auth does.
            options: Options for all requests.
            capabilities: The features that the model supports, if those that its name implies are wrong.
        """
        project = project or os.environ.get("GOOGLE_CLOUD_PROJECT")
        if not name or not project:
            message = "pass a project or set GOOGLE_CLOUD_PROJECT" if name else "name a model after the colon"
            raise DefinitionError([DefinitionProblem(f"google-vertex:{name}", message)])
        location = location or os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
        host = "aiplatform.googleapis.com"
        if location != "global":
            host = f"{location}-{host}"
        return cls(
            name,
            base_url=f"https://{host}/v1/projects/{project}/locations/{location}/publishers/google",
            token=token or google_token(f"google-vertex:{name}"),
            options=options,
            capabilities=capabilities,
        )


def gemini_capabilities(model: str) -> Capabilities:
    """Look up which features, such as tools and JSON Schema, a Gemini model supports."""
    return Capabilities(
        json_schema=True,
        strict_schema=True,
        json_mode=True,
        tools=True,
        schema_with_tools=gemini_rules(model).schema_with_tools,
        profile="gemini",
        image_output="-image" in model,
    )


def _credentials(model_name: str, api_key: ApiKey | None, token: KeyFunction | None) -> Credentials:
    if token is not None:
        source = "the function for the access token"
        return key_function_credentials(token, _HEADERS, "authorization", "Bearer ", model_name, source)
    return key_credentials(
        model_name,
        api_key,
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        headers=_HEADERS,
        header="x-goog-api-key",
        advice=_KEY_ADVICE,
    )


_HEADERS = {"content-type": "application/json", "accept": "application/json", "user-agent": "aiservices"}


def google_token(model_name: str) -> Callable[[], str]:
    """Return a function that gets access tokens for Google Cloud from the package google-auth."""
    credentials = None

    def token() -> str:
        nonlocal credentials
        try:
            google_auth = import_module("google.auth")
            requests = import_module("google.auth.transport.requests")
        except ImportError:
            raise AuthenticationError(f"{model_name}: there is no access token; {_VERTEX_ADVICE}") from None
        if credentials is None:
            credentials, _ = google_auth.default(scopes=[_VERTEX_SCOPE])
        if not credentials.valid:
            credentials.refresh(requests.Request())
        return str(credentials.token)

    return token


class GeminiDialect(BlockDialect):
    """Writes requests and parses replies in the format of Gemini's generateContent method."""

    api = "gemini"
    api_name = "Gemini's API"
    reply_name = "response of generateContent"
    rules = ConversationRules(
        tool_names="[a-zA-Z_][a-zA-Z0-9_-]{0,63}",
        system="apart",
        answer_images="any",
        starts_with_user=True,
    )
    state_errors = ("thought_signature", "thought signature", "thoughtsignature")
    model_role = "model"
    content = "parts"

    def request_writer(self, settings: CallSettings) -> RequestWriter:
        options, rules = settings.options, gemini_rules(settings.model)
        answer_format = settings.response_format
        schema = answer_format.schema if isinstance(answer_format, JsonSchemaFormat) else None
        images = answer_format if isinstance(answer_format, ImageFormat) else None
        thinking, notes = self._thinking(settings)
        settings.notes.extend(notes)
        if thinking is not None:
            settings.refusable["reasoning_effort"] = "think"
        config = {
            "temperature": options.temperature,
            "topP": options.top_p,
            "maxOutputTokens": options.max_tokens,
            "stopSequences": options.stop,
            "seed": options.seed,
            "responseMimeType": None if answer_format in (None, images) else "application/json",
            "responseModalities": ("TEXT", "IMAGE") if images else None,
            "responseJsonSchema": schema,
            "thinkingConfig": thinking,
        }
        members: JsonObject = {
            "generationConfig": {name: value for name, value in config.items() if value is not None} or None,
            "serviceTier": options.service_tier,
            **self._tools(settings.tooling, options.server_tools or ()),
        }
        method = "streamGenerateContent?alt=sse" if settings.stream else "generateContent"
        return json_request_writer(
            f"/models/{quote(settings.model, safe='')}:{method}",
            members,
            {
                "systemInstruction": _system_instruction,
                "contents": self._contents_writer(rules),
                _CONTINUATION: partial(_continuation_token, provider=self._provider),
            },
            options.extra_body,
            merged=("generationConfig", "toolConfig"),
        )

    def error_details(self, headers: Mapping[str, str], body: str) -> ErrorDetails:
        return read_google_error(headers, body)

    def _event_reader(self, reply: ReplyMaker) -> StreamReader:
        return GeminiStreamReader(reply)

    def _reply(
        self, settings: CallSettings, headers: Mapping[str, str], data: JsonObject, body: bytes | None = None
    ) -> ChatReply:
        try:
            blocked = (data.get("promptFeedback") or {}).get("blockReason")
            candidate = _first_candidate(data, blocked=bool(blocked))
            parts = (candidate.get("content") or {}).get("parts") or []
            stop_reason = candidate.get("finishReason") or ""
            model = data.get("modelVersion") or settings.model
            message = read_parts(parts, self._provider, model)
            token = candidate.get(_CONTINUATION)
            if token and stop_reason == "CONTINUATION":
                message = message.with_state(self._provider, model, [*parts, {_CONTINUATION: token}])
            grounding = candidate.get("groundingMetadata") or {}
            return ChatReply(
                message,
                FinishReason.CONTENT_FILTER
                if blocked
                else read_finish_reason(stop_reason, FINISH_REASONS, message),
                read_usage(data.get("usageMetadata"), USAGE),
                data.get("modelVersion") or "",
                data.get("responseId") or "",
                None,
                body,
                blocked or stop_reason,
                tuple(settings.notes),
                _server_tool_runs(parts),
                tuple(_citations(grounding)),
            )
        except (AttributeError, KeyError, TypeError):
            raise UnreadableReplyError("its candidates have an unexpected shape") from None

    def _thinking(self, settings: CallSettings) -> tuple[JsonObject | None, tuple[str, ...]]:
        """Return the ``thinkingConfig`` of a Gemini request, and notes on what the model does not support."""
        effort, rules = settings.options.reasoning_effort, gemini_rules(settings.model)
        if effort is None:
            return None, ()
        if rules.thinking == "none":
            return None, ("reasoning_effort was left out: the model does not reason",)
        if "reasoning_effort" in settings.refused:
            return None, ("reasoning_effort was left out: the model refuses it",)
        lowest = ("the model always reasons, so it reasons as little as it can",)
        if rules.thinking == "budget":
            if effort == "none" and not rules.can_stop_thinking:
                return {"thinkingBudget": 128}, lowest
            thoughts: JsonObject = {} if effort == "none" else {"includeThoughts": True}
            return {"thinkingBudget": _THINKING_BUDGETS[effort], **thoughts}, ()
        level = {"none": "minimal", "max": "xhigh"}.get(effort, effort)
        if level == "minimal" and not rules.minimal_level:
            level = "low"
        notes = lowest if effort == "none" else ()
        return {"thinkingLevel": level, **({} if effort == "none" else {"includeThoughts": True})}, notes

    def _tools(self, tooling: Tooling | None, server_tools: Sequence[Mapping[str, object]]) -> JsonObject:
        if tooling is None:
            return {"tools": server_tools} if server_tools else {}
        functions = [
            {
                **tool.metadata,
                "name": self.rules.tool_name(tool.name),
                "description": tool.description,
                "parametersJsonSchema": tool.parameters,
            }
            for tool in tooling.tools
        ]
        members: JsonObject = {"tools": [{"functionDeclarations": functions}, *server_tools]}
        calling: JsonObject = {}
        if tooling.choice == "none":
            calling = {"mode": "NONE"}
        elif tooling.choice == "required":
            calling = {"mode": "ANY"}
        elif tooling.choice != "auto":
            calling = {"mode": "ANY", "allowedFunctionNames": [self.rules.tool_name(tooling.choice)]}
        elif any(tool.strict for tool in tooling.tools):
            calling = {"mode": "VALIDATED"}
        return {**members, "toolConfig": {"functionCallingConfig": calling}} if calling else members

    # --- Messages ---

    def _contents_writer(self, rules: GeminiRules) -> Callable[[Sequence[Message]], bytes]:
        # messages are written in another way for models that require signatures
        dialect = _SigningDialect(self._provider) if rules.signatures else self
        write = dialect.writer()

        def write_contents(messages: Sequence[Message]) -> bytes:
            while _continuation_token(messages, self._provider):  # it represents the text written so far
                messages = messages[:-1]
            return write(messages)

        return write_contents

    def _returned(self, parts: Sequence[JsonObject], message: AiMessage) -> Sequence[object]:
        media = [part for part in message.contents if not isinstance(part, str)]
        return [self._with_data(part, media) for part in parts if _CONTINUATION not in part]

    def _with_data(self, part: JsonObject, media: Sequence[Media]) -> JsonObject:
        """Return a stored part of a Gemini reply with its image, audio or file data put back."""
        index = part[_DATA].get("index") if _DATA in part else None
        if index is None:
            return part
        return {**part, **self._block(media[index])} if index < len(media) else {"text": ""}

    def _answer(self, message: AiMessage) -> list[JsonObject]:
        return [*map(self._block, message.parts), *map(self._call, message.tool_calls)]

    def _user(self, message: UserMessage) -> list[JsonObject]:
        return super()._user(message) if message.parts else [{"text": message.text}]

    def _call(self, call: ToolCall) -> JsonObject:
        name = self.rules.tool_name(call.name)
        return {"functionCall": {**_call_id(call.id), "name": name, "args": arguments_object(call.arguments)}}

    def _result(self, message: ToolMessage) -> list[JsonObject]:
        response, media = self._response(message)
        return [{"functionResponse": response}, *media]

    def _response(self, message: ToolMessage) -> tuple[JsonObject, list[JsonObject]]:
        response: JsonObject = {
            **_call_id(message.call_id),
            "name": self.rules.tool_name(message.name),
            "response": {"error" if message.failed else "output": message.text},
        }
        return response, [self._block(part) for part in message.contents if not isinstance(part, str)]

    def _block(self, part: str | Media) -> JsonObject:
        if isinstance(part, str):
            return {"text": part}
        kind = {} if part.media_type is None else {"mimeType": str(part.media_type)}
        if part.data is None:
            return {"fileData": {"fileUri": part.url, **kind}}
        return {"inlineData": {"data": part.base64, **kind}}


class _SigningDialect(GeminiDialect):
    """Writes messages for models that require the signatures of their calls, since Gemini 3."""

    _variant = "signatures"

    def _answer(self, message: AiMessage) -> list[JsonObject]:
        calls = list(map(self._call, message.tool_calls))
        if calls:
            calls[0]["thoughtSignature"] = _NO_SIGNATURE
        return [*map(self._block, message.parts), *calls]

    def _result(self, message: ToolMessage) -> list[JsonObject]:
        response, media = self._response(message)
        return [{"functionResponse": {**response, "parts": media} if media else response}]


def _system_instruction(messages: Sequence[Message]) -> JsonObject | None:
    parts = [{"text": text} for text in leading_system(messages) if text.strip()]
    return {"parts": parts} if parts else None


def _continuation_token(messages: Sequence[Message], provider: str) -> str | None:
    """Return the token that lets Gemini continue its interrupted last message, or None."""
    last = messages[-1] if messages else None
    parts = (last.parts_for(provider) if isinstance(last, AiMessage) else None) or ({},)
    token: str | None = parts[-1].get(_CONTINUATION)
    return token


def _call_id(call_id: str) -> JsonObject:
    return {} if not call_id or call_id.startswith(_MADE_UP_ID) else {"id": call_id}


def _made_up_id() -> str:
    return f"{_MADE_UP_ID}{os.urandom(6).hex()}"


def _tool_call(call: JsonObject, call_id: str) -> ToolCall:
    return read_tool_call(call_id, call["name"], to_json(call.get("args") or {}).decode())


def _first_candidate(data: JsonObject, *, blocked: bool) -> JsonObject:
    """Return the first candidate; an empty one if the prompt was blocked."""
    candidates = data.get("candidates")
    if not candidates and not blocked:
        raise UnreadableReplyError("it has no candidates")
    return candidates[0] if candidates else {}


def _with_call_id(part: JsonObject) -> tuple[ToolCall, JsonObject]:
    """Return the tool call of a part, and the part as it is sent back."""
    call = part["functionCall"]
    call_id = call.get("id") or _made_up_id()
    if "id" not in call or _call_id(call_id):
        return _tool_call(call, call_id), part
    # the reader of the stream made it up
    sent = {name: call[name] for name in call if name != "id"}
    return _tool_call(call, call_id), {**part, "functionCall": sent}


def read_parts(parts: Sequence[JsonObject], provider: str, model: str) -> AiMessage:
    """Convert the content of a Gemini reply to an AiMessage, with data to send back later."""
    texts, thoughts, calls = [], [], []
    needs_state = False
    pieces: list[str | Media] = []
    state_parts: list[JsonObject] = []
    for part in parts:
        needs_state = needs_state or not part.keys() <= {"text", "functionCall", _DATA}
        if part.get("thought") and _DATA in part:
            continue  # a draft of an image, which is not part of the answer
        state_parts.append(part)
        if part.get("thought"):
            thoughts.append(part.get("text") or "")
        elif "text" in part:
            texts.append(part["text"])
            pieces.append(part["text"])
        elif _DATA in part:
            index = sum(not isinstance(piece, str) for piece in pieces)
            pieces.append(read_media(part[_DATA]["data"], part[_DATA].get("mimeType")))
            state_parts[-1] = {**part, _DATA: {"index": index}}  # the message has the data in its contents
        elif "functionCall" in part:
            call, state_parts[-1] = _with_call_id(part)
            calls.append(call)
    contents = tuple(pieces) if len(texts) < len(pieces) else ()
    message = AiMessage("".join(texts), tuple(calls), "".join(thoughts) or None, contents=contents)
    return message.with_state(provider, model, state_parts) if needs_state else message


def _citations(grounding: JsonObject) -> Iterator[JsonObject]:
    """Yield the sources of an answer, each with the segments of the answer that it supports."""
    supports = grounding.get("groundingSupports") or ()
    for index, chunk in enumerate(grounding.get("groundingChunks") or ()):
        segments = [one["segment"] for one in supports if index in (one.get("groundingChunkIndices") or ())]
        yield {**chunk, "segments": segments} if segments else chunk


def _server_tool_runs(parts: Sequence[JsonObject]) -> tuple[ServerToolRun, ...]:
    """Return the tools, such as code execution, that Google ran for a reply, with their results."""
    runs: list[ServerToolRun] = []
    for part in parts:
        if "executableCode" in part:
            runs.append(ServerToolRun("code_execution", part["executableCode"]))
        elif "toolCall" in part:
            call = part["toolCall"]
            runs.append(ServerToolRun(call.get("toolType") or "tool", call.get("args")))
        else:
            result = part.get("codeExecutionResult", part.get("toolResponse"))
            if result is not None and runs:
                runs[-1] = ServerToolRun(runs[-1].name, runs[-1].input, result)
    return tuple(runs)


def read_google_error(headers: Mapping[str, str], body: str) -> ErrorDetails:
    """Parse an HTTP error response of one of Google's APIs."""
    details = read_error_details(headers, _first_error(body))
    waits, quotas = _error_hints(body)
    return details._replace(
        retry_after=details.retry_after if waits is None else waits, quota_exceeded=quotas
    )


def _first_error(body: str) -> str:
    """Return the first error if a Google response body is a JSON array, else the body unchanged."""
    try:
        data = from_json(body)
    except ValueError:
        return body
    return to_json(data[0]).decode() if isinstance(data, list) and data else body


def _error_hints(body: str) -> tuple[float | None, bool]:
    """Return the retry delay in a Google error response, and whether a daily quota is used up."""
    try:
        data = from_json(_first_error(body))
        details = (data.get("error") or data).get("details") or ()
        waits, is_daily = None, False
        for detail in details:
            if "retryDelay" in detail:
                waits = float(str(detail["retryDelay"]).removesuffix("s"))
            for violation in detail.get("violations") or ():
                is_daily = is_daily or "PerDay" in str(violation.get("quotaId"))
    except (ValueError, AttributeError, TypeError):
        return None, False
    return waits, is_daily


class GeminiStreamReader(EventStreamReader):
    """Parses one streamed reply of Gemini.

    Args:
        reply: Converts the whole response, as in a reply that is not streamed.
    """

    def __init__(self, reply: ReplyMaker) -> None:
        super().__init__()
        self._make_reply = reply
        self._response: JsonObject = {}
        self._candidate: JsonObject = {}
        self._parts: list[JsonObject] = []
        self._calls = 0

    @property
    def finished(self) -> bool:
        return bool(self._candidate.get("finishReason")) or "promptFeedback" in self._response

    def _last_deltas(self) -> list[ReplyDelta]:
        candidate = {**self._candidate, "content": {"parts": self._parts}}
        candidates = [candidate] if self._candidate else []
        return [ReplyDelta(reply=self._make_reply({**self._response, "candidates": candidates}))]

    def _read_event(self, data: JsonObject) -> ReplyDelta | None:
        candidates = data.pop("candidates", None)
        # each event has all counts so far, but some leave out what earlier ones had
        usage = counts_of(self._response.get("usageMetadata")) | counts_of(data.get("usageMetadata"))
        self._response |= {**data, "usageMetadata": usage}
        if not candidates:
            return None
        if candidates[0].get("index"):  # a further candidate, which a user requested with extra_body
            return None
        candidate = dict(candidates[0])
        parts = (candidate.pop("content", None) or {}).get("parts") or []
        self._candidate |= candidate
        texts, thoughts, calls = [], [], []
        for part in parts:
            self._add(part)
            if part.get("thought"):
                thoughts.append(part.get("text") or "")
            elif "text" in part:
                texts.append(part["text"])
            elif "functionCall" in part:
                call = part["functionCall"]
                call["id"] = call.get("id") or _made_up_id()  # the same in the whole reply
                tool_call = _tool_call(call, call["id"])
                calls.append(ToolCallDelta(self._calls, call["name"], tool_call.arguments, tool_call))
                self._calls += 1
        delta = ReplyDelta("".join(texts), "".join(thoughts), tool_calls=tuple(calls))
        return None if delta == ReplyDelta() else delta

    def _add(self, part: JsonObject) -> None:
        """Add a part of a streamed Gemini reply; plain text is joined to the text before it."""
        last = self._parts[-1] if self._parts else {}
        if last.keys() == part.keys() and part.keys() <= {"text", "thought"} and "text" in part:
            self._parts[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            self._parts.append(part)
