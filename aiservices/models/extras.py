"""Import the optional packages, which the extras of this package install."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .errors import MissingExtraError


def import_extra(module: str, extra: str, feature: str) -> Any:
    """Import an optional package, or raise MissingExtraError if it is not installed.

    Args:
        module: The module to import.
        extra: The extra of this package that installs it.
        feature: What needs it, such as "KeywordRetriever", for the message.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # another name is that of a dependency of the installed package
        if error.name not in (module, module.partition(".")[0]):
            raise
    raise missing_extra(module, extra, feature)


def require_extra(module: str, extra: str, feature: str) -> None:
    """Raise MissingExtraError if an optional package is not installed, without importing it."""
    if find_spec(module) is None:
        raise missing_extra(module, extra, feature)


def missing_extra(module: str, extra: str, feature: str) -> MissingExtraError:
    """Return the error for an optional package that is not installed."""
    package = module.partition(".")[0].replace("_", "-")
    message = f"{feature} needs the package {package}: install the extra {extra} of aiservices"
    return MissingExtraError(message, name=module.partition(".")[0])
