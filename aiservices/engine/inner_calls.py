"""Inner service calls, made by tools: they share the outer call's budget, and some errors end both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from ..models.errors import (
    AuthenticationError,
    BudgetExceededError,
    DefinitionError,
    DefinitionProblem,
    SuspendedCallError,
)
from ..tools.tool import Tool, ToolRun
from .approval import AlreadyResumedError, ApprovalRequiredError, ExternalResultError, suspendable_method
from .budget import using_accounts
from .effects import Run
from .plan import CallState, EnclosingCall, Invocation

# A model cannot do anything about these errors, and they will occur again.
FINAL_ERRORS = (AuthenticationError, DefinitionError)

_NOT_RESUMED = (SuspendedCallError, AlreadyResumedError, ExternalResultError)


def within_call(effect: Run, invocation: Invocation) -> Run:
    """Return a tool's step, changed so that service calls made by the tool count as inner calls.

    This includes calls in async tasks that the tool starts, and in threads of ``asyncio.to_thread``.
    """
    function: Callable[[], Any] = effect.function
    enclosing = EnclosingCall(invocation, effect.tool_call)
    accounts = (*invocation.state.enclosing, enclosing)

    def run() -> ToolRun:
        with using_accounts(accounts):
            outcome: ToolRun = function()
            enclosing.is_over = isinstance(outcome.error, TimeoutError)  # its thread may still run
            return outcome

    async def arun() -> ToolRun:
        with using_accounts(accounts):
            outcome: ToolRun = await function()
            enclosing.is_over = isinstance(outcome.error, TimeoutError)
            return outcome

    return replace(effect, function=wraps(function)(arun if iscoroutinefunction(function) else run))


def raise_if_final(error: Exception, state: CallState, *, is_resumed: bool) -> None:
    """Raise a tool's error if it must end the service call; other errors are reported to the model.

    A call ends if a key or a definition is wrong, if the budget of the outer call is used up, or if a
    suspended inner call cannot be resumed.
    """
    if isinstance(error, FINAL_ERRORS) or (is_resumed and isinstance(error, _NOT_RESUMED)):
        raise error
    if isinstance(error, BudgetExceededError):
        exceeded = state.exceeded(is_side_question=True)
        if exceeded is not None:
            raise exceeded from error


def price_problems(invocation: Invocation) -> list[DefinitionProblem]:
    """Return an error for each unpriced model of an inner call if an outer call limits the cost."""
    state, problems = invocation.state, list[DefinitionProblem]()
    for account in state.enclosing:
        if not isinstance(account, EnclosingCall) or account.invocation.state.budget.money is None:
            continue
        qualname = account.invocation.plan.qualname
        problems += [
            DefinitionProblem(
                qualname,
                f"the budget limits money, and a tool calls {invocation.plan.qualname}, whose model "
                f"{route.model.name} has no price; add it to the prices",
            )
            for route in invocation.routes
            if state.price_of(route.model.name) is None
        ]
    return problems


def check_can_wait(error: ApprovalRequiredError, tool: Tool, invocation: Invocation) -> None:
    """Raise DefinitionError if an inner call waits for approval but the tool that made it cannot be resumed.

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
