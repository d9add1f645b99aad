"""The entry points: each is a function that runs a case and returns what came of it.

A new entry point is one function. A function may raise the errors of the library.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, get_origin

from equivalence.dialects import DIALECTS, DialectServer
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


def _blocking(world: World, service: Any) -> Outcome:
    return of_result(service.blocking("it"))


def _async(world: World, service: Any) -> Outcome:
    return of_result(world.wait(service.awaited("it")))


def _stream(world: World, service: Any) -> Outcome:
    stream = service.streamed("it")
    for snapshot in stream:
        last = snapshot.value
    outcome = of_result(stream.result())
    assert typed(last) == outcome.value
    return outcome


def _async_stream(world: World, service: Any) -> Outcome:
    async def watch() -> Outcome:
        stream = service.streamed_awaited("it")
        async for snapshot in stream:
            last = snapshot.value
        outcome = of_result(await stream.result())
        assert typed(last) == outcome.value
        return outcome

    return world.wait(watch())


KINDS = {"blocking": _blocking, "async": _async, "Stream": _stream, "AsyncStream": _async_stream}


def add_kinds(
    name: str, service_of: Callable[[World, Case], Any], applies: Condition = lambda case: True
) -> None:
    """Register the four kinds of calls of a service as entry points."""
    for kind, call in KINDS.items():

        def run(world: World, case: Case, call: Any = call) -> Outcome:
            return call(world, service_of(world, case))

        entry_point(f"{name}, {kind}" if name else kind, applies)(run)


def has_strategies(case: Case) -> bool:
    """Whether there is a choice of strategies, as there is not for text."""
    return not parser_for(case.form).plain_text


def _service_with(world: World, case: Case, *, strategy: Strategy) -> Any:
    return world.service(case, Whole, strategy=strategy)


add_kinds("", lambda world, case: world.service(case, Whole))
for _strategy in (Strategy.JSON_SCHEMA, Strategy.JSON_MODE, Strategy.OUTPUT_TOOL):
    add_kinds(_strategy, partial(_service_with, strategy=_strategy), has_strategies)


@entry_point("Iterator", is_list)
def _iterator(world: World, case: Case) -> Outcome:
    return of_value(list(world.service(case, Items).each("it")))


@entry_point("AsyncIterator", is_list)
def _async_iterator(world: World, case: Case) -> Outcome:
    async def gather() -> list[Any]:
        return [item async for item in world.service(case, Items).each_awaited("it")]

    return of_value(world.wait(gather()))


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


# --- The APIs of providers, over HTTP


def _service_at(world: World, case: Case, *, dialect: str, strategy: Strategy) -> Any:
    server = world.once("dialects", lambda: DialectServer(world))
    server.case, server.dialect = case, DIALECTS[dialect]
    settings: Any = {} if parser_for(case.form).plain_text else {"strategy": strategy}
    key = ("dialect", id(case.form), dialect, strategy)
    return world.once(key, lambda: create(Whole[case.form], server.model(dialect), retry=None, **settings))


def _ends_in(dialect: str) -> Condition:
    """Whether an API has a word for the end of a reply."""

    def applies(case: Case) -> bool:
        end = "refusal" if case.refusal else case.finish.value
        return case.model is None and (end == "stop" or end in DIALECTS[dialect].endings)

    return applies


for _dialect, _strategies in {
    "chat": (Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL, Strategy.JSON_MODE, Strategy.PROMPT),
    "chat without strict mode": (Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL),
    "chat with a grammar": (Strategy.GRAMMAR,),
    "responses": (Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL, Strategy.PROMPT),
    "anthropic": (Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL, Strategy.PROMPT),
    "gemini": (Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL, Strategy.PROMPT),
    "bedrock": (Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL, Strategy.PROMPT),
}.items():
    for _strategy in _strategies:
        add_kinds(
            f"{_dialect}, {_strategy}",
            partial(_service_at, dialect=_dialect, strategy=_strategy),
            _ends_in(_dialect) if _strategy is Strategy.PROMPT else is_exact,
        )
