"""Planner with goals: the steps to a goal follow from the names of their parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, Protocol

from aiservices import ChatModel, create, user_message

from .scripts import scripted

Steps = Mapping[str, Callable[..., Any]]  # each step by the name of the fact that it finds


class Desk(Protocol):
    @user_message("Who writes this?\n\n{{letter}}")
    def person(self, letter: str) -> str: ...

    @user_message("Which sign of the zodiac has the writer?\n\n{{letter}}")
    def sign(self, letter: str) -> str: ...

    @user_message("Write the horoscope of {{person}}, who is a {{sign}}.")
    def horoscope(self, person: str, sign: str) -> str: ...

    @user_message("Tell {{person}} something funny about this horoscope: {{horoscope}}")
    def story(self, person: str, horoscope: str) -> str: ...


def reach(goal: str, steps: Steps, facts: dict[str, Any]) -> Any:
    """Return a fact. If it is not known, first find what the step to it needs, and take the step."""
    if goal not in facts:
        needed = {name: reach(name, steps, facts) for name in signature(steps[goal]).parameters}
        print("step:", goal)
        facts[goal] = steps[goal](**needed)
    return facts[goal]


def main(model: ChatModel | str | None = None) -> None:
    """Print the steps to a story, and the story. Without a model, a scripted one answers."""
    desk = create(Desk, model or scripted("goals"))
    steps: Steps = {
        "story": desk.story,
        "horoscope": desk.horoscope,
        "sign": desk.sign,
        "person": desk.person,
    }
    print(reach("story", steps, {"letter": "My name is Mario, and I was born under Pisces."}))


if __name__ == "__main__":
    main(*sys.argv[1:2])
