"""Runs a check beside the first request of a flow."""

from __future__ import annotations

from typing import Any

from ..errors import AiServiceError, ServiceOutputError
from ..events import ReplyFailed, ReplyReceived
from ..flow import All, Ask, Emit, Flow, Need
from ..gates import Withheld
from ..pipeline import Answer
from ..plan import Turn
from ..through import through
from .check import Check
from .results import ModerationRan

__all__ = ["beside"]


class _Refused(GeneratorExit):
    """Has ``through`` close a flow: nothing in it is to catch what is refused, or to go on."""


def beside(flow: Flow[Answer], check: Check, turn: Turn) -> Flow[Answer]:
    """A flow with a check beside its first request. Raises what the check refuses with.

    Then the flow is told what came of the request, for its account, and is closed before it goes on.
    """
    refusal: AiServiceError | None = None

    def fulfil(need: Need) -> Flow[Any]:
        nonlocal refusal
        if refusal is not None:
            yield from _noted(need, refusal)
            return None
        gated = _gated(need, check) if check.is_open else None
        if gated is None:
            return (yield need)
        try:
            outcome = yield gated
        except Withheld as withheld:
            refusal = yield from check.verdict()
            if refusal is None or isinstance(need, All):  # it is for another check to say why
                raise
            if withheld.reply is None:
                raise _left(turn) from refusal
            return withheld.reply
        except Exception:
            refusal = yield from check.verdict()
            raise
        refusal = yield from check.verdict()
        return outcome[:-1] if isinstance(need, All) else outcome

    try:
        answer = yield from through(flow, fulfil)
        if refusal is not None:
            raise _Refused
    except (Exception, _Refused):
        if refusal is None:
            raise
        raise refusal from refusal.__cause__
    if check.is_open:  # nothing was asked
        yield from check.run()
    return answer


def _gated(need: Need, check: Check) -> Need | None:
    """The need with the check beside it; None where it asks no model."""
    if isinstance(need, Ask):
        return need._replace(gates=(*need.gates, check.need()))
    if isinstance(need, All) and any(isinstance(one, Ask) for one in need.needs):
        return All((*need.needs, check.need()), need.at_once and need.at_once + 1)
    return None


def _noted(need: Need, refusal: AiServiceError) -> Flow[None]:
    """Hand on what a flow notes of a request that is refused. Raises _Refused when it has, or goes on."""
    event = need.event if isinstance(need, Emit) else None
    if isinstance(event, ReplyFailed) and event.error.__cause__ is refusal:  # the reply was left
        event = event._replace(error=refusal)
    if isinstance(event, (ReplyReceived, ReplyFailed, ModerationRan)):
        yield Emit(event, shown=False)
    if not isinstance(event, ModerationRan):  # after that of a check within, the reply is still to be noted
        raise _Refused


def _left(turn: Turn) -> ServiceOutputError:
    """What a flow is told of a request whose reply is left before its end."""
    return ServiceOutputError(turn.plan.where, "", (), turn.context.attempts)
