"""Read the texts of files."""

from __future__ import annotations

import os
from pathlib import Path

from .pages import Page


def read_file(path: str | os.PathLike[str]) -> tuple[str, tuple[Page, ...]]:
    """Return the text of a file and its pages, if it has any."""
    return Path(path).read_text("utf-8-sig"), ()
