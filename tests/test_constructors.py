"""Constructors of public classes say at once which of their arguments is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from aiservices import Budget, DefinitionError, SharedBudget, ToolLimits
from aiservices.memory import ChatMemory, SqliteChatMemoryStore
from aiservices.moderation import OpenAiModerator
from aiservices.retrieval import (
    EmbeddingRetriever,
    ExpandingQueryTransformer,
    KeywordRetriever,
    ReciprocalRankFusion,
)
from aiservices.rows import BatchEngine, RayEngine, SparkEngine
from aiservices.testing import FakeChatModel

# The arguments are of wrong types, which type checkers see: these users have none.
WRONG: list[tuple[Callable[..., object], dict[str, object], str]] = [
    (Budget, {"max_attempts": True}, "Budget: max_attempts is True; it must be at least 1"),
    (Budget, {"prices": [1]}, "Budget: prices is [1]; pass a dict from names of models to Price(…)"),
    (SharedBudget, {"seconds": True}, "Budget: seconds is True; it must be greater than 0"),
    (ToolLimits, {"max_rounds": True}, "ToolLimits: max_rounds is True"),
    (ChatMemory, {"namespace": 3}, "ChatMemory: namespace is 3; pass a text"),
    (ChatMemory, {"timeout": -1}, "ChatMemory: timeout is -1; it must not be negative"),
    (SqliteChatMemoryStore, {"path": None}, "SqliteChatMemoryStore: path is None; pass the path of a file"),
    (ReciprocalRankFusion, {"k": -1}, "ReciprocalRankFusion: k is -1; it must be at least 0"),
    (ReciprocalRankFusion, {"max_results": "3"}, "max_results is '3'; it must be at least 1, or None"),
    (ExpandingQueryTransformer, {"n": 0.5}, "n is 0.5; it must be a whole number above 0"),
    (EmbeddingRetriever, {"model": "minilm"}, "model is 'minilm'; pass an EmbeddingModel"),
    (KeywordRetriever, {"stem": "english"}, "KeywordRetriever: stem is 'english'; pass a function"),
    (OpenAiModerator, {"timeout": 0}, "OpenAiModerator: timeout is 0; it must be greater than 0"),
    (BatchEngine, {"poll": None}, "BatchEngine: poll is None; it must be greater than 0"),
    (BatchEngine, {"max_waves": None}, "max_waves is None; it must be a whole number of at least 1"),
    (RayEngine, {"parts": 3}, "RayEngine: parts is 3; pass a text"),
    (RayEngine, {"address": 10001}, "RayEngine: address is 10001; pass a text"),
    (SparkEngine, {"workers": True}, "workers is True; it must be a whole number of at least 1"),
    (FakeChatModel, {"values": 3}, "FakeChatModel: values is int; pass a dict"),
    (FakeChatModel, {"calls": "search"}, "calls is 'search'; pass a list of names of tools, or \"all\""),
    (FakeChatModel, {"capabilities": "tools"}, "capabilities is str; pass a Capabilities"),
]


@pytest.mark.parametrize(("make", "arguments", "message"), WRONG)
def test_a_wrong_argument_is_named(
    make: Callable[..., object], arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(DefinitionError, match=re.escape(message)):
        make(**arguments)
