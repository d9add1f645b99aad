"""Run a model's tool call: parse the arguments, call the function, and convert the result to text.

Interceptors and checks run around the call. If the service call fails later, the ``compensate``
functions of the tools undo what their calls did.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
import threading
import time
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from hashlib import blake2b
from types import NoneType
from typing import Any, Protocol, TypeAlias, get_args, runtime_checkable

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from output_parsers.parser.type_parser import TypeParser, parser_for
from output_parsers.result.errors import OutputParsingError, UnsupportedTypeError
from output_parsers.result.reading import JsonObject, strict_equal
from output_parsers.types.cited import Cited, Quote, cited_from
from output_parsers.types.target import type_name
from output_parsers.types.validation import arguments_for_validators

from ..interface.decorators import CallContext, ToolContext
from ..interface.parameters import function_name, is_async, takes_invocation
from ..models.errors import (
    AiServiceError,
    AuthenticationError,
    BudgetExceededError,
    DefinitionError,
    DefinitionProblem,
    JournalError,
    ModelError,
    ToolError,
)
from ..models.media import Media
from ..models.messages import ToolCall
from ..tools.tool import (
    ErrorFormatter,
    ExternalResult,
    Tool,
    ToolAnswer,
    ToolException,
    ToolRun,
    has_own_text,
)
from ..tools.toolbox import ToolLimits
from .approval import DURABLE_KEY, AlreadyResumedError, ApprovalRequiredError, InnerDecisions
from .budget import active_accounts
from .effects import Emit, Flow, Run
from .plan import CallState, EnclosingCall, Invocation
from .results import Result
from .streams import AsyncStream, Stream, ToolUndone

_LOGGER = logging.getLogger("aiservices")

# A model cannot do anything about these errors, and they will occur again.
FINAL_ERRORS = (AuthenticationError, DefinitionError, JournalError)


def _with_arguments(
    function: Callable[..., object], call: ToolInvocation, **more: object
) -> Callable[[], object]:
    """Return a function without parameters that gets those arguments of a tool call that it names."""
    defaults = {
        parameter.name: parameter.default
        for parameter in inspect.signature(call.tool.function).parameters.values()
        if parameter.default is not parameter.empty
    }
    values = {**defaults, **call.arguments, **call.hidden_arguments, **more}
    parameters = inspect.signature(function).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        names = {parameter.name for parameter in parameters}
        values = {name: value for name, value in values.items() if name in names}
    return partial(function, **values)


@dataclass(frozen=True, slots=True, eq=False)
class UndoableCall:
    """A successful tool call that can be undone with the ``compensate`` function of its tool.

    Attributes:
        call: The call.
        result: What the tool returned.
    """

    call: ToolInvocation
    result: object

    def function(self) -> Callable[[], object]:
        """Return a function that undoes the tool call."""
        tool = self.call.tool
        assert tool.compensate is not None
        result = self.result.data if isinstance(self.result, ToolAnswer) else self.result
        return _with_arguments(tool.compensate, self.call, result=result)


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """A model's tool call with its parsed arguments, as passed to tool interceptors.

    Attributes:
        call: The call as the model wrote it.
        tool: The tool.
        arguments: The arguments by parameter name. Optional ones that the model left out are missing.
        invocation: The call of the service method.
        parser: Reads and writes the arguments in the form in which the model writes them.
        hidden_arguments: The values for parameters that the model does not see, by parameter name.
    """

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, object]
    invocation: Invocation
    parser: TypeParser[dict[str, object]]
    hidden_arguments: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.tool.name

    def written_arguments(self) -> str:
        """Return the arguments as JSON data in the form that the model writes.

        Raises ToolError if they do not fit the tool.
        """
        try:
            return self.parser.write(dict(self.arguments))
        except ValueError as error:
            message = f"the arguments of {self.name} were changed, and they do not fit: {error}"
            raise ToolError(f"{self.invocation.plan.qualname}: {message}", call=self.call) from error

    def with_arguments(self, **changes: object) -> ToolInvocation:
        """Return a copy of the tool call in which some arguments are changed or added."""
        return replace(self, arguments={**self.arguments, **changes})

    def answer(self, result: object) -> ToolRun:
        """Return a successful ToolRun with the given result, without calling the tool."""
        return _succeeded(self, result, 0.0)

    def refuse(self, message: str) -> ToolRun:
        """Return a failed ToolRun with a message that the model receives instead of a result."""
        return ToolRun(self.call, self.arguments, None, message, ToolError(message, call=self.call), 0.0)


def prepare_call(
    call: ToolCall,
    tools: Mapping[str, Tool],
    parsers: Mapping[str, TypeParser[dict[str, object]]],
    invocation: Invocation,
    answer_tool: str | None = None,
) -> ToolInvocation | ToolRun:
    """Parse the arguments of a model's tool call.

    Returns a failed run if the tool does not exist or if the arguments cannot be parsed.

    Args:
        call: The call as the model wrote it.
        tools: The tools by name.
        parsers: The parsers of their arguments, by name.
        invocation: The service call. It has the values for parameters that the model does not see, and the
            functions that choose the text for the model when the tool call fails.
        answer_tool: The name of the tool by which the model gives its answer, if there is one.

    Raises:
        ToolError: A value for a parameter is missing, or a function of ``ToolErrors`` raised.
    """
    tool, errors = tools.get(call.name), invocation.plan.tool_errors
    if tool is None:
        names = ", ".join([*tools, *([answer_tool] if answer_tool else [])]) or "none"
        text = f"There is no tool {call.name}. The tools are: {names}."
        run = ToolRun(call, None, None, text, ToolError(text, call=call), 0.0)
        return _with_error_text(run, errors.unknown, invocation)
    try:
        # Some models send no text if a call has no arguments.
        text = call.arguments.strip()
        with arguments_for_validators(invocation.arguments), _verified(parsers[call.name], invocation):
            arguments = parsers[call.name].parse("{}" if text in ("", "null") else text)
    except OutputParsingError as error:
        text = "The arguments cannot be read:\n" + "\n".join(f"- {problem}" for problem in error.problems)
        return _with_error_text(ToolRun(call, None, None, text, error, 0.0), errors.arguments, invocation)
    context = hidden_arguments(call, tool, invocation) if tool.injected else {}
    return ToolInvocation(call, tool, arguments, invocation, parsers[call.name], context)


def _verified(parser: TypeParser[Any], invocation: Invocation) -> AbstractContextManager[None]:
    """Return a context in which the quotes of cited arguments are verified in the texts of the call."""
    if not parser.has_citations:
        return nullcontext()
    from .citations import sources_of  # few tools take cited values

    return cited_from(sources_of(invocation, invocation.plan.check or "value"))


def hidden_arguments(call: ToolCall, tool: Tool, invocation: Invocation) -> dict[str, object]:
    """Return the arguments of a tool that the program sets instead of the model, such as the user name.

    Raises ToolError if the service call lacks one of these values.
    """
    context: dict[str, object] = {}
    values = {**invocation.arguments, **invocation.tool_context}
    for name, role in tool.injected.items():
        if role is CallContext:
            context[name] = invocation
        elif role is ToolCall:
            context[name] = replace(call, idempotency_key=_idempotency_key(call, invocation))
        else:
            # The memory id and the user name may have another name in the method.
            source = name if role is ToolContext else invocation.plan.role_names.get(role, "")
            if source not in values:
                message = f"the tool {tool.name} needs {source or name}, which the call does not provide"
                raise ToolError(message, call=call)
            context[name] = values[source]
    return context


def _idempotency_key(call: ToolCall, invocation: Invocation) -> str:
    recording = invocation.state.recording
    call_id = invocation.id if recording is None else recording.path
    parts = json.dumps([call_id, call.id, call.name, call.arguments])
    return blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def with_result(tool: Tool, result: ExternalResult) -> Tool:
    """Return a copy of a tool whose result is the one that was passed to ``resume``."""
    value = tool.read_result(result.value)
    return replace(tool, function=lambda **arguments: value, asynchronous=False, idempotent=True)


def limit_text(run: ToolRun, max_characters: int | None) -> ToolRun:
    """Truncate a tool's result to ``max_characters``, adding a note for the model."""
    length = len(run.text)
    if max_characters is None or length <= max_characters:
        return run
    note = (
        f"[The result is cut here: you see the first {max_characters:,} of {length:,} characters. "
        "If the rest matters, call the tool in a way that gives less at once.]"
    )
    return run._replace(text=f"{run.text[:max_characters]}\n\n{note}", cut=length - max_characters)


