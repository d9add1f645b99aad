"""Files are written atomically, with permissions for their owner only."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiservices.atomic_file import write_atomically


def test_missing_folders_are_created_and_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "golden" / "one.txt"
    write_atomically(path, "tea")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    write_atomically(path, "ü")
    assert (path.read_text("utf-8"), path.stat().st_mode & 0o777) == ("ü", 0o644)
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    write_atomically(path, "tea")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "coffee \ud800")
    assert path.read_text("utf-8") == "tea"
    assert list(tmp_path.iterdir()) == [path]
