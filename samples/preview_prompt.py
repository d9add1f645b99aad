"""preview: the messages, the schema and the strategy of a call, without a key and without the call."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Protocol

from aiservices import ChatModel, Description, create, preview, system_message, user_message


class Urgency(Enum):
    HIGH = "high"
    LOW = "low"


@system_message("You sort the mail of {{company}}.")
class Postmaster(Protocol):
    @user_message("How urgent is this letter?\n\nLetter: {{letter}}")
    def urgency(
        self, letter: str, company: str
    ) -> Annotated[Urgency, Description("high when an answer is due within a day")]: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print what would be sent to ``model``; to a model of OpenAI when there is none."""
    postmaster = create(Postmaster, model or "openai:gpt-5-mini")
    shown = preview(postmaster.urgency, "Please call me back tonight.", company="Harper & Sons")
    print(shown)
    print()
    print(f"{len(shown.messages)} messages, strict schema: {shown.strict}")


if __name__ == "__main__":
    main()
