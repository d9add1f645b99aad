"""Says why a cassette has no reply to a request: what was recorded that is the nearest to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Any

from .request_json import shown

__all__ = ["CassetteError", "miss"]

_LONGEST_DIFF = 60  # lines


class CassetteError(Exception):
    """A request that cannot be answered from what was recorded, or a file that is no cassette."""


def miss(
    path: Path, mode: str, recorded: bool, asked: Mapping[str, Any], known: Sequence[Mapping[str, Any]]
) -> str:
    """The message for a request without a reply, with what to do."""
    if not recorded:
        return (
            f"{path} does not exist, and in the mode {mode} nothing is recorded; "
            'record it with the mode "once" (pytest --cassettes=once)'
        )
    same = sum(shown(one) == shown(asked) for one in known)
    advice = 'record what is new with the mode "new" (pytest --cassettes=new), or all of it with "all"'
    if same:
        times = "once" if same == 1 else f"{same} times"
        return f"{path}: this request was recorded {times}, and is asked once more; {advice}"
    if not known:
        return f"{path} holds no exchange; {advice}"
    place, nearest = max(enumerate(known, 1), key=lambda one: _likeness(one[1], asked))
    lines = unified_diff(
        shown(nearest).splitlines(), shown(asked).splitlines(), "recorded", "asked", lineterm=""
    )
    diff = list(lines)
    left = len(diff) - _LONGEST_DIFF
    more = [f"… and {left} more lines"] if left > 0 else []
    return "\n".join(
        [
            f"{path} has no reply to this request; {advice}.",
            f"The nearest of what was recorded is exchange {place} of {len(known)}:",
            *diff[:_LONGEST_DIFF],
            *more,
        ]
    )


def _likeness(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    return SequenceMatcher(None, shown(one).splitlines(), shown(other).splitlines(), autojunk=False).ratio()
