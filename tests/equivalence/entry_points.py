"""The entry points: each is a function that runs a case and returns what came of it.

A new entry point is one function. A function may raise the errors of the library.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, get_origin

from equivalence.outcomes import Outcome, of_error, of_result, of_value, typed
from equivalence.table import Case
from equivalence.world import Items, Whole, World
from pydantic import BaseModel, TypeAdapter

from aiservices import (
    Strategy,
    create,
)
from aiservices.agents import ReActAgent
from aiservices.structured import structured
from output_parsers import PartialReader, parser_for, read

__all__ = ["ENTRY_POINTS", "EntryPoint"]

Call = Callable[[World, Case], Outcome]
Condition = Callable[[Case], bool]


@dataclass(frozen=True)
class EntryPoint:
    """A way in which a user of the library gets a value from a reply.

    Attributes:
        name: Its name in reports.
        call: Runs a case, and returns what came of it, or raises the error.
        applies: Tells whether a case can be run here.
    """

    name: str
    call: Call
    applies: Condition

    def run(self, world: World, case: Case) -> Outcome:
        try:
            return self.call(world, case)
        except Exception as error:
            return of_error(error)


ENTRY_POINTS: list[EntryPoint] = []


def entry_point(name: str, applies: Condition = lambda case: True) -> Callable[[Call], Call]:
    """Register a function as an entry point."""

    def register(call: Call) -> Call:
        ENTRY_POINTS.append(EntryPoint(name, call, applies))
        return call

    return register


def is_list(case: Case) -> bool:
    return get_origin(case.form) is list


def is_exact(case: Case) -> bool:
    return case.exact


def is_model(case: Case) -> bool:
    """Whether pydantic can say what the value is."""
    return case.exact and isinstance(case.form, type) and issubclass(case.form, BaseModel)


# --- Parsers


def is_text(case: Case) -> bool:
    return case.complete and not case.settings


@entry_point("parse", is_text)
def _parse(world: World, case: Case) -> Outcome:
    reading = read(case.form, case.reply)
    return of_value(reading.value, reading.coercions)


@entry_point("partial reader", is_text)
def _partial_reader(world: World, case: Case) -> Outcome:
    reader = PartialReader(case.form)
    chance = random.Random(case.name)
    start = 0
    while start < len(case.reply):
        end = start + chance.randint(1, 7)
        reader.feed(case.reply[start:end])
        reader.snapshot().to_python()
        start = end
    reading = reader.finish()
    return of_value(reading.value, reading.coercions)


@entry_point("pydantic", is_model)
def _pydantic(world: World, case: Case) -> Outcome:
    return of_value(TypeAdapter(case.form).validate_json(case.reply))


# --- Methods of services


@entry_point("blocking")
def _blocking(world: World, case: Case, **settings: Any) -> Outcome:
    return of_result(world.service(case, Whole, **settings).blocking("it"))


@entry_point("async")
def _async(world: World, case: Case, **settings: Any) -> Outcome:
    return of_result(world.wait(world.service(case, Whole, **settings).awaited("it")))


@entry_point("Stream")
def _stream(world: World, case: Case, **settings: Any) -> Outcome:
    stream = world.service(case, Whole, **settings).streamed("it")
    for snapshot in stream:
        last = snapshot.value
    outcome = of_result(stream.result())
    assert typed(last) == outcome.value
    return outcome


@entry_point("AsyncStream")
def _async_stream(world: World, case: Case, **settings: Any) -> Outcome:
    async def watch() -> Outcome:
        stream = world.service(case, Whole, **settings).streamed_awaited("it")
        async for snapshot in stream:
            last = snapshot.value
        outcome = of_result(await stream.result())
        assert typed(last) == outcome.value
        return outcome

    return world.wait(watch())


@entry_point("Iterator", is_list)
def _iterator(world: World, case: Case) -> Outcome:
    return of_value(list(world.service(case, Items).each("it")))


@entry_point("AsyncIterator", is_list)
def _async_iterator(world: World, case: Case) -> Outcome:
    async def gather() -> list[Any]:
        return [item async for item in world.service(case, Items).each_awaited("it")]

    return of_value(world.wait(gather()))


def _is_json(case: Case) -> bool:
    """Whether the value is requested as JSON, so that there is a choice of strategies."""
    return not parser_for(case.form).plain_text


for _strategy in (Strategy.JSON_SCHEMA, Strategy.JSON_MODE, Strategy.OUTPUT_TOOL):
    entry_point(f"{_strategy}, blocking", _is_json)(partial(_blocking, strategy=_strategy))
    entry_point(f"{_strategy}, Stream", _is_json)(partial(_stream, strategy=_strategy))


# --- Other objects that ask a model


def _structured(world: World, case: Case) -> Any:
    strategy = None if parser_for(case.form).plain_text else Strategy.PROMPT
    settings = {"retry": None, "strategy": strategy, **case.settings}
    return structured(world.model(case), case.form, **settings)


@entry_point("structured, invoke")
def _invoke(world: World, case: Case) -> Outcome:
    return of_value(_structured(world, case).invoke("Give it."))


@entry_point("structured, ainvoke")
def _ainvoke(world: World, case: Case) -> Outcome:
    return of_value(world.wait(_structured(world, case).ainvoke("Give it.")))


@entry_point("structured, stream")
def _structured_stream(world: World, case: Case) -> Outcome:
    stream = _structured(world, case).stream("Give it.")
    for _ in stream:
        pass
    return of_result(stream.result())


@entry_point("agent", is_exact)
def _agent(world: World, case: Case) -> Outcome:
    agent = ReActAgent("Friday", "Help.", world.model(case), retry=None)
    return of_value(agent.reply("Give it.", case.form).metadata)


# --- Arguments that a model writes


@entry_point("tool parameter", is_exact)
def _tool_parameter(world: World, case: Case) -> Outcome:
    taken = []

    def take(what: Any) -> str:
        """Take it."""
        taken.append(what)
        return "Taken."

    take.__annotations__ = {"what": case.form, "return": str}
    (run,) = create(Whole[str], world.model(case), tools=[take], retry=None).blocking("it").tool_runs
    return of_value(taken[0]) if taken else Outcome(error=run.text)
