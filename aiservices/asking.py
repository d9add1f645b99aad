"""Has a request answered: again where the way to the model failed, of the next model, on a lower rung."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .budget import CallContext
from .errors import Attempt, BudgetExceededError, ModelError
from .flow import Ask, Emit, Flow, Pause
from .ladder import Rung
from .messages import ChatReply
from .plan import Turn
from .requests import ChatRequest
from .route import Refusal, Route
from .strategies import Wire
from .streams import AttemptStarted

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
    way = _Way(turn.plan.routes, turn.request.options.model)
    while True:
        exceeded = context.exceeded()
        if exceeded is not None:
            raise exceeded
        wire = way.wire()
        context.wire = wire
        request = wire.prepare(turn.request, turn.examples)
        if turn.plan.transform is not None:
            request = turn.plan.transform(request)
        model = way.route.model
        yield Emit(AttemptStarted(len(context.attempts) + 1, model.name, wire))
        began = time.monotonic()
        try:
            reply: ChatReply = yield Ask(model, _in_time(request, context.seconds_left))
        except ModelError as error:
            spent = time.monotonic() - began
            context.attempts.append(Attempt(model.name, None, error, spent, wire.strategy))
            wait = way.after(error, context)
            if wait is None:
                raise _blamed(error, context) from error
            if wait:
                yield Pause(wait)
        else:
            spent = time.monotonic() - began
            context.attempts.append(Attempt(model.name, reply, None, spent, wire.strategy))
            way.accepted()
            return Asked(reply, wire)


class _Way:
    """The way of one request through models and rungs.

    A refused rung gives way to the one below it. A model that failed gives way to the next one at once; when
    all have failed, those that may work later are asked again after a wait.
    """

    def __init__(self, routes: Sequence[Route], other_model: str | None) -> None:
        self._open = list(routes)
        self._other = other_model
        self._failed: list[tuple[Route, ModelError]] = []
        self._rounds = 0
        self._rung: Rung | None = None  # that was stepped down to
        self._refusals: list[Refusal] = []
        self.route = routes[0]
        self._sent = routes[0].ladder.rungs[0]

    def wire(self) -> Wire[Any]:
        """How the route is asked now."""
        self._sent = self._rung or self.route.rung(self._other)  # other calls may learn of refusals meanwhile
        if self._rung is None:
            return self.route.wire(self._other)
        return self.route.ladder.wire(self._rung, self._refusals[-1].why)

    def after(self, error: ModelError, context: CallContext) -> float | None:
        """Seconds to wait before the request is made again, ``route`` being set; None to end."""
        lower = self.route.below(self._sent, error)
        if lower is not None:
            self._rung, refusal = lower
            self._refusals.append(refusal)
            return 0.0 if context.may_ask_again() else None
        self._failed.append((self.route, error))
        later = self._open[self._open.index(self.route) + 1 :]
        if later:
            self._go_to(later[0])
            return 0.0 if context.may_ask_again() else None
        return self._next_round(context)

    def _go_to(self, route: Route) -> None:
        if route is not self.route:
            self.route, self._rung, self._refusals = route, None, []

    def _next_round(self, context: CallContext) -> float | None:
        self._rounds += 1
        waits = [
            (wait, at, route)
            for at, (route, error) in enumerate(self._failed)
            if (wait := context.wait_before_retry(error, self._rounds)) is not None
        ]
        self._failed = []
        if not waits:
            return None
        wait, _, first = min(waits)
        routes = [route for _, _, route in waits]
        self._open = routes[routes.index(first) :] + routes[: routes.index(first)]
        self._go_to(first)
        return wait

    def accepted(self) -> None:
        """The model answered: what was refused on the way is remembered."""
        self.route.remember(self._refusals, self._other)


def _blamed(error: ModelError, context: CallContext) -> ModelError | BudgetExceededError:
    """The error itself; where the budget's time ran out, that instead."""
    left = context.seconds_left
    return error if left is None or left > 0 else context.exceeded() or error


def _in_time(request: ChatRequest, left: float | None) -> ChatRequest:
    """The request with a timeout that ends with the call's budget."""
    if left is None:
        return request
    timeout = request.options.timeout
    shorter = left if timeout is None else min(left, timeout)
    return replace(request, options=replace(request.options, timeout=max(shorter, 0.001)))
