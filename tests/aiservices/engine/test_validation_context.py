"""Validators get the arguments of the call as ``info.context``, in every kind of call and of type."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import pytest
from pydantic import AfterValidator, BaseModel, ValidationInfo, field_validator
from tool_calling import tool_calls_reply

from aiservices import (
    ApprovalRequiredError,
    Result,
    Retry,
    ScriptedChatModel,
    Stream,
    SuspendedCall,
    ToolContext,
    create,
    resume,
    tool,
    user_message,
)
from aiservices.structured_model import structured
from output_parsers import parser_for

SEEN: list[Any] = []
CONTEXT = {"text": "a", "tenant": "acme"}


def keep(value: str, info: ValidationInfo) -> str:
    SEEN.append(info.context)
    return value


Kept = Annotated[str, AfterValidator(keep)]


class Quote(BaseModel):
    words: str

    @field_validator("words")
    @classmethod
    def check(cls, value: str, info: ValidationInfo) -> str:
        return keep(value, info)


@dataclass
class Inside:
    quote: Quote
    others: dict[str, Kept]


class Asks(Protocol):
    @user_message("{{text}}")
    def quote(self, text: str, tenant: Annotated[str, ToolContext]) -> Quote: ...

    @user_message("{{text}}")
    def inside(self, text: str, tenant: Annotated[str, ToolContext]) -> Inside: ...

    @user_message("{{text}}")
    def kept(self, text: str, tenant: Annotated[str, ToolContext]) -> list[Kept]: ...

    @user_message("{{text}}")
    def result(self, text: str, tenant: Annotated[str, ToolContext]) -> Result[Quote]: ...

    @user_message("{{text}}")
    async def awaited(self, text: str, tenant: Annotated[str, ToolContext]) -> Quote: ...

    @user_message("{{text}}")
    def stream(self, text: str, tenant: Annotated[str, ToolContext]) -> Stream[Quote]: ...

    @user_message("{{text}}")
    def items(self, text: str, tenant: Annotated[str, ToolContext]) -> Iterator[Quote]: ...

    @user_message("{{text}}")
    def aitems(self, text: str, tenant: Annotated[str, ToolContext]) -> AsyncIterator[Quote]: ...


QUOTE = '{"words": "x"}'
INSIDE = '{"quote": {"words": "x"}, "others": {"a": "y"}}'
ITEMS = '{"value": [{"words": "x"}, {"words": "y"}]}'


async def listed(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def test_validators_see_the_arguments_in_each_kind_of_call() -> None:
    cases = [
        (lambda asks: asks.quote("a", "acme"), QUOTE, 1),
        (lambda asks: asks.quote("a", "acme"), f"Here it is:\n```json\n{QUOTE}\n```", 1),
        (lambda asks: asks.inside("a", "acme"), INSIDE, 2),
        (lambda asks: asks.inside("a", "acme"), f"Sure! {INSIDE}", 2),
        (lambda asks: asks.kept("a", "acme"), '{"value": ["x", "y"]}', 2),
        (lambda asks: asks.result("a", "acme"), QUOTE, 1),
        (lambda asks: asyncio.run(asks.awaited("a", "acme")), QUOTE, 1),
        (lambda asks: asks.stream("a", "acme").result(), QUOTE, 1),
        (lambda asks: list(asks.items("a", "acme")), ITEMS, 2),
        (lambda asks: asyncio.run(listed(asks.aitems("a", "acme"))), ITEMS, 2),
    ]
    for call, reply, count in cases:
        SEEN.clear()
        call(create(Asks, ScriptedChatModel([reply])))  # type: ignore[no-untyped-call]
        assert [CONTEXT] * count == SEEN, reply


def test_each_call_has_a_context_of_its_own_and_none_is_left_after_it() -> None:
    def change(value: str, info: ValidationInfo) -> str:
        assert info.context == {"text": "a"}
        info.context["text"] = "changed"
        return value

    class Changes(Protocol):
        def ask(self, text: str) -> list[Annotated[str, AfterValidator(change)]]: ...

    assert create(Changes, ScriptedChatModel(['["x", "y"]'])).ask("a") == ["x", "y"]
    SEEN.clear()
    parser_for(Quote).parse(QUOTE)
    structured(ScriptedChatModel([QUOTE]), Quote).invoke("x")
    assert SEEN == [{}, {}]


def test_validators_of_the_arguments_of_tools_and_of_repaired_fields_see_them_too() -> None:
    def note(words: Kept) -> str:
        return words

    class Repairs(Protocol):
        @user_message("{{text}}")
        def ask(self, text: str) -> Checked: ...

    class Checked(BaseModel):
        words: str
        count: int

        @field_validator("words")
        @classmethod
        def check(cls, value: str, info: ValidationInfo) -> str:
            return keep(value, info)

    SEEN.clear()
    model = ScriptedChatModel([tool_calls_reply(("note", QUOTE)), QUOTE])
    create(Asks, model, tools=[note]).quote("a", "acme")
    assert SEEN == [CONTEXT] * 2
    SEEN.clear()
    model = ScriptedChatModel(['{"words": "x", "count": "many"}', '{"count": 3}'])
    create(Repairs, model, retry=Retry(mode="fields"), localns={"Checked": Checked}).ask("a")
    assert SEEN
    assert all(context == {"text": "a"} for context in SEEN)


def test_a_resumed_call_has_what_it_is_resumed_with() -> None:
    @tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    asks = create(Asks, ScriptedChatModel([tool_calls_reply(("pay", "{}")), QUOTE]), tools=[pay])
    with pytest.raises(ApprovalRequiredError) as caught:
        asks.quote("a", "acme")
    SEEN.clear()
    resume(asks.quote, SuspendedCall.from_json(caught.value.state.to_json()), True, tenant="acme")
    assert SEEN == [{"tenant": "acme"}]
