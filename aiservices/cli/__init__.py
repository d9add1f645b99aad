"""The ``aiservices`` command line, which shows, calls, checks, calibrates and serves services."""

from __future__ import annotations

import sys

from ..models.errors import install_command

__all__ = ["main"]

_REQUIRED_PACKAGES = ("typer", "rich")


def main() -> None:
    """Run the command line with this process's arguments, and exit with its exit code.

    Needs the extra ``cli``; without it the exit code is 1, and standard error says what to install.
    """
    # Imported here, so that a missing package is reported with the name of its extra.
    try:
        from .main import application
    except ModuleNotFoundError as error:
        if error.name not in _REQUIRED_PACKAGES:
            raise
        print(
            f"aiservices: the command line needs {error.name}, which is not installed: "
            + install_command("cli"),
            file=sys.stderr,
        )
        sys.exit(1)
    application(prog_name="aiservices")
