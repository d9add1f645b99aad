"""Base classes for chat models that pass requests on to other chat models.

Such a model has one method, ``request_flow``: a generator that yields steps, such as ``Send``, and returns
the reply. ``complete``, ``acomplete``, ``stream`` and ``astream`` run it, so all four treat a request alike.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
)
from contextlib import AbstractContextManager, aclosing, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .base import Capabilities, ChatModel, ClosedByWith, header_listener
from .errors import InvalidReplyError
from .messages import ChatReply, ReplyDelta, whole_reply_deltas
from .requests import ChatRequest

_NO_CONTEXT = nullcontext()
# A FallbackChatModel's attributes about its members. A wrapper that passed them on would be bypassed, because
# a service sends requests to the members themselves.
_OF_MEMBERS = ("members", "rests", "unsure", "failing_at_once")


@dataclass(slots=True, eq=False)
class Send:
    """A step of a request flow that sends a request to a model; its outcome is the reply.

    Attributes:
        model: The model.
        request: The request.
        on_headers: Receives the headers of the HTTP response.
        context: Entered while the model works, but not while the reader of a stream does. It is entered
            again for each part of a stream. None for no context.
        on_delta: Receives each part of a streamed reply.
        streamed: False to wait for the complete reply in streams, too.
        has_started: True once the reader of a stream has received a part of the reply. Another request must
            not be sent then, because the parts of two replies would be mixed.
        last: The last part of a streamed reply, which is not shown before the flow has returned the reply.
    """

    model: ChatModel
    request: ChatRequest
    on_headers: Callable[[Mapping[str, str]], None] | None = None
    context: AbstractContextManager[object] | None = None
    on_delta: Callable[[ReplyDelta], None] | None = None
    streamed: bool = True
    has_started: bool = False
    last: ReplyDelta | None = None

    def block(self) -> ChatReply:
        """Send the request and return the reply."""
        with self._listening(), self.context or _NO_CONTEXT:
            return self.model.complete(self.request)

    async def wait(self) -> ChatReply:
        """Send the request and return the reply; async version of ``block``."""
        with self._listening(), self.context or _NO_CONTEXT:
            return await self.model.acomplete(self.request)

    def deltas(self) -> Generator[ReplyDelta, None, None]:
        """Send the request and yield the parts of the reply except the last one."""
        deltas: Iterator[ReplyDelta] = iter(())
        try:
            with self._listening(), self.context or _NO_CONTEXT:
                deltas = iter(self.model.stream(self.request))
                delta = next(deltas, None)
            while delta is not None:
                if self._is_before_last(delta):
                    yield delta
                if self.context is None:
                    delta = next(deltas, None)
                else:
                    with self.context:
                        delta = next(deltas, None)
        finally:
            # Not contextlib.closing: the stream of a user's model may be an iterator without a close method.
            close = getattr(deltas, "close", None)
            if close is not None:
                close()

    async def adeltas(self) -> AsyncGenerator[ReplyDelta, None]:
        """Send the request and yield the parts of the reply; async version of ``deltas``."""
        deltas: AsyncIterator[ReplyDelta] | None = None
        try:
            with self._listening(), self.context or _NO_CONTEXT:
                deltas = aiter(self.model.astream(self.request))
                delta = await anext(deltas, None)
            while delta is not None:
                if self._is_before_last(delta):
                    yield delta
                with self.context or _NO_CONTEXT:
                    delta = await anext(deltas, None)
        finally:
            close = getattr(deltas, "aclose", None)
            if close is not None:
                await close()

    def streamed_reply(self) -> ChatReply:
        """Return the reply of a stream that has ended; raise InvalidReplyError if it was not complete."""
        if self.last is None or self.last.reply is None:
            raise InvalidReplyError(f"the stream of {self.model.name} ended before the reply was complete")
        return self.last.reply

    def _listening(self) -> AbstractContextManager[object]:
        return _NO_CONTEXT if self.on_headers is None else _listening(self.on_headers)

    def _is_before_last(self, delta: ReplyDelta) -> bool:
        """Note a part of the reply, and return True unless it is the last one, which is shown later."""
        if self.on_delta is not None:
            self.on_delta(delta)
        if delta.reply is None:
            self.has_started = True
            return True
        self.last = delta
        return False


@contextmanager
def _listening(listener: Callable[[Mapping[str, str]], None]) -> Iterator[None]:
    token = header_listener.set(listener)
    try:
        yield
    finally:
        header_listener.reset(token)


class Wait(NamedTuple):
    """A step of a request flow that waits for something other than a reply.

    Attributes:
        block: Waits in blocking calls. Its result is the outcome of the step.
        wait: Waits in async calls.
    """

    block: Callable[[], object]
    wait: Callable[[], Awaitable[object]]


# A flow may also yield a part of a reply (not the last one), which a stream shows.
RequestFlow: TypeAlias = Generator[Send | Wait | ReplyDelta, Any, ChatReply]


class _Run:
    """Runs a request flow step by step, and keeps what a stream has to show at the end.

    The last part of a streamed reply is kept back until the flow has returned the reply, so that what the
    flow does with the complete reply does not depend on whether the reader asks for more.
    """

    reply: ChatReply

    def __init__(self, flow: RequestFlow) -> None:
        self._flow = flow
        self._proceed: Callable[[Any], Send | Wait | ReplyDelta] = flow.send
        self._outcome: object = None
        self._last: ReplyDelta | None = None
        self._has_started = False

    def __iter__(self) -> Iterator[Send | Wait | ReplyDelta]:
        while True:
            try:
                step = self._proceed(self._outcome)
            except StopIteration as stop:
                self.reply = stop.value
                return
            finally:
                self._outcome = None  # an error would refer to this object through its traceback
            yield step
            self._last = step.last if isinstance(step, Send) else None
            if isinstance(step, ReplyDelta) or (isinstance(step, Send) and step.has_started):
                self._has_started = True

    def succeeded(self, outcome: object = None) -> None:
        """Continue the flow with the outcome of its step."""
        self._outcome, self._proceed = outcome, self._flow.send

    def failed(self, error: BaseException) -> None:
        """Continue the flow with the error of its step."""
        self._outcome, self._proceed = error, self._flow.throw

    def last_deltas(self) -> list[ReplyDelta]:
        """Return what a stream still has to show when the flow has returned the reply."""
        if self._last is not None:
            return [self._last._replace(reply=self.reply)]
        return [ReplyDelta(reply=self.reply)] if self._has_started else whole_reply_deltas(self.reply)


class FlowChatModel:
    """Base class of chat models that answer a request by a flow, such as sending it to another model.

    Derived classes have ``name``, ``capabilities`` and ``request_flow``. The four kinds of calls follow from
    the flow. Errors of a step, a cancellation and the closing of a stream are raised in the flow where it
    yielded the step.
    """

    @abstractmethod
    def request_flow(self, request: ChatRequest, *, streamed: bool) -> RequestFlow:
        """Yield the steps that answer a chat request, and return the reply.

        ``streamed`` is True if the caller wants the reply as a stream.
        """

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer a chat request and return the complete reply."""
        run = _Run(self.request_flow(request, streamed=False))
        for step in run:
            try:
                run.succeeded(None if isinstance(step, ReplyDelta) else step.block())
            except BaseException as error:
                run.failed(error)
        return run.reply

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Answer a chat request and return the complete reply; async version of ``complete``."""
        run = _Run(self.request_flow(request, streamed=False))
        for step in run:
            try:
                run.succeeded(None if isinstance(step, ReplyDelta) else await step.wait())
            except BaseException as error:
                run.failed(error)
        return run.reply

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        """Answer a chat request, and yield the parts of the reply."""
        with closing(self.request_flow(request, streamed=True)) as flow:
            run = _Run(flow)
            for step in run:
                try:
                    if isinstance(step, ReplyDelta):
                        yield step
                        run.succeeded()
                    elif isinstance(step, Send) and step.streamed:
                        yield from step.deltas()
                        run.succeeded(step.streamed_reply())
                    else:
                        run.succeeded(step.block())
                except GeneratorExit:
                    raise
                except BaseException as error:
                    run.failed(error)
            yield from run.last_deltas()

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        """Answer a chat request, and yield the parts of the reply; async version of ``stream``."""
        with closing(self.request_flow(request, streamed=True)) as flow:
            run = _Run(flow)
            for step in run:
                try:
                    if isinstance(step, ReplyDelta):
                        yield step
                        run.succeeded()
                    elif isinstance(step, Send) and step.streamed:
                        async with aclosing(step.adeltas()) as deltas:
                            async for delta in deltas:
                                yield delta
                        run.succeeded(step.streamed_reply())
                    else:
                        run.succeeded(await step.wait())
                except GeneratorExit:
                    raise
                except BaseException as error:
                    run.failed(error)
            for delta in run.last_deltas():
                yield delta


class DelegatingChatModel(FlowChatModel, ClosedByWith):
    """Base class of chat models that send requests to other models, and close them."""

    @property
    @abstractmethod
    def inner_models(self) -> tuple[ChatModel, ...]:
        """The models that may receive requests."""

    def close(self) -> None:
        """Close the connections of the models that this model sends requests to."""
        for model in self.inner_models:
            close = getattr(model, "close", None)
            if close is not None:
                close()

    async def aclose(self) -> None:
        """Close the connections of the models inside; async version of ``close``."""
        for model in self.inner_models:
            aclose, close = getattr(model, "aclose", None), getattr(model, "close", None)
            if aclose is not None:
                await aclose()
            elif close is not None:  # of a model without connections, such as the embedded one
                close()


class WrappingChatModel(DelegatingChatModel):
    """Base class of chat models that pass requests on to one other model, which they can replace.

    Attributes that it does not define, such as ``name`` and ``endpoint``, are those of the other model.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def wrapped_model(self) -> ChatModel:
        """The model that receives the requests."""
        return self._model

    @property
    def inner_models(self) -> tuple[ChatModel, ...]:
        return (self._model,)

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        return self._model.capabilities

    def __getattr__(self, name: str) -> Any:
        # Names with an underscore are also looked up while the object is unpickled and has no model yet.
        if name.startswith("_") or name in _OF_MEMBERS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._model, name)
