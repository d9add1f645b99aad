"""Each sample prints what it should when the model answers sensibly, and imports only public modules."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from aiservices import ScriptedChatModel
from samples import (
    async_calls,
    budget,
    custom_parser,
    dates_and_times,
    few_shot,
    film,
    lint_types,
    numbers_in_text,
    parse_text,
    partial_values,
    person,
    preview_prompt,
    recipe,
    retry,
    sentiment,
    strategies,
    streaming_items,
    streaming_record,
    streaming_text,
    without_interface,
)

FOLDER = Path(sentiment.__file__).parent
FILES = sorted([*FOLDER.glob("*.py"), *FOLDER.glob("patterns/*.py")])
# The tour also downloads weights, which no service does.
PUBLIC_PACKAGES = {
    "aiservices",
    "aiservices.agents",
    "aiservices.call_log",
    "aiservices.documents",
    "aiservices.guardrails",
    "aiservices.integrations.mcp",
    "aiservices.integrations.otel",
    "aiservices.interceptors",
    "aiservices.memory",
    "aiservices.moderation",
    "aiservices.page",
    "aiservices.prices",
    "aiservices.retrieval",
    "aiservices.rows",
    "aiservices.skills",
    "aiservices.structured_model",
    "aiservices.synthesis",
    "aiservices.testing",
    "output_parsers",
    "output_parsers.lint",
    "output_parsers.profiles",
    "output_parsers.text",
}
PACKAGES_OF_THE_TOUR = {"aiservices", "aiservices.models.local.weights"}

Printed = Callable[..., str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Return a function that runs a sample with scripted replies and returns the printed text."""

    def run(sample: ModuleType, *replies: object) -> str:
        texts = [reply if isinstance(reply, str) else json.dumps(reply) for reply in replies]
        model = ScriptedChatModel(texts)
        sample.main(model)
        assert len(model.requests) == len(texts)
        return capsys.readouterr().out

    return run


def value(content: object) -> dict[str, object]:
    return {"value": content}


def test_sentiment(printed: Printed) -> None:
    replies = [value(True), value(False), value("positive"), value("neutral")]
    assert printed(sentiment, *replies) == (
        "This is great! → positive: True\n"
        "It's awful! → positive: False\n"
        "This is great! → they like it\n"
        "I don't know. → they have not decided\n"
    )


def test_negative_sentiment(printed: Printed) -> None:
    replies = [value(False), value(False), value("negative"), value("negative")]
    assert printed(sentiment, *replies).endswith("I don't know. → they do not like it\n")


def test_numbers(printed: Printed) -> None:
    replies = ['{"value": 42}', '{"value": 42}', '{"value": 42.0}', '{"value": "42"}']
    assert printed(numbers_in_text, *replies) == (
        f"{numbers_in_text.ANSWER}\nint      42\nInt32    42\nfloat    42.0\nDecimal  Decimal('42')\n"
    )


def test_dates_and_times(printed: Printed) -> None:
    replies = [value("1968-07-04"), value("23:45:00"), value("1968-07-04T23:45:00")]
    assert printed(dates_and_times, *replies) == (
        f"{dates_and_times.EVENING}\ndate      04 July 1968\ntime      23:45\ndatetime  04 July 1968, 23:45\n"
    )


def test_parse_text(printed: Printed) -> None:
    assert printed(parse_text) == (
        "City(name='Paris', population=2102650)\n"
        "  $: reasoning set aside\n"
        "  $: text around the JSON left out\n"
        "  $: single-quoted string\n"
        "  $: unquoted key\n"
        "  $: comment\n"
        "  $: trailing comma\n"
        '  $.Name: key in another form: "Name" → "name"\n'
        "  $.mayor: unknown key left out\n"
        '  $.population: thousands separators: "2,102,650" → 2102650\n'
        "[1, 2, 3] True None\n"
        "{'thought': 'add them', 'number': 42, 'code': '20 + 22'}\n"
        "cannot read the text: $.population: expected an integer, found 2.1 "
        '(the text: \'{"name": "Paris", "population": 2.1}\')\n'
    )


