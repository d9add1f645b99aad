"""The loop of a model and its tools: what runs, what the model is told, and how it ends."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, Protocol

import pytest
from pydantic import BaseModel

from aiservices import (
    AiMessage,
    AiServiceError,
    Answer,
    AsyncStream,
    AttemptStarted,
    Budget,
    BudgetExceededError,
    Capabilities,
    ChatReply,
    ChatRequest,
    Completed,
    DefinitionError,
    FinishReason,
    Flow,
    MemoryId,
    Message,
    ModelServerError,
    Proceed,
    ReplyDelta,
    Result,
    Retry,
    ScriptedChatModel,
    ServiceOutputError,
    Strategy,
    Stream,
    ToolCall,
    ToolContext,
    Tooling,
    ToolMessage,
    TruncatedError,
    Turn,
    UserMessage,
    create,
    preview,
)
from aiservices.conversation import ToolFinished, ToolStarted
from aiservices.errors import ToolError, ToolLimitError
from aiservices.memory import ChatMemory
from aiservices.tool_run import ToolErrors, ToolRun
from aiservices.toolbox import ToolLimits
from aiservices.tools import ToolException, ToolSource, tool, tools_of
from output_parsers import Coercion

TOOLS = Capabilities(tools=True)
NATIVE = Capabilities(tools=True, json_schema=True)
STRICT = Capabilities(tools=True, json_schema=True, strict_schema=True)
ANN = '{"name": "Ann", "age": 31}'
QUICK = Budget(attempts=3, first_wait=0)


@dataclass
class Person:
    name: str
    age: int


class Asks(Protocol):
    def ask(self, text: str) -> str: ...

    def told(self, text: str) -> Result[str]: ...

    async def aask(self, text: str) -> str: ...

    def stream(self, text: str) -> Stream[str]: ...

    def astream(self, text: str) -> AsyncStream[str]: ...

    def texts(self, text: str) -> Iterator[str]: ...

    def atexts(self, text: str) -> AsyncIterator[str]: ...


class People(Protocol):
    def find(self, text: str) -> Person: ...

    def told(self, text: str) -> Result[Person]: ...

    async def afind(self, text: str) -> Person: ...

    def grow(self, text: str) -> Stream[Person]: ...

    def each(self, text: str) -> Iterator[Person]: ...

    def either(self, text: str) -> Person | str: ...


class Waits(Protocol):
    async def ask(self, text: str) -> str: ...


def calls(*named: tuple[str, str] | tuple[str, str, str], text: str = "") -> ChatReply:
    made = tuple(
        ToolCall(one[2] if len(one) > 2 else f"c{number}", one[0], one[1])
        for number, one in enumerate(named, 1)
    )
    return ChatReply(AiMessage(text, made), FinishReason.TOOL_CALLS)


def assert_a_provider_takes(messages: tuple[Message, ...]) -> None:
    """Every call is answered once, in order, right after the message that makes it."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert waiting, f"{message} answers no call"
            assert message.call_id == waiting.pop(0)
            continue
        assert not waiting, f"{waiting} are not answered before {message}"
        if isinstance(message, AiMessage):
            waiting = [call.id for call in message.tool_calls]
            assert all(waiting), "a call without an id"
            assert len(set(waiting)) == len(waiting), "two calls with one id"
    assert not waiting, f"{waiting} are not answered"


def provider(*replies: str | ChatReply | Exception, capabilities: Capabilities = TOOLS) -> ScriptedChatModel:
    """A scripted model that refuses what a provider refuses."""
    script = iter(replies)

    def answer(request: ChatRequest) -> str | ChatReply | Exception:
        assert_a_provider_takes(request.messages)
        if request.tooling is not None:
            names = [one.name for one in request.tooling.tools]
            assert len(set(names)) == len(names), f"two tools with one name: {names}"
        return next(script)

    return ScriptedChatModel(answer, capabilities=capabilities)


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def aadd(a: int, b: int) -> int:
    """Adds."""
    return a + b


def asks(model: Any, *tools: ToolSource, **settings: Any) -> Asks:
    return create(Asks, model, tools=tools, budget=QUICK, **settings)


ONE_AND_TWO = ("add", '{"a": 1, "b": 2}')


async def awaited(items: AsyncIterator[str]) -> str:
    return "".join([item async for item in items])


async def result_of(stream: AsyncStream[str]) -> str:
    return (await stream.result()).value


