"""Problems that came from a service elsewhere, as the errors that they were there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from output_parsers.errors import Problem as Unread

from ...errors import (
    AiServiceError,
    BadRequestError,
    BudgetExceededError,
    ContentFilterError,
    InvalidReplyError,
    ModelConnectionError,
    ModelError,
    ModelServerError,
    ModelTimeoutError,
    RateLimitError,
    RefusalError,
    ServiceOutputError,
    TruncatedError,
)
from .account import attempts_of
from .problems import ARGUMENTS, Problem

__all__ = ["RemoteServiceError", "error_of", "error_of_status"]


class RemoteServiceError(AiServiceError):
    """A service elsewhere told a problem that has no error of its own here; ``problem`` is all of it."""

    def __init__(self, message: str, *, problem: Problem) -> None:
        super().__init__(message)
        self.problem = problem


_FINISHES: dict[str, type[RefusalError | TruncatedError | ContentFilterError]] = {
    "refusal": RefusalError,
    "truncated": TruncatedError,
    "content-filter": ContentFilterError,
}
_MODELS: dict[str, type[ModelError]] = {
    "rate-limit": RateLimitError,
    "timeout": ModelTimeoutError,
    "connection": ModelConnectionError,
    "unavailable": ModelServerError,
    "request-refused": BadRequestError,
    "invalid-reply": InvalidReplyError,
    "model": ModelError,
}


def error_of(problem: Problem, where: str) -> AiServiceError:
    """The error that a problem tells of, without the texts of models, which do not leave their service."""
    name = problem.type.rpartition(":")[2]
    error = _made(name, f"{where}: {problem.title}", problem, where)
    error.attempts = attempts_of(problem.attempts)
    return error


def _made(name: str, said: str, problem: Problem, where: str) -> AiServiceError:
    if name == "unreadable-reply":
        return ServiceOutputError(where, "", [Unread("$", problem.title)])
    if name in _FINISHES:
        return _FINISHES[name](said, text="", reason=problem.title)
    if name == "budget":
        return BudgetExceededError(said, limit=problem.limit or "attempts")
    if name in _MODELS:
        wait = problem.retry_after
        return _MODELS[name](said, status=problem.status, retryable=problem.retryable, retry_after=wait)
    if problem.type == ARGUMENTS.type:
        parts = "; ".join(f"{part.path}: {part.message}" for part in problem.problems)
        said = f"{said}: {parts}" if parts else said
    return RemoteServiceError(said, problem=problem)


def error_of_status(status: int, body: str, where: str, address: str) -> AiServiceError:
    """The error of a response that is no success."""
    try:
        return error_of(Problem.model_validate_json(body), where)
    except ValidationError:  # somebody before the service has answered
        said = f"{where}: {address} answered with the status {status}, and no problem that says why"
        if status == 404:
            said += "; check the address and its prefix"
        made: Callable[..., Any] = ModelServerError if status >= 500 else ModelError
        error: AiServiceError = made(said, status=status, retryable=status in (502, 503, 504))
        return error
