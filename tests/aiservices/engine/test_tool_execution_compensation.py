"""Undoing tools: when, in which order, with which arguments, and what is recorded."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import pytest
from tool_calling import (
    CALL_KINDS,
    every_call_kind,
    messages_to,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    ApprovalRequiredError,
    AsyncStream,
    Budget,
    BudgetExceededError,
    Capabilities,
    ChatReply,
    ChatRequest,
    DefinitionError,
    Denied,
    ModelServerError,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    SuspendedCall,
    ToolContext,
    ToolErrors,
    ToolException,
    ToolLimits,
    ToolMessage,
    ToolUndone,
    create,
    resume,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.guardrails import GuardrailError, OutputGuardrails, ToolGuardrails, refused
from aiservices.interceptors import Flow, ToolInvocation, ToolProceed
from aiservices.models.errors import BadRequestError
from aiservices.tools.tool import ToolAnswer, ToolRun, tool


@dataclass
class Trip:
    """Tools with effects, and a log of what happened."""

    log: list[str] = field(default_factory=list)

    def cancel(self, place: str, result: str, nights: int) -> None:
        self.log.append(f"cancel {place} {nights} {result}")

    @tool(compensate=cancel)
    def book(self, place: str, nights: int = 1) -> str:
        """Books a room."""
        self.log.append(f"book {place}")
        return f"#{len(self.log)}"

    @tool
    def look(self) -> str:
        """Looks."""
        self.log.append("look")
        return "seen"

    @tool
    def fly(self) -> str:
        """Fails."""
        self.log.append("fly")
        raise ToolException("no seats")


BOOK_ROME = ("book", '{"place": "Rome"}', "r1")
BOOK_BARI = ("book", '{"place": "Bari", "nights": 2}', "b1")
FLY = ("fly", "{}", "f1")
FATAL = BadRequestError("no", retryable=False)
UNDO = ToolErrors(compensate=True)


def texts(model: ScriptedChatModel) -> list[str]:
    return [message.text for message in messages_to(model) if isinstance(message, ToolMessage)]


# the call fails


@every_call_kind
def test_when_the_call_fails_its_tools_are_undone_the_last_one_first(kind: str) -> None:
    trip = Trip()
    model = strict_provider(tool_calls_reply(BOOK_ROME), tool_calls_reply(BOOK_BARI, ("look", "{}")), FATAL)
    with pytest.raises(BadRequestError) as caught:
        CALL_KINDS[kind](text_service(model, trip))
    assert sorted(trip.log[1:3]) == ["book Bari", "look"]
    undone = trip.log[3:]
    assert [line.split(" #")[0] for line in undone] == ["cancel Bari 2", "cancel Rome 1"]
    assert undone[1] == "cancel Rome 1 #1"
    runs = caught.value.undone_runs
    assert [(run.call.id, run.undone, run.undo_error) for run in runs] == [
        ("b1", True, None),
        ("r1", True, None),
    ]


def test_a_call_that_succeeds_undoes_nothing() -> None:
    trip = Trip()
    result = text_service(strict_provider(tool_calls_reply(BOOK_ROME), "Done."), trip).told("x")
    assert (trip.log, [run.undone for run in result.tool_runs]) == (["book Rome"], [False])


def test_a_failed_tool_alone_undoes_nothing_by_default() -> None:
    trip = Trip()
    model = strict_provider(tool_calls_reply(BOOK_ROME), tool_calls_reply(FLY), "Done.")
    assert text_service(model, trip).ask("x") == "Done."
    assert (trip.log, texts(model)) == (["book Rome", "fly"], ["#1", "no seats"])


def test_an_answer_that_is_refused_undoes_the_tools() -> None:
    trip = Trip()
    guard = OutputGuardrails(lambda text, invocation: refused("no"))
    with pytest.raises(GuardrailError):
        text_service(strict_provider(tool_calls_reply(BOOK_ROME), "x"), trip, interceptors=[guard]).ask("x")
    assert trip.log == ["book Rome", "cancel Rome 1 #1"]


def test_an_answer_that_is_requested_again_undoes_nothing() -> None:
    class Count(Protocol):
        def count(self, text: str) -> int: ...

    trip = Trip()
    model = strict_provider(tool_calls_reply(BOOK_ROME), "no number", "7")
    assert create(Count, model, tools=[trip]).count("x") == 7
    assert trip.log == ["book Rome"]
    model = strict_provider(tool_calls_reply(BOOK_ROME), *["no number"] * 3)
    with pytest.raises(ServiceOutputError):
        create(Count, model, tools=[trip]).count("x")
    assert trip.log == ["book Rome", "book Rome", "cancel Rome 1 #2"]


def test_tools_of_a_round_that_an_error_ends_are_undone() -> None:
    trip = Trip()

    def end(run: ToolRun) -> str:
        raise RuntimeError("stop")

    model = strict_provider(tool_calls_reply(BOOK_ROME, BOOK_BARI, FLY))
    service = text_service(
        model, trip, tool_errors=ToolErrors(execution=end), tool_limits=ToolLimits(max_concurrency=1)
    )
    with pytest.raises(Exception, match="stop") as caught:
        service.ask("x")
    assert trip.log == ["book Rome", "book Bari", "fly", "cancel Bari 2 #2", "cancel Rome 1 #1"]
    assert [run.result for run in caught.value.undone_runs] == ["#2", "#1"]  # type: ignore[attr-defined]


def test_tools_are_undone_when_the_time_is_over() -> None:
    trip = Trip()

    @tool
    async def slow() -> None:
        """Is slow."""
        await asyncio.sleep(5)

    class Async(Protocol):
        async def ask(self, text: str) -> str: ...

    model = strict_provider(tool_calls_reply(BOOK_ROME), tool_calls_reply(("slow", "{}")))
    service = create(Async, model, tools=[trip, slow], budget=Budget(seconds=0.2))
    with pytest.raises(BudgetExceededError):
        asyncio.run(service.ask("x"))
    assert trip.log == ["book Rome", "cancel Rome 1 #1"]


def test_an_async_function_that_undoes_a_tool_has_time_after_the_end_of_the_seconds() -> None:
    log: list[str] = []

    async def cancel() -> None:
        await asyncio.sleep(0.25)  # other functions have 0.2 seconds then
        log.append("cancel")

    @tool(compensate=cancel)
    async def book() -> None:
        """Books."""
        await asyncio.sleep(5)

    @tool(compensate=cancel)
    async def reserve() -> None:
        """Reserves."""

    class Async(Protocol):
        async def ask(self, text: str) -> str: ...

    model = strict_provider(tool_calls_reply(("reserve", "{}"), ("book", "{}")))
    service = create(Async, model, tools=[book, reserve], budget=Budget(seconds=0.1))
    with pytest.raises(BudgetExceededError):
        asyncio.run(service.ask("x"))
    assert log == ["cancel"]


def test_tools_are_undone_when_the_call_is_cancelled() -> None:
    log: list[str] = []
    waiting = asyncio.Event()

    async def cancel(place: str) -> None:
        await asyncio.sleep(0)
        log.append(f"cancel {place}")

    @tool(compensate=cancel)
    async def book(place: str) -> None:
        """Books."""
        log.append(f"book {place}")

    async def wait() -> None:
        """Waits."""
        waiting.set()
        await asyncio.sleep(5)

    class Async(Protocol):
        async def ask(self, text: str) -> str: ...

    async def main() -> None:
        model = strict_provider(tool_calls_reply(BOOK_ROME), tool_calls_reply(("wait", "{}")))
        task = asyncio.ensure_future(create(Async, model, tools=[book, wait]).ask("x"))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert log == ["book Rome", "cancel Rome"]


def test_a_tool_in_a_thread_that_ends_after_the_call_is_undone() -> None:
    log: list[str] = []
    started, goes_on, undone = threading.Event(), threading.Event(), threading.Event()

    def cancel() -> None:
        log.append("cancel")
        undone.set()

    @tool(compensate=cancel)
    def book() -> None:
        """Books slowly."""
        started.set()
        goes_on.wait(10)
        log.append("book")

    class Async(Protocol):
        async def ask(self, text: str) -> str: ...

    async def main() -> None:
        service = create(Async, strict_provider(tool_calls_reply(("book", "{}"))), tools=[book])
        task = asyncio.ensure_future(service.ask("x"))
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        goes_on.set()
        assert await asyncio.to_thread(undone.wait, 10)

    asyncio.run(main())
    assert log == ["book", "cancel"]


def test_a_tool_that_ends_after_its_timeout_is_undone() -> None:
    log: list[str] = []
    goes_on, undone = threading.Event(), threading.Event()

    def cancel() -> None:
        log.append("cancel")
        undone.set()

    @tool(compensate=cancel, timeout=0.05)
    def book() -> None:
        """Books slowly."""
        goes_on.wait(10)
        log.append("book")

    model = strict_provider(tool_calls_reply(("book", "{}")), "Done.")
    assert text_service(model, book).ask("x") == "Done."
    goes_on.set()
    assert undone.wait(10)
    assert (log, texts(model)) == (["book", "cancel"], ["The tool book did not finish in time."])


def test_a_tool_that_ends_after_its_timeout_is_undone_while_the_call_goes_on() -> None:
    goes_on, undone = threading.Event(), threading.Event()

    def cancel() -> None:
        undone.set()

    @tool(compensate=cancel, timeout=0.05)
    def book() -> None:
        """Books slowly."""
        goes_on.wait(10)

    def reply(request: ChatRequest) -> ChatReply | str:
        if len(request.messages) == 1:
            return tool_calls_reply(("book", "{}"))
        goes_on.set()
        return "Undone." if undone.wait(5) else "Not undone."

    model = ScriptedChatModel(reply, capabilities=Capabilities(tools=True))
    assert text_service(model, book).ask("x") == "Undone."


def test_only_async_tools_with_a_function_that_undoes_them_are_undone() -> None:
    log: list[str] = []

    def cancel() -> None:
        log.append("cancel")

    @tool(compensate=cancel)
    async def book() -> None:
        """Books."""

    @tool
    async def look() -> str:
        """Looks."""
        return "seen"

    class Async(Protocol):
        async def ask(self, text: str) -> str: ...

    model = strict_provider(tool_calls_reply(("book", "{}"), ("look", "{}")), FATAL)
    with pytest.raises(BadRequestError) as caught:
        asyncio.run(create(Async, model, tools=[book, look], budget=Budget(max_attempts=1)).ask("x"))
    assert (log, [run.name for run in caught.value.undone_runs]) == (["cancel"], ["book"])


def test_a_stream_that_is_closed_early_undoes_nothing() -> None:
    trip = Trip()
    stream = text_service(strict_provider(tool_calls_reply(BOOK_ROME), "to be"), trip).texts("x")
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert trip.log == ["book Rome"]


# a later tool fails


@every_call_kind
def test_a_tool_that_fails_undoes_the_earlier_ones_and_the_model_is_told(kind: str) -> None:
    trip = Trip()
    model = strict_provider(
        tool_calls_reply(BOOK_ROME), tool_calls_reply(BOOK_BARI), tool_calls_reply(FLY), "Sorry."
    )
    assert CALL_KINDS[kind](text_service(model, trip, tool_errors=UNDO)).endswith("Sorry.")
    assert trip.log[3:] == ["cancel Bari 2 #2", "cancel Rome 1 #1"]
    assert texts(model)[-1] == (
        "no seats\n\nBecause of this failure, these calls were undone: book (b1), book (r1)."
    )


def test_the_runs_of_the_result_tell_what_was_undone() -> None:
    trip = Trip()
    calls = tool_calls_reply(BOOK_ROME, ("look", "{}", "l1"), FLY)
    model = strict_provider(calls, tool_calls_reply(BOOK_BARI), "Done.")
    result = text_service(model, trip, tool_errors=UNDO).told("x")
    assert [(run.call.id, run.undone) for run in result.tool_runs] == [
        ("r1", True),
        ("l1", False),
        ("f1", False),
        ("b1", False),
    ]
    assert result.tool_runs[2].text.startswith("no seats\n\nBecause of this failure")


def test_what_was_undone_is_not_undone_again() -> None:
    trip = Trip()
    model = strict_provider(
        tool_calls_reply(BOOK_ROME), tool_calls_reply(FLY), tool_calls_reply(BOOK_BARI), FATAL
    )
    with pytest.raises(BadRequestError) as caught:
        text_service(model, trip, tool_errors=UNDO).ask("x")
    assert trip.log[2:] == ["cancel Rome 1 #1", "book Bari", "cancel Bari 2 #4"]
    assert [run.call.id for run in caught.value.undone_runs] == ["b1"]


@pytest.mark.parametrize("call", [("nope", "{}"), ("book", "{}"), ("limited", "{}")])
def test_a_call_that_cannot_run_or_is_refused_undoes_nothing(call: tuple[str, str]) -> None:
    @tool(interceptors=[ToolGuardrails(arguments=[lambda arguments, call: refused("no")])])
    def limited() -> None:
        """Is refused."""

    trip = Trip()
    model = strict_provider(tool_calls_reply(BOOK_ROME), tool_calls_reply(call), "Done.")
    text_service(model, trip, limited, tool_errors=UNDO).ask("x")
    assert trip.log == ["book Rome"]


def test_a_failure_that_an_interceptor_repairs_undoes_nothing() -> None:
    def repair(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        run = yield from proceed(call)
        return run if run.error is None else call.answer("by train")

    trip = Trip()
    model = strict_provider(tool_calls_reply(BOOK_ROME), tool_calls_reply(FLY), "Done.")
    text_service(model, trip, tool_errors=UNDO, tool_interceptors=[repair]).ask("x")
    assert trip.log == ["book Rome", "fly"]


def test_each_run_of_a_repeated_tool_is_undone() -> None:
    def twice(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        yield from proceed(call)
        return (yield from proceed(call))

    trip = Trip()
    with pytest.raises(BadRequestError):
        text_service(
            strict_provider(tool_calls_reply(BOOK_ROME), FATAL), trip, tool_interceptors=[twice]
        ).ask("x")
    assert trip.log[2:] == ["cancel Rome 1 #2", "cancel Rome 1 #1"]


# failures of the undoing


@every_call_kind
def test_a_failure_to_undo_is_recorded_and_does_not_stop_the_others(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []
    events: list[ToolUndone] = []

    def cancel(place: str) -> None:
        log.append(f"cancel {place}")
        if place == "Bari":
            raise OSError("the line is dead")

    @tool(compensate=cancel)
    def book(place: str, nights: int = 1) -> str:
        """Books."""
        return place

    def listen(event: object) -> None:
        if isinstance(event, ToolUndone):
            events.append(event)

    model = strict_provider(tool_calls_reply(BOOK_ROME), tool_calls_reply(BOOK_BARI), FATAL)
    with pytest.raises(BadRequestError) as caught:
        CALL_KINDS[kind](text_service(model, book, listeners=[listen]))
    assert log == ["cancel Bari", "cancel Rome"]
    bari, rome = caught.value.undone_runs
    assert (bari.undone, str(bari.undo_error), rome.undone) == (False, "the line is dead", True)
    assert [event.run for event in events] == [bari, rome]
    assert all(event.invocation is not None for event in events)
    assert "the tool book could not be undone" in caplog.text


def test_the_model_is_told_what_could_not_be_undone() -> None:
    def cancel() -> None:
        raise OSError("secret")

    @tool(compensate=cancel)
    def book(place: str, nights: int = 1) -> str:
        """Books."""
        return place

    trip = Trip()
    model = strict_provider(tool_calls_reply(BOOK_ROME), tool_calls_reply(FLY), "Done.")
    result = text_service(model, book, trip.fly, tool_errors=UNDO).told("x")
    assert texts(model)[-1] == "no seats\n\nThese calls could not be undone: book (r1)."
    assert (result.tool_runs[0].undone, str(result.tool_runs[0].undo_error)) == (False, "secret")


# the arguments


def test_the_function_gets_the_arguments_that_it_names_and_the_hidden_ones() -> None:
    seen: list[Any] = []

    def cancel(result: int, account: str) -> None:
        seen.append((result, account))

    @tool(compensate=cancel)
    def pay(amount: int, account: Annotated[str, ToolContext]) -> ToolAnswer:
        """Pays."""
        return ToolAnswer("paid", data=amount * 2)

    def cancel_all(**values: Any) -> None:
        seen.append(values)

    @tool(compensate=cancel_all)
    def send(to: str = "Ann", *, copies: int = 1) -> str:
        """Sends."""
        return to

    class Bank(Protocol):
        @user_message("{{text}}")
        def ask(self, text: str, account: Annotated[str, ToolContext]) -> str: ...

    model = strict_provider(
        tool_calls_reply(("pay", '{"amount": 5}')), tool_calls_reply(("send", "{}")), FATAL
    )
    with pytest.raises(BadRequestError):
        create(Bank, model, tools=[pay, send]).ask("x", "A1")
    assert seen == [{"to": "Ann", "copies": 1, "result": "Ann"}, (10, "A1")]


def test_the_arguments_are_those_with_which_the_tool_ran() -> None:
    def change(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        return (yield from proceed(call.with_arguments(place="Pisa")))

    trip = Trip()
    with pytest.raises(BadRequestError):
        text_service(
            strict_provider(tool_calls_reply(BOOK_ROME), FATAL), trip, tool_interceptors=[change]
        ).ask("x")
    assert trip.log == ["book Pisa", "cancel Pisa 1 #1"]


def test_an_effect_whose_result_cannot_be_written_is_undone() -> None:
    log: list[str] = []

    @tool(compensate=lambda: log.append("undone"))
    def act():  # type: ignore[no-untyped-def]
        """Acts."""
        return object()

    with pytest.raises(BadRequestError):
        text_service(strict_provider(tool_calls_reply(("act", "{}")), FATAL), act).ask("x")
    assert log == ["undone"]


# calls that wait


@dataclass
class Receipt:
    number: int


class Shop:
    """Tools whose calls are undone after the call has waited."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def give_back(self, article: str, result: Receipt, account: str) -> None:
        self.log.append(f"give back {article} {result.number} {account}")

    @tool(compensate=give_back)
    def buy(self, article: str, account: Annotated[str, ToolContext]) -> Receipt:
        """Buys."""
        self.log.append(f"buy {article}")
        return Receipt(len(self.log))

    @tool(needs_approval=True)
    def pay(self) -> str:
        """Pays."""
        self.log.append("pay")
        return "paid"


