"""Names of OpenTelemetry spans, metrics and attributes, and functions that build attribute values.

``gen_ai.*`` follows the OpenTelemetry semantic conventions for generative AI, status Development:
https://github.com/open-telemetry/semantic-conventions-genai (docs/gen-ai), as the package
opentelemetry-util-genai 1.3b0 writes them (October 2026). It has no memory and no evaluations, so their names
come from the conventions of that time. ``error.type``, ``server.*`` and ``http.*`` are stable conventions.
``aiservices.*`` are this library's names for data that the conventions do not cover.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from output_parsers.types.decisions import Decision

from ...engine.effects import Emit, Sleep
from ...engine.operations import Operation
from ...engine.streams import AnswerRejected
from ...guardrails import GuardrailRan
from ...models.media import Audio, Image, Media
from ...models.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
)
from ...models.presets import PRESETS, PROVIDERS
from ...models.requests import ChatOptions, ChatRequest
from ...moderation import ModerationRan
from ...retrieval import ContentsRetrieved

Attributes: TypeAlias = dict[str, str | bool | int | float | tuple[str, ...]]

# The operation. It is also the first word of a span's name.
OPERATION: Final = "gen_ai.operation.name"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"
INVOKE_WORKFLOW: Final = "invoke_workflow"
AGENT_NAME: Final = "gen_ai.agent.name"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
CONVERSATION: Final = "gen_ai.conversation.id"
PROMPT_NAME: Final = "gen_ai.prompt.name"

PROVIDER: Final = "gen_ai.provider.name"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
HTTP_STATUS: Final = "http.response.status_code"

REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_STOP: Final = "gen_ai.request.stop_sequences"
REQUEST_SEED: Final = "gen_ai.request.seed"
REQUEST_REASONING: Final = "gen_ai.request.reasoning.level"
REQUEST_STREAM: Final = "gen_ai.request.stream"
OUTPUT_TYPE: Final = "gen_ai.output.type"

RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"

DIMENSIONS: Final = "gen_ai.embeddings.dimension.count"
DATA_SOURCE: Final = "gen_ai.data_source.id"
TOP_K: Final = "gen_ai.retrieval.top_k"
MEMORY_STORE: Final = "gen_ai.memory.store.id"
MEMORY_RECORDS: Final = "gen_ai.memory.record.count"

# A log record, which is the form of events in the conventions. Its explanation is content.
EVALUATION: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
SCORE: Final = "gen_ai.evaluation.score.value"
SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
EXPLANATION: Final = "gen_ai.evaluation.explanation"

# Content is written only if the user asks for it.
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
QUERY_TEXT: Final = "gen_ai.retrieval.query.text"
DOCUMENTS: Final = "gen_ai.retrieval.documents"
MEMORY_CONTENT: Final = "gen_ai.memory.records"
CAPTURE_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

# Metrics. The conventions specify the boundaries of their buckets.
TOKEN_USAGE: Final = "gen_ai.client.token.usage"
TOKEN_TYPE: Final = "gen_ai.token.type"
OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
FIRST_CHUNK_DURATION: Final = "gen_ai.client.operation.time_to_first_chunk"
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
WORKFLOW_DURATION: Final = "gen_ai.invoke_workflow.duration"
TOKEN_BUCKETS: Final = tuple(4**power for power in range(14))
REQUEST_BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))
AGENT_BUCKETS: Final = tuple(0.1 * 2**power for power in range(13))
WORKFLOW_BUCKETS: Final = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)

# Names of this library. The last six are events on the span of a call.
ATTEMPTS: Final = "aiservices.attempts"
STRATEGY: Final = "aiservices.strategy"
COERCIONS: Final = "aiservices.coercions"
DECISION_SOURCE: Final = "aiservices.decision.source"
DECISION_PROBABILITY: Final = "aiservices.decision.probability"
DECISION_CALIBRATED: Final = "aiservices.decision.calibrated"
DECISION_COUNT: Final = "aiservices.decision.count"
CLOSED_EARLY: Final = "aiservices.closed_early"
COST: Final = "aiservices.cost"
COST_CURRENCY: Final = "aiservices.cost.currency"
COST_METRIC: Final = "aiservices.client.cost"
MAP_ROWS: Final = "map_rows"
ROWS_METRIC: Final = "aiservices.rows"
ROW_OUTCOME: Final = "aiservices.row.outcome"
ROW_COUNT: Final = "aiservices.rows.count"
ROW_ERRORS: Final = "aiservices.rows.errors"
ROWS_CACHED: Final = "aiservices.rows.cached"
ANSWER_REJECTED: Final = "aiservices.answer_rejected"
BACKOFF: Final = "aiservices.backoff"
GUARDRAIL: Final = "aiservices.guardrail"
MODERATION: Final = "aiservices.moderation"
RETRIEVED: Final = "aiservices.retrieved"
APPROVAL_REQUIRED: Final = "aiservices.approval_required"

# The names of providers in the conventions. The last two are from other packages.
_PROVIDERS: Final = {
    **{provider.name: provider.telemetry_name for provider in PROVIDERS},
    "vertex": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
}

# Values of the environment variable CAPTURE_CONTENT. There are no events with content, so event_only means
# off.
_CAPTURE_ON = frozenset({"true", "1", "span_only", "span_and_event"})
_CAPTURE_OFF = frozenset({"", "false", "0", "no_content", "event_only"})
_ROLES = {SystemMessage: "system", AiMessage: "assistant", ToolMessage: "tool"}


def captures_content() -> bool:
    """Return True if an environment variable allows prompts and replies in OpenTelemetry spans.

    Raises ValueError if the variable has an unknown value.
    """
    value = os.environ.get(CAPTURE_CONTENT, "").strip().lower()
    if value in _CAPTURE_ON or value in _CAPTURE_OFF:
        return value in _CAPTURE_ON
    raise ValueError(
        f"{CAPTURE_CONTENT} is {value!r}; it must be one of no_content, span_only, event_only, span_and_event"
    )


# --- Requests and replies ---


def provider_and_model(name: str) -> tuple[str, str]:
    """Split a model name such as ``azure:NAME`` into OpenTelemetry's name of the provider and ``NAME``."""
    provider, _, model = name.partition(":")
    preset = PRESETS.get(provider)
    telemetry_name = _PROVIDERS.get(provider) if preset is None else preset.telemetry_name
    return telemetry_name or provider, model or name


