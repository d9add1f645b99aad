"""The interface of chat models, the lookup of a model by its name, and models without a provider.

``FallbackChatModel`` tries several models in order, with a circuit breaker for each of them.
``ScriptedChatModel`` replies according to a script, for tests and experiments.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

from .errors import (
    BadRequestError,
    DefinitionError,
    DefinitionProblem,
    ModelError,
    ProbabilitiesUnavailableError,
    UnavailableError,
    check_settings,
    counted,
    is_at_least,
    is_positive,
)
from .messages import AiMessage, ChatReply, ReplyDelta, ToolCallDelta, Usage
from .requests import ChatRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLimits:
    """The limits of one request to a decision endpoint, which only answers multiple-choice questions.

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
            ``output_parsers.profiles.PROFILES``.
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
    """Return the models of a FallbackChatModel; for another model, a list with only that model."""
    members: tuple[ChatModel, ...] = getattr(model, "members", ())
    return members or (model,)


def rests_of(model: ChatModel) -> Mapping[int, Rest]:
    """Return the circuit breakers (Rest) of a FallbackChatModel's models, by the ``id`` of the model."""
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
        """Return True if a request may be sent now.

        When a rest ends, only one request may be sent first.
        """
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
        """Count a failed request, unless the request itself was wrong and not the model."""
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


# --- Several models as one ---


