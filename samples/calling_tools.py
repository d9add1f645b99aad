"""Tools: functions that the model calls before it answers, their errors, limits, and an early start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from aiservices import (
    AiMessage,
    ChatModel,
    ChatReply,
    ChatRequest,
    ReplyDelta,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    ToolException,
    ToolLimitError,
    ToolLimits,
    ToolStarted,
    create,
    system_message,
    tool,
)

SHELF = {"lamp": (3, 40.0), "chair": (0, 85.0)}


@tool(start_early=True)  # it only reads, so it may run while the model still writes its next call
def in_stock(article: str) -> int:
    """Return how many pieces of an article are in stock.

    Args:
        article: its name, in the singular
    """
    if article not in SHELF:
        raise ToolException(f"There is no article {article!r}. There are: {', '.join(SHELF)}.")
    return SHELF[article][0]


@tool(name="price_of", description="The price of an article.", timeout=5)
def price(article: str, currency: Literal["EUR", "GBP"] = "EUR") -> float:
    """Return the price of an article."""
    # after the KeyError, the model only learns that the tool failed: the message is not for the model
    return SHELF[article][1] * (0.85 if currency == "GBP" else 1)


@dataclass
class Offer:
    article: str
    in_stock: bool
    price: float


class Clerk(Protocol):
    @system_message("You are the clerk of a furniture shop. Look up what you do not know.")
    def offer(self, wish: str) -> Result[Offer]: ...

    def offer_live(self, wish: str) -> Stream[Offer]: ...


def calls(*arguments_by_name: tuple[str, dict[str, object]]) -> ChatReply:
    """Return a reply of the model that calls tools."""
    made = [
        ToolCall(f"call_{number}", name, json.dumps(arguments))
        for number, (name, arguments) in enumerate(arguments_by_name, 1)
    ]
    return ChatReply(AiMessage("", tuple(made)))


def scripted() -> ScriptedChatModel:
    """Return a scripted model that makes mistakes in tool calls, and then calls tools without end."""

    def replies() -> Iterator[ChatReply | str]:
        yield calls(("in_stock", {"article": "lamps"}), ("price_of", {"article": "lamps"}))
        yield calls(("in_stock", {"article": "lamp"}), ("price_of", {"article": "lamp", "currency": "GBP"}))
        yield '{"article": "lamp", "in_stock": true, "price": 34.0}'
        yield calls(("in_stock", {"article": "lamp"}), ("price_of", {"article": "lamp"}))
        yield '{"article": "lamp", "in_stock": true, "price": 40.0}'
        while True:
            yield calls(("in_stock", {"article": "chair"}))

    script = replies()

    def reply(request: ChatRequest) -> ChatReply | str:
        return next(script)

    return ScriptedChatModel(reply)


def main(model: ChatModel | str | None = None) -> None:
    """Print the tool calls, and the error at the limit. Without a model, a scripted one answers."""
    limits = ToolLimits(max_rounds=4, max_calls=10, max_concurrency=2)
    clerk = create(Clerk, model or scripted(), tools=[in_stock, price], tool_limits=limits)
    result = clerk.offer("Two lamps, please. What are they in pounds?")
    for run in result.tool_runs:
        print(f"{run.name}({run.call.arguments}) → {run.text}")
    print(result.value)
    for event in clerk.offer_live("And in euros?").events():
        if isinstance(event, ReplyDelta):
            written = [piece.call.name for piece in event.tool_calls if piece.call is not None]
            print("".join(f"the model has written the call of {name}\n" for name in written), end="")
        elif isinstance(event, ToolStarted):
            print(f"{event.call.name} starts")
    try:
        print(clerk.offer("And a chair?").value)
    except ToolLimitError as error:
        print(error)


if __name__ == "__main__":
    main()
