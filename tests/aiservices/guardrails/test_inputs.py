"""Input guards get the text of the user message, and their verdicts change or end the call."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Annotated, Any, Protocol

import pytest
from loopback import Loopback, answer

from aiservices import (
    AiMessage,
    DefinitionError,
    History,
    Image,
    Message,
    ScriptedChatModel,
    UserMessage,
    create,
    user_message,
)
from aiservices.guardrails import (
    GuardrailError,
    GuardrailRan,
    InputGuardrails,
    OutputGuardrails,
    Passed,
    Rewritten,
    forbidden,
    masked,
    passed,
    reprompt,
    rewritten,
)
from aiservices.interceptors import Answer, Flow, Invocation, Proceed
from aiservices.models.openai import OpenAiChatModel


class Chat(Protocol):
    def chat(self, text: str) -> str: ...


def saying(verdict: Any) -> Any:
    def says(subject: Any, invocation: Invocation) -> Any:
        return verdict

    return says


def failing(*guards: Any) -> GuardrailError:
    model = ScriptedChatModel([])
    with pytest.raises(GuardrailError) as caught:
        create(Chat, model, interceptors=[InputGuardrails(*guards)]).chat("x")
    assert model.requests == []
    return caught.value


def test_each_guard_gets_what_the_guard_before_returned() -> None:
    seen: list[str] = []

    def note(text: str, invocation: Invocation) -> Any:
        seen.append(text)
        return rewritten(text + "!")

    model = ScriptedChatModel(["a"])
    create(Chat, model, interceptors=[InputGuardrails(note, saying(passed()), note)]).chat("x")
    assert (seen, model.requests[0].messages) == (["x", "x!"], (UserMessage("x!!"),))


def test_nothing_after_a_refusal_runs() -> None:
    error = failing(forbidden("x"), saying(1 / 3))
    assert (str(error), error.guard, error.stage, error.reason, error.attempts) == (
        "Chat.chat: the input guard forbidden refused: the text contains 'x', which is forbidden",
        "forbidden",
        "input",
        "the text contains 'x', which is forbidden",
        (),
    )


def test_a_reprompt_of_an_input_guard_is_an_error() -> None:
    assert str(failing(saying(reprompt("again")))) == (
        "Chat.chat: the input guard says failed: TypeError: the model has not answered yet; "
        "use refused(…) or rewritten(…)"
    )


def test_a_text_is_rewritten_as_a_text() -> None:
    assert str(failing(saying(rewritten(None)))) == (
        "Chat.chat: the input guard says failed: TypeError: it rewrote a text as NoneType"
    )


def test_an_exception_of_a_guard_is_a_guardrail_error() -> None:
    def broken(text: str, invocation: Invocation) -> Any:
        raise KeyError("gone")

    error = failing(broken)
    assert (str(error), type(error.__cause__)) == (
        "Chat.chat: the input guard broken failed: KeyError: 'gone'",
        KeyError,
    )


def test_without_guards_it_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        InputGuardrails()
    assert str(caught.value) == (
        "InputGuardrails: no guard was passed; pass functions of (subject, invocation) that return a verdict"
    )


def test_instructions_stay_where_the_template_has_them_and_guards_do_not_see_them() -> None:
    class Counter(Protocol):
        @user_message("{{format_instructions}} Count: {{text}}")
        def count(self, text: str) -> int: ...

    seen: list[str] = []

    def note(text: str, invocation: Invocation) -> Any:
        seen.append(text)
        return rewritten(text.replace("sheep", "goats"))

    model = ScriptedChatModel(["7"])
    guards = InputGuardrails(forbidden(re.compile(r"[0-9a-f]{8}")), note)
    create(Counter, model, strategy="prompt", interceptors=[guards]).count("\ue000 sheep")
    assert seen == ["\ue002 Count: \ue000 sheep"]
    (message,) = model.requests[0].messages
    assert message.text.endswith("Count: \ue000 goats")
    assert "\ue001" not in message.text
    assert "\ue002" not in message.text


def test_without_a_user_message_guards_do_not_run() -> None:
    def silent(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        return (yield from proceed(replace(invocation, request=replace(invocation.request, messages=()))))

    model = ScriptedChatModel(["a"])
    assert create(Chat, model, interceptors=[silent, InputGuardrails(forbidden("x"))]).chat("x") == "a"


def test_images_stay_when_the_text_is_rewritten() -> None:
    class Seer(Protocol):
        @user_message("The SECRET {{image}} shows {{what}}")
        def see(self, image: Image, what: str) -> str: ...

    image = Image(url="https://example.com/a.png")
    model = ScriptedChatModel(["a"])
    create(Seer, model, interceptors=[InputGuardrails(masked("SECRET"))]).see(image, "tea")
    (message,) = model.requests[0].messages
    assert isinstance(message, UserMessage)
    assert message.parts == ("The *** ", image, " shows tea")
    assert "SECRET" not in repr(message)


def test_guards_check_the_history_of_the_caller() -> None:
    class Talk(Protocol):
        @user_message("{{text}}")
        def chat(self, text: str, before: Annotated[list[Message], History]) -> str: ...

    model = ScriptedChatModel(["a"])
    talk = create(Talk, model, interceptors=[InputGuardrails(masked("SECRET"))])
    talk.chat("SECRET", [UserMessage("SECRET", "SECRET"), AiMessage("a SECRET")])
    first, answer, question = model.requests[0].messages
    assert (first, answer.text, question.text) == (UserMessage("***", "***"), "a ***", "***")


def test_listeners_get_each_verdict() -> None:
    events: list[Any] = []
    guards = InputGuardrails(masked("x", by="y"), masked("z"))
    create(Chat, ScriptedChatModel(["a"]), interceptors=[guards], listeners=[events.append]).chat("x")
    assert [event for event in events if isinstance(event, GuardrailRan)] == [
        GuardrailRan("masked", "input", Rewritten("y")),
        GuardrailRan("masked", "input", Passed()),
    ]


def test_over_http_no_rewritten_word_is_sent(loopback: Loopback) -> None:
    loopback.reply(answer("a SECRET"), answer("b"))
    model = OpenAiChatModel("m", base_url=loopback.base_url, api_key="none")
    guards = [InputGuardrails(masked("Ann")), OutputGuardrails(forbidden("SECRET", otherwise=reprompt))]
    assert create(Chat, model, interceptors=guards).chat("I am Ann") == "b"
    assert [json.loads(seen.body)["messages"] for seen in loopback.requests] == [
        [{"role": "user", "content": "I am ***"}],
        [
            {"role": "user", "content": "I am ***"},
            {"role": "assistant", "content": "a SECRET"},
            {"role": "user", "content": "the text contains 'SECRET', which is forbidden"},
        ],
    ]
