"""Retry: an answer that cannot be read is asked for again, in full or only the fields that do not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from aiservices import ChatModel, Result, Retry, ScriptedChatModel, create, user_message

ERRING = '{"name": "Ann", "age": "old"}'


@dataclass
class Person:
    name: str
    age: int


class Census(Protocol):
    @user_message("Extract the person from this text.\n\nText: {{text}}")
    def person(self, text: str) -> Result[Person]: ...


def show(result: Result[Person], model: ScriptedChatModel) -> None:
    """Print a value, what each attempt gave, and what the model was told after the first."""
    print(result.value)
    for number, attempt in enumerate(result.attempts, 1):
        print(f"  {number}. {attempt.text} {'is unfit' if attempt.error else 'is taken'}")
    print(f"  words read and written, in all: {result.usage.input_tokens}, {result.usage.output_tokens}")
    for line in model.requests[1].messages[-1].text.splitlines():
        print(f"  > {line}")
    for coercion in result.coercions:
        print(f"  {coercion}")


def main(model: ChatModel | str | None = None) -> None:
    """Print one record twice. No model but the scripted ones is asked, for these err when they should."""
    whole = ScriptedChatModel([ERRING, '{"name": "Ann", "age": 31}'])
    show(create(Census, whole).person("Ann is 31."), whole)  # retry=Retry() is the default, None turns it off
    fields = ScriptedChatModel([ERRING, '{"age": 31}'])
    show(create(Census, fields, retry=Retry(mode="fields")).person("Ann is 31."), fields)


if __name__ == "__main__":
    main()
