"""A person in the loop: a question deep inside stops the whole call, and the answer continues it later."""

from __future__ import annotations

import json
import sys
from typing import Protocol

from aiservices import ApprovalRequiredError, ChatModel, SuspendedCall, create, resume, tool, user_message

from .scripts import scripted


@tool(external=True)
def ask_person(question: str) -> str:
    """Ask the person a question."""
    raise NotImplementedError("the answer comes from outside")


class Astrologer(Protocol):
    @user_message("Write a horoscope for {{name}}. Ask for the sign of the zodiac.")
    def horoscope(self, name: str) -> str:
        """Write the horoscope of a person."""
        ...


class Host(Protocol):
    def greet(self, message: str) -> str: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print a question, and the answer to the message. Without a model, a scripted one answers."""
    script = scripted("person_in_the_loop")
    astrologer = create(Astrologer, model or script, tools=[ask_person])
    host = create(Host, model or script, tools=[astrologer.horoscope])
    try:
        print(host.greet("I am Mario. What will my day be like?"))
    except ApprovalRequiredError as error:
        saved = error.state.to_json()  # for a file or a database
        questions = {call.id: json.loads(call.arguments)["question"] for call in error.external_calls}
        print(questions)
        # The program may end here. Another one, with the same services, continues the call.
        answers = {call_id: input(text) if model else "Pisces" for call_id, text in questions.items()}
        print(resume(host.greet, SuspendedCall.from_json(saved), results=answers))


if __name__ == "__main__":
    main(*sys.argv[1:2])
