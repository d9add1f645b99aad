"""RetrievalAugmentor adds contents to the message in all kinds of calls, and memory does not store them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Annotated, Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    AsyncStream,
    ChatReply,
    Completed,
    DefinitionError,
    MemoryId,
    Result,
    ScriptedChatModel,
    Stream,
    SystemMessage,
    ToolCall,
    ToolContext,
    UserMessage,
    create,
    system_message,
    user_message,
)
from aiservices.engine.approval import ApprovalRequiredError
from aiservices.memory import ChatMemory
from aiservices.retrieval import (
    Content,
    ContentsRetrieved,
    Query,
    RetrievalAugmentor,
    RetrievalError,
    Retriever,
    RouteBy,
    RouteToAll,
    retriever_tool,
)
from aiservices.service.methods import resume
from aiservices.tools.tool import tool

NINE = Content("The ferry leaves at nine.", "ferry-1")
TEN = Content("It comes back at ten.", "ferry-2")
AUGMENTED = (
    "When does it leave?\n\n"
    "Answer using the following information:\n"
    "[ferry-1]\nThe ferry leaves at nine.\n\n[ferry-2]\nIt comes back at ten."
)


class Shelf:
    """A retriever that returns its contents for every query."""

    def __init__(self, *contents: Content) -> None:
        self.contents = contents
        self.queries: list[Query] = []

    def retrieve(self, query: Query, /) -> Sequence[Content]:
        self.queries.append(query)
        return self.contents


class FarShelf(Shelf):
    """An async retriever that returns its contents for every query."""

    async def retrieve(self, query: Query, /) -> Sequence[Content]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().retrieve(query)


class Guide(Protocol):
    def answer(self, question: str) -> Result[str]: ...
    async def await_answer(self, question: str) -> Result[str]: ...
    def words(self, question: str) -> Iterator[str]: ...
    def later_words(self, question: str) -> AsyncIterator[str]: ...
    def growing(self, question: str) -> Stream[str]: ...
    def growing_later(self, question: str) -> AsyncStream[str]: ...


class LaterGuide(Protocol):
    async def await_answer(self, question: str) -> Result[str]: ...
    def growing_later(self, question: str) -> AsyncStream[str]: ...


def later_guide(*retrievers: Any) -> tuple[LaterGuide, ScriptedChatModel]:
    model = ScriptedChatModel(["At nine."])
    return create(LaterGuide, model, interceptors=[RetrievalAugmentor(*retrievers)]), model


def guide(*retrievers: Any, replies: Sequence[str] = ("At nine.",)) -> tuple[Guide, ScriptedChatModel]:
    model = ScriptedChatModel(replies)
    return create(Guide, model, interceptors=[RetrievalAugmentor(*retrievers)]), model


async def collected(pieces: AsyncIterator[Any]) -> list[Any]:
    return [piece async for piece in pieces]


def test_the_message_contains_the_contents_and_the_result_has_them() -> None:
    service, model = guide(Shelf(NINE, TEN))
    result = service.answer("When does it leave?")
    assert (result.value, result.sources) == ("At nine.", (NINE, TEN))
    assert model.requests[0].messages == (UserMessage(AUGMENTED),)


@pytest.mark.parametrize("shelf", [Shelf, FarShelf])
def test_an_async_call_does_the_same_with_both_kinds_of_retrievers(shelf: type[Shelf]) -> None:
    service, model = later_guide(shelf(NINE, TEN))
    result = asyncio.run(service.await_answer("When does it leave?"))
    assert (result.value, result.sources) == ("At nine.", (NINE, TEN))
    assert model.requests[0].messages == (UserMessage(AUGMENTED),)


def test_streams_of_text_do_the_same() -> None:
    service, model = guide(Shelf(NINE, TEN), replies=["At nine.", "At nine."])
    assert list(service.words("When does it leave?")) == ["At ", "nine."]
    assert asyncio.run(collected(service.later_words("When does it leave?"))) == ["At ", "nine."]
    assert [request.messages for request in model.requests] == [(UserMessage(AUGMENTED),)] * 2


def test_a_stream_emits_the_contents_before_the_answer_and_its_result_has_them() -> None:
    service, _ = guide(Shelf(NINE))
    events: list[Any] = list(service.growing("When does it leave?").events())
    assert events[0] == ContentsRetrieved((NINE,))
    assert isinstance(events[-1], Completed)
    assert events[-1].result.sources == (NINE,)


def test_an_async_stream_has_the_sources_too() -> None:
    async def streamed() -> Result[str]:
        service, _ = later_guide(FarShelf(NINE))
        return await service.growing_later("When does it leave?").result()

    assert asyncio.run(streamed()).sources == (NINE,)


def test_a_blocking_call_that_routes_to_an_async_retriever_names_it_in_the_error() -> None:
    model = ScriptedChatModel(["At nine."])
    to_far = RetrievalAugmentor(route=RouteToAll((FarShelf(NINE),)))
    service = create(Guide, model, interceptors=[to_far])
    with pytest.raises(TypeError) as caught:
        service.answer("When does it leave?")
    assert str(caught.value) == "FarShelf.retrieve is async and cannot run in a blocking call: use async def"
    assert model.requests == []


def test_a_message_without_results_stays_unchanged() -> None:
    service, model = guide(Shelf())
    result = service.answer("When does it leave?")
    assert result.sources == ()
    assert model.requests[0].messages == (UserMessage("When does it leave?"),)


def test_retrievers_run_concurrently() -> None:
    both = threading.Barrier(2, timeout=5)

    class Waiting(Shelf):
        def retrieve(self, query: Query, /) -> Sequence[Content]:
            both.wait()
            return super().retrieve(query)

    service, _ = guide(Waiting(NINE), Waiting(TEN, NINE))
    found = service.answer("When does it leave?").sources
    assert [(one.id, round(one.score, 5)) for one in found] == [("ferry-1", 0.03252), ("ferry-2", 0.01639)]


def test_blocking_retrievers_do_not_block_an_event_loop() -> None:
    threads: list[threading.Thread] = []

    class Noting(Shelf):
        def retrieve(self, query: Query, /) -> Sequence[Content]:
            threads.append(threading.current_thread())
            return super().retrieve(query)

    service, _ = guide(Noting(NINE))
    asyncio.run(service.await_answer("When does it leave?"))
    assert threads != [threading.main_thread()]


def test_an_exception_of_a_retriever_ends_the_call() -> None:
    class Burnt(Shelf):
        def retrieve(self, query: Query, /) -> Sequence[Content]:
            raise OSError("the shelf has burnt down")

    service, model = guide(Burnt(), Shelf(NINE))
    with pytest.raises(RetrievalError, match=r"OSError: the shelf has burnt down$") as caught:
        service.answer("When does it leave?")
    assert (model.requests, type(caught.value.__cause__)) == ([], OSError)


class Clerk(Protocol):
    @system_message("You are terse.")
    @user_message("Answer: {{question}}\n{{format_instructions}}")
    def count(
        self, question: str, memory: Annotated[str, MemoryId], team: Annotated[str, ToolContext]
    ) -> int: ...


def test_the_query_has_the_invocation_and_no_instructions_mark() -> None:
    shelf = Shelf(NINE)
    model = ScriptedChatModel(['{"value": 9}'])
    service = create(Clerk, model, interceptors=[RetrievalAugmentor(shelf)])
    assert service.count("How many?", "Ann", "red") == 9
    [query] = shelf.queries
    assert query.invocation is not None
    assert (query.text, query.invocation.memory_id, query.invocation.tool_context) == (
        "How many?",
        "Ann",
        {"team": "red"},
    )
    assert model.requests[0].messages[0] == SystemMessage("You are terse.")


def test_contents_and_user_messages_are_never_templates() -> None:
    service, model = guide(Shelf(Content("{{ 7 * 7 }} {{contents}}")))
    service.answer("{{ 6 * 6 }} {{information}}")
    assert model.requests[0].messages[0].text == (
        "{{ 6 * 6 }} {{information}}\n\nAnswer using the following information:\n{{ 7 * 7 }} {{contents}}"
    )


def test_a_memory_before_retrieval_stores_the_message_without_the_contents() -> None:
    memory = ChatMemory()
    shelf = Shelf(NINE)
    model = ScriptedChatModel(["At nine.", "At ten."])
    service = create(Guide, model, interceptors=[memory, RetrievalAugmentor(shelf)])
    service.answer("When does it leave?")
    service.answer("And back?")
    assert memory.messages() == (
        UserMessage("When does it leave?"),
        AiMessage("At nine."),
        UserMessage("And back?"),
        AiMessage("At ten."),
    )
    assert model.requests[1].messages[:2] == (UserMessage("When does it leave?"), AiMessage("At nine."))
    assert shelf.queries[1].text == "And back?"
    assert shelf.queries[1].history == (UserMessage("When does it leave?"), AiMessage("At nine."))


def test_two_augmentors_add_up_their_sources() -> None:
    model = ScriptedChatModel(["At nine."])
    both = [RetrievalAugmentor(Shelf(NINE)), RetrievalAugmentor(Shelf(TEN))]
    assert create(Guide, model, interceptors=both).answer("When?").sources == (TEN, NINE)


@pytest.mark.parametrize(
    "made",
    [lambda: RetrievalAugmentor(), lambda: RetrievalAugmentor(Shelf(), route=RouteBy(lambda query: []))],
)
def test_retrievers_and_a_route_exclude_each_other(made: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        made()
    assert [str(problem) for problem in caught.value.problems] == [
        "RetrievalAugmentor: pass either retrievers or a route, which has retrievers of its own"
    ]


def test_a_resumed_call_keeps_its_contents() -> None:
    @tool(needs_approval=True)
    def book(hour: int) -> str:
        """Books a place on the ferry."""
        return f"booked at {hour}"

    called = ChatReply(AiMessage("", (ToolCall("1", "book", '{"hour": 9}'),)))
    shelf, model = Shelf(NINE, TEN), ScriptedChatModel([called, "Booked."])
    service = create(Guide, model, tools=[book], interceptors=[RetrievalAugmentor(shelf)])
    with pytest.raises(ApprovalRequiredError) as caught:
        service.answer("When does it leave?")
    assert resume(service.answer, caught.value.state, {"1": True}).value == "Booked."
    assert len(shelf.queries) == 1
    assert [request.messages[0].text for request in model.requests] == [AUGMENTED, AUGMENTED]


class Gives:
    """A retriever, router and fusion that returns the value it was created with."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def retrieve(self, query: Query, /) -> Any:
        return self.given

    def __call__(self, *asked: Any) -> Any:
        return self.given


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (None, "NoneType"),
        ("a text", "str"),
        ([NINE, "a text"], "a list with str in it"),
        (iter([]), "list_iterator"),
    ],
)
def test_a_retriever_that_does_not_return_contents_is_an_error(given: Any, named: str) -> None:
    service = create(Guide, ScriptedChatModel([]), interceptors=[RetrievalAugmentor(Gives(given))])
    with pytest.raises(TypeError) as caught:
        service.answer("When does it leave?")
    assert str(caught.value) == (
        f"Gives.retrieve returned {named}; it must return a list of Content; "
        "contents_of converts texts to contents"
    )


