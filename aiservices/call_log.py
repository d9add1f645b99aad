"""Listeners that log service calls, either as one line per call or with all requests and replies."""

from __future__ import annotations

import json
import logging
from asyncio import CancelledError
from collections.abc import Sequence

from output_parsers.result.errors import Problem

from .engine.approval import ApprovalRequiredError
from .engine.plan import Invocation
from .engine.streams import (
    AnswerRejected,
    AttemptStarted,
    CallClosed,
    CallCompleted,
    CallFailed,
    ReplyFailed,
    ReplyReceived,
    ToolFinished,
    ToolUndone,
)
from .guardrails import GuardrailRan, Reprompt
from .models.errors import Attempt, ServiceOutputError, sent_requests, usage_of
from .models.messages import Message, Usage, message_to_dict
from .models.requests import ChatRequest

__all__ = ["log_calls", "log_content"]

_MAX_PROBLEMS = 5  # the maximum number of problems in a log line
_LOGGER = logging.getLogger("aiservices.calls")
_CONTENT_LOGGER = logging.getLogger("aiservices.content")


def log_calls(event: object, /) -> None:
    """Log a summary line (models, tokens, duration) when a service call ends.

    Use it as a listener: ``create(…, listeners=[log_calls])``. It receives each ``event``. Each call is one
    line: at INFO if it succeeded, waits for approval or was cancelled, or if its stream was closed early; at
    WARNING if it failed. An answer that was rejected is a line at INFO with the reason. Each request and each
    tool is one line at DEBUG. A line contains the method, the models, the number of requests, tokens, seconds
    and the class of an error. It never contains the text of messages, not even of errors, because an error
    may quote a prompt or a reply. The reason why an answer was rejected is the name of a guard, or where in
    the answer something else was expected. That place may contain keys of dicts.

    The log records have the same data as attributes, for handlers that write JSON: ``method``, ``call_id``,
    ``outcome`` ("answered", "failed", "waiting", "cancelled", "closed" or "rejected"), ``models``,
    ``requests``, ``input_tokens``, ``output_tokens``, ``cost``, ``seconds`` and ``error_type``. Those of
    requests and tools have ``model`` or ``tool`` instead, with their ``outcome`` and ``seconds``.
    """
    match event:
        case CallCompleted(invocation):
            _log_end(logging.INFO, invocation, "answered", "answered")
        case CallClosed(invocation):
            _log_end(logging.INFO, invocation, "closed", "the stream was closed")
        case CallFailed(invocation, error):
            _log_failure(invocation, error)
        case AnswerRejected(error, invocation=Invocation() as invocation):
            text = f"answer rejected, requesting another: {_reasons(error.problems)}"
            _LOGGER.info("%s: %s", invocation.plan.qualname, text, extra=_fields(invocation, "rejected"))
        case GuardrailRan(name, "output", Reprompt(), invocation=Invocation() as invocation):
            text = f"answer rejected by the guard {name}"
            _LOGGER.info("%s: %s", invocation.plan.qualname, text, extra=_fields(invocation, "rejected"))
        case ReplyReceived() | ReplyFailed() | ToolFinished() | ToolUndone():
            _log_step(event)


def _log_step(event: ReplyReceived | ReplyFailed | ToolFinished | ToolUndone) -> None:
    invocation = event.invocation
    call = {"method": invocation.plan.qualname, "call_id": invocation.id} if invocation else {}
    match event:
        case ReplyReceived(model, reply, seconds):
            fields = {"model": model, "outcome": "answered", "seconds": seconds, **_counts(reply.usage)}
            _LOGGER.debug(
                "request to %s: %s, %.3f s", model, _tokens(reply.usage), seconds, extra={**call, **fields}
            )
        case ReplyFailed(model, error, seconds):
            name = type(error).__name__
            fields = {"model": model, "outcome": "failed", "seconds": seconds, "error_type": name}
            _LOGGER.debug(
                "request to %s: failed with %s, %.3f s", model, name, seconds, extra={**call, **fields}
            )
        case ToolFinished(run):
            name = "" if run.error is None else type(run.error).__name__
            outcome, text = ("failed", f"failed with {name}") if name else ("done", "done")
            fields = {
                "tool": run.name,
                "outcome": outcome,
                "seconds": run.seconds,
                "error_type": name or None,
            }
            _LOGGER.debug(
                "tool %s: %s, %.3f s", _one_line(run.name), text, run.seconds, extra={**call, **fields}
            )
        case ToolUndone(run):
            name = "" if run.undone else type(run.undo_error).__name__
            text = "undone" if run.undone else f"not undone, {name}"
            fields = {"tool": run.name, "outcome": text.partition(",")[0], "error_type": name or None}
            _LOGGER.debug("tool %s: %s", run.name, text, extra=call | fields)


def _log_failure(invocation: Invocation, error: BaseException) -> None:
    if isinstance(error, ApprovalRequiredError):
        tools = ", ".join(call.name for call in (*error.calls, *error.external_calls))
        _log_end(logging.INFO, invocation, "waiting", f"waits for approval of {tools}")
    elif isinstance(error, CancelledError):
        _log_end(logging.INFO, invocation, "cancelled", "cancelled")
    else:
        reason = type(error).__name__
        if isinstance(error, ServiceOutputError) and error.problems:
            reason = f"{reason} ({_reasons(error.problems)})"
        _log_end(logging.WARNING, invocation, "failed", f"failed with {reason}", type(error).__name__)


def _log_end(
    level: int, invocation: Invocation, outcome: str, text: str, error_type: str | None = None
) -> None:
    if _LOGGER.isEnabledFor(level):  # the summary is not free, and INFO is off by default
        fields = {**_fields(invocation, outcome), "error_type": error_type}
        _LOGGER.log(level, "%s: %s, %s", invocation.plan.qualname, text, _summary(invocation), extra=fields)


def _fields(invocation: Invocation, outcome: str) -> dict[str, object]:
    """Return the attributes of a log record about a service call."""
    state = invocation.state
    return {
        "method": invocation.plan.qualname,
        "call_id": invocation.id,
        "outcome": outcome,
        "models": _models(state.attempts),
        "requests": sent_requests(state.attempts),
        **_counts(usage_of(state.attempts)),
        "cost": state.cost,
        "seconds": state.seconds,
    }


def _counts(usage: Usage | None) -> dict[str, object]:
    input_tokens, output_tokens = (None, None) if usage is None else (usage.input_tokens, usage.output_tokens)
    return {"input_tokens": input_tokens, "output_tokens": output_tokens}


def _models(attempts: Sequence[Attempt]) -> list[str]:
    return list(dict.fromkeys(attempt.model for attempt in attempts))


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
            lines = [f"tool {_one_line(run.name)}: {run.text}"]
    for line in lines:
        _CONTENT_LOGGER.info("%s %s %s", invocation.plan.qualname, invocation.id, line)


def _one_line(name: str) -> str:
    """Return a name that a model may have invented so that it cannot begin another line of the log."""
    return name if name.isprintable() else ascii(name)


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
    sent = sent_requests(attempts)
    requests = f"{sent} request{'' if sent == 1 else 's'}"
    models = ", ".join(_models(attempts))
    to_models = f" to {models}" if models else ""
    return f"{requests}{to_models}, {_tokens(usage_of(attempts))}, {invocation.state.seconds:.3f} s"


def _tokens(usage: Usage | None) -> str:
    return "tokens unknown" if usage is None else f"{usage.input_tokens} + {usage.output_tokens} tokens"
