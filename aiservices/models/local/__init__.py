"""The embedded chat model, which runs llama.cpp in this process, without an API key or a network.

There is one llama.cpp server for each combination of weights and settings. Each request runs in its own
thread (``Job``). The chunks of the reply come back through a queue, so that a blocking call or an event loop
can wait for them with a timeout.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import secrets
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ...models.arguments import checks_arguments
from ..base import Capabilities, PickledByArguments
from ..errors import (
    BadRequestError,
    DefinitionError,
    DefinitionProblem,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    UnavailableError,
    require_extra,
)
from ..messages import ChatReply, ReplyDelta
from ..request_checks import REQUEST_CHECKS
from ..requests import ChatOptions, ChatRequest, ToolSpecification, WaitingTime, check_model_options
from .prompting import (
    ANY_OBJECT,
    JsonObject,
    ReplyBuilder,
    ReplyConstraint,
    answer_grammar,
    answer_schema,
    callable_tools,
    chat_body,
    reply_constraint,
    tool_call_grammar,
)
from .weights import resolve_weights

__all__ = ["LocalChatModel"]


_NO_OPTIONS = ChatOptions()
# Weights that never decided to call a tool, measured with twelve questions.
_TOO_SMALL_FOR_TOOLS = ("smollm2",)


@checks_arguments
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
    request runs at a time; others wait. The wait is not time of the call, and does not count for ``timeout``.

    A reply has at most four tool calls, none of them twice. SmolLM2 is too small to choose tools, so its
    ``capabilities.tools`` is False. The option ``extra_headers`` has no effect.
    """

    # Its requests wait here, and not at a limiter: a reply is written to its end, however slowly it is read.
    has_queue = True

    def __init__(
        self,
        weights: str | Path = "",
        *,
        options: ChatOptions = _NO_OPTIONS,
        context_tokens: int = 4096,
        threads: int | None = None,
        system_message: str = "You are a helpful assistant.",
    ) -> None:
        require_extra("xllamacpp", "local", "the embedded model")  # before weights are downloaded for nothing
        try:
            label, path = resolve_weights(weights)
        except LookupError as error:
            unavailable = isinstance(error, UnavailableError)
            raise DefinitionError([DefinitionProblem("LocalChatModel", str(error), unavailable)]) from None
        options = options or _NO_OPTIONS
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
        """Return the embedded llama.cpp model with the weights of the given name, such as "smollm2".

        "" means the default weights.
        """
        return cls(name)

    @property
    def name(self) -> str:
        """The name of the embedded llama.cpp model: ``local:`` and the name of its weights."""
        return f"local:{self._settings.label}"

    @property
    def capabilities(self) -> Capabilities:
        """The features of the embedded llama.cpp model, such as tool calls and JSON Schema."""
        tools = self._settings.label not in _TOO_SMALL_FOR_TOOLS
        return Capabilities(
            json_schema=True,
            json_mode=True,
            constrained=True,
            tools=tools,
            logprobs=20,
            continues_replies=True,
            max_concurrency=1,
        )

    @property
    def destination(self) -> str:
        """The data that answers depend on in addition to the request, for the response cache."""
        return repr((self._settings, self._options, self._system_message))

    def complete(self, request: ChatRequest) -> ChatReply:
        """Send a chat request to the embedded llama.cpp model and return the reply."""
        *_, last = self.stream(request)
        assert last.reply is not None
        return last.reply

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Send a chat request to the embedded model in a thread; cancelling the task stops the model."""
        *_, last = [delta async for delta in self.astream(request)]
        assert last.reply is not None
        return last.reply

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
        """Send a chat request to the embedded model and stream the reply; async version of ``stream``.

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
        """Create the Job for a chat request, and the ReplyBuilder that joins the chunks of its reply."""
        for check in REQUEST_CHECKS:
            check(self.name, None)
        options = request.options.with_defaults(self._options)
        check_model_options(options)
        settings = self._settings if options.model is None else self._settings_for(options.model)
        body = chat_body(request, options, self._system_message)
        timeout = options.timeout
        if request.deadline is not None:
            seconds = max(request.deadline - time.monotonic(), 0.0)
            timeout = seconds if timeout is None else min(timeout, seconds)
        waiting = WaitingTime(request.waiting)
        job = Job(partial(load_runtime, settings), body, reply_constraint(request), timeout, waiting)
        has_tools = callable_tools(request) is not None
        return job, ReplyBuilder(settings.label, settings.context_tokens, has_tools=has_tools)

    def _settings_for(self, weights: str) -> RuntimeSettings:
        """Return the llama.cpp settings for model weights that are given by name or path.

        Raises ModelNotFoundError if the weights are unknown or not on this machine.
        """
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
    from the creation of the job; it includes loading, but not waiting while other requests run, which
    ``waiting`` measures.
    """

    def __init__(
        self,
        get_runtime: Callable[[], Runtime],
        body: JsonObject,
        constraint: ReplyConstraint,
        timeout: float | None,
        waiting: WaitingTime,
    ) -> None:
        self._waiting = waiting
        self._get_runtime, self._body, self._constraint = get_runtime, body, constraint
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, deliver: Callable[[JsonObject | _JobEnd], None]) -> None:
        """Start a thread that runs the model request.

        It passes each chunk of the reply to ``deliver``.
        """
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
            runtime.chat(self._body, self._constraint, receive, self._stopped, self._waiting)
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
        if self._deadline is None:
            return None
        return max(0.0, self._deadline + self._waiting.seconds - time.monotonic())

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
                if job.remaining_seconds():  # it has waited for its turn
                    continue
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
                if job.remaining_seconds():
                    continue
                raise job.timeout_error() from None
            if isinstance(item, _JobEnd):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        job.stop()


# --- The llama.cpp servers ---


# Set it to 1 to see the log of llama.cpp on standard error.
LOG_VARIABLE = "AISERVICES_LOCAL_LOG"

# The memory for prompts that may be reused. The default of llama.cpp is 8 GB.
_PROMPT_CACHE_MIB = 256
# Tokens of a prompt that are read at once. A request can only be stopped between two batches: 512 tokens take
# 7 s on two cores.
_BATCH_TOKENS = 128


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """The settings of a llama.cpp server in this process; models with equal settings share a server.

    Attributes:
        label: The short name of the weights.
        path: The GGUF file.
        context_tokens: The largest number of tokens of prompt and reply together.
        threads: The number of CPU threads; if None, llama.cpp chooses it.
        process: The process id. A forked process needs a server of its own, because threads do not survive
            a fork.
    """

    label: str
    path: Path
    context_tokens: int
    threads: int | None
    process: int = field(default_factory=os.getpid)


_runtimes: dict[RuntimeSettings, Runtime] = {}
_runtimes_lock = threading.Lock()


def load_runtime(settings: RuntimeSettings) -> Runtime:
    """Return the llama.cpp model with the given settings, loading it into memory on the first call.

    Raises ModelError if the model cannot be loaded.
    """
    with _runtimes_lock:
        if settings not in _runtimes:
            _runtimes[settings] = Runtime(settings)
        return _runtimes[settings]


def unload_runtime(settings: RuntimeSettings) -> None:
    """Free the memory of a loaded llama.cpp model when its last request has ended."""
    with _runtimes_lock:
        _runtimes.pop(settings, None)


class _Server(Protocol):
    """Type hints for the ``Server`` class of the package xllamacpp, which has no type hints itself."""

    listening_address: str

    def handle_chat_completions(
        self, body: JsonObject, callback: Callable[[JsonObject], bool] | None = None, /
    ) -> Any: ...
    def handle_completions(self, body: JsonObject, /) -> Any: ...


class Runtime:
    """A llama.cpp model that is loaded into this process and runs one request at a time."""

    def __init__(self, settings: RuntimeSettings) -> None:
        self.settings = settings
        self._request_lock = threading.Lock()
        self._constraint_fields: dict[str, JsonObject] = {}
        self._server = _start_server(settings)

    @property
    def address(self) -> str:
        """The local URL of the llama.cpp server in this process.

        Without the secret key, a client can only request ``/health``.
        """
        return self._server.listening_address

    def chat(
        self,
        body: JsonObject,
        constraint: ReplyConstraint,
        receive: Callable[[JsonObject], bool],
        stopped: threading.Event,
        waiting: WaitingTime,
    ) -> None:
        """Run a chat request in llama.cpp, and call ``receive`` with each chunk of the reply.

        ``receive`` returns True to end the request. Raises BadRequestError if llama.cpp rejects the request
        before it starts. Later errors arrive as a chunk with the key ``error``.
        """
        # The lock is polled, so that a request that waits can be stopped too.
        with waiting:
            while not self._request_lock.acquire(timeout=0.05):
                if stopped.is_set():
                    return
        try:
            if stopped.is_set():
                return
            self._server.handle_chat_completions({**self._fields_for(constraint), **body}, receive)
        except ValueError as error:
            raise BadRequestError(
                f"the embedded model {self.settings.label} does not accept the request: {error}"
            ) from error
        finally:
            self._request_lock.release()

    def _fields_for(self, constraint: ReplyConstraint) -> JsonObject:
        """Return the llama.cpp request fields that limit the reply to an answer format or to tool calls."""
        if constraint.key not in self._constraint_fields:
            fields: JsonObject = {}
            if constraint.tools:
                fields = {"grammar": self._tool_call_grammar(constraint)}
            elif constraint.response_format is not None:
                fields = self._answer_fields(constraint.response_format)
            self._constraint_fields[constraint.key] = fields
        return self._constraint_fields[constraint.key]

    def _answer_fields(self, response_format: JsonObject) -> JsonObject:
        """Return the llama.cpp request fields that limit the reply to JSON matching a schema.

        A grammar is faster than llama.cpp's ``response_format``, but llguidance does not support every JSON
        Schema. For an invalid schema, ``response_format`` also has the better error message.
        """
        grammar = answer_grammar(answer_schema(response_format))
        return {"grammar": grammar} if self._compiles(grammar) else {"response_format": response_format}

    def _tool_call_grammar(self, constraint: ReplyConstraint) -> str:
        """Return a llama.cpp grammar for tool calls.

        If a schema is not supported, the arguments may be any JSON object.
        """
        grammar = tool_call_grammar(constraint, lambda tool: tool.parameters)
        if self._compiles(grammar):
            return grammar
        answer = constraint.response_format
        if answer and not self._compiles(answer_grammar(answer_schema(answer))):
            raise BadRequestError(
                f"the embedded model {self.settings.label} does not accept the request: invalid schema. "
                "With tools, the type of the answer cannot be enforced: use a simpler type or no tools",
                status=400,
            )
        return tool_call_grammar(constraint, self._supported_parameters)

    def _supported_parameters(self, tool: ToolSpecification) -> JsonObject:
        """Return the JSON Schema of a tool's arguments if llama.cpp supports it, else ``ANY_OBJECT``."""
        return tool.parameters if self._compiles(answer_grammar(tool.parameters)) else ANY_OBJECT

    def _compiles(self, grammar: str) -> bool:
        """Return True if llama.cpp can compile a grammar for limiting replies.

        llama.cpp silently ignores a grammar that does not compile. So this method generates one token with a
        bias for a line feed, which no grammar here allows. If the token is one, the grammar was ignored.
        """
        body = {
            "prompt": ".",
            "max_tokens": 1,
            "temperature": 0,
            "logit_bias": [["\n", 100]],
            "cache_prompt": False,
            "grammar": grammar,
        }
        try:
            response = self._server.handle_completions(body)
        except ValueError:
            return False
        return "choices" in response and bool(response["choices"][0]["text"].strip())


