"""What authors of interceptors need: the invocation, the effects that a flow may yield, and the answer."""

from __future__ import annotations

from ..engine.effects import CallModel, Effect, Emit, Flow, Gather, Run, Sleep
from ..engine.pipeline import Interceptor, Proceed
from ..engine.plan import CallState, Invocation
from ..engine.results import Answer

__all__ = [
    "Answer",
    "CallModel",
    "CallState",
    "Effect",
    "Emit",
    "Flow",
    "Gather",
    "Interceptor",
    "Invocation",
    "Proceed",
    "Run",
    "Sleep",
]
