"""Calls that wait for an approval or a result inside services that are used as tools."""

from __future__ import annotations

import asyncio
import functools
import json
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    ChatReply,
    DefinitionError,
    Denied,
    FinishReason,
    InnerCalls,
    MemoryId,
    Result,
    ScriptedChatModel,
    Stream,
    SuspendedCall,
    SuspendedCallError,
    ToolCall,
    ToolContext,
    ToolFinished,
    ToolMessage,
    ToolRun,
    ToolStarted,
    Usage,
    create,
    resume,
    tool,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.interceptors import Flow, ToolInvocation, ToolProceed
from aiservices.memory import ChatMemory


class Helper(Protocol):
    @user_message("{{question}}")
    def ask(self, question: str) -> str:
        """Answer a question."""
        ...


class AsyncHelper(Protocol):
    @user_message("{{question}}")
    async def ask(self, question: str) -> str:
        """Answer a question."""
        ...


class Desk(Protocol):
    @user_message("{{text}}")
    def answer(self, text: str) -> Result[str]: ...

    @user_message("{{text}}")
    def stream(self, text: str) -> Stream[str]: ...


class AsyncDesk(Protocol):
    @user_message("{{text}}")
    async def answer(self, text: str) -> Result[str]: ...


class Till:
    """Tools that count how often they run."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    @tool(needs_approval=True)
    def pay(self, amount: int) -> str:
        """Pay an amount."""
        self.runs.append(f"pay {amount}")
        return f"paid {amount}"

    @tool
    def look(self, amount: int) -> str:
        """Look something up."""
        self.runs.append(f"look {amount}")
        return f"seen {amount}"

    @tool(external=True)
    def choose(self, amount: int) -> int:
        """Let a person choose an amount."""
        raise AssertionError


def ask(*names: str, arguments: str = '{"question": "Why?"}') -> ChatReply:
    calls = tuple(ToolCall(f"c{number}", name, arguments) for number, name in enumerate(names))
    return ChatReply(AiMessage("", tool_calls=calls), FinishReason.TOOL_CALLS, Usage(10, 0), "fake")


def use(*names: str, amount: int = 5) -> ChatReply:
    return ask(*names, arguments=json.dumps({"amount": amount}))


def model(*replies: ChatReply | str) -> ScriptedChatModel:
    return ScriptedChatModel(
        [
            ChatReply(AiMessage(reply), FinishReason.STOP, Usage(10, 0), "fake")
            if isinstance(reply, str)
            else reply
            for reply in replies
        ]
    )


def waiting(call: Callable[[], Any]) -> ApprovalRequiredError:
    with pytest.raises(ApprovalRequiredError) as caught:
        call()
    return caught.value


def stored(state: SuspendedCall) -> SuspendedCall:
    return SuspendedCall.from_json(state.to_json(key="secret"), key="secret")


def three_levels(till: Till, *replies: ChatReply | str) -> Desk:
    """A desk that asks a helper, which asks another helper, which has the till."""
    deep = create(Helper, model(*replies), tools=[till])
    middle = create(Helper, model(ask("deeper"), "middle"), tools=[tool(name="deeper")(deep.ask)])
    return create(Desk, model(ask("ask"), "done"), tools=[middle.ask])


def test_an_approval_three_levels_deep_suspends_and_resumes_the_outer_call() -> None:
    till = Till()
    desk = three_levels(till, use("pay"), "deep")
    error = waiting(lambda: desk.answer("Hi"))
    assert str(error) == 'Desk.answer: approval required for pay({"amount": 5}); continue with resume'
    assert [(call.id, call.name) for call in error.calls] == [("c0/c0/c0", "pay")]
    assert (error.state.pending, list(error.state.inner)) == ((), ["c0"])
    assert till.runs == []
    result = resume(desk.answer, stored(error.state), {"c0/c0/c0": True})
    assert (result.value, till.runs) == ("done", ["pay 5"])
    assert [(run.name, run.result) for run in result.tool_runs] == [("ask", "middle")]
    usages = [error.usage, result.usage]
    assert [usage.total_tokens for usage in usages if usage is not None] == [30, 30]


def test_true_and_false_decide_about_all_calls_at_all_levels() -> None:
    till = Till()
    desk = three_levels(till, use("pay"), "deep")
    state = waiting(lambda: desk.answer("Hi")).state
    assert resume(desk.answer, state, False).value == "done"
    assert till.runs == []


def test_a_reason_reaches_the_inner_model() -> None:
    inner = model(use("pay"), "deep")
    helper = create(Helper, inner, tools=[Till()])
    desk = create(Desk, model(ask("ask"), "done"), tools=[helper.ask])
    state = waiting(lambda: desk.answer("Hi")).state
    resume(desk.answer, state, {"c0/c0": Denied("too much")})
    assert inner.requests[-1].messages[-1].text == "The call was not approved: too much."


def test_an_external_tool_inside_waits_for_its_result() -> None:
    till = Till()
    inner = model(use("choose", "pay"), "deep")
    desk = create(Desk, model(ask("ask"), "done"), tools=[create(Helper, inner, tools=[till]).ask])
    error = waiting(lambda: desk.answer("Hi"))
    assert ([c.id for c in error.calls], [c.id for c in error.external_calls]) == (["c0/c1"], ["c0/c0"])
    with pytest.raises(ValueError, match="results has no value for c0/c0"):
        resume(desk.answer, error.state, True)
    with pytest.raises(ValueError, match=r"Helper\.ask: the result for c0 does not fit the tool choose"):
        resume(desk.answer, error.state, True, results={"c0/c0": "many"})
    assert till.runs == []
    assert resume(desk.answer, stored(error.state), True, results={"c0/c0": 7}).value == "done"
    assert [message.text for message in inner.requests[-1].messages[-2:]] == ["7", "paid 5"]


def test_results_of_finished_tools_are_kept_when_others_of_the_round_wait() -> None:
    till, events = Till(), list[Any]()
    first = create(Helper, model(use("pay", amount=1), "one"), tools=[till])
    second = create(Helper, model("two"))
    third = create(Helper, model(use("pay", amount=3), use("pay", amount=4), "three"), tools=[till])
    outer = model(ask("a", "b", "c", "look"), "done")
    tools = [tool(name="a")(first.ask), tool(name="b")(second.ask), tool(name="c")(third.ask)]

    def look(question: str) -> str:
        """Look something up."""
        till.runs.append("look")
        return "seen"

    desk = create(Desk, outer, tools=[*tools, look], listeners=[events.append])
    error = waiting(lambda: desk.answer("Hi"))
    assert [call.id for call in error.calls] == ["c0/c0", "c2/c0"]
    assert [message.text for message in error.state.finished] == ["two", "seen"]
    assert {event.run.name for event in events if isinstance(event, ToolFinished)} == {"b", "look"}
    events.clear()
    error = waiting(lambda: resume(desk.answer, stored(error.state), True))
    assert [call.id for call in error.calls] == ["c2/call_2"]
    assert [message.text for message in error.state.finished] == ["one", "two", "seen"]
    assert {event.call.name for event in events if isinstance(event, ToolStarted)} == {"a", "c"}
    result = resume(desk.answer, stored(error.state), True)
    assert (result.value, sorted(till.runs)) == ("done", ["look", "pay 1", "pay 3", "pay 4"])
    assert [m.text for m in outer.requests[-1].messages[-4:]] == ["one", "two", "three", "seen"]
    assert [(run.name, run.result) for run in result.tool_runs] == [
        ("a", "one"), ("b", "two"), ("c", "three"), ("look", "seen")
    ]  # fmt: skip


def test_a_failed_tool_beside_a_waiting_one_stays_failed() -> None:
    def broken(question: str) -> str:
        raise OSError("secret")

    outer = model(ask("ask", "broken"), "done")
    desk = create(Desk, outer, tools=[create(Helper, model(use("pay"), "deep"), tools=[Till()]).ask, broken])
    state = waiting(lambda: desk.answer("Hi")).state
    result = resume(desk.answer, stored(state), True)
    message = outer.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert (message.text, message.failed) == ("The tool broken failed.", True)
    assert result.tool_runs[1].error is not None


def test_async_services_wait_and_resume() -> None:
    till = Till()
    helper = create(AsyncHelper, model(use("pay"), "deep"), tools=[till])
    desk = create(AsyncDesk, model(ask("ask"), "done"), tools=[helper.ask])
    error = waiting(lambda: asyncio.run(desk.answer("Hi")))
    assert asyncio.run(resume(desk.answer, stored(error.state), True)).value == "done"
    assert till.runs == ["pay 5"]


def test_streams_wait_and_resume() -> None:
    class Teller(Protocol):
        @user_message("{{question}}")
        def ask(self, question: str) -> Iterator[str]:
            """Answer a question."""
            ...

    till = Till()
    teller = create(Teller, model(use("pay"), "deep"), tools=[till])
    desk = create(Desk, model(ask("ask"), "done"), tools=[teller.ask])
    error = waiting(lambda: desk.stream("Hi").result())
    result = resume(desk.stream, stored(error.state), True).result()
    assert (result.value, result.tool_runs[0].result, till.runs) == ("done", "deep", ["pay 5"])


def test_the_answer_can_be_the_result_of_a_tool_that_had_finished() -> None:
    class Numbers(Protocol):
        @user_message("{{question}}")
        def number(self, question: str) -> int:
            """Find a number."""
            ...

    class Sum(Protocol):
        @user_message("{{text}}")
        def total(self, text: str) -> int: ...

    till = Till()
    number = create(Numbers, model("41"))
    payer = create(Numbers, model(use("pay"), "41"), tools=[till])
    immediate = tool(name="number", return_behavior="immediate")(number.number)
    also = tool(name="payer", return_behavior="immediate")(payer.number)
    service = create(Sum, model(ask("number", "payer")), tools=[immediate, also])
    state = waiting(lambda: service.total("Hi")).state
    assert resume(service.total, stored(state), True) == 41


def test_tools_inside_get_the_arguments_of_the_inner_call_again() -> None:
    seen = []

    class Clerk(Protocol):
        @user_message("{{question}}")
        def ask(self, question: str, customer: Annotated[str, ToolContext]) -> str:
            """Answer a question."""
            ...

    class Office(Protocol):
        @user_message("{{text}}")
        def answer(self, text: str, customer: Annotated[str, ToolContext]) -> str: ...

    @tool(needs_approval=True)
    def pay(amount: int, customer: Annotated[str, ToolContext]) -> str:
        """Pay."""
        seen.append(customer)
        return "paid"

    clerk = create(Clerk, model(use("pay"), "deep"), tools=[pay])
    office = create(Office, model(ask("ask"), "done"), tools=[clerk.ask])
    state = waiting(lambda: office.answer("Hi", "Ann")).state
    assert resume(office.answer, stored(state), True, customer="Ann") == "done"
    assert seen == ["Ann"]


def test_conversations_of_both_services_are_stored_once() -> None:
    class Clerk(Protocol):
        @user_message("{{question}}")
        def ask(self, question: str, customer: Annotated[str, MemoryId]) -> str:
            """Answer a question."""
            ...

    class Office(Protocol):
        @user_message("{{text}}")
        def answer(self, text: str, customer: Annotated[str, MemoryId]) -> str: ...

    till, inner, outer = Till(), ChatMemory(), ChatMemory()
    clerk = create(Clerk, model(use("pay"), "deep", "again"), tools=[till], interceptors=[inner])
    office = create(Office, model(ask("ask"), "done", "end"), tools=[clerk.ask], interceptors=[outer])
    state = waiting(lambda: office.answer("Hi", "Ann")).state
    assert resume(office.answer, stored(state), True) == "done"
    texts = [[message.text for message in memory.messages("Ann")] for memory in (inner, outer)]
    assert texts == [["Why?", "", "paid 5", "deep"], ["Hi", "", "deep", "done"]]
    with pytest.raises(Exception, match="was resumed before"):
        resume(office.answer, stored(state), True)
    assert till.runs == ["pay 5"]


def test_an_inner_call_that_was_resumed_before_ends_the_outer_call() -> None:
    class Clerk(Protocol):
        @user_message("{{question}}")
        def ask(self, question: str) -> str:
            """Answer a question."""
            ...

    till = Till()
    clerk = create(Clerk, model(use("pay"), "deep", "deep"), tools=[till], interceptors=[ChatMemory()])
    desk = create(Desk, model(ask("ask"), "done", "done"), tools=[clerk.ask])
    state = waiting(lambda: desk.answer("Hi")).state
    resume(desk.answer, state, True)
    with pytest.raises(Exception, match="was resumed before"):
        resume(desk.answer, state, True)
    assert till.runs == ["pay 5"]


def test_an_agent_waits_for_the_services_that_are_its_tools() -> None:
    till, acted = Till(), list[str]()
    helper = create(Helper, model(use("pay"), "deep"), tools=[till])
    agent = ReActAgent("bob", "You help.", model(ask("ask"), "done"), [helper.ask])
    agent.on("post_acting", lambda run: acted.append(run.text))
    error = waiting(lambda: agent.reply("Hi"))
    assert acted == []
    reply = agent.resume(stored(error.state), {"c0/c0": True})
    assert (reply.content, till.runs, acted) == ("done", ["pay 5"], ["deep"])
    assert reply.trace[0].runs[0].result == "deep"


def test_a_tool_with_fixed_arguments_waits() -> None:
    till = Till()
    helper = create(Helper, model(use("pay"), "deep"), tools=[till])
    fixed = tool(name="fixed")(partial(helper.ask, question="Why?"))
    desk = create(Desk, model(ask("fixed", arguments="{}"), "done"), tools=[fixed])
    assert resume(desk.answer, waiting(lambda: desk.answer("Hi")).state, True).value == "done"
    assert till.runs == ["pay 5"]


def test_ids_with_slashes_are_not_confused() -> None:
    till = Till()
    calls = tuple(ToolCall(call_id, "ask", '{"question": "?"}') for call_id in ("a", "a/b", "a%2Fb"))
    inner = [ToolCall("b/c", "pay", '{"amount": 1}'), ToolCall("c", "pay", '{"amount": 2}')]
    replies = [ChatReply(AiMessage("", tool_calls=tuple(inner)), FinishReason.TOOL_CALLS)] * 3
    helper = create(Helper, ScriptedChatModel([*replies, "x", "y", "z"]), tools=[till])
    outer = ChatReply(AiMessage("", tool_calls=calls), FinishReason.TOOL_CALLS)
    desk = create(Desk, ScriptedChatModel([outer, "done"]), tools=[helper.ask])
    error = waiting(lambda: desk.answer("Hi"))
    ids = [call.id for call in error.calls]
    assert ids == ["a/b/c", "a/c", "a%2Fb/b/c", "a%2Fb/c", "a%252Fb/b/c", "a%252Fb/c"]
    resume(desk.answer, error.state, {call_id: call_id == "a%2Fb/c" for call_id in ids})
    assert till.runs == ["pay 2"]


# --- What cannot wait ---------------------------------------------------------------------------------------


def plain_function(helper: Helper) -> Any:
    def consult(question: str) -> str:
        """Ask the helper."""
        return helper.ask(question)

    return consult


def decorated_method(helper: Helper) -> Any:
    @tool(name="consult")
    @functools.wraps(helper.ask)
    def consult(question: str) -> str:
        return helper.ask(question).upper()

    return consult


@pytest.mark.parametrize("make_tool", [plain_function, decorated_method])
def test_a_function_around_a_service_cannot_wait(make_tool: Callable[[Helper], Any]) -> None:
    helper = create(Helper, model(use("pay"), "deep"), tools=[Till()])
    desk = create(Desk, model(ask("consult"), "done"), tools=[make_tool(helper)])
    with pytest.raises(DefinitionError) as caught:
        desk.answer("Hi")
    assert str(caught.value) == (
        "Desk.answer: the tool consult called Helper.ask, which waits for pay, and a function cannot be "
        "suspended; pass the method of the service itself in tools=, or catch the ApprovalRequiredError in "
        "the function"
    )


def test_a_function_may_decide_itself() -> None:
    till = Till()
    helper = create(Helper, model(use("pay"), "deep"), tools=[till])

    def consult(question: str) -> str:
        try:
            return helper.ask(question)
        except ApprovalRequiredError as error:
            return resume(helper.ask, error.state, {call.id: call.name == "pay" for call in error.calls})

    desk = create(Desk, model(ask("consult"), "done"), tools=[consult])
    result = desk.answer("Hi")
    assert (result.value, till.runs) == ("done", ["pay 5"])
    assert len(result.inner_calls) == 2


# --- Stored states ------------------------------------------------------------------------------------------


def nested_state() -> SuspendedCall:
    return waiting(lambda: three_levels(Till(), use("pay"), "deep").answer("Hi")).state


def test_a_state_without_inner_calls_is_stored_as_before() -> None:
    helper = create(Helper, model(use("pay"), "deep"), tools=[Till()])
    data = json.loads(waiting(lambda: helper.ask("Hi")).state.to_json())
    assert "inner" not in data
    assert "finished" not in data


def test_the_signature_and_the_expiry_hold_for_inner_calls() -> None:
    state = nested_state()
    text = state.to_json(key="secret", expires_after=60)
    changed = json.loads(text)
    changed["inner"]["c0"]["inner"]["c0"]["exchanged"][-1]["tool_calls"][0]["arguments"] = '{"amount": 500}'
    with pytest.raises(SuspendedCallError, match="the signature of the suspended call is wrong"):
        SuspendedCall.from_json(json.dumps(changed), key="secret")
    inner = state.inner["c0"]._replace(expires_at=1.0)
    desk = three_levels(Till(), "unused")
    with pytest.raises(SuspendedCallError, match=r"the suspended call of Helper\.ask has expired"):
        resume(desk.answer, state._replace(inner={"c0": inner}), True)


def test_the_error_of_a_nested_call_can_be_pickled() -> None:
    error = waiting(lambda: three_levels(Till(), use("pay"), "deep").answer("Hi"))
    assert pickle.loads(pickle.dumps(error)).state == error.state


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(inner=[]),
        lambda data: data.update(inner={}),
        lambda data: data.update(inner={"c0": 5}),
        lambda data: data.update(inner={"c0": "text"}),
        lambda data: data["inner"].update(c9=data["inner"]["c0"]),
        lambda data: data["inner"].update(c9=data["inner"].pop("c0")),
        lambda data: data["inner"]["c0"].pop("where"),
        lambda data: data["inner"]["c0"].update(where="Other.ask"),
        lambda data: data["inner"]["c0"].update(inner={}),
        lambda data: data["inner"]["c0"].update(model="unknown"),
        lambda data: data["inner"]["c0"]["inner"]["c0"].update(pending=[]),
        lambda data: data["inner"]["c0"]["inner"]["c0"].update(pending=["c7"]),
        lambda data: data["inner"]["c0"]["inner"]["c0"].update(exchanged=[]),
        lambda data: data["inner"]["c0"]["inner"]["c0"].update(model="unknown"),
        lambda data: data.update(pending=["c0"]),
        lambda data: data.update(external=["c0"]),
        lambda data: data.update(finished=data["messages"]),
        lambda data: data.update(finished=[{"type": "tool", "call_id": "c0", "name": "ask", "text": "x"}]),
    ],
)
def test_a_damaged_nest_is_one_error_and_runs_nothing(change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(nested_state().to_json())
    change(data)
    till = Till()
    desk = three_levels(till, "unused")
    with pytest.raises(SuspendedCallError):
        resume(desk.answer, SuspendedCall.from_json(json.dumps(data)), True)
    assert till.runs == []


def test_a_nest_that_is_very_deep_is_an_error() -> None:
    text = '{"place": "x", "inner": {"c0": ' * 5000 + "1" + "}}" * 5000
    with pytest.raises(SuspendedCallError):
        SuspendedCall.from_json(text)


def test_a_service_without_the_tool_cannot_resume() -> None:
    state = nested_state()
    desk = create(Desk, model("unused"), tools=[tool(name="other")(Till().look)])
    with pytest.raises(SuspendedCallError) as caught:
        resume(desk.answer, state, True)
    assert str(caught.value) == (
        "Desk.answer: the call c0 of the tool ask waits in Helper.ask, and the service has no such tool"
    )


def test_listeners_hear_the_resumed_inner_call() -> None:
    heard: list[Any] = []
    till = Till()
    helper = create(Helper, model(use("pay"), "deep"), tools=[till])
    desk = create(Desk, model(ask("ask"), "done"), tools=[helper.ask], listeners=[InnerCalls(heard.append)])
    state = waiting(lambda: desk.answer("Hi")).state
    heard.clear()
    result = resume(desk.answer, state, True)
    assert {event.invocation.parent.plan.qualname for event in heard} == {"Desk.answer"}
    assert [call.qualname for call in result.inner_calls] == ["Helper.ask"]


def test_interceptors_of_tools_may_change_the_arguments_of_a_service_that_waits() -> None:
    till, runs = Till(), list[str]()

    def add_context(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        run = yield from proceed(call.with_arguments(question="Why, please?"))
        runs.append(run.text)
        return run

    inner = model(use("pay"), "deep")
    helper = create(Helper, inner, tools=[till])
    desk = create(Desk, model(ask("ask"), "done"), tools=[helper.ask], tool_interceptors=[add_context])
    state = waiting(lambda: desk.answer("Hi")).state
    assert runs == []
    assert resume(desk.answer, stored(state), True).value == "done"
    assert (runs, till.runs) == (["deep"], ["pay 5"])
    assert inner.requests[-1].messages[0].text == "Why, please?"


def test_a_tool_that_was_approved_itself_may_wait_inside() -> None:
    till = Till()
    helper = create(Helper, model(use("pay"), "deep"), tools=[till])
    desk = create(Desk, model(ask("ask"), "done"), tools=[tool(needs_approval=True)(helper.ask)])
    first = waiting(lambda: desk.answer("Hi"))
    second = waiting(lambda: resume(desk.answer, stored(first.state), {"c0": True}))
    assert [call.id for call in (*first.calls, *second.calls)] == ["c0", "c0/c0"]
    assert resume(desk.answer, stored(second.state), {"c0/c0": True}).value == "done"
    assert till.runs == ["pay 5"]
