"""Goes on with a model as long as it calls tools: ask, run what it called, tell it what came of that."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ..interface.parameters import ToolFault
from ..models.errors import (
    Attempt,
    BudgetExceededError,
    ContentFilterError,
    DefinitionError,
    DefinitionProblem,
    FinishError,
    ModelError,
    RefusalError,
    ServiceOutputError,
    ToolError,
    ToolLimitError,
    TruncatedError,
)
from ..models.messages import AiMessage, ChatReply, FinishReason, Message, ToolCall, ToolMessage
from ..models.requests import ChatRequest
from ..tools.tool import ReturnBehavior, Tool, tools_of
from ..tools.toolbox import Toolbox, ToolLimits, tool_problems
from .approval import ApprovalRequiredError, state_of
from .budget import CallState
from .effects import CallModel, Emit, Flow, Gather, Run, Sleep
from .events import ReplyFailed, ReplyReceived, ToolFinished, ToolStarted
from .model_route import ModelFailover
from .output_format import OutputFormat
from .plan import Invocation, MethodPlan
from .streams import AttemptStarted
from .tool_execution import ToolRun, run_of, shortened


class ModelResponse(NamedTuple):
    """A reply, and the wire that it is to be read by."""

    reply: ChatReply
    wire: OutputFormat[Any]


def ask(invocation: Invocation) -> Flow[ModelResponse]:
    """The reply to a turn. All requests made for it are in the turn's context, and within its budget.

    Raises ModelError when no model can be asked any more, BudgetExceededError when the budget forbids it.
    """
    context = invocation.state
    way = _way(invocation)
    while True:
        exceeded = context.exceeded()
        if exceeded is not None:
            raise exceeded
        wire, model, name = way.wire(), way.route.model, way.name
        context.wire, context.route = wire, way.route
        offered = None if invocation.toolbox is None else invocation.toolbox.offered(way.route.capabilities)
        tooling = None if offered is None else offered.tooling
        request = wire.prepare(way.addressed(invocation.request), invocation.examples, tooling)
        request = _in_time(request, context)
        if invocation.plan.transform is not None:
            request = invocation.plan.transform(request)
        yield Emit(AttemptStarted(len(context.attempts) - context.aside + 1, name, wire))
        began = time.monotonic()
        try:
            reply: ChatReply = yield CallModel(model, request)
        except ModelError as error:
            spent = time.monotonic() - began
            context.attempts.append(Attempt(name, None, error, spent, wire.strategy))
            yield Emit(ReplyFailed(name, error, spent), shown=False)
            wait = way.after(error, context, offers_tools=tooling is not None)
            if wait is None:
                raise _blamed(error, context) from error
            if wait:
                yield Sleep(wait)
        except ServiceOutputError as error:  # whoever reads a stream has seen enough of it
            spent = time.monotonic() - began
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            context.attempts.append(Attempt(name, error.reply, cause, spent, wire.strategy))
            yield Emit(ReplyFailed(name, error, spent), shown=False)
            raise
        else:
            spent = time.monotonic() - began
            context.attempts.append(Attempt(name, reply, None, spent, wire.strategy))
            way.accepted()
            yield Emit(ReplyReceived(name, reply, spent), shown=False)
            return ModelResponse(reply, wire)


def _way(invocation: Invocation) -> ModelFailover:
    """The way through the turn's models; what failed in this call before is known to it."""
    context, routes, other = invocation.state, invocation.plan.routes, invocation.request.options.model
    way = context.ways.get(routes)
    if way is None:
        way = context.ways[routes] = ModelFailover(routes, other)
        if other is not None:  # named by the call, hence not seen when the budget was checked
            problems = context.budget.problems(invocation.plan.where, [way.name])
            if problems:
                raise DefinitionError(problems)
    return way


def _blamed(error: ModelError, context: CallState) -> ModelError | BudgetExceededError:
    """The error itself; where the budget's time ran out, that instead."""
    left = context.seconds_left
    return error if left is None or left > 0 else context.exceeded() or error


def _in_time(request: ChatRequest, context: CallState) -> ChatRequest:
    """The request with a timeout, and a deadline, that end with the call's budget."""
    left = context.seconds_left
    if left is None:
        return request
    timeout = request.options.timeout
    shorter = max(left if timeout is None else min(left, timeout), 0.001)
    options = replace(request.options, timeout=shorter)
    return replace(request, options=options, deadline=time.monotonic() + left)


