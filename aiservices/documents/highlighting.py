"""Show where the values of an answer occur in its documents, as one HTML page."""

from __future__ import annotations

import copy
import os
import struct
import zlib
from base64 import b64encode
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from output_parsers.types.cited import Cited, CitedSentence, Quote

from ..engine.results import Result
from ..interface.templates import render_value
from ..models.arguments import checks_arguments
from ..models.errors import import_extra
from .document import Document
from .files import PDFIUM_LOCK
from .merging import fields_of
from .pages import Box

_SCALE = 1.5  # pixels of a picture for each point of a page
_HUES = (48, 140, 205, 330, 95, 265, 20, 175)


class _Citation(NamedTuple):
    """A value with its place.

    Attributes:
        number: Its number on the page.
        path: The path of its field, such as "duties[2].due".
        cited: The value.
        hue: The color of its field.
    """

    number: int
    path: str
    cited: Cited[object]
    hue: int


@checks_arguments
def highlight(
    document: Document | Sequence[Document],
    value: object,
    *,
    files: Mapping[str, str | os.PathLike[str]] | str | os.PathLike[str] | None = None,
) -> str:
    """Return an HTML page with the text of a document, in which the quotes of the values are marked.

    A table next to the text lists the values, with links to their quotes. The page has no scripts and loads
    nothing.

    Args:
        document: The document, or several.
        value: The answer, or its Result, with Cited values at any depth.
        files: The PDF file of the document, or a dict of files by the names of documents. Its pages are shown
            as pictures with boxes around the quotes. Needs the extra ``documents``.
    """
    documents = [document] if isinstance(document, Document) else list(document)
    paths = {documents[0].name: files} if isinstance(files, (str, os.PathLike)) else files or {}
    name = ", ".join(one.name for one in documents if one.name) or "Document"
    return highlight_all([Highlighted("", documents, value, paths)], name)


class Highlighted(NamedTuple):
    """An answer with the documents that it cites.

    Attributes:
        label: The text before the fields of the answer in the table, if there are several answers.
        documents: The documents.
        value: The answer, or its Result.
        files: The files of documents whose pages are shown, by the names of documents.
    """

    label: str
    documents: Sequence[Document]
    value: object
    files: Mapping[str, str | os.PathLike[str]] = {}


def highlight_all(answers: Iterable[Highlighted], title: str) -> str:
    """Return an HTML page like ``highlight``, for several answers."""
    sections, highlighted = list[str](), set[int]()
    citations: list[_Citation] = []
    hues: dict[str, int] = {}
    for label, documents, value, paths in answers:
        bare = value.value if isinstance(value, Result) else value
        new = list(_numbered(bare, label, len(citations), hues))
        citations += new
        for number, one in enumerate(documents, 1):
            own = [citation for citation in new if _is_in(citation.cited, one, documents)]
            highlighted.update(citation.number for citation in own)
            heading = ": ".join(filter(None, [label, one.name or f"Document {number}"]))
            parts = [f"<h2>{escape(heading)}</h2>"]
            if one.name in paths:
                parts += _pictures(Path(paths[one.name]), own)
            parts.append(f"<pre>{_marked_text(one.text, own)}</pre>")
            sections.append(f"<section>{''.join(parts)}</section>")
    return _PAGE.format(
        title=escape(title),
        style=_STYLE,
        table=_table(citations, highlighted),
        sections="\n".join(sections),
    )


def _numbered(value: object, label: str, before: int, hues: dict[str, int]) -> Iterator[_Citation]:
    """Yield the citations of an answer; equal fields of several answers have the same color."""
    for number, (path, cited) in enumerate(_citations(value, ""), before + 1):
        field = "".join(character for character in path if not character.isdigit())
        hue = hues.setdefault(field, _HUES[len(hues) % len(_HUES)])
        yield _Citation(number, ": ".join(filter(None, [label, path or "value"])), cited, hue)


def _citations(value: object, path: str) -> Iterator[tuple[str, Cited[object]]]:
    if isinstance(value, Cited):
        yield path, value
        value = value.value
    if isinstance(value, CitedSentence):  # the value is the sentence, and each quote proves it
        for quote in value.quotes:
            yield path, _with_value(quote, value.text)
        return
    fields = fields_of(value)
    if fields is not None:
        for name, part in fields.items():
            yield from _citations(part, f"{path}.{name}" if path else str(name))
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from _citations(part, f"{path}[{index}]")


def _with_value(quote: Quote, text: str) -> Cited[str]:
    cited = copy.copy(quote)
    object.__setattr__(cited, "value", text)
    return cited


def _is_in(cited: Cited[object], document: Document, documents: Sequence[Document]) -> bool:
    if cited.start is None or document.text[cited.start : cited.end] != cited.quote:
        return False  # the quote is from another text, or from another version of it
    if len(documents) == 1:
        return True
    # documents with the same name are numbered: "a.pdf", "a.pdf (2)"
    position = next(index for index, one in enumerate(documents) if one is document)
    earlier = sum(one.name == document.name for one in documents[:position])
    return cited.document == (f"{document.name} ({earlier + 1})" if earlier else document.name)