def test_partial_values(printed: Printed) -> None:
    assert printed(partial_values) == (
        "{'title': 'Greek'} | minutes: False\n"
        "{'title': 'Greek salad'} | minutes: False\n"
        "{'title': 'Greek salad', 'minutes': 15, 'steps': ['Chop the']} | minutes: True\n"
        "{'title': 'Greek salad', 'minutes': 15, 'steps': ['Chop the cucumber', 'Add fe']} | minutes: True\n"
        "{'title': 'Greek salad', 'minutes': 15, 'steps': ['Chop the cucumber', 'Add feta']} "
        "| minutes: True\n"
        "Recipe(title='Greek salad', minutes=15, steps=['Chop the cucumber', 'Add feta'])\n"
        "[1] [20] [300, 4] []\n"
    )


def test_person(printed: Printed) -> None:
    replies = [
        {"first_name": "John", "last_name": "Doe", "birth_date": "1968-07-04"},
        {"name": "John", "age": 42, "height": 1.75, "married": False},
        {"name": "张三", "age": 30, "skills": ["Python", "Go语言"]},
    ]
    assert printed(person, *replies) == (
        "John Doe, born on 04 July 1968\nJohn, 42, 1.75 m, not married\n张三, 30: Python, Go语言\n"
    )


def test_recipe(printed: Printed) -> None:
    salad = {
        "title": "Greek Salad",
        "description": "A fresh salad.",
        "steps": ["Chop all the vegetables.", "Crumble feta on top."],
        "preparation_time_minutes": 15,
    }
    omelette = {
        "title": "Plain Omelette",
        "description": "Eggs, and little else.",
        "steps": ["Fry the beaten eggs."],
        "preparation_time_minutes": 5,
    }
    shown = (
        "Greek Salad (15 minutes): A fresh salad.\n  1. Chop all the vegetables.\n  2. Crumble feta on top.\n"
    )
    assert printed(recipe, salad, salad, omelette) == (
        f"{shown}{shown}Plain Omelette (5 minutes): Eggs, and little else.\n  1. Fry the beaten eggs.\n"
    )


def test_the_recipe_sample_sends_a_rendered_structured_prompt() -> None:
    reply = '{"title": "Salad", "description": "Fresh.", "steps": ["Chop."], "preparation_time_minutes": 5}'
    model = ScriptedChatModel([reply] * 3)
    recipe.main(model)
    listed = "cucumber, tomato, feta, onion, olives"
    assert [request.messages[-1].text for request in model.requests] == [
        f"Create a recipe that can be prepared using only {listed}.",
        f"Create a recipe of a salad that can be prepared using only {listed}.",
        "Create a recipe of an omelette.",
    ]


def test_film(printed: Printed) -> None:
    reply = {
        "title": "英雄",
        "director": "张艺谋",
        "publication_date": "2002-10-24",
        "description": "A nameless warrior tells a king how three assassins died.",
    }
    assert printed(film, reply) == (
        "英雄 (2002) by 张艺谋: A nameless warrior tells a king how three assassins died.\n"
        "input and output tokens: 16, 17\n"
        "finish reason: stop, strategy: json_schema\n"
        "attempts: 1, coercions: 0\n"
    )


def test_async_calls(printed: Printed) -> None:
    assert printed(async_calls, value("billing"), value("bug"), value("delivery")) == (
        "billing   I was charged twice for the same invoice.\n"
        "bug       The application crashes when I open the settings.\n"
        "delivery  Can you deliver to Norway?\n"
    )


def test_streaming_text(printed: Printed) -> None:
    assert printed(streaming_text, "A tower that shines.", "A frame with beads.") == (
        "A tower that shines.\nA frame with beads.\n"
    )


def test_custom_parser(printed: Printed) -> None:
    assert printed(custom_parser, value("12.50 EUR"), {"shop": "Harper's", "total": "20.00 GBP"}) == (
        "Money(amount=Decimal('12.50'), currency='EUR')\n"
        "Receipt(shop=\"Harper's\", total=Money(amount=Decimal('20.00'), currency='GBP'))\n"
    )


