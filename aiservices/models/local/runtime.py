"""One llama.cpp server in this process: loaded late, once, shared by whoever asks for the same."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ..errors import BadRequestError, ModelError
from ..requests import ToolSpecification
from .prompting import ANY_OBJECT, LlamaForm, grammar_of_calls, grammar_of_schema, schema_of

LOG_VARIABLE = "AISERVICES_LOCAL_LOG"

# Bytes of prompts kept for reuse; llama.cpp's own default is 8 GB of the user's memory.
_PROMPT_CACHE_MIB = 256
# Tokens read at once. A request can only be stopped between two of these: 512 take 7 s on two cores.
_BATCH = 128


class _Server(Protocol):
    """What is used of xllamacpp's server, which ships no types."""

    listening_address: str

    def handle_chat_completions(
        self, body: Mapping[str, Any], callback: Callable[[Any], bool] | None = None, /
    ) -> Any: ...
    def handle_completions(self, body: Mapping[str, Any], /) -> Any: ...


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """What makes two runtimes different ones. The process is part of it: threads do not survive a fork."""

    label: str
    path: Path
    context_tokens: int
    threads: int | None
    process: int = field(default_factory=os.getpid)


class Runtime:
    """A loaded model. It answers one request at a time, in the order of their coming."""

    def __init__(self, settings: RuntimeSettings) -> None:
        self.settings = settings
        self._turn = threading.Lock()
        self._constraints: dict[str, Mapping[str, Any]] = {}
        self._server = _start(settings)

    @property
    def address(self) -> str:
        """Where llama.cpp listens; nothing but ``/health`` answers there without the secret key."""
        return self._server.listening_address

    def chat(
        self,
        body: Mapping[str, Any],
        form: LlamaForm,
        receive: Callable[[Any], bool],
        stopped: threading.Event,
    ) -> None:
        """Run one streamed request; ``receive`` gets every chunk and returns True to end it.

        Raises BadRequestError when llama.cpp rejects the request before it starts; what it rejects later
        is an ``error`` chunk.
        """
        while not self._turn.acquire(timeout=0.05):
            if stopped.is_set():
                return
        try:
            if stopped.is_set():
                return
            self._server.handle_chat_completions({**self._constraint(form), **body}, receive)
        except ValueError as error:
            raise BadRequestError(
                f"the embedded model {self.settings.label} does not accept the request: {error}"
            ) from error
        finally:
            self._turn.release()

    def _constraint(self, form: LlamaForm) -> Mapping[str, Any]:
        """The part of the body that constrains the reply to its form.

        A grammar that does not compile is ignored by llama.cpp without a word, so each is tried once.
        """
        if form.key not in self._constraints:
            if form.tools:
                made: Mapping[str, Any] = {"grammar": self._calling(form)}
            else:
                made = {} if form.response_format is None else self._answering(form.response_format)
            self._constraints[form.key] = made
        return self._constraints[form.key]

    def _answering(self, response_format: Mapping[str, Any]) -> Mapping[str, Any]:
        # The slower response_format, which raises, is the way for what llguidance does not know.
        grammar = grammar_of_schema(schema_of(response_format))
        return {"grammar": grammar} if self._holds(grammar) else {"response_format": response_format}

    def _calling(self, form: LlamaForm) -> str:
        """The grammar of calls; a tool whose schema llguidance does not know is held to any object."""
        grammar = grammar_of_calls(form, lambda tool: tool.parameters)
        if self._holds(grammar):
            return grammar
        if form.response_format and not self._holds(grammar_of_schema(schema_of(form.response_format))):
            raise BadRequestError(
                f"the embedded model {self.settings.label} does not accept the request: invalid schema. "
                "Beside tools its grammar cannot hold the answer to it: take a simpler type, or no tools",
                status=400,
            )
        return grammar_of_calls(form, self._arguments)

    def _arguments(self, tool: ToolSpecification) -> Mapping[str, Any]:
        return tool.parameters if self._holds(grammar_of_schema(tool.parameters)) else ANY_OBJECT

    def _holds(self, grammar: str) -> bool:
        # No grammar here lets a reply begin with a line feed: where one is written, nothing constrained it.
        body = {
            "prompt": ".",
            "max_tokens": 1,
            "temperature": 0,
            "logit_bias": [["\n", 100]],
            "cache_prompt": False,
            "grammar": grammar,
        }
        try:
            answer = self._server.handle_completions(body)
        except ValueError:
            return False
        return "choices" in answer and bool(answer["choices"][0]["text"].strip())


def _start(settings: RuntimeSettings) -> _Server:
    xllamacpp = _llama_cpp()
    params = xllamacpp.CommonParams()
    params.model.path = str(settings.path)
    params.model_alias = {settings.label}
    params.n_ctx = settings.context_tokens
    params.n_batch = _BATCH
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    params.warmup = False
    params.verbosity = 3 if os.environ.get(LOG_VARIABLE) == "1" else -1
    if settings.threads is not None:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    # llama.cpp always opens a loopback port. A web page in the user's browser can reach it, so it gets a
    # key that nobody knows, and none of its extras.
    params.api_keys = [secrets.token_urlsafe(32)]
    params.hostnames, params.ui, params.endpoint_slots = ["127.0.0.1"], False, False
    try:
        server: _Server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise ModelError(
            f"llama.cpp cannot load {settings.path}: it may be no GGUF file, of a kind that this llama.cpp "
            f"does not know, or larger than the free memory. {LOG_VARIABLE}=1 shows what llama.cpp says"
        ) from error
    return server


def _llama_cpp() -> Any:
    try:
        with _brief_spinning():
            return import_module("xllamacpp")
    except ModuleNotFoundError as error:
        raise ModelError('the embedded model needs xllamacpp: pip install "aiservices[local]"') from error
    except ImportError as error:
        raise ModelError(
            f"xllamacpp, which runs the embedded model, cannot be loaded: {error}. "
            "A library of the system that it names must be installed (libgomp.so.1 is in libgomp1 on Debian)"
        ) from error


@contextmanager
def _brief_spinning() -> Iterator[None]:
    # The OpenMP library reads this once, when it is loaded. By default its threads spin long while they wait
    # for each other: beside one other busy process that made a call 50 times slower (0.4 s became 25 s).
    # With 1000 turns it stays below 1 s there, and on an idle machine costs nothing.
    if os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = "1000"
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


_runtimes: dict[RuntimeSettings, Runtime] = {}
_loading = threading.Lock()


def loaded(settings: RuntimeSettings) -> Runtime:
    """The runtime of these settings, loaded by whoever asks first. Raises ModelError when it cannot be."""
    with _loading:
        if settings not in _runtimes:
            _runtimes[settings] = Runtime(settings)
        return _runtimes[settings]


def unload(settings: RuntimeSettings) -> None:
    """Free the memory of that runtime as soon as its requests have ended."""
    with _loading:
        _runtimes.pop(settings, None)
