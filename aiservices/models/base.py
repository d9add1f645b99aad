"""The interface of chat models, and what a model supports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from .arguments import check_counts, checks_arguments
from .messages import ChatReply, ReplyDelta
from .requests import ChatRequest


@checks_arguments
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

    def __post_init__(self) -> None:
        check_counts("DecisionLimits", 1, questions=self.questions, options=self.options, levels=self.levels)


@checks_arguments
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
        logprobs: The number of most likely tokens that the model can list for each token of its reply; 0 if
            it cannot.
        decisions: The limits of a decision endpoint, which only answers questions with fixed answers; None
            for models that write text.
        continues_replies: If the last message is an AiMessage, the model continues its text. Options of a
            Decision that begin with the same token are then distinguished by further requests.
        image_output: The model can answer with images.
        max_concurrency: The number of requests that the model answers at the same time; a service sends no
            more, and waiting for a place does not count as time of the call. None if it sets no limit.
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
    max_concurrency: int | None = None

    def __post_init__(self) -> None:
        check_counts("Capabilities", 0, logprobs=self.logprobs)
        check_counts("Capabilities", 1, max_concurrency=self.max_concurrency)


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

    _constructor_arguments: tuple[tuple[object, ...], dict[str, object]]

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        instance = super().__new__(cls)
        instance._constructor_arguments = args, kwargs
        return instance

    def __reduce__(self) -> tuple[object, ...]:
        args, kwargs = self._constructor_arguments
        return _construct, (type(self), args, kwargs)


def _construct(cls: type[PickledByArguments], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    return cls(*args, **kwargs)


class ClosedByWith:
    """Base class for models with connections, which the end of a ``with`` or ``async with`` block closes."""

    @abstractmethod
    def close(self) -> None: ...
    @abstractmethod
    async def aclose(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


# Receives the headers of each HTTP response of the current call; a LimitedChatModel sets it.
header_listener: ContextVar[Callable[[Mapping[str, str]], None] | None] = ContextVar(
    "header_listener", default=None
)


def unwrap_model(model: ChatModel) -> ChatModel:
    """Return the innermost model inside wrappers such as LimitedChatModel."""
    while hasattr(type(model), "wrapped_model"):
        wrapper: Any = model
        model = wrapper.wrapped_model
    return model
