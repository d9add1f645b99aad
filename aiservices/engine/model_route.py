"""A model with the ways of asking it for a type, and what it refused of them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ..models.base import Capabilities, ChatModel
from ..models.errors import ModelError
from ..models.requests import ChatRequest, JsonSchemaFormat
from ..models.strategy import Strategy
from .budget import CallState
from .output_format import OutputFormat
from .strategy_selection import StrategyFallbacks, StrategyOption


class UnsupportedFeature(NamedTuple):
    """What a provider refused: the names of the rungs, in which words, and whether of this one type only."""

    rungs: tuple[str, ...]
    why: str
    of_type: bool


class ModelRoute:
    """One model with the ladder of a type for it, and what is known of its refusals.

    What a provider refused is remembered for the model at its address, for all services of this process,
    once a lower rung was accepted; what it refused of one schema only, for this route. After an hour it is
    tried again: a server may have learnt.
    """

    def __init__(self, model: ChatModel, ladder: StrategyFallbacks[Any]) -> None:
        self.model = model
        self.ladder = ladder
        self._plain_tools = False
        self._of_type: Refusals = {}
        self._of_model = _refusals_of(model)

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do, without strict tools where it refused them."""
        can = self.model.capabilities
        return replace(can, strict_schema=False) if self._plain_tools else can

    def gives_up_strict_tools(self, error: ModelError) -> bool:
        """Whether the error refused that tools are strict; from now on they are not."""
        said = _said(error)
        refused = error.status in _REFUSING and "strict" in said and "tool" in said
        if not refused or self._plain_tools or not self.model.capabilities.strict_schema:
            return False
        self._plain_tools = True
        return True

    def standing(self, other_model: str | None = None) -> tuple[StrategyOption, str]:
        """The highest rung that was not refused, by the model or another one at its address; and why it."""
        rungs = self.ladder.rungs
        if not self._of_model and not self._of_type:
            return rungs[0], ""
        refused = self._refused(other_model)
        rung = next((rung for rung in rungs if rung.name not in refused), rungs[-1])
        reasons = [refused[higher.name] for higher in rungs[: rungs.index(rung)] if higher.name in refused]
        return rung, reasons[-1] if reasons else ""

    def wire(self, other_model: str | None = None) -> OutputFormat[Any]:
        """What would be sent now."""
        return self.ladder.wire(*self.standing(other_model))

    def below(
        self, rung: StrategyOption, error: ModelError
    ) -> tuple[StrategyOption, UnsupportedFeature] | None:
        """The rung to go down to after this one was refused; None when ``error`` is no refusal."""
        if not _refuses(error, rung):
            return None
        rungs = self.ladder.rungs
        refused = self.ladder.wire(rung)
        below = [
            lower for lower in rungs[rungs.index(rung) + 1 :] if not _same(refused, self.ladder.wire(lower))
        ]
        if rung.strict and not _of_schema(error) and "strict" not in _said(error):
            below = [one for one in below if one.strategy is not rung.strategy]
        if not below:
            return None
        names = tuple(one.name for one in rungs[rungs.index(rung) : rungs.index(below[0])])
        why = f"the provider refused {rung.name}: {_short(error)}"
        return below[0], UnsupportedFeature(names, why, _of_schema(error))

    def remember(self, refusals: Iterable[UnsupportedFeature], other_model: str | None) -> None:
        """Keep in mind what was refused on the way to what was accepted."""
        for refusal in refusals:
            kept = (self._of_type if refusal.of_type else self._of_model).setdefault(other_model or "", {})
            kept.update(dict.fromkeys(refusal.rungs, (refusal.why, time.monotonic())))

    def _refused(self, other_model: str | None) -> dict[str, str]:
        """What is remembered, by the names of the rungs, and is not too old to hold."""
        name, since = other_model or "", time.monotonic() - _REMEMBERED
        known = {**self._of_model.get(name, {}), **self._of_type.get(name, {})}
        return {rung: why for rung, (why, when) in known.items() if when > since}


# By the name of another model (mostly ""), then by the name of the rung: why, and when.
Refusals = dict[str, dict[str, tuple[str, float]]]
_OF_ADDRESSES: dict[tuple[str, str], Refusals] = {}
_OF_OBJECTS: WeakKeyDictionary[ChatModel, Refusals] = WeakKeyDictionary()


