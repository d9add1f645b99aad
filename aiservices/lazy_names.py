"""Packages whose public names are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, names: Mapping[str, str], extras: Mapping[str, str]) -> Callable[[str], object]:
    """Return a function ``__getattr__`` for a package, which imports a public name when it is first used.

    Args:
        package: The name of the package.
        names: The public names of each module, separated by spaces.
        extras: The extras with the packages that these modules need, by the name of the package. If such a
            package is missing, the error names the extra.
    """
    modules = {name: module for module, texts in names.items() for name in texts.split()}

    def get_name(name: str) -> object:
        if name not in modules:
            from .guesses import missing_name

            raise missing_name(package, name, [*modules])
        try:
            module = import_module(modules[name], package)
        except ModuleNotFoundError as error:
            if error.name is None or error.name not in extras:
                raise
            from .models.errors import missing_extra

            raise missing_extra(error.name, extras[error.name], name) from None
        value = getattr(module, name)
        setattr(sys.modules[package], name, value)  # later accesses do not call this function
        return value

    return get_name
