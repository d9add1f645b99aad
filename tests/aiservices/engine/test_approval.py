"""Calls that wait for the approval of a tool: which calls wait, how they are stored and resumed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from hypothesis import given, strategies as st
from tool_calling import ANN, NATIVE, TOOLS, Person, joined_text, stream_value, tool_calls_reply

from aiservices import (
    AiMessage,
    AsyncStream,
    Budget,
    BudgetExceededError,
    Capabilities,
    ChatOptions,
    ChatReply,
    ChatRequest,
    DefinitionError,
    Denied,
    FallbackChatModel,
    MemoryId,
    Message,
    ModelServerError,
    Result,
    ScriptedChatModel,
    Stream,
    SystemMessage,
    ToolCall,
    ToolContext,
    ToolMessage,
    UserMessage,
    UserName,
    create,
    example,
    user_message,
)
from aiservices.engine.approval import ApprovalRequiredError, SuspendedCall
from aiservices.models.errors import ToolError, ToolLimitError
from aiservices.service.methods import resume
from aiservices.tools.tool import ToolErrors, tool
from aiservices.tools.toolbox import ToolLimits

STRICT = Capabilities(tools=True, strict_schema=True)


class Asks(Protocol):
    def ask(self, text: str) -> str: ...

    def told(self, text: str) -> Result[str]: ...

    async def aask(self, text: str) -> str: ...

    def stream(self, text: str) -> Stream[str]: ...

    def astream(self, text: str) -> AsyncStream[str]: ...

    def texts(self, text: str) -> Iterator[str]: ...

    def atexts(self, text: str) -> AsyncIterator[str]: ...

    def find(self, text: str) -> Person: ...


async def plain(coroutine: Any) -> str:
    value: str = await coroutine
    return value


# By the method: how what it gives becomes a value.
ENDS: dict[str, Callable[[Any], str]] = {
    "ask": lambda returned: returned,
    "aask": lambda returned: asyncio.run(plain(returned)),
    "stream": lambda returned: returned.result().value,
    "astream": lambda returned: asyncio.run(stream_value(returned)),
    "texts": lambda returned: "".join(returned),
    "atexts": lambda returned: asyncio.run(joined_text(returned)),
}
every_method = pytest.mark.parametrize("method", ENDS)


class Bank:
    """A bank whose tool ``send`` needs approval."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.looked: list[str] = []

    @tool(needs_approval=True)
    def send(self, amount: int) -> str:
        """Sends money."""
        self.sent.append(amount)
        return f"sent {amount}"

    @tool
    def balance(self, account: str) -> int:
        """Tells what is left."""
        self.looked.append(account)
        return 100


SEND = ("send", '{"amount": 5}')
LOOK = ("balance", '{"account": "a"}')


def scripted(*replies: str | ChatReply | Exception, capabilities: Capabilities = TOOLS) -> ScriptedChatModel:
    return ScriptedChatModel(replies, capabilities=capabilities)


def asks(model: Any, bank: Bank | None = None, **settings: Any) -> Asks:
    settings = {"tools": [bank or Bank()], "budget": Budget(first_wait=0), **settings}
    return create(Asks, model, **settings)


def paused(call: Callable[[], Any]) -> ApprovalRequiredError:
    with pytest.raises(ApprovalRequiredError) as caught:
        call()
    return caught.value


# pause


@every_method
def test_a_call_of_a_tool_that_needs_approval_waits(method: str) -> None:
    bank, model = Bank(), scripted(tool_calls_reply(SEND))
    service = asks(model, bank)
    error = paused(lambda: ENDS[method](getattr(service, method)("pay")))
    message = f'Asks.{method}: approval required for send({{"amount": 5}}); continue with resume'
    assert (str(error), error.calls, bank.sent) == (message, (ToolCall("c1", *SEND),), [])
    assert error.state == SuspendedCall(
        f"Asks.{method}",
        (UserMessage("pay"),),
        (tool_calls_reply(SEND).message,),
        ("c1",),
        None,
        0,
        model="scripted",
        id=error.state.id,
    )
    assert len(error.attempts) == 1


def test_nothing_of_the_round_runs_while_it_waits() -> None:
    bank = Bank()
    error = paused(
        lambda: asks(scripted(tool_calls_reply(LOOK, SEND, ("send", '{"amount": 6}'))), bank).ask("pay")
    )
    assert ([call.id for call in error.calls], error.state.pending) == (["c2", "c3"], ("c2", "c3"))
    assert (bank.sent, bank.looked) == ([], [])


def test_earlier_tool_runs_are_stored_in_the_state() -> None:
    bank = Bank()
    error = paused(
        lambda: asks(scripted(tool_calls_reply(LOOK), tool_calls_reply((*SEND, "c9"))), bank).ask("pay")
    )
    assert error.state.tool_messages == (
        tool_calls_reply(LOOK).message,
        ToolMessage("c1", "balance", "100"),
        tool_calls_reply((*SEND, "c9")).message,
    )
    assert (error.state.rounds, bank.looked) == (1, ["a"])


# go on


