"""What a schema says that a profile cannot, and what does not fit an encoding."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EncodingFault", "Finding"]


class Finding(NamedTuple):
    """Where a schema says more than the profile can, what it says, and what is done about it.

    ``path`` names the field of a Python type (``Person.tags``), or is a JSON pointer into a bare schema.
    ``lossless`` is False where strict mode has to be given up.
    """

    path: str
    what: str
    done: str
    lossless: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.what}: {self.done}"


class EncodingFault(ValueError):
    """A JSON value does not fit an encoding. ``path`` is its JSON path (``$`` is the root)."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(path, message)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"
