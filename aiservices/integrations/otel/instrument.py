"""Create OpenTelemetry spans and metrics for the calls of one service, or of all services.

``OpenTelemetry`` is an interceptor, which ``AiServicesInstrumentor`` adds to all services. For each call it
creates a ``TracedCall``, which sees every effect of the call and opens spans for tools. For each request it
wraps the model in a ``TracedModel``, which opens the request's span. Searches, embeddings and stores of
conversations report an ``Operation``, which becomes a ``TracedOperation``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from importlib.metadata import version
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any

from opentelemetry import _logs as logs, context as otel_context, metrics, trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from ...engine.approval import ApprovalRequiredError
from ...engine.effects import CallModel, Effect, Emit, Flow, Gather, ReplyBlocked, Run, Sleep
from ...engine.flows import map_effects
from ...engine.interceptor import BaseInterceptor, Interceptor, Proceed
from ...engine.operations import OBSERVERS, Operation
from ...engine.pipeline import GLOBAL_INTERCEPTORS
from ...engine.plan import Invocation
from ...engine.recorder import RecordedReply
from ...engine.results import Answer
from ...interface.parameters import memory_id_text
from ...models.base import ChatModel
from ...models.errors import Attempt, ModelError, usage_of
from ...models.messages import ChatReply, ReplyDelta, ToolCall, Usage
from ...models.requests import ChatRequest
from ...models.wrapper import RequestFlow, Send, WrappingChatModel
from ...tools.tool import Tool, ToolRun
from . import attributes as names
from .attributes import Attributes

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from ...prices import Prices

_SCOPE = "aiservices.integrations.otel"  # the instrumentation scope of all spans and metrics
_LOGGER = logging.getLogger("aiservices")
_CALL = otel_context.create_key("aiservices.call")  # the TracedCall in whose span the current code runs
_UNKNOWN_TOOL = "unknown_tool"


class OpenTelemetry(BaseInterceptor):
    """Interceptor that writes OpenTelemetry spans and metrics for service calls, model requests and tools.

    >>> service = create(Service, model, interceptors=[OpenTelemetry(), …])  # doctest: +SKIP

    It should be the first interceptor of the list, because spans do not cover the interceptors before it.

    Args:
        tracer_provider: None means the global provider.
        meter_provider: None means the global provider.
        logger_provider: For the events of evaluations. None means the global provider.
        content: If true, spans contain prompts, replies, arguments and results of tools, and error messages.
            With None the environment variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT decides.
        prices: Prices of models, from which the cost of each request is computed.

    Raises ValueError if the environment variable has an unknown value.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        content: bool | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.signals = Signals(tracer_provider, meter_provider, logger_provider, content, prices)

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        # A call may pass two of these interceptors: one of the service and one of AiServicesInstrumentor.
        outer = invocation.state.trace
        if outer is not None and outer.is_running:
            return (yield from proceed(invocation))
        call = invocation.state.trace = TracedCall(self.signals, invocation)
        try:
            answer = yield from map_effects(proceed(invocation), call.trace_effect)
        # The driver closes the generator if the reader of a stream stops early. This is not an error.
        except GeneratorExit:
            call.end(closed_early=True)
            raise
        except BaseException as error:
            call.end(error=error)
            raise
        call.end(answer)
        return answer

    def trace_rows(self, name: str) -> TracedRows:
        """Start the OpenTelemetry span of a ``map_rows`` run for the method called ``name``."""
        return TracedRows(self.signals, name)


class AiServicesInstrumentor:
    """Enables OpenTelemetry tracing for all services of this process, including existing ones.

    The command ``opentelemetry-instrument`` finds this class by its entry point.
    """

    def instrument(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        content: bool | None = None,
        prices: Prices | None = None,
        **_: object,
    ) -> None:
        """Start tracing all services; a second call replaces the settings.

        The arguments are the same as for ``OpenTelemetry``. Unknown keywords are ignored, because the command
        ``opentelemetry-instrument`` passes the same keywords to all instrumentors.
        """
        telemetry = OpenTelemetry(
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            logger_provider=logger_provider,
            content=content,
            prices=prices,
        )
        # Changed in place: the pipeline module reads this list on each call, also for existing services.
        GLOBAL_INTERCEPTORS[:] = [*_other_global_interceptors(), telemetry]

    def uninstrument(self, **_: object) -> None:
        """Stop tracing new service calls; calls that are running keep their spans."""
        GLOBAL_INTERCEPTORS[:] = _other_global_interceptors()


