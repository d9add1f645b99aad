"""The pages that docs/generated.py makes, and what pages quote from the code, agree with the code."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from docs.running import DOCS, ROOT


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("docs_generated", DOCS / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def nav() -> Any:
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("", lambda loader, suffix, node: None)
    return yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader)["nav"]


def test_the_messages_are_grouped_by_class_with_dots_for_what_differs(generated: ModuleType) -> None:
    page = generated.messages_page()
    groups = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert "- `no API key; set OPENAI_API_KEY" not in page
    assert "- `budget exceeded: …;" in groups["BudgetExceededError"]
    assert "annotate the type of the answer" in groups["DefinitionError"]
    assert "AssertionError" not in groups
    assert page.count("\n- `") > 500


def test_each_difference_of_the_parity_table_is_on_the_page(generated: ModuleType) -> None:
    table = (ROOT / "tests" / "parity" / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| .* \| differs: .* \|$", table, re.MULTILINE)
    page = generated.differences_page()
    assert len(re.findall(r"^\| (?!There|---)", page, re.MULTILINE)) == len(rows) > 50


def test_each_page_is_in_the_navigation_and_in_llms_txt(generated: ModuleType, nav: Any) -> None:
    pages = list(generated._pages_of(nav))
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert written - set(pages) == set()
    texts = {path: generated._text_of(path) for path in pages}
    index = generated.index_for_models(nav, texts)
    assert re.findall(r"^- \[.+\]\((.+)\.html\): .{10}", index, re.MULTILINE) == [
        page.removesuffix(".md") for page in pages
    ]
    whole = generated.text_for_models(texts)
    assert "# Use tools\n" in whole
    assert "\n::: " not in whole


def test_the_troubleshooting_page_quotes_messages_of_the_code() -> None:
    texts = []
    for package in ("aiservices", "output_parsers"):
        for path in (ROOT / package).rglob("*.py"):
            texts += [
                node.value
                for node in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            ]
    code = "\n".join(texts)
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "troubleshooting.md").read_text("utf-8"), re.MULTILINE)
    quotes = [quote for row in rows for quote in re.findall(r"`([^`]{12,})`", row)]
    separators = re.compile(r"…|\{\{x\}\}|\d{3} |OPENAI_API_KEY|the reply|base_url")
    parts = [part.strip(' :;,"[]') for quote in quotes for part in separators.split(quote)]
    assert len(quotes) > 10
    assert [part for part in parts if len(part) > 3 and part not in code] == []


def test_the_versions_page_names_the_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = [re.split(r"[>=\[]", dependency)[0] for dependency in project["dependencies"]]
    page = Path(DOCS / "versions.md").read_text("utf-8")
    assert [name for name in names if f"`{name}`" not in page] == []
