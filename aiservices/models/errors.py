"""The tree of errors that a service raises.

AiServiceError
├── DefinitionError            the declaration is wrong (also a TypeError); holds every fault
├── ServiceOutputError         the reply cannot be read (also an OutputParsingError)
├── BudgetExceededError        a limit of the budget that the user set does not permit to go on
├── ToolError                  a tool cannot be called as it was, or its handler ended the call
│   └── ToolLimitError         the model called tools beyond a limit
├── ApprovalRequiredError      a tool waits to be approved (in ``approval``)
├── FinishError                the model did not finish its answer
│   ├── RefusalError           it refused
│   ├── TruncatedError         it was cut off by a length limit
│   └── ContentFilterError     the provider filtered it
└── ModelError                 the provider or the way to it failed
    ├── ModelConnectionError   no connection, or it broke
    ├── ModelTimeoutError      no answer in time
    ├── AuthenticationError    401, 403
    ├── ModelNotFoundError     404
    ├── RateLimitError         429
    ├── BadRequestError        400, 422 and other 4xx
    ├── ModelServerError       5xx
    └── InvalidReplyError      an answer that is no chat completion
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from output_parsers.result.errors import OutputParsingError, Problem

if TYPE_CHECKING:
    from .messages import ChatReply, ToolCall, Usage
    from .strategy import Strategy


class AiServiceError(Exception):
    """Base of everything that a service raises by itself.

    ``attempts`` holds what was tried before the error, oldest first, with text and usage.
    """

    attempts: tuple[Attempt, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _revived, (type(self), self.args), self.__dict__

    @property
    def usage(self) -> Usage | None:
        """The usage summed over the attempts; None when no attempt reported any."""
        return usage_of(self.attempts)


def usage_of(attempts: Sequence[Attempt]) -> Usage | None:
    """The usage summed over attempts; None when none of them reported any."""
    total: Usage | None = None
    for attempt in attempts:
        used = attempt.reply.usage if attempt.reply is not None else None
        if used is not None:
            total = used if total is None else total + used
    return total


def _revived(cls: type[AiServiceError], args: tuple[Any, ...]) -> AiServiceError:
    """An error as it comes out of a pickle: its ``__init__`` takes more than the message."""
    return cls.__new__(cls, *args)


class Attempt(NamedTuple):
    """One request to the model: the reply it gave, or the error that came instead, or both.

    ``seconds`` is the wall time of the request, ``strategy`` the way in which structure was asked for.
    """

    model: str
    reply: ChatReply | None
    error: Exception | None
    seconds: float
    strategy: Strategy | None = None

    @property
    def text(self) -> str:
        """What the model wrote; "" when nothing came."""
        return self.reply.text if self.reply is not None else ""


class DefinitionProblem(NamedTuple):
    """One thing that is wrong with a declaration: where it is and what to do about it."""

    location: str
    message: str

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


class DefinitionError(AiServiceError, ValueError, TypeError):
    """A service, a model or a setting is declared wrongly.

    ``problems`` holds every problem of the declaration, so that all can be fixed at once. The class is
    also a ValueError and a TypeError: code that catches one of those for wrong arguments keeps working.
    """

    def __init__(self, problems: Sequence[DefinitionProblem]) -> None:
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            text = str(self.problems[0])
        else:
            lines = "".join(f"\n  - {problem}" for problem in self.problems)
            text = f"{len(self.problems)} problems:{lines}"
        super().__init__(text)


class ServiceOutputError(AiServiceError, OutputParsingError):
    """A reply could not be read as the method's type; ``text`` and ``problems`` say why.

    ``reply`` is all of it, or as much as had come when a part of it did not fit.
    """

    reply: ChatReply | None = None

    def __init__(
        self, qualname: str, text: str, problems: Sequence[Problem], attempts: Sequence[Attempt] = ()
    ) -> None:
        OutputParsingError.__init__(self, text, problems, prefix=f"{qualname}: ")
        self.qualname = qualname
        self.attempts = tuple(attempts)


class BudgetExceededError(AiServiceError):
    """A limit that the user set does not permit to go on; ``limit`` is its name in Budget.

    ``attempts`` and ``usage`` say what was spent. Where an error led to this one, it is the ``__cause__``.
    """

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class ToolError(AiServiceError):
    """A tool cannot be called as it was; ``call`` is what the model wrote, its arguments among it."""

    def __init__(self, message: str, *, call: ToolCall) -> None:
        super().__init__(message)
        self.call = call


class ToolLimitError(ToolError):
    """The model called tools more often than ``ToolLimits`` permit."""


class FinishError(AiServiceError):
    """The model stopped before its answer was whole; ``text`` is what it had written, ``reason`` why."""

    def __init__(self, message: str, *, text: str, reason: str) -> None:
        super().__init__(message)
        self.text = text
        self.reason = reason


class RefusalError(FinishError):
    """The model refused to answer; ``reason`` is what it said."""


class TruncatedError(FinishError):
    """The answer was cut off by a length limit. Truncated text is never a value."""


class ContentFilterError(FinishError):
    """The provider's content filter stopped the answer."""


class ModelError(AiServiceError):
    """The provider, or the way to it, failed. The SDK's own exception is the ``__cause__``.

    ``status`` is the HTTP status (None where there was none), ``request_id`` the provider's id of the
    request, ``retryable`` whether the same request may succeed later, and ``retry_after`` the seconds
    that the provider asked to wait (None when it did not say).
    """

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
        super().__init__(message)
        self.status = status
        self.request_id = request_id
        self.retryable = retryable
        self.retry_after = retry_after
        self.body = body


class ModelConnectionError(ModelError):
    """No connection to the provider, or it broke before the answer was whole."""


class ModelTimeoutError(ModelError):
    """The provider did not answer within the timeout."""


class AuthenticationError(ModelError):
    """The provider does not accept the key (401), or it does not permit this (403)."""


class ModelNotFoundError(ModelError):
    """The provider knows no such model or address (404)."""


class RateLimitError(ModelError):
    """Too many requests, or the quota is spent (429)."""


class BadRequestError(ModelError):
    """The provider does not accept the request (400, 422 and other 4xx)."""


class ModelServerError(ModelError):
    """The provider failed (5xx)."""


class InvalidReplyError(ModelError):
    """The provider answered with something that is no chat completion."""