class Orders(Protocol):
    @user_message("{{text}}")
    def order(self, text: str, account: Annotated[str, ToolContext]) -> Result[str]: ...


BUY = ("buy", '{"article": "lamp"}', "b1")
PAY = ("pay", "{}", "p1")


def suspended(model: ScriptedChatModel, shop: Shop) -> tuple[Orders, SuspendedCall]:
    service = create(Orders, model, tools=[shop])
    with pytest.raises(ApprovalRequiredError) as waiting:
        service.order("x", "A1")
    return service, SuspendedCall.from_json(waiting.value.state.to_json())


def test_a_call_that_waits_undoes_nothing_until_it_fails_elsewhere() -> None:
    shop, elsewhere = Shop(), Shop()
    model = strict_provider(tool_calls_reply(BUY), tool_calls_reply(PAY), FATAL)
    _, state = suspended(model, shop)
    assert shop.log == ["buy lamp"]
    service = create(Orders, model, tools=[elsewhere])
    with pytest.raises(BadRequestError) as caught:
        resume(service.order, state, True, account="A2")
    assert elsewhere.log == ["pay", "give back lamp 1 A2"]
    (run,) = caught.value.undone_runs
    assert (run.call.id, run.undone, run.result) == ("b1", True, Receipt(1))


def test_a_resumed_call_that_succeeds_undoes_nothing() -> None:
    shop = Shop()
    model = strict_provider(tool_calls_reply(BUY), tool_calls_reply(PAY), "Done.")
    service, state = suspended(model, shop)
    resume(service.order, state, {"p1": Denied("no")}, account="A1")
    assert shop.log == ["buy lamp"]


