"""Runs the tools that a model called: arguments read, context put in, errors turned into what it may know."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any, NamedTuple

from pydantic_core import to_json

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError

from ..models.errors import AiServiceError, ToolError
from ..models.messages import ToolCall, ToolMessage
from ..tools.tool import Tool, ToolException
from .effects import Run
from .results import Result


class ToolRun(NamedTuple):
    """One call of a tool: its arguments by name (None when they could not be read), its result or its error.

    ``text`` is what the model is told of it; ``cut`` is how many characters were beyond the limit and are not
    in there. ``result`` is whole in any case. ``seconds`` is the wall time that it took.
    """

    call: ToolCall
    arguments: Mapping[str, Any] | None
    result: Any
    text: str
    error: Exception | None
    seconds: float
    cut: int = 0

    @property
    def name(self) -> str:
        """The name of the tool, as the model called it."""
        return self.call.name

    @property
    def message(self) -> ToolMessage:
        """What the model is told, as a message."""
        return ToolMessage(self.call.id, self.call.name, self.text)


Told = Callable[[ToolRun], str]


class ToolErrors(NamedTuple):
    """What the model is told when a call fails; each gives the text, or raises to end the method's call.

    They are called and not awaited. What is raised is the ``__cause__`` of a ToolError, unless it is an error
    of ours.

    ``unknown``: there is no such tool. ``arguments``: they cannot be read. ``execution``: the tool raised;
    the default tells the text of a ToolException, and of all other errors only that the tool failed.
    """

    unknown: Told = lambda run: run.text
    arguments: Told = lambda run: run.text
    execution: Told = lambda run: run.text


def run_of(
    call: ToolCall,
    tools: Mapping[str, Tool],
    readers: Mapping[str, TypeParser[dict[str, Any]]],
    injected: Mapping[str, Any],
    errors: ToolErrors,
    timeout: float | None,
) -> Run:
    """The need that runs a call; its outcome is a ToolRun. Raises what ``errors`` raises, as ToolError."""
    tool = tools.get(call.name)
    if tool is None:
        names = ", ".join(tools) or "none"
        said = f"There is no tool {call.name}. The tools are: {names}."
        return _failed(call, None, said, ToolError(said, call=call), errors.unknown)
    try:
        given = readers[call.name].parse(call.arguments.strip() or "{}")
    except OutputParsingError as error:
        said = "The arguments cannot be read:\n" + "\n".join(f"- {problem}" for problem in error.problems)
        return _failed(call, None, said, error, errors.arguments)
    missing = [name for name in tool.injected if name not in injected]
    if missing:
        raise ToolError(
            f"the tool {tool.name} needs {', '.join(missing)}, which the call does not give", call=call
        )
    context = {name: injected[name] for name in tool.injected}
    return _running(call, tool, given, context, errors, timeout)


def _failed(call: ToolCall, given: Mapping[str, Any] | None, said: str, error: Exception, told: Told) -> Run:
    run = ToolRun(call, given, None, said, error, 0.0)
    failed = _told(told, run)
    return Run(lambda: failed)


def _told(told: Told, run: ToolRun) -> ToolRun:
    """The run with what the model is told. Raises AiServiceError where the one who says it raises."""
    try:
        text = told(run)
        if not isinstance(text, str):
            raise TypeError(f"ToolErrors gave {type(text).__name__}, and the model is told a text")
        return run._replace(text=text)
    except AiServiceError:
        raise
    except Exception as error:
        raise ToolError(f"the call of {run.name} is not answered: {error}", call=run.call) from error


def shortened(run: ToolRun, characters: int | None) -> ToolRun:
    """The run with so many characters of its text, and the model told that there were more."""
    whole = len(run.text)
    if characters is None or whole <= characters:
        return run
    note = (
        f"[The result is cut here: you see the first {characters:,} of {whole:,} characters. "
        "If the rest matters, call the tool in a way that gives less at once.]"
    )
    return run._replace(text=f"{run.text[:characters]}\n\n{note}", cut=whole - characters)


def _running(
    call: ToolCall,
    tool: Tool,
    given: Mapping[str, Any],
    context: Mapping[str, Any],
    errors: ToolErrors,
    timeout: float | None,
) -> Run:
    function = tool.function

    def done(result: Any, began: float) -> ToolRun:
        return ToolRun(call, given, result, _written(result), None, time.monotonic() - began)

    def failed(error: Exception, began: float) -> ToolRun:
        run = ToolRun(call, given, None, _safe(tool, error), error, time.monotonic() - began)
        return _told(errors.execution, run)

    def work() -> ToolRun:
        began = time.monotonic()
        try:
            return done(_within(timeout, lambda: function(**given, **context)), began)
        except Exception as error:
            return failed(error, began)
        except BaseException as error:
            return failed(_cancelled(error), began)

    async def awork() -> ToolRun:
        import asyncio

        began = time.monotonic()
        try:
            made = function(**given, **context)
            result = await asyncio.wait_for(made, timeout) if inspect.isawaitable(made) else made
            return done(result, began)
        except Exception as error:
            return failed(error, began)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # it is the call that is cancelled
                raise
            return failed(_cancelled(error), began)

    return Run(awork if tool.asynchronous else work, in_thread=not tool.asynchronous)


def _cancelled(error: BaseException) -> Exception:
    """The error of a tool that cancelled itself, which is not to cancel the call. Raises all others."""
    import asyncio  # blocking calls do without

    if not isinstance(error, asyncio.CancelledError):
        raise error
    failure = RuntimeError("the tool was cancelled from within")
    failure.__cause__ = error
    return failure


def _within(timeout: float | None, work: Callable[[], Any]) -> Any:
    """What a function gives. Raises TimeoutError when it takes too long; it is then left to itself."""
    if timeout is None:
        return work()
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((work(), None))
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


def _safe(tool: Tool, error: Exception) -> str:
    """What the model may know of an error."""
    if isinstance(error, ToolException):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"The tool {tool.name} did not finish in time."
    return f"The tool {tool.name} failed."


def _written(result: Any) -> str:
    """A result as the model reads it: text as it is, nothing as "Done.", all else as JSON."""
    if result is None:
        return "Done."
    if isinstance(result, Result):  # of a method of a service
        result = result.value
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("the tool gave an awaitable; declare it with async def")
    if isinstance(result, str):
        return str.__str__(result)  # of a member of an enum its text, and not its name
    return to_json(result, fallback=str, bytes_mode="base64").decode()
