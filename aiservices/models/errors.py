"""The exceptions of this package, and records of the requests to a model.

AiServiceError
├── DefinitionError            a declaration or a setting is wrong (also a ValueError and a TypeError)
├── ServiceOutputError         the reply cannot be read as a value (also an OutputParsingError)
├── BudgetExceededError        the call reached a limit of its Budget
├── ToolError                  a tool call is invalid, or the handler of tool errors ended the call
│   └── ToolLimitError         the model exceeded ToolLimits
├── ApprovalRequiredError      a tool call waits for approval (defined in engine.approval)
├── AlreadyResumedError        a call that waited was resumed twice (defined in engine.approval)
├── SuspendedCallError         the state of a call that waited cannot be resumed (also a ValueError)
├── StreamConsumedError        a stream is read a second time (also a RuntimeError)
├── MediaNotAllowedError       the media policy refuses what a caller passed (also a ValueError)
├── MemoryBusyError            another call uses the conversation
├── MemoryConflictError        another process changed the conversation during the call
├── MemoryIdError              the memory id does not name a conversation (also a ValueError and a TypeError)
├── MemoryStoreError           the store of the conversations failed
├── RowsError                  the rows of a table cannot be read or written (defined in rows.row)
├── MissingExtraError          a package of an extra is not installed (also an ImportError)
├── FinishError                the model stopped before its answer was complete
│   ├── RefusalError           it refused to answer
│   ├── TruncatedError         the answer reached a length limit
│   └── ContentFilterError     the content filter of the provider stopped it
└── ModelError                 the provider failed, or could not be reached
    ├── ModelConnectionError   no connection, or the connection broke
    ├── ModelTimeoutError      no answer in time
    ├── AuthenticationError    HTTP status 401 or 403
    ├── ModelNotFoundError     404
    ├── RateLimitError         429, 402
    ├── BadRequestError        400, 422 and other 4xx
    ├── ModelServerError       5xx, 424
    └── InvalidReplyError      the response is not a reply of the API

``requests`` raises errors of this module, so this module must not import it, not even for annotations.
``Attempt`` records one request, with the ``Strategy`` that asked for structured output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import output_parsers
from output_parsers.result.errors import OutputParsingError, Problem

if TYPE_CHECKING:
    from .messages import ChatReply, ToolCall, Usage


# How a request that a provider refused can succeed the next time; "" if that is unknown.
Remedy: TypeAlias = Literal["", "drop state", "send again"]


class AiServiceError(Exception):
    """Base class of the exceptions that AI service methods raise.

    Attributes:
        attempts: The requests to models that were made before the error, oldest first.
        inner_calls: The calls of other service methods that tools of the failed call made.
        tool_runs: The tool calls that were executed before the error: ToolRuns.
        undone_runs: The tool calls that were undone because of the error, the last one first: ToolRuns. If
            one could not be undone, its ``undo_error`` says why.
        qualname: The method that failed, as ``"Service.method"``; "" if the error does not belong to a call.
    """

    # A class attribute: an error that is raised before the first request has no attempts.
    attempts: tuple[Attempt, ...] = ()
    inner_calls: tuple[InnerCall, ...] = ()
    tool_runs: tuple[Any, ...] = ()
    undone_runs: tuple[Any, ...] = ()
    qualname: str = ""

    def __reduce__(self) -> tuple[object, ...]:
        # The default calls __init__ with args alone, but most subclasses have required keyword arguments.
        return _unpickle, (type(self), self.args), self.__dict__

    @property
    def usage(self) -> Usage | None:
        """The token counts of a failed call and of its inner calls; None if all are unknown."""
        return total_usage(usage_of(self.attempts), self.inner_calls)


def sent_requests(attempts: Sequence[Attempt]) -> int:
    """Return how many attempts sent a request; without an API key, none is sent."""
    return sum(
        not (isinstance(attempt.error, AuthenticationError) and attempt.error.status is None)
        for attempt in attempts
    )


def usage_of(attempts: Sequence[Attempt]) -> Usage | None:
    """Add up the token counts of several model requests; return None if no reply has token counts."""
    # None and not Usage(): an unknown number of tokens must not look like zero tokens.
    total: Usage | None = None
    for attempt in attempts:
        usage = attempt.reply.usage if attempt.reply is not None else None
        if usage is not None:
            total = usage if total is None else total + usage
    return total


def total_usage(own: Usage | None, inner_calls: Sequence[InnerCall]) -> Usage | None:
    """Add the token counts of a call and its inner calls; return None if no count is known."""
    for call in inner_calls:
        usage = call.usage
        if usage is not None:
            own = usage if own is None else own + usage
    return own


def _unpickle(cls: type[AiServiceError], args: tuple[object, ...]) -> AiServiceError:
    """Recreate a pickled exception without calling ``__init__``."""
    return cls.__new__(cls, *args)


class Strategy(StrEnum):
    """A way of requesting structured output from a model, for example with a JSON Schema or a tool.

    JSON_SCHEMA: the request contains the JSON Schema, and the provider makes sure that the answer matches it.
    OUTPUT_TOOL: the model must call a tool, and the arguments of the call are the value.
    GRAMMAR: the schema constrains the tokens that are generated; the prompt contains a short description.
    JSON_MODE: the provider guarantees only that the answer is a JSON object; the prompt describes the value.
    PROMPT: only the prompt asks for JSON that matches the schema.
    DECISION: the request asks questions with fixed answers, and the reply has a probability for each answer.
    TEXT: the text of the reply is the value.
    """

    JSON_SCHEMA = "json_schema"
    OUTPUT_TOOL = "output_tool"
    GRAMMAR = "grammar"
    JSON_MODE = "json_mode"
    PROMPT = "prompt"
    DECISION = "decision"
    TEXT = "text"


# White space around them is matched only from its start; otherwise a long run would be scanned once for each
# of its characters.
_LINE_BREAKS = re.compile(r"(?<!\s)\s*[\t\n\v\f\r\x85\u2028\u2029]\s*")
# Escape sequences of terminals, and characters that change the direction of text.
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(message: str) -> str:
    """Return a message as one line without control characters, with which a server could forge log lines."""
    if message.isprintable():
        return message
    message = _LINE_BREAKS.sub(" ", message)
    return _INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], message)


class AttemptPurpose(Enum):
    """Why a request was sent to a model, for example to get the answer or to summarize messages.

    Only requests for the answer count against ``Budget.max_attempts``.

    Attributes:
        ANSWER: To get the answer of the method.
        TOOL_ROUND: The model called tools instead of answering.
        REFUSED: To get the answer, but the provider refused the strategy or an option, and a simpler request
            followed.
        SIDE_QUESTION: For something else that the call needs, such as a summary of the conversation.
    """

    ANSWER = "answer"
    TOOL_ROUND = "tool round"
    REFUSED = "refused"
    SIDE_QUESTION = "side question"


class Attempt(NamedTuple):
    """The record of one request to a model, with its reply or error.

    Attributes:
        model: The name of the model.
        reply: The reply, or None if none arrived.
        error: Why the attempt failed: an error of the model, or one of reading the reply. None on success.
        seconds: How long the request took.
        strategy: How structured output was requested; None if no value was requested.
        purpose: Why the request was made.
    """

    model: str
    reply: ChatReply | None
    error: Exception | None
    seconds: float
    strategy: Strategy | None = None
    purpose: AttemptPurpose = AttemptPurpose.ANSWER

    @property
    def usage(self) -> Usage | None:
        """The tokens of the request and the reply; None if they are unknown."""
        return self.reply.usage if self.reply is not None else None

    @property
    def text(self) -> str:
        """The text of the model's reply; "" if no reply arrived."""
        return self.reply.text if self.reply is not None else ""