def check_finish(reply: ChatReply, where: str) -> None:
    """Raises FinishError where the model refused, was cut off, or was stopped by a filter."""
    text = reply.text
    error: FinishError
    if reply.refusal is not None:
        error = RefusalError(f"{where}: the model refused: {reply.refusal}", text=text, reason=reply.refusal)
    elif reply.finish_reason is FinishReason.LENGTH:
        said = f"{where}: the answer was cut off by a length limit; raise max_tokens or ask for less"
        error = TruncatedError(said, text=text, reason="length")
    elif reply.finish_reason is FinishReason.CONTENT_FILTER:
        said = f"{where}: the provider's content filter stopped the answer"
        error = ContentFilterError(said, text=text, reason="content_filter")
    else:
        return
    raise error


class ToolLoopResult(NamedTuple):
    """Where a conversation ended: the last reply, and the run of a tool whose result is the answer."""

    reply: ChatReply
    wire: OutputFormat[Any]
    result: ToolRun | None = None


def converse(invocation: Invocation) -> Flow[ToolLoopResult]:
    """The reply of a model that calls no more tools; each round is kept in the turn's context.

    Raises FinishError, ToolError, ToolLimitError, ApprovalRequiredError, and what ``ask`` raises; a round
    that an error ended leaves nothing behind.
    """
    toolbox = invocation.plan.toolbox
    if toolbox is None:
        asked = yield from ask(invocation)
        check_finish(asked.reply, invocation.plan.where)
        return ToolLoopResult(*asked)
    toolbox = yield from _with_provided(toolbox, invocation)
    tool_messages, waiting, since = (
        invocation.state.tool_messages,
        _unanswered(invocation.state),
        invocation.told,
    )
    while True:
        if waiting is None:
            now = replace(
                invocation, request=invocation.request.plus(*tool_messages[since:]), toolbox=toolbox
            )
            asked = yield from ask(now)
            check_finish(asked.reply, invocation.plan.where)
            if _is_final(asked):
                return ToolLoopResult(_answer_of(asked), asked.wire)
            message = _told_apart(asked.reply.message, tool_messages)
            tool_messages.append(message)
            if invocation.approvals:  # they are for the calls that waited, whatever ids come later
                invocation = replace(invocation, approvals={})
        else:
            message, waiting = waiting, None
        begun = len(tool_messages) - 1
        try:
            runs = yield from _round(message, toolbox, invocation, since)
        except BaseException:
            del tool_messages[begun:]
            raise
        immediate = _immediate(runs, toolbox)
        if immediate is not None:
            return _ended_by(immediate, message, invocation)


def _is_final(asked: ModelResponse) -> bool:
    """Whether the model is done: it calls nothing, or the tool whose arguments are the answer."""
    calls, output = asked.reply.message.tool_calls, _output_of(asked)
    return not calls or any(call.name == output for call in calls)


def _output_of(asked: ModelResponse) -> str | None:
    """The name of the tool whose arguments are the answer, where there is one."""
    return None if asked.wire.tooling is None else asked.wire.tooling.choice


def _answer_of(asked: ModelResponse) -> ChatReply:
    """The reply without calls of other tools beside the answer: they are not run; the attempt has them."""
    message, output = asked.reply.message, _output_of(asked)
    calls = tuple(call for call in message.tool_calls if call.name == output)
    if calls == message.tool_calls:
        return asked.reply
    return replace(asked.reply, message=replace(message, tool_calls=calls))


def _ended_by(run: ToolRun, message: AiMessage, invocation: Invocation) -> ToolLoopResult:
    """The end of a conversation by a tool whose result is the answer."""
    context = invocation.state
    last = context.attempts[-1].reply if context.attempts else None
    reply = last or ChatReply(message, FinishReason.TOOL_CALLS)  # a call that waited has asked nobody since
    return ToolLoopResult(reply, context.wire or invocation.plan.wire, run)


def _unanswered(context: CallState) -> AiMessage | None:
    """The tool calls that a call waited with, when it goes on now."""
    last = context.tool_messages[-1] if context.tool_messages else None
    return last if isinstance(last, AiMessage) and last.tool_calls else None


def _told_apart(message: AiMessage, tool_messages: Sequence[Message]) -> AiMessage:
    """The message with an id of its own for each call; some servers give none, or the same again."""
    known = {said.call_id for said in tool_messages if isinstance(said, ToolMessage)}
    calls = []
    for call in message.tool_calls:
        id, number = call.id, len(known)
        while not id or id in known:
            number += 1
            id = f"call_{number}"
        known.add(id)
        calls.append(call if id == call.id else replace(call, id=id))
    told = tuple(calls)
    return message if told == message.tool_calls else replace(message, tool_calls=told)


