"""Tests of the command models, which lists providers, variables without their values, and weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiservices.models import BUILT_IN
from aiservices.models.presets import PRESETS, PROVIDERS, ModelProvider
from aiservices.models.registry import find_model

from .conftest import CommandRun

AZURE = (
    "AZURE_OPENAI_API_KEY (not set), AZURE_OPENAI_AD_TOKEN (not set), AZURE_OPENAI_ENDPOINT (not set), "
    "OPENAI_API_VERSION (not set)"
)
GEMINI = "GEMINI_API_KEY (not set), GOOGLE_API_KEY (not set)"
BEDROCK = (
    "AWS_BEARER_TOKEN_BEDROCK (not set), AWS_ACCESS_KEY_ID (not set), AWS_SECRET_ACCESS_KEY (not set), "
    "AWS_REGION (not set)"
)
LISTED = f"""\
--model                             features                                                               \
variables
openai:NAME                         schema, strict schema, tools, stream, images, files, sound             \
OPENAI_API_KEY (set), OPENAI_BASE_URL (not set)
openai-responses:NAME               schema, strict schema, tools, stream, reasoning, images, files         \
OPENAI_API_KEY (set), OPENAI_BASE_URL (not set)
azure:DEPLOYMENT                    schema, strict schema, tools, stream, images, files, sound             \
{AZURE}
azure-responses:DEPLOYMENT          schema, strict schema, tools, stream, reasoning, images, files         \
{AZURE}
anthropic:NAME                      schema, strict schema, tools, stream, reasoning, images, files         \
ANTHROPIC_API_KEY (not set), ANTHROPIC_BASE_URL (not set)
gemini:NAME                         schema, strict schema, tools, stream, reasoning, images, files, sound  \
{GEMINI}
google:NAME                         schema, strict schema, tools, stream, reasoning, images, files, sound  \
{GEMINI}
google-vertex:NAME                  schema, strict schema, tools, stream, reasoning, images, files, sound  \
GOOGLE_CLOUD_PROJECT (not set), GOOGLE_CLOUD_LOCATION (not set)
bedrock:NAME                        schema, strict schema, tools, stream, reasoning, images, files, sound  \
{BEDROCK}
openai-decisions:NAME               decisions                                                              \
OPENAI_API_KEY (set), OPENAI_BASE_URL (not set)
google-decisions:NAME               decisions, images, files                                               \
{GEMINI}
systemone:NAME                      decisions                                                              \
TYPESAFE_API_KEY (not set), TYPESAFE_BASE_URL (not set)
ollama:NAME                         schema, tools, stream, reasoning, images                               \
OLLAMA_HOST (not set)
local, local:NAME, local:PATH.gguf  schema, tools, stream                                                  \
AISERVICES_LOCAL_MODEL (not set), AISERVICES_CACHE (set)
fake                                schema, strict schema, tools, stream                                   \
made-up answers: no key, no weights
%s
Some models of a provider have fewer features; with services that speak OpenAI's API, images depend on the \
model. "reasoning" means that the reasoning of a model is kept and sent back to it.

Without --model: the model in AISERVICES_MODEL.

weights of the embedded model
local:qwen2.5-coder-1.5b  1.1 GB, 2.0 GB of memory, Apache-2.0: aiservices models pull qwen2.5-coder-1.5b
local:qwen2.5-coder-0.5b  0.5 GB, 0.7 GB of memory, Apache-2.0: aiservices models pull qwen2.5-coder-0.5b
local:smollm2  0.1 GB, 0.3 GB of memory, Apache-2.0: %s
"""


def preset_row(name: str) -> str:
    preset, prefix = PRESETS[name], name.upper()
    features = [
        *(["schema"] if preset.capabilities.json_schema else []),
        *(["tools"] if preset.capabilities.tools else []),
        "stream",
        *(["reasoning"] if preset.returned else []),
    ]
    variables = f"{preset.key_variable or f'{prefix}_API_KEY'} (not set), {prefix}_BASE_URL (not set)"
    return f"{name + ':NAME':34}  {', '.join(features):69}  {variables}\n"


@pytest.fixture
def pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for weights with one complete file, and some environment variables that are set."""
    monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("AISERVICES_MODEL", "openai:hidden")
    monkeypatch.setattr("aiservices.cli.services.find_spec", lambda name: object())
    monkeypatch.setattr("aiservices.cli.show.entry_points", lambda group: ())
    from aiservices.models.local.weights import weights_named, weights_path

    weights = weights_named("smollm2")
    path = weights_path(weights)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    path.with_name(path.name + ".checked").write_text(json.dumps({"sha256": weights.sha256, "bytes": 1}))
    return path


