"""Makes up a text that a regular expression matches."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

__all__ = ["text_like"]

_MORE = 3  # how many more than the least of a repetition
_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_- "
_OF_CLASS = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_WORD": "abcdefghijklmnopqrstuvwxyz0123456789_",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": "abcdefghijklmnopqrstuvwxyz -",
    "CATEGORY_NOT_WORD": " -.,",
    "CATEGORY_NOT_SPACE": "abcdefghijklmnopqrstuvwxyz0123456789",
}


def text_like(pattern: str, dice: random.Random) -> str:
    """A short text in which ``re.search`` finds the pattern, or nearly so: who needs it checks it.

    Looking around and conditions are not followed. Raises re.error for what is no pattern.
    """
    # the tree that re itself compiles from; Hypothesis reads the same one
    tree = re._parser.parse(pattern)  # type: ignore[attr-defined]
    return _Writer(dice).written(tree)


class _Writer:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._groups: dict[int, str] = {}
        self._writes: dict[str, Callable[[Any], str]] = {
            "LITERAL": chr,
            "NOT_LITERAL": lambda code: self._other_than({chr(code)}),
            "ANY": lambda _: self._dice.choice(_PLAIN),
            "IN": self._member,
            "MAX_REPEAT": self._repeated,
            "MIN_REPEAT": self._repeated,
            "POSSESSIVE_REPEAT": self._repeated,
            "SUBPATTERN": self._group,
            "ATOMIC_GROUP": self.written,
            "BRANCH": lambda found: self.written(self._dice.choice(found[1])),
            "GROUPREF": lambda number: self._groups.get(number, ""),
        }

    def written(self, tree: Any) -> str:
        return "".join(self._one(str(kind), found) for kind, found in tree)

    def _one(self, kind: str, found: Any) -> str:
        write = self._writes.get(kind)
        return "" if write is None else write(found)  # an anchor, or what looks around

    def _repeated(self, found: Any) -> str:
        least, most, inner = found
        times = self._dice.randint(int(least), min(int(most), int(least) + _MORE))
        return "".join(self.written(inner) for _ in range(times))

    def _group(self, found: Any) -> str:
        number, *_, inner = found
        said = self.written(inner)
        if number is not None:
            self._groups[number] = said
        return said

    def _member(self, found: Any) -> str:
        kinds = [(str(kind), inner) for kind, inner in found]
        if kinds[0][0] == "NEGATE":
            return self._other_than(
                {letter for kind, inner in kinds[1:] for letter in self._letters(kind, inner)}
            )
        return self._dice.choice(self._letters(*self._dice.choice(kinds)))

    def _letters(self, kind: str, found: Any) -> str:
        if kind == "LITERAL":
            return chr(found)
        if kind == "RANGE":
            low, high = found
            return "".join(map(chr, range(low, min(high, low + 200) + 1)))
        return _OF_CLASS.get(str(found), _PLAIN)

    def _other_than(self, letters: set[str]) -> str:
        return self._dice.choice([letter for letter in _PLAIN if letter not in letters] or ["é"])
