"""Listeners that log service calls, either as one line per call or with all requests and replies."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from output_parsers.result.errors import Problem

from .engine.approval import ApprovalRequiredError
from .engine.plan import Invocation
from .engine.streams import (
    AnswerRejected,
    AttemptStarted,
    CallCompleted,
    CallFailed,
    ReplyFailed,
    ReplyReceived,
    ToolFinished,
    ToolUndone,
)
from .guardrails import GuardrailRan, Reprompt
from .models.errors import ServiceOutputError, usage_of
from .models.messages import Message, Usage, message_to_dict
from .models.requests import ChatRequest

__all__ = ["log_calls", "log_content"]

_MAX_PROBLEMS = 5  # the maximum number of problems in a log line
_LOGGER = logging.getLogger("aiservices.calls")
_CONTENT_LOGGER = logging.getLogger("aiservices.content")


def log_calls(event: object, /) -> None:
    """Log a summary line (models, tokens, duration) when a service call succeeds or fails.

    Use it as a listener: ``create(…, listeners=[log_calls])``. It receives each ``event``. Each call is one
    line: at INFO if the call succeeded or waits for approval, at WARNING if it failed. An answer that was
    rejected is a line at INFO with the reason. Each request and each tool is one line at DEBUG. A line
    contains the method, the models, the number of requests, tokens, seconds and the class of an error. It
    never contains the text of messages, not even of errors, because an error may quote a prompt or a reply.
    The reason why an answer was rejected is the name of a guard, or where in the answer something else was
    expected. That place may contain keys of dicts.
    """
    match event:
        # The summary is not free, and INFO is off by default.
        case CallCompleted(invocation) if _LOGGER.isEnabledFor(logging.INFO):
            _LOGGER.info("%s: answered, %s", invocation.plan.qualname, _summary(invocation))
        case AnswerRejected(error, invocation=Invocation() as invocation):
            _LOGGER.info(
                "%s: answer rejected, asking again: %s", invocation.plan.qualname, _reasons(error.problems)
            )
        case GuardrailRan(name, "output", Reprompt(), invocation=Invocation() as invocation):
            _LOGGER.info("%s: answer rejected by the guard %s", invocation.plan.qualname, name)
        case CallFailed(invocation, ApprovalRequiredError() as error):
            tools = ", ".join(call.name for call in (*error.calls, *error.external_calls))
            _LOGGER.info(
                "%s: waits for approval of %s, %s", invocation.plan.qualname, tools, _summary(invocation)
            )
        case CallFailed(invocation, error):
            reason = type(error).__name__
            if isinstance(error, ServiceOutputError) and error.problems:
                reason = f"{reason} ({_reasons(error.problems)})"
            _LOGGER.warning("%s: failed with %s, %s", invocation.plan.qualname, reason, _summary(invocation))
        case ReplyReceived(model, reply, seconds):
            _LOGGER.debug("request to %s: %s, %.3f s", model, _tokens(reply.usage), seconds)
        case ReplyFailed(model, error, seconds):
            _LOGGER.debug("request to %s: failed with %s, %.3f s", model, type(error).__name__, seconds)
        case ToolFinished(run):
            outcome = "done" if run.error is None else f"failed with {type(run.error).__name__}"
            _LOGGER.debug("tool %s: %s, %.3f s", run.name, outcome, run.seconds)
        case ToolUndone(run):
            outcome = "undone" if run.undone else f"not undone, {type(run.undo_error).__name__}"
            _LOGGER.debug("tool %s: %s", run.name, outcome)


def log_content(event: object, /) -> None:
    """Log the messages of each request and the text of each reply, for debugging.

    Use it as a listener, alone or together with ``log_calls``: ``create(…, listeners=[log_content])``. It
    logs what an ``event`` contains at INFO on the logger ``aiservices.content``, with the id of the call. The
    log may contain personal data.
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


def _reasons(problems: Sequence[Problem]) -> str:
    """Describe why an answer is invalid by JSON paths and expected types; the answer is not quoted."""
    reasons = [f"{problem.path}: {_without_quotes(problem.message)}" for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        reasons.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    return "; ".join(reasons)


def _without_quotes(message: str) -> str:
    # these messages describe the type; the text of an exception, which may quote a value, follows a colon
    if message.startswith(("expected ", "the required field ")):
        return message.partition(":")[0].partition(";")[0]
    return "it does not fit"


def _json(message: Message) -> str:
    return json.dumps(message_to_dict(message), ensure_ascii=False)


def _summary(invocation: Invocation) -> str:
    """Summarize a service call for its log line: requests, models, tokens and duration."""
    attempts = invocation.state.attempts
    requests = f"{len(attempts)} request{'' if len(attempts) == 1 else 's'}"
    models = ", ".join(dict.fromkeys(attempt.model for attempt in attempts))
    to_models = f" to {models}" if models else ""
    return f"{requests}{to_models}, {_tokens(usage_of(attempts))}, {invocation.state.seconds:.3f} s"


def _tokens(usage: Usage | None) -> str:
    return "tokens unknown" if usage is None else f"{usage.input_tokens} + {usage.output_tokens} tokens"
