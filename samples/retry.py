"""Retry: an answer that cannot be read is requested again, as a whole or only its wrong fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from aiservices import ChatModel, Result, Retry, ScriptedChatModel, create, user_message

WRONG_ANSWER = '{"name": "Ann", "age": "old"}'


@dataclass
class Person:
    name: str
    age: int


class Census(Protocol):
    @user_message("Extract the person from this text.\n\nText: {{text}}")
    def person(self, text: str) -> Result[Person]: ...


def show(result: Result[Person], model: ScriptedChatModel) -> None:
    """Print a value, the text of each attempt, and the message that reports the first error."""
    print(result.value)
    for number, attempt in enumerate(result.attempts, 1):
        print(f"  {number}. {attempt.text} {'is rejected' if attempt.error else 'is accepted'}")
    print(f"  input and output tokens: {result.usage.input_tokens}, {result.usage.output_tokens}")
    for line in model.requests[1].messages[-1].text.splitlines():
        print(f"  > {line}")
    for coercion in result.coercions:
        print(f"  {coercion}")


def main(model: ChatModel | str | None = None) -> None:
    """Print the results of two kinds of retries. Only scripted models are called."""
    scripted = ScriptedChatModel([WRONG_ANSWER, '{"name": "Ann", "age": 31}'])
    show(create(Census, scripted).person("Ann is 31."), scripted)  # retry=Retry() is the default.
    scripted = ScriptedChatModel([WRONG_ANSWER, '{"age": 31}'])
    show(create(Census, scripted, retry=Retry(mode="fields")).person("Ann is 31."), scripted)


if __name__ == "__main__":
    main()
