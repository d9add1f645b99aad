"""A service works with the real SDK, a real OpenAI-compatible server and a real model."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from datetime import date
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import pytest
from pydantic import BaseModel

from aiservices import (
    AuthenticationError,
    Budget,
    ChatOptions,
    OpenAiChatModel,
    Result,
    Strategy,
    TruncatedError,
    create,
    user_message,
)
from aiservices.models.local.weights import is_ready, weights_named, weights_path

SMALL = weights_named("smollm2")
KEY = "a-key-of-this-test"
pytestmark = [
    pytest.mark.peers,
    pytest.mark.local_model,
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason="install the extra local of aiservices first"),
    pytest.mark.skipif(not is_ready(SMALL), reason="no SmolLM2 here: aiservices models pull smollm2"),
]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: str
    age: int
    born: date | None


class Reader(Protocol):
    @user_message("Is this text about an animal? Text: {{it}}")
    def is_animal(self, text: str) -> bool: ...
    @user_message("Which colour does the text name? Text: {{it}}")
    def colour(self, text: str) -> Result[Colour]: ...
    @user_message("Extract the person from the text. Text: {{it}}")
    async def person(self, text: str) -> Person: ...
    @user_message("List three words from the text. Text: {{it}}")
    def words(self, text: str) -> list[str]: ...
    @user_message("Say hello to {{name}}.")
    def greet(self, name: str) -> Iterator[str]: ...
    @user_message("Say hello to {{name}}.")
    def agreet(self, name: str) -> AsyncIterator[str]: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights_path(SMALL))
    params.n_ctx, params.verbosity, params.warmup, params.ui = 2048, -1, False, False
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [KEY]
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


@pytest.fixture
def model(address: str) -> Iterator[OpenAiChatModel]:
    limits = ChatOptions(temperature=0, max_tokens=200)
    with OpenAiChatModel("smollm2", base_url=address, api_key=KEY, options=limits) as model:
        yield model


def test_every_shape_of_answer_has_its_type(model: OpenAiChatModel) -> None:
    reader = create(Reader, model, strategy=Strategy.JSON_SCHEMA)

    assert isinstance(reader.is_animal("The dog barks."), bool)
    colour = reader.colour("The sky is blue.")
    assert isinstance(colour.value, Colour)
    assert colour.usage.total_tokens > 0
    words = reader.words("apple, pear, plum")
    assert isinstance(words, list)
    assert all(isinstance(word, str) for word in words)


def test_an_awaited_record_is_read(model: OpenAiChatModel) -> None:
    async def ask() -> Person:
        person = await create(Reader, model).person("Ann Smith is 42 years old.")
        await model.aclose()
        return person

    assert isinstance(asyncio.run(ask()), Person)


def test_text_streams_in_pieces(model: OpenAiChatModel) -> None:
    reader = create(Reader, model)

    pieces = list(reader.greet("Ann"))

    assert len(pieces) > 1
    assert "".join(pieces).strip()


def test_text_streams_in_pieces_asynchronously(model: OpenAiChatModel) -> None:
    async def ask() -> list[str]:
        pieces = [piece async for piece in create(Reader, model).agreet("Ann")]
        await model.aclose()
        return pieces

    assert len(asyncio.run(ask())) > 1


def test_an_answer_that_is_cut_off_is_an_error(model: OpenAiChatModel) -> None:
    reader = create(Reader, model, options=ChatOptions(max_tokens=2))

    with pytest.raises(TruncatedError) as caught:
        reader.words("apple, pear, plum")

    assert str(caught.value) == (
        "Reader.words: the answer was cut off by a length limit; raise max_tokens or ask for less"
    )
    assert caught.value.usage is not None


def test_a_wrong_key_is_reported_after_one_request(address: str) -> None:
    with OpenAiChatModel("smollm2", base_url=address, api_key="wrong") as model:
        reader = create(Reader, model, budget=Budget(first_wait=0))

        with pytest.raises(AuthenticationError) as caught:
            reader.is_animal("The dog barks.")

    assert caught.value.status == 401
    assert len(caught.value.attempts) == 1
