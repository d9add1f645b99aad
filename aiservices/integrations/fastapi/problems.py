"""Errors as problems (RFC 9457): what a caller from elsewhere may know of them.

No key, prompt or text of a model is in a problem: what it says is chosen by the kind of the error, and never
taken from the words of the error itself. What was wrong with the caller's own arguments is told in full.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict

from output_parsers.result.errors import OutputParsingError

from ...engine.approval import ApprovalRequiredError
from ...models.errors import (
    AiServiceError,
    AuthenticationError,
    BadRequestError,
    BudgetExceededError,
    ContentFilterError,
    InvalidReplyError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelServerError,
    ModelTimeoutError,
    RateLimitError,
    RefusalError,
    ServiceOutputError,
    ToolError,
    ToolLimitError,
    TruncatedError,
)
from .contract import AttemptJson, attempts_json

_PREFIX = "urn:aiservices:"
_MOST_PARTS = 20
_OF_ALL = re.compile(r'\$(?:\.\w+|\["(?:[^"\\]|\\.)*"\])')  # the path of a whole argument


class Kind(NamedTuple):
    """A kind of problem: its name in the ``type`` of a problem, the HTTP status, and what it says."""

    name: str
    status: int
    title: str

    @property
    def type(self) -> str:
        return f"{_PREFIX}{self.name}"


class WrongPart(BaseModel):
    """What is wrong with the arguments: where (JSON path), why, and what was found there."""

    model_config = ConfigDict(frozen=True)

    path: str
    message: str
    found: str = ""


class Problem(BaseModel):
    """What went wrong (RFC 9457). ``type`` tells the kinds apart, ``method`` is ``Service.method``.

    ``problems`` are those of the arguments; ``retry_after`` is in seconds; ``attempts`` are the requests that
    were made to models, with what they cost; ``limit`` is that of a budget which is spent.
    """

    model_config = ConfigDict(frozen=True)

    type: str
    title: str
    status: int
    detail: str = ""
    method: str = ""
    retryable: bool = False
    retry_after: float | None = None
    problems: tuple[WrongPart, ...] = ()
    attempts: tuple[AttemptJson, ...] = ()
    limit: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """``Retry-After`` where the problem says when to come again."""
        return {} if self.retry_after is None else {"Retry-After": str(max(0, math.ceil(self.retry_after)))}

    def json_bytes(self) -> bytes:
        """The body of the response: what says nothing is left out."""
        return self.model_dump_json(exclude_defaults=True).encode()


NOT_JSON = Kind("not-json", 415, "The body must be JSON in UTF-8, and say so by its Content-Type")
ARGUMENTS = Kind("arguments", 422, "The arguments do not fit the method")
INTERNAL = Kind("internal", 500, "The service failed")
_REFUSED = Kind("not-permitted", 422, "What was said is not permitted here")
_WITHHELD = Kind("answer-not-permitted", 502, "The model gave no answer that is permitted here")
# the first class that an error is an instance of says its kind
_BY_CLASS: tuple[tuple[type[Exception], Kind], ...] = (
    (
        ServiceOutputError,
        Kind("unreadable-reply", 502, "The model's reply cannot be read as the declared type"),
    ),
    (RefusalError, Kind("refusal", 502, "The model refused to answer")),
    (TruncatedError, Kind("truncated", 502, "The model's answer was cut off")),
    (ContentFilterError, Kind("content-filter", 502, "The model's provider filtered the answer")),
    (ToolLimitError, Kind("tool-limit", 502, "The model called tools beyond a limit")),
    (ToolError, Kind("tool", 502, "A tool that the model called failed")),
    (
        ApprovalRequiredError,
        Kind("approval-required", 409, "A tool has to be approved where the service runs"),
    ),
    (BudgetExceededError, Kind("budget", 503, "The budget of the call is spent")),
    (RateLimitError, Kind("rate-limit", 429, "The model takes no more requests for now")),
    (ModelTimeoutError, Kind("timeout", 504, "The model did not answer in time")),
    (ModelConnectionError, Kind("connection", 503, "The model cannot be reached")),
    (ModelServerError, Kind("unavailable", 503, "The model's provider failed")),
    (AuthenticationError, Kind("configuration", 500, "The service is not set up to use its model")),
    (ModelNotFoundError, Kind("configuration", 500, "The service is not set up to use its model")),
    (BadRequestError, Kind("request-refused", 502, "The model's provider refused the request")),
    (InvalidReplyError, Kind("invalid-reply", 502, "The model's provider gave no valid answer")),
    (ModelError, Kind("model", 502, "The model's provider failed")),
)
_OUT_OF_TIME = Kind("budget", 504, "The time for the call is over")
KINDS: tuple[Kind, ...] = (
    ARGUMENTS,
    NOT_JSON,
    _REFUSED,
    _WITHHELD,
    *dict.fromkeys(kind for _, kind in _BY_CLASS),
    _OUT_OF_TIME,
    INTERNAL,
)


def problem_of(error: Exception, method: str) -> Problem:
    """What a caller may know of an error that ended a call of ``method``."""
    kind = _kind_of(error)
    # a budget that is spent tells what it was spent on
    cause = error.__cause__ if isinstance(error, BudgetExceededError) else error
    said = cause if isinstance(cause, ModelError) else None
    attempts = attempts_json(error.attempts) if isinstance(error, AiServiceError) else ()
    detail = ""
    if attempts:
        detail = (
            f"{len(attempts)} requests were made to models" if len(attempts) > 1 else "One request was made"
        )
    return Problem(
        type=kind.type,
        title=kind.title,
        status=kind.status,
        detail=detail,
        method=method,
        retryable=kind.status == 503 if said is None else said.retryable,
        retry_after=_wait(said),
        attempts=attempts,
        limit=error.limit if isinstance(error, BudgetExceededError) else None,
    )


def _kind_of(error: Exception) -> Kind:
    if isinstance(error, BudgetExceededError) and error.limit == "seconds":
        return _OUT_OF_TIME
    for cls, kind in _BY_CLASS:
        if isinstance(error, cls):
            return kind
    where = getattr(error, "where", None)  # of a guard or a moderator, which are not loaded for their errors
    if isinstance(error, AiServiceError) and where in ("input", "output") and error.__cause__ is None:
        return _REFUSED if where == "input" else _WITHHELD
    return INTERNAL


def _wait(error: ModelError | None) -> float | None:
    """The seconds until a request may be made again: what the provider said, else a little for too many."""
    said = None if error is None else error.retry_after
    if said is not None and 0 <= said < math.inf:
        return said
    return 1.0 if isinstance(error, RateLimitError) else None


def of_arguments(error: OutputParsingError, method: str) -> Problem:
    """What is wrong with the arguments of a call."""
    return wrong_arguments(parts_of(error), method)


def parts_of(error: OutputParsingError, below: str = "$") -> list[WrongPart]:
    """What is wrong, part by part; ``below`` is the path of what was read."""
    told = ((below + one.path[1:], one) for one in error.problems)
    return [WrongPart(path=path, message=_said(one.message, path), found=one.found) for path, one in told]


def _said(message: str, path: str) -> str:
    """What a caller is told of a step that no argument may need: it does not know of leniency."""
    if message.startswith("unknown key left out"):
        return f"there is no {'parameter' if _OF_ALL.fullmatch(path) else 'field'} of this name"
    return message.replace(" is not permitted with Leniency.NONE", " is not accepted")


def wrong_arguments(parts: Sequence[WrongPart], method: str) -> Problem:
    """A problem of arguments, of which the first parts are told."""
    more = len(parts) - _MOST_PARTS
    return Problem(
        type=ARGUMENTS.type,
        title=ARGUMENTS.title,
        status=ARGUMENTS.status,
        detail=f"{more} more are not shown" if more > 0 else "",
        method=method,
        problems=tuple(parts[:_MOST_PARTS]),
    )


def not_json(method: str) -> Problem:
    """The body of a request is no JSON, or does not say that it is."""
    return Problem(type=NOT_JSON.type, title=NOT_JSON.title, status=NOT_JSON.status, method=method)


log = logging.getLogger("aiservices.integrations.fastapi")
PROBLEM_JSON = "application/problem+json"
_NO_STORE = {"Cache-Control": "no-store"}  # a model answers anew each time, and is paid for it


class JsonText(bytes):
    """A body that says it is JSON."""


class ProblemError(Exception):
    """A request that is answered with a problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.title)
        self.problem = problem


def json_response(text: str) -> Response:
    """A response with JSON that is already written."""
    return Response(text, media_type="application/json", headers=_NO_STORE)


def problem_response(problem: Problem) -> Response:
    """A response that tells a problem."""
    headers = {**_NO_STORE, **problem.headers}
    return Response(problem.json_bytes(), problem.status, headers, PROBLEM_JSON)


def problem_told(error: Exception, where: str) -> Problem:
    """What the caller may know of an error; the log is told all of one that nobody expects."""
    problem = problem_of(error, where)
    if problem.type == INTERNAL.type:
        log.error("%s failed", where, exc_info=error)
    else:
        log.warning("%s: %s (%s)", where, problem.title, type(error).__name__)
    return problem


def unfit_request(error: RequestValidationError, where: str) -> Problem:
    """The problem of a request without a body, or of one that does not fit a dependency."""
    parts = []
    for one in error.errors():
        origin, *steps = one["loc"]
        if origin == "body":
            parts.append(
                WrongPart(path="$", message="the body is missing; send a JSON object of the arguments")
            )
        else:
            parts.append(WrongPart(path=".".join(map(str, (origin, *steps))), message=one["msg"]))
    return wrong_arguments(parts, where)
