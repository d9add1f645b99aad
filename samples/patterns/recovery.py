"""Recovery: a program that was killed, even with kill -9, continues where it was when it starts again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from aiservices import (
    ApprovalRequiredError,
    ChatModel,
    SuspendedCall,
    create,
    options,
    resume,
    tool,
    user_message,
)

from .scripts import scripted


@tool(needs_approval=True)
def dispatch(number: int) -> str:
    """Dispatch an order. The warehouse ignores a number that it has dispatched already."""
    print(f"dispatched: order {number}")
    return "It is on its way."


class Desk(Protocol):
    @user_message("Which number has this order?\n\n{{letter}}")
    def number(self, letter: str) -> int: ...

    @options(tools=[dispatch])
    @user_message("Dispatch order {{number}}.")
    def ship(self, number: str) -> str: ...


def once(path: Path, work: Callable[[], object]) -> str:
    """Return the text in a file. If there is none yet, do the work and write its result."""
    if not path.exists():
        path.with_suffix(".new").write_text(str(work()), "utf-8")
        path.with_suffix(".new").replace(path)  # so the file is complete or missing
    return path.read_text("utf-8")


def process(folder: Path, letter: str, model: ChatModel | str, approved: bool | None = None) -> str:
    """Process an order until it waits for an approval, or to its end if that was decided."""
    desk = create(Desk, model)
    number = once(folder / "number", lambda: desk.number(letter))
    state = folder / "state"
    if not state.exists():
        try:
            return desk.ship(number)
        except ApprovalRequiredError as error:
            once(state, error.state.to_json)
    if approved is None:
        return f"order {number} waits for an approval"
    suspended = SuspendedCall.from_json(state.read_text("utf-8"))
    return once(folder / "answer", lambda: resume(desk.ship, suspended, approved))


def main(model: ChatModel | str | None = None) -> None:
    """Process an order as two programs would. Without a model, a scripted one answers."""
    with TemporaryDirectory() as folder:
        for approved in (None, True):
            print(process(Path(folder), "Send order 17.", model or scripted("recovery"), approved))


if __name__ == "__main__":
    main(*sys.argv[1:2])