def _with_error_text(run: ToolRun, formatter: ErrorFormatter, invocation: Invocation) -> ToolRun:
    """Replace the error text for the model with the text from the program's ``ToolErrors``, if any.

    Raises AiServiceError if the function raises.
    """
    try:
        arguments: tuple[Any, ...] = (run, invocation) if takes_invocation(formatter) else (run,)
        text = formatter(*arguments)
        if not isinstance(text, str):
            raise TypeError(f"it returned {type(text).__name__}, but it must return the text for the model")
        return run._replace(text=text)
    except AiServiceError:
        raise
    except Exception as error:
        message = f"ToolErrors failed for the call of {run.name}: {error}"
        raise ToolError(message, call=run.call) from error


def execution(prepared: ToolInvocation, limits: ToolLimits) -> Run:
    """Return an effect that runs a tool call and whose outcome is a ToolRun."""
    call, tool, arguments, invocation = prepared.call, prepared.tool, prepared.arguments, prepared.invocation
    function, context = tool.function, prepared.hidden_arguments
    # Service calls that the tool makes count as inner calls, also in its async tasks and threads.
    enclosing = EnclosingCall(invocation, call)
    accounts = (*invocation.state.enclosing, enclosing)
    timeout = tool.timeout or limits.timeout
    if timeout is not None and not tool.asynchronous:
        # The budget ends async tools by itself. Of blocking ones, which it cannot interrupt, it shortens the
        # timeout.
        left = invocation.state.seconds_left
        timeout = timeout if left is None else max(0.001, min(timeout, left))

    # Recorded where the tool runs, because its thread may end after the call.
    def call_tool() -> object:
        result = _collect(function(**arguments, **context), tool)
        if tool.compensate is not None:
            record_undoable(UndoableCall(prepared, result))
        return result

    async def acall_tool() -> object:
        result = await _acollect(function(**arguments, **context), tool)
        if tool.compensate is not None:
            record_undoable(UndoableCall(prepared, result))
        return result

    def failed(error: Exception, started_at: float) -> ToolRun:
        seconds = time.monotonic() - started_at
        enclosing.is_over = isinstance(error, TimeoutError)  # its thread may still run
        if isinstance(error, (*FINAL_ERRORS, ApprovalRequiredError)):  # no further request now
            return ToolRun(call, arguments, None, "", error, seconds)
        run = ToolRun(call, arguments, None, _error_text(tool, error), error, seconds)
        run = _with_error_text(run, invocation.plan.tool_errors.execution, invocation)
        # The call continues, and the model learns only that the tool failed, so the cause is logged here.
        if not isinstance(error, ToolException):
            _LOGGER.error("the tool %s failed", tool.name, exc_info=error)
        return run

    def work() -> ToolRun:
        started_at, token = time.monotonic(), active_accounts.set(accounts)
        try:
            result = call_tool() if timeout is None else _call_with_timeout(timeout, call_tool, prepared)
            # Inside the try block, because a result that cannot be written is a failure of the tool.
            return _succeeded(prepared, result, time.monotonic() - started_at)
        except Exception as error:
            return failed(error, started_at)
        except BaseException as error:
            return failed(_from_cancellation(error), started_at)
        finally:
            active_accounts.reset(token)

    async def awork() -> ToolRun:
        import asyncio

        started_at, token = time.monotonic(), active_accounts.set(accounts)
        try:
            result = await asyncio.wait_for(acall_tool(), timeout)
            return _succeeded(prepared, result, time.monotonic() - started_at)
        except Exception as error:
            return failed(error, started_at)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # the call itself is cancelled, not only the tool
                raise
            return failed(_from_cancellation(error), started_at)
        finally:
            active_accounts.reset(token)

    if tool.asynchronous:
        return Run(awork, tool_call=call, tool=prepared, in_background=True)
    return Run(work, in_thread=True, tool_call=call, tool=prepared)


