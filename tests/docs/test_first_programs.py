"""The first program of each page runs alone, in a new process and a folder without other files."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from docs.running import ROOT, blocks_of, run_program
from docs.test_pages import FOREIGN, PAGES

# All models answer as "fake" does, so that no page needs a key.
SETUP = """
import os
from aiservices import FakeChatModel
from aiservices.models import registry

os.environ.update(dict.fromkeys("OPENAI_API_KEY ANTHROPIC_API_KEY GEMINI_API_KEY".split(), "key"))
registry._find_factory = lambda provider, name: lambda model: FakeChatModel(name=f"{provider}:{model}")
registry._embedded_model = lambda: "fake"
"""
# Programs that need more, by page: what they need, as their error says.
NEEDS = {
    "errors.md": "DefinitionError",  # shows an error
    "how-to/dbos.md": "No module named 'dbos'",
    "how-to/files.md": "there is no file 'receipt.png'",
    "how-to/retrieval.md": "text-embedding-3-small",  # an embedding model of OpenAI
    "how-to/skills.md": "skills: the folder cannot be read",  # a folder that the page shows
    "how-to/undo-tools.md": "tuple index out of range",  # "fake" calls no tools
}


def first_program(page: str) -> str | None:
    programs = [one for one in blocks_of(page) if one.language == "python" and one.title not in FOREIGN]
    return programs[0].text if programs else None


def problem_of(page: str, program: str, folder: Path) -> str:
    """Run a program as a user does; return the end of its error, or ""."""
    folder.mkdir(parents=True)
    done = run_program(SETUP + program, folder, {"PYTHONPATH": str(ROOT)}, timeout=60)
    return done.stderr[-2000:] if done.returncode else ""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_first_program_of_each_page_runs_alone(tmp_path: Path) -> None:
    programs = {page: text for page in [*PAGES, "README.md"] if (text := first_program(page))}
    with ThreadPoolExecutor(2) as pool:
        problems = dict(
            zip(
                programs,
                pool.map(lambda page: problem_of(page, programs[page], tmp_path / page), programs),
                strict=True,
            )
        )
    assert len(programs) > 60
    wrong = {page: text for page, text in problems.items() if text and NEEDS.get(page, "nothing") not in text}
    assert wrong == {}
    # "dbos" may be installed
    assert [page for page in NEEDS if not problems[page] and page != "how-to/dbos.md"] == []


def test_no_first_program_uses_a_name_of_another_program(tmp_path: Path) -> None:
    for page in [*PAGES, "README.md"]:
        program = first_program(page)
        if program is not None:
            (tmp_path / f"{page.replace('/', '_')}.py").write_text(program, "utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "All checks passed!\n")