@every_method
def test_an_approved_call_runs_and_the_model_continues(method: str) -> None:
    bank, model = Bank(), scripted(tool_calls_reply(SEND), "Paid.")
    service = asks(model, bank)
    error = paused(lambda: ENDS[method](getattr(service, method)("pay")))
    assert ENDS[method](resume(getattr(service, method), error.state, {"c1": True})) == "Paid."
    assert bank.sent == [5]
    assert model.requests[1].messages == (
        UserMessage("pay"),
        tool_calls_reply(SEND).message,
        ToolMessage("c1", "send", "sent 5"),
    )
    assert model.requests[1].tooling is model.requests[0].tooling


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (False, "The call was not approved: no reason was given."),
        (Denied(""), "The call was not approved: no reason was given."),
        (Denied("too much"), "The call was not approved: too much."),
    ],
)
def test_a_refused_call_does_not_run_and_the_model_gets_the_reason(verdict: Any, text: str) -> None:
    bank, model = Bank(), scripted(tool_calls_reply(SEND), "Not paid.")
    service = asks(model, bank)
    state = paused(lambda: service.told("pay")).state
    result = resume(service.told, state, {"c1": verdict})
    assert (result.value, bank.sent) == ("Not paid.", [])
    assert model.requests[1].messages[-1] == ToolMessage("c1", "send", text, failed=True)
    (run,) = result.tool_runs
    assert (run.text, str(run.error), type(run.error)) == (text, text, ToolError)


def test_of_several_calls_those_that_are_approved_run_with_those_that_need_it_not() -> None:
    bank = Bank()
    model = scripted(tool_calls_reply(SEND, LOOK, ("send", '{"amount": 6}')), "Half.")
    service = asks(model, bank)
    state = paused(lambda: service.ask("pay")).state
    assert resume(service.ask, state, {"c1": Denied("no"), "c3": True}) == "Half."
    assert (bank.sent, bank.looked) == ([6], ["a"])
    assert model.requests[1].messages[-3:] == (
        ToolMessage("c1", "send", "The call was not approved: no.", failed=True),
        ToolMessage("c2", "balance", "100"),
        ToolMessage("c3", "send", "sent 6"),
    )


@every_method
def test_a_call_that_continues_may_wait_again(method: str) -> None:
    bank, model = (
        Bank(),
        scripted(tool_calls_reply(SEND), tool_calls_reply(("send", '{"amount": 6}', "c2")), "Both."),
    )
    service = asks(model, bank)
    bound = getattr(service, method)
    first = paused(lambda: ENDS[method](bound("pay"))).state
    second = paused(lambda: ENDS[method](resume(bound, first, {"c1": True})))
    assert (bank.sent, second.state.pending, second.state.rounds) == ([5], ("c2",), 1)
    assert second.state.messages == first.messages
    assert ENDS[method](resume(bound, second.state, {"c2": True})) == "Both."
    assert bank.sent == [5, 6]
    assert len(model.requests[2].messages) == 5


@pytest.mark.parametrize("id", ["c1", ""])
def test_an_approval_is_for_the_call_that_waited_and_for_no_later_one_of_its_id(id: str) -> None:
    bank, model = (
        Bank(),
        scripted(tool_calls_reply((*SEND, id)), tool_calls_reply(("send", '{"amount": 999}', id)), "Both."),
    )
    service = asks(model, bank)
    first = paused(lambda: service.ask("pay")).state
    (waiting,) = first.pending
    second = paused(lambda: resume(service.ask, first, {waiting: True}))
    assert (bank.sent, [call.arguments for call in second.calls]) == ([5], ['{"amount": 999}'])


def test_two_calls_of_one_id_are_decided_one_by_one() -> None:
    bank = Bank()
    model = scripted(tool_calls_reply((*SEND, "same"), ("send", '{"amount": 999}', "same")), "One.")
    service = asks(model, bank)
    error = paused(lambda: service.ask("pay"))
    first, second = (call.id for call in error.calls)
    assert resume(service.ask, error.state, {first: True, second: False}) == "One."
    assert bank.sent == [5]


def test_without_a_memory_the_same_state_can_be_resumed_twice() -> None:
    bank, model = Bank(), scripted(tool_calls_reply(SEND), "Paid.", "Not paid.")
    service = asks(model, bank)
    state = paused(lambda: service.ask("pay")).state
    assert resume(service.ask, state, {"c1": True}) == "Paid."
    assert resume(service.ask, state, {"c1": False}) == "Not paid."
    assert bank.sent == [5]


def test_a_person_is_not_asked_about_unreadable_arguments() -> None:
    model = scripted(tool_calls_reply(("send", '{"amount": "much"}')), "Sorry.")
    assert asks(model).ask("pay") == "Sorry."
    assert model.requests[1].messages[-1].text.startswith("The arguments cannot be read:")


@pytest.mark.parametrize("verdict", [True, False])
def test_an_immediate_tool_that_waited_is_the_answer_only_when_it_was_approved(verdict: bool) -> None:
    class Told(Protocol):
        def told(self, text: str) -> Result[str]: ...

    @tool(needs_approval=True, return_behavior="immediate")
    def close() -> str:
        return "closed"

    model = scripted(tool_calls_reply(("close", "{}")), "It stays open.")
    service = create(Told, model, tools=[close])
    state = paused(lambda: service.told("close")).state
    result = resume(service.told, state, {"c1": verdict})
    assert result.value == ("closed" if verdict else "It stays open.")
    assert result.reply.message.tool_calls == (
        tool_calls_reply(("close", "{}")).message.tool_calls if verdict else ()
    )


