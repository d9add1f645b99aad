"""The store for SQLite."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_no_statement_has_numbered_parameters_which_python_3_14_refuses() -> None:
    numbered = re.compile(r"(?<=[\s(,=])\?\d")
    texts = {path: path.read_text("utf-8") for path in (ROOT / "aiservices").rglob("*.py")}
    assert [path.name for path, text in texts.items() if numbered.search(text)] == []
    assert numbered.search("VALUES (?1, ?2)")
