"""Durable calls: what is done is not done again."""

from __future__ import annotations

import asyncio
import pickle
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, Protocol, cast

import pytest
from pydantic import BaseModel, Field, SecretStr, field_validator

from aiservices import (
    AiMessage,
    AiServiceError,
    AlreadyResumedError,
    ApprovalRequiredError,
    AuthenticationError,
    Budget,
    CallCancelledError,
    CallChangedError,
    CallId,
    CallInProgressError,
    ChatReply,
    ChatRequest,
    DefinitionError,
    Durable,
    Journal,
    JournalError,
    ModelConnectionError,
    ReplayedError,
    ReplyReceived,
    Result,
    ScriptedChatModel,
    ToolAnswer,
    ToolCall,
    ToolException,
    ToolFinished,
    ToolMessage,
    ToolStarted,
    UserName,
    create,
    recover,
    resume,
    tool,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.engine.effects import Flow
from aiservices.engine.interceptor import Proceed
from aiservices.engine.plan import Invocation
from aiservices.engine.results import Answer
from aiservices.journal.sqlite import SqliteJournalStore
from aiservices.memory import ChatMemory
from aiservices.structured_model import structured
from tests.killed_calls import Killed, Machine, journal_of

ONE_ATTEMPT = Budget(max_attempts=1)


class Desk(Protocol):
    @user_message("Refund {{order}}.")
    def refund(self, order: str, call_id: Annotated[str | None, CallId] = None) -> Result[str]: ...


class AsyncDesk(Protocol):
    @user_message("Refund {{order}}.")
    async def refund(self, order: str, call_id: Annotated[str, CallId]) -> Result[str]: ...


class StreamDesk(Protocol):
    @user_message("Refund {{order}}.")
    def refund(self, order: str, call_id: Annotated[str, CallId]) -> Iterator[str]: ...


def calls(*names: str) -> ChatReply:
    tool_calls = [ToolCall(f"c{number}", name, '{"euros": 3}') for number, name in enumerate(names)]
    return ChatReply(AiMessage("", tuple(tool_calls)))


class Bank:
    """The outside world: what it did stays done."""

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine or Machine()
        self.paid: list[int] = []

    def pay(self, euros: int) -> str:
        """Pay."""
        self.machine.do(lambda: self.paid.append(euros))
        return f"paid {euros}"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "calls.db") as made:
        yield made


def test_a_completed_call_returns_its_stored_answer(journal: Journal) -> None:
    bank, model = Bank(), ScriptedChatModel([calls("pay"), "done"])
    desk = create(Desk, model, tools=[bank.pay], interceptors=[Durable(journal)])
    first = desk.refund("17", call_id="a")
    again = desk.refund("17", call_id="a")
    assert (first.value, again.value, len(model.requests), bank.paid) == ("done", "done", 2, [3])
    assert (first.reply.replayed, again.reply.replayed) == (False, True)
    assert [run.replayed for run in first.tool_runs] == [False]
    assert [(run.text, run.replayed) for run in again.tool_runs] == [("paid 3", True)]
    assert again.usage.total_tokens == 0


def test_calls_without_an_id_are_not_recorded(journal: Journal) -> None:
    desk = create(Desk, ScriptedChatModel(["a", "b"]), interceptors=[Durable(journal)])
    assert [desk.refund("17").value, desk.refund("17").value] == ["a", "b"]
    assert journal.list() == []


def test_the_model_does_not_see_the_id(journal: Journal) -> None:
    model = ScriptedChatModel(["a"])
    create(Desk, model, interceptors=[Durable(journal)]).refund("17", call_id="secret id")
    assert "secret id" not in repr(model.requests)


def test_an_id_of_another_call_is_an_error(journal: Journal) -> None:
    model = ScriptedChatModel(["a", "b"])
    desk = create(Desk, model, interceptors=[Durable(journal)])
    desk.refund("17", call_id="a")
    with pytest.raises(CallChangedError) as caught:
        desk.refund("18", call_id="a")
    assert caught.value.changes == ("the user message",)
    assert str(caught.value) == (
        "Desk.refund: the call id 'a' was begun with other values: the user message changed. Use another id, "
        'delete the call from the journal, or pass Durable(on_change="continue")'
    )


def test_a_changed_program_is_named_or_continues(tmp_path: Path) -> None:
    store, machine = SqliteJournalStore(tmp_path / "calls.db"), Machine()
    bank = Bank(machine)
    first = create(
        Desk,
        ScriptedChatModel(_replies),
        tools=[bank.pay],
        interceptors=[Durable(journal_of(store, machine))],
    )
    machine.kill_at = 8
    with pytest.raises(Killed):
        first.refund("17", call_id="a")

    class Changed(Protocol):
        @user_message("Please refund {{order}}.")
        def refund(self, order: str, call_id: Annotated[str | None, CallId] = None) -> Result[str]: ...

    Changed.__name__ = "Desk"
    Changed.refund.__qualname__ = "Desk.refund"

    def pay(euros: int, reason: str = "") -> str:
        """Pay more."""
        raise AssertionError

    model = ScriptedChatModel(["done"])
    changed = create(Changed, model, tools=[pay], interceptors=[Durable(journal_of(store, Machine()))])
    with pytest.raises(CallChangedError) as caught:
        changed.refund("17", call_id="a")
    assert caught.value.changes == ("the user message", "the tool pay")
    journal = journal_of(store, Machine())
    changed = create(Changed, model, tools=[pay], interceptors=[Durable(journal, on_change="continue")])
    assert changed.refund("17", call_id="a").value == "done"
    assert bank.paid == [3]


