"""Guards with tools and memory: rejected text is not stored, and no tool runs twice."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    ChatReply,
    MemoryId,
    Message,
    Result,
    ReturnBehavior,
    ScriptedChatModel,
    SuspendedCall,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
    resume,
    tool,
    user_message,
)
from aiservices.guardrails import (
    GuardrailError,
    InputGuardrails,
    OutputGuardrails,
    forbidden,
    masked,
    passed,
    reprompt,
    retry,
    rewritten,
)
from aiservices.interceptors import Invocation
from aiservices.memory import ChatMemory

NOT_A = forbidden("a", otherwise=reprompt)
AGAIN = "the text contains 'a', which is forbidden"


class Chat(Protocol):
    def chat(self, text: str) -> Result[str]: ...


class Counter(Protocol):
    def count(self, text: str) -> int: ...


def calling(id: str, name: str = "look", arguments: str = "{}") -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall(id, name, arguments),)))


def called(id: str, text: str, name: str = "look") -> tuple[Message, ...]:
    return AiMessage("", (ToolCall(id, name, "{}"),)), ToolMessage(id, name, text)


class Looking:
    """A tool that counts its calls."""

    def __init__(self) -> None:
        self.times = 0

    @tool
    def look(self) -> str:
        """Look."""
        self.times += 1
        return f"look {self.times}"


def remembering(*replies: Any, guards: Any, tools: Any = (), **settings: Any) -> tuple[Any, Any, Any]:
    memory, model = ChatMemory(), ScriptedChatModel(replies)
    service = create(Chat, model, interceptors=[memory, guards], tools=tools, **settings)
    return service, model, memory


def test_memory_stores_only_the_accepted_answer() -> None:
    service, model, memory = remembering("a", "b", "c", guards=OutputGuardrails(NOT_A))
    assert service.chat("x").value == "b"
    assert memory.messages() == (UserMessage("x"), AiMessage("b"))
    service.chat("y")
    assert model.requests[2].messages == (UserMessage("x"), AiMessage("b"), UserMessage("y"))


def test_memory_stores_the_rewritten_answer() -> None:
    service, _, memory = remembering("a SECRET", guards=OutputGuardrails(masked("secret")))
    service.chat("x")
    assert memory.messages() == (UserMessage("x"), AiMessage("a ***"))


def test_memory_stores_nothing_of_a_refused_call() -> None:
    service, _, memory = remembering("a", guards=OutputGuardrails(forbidden("a")))
    with pytest.raises(GuardrailError):
        service.chat("x")
    assert memory.messages() == ()


def test_memory_stores_the_rewritten_user_message() -> None:
    memory = ChatMemory()
    guards = InputGuardrails(masked("SECRET"))
    service = create(Chat, ScriptedChatModel(["b", "c"]), interceptors=[guards, memory])
    service.chat("my SECRET")
    service.chat("and SECRET")
    assert memory.messages() == (
        UserMessage("my ***"),
        AiMessage("b"),
        UserMessage("and ***"),
        AiMessage("c"),
    )


def test_the_guards_of_one_conversation_do_not_affect_another() -> None:
    class Talk(Protocol):
        @user_message("{{text}}")
        def chat(self, who: Annotated[str, MemoryId], text: str) -> str: ...

    memory = ChatMemory()
    model = ScriptedChatModel(["a", "b", "c"])
    service = create(Talk, model, interceptors=[memory, OutputGuardrails(NOT_A)])
    assert (service.chat("ann", "x"), service.chat("bo", "y")) == ("b", "c")
    assert model.requests[2].messages == (UserMessage("y"),)


def test_a_reprompt_without_memory_sends_the_whole_conversation() -> None:
    model = ScriptedChatModel(["a", "b"])
    create(Chat, model, interceptors=[OutputGuardrails(NOT_A)], system_message="Be brief.").chat("x")
    assert [message.text for message in model.requests[1].messages] == ["Be brief.", "x", "a", AGAIN]


@pytest.mark.parametrize("again", [reprompt, retry])
def test_tools_that_ran_before_a_rejected_answer_do_not_run_again(again: Any) -> None:
    looking = Looking()
    guards = OutputGuardrails(forbidden("a", otherwise=again))
    service, model, memory = remembering(calling("1"), "a", "b", guards=guards, tools=[looking])
    result = service.chat("x")
    rounds, feedback = called("1", "look 1"), (AiMessage("a"), UserMessage(AGAIN))
    assert (result.value, looking.times, len(result.tool_runs)) == ("b", 1, 1)
    assert model.requests[2].messages == (UserMessage("x"), *rounds, *(feedback if again is reprompt else ()))
    assert memory.messages() == (UserMessage("x"), *rounds, AiMessage("b"))


def test_rounds_of_tools_on_both_sides_of_a_rejected_answer_stay_in_order() -> None:
    looking = Looking()
    replies = [calling("1"), "a", calling("2"), "a", "b"]
    service, model, memory = remembering(*replies, guards=OutputGuardrails(NOT_A), tools=[looking])
    service.chat("x")
    first, second = called("1", "look 1"), called("2", "look 2")
    rejected = (AiMessage("a"), UserMessage(AGAIN))
    assert model.requests[4].messages == (UserMessage("x"), *first, *rejected, *second, *rejected)
    assert memory.messages() == (UserMessage("x"), *first, *second, AiMessage("b"))


def test_an_unreadable_answer_after_a_rejected_one_repeats_no_round() -> None:
    looking = Looking()
    model = ScriptedChatModel([calling("1"), "1", "many", "2"])
    guards = OutputGuardrails(forbidden("1", otherwise=reprompt))
    service = create(Counter, model, interceptors=[guards], tools=[looking], strategy="prompt")
    assert service.count("x") == 2
    ids = [m.call_id for m in model.requests[3].messages if isinstance(m, ToolMessage)]
    assert (ids, looking.times) == (["1"], 1)


@pytest.mark.parametrize("again", [reprompt, retry])
def test_a_rejected_tool_result_is_not_stored(again: Any) -> None:
    class Ending:
        @tool(return_behavior=ReturnBehavior.IMMEDIATE)
        def end(self) -> str:
            """End."""
            return "a"

    looking = Looking()
    guards = OutputGuardrails(forbidden("a", otherwise=again))
    replies = [calling("1"), calling("2", "end"), "b"]
    service, model, memory = remembering(*replies, guards=guards, tools=[looking, Ending()])
    assert service.chat("x").value == "b"
    before, ended = called("1", "look 1"), called("2", "a", "end")
    feedback = (*ended, UserMessage(AGAIN)) if again is reprompt else ()
    assert model.requests[2].messages == (UserMessage("x"), *before, *feedback)
    assert memory.messages() == (UserMessage("x"), *before, AiMessage("b"))


def test_a_rewritten_tool_result_is_stored() -> None:
    @tool(return_behavior=ReturnBehavior.IMMEDIATE)
    def end() -> str:
        """End."""
        return "a SECRET"

    guards = OutputGuardrails(masked("secret"))
    service, _, memory = remembering(calling("1", "end"), guards=guards, tools=[end])
    assert service.chat("x").value == "a ***"
    assert "SECRET" not in repr(memory.messages())


def test_two_output_guardrails_keep_the_rounds_of_each_other() -> None:
    looking = Looking()
    outer = OutputGuardrails(forbidden("b", otherwise=reprompt))
    model = ScriptedChatModel([calling("1"), "a", calling("2"), "b", "c"])
    memory = ChatMemory()
    interceptors = [memory, outer, OutputGuardrails(NOT_A)]
    service = create(Chat, model, interceptors=interceptors, tools=[looking])
    service.chat("x")
    first, second = called("1", "look 1"), called("2", "look 2")
    assert memory.messages() == (UserMessage("x"), *first, *second, AiMessage("c"))
    assert model.requests[4].messages == (
        UserMessage("x"),
        *first,
        *second,
        AiMessage("b"),
        UserMessage("the text contains 'b', which is forbidden"),
    )


def test_a_resumed_call_runs_output_guards_but_not_input_guards() -> None:
    ran: list[str] = []

    @tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    def note(text: str, invocation: Invocation) -> Any:
        ran.append(text)
        return rewritten(f"<{text}>")

    model = ScriptedChatModel(["a", calling("1", "pay"), "a", "b"])
    guards = [InputGuardrails(note), OutputGuardrails(NOT_A)]
    service = create(Chat, model, interceptors=guards, tools=[pay])
    with pytest.raises(ApprovalRequiredError) as caught:
        service.chat("x")
    state = SuspendedCall.from_json(caught.value.state.to_json())
    assert resume(service.chat, state, {"1": True}).value == "b"
    assert ran == ["x"]
    rejected = (AiMessage("a"), UserMessage(AGAIN))
    assert model.requests[3].messages == (
        UserMessage("<x>"),
        *rejected,
        *called("1", "paid", "pay"),
        *rejected,
    )


def test_input_guards_after_output_guards_check_the_user_message_and_not_a_reprompt() -> None:
    seen: list[str] = []

    def note(text: str, invocation: Invocation) -> Any:
        seen.append(text)
        return rewritten("y")

    model = ScriptedChatModel(["a", "b"])
    create(Chat, model, interceptors=[OutputGuardrails(NOT_A), InputGuardrails(note)]).chat("x")
    assert seen == ["x", "x"]
    assert model.requests[1].messages == (UserMessage("y"), AiMessage("a"), UserMessage(AGAIN))


def test_a_guard_gets_the_invocation() -> None:
    def check_invocation(text: str, invocation: Invocation) -> Any:
        assert (invocation.plan.qualname, dict(invocation.arguments)) == ("Chat.chat", {"text": "x"})
        return passed()

    guards = [InputGuardrails(check_invocation), OutputGuardrails(check_invocation)]
    assert create(Chat, ScriptedChatModel(["a"]), interceptors=guards).chat("x").value == "a"
