"""The entry points: each is a function that runs a case and returns what came of it.

A new entry point is one function. A function may raise the errors of the library.
"""

from __future__ import annotations

import csv
import inspect
import json
import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace, new_class
from typing import Any, Protocol, get_origin

import mcp
import pandas
import polars
import pyarrow
import pyarrow.parquet
from batch_server import BatchServer, Faults
from equivalence import table
from equivalence.dialects import DIALECTS, DialectServer
from equivalence.differences import has_secret
from equivalence.outcomes import Outcome, of_error, of_result, of_value, typed
from equivalence.table import Case
from equivalence.world import (
    MODEL,
    PERMITTED,
    SCRIPT,
    DurableItems,
    DurableWhole,
    Items,
    Mounts,
    Nothing,
    Plain,
    Takes,
    Whole,
    World,
)
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_json
from recorded_spans import Recorded
from served import Served
from typer.testing import CliRunner

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    ChatModel,
    ChatReply,
    Decision,
    DefinitionError,
    Durable,
    FallbackChatModel,
    Journal,
    LimitedChatModel,
    Limits,
    OpenAiChatModel,
    ProbabilitiesUnavailableError,
    ResponseCache,
    Strategy,
    SuspendedCall,
    ToolCall,
    Usage,
    create,
    options,
    resume,
    tool,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.cli.main import application
from aiservices.integrations.fastapi import app
from aiservices.integrations.mcp import McpTools, mcp_server, mount_mcp
from aiservices.remote.codec import codec_for
from aiservices.remote.problems import KINDS
from aiservices.rows import BatchEngine, amap_rows, as_udf, map_rows
from aiservices.structured_model import StructuredSettings, structured
from aiservices.testing import CassetteChatModel
from output_parsers import PartialReader, parser_for, read
from output_parsers.parser.type_parser import DEFAULT_REGISTRY
from output_parsers.types.validation import runs_validators

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


def _iterator(world: World, service: Any) -> Outcome:
    return of_value(list(service.each("it")))


def _async_iterator(world: World, service: Any) -> Outcome:
    async def gather() -> list[Any]:
        return [item async for item in service.each_awaited("it")]

    return of_value(world.wait(gather()))


CALLS = {"blocking": _blocking, "async": _async, "Stream": _stream, "AsyncStream": _async_stream}
ITEM_CALLS = {"Iterator": _iterator, "AsyncIterator": _async_iterator}


def add_kinds(
    name: str,
    service_of: Callable[[World, Case], Any],
    applies: Condition = lambda case: True,
    wrap: Callable[[Call], Call] = lambda call: call,
    calls: Mapping[str, Callable[[World, Any], Outcome]] = CALLS,
) -> None:
    """Register the kinds of calls of a service as entry points."""
    for kind, call in calls.items():

        def run(world: World, case: Case, call: Any = call) -> Outcome:
            return call(world, service_of(world, case))

        entry_point(f"{name}, {kind}" if name else kind, applies)(wrap(run))


def has_strategies(case: Case) -> bool:
    """Whether there is a choice of strategies, as there is not for text."""
    return not parser_for(case.form).plain_text


def _service_with(world: World, case: Case, *, strategy: Strategy) -> Any:
    return world.service(case, Whole, strategy=strategy)


add_kinds("", lambda world, case: world.service(case, Whole))
for _strategy in (Strategy.JSON_SCHEMA, Strategy.JSON_MODE, Strategy.OUTPUT_TOOL):
    add_kinds(_strategy, partial(_service_with, strategy=_strategy), has_strategies)


add_kinds("", lambda world, case: world.service(case, Items), is_list, calls=ITEM_CALLS)


# --- Other objects that ask a model


def _takes_settings(allowed: Any) -> Condition:
    """Return a condition for cases whose settings have these names."""
    return lambda case: {name for name, value in case.settings.items() if value is not None} <= set(allowed)


