"""Settings, such as URLs, for providers and servers with an API like OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..base import BUILT_IN, REGISTERED, Capabilities, ChatModel
from ..errors import DefinitionError, DefinitionProblem

_SCHEMA_AND_TOOLS = Capabilities(json_schema=True, json_mode=True, tools=True, logprobs=20)
_TOOLS = Capabilities(json_mode=True, tools=True, logprobs=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A service or server that offers OpenAI's chat completions API.

    Attributes:
        base_url: The URL of its API.
        key_variable: The environment variable with the key; None if it needs no key.
        capabilities: The features that its models support.
        returned: The members of a message with reasoning that the service wants back in later requests.
        requires_reasoning: True if it refuses messages with tool calls that lack their reasoning.
        extra_body: Members of every request, as for ``ChatOptions.extra_body``.
        cache_marks: True if it caches a prompt up to the messages that are marked with ``cache_control``.
    """

    base_url: str
    key_variable: str | None = None
    capabilities: Capabilities = _SCHEMA_AND_TOOLS
    returned: tuple[str, ...] = ()
    requires_reasoning: bool = False
    extra_body: Mapping[str, object] = field(default_factory=dict)
    cache_marks: bool = False


def preset_variable(provider: str, setting: str) -> str:
    """Return the environment variable for a setting of a service, such as VLLM_BASE_URL."""
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
    ),
    "github": Preset(base_url="https://models.github.ai/inference", key_variable="GITHUB_TOKEN"),
    "groq": Preset(base_url="https://api.groq.com/openai/v1", key_variable="GROQ_API_KEY"),
    "litellm": Preset(
        base_url="http://localhost:4000/v1",
        key_variable="LITELLM_API_KEY",
        returned=("reasoning_content", "thinking_blocks"),
        cache_marks=True,
    ),
    "llamacpp": Preset(base_url="http://localhost:8080/v1"),
    "lmstudio": Preset(base_url="http://localhost:1234/v1"),
    "mistral": Preset(
        base_url="https://api.mistral.ai/v1", key_variable="MISTRAL_API_KEY", returned=("content",)
    ),
    "moonshot": Preset(
        base_url="https://api.moonshot.ai/v1",
        key_variable="MOONSHOT_API_KEY",
        returned=("reasoning_content",),
    ),
    "openrouter": Preset(
        base_url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        returned=("reasoning_details",),
        cache_marks=True,
    ),
    "perplexity": Preset(
        base_url="https://api.perplexity.ai",
        key_variable="PERPLEXITY_API_KEY",
        capabilities=Capabilities(json_schema=True),
    ),
    "sglang": Preset(base_url="http://localhost:30000/v1", returned=("reasoning_content",)),
    "together": Preset(base_url="https://api.together.xyz/v1", key_variable="TOGETHER_API_KEY"),
    "vllm": Preset(base_url="http://localhost:8000/v1", returned=("reasoning",)),
    "xai": Preset(base_url="https://api.x.ai/v1", key_variable="XAI_API_KEY"),
    "zai": Preset(
        base_url="https://api.z.ai/api/paas/v4",
        key_variable="ZAI_API_KEY",
        capabilities=_TOOLS,
        returned=("reasoning_content",),
        extra_body={"thinking": {"clear_thinking": False}},  # reads the reasoning of earlier messages
    ),
}


def register_provider(name: str, provider: Preset | Callable[[str], ChatModel]) -> None:
    """Register a provider of models under a name, so that ``"name:MODEL"`` selects its models.

    Raises DefinitionError if the name belongs to a built-in provider, or has a colon.

    Args:
        name: The part before the colon in the names of its models. It replaces a service of the same name.
        provider: For a service with OpenAI's chat completions API its address, the variable of its key, and
            what it supports. For other APIs a function that returns the model for the text after the colon.
    """
    if name in BUILT_IN or not name or ":" in name:
        reason = "is the name of a built-in provider" if name in BUILT_IN else "must be text without a colon"
        raise DefinitionError([DefinitionProblem("register_provider", f"{name!r} {reason}")])
    if isinstance(provider, Preset):
        REGISTERED.pop(name, None)
        PRESETS[name] = provider
    else:
        REGISTERED[name] = provider
