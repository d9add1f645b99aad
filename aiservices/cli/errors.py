"""The command line's exceptions and exit codes, and how errors are reported.

Every command imports this module, even ``--help``. It does not import rich or the library, so that commands
start quickly.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from enum import IntEnum

import typer


class ExitCode(IntEnum):
    """The exit codes of the command line.

    Attributes:
        DONE: Success.
        FAILED: The call failed, the check found problems, or something is missing, such as weights.
        USAGE: The command line or the definition of the service is wrong.
        STOPPED: The user pressed Ctrl+C.
    """

    DONE = 0
    FAILED = 1
    USAGE = 2
    STOPPED = 130


class UsageError(Exception):
    """Raised if the command line is wrong; the message says how to correct it."""


class CommandFailedError(Exception):
    """Raised if a correctly written command fails, for example because a package is missing."""


@contextmanager
def report_errors(
    *, debug: bool, as_json: bool = False, wording: Callable[[str], str] = str
) -> Iterator[None]:
    """Context manager that prints errors to standard error and ends the command with an exit code.

    ``debug`` also prints the traceback. ``as_json`` also writes the error as JSON to standard output.
    ``wording`` changes the message, for example from the names of Python parameters to those of options.
    """
    try:
        yield
    except (typer.Exit, typer.Abort):  # the normal ways to end a command
        raise
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        raise typer.Exit(ExitCode.STOPPED) from None
    except BrokenPipeError:  # the reader closed the pipe, as head does; typer ends the command quietly
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        if as_json:
            print(json.dumps({"error": {"type": type(error).__name__, "message": str(error)}}))
        # Imported late, because it imports rich and the library.
        from .console import print_text

        print_text(f"error: {wording(_message_of(error))}", file=sys.stderr)
        raise typer.Exit(_exit_code_of(error)) from None


def _exit_code_of(error: Exception) -> ExitCode:
    from ..models.errors import DefinitionError

    if isinstance(error, DefinitionError):
        return ExitCode.FAILED if error.unavailable else ExitCode.USAGE
    return ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.FAILED


def _message_of(error: Exception) -> str:
    from ..models.errors import AiServiceError

    # Messages of these errors are written for users. Other errors are unexpected, so their type is shown.
    if isinstance(error, (UsageError, CommandFailedError, AiServiceError)):
        return str(error)
    return f"{type(error).__name__}: {error} (--debug shows where)"


def suggestion(name: str, valid_names: Sequence[str]) -> str:
    """Return text to append to an error about an unknown name: the closest match, or all valid names."""
    matches = get_close_matches(name, valid_names, 1)
    if matches:
        return f"; did you mean {matches[0]}?"
    return f"; there are: {', '.join(valid_names)}" if valid_names else ""
