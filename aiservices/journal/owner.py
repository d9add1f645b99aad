"""The names of the processes that own durable calls, and checks of whether such a process still exists."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from uuid import uuid4


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _machine() -> str:
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino  # containers may have the same name
    except OSError:
        namespace = 0
    if hasattr(os, "uname"):
        name = os.uname().nodename
    else:  # Windows
        import platform

        name = platform.node()
    return f"{name.replace('/', '_')}/{BOOT}/{namespace}"


BOOT = _boot()  # changes when the machine starts; "" if the system does not report it
_MACHINE = _machine()
_PROCESS = uuid4().hex[:8]


def process_name() -> str:
    """Return the name of this process, which is unique among all machines."""
    return _name_of(os.getpid())  # which changes after a fork


@cache
def _name_of(process: int) -> str:
    return f"{_MACHINE}/{process}/{_started(process) or _PROCESS}"


def _started(process: int) -> str:
    """Return when a process was started, "dead" if it has ended, or "" if that is not known."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "dead" if fields[0] in "ZX" else fields[19]  # a zombie is dead


def is_of_other_boot(owner: str) -> bool:
    """Return True if an owner ran before the last start of this machine, or on another machine."""
    parts = owner.split("/")
    return len(parts) > 1 and parts[1] != BOOT


def is_dead(owner: str) -> bool:
    """Return True if the process of an owner was on this machine and no longer exists."""
    machine, _, process = owner.partition("#")[0].rpartition("/")[0].rpartition("/")
    if machine != _MACHINE or not process.isdigit():
        return False
    started = _started(int(process))
    if started or int(process) == os.getpid():  # another process may have the number now
        return owner.partition("#")[0].rpartition("/")[2] != (started or _PROCESS)
    if os.name == "nt":  # where os.kill ends a process
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