def _other_global_interceptors() -> list[Interceptor]:
    return [interceptor for interceptor in GLOBAL_INTERCEPTORS if not isinstance(interceptor, OpenTelemetry)]


class Signals:
    """The OpenTelemetry tracer, metrics and settings used to trace service calls."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        logger_provider: LoggerProvider | None,
        content: bool | None,
        prices: Prices | None,
    ) -> None:
        scope = (_SCOPE, version("aiservices"))
        self.logger = logs.get_logger(*scope, logger_provider)
        self.tracer = trace.get_tracer(*scope, tracer_provider)
        meter = metrics.get_meter(*scope, meter_provider)
        self.content = names.captures_content() if content is None else content
        self._prices = prices
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
        )
        self.cost_counter = meter.create_counter(names.COST_METRIC, "{money}", "What requests cost.")
        self.row_counter = meter.create_counter(names.ROWS_METRIC, "{row}", "Finished rows of tables.")
        durations = (
            (
                names.OPERATION_DURATION,
                "Duration of a request, an embedding, a search or an access to a conversation.",
                names.REQUEST_BUCKETS,
            ),
            (names.FIRST_CHUNK_DURATION, "Time to the first chunk of a stream.", names.REQUEST_BUCKETS),
            (names.TOOL_DURATION, "Duration of a tool.", names.REQUEST_BUCKETS),
            (names.AGENT_DURATION, "Duration of a method with tools.", names.AGENT_BUCKETS),
            (names.WORKFLOW_DURATION, "Duration of a method without tools.", names.WORKFLOW_BUCKETS),
        )
        self.durations = {
            name: meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=buckets)
            for name, description, buckets in durations
        }

    def cost(self, reply: ChatReply, model_name: str) -> tuple[float, str] | None:
        """Return a model reply's cost and the currency, or None if the price is unknown."""
        if self._prices is None:
            return None
        cost = self._prices.cost([Attempt(model_name, reply, None, 0.0)])
        return None if cost is None else (cost, self._prices.currency)

    def record_tokens(self, usage: Usage, attributes: Mapping[str, str | int], context: Context) -> None:
        """Record a model reply's input and output tokens in the token metric."""
        for kind, number in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            self._tokens.record(number, {**attributes, names.TOKEN_TYPE: kind}, context)


