"""Documents are arguments of methods at all entry points, and know their pages and boxes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any, Protocol

import pytest
from served import Served
from starlette.testclient import TestClient

from aiservices import (
    AiMessage,
    ChatReply,
    Document,
    ScriptedChatModel,
    ToolCall,
    create,
    tool,
    user_message,
)
from aiservices.cli.values import read_arguments, read_cells
from aiservices.documents import Box, Page
from aiservices.documents.pages import pack_characters
from aiservices.integrations.fastapi import app
from aiservices.integrations.fastapi.remote_client import client
from aiservices.remote.codec import codec_for
from aiservices.remote.contract import contract_of
from aiservices.rows import map_rows
from output_parsers.parser.type_parser import DEFAULT_REGISTRY


class Reader(Protocol):
    @user_message("How many words?\n\n{{document}}")
    def words(self, document: Document) -> int: ...
    @user_message("Compare.\n\n{{documents}}")
    def compare(self, documents: list[Document]) -> str: ...
    @user_message("{{note}}: {{document.name}} has {{document.pages | length}} pages")
    def note(self, note: str, document: Document | None = None) -> str: ...


def with_pages(*texts: str) -> Document:
    """Return a document with a page for each text, where each character is 10 points wide and high."""
    pages, start = [], 0
    for text in texts:
        edges = ((10.0 * i, 20.0, 10.0 * i + 10, 30.0) for i in range(len(text)))
        pages.append(Page(start, start + len(text), 300, 400, pack_characters(edges)))
        start += len(text) + 1
    return Document("\n".join(texts), "a.pdf", pages)


def reader(*replies: str) -> tuple[Reader, ScriptedChatModel]:
    model = ScriptedChatModel(replies)
    return create(Reader, model), model


def prompt(model: ScriptedChatModel) -> str:
    return model.requests[-1].messages[-1].text


def test_the_prompt_has_the_text_of_a_document_as_it_is() -> None:
    service, model = reader("2")
    assert service.words(Document("{{a}} \r\n b\n")) == 2
    assert prompt(model).startswith("How many words?\n\n{{a}} \r\n b\n")


def test_a_list_of_documents_has_their_names() -> None:
    service, model = reader("They differ.")
    service.compare([Document("one", 'a "b" <c>.txt'), Document("two")])
    expected = (
        '<document name="a &quot;b&quot; &lt;c&gt;.txt">\none\n</document>\n\n<document>\ntwo\n</document>'
    )
    assert prompt(model) == f"Compare.\n\n{expected}"


def test_a_template_can_use_the_name_and_the_pages() -> None:
    service, model = reader("Yes")
    service.note("N", with_pages("one", "two"))
    assert prompt(model) == "N: a.pdf has 2 pages"


def test_pages_are_counted_from_1_and_what_is_between_two_belongs_to_the_first() -> None:
    document = with_pages("one", "two")
    assert [document.page_at(i) for i in range(8)] == [1, 1, 1, 1, 2, 2, 2, 2]
    assert Document("one").page_at(0) is None
    with pytest.raises(IndexError):
        document.page_at(8)


def test_the_boxes_of_a_text_are_one_for_each_line() -> None:
    document = with_pages("one", "two")
    assert document.boxes(1, 6) == (Box(1, 10, 20, 30, 30), Box(2, 0, 20, 20, 30))
    assert document.boxes(3, 4) == document.boxes(2, 2) == Document("one").boxes(0, 3) == ()


def test_pages_that_overlap_or_leave_the_text_are_an_error() -> None:
    for pages in ([Page(0, 2), Page(1, 3)], [Page(0, 4)]):
        with pytest.raises(ValueError, match="it must be after the page before"):
            Document("one", pages=pages)
    with pytest.raises(ValueError, match="a page begins at 2 and ends at 1"):
        Page(2, 1)
    with pytest.raises(ValueError, match="has 3 bytes"):
        Page(0, 1, characters=b"abc")
    with pytest.raises(TypeError, match="the text of a Document is Document; pass a str"):
        Document(Document("one"))  # type: ignore[arg-type]


def test_a_document_cannot_be_changed_and_copies_are_equal() -> None:
    document = with_pages("one", "two")
    with pytest.raises(AttributeError, match="cannot be changed"):
        document.text = "two"
    with pytest.raises(AttributeError, match="cannot be changed"):
        del document.text
    for copied in (copy.deepcopy(document), pickle.loads(pickle.dumps(document))):
        assert (copied, hash(copied), copied.boxes(1, 6)) == (document, hash(document), document.boxes(1, 6))
    assert document != Document(document.text, document.name)
    assert document != document.text
    assert repr(document) == "<Document 'a.pdf', 7 characters, 2 pages>"


def test_json_has_a_document_as_text_or_as_an_object_and_gives_all_of_it_back() -> None:
    codec = codec_for(Document, DEFAULT_REGISTRY)
    document = with_pages("one", "two")
    assert codec.read(codec.write(document)) == document
    assert codec.read('"one"') == codec.read('{"text": "one"}') == Document("one")
    assert "pages" not in str(codec.schema)  # which only programs send
    for text in ('{"txt": "one"}', "1", '{"text": "a", "pages": [{"start": 0, "end": 9}]}', '{"text": null}'):
        with pytest.raises(ValueError, match="cannot read"):
            codec.read(text)


def test_a_client_sends_a_document_with_its_boxes_to_a_server() -> None:
    class Remote(Protocol):
        @user_message("{{document}}")
        def words(self, document: Document) -> int: ...

    model = ScriptedChatModel(["2", "3"])
    served = Served(app(create(Remote, model)))
    served.start()
    try:
        assert client(Remote, served.url).words(with_pages("one", "two")) == 2
    finally:
        served.stop()
    http = TestClient(app(create(Remote, model)))
    assert http.post("/words", json={"document": "plain"}).json() == 3
    assert [request.messages[-1].text.splitlines()[0] for request in model.requests] == ["one", "plain"]


def test_the_command_line_reads_documents_from_files_or_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One.\n", "utf-8")
    method = contract_of(Reader).methods["words"]
    assert read_arguments([f"document=@{path}"], method) == {"document": Document("One.\n", "a.txt")}
    assert read_arguments(["document=12"], method) == {"document": Document("12")}
    assert read_arguments(['document:={"text": "a", "name": "b"}'], method) == {
        "document": Document("a", "b")
    }
    assert read_cells({"document": f"@{path}"}, method) == ({"document": Document("One.\n", "a.txt")}, [])


def test_a_cell_of_a_table_is_the_text_of_a_document_or_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("from a file", "utf-8")
    service, model = reader(*"12345")
    cells = ["12", '"quoted"', Document("typed"), path, '{"text": "not JSON"}']
    rows = list(map_rows(service.words, [{"document": one} for one in cells], max_concurrency=1))
    assert [row.error for row in rows] == [None] * 5
    texts = [request.messages[-1].text.split("\n\n")[1] for request in model.requests]
    assert texts == ["12", '"quoted"', "typed", "from a file", '{"text": "not JSON"}']


def test_cells_with_documents_become_documents(tmp_path: Path) -> None:
    path, pages = tmp_path / "c.md", Document("a", "p.pdf", [Page(0, 1, 600, 800)])
    path.write_text("c", "utf-8")
    taken: list[object] = []

    class Takes(Protocol):
        @user_message("{{one}} {{more}} {{by_name}}")
        def take(self, one: Document | None, more: list[Document], by_name: dict[str, Document]) -> str: ...

    def note(invocation: Any, proceed: Any) -> Any:
        taken.extend(invocation.arguments.values())
        return (yield from proceed(invocation))

    row = {"one": "a", "more": ["b", {"text": "b", "name": "n"}, path], "by_name": {"c": path}}
    mixed = {"one": pages, "more": [pages], "by_name": {"a": pages}}
    documents = [Document("b"), Document("b", "n"), Document("c", "c.md")]
    for cells, expected in (
        (row, [Document("a"), documents, {"c": documents[2]}]),
        (mixed, [pages, [pages], {"a": pages}]),
    ):
        taken.clear()
        rows = map_rows(create(Takes, ScriptedChatModel(["x"]), interceptors=[note]).take, [cells])
        assert [one.error for one in rows] == [None]
        assert taken == expected


def test_a_model_passes_a_document_to_a_tool_as_text() -> None:
    seen: list[Document] = []

    @tool
    def archive(document: Document) -> str:
        """Archive it."""
        seen.append(document)
        return "done"

    class Clerk(Protocol):
        @user_message("{{it}}")
        def work(self, it: str) -> str: ...

    call = ToolCall("1", "archive", '{"document": "one"}')
    model = ScriptedChatModel([ChatReply(AiMessage("", (call,))), "Finished."])
    assert create(Clerk, model, tools=[archive]).work("Archive it.") == "Finished."
    assert seen == [Document("one")]
