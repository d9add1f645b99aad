"""A run's journal: a file to which each model reply and each finished row is appended.

Each line has a checksum and a JSON object. The first line says what the run does. A line ``reply`` contains a
model's reply, a line ``done`` a finished row, and a line ``person`` the answer that a person gave for a row.
A second run sends only the requests whose replies are missing.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import struct
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import BinaryIO, NamedTuple

from output_parsers.result.reading import JsonObject

from .row import RowsError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_MAX_FIRST_LINE = 10_000_000
# The settings that people's answers depend on; they do not depend on the model.
_QUESTION = ("method", "prompt", "system message", "type", "schema", "parameters")
_CHECKSUM_LENGTH = 8  # hexadecimal digits, followed by a space
_PRAGMAS = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -8000; PRAGMA temp_store = FILE;
"""
_TABLES = """
CREATE TABLE done (id TEXT PRIMARY KEY, offset INTEGER) WITHOUT ROWID;
CREATE TABLE reply (id TEXT, call INTEGER, offset INTEGER, PRIMARY KEY (id, call)) WITHOUT ROWID;
CREATE TABLE known_key (key TEXT PRIMARY KEY, id TEXT) WITHOUT ROWID;
"""


class StoredEntry(NamedTuple):
    """The journal entry of a finished row.

    Attributes:
        offset: Where its line begins in the file.
        entry: The content of the line.
    """

    offset: int
    entry: JsonObject


class _JournalFile:
    """The file of a journal, which only one process writes at a time.

    Attributes:
        path: The path of the file.
        end: The length of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end = 0
        self._reader: BinaryIO | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._open()

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def check_and_lock(self) -> None:
        """Raise RowsError if the file is not a journal, so that it is not overwritten, or is in use."""
        self._lock()
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise RowsError(f"{self.path} is not a file; choose another place for the journal")
        with self.path.open("rb") as file:
            first = file.readline(_MAX_FIRST_LINE)
        is_cut = bool(first) and not first.endswith(b"\n") and _is_beginning(first)
        entry = decode_line(first)
        if first and not is_cut and not (entry is not None and isinstance(entry.get("work"), dict)):
            raise RowsError(f"{self.path} is not a journal of map_rows; choose another output")

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RowsError(
                f"another run uses the journal {self.path}; wait until it ends, or choose another output"
            ) from error

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the file; the last one may be incomplete."""
        with self.path.open("rb") as lines:
            yield from lines

    def keep(self, end: int) -> None:
        """Remove the bytes after a place; entries can be read by their places from now on."""
        os.ftruncate(self._file, end)
        self.end = end
        self._reader = self.path.open("rb")

    def clear(self) -> None:
        """Remove all lines."""
        os.ftruncate(self._file, 0)

    def start_over(self) -> None:
        """Rename the file, and continue with a new one."""
        try:
            os.rename(self.path, _free_path(self.path))
            old, self._file = self._file, self._open()
            os.close(old)
        except OSError as error:
            raise RowsError(f"the journal {self.path} cannot be renamed: {error.strerror}") from error
        self._lock()

    def append(self, entry: Mapping[str, object]) -> int:
        """Append a line, and return its place."""
        line = encode_line(entry)
        offset, written = self.end, 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            if written:
                os.ftruncate(self._file, offset)
            raise RowsError(
                f"the journal {self.path} cannot be written: {error.strerror}; all rows before this "
                "one are stored; make the same call again to continue"
            ) from error
        self.end = offset + len(line)
        return offset

    def entry_at(self, offset: int) -> JsonObject:
        """Return the entry of the line at a place."""
        assert self._reader is not None
        return _entry_at(self._reader, offset)

    def close(self) -> None:
        """Flush the file to disk, and close it."""
        try:
            os.fsync(self._file)
        except OSError:  # a pipe or a device has nothing to flush
            pass
        if self._reader is not None:
            self._reader.close()
        file, self._file = self._file, -1  # the system may give the number to another file
        os.close(file)


