"""The service that the benchmarks call: one method for each type and shape of answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from aiservices import OpenAiChatModel, Result, Stream, create, user_message

from .records import Customer, Customers, DataclassCustomers, Person

KEY = "none-is-needed"


class Clerk(Protocol):
    @user_message("Who is meant? {{text}}")
    def person(self, text: str) -> Person: ...
    @user_message("Who is meant? {{text}}")
    def person_result(self, text: str) -> Result[Person]: ...
    @user_message("Is that so? {{text}}")
    def truth(self, text: str) -> bool: ...
    @user_message("Which customers are named? {{text}}")
    def customers(self, text: str) -> Customers: ...
    @user_message("Which customers are named? {{text}}")
    def dataclass_customers(self, text: str) -> DataclassCustomers: ...
    @user_message("Go on: {{text}}")
    def words(self, text: str) -> Iterator[str]: ...
    @user_message("Which customers are named? {{text}}")
    def growing_customers(self, text: str) -> Stream[Customers]: ...
    @user_message("Which customers are named? {{text}}")
    def each_customer(self, text: str) -> Iterator[Customer]: ...


class AsyncClerk(Protocol):
    @user_message("Who is meant? {{text}}")
    async def person(self, text: str) -> Person: ...


def clerk(model: str, base_url: str) -> tuple[Clerk, OpenAiChatModel]:
    """Create the benchmark service, and return it with its model, which the caller must close."""
    chat = OpenAiChatModel(model, base_url=base_url, api_key=KEY)
    return create(Clerk, chat), chat


def async_clerk(model: str, base_url: str) -> tuple[AsyncClerk, OpenAiChatModel]:
    """Create the async benchmark service, and return it with its model, which the caller must close."""
    chat = OpenAiChatModel(model, base_url=base_url, api_key=KEY)
    return create(AsyncClerk, chat), chat
