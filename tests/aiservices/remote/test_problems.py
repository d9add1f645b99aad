"""Errors of a call become error responses with the right HTTP status and without secrets."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from fastapi.testclient import TestClient

from aiservices import (
    AuthenticationError,
    BadRequestError,
    Budget,
    BudgetExceededError,
    ChatReply,
    ContentFilterError,
    InvalidReplyError,
    ModelConnectionError,
    ModelNotFoundError,
    ModelServerError,
    ModelTimeoutError,
    ProbabilitiesUnavailableError,
    RateLimitError,
    RefusalError,
    ScriptedChatModel,
    Stream,
    TruncatedError,
    create,
    tool,
    user_message,
)
from aiservices.guardrails import GuardrailError
from aiservices.integrations.fastapi import Problem, app

SECRET = "sk-very-secret"  # represents keys, prompts and texts of models


class Desk(Protocol):
    @user_message(f"The prompt is {SECRET}: {{{{it}}}}")
    def number(self, it: str) -> int: ...

    @user_message(f"The prompt is {SECRET}: {{{{it}}}}")
    async def anumber(self, it: str) -> int: ...

    @user_message(f"The prompt is {SECRET}: {{{{it}}}}")
    def numbers(self, it: str) -> Iterator[int]: ...

    @user_message(f"The prompt is {SECRET}: {{{{it}}}}")
    def growing(self, it: str) -> Stream[list[int]]: ...


ERRORS: list[tuple[Any, int, str]] = [
    (SECRET, 502, "unreadable-reply"),
    (RefusalError(SECRET, text=SECRET, reason=SECRET), 502, "refusal"),
    (TruncatedError(SECRET, text=SECRET, reason=SECRET), 502, "truncated"),
    (ContentFilterError(SECRET, text=SECRET, reason=SECRET), 502, "content-filter"),
    (RateLimitError(SECRET, status=429, body=SECRET), 429, "rate-limit"),
    (ModelTimeoutError(SECRET), 504, "timeout"),
    (ModelConnectionError(SECRET), 503, "connection"),
    (ModelServerError(SECRET, status=500, body=SECRET), 503, "unavailable"),
    (AuthenticationError(SECRET, status=401, body=SECRET), 500, "configuration"),
    (ModelNotFoundError(SECRET, status=404), 500, "configuration"),
    (BadRequestError(SECRET, status=400, body=SECRET), 502, "request-refused"),
    (InvalidReplyError(SECRET), 502, "invalid-reply"),
    (ProbabilitiesUnavailableError(SECRET), 502, "no-probabilities"),
    (RuntimeError(SECRET), 500, "internal"),
    (KeyError(SECRET), 500, "internal"),
]


@pytest.mark.parametrize(("error", "status", "kind"), ERRORS, ids=[f"{e[2]}-{e[1]}" for e in ERRORS])
def test_an_error_has_its_status_and_reveals_no_secret(
    error: Any, status: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    # A refusal is requested again in simpler forms, so the number of requests is not known.
    desk = create(Desk, ScriptedChatModel(lambda request: error), budget=Budget(max_attempts=1))
    http = TestClient(app(desk))
    for method in ("number", "anumber", "numbers", "growing"):
        answer = http.post(f"/{method}", json={"it": "x"})
        assert SECRET not in answer.text
        assert SECRET not in str(answer.headers)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["type"] == f"urn:aiservices:{kind}"
        assert answer.json()["method"] == f"Desk.{method}"
        assert answer.json()["status"] == status


def test_a_problem_says_when_to_retry() -> None:
    desk = create(
        Desk, ScriptedChatModel([RateLimitError("", retry_after=2.1)]), budget=Budget(max_attempts=1)
    )
    answer = TestClient(app(desk)).post("/number", json={"it": "x"})
    assert answer.headers["retry-after"] == "3"
    assert answer.json()["retry_after"] == 2.1


@pytest.mark.parametrize("wait", [math.inf, math.nan, -1.0])
def test_an_invalid_retry_after_is_left_out(wait: float) -> None:
    error = RateLimitError("", retry_after=wait)
    desk = create(Desk, ScriptedChatModel([error]), budget=Budget(max_attempts=1))
    answer = TestClient(app(desk)).post("/number", json={"it": "x"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


def test_a_budget_exceeded_by_rate_limits_says_when_to_retry() -> None:
    spent = BudgetExceededError(SECRET, limit="seconds")
    spent.__cause__ = RateLimitError(SECRET, retry_after=9.0)
    desk = create(Desk, ScriptedChatModel([spent]))
    answer = TestClient(app(desk)).post("/number", json={"it": "x"})
    assert (answer.status_code, answer.json()["type"]) == (504, "urn:aiservices:budget")
    assert answer.headers["retry-after"] == "9"


def test_a_problem_lists_the_attempts_and_their_tokens() -> None:
    desk = create(Desk, ScriptedChatModel(["x", "y z"]), budget=Budget(max_attempts=2))
    problem = Problem.model_validate(TestClient(app(desk)).post("/number", json={"it": "x"}).json())
    assert problem.detail == "2 requests were made to models"
    usages = [attempt.usage for attempt in problem.attempts]
    assert [usage and usage.output_tokens for usage in usages] == [1, 2]


def test_an_error_in_a_stream_is_an_event() -> None:
    desk = create(Desk, ScriptedChatModel([f'[1, "{SECRET}"]']), budget=Budget(max_attempts=1))
    answer = TestClient(app(desk)).post("/numbers", json={"it": "x"})
    first, last = answer.text.strip().split("\n\n")
    assert answer.status_code == 200
    assert first == "event: item\ndata: 1\nid: 1"
    assert last.startswith('event: error\ndata: {"type":"urn:aiservices:unreadable-reply"')
    assert SECRET not in answer.text


def test_blocked_input_is_an_error_of_the_caller() -> None:
    def guard(invocation: Any, proceed: Any) -> Any:
        raise GuardrailError(SECRET, guard="polite", stage="input", reason=SECRET)
        yield

    desk = create(Desk, ScriptedChatModel([]), interceptors=[guard])
    answer = TestClient(app(desk)).post("/number", json={"it": "x"})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:aiservices:not-permitted")
    assert SECRET not in answer.text


def test_a_tool_that_waits_for_approval_is_a_conflict() -> None:
    from aiservices import AiMessage, ToolCall

    @tool(needs_approval=True)
    def pay(sum: int) -> str:
        return SECRET

    call = ChatReply(AiMessage("", (ToolCall("1", "pay", '{"sum": 12345}'),)))
    desk = create(Desk, ScriptedChatModel([call]), tools=[pay])
    answer = TestClient(app(desk)).post("/number", json={"it": "x"})
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:aiservices:approval-required")
    assert "12345" not in answer.text


def test_unexpected_errors_are_logged_with_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    desk = create(Desk, ScriptedChatModel([RuntimeError("inner")]))
    TestClient(app(desk)).post("/number", json={"it": "x"})
    (record,) = [one for one in caplog.records if one.name == "aiservices.integrations.fastapi"]
    assert record.getMessage() == "Desk.number failed"
    assert record.exc_info is not None


def test_a_value_that_cannot_be_written_is_an_internal_error() -> None:
    class Fake:
        def number(self, it: str) -> Any:
            return SECRET

    answer = TestClient(app(Fake(), interface=Desk)).post("/number", json={"it": "x"})
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:aiservices:internal")
    assert SECRET not in answer.text
