"""Documents: texts with names and, optionally, with pages and the positions of characters."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NoReturn

from pydantic_core import CoreSchema, core_schema

from output_parsers.result.reading import Json, JsonObject

from .pages import Box, Page


class Document:
    """A text that methods take as an argument, for example to extract values from it.

    In prompts, ``{{document}}`` is the text. A list of documents is shown with their names. Two documents are
    equal if their texts, names and pages are. Documents cannot be changed.

    Args:
        text: The text. Indices into it are Python string indices.
        name: The name, such as the file name.
        pages: The pages in their order, if the document has any.

    Attributes:
        text: The text.
        name: The name; "" for none.
        pages: The pages; empty for a document without pages.
    """

    __slots__ = ("name", "pages", "text")

    text: str
    name: str
    pages: tuple[Page, ...]

    def __init__(self, text: str, name: str = "", pages: Iterable[Page] = ()) -> None:
        for field, value in (("text", text), ("name", name)):
            if not isinstance(value, str):
                raise TypeError(f"the {field} of a Document is {type(value).__name__}; pass a str")
        pages = tuple(pages)
        position = 0
        for number, page in enumerate(pages, 1):
            if page.start < position or page.end > len(text):
                raise ValueError(
                    f"page {number} is from {page.start} to {page.end}; it must be after the page before "
                    f"({position}) and inside of the text ({len(text)} characters)"
                )
            position = page.end
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "pages", pages)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        encoding: str | None = None,
        password: str | None = None,
        scanned: Literal["error", "skip"] = "error",
    ) -> Document:
        """Read a document from a file: text, Markdown, HTML, PDF or DOCX.

        The text of HTML and DOCX has headings and lists as in Markdown. PDF and DOCX need the extra
        ``documents``.

        Args:
            path: The path of the file.
            name: The name of the document, by default the file name.
            encoding: The encoding of a text or an HTML page; by default it is recognized.
            password: The password of a PDF.
            scanned: What to do if some pages of a PDF are images without text: "error", or "skip" for a
                document without their text.

        Raises DocumentError if the file has no text that can be read.
        """
        from .files import read_file  # most programs read no files

        text, pages = read_file(path, encoding=encoding, password=password, scanned=scanned)
        return cls(text, Path(path).name if name is None else name, pages)

    @property
    def offset(self) -> int:
        """The start of the text in the whole document: 0, except in a part of a document that was split."""
        return 0

    def page_at(self, index: int) -> int | None:
        """Return the number of the page with a character, counted from 1; None without pages.

        Characters between two pages belong to the first of them. Raises IndexError outside of the text.
        """
        if not 0 <= index <= len(self.text):
            raise IndexError(f"the text has {len(self.text)} characters; there is none at {index}")
        if not self.pages:
            return None
        return max(bisect_right(self.pages, index, key=lambda page: page.start), 1)

    def boxes(self, start: int, end: int) -> tuple[Box, ...]:
        """Return where the text from one index to another is on the pages: a box for each line.

        Empty if the places of characters are unknown, as in all documents that are not PDFs.
        """
        if start >= end or not self.pages:
            return ()
        first, last = self.page_at(start) or 1, self.page_at(end - 1) or 1
        return tuple([box for n in range(first, last + 1) for box in self.pages[n - 1].boxes(start, end, n)])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        pages = f", {len(self.pages)} pages" if self.pages else ""
        return f"<Document {self.name!r}, {len(self.text)} characters{pages}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        return (self.text, self.name, self.pages) == (other.text, other.name, other.pages)

    def __hash__(self) -> int:
        return hash((self.text, self.name))

    def __reduce__(self) -> tuple[type[Document], tuple[str, str, tuple[Page, ...]]]:
        return Document, (self.text, self.name, self.pages)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Document cannot be changed; make another one to set {name}")

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """Return how a Document is read from JSON: from a text, or an object with a text and a name."""
        field, number = core_schema.typed_dict_field, core_schema.float_schema(ge=0)
        index = core_schema.int_schema(ge=0)
        page = core_schema.typed_dict_schema(
            {
                "start": field(index),
                "end": field(index),
                "width": field(number, required=False),
                "height": field(number, required=False),
                "characters": field(core_schema.str_schema(), required=False),
            },
            extra_behavior="forbid",
        )
        document = core_schema.typed_dict_schema(
            {
                "text": field(core_schema.str_schema()),
                "name": field(core_schema.str_schema(), required=False),
                "pages": field(core_schema.list_schema(page), required=False),
            },
            extra_behavior="forbid",
        )
        json = core_schema.union_schema(
            [
                core_schema.no_info_after_validator_function(cls, core_schema.str_schema()),
                core_schema.no_info_after_validator_function(document_from_json, document),
            ]
        )
        return core_schema.json_or_python_schema(
            json,
            core_schema.union_schema([core_schema.is_instance_schema(cls), json]),
            serialization=core_schema.plain_serializer_function_ser_schema(to_json_data),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: object) -> JsonObject:
        """Return the JSON Schema: without the pages, which only programs send."""
        text = {"type": "string"}
        properties = {"text": text, "name": text}
        document = {
            "type": "object",
            "title": "Document",
            "properties": properties,
            "required": ["text"],
            "additionalProperties": False,
        }
        return {"anyOf": [text, document]}


def unique_names(names: Iterable[str]) -> list[str]:
    """Return the names, with numbers added to repeated ones: "a.pdf", "a.pdf (2)"."""
    unique: dict[str, None] = {}
    for name in names:
        numbered, number = name, 1
        while numbered in unique:
            number += 1
            numbered = f"{name} ({number})"
        unique[numbered] = None
    return list(unique)


def to_json_data(document: Document) -> JsonObject:
    """Return a document as JSON data, which pydantic converts back."""
    data: dict[str, object] = {"text": document.text, "name": document.name}
    if document.pages:
        data["pages"] = [
            {
                "start": page.start,
                "end": page.end,
                "width": page.width,
                "height": page.height,
                "characters": b64encode(page.characters).decode(),
            }
            for page in document.pages
        ]
    return data


def document_from_json(data: Mapping[str, Json]) -> Document:
    """Return the document with the data that ``to_json_data`` returns."""
    return Document(data["text"], data.get("name", ""), _pages_from_json(data.get("pages", ())))


def _pages_from_json(pages: Iterable[JsonObject]) -> Iterator[Page]:
    for page in pages:
        yield Page(**{**page, "characters": b64decode(page.get("characters", ""), validate=True)})