@dataclass(frozen=True, slots=True)
class InnerCall:
    """A service method call that a tool made during another service call.

    Attributes:
        qualname: The method, as ``"Service.method"``.
        id: The id of the call, as in events and logs.
        own_usage: The tokens of its own requests; None if they are not known.
        own_cost: What they cost, by the prices of its budget or of a call around it; None if a price is not
            known.
        seconds: Wall time of the call; until now if it is still running.
        error: Why the call failed; None if it succeeded.
        inner_calls: The calls that its own tools made.
    """

    qualname: str
    id: str
    own_usage: Usage | None
    own_cost: float | None
    seconds: float
    error: BaseException | None = None
    inner_calls: tuple[InnerCall, ...] = ()

    @property
    def usage(self) -> Usage | None:
        """The tokens of the call and of all calls inside it; None if all are unknown."""
        return total_usage(self.own_usage, self.inner_calls)

    @property
    def cost(self) -> float | None:
        """The cost of the call and of all calls inside it; None if a price is unknown."""
        return total_cost(self.own_cost, self.inner_calls)


def total_cost(own: float | None, inner_calls: Sequence[InnerCall]) -> float | None:
    """Add the costs of a call and its inner calls; return None if one of the costs is unknown."""
    for call in inner_calls:
        cost = call.cost
        own = None if own is None or cost is None else own + cost
    return own


