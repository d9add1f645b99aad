"""Quotes are verified in the documents of a call, in all kinds of calls and with all strategies."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pytest

from aiservices import (
    AiMessage,
    ChatReply,
    Cited,
    CitedText,
    DefinitionError,
    Document,
    Result,
    Retry,
    ServiceOutputError,
    Strategy,
    Stream,
    ToolCall,
    UserMessage,
    create,
    options,
    tool,
    user_message,
)
from aiservices.documents import Page
from aiservices.engine.approval import ApprovalRequiredError, SuspendedCall
from aiservices.models.base import Capabilities
from aiservices.models.openai.chat import ChatStreamReader, read_chat_completion
from aiservices.models.scripted import ScriptedChatModel
from aiservices.retrieval import Content, KeywordRetriever, RetrievalAugmentor
from aiservices.rows import map_rows
from aiservices.rows.fields import answer_columns
from aiservices.service.methods import resume
from aiservices.structured_model import structured
from aiservices.testing import FakeChatModel

DOCUMENT = Document("ACME Corp. pays 1,500 euros. Bob has 7 cars and 8 cats.", "contract.txt")


@dataclass
class Contract:
    party: Cited[str]
    amount: Cited[int]


GOOD = {
    "party": {"quote": "ACME  corp. pays", "value": "ACME Corp."},
    "amount": {"quote": "1,500 euros", "value": 1500},
}
BAD = {"party": {"quote": "Acme Inc.", "value": "Acme"}, "amount": {"quote": "1,500 euros", "value": 1600}}


class Reader(Protocol):
    @user_message("Read this.\n\n{{document}}")
    def contract(self, document: Document) -> Contract: ...
    @user_message("Read this.\n\n{{document}}")
    def stream(self, document: Document) -> Stream[Contract]: ...
    @user_message("Read this.\n\n{{document}}")
    def items(self, document: Document) -> Iterator[Cited[int]]: ...
    @user_message("Read this.\n\n{{documents}}")
    def several(self, documents: list[Document]) -> Cited[int]: ...
    @user_message("Read this.\n\n{{text}}")
    def text(self, text: str) -> Result[Cited[int]]: ...
    @options(check="quote")
    @user_message("Read this.\n\n{{text}}")
    def quote_only(self, text: str) -> Cited[int]: ...


class Rows(Protocol):
    @user_message("Read this.\n\n{{text}}")
    def cars(self, text: str) -> Cited[int]: ...


CARS = {"quote": "7 cars", "value": 7}


def model(*replies: object, **settings: Any) -> ScriptedChatModel:
    return ScriptedChatModel([json.dumps(reply) for reply in replies], **settings)


@pytest.mark.parametrize(
    "strategy", [Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL, Strategy.JSON_MODE, Strategy.PROMPT]
)
def test_values_are_verified_with_all_strategies(strategy: Strategy) -> None:
    capabilities = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True)
    contract = create(Reader, model(GOOD, capabilities=capabilities), strategy=strategy).contract(DOCUMENT)
    assert (contract.party.quote, contract.party.document) == ("ACME Corp. pays", "contract.txt")
    assert (
        DOCUMENT.text[contract.amount.start : contract.amount.end] == contract.amount.quote == "1,500 euros"
    )


def test_the_model_is_asked_again_for_what_is_not_in_the_document() -> None:
    chat = model(BAD, GOOD)
    assert create(Reader, chat).contract(DOCUMENT).amount.value == 1500
    assert chat.requests[1].messages[-1].text.splitlines()[1:3] == [
        "- $.party: the quote does not occur in the text; copy the words that state the value exactly, "
        'found "Acme Inc."',
        "- $.amount: the quote does not contain the value; correct one of them, found 1600",
    ]


def test_only_the_wrong_fields_are_asked_again() -> None:
    wrong = {**GOOD, "amount": {"quote": "1,500 euros", "value": 1600}}
    chat = model(wrong, {"amount": GOOD["amount"]})
    contract = create(Reader, chat, retry=Retry(mode="fields")).contract(DOCUMENT)
    assert (contract.amount.value, contract.amount.value_checked, contract.amount.start) == (1500, True, 16)


@pytest.mark.parametrize("mode", ["whole", "fields"])
def test_a_quote_that_is_corrected_gets_the_place_that_is_nearest_to_the_others(
    mode: Literal["whole", "fields"],
) -> None:
    text = "Totals: 1,500 euros.\n\nACME Corp. pays 1,500 euros."
    right = {"quote": "1,500 euros", "value": 1500}
    party = {"quote": "ACME Corp. pays", "value": "ACME Corp."}
    answers = {"fields": {"amount": right}, "whole": {"party": party, "amount": right}}
    chat = model({"party": party, "amount": {**right, "value": 1600}}, answers[mode])
    contract = create(Reader, chat, retry=Retry(mode=mode)).contract(Document(text, "contract.txt"))
    assert contract.amount.start == text.rindex("1,500")


def test_streams_show_values_that_are_verified() -> None:
    snapshots = list(create(Reader, model(GOOD)).stream(DOCUMENT))
    shown = [getattr(snapshot.value, "party", None) for snapshot in snapshots[:-1]]
    assert {type(party) for party in shown} == {type(None), Cited}
    assert all(party is None or party.start == 0 for party in shown)
    assert snapshots[-1].value.amount.start == 16
    cats = [{"quote": "7 cars", "value": 7}, {"quote": "8 cats", "value": 8}]
    assert [one.start for one in create(Reader, model(cats)).items(DOCUMENT)] == [37, 48]
    with pytest.raises(ServiceOutputError, match="quote does not contain the value"):
        list(create(Reader, model([{"quote": "7 cars", "value": 8}]), retry=None).items(DOCUMENT))


def test_streams_do_not_show_values_that_are_not_verified() -> None:
    stream, shown = create(Reader, model(BAD), retry=None).stream(DOCUMENT), list[Any]()
    with pytest.raises(ServiceOutputError, match=r"\$\.party: the quote"):
        shown.extend(snapshot.value for snapshot in stream)
    assert not any(shown)


def test_texts_lists_of_documents_and_passages_are_sources() -> None:
    assert create(Reader, model(CARS)).text("He has 7 cars").value.document == "text"
    documents = [Document("nothing"), Document("7 cars"), DOCUMENT]
    cited = create(Reader, model(CARS)).several(documents)
    assert [place.document for place in cited.places] == ["documents[1]", "contract.txt"]
    retriever = KeywordRetriever()
    retriever.add([Content("Bob has 7 cars", metadata={"source": "cars.txt"})])
    service = create(Reader, model(CARS), interceptors=[RetrievalAugmentor(retriever)])
    assert service.text("How many cars has Bob?").value.document == "cars.txt"
    assert structured(model(CARS), Cited[int]).invoke("He has 7 cars").document == "prompt"


def test_a_report_about_a_wrong_quote_does_not_prove_it() -> None:
    class Author(Protocol):
        @user_message("How many cars has Bob? He has {{number}} cats.")
        def cars(self, number: int) -> Cited[int]: ...

    wrong = {"quote": "31", "value": 31}
    with pytest.raises(ServiceOutputError, match="does not occur in the text"):
        structured(model(wrong, wrong, wrong), Cited[int]).invoke("Ann is 32.")
    with pytest.raises(ServiceOutputError, match="does not occur in the text"):
        create(Author, model(wrong, wrong, wrong)).cars(8)


def test_the_check_of_a_method_can_be_chosen() -> None:
    wrong = {"quote": "7 cars", "value": 8}
    assert create(Reader, model(wrong)).quote_only("7 cars").value == 8
    assert create(Reader, model(wrong), check="off").text("none").value.match == ""
    with pytest.raises(ServiceOutputError):
        create(Reader, model(wrong), retry=None).text("7 cars")


def test_tables_have_columns_for_the_place() -> None:
    rows = map_rows(create(Rows, model(CARS, CARS)).cars, [{"text": "He has 7 cars"}, {"text": "7 cars"}])
    assert [(row.value.start, row.value.document) for row in rows] == [(7, "text"), (0, "text")]
    columns = answer_columns(Cited[int])
    assert [column.name for column in columns.columns] == [
        "value",
        "quote",
        "document",
        "page",
        "start",
        "end",
    ]
    assert answer_columns(Contract).columns[1].shape.arrow(frozenset()).names == [
        "value",
        "quote",
        "document",
        "page",
        "start",
        "end",
    ]


def test_pages_and_boxes_come_from_the_document() -> None:
    edges = struct.pack("<4f", 10, 20, 15, 30) * 6
    pages = [Page(0, 6, 600, 800), Page(7, 13, 600, 800, edges)]
    document = Document("1 page\n7 cars", pages=pages)
    cited = create(Reader, model([CARS])).items(document)
    (one,) = cited
    assert (one.page, one.document, [box.page for box in one.boxes]) == (2, "document", [2])


class Searcher(Protocol):
    @options(server_tools=[{"type": "web_search"}])
    @user_message("{{question}}")
    def answer(self, question: str) -> CitedText: ...
    @user_message("Answer from this.\n\n{{document}}")
    def explain(self, document: Document) -> CitedText: ...


def test_an_answer_cites_the_document_for_each_sentence() -> None:
    sentence = {"text": "Bob owns cars.", "quotes": ["Bob has 7 cars"]}
    answer = create(Searcher, model({"sentences": [sentence]})).explain(DOCUMENT)
    assert (answer.text, answer.quotes[0].start) == ("Bob owns cars.", 29)


def answer_of(reply: ChatReply) -> list[tuple[str, list[tuple[str, str]]]]:
    answer = create(Searcher, ScriptedChatModel([reply])).answer("Where?")
    assert answer.text.split() == reply.text.split()
    return [(one.text, [(quote.quote, quote.document) for quote in one.quotes]) for one in answer.sentences]


def test_the_citations_of_providers_are_quotes_of_sentences() -> None:
    text = "It is Mount Columbia. ([b.com](https://b.com)) It is high."
    cited = {"url": "https://b.com", "title": "B", "start_index": 22, "end_index": 46}
    expected = [
        ("It is Mount Columbia. ([b.com](https://b.com))", [("", "https://b.com")]),
        ("It is high.", []),
    ]
    assert answer_of(ChatReply(AiMessage(text), citations=(cited,))) == expected
    assert answer_of(ChatReply(AiMessage(text), citations=({"url_citation": cited},))) == expected
    chunk = {"web": {"uri": "https://a.com", "title": "A"}, "segments": [{"text": "Ann is 31."}]}
    context = {
        "retrievedContext": {"title": "c.txt", "text": "Bob has a cat"},
        "segments": [{"text": "Bob has"}],
    }
    assert answer_of(ChatReply(AiMessage("Ann is 31. Bob has a cat."), citations=(chunk, context))) == [
        ("Ann is 31.", [("", "https://a.com")]),
        ("Bob has a cat.", [("Bob has a cat", "c.txt")]),
    ]
    blocks = [
        {"type": "text", "text": "I looked. "},
        {
            "type": "text",
            "text": "It was 2007",
            "citations": [{"cited_text": "In 2007.", "url": "https://d.com"}],
        },
        {"type": "text", "text": ". That is all."},
    ]
    message = AiMessage("I looked. It was 2007. That is all.").with_state("anthropic", "m", blocks)
    assert answer_of(ChatReply(message, citations=tuple(blocks[1]["citations"]))) == [
        ("I looked.", []),
        ("It was 2007.", [("In 2007.", "https://d.com")]),
        ("That is all.", []),
    ]


def test_cited_arguments_of_tools_are_verified() -> None:
    taken = []

    def note(count: Cited[int]) -> str:
        """Take a note."""
        taken.append(count)
        return "done"

    def call(value: int) -> AiMessage:
        arguments = json.dumps({"count": {"quote": "7  cars", "value": value}})
        return AiMessage("", (ToolCall(f"c{value}", "note", arguments),))

    chat = ScriptedChatModel([ChatReply(call(8)), ChatReply(call(7)), json.dumps(CARS)])
    create(Reader, chat, tools=[note]).text("He has 7 cars")
    assert [(one.value, one.quote, one.start) for one in taken] == [(7, "7 cars", 7)]
    assert "$.count: the quote does not contain the value" in chat.requests[1].messages[-1].text


class Lines(Protocol):
    @options(cite="lines")
    @user_message("Read this.\n\n{{documents}}")
    def contract(self, documents: list[Document]) -> Contract: ...
    @options(cite="lines")
    @user_message("Explain this.\n\n{{document}}")
    def explain(self, document: Document) -> CitedText: ...


OTHER = Document("Nothing.", "other.txt")


def test_a_model_can_cite_numbers_of_lines() -> None:
    reply = {"party": {"lines": "2", "value": "ACME Corp."}, "amount": {"lines": "2-3", "value": 1500}}
    beyond = {**reply, "amount": {"lines": "2-9", "value": 1500}}
    wrong = {**reply, "amount": {"lines": "3", "value": 1500}}
    chat = model(beyond, wrong, reply)
    contract = create(Lines, chat).contract([OTHER, DOCUMENT])
    assert "[2] ACME Corp. pays 1,500 euros. [3] Bob has 7 cars" in chat.requests[0].messages[0].text
    assert "$.amount: there are no such lines" in chat.requests[1].messages[-1].text
    assert "$.amount: the quote does not contain the value" in chat.requests[2].messages[-1].text
    assert (contract.party.quote, contract.party.start) == ("ACME Corp. pays 1,500 euros.", 0)
    assert (contract.amount.quote, contract.amount.document) == (DOCUMENT.text, "contract.txt")
    sentence = {"text": "Bob owns cars.", "quotes": ["2"]}
    answer = create(Lines, model({"sentences": [sentence]})).explain(DOCUMENT)
    assert answer.quotes[0].quote == "Bob has 7 cars and 8 cats."


def test_structured_cites_numbers_of_lines_in_its_messages() -> None:
    chat = model({"party": {"lines": "1", "value": "ACME Corp."}, "amount": {"lines": "4", "value": 1500}})
    messages = [UserMessage("ACME Corp. pays. It is rich."), UserMessage("Really? It pays 1,500 euros.")]
    contract = structured(chat, Contract, cite="lines").invoke(messages)
    assert [one.text for one in chat.requests[0].messages[:2]] == [
        "[1] ACME Corp. pays. [2] It is rich.",
        "[3] Really? [4] It pays 1,500 euros.",
    ]
    text = "\n\n".join(one.text for one in messages)
    assert (
        contract.amount.quote == text[contract.amount.start : contract.amount.end] == "It pays 1,500 euros."
    )
    with pytest.raises(DefinitionError, match="cite is 'words'; it must be"):
        structured(chat, Contract, cite="words")  # type: ignore[call-overload]


def test_documents_with_the_same_name_are_shown_with_their_numbers() -> None:
    chat = model({"quote": "7 cars", "value": 7})
    cited = create(Reader, chat).several([Document("8 cars", "a.txt"), Document("7 cars", "a.txt")])
    assert '<document name="a.txt (2)">\n7 cars' in chat.requests[0].messages[-1].text
    assert cited.document == "a.txt (2)"


def test_a_call_that_waited_for_an_approval_still_has_its_documents() -> None:
    def ask(question: str) -> str:
        """Ask a person."""
        return "yes"

    call = ToolCall("1", "ask", '{"question": "?"}')
    by_lines = {"party": {"lines": "1", "value": "ACME Corp."}, "amount": {"lines": "1", "value": 1500}}
    for interface, reply in ((Reader, GOOD), (Lines, by_lines)):
        chat = ScriptedChatModel([ChatReply(AiMessage("", (call,))), json.dumps(reply)])
        page = Page(0, len(DOCUMENT.text), 100, 100)
        document = Document(DOCUMENT.text, "contract.txt", [page])
        service: Any = create(interface, chat, tools=[tool(needs_approval=True)(ask)])
        argument = document if interface is Reader else [document]
        with pytest.raises(ApprovalRequiredError) as waiting:
            service.contract(argument)
        state = SuspendedCall.from_json(waiting.value.state.to_json())
        contract = resume(service.contract, state, {"1": True})
        assert (contract.party.document, contract.party.page, contract.party.start) == ("contract.txt", 1, 0)
        assert "[1] [1]" not in chat.requests[1].messages[0].text


def test_the_annotations_of_chat_completions_are_citations() -> None:
    place = {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 4}
    message = {"content": "Yes. No.", "annotations": [{"type": "url_citation", "url_citation": place}]}
    choice = {"message": {"role": "assistant", **message}, "finish_reason": "stop"}
    streamed = {"delta": {"role": "assistant", **message}, "finish_reason": "stop"}
    reader = ChatStreamReader()
    deltas = list(reader.feed(f"data: {json.dumps({'choices': [streamed]})}\n\ndata: [DONE]\n\n".encode()))
    for reply in (
        read_chat_completion(json.dumps({"choices": [choice], "model": "m"}).encode()),
        [*deltas, *reader.end()][-1].reply,
    ):
        assert reply is not None
        assert answer_of(reply) == [("Yes.", [("", "https://a.example")]), ("No.", [])]

    class Chatter(Protocol):
        @options(extra_body={"web_search_options": {}})
        @user_message("{{question}}")
        def answer(self, question: str) -> CitedText: ...

    assert create(Chatter, ScriptedChatModel([reply])).answer("?").quotes[0].document == "https://a.example"


def test_a_fake_model_cites_lines_that_have_the_values() -> None:
    contract = create(Lines, FakeChatModel()).contract([OTHER, DOCUMENT])
    assert contract.amount.value_checked
    assert contract.party.value in DOCUMENT.text + OTHER.text
