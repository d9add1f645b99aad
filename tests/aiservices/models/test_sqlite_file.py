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


def test_a_file_at_the_end_of_a_link_is_created_for_its_owner_only(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    file = SqliteFile(tmp_path / "link", "CREATE TABLE IF NOT EXISTS t (a)")
    with file.writing() as connection:
        connection.execute("INSERT INTO t VALUES (1)")
    file.close()
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
