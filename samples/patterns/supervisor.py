"""Supervisor: a service decides which of its tools to call; two of them are methods of another service."""

from __future__ import annotations

import sys
from typing import Protocol

from aiservices import ChatModel, Result, create, tool, user_message

from .scripts import scripted


class Bank:
    def __init__(self) -> None:
        self.accounts = {"Mario": 1000.0, "Georgios": 1000.0}

    @tool
    def book(self, user: str, dollars: float) -> float:
        """Add an amount, which may be negative, to an account; return the new balance."""
        self.accounts[user] += dollars
        return self.accounts[user]


def exchange(amount: float, currency: str) -> float:
    """Convert an amount to dollars."""
    return amount * {"EUR": 1.15, "CHF": 1.25}[currency]


class Teller(Protocol):
    @user_message("Withdraw {{dollars}} dollars from the account of {{user}}.")
    def withdraw(self, user: str, dollars: float) -> str:
        """Withdraw dollars from an account."""
        ...

    @user_message("Credit {{dollars}} dollars to the account of {{user}}.")
    def credit(self, user: str, dollars: float) -> str:
        """Credit dollars to an account."""
        ...


class Supervisor(Protocol):
    @user_message("Do what the customer wants. Accounts are in dollars.\n\n{{wish}}")
    def serve(self, wish: str) -> Result[str]: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print an answer, and what the calls behind it used. Without a model, a scripted one answers."""
    model, bank = model or scripted("supervisor"), Bank()
    teller = create(Teller, model, tools=[bank])
    supervisor = create(Supervisor, model, tools=[teller.withdraw, teller.credit, exchange])
    result = supervisor.serve("Transfer 100 EUR from Mario to Georgios.")
    print(result.value, bank.accounts)
    for call in result.inner_calls:
        print(call.qualname, call.usage and call.usage.total_tokens)
    print("in all", result.usage and result.usage.total_tokens)


if __name__ == "__main__":
    main(*sys.argv[1:2])
