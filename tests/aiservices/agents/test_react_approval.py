"""A reply waits for the approval of a tool and is resumed, also in another process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    Budget,
    ChatModel,
    ChatReply,
    Denied,
    ScriptedChatModel,
    SuspendedCall,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
    tool,
)
from aiservices.agents import Msg, ReActAgent, Round
from aiservices.memory import ChatMemory
from aiservices.models.errors import ToolError, ToolLimitError
from aiservices.models.messages import SystemMessage
from aiservices.tools.tool import ToolRun


@dataclass
class Paid:
    order: int
    euros: float


@dataclass
class Order:
    number: int
    price: float


class Desk:
    """Looks up orders, and pays money back if a person approves."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    @tool
    def look_up(self, order: int) -> Order:
        """Looks an order up."""
        if order < 0:
            raise ValueError("there is none")
        return Order(order, 40.0)

    @tool(needs_approval=True)
    def pay_back(self, order: int, euros: float) -> str:
        """Pays money back."""
        self.paid.append(order)
        return f"{euros:.2f} euros are on their way."


def calls(*named: tuple[str, dict[str, Any]], text: str = "") -> ChatReply:
    made = tuple(
        ToolCall(f"call_{number}", name, json.dumps(given)) for number, (name, given) in enumerate(named, 1)
    )
    return ChatReply(AiMessage(text, made))


LOOK = calls(("look_up", {"order": 17}), text="I look.")
PAY = calls(("pay_back", {"order": 17, "euros": 40}), text="I pay.")
DONE = calls(("generate_response", {"response": "Paid.", "order": 17, "euros": 40}))
ENDED = Msg("Friday", "Paid.", metadata=Paid(17, 40.0))
Goes = Callable[[ReActAgent, SuspendedCall, Mapping[str, bool | str], Any], Msg[Any]]


def agent(*replies: ChatReply | str, desk: Desk | None = None, **settings: Any) -> ReActAgent:
    return ReActAgent("Friday", "You are Friday.", ScriptedChatModel(replies), [desk or Desk()], **settings)


def paused(call: Callable[[], Any]) -> ApprovalRequiredError:
    with pytest.raises(ApprovalRequiredError) as caught:
        call()
    return caught.value


def blocking(
    friday: ReActAgent, state: SuspendedCall, approvals: Mapping[str, bool | str], output_type: Any
) -> Msg[Any]:
    reply: Msg[Any] = friday.resume(state, approvals, output_type)
    return reply


def awaited(
    friday: ReActAgent, state: SuspendedCall, approvals: Mapping[str, bool | str], output_type: Any
) -> Msg[Any]:
    async def going() -> Msg[Any]:
        reply: Msg[Any] = await friday.aresume(state, approvals, output_type)
        return reply

    return asyncio.run(going())


both = pytest.mark.parametrize("is_resumed", [blocking, awaited])


@both
def test_a_reply_is_resumed_when_the_call_is_approved(is_resumed: Goes) -> None:
    desk = Desk()
    error = paused(lambda: agent(LOOK, PAY, desk=desk).reply("It is broken.", Paid))
    assert str(error) == (
        'Friday.reply: approval required for pay_back({"order": 17, "euros": 40}); continue with resume'
    )
    assert ([call.name for call in error.calls], desk.paid, len(error.attempts)) == (["pay_back"], [], 2)
    state = SuspendedCall.from_json(error.state.to_json())
    assert is_resumed(agent(DONE, desk=desk), state, dict.fromkeys(state.pending, True), Paid) == ENDED
    assert desk.paid == [17]


@both
def test_the_trace_has_the_rounds_before_the_wait(is_resumed: Goes) -> None:
    error = paused(lambda: agent(LOOK, PAY).reply("It is broken.", Paid))
    state = SuspendedCall.from_json(error.state.to_json())
    trace = is_resumed(agent(DONE), state, dict.fromkeys(state.pending, True), Paid).trace
    assert [str(one) for one in trace] == [
        'I look.\nlook_up({"order": 17}) → {"number":17,"price":40.0}',
        'I pay.\npay_back({"order": 17, "euros": 40}) → 40.00 euros are on their way.',
        'generate_response({"response": "Paid.", "order": 17, "euros": 40})',
    ]
    (looked,), (paid,) = trace[0].runs, trace[1].runs
    assert (looked.arguments, looked.result) == ({"order": 17}, {"number": 17, "price": 40.0})
    assert (paid.arguments, paid.result) == ({"order": 17, "euros": 40.0}, "40.00 euros are on their way.")


