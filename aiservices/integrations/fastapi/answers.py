"""What goes back for a request: a value, or a problem; and what the log is told."""

from __future__ import annotations

import logging

from fastapi import Response
from fastapi.exceptions import RequestValidationError

from .problems import INTERNAL, Problem, WrongPart, problem_of, wrong_arguments

__all__ = [
    "PROBLEM_JSON",
    "JsonText",
    "ProblemError",
    "json_response",
    "problem_response",
    "problem_told",
    "unfit_request",
]

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
