"""Reads JSON that a model wrote into a JSON string, as in ``{"items": "[1, 2]"}``."""

from __future__ import annotations

from .json_reader import read_exact
from .json_text import JsonFault
from .reading import Json, Place

__all__ = ["opened"]


def opened(found: Json, opening: str, at: Place) -> Json:
    """The JSON inside a string that begins with the bracket ``opening``; all else as it is."""
    if not isinstance(found, str) or not found.lstrip().startswith(opening):
        return found
    try:
        inside = read_exact(found.strip())
    except JsonFault:
        return found
    at.took("JSON inside a string", found, inside)
    return inside
