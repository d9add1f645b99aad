"""The ``aiservices`` command line, with commands to show, call, check and serve services."""

from __future__ import annotations

import sys

__all__ = ["main"]

_REQUIRED_PACKAGES = ("typer", "rich")


def main() -> None:
    """Run the command line with the arguments of the process, and end the process with its exit code.

    Needs the extra ``cli``; without it the exit code is 2, and standard error says what to install.
    """
    # Imported here, so that a missing package is reported with the name of its extra.
    try:
        from .main import application
    except ModuleNotFoundError as error:
        if error.name not in _REQUIRED_PACKAGES:
            raise
        print(
            f"aiservices: the command line needs {error.name}, which is not installed: "
            "pip install 'aiservices[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    application(prog_name="aiservices")