class RunJournal:
    """The file that stores a run's replies and finished rows, with a temporary index for fast lookups.

    Args:
        path: The path of the file.
        work: What the run does, by name: prompt, schema, model and so on. If the file belongs to other work,
            RowsError names what changed.
        restart: Keep an existing file under another name, with ``.bak``, and start with a new one. Answers of
            people are taken over if the question is the same.

    Attributes:
        damaged_lines: The number of lines of the file that could not be read. Their rows are processed again.
        people: The JSON of the answers that people gave, by the ids of the rows' contents.
        seen: The keys and contents of the rows of this run.
    """

    def __init__(self, path: Path, work: Mapping[str, object], *, restart: bool = False) -> None:
        try:
            self._file = _JournalFile(path)
        except OSError as error:
            raise RowsError(f"the journal {path} cannot be opened: {error.strerror}") from error
        self.damaged_lines = 0
        self.people: dict[str, str] = {}
        self.seen = SeenRows()
        self._has_replies = self._has_keys = False  # so that a new journal needs fewer look-ups
        self._is_reading = True  # until the lines of earlier runs are in the index
        self._index = _temporary_database(_TABLES)
        try:
            self._file.check_and_lock()
            people = self._rename_existing(work) if restart else {}
            self._file.keep(self._read(work))
            self._is_reading = False
            if self._file.end == 0:
                self._file.append({"work": {"format": FORMAT, **work}})
            for row, value in people.items():
                self.add_person(row, value)
        except BaseException:
            self.close()
            raise

    def _rename_existing(self, work: Mapping[str, object]) -> dict[str, str]:
        """Rename the file, open a new one, and return the answers of people to the same question."""
        people: dict[str, str] = {}
        stored: dict[str, object] | None = None
        for line in self._file.lines():
            entry = decode_line(line) or {}
            if stored is None:
                stored = entry.get("work", {})
            elif "person" in entry:
                people[entry["person"]] = entry["value"]
        if not stored:  # an empty file, or a journal whose first line is not complete
            self._file.clear()
            return {}
        self._file.start_over()
        current = json.loads(json.dumps(work))
        is_same = all(stored.get(name) == current.get(name) for name in _QUESTION)
        return people if is_same else {}

    def close(self) -> None:
        """Flush the journal to disk, and close its file."""
        self._file.close()
        self._index.close()
        self.seen.close()

    @property
    def path(self) -> Path:
        """The path of the journal file."""
        return self._file.path

    # --- Reading ---

    def _read(self, work: Mapping[str, object]) -> int:
        """Index all complete lines of the file, and return where they end."""
        end = 0
        for line in self._file.lines():
            if not line.endswith(b"\n"):
                break  # the process was killed while it wrote this line
            entry = decode_line(line)
            if end == 0:
                self._check_work({} if entry is None else entry["work"], work)
            elif entry is None:
                self.damaged_lines += 1
            else:
                self._add_to_index(entry, end)
            end += len(line)
        return end

    def _check_work(self, stored: Mapping[str, object], work: Mapping[str, object]) -> None:
        if stored.get("format") != FORMAT:
            raise RowsError(f"{self.path} has the format {stored.get('format')}; this version reads {FORMAT}")
        current = json.loads(json.dumps(work))
        changed = [
            name
            for name in {**stored, **current}
            if name != "format" and stored.get(name) != current.get(name)
        ]
        if changed:
            details = "; ".join(
                f"{name} was {_short(stored.get(name))} and is {_short(current.get(name))}"
                for name in changed
            )
            raise RowsError(
                f"{self.path} was written with other settings: {details}. Pass restart=True to process all "
                "rows again, or choose another output"
            )

    def _add_to_index(self, entry: dict[str, object], offset: int) -> None:
        run = self._index.execute
        if "done" in entry:
            row = entry["done"]
            run("INSERT OR REPLACE INTO done VALUES (?, ?)", (row, offset))
            if self._has_replies:
                run("DELETE FROM reply WHERE id = ?", (row,))
            self._remember_key(entry, row)
        elif "same" in entry:
            self._remember_key(entry, entry["same"])
        elif "reply" in entry:
            self._has_replies = True
            run("INSERT OR REPLACE INTO reply VALUES (?, ?, ?)", (entry["reply"], entry["call"], offset))
        elif "person" in entry:
            self.people[str(entry["person"])] = str(entry["value"])

    def _remember_key(self, entry: Mapping[str, object], row: object) -> None:
        # those of this run are not needed, because a run has each key once
        if self._is_reading and "key" in entry:
            self._has_keys = True
            sql = "INSERT OR REPLACE INTO known_key VALUES (?, ?)"
            self._index.execute(sql, (_text(entry["key"]), row))

    def find(self, row: str) -> StoredEntry | None:
        """Return a finished row's journal entry, or None if the row is not finished."""
        place = self._index.execute("SELECT offset FROM done WHERE id = ?", (row,)).fetchone()
        return None if place is None else StoredEntry(place[0], self._file.entry_at(place[0]))

    def replies_of(self, row: str) -> dict[int, dict[str, object]]:
        """Return a dict from request numbers to the stored replies for an unfinished row."""
        if not self._has_replies:
            return {}
        entries = self._index.execute("SELECT call, offset FROM reply WHERE id = ?", (row,)).fetchall()
        return {call: self._file.entry_at(offset) for call, offset in entries}

    def has_changed(self, key: object, row: str) -> bool:
        """Return True if the row with this key had different content in an earlier run."""
        return self._row_with(key) not in (None, row)

    def _row_with(self, key: object) -> str | None:
        """Return the id of the row that had a key in an earlier run, or None for a new key."""
        if not self._has_keys:
            return None
        entry = self._index.execute("SELECT id FROM known_key WHERE key = ?", (_text(key),)).fetchone()
        return None if entry is None else str(entry[0])

    # --- Writing ---

    def add_reply(self, row: str, call: int, request: str, reply: Mapping[str, object]) -> None:
        """Store the model's reply to one of a row's requests."""
        self.add(reply_line(row, call, request, reply))

    def add_response(self, row: str, call: int, request: str, status: int, body: str) -> None:
        """Store the HTTP response to one of a row's requests, as received from a batch."""
        self.add({"reply": row, "call": call, "request": request, "http": {"status": status, "body": body}})

    def add_done(self, row: str, key: object, entry: Mapping[str, object]) -> StoredEntry:
        """Store the value or error of a finished row, and return the entry with its place."""
        line = done_line(row, key, entry)
        return StoredEntry(self.add(line), line)

    def add_person(self, row: str, value: str) -> None:
        """Store the JSON of the answer that a person gave for all rows with the same content."""
        if self.people.get(row) != value:
            self.add({"person": row, "value": value})

    def add_key(self, key: object, row: str) -> None:
        """Record that the row with this key has the same content as a row that is already finished."""
        if self._row_with(key) != row:
            self.add({"same": row, "key": key})

    def add(self, entry: dict[str, object]) -> int:
        """Append a line to the journal, for example a line from another process; return its place."""
        offset = self._file.append(entry)
        self._add_to_index(entry, offset)
        return offset


