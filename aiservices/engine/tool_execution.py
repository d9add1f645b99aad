"""One tool call: read its arguments, run the function, and write the outcome as text for the model."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any

from pydantic_core import to_json

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError

from ..models.errors import AiServiceError, ToolError
from ..models.messages import ToolCall
from ..tools.tool import ErrorFormatter, Tool, ToolErrors, ToolException, ToolRun
from .effects import Run
from .results import Result


def tool_effect(
    call: ToolCall,
    tools: Mapping[str, Tool],
    parsers: Mapping[str, TypeParser[dict[str, Any]]],
    injected: Mapping[str, object],
    errors: ToolErrors,
    timeout: float | None,
) -> Run:
    """Return the effect that runs a tool call; its outcome is a ToolRun.

    Args:
        call: The call as the model wrote it.
        tools: The tools by name.
        parsers: The parsers of their arguments, by name.
        injected: Values for parameters that the model does not see, by name.
        errors: What the model is told when the call fails.
        timeout: Seconds after which the call fails.

    Raises:
        ToolError: An injected value is missing, or a function of ``errors`` raised.
    """
    tool = tools.get(call.name)
    if tool is None:
        names = ", ".join(tools) or "none"
        text = f"There is no tool {call.name}. The tools are: {names}."
        return _failed(call, None, text, ToolError(text, call=call), errors.unknown)
    try:
        arguments = parsers[call.name].parse(call.arguments.strip() or "{}")
    except OutputParsingError as error:
        text = "The arguments cannot be read:\n" + "\n".join(f"- {problem}" for problem in error.problems)
        return _failed(call, None, text, error, errors.arguments)
    context = {}
    for name in tool.injected:
        if name not in injected:
            message = f"the tool {tool.name} needs {name}, which the call does not provide"
            raise ToolError(message, call=call)
        context[name] = injected[name]
    return _run(call, tool, arguments, context, errors.execution, timeout)


def limit_text(run: ToolRun, max_characters: int | None) -> ToolRun:
    """Cut the text of a result to ``max_characters`` and tell the model that there was more."""
    length = len(run.text)
    if max_characters is None or length <= max_characters:
        return run
    note = (
        f"[The result is cut here: you see the first {max_characters:,} of {length:,} characters. "
        "If the rest matters, call the tool in a way that gives less at once.]"
    )
    return run._replace(text=f"{run.text[:max_characters]}\n\n{note}", cut=length - max_characters)


def _failed(
    call: ToolCall,
    arguments: Mapping[str, object] | None,
    text: str,
    error: Exception,
    formatter: ErrorFormatter,
) -> Run:
    run = _with_error_text(ToolRun(call, arguments, None, text, error, 0.0), formatter)
    return Run(lambda: run)


def _with_error_text(run: ToolRun, formatter: ErrorFormatter) -> ToolRun:
    """Let a function of ToolErrors choose the text for the model. Raises AiServiceError if it raises."""
    try:
        text = formatter(run)
        if not isinstance(text, str):
            raise TypeError(
                f"ToolErrors returned {type(text).__name__}; it must return the text for the model"
            )
        return run._replace(text=text)
    except AiServiceError:
        raise
    except Exception as error:
        raise ToolError(f"the call of {run.name} was not answered: {error}", call=run.call) from error


def _run(
    call: ToolCall,
    tool: Tool,
    arguments: Mapping[str, object],
    context: Mapping[str, object],
    formatter: ErrorFormatter,
    timeout: float | None,
) -> Run:
    function = tool.function

    def succeeded(result: object, started_at: float) -> ToolRun:
        return ToolRun(call, arguments, result, _result_text(result), None, time.monotonic() - started_at)

    def failed(error: Exception, started_at: float) -> ToolRun:
        seconds = time.monotonic() - started_at
        return _with_error_text(
            ToolRun(call, arguments, None, _error_text(tool, error), error, seconds), formatter
        )

    def work() -> ToolRun:
        started_at = time.monotonic()
        try:
            if timeout is None:
                return succeeded(function(**arguments, **context), started_at)
            result = _call_with_timeout(timeout, lambda: function(**arguments, **context))
            return succeeded(result, started_at)
        except Exception as error:
            return failed(error, started_at)
        except BaseException as error:
            return failed(_from_cancellation(error), started_at)

    async def awork() -> ToolRun:
        import asyncio

        started_at = time.monotonic()
        try:
            returned = function(**arguments, **context)
            is_awaitable = inspect.isawaitable(returned)
            result = await asyncio.wait_for(returned, timeout) if is_awaitable else returned
            return succeeded(result, started_at)
        except Exception as error:
            return failed(error, started_at)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # the call itself is cancelled, not only the tool
                raise
            return failed(_from_cancellation(error), started_at)

    return Run(awork if tool.asynchronous else work, in_thread=not tool.asynchronous)


def _from_cancellation(error: BaseException) -> Exception:
    """Return an error for a tool that cancelled itself, which must not cancel the call. Re-raise others."""
    import asyncio  # blocking calls do without

    if not isinstance(error, asyncio.CancelledError):
        raise error
    failure = RuntimeError("the tool was cancelled from within")
    failure.__cause__ = error
    return failure


def _call_with_timeout(timeout: float, function: Callable[[], object]) -> Any:
    """Call a function. Raises TimeoutError if it takes too long; it then continues in its thread."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=copy_context().run, args=(run,), daemon=True)
    thread.start()
    thread.join(timeout)
    if not outcome:
        raise TimeoutError(f"it did not finish within {timeout:g} s")
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _error_text(tool: Tool, error: Exception) -> str:
    """Return what the model may know of an error: other exceptions may contain secrets."""
    if isinstance(error, ToolException):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"The tool {tool.name} did not finish in time."
    return f"The tool {tool.name} failed."


def _result_text(result: object) -> str:
    """Return a result as text for the model: text as it is, None as "Done.", everything else as JSON."""
    if result is None:
        return "Done."
    if isinstance(result, Result):  # the tool is a method of another service
        result = result.value
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("the tool returned an awaitable; declare it with async def")
    if isinstance(result, str):
        return str.__str__(result)  # the text of an enum member, not its name
    return to_json(result, fallback=str, bytes_mode="base64").decode()
