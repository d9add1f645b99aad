"""``create`` refuses wrong orders of interceptors, and async functions that nothing awaits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import pytest

from aiservices import ChatRequest, DefinitionError, ScriptedChatModel, ToolErrors, ToolRun, create
from aiservices.guardrails import Guard, InputGuardrails, OutputGuardrails, forbidden, masked
from aiservices.interceptors import Answer, Flow, Interceptor, Invocation, Proceed
from aiservices.memory import ChatMemory
from aiservices.retrieval import Content, Query, RetrievalAugmentor


class Chat(Protocol):
    def chat(self, text: str) -> str: ...


class Both(Protocol):
    def chat(self, text: str) -> str: ...

    def words(self, text: str) -> Iterator[str]: ...

    async def achat(self, text: str) -> str: ...


class Waits(Protocol):
    async def achat(self, text: str) -> str: ...

    def awords(self, text: str) -> AsyncIterator[str]: ...


class Shelf:
    def retrieve(self, query: Query, /) -> Sequence[Content]:
        return [Content("It leaves at nine.", "1")]


class FarShelf:
    async def retrieve(self, query: Query, /) -> Sequence[Content]:
        return [Content("It leaves at nine.", "1")]


class Passing:
    """An interceptor of a user with any optional attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        return (yield from proceed(invocation))


INPUT = InputGuardrails(masked("secret"))
OUTPUT = OutputGuardrails(forbidden("secret"))
RETRIEVAL = RetrievalAugmentor(Shelf())


def refused(interface: type[Any], **settings: Any) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        create(interface, ScriptedChatModel(["a"]), **settings)
    return [str(problem) for problem in caught.value.problems]


# orders


KEEPS_SECRETS = "memory stores what the guards remove, and the model sees it in later calls"
KEEPS_FOUND = "memory stores what was retrieved as if the user had written it"
KEEPS_REFUSED = "memory stores an answer before it was accepted"
KEEPS_PROBLEMS = "memory stores the problems of an answer as if the user had written them"
WORDS_OF_GUARDS = "after a rejected answer, retrieval searches for the words of the guards"
WAITS = "a call that waits for approval stores what the guards remove"


@pytest.mark.parametrize(
    ("interceptors", "said"),
    [
        ([ChatMemory(), INPUT], [f"ChatMemory comes before InputGuardrails, so {KEEPS_SECRETS}"]),
        ([ChatMemory(), OUTPUT, INPUT], [f"ChatMemory comes before InputGuardrails, so {KEEPS_SECRETS}"]),
        (
            [ChatMemory(store_as_sent=True), INPUT],
            [f"ChatMemory comes before InputGuardrails, so {WAITS}"],
        ),
        ([RETRIEVAL, ChatMemory()], [f"RetrievalAugmentor comes before ChatMemory, so {KEEPS_FOUND}"]),
        ([OUTPUT, ChatMemory()], [f"OutputGuardrails comes before ChatMemory, so {KEEPS_REFUSED}"]),
        (
            [OUTPUT, ChatMemory(store_as_sent=True)],
            [f"OutputGuardrails comes before ChatMemory, so {KEEPS_REFUSED}"],
        ),
        (
            [Passing(position_name="answer check"), ChatMemory()],
            [f"Passing comes before ChatMemory, so {KEEPS_REFUSED}"],
        ),
        (
            [Passing(position_name="retry"), ChatMemory()],
            [f"Passing comes before ChatMemory, so {KEEPS_PROBLEMS}"],
        ),
        ([OUTPUT, RETRIEVAL], [f"OutputGuardrails comes before RetrievalAugmentor, so {WORDS_OF_GUARDS}"]),
        (
            [OUTPUT, RETRIEVAL, ChatMemory()],
            [
                f"OutputGuardrails comes before RetrievalAugmentor, so {WORDS_OF_GUARDS}",
                f"OutputGuardrails comes before ChatMemory, so {KEEPS_REFUSED}",
                f"RetrievalAugmentor comes before ChatMemory, so {KEEPS_FOUND}",
            ],
        ),
    ],
)
def test_an_order_that_gives_wrong_results_is_refused(
    interceptors: list[Interceptor], said: list[str]
) -> None:
    inner = [one.split(" comes before ")[1].split(",")[0] for one in said]
    assert refused(Chat, interceptors=interceptors) == [
        f"Chat: {one}; put {name} first" for one, name in zip(said, inner, strict=True)
    ]


@pytest.mark.parametrize(
    "interceptors",
    [
        [INPUT, ChatMemory(), RETRIEVAL, OUTPUT],
        [INPUT, ChatMemory(), RETRIEVAL, InputGuardrails(forbidden("ignore all")), OUTPUT],
        [ChatMemory(), RETRIEVAL, INPUT],
        [RETRIEVAL, ChatMemory(store_as_sent=True)],
        [OUTPUT, INPUT],
        [INPUT, INPUT, OUTPUT, OUTPUT],
    ],
)
def test_an_order_that_gives_right_results_is_taken(interceptors: list[Interceptor]) -> None:
    assert create(Chat, ScriptedChatModel(["a"]), interceptors=interceptors).chat("x") == "a"