def test_streaming_record(printed: Printed) -> None:
    new_york = {"name": "New York", "population": 8336817, "sights": ["Central Park", "Broadway"]}
    rome = {"name": "Rome", "population": 2754719, "sights": ["Colosseum"]}
    assert printed(streaming_record, new_york, rome) == (
        "{} | population is complete: False\n"
        "{'name': 'New '} | population is complete: False\n"
        "{'name': 'New York'} | population is complete: False\n"
        "{'name': 'New York', 'population': 8336817} | population is complete: True\n"
        "{'name': 'New York', 'population': 8336817, 'sights': []} | population is complete: True\n"
        "{'name': 'New York', 'population': 8336817, 'sights': ['Central Park', 'Broadway']} "
        "| population is complete: True\n"
        "City(name='New York', population=8336817, sights=['Central Park', 'Broadway'])\n"
        "attempt 1 with json_schema\n"
        "  name: 'Rome'\n"
        "  population: 2754719\n"
        "  sights: ['Colosseum']\n"
        "complete after 1 attempt: Rome\n"
    )


def test_streaming_items(printed: Printed) -> None:
    people = [{"name": "Ann", "age": 31}, {"name": "Bob", "age": 27}, {"name": "Cy", "age": 5}]
    assert printed(streaming_items, value(people)) == (
        "Ann is 31\nBob is 27\nCy is 5\n"
        "Ann is 31\n"
        'item 1 does not fit: {"name": "Bob", "age": "old"}: $[1].age: expected an integer, found "old"\n'
        "Cy is 5\n"
    )


def test_without_interface(printed: Printed) -> None:
    replies = [{"name": "John", "age": 42}, {"number": "A-17", "total": 120.5}]
    assert printed(without_interface, *replies) == (
        "Person(name='John', age=42)\n"
        "{'number': 'A-17', 'total': 120.5}\n"
        "parsed: None, raw: 'Some time in spring.'\n"
        'structured: cannot read the reply: $: expected an integer, found "Some time in spring." '
        "(the reply: 'Some time in spring.')\n"
    )


def test_few_shot(printed: Printed) -> None:
    assert printed(few_shot) == (
        "[UserMessage] Which topic does this ticket belong to?  Ticket: I was charged twice.\n"
        '[AiMessage] {"value": "billing"}\n'
        "[UserMessage] Which topic does this ticket belong to?  Ticket: The window does not open.\n"
        '[AiMessage] {"value": "bug"}\n'
        "[UserMessage] Which topic does this ticket belong to?  Ticket: Can you deliver to Norway?\n"
        "CarelessDesk.topic_of: its example does not fit: expected one of "
        '"billing", "bug", "delivery", found \'money\'\n'
    )


def test_retry(printed: Printed) -> None:
    retry_message = '  > That answer cannot be read:\n  > - $.age: expected an integer, found "old"\n'
    assert printed(retry) == (
        "Person(name='Ann', age=31)\n"
        '  1. {"name": "Ann", "age": "old"} is rejected\n'
        '  2. {"name": "Ann", "age": 31} is accepted\n'
        "  input and output tokens: 44, 8\n"
        f"{retry_message}"
        "  > Answer again in full and fix these problems.\n"
        "Person(name='Ann', age=31)\n"
        '  1. {"name": "Ann", "age": "old"} is rejected\n'
        '  2. {"age": 31} is accepted\n'
        "  input and output tokens: 45, 6\n"
        f"{retry_message}"
        "  > Write only these parts again and fix the problems.\n"
        "  $.age: requested again\n"
    )


def test_budget(printed: Printed) -> None:
    assert printed(budget) == (
        '8, after large: overloaded; small: {"value": 8}\n'
        "3 attempts: ServiceOutputError, attempts: 3, tokens: 112\n"
        "30 tokens: ServiceOutputError, attempts: 2, tokens: 63\n"
        "0.00005 euros: ServiceOutputError, attempts: 1, tokens: 14\n"
    )


