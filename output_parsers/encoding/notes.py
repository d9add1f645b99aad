"""What is found while one schema is encoded, and where."""

from __future__ import annotations

from typing import NamedTuple

from .finding import Finding

__all__ = ["ENFORCED_LATER", "GIVEN_UP", "Notes", "Where"]

ENFORCED_LATER = "not sent; enforced when read"
GIVEN_UP = "strict mode is given up"


class Where(NamedTuple):
    """A place in a schema: its path as a user would name it, and how many objects it is inside of.

    ``named`` says that the schema is of a Python type, whose objects bear the names of classes.
    """

    path: str
    named: bool
    depth: int = 0

    def property(self, key: str, title: object) -> Where:
        """The place of a property of the object that is here."""
        if self.named:  # what has no name is an envelope, of which its user knows nothing
            path = f"{title}.{key}" if isinstance(title, str) else self.path
            return Where(path, True, self.depth + 1)
        step = key.replace("~", "~0").replace("/", "~1")
        return Where(f"{self.path}/properties/{step}", False, self.depth + 1)

    def below(self, *steps: str | int) -> Where:
        """The place of another part of what is here; of a type the same, for it has no name."""
        if self.named:
            return self
        return self._replace(path="/".join([self.path, *map(str, steps)]))

    def deeper(self) -> Where:
        return self._replace(depth=self.depth + 1)


class Notes:
    """The findings so far, each once."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    def note(self, at: Where, what: str, done: str) -> None:
        """What a schema says at a place, and what is done about it."""
        self._found.setdefault(Finding(at.path, what, done))

    def give_up(self, at: Where, what: str) -> None:
        """That a schema cannot be kept at all."""
        self._found.setdefault(Finding(at.path, what, GIVEN_UP, lossless=False))

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self._found)
