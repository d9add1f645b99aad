"""Debate: several services read what the others say, until they agree; then a judge decides."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Protocol

from aiservices import ChatModel, create, user_message

from .scripts import scripted

VIEWS = ("utility", "duty", "practice")


@dataclass
class Position:
    argument: str
    agrees: bool


class Panel(Protocol):
    @user_message("Argue from the view of {{view}}: {{question}}\n\n{{arguments | join('\n')}}")
    async def argue(self, view: str, question: str, arguments: list[str]) -> Position: ...

    @user_message("Decide: {{question}}\n\n{{arguments | join('\n')}}")
    async def judge(self, question: str, arguments: list[str]) -> str: ...


async def debate(panel: Panel, question: str, rounds: int = 3) -> str:
    """Let all argue at the same time, in rounds, until they agree; return the decision of the judge."""
    arguments: list[str] = []
    for _ in range(rounds):
        positions = await asyncio.gather(*[panel.argue(view, question, arguments) for view in VIEWS])
        arguments = [f"{view}: {one.argument}" for view, one in zip(VIEWS, positions, strict=True)]
        print(*arguments, sep="\n")
        if len({one.agrees for one in positions}) == 1:
            break
    return await panel.judge(question, arguments)


def main(model: ChatModel | str | None = None) -> None:
    """Print the arguments and the decision. Without a model, a scripted one answers."""
    panel = create(Panel, model or scripted("debate"))
    print("→", asyncio.run(debate(panel, "May one sell AI art without naming the tool?")))


if __name__ == "__main__":
    main(*sys.argv[1:2])
