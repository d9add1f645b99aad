"""The command ``agent-skills`` lists and installs skills, whose programs run as they are."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from aiservices.cli.agent_skills import FOLDER
from aiservices.skills import Skill

from .conftest import CommandRun

SKILLS = ["move-from-instructor", "move-from-langchain", "move-from-pydantic-ai", "use-aiservices"]


def test_the_skills_are_listed_with_their_descriptions(run: CommandRun) -> None:
    result = run("agent-skills", "--json")
    listed = json.loads(result.out)
    assert listed["folder"] == str(FOLDER)
    assert listed["skills"] == {name: Skill.read(FOLDER / name).description for name in SKILLS}
    assert "- use-aiservices: Write Python programs" in run("agent-skills").out


@pytest.mark.parametrize(
    ("existing", "target"),
    [("", ".agents/skills"), (".claude", ".claude/skills"), (".agents .claude", ".agents/skills")],
)
def test_skills_are_installed_where_an_agent_looks_for_them(
    run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existing: str, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in existing.split():
        (tmp_path / name).mkdir()
    for _ in range(2):  # the second time replaces the files
        assert run("agent-skills", "--install").out.splitlines()[0] == f"Installed in {Path(target)}:"
    assert sorted(path.name for path in (tmp_path / target).iterdir()) == SKILLS
    copied = (tmp_path / target / "use-aiservices" / "SKILL.md").read_text("utf-8")
    assert copied == (FOLDER / "use-aiservices" / "SKILL.md").read_text("utf-8")


def test_a_folder_for_the_skills_can_be_named(run: CommandRun, tmp_path: Path) -> None:
    assert run("agent-skills", "--install", "--to", str(tmp_path / "new")).code == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == SKILLS
    result = run("agent-skills", "--to", str(tmp_path))
    assert (result.code, result.err.strip()) == (
        2,
        "error: --to is an option of --install; write --install --to FOLDER",
    )


@pytest.mark.parametrize("name", SKILLS)
def test_the_programs_of_a_skill_run_with_the_fake_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (FOLDER / name / "SKILL.md").read_text("utf-8")
    program = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    (tmp_path / "program.py").write_text(program, "utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path("program.py", run_name="__main__")
    assert capsys.readouterr().out


def test_the_names_in_the_table_of_a_skill_can_be_imported_from_there() -> None:
    text = (FOLDER / "use-aiservices" / "SKILL.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| (`.*?) \|$", text, re.MULTILINE)
    imports = [
        f"from {module} import {name}\n" for module, names in rows for name in re.findall(r"`(\w+)`", names)
    ]
    assert len(imports) > 60
    exec("".join(imports), {})
