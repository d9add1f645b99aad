"""Router: one service chooses which other service answers."""

from __future__ import annotations

import sys
from typing import Literal, Protocol

from aiservices import ChatModel, create, system_message, user_message

from .scripts import scripted

Field = Literal["law", "medicine", "technology"]


class Router(Protocol):
    @user_message("Which field does this request belong to, if any?\n\n{{request}}")
    def field(self, request: str) -> Field | None: ...


@system_message("You are an expert in {{field}}. Answer in one sentence.")
class Expert(Protocol):
    def answer(self, field: Field, request: str) -> str: ...


def answer(router: Router, expert: Expert, request: str) -> str:
    """Let the right expert answer; without one, say so."""
    field = router.field(request)
    if field is None:
        return "There is no expert for this."
    return f"{field}: {expert.answer(field, request)}"


def main(model: ChatModel | str | None = None) -> None:
    """Print the answers to two requests. Without a model, a scripted one answers."""
    model = model or scripted("router")
    router, expert = create(Router, model), create(Expert, model)
    print(answer(router, expert, "I broke my leg. What should I do?"))
    print(answer(router, expert, "Which colour suits me?"))


if __name__ == "__main__":
    main(*sys.argv[1:2])