def _structured(world: World, case: Case, **more: Any) -> Any:
    strategy = None if parser_for(case.form).plain_text else Strategy.PROMPT
    settings = {"retry": None, "strategy": strategy, **more, **case.settings}
    return structured(world.model(case), case.form, **settings)


@entry_point("structured, invoke", _takes_settings(StructuredSettings.__annotations__))
def _invoke(world: World, case: Case) -> Outcome:
    return of_value(_structured(world, case).invoke("Give it."))


@entry_point("structured, ainvoke", _takes_settings(StructuredSettings.__annotations__))
def _ainvoke(world: World, case: Case) -> Outcome:
    return of_value(world.wait(_structured(world, case).ainvoke("Give it.")))


@entry_point("structured, stream", _takes_settings(StructuredSettings.__annotations__))
def _structured_stream(world: World, case: Case) -> Outcome:
    stream = _structured(world, case).stream("Give it.")
    for _ in stream:
        pass
    return of_result(stream.result())


def _fits_agent(case: Case) -> bool:
    """Whether the model writes the reply in the form of an agent's answer."""
    allowed = inspect.signature(ReActAgent).parameters
    is_written = case.exact or (case.model is not None and case.form is not int)
    return is_written and _takes_settings(allowed)(case)


def _agent_of(world: World, case: Case, **more: Any) -> ReActAgent:
    settings = {name: one for name, one in case.settings.items() if name != "strategy"}
    return ReActAgent("Friday", "Help.", world.model(case), **{"retry": None, **more, **settings})


@entry_point("agent", _fits_agent)
def _agent(world: World, case: Case) -> Outcome:
    return of_value(_agent_of(world, case).reply("Give it.", case.form).metadata)


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


def _service_at(world: World, case: Case, *, dialect: str, strategy: Strategy, interface: Any = Whole) -> Any:
    server = world.once("dialects", lambda: DialectServer(world))
    server.case, server.dialect = case, DIALECTS[dialect]
    settings: Any = {} if parser_for(case.form).plain_text else {"strategy": strategy}
    form = case.form.__args__[0] if interface is Items else case.form
    key = ("dialect", id(case.form), dialect, strategy, interface)
    return world.once(key, lambda: create(interface[form], server.model(dialect), retry=None, **settings))


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
        add_kinds(
            f"{_dialect}, {_strategy}",
            partial(_service_at, dialect=_dialect, strategy=_strategy, interface=Items),
            lambda case: is_exact(case) and is_list(case),
            calls=ITEM_CALLS,
        )


# --- Wrappers of models, and other ways in which a request reaches the model


def _with_model(wrap: Callable[[World, ChatModel], ChatModel]) -> Callable[[World, Case], Any]:
    """Return the maker of services whose model is wrapped."""

    def service_of(world: World, case: Case) -> Any:
        model = world.once(wrap, lambda: wrap(world, MODEL))
        return world.service(case, Whole, model=model)

    return service_of


def _is_scripted(case: Case) -> bool:
    return case.model is None


add_kinds(
    "FallbackChatModel",
    _with_model(lambda world, model: FallbackChatModel(FallbackChatModel(model, model), model)),
    _is_scripted,
)
add_kinds(
    "LimitedChatModel",
    _with_model(lambda world, model: LimitedChatModel(model, Limits(max_concurrency=3))),
    _is_scripted,
)
add_kinds(
    "limits of a fallback",
    _with_model(lambda world, model: LimitedChatModel(FallbackChatModel(model, model))),
    _is_scripted,
)


def _traced(world: World, case: Case) -> Any:
    telemetry = world.once("telemetry", lambda: Recorded().telemetry())
    return world.service(case, Whole, interceptors=[telemetry])


add_kinds("traced", _traced)


def _recorded(world: World, case: Case) -> Any:
    """A service with a new cassette."""
    path = world.new_path(".json")
    return world.service(case, Whole, model=CassetteChatModel(path, MODEL, mode="all"))


