"""Folders are layers: imports go to the same folder or a lower one, also for type checkers and in strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# From low to high: folders, and modules that are a layer of their own. Others belong to their folder.
PARSERS = """lazy_regex backslashes result json prose number_words mentions quotes types parser json_schema
profiles strict lint streaming text tool_calls"""
SERVICES = """atomic_file text_encoding guesses spaceless_scripts models models/http models/openai
models/providers models/local models/registry models/fallback models/limits lazy_names
documents/pages documents/files documents/document interface tools decisions/calibration
journal engine decisions documents/splitting documents/merging documents/reading interceptors
memory/stores memory service structured_model guardrails moderation retrieval documents skills
synthesis agents prices call_log remote testing/case decisions/calibrate testing integrations
page rows"""
LAYERS = [f"output_parsers/{name}" for name in PARSERS.split()] + ["output_parsers"]
LAYERS += [f"aiservices/{name}" for name in SERVICES.split()] + ["aiservices"]
LAYERS += ["aiservices/cli", "aiservices/__main__"]
PATHS = [p for name in ("output_parsers", "aiservices") for p in (ROOT / name).rglob("*.py")]
FILES = {path.relative_to(ROOT).with_suffix(""): path for path in PATHS}


def find_module(name: str, module: Path) -> Path | None:
    """Return our module with a dotted name such as ``..models.base``, as used in a module; or None."""
    level = len(name) - len(name.lstrip("."))
    base = Path(*module.parts[:-level]) if level else Path()
    target = base / name.lstrip(".").replace(".", "/")
    return next((path for path in (target, target / "__init__") if path in FILES), None)


def imports(module: Path) -> set[Path]:
    """Return the modules that a module imports, or names in a table or a call of ``import_module``."""
    names: list[str] = []
    imported: set[Path | None] = set()
    for node in ast.walk(ast.parse(FILES[module].read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            package = "." * node.level + (node.module or "")
            separator = "." if node.module else ""
            for alias in node.names:
                submodule = find_module(f"{package}{separator}{alias.name}", module)
                imported.add(submodule or find_module(package, module))
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        else:
            names += named_modules(node)
    return {path for path in (*imported, *(find_module(n, module) for n in names)) if path} - {module}


def named_modules(node: ast.AST) -> list[str]:
    """Return the strings in a table or a call that may name a module, such as ``module:attribute``."""
    items: Sequence[ast.expr | None] = ()
    if isinstance(node, ast.Dict):
        items = (*node.keys, *node.values)
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        items = node.elts
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
        items = node.args
    texts = (item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str))
    names = (text.partition(":")[0] for text in texts)
    return [name for name in names if re.fullmatch(r"\.*([a-z_]\w*\.)*[a-z_]\w*", name) and "." in name]


def layer(module: Path) -> int:
    return next(LAYERS.index(str(path)) for path in (module, *module.parents) if str(path) in LAYERS)


def test_no_import_goes_up_and_none_is_in_a_cycle() -> None:
    graph = {module: imports(module) for module in FILES}
    upward = [f"{m} imports {i}" for m, targets in graph.items() for i in targets if layer(i) > layer(m)]
    assert upward == []
    TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("aiservices/__init__", "aiservices/testing/fake"),  # the table of model providers
        ("aiservices/__init__", "aiservices/service/create"),  # the table of public names
        ("aiservices/integrations/mcp/__init__", "aiservices/remote/calls"),
        ("aiservices/models/errors", "output_parsers/__init__"),  # an import statement
    ],
)
def test_modules_named_in_tables_and_import_statements_count(module: str, imported: str) -> None:
    assert Path(imported) in imports(Path(module))