class DefinitionProblem(NamedTuple):
    """One mistake in the declaration of a service, a model or a setting, and its location.

    Attributes:
        location: Where it is, for example ``"SupportDesk.answer"``.
        message: What is wrong, and what to do.
        unavailable: True if the declaration is right, but something that it needs is not on this machine,
            such as the weights of the embedded model.
    """

    location: str
    message: str
    unavailable: bool = False

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


class UnavailableError(LookupError):
    """Raised if a model cannot be found because something is not installed or not configured.

    ``create`` reports it as a DefinitionProblem, which adds the location.
    """


class DefinitionError(AiServiceError, ValueError, TypeError):
    """Raised if a service, a model or a setting is declared wrongly; it lists all mistakes.

    It is also a ValueError and a TypeError, so code that catches one of those for wrong arguments works.

    Attributes:
        problems: All problems of the declaration, so that they can be fixed together.
    """

    def __init__(self, problems: Sequence[DefinitionProblem]) -> None:
        self.problems = tuple(problems)
        # One problem stays on one line; several become a list.
        if len(self.problems) == 1:
            text = str(self.problems[0])
        else:
            lines = "".join(f"\n  - {problem}" for problem in self.problems)
            text = f"{len(self.problems)} problems:{lines}"
        super().__init__(text)

    @property
    def unavailable(self) -> bool:
        """True if something is not installed or not configured on this machine, but nothing is wrong."""
        return all(problem.unavailable for problem in self.problems)


class ServiceOutputError(AiServiceError, OutputParsingError):
    """Raised when the model's reply cannot be converted to the return type of the service method.

    Attributes:
        qualname: The method, as ``"Service.method"``.
        text: The text that could not be read.
        problems: What is wrong with the text.
        reply: The whole reply; in a stream, the part that had arrived before the error.
        discarded_characters: The number of characters of a stream that were read after that part, for its
            usage only.
    """

    reply: ChatReply | None = None
    discarded_characters: int = 0
    _noun = "reply"

    def __init__(
        self, qualname: str, text: str, problems: Sequence[Problem], attempts: Sequence[Attempt] = ()
    ) -> None:
        OutputParsingError.__init__(self, text, problems, prefix=f"{qualname}: ")
        self.qualname = qualname
        self.attempts = tuple(attempts)


class BudgetExceededError(AiServiceError):
    """Raised when a service method call exceeds a limit of its ``Budget`` (time, tokens, money, …).

    ``attempts`` and ``usage`` show what was spent. If the call was about to repeat a failed attempt, the
    error of that attempt is the ``__cause__``.

    Attributes:
        limit: The name of the limit in ``Budget``, for example ``"seconds"``.
    """

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class ToolError(AiServiceError):
    """Raised when a service method call ends because the model's tool call is invalid or has failed.

    Attributes:
        call: The tool call as the model wrote it, with its arguments.
    """

    def __init__(self, message: str, *, call: ToolCall) -> None:
        super().__init__(message)
        self.call = call


class ToolLimitError(ToolError):
    """Raised when the model calls tools more often than the setting ``ToolLimits`` allows."""


class ReplayedError(Exception):
    """Represents an error of a tool or a request that an earlier run of a durable call recorded.

    Errors of models, and Python's errors that have only a message, are restored as they were. The text is the
    original one.

    Attributes:
        type_name: The name of the class of the original error.
    """

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(type_name, message)
        self.type_name = type_name

    def __str__(self) -> str:
        return str(self.args[1])


class RetrievalError(AiServiceError):
    """Raised when a step of a retrieval fails: a retriever, a router, a query rewriter or a re-ranker.

    The exception of the step is the ``__cause__``.

    Attributes:
        step: What failed, such as "EmbeddingRetriever.retrieve".
    """

    def __init__(self, message: str, *, step: str) -> None:
        super().__init__(message)
        self.step = step


