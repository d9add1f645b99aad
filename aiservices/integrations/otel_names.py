"""The names that telemetry is written under.

Those of ``gen_ai.*`` are the OpenTelemetry semantic conventions for generative AI, status Development:
https://github.com/open-telemetry/semantic-conventions-genai (docs/gen-ai), as the package
opentelemetry-util-genai 1.3b0 of OpenTelemetry writes them (October 2026). ``error.type``, ``server.*`` and
``http.*`` are stable conventions. For what they have no name, there is one of ours, ``aiservices.*``.
"""

from __future__ import annotations

from typing import Final

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