def server_attributes(model: object) -> dict[str, str | int]:
    """Return the span attributes for the host and port of a model's endpoint, if it has one."""
    endpoint = getattr(model, "endpoint", None)
    return _host_and_port(endpoint) if isinstance(endpoint, str) else {}


@lru_cache(maxsize=64)
def _host_and_port(endpoint: str) -> dict[str, str | int]:
    try:
        parts = urlsplit(endpoint)
        # The conventions require a port if there is an address.
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # the attribute of a user-defined model may not be a URL
        return {}
    return {SERVER_ADDRESS: parts.hostname, SERVER_PORT: port} if parts.hostname else {}


def options_attributes(options: ChatOptions) -> Attributes:
    """Return the span attributes for a model request's chat options, such as the temperature.

    The model object's default options are not included, because they are not known here.
    """
    values = {
        REQUEST_TEMPERATURE: options.temperature,
        REQUEST_TOP_P: options.top_p,
        REQUEST_MAX_TOKENS: options.max_tokens,
        REQUEST_STOP: options.stop,
        REQUEST_SEED: options.seed,
        REQUEST_REASONING: options.reasoning_effort,
    }
    return {name: value for name, value in values.items() if value is not None}


def reply_attributes(reply: ChatReply) -> Attributes:
    """Return the span attributes for a model's reply: finish reason, id, model and tokens."""
    attributes: Attributes = {FINISH_REASONS: (reply.finish_reason.value,)}
    if reply.id:
        attributes[RESPONSE_ID] = reply.id
    if reply.model:
        attributes[RESPONSE_MODEL] = reply.model
    return attributes if reply.usage is None else {**attributes, **usage_attributes(reply.usage)}


