"""The stage ``create``: ``create`` with a new interface, compared to pydantic generating the schemas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from pydantic import BaseModel, TypeAdapter

from aiservices import OpenAiChatModel, create

from .clerk import KEY
from .measure import Effort, Sample, measure, measure_pairs
from .results import Comparison, Stage
from .ten_methods import new_interface

_UNUSED_URL = "http://127.0.0.1:9/v1"  # no request is sent
_INTERFACES_PER_SAMPLE = 5  # a sample is the median over this number of new interfaces
_TARGET = 10.0


def run(effort: Effort) -> Stage:
    """Run the stage ``create``."""
    with OpenAiChatModel("none", base_url=_UNUSED_URL, api_key=KEY) as model:

        def ours() -> Sample:
            return _measure_with_new_interfaces(lambda interface, _: create(interface, model))

        def baseline_run() -> Sample:
            return _measure_with_new_interfaces(lambda _, types: _schemas(types))

        ours(), baseline_run()  # imports all modules
        pairs = measure_pairs(ours, baseline_run, effort.rounds)
    case, baseline = "create, 10 methods with 10 record types", "10 × TypeAdapter(…).json_schema()"
    return Stage("create", [Comparison.of(case, baseline, pairs, _TARGET)])


def _schemas(types: Sequence[type[BaseModel]]) -> list[dict[str, Any]]:
    return [TypeAdapter(tp).json_schema() for tp in types]


def _measure_with_new_interfaces(work: Callable[[type[Any], Sequence[type[BaseModel]]], object]) -> Sample:
    """Measure a function on new interfaces, without the time to define the interfaces."""
    samples = []
    for _ in range(_INTERFACES_PER_SAMPLE):
        interface, types = new_interface()
        samples.append(measure(partial(work, interface, types)))
    return Sample(median(sample.wall for sample in samples), median(sample.cpu for sample in samples))
