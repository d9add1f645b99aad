"""Logs each call of a service in a line; what was said is not in it."""

from __future__ import annotations

import logging
from typing import Any

from ..engine.approval import ApprovalRequiredError
from ..engine.events import CallCompleted, CallFailed, ReplyFailed, ReplyReceived, ToolFinished
from ..engine.plan import Invocation
from ..models.errors import Attempt, usage_of
from ..models.messages import Usage

_LOGGER = logging.getLogger("aiservices.calls")


def log_calls(event: Any, /) -> None:
    """A listener: ``create(…, listeners=[log_calls])``. Writes to the logger "aiservices.calls".

    One line for each call: at INFO when it has its answer or waits for approval, at WARNING when it failed;
    and at DEBUG one for each request and each tool. They hold the method, the models, the number of requests,
    tokens, seconds, and the type of an error; no texts, not even those of errors, which may quote.
    """
    match event:
        case CallCompleted(invocation) if _LOGGER.isEnabledFor(logging.INFO):
            _LOGGER.info("%s: answered, %s", invocation.plan.where, _account(invocation))
        case CallFailed(invocation, ApprovalRequiredError() as error):
            waiting = ", ".join(call.name for call in error.calls)
            _LOGGER.info(
                "%s: waits for approval of %s, %s", invocation.plan.where, waiting, _account(invocation)
            )
        case CallFailed(invocation, error):
            _LOGGER.warning(
                "%s: failed with %s, %s", invocation.plan.where, type(error).__name__, _account(invocation)
            )
        case ReplyReceived(model, reply, seconds):
            _LOGGER.debug("request to %s: %s, %.3f s", model, _tokens(reply.usage), seconds)
        case ReplyFailed(model, error, seconds):
            _LOGGER.debug("request to %s: failed with %s, %.3f s", model, type(error).__name__, seconds)
        case ToolFinished(run):
            outcome = "done" if run.error is None else f"failed with {type(run.error).__name__}"
            _LOGGER.debug("tool %s: %s, %.3f s", run.name, outcome, run.seconds)


def _account(invocation: Invocation) -> str:
    attempts = invocation.state.attempts
    made = f"{len(attempts)} request{'' if len(attempts) == 1 else 's'}"
    return f"{made}{_asked(attempts)}, {_tokens(usage_of(attempts))}, {invocation.state.seconds:.3f} s"


def _asked(attempts: list[Attempt]) -> str:
    models = dict.fromkeys(attempt.model for attempt in attempts)
    return f" to {', '.join(models)}" if models else ""


def _tokens(usage: Usage | None) -> str:
    return "tokens unknown" if usage is None else f"{usage.input_tokens} + {usage.output_tokens} tokens"
