"""The interface of chat models, the lookup of a model by its name, and a circuit breaker for models."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, Self, runtime_checkable

from .errors import (
    BadRequestError,
    DefinitionError,
    DefinitionProblem,
    ModelError,
    ProbabilitiesUnavailableError,
    UnavailableError,
    counted,
)
from .messages import ChatReply, ReplyDelta
from .requests import ChatRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLimits:
    """The limits of a decision endpoint: how many questions, options and levels one request may have.

    Attributes:
        questions: The largest number of questions; more are sent in several requests.
        options: The largest number of options of a question.
        levels: The largest number of levels of a scale.
    """

    questions: int = 400
    options: int = 255
    levels: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The features that a chat model supports, such as tool calls and JSON Schema output.

    Attributes:
        json_schema: The model accepts a JSON Schema for its answer.
        strict_schema: The provider enforces a JSON Schema, for answers and for tools, if the schema is within
            the subset that its strict mode accepts.
        requires_strict: The model accepts a JSON Schema for its answer only if the schema is in that subset.
        json_mode: The model can be made to answer with any JSON object.
        constrained: The schema is enforced while tokens are generated, so every answer fits it, but the model
            does not see the schema. The prompt then contains a short description of it.
        tools: The model calls tools, and can be made to call a certain tool.
        schema_with_tools: The model accepts a JSON Schema for its answer also while tools are offered.
        profile: The subset that the strict mode accepts, as a key of
            ``output_parsers.strict.profiles.PROFILES``.
        logprobs: How many of the most likely tokens the model can list for each token of its reply; 0 if it
            cannot.
        decisions: The limits of a decision endpoint, which only answers questions with fixed answers; None
            for models that write text.
        continues_replies: If the last message is an AiMessage, the model goes on after its text. Options of
            a Decision that begin with the same token are then told apart by further requests.
        image_output: The model can answer with images.
    """

    json_schema: bool = False
    strict_schema: bool = False
    requires_strict: bool = False
    json_mode: bool = False
    constrained: bool = False
    tools: bool = False
    schema_with_tools: bool = True
    profile: str = "openai"
    logprobs: int = 0
    decisions: DecisionLimits | None = None
    continues_replies: bool = False
    image_output: bool = False


@runtime_checkable
class ChatModel(Protocol):
    """The interface of chat models, which send a request to a language model and return the reply.

    Methods raise ModelError or a subclass. They do not retry: the service does. If ``request.deadline`` is
    set, a method should raise ModelTimeoutError at that value of ``time.monotonic()``: a blocking call cannot
    be interrupted from outside, and ends only when its model returns.
    """

    @property
    def name(self) -> str:
        """The name of the model in errors, logs and price lists, such as ``"openai:gpt-5-mini"``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """The features that the chat model supports, such as JSON Schema and tools."""
        ...

    def complete(self, request: ChatRequest) -> ChatReply:
        """Send a chat request and return the complete reply."""
        ...

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Send a chat request and return the complete reply, without blocking the event loop.

        A model without an asynchronous client may use a worker thread.
        """
        ...

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        """Send a chat request and yield the pieces of the reply; the last piece has the complete reply.

        Closing the iterator ends the request.
        """
        ...

    def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        """Send a chat request and yield the pieces of the reply asynchronously."""
        ...


class PickledByArguments:
    """Base class for objects with connections or locks; pickling stores only their constructor arguments."""

    _constructor_arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        made._constructor_arguments = args, kwargs
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        args, kwargs = self._constructor_arguments
        return _construct, (type(self), args, kwargs)