def test_a_tool_that_the_service_lost_while_the_call_waited_cannot_be_undone() -> None:
    shop = Shop()
    model = strict_provider(tool_calls_reply(BUY), tool_calls_reply(PAY), FATAL)
    _, state = suspended(model, shop)
    service = create(Orders, model, tools=[shop.pay])
    with pytest.raises(BadRequestError) as caught:
        resume(service.order, state, True, account="A1")
    (run,) = caught.value.undone_runs
    assert str(run.undo_error) == "buy cannot be undone: the service no longer has this tool"


def test_a_result_that_cannot_be_stored_cannot_be_undone_later() -> None:
    @tool(compensate=lambda result: None)
    def act():  # type: ignore[no-untyped-def]
        """Acts."""
        return {1, 2}

    model = strict_provider(tool_calls_reply(("act", "{}")), tool_calls_reply(PAY), FATAL)
    service = create(Orders, model, tools=[act, Shop().pay])
    with pytest.raises(ApprovalRequiredError) as waiting:
        service.order("x", "A1")
    with pytest.raises(BadRequestError) as caught:
        resume(service.order, waiting.value.state, True)
    (run,) = caught.value.undone_runs
    assert str(run.undo_error).startswith("its data could not be stored while the call waited: ")


def test_a_call_that_waits_twice_undoes_all() -> None:
    shop = Shop()
    model = strict_provider(
        tool_calls_reply(BUY),
        tool_calls_reply(PAY),
        tool_calls_reply(("buy", '{"article": "sofa"}', "b2")),
        tool_calls_reply(("pay", "{}", "p2")),
        ModelServerError("500", retryable=False),
    )
    service, state = suspended(model, shop)
    with pytest.raises(ApprovalRequiredError) as waiting:
        resume(service.order, state, True, account="A1")
    with pytest.raises(ModelServerError):
        resume(service.order, waiting.value.state, True, account="A1")
    assert shop.log == ["buy lamp", "pay", "buy sofa", "pay", "give back sofa 3 A1", "give back lamp 1 A1"]


