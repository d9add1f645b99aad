"""A streamed value is shown on a terminal and erased at the end."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import Protocol

import pytest
from rich.console import Console

from aiservices import ScriptedChatModel, Stream, create, user_message
from aiservices.cli.call import show_live


@dataclass
class City:
    name: str
    people: int


class Guide(Protocol):
    @user_message("{{name}}")
    def city(self, name: str) -> Stream[City]: ...


def show_city(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> tuple[str, City]:
    written = StringIO()
    console = Console(file=written, force_terminal=terminal, width=60, _environ={"TERM": "xterm"})
    monkeypatch.setattr("aiservices.cli.call.stdout_console", lambda: console)
    stream = create(Guide, ScriptedChatModel(['{"name": "New York", "people": 8}'])).city("x")
    show_live(iter(stream))
    return written.getvalue(), stream.result().value


def test_a_terminal_shows_the_value_while_it_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    text, city = show_city(monkeypatch, terminal=True)
    assert '"people": 8' in text
    assert city == City("New York", 8)


def test_a_pipe_gets_nothing_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert show_city(monkeypatch, terminal=False) == ("", City("New York", 8))