KINDS: dict[str, Callable[[Asks], str]] = {
    "blocking": lambda service: service.ask("x"),
    "async": lambda service: asyncio.run(service.aask("x")),
    "stream": lambda service: service.stream("x").result().value,
    "async stream": lambda service: asyncio.run(result_of(service.astream("x"))),
    "texts": lambda service: "".join(service.texts("x")),
    "async texts": lambda service: asyncio.run(awaited(service.atexts("x"))),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def messages_to(model: ScriptedChatModel, number: int = -1) -> tuple[Message, ...]:
    return model.requests[number].messages


def said_of(*tools: ToolSource, call: tuple[str, str], **settings: Any) -> str:
    """What the model is told of a call."""
    model = provider(calls(call), "Done.")
    assert asks(model, *tools, **settings).ask("x") == "Done."
    message = messages_to(model)[-1]
    assert isinstance(message, ToolMessage)
    return message.text


# rounds


@every_kind
def test_the_model_goes_on_with_what_its_tools_gave(kind: str) -> None:
    model = provider(calls(ONE_AND_TWO), calls(("add", '{"a": 3, "b": 4}', "c9"), text="More."), "It is 7.")
    assert KINDS[kind](asks(model, add)).endswith("It is 7.")
    assert [request.messages for request in model.requests] == [
        (UserMessage("x"),),
        (UserMessage("x"), calls(ONE_AND_TWO).message, ToolMessage("c1", "add", "3")),
        (
            UserMessage("x"),
            calls(ONE_AND_TWO).message,
            ToolMessage("c1", "add", "3"),
            calls(("add", '{"a": 3, "b": 4}', "c9"), text="More.").message,
            ToolMessage("c9", "add", "7"),
        ),
    ]


def test_each_request_offers_the_same_tools_and_leaves_the_choice() -> None:
    model = provider(calls(ONE_AND_TWO), "3")
    asks(model, add).ask("x")
    first, second = (request.tooling for request in model.requests)
    assert first is second
    assert first is not None
    (told,) = first.tools
    assert (first.choice, first.parallel, told.name, told.description) == ("auto", True, "add", "Adds.")


def test_a_model_that_calls_nothing_runs_nothing() -> None:
    result = asks(provider("Hello."), add).told("x")
    assert (result.value, result.tool_runs) == ("Hello.", ())


def test_the_result_tells_what_ran() -> None:
    result = asks(provider(calls(ONE_AND_TWO, ("nope", "{}")), "3"), add).told("x")
    known, unknown = result.tool_runs
    assert (known.name, known.arguments, known.result, known.text, known.error) == (
        "add",
        {"a": 1, "b": 2},
        3,
        "3",
        None,
    )
    assert known.call == ToolCall("c1", *ONE_AND_TWO)
    assert 0 <= known.seconds < 5
    said = "There is no tool nope. The tools are: add."
    assert (unknown.arguments, unknown.result, unknown.text, str(unknown.error)) == (None, None, said, said)
    assert len(result.attempts) == 2


@every_kind
def test_calls_at_once_are_answered_in_their_order(kind: str) -> None:
    gate = threading.Event()

    def slow() -> str:
        assert gate.wait(5)
        return "slow"

    def fast() -> str:
        gate.set()
        return "fast"

    model = provider(calls(("slow", "{}"), ("fast", "{}")), "Done.")
    assert KINDS[kind](asks(model, slow, fast)) == "Done."
    assert messages_to(model)[-2:] == (
        ToolMessage("c1", "slow", "slow"),
        ToolMessage("c2", "fast", "fast"),
    )


class Gauge:
    """Tells how many calls ran at one time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.lock = threading.Lock()

    def _in(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def _out(self) -> None:
        with self.lock:
            self.now -= 1

    @tool
    def work(self) -> None:
        self._in()
        time.sleep(0.02)
        self._out()


class AsyncGauge(Gauge):
    @tool
    async def work(self) -> None:  # type: ignore[override]
        self._in()
        await asyncio.sleep(0.02)
        self._out()


@pytest.mark.parametrize("at_once", [1, 2])
@every_kind
def test_no_more_calls_run_at_once_than_the_limit_permits(kind: str, at_once: int) -> None:
    gauge = Gauge()
    model = provider(calls(*[("work", "{}")] * 6), "Done.")
    KINDS[kind](asks(model, gauge, tool_limits=ToolLimits(parallel=at_once)))
    assert gauge.most == at_once


def test_async_tools_too_run_no_more_at_once() -> None:
    gauge = AsyncGauge()
    model = provider(calls(*[("work", "{}")] * 6), "Done.")
    service = create(Waits, model, tools=[gauge], tool_limits=ToolLimits(parallel=2))
    assert asyncio.run(service.ask("x")) == "Done."
    assert gauge.most == 2


def test_a_single_call_of_a_blocking_method_stays_in_its_thread() -> None:
    def where() -> int:
        return threading.get_ident()

    model = provider(calls(("where", "{}")), "Done.")
    result = asks(model, where).told("x")
    assert result.tool_runs[0].result == threading.get_ident()


def test_a_tool_that_blocks_does_not_block_the_event_loop() -> None:
    loop_moved = threading.Event()

    def block() -> bool:
        return loop_moved.wait(5)

    model = provider(calls(("block", "{}")), "Done.")

    async def both() -> str:
        service = asks(model, block)
        call = asyncio.ensure_future(service.aask("x"))
        await asyncio.sleep(0.01)
        loop_moved.set()
        return await call

    asyncio.run(both())
    assert messages_to(model)[-1] == ToolMessage("c1", "block", "true")


def test_a_provider_that_blocks_does_not_block_the_event_loop() -> None:
    loop_moved = threading.Event()

    class Slow:
        def tools(self, turn: Turn) -> list[Any]:
            assert loop_moved.wait(5)
            return [add]

    async def both() -> str:
        call = asyncio.ensure_future(asks(provider("Done."), Slow()).aask("x"))
        await asyncio.sleep(0.01)
        loop_moved.set()
        return await call

    assert asyncio.run(both()) == "Done."


USER: contextvars.ContextVar[str] = contextvars.ContextVar("USER")


@every_kind
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("limits", [ToolLimits(), ToolLimits(timeout=5)])
def test_context_variables_reach_the_tools(kind: str, number: int, limits: ToolLimits) -> None:
    def who() -> str:
        return USER.get()

    token = USER.set("ann")
    try:
        model = provider(calls(*[("who", "{}")] * number), "Done.")
        KINDS[kind](asks(model, who, tool_limits=limits))
    finally:
        USER.reset(token)
    assert {said.text for said in messages_to(model)[-number:]} == {"ann"}


@every_kind
def test_tools_that_call_a_service_run_side_by_side(kind: str) -> None:
    inner_model = ScriptedChatModel(
        lambda request: "3" if isinstance(request.messages[-1], ToolMessage) else calls(ONE_AND_TWO),
        capabilities=TOOLS,
    )
    inner = asks(inner_model, add)

    @tool(name="helper")
    def helper(text: str) -> str:
        return inner.ask(text)

    model = provider(calls(*[("helper", '{"text": "?"}')] * 4), "Done.")
    assert KINDS[kind](asks(model, helper)) == "Done."
    assert [said.text for said in messages_to(model)[-4:]] == ["3"] * 4


def test_the_method_of_another_service_is_called_as_a_tool() -> None:
    class Sums(Protocol):
        def total(self, text: str) -> Result[int]: ...

    inner = create(Sums, ScriptedChatModel(['{"value": 12}'], capabilities=NATIVE))
    model = provider(calls(("total", '{"text": "5 and 7"}')), "It is 12.")
    result = asks(model, inner.total).told("x")
    assert messages_to(model)[-1] == ToolMessage("c1", "total", "12")
    assert result.tool_runs[0].result.value == 12


# what the model is told


class Colour(Enum):
    RED = "red"


class Model(BaseModel):
    colour: Colour
    size: float | None = None


class Strange:
    def __str__(self) -> str:
        return "strange"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("text", "text"),
        ("", ""),
        (None, "Done."),
        (3, "3"),
        (True, "true"),
        (Colour.RED, '"red"'),
        (Person("Ann", 31), '{"name":"Ann","age":31}'),
        (Model(colour=Colour.RED), '{"colour":"red","size":null}'),
        ([Person("Ann", 31), None], '[{"name":"Ann","age":31},null]'),
        ({"имя": (1, 2.5)}, '{"имя":[1,2.5]}'),
        (b"\xff\x00", '"_wA="'),
        (Strange(), '"strange"'),
        ((number for number in (1, 2)), "[1,2]"),
        ("x" * 1_000_000, "x" * 1_000_000),
    ],
)
def test_a_result_is_told_as_text_or_as_json(result: Any, said: str) -> None:
    def give() -> Any:
        return result

    assert said_of(give, call=("give", "{}")) == said


def test_a_result_that_has_no_json_form_is_a_tool_that_failed() -> None:
    def give() -> list[Any]:
        circle: list[Any] = []
        circle.append(circle)
        return circle

    assert said_of(give, call=("give", "{}")) == "The tool give failed."


def test_a_blocking_function_that_gives_a_coroutine_is_a_tool_that_failed() -> None:
    def give() -> Any:
        return aadd(1, 2)

    model = provider(calls(("give", "{}")), "Done.")
    result = asks(model, give).told("x")
    assert str(result.tool_runs[0].error) == "the tool gave an awaitable; declare it with async def"


def test_an_async_wrapper_may_give_its_result_at_once() -> None:
    class Cached:
        async def __call__(self) -> str:
            raise AssertionError

    cached = Cached()
    made = tool(name="cached")(cached)
    model = provider(calls(("cached", "{}")), "Done.")
    (found,) = tools_of(made)
    at_once = replace(found, function=lambda: "known")
    service = create(Waits, model, tools=[at_once])
    assert asyncio.run(service.ask("x")) == "Done."
    assert messages_to(model)[-1] == ToolMessage("c1", "cached", "known")


# errors


class Unsafe(Exception):
    pass


@every_kind
def test_the_text_of_an_error_is_not_told_to_the_model(kind: str) -> None:
    def fail() -> None:
        raise Unsafe("password is 1234")

    model = provider(calls(("fail", "{}")), "Sorry.")
    assert KINDS[kind](asks(model, fail)) == "Sorry."
    assert messages_to(model)[-1] == ToolMessage("c1", "fail", "The tool fail failed.")


def test_the_result_has_the_error_itself() -> None:
    def fail() -> None:
        raise Unsafe("password is 1234")

    (run,) = asks(provider(calls(("fail", "{}")), "Sorry."), fail).told("x").tool_runs
    assert isinstance(run.error, Unsafe)
    assert (run.result, run.arguments, str(run.error)) == (None, {}, "password is 1234")


def test_a_tool_exception_is_told_to_the_model() -> None:
    def fail() -> None:
        raise ToolException("There is no such city; ask for another.")

    assert said_of(fail, call=("fail", "{}")) == "There is no such city; ask for another."


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_tool_has_so_much_time(asynchronous: bool) -> None:
    left = threading.Event()

    @tool(timeout=0.02)
    def slow() -> None:
        left.wait(5)

    @tool(name="slow", timeout=0.02)
    async def aslow() -> None:
        await asyncio.sleep(5)

    model = provider(calls(("slow", "{}")), "Done.")
    if asynchronous:
        asyncio.run(create(Waits, model, tools=[aslow]).ask("x"))
    else:
        asks(model, slow).ask("x")
    left.set()
    assert messages_to(model)[-1] == ToolMessage("c1", "slow", "The tool slow did not finish in time.")


def test_the_limit_holds_for_tools_that_say_no_other() -> None:
    left = threading.Event()

    @tool(timeout=5)
    def patient() -> str:
        return "done"

    def slow() -> None:
        left.wait(5)

    model = provider(calls(("slow", "{}"), ("patient", "{}")), "Done.")
    asks(model, slow, patient, tool_limits=ToolLimits(timeout=0.05)).ask("x")
    left.set()
    assert [said.text for said in messages_to(model)[-2:]] == [
        "The tool slow did not finish in time.",
        "done",
    ]


def test_an_async_tool_has_no_more_time_than_the_call() -> None:
    async def slow() -> None:
        await asyncio.sleep(5)

    model = provider(calls(("slow", "{}")), "Done.")
    service = create(Waits, model, tools=[slow], budget=Budget(seconds=0.05))
    began = time.monotonic()
    with pytest.raises(BudgetExceededError):
        asyncio.run(service.ask("x"))
    assert time.monotonic() - began < 2


def test_the_time_that_a_tool_waits_for_its_turn_is_not_its_own() -> None:
    def work() -> None:
        time.sleep(0.05)

    model = provider(calls(*[("work", "{}")] * 3), "Done.")
    result = asks(model, work, tool_limits=ToolLimits(parallel=1)).told("x")
    assert all(0.04 < run.seconds < 0.1 for run in result.tool_runs)


@pytest.mark.parametrize("interface", ["ask", "aask", "texts"])
def test_an_interrupt_in_a_tool_ends_the_call(interface: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    model = provider(calls(("interrupt", "{}")), "Done.")
    kind = {"ask": "blocking", "aask": "async", "texts": "texts"}[interface]
    with pytest.raises(KeyboardInterrupt):
        KINDS[kind](asks(model, interrupt))
    assert len(model.requests) == 1


@pytest.mark.parametrize("number", [1, 2])
@every_kind
def test_a_tool_that_cancels_itself_does_not_cancel_the_call(kind: str, number: int) -> None:
    def stop() -> None:
        raise asyncio.CancelledError

    model = provider(calls(*[("stop", "{}")] * number), "Done.")
    assert KINDS[kind](asks(model, stop)) == "Done."
    assert messages_to(model)[-1].text == "The tool stop failed."


def test_an_async_tool_that_cancels_itself_does_not_cancel_the_call() -> None:
    async def stop() -> None:
        raise asyncio.CancelledError

    model = provider(calls(("stop", "{}"), ("stop", "{}")), "Done.")
    assert asyncio.run(create(Waits, model, tools=[stop]).ask("x")) == "Done."
    assert messages_to(model)[-1].text == "The tool stop failed."


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_who_cancels_a_call_cancels_its_tools(timeout: float | None) -> None:
    seen: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    model = provider(calls(("slow", "{}"), ("slow", "{}")), "Done.")
    service = create(Waits, model, tools=[slow], tool_limits=ToolLimits(timeout=timeout))

    async def cancelled() -> None:
        call = asyncio.ensure_future(service.ask("x"))
        await asyncio.sleep(0.02)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancelled())
    assert (seen, len(model.requests)) == (["cancelled"] * 2, 1)


def test_an_unknown_tool_is_told_with_those_that_there_are() -> None:
    assert said_of(add, call=("sub", "{}")) == "There is no tool sub. The tools are: add."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"a": 1}', "The arguments cannot be read:\n- $.b: the required field 'b' is missing"),
        ('{"a": 1, "b": null}', "The arguments cannot be read:\n- $.b: expected an integer, found null"),
        (
            "",
            "The arguments cannot be read:\n- $.a: the required field 'a' is missing\n"
            "- $.b: the required field 'b' is missing",
        ),
        ('{"a": 1, "b": "x"}', 'The arguments cannot be read:\n- $.b: expected an integer, found "x"'),
    ],
)
def test_arguments_that_do_not_fit_are_told_with_their_problems(arguments: str, said: str) -> None:
    ran: list[Any] = []

    @tool(name="add")
    def noted(a: int, b: int) -> None:
        ran.append((a, b))

    assert said_of(noted, call=("add", arguments)) == said
    assert ran == []


@pytest.mark.parametrize(
    "arguments", ['{"a": 1, "b": 2', "[1, 2]", "null", "one and two", '{"a": 1, "b": 2.5}']
)
def test_arguments_that_cannot_be_read_run_nothing(arguments: str) -> None:
    ran: list[Any] = []

    @tool(name="add")
    def noted(a: int, b: int) -> None:
        ran.append((a, b))

    assert said_of(noted, call=("add", arguments)).startswith("The arguments cannot be read:\n- $")
    assert ran == []


@pytest.mark.parametrize("arguments", ["", " ", "{}", " {} "])
def test_a_tool_without_parameters_needs_no_arguments(arguments: str) -> None:
    def ping() -> str:
        return "pong"

    assert said_of(ping, call=("ping", arguments)) == "pong"


def test_arguments_in_the_words_of_strict_mode_are_read_back() -> None:
    seen: list[Any] = []

    def find(tags: dict[str, int], pair: tuple[int, str], days: int = 3, note: str | None = "n") -> None:
        seen.append((tags, pair, days, note))

    def write(request: ChatRequest) -> ChatReply | str:
        if seen:
            return "Done."
        assert request.tooling is not None
        (told,) = request.tooling.tools
        assert told.strict
        pair = told.parameters["properties"]["pair"]
        names = list(pair["properties"]) if pair.get("type") == "object" else None
        written = dict(zip(names, (1, "a"), strict=True)) if names else [1, "a"]
        tags = [{"key": "k", "value": 2}]
        return calls(("find", json.dumps({"tags": tags, "pair": written, "days": None, "note": None})))

    service = asks(ScriptedChatModel(write, capabilities=STRICT), find)
    assert service.ask("x") == "Done."
    assert seen in ([({"k": 2}, (1, "a"), 3, "n")], [({"k": 2}, (1, "a"), 3, None)])


# what is said of errors


def test_who_says_what_the_model_is_told_sees_the_call() -> None:
    seen: list[ToolRun] = []

    def noted(run: ToolRun) -> str:
        seen.append(run)
        return f"<{run.text}>"

    def fail() -> None:
        raise Unsafe("secret")

    errors = ToolErrors(unknown=noted, arguments=noted, execution=noted)
    model = provider(calls(("sub", "{}"), ("add", '{"a": 1}'), ("fail", "{}")), "Done.")
    asks(model, add, fail, tool_errors=errors).ask("x")
    assert [said.text for said in messages_to(model)[-3:]] == [
        "<There is no tool sub. The tools are: add, fail.>",
        "<The arguments cannot be read:\n- $.b: the required field 'b' is missing>",
        "<The tool fail failed.>",
    ]
    assert [(run.name, type(run.error)) for run in seen] == [
        ("sub", ToolError),
        ("add", type(seen[1].error)),
        ("fail", Unsafe),
    ]


def again(run: ToolRun) -> str:
    assert run.error is not None
    raise run.error


@pytest.mark.parametrize("number", [1, 2])
@every_kind
def test_who_says_what_the_model_is_told_may_end_the_call(kind: str, number: int) -> None:
    def fail() -> None:
        raise Unsafe("secret")

    model = provider(calls(*[("fail", "{}")] * number), "Done.")
    with pytest.raises(ToolError) as caught:
        KINDS[kind](asks(model, fail, tool_errors=ToolErrors(execution=again)))
    assert str(caught.value) == "the call of fail is not answered: secret"
    assert isinstance(caught.value.__cause__, Unsafe)
    assert (caught.value.call.name, len(caught.value.attempts)) == ("fail", 1)


def test_an_error_of_ours_that_ends_the_call_is_not_wrapped() -> None:
    with pytest.raises(ToolError) as caught:
        asks(provider(calls(("sub", "{}"))), add, tool_errors=ToolErrors(unknown=again)).ask("x")
    assert (str(caught.value), caught.value.call) == (
        "There is no tool sub. The tools are: add.",
        ToolCall("c1", "sub", "{}"),
    )


# limits


def endless(request: ChatRequest) -> ChatReply:
    return calls(("add", '{"a": 1, "b": 1}', f"c{len(request.messages)}"))


@every_kind
def test_rounds_have_a_limit(kind: str) -> None:
    model = ScriptedChatModel(endless, capabilities=TOOLS)
    with pytest.raises(ToolLimitError) as caught:
        KINDS[kind](asks(model, add, tool_limits=ToolLimits(rounds=3)))
    said = "the model called tools beyond the limit of 3 rounds; raise ToolLimits"
    assert str(caught.value).split(": ", 1)[1] == said
    assert caught.value.call == ToolCall("c7", "add", '{"a": 1, "b": 1}')
    assert (len(caught.value.attempts), len(model.requests)) == (4, 4)


def test_calls_have_a_limit_and_none_beyond_it_runs() -> None:
    ran: list[int] = []

    def note(number: int) -> None:
        ran.append(number)

    numbers = [("note", f'{{"number": {number}}}') for number in range(4)]
    model = provider(calls(*numbers[:2]), calls(*numbers[2:]), "Done.")
    with pytest.raises(ToolLimitError) as caught:
        asks(model, note, tool_limits=ToolLimits(calls=3)).ask("x")
    said = "Asks.ask: the model called tools beyond the limit of 3 calls; raise ToolLimits"
    assert (str(caught.value), sorted(ran)) == (said, [0, 1])


def test_rounds_of_tools_are_no_vain_attempts() -> None:
    model = ScriptedChatModel(
        lambda request: "Done." if len(request.messages) > 12 else endless(request), capabilities=TOOLS
    )
    service = create(Asks, model, tools=[add], budget=Budget(attempts=1))
    result = service.told("x")
    assert (result.value, len(result.attempts)) == ("Done.", 7)


def test_a_budget_of_tokens_holds_for_all_rounds() -> None:
    model = provider(*["a b c d"] * 3, calls(ONE_AND_TWO))

    def worded(request: ChatRequest) -> ChatReply:
        reply = model.complete(request)
        return replace(reply, message=calls(ONE_AND_TWO).message)

    service = create(
        Asks, ScriptedChatModel(worded, capabilities=TOOLS), tools=[add], budget=Budget(tokens=8)
    )
    with pytest.raises(BudgetExceededError) as caught:
        service.ask("x")
    assert (caught.value.limit, len(caught.value.attempts)) == ("tokens", 2)


def test_a_request_that_failed_is_made_again_with_what_the_tools_gave() -> None:
    down = ModelServerError("down", status=500, retryable=True)
    model = provider(calls(ONE_AND_TWO), down, "3")
    assert asks(model, add).ask("x") == "3"
    assert messages_to(model, 1) == messages_to(model, 2)
    assert messages_to(model, 2)[-1] == ToolMessage("c1", "add", "3")


def test_failures_after_tools_have_the_budget_of_a_call() -> None:
    down = ModelServerError("down", status=500, retryable=True)
    model = provider(down, calls(ONE_AND_TWO), down, down, "3")
    with pytest.raises(ModelServerError) as caught:
        asks(model, add).ask("x")
    assert [attempt.reply is None for attempt in caught.value.attempts] == [True, False, True, True]


# ids


@pytest.mark.parametrize("ids", [("", ""), ("same", "same"), ("call_1", ""), ("", "call_1")])
def test_calls_without_an_id_of_their_own_are_told_apart(ids: tuple[str, str]) -> None:
    first, second = (("add", f'{{"a": {number}, "b": 0}}', id) for number, id in enumerate(ids))
    model = provider(calls(first, second), calls(first), "Done.")
    assert asks(model, add).ask("x") == "Done."
    answered = [said for said in messages_to(model) if isinstance(said, ToolMessage)]
    assert [said.text for said in answered] == ["0", "1", "0"]
    assert len({said.call_id for said in answered}) == 3


# a tool whose result is the answer


def immediate(behavior: str, name: str, result: Any) -> Any:
    @tool(name=name, return_behavior=behavior)
    def give() -> Any:
        return result

    return give


def fetch() -> str:
    return "fetched"


@every_kind
def test_an_immediate_result_is_the_answer(kind: str) -> None:
    model = provider(calls(("now", "{}")))
    assert KINDS[kind](asks(model, immediate("immediate", "now", "It is so."))) == "It is so."
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("called", "ends"),
    [
        (["now"], True),
        (["last"], True),
        (["now", "last"], True),
        (["last", "now"], True),
        (["fetch", "now"], False),
        (["now", "fetch"], False),
        (["fetch", "last"], True),
        (["last", "fetch"], False),
        (["now", "nope"], False),
        (["fail", "last"], False),
    ],
)
def test_when_a_result_is_the_answer(called: list[str], ends: bool) -> None:
    def fail() -> None:
        raise Unsafe

    tools = [
        immediate("immediate", "now", "now"),
        immediate("immediate_if_last", "last", "last"),
        fetch,
        fail,
    ]
    model = provider(calls(*[(name, "{}") for name in called]), "from the model")
    result = asks(model, *tools).told("x")
    assert (result.value, len(model.requests)) == ((called[-1], 1) if ends else ("from the model", 2))
    assert [run.name for run in result.tool_runs] == called


def test_the_reply_beside_an_immediate_result_is_the_one_that_called() -> None:
    reply = calls(("now", "{}"), text="I look.")
    result = asks(provider(reply), immediate("immediate", "now", "x")).told("x")
    assert (result.reply, result.value, result.strategy) == (reply, "x", Strategy.TEXT)


def test_an_immediate_result_is_of_the_type_of_the_method() -> None:
    model = provider(calls(("now", "{}")), calls(("now", "{}")), capabilities=NATIVE)
    right = create(People, model, tools=[immediate("immediate", "now", Person("Ann", 31))])
    assert right.find("x") == Person("Ann", 31)
    wrong = create(People, model, tools=[immediate("immediate", "now", "Ann")])
    with pytest.raises(ToolError) as caught:
        wrong.find("x")
    assert str(caught.value) == "People.find: the result of now is no Person: 'Ann'"


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_immediate_items_are_handed_over(capabilities: Capabilities) -> None:
    both = [Person("Ann", 31), Person("Bob", 5)]
    model = provider(calls(("now", "{}")), capabilities=capabilities)
    assert list(people(model, immediate("immediate", "now", both)).each("x")) == both


def test_an_immediate_tool_that_gives_nothing_has_no_answer() -> None:
    with pytest.raises(ToolError) as caught:
        asks(provider(calls(("now", "{}"))), immediate("immediate", "now", None)).ask("x")
    assert str(caught.value) == "Asks.ask: the result of now is no str: None"


# the tool that gives the answer


def search(text: str) -> str:
    """Searches."""
    return f"found {text}"


SEARCH = ("search", '{"text": "Ann"}')


def people(model: Any, *tools: ToolSource, **settings: Any) -> People:
    return create(People, model, tools=tools or [search], budget=QUICK, **settings)


FINDS: dict[str, Callable[[People], Person]] = {
    "blocking": lambda service: service.find("x"),
    "async": lambda service: asyncio.run(service.afind("x")),
    "stream": lambda service: service.grow("x").result().value,
}
every_find = pytest.mark.parametrize("kind", FINDS)


@every_find
def test_the_tool_of_the_answer_stands_beside_the_others_and_ends_the_loop(kind: str) -> None:
    model = provider(calls(SEARCH), calls(("Person", ANN)))
    assert FINDS[kind](people(model)) == Person("Ann", 31)
    tooling = model.requests[1].tooling
    assert isinstance(tooling, Tooling)
    assert ([one.name for one in tooling.tools], tooling.choice, tooling.parallel) == (
        ["search", "Person"],
        "required",
        True,
    )
    assert model.requests[0].tooling is tooling
    assert messages_to(model) == (
        UserMessage("x"),
        calls(SEARCH).message,
        ToolMessage("c1", "search", "found Ann"),
    )


@every_find
@pytest.mark.parametrize("first", [True, False])
def test_calls_beside_the_answer_are_not_run_and_are_seen_in_the_attempt(kind: str, first: bool) -> None:
    ran: list[str] = []

    @tool(name="search")
    def noted(text: str) -> None:
        ran.append(text)

    both = [("Person", ANN), SEARCH] if first else [SEARCH, ("Person", ANN)]
    reply = calls(*both)
    assert FINDS[kind](people(provider(reply), noted)) == Person("Ann", 31)
    result = people(provider(reply), noted).told("x")
    assert (result.value, result.tool_runs, ran) == (Person("Ann", 31), (), [])
    assert result.attempts[0].reply is reply
    assert [call.name for call in result.reply.message.tool_calls] == ["Person"]


def test_text_in_the_place_of_the_answer_is_read() -> None:
    result = people(provider(calls(SEARCH), ANN)).told("x")
    assert (result.value, result.coercions[0]) == (
        Person("Ann", 31),
        Coercion("$", "text instead of a call of Person", "", ""),
    )


@every_find
def test_text_that_cannot_be_read_is_asked_for_again_after_the_tools(kind: str) -> None:
    model = provider(calls(SEARCH), "Ann is old.", calls(("Person", ANN)))
    assert FINDS[kind](people(model)) == Person("Ann", 31)
    asked = messages_to(model)
    assert asked[:4] == (
        UserMessage("x"),
        calls(SEARCH).message,
        ToolMessage("c1", "search", "found Ann"),
        AiMessage("Ann is old."),
    )
    assert isinstance(asked[4], UserMessage)
    assert (len(asked), asked[4].text.splitlines()[0]) == (5, "That answer cannot be read:")


@every_find
def test_an_answer_that_does_not_fit_is_asked_for_again_with_all_rounds_in_order(kind: str) -> None:
    model = provider(
        calls(SEARCH),
        calls(("Person", '{"name": "Ann", "age": "old"}', "p1")),
        calls(("search", '{"text": "her age"}', "c2")),
        calls(("Person", '{"name": "Ann"}', "p2"), ("search", '{"text": "no"}', "c3")),
        calls(("Person", ANN, "p3")),
    )
    assert FINDS[kind](people(model)) == Person("Ann", 31)
    names = [
        f"{type(said).__name__} {said.call_id}" if isinstance(said, ToolMessage) else type(said).__name__
        for said in messages_to(model)
    ]
    assert names == [
        "UserMessage",
        "AiMessage",
        "ToolMessage c1",
        "AiMessage",
        "ToolMessage c2",
        "AiMessage",
        "ToolMessage p2",
        "ToolMessage c3",
    ]


def test_without_tools_left_to_ask_the_answer_is_an_error_with_all_attempts() -> None:
    model = provider(calls(SEARCH), "No.", "No.")
    with pytest.raises(ServiceOutputError) as caught:
        people(model, retry=Retry(max_attempts=2)).find("x")
    assert (caught.value.text, [attempt.text for attempt in caught.value.attempts]) == (
        "No.",
        ["", "No.", "No."],
    )


def test_fields_alone_are_asked_for_after_tools_too() -> None:
    model = provider(calls(SEARCH), calls(("Person", '{"name": "Ann", "age": "old"}', "p1")), '{"age": 31}')

    def answer(request: ChatRequest) -> str | ChatReply | Exception:
        reply = model.complete(request)
        tooling = request.tooling
        if len(model.requests) == 3 and tooling is not None:
            (part,) = tooling.tools
            return calls((part.name, '{"age": 31}', "p2"))
        return reply

    service = people(ScriptedChatModel(answer, capabilities=TOOLS), retry=Retry(mode="fields"))
    assert service.find("x") == Person("Ann", 31)
    assert messages_to(model)[1:3] == (calls(SEARCH).message, ToolMessage("c1", "search", "found Ann"))


def test_a_native_schema_stands_beside_the_tools() -> None:
    model = provider(calls(SEARCH), ANN, capabilities=NATIVE)
    result = people(model).told("x")
    assert (result.value, result.strategy) == (Person("Ann", 31), Strategy.JSON_SCHEMA)
    for request in model.requests:
        assert request.response_format is not None
        assert request.tooling is not None
        assert ([one.name for one in request.tooling.tools], request.tooling.choice) == (["search"], "auto")


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_where_the_type_admits_text_plain_text_ends_the_loop(capabilities: Capabilities) -> None:
    model = provider(calls(SEARCH), "I do not know her.", capabilities=capabilities)
    assert people(model).either("x") == "I do not know her."


def test_where_the_type_admits_text_the_answer_may_be_the_other() -> None:
    model = provider(calls(SEARCH), calls(("Person_str", f'{{"value": {ANN}}}')))
    service = people(model)
    first = model.requests
    try:
        value: Person | str = service.either("x")
    finally:
        tooling = first[0].tooling
        assert tooling is not None
        assert len(tooling.tools) == 2
    assert value == Person("Ann", 31)


@every_kind
def test_calls_that_were_cut_off_are_never_run(kind: str) -> None:
    ran: list[Any] = []

    @tool(name="add")
    def noted(a: int, b: int = 0) -> None:
        ran.append((a, b))

    reply = ChatReply(AiMessage("", (ToolCall("c1", "add", '{"a": 1}'),)), FinishReason.LENGTH)
    with pytest.raises(TruncatedError):
        KINDS[kind](asks(provider(reply), noted))
    assert ran == []


@pytest.mark.parametrize(
    ("capabilities", "replies"),
    [
        (NATIVE, [calls(SEARCH), ANN]),
        (TOOLS, [calls(SEARCH), calls(("Person", ANN, "p1"))]),
        (TOOLS, [calls(SEARCH, ("Person", ANN, "p1"))]),
        (TOOLS, [calls(SEARCH), "She is old.", calls(SEARCH), calls(("Person", ANN, "p1"))]),
    ],
)
def test_what_a_memory_keeps_of_tools_is_what_a_provider_takes(
    capabilities: Capabilities, replies: list[str | ChatReply]
) -> None:
    model = provider(*replies, *replies, capabilities=capabilities)
    service = people(model, interceptors=[ChatMemory()])
    assert (service.find("x"), service.find("x")) == (Person("Ann", 31), Person("Ann", 31))
    first, second = messages_to(model, 0), messages_to(model, len(replies))
    assert second[0] == first[0]
    assert second[-2:] == (AiMessage(ANN), UserMessage("x"))


def test_an_interceptor_may_proceed_twice_with_tools() -> None:
    said: list[tuple[Message, ...]] = []

    def twice(turn: Turn, proceed: Proceed) -> Flow[Answer]:
        yield from proceed(turn)
        answer = yield from proceed(turn)
        said.append(answer.said)
        return answer

    model = provider(calls(ONE_AND_TWO), "3", calls(ONE_AND_TWO), "3")
    assert asks(model, add, interceptors=[twice]).ask("x") == "3"
    assert len(messages_to(model)) == 3
    assert_a_provider_takes(said[0])


def test_after_a_round_that_an_error_ended_a_call_may_be_made_again() -> None:
    def once_more(turn: Turn, proceed: Proceed) -> Flow[Answer]:
        try:
            return (yield from proceed(turn))
        except ToolError:
            return (yield from proceed(turn))

    model = provider(calls(("sub", "{}")), "Done.")
    service = asks(model, add, interceptors=[once_more], tool_errors=ToolErrors(unknown=again))
    assert service.ask("x") == "Done."
    assert messages_to(model) == (UserMessage("x"),)


# streams


def events_of(stream: Stream[Any]) -> list[str]:
    told = []
    for event in stream.events():
        if isinstance(event, ToolStarted):
            told.append(f"started {event.call.name}")
        elif isinstance(event, ToolFinished):
            told.append(f"finished {event.run.text}")
        elif isinstance(event, (AttemptStarted, Completed)):
            told.append(type(event).__name__)
        elif isinstance(event, ReplyDelta) and event.text:
            told.append(event.text)
    return told


def test_a_stream_tells_of_its_tools() -> None:
    model = provider(calls(ONE_AND_TWO, ("nope", "{}")), "It is 3.")
    assert events_of(asks(model, add).stream("x")) == [
        "AttemptStarted",
        "started add",
        "started nope",
        "finished 3",
        "finished There is no tool nope. The tools are: add.",
        "AttemptStarted",
        "It ",
        "is ",
        "3.",
        "Completed",
    ]


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_snapshots_show_the_answer_and_not_the_arguments_of_other_tools(capabilities: Capabilities) -> None:
    @tool(name="search")
    def by_name(name: str) -> str:
        return name

    last = calls(("Person", ANN)) if capabilities is TOOLS else ANN
    model = provider(calls(("search", '{"name": "Bob"}')), last, capabilities=capabilities)
    shown = [snapshot.to_python() for snapshot in people(model, by_name).grow("x")]
    assert {"name": "Bob"} not in shown
    assert shown[-1] == {"name": "Ann", "age": 31}


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_items_come_after_tools(capabilities: Capabilities) -> None:
    two = f'{{"value": [{ANN}, {{"name": "Bob", "age": 5}}]}}'
    last = calls(("list_Person", two)) if capabilities is TOOLS else two
    model = provider(calls(("search", '{"text": "Ann"}')), last, capabilities=capabilities)
    assert list(people(model).each("x")) == [Person("Ann", 31), Person("Bob", 5)]


def test_items_are_not_read_from_the_arguments_of_other_tools() -> None:
    def save(value: list[Person]) -> str:
        return "saved"

    saved, found = '{"value": [{"name": "Bob", "age": 5}]}', f'{{"value": [{ANN}]}}'
    model = provider(calls(("save", saved)), calls(("list_Person", found)))
    assert list(people(model, save).each("x")) == [Person("Ann", 31)]
    assert len(model.requests) == 2


def test_texts_are_what_the_model_says_between_its_tools() -> None:
    model = provider(calls(ONE_AND_TWO, text="I add. "), "It is 3.")

    assert list(asks(model, add).texts("x")) == ["I ", "add. ", "It ", "is ", "3."]


# what the model never sees


class Books(Protocol):
    def book(
        self,
        what: str,
        user: Annotated[str, ToolContext],
        session: Annotated[str, MemoryId],
    ) -> str: ...


def reserve(
    what: str, user: Annotated[str, ToolContext], session: Annotated[str, MemoryId], seats: int = 1
) -> str:
    """Reserves."""
    return f"{what} {user} {session} {seats}"


@pytest.mark.parametrize("capabilities", [TOOLS, STRICT])
def test_what_is_given_to_tools_is_never_in_a_request(capabilities: Capabilities) -> None:
    arguments = '{"what": "opera", "seats": 2, "user": "mallory"}'
    model = provider(calls(("reserve", arguments)), "Booked.", capabilities=capabilities)
    service = create(Books, model, tools=[reserve])
    assert service.book("opera", "ann-7", "session-9") == "Booked."
    first = repr(model.requests[0])
    assert "ann-7" not in first
    assert "session-9" not in first
    tooling = model.requests[0].tooling
    assert tooling is not None
    assert set(tooling.tools[0].parameters["properties"]) == {"what", "seats"}
    assert messages_to(model)[-1] == ToolMessage("c1", "reserve", "opera ann-7 session-9 2")


# tools that are known when the call is made


class Provides:
    def __init__(self, *tools: Any) -> None:
        self.given = tools
        self.turns: list[Turn] = []

    def tools(self, turn: Turn) -> list[Any]:
        self.turns.append(turn)
        return list(self.given)


class AsyncProvides(Provides):
    async def tools(self, turn: Turn) -> list[Any]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().tools(turn)


@every_kind
def test_a_provider_adds_tools_to_a_call(kind: str) -> None:
    provides = Provides(search)
    model = provider(calls(SEARCH), "Done.")
    assert KINDS[kind](asks(model, add, provides)) == "Done."
    tooling = model.requests[0].tooling
    assert tooling is not None
    assert [one.name for one in tooling.tools] == ["add", "search"]
    (turn,) = provides.turns
    assert turn.arguments == {"text": "x"}


def test_an_async_provider_and_its_async_tools_serve_async_methods() -> None:
    model = provider(calls(("aadd", '{"a": 1, "b": 2}')), "Done.")
    service = create(Waits, model, tools=[AsyncProvides(aadd)])
    assert asyncio.run(service.ask("x")) == "Done."
    assert messages_to(model)[-1].text == "3"


def test_a_provider_without_tools_leaves_a_plain_call() -> None:
    model = provider("Done.")
    assert asks(model, Provides()).ask("x") == "Done."
    assert model.requests[0].tooling is None


def no_type(city) -> None: ...  # type: ignore[no-untyped-def]


def needs_user(user: Annotated[str, ToolContext]) -> None: ...


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (add, "Asks.ask: two tools have the name add; give one of them another"),
        (no_type, "Asks.ask: the tool no_type does not say of what type its parameter city is"),
        (aadd, "Asks.ask: the tool aadd is async; only async methods can call it"),
        (needs_user, "Asks.ask: the tool needs_user needs user, and the method has no such parameter"),
    ],
)
def test_provided_tools_that_cannot_be_are_told_before_a_model_is_asked(given: Any, said: str) -> None:
    model = provider("Done.")
    with pytest.raises(DefinitionError) as caught:
        asks(model, add, Provides(given)).ask("x")
    assert (str(caught.value), model.requests) == (said, [])


def test_a_provider_that_fails_ends_the_call_with_its_error() -> None:
    class Broken:
        def tools(self, turn: Turn) -> list[Any]:
            raise Unsafe("no registry")

    with pytest.raises(Unsafe, match="no registry"):
        asks(provider("Done."), Broken()).ask("x")


# seen beforehand


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_a_preview_shows_the_tools(capabilities: Capabilities) -> None:
    service = people(provider(capabilities=capabilities))
    shown = str(preview(service.find, "x"))
    assert "search" in shown
    assert "Searches." in shown


def test_errors_of_ours_hold_all_attempts_of_all_rounds() -> None:
    model = provider(calls(ONE_AND_TWO), ChatReply(AiMessage("It i"), FinishReason.LENGTH))
    with pytest.raises(AiServiceError) as caught:
        asks(model, add).ask("x")
    assert [attempt.text for attempt in caught.value.attempts] == ["", "It i"]
