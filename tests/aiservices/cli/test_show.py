"""Tests of the command show, which prints the request of a method with placeholders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from loopback import Loopback, error

from .conftest import CommandResult, CommandRun

SENTIMENT = """\
SentimentAnalyzer.sentiment_of(text: str) -> Sentiment

model: openai:gpt-5-mini
strategy: json_schema (openai:gpt-5-mini supports JSON Schema; the value is sent in an object, \
under the key 'value')

[user]
Analyze the sentiment of this text.

Text: {{text}}

[schema, strict]
{
  "type": "object",
  "properties": {
    "value": {
      "type": "string",
      "enum": [
        "positive",
        "neutral",
        "negative"
      ]
    }
  },
  "required": [
    "value"
  ],
  "additionalProperties": false
}

[parameters]
text: data of the prompt

[request body, POST https://api.openai.com/v1/chat/completions]
{"model":"gpt-5-mini","response_format":{"type":"json_schema","json_schema":{"name":"Sentiment","schema":\
{"type":"object","properties":{"value":{"type":"string","enum":["positive","neutral","negative"]}},\
"required":["value"],"additionalProperties":false},"strict":true}},"messages":[{"role":"user","content":\
"Analyze the sentiment of this text.\\n\\nText: {{text}}"}]}
"""

IMAGES = """\
ImageReader.colour(picture: Image, language: str) -> str

model: openai:gpt-5-mini
strategy: text (the type is plain text: the reply itself is the value)

[user]
Which colour does this picture have:\u0020
{{picture}}
? Answer in {{language}}.

[parameters]
picture: media
language: data of the prompt

[request body, POST https://api.openai.com/v1/chat/completions]
{"model":"gpt-5-mini","messages":[{"role":"user","content":[{"type":"text","text":"Which colour does this \
picture have: "},{"type":"image_url","image_url":{"url":"https://placeholder.invalid"}},{"type":"text",\
"text":"? Answer in {{language}}."}]}]}
"""

ASKED = """\
Shop.ask(message: UserMessage, customer: Annotated[str, MemoryId] = 'ann') -> str

model: openai:gpt-5-mini
strategy: text (the type is plain text: the reply itself is the value)

[system]
You keep a shop.

[user]
{{message}}

[parameters]
message: UserMessage
customer: MemoryId, default 'ann'

[request body, POST https://api.openai.com/v1/chat/completions]
{"model":"gpt-5-mini","messages":[{"role":"system","content":"You keep a shop."},{"role":"user","content":\
"{{message}}"}]}
"""

LOOPED = """\
Loops.greet(names: list[str]) -> str

model: openai:gpt-5-mini
strategy: text (the type is plain text: the reply itself is the value)

[user]
Hello {{names.upper()}}!

[parameters]
names: data of the prompt

[request body, POST https://api.openai.com/v1/chat/completions]
{"model":"gpt-5-mini","messages":[{"role":"user","content":"Hello {{names.upper()}}!"}]}

The prompt has conditions or loops: here, a missing argument counts as true and as a list of one item. \
Pass values to see the prompt as it is sent: NAME=VALUE
"""


def show(run: CommandRun, *arguments: str) -> CommandResult:
    return run("show", "-m", "openai:gpt-5-mini", *arguments)


def test_a_method_is_shown_with_its_placeholders_schema_strategy_and_roles(run: CommandRun) -> None:
    assert show(run, "samples.sentiment:SentimentAnalyzer.sentiment_of") == (0, SENTIMENT, "")


def test_a_target_may_be_a_file(run: CommandRun) -> None:
    assert show(run, "samples/sentiment.py:SentimentAnalyzer.sentiment_of") == (0, SENTIMENT, "")


def test_all_methods_of_a_service_are_shown_without_a_name(run: CommandRun) -> None:
    output = show(run, "samples.sentiment:SentimentAnalyzer").out
    heads = [line for line in output.splitlines() if line.startswith("SentimentAnalyzer.")]
    assert heads == [
        "SentimentAnalyzer.is_positive(text: str) -> bool",
        "SentimentAnalyzer.sentiment_of(text: str) -> Sentiment",
    ]
    assert output.endswith(f"\n\n{SENTIMENT}")


def test_media_have_placeholders_at_their_positions(run: CommandRun) -> None:
    assert show(run, "samples.images:ImageReader.colour") == (0, IMAGES, "")


def test_defaults_are_shown_and_messages_have_placeholders(run: CommandRun, shop: Path) -> None:
    assert show(run, "shop:Shop.ask") == (0, ASKED, "")


def test_a_structured_prompt_is_shown_by_its_template(run: CommandRun) -> None:
    output = show(run, "samples.service.clerk:Clerk.recipe").out
    assert (
        "[user]\nCreate a recipe of a {{prompt.dish}} that can be prepared using only "
        "{{prompt.ingredients}}.\n"
    ) in output


def test_the_values_of_arguments_are_in_the_prompt(run: CommandRun) -> None:
    output = show(run, "samples.preview_prompt:Postmaster", "company=Harper", "--json")
    assert [message["text"] for message in json.loads(output.out)[0]["messages"]] == [
        "You sort the mail of Harper.",
        "How urgent is this letter?\n\nLetter: {{letter}}",
    ]


def test_a_template_with_branches_is_shown_with_a_note(run: CommandRun, shop: Path) -> None:
    assert show(run, "shop:Loops.greet") == (0, LOOPED, "")


def test_a_template_with_arithmetic_needs_values(run: CommandRun, shop: Path) -> None:
    code, out, err = show(run, "shop:Loops.count")
    assert (code, out) == (2, "")
    assert err == (
        "error: Loops.count cannot be shown with placeholders, because its prompt needs real arguments "
        "(Loops.count: the prompt cannot be rendered: unsupported operand type(s) for +: '_Placeholder' and "
        "'int'); pass values: count=…\n"
    )
    assert "[user]\n4\n" in show(run, "shop:Loops.count", "count=3").out


def test_a_service_of_the_program_is_shown_with_its_model_and_tools(run: CommandRun, shop: Path) -> None:
    output = run("show", "shop:echo.order").out
    assert "\nmodel: scripted\n" in output
    assert '\n[tool stock, strict]\nHow many there are.\n{\n  "type": "object",\n' in output


def test_the_strategy_depends_on_the_model(run: CommandRun) -> None:
    output = run(
        "show", "samples.sentiment:SentimentAnalyzer.is_positive", "--model", "ollama:qwen3", "--json"
    )
    (method,) = json.loads(output.out)
    assert (method["model"], method["strategy"], method["strict"]) == ("ollama:qwen3", "json_schema", False)


def test_the_model_of_the_environment_variable_is_shown(
    run: CommandRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISERVICES_MODEL", "openai:other")
    output = run("show", "samples.sentiment:SentimentAnalyzer.is_positive").out
    assert "model: openai:other (the model in AISERVICES_MODEL)\n" in output


def test_the_embedded_model_is_shown_if_call_would_use_it(
    run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AISERVICES_MODEL", raising=False)
    monkeypatch.setattr("aiservices.cli.services.find_spec", lambda name: object())
    monkeypatch.setattr("aiservices.models.registry.find_spec", lambda name: object())
    weights = tmp_path / "small.gguf"
    weights.touch()
    monkeypatch.setenv("AISERVICES_LOCAL_MODEL", str(weights))
    output = run("show", "samples.sentiment:SentimentAnalyzer.is_positive").out
    assert "\nmodel: local:small (the embedded model, since AISERVICES_MODEL is not set)\n" in output


def test_without_a_model_the_assumed_one_is_named_with_the_reason(
    run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AISERVICES_MODEL", raising=False)
    monkeypatch.setattr("aiservices.cli.services.find_spec", lambda name: object())
    monkeypatch.setattr("aiservices.models.registry.find_spec", lambda name: object())
    monkeypatch.delenv("AISERVICES_LOCAL_MODEL", raising=False)
    monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path))
    code, output, _ = run("show", "samples.sentiment:SentimentAnalyzer.is_positive")
    assert code == 0
    assert (
        "\nmodel: openai:gpt-5-mini (assumed, because call has no model: no model is set: pass one, as in "
        'create(Interface, "openai:NAME") or, for made-up answers, "fake", or set AISERVICES_MODEL; '
        "the embedded model has no weights yet: get some with aiservices models pull NAME, where NAME is one "
        "of qwen2.5-coder-1.5b (1.1 GB), qwen2.5-coder-0.5b (0.5 GB), smollm2 (0.1 GB))\n"
    ) in output
    monkeypatch.setattr("aiservices.cli.services.find_spec", lambda name: None)
    output = run("show", "samples.sentiment:SentimentAnalyzer.is_positive", "--json").out
    assert json.loads(output)[0]["model_reason"].startswith(
        "assumed, because call has no model: no model is set: pass --model openai:NAME "
    )


def test_a_method_with_a_model_of_its_own_has_no_reason(
    run: CommandRun, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "mixed.py").write_text(
        "from typing import Protocol\nfrom aiservices import options\n\n"
        "class Mixed(Protocol):\n    @options(model='ollama:x')\n    def a(self, text: str) -> str: ...\n"
        "    def b(self, text: str) -> str: ...\n",
        "utf-8",
    )
    monkeypatch.setenv("AISERVICES_MODEL", "fake")
    lines = [line for line in run("show", "mixed:Mixed").out.splitlines() if line.startswith("model:")]
    assert lines == ["model: ollama:x", "model: fake (the model in AISERVICES_MODEL)"]


def test_json_has_all_details_of_a_method(run: CommandRun) -> None:
    output = show(run, "samples.streaming_record:Guide", "--json")
    (method,) = json.loads(output.out)
    schema, http = method.pop("schema"), method.pop("http")
    assert list(schema["properties"]) == ["name", "population", "sights"]
    assert method == {
        "method": "Guide.city",
        "signature": "Guide.city(name: str) -> Stream[City]",
        "doc": "",
        "model": "openai:gpt-5-mini",
        "model_reason": "",
        "strategy": "json_schema",
        "reasons": [
            "openai:gpt-5-mini supports JSON Schema",
            "City.sights: not sent; enforced when read",
        ],
        "strict": True,
        "parameters": [{"name": "name", "role": None}],
        "messages": [{"type": "user", "text": "Describe the city {{name}}."}],
        "options": {},
        "tools": [],
        "questions": [],
        "notes": [
            {
                "about": "answer",
                "path": "City.sights",
                "feature": "maxLength",
                "action": "not sent; enforced when read",
                "strict": True,
            }
        ],
        "has_branches": False,
    }
    assert (http.pop("method"), http.pop("url")) == (
        "POST",
        "https://api.openai.com/v1/chat/completions",
    )
    body = http.pop("body")
    assert http == {}
    assert (body["stream"], body["messages"][0]["content"]) == (True, "Describe the city {{name}}.")


MODELS = [
    "openai:gpt-5-mini",
    "openai-responses:gpt-5-mini",
    "anthropic:claude-sonnet-5",
    "google:gemini-3-pro",
    "bedrock:us.anthropic.claude-sonnet-4-6",
    "groq:llama-4",
]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", ["shop:Detailed.order", "shop:Detailed.orders"])
def test_the_body_is_the_one_that_call_sends(
    run: CommandRun, shop: Path, loopback: Loopback, monkeypatch: pytest.MonkeyPatch, name: str, target: str
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GEMINI_BASE_URL", "GROQ_BASE_URL"):
        monkeypatch.setenv(variable, loopback.base_url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", loopback.base_url)
    code, shown, _ = run("show", target, "text=tea", "-m", name)
    http = json.loads(run("show", target, "text=tea", "-m", name, "--json").out)[0]["http"]
    assert code == 0
    for variable in ("OPENAI", "ANTHROPIC", "GEMINI", "GROQ"):
        monkeypatch.setenv(f"{variable}_API_KEY", "k")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "k")
    loopback.reply(error(400, "no"))
    assert run("call", target, "text=tea", "-m", name).code == 1
    sent = loopback.requests[0]
    assert shown.endswith(f"{sent.path}]\n{sent.body.decode()}\n")
    assert (http["url"].endswith(sent.path), http["body"]) == (True, sent.json)


def test_the_data_of_an_image_is_shortened(run: CommandRun, tmp_path: Path) -> None:
    picture = tmp_path / "lamp.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(3000))
    out = show(run, "samples.images:ImageReader.colour", f"picture=@{picture}").out
    assert '{"url":"data:image/png;base64,iVBORw0KGgoAAAAAAAAA… (4012 characters)"}' in out


def test_a_body_that_cannot_be_written_has_the_reason(run: CommandRun, shop: Path) -> None:
    target = "samples.images:ImageReader.colour"
    assert run("show", target, "-m", "bedrock:amazon.nova-2").out.endswith(
        "\n[request body]\nit cannot be shown with placeholders, so pass values: NAME=VALUE (bedrock:amazon."
        "nova-2 at https://bedrock-runtime.us-east-1.amazonaws.com: the Converse API does not fetch an image "
        "{{picture}}; pass its bytes with Image.from_bytes)\n"
    )
    (shop / "sound.py").write_text(
        "from typing import Protocol\nfrom aiservices import Audio, user_message\n\n"
        "class Ears(Protocol):\n    @user_message('{{it}}')\n    def hear(self, it: Audio) -> str: ...\n",
        "utf-8",
    )
    (shop / "lamp.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    _, out, _ = run("show", "sound:Ears.hear", "it=@lamp.wav", "-m", "anthropic:claude-sonnet-5", "--json")
    assert json.loads(out)[0]["http"]["error"].startswith("it cannot be sent (anthropic:claude-sonnet-5 at ")


def test_a_model_without_http_has_no_body(run: CommandRun) -> None:
    target = "samples.sentiment:SentimentAnalyzer.is_positive"
    assert "[request body" not in run("show", target, "-m", "fake").out
    assert json.loads(run("show", target, "-m", "fake", "--json").out)[0]["http"] is None


def test_options_are_shown_without_headers(run: CommandRun, shop: Path) -> None:
    output = show(run, "shop:Shop.several").out
    assert "\nmodel: openai:gpt-5-mini\noptions: temperature=0.5\nstrategy: text " in output
    as_json = show(run, "shop:Shop.several", "--json").out
    assert json.loads(as_json)[0]["options"] == {"temperature": 0.5}
    assert "secret" not in output + as_json


def test_output_of_the_imported_module_goes_to_standard_error(run: CommandRun, shop: Path) -> None:
    (shop / "loud.py").write_text("print('loading')\nfrom shop import Quiet\n", "utf-8")
    code, out, err = run("show", "loud:Quiet", "--json")
    assert (code, err) == (0, "loading\n")
    assert json.loads(out)[0]["method"] == "Quiet.closes"


def test_all_problems_of_a_definition_are_reported(run: CommandRun, shop: Path) -> None:
    assert run("show", "shop:Wrong") == (
        2,
        "",
        "error: 2 problems:\n"
        "  - Wrong.sell: the prompt uses {{whta}}, but the parameters are: what; did you mean what?\n"
        "  - Wrong.untold: it has no prompt and several arguments (a, b); write the "
        "prompt with @user_message\n",
    )


def test_arguments_need_one_method(run: CommandRun) -> None:
    assert show(run, "samples.sentiment:SentimentAnalyzer", "text=x").err == (
        "error: arguments belong to one method; name it as samples.sentiment:SentimentAnalyzer.METHOD: "
        "is_positive, sentiment_of\n"
    )
