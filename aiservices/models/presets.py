"""Presets: services with OpenAI's chat completions API, each with its URL, its key and what it supports.

An entry of ``PRESETS`` contains all that the package knows about a service. ``PROVIDERS`` describes the other
providers, for lists and telemetry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from .arguments import checks_arguments
from .base import Capabilities, DecisionLimits
from .conversation import ConversationRules

_SCHEMA_AND_TOOLS = Capabilities(json_schema=True, json_mode=True, tools=True, logprobs=20)
_TOOLS = Capabilities(json_mode=True, tools=True, logprobs=20)
CHAT_RULES = ConversationRules(answers_with_state=False, result_media=False, joins_answers=True)
# For servers that use the chat template of a model: most templates require that roles alternate.
_TEMPLATE_RULES = replace(CHAT_RULES, system="one", merges_users=True, starts_with_user=True)


class DecisionServer(NamedTuple):
    """A server with the System One API, whose models only answer questions with fixed answers.

    Attributes:
        path: The path of the requests.
        images: Where images are sent: as "parts" of the state, in the member ``images`` as "data URLs" or as
            "base64"; "" if the server takes none.
        limits: The limits of one request to the server.
    """

    path: str = "/v1/systemone"
    images: Literal["", "parts", "data URLs", "base64"] = ""
    limits: DecisionLimits = DecisionLimits()


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The settings of a service with OpenAI's chat completions API, such as its URL and features.

    Attributes:
        base_url: The URL of its API.
        key_variable: The environment variable with the key; None if it needs no key.
        capabilities: The features that its models support.
        returned: Reasoning fields that later requests must echo.
        requires_reasoning: True if it refuses messages with tool calls that lack their reasoning.
        extra_body: Members of every request, as for ``ChatOptions.extra_body``.
        cache_marks: True if it caches a prompt up to the messages that are marked with ``cache_control``.
        image_models: Text in the names of its models that answer with images; "" if none does.
        decisions: Its decision endpoint with the System One API, on the same host; None if it has none.
        conversation: What it requires of the messages of a request.
        idempotency_header: The header for a key by which it recognizes a request that is sent again, such as
            ``Idempotency-Key``; "" if it does not look at one.
        telemetry_name: Its name in the conventions of OpenTelemetry; "" for the name before the colon.
    """

    base_url: str
    key_variable: str | None = None
    capabilities: Capabilities = _SCHEMA_AND_TOOLS
    returned: tuple[str, ...] = ()
    requires_reasoning: bool = False
    extra_body: Mapping[str, object] = field(default_factory=dict)
    cache_marks: bool = False
    image_models: str = ""
    decisions: DecisionServer | None = None
    conversation: ConversationRules = CHAT_RULES
    idempotency_header: str = ""
    telemetry_name: str = ""


def preset_variable(provider: str, setting: str) -> str:
    """Return the name of a provider's environment variable for a setting, such as VLLM_BASE_URL."""
    return f"{provider.upper().replace('-', '_')}_{setting}"


# The variables NAME_BASE_URL, such as VLLM_BASE_URL, replace the addresses.
PRESETS: dict[str, Preset] = {
    "cerebras": Preset(
        base_url="https://api.cerebras.ai/v1", key_variable="CEREBRAS_API_KEY", returned=("reasoning",)
    ),
    "deepseek": Preset(
        base_url="https://api.deepseek.com/v1",
        key_variable="DEEPSEEK_API_KEY",
        capabilities=_TOOLS,
        returned=("reasoning_content",),
        requires_reasoning=True,
    ),
    "fireworks": Preset(
        base_url="https://api.fireworks.ai/inference/v1",
        key_variable="FIREWORKS_API_KEY",
        returned=("reasoning_content",),
        # Its /inference/v1/decisions takes the format of OpenAI.
        decisions=DecisionServer("/inference/v1/systemone", limits=DecisionLimits(options=208)),
    ),
    "github": Preset(base_url="https://models.github.ai/inference", key_variable="GITHUB_TOKEN"),
    "groq": Preset(base_url="https://api.groq.com/openai/v1", key_variable="GROQ_API_KEY"),
    "litellm": Preset(
        base_url="http://localhost:4000/v1",
        key_variable="LITELLM_API_KEY",
        returned=("reasoning_content", "thinking_blocks"),
        cache_marks=True,
    ),
    "llamacpp": Preset(base_url="http://localhost:8080/v1", conversation=_TEMPLATE_RULES),
    "lmstudio": Preset(base_url="http://localhost:1234/v1", conversation=_TEMPLATE_RULES),
    "mistral": Preset(
        base_url="https://api.mistral.ai/v1",
        key_variable="MISTRAL_API_KEY",
        returned=("content",),
        conversation=replace(_TEMPLATE_RULES, call_ids="[a-zA-Z0-9]{9}", call_id_length=9),
        telemetry_name="mistral_ai",
    ),
    "moonshot": Preset(
        base_url="https://api.moonshot.ai/v1",
        key_variable="MOONSHOT_API_KEY",
        returned=("reasoning_content",),
        telemetry_name="moonshot_ai",
    ),
    "openrouter": Preset(
        base_url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        returned=("reasoning_details",),
        cache_marks=True,
        image_models="-image",
        decisions=DecisionServer("/api/alpha/decisions", "parts", DecisionLimits(questions=200)),
    ),
    "perplexity": Preset(
        base_url="https://api.perplexity.ai",
        key_variable="PERPLEXITY_API_KEY",
        capabilities=Capabilities(json_schema=True),
        conversation=_TEMPLATE_RULES,
        decisions=DecisionServer("/v1/decisions", "parts", DecisionLimits(questions=128)),
    ),
    "sglang": Preset(
        base_url="http://localhost:30000/v1", returned=("reasoning_content",), conversation=_TEMPLATE_RULES
    ),
    "together": Preset(base_url="https://api.together.xyz/v1", key_variable="TOGETHER_API_KEY"),
    "vllm": Preset(
        base_url="http://localhost:8000/v1", returned=("reasoning",), conversation=_TEMPLATE_RULES
    ),
    "xai": Preset(base_url="https://api.x.ai/v1", key_variable="XAI_API_KEY", telemetry_name="x_ai"),
    "zai": Preset(
        base_url="https://api.z.ai/api/paas/v4",
        key_variable="ZAI_API_KEY",
        capabilities=_TOOLS,
        returned=("reasoning_content",),
        extra_body={"thinking": {"clear_thinking": False}},  # reads the reasoning of earlier messages
    ),
}


