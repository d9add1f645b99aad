"""Interceptors (middleware) and checks that run around each tool call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ..interface.parameters import function_name, is_async
from ..models.errors import DefinitionError, DefinitionProblem, ToolError
from ..tools.tool import Tool, ToolException, ToolRun
from ..tools.toolbox import ToolLimits
from .approval import ApprovalRequiredError, InnerDecisions
from .effects import Flow, Run
from .inner_calls import within_call
from .tool_execution import ToolInvocation, execution

ToolProceed: TypeAlias = Callable[[ToolInvocation], Flow[ToolRun]]
_MAX_CHECKS = 10  # the maximum number of repetitions if checks keep changing the arguments


class ToolInterceptor(Protocol):
    """A generator function that wraps each of the model's tool calls, like an Interceptor for service calls.

    It may change the arguments before it proceeds (``call.with_arguments``), return a run without proceeding
    (``call.answer``, ``call.refuse``), proceed again, and change the run. Because it is a generator, it works
    in blocking, async and streaming calls; it does input and output by yielding effects.

    It sees the calls that can run: not those of unknown tools, with arguments that cannot be read, or that a
    person did not approve. It sees an approved call once it is approved. A failed tool does not raise, but
    gives a run with an ``error``. If the interceptor raises a ToolException, the model receives its text;
    another exception ends the call of the method.

    ``async_parts``, the names of parts that must be awaited, is an optional attribute; ``create`` refuses
    them in blocking services.
    """

    def __call__(self, call: ToolInvocation, proceed: ToolProceed, /) -> Flow[ToolRun]: ...


@runtime_checkable
class ToolCheck(Protocol):
    """The interface of checks, such as ToolGuardrails, that run directly before and after a tool.

    Nothing changes the arguments between the check and the tool, or the result between the check and the
    model. If a check changes the arguments, all checks run again.
    """

    def check_arguments(self, call: ToolInvocation) -> Flow[ToolInvocation | ToolRun]:
        """Check the arguments; return the call, possibly with other arguments, or a ToolRun to use instead.

        For a tool that needs approval, or is external, this also runs before a person is asked.
        """
        ...

    def check_result(self, call: ToolInvocation, run: ToolRun) -> Flow[ToolRun]:
        """Check a tool's result; return the run, possibly with another result or marked as failed."""
        ...


def awaited_parts(tools: Collection[Tool], interceptors: Iterable[object]) -> list[str]:
    """Return the names of async parts of interceptors and tools, which blocking methods cannot await."""
    all_interceptors = [*interceptors, *(one for tool in tools for one in tool.interceptors)]
    names = [name for one in all_interceptors for name in getattr(one, "async_parts", ())]
    names += [
        f"compensate of the tool {tool.name}"
        for tool in tools
        if tool.compensate and is_async(tool.compensate)
    ]
    return list(dict.fromkeys(names))


