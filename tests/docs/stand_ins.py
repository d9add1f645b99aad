"""The files and the embedding model that the programs of documentation pages need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aiservices.models.presets import PRESETS
from aiservices.models.registry import REGISTERED
from aiservices.testing.fake import FakeChatModel


class TwoWordEmbeddings:
    """An embedding model with two dimensions, one for each of two words."""

    def __init__(self, name: str) -> None:
        assert name == "text-embedding-3-small"

    def embed(self, texts: Sequence[str], /) -> Any:
        import numpy

        return numpy.array([[float(word in text) for word in ("open", "return")] for text in texts], "f4")


def provide_for(page: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Create the files and models that a page needs; skip the test if an extra is not installed."""
    for provider in ("acme", "example"):  # what pages register is removed after the test
        monkeypatch.setitem(REGISTERED, provider, FakeChatModel.named)
        monkeypatch.delitem(REGISTERED, provider)
        monkeypatch.setitem(PRESETS, provider, PRESETS["vllm"])
        monkeypatch.delitem(PRESETS, provider)
    if page == "README.md":
        (folder / "letters.csv").write_text("letter\nI am John.\nI am Jane.\n", "utf-8")
    elif page == "how-to/files.md":
        (folder / "receipt.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    elif page == "how-to/retrieval.md":
        for module in ("numpy", "semantic_text_splitter", "bm25s"):
            pytest.importorskip(module, reason="install the extra retrieval of aiservices first")
        monkeypatch.setattr("aiservices.retrieval.OpenAiEmbeddingModel", TwoWordEmbeddings)
    elif page == "how-to/tables.md":
        for module in ("pandas", "polars", "duckdb", "pyarrow"):
            pytest.importorskip(module, reason=f"{module} is not installed")
    elif page == "how-to/dbos.md":
        pytest.importorskip("dbos", reason="install the extra dbos of aiservices first")
    elif page == "how-to/mcp.md":
        pytest.importorskip("mcp", reason="install the extra mcp of aiservices first")
