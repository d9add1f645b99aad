"""The way of one call through models and rungs: who is asked next, in which way, and when."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .budget import CallContext
from .errors import ModelError
from .ladder import Rung
from .requests import ChatRequest
from .route import Refusal, Route
from .strategies import Wire

__all__ = ["Way"]

_AT_ONE_TIME = 0.005  # seconds; those who are ready within it keep their order


class Standing:
    """How one model stands in a call. ``ready`` is when it may be asked; never, after what will not pass."""

    def __init__(self, route: Route, other_model: str | None) -> None:
        self.route = route
        self.other_model = other_model
        self.rung: Rung | None = None  # that was stepped down to
        self.asked_on = route.ladder.rungs[0]
        self.refusals: list[Refusal] = []
        self.failures = 0
        self.ready = 0.0

    def wire(self) -> Wire[Any]:
        """How the model is asked now."""
        # fixed here, since other calls may learn of refusals while this one waits for its answer
        if self.rung is None:
            self.asked_on, why = self.route.standing(self.other_model)
        else:
            self.asked_on, why = self.rung, self.refusals[-1].why
        return self.route.ladder.wire(self.asked_on, why)

    def step_down(self, error: ModelError, *, offers_tools: bool) -> bool:
        """Whether the error was a refusal of the way in which was asked, and there is another one."""
        if offers_tools and self.route.gives_up_strict_tools(error):
            return True
        lower = self.route.below(self.asked_on, error)
        if lower is not None:
            self.rung, refusal = lower
            self.refusals.append(refusal)
        return lower is not None


class Way:
    """A refused rung gives way to the one below it, and a model that failed to the next one, at once.

    When all have failed, those that may work later are asked again in their order, each when the time has
    come for which it asked. ``other_model`` is a name that the options give to the first of the models;
    others may be of other providers, who do not know it.
    """

    def __init__(self, routes: Sequence[Route], other_model: str | None) -> None:
        self._standings = [
            Standing(route, None if number else other_model) for number, route in enumerate(routes)
        ]
        self._now = self._standings[0]

    @property
    def route(self) -> Route:
        """Who is asked now."""
        return self._now.route

    @property
    def name(self) -> str:
        """The name of the model that is asked now, the one of the options in the place of its own."""
        own, other = self._now.route.model.name, self._now.other_model
        return own if other is None else f"{own.rpartition(':')[0]}:{other}".removeprefix(":")

    def wire(self) -> Wire[Any]:
        """How it is asked now."""
        return self._now.wire()

    def addressed(self, request: ChatRequest) -> ChatRequest:
        """The request with the name by which the model is asked."""
        if request.options.model == self._now.other_model:
            return request
        return replace(request, options=replace(request.options, model=self._now.other_model))

    def after(self, error: ModelError, context: CallContext, *, offers_tools: bool = False) -> float | None:
        """Seconds to wait before ``route`` is asked, which may be another one now; None to give up."""
        if self._now.step_down(error, offers_tools=offers_tools):
            return 0.0 if context.may_ask_again() else None
        now = time.monotonic()
        self._now.failures += 1
        wait = context.wait_before_retry(error, self._now.failures)
        self._now.ready = math.inf if wait is None else now + wait
        first = min(self._standings, key=lambda standing: standing.ready)
        if first.ready == math.inf or not context.may_ask_again():
            return None
        wait = max(0.0, first.ready - now)
        if context.seconds_left is not None and wait >= context.seconds_left:
            return None
        then = max(now, first.ready) + _AT_ONE_TIME
        ready = [standing for standing in self._standings if standing.ready <= then]
        for standing in ready:
            standing.ready = 0.0
        self._now = min(ready, key=lambda standing: standing.failures)
        return wait

    def accepted(self) -> None:
        """The model answered: what it refused on the way is remembered."""
        self._now.route.remember(self._now.refusals, self._now.other_model)