@pytest.mark.parametrize(
    "passing", [Passing(), Passing(position_name="other"), Passing(position_name=["memory"])]
)
def test_other_interceptors_stand_anywhere(passing: Interceptor) -> None:
    interceptors = [passing, INPUT, passing, ChatMemory(), passing, OUTPUT, passing]
    assert create(Chat, ScriptedChatModel(["a"]), interceptors=interceptors).chat("x") == "a"


def test_an_interceptor_of_a_user_may_have_a_position_name() -> None:
    (message,) = refused(Chat, interceptors=[Passing(position_name="memory"), INPUT])
    first = "Passing comes before InputGuardrails"
    assert message == f"Chat: {first}, so {KEEPS_SECRETS}; put InputGuardrails first"


@pytest.mark.parametrize("setting", ["interceptors", "listeners", "tools"])
def test_what_is_to_be_a_list_is_one(setting: str) -> None:
    (message,) = refused(Chat, **{setting: ChatMemory()})
    assert message == f"Chat: {setting} has the type ChatMemory; put it into a list"


def test_interceptors_may_come_one_by_one() -> None:
    notify: list[Any] = []
    settings: dict[str, Any] = {
        "interceptors": (one for one in [OutputGuardrails(masked("a", by="A"))]),
        "listeners": iter([notify.append]),
    }
    assert create(Chat, ScriptedChatModel(["a"]), **settings).chat("x") == "A"
    assert notify


# what has to be awaited


async def check(text: Any, invocation: Invocation) -> Any: ...


async def listen(event: Any) -> None: ...


class Listening:
    async def __call__(self, event: Any) -> None: ...


class Judge:
    async def __call__(self, text: Any, invocation: Invocation) -> Any: ...


ONLY = "is async; only async methods can await it, and these are blocking: chat, words"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"listeners": [listen]}, [f"Both: the listener listen {ONLY}"]),
        ({"listeners": [partial(listen)]}, [f"Both: the listener listen {ONLY}"]),
        ({"listeners": [print, Listening()]}, [f"Both: the listener Listening {ONLY}"]),
        ({"interceptors": [InputGuardrails(masked("x"), check)]}, [f"Both: the guard check {ONLY}"]),
        ({"interceptors": [OutputGuardrails(Judge())]}, [f"Both: the guard Judge {ONLY}"]),
        ({"interceptors": [OutputGuardrails(Guard(check, "fair"))]}, [f"Both: the guard fair {ONLY}"]),
        ({"interceptors": [RetrievalAugmentor(Shelf(), FarShelf())]}, [f"Both: FarShelf.retrieve {ONLY}"]),
        ({"interceptors": [Passing(async_parts=("the gate",))]}, [f"Both: the gate {ONLY}"]),
        (
            {"interceptors": [InputGuardrails(check)], "listeners": [listen]},
            [f"Both: the guard check {ONLY}", f"Both: the listener listen {ONLY}"],
        ),
    ],
)
def test_async_parts_are_refused_for_blocking_methods(settings: dict[str, Any], said: list[str]) -> None:
    assert refused(Both, **settings) == said


def test_async_methods_await_what_is_async() -> None:
    notify: list[str] = []

    async def hear(event: Any) -> None:
        notify.append(type(event).__name__)

    async def shout(text: Any, invocation: Invocation) -> Any:
        return masked("a", by="A")(text, invocation)

    service = create(
        Waits, ScriptedChatModel(["a"]), interceptors=[OutputGuardrails(shout)], listeners=[hear]
    )
    assert asyncio.run(service.achat("x")) == "A"
    assert notify[-1] == "CallCompleted"


# what nothing awaits


async def transform(request: ChatRequest) -> ChatRequest:
    return request


async def tell(run: ToolRun) -> str:
    return run.text


NOT_AWAITED = "is an async function, and nothing awaits it; make it a plain function"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"transform": transform}, f"Waits: transform {NOT_AWAITED}"),
        ({"tool_errors": ToolErrors(execution=tell)}, f"ToolErrors: execution {NOT_AWAITED}"),  # type: ignore[arg-type]
    ],
)
def test_never_awaited_functions_are_refused_for_async_methods_too(
    settings: dict[str, Any], said: str
) -> None:
    assert refused(Waits, **settings) == [said]


def test_all_problems_are_reported_together() -> None:
    said = refused(Both, interceptors=[ChatMemory(), INPUT], listeners=[listen], transform=transform)
    assert said == [
        f"Both: ChatMemory comes before InputGuardrails, so {KEEPS_SECRETS}; put InputGuardrails first",
        f"Both: the listener listen {ONLY}",
        f"Both: transform {NOT_AWAITED}",
    ]


def test_two_memories_are_refused() -> None:
    with pytest.raises(DefinitionError) as caught:
        create(Chat, ScriptedChatModel([]), interceptors=[ChatMemory(), ChatMemory(store_as_sent=True)])
    assert str(caught.value) == (
        "Chat: 2 interceptors are memories, so the conversation would be sent 2 times; pass one of them"
    )
