"""Replies that wait for somebody to approve a tool: what their state keeps, and the turn that goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, TypeAlias

from pydantic_core import to_jsonable_python

from output_parsers.target import type_name

from ..approval import ApprovalRequiredError, TurnState
from ..budget import Budget, CallContext
from ..errors import ToolError
from ..flow import Flow
from ..message_json import message_from_dict, message_to_dict
from ..messages import AiMessage, ToolCall
from ..methods import resumed_turn
from ..pipeline import Answer, Proceed
from ..plan import MethodPlan, Turn
from ..tool_run import ToolRun
from .msg import Round, rounds_of, runs_of

__all__ = ["Approvals", "keeping", "resumed", "trace_of"]

# By the ids of the calls that wait: whether each is approved, or the reason why not.
Approvals: TypeAlias = Mapping[str, bool | str]
_KEPT = "agent"


def keeping(turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
    """Has the state of a reply that waits keep what it is to give, and the rounds so far."""
    try:
        return (yield from proceed(turn))
    except ApprovalRequiredError as error:
        kept = {"form": _form(turn.plan), "trace": [_to_dict(one) for one in trace_of(turn.context)]}
        error.state = error.state._replace(kept={**error.state.kept, _KEPT: kept})
        raise


def resumed(plan: MethodPlan, budget: Budget, state: TurnState, approvals: Approvals) -> Turn:
    """The turn of a reply that waited, at that place.

    Raises ValueError when the state is none of this agent, when the reply was to give another type, and what
    ``resumed_turn`` raises.
    """
    turn = resumed_turn(plan, budget, state, approvals, {})
    kept = state.kept.get(_KEPT)
    if kept is None:
        raise ValueError(f"the state is one of the method {state.where} of a service, not of an agent")
    if kept["form"] != _form(plan):
        raise ValueError(
            f"{plan.where}: the reply that waits is to give {kept['form']}, not {_form(plan)}; pass the "
            "structured_model that it had"
        )
    return turn


def trace_of(context: CallContext) -> tuple[Round, ...]:
    """All rounds of a reply, those before it waited included."""
    before = [_from_dict(one) for one in context.kept.get(_KEPT, {}).get("trace", ())]
    left = deque(context.tool_runs)
    if before:  # what waited has run since
        before[-1] = replace(before[-1], runs=runs_of(before[-1].message, left))
    return (*before, *rounds_of(context.attempts, left))


def _form(plan: MethodPlan) -> str:
    """What a reply is to give, by its name."""
    parser = plan.wire.parser
    return "text alone" if parser is None or parser.schema is None else type_name(plan.returns.form)


def _to_dict(one: Round) -> dict[str, Any]:
    return {
        "message": message_to_dict(one.message),
        "runs": [_run_to_dict(run) for run in one.runs],
        "problem": one.problem,
    }


def _run_to_dict(run: ToolRun) -> dict[str, Any]:
    said = {"call": asdict(run.call), "arguments": run.arguments, "result": run.result, "text": run.text}
    error = None if run.error is None else str(run.error)
    plain: dict[str, Any] = to_jsonable_python(
        {**said, "error": error, "seconds": run.seconds}, fallback=str, bytes_mode="base64"
    )
    return plain


def _from_dict(said: Mapping[str, Any]) -> Round:
    message = message_from_dict(said["message"])
    assert isinstance(message, AiMessage), "a round begins with what the model said"
    return Round(message, tuple(map(_run_from_dict, said["runs"])), said["problem"])


def _run_from_dict(said: Mapping[str, Any]) -> ToolRun:
    call = ToolCall(**said["call"])
    error = None if said["error"] is None else ToolError(said["error"], call=call)
    return ToolRun(call, said["arguments"], said["result"], said["text"], error, said["seconds"])
