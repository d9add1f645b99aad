"""Reads tool calls, or an answer, from a reply that is being written."""

from __future__ import annotations

import json
import re

from aiservices.messages import ReplyDelta, ToolCall, ToolCallDelta

from .telling import ANSWER, CALL

__all__ = ["CallReading"]

_OPENING = re.compile(re.escape(CALL) + r'\{"name": ("(?:[^"\\]|\\.)*"), "arguments": ')


class CallReading:
    """What has been read of one reply: lines that each call a tool, or else a text.

    The text of a reply without either mark, which another grammar may have made, is the text itself.
    """

    def __init__(self) -> None:
        self._waiting = ""
        self._is_text = False
        self._name: str | None = None
        self._calls: list[tuple[str, list[str]]] = []

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that were begun, each once, with the arguments that were written so far.

        A small model writes one again and again, and what a tool does must not be done so often.
        """
        made = dict.fromkeys((name, "".join(said)) for name, said in self._calls)
        return tuple(ToolCall(f"call_{number}", *call) for number, call in enumerate(made, 1))

    def take(self, written: str) -> ReplyDelta | None:
        """What a piece adds to the text or the calls, None when that cannot be known yet."""
        if self._is_text:
            return ReplyDelta(written)
        self._waiting += written
        pieces: list[ToolCallDelta] = []
        while not self._is_text and (piece := self._next()) is not None:
            pieces.append(piece)
        if self._is_text:
            text, self._waiting = self._waiting, ""
            return ReplyDelta(text) if text else None
        return ReplyDelta(tool_calls=tuple(pieces)) if pieces else None

    def end(self) -> str:
        """The rest of a text that broke off within its mark; nothing else is to come."""
        return "" if self._calls or self._is_text else self._waiting

    def _next(self) -> ToolCallDelta | None:
        """The next piece of a call; None when more has to be written, or the reply is a text."""
        if self._name is not None:
            return self._piece()
        opening = _OPENING.match(self._waiting)
        if opening is not None:
            self._name = name = str(json.loads(opening[1]))
            self._waiting = self._waiting[opening.end() :]
            self._calls.append((name, []))
            return ToolCallDelta(len(self._calls) - 1, name, "")
        if not self._calls and not _begins_with(self._waiting, CALL):
            self._is_text = not _begins_with(self._waiting, ANSWER) or len(self._waiting) >= len(ANSWER)
            if self._is_text:
                self._waiting = self._waiting.removeprefix(ANSWER)
        return None

    def _piece(self) -> ToolCallDelta | None:
        """A piece of the arguments. They are JSON on one line, and the brace at its end is the call's."""
        line, line_feed, after = self._waiting.partition("\n")
        closed = line.endswith("}")
        said = line[:-1] if closed else line
        self._waiting = after if line_feed else line[len(said) :]
        if line_feed:
            self._name = None
        if said:
            name, arguments = self._calls[-1]
            arguments.append(said)
            return ToolCallDelta(len(self._calls) - 1, name, said)
        return self._next() if line_feed else None


def _begins_with(text: str, mark: str) -> bool:
    """Whether a text begins with a mark, as far as it goes."""
    return text.startswith(mark) or mark.startswith(text)
