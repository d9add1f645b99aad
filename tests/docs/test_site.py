"""The site is built without a warning, asks no other host, and shows every public name."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.running import DOCS, ROOT

DOORS = """
aiservices aiservices.agents aiservices.call_log aiservices.guardrails aiservices.integrations.fastapi
aiservices.integrations.mcp aiservices.integrations.otel aiservices.memory aiservices.moderation
aiservices.prices aiservices.retrieval aiservices.structured aiservices.synthesis aiservices.testing
output_parsers output_parsers.lint output_parsers.text output_parsers.tool_calls
""".split()
FETCHED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?(https?:[^"'\s>]+)""")
QUOTED_EXAMPLE = re.compile(r"<blockquote>\s*<blockquote>")


def test_the_site_has_each_page_and_name_and_asks_no_other_host(tmp_path: Path) -> None:
    """One test, since building it takes most of the time."""
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("material")
    build(tmp_path)
    pages = {path.relative_to(tmp_path): path.read_text("utf-8") for path in tmp_path.rglob("*.html")}
    written = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert written - set(pages) == set()
    assert {address for text in pages.values() for address in FETCHED.findall(text)} == set()
    styles = "".join(path.read_text("utf-8") for path in tmp_path.rglob("*.css"))
    assert re.findall(r"url\(['\"]?https?:", styles) == []
    assert list(tmp_path.rglob("*.py")) == []
    reference = "".join(text for path, text in pages.items() if path.parts[0] == "reference")
    assert QUOTED_EXAMPLE.findall(reference) == []
    assert sorted(offered() - set(re.findall(r'<h3 id="([\w.]+)"', reference))) == []


def build(folder: Path) -> None:
    """What ``make docs`` does, into a folder: a warning ends it with an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=110, env=environment, check=False
    )
    assert built.returncode == 0, built.stderr


def offered() -> set[str]:
    """The public names; what both packages have is described with the one that defines it."""
    names = {f"{door}.{name}" for door in DOORS for name in importlib.import_module(door).__all__}
    shared = set(importlib.import_module("output_parsers").__all__) - {"Description"}
    return names - {f"aiservices.{name}" for name in shared}
