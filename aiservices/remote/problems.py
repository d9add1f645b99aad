"""Convert exceptions to JSON errors for remote callers ("problem details" of RFC 9457).

A problem never contains an API key, a prompt, or text from a model or provider: its title depends only on the
error's class. Errors in the caller's own arguments are reported in full.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from output_parsers.result.errors import OutputParsingError, shorten

from ..engine.approval import AlreadyResumedError, ApprovalRequiredError
from ..journal import (
    CallCancelledError,
    CallChangedError,
    CallIdError,
    CallInProgressError,
    JournalError,
)
from ..models.errors import (
    AiServiceError,
    AuthenticationError,
    BadRequestError,
    BudgetExceededError,
    ContentFilterError,
    InvalidReplyError,
    MediaNotAllowedError,
    MemoryBusyError,
    MemoryConflictError,
    MemoryIdError,
    MemoryStoreError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelServerError,
    ModelTimeoutError,
    ProbabilitiesUnavailableError,
    RateLimitError,
    RefusalError,
    ServiceOutputError,
    SuspendedCallError,
    ToolError,
    ToolLimitError,
    TruncatedError,
    sent_requests,
)
from .codec import AttemptJson, attempts_to_json

PROBLEM_MEDIA_TYPE = "application/problem+json"
_TYPE_PREFIX = "urn:aiservices:"
_MAX_ARGUMENT_PROBLEMS = 20
_ARGUMENT_PATH = re.compile(r'\$(?:\.\w+|\["(?:[^"\\]|\\.)*"\])')  # of a whole argument, not of a part of it


class ProblemKind(NamedTuple):
    """A kind of JSON error: its name, status and title.

    Attributes:
        name: The last part of the ``type`` URN.
        status: The HTTP status of the response.
        title: What went wrong, in words that are safe for every caller.
    """

    name: str
    status: int
    title: str

    @property
    def type(self) -> str:
        """The URN of this kind of error, for the ``type`` field of error responses (RFC 9457)."""
        return f"{_TYPE_PREFIX}{self.name}"


class WrongPart(BaseModel):
    """One mistake in the arguments of a remote call."""

    model_config = ConfigDict(frozen=True)

    path: str
    """The JSON path of the wrong part."""
    message: str
    """Why it is wrong."""
    found: str = ""
    """The text that is there."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}{f', found {self.found}' if self.found else ''}"


class PendingCall(BaseModel):
    """A tool call that waits for approval or a result, as listed in a JSON error."""

    model_config = ConfigDict(frozen=True)

    id: str
    """The id of the call, for the decision about it or its result."""
    name: str
    """The name of the tool."""
    arguments: str
    """The arguments that the model wrote, a JSON text."""
    external: bool = False
    """True if the call waits for a result, and not for approval."""