def test_the_result_of_a_resumed_call_has_its_tool_runs() -> None:
    service = asks(scripted(tool_calls_reply(LOOK), tool_calls_reply((*SEND, "c2")), "Paid."))
    state = paused(lambda: service.told("pay")).state
    result = resume(service.told, state, {"c2": True})
    assert [run.name for run in result.tool_runs] == ["send"]
    assert len(result.attempts) == 1


def test_a_function_of_tool_errors_may_end_a_resumed_call() -> None:
    def end(run: Any) -> str:
        raise run.error

    def fail() -> None:
        raise OSError("disk")

    service = asks(
        scripted(tool_calls_reply(("fail", "{}"))),
        tools=[tool(needs_approval=True)(fail)],
        tool_errors=ToolErrors(execution=end),
    )
    state = paused(lambda: service.ask("x")).state
    with pytest.raises(ToolError) as caught:
        resume(service.ask, state, {"c1": True})
    assert (caught.value.call.id, caught.value.attempts) == ("c1", ())


# limits


def test_rounds_are_counted_over_the_wait() -> None:
    model = scripted(
        tool_calls_reply(LOOK), tool_calls_reply((*SEND, "c2")), tool_calls_reply((*LOOK, "c3")), "Paid."
    )
    service = asks(model, tool_limits=ToolLimits(max_rounds=2))
    state = paused(lambda: service.ask("pay")).state
    with pytest.raises(ToolLimitError):
        resume(service.ask, state, {"c2": True})


def test_calls_are_counted_over_the_wait() -> None:
    bank = Bank()
    service = asks(
        scripted(tool_calls_reply(LOOK, LOOK), tool_calls_reply((*SEND, "c3"))),
        bank,
        tool_limits=ToolLimits(max_calls=3),
    )
    state = paused(lambda: service.ask("pay")).state
    service = asks(scripted(tool_calls_reply((*LOOK, "c4"))), bank, tool_limits=ToolLimits(max_calls=3))
    with pytest.raises(ToolLimitError):
        resume(service.ask, state, {"c3": True})
    assert (bank.looked, bank.sent) == (["a", "a"], [5])


def test_a_call_that_continues_has_the_budget_of_a_call_and_no_more() -> None:
    down = ModelServerError("down", status=500, retryable=True)
    model = scripted(tool_calls_reply(LOOK), tool_calls_reply((*SEND, "c2")), down, down, down, "Paid.")
    service = asks(model, budget=Budget(max_attempts=2, first_wait=0))
    state = paused(lambda: service.ask("pay")).state
    with pytest.raises(ModelServerError) as caught:
        resume(service.ask, state, {"c2": True})
    assert len(caught.value.attempts) == 2


# what does not go on

FOR_ALL = "True or False for all calls, or a dict with a decision for each id: c1"
DECISION = "it must be True, False or Denied(reason)"
NO_SUCH_CALL = "approvals has a decision for 'c2', which does not wait; the calls that wait: c1"


def test_the_state_of_another_method_is_refused() -> None:
    service = asks(scripted(tool_calls_reply(SEND)))
    state = paused(lambda: service.ask("pay")).state
    with pytest.raises(ValueError, match="suspended call") as caught:
        resume(service.told, state, {"c1": True})
    assert str(caught.value) == "the suspended call belongs to Asks.ask, not to Asks.told"


@pytest.mark.parametrize(
    ("approvals", "named"), [({}, "c1, c3"), ({"c1": True}, "c3"), ({"c3": False, "c2": True}, "c1")]
)
@every_method
def test_a_call_that_no_one_decided_is_refused_at_once(
    method: str, approvals: dict[str, bool | str], named: str
) -> None:
    bank = Bank()
    service = asks(scripted(tool_calls_reply(SEND, LOOK, SEND)), bank)
    bound = getattr(service, method)
    state = paused(lambda: ENDS[method](bound("pay"))).state
    with pytest.raises(ValueError, match="no decision") as caught:
        resume(bound, state, approvals)
    assert str(caught.value) == f"Asks.{method}: approvals has no decision for {named}"
    assert bank.sent == []


@pytest.mark.parametrize(
    ("approvals", "error", "message"),
    [
        ("c1", TypeError, "approvals is 'c1'; pass " + FOR_ALL),
        (1, TypeError, "approvals is 1; pass " + FOR_ALL),
        (Denied("no"), TypeError, "approvals is Denied(reason='no'); pass " + FOR_ALL),
        ({"c1": True, "c2": True}, ValueError, NO_SUCH_CALL),
        ({"c1": 1}, TypeError, "the decision for c1 is 1; " + DECISION),
        ({"c1": None}, TypeError, "the decision for c1 is None; " + DECISION),
        ({"c1": "yes"}, TypeError, "the decision for c1 is 'yes'; " + DECISION),
    ],
)
def test_decisions_that_are_not_decisions_are_refused(
    approvals: Any, error: type[Exception], message: str
) -> None:
    bank = Bank()
    service = asks(scripted(tool_calls_reply(SEND, LOOK)), bank)
    state = paused(lambda: service.ask("pay")).state
    with pytest.raises(error) as caught:
        resume(service.ask, state, approvals)
    assert (str(caught.value), bank.sent, bank.looked) == (f"Asks.ask: {message}", [], [])


def test_a_text_is_not_taken_for_a_state() -> None:
    service = asks(scripted(tool_calls_reply(SEND)))
    text: Any = paused(lambda: service.ask("pay")).state.to_json()
    with pytest.raises(TypeError) as caught:
        resume(service.ask, text, {"c1": True})
    expected = "the state is a str; pass a SuspendedCall, for example from SuspendedCall.from_json(text)"
    assert str(caught.value) == f"Asks.ask: {expected}"