def record_undoable(done: UndoableCall) -> None:
    """Record a tool call that can be undone; undo the call at once if the service call has already ended."""
    state = done.call.invocation.state
    if state.undoable is None:
        state.undoable = []
    state.undoable.append(done)
    if state.is_abandoned:
        _undo_late(done)


def _undo_late(done: UndoableCall) -> None:
    """Undo a tool call that finished after its timeout or after the end of the service call."""
    undoable = done.call.invocation.state.undoable
    if undoable is None or is_async(done.call.tool.compensate):
        return
    try:
        undoable.remove(done)
    except ValueError:  # the call that ended has undone it
        return
    try:
        done.function()()
    except Exception as error:
        _LOGGER.error(
            "the tool %s, which ended too late, could not be undone", done.call.name, exc_info=error
        )


def _succeeded(call: ToolInvocation, result: object, seconds: float) -> ToolRun:
    if isinstance(result, Exception):  # some functions return their errors
        raise result
    if isinstance(result, ToolAnswer):
        contents = tuple(result.contents)
        return ToolRun(call.call, call.arguments, result.data, result.text, None, seconds, contents=contents)
    media: list[Media] = []
    text = result if type(result) is str else _result_text(_without_media(result, media), call.tool)
    return ToolRun(call.call, call.arguments, result, text, None, seconds, contents=tuple(media))


