"""The chat model that runs in this process with llama.cpp, without an API key or a network.

Each request runs in its own thread (``Job``). The chunks of the reply come back through a queue, so that a
blocking call or an event loop can wait for them with a timeout.
"""

from __future__ import annotations

import asyncio
import atexit
import queue
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..base import Capabilities, PickledByArguments
from ..errors import (
    DefinitionError,
    DefinitionProblem,
    ModelNotFoundError,
    ModelTimeoutError,
    UnavailableError,
    require_extra,
)
from ..messages import ChatReply, ReplyDelta
from ..requests import ChatOptions, ChatRequest, check_model_options
from .prompting import JsonObject, ReplyBuilder, ReplyConstraint, callable_tools, chat_body, reply_constraint
from .runtime import Runtime, RuntimeSettings, load_runtime, unload_runtime
from .weights import resolve_weights

_NO_OPTIONS = ChatOptions()
# Weights that never decided to call a tool, measured with twelve questions.
_TOO_SMALL_FOR_TOOLS = ("smollm2",)


class LocalChatModel(PickledByArguments):
    """A chat model that runs inside this process with llama.cpp and needs no server.

    Every reply is constrained to the requested type.

    Args:
        weights: The name of known weights, the path of a GGUF file, or "" for the default: the weights that
            the environment variable ``AISERVICES_LOCAL_MODEL`` names, or else the most capable ones on this
            machine.
        options: The default options. Without others, the temperature is 0 and ``max_tokens`` is 1024.
        context_tokens: The largest number of tokens of prompt and reply together.
        threads: The number of CPU threads; by default llama.cpp decides.
        system_message: The system message of requests that have none.

    Raises DefinitionError if the weights are unknown or not on this machine, or if a setting is out of range.

    The weights are loaded at the first request. Models with the same weights and settings share them. One
    request runs at a time; others wait.

    A reply has at most four tool calls, none of them twice. SmolLM2 is too small to choose tools, so its
    ``capabilities.tools`` is False. The option ``extra_headers`` has no effect.
    """

    def __init__(
        self,
        weights: str | Path = "",
        *,
        options: ChatOptions = _NO_OPTIONS,
        context_tokens: int = 4096,
        threads: int | None = None,
        system_message: str = "You are a helpful assistant.",
    ) -> None:
        require_extra("xllamacpp", "local", "the embedded model")  # before weights are downloaded in vain
        try:
            label, path = resolve_weights(weights)
        except LookupError as error:
            unavailable = isinstance(error, UnavailableError)
            raise DefinitionError([DefinitionProblem("LocalChatModel", str(error), unavailable)]) from None
        problems = options.problems("LocalChatModel")
        for name, value in (("context_tokens", context_tokens), ("threads", threads)):
            if value is not None and value < 1:
                problems.append(
                    DefinitionProblem("LocalChatModel", f"{name} is {value}; it must be at least 1")
                )
        if problems:
            raise DefinitionError(problems)
        self._options = options
        self._system_message = system_message
        self._settings = RuntimeSettings(label, path, context_tokens, threads)

    @classmethod
    def named(cls, name: str) -> LocalChatModel:
        """Return the embedded llama.cpp model for a name such as ``"local"`` or ``"local:NAME"``."""
        return cls(name)

    @property
    def name(self) -> str:
        """The name of the embedded llama.cpp model: ``local:`` and the name of its weights."""
        return f"local:{self._settings.label}"

    @property
    def capabilities(self) -> Capabilities:
        """The features of the embedded llama.cpp model; tool calls need large enough weights."""
        tools = self._settings.label not in _TOO_SMALL_FOR_TOOLS
        return Capabilities(
            json_schema=True,
            json_mode=True,
            constrained=True,
            tools=tools,
            logprobs=20,
            continues_replies=True,
        )

    def complete(self, request: ChatRequest) -> ChatReply:
        """Send a chat request to the embedded llama.cpp model and return the reply."""
        job, builder = self._job(request)
        with closing(run_job(job)) as chunks:
            for chunk in chunks:
                builder.add(chunk)
        return builder.reply()

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Send a chat request to the embedded llama.cpp model in a thread; cancellation stops the model."""
        job, builder = self._job(request)
        async with aclosing(arun_job(job)) as chunks:
            async for chunk in chunks:
                builder.add(chunk)
        return builder.reply()

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        """Send a chat request to the embedded llama.cpp model and stream the reply.

        Closing the iterator stops the model.
        """
        job, builder = self._job(request)
        with closing(run_job(job)) as chunks:
            for chunk in chunks:
                if (delta := builder.add(chunk)) is not None:
                    yield delta
        yield ReplyDelta(reply=builder.reply())

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        """Asynchronously send a chat request to the embedded llama.cpp model and stream the reply.

        Closing the iterator stops the model.
        """
        job, builder = self._job(request)
        async with aclosing(arun_job(job)) as chunks:
            async for chunk in chunks:
                if (delta := builder.add(chunk)) is not None:
                    yield delta
        yield ReplyDelta(reply=builder.reply())

    def close(self) -> None:
        """Free the memory of the model weights; the next request loads them again."""
        unload_runtime(self._settings)

    def _job(self, request: ChatRequest) -> tuple[Job, ReplyBuilder]:
        """Create the job for a request to llama.cpp, and the object that joins the chunks of the reply."""
        options = request.options.with_defaults(self._options)
        check_model_options(options)
        settings = self._settings if options.model is None else self._settings_for(options.model)
        body = chat_body(request, options, self._system_message)
        timeout = options.timeout
        if request.deadline is not None:
            seconds = max(request.deadline - time.monotonic(), 0.0)
            timeout = seconds if timeout is None else min(timeout, seconds)
        job = Job(partial(load_runtime, settings), body, reply_constraint(request), timeout)
        has_tools = callable_tools(request) is not None
        return job, ReplyBuilder(settings.label, settings.context_tokens, has_tools=has_tools)

    def _settings_for(self, weights: str) -> RuntimeSettings:
        """Return the llama.cpp settings for weights with a name or path, or raise ModelNotFoundError."""
        try:
            label, path = resolve_weights(weights)
        except LookupError as error:
            raise ModelNotFoundError(str(error)) from error
        return replace(self._settings, label=label, path=path)


class _JobEnd:
    """Marks the end of a reply from llama.cpp, with the error if there was one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