class TracedCall:
    """Creates the OpenTelemetry spans for a service call and for its model requests and tool calls.

    ``trace_effect`` performs each effect of the call inside its span. By the OpenTelemetry conventions a
    method with tools is an agent, since the model decides which actions are taken. A method without tools is
    a workflow.

    Attributes:
        signals: Where to write spans, metrics and events.
        conversation: The attribute for the conversation of the call, if it has one.
        is_running: False once the call has ended.
    """

    def __init__(self, signals: Signals, invocation: Invocation) -> None:
        self.signals = signals
        self.is_running = True
        self._invocation = invocation
        plan = invocation.plan
        self._is_agent = plan.toolbox is not None
        operation = names.INVOKE_AGENT if self._is_agent else names.INVOKE_WORKFLOW
        self._call_name = {names.AGENT_NAME if self._is_agent else names.WORKFLOW_NAME: plan.qualname}
        self.conversation: Attributes = (
            {} if invocation.memory_id is None else {names.CONVERSATION: memory_id_text(invocation.memory_id)}
        )
        attributes: Attributes = {names.OPERATION: operation, **self._call_name, **self.conversation}
        # Requests belong to the conversation, and their prompt is declared by the method.
        self._request_attributes: Attributes = {names.PROMPT_NAME: plan.qualname, **self.conversation}
        if self._is_agent:
            attributes[names.PROVIDER] = names.provider_and_model(plan.model.name)[0]
        parent = otel_context.get_current()
        self._span: Span = signals.tracer.start_span(
            f"{operation} {plan.qualname}", parent, SpanKind.INTERNAL, attributes
        )
        self._context = otel_context.set_value(_CALL, self, set_span_in_context(self._span, parent))
        self._start_time = time.perf_counter()

    def trace_effect(self, effect: Effect) -> Flow[object]:
        """Execute one effect of a service call; model requests and tool calls get a span."""
        match effect:
            case CallModel(model=RecordedReply(reply=ChatReply(replayed=True))):
                return (yield effect)  # the run that received the reply has traced it
            case CallModel():
                return (yield from self._trace_request(effect))
            case Gather():
                return (yield from self._trace_gather(effect))
            case Run(tool_call=ToolCall() as call):
                return (yield self._in_tool_span(effect, call))
            case Run():
                return (yield self._in_call_context(effect))
            case Emit() | Sleep():
                with log_errors():
                    event = names.event_of_effect(effect, content=self.signals.content)
                    if event is not None:
                        self._span.add_event(*event)
        return (yield effect)

    def _trace_request(self, effect: CallModel) -> Flow[object]:
        model = self._traced_model(effect)
        try:
            reply = yield self._with_model(effect, model)
        except (GeneratorExit, ReplyBlocked):
            model.end(closed_early=True)
            raise
        except BaseException as error:
            model.end(error)
            raise
        model.end()
        return reply

    def _trace_gather(self, effect: Gather) -> Flow[object]:
        models = [self._traced_model(part) for part in effect.effects if isinstance(part, CallModel)]
        # zip is not possible: only some of the effects are requests to models.
        next_model = iter(models)
        parts = tuple(
            self._with_model(part, next(next_model))
            if isinstance(part, CallModel)
            else self._in_call_context(part)
            for part in effect.effects
        )
        failure: BaseException | None = None
        try:
            return (yield effect._replace(effects=parts))
        except BaseException as error:
            failure = error
            raise
        finally:
            for model in models:
                model.end(failure)

    def _traced_model(self, effect: CallModel) -> TracedModel:
        return TracedModel(effect.model, self.signals, self._context, self._request_attributes)

    def _with_model(self, effect: CallModel, model: TracedModel) -> CallModel:
        return effect._replace(model=model, checks=tuple(map(self._in_call_context, effect.checks)))

    def _in_call_context(self, effect: Run) -> Run:
        """Wrap a function so that the service call's span is active while the function runs."""
        function, context = effect.function, self._context

        def run() -> object:
            with AttachedContext(context):
                return function()

        async def arun() -> object:
            with AttachedContext(context):
                outcome = function()
                return await outcome if isawaitable(outcome) else outcome

        # A context variable must be set in the thread or task in which the function runs.
        on_event_loop = self._invocation.plan.is_async and not effect.in_thread
        return replace(effect, function=wraps(function)(arun if on_event_loop else run))

    def _in_tool_span(self, effect: Run, call: ToolCall) -> Run:
        """Wrap a tool call so that the tool runs inside its own OpenTelemetry span."""
        function: Callable[[], Any] = effect.function

        def run() -> ToolRun:
            with self._tool_span(call) as runs:
                tool_run: ToolRun = function()
                runs.append(tool_run)
                return tool_run

        async def arun() -> ToolRun:
            with self._tool_span(call) as runs:
                tool_run: ToolRun = await function()
                runs.append(tool_run)
                return tool_run

        return replace(effect, function=wraps(function)(arun if iscoroutinefunction(function) else run))

    @contextmanager
    def _tool_span(self, call: ToolCall) -> Iterator[list[ToolRun]]:
        """Context manager for the OpenTelemetry span of a tool call.

        The block receives a list, to which it appends its ToolRun.
        """
        signals, start_time, runs = self.signals, time.perf_counter(), list[ToolRun]()
        toolbox = self._invocation.known_toolbox
        tool = None if toolbox is None else toolbox.tools.get(call.name)
        # A model can invent any name, so it must not be a label of metrics or the name of a span.
        name = _UNKNOWN_TOOL if tool is None else call.name
        tool_name = {names.TOOL_NAME: name, names.TOOL_TYPE: "function", **self._call_name}
        attributes: Attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_CALL_ID: call.id,
            **tool_name,
        }
        span = signals.tracer.start_span(
            f"{names.EXECUTE_TOOL} {name}", self._context, SpanKind.INTERNAL, attributes
        )
        context = set_span_in_context(span, self._context)
        error: BaseException | None = None
        try:
            with AttachedContext(context):
                yield runs
            error = runs[0].error
            if isinstance(error, ApprovalRequiredError):  # the service that is the tool is suspended
                error = None
        except BaseException as raised:
            error = raised
            raise
        finally:
            with log_errors():
                self._write_tool(span, call, tool, runs, error)
            seconds = time.perf_counter() - start_time
            signals.durations[names.TOOL_DURATION].record(
                seconds, {**tool_name, **_error_attribute(error)}, context
            )
            span.end()

    def _write_tool(
        self,
        span: Span,
        call: ToolCall,
        tool: Tool | None,
        runs: list[ToolRun],
        error: BaseException | None,
    ) -> None:
        if tool is not None and tool.description:
            span.set_attribute(names.TOOL_DESCRIPTION, tool.description)
        if self.signals.content:
            span.set_attribute(names.TOOL_ARGUMENTS, names.replace_surrogates(call.arguments))
            if error is None:
                span.set_attribute(names.TOOL_RESULT, names.replace_surrogates(runs[0].text))
        if error is not None:
            set_error(span, error, content=self.signals.content)

    def end(
        self,
        answer: Answer | None = None,
        error: BaseException | None = None,
        *,
        closed_early: bool = False,
    ) -> None:
        """End a service call's OpenTelemetry span, and record the call's duration.

        ``closed_early`` means that the reader closed the stream before its end.
        """
        if isinstance(error, ApprovalRequiredError):
            # The call is suspended, not failed.
            tool_names = [call.name for call in (*error.calls, *error.external_calls)]
            self._span.add_event(names.APPROVAL_REQUIRED, {"tools": tool_names})
            error = None
        attempts = self._invocation.state.attempts
        attributes: Attributes = {names.ATTEMPTS: len(attempts)}
        usage = usage_of(attempts)
        if usage is not None and self._is_agent:  # the conventions have no tokens on workflows
            attributes |= names.usage_attributes(usage)
        if answer is not None:
            attributes |= {names.STRATEGY: answer.strategy.value, names.COERCIONS: len(answer.coercions)}
            attributes |= names.decision_attributes(answer.decisions)
        if closed_early:
            attributes[names.CLOSED_EARLY] = True
        self._span.set_attributes(attributes)
        if error is not None:
            set_error(self._span, error, content=self.signals.content)
        seconds = time.perf_counter() - self._start_time
        metric = names.AGENT_DURATION if self._is_agent else names.WORKFLOW_DURATION
        self.signals.durations[metric].record(
            seconds, {**self._call_name, **_error_attribute(error)}, self._context
        )
        self._span.end()
        self.is_running = False

    def add_score(
        self, name: str, verdict: tuple[float, str] | None, error: BaseException | None = None
    ) -> None:
        """Write the event for a score that an evaluation gave the call, with its reason, or for an error."""
        with log_errors():
            score, reason = (None, "") if error is not None or verdict is None else verdict
            reply = next((a.reply for a in reversed(self._invocation.state.attempts) if a.reply), None)
            content = reason if self.signals.content else ""
            record = LogRecord(
                timestamp=time.time_ns(),
                context=self._context,
                severity_number=SeverityNumber.INFO,
                attributes=names.evaluation_attributes(name, score, content, reply, error),
                event_name=names.EVALUATION,
            )
            self.signals.logger.emit(record)


