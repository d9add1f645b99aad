"""Undo the tool calls of a failed service call, with the ``compensate`` functions of the tools."""

from __future__ import annotations

import inspect
import json
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from output_parsers.parser.registry import parser_for
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.reading import strict_equal

from ..interface.parameters import is_async
from ..models.errors import ToolError
from ..models.messages import ToolCall
from ..tools.tool import Tool, ToolAnswer, ToolRun
from .effects import Emit, Flow, Run
from .events import ToolUndone
from .plan import CallState, Invocation
from .tool_execution import ToolInvocation, UndoableCall, hidden_arguments

_LOGGER = logging.getLogger("aiservices")
_KEY = "tools.undoable"  # the key in the stored data of a suspended call


def can_undo(state: CallState) -> bool:
    """Return True if the service call has tool calls that can be undone."""
    return bool(state.undoable) or _KEY in state.interceptor_data


def has_failed(run: ToolRun) -> bool:
    """Return True if a tool raised an exception, False if the call was refused or had wrong arguments."""
    is_refused = isinstance(run.error, ToolError) and run.error.call is run.call
    return run.error is not None and run.arguments is not None and not is_refused


def undo_earlier_tools(runs: Sequence[ToolRun], invocation: Invocation) -> Flow[list[ToolRun]]:
    """Undo all tool calls after one in the latest round failed, and tell the model which were undone.

    ``runs`` are the tool runs of the latest round. Returns the updated runs.
    """
    undone = yield from undo_tools(invocation)
    state = invocation.state
    changed = state.tool_runs[-len(runs) :]
    if not undone:
        return changed
    failed = max(index for index, run in enumerate(changed) if has_failed(run))
    notes = [changed[failed].text]
    if successes := ", ".join(f"{run.name} ({run.call.id})" for run in undone if run.undone):
        notes.append(f"Because of this failure, these calls were undone: {successes}.")
    if failures := ", ".join(f"{run.name} ({run.call.id})" for run in undone if not run.undone):
        notes.append(f"These calls could not be undone: {failures}.")
    changed[failed] = changed[failed]._replace(text="\n\n".join(notes))
    state.tool_runs[-len(runs) :] = changed
    return changed


def undo_tools(invocation: Invocation) -> Flow[tuple[ToolRun, ...]]:
    """Undo a service call's undoable tool calls, starting with the last one.

    Their records in the call's state show whether each was undone. Returns the runs in the order in which
    they were undone. A failing ``compensate`` function is logged and does not keep the others from running.
    """
    state, undone = invocation.state, list[ToolRun]()
    while state.undoable:
        done = state.undoable.pop()
        error = yield _undo_effect(done)
        undone.append((yield from _record(_run_of(done, state), error, state)))
    for stored in reversed(state.interceptor_data.pop(_KEY, [])):
        call = ToolCall(stored["id"], stored["name"], stored["call"])
        try:
            restored = _restored(stored, call, invocation)
        except Exception as problem:  # the tools of the service, or the stored data, may have changed
            run, error = ToolRun(call, None, None, "", None, 0.0), problem
        else:
            run, error = _run_of(restored, state), (yield _undo_effect(restored))
        undone.append((yield from _record(run, error, state)))
    return tuple(undone)


def _record(run: ToolRun, error: Exception | None, state: CallState) -> Flow[ToolRun]:
    """Report in the service call's state, to listeners and in the log whether a tool call was undone."""
    error = error or run.undo_error  # set if an interceptor ran the tool twice
    changed = run._replace(undone=error is None, undo_error=error)
    for index, other in enumerate(state.tool_runs):
        if other.call.id == run.call.id:
            state.tool_runs[index] = changed
    if error is not None:
        _LOGGER.error("the tool %s could not be undone", run.name, exc_info=error)
    yield Emit(ToolUndone(changed), streamed=False)
    return changed


def _run_of(done: UndoableCall, state: CallState) -> ToolRun:
    """Return the record of a tool call, or create one if other calls of the same reply are still running."""
    call = done.call
    for run in state.tool_runs:
        if run.call.id == call.call.id:
            return run
    result = done.result.data if isinstance(done.result, ToolAnswer) else done.result
    return ToolRun(call.call, call.arguments, result, "", None, 0.0)


def _undo_effect(done: UndoableCall) -> Run:
    """Return a step that undoes a tool call; its outcome is the exception if that fails, else None.

    The step runs to completion even after the call's time limit.
    """

    def undo() -> Exception | None:
        try:
            done.function()()
        except Exception as error:
            return error
        return None

    async def aundo() -> Exception | None:
        try:
            awaitable = done.function()()
            if inspect.isawaitable(awaitable):
                await awaitable
        except Exception as error:
            return error
        return None

    is_awaited = is_async(done.call.tool.compensate)
    return Run(aundo if is_awaited else undo, in_thread=not is_awaited, deadline=math.inf)


# --- Calls that wait ---


def store_undoable(state: CallState) -> None:
    """Convert the tool calls that can be undone to JSON, so that another process can resume the call."""
    if state.undoable:
        earlier = state.interceptor_data.get(_KEY, [])
        state.interceptor_data[_KEY] = [*earlier, *map(_stored, state.undoable)]
        state.undoable = []


def _stored(done: UndoableCall) -> dict[str, object]:
    call, tool = done.call, done.call.tool
    stored: dict[str, object] = {"id": call.call.id, "name": tool.name, "call": call.call.arguments}
    try:
        stored["arguments"] = tool.arguments.write(dict(call.arguments))
        assert tool.compensate is not None
        if "result" in inspect.signature(tool.compensate).parameters:
            result = done.result.data if isinstance(done.result, ToolAnswer) else done.result
            stored["result"] = _written_result(result, tool)
    except (TypeError, ValueError) as error:
        stored["problem"] = f"its data could not be stored while the call waited: {error}"
    return stored


def _written_result(result: object, tool: Tool) -> str:
    parser = _result_parser(tool)
    text = json.dumps(result) if parser is None else parser.write(result)
    if parser is None and not strict_equal(json.loads(text), result):
        raise TypeError(f"the result of {tool.name} is not JSON; annotate its return type")
    return text


def _result_parser(tool: Tool) -> TypeParser[object] | None:
    return None if tool.return_type is inspect.Signature.empty else parser_for(tool.return_type)


def _restored(stored: Mapping[str, Any], call: ToolCall, invocation: Invocation) -> UndoableCall:
    """Restore a stored tool call that can be undone, or raise an error if that is no longer possible."""
    if "problem" in stored:
        raise ToolError(stored["problem"], call=call)
    provided = invocation.state.provided_tools
    toolbox = invocation.toolbox if provided is None else provided.toolbox
    tool = None if toolbox is None else toolbox.tools.get(call.name)
    if tool is None or tool.compensate is None:
        message = "has no such tool" if tool is None else "has no compensate function for it"
        raise ToolError(f"{call.name} cannot be undone: the service {message} any more", call=call)
    arguments = tool.arguments.parse(stored["arguments"])
    result = None
    if "result" in stored:
        parser = _result_parser(tool)
        result = json.loads(stored["result"]) if parser is None else parser.parse(stored["result"])
    hidden = hidden_arguments(call, tool, invocation)
    return UndoableCall(ToolInvocation(call, tool, arguments, invocation, tool.arguments, hidden), result)