def _round(message: AiMessage, toolbox: Toolbox, invocation: Invocation, since: int) -> Flow[list[ToolRun]]:
    """Run what a message calls, side by side, and keep what came of it."""
    context, calls = invocation.state, message.tool_calls
    context.rounds += 1
    context.calls += len(calls)
    _check_limits(calls, toolbox.limits, invocation)
    _check_approvals(calls, toolbox, invocation, since)
    for call in calls:
        yield Emit(ToolStarted(call))
    needs = tuple(_need(call, toolbox, invocation) for call in calls)
    ended: list[ToolRun] = yield Gather(needs, toolbox.limits.parallel)
    runs = [shortened(run, toolbox.limits.characters) for run in ended]
    context.tool_runs.extend(runs)
    context.tool_messages.extend(run.message for run in runs)
    for run in runs:
        yield Emit(ToolFinished(run))
    return runs


def _check_limits(calls: Sequence[ToolCall], limits: ToolLimits, invocation: Invocation) -> None:
    context = invocation.state
    if context.rounds > limits.rounds:
        said = f"{limits.rounds} rounds"
    elif context.calls > limits.calls:
        said = f"{limits.calls} calls"
    else:
        return
    raise ToolLimitError(
        f"{invocation.plan.where}: the model called tools beyond the limit of {said}; raise ToolLimits",
        call=calls[0],
    )


def _check_approvals(calls: Sequence[ToolCall], toolbox: Toolbox, invocation: Invocation, since: int) -> None:
    pending = tuple(
        call
        for call in calls
        if call.name in toolbox.tools
        and toolbox.tools[call.name].needs_approval
        and call.id not in invocation.approvals
    )
    if pending:
        raise ApprovalRequiredError(invocation.plan.where, pending, state_of(invocation, pending, since))


def _need(call: ToolCall, toolbox: Toolbox, invocation: Invocation) -> Run:
    verdict = invocation.approvals.get(call.id, True)
    if verdict is not True:
        said = f"The call was not approved: {verdict or 'no reason was given'}."
        refused = ToolRun(call, None, None, said, ToolError(said, call=call), 0.0)
        return Run(lambda: refused)
    route = invocation.state.route or invocation.plan.routes[0]  # a state of old does not say who was asked
    offered = toolbox.offered(route.capabilities)
    readers = {} if offered is None else offered.readers
    tool = toolbox.tools.get(call.name)
    timeout = None if tool is None else _timeout(tool, toolbox.limits, invocation)
    return run_of(call, toolbox.tools, readers, _injected(invocation), invocation.plan.tool_errors, timeout)


def _injected(invocation: Invocation) -> Mapping[str, Any]:
    """What tools may be given that the model does not see, by the names of the method's parameters."""
    return {**invocation.arguments, **invocation.tool_context}


def _timeout(tool: Tool, limits: ToolLimits, invocation: Invocation) -> float | None:
    """Seconds for a tool. One that blocks, and has no timeout, stays in its thread and cannot be stopped."""
    timeout, left = tool.timeout or limits.timeout, invocation.state.seconds_left
    if left is None or (timeout is None and not tool.asynchronous):
        return timeout
    return max(0.001, left if timeout is None else min(timeout, left))


def _with_provided(toolbox: Toolbox, invocation: Invocation) -> Flow[Toolbox]:
    """The toolbox with the tools that its providers have for this call. Raises DefinitionError."""
    if not toolbox.providers:
        return toolbox
    plan, more = invocation.plan, []
    for provider in toolbox.providers:
        blocks = not inspect.iscoroutinefunction(provider.tools)
        more += yield Run(partial(provider.tools, invocation), in_thread=blocks)
    try:
        found = [tool for source in more for tool in tools_of(source)]
        whole = toolbox.with_tools(found)
    except ToolFault as error:
        raise DefinitionError([DefinitionProblem(plan.where, str(error))]) from error
    waits, answers = plan.returns.asynchronous, _names_of_answers(plan)
    problems: list[DefinitionProblem] = []
    for tool in found:
        problems += tool_problems(tool, _injected(invocation), asynchronous=waits, where=plan.where)
        if tool.name in answers:
            said = f"the tool {tool.name} has the name of the tool that gives the answer; give it another"
            problems.append(DefinitionProblem(plan.where, said))
    if problems:
        raise DefinitionError(problems)
    return whole if found else toolbox


def _names_of_answers(plan: MethodPlan) -> set[str]:
    """What the tool that gives the answer may be called, in all ways in which a model may be asked."""
    wires = [route.ladder.wire(rung) for route in plan.routes for rung in route.ladder.rungs]
    return {wire.tooling.choice for wire in wires if wire.tooling is not None}


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
