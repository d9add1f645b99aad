"""Writes a file so that it is whole at each moment."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

__all__ = ["write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Put a text in the place of a file, whose folders are made; where that fails, the file is as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{uuid4().hex}")
    try:
        fresh.write_text(text, "utf-8")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