def test_every_built_in_provider_is_listed() -> None:
    assert [provider.name for provider in PROVIDERS] == list(BUILT_IN)


NEWEST = {
    "anthropic": "claude-sonnet-5",
    "gemini": "gemini-3-pro",
    "google": "gemini-3-pro",
    "google-vertex": "gemini-3-pro",
    "bedrock": "us.anthropic.claude-sonnet-4-6",
    "local": "smollm2",
}


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_the_features_of_a_provider_are_those_of_its_newest_model(
    provider: ModelProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    name = provider.name if provider.name == "fake" else f"{provider.name}:{NEWEST.get(provider.name, 'm')}"
    capabilities = find_model(name).capabilities
    features = ["schema"] if capabilities.json_schema else []
    features += ["strict schema"] if capabilities.strict_schema else []
    assert [feature for feature in provider.features if "schema" in feature] == features
    if provider.name != "local":  # where it depends on the weights
        assert ("tools" in provider.features) == capabilities.tools


def test_models_are_listed_without_the_values_of_variables(run: CommandRun, pulled: Path) -> None:
    result = run("models", "list")
    assert result == (0, LISTED % ("".join(map(preset_row, PRESETS)), pulled), "")
    assert "secret" not in result.out
    assert run("models") == result


def test_providers_are_listed_without_weights(run: CommandRun, pulled: Path) -> None:
    result = run("providers")
    assert result == (
        0,
        (LISTED % ("".join(map(preset_row, PRESETS)), "")).partition("\n\nweights")[0] + "\n",
        "",
    )
    code, out, _ = run("providers", "--json")
    assert (code, [*json.loads(out)]) == (0, ["providers", "default_is_set"])
    assert json.loads(out)["providers"] == json.loads(run("models", "--json").out)["providers"]


def test_json_has_the_same_content(run: CommandRun, pulled: Path) -> None:
    code, out, _ = run("models", "list", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["providers"][0] == {
        "name": "openai",
        "written": "openai:NAME",
        "features": ["schema", "strict schema", "tools", "stream", "images", "files", "sound"],
        "variables": {"OPENAI_API_KEY": True, "OPENAI_BASE_URL": False},
    }
    assert data["default_is_set"] is True
    assert data["embedded"]["weights"][2] == {
        "name": "smollm2",
        "aliases": [],
        "bytes": 98_362_432,
        "memory_bytes": 260_000_000,
        "licence": "Apache-2.0",
        "path": str(pulled),
    }
    assert data["embedded"]["weights"][0]["path"] is None


def test_a_missing_runtime_is_reported(
    run: CommandRun, pulled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiservices.cli.services.find_spec", lambda name: None)
    monkeypatch.delenv("AISERVICES_MODEL")
    out = run("models").out
    text = "none, since AISERVICES_MODEL is not set and the embedded model is not installed"
    assert f"\nWithout --model: {text}.\n" in out
    assert out.endswith("To run them, install the runtime: the extra local of aiservices\n")


def test_pulling_unknown_weights_fails(run: CommandRun) -> None:
    assert run("models", "pull", "gpt") == (
        2,
        "",
        "error: there are no weights named 'gpt': choose one of qwen2.5-coder-1.5b, qwen2.5-coder-0.5b, "
        "smollm2\n",
    )
