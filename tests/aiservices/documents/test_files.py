"""Documents are read from text, Markdown, HTML, PDF and DOCX; other files are errors that say why."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from aiservices import Document, MissingExtraError
from aiservices.documents import Box, DocumentError
from aiservices.documents.files import html_text

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def docx(body: str, *, notes: str = "") -> bytes:
    """Return a DOCX file with the given content of its body."""
    types = "http://schemas.openxmlformats.org/package/2006/content-types"
    relations = "http://schemas.openxmlformats.org/package/2006/relationships"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    data = io.BytesIO()
    with ZipFile(data, "w") as file:
        file.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{types}"><Default Extension="rels" ContentType="application/'
            'vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" '
            f'ContentType="{kind}.document.main+xml"/><Override PartName="/word/footnotes.xml" '
            f'ContentType="{kind}.footnotes+xml"/></Types>',
        )
        file.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{relations}"><Relationship Id="r1" Type="{office}/officeDocument" '
            'Target="word/document.xml"/></Relationships>',
        )
        file.writestr(
            "word/_rels/document.xml.rels",
            f'<Relationships xmlns="{relations}"><Relationship Id="r1" Type="{office}/footnotes" '
            'Target="footnotes.xml"/></Relationships>',
        )
        file.writestr("word/document.xml", f"<w:document {W}><w:body>{body}</w:body></w:document>")
        file.writestr("word/footnotes.xml", f"<w:footnotes {W}>{notes}</w:footnotes>")
    return data.getvalue()


def paragraph(runs: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}{runs}</w:p>"


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def write(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


@pytest.fixture
def pdf(tmp_path: Path) -> Callable[[Callable[[Any], None]], Path]:
    """Return a function that makes a PDF of 300 by 200 points with a function that draws on its canvas."""
    pytest.importorskip("pypdfium2")
    canvas = pytest.importorskip("reportlab.pdfgen.canvas")

    def make(draw: Callable[[Any], None], **options: Any) -> Path:
        path = tmp_path / "a.pdf"
        page = canvas.Canvas(str(path), pagesize=(300, 200), **options)
        draw(page)
        page.save()
        return path

    return make


def test_texts_are_read_with_the_encoding_of_their_mark_or_as_utf_8(write: Callable[..., Path]) -> None:
    for text, encoding in (
        ("Año\n", "utf-8"),
        ("Año\n", "utf-8-sig"),
        ("Año\n", "utf-16"),
        ("Año\n", "utf-16-le"),
        ("Año\n", "utf-16-be"),
        ("Año\n", "utf-32"),
        ("Año\n", "cp1252"),
        ("Año\r\n", "utf-8"),
        ("Año\r", "utf-8"),
    ):
        assert Document.open(write("a.md", text.encode(encoding))) == Document("Año\n", "a.md"), encoding
    path = write("a.txt", "日本".encode("shift_jis"))
    assert Document.open(path, encoding="shift_jis", name="year").name == "year"
    with pytest.raises(DocumentError, match=r"a\.txt is not text in UTF-8, .* pass its encoding, as in"):
        Document.open(path)


def test_files_that_are_not_text_are_an_error(write: Callable[..., Path]) -> None:
    archive = io.BytesIO()
    with ZipFile(archive, "w") as file:
        file.writestr("a.txt", "a")
    for data, problem in (
        (b"\x7fELF\x00\x01\x02", r"a\.bin is not text, Markdown, HTML, PDF or DOCX"),
        (b"\xd0\xcf\x11\xe0\xa1", "has the format of old versions of Office; save it as DOCX, PDF or text"),
        (b"{\\rtf1\\ansi Hello}", "has the format RTF; save it"),
        (b"\x89PNG\r\n\x1a\n", "has the format PNG"),
        (b" \n", r"a\.bin has no text"),
        (archive.getvalue(), "an archive that is not a DOCX"),
        (b"PK\x03\x04abc", "a damaged archive"),
    ):
        with pytest.raises(DocumentError, match=problem):
            Document.open(write("a.bin", data))


def test_the_name_of_another_format_is_not_read_as_text(write: Callable[..., Path]) -> None:
    for name, data, problem in (
        ("a.pdf", b"just text", "a.pdf is not in the format PDF; save it as DOCX, PDF or text"),
        ("a.PDF", b"<html><p>Please log in", "a.PDF is not in the format PDF; save it as DOCX, PDF or text"),
        ("a.docx", b"just text", "a.docx is not in the format DOCX; save it as DOCX, PDF or text"),
        ("a.docx", b"", "a.docx is empty"),
        ("a.html", b"<script>no</script>", "a.html has no text"),
    ):
        with pytest.raises(DocumentError) as raised:
            Document.open(write(name, data))
        assert str(raised.value) == problem
    assert Document.open(write("a.md", b"The first bytes are %PDF-1.7")).text.endswith("%PDF-1.7")


def test_html_is_read_as_its_visible_text() -> None:
    page = """<!DOCTYPE html><html><head><title>no</title></head><body><h2>A <b>bold</b> title</h2>
    <p>One
    two.<br>Fish&amp;chips</p><script>no()</script><p style="x">It<i>al</i>ic</p>
    <ul><li>a</li><li><p>b</p><ol start="3"><li>x<li>y</ol></li></ul>
    <table><tr><th>Name<th>Age</tr><tr><td>Ann</td><td>31</td></tr></table>
    <pre>  code\n    more</pre><p hidden>no<p>yes <span hidden>no <b>no</b></span>and yes<div>end</div>"""
    assert html_text(page) == (
        "## A bold title\n\nOne two.\nFish&chips\n\nItalic\n\n- a\n- b\n  3. x\n  4. y\n\n"
        "Name | Age\nAnn | 31\n\n  code\n    more\n\nyes and yes\nend\n"
    )


def test_raised_struck_and_deleted_digits_do_not_become_other_numbers() -> None:
    for html, text in {
        "<p>10<sup>2</sup> m": "10² m",
        '<p>1,250<sup><a href="#n">1</a></sup> EUR': "1,250¹ EUR",
        "<p>10<sup>-3</sup> of the 5<sup>th</sup>": "10⁻³ of the 5th",
        "<p>a<sup>2<p>5": "a²\n\n5",
        "<p>price <s>50</s>40 or <strike>5</strike>6": "price ~~50~~40 or ~~5~~6",
        "<p>price <del>50</del><ins>40</ins>": "price 40",
    }.items():
        assert html_text(html) == f"{text}\n", html


def test_html_with_left_out_and_unusual_tags_is_read() -> None:
    for html, text in {
        "<html><head><title>no</title><body>text": "text",
        "<head><meta charset=utf-8><p>text": "text",
        "<p style='Display: none'>no<p>text": "text",
        "<P>a<BR/>b</P><!-- no --><input hidden><script/>c": "a\nb\n\nc",
        "<ul><li><ol start=2><li>a</ol></ul>": "-   2. a",
        "<div hidden><p>no<div>no</div>no</div>text": "text",
        "<table><tr><td><p>a</p><p>b</p></td><td>c</td></tr></table>": "a\n\nb | c",
        "&amp;lt; &#8364;": "&lt; €",
        "<i>a</i> <i>b</i>c": "a bc",
        "5<textarea>1</textarea>0<select><option>1</select>0<img>0": "5 0 0 0",
        "<dialog>no</dialog><datalist><option>1</datalist>a": "a",
        "<p style='opacity: 0.0'>1<p style='opacity:0.9'>a": "a",
        "<iframe>no</iframe><video>no</video>x = <math alttext='5^2'><mn>5</mn></math>y": "x = 5^2 y",
        "5<!-- 1 -->0<template>1</template>": "50",
    }.items():
        assert html_text(html) == f"{text}\n"


def test_the_encoding_of_html_is_the_one_that_it_declares(write: Callable[..., Path]) -> None:
    page = '<html><meta charset="iso-8859-1"><p>Año – 5 €'
    assert Document.open(write("a.txt", page.encode("cp1252"))).text == "Año – 5 €\n"
    for html, encoding in (
        ("<html><meta charset=utf-16><p>Año", "utf-8"),  # which its declaration cannot be in
        ("<html><meta charset=utf-8><p>Año", "utf-16"),
        ("<html><p>Año", "utf-16-le"),
        ('<?xml version="1.0" encoding="iso-8859-2"?><html><p>Año', "iso-8859-1"),
        ("<html><p>Año", "cp1252"),
    ):
        text = Document.open(write("a.html", html.encode(encoding))).text
        assert text == ("Ańo\n" if "-2" in html else "Año\n"), html


def test_a_docx_is_read_with_headings_lists_tables_insertions_and_notes(write: Callable[..., Path]) -> None:
    pytest.importorskip("mammoth")
    cells = "".join(f"<w:tc>{paragraph(run(text))}</w:tc>" for text in ("Rent", "900"))
    note = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    body = (
        paragraph(run("Contract"), "Heading1")
        + paragraph(
            run("Due on ")
            + f'<w:ins w:id="1">{run("1 May")}</w:ins>'
            + '<w:del w:id="2"><w:r><w:delText>2 June</w:delText></w:r></w:del>'
            + note
        )
        + f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>"
    )
    path = write(
        "a.docx", docx(body, notes=f'<w:footnote w:id="2">{paragraph(run("In cash."))}</w:footnote>')
    )
    text = Document.open(path).text
    assert text.startswith("# Contract\n\nDue on 1 May")
    assert "2 June" not in text
    assert "Rent | 900\n" in text
    assert "In cash." in text


def test_hidden_text_of_a_docx_is_not_read_and_formulas_are(write: Callable[..., Path]) -> None:
    pytest.importorskip("mammoth")
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'

    def hidden(value: str) -> str:
        return f"<w:r><w:rPr><w:vanish{value}/></w:rPr><w:t>00</w:t></w:r>"

    def m(name: str, content: str) -> str:
        return f"<m:{name}>{content}</m:{name}>"

    power = m("sSup", m("e", m("r", m("t", "10"))) + m("sup", m("r", m("t", "2"))))
    for runs, text in {
        run("5") + hidden(""): "5",
        run("5") + hidden(' w:val="true"'): "5",
        run("5") + hidden(' w:val="0"'): "500",
        '<w:commentRangeStart w:id="0"/>'
        + run("5")
        + '<w:r><w:commentReference w:id="0"/></w:r><w:moveFrom w:id="1">'
        + run("00")
        + "</w:moveFrom>": "5",
        run("x = ") + f"<m:oMath {math}>{power}</m:oMath>": "x = 10^(2)",
        run("40") + "<w:r><w:rPr><w:dstrike/></w:rPr><w:t>50</w:t></w:r>": "40~~50~~",
    }.items():
        assert Document.open(write("a.docx", docx(paragraph(runs)))).text == f"{text}\n"
    styled = io.BytesIO()
    data = docx(paragraph(run("5")) + paragraph(run("00"), "Secret"))
    with ZipFile(io.BytesIO(data)) as old, ZipFile(styled, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        style = '<w:style w:type="paragraph" w:styleId="Secret"><w:rPr><w:vanish/></w:rPr></w:style>'
        new.writestr("word/styles.xml", f"<w:styles {W}>{style}</w:styles>")
    assert Document.open(write("a.docx", styled.getvalue())).text == "5\n"


def test_the_numbers_of_a_formula_are_not_joined(write: Callable[..., Path]) -> None:
    pytest.importorskip("mammoth")
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'

    def of(name: str, text: str) -> str:
        return f"<m:{name}><m:r><m:t>{text}</m:t></m:r></m:{name}>"

    signs = '<m:dPr><m:begChr m:val="["/><m:sepChr m:val=";"/><m:endChr m:val=""/></m:dPr>'
    for formula, text in {
        f"<m:d>{of('e', '1+2')}</m:d>": "(1+2)",
        f"<m:d>{signs}{of('e', '1')}{of('e', '2')}</m:d>": "[1;2",
        f"<m:sSup><m:e><m:d><m:dPr/>{of('e', '1+2')}</m:d></m:e>{of('sup', '2')}</m:sSup>": "(1+2)^(2)",
        f"<m:rad><m:deg/>{of('e', '16')}</m:rad>": "√(16)",
        f"<m:rad>{of('deg', '3')}{of('e', '8')}</m:rad>": "3√(8)",
        f"<m:m><m:mr>{of('e', '1')}{of('e', '2')}</m:mr><m:mr>{of('e', '3')}{of('e', '4')}</m:mr></m:m>": (
            "1, 2; 3, 4"
        ),
        f"<m:eqArr>{of('e', 'x=1')}{of('e', '2y=3')}</m:eqArr>": "x=1; 2y=3",
        '<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr>'
        f"{of('sub', 'i=1')}{of('sup', '9')}{of('e', '5')}</m:nary>": "∑_(i=1)^(9)(5)",
        f"<m:sSubSup>{of('e', 'x')}{of('sub', '1')}{of('sup', '2')}</m:sSubSup>": "x_1^(2)",
    }.items():
        path = write("a.docx", docx(paragraph(f"<m:oMath {math}>{formula}</m:oMath>")))
        assert Document.open(path).text == f"{text}\n"


def test_each_part_of_a_nested_formula_is_read_once(write: Callable[..., Path]) -> None:
    pytest.importorskip("mammoth")
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    depth = 30
    formula = "<m:f><m:num>" * depth + "<m:r><m:t>1</m:t></m:r>" + "</m:num></m:f>" * depth
    path = write("a.docx", docx(paragraph(f"<m:oMath {math}>{formula}</m:oMath>")))
    assert Document.open(path).text == "(" * depth + "1" + ")/()" * depth + "\n"


def test_the_words_of_a_docx_are_neither_lost_nor_joined(write: Callable[..., Path]) -> None:
    raised = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>2</w:t></w:r>'
    struck = "<w:r><w:rPr><w:strike/></w:rPr><w:t>50</w:t></w:r>"
    page_end = '<w:r><w:br w:type="page"/></w:r>'
    for runs, text in {
        run("10") + raised: "10²",
        struck + run("40"): "~~50~~40",
        run("Dear ") + f'<w:fldSimple w:instr=" MERGEFIELD name ">{run("Ann")}</w:fldSimple>': "Dear Ann",
        run("rent 5") + page_end + run("0 days"): "rent 5\n0 days",
        run("rent 5") + "<w:r><w:cr/></w:r>" + run("0 days"): "rent 5\n0 days",
    }.items():
        assert Document.open(write("a.docx", docx(paragraph(runs)))).text == f"{text}\n"
    with pytest.raises(DocumentError, match=r"a\.docx is a damaged DOCX: mismatched tag"):
        Document.open(write("a.docx", docx("<w:p>")))


def test_a_pdf_has_pages_and_boxes_from_their_top_left_corner(pdf: Callable[..., Path]) -> None:
    def draw(page: Any) -> None:
        page.drawString(20, 150, "The sum is 1,250.00 EUR for exam-")
        page.drawString(20, 136, "ples of this.")
        page.drawString(20, 90, "Next.")
        page.showPage()
        page.drawString(50, 100, "Second page")

    document = Document.open(pdf(draw))
    assert document.text == ("The sum is 1,250.00 EUR for exam-\nples of this.\n\nNext.\n\nSecond page")
    assert [(page.start, page.width, page.height) for page in document.pages] == [
        (0, 300, 200),
        (56, 300, 200),
    ]
    start = document.text.index("Second")
    [box] = document.boxes(start, start + 6)
    assert (box.page, document.page_at(start)) == (2, 2)
    assert box.left == pytest.approx(50, abs=0.1)
    assert box.top < 200 - 100 < box.bottom
    start = document.text.index("exam")
    assert [round(one.bottom) for one in document.boxes(start, start + 10)] == [53, 67]


def test_raised_digits_of_a_pdf_are_not_digits_of_the_number_before(pdf: Callable[..., Path]) -> None:
    def draw(page: Any) -> None:
        text = page.beginText(20, 150)
        for size, rise, part in (
            (12, 0, "10"),
            (7, 5, "2"),
            (12, 0, " m, CO"),
            (7, -3, "2"),
            (12, 0, ", 50"),
        ):
            text.setFont("Helvetica", size)
            text.setRise(rise)
            text.textOut(part)
        page.drawText(text)

    assert Document.open(pdf(draw)).text.replace("\n", "") == "10² m, CO2, 50"


def test_the_numbers_of_cells_of_a_pdf_are_not_joined(pdf: Callable[..., Path]) -> None:
    def draw(page: Any) -> None:
        width = page.stringWidth("500", "Helvetica", 10)
        page.setFont("Helvetica", 10)
        for line, gap in enumerate((0.5, 1, 2, 4)):
            page.drawString(20, 180 - 20 * line, "500")
            page.drawString(20 + width + gap, 180 - 20 * line, "600")
        text = page.beginText(20, 40)
        text.setCharSpace(1)
        text.textOut("12")
        text.setFont("Helvetica-Bold", 10)  # another object in one number
        text.textOut("34")
        page.drawText(text)

    assert Document.open(pdf(draw)).text.split() == ["500", "600"] * 4 + ["1234"]


def test_boxes_are_on_a_page_as_it_is_shown_if_it_is_rotated_or_cut(pdf: Callable[..., Path]) -> None:
    def draw(page: Any) -> None:
        for angle in (0, 90, 180, 270):
            page.setPageRotation(angle)
            page.setCropBox((10, 10, 290, 190))
            page.drawString(30, 150, "word")
            page.showPage()

    path = pdf(draw)
    document = Document.open(path)
    assert [page.width for page in document.pages] == [280, 180, 280, 180]
    for page, picture in zip(document.pages, pictures(path), strict=True):
        [box] = document.boxes(page.start, page.end)
        dark = [(x, y) for y, row in enumerate(picture) for x, value in enumerate(row) if value < 128]
        assert len(dark) > 20
        assert all(box.left - 1 <= x <= box.right and box.top - 1 <= y <= box.bottom for x, y in dark)


def pictures(path: Path) -> list[list[bytes]]:
    """Return the rows of the pages of a PDF as gray pixels, one for each point."""
    import pypdfium2

    rendered = []
    for page in pypdfium2.PdfDocument(path):
        bitmap = page.render(scale=1, grayscale=True)
        rows = range(bitmap.height)
        data = bytes(bitmap.buffer)
        rendered.append([data[y * bitmap.stride :][: bitmap.width] for y in rows])
    return rendered


def test_the_values_of_form_fields_are_text(pdf: Callable[..., Path]) -> None:
    def draw(page: Any) -> None:
        page.drawString(20, 150, "Name:")
        page.acroForm.textfield(name="n", x=80, y=140, width=100, height=24, value="Ann Smith")

    document = Document.open(pdf(draw))
    assert document.text.split() == ["Name:", "Ann", "Smith"]
    start = document.text.index("Ann")
    assert document.boxes(start, start + 9)[0].left > 80


def test_pages_without_text_are_an_error_unless_they_are_empty(pdf: Callable[..., Path]) -> None:
    pytest.importorskip("PIL")
    from PIL import Image
    from reportlab.lib.utils import ImageReader

    def image(page: Any) -> None:
        page.drawImage(ImageReader(Image.new("RGB", (30, 20), "grey")), 0, 0, 300, 200)

    def some(page: Any) -> None:
        page.drawString(20, 150, "Text of the first page")
        page.showPage()
        page.showPage()
        image(page)
        page.drawString(20, 20, "Exhibit 12")
        page.showPage()

    with pytest.raises(DocumentError, match=r"a\.pdf: page 3 is an image without text; recognize the text"):
        Document.open(pdf(some))
    assert (
        Document.open(pdf(some), scanned="skip").text.split() == "Text of the first page Exhibit 12".split()
    )
    with pytest.raises(DocumentError, match="page 1 is an image"):
        Document.open(pdf(image), scanned="skip")
    with pytest.raises(DocumentError, match="has no text"):
        Document.open(pdf(lambda page: page.showPage()))


def test_a_pdf_that_is_encrypted_or_damaged_is_an_error(pdf: Callable[..., Path], tmp_path: Path) -> None:
    from reportlab.lib.pdfencrypt import StandardEncryption

    path = pdf(lambda page: page.drawString(20, 150, "Secret"), encrypt=StandardEncryption("open"))
    assert Document.open(path, password="open").text == "Secret"
    with pytest.raises(DocumentError, match=r"a\.pdf needs a password; pass Document\.open"):
        Document.open(path)
    with pytest.raises(DocumentError, match="has another password"):
        Document.open(path, password="wrong")
    path.write_bytes(b"%PDF-1.7\nnothing")
    with pytest.raises(DocumentError, match="is a damaged PDF"):
        Document.open(path)


def test_a_missing_package_is_named_with_its_extra(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, data in (("pypdfium2", b"%PDF-1.7"), ("mammoth", docx(""))):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtraError, match=rf'{module}: pip install "aiservices\[documents\]"'):
            Document.open(write("a.bin", data))


def test_a_line_that_is_written_downwards_has_one_box() -> None:
    from aiservices.documents import Page
    from aiservices.documents.pages import pack_characters

    edges = ((10.0, 10.0 * i, 20.0, 10.0 * i + 10) for i in range(4))
    document = Document("down", pages=[Page(0, 4, 100, 100, pack_characters(edges))])
    assert document.boxes(0, 4) == (Box(1, 10, 0, 20, 40),)
