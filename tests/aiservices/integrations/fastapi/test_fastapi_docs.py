"""The programs and tables of docs/fastapi.md are correct."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from aiservices.integrations.fastapi.problems import KINDS

DOCUMENT = Path(__file__).parents[4] / "docs" / "fastapi.md"


def test_the_code_of_the_page_prints_the_output_below_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    text = DOCUMENT.read_text("utf-8")
    module = ModuleType("the_document")
    monkeypatch.setitem(sys.modules, "the_document", module)  # annotations are resolved in this module
    for kind, code in re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL):
        if kind == "python":
            exec(compile("from __future__ import annotations\n" + code, str(DOCUMENT), "exec"), vars(module))
        else:
            assert capsys.readouterr().out == code


def test_the_page_lists_each_kind_of_problem_with_its_status() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*?) \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    listed = {(int(status), name) for status, names in rows for name in re.findall(r"`([a-z-]+)`", names)}
    assert listed == {(kind.status, kind.name) for kind in KINDS}