def _collect(result: object, tool: Tool) -> object:
    """Return a tool's result as a plain value; iterators become lists, and streams their final value."""
    if isinstance(result, Stream):
        return result.result()
    if not isinstance(result, Iterator):
        return result
    return "".join(result) if tool.yields_text else list(result)


async def _acollect(returned: object, tool: Tool) -> object:
    """Await a tool's result and return it as a plain value; async version of ``_collect``."""
    result = await returned if inspect.isawaitable(returned) else returned
    if isinstance(result, AsyncStream):
        return await result.result()
    if isinstance(result, AsyncIterable):
        items = [item async for item in result]
        return "".join(items) if tool.yields_text else items
    return _collect(result, tool)


def _from_cancellation(error: BaseException) -> Exception:
    """Convert a tool's own CancelledError to a RuntimeError, so that only this tool call fails.

    Other errors are raised again.
    """
    import asyncio  # blocking calls do not need it

    if not isinstance(error, asyncio.CancelledError):
        raise error
    failure = RuntimeError("the tool was cancelled from within")
    failure.__cause__ = error
    return failure


def _call_with_timeout(timeout: float, function: Callable[[], object], call: ToolInvocation) -> object:
    """Call a function in a thread, or raise TimeoutError if it takes more than ``timeout`` seconds.

    Python cannot stop a thread, so the function then continues to run. If the tool call succeeds later and
    can be undone, it is undone.
    """
    outcome: list[tuple[object, BaseException | None]] = []
    lock, is_late = threading.Lock(), False

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:
            error = raised
        with lock:
            outcome.append((result, error))
        if is_late and error is None:
            for done in tuple(call.invocation.state.undoable or ()):
                if done.call is call:
                    _undo_late(done)

    thread = threading.Thread(target=copy_context().run, args=(run,), daemon=True)
    thread.start()
    thread.join(timeout)
    with lock:
        is_late = not outcome
    if is_late:
        raise TimeoutError(f"it did not finish within {timeout:g} s")
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _error_text(tool: Tool, error: Exception) -> str:
    """Return the text that tells the model why a tool failed, without details of unexpected errors.

    The text of exceptions other than ToolException may contain secrets.
    """
    if isinstance(error, ToolException):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"The tool {tool.name} did not finish in time."
    if isinstance(error, BudgetExceededError):
        return f"The tool {tool.name} failed: it reached a limit of its own."
    if isinstance(error, ModelError) and error.retryable:
        return f"The tool {tool.name} is not available at the moment."
    return f"The tool {tool.name} failed."