class TracedOperation:
    """The OpenTelemetry span and metric of an embedding, a search, or an access to a stored conversation.

    Attributes:
        context: Surrounds the code of the operation.
    """

    def __init__(self, operation: Operation, signals: Signals, attributes: Attributes) -> None:
        self._operation, self._signals = operation, signals
        self._labels = names.operation_labels(operation)
        source = names.operation_source(operation)
        # a store that does not block is in this process
        is_remote = getattr(operation.target, "blocks", True)
        parent = otel_context.get_current()
        self._span: Span = signals.tracer.start_span(
            f"{operation.name} {source}".rstrip(),
            parent,
            SpanKind.CLIENT if is_remote else SpanKind.INTERNAL,
            {**self._labels, **names.operation_attributes(operation), **attributes},
        )
        self.context = AttachedContext(set_span_in_context(self._span, parent))
        self._start_time = time.perf_counter()

    def end(self, result: object = None, error: BaseException | None = None) -> None:
        """End the span with the result or error of the operation."""
        signals = self._signals
        with log_errors():
            if error is not None:
                set_error(self._span, error, content=signals.content)
            elif self._span.is_recording():
                content = signals.content
                self._span.set_attributes(names.operation_result(self._operation, result, content=content))
        seconds = time.perf_counter() - self._start_time
        signals.durations[names.OPERATION_DURATION].record(
            seconds, {**self._labels, **_error_attribute(error)}, self.context.context
        )
        self._span.end()


