"""Text of a model cannot control the terminal on which it is printed."""

from __future__ import annotations

from io import StringIO

import pytest

from aiservices.cli.console import print_text


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("plain: äö 語 🙂\n\tin lines", "plain: äö 語 🙂\n\tin lines"),
        ("\x1b]0;title\x07\x1b[2Jgone\r", "␛]0;title␇␛[2Jgone␍"),
        ("\x7f and \x9b31m", "␡ and \ufffd31m"),
    ],
)
def test_control_characters_are_visible_symbols_on_a_terminal(text: str, visible: str) -> None:
    terminal = Terminal()
    print_text(text, file=terminal)
    assert terminal.getvalue() == f"{visible}\n"


def test_a_file_gets_the_text_unchanged() -> None:
    file = StringIO()
    print_text("\x1b[31mred", end="", file=file)
    assert file.getvalue() == "\x1b[31mred"