@pytest.mark.parametrize("part", ["transform", "fuse"])
def test_a_step_that_is_not_a_generator_function_is_an_error(part: str) -> None:
    parts: dict[str, Any] = {"route": RouteToAll((Shelf(NINE),)), part: Gives([])}
    service = create(Guide, ScriptedChatModel([]), interceptors=[RetrievalAugmentor(**parts)])
    with pytest.raises(TypeError) as caught:
        service.answer("When does it leave?")
    assert str(caught.value) == (
        "Gives returned list; it must be a generator function: use yield, or yield from () if there is "
        "nothing to yield"
    )


def test_a_plain_function_may_choose_the_retrievers() -> None:
    def choose(query: Query) -> list[Retriever]:
        return [Shelf(NINE)] if "leave" in query.text else []

    model = ScriptedChatModel(["At nine.", "I do not know."])
    service = create(Guide, model, interceptors=[RetrievalAugmentor(route=choose)])
    service.answer("When does it leave?")
    service.answer("Who is it?")
    assert [NINE.text in request.messages[-1].text for request in model.requests] == [True, False]


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("route", 3, "route has the type int; pass a function of (query)"),
        ("transform", [], "transform has the type list; pass a function of (query)"),
        (
            "fuse",
            lambda one: one,
            "fuse is <lambda>, which cannot be called with (query, rankings)",
        ),
    ],
)
def test_a_wrong_part_is_a_definition_error(setting: str, value: Any, message: str) -> None:
    parts = {"route": RouteToAll((Shelf(NINE),)), setting: value}
    with pytest.raises(DefinitionError) as caught:
        RetrievalAugmentor(**parts)
    assert str(caught.value).startswith(f"RetrievalAugmentor: {message}")


def test_a_retriever_of_langchain_is_refused_with_advice() -> None:
    class Foreign:
        def invoke(self, query: str) -> list[str]:
            return [query]

    for make in (RetrievalAugmentor, retriever_tool):
        with pytest.raises(DefinitionError, match=r"wrap a LangChain retriever: retrieve returns"):
            make(Foreign())  # type: ignore[operator]


def test_an_object_without_retrieve_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        RetrievalAugmentor(Shelf(NINE), object(), len)  # type: ignore[arg-type]
    assert [str(problem) for problem in caught.value.problems] == [
        "RetrievalAugmentor: object is not a retriever; it has no method retrieve",
        "RetrievalAugmentor: len is not a retriever; it has no method retrieve",
    ]
