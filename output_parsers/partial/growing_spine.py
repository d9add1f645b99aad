"""The containers of a growing text, with what is closed in them, and how they stand at one moment."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..reading import Json
from .pieces import TextSoFar

if TYPE_CHECKING:
    from .frames import Frame

__all__ = ["Container", "Member", "Moment", "Part", "clean_text"]


class Member(NamedTuple):
    """A closed member that stands by itself. ``unfit``: its string cannot be read, and was shown so far."""

    key: str
    value: Json
    unfit: bool


class Container:
    """An object or array: ``parts`` are its closed members in the order of the text, and are only added to.

    A part is a run of members without anything odd in them, as text; one member; or one container. ``key``
    is the key that it stands under; ``start`` and ``end`` say where in the whole text it stands. ``frame``
    reads it, once somebody looks; ``sizes`` says how much was shown of it after so many parts.
    """

    __slots__ = ("bracket", "closer", "end", "frame", "key", "parts", "sizes", "start")

    def __init__(self, bracket: str, key: str, start: int) -> None:
        self.bracket = bracket
        self.closer = "}" if bracket == "{" else "]"
        self.key = key
        self.start = start
        self.end = -1
        self.parts: list[Part] = []
        self.frame: Frame | None = None
        self.sizes: list[int] = []

    def read_with(self, frame: Frame) -> Frame:
        """Give it the frame that reads it."""
        self.frame = frame
        self.sizes = [frame.size]
        return frame


Part: TypeAlias = str | Member | Container


def clean_text(container: Container) -> str | None:
    """The JSON text of a closed container; None when there is something odd in it."""
    members = []
    for part in container.parts:
        if isinstance(part, str):
            members.append(part.rstrip(" \t\r\n,"))
            continue
        inside = clean_text(part) if isinstance(part, Container) else None
        if inside is None:
            return None
        members.append(f"{json.dumps(part.key)}:{inside}" if container.bracket == "{" else inside)
    return f"{container.bracket}{','.join(members)}{container.closer}"


class Moment(NamedTuple):
    """The containers that are open, each with the number of its parts, and the member being written.

    That member is the string ``text`` under ``key``, or it is still in ``cut``, a match of CUT_MEMBER.
    """

    spine: list[tuple[Container, int]]
    key: str = ""
    text: TextSoFar | None = None
    cut: re.Match[str] | None = None
