"""Write a file so that a failure leaves the old file."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically: if writing fails, the old file remains.

    Creates missing folders.

    Only the owner can read a new file, because it contains prompts. An existing file keeps its permissions.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid4().hex}")
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        with suppress(FileNotFoundError):
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
