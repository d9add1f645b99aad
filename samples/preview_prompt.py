"""preview: the messages, the schema and the strategy of a call, without calling the model."""

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
    """Print the request that a call would send. Without a model, it is a request to OpenAI."""
    postmaster = create(Postmaster, model or "openai:gpt-5-mini")
    request = preview(postmaster.urgency, "Please call me back tonight.", company="Harper & Sons")
    print(request)
    print()
    print(f"{len(request.messages)} messages, strict schema: {request.strict}")


if __name__ == "__main__":
    main()
