"""``leniency=`` of ``create`` and ``@options`` decides which replies are read, in all kinds of calls."""

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    Capabilities,
    ChatReply,
    DefinitionError,
    Leniency,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    ToolCall,
    create,
    options,
    user_message,
)
from aiservices.structured_model import structured


class Counter(Protocol):
    @user_message("How many?")
    def count(self) -> int: ...

    @user_message("How many?")
    async def count_async(self) -> int: ...

    @user_message("How many?")
    def stream(self) -> Stream[int]: ...

    @user_message("How many each?")
    def each(self) -> Iterator[int]: ...

    @options(leniency=Leniency.NONE)
    @user_message("How many?")
    def count_exactly(self) -> int: ...


def counter(*replies: Any, **settings: Any) -> Counter:
    capabilities = settings.pop("capabilities", Capabilities())
    return create(Counter, ScriptedChatModel(replies, capabilities=capabilities), retry=None, **settings)


def test_the_default_refuses_guesses() -> None:
    with pytest.raises(ServiceOutputError) as caught:
        counter("42.7").count()
    assert list(map(str, caught.value.problems)) == ["$: expected an integer, found 42.7"]


def test_a_service_may_accept_guesses_in_all_kinds_of_calls() -> None:
    assert counter("42.7", leniency=Leniency.ALL).count() == 42
    assert asyncio.run(counter("42.7", leniency=Leniency.ALL).count_async()) == 42
    assert counter("42.7", leniency=Leniency.ALL).stream().result().value == 42
    assert list(counter("[1.5, 2]", leniency=Leniency.ALL).each()) == [1, 2]


@pytest.mark.parametrize(
    ("strategy", "capabilities", "reply"),
    [
        ("prompt", Capabilities(), "42.7"),
        ("json_mode", Capabilities(json_mode=True), '{"value": 42.7}'),
        ("grammar", Capabilities(constrained=True), '{"value": 42.7}'),
        ("json_schema", Capabilities(json_schema=True), '{"value": 42.7}'),
        ("json_schema", Capabilities(json_schema=True, strict_schema=True), '{"value": 42.7}'),
        (
            "output_tool",
            Capabilities(tools=True),
            ChatReply(AiMessage("", (ToolCall("1", "int", '{"value": 42.7}'),))),
        ),
    ],
)
def test_the_leniency_holds_for_every_strategy(strategy: str, capabilities: Capabilities, reply: Any) -> None:
    service = counter(reply, strategy=strategy, capabilities=capabilities, leniency=Leniency.ALL)
    assert service.count() == 42


def test_a_method_overrides_the_leniency_of_its_service() -> None:
    with pytest.raises(ServiceOutputError) as caught:
        counter('"42"', leniency=Leniency.ALL).count_exactly()
    assert list(map(str, caught.value.problems)) == [
        '$: number as text is not permitted with Leniency.NONE, found "42"'
    ]


def test_an_interface_may_declare_the_leniency_of_its_methods() -> None:
    @options(leniency=Leniency.ALL)
    class Fruits(Protocol):
        @user_message("List fruits.")
        def fruits(self) -> Result[list[str]]: ...

    result = create(Fruits, ScriptedChatModel(["apple, banana"], capabilities=Capabilities())).fruits()
    assert result.value == ["apple", "banana"]
    assert list(map(str, result.coercions)) == ['$: items in a text: "apple, banana" → an array of 2']


def test_without_leniency_text_in_place_of_the_tool_call_is_refused() -> None:
    service = counter("42", strategy="output_tool", capabilities=Capabilities(tools=True))
    assert service.count() == 42
    service = counter(
        '{"value": 42}',
        strategy="output_tool",
        capabilities=Capabilities(tools=True),
        leniency=Leniency.NONE,
    )
    with pytest.raises(ServiceOutputError) as caught:
        service.count()
    assert list(map(str, caught.value.problems)) == [
        "$: text instead of a call of int is not permitted with Leniency.NONE"
    ]


def test_an_unknown_leniency_is_a_problem_of_the_definition() -> None:
    class Single(Protocol):
        @user_message("How many?")
        def count(self) -> int: ...

    lenient: Any = "all"
    with pytest.raises(DefinitionError) as caught:
        create(Single, ScriptedChatModel([]), leniency=lenient)
    assert str(caught.value) == (
        "Single.count: leniency is 'all'; use one of: Leniency.NONE, Leniency.SAFE, Leniency.ALL"
    )


def test_lines_are_the_items_of_a_list_of_text_with_the_prompt_strategy() -> None:
    class Fruits(Protocol):
        @user_message("List fruits.")
        def fruits(self) -> list[str]: ...

    model = ScriptedChatModel(
        ["apple\nbanana", "- apple\n- red grapes, if any", "apple, banana", '["apple"]'],
        capabilities=Capabilities(),
    )
    service = create(Fruits, model)
    assert service.fruits() == ["apple", "banana"]
    assert service.fruits() == ["apple", "red grapes, if any"]
    assert service.fruits() == ["apple"]
    assert "expected an array; write the items as a JSON array" in model.requests[3].messages[-1].text


def test_structured_has_a_leniency_too() -> None:
    model = ScriptedChatModel(["42.7", "42.7"], capabilities=Capabilities())
    assert structured(model, int, retry=None, leniency=Leniency.ALL).invoke("How many?") == 42
    with pytest.raises(ServiceOutputError):
        structured(model, int, retry=None).invoke("How many?")
    with pytest.raises(DefinitionError, match="leniency is 'all'; use one of"):
        structured(model, int, leniency="all")  # type: ignore[call-overload]  # the mistake under test
