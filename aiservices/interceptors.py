"""The public names for writing interceptors, which run around service calls like middleware."""

from __future__ import annotations

from .engine.budget import Remaining
from .engine.effects import (
    CallModel,
    Effect,
    Emit,
    Flow,
    Gather,
    GatherFlows,
    ReplyBlocked,
    Run,
    Sleep,
    StreamPolicy,
)
from .engine.flows import map_effects
from .engine.interceptor import Interceptor, Proceed
from .engine.plan import CallState, Invocation, RequestHook
from .engine.results import Answer
from .engine.tool_execution import ToolCheck, ToolInterceptor, ToolInvocation, ToolProceed

__all__ = [
    "Answer",
    "CallModel",
    "CallState",
    "Effect",
    "Emit",
    "Flow",
    "Gather",
    "GatherFlows",
    "Interceptor",
    "Invocation",
    "Proceed",
    "Remaining",
    "ReplyBlocked",
    "RequestHook",
    "Run",
    "Sleep",
    "StreamPolicy",
    "ToolCheck",
    "ToolInterceptor",
    "ToolInvocation",
    "ToolProceed",
    "map_effects",
]