def run_tool(call: ToolInvocation, limits: ToolLimits) -> Flow[ToolRun]:
    """Run a tool call inside the interceptors of the service and of the tool.

    The service's interceptors are the outer ones. Raises ToolError if the arguments that the interceptors
    pass on do not fit the tool or differ from those that a person approved, and ApprovalRequiredError if the
    tool is a service that waits for approval.
    """
    interceptors = (*call.invocation.plan.tool_interceptors, *call.tool.interceptors)
    if not interceptors:
        run: ToolRun = yield within_call(execution(call, limits), call.invocation)
        if isinstance(run.error, ApprovalRequiredError):
            raise run.error
        return run
    checks = [one for one in interceptors if isinstance(one, ToolCheck)]
    is_executed = False

    def run_checked(changed: ToolInvocation) -> Flow[ToolRun]:
        nonlocal is_executed
        if not isinstance(changed, ToolInvocation):
            kind = type(changed).__name__
            raise _definition_error(call, f"an interceptor of tools proceeded with a {kind}; pass the call")
        if changed.arguments is not call.arguments:
            changed.written_arguments()  # raises ToolError if the arguments do not fit the tool
        # Only the arguments can be changed.
        checked = yield from checked_call(replace(call, arguments=changed.arguments), checks)
        if isinstance(checked, ToolRun):
            return checked
        decision = call.invocation.approvals.get(call.call.id)
        is_decided = decision is not None and not isinstance(decision, InnerDecisions)
        if is_decided and _written_or_none(checked) != _written_or_none(call):
            message = "its arguments were changed after the call had waited for a person"
            raise ToolError(f"{call.invocation.plan.qualname}: {call.name}: {message}", call=call.call)
        is_executed = True
        executed: ToolRun = yield within_call(execution(checked, limits), call.invocation)
        if isinstance(executed.error, ApprovalRequiredError):
            raise executed.error  # the tool is waiting, so it has no result yet
        return executed

    proceed: ToolProceed = run_checked
    for interceptor in reversed(interceptors):
        if not isinstance(interceptor, ToolCheck):
            proceed = partial(_intercept, interceptor, proceed)
    try:
        run = yield from proceed(call)
    except ToolException as error:
        run = call.refuse(str(error))
        refusal = run.error
        assert refusal is not None
        refusal.__cause__ = error
    if not isinstance(run, ToolRun):
        kind = type(run).__name__
        raise _definition_error(call, f"an interceptor of tools returned a {kind}; it must return a ToolRun")
    for check in checks:
        run = yield from check.check_result(call, run)
    if not is_executed:  # traces and hooks see each call as a step that runs a tool
        run = yield Run(lambda: run, tool_call=call.call)
    return run


def check_before_waiting(call: ToolInvocation) -> Flow[ToolInvocation | ToolRun]:
    """Check the arguments of a tool call before asking a person to approve it or to supply its result.

    Returns the call with the arguments to show, or the run that replaces the call if a check refuses it.
    """
    interceptors = (*call.invocation.plan.tool_interceptors, *call.tool.interceptors)
    checks = [one for one in interceptors if isinstance(one, ToolCheck)]
    return (yield from checked_call(call, checks)) if checks else call


def checked_call(call: ToolInvocation, checks: Sequence[ToolCheck]) -> Flow[ToolInvocation | ToolRun]:
    """Run all checks on the arguments of a tool call, repeatedly until none of them changes the arguments.

    Raises ToolError if the arguments do not fit the tool, or if the checks do not stop changing them.
    """
    for _ in range(_MAX_CHECKS):
        arguments, before = call.arguments, _written_or_none(call)
        for check in checks:
            checked = yield from check.check_arguments(call)
            if isinstance(checked, ToolRun):
                return checked
            call = replace(call, arguments=checked.arguments)
        # A check may also have changed an object inside the arguments.
        after = _written_or_none(call) if call.arguments is arguments else call.written_arguments()
        if after == before:
            return call
    message = f"{call.name}: the checks of its arguments change them again and again"
    raise ToolError(f"{call.invocation.plan.qualname}: {message}", call=call.call)


def _written_or_none(call: ToolInvocation) -> str | None:
    """Return the arguments as JSON text, or None if they cannot be written as JSON."""
    try:
        return call.written_arguments()
    except ToolError:
        return None


def _intercept(interceptor: Any, proceed: ToolProceed, call: ToolInvocation) -> Flow[ToolRun]:
    flow = interceptor(call, proceed)
    if not hasattr(flow, "send"):
        raise _definition_error(
            call,
            f"the interceptor of tools {function_name(interceptor)} is not a generator function; call the "
            "next one with 'run = yield from proceed(call)' and return the run",
        )
    run: ToolRun = yield from flow
    return run


def _definition_error(call: ToolInvocation, message: str) -> DefinitionError:
    return DefinitionError([DefinitionProblem(call.invocation.plan.qualname, message)])
