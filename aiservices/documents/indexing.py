"""Keep the index of a retriever up to date with the files of a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

from ..atomic_file import write_atomically
from ..models.arguments import checks_arguments
from ..retrieval.content import Content, split
from .document import Document
from .files import DocumentError

_BATCH = 1_000  # contents that are added at the same time


class Index(Protocol):
    """A retriever that is kept up to date, such as ``EmbeddingRetriever`` or ``KeywordRetriever``."""

    def add(self, contents: Sequence[Content | str]) -> None:
        """Add contents, replacing those with the same ids and all other parts of their documents."""
        ...

    def remove(self, ids: Sequence[str] = ()) -> None:
        """Remove the contents with these ids."""
        ...


class IndexProgress(NamedTuple):
    """The progress of the update of an index.

    Attributes:
        done: The number of files processed so far.
        total: The files in the folder.
        changes: The files that were added or changed so far.
        file: The file that was read last.
    """

    done: int
    total: int
    changes: int
    file: str

    def __str__(self) -> str:
        return f"{self.done:,} of {self.total:,} files, {self.changes:,} new or changed"


class IndexChanges(NamedTuple):
    """The changes of an update of an index, as paths relative to the folder.

    Attributes:
        added: New files.
        changed: Files whose content has changed.
        removed: Files that no longer exist, or no longer have text.
        failed: The errors of files that cannot be read. They are not in the index.
        unchanged: The number of unchanged files.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    failed: dict[str, str]
    unchanged: int

    def __str__(self) -> str:
        counts = {
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "failed": self.failed,
        }
        parts = [f"{len(files):,} {name}" for name, files in counts.items() if files]
        return ", ".join([*parts, f"{self.unchanged:,} unchanged"])


class _File(NamedTuple):
    """The record of a file in an index.

    Attributes:
        size: Its size in bytes.
        changed_at: When it was changed, in nanoseconds.
        digest: The hash of its content.
        parts: The number of its contents in the index.
    """

    size: int
    changed_at: int
    digest: str
    parts: int


@checks_arguments
def update_index(
    folder: str | os.PathLike[str],
    index: Index,
    record: str | os.PathLike[str],
    *,
    pattern: str = "**/*",
    max_characters: int = 900,
    save: Callable[[], object] | None = None,
    progress: Callable[[IndexProgress], object] | None = None,
) -> IndexChanges:
    """Add the files of a folder to a retriever, and remove those that no longer exist.

    Files are read as ``Document.open`` does, and split into contents. Only new and changed files are read: a
    record says which files are in the index. After an interrupted update, the next one repeats what was added
    since the last record. The ids are ``{path}-{number}``; the metadata have the path as ``source``, the
    first character as ``start`` and, for PDFs, the ``page``.

    Args:
        folder: The folder.
        index: The retriever, whose contents must match the record.
        record: The path of the record, a JSON file.
        pattern: Which files, as for ``Path.glob``. Hidden files and folders are left out.
        max_characters: The largest length of a content.
        save: Called before the record is written, for example to write an ``EmbeddingStore`` to a file.
        progress: Called after each file.
    """
    folder, record = Path(folder), Path(record)
    if not folder.is_dir():
        raise NotADirectoryError(f"the folder {folder} does not exist")
    old_files = _read_record(record, max_characters)
    paths = dict(_files(folder, pattern, record))
    files: dict[str, _File] = {}
    failed: dict[str, str] = {}
    added, changed, batch = list[str](), list[str](), list[Content]()
    for done, (name, path) in enumerate(paths.items(), 1):
        try:
            files[name], contents = _read(path, name, old_files.get(name), max_characters)
        except (DocumentError, OSError) as error:
            failed[name], contents = str(error), None
        if contents is not None:
            (changed if name in old_files else added).append(name)
            batch += contents
            if len(batch) >= _BATCH:
                index.add(batch)
                batch = []
        if progress is not None:
            progress(IndexProgress(done, len(paths), len(added) + len(changed), name))
    if batch:
        index.add(batch)
    _remove_old(index, old_files, files)
    if save is not None:
        save()
    data = {"max_characters": max_characters, "files": {name: list(one) for name, one in files.items()}}
    write_atomically(record, json.dumps(data, ensure_ascii=False))
    removed = tuple(name for name in old_files if name not in files)
    unchanged = len(files) - len(added) - len(changed)
    return IndexChanges(tuple(added), tuple(changed), removed, failed, unchanged)


def _read_record(path: Path, max_characters: int) -> dict[str, _File]:
    """Return the files in an index; with another size of contents, all are read again."""
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_text("utf-8"))
        files = {name: _File(*one) for name, one in data["files"].items()}
        if data["max_characters"] == max_characters:
            return files
        return {name: one._replace(size=-1, digest="") for name, one in files.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path} is not the record of an index; delete it with the index, or name another"
        ) from error


def _files(folder: Path, pattern: str, record: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.glob(pattern)):
        relative = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in relative.parts)
        if path.is_file() and not is_hidden and path.resolve() != record.resolve():
            yield relative.as_posix(), path


def _read(
    path: Path, name: str, old: _File | None, max_characters: int
) -> tuple[_File, list[Content] | None]:
    """Return the record of a file, and its contents; None if they are already in the index."""
    status = path.stat()
    if old is not None and (old.size, old.changed_at) == (status.st_size, status.st_mtime_ns):
        return old, None
    data = path.read_bytes()
    digest = sha256(data).hexdigest()
    if old is not None and old.digest == digest:
        return old._replace(size=status.st_size, changed_at=status.st_mtime_ns), None
    contents = _contents(Document.open(path, name=name), max_characters) if data.strip() else []
    return _File(status.st_size, status.st_mtime_ns, digest, len(contents)), contents


def _contents(document: Document, max_characters: int) -> list[Content]:
    """Return the parts of a document for a retriever, with their pages."""
    contents = []
    for one in split(document.text, name=document.name, max_characters=max_characters, format="markdown"):
        page = document.page_at(one.metadata["start"])
        metadata = one.metadata if page is None else {**one.metadata, "page": page}
        contents.append(Content(one.text, one.id, metadata))
    return contents


def _remove_old(index: Index, old_files: dict[str, _File], files: dict[str, _File]) -> None:
    """Remove the contents of deleted files, and the surplus contents of changed files."""
    ids = []
    for name, old in old_files.items():
        first = files[name].parts + 1 if name in files else 1
        ids += [f"{name}-{number}" for number in range(first, old.parts + 1)]
    if ids:
        index.remove(ids)