def usage_attributes(usage: Usage) -> Attributes:
    """Return the span attributes for the numbers of input and output tokens.

    Cached and reasoning tokens are left out if they are zero, because not all providers report them.
    """
    attributes: Attributes = {INPUT_TOKENS: usage.input_tokens, OUTPUT_TOKENS: usage.output_tokens}
    if usage.cached_tokens:
        attributes[CACHED_TOKENS] = usage.cached_tokens
    if usage.cache_write_tokens:
        attributes[CACHE_WRITE_TOKENS] = usage.cache_write_tokens
    if usage.reasoning_tokens:
        attributes[REASONING_TOKENS] = usage.reasoning_tokens
    return attributes


def decision_attributes(decisions: Sequence[Decision[object]]) -> Attributes:
    """Return the span attributes for the least certain decision of an answer, without its value.

    They are the source and value of its probability, whether it was calibrated, and the number of decisions.
    An answer without decisions has none of these attributes.
    """
    if not decisions:
        return {}
    least = min(decisions, key=lambda decision: decision.probability)
    return {
        DECISION_SOURCE: least.source,
        DECISION_PROBABILITY: least.probability,
        DECISION_CALIBRATED: least.calibrated,
        DECISION_COUNT: len(decisions),
    }


def error_type(error: BaseException) -> str:
    """Return an exception's qualified class name for the OpenTelemetry attribute ``error.type``."""
    cls = type(error)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


# --- Embeddings, searches and conversations ---


def operation_labels(operation: Operation) -> dict[str, str | int]:
    """Return the attributes that the span and the metric of an operation have in common."""
    labels: dict[str, str | int] = {OPERATION: operation.name, **server_attributes(operation.target)}
    if operation.name == "embeddings":
        labels[PROVIDER], labels[REQUEST_MODEL] = provider_and_model(_name_of(operation.target))
    return labels


def operation_source(operation: Operation) -> str:
    """Return what the name of an operation's span ends with, or ""; it has few different values."""
    if operation.name == "embeddings":
        return provider_and_model(_name_of(operation.target))[1]
    return _name_of(operation.target) if operation.name == "retrieval" else ""


def operation_attributes(operation: Operation) -> Attributes:
    """Return the other attributes of an operation's span that are known at its start."""
    if operation.conversation is not None:
        return {MEMORY_STORE: operation.conversation}
    if operation.name != "retrieval":
        return {}
    top_k = getattr(operation.target, "max_results", None)
    limit: Attributes = {TOP_K: top_k} if type(top_k) is int else {}
    return {DATA_SOURCE: _name_of(operation.target), **limit}


def operation_result(operation: Operation, result: Any, *, content: bool) -> Attributes:
    """Return the attributes of an operation's result; with ``content`` also what was found or stored."""
    match operation.name:
        case "embeddings":
            return {DIMENSIONS: len(result[0])} if len(result) else {}  # an array or lists
        case "retrieval":
            if not content:
                return {}
            documents = [{"id": one.key, "score": one.score} for one in result]
            return {QUERY_TEXT: replace_surrogates(operation.input), DOCUMENTS: _json(documents)}
        case "delete_memory":
            return {}
    messages = result.messages if operation.name == "search_memory" else operation.input
    records = {MEMORY_CONTENT: _json([{"content": _message(one)} for one in messages])} if content else {}
    return {MEMORY_RECORDS: len(messages), **records}


def evaluation_attributes(
    name: str, score: float | None, reason: str, reply: ChatReply | None, error: BaseException | None
) -> Attributes:
    """Return the attributes of the event for a score; ``reason`` is "" if content is not written."""
    attributes: Attributes = {EVALUATION_NAME: name}
    if score is not None:
        attributes[SCORE] = float(score)
    if isinstance(score, bool):
        attributes[SCORE_LABEL] = "pass" if score else "fail"
    if reason:
        attributes[EXPLANATION] = replace_surrogates(reason)
    if reply is not None and reply.id:
        attributes[RESPONSE_ID] = reply.id
    if error is not None:
        attributes[ERROR_TYPE] = error_type(error)
    return attributes


