"""Shows guards what the user says before a model is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..engine.effects import Flow
from ..engine.output_format import INSTRUCTIONS_PLACE
from ..engine.pipeline import Answer, Proceed
from ..engine.plan import Invocation
from ..models.errors import DefinitionError
from ..models.media import interleaved
from ..models.messages import UserMessage
from .guard import GuardFunction, Reprompt, Rewritten, awaited, check_guards, failed, judged, name_of

_PRIVATE_USE = range(0xE000, 0xF8FF)  # characters without a meaning


class Told(str):
    """The text of a message that a guard wrote, not the user."""

    __slots__ = ()


class UserTextCheck(NamedTuple):
    """The user's message in a turn: its text as guards are shown it, and where it stands.

    A single character stands in the text for the place of the format instructions, where it has one.
    """

    text: str
    at: int
    place: str

    def said_otherwise(self, text: str, invocation: Invocation) -> Invocation:
        """The turn with another text in the place of this one; images and files stay."""
        if self.place:
            text = text.replace(self.place, INSTRUCTIONS_PLACE)
        messages = list(invocation.request.messages)
        was = messages[self.at]
        assert isinstance(was, UserMessage), "it was found as one"
        contents = tuple(interleaved(text, was.contents)) if was.contents else ()
        messages[self.at] = replace(was, text=text, contents=contents)
        return replace(invocation, request=replace(invocation.request, messages=tuple(messages)))


def asked_in(invocation: Invocation) -> UserTextCheck | None:
    """The last message that is the user's; None where there is none."""
    messages = invocation.request.messages
    for at in range(len(messages) - 1, -1, -1):
        said = messages[at]
        if isinstance(said, UserMessage) and not isinstance(said.text, Told):
            if INSTRUCTIONS_PLACE not in said.text:
                return UserTextCheck(said.text, at, "")
            place = next(sign for sign in map(chr, _PRIVATE_USE) if sign not in said.text)
            return UserTextCheck(said.text.replace(INSTRUCTIONS_PLACE, place), at, place)
    return None


class InputGuardrails:
    """Shows the text of the user message to guards, one after the other, before anything is asked.

    A guard is a function of the text and the turn, which gives ``passed()``, ``rewritten(text)`` or
    ``refused(message)``; the last is a GuardrailError. The one after it is shown what it passed on. It may be
    async in async calls; one that is not runs in a thread there. An interceptor: those after it, and the
    model, see the rewritten text only. So it goes before ChatMemory, else memory keeps the original. What
    was said before is not shown, nor is a call that goes on after an approval, as it passed then. What is
    retrieved for the message is shown to those that stand after the retrieval.
    """

    position_name = "input guard"

    def __init__(self, *guards: GuardFunction) -> None:
        problems = check_guards("InputGuardrails", guards)
        if problems:
            raise DefinitionError(problems)
        self._guards = guards
        self.awaits = awaited(guards)

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        for guard in () if invocation.is_resumed else self._guards:
            asked = asked_in(invocation)
            if asked is None:
                break
            verdict = yield from judged(guard, asked.text, "input", invocation)
            if isinstance(verdict, Rewritten) and isinstance(verdict.new, str):
                invocation = asked.said_otherwise(verdict.new, invocation)
            elif isinstance(verdict, Rewritten):
                kind = type(verdict.new).__name__
                raise failed(name_of(guard), "input", invocation, TypeError(f"it rewrote a text as {kind}"))
            elif isinstance(verdict, Reprompt):
                said = "nothing was asked yet that could be asked again; use refused(…) or rewritten(…)"
                raise failed(name_of(guard), "input", invocation, TypeError(said))
        return (yield from proceed(invocation))