def _construct(cls: type[PickledByArguments], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    return cls(*args, **kwargs)


# Receives the headers of each HTTP response of the current call; a LimitedChatModel sets it.
header_listener: ContextVar[Callable[[Mapping[str, str]], None] | None] = ContextVar(
    "header_listener", default=None
)


def members_of(model: ChatModel) -> tuple[ChatModel, ...]:
    """Return the models that a FallbackChatModel tries in turn; for other models, only the model itself."""
    members: tuple[ChatModel, ...] = getattr(model, "members", ())
    return members or (model,)


def rests_of(model: ChatModel) -> Mapping[int, Rest]:
    """Return a dict from the ``id`` of a FallbackChatModel's members to their circuit breakers (Rest)."""
    return getattr(model, "rests", {})


# Named as text: importing the classes here would make every start of a program slower.
BUILT_IN = {
    "openai": "aiservices.models.openai:OpenAiChatModel.named",
    "openai-responses": "aiservices.models.openai:OpenAiResponsesModel.named",
    "azure": "aiservices.models.openai:OpenAiChatModel.azure",
    "azure-responses": "aiservices.models.openai:OpenAiResponsesModel.azure",
    "anthropic": "aiservices.models.providers.anthropic:AnthropicChatModel.named",
    "gemini": "aiservices.models.providers.gemini:GeminiChatModel.named",
    "google": "aiservices.models.providers.gemini:GeminiChatModel.named",
    "google-vertex": "aiservices.models.providers.gemini:GeminiChatModel.vertex",
    "bedrock": "aiservices.models.providers.bedrock:BedrockChatModel.named",
    "openai-decisions": "aiservices.models.providers.decisions:DecisionChatModel.openai",
    "google-decisions": "aiservices.models.providers.decisions:DecisionChatModel.google",
    "systemone": "aiservices.models.providers.decisions:DecisionChatModel.systemone",
    "ollama": "aiservices.models.openai:OpenAiChatModel.ollama",
    "local": "aiservices.models.local:LocalChatModel.named",
    "fake": "aiservices.testing.fake:FakeChatModel.named",
}


# The functions that were passed to register_provider, by the names of the providers.
REGISTERED: dict[str, Callable[[str], ChatModel]] = {}


def unwrap_model(model: ChatModel) -> ChatModel:
    """Return the innermost model inside wrappers such as LimitedChatModel."""
    while hasattr(type(model), "wrapped_model"):
        wrapper: Any = model
        model = wrapper.wrapped_model
    return model


def find_model(model: ChatModel | str | None, location: str = "model") -> ChatModel:
    """Return the chat model for a name such as ``"openai:gpt-5"``; return a model object unchanged.

    For None, it returns the model that the environment variable ``AISERVICES_MODEL`` names. If that is not
    set, it returns the embedded model if its runtime is installed. Raises DefinitionError if there is no such
    model. ``location`` says in the message where the model was set.
    """
    introduction = ""
    try:
        if model is None:
            model = os.environ.get("AISERVICES_MODEL")
            if not model:
                introduction = _NO_MODEL
                model = _embedded_model()
        if isinstance(model, str):
            provider, _, name = model.partition(":")
            return _find_factory(provider, model)(name)
    except DefinitionError as error:  # It was raised by the model class, which does not know the location.
        problems = [
            problem._replace(location=location, message=introduction + problem.message)
            for problem in error.problems
        ]
        raise DefinitionError(problems) from None
    except LookupError as error:
        message = introduction + str(error.args[0] if error.args else error)
        unavailable = isinstance(error, UnavailableError)
        cause = error if isinstance(error, (KeyError, IndexError)) else None  # a mistake in a factory
        raise DefinitionError([DefinitionProblem(location, message, unavailable)]) from cause
    # A class has the same attributes as its objects, so it passes the isinstance check.
    if isinstance(model, ChatModel) and not isinstance(model, type):
        return model
    if isinstance(model, type):
        message = f"{model.__name__} is a class; pass an object of it"
    else:
        message = (
            f"{type(model).__name__} is not a ChatModel: it needs name, capabilities, complete, acomplete, "
            "stream and astream"
        )
    raise DefinitionError([DefinitionProblem(location, message)])


_NO_MODEL = (
    'no model is set: pass one, as in create(Interface, "openai:NAME") or, for made-up answers, "fake", '
    "or set AISERVICES_MODEL; "
)


def _embedded_model() -> str:
    """Return the name of the embedded llama.cpp model, or raise LookupError if it is not installed."""
    # find_spec does not import the runtime, which takes long and must wait for the first request.
    if find_spec("xllamacpp") is None:
        raise UnavailableError("the embedded model is not installed: install the extra local of aiservices")
    return "local"


_FAMILIES = {"gpt": "openai", "o": "openai", "claude": "anthropic", "gemini": "google"}


def _unknown_model(model: str, providers: list[str]) -> str:
    """Return the error message for an unknown provider in a model name, with a suggestion."""
    from difflib import get_close_matches  # rarely needed

    provider, colon, name = model.partition(":" if ":" in model else "/")
    family = _FAMILIES.get(model.partition("-")[0].rstrip("0123456789"))
    close = get_close_matches(provider, providers, 1, 0.7)
    guess = ""
    if colon and close:
        guess = f"{close[0]}:{name}"
    elif not colon and family is not None:
        guess = f"{family}:{model}"
    advice = f"did you mean {guess!r}? " if guess else ""
    return (
        f'the model {model!r} is unknown: {advice}write PROVIDER:NAME, as in "openai:NAME", with one of '
        f"these providers: {', '.join(providers)}; for another server that speaks OpenAI's API pass "
        "OpenAiChatModel(NAME, base_url=…)"
    )


def _find_factory(provider: str, model: str) -> Callable[[str], ChatModel]:
    """Return the function that creates models of a provider, or raise LookupError for an unknown provider."""
    targets = BUILT_IN
    if provider not in targets:
        if provider in REGISTERED:
            return REGISTERED[provider]
        presets = import_module("aiservices.models.openai.client").PRESETS
        if provider in presets:
            openai = import_module("aiservices.models.openai")
            return partial(openai.OpenAiChatModel.preset, provider)
        from importlib.metadata import entry_points  # It is slow to import and rarely needed.

        targets = targets | {point.name: point.value for point in entry_points(group="aiservices.models")}
        if provider not in targets:
            raise LookupError(_unknown_model(model, sorted({*targets, *REGISTERED, *presets})))
    module, _, attributes = targets[provider].partition(":")
    factory = import_module(module)
    for attribute in attributes.split("."):
        factory = getattr(factory, attribute)
    return factory  # type: ignore[return-value]  # An entry point may name anything.


# --- The circuit breaker of a model ---

# These errors are caused by the request, not by the model.
_NOT_COUNTED = (BadRequestError, ProbabilitiesUnavailableError)


class Rest:
    """A circuit breaker: after several failures in a row, a model gets no requests for some seconds.

    After that time, one request is admitted. If it succeeds, all are; if it fails, the model rests again. If
    it neither succeeds nor fails within that time, the next request is admitted. It is safe for threads and
    event loops.

    A well-kept library for this is purgatory. It is not used, because it wraps a call and raises an error
    while the circuit is open; here the next model is chosen before a request, so no attempt is spent. It also
    has separate breakers for blocking and async calls. pybreaker has no asyncio.
    """

    def __init__(self, name: str, after: int, seconds: float) -> None:
        self._name = name
        self._after = after
        self._seconds = seconds
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0  # a value of time.monotonic()

    def admits(self) -> bool:
        """Return True if a request may be sent now; when a rest ends, only one request may be sent first."""
        if self._failures < self._after:
            return True
        with self._lock:
            now = time.monotonic()
            if self._failures < self._after:
                return True
            if now < self._until:
                return False
            self._until = now + self._seconds
            return True

    def failed(self, error: ModelError) -> None:
        """Count a failed request, unless the request itself was wrong."""
        if isinstance(error, _NOT_COUNTED):
            return
        with self._lock:
            self._failures += 1
            if self._failures < self._after:
                return
            self._until = time.monotonic() + self._seconds
            failures = counted(self._failures, "failure")
        logging.getLogger("aiservices").warning(
            "%s rests for %g seconds after %s in a row: %s", self._name, self._seconds, failures, error
        )

    def succeeded(self) -> None:
        """Reset the count of failures after a successful request."""
        if not self._failures:
            return
        with self._lock:
            has_rested, self._failures = self._failures >= self._after, 0
        if has_rested:
            logging.getLogger("aiservices").info("%s answers again", self._name)

    def describe(self) -> str:
        """Return a message that explains why the model currently gets no requests."""
        seconds = max(0.0, self._until - time.monotonic())
        failures = counted(self._failures, "failure")
        return f"{self._name} was skipped: it rests for {seconds:.0f} seconds after {failures} in a row"
