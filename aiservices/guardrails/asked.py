"""What the user says in a turn, and a turn that says something else."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..contents import interleaved
from ..messages import UserMessage
from ..plan import Turn
from ..strategies import INSTRUCTIONS_PLACE

__all__ = ["Asked", "Told", "asked_in"]

_PRIVATE_USE = range(0xE000, 0xF8FF)  # characters without a meaning


class Told(str):
    """The text of a message that a guard wrote, not the user."""

    __slots__ = ()


class Asked(NamedTuple):
    """The user's message in a turn: its text as guards are shown it, and where it stands.

    A single character stands in the text for the place of the format instructions, where it has one.
    """

    text: str
    at: int
    place: str

    def said_otherwise(self, text: str, turn: Turn) -> Turn:
        """The turn with another text in the place of this one; images and files stay."""
        if self.place:
            text = text.replace(self.place, INSTRUCTIONS_PLACE)
        messages = list(turn.request.messages)
        was = messages[self.at]
        assert isinstance(was, UserMessage), "it was found as one"
        contents = tuple(interleaved(text, was.contents)) if was.contents else ()
        messages[self.at] = replace(was, text=text, contents=contents)
        return replace(turn, request=replace(turn.request, messages=tuple(messages)))


def asked_in(turn: Turn) -> Asked | None:
    """The last message that is the user's; None where there is none."""
    messages = turn.request.messages
    for at in range(len(messages) - 1, -1, -1):
        said = messages[at]
        if isinstance(said, UserMessage) and not isinstance(said.text, Told):
            if INSTRUCTIONS_PLACE not in said.text:
                return Asked(said.text, at, "")
            place = next(sign for sign in map(chr, _PRIVATE_USE) if sign not in said.text)
            return Asked(said.text.replace(INSTRUCTIONS_PLACE, place), at, place)
    return None
