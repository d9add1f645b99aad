"""Has a request answered: again where the way to the model failed, of the next model, on a lower rung."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

from .budget import CallContext
from .errors import Attempt, BudgetExceededError, DefinitionError, ModelError, ServiceOutputError
from .events import ReplyFailed, ReplyReceived
from .flow import Ask, Emit, Flow, Pause
from .messages import ChatReply
from .plan import Turn
from .requests import ChatRequest
from .strategies import Wire
from .streams import AttemptStarted
from .way import Way

__all__ = ["Asked", "ask"]


class Asked(NamedTuple):
    """A reply, and the wire that it is to be read by."""

    reply: ChatReply
    wire: Wire[Any]


def ask(turn: Turn) -> Flow[Asked]:
    """The reply to a turn. All requests made for it are in the turn's context, and within its budget.

    Raises ModelError when no model can be asked any more, BudgetExceededError when the budget forbids it.
    """
    context = turn.context
    way = _way(turn)
    while True:
        exceeded = context.exceeded()
        if exceeded is not None:
            raise exceeded
        wire, model, name = way.wire(), way.route.model, way.name
        context.wire, context.route = wire, way.route
        offered = None if turn.toolbox is None else turn.toolbox.offered(way.route.capabilities)
        tooling = None if offered is None else offered.tooling
        request = wire.prepare(way.addressed(turn.request), turn.examples, tooling)
        request = _in_time(request, context)
        if turn.plan.transform is not None:
            request = turn.plan.transform(request)
        yield Emit(AttemptStarted(len(context.attempts) - context.aside + 1, name, wire))
        began = time.monotonic()
        try:
            reply: ChatReply = yield Ask(model, request)
        except ModelError as error:
            spent = time.monotonic() - began
            context.attempts.append(Attempt(name, None, error, spent, wire.strategy))
            yield Emit(ReplyFailed(name, error, spent), shown=False)
            wait = way.after(error, context, offers_tools=tooling is not None)
            if wait is None:
                raise _blamed(error, context) from error
            if wait:
                yield Pause(wait)
        except ServiceOutputError as error:  # whoever reads a stream has seen enough of it
            spent = time.monotonic() - began
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            context.attempts.append(Attempt(name, error.reply, cause, spent, wire.strategy))
            yield Emit(ReplyFailed(name, error, spent), shown=False)
            raise
        else:
            spent = time.monotonic() - began
            context.attempts.append(Attempt(name, reply, None, spent, wire.strategy))
            way.accepted()
            yield Emit(ReplyReceived(name, reply, spent), shown=False)
            return Asked(reply, wire)


def _way(turn: Turn) -> Way:
    """The way through the turn's models; what failed in this call before is known to it."""
    context, routes, other = turn.context, turn.plan.routes, turn.request.options.model
    way = context.ways.get(routes)
    if way is None:
        way = context.ways[routes] = Way(routes, other)
        if other is not None:  # named by the call, hence not seen when the budget was checked
            faults = context.budget.faults(turn.plan.where, [way.name])
            if faults:
                raise DefinitionError(faults)
    return way


def _blamed(error: ModelError, context: CallContext) -> ModelError | BudgetExceededError:
    """The error itself; where the budget's time ran out, that instead."""
    left = context.seconds_left
    return error if left is None or left > 0 else context.exceeded() or error


def _in_time(request: ChatRequest, context: CallContext) -> ChatRequest:
    """The request with a timeout, and a deadline, that end with the call's budget."""
    left = context.seconds_left
    if left is None:
        return request
    timeout = request.options.timeout
    shorter = max(left if timeout is None else min(left, timeout), 0.001)
    options = replace(request.options, timeout=shorter)
    return replace(request, options=options, deadline=time.monotonic() + left)
