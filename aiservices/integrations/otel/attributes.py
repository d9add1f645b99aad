"""The names that telemetry is written under.

Those of ``gen_ai.*`` are the OpenTelemetry semantic conventions for generative AI, status Development:
https://github.com/open-telemetry/semantic-conventions-genai (docs/gen-ai), as the package
opentelemetry-util-genai 1.3b0 of OpenTelemetry writes them (October 2026). ``error.type``, ``server.*`` and
``http.*`` are stable conventions. For what they have no name, there is one of ours, ``aiservices.*``.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as contexts, metrics, trace
from opentelemetry.trace import Span, Status, StatusCode

from ...engine.effects import Emit, Sleep
from ...engine.events import AnswerRejected
from ...guardrails import GuardrailRan
from ...models.errors import Attempt, ModelError
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
from ...moderation import ModerationRan
from ...retrieval import ContentsRetrieved

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from ..prices import Prices

# the operation, which is also the first word of a span's name
OPERATION: Final = "gen_ai.operation.name"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"
INVOKE_WORKFLOW: Final = "invoke_workflow"
AGENT_NAME: Final = "gen_ai.agent.name"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
CONVERSATION: Final = "gen_ai.conversation.id"

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
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"

# content: written only where it is asked for
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
CAPTURE_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

# metrics, and the buckets that the conventions ask for
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

# ours
ATTEMPTS: Final = "aiservices.attempts"
STRATEGY: Final = "aiservices.strategy"
COERCIONS: Final = "aiservices.coercions"
LEFT: Final = "aiservices.left_before_its_end"
COST: Final = "aiservices.cost"
COST_CURRENCY: Final = "aiservices.cost.currency"
COST_METRIC: Final = "aiservices.client.cost"
ANSWER_REJECTED: Final = "aiservices.answer_rejected"
GUARDRAIL: Final = "aiservices.guardrail"
MODERATION: Final = "aiservices.moderation"
RETRIEVED: Final = "aiservices.retrieved"
WAITED: Final = "aiservices.waited"
APPROVAL_REQUIRED: Final = "aiservices.approval_required"

# what the conventions call a provider, by the first part of a model's name, where it is another word
_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "azure-responses": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gen_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "openai-responses": "openai",
    "vertex": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}


def provider_and_model(name: str) -> tuple[str, str]:
    """What the conventions call the provider of a model such as "azure:NAME", and the model's own name."""
    provider, _, model = name.partition(":")
    return _PROVIDERS.get(provider, provider), model or name


_ON = frozenset({"true", "1", "span_only", "span_and_event"})
_OFF = frozenset({"", "false", "0", "no_content", "event_only"})
_ROLES = {SystemMessage: "system", AiMessage: "assistant", ToolMessage: "tool"}


def captures_content() -> bool:
    """Whether the standard environment variable asks for content on spans. Raises ValueError."""
    asked = os.environ.get(CAPTURE_CONTENT, "").strip().lower()
    if asked in _ON or asked in _OFF:
        return asked in _ON
    raise ValueError(
        f"{CAPTURE_CONTENT} is {asked!r}; it must be one of no_content, span_only, event_only, span_and_event"
    )


def writable(text: str) -> str:
    """A text without the halves of characters, which UTF-8 has not and exporters fail at."""
    return text.encode("utf-8", "replace").decode()


def said(messages: Sequence[Message]) -> str:
    """The messages of a request. Media are named and not copied."""
    return _json([_message(message) for message in messages])


def replied(reply: ChatReply) -> str:
    """The answer of a model."""
    reason = reply.finish_reason
    finish = "tool_call" if reason is FinishReason.TOOL_CALLS else reason.value
    return _json([{**_message(reply.message), "finish_reason": finish}])


def _json(said: list[dict[str, Any]]) -> str:
    return writable(json.dumps(said, ensure_ascii=False, separators=(",", ":")))


def _message(message: Message) -> dict[str, Any]:
    shown: dict[str, Any] = {"role": _ROLES.get(type(message), "user"), "parts": list(_parts(message))}
    name = getattr(message, "name", None)
    return shown if name is None or isinstance(message, ToolMessage) else {**shown, "name": name}


def _parts(message: Message) -> list[dict[str, Any]]:
    if isinstance(message, ToolMessage):
        return [{"type": "tool_call_response", "id": message.call_id, "response": message.text}]
    if isinstance(message, AiMessage):
        thought = [{"type": "reasoning", "content": message.reasoning}] if message.reasoning else []
        text = [_text(message.text)] if message.text else []
        return [*thought, *text, *map(_called, message.tool_calls)]
    if isinstance(message, SystemMessage):
        return [_text(message.text)]
    return [_text(part) if isinstance(part, str) else _medium(part) for part in message.parts]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _called(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        arguments = call.arguments  # as the model wrote them
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}


