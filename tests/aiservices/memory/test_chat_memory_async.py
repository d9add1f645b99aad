"""ChatMemory in async calls that are resumed after an approval."""

from __future__ import annotations

from typing import Protocol

import pytest

from aiservices import (
    ApprovalRequiredError,
    Result,
    ScriptedChatModel,
    SuspendedCall,
    ToolCall,
    create,
    resume,
    tool,
)
from aiservices.memory import ChatMemory
from aiservices.models.messages import AiMessage, ChatReply, ToolMessage, UserMessage
from aiservices.retrieval import Content, Query, RetrievalAugmentor

LAMP = Content("The lamp burns oil.", "c1", {"page": 3}, 0.5)


class Keeper:
    """A retriever that returns the same content for every question."""

    def retrieve(self, query: Query) -> list[Content]:
        return [LAMP]


@tool(needs_approval=True)
def light(hours: int) -> str:
    """Lights the lamp."""
    return f"lit for {hours} h"


class Lighthouse(Protocol):
    def ask(self, question: str) -> Result[str]: ...


def test_a_call_resumed_in_another_process_sends_but_does_not_store_retrieved_text() -> None:
    call = ToolCall("1", "light", '{"hours": 2}')
    model = ScriptedChatModel([ChatReply(AiMessage("", (call,))), "It burns."])
    memory = ChatMemory()
    service = create(Lighthouse, model, tools=[light], interceptors=[memory, RetrievalAugmentor(Keeper())])
    with pytest.raises(ApprovalRequiredError) as caught:
        service.ask("What burns?")
    state = SuspendedCall.from_json(caught.value.state.to_json())
    result = resume(service.ask, state, {"1": True})
    assert (result.value, result.sources) == ("It burns.", (LAMP,))
    assert memory.messages() == (
        UserMessage("What burns?"),
        AiMessage("", (call,)),
        ToolMessage("1", "light", "lit for 2 h"),
        AiMessage("It burns."),
    )
    assert "The lamp burns oil." in model.requests[1].messages[0].text
