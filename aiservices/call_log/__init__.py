"""A listener that logs one line for each call of a service, without prompts or replies."""

from __future__ import annotations

import logging

from ..engine.approval import ApprovalRequiredError
from ..engine.events import CallCompleted, CallFailed, ReplyFailed, ReplyReceived, ToolFinished
from ..engine.plan import Invocation
from ..models.errors import usage_of
from ..models.messages import Usage

__all__ = ["log_calls"]

_LOGGER = logging.getLogger("aiservices.calls")


def log_calls(event: object, /) -> None:
    """Log a summary line (models, tokens, duration) when a service call succeeds or fails.

    Use it as a listener: ``create(…, listeners=[log_calls])``. Each call is one line: at INFO if it succeeded
    or waits for approval, at WARNING if it failed. Each request and each tool is one line at DEBUG. A line
    contains the method, the models, the number of requests, tokens, seconds and the class of an error. It
    never contains the text of messages, not even of errors, because an error may quote a prompt or a reply.
    """
    match event:
        # The summary is not free, and INFO is off by default.
        case CallCompleted(invocation) if _LOGGER.isEnabledFor(logging.INFO):
            _LOGGER.info("%s: answered, %s", invocation.plan.qualname, _summary(invocation))
        case CallFailed(invocation, ApprovalRequiredError() as error):
            tools = ", ".join(call.name for call in error.calls)
            _LOGGER.info(
                "%s: waits for approval of %s, %s", invocation.plan.qualname, tools, _summary(invocation)
            )
        case CallFailed(invocation, error):
            _LOGGER.warning(
                "%s: failed with %s, %s", invocation.plan.qualname, type(error).__name__, _summary(invocation)
            )
        case ReplyReceived(model, reply, seconds):
            _LOGGER.debug("request to %s: %s, %.3f s", model, _tokens(reply.usage), seconds)
        case ReplyFailed(model, error, seconds):
            _LOGGER.debug("request to %s: failed with %s, %.3f s", model, type(error).__name__, seconds)
        case ToolFinished(run):
            outcome = "done" if run.error is None else f"failed with {type(run.error).__name__}"
            _LOGGER.debug("tool %s: %s, %.3f s", run.name, outcome, run.seconds)


def _summary(invocation: Invocation) -> str:
    """Return a summary of a service call for its log line: requests, models, tokens and duration."""
    attempts = invocation.state.attempts
    requests = f"{len(attempts)} request{'' if len(attempts) == 1 else 's'}"
    models = ", ".join(dict.fromkeys(attempt.model for attempt in attempts))
    to_models = f" to {models}" if models else ""
    return f"{requests}{to_models}, {_tokens(usage_of(attempts))}, {invocation.state.seconds:.3f} s"


def _tokens(usage: Usage | None) -> str:
    return "tokens unknown" if usage is None else f"{usage.input_tokens} + {usage.output_tokens} tokens"
