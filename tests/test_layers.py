"""Folders are layers: imports, those for type checkers included, go to the same folder or a lower one."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
# From low to high. A folder that is not listed belongs to the one above it.
PARSERS = "result json prose types parser json_schema profiles strict lint streaming text tool_calls"
SERVICES = """models models/http models/openai models/providers models/local interface tools engine
interceptors memory/stores memory service structured guardrails moderation retrieval skills synthesis agents
testing prices call_log remote integrations page rows cli"""
LAYERS = [f"output_parsers/{name}" for name in PARSERS.split()] + ["output_parsers"]
LAYERS += [f"aiservices/{name}" for name in SERVICES.split()] + ["aiservices"]
PATHS = [p for name in ("output_parsers", "aiservices") for p in (ROOT / name).rglob("*.py")]
FILES = {path.relative_to(ROOT).with_suffix(""): path for path in PATHS}


def imports(module: Path) -> set[Path]:
    found = set()
    for node in ast.walk(ast.parse(FILES[module].read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = Path(*module.parts[: -node.level]) if node.level else Path()
            source = base / (node.module or "").replace(".", "/")
            for target in (source / alias.name for alias in node.names):
                candidates = (target, target / "__init__", source, source / "__init__")
                found |= {next((path for path in candidates if path in FILES), module)}
    return found - {module}


def layer(module: Path) -> int:
    return next(LAYERS.index(str(folder)) for folder in module.parents if str(folder) in LAYERS)


def test_no_import_goes_up_and_none_is_in_a_cycle() -> None:
    graph = {module: imports(module) for module in FILES}
    upward = [f"{m} imports {i}" for m, targets in graph.items() for i in targets if layer(i) > layer(m)]
    assert upward == []
    TopologicalSorter(graph).prepare()  # raises CycleError
