"""Answers from texts of one's own: finding what fits to a question, and giving it to the model."""

from __future__ import annotations

from .augmentor import RetrievalAugmentor, Retrieved
from .chroma import ChromaStore
from .content import Content, DocumentLike, Query, Retriever, contents_of
from .embedding import EmbeddingModel, EmbeddingRetriever, VectorStore
from .fusing import Fusion, ReciprocalRankFusion, ReRank, ReRanker
from .injecting import Injection, Injector
from .keyword import KeywordRetriever
from .openai_embeddings import OpenAiEmbeddingModel
from .routing import QueryRouter, RouteBy, RouteByModel, RouteToAll, Source
from .sentences import SentenceTransformerModel
from .splitting import split
from .store import EmbeddingStore
from .tool import Passages, found_by, retriever_tool
from .transforming import (
    CompressingQueryTransformer,
    ExpandingQueryTransformer,
    QueryTransformer,
    unchanged,
)

__all__ = [
    "ChromaStore",
    "CompressingQueryTransformer",
    "Content",
    "DocumentLike",
    "EmbeddingModel",
    "EmbeddingRetriever",
    "EmbeddingStore",
    "ExpandingQueryTransformer",
    "Fusion",
    "Injection",
    "Injector",
    "KeywordRetriever",
    "OpenAiEmbeddingModel",
    "Passages",
    "Query",
    "QueryRouter",
    "QueryTransformer",
    "ReRank",
    "ReRanker",
    "ReciprocalRankFusion",
    "RetrievalAugmentor",
    "Retrieved",
    "Retriever",
    "RouteBy",
    "RouteByModel",
    "RouteToAll",
    "SentenceTransformerModel",
    "Source",
    "VectorStore",
    "contents_of",
    "found_by",
    "retriever_tool",
    "split",
    "unchanged",
]
