"""Without a terminal, progress is a line every 30 seconds."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Protocol

import pytest

from aiservices import ChatReply, ChatRequest, ScriptedChatModel, create, user_message
from aiservices.rows import Progress, map_rows
from aiservices.rows.progress import ProgressBar, ProgressLine, progress_callback


class Desk(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> str: ...


def test_without_a_terminal_there_is_a_line_each_30_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    line = ProgressLine(lambda: now)
    for step in range(1000):
        now = step / 10
        line(Progress(total=1000, rows=step, seconds=now))
    line.close()
    lines = capsys.readouterr().err.splitlines()
    assert [text.partition(" of")[0] for text in lines] == ["300", "600", "900"]
    assert lines[0] == "300 of 1,000 rows, 10.0 rows/s, 0 errors, 70.0 s left"


def test_the_setting_chooses_a_bar_only_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert isinstance(progress_callback(True), ProgressLine)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert isinstance(progress_callback(True), ProgressBar)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert isinstance(progress_callback(True), ProgressBar)


def test_progress_is_reported_while_no_row_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiservices.rows.runner._REPORT_SECONDS", 0.01)

    class Slow(ScriptedChatModel):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            await asyncio.sleep(0.6)
            return self.complete(request)

    seen: list[tuple[int, float]] = []
    rows: Any = map_rows(
        create(Desk, Slow(["yes"])).ask, ["a"], progress=lambda one: seen.append((one.rows, one.seconds))
    )
    rows.run()
    assert len([seconds for count, seconds in seen if count == 0]) >= 3