def _result_text(result: object, tool: Tool) -> str:
    """Convert the result of a tool to text for the model.

    Text stays unchanged, and everything else becomes JSON. None is "Done." if the tool is not declared to
    return anything, because ``null`` means that nothing was found.
    """
    if result is None and tool.return_type in (None, NoneType, inspect.Signature.empty):
        return "Done."
    if isinstance(result, Result):  # the tool is a method of another service
        result = result.value
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("the tool returned an awaitable; declare it with async def")
    if isinstance(result, str):
        return str.__str__(result)  # the text of an enum member, not its name
    return _to_json(result)


def _without_media(result: object, media: list[Media]) -> object:
    """Move images and other media out of a tool's result, leaving placeholders such as ``[image 1]``.

    A part without media is returned unchanged.
    """
    if isinstance(result, Media):
        media.append(result)
        return f"[{type(result).__name__.lower()} {len(media)}]"
    parts: dict[object, object] | None = None
    if isinstance(result, (list, tuple)):
        parts = dict(enumerate(result))
    elif isinstance(result, dict):
        parts = result
    elif isinstance(result, BaseModel):
        parts = {name: getattr(result, name) for name in type(result).model_fields}
    elif is_dataclass(result) and not isinstance(result, (type, Result)):
        parts = {one.name: getattr(result, one.name) for one in fields(result)}
    if parts is None:
        return result
    count = len(media)
    replaced = {name: _without_media(part, media) for name, part in parts.items()}
    if len(media) == count:
        return result
    return list(replaced.values()) if isinstance(result, (list, tuple)) else replaced


def _to_json(result: object) -> str:
    """Convert the result of a tool to JSON text, or raise TypeError if it has an unsupported value."""
    errors: list[TypeError] = []

    def to_data(value: object) -> object:
        """Return JSON-compatible data for a value that pydantic cannot serialize."""
        if has_own_text(type(value)):
            return str(value)
        if isinstance(value, Quote):
            return value.quote
        if isinstance(value, Cited):  # without its memory address, which is useless to a model
            return {"value": value.value, "quote": value.quote}
        try:
            if type(value) is not object:  # a parser writes it as its address in memory
                return parser_for(type(value)).node.write(value)  # for example of an attrs class
        except (UnsupportedTypeError, ValueError):
            pass
        name = type_name(type(value))
        errors.append(TypeError(f"{name} cannot be written as JSON; return text, a dataclass or other data"))
        raise errors[0]

    try:
        # NaN is not JSON, and some servers parse the results of tools
        return to_json(result, fallback=to_data, bytes_mode="base64", inf_nan_mode="strings").decode()
    except PydanticSerializationError:
        if errors:  # pydantic raises another error, without this one as its cause
            raise errors[0] from None
        raise


# --- Interceptors and checks around tool calls ---

ToolProceed: TypeAlias = Callable[[ToolInvocation], Flow[ToolRun]]
_MAX_CHECKS = 10  # the maximum number of repetitions if checks keep changing the arguments


class ToolInterceptor(Protocol):
    """A generator function that runs around each tool call of the model, like middleware.

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
        """Check the arguments of a tool call.

        Returns the call, possibly with other arguments, or a ToolRun that replaces the call.

        For a tool that needs approval, or is external, this also runs before a person decides.
        """
        ...

    def check_result(self, call: ToolInvocation, run: ToolRun) -> Flow[ToolRun]:
        """Check a tool's result, and return the ToolRun, possibly with another result or an error."""
        ...


