"""Resume a suspended service call: check what was decided, also about the calls of services used as tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from output_parsers.parser.registry import parser_for
from output_parsers.result.errors import OutputParsingError, UnsupportedTypeError, shorten

from ..models.errors import SuspendedCallError, ToolError
from ..models.media import Media
from ..models.messages import AiMessage, ToolCall, ToolMessage
from ..models.requests import ChatRequest
from ..tools.tool import (
    REMOTE_RESUME,
    SERVICE_METHOD,
    Denied,
    ExternalResult,
    Tool,
    ToolRun,
    WaitingCallDecision,
)
from ..tools.toolbox import Toolbox
from .approval import Approvals, SuspendedCall, check_expiry
from .budget import Budget
from .model_route import ModelRoute
from .plan import CallPlan, CallState, Invocation


def resumed_invocation(
    plan: CallPlan,
    suspended: SuspendedCall,
    approvals: Approvals,
    budget: Budget,
    results: Mapping[str, object] = MappingProxyType({}),
    toolbox: Toolbox | None = None,
) -> Invocation:
    """Prepare a suspended service call to continue after its tool calls were approved or denied.

    ``results`` are those of external tools, by the id of the call, and ``toolbox`` the tools of the call, if
    they are not those of the plan.

    Raises TypeError if an argument has another type, SuspendedCallError if the state cannot be resumed, and
    ValueError if the decisions are not those of the pending calls, or if a result has a wrong type.
    """
    decisions = decisions_for(suspended, approvals, results, plan.qualname)
    if suspended.signed_text:
        raise SuspendedCallError(
            f"{plan.qualname}: the signature of the state was not checked; pass the key to from_json"
        )
    toolbox = toolbox or plan.toolbox
    by_call = _decisions_by_call(suspended, decisions)
    _check_decisions(by_call, suspended, plan, toolbox)
    messages = [*suspended.earlier_messages, *suspended.tool_messages]
    state = CallState(
        budget,
        route=_route_of(suspended, plan),
        tool_messages=messages,
        tool_rounds=suspended.rounds,
        tool_calls=sum(isinstance(message, ToolMessage) for message in messages),
        resumed_messages=len(suspended.earlier_messages),
        # One request for each completed round, and the one that called the pending tools.
        earlier_requests=suspended.rounds + 1,
        interceptor_data=dict(suspended.interceptor_data),
        suspended_id=suspended.id,
    )
    request = ChatRequest(
        suspended.messages, suspended.options.with_defaults(plan.options), qualname=plan.qualname
    )
    return replace(
        plan.invocation(request, state),
        toolbox=toolbox,
        memory_id=suspended.memory_id,
        user_name=suspended.user_name,
        approvals=by_call,
    )


def _check_decisions(
    decisions: Mapping[str, WaitingCallDecision],
    suspended: SuspendedCall,
    plan: CallPlan,
    toolbox: Toolbox | None,
) -> None:
    """Raise an error if a decision does not fit the tools that a service has now.

    The services that are used as tools are checked, too, before anything runs.
    """
    _route_of(suspended, plan)
    for call in _last_calls(suspended):
        decision = decisions.get(call.id)
        if toolbox is not None and toolbox.is_open and call.name not in toolbox.tools:
            continue  # the tools of providers are checked when they are known
        if isinstance(decision, ExternalResult):
            check_external_call(call, toolbox, decision, plan.qualname)
        elif isinstance(decision, InnerDecisions):
            method = suspended_method(call, toolbox, decision, plan.qualname)
            inner_plan = method.call_plan
            if inner_plan is not None:  # that of a remote service is checked where the service runs
                by_call = _decisions_by_call(decision.state, decision.decisions)
                _check_decisions(by_call, decision.state, inner_plan, inner_plan.toolbox)


# --- Services that are used as tools ------------------------------------------------------------------------


class InnerDecisions(NamedTuple):
    """What was decided about the calls that wait inside a call of a service which is used as a tool.

    Attributes:
        state: The suspended call of the service.
        decisions: The decisions, by the ids of the calls in it.
    """

    state: SuspendedCall
    decisions: Mapping[str, bool | Denied | ExternalResult]


class SuspendableMethod(Protocol):
    """A service method whose call, made by a tool call, can be suspended and resumed."""

    @property
    def call_plan(self) -> CallPlan | None:
        """The plan of the method; None for a method of a remote client."""
        ...

    def resume(
        self,
        state: SuspendedCall,
        approvals: Approvals,
        tool_context: Mapping[str, object],
        results: Mapping[str, object],
    ) -> Any:
        """Continue a call of the method, and return what the method returns."""
        ...


class _RemoteMethod(NamedTuple):
    """A method of a remote client that is used as a tool."""

    function: Any
    call_plan: CallPlan | None = None

    def resume(
        self,
        state: SuspendedCall,
        approvals: Approvals,
        tool_context: Mapping[str, object],
        results: Mapping[str, object],
    ) -> Any:
        return self.function(state, approvals, results)


def suspendable_method(tool: Tool) -> SuspendableMethod | None:
    """Return the service method that a tool is, or None for a tool that is another function."""
    function: Any = tool.function
    while isinstance(function, partial):
        function = function.func
    for name in (SERVICE_METHOD, REMOTE_RESUME):
        # functools.wraps copies the attribute to functions that do more than the method
        if hasattr(function, name) and not hasattr(getattr(function, "__wrapped__", None), name):
            method: SuspendableMethod = getattr(function, name)
            return _RemoteMethod(method) if name == REMOTE_RESUME else method
    return None


def suspended_method(
    call: ToolCall, toolbox: Toolbox | None, decision: InnerDecisions, qualname: str
) -> SuspendableMethod:
    """Return the service method whose suspended call a tool call made.

    Raises SuspendedCallError if the tools of the service have changed since then.
    """
    tool = None if toolbox is None else toolbox.tools.get(call.name)
    method = None if tool is None else suspendable_method(tool)
    plan = None if method is None else method.call_plan
    if method is None or (plan is not None and plan.qualname != decision.state.qualname):
        problem = "has no such tool" if tool is None else "has another tool of this name"
        raise SuspendedCallError(
            f"{qualname}: the call {call.id} of the tool {call.name} waits in {decision.state.qualname}, and "
            f"the service {problem}"
        )
    return method


def with_resumption(tool: Tool, method: SuspendableMethod, decision: InnerDecisions) -> Tool:
    """Return a copy of a tool that resumes a suspended call of its service method instead of making one."""
    keywords, function = dict[str, object](), tool.function
    while isinstance(function, partial):
        keywords = {**function.keywords, **keywords}
        function = function.func
    approvals: dict[str, bool | Denied] = {}
    results: dict[str, object] = {}
    for call_id, one in decision.decisions.items():
        if isinstance(one, ExternalResult):
            results[call_id] = one.value
        else:
            approvals[call_id] = one

    def resume(**arguments: object) -> Any:
        return method.resume(decision.state, approvals, {**keywords, **arguments}, results)

    return replace(tool, function=resume)


def finished_run(call: ToolCall, message: ToolMessage, tool: Tool | None) -> ToolRun:
    """Return the run of a tool that had finished when its call was suspended, from its message."""
    result: object = message.text
    method = None if tool is None else suspendable_method(tool)
    plan = None if method is None else method.call_plan
    if tool is not None and not message.failed:
        try:
            result = parser_for(tool.return_type if plan is None else plan.output_type).parse(message.text)
        except (UnsupportedTypeError, OutputParsingError):
            pass  # the text is all that is known
    error = ToolError(message.text, call=call) if message.failed else None
    result = None if message.failed else result
    media = tuple(part for part in message.contents if isinstance(part, Media))
    return ToolRun(call, None, result, message.text, error, 0.0, contents=media)


class WaitingCalls(NamedTuple):
    """The tool calls of a suspended call that wait, those of services used as tools included.

    The id of a call inside another one is that of the outer call, a slash, and its own id.

    Attributes:
        approvals: The calls that must be approved.
        results: The calls of external tools.
    """

    approvals: tuple[ToolCall, ...]
    results: tuple[ToolCall, ...]


def waiting_calls(suspended: SuspendedCall) -> WaitingCalls:
    """Return the tool calls of a suspended call that wait, those of services used as tools included.

    Raises SuspendedCallError if the state is damaged, or a part of it has expired.
    """
    check_expiry(suspended)
    calls = _last_calls(suspended)
    approvals = [call for call in calls if call.id in suspended.pending]
    results = [call for call in calls if call.id in suspended.external]
    waiting = sorted([*(call.id for call in approvals), *(call.id for call in results), *suspended.inner])
    expected = sorted({*suspended.pending, *suspended.external, *suspended.inner})
    settled = [*suspended.inner, *(message.call_id for message in suspended.finished)]
    is_nest = bool(suspended.inner or suspended.finished)
    if (
        not waiting
        or waiting != expected
        or (is_nest and sorted(settled) != sorted(call.id for call in calls))
        or (is_nest and (approvals or results))
    ):
        raise SuspendedCallError(
            f"{suspended.qualname}: the state is damaged: the pending calls are not those of its last message"
        )
    for call_id, inner in suspended.inner.items():
        nested, prefix = waiting_calls(inner), _prefix(call_id)
        approvals += [replace(call, id=f"{prefix}{call.id}") for call in nested.approvals]
        results += [replace(call, id=f"{prefix}{call.id}") for call in nested.results]
    return WaitingCalls(tuple(approvals), tuple(results))


def _prefix(call_id: str) -> str:
    """Return what comes before the id of a call inside another one; its first slash is its last character."""
    return call_id.replace("%", "%25").replace("/", "%2F") + "/"


def _decisions_by_call(
    suspended: SuspendedCall, decisions: Mapping[str, bool | Denied | ExternalResult]
) -> dict[str, WaitingCallDecision]:
    """Return what is known about each tool call of the last message of a suspended call."""
    by_call: dict[str, WaitingCallDecision] = {message.call_id: message for message in suspended.finished}
    for call_id, inner in suspended.inner.items():
        prefix = _prefix(call_id)
        own = {key[len(prefix) :]: value for key, value in decisions.items() if key.startswith(prefix)}
        by_call[call_id] = InnerDecisions(inner, own)
    return by_call or dict(decisions)


# --- Decisions ----------------------------------------------------------------------------------------------


class ExternalResultError(ValueError):
    """Raised by ``resume`` for a result that is missing, is not wanted, or does not fit the external tool."""


def check_external_call(call: ToolCall, toolbox: Toolbox | None, decision: object, qualname: str) -> None:
    """Raise an error unless a call is one of an external tool, and the decision is a result that fits.

    Raises SuspendedCallError, because the state or the tools of the service have changed, and
    ExternalResultError for the value.
    """
    tool = None if toolbox is None else toolbox.tools.get(call.name)
    if tool is None or not tool.external:
        problem = "has no tool" if tool is None else "runs the tool"
        raise SuspendedCallError(
            f"{qualname}: the call {call.id} waits for a result of the external tool {call.name}, but the "
            f"service {problem} {call.name}"
        )
    if not isinstance(decision, ExternalResult):
        raise SuspendedCallError(
            f"{qualname}: the state is damaged: the tool {call.name} of the call {call.id} is external, and "
            "its result is missing"
        )
    try:
        tool.read_result(decision.value)
    except ValueError as error:
        raise ExternalResultError(
            f"{qualname}: the result for {call.id} does not fit the tool {call.name}: {error}"
        ) from error


def _last_calls(suspended: SuspendedCall) -> tuple[ToolCall, ...]:
    last = suspended.tool_messages[-1] if suspended.tool_messages else None
    return last.tool_calls if isinstance(last, AiMessage) else ()


def decisions_for(
    suspended: SuspendedCall, approvals: Approvals, results: Mapping[str, object], qualname: str
) -> Mapping[str, bool | Denied | ExternalResult]:
    """Check the approvals and results for a suspended service call; return the decisions by tool call id.

    Raises TypeError if an argument has another type, SuspendedCallError if the state is not one of the method
    that waits, and ValueError unless there is a decision or a result for each pending call and for no others.
    """
    if not isinstance(suspended, SuspendedCall):
        raise TypeError(
            f"{qualname}: the state is a {type(suspended).__name__}; pass a SuspendedCall, "
            "for example from SuspendedCall.from_json(text)"
        )
    if suspended.qualname != qualname:
        raise SuspendedCallError(f"the suspended call belongs to {suspended.qualname}, not to {qualname}")
    calls = waiting_calls(suspended)
    waiting, external = [call.id for call in calls.approvals], [call.id for call in calls.results]
    known = [*waiting, *external]
    if not isinstance(results, Mapping):
        raise TypeError(
            f"{qualname}: results is {shorten(repr(results), 60)}; pass a dict with the result for each id: "
            f"{', '.join(external)}"
        )
    for call_id in results:
        if call_id not in external:
            raise ExternalResultError(
                f"{qualname}: results has a value for {call_id!r}, which does not wait for a result; "
                f"the calls that do: {', '.join(external) or 'none'}"
            )
    decisions: dict[str, bool | Denied | ExternalResult] = {}
    if isinstance(approvals, bool):
        decisions |= dict.fromkeys(waiting if approvals else known, approvals)
    elif isinstance(approvals, Mapping):
        undecided = [call_id for call_id in waiting if call_id not in approvals]
        # All decisions are needed at once, because the tools of a round run together.
        if undecided:
            raise ValueError(f"{qualname}: approvals has no decision for {', '.join(undecided)}")
        decisions |= _checked_approvals(approvals, waiting, external, results, qualname)
    else:
        raise TypeError(
            f"{qualname}: approvals is {shorten(repr(approvals), 60)}; pass True or False for all calls, "
            f"or a dict with a decision for each id: {', '.join(known)}"
        )
    decisions |= {call_id: ExternalResult(value) for call_id, value in results.items()}
    missing = [call_id for call_id in external if call_id not in decisions]
    if missing:
        raise ExternalResultError(f"{qualname}: results has no value for {', '.join(missing)}")
    return decisions


def _checked_approvals(
    approvals: Mapping[str, bool | Denied],
    waiting: Sequence[str],
    external: Sequence[str],
    results: Mapping[str, object],
    qualname: str,
) -> Mapping[str, bool | Denied]:
    for call_id, decision in approvals.items():
        if call_id not in waiting and call_id not in external:
            raise ValueError(
                f"{qualname}: approvals has a decision for {call_id!r}, which does not wait; "
                f"the calls that wait: {', '.join((*waiting, *external))}"
            )
        if not isinstance(decision, (bool, Denied)):
            raise TypeError(
                f"{qualname}: the decision for {call_id} is {shorten(repr(decision), 60)}; "
                "it must be True, False or Denied(reason)"
            )
        if call_id in external and (decision is True or call_id in results):
            reason = "has a result, too" if call_id in results else "waits for a result; pass it in results"
            raise ValueError(f"{qualname}: approvals has a decision for {call_id!r}, which {reason}")
    return approvals


def _route_of(suspended: SuspendedCall, plan: CallPlan) -> ModelRoute | None:
    """Return the model that made a suspended service call's tool calls, or None if it is unknown.

    The arguments must be read in the format of that model.
    """
    if not suspended.model:
        return None
    for route in plan.routes:
        if route.model.name == suspended.model:
            return route
    names = ", ".join(route.model.name for route in plan.routes)
    raise SuspendedCallError(
        f"{plan.qualname}: the pending calls were written by {suspended.model}, and the service uses "
        f"{names}; add that model, or resume with state._replace(model='') to read the calls as if the "
        "first model had written them"
    )
