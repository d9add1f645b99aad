"""Imports the module that a user names: by its dotted name, or by the path of its file."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
from contextlib import redirect_stdout
from difflib import get_close_matches
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import aiservices
import output_parsers

from .failures import Mistake

__all__ = ["module_named"]

# What a module stands on: the line at fault is seldom there, but in the one that called it.
_PLACES = ("stdlib", "platstdlib", "purelib", "platlib")
_LIBRARIES = (
    "<frozen ",
    *(sysconfig.get_path(name) + os.sep for name in _PLACES),
    *(package.__path__[0] + os.sep for package in (aiservices, output_parsers)),
)


def module_named(name: str) -> ModuleType:
    """The module ``shop.services`` or ``shop/services.py``, as seen from the current folder.

    A file within packages is imported by its whole name, so that its relative imports work. Raises Mistake
    when there is none, and when it cannot be imported.
    """
    if name.endswith(".py") or "/" in name or os.sep in name:
        return _of_file(Path(name))
    return _imported(name, Path.cwd())


def _of_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise Mistake(f"there is no file {path}")
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts[-1] == "__init__":
        parts.pop()
    module = _imported(".".join(parts), folder)
    if Path(module.__file__ or "").resolve() != path:
        raise Mistake(
            f"{path} would be imported as {module.__name__}, which is {module.__file__ or 'built in'}; "
            "give the file another name"
        )
    return module


def _imported(name: str, folder: Path) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        with redirect_stdout(sys.stderr):  # what a module prints is not what the command tells
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise Mistake(f"the module {name} cannot be imported: {_raised(error)}") from error
        close = _meant(error.name, folder)
        raise Mistake(f"there is no module {error.name}, as seen from {folder}{close}") from error
    except (Exception, SystemExit) as error:  # the module may do anything
        raise Mistake(f"the module {name} cannot be imported: {_raised(error)}") from error


def _meant(name: str, folder: Path) -> str:
    """The module of that package, or of the folder, whose name is close."""
    package, _, last = name.rpartition(".")
    places = list(getattr(sys.modules.get(package), "__path__", ())) if package else [str(folder)]
    close = get_close_matches(last, [found.name for found in iter_modules(places)], 1)
    return f"; did you mean {package}{'.' if package else ''}{close[0]}?" if close else ""


def _raised(error: BaseException) -> str:
    """What a module raised, and the last line of the program, and of no library, that led there."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"
    steps = traceback.extract_tb(error.__traceback__)
    own = [step for step in steps if not step.filename.startswith(_LIBRARIES)]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{where}"
