"""What happens in a call beside its requests, as events of its span."""

from __future__ import annotations

from ..events import AnswerRejected
from ..flow import Emit, Pause
from ..guardrails import GuardrailRan
from ..moderation import ModerationRan
from ..retrieval import Retrieved
from . import otel_names as names
from .otel_signals import Attributes

__all__ = ["noted"]


def noted(need: Emit | Pause, *, content: bool) -> tuple[str, Attributes] | None:
    """The name and the attributes of an event; None where a need is none."""
    match need:
        case Pause(seconds):
            return names.WAITED, {"seconds": seconds}
        case Emit(AnswerRejected(error)):
            told = {"problems": tuple(map(str, error.problems))} if content else {}
            return names.ANSWER_REJECTED, {"count": len(error.problems), **told}
        case Emit(GuardrailRan(name, where, verdict)):
            return names.GUARDRAIL, {"name": name, "where": where, "verdict": type(verdict).__name__}
        case Emit(ModerationRan(where, results)):
            return names.MODERATION, {"where": where, "flagged": sum(one.flagged for one in results)}
        case Emit(Retrieved(contents)):
            return names.RETRIEVED, {"count": len(contents)}
    return None