class SeenRows:
    """The keys and contents of the rows that a run has seen so far."""

    def __init__(self) -> None:
        self._index = _temporary_database(
            "CREATE TABLE seen_key (key TEXT PRIMARY KEY, number INTEGER) WITHOUT ROWID;"
            "CREATE TABLE seen_content (id TEXT PRIMARY KEY, count INTEGER) WITHOUT ROWID;"
        )

    def first_with_key(self, key: object, number: int) -> int:
        """Remember a row's key, and return the number of the first row with this key."""
        run, text = self._index.execute, _text(key)
        if run("INSERT OR IGNORE INTO seen_key VALUES (?, ?)", (text, number)).rowcount:
            return number
        first: int = run("SELECT number FROM seen_key WHERE key = ?", (text,)).fetchone()[0]
        return first

    def forget_counts(self) -> None:
        """Reset the counts of equal rows before the table is read again."""
        self._index.execute("DELETE FROM seen_content")

    def count_content(self, row: str) -> int:
        """Count a row, and return how many earlier rows of this run have the same content."""
        run = self._index.execute
        run("INSERT INTO seen_content VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET count = count + 1", (row,))
        count: int = run("SELECT count FROM seen_content WHERE id = ?", (row,)).fetchone()[0]
        return count - 1

    def close(self) -> None:
        """Forget all rows."""
        self._index.close()


def _temporary_database(tables: str) -> sqlite3.Connection:
    # a database without a name is in a file that SQLite deletes by itself
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    database.executescript(f"{_PRAGMAS} {tables} BEGIN;")
    return database


def _entry_at(file: BinaryIO, offset: int) -> dict[str, object]:
    file.seek(offset)
    entry = decode_line(file.readline())
    if entry is None:
        raise RowsError(f"the journal {file.name} was changed by another program")
    return entry


