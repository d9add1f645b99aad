"""One request to a model, in a span of its own."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opentelemetry.trace import SpanKind, set_span_in_context

from ..messages import ChatReply, ReplyDelta
from ..models.base import Capabilities, ChatModel
from ..requests import ChatOptions, ChatRequest
from . import otel_names as names
from .otel_content import replied, said
from .otel_signals import Attached, Attributes, Signals, fail, harmless, type_of, usage_attributes

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

__all__ = ["TracedModel"]


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
