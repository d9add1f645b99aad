"""The README is one screen, links lead somewhere, and the map names what is there; see also tests/docs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from test_floors import FLOORS

from aiservices import ScriptedChatModel, create, user_message

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)


def test_the_readme_is_one_screen_with_one_example_and_its_output() -> None:
    assert len(README.splitlines()) <= 65
    assert re.findall(r"^```(\w+)$", README, re.MULTILINE) == ["console", "python", "text"]


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    told = README.partition("What it costs in time")[2].partition("\n\n`make demo`")[0]
    figures = re.findall(r"\b\d\.\d+\b", told)
    measured = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    assert len(figures) >= 3
    assert [figure for figure in figures if f"| {figure} |" not in measured] == []


def test_the_interceptor_of_the_map_changes_the_answer() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {"replace": replace}
    exec(program, namespace)
    service = create(Greeter, ScriptedChatModel(["hello"]), interceptors=[namespace["shout"]])
    assert service.greet("Ada") == "HELLO"


class Greeter(Protocol):
    @user_message("Greet {{name}}.")
    def greet(self, name: str) -> str: ...


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files_that_are_there(document: str) -> None:
    path = ROOT / document
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_map_has_the_floors_that_imports_are_held_to() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (\d) \| (.*?) \|", text, re.MULTILINE))
    shown = {
        int(floor): {name.strip("/") for name in re.findall(r"`(.*?)`", row)} for floor, row in rows.items()
    }
    floors = {floor: set(names.replace(".", "/").split()) - {"models"} for floor, names in FLOORS.items()}
    assert shown == floors


def test_the_map_names_the_packages_of_the_edge() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = text.partition("| Package | Job |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)/`", row.split("|")[1])}
    assert named == {path.parent.name for path in (ROOT / "aiservices").glob("*/__init__.py")}


def test_the_map_names_modules_that_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:aiservices|output_parsers|samples|tests|benchmarks)/[\w/.]*)`", text)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
