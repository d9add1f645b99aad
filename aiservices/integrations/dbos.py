"""Durable calls as workflows of DBOS, which has queues, schedules and recovery; needs the extra ``dbos``.

The journal of the call stores its steps, and DBOS only the workflow: its arguments, its result and what it
waits for. So a workflow that DBOS runs again repeats nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar

from ..engine.approval import ApprovalRequiredError, Approvals
from ..engine.durable import Durable
from ..interface.parameters import Role
from ..journal import CallInProgressError, Journal, JournalError
from ..models.errors import DefinitionError, DefinitionProblem, import_extra
from ..service.methods import ServiceMethod, service_method_of
from ..service.recovery import decide

__all__ = ["answer", "waits_for", "workflow"]

R = TypeVar("R")
_TOPIC = "aiservices"  # of the messages that wake a waiting workflow
_EVENT = "waits_for"
_STEP = 1.0  # seconds


def workflow(method: Callable[..., R], *, wait: float = 7 * 86_400.0) -> Callable[..., R]:
    """Return a DBOS workflow that calls a durable method, with the id of the workflow as the id of the call.

    The workflow has the name of the method, such as ``"Desk.refund"``, and its parameters without the
    ``CallId``. It is started like other workflows of DBOS, after ``DBOS.launch()``::

        refund = workflow(desk.refund)
        with SetWorkflowID("order-17"):
            refund("17")
        DBOS.enqueue_workflow("refunds", refund, "18")

    If the call needs an approval or a result, or a tool is in doubt, the workflow waits for ``answer``.

    Args:
        method: A method of a service with ``Durable``. It must have a CallId parameter.
        wait: The seconds for which the workflow waits for an answer. Then it fails with the
            ApprovalRequiredError.

    Raises DefinitionError if the method is not durable, or if it streams.
    """
    dbos = import_extra("dbos", "dbos", "workflow").DBOS
    service_method = service_method_of(method)
    id_name, journal = _durable_parts(service_method)
    qualname = service_method.call_plan.qualname
    seconds = 2 * journal.lease_seconds

    def call(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        return method(*args, **kwargs, **{id_name: dbos.workflow_id})

    @wraps(method)
    def run(*args: object, **kwargs: object) -> object:
        end = time.monotonic() + seconds
        while True:
            try:
                return call(args, kwargs)
            except CallInProgressError:  # of a process on another machine, until its lease ends
                if time.monotonic() > end:
                    raise
                time.sleep(_STEP)
            except ApprovalRequiredError as error:
                dbos.set_event(_EVENT, _waiting(error))
                if dbos.recv(_TOPIC, timeout_seconds=wait) is None:
                    raise

    @wraps(method)
    async def arun(*args: object, **kwargs: object) -> object:
        end = time.monotonic() + seconds
        while True:
            try:
                return await call(args, kwargs)
            except CallInProgressError:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(_STEP)
            except ApprovalRequiredError as error:
                await dbos.set_event_async(_EVENT, _waiting(error))
                if await dbos.recv_async(_TOPIC, timeout_seconds=wait) is None:
                    raise

    function: Any = arun if service_method.plan.returns.is_async else run
    signature = service_method.plan.prompt.signature
    parameters = [one for name, one in signature.parameters.items() if name != id_name]
    function.__signature__ = signature.replace(parameters=parameters)
    registered: Callable[..., R] = dbos.workflow(name=qualname)(function)
    return registered


def waits_for(workflow_id: str, *, timeout: float = 0.0) -> list[dict[str, str]]:
    """Return the tool calls for which a workflow waits, or waited last: their id, name and arguments.

    Args:
        workflow_id: The id of the workflow.
        timeout: The seconds to wait until there are any.
    """
    dbos = import_extra("dbos", "dbos", "waits_for").DBOS
    calls: list[dict[str, str]] = dbos.get_event(workflow_id, _EVENT, timeout_seconds=timeout) or []
    return calls


def answer(
    method: Callable[..., object],
    workflow_id: str,
    approvals: Approvals = MappingProxyType({}),
    *,
    results: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Decide what a workflow waits for, so that it continues.

    Args:
        method: The method of the service, or the workflow that ``workflow`` returned.
        workflow_id: The id of the workflow.
        approvals: As for ``decide``: True, False, or a decision for each pending tool call.
        results: As for ``decide``: the results of external tools, and of calls in doubt that have run.

    Raises the errors of ``decide``. The workflow is also woken if its call was answered before.
    """
    dbos = import_extra("dbos", "dbos", "answer").DBOS
    _, journal = _durable_parts(service_method_of(method))
    try:
        decide(journal, workflow_id, approvals, results=results)
    except JournalError:  # the process that decided may have been killed before it sent the message
        dbos.send(workflow_id, True, _TOPIC)
        raise
    dbos.send(workflow_id, True, _TOPIC)


def _waiting(error: ApprovalRequiredError) -> list[dict[str, str]]:
    waiting = (*error.calls, *error.external_calls)
    return [{"id": one.id, "name": one.name, "arguments": one.arguments} for one in waiting]


def _durable_parts(method: ServiceMethod) -> tuple[str, Journal]:
    """Return the name of the parameter with the id of the call, and the journal."""
    name = method.plan.prompt.role_names.get(Role.CALL_ID)
    problem = None
    if name is None:
        problem = "a workflow needs a parameter call_id: Annotated[str, CallId], which gets the workflow's id"
    elif method.plan.returns.is_stream:
        problem = "a workflow returns one value; use a method that does not stream"
    if problem is not None:
        raise DefinitionError([DefinitionProblem(method.call_plan.qualname, problem)])
    assert name is not None  # create requires a Durable for such a parameter
    return name, next(one.journal for one in method.pipeline.interceptors if isinstance(one, Durable))