def awaited_parts(tools: Collection[Tool], interceptors: Iterable[object]) -> list[str]:
    """Return the names of async parts, such as guard functions, that a blocking method cannot await."""
    all_interceptors = [*interceptors, *(one for tool in tools for one in tool.interceptors)]
    names = [name for one in all_interceptors for name in getattr(one, "async_parts", ())]
    return list(dict.fromkeys(names))


def run_tool(call: ToolInvocation, limits: ToolLimits) -> Flow[ToolRun]:
    """Run a tool call through the tool interceptors of the service and of the tool.

    The service's interceptors are the outer ones. Raises ToolError if the arguments that the interceptors
    pass on do not fit the tool or differ from those that a person approved, and ApprovalRequiredError if the
    tool is a service that waits for approval.
    """
    interceptors = (*call.invocation.plan.tool_interceptors, *call.tool.interceptors)
    if not interceptors:
        run: ToolRun = yield execution(call, limits)
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
        executed: ToolRun = yield execution(checked, limits)
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
    """Check a tool call's arguments before the call waits for an approval or an external result.

    Returns the call with the arguments to show, or the run that replaces the call if a check refuses it.
    """
    interceptors = (*call.invocation.plan.tool_interceptors, *call.tool.interceptors)
    checks = [one for one in interceptors if isinstance(one, ToolCheck)]
    return (yield from checked_call(call, checks)) if checks else call


def needs_approval(call: ToolInvocation) -> Flow[bool]:
    """Return True if a tool call must be approved.

    A function that decides about it and fails, or returns anything but False, does not let the call run.
    """
    rule = call.tool.needs_approval
    if isinstance(rule, bool):
        return rule
    decide = _with_arguments(rule, call)

    def ask() -> object:
        try:
            decision = decide()
        except Exception:
            return _log_failed_rule(call)
        if inspect.iscoroutine(decision):
            decision.close()
            return True
        return decision

    async def aask() -> object:
        try:
            decision = decide()
            return (await decision) if inspect.isawaitable(decision) else decision
        except Exception:
            return _log_failed_rule(call)

    is_awaited = is_async(rule)
    decision: object = yield Run(
        aask if is_awaited else ask, in_thread=not is_awaited, in_background=is_awaited
    )
    return decision is not False


def _log_failed_rule(call: ToolInvocation) -> bool:
    _LOGGER.exception("needs_approval of the tool %s failed, so the call waits for approval", call.name)
    return True


def checked_call(call: ToolInvocation, checks: Sequence[ToolCheck]) -> Flow[ToolInvocation | ToolRun]:
    """Run the checks on a tool call's arguments until no check changes the arguments.

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
    """Return a tool call's arguments as JSON text, or None if they do not fit the tool."""
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


_KEY = "tools.undoable"  # the key in the stored data of a suspended call


def can_undo(state: CallState) -> bool:
    """Return True if the service call has tool calls that can be undone."""
    return bool(state.undoable) or _KEY in state.interceptor_data


def has_failed(run: ToolRun) -> bool:
    """Return True if a tool raised an exception, False if the call was refused or had wrong arguments."""
    is_refused = isinstance(run.error, ToolError) and run.error.call is run.call
    return run.error is not None and run.arguments is not None and not is_refused


