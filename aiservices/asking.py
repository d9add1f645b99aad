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
from .route import Route
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
        wire = way.wire
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
        self._step: tuple[Rung, str] | None = None
        self._refusal: ModelError | None = None
        self.route = routes[0]

    @property
    def wire(self) -> Wire[Any]:
        return self.route.wire(self._other) if self._step is None else self.route.ladder.wire(*self._step)

    def after(self, error: ModelError, context: CallContext) -> float | None:
        """Seconds to wait before the request is made again, ``wire`` and ``route`` being set; None to end."""
        rung = self.route.rung(self._other) if self._step is None else self._step[0]
        lower = self.route.below(rung, error)
        if lower is not None:
            self._step, self._refusal = lower, error
            return 0.0 if context.may_ask_again() else None
        self._step = None
        self._failed.append((self.route, error))
        later = self._open[self._open.index(self.route) + 1 :]
        if later:
            self.route = later[0]
            return 0.0 if context.may_ask_again() else None
        return self._next_round(context)

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
        self._open = [route for _, _, route in waits]
        wait, _, self.route = min(waits)
        self._open = self._open[self._open.index(self.route) :] + self._open[: self._open.index(self.route)]
        return wait

    def accepted(self) -> None:
        """The model answered: what was refused on the way is remembered."""
        if self._step is not None and self._refusal is not None:
            self.route.remember(*self._step, self._refusal, self._other)


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