def _marked_text(text: str, citations: Sequence[_Citation]) -> str:
    """Return a text as HTML with a mark for each quote; where quotes overlap, the shortest has the color."""
    spans = [(one.cited.start or 0, one.cited.end or 0, one) for one in citations]
    edges = sorted({0, len(text), *(edge for start, end, _ in spans for edge in (start, end))})
    starts: dict[int, list[_Citation]] = {}
    for start, _, one in spans:
        starts.setdefault(start, []).append(one)
    pieces: list[str] = []
    active: list[tuple[int, int, _Citation]] = []
    by_start = sorted(spans, key=lambda span: span[0], reverse=True)
    for start, end in pairwise(edges):
        while by_start and by_start[-1][0] <= start:
            active.append(by_start.pop())
        active = [span for span in active if span[1] > start]
        pieces += [f'<a id="c{one.number}"></a>' for one in starts.get(start, ())]
        content = escape(text[start:end])
        if active:
            shortest = min(active, key=lambda span: span[1] - span[0])[2]
            names = escape("; ".join(one.path for _, _, one in active))
            content = f'<mark style="--hue:{shortest.hue}" title="{names}">{content}</mark>'
        pieces.append(content)
    return "".join(pieces)


def _table(citations: Sequence[_Citation], highlighted: Container[int]) -> str:
    rows = []
    for number, path, cited, hue in citations:
        place = (
            "not found" if number not in highlighted else "" if cited.page is None else f"page {cited.page}"
        )
        notes = [place, "" if cited.match in ("", "exact") else cited.match]
        notes.append("value checked" if cited.value_checked else "")
        link = escape(path) if number not in highlighted else f'<a href="#c{number}">{escape(path)}</a>'
        if cited.boxes and number in highlighted:
            link += f' <a href="#b{number}" title="on the page">&#9635;</a>'
        rows.append(
            f'<tr style="--hue:{hue}"><th>{link}</th><td>{escape(_text_of(cited.value))}</td>'
            f"<td><q>{escape(cited.quote)}</q> <small>{', '.join(filter(None, notes))}</small></td></tr>"
        )
    return f"<table><tr><th>Field<th>Value<th>Quote</tr>{''.join(rows)}</table>"


def _text_of(value: object) -> str:
    fields = fields_of(value)
    if fields is None and not isinstance(value, (list, tuple)):
        return render_value(value)
    parts = value if fields is None else fields.values()
    bare = [part.value if isinstance(part, Cited) else part for part in parts]  # type: ignore[attr-defined]
    return ", ".join(map(_text_of, bare))


# --- Pictures of pages ---


def _pictures(path: Path, citations: Sequence[_Citation]) -> Iterator[str]:
    """Yield the pages of a PDF that have quotes, with a box around each line of a quote."""
    boxes: dict[int, list[tuple[_Citation, Box, bool]]] = {}
    for one in citations:
        for index, edges in enumerate(one.cited.boxes):
            box = Box(*edges)
            boxes.setdefault(int(box.page), []).append((one, box, index == 0))
    library = import_extra("pypdfium2", "documents", "highlight for PDF files")
    with PDFIUM_LOCK, closing(library.PdfDocument(path)) as pdf:
        for number in sorted(boxes):
            with closing(pdf[number - 1]) as page:
                width, height = page.get_size()
                picture = b64encode(_png(page.render(scale=_SCALE, rev_byteorder=True))).decode()
            marks = "".join(_box(*one, width, height) for one in boxes[number])
            yield (
                f'<figure><figcaption>Page {number} of {len(pdf)}</figcaption><div class="page">'
                f'<img alt="Page {number}" src="data:image/png;base64,{picture}">{marks}</div></figure>'
            )


def _box(citation: _Citation, box: Box, is_first: bool, width: float, height: float) -> str:
    place = (
        f"left:{100 * box.left / width:.3f}%;top:{100 * box.top / height:.3f}%;"
        f"width:{100 * (box.right - box.left) / width:.3f}%;"
        f"height:{100 * (box.bottom - box.top) / height:.3f}%"
    )
    name = f' id="b{citation.number}"' if is_first else ""
    return (
        f'<a{name} class="box" href="#c{citation.number}" title="{escape(citation.path)}" '
        f'style="--hue:{citation.hue};{place}"></a>'
    )


def _png(bitmap: Any) -> bytes:
    """Return a bitmap of pdfium as a PNG file."""
    data, stride, size = bytes(bitmap.buffer), bitmap.stride, bitmap.width * bitmap.n_channels
    rows = b"".join([b"\0" + data[y * stride : y * stride + size] for y in range(bitmap.height)])
    color = {1: 0, 3: 2, 4: 6}[bitmap.n_channels]
    header = struct.pack(">2I5B", bitmap.width, bitmap.height, 8, color, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
            for kind, content in chunks
        ]
    )


_STYLE = """
body { margin: 0; display: flex; font: 15px/1.5 system-ui, sans-serif; color: #222; }
nav { width: 38%; height: 100vh; overflow: auto; position: sticky; top: 0; background: #f6f6f6; }
main { flex: 1; min-width: 0; padding: 0 1.5rem 50vh; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #ddd; }
tr[style] th { border-left: 6px solid hsl(var(--hue) 80% 60%); }
td { overflow-wrap: anywhere; }
small { color: #666; display: block; }
mark { background: hsl(var(--hue) 90% 82%); color: inherit; }
a { color: inherit; }
:target + mark, .box:target { outline: 3px solid hsl(var(--hue) 90% 40%); }
:target { scroll-margin-top: 30vh; }
figure { margin: 1rem 0; }
.page { position: relative; display: inline-block; border: 1px solid #ccc; }
.page img { display: block; max-width: 100%; }
.box { position: absolute; background: hsl(var(--hue) 90% 60% / .35); }
@media (max-width: 800px) { body { display: block; } nav { width: auto; height: 40vh; } }
@media print { body { display: block; } nav { width: auto; height: auto; position: static; } }
"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title><style>{style}</style></head>
<body><nav>{table}</nav><main>
{sections}
</main></body></html>
"""