def undo_earlier_tools(runs: Sequence[ToolRun], invocation: Invocation) -> Flow[list[ToolRun]]:
    """Undo all tool calls because one in the latest round failed, and report them to the model.

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
        undone.append((yield from _undo_record(_run_of(done, state), error, state)))
    for stored in reversed(state.interceptor_data.pop(_KEY, [])):
        call = ToolCall(stored["id"], stored["name"], stored["call"])
        try:
            restored = _restored(stored, call, invocation)
        except Exception as problem:  # the tools of the service, or the stored data, may have changed
            run, error = ToolRun(call, None, None, "", None, 0.0), problem
        else:
            run, error = _run_of(restored, state), (yield _undo_effect(restored))
        undone.append((yield from _undo_record(run, error, state)))
    return tuple(undone)


def undo_after(error: BaseException, invocation: Invocation) -> Flow[tuple[ToolRun, ...]]:
    """Undo the tool calls of a service call that ends with an error, unless it or another run continues."""
    state = invocation.state
    if isinstance(error, (GeneratorExit, ApprovalRequiredError)) or not can_undo(state):
        return ()
    if state.recording is not None:
        continues = state.recording.continues_after(error)
    else:  # a durable call that this run could not open still belongs to its journal
        continues = isinstance(error, AlreadyResumedError) or DURABLE_KEY in state.interceptor_data
    return () if continues else (yield from undo_tools(invocation))


def _undo_record(run: ToolRun, error: Exception | None, state: CallState) -> Flow[ToolRun]:
    """Report in the service call's state, to listeners and in the log whether a tool call was undone."""
    error = error or run.undo_error  # set if an interceptor ran the tool twice
    changed = run._replace(undone=error is None, undo_error=error)
    for index, other in enumerate(state.tool_runs):
        if other.call.id == run.call.id:
            state.tool_runs[index] = changed
    if error is not None:
        _LOGGER.error("the tool %s could not be undone", run.name, exc_info=error)
    yield Emit(ToolUndone(changed))
    return changed


# --- Undoing tool calls ---


def _run_of(done: UndoableCall, state: CallState) -> ToolRun:
    """Return the record of a tool call; create it if other calls of the same reply are still running."""
    call = done.call
    for run in state.tool_runs:
        if run.call.id == call.call.id:
            return run
    result = done.result.data if isinstance(done.result, ToolAnswer) else done.result
    return ToolRun(call.call, call.arguments, result, "", None, 0.0)


def _undo_effect(done: UndoableCall) -> Run:
    """Return an effect that undoes a tool call. Its outcome is the exception if that fails, else None.

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
    return Run(
        aundo if is_awaited else undo, in_thread=not is_awaited, deadline=math.inf, in_background=is_awaited
    )


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
            stored["result"] = written_result(result, tool)
    except (TypeError, ValueError) as error:
        stored["problem"] = f"its data could not be stored while the call waited: {error}"
    return stored


def written_result(result: object, tool: Tool) -> str:
    """Return the result of a tool as JSON text; raise TypeError or ValueError if it has no such form."""
    parser = _result_parser(tool)
    text = json.dumps(result) if parser is None else parser.write(result)
    if parser is None and not strict_equal(json.loads(text), result):
        raise TypeError(f"the result of {tool.name} is not JSON; annotate its return type")
    return text


def read_result(text: str, tool: Tool) -> object:
    """Restore the result of a tool from the text of ``written_result``."""
    parser = _result_parser(tool)
    return json.loads(text) if parser is None else parser.restore(text)


def _result_parser(tool: Tool) -> TypeParser[object] | None:
    hint = tool.return_type
    if hint is inspect.Signature.empty or ToolAnswer in (hint, *get_args(hint)):  # the result is its data
        return None
    return parser_for(hint)


def _restored(stored: JsonObject, call: ToolCall, invocation: Invocation) -> UndoableCall:
    """Restore a stored tool call that can be undone, or raise an error if that is no longer possible."""
    if "problem" in stored:
        raise ToolError(stored["problem"], call=call)
    toolbox = invocation.known_toolbox
    tool = None if toolbox is None else toolbox.tools.get(call.name)
    if tool is None or tool.compensate is None:
        missing = "this tool" if tool is None else "a compensate function for it"
        raise ToolError(f"{call.name} cannot be undone: the service no longer has {missing}", call=call)
    arguments = tool.arguments.restore(stored["arguments"])
    result = None
    if "result" in stored:
        result = read_result(stored["result"], tool)
    hidden = hidden_arguments(call, tool, invocation)
    return UndoableCall(ToolInvocation(call, tool, arguments, invocation, tool.arguments, hidden), result)
