"""Constructors of public classes say at once which of their arguments is wrong."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import pytest

import aiservices
from aiservices import (
    Budget,
    Capabilities,
    DefinitionError,
    Journal,
    Limits,
    OpenAiChatModel,
    Price,
    SharedBudget,
    ToolErrors,
    ToolLimits,
    structured,
    tool,
)
from aiservices.documents import Split
from aiservices.guardrails import known_citations
from aiservices.integrations.fastapi import client
from aiservices.integrations.mcp import McpTools
from aiservices.memory import ChatMemory, RedisChatMemoryStore, SqliteChatMemoryStore
from aiservices.models.base import DecisionLimits
from aiservices.moderation import OpenAiModerator
from aiservices.retrieval import (
    EmbeddingRetriever,
    ExpandingQueryTransformer,
    KeywordRetriever,
    OpenAiEmbeddingModel,
    ReciprocalRankFusion,
    RetrievalAugmentor,
    SentenceTransformerModel,
)
from aiservices.rows import BatchEngine, RayEngine, SparkEngine
from aiservices.testing import Case, FakeChatModel, close_to, evaluate, exact

# The arguments are of wrong types, which type checkers see: these users have none.
WRONG: list[tuple[Callable[..., object], dict[str, object], str]] = [
    (Budget, {"max_attempts": True}, "Budget: max_attempts is True; it must be a whole number"),
    (Budget, {"prices": [1]}, "Budget: prices is [1]; pass a dict from names of models to Price(…)"),
    (SharedBudget, {"seconds": True}, "SharedBudget: seconds is True; it must be a number"),
    (Budget, {"seconds": "20"}, "Budget: seconds is '20'; it must be a number, without quotes: 20"),
    (Price, {"input": -1, "output": 2}, "Price: input is -1; it must be a number that is not negative"),
    (Price, {"input": math.nan, "output": 2}, "Price: input is nan; it must be a number"),
    (Limits, {"max_concurrency": "4"}, "Limits: max_concurrency is '4'; it must be a whole number"),
    (Capabilities, {"tools": "yes"}, "Capabilities: tools is 'yes'; it must be True or False"),
    (
        OpenAiChatModel,
        {"model": "m", "options": "x"},
        "OpenAiChatModel: options is 'x'; it must be a ChatOptions",
    ),
    (OpenAiChatModel, {"model": "m", "api_key": b"sk-1"}, "OpenAiChatModel: api_key has the type bytes; "),
    (Split, {"tokens": "9"}, "Split: tokens is '9'; it must be a whole number, without quotes: 9"),
    (Journal, {"store": "x.db", "lease": "60"}, "Journal: lease is '60'; it must be a number"),
    (ToolErrors, {"execution": "sorry"}, "ToolErrors: execution is 'sorry'; it must be a function or method"),
    (exact, {"name": 5}, "exact: name is 5; it must be a string"),
    (close_to, {"rel": "0.1"}, "close_to: rel is '0.1'; it must be a number, without quotes: 0.1"),
    (tool, {"timeout": "5"}, "tool: timeout is '5'; it must be a number, without quotes: 5"),
    (known_citations, {"required": "yes"}, "known_citations: required is 'yes'; it must be True or False"),
    (ToolLimits, {"max_rounds": True}, "ToolLimits: max_rounds is True"),
    (ChatMemory, {"namespace": 3}, "ChatMemory: namespace is 3; it must be a string"),
    (ChatMemory, {"timeout": -1}, "ChatMemory: timeout is -1; it must not be negative"),
    (SqliteChatMemoryStore, {"path": None}, "SqliteChatMemoryStore: path is None; pass the path of a file"),
    (ReciprocalRankFusion, {"k": -1}, "ReciprocalRankFusion: k is -1; it must be at least 0"),
    (
        ReciprocalRankFusion,
        {"max_results": "3"},
        "max_results is '3'; it must be a whole number, without quotes: 3",
    ),
    (ExpandingQueryTransformer, {"n": 0.5}, "n is 0.5; it must be"),
    (Capabilities, {"logprobs": -1}, "Capabilities: logprobs is -1; it must be at least 0"),
    (Capabilities, {"max_concurrency": 0}, "Capabilities: max_concurrency is 0; it must be at least 1"),
    (DecisionLimits, {"questions": 0}, "DecisionLimits: questions is 0; it must be at least 1"),
    (DecisionLimits, {"levels": "9"}, "DecisionLimits: levels is '9'; it must be"),
    (
        OpenAiEmbeddingModel,
        {"model": "m", "batch_size": -1, "dimensions": 0},
        "2 problems:\n  - OpenAiEmbeddingModel: dimensions is 0; it must be at least 1\n"
        "  - OpenAiEmbeddingModel: batch_size is -1; it must be at least 1",
    ),
    (
        SentenceTransformerModel,
        {"model": None, "batch_size": 0},
        "SentenceTransformerModel: batch_size is 0; it must be at least 1",
    ),
    (
        RetrievalAugmentor,
        {"max_concurrency": 0},
        "RetrievalAugmentor: max_concurrency is 0; it must be at least 1",
    ),
    (
        RedisChatMemoryStore,
        {"url": "redis://localhost", "expires_after": -1},
        "RedisChatMemoryStore: expires_after is -1; it must be at least 1",
    ),
    (McpTools.http, {"url": "http://localhost", "timeout": 0}, "McpTools: timeout is 0; it must be greater"),
    (client, {"interface": Protocol, "base_url": "http://x", "timeout": "9"}, "client: timeout is '9'; it"),
    (
        client,
        {"interface": Protocol, "base_url": "http://x", "timeout": -1},
        "client: timeout is -1; it",
    ),
    (EmbeddingRetriever, {"model": "minilm"}, "model is 'minilm'; pass an EmbeddingModel"),
    (KeywordRetriever, {"stem": "english"}, "KeywordRetriever: stem is 'english'; pass a function"),
    (OpenAiModerator, {"timeout": 0}, "OpenAiModerator: timeout is 0; it must be greater than 0"),
    (BatchEngine, {"poll": None}, "BatchEngine: poll is None; it must be a number"),
    (BatchEngine, {"max_waves": None}, "max_waves is None; it must be a whole number"),
    (RayEngine, {"parts": 3}, "RayEngine: parts is 3; it must be a string"),
    (RayEngine, {"address": 10001}, "RayEngine: address is 10001; it must be a string"),
    (SparkEngine, {"workers": True}, "workers is True; it must be a whole number"),
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


# A value of another type for each simple annotation.
OTHERS: dict[str, list[object]] = {
    "int": ["20", True, 1.5, math.nan, [1], object()],
    "float": ["0.5", True, math.nan, [1], object()],
    "bool": ["yes", 1, [True], object()],
    "str": [5, ["a"], b"a"],
}
MODULES = "documents guardrails journal memory moderation prices retrieval rows skills synthesis testing"


def checked_functions() -> dict[str, Callable[..., object]]:
    """Return the public classes and functions that check the types of their arguments."""
    modules = [aiservices, *(import_module(f"aiservices.{name}") for name in MODULES.split())]
    public = {name: getattr(module, name) for module in modules for name in module.__all__}
    is_checked = {
        name: one
        for name, one in public.items()
        if callable(one)
        and any(hasattr(function, "__wrapped__") for function in (one, one.__init__, one.__new__))
    }
    return {
        name: one
        for name, one in is_checked.items()
        if name not in ("ChatOptions", "options", "call", "acall")
    }


def test_each_argument_of_a_simple_type_is_checked_before_anything_else() -> None:
    accepted, checked = [], 0
    for name, make in checked_functions().items():
        for parameter in inspect.signature(make).parameters.values():
            hint = str(parameter.annotation).removesuffix(" | None")
            for value in OTHERS.get(hint, ()):
                if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                    continue
                checked += 1
                try:
                    make(**{parameter.name: value})
                except DefinitionError as error:
                    if str(error).startswith(f"{name}: {parameter.name} "):
                        continue
                except Exception as error:
                    accepted.append((name, parameter.name, value, repr(error)))
                    continue
                accepted.append((name, parameter.name, value, ""))
    assert accepted == []
    assert checked > 800


def test_swapped_arguments_are_named() -> None:
    class Service(Protocol):
        def answer(self, text: str) -> str: ...

    wrong: Any = structured
    with pytest.raises(DefinitionError, match="structured: the arguments model and output_type are swapped"):
        wrong(int, "fake")
    wrong = aiservices.create
    with pytest.raises(DefinitionError, match="a Protocol, an ABC or a class, and then a model"):
        wrong("fake", Service)


def test_one_scorer_without_a_list_is_a_definition_error() -> None:
    wrong: Any = exact()
    with pytest.raises(DefinitionError, match="evaluate: scorers has the type Scorer; put it into a list"):
        evaluate(len, [Case({"obj": "ab"}, 2)], wrong)
