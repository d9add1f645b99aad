"""A file that is written anew is whole at each moment, and one like others."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiservices.testing.serialization import write_whole


def test_a_file_and_its_folders_are_made_as_others_are(tmp_path: Path) -> None:
    path = tmp_path / "golden" / "one.txt"
    write_whole(path, "tea")
    write_whole(path, "ü")
    other = tmp_path / "other"
    other.touch()
    assert path.read_text("utf-8") == "ü"
    assert path.stat().st_mode == other.stat().st_mode
    assert list(path.parent.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    write_whole(path, "tea")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "coffee \ud800")
    assert path.read_text("utf-8") == "tea"
    assert list(tmp_path.iterdir()) == [path]
