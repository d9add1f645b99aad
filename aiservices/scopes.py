"""The names that string annotations may use where functions were written."""

from __future__ import annotations

import re
from types import FrameType, FunctionType
from typing import Any

from typing_extensions import Format, get_annotations

__all__ = ["names_around"]


def names_around(frame: FrameType | None, *written: object) -> dict[str, Any]:
    """The names that string annotations may use where functions were written: those of the scopes around.

    A frame counts when a function stands in its code, so that what callers have in their variables is
    never taken for a type. Only names that the annotations mention are kept, and no frame stays alive.
    """
    functions = [thing for thing in written if isinstance(thing, FunctionType)]
    wanted: list[object] = [function for function in functions if _mentioned(function)]
    scopes = [scope for function in functions for scope in _scopes(function)] if wanted else []
    spaces: list[dict[str, Any]] = []
    while frame is not None and scopes:
        if (frame.f_code.co_qualname, id(frame.f_globals)) in scopes:
            spaces.append(frame.f_locals)
        frame = frame.f_back
    found: dict[str, Any] = {}
    while wanted and spaces:
        for name in _mentioned(wanted.pop()) - found.keys():
            space = next((space for space in spaces if name in space), None)
            if space is not None:
                found[name] = space[name]
                wanted.append(space[name])  # a record may mention others
    return found


def _scopes(function: FunctionType) -> list[tuple[str, int]]:
    """The code around a function: the functions that it is local to, and the body of its class."""
    parts = function.__qualname__.split(".")
    around = [".".join(parts[:at]) for at, part in enumerate(parts) if part == "<locals>"]
    return [(name, id(function.__globals__)) for name in (*around, ".".join(parts[:-1]))]


def _mentioned(thing: object) -> set[str]:
    """The names in annotations that are, or hold, text."""
    if not isinstance(thing, (type, FunctionType)):
        return set()
    annotations = get_annotations(thing, format=Format.FORWARDREF)
    texts = [repr(value) for value in annotations.values() if not isinstance(value, type)]
    return {name for text in texts for name in re.findall(r"[^\W\d]\w*", text)}
