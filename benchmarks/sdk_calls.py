"""The baseline calls of the benchmarks, made with the OpenAI SDK alone."""

from __future__ import annotations

from typing import Any, TypeVar

import openai
from pydantic import BaseModel

from .clerk import KEY
from .records import Customers, Person, Truth

M = TypeVar("M", bound=BaseModel)


def _format(tp: type[BaseModel]) -> Any:
    schema = {"name": tp.__name__, "schema": tp.model_json_schema(), "strict": True}
    return {"type": "json_schema", "json_schema": schema}


_FORMATS: dict[type[BaseModel], Any] = {tp: _format(tp) for tp in (Person, Truth, Customers)}
_QUESTIONS: dict[type[BaseModel], str] = {
    Person: "Who is meant?",
    Truth: "Is that so?",
    Customers: "Which customers are named?",
}


def sdk_client(base_url: str) -> openai.OpenAI:
    """Return a client of the OpenAI SDK for the benchmark server."""
    return openai.OpenAI(base_url=base_url, api_key=KEY)


def create_and_validate(client: openai.OpenAI, tp: type[M], model: str, text: str) -> M:
    """Call ``chat.completions.create`` and validate the reply with pydantic."""
    reply = client.chat.completions.create(
        model=model, messages=_messages(tp, text), response_format=_FORMATS[tp]
    )
    return tp.model_validate_json(reply.choices[0].message.content or "")


def parse(client: openai.OpenAI, tp: type[M], model: str, text: str) -> M | None:
    """Call ``chat.completions.parse`` of the OpenAI SDK, which also validates the reply."""
    reply = client.chat.completions.parse(model=model, messages=_messages(tp, text), response_format=tp)
    return reply.choices[0].message.parsed


async def create_person_async(client: openai.AsyncOpenAI, text: str) -> Person:
    """Call the async ``chat.completions.create`` and validate the reply with pydantic."""
    reply = await client.chat.completions.create(
        model="person", messages=_messages(Person, text), response_format=_FORMATS[Person]
    )
    return Person.model_validate_json(reply.choices[0].message.content or "")


def stream_words(client: openai.OpenAI, text: str) -> int:
    """Stream a text and return the number of its pieces."""
    messages: Any = [{"role": "user", "content": f"Go on: {text}"}]
    chunks = client.chat.completions.create(model="text", messages=messages, stream=True)
    return sum(1 for chunk in chunks if chunk.choices and chunk.choices[0].delta.content)


def stream_chunks(client: openai.OpenAI, tp: type[BaseModel], model: str, text: str) -> int:
    """Stream a JSON object without parsing it, and return the number of its pieces."""
    chunks: Any = client.chat.completions.create(
        model=model, messages=_messages(tp, text), response_format=_FORMATS[tp], stream=True
    )
    return sum(1 for chunk in chunks if chunk.choices and chunk.choices[0].delta.content)


def stream_parsed(client: openai.OpenAI, tp: type[M], model: str, text: str) -> M | None:
    """Stream with ``chat.completions.stream`` of the SDK, which parses the object after each piece."""
    with client.chat.completions.stream(
        model=model, messages=_messages(tp, text), response_format=tp
    ) as events:
        for event in events:
            if event.type == "content.delta":
                _ = event.parsed
        return events.get_final_completion().choices[0].message.parsed


def _messages(tp: type[BaseModel], text: str) -> Any:
    return [{"role": "user", "content": f"{_QUESTIONS[tp]} {text}"}]
