"""An index has the files of a folder, also after files were added, changed and removed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from aiservices.documents import IndexProgress, update_index
from aiservices.retrieval import Content, EmbeddingRetriever, EmbeddingStore

pytest.importorskip("semantic_text_splitter")


class Shelf:
    """An index that counts its calls, and replaces contents only by their ids."""

    def __init__(self) -> None:
        self.contents: dict[str, Content] = {}
        self.added = 0

    def add(self, contents: Sequence[Any]) -> None:
        self.contents.update({one.id: one for one in contents})
        self.added += len(contents)

    def remove(self, ids: Sequence[str] = ()) -> None:
        for one in ids:
            self.contents.pop(one, None)

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the documents, from their contents."""
        texts: dict[str, list[str]] = {}
        for one in sorted(self.contents.values(), key=lambda one: int(one.metadata["start"])):
            texts.setdefault(one.metadata["source"], []).append(one.text)
        return {name: " ".join(parts) for name, parts in texts.items()}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcd"), st.integers(0, 30).map(lambda n: "word " * n)), max_size=4
    )
)
@settings(deadline=None, max_examples=20)
def test_the_index_has_the_files_as_they_are_after_each_update(
    tmp_path_factory: pytest.TempPathFactory, states: list[dict[str, str]]
) -> None:
    folder, shelf = tmp_path_factory.mktemp("files"), Shelf()
    record = folder.parent / f"{folder.name}.json"
    before: dict[str, str] = {}
    for state in states:
        for name in before.keys() - state.keys():
            (folder / name).unlink()
        for name, text in state.items():
            if before.get(name) != text:
                write(folder / name, text)
                os.utime(folder / name, ns=(len(text), len(text)))
        changes = update_index(folder, shelf, record, max_characters=40)
        assert set(changes.added) == state.keys() - before.keys()
        assert set(changes.changed) == {n for n in state if n in before and before[n] != state[n]}
        assert set(changes.removed) == before.keys() - state.keys()
        assert shelf.texts == {name: text.strip() for name, text in state.items() if text}
        before = state


def test_unchanged_files_are_not_read_again(tmp_path: Path) -> None:
    folder, shelf, record = tmp_path / "files", Shelf(), tmp_path / "index.json"
    write(folder / "a.txt", "One.")
    write(folder / "sub" / "b.md", "Two.")
    write(folder / ".hidden", "no")
    progress: list[IndexProgress] = []
    first = update_index(folder, shelf, record, progress=progress.append)
    assert str(first) == "2 added, 0 unchanged"
    assert [str(one) for one in progress] == [
        "1 of 2 files, 1 new or changed",
        "2 of 2 files, 2 new or changed",
    ]
    os.utime(folder / "a.txt", ns=(1, 1))  # the same content
    assert str(update_index(folder, shelf, record)) == "2 unchanged"
    assert shelf.added == 2
    assert set(shelf.contents) == {"a.txt-1", "sub/b.md-1"}
    assert str(update_index(folder, shelf, record, max_characters=500)) == "2 changed, 0 unchanged"
    assert (
        str(update_index(folder, shelf, record, max_characters=500, pattern="*.txt"))
        == "1 removed, 1 unchanged"
    )
    assert set(shelf.contents) == {"a.txt-1"}


def test_files_that_cannot_be_read_are_reported_and_leave_the_index(tmp_path: Path) -> None:
    folder, shelf, record = tmp_path / "files", Shelf(), tmp_path / "index.json"
    write(folder / "a.txt", "One.")
    write(folder / "b.txt", "Two.")
    update_index(folder, shelf, record)
    (folder / "b.txt").write_bytes(b"\x00\x01")
    changes = update_index(folder, shelf, record)
    assert changes.removed == ("b.txt",)
    assert "b.txt is not text" in changes.failed["b.txt"]
    assert set(shelf.contents) == {"a.txt-1"}


def test_an_update_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    folder, shelf, record = tmp_path / "files", Shelf(), tmp_path / "index.json"
    write(folder / "a.txt", "One.")

    def fails() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update_index(folder, shelf, record, save=fails)
    assert str(update_index(folder, shelf, record)) == "1 added, 0 unchanged"
    assert len(shelf.contents) == 1


def test_a_folder_or_a_record_that_is_wrong_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match=r"^the folder .* does not exist$"):
        update_index(tmp_path / "none", Shelf(), tmp_path / "index.json")
    for text in ("[1]", "no", '{"files": {"a": 1}, "max_characters": 3}'):
        write(tmp_path / "index.json", text)
        with pytest.raises(ValueError, match="is not the record of an index"):
            update_index(tmp_path, Shelf(), tmp_path / "index.json")


class Letters:
    """Embeds a text by its letters."""

    def embed(self, texts: Sequence[str]) -> Any:
        import numpy

        return numpy.array([[text.count(letter) for letter in "abcdef"] for text in texts], numpy.float32)


@pytest.mark.slow
def test_an_index_of_10_000_files_is_updated_in_seconds(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    import time

    folder, record = tmp_path / "files", tmp_path / "index.json"
    for number in range(10_000):
        write(
            folder / f"{number % 100}" / f"{number}.txt", f"The file {number} has the word abc{number}. " * 40
        )
    store = EmbeddingStore()
    retriever = EmbeddingRetriever(Letters(), store)
    assert len(update_index(folder, retriever, record).added) == 10_000
    for number in range(50):
        write(folder / f"{number}" / f"{number}.txt", "Short now.")
        (folder / f"{number}" / f"{number + 100}.txt").unlink()
    began = time.process_time()
    changes = update_index(folder, retriever, record)
    assert time.process_time() - began < 10
    assert str(changes) == "50 changed, 50 removed, 9,900 unchanged"
    assert {len(changes.changed), len(changes.removed)} == {50}
