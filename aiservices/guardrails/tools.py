"""Check the arguments and the results of tools with guard functions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

from output_parsers.result.errors import OutputParsingError

from ..engine.effects import Flow
from ..engine.tool_execution import ToolInvocation
from ..models.errors import DefinitionError, ToolError
from ..tools.tool import ReturnBehavior, ToolRun
from .guard import (
    Guard,
    GuardrailError,
    Refused,
    Reprompt,
    Rewritten,
    Stage,
    Verdict,
    describe_async_guards,
    guard_failure,
    guard_name,
    guard_problems,
    guard_verdict,
    passed,
    texts_in,
)

# Gets the arguments, a text or the result, and the tool call. Any, because their types depend on the tool.
ToolGuardFunction: TypeAlias = Callable[[Any, ToolInvocation], Verdict | Awaitable[Verdict] | Flow[Verdict]]


class ToolGuardrails:
    """Checks the arguments and the results of tools with guard functions, one after the other.

    Pass it in ``create(…, tool_interceptors=[…])`` for all tools of a service, or in
    ``@tool(interceptors=[…])`` for one tool. Its guards run after all other interceptors, so the tool gets
    exactly the arguments that they checked, and the model the results. If a guard rewrites the arguments, all
    guards check them again.

    A guard returns ``passed()``, ``rewritten(new)`` or ``refused(message)``. The model receives the message
    of a refusal as the result of its call, and a tool whose arguments were refused does not run. An exception
    in a guard ends the call with a GuardrailError. Guards may be async in async calls; there, blocking guards
    run in a thread.

    Args:
        arguments: Functions of the arguments and the ToolInvocation. The arguments are a mapping by parameter
            name. A ``Guard`` with ``on="text"``, such as ``forbidden(…)``, gets each text in the arguments
            instead. For a tool that needs approval they also run before a person is asked.
        results: Functions of the text that the model will receive and the ToolInvocation. A ``Guard`` with
            ``on="value"`` gets the result itself, if the tool did not fail.
    """

    def __init__(
        self,
        *,
        arguments: Sequence[ToolGuardFunction] = (),
        results: Sequence[ToolGuardFunction] = (),
    ) -> None:
        guards: tuple[Any, ...] = (*arguments, *results)
        problems = guard_problems("ToolGuardrails", guards)
        if problems:
            raise DefinitionError(problems)
        self._argument_guards: tuple[Any, ...] = tuple(arguments)
        self._result_guards: tuple[Any, ...] = tuple(results)
        self.async_parts = describe_async_guards(guards)

    def check_arguments(self, call: ToolInvocation) -> Flow[ToolInvocation | ToolRun]:
        """Check the arguments of a tool call; return the call, possibly with new arguments, or a ToolRun."""
        for guard in self._argument_guards:
            verdict: Verdict
            if isinstance(guard, Guard) and guard.on == "text":
                verdict = yield from _check_texts(guard, call)
            else:
                verdict = yield from _verdict(
                    guard, MappingProxyType(dict(call.arguments)), "arguments", call
                )
            if isinstance(verdict, Refused):
                return call.refuse(verdict.message)
            if isinstance(verdict, Rewritten):
                try:
                    call = replace(call, arguments=dict(verdict.new))
                    call.written_arguments()
                except (TypeError, ValueError, ToolError) as error:
                    raise _failure(guard, "arguments", call, error) from error
        return call

    def check_result(self, call: ToolInvocation, run: ToolRun) -> Flow[ToolRun]:
        """Check a tool call's result; return the ToolRun with the result, a rewritten one or an error."""
        for guard in self._result_guards:
            on_value = isinstance(guard, Guard) and guard.on == "value"
            if on_value and run.error is not None:
                continue
            verdict = yield from _verdict(guard, run.result if on_value else run.text, "result", call)
            if isinstance(verdict, Refused):
                error = ToolError(verdict.message, call=call.call)
                run = run._replace(result=None, text=verdict.message, error=error, contents=())
            elif isinstance(verdict, Rewritten):
                try:
                    run = (
                        _with_value(call, run, verdict.new)
                        if on_value
                        else _with_text(call, run, verdict.new)
                    )
                except TypeError as error:
                    raise _failure(guard, "result", call, error) from error
        return run


def _verdict(guard: object, subject: object, stage: Stage, call: ToolInvocation) -> Flow[Verdict]:
    verdict = yield from guard_verdict(guard, subject, stage, call.invocation, call)
    if isinstance(verdict, Reprompt):
        error = TypeError("a tool is not asked again; use refused(…) or rewritten(…)")
        raise _failure(guard, stage, call, error)
    return verdict


def _check_texts(guard: Guard, call: ToolInvocation) -> Flow[Verdict]:
    """Check each string in a tool call's arguments, but not the parameter names."""
    data: dict[str, object] = json.loads(call.written_arguments())
    replacements: dict[str, str] = {}
    for text in dict.fromkeys(text for value in data.values() for text in texts_in(value)):
        verdict = yield from _verdict(guard, text, "arguments", call)
        if isinstance(verdict, Refused):
            return verdict
        if isinstance(verdict, Rewritten):
            if not isinstance(verdict.new, str):
                error = TypeError(f"it rewrote a text as {type(verdict.new).__name__}")
                raise _failure(guard, "arguments", call, error)
            replacements[text] = verdict.new
    if not replacements:
        return passed()
    written = json.dumps({name: _replaced(value, replacements) for name, value in data.items()})
    try:
        return Rewritten(call.parser.parse(written))
    except OutputParsingError as error:
        raise _failure(guard, "arguments", call, error) from error


def _replaced(data: object, replacements: Mapping[str, str]) -> object:
    if isinstance(data, str):
        return replacements.get(data, data)
    if isinstance(data, list):
        return [_replaced(item, replacements) for item in data]
    if isinstance(data, dict):
        return {replacements.get(key, key): _replaced(value, replacements) for key, value in data.items()}
    return data


def _with_value(call: ToolInvocation, run: ToolRun, value: object) -> ToolRun:
    return call.answer(value)._replace(arguments=run.arguments, seconds=run.seconds)


def _with_text(call: ToolInvocation, run: ToolRun, text: object) -> ToolRun:
    if not isinstance(text, str):
        raise TypeError(f"it rewrote a text as {type(text).__name__}")
    if run.result == run.text:
        return run._replace(text=text, result=text)
    if run.error is None and call.tool.return_behavior is not ReturnBehavior.TO_LLM:
        message = 'the result of this tool may be the answer, so its text is not enough; use on="value"'
        raise TypeError(message)
    return run._replace(text=text)


def _failure(guard: Any, stage: Stage, call: ToolInvocation, error: Exception) -> GuardrailError:
    return guard_failure(f"{guard_name(guard)} of the tool {call.name}", stage, call.invocation, error)