def _start_server(settings: RuntimeSettings) -> _Server:
    """Load a model into a llama.cpp server in this process, or raise ModelError."""
    xllamacpp = _import_xllamacpp()
    params = xllamacpp.CommonParams()
    params.model.path = str(settings.path)
    params.model_alias = {settings.label}
    params.n_ctx = settings.context_tokens
    params.n_batch = _BATCH_TOKENS
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    params.warmup = False
    params.verbosity = 3 if os.environ.get(LOG_VARIABLE) == "1" else -1
    if settings.threads is not None:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    # llama.cpp always opens a loopback port. A web page in the user's browser can reach that port, so it gets
    # a random key that is stored nowhere, and its web interface and other extras are off.
    params.api_keys = [secrets.token_urlsafe(32)]
    params.hostnames, params.ui, params.endpoint_slots = ["127.0.0.1"], False, False
    try:
        server: _Server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise ModelError(
            f"llama.cpp cannot load {settings.path}: the file may not be a GGUF file, may be of a kind that "
            "this version of llama.cpp does not support, or may be larger than the free memory. "
            f"{LOG_VARIABLE}=1 shows the log of llama.cpp"
        ) from error
    return server


def _import_xllamacpp() -> Any:
    """Import the Python package that contains llama.cpp, or raise ModelError if it cannot be loaded."""
    try:
        with _short_spin_wait():
            return import_module("xllamacpp")
    except ImportError as error:
        raise ModelError(
            f"xllamacpp, which runs the embedded model, cannot be loaded: {error}. "
            "Install the system library that the message names (libgomp.so.1 is in libgomp1 on Debian)"
        ) from error


@contextmanager
def _short_spin_wait() -> Iterator[None]:
    """Context manager that sets ``GOMP_SPINCOUNT``, so that idle OpenMP threads use little CPU."""
    # The OpenMP library reads the variable once, when it is loaded. With its default, one other busy process
    # made a call 50 times slower (0.4 s became 25 s). With 1000 turns the call stays below 1 s, and on an
    # idle machine it is as fast as before.
    if os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = "1000"
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]