class Job:
    """One request to the embedded llama.cpp model, running in its own thread.

    ``get_runtime`` is called in the thread, because loading a model takes seconds. ``timeout`` is in seconds
    from the creation of the job; it includes loading, and waiting while other requests run.
    """

    def __init__(
        self,
        get_runtime: Callable[[], Runtime],
        body: JsonObject,
        constraint: ReplyConstraint,
        timeout: float | None,
    ) -> None:
        self._get_runtime, self._body, self._constraint = get_runtime, body, constraint
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, deliver: Callable[[JsonObject | _JobEnd], None]) -> None:
        """Start a thread that runs the model request and passes each chunk of the reply to ``deliver``."""
        # A daemon thread, because a stream that is left open must not keep the interpreter from exiting;
        # _stop_all_jobs stops it then.
        self._thread = threading.Thread(
            target=self._run, args=[deliver], name="aiservices-local", daemon=True
        )
        with _jobs_lock:
            _running_jobs.add(self)
        self._thread.start()

    def _run(self, deliver: Callable[[JsonObject | _JobEnd], None]) -> None:
        """Run the model request in its thread and deliver the chunks of the reply."""

        def receive(chunk: JsonObject) -> bool:
            deliver(chunk)
            return self._stopped.is_set()

        error: Exception | None = None
        try:
            runtime = self._get_runtime()
            runtime.chat(self._body, self._constraint, receive, self._stopped)
        except Exception as raised:
            error = raised
        finally:
            with _jobs_lock:
                _running_jobs.discard(self)
            deliver(_JobEnd(error))

    def stop(self) -> None:
        """Tell the thread of the model request to stop after the next token or next part of the prompt."""
        self._stopped.set()

    def join(self) -> None:
        """Wait until the thread of the model request has ended."""
        if self._thread is not None:
            self._thread.join()

    def remaining_seconds(self) -> float | None:
        """Return the seconds until the timeout of the model request, or None if it has no timeout."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def timeout_error(self) -> ModelTimeoutError:
        """Return the error for a model request that did not finish within its timeout."""
        return ModelTimeoutError(
            f"the embedded model did not finish within {self._timeout:g} s: raise timeout, lower max_tokens, "
            "or use smaller weights",
            retryable=True,
        )


_running_jobs: set[Job] = set()
_jobs_lock = threading.Lock()


@atexit.register
def _stop_all_jobs() -> None:
    """Stop all running requests to embedded llama.cpp models when the Python interpreter exits."""
    # llama.cpp must not run while the interpreter shuts down.
    with _jobs_lock:
        jobs = list(_running_jobs)
    for job in jobs:
        job.stop()
    for job in jobs:
        job.join()


def run_job(job: Job) -> Generator[JsonObject, None, None]:
    """Run a request to the embedded llama.cpp model in a thread, and yield the chunks of the reply.

    Closing the generator stops the request.
    """
    inbox: queue.SimpleQueue[JsonObject | _JobEnd] = queue.SimpleQueue()
    job.start(inbox.put)
    try:
        while True:
            try:
                item = inbox.get(timeout=job.remaining_seconds())
            except queue.Empty:
                raise job.timeout_error() from None
            if isinstance(item, _JobEnd):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        job.stop()
        job.join()


async def arun_job(job: Job) -> AsyncGenerator[JsonObject, None]:
    """Run a request to the embedded llama.cpp model in a thread, and yield the chunks asynchronously.

    Closing or cancelling the generator stops the job but does not wait for its thread, which would block the
    loop.
    """
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[JsonObject | _JobEnd] = asyncio.Queue()

    def deliver(item: JsonObject | _JobEnd) -> None:
        try:
            loop.call_soon_threadsafe(inbox.put_nowait, item)
        except RuntimeError:  # The loop was closed while the thread was still writing.
            job.stop()

    job.start(deliver)
    try:
        while True:
            try:
                item = await asyncio.wait_for(inbox.get(), job.remaining_seconds())
            except TimeoutError:
                raise job.timeout_error() from None
            if isinstance(item, _JobEnd):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        job.stop()
