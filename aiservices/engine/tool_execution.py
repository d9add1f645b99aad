"""Run a model's tool call: parse the arguments, call the function, and convert the result to text."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import AsyncIterable, Callable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from types import NoneType
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from output_parsers.parser.registry import parser_for
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError, UnsupportedTypeError
from output_parsers.types.target import type_name

from ..interface.decorators import CallContext, ToolContext
from ..interface.parameters import is_async, takes_invocation
from ..models.errors import AiServiceError, BudgetExceededError, ModelError, ToolError
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
from .approval import ApprovalRequiredError
from .effects import Run
from .inner_calls import FINAL_ERRORS
from .plan import Invocation
from .results import Result
from .streams import AsyncStream, Stream

_LOGGER = logging.getLogger("aiservices")


@dataclass(frozen=True, slots=True, eq=False)
class UndoableCall:
    """A successful tool call that can be undone with the ``compensate`` function of its tool.

    Attributes:
        call: The call.
        result: What the tool returned.
    """

    call: ToolInvocation
    result: Any

    def function(self) -> Callable[[], Any]:
        """Return a function that undoes the tool call."""
        tool = self.call.tool
        assert tool.compensate is not None
        defaults = {
            parameter.name: parameter.default
            for parameter in inspect.signature(tool.function).parameters.values()
            if parameter.default is not parameter.empty
        }
        result = self.result.data if isinstance(self.result, ToolAnswer) else self.result
        values = {**defaults, **self.call.arguments, **self.call.hidden_arguments, "result": result}
        parameters = inspect.signature(tool.compensate).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            names = {parameter.name for parameter in parameters}
            values = {name: value for name, value in values.items() if name in names}
        return partial(tool.compensate, **values)


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
    arguments: Mapping[str, Any]
    invocation: Invocation
    parser: TypeParser[dict[str, Any]]
    hidden_arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.tool.name

    def written_arguments(self) -> str:
        """Return the arguments as JSON, as the model would write them.

        Raises ToolError if they do not fit the tool.
        """
        try:
            return self.parser.write(dict(self.arguments))
        except ValueError as error:
            message = f"the arguments of {self.name} were changed, and they do not fit: {error}"
            raise ToolError(f"{self.invocation.plan.qualname}: {message}", call=self.call) from error

    def with_arguments(self, **changes: Any) -> ToolInvocation:
        """Return a copy in which some arguments are changed or added."""
        return replace(self, arguments={**self.arguments, **changes})

    def answer(self, result: Any) -> ToolRun:
        """Return a successful ToolRun with the given result, without calling the tool."""
        return _succeeded(self, result, 0.0)

    def refuse(self, message: str) -> ToolRun:
        """Return a failed ToolRun, whose message the model receives instead of a result."""
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
        arguments = parsers[call.name].parse(call.arguments.strip() or "{}")
    except OutputParsingError as error:
        text = "The arguments cannot be read:\n" + "\n".join(f"- {problem}" for problem in error.problems)
        return _with_error_text(ToolRun(call, None, None, text, error, 0.0), errors.arguments, invocation)
    context = hidden_arguments(call, tool, invocation) if tool.injected else {}
    return ToolInvocation(call, tool, arguments, invocation, parsers[call.name], context)


def hidden_arguments(call: ToolCall, tool: Tool, invocation: Invocation) -> dict[str, object]:
    """Return the values of the parameters that the model does not see.

    Raises ToolError if the service call lacks one of these values.
    """
    context: dict[str, object] = {}
    values = {**invocation.arguments, **invocation.tool_context}
    for name, role in tool.injected.items():
        if role is CallContext:
            context[name] = invocation
        elif role is ToolCall:
            context[name] = call
        else:
            # The memory id and the user name may have another name in the method.
            source = name if role is ToolContext else invocation.plan.role_names.get(role, "")
            if source not in values:
                message = f"the tool {tool.name} needs {source or name}, which the call does not provide"
                raise ToolError(message, call=call)
            context[name] = values[source]
    return context


def with_result(tool: Tool, result: ExternalResult) -> Tool:
    """Return a copy of an external tool that returns a result passed to ``resume``."""
    value = tool.read_result(result.value)
    return replace(tool, function=lambda **arguments: value)


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
    """Set the error text that the model receives for a failed tool call, as configured by the developer.

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
    """Return a step that runs a tool call and returns its ToolRun."""
    call, tool, arguments, invocation = prepared.call, prepared.tool, prepared.arguments, prepared.invocation
    function, context = tool.function, prepared.hidden_arguments
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
            _record(UndoableCall(prepared, result))
        return result

    async def acall_tool() -> object:
        result = await _acollect(function(**arguments, **context), tool)
        if tool.compensate is not None:
            _record(UndoableCall(prepared, result))
        return result

    def failed(error: Exception, started_at: float) -> ToolRun:
        seconds = time.monotonic() - started_at
        if isinstance(error, (*FINAL_ERRORS, ApprovalRequiredError)):  # the model is not asked again now
            return ToolRun(call, arguments, None, "", error, seconds)
        run = ToolRun(call, arguments, None, _error_text(tool, error), error, seconds)
        run = _with_error_text(run, invocation.plan.tool_errors.execution, invocation)
        # The call continues, and the model learns only that the tool failed, so the cause is logged here.
        if not isinstance(error, ToolException):
            _LOGGER.error("the tool %s failed", tool.name, exc_info=error)
        return run

    def work() -> ToolRun:
        started_at = time.monotonic()
        try:
            result = call_tool() if timeout is None else _call_with_timeout(timeout, call_tool, prepared)
            # Inside the try block, because a result that cannot be written is a failure of the tool.
            return _succeeded(prepared, result, time.monotonic() - started_at)
        except Exception as error:
            return failed(error, started_at)
        except BaseException as error:
            return failed(_from_cancellation(error), started_at)

    async def awork() -> ToolRun:
        import asyncio

        started_at = time.monotonic()
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

    return Run(awork if tool.asynchronous else work, in_thread=not tool.asynchronous, tool_call=call)


