"""The support of a bank: a tool that reads the customer's account, and an answer with advice and a risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from aiservices import (
    AiMessage,
    ChatModel,
    ChatReply,
    Description,
    ScriptedChatModel,
    ToolCall,
    ToolContext,
    create,
    system_message,
)
from aiservices.interceptors import Invocation


@dataclass(frozen=True)
class Account:
    owner: str
    booked: float
    pending: float


CurrentAccount = Annotated[Account, ToolContext]  # for tools: the model does not see it


@dataclass
class Advice:
    text: Annotated[str, Description("The advice for the customer")]
    block_card: Annotated[bool, Description("Whether the card must be blocked")]
    risk: Annotated[int, Field(ge=0, le=10), Description("How risky the request is")]


def instructions(invocation: Invocation) -> str:
    owner = invocation.arguments["account"].owner
    return f"You are the support of a bank. Advise the customer, {owner}, by name, and judge the risk."


class Bank(Protocol):
    @system_message(instructions)
    def advise(self, question: str, account: CurrentAccount) -> Advice: ...


def balance(with_pending: bool, account: CurrentAccount) -> str:
    """Return the balance of the customer's account."""
    return f"{account.booked + (account.pending if with_pending else 0):.2f} euros"


def scripted() -> ScriptedChatModel:
    """Return a scripted model for the questions of this sample."""
    return ScriptedChatModel(
        [
            ChatReply(AiMessage("", (ToolCall("call_1", "balance", '{"with_pending": true}'),))),
            '{"text": "Hello Ann, you have 123.45 euros with all bookings.", "block_card": false, "risk": 1}',
            '{"text": "I am sorry, Ann. Your card is blocked now.", "block_card": true, "risk": 8}',
        ]
    )


def main(model: ChatModel | str | None = None) -> None:
    """Print the advice for two questions. Without a model, a scripted one answers."""
    bank = create(Bank, model or scripted(), tools=[balance])
    account = Account("Ann", 100.0, 23.45)
    print(bank.advise("How much do I have?", account))
    print(bank.advise("I have lost my card!", account))


if __name__ == "__main__":
    main()
