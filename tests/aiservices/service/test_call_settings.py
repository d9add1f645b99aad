"""Settings of methods: ``@options`` with interceptors, budgets, retries and limits of tools."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Protocol

import pytest
from fastapi.testclient import TestClient
from tool_calling import tool_calls_reply

from aiservices import (
    ApprovalRequiredError,
    Budget,
    BudgetExceededError,
    DefinitionError,
    MemoryId,
    Price,
    Retry,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    ToolErrors,
    ToolLimitError,
    ToolLimits,
    create,
    options,
    resume,
    tool,
)
from aiservices.guardrails import (
    GuardrailError,
    InputGuardrails,
    OutputGuardrails,
    forbidden,
    masked,
    max_length,
)
from aiservices.integrations.fastapi import router
from aiservices.interceptors import Answer, Flow, Invocation, Proceed
from aiservices.memory import ChatMemory
from aiservices.moderation import Moderation, ModerationResult
from aiservices.service.call_settings import merged_interceptors


class Marked:
    """An interceptor that adds its mark to the answer, and may have a position."""

    def __init__(self, mark: str, position: str | None = None) -> None:
        self.mark = mark
        if position is not None:
            self.position_name = position

    def __call__(self, invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        answer = yield from proceed(invocation)
        return replace(answer, value=answer.value + self.mark)

    def __repr__(self) -> str:
        return self.mark


SERVICE = Marked("s")
INTERFACE = Marked("i")
METHOD = Marked("m")


@options(interceptors=[INTERFACE])
class Chat(Protocol):
    @options(interceptors=[METHOD], temperature=0.5)
    def marked(self, text: str) -> str: ...

    @options(interceptors=[METHOD])
    async def amarked(self, text: str) -> str: ...

    @options(interceptors=[METHOD])
    def stream(self, text: str) -> Stream[str]: ...

    def plain(self, text: str) -> str: ...


def test_interceptors_of_a_method_are_inside_of_those_of_its_interface_and_of_create() -> None:
    chat = create(Chat, ScriptedChatModel(["-"] * 4), interceptors=[SERVICE])
    assert chat.plain("x") == "-is"
    assert chat.marked("x") == "-mis"
    assert asyncio.run(chat.amarked("x")) == "-mis"
    assert chat.stream("x").result().value == "-mis"


def position(kind: str | None) -> Marked:
    return Marked(str(kind), kind)


ORDER = ["input guard", "moderation", "memory", "retrieval", "output guard", "answer check", None]


@pytest.mark.parametrize("kind", [*ORDER, "other"])
def test_an_added_interceptor_gets_its_usual_place(kind: str | None) -> None:
    service = [position(one) for one in ORDER if one not in (kind, None)]
    merged = [str(one) for one in merged_interceptors(service, [position(kind)])]
    assert merged[merged.index(str(kind)) :][:1] == [str(kind)]
    expected = [str(one) for one in ORDER if one not in (None, kind)]
    if kind in ("other", None):
        assert merged == [*expected, str(kind)]
    elif kind == "output guard":  # at the same depth as other checks of the answer
        assert merged == [*expected, kind]
    else:
        assert merged == [str(one) for one in ORDER if one is not None]


def test_an_interceptor_of_the_same_kind_takes_the_place_of_the_others() -> None:
    first, last, own = Marked("first", "memory"), Marked("last", "retrieval"), Marked("own", "memory as sent")
    outside, guards = Marked("outside"), [Marked("a", "input guard"), Marked("b", "input guard")]
    assert merged_interceptors([outside, first, last], [own]) == (outside, own, last)
    assert merged_interceptors([*guards, first], [Marked("c", "input guard")])[1:] == (first,)
    assert merged_interceptors([first], guards) == (*guards, first)
    assert merged_interceptors([outside, *guards], [own]) == (outside, *guards, own)
    assert merged_interceptors([outside], [guards[0]]) == (outside, guards[0])
    assert merged_interceptors([], [own, guards[0]]) == (own, guards[0])
    assert merged_interceptors([outside], [last, guards[0]]) == (outside, last, guards[0])


class NoAnn:
    """A moderator that flags the name Ann and counts the texts that it sees."""

    def __init__(self) -> None:
        self.count = 0

    def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
        self.count += len(texts)
        return [ModerationResult(flagged="Ann" in text) for text in texts]


def test_moderation_and_guards_of_one_method_cost_the_others_nothing() -> None:
    moderator = NoAnn()

    class Desk(Protocol):
        @options(interceptors=[Moderation(moderator), OutputGuardrails(forbidden("free"))])
        def public(self, text: str) -> str: ...

        def internal(self, text: str) -> str: ...

    model = ScriptedChatModel(["free", "It is free.", "It is free."])
    desk = create(Desk, model, budget=Budget(max_attempts=1))
    assert desk.internal("Ann asks") == "free"
    assert moderator.count == 0
    with pytest.raises(GuardrailError):
        desk.public("Bob asks")
    assert moderator.count == 1


def test_a_guard_of_a_method_replaces_that_of_the_service() -> None:
    class Desk(Protocol):
        @options(interceptors=[InputGuardrails(max_length(100))])
        def long(self, text: str) -> str: ...

        def short(self, text: str) -> str: ...

    desk = create(Desk, ScriptedChatModel(["ok"]), interceptors=[InputGuardrails(max_length(5))])
    assert desk.long("more than five") == "ok"
    with pytest.raises(GuardrailError):
        desk.short("more than five")


def test_budget_and_retry_of_a_method() -> None:
    class Numbers(Protocol):
        @options(budget=Budget(max_attempts=1))
        def once(self, text: str) -> int: ...

        @options(retry=None)
        def never_again(self, text: str) -> int: ...

        def again(self, text: str) -> int: ...

    numbers = create(Numbers, ScriptedChatModel(["x", "x", "x", '{"value": 3}']))
    with pytest.raises(ServiceOutputError) as once:
        numbers.once("x")
    with pytest.raises(ServiceOutputError) as never:
        numbers.never_again("x")
    assert (len(once.value.attempts), len(never.value.attempts)) == (1, 1)
    assert numbers.again("x") == 3


def test_the_upper_decorator_and_the_method_take_precedence() -> None:
    @options(retry=None, budget=Budget(max_attempts=2))
    class Numbers(Protocol):
        @options(retry=Retry())
        @options(retry=None)
        def number(self, text: str) -> int: ...

        def other(self, text: str) -> int: ...

    numbers = create(Numbers, ScriptedChatModel(["x", "x", "x"]), budget=Budget(max_attempts=9))
    with pytest.raises(ServiceOutputError) as caught:
        numbers.number("x")
    assert len(caught.value.attempts) == 2
    with pytest.raises(ServiceOutputError) as caught:
        numbers.other("x")
    assert len(caught.value.attempts) == 1


def fail(day: str) -> str:
    raise ValueError("secret")


def test_limits_and_errors_of_tools_of_a_method() -> None:
    class Desk(Protocol):
        @options(tool_limits=ToolLimits(max_calls=1), tool_errors=ToolErrors(execution=lambda run: "Sorry."))
        def limited(self, text: str) -> str: ...

        def free(self, text: str) -> str: ...

    call, twice = ("fail", '{"day": "a"}'), (("fail", '{"day": "a"}'), ("fail", '{"day": "b"}'))
    model = ScriptedChatModel(
        [tool_calls_reply(call), "a", tool_calls_reply(*twice), "b", tool_calls_reply(*twice)]
    )
    desk = create(Desk, model, tools=[fail])
    assert (desk.limited("x"), model.requests[1].messages[-1].text) == ("a", "Sorry.")
    assert (desk.free("x"), model.requests[3].messages[-1].text) == ("b", "The tool fail failed.")
    with pytest.raises(ToolLimitError):
        desk.limited("x")


def test_wrong_settings_of_a_method_are_found_by_create() -> None:
    async def handle(run: Any) -> str:
        return ""

    @options(budget=3)  # type: ignore[arg-type]
    class Wrong(Protocol):
        @options(interceptors=[ChatMemory(), InputGuardrails(masked(r"\d+", "#"))])
        def order(self, text: str) -> str: ...

        @options(interceptors=InputGuardrails)  # type: ignore[arg-type]
        def item(self, text: str) -> str: ...

        @options(interceptors=[lambda invocation: invocation], tool_limits=3)  # type: ignore[arg-type,list-item]
        def function(self, text: str) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Wrong, ScriptedChatModel([]))
    assert [str(problem) for problem in caught.value.problems] == [
        "Wrong: budget has the type int; pass a Budget",
        "Wrong.item: interceptors has the type type; put it into a list",
        "Wrong.function: an item of interceptors is <lambda>, which cannot be called with (invocation, "
        "proceed): too many positional arguments",
        "Wrong.function: tool_limits has the type int; pass a ToolLimits",
    ]

    class Orders(Protocol):
        @options(interceptors=[ChatMemory(), InputGuardrails(masked(r"\d+", "#"))])
        def order(self, text: str) -> str: ...

        @options(budget=Budget(max_attempts=1), retry=Retry(max_attempts=2))
        def retried(self, text: str) -> str: ...

        @options(budget=Budget(money=1, prices={"other": Price(1, 1)}))
        def priced(self, text: str) -> str: ...

        @options(tool_errors=ToolErrors(execution=handle))  # type: ignore[arg-type]
        def handled(self, text: str) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Orders, ScriptedChatModel([]))
    assert [str(problem).partition(";")[0] for problem in caught.value.problems] == [
        "Orders.order: ChatMemory comes before InputGuardrails, so memory stores what the guards remove, and "
        "the model sees it in later calls",
        "Orders.retried: Retry(max_attempts=2) exceeds the budget of 1 requests",
        "Orders.priced: the budget limits money, but its prices do not name scripted",
        "Orders.handled, ToolErrors: execution is an async function, and nothing awaits it",
    ]


def test_what_is_wrong_in_the_service_is_reported_once() -> None:
    class Orders(Protocol):
        @options(interceptors=[METHOD])
        def order(self, text: str) -> str: ...

        def other(self, text: str) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Orders, ScriptedChatModel([]), interceptors=[Marked("x", "retry"), ChatMemory()])
    assert [problem.location for problem in caught.value.problems] == ["Orders"]


def test_an_async_interceptor_is_refused_for_blocking_methods_only() -> None:
    async def check(text: str, invocation: Invocation) -> Any: ...

    class Both(Protocol):
        @options(interceptors=[OutputGuardrails(check)])
        def blocking(self, text: str) -> str: ...

        @options(interceptors=[OutputGuardrails(check)])
        async def coroutine(self, text: str) -> str: ...

        def without(self, text: str) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Both, ScriptedChatModel([]))
    assert [problem.location for problem in caught.value.problems] == ["Both.blocking"]


class Talk(Protocol):
    @options(interceptors=[ChatMemory()])
    def remembered(self, text: str) -> str: ...

    def once(self, text: str) -> str: ...


def test_memory_of_one_method() -> None:
    memory = ChatMemory()

    class Support(Protocol):
        @options(interceptors=[memory])
        def chat(self, text: str, who: Annotated[str, MemoryId]) -> str: ...

        def once(self, text: str) -> str: ...

    model = ScriptedChatModel(["1", "2", "3"])
    support = create(Support, model)
    support.chat("a", "ann")
    support.once("b")
    support.chat("c", "ann")
    assert [len(request.messages) for request in model.requests] == [1, 1, 3]
    assert [message.text for message in memory.messages("ann")] == ["a", "1", "c", "3"]


def test_a_memory_id_without_a_memory_of_its_method_is_refused() -> None:
    class Support(Protocol):
        @options(interceptors=[ChatMemory()])
        def chat(self, text: str, who: Annotated[str, MemoryId]) -> str: ...

        def other(self, text: str, who: Annotated[str, MemoryId]) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Support, ScriptedChatModel([]))
    assert [problem.location for problem in caught.value.problems] == ["Support.other"]


def test_routes_refuse_only_the_methods_whose_memory_all_callers_would_share() -> None:
    with pytest.raises(DefinitionError) as caught:
        router(create(Talk, ScriptedChatModel([])))
    assert [problem.location for problem in caught.value.problems] == ["Talk.remembered"]


def test_a_route_uses_the_settings_of_its_method() -> None:
    from fastapi import FastAPI

    application = FastAPI()
    application.include_router(router(create(Chat, ScriptedChatModel(["-"] * 2))))
    http = TestClient(application)
    assert http.post("/marked", json={"text": "x"}).json() == "-mi"
    assert http.post("/plain", json={"text": "x"}).json() == "-i"


def test_a_resumed_call_has_the_settings_of_its_method() -> None:
    @tool(needs_approval=True)
    def book(day: str) -> str:
        return "booked"

    class Desk(Protocol):
        @options(interceptors=[METHOD], budget=Budget(max_attempts=1), retry=None)
        def ask(self, text: str) -> int: ...

    model = ScriptedChatModel([tool_calls_reply(("book", '{"day": "a"}')), "x"])
    desk = create(Desk, model, tools=[book])
    with pytest.raises(ApprovalRequiredError) as caught:
        desk.ask("x")
    with pytest.raises((ServiceOutputError, BudgetExceededError)) as failed:
        resume(desk.ask, caught.value.state, True)
    assert len(failed.value.attempts) == 1


def test_a_pickled_service_keeps_the_settings_of_its_methods() -> None:
    chat = pickle.loads(pickle.dumps(create(Chat, "fake")))
    assert chat.marked("x").endswith("mi")
    assert not chat.plain("x").endswith("mi")
