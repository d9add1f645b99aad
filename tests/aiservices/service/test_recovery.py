"""Calls that other processes left are continued."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from pydantic import BaseModel

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    CallId,
    ChatOptions,
    ChatReply,
    Durable,
    JournalError,
    ScriptedChatModel,
    ToolCall,
    ToolContext,
    UserName,
    arecover,
    create,
    decide,
    recover,
    system_message,
    tool,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.journal import Entry, JournalStore
from aiservices.journal.sqlite import SqliteJournalStore
from aiservices.structured_model import structured
from tests.killed_calls import Killed, Machine, journal_of


class Desk(Protocol):
    @system_message("Be brief.")
    @user_message("Refund {{order}} for {{user}}.")
    def refund(
        self,
        order: str,
        user: Annotated[str, UserName],
        account: Annotated[str, ToolContext],
        call_id: Annotated[str, CallId],
    ) -> str: ...

    @user_message("Stream {{order}}.")
    def stream(self, order: str, call_id: Annotated[str, CallId]) -> Iterator[str]: ...


class AsyncDesk(Protocol):
    @user_message("Refund {{order}}.")
    async def refund(self, order: str, call_id: Annotated[str, CallId]) -> str: ...


@pytest.fixture
def store(tmp_path: Path) -> JournalStore:
    return SqliteJournalStore(tmp_path / "calls.db")


def kill(store: JournalStore, make: Any, start: Any) -> None:
    machine = Machine()

    def die(request: Any) -> Any:
        machine.is_dead = True
        raise Killed

    with pytest.raises(Killed):
        start(make(ScriptedChatModel(die), Durable(journal_of(store, machine))))


def test_running_calls_are_continued_with_their_stored_messages(store: JournalStore) -> None:
    def make(model: Any, durable: Any) -> Any:
        options = ChatOptions(temperature=0.5, stop=("END",))
        return create(Desk, model, interceptors=[durable], options=options)

    kill(store, make, lambda desk: desk.refund("17", "Ann", "x", call_id="a"))
    kill(store, make, lambda desk: list(desk.stream("18", call_id="b")))
    model, journal = ScriptedChatModel(["done", "streamed"]), journal_of(store, Machine())
    desk = make(model, Durable(journal))
    missing = recover(journal, [desk])
    assert str(missing[0].error) == "Desk.refund: the argument account is not stored; pass it in tool_context"
    recovered = recover(journal, [desk], tool_context={"account": "x"})
    assert [(one.call.id, one.value) for one in missing[1:]] == [("b", ["done"])]
    assert [(one.call.id, one.value) for one in recovered] == [("a", "streamed")]
    assert [message.text for message in model.requests[-1].messages] == ["Be brief.", "Refund 17 for Ann."]
    assert desk.refund("17", "Ann", "x", call_id="a") == recovered[0].value
    assert recover(journal, [desk]) == []


def test_async_methods_are_recovered(store: JournalStore) -> None:
    def make(model: Any, durable: Any) -> Any:
        return create(AsyncDesk, model, interceptors=[durable])

    for call in "ab":
        kill(store, make, lambda desk, call=call: asyncio.run(desk.refund("17", call_id=call)))
    journal = journal_of(store, Machine())
    desk = make(ScriptedChatModel(["1"]), Durable(journal))
    store.append("b", None, (), status="suspended", leased_for=0.0)
    assert [one.value for one in recover(journal, [desk])] == ["1"]
    store.append("b", None, (), status="running", leased_for=0.0)
    desk = make(ScriptedChatModel(["2"]), Durable(journal))
    assert [one.value for one in asyncio.run(arecover(journal, [desk]))] == ["2"]


def test_a_decision_of_an_operator_is_used_by_recover(store: JournalStore) -> None:
    paid = []

    @tool(needs_approval=True)
    def pay(euros: int) -> str:
        paid.append(euros)
        return "paid"

    from tests.aiservices.engine.test_durable import _replies

    journal = journal_of(store, Machine())
    desk = create(AsyncDesk, ScriptedChatModel(_replies), tools=[pay], interceptors=[Durable(journal)])
    with pytest.raises(ApprovalRequiredError):
        asyncio.run(desk.refund("17", call_id="a"))
    assert recover(journal, [desk]) == []
    decide(journal, "a", True)
    with pytest.raises(JournalError, match="is running, so it does not wait for a decision"):
        decide(journal, "a", True)
    assert [one.value for one in recover(journal, [desk])] == ["done after paid"]
    assert paid == [3]


def test_a_result_that_does_not_fit_its_tool_is_asked_for_again(store: JournalStore) -> None:
    @tool(external=True)
    def ask(euros: int) -> int: ...

    journal = journal_of(store, Machine())
    model = ScriptedChatModel([ChatReply(AiMessage("", (ToolCall("c0", "ask", '{"euros": 3}'),))), "done"])
    desk = create(AsyncDesk, model, tools=[ask], interceptors=[Durable(journal)])
    with pytest.raises(ApprovalRequiredError):
        asyncio.run(desk.refund("17", call_id="a"))
    for wrong in ("many", None, [3]):
        decide(journal, "a", results={"c0": wrong})
        (left,) = recover(journal, [desk])
        assert "c0 does not fit the tool ask" in str(left.error)
        assert [call.status for call in journal.list()] == ["suspended"]
        with pytest.raises(ApprovalRequiredError):
            asyncio.run(desk.refund("17", call_id="a"))
    decide(journal, "a", results={"c0": "no number"})
    with pytest.raises(ValueError, match="does not fit"):
        asyncio.run(desk.refund("17", call_id="a"))
    decide(journal, "a", results={"c0": 5})
    assert asyncio.run(desk.refund("17", call_id="a")) == "done"


class Person(BaseModel):
    name: str
    age: int


def recovered_values(journal: Any, services: Any, *, is_async: bool) -> list[Any]:
    found = asyncio.run(arecover(journal, services)) if is_async else recover(journal, services)
    values = {one.call.id: one.error or one.value for one in found}
    return [values[call] for call in sorted(values)]


ANN = '{"name": "Ann", "age": 3}'


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("has_async_tool", [False, True])
def test_calls_of_structured_are_continued_by_the_model_of_their_type(
    store: JournalStore, is_async: bool, has_async_tool: bool
) -> None:
    async def look_up(name: str) -> str:
        """Look a name up."""
        return name

    def make(model: Any, durable: Any, output_type: Any, **settings: Any) -> Any:
        tools = [look_up] if has_async_tool else []
        return structured(model, output_type, interceptors=[durable], tools=tools, **settings)

    def start(model: Any, call_id: str) -> Any:
        return asyncio.run(model.ainvoke("Who?", call_id=call_id))

    kill(store, lambda *parts: make(*parts, Person), lambda model: start(model, "a"))
    kill(store, lambda *parts: make(*parts, int), lambda model: start(model, "b"))
    kill(store, lambda *parts: make(*parts, Person, include_raw=True), lambda model: start(model, "c"))
    kill(store, lambda *parts: make(*parts, bool), lambda model: start(model, "d"))
    journal, model = journal_of(store, Machine()), ScriptedChatModel([ANN, "7", ANN])
    services = [make(model, Durable(journal), kind) for kind in (int, Person)]
    assert recovered_values(journal, services, is_async=is_async) == [
        Person(name="Ann", age=3),
        7,
        Person(name="Ann", age=3),
    ]
    assert [call.id for call in journal.list("running")] == ["d"]  # no model of this type was passed
    assert start(services[1], "a") == Person(name="Ann", age=3)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("has_async_hook", [False, True])
def test_replies_of_agents_are_continued(store: JournalStore, is_async: bool, has_async_hook: bool) -> None:
    async def watch(request: Any) -> None: ...

    def make(model: Any, durable: Any) -> Any:
        agent = ReActAgent("Friday", "Be brief.", model, interceptors=[durable])
        if has_async_hook:
            agent.on("pre_reasoning", watch)
        return agent

    def start(agent: Any, call_id: str, output_type: Any = None) -> Any:
        return asyncio.run(agent.areply("Who?", output_type, call_id=call_id))

    kill(store, make, lambda agent: start(agent, "a"))
    kill(store, make, lambda agent: start(agent, "b", Person))
    answer = ToolCall("g", "generate_response", '{"response": "Ann", "name": "Ann", "age": 3}')
    journal = journal_of(store, Machine())
    agent = make(ScriptedChatModel(["hello", ChatReply(AiMessage("", (answer,)))]), Durable(journal))
    (plain,) = recovered_values(journal, [agent], is_async=is_async)
    assert plain.content == "hello"
    assert [call.id for call in journal.list("running")] == ["b"]
    (typed,) = recovered_values(journal, [agent, (agent, Person)], is_async=is_async)
    assert typed.metadata == Person(name="Ann", age=3)
    assert start(agent, "b", Person).metadata == Person(name="Ann", age=3)


def test_a_call_of_another_program_with_the_same_type_is_not_continued(store: JournalStore) -> None:
    def make(model: Any, durable: Any, name: str) -> Any:
        named = ScriptedChatModel(model, name=name) if callable(model) else model
        return structured(named, Person, interceptors=[durable])

    def die(request: Any) -> Any:
        machine.is_dead = True
        raise Killed

    machine = Machine()
    with pytest.raises(Killed):
        make(die, Durable(journal_of(store, machine)), "large").invoke("Who?", call_id="a")
    journal = journal_of(store, Machine())
    small = make(lambda request: ANN, Durable(journal), "small")
    (left,) = recover(journal, [small])
    assert "the model changed" in str(left.error)
    large = make(lambda request: ANN, Durable(journal), "large")
    assert [one.value for one in recover(journal, [small, large])] == [Person(name="Ann", age=3)]


def test_a_damaged_beginning_hinders_no_other_call_of_structured(store: JournalStore) -> None:
    def make(model: Any, durable: Any) -> Any:
        return structured(model, Person, interceptors=[durable])

    for call_id in ("a", "b"):
        kill(store, make, lambda model, one=call_id: model.invoke("Who?", call_id=one))
    store.append("a", None, [Entry("start", '{"value": 1}')])
    journal = journal_of(store, Machine())
    recovered = recover(journal, [make(ScriptedChatModel([ANN]), Durable(journal))])
    assert [one.value for one in recovered] == [Person(name="Ann", age=3)]


def test_a_call_that_another_process_has_continued_meanwhile_is_not_recovered(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(model: Any, durable: Any) -> Any:
        return create(AsyncDesk, model, interceptors=[durable])

    kill(store, make, lambda desk: asyncio.run(desk.refund("17", call_id="a")))
    journal = journal_of(store, Machine())
    listed = journal.list("running")
    desk = make(ScriptedChatModel(["done"]), Durable(journal))
    assert [one.value for one in recover(journal, [desk])] == ["done"]
    monkeypatch.setattr(journal, "list", lambda *statuses: listed)
    assert recover(journal, [desk]) == []