@pytest.mark.parametrize("pending", [(), ("c9",), ("c1", "c9")])
def test_a_state_whose_pending_calls_are_missing_is_refused(pending: tuple[str, ...]) -> None:
    service = asks(scripted(tool_calls_reply(SEND)))
    state = paused(lambda: service.ask("pay")).state._replace(pending=pending)
    with pytest.raises(ValueError, match="damaged") as caught:
        resume(service.ask, state, dict.fromkeys(pending, True))
    expected = "the state is damaged: the pending calls are not those of its last message"
    assert str(caught.value) == f"Asks.ask: {expected}"


def test_other_objects_than_service_methods_are_refused() -> None:
    def other(text: str) -> str:
        return text

    state = SuspendedCall("x", (), ())
    with pytest.raises(TypeError, match="is not a method of a service made by create"):
        resume(other, state, {})


# arguments of tools


class Books(Protocol):
    def book(
        self, what: str, user: Annotated[str, ToolContext], session: Annotated[str, MemoryId]
    ) -> str: ...


@tool(needs_approval=True)
def reserve(what: str, user: Annotated[str, ToolContext], session: Annotated[str, MemoryId]) -> str:
    return f"{what} {user} {session}"


def test_values_outside_the_state_are_passed_to_resume() -> None:
    model = scripted(tool_calls_reply(("reserve", '{"what": "opera"}')), "Booked.")
    service = create(Books, model, tools=[reserve])
    state = paused(lambda: service.book("opera", "ann-7", "session-9")).state
    assert ("ann-7" in state.to_json(), state.memory_id) == (False, "session-9")
    assert (
        resume(service.book, SuspendedCall.from_json(state.to_json()), {"c1": True}, user="ann-7")
        == "Booked."
    )
    assert model.requests[1].messages[-1] == ToolMessage("c1", "reserve", "opera ann-7 session-9")


def test_a_missing_value_for_resume_is_an_error() -> None:
    service = create(Books, scripted(tool_calls_reply(("reserve", '{"what": "opera"}'))), tools=[reserve])
    state = paused(lambda: service.book("opera", "ann-7", "session-9")).state
    with pytest.raises(ToolError) as caught:
        resume(service.book, state, {"c1": True})
    message = "the tool reserve needs user, which the call does not provide"
    assert (str(caught.value), caught.value.call.name) == (message, "reserve")


class Pays(Protocol):
    def pay(
        self,
        text: str,
        user: Annotated[str | None, UserName] = None,
        session: Annotated[int, MemoryId] = 0,
    ) -> str: ...


@tool(needs_approval=True)
def charge(user: Annotated[str | None, UserName], session: Annotated[int, MemoryId]) -> str:
    return f"{user} {session}"


@pytest.mark.parametrize("user", ["ann", None])
def test_the_name_of_the_user_is_given_to_tools_as_before_the_wait(user: str | None) -> None:
    model = scripted(tool_calls_reply(("charge", "{}")), tool_calls_reply(("charge", "{}", "c2")), "Paid.")
    service = create(Pays, model, tools=[charge])
    first = paused(lambda: service.pay("x", user, 7)).state
    assert (first.user_name, first.memory_id) == (user, 7)
    second = paused(lambda: resume(service.pay, SuspendedCall.from_json(first.to_json()), {"c1": True})).state
    assert second.user_name == user
    assert resume(service.pay, SuspendedCall.from_json(second.to_json()), {"c2": True}) == "Paid."
    told = [said.text for said in model.requests[2].messages if isinstance(said, ToolMessage)]
    assert told == [f"{user} 7"] * 2


def test_a_missing_user_name_must_be_passed_to_resume() -> None:
    class Bills(Protocol):
        def pay(self, text: str, user: Annotated[str, UserName]) -> str: ...

    @tool(needs_approval=True)
    def bill(user: Annotated[str, UserName]) -> str:
        return user

    model = scripted(tool_calls_reply(("bill", "{}")), "Paid.")
    service = create(Bills, model, tools=[bill])
    state = paused(lambda: service.pay("x", "ann")).state._replace(user_name=None)
    with pytest.raises(ToolError) as caught:
        resume(service.pay, state, {"c1": True})
    assert str(caught.value) == "the tool bill needs user, which the call does not provide"
    assert resume(service.pay, state, {"c1": True}, user="ann") == "Paid."


# the model that called


class Named(ScriptedChatModel):
    """A scripted model that has its own name."""

    def __init__(self, name: str, *replies: str | ChatReply | Exception, strict: bool = False) -> None:
        super().__init__(replies, capabilities=STRICT if strict else TOOLS)
        self._name = name

    @property
    def name(self) -> str:
        return self._name


def labelling(*models: Named, seen: list[Any]) -> Asks:
    @tool(needs_approval=True)
    def label(tags: dict[str, int], days: int | None = 3) -> None:
        seen.append((tags, days))

    return asks(FallbackChatModel(*models), tools=[label])


def test_calls_are_read_in_the_format_that_was_sent_to_their_model() -> None:
    seen: list[Any] = []
    down = ModelServerError("down", status=500, retryable=False)
    plain = '{"tags": {"a": 1}, "days": null}'
    strict = Named("strict", down, "Done.", strict=True)
    service = labelling(strict, Named("plain", tool_calls_reply(("label", plain))), seen=seen)
    state = paused(lambda: service.ask("x")).state
    assert state.model == "plain"
    assert resume(service.ask, SuspendedCall.from_json(state.to_json()), {"c1": True}) == "Done."
    assert seen == [({"a": 1}, None)]


