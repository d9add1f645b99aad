"""Listeners that log the calls of a service: one line for each, or all that is sent and received."""

from __future__ import annotations

import json
import logging

from ..engine.approval import ApprovalRequiredError
from ..engine.events import (
    AnswerRejected,
    AttemptStarted,
    CallCompleted,
    CallFailed,
    ReplyFailed,
    ReplyReceived,
    ToolFinished,
)
from ..engine.plan import Invocation
from ..models.errors import usage_of
from ..models.messages import Message, Usage, message_to_dict
from ..models.requests import ChatRequest

__all__ = ["log_calls", "log_content"]

_LOGGER = logging.getLogger("aiservices.calls")
_CONTENT_LOGGER = logging.getLogger("aiservices.content")


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


def log_content(event: object, /) -> None:
    """Log the messages of each request and the text of each reply, for debugging.

    Use it as a listener, alone or beside ``log_calls``: ``create(…, listeners=[log_content])``. It logs at
    INFO on the logger ``aiservices.content``, with the id of the call. The texts may contain personal data.
    """
    invocation = getattr(event, "invocation", None)
    if invocation is None or not _CONTENT_LOGGER.isEnabledFor(logging.INFO):
        return
    lines: list[str] = []
    match event:
        case AttemptStarted(model=model, request=ChatRequest() as request):
            lines = [f"to {model}: {_json(message)}" for message in request.messages]
        case ReplyReceived(model, reply):
            lines = [f"from {model}: {_json(reply.message)}"]
        case AnswerRejected(error):
            lines = [f"rejected: {error}"]
        case ToolFinished(run):
            lines = [f"tool {run.name}: {run.text}"]
    for line in lines:
        _CONTENT_LOGGER.info("%s %s %s", invocation.plan.qualname, invocation.id, line)


def _json(message: Message) -> str:
    return json.dumps(message_to_dict(message), ensure_ascii=False)


def _summary(invocation: Invocation) -> str:
    """Return a summary of a service call for its log line: requests, models, tokens and duration."""
    attempts = invocation.state.attempts
    requests = f"{len(attempts)} request{'' if len(attempts) == 1 else 's'}"
    models = ", ".join(dict.fromkeys(attempt.model for attempt in attempts))
    to_models = f" to {models}" if models else ""
    return f"{requests}{to_models}, {_tokens(usage_of(attempts))}, {invocation.state.seconds:.3f} s"


def _tokens(usage: Usage | None) -> str:
    return "tokens unknown" if usage is None else f"{usage.input_tokens} + {usage.output_tokens} tokens"
