"""The same calls with the SDK, as one writes them by hand; schemas are made once."""

from __future__ import annotations

from typing import Any, TypeVar

import openai
from pydantic import BaseModel

from .clerk import KEY
from .records import Customers, Person, Truth

__all__ = [
    "acreate_person",
    "create_typed",
    "parse_typed",
    "sdk",
    "stream_helped",
    "stream_typed",
    "stream_words",
]

M = TypeVar("M", bound=BaseModel)


def _format(form: type[BaseModel]) -> Any:
    schema = {"name": form.__name__, "schema": form.model_json_schema(), "strict": True}
    return {"type": "json_schema", "json_schema": schema}


_FORMATS: dict[type[BaseModel], Any] = {form: _format(form) for form in (Person, Truth, Customers)}
_QUESTIONS: dict[type[BaseModel], str] = {
    Person: "Who is meant?",
    Truth: "Is that so?",
    Customers: "Which customers are named?",
}


def sdk(base_url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=base_url, api_key=KEY)


def create_typed(client: openai.OpenAI, form: type[M], model: str, text: str) -> M:
    """chat.completions.create and model_validate_json."""
    reply = client.chat.completions.create(
        model=model, messages=_messages(form, text), response_format=_FORMATS[form]
    )
    return form.model_validate_json(reply.choices[0].message.content or "")


def parse_typed(client: openai.OpenAI, form: type[M], model: str, text: str) -> M | None:
    """chat.completions.parse."""
    reply = client.chat.completions.parse(model=model, messages=_messages(form, text), response_format=form)
    return reply.choices[0].message.parsed


async def acreate_person(client: openai.AsyncOpenAI, text: str) -> Person:
    reply = await client.chat.completions.create(
        model="person", messages=_messages(Person, text), response_format=_FORMATS[Person]
    )
    return Person.model_validate_json(reply.choices[0].message.content or "")


def stream_words(client: openai.OpenAI, text: str) -> int:
    """The typed stream; how many pieces of text came."""
    messages: Any = [{"role": "user", "content": f"Go on: {text}"}]
    chunks = client.chat.completions.create(model="text", messages=messages, stream=True)
    return sum(1 for chunk in chunks if chunk.choices and chunk.choices[0].delta.content)


def stream_typed(client: openai.OpenAI, form: type[BaseModel], model: str, text: str) -> int:
    """The typed stream of an object, of which only the pieces are looked at; how many came."""
    chunks: Any = client.chat.completions.create(
        model=model, messages=_messages(form, text), response_format=_FORMATS[form], stream=True
    )
    return sum(1 for chunk in chunks if chunk.choices and chunk.choices[0].delta.content)


def stream_helped(client: openai.OpenAI, form: type[M], model: str, text: str) -> M | None:
    """chat.completions.stream, which parses what has come of the object at each piece."""
    with client.chat.completions.stream(
        model=model, messages=_messages(form, text), response_format=form
    ) as events:
        for event in events:
            if event.type == "content.delta":
                _ = event.parsed
        return events.get_final_completion().choices[0].message.parsed


def _messages(form: type[BaseModel], text: str) -> Any:
    return [{"role": "user", "content": f"{_QUESTIONS[form]} {text}"}]