def test_calls_of_a_model_that_the_service_does_not_ask_are_not_read_as_those_of_another() -> None:
    seen: list[Any] = []
    old = labelling(Named("old", tool_calls_reply(("label", '{"tags": {"a": 1}, "days": null}'))), seen=seen)
    state = paused(lambda: old.ask("x")).state
    new = labelling(Named("new", "Done."), Named("newer"), seen=seen)
    with pytest.raises(ValueError, match="old") as caught:
        resume(new.ask, state, {"c1": True})
    assert str(caught.value) == (
        "Asks.ask: the pending calls were written by old, and the service uses new, newer; add that model, "
        "or resume with state._replace(model='') to read the calls as if the first model had written them"
    )
    assert resume(new.ask, state._replace(model=""), {"c1": True}) == "Done."
    assert seen == [({"a": 1}, None)]


# the parts of a call other than its messages


class Instructed(Protocol):
    @user_message("{{format_instructions}} Who is {{text}}?")
    @example("Bob", returns=Person("Bob", 5))
    def find(self, text: str, settings: ChatOptions | None = None) -> Person: ...


def instructed(*replies: str | ChatReply) -> tuple[Instructed, ScriptedChatModel]:
    model = scripted(*replies)
    return create(Instructed, model, tools=[Bank()], strategy="prompt"), model


def test_the_place_of_the_instructions_is_filled_in_another_process_too() -> None:
    service, model = instructed(tool_calls_reply(SEND), ANN)
    state = paused(lambda: service.find("Ann")).state
    mark = state.messages[-1].text.split(" Who")[0]
    elsewhere = state.to_json().replace(mark, "\ue000aaaaaaaaaaaaaaaa\ue001")
    assert mark not in elsewhere
    assert resume(service.find, SuspendedCall.from_json(elsewhere), {"c1": True}) == Person("Ann", 31)
    (asked,) = [said.text for said in model.requests[1].messages if said.text.endswith("Who is Ann?")]
    assert asked == model.requests[0].messages[-1].text


def test_a_text_that_looks_like_the_mark_is_left_unchanged() -> None:
    service, model = instructed(tool_calls_reply(SEND), ANN)
    state = paused(lambda: service.find("\ue000another process\ue001")).state
    resume(service.find, SuspendedCall.from_json(state.to_json()), {"c1": True})
    assert "Who is \ue000another process\ue001?" in model.requests[1].messages[-3].text


def test_examples_are_shown_to_the_model_when_a_call_continues() -> None:
    service, model = instructed(tool_calls_reply(SEND), ANN)
    state = paused(lambda: service.find("Ann")).state
    resume(service.find, state, {"c1": True})
    first, second = (request.messages for request in model.requests)
    assert second[: len(first)] == first


def test_the_options_of_a_call_hold_when_it_continues() -> None:
    service, model = instructed(tool_calls_reply(SEND), ANN)
    state = paused(lambda: service.find("Ann", ChatOptions(temperature=0.25))).state
    resume(service.find, SuspendedCall.from_json(state.to_json()), {"c1": True})
    assert [request.options.temperature for request in model.requests] == [0.25, 0.25]


def test_a_retried_call_that_waits_keeps_the_order_of_messages() -> None:
    seen: list[list[str]] = []

    def answer(request: ChatRequest) -> ChatReply | str:
        seen.append([type(said).__name__ for said in request.messages])
        return next(replies)

    replies: Iterator[ChatReply | str] = iter(
        [tool_calls_reply(LOOK), "Ann is old.", tool_calls_reply((*SEND, "c2")), ANN]
    )
    service = asks(ScriptedChatModel(answer, capabilities=NATIVE))
    state = paused(lambda: service.find("Ann")).state
    assert resume(service.find, state, {"c2": True}) == Person("Ann", 31)
    assert seen[2] == ["UserMessage", "AiMessage", "ToolMessage", "AiMessage", "UserMessage"]
    assert seen[3] == [*seen[2], "AiMessage", "ToolMessage"]


def test_strict_arguments_are_read_as_they_were_asked_for() -> None:
    seen: list[Any] = []

    @tool(needs_approval=True)
    def label(tags: dict[str, int]) -> None:
        seen.append(tags)

    model = scripted(
        tool_calls_reply(("label", '{"tags": [{"key": "a", "value": 1}]}')), "Done.", capabilities=STRICT
    )
    service = asks(model, tools=[label])
    state = paused(lambda: service.ask("x")).state
    assert resume(service.ask, SuspendedCall.from_json(state.to_json()), {"c1": True}) == "Done."
    assert seen == [{"a": 1}]


# as text


