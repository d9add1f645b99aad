"""Retrieval: find texts that help to answer a question, and give them to the model."""

from __future__ import annotations

from .augmentor import (
    ContentsRetrieved,
    Excerpts,
    Injection,
    Injector,
    RetrievalAugmentor,
    contents_by_id,
    retriever_tool,
)
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
    Route,
    RouteBy,
    RouteByModel,
    RouteToAll,
    unchanged,
)
from .vectors import ChromaStore, EmbeddingModel, EmbeddingRetriever, EmbeddingStore, VectorStore

__all__ = [
    "ChromaStore",
    "CompressingQueryTransformer",
    "Content",
    "ContentsRetrieved",
    "DocumentLike",
    "EmbeddingModel",
    "EmbeddingRetriever",
    "EmbeddingStore",
    "Excerpts",
    "ExpandingQueryTransformer",
    "Fusion",
    "Injection",
    "Injector",
    "KeywordRetriever",
    "OpenAiEmbeddingModel",
    "Query",
    "QueryRouter",
    "QueryTransformer",
    "ReRank",
    "ReRanker",
    "ReciprocalRankFusion",
    "RetrievalAugmentor",
    "Retriever",
    "Route",
    "RouteBy",
    "RouteByModel",
    "RouteToAll",
    "SentenceTransformerModel",
    "VectorStore",
    "contents_by_id",
    "contents_of",
    "retriever_tool",
    "split",
    "unchanged",
]
