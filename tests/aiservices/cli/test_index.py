"""Tests of the command index: the files of a folder are in a file that a retriever can search."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiservices.retrieval import EmbeddingStore

from .conftest import CommandRun

MODULE = """
import numpy


class Letters:
    def embed(self, texts):
        return numpy.array([[text.count(letter) for letter in "abcdef"] for text in texts], numpy.float32)


letters = Letters()
"""


def test_an_index_follows_the_folder(
    run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODULE, "utf-8")
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("a bad cafe", "utf-8")
    (files / "b.html").write_text("<html><p>Facade</p>", "utf-8")
    command = ("index", "files", "--to", "index.npz", "--embedding", "models:letters", "--no-progress")
    result = run(*command)
    assert (result.code, result.out) == (0, "2 added, 0 unchanged; 2 passages in index.npz\n")
    (files / "a.txt").write_text("changed: abc", "utf-8")
    (files / "b.html").unlink()
    (files / "c.bin").write_bytes(b"\x00")
    result = run(*command)
    assert (result.code, result.out) == (
        1,
        "1 changed, 1 removed, 1 failed, 0 unchanged; 1 passage in index.npz\n",
    )
    assert result.err.startswith("c.bin: c.bin is not text")
    store = EmbeddingStore.load(tmp_path / "index.npz")
    assert len(store) == 1


def test_a_wrong_folder_or_model_is_an_error(
    run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODULE, "utf-8")
    result = run("index", "none", "--to", "index.npz")
    assert (result.code, "the folder none does not exist" in result.err) == (2, True)
    for name in ("models:Nothing", "models"):
        result = run("index", ".", "--to", "index.npz", "--embedding", name)
        assert result.code == 2
        assert f"--embedding: {name} is not an embedding model" in result.err