PROGRAM = """
import sys
from typing import Protocol
from aiservices import AiMessage, Capabilities, ChatReply, FinishReason, ScriptedChatModel, ToolCall, create
from aiservices.engine.approval import ApprovalRequiredError, SuspendedCall
from aiservices.service.methods import (resume)
from aiservices import tool

class Pays(Protocol):
    def pay(self, text: str) -> str: ...

@tool(needs_approval=True)
def send(amount: int) -> str:
    print("sent", amount)
    return "sent"

reply = ChatReply(AiMessage("", (ToolCall("c1", "send", '{"amount": 5}'),)), FinishReason.TOOL_CALLS)
script = [reply] if sys.argv[1] == "begin" else ["Paid."]
model = ScriptedChatModel(script, capabilities=Capabilities(tools=True))
service = create(Pays, model, tools=[send])
if sys.argv[1] == "begin":
    try:
        service.pay("five €")
    except ApprovalRequiredError as error:
        open(sys.argv[2], "w", encoding="utf-8").write(error.state.to_json())
else:
    state = SuspendedCall.from_json(open(sys.argv[2], encoding="utf-8").read())
    print(resume(service.pay, state, {"c1": True}), [message.text for message in model.requests[0].messages])
"""


def test_a_call_continues_in_another_process(tmp_path: Path) -> None:
    kept = tmp_path / "state.json"
    said = [
        subprocess.run(
            [sys.executable, "-X", "utf8", "-c", PROGRAM, step, str(kept)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        ).stdout
        for step in ("begin", "resume")
    ]
    assert said == ["", "sent 5\nPaid. ['five €', '', 'sent']\n"]


texts = st.text(max_size=30)
tool_calls = st.builds(ToolCall, texts, texts, texts)
messages = st.one_of(
    st.builds(SystemMessage, texts),
    st.builds(UserMessage, texts, st.none() | texts),
    st.builds(AiMessage, texts, st.lists(tool_calls, max_size=3).map(tuple), st.none() | texts),
    st.builds(ToolMessage, texts, texts, texts),
)
several = st.lists(messages, max_size=5).map(tuple)
tool_messages = st.builds(ToolMessage, texts, texts, texts)


def suspended_calls(inner: st.SearchStrategy[dict[str, SuspendedCall]]) -> st.SearchStrategy[SuspendedCall]:
    return st.builds(
        SuspendedCall,
        texts,
        several,
        several,
        st.lists(texts, max_size=3).map(tuple),
        st.none() | texts | st.integers(),
        st.integers(0, 100),
        options=st.builds(
            ChatOptions, temperature=st.none() | st.floats(0, 2), seed=st.none() | st.integers()
        ),
        interceptor_data=st.dictionaries(texts, texts | st.integers() | st.none(), max_size=3),
        model=texts,
        user_name=st.none() | texts,
        earlier_messages=several,
        id=texts,
        expires_at=st.none() | st.floats(1e12, 1e15),
        signed_text=st.just(""),
        external=st.lists(texts, max_size=3).map(tuple),
        inner=inner,
        finished=st.lists(tool_messages, max_size=2).map(tuple),
    )


without_inner = suspended_calls(st.just({}))
states = without_inner | suspended_calls(st.dictionaries(texts, without_inner, max_size=2))


@given(states)
def test_a_state_is_what_it_was_when_it_is_read_back(state: SuspendedCall) -> None:
    assert SuspendedCall.from_json(state.to_json()) == state
    assert SuspendedCall.from_json(json.dumps(json.loads(state.to_json()))) == state


def test_a_memory_id_that_json_cannot_express_cannot_be_stored() -> None:
    with pytest.raises(TypeError):
        SuspendedCall("x", (), (), (), object()).to_json()


def test_a_user_name_that_json_cannot_express_cannot_be_stored() -> None:
    with pytest.raises(TypeError):
        SuspendedCall("x", (), (), user_name=object()).to_json()


WHOLE = json.loads(SuspendedCall("x", (), (tool_calls_reply(SEND).message,), ("c1",)).to_json())
SINCE = {"external", "model", "user_name", "before", "id", "expires_at"}  # not part of the first states


def test_a_state_of_an_older_version_is_read() -> None:
    old = {key: value for key, value in WHOLE.items() if key not in SINCE}
    assert SuspendedCall.from_json(json.dumps(old)) == SuspendedCall(
        "x", (), (tool_calls_reply(SEND).message,), ("c1",)
    )


def test_a_call_that_an_older_version_stored_continues() -> None:
    bank, model = Bank(), scripted(tool_calls_reply(SEND), "Paid.")
    service = asks(model, bank)
    kept = json.loads(paused(lambda: service.ask("pay")).state.to_json())
    old = json.dumps({key: value for key, value in kept.items() if key not in SINCE})
    assert resume(service.ask, SuspendedCall.from_json(old), {"c1": True}) == "Paid."
    assert bank.sent == [5]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "5",
        '"text"',
        "{}",
        *(
            json.dumps({key: value for key, value in WHOLE.items() if key != name})
            for name in sorted(WHOLE.keys() - SINCE)
        ),
        json.dumps({**WHOLE, "messages": 5}),
        json.dumps({**WHOLE, "messages": [5]}),
        json.dumps({**WHOLE, "messages": ["text"]}),
        json.dumps({**WHOLE, "exchanged": [{"type": "other"}]}),
        json.dumps({**WHOLE, "exchanged": [{"type": "tool", "text": "x"}]}),
        json.dumps({**WHOLE, "exchanged": [{"type": "ai", "text": "x", "tool_calls": [{"id": "x"}]}]}),
        json.dumps({**WHOLE, "pending": None}),
        json.dumps({**WHOLE, "pending": "c1"}),
        json.dumps({**WHOLE, "place": 5}),
        json.dumps({**WHOLE, "place": ""}),
        json.dumps({**WHOLE, "where": 5}),
        json.dumps({**WHOLE, "rounds": "1"}),
        json.dumps({**WHOLE, "options": []}),
        json.dumps({**WHOLE, "options": {"heat": 1}}),
        json.dumps({**WHOLE, "kept": None}),
        json.dumps({**WHOLE, "model": None}),
    ],
)
def test_other_text_than_a_state_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # each says something else
        SuspendedCall.from_json(text)


