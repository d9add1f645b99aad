"""SQLite files are closed without help."""

import gc
import sqlite3
from pathlib import Path

import pytest

from aiservices.models.sqlite_file import SqliteFile

_OPEN_FILES = Path("/proc/self/fd")

pytestmark = pytest.mark.skipif(not _OPEN_FILES.exists(), reason="only Linux lists open files")


def is_open(path: Path) -> bool:
    return any(file.is_symlink() and file.readlink() == path for file in _OPEN_FILES.iterdir())


def test_a_file_that_is_not_a_database_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    path.write_text("not a database" * 500)
    with pytest.raises(sqlite3.DatabaseError, match="file is not a database"):
        SqliteFile(path, "")
    assert not is_open(path)


def test_a_file_in_a_reference_cycle_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    file = SqliteFile(path, "CREATE TABLE note (text)")
    vars(file)["itself"] = file
    assert is_open(path)
    del file
    gc.collect()
    assert not is_open(path)
