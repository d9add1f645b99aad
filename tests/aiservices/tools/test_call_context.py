"""The current call as an argument: of tools, error handlers, system messages and transforms."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Annotated, Any, Protocol

import pytest
from tool_calling import CALL_KINDS, TOOLS, every_call_kind, strict_provider, text_service, tool_calls_reply

from aiservices import (
    Budget,
    ChatReply,
    ChatRequest,
    DefinitionError,
    MemoryId,
    Price,
    Result,
    ScriptedChatModel,
    SharedBudget,
    SystemMessage,
    ToolCall,
    ToolContext,
    ToolErrors,
    ToolRun,
    Usage,
    UserName,
    create,
    preview,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.interceptors import Invocation, Remaining
from aiservices.models.errors import ToolError
from aiservices.tools.tool import Tool, tool, tools_of


class Chat(Protocol):
    @user_message("{{text}}")
    def chat(
        self, text: str, who: Annotated[str, MemoryId], speaker: Annotated[str, UserName] = "Ann"
    ) -> str: ...


def test_the_model_does_not_see_the_call_and_the_tool_call() -> None:
    def book(room: str, invocation: Invocation, call: ToolCall | None = None) -> None: ...

    (made,) = tools_of(book)
    assert isinstance(made, Tool)
    assert list((made.arguments.schema or {})["properties"]) == ["room"]


@every_call_kind
def test_a_tool_gets_the_call_and_the_tool_call(kind: str) -> None:
    seen: list[Any] = []

    def book(room: str, now: Invocation, call: ToolCall) -> str:
        seen.append((room, now.arguments, now.attempt_number, call, now.id, now.is_abandoned))
        return "booked"

    def book_again(now: Invocation) -> str:
        seen.append((now.attempt_number, now.id))
        return "booked"

    first, second = ("book", '{"room": "12"}', "c7"), ("book_again", "{}", "c8")
    model = strict_provider(tool_calls_reply(first), tool_calls_reply(second), "Done.")
    CALL_KINDS[kind](text_service(model, book, book_again))
    (room, arguments, number, call, call_id, is_abandoned), again = seen
    assert (room, arguments, number, is_abandoned) == ("12", {"text": "x"}, 1, False)
    assert call == ToolCall("c7", "book", '{"room": "12"}')
    assert again == (2, call_id)


def test_the_call_has_the_name_of_the_method_and_the_conversation() -> None:
    def where(now: Invocation) -> str:
        return f"{now.qualname} {now.memory_id} {now.user_name}"

    model = strict_provider(tool_calls_reply(("where", "{}")), "Done.")
    create(Chat, model, tools=[where]).chat("x", "room 1")
    assert model.requests[1].messages[-1].text == "Chat.chat room 1 Ann"


def test_the_memory_id_and_the_user_name_have_any_name() -> None:
    def note(text: str, conversation: Annotated[str, MemoryId], user: Annotated[str, UserName]) -> str:
        return f"{text} for {user} in {conversation}"

    model = strict_provider(tool_calls_reply(("note", '{"text": "lamp"}')), "Done.")
    create(Chat, model, tools=[note]).chat("x", "room 1", "Bob")
    assert model.requests[1].messages[-1].text == "lamp for Bob in room 1"


def test_a_parameter_of_the_same_name_is_not_the_memory_id() -> None:
    class Plain(Protocol):
        @user_message("{{conversation}}")
        def chat(self, conversation: str) -> str: ...

    def note(conversation: Annotated[str, MemoryId]) -> None: ...

    with pytest.raises(DefinitionError) as caught:
        create(Plain, strict_provider("x"), tools=[note])
    message = "Plain.chat: the tool note needs a MemoryId, and the method has no such parameter; add one"
    assert str(caught.value) == message


def test_a_method_of_a_service_is_a_tool_with_its_own_names() -> None:
    inner_model = strict_provider(tool_calls_reply(("where", "{}")), "inside")

    def where(id_of_talk: Annotated[str, MemoryId]) -> str:
        return id_of_talk

    class Inner(Protocol):
        @user_message("{{question}}")
        def ask(self, question: str, talk: Annotated[str, MemoryId]) -> str:
            """Ask."""
            ...

    inner = create(Inner, inner_model, tools=[where])
    model = strict_provider(tool_calls_reply(("ask", '{"question": "?"}')), "Done.")
    create(Chat, model, tools=[inner.ask]).chat("x", "room 1")
    assert inner_model.requests[1].messages[-1].text == "room 1"


def test_a_tool_of_an_agent_gets_the_call() -> None:
    def where(now: Invocation) -> str:
        return now.qualname

    model = strict_provider(tool_calls_reply(("where", "{}")), "Done.")
    ReActAgent("Friday", "Help.", model, [where]).reply("x")
    assert model.requests[1].messages[-1].text == "Friday.reply"


def replies_with_usage() -> ScriptedChatModel:
    called = tool_calls_reply(("left", "{}"))
    first = ChatReply(called.message, called.finish_reason, usage=Usage(60, 40))
    return ScriptedChatModel([first, "Done."], capabilities=TOOLS)


def test_what_remains_of_the_budget() -> None:
    seen: list[Remaining] = []

    def left(now: Invocation) -> None:
        seen.append(now.remaining)

    limits = Budget(
        max_attempts=2,
        seconds=60,
        tokens=1000,
        money=1.0,
        requests=5,
        prices={"scripted": Price(1000, 2000)},
    )
    service = create(AskText, replies_with_usage(), tools=[left], budget=limits)
    service.ask("x")
    create(AskText, replies_with_usage(), tools=[left]).ask("x")
    with SharedBudget(tokens=150, requests=9):
        create(AskText, replies_with_usage(), tools=[left], budget=Budget(requests=3)).ask("x")
    limited, unlimited, shared = seen
    assert limited.seconds is not None
    assert 50 < limited.seconds < 60
    assert limited._replace(seconds=None) == Remaining(2, None, 900, pytest.approx(0.86), 4)
    assert unlimited == Remaining(3)
    assert shared == Remaining(3, None, 50, None, 2)


class AskText(Protocol):
    def ask(self, text: str) -> str: ...

    async def aask(self, text: str) -> str: ...


def test_a_tool_in_a_thread_sees_that_the_call_was_cancelled() -> None:
    started, ended = threading.Event(), threading.Event()
    seen: list[bool] = []

    def work(now: Invocation) -> None:
        started.set()
        for _ in range(1000):
            if now.is_abandoned:
                break
            threading.Event().wait(0.01)
        seen.append(now.is_abandoned)
        ended.set()

    async def cancel() -> None:
        service = create(AskText, strict_provider(tool_calls_reply(("work", "{}"))), tools=[work])
        task = asyncio.ensure_future(service.aask("x"))
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(ended.wait, 10)

    asyncio.run(cancel())
    assert seen == [True]


# error handlers


def with_call(run: ToolRun, invocation: Invocation) -> str:
    return f"{run.name} failed in {invocation.qualname}"


def with_default(run: ToolRun, prefix: str = "Error") -> str:
    return f"{prefix}: {run.name}"


def with_optional_call(run: ToolRun, now: Invocation | None = None) -> str:
    return f"{run.name} failed in {now.qualname if now else '?'}"


def boom() -> None:
    """Fails."""
    raise ValueError("secret")


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (with_call, "boom failed in TextService.ask"),
        (with_default, "Error: boom"),
        (with_optional_call, "boom failed in TextService.ask"),
        (lambda run, turn: f"{run.name} {turn.qualname}", "boom TextService.ask"),
        (lambda *arguments: str(len(arguments)), "1"),
    ],
)
def test_an_error_handler_may_take_the_call(handler: Callable[..., str], text: str) -> None:
    model = strict_provider(tool_calls_reply(("boom", "{}"), ("nope", "{}")), "Done.")
    text_service(model, boom, tool_errors=ToolErrors(execution=handler, unknown=with_call)).ask("x")
    texts = [message.text for message in model.requests[1].messages[-2:]]
    assert texts == [text, "nope failed in TextService.ask"]


def test_the_signature_of_an_error_handler_is_checked() -> None:
    three: Any = lambda run, invocation, more: "x"  # noqa: E731
    with pytest.raises(DefinitionError) as caught:
        text_service(strict_provider("x"), boom, tool_errors=ToolErrors(execution=three))
    assert str(caught.value) == (
        "TextService: execution of ToolErrors is <lambda>, which cannot be called with (run) or "
        "(run, invocation): missing a required argument: 'more'"
    )


# system messages and transforms


def test_the_function_of_the_system_message_may_take_the_call() -> None:
    def system(text: str, now: Invocation) -> str:
        return f"{now.qualname} {text} {now.memory_id} {now.request.messages}"

    model = ScriptedChatModel(["Done."])
    service = create(Chat, model, system_message=system)
    service.chat("x", "room 1")
    assert model.requests[0].messages[0] == SystemMessage("Chat.chat x room 1 ()")
    assert preview(service.chat, "x", "room 1").messages[0] == SystemMessage("Chat.chat x room 1 ()")


def test_the_function_of_the_system_message_may_take_what_is_for_tools() -> None:
    class Desk(Protocol):
        @user_message("{{text}}")
        def ask(self, text: str, tenant: Annotated[str, ToolContext]) -> str: ...

    model = ScriptedChatModel(["Done."])
    create(Desk, model, system_message=lambda tenant: f"You work for {tenant}").ask("x", "Acme")
    assert model.requests[0].messages[0] == SystemMessage("You work for Acme")


def test_an_argument_of_the_name_invocation_stays_an_argument() -> None:
    class Reads(Protocol):
        @user_message("Read.")
        def read(self, invocation: str) -> str: ...

    model = ScriptedChatModel(["Done."])
    create(Reads, model, system_message=lambda invocation: invocation).read("the argument")
    assert model.requests[0].messages[0] == SystemMessage("the argument")


def test_a_transform_may_take_the_call() -> None:
    def transform(request: ChatRequest, invocation: Invocation) -> ChatRequest:
        return request.plus(SystemMessage(f"{invocation.qualname} {invocation.attempt_number}"))

    model = ScriptedChatModel(["no number", "1"])

    class Counts(Protocol):
        def count(self, text: str) -> Result[int]: ...

    service = create(Counts, model, transform=transform)
    service.count("x")
    last = [request.messages[-1].text for request in model.requests]
    assert last == ["Counts.count 0", "Counts.count 1"]
    assert preview(service.count, "x").messages[-1].text == "Counts.count 0"


def test_the_name_of_a_transform_that_returns_nothing_is_in_the_error() -> None:
    def forgets(request: ChatRequest, invocation: Invocation) -> Any: ...

    with pytest.raises(DefinitionError) as caught:
        text_service(ScriptedChatModel(["x"]), transform=forgets).ask("x")
    assert str(caught.value) == "TextService.ask: forgets returned NoneType; it must return a ChatRequest"


def test_a_resumed_call_without_the_context_is_an_error_of_the_tool() -> None:
    from aiservices import ApprovalRequiredError, resume

    @tool(needs_approval=True)
    def pay(account: Annotated[str, ToolContext], talk: Annotated[str, MemoryId]) -> str:
        """Pays."""
        return f"{account} {talk}"

    class Bank(Protocol):
        @user_message("{{text}}")
        def ask(
            self, text: str, account: Annotated[str, ToolContext], who: Annotated[str, MemoryId]
        ) -> str: ...

    model = strict_provider(tool_calls_reply(("pay", "{}")), "Done.")
    bank = create(Bank, model, tools=[pay])
    with pytest.raises(ApprovalRequiredError) as waits:
        bank.ask("x", "A1", "room 1")
    with pytest.raises(ToolError, match="the tool pay needs account, which the call does not provide"):
        resume(bank.ask, waits.value.state, True)
    resume(bank.ask, waits.value.state, True, account="A1")
    assert model.requests[1].messages[-1].text == "A1 room 1"
