"""Finds the texts that stand as docstrings under the attributes of a class."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

from .hints import ancestry

__all__ = ["attribute_docs"]

_NOT_THE_USERS = ("builtins", "enum", "msgspec", "pydantic", "typing", "typing_extensions")


def attribute_docs(cls: type) -> dict[str, str]:
    """What is said under each attribute of a class and of its bases; empty where there is no source."""
    docs: dict[str, str] = {}
    for base in ancestry(cls):
        if base.__module__.partition(".")[0] not in _NOT_THE_USERS:
            docs |= _docs_in(base.__module__).get(base.__qualname__, {})
    return docs


@lru_cache(maxsize=256)
def _docs_in(module: str) -> dict[str, dict[str, str]]:
    """For each class of a module, by its qualified name, its attributes' docstrings."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return {}
    return {name: docs for name, body in _classes(tree, "") if (docs := _docs_of(body))}


def _classes(tree: ast.AST, prefix: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, node.body
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _classes(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.stmt):
            yield from _classes(node, prefix)


def _docs_of(body: list[ast.stmt]) -> dict[str, str]:
    docs: dict[str, str] = {}
    for statement, following in pairwise(body):
        if not isinstance(following, ast.Expr) or not isinstance(following.value, ast.Constant):
            continue
        targets: list[Any] = getattr(statement, "targets", [getattr(statement, "target", None)])
        if isinstance(following.value.value, str) and isinstance(targets[0], ast.Name):
            docs[targets[0].id] = inspect.cleandoc(following.value.value)
    return docs
