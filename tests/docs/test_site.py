"""The site builds without warnings, loads nothing from other hosts, and documents every public name."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import FunctionType

import pytest
from docs.running import DOCS, ROOT

PUBLIC_MODULES = """
aiservices aiservices.agents aiservices.call_log aiservices.documents aiservices.guardrails
aiservices.integrations.dbos aiservices.integrations.fastapi aiservices.integrations.mcp
aiservices.integrations.otel aiservices.interceptors
aiservices.memory aiservices.moderation aiservices.page aiservices.prices aiservices.retrieval aiservices.rows
aiservices.skills aiservices.structured_model aiservices.synthesis aiservices.testing
output_parsers output_parsers.lint output_parsers.text output_parsers.tool_calls
""".split()
FETCHED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?(https?:[^"'\s>]+)""")
QUOTED_EXAMPLE = re.compile(r"<blockquote>\s*<blockquote>")


@pytest.mark.slow
def test_the_site_has_each_page_and_name_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    """A single test, because building the site takes most of the time."""
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
    assert sorted(public_names() - set(re.findall(r'<h3 id="([\w.]+)"', reference))) == []
    assert sorted(public_members() - set(re.findall(r'<h\d id="([\w.]+)"', reference))) == []


def build(folder: Path) -> None:
    """Build the site into a folder, as ``make docs`` does. A warning is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=110, env=environment, check=False
    )
    assert built.returncode == 0, built.stderr


def public_names() -> set[str]:
    """Return the public names; a name of several modules is documented in the module that it comes from."""
    names = {
        f"{module}.{name}" for module in PUBLIC_MODULES for name in importlib.import_module(module).__all__
    }
    homes = [module for module in PUBLIC_MODULES if module != "aiservices"]
    shared = {name for module in homes for name in importlib.import_module(module).__all__}
    return names - {f"aiservices.{name}" for name in shared - {"Description"}}


def public_members() -> set[str]:
    """Return the public methods and properties of public classes, with the classes that readers see them in.

    Members that a class inherits from another public class are documented there.
    """
    names = public_names()
    classes: dict[str, type[object]] = {}
    for name in names:
        module, _, last = name.rpartition(".")
        thing = getattr(importlib.import_module(module), last)
        if isinstance(thing, type):
            classes[name] = thing
    public = set(classes.values())
    members = set()
    for name, cls in classes.items():
        for owner in cls.__mro__:
            is_ours = owner.__module__.partition(".")[0] in ("aiservices", "output_parsers")
            if is_ours and (owner is cls or owner not in public):
                members |= {
                    f"{name}.{member}" for member in vars(owner) if is_documented(vars(owner), member)
                }
    return members


def is_documented(members: Mapping[str, object], name: str) -> bool:
    kinds = (FunctionType, property, cached_property, classmethod, staticmethod)
    return name[0] != "_" and isinstance(members[name], kinds)
