"""The two sides of a call: a service of this library, and the SDK used by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import openai
from pydantic import BaseModel

from aiservices import OpenAiChatModel, Result, create, user_message

from .records import Customers, Person, Truth

__all__ = ["KEY", "AsyncClerk", "AsyncHand", "Clerk", "Hand", "clerk", "messages"]

KEY = "none-is-needed"


class Clerk(Protocol):
    @user_message("Who is meant? {{text}}")
    def person(self, text: str) -> Person: ...
    @user_message("Who is meant? {{text}}")
    def person_with_all(self, text: str) -> Result[Person]: ...
    @user_message("Is that so? {{text}}")
    def truth(self, text: str) -> bool: ...
    @user_message("Which customers are named? {{text}}")
    def customers(self, text: str) -> Customers: ...
    @user_message("Go on: {{text}}")
    def words(self, text: str) -> Iterator[str]: ...


class AsyncClerk(Protocol):
    @user_message("Who is meant? {{text}}")
    async def person(self, text: str) -> Person: ...


def clerk(model: str, base_url: str) -> tuple[Clerk, OpenAiChatModel]:
    """A service that asks for one kind of answer, and its model, which is to be closed."""
    chat = OpenAiChatModel(model, base_url=base_url, api_key=KEY)
    return create(Clerk, chat), chat


def messages(question: str, text: str) -> list[Any]:
    return [{"role": "user", "content": f"{question} {text}"}]


def _format(form: type[BaseModel]) -> Any:
    schema = {"name": form.__name__, "schema": form.model_json_schema(), "strict": True}
    return {"type": "json_schema", "json_schema": schema}


_FORMATS = {form: _format(form) for form in (Person, Truth, Customers)}


class Hand:
    """chat.completions.create and model_validate_json, as written by hand; the schema is made once."""

    def __init__(self, base_url: str) -> None:
        self.client = openai.OpenAI(base_url=base_url, api_key=KEY)

    def typed[T: BaseModel](self, form: type[T], model: str, question: str, text: str) -> T: ...