def _refusals_of(model: ChatModel) -> Refusals:
    """What is remembered of a model; of one that tells no ``endpoint``, for this very object."""
    endpoint = getattr(model, "endpoint", None)
    if isinstance(endpoint, str):
        return _OF_ADDRESSES.setdefault((model.name, endpoint), {})
    try:
        return _OF_OBJECTS.setdefault(model, {})
    except TypeError:  # it has slots or no hash, hence nothing can be kept beside it
        return {}


_REMEMBERED = 3600.0  # seconds
_REFUSING = frozenset((400, 404, 405, 415, 422, 501))
_TOO_LONG = ("context_length", "context length", "context window")
_WORDS = {
    Strategy.JSON_SCHEMA: (
        "response_format",
        "response format",
        "schema",
        "structured",
        "strict",
        "text.format",
    ),
    Strategy.GRAMMAR: ("response_format", "schema", "grammar"),
    Strategy.OUTPUT_TOOL: ("tool", "function"),
    Strategy.JSON_MODE: ("response_format", "response format", "json_object", "json mode", "text.format"),
}


def _said(error: ModelError) -> str:
    """The provider's own words; the message of the error names model and address too, which may mislead."""
    return (error.body or str(error)).lower()


def _refuses(error: ModelError, rung: StrategyOption) -> bool:
    """Whether a provider's error is about the way in which structure was asked for."""
    if error.status not in _REFUSING:
        return False
    said = _said(error)
    if any(word in said for word in _TOO_LONG):  # which may tell how long the tools are
        return False
    return any(word in said for word in _WORDS.get(rung.strategy, ()))


def _of_schema(error: ModelError) -> bool:
    """Whether it is this one schema that was refused, and not schemas as such."""
    said = _said(error)
    return "invalid schema" in said or "invalid_json_schema" in said or "invalid_function_parameters" in said


def _short(error: ModelError) -> str:
    said = " ".join(str(error).split())
    return said if len(said) <= 200 else said[:199] + "…"


def _same(one: OutputFormat[Any], other: OutputFormat[Any]) -> bool:
    """Whether two rungs send the same: a type that no strict mode can say goes without it on both."""
    return one.strategy is other.strategy and _is_strict(one) == _is_strict(other)


def _is_strict(wire: OutputFormat[Any]) -> bool:
    form = wire.response_format
    tools = () if wire.tooling is None else wire.tooling.tools
    return (isinstance(form, JsonSchemaFormat) and form.strict) or any(tool.strict for tool in tools)


_AT_ONE_TIME = 0.005  # seconds; those who are ready within it keep their order


class ModelState:
    """How one model stands in a call. ``ready`` is when it may be asked; never, after what will not pass."""

    def __init__(self, route: ModelRoute, other_model: str | None) -> None:
        self.route = route
        self.other_model = other_model
        self.rung: StrategyOption | None = None  # that was stepped down to
        self.asked_on = route.ladder.rungs[0]
        self.refusals: list[UnsupportedFeature] = []
        self.failures = 0
        self.ready = 0.0

    def wire(self) -> OutputFormat[Any]:
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


class ModelFailover:
    """A refused rung gives way to the one below it, and a model that failed to the next one, at once.

    When all have failed, those that may work later are asked again in their order, each when the time has
    come for which it asked. ``other_model`` is a name that the options give to the first of the models;
    others may be of other providers, who do not know it.
    """

    def __init__(self, routes: Sequence[ModelRoute], other_model: str | None) -> None:
        self._standings = [
            ModelState(route, None if number else other_model) for number, route in enumerate(routes)
        ]
        self._now = self._standings[0]

    @property
    def route(self) -> ModelRoute:
        """Who is asked now."""
        return self._now.route

    @property
    def name(self) -> str:
        """The name of the model that is asked now, the one of the options in the place of its own."""
        own, other = self._now.route.model.name, self._now.other_model
        return own if other is None else f"{own.rpartition(':')[0]}:{other}".removeprefix(":")

    def wire(self) -> OutputFormat[Any]:
        """How it is asked now."""
        return self._now.wire()

    def addressed(self, request: ChatRequest) -> ChatRequest:
        """The request with the name by which the model is asked."""
        if request.options.model == self._now.other_model:
            return request
        return replace(request, options=replace(request.options, model=self._now.other_model))

    def after(self, error: ModelError, context: CallState, *, offers_tools: bool = False) -> float | None:
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