class SuspendedCallError(AiServiceError, ValueError):
    """Raised when a service call that waited for a person's approval cannot be continued.

    It is damaged, was changed or has expired, it belongs to another method, or the service does not use the
    model that wrote the pending tool calls.
    """


class StreamConsumedError(AiServiceError, RuntimeError):
    """Raised when a streamed answer is read again although it has ended or was closed."""


class MemoryBusyError(AiServiceError):
    """Raised when a call waited too long for another call that uses the same conversation.

    Attributes:
        conversation: The id of the conversation.
    """

    def __init__(self, conversation: str, reason: str) -> None:
        super().__init__(f"the conversation {conversation!r} is busy: {reason}")
        self.conversation = conversation


class MemoryConflictError(AiServiceError):
    """Raised when a call cannot store new messages because another process changed the conversation.

    Attributes:
        conversation: The id of the conversation.
        reply: The reply with the answer that was not stored; None if the call got none.
        value: The value of that answer.
    """

    reply: ChatReply | None = None
    value: object = None

    def __init__(self, conversation: str) -> None:
        super().__init__(
            f"another process changed the conversation {conversation!r} during this call; "
            "the exchange of this call was not stored; make the call again"
        )
        self.conversation = conversation


class MemoryStoreError(AiServiceError):
    """Raised when a store fails to read or write a conversation; ``__cause__`` is the original error.

    If the store failed to save an answer, ``reply``, ``value``, ``attempts`` and ``usage`` have what the
    model returned.

    Attributes:
        store: The name of the class of the store.
        conversation: The id of the conversation; "" if the store failed before it knew which one.
        retryable: True if the same call may succeed later, for example after a lost connection.
        reply: The reply with the answer that was not stored; None if the call got none.
        value: The value of that answer.
    """

    reply: ChatReply | None = None
    value: object = None

    def __init__(self, message: str, *, store: str, conversation: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.store = store
        self.conversation = conversation
        self.retryable = retryable


class JournalError(AiServiceError):
    """Raised if a durable call cannot be recorded or continued; what was recorded before is kept."""


class MissingExtraError(AiServiceError, ImportError):
    """Raised when a feature needs an optional package (an extra) that is not installed.

    Attributes:
        name: The name of the missing module.
    """

    def __reduce__(self) -> tuple[object, ...]:
        constructor, args, _ = super().__reduce__()
        # name is a slot of ImportError, which is not in __dict__
        return constructor, args, {**self.__dict__, "name": self.name}


class MemoryIdError(AiServiceError, ValueError, TypeError):
    """Raised when the id of a conversation (memory id) is empty, too long or of the wrong type."""


class MediaNotAllowedError(AiServiceError, ValueError):
    """Raised when a caller passes an image, sound or file that the ``MediaPolicy`` of the service refuses."""


class FinishError(AiServiceError):
    """Raised when the model stopped before it had completed the answer.

    Attributes:
        text: The text that the model had written.
        reason: Why it stopped.
    """

    def __init__(self, message: str, *, text: str, reason: str) -> None:
        super().__init__(printable(message))
        self.text = text
        self.reason = reason


class RefusalError(FinishError):
    """Raised when the model refuses to answer; ``reason`` is the text of its refusal."""


class TruncatedError(FinishError):
    """Raised when the model's answer was cut off by a length limit, or ended for an unknown reason.

    Truncated text is never accepted as a value.
    """


class ContentFilterError(FinishError):
    """Raised when the provider's content filter stopped the model's answer."""


class ModelError(AiServiceError):
    """Raised when the provider of a model fails or cannot be reached.

    The error of the HTTP client is the ``__cause__``.

    Attributes:
        status: The HTTP status; None if there was no response.
        request_id: The id that the provider gave the request, for its support; None if unknown.
        retryable: True if the same request may succeed later.
        retry_after: The seconds that the provider asked to wait before the next request; None if it did not.
        body: The body of the response, if it was read.
        remedy: How the next request can succeed: "drop state" if the provider refuses what it sent itself in
            earlier messages, such as encrypted reasoning; "send again" if the model object has learned to
            leave out what the provider refuses, or if the request leaves out ``refused_options``; "" if
            neither is known.
        refused_options: The options that the model refused, each with the values that it accepts instead, if
            any. The next request has them in ``ChatRequest.refused_options``.
    """

    remedy: Remedy = ""
    refused_options: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        body: str | None = None,
    ) -> None:
        super().__init__(printable(message))
        # Retries depend on retryable and retry_after and not on status: a model may work without HTTP.
        self.status = status
        self.request_id = request_id
        self.retryable = retryable
        self.retry_after = retry_after
        self.body = body


