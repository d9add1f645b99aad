"""What pages need beside a chat model: a file to send, an embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


class Words:
    """An embedding model that knows two words."""

    def __init__(self, name: str) -> None:
        assert name == "text-embedding-3-small"

    def embed(self, texts: Sequence[str], /) -> Any:
        import numpy

        return numpy.array([[float(word in text) for word in ("open", "return")] for text in texts], "f4")


def stand_in(page: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Give a page what it takes for granted; skip it where an extra that it needs is not installed."""
    if page == "how-to/files.md":
        (folder / "receipt.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    elif page == "how-to/retrieval.md":
        for module in ("numpy", "semantic_text_splitter", "bm25s"):
            pytest.importorskip(module, reason='pip install "aiservices[retrieval]" first')
        monkeypatch.setattr("aiservices.retrieval.OpenAiEmbeddingModel", Words)
    elif page == "how-to/tools.md":
        pytest.importorskip("mcp", reason='pip install "aiservices[mcp]" first')