def _replayed(world: World, case: Case) -> Any:
    """A service with a cassette that has the reply."""
    path = world.new_path(".json")
    recorded = world.service(case, Whole, model=CassetteChatModel(path, MODEL, mode="all"))
    _ignore_errors(lambda: recorded.blocking("it"))
    return world.service(case, Whole, model=CassetteChatModel(path))


add_kinds("recorded by a cassette", _recorded, _is_scripted)
add_kinds("replayed by a cassette", _replayed, _is_scripted)


def _ignore_errors(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:
        pass


def _cached(world: World, case: Case) -> Any:
    """A service whose cache has the reply."""
    cache = ResponseCache(world.new_path(".sqlite"))
    service = world.service(case, Whole, cache=cache)
    _ignore_errors(lambda: service.blocking("it"))
    return service


def _without_usage(call: Call) -> Call:
    """Leave out the usage, which is 0 for replies from a cache."""
    return lambda world, case: call(world, case)._replace(usage=None)


add_kinds("cache hit", _cached, _is_scripted, wrap=_without_usage)


def _journal(world: World) -> Journal:
    return world.once("journal", lambda: world.resources.enter_context(Journal(world.new_path(".db"))))


def _durable(world: World, case: Case, *, interface: Any = DurableWhole) -> Any:
    """A service whose calls are recorded, each with an id of its own."""
    service = world.service(case, interface, interceptors=[Durable(_journal(world))])
    call_id = world.stored.get("call id") or world.new_path("").name
    kinds = ITEM_CALLS if interface is DurableItems else CALLS
    names = (
        ("each", "each_awaited")
        if kinds is ITEM_CALLS
        else ("blocking", "awaited", "streamed", "streamed_awaited")
    )
    calls = {name: partial(getattr(service, name), call_id=call_id) for name in names}
    return SimpleNamespace(**calls)


def _again(call: Call) -> Call:
    """Make a call twice with the same id, and return what the second one gives.

    A stored answer has no requests and no tokens, and does not say how it was read.
    """

    def twice(world: World, case: Case) -> Outcome:
        world.stored["call id"] = world.new_path("").name
        try:
            _ignore_errors(lambda: call(world, case))
            return call(world, case)._replace(requests=None, usage=None, coercions=None)
        finally:
            del world.stored["call id"]

    return twice


add_kinds("durable", _durable)
add_kinds("durable", partial(_durable, interface=DurableItems), is_list, calls=ITEM_CALLS)
add_kinds("durable, again", _durable, wrap=_again)


@entry_point("structured, durable", _takes_settings(StructuredSettings.__annotations__))
def _structured_durable(world: World, case: Case) -> Outcome:
    model = _structured(world, case, interceptors=[Durable(_journal(world))])
    call_id = world.new_path("").name
    _ignore_errors(lambda: world.wait(model.ainvoke("Give it.", call_id=call_id)))
    return of_value(model.invoke("Give it.", call_id=call_id))


@entry_point("agent, durable", _fits_agent)
def _agent_durable(world: World, case: Case) -> Outcome:
    agent = _agent_of(world, case, interceptors=[Durable(_journal(world))])
    call_id = world.new_path("").name
    _ignore_errors(lambda: agent.reply("Give it.", case.form, call_id=call_id))
    return of_value(agent.reply("Give it.", case.form, call_id=call_id).metadata)


def _can_be_pickled(case: Case) -> bool:
    """Whether the type itself can be pickled, so that a service of it can."""
    try:
        pickle.dumps(case.form)
    except Exception:
        return False
    return case.model is None


def _pickled(world: World, case: Case) -> Any:
    return pickle.loads(pickle.dumps(world.service(case, Whole)))


add_kinds("pickled", _pickled, _can_be_pickled)


@tool(needs_approval=True)
def permit(order: int) -> str:
    """Permit an order."""
    return PERMITTED


@entry_point("resumed call", _is_scripted)
def _resumed(world: World, case: Case) -> Outcome:
    service = world.service(case, Whole, tools=[permit])
    wanted = ToolCall("c1", "permit", '{"order": 1}')
    SCRIPT.first.append(ChatReply(AiMessage("", (wanted,)), usage=Usage(0, 0)))
    try:
        service.blocking("it")
    except ApprovalRequiredError as error:
        state = SuspendedCall.from_json(error.state.to_json())
    try:
        outcome = of_result(resume(service.blocking, state, True))
    except Exception as error:
        outcome = of_error(error)
    return outcome._replace(requests=None, messages=None)  # one more, for the tool


# --- Over HTTP


# The classes of the errors in responses, by the last part of their type.
_CLASSES = {
    "unreadable-reply": "OutputParsingError",
    "refusal": "RefusalError",
    "truncated": "TruncatedError",
    "content-filter": "ContentFilterError",
    "unavailable": "ModelServerError",
    "no-probabilities": "ProbabilitiesUnavailableError",
}


def _of_problem(problem: Any) -> Outcome:
    """Return the outcome that an HTTP problem describes."""
    name = problem["type"].rpartition(":")[2]
    attempts = problem.get("attempts")
    return Outcome(error=_CLASSES.get(name, name), requests=attempts and len(attempts), message=str(problem))


def _of_json(case: Case, text: str) -> Outcome:
    """Return the outcome of a value that arrived as JSON."""
    codec = codec_for(case.form, DEFAULT_REGISTRY)
    # The probabilities of a decision are fields of an object, as the place of a quote is. Validators must not
    # run again.
    if get_origin(case.form) is Decision or codec.parser.has_citations or runs_validators(codec.parser.node):
        return of_value(codec.restore(text))
    return of_value(read(case.form, json.loads(text) if _is_text_form(case) else text).value)


def _is_text_form(case: Case) -> bool:
    return parser_for(case.form).plain_text


def _web(world: World, case: Case) -> TestClient:
    SCRIPT.case = case
    return world.once(("web", world.key(case)), lambda: TestClient(app(world.service(case, Plain))))


@entry_point("HTTP response")
def _http_response(world: World, case: Case) -> Outcome:
    response = _web(world, case).post("/value", json={"what": "it"})
    if response.status_code != 200:
        return _of_problem(response.json())
    return _of_json(case, response.text)


def _remote(world: World, case: Case) -> Any:
    """A client of the service, which a server of this process serves."""
    SCRIPT.case = case
    mounts = world.once("mounts", lambda: Mounts(world))
    key = str(world.key(case))
    url = world.once(("mounted", key), lambda: mounts.add(key, app(world.service(case, Whole))))
    return world.once(("client", key), lambda: mounts.client(Whole[case.form], url))


add_kinds("remote client", _remote)


@entry_point("MCP tool")
def _mcp_tool(world: World, case: Case) -> Outcome:
    service = world.service(case, Plain)

    async def call() -> Any:
        async with mcp.Client(world.once(("mcp", world.key(case)), lambda: mcp_server(service))) as client:
            return await client.call_tool("value", {"what": "it"})

    return _of_mcp(case, world.wait(call()))


def _of_mcp(case: Case, result: Any) -> Outcome:
    text = result.content[0].text if result.content else ""
    if result.is_error:
        kinds = [kind for kind in KINDS if kind.title in text]
        return Outcome(error=_CLASSES.get(kinds[0].name, kinds[0].name) if kinds else text, message=text)
    structured_content = result.structured_content or {}
    is_text = isinstance(structured_content.get("value"), str) and len(structured_content) == 1
    return _of_json(case, json.dumps(result.structured_content["value"]) if is_text else text)


# --- The command line


@entry_point("aiservices call")
def _command(world: World, case: Case) -> Outcome:
    module = world.once("module", lambda: world.module("equivalence_desk"))
    module.desk = lambda: world.service(case, Plain)
    arguments = ["call", "equivalence_desk:desk.value", "what=it", "--json"]
    result = CliRunner().invoke(application, arguments, prog_name="aiservices", catch_exceptions=False)
    if result.exit_code == 0:
        return _of_json(case, result.stdout)
    name = json.loads(result.stdout)["error"]["type"]
    error = "OutputParsingError" if name == "ServiceOutputError" else name
    return Outcome(error=error, message=result.stdout)


def _is_decided_by_definition(case: Case) -> bool:
    """Return True if the definition of a service alone decides whether the call works."""
    return case.model is not None and case.expected is not ProbabilitiesUnavailableError


@entry_point("aiservices check", _is_decided_by_definition)
def _check(world: World, case: Case) -> Outcome:
    module = world.once("module", lambda: world.module("equivalence_desk"))
    module.desk = lambda: world.service(case, Plain)
    arguments = ["check", "equivalence_desk:desk"]
    result = CliRunner().invoke(application, arguments, prog_name="aiservices", catch_exceptions=False)
    fails = case.fails and case.expected is not DefinitionError  # in the call
    works = Outcome(error=case.expected.__name__) if fails else of_value(case.expected)
    return works if result.exit_code == 0 else Outcome(error="DefinitionError", message=result.stdout)


# --- Tables


def _of_row(row: Any) -> Outcome:
    if row.error is None:
        return of_value(row.value)._replace(requests=row.attempts, usage=row.usage)
    name, _, message = str(row.error).partition(":")
    error = "OutputParsingError" if name == "ServiceOutputError" else name
    return Outcome(error=error, requests=row.attempts, usage=row.usage, message=message)


@entry_point("map_rows")
def _map_rows(world: World, case: Case) -> Outcome:
    (row,) = map_rows(world.service(case, Plain).value, [{"what": "it"}], max_failures=1.0)
    return _of_row(row)


@entry_point("amap_rows")
def _amap_rows(world: World, case: Case) -> Outcome:
    async def first() -> Any:
        method = world.service(case, Plain).value
        (row,) = [row async for row in amap_rows(method, [{"what": "it"}], max_failures=1.0)]
        return row

    return _of_row(world.wait(first()))


def _of_cells(case: Case, cells: dict[str, Any]) -> Outcome:
    """Return the outcome that the columns of an answer tell."""
    error = cells.pop("error", None)
    if error is not None:
        name, _, message = error.partition(":")
        error = "OutputParsingError" if name == "ServiceOutputError" else name
        return Outcome(error=error, message=message)
    del cells["what"]
    cells = {name.removeprefix("answer_"): cell for name, cell in cells.items()}
    return _of_json(case, to_json(cells["value"] if set(cells) == {"value"} else cells).decode())


def _is_plain_value(case: Case) -> bool:
    """Return True if the columns of an answer differ from the fields of a record even without its type."""
    return _is_scripted(case) and "value" not in (parser_for(case.form).schema or {}).get("properties", {})


@entry_point("as_udf", _is_plain_value)
def _udf(world: World, case: Case) -> Outcome:
    result = as_udf(world.service(case, Plain).value)(pyarrow.table({"what": ["it"]}))
    return _of_cells(case, result.to_pylist(maps_as_pydicts="strict")[0])


def _written_rows(world: World, case: Case, *, suffix: str) -> Path:
    path = world.new_path(suffix)
    map_rows(world.service(case, Plain).value, [{"what": "it"}], to=path, max_failures=1.0)
    return path


@entry_point("map_rows to Parquet", _is_plain_value)
def _to_parquet(world: World, case: Case) -> Outcome:
    table = pyarrow.parquet.read_table(_written_rows(world, case, suffix=".parquet"))
    return _of_cells(case, table.to_pylist(maps_as_pydicts="strict")[0])


@entry_point("map_rows to JSONL", _is_plain_value)
def _to_jsonl(world: World, case: Case) -> Outcome:
    text = _written_rows(world, case, suffix=".jsonl").read_text("utf-8")
    cells = json.loads(text)
    if cells["error"] is not None or "answer_what" in cells:
        return _of_cells(case, cells)
    # The text of the answer itself, because floats would change its decimals.
    answer = text.strip().removeprefix('{"what": "it", ').removesuffix(', "error": null}')
    return _of_json(case, answer.removeprefix('"value": ') if "value" in cells else f"{{{answer}}}")


@entry_point("BatchEngine", lambda case: case.complete)
def _batch(world: World, case: Case) -> Outcome:
    def open_server() -> Any:
        return world.resources.enter_context(BatchServer(lambda prompt: SCRIPT.case.reply, Faults(polls=0)))

    server = world.once("batches", open_server)
    SCRIPT.case = case
    strategy = None if _is_text_form(case) else Strategy.PROMPT
    model = OpenAiChatModel("gpt-x", base_url=f"{server.url}/v1", api_key="k")
    service = create(Plain[case.form], model, strategy=strategy, retry=None)
    engine, journal = BatchEngine(poll=0.001), world.new_path(".journal")
    (row,) = map_rows(service.value, [{"what": "it"}], engine=engine, journal=journal, max_failures=1.0)
    return _of_row(row)._replace(usage=None)


# --- Arguments that a program passes


def _takes(name: str, applies: Condition = is_exact) -> Callable[[Callable[[World, Case], object]], object]:
    """Register a function that passes the value of a case as an argument."""

    def register(call: Callable[[World, Case], object]) -> object:
        @entry_point(name, applies)
        def _argument(world: World, case: Case) -> Outcome:
            answer = call(world, case)
            return Outcome(error=str(answer)) if world.taken is Nothing else of_value(world.taken)

        return call

    return register


def _await(world: World, stream: Any) -> object:
    async def result() -> Any:
        return await stream.result()

    return world.wait(result())


# How each kind of method is called with an argument.
PASS: dict[str, Callable[[World, Any, object], object]] = {
    "": lambda world, taker, value: taker.take(value),
    ", async": lambda world, taker, value: world.wait(taker.awaited(value)),
    ", Stream": lambda world, taker, value: taker.streamed(value).result(),
    ", AsyncStream": lambda world, taker, value: _await(world, taker.streamed_awaited(value)),
}


def _pass(world: World, case: Case, *, taker_of: Callable[[World, Case], Any], kind: str) -> object:
    return PASS[kind](world, taker_of(world, case), case.expected)


@_takes("argument over HTTP")
def _http_argument(world: World, case: Case) -> object:
    taker = world.taker(case)
    web = world.once(("takes, web", id(case.form)), lambda: TestClient(app(taker)))
    body, headers = f'{{"what": {case.reply}}}', {"content-type": "application/json"}
    return web.post("/take", content=body.encode(), headers=headers).text


def _remote_taker(world: World, case: Case) -> Any:
    taker, mounts = world.taker(case), world.once("mounts", lambda: Mounts(world))
    key = f"takes-{id(case.form)}"
    url = world.once(("mounted", key), lambda: mounts.add(key, app(taker)))
    return world.once(("client", key), lambda: mounts.client(Takes[case.form], url))


for _kind in PASS:
    _takes(f"argument{_kind}")(partial(_pass, taker_of=World.taker, kind=_kind))
    _takes(f"argument of a remote client{_kind}")(partial(_pass, taker_of=_remote_taker, kind=_kind))


@_takes("argument over MCP")
def _mcp_argument(world: World, case: Case) -> object:
    server = world.once(("takes, mcp", id(case.form)), partial(mcp_server, world.taker(case)))

    async def call() -> Any:
        async with mcp.Client(server) as client:
            return await client.call_tool("take", {"what": case.plain})

    return world.wait(call())


@_takes("argument of aiservices call")
def _command_argument(world: World, case: Case) -> object:
    module = world.once("module", lambda: world.module("equivalence_desk"))
    module.desk = world.taker(case)
    arguments = ["call", "equivalence_desk:desk.take", f"what:={case.reply}"]
    result = CliRunner().invoke(application, arguments, prog_name="aiservices", catch_exceptions=False)
    return result.stderr


# --- Cells of tables


def _map_cells(world: World, case: Case, table: object) -> object:
    (row,) = map_rows(world.taker(case).take, table, max_failures=1.0)
    return row.error


@_takes("row of a list of dicts")
def _dict_row(world: World, case: Case) -> object:
    return _map_cells(world, case, [{"what": case.expected}])


@_takes("row of plain data")
def _plain_row(world: World, case: Case) -> object:
    return _map_cells(world, case, [{"what": case.plain}])


@_takes("row of CSV")
def _csv_row(world: World, case: Case) -> object:
    path = world.new_path(".csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["what"], [case.reply]])
    return _map_cells(world, case, path)


@_takes("row of JSONL")
def _jsonl_row(world: World, case: Case) -> object:
    path = world.new_path(".jsonl")
    path.write_text(f'{{"what": {case.reply}}}\n', "utf-8")
    return _map_cells(world, case, path)


def _is_column(case: Case) -> bool:
    """Whether Arrow can hold the data without a change."""
    if not case.exact:
        return False
    try:
        return pyarrow.array([case.plain]).to_pylist() == [case.plain]
    except Exception:
        return False


@_takes("row of Arrow", _is_column)
def _arrow_row(world: World, case: Case) -> object:
    return _map_cells(world, case, pyarrow.table({"what": [case.plain]}))


@_takes("row of pandas", _is_column)
def _pandas_row(world: World, case: Case) -> object:
    return _map_cells(world, case, pandas.DataFrame({"what": [case.plain]}))


@_takes("row of polars", _is_column)
def _polars_row(world: World, case: Case) -> object:
    return _map_cells(world, case, polars.DataFrame({"what": [case.plain]}))


# --- MCP in both directions: a service whose tools are the methods of another one


def _mcp_client(world: World, forms: Sequence[Any]) -> Any:
    """Return McpTools of a server with a method for each type: give_0, give_1 …"""

    def body(namespace: dict[str, Any]) -> None:
        namespace["__module__"] = __name__
        for number, form in enumerate(forms):
            namespace[f"give_{number}"] = _method(f"give_{number}", form)

    interface: Any = new_class("Desk", (Protocol,), exec_body=body)
    desk = create(interface, MODEL, retry=None)
    web = FastAPI()
    mount_mcp(web, desk)
    served = Served(web)
    served.start()
    world.resources.callback(served.stop)
    return world.resources.enter_context(McpTools.http(f"{served.url}/mcp"))


def _method(name: str, form: Any) -> Any:
    """Return a method of an interface, with a type that is known only now."""

    def method(self: Any, what: str) -> Any: ...

    method.__name__ = method.__qualname__ = name
    method.__annotations__ = {"what": str, "return": form}
    strategy = None if parser_for(form).plain_text else Strategy.PROMPT
    return options(strategy=strategy)(user_message("Give {{what}}.")(method))


@entry_point("McpTools", lambda case: _is_scripted(case) and not has_secret(case))
def _mcp_tools(world: World, case: Case) -> Outcome:
    forms = {id(one.form): one.form for one in table.CASES if not has_secret(one)}
    server, method = divmod(list(forms).index(id(case.form)), 25)  # each call lists the tools of a server
    types = list(forms.values())[server * 25 : server * 25 + 25]
    tools = world.once(("mcp client", server), lambda: _mcp_client(world, types))
    SCRIPT.case = case
    call = ToolCall("c1", f"give_{method}", '{"what": "it"}')
    SCRIPT.first.append(ChatReply(AiMessage("", (call,))))
    asks = create(Whole[str], MODEL, tools=[tools], retry=None)
    (run,) = asks.blocking("it").tool_runs
    kinds = [kind for kind in KINDS if kind.title in run.text]
    if kinds:
        return Outcome(error=_CLASSES.get(kinds[0].name, kinds[0].name), message=run.text)
    is_object = (parser_for(case.form).schema or {}).get("type") == "object"
    is_wrapped = not is_object and run.text.startswith('{"value":')
    return _of_json(case, run.text.removeprefix('{"value":')[:-1] if is_wrapped else run.text)