def _observe(operation: Operation) -> TracedOperation | None:
    """Start the span of an operation, if it belongs to a traced call or all services are traced."""
    call = otel_context.get_value(_CALL)
    if isinstance(call, TracedCall):
        return TracedOperation(operation, call.signals, call.conversation)
    telemetry = next((one for one in GLOBAL_INTERCEPTORS if isinstance(one, OpenTelemetry)), None)
    return None if telemetry is None else TracedOperation(operation, telemetry.signals, {})


OBSERVERS.append(_observe)


class TracedRows:
    """The OpenTelemetry span of one ``map_rows`` run, and the metric that counts its rows.

    Attributes:
        context: A context manager that makes the spans of calls children of this span.
    """

    def __init__(self, signals: Signals, name: str) -> None:
        self._signals = signals
        self._call_name: Attributes = {names.WORKFLOW_NAME: name}
        parent = otel_context.get_current()
        self._span: Span = signals.tracer.start_span(
            f"{names.MAP_ROWS} {name}",
            parent,
            SpanKind.INTERNAL,
            {names.OPERATION: names.MAP_ROWS, **self._call_name},
        )
        self.context = AttachedContext(set_span_in_context(self._span, parent))

    def count(self, outcome: str) -> None:
        """Count a finished row by its outcome: "answered", "cached" or "error"."""
        self._signals.row_counter.add(1, {**self._call_name, names.ROW_OUTCOME: outcome})

    def end(
        self, *, rows: int, errors: int, cached: int, cost: float, error: BaseException | None = None
    ) -> None:
        """End the span, and record the totals of the run and the error if the run ended early."""
        self._span.set_attributes(
            {
                names.ROW_COUNT: rows,
                names.ROW_ERRORS: errors,
                names.ROWS_CACHED: cached,
                names.COST: cost,
            }
        )
        if error is not None:
            set_error(self._span, error, content=self._signals.content)
        self._span.end()