def test_the_trace_has_the_problems_before_the_wait() -> None:
    wrong = calls(("look_up", {"order": -1}))
    error = paused(lambda: agent("Hm.", wrong, PAY).reply("It is broken.", Paid))
    trace = agent(DONE).resume(error.state, {error.calls[0].id: True}, Paid).trace
    assert (trace[0].message.text, trace[0].problem is None) == ("Hm.", False)
    (failed,) = trace[1].runs
    assert (failed.result, failed.text, str(failed.error)) == (
        None,
        "The tool look_up failed.",
        "there is none",
    )
    assert isinstance(failed.error, ToolError)
    assert [len(one.runs) for one in trace] == [0, 1, 1, 0]


def test_a_reply_may_wait_again_and_again() -> None:
    desk = Desk()
    pay = [calls(("pay_back", {"order": number, "euros": 1})) for number in (1, 2, 3)]
    error = paused(lambda: agent(pay[0], desk=desk).reply("All three."))
    for number in (1, 2):
        state = SuspendedCall.from_json(error.state.to_json())
        friday = agent(pay[number], desk=desk)
        error = paused(lambda: friday.resume(state, {error.calls[0].id: True}))  # noqa: B023
    reply = agent("Done.", desk=desk).resume(error.state, {error.calls[0].id: True})
    assert (reply, desk.paid) == (Msg("Friday", "Done."), [1, 2, 3])
    assert [[run.call.arguments for run in one.runs] for one in reply.trace] == [
        ['{"order": 1, "euros": 1}'],
        ['{"order": 2, "euros": 1}'],
        ['{"order": 3, "euros": 1}'],
        [],
    ]


@both
def test_the_model_gets_the_reason_for_a_refused_call(is_resumed: Goes) -> None:
    desk = Desk()
    both_calls = calls(("look_up", {"order": 17}), ("pay_back", {"order": 17, "euros": 40}))
    state = paused(lambda: agent(both_calls, desk=desk).reply("It is broken.")).state
    model = ScriptedChatModel(["No money, sorry."])
    friday = ReActAgent("Friday", "You are Friday.", model, [desk])
    reply = is_resumed(friday, state, {state.pending[0]: Denied("ask the manager first")}, None)
    assert (reply.content, desk.paid) == ("No money, sorry.", [])
    assert model.requests[0].messages[2:] == (
        both_calls.message,
        ToolMessage("call_1", "look_up", '{"number":17,"price":40.0}'),
        ToolMessage("call_2", "pay_back", "The call was not approved: ask the manager first.", failed=True),
    )


def test_hooks_get_each_step_once_even_if_the_reply_waits() -> None:
    seen: list[str] = []

    def watched(*replies: ChatReply | str) -> ReActAgent:
        friday = agent(*replies)
        friday.on("pre_reasoning", lambda request: seen.append(f"asks with {len(request.messages)}"))
        friday.on("post_reasoning", lambda reply: seen.append(f"reads {reply.text!r}"))
        friday.on("pre_acting", lambda call: seen.append(f"calls {call.name}"))
        friday.on("post_acting", lambda run: seen.append(f"got {run.text}"))
        return friday

    state = paused(lambda: watched(LOOK, PAY).reply("It is broken.")).state
    seen.append("waits")
    watched("Paid.").resume(state, {state.pending[0]: True})
    assert seen == [
        "asks with 2",
        "reads 'I look.'",
        "calls look_up",
        'got {"number":17,"price":40.0}',
        "asks with 4",
        "reads 'I pay.'",
        "waits",
        "calls pay_back",
        "got 40.00 euros are on their way.",
        "asks with 6",
        "reads 'Paid.'",
    ]


def test_a_hook_can_change_the_result_of_an_approved_call() -> None:
    state = paused(lambda: agent(PAY).reply("It is broken.")).state
    friday = agent("Paid.")
    friday.on("post_acting", lambda run: run._replace(text="secret"))
    (waited, _) = friday.resume(state, {state.pending[0]: True}).trace
    assert [run.text for run in waited.runs] == ["secret"]


def test_a_memory_stores_a_resumed_reply() -> None:
    memory = ChatMemory(namespace="Friday")  # of two agents
    state = paused(lambda: agent(LOOK, PAY, memory=memory).reply("It is broken.", Paid)).state
    assert memory.messages() == ()
    state = SuspendedCall.from_json(state.to_json())
    agent(DONE, memory=memory).resume(state, {state.pending[0]: True}, Paid)
    texts = [message.text for message in memory.messages()]
    assert texts == [
        "It is broken.",
        "I look.",
        '{"number":17,"price":40.0}',
        "I pay.",
        "40.00 euros are on their way.",
        "Paid.",
    ]


