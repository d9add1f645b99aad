"""Calls of services as spans and metrics of OpenTelemetry. Needs the extra ``otel``."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opentelemetry import context as contexts
from opentelemetry.trace import SpanKind, set_span_in_context

from ...engine.approval import ApprovalRequiredError
from ...engine.effects import CallModel, Effect, Emit, Flow, Gather, ReplyBlocked, Run, Sleep, through
from ...engine.events import ToolStarted
from ...engine.pipeline import GLOBAL_INTERCEPTORS, Answer, Interceptor, Proceed
from ...engine.plan import Invocation
from ...engine.streams import AttemptStarted
from ...engine.tool_execution import ToolRun
from ...models.base import Capabilities, ChatModel
from ...models.errors import usage_of
from ...models.messages import ChatReply, ReplyDelta, ToolCall
from ...models.requests import ChatOptions, ChatRequest
from . import attributes as names
from .attributes import (
    Attached,
    Attributes,
    Signals,
    fail,
    harmless,
    noted,
    replied,
    said,
    type_of,
    usage_attributes,
    writable,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from ..prices import Prices


class TracedModel:
    """A model that is asked once: its span is the current one while the model works, and at no other time.

    So whatever a stream's reader does between two pieces is not put below the request. ``end`` ends the
    span, once it is known what came of the request.
    """

    def __init__(self, model: ChatModel, signals: Signals, parent: Context, call: Attributes) -> None:
        self._model = model
        self._signals = signals
        self._parent = parent
        self._call = call
        self._span: Span | None = None
        self._name = model.name
        self._asked: dict[str, str | int] = {}
        self._began = 0.0
        self._ended: tuple[float, int] | None = None
        self._first: float | None = None
        self._reply: ChatReply | None = None
        self._cost: tuple[float, str] | None = None
        self._error: BaseException | None = None

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        return self._model.capabilities

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def complete(self, request: ChatRequest) -> ChatReply:
        at_work = Attached(self._start(request, stream=False))
        try:
            with at_work:
                self._reply = self._model.complete(request)
            return self._reply
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._stop()

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        at_work = Attached(self._start(request, stream=False))
        try:
            with at_work:
                self._reply = await self._model.acomplete(request)
            return self._reply
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._stop()

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        at_work = Attached(self._start(request, stream=True))
        try:
            deltas = self._model.stream(request)
            try:
                while True:
                    with at_work:
                        delta = next(deltas, None)
                    if delta is None:
                        return
                    self._take(delta)
                    yield delta
            finally:
                close = getattr(deltas, "close", None)
                if close is not None:
                    close()
        finally:
            self._stop()

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        at_work = Attached(self._start(request, stream=True))
        try:
            deltas = self._model.astream(request)
            try:
                while True:
                    with at_work:
                        delta = await anext(deltas, None)
                    if delta is None:
                        return
                    self._take(delta)
                    yield delta
            finally:
                close = getattr(deltas, "aclose", None)
                if close is not None:
                    await close()
        finally:
            self._stop()

    def _take(self, delta: ReplyDelta) -> None:
        if self._first is None:
            self._first = time.perf_counter() - self._began
        if delta.reply is not None:
            self._reply = delta.reply

    def _start(self, request: ChatRequest, *, stream: bool) -> Context:
        own, other = self._model.name, request.options.model
        self._name = own if other is None else f"{own.rpartition(':')[0]}:{other}".removeprefix(":")
        provider, model = names.provider_and_model(self._name)
        self._asked = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: provider,
            names.REQUEST_MODEL: model,
            **_server(self._model),
        }
        attributes: Attributes = {**self._asked, **self._call, **_options(request.options)}
        if request.response_format is not None:
            attributes[names.OUTPUT_TYPE] = "json"
        if stream:
            attributes[names.REQUEST_STREAM] = True
        name = f"{names.CHAT} {model}"
        span = self._signals.tracer.start_span(name, self._parent, SpanKind.CLIENT, attributes)
        if self._signals.content and span.is_recording():
            with harmless():
                span.set_attribute(names.INPUT_MESSAGES, said(request.messages))
        self._span, self._began = span, time.perf_counter()
        return set_span_in_context(span, self._parent)

    def _stop(self) -> None:
        self._ended = (time.perf_counter(), time.time_ns())

    def end(self, error: BaseException | None = None, *, left: bool = False) -> None:
        """End the span. ``left``: whoever read the stream wanted no more of it.

        What has its whole reply has not failed, whatever came of that. An error of the model itself is
        nearer than that of those who waited for it, save where they cancelled it.
        """
        span = self._span
        if span is None:  # it was never asked
            return
        if self._reply is not None:
            error = None
        elif isinstance(self._error, Exception):
            error = self._error
        seconds, ended = self._ended or (time.perf_counter(), time.time_ns())
        with harmless():
            if self._reply is not None:
                self._cost = self._signals.cost(self._reply, self._name)
            if span.is_recording():
                self._write(span, error, left=left and self._reply is None)
        self._measure(seconds - self._began, error, set_span_in_context(span, self._parent))
        span.end(ended)

    def _write(self, span: Span, error: BaseException | None, *, left: bool) -> None:
        if error is not None:
            fail(span, error, content=self._signals.content)
        if left:
            span.set_attribute(names.LEFT, True)
        if self._first is not None:
            span.set_attribute(names.TIME_TO_FIRST_CHUNK, self._first)
        if self._reply is not None:
            span.set_attributes(_replied(self._reply))
            if self._cost is not None:
                span.set_attributes({names.COST: self._cost[0], names.COST_CURRENCY: self._cost[1]})
            if self._signals.content:
                span.set_attribute(names.OUTPUT_MESSAGES, replied(self._reply))

    def _measure(self, seconds: float, error: BaseException | None, context: Context) -> None:
        signals, reply, asked = self._signals, self._reply, dict(self._asked)
        if reply is not None and reply.model:
            asked[names.RESPONSE_MODEL] = reply.model
        if self._first is not None:
            signals.seconds[names.FIRST_CHUNK_DURATION].record(self._first, asked, context)
        if reply is not None and reply.usage is not None:
            signals.count(reply.usage, asked, context)
        if self._cost is not None:
            signals.money.add(self._cost[0], {**asked, names.COST_CURRENCY: self._cost[1]}, context)
        if error is not None:
            asked[names.ERROR_TYPE] = type_of(error)
        signals.seconds[names.OPERATION_DURATION].record(seconds, asked, context)


def _options(options: ChatOptions) -> Attributes:
    """The options of a request, but for those that the model itself may have beside them."""
    given = {
        names.REQUEST_TEMPERATURE: options.temperature,
        names.REQUEST_TOP_P: options.top_p,
        names.REQUEST_MAX_TOKENS: options.max_tokens,
        names.REQUEST_STOP: options.stop,
        names.REQUEST_SEED: options.seed,
        names.REQUEST_REASONING: options.reasoning_effort,
    }
    return {name: value for name, value in given.items() if value is not None}


def _replied(reply: ChatReply) -> Attributes:
    shown: Attributes = {names.FINISH_REASONS: (reply.finish_reason.value,)}
    if reply.id:
        shown[names.RESPONSE_ID] = reply.id
    if reply.model:
        shown[names.RESPONSE_MODEL] = reply.model
    return shown if reply.usage is None else {**shown, **usage_attributes(reply.usage)}


def _server(model: ChatModel) -> dict[str, str | int]:
    endpoint = getattr(model, "endpoint", None)
    return _address(endpoint) if isinstance(endpoint, str) else {}


@lru_cache(maxsize=64)
def _address(endpoint: str) -> dict[str, str | int]:
    try:
        parts = urlsplit(endpoint)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # a model of the user's own may name anything as its endpoint
        return {}
    return {names.SERVER_ADDRESS: parts.hostname, names.SERVER_PORT: port} if parts.hostname else {}


class TracedCall:
    """The spans of one call: ``fulfil`` gives the outcome of each need of its flow, each below the call's.

    A method with tools is an agent to the conventions, since the model says what is done; one without is a
    workflow.
    """

    def __init__(self, signals: Signals, invocation: Invocation) -> None:
        self._signals = signals
        self._invocation = invocation
        self._waiting: list[ToolCall] = []  # told of, and about to run
        self._agent = invocation.plan.toolbox is not None
        operation = names.INVOKE_AGENT if self._agent else names.INVOKE_WORKFLOW
        self._named = {names.AGENT_NAME if self._agent else names.WORKFLOW_NAME: invocation.plan.where}
        self._of_conversation: Attributes = (
            {} if invocation.memory_id is None else {names.CONVERSATION: str(invocation.memory_id)}
        )
        self._around = contexts.get_current()
        attributes: Attributes = {names.OPERATION: operation, **self._named, **self._of_conversation}
        if self._agent:
            attributes[names.PROVIDER] = names.provider_and_model(invocation.plan.model.name)[0]
        name = f"{operation} {invocation.plan.where}"
        self._span: Span = signals.tracer.start_span(name, self._around, SpanKind.INTERNAL, attributes)
        self._context = set_span_in_context(self._span, self._around)
        self._began = time.perf_counter()

    def fulfil(self, need: Effect) -> Flow[Any]:
        """The outcome of a need, in the span that it belongs to."""
        match need:
            case CallModel():
                return (yield from self._ask(need))
            case Gather():
                return (yield from self._all(need))
            case Run():
                return (yield self._do(need))
            case Emit(AttemptStarted()):
                self._waiting = []
            case Emit(ToolStarted(call)):
                self._waiting.append(call)
            case Emit() | Sleep():
                with harmless():
                    self._note(need)
        return (yield need)

    def _note(self, need: Emit | Sleep) -> None:
        event = noted(need, content=self._signals.content)
        if event is not None:
            self._span.add_event(*event)

    def _ask(self, need: CallModel) -> Flow[Any]:
        model = self._model(need)
        try:
            reply = yield self._asked(need, model)
        except (GeneratorExit, ReplyBlocked):
            model.end(left=True)
            raise
        except BaseException as error:
            model.end(error)
            raise
        model.end()
        return reply

    def _all(self, need: Gather) -> Flow[Any]:
        calls, self._waiting = self._waiting, []
        if len(calls) == len(need.needs):
            return (yield need._replace(needs=tuple(map(self._tool, need.needs, calls))))
        models = [self._model(one) for one in need.needs if isinstance(one, CallModel)]
        left = iter(models)
        needs = tuple(
            self._asked(one, next(left)) if isinstance(one, CallModel) else self._do(one)
            for one in need.needs
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

    def _asked(self, need: CallModel, model: TracedModel) -> CallModel:
        return need._replace(model=model, gates=tuple(map(self._do, need.gates)))

    def _model(self, need: CallModel) -> TracedModel:
        return TracedModel(need.model, self._signals, self._context, self._of_conversation)

    def _do(self, need: Run) -> Run:
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

    def _on_a_loop(self, need: Run) -> bool:
        return self._invocation.plan.returns.asynchronous and not need.in_thread

    def _tool(self, need: CallModel | Run, call: ToolCall) -> CallModel | Run:
        if isinstance(need, CallModel):
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
        toolbox = self._invocation.plan.toolbox
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
        attempts = self._invocation.state.attempts
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


try:
    import opentelemetry.trace as _needed  # noqa: F401
except ImportError as error:
    raise ImportError('telemetry needs opentelemetry: pip install "aiservices[otel]"') from error


_TRACED: set[int] = set()  # the accounts of the calls that have a span, by their ids


class OpenTelemetry:
    """Writes a span for each call, each request to a model and each tool, and the metrics of them.

    >>> service = create(Service, model, interceptors=[OpenTelemetry(), …])  # doctest: +SKIP

    An interceptor, which belongs outermost: what stands before it in the list is not seen. Without providers
    it takes the global ones. Prompts, answers, the arguments and results of tools and the texts of errors
    are left out unless ``content`` is true; None leaves that to the environment variable
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT. With ``prices`` each request whose model they name has
    its cost. Raises ValueError when the variable holds what it must not.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool | None = None,
        prices: Prices | None = None,
    ) -> None:
        self._signals = Signals(tracer_provider, meter_provider, content, prices)

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        account = id(invocation.state)
        if account in _TRACED:
            return (yield from proceed(invocation))
        call = TracedCall(self._signals, invocation)
        _TRACED.add(account)
        try:
            answer = yield from through(proceed(invocation), call.fulfil)
        except GeneratorExit:
            call.end(left=True)
            raise
        except BaseException as error:
            call.end(error=error)
            raise
        finally:
            _TRACED.discard(account)
        call.end(answer)
        return answer


class AiServicesInstrumentor:
    """Traces all calls of all services of this process, those made before too, as ``OpenTelemetry`` does.

    ``instrument`` takes what that takes; a second time, it takes the place of the first. The command
    ``opentelemetry-instrument`` finds this class by itself.
    """

    def instrument(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool | None = None,
        prices: Prices | None = None,
        **_: object,
    ) -> None:
        """Begin. Other keywords, such as the command gives to all instrumentors, are ignored."""
        telemetry = OpenTelemetry(
            tracer_provider=tracer_provider, meter_provider=meter_provider, content=content, prices=prices
        )
        GLOBAL_INTERCEPTORS[:] = [*_others(), telemetry]

    def uninstrument(self, **_: object) -> None:
        """End; calls that have begun keep their spans."""
        GLOBAL_INTERCEPTORS[:] = _others()


def _others() -> list[Interceptor]:
    return [one for one in GLOBAL_INTERCEPTORS if not isinstance(one, OpenTelemetry)]
