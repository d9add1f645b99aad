"""A killed process leaves complete exchanges in the store, including all that it had reported."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from aiservices.memory import SqliteChatMemoryStore
from aiservices.memory.windows import join_exchanges, split_exchanges

PROGRAM = Path(__file__).with_name("killed_while_talking.py")
ROOT = Path(__file__).parents[3]


def talking(path: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), str(path), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def killed_after(seconds: float, path: Path, first: int) -> int:
    """Return how many calls a process printed before it was killed, some seconds after the first."""
    process = talking(path, str(first))
    assert process.stdout is not None
    told = [process.stdout.readline()]
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    told += process.stdout.readlines()
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    return sum(line.endswith("\n") for line in told)


def test_a_killed_process_leaves_complete_exchanges_and_loses_no_confirmed_one(tmp_path: Path) -> None:
    path, told, chance = tmp_path / "memory.db", 0, random.Random(7)
    for _ in range(4):
        with SqliteChatMemoryStore(path) as store:
            first = len(split_exchanges(store.load("Chat").messages))
        told += killed_after(chance.uniform(0.01, 0.1), path, first)
    with SqliteChatMemoryStore(path) as store:
        messages = store.load("Chat").messages
    exchanges = split_exchanges(messages)
    assert join_exchanges(exchanges) == messages
    assert [len(exchange) for exchange in exchanges] == [8] * len(exchanges)
    assert [exchange[0].text for exchange in exchanges] == [
        f"turn {number}" for number in range(len(exchanges))
    ]
    assert told <= len(exchanges) <= told + 4


def test_a_process_that_is_killed_during_a_write_stores_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    process = talking(path, "0", "fragile")
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output.split()) == (-signal.SIGKILL, ["0", "1", "2"])
    with SqliteChatMemoryStore(path) as store:
        stored = store.load("Chat")
        exchanges = split_exchanges(stored.messages)
        assert join_exchanges(exchanges) == stored.messages
        assert [exchange[0].text for exchange in exchanges] == ["turn 0", "turn 1", "turn 2"]
        store.append("Chat", exchanges[0], expected=stored.version)