@pytest.mark.parametrize("kill_at", range(12))
def test_a_kill_at_any_step_repeats_no_tool_and_at_most_one_request(tmp_path: Path, kill_at: int) -> None:
    store, machine = SqliteJournalStore(tmp_path / "calls.db"), Machine(kill_at)
    bank, requests = Bank(machine), 0
    results = []
    for _ in range(3):
        bank.machine = machine
        model = ScriptedChatModel(_replies)
        desk = create(Desk, model, tools=[bank.pay], interceptors=[Durable(journal_of(store, machine))])
        try:
            results.append(desk.refund("17", call_id="a").value)
        except Killed:
            pass
        except ApprovalRequiredError as error:
            (doubt,) = error.in_doubt
            answers: dict[str, Any] = {"results": {doubt.id: "paid 3"}} if bank.paid else {}
            approvals: Any = {} if bank.paid else {doubt.id: True}
            results.append(resume(desk.refund, error.state, approvals, **answers).value)
        requests += len(model.requests)
        machine = Machine()
    assert set(results) == {"done after paid 3"}
    assert bank.paid == [3]
    assert requests <= 3


def _replies(request: Any) -> ChatReply | str:
    last = request.messages[-1]
    return f"done after {last.text}" if type(last).__name__ == "ToolMessage" else calls("pay")


def test_an_idempotent_tool_runs_again_with_the_same_key(tmp_path: Path) -> None:
    store, machine, keys = SqliteJournalStore(tmp_path / "calls.db"), Machine(), list[str]()

    @tool(idempotent=True)
    def pay(euros: int, call: ToolCall) -> str:
        keys.append(call.idempotency_key)
        machine.step()
        return "ok"

    def refund() -> str:
        durable = Durable(journal_of(store, machine))
        return (
            create(Desk, ScriptedChatModel(_replies), tools=[pay], interceptors=[durable])
            .refund("17", call_id="a")
            .value
        )

    machine.kill_at = 4  # after the request was recorded, within the tool
    with pytest.raises(Killed):
        refund()
    machine = Machine()
    assert refund() == "done after ok"
    assert keys == [keys[0], keys[0]] != ["", ""]


def test_a_suspended_call_waits_in_the_journal_and_resumes_once(journal: Journal) -> None:
    bank = Bank()

    @tool(needs_approval=True)
    def pay(euros: int) -> str:
        return bank.pay(euros)

    model = ScriptedChatModel(_replies)
    desk = create(Desk, model, tools=[pay], interceptors=[Durable(journal)])
    with pytest.raises(ApprovalRequiredError) as first:
        desk.refund("17", call_id="a")
    with pytest.raises(ApprovalRequiredError) as second:
        desk.refund("17", call_id="a")
    assert first.value.state == second.value.state
    assert len(model.requests) == 1
    assert resume(desk.refund, second.value.state, True).value == "done after paid 3"
    assert desk.refund("17", call_id="a").value == "done after paid 3"
    assert resume(desk.refund, second.value.state, True).value == "done after paid 3"
    with pytest.raises(AlreadyResumedError):
        resume(desk.refund, second.value.state, False)
    assert (bank.paid, len(model.requests)) == ([3], 2)


def test_a_failed_call_is_tried_again_from_its_last_tool(journal: Journal) -> None:
    bank, failing = Bank(), [True]

    def reply(request: Any) -> Any:
        answer = _replies(request)
        if isinstance(answer, str) and failing:
            raise ModelConnectionError("no connection")
        return answer

    model = ScriptedChatModel(reply)
    desk = create(Desk, model, tools=[bank.pay], interceptors=[Durable(journal)])
    with pytest.raises(ModelConnectionError):
        desk.refund("17", call_id="a")
    assert [call.status for call in journal.list()] == ["failed"]
    failing.clear()
    assert desk.refund("17", call_id="a").value == "done after paid 3"
    assert bank.paid == [3]


def test_listeners_get_no_event_of_what_is_replayed(tmp_path: Path) -> None:
    store, machine, events = SqliteJournalStore(tmp_path / "calls.db"), Machine(), list[object]()
    bank = Bank()
    kinds = (ReplyReceived, ToolStarted, ToolFinished)

    def refund() -> None:
        create(
            Desk,
            ScriptedChatModel(_replies),
            tools=[bank.pay],
            interceptors=[Durable(journal_of(store, machine))],
            listeners=[lambda event: events.append(type(event)) if isinstance(event, kinds) else None],
        ).refund("17", call_id="a")

    machine.kill_at = 6  # the answer was received and is not recorded
    with pytest.raises(Killed):
        refund()
    before = len(events)
    machine = Machine()
    refund()
    assert events[:before] == [ReplyReceived, ToolStarted, ToolFinished, ReplyReceived]
    assert events[before:] == [ReplyReceived]


