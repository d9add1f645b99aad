"""A budget is checked when it is made, and says whether and when a request may be made again."""

from __future__ import annotations

import pytest

from aiservices import Attempt, Budget, CallContext, DefinitionError, ModelServerError, RateLimitError

FAILED = Attempt("m", None, ModelServerError("500"), 0.0)
PASSING = ModelServerError("500", retryable=True)


def test_a_budget_within_its_limits_is_accepted() -> None:
    budget = Budget(attempts=1, seconds=0.1, first_wait=0)
    assert (budget.attempts, budget.seconds, budget.first_wait) == (1, 0.1, 0)


def test_every_wrong_limit_is_told_at_once() -> None:
    with pytest.raises(DefinitionError) as caught:
        Budget(attempts=0, seconds=0, first_wait=-1)
    assert str(caught.value) == (
        "3 faults:\n"
        "  - Budget: attempts is 0; it must be at least 1\n"
        "  - Budget: seconds is 0; it must be greater than 0\n"
        "  - Budget: first_wait is -1; it must not be negative"
    )


def test_the_first_wait_is_the_budgets_with_jitter() -> None:
    context = CallContext(Budget(first_wait=4.0), attempts=[FAILED])
    wait = context.wait_before_retry(PASSING, 1)
    assert wait is not None
    assert 3.0 <= wait <= 4.0


def test_each_wait_is_twice_the_one_before() -> None:
    context = CallContext(Budget(attempts=9, first_wait=4.0), attempts=[FAILED, FAILED])
    wait = context.wait_before_retry(PASSING, 2)
    assert wait is not None
    assert 6.0 <= wait <= 8.0


def test_a_wait_does_not_grow_without_end() -> None:
    context = CallContext(Budget(attempts=99, first_wait=4.0), attempts=[FAILED] * 20)
    wait = context.wait_before_retry(PASSING, 20)
    assert wait is not None
    assert 22.5 <= wait <= 30.0


def test_what_the_provider_asks_to_wait_is_waited_exactly() -> None:
    context = CallContext(Budget(first_wait=0), attempts=[FAILED])
    assert (
        context.wait_before_retry(
            RateLimitError("429", retryable=True, retry_after=12.5), len(context.attempts)
        )
        == 12.5
    )


def test_a_wait_beyond_a_minute_is_not_waited() -> None:
    context = CallContext(Budget(), attempts=[FAILED])
    assert (
        context.wait_before_retry(
            RateLimitError("429", retryable=True, retry_after=61.0), len(context.attempts)
        )
        is None
    )


def test_an_error_that_will_not_pass_is_not_retried() -> None:
    context = CallContext(Budget(), attempts=[FAILED])
    assert context.wait_before_retry(ModelServerError("500"), 1) is None


def test_no_more_attempts_are_made_than_the_budget_has() -> None:
    context = CallContext(Budget(attempts=2), attempts=[FAILED, FAILED])
    assert context.wait_before_retry(PASSING, 1) is None


def test_a_wait_that_outlasts_the_seconds_is_not_begun() -> None:
    context = CallContext(Budget(seconds=5.0), attempts=[FAILED])
    assert (
        context.wait_before_retry(
            RateLimitError("429", retryable=True, retry_after=6.0), len(context.attempts)
        )
        is None
    )


def test_nothing_is_asked_again_once_text_was_handed_out() -> None:
    context = CallContext(Budget(), attempts=[FAILED], text_shown=True)
    assert context.wait_before_retry(PASSING, 1) is None


def test_a_budget_without_seconds_never_ends() -> None:
    assert CallContext(Budget()).seconds_left is None


def test_seconds_are_counted_from_the_beginning_of_the_call() -> None:
    context = CallContext(Budget(seconds=100.0))
    context.began -= 30.0
    assert (round(context.seconds), round(context.seconds_left or 0)) == (30, 70)
