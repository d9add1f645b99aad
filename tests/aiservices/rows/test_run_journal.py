"""The journal keeps every acknowledged row through kills, damaged files and full disks."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from aiservices import (
    AuthenticationError,
    BadRequestError,
    Budget,
    ChatRequest,
    InvalidReplyError,
    ModelConnectionError,
    ModelServerError,
    RateLimitError,
    ScriptedChatModel,
    create,
    user_message,
)
from aiservices.rows import RowsError, map_rows
from aiservices.rows.run_journal import RunJournal

WORK = {"prompt": "p"}
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


class Desk(Protocol):
    @user_message("Which team? {{text}}")
    def team(self, text: str) -> str: ...


def entry(value: str) -> dict[str, Any]:
    return {"value": json.dumps(value), "attempts": 1}


def test_finished_rows_and_replies_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = RunJournal(path, WORK)
    journal.add_reply("a", 0, "hash", {"text": "x"})
    journal.add_reply("b", 0, "hash", {"text": "y"})
    journal.add_done("a", 7, entry("one"))
    journal.close()
    journal = RunJournal(path, WORK)
    found = journal.find("a")
    assert found is not None
    assert (found.entry["value"], found.entry["key"], journal.find("b")) == ('"one"', 7, None)
    assert journal.replies_of("a") == {}
    assert journal.replies_of("b")[0]["body"] == {"text": "y"}
    assert (journal.has_changed(7, "a"), journal.has_changed(7, "c"), journal.has_changed(8, "c")) == (
        False,
        True,
        False,
    )
    journal.close()


@pytest.mark.parametrize("cut", [1, 3, 40])
def test_an_incomplete_last_line_is_cut_off(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j"
    journal = RunJournal(path, WORK)
    journal.add_done("a", None, entry("one"))
    journal.add_done("b", None, entry("two"))
    journal.close()
    path.write_bytes(path.read_bytes()[:-cut])
    journal = RunJournal(path, WORK)
    assert journal.find("a") is not None
    assert (journal.find("b"), journal.damaged_lines) == (None, 0)
    journal.add_done("b", None, entry("two"))
    journal.close()
    journal = RunJournal(path, WORK)
    assert journal.find("b") is not None
    journal.close()


def test_a_damaged_line_is_asked_again_and_the_others_are_not(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = RunJournal(path, WORK)
    for name in "abc":
        journal.add_done(name, None, entry("10"))
    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"10", b"90")  # still valid JSON
    path.write_bytes(b"".join(lines))
    journal = RunJournal(path, WORK)
    assert [journal.find(name) is not None for name in "abc"] == [True, False, True]
    assert journal.damaged_lines == 1
    journal.close()


def test_two_runs_cannot_write_to_one_journal(tmp_path: Path) -> None:
    journal = RunJournal(tmp_path / "j", WORK)
    with pytest.raises(RowsError, match="another run uses the journal"):
        RunJournal(tmp_path / "j", WORK)
    journal.close()
    RunJournal(tmp_path / "j", WORK).close()


@pytest.mark.parametrize("content", [b"id,text\n1,a\n", b'{"a": 1}\n', bytes(range(1, 200)) + b"\n"])
def test_another_file_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(content)
    with pytest.raises(RowsError, match=r"is not a journal of map_rows; choose another output"):
        RunJournal(path, WORK)
    assert path.read_bytes() == content


def test_a_full_disk_ends_the_run_and_loses_nothing(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: ChatRequest) -> str:
        asked.append(request.messages[-1].text)
        return "billing"

    table = [{"text": f"text {number}"} for number in range(200)]
    desk = create(Desk, ScriptedChatModel(answer))
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, old[1]))
    finished = 0
    try:
        rows = map_rows(desk.team, table, journal=tmp_path / "j", max_concurrency=2)
        with pytest.raises(RowsError, match="cannot be written: File too large"):
            rows.run()
        finished = rows.summary.rows
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, ignored)
    assert 0 < finished < 200
    again = map_rows(desk.team, table, journal=tmp_path / "j").run()
    assert (again.rows, again.errors) == (200, 0)
    assert again.cached >= finished


def test_a_device_is_not_a_journal() -> None:
    desk = create(Desk, ScriptedChatModel(["billing"]))
    with pytest.raises(RowsError, match="/dev/null is not a file; choose another place for the journal"):
        map_rows(desk.team, [{"text": "a"}], journal="/dev/null").run()


# --- kills ---


def run_and_log(folder: Path, rows: int, *, prefix: str = "") -> None:
    """Map a method, and write down each request and each row that was handed out."""
    asked = os.open(folder / f"{prefix}asked", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    acknowledged = os.open(folder / f"{prefix}acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def answer(request: ChatRequest) -> str:
        number = request.messages[-1].text.split()[-1]
        os.write(asked, f"{number}\n".encode())
        return f"team {number}"

    table = [{"id": number, "text": f"text {number}"} for number in range(rows)]
    desk = create(Desk, ScriptedChatModel(answer))
    journal = folder / f"{prefix}out.jsonl.journal"
    for row in map_rows(desk.team, table, key="id", journal=journal, max_concurrency=4):
        os.write(acknowledged, f"{row.key}\n".encode())
    map_rows(desk.team, table, key="id", to=folder / f"{prefix}out.jsonl", journal=journal)


def in_child(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def kill_often(folder: Path, kills: int, rows: int, seed: int) -> None:
    chance = random.Random(seed)
    expected_folder = folder / "undisturbed"
    expected_folder.mkdir()
    _, status = os.waitpid(in_child(lambda: run_and_log(expected_folder, rows)), 0)
    assert status == 0
    expected = (expected_folder / "out.jsonl").read_bytes()
    killed = run = 0
    while killed < kills:
        run += 1
        place = folder / f"run {run}"
        place.mkdir()
        before: set[str] = set()
        for _ in range(kills):
            children = [in_child(partial(run_and_log, place, rows, prefix=one)) for one in ("a ", "b ")]
            time.sleep(chance.uniform(0, 0.06))
            for child in children:
                os.kill(child, signal.SIGKILL)
            statuses = [os.waitpid(child, 0)[1] for child in children]
            killed += sum(status != 0 for status in statuses)
            asked = (
                Counter((place / "a asked").read_text().split())
                if (place / "a asked").exists()
                else Counter()
            )
            again = {number for number, count in asked.items() if count > 1}
            assert not again & before, "a row that was handed out was asked again"
            if (place / "a acknowledged").exists():
                before = set((place / "a acknowledged").read_text().split()) - again
            if all(status == 0 for status in statuses) or killed >= kills:
                break
        for prefix in ("a ", "b "):
            _, status = os.waitpid(in_child(partial(run_and_log, place, rows, prefix=prefix)), 0)
            assert status == 0
            assert (place / f"{prefix}out.jsonl").read_bytes() == expected


@needs_fork
def test_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_often(tmp_path, 10, 60, seed=1)


@needs_fork
def test_many_kills_lose_nothing(tmp_path: Path, campaign: Iterable[int]) -> None:
    for seed in campaign:
        (tmp_path / str(seed)).mkdir()
        kill_often(tmp_path / str(seed), 100, 150, seed=seed)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no files without a name")
def test_nothing_is_left_of_a_run_without_files_that_is_killed(tmp_path: Path) -> None:
    def work() -> None:
        tempfile.tempdir = str(tmp_path)
        desk = create(Desk, ScriptedChatModel(lambda request: "team"))
        rows = map_rows(desk.team, ({"text": str(number)} for number in range(50)), max_concurrency=2)
        assert len([row for row in rows if row.value]) == 50
        assert len(list(rows)) == 50
        for row in map_rows(desk.team, [{"text": "a"}, {"text": "b"}]):
            assert row.value
            os.kill(os.getpid(), signal.SIGKILL)

    assert os.WTERMSIG(os.waitpid(in_child(work), 0)[1]) == signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


# --- kills, and servers that change between runs ---


class Grades(Protocol):
    @user_message("Grade {{text}}")
    def grade(self, text: str) -> int: ...


SERVERS = ("bad", "good", "limited")
FAILURES: tuple[Callable[[], Exception], ...] = (
    lambda: ModelServerError("down", status=503),
    lambda: ModelConnectionError("lost"),
    lambda: InvalidReplyError("half a reply"),
    lambda: RateLimitError("slowly", status=429),
)


def grade_rows(folder: Path, rows: int, server: str, seed: int, *, to: Path | None = None) -> None:
    """Map a method with a server that is bad, good or limited; some rows are refused by all of them."""
    chance = random.Random(seed)
    asked = os.open(folder / "asked", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    acknowledged = os.open(folder / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def answer(request: ChatRequest) -> str:
        number = int(request.messages[0].text.split()[-1])
        if server == "bad" and chance.random() < 0.9:
            if chance.random() < 0.01:
                raise AuthenticationError("the key is not valid", status=401)
            if chance.random() < 0.5:
                raise chance.choice(FAILURES)()
            return "I cannot say"
        if server == "limited" and chance.random() < 0.3:
            raise RateLimitError("slowly", status=429, retry_after=0.001)
        if number % 10 == 9:
            raise BadRequestError("refused", status=400)
        os.write(asked, f"{number}\n".encode())
        return str(number * 7)

    table = [{"id": number, "text": f"text {number}"} for number in range(rows)]
    desk = create(Grades, ScriptedChatModel(answer), budget=Budget(max_attempts=chance.choice((1, 3))))
    settings: Any = {"to": to} if to is not None else {}
    try:
        for row in map_rows(
            desk.grade, table, key="id", journal=folder / "journal", max_concurrency=4, **settings
        ):
            if row.error is None:
                os.write(acknowledged, f"{row.key}\n".encode())
    except RowsError:
        if to is not None:
            raise


def lines_of(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def kill_between_servers(folder: Path, kills: int, rows: int, seed: int) -> None:
    """Kill runs against changing servers; then the outcome is that of an undisturbed run."""
    chance = random.Random(seed)
    expected = folder / "expected.jsonl"
    (folder / "undisturbed").mkdir()
    _, status = os.waitpid(
        in_child(partial(grade_rows, folder / "undisturbed", rows, "good", seed, to=expected)), 0
    )
    assert status == 0
    killed = run = 0
    while killed < kills:
        run += 1
        place = folder / f"run {run}"
        place.mkdir()
        before: set[str] = set()
        for number in range(chance.randint(3, 12)):
            server = SERVERS[number % 3] if run % 2 else chance.choice(SERVERS)
            child = in_child(partial(grade_rows, place, rows, server, chance.randrange(10**6)))
            time.sleep(chance.uniform(0, 0.1))
            os.kill(child, signal.SIGKILL)
            killed += os.waitpid(child, 0)[1] != 0
            again = Counter(lines_of(place / "asked"))
            assert not {one for one, count in again.items() if count > 1} & before, "an answer was paid twice"
            before = {one for one in lines_of(place / "acknowledged") if again[one] == 1}
        _, status = os.waitpid(
            in_child(partial(grade_rows, place, rows, "good", seed, to=place / "out.jsonl")), 0
        )
        assert status == 0
        assert (place / "out.jsonl").read_bytes() == expected.read_bytes()


@needs_fork
def test_servers_may_change_between_runs_that_are_killed(tmp_path: Path) -> None:
    kill_between_servers(tmp_path, 6, 60, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_fork
def test_a_thousand_kills_with_changing_servers_change_nothing(tmp_path: Path) -> None:
    kill_between_servers(tmp_path, 1000, 150, seed=2)


@needs_fork
def test_many_kills_with_changing_servers_change_nothing(tmp_path: Path, campaign: Iterable[int]) -> None:
    for seed in campaign:
        (tmp_path / str(seed)).mkdir()
        kill_between_servers(tmp_path / str(seed), 50, 150, seed=seed)
