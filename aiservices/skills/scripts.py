"""Run scripts of skills, if the program allows it: without a shell, with a time limit, with few variables."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ..models.errors import check_settings, is_positive
from ..tools.tool import ToolException
from .skill import Skill

SCRIPTS = "scripts"  # the folder of a skill with its scripts
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "TEMP", "TMP")
_LARGEST_OUTPUT = 1_000_000  # characters of each stream


def _default_interpreters() -> Mapping[str, Sequence[str]]:
    return {".py": (sys.executable,), ".sh": ("bash",), ".js": ("node",)}


@dataclass(frozen=True)
class ScriptSettings:
    """Allows the model to run the scripts of skills, which are programs with the rights of this process.

    Each script runs in the folder of its skill, without a shell. Of the environment it gets only variables
    such as PATH and HOME, and ``env``. Raises DefinitionError for wrong settings.

    Attributes:
        timeout: Seconds after which a script, with the processes that it has started, is killed.
        needs_approval: True if each run must be approved.
        interpreters: The commands that run scripts, by the ending of the file. Other files are not run.
        env: Further variables of the environment.
    """

    timeout: float = 30.0
    needs_approval: bool = False
    interpreters: Mapping[str, Sequence[str]] = field(default_factory=_default_interpreters)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        is_limited = is_positive(self.timeout) and math.isfinite(self.timeout)
        check_settings("ScriptSettings", ("timeout", self.timeout, is_limited, "it must be greater than 0"))

    def runs(self, path: str) -> bool:
        """Return True if a file of a skill is a script that can be run."""
        return path.startswith(f"{SCRIPTS}/") and Path(path).suffix in self.interpreters

    def run(self, skill: Skill, script: str, arguments: Sequence[str], text: str) -> str:
        """Run a script with a text as its standard input, and return what it has written.

        Raises ToolException if it cannot be run, fails, or takes too long.
        """
        path = skill.path_of(script)
        relative = path.relative_to(skill.folder).as_posix()  # where a link leads to
        if not self.runs(relative):
            scripts = ", ".join(one for one in skill.files() if self.runs(one)) or "none"
            raise ToolException(f"{script} is not a script of {skill.name}. Its scripts are: {scripts}.")
        command = [*self.interpreters[path.suffix], str(path), *arguments]
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        try:
            process = subprocess.Popen(
                command,
                cwd=skill.folder,
                env={**inherited, **self.env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except (OSError, ValueError) as error:  # no interpreter, or a null character in an argument
            raise ToolException(f"{script} could not be started: {error}") from error
        output, errors, is_late = _communicate(process, text, self.timeout)
        if is_late:
            raise ToolException(f"{script} was stopped because it took more than {self.timeout:g} seconds.")
        if process.returncode:
            raise ToolException(
                f"{script} failed with the exit code {process.returncode}.\n{output}{errors}".rstrip()
            )
        return output or errors or "The script wrote nothing."


def _communicate(process: subprocess.Popen[str], text: str, timeout: float) -> tuple[str, str, bool]:
    """Send a text to a process, and return its output and errors, and True if it was killed.

    Unlike ``Popen.communicate``, this keeps only the beginning of a long output, and does not wait for
    processes that keep the pipes open.
    """
    outputs: list[list[str]] = [[], []]
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    threads = [
        threading.Thread(target=_write, args=(process.stdin, text), daemon=True),
        threading.Thread(target=_read, args=(process.stdout, outputs[0]), daemon=True),
        threading.Thread(target=_read, args=(process.stderr, outputs[1]), daemon=True),
    ]
    for thread in threads:
        thread.start()
    is_late = False
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        is_late = True
    finally:
        _kill_group(process)  # also what a script has left in the background
        process.wait()
    for thread in threads:
        thread.join(1)
    return "".join(outputs[0]), "".join(outputs[1]), is_late


def _kill_group(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)


def _write(pipe: IO[str], text: str) -> None:
    with suppress(OSError, ValueError), pipe:  # the script may not read it
        pipe.write(text)


def _read(pipe: IO[str], output: list[str]) -> None:
    length = 0
    with suppress(OSError, ValueError), pipe:
        while chunk := pipe.read(8192):
            if length < _LARGEST_OUTPUT:
                output.append(chunk)
            length += len(chunk)
