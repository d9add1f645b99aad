"""Read the texts of files: text, Markdown, HTML, PDF and DOCX.

The format is recognized from the content of the file. Only HTML is recognized from its name.
"""

from __future__ import annotations

import ctypes
import io
import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

from ..models.errors import AiServiceError, import_extra
from ..text_encoding import marked_encoding, recognized_encoding
from .pages import Page, pack_characters

Scanned: TypeAlias = Literal["error", "skip"]


class DocumentError(AiServiceError, ValueError):
    """Raised when a file has no text that can be read, or is not one of the formats that can be read."""


def read_file(
    path: str | os.PathLike[str],
    *,
    encoding: str | None = None,
    password: str | None = None,
    scanned: Scanned = "error",
) -> tuple[str, tuple[Page, ...]]:
    """Return the text of a file, and its pages if it has any; see ``Document.open``."""
    path = Path(path)
    data = path.read_bytes()
    suffix = path.suffix.lower()
    if data.lstrip().startswith(b"%PDF-") or (suffix == ".pdf" and b"%PDF-" in data[:1024]):
        return _read_pdf(data, path.name, password, scanned)
    if data.startswith(b"PK\x03\x04"):
        text = _read_docx(data, path.name)
    elif suffix in _OTHER or data.startswith(tuple(_SIGNATURES)):
        raise DocumentError(_other_format(data, path.name, suffix))
    elif suffix in (".html", ".htm", ".xhtml") or _HTML.match(data):
        text = html_text(_decoded(data, path, encoding or _declared_encoding(data)))
    else:
        text = _decoded(data, path, encoding)
    if not text.strip():
        raise DocumentError(f"{path.name} has no text")
    return text, ()


def _other_format(data: bytes, name: str, suffix: str) -> str:
    if not data:
        return f"{name} is empty"
    format = next((format for start, format in _SIGNATURES.items() if data.startswith(start)), None)
    problem = f"has the format {format}" if format else f"is not in the format {suffix[1:].upper()}"
    return f"{name} {problem}; save it as DOCX, PDF or text"


# Other formats, by their first bytes and by their file extensions. Such files are not read as text.
_SIGNATURES = {
    b"\xd0\xcf\x11\xe0": "of old versions of Office",
    b"{\\rtf": "RTF",
    b"\x89PNG": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"\x1f\x8b": "gzip",
    b"7z\xbc\xaf": "7z",
}
_OTHER = frozenset(
    ".pdf .docx .doc .rtf .odt .xlsx .xls .ods .pptx .ppt .odp .epub .png .jpg .jpeg .gif .tif .tiff .webp"
    " .zip .gz .7z".split()
)

# --- Text ---

