"""Files to which worker processes write their replies, with one or more files for each chunk of rows.

Such a file, called a part, is written by only one process and never changed afterwards, so that it can be
stored on any file system or an object store such as S3. It has the format of a journal. If a chunk is
processed again because a worker was lost, the new worker first reads the chunk's existing parts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import uuid4

from ...models.errors import import_extra
from ..journal import Journal, decode_line, done_line, encode_line, reply_line
from ..row import RowsError

_MAX_LINES = 100
_MAX_SECONDS = 5.0
_SUFFIX = ".jsonl"


class PartFolder(NamedTuple):
    """The folder in which worker processes store replies until they are moved to the journal.

    On a local or shared disk, each line is written to the file at once. On an object store, lines are
    collected: a process that is killed loses at most 100 replies, those of the last 5 seconds.

    Attributes:
        path: A path, or a URL for fsspec such as ``s3://bucket/folder``.
    """

    path: str

    @classmethod
    def at(cls, path: str | PathLike[str]) -> PartFolder:
        """Return the folder at a path or URL; relative paths become absolute, so that workers can find it."""
        text = os.fspath(path)
        return cls(text if "://" in text else os.path.abspath(text))

    @property
    def is_local(self) -> bool:
        """True if the folder is a file system path, not a URL of an object store."""
        return "://" not in self.path

    def read(self, chunk: str = "") -> Iterator[dict[str, Any]]:
        """Yield the journal lines that workers wrote for one chunk or all chunks, skipping damaged lines."""
        for name in self._names(chunk):
            try:
                data = Path(name).read_bytes() if self.is_local else self._fs.cat_file(name)
            except FileNotFoundError:  # its chunk has just been finished
                continue
            for line in data.splitlines(keepends=True):
                entry = decode_line(line)
                if entry is not None:
                    yield entry

    def write(self, name: str, data: bytes) -> None:
        """Write bytes to a file in the folder."""
        path = f"{self.path}/{name}"
        if self.is_local:
            Path(path).write_bytes(data)
        else:
            self._fs.pipe_file(path, data)

    def delete(self, chunk: str = "") -> None:
        """Delete the files of one chunk, or of all chunks."""
        for name in self._names(chunk):
            if self.is_local:
                Path(name).unlink(missing_ok=True)
            else:
                self._fs.rm_file(name)
        if not chunk and self.is_local and Path(self.path).is_dir():
            try:
                Path(self.path).rmdir()
            except OSError:  # somebody else has put a file there
                pass

    def check(self) -> None:
        """Create the folder, and raise RowsError if it is not writable."""
        try:
            if self.is_local:
                Path(self.path).mkdir(parents=True, exist_ok=True)
            else:
                self._fs.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise RowsError(
                f"the folder {self.path} for parts of the journal cannot be made: {error}"
            ) from error

    def merge_into(self, journal: Journal) -> None:
        """Move the replies and finished rows from the folder's files to the journal."""
        replies: dict[tuple[str, int], dict[str, object]] = {}
        for entry in self.read():
            if "done" in entry:
                if journal.find(entry["done"]) is None:
                    journal.add(entry)
            elif "reply" in entry:
                replies[entry["reply"], entry["call"]] = entry
        for (row, _), entry in replies.items():
            if journal.find(row) is None:
                journal.add(entry)
        self.delete()

    def _names(self, chunk: str) -> list[str]:
        pattern = f"{chunk}*{_SUFFIX}"
        if self.is_local:
            return sorted(str(path) for path in Path(self.path).glob(pattern))
        return sorted(str(name) for name in self._fs.glob(f"{self.path}/{pattern}"))

    @property
    def _fs(self) -> Any:
        fsspec = import_extra("fsspec", "ray (or spark)", f"a journal at {self.path.partition('://')[0]}://")
        return fsspec.core.url_to_fs(self.path)[0]


class Part:
    """Writes a chunk's replies and finished rows, after reading those of earlier attempts.

    Args:
        folder: The folder for the file; None to write nothing.
        chunk: The name of the chunk.
    """

    def __init__(self, folder: PartFolder | None, chunk: str) -> None:
        self._folder = folder
        self._name = f"{chunk}-{uuid4().hex[:12]}"
        self._file: int | None = None
        self._lines: list[bytes] = []
        self._written = 0
        self._written_at = time.monotonic()
        self._done: dict[str, dict[str, Any]] = {}
        self._replies: dict[str, dict[int, dict[str, Any]]] = {}
        if folder is not None:
            for entry in folder.read(f"{chunk}-"):
                if "done" in entry:
                    self._done[entry.pop("done")] = entry
                elif "reply" in entry:
                    self._replies.setdefault(entry["reply"], {})[entry["call"]] = entry

    def find(self, row: str) -> dict[str, Any] | None:
        """Return the stored entry of a row that an earlier attempt finished; otherwise return None."""
        return self._done.get(row)

    def replies_of(self, row: str) -> Mapping[int, dict[str, Any]]:
        """Return a dict from request numbers to the replies that earlier attempts received for a row."""
        return self._replies.get(row, {})

    def add_reply(self, row: str, call: int, request: str, reply: Mapping[str, Any]) -> None:
        """Store a model's reply to one request for a row."""
        self._add(reply_line(row, call, request, reply))

    def add_done(self, row: str, entry: Mapping[str, Any]) -> None:
        """Store the entry of a finished row."""
        self._add(done_line(row, None, entry))

    def _add(self, entry: Mapping[str, object]) -> None:
        if self._folder is None:
            return
        line = encode_line(entry)
        if self._folder.is_local:
            if self._file is None:
                path = f"{self._folder.path}/{self._name}{_SUFFIX}"
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(self._file, line)
            return
        self._lines.append(line)

    @property
    def is_due(self) -> bool:
        """True if the collected lines should be written now."""
        waited = time.monotonic() - self._written_at
        return len(self._lines) >= _MAX_LINES or (bool(self._lines) and waited >= _MAX_SECONDS)

    def flush(self) -> None:
        """Write the collected lines to a file."""
        self._written_at = time.monotonic()
        if self._lines and self._folder is not None:
            lines, self._lines = self._lines, []
            self._written += 1
            self._folder.write(f"{self._name}-{self._written:06d}{_SUFFIX}", b"".join(lines))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()
        if self._file is not None:
            os.close(self._file)
