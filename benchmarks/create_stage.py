"""``create`` of an interface that it has not seen, beside the schemas that pydantic makes of its types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from pydantic import BaseModel, TypeAdapter

from aiservices import OpenAiChatModel, create

from .clerk import KEY
from .measure import Effort, Sample, in_pairs, timed
from .results import Comparison, Stage
from .ten_methods import new_interface

__all__ = ["run"]

_NOWHERE = "http://127.0.0.1:9/v1"  # nothing is sent
_BLOCK = 5  # interfaces of which one sample is the median
_TARGET = 10.0


def run(effort: Effort) -> Stage:
    """The stage ``create``."""
    with OpenAiChatModel("none", base_url=_NOWHERE, api_key=KEY) as model:

        def ours() -> Sample:
            return _each_new(lambda interface, _: create(interface, model))

        def floor() -> Sample:
            return _each_new(lambda _, forms: _schemas(forms))

        ours(), floor()  # all modules are loaded
        pairs = in_pairs(ours, floor, effort.rounds)
    case, against = "create, 10 methods with 10 record types", "10 × TypeAdapter(…).json_schema()"
    return Stage("create", [Comparison.of(case, against, pairs, _TARGET)])


def _schemas(forms: Sequence[type[BaseModel]]) -> list[dict[str, Any]]:
    return [TypeAdapter(form).json_schema() for form in forms]


def _each_new(work: Callable[[type[Any], Sequence[type[BaseModel]]], object]) -> Sample:
    """What the work takes; making the types is not part of it."""
    samples = []
    for _ in range(_BLOCK):
        interface, forms = new_interface()
        samples.append(timed(partial(work, interface, forms)))
    return Sample(median(sample.wall for sample in samples), median(sample.cpu for sample in samples))