class FallbackChatModel(PickledByArguments):
    """A chat model that sends each request to several models in turn until one answers.

    ``first`` and ``others`` are models or names of models. Raises DefinitionError if a name is unknown.

    In a service, each member is used with the strategy that suits it best, and all members share one budget.
    If a member fails, the next one is used at once. If all have failed, those with temporary errors
    are tried again after a wait. A reply that does not match the return type is not a failure of the model:
    the same model is asked again, with a list of the problems.

    With ``unsure=0.9``, a service also asks the next member if an answer of a bool, Enum or Literal has a
    probability below 0.9. With ``unsure="threshold"``, the limit of each answer is its threshold, from
    ``create(thresholds=…)`` or the calibration of the model. If that member fails, the unsure answer is used.
    A member that gives no probabilities is never unsure.

    With ``rest_after=5``, a member that has failed five times in a row is skipped for ``rest_for`` seconds.
    Then one request tries it, and if that fails, the member rests again. All calls with this object share
    what is known of its members. If all members rest, they are asked as if none did. ``Result.reasons`` names
    skipped members, and the logger ``aiservices`` gets a warning when a rest begins. A request that the model
    refuses because of its content does not count as a failure.

    A member that is a LimitedChatModel, except the last one, does not wait for the end of an outage (status
    503 or 529): the next member is asked at once.

    Without a service, each member is tried once. The request may use only what all members support.

    Example:
        model = FallbackChatModel("openai:gpt-5-mini", "ollama:qwen3")
    """

    def __init__(
        self,
        first: ChatModel | str,
        *others: ChatModel | str,
        unsure: float | Literal["threshold"] | None = None,
        rest_after: int | None = None,
        rest_for: float = 30.0,
    ) -> None:
        is_probability = isinstance(unsure, (int, float)) and 0 < unsure <= 1
        is_unsure = unsure in (None, "threshold") or is_probability
        is_count = rest_after is None or (isinstance(rest_after, int) and is_at_least(rest_after, 1))
        check_settings(
            "FallbackChatModel",
            ("unsure", unsure, is_unsure, 'it must be a probability above 0, at most 1, or "threshold"'),
            ("rest_after", rest_after, is_count, "it must be a whole number above 0, or None"),
            ("rest_for", rest_for, is_positive(rest_for), "it must be greater than 0"),
        )
        self.unsure = unsure
        models = [find_model(model, "FallbackChatModel") for model in (first, *others)]
        # A fallback model among the models is replaced by its members.
        members: list[Any] = [member for model in models for member in members_of(model)]
        old_rests = [rests_of(model).get(id(member)) for model in models for member in members_of(model)]
        for index, member in enumerate(members[:-1]):
            if hasattr(type(member), "failing_at_once"):
                members[index] = member.failing_at_once()
        self._members: tuple[ChatModel, ...] = tuple(members)
        self._rests: dict[int, Rest] = {}
        for member, rest in zip(members, old_rests, strict=True):
            rest = rest if rest_after is None else Rest(member.name, rest_after, rest_for)
            if rest is not None:
                self._rests[id(member)] = rest

    @property
    def members(self) -> tuple[ChatModel, ...]:
        """The chat models, in the order in which they are tried."""
        return self._members

    @property
    def rests(self) -> Mapping[int, Rest]:
        """The circuit breakers (Rest) of the models, by the ``id`` of the model; may be empty."""
        return self._rests

    def _awake_members(self) -> Iterator[ChatModel]:
        """Yield the models that are not skipped after failures; all models if all are skipped.

        Each model is checked only when its turn comes, because a check may admit the one trial request after
        a rest.
        """
        has_awake = False
        for member in self._members:
            rest = self._rests.get(id(member))
            if rest is None or rest.admits():
                has_awake = True
                yield member
        if not has_awake:
            yield from self._members

    def _failed(self, member: ChatModel, error: ModelError) -> None:
        rest = self._rests.get(id(member))
        if rest is not None:
            rest.failed(error)

    def _succeeded(self, member: ChatModel) -> None:
        rest = self._rests.get(id(member))
        if rest is not None:
            rest.succeeded()

    @property
    def name(self) -> str:
        """The names of all models to try, separated by vertical bars."""
        return " | ".join(member.name for member in self._members)

    @property
    def capabilities(self) -> Capabilities:
        """The features, such as tool calls, that every one of the models supports."""
        capabilities = [member.capabilities for member in self._members]
        return Capabilities(
            json_schema=all(one.json_schema for one in capabilities),
            strict_schema=all(one.strict_schema for one in capabilities),
            json_mode=all(one.json_mode for one in capabilities),
            constrained=all(one.constrained for one in capabilities),
            tools=all(one.tools for one in capabilities),
            logprobs=min(one.logprobs for one in capabilities),
            # Only a default: a service plans each member with its own capabilities.
            profile=capabilities[0].profile,
        )

    def complete(self, request: ChatRequest) -> ChatReply:
        """Try the models in turn, and return the first reply.

        Raises the last error if all models fail.
        """
        last_error: ModelError | None = None
        for member in self._awake_members():
            try:
                reply = member.complete(request)
            # Any other exception is a mistake in the program, which the next model would not correct.
            except ModelError as error:
                last_error = error
                self._failed(member, error)
            else:
                self._succeeded(member)
                return reply
        assert last_error is not None, "there is at least one model"
        raise last_error

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Try the models in turn, and return the first reply; async version of ``complete``."""
        last_error: ModelError | None = None
        for member in self._awake_members():
            try:
                reply = await member.acomplete(request)
            except ModelError as error:
                last_error = error
                self._failed(member, error)
            else:
                self._succeeded(member)
                return reply
        assert last_error is not None, "there is at least one model"
        raise last_error

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        """Stream the reply of the first model that starts to answer.

        A model that fails before its first piece is skipped. An error after the first piece is raised.
        """
        last_error: ModelError | None = None
        for member in self._awake_members():
            has_started = False
            try:
                with _closing(member.stream(request)) as deltas:
                    for delta in deltas:
                        has_started = True
                        yield delta
                self._succeeded(member)
                return
            except ModelError as error:
                last_error = error
                self._failed(member, error)
                # The pieces of two replies must not be mixed.
                if has_started:
                    raise
        assert last_error is not None, "there is at least one model"
        raise last_error

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        """Stream the reply of the first model that starts to answer; async version of ``stream``.

        A model that fails before its first piece is skipped. An error after the first piece is raised.
        """
        last_error: ModelError | None = None
        for member in self._awake_members():
            has_started = False
            try:
                async with _aclosing(member.astream(request)) as deltas:
                    async for delta in deltas:
                        has_started = True
                        yield delta
                self._succeeded(member)
                return
            except ModelError as error:
                last_error = error
                self._failed(member, error)
                if has_started:
                    raise
        assert last_error is not None, "there is at least one model"
        raise last_error


# Not contextlib.closing: the stream of a user's model may be an iterator without a close method.
@contextmanager
def _closing(deltas: Iterator[ReplyDelta]) -> Iterator[Iterator[ReplyDelta]]:
    """Context manager that closes a streamed reply, which ends the model request."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "close", None)
        if close is not None:
            close()


