"""Continue the durable calls of processes that were killed, and decide what suspended calls wait for."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from output_parsers.result.reading import Json

from ..engine.approval import Approvals, decisions_for, decisions_to_json, options_from_json
from ..engine.durable import Durable, entries_of, messages_of_start, program_of, suspension_of
from ..engine.pipeline import Pipeline
from ..engine.plan import CallPlan, CallState, Invocation
from ..engine.streams import AsyncStream, Stream
from ..interface.decorators import methods_of
from ..interface.parameters import Role, memory_id_from_data
from ..journal import CallInProgressError, Entry, Journal, JournalError, StoredCall
from ..models.arguments import checks_arguments
from ..models.requests import ChatRequest
from .methods import ServiceMethod, is_service_method, service_method_of

_NOTHING: Mapping[str, bool] = MappingProxyType({})


class RecoveredCall(NamedTuple):
    """A durable call that ``recover`` has continued.

    Attributes:
        call: The call as it was in the journal.
        value: What the method returned; of a stream, a list of its items.
        error: Why the call has no value, such as an ApprovalRequiredError; None if it has one.
    """

    call: StoredCall
    value: Any = None
    error: Exception | None = None


class Recoverable(NamedTuple):
    """Calls that ``recover`` can continue: those of a method, of an agent or of ``structured``.

    Attributes:
        plan: The plan of the calls.
        pipeline: Their interceptors.
        invocation: Returns the Invocation of a call from its request, its stored beginning, the call, and the
            arguments that are ``ToolContext`` parameters.
        start: Runs an Invocation, and returns what the method returns.
        is_async: True if it runs in an event loop.
        has_own_name: True if no calls with another return type have the same name.
    """

    plan: CallPlan
    pipeline: Pipeline
    invocation: Callable[[ChatRequest, Mapping[str, object], StoredCall, Mapping[str, object]], Invocation]
    start: Callable[[Invocation], object]
    is_async: bool
    has_own_name: bool = False


@checks_arguments
def recover(
    journal: Journal, services: Iterable[object], *, tool_context: Mapping[str, object] = _NOTHING
) -> list[RecoveredCall]:
    """Continue the calls in a journal that were running when their process was killed.

    Calls on which a process works are left out, and so are calls of other services, agents and models.
    Suspended calls wait until they are resumed, and failed ones until the program makes the same call again.
    Async calls run in a new event loop; in an async program use ``arecover``.

    Args:
        journal: The journal.
        services: The services, agents and models of ``structured`` that were called, each with the journal in
            its ``Durable``. For the replies of an agent with an ``output_type``, a tuple of both.
        tool_context: The arguments that are ``ToolContext`` parameters, by name, for all calls. They are not
            stored.
    """
    recovered = []
    for one, call, start in _left_calls(journal, services, is_async=False):
        try:
            value = one.start(_invocation(one, call, start, tool_context))
            if inspect.isawaitable(value) or isinstance(value, (AsyncStream, AsyncIterator)):
                value = asyncio.run(_aread(value))
            recovered.append(RecoveredCall(call, _read(value)))
        except CallInProgressError:
            continue
        except Exception as error:
            recovered.append(RecoveredCall(call, error=error))
    return recovered


@checks_arguments
async def arecover(
    journal: Journal, services: Iterable[object], *, tool_context: Mapping[str, object] = _NOTHING
) -> list[RecoveredCall]:
    """Continue the calls that were running when their process was killed; async version of ``recover``.

    Blocking methods run in a thread. ``journal``, ``services`` and ``tool_context`` are those of ``recover``.
    """
    recovered = []
    for one, call, start in _left_calls(journal, services, is_async=True):
        try:
            invocation = _invocation(one, call, start, tool_context)
            if one.is_async:
                value = await _aread(one.start(invocation))
            else:
                value = await asyncio.to_thread(lambda one, call: _read(one.start(call)), one, invocation)
            recovered.append(RecoveredCall(call, value))
        except CallInProgressError:
            continue
        except Exception as error:
            recovered.append(RecoveredCall(call, error=error))
    return recovered


def _read(value: object) -> object:
    """Return a value, or the items of a stream."""
    if isinstance(value, Stream):
        return value.result().value
    return list(value) if isinstance(value, Iterator) else value


async def _aread(value: Any) -> object:
    if inspect.isawaitable(value):
        return await value
    if isinstance(value, AsyncStream):
        return (await value.result()).value
    return [item async for item in value]


def _left_calls(
    journal: Journal, services: Iterable[object], *, is_async: bool
) -> Iterator[tuple[Recoverable, StoredCall, Mapping[str, object] | JournalError]]:
    """Yield the calls that are running and can be continued, each with its program and its stored beginning.

    If the beginning cannot be read, the error is yielded instead.
    """
    recoverable: dict[str, list[Recoverable]] = {}
    for service in services:
        for one in _recoverables(service, is_async=is_async):
            if any(_records(interceptor, journal) for interceptor in one.pipeline.interceptors):
                recoverable.setdefault(one.plan.qualname, []).append(one)
    for call in journal.list("running"):
        candidates = recoverable.get(call.method, [])
        loaded = journal.load(call.id) if candidates else None
        if loaded is None or loaded.call.status != "running":  # another process has continued it
            continue
        try:
            start = entries_of(loaded)["start"]
        except JournalError as error:  # the others are continued
            yield candidates[0], call, error
            continue
        chosen = _choose(candidates, start)
        if chosen is not None:
            yield chosen, call, start


def _recoverables(service: object, *, is_async: bool) -> Iterator[Recoverable]:
    """Yield the methods of a service, or an agent or a model of ``structured``."""
    service, *output_type = service if isinstance(service, tuple) else (service,)
    make = getattr(service, "_recoverable", None)
    if make is not None:
        yield make(*output_type, is_async=is_async)
        return
    for name, _, attribute in methods_of(type(service)):
        if is_service_method(attribute):
            method = service_method_of(getattr(service, name))
            make = partial(_method_invocation, method)
            is_awaited = method.plan.returns.is_async
            yield Recoverable(method.call_plan, method.pipeline, make, method.start, is_awaited, True)


def _choose(candidates: Sequence[Recoverable], start: Mapping[str, object]) -> Recoverable | None:
    """Choose the program that made a call: the same one, or else one with the same schema."""
    programs = [program_of(one.plan, one.plan.toolbox) for one in candidates]
    of_type = [
        (one, program)
        for one, program in zip(candidates, programs, strict=True)
        if one.has_own_name or program["schema"] == start.get("schema")
    ]
    same = [one for one, program in of_type if program.items() <= start.items()]
    return next(iter((*same, *(one for one, _ in of_type))), None)


def _records(interceptor: object, journal: Journal) -> bool:
    return isinstance(interceptor, Durable) and interceptor.journal is journal


def _invocation(
    one: Recoverable,
    call: StoredCall,
    start: Mapping[str, Json] | JournalError,
    tool_context: Mapping[str, object],
) -> Invocation:
    """Return the Invocation of a call with its stored messages; raise TypeError without a ToolContext."""
    if isinstance(start, JournalError):
        raise start
    options = options_from_json(start["options"]).with_defaults(one.plan.options)
    request = ChatRequest(messages_of_start(start), options, qualname=call.method)
    return one.invocation(request, start, call, tool_context)


def _method_invocation(
    method: ServiceMethod,
    request: ChatRequest,
    start: Mapping[str, object],
    call: StoredCall,
    tool_context: Mapping[str, object],
) -> Invocation:
    plan = method.plan
    names, parameters = plan.prompt.role_names, plan.prompt.signature.parameters
    hints = {parameter.role: parameter.hint for parameter in plan.prompt.parameters}
    memory_id = start["memory_id"]
    if Role.MEMORY_ID in hints:
        memory_id = memory_id_from_data(memory_id, hints[Role.MEMORY_ID])
    roles = {Role.MEMORY_ID: memory_id, Role.USER_NAME: call.user or None, Role.CALL_ID: call.id}
    arguments = {name: roles[role] for role, name in names.items() if role in roles}
    context = {}
    for name in plan.prompt.context_names:
        default = parameters[name].default
        if name not in tool_context and default is inspect.Parameter.empty:
            raise TypeError(f"{call.method}: the argument {name} is not stored; pass it in tool_context")
        context[name] = tool_context.get(name, default)
    return replace(
        plan.call.invocation(request, CallState(method.budget, call_id=call.id)),
        arguments={**arguments, **context},
        memory_id=memory_id,
        user_name=call.user or None,
        tool_context=context,
        examples=plan.prompt.rendered_examples() if plan.prompt.examples else (),
    )


@checks_arguments
def decide(
    journal: Journal,
    call_id: str,
    approvals: Approvals = _NOTHING,
    *,
    results: Mapping[str, object] = _NOTHING,
) -> None:
    """Decide what a suspended call waits for, without continuing it; ``recover`` or the same call does that.

    If a result does not fit its tool, they raise an ExternalResultError, and the call waits for another one.

    Args:
        journal: The journal.
        call_id: The id of the call.
        approvals: True or False for all pending tool calls, or a dict with True, False or Denied by the id of
            each. Of a call in doubt, True means that it has not run.
        results: The results of external tools, and of calls in doubt that have run, by id.

    Raises:
        JournalError: There is no such call, or it is not suspended.
        ValueError: There is not one decision or result for each pending call.
    """
    loaded = journal.load(call_id)
    if loaded is None or loaded.call.status != "suspended":
        problem = "does not exist" if loaded is None else f"is {loaded.call.status}"
        raise JournalError(f"the call {call_id!r} {problem}, so it does not wait for a decision")
    decisions = decisions_for(suspension_of(loaded).state, approvals, results, loaded.call.method)
    segment = sum(entry.key.startswith("decided:") for entry in loaded.entries)
    entry = Entry(f"decided:{segment}", json.dumps(decisions_to_json(decisions)))
    fence = loaded.call.fence  # fails if the call was already decided, and continues
    if not journal.store.append(call_id, fence, [entry], status="running", leased_for=0.0):
        raise JournalError(f"the call {call_id!r} has been continued, so it does not wait for a decision")
