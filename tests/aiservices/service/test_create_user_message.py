"""The user message of a service, for methods without one of their own."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

import pytest

from aiservices import (
    Audio,
    DefinitionError,
    Image,
    ScriptedChatModel,
    UserMessage,
    create,
    example,
    preview,
    user_message,
)

PICTURE = Image.from_url("https://example.com/a.png")
SOUND = Audio.from_bytes(b"ID3")


def sent(method: Any, *args: Any) -> tuple[Any, ...]:
    """Return the parts of the user message that a method sends."""
    (message,) = preview(method, *args).messages
    assert isinstance(message, UserMessage)
    return message.parts


class Chat(Protocol):
    def ask(self, text: str) -> str: ...

    @user_message("Own: {{text}}")
    def own(self, text: str) -> str: ...

    def marked(self, text: Annotated[str, UserMessage]) -> str: ...

    def message(self, message: UserMessage) -> str: ...

    def look(self, picture: Image) -> str: ...


def test_it_is_for_methods_that_have_no_user_message() -> None:
    chat = create(Chat, ScriptedChatModel([]), user_message="Briefly: {{it}}")
    assert sent(chat.ask, "Hi {{it}}") == ("Briefly: Hi {{it}}",)
    assert sent(chat.own, "Hi") == ("Own: Hi",)
    assert sent(chat.marked, "Hi") == ("Hi",)
    assert sent(chat.message, UserMessage("Hi")) == ("Hi",)
    assert sent(chat.look, PICTURE) == ("Briefly: ", PICTURE)


def test_examples_use_it() -> None:
    class Sizes(Protocol):
        @example("mouse", returns=1)
        def size(self, animal: str) -> int: ...

    sizes = create(Sizes, ScriptedChatModel([]), user_message="How big is a {{animal}}?")
    texts = [message.text for message in preview(sizes.size, "cat").messages]
    assert texts[0] == "How big is a mouse?"
    assert texts[-1] == "How big is a cat?"


def test_its_variables_are_parameters_of_each_method() -> None:
    class Two(Protocol):
        def first(self, text: str) -> str: ...

        def second(self, text: str, language: str) -> str: ...

        def third(self, other: str) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Two, ScriptedChatModel([]), user_message="Say {{text}}.")
    assert [str(problem) for problem in caught.value.problems] == [
        "Two.second: the parameter language is not used; write {{language}} in the prompt, or give it a role "
        "(MemoryId, UserName, CallId, History, ToolContext, Tools)",
        "Two.third: the user message of the service uses {{text}}, but the parameters are: other",
    ]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "Chat.ask: user message of the service: the template is empty"),
        ("{% if %}", "Chat.ask: user message of the service: the template has an error in line 1"),
        (7, "Chat: user_message has the type int; pass a template"),
    ],
)
def test_a_wrong_template_is_reported(template: Any, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        create(Chat, ScriptedChatModel([]), user_message=template)
    assert str(caught.value.problems[0]).startswith(message)


def test_media_and_text_are_sent_in_the_order_of_the_parameters() -> None:
    class Order(Protocol):
        def around(self, a: Image, text: Annotated[str, UserMessage], b: Audio) -> str: ...

        def before(self, a: Image, text: str) -> str: ...

        def after(self, text: str, a: Image, b: Audio) -> str: ...

        def several(self, a: list[Image], text: str, b: Audio | None = None) -> str: ...

    order = create(Order, ScriptedChatModel([]))
    assert sent(order.around, PICTURE, "What?", SOUND) == (PICTURE, "What?", SOUND)
    assert sent(order.before, PICTURE, "What?") == (PICTURE, "What?")
    assert sent(order.after, "What?", PICTURE, SOUND) == ("What?", PICTURE, SOUND)
    assert sent(order.several, [PICTURE, PICTURE], "What?") == (PICTURE, PICTURE, "What?")