@asynccontextmanager
async def _aclosing(deltas: AsyncIterator[ReplyDelta]) -> AsyncIterator[AsyncIterator[ReplyDelta]]:
    """Async context manager that closes a streamed reply, which ends the model request."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()


# --- A model that follows a script ---


ScriptedReply: TypeAlias = str | ChatReply | Exception
_CAPABILITIES = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True, logprobs=20)
# A word with the white space after it, so the pieces of a stream together are the whole text.
_WORD = re.compile(r"\S+\s*|\s+")


class ScriptedChatModel(PickledByArguments):
    """A fake chat model for tests, which returns scripted replies in order and records each request.

    Args:
        script: The replies in their order, or a function from a request to a reply. A reply is a string,
            a ChatReply, or an exception, which is raised.
        capabilities: What the model claims to support; by default all but constrained decoding.
        name: The name of the model.

    Streams yield a reply word by word. Usage is counted in words. It is safe to use from several threads.
    A request after the last reply raises LookupError. Raises DefinitionError if the script is a single text.

    Attributes:
        requests: The requests so far.

    Example:
        model = ScriptedChatModel(["Hello!", RateLimitError("slow down", retryable=True)])
    """

    def __init__(
        self,
        script: Iterable[ScriptedReply] | Callable[[ChatRequest], ScriptedReply],
        *,
        capabilities: Capabilities = _CAPABILITIES,
        name: str = "scripted",
    ) -> None:
        if isinstance(script, str):
            # A string is an iterable of strings, so each of its characters would be a reply.
            message = f"the script is a text; pass a list of replies, as in ScriptedChatModel([{script!r}])"
            raise DefinitionError([DefinitionProblem("ScriptedChatModel", message)])
        if not callable(script):
            script = list(script)
            problems = [
                DefinitionProblem("ScriptedChatModel", f"reply {number} is {_not_a_reply(reply)}")
                for number, reply in enumerate(script, 1)
                if not isinstance(reply, (str, ChatReply, Exception))
            ]
            if problems:
                raise DefinitionError(problems)
        self._script = script if callable(script) else iter(script)
        self._capabilities = capabilities
        self._name = name
        self._lock = threading.Lock()
        self.requests: list[ChatRequest] = []

    @property
    def name(self) -> str:
        """The name of this fake model in errors and logs."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """The features that this fake model claims to support, such as tool calls."""
        return self._capabilities

    def complete(self, request: ChatRequest) -> ChatReply:
        """Record a chat request, then return the scripted reply or raise the scripted exception."""
        with self._lock:
            self.requests.append(request)
            request_count = len(self.requests)
            reply = None if callable(self._script) else next(self._script, None)
        if callable(self._script):
            # Called without the lock, so that a script may block until another request arrives.
            reply = self._script(request)
        if reply is None:
            raise LookupError(f"the script of {self._name} is at its end after {request_count - 1} replies")
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, ChatReply):
            return reply
        if not isinstance(reply, str):
            message = f"the script returned {_not_a_reply(reply)}"
            raise DefinitionError([DefinitionProblem("ScriptedChatModel", message)])
        input_words = sum(len(message.text.split()) for message in request.messages)
        usage = Usage(input_words, len(reply.split()))
        return ChatReply(AiMessage(reply), usage=usage, model=self._name)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Record a chat request, and return the scripted reply; async version of ``complete``."""
        return self.complete(request)

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        """Stream the next scripted reply word by word: first its text, then its tool calls."""
        reply = self.complete(request)
        for word in _WORD.findall(reply.text):
            yield ReplyDelta(word)
        for index, call in enumerate(reply.message.tool_calls):
            *words, last = _WORD.findall(call.arguments) or [""]
            for word in words:
                yield ReplyDelta(tool_calls=(ToolCallDelta(index, call.name, word),))
            yield ReplyDelta(tool_calls=(ToolCallDelta(index, call.name, last, call),))
        yield ReplyDelta(reply=reply)

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        """Stream the next scripted reply word by word; async version of ``stream``."""
        for delta in self.stream(request):
            yield delta


def _not_a_reply(reply: object) -> str:
    """Return text for an error message: the type of an invalid scripted reply, and what to pass instead."""
    kind = type(reply).__name__
    if isinstance(reply, AiMessage):
        return f"{kind}; pass ChatReply(message)"
    return f"{kind}; pass a text as the model writes it, such as JSON, a ChatReply or an exception"