def _medium(medium: Media) -> dict[str, Any]:
    modality = "image" if isinstance(medium, Image) else "audio" if isinstance(medium, Audio) else "document"
    about = {"modality": modality, "mime_type": medium.media_type}
    if medium.url is not None:
        return {"type": "uri", **about, "uri": medium.url}
    return {"type": "media", **about, "name": medium.name, "bytes": len(medium.data or b"")}


Attributes = dict[str, str | bool | int | float | tuple[str, ...]]


class Signals:
    """Spans, metrics and what they may hold; made once, holds nothing of a call."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        content: bool | None,
        prices: Prices | None,
    ) -> None:
        this = (__name__.rpartition(".")[0] + ".otel", version("aiservices"))
        self.tracer = trace.get_tracer(*this, tracer_provider)
        meter = metrics.get_meter(*this, meter_provider)
        self.content = captures_content() if content is None else content
        self._prices = prices
        self.tokens = meter.create_histogram(
            TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=TOKEN_BUCKETS,
        )
        self.money = meter.create_counter(COST_METRIC, "{money}", "What requests cost.")
        durations = (
            (OPERATION_DURATION, "Duration of a request to a model.", REQUEST_BUCKETS),
            (FIRST_CHUNK_DURATION, "Time to the first chunk of a stream.", REQUEST_BUCKETS),
            (TOOL_DURATION, "Duration of a tool.", REQUEST_BUCKETS),
            (AGENT_DURATION, "Duration of a method with tools.", AGENT_BUCKETS),
            (WORKFLOW_DURATION, "Duration of a method without tools.", WORKFLOW_BUCKETS),
        )
        self.seconds = {
            name: meter.create_histogram(name, "s", about, explicit_bucket_boundaries_advisory=buckets)
            for name, about, buckets in durations
        }

    def cost(self, reply: ChatReply, name: str) -> tuple[float, str] | None:
        """What a reply cost, and in which currency; None where no price of its model is known."""
        if self._prices is None:
            return None
        cost = self._prices.cost([Attempt(name, reply, None, 0.0)])
        return None if cost is None else (cost, self._prices.currency)

    def count(self, usage: Usage, asked: Mapping[str, str | int], context: Context) -> None:
        """Record the tokens of a reply."""
        for kind, number in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            self.tokens.record(number, {**asked, TOKEN_TYPE: kind}, context)


@contextmanager
def harmless() -> Iterator[None]:
    """Log what goes wrong with telemetry, so that it breaks no call."""
    try:
        yield
    except Exception:
        logging.getLogger("aiservices").exception("telemetry failed")


class Attached:
    """Makes a context the current one of this thread or task; may be entered again once it was left."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = contexts.attach(self._context)

    def __exit__(self, *_: object) -> None:
        contexts.detach(self._token)


def usage_attributes(usage: Usage) -> Attributes:
    """Tokens; of those that not all providers report, only what there was."""
    shown: Attributes = {
        INPUT_TOKENS: usage.input_tokens,
        OUTPUT_TOKENS: usage.output_tokens,
    }
    if usage.cached_tokens:
        shown[CACHED_TOKENS] = usage.cached_tokens
    if usage.reasoning_tokens:
        shown[REASONING_TOKENS] = usage.reasoning_tokens
    return shown


def type_of(error: BaseException) -> str:
    """The type of an error as OpenTelemetry names exceptions."""
    cls = type(error)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def fail(span: Span, error: BaseException, *, content: bool) -> None:
    """Note an error. Its text may quote what was said, hence it is content."""
    span.set_attribute(ERROR_TYPE, type_of(error))
    if isinstance(error, ModelError) and error.status is not None:
        span.set_attribute(HTTP_STATUS, error.status)
    span.set_status(Status(StatusCode.ERROR, writable(str(error)) if content else None))


def noted(need: Emit | Sleep, *, content: bool) -> tuple[str, Attributes] | None:
    """The name and the attributes of an event; None where a need is none."""
    match need:
        case Sleep(seconds):
            return WAITED, {"seconds": seconds}
        case Emit(AnswerRejected(error)):
            told = {"problems": tuple(map(str, error.problems))} if content else {}
            return ANSWER_REJECTED, {"count": len(error.problems), **told}
        case Emit(GuardrailRan(name, where, verdict)):
            return GUARDRAIL, {"name": name, "where": where, "verdict": type(verdict).__name__}
        case Emit(ModerationRan(where, results)):
            return MODERATION, {"where": where, "flagged": sum(one.flagged for one in results)}
        case Emit(ContentsRetrieved(contents)):
            return RETRIEVED, {"count": len(contents)}
    return None
