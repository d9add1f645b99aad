"""Answers from texts of one's own: finding what fits to a question, and giving it to the model."""

from __future__ import annotations

from .augmentor import Injection, Injector, Passages, RetrievalAugmentor, Retrieved, found_by, retriever_tool
from .content import Content, DocumentLike, Query, Retriever, contents_of, split
from .embeddings import OpenAiEmbeddingModel, SentenceTransformerModel
from .keyword import KeywordRetriever
from .query import (
    CompressingQueryTransformer,
    ExpandingQueryTransformer,
    Fusion,
    QueryRouter,
    QueryTransformer,
    ReciprocalRankFusion,
    ReRank,
    ReRanker,
    RouteBy,
    RouteByModel,
    RouteToAll,
    Source,
    unchanged,
)
from .vectors import ChromaStore, EmbeddingModel, EmbeddingRetriever, EmbeddingStore, VectorStore

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
