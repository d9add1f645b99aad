"""Shows guards what the user says before a model is asked."""

from __future__ import annotations

from ..errors import DefinitionError
from ..flow import Flow
from ..pipeline import Answer, Proceed
from ..plan import Turn
from .asked import asked_in
from .guard import GuardFunction, awaited, check_guards, failed, judged, name_of
from .verdicts import AskAgain, Rewritten

__all__ = ["InputGuardrails"]


class InputGuardrails:
    """Shows the text of the user message to guards, one after the other, before anything is asked.

    A guard is a function of the text and the turn, which gives ``passed()``, ``rewritten(text)`` or
    ``refused(message)``; the last is a GuardrailError. The one after it is shown what it passed on. It may be
    async in async calls; one that is not runs in a thread there. An interceptor: those after it, and the
    model, see the rewritten text only. So it goes before ChatMemory, else memory keeps the original. What
    was said before is not shown, nor is a call that goes on after an approval, as it passed then. What is
    retrieved for the message is shown to those that stand after the retrieval.
    """

    stands_as = "input guard"

    def __init__(self, *guards: GuardFunction) -> None:
        faults = check_guards("InputGuardrails", guards)
        if faults:
            raise DefinitionError(faults)
        self._guards = guards
        self.awaits = awaited(guards)

    def __call__(self, turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
        for guard in () if turn.goes_on else self._guards:
            asked = asked_in(turn)
            if asked is None:
                break
            verdict = yield from judged(guard, asked.text, "input", turn)
            if isinstance(verdict, Rewritten) and isinstance(verdict.new, str):
                turn = asked.said_otherwise(verdict.new, turn)
            elif isinstance(verdict, Rewritten):
                kind = type(verdict.new).__name__
                raise failed(name_of(guard), "input", turn, TypeError(f"it rewrote a text as {kind}"))
            elif isinstance(verdict, AskAgain):
                said = "nothing was asked yet that could be asked again; use refused(…) or rewritten(…)"
                raise failed(name_of(guard), "input", turn, TypeError(said))
        return (yield from proceed(turn))
