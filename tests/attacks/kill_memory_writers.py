"""A program that kills processes while they write to a conversation store, and checks what they left.

Arguments: "sqlite" or "redis", the path or URL, and how many processes to kill. It prints JSON with the
figures. It forks, so it must not be imported by a process with threads.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from typing import Annotated, Any, Protocol

from aiservices import AiMessage, MemoryId, ScriptedChatModel, UserMessage, create
from aiservices.memory import ChatMemory, MemoryConflictError, RedisChatMemoryStore, SqliteChatMemoryStore
from aiservices.memory.windows import join_exchanges, split_exchanges

PREFIX = f"{os.getpid()}:"  # of this run in Redis, which other tests use too
WRITERS = 4  # at the same time; two of them share a conversation


class Chat(Protocol):
    def chat(self, id: Annotated[int, MemoryId], text: str) -> str: ...


def opened(kind: str, address: str) -> Any:
    return (
        SqliteChatMemoryStore(address) if kind == "sqlite" else RedisChatMemoryStore(address, prefix=PREFIX)
    )


def write_until_killed(store: Any, conversation: str, name: str, log: int) -> None:
    """Add exchanges to a conversation, and log each one that the store has acknowledged."""
    number = 0
    while True:
        text = f"{conversation} {name}.{number}"
        exchange = (UserMessage(text), AiMessage(f"re {text} " + "x" * 3000))
        try:
            store.append(conversation, exchange, expected=store.load(conversation, last=1).version)
        except MemoryConflictError:
            continue
        os.write(log, f"{text}\n".encode())
        number += 1


def fork_writer(kind: str, address: str, name: int, log: int) -> int:
    process = os.fork()
    if process:
        return process
    try:
        write_until_killed(opened(kind, address), f"int:{name % 2}", str(name), log)
    except BaseException as error:
        os.write(log, f"failed {error!r}\n".encode())
    finally:
        os._exit(1)


def seconds_of_next_call(kind: str, address: str) -> float:
    """Return how long a call takes in a conversation whose writers were killed."""
    with closing(opened(kind, address)) as store:
        memory = ChatMemory(store=store, namespace="")
        service = create(Chat, ScriptedChatModel(lambda request: "ok"), interceptors=[memory])
        began = time.monotonic()
        service.chat(0, "next")
        return time.monotonic() - began


def main(kind: str, address: str, kills: int) -> None:
    chance, longest = random.Random(7), 0.0
    with tempfile.TemporaryFile() as file:
        for first in range(0, kills, WRITERS):
            position = os.fstat(file.fileno()).st_size
            names = range(first, min(first + WRITERS, kills))
            writers = [fork_writer(kind, address, name, file.fileno()) for name in names]
            while os.fstat(file.fileno()).st_size == position:  # until one write was acknowledged
                time.sleep(0.001)
            for writer in writers:
                time.sleep(chance.uniform(0, 0.01))
                os.kill(writer, signal.SIGKILL)
            codes = [os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) for writer in writers]
            if set(codes) != {-signal.SIGKILL}:
                file.seek(0)
                failures = [line for line in file.read().decode().splitlines() if line.startswith("failed")]
                raise RuntimeError(f"writers ended before they were killed: {failures}")
            longest = max(longest, seconds_of_next_call(kind, address))
        file.seek(0)
        acknowledged = file.read().decode().splitlines()
    stored: Counter[str] = Counter()
    incomplete = 0
    with closing(opened(kind, address)) as store:
        for conversation in ("int:0", "int:1"):
            messages = store.load(conversation).messages
            exchanges = split_exchanges(messages)
            incomplete += join_exchanges(exchanges) != messages
            stored.update(exchange[0].text for exchange in exchanges)
    damaged = False
    if kind == "sqlite":
        with closing(sqlite3.connect(address)) as connection:
            damaged = connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]
    next_calls = stored.pop("next")
    figures = {
        "kills": kills,
        "acknowledged": len(acknowledged),
        "lost": sum(stored[text] == 0 for text in acknowledged),
        "stored twice": sum(count > 1 for count in stored.values()),
        "stored but not acknowledged": len(stored) - len(acknowledged),
        "incomplete": incomplete,
        "damaged": damaged,
        "next calls": next_calls,
        "longest next call": round(longest, 3),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
