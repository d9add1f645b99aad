"""The tool loop of a service call: send a request, run the tools that the model calls, repeat.

Tool providers, such as ``McpTools``, return their tools before the first request, and dynamic providers
again before each later request.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from ..interface.parameters import ToolDefinitionError
from ..models.conversation import with_unique_ids
from ..models.errors import (
    AttemptPurpose,
    BudgetExceededError,
    DefinitionError,
    DefinitionProblem,
    SuspendedCallError,
    ToolError,
    ToolLimitError,
    counted,
)
from ..models.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    ReplyDelta,
    ToolCall,
    ToolMessage,
)
from ..models.requests import ChatRequest
from ..tools.tool import Denied, ExternalResult, ReturnBehavior, Tool, ToolRun, WaitingCallDecision
from ..tools.toolbox import (
    ProvidedTools,
    Toolbox,
    ToolLimits,
    is_dynamic,
    provider_tools,
    tool_choice_problems,
    tool_problems,
)
from .approval import (
    DECIDED_KEY,
    DOUBT_KEY,
    AlreadyResumedError,
    ApprovalRequiredError,
    ExternalResultError,
    InnerDecisions,
    SuspendedCall,
    check_external_call,
    decisions_to_json,
    finished_run,
    suspend,
    suspendable_method,
    suspended_method,
    waiting_calls,
    with_resumption,
)
from .effects import EarlyFlows, Emit, Flow, GatherFlows, Run, RunningFlows
from .output_format import OutputFormat
from .plan import CallState, Invocation
from .request_loop import ModelResponse, request_model
from .streams import ToolFinished, ToolStarted
from .tool_execution import (
    FINAL_ERRORS,
    ToolInvocation,
    check_before_waiting,
    has_failed,
    limit_text,
    needs_approval,
    prepare_call,
    run_tool,
    store_undoable,
    undo_earlier_tools,
    with_result,
)

T = TypeVar("T")

# After these errors, a service call that was suspended cannot be resumed.
_NOT_RESUMED = (SuspendedCallError, AlreadyResumedError, ExternalResultError)


class ToolLoopResult(NamedTuple):
    """The result of the tool loop: the last reply, or tool results to return directly to the caller.

    Attributes:
        reply: The last reply.
        output_format: How it is read.
        immediate_runs: The runs of tools whose results may be the answer; empty if the reply is the answer.
    """

    reply: ChatReply
    output_format: OutputFormat
    immediate_runs: tuple[ToolRun, ...] = ()


def run_tool_loop(invocation: Invocation) -> Flow[ToolLoopResult]:
    """Send requests and run the tools that the model calls, until a reply contains no more tool calls.

    Each round is recorded in the state of the call; the messages of a round that fails are removed again.
    Raises ToolError, ToolLimitError, ApprovalRequiredError, and the errors of ``request_model``.
    """
    if invocation.toolbox is None:
        response = yield from request_model(invocation, invocation.request, None)
        return ToolLoopResult(*response)
    base = toolbox = invocation.toolbox
    messages, messages_sent = invocation.state.tool_messages, invocation.messages_sent
    pending = messages[-1] if invocation.is_resumed else None
    result: ToolLoopResult | None = None
    while result is None:
        if base.providers:
            toolbox = yield from current_toolbox(base, invocation)
        early: EarlyCalls | None = None
        if isinstance(pending, AiMessage):
            complete = len(messages) - 1
            flow = _run_round(pending, toolbox, invocation, messages_sent, early)
            pending = None
        else:
            complete = len(messages)
            # Approvals decide about the pending calls, not about later calls with the same ids.
            if invocation.approvals:
                invocation = replace(invocation, approvals={})
            if toolbox.may_start_early:
                early = EarlyCalls(toolbox, invocation)
            flow = _request_round(toolbox, invocation, messages_sent, early)
        try:
            result = yield from (flow if early is None else early.discard_on_error(flow))
        except BaseException:
            # A later request must not contain tool calls without results.
            del messages[complete:]
            raise
    return result


def _request_round(
    toolbox: Toolbox, invocation: Invocation, messages_sent: int, early: EarlyCalls | None
) -> Flow[ToolLoopResult | None]:
    """Send a request, and run the tools that the reply calls.

    Returns the result of the loop, or None if another request must follow.
    """
    state, messages = invocation.state, invocation.state.tool_messages
    request = invocation.request.plus(*messages[messages_sent:])
    choice = request.options.tool_choice
    if choice is not None:
        request, choice = _with_choice(request, choice, toolbox, invocation)
    start_early = None if early is None or choice == "none" else early.restart
    response = yield from request_model(invocation, request, toolbox, start_early)
    final_reply = response.reply if choice == "none" else _final_reply(response)
    if final_reply is not None:
        if early is not None:
            yield from early.discard()
        return ToolLoopResult(final_reply, response.output_format)
    state.set_purpose(AttemptPurpose.TOOL_ROUND, len(state.attempts) - 1)
    message = with_unique_ids(response.reply.message, _used_ids(messages))
    messages.append(message)
    return (yield from _run_round(message, toolbox, invocation, messages_sent, early))


class EarlyCalls:
    """The tool calls of one reply that run while the rest of the reply is still streaming.

    Attributes:
        running: The calls that have started.
    """

    def __init__(self, toolbox: Toolbox, invocation: Invocation) -> None:
        self._toolbox = toolbox
        self._invocation = invocation
        self._calls: list[ToolCall] = []  # the complete calls, in the order of the reply
        self._started: list[ToolCall] = []
        self.running = RunningFlows()

    def restart(self) -> Flow[EarlyFlows]:
        """Discard the calls that have started, and return the flows that start those of another reply."""
        yield from self.discard()
        self.running.is_early = True
        return EarlyFlows(self._start, self.running)

    def _start(self, delta: ReplyDelta) -> list[Flow[ToolRun]]:
        """Return flows for tool calls that are now complete and may start before the end of the reply."""
        flows = []
        for part in delta.tool_calls:
            if part.call is None or part.index != len(self._calls):
                continue
            message = AiMessage("", (*self._calls, part.call))
            # An id that the calls before it, or earlier rounds, have is replaced, as in the whole reply.
            calls = with_unique_ids(message, _used_ids(self._invocation.state.tool_messages)).tool_calls
            self._calls.append(calls[-1])
            if self._may_start(part.index):
                self._started.append(calls[-1])
                flows.append(self._flow(part.index))
        return flows

    def _may_start(self, index: int) -> bool:
        """Return True if a tool call may start before the reply is complete.

        Its tool must have ``start_early``, and the limits must allow one more call.
        """
        state, limits = self._invocation.state, self._toolbox.limits
        tool = self._toolbox.tools.get(self._calls[index].name)
        return (
            tool is not None
            and tool.start_early
            and state.tool_rounds < limits.max_rounds
            and state.tool_calls + index < limits.max_calls
            and (limits.max_calls_per_reply is None or index < limits.max_calls_per_reply)
            and len(self.running.effects) < limits.max_concurrency
            # With a concurrency of 1, tools run in order.
            and (limits.max_concurrency > 1 or len(self._started) == index)
        )

    def _flow(self, index: int) -> Flow[ToolRun]:
        calls, toolbox, invocation = self._calls[: index + 1], self._toolbox, self._invocation
        prepared = _prepare(index, calls, toolbox, invocation)
        return (yield from _run_tool(prepared, toolbox, invocation))

    def started_in(self, calls: Sequence[ToolCall]) -> Flow[set[str]]:
        """Return the ids of the calls that have started; discard them if the complete reply differs."""
        if not all(call in calls for call in self._started):  # an interceptor may have changed the reply
            yield from self.discard()
        return {call.id for call in self._started}

    def discard_on_error(self, flow: Flow[T]) -> Flow[T]:
        """Run a flow, and discard the calls that have started if it fails or is closed."""
        try:
            return (yield from flow)
        except GeneratorExit:
            self.running.close()
            raise
        except BaseException:
            yield from self.discard()
            raise

    def discard(self) -> Flow[None]:
        """Stop the tool calls that have started, and discard their results because the reply is not used.

        Listeners get a ToolFinished event for each call that had not finished.
        """
        running, started = self.running, self._started
        running.close()
        self._calls, self._started, self.running = [], [], RunningFlows()
        for call, outcome in zip(started, running.outcomes, strict=False):
            if outcome is RunningFlows.UNFINISHED:
                message = f"the result of {call.name} is no longer needed"
                run = ToolRun(call, None, None, message, ToolError(message, call=call), 0.0)
                yield Emit(ToolFinished(run))


def _with_choice(
    request: ChatRequest, choice: str, toolbox: Toolbox, invocation: Invocation
) -> tuple[ChatRequest, str | None]:
    """Keep the tool choice for the first round of tool calls, and remove it for later rounds."""
    if invocation.state.tool_rounds:
        return replace(request, options=replace(request.options, tool_choice=None)), None
    problems = tool_choice_problems(request.options, toolbox, invocation.plan.qualname)
    if problems:
        raise DefinitionError(problems)
    return request, choice


def _final_reply(response: ModelResponse) -> ChatReply | None:
    """Return the model's reply if it contains the answer, or None if it only calls tools.

    Other tool calls next to the answer are removed from the reply. They are not run, but the attempt still
    contains them.
    """
    reply, tooling = response.reply, response.output_format.tooling
    calls = reply.message.tool_calls
    if not calls:
        return reply
    if tooling is None:
        return None
    answer_calls = tuple([call for call in calls if call.name == tooling.choice])
    if not answer_calls:
        return None
    if len(answer_calls) == len(calls):
        return reply
    return replace(reply, message=replace(reply.message, tool_calls=answer_calls))


def _used_ids(messages: Sequence[Message]) -> set[str]:
    return {message.call_id for message in messages if isinstance(message, ToolMessage)}


def _run_round(
    message: AiMessage,
    toolbox: Toolbox,
    invocation: Invocation,
    messages_sent: int,
    early: EarlyCalls | None,
) -> Flow[ToolLoopResult | None]:
    """Run all tool calls of one model reply concurrently, and record their results.

    Calls that ``early`` has already started are only awaited. Returns the result of the loop if a tool gives
    the answer, or None if the model gets the results.
    """
    state, calls, limits = invocation.state, message.tool_calls, toolbox.limits
    state.tool_rounds += 1
    state.tool_calls += len(calls)
    _check_limits(calls, limits, invocation)
    finished = _finished_runs(calls, toolbox, invocation) if invocation.approvals else {}
    started, running = set[str](), None
    if early is not None:
        started = yield from early.started_in(calls)
        running = early.running if started else None
    prepared = list[ToolInvocation | ToolRun]()
    for index, call in enumerate(calls):
        if call.id not in finished and call.id not in started:
            prepared.append(_prepare(index, calls, toolbox, invocation))
    if toolbox.may_wait or state.recording is not None:
        yield from _check_waiting(prepared, invocation, messages_sent)
    flows = tuple([_run_tool(one, toolbox, invocation) for one in prepared])
    runs: list[ToolRun] = yield GatherFlows(flows, limits.max_concurrency, running)
    if finished or started:
        runs = _in_order(calls, [*finished.values(), *runs])
    state.tool_runs += runs
    state.round_runs = ()
    if invocation.plan.tool_errors.compensate and any(map(has_failed, runs)):
        runs = yield from undo_earlier_tools(runs, invocation)
    state.tool_messages += _messages_of(runs, invocation, messages_sent)
    immediate_runs = _immediate_runs(runs, toolbox)
    return _immediate_result(immediate_runs, message, invocation) if immediate_runs else None


def _in_order(calls: Sequence[ToolCall], runs: Iterable[ToolRun]) -> list[ToolRun]:
    by_id = {run.call.id: run for run in runs}
    return [by_id[call.id] for call in calls]


def _immediate_result(
    runs: tuple[ToolRun, ...], message: AiMessage, invocation: Invocation
) -> ToolLoopResult:
    """Return the result of the loop for tools whose results are the answer."""
    state = invocation.state
    last_reply = state.attempts[-1].reply if state.attempts else None
    # A resumed call has no attempts, and so no reply.
    reply = last_reply or ChatReply(message, FinishReason.TOOL_CALLS)
    return ToolLoopResult(reply, state.output_format or invocation.plan.output_format, runs)


def _finished_runs(calls: Sequence[ToolCall], toolbox: Toolbox, invocation: Invocation) -> dict[str, ToolRun]:
    """Return a dict from ids to the tool calls of a resumed reply that ran before the suspension."""
    finished = {}
    for call in calls:
        message = invocation.approvals.get(call.id)
        if isinstance(message, ToolMessage):
            finished[call.id] = finished_run(call, message, toolbox.tools.get(call.name))
    return finished


def _run_tool(prepared: ToolInvocation | ToolRun, toolbox: Toolbox, invocation: Invocation) -> Flow[ToolRun]:
    """Run one tool call, and report to listeners when it starts and ends.

    Raises the error of a service that the tool called if the outer call cannot go on after it. If the service
    waits for an approval, the error of the run is an ApprovalRequiredError.
    """
    call, state = prepared.call, invocation.state
    if state.inner is None:
        state.inner = []
    if state.undoable is None:
        state.undoable = []
    yield Emit(ToolStarted(call))
    run: ToolRun
    if isinstance(prepared, ToolRun):  # the call cannot run
        run = yield Run(lambda: prepared, tool_call=call)
    else:
        try:
            run = yield from run_tool(prepared, toolbox.limits)
        except ApprovalRequiredError as error:
            _check_can_wait(error, toolbox.tools[call.name], invocation)
            return ToolRun(call, None, None, "", error, 0.0)
    run = limit_text(run, toolbox.limits.max_characters)
    yield Emit(ToolFinished(run))
    state.round_runs += (run,)
    if run.error is not None:
        is_resumed = isinstance(invocation.approvals.get(call.id), InnerDecisions)
        _raise_if_final(run.error, state, is_resumed=is_resumed)
    return run


def _check_can_wait(error: ApprovalRequiredError, tool: Tool, invocation: Invocation) -> None:
    """Raise DefinitionError if an inner call waits for approval but its tool cannot be resumed.

    Only a tool that is itself the service method can be resumed with the decision. Any other function would
    start again from its beginning.
    """
    method = suspendable_method(tool)
    if method is not None and method.call_plan is None:  # of a remote client
        return
    if method is None or method.call_plan is None or method.call_plan.qualname != error.state.qualname:
        names = ", ".join(call.name for call in (*error.calls, *error.external_calls))
        message = (
            f"the tool {tool.name} called {error.state.qualname}, which waits for {names}, and a function "
            "cannot be suspended; pass the method of the service itself in tools=, or catch the "
            "ApprovalRequiredError in the function"
        )
        problem = DefinitionProblem(invocation.plan.qualname, message)
        raise DefinitionError([problem]) from error


def _raise_if_final(error: Exception, state: CallState, *, is_resumed: bool) -> None:
    """Raise a tool's error if the error must end the service call instead of being sent to the model.

    A call ends if a key or a definition is wrong, if the budget of the outer call is used up, or if a
    suspended inner call cannot be resumed.
    """
    if isinstance(error, FINAL_ERRORS) or (is_resumed and isinstance(error, _NOT_RESUMED)):
        raise error
    if isinstance(error, BudgetExceededError):
        exceeded = state.exceeded(is_side_question=True)
        if exceeded is not None:
            raise exceeded from error


def _messages_of(runs: Sequence[ToolRun], invocation: Invocation, messages_sent: int) -> list[ToolMessage]:
    """Return the messages that send the results of tool calls to the model.

    If an inner call waits for an approval, the service call is suspended with the results of the other tools.
    """
    inner, finished = dict[str, SuspendedCall](), list[ToolMessage]()
    for run in runs:
        if isinstance(run.error, ApprovalRequiredError):
            inner[run.call.id] = run.error.state
        else:
            finished.append(run.message)
    if inner:
        del invocation.state.tool_runs[-len(runs) :]  # the round is not over
        store_undoable(invocation.state)
        state = suspend(invocation, messages_sent, inner=inner, finished=finished)
        waiting = waiting_calls(state)
        qualname = invocation.plan.qualname
        raise ApprovalRequiredError(qualname, waiting.approvals, state, waiting.results, waiting.in_doubt)
    return finished


def _check_limits(calls: Sequence[ToolCall], limits: ToolLimits, invocation: Invocation) -> None:
    state = invocation.state
    if state.tool_rounds > limits.max_rounds:
        limit = counted(limits.max_rounds, "round")
    elif state.tool_calls > limits.max_calls:
        limit = counted(limits.max_calls, "call")
    elif limits.max_calls_per_reply is not None and len(calls) > limits.max_calls_per_reply:
        limit = counted(limits.max_calls_per_reply, "call") + " in one reply"
    else:
        return
    message = (
        f"{invocation.plan.qualname}: the model called tools beyond the limit of {limit}; raise ToolLimits"
    )
    raise ToolLimitError(message, call=calls[0])


def _beyond_limit(tool: Tool | None, calls: Sequence[ToolCall], state: CallState) -> ToolRun | None:
    """Return a failed ToolRun if the tool of the last call was called too often, else None."""
    if tool is None or tool.max_calls is None:
        return None
    *earlier, call = calls
    count = sum(isinstance(one, ToolMessage) and one.name == call.name for one in state.tool_messages)
    count += sum(one.name == call.name for one in earlier)
    if count < tool.max_calls:
        return None
    text = f"The limit of {counted(tool.max_calls, 'call')} of {tool.name} is reached. Continue without it."
    return ToolRun(call, None, None, text, ToolLimitError(text, call=call), 0.0)


def _repeated_call(calls: Sequence[ToolCall], limit: int | None, invocation: Invocation) -> ToolRun | None:
    """Return a failed ToolRun if the last call was made ``limit`` times before with the same arguments.

    A call for which the program waited was checked before. Raises ToolLimitError if the model has already
    received this message.
    """
    *earlier, call = calls
    if limit is None or invocation.approvals.get(call.id) is not None:
        return None
    rounds = (one.tool_calls for one in invocation.state.tool_messages[:-1] if isinstance(one, AiMessage))
    all_calls = [other for calls in rounds for other in calls] + earlier
    key = _call_key(call)
    count = sum(other.name == call.name and _call_key(other) == key for other in all_calls)
    if count < limit:
        return None
    times = counted(limit, "time")
    if count > limit:
        message = f"{invocation.plan.qualname}: the model called {call.name} again with the same arguments"
        raise ToolLimitError(f"{message} after {times}; raise ToolLimits(repeated=…)", call=call)
    text = f"You called {call.name} with these arguments {times} before. Use the results, or try another way."
    return ToolRun(call, None, None, text, ToolLimitError(text, call=call), 0.0)


def _call_key(call: ToolCall) -> str:
    """Return the arguments of a tool call in a form that is the same for equal arguments."""
    try:
        return json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
    except ValueError:
        return call.arguments


def _check_waiting(
    prepared: list[ToolInvocation | ToolRun], invocation: Invocation, messages_sent: int
) -> Flow[None]:
    """Suspend the service call if a tool call needs an approval, or a result from outside the program.

    The arguments are checked first: a person sees the arguments with which the tool will run, and is not
    shown a call that cannot run. The messages and ``prepared`` then contain the checked arguments.
    """
    pending, external = list[ToolCall](), list[ToolCall]()
    in_doubt = _calls_in_doubt(prepared, invocation)
    for index, one in enumerate(prepared):
        if isinstance(one, ToolRun) or one.call in in_doubt or not _may_wait(one, invocation):
            continue
        checked = yield from check_before_waiting(one)
        if isinstance(checked, ToolInvocation):
            if not one.tool.external and not (yield from needs_approval(checked)):
                continue
            checked = _with_checked_arguments(one, checked, invocation.state)
            (external if one.tool.external else pending).append(checked.call)
        prepared[index] = checked
    # No tool of the round has run, so that none runs twice when the call is resumed.
    if pending or external or in_doubt:
        store_undoable(invocation.state)
        if in_doubt:
            _store_doubts([call.id for call in in_doubt], invocation)
        state = suspend(invocation, messages_sent, [*pending, *in_doubt], external)
        qualname, calls = invocation.plan.qualname, (*pending, *in_doubt)
        raise ApprovalRequiredError(qualname, calls, state, tuple(external), in_doubt)


def _may_wait(one: ToolInvocation, invocation: Invocation) -> bool:
    """Return True if a tool call waits for a decision or a result, unless a check finds otherwise."""
    recording = invocation.state.recording
    if one.call.id in invocation.approvals or not (one.tool.needs_approval or one.tool.external):
        return False
    return recording is None or not recording.is_done(one.call)


def _store_doubts(call_ids: list[str], invocation: Invocation) -> None:
    decided = {key: one for key, one in invocation.approvals.items() if key not in call_ids}
    data = invocation.state.interceptor_data
    data[DOUBT_KEY] = call_ids
    data[DECIDED_KEY] = decisions_to_json(decided, own_only=True)


def _calls_in_doubt(
    prepared: Sequence[ToolInvocation | ToolRun], invocation: Invocation
) -> tuple[ToolCall, ...]:
    """Return the tool calls of a durable call that began in a process that was killed."""
    recording = invocation.state.recording
    for key in (DOUBT_KEY, DECIDED_KEY):
        invocation.state.interceptor_data.pop(key, None)
    if recording is None:
        return ()
    approvals = invocation.approvals
    calls = [one.call for one in prepared if isinstance(one, ToolInvocation) and not one.tool.idempotent]
    return tuple([one for one in calls if recording.is_in_doubt(one, is_decided=one.id in approvals)])


def _with_checked_arguments(one: ToolInvocation, checked: ToolInvocation, state: CallState) -> ToolInvocation:
    """Write a tool call's arguments to the model's message if a check has changed the arguments."""
    if checked.arguments is one.arguments:
        return one
    arguments = checked.written_arguments()
    call = replace(one.call, arguments=arguments)
    message = state.tool_messages[-1]
    assert isinstance(message, AiMessage), "the calls are those of the last message"
    calls = tuple([call if other.id == call.id else other for other in message.tool_calls])
    state.tool_messages[-1] = replace(message, tool_calls=calls)
    return replace(checked, call=call)


def _prepare(
    index: int, calls: Sequence[ToolCall], toolbox: Toolbox, invocation: Invocation
) -> ToolInvocation | ToolRun:
    """Parse the arguments of a reply's tool call, or return a failed ToolRun for a call that cannot run.

    Raises SuspendedCallError if an approval decision does not fit the service's current tools.
    """
    call, tools = calls[index], toolbox.tools
    decision, tool = invocation.approvals.get(call.id), tools.get(call.name)
    calls_so_far = calls[: index + 1]
    refused = _beyond_limit(tool, calls_so_far, invocation.state)
    refused = refused or _repeated_call(calls_so_far, toolbox.limits.repeated, invocation)
    if refused is not None:
        return refused
    if isinstance(decision, ExternalResult) or (tool is not None and tool.external and decision is True):
        check_external_call(call, toolbox, decision, invocation.plan.qualname)
    if decision is not None and decision is not True:
        decided = _decided_tool(call, toolbox, decision, invocation.plan.qualname)
        if isinstance(decided, ToolRun):
            return decided
        tools = {**tools, call.name: decided}
    route = invocation.state.route or invocation.routes[0]  # an old suspended state does not name the model
    offered = toolbox.offered_to(route.capabilities)
    parsers = {} if offered is None else offered.parsers
    output_format = invocation.state.output_format
    answer_tooling = None if output_format is None else output_format.tooling
    answer_tool = None if answer_tooling is None else answer_tooling.choice
    return prepare_call(call, tools, parsers, invocation, answer_tool)


def _decided_tool(
    call: ToolCall, toolbox: Toolbox, decision: WaitingCallDecision, qualname: str
) -> Tool | ToolRun:
    """Return the tool that runs a call with a decision, or a failed ToolRun if it was not approved."""
    if isinstance(decision, ExternalResult):
        return with_result(toolbox.tools[call.name], decision)
    if isinstance(decision, InnerDecisions):
        method = suspended_method(call, toolbox, decision, qualname)
        return with_resumption(toolbox.tools[call.name], method, decision)
    reason = decision.reason if isinstance(decision, Denied) else ""
    text = f"The call was not approved: {reason or 'no reason was given'}."
    return ToolRun(call, None, None, text, ToolError(text, call=call), 0.0)


def _immediate_runs(runs: Sequence[ToolRun], toolbox: Toolbox) -> tuple[ToolRun, ...]:
    """Return the tool calls whose results the service method returns without asking the model again."""
    behaviors = []
    for run in runs:
        tool = toolbox.tools.get(run.call.name)
        if run.error is not None or tool is None:
            return ()
        behaviors.append(tool.return_behavior)
    immediate: list[ToolRun] = []
    if ReturnBehavior.TO_LLM not in behaviors:
        pairs = zip(runs, behaviors, strict=True)
        immediate += [run for run, behavior in pairs if behavior is ReturnBehavior.IMMEDIATE]
    if behaviors[-1] is ReturnBehavior.IMMEDIATE_IF_LAST:
        immediate.append(runs[-1])
    return tuple(immediate)


# --- Tools of tool providers ---


def current_toolbox(base: Toolbox, invocation: Invocation) -> Flow[Toolbox]:
    """Return the toolbox for the next model request, including tools from the tool providers in ``base``.

    Each provider is called before the first request. Providers with ``dynamic = True`` are called again
    before each later one: their new tools are added, and a tool with a known name stays unchanged. Raises
    DefinitionError for invalid tools.
    """
    state = invocation.state
    earlier = state.provided_tools
    if earlier is None or earlier.base is not base:
        without_providers = Toolbox(base.tools, (), base.limits)
        earlier = ProvidedTools(base, (frozenset(),) * len(base.providers), without_providers)
        is_first = True
    else:
        is_first = False
    names, added = list(earlier.names), list[Tool]()
    for index, provider in enumerate(base.providers):
        if is_first or is_dynamic(provider):
            in_thread = not inspect.iscoroutinefunction(provider.tools)
            try:
                provided = yield Run(partial(provider.tools, invocation), in_thread=in_thread)
                tools = provider_tools(provider, provided)
            except ToolDefinitionError as error:
                raise DefinitionError([DefinitionProblem(invocation.plan.qualname, str(error))]) from error
            new = [tool for tool in tools if tool.name not in names[index]]
            names[index] |= {tool.name for tool in new}
            added += new
    if added or is_first:
        toolbox = _extended(earlier.toolbox, added, invocation) if added else earlier.toolbox
        state.provided_tools = earlier = ProvidedTools(base, tuple(names), toolbox)
    return earlier.toolbox


def _extended(toolbox: Toolbox, tools: list[Tool], invocation: Invocation) -> Toolbox:
    try:
        extended = toolbox.with_tools(tools)
    except ToolDefinitionError as error:
        raise DefinitionError([DefinitionProblem(invocation.plan.qualname, str(error))]) from error
    problems = list(_problems(tools, invocation))
    if problems:
        raise DefinitionError(problems)
    return extended


def _problems(tools: Iterable[Tool], invocation: Invocation) -> Iterator[DefinitionProblem]:
    plan = invocation.plan
    parameters = {**invocation.arguments, **invocation.tool_context}
    for tool in tools:
        yield from tool_problems(
            tool, parameters, plan.role_names, is_async=plan.is_async, qualname=plan.qualname
        )
        if any(tool.name in route.strategies.output_tool_names() for route in plan.routes):
            message = f"the tool {tool.name} has the name of the tool that gives the answer; rename it"
            yield DefinitionProblem(plan.qualname, message)
