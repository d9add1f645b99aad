"""ChatMemory stores tool rounds completely or not at all, also in calls that are resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Protocol
from uuid import UUID

import pytest

from aiservices import (
    AiMessage,
    AiServiceError,
    AlreadyResumedError,
    ChatReply,
    Denied,
    FinishReason,
    MemoryId,
    Message,
    RefusalError,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
)
from aiservices.engine.approval import ApprovalRequiredError, SuspendedCall
from aiservices.memory import ChatMemory, ChatMemoryStore, InMemoryChatMemoryStore, SqliteChatMemoryStore
from aiservices.models.errors import ToolError, ToolLimitError
from aiservices.service.methods import resume
from aiservices.tools.tool import ReturnBehavior, ToolErrors, ToolException, ToolRun, tool
from aiservices.tools.toolbox import ToolLimits


class Chat(Protocol):
    def chat(self, id: Annotated[str, MemoryId], text: str) -> str: ...


CALL = ToolCall("c1", "weather", '{"city": "Oslo"}')
CALLING = AiMessage("", (CALL,))
RESULT = ToolMessage("c1", "weather", "rain in Oslo")
EXCHANGE: tuple[Message, ...] = (UserMessage("x"), CALLING, RESULT, AiMessage("it rains"))


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def calling(*calls: ToolCall) -> ChatReply:
    return ChatReply(AiMessage("", calls), FinishReason.TOOL_CALLS)


def test_tool_calls_and_results_are_stored_with_the_answer() -> None:
    memory, model = ChatMemory(), ScriptedChatModel([calling(CALL), "it rains", "bye"])
    chat = create(Chat, model, tools=[weather], interceptors=[memory])
    chat.chat("a", "x")
    chat.chat("a", "y")
    assert memory.messages("a") == (*EXCHANGE, UserMessage("y"), AiMessage("bye"))
    assert model.requests[2].messages == (*EXCHANGE, UserMessage("y"))


def test_text_beside_a_call_of_a_tool_that_was_not_offered_is_stored_as_the_answer() -> None:
    class Numbers(Protocol):
        def number(self, text: str) -> int: ...

    memory = ChatMemory()
    model = ScriptedChatModel([ChatReply(AiMessage("42", (ToolCall("c1", "search", '{"query": 1}'),)))])
    assert create(Numbers, model, interceptors=[memory]).number("x") == 42
    assert memory.messages() == (UserMessage("x"), AiMessage("42"))


def test_a_tool_result_that_is_the_answer_is_stored_as_the_answer() -> None:
    @tool(return_behavior=ReturnBehavior.IMMEDIATE)
    def weather(city: str) -> str:
        return f"rain in {city}"

    memory = ChatMemory()
    chat = create(Chat, ScriptedChatModel([calling(CALL)]), tools=[weather], interceptors=[memory])
    assert chat.chat("a", "x") == "rain in Oslo"
    assert memory.messages("a") == (UserMessage("x"), CALLING, RESULT, AiMessage("rain in Oslo"))


def ending(run: ToolRun) -> str:
    raise ToolError("ended", call=run.call)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (ToolCall("c1", "wetter", "{}"), ToolError),
        (ToolCall("c1", "weather", '{"town": 1}'), ToolError),
        (ToolCall("c1", "failing", "{}"), ToolError),
    ],
)
def test_a_tool_that_ends_the_call_leaves_no_dangling_call(call: ToolCall, kind: type[Exception]) -> None:
    def failing() -> str:
        """Fails."""
        raise ToolException("no")

    memory = ChatMemory()
    chat = create(
        Chat,
        ScriptedChatModel([calling(CALL), calling(call), "fine"]),
        tools=[weather, failing],
        tool_errors=ToolErrors(ending, ending, ending),
        interceptors=[memory],
    )
    with pytest.raises(kind):
        chat.chat("a", "x")
    assert memory.messages("a") == ()
    chat.chat("a", "y")
    assert memory.messages("a") == (UserMessage("y"), AiMessage("fine"))


def test_a_call_that_exceeds_the_tool_limit_stores_nothing() -> None:
    memory = ChatMemory()
    model = ScriptedChatModel(lambda request: calling(CALL))
    chat = create(Chat, model, tools=[weather], tool_limits=ToolLimits(max_rounds=2), interceptors=[memory])
    with pytest.raises(ToolLimitError):
        chat.chat("a", "x")
    assert memory.messages("a") == ()


def test_a_tool_that_calls_into_its_own_conversation_gets_an_error_and_does_not_deadlock() -> None:
    told: list[str] = []

    def weather(city: str) -> str:
        """The weather of a city."""
        try:
            return chat.chat("a", city)
        except Exception as error:
            told.append(str(error))
            return chat.chat("another", city)

    memory = ChatMemory()
    model = ScriptedChatModel([calling(CALL), "rain in Oslo", "it rains"])
    chat: Any = create(Chat, model, tools=[weather], interceptors=[memory])
    assert chat.chat("a", "x") == "it rains"
    assert told == [
        "the conversation 'Chat/a' is busy: this call is made inside another call of the same conversation "
        "and would wait for itself"
    ]
    assert memory.messages("a") == EXCHANGE


@tool(needs_approval=True)
def refund(euros: int) -> str:
    """Pay money back."""
    return f"paid {euros}"


REFUND = ToolCall("r1", "refund", '{"euros": 5}')
PAID: tuple[Message, ...] = (
    UserMessage("pay"),
    AiMessage("", (REFUND,)),
    ToolMessage("r1", "refund", "paid 5"),
    AiMessage("done"),
)


def waiting(memory: ChatMemory, model: ScriptedChatModel) -> tuple[Chat, SuspendedCall]:
    chat = create(Chat, model, tools=[refund], interceptors=[memory])
    assert chat.chat("a", "x") == "hi"
    with pytest.raises(ApprovalRequiredError) as caught:
        chat.chat("a", "pay")
    assert memory.messages("a") == (UserMessage("x"), AiMessage("hi"))
    return chat, SuspendedCall.from_json(caught.value.state.to_json())


def test_a_resumed_call_is_stored_completely_and_loads_the_past_once() -> None:
    memory, model = ChatMemory(), ScriptedChatModel(["hi", calling(REFUND), "done"])
    chat, state = waiting(memory, model)
    assert resume(chat.chat, state, {"r1": True}) == "done"  # type: ignore[call-arg, arg-type]
    assert model.requests[2].messages == (UserMessage("x"), AiMessage("hi"), *PAID[:-1])
    assert memory.messages("a") == (UserMessage("x"), AiMessage("hi"), *PAID)


def test_other_calls_use_the_conversation_while_a_call_waits_for_approval() -> None:
    memory, model = ChatMemory(), ScriptedChatModel(["hi", calling(REFUND), "meanwhile", "done"])
    chat, state = waiting(memory, model)
    chat.chat("a", "y")
    resume(chat.chat, state, {"r1": True})  # type: ignore[call-arg, arg-type]
    between = (UserMessage("y"), AiMessage("meanwhile"))
    assert memory.messages("a") == (UserMessage("x"), AiMessage("hi"), *between, *PAID)


def test_a_call_that_waits_twice_is_stored_once() -> None:
    again = ToolCall("r2", "refund", '{"euros": 6}')
    memory, model = ChatMemory(), ScriptedChatModel(["hi", calling(REFUND), calling(again), "done"])
    chat, state = waiting(memory, model)
    with pytest.raises(ApprovalRequiredError) as caught:
        resume(chat.chat, state, {"r1": True})  # type: ignore[call-arg, arg-type]
    assert len(memory.messages("a")) == 2
    resume(chat.chat, caught.value.state, {"r2": Denied("too much")})  # type: ignore[call-arg, arg-type]
    assert memory.messages("a")[2:] == (
        *PAID[:-1],
        AiMessage("", (again,)),
        ToolMessage("r2", "refund", "The call was not approved: too much.", failed=True),
        AiMessage("done"),
    )


def test_a_state_is_resumed_once_with_a_memory() -> None:
    memory, model = ChatMemory(), ScriptedChatModel(["hi", calling(REFUND), "done"])
    chat, state = waiting(memory, model)
    resume(chat.chat, state, {"r1": True})  # type: ignore[call-arg, arg-type]
    with pytest.raises(AlreadyResumedError) as caught:
        resume(chat.chat, state, {"r1": True})  # type: ignore[call-arg, arg-type]
    expected = f"the suspended call {state.id} was resumed before; its tools do not run again"
    assert str(caught.value) == f"Chat.chat: {expected}"
    assert memory.messages("a") == (UserMessage("x"), AiMessage("hi"), *PAID)
    assert len(model.requests) == 3


def test_a_second_resumption_does_not_undo_the_tools_of_the_first() -> None:
    log: list[str] = []

    @tool(compensate=lambda: log.append("undo"))
    def book() -> str:
        log.append("book")
        return "room"

    calls = ChatReply(AiMessage("", (ToolCall("b1", "book", "{}"),)))
    model = ScriptedChatModel([calls, calling(REFUND), "done"])
    chat = create(Chat, model, tools=[book, refund], interceptors=[ChatMemory()])
    with pytest.raises(ApprovalRequiredError) as waiting:
        chat.chat("a", "x")
    assert resume(chat.chat, waiting.value.state, {"r1": True}) == "done"  # type: ignore[call-arg, arg-type]
    with pytest.raises(AlreadyResumedError) as again:
        resume(chat.chat, waiting.value.state, {"r1": True})  # type: ignore[call-arg, arg-type]
    assert (log, again.value.undone_runs) == (["book"], ())


def test_a_resumed_call_that_failed_is_not_resumed_again(opened: Callable[[], ChatMemoryStore]) -> None:
    model = ScriptedChatModel(["hi", calling(REFUND), ChatReply(AiMessage(""), refusal="no"), "done"])
    _, state = waiting(ChatMemory(store=opened()), model)
    errors = []
    for _ in range(2):  # each time as in another process
        chat = create(Chat, model, tools=[refund], interceptors=[ChatMemory(store=opened())])
        with pytest.raises(AiServiceError) as caught:
            resume(chat.chat, state, {"r1": True})  # type: ignore[call-arg, arg-type]
        errors.append(type(caught.value))
    assert errors == [RefusalError, AlreadyResumedError]


def test_conversations_does_not_list_resumed_states(tmp_path: Path) -> None:
    for store in (InMemoryChatMemoryStore(), SqliteChatMemoryStore(tmp_path / "memory.db")):
        chat, state = waiting(ChatMemory(store=store), ScriptedChatModel(["hi", calling(REFUND), "done"]))
        resume(chat.chat, state, {"r1": True})  # type: ignore[call-arg, arg-type]
        assert len(store.conversations()) == 1


def test_damaged_data_of_the_memory_in_a_state_is_an_error() -> None:
    chat, state = waiting(ChatMemory(), ScriptedChatModel(["hi", calling(REFUND), "done"]))
    damaged = state._replace(interceptor_data={"memory.asked": {"type": "ai", "text": "x"}})
    with pytest.raises(ValueError, match="damaged") as caught:
        resume(chat.chat, damaged, {"r1": True})  # type: ignore[call-arg, arg-type]
    expected = (
        """$.kept["memory.asked"] is not what was stored there: ValueError('it is not a user message')"""
    )
    assert str(caught.value) == f"Chat.chat: the suspended call is damaged: {expected}"


def test_a_state_with_a_uuid_as_memory_id_is_resumed_in_the_same_conversation() -> None:
    class Chats(Protocol):
        def chat(self, id: Annotated[UUID, MemoryId], text: str) -> str: ...

    memory, id = ChatMemory(), UUID(int=7)
    model = ScriptedChatModel([calling(ToolCall("c1", "refund", '{"euros": 5}')), "done"])
    chat = create(Chats, model, tools=[refund], interceptors=[memory])
    with pytest.raises(ApprovalRequiredError) as caught:
        chat.chat(id, "x")
    state = SuspendedCall.from_json(caught.value.state.to_json())
    assert resume(chat.chat, state, {"c1": True}) == "done"
    assert [one.text for one in memory.messages(str(id))] == ["x", "", "paid 5", "done"]