def test_parallel_tools_are_replayed_by_their_ids(tmp_path: Path) -> None:
    store = SqliteJournalStore(tmp_path / "calls.db")
    runs: list[str] = []
    machine = Machine()

    async def one(euros: int) -> str:
        await asyncio.sleep(0.02)
        runs.append("one")
        return "1"

    async def two(euros: int) -> str:
        runs.append("two")
        return "2"

    def reply(request: Any) -> Any:
        results = [message.text for message in request.messages if type(message).__name__ == "ToolMessage"]
        if results:
            machine.step()
        return f"{results}" if results else calls("one", "two")

    def refund() -> str:
        desk = create(
            AsyncDesk,
            ScriptedChatModel(reply),
            tools=[one, two],
            interceptors=[Durable(journal_of(store, machine))],
        )
        return asyncio.run(desk.refund("17", call_id="a")).value

    machine.kill_at = 10
    with pytest.raises(Killed):
        refund()
    machine = Machine()
    assert refund() == "['1', '2']"
    assert runs == ["two", "one"]


def test_services_that_are_tools_are_recorded_inside(tmp_path: Path) -> None:
    store, machine, asked = SqliteJournalStore(tmp_path / "calls.db"), Machine(), list[str]()

    class Lawyer(Protocol):
        @user_message("Is {{question}} legal?")
        def ask(self, question: str) -> str:
            """Ask a lawyer."""
            ...

    def lawyer_reply(request: Any) -> str:
        asked.append(request.messages[-1].text)
        return "yes"

    def reply(request: Any) -> Any:
        last = request.messages[-1]
        if type(last).__name__ == "ToolMessage":
            return last.text
        return ChatReply(AiMessage("", (ToolCall("c", "ask", '{"question": "it"}'),)))

    def refund() -> str:
        lawyer = create(Lawyer, ScriptedChatModel(lawyer_reply))
        durable = Durable(journal_of(store, machine))
        desk = create(Desk, ScriptedChatModel(reply), tools=[lawyer.ask], interceptors=[durable])
        return desk.refund("17", call_id="a").value

    for kill_at in range(12):
        store.delete("a")
        asked.clear()
        machine = Machine(kill_at)
        try:
            answer = refund()
        except Killed:
            machine = Machine()
            answer = refund()
        assert (answer, len(asked) <= 2) == ("yes", True)
    assert len(asked) == 1


def test_memory_has_one_exchange_after_any_kill(tmp_path: Path) -> None:
    for kill_at in range(14):
        store, memory = SqliteJournalStore(tmp_path / f"{kill_at}.db"), ChatMemory()
        machine = Machine(kill_at)

        def refund(machine: Machine, memory: ChatMemory, store: Any) -> str:
            append = type(memory.store).append

            class Store:
                blocks = False

                def load(self, *args: Any) -> Any:
                    return memory.store.load(*args)

                def append(self, *args: Any, **kwargs: Any) -> Any:
                    return machine.do(lambda: append(memory.store, *args, **kwargs))  # type: ignore[arg-type]

                def replace(self, *args: Any, **kwargs: Any) -> Any:
                    raise AssertionError

                def delete(self, *args: Any) -> None:
                    raise AssertionError

            durable = Durable(journal_of(store, machine))
            own = ChatMemory(store=Store())
            desk = create(Desk, ScriptedChatModel(["hi"]), interceptors=[durable, own])
            return desk.refund("17", call_id="a").value

        try:
            answer = refund(machine, memory, store)
        except Killed:
            answer = refund(Machine(), memory, store)
        texts = [message.text for message in memory.store.load("Desk").messages]
        assert (kill_at, answer, texts) == (kill_at, "hi", ["Refund 17.", "hi"])


def test_streams_show_replayed_replies(tmp_path: Path) -> None:
    store, machine, bank = SqliteJournalStore(tmp_path / "calls.db"), Machine(), Bank()

    def refund() -> str:
        durable = Durable(journal_of(store, machine))
        desk = create(StreamDesk, ScriptedChatModel(_replies), tools=[bank.pay], interceptors=[durable])
        return "".join(desk.refund("17", call_id="a"))

    machine.kill_at = 6
    with pytest.raises(Killed):
        refund()
    machine = Machine()
    assert [refund(), refund()] == ["done after paid 3"] * 2
    assert bank.paid == [3]


def test_async_calls_continue(tmp_path: Path) -> None:
    for kill_at in range(12):
        store, bank = SqliteJournalStore(tmp_path / f"{kill_at}.db"), Bank(Machine(kill_at))

        def desk(machine: Machine, store: Any, bank: Bank) -> Any:
            durable = Durable(journal_of(store, machine))
            return create(AsyncDesk, ScriptedChatModel(_replies), tools=[bank.pay], interceptors=[durable])

        async def again(store: Any, bank: Bank) -> str:
            bank.machine = Machine()
            second = desk(bank.machine, store, bank)
            try:
                return (await second.refund("17", call_id="a")).value
            except ApprovalRequiredError as error:
                (doubt,) = error.in_doubt
                if bank.paid:
                    result = await resume(second.refund, error.state, results={doubt.id: "paid 3"})
                else:
                    result = await resume(second.refund, error.state, True)
                return result.value

        try:
            answer = asyncio.run(desk(bank.machine, store, bank).refund("17", call_id="a")).value
        except Killed:
            answer = asyncio.run(again(store, bank))
        assert (kill_at, answer, bank.paid) == (kill_at, "done after paid 3", [3])