class Problem(BaseModel):
    """The JSON error for a failed remote call (RFC 9457)."""

    model_config = ConfigDict(frozen=True)

    type: str
    """A URN that identifies the kind of problem."""
    title: str
    """What went wrong."""
    status: int
    """The HTTP status."""
    detail: str = ""
    """More about the problem, such as how many requests were made to models."""
    method: str = ""
    """The method that was called, as ``Service.method``."""
    retryable: bool = False
    """True if the same request may succeed later."""
    retry_after: float | None = None
    """The seconds to wait before the next request."""
    problems: tuple[WrongPart, ...] = ()
    """The mistakes in the arguments."""
    attempts: tuple[AttemptJson, ...] = ()
    """The requests to models, with their tokens."""
    limit: str | None = None
    """The limit of the budget that was exceeded."""
    calls: tuple[PendingCall, ...] = ()
    """The tool calls that wait for approval or for a result, if the caller can continue them."""
    state: str = ""
    """The signed state of the call that waits. The ``resume`` endpoint of the method continues it."""

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers of an error response, such as ``Retry-After`` if the waiting time is known."""
        return {} if self.retry_after is None else {"Retry-After": str(max(0, math.ceil(self.retry_after)))}

    def json_bytes(self) -> bytes:
        """Return the JSON body of an error response, leaving out fields that have default values."""
        return self.model_dump_json(exclude_defaults=True).encode()


# Titles are fixed texts, so they cannot reveal data of a call. Programs should compare types, not titles.
NOT_JSON = ProblemKind("not-json", 415, "The body must be JSON in UTF-8, with a matching Content-Type")
_HTTP_METHOD = ProblemKind("method-not-allowed", 405, "The endpoint does not answer this HTTP method")
_BODY_TOO_LARGE = ProblemKind("body-too-large", 413, "The body of the request is too large")
_HEADERS_TOO_LARGE = ProblemKind(
    "headers-too-large", 431, "The headers and the URL of the request are too large"
)
_HOST_REFUSED = ProblemKind("host-not-allowed", 403, "The service is not available under this host name")
_ORIGIN_REFUSED = ProblemKind(
    "origin-not-allowed", 403, "Web pages of other origins are not allowed to call the service"
)
_OVERLOADED = ProblemKind("overloaded", 503, "Too many calls are waiting")
ARGUMENTS = ProblemKind("arguments", 422, "The arguments do not fit the method")
INTERNAL = ProblemKind("internal", 500, "The service failed")
_INPUT_BLOCKED = ProblemKind("not-permitted", 422, "The input is not permitted here")
_OUTPUT_BLOCKED = ProblemKind("answer-not-permitted", 502, "The model gave no answer that is permitted here")
_CONFIGURATION = ProblemKind("configuration", 500, "The service is not set up to use its model")
_SUSPENDED_CALL = ProblemKind("suspended-call", 422, "The call that waited cannot be resumed")
_OUT_OF_TIME = ProblemKind("budget", 504, "The time limit of the call has passed")
# To a remote caller this service is a gateway: 502, 503 and 504 mean that the model behind it failed, and 500
# means an error in the service itself. The first class of which an error is an instance applies, so
# subclasses are listed before their base classes.
_KIND_OF_CLASS: dict[type[Exception], ProblemKind] = {
    ServiceOutputError: ProblemKind(
        "unreadable-reply", 502, "The model's reply cannot be read as the declared type"
    ),
    RefusalError: ProblemKind("refusal", 502, "The model refused to answer"),
    TruncatedError: ProblemKind("truncated", 502, "The model's answer was cut off"),
    ContentFilterError: ProblemKind("content-filter", 502, "The model's provider filtered the answer"),
    ToolLimitError: ProblemKind("tool-limit", 502, "The model called tools beyond a limit"),
    ToolError: ProblemKind("tool", 502, "A tool that the model called failed"),
    ApprovalRequiredError: ProblemKind("approval-required", 409, "A call waits for approval or a result"),
    AlreadyResumedError: ProblemKind("already-resumed", 409, "The call that waited was resumed before"),
    SuspendedCallError: _SUSPENDED_CALL,
    CallIdError: ProblemKind("call-id", 422, "The id of the call is empty, too long or not printable"),
    CallInProgressError: ProblemKind("call-in-progress", 409, "The call with this id is running"),
    CallChangedError: ProblemKind("call-changed", 409, "The call with this id was begun with other values"),
    CallCancelledError: ProblemKind(
        "call-cancelled", 409, "The call with this id was cancelled, or is too old to be continued"
    ),
    JournalError: ProblemKind("journal", 503, "The call cannot be recorded or continued"),
    MemoryBusyError: ProblemKind("memory-busy", 409, "Another call uses the conversation"),
    MemoryConflictError: ProblemKind(
        "memory-conflict", 409, "The conversation was changed during the call, so the call was not stored"
    ),
    MediaNotAllowedError: ProblemKind("media", 422, "An image, sound or file is not allowed"),
    MemoryIdError: ProblemKind("memory-id", 422, "The memory id does not name a conversation"),
    MemoryStoreError: ProblemKind("memory-store", 503, "The store of the conversations failed"),
    BudgetExceededError: ProblemKind("budget", 503, "The budget of the call is spent"),
    RateLimitError: ProblemKind("rate-limit", 429, "The model does not accept more requests for now"),
    ModelTimeoutError: ProblemKind("timeout", 504, "The model did not answer in time"),
    ModelConnectionError: ProblemKind("connection", 503, "The model cannot be reached"),
    ModelServerError: ProblemKind("unavailable", 503, "The model's provider failed"),
    AuthenticationError: _CONFIGURATION,
    ModelNotFoundError: _CONFIGURATION,
    BadRequestError: ProblemKind("request-refused", 502, "The model's provider refused the request"),
    ProbabilitiesUnavailableError: ProblemKind(
        "no-probabilities", 502, "The model gives no probabilities of its answers"
    ),
    InvalidReplyError: ProblemKind("invalid-reply", 502, "The model's provider gave no valid answer"),
    ModelError: ProblemKind("model", 502, "The model's provider failed"),
}
KINDS: tuple[ProblemKind, ...] = (
    ARGUMENTS,
    NOT_JSON,
    _HTTP_METHOD,
    _BODY_TOO_LARGE,
    _HEADERS_TOO_LARGE,
    _HOST_REFUSED,
    _ORIGIN_REFUSED,
    _OVERLOADED,
    _INPUT_BLOCKED,
    _OUTPUT_BLOCKED,
    *dict.fromkeys(_KIND_OF_CLASS.values()),
    _OUT_OF_TIME,
    INTERNAL,
)


def problem_of(error: Exception, qualname: str) -> Problem:
    """Convert the exception of a failed service call to a JSON error (RFC 9457) for the remote caller."""
    kind = _kind_of(error)
    # The cause of an exceeded budget is the last error of the model. It says whether and when to retry.
    cause = error.__cause__ if isinstance(error, BudgetExceededError) else error
    model_error = cause if isinstance(cause, ModelError) else None
    retryable, retry_after = kind.status == 503, _retry_after(model_error)
    if model_error is not None:
        retryable = model_error.retryable
    elif isinstance(error, (MemoryBusyError, MemoryConflictError, MemoryStoreError, CallInProgressError)):
        retryable = getattr(error, "retryable", True)
        # After a conflict, no wait is necessary.
        retry_after = 1.0 if retryable and not isinstance(error, MemoryConflictError) else None
    attempts = attempts_to_json(error.attempts) if isinstance(error, AiServiceError) else ()
    detail = ""
    sent = sent_requests(error.attempts) if isinstance(error, AiServiceError) else 0
    if sent:
        detail = f"{sent} requests were made to models" if sent > 1 else "One request was made"
    return Problem(
        type=kind.type,
        title=kind.title,
        status=kind.status,
        detail=detail,
        method=qualname,
        retryable=retryable,
        retry_after=retry_after,
        attempts=attempts,
        limit=error.limit if isinstance(error, BudgetExceededError) else None,
    )


def _kind_of(error: Exception) -> ProblemKind:
    if isinstance(error, BudgetExceededError) and error.limit == "seconds":
        return _OUT_OF_TIME
    for cls, kind in _KIND_OF_CLASS.items():
        if isinstance(error, cls):
            return kind
    # GuardrailError and ModerationError have this attribute. An isinstance check would have to import their
    # modules, which most services do not use.
    stage = getattr(error, "stage", None)
    if isinstance(error, AiServiceError) and stage in ("input", "output") and error.__cause__ is None:
        return _INPUT_BLOCKED if stage == "input" else _OUTPUT_BLOCKED
    return INTERNAL


def _retry_after(error: ModelError | None) -> float | None:
    """Return the seconds to wait before a retry, or None if the time is not known.

    For a rate limit error without a waiting time, return one second.
    """
    seconds = None if error is None else error.retry_after
    # JSON has no infinity, and a caller cannot wait for a negative time.
    if seconds is not None and 0 <= seconds < math.inf:
        return seconds
    return 1.0 if isinstance(error, RateLimitError) else None


def argument_problem(parts: Sequence[WrongPart], qualname: str) -> Problem:
    """Return the JSON error (RFC 9457) for a request with wrong arguments, listing up to 20 mistakes."""
    more = len(parts) - _MAX_ARGUMENT_PROBLEMS
    return Problem(
        type=ARGUMENTS.type,
        title=ARGUMENTS.title,
        status=ARGUMENTS.status,
        detail=f"{more} more are not shown" if more > 0 else "",
        method=qualname,
        problems=tuple(parts[:_MAX_ARGUMENT_PROBLEMS]),
    )


def wrong_parts(error: OutputParsingError, root: str = "$") -> list[WrongPart]:
    """Convert an exception about a request's arguments to a list of the individual mistakes.

    ``root`` is the path of the parsed text within the JSON object of all arguments.
    """
    parts = []
    for problem in error.problems:
        path = root + problem.path[1:]
        parts.append(WrongPart(path=path, message=_for_caller(problem.message, path), found=problem.found))
    return parts


def _for_caller(message: str, path: str) -> str:
    """Reword a parser's error message for remote callers, who cannot change the parser's settings."""
    # The parser's message says what a lenient parser would do. Here the key is an error.
    if message.startswith("unknown key left out"):
        return f"there is no {'parameter' if _ARGUMENT_PATH.fullmatch(path) else 'field'} of this name"
    return message.replace(" is not permitted with Leniency.NONE", " is not accepted")


def suspended_call_problem(detail: str, qualname: str) -> Problem:
    """Return the JSON error for a request that tries to resume a suspended call with invalid data."""
    return _problem(_SUSPENDED_CALL, qualname, detail)


def not_json_problem(qualname: str) -> Problem:
    """Return the JSON error for a request whose body or Content-Type is not JSON."""
    return _problem(NOT_JSON, qualname)


def http_method_problem(allowed: Sequence[str], qualname: str) -> Problem:
    """Return the JSON error for a request with an HTTP method that the endpoint does not support."""
    arguments = "; POST takes the arguments as a JSON object" if "POST" in allowed else ""
    return _problem(_HTTP_METHOD, qualname, f"send a {' or '.join(allowed)} request{arguments}")


def body_too_large_problem(max_size: int, qualname: str) -> Problem:
    """Return the JSON error for a request whose body is larger than the server accepts."""
    return _problem(_BODY_TOO_LARGE, qualname, f"at most {max_size} bytes are accepted")


def headers_too_large_problem(max_size: int) -> Problem:
    """Return the JSON error for a request whose headers and URL are larger than the server accepts."""
    return _problem(_HEADERS_TOO_LARGE, detail=f"at most {max_size} bytes are accepted")


def overloaded_problem(qualname: str) -> Problem:
    """Return the JSON error for a call that is rejected because too many calls are waiting."""
    problem = _problem(_OVERLOADED, qualname)
    return problem.model_copy(update={"retryable": True, "retry_after": 1.0})


def host_problem(host: str) -> Problem:
    """Return the JSON error for a request to a host name that the server does not allow."""
    detail = f"the request is for {shorten(host, 60)!r}, which is not in allowed_hosts"
    return _problem(_HOST_REFUSED, detail=detail)


def origin_problem(origin: str) -> Problem:
    """Return the JSON error for a browser request that comes from a web page of another origin."""
    return _problem(_ORIGIN_REFUSED, detail=f"the request comes from a page of {shorten(origin, 60)!r}")


def _problem(kind: ProblemKind, qualname: str = "", detail: str = "") -> Problem:
    return Problem(type=kind.type, title=kind.title, status=kind.status, method=qualname, detail=detail)
