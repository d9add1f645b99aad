"""A support agent with tools, a memory for each customer, typed answers, and refunds that need approval."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Protocol

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    ChatModel,
    ChatReply,
    MemoryId,
    Result,
    ScriptedChatModel,
    SuspendedCall,
    ToolCall,
    ToolException,
    create,
    resume,
    system_message,
    tool,
)
from aiservices.memory import ChatMemory, MessageWindow, SqliteChatMemoryStore

TODAY = date(2026, 5, 4)


@dataclass(frozen=True)
class Order:
    customer: str
    article: str
    euros: float
    delivered: date


ORDERS = {
    17: Order("ann", "desk lamp", 40.0, date(2025, 9, 1)),
    23: Order("ben", "floor lamp", 95.0, date(2022, 3, 12)),
}
Customer = Annotated[str, MemoryId]  # Passed by the caller: the model neither sees nor writes it.


def order(number: int, customer: Customer) -> Order:
    """Look up an order of this customer."""
    match = ORDERS.get(number)
    if match is None or match.customer != customer:
        raise ToolException(f"This customer has no order {number}.")
    return match


def warranty(number: int, customer: Customer) -> str:
    """Return the end of the warranty of an order, which lasts two years."""
    delivered = order(number, customer).delivered
    ends = delivered.replace(year=delivered.year + 2)
    return f"{'under warranty until' if ends >= TODAY else 'the warranty ended on'} {ends:%d %B %Y}"


@tool(needs_approval=True)
def refund(number: int, customer: Customer) -> str:
    """Pay back the price of an order."""
    return f"{order(number, customer).euros:.2f} euros are on their way."


class Topic(Enum):
    ORDER = "order"
    WARRANTY = "warranty"
    REFUND = "refund"


@dataclass
class Reply:
    text: str
    topic: Topic
    needs_human: bool


class Support(Protocol):
    @system_message("You are the support of a lamp shop. Look up what you do not know; refund what broke.")
    def write(self, customer: Customer, message: str) -> Result[Reply]: ...


def tool_call(name: str, number: int) -> ChatReply:
    """Return a reply that calls a tool."""
    return ChatReply(AiMessage("", (ToolCall("call_1", name, json.dumps({"number": number})),)))


def answer(text: str, topic: Topic, *, needs_human: bool = False) -> str:
    """Return a reply that is an answer."""
    return json.dumps({"text": text, "topic": topic.value, "needs_human": needs_human})


def scripted() -> ScriptedChatModel:
    """Return a scripted model for the conversations of this sample."""
    return ScriptedChatModel(
        [
            tool_call("order", 17),
            tool_call("warranty", 17),
            answer("Your desk lamp is under warranty. Shall I refund it?", Topic.WARRANTY),
            tool_call("refund", 17),
            tool_call("order", 17),
            answer("You have no order 17. A colleague will write to you.", Topic.REFUND, needs_human=True),
            answer("The 40 euros for your lamp are on their way.", Topic.REFUND),
            answer("It was your desk lamp, order 17.", Topic.ORDER),
        ]
    )


def open_support(model: ChatModel | str, store: SqliteChatMemoryStore) -> Support:
    """Return the support service, with its conversations in the passed store."""
    memory = ChatMemory(MessageWindow(20), store=store)
    return create(Support, model, tools=[order, warranty, refund], interceptors=[memory])


def show(result: Result[Reply]) -> None:
    """Print the tools that ran, and the answer."""
    for run in result.tool_runs:
        print(f"  {run.name}({run.call.arguments}) → {run.text}")
    reply = result.value
    print(f"  {reply.topic.name}{', for a human' if reply.needs_human else ''}: {reply.text}")


def write(support: Support, customer: str, message: str) -> str | None:
    """Print the answer to a message.

    If the call waits for an approval, return its state as JSON text.
    """
    print(f"{customer}: {message}")
    try:
        show(support.write(customer, message))
    except ApprovalRequiredError as error:
        print(f"  waits: {', '.join(f'{call.name}({call.arguments})' for call in error.calls)}")
        return error.state.to_json()
    return None


def main(model: ChatModel | str | None = None) -> None:
    """Print two conversations that are continued from their stored state.

    Without a model, a scripted one answers.
    """
    chat_model = model or scripted()
    with TemporaryDirectory() as folder:
        path = Path(folder, "support.db")
        with SqliteChatMemoryStore(path) as store:
            support = open_support(chat_model, store)
            write(support, "ann", "The lamp of order 17 flickers.")
            pending = write(support, "ann", "Then I would like my money back.")
            write(support, "ben", "I want the money for order 17 as well.")
        with SqliteChatMemoryStore(path) as store:  # as a second process would
            support = open_support(chat_model, store)
            if pending is not None:
                print("the refund is approved")
                state = SuspendedCall.from_json(pending)
                show(resume(support.write, state, True))
            write(support, "ann", "Which lamp was it?")
            for customer in ("ann", "ben"):
                stored = store.load(f"Support/{customer}")
                print(f"stored for {customer}: {len(stored.messages)} messages")


if __name__ == "__main__":
    main()
