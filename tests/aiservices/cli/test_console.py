"""What a model says does not steer the terminal."""

from __future__ import annotations

from io import StringIO

import pytest

from aiservices.cli.console import say


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("plain: äö 語 🙂\n\tin lines", "plain: äö 語 🙂\n\tin lines"),
        ("\x1b]0;title\x07\x1b[2Jgone\r", "␛]0;title␇␛[2Jgone␍"),
        ("\x7f and \x9b31m", "␡ and \ufffd31m"),
    ],
)
def test_control_characters_are_shown_as_signs_on_a_terminal(said: str, seen: str) -> None:
    terminal = Terminal()
    say(said, file=terminal)
    assert terminal.getvalue() == f"{seen}\n"


def test_a_file_gets_the_text_as_it_is() -> None:
    file = StringIO()
    say("\x1b[31mred", end="", file=file)
    assert file.getvalue() == "\x1b[31mred"