def _record(done: UndoableCall) -> None:
    """Record a tool call that can be undone, and undo it at once if the service call has already ended."""
    state = done.call.invocation.state
    if state.undoable is None:
        state.undoable = []
    state.undoable.append(done)
    if state.is_abandoned:
        _undo_late(done)


def _undo_late(done: UndoableCall) -> None:
    """Undo a tool call whose thread finished only after its timeout or after the end of the service call."""
    undoable = done.call.invocation.state.undoable
    if undoable is None or done not in undoable or is_async(done.call.tool.compensate):
        return
    try:
        undoable.remove(done)
    except ValueError:  # the call that ended has undone it at the same time
        return
    try:
        done.function()()
    except Exception as error:
        _LOGGER.error(
            "the tool %s, which ended too late, could not be undone", done.call.name, exc_info=error
        )


def _succeeded(call: ToolInvocation, result: object, seconds: float) -> ToolRun:
    if isinstance(result, ToolAnswer):
        contents = tuple(result.contents)
        return ToolRun(call.call, call.arguments, result.data, result.text, None, seconds, contents=contents)
    media: list[Media] = []
    text = _result_text(_without_media(result, media), call.tool)
    return ToolRun(call.call, call.arguments, result, text, None, seconds, contents=tuple(media))


def _collect(result: object, tool: Tool) -> object:
    """Convert a tool's result to a plain value, reading iterators and streams to the end."""
    if isinstance(result, Stream):
        return result.result()
    if not isinstance(result, Iterator):
        return result
    return "".join(result) if tool.yields_text else list(result)


async def _acollect(returned: object, tool: Tool) -> object:
    """Await a tool's result and convert it to a plain value, reading iterators and streams to the end."""
    result = await returned if inspect.isawaitable(returned) else returned
    if isinstance(result, AsyncStream):
        return await result.result()
    if isinstance(result, AsyncIterable):
        items = [item async for item in result]
        return "".join(items) if tool.yields_text else items
    return _collect(result, tool)


def _from_cancellation(error: BaseException) -> Exception:
    """Convert a CancelledError raised inside a tool to a RuntimeError, so that only this tool call fails.

    Other errors are raised again.
    """
    import asyncio  # blocking calls do not need it

    if not isinstance(error, asyncio.CancelledError):
        raise error
    failure = RuntimeError("the tool was cancelled from within")
    failure.__cause__ = error
    return failure


def _call_with_timeout(timeout: float, function: Callable[[], object], call: ToolInvocation) -> Any:
    """Call a function in a thread, or raise TimeoutError if it takes more than ``timeout`` seconds.

    Python cannot stop a thread, so the function then continues to run. If the tool call succeeds later and
    can be undone, it is undone.
    """
    outcome: list[Any] = []
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
        try:
            if type(value) is not object:  # a parser writes it as its address in memory
                return parser_for(type(value)).node.write(value)  # for example of an attrs class
        except (UnsupportedTypeError, ValueError):
            pass
        name = type_name(type(value))
        errors.append(TypeError(f"{name} cannot be written as JSON; return text, a dataclass or other data"))
        raise errors[0]

    try:
        return to_json(result, fallback=to_data, bytes_mode="base64").decode()
    except PydanticSerializationError:
        if errors:  # pydantic raises another error, without this one as its cause
            raise errors[0] from None
        raise
