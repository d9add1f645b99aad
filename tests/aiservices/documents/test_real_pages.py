"""Boxes are over the words of 50 pages of licenses and Python's documentation, as reportlab has set them."""

from __future__ import annotations

import pydoc
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from aiservices import Document

LICENSES = Path("/usr/share/common-licenses")
PAGES, SIZE, LEADING = 50, 10, 14


class Word(NamedTuple):
    """A word with its place on a page, from the top left corner."""

    page: int
    text: str
    left: float
    right: float
    baseline: float


def paragraphs() -> Iterator[str]:
    """Yield paragraphs of public texts."""
    names = ("GPL-3", "GFDL-1.3", "Apache-2.0", "MPL-2.0", "LGPL-2.1", "Artistic", "GPL-2", "MPL-1.1")
    paths = [LICENSES / name for name in names if (LICENSES / name).is_file()]
    texts = [path.read_text("utf-8") for path in paths]
    texts += [pydoc.plaintext.document(module) for module in (re, shutil, subprocess, pydoc)]
    for text in texts:
        for paragraph in re.split(r"\n\s*\n", text.encode("latin-1", "ignore").decode("latin-1")):
            yield " ".join(re.sub(r"[\x00-\x1f\xad]", " ", paragraph).split())


def set_pages(path: Path) -> list[Word]:
    """Write the paragraphs to a PDF in three fonts, and return where the words are."""
    from reportlab.pdfbase.pdfmetrics import stringWidth
    from reportlab.pdfgen.canvas import Canvas

    canvas, placed = Canvas(str(path), pagesize=(600, 800)), list[Word]()
    words = ((word, last) for text in paragraphs() for word, last in marked(text))
    word, is_last = next(words)
    for page in range(1, PAGES + 1):
        font = ("Times-Roman", "Helvetica", "Courier")[page % 3]
        canvas.setFont(font, SIZE)
        for y in range(60, 740, LEADING):
            line = ""
            while stringWidth(f"{line}{word}", font, SIZE) < 480:
                left = 50 + stringWidth(line, font, SIZE)
                placed.append(Word(page, word, left, left + stringWidth(word, font, SIZE), y))
                line += f"{word} "
                ended = is_last
                word, is_last = next(words)
                if ended:
                    break
            canvas.drawString(50, 800 - y, line)
        canvas.showPage()
    canvas.save()
    return placed


def marked(text: str) -> Iterator[tuple[str, bool]]:
    words = [word for long in text.split() for word in re.findall(".{1,60}", long)]
    yield from ((word, number == len(words)) for number, word in enumerate(words, 1))


@pytest.mark.slow
def test_boxes_are_over_the_words_of_50_pages(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    pytest.importorskip("reportlab")
    path = tmp_path / "pages.pdf"
    words = set_pages(path)
    document = Document.open(path)
    assert len(document.pages) == PAGES
    found = list(re.finditer(r"\S+", document.text))
    assert [match[0] for match in found] == [word.text for word in words]
    assert len(words) > 10_000
    wrong = [word for word, match in zip(words, found, strict=True) if not is_over(document, match, word)]
    assert wrong == []
    if shutil.which("pdftotext"):
        compare_with_pdftotext(path, document, found)


def is_over(document: Document, match: re.Match[str], word: Word) -> bool:
    boxes = document.boxes(*match.span())
    return len(boxes) == 1 and (
        boxes[0].page == word.page == document.page_at(match.start())
        and abs(boxes[0].left - word.left) < 1  # a j and an f hang over
        and abs(boxes[0].right - word.right) < 1
        and boxes[0].top < word.baseline < boxes[0].bottom < word.baseline + LEADING / 2
    )


def compare_with_pdftotext(path: Path, document: Document, found: list[re.Match[str]]) -> None:
    html = subprocess.run(["pdftotext", "-bbox", str(path), "-"], capture_output=True, check=True).stdout
    boxes = re.findall(rb'<word xMin="([\d.]+)" yMin="([\d.]+)" xMax="([\d.]+)" yMax="([\d.]+)"', html)
    assert len(boxes) == len(found)
    for match, other in zip(found, boxes, strict=True):
        _, *edges = document.boxes(*match.span())[0]
        assert edges == pytest.approx([float(edge) for edge in other], abs=3)
