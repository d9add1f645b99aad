"""The notebooks run from the first cell to the last, and are stored without outputs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "samples" / "notebooks").glob("*.ipynb"))
# What the last lines of each notebook print, with the answers that are in it.
PRINTED = {
    "cited_values": "2 quotes are marked in contract.html",
    "first_steps": "cannot read the reply",
    "tables": "1 request for the new row",
}


def code_of(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def program_of(notebook: Path) -> str:
    """Return the cells as one program that prints the last expression of each, as a notebook does."""
    parts = []
    for code in code_of(notebook):
        tree = ast.parse(code)
        last = tree.body[-1]
        if isinstance(last, ast.Expr):
            tree.body[-1] = ast.parse(f"print({ast.unparse(last)})").body[0]
        parts.append(ast.unparse(tree))
    return "\n".join(parts)


def test_there_are_three_notebooks_without_outputs() -> None:
    assert [one.stem for one in NOTEBOOKS] == list(PRINTED)
    for notebook in NOTEBOOKS:
        data = json.loads(notebook.read_text("utf-8"))
        assert (data["nbformat"], len({cell["id"] for cell in data["cells"]})) == (4, len(data["cells"]))
        assert [cell for cell in data["cells"] if cell.get("outputs") or cell.get("execution_count")] == []


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_an_empty_folder(notebook: Path, tmp_path: Path) -> None:
    if notebook.stem == "tables":
        pytest.importorskip("pandas", reason="pandas is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "AISERVICES_MODEL"}
    done = subprocess.run(
        [sys.executable, "-c", program_of(notebook)],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert PRINTED[notebook.stem] in done.stdout
