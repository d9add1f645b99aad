"""@example: examples that are sent to the model, and checked by create."""

from __future__ import annotations

from typing import Literal, Protocol

from aiservices import ChatModel, DefinitionError, create, example, preview, user_message

Topic = Literal["billing", "bug", "delivery"]


class Desk(Protocol):
    @example("I was charged twice.", returns="billing")
    @example("The window does not open.", returns="bug")
    @user_message("Which topic does this ticket belong to?\n\nTicket: {{ticket}}")
    def topic_of(self, ticket: str) -> Topic: ...


class CarelessDesk(Protocol):
    @example("I was charged twice.", returns="money")
    @user_message("Which topic does this ticket belong to?\n\nTicket: {{ticket}}")
    def topic_of(self, ticket: str) -> Topic: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print the messages of a call with few-shot examples. No model is called."""
    desk = create(Desk, model or "openai:gpt-5-mini")
    for message in preview(desk.topic_of, "Can you deliver to Norway?").messages:
        print(f"[{type(message).__name__}] {message.text.replace(chr(10), ' ')}")
    try:
        create(CarelessDesk, model or "openai:gpt-5-mini")
    except DefinitionError as error:
        print(error)


if __name__ == "__main__":
    main()
