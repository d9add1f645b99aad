"""The command ``agent-skills``: the skills for coding agents that the package contains."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from .errors import UsageError

FOLDER = Path(__file__).parents[1] / "agent_skills"
_AGENT_FOLDERS = (".agents/skills", ".claude/skills")
_DESCRIPTION = re.compile(r"^description: (.+)$", re.MULTILINE)


def agent_skills(*, install: bool, to: Path | None, as_json: bool) -> None:
    """List the skills, or copy them into the folder in which a coding agent looks for skills."""
    if to is not None and not install:
        raise UsageError("--to is an option of --install; write --install --to FOLDER")
    target = (to or _agent_folder()) if install else FOLDER
    skills = sorted(path for path in FOLDER.iterdir() if path.is_dir())
    if install:
        for path in skills:
            shutil.copytree(path, target / path.name, dirs_exist_ok=True)
    descriptions = {path.name: _description(path) for path in skills}
    if as_json:
        print(json.dumps({"folder": str(target), "skills": descriptions}))
        return
    print(f"{'Installed in' if install else 'Skills in'} {target}:")
    for name, description in descriptions.items():
        print(f"- {name}: {description}")


def _description(path: Path) -> str:
    match = _DESCRIPTION.search((path / "SKILL.md").read_text("utf-8"))
    return match[1] if match else ""


def _agent_folder() -> Path:
    """Return the skills folder of the agent that is used in the current folder."""
    used = [path for path in map(Path, _AGENT_FOLDERS) if path.parent.is_dir()]
    return used[0] if used else Path(_AGENT_FOLDERS[0])
