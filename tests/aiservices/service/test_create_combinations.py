"""Combinations of features in one conversation: each works as it does alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

import pytest
from hypothesis import given, settings, strategies as st
from tool_calling import (
    ANN,
    CALL_KINDS,
    NATIVE,
    Person,
    TextService,
    every_call_kind,
    strict_provider,
    tool_calls_reply,
)

from aiservices import (
    AiMessage,
    AiServiceError,
    ApprovalRequiredError,
    Budget,
    ChatReply,
    DefinitionError,
    Message,
    ModelServerError,
    Result,
    Retry,
    ReturnBehavior,
    ServiceOutputError,
    SuspendedCall,
    ToolCall,
    ToolLimitError,
    ToolLimits,
    ToolMessage,
    UserMessage,
    create,
    example,
    resume,
    tool,
)
from aiservices.agents import ReActAgent
from aiservices.guardrails import InputGuardrails, OutputGuardrails, Verdict, masked, passed, reprompt
from aiservices.interceptors import Interceptor, Invocation
from aiservices.memory import ChatMemory
from aiservices.retrieval import Content, Query, RetrievalAugmentor

LOOK, PAY = ("look", '{"what": "Ann"}'), ("pay", '{"amount": 5}')
AMPLE = Budget(max_attempts=9, first_wait=0)


class Finds(Protocol):
    def find(self, text: str) -> Result[Person]: ...


class Numbers(Protocol):
    def numbers(self, text: str) -> Iterator[int]: ...

    def anumbers(self, text: str) -> AsyncIterator[int]: ...


class Notes:
    def retrieve(self, query: Query) -> list[Content]:
        return [Content("Ann is 31.")]


def look(what: str) -> str:
    """Looks something up."""
    return f"{what} was found"


def paying(**settings: Any) -> Callable[[int], str]:
    @tool(**settings)
    def pay(amount: int) -> str:
        """Pays."""
        return f"paid {amount}"

    return pay


def not_bob(value: Person, invocation: Invocation) -> Verdict:
    return reprompt("say it otherwise") if value.name == "Bob" else passed()


def not_bad(text: str, invocation: Invocation) -> Verdict:
    return reprompt("say it otherwise") if text == "bad" else passed()


def approved(method: Callable[[str], Any]) -> Any:
    """Return the answer of a method after all approvals, with the state stored as JSON."""
    try:
        return method("who?")
    except ApprovalRequiredError as error:
        wait = error
    while True:
        state = SuspendedCall.from_json(wait.state.to_json())
        try:
            return resume(method, state, dict.fromkeys(state.pending, True))
        except ApprovalRequiredError as error:
            wait = error


# calls that wait for approval, and answers that are requested again

UNREAD, REJECTED = "nobody", '{"name": "Bob", "age": 1}'
ORDERS: dict[str, Callable[[str], tuple[str | ChatReply, ...]]] = {
    "a wait after it": lambda bad: (tool_calls_reply(LOOK), bad, tool_calls_reply(PAY), ANN),
    "a wait before it": lambda bad: (
        tool_calls_reply(LOOK),
        tool_calls_reply(PAY),
        bad,
        tool_calls_reply(LOOK),
        ANN,
    ),
    "a wait between two": lambda bad: (
        tool_calls_reply(LOOK),
        bad,
        tool_calls_reply(PAY),
        bad,
        tool_calls_reply(LOOK),
        ANN,
    ),
    "waits around it": lambda bad: (
        tool_calls_reply(PAY),
        bad,
        tool_calls_reply(LOOK),
        bad,
        tool_calls_reply(PAY),
        ANN,
    ),
}
in_every_order = pytest.mark.parametrize("order", ORDERS)
BAD = pytest.mark.parametrize("bad", [UNREAD, REJECTED], ids=["unread", "rejected"])
SENT = pytest.mark.parametrize("as_sent", [False, True])


def value_and_stored_messages(
    script: tuple[str | ChatReply, ...], *, waits: bool, as_sent: bool
) -> tuple[Person, tuple[Message, ...]]:
    """Return the value of a call and the messages that memory stores."""
    memory = ChatMemory(store_as_sent=as_sent)
    model = strict_provider(*script, capabilities=NATIVE)
    interceptors: list[Interceptor] = [
        memory,
        RetrievalAugmentor(Notes()),
        OutputGuardrails(not_bob, on="value"),
    ]
    tools = [look, paying(needs_approval=waits)]
    service = create(Finds, model, tools=tools, interceptors=interceptors, budget=AMPLE)
    return approved(service.find).value, memory.messages()


@SENT
@BAD
@in_every_order
def test_a_resumed_call_returns_and_stores_the_same_as_one_that_did_not_wait(
    order: str, bad: str, as_sent: bool
) -> None:
    waited = value_and_stored_messages(ORDERS[order](bad), waits=True, as_sent=as_sent)
    assert waited == value_and_stored_messages(ORDERS[order](bad), waits=False, as_sent=as_sent)
    assert waited[0] == Person("Ann", 31)


def test_all_rounds_of_a_call_that_waited_are_in_the_trace() -> None:
    _, kept = value_and_stored_messages(ORDERS["a wait after it"](REJECTED), waits=True, as_sent=False)
    assert kept == (
        UserMessage("who?"),
        AiMessage("", (ToolCall("c1", *LOOK),)),
        ToolMessage("c1", "look", "Ann was found"),
        AiMessage("", (ToolCall("call_2", *PAY),)),
        ToolMessage("call_2", "pay", "paid 5"),
        AiMessage(ANN),
    )


def test_memory_stores_the_sent_question_when_a_tool_ends_a_resumed_call() -> None:
    memory = ChatMemory(store_as_sent=True)
    ends = paying(needs_approval=True, return_behavior=ReturnBehavior.IMMEDIATE)
    interceptors: list[Interceptor] = [memory, RetrievalAugmentor(Notes())]
    service = create(
        TextService, strict_provider(tool_calls_reply(PAY)), tools=[ends], interceptors=interceptors
    )
    assert approved(service.ask) == "paid 5"
    assert "Ann is 31." in memory.messages()[0].text


def test_the_limit_of_calls_applies_to_all_answers_of_a_call() -> None:
    model = strict_provider(tool_calls_reply(LOOK, LOOK), "bad", tool_calls_reply(LOOK))
    guards, limits = OutputGuardrails(not_bad), ToolLimits(max_calls=2)
    service = create(TextService, model, tools=[look], interceptors=[guards], tool_limits=limits)
    with pytest.raises(ToolLimitError) as error:
        service.ask("x")
    said = "TextService.ask: the model called tools beyond the limit of 2 calls; raise ToolLimits"
    assert str(error.value) == said


def test_calls_of_a_later_answer_have_ids_of_their_own() -> None:
    model = strict_provider(tool_calls_reply(LOOK), "bad", tool_calls_reply(LOOK), "good")
    service = create(TextService, model, tools=[look], interceptors=[OutputGuardrails(not_bad)], budget=AMPLE)
    assert service.ask("x") == "good"
    assert [said.call_id for said in model.requests[-1].messages if isinstance(said, ToolMessage)] == [
        "c1",
        "call_2",
    ]


# stored as it was sent


class Shown(Protocol):
    @example("It is Bob, 5.", returns=Person("Bob", 5))
    def find(self, text: str) -> Person: ...


def test_memory_stores_the_sent_question_when_only_fields_were_requested_again() -> None:
    memory = ChatMemory(store_as_sent=True)
    model = strict_provider('{"name": "Ann", "age": "old"}', '{"age": 31}', capabilities=NATIVE)
    service = create(Shown, model, interceptors=[memory], retry=Retry(mode="fields"), budget=AMPLE)
    assert service.find("who?") == Person("Ann", 31)
    assert memory.messages()[0] == UserMessage("who?")


# streams of services with tools


@every_call_kind
def test_the_result_of_a_tool_is_the_answer_although_the_model_spoke_before(kind: str) -> None:
    ends = paying(return_behavior=ReturnBehavior.IMMEDIATE)
    service = create(TextService, strict_provider(tool_calls_reply(PAY, text="Let me see. ")), tools=[ends])
    spoken = "Let me see. " if "texts" in kind else ""  # pieces of text are shown as they come
    assert CALL_KINDS[kind](service) == f"{spoken}paid 5"


async def all_of(items: AsyncIterator[int], got: list[int]) -> None:
    async for item in items:
        got += [item]


def numbers(service: Numbers, got: list[int]) -> None:
    got += service.numbers("x")


def anumbers(service: Numbers, got: list[int]) -> None:
    asyncio.run(all_of(service.anumbers("x"), got))


@pytest.mark.parametrize("read", [numbers, anumbers])
def test_items_next_to_the_call_of_a_tool_are_not_items_of_the_answer(
    read: Callable[[Numbers, list[int]], None],
) -> None:
    service = create(
        Numbers,
        strict_provider(tool_calls_reply(LOOK, text="[9]"), "[1, 2]", capabilities=NATIVE),
        tools=[look],
    )
    got: list[int] = []
    with pytest.raises(ServiceOutputError) as error:
        read(service, got)
    assert got == [9]
    assert [problem.message for problem in error.value.problems] == [
        "the model called the tool look after items of its reply were yielded"
    ]


@pytest.mark.parametrize("read", [numbers, anumbers])
def test_text_next_to_a_tool_call_is_not_an_item(
    read: Callable[[Numbers, list[int]], None],
) -> None:
    said = tool_calls_reply(LOOK, text="I look:\n")
    got: list[int] = []
    read(create(Numbers, strict_provider(said, "[1, 2]", capabilities=NATIVE), tools=[look]), got)
    assert got == [1, 2]


# agents with a memory


def test_the_memory_of_an_agent_does_not_store_what_its_guards_remove() -> None:
    memory, model = ChatMemory(), strict_provider("Hello.", "Yes.")
    guards = InputGuardrails(masked("Ann"))
    friday = ReActAgent("Friday", "You help.", model, memory=memory, interceptors=[guards])
    friday.reply("I am Ann.")
    friday.reply("Who am I?")
    assert memory.messages()[0] == UserMessage("I am ***.")
    assert not any("Ann" in message.text for request in model.requests for message in request.messages)


def test_guards_behind_the_retrieval_of_an_agent_see_what_was_retrieved() -> None:
    memory, model = ChatMemory(), strict_provider("Hello.")
    interceptors: list[Interceptor] = [RetrievalAugmentor(Notes()), InputGuardrails(masked("Ann"))]
    ReActAgent("Friday", "You help.", model, memory=memory, interceptors=interceptors).reply("Who?")
    assert "*** is 31." in model.requests[0].messages[-1].text
    assert memory.messages()[0] == UserMessage("Who?")


def test_an_agent_refuses_an_order_that_gives_wrong_results() -> None:
    interceptors: list[Interceptor] = [OutputGuardrails(not_bad), ChatMemory()]
    with pytest.raises(DefinitionError) as error:
        ReActAgent("Friday", "You help.", strict_provider(), interceptors=interceptors)
    assert str(error.value) == (
        "Friday.reply: OutputGuardrails comes before ChatMemory, so memory stores an answer before it "
        "was accepted; put ChatMemory first"
    )


# whatever a model says

BROKEN = ModelServerError("down", retryable=True)
REPLIES = st.one_of(
    st.sampled_from(["fine", "a name", "bad", BROKEN, ModelServerError("gone")]),
    st.lists(
        st.sampled_from([LOOK, PAY, ("tell", "{}"), ("none", "{}"), ("look", "{}")]), min_size=1, max_size=3
    ).map(lambda made: tool_calls_reply(*made)),
)


def outcome_of(
    kind: Callable[[TextService], str], script: list[Any], *, waits: bool = False, attempts: int = 4
) -> tuple[list[str], tuple[Message, ...]]:
    """Return the values or error names of two calls, and the messages that memory stores."""

    @tool(return_behavior=ReturnBehavior.IMMEDIATE)
    def tell() -> str:
        """Tells."""
        return "bad"

    memory, model = ChatMemory(), strict_provider(*script, *["fine"] * 40)
    interceptors: list[Interceptor] = [
        memory,
        OutputGuardrails(not_bad, masked("name"), max_attempts=attempts),
    ]
    tools = [look, tell, paying(needs_approval=waits)]
    budget = Budget(max_attempts=attempts, first_wait=0)
    service = create(TextService, model, tools=tools, interceptors=interceptors, budget=budget)
    given = []
    for _ in range(2):
        before = memory.messages()
        try:
            given.append(kind(service))
            assert memory.messages()[: len(before)] == before
            assert memory.messages()[-1] == AiMessage(given[-1])
        except AiServiceError as error:
            assert memory.messages() == before
            given.append(type(error).__name__)
    assert not {"bad", "a name"} & {said.text for said in memory.messages() if isinstance(said, AiMessage)}
    return given, memory.messages()


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.lists(REPLIES, max_size=8))
def test_all_kinds_of_calls_give_and_keep_the_same(script: list[Any]) -> None:
    first, *others = (outcome_of(kind, script) for kind in CALL_KINDS.values())
    assert all(one == first for one in others)


@settings(max_examples=80, derandomize=True, deadline=None)
@given(st.lists(REPLIES.filter(lambda reply: not isinstance(reply, Exception)), max_size=8))
def test_calls_that_wait_return_and_store_the_same_as_others(script: list[Any]) -> None:
    def blocking(service: TextService) -> str:
        return str(approved(service.ask))

    waited = outcome_of(blocking, script, waits=True, attempts=40)
    assert waited == outcome_of(blocking, script, attempts=40)
