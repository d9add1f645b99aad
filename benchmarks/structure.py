"""``python -m benchmarks.structure``: figures about how easy the two packages are to read.

``--list`` also prints the functions, classes and modules with the highest figures.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from radon.complexity import cc_visit_ast
from radon.visitors import Function

from tests.test_layers import FILES, imports, layer

from .call_functions import call_counts

# Words that do not say what a value is, and metaphors for which the glossary has a plain term.
UNCLEAR_WORDS = """said told taken asked shown found known given around through aside beside kept meant
held heard standing rung ladder wire gate gates floor door spine ledger""".split()
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """A module of the two packages.

    Attributes:
        path: Its path without ``.py``.
        lines: The number of its lines.
        tokens: Its tokens.
        tree: Its syntax tree.
    """

    path: Path
    lines: int
    tokens: list[tokenize.TokenInfo]
    tree: ast.Module

    @property
    def name_count(self) -> Counter[str]:
        """How often each name occurs in the code."""
        return Counter(token.string for token in self.tokens if token.type == tokenize.NAME)

    @property
    def code_lines(self) -> int:
        """The number of lines of code, without docstrings, comments and empty lines."""
        code = {
            line
            for token in self.tokens
            if token.type not in (*_LAYOUT, tokenize.ENDMARKER)
            for line in range(token.start[0], token.end[0] + 1)
        }
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.Module | ast.ClassDef | _Function)
                and ast.get_docstring(node) is not None
            ):
                code.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        return len(code)

    def complexities(self) -> Iterator[tuple[int, str]]:
        """Yield the cyclomatic complexity of each function."""
        blocks = cc_visit_ast(self.tree)
        functions = {(one.lineno, one.fullname): one for one in blocks if isinstance(one, Function)}
        for one in functions.values():
            yield one.complexity, f"{self.path}.py:{one.lineno} {one.fullname}"

    def classes(self) -> Iterator[ast.ClassDef]:
        """Yield the classes."""
        yield from (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))


def read_modules() -> list[Module]:
    """Return the modules of the two packages."""
    modules = []
    for path, file in FILES.items():
        source = file.read_text("utf-8")
        tokens = list(tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__))
        modules.append(Module(path, source.count("\n"), tokens, ast.parse(source)))
    return modules


def documented(modules: list[Module]) -> tuple[int, int]:
    """Count the public functions, and those with a docstring of their own or of the method they override."""
    classes = {node.name: node for module in modules for node in module.classes()}
    count = with_docstring = 0
    for module in modules:
        scopes: list[ast.Module | ast.ClassDef] = [module.tree, *module.classes()]
        for scope in scopes:
            for node in scope.body:
                if isinstance(node, _Function) and not node.name.startswith("_") and not _is_overload(node):
                    count += 1
                    bases = _bases(scope, classes) if isinstance(scope, ast.ClassDef) else ()
                    methods = [_method(base, node.name) for base in bases]
                    with_docstring += any(one and ast.get_docstring(one) for one in (node, *methods))
    return count, with_docstring


def _is_overload(node: _Function) -> bool:
    return any(ast.unparse(one).endswith("overload") for one in node.decorator_list)


def _bases(cls: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    for base in cls.bases:
        name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
        if name in classes and name != cls.name:
            yield classes[name]
            yield from _bases(classes[name], classes)


def _method(cls: ast.ClassDef, name: str) -> _Function | None:
    return next((node for node in cls.body if isinstance(node, _Function) and node.name == name), None)


def unclear_names(tree: ast.AST) -> Counter[str]:
    """Count the defined names that contain a word from the list of unclear words.

    ``is_known``, ``NotFoundError`` and ``METHOD_NOT_FOUND`` are clear. Imports and the keyword arguments of
    calls are not definitions.
    """
    names: Counter[str] = Counter()
    for node in ast.walk(tree):
        name = getattr(node, "name", None) or getattr(node, "arg", None)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        if isinstance(name, str) and not isinstance(node, ast.alias | ast.keyword):
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
            words = re.sub(r"(?<![^_])(?:is_|are_|has_|was_|not_).*", "", words)
            names[name] += not set(words.split("_")).isdisjoint(UNCLEAR_WORDS)
    return names


def main(arguments: list[str]) -> None:
    modules = read_modules()
    folders = Counter(str(module.path.parent) for module in modules)
    print(f"{len(FILES)} files", *(f"  {n:3} {folder}" for folder, n in sorted(folders.items())), sep="\n")
    for count in call_counts():
        print(f"{count.case}: {len(count.functions)} functions in {count.files} files")
    upward = sum(layer(target) > layer(module) for module in FILES for target in imports(module))
    lines, code = sum(one.lines for one in modules), sum(one.code_lines for one in modules)
    comments = sum(token.type == tokenize.COMMENT for one in modules for token in one.tokens)
    anys = {str(one.path): one.name_count["Any"] for one in modules}
    complexities = sorted((pair for one in modules for pair in one.complexities()), reverse=True)
    methods = Counter(
        {
            f"{module.path} {cls.name}": sum(
                isinstance(node, _Function) and not _is_overload(node) for node in cls.body
            )
            for module in modules
            for cls in module.classes()
        }
    )
    public, with_docstring = documented(modules)
    names = sum((unclear_names(one.tree) for one in modules), Counter[str]())
    print(f"upward imports: {upward}")
    print(f"lines of code, without docstrings and comments: {code:,}")
    for limit in (15, 20):
        print(f"functions above complexity {limit}: {sum(n > limit for n, _ in complexities)}")
    print(f"classes above 20 methods: {sum(n > 20 for n in methods.values())}")
    print(f"Any per 1,000 lines: {sum(anys.values()) / lines * 1000:.1f}")
    print(f"comments per 100 lines of code: {comments / code * 100:.1f}")
    print(f"public functions with a docstring: {with_docstring / public:.0%}")
    print(f"definitions with private words: {sum(names.values())}", names.most_common(10))
    if "--list" in arguments:
        print("Complexity:", *(f"  {n:3} {name}" for n, name in complexities[:40]), sep="\n")
        print("Methods:", *(f"  {n:3} {name}" for name, n in methods.most_common(15)), sep="\n")
        print("Any:", *(f"  {n:3} {name}" for name, n in Counter(anys).most_common(20)), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
