"""The README is short, links in documents work, and docs/architecture.md names existing files."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import yaml

from aiservices import ScriptedChatModel, create, user_message

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)
GENERATED = {
    ROOT / "docs" / "move" / "langchain4j-differences.md",
    ROOT / "docs" / "reference" / "messages.md",
}  # by docs/generated.py, when the site is built


def test_the_readme_is_short_and_shows_the_output_of_its_programs() -> None:
    assert len(README.splitlines()) <= 90
    assert re.findall(r"^```(\w+)$", README, re.MULTILINE) == ["console", *["python", "text"] * 2]


def test_the_readme_does_not_claim_that_the_package_is_published() -> None:
    assert re.findall(r"pypi\.org|badge|on PyPI", README) == []


def test_the_figures_in_the_readme_are_in_the_benchmark_results() -> None:
    section = README.partition("**Little overhead.**")[2].partition("\n\n")[0]
    figures = re.findall(r"\b\d\.\d+\b", section)
    results = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    assert len(figures) == 2
    assert [figure for figure in figures if f"| {figure} |" not in results] == []


def test_the_interceptor_in_the_architecture_page_changes_the_answer() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {"replace": replace}
    exec(program, namespace)
    service = create(Greeter, ScriptedChatModel(["hello"]), interceptors=[namespace["shout"]])
    assert service.greet("Ada") == "HELLO"


class Greeter(Protocol):
    @user_message("Greet {{name}}.")
    def greet(self, name: str) -> str: ...


def test_links_lead_to_existing_files() -> None:
    broken = []
    for document in DOCUMENTS:
        path = ROOT / document
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
        paths = [(link, (path.parent / link).resolve()) for link in links]
        broken += [f"{document}: {link}" for link, at in paths if at not in GENERATED and not at.exists()]
    assert broken == []


def test_the_architecture_page_names_the_packages() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = text.partition("| Folder of aiservices | Content |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)/`", row.split("|")[1])}
    assert named == {path.parent.name for path in (ROOT / "aiservices").glob("*/__init__.py")}


def test_the_architecture_page_names_existing_files() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:aiservices|output_parsers|samples|tests|benchmarks)/[\w/.]*)`", text)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_workflows_run_make_targets_and_pin_their_actions() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text("utf-8")
        for target in re.findall(r"run: (.+)", text):
            name = target.removeprefix("make ")
            assert re.search(rf"^{name}:", makefile, re.MULTILINE), f"{path.name}: {target}"
        actions = re.findall(r"uses: (\S+)", text)
        assert actions
        assert [one for one in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []


def test_the_citation_has_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
