"""Conversations whose memory id is a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol
from uuid import UUID

import pytest
from conversation_stores import Opened
from fastapi.testclient import TestClient
from tool_calling import tool_calls_reply

from aiservices import (
    ApprovalRequiredError,
    DefinitionError,
    MemoryId,
    ScriptedChatModel,
    SuspendedCall,
    SuspendedCallError,
    create,
    preview,
    resume,
    system_message,
    tool,
)
from aiservices.integrations.fastapi import ApprovalSettings, app
from aiservices.memory import ChatMemory, MemoryIdError
from aiservices.testing.fake import sample_arguments


@dataclass(frozen=True)
class Visitor:
    tenant: str
    user: UUID


ANN = Visitor("museum", UUID(int=1))
BEN = Visitor("museum", UUID(int=2))
ANN_JSON = {"tenant": "museum", "user": str(UUID(int=1))}
BEN_JSON = {"tenant": "museum", "user": str(UUID(int=2))}


class Guide(Protocol):
    def ask(self, visitor: Annotated[Visitor, MemoryId], question: str) -> str: ...


def test_every_store_keeps_the_conversations_of_records_apart(opened: Opened) -> None:
    memory = ChatMemory(store=opened())
    model = ScriptedChatModel(["1", "2", "3"])
    guide = create(Guide, model, interceptors=[memory])
    guide.ask(ANN, "a")
    guide.ask(BEN, "b")
    guide.ask(Visitor("museum", UUID(int=1)), "c")
    assert [len(request.messages) for request in model.requests] == [1, 1, 3]
    other = ChatMemory(store=opened(), namespace="Guide")
    assert [message.text for message in other.messages(ANN)] == ["a", "1", "c", "3"]
    other.forget(ANN)
    assert memory.messages(ANN) == ()
    assert [message.text for message in memory.messages(BEN)] == ["b", "2"]


def test_a_text_with_the_json_of_a_record_is_another_conversation() -> None:
    class Either(Protocol):
        def ask(self, visitor: Annotated[Visitor | str, MemoryId], question: str) -> str: ...

    model = ScriptedChatModel(["1", "2", "3"])
    memory = ChatMemory()
    either = create(Either, model, interceptors=[memory])
    either.ask(ANN, "a")
    text = f'{{"tenant":"museum","user":"{ANN.user}"}}'
    either.ask(text, "b")
    assert [len(request.messages) for request in model.requests] == [1, 1]
    assert [message.text for message in memory.messages(text)] == ["b", "2"]


class Mutable(NamedTuple):
    tags: list[str]


def test_records_of_other_types_are_refused_by_create() -> None:
    class Wrong(Protocol):
        def ask(self, who: Annotated[Mutable, MemoryId], question: str) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Wrong, ScriptedChatModel([]), interceptors=[ChatMemory()])
    assert str(caught.value) == (
        "Wrong.ask: the parameter who is a memory id, and Mutable.tags is list[str]; use str, int and UUID"
    )


def test_an_empty_field_is_refused() -> None:
    guide = create(Guide, ScriptedChatModel([]), interceptors=[ChatMemory()])
    with pytest.raises(MemoryIdError) as caught:
        guide.ask(Visitor("", UUID(int=1)), "x")
    assert str(caught.value).startswith("Guide.ask: the memory id has the field tenant, which is ''; pass")


def waiting_guide(model: ScriptedChatModel, seen: list[Any], memory: ChatMemory) -> Any:
    @tool(needs_approval=True)
    def book(day: str, visitor: Annotated[Visitor, MemoryId]) -> str:
        seen.append(visitor)
        return "booked"

    return create(Guide, model, tools=[book], interceptors=[memory])


CALL = tool_calls_reply(("book", '{"day": "Monday"}'))


@pytest.mark.parametrize("stored", [True, False])
def test_a_call_that_waited_for_approval_has_its_record_again(stored: bool) -> None:
    seen: list[Any] = []
    memory = ChatMemory()
    guide = waiting_guide(ScriptedChatModel([CALL, "Done."]), seen, memory)
    with pytest.raises(ApprovalRequiredError) as caught:
        guide.ask(ANN, "Book")
    state = caught.value.state
    if stored:
        state = SuspendedCall.from_json(state.to_json())
        assert state.memory_id == ANN_JSON
    assert resume(guide.ask, state, True) == "Done."
    assert seen == [ANN]
    assert [message.text for message in memory.messages(ANN)] == ["Book", "", "booked", "Done."]


def test_a_damaged_record_of_a_state_is_an_error() -> None:
    guide = waiting_guide(ScriptedChatModel([CALL]), [], ChatMemory())
    with pytest.raises(ApprovalRequiredError) as caught:
        guide.ask(ANN, "Book")
    for damaged in ({"tenant": "museum"}, {**ANN_JSON, "user": "x"}):
        with pytest.raises(SuspendedCallError) as error:
            resume(guide.ask, caught.value.state._replace(memory_id=damaged), True)
        assert str(error.value).startswith("Guide.ask: the memory id of the suspended call is damaged: ")


def test_callers_over_http_pass_records_as_json() -> None:
    model = ScriptedChatModel(["1", "2", "3"])
    web = app(create(Guide, model, interceptors=[ChatMemory()]), caller_arguments=["visitor"])
    http = TestClient(web, base_url="http://localhost")
    for visitor in (ANN_JSON, BEN_JSON, ANN_JSON):
        assert http.post("/ask", json={"visitor": visitor, "question": "x"}).status_code == 200
    assert [len(request.messages) for request in model.requests] == [1, 1, 3]
    wrong = http.post("/ask", json={"visitor": {**ANN_JSON, "tenant": "x" * 300}, "question": "x"})
    assert (wrong.status_code, wrong.json()["type"]) == (422, "urn:aiservices:memory-id")


def test_the_caller_of_a_resumed_call_is_checked() -> None:
    seen: list[Any] = []
    guide = waiting_guide(ScriptedChatModel([CALL, "Done."]), seen, ChatMemory())
    visitors = [ANN]
    web = app(guide, server_arguments={"visitor": lambda: visitors[-1]}, approvals=ApprovalSettings())
    http = TestClient(web, base_url="http://localhost")
    state = http.post("/ask", json={"question": "x"}).json()["state"]
    visitors.append(BEN)
    assert http.post("/ask/resume", json={"state": state, "approvals": True}).status_code != 200
    visitors.append(ANN)
    assert http.post("/ask/resume", json={"state": state, "approvals": True}).json() == "Done."
    assert seen == [ANN]


def test_prompts_and_samples_show_the_fields() -> None:
    class Personal(Protocol):
        @system_message("You help {{visitor.tenant}}.")
        def ask(self, visitor: Annotated[Visitor, MemoryId], question: str) -> str: ...

    personal = create(Personal, ScriptedChatModel([]), interceptors=[ChatMemory()])
    assert preview(personal.ask, ANN, "x").messages[0].text == "You help museum."
    sample = sample_arguments(personal.ask)
    assert isinstance(sample["visitor"], Visitor)
    assert preview(personal.ask, **sample).messages[0].text == f"You help {sample['visitor'].tenant}."
