"""Settings, return types, templates and interceptors that cannot work are errors that say what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Annotated, Any, Literal, Protocol, overload

import pytest
from pydantic import Field

from aiservices import (
    Budget,
    Image,
    MemoryId,
    Retry,
    ToolErrors,
    ToolLimits,
    UserMessage,
    create,
    preview,
    user_message,
)
from aiservices.memory import ChatMemory, MessageWindow
from aiservices.models.errors import DefinitionError
from aiservices.models.scripted import ScriptedChatModel
from aiservices.retrieval import split


class Counter(Protocol):
    @user_message("How many?")
    def count(self) -> int: ...

    @user_message("How many?")
    async def acount(self) -> int: ...


def counter(**settings: Any) -> Counter:
    return create(Counter, ScriptedChatModel(["1"] * 2), **settings)


def error_of(function: Callable[[], object]) -> str:
    with pytest.raises(DefinitionError) as caught:
        function()
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("budget", 3, "budget has the type int; pass a Budget"),
        ("options", {}, "options has the type dict; pass a ChatOptions"),
        ("options", {"temperature": 0}, "options has the type dict; pass a ChatOptions"),
        ("retry", "x", "retry has the type str; pass a Retry"),
        ("tool_limits", None, "tool_limits has the type NoneType; pass a ToolLimits"),
        ("tool_errors", len, "tool_errors has the type builtin_function_or_method; pass a ToolErrors"),
        ("localns", ["x"], "localns has the type list; pass a Mapping"),
        ("system_message", 3, "system_message has the type int; pass a template or a function"),
        ("transform", 3, "transform has the type int; pass a function of (request) or (request, invocation)"),
        ("parsers", 3, "parsers has the type int; put it into a list"),
        ("tools", "weather", "tools has the type str; put it into a list"),
        (
            "interceptors",
            [3],
            "an item of interceptors has the type int; pass a function of (invocation, proceed)",
        ),
        ("listeners", ["x"], "an item of listeners has the type str; pass a function of (event)"),
        (
            "parsers",
            [None],
            "an item of parsers has the type NoneType; pass functions of (target, registry), "
            "or write Annotated[T, parser] as the return type",
        ),
    ],
)
def test_a_setting_of_a_wrong_type_is_an_error(setting: str, value: object, message: str) -> None:
    assert error_of(lambda: counter(**{setting: value})) == f"Counter: {message}"


def test_all_settings_of_wrong_types_are_reported_at_once() -> None:
    message = error_of(lambda: counter(budget=3, options={}))
    assert "budget has the type int" in message
    assert "options has the type dict" in message


def test_settings_may_be_none_where_they_are_optional() -> None:
    assert counter(options=None, leniency=None, budget=None, retry=None, transform=None).count() == 1


class Nothing(Enum):
    pass


@pytest.mark.parametrize(
    ("output_type", "reason"),
    [
        (Literal[()], "it has no values"),
        (Nothing, "it has no members"),
        (Annotated[int, Field(ge=5, le=1)], "no value can be at least 5 and at most 1"),
        (Annotated[float, Field(gt=1, lt=1)], "no value can be more than 1 and less than 1"),
        (Annotated[str, Field(min_length=3, max_length=2)], "no value can be at least 3 characters and"),
        (Annotated[list[int], Field(min_length=3, max_length=2)], "no value can be at least 3 items and"),
        (dict[list[int], int], "its keys cannot be list[int], which is not hashable"),
        (set[list[int]], "its items cannot be list[int], which is not hashable"),
        (type[int], "no parser reads type[int]"),
        (list[type[int]], "no parser reads type[int] (in list[type[int]])"),
    ],
)
def test_a_type_without_values_is_an_error(output_type: object, reason: str) -> None:
    def ask(self: object) -> object: ...

    ask.__annotations__["return"] = output_type
    asks = type("Asks", (Protocol,), {"ask": user_message("x")(ask), "__module__": __name__})
    message = error_of(lambda: create(asks, ScriptedChatModel(["1"])))
    assert message.startswith("Asks.ask: ")
    assert reason in message


@pytest.mark.parametrize("bound", [1, 5])
def test_bounds_that_allow_one_value_are_accepted(bound: int) -> None:
    class Asks(Protocol):
        @user_message("x")
        def ask(self) -> Annotated[int, Field(ge=1, le=bound)]: ...

    assert create(Asks, ScriptedChatModel(["1"]), localns={"bound": bound}).ask() == 1


def test_an_inline_if_without_an_else_renders_as_nothing() -> None:
    class Letter(Protocol):
        @user_message("{{ 'Dear ' if formal }}you{{ (name if formal) | upper }}")
        def write(self, formal: bool, name: str) -> str: ...

    model = ScriptedChatModel(["1", "2"])
    letter = create(Letter, model)
    letter.write(False, "Ann")
    letter.write(True, "Ann")
    assert [request.messages[-1].text for request in model.requests] == ["you", "Dear youANN"]


def returns_nothing(invocation: Any, proceed: Any) -> Iterator[Any]:
    yield from proceed(invocation)


def yields_a_number(invocation: Any, proceed: Any) -> Iterator[Any]:
    yield 5
    return (yield from proceed(invocation))


def is_not_a_generator(invocation: Any, proceed: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("interceptor", "message"),
    [
        (returns_nothing, "an interceptor returned a value of the type NoneType; it must return the answer"),
        (yields_a_number, "an interceptor yielded a value of the type int; it must yield effects"),
        (is_not_a_generator, "the interceptor is_not_a_generator is not a generator function"),
    ],
)
def test_an_interceptor_that_breaks_the_protocol_is_an_error(interceptor: Any, message: str) -> None:
    service = counter(interceptors=[interceptor])
    with pytest.raises((DefinitionError, TypeError), match=message):
        service.count()
    with pytest.raises((DefinitionError, TypeError), match=message):
        asyncio.run(service.acount())


@pytest.mark.parametrize(
    ("setting", "instead"),
    [
        ("max_retries", "use budget=Budget(max_attempts=…)"),
        ("temperature", "use options=ChatOptions(temperature=…)"),
        ("memory", "use interceptors=[ChatMemory()]"),
        ("system_prompt", "use system_message=…"),
        ("base_url", "pass a model object as the second argument, such as OpenAiChatModel(NAME, base_url=…)"),
        ("response_model", "use the return annotation of the method"),
    ],
)
def test_a_setting_of_another_library_says_what_to_write(setting: str, instead: str) -> None:
    with pytest.raises(TypeError) as caught:
        counter(**{setting: 1})
    message = f"create() got an unexpected keyword argument {setting!r}; instead, {instead}"
    assert str(caught.value) == message


def test_a_misspelt_setting_is_suggested() -> None:
    with pytest.raises(TypeError, match="did you mean 'budget'"):
        counter(budgets=1)
    with pytest.raises(TypeError, match="it takes: options, strategy,"):
        counter(unheard_of=1)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        (
            "transform",
            lambda request, invocation, other: request,
            "transform is <lambda>, which cannot be called with (request) or (request, invocation)",
        ),
        (
            "listeners",
            [lambda: None],
            "an item of listeners is <lambda>, which cannot be called with (event)",
        ),
        ("interceptors", [ChatMemory], "an item of interceptors is the class ChatMemory; pass ChatMemory(…)"),
        (
            "interceptors",
            [lambda invocation: None],
            "an item of interceptors is <lambda>, which cannot be called with (invocation, proceed)",
        ),
        (
            "tool_errors",
            ToolErrors(unknown=lambda: ""),  # type: ignore[misc, arg-type]
            "unknown of ToolErrors is <lambda>, which cannot be called with (run)",
        ),
    ],
)
def test_a_function_with_another_signature_is_an_error(setting: str, value: object, message: str) -> None:
    assert error_of(lambda: counter(**{setting: value})).startswith(f"Counter: {message}")


def test_a_function_with_more_parameters_that_have_defaults_is_accepted() -> None:
    assert (
        counter(transform=lambda request, note="": request, listeners=[lambda event, *more: None]).count()
        == 1
    )


def test_a_transform_that_returns_nothing_is_an_error_of_the_call() -> None:
    message = error_of(lambda: counter(transform=lambda request: None).count())
    assert message == "Counter.count: <lambda> returned NoneType; it must return a ChatRequest"


def test_a_memory_id_that_nothing_reads_is_an_error() -> None:
    class Chat(Protocol):
        def chat(self, user: Annotated[str, MemoryId], text: str) -> str: ...

    message = (
        "Chat.chat: user is the id of a conversation, and nothing uses it; add interceptors=[ChatMemory()], "
        "from aiservices.memory"
    )
    assert error_of(lambda: create(Chat, ScriptedChatModel([]))) == message
    for settings in ({"interceptors": [ChatMemory()]}, {"listeners": [print]}):
        assert create(Chat, ScriptedChatModel([]), **settings) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [float, bool, tuple[str, str], list[str], str | float])
def test_a_memory_id_of_a_wrong_type_is_an_error(kind: object) -> None:
    class Chat(Protocol):
        def chat(self, user: Annotated[Any, MemoryId], text: str) -> str: ...

    Chat.chat.__annotations__["user"] = Annotated[kind, MemoryId]
    message = error_of(lambda: create(Chat, ScriptedChatModel([]), interceptors=[ChatMemory()]))
    assert message.startswith("Chat.chat: the parameter user is a memory id, and ")
    assert message.endswith("cannot be one; use a str, an int, a UUID, or a frozen record of them")


def test_a_default_of_a_wrong_type_is_an_error() -> None:
    class Chat(Protocol):
        @user_message("{{count}} {{size}} {{maybe}}")
        def chat(self, count: int = "many", size: float = 2, maybe: int | None = None) -> str: ...  # type: ignore[assignment]

    assert error_of(lambda: create(Chat, ScriptedChatModel([]))) == (
        "Chat.chat: the default of count is 'many': expected an integer"
    )


def test_overloads_are_an_error_with_advice() -> None:
    class Chat(Protocol):
        @overload
        def chat(self, one: str) -> str: ...
        @overload
        def chat(self, one: int) -> str: ...
        def chat(self, one: Any) -> Any: ...

    class OnlyOverloads(Protocol):
        @overload
        def chat(self, one: str) -> str: ...
        @overload
        def chat(self, one: int) -> str: ...

    message = "it has several overloads; write one method whose parameters have union types"
    assert error_of(lambda: create(Chat, ScriptedChatModel([]))) == f"Chat.chat: {message}"
    assert error_of(lambda: create(OnlyOverloads, ScriptedChatModel([]))) == f"OnlyOverloads.chat: {message}"


def test_media_before_the_text_are_sent_before_it() -> None:
    class Compare(Protocol):
        def compare(self, first: Image, text: Annotated[str, UserMessage], second: Image) -> str: ...

    one, two = (Image.from_url(f"https://example.com/{name}.png") for name in ("one", "two"))
    (message,) = preview(create(Compare, ScriptedChatModel([])).compare, one, "Which?", two).messages
    assert isinstance(message, UserMessage)
    assert message.parts == (one, "Which?", two)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (lambda wrong: Budget(max_attempts=wrong), "Budget: max_attempts is 'a'; it must be a whole number"),
        (lambda wrong: Budget(seconds=wrong), "Budget: seconds is 'a'; it must be a number"),
        (
            lambda wrong: ToolLimits(max_rounds=wrong),
            "ToolLimits: max_rounds is 'a'; it must be a whole number",
        ),
        (lambda wrong: Retry(max_attempts=wrong), "Retry: max_attempts is 'a'; it must be a whole number"),
        (lambda wrong: MessageWindow(wrong), "MessageWindow: max_messages is 'a'; it must be a whole number"),
        (lambda wrong: ChatMemory(timeout=wrong), "ChatMemory: timeout is 'a'; it must be a number"),
        (
            lambda wrong: split("x", max_characters=wrong),
            "split: max_characters is 'a'; it must be a whole number",
        ),
        (
            lambda wrong: split("x", max_characters=3, overlap=3),
            "split: overlap is 3; it must be at least 0 and less than max_characters",
        ),
    ],
)
def test_a_number_of_a_wrong_type_is_a_definition_error(setting: Any, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        setting("a")
    assert str(caught.value) == message
