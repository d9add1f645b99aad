"""Tests of the command models, which lists providers, variables without their values, and weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiservices.cli.show import PROVIDERS
from aiservices.models.base import _BUILT_IN
from aiservices.models.openai.presets import PRESETS

from .conftest import CommandRun

LISTED = """\
--model                             variables
openai:NAME                         OPENAI_API_KEY (set), OPENAI_BASE_URL (not set)
openai-responses:NAME               OPENAI_API_KEY (set), OPENAI_BASE_URL (not set)
azure:DEPLOYMENT                    AZURE_OPENAI_API_KEY (not set), AZURE_OPENAI_AD_TOKEN (not set), \
AZURE_OPENAI_ENDPOINT (not set), OPENAI_API_VERSION (not set)
azure-responses:DEPLOYMENT          AZURE_OPENAI_API_KEY (not set), AZURE_OPENAI_AD_TOKEN (not set), \
AZURE_OPENAI_ENDPOINT (not set), OPENAI_API_VERSION (not set)
anthropic:NAME                      ANTHROPIC_API_KEY (not set), ANTHROPIC_BASE_URL (not set)
gemini:NAME                         GEMINI_API_KEY (not set), GOOGLE_API_KEY (not set)
google:NAME                         GEMINI_API_KEY (not set), GOOGLE_API_KEY (not set)
google-vertex:NAME                  GOOGLE_CLOUD_PROJECT (not set), GOOGLE_CLOUD_LOCATION (not set)
bedrock:NAME                        AWS_BEARER_TOKEN_BEDROCK (not set), AWS_ACCESS_KEY_ID (not set), \
AWS_SECRET_ACCESS_KEY (not set), AWS_REGION (not set)
ollama:NAME                         OLLAMA_HOST (not set)
local, local:NAME, local:PATH.gguf  AISERVICES_LOCAL_MODEL (not set), AISERVICES_CACHE (set)
{presets}
fake                                made-up answers: no key, no weights

Without --model: the model in AISERVICES_MODEL.

weights of the embedded model
local:qwen2.5-coder-1.5b  1.1 GB, 2.0 GB of memory, Apache-2.0: aiservices models pull qwen2.5-coder-1.5b
local:qwen2.5-coder-0.5b  0.5 GB, 0.7 GB of memory, Apache-2.0: aiservices models pull qwen2.5-coder-0.5b
local:smollm2  0.1 GB, 0.3 GB of memory, Apache-2.0: {smollm2}
"""


PRESET_ROWS = "\n".join(
    f"{name + ':NAME':34}  "
    + (f"{preset.key_variable} (not set), " if preset.key_variable else "")
    + f"{name.upper()}_BASE_URL (not set)"
    for name, preset in PRESETS.items()
)


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
    assert [provider.name for provider in PROVIDERS] == list(_BUILT_IN)


def test_models_are_listed_without_the_values_of_variables(run: CommandRun, pulled: Path) -> None:
    result = run("models")
    assert result == (0, LISTED.format(smollm2=pulled, presets=PRESET_ROWS), "")
    assert "secret" not in result.out


def test_json_has_the_same_content(run: CommandRun, pulled: Path) -> None:
    code, out, _ = run("models", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["providers"][0] == {
        "name": "openai",
        "written": "openai:NAME",
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
    assert out.endswith("To run them, install the runtime: pip install 'aiservices[local]'\n")


def test_pulling_unknown_weights_fails(run: CommandRun) -> None:
    assert run("models", "pull", "gpt") == (
        1,
        "",
        "error: there are no weights named 'gpt': choose one of qwen2.5-coder-1.5b, qwen2.5-coder-0.5b, "
        "smollm2\n",
    )
