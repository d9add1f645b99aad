"""Cuts a text into contents of a size that a model can be shown, where its meaning allows."""

from __future__ import annotations

from typing import Literal

from .content import Content
from .optional import needed

__all__ = ["split"]


def split(
    text: str,
    name: str = "chunk",
    *,
    size: int = 900,
    overlap: int = 0,
    form: Literal["text", "markdown"] = "text",
) -> list[Content]:
    """A text in pieces of at most ``size`` characters, of which ``overlap`` are those of the piece before.

    It is cut between paragraphs, else sentences, else words; Markdown between its sections too. The ids are
    ``name`` and a number from 1; the metadata have ``source``, which is the name, and ``start``, the place of
    the first character. Needs semantic-text-splitter.
    """
    library = needed("semantic_text_splitter", "retrieval")
    kind = library.MarkdownSplitter if form == "markdown" else library.TextSplitter
    pieces = kind(size, overlap=overlap).chunk_indices(text)
    return [
        Content(piece, f"{name}-{number}", {"source": name, "start": start})
        for number, (start, piece) in enumerate(pieces, 1)
    ]
