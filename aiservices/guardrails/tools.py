"""Guards of the arguments and the results of tools."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from inspect import Signature
from types import MappingProxyType, NoneType
from typing import Any, TypeAlias

from output_parsers.parser.type_parser import parser_for
from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import dump_json

from ..engine.effects import Flow
from ..engine.tool_execution import ToolInvocation
from ..models.arguments import checks_arguments
from ..models.errors import DefinitionError, ToolError
from ..models.media import Media
from ..models.messages import ToolMessage
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
)
from .request_texts import texts_of_contents
from .texts import map_texts, texts_of

# Gets the arguments, a text or the result, and the tool call. Any, because their types depend on the tool.
ToolGuardFunction: TypeAlias = Callable[[Any, ToolInvocation], Verdict | Awaitable[Verdict] | Flow[Verdict]]


@checks_arguments
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
            instead. For a tool that needs approval they also run before a person decides.
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
        self._argument_guards: tuple[object, ...] = tuple(arguments)
        self._result_guards: tuple[object, ...] = tuple(results)
        self.async_parts = describe_async_guards(guards)

    def check_arguments(self, call: ToolInvocation) -> Flow[ToolInvocation | ToolRun]:
        """Check the arguments of a tool call.

        Returns the call, possibly with new arguments, or a ToolRun that replaces the call.
        """
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
        """Check the result of a tool call, and return a ToolRun with the result or an error."""
        for guard in self._result_guards:
            if not (isinstance(guard, Guard) and guard.on == "value"):
                run = yield from _check_run_texts(guard, call, run)
            elif run.error is None:
                verdict = yield from _verdict(guard, run.result, "result", call)
                if isinstance(verdict, Refused):
                    run = _refused_run(call, run, verdict)
                elif isinstance(verdict, Rewritten):
                    new = call.answer(verdict.new)
                    run = new._replace(arguments=run.arguments, seconds=run.seconds)
        return run


def _verdict(guard: object, subject: object, stage: Stage, call: ToolInvocation) -> Flow[Verdict]:
    verdict = yield from guard_verdict(guard, subject, stage, call.invocation, call)
    if isinstance(verdict, Reprompt):
        error = TypeError("a tool call is not repeated; use refused(…) or rewritten(…)")
        raise _failure(guard, stage, call, error)
    return verdict


def _check_texts(guard: Guard, call: ToolInvocation) -> Flow[Verdict]:
    """Check each text in a tool call's arguments, but not the parameter names."""
    data, schema = json.loads(call.written_arguments()), call.parser.schema or {}
    outcome = yield from _checked_data(guard, data, schema, "arguments", call)
    if isinstance(outcome, Refused) or outcome is data:
        return outcome if isinstance(outcome, Refused) else passed()
    try:
        return Rewritten(call.parser.parse(dump_json(outcome)))
    except OutputParsingError as error:
        raise _failure(guard, "arguments", call, error) from error


def _check_run_texts(guard: object, call: ToolInvocation, run: ToolRun) -> Flow[ToolRun]:
    """Check the text of a tool's result, or each text in a result that is written as JSON."""
    if run.error is None and not isinstance(run.result, str):
        try:
            data = json.loads(run.text)
        except ValueError:  # the result was not written as JSON
            data = run.text
    else:
        data = run.text
    schema = _result_schema(call, run) if data is not run.text else {}
    if not isinstance(data, (bool, NoneType)) and not texts_of(data, schema):
        data, schema = run.text, {}  # a number, for example
    outcome = yield from _checked_data(guard, data, schema, "result", call)
    if isinstance(outcome, Refused):
        return _refused_run(call, run, outcome)
    contents = yield from _checked_contents(guard, call, run)
    if isinstance(contents, Refused):
        return _refused_run(call, run, contents)
    run = run._replace(contents=contents)
    if outcome is data:
        return run
    try:
        return _with_run_text(call, run, outcome if isinstance(data, str) else dump_json(outcome), outcome)
    except (TypeError, ValueError) as error:
        raise _failure(guard, "result", call, error) from error


def _checked_contents(guard: object, call: ToolInvocation, run: ToolRun) -> Flow[tuple[Media, ...] | Refused]:
    """Check the names and the texts of the files in a tool's result; return the files, or a refusal."""
    message = ToolMessage("", "", "", contents=run.contents)
    for checked in texts_of_contents(message):
        text = yield from _checked_text(guard, checked.text, "result", call)
        if isinstance(text, Refused):
            return text
        if text is not checked.text:
            try:
                message = checked.change(message, text)
            except ValueError as error:
                raise _failure(guard, "result", call, error) from error
    return tuple(part for part in message.contents if not isinstance(part, str))


def _result_schema(call: ToolInvocation, run: ToolRun) -> Mapping[str, object]:
    """Return the JSON Schema of a tool's result, which says what is text; {} if the type has none."""
    annotation = call.tool.return_type
    try:
        return parser_for(type(run.result) if annotation is Signature.empty else annotation).schema or {}
    except (TypeError, ValueError):
        return {}


def _checked_data(
    guard: object, data: object, schema: Mapping[str, object], stage: Stage, call: ToolInvocation
) -> Flow[Any]:
    """Run a guard on each text in JSON data; return a refusal or the data, possibly with new texts."""
    replacements: dict[str, str] = {}
    for text in texts_of(data, schema):
        outcome = yield from _checked_text(guard, text, stage, call)
        if isinstance(outcome, Refused):
            return outcome
        if outcome is not text:
            replacements[text] = outcome
    try:
        return map_texts(data, schema, lambda text: replacements.get(text, text)) if replacements else data
    except ValueError as error:
        raise _failure(guard, stage, call, error) from error


def _checked_text(guard: object, text: str, stage: Stage, call: ToolInvocation) -> Flow[str | Refused]:
    """Run a guard on a text of a tool call; return the text, possibly rewritten, or a refusal."""
    verdict = yield from _verdict(guard, text, stage, call)
    if isinstance(verdict, Refused):
        return verdict
    try:
        return verdict.text if isinstance(verdict, Rewritten) else text
    except TypeError as error:
        raise _failure(guard, stage, call, error) from error


def _refused_run(call: ToolInvocation, run: ToolRun, verdict: Refused) -> ToolRun:
    error = ToolError(verdict.message, call=call.call)
    return run._replace(result=None, text=verdict.message, error=error, contents=())


def _with_run_text(call: ToolInvocation, run: ToolRun, text: str, data: object) -> ToolRun:
    """Return a copy of a tool run with another text; ``data`` is what the text says."""
    if run.result == run.text:
        return run._replace(text=text, result=text)
    if run.error is None and call.tool.return_behavior is not ReturnBehavior.TO_LLM:
        return run._replace(text=text, result=call.tool.read_result(data))
    return run._replace(text=text)


def _failure(guard: Any, stage: Stage, call: ToolInvocation, error: Exception) -> GuardrailError:
    return guard_failure(f"{guard_name(guard)} of the tool {call.name}", stage, call.invocation, error)
