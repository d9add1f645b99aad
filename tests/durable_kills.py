"""Kill processes with a durable call at random times, with SIGKILL, and count what was done.

python -m tests.durable_kills JOURNAL FOLDER KILLS SEED
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Annotated, Any, Protocol

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    CallId,
    ChatReply,
    Durable,
    Journal,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    create,
    resume,
    tool,
    user_message,
)

ROUNDS = 3


class Desk(Protocol):
    @user_message("Pay {{order}}.")
    def pay(self, order: str, call_id: Annotated[str, CallId]) -> str: ...


class Outside:
    """The world outside of the processes: lines in files, which are written at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, kind: str, line: str) -> None:
        file = os.open(self._folder / kind, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def lines(self, kind: str) -> list[str]:
        path = self._folder / kind
        return path.read_text().splitlines() if path.exists() else []


def work(journal: str, outside: Outside, order: str) -> None:
    """Make the call, and answer its questions by looking at what was done."""

    def reply(request: Any) -> Any:
        rounds = sum(isinstance(message, ToolMessage) for message in request.messages) // 2
        outside.add("requests", f"{order} {rounds}")
        if rounds == ROUNDS:
            return f"paid {order}"
        arguments = json.dumps({"order": order, "number": rounds})
        names = ("pay", "note")
        return ChatReply(AiMessage("", tuple(ToolCall(f"{name}{rounds}", name, arguments) for name in names)))

    def pay(order: str, number: int) -> str:
        outside.add("paid", f"{order} {number}")
        return "paid"

    @tool(idempotent=True)
    def note(order: str, number: int, call: ToolCall) -> str:
        outside.add("noted", f"{order} {number} {call.idempotency_key}")
        return "noted"

    with Journal(journal) as opened:
        desk = create(Desk, ScriptedChatModel(reply), tools=[pay, note], interceptors=[Durable(opened)])
        start: Callable[[], str] = lambda: desk.pay(order, call_id=order)  # noqa: E731
        while True:
            try:
                outside.add("answers", f"{order} {start()}")
                return
            except ApprovalRequiredError as error:
                (doubt,) = error.in_doubt
                is_paid = f"{order} {doubt.id.removeprefix('pay')}" in outside.lines("paid")
                results = {doubt.id: "paid"} if is_paid else {}
                approvals = {} if is_paid else {doubt.id: True}
                state = error.state
                start = lambda: resume(desk.pay, state, approvals, results=results)  # noqa: E731, B023


def started(task: Callable[[], None]) -> int:
    """Start a function in another process, and return the id of the process."""
    process = os.fork()
    if process == 0:
        try:
            task()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return process


def seconds(task: Callable[[], None]) -> float:
    """Return how long a function takes in another process."""
    began = time.monotonic()
    os.waitpid(started(task), 0)
    return time.monotonic() - began


def is_killed(task: Callable[[], None], seconds: float) -> bool:
    """Run a function in another process; return True if it was killed after some seconds."""
    process = started(task)
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise AssertionError("the call failed; see its error above")
    return os.WIFSIGNALED(status)


def main(journal: str, folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill processes ``kills`` times, and return the problems."""
    random, outside = Random(seed), Outside(folder)
    work(journal, outside, "first")  # it imports what the others need
    usual = min(
        seconds(lambda number=number: work(journal, outside, f"usual-{number}")) for number in range(5)
    )  # type: ignore[misc]
    killed, number, problems, extra = 0, 0, list[str](), 0
    while killed < kills:
        number += 1
        order, of_call = f"order-{number}", 0
        while is_killed(lambda order=order: work(journal, outside, order), random.random() * usual * 1.1):  # type: ignore[misc]
            of_call += 1
        killed += of_call
        paid = Counter(line for line in outside.lines("paid") if line.startswith(f"{order} "))
        keys = {line for line in outside.lines("noted") if line.startswith(f"{order} ")}
        requests = sum(line.startswith(f"{order} ") for line in outside.lines("requests"))
        answers = {line for line in outside.lines("answers") if line.startswith(f"{order} ")}
        extra += requests - ROUNDS - 1
        if paid != Counter({f"{order} {one}": 1 for one in range(ROUNDS)}):
            problems.append(f"{order}: paid {paid}")
        if len(keys) != ROUNDS:
            problems.append(f"{order}: noted {keys}")
        if requests > ROUNDS + 1 + of_call:
            problems.append(f"{order}: {requests} requests after {of_call} kills")
        if answers != {f"{order} paid {order}"}:
            problems.append(f"{order}: {answers}")
        for kind in ("paid", "noted", "requests", "answers"):
            (folder / kind).unlink(missing_ok=True)
    return {"kills": killed, "calls": number, "more requests": extra, "problems": problems}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