def test_a_call_in_progress_is_not_started_a_second_time(journal: Journal) -> None:
    errors: list[Exception] = []

    def reply(request: Any) -> str:
        with pytest.raises(CallInProgressError) as caught:
            desk.refund("17", call_id="a")
        errors.append(caught.value)
        return "done"

    desk = create(Desk, ScriptedChatModel(reply), interceptors=[Durable(journal)])
    assert desk.refund("17", call_id="a").value == "done"
    assert len(errors) == 1


def test_a_cancelled_call_stops_at_its_next_step(journal: Journal) -> None:
    def pay(euros: int) -> str:
        journal.cancel("a")
        return "paid"

    desk = create(Desk, ScriptedChatModel(_replies), tools=[pay], interceptors=[Durable(journal)])
    for _ in range(2):
        with pytest.raises(CallCancelledError):
            desk.refund("17", call_id="a")
    assert [call.status for call in journal.list()] == ["cancelled"]


def test_an_expired_call_does_not_continue(journal: Journal) -> None:
    def reply(request: Any) -> str:
        raise ModelConnectionError("no connection")

    model = ScriptedChatModel(reply)
    with pytest.raises(ModelConnectionError):
        create(Desk, model, interceptors=[Durable(journal)]).refund("17", call_id="a")
    desk = create(Desk, model, interceptors=[Durable(journal, expires_after=1e-9)])
    with pytest.raises(CallCancelledError, match="has expired"):
        desk.refund("17", call_id="a")


@pytest.mark.parametrize("call_id", ["", " ", "x" * 257, 3])
def test_wrong_ids_are_refused(journal: Journal, call_id: Any) -> None:
    desk = create(Desk, ScriptedChatModel(["a"]), interceptors=[Durable(journal)])
    with pytest.raises(DefinitionError, match="the call id "):
        desk.refund("17", call_id=call_id)


def test_the_id_of_another_user_is_refused(journal: Journal) -> None:
    class Named(Protocol):
        @user_message("Hello.")
        def hello(self, user: Annotated[str, UserName], call_id: Annotated[str, CallId]) -> str: ...

    named = create(Named, ScriptedChatModel(["a"]), interceptors=[Durable(journal)])
    named.hello("Ann", call_id="a")
    with pytest.raises(CallChangedError) as caught:
        named.hello("Bob", call_id="a")
    assert caught.value.changes == ("the user",)


def test_structured_takes_the_id_of_a_call(journal: Journal) -> None:
    model = ScriptedChatModel(["3"])
    number = structured(model, int, interceptors=[Durable(journal)])
    assert [number.invoke("How many?", call_id="a"), number.invoke("How many?", call_id="a")] == [3, 3]
    with pytest.raises(CallChangedError):
        number.invoke("How much?", call_id="a")
    assert [list(number.stream("How many?", call_id="a"))[-1].value for _ in range(2)] == [3, 3]


def test_an_agent_takes_the_id_of_a_call(journal: Journal) -> None:
    bank, model = Bank(), ScriptedChatModel(_replies)
    memory = ChatMemory()
    agent = ReActAgent(
        "Agent", "Help.", model, tools=[bank.pay], memory=memory, interceptors=[Durable(journal)]
    )
    replies = [agent.reply("Refund 17.", call_id="a").content for _ in range(2)]
    assert (replies[0], bank.paid) == (replies[1], [3])
    assert len(memory.messages(service="Agent")) == 4


def test_a_call_id_without_durable_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        create(Desk, ScriptedChatModel(["a"]))
    assert str(caught.value) == (
        "Desk.refund: call_id is the id of a durable call, and nothing records it; "
        'add interceptors=[Durable(Journal("calls.db"))]'
    )


class FullDisk(SqliteJournalStore):
    """A store that cannot write at one of its accesses."""

    left = 0

    def append(self, *args: Any, **kwargs: Any) -> bool:
        self.left -= 1
        if self.left == 0:
            raise JournalError("the disk is full")
        return super().append(*args, **kwargs)


@pytest.mark.parametrize("left", range(1, 6))
def test_a_write_that_fails_ends_the_call_which_continues_later(tmp_path: Path, left: int) -> None:
    store, bank = FullDisk(tmp_path / "calls.db"), Bank()
    store.left = left
    model = ScriptedChatModel(_replies)
    desk = create(Desk, model, tools=[bank.pay], interceptors=[Durable(Journal(store))])
    try:
        answer = desk.refund("17", call_id="a").value
    except JournalError:
        try:
            answer = desk.refund("17", call_id="a").value
        except ApprovalRequiredError as error:
            (doubt,) = error.in_doubt
            answer = resume(desk.refund, error.state, results={doubt.id: "paid 3"}).value
    assert (answer, bank.paid, len(model.requests) <= 3) == ("done after paid 3", [3], True)


def test_services_that_are_parallel_tools_are_recorded_from_their_threads(journal: Journal) -> None:
    class Helper(Protocol):
        @user_message("Help with {{euros}}.")
        def help(self, euros: int) -> str:
            """Help."""
            ...

    asked: list[Any] = []

    def reply(request: Any) -> Any:
        results = [message.text for message in request.messages if type(message).__name__ == "ToolMessage"]
        return f"{set(results)}" if results else calls(*["help"] * 16)

    for number in range(10):
        helper = create(Helper, ScriptedChatModel(lambda request: asked.append(request) or "helped"))
        durable = Durable(journal)
        desk = create(Desk, ScriptedChatModel(reply), tools=[helper.help], interceptors=[durable])
        assert desk.refund("17", call_id=f"{number}").value == "{'helped'}"
    assert len(asked) == 160


