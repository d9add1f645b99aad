"""A chat model that runs in this process, on llama.cpp, with no key and no network."""

from __future__ import annotations

import asyncio
import atexit
import queue
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ..base import Capabilities
from ..errors import DefinitionError, DefinitionProblem, ModelNotFoundError, ModelTimeoutError
from ..messages import ChatReply, ReplyDelta
from ..requests import ChatOptions, ChatRequest
from .prompting import Answer, LlamaForm, body_of, form_of
from .runtime import Runtime, RuntimeSettings, loaded, unload
from .weights import find_weights

Chunk: TypeAlias = Mapping[str, Any]


class _End:
    """The last thing that the thread says; ``error`` is why it ended, None when the reply is whole."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


class Job:
    """What to run: the runtime (loaded in the thread, as loading takes seconds), the body, the form.

    ``timeout`` is in seconds from the start of the job, loading and waiting for its turn included.
    """

    def __init__(
        self,
        runtime: Callable[[], Runtime],
        body: Mapping[str, Any],
        form: LlamaForm,
        timeout: float | None,
    ) -> None:
        self._runtime, self._body, self._form = runtime, body, form
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, deliver: Callable[[Chunk | _End], None]) -> None:
        # A daemon, because a stream that is left open must not keep the interpreter from ending; what
        # still runs then is stopped by _stop_all.
        self._thread = threading.Thread(
            target=self._run, args=[deliver], name="aiservices-local", daemon=True
        )
        with _starting:
            _running.add(self)
        self._thread.start()

    def _run(self, deliver: Callable[[Chunk | _End], None]) -> None:
        def receive(chunk: Chunk) -> bool:
            deliver(chunk)
            return self._stopped.is_set()

        error: Exception | None = None
        try:
            runtime = self._runtime()
            runtime.chat(self._body, self._form, receive, self._stopped)
        except Exception as raised:
            error = raised
        finally:
            with _starting:
                _running.discard(self)
            deliver(_End(error))

    def stop(self) -> None:
        """Have the thread end at its next token, or its next batch of the prompt."""
        self._stopped.set()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def left(self) -> float | None:
        """Seconds that are left of the timeout."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def too_late(self) -> ModelTimeoutError:
        return ModelTimeoutError(
            f"the embedded model did not finish within {self._timeout:g} s: raise timeout, lower max_tokens, "
            "or use smaller weights",
            retryable=True,
        )


_running: set[Job] = set()
_starting = threading.Lock()


@atexit.register
def _stop_all() -> None:
    with _starting:
        jobs = list(_running)
    for job in jobs:
        job.stop()
    for job in jobs:
        job.join()


def chunks(job: Job) -> Generator[Chunk, None, None]:
    """The chunks as they come. Closing it stops the job and waits until its thread has ended."""
    inbox: queue.SimpleQueue[Chunk | _End] = queue.SimpleQueue()
    job.start(inbox.put)
    try:
        while True:
            try:
                said = inbox.get(timeout=job.left())
            except queue.Empty:
                raise job.too_late() from None
            if isinstance(said, _End):
                if said.error is not None:
                    raise said.error
                return
            yield said
    finally:
        job.stop()
        job.join()


async def achunks(job: Job) -> AsyncGenerator[Chunk, None]:
    """The same for an event loop. Closing or cancelling it stops the job, which ends by itself."""
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[Chunk | _End] = asyncio.Queue()

    def deliver(said: Chunk | _End) -> None:
        try:
            loop.call_soon_threadsafe(inbox.put_nowait, said)
        except RuntimeError:  # the loop was closed while the thread was still writing
            job.stop()

    job.start(deliver)
    try:
        while True:
            try:
                said = await asyncio.wait_for(inbox.get(), job.left())
            except TimeoutError:
                raise job.too_late() from None
            if isinstance(said, _End):
                if said.error is not None:
                    raise said.error
                return
            yield said
    finally:
        job.stop()


_NO_OPTIONS = ChatOptions()
# Weights that never called a tool by themselves, measured on twelve questions.
_TOO_SMALL_FOR_TOOLS = ("smollm2",)


class LocalChatModel:
    """A ChatModel on weights that lie on this machine.

    ``weights`` is a known name, the path of a GGUF file, or ``""`` for the default (what
    ``AISERVICES_LOCAL_MODEL`` names, else the most able weights that were pulled). Nothing is loaded
    before the first request, and models of the same weights and settings share what is loaded.
    ``context_tokens`` bounds the prompt and the reply together, ``threads`` defaults to llama.cpp's
    choice, and ``system_message`` is what a request without a system message gets.

    Answers do not vary (temperature 0) and have 1024 tokens at most unless the options say otherwise.
    Calls of tools are held to the schema of each; one reply has four at most, and none twice. SmolLM2 is too
    small to choose them, hence ``capabilities.tools`` is False for it. ``extra_headers`` mean nothing here.
    One request runs at a time; others wait for it.
    Raises DefinitionError, with what to do, when there are no such weights.
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
        try:
            label, path = find_weights(weights)
        except LookupError as error:
            raise DefinitionError([DefinitionProblem("LocalChatModel", str(error))]) from error
        self._options = options
        self._system_message = system_message
        self._settings = RuntimeSettings(label, path, context_tokens, threads)

    @classmethod
    def named(cls, name: str) -> LocalChatModel:
        """The model that ``"local"`` (``name`` is empty) or ``"local:NAME"`` stands for."""
        return cls(name)

    @property
    def name(self) -> str:
        return f"local:{self._settings.label}"

    @property
    def capabilities(self) -> Capabilities:
        tools = self._settings.label not in _TOO_SMALL_FOR_TOOLS
        return Capabilities(json_schema=True, json_mode=True, constrained=True, tools=tools)

    def complete(self, request: ChatRequest) -> ChatReply:
        job, answer = self._job(request)
        with closing(chunks(job)) as arriving:
            for chunk in arriving:
                answer.take(chunk)
        return answer.reply()

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        job, answer = self._job(request)
        async with aclosing(achunks(job)) as arriving:
            async for chunk in arriving:
                answer.take(chunk)
        return answer.reply()

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        job, answer = self._job(request)
        with closing(chunks(job)) as arriving:
            for chunk in arriving:
                if (delta := answer.take(chunk)) is not None:
                    yield delta
        yield ReplyDelta(reply=answer.reply())

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        job, answer = self._job(request)
        async with aclosing(achunks(job)) as arriving:
            async for chunk in arriving:
                if (delta := answer.take(chunk)) is not None:
                    yield delta
        yield ReplyDelta(reply=answer.reply())

    def close(self) -> None:
        """Free the memory. A later request, of whichever model on these weights, loads them again."""
        unload(self._settings)

    def _job(self, request: ChatRequest) -> tuple[Job, Answer]:
        options = request.options.with_defaults(self._options)
        settings = self._settings if options.model is None else self._other(options.model)
        body = body_of(request, options, self._system_message)
        job = Job(partial(loaded, settings), body, form_of(request), options.timeout)
        return job, Answer(settings.label, settings.context_tokens, calls=request.tooling is not None)

    def _other(self, name: str) -> RuntimeSettings:
        try:
            label, path = find_weights(name)
        except LookupError as error:
            raise ModelNotFoundError(str(error)) from error
        return replace(self._settings, label=label, path=path)