@given(several)
def test_a_state_stores_messages_of_all_kinds(said: tuple[Message, ...]) -> None:
    state = SuspendedCall("x", said, ())
    assert SuspendedCall.from_json(state.to_json()).messages == said


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[]", "$ must be dict, found []"),
        (json.dumps({**WHOLE, "messages": 5}), "$.messages must be list, found 5"),
        (
            json.dumps({**WHOLE, "messages": [{"type": "user", "text": "a"}, {"type": "other"}]}),
            "$.messages[1]: unknown type of message: 'other'",
        ),
        (
            json.dumps({**WHOLE, "messages": [{"type": "user", "text": "a", "contents": "abc"}]}),
            "$.messages[0]: contents of a message is 'abc'; it must be a list",
        ),
        (
            json.dumps({**WHOLE, "exchanged": [{"type": "ai", "text": "a", "tool_calls": {"id": "c1"}}]}),
            "$.exchanged[0]: tool_calls of a message is {'id': 'c1'}; it must be a list",
        ),
        (json.dumps({**WHOLE, "pending": ["c1", 5]}), "$.pending[1] must be str, found 5"),
        (json.dumps({**WHOLE, "rounds": -100}), "$.rounds must not be negative, found -100"),
        (
            json.dumps({**WHOLE, "options": {"extra_headers": {"x": "y"}}}),
            "$.options.extra_headers: a suspended call has no headers",
        ),
        (json.dumps({**WHOLE, "place": '"'}), "$.place is '\"', which to_json does not write"),
        (json.dumps({**WHOLE, "rounds": True}), "$.rounds must be int, found True"),
        (
            json.dumps({**WHOLE, "options": {"temperature": "hot"}}),
            "$.options: temperature is 'hot'; it must be from 0 to 2",
        ),
        (json.dumps({**WHOLE, "expires_at": "soon"}), "$.expires_at must be int or float, found 'soon'"),
    ],
)
def test_a_damaged_state_is_reported_with_its_path(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match="not a suspended call") as caught:
        SuspendedCall.from_json(text)
    assert str(caught.value) == f"the text is not a suspended call that to_json wrote: {problem}"


def test_json_that_is_nested_too_deeply_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="not a suspended call"):
        SuspendedCall.from_json("[" * 200_000)


# signatures and expiry


def test_each_state_has_an_id_of_its_own() -> None:
    service = asks(scripted(tool_calls_reply(SEND), tool_calls_reply(SEND)))
    first, second = (paused(lambda: service.ask("pay")).state for _ in range(2))
    assert first.id != second.id
    assert SuspendedCall.from_json(first.to_json()).id == first.id


@pytest.mark.parametrize("key", ["secret", b"secret"])
def test_a_signed_state_is_read_with_its_key(key: str | bytes) -> None:
    state = paused(lambda: asks(scripted(tool_calls_reply(SEND))).ask("päy")).state
    signed = state.to_json(key=key)
    assert SuspendedCall.from_json(signed, key="secret") == state
    other_order = json.dumps(dict(sorted(json.loads(signed).items())), indent=2)
    assert SuspendedCall.from_json(other_order, key=key) == state


def test_a_state_without_the_right_signature_is_refused() -> None:
    state = paused(lambda: asks(scripted(tool_calls_reply(SEND))).ask("pay")).state
    signed = state.to_json(key="secret")
    wrong = "the signature of the suspended call is wrong: it was changed, or signed with another key"
    cases: list[tuple[str, str | None, str]] = [
        (signed.replace("5}", "500}"), "secret", wrong),
        (signed, "other", wrong),
        (json.dumps({**json.loads(signed), "signature": "é"}), "secret", wrong),
        (
            state.to_json(),
            "secret",
            "the suspended call is not signed; pass the key to to_json as well",
        ),
        (signed, None, "the suspended call is signed; pass the key to from_json"),
        (signed, "", "the key is empty; pass a secret, for example 32 random bytes"),
    ]
    messages = []
    for text, key, _ in cases:
        with pytest.raises(ValueError, match=r"suspended call|key") as caught:
            SuspendedCall.from_json(text, key=key)
        messages.append(str(caught.value))
    assert messages == [message for _, _, message in cases]


def test_a_state_expires() -> None:
    service = asks(scripted(tool_calls_reply(SEND), "Paid."))
    state = paused(lambda: service.ask("pay")).state
    lasting = SuspendedCall.from_json(state.to_json(expires_after=3600))
    assert resume(service.ask, lasting, {"c1": True}) == "Paid."
    short = state.to_json(key="secret", expires_after=0.01)
    time.sleep(0.02)
    expected = "the suspended call of Asks.ask has expired; make the call again"
    with pytest.raises(ValueError, match="expired") as caught:
        SuspendedCall.from_json(short, key="secret")
    assert str(caught.value) == expected
    with pytest.raises(ValueError, match="expired") as caught:
        resume(service.ask, lasting._replace(expires_at=1.0), {"c1": True})
    assert str(caught.value) == expected


# the budget