def test_strategies(printed: Printed) -> None:
    asked = "How many legs has a spider?"
    assert printed(strategies) == (
        f'grammar      schema  {asked} Reply with JSON only: {{"value": integer}}\n'
        f"json_schema  schema  {asked}\n"
        f"output_tool  schema  {asked}\n"
        f'json_mode    -       {asked} Reply with JSON only: {{"value": integer}}\n'
        f"prompt       -       {asked} Reply with the value only, in this form: integer\n"
        "8 by output_tool\n"
        "  the provider refused json_schema: response_format json_schema is not supported\n"
        "  it calls tools\n"
        "  the value is sent in an object, under the key 'value'\n"
    )


def test_lint_types(printed: Printed) -> None:
    assert printed(lint_types) == (
        "openai\n"
        "  Order.number: minLength: not sent; enforced when read\n"
        "  Order.amounts: additional properties: sent as a list of keys and values\n"
        "  Order.note: an optional property: sent as required; null where it is left out\n"
        "gemini\n"
        "  Order.number: minLength: not sent; enforced when read\n"
        "anthropic\n"
        "  Order.number: minLength: not sent; enforced when read\n"
        "  Order.amounts: additional properties: sent as a list of keys and values\n"
        "  Tree.children: recursion: sent as JSON text\n"
        "  Tree.children: any JSON: sent as JSON text in a string\n"
        "llama.cpp\n"
        "vllm\n"
        "a JSON Schema, for openai\n"
        "  #/properties/id: not: not sent; enforced when read\n"
    )


def test_a_wrong_price_is_an_error_with_its_path() -> None:
    from aiservices import ServiceOutputError

    model = ScriptedChatModel(['{"value": "twelve euros"}'] * 3)
    with pytest.raises(ServiceOutputError) as caught:
        custom_parser.main(model)
    assert [(problem.path, problem.message) for problem in caught.value.problems] == [
        ("$.value", "expected an amount and EUR, GBP or USD")
    ]


def test_preview_prompt(printed: Printed) -> None:
    assert printed(preview_prompt) == PREVIEW.format(model="scripted")


def test_a_preview_needs_no_api_key(capsys: pytest.CaptureFixture[str]) -> None:
    preview_prompt.main()
    assert capsys.readouterr().out == PREVIEW.format(model="openai:gpt-5-mini")


PREVIEW = """\
Postmaster.urgency → {model}
strategy: json_schema ({model} supports JSON Schema; the value is sent in an object, under the key 'value')

[system]
You sort the mail of Harper & Sons.

[user]
How urgent is this letter?

Letter: Please call me back tonight.

[schema, strict]
{{
  "type": "object",
  "properties": {{
    "value": {{
      "type": "string",
      "enum": [
        "high",
        "low"
      ]
    }}
  }},
  "required": [
    "value"
  ],
  "additionalProperties": false,
  "description": "high when an answer is due within a day"
}}

2 messages, strict schema: True
"""


def test_a_sample_imports_only_public_packages() -> None:
    wrong = []
    for path in FILES:
        allowed = PACKAGES_OF_THE_TOUR if path.stem in ("tour", "tour_weights") else PUBLIC_PACKAGES
        ours = {name for name in imported_by(path) if name.partition(".")[0] in PUBLIC_PACKAGES}
        wrong += [f"{path.stem} imports {name}" for name in ours - allowed]
    assert wrong == []


def imported_by(path: Path) -> list[str]:
    """Return the modules that a file imports, except those of its own package."""
    names = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.append(str(node.module))
    return names


def test_a_sample_begins_with_a_docstring() -> None:
    assert [path.stem for path in FILES if not path.read_text("utf-8").startswith('"""')] == []


def test_no_sample_has_the_name_of_a_standard_module() -> None:
    """``python samples/NAME.py`` puts the folder first on the path, so the sample would hide that module."""
    import sys

    assert {path.stem for path in FILES} & sys.stdlib_module_names == set()
