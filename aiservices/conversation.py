"""Goes on with a model as long as it calls tools: ask, run what it called, tell it what came of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .approval import ApprovalRequiredError, state_of
from .asking import Asked, ask
from .errors import ToolLimitError
from .finish import check_finish
from .flow import All, Do, Emit, Flow
from .messages import AiMessage, ChatReply, ToolCall
from .plan import Turn
from .strategies import Wire
from .tool_run import ToolRun, run_of
from .toolbox import Toolbox
from .tools import ReturnBehavior, ToolProvider, tools_of

__all__ = ["Conversed", "ToolFinished", "ToolStarted", "converse"]


class ToolStarted(NamedTuple):
    """A tool is about to run."""

    call: ToolCall


class ToolFinished(NamedTuple):
    """A tool has run, or could not."""

    run: ToolRun


class Conversed(NamedTuple):
    """Where a conversation ended: the last reply, and the run of a tool whose result is the answer."""

    reply: ChatReply
    wire: Wire[Any]
    result: ToolRun | None = None


def converse(turn: Turn) -> Flow[Conversed]:
    """The reply of a model that calls no more tools; each round is kept in the turn's context.

    Raises FinishError, ToolError, ToolLimitError, ApprovalRequiredError, and what ``ask`` raises.
    """
    toolbox = turn.plan.toolbox
    if toolbox is None:
        asked = yield from ask(turn)
        check_finish(asked.reply, turn.plan.where)
        return Conversed(*asked)
    toolbox = yield from _with_provided(toolbox, turn)
    context = turn.context
    waiting = _unanswered(context.exchanged)
    since = len(context.exchanged) if waiting is None else 0  # what was said before is in the request
    while True:
        if waiting is None:
            now = replace(turn, request=turn.request.plus(*context.exchanged[since:]), toolbox=toolbox)
            asked = yield from ask(now)
            check_finish(asked.reply, turn.plan.where)
            message = asked.reply.message
            if _is_final(asked, message.tool_calls):
                return Conversed(*asked)
            context.exchanged.append(message)
        else:
            message, waiting = waiting, None
        runs = yield from _round(message, toolbox, turn)
        immediate = _immediate(runs, toolbox)
        if immediate is not None:
            last = context.attempts[-1].reply
            assert last is not None, "a round follows a reply"
            assert context.wire is not None, "a round follows a request"
            return Conversed(last, context.wire, immediate)


def _is_final(asked: Asked, calls: Sequence[ToolCall]) -> bool:
    """Whether the model is done: it calls nothing, or the tool whose arguments are the answer."""
    output = asked.wire.tooling.choice if asked.wire.tooling is not None else None
    return not calls or any(call.name == output for call in calls)


def _unanswered(exchanged: Sequence[Any]) -> AiMessage | None:
    """The tool calls that a call waited with, when it goes on now."""
    last = exchanged[-1] if exchanged else None
    return last if isinstance(last, AiMessage) and last.tool_calls else None


def _round(message: AiMessage, toolbox: Toolbox, turn: Turn) -> Flow[list[ToolRun]]:
    """Run what a message calls, side by side, and keep what came of it."""
    context, calls = turn.context, message.tool_calls
    context.rounds += 1
    limits = toolbox.limits
    if context.rounds > limits.rounds or len(context.tool_runs) + len(calls) > limits.calls:
        said = f"{limits.rounds} rounds" if context.rounds > limits.rounds else f"{limits.calls} calls"
        raise ToolLimitError(
            f"{turn.plan.where}: the model called tools beyond the limit of {said}; raise ToolLimits",
            call=calls[0],
        )
    _check_approvals(calls, toolbox, turn)
    for call in calls:
        yield Emit(ToolStarted(call))
    needs = tuple(_need(call, toolbox, turn) for call in calls)
    runs: list[ToolRun] = yield All(needs, limits.parallel)
    for run in runs:
        context.tool_runs.append(run)
        context.exchanged.append(run.message)
        yield Emit(ToolFinished(run))
    return runs


def _check_approvals(calls: Sequence[ToolCall], toolbox: Toolbox, turn: Turn) -> None:
    pending = tuple(
        call
        for call in calls
        if call.name in toolbox.tools
        and toolbox.tools[call.name].needs_approval
        and call.id not in turn.approvals
    )
    if pending:
        raise ApprovalRequiredError(turn.plan.where, pending, state_of(turn, pending))


def _need(call: ToolCall, toolbox: Toolbox, turn: Turn) -> Do:
    verdict = turn.approvals.get(call.id, True)
    if verdict is not True:
        said = verdict if isinstance(verdict, str) else "no reason was given"
        refused = ToolRun(call, None, None, f"The call was not approved: {said}.", None, 0.0)
        return Do(lambda: refused)
    route = turn.context.route or turn.plan.routes[0]  # a call that goes on has asked nobody yet
    offered = toolbox.offered(route.model.capabilities)
    readers = {} if offered is None else offered.readers
    limits = toolbox.limits
    return run_of(call, toolbox.tools, readers, _injected(turn), turn.plan.tool_errors, limits.timeout)


def _injected(turn: Turn) -> Mapping[str, Any]:
    """What tools may be given that the model does not see, by the names of the method's parameters."""
    return {**turn.arguments, **turn.tool_context}


def _with_provided(toolbox: Toolbox, turn: Turn) -> Flow[Toolbox]:
    """The toolbox with the tools that its providers have for this call."""
    more: list[Any] = []
    for provider in toolbox.providers:
        more += yield Do(_asked_of(provider, turn))
    return toolbox.with_tools([found for source in more for found in tools_of(source)]) if more else toolbox


def _asked_of(provider: ToolProvider, turn: Turn) -> Any:
    return lambda: provider.tools(turn)


def _immediate(runs: Sequence[ToolRun], toolbox: Toolbox) -> ToolRun | None:
    """The run whose result is the answer; None where the model is to go on."""
    if any(run.error is not None or run.name not in toolbox.tools for run in runs):
        return None
    kinds = [toolbox.tools[run.name].return_behavior for run in runs]
    if kinds[-1] is ReturnBehavior.IMMEDIATE_IF_LAST:
        return runs[-1]
    if ReturnBehavior.TO_LLM in kinds:
        return None
    return runs[-1]
