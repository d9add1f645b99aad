"""Behaviour of guardrails in LangChain4j and Quarkus that no other test checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Protocol

import pytest

from aiservices import Budget, Image, MemoryId, Result, ScriptedChatModel, UserMessage, create, user_message
from aiservices.guardrails import (
    Guard,
    GuardrailError,
    GuardrailRan,
    InputGuardrails,
    OutputGuardrails,
    Verdict,
    masked,
    passed,
    refused,
    reprompt,
)
from aiservices.interceptors import Answer, Flow, Invocation, Proceed
from aiservices.memory import ChatMemory
from aiservices.retrieval import Content, RetrievalAugmentor

CAT = Image(b"\x89PNG\r\n\x1a\n", "image/png")


class Chat(Protocol):
    def chat(self, text: str) -> str: ...

    def stream(self, text: str) -> Iterator[str]: ...


class Rules:
    def retrieve(self, query: object, /) -> Sequence[Content]:
        return [Content("The shop opens at nine.", id="r1")]


def test_an_input_guard_sees_the_images_of_the_message() -> None:
    seen: list[object] = []

    class Vision(Protocol):
        @user_message("Describe this image")
        def describe(self, image: Image) -> str: ...

    def look(text: str, invocation: Invocation) -> Verdict:
        seen.append(invocation.request.messages[-1])
        return passed()

    model = ScriptedChatModel(["A cat."])
    create(Vision, model, interceptors=[InputGuardrails(look)]).describe(CAT)
    assert seen == [UserMessage("Describe this image", None, (CAT,))]
    assert model.requests[0].messages[-1] == seen[0]


def test_an_input_guard_behind_the_retrieval_sees_what_was_retrieved() -> None:
    seen: list[str] = []

    def look(text: str, invocation: Invocation) -> Verdict:
        seen.append(text)
        return passed()

    model = ScriptedChatModel(["At nine."])
    guards = [RetrievalAugmentor(Rules()), InputGuardrails(look)]
    create(Chat, model, interceptors=guards).chat("When do you open?")
    assert "The shop opens at nine." in seen[0]
    assert model.requests[0].messages[-1].text == seen[0]


def test_a_guard_sees_the_arguments_of_the_prompt() -> None:
    class Shop(Protocol):
        @user_message("Greet {{name}} from {{city}}.")
        def greet(self, name: str, city: str) -> str: ...

    def known(text: str, invocation: Invocation) -> Verdict:
        assert text == f"Greet {invocation.arguments['name']} from Rome."
        return passed() if invocation.arguments["city"] == "Rome" else refused("unknown city")

    def mentions(text: str, invocation: Invocation) -> Verdict:
        name = invocation.arguments["name"]
        return passed() if name in text else reprompt(f"Mention {name}.")

    model = ScriptedChatModel(["Hello.", "Hello Ann."])
    guards = [InputGuardrails(known), OutputGuardrails(mentions)]
    assert create(Shop, model, interceptors=guards).greet("Ann", "Rome") == "Hello Ann."


def test_a_guard_sees_the_conversation() -> None:
    class Rooms(Protocol):
        def chat(self, room: Annotated[str, MemoryId], text: str) -> str: ...

    seen: list[list[str]] = []
    memory = ChatMemory()

    def before(text: str, invocation: Invocation) -> Verdict:
        seen.append([message.text for message in memory.messages(invocation.memory_id)])
        return passed()

    def after(text: str, invocation: Invocation) -> Verdict:
        seen.append([message.text for message in invocation.request.messages])
        return passed()

    interceptors = [InputGuardrails(before), memory, OutputGuardrails(after)]
    rooms = create(Rooms, ScriptedChatModel(["Hello Ann.", "Ann."]), interceptors=interceptors)
    rooms.chat("r1", "I am Ann.")
    rooms.chat("r1", "Who am I?")
    assert seen == [
        [],
        ["I am Ann."],
        ["I am Ann.", "Hello Ann."],
        ["I am Ann.", "Hello Ann.", "Who am I?"],
    ]


def test_without_further_attempts_the_first_rejected_answer_ends_the_call() -> None:
    model = ScriptedChatModel(["too long"])
    guards = OutputGuardrails(lambda text, invocation: reprompt("Be brief."), max_attempts=1)
    with pytest.raises(GuardrailError):
        create(Chat, model, interceptors=[guards]).chat("x")
    assert len(model.requests) == 1


def test_more_attempts_are_possible_if_the_budget_has_them() -> None:
    def brief(text: str, invocation: Invocation) -> Verdict:
        return passed() if len(text) <= 3 else reprompt("Be brief.")

    model = ScriptedChatModel(["too long"] * 10 + ["yes"])
    guards = OutputGuardrails(brief, max_attempts=11)
    chat = create(Chat, model, interceptors=[guards], budget=Budget(max_attempts=11, first_wait=0))
    assert chat.chat("x") == "yes"


def test_a_guard_has_a_name_in_events_and_errors() -> None:
    events: list[object] = []
    named = Guard(lambda text, invocation: refused("no"), name="company policy")
    chat = create(
        Chat, ScriptedChatModel([]), interceptors=[InputGuardrails(named)], listeners=[events.append]
    )
    with pytest.raises(GuardrailError) as caught:
        chat.chat("x")
    assert str(caught.value) == "Chat.chat: the input guard company policy refused: no"
    assert [event.name for event in events if isinstance(event, GuardrailRan)] == ["company policy"]


def test_a_guarded_stream_yields_the_whole_text_once() -> None:
    model = ScriptedChatModel(["Hello world !"])
    chat = create(Chat, model, interceptors=[OutputGuardrails(lambda text, invocation: passed())])
    assert "".join(chat.stream("x")) == "Hello world !"


def test_the_parts_of_a_stream_may_have_a_size() -> None:
    seen: list[str] = []

    def look(text: str, invocation: Invocation) -> Verdict:
        seen.append(text)
        return passed()

    def five(text: str) -> int:
        return 5 if len(text) >= 5 else 0

    chat = create(
        Chat,
        ScriptedChatModel(["Streaming world!"]),
        interceptors=[OutputGuardrails(look, chunks=five)],
    )
    assert list(chat.stream("x")) == seen == ["Strea", "ming ", "world", "!"]


def test_an_error_in_the_function_for_the_parts_ends_the_stream_after_the_parts_before() -> None:
    def no_w(text: str) -> int:
        if "w" in text:
            raise ValueError("I do not like w")
        return len(text)

    chat = create(
        Chat,
        ScriptedChatModel(["Streaming a world!"]),
        interceptors=[OutputGuardrails(lambda text, invocation: passed(), chunks=no_w)],
    )
    shown: list[str] = []
    with pytest.raises(GuardrailError, match="the output guard no_w failed: ValueError: I do not like w"):
        shown.extend(chat.stream("x"))
    assert shown == ["Streaming ", "a "]


def test_an_interceptor_adds_the_sources_to_an_answer_that_the_guards_have_seen() -> None:
    class Shop(Protocol):
        def chat(self, text: str) -> Result[str]: ...

    def cite(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        answer = yield from proceed(invocation)
        return replace(answer, value=f"{answer.value} [{answer.sources[0].id}]")

    interceptors = [cite, RetrievalAugmentor(Rules()), OutputGuardrails(masked("nine"))]
    result = create(Shop, ScriptedChatModel(["At nine."]), interceptors=interceptors).chat("x")
    assert result.value == "At ***. [r1]"


def test_a_method_without_guards_of_its_own_keeps_those_of_the_service() -> None:
    class Two(Protocol):
        def chat(self, text: str) -> str: ...

        def other(self, text: Annotated[str, UserMessage]) -> str: ...

    model = ScriptedChatModel(["a secret", "a secret"])
    two = create(Two, model, interceptors=[OutputGuardrails(masked("secret"))])
    assert (two.chat("x"), two.other("x")) == ("a ***", "a ***")
