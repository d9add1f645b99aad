"""The parts of a journal that workers write, on a disk and on an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiservices.rows import RowsError
from aiservices.rows.engines.workers import Part, PartFolder
from aiservices.rows.run_journal import RunJournal

WORK = {"method": "Desk.team"}
DONE = {"value": "1", "attempts": 1}
REPLY = {"message": {"type": "ai", "text": "1"}}


@pytest.fixture(params=["disk", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> PartFolder:
    if request.param == "disk":
        made = PartFolder(str(tmp_path / "parts"))
    else:
        pytest.importorskip("fsspec")
        made = PartFolder(f"memory://{tmp_path}/parts")
    made.check()
    return made


def test_another_attempt_knows_what_the_first_one_has_stored(folder: PartFolder) -> None:
    with Part(folder, "chunk") as part:
        part.add_reply("row 1", 0, "hash", REPLY)
        part.add_reply("row 1", 1, "other", REPLY)
        part.add_done("row 2", DONE)
    again = Part(folder, "chunk")
    assert again.find("row 2") == DONE
    assert again.find("row 1") is None
    assert {number: entry["request"] for number, entry in again.replies_of("row 1").items()} == {
        0: "hash",
        1: "other",
    }
    assert Part(folder, "other chunk").find("row 2") is None


def test_a_line_on_a_disk_is_stored_at_once(tmp_path: Path) -> None:
    folder = PartFolder(str(tmp_path))
    Part(folder, "chunk").add_done("row", DONE)  # as if the process were killed now
    assert Part(folder, "chunk").find("row") == DONE


def test_lines_for_an_object_store_are_written_a_hundred_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    folder = PartFolder(f"memory://{tmp_path}")
    part = Part(folder, "chunk")
    for number in range(100):
        assert not part.is_due
        part.add_done(f"row {number}", DONE)
    assert part.is_due
    assert Part(folder, "chunk").find("row 0") is None
    part.flush()
    assert not part.is_due
    assert Part(folder, "chunk").find("row 99") == DONE


def test_a_damaged_line_is_left_out(tmp_path: Path) -> None:
    folder = PartFolder(str(tmp_path))
    with Part(folder, "chunk") as part:
        part.add_done("row 1", DONE)
        part.add_done("row 2", DONE)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-5])  # the process was killed while it wrote
    again = Part(folder, "chunk")
    assert again.find("row 1") == DONE
    assert again.find("row 2") is None


def test_a_chunk_is_deleted_without_the_others(folder: PartFolder) -> None:
    for chunk in ("one", "two"):
        with Part(folder, chunk) as part:
            part.add_done("row", DONE)
    folder.delete("one-")
    assert Part(folder, "one").find("row") is None
    assert Part(folder, "two").find("row") == DONE
    folder.delete()
    assert list(folder.read()) == []


def test_a_journal_takes_what_the_parts_have(folder: PartFolder, tmp_path: Path) -> None:
    journal = RunJournal(tmp_path / "journal", WORK)
    journal.add_done("row 1", "key 1", {"value": "old", "attempts": 1})
    with Part(folder, "chunk") as part:
        part.add_done("row 1", DONE)
        part.add_reply("row 2", 0, "hash", REPLY)
        part.add_done("row 2", DONE)
        part.add_reply("row 3", 0, "hash", REPLY)
    folder.merge_into(journal)
    known = journal.find("row 1")
    assert known is not None
    assert known.entry["value"] == "old"
    assert journal.find("row 2") is not None
    assert journal.replies_of("row 2") == {}
    assert journal.replies_of("row 3")[0]["body"] == REPLY
    assert list(folder.read()) == []
    journal.close()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RowsError, match="cannot be made"):
        PartFolder(str(tmp_path / "file" / "parts")).check()
