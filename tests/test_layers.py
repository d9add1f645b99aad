"""Imports go down or sideways without a cycle, never up; nothing below the edge imports the edge."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOOR = "aiservices"
EDGE = 7
FLOORS = {
    0: "output_parsers",
    1: "errors contents messages message_json requests strategy",
    2: "events models models.base scopes said render declare prompts streams returns parameters "
    "tool_parameters",
    3: "deltas gates flow through tools output_tool strategies ladder route budget",
    4: "tool_run toolbox plan wording stubs examples routing planning",
    5: "approval finish way asking conversation listening pipeline feedback mending retry",
    6: "fitting pieces methods service previewing",
}
FLOOR_OF = {f"aiservices.{name}": floor for floor, names in FLOORS.items() if floor for name in names.split()}


def floor_of(module: str) -> int:
    """0 for the parsers, then the floors; what no floor names is the edge."""
    return 0 if module.split(".")[0] == "output_parsers" else FLOOR_OF.get(module, EDGE)


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {
    module_of(file): file
    for package in ("output_parsers", "aiservices")
    for file in sorted((ROOT / package).rglob("*.py"))
}


@cache
def imports_of(module: str) -> frozenset[str]:
    """The modules of ours that a module imports, inside of functions too, but for type checkers alone."""
    tree = ast.parse(FILES[module].read_text("utf-8"))
    return frozenset(name for node in _imports(tree) for name in _imported(module, node) if name in FILES)


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for other in child.orelse:
                yield from _imports(other)
        else:
            yield from _imports(child)


def _imported(module: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    source = node.module or ""
    if node.level:
        package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        source = ".".join([*above, *filter(None, [node.module])])
    for alias in node.names:  # ``from .models import base`` imports a module, ``from .base import X`` a name
        inner = f"{source}.{alias.name}"
        yield inner if inner in FILES else source


def test_every_floor_names_modules_that_exist() -> None:
    assert sorted(name for name in FLOOR_OF if name not in FILES) == []


@pytest.mark.parametrize("module", [name for name in FILES if name.split(".")[0] == "output_parsers"])
def test_the_parsers_import_nothing_of_the_services(module: str) -> None:
    assert sorted(name for name in imports_of(module) if floor_of(name) > 0) == []


@pytest.mark.parametrize("module", [name for name in FILES if name != DOOR])
def test_no_import_goes_up(module: str) -> None:
    assert sorted(name for name in imports_of(module) if floor_of(name) > floor_of(module)) == []


@pytest.mark.parametrize("module", [name for name in FILES if name != DOOR and floor_of(name) < EDGE])
def test_nothing_below_the_edge_imports_the_door(module: str) -> None:
    assert DOOR not in imports_of(module)


@pytest.mark.parametrize("door", [DOOR, "output_parsers"])
def test_the_doors_import_nothing_before_a_name_is_asked_for(door: str) -> None:
    assert sorted(imports_of(door)) == []


@pytest.mark.parametrize("package", ["output_parsers", "aiservices"])
def test_no_imports_form_a_cycle(package: str) -> None:
    inside = [module for module in FILES if module.split(".")[0] == package]
    TopologicalSorter({module: imports_of(module) for module in inside}).prepare()


def test_imports_are_found_inside_functions_and_not_for_type_checkers() -> None:
    source = """
from .a import x
if TYPE_CHECKING:
    from .b import y
def function():
    from .c import z
    import aiservices.d
"""
    found = [ast.unparse(node) for node in _imports(ast.parse(source))]
    assert found == ["from .a import x", "from .c import z", "import aiservices.d"]
