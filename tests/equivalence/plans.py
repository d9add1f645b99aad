"""Cases about how calls are planned: models that are unsure, probabilities, retries, budgets, options.

Their models are fake, and their replies depend only on the request, so that a service can be called often.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from equivalence.table import Case

from aiservices import (
    AiMessage,
    Budget,
    Capabilities,
    ChatModel,
    ChatOptions,
    ChatReply,
    ChatRequest,
    Decision,
    DefinitionError,
    FallbackChatModel,
    JsonSchemaFormat,
    Leniency,
    ModelServerError,
    OutputParsingError,
    Price,
    ProbabilitiesUnavailableError,
    Retry,
    ScriptedChatModel,
    Strategy,
    ToolCall,
)

__all__ = ["PLANS"]

ALL = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True, logprobs=20)
NO_PROBABILITIES = replace(ALL, logprobs=0)


def answering(
    value: Any, probability: float | None = None, *, name: str = "small", capabilities: Capabilities = ALL
) -> ScriptedChatModel:
    """Return a model that gives a bool, with its probability."""

    def reply(request: ChatRequest) -> ChatReply:
        asked = request.response_format
        schema = asked.schema if isinstance(asked, JsonSchemaFormat) else {}
        key = "metadata" if "response" in schema.get("properties", {}) else "value"
        data = {"value": value} if key == "value" else {"metadata": value, "response": "Here."}
        if request.tooling is not None:
            arguments = json.dumps({"metadata": value, "response": "Here."})
            return ChatReply(AiMessage("", (ToolCall("c1", "generate_response", arguments),)), model=name)
        shares = None
        if probability is not None:
            shares = {f"$.{key}": ((value, probability), (not value, 1 - probability))}
        return ChatReply(AiMessage(json.dumps(data)), probabilities=shares, model=name)

    return ScriptedChatModel(reply, name=name, capabilities=capabilities)


def correcting(first: str, then: str) -> ScriptedChatModel:
    """Return a model that corrects itself after its first answer."""

    def reply(request: ChatRequest) -> str:
        return then if any(isinstance(message, AiMessage) for message in request.messages) else first

    return ScriptedChatModel(reply)


def unsure(limit: float | str | None) -> Callable[[], ChatModel]:
    """Return the maker of a model that asks a second one if the first, which is wrong, is unsure."""
    return lambda: FallbackChatModel(
        answering(True, 0.8),
        answering(False, 0.95, name="large"),
        unsure=limit,  # type: ignore[arg-type]
    )


def failing(error: Exception) -> Callable[[], ChatModel]:
    def reply(request: ChatRequest) -> Exception:
        return error

    return lambda: ScriptedChatModel(reply)


def plan(name: str, form: Any, expected: Any, model: Callable[[], ChatModel], **more: Any) -> Case:
    settings = {"strategy": None, **more.pop("settings", {})}
    return Case(f"plan: {name}", form, "", expected, model=model, settings=settings, **more)


DOWN = ModelServerError("down", retryable=False)
ONCE = Budget(max_attempts=1)
TWICE = Budget(max_attempts=2, first_wait=0)

PLANS = [
    plan("an unsure answer is asked of the next model", bool, False, unsure(0.9), requests=2),
    plan("a sure answer is taken", bool, True, unsure(0.7)),
    plan("unsure is a threshold, and there is none", bool, DefinitionError, unsure("threshold")),
    plan(
        "a decision of a model without probabilities",
        Decision[bool],
        DefinitionError,
        lambda: answering(True, capabilities=NO_PROBABILITIES),
    ),
    plan(
        "a decision whose probabilities are missing",
        Decision[bool],
        ProbabilitiesUnavailableError,
        lambda: answering(True),
    ),
    plan(
        "a decision",
        Decision[bool],
        Decision(True, {True: 0.8, False: 0.2}, source="decisions"),
        lambda: answering(True, 0.8),
    ),
    plan(
        "a strategy that the model does not have",
        bool,
        DefinitionError,
        lambda: answering(True, capabilities=Capabilities(json_schema=True)),
        settings={"strategy": Strategy.OUTPUT_TOOL},
    ),
    plan(
        "an option that is too large",
        bool,
        DefinitionError,
        lambda: answering(True),
        settings={"options": ChatOptions(temperature=9)},
    ),
    plan(
        "an option of a wrong type",
        bool,
        DefinitionError,
        lambda: answering(True),
        settings={"options": ChatOptions(max_tokens="7")},  # type: ignore[arg-type]
    ),
    plan(
        "a price of another model",
        bool,
        DefinitionError,
        lambda: answering(True),
        settings={"budget": Budget(money=1.0, prices={"another": Price(1.0, 1.0)})},
    ),
    plan(
        "a second answer",
        int,
        42,
        lambda: correcting("seven or eight", "42"),
        settings={"retry": Retry(), "budget": TWICE, "strategy": Strategy.PROMPT},
        requests=2,
    ),
    plan(
        "no second answer within the budget",
        int,
        OutputParsingError,
        lambda: correcting("seven or eight", "42"),
        settings={"retry": Retry(), "budget": ONCE, "strategy": Strategy.PROMPT},
    ),
    plan(
        "a retry whose mode does not fit the budget",
        int,
        DefinitionError,
        lambda: correcting("seven or eight", "42"),
        settings={"retry": "fields"},
    ),
    plan(
        "no leniency",
        int,
        OutputParsingError,
        lambda: correcting("The answer is 42.", "42"),
        settings={"leniency": Leniency.NONE, "strategy": Strategy.PROMPT},
    ),
    plan("a server that is down", int, ModelServerError, failing(DOWN), settings={"budget": ONCE}),
    plan(
        "a fallback for a server that is down",
        bool,
        True,
        lambda: FallbackChatModel(failing(DOWN)(), answering(True, name="large")),
        requests=2,
    ),
    plan(
        "three votes",
        Decision[bool],
        Decision(True, {True: 0.875, False: 0.125}, source="votes(3)"),
        lambda: answering(True, capabilities=NO_PROBABILITIES),
        settings={"votes": 3},
        requests=3,
    ),
    plan(
        "a wrong number of votes",
        Decision[bool],
        DefinitionError,
        lambda: answering(True),
        settings={"votes": -1},
    ),
]
