"""The command ``index``, which keeps an index of the files of a folder up to date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ..documents.indexing import update_index
from ..models.errors import counted
from ..retrieval import EmbeddingRetriever, EmbeddingStore, OpenAiEmbeddingModel, SentenceTransformerModel
from ..rows.progress import ProgressLine
from .console import print_text
from .errors import UsageError
from .services import load_module, split_target


def index_folder(
    folder: str, to: str, embedding: str, *, pattern: str, max_characters: int, progress: bool
) -> bool:
    """Update an index of a folder in a file; return False if a file cannot be read.

    Raises UsageError for a folder or an embedding model that does not exist.
    """
    if not Path(folder).is_dir():
        raise UsageError(f"the folder {folder} does not exist")
    path = Path(to)
    store = EmbeddingStore.load(path) if path.exists() else EmbeddingStore()
    line = ProgressLine()
    try:
        changes = update_index(
            folder,
            EmbeddingRetriever(_embedding_model(embedding), store),
            path.with_name(f"{path.name}.files.json"),
            pattern=pattern,
            max_characters=max_characters,
            save=lambda: store.save(path),
            progress=line if progress else None,
        )
    finally:
        line.close()
    for name, message in changes.failed.items():
        print_text(f"{name}: {message}", file=sys.stderr)
    print_text(f"{changes}; {counted(len(store), 'passage')} in {to}")
    return not changes.failed


def _embedding_model(text: str) -> Any:
    """Return the embedding model that a command-line argument names."""
    if text == "embedded":
        return SentenceTransformerModel.embedded()
    provider, _, name = text.partition(":")
    if provider in ("openai", "ollama") and name:
        return OpenAiEmbeddingModel(name, provider=provider)
    module, name, _ = split_target(text)
    model = getattr(load_module(module), name, None) if name else None
    if not hasattr(model, "embed"):
        forms = "embedded, openai:NAME, ollama:NAME, or MODULE:NAME of an object with a method embed"
        raise UsageError(f"--embedding: {text} is not an embedding model; pass {forms}")
    return model