class ModelConnectionError(ModelError):
    """Raised when the provider cannot be reached, or the connection breaks before the reply is complete."""


class ModelTimeoutError(ModelError):
    """Raised when the provider does not answer within the timeout."""


class AuthenticationError(ModelError):
    """Raised when the provider rejects the API key (401), or the key lacks a permission (403)."""


class ModelNotFoundError(ModelError):
    """Raised when the provider does not have this model, or the URL is wrong (404)."""


class RateLimitError(ModelError):
    """Raised when the provider received too many requests (status 429) or a quota is used up (429, 402)."""


class BadRequestError(ModelError):
    """Raised when the provider rejects the request as invalid (400, 422 and other 4xx)."""


class ProbabilitiesUnavailableError(ModelError):
    """Raised when a method returns a Decision and the model gives no probabilities."""


class ModelServerError(ModelError):
    """Raised when the provider fails with a server error (HTTP status 5xx)."""


class InvalidReplyError(ModelError):
    """Raised when the provider's HTTP response is not a valid reply of its API."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 row" or "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# --- Optional packages ---


def import_extra(module: str, extra: str, feature: str) -> Any:
    """Import an optional package, or raise MissingExtraError if it is not installed.

    Args:
        module: The module to import.
        extra: The extra of this package that installs it.
        feature: What needs it, such as "KeywordRetriever", for the message.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # another name means a dependency of the installed package
        if error.name not in (module, module.partition(".")[0]):
            raise
    raise missing_extra(module, extra, feature)


def require_extra(module: str, extra: str, feature: str) -> None:
    """Raise MissingExtraError if an optional package is not installed, without importing it."""
    if find_spec(module) is None:
        raise missing_extra(module, extra, feature)


def missing_extra(module: str, extra: str, feature: str) -> MissingExtraError:
    """Return the error for an optional package that is not installed."""
    package = module.partition(".")[0].replace("_", "-")
    message = f"{feature} needs the package {package}: {install_command(extra)}"
    return MissingExtraError(message, name=module.partition(".")[0])


def install_command(*extras: str) -> str:
    """Return the command that installs extras of this package, for messages."""
    return f'pip install "aiservices[{",".join(extras)}]"'


# --- Tracebacks ---

DEBUG_VARIABLE = "AISERVICES_DEBUG"
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_LIBRARY = (_PACKAGE, str(Path(output_parsers.__file__).parent) + os.sep)
_STANDARD_LIBRARY = str(Path(os.__file__).parent) + os.sep


def hide_library_frames(error: AiServiceError) -> None:
    """Remove the frames of this library from the traceback of an error and of its causes.

    The functions that users call do this just before the error leaves them, so the traceback shows the line
    of the user's program that made the call. They raise it again with ``raise`` alone, which does not add
    their own frame. Nothing is removed if ``AISERVICES_DEBUG`` is set.
    """
    if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
        return
    from_model = isinstance(error, ModelError)  # its cause is an error of the connection
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.__traceback__ = _shortened(current, is_expected=from_model)
        context = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or context


def _shortened(error: BaseException, *, is_expected: bool) -> TracebackType | None:
    """Return the traceback of an error without the frames that are of no use to users.

    An exception of another class that was raised in this library keeps its frames unless it ``is_expected``,
    because it may come from a mistake in the library.
    """
    frames: list[Any] = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    is_own = isinstance(error, AiServiceError)
    if not is_own and not is_expected and frames and _file_of(frames[-1]).startswith(_LIBRARY):
        return error.__traceback__
    shortened = None
    for frame in reversed(frames):
        file = _file_of(frame)
        # frames of the standard library are, for example, those of the threads in which tools run
        if not file.startswith(_LIBRARY) and not (is_own and _is_standard_library(file)):
            shortened = TracebackType(shortened, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return shortened


def _file_of(traceback: TracebackType) -> str:
    return traceback.tb_frame.f_code.co_filename


def _is_standard_library(file: str) -> bool:
    # outside of a virtual environment, the directory of installed packages is in the same one
    return file.startswith(_STANDARD_LIBRARY) and "site-packages" not in file and "dist-packages" not in file