def _name_of(target: object) -> str:
    """Return the name of a model or retriever, or of its class if it has none."""
    name = getattr(target, "name", None)
    return name if isinstance(name, str) and name else type(target).__name__


# --- Events on the span of a call ---


def event_of_effect(effect: Emit | Sleep, *, content: bool) -> tuple[str, Attributes] | None:
    """Return the OpenTelemetry span event for an event of a service call; None for events without one."""
    match effect:
        case Sleep(seconds):
            return BACKOFF, {"seconds": seconds}
        case Emit(AnswerRejected(error)):
            problems = {"problems": tuple(map(str, error.problems))} if content else {}
            return ANSWER_REJECTED, {"count": len(error.problems), **problems}
        case Emit(GuardrailRan(name, stage, verdict)):
            return GUARDRAIL, {"name": name, "stage": stage, "verdict": type(verdict).__name__}
        case Emit(ModerationRan(stage, results)):
            return MODERATION, {"stage": stage, "flagged": sum(result.flagged for result in results)}
        case Emit(ContentsRetrieved(contents)):
            return RETRIEVED, {"count": len(contents)}
    return None


# --- Content ---


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates in a string, because they cannot be encoded as UTF-8.

    Lone surrogates would make OpenTelemetry's exporters fail.
    """
    return text.encode("utf-8", "replace").decode()


def request_content(request: ChatRequest) -> Attributes:
    """Return the span attributes for the content of a request, without the data of media.

    They are its system messages at the beginning, the other messages and the tools, in JSON.
    """
    system = list(takewhile(lambda message: isinstance(message, SystemMessage), request.messages))
    others = request.messages[len(system) :]
    attributes: Attributes = {INPUT_MESSAGES: _json([_message(message) for message in others])}
    if system:
        attributes[SYSTEM_INSTRUCTIONS] = _json([_text_part(message.text) for message in system])
    if request.tooling is not None:
        attributes[TOOL_DEFINITIONS] = _json(
            [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                }
                for tool in request.tooling.tools
            ]
        )
    return attributes


def reply_json(reply: ChatReply) -> str:
    """Convert a model's reply to JSON text in OpenTelemetry's format."""
    reason = reply.finish_reason
    finish = "tool_call" if reason is FinishReason.TOOL_CALLS else reason.value
    return _json([{**_message(reply.message), "finish_reason": finish}])


def _json(parts: list[dict[str, object]]) -> str:
    return replace_surrogates(json.dumps(parts, ensure_ascii=False, separators=(",", ":")))


def _message(message: Message) -> dict[str, object]:
    data: dict[str, object] = {"role": _ROLES.get(type(message), "user"), "parts": _parts(message)}
    name = getattr(message, "name", None)
    # The name of a ToolMessage is the name of the tool, not of a participant.
    return data if name is None or isinstance(message, ToolMessage) else {**data, "name": name}


def _parts(message: Message) -> list[dict[str, Any]]:
    if isinstance(message, ToolMessage):
        return [{"type": "tool_call_response", "id": message.call_id, "response": message.text}]
    if isinstance(message, AiMessage):
        reasoning = [{"type": "reasoning", "content": message.reasoning}] if message.reasoning else []
        text = [_text_part(message.text)] if message.text else []
        return [*reasoning, *text, *map(_tool_call_part, message.tool_calls)]
    if isinstance(message, SystemMessage):
        return [_text_part(message.text)]
    return [_text_part(part) if isinstance(part, str) else _media_part(part) for part in message.parts]


def _text_part(text: str) -> dict[str, object]:
    return {"type": "text", "content": text}


def _tool_call_part(call: ToolCall) -> dict[str, object]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        arguments = call.arguments  # as the model wrote them
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}


def _media_part(media: Media) -> dict[str, object]:
    modality = "image" if isinstance(media, Image) else "audio" if isinstance(media, Audio) else "document"
    common = {"modality": modality, "mime_type": media.media_type}
    if media.url is not None:
        return {"type": "uri", **common, "uri": media.url}
    return {"type": "media", **common, "name": media.name, "bytes": len(media.data or b"")}