def test_the_rounds_before_the_wait_count_for_max_rounds() -> None:
    state = paused(lambda: agent(LOOK, PAY, max_rounds=3).reply("It is broken.")).state
    with pytest.raises(ToolLimitError) as caught:
        agent(LOOK, max_rounds=3).resume(state, {state.pending[0]: True})
    assert str(caught.value) == "Friday.reply: no answer after 3 rounds; raise max_rounds"


def test_a_resumed_reply_gets_a_new_budget() -> None:
    budget = Budget(max_attempts=1)
    state = paused(lambda: agent(LOOK, PAY, budget=budget).reply("It is broken.", Paid)).state
    assert agent(DONE, budget=budget).resume(state, {state.pending[0]: True}, Paid) == ENDED


def test_a_reply_can_start_async_and_resume_blocking() -> None:
    error = paused(lambda: asyncio.run(agent(PAY).areply("It is broken.", Paid)))
    assert agent(DONE).resume(error.state, {error.calls[0].id: True}, Paid) == ENDED


def test_resume_refuses_another_output_type() -> None:
    state = paused(lambda: agent(PAY).reply("It is broken.", Paid)).state
    for form, named in ((None, "text alone"), (Order, "Order"), (str, "str")):
        with pytest.raises(ValueError, match=r"^Friday\.reply: ") as caught:
            agent().resume(state, {state.pending[0]: True}, form)
        assert str(caught.value) == (
            f"Friday.reply: the suspended reply returns Paid, not {named}; pass the output_type of the reply"
        )


def test_the_state_of_another_agent_is_refused() -> None:
    state = paused(lambda: agent(PAY).reply("It is broken.")).state
    with pytest.raises(ValueError, match=r"^the suspended call belongs to Friday\.reply, not to Bob\.reply$"):
        ReActAgent("Bob", "", ScriptedChatModel([])).resume(state, {state.pending[0]: True})


def test_the_state_of_a_service_is_refused() -> None:
    class Friday(Protocol):
        def reply(self, text: str) -> str: ...

    service = create(Friday, ScriptedChatModel([PAY]), tools=[Desk()])
    state = paused(lambda: service.reply("It is broken.")).state
    with pytest.raises(ValueError, match=r"^the suspended call belongs to the service method") as caught:
        agent().resume(state, {state.pending[0]: True})
    assert (
        str(caught.value) == "the suspended call belongs to the service method Friday.reply, not to an agent"
    )


def test_a_damaged_trace_in_a_state_is_an_error() -> None:
    state = paused(lambda: agent(PAY).reply("It is broken.")).state
    saved = {**state.interceptor_data["agent"], "trace": [{"runs": []}]}
    with pytest.raises(ValueError, match="damaged") as caught:
        agent().resume(state._replace(interceptor_data={"agent": saved}), {state.pending[0]: True})
    assert str(caught.value) == (
        """Friday.reply: the suspended call is damaged: $.kept["agent"] is not what was stored there: """
        "KeyError('message')"
    )


def test_a_missing_decision_is_an_error() -> None:
    state = paused(lambda: agent(PAY).reply("It is broken.")).state
    with pytest.raises(ValueError, match=r"^Friday\.reply: approvals has no decision for call_1$"):
        agent().resume(state, {})


SCRIPT = """
import sys
from pathlib import Path
from aiservices import SuspendedCall
from test_react_approval import DONE, Paid, agent

state = SuspendedCall.from_json(Path(sys.argv[1]).read_text("utf-8"))
reply = agent(DONE).resume(state, dict.fromkeys(state.pending, True), Paid)
print(reply)
print(len(reply.trace))
"""


def test_a_reply_is_resumed_in_another_process(tmp_path: Path) -> None:
    state = paused(lambda: agent(LOOK, PAY).reply("It is broken.", Paid)).state
    (tmp_path / "state.json").write_text(state.to_json(), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "state.json")],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        timeout=120,
    )
    assert done.stdout.splitlines() == [str(ENDED), "3"]


def test_an_earlier_round_is_restored_from_the_state() -> None:
    model: ChatModel = ScriptedChatModel([LOOK, PAY])
    friday = ReActAgent("Friday", "You are Friday.", model, [Desk()])
    state = paused(lambda: friday.reply("It is broken.")).state
    assert state.messages == (SystemMessage("You are Friday."), UserMessage("It is broken."))
    first, second = agent("Done.").resume(state, {state.pending[0]: False}).trace[:2]
    call = LOOK.message.tool_calls[0]
    (run,) = first.runs
    text = '{"number":17,"price":40.0}'
    assert first == Round(
        LOOK.message, (ToolRun(call, {"order": 17}, {"number": 17, "price": 40.0}, text, None, run.seconds),)
    )
    assert [one.text for one in second.runs] == ["The call was not approved: no reason was given."]
