"""Files are written atomically, with default permissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiservices.testing.serialization import write_atomically


def test_missing_folders_are_created_with_default_permissions(tmp_path: Path) -> None:
    path = tmp_path / "golden" / "one.txt"
    write_atomically(path, "tea")
    write_atomically(path, "ü")
    other = tmp_path / "other"
    other.touch()
    assert path.read_text("utf-8") == "ü"
    assert path.stat().st_mode == other.stat().st_mode
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    write_atomically(path, "tea")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "coffee \ud800")
    assert path.read_text("utf-8") == "tea"
    assert list(tmp_path.iterdir()) == [path]
