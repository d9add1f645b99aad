"""Queries are compressed, expanded and routed, by functions and by models, within the budget of the call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    Budget,
    BudgetExceededError,
    DefinitionError,
    History,
    Message,
    ModelServerError,
    Result,
    ScriptedChatModel,
    UserMessage,
    create,
)
from aiservices.retrieval import (
    CompressingQueryTransformer,
    Content,
    ExpandingQueryTransformer,
    Query,
    RetrievalAugmentor,
    Retriever,
    Route,
    RouteBy,
    RouteByModel,
)

HISTORY = [UserMessage("When does the ferry leave?"), AiMessage("At nine.")]


class Shelf:
    def __init__(self, *contents: Content) -> None:
        self.contents = contents
        self.queries: list[str] = []

    def retrieve(self, query: Query, /) -> Sequence[Content]:
        self.queries.append(query.text)
        return self.contents


class Guide(Protocol):
    def answer(self, question: str, history: Annotated[list[Message], History] = ...) -> Result[str]: ...
    def words(self, question: str, history: Annotated[list[Message], History] = ...) -> Iterator[str]: ...


def service(augmentor: RetrievalAugmentor, replies: Sequence[Any] = ("Yes.",), **more: Any) -> Guide:
    return create(Guide, ScriptedChatModel(replies), interceptors=[augmentor], **more)


def test_a_query_is_compressed_with_the_conversation() -> None:
    shelf, model = Shelf(), ScriptedChatModel([" When does the ferry come back? "])
    guide = service(RetrievalAugmentor(shelf, transform=CompressingQueryTransformer(model)))
    result = guide.answer("And back?", HISTORY)
    assert shelf.queries == ["When does the ferry come back?"]
    assert (
        model.requests[0]
        .messages[0]
        .text.endswith(
            "Conversation:\nUser: When does the ferry leave?\nAI: At nine.\n\nUser query: And back?"
        )
    )
    assert [attempt.model for attempt in result.attempts] == ["scripted", "scripted"]


def test_the_first_query_of_a_conversation_is_not_compressed() -> None:
    shelf, model = Shelf(), ScriptedChatModel([])
    guide = service(RetrievalAugmentor(shelf, transform=CompressingQueryTransformer(model)))
    guide.answer("When does it leave?", [])
    assert (shelf.queries, model.requests) == (["When does it leave?"], [])


def test_a_stream_shows_nothing_of_side_questions() -> None:
    shelf, model = Shelf(), ScriptedChatModel(["When does the ferry come back?"])
    guide = service(RetrievalAugmentor(shelf, transform=CompressingQueryTransformer(model)), ["At ten."])
    assert list(guide.words("And back?", HISTORY)) == ["At ", "ten."]
    assert shelf.queries == ["When does the ferry come back?"]


def test_an_expanded_query_is_searched_in_other_words_too() -> None:
    shelf = Shelf()
    model = ScriptedChatModel(['{"value": ["departure", "When?", "departure", "time of leaving", "more"]}'])
    guide = service(RetrievalAugmentor(shelf, transform=ExpandingQueryTransformer(model, n=4)))
    guide.answer("When?", [])
    assert sorted(shelf.queries) == ["When?", "departure", "time of leaving"]  # searched side by side


def test_side_questions_do_not_count_against_max_attempts() -> None:
    aside = ScriptedChatModel([ModelServerError("down", retryable=True), '{"value": ["departure"]}'])
    guide = service(
        RetrievalAugmentor(Shelf(), transform=ExpandingQueryTransformer(aside)),
        [ModelServerError("down", retryable=True), "Yes."],
        budget=Budget(max_attempts=2, first_wait=0),
    )
    result = guide.answer("When?", [])
    assert (result.value, len(result.attempts)) == ("Yes.", 4)


def test_side_questions_count_against_the_tokens_of_the_call() -> None:
    aside = ScriptedChatModel(['{"value": ["departure"]}'])
    augmentor = RetrievalAugmentor(Shelf(), transform=ExpandingQueryTransformer(aside))
    with pytest.raises(BudgetExceededError) as caught:
        service(augmentor, budget=Budget(tokens=10)).answer("When?", [])
    assert caught.value.limit == "tokens"
    assert len(caught.value.attempts) == 1


def test_a_function_chooses_the_retrievers() -> None:
    ferries, trains = Shelf(Content("f", "f-1")), Shelf(Content("t", "t-1"))

    def route(query: Query) -> list[Retriever]:
        return [trains] if "train" in query.text else [ferries]

    guide = service(RetrievalAugmentor(route=RouteBy(route)), ["Yes.", "Yes."])
    assert guide.answer("When does the train leave?", []).sources == trains.contents
    assert guide.answer("When does the boat leave?", []).sources == ferries.contents


def test_a_model_chooses_routes_by_their_descriptions() -> None:
    ferries, trains = Shelf(Content("f", "f-1")), Shelf(Content("t", "t-1"))
    model = ScriptedChatModel(['{"value": ["trains", "trains"]}', '{"value": []}'])
    sources = [Route("ferries", "boats and harbours", ferries), Route("trains", "railways", trains)]
    guide = service(RetrievalAugmentor(route=RouteByModel(model, sources)), ["Yes.", "Yes."])
    assert guide.answer("When does the train leave?", []).sources == trains.contents
    assert guide.answer("What is love?", []).sources == ()
    assert (ferries.queries, trains.queries) == ([], ["When does the train leave?"])
    assert (
        "Sources:\n- ferries: boats and harbours\n- trains: railways\n\n"
        in model.requests[0].messages[0].text
    )


def test_a_model_that_chooses_an_unknown_route_is_asked_again() -> None:
    model = ScriptedChatModel(['{"value": ["planes"]}', '{"value": ["trains"]}'])
    trains = Shelf(Content("t", "t-1"))
    route = RouteByModel(model, [Route("trains", "railways", trains), Route("boats", "ferries", Shelf())])
    assert service(RetrievalAugmentor(route=route)).answer("When?", []).sources == trains.contents


@pytest.mark.parametrize(("names", "given"), [((), "empty"), (("a", "a"), "a, a")])
def test_routes_must_have_different_names(names: Sequence[str], given: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        RouteByModel(ScriptedChatModel([]), [Route(name, "", Shelf()) for name in names])
    assert [str(problem) for problem in caught.value.problems] == [
        f"RouteByModel: its routes are {given}; pass at least one, with different names"
    ]
