"""A model with the ways of asking it for a type, and what it refused of them."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from .errors import ModelError
from .ladder import Ladder, Rung
from .models.base import ChatModel
from .requests import JsonSchemaFormat
from .strategies import Wire
from .strategy import Strategy

__all__ = ["Route"]


class Route:
    """One model with the ladder of a type for it, and what is known of its refusals.

    What a provider refused is remembered for the model at its address, for all services of this process,
    once a lower rung was accepted; what it refused of one schema only, for this route.
    """

    def __init__(self, model: ChatModel, ladder: Ladder[Any]) -> None:
        self.model = model
        self.ladder = ladder
        self._refused_of_type: dict[str, str] = {}
        self._shared = _refusals_of(model)

    def rung(self, other_model: str | None = None) -> Rung:
        """The highest rung that was not refused."""
        refused = self._refused(other_model)
        rungs = self.ladder.rungs
        return next((rung for rung in rungs if rung.name not in refused), rungs[-1])

    def wire(self, other_model: str | None = None) -> Wire[Any]:
        """What is sent now to the model, or to another one at its address."""
        if not self._shared and not self._refused_of_type:
            return self.ladder.first
        rung = self.rung(other_model)
        return self.ladder.wire(rung, self._reason(rung, other_model))

    def below(self, rung: Rung, error: ModelError) -> tuple[Rung, str] | None:
        """The rung to go down to after this one was refused, and why; None when ``error`` is no refusal."""
        if not _refuses(error, rung):
            return None
        refused = self.ladder.wire(rung)
        below = self.ladder.rungs[self.ladder.rungs.index(rung) + 1 :]
        rungs = tuple(lower for lower in below if not _same(refused, self.ladder.wire(lower)))
        if rung.strict and not _of_schema(error) and "strict" not in _said(error):
            rungs = tuple(lower for lower in rungs if lower.strategy is not rung.strategy)
        return (rungs[0], f"the provider refused {rung.name}: {_short(error)}") if rungs else None

    def remember(self, rung: Rung, why: str, error: ModelError, other_model: str | None) -> None:
        """Keep in mind that ``rung`` was accepted after what ``error`` refused."""
        shared = self._shared.setdefault(other_model or "", {})
        kept = self._refused_of_type if _of_schema(error) else shared
        for higher in self.ladder.rungs[: self.ladder.rungs.index(rung)]:
            kept.setdefault(higher.name, why)

    def _refused(self, other_model: str | None) -> dict[str, str]:
        return {**self._shared.get(other_model or "", {}), **self._refused_of_type}

    def _reason(self, rung: Rung, other_model: str | None) -> str:
        above = self.ladder.rungs[: self.ladder.rungs.index(rung)]
        refused = self._refused(other_model)
        return next((refused[higher.name] for higher in reversed(above) if higher.name in refused), "")


Refusals = dict[str, dict[str, str]]  # by the name of another model (mostly ""), then by the name of the rung
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


_REFUSING = frozenset((400, 404, 405, 415, 422, 501))
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
    return f"{error} {error.body or ''}".lower()


def _refuses(error: ModelError, rung: Rung) -> bool:
    """Whether a provider's error is about the way in which structure was asked for."""
    if error.status not in _REFUSING:
        return False
    said = _said(error)
    return any(word in said for word in _WORDS.get(rung.strategy, ()))


def _of_schema(error: ModelError) -> bool:
    """Whether it is this one schema that was refused, and not schemas as such."""
    said = _said(error)
    return "invalid schema" in said or "invalid_json_schema" in said or "invalid_function_parameters" in said


def _short(error: ModelError) -> str:
    said = " ".join(str(error).split())
    return said if len(said) <= 200 else said[:199] + "…"


def _same(one: Wire[Any], other: Wire[Any]) -> bool:
    """Whether two rungs send the same: a type that no strict mode can say goes without it on both."""
    return one.strategy is other.strategy and _is_strict(one) == _is_strict(other)


def _is_strict(wire: Wire[Any]) -> bool:
    form = wire.response_format
    tools = () if wire.tooling is None else wire.tooling.tools
    return (isinstance(form, JsonSchemaFormat) and form.strict) or any(tool.strict for tool in tools)
