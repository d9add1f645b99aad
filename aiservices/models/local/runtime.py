"""Run llama.cpp servers in this process, one for each combination of weights and settings."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ..errors import BadRequestError, ModelError
from ..requests import ToolSpecification
from .prompting import (
    ANY_OBJECT,
    JsonObject,
    ReplyConstraint,
    answer_grammar,
    answer_schema,
    tool_call_grammar,
)

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
    """Type hints for the server class of the package xllamacpp, which has none itself."""

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
    ) -> None:
        """Run a chat request in llama.cpp, and call ``receive`` with each chunk of the reply.

        ``receive`` returns True to end the request. Raises BadRequestError if llama.cpp rejects the request
        before it starts. Later errors arrive as a chunk with the key ``error``.
        """
        # The lock is polled, so that a request that waits can be stopped too.
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
        """Return a llama.cpp grammar for tool calls, allowing any JSON object if a schema is unsupported."""
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
        """Return the JSON Schema of a tool's arguments, or a schema for any object if it is unsupported."""
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
    """Context manager that sets an environment variable to make idle OpenMP threads use little CPU."""
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
