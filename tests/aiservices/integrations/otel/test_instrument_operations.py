"""The spans of embeddings, searches and memory, and the events of evaluations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any, Protocol

import pytest
from opentelemetry.trace import SpanKind
from recorded_spans import Recorded

from aiservices import (
    AiMessage,
    ChatMemory,
    ChatReply,
    MemoryId,
    RetrievalAugmentor,
    ScriptedChatModel,
    Stream,
    ToolCall,
    create,
)
from aiservices.integrations.otel import AiServicesInstrumentor
from aiservices.memory import SqliteChatMemoryStore
from aiservices.models.messages import FinishReason
from aiservices.retrieval import Content, EmbeddingRetriever, Query, RetrievalError, retriever_tool
from aiservices.testing import Case, Verdict, aevaluate, evaluate, scored_by, similar

numpy = pytest.importorskip("numpy", reason="numpy is not installed: install the extra retrieval")


class Lengths:
    """An embedding model for tests: the vector of a text is its length and 1."""

    name = "openai:lengths"
    endpoint = "http://127.0.0.1:9/v1"

    def embed(self, texts: Sequence[str], /) -> Any:
        if "secret error" in texts:
            raise OSError("the secret error")
        return numpy.array([[len(text), 1] for text in texts], numpy.float32)


class AsyncRetriever:
    name = "orders"

    async def retrieve(self, query: Query, /) -> list[Content]:
        await asyncio.sleep(0)
        return [Content("of secret", "o-1", score=0.5)]


class AsyncDesk(Protocol):
    async def aanswer(self, who: Annotated[str, MemoryId], question: str) -> str: ...


class Desk(AsyncDesk, Protocol):
    def answer(self, who: Annotated[str, MemoryId], question: str) -> str: ...

    def grow(self, who: Annotated[str, MemoryId], question: str) -> Stream[str]: ...


def retriever() -> EmbeddingRetriever:
    made = EmbeddingRetriever(Lengths(), max_results=2)
    made.add([Content("a secret", "c-1"), Content("another secret", "c-2")])
    return made


def attributes(span: Any) -> dict[str, Any]:
    return dict(span.attributes)


STEPS = "  search_memory\n  {}\n  chat scripted\n  upsert_memory"
SEARCH = "retrieval EmbeddingRetriever\n    embeddings lengths"


@pytest.mark.parametrize("kind", ["answer", "aanswer", "grow"])
def test_searches_embeddings_and_memory_are_spans_of_the_call(recorded: Recorded, kind: str) -> None:
    interceptors = [recorded.telemetry(), ChatMemory(), RetrievalAugmentor(retriever())]
    desk = create(Desk, ScriptedChatModel(["Hi"]), interceptors=interceptors)
    returned = getattr(desk, kind)("ann", "secret?")
    if kind == "aanswer":
        asyncio.run(returned)
    elif kind == "grow":
        returned.result()
    assert recorded.tree == f"invoke_workflow Desk.{kind}\n{STEPS.format(SEARCH)}"
    memory = {"gen_ai.conversation.id": "ann", "gen_ai.memory.store.id": "Desk/ann"}
    assert {span.name: attributes(span) for span in recorded.spans[1:] if span.name != "chat scripted"} == {
        "search_memory": {
            "gen_ai.operation.name": "search_memory",
            **memory,
            "gen_ai.memory.record.count": 0,
        },
        "retrieval EmbeddingRetriever": {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": "EmbeddingRetriever",
            "gen_ai.retrieval.top_k": 2,
            "gen_ai.conversation.id": "ann",
        },
        "embeddings lengths": {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "lengths",
            "server.address": "127.0.0.1",
            "server.port": 9,
            "gen_ai.embeddings.dimension.count": 2,
            "gen_ai.conversation.id": "ann",
        },
        "upsert_memory": {
            "gen_ai.operation.name": "upsert_memory",
            **memory,
            "gen_ai.memory.record.count": 2,
        },
    }
    kinds = [span.kind for span in recorded.spans]
    assert kinds[1] is kinds[5] is SpanKind.INTERNAL  # the store is in this process
    assert kinds[2] is kinds[3] is SpanKind.CLIENT


def test_the_metric_has_no_label_of_conversations_queries_or_sources(recorded: Recorded) -> None:
    interceptors = [recorded.telemetry(content=True), ChatMemory(), RetrievalAugmentor(retriever())]
    create(Desk, ScriptedChatModel(["Hi"]), interceptors=interceptors).answer("ann", "secret?")
    labels = [labels for labels, _ in recorded.metrics["gen_ai.client.operation.duration"]]
    embeddings = {
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "lengths",
        "server.address": "127.0.0.1",
        "server.port": 9,
    }
    assert [one for one in labels if one["gen_ai.operation.name"] != "chat"] == [
        {"gen_ai.operation.name": "search_memory"},
        {"gen_ai.operation.name": "embeddings", **embeddings},
        {"gen_ai.operation.name": "retrieval"},
        {"gen_ai.operation.name": "upsert_memory"},
    ]


def test_with_content_spans_have_the_query_what_was_found_and_the_messages(recorded: Recorded) -> None:
    interceptors = [recorded.telemetry(content=True), ChatMemory(), RetrievalAugmentor(AsyncRetriever())]
    desk = create(AsyncDesk, ScriptedChatModel(["Hi"]), interceptors=interceptors)
    asyncio.run(desk.aanswer("ann", "what?"))
    search = attributes(recorded.named("retrieval orders"))
    assert search["gen_ai.retrieval.query.text"] == "what?"
    assert json.loads(search["gen_ai.retrieval.documents"]) == [{"id": "o-1", "score": 0.5}]
    records = json.loads(attributes(recorded.named("upsert_memory"))["gen_ai.memory.records"])
    assert [one["content"]["role"] for one in records] == ["user", "assistant"]
    without = Recorded()
    interceptors[0] = without.telemetry()
    create(Desk, ScriptedChatModel(["Hi"]), interceptors=[*interceptors[:2]]).answer("bob", "secret?")
    assert "secret" not in str([attributes(span) for span in without.spans])


def test_a_failed_search_has_the_type_of_its_error(recorded: Recorded) -> None:
    interceptors = [recorded.telemetry(), RetrievalAugmentor(retriever())]
    desk = create(Desk, ScriptedChatModel(["Hi"]), interceptors=interceptors)
    with pytest.raises(RetrievalError):
        desk.answer("ann", "secret error")
    assert recorded.tree == (
        "invoke_workflow Desk.answer ! RetrievalError\n"
        "  retrieval EmbeddingRetriever ! OSError\n"
        "    embeddings lengths ! OSError"
    )
    assert "secret" not in str([span.status.description for span in recorded.spans])


def test_vectors_may_be_lists(recorded: Recorded, caplog: pytest.LogCaptureFixture) -> None:
    class Lists:
        def embed(self, texts: Sequence[str], /) -> Any:
            return [[float(len(text)), 1.0] for text in texts]

    rag = RetrievalAugmentor(EmbeddingRetriever(Lists()))
    create(Desk, ScriptedChatModel(["Hi"]), interceptors=[recorded.telemetry(), rag]).answer("ann", "a?")
    [span] = [span for span in recorded.spans if span.name.startswith("embeddings")]
    assert attributes(span)["gen_ai.embeddings.dimension.count"] == 2
    assert caplog.text == ""


@pytest.mark.parametrize("is_async", [False, True])
def test_the_search_of_a_tool_is_a_span_below_the_tool(recorded: Recorded, *, is_async: bool) -> None:
    class Asker(Protocol):
        def ask(self, question: str) -> str: ...

        async def aask(self, question: str) -> str: ...

    calls = (ToolCall("1", "search", '{"query": "secret"}'),)
    model = ScriptedChatModel([ChatReply(AiMessage("", calls), FinishReason.TOOL_CALLS), "Hi"])
    tools = [retriever_tool(AsyncRetriever() if is_async else retriever())]
    asker = create(Asker, model, tools=tools, interceptors=[recorded.telemetry()])
    if is_async:
        asyncio.run(asker.aask("?"))
    else:
        asker.ask("?")
    search = "retrieval orders" if is_async else "retrieval EmbeddingRetriever\n      embeddings lengths"
    name = "aask" if is_async else "ask"
    assert recorded.tree == (
        f"invoke_agent Asker.{name}\n  chat scripted\n  execute_tool search\n    {search}\n  chat scripted"
    )


def test_outside_of_calls_spans_are_written_if_all_services_are_traced(
    recorded: Recorded, tmp_path: Any
) -> None:
    memory = ChatMemory(store=SqliteChatMemoryStore(tmp_path / "chats.db"), namespace="chats")
    retriever()
    memory.forget("ann")
    assert recorded.spans == []
    AiServicesInstrumentor().instrument(**recorded.providers)
    try:
        retriever()
        memory.forget("ann")
    finally:
        AiServicesInstrumentor().uninstrument()
    retriever()
    assert recorded.tree == "embeddings lengths\ndelete_memory"
    assert attributes(recorded.spans[1])["gen_ai.memory.store.id"] == "chats/ann"
    assert recorded.spans[1].kind is SpanKind.CLIENT


class Judged(Protocol):
    def judge(self, text: str) -> str: ...

    async def ajudge(self, text: str) -> str: ...


def evaluated(recorded: Recorded, *, content: bool, is_async: bool) -> list[Any]:
    replies = [ChatReply(AiMessage("yes"), id="r-1"), ChatReply(AiMessage("no"), id="r-2")]
    service = create(Judged, ScriptedChatModel(replies), interceptors=[recorded.telemetry(content=content)])

    def long(value: str) -> Verdict:
        return Verdict(len(value) / 4, "the length of the secret")

    def short(value: str) -> bool:
        return len(value) < 3

    def broken(value: str) -> bool:
        raise LookupError("secret")

    scorers = [scored_by(long), scored_by(short), scored_by(broken)]
    cases = [Case({"text": "a"}), Case({"text": "b"})]
    if is_async:
        asyncio.run(aevaluate(service.ajudge, cases, scorers, max_concurrency=1))
    else:
        evaluate(service.judge, cases, scorers, max_concurrency=1)
    return recorded.events


@pytest.mark.parametrize("is_async", [False, True])
def test_each_score_of_an_evaluation_is_an_event_in_the_span_of_the_call(
    recorded: Recorded, *, is_async: bool
) -> None:
    name = "gen_ai.evaluation.name"
    expected = [
        {**scores, "gen_ai.response.id": response}
        for response, long, short in (("r-1", 0.75, False), ("r-2", 0.5, True))
        for scores in (
            {name: "long", "gen_ai.evaluation.score.value": long},
            {
                name: "short",
                "gen_ai.evaluation.score.value": float(short),
                "gen_ai.evaluation.score.label": "pass" if short else "fail",
            },
            {name: "broken", "error.type": "LookupError"},
        )
    ]
    events = evaluated(recorded, content=False, is_async=is_async)
    assert [(kind, data) for kind, data, _ in events] == [
        ("gen_ai.evaluation.result", one) for one in expected
    ]
    calls = [span.context.span_id for span in recorded.spans if span.name.startswith("invoke_workflow")]
    assert [span for _, _, span in events] == [calls[0]] * 3 + [calls[1]] * 3


def test_the_reason_of_a_score_is_content(recorded: Recorded) -> None:
    [first, *_] = evaluated(recorded, content=True, is_async=False)
    assert first[1]["gen_ai.evaluation.explanation"] == "the length of the secret"


def test_without_telemetry_an_evaluation_writes_nothing(recorded: Recorded) -> None:
    service = create(Judged, ScriptedChatModel(["yes"]))
    report = evaluate(service.judge, [Case({"text": "a"}, "yes")], [similar(Lengths())])
    assert (report.outcomes[0].scores, recorded.events, recorded.spans) == ({"similar": True}, [], [])
