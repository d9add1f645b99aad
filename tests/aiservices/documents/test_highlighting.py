"""The quotes of an answer are marked in the text of its documents, and on the pages of PDFs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from browser import in_browser
from hypothesis import given, settings, strategies as st

from aiservices import Cited, CitedText, Document
from aiservices.documents import Box, highlight
from output_parsers.types.cited import CitedSentence, Quote


@dataclass
class Contract:
    party: Cited[str]
    duties: list[Cited[int]]


class Visible(HTMLParser):
    """Collects the text of the document, and that of each mark."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.marks: list[tuple[str, str]] = []
        self._tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self._tags.pop()

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self._tags]
        if "pre" in tags:
            self.texts.append(data)
            if tags[-1] == "mark":
                self.marks.append((self._tags[-1][1]["title"] or "", data))


def cited(document: Document, quote: str, value: Any, **details: Any) -> Cited[Any]:
    start = document.text.index(quote)
    end = start + len(quote)
    return Cited(value, quote, document=document.name, start=start, end=end, match="exact", **details)


def pre_of(html: str) -> str:
    return html.partition("<pre>")[2].partition("</pre>")[0]


@given(
    st.text("ab<&>\n", max_size=30), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=5)
)
@settings(deadline=None, max_examples=30)
def test_the_text_is_shown_as_it_is_and_each_quote_is_marked(text: str, spans: list[tuple[int, int]]) -> None:
    spans = [(min(a, len(text)), min(max(a, b), len(text))) for a, b in spans]
    values = [Cited(1, text[a:b], start=a, end=b) for a, b in spans]
    visible = Visible(f"<pre>{pre_of(highlight(Document(text), values))}</pre>")
    assert "".join(visible.texts) == text
    for number, (start, end) in enumerate(spans):
        name = "value" if len(spans) == 0 else f"[{number}]"
        marked = "".join(data for title, data in visible.marks if name in title.split("; "))
        assert marked == text[start:end]


def test_the_table_has_the_values_with_links_to_their_quotes() -> None:
    document = Document("Acme & Co must pay 5 and 6 euros.", "a<b>.txt")
    value = Contract(
        cited(document, "Acme & Co", "Acme & Co", value_checked=True),
        [cited(document, "5 and 6", 5, page=2), Cited(7, "seven")],
    )
    html = highlight(document, value)
    rows = re.findall(r"<tr style.*?</tr>", html)
    assert len(rows) == 3
    assert '<a href="#c1">party</a>' in rows[0]
    assert "<q>Acme &amp; Co</q> <small>value checked</small>" in rows[0]
    assert '<a href="#c2">duties[0]</a>' in rows[1]
    assert "page 2" in rows[1]
    assert "href" not in rows[2]
    assert "not found" in rows[2]
    assert '<a id="c1"></a><mark' in pre_of(html)
    assert "<title>a&lt;b&gt;.txt</title>" in html
    assert "<script" not in html


def test_each_of_several_documents_has_the_quotes_that_stand_in_it() -> None:
    first, second = Document("one two", "a"), Document("two three", "a")
    values = [cited(first, "two", 2), Cited(3, "three", document="a (2)", start=4, end=9)]
    sections = highlight([first, second], values).split("<section>")[1:]
    assert [re.findall(r"<mark[^>]*>(.*?)</mark>", one) for one in sections] == [["two"], ["three"]]


def test_a_quote_is_not_marked_in_another_text_than_its_own() -> None:
    value = cited(Document("The rent is 500.", "lease.txt"), "rent is 500", 500)
    html = highlight(Document("Some other version of it", "lease.txt"), value)
    assert "<mark" not in html
    assert 'href="#' not in html
    assert "not found" in html


def test_a_value_without_quotes_is_shown_without_marks() -> None:
    assert "<mark" not in highlight(Document("text"), {"a": 1, "b": [None, Contract]})


def pdf(path: Path) -> Path:
    pytest.importorskip("pypdfium2")
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(path), pagesize=(300, 200))
    canvas.drawString(20, 100, "first page")
    canvas.showPage()
    canvas.drawString(120, 50, "the sum is 900")
    canvas.save()
    return path


def test_pages_with_quotes_are_pictures_with_boxes(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf")
    document = Document.open(path)
    start = document.text.index("900")
    value = cited(document, "900", 900, page=2, boxes=document.boxes(start, start + 3))
    html = highlight(document, value, files=path)
    assert re.findall(r"<figcaption>(.*?)</figcaption>", html) == ["Page 2 of 2"]
    assert 'id="b1" class="box" href="#c1" title="value"' in html
    assert Box(*value.boxes[0]).page == 2


@pytest.mark.peers
def test_a_box_is_over_the_words_in_a_browser_and_links_jump_to_the_quote(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf")
    document = Document.open(path)
    start = document.text.index("900")
    value = cited(document, "900", 900, page=2, boxes=document.boxes(start, start + 3))
    page = tmp_path / "page.html"
    page.write_text(highlight(document, value, files=path), "utf-8")

    def look(browser_page: Any) -> tuple[Any, Any, bool]:
        errors: list[str] = []
        browser_page.on("console", lambda message: errors.append(message.text))
        browser_page.set_viewport_size({"width": 1200, "height": 300})
        browser_page.goto(page.as_uri())
        image = browser_page.locator("img").bounding_box()
        box = browser_page.locator(".box").bounding_box()
        browser_page.locator("nav a", has_text="value").first.click()
        is_shown = browser_page.evaluate(
            "() => { const r = document.querySelector('mark').getBoundingClientRect();"
            " return r.top >= 0 && r.bottom <= innerHeight }"
        )
        assert errors == []
        return image, box, is_shown

    image, box, is_shown = in_browser(look)
    assert is_shown
    assert image["width"] == pytest.approx(450)
    expected = document.boxes(start, start + 3)[0]
    assert box["x"] - image["x"] == pytest.approx(expected.left * 1.5, abs=1)
    assert box["y"] - image["y"] == pytest.approx(expected.top * 1.5, abs=1)
    assert box["width"] == pytest.approx((expected.right - expected.left) * 1.5, abs=1)


def test_the_sentences_of_a_cited_text_are_the_values_of_its_quotes() -> None:
    document = Document("Rent is 900.", "a")
    quote = Quote("900", document="a", start=8, end=11, match="exact")
    html = highlight(document, CitedText((CitedSentence("The rent is 900 euros.", (quote,)),)))
    assert "<td>The rent is 900 euros.</td><td><q>900</q>" in html
    assert ">900</mark>" in html
