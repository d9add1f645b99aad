"""Regular expressions that are compiled when they are first used, and tables of words for them."""

from __future__ import annotations

import re
from typing import cast

_METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "split")


class _LazyPattern:
    """A regular expression that is compiled when one of its methods is first used."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._arguments = (pattern, flags)

    # Called only for attributes that are not set yet. It sets all methods as instance attributes, so that
    # every later call goes straight to the compiled pattern without passing through Python code.
    def __getattr__(self, name: str) -> object:
        compiled = re.compile(*self._arguments)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy_regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled when it is first used, unlike one from ``re.compile``.

    Compiling all patterns of this package takes as long as importing the rest of it.
    """
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


def join_lines(table: str) -> str:
    """Return a part of a regular expression that is written as a table of several lines."""
    return "".join(map(str.strip, table.splitlines()))