def test_the_time_of_the_budget_starts_over_and_ends_an_async_tool() -> None:
    ended: list[str] = []

    @tool(needs_approval=True)
    async def send(amount: int) -> str:
        """Sends money."""
        try:
            await asyncio.sleep(30 if amount > 5 else 0)
        finally:
            ended.append(f"sent {amount}")
        return "sent"

    class Awaits(Protocol):
        async def aask(self, text: str) -> str: ...

    async def ask(amount: int) -> str:
        call = ("send", json.dumps({"amount": amount}))
        model = scripted(tool_calls_reply(call), "Paid.")
        service = create(Awaits, model, tools=[send], budget=Budget(seconds=0.5))
        with pytest.raises(ApprovalRequiredError) as caught:
            await service.aask("pay")
        await asyncio.sleep(0.6)  # the time until the decision does not count
        return await resume(service.aask, caught.value.state, True)

    assert asyncio.run(ask(5)) == "Paid."
    started_at = time.monotonic()
    with pytest.raises(BudgetExceededError) as caught:
        asyncio.run(ask(6))
    assert (caught.value.limit, ended) == ("seconds", ["sent 5", "sent 6"])
    assert time.monotonic() - started_at < 10


def test_an_expiry_in_the_past_cannot_be_set() -> None:
    with pytest.raises(ValueError, match="expires_after") as caught:
        SuspendedCall("x", (), ()).to_json(expires_after=0)
    assert str(caught.value) == "expires_after is 0; it must be greater than 0"


# approval that depends on the arguments


class Blocking(Protocol):
    def ask(self, text: str) -> str: ...


class AsyncDesk(Protocol):
    async def aask(self, text: str) -> str: ...


def paying(rule: Any) -> Any:
    @tool(needs_approval=rule)
    def pay(euros: int, to: str = "Ann") -> str:
        return f"paid {euros} to {to}"

    return pay


def pays(euros: int) -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("c", "pay", f'{{"euros": {euros}}}'),)))


async def above_50(euros: int) -> bool:
    return euros > 50


class Limit:
    def __call__(self, euros: int) -> bool:
        return euros > 50


@pytest.mark.parametrize(
    "rule", [lambda euros: euros > 50, lambda euros, to: to == "Ann" and euros > 50, Limit(), above_50]
)
@pytest.mark.parametrize("euros", [50, 51])
def test_a_function_of_the_arguments_decides_whether_a_call_waits(rule: Any, euros: int) -> None:
    model = ScriptedChatModel([pays(euros), "done"])
    service = create(AsyncDesk, model, tools=[paying(rule)])
    if euros == 50:
        assert asyncio.run(service.aask("x")) == "done"
        return
    with pytest.raises(ApprovalRequiredError) as caught:
        asyncio.run(service.aask("x"))
    assert asyncio.run(plain(resume(service.aask, caught.value.state, True))) == "done"
    assert model.requests[-1].messages[-1].text == "paid 51 to Ann"


def test_a_blocking_call_asks_the_function_too() -> None:
    service = create(Blocking, ScriptedChatModel([pays(9), "done"]), tools=[paying(lambda euros: euros > 50)])
    assert service.ask("x") == "done"
    service = create(Blocking, ScriptedChatModel([pays(9), "done", pays(51)]), tools=[paying(above_50)])
    assert service.ask("x") == "done"
    with pytest.raises(ApprovalRequiredError):
        service.ask("x")


@pytest.mark.parametrize("rule", [lambda euros: 1 / 0, lambda euros: None, lambda euros: above_50(euros)])
def test_a_function_that_does_not_return_a_bool_lets_no_call_run(rule: Any) -> None:
    service = create(Blocking, ScriptedChatModel([pays(9), "done"]), tools=[paying(rule)])
    with pytest.raises(ApprovalRequiredError):
        service.ask("x")


def test_only_the_calls_that_need_approval_wait_and_the_others_run_after_it() -> None:
    calls = tuple(ToolCall(str(euros), "pay", f'{{"euros": {euros}}}') for euros in (9, 99))
    model = ScriptedChatModel([ChatReply(AiMessage("", calls)), "done"])
    service = create(Blocking, model, tools=[paying(lambda euros: euros > 50)])
    with pytest.raises(ApprovalRequiredError) as caught:
        service.ask("x")
    assert [call.id for call in caught.value.calls] == ["99"]
    assert resume(service.ask, caught.value.state, False) == "done"
    assert model.requests[-1].messages[-2].text == "paid 9 to Ann"


def test_a_rule_that_is_a_method_gets_its_object() -> None:
    class Bank:
        limit = 10

        def is_large(self, euros: int) -> bool:
            return euros > self.limit

        @tool(needs_approval=is_large)
        def pay(self, euros: int) -> str:
            return "paid"

    service = create(Blocking, ScriptedChatModel([pays(10), "done", pays(11)]), tools=[Bank()])
    assert service.ask("x") == "done"
    with pytest.raises(ApprovalRequiredError):
        service.ask("x")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (1, "tool: needs_approval is 1; it must be True or False or a function"),
        ("yes", "tool: needs_approval is 'yes'; it must be True or False or a function"),
        (None, "tool: needs_approval is None; it must be True or False or a function"),
        (lambda pounds: True, "takes pounds, which is not a parameter of the tool; it can take euros, to"),
    ],
)
def test_other_rules_are_definition_errors(rule: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        create(Blocking, ScriptedChatModel([]), tools=[paying(rule)])
