"""Runs a check beside the first request of a flow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from ..errors import AiServiceError
from ..events import ReplyFailed, ReplyReceived
from ..flow import All, Ask, Emit, Flow, Need
from ..pipeline import Answer
from .check import Check

__all__ = ["beside"]


def beside(inner: Flow[Answer], check: Check) -> Flow[Answer]:
    """A flow with a check beside its first request, verified before the flow goes on."""
    step: Callable[[Any], Need] = inner.send
    outcome: Any = None
    with closing(inner):
        try:
            while True:
                need = step(outcome)
                asks = need.needs if isinstance(need, All) else (need,)
                checked = check.is_open and any(isinstance(one, Ask) for one in asks)
                try:
                    outcome = yield _with(need, check) if checked else need
                    step = inner.send
                    if checked:
                        *outcomes, _ = outcome
                        outcome = outcomes if isinstance(need, All) else outcomes[0]
                except BaseException as error:
                    outcome, step = error, inner.throw
                    checked = checked and isinstance(error, Exception)
                if checked and check.has_come:
                    yield from _verified(check, inner, step, outcome)
        except StopIteration as stop:
            answer: Answer = stop.value
    if check.is_open:  # nothing was asked
        yield from check.run()
    return answer


def _with(need: Need, check: Check) -> All:
    if isinstance(need, All):
        return All((*need.needs, check.need()), need.at_once and need.at_once + 1)
    assert isinstance(need, Ask), "nothing else has a check beside it"
    return All((need, check.need()))


def _verified(check: Check, inner: Flow[Answer], step: Callable[[Any], Need], outcome: Any) -> Flow[None]:
    """Verify a check; where it fails, the flow is told its outcome all the same, to take it into account."""
    try:
        yield from check.verify()
    except AiServiceError:
        try:
            need = step(outcome)
            while isinstance(need, Emit) and isinstance(need.event, (ReplyReceived, ReplyFailed)):
                yield need
                need = inner.send(None)
        except Exception:  # it may end in whatever way: the answer is refused
            pass
        raise
