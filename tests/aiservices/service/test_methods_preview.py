"""``preview`` shows the request of a call without an API key and without the SDK of the provider."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Protocol

import pytest

from aiservices import (
    AiMessage,
    Capabilities,
    ChatOptions,
    History,
    Message,
    ScriptedChatModel,
    Strategy,
    SystemMessage,
    UserMessage,
    create,
    options,
    preview,
    system_message,
    user_message,
)

ROOT = Path(__file__).parents[3]


class Judge(Protocol):
    @system_message("Be strict")
    @user_message("Is {{text}} good?")
    @options(temperature=0)
    def good(self, text: str) -> bool: ...

    async def describe(self, text: str) -> str: ...


def test_a_preview_is_readable_text() -> None:
    service = create(Judge, ScriptedChatModel([]))
    assert (
        str(preview(service.good, text="tea"))
        == """\
Judge.good → scripted
strategy: json_schema (scripted supports JSON Schema; the value is sent in an object, under the key 'value')

[system]
Be strict

[user]
Is tea good?

[schema, strict]
{
  "type": "object",
  "properties": {
    "value": {
      "type": "boolean"
    }
  },
  "required": [
    "value"
  ],
  "additionalProperties": false
}"""
    )


def test_without_a_schema_none_is_shown() -> None:
    service = create(Judge, ScriptedChatModel([], capabilities=Capabilities()))
    assert (
        str(preview(service.describe, "tea"))
        == """\
Judge.describe → scripted
strategy: text (the type is plain text: the reply itself is the value)

[user]
tea"""
    )


def test_a_schema_that_is_not_enforced_is_shown_as_such() -> None:
    service = create(Judge, ScriptedChatModel([], capabilities=Capabilities(json_schema=True)))
    assert "\n[schema]\n" in str(preview(service.good, "tea"))


def test_every_message_is_shown_under_its_role() -> None:
    class Chat(Protocol):
        def chat(self, text: str, before: Annotated[list[Message], History]) -> str: ...

    service = create(Chat, ScriptedChatModel([]))
    assert (
        str(preview(service.chat, "and now?", [UserMessage("hello"), AiMessage("hi")]))
        == """\
Chat.chat → scripted
strategy: text (the type is plain text: the reply itself is the value)

[user]
hello

[assistant]
hi

[user]
and now?"""
    )


def test_the_parts_of_a_preview_can_be_looked_at() -> None:
    shown = preview(create(Judge, ScriptedChatModel([])).good, "tea")
    assert (shown.method, shown.model, shown.messages, shown.options, shown.strategy, shown.strict) == (
        "Judge.good",
        "scripted",
        (SystemMessage("Be strict"), UserMessage("Is tea good?")),
        ChatOptions(temperature=0),
        Strategy.JSON_SCHEMA,
        True,
    )


def test_a_preview_asks_no_model() -> None:
    model = ScriptedChatModel([])
    preview(create(Judge, model).good, "tea")
    assert model.requests == []


def test_wrong_arguments_are_told_as_by_the_call() -> None:
    service = create(Judge, ScriptedChatModel([]))
    with pytest.raises(TypeError) as caught:
        preview(service.good)  # type: ignore[call-arg]
    assert str(caught.value) == "Judge.good: missing a required argument: 'text'"


def test_only_methods_of_services_can_be_previewed() -> None:
    with pytest.raises(TypeError) as caught:
        preview(len, "x")
    assert (
        str(caught.value) == "<built-in function len> is not a method of a service made by create; pass one"
    )


def test_an_openai_call_is_previewed_without_a_key_and_without_the_sdk() -> None:
    program = """
import sys
from typing import Protocol
from aiservices import create, preview

class Judge(Protocol):
    def good(self, text: str) -> bool: ...

shown = preview(create(Judge, model="openai:gpt-x").good, "tea")
print(shown.messages[0].text, shown.schema["properties"], "openai" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}
    )
    assert (done.stdout, done.stderr) == ("tea {'value': {'type': 'boolean'}} False\n", "")
