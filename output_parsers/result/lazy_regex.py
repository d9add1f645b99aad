"""Regular expressions that are compiled when they are first used, not when their module is imported."""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "split")


class _LazyPattern:
    """Stands for a compiled pattern; from its first use on, its methods are the pattern's own."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._said = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        made = re.compile(*self._said)
        for method in _METHODS:
            setattr(self, method, getattr(made, method))
        return getattr(made, name)


def lazy_regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """As ``re.compile``. Compiling all patterns of this package costs as much as importing the rest of it."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))
