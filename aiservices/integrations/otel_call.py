"""One call of a service, in a span of its own, with those of its requests and tools below it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts
from opentelemetry.trace import SpanKind, set_span_in_context

from ..approval import ApprovalRequiredError
from ..errors import usage_of
from ..events import ToolStarted
from ..flow import All, Ask, Do, Emit, Flow, Need, Pause
from ..gates import Withheld
from ..messages import ToolCall
from ..pipeline import Answer
from ..plan import Turn
from ..streams import AttemptStarted
from ..tool_run import ToolRun
from . import otel_names as names
from .otel_content import writable
from .otel_events import noted
from .otel_request import TracedModel
from .otel_signals import Attached, Attributes, Signals, fail, harmless, type_of, usage_attributes

if TYPE_CHECKING:
    from opentelemetry.trace import Span

__all__ = ["TracedCall"]


class TracedCall:
    """The spans of one call: ``fulfil`` gives the outcome of each need of its flow, each below the call's.

    A method with tools is an agent to the conventions, since the model says what is done; one without is a
    workflow.
    """

    def __init__(self, signals: Signals, turn: Turn) -> None:
        self._signals = signals
        self._turn = turn
        self._waiting: list[ToolCall] = []  # told of, and about to run
        self._agent = turn.plan.toolbox is not None
        operation = names.INVOKE_AGENT if self._agent else names.INVOKE_WORKFLOW
        self._named = {names.AGENT_NAME if self._agent else names.WORKFLOW_NAME: turn.plan.where}
        self._of_conversation: Attributes = (
            {} if turn.memory_id is None else {names.CONVERSATION: str(turn.memory_id)}
        )
        self._around = contexts.get_current()
        attributes: Attributes = {names.OPERATION: operation, **self._named, **self._of_conversation}
        if self._agent:
            attributes[names.PROVIDER] = names.provider_and_model(turn.plan.model.name)[0]
        name = f"{operation} {turn.plan.where}"
        self._span: Span = signals.tracer.start_span(name, self._around, SpanKind.INTERNAL, attributes)
        self._context = set_span_in_context(self._span, self._around)
        self._began = time.perf_counter()

    def fulfil(self, need: Need) -> Flow[Any]:
        """The outcome of a need, in the span that it belongs to."""
        match need:
            case Ask():
                return (yield from self._ask(need))
            case All():
                return (yield from self._all(need))
            case Do():
                return (yield self._do(need))
            case Emit(AttemptStarted()):
                self._waiting = []
            case Emit(ToolStarted(call)):
                self._waiting.append(call)
            case Emit() | Pause():
                with harmless():
                    self._note(need)
        return (yield need)

    def _note(self, need: Emit | Pause) -> None:
        event = noted(need, content=self._signals.content)
        if event is not None:
            self._span.add_event(*event)

    def _ask(self, need: Ask) -> Flow[Any]:
        model = self._model(need)
        try:
            reply = yield self._asked(need, model)
        except (GeneratorExit, Withheld):
            model.end(left=True)
            raise
        except BaseException as error:
            model.end(error)
            raise
        model.end()
        return reply

    def _all(self, need: All) -> Flow[Any]:
        calls, self._waiting = self._waiting, []
        if len(calls) == len(need.needs):
            return (yield need._replace(needs=tuple(map(self._tool, need.needs, calls))))
        models = [self._model(one) for one in need.needs if isinstance(one, Ask)]
        left = iter(models)
        needs = tuple(
            self._asked(one, next(left)) if isinstance(one, Ask) else self._do(one) for one in need.needs
        )
        failure: BaseException | None = None
        try:
            return (yield need._replace(needs=needs))
        except BaseException as error:
            failure = error
            raise
        finally:
            for model in models:
                model.end(failure)

    def _asked(self, need: Ask, model: TracedModel) -> Ask:
        return need._replace(model=model, gates=tuple(map(self._do, need.gates)))

    def _model(self, need: Ask) -> TracedModel:
        return TracedModel(need.model, self._signals, self._context, self._of_conversation)

    def _do(self, need: Do) -> Do:
        """The same, with the call's span as the current one while it runs."""
        function, context = need.function, self._context

        def run() -> Any:
            with Attached(context):
                return function()

        async def arun() -> Any:
            with Attached(context):
                outcome = function()
                return await outcome if isawaitable(outcome) else outcome

        return need._replace(function=wraps(function)(arun if self._on_a_loop(need) else run))

    def _on_a_loop(self, need: Do) -> bool:
        return self._turn.plan.returns.asynchronous and not need.in_thread

    def _tool(self, need: Ask | Do, call: ToolCall) -> Ask | Do:
        if isinstance(need, Ask):
            return need
        function: Callable[[], Any] = need.function

        def run() -> ToolRun:
            with self._in_tool(call) as done:
                run: ToolRun = function()
                done.append(run)
                return run

        async def arun() -> ToolRun:
            with self._in_tool(call) as done:
                run: ToolRun = await function()
                done.append(run)
                return run

        return need._replace(function=wraps(function)(arun if iscoroutinefunction(function) else run))

    @contextmanager
    def _in_tool(self, call: ToolCall) -> Iterator[list[ToolRun]]:
        """The span of a tool, which ends with the run that is put into the list."""
        signals, began, done = self._signals, time.perf_counter(), list[ToolRun]()
        about = {names.TOOL_NAME: call.name, names.TOOL_TYPE: "function", **self._named}
        attributes: Attributes = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_CALL_ID: call.id, **about}
        name = f"{names.EXECUTE_TOOL} {call.name}"
        span = signals.tracer.start_span(name, self._context, SpanKind.INTERNAL, attributes)
        context = set_span_in_context(span, self._context)
        error: BaseException | None = None
        try:
            with Attached(context):
                yield done
            error = done[0].error
        except BaseException as raised:
            error = raised
            raise
        finally:
            with harmless():
                self._write_tool(span, call, done, error)
            failed = {} if error is None else {names.ERROR_TYPE: type_of(error)}
            signals.seconds[names.TOOL_DURATION].record(
                time.perf_counter() - began, {**about, **failed}, context
            )
            span.end()

    def _write_tool(
        self, span: Span, call: ToolCall, done: list[ToolRun], error: BaseException | None
    ) -> None:
        toolbox = self._turn.plan.toolbox
        tool = None if toolbox is None else toolbox.tools.get(call.name)
        if tool is not None and tool.description:
            span.set_attribute(names.TOOL_DESCRIPTION, tool.description)
        if self._signals.content:
            span.set_attribute(names.TOOL_ARGUMENTS, writable(call.arguments))
            if error is None:
                span.set_attribute(names.TOOL_RESULT, writable(done[0].text))
        if error is not None:
            fail(span, error, content=self._signals.content)

    def end(
        self, answer: Answer | None = None, error: BaseException | None = None, *, left: bool = False
    ) -> None:
        """End the span of the call with its answer, or its error; ``left``: its stream was closed before."""
        if isinstance(error, ApprovalRequiredError):
            self._span.add_event(names.APPROVAL_REQUIRED, {"tools": [call.name for call in error.calls]})
            error = None
        self._write(answer, error, left=left)
        failed = {} if error is None else {names.ERROR_TYPE: type_of(error)}
        seconds = time.perf_counter() - self._began
        metric = names.AGENT_DURATION if self._agent else names.WORKFLOW_DURATION
        self._signals.seconds[metric].record(seconds, {**self._named, **failed}, self._context)
        self._span.end()

    def _write(self, answer: Answer | None, error: BaseException | None, *, left: bool) -> None:
        attempts = self._turn.context.attempts
        shown: Attributes = {names.ATTEMPTS: len(attempts)}
        usage = usage_of(attempts)
        if usage is not None and self._agent:
            shown |= usage_attributes(usage)
        if answer is not None:
            shown |= {names.STRATEGY: answer.strategy.value, names.COERCIONS: len(answer.coercions)}
        if left:
            shown[names.LEFT] = True
        self._span.set_attributes(shown)
        if error is not None:
            fail(self._span, error, content=self._signals.content)