class Origin(IntEnum):
    """The origin of the answer or the error of a row."""

    MISSING = 0  # the run ended before
    REQUEST = 1  # this run has requested it
    CACHE = 2  # a response cache
    REUSED = 3  # an earlier run or an equal row
    NO_ENTRY = 4  # its cells cannot be arguments, or a person gave the answer


class RowResult(NamedTuple):
    """A finished row of a run: the origin of its answer, its journal entry, and the time."""

    origin: Origin
    offset: int = 0
    seconds: float = 0.0


_RESULT = struct.Struct("<Bqd")
_ORIGINS = tuple(Origin)
_MEMORY_BYTES = 1 << 18  # of 15,000 rows


class RowResults:
    """The finished rows of a run, by the number of the row; in a temporary file if there are many."""

    def __init__(self) -> None:
        self._memory = bytearray()
        self._file: BinaryIO | None = None
        self._lock = Lock()
        self.count = 0

    def add(self, number: int, result: RowResult) -> None:
        """Store the result of a row."""
        data, place = _RESULT.pack(*result), number * _RESULT.size
        with self._lock:
            self.count += 1
            if self._file is None and place < _MEMORY_BYTES:
                if place > len(self._memory):
                    self._memory.extend(bytes(place - len(self._memory)))
                self._memory[place : place + _RESULT.size] = data
                return
            file = self._file or self._move_to_file()
            file.seek(place)
            file.write(data)

    def _move_to_file(self) -> BinaryIO:
        # without a buffer, which each seek would discard
        self._file = file = TemporaryFile(buffering=0)  # noqa: SIM115
        weakref.finalize(self, file.close)
        file.write(self._memory)
        self._memory = bytearray()
        return file

    def at(self, number: int) -> RowResult:
        """Return the result of a row."""
        place = number * _RESULT.size
        with self._lock:
            if self._file is None:
                data = bytes(self._memory[place : place + _RESULT.size])
            else:
                self._file.seek(place)
                data = self._file.read(_RESULT.size)
        origin, offset, seconds = _RESULT.unpack(data.ljust(_RESULT.size, b"\0"))
        return RowResult(_ORIGINS[origin], offset, seconds)


def _free_path(path: Path) -> Path:
    """Return a path for a backup of a file, with a number if earlier ones exist."""
    backup, number = path.with_name(f"{path.name}.bak"), 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.bak{number}")
    return backup


def _is_beginning(line: bytes) -> bool:
    """Return True if a line looks like a partly written first line of a journal."""
    beginning = b'{"work":'
    text = line[_CHECKSUM_LENGTH + 1 :]
    return line[:_CHECKSUM_LENGTH].isalnum() and (text.startswith(beginning) or beginning.startswith(text))


@contextmanager
def open_entries(path: Path) -> Iterator[Callable[[int], dict[str, object]]]:
    """Context manager that reads a journal: yields a function from the place of a line to its entry."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise RowsError(f"the journal {path} cannot be opened: {error.strerror}") from error
    with file:
        yield partial(_entry_at, file)


def temporary_file(owner: object) -> Path:
    """Return a path for a temporary file that exists as long as its owner.

    On Linux the file has no name, so that nothing is left of a process that is killed.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115
    path = Path(f"/proc/self/fd/{file.fileno()}")
    if not path.exists():
        file.close()
        return temporary_folder(owner) / "file"
    weakref.finalize(owner, file.close)
    return path


def temporary_folder(owner: object) -> Path:
    """Create a folder that is deleted when ``owner`` is garbage-collected."""
    folder = tempfile.mkdtemp(prefix="aiservices-rows-")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def reply_line(row: str, call: int, request: str, reply: Mapping[str, object]) -> dict[str, object]:
    """Return the journal line for the model's reply to one of a row's requests."""
    return {"reply": row, "call": call, "request": request, "body": reply}


def done_line(row: str, key: object, entry: Mapping[str, object]) -> dict[str, object]:
    """Return the journal line for a finished row."""
    return {"done": row, **({} if key is None else {"key": key}), **entry}


def encode_line(entry: Mapping[str, object]) -> bytes:
    """Encode a journal line as bytes that begin with a checksum."""
    text = _text(entry).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def decode_line(line: bytes) -> JsonObject | None:
    """Parse a journal line from bytes; return None if it is damaged."""
    checksum, text = line[:_CHECKSUM_LENGTH], line[_CHECKSUM_LENGTH + 1 : -1]
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        entry = json.loads(text)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _text(data: object) -> str:
    text = _encode(data)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