class Hotel:
    """Rooms that are booked, and booked again if the program forgets that it has cancelled one."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.is_interrupted = True

    def tools(self) -> list[Any]:
        def undo(result: str) -> None:
            self.log.append(f"undo {result}")

        @tool(compensate=undo)
        def book(euros: int) -> str:
            """Book a room."""
            self.log.append("book")
            return "room"

        @tool(idempotent=True)
        async def wait(euros: int) -> str:
            """Wait."""
            if self.is_interrupted:
                self.is_interrupted = False
                await asyncio.sleep(60)
            return "waited"

        @tool(idempotent=True)
        def interrupt(euros: int) -> str:
            """Interrupt the program."""
            if self.is_interrupted:
                self.is_interrupted = False
                raise KeyboardInterrupt
            return "not interrupted"

        return [book, wait, interrupt]


def test_a_failed_call_whose_tools_were_undone_starts_over(journal: Journal) -> None:
    hotel = Hotel()
    model = ScriptedChatModel([calls("book"), ModelConnectionError("down"), calls("book"), "done"])
    desk = create(Desk, model, tools=hotel.tools(), interceptors=[Durable(journal)], budget=ONE_ATTEMPT)
    with pytest.raises(ModelConnectionError) as caught:
        desk.refund("17", call_id="a")
    assert [(run.name, run.undone) for run in caught.value.undone_runs] == [("book", True)]
    result = desk.refund("17", call_id="a")
    assert [(run.name, run.replayed) for run in result.tool_runs] == [("book", False)]
    assert hotel.log == ["book", "undo room", "book"]


def test_an_inner_call_whose_tools_were_undone_starts_over(journal: Journal) -> None:
    class Agency(Protocol):
        @user_message("Book for {{euros}}.")
        def travel(self, euros: int) -> str:
            """Book a journey."""
            ...

    hotel = Hotel()
    rejected = AuthenticationError("the key is wrong")
    inner = create(
        Agency, ScriptedChatModel([calls("book"), rejected, calls("book"), "booked"]), tools=hotel.tools()
    )
    model = ScriptedChatModel([calls("travel"), calls("travel"), "done"])
    desk = create(Desk, model, tools=[inner.travel], interceptors=[Durable(journal)])
    with pytest.raises(AuthenticationError):
        desk.refund("17", call_id="a")
    assert desk.refund("17", call_id="a").value == "done"
    assert hotel.log == ["book", "undo room", "book"]


def test_a_cancelled_task_undoes_nothing_because_the_call_continues(journal: Journal) -> None:
    hotel = Hotel()
    model = ScriptedChatModel([calls("book"), calls("wait"), "done"])
    desk = create(AsyncDesk, model, tools=hotel.tools(), interceptors=[Durable(journal)])

    async def program() -> str:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(desk.refund("17", call_id="a"), 0.1)
        return (await desk.refund("17", call_id="a")).value

    assert asyncio.run(program()) == "done"
    assert hotel.log == ["book"]


def test_an_interrupted_call_undoes_nothing_because_it_continues(journal: Journal) -> None:
    hotel = Hotel()
    model = ScriptedChatModel([calls("book"), calls("interrupt"), "done"])
    desk = create(Desk, model, tools=hotel.tools(), interceptors=[Durable(journal)])
    with pytest.raises(KeyboardInterrupt):
        desk.refund("17", call_id="a")
    assert desk.refund("17", call_id="a").value == "done"
    assert hotel.log == ["book"]


@dataclass
class Booking:
    day: date
    price: Decimal


def test_replayed_results_of_tools_are_those_that_the_tools_returned(journal: Journal) -> None:
    undone: list[object] = []
    results = {
        "book": Booking(date(2026, 5, 1), Decimal("9.50")),
        "search": {"id": 17},
        "rows": [{"id": 1}],
        "plain": [1, "a"],
        "many": [Decimal("1.50")],
    }

    def book(euros: int) -> Booking:
        """Book."""
        return cast("Booking", results["book"])

    def search(euros: int) -> ToolAnswer:
        """Search."""
        return ToolAnswer("1 order", data=results["search"])

    def rows(euros: int) -> ToolAnswer | str:
        """Search rows."""
        return ToolAnswer("1 row", data=results["rows"])

    def plain(euros: int):  # type: ignore[no-untyped-def]
        """Return a list."""
        return results["plain"]

    def many(euros: int) -> list[Decimal]:
        """Return prices."""
        return cast("list[Decimal]", results["many"])

    @tool(needs_approval=True)
    def ask(euros: int) -> str:
        """Ask."""
        return "yes"

    def undo(result: object) -> None:
        undone.append(result)

    tools = [tool(compensate=undo)(one) for one in (book, search, rows, plain, many)]
    model = ScriptedChatModel(
        [calls(*results), "done", calls(*results), calls("ask"), ModelConnectionError("down")]
    )
    desk = create(Desk, model, tools=[*tools, ask], interceptors=[Durable(journal)], budget=ONE_ATTEMPT)
    for replayed in (False, True):
        runs = desk.refund("17", call_id="a").tool_runs
        assert {run.name: run.result for run in runs} == results
        assert {run.replayed for run in runs} == {replayed}
    with pytest.raises(ApprovalRequiredError) as waiting:
        desk.refund("17", call_id="b")
    with pytest.raises(ModelConnectionError):
        resume(desk.refund, waiting.value.state, True)
    assert undone == list(results.values())[::-1]


def test_a_call_does_not_start_over_while_a_tool_has_run_that_was_not_undone(journal: Journal) -> None:
    class Agency(Protocol):
        @user_message("Pay {{euros}}.")
        def inner(self, euros: int) -> str:
            """Pay inside."""
            ...

    log: list[str] = []

    def book(euros: int) -> str:
        """Book."""
        log.append("book")
        return "room"

    def pay(euros: int) -> str:
        """Pay."""
        log.append("pay")
        return "paid"

    def stuck(euros: int) -> str:
        """Book a room that cannot be cancelled."""
        log.append("pay")
        return "stuck"

    def read(euros: int) -> str:
        """Read."""
        return "read"

    def broken() -> None:
        raise RuntimeError("cannot be undone")

    def refuse(euros: int) -> str:
        """Refuse."""
        raise ToolException("no")

    for others, is_refused in (
        ({"pay": pay}, True),
        ({"stuck": tool(compensate=broken)(stuck)}, True),
        ({"inner": create(Agency, ScriptedChatModel([calls("pay"), "paid"] * 2), tools=[pay]).inner}, True),
        ({"read": tool(name="read", idempotent=True)(read)}, False),
        ({"refuse": refuse}, False),
        ({}, False),
    ):
        names = ["book", *others]
        down = ModelConnectionError("down")
        model = ScriptedChatModel([calls(*names), down, calls(*names), "done"])
        tools = [tool(compensate=lambda: log.append("undo"))(book), *others.values()]
        desk = create(Desk, model, tools=tools, interceptors=[Durable(journal)], budget=ONE_ATTEMPT)
        log.clear()
        with pytest.raises(ModelConnectionError):
            desk.refund("17", call_id="a")
        if is_refused:
            for _ in range(2):
                with pytest.raises(JournalError, match="were undone, and these were not"):
                    desk.refund("17", call_id="a")
            assert [call.status for call in journal.list()] == ["failed"]
            assert (log.count("pay"), log.count("book")) == (1, 1)
            journal.delete("a")
        assert desk.refund("17", call_id="a").value == "done"
        assert log.count("book") == 2
        journal.delete("a")


def test_a_call_that_is_deleted_while_it_runs_ends_and_says_so(journal: Journal) -> None:
    def forget(euros: int) -> str:
        """Forget."""
        journal.delete("a")
        return "forgotten"

    desk = create(Desk, ScriptedChatModel([calls("forget")]), tools=[forget], interceptors=[Durable(journal)])
    with pytest.raises(JournalError, match=r"the call 'a' of Desk.refund was deleted"):
        desk.refund("17", call_id="a")


def test_a_journal_without_a_name_would_be_lost_and_is_refused() -> None:
    for name in ("", "sqlite:///"):
        with pytest.raises(DefinitionError, match="pass the path of a file"):
            Journal(name)


def test_a_call_that_cannot_be_resumed_undoes_no_tools_because_another_run_owns_them(
    journal: Journal,
) -> None:
    @tool(needs_approval=True)
    def ask(euros: int) -> str:
        """Ask, while another thread resumes the call, too."""
        thread = Thread(target=try_to_resume, args=(CallInProgressError, True))
        thread.start()
        thread.join()
        return "asked"

    def try_to_resume(error: type[AiServiceError], approval: bool) -> None:
        with pytest.raises(error) as caught:
            resume(desk.refund, waiting.value.state, approval)
        errors.append(caught.value)

    hotel, errors = Hotel(), list[AiServiceError]()
    model = ScriptedChatModel([calls("book"), calls("ask"), "done", calls("book"), calls("ask"), "done"])
    desk = create(Desk, model, tools=[*hotel.tools(), ask], interceptors=[Durable(journal)])
    with pytest.raises(ApprovalRequiredError) as waiting:
        desk.refund("17", call_id="a")
    assert resume(desk.refund, waiting.value.state, True).value == "done"
    try_to_resume(AlreadyResumedError, False)
    with pytest.raises(ApprovalRequiredError) as waiting:
        desk.refund("17", call_id="b")
    journal.cancel("b")
    try_to_resume(CallCancelledError, True)
    assert [error.undone_runs for error in errors] == [(), (), ()]
    assert hotel.log == ["book", "book"]


@pytest.mark.parametrize("asks_again", [True, False])
def test_a_state_from_before_a_call_started_over_cannot_be_resumed(
    journal: Journal, asks_again: bool
) -> None:
    @tool(needs_approval=True, idempotent=True)
    def ask(euros: int) -> str:
        """Ask."""
        return "asked"

    hotel = Hotel()
    down, again = (
        ModelConnectionError("down"),
        [calls("book"), *([calls("ask")] if asks_again else []), "done"],
    )
    model = ScriptedChatModel([calls("book"), calls("ask"), down, *again])
    tools, interceptors = [*hotel.tools(), ask], [Durable(journal)]
    desk = create(Desk, model, tools=tools, interceptors=interceptors, budget=ONE_ATTEMPT)
    with pytest.raises(ApprovalRequiredError) as before:
        desk.refund("17", call_id="a")
    with pytest.raises(ModelConnectionError):
        resume(desk.refund, before.value.state, True)
    with pytest.raises(AlreadyResumedError):
        resume(desk.refund, before.value.state, True)
    if asks_again:
        with pytest.raises(ApprovalRequiredError) as after:
            desk.refund("17", call_id="a")
        with pytest.raises(AlreadyResumedError):
            resume(desk.refund, before.value.state, True)
        assert resume(desk.refund, after.value.state, True).value == "done"
    else:
        assert desk.refund("17", call_id="a").value == "done"
    with pytest.raises(AlreadyResumedError):
        resume(desk.refund, before.value.state, True)
    assert hotel.log == ["book", "undo room", "book"]


def test_the_state_of_a_call_that_was_deleted_from_the_journal_is_resumed_as_a_new_call(
    journal: Journal,
) -> None:
    @tool(needs_approval=True)
    def ask(euros: int) -> str:
        """Ask."""
        return "asked"

    model = ScriptedChatModel([calls("ask"), "done"])
    desk = create(Desk, model, tools=[ask], interceptors=[Durable(journal)])
    with pytest.raises(ApprovalRequiredError) as waiting:
        desk.refund("17", call_id="a")
    journal.delete("a")
    for _ in range(2):
        assert resume(desk.refund, waiting.value.state, True).value == "done"
    assert len(model.requests) == 2


class Visit(BaseModel):
    name: str
    day: date = Field(default_factory=date.today)


class Mutable(BaseModel):
    name: str
    age: int


class VisitDesk(Protocol):
    @user_message("Who comes at {{hour}}?")
    def visit(self, hour: int, call_id: Annotated[str, CallId]) -> Visit: ...

    @user_message("Who is at {{hour}}?")
    def person(self, hour: int, call_id: Annotated[str, CallId]) -> Mutable: ...

    @user_message("Who calls at {{hour}}?")
    def name(self, hour: int, call_id: Annotated[str, CallId]) -> str: ...


def test_a_stored_value_is_not_read_again_if_it_does_not_depend_on_the_reply_alone(journal: Journal) -> None:
    def older(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        answer = yield from proceed(invocation)
        if isinstance(answer.value, Visit):
            answer.value.day = date(2001, 2, 3)  # a day after the call, the default would be another one
        elif isinstance(answer.value, Mutable):
            answer.value.age += 1
        else:
            answer = replace(answer, value=f"{answer.value}!")
        return answer

    model = ScriptedChatModel(['{"name": "Ann"}', '{"name": "Bob", "age": 3}', "Cleo"])
    desk = create(VisitDesk, model, interceptors=[Durable(journal), older])
    for _ in range(2):
        assert desk.visit(1, call_id="v") == Visit(name="Ann", day=date(2001, 2, 3))
        assert desk.person(2, call_id="p") == Mutable(name="Bob", age=4)
        assert desk.name(3, call_id="n") == "Cleo!"
    assert len(model.requests) == 3


def test_a_value_that_the_reply_gives_is_stored_once(journal: Journal) -> None:
    desk = create(
        VisitDesk, ScriptedChatModel(['{"name": "Bob", "age": 3}', "Cleo"]), interceptors=[Durable(journal)]
    )
    for _ in range(2):
        assert desk.person(2, call_id="p") == Mutable(name="Bob", age=3)
        assert desk.name(3, call_id="n") == "Cleo"
    for call, part in (("p", "Bob"), ("n", "Cleo")):
        loaded = journal.load(call)
        assert loaded is not None
        assert sum(entry.data.count(part) for entry in loaded.entries) == 1


class OwnError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "replayed"),
    [
        (ValueError("no"), ValueError),
        (ModelConnectionError("gone"), ModelConnectionError),
        (OwnError("no é"), ReplayedError),
        (OwnError(), ReplayedError),
        (KeyError("euros"), ReplayedError),
        (FileNotFoundError(2, "No such file", "x"), FileNotFoundError),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), ReplayedError),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), ReplayedError),
        (StopIteration("end"), ReplayedError),
        (ToolException("refused"), ReplayedError),
    ],
)
def test_the_error_of_a_replayed_tool_has_the_text_and_the_type_of_the_original_one(
    journal: Journal, error: Exception, replayed: type[Exception]
) -> None:
    def pay(euros: int) -> str:
        """Pay."""
        raise error

    desk = create(
        Desk,
        ScriptedChatModel([calls("pay"), "done"]),
        tools=[pay],
        interceptors=[Durable(journal)],
    )
    first, again = (desk.refund("17", call_id="a").tool_runs[0].error for _ in range(2))
    assert str(first) == str(again)
    assert type(again) is replayed
    name = again.type_name if isinstance(again, ReplayedError) else type(again).__name__
    assert name == type(first).__name__
    assert str(pickle.loads(pickle.dumps(again))) == str(again)


def test_a_stored_answer_has_no_attempts(journal: Journal) -> None:
    desk = create(
        Desk, ScriptedChatModel([calls("pay"), "done"]), tools=[Bank().pay], interceptors=[Durable(journal)]
    )
    first, again = (desk.refund("17", call_id="a") for _ in range(2))
    assert (len(first.attempts), len(again.attempts)) == (2, 0)
    assert again.new_messages == first.new_messages


class Halved(BaseModel):
    euros: int

    @field_validator("euros")
    @classmethod
    def halve(cls, euros: int) -> int:
        return euros // 2


class SecretDesk(Protocol):
    @user_message("How much is {{order}}?")
    def price(self, order: str, call_id: Annotated[str, CallId]) -> Halved: ...

    @user_message("What is the password of {{order}}?")
    def password(self, order: str, call_id: Annotated[str, CallId]) -> SecretStr: ...


def test_an_answer_that_cannot_be_written_is_read_from_the_stored_reply(journal: Journal) -> None:
    model = ScriptedChatModel(['{"euros": 8}', "hush"])
    desk = create(SecretDesk, model, interceptors=[Durable(journal)])
    for _ in range(2):
        assert desk.price("17", call_id="p").euros == 4
        assert desk.password("17", call_id="s").get_secret_value() == "hush"
    assert len(model.requests) == 2


def test_a_run_whose_call_was_deleted_and_begun_again_writes_nothing_into_the_new_one(
    journal: Journal,
) -> None:
    values: list[str] = []

    def pay(euros: int) -> str:
        """Pay."""
        if not values:
            journal.delete("a")
            values.append("begun")
            other = Thread(target=lambda: values.append(desk.refund("17", call_id="a").value))
            other.start()
            other.join()
            return "late"
        return "paid"

    def reply(request: ChatRequest) -> ChatReply | str:
        last = request.messages[-1]
        return f"done after {last.text}" if isinstance(last, ToolMessage) else calls("pay")

    desk = create(Desk, ScriptedChatModel(reply), tools=[pay], interceptors=[Durable(journal)])
    with pytest.raises(JournalError, match="was taken over by another process"):
        desk.refund("17", call_id="a")
    assert values == ["begun", "done after paid"]
    loaded = journal.load("a")
    assert loaded is not None
    assert "late" not in str(loaded.entries)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not delete open files")
def test_a_journal_whose_file_is_deleted_runs_no_tool_that_nobody_would_find(tmp_path: Path) -> None:
    bank, path = Bank(), tmp_path / "calls.db"

    def reply(request: ChatRequest) -> ChatReply:
        for file in tmp_path.iterdir():
            file.unlink()
        return calls("pay")

    desk = create(Desk, ScriptedChatModel(reply), tools=[bank.pay], interceptors=[Durable(Journal(path))])
    for _ in range(2):
        with pytest.raises(JournalError, match="was deleted or replaced while it was open; open it again"):
            desk.refund("17", call_id="a")
    assert bank.paid == []
    with Journal(path) as opened:
        assert opened.list() == []


class Helper(Protocol):
    @user_message("Pay {{order}}.")
    def pay(self, order: str, call_id: Annotated[str | None, CallId] = None) -> str: ...


def after_tool(request: ChatRequest) -> ChatReply | str:
    last = request.messages[-1]
    return f"done after {last.text}" if isinstance(last, ToolMessage) else calls("pay")


def test_a_call_inside_with_an_id_of_its_own_is_made_once_for_all_outer_calls(journal: Journal) -> None:
    bank = Bank()
    helper = create(Helper, ScriptedChatModel(after_tool), tools=[bank.pay], interceptors=[Durable(journal)])

    def pay(euros: int) -> str:
        """Pay."""
        return helper.pay("17", call_id="pay-17")

    desk = create(Desk, ScriptedChatModel(after_tool), tools=[pay], interceptors=[Durable(journal)])
    values = [desk.refund("17", call_id=call).value for call in "ab"]
    assert values == ["done after done after paid 3"] * 2
    assert bank.paid == [3]
    assert sorted(call.id for call in journal.list("completed")) == ["a", "b", "pay-17"]


def test_a_tool_that_makes_the_call_that_runs_it_is_an_error(journal: Journal) -> None:
    def pay(euros: int) -> str:
        """Pay."""
        return desk.refund("17", call_id="a").value

    desk = create(Desk, ScriptedChatModel(after_tool), tools=[pay], interceptors=[Durable(journal)])
    with pytest.raises(CallInProgressError):
        desk.refund("17", call_id="a")


@pytest.mark.parametrize("damaged", ["{", "null", "[]", '{"value": 1}', "", '"x"', "1"])
@pytest.mark.parametrize("column", ["start", "answer"])
def test_a_damaged_call_is_a_journal_error_and_hinders_no_other_one(
    tmp_path: Path, column: str, damaged: str
) -> None:
    path = tmp_path / "calls.db"
    with Journal(path) as journal:
        desk = create(Desk, ScriptedChatModel(lambda request: "b"), interceptors=[Durable(journal)])
        desk.refund("17", call_id="a")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE durable_call SET {column} = ?", (damaged,))
        with pytest.raises((JournalError, CallChangedError)):
            desk.refund("17", call_id="a")
        journal.store.append("a", None, (), status="running", leased_for=0.0)
        assert [one.call.id for one in recover(journal, [desk])] == ["a"]
        assert desk.refund("18", call_id="b").value == "b"
