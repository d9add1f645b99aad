"""models: names, variables without what they hold, weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiservices.cli.show import PROVIDERS
from aiservices.models.base import _BUILT_IN

from .conftest import CommandRun

LISTED = """\
--model                             variables
openai:NAME                         OPENAI_API_KEY (set), OPENAI_BASE_URL (not set)
openai-responses:NAME               OPENAI_API_KEY (set), OPENAI_BASE_URL (not set)
azure:DEPLOYMENT                    AZURE_OPENAI_API_KEY (not set), AZURE_OPENAI_AD_TOKEN (not set), \
AZURE_OPENAI_ENDPOINT (not set), OPENAI_API_VERSION (not set)
azure-responses:DEPLOYMENT          AZURE_OPENAI_API_KEY (not set), AZURE_OPENAI_AD_TOKEN (not set), \
AZURE_OPENAI_ENDPOINT (not set), OPENAI_API_VERSION (not set)
ollama:NAME                         OLLAMA_HOST (not set)
local, local:NAME, local:PATH.gguf  AISERVICES_LOCAL_MODEL (not set), AISERVICES_CACHE (set)
fake                                answers are made up: no key, no weights

Without --model: what AISERVICES_MODEL names.

weights of the embedded model
local:qwen2.5-coder-1.5b  1.1 GB, 2.0 GB of memory, Apache-2.0: aiservices models pull qwen2.5-coder-1.5b
local:qwen2.5-coder-0.5b  0.5 GB, 0.7 GB of memory, Apache-2.0: aiservices models pull qwen2.5-coder-0.5b
local:smollm2  0.1 GB, 0.3 GB of memory, Apache-2.0: {smollm2}
"""


@pytest.fixture
def pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for weights where one file lies that was checked, and variables that are set."""
    monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("AISERVICES_MODEL", "openai:hidden")
    monkeypatch.setattr("aiservices.cli.services.find_spec", lambda name: object())
    monkeypatch.setattr("aiservices.cli.show.entry_points", lambda group: ())
    from aiservices.models.local.weights import place_of, weights_named

    weights = weights_named("smollm2")
    path = place_of(weights)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    path.with_name(path.name + ".checked").write_text(json.dumps({"sha256": weights.sha256, "bytes": 1}))
    return path


def test_every_provider_that_create_knows_is_listed() -> None:
    assert [provider.name for provider in PROVIDERS] == list(_BUILT_IN)


def test_models_are_listed_and_no_variable_is_shown(run: CommandRun, pulled: Path) -> None:
    ended = run("models")
    assert ended == (0, LISTED.format(smollm2=pulled), "")
    assert "secret" not in ended.out


def test_json_has_the_same(run: CommandRun, pulled: Path) -> None:
    code, out, _ = run("models", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["providers"][0] == {
        "name": "openai",
        "written": "openai:NAME",
        "variables": {"OPENAI_API_KEY": True, "OPENAI_BASE_URL": False},
    }
    assert told["default_is_set"] is True
    assert told["embedded"]["weights"][2] == {
        "name": "smollm2",
        "aliases": [],
        "bytes": 98_362_432,
        "memory_bytes": 260_000_000,
        "licence": "Apache-2.0",
        "path": str(pulled),
    }
    assert told["embedded"]["weights"][0]["path"] is None


def test_what_is_not_installed_is_told(
    run: CommandRun, pulled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiservices.cli.services.find_spec", lambda name: None)
    monkeypatch.delenv("AISERVICES_MODEL")
    out = run("models").out
    said = "none, since AISERVICES_MODEL is not set and the embedded model is not installed"
    assert f"\nWithout --model: {said}.\n" in out
    assert out.endswith("run by a library that is not installed: pip install 'aiservices[local]'\n")


def test_pulling_weights_that_nobody_knows_fails(run: CommandRun) -> None:
    assert run("models", "pull", "gpt") == (
        1,
        "",
        "error: there are no weights named 'gpt': choose one of qwen2.5-coder-1.5b, qwen2.5-coder-0.5b, "
        "smollm2\n",
    )
