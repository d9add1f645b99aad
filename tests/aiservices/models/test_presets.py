"""Tests of the names for services that speak OpenAI's API, and of what importing the models costs."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest
from loopback import Loopback, answer

import aiservices
from aiservices import (
    AnthropicChatModel,
    AuthenticationError,
    Capabilities,
    ChatOptions,
    ChatRequest,
    ContentFilterError,
    DecisionChatModel,
    DefinitionError,
    FinishError,
    ModelError,
    OpenAiChatModel,
    Preset,
    ScriptedChatModel,
    TruncatedError,
    create,
    register_provider,
    user_message,
)
from aiservices.integrations.otel.attributes import provider_and_model
from aiservices.models.base import DecisionLimits
from aiservices.models.presets import PRESETS, DecisionServer
from aiservices.models.registry import REGISTERED, find_model
from aiservices.testing.fake import FakeChatModel

PACKAGE = Path(aiservices.__file__).parent


class Asks(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> str: ...


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_its_address_and_its_key(
    name: str, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = PRESETS[name]
    model = find_model(f"{name}:some-model")
    assert isinstance(model, OpenAiChatModel)
    assert (model.name, model.capabilities) == (f"{name}:some-model", preset.capabilities)
    assert preset.base_url in repr(model)
    if preset.key_variable is not None:
        with pytest.raises(AuthenticationError, match=preset.key_variable):
            model.complete(ChatRequest.of("x"))
        monkeypatch.setenv(preset.key_variable, "the-key")
    monkeypatch.setenv(f"{name.upper()}_BASE_URL", loopback.base_url)
    loopback.reply(answer("Yes."))
    assert find_model(f"{name}:some-model").complete(ChatRequest.of("x")).text == "Yes."
    expected = "Bearer the-key" if preset.key_variable else "Bearer none"
    assert loopback.requests[0].headers["authorization"] == expected
    assert loopback.requests[0].json["model"] == "some-model"


@pytest.mark.parametrize(
    ("name", "member", "is_returned"),
    [
        ("deepseek", "reasoning_content", True),
        ("openrouter", "reasoning_details", True),
        ("vllm", "reasoning", True),
        ("ollama", "reasoning", True),
        ("groq", "reasoning", False),
    ],
)
def test_reasoning_is_sent_back_where_the_service_wants_it(
    name: str, member: str, is_returned: bool, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{name.upper()}_BASE_URL", loopback.base_url)
    monkeypatch.setenv("OLLAMA_HOST", loopback.base_url.removesuffix("/v1"))
    monkeypatch.setenv(f"{name.upper()}_API_KEY", "key")
    thought = [{"type": "reasoning.text", "text": "Hm."}] if member == "reasoning_details" else "Hm."
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Delft"}'}}
    loopback.reply(
        answer(None, tool_calls=[call], finish_reason="tool_calls", **{member: thought}), answer("It rains.")
    )
    assert create(Asks, f"{name}:m", tools=[weather]).ask("Weather?") == "It rains."
    sent = loopback.requests[1].json["messages"][1]
    assert sent.get(member) == (thought if is_returned else None)


def test_a_registered_service_has_a_name(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", "k")
    preset = Preset(base_url=loopback.base_url, key_variable="EXAMPLE_API_KEY", capabilities=Capabilities())
    monkeypatch.setitem(PRESETS, "example", preset)  # so that it is removed after the test
    register_provider("example", preset)
    loopback.reply(answer("Yes."))
    assert create(Asks, "example:small").ask("x") == "Yes."
    assert loopback.requests[0].headers["authorization"] == "Bearer k"


def test_a_registered_service_has_all_that_a_built_in_one_has(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = Preset(
        base_url="https://llm.example.com/v1",
        key_variable="EXAMPLE_API_KEY",
        image_models="paint",
        decisions=DecisionServer("/ask", limits=DecisionLimits(questions=2)),
        telemetry_name="example_ai",
    )
    monkeypatch.setitem(PRESETS, "example", preset)
    painters = [find_model(f"example:{name}").capabilities.image_output for name in ("paint-1", "write-1")]
    assert painters == [True, False]
    asker = DecisionChatModel("m", provider="systemone", base_url="https://llm.example.com")
    assert (asker.endpoint, asker.capabilities.decisions) == (
        "https://llm.example.com/ask",
        DecisionLimits(questions=2),
    )
    assert provider_and_model("example:m") == ("example_ai", "m")


def test_the_code_names_the_services_only_in_their_table() -> None:
    texts = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    (table,) = [path for path in texts if path.name == "presets.py"]
    others = [
        f"{path.name}: {word}"
        for path, text in texts.items()
        for name, preset in PRESETS.items()
        for word in (name, preset.key_variable or name)
        if path != table and f'"{word}"' in text.replace('such as "groq"', "")
    ]
    assert others == []


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "bedrock", "google-vertex"])
def test_the_code_names_a_provider_only_in_five_files(provider: str) -> None:
    folders = (PACKAGE, PACKAGE.parent / "output_parsers")
    files = {
        path.name
        for folder in folders
        for path in folder.rglob("*.py")
        if path.name != "__init__.py" and f'"{provider}"' in path.read_text("utf-8")
    }
    its_module = {"google-vertex": "gemini"}.get(provider, provider) + ".py"
    assert files <= {its_module, "presets.py", "profiles.py", "batch_services.py", "bedrock.py"}


def test_a_function_can_be_registered_for_the_models_of_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTERED, "acme", FakeChatModel.named)  # so that it is removed after the test
    monkeypatch.setitem(PRESETS, "acme", PRESETS["vllm"])
    register_provider("acme", lambda name: ScriptedChatModel(["Yes."], name=f"acme:{name}"))
    assert find_model("acme:small").name == "acme:small"
    assert create(Asks, "acme:small").ask("x") == "Yes."
    with pytest.raises(DefinitionError, match="did you mean 'acme:small'"):
        find_model("acne:small")
    register_provider("acme", PRESETS["vllm"])
    assert isinstance(find_model("acme:small"), OpenAiChatModel)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("openai", "'openai' is the name of a built-in provider"),
        ("a:b", "'a:b' must be text without a colon"),
        ("", "'' must be text without a colon"),
    ],
)
def test_a_name_that_would_have_no_effect_is_refused(name: str, problem: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        register_provider(name, PRESETS["vllm"])
    assert str(caught.value) == f"register_provider: {problem}"


def test_no_sdk_is_imported() -> None:
    program = """