# --- Providers with a class of their own ---


class ModelProvider(NamedTuple):
    """A model provider, with its features and the environment variables for its settings.

    Attributes:
        name: The provider's name.
        features: What requests to it can have, such as "schema", "tools" and "images". Some models may
            support less. Empty for models of other packages.
        variables: The environment variables that the provider reads.
        telemetry_name: The provider's name in the conventions of OpenTelemetry; "" for its own name.
        syntax: How to write a model of this provider; "" for its name with ``:NAME``.
        price_list: The provider's name in genai-prices; "" for its own name.
        families: What the names of its models begin with, for advice about a name without a provider.
        limit_headers: A rate-limit header, with ``{0}`` for "remaining" or "reset" and ``{1}`` for "requests"
            or "tokens"; "" for the usual headers.
    """

    name: str
    features: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    telemetry_name: str = ""
    syntax: str = ""
    price_list: str = ""
    families: tuple[str, ...] = ()
    limit_headers: str = ""

    @property
    def model_syntax(self) -> str:
        """The form of the model names of this provider, such as ``openai:NAME``."""
        return self.syntax or f"{self.name}:NAME"


_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_AZURE = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION")
_GEMINI = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_VERTEX = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
_BEDROCK = ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
_LOCAL = ("AISERVICES_LOCAL_MODEL", "AISERVICES_CACHE")
_STRICT = ("schema", "strict schema", "tools", "stream")
_MEDIA = ("images", "files")
_REASONING = (*_STRICT, "reasoning", *_MEDIA)
PROVIDERS = (
    ModelProvider("openai", (*_STRICT, *_MEDIA, "sound"), _OPENAI, families=("gpt", "o")),
    ModelProvider("openai-responses", _REASONING, _OPENAI, "openai", price_list="openai"),
    ModelProvider("azure", (*_STRICT, *_MEDIA, "sound"), _AZURE, "azure.ai.openai", "azure:DEPLOYMENT"),
    ModelProvider("azure-responses", _REASONING, _AZURE, "azure.ai.openai", "azure-responses:DEPLOYMENT"),
    ModelProvider(
        "anthropic",
        _REASONING,
        ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        families=("claude",),
        limit_headers="anthropic-ratelimit-{1}-{0}",
    ),
    ModelProvider("gemini", (*_REASONING, "sound"), _GEMINI, "gcp.gemini", price_list="google"),
    ModelProvider("google", (*_REASONING, "sound"), _GEMINI, "gcp.gemini", families=("gemini",)),
    ModelProvider("google-vertex", (*_REASONING, "sound"), _VERTEX, "gcp.vertex_ai", price_list="google"),
    ModelProvider("bedrock", (*_REASONING, "sound"), _BEDROCK, "aws.bedrock", price_list="aws"),
    ModelProvider("openai-decisions", ("decisions",), _OPENAI, "openai"),
    ModelProvider("google-decisions", ("decisions", *_MEDIA), _GEMINI, "gcp.gemini"),
    ModelProvider("systemone", ("decisions",), ("TYPESAFE_API_KEY", "TYPESAFE_BASE_URL")),
    ModelProvider("ollama", ("schema", "tools", "stream", "reasoning", "images"), ("OLLAMA_HOST",)),
    ModelProvider("local", ("schema", "tools", "stream"), _LOCAL, "", "local, local:NAME, local:PATH.gguf"),
    ModelProvider("fake", _STRICT, syntax="fake"),
)
