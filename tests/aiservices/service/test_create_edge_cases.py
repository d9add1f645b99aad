"""Other attributes of interfaces, and arguments that are messages or options."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NewType, Optional, Protocol

import pytest
from typing_extensions import TypeAliasType

from aiservices import (
    Budget,
    ChatOptions,
    ChatRequest,
    DefinitionError,
    History,
    MemoryId,
    Message,
    Result,
    ScriptedChatModel,
    Stream,
    SystemMessage,
    UserMessage,
    create,
    options,
    preview,
    system_message,
    user_message,
)
from aiservices.memory import ChatMemory
from aiservices.service.methods import plan_of


def test_a_user_message_as_argument_is_sent_unchanged() -> None:
    class Chat(Protocol):
        def say(self, message: UserMessage) -> str: ...

    model = ScriptedChatModel(["ok"])
    create(Chat, model).say(UserMessage("hello", name="ann"))

    assert model.requests[0].messages == (UserMessage("hello", name="ann"),)


def test_a_preview_shows_what_the_transformer_makes_of_a_request() -> None:
    class Chat(Protocol):
        def say(self, text: str) -> str: ...

    chat = create(
        Chat, ScriptedChatModel([]), transform=lambda request: request.plus(UserMessage("and be brief"))
    )

    assert preview(chat.say, "hello").messages == (UserMessage("hello"), UserMessage("and be brief"))


def test_a_history_with_a_second_system_message_is_refused() -> None:
    class Chat(Protocol):
        @system_message("Be kind.")
        def say(self, text: str, before: Annotated[list[Message], History]) -> str: ...

    chat = create(Chat, ScriptedChatModel([]))
    with pytest.raises(ValueError, match="system message") as caught:
        chat.say("hello", [SystemMessage("Be rude.")])

    assert str(caught.value) == (
        "Chat.say: the history has a system message, and so has the method; remove one"
    )


def test_the_system_message_of_a_history_is_kept_where_the_method_has_none() -> None:
    class Chat(Protocol):
        def say(self, text: str, before: Annotated[list[Message], History]) -> str: ...

    model = ScriptedChatModel(["ok"])
    create(Chat, model).say("hello", [SystemMessage("Be kind.")])

    assert model.requests[0].messages == (SystemMessage("Be kind."), UserMessage("hello"))


def test_a_class_keeps_its_own_constructor() -> None:
    class Chat(ABC):
        def __init__(self) -> None:
            self.greeting = "hello"

        @abstractmethod
        def say(self, text: str) -> str: ...

        def greet(self) -> str:
            return self.say(self.greeting)

    assert create(Chat, ScriptedChatModel(lambda request: request.messages[0].text)).greet() == "hello"


def test_a_constructor_with_arguments_is_a_problem() -> None:
    class Chat(ABC):
        def __init__(self, greeting: str, *, loud: bool = False) -> None:
            self.greeting = greeting.upper() if loud else greeting

        @abstractmethod
        def say(self, text: str) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Chat, ScriptedChatModel([]))

    assert str(caught.value) == "Chat: its __init__ needs greeting, and create calls it without arguments"


def test_an_attribute_without_a_value_is_a_problem() -> None:
    class Chat(Protocol):
        name: str

        def say(self, text: str) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Chat, ScriptedChatModel([]))

    assert str(caught.value) == (
        "Chat.name: the attribute has no value, and a service cannot set it; give it a value or remove it"
    )


def test_a_role_behind_an_alias_is_found() -> None:
    Conversation = TypeAliasType("Conversation", Annotated[str, MemoryId])

    class Chat(Protocol):
        def say(self, conversation: Conversation, text: str) -> str: ...

    chat = create(Chat, ScriptedChatModel([]), interceptors=[ChatMemory()])
    invocation = plan_of(chat.say).invocation(("c1", "hello"), {}, Budget())

    assert invocation.memory_id == "c1"
    assert invocation.request == ChatRequest((UserMessage("hello"),))


def test_one_text_to_stop_at_is_one_text() -> None:
    class Chat(Protocol):
        @options(stop="END")
        @user_message("{{it}}")
        def say(self, text: str) -> str: ...

    assert preview(create(Chat, ScriptedChatModel([])).say, "x").options.stop == ("END",)


def test_options_of_a_call_are_checked_too() -> None:
    class Chat(Protocol):
        def say(self, text: str, how: ChatOptions) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Chat, ScriptedChatModel([])).say("hello", ChatOptions(temperature=9))

    assert str(caught.value) == "Chat.say: temperature is 9; it must be from 0 to 2"


def test_result_of_none_accepts_any_text() -> None:
    class Booker(Protocol):
        def book(self, text: str) -> Result[None]: ...

        async def abook(self, text: str) -> Result[None]: ...

        def stream(self, text: str) -> Stream[None]: ...

    model = ScriptedChatModel(["Booked."] * 3)
    booker = create(Booker, model)
    results = [booker.book("x"), asyncio.run(booker.abook("x")), booker.stream("x").result()]
    assert [(result.value, result.text) for result in results] == [(None, "Booked.")] * 3
    assert [request.response_format for request in model.requests] == [None] * 3


@dataclass
class Place:
    city: str


Name = NewType("Name", str)
OptionalName = NewType("OptionalName", Optional[str])  # type: ignore[valid-newtype]  # noqa: UP045


class Parameters(Protocol):
    @user_message("{{text}} {{count}}")
    def both(self, text: str, count: Annotated[int, "a count"] = 1) -> str: ...

    @user_message("{{text}} {{tag}}")
    def optional(self, text: str | None, tag: str = None) -> str: ...  # type: ignore[assignment]  # noqa: RUF013

    def bare(self, text: str) -> str: ...

    @user_message("{{words}} {{place}} {{mood}} {{raw}} {{of}} {{name}}")
    def others(
        self,
        words: list[str] = [],  # noqa: B006
        place: Place = Place("a"),  # noqa: B008
        mood: Literal["good", "bad"] = "good",
        raw: dict[str, Any] = {},  # noqa: B006
        of: int | list[int] = 0,
        name: Name = Name("a"),
    ) -> str: ...

    @user_message("{{any_}} {{thing}} {{choice}} {{words}} {{noted}} {{name}}")
    def optional_others(
        self,
        any_: Any,
        thing: object,
        choice: Literal["a", None],
        words: Optional[list[str]],  # noqa: UP045
        noted: Annotated[int | None, "a count"],
        name: OptionalName,
    ) -> str: ...

    def unknown(self, text) -> str: ...  # type: ignore[no-untyped-def]


def test_none_for_a_parameter_that_is_not_optional_is_an_error_before_any_request() -> None:
    model = ScriptedChatModel(["ok"] * 9)
    service = create(Parameters, model)
    wrong: list[Callable[[], Any]] = [
        lambda: service.both(None),  # type: ignore[arg-type]
        lambda: service.both(text=None),  # type: ignore[arg-type]
        lambda: service.both("a", count=None),  # type: ignore[arg-type]
        lambda: service.bare(None),  # type: ignore[arg-type]
        *[
            partial(service.others, **{name: None})
            for name in ("words", "place", "mood", "raw", "of", "name")
        ],
    ]
    for call in wrong:
        with pytest.raises(
            TypeError, match=r"^Parameters\.\w+: \w+ is None; if it is optional, .* annotation$"
        ):
            call()
    assert not model.requests
    service.optional(None)
    service.unknown(None)
    service.optional_others(None, None, None, None, None, None)
    sent = [request.messages[-1].text for request in model.requests]
    assert sent == ["none none", "none", " ".join(["none"] * 6)]
