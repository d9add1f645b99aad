"""Kill the sample of recovery with SIGKILL at each file that it opens or renames, and start it again.

Argument: an empty folder. Prints a line of JSON for each kill.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from aiservices import ChatReply, ChatRequest, ScriptedChatModel
from samples.patterns.recovery import process
from samples.patterns.scripts import scripted


def run(folder: Path, kill_at: int) -> NoReturn:
    """Process the order, then again with its approval, in a process that kills itself at a step."""
    steps = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal steps
        if event in ("open", "os.rename") and str(arguments[0]).startswith(str(folder)):
            steps += 1
            if steps == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def reply(request: ChatRequest) -> ChatReply:
        with (folder / "requests").open("a") as log:
            log.write(f"{request.messages[0].text.partition(' ')[0]} {len(request.messages)}\n")
        answer = script.complete(request)
        (folder / "replied").touch()  # a step between the reply and what is done with it
        return answer

    script, model = scripted("recovery"), ScriptedChatModel(reply)
    sys.addaudithook(count)
    sys.stdout = (folder / "printed").open("a", buffering=1)
    for approved in (None, True):
        print(process(folder, "Send order 17.", model, approved))
    os._exit(0)


def start(folder: Path, kill_at: int = 0) -> int:
    """Run it in a child process; return the exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        run(folder, kill_at)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(root: Path) -> None:
    for kill_at in range(1, 100):
        folder = root / str(kill_at)
        folder.mkdir()
        exit_code = start(folder, kill_at)
        finished = {name: (folder / name).exists() for name in ("number", "state", "answer")}
        second_exit_code = start(folder)
        print(
            json.dumps(
                {
                    "exit_codes": [exit_code, second_exit_code],
                    "finished": [name for name, exists in finished.items() if exists],
                    "requests": (folder / "requests").read_text().splitlines(),
                    "printed": (folder / "printed").read_text().splitlines(),
                }
            )
        )
        if exit_code == 0:  # there was no such step
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