class TracedModel(WrappingChatModel):
    """Wraps a chat model to write the OpenTelemetry span and metrics of one request.

    The span is current only while the model works. It is not current between two chunks of a stream, because
    spans opened by the stream's reader would become children of the request. The span starts with the
    request, and ``end`` ends it when the request's outcome is known.
    """

    def __init__(self, model: ChatModel, signals: Signals, parent: Context, attributes: Attributes) -> None:
        super().__init__(model)
        self._signals = signals
        self._parent = parent
        self._attributes = attributes
        self._span: Span | None = None
        self._request_name = model.name
        self._metric_attributes: dict[str, str | int] = {}
        self._start_time = 0.0
        # The values of perf_counter and time_ns when the model finished.
        self._stop_times: tuple[float, int] | None = None
        self._first_chunk_seconds: float | None = None
        self._reply: ChatReply | None = None
        self._cost: tuple[float, str] | None = None
        self._error: BaseException | None = None

    def request_flow(self, request: ChatRequest, *, streamed: bool) -> RequestFlow:
        context = AttachedContext(self._start(request, stream=streamed))
        try:
            reply: ChatReply = yield Send(self._model, request, context=context, on_delta=self._record_delta)
            self._reply = reply
            return reply
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._stop()

    def _start(self, request: ChatRequest, *, stream: bool) -> Context:
        """Start the span of a model request, and return an OpenTelemetry context with this span."""
        own_name, other_model = self._model.name, request.options.model
        # Only the name of the model is replaced. The provider of the model object remains.
        if other_model is not None:
            self._request_name = f"{own_name.rpartition(':')[0]}:{other_model}".removeprefix(":")
        provider, model = names.provider_and_model(self._request_name)
        self._metric_attributes = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: provider,
            names.REQUEST_MODEL: model,
            **names.server_attributes(self._model),
        }
        attributes: Attributes = {
            **self._metric_attributes,
            **self._attributes,
            **names.options_attributes(request.options),
        }
        if request.response_format is not None:
            attributes[names.OUTPUT_TYPE] = "json"
        if stream:
            attributes[names.REQUEST_STREAM] = True
        span = self._signals.tracer.start_span(
            f"{names.CHAT} {model}", self._parent, SpanKind.CLIENT, attributes
        )
        if self._signals.content and span.is_recording():
            with log_errors():
                span.set_attributes(names.request_content(request))
        self._span, self._start_time = span, time.perf_counter()
        return set_span_in_context(span, self._parent)

    def _record_delta(self, delta: ReplyDelta) -> None:
        if self._first_chunk_seconds is None:
            self._first_chunk_seconds = time.perf_counter() - self._start_time
        if delta.reply is not None:
            self._reply = delta.reply

    def _stop(self) -> None:
        self._stop_times = (time.perf_counter(), time.time_ns())

    def end(self, error: BaseException | None = None, *, closed_early: bool = False) -> None:
        """End a model request's OpenTelemetry span; also record metrics if the request was sent.

        ``error`` is the error of the whole effect. ``closed_early`` means that the stream was closed before
        its end.
        """
        span = self._span
        if span is None:
            return
        if self._reply is not None:
            error = None  # the request succeeded, whatever happened to the reply afterwards
        elif isinstance(self._error, Exception):
            # It is more specific than ``error``. A cancellation is not an Exception; its reason is ``error``.
            error = self._error
        stop_time, stop_time_ns = self._stop_times or (time.perf_counter(), time.time_ns())
        with log_errors():
            if self._reply is not None:
                self._cost = self._signals.cost(self._reply, self._request_name)
            if span.is_recording():
                self._write(span, error, closed_early=closed_early and self._reply is None)
        # The context has the span, so that exporters can link the metrics to it (exemplars).
        self._record_metrics(stop_time - self._start_time, error, set_span_in_context(span, self._parent))
        span.end(stop_time_ns)

    def _write(self, span: Span, error: BaseException | None, *, closed_early: bool) -> None:
        if error is not None:
            set_error(span, error, content=self._signals.content)
        if closed_early:
            span.set_attribute(names.CLOSED_EARLY, True)
        if self._first_chunk_seconds is not None:
            span.set_attribute(names.TIME_TO_FIRST_CHUNK, self._first_chunk_seconds)
        if self._reply is not None:
            span.set_attributes(names.reply_attributes(self._reply))
            if self._cost is not None:
                span.set_attributes({names.COST: self._cost[0], names.COST_CURRENCY: self._cost[1]})
            if self._signals.content:
                span.set_attribute(names.OUTPUT_MESSAGES, names.reply_json(self._reply))

    def _record_metrics(self, seconds: float, error: BaseException | None, context: Context) -> None:
        signals, reply, attributes = self._signals, self._reply, dict(self._metric_attributes)
        if reply is not None and reply.model:
            attributes[names.RESPONSE_MODEL] = reply.model
        if self._first_chunk_seconds is not None:
            signals.durations[names.FIRST_CHUNK_DURATION].record(
                self._first_chunk_seconds, attributes, context
            )
        if reply is not None and reply.usage is not None:
            signals.record_tokens(reply.usage, attributes, context)
        if self._cost is not None:
            cost, currency = self._cost
            signals.cost_counter.add(cost, {**attributes, names.COST_CURRENCY: currency}, context)
        signals.durations[names.OPERATION_DURATION].record(
            seconds, {**attributes, **_error_attribute(error)}, context
        )


class AttachedContext:
    """A reusable context manager that makes an OpenTelemetry context current."""

    __slots__ = ("_token", "context")

    def __init__(self, context: Context) -> None:
        self.context = context

    def __enter__(self) -> None:
        self._token = otel_context.attach(self.context)

    def __exit__(self, *_: object) -> None:
        otel_context.detach(self._token)


@contextmanager
def log_errors() -> Iterator[None]:
    """Context manager that logs errors instead of raising them, so that telemetry cannot break a call."""
    try:
        yield
    except Exception:
        _LOGGER.exception("telemetry failed")


def set_error(span: Span, error: BaseException, *, content: bool) -> None:
    """Mark a span as failed.

    The error message is included only if message contents may be recorded.

    The error message may quote prompts or replies, so it counts as message content.
    """
    span.set_attribute(names.ERROR_TYPE, names.error_type(error))
    if isinstance(error, ModelError) and error.status is not None:
        span.set_attribute(names.HTTP_STATUS, error.status)
    description = names.replace_surrogates(str(error)) if content else None
    span.set_status(Status(StatusCode.ERROR, description))


def _error_attribute(error: BaseException | None) -> dict[str, str]:
    return {} if error is None else {names.ERROR_TYPE: names.error_type(error)}