# agents and declarations


def test_an_agent_undoes_its_tools() -> None:
    trip = Trip()
    with pytest.raises(BadRequestError):
        ReActAgent("Friday", "Help.", strict_provider(tool_calls_reply(BOOK_ROME), FATAL), [trip]).reply("x")
    assert trip.log == ["book Rome", "cancel Rome 1 #1"]


@pytest.mark.parametrize(
    ("compensate", "message"),
    [
        (
            lambda place, city: None,
            "compensate of the tool book takes city, which is not a parameter of the tool; it can take "
            "place, result",
        ),
        (
            lambda *places: None,
            "compensate of the tool book takes places, which is not a parameter of the tool; "
            "it can take place, result",
        ),
    ],
)
def test_wrong_functions_are_definition_errors(compensate: Any, message: str) -> None:
    @tool(compensate=compensate)
    def book(place: str) -> None: ...

    with pytest.raises(DefinitionError) as caught:
        text_service(strict_provider("x"), book)
    assert f"TextService.ask: {message}" in str(caught.value)


def test_a_parameter_called_result_is_ambiguous() -> None:
    @tool(compensate=lambda result: None)
    def note(result: str) -> None: ...

    with pytest.raises(
        DefinitionError, match="the tool note has a parameter called result; compensate of the"
    ):
        text_service(strict_provider("x"), note)


def test_an_async_function_undoes_a_call_of_a_blocking_agent() -> None:
    undone = []

    async def acancel(place: str) -> None:
        await asyncio.sleep(0)
        undone.append(place)

    @tool(compensate=acancel)
    def book(place: str) -> None: ...

    with pytest.raises(BadRequestError):
        ReActAgent("Friday", "Help.", strict_provider(tool_calls_reply(BOOK_ROME), FATAL), [book]).reply("x")
    assert undone == ["Rome"]


def test_compensate_of_tool_errors_is_a_bool() -> None:
    wrong: Any = lambda run: "x"  # noqa: E731
    with pytest.raises(DefinitionError, match="ToolErrors: compensate has the type function"):
        ToolErrors(compensate=wrong)


def test_streams_undo_too() -> None:
    class Streams(Protocol):
        def ask(self, text: str) -> AsyncStream[str]: ...

    async def main() -> None:
        with pytest.raises(BadRequestError):
            await create(Streams, model, tools=[trip]).ask("x").result()

    trip = Trip()
    model = strict_provider(tool_calls_reply(BOOK_ROME), FATAL)
    asyncio.run(main())
    assert trip.log == ["book Rome", "cancel Rome 1 #1"]