_LOGGER = logging.getLogger("aiservices")
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,200}>\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE
)
_CHARSET = re.compile(
    rb"<(?:meta[^>]{0,200}?charset|\?xml[^>]{0,100}?encoding)\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def _declared_encoding(data: bytes) -> str | None:
    """Return the encoding that an HTML page declares; None if it has a byte order mark or no declaration."""
    declared = _CHARSET.search(data[:4096])
    if declared is None or marked_encoding(data) is not None:
        return None
    name = declared[1].decode("ascii").lower()
    if name.startswith(("utf-16", "utf-32")):  # the declaration itself is not in it
        return None
    # browsers read these names as Windows-1252
    return "cp1252" if name in ("iso-8859-1", "latin1", "us-ascii", "ascii") else name


def _decoded(data: bytes, path: Path, encoding: str | None) -> str:
    name = path.name
    try:
        if encoding is None:
            encoding = recognized_encoding(lambda: (data,))
            if encoding == "cp1252":
                _LOGGER.warning(
                    "%s is not UTF-8 text; it is read as Windows-1252. Pass encoding= for another", path
                )
        text = data.decode(encoding)
    except LookupError as error:
        raise DocumentError(f"{name} has the encoding {encoding!r}, which Python does not know") from error
    except UnicodeDecodeError as error:
        advice = 'pass its encoding, as in Document.open(path, encoding="cp1251")'
        problem = f"is not text in {encoding}" if encoding else "is not text in UTF-8"
        raise DocumentError(f"{name} {problem}, a PDF or a DOCX; {advice}") from error
    if _CONTROL.search(text):
        raise DocumentError(f"{name} is not text, Markdown, HTML, PDF or DOCX; convert it to one of them")
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --- HTML and DOCX ---

_HIDDEN = frozenset(
    "audio canvas datalist del head iframe math meter noframes noscript object progress script select style"
    " svg template textarea title video".split()
)
# There is no space in the text between these elements, but they separate words: "5<img>00" is not 500.
_APART_IN_LINE = frozenset(
    "audio button canvas iframe img input math object select svg textarea video".split()
)
_INVISIBLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?:opacity|font-size)\s*:\s*0(?![.\d]*[1-9])",
    re.IGNORECASE,
)
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_BLOCKS = frozenset(
    "address article aside blockquote body caption dd details dialog div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hr html legend li main nav ol p pre section summary table tbody "
    "tfoot thead tr ul".split()
)
_UNCLOSED = frozenset("dd dt li option p td th tr".split())
_APART = frozenset("blockquote dl figure h1 h2 h3 h4 h5 h6 ol p pre table ul".split())
_SPACE = re.compile(r"[ \t\r\n\f]+")
_STRUCK = frozenset("s strike".split())
_RAISED = str.maketrans("0123456789+-−=()", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾")


def _is_hidden(tag: str, attributes: Mapping[str, str | None]) -> bool:
    is_invisible = "hidden" in attributes or _INVISIBLE.search(attributes.get("style") or "")
    return bool(is_invisible) or tag in _HIDDEN or (tag == "dialog" and "open" not in attributes)


class _HtmlText(HTMLParser):
    """Collects the visible text of HTML: blocks on lines, headings and lists as in Markdown."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._hidden: list[str] = []
        self._lists: list[int | None] = []  # the next number of each list that is open, None without numbers
        self._breaks = 0  # the line ends before the next text
        self._is_new = True  # the list item or the cell is still empty
        self._pre = 0
        self._cells = 0
        self._raised = 0

    @property
    def text(self) -> str:
        return "".join(self._parts).strip("\n") + "\n"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        may_end = [["p"], ["head"]] if tag in _BLOCKS else []
        may_end += [[tag]] if tag in _UNCLOSED else []
        if self._hidden in may_end:
            self._hidden.clear()  # the end of the hidden element was left out
        values = dict(attrs)
        if tag in _APART_IN_LINE:
            self.handle_data(f" {values.get('alttext') or ''} ")  # of formulas
        if self._hidden or _is_hidden(tag, values):
            if tag not in _VOID:
                self._hidden.append(tag)
            return
        if tag in _BLOCKS:
            # the paragraph of a list item stays on the line of its mark, and a nested list below it
            is_apart = tag in _APART and not (self._lists and tag in ("p", "ol", "ul"))
            self._raised = 0
            self._break(2 if is_apart else 1)
        self._start(tag, dict(attrs))

    def _start(self, tag: str, attributes: dict[str, str | None]) -> None:
        """Write the beginning of an element."""
        match tag:
            case "br":
                self._write("\n")
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self._write("#" * int(tag[1]) + " ")
            case "ol":
                start = attributes.get("start") or "1"
                self._lists.append(int(start) if start.isdecimal() else 1)
            case "ul":
                self._lists.append(None)
            case "li":
                self._start_item()
            case "tr":
                self._cells = 0
            case "td" | "th":
                if self._cells:
                    self._breaks = 0
                    self._write(" | ")
                self._cells += 1
                self._is_new = True
            case "pre":
                self._pre += 1
            case "sup":
                self._raised += 1
            case "s" | "strike":
                self._write("~~")

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            if tag in self._hidden:  # tags inside may not have been closed
                del self._hidden[len(self._hidden) - 1 - self._hidden[::-1].index(tag) :]
            return
        if tag in ("ol", "ul") and self._lists:
            self._lists.pop()
        if tag == "pre":
            self._pre = max(self._pre - 1, 0)
        if tag == "sup":
            self._raised = max(self._raised - 1, 0)
        if tag in _STRUCK:
            self._write("~~")
        if tag in _BLOCKS:
            self._break(2 if tag in _APART and not self._lists else 1)

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if not self._pre:
            data = _SPACE.sub(" ", data)
            if self._breaks or not self._parts or self._parts[-1].endswith((" ", "\n")):
                data = data.lstrip(" ")
        if self._raised and "[" not in data:  # "10" with a raised "2" must not become 102
            data = data.translate(_RAISED)
        self._write(data)

    def _start_item(self) -> None:
        depth, number = max(len(self._lists) - 1, 0), self._lists[-1] if self._lists else None
        mark = "- " if number is None else f"{number}. "
        if number is not None:
            self._lists[-1] = number + 1
        self._write("  " * depth + mark)
        self._is_new = True

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._breaks and self._parts:
            self._parts[-1] = self._parts[-1].rstrip(" ")
            self._parts.append("\n" * self._breaks)
        self._parts.append(text)
        self._breaks, self._is_new = 0, False

    def _break(self, lines: int) -> None:
        """End the line, unless it is a list mark or an empty cell; two breaks leave an empty line."""
        if not self._is_new:
            self._breaks = max(self._breaks, lines)


def html_text(html: str) -> str:
    """Return the visible text of an HTML page, with headings and lists as in Markdown."""
    parser = _HtmlText()
    parser.feed(html)
    parser.close()
    return parser.text


def _read_docx(data: bytes, name: str) -> str:
    try:
        with ZipFile(io.BytesIO(data)) as file:
            is_docx = "word/document.xml" in file.namelist()
    except BadZipFile as error:
        raise DocumentError(f"{name} is a damaged archive") from error
    if not is_docx:
        raise DocumentError(f"{name} is an archive that is not a DOCX; convert it to DOCX, PDF or text")
    mammoth = import_extra("mammoth", "documents", "Document.open for DOCX files")
    # mammoth reads what Word shows: insertions without deletions, footnotes, lists, tables
    ignored = mammoth.images.img_element(lambda image: {})
    try:
        readable = io.BytesIO(_with_all_text(data))
        return html_text(mammoth.convert_to_html(readable, convert_image=ignored).value)
    except Exception as error:  # errors of the archive, of its XML, or of mammoth
        raise DocumentError(f"{name} is a damaged DOCX: {error}") from error


_SIMPLE_FIELD = re.compile(rb"</?w:fldSimple\b[^>]*>")
_LINE_END = re.compile(rb'<w:cr\s*/>|<w:br\b[^>]*\bw:type="(?:page|column)"[^>]*/>')
_HIDDEN_OR_FORMULA = re.compile(rb"<w:vanish\b|<m:oMath\b")
_HIDDEN_STYLE = re.compile(
    rb'<w:style\b[^>]*?\bw:styleId="([^"]*)"[^>]*>(?:(?!</w:style>).)*?<w:vanish\s*/>', re.DOTALL
)
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"


def _with_all_text(data: bytes) -> bytes:
    """Return a DOCX from which mammoth reads what Word shows: fields, line ends, formulas, no hidden text."""
    changed = io.BytesIO()
    with ZipFile(io.BytesIO(data)) as file, ZipFile(changed, "w") as copy:
        styles = file.read("word/styles.xml") if "word/styles.xml" in file.namelist() else b""
        hidden = {name.decode() for name in _HIDDEN_STYLE.findall(styles)}
        for one in file.infolist():
            content = file.read(one)
            if one.filename.startswith("word/") and one.filename.endswith(".xml"):
                content = _LINE_END.sub(b"<w:br/>", _SIMPLE_FIELD.sub(b"", content))
                content = content.replace(b"<w:dstrike", b"<w:strike")
                if content != styles and (hidden or _HIDDEN_OR_FORMULA.search(content)):
                    content = _without_hidden_text(content, hidden)
            if not one.filename.startswith("word/media/"):
                copy.writestr(one.filename, content)
    return changed.getvalue()


def _without_hidden_text(content: bytes, hidden: set[str]) -> bytes:
    """Return the XML of a DOCX without hidden text, and with formulas as text. ``hidden`` are styles."""
    root = ElementTree.fromstring(content)
    for parent in list(root.iter()):
        style = parent.find(f"{_WORD}pPr/{_WORD}pStyle")
        is_hidden = style is not None and style.get(f"{_WORD}val") in hidden
        for child in list(parent):
            if child.tag == f"{_WORD}r" and _is_hidden_run(child, hidden, default=is_hidden):
                parent.remove(child)
            elif child.tag == f"{_MATH}oMath":
                text = _formula(child)
                child.clear()
                child.tag = f"{_WORD}r"
                ElementTree.SubElement(child, f"{_WORD}t").text = text
    return ElementTree.tostring(root)


def _is_hidden_run(run: ElementTree.Element, hidden: set[str], *, default: bool) -> bool:
    own, style = run.find(f"{_WORD}rPr/{_WORD}vanish"), run.find(f"{_WORD}rPr/{_WORD}rStyle")
    if own is not None:
        return own.get(f"{_WORD}val", "1") not in ("0", "false", "off")
    return default or (style is not None and style.get(f"{_WORD}val") in hidden)


def _formula(element: ElementTree.Element) -> str:
    """Return a formula in one line."""

    def part(name: str, separator: str = "") -> str:
        return separator.join(map(_formula, element.findall(_MATH + name)))

    def sign(path: str, default: str) -> str:
        child = element.find(path.replace("m:", _MATH))
        return default if child is None else child.get(f"{_MATH}val", default)

    match element.tag.removeprefix(_MATH):
        case "t":
            return element.text or ""
        case "sSup":
            return f"{part('e')}^({part('sup')})"
        case "sSub":
            return f"{part('e')}_{part('sub')}"
        case "sSubSup":
            return f"{part('e')}_{part('sub')}^({part('sup')})"
        case "f":
            return f"({part('num')})/({part('den')})"
        case "rad":
            return f"{part('deg')}√({part('e')})"
        case "nary":
            return f"{sign('m:naryPr/m:chr', '∫')}_({part('sub')})^({part('sup')})({part('e')})"
        case "m":
            return part("mr", "; ")
        case "mr":
            return part("e", ", ")
        case "eqArr":
            return part("e", "; ")
        case "d":
            inner = part("e", sign("m:dPr/m:sepChr", "|"))
            return sign("m:dPr/m:begChr", "(") + inner + sign("m:dPr/m:endChr", ")")
    return "".join(map(_formula, element))


# --- PDF ---

_HYPHEN = 2  # what pdfium gives for a hyphen at the end of a line, and no line end after it
PDFIUM_LOCK = Lock()  # pdfium works in one thread at a time
_FEW = 40  # characters, such as those of a stamp on a scanned page
_MANY_PATHS = 100  # lines and curves, such as those of letters that were drawn


class _Letter(NamedTuple):
    """A character of a page with its edges; all are 0 for those that are not on the page."""

    text: str
    left: float = 0.0
    top: float = 0.0
    right: float = 0.0
    bottom: float = 0.0


def _read_pdf(data: bytes, name: str, password: str | None, scanned: Scanned) -> tuple[str, tuple[Page, ...]]:
    library = import_extra("pypdfium2", "documents", "Document.open for PDF files")
    with PDFIUM_LOCK, closing(_open_pdf(library, data, name, password)) as pdf:
        texts, pages, without_text, position = [], [], [], 0
        for number in range(len(pdf)):
            if pdf.formenv:
                with closing(pdf[number]) as page:
                    page.flatten()  # the values of form fields become text
            with closing(pdf[number]) as page:
                letters = list(_letters(library.raw, page))
                if _is_scanned(library.raw, page, letters):
                    without_text.append(number + 1)
                text = "".join([letter.text for letter in letters])
                edges = pack_characters(letter[1:] for letter in letters)
                width, height = page.get_size()
                pages.append(Page(position, position + len(text), width, height, edges))
            texts.append(text)
            position += len(text) + 2
    text = "\n\n".join(texts)
    if without_text and (scanned == "error" or not text.strip()):
        raise DocumentError(f"{name}: {_pages_text(without_text)}; recognize the text first (OCR)")
    if not text.strip():
        raise DocumentError(f"{name} has no text")
    return text, tuple(pages)


def _open_pdf(library: ModuleType, data: bytes, name: str, password: str | None) -> Any:
    try:
        pdf = library.PdfDocument(data, password=password)
    except library.PdfiumError as error:
        if "password" not in str(error).lower():
            raise DocumentError(f"{name} is a damaged PDF: {error}") from error
        problem = "needs a password" if password is None else "has another password"
        raise DocumentError(f"{name} {problem}; pass Document.open(path, password=…)") from error
    pdf.init_forms()
    return pdf


def _pages_text(numbers: list[int]) -> str:
    listed = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
    if len(numbers) == 1:
        return f"page {listed} is an image without text"
    return f"the pages {listed} are images without text"


def _letters(raw: ModuleType, page: Any) -> Iterator[_Letter]:
    """Yield the characters of a page that pdfium reads, with an empty line between paragraphs."""
    place = _placing(page)
    with closing(page.get_textpage()) as text_page:
        rectangle = raw.FS_RECTF()
        lowest: float | None = None  # the lower edge of the line above
        is_new_line, reach = False, math.inf  # the right edge of the letter before
        digit: tuple[float, float] | None = None  # the height and the lower edge of the digit before
        for index, code in _codes(raw, text_page):
            if code == 0x0A:
                is_new_line = True
                yield _Letter("\n")
                continue
            raw.FPDFText_GetLooseCharBox(text_page, index, rectangle)
            edges = place(rectangle.left, rectangle.top, rectangle.right, rectangle.bottom)
            top, bottom = edges[1], edges[3]
            if is_new_line and lowest is not None and top - lowest > 0.5 * (bottom - top):
                yield _Letter("\n")
            is_new_line, lowest = False, bottom
            letter = "-" if code == _HYPHEN else chr(code)
            if rectangle.left > reach and _is_cell_border(raw, text_page, index):
                yield _Letter(" ")  # the numbers of two cells must not become one
            reach = rectangle.right if letter.isalnum() else math.inf
            if letter in _POWERS and _is_raised(rectangle, digit):
                letter = letter.translate(_RAISED)  # "10" with a raised "2" must not become 102
            else:
                height = rectangle.top - rectangle.bottom
                digit = (height, rectangle.bottom) if letter.isdecimal() else None
            yield _Letter(letter, *edges)
            if code == _HYPHEN:
                yield _Letter("\n")


def _codes(raw: ModuleType, text_page: Any) -> Iterator[tuple[int, int]]:
    """Yield the indices and the code points of the characters of a page."""
    high = 0
    for index in range(text_page.count_chars()):
        code = raw.FPDFText_GetUnicode(text_page, index)
        if 0xD800 <= code < 0xDC00:  # the first half of a character beyond 16 bits
            high = code
            continue
        if 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)
        if code >= 0x20 or code in (0x0A, _HYPHEN):
            yield index, code


def _is_cell_border(raw: ModuleType, text_page: object, index: int) -> bool:
    """Return True if a character is drawn apart from the one before it, after a gap wider than others."""
    objects = [
        ctypes.cast(raw.FPDFText_GetTextObject(text_page, one), ctypes.c_void_p).value
        for one in (index - 1, index)
        if one >= 0
    ]
    if len(set(filter(None, objects))) < 2:
        return False
    gap, height = _gap(raw, text_page, index)
    others = [_gap(raw, text_page, one)[0] for one in (index - 1, index + 1)]
    return gap > max(0.0, *others) + 0.04 * height


def _gap(raw: ModuleType, text_page: Any, index: int) -> tuple[float, float]:
    """Return the gap before a character, and its height; 0 at the ends of words and lines."""
    boxes = []
    for one in (index - 1, index):
        if (
            not 0 <= one < text_page.count_chars()
            or not chr(raw.FPDFText_GetUnicode(text_page, one)).isalnum()
        ):
            return 0.0, 0.0
        boxes.append(raw.FS_RECTF())
        raw.FPDFText_GetLooseCharBox(text_page, one, boxes[-1])
    height = boxes[1].top - boxes[1].bottom
    is_line = abs(boxes[0].bottom - boxes[1].bottom) < 0.2 * height
    return (boxes[1].left - boxes[0].right if is_line else 0.0), height


_POWERS = frozenset("0123456789+-−")


def _is_raised(rectangle: Any, digit: tuple[float, float] | None) -> bool:
    """Return True if a character is smaller and higher than the digit before it."""
    if digit is None:
        return False
    height, bottom = digit
    return bool(rectangle.top - rectangle.bottom < 0.8 * height and rectangle.bottom > bottom + 0.2 * height)


_Edges: TypeAlias = tuple[float, float, float, float]


def _placing(page: Any) -> Callable[[float, float, float, float], _Edges]:
    """Return a function that converts edges of PDF (from below) to edges from the top left corner.

    The page may be rotated, and its visible part may begin anywhere.
    """
    left, bottom, right, top = page.get_bbox()
    corners: dict[int, Callable[[float, float], tuple[float, float]]] = {
        0: lambda x, y: (x - left, top - y),
        90: lambda x, y: (y - bottom, x - left),
        180: lambda x, y: (right - x, y - bottom),
        270: lambda x, y: (top - y, right - x),
    }
    corner = corners[page.get_rotation()]

    def place(x1: float, y1: float, x2: float, y2: float) -> _Edges:
        (first_x, first_y), (second_x, second_y) = corner(x1, y1), corner(x2, y2)
        return (
            min(first_x, second_x),
            min(first_y, second_y),
            max(first_x, second_x),
            max(first_y, second_y),
        )

    return place


def _is_scanned(raw: ModuleType, page: Any, letters: list[_Letter]) -> bool:
    """Return True if a page consists of an image or drawn letters, with hardly any text."""
    count = sum(not letter.text.isspace() for letter in letters)
    if count >= _FEW:
        return False
    width, height = page.get_size()
    image_area, paths, images = 0.0, 0, 0
    for one in page.get_objects((raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_PATH)):
        if one.type == raw.FPDF_PAGEOBJ_PATH:
            paths += 1
            continue
        left, bottom, right, top = one.get_bounds()
        image_area += (right - left) * (top - bottom)
        images += 1
    if not count:
        return images > 0 or paths >= _MANY_PATHS
    return bool(image_area > 0.5 * width * height)