import sys
from aiservices import AnthropicChatModel, BedrockChatModel, ChatRequest, GeminiChatModel, OpenAiChatModel
for model in (AnthropicChatModel, BedrockChatModel, GeminiChatModel, OpenAiChatModel):
    made = model("m", base_url="http://127.0.0.1:9/v1", api_key="k")
    try:
        made.complete(ChatRequest.of("x"))
    except Exception as error:
        assert "127.0.0.1:9" in str(error), error
sdks = {"anthropic", "boto3", "botocore", "google.genai", "google.auth", "openai"}
print(sorted(sdks & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize(
    ("make", "header", "prefix"),
    [(AnthropicChatModel, "x-api-key", ""), (OpenAiChatModel, "authorization", "Bearer ")],
)
def test_a_function_may_return_the_key_of_each_request(
    make: Any, header: str, prefix: str, loopback: Loopback
) -> None:
    keys: list[Any] = ["one", "two", "", None]
    loopback.reply(answer("Yes."))
    model = make("m", base_url=loopback.base_url, api_key=lambda: keys.pop(0))
    for _ in range(2):
        with suppress(ModelError):  # the reply is that of OpenAI
            model.complete(ChatRequest.of("x"))
    assert [request.headers[header] for request in loopback.requests] == [f"{prefix}one", f"{prefix}two"]
    for what in ("an empty text", "NoneType"):
        with pytest.raises(AuthenticationError, match=f"the function for the API key returned {what}"):
            model.complete(ChatRequest.of("x"))


def test_zai_is_asked_to_read_earlier_reasoning(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAI_BASE_URL", loopback.base_url)
    monkeypatch.setenv("ZAI_API_KEY", "k")
    loopback.reply(answer("Yes."))
    create(Asks, "zai:glm-5").ask("x")
    thinking = {"thinking": {"type": "enabled"}}
    create(Asks, "zai:glm-5", options=ChatOptions(extra_body=thinking)).ask("x")
    assert [request.json["thinking"] for request in loopback.requests] == [
        {"clear_thinking": False},
        {"clear_thinking": False, "type": "enabled"},
    ]


@pytest.mark.parametrize(("lifetime", "mark"), [("5m", {}), ("1h", {"ttl": "1h"})])
def test_openrouter_is_told_what_to_cache(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch, lifetime: Any, mark: dict[str, str]
) -> None:
    monkeypatch.setenv("OPENROUTER_BASE_URL", loopback.base_url)
    monkeypatch.setenv("GROQ_BASE_URL", loopback.base_url)
    monkeypatch.setenv("OPENROUTER_API_KEY", "k")
    monkeypatch.setenv("GROQ_API_KEY", "k")
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Delft"}'}}
    loopback.reply(answer(None, tool_calls=[call], finish_reason="tool_calls"), answer("It rains."))
    settings: Any = {
        "system_message": "Be brief.",
        "tools": [weather],
        "options": ChatOptions(cache=lifetime),
    }
    create(Asks, "openrouter:anthropic/claude-sonnet-5", **settings).ask("Weather?")
    create(Asks, "groq:m", **settings).ask("Weather?")
    first, second, other = (request.json["messages"] for request in loopback.requests)

    def marked(text: str) -> list[dict[str, Any]]:
        return [{"type": "text", "text": text, "cache_control": {"type": "ephemeral", **mark}}]

    assert [message["content"] for message in first] == [marked("Be brief."), marked("Weather?")]
    assert [message["content"] for message in second] == [
        marked("Be brief."),
        "Weather?",
        None,
        marked("rain in Delft"),
    ]
    assert [message["content"] for message in other] == ["Be brief.", "Weather?"]


@pytest.mark.parametrize(
    ("finish_reason", "expected"),
    [
        ("model_length", TruncatedError),
        ("sensitive", ContentFilterError),
        ("insufficient_system_resource", FinishError),
    ],
)
def test_an_answer_that_a_service_ends_early_is_not_accepted(
    loopback: Loopback, finish_reason: str, expected: type[Exception]
) -> None:
    loopback.reply(answer("Half of", finish_reason=finish_reason))
    model = OpenAiChatModel("m", base_url=loopback.base_url, api_key="k")
    with pytest.raises(expected):
        create(Asks, model).ask("x")
