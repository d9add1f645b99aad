"""All entry points accept the same definitions, and refuse the others with the same problems."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import new_class
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    Budget,
    Capabilities,
    ChatModel,
    ChatOptions,
    ChatReply,
    Decision,
    DefinitionError,
    FallbackChatModel,
    Image,
    Price,
    Retry,
    ScriptedChatModel,
    Usage,
    create,
    tool,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.guardrails import OutputGuardrails, Verdict, retry
from aiservices.memory import ChatMemory
from aiservices.remote.contract import contract_of
from aiservices.structured_model import structured

WITHOUT_LOGPROBS = Capabilities(json_schema=True, strict_schema=True, tools=True)
WITHOUT_TOOLS = Capabilities(json_schema=True)


def interface_of(output_type: Any) -> Any:
    """Returns the interface of a service with one method for the type."""

    def ask(self: object, text: str) -> Any: ...

    ask.__annotations__ = {"text": str, "return": output_type}
    prompted = user_message("Is it true?\n\n{{text}}")(ask)
    return new_class("Desk", (Protocol,), exec_body=lambda names: names.update(ask=prompted))


def ask_service(model: ChatModel | str, output_type: Any, settings: dict[str, Any]) -> Any:
    return create(interface_of(output_type), model, **settings).ask("x")


def ask_structured(model: ChatModel | str, output_type: Any, settings: dict[str, Any]) -> Any:
    return structured(model, output_type, **settings).invoke("x")


def stream_structured(model: ChatModel | str, output_type: Any, settings: dict[str, Any]) -> Any:
    return structured(model, output_type, **settings).stream("x").result().value


def ask_agent(model: ChatModel | str, output_type: Any, settings: dict[str, Any]) -> Any:
    return ReActAgent("Friday", "You are Friday.", model, **settings).reply("x", output_type).metadata


ENTRY_POINTS = (ask_service, ask_structured, stream_structured, ask_agent)
EntryPoint = Callable[[Any, Any, dict[str, Any]], Any]


@dataclass
class Portrait:
    image: Image


def reject(answer: object, invocation: object) -> Verdict:
    """Refuses each answer."""
    return retry("no")


@tool
def clock() -> str:
    """Tells the time."""
    return "noon"


def untyped(value) -> str:  # type: ignore[no-untyped-def]  # the missing annotation is the mistake
    """Has a parameter without a type."""
    return str(value)


# Each wrong definition: the model, the type of the answer, the settings, and the beginning of the problem.
WRONG: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "a decision without probabilities": (
        ScriptedChatModel([], capabilities=WITHOUT_LOGPROBS, name="plain"),
        Decision[bool],
        {},
        "needs probabilities, and plain gives none; use a model with log probabilities",
    ),
    "a threshold that nothing gives": (
        FallbackChatModel(ScriptedChatModel([]), ScriptedChatModel([]), unsure="threshold"),
        bool,
        {},
        'FallbackChatModel(unsure="threshold") needs create(calibration=…) or create(thresholds=…)',
    ),
    "a type that belongs to a reply": (ScriptedChatModel([]), Usage, {}, "would make up the Usage"),
    "a type inside a reply type": (
        ScriptedChatModel([]),
        list[ChatReply],
        {},
        "ChatReply describes the whole reply and cannot be part of another type",
    ),
    "a reply type with media inside": (
        ScriptedChatModel([]),
        dict[str, Image],
        {},
        "it returns dict[str, Image]; a model writes text, so it cannot write an object of Image",
    ),
    "a type with media": (
        ScriptedChatModel([]),
        Portrait,
        {},
        "it returns Portrait; a model writes text, so it cannot write an object of Image",
    ),
    "an unknown model": ("nope:x", bool, {}, "the model 'nope:x' is unknown"),
    "a wrong option": (
        ScriptedChatModel([]),
        bool,
        {"options": ChatOptions(temperature=9)},
        "temperature is 9",
    ),
    "a setting of a wrong type": (
        ScriptedChatModel([]),
        bool,
        {"budget": 5},
        "budget has the type int; pass a Budget",
    ),
    "an interceptor that cannot be called": (
        ScriptedChatModel([]),
        bool,
        {"interceptors": [ChatMemory]},
        "an item of interceptors is the class ChatMemory; pass ChatMemory(…)",
    ),
    "a tool choice without tools": (
        ScriptedChatModel([]),
        bool,
        {"options": ChatOptions(tool_choice="required")},
        "tool_choice is 'required', and there are no tools",
    ),
    "a tool without a type": (ScriptedChatModel([]), bool, {"tools": [untyped]}, "untyped"),
    "tools for a model without tools": (
        ScriptedChatModel([], capabilities=WITHOUT_TOOLS, name="deaf"),
        bool,
        {"tools": [clock]},
        "deaf does not support tools; remove them or use another model",
    ),
    "a budget without prices": (
        ScriptedChatModel([], name="dear"),
        bool,
        {"budget": Budget(money=1, prices={"other": Price(1, 1)})},
        "the budget limits money, but its prices do not name dear",
    ),
    "a retry beyond the budget": (
        ScriptedChatModel([]),
        bool,
        {"retry": Retry(max_attempts=9), "budget": Budget(max_attempts=2)},
        "Retry(max_attempts=9) exceeds the budget of 2 requests",
    ),
    "interceptors in the wrong order": (
        ScriptedChatModel([]),
        bool,
        {"interceptors": [OutputGuardrails(reject), ChatMemory()]},
        "OutputGuardrails comes before ChatMemory, so memory stores an answer before it was accepted",
    ),
}


@pytest.mark.parametrize("ask", ENTRY_POINTS)
@pytest.mark.parametrize("wrong", WRONG)
def test_all_entry_points_refuse_a_wrong_definition(ask: EntryPoint, wrong: str) -> None:
    model, output_type, settings, message = WRONG[wrong]
    with pytest.raises(DefinitionError) as caught:
        ask(model, output_type, settings)
    locations = {"Desk", "Desk.ask", "structured", "Friday.reply"}
    assert [message in str(problem) for problem in caught.value.problems] == [True]
    assert {problem.location for problem in caught.value.problems} <= locations


def answering(name: str, value: bool, probability: float) -> ScriptedChatModel:
    """Returns a model that answers each entry point with a bool of a probability."""
    shares = ((value, probability), (not value, 1 - probability))
    data = {"value": {"value": value}, "metadata": {"metadata": value, "response": "It is."}}

    def answer(request: Any) -> ChatReply:
        key = "metadata" if "Friday" in str(request.messages) else "value"
        return ChatReply(AiMessage(json.dumps(data[key])), probabilities={f"$.{key}": shares}, model=name)

    return ScriptedChatModel(answer, name=name)


@pytest.mark.parametrize("ask", ENTRY_POINTS)
def test_all_entry_points_ask_the_next_model_if_the_first_is_unsure(ask: EntryPoint) -> None:
    small, large = answering("small", True, 0.6), answering("large", False, 0.95)
    assert ask(FallbackChatModel(small, large), bool, {}) is True
    assert large.requests == []
    assert ask(FallbackChatModel(small, large, unsure=0.9), bool, {}) is False
    assert len(large.requests) == 1


@pytest.mark.parametrize("ask", ENTRY_POINTS)
def test_all_entry_points_give_a_decision_its_probability(ask: EntryPoint) -> None:
    decision = ask(answering("sure", True, 0.75), Decision[bool], {})
    assert (decision.value, decision.probability) == (True, pytest.approx(0.75))


class WrongMethods(Protocol):
    @user_message("{{text}}")
    def unannotated(self, text: str): ...  # type: ignore[no-untyped-def]
    @user_message("{{text}}")
    def usage(self, text: str) -> Usage: ...
    @user_message("{{text}}")
    def awaitable(self, text: str) -> Awaitable[int]: ...
    @user_message("{{text}}")
    def nested(self, text: str) -> list[ChatReply]: ...
    @user_message("{{text}} {{count}}")
    def default(self, text: str, count: int = "two") -> bool: ...  # type: ignore[assignment]


def test_a_remote_interface_is_refused_for_the_same_mistakes_as_a_service() -> None:
    with pytest.raises(DefinitionError) as of_service:
        create(WrongMethods, ScriptedChatModel([]))
    with pytest.raises(DefinitionError) as of_client:
        contract_of(WrongMethods)
    assert of_client.value.problems == of_service.value.problems
    assert len(of_client.value.problems) == 5


@pytest.mark.parametrize("ask", [ask_service, ask_structured])
def test_a_whole_reply_is_returned_without_parsing(ask: EntryPoint) -> None:
    assert ask(ScriptedChatModel(["Yes, it is."]), ChatReply, {}).text == "Yes, it is."
    assert ask(ScriptedChatModel(["Yes, it is."]), AiMessage, {}) == AiMessage("Yes, it is.")


async def reject_later(answer: object, invocation: object) -> Verdict:
    """Refuses each answer, and must be awaited."""
    return retry("no")


@pytest.mark.parametrize("ask", ENTRY_POINTS)
def test_blocking_calls_refuse_interceptors_that_must_be_awaited(ask: EntryPoint) -> None:
    model = ScriptedChatModel([])
    with pytest.raises(TypeError, match="reject_later"):
        ask(model, bool, {"interceptors": [OutputGuardrails(reject_later)]})
    assert model.requests == []
