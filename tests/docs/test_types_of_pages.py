"""The programs of the documentation type-check, except for a list of known errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.running import ROOT, blocks_of
from docs.test_pages import FOREIGN, PAGES

# Programs of a page may define a name again, and interfaces have no bodies.
DISABLED = ("no-redef", "empty-body", "import-untyped", "import-not-found")
# Errors that stay, by page: parts of messages.
KNOWN = {
    "how-to/streams.md": ['"aclosing" cannot be "AsyncIterator[str]"'],  # iterators of methods have aclose
    "how-to/numbers-dates-choices.md": ["TypeForm[Never]", "Need type annotation"],  # mypy has no TypeForm
    "how-to/mcp.md": ["AccessToken", "AnyHttpUrl", "Incompatible return value"],  # short for the reader
    "how-to/cited-values.md": ["Need type annotation", "type-abstract"],
    "how-to/files.md": ['"SystemMessage" of'],
    "how-to/budgets.md": ['Item "None" of "Usage | None"'],
    "how-to/composition.md": ['Item "None" of "Usage | None"'],
    "how-to/low-level.md": ['Item "None" of "Usage | None"', "JsonSchemaFormat"],
    "telemetry.md": ["is not indexable"],
}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_programs_of_each_page_have_no_type_errors(tmp_path: Path) -> None:
    names = {}
    for page in [*PAGES, "README.md"]:
        programs = [
            block
            for block in blocks_of(page)
            if block.language == "python" and block.title not in FOREIGN and not block.title.endswith(".py")
        ]
        if programs and page not in ("tutorial.md", "testing.md"):  # of several modules, which pytest runs
            name = "page_" + re.sub(r"\W", "_", page)
            names[name] = page
            (tmp_path / f"{name}.py").write_text("\n\n".join(block.text for block in programs), "utf-8")
    command = [sys.executable, "-m", "mypy", "--check-untyped-defs", "--no-error-summary", "--config-file="]
    command += ["--python-version=3.11", f"--cache-dir={tmp_path / 'cache'}"]
    command += [f"--disable-error-code={code}" for code in DISABLED]
    environment = os.environ | {"MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *sorted(f"{name}.py" for name in names)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    unknown = []
    for line in errors:
        page = names[line.partition(".py")[0]]
        if not any(part in line for part in KNOWN.get(page, [])):
            unknown.append(f"{page}: {line.partition(': error: ')[2]}")
    assert (unknown, done.stderr) == ([], "")
