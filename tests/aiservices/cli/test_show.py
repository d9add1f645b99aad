"""Tests of the command show, which prints the request of a method with placeholders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import CommandRun

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
"""

LOOPED = """\
Loops.greet(names: list[str]) -> str

model: openai:gpt-5-mini
strategy: text (the type is plain text: the reply itself is the value)

[user]
Hello {{names.upper()}}!

[parameters]
names: data of the prompt

The prompt has conditions or loops: here, a missing argument counts as true and as a list of one item. \
Pass values to see the prompt as it is sent: NAME=VALUE
"""


def test_a_method_is_shown_with_its_placeholders_schema_strategy_and_roles(run: CommandRun) -> None:
    assert run("show", "samples.sentiment:SentimentAnalyzer.sentiment_of") == (0, SENTIMENT, "")


def test_a_target_may_be_a_file(run: CommandRun) -> None:
    assert run("show", "samples/sentiment.py:SentimentAnalyzer.sentiment_of") == (0, SENTIMENT, "")


def test_all_methods_of_a_service_are_shown_without_a_name(run: CommandRun) -> None:
    output = run("show", "samples.sentiment:SentimentAnalyzer").out
    heads = [line for line in output.splitlines() if line.startswith("SentimentAnalyzer.")]
    assert heads == [
        "SentimentAnalyzer.is_positive(text: str) -> bool",
        "SentimentAnalyzer.sentiment_of(text: str) -> Sentiment",
    ]
    assert output.endswith(f"\n\n{SENTIMENT}")


def test_media_have_placeholders_at_their_positions(run: CommandRun) -> None:
    assert run("show", "samples.images:ImageReader.colour") == (0, IMAGES, "")


def test_defaults_are_shown_and_messages_have_placeholders(run: CommandRun, shop: Path) -> None:
    assert run("show", "shop:Shop.ask") == (0, ASKED, "")


def test_a_structured_prompt_is_shown_by_its_template(run: CommandRun) -> None:
    output = run("show", "samples.service.clerk:Clerk.recipe").out
    assert (
        "[user]\nCreate a recipe of a {{request.dish}} that can be prepared using only "
        "{{request.ingredients}}.\n"
    ) in output


def test_the_values_of_arguments_are_in_the_prompt(run: CommandRun) -> None:
    output = run("show", "samples.preview_prompt:Postmaster", "company=Harper", "--json")
    assert [message["text"] for message in json.loads(output.out)[0]["messages"]] == [
        "You sort the mail of Harper.",
        "How urgent is this letter?\n\nLetter: {{letter}}",
    ]


def test_a_template_with_branches_is_shown_with_a_note(run: CommandRun, shop: Path) -> None:
    assert run("show", "shop:Loops.greet") == (0, LOOPED, "")


def test_a_template_with_arithmetic_needs_values(run: CommandRun, shop: Path) -> None:
    code, out, err = run("show", "shop:Loops.count")
    assert (code, out) == (2, "")
    assert err == (
        "error: Loops.count cannot be shown with placeholders, because its prompt needs real arguments "
        "(Loops.count: the prompt cannot be rendered: unsupported operand type(s) for +: '_Placeholder' and "
        "'int'); pass values: count=…\n"
    )
    assert "[user]\n4\n" in run("show", "shop:Loops.count", "count=3").out


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
    assert "model: openai:other\n" in run("show", "samples.sentiment:SentimentAnalyzer.is_positive").out


def test_json_has_all_details_of_a_method(run: CommandRun) -> None:
    output = run("show", "samples.streaming_record:Guide", "--json")
    (method,) = json.loads(output.out)
    schema = method.pop("schema")
    assert list(schema["properties"]) == ["name", "population", "sights"]
    assert method == {
        "method": "Guide.city",
        "signature": "Guide.city(name: str) -> Stream[City]",
        "doc": "",
        "model": "openai:gpt-5-mini",
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


def test_options_are_shown_without_headers(run: CommandRun, shop: Path) -> None:
    output = run("show", "shop:Shop.several").out
    assert "\nmodel: openai:gpt-5-mini\noptions: temperature=0.5\nstrategy: text " in output
    as_json = run("show", "shop:Shop.several", "--json").out
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
    assert run("show", "samples.sentiment:SentimentAnalyzer", "text=x").err == (
        "error: arguments belong to one method; name it as samples.sentiment:SentimentAnalyzer.METHOD: "
        "is_positive, sentiment_of\n"
    )
