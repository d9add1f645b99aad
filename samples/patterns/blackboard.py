"""Blackboard: each service works when something that it reads has changed, until the result is good."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, Protocol

from aiservices import ChatModel, create, user_message

from .scripts import scripted

Steps = Mapping[str, Callable[..., Any]]  # each step by the name of what it writes


class Lab(Protocol):
    @user_message("Summarize what is known about {{topic}}.")
    def findings(self, topic: str) -> str: ...

    @user_message("Find a hypothesis about {{topic}} that fits: {{findings}} {{critique}}")
    def hypothesis(self, topic: str, findings: str, critique: str) -> str: ...

    @user_message("Criticize this hypothesis about {{topic}}: {{hypothesis}}")
    def critique(self, topic: str, hypothesis: str) -> str: ...

    @user_message("How convincing is this hypothesis, from 0 to 1? {{hypothesis}}")
    def score(self, hypothesis: str) -> float: ...


def work(steps: Steps, board: dict[str, Any], limit: int = 20) -> None:
    """Run each step when its inputs are known, and again when they change, until the score is good."""
    used: dict[str, dict[str, Any]] = {}
    for _ in range(limit):
        for output, step in steps.items():
            inputs = {name: board.get(name) for name in signature(step).parameters}
            if None not in inputs.values() and inputs != used.get(output):
                used[output], board[output] = inputs, step(**inputs)
                print(f"{output}: {board[output]}")
                break
        if board.get("score", 0) >= 0.8:
            return


def main(model: ChatModel | str | None = None) -> None:
    """Print what the services write on the board. Without a model, a scripted one answers."""
    lab = create(Lab, model or scripted("blackboard"))
    steps: Steps = {
        "findings": lab.findings,
        "score": lab.score,
        "critique": lab.critique,
        "hypothesis": lab.hypothesis,
    }
    work(steps, {"topic": "black holes", "critique": ""})


if __name__ == "__main__":
    main(*sys.argv[1:2])
